/*
 * Unit tests of the shared ring: octets, waits, and what a peer can break
 *
 * The layout is looked at from the side, as a peer would see it: the page that
 * precedes the octets has the sender's position and waits at 0 and 4, the
 * receiver's at 128 and 132 (rnic.rst).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/memfd.h"
#include "qemu/units.h"
#include <glib/gstdio.h>
#include <poll.h>
#include <sys/socket.h>

#include "hw/rnic/fabric/shared-ring.h"
#include "hw/rnic/fabric/unix-socket.h"

enum {
    HEAD = 0,
    SENDER_WAITS = 4,
    TAIL = 128,
    RECEIVER_WAITS = 132,

    SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
    LONGEST = 200000,
    PATIENCE_MS = 20000,
};

typedef struct Pair {
    RnicSharedRing *tx;
    RnicSharedRing *rx;
    uint8_t *page;              /* as a third one sees it, and the octets */
} Pair;

static size_t memory_size(void)
{
    return getpagesize() + RNIC_SHARED_RING_SIZE;
}

static void pair_init(Pair *p)
{
    int memory, bell;

    p->tx = rnic_shared_ring_create(&memory, &bell);
    g_assert_nonnull(p->tx);
    p->page = mmap(NULL, memory_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                   memory, 0);
    g_assert_true(p->page != MAP_FAILED);
    p->rx = rnic_shared_ring_open(memory, bell);
    g_assert_nonnull(p->rx);
}

static void pair_cleanup(Pair *p)
{
    munmap(p->page, memory_size());
    g_clear_pointer(&p->tx, rnic_shared_ring_free);
    g_clear_pointer(&p->rx, rnic_shared_ring_free);
}

static uint32_t word(const Pair *p, unsigned at)
{
    return qatomic_read((uint32_t *)(p->page + at));
}

static void set_word(Pair *p, unsigned at, uint32_t value)
{
    qatomic_set((uint32_t *)(p->page + at), value);
}

static bool rung(const RnicSharedRing *ring, int timeout)
{
    struct pollfd p = { .fd = rnic_shared_ring_bell(ring), .events = POLLIN };

    return poll(&p, 1, timeout) == 1;
}

static ssize_t put(RnicSharedRing *ring, const void *octets, size_t len)
{
    struct iovec iov = { (void *)octets, len };

    return rnic_shared_ring_write(ring, &iov, 1);
}

static ssize_t get(RnicSharedRing *ring, void *octets, size_t len)
{
    struct iovec iov = { octets, len };

    return rnic_shared_ring_read(ring, &iov, 1);
}

/* The octet at @position of the stream; does not repeat with pages. */
static uint8_t octet_at(uint64_t position)
{
    return position ^ position / 251 ^ position / 65521;
}

/* Three pieces, of which the middle one may have no octets. */
static unsigned cut(GRand *rand, uint8_t *octets, size_t len, struct iovec *iov)
{
    size_t a = g_rand_int_range(rand, 0, len + 1);
    size_t b = g_rand_boolean(rand) ? 0
                                    : g_rand_int_range(rand, 0, len - a + 1);

    iov[0] = (struct iovec) { octets, a };
    iov[1] = (struct iovec) { octets + a, b };
    iov[2] = (struct iovec) { octets + a + b, len - a - b };
    return 3;
}

/* What there is room for, with the octets that are in the ring. */
static size_t room_of(const Pair *p)
{
    return RNIC_SHARED_RING_SIZE - (word(p, HEAD) - word(p, TAIL));
}

/* ------------------------------------------------------- one after another */

static void put_random(Pair *p, GRand *rand, uint64_t *position)
{
    g_autofree uint8_t *octets = g_malloc(LONGEST);
    size_t len = g_rand_int_range(rand, 1, LONGEST);
    size_t room = room_of(p);
    struct iovec iov[3];
    ssize_t n;

    for (size_t i = 0; i < len; i++) {
        octets[i] = octet_at(*position + i);
    }
    n = rnic_shared_ring_write(p->tx, iov, cut(rand, octets, len, iov));
    g_assert_cmpint(n, ==, MIN(len, room));
    *position += n;
}

