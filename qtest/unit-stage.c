/*
 * Unit tests of the stage: what waits for a socket, and what is lent to it
 *
 * The socket is one end of a pair, the test reads at the other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <poll.h>
#include <sys/socket.h>

#include "hw/rnic/stage.h"

#define FRAME_MAX 65000
#define LITTLE 100
#define TOTAL (96 * 1024 * 1024)

typedef struct World {
    int fd[2];
    int lend_to;
    RnicStage stage;
    GRand *rand;
    uint64_t appended;
    uint64_t read;
    unsigned lent;              /* times */
    unsigned full;
} World;

static void world_init(World *w, bool lends, int buffer)
{
    *w = (World) { .rand = g_rand_new_with_seed(buffer + lends) };
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), ==, 0);
    for (int i = 0; i < 2; i++) {
        g_assert_cmpint(fcntl(w->fd[i], F_SETFL, O_NONBLOCK), ==, 0);
    }
    if (buffer) {
        g_assert_cmpint(setsockopt(w->fd[0], SOL_SOCKET, SO_SNDBUF, &buffer,
                                   sizeof(buffer)), ==, 0);
    }
    rnic_stage_init(&w->stage, lends ? w->fd[0] : -1);
}

static void world_cleanup(World *w)
{
    rnic_stage_cleanup(&w->stage);
    close(w->fd[0]);
    close(w->fd[1]);
    g_rand_free(w->rand);
}

/* The octet at @position of the stream; does not repeat with pages. */
static uint8_t octet_at(uint64_t position)
{
    return position ^ position / 251 ^ position / 65521;
}

static void append(World *w, size_t len)
{
    uint8_t *place = rnic_stage_append(&w->stage, len);

    for (size_t i = 0; i < len; i++) {
        place[i] = octet_at(w->appended + i);
    }
    w->appended += len;
}

/* As a stream does it. False: the socket has no room for all. */
static bool put(World *w)
{
    size_t waiting = rnic_stage_waiting(&w->stage);
    ssize_t n = rnic_stage_lend(&w->stage);

    if (n < 0 && errno == ENOTSUP) {
        n = send(w->fd[0], w->stage.octets + w->stage.head, waiting, 0);
    } else {
        w->lent++;
    }
    if (n < 0) {
        g_assert_cmpint(errno, ==, EAGAIN);
        n = 0;
    }
    rnic_stage_taken(&w->stage, n);
    return (size_t)n == waiting;
}

/* Up to @most octets, each looked at. */
static void get(World *w, size_t most)
{
    g_autofree uint8_t *octets = g_malloc(most);
    ssize_t n = read(w->fd[1], octets, most);

    for (ssize_t i = 0; i < n; i++) {
        if (octets[i] != octet_at(w->read + i)) {
            g_error("octet %" PRIu64 " is 0x%02x", w->read + i, octets[i]);
        }
    }
    w->read += MAX(n, 0);
}