/* The same without a copy, if there is room for it. */
static void put_at_once(Pair *p, GRand *rand, uint64_t *position)
{
    size_t len = g_rand_int_range(rand, 1, LONGEST);
    size_t room = room_of(p);
    uint8_t *place = rnic_shared_ring_place(p->tx, len);
    uint32_t head = word(p, HEAD);

    g_assert_cmpint(place != NULL, ==, len <= room);
    if (place) {
        for (size_t i = 0; i < len; i++) {
            place[i] = octet_at(*position + i);
        }
        g_assert_cmphex(word(p, HEAD), ==, head);
        rnic_shared_ring_commit(p->tx, len);
        *position += len;
    }
}

static void get_random(Pair *p, GRand *rand, uint64_t *position)
{
    g_autofree uint8_t *octets = g_malloc(LONGEST);
    size_t len = g_rand_int_range(rand, 1, LONGEST);
    size_t filled = word(p, HEAD) - word(p, TAIL);
    struct iovec iov[3];
    ssize_t n;

    n = rnic_shared_ring_read(p->rx, iov, cut(rand, octets, len, iov));
    g_assert_cmpint(n, ==, MIN(len, filled));
    for (ssize_t i = 0; i < n; i++) {
        g_assert_cmphex(octets[i], ==, octet_at(*position + i));
    }
    *position += n;
}

static void test_octets(void)
{
    static void (*const steps[])(Pair *, GRand *, uint64_t *) = {
        put_random, put_at_once, get_random };
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    uint64_t written = 0, read = 0;
    Pair p;

    pair_init(&p);
    for (unsigned i = 0; i < 3000; i++) {
        int step = g_rand_int_range(rand, 0, G_N_ELEMENTS(steps));

        steps[step](&p, rand, step < 2 ? &written : &read);
        g_assert_cmphex(word(&p, HEAD), ==, (uint32_t)written);
        g_assert_cmphex(word(&p, TAIL), ==, (uint32_t)read);
    }
    g_assert_cmpuint(written, >, 20 * RNIC_SHARED_RING_SIZE);
    pair_cleanup(&p);
}

/* ------------------------------------------------------------------- waits */

static void test_receiver_waits(void)
{
    uint8_t octets[10] = { };
    Pair p;

    pair_init(&p);
    /* As if it had found nothing before it began. */
    g_assert_cmpuint(word(&p, RECEIVER_WAITS), ==, 1);
    g_assert_true(rnic_shared_ring_waits(p.rx));
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    g_assert_false(rung(p.rx, 0));
    rnic_shared_ring_tell(p.tx);
    g_assert_true(rung(p.rx, 0));
    g_assert_true(rnic_shared_ring_rung(p.rx));
    g_assert_false(rnic_shared_ring_waits(p.rx));

    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 1);
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    rnic_shared_ring_tell(p.tx);
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 1);
    g_assert_cmpuint(word(&p, RECEIVER_WAITS), ==, 1);
    /* Empty, but it has not said so: nobody would ring. */
    g_assert_false(rnic_shared_ring_waits(p.rx));

    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 0);
    g_assert_cmpuint(word(&p, RECEIVER_WAITS), ==, 2);
    g_assert_true(rnic_shared_ring_waits(p.rx));
    g_assert_false(rung(p.rx, 0));
    g_assert_nonnull(rnic_shared_ring_place(p.tx, 1));
    g_assert_false(rung(p.rx, 0));
    rnic_shared_ring_commit(p.tx, 1);
    g_assert_false(rung(p.rx, 0));
    rnic_shared_ring_tell(p.tx);
    g_assert_true(rung(p.rx, 0));
    g_assert_true(rnic_shared_ring_rung(p.rx));
    g_assert_false(rung(p.rx, 0));
    /* Once for each wait. */
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    rnic_shared_ring_tell(p.tx);
    g_assert_false(rung(p.rx, 0));
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 2);

    /* Of what was there before a wait as well. */
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 0);
    g_assert_nonnull(rnic_shared_ring_place(p.tx, 1));
    rnic_shared_ring_commit(p.tx, 1);
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    g_assert_false(rung(p.rx, 0));
    rnic_shared_ring_tell(p.tx);
    g_assert_true(rung(p.rx, 0));
    g_assert_true(rnic_shared_ring_rung(p.rx));
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, 2);
    /* Nobody has found it empty yet. */
    g_assert_false(rnic_shared_ring_waits(p.rx));
    pair_cleanup(&p);
}

/* While there is room for three times as much, it is told of a quarter. */
static void test_told_of_much(void)
{
    const uint32_t size = RNIC_SHARED_RING_SIZE;
    g_autofree uint8_t *octets = g_malloc0(size);
    Pair p;

    pair_init(&p);
    g_assert_cmpint(put(p.tx, octets, 1000), ==, 1000);
    g_assert_cmpint(put(p.tx, octets, size / 4 - 1001), ==, size / 4 - 1001);
    g_assert_false(rung(p.rx, 0));
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    g_assert_true(rung(p.rx, 0));
    g_assert_true(rnic_shared_ring_rung(p.rx));
    /* And that it may go on reading, as soon as it waits again. */
    g_assert_cmpint(get(p.rx, octets, size), ==, size / 4);
    g_assert_cmpint(get(p.rx, octets, size), ==, 0);
    g_assert_cmpint(put(p.tx, octets, size / 4 - 1), ==, size / 4 - 1);
    g_assert_false(rung(p.rx, 0));
    g_assert_cmpint(put(p.tx, octets, 1), ==, 1);
    g_assert_true(rung(p.rx, 0));
    pair_cleanup(&p);
}

static void test_sender_waits(void)
{
    g_autofree uint8_t *octets = g_malloc0(RNIC_SHARED_RING_SIZE + 1);
    uint32_t left = RNIC_SHARED_RING_SIZE;
    Pair p;

    pair_init(&p);
    g_assert_cmpint(put(p.tx, octets, RNIC_SHARED_RING_SIZE), ==,
                    RNIC_SHARED_RING_SIZE);
    g_assert_cmpuint(word(&p, SENDER_WAITS), ==, 0);
    g_assert_cmpint(put(p.tx, octets, 1), ==, 0);
    g_assert_cmpuint(word(&p, SENDER_WAITS), ==, 1);
    while (left > RNIC_SHARED_RING_SIZE / 2) {
        g_assert_false(rung(p.tx, 0));
        left -= get(p.rx, octets, 10000);
    }
    g_assert_true(rung(p.tx, 0));
    g_assert_true(rnic_shared_ring_rung(p.tx));
    g_assert_cmpint(put(p.tx, octets, RNIC_SHARED_RING_SIZE + 1), ==,
                    RNIC_SHARED_RING_SIZE - left);
    g_assert_cmpuint(word(&p, SENDER_WAITS), ==, 2);
    g_assert_false(rung(p.tx, 0));
    pair_cleanup(&p);
}

/* ------------------------------------------------------- two at a time */

typedef struct Work {
    Pair *p;
    uint64_t total;
    unsigned waits;
} Work;

static void wait_for(RnicSharedRing *ring)
{
    if (!rung(ring, PATIENCE_MS)) {
        g_error("nobody rings the bell");
    }
    g_assert_true(rnic_shared_ring_rung(ring));
}

/* Every octet is the number of the 4 KiB that it is in. */
static void *send_all(void *opaque)
{
    Work *w = opaque;
    g_autoptr(GRand) rand = g_rand_new_with_seed(2);
    g_autofree uint8_t *octets = g_malloc(1024 * 1024);
    uint64_t done = 0;

    while (done < w->total) {
        size_t len = MIN(w->total - done,
                         g_rand_int_range(rand, 1, 1024 * 1024));
        ssize_t n;

        for (size_t i = 0; i < len; i += 4096 - (done + i) % 4096) {
            octets[i] = (done + i) / 4096;
        }
        n = put(w->p->tx, octets, len);
        g_assert_cmpint(n, >=, 0);
        rnic_shared_ring_tell(w->p->tx);
        done += n;
        if ((size_t)n < len) {
            w->waits++;
            wait_for(w->p->tx);
        }
    }
    return NULL;
}

static void receive_all(Work *w)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(3);
    g_autofree uint8_t *octets = g_malloc(1024 * 1024);
    uint64_t done = 0;

    while (done < w->total) {
        ssize_t n = get(w->p->rx, octets, g_rand_int_range(rand, 1,
                                                           1024 * 1024));

        g_assert_cmpint(n, >=, 0);
        /* The first octet of each 4 KiB, unless an earlier read had that. */
        for (size_t i = (4096 - done % 4096) % 4096; i < n; i += 4096) {
            g_assert_cmphex(octets[i], ==, (uint8_t)((done + i) / 4096));
        }
        done += n;
        if (n == 0) {
            w->waits++;
            wait_for(w->p->rx);
        }
    }
}