static bool writable(World *w)
{
    struct pollfd p = { .fd = w->fd[0], .events = POLLOUT };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/*
 * What a stream waits for when it cannot go on. A stage that is full while the
 * socket says that it can be written to would never be waited for.
 */
static void wait_writable(World *w)
{
    do {
        get(w, g_rand_int_range(w->rand, 1, 200000));
    } while (!writable(w));
    rnic_stage_taken(&w->stage, 0);
    g_assert_false(rnic_stage_full(&w->stage));
}

/* Small frames together, large ones alone, as transmit.c does it. */
static void append_some(World *w)
{
    if (g_rand_boolean(w->rand)) {
        append(w, g_rand_int_range(w->rand, 5000, FRAME_MAX));
        return;
    }
    for (int i = g_rand_int_range(w->rand, 0, 500); i >= 0; i--) {
        append(w, g_rand_int_range(w->rand, 1, 200));
    }
}

static void run(World *w, bool eager_reader)
{
    while (w->appended < TOTAL) {
        if (rnic_stage_full(&w->stage)) {
            w->full++;
            wait_writable(w);
        }
        append_some(w);
        while (!put(w)) {
            wait_writable(w);
        }
        if (eager_reader) {
            get(w, g_rand_int_range(w->rand, 1, 100000));
        }
    }
    while (w->read < w->appended) {
        get(w, 1024 * 1024);
    }
}

static void check(bool lends, int buffer)
{
    for (int eager = 0; eager < 2; eager++) {
        World w;

        world_init(&w, lends, buffer);
        run(&w, eager);
        g_test_message("buffer %d, lent %u times, full %u times", buffer,
                       w.lent, w.full);
        g_assert_cmpint(w.lent > 0, ==, lends);
        if (!lends) {
            g_assert_cmpuint(w.full, ==, 0);
        }
        world_cleanup(&w);
    }
}

static void test_copies(void)
{
    check(false, 0);
}

static void test_lends(void)
{
    check(true, 0);
    check(true, 16 * 1024);
    check(true, 1024 * 1024);
}

/* A peer that does not read: nothing that it has not read is written over. */
static void test_held(void)
{
    World w;

    world_init(&w, true, 0);
    do {
        append(&w, FRAME_MAX);
    } while (put(&w) && !rnic_stage_full(&w.stage));
    g_assert_cmpuint(w.read, ==, 0);
    while (w.read < w.appended) {
        get(&w, 1000);
        if (rnic_stage_waiting(&w.stage)) {
            put(&w);
        }
    }
    world_cleanup(&w);
}

/* As much at once as may wait. */
static bool put_much(World *w)
{
    for (size_t left = RNIC_STAGE_SIZE; left > FRAME_MAX; ) {
        size_t len = g_rand_int_range(w->rand, 20000, FRAME_MAX);

        append(w, len);
        left -= len;
    }
    return put(w);
}

/* Always holds a little, so that the stage begins anew at its end only. */
static void put_until_anew(World *w)
{
    size_t before;

    do {
        before = w->stage.tail;
        g_assert_true(put_much(w));
        append(w, LITTLE);
        g_assert_true(put(w));
        get(w, w->appended - w->read - LITTLE);
    } while (w->stage.tail > before);
}

/* A whole round of the stage without a read, from where it began anew. */
static void test_round(void)
{
    World w;

    world_init(&w, true, 1024 * 1024);
    for (unsigned i = 0; i < 300; i++) {
        bool all = true;

        put_until_anew(&w);
        while (all && !rnic_stage_full(&w.stage)) {
            all = put_much(&w);
        }
        while (!all || rnic_stage_full(&w.stage)) {
            wait_writable(&w);
            all = put(&w);
        }
        get(&w, 1024 * 1024);
    }
    while (w.read < w.appended) {
        get(&w, 1024 * 1024);
    }
    world_cleanup(&w);
}

/* What is used little stays where it is, and does not grow. */
static void test_little(void)
{
    uint8_t *first, *last;
    World w;

    world_init(&w, true, 0);
    append(&w, 100);
    first = last = w.stage.octets;
    for (unsigned i = 0; i < 100000; i++) {
        g_assert_true(put(&w));
        get(&w, 1000);
        append(&w, 100);
        last = MAX(last, w.stage.octets + w.stage.tail);
    }
    g_assert_cmpint(last - first, <, 128 * 1024);
    world_cleanup(&w);
}

/* The other end is gone: an error of the socket, not of lending. */
static void test_end(void)
{
    World w;

    world_init(&w, true, 0);
    append(&w, FRAME_MAX);
    close(w.fd[1]);
    g_assert_cmpint(rnic_stage_lend(&w.stage), ==, -1);
    g_assert_cmpint(errno, ==, EPIPE);
    w.fd[1] = dup(w.fd[0]);
    world_cleanup(&w);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rnic/stage/copies", test_copies);
    g_test_add_func("/rnic/stage/lends", test_lends);
    g_test_add_func("/rnic/stage/held", test_held);
    g_test_add_func("/rnic/stage/round", test_round);
    g_test_add_func("/rnic/stage/little", test_little);
    g_test_add_func("/rnic/stage/end", test_end);
    return g_test_run();
}