/* Past 4 GiB: the positions begin again at zero. */
static void test_threads(void)
{
    const uint64_t total = 5 * GiB;
    Pair p;
    Work tx = { &p, total }, rx = { &p, total };
    GThread *thread;

    pair_init(&p);
    thread = g_thread_new("sender", send_all, &tx);
    receive_all(&rx);
    g_thread_join(thread);
    g_test_message("the sender waited %u times, the receiver %u times",
                   tx.waits, rx.waits);
    g_assert_cmpuint(word(&p, HEAD), ==, (uint32_t)total);
    g_assert_cmpuint(word(&p, TAIL), ==, (uint32_t)total);
    pair_cleanup(&p);
}

/* Little at a time: most of it is waiting. */
static void test_ping_pong(void)
{
    Pair there, back;
    uint8_t octet = 0;

    pair_init(&there);
    pair_init(&back);
    for (unsigned i = 0; i < 20000; i++) {
        g_assert_cmpint(get(there.rx, &octet, 1), ==, 0);
        g_assert_cmpint(put(there.tx, &octet, 1), ==, 1);
        rnic_shared_ring_tell(there.tx);
        g_assert_true(rung(there.rx, 0));
        g_assert_true(rnic_shared_ring_rung(there.rx));
        g_assert_cmpint(get(there.rx, &octet, 1), ==, 1);
        g_assert_cmpint(put(back.tx, &octet, 1), ==, 1);
        rnic_shared_ring_tell(back.tx);
        g_assert_true(rung(back.rx, 0));
        g_assert_true(rnic_shared_ring_rung(back.rx));
        g_assert_cmpint(get(back.rx, &octet, 1), ==, 1);
        g_assert_cmpint(get(back.rx, &octet, 1), ==, 0);
    }
    pair_cleanup(&there);
    pair_cleanup(&back);
}

/* --------------------------------------------------------------- the peer */

static void test_broken(void)
{
    uint8_t octets[100] = { };
    Pair p;

    pair_init(&p);
    set_word(&p, HEAD, RNIC_SHARED_RING_SIZE + 1);
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, -1);
    g_assert_cmpint(errno, ==, EPROTO);
    set_word(&p, HEAD, -1);
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, -1);
    g_assert_cmpint(errno, ==, EPROTO);
    set_word(&p, TAIL, 1);              /* more than was written */
    g_assert_cmpint(put(p.tx, octets, sizeof(octets)), ==, -1);
    g_assert_cmpint(errno, ==, EPROTO);
    g_assert_null(rnic_shared_ring_place(p.tx, 1));
    /* What an end has published it does not believe itself. */
    set_word(&p, TAIL, 0);
    set_word(&p, HEAD, 77);
    g_assert_cmpint(put(p.tx, octets, sizeof(octets)), ==, sizeof(octets));
    g_assert_cmpuint(word(&p, HEAD), ==, sizeof(octets));
    set_word(&p, TAIL, 12345);
    g_assert_cmpint(get(p.rx, octets, sizeof(octets)), ==, sizeof(octets));
    g_assert_cmpuint(word(&p, TAIL), ==, sizeof(octets));
    pair_cleanup(&p);
}

static void test_receiver_gone(void)
{
    g_autofree uint8_t *octets = g_malloc0(RNIC_SHARED_RING_SIZE);
    Pair p;

    pair_init(&p);
    g_assert_cmpint(put(p.tx, octets, RNIC_SHARED_RING_SIZE), ==,
                    RNIC_SHARED_RING_SIZE);
    g_assert_cmpint(put(p.tx, octets, 1), ==, 0);
    g_assert_false(rung(p.tx, 0));
    g_clear_pointer(&p.rx, rnic_shared_ring_free);
    g_assert_true(rung(p.tx, 0));
    g_assert_false(rnic_shared_ring_rung(p.tx));
    g_assert_cmpint(put(p.tx, octets, 1), ==, -1);
    g_assert_cmpint(errno, ==, EPIPE);
    pair_cleanup(&p);
}

static void test_sender_gone(void)
{
    g_autofree uint8_t *octets = g_malloc0(70000);
    Pair p;

    pair_init(&p);
    g_assert_cmpint(put(p.tx, octets, 70000), ==, 70000);
    rnic_shared_ring_tell(p.tx);
    g_clear_pointer(&p.tx, rnic_shared_ring_free);
    g_assert_cmpint(get(p.rx, octets, 70000), ==, 70000);
    g_assert_cmpint(get(p.rx, octets, 70000), ==, 0);
    g_assert_true(rnic_shared_ring_rung(p.rx));     /* for the octets */
    g_assert_true(rung(p.rx, 0));
    g_assert_false(rnic_shared_ring_rung(p.rx));
    pair_cleanup(&p);
}

/* A bell that never rings is not watched for ever. */
static void test_odd_bell(void)
{
    uint8_t octet;
    int memory, bell;
    RnicSharedRing *tx = rnic_shared_ring_create(&memory, &bell);
    RnicSharedRing *rx;

    close(bell);
    rx = rnic_shared_ring_open(memory, socket(AF_UNIX, SOCK_STREAM, 0));
    g_assert_nonnull(rx);
    g_assert_cmpint(get(rx, &octet, 1), ==, 0);
    g_assert_true(rung(rx, 0));
    g_assert_false(rnic_shared_ring_rung(rx));
    rnic_shared_ring_free(tx);
    rnic_shared_ring_free(rx);
}

/* --------------------------------------------------------------- refusals */

static int memory_of(off_t size, unsigned seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, size), ==, 0);
    g_assert_cmpint(fcntl(fd, F_ADD_SEALS, seals), ==, 0);
    return fd;
}

/* Of the right size, with more behind its end. */
static int memory_with_more(off_t size, off_t more)
{
    int fd = memory_of(size, 0);

    g_assert_cmpint(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size + more), ==, 0);
    g_assert_cmpint(fcntl(fd, F_ADD_SEALS, SEALS), ==, 0);
    return fd;
}

static int some_bell(void)
{
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    close(fds[0]);
    return fds[1];
}

/* Another thread closes it. */
static void expect_closed(int fd)
{
    for (unsigned ms = 0; fcntl(fd, F_GETFD) != -1; ms++) {
        g_assert_cmpuint(ms, <, PATIENCE_MS);
        g_usleep(1000);
    }
}

/* Takes both, as rnic_shared_ring_open() has to. */
static void refused(int memory, int bell)
{
    g_assert_null(rnic_shared_ring_open(memory, bell));
    g_assert_cmpint(errno, ==, EPROTO);
    expect_closed(memory);
    expect_closed(bell);
}

static void test_refused(void)
{
    const off_t page = getpagesize();

    refused(memory_of(page + 256 * KiB, F_SEAL_GROW), some_bell());
    refused(memory_of(page + 256 * KiB, F_SEAL_SHRINK), some_bell());
    refused(memory_with_more(page + 256 * KiB, 64 * MiB), some_bell());
    refused(memory_of(page + 260 * KiB, SEALS), some_bell());
    refused(memory_of(page + 128 * KiB, SEALS), some_bell());
    refused(memory_of(page + 1 * MiB, SEALS), some_bell());
    refused(memory_of(page + 128 * MiB, SEALS), some_bell());
    refused(memory_of(0, SEALS), some_bell());
    refused(g_open("/dev/zero", O_RDWR, 0), some_bell());
}

static void test_taken(void)
{
    const off_t sizes[] = { 256 * KiB, 512 * KiB };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        int memory = memory_of(getpagesize() + sizes[i], SEALS);
        RnicSharedRing *ring = rnic_shared_ring_open(memory, some_bell());

        g_assert_nonnull(ring);
        expect_closed(memory);
        rnic_shared_ring_free(ring);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    rnic_unix_closers_start();
    g_test_add_func("/rnic/shared-ring/octets", test_octets);
    g_test_add_func("/rnic/shared-ring/receiver-waits", test_receiver_waits);
    g_test_add_func("/rnic/shared-ring/told-of-much", test_told_of_much);
    g_test_add_func("/rnic/shared-ring/sender-waits", test_sender_waits);
    g_test_add_func("/rnic/shared-ring/threads", test_threads);
    g_test_add_func("/rnic/shared-ring/ping-pong", test_ping_pong);
    g_test_add_func("/rnic/shared-ring/broken", test_broken);
    g_test_add_func("/rnic/shared-ring/receiver-gone", test_receiver_gone);
    g_test_add_func("/rnic/shared-ring/sender-gone", test_sender_gone);
    g_test_add_func("/rnic/shared-ring/odd-bell", test_odd_bell);
    g_test_add_func("/rnic/shared-ring/refused", test_refused);
    g_test_add_func("/rnic/shared-ring/taken", test_taken);
    return g_test_run();
}
