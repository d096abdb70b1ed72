/*
 * rnic: closing in order loses nothing that the host's socket has taken
 *
 * A host that closes a socket with unread input resets the connection, and what
 * waits to be sent is gone.  The device ends its direction and discards what
 * still comes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/units.h"
#include <dirent.h>

#include "tests/qtest/rnic/lib/connection.h"

enum {
    SENDS = 160,                /* more than the sockets hold */
    LENGTH = 64 * KiB,
    UNREAD = 200000,            /* octets */
    LINGERS_MAX = 256,          /* of the device, for each of its threads */
};

typedef struct World {
    Connection *c;
    uint8_t data[LENGTH];
    uint8_t got[LENGTH];
} World;

static World *world_new(const ConnectionOptions *options)
{
    World *w = g_new0(World, 1);
    const int small = 16 * KiB;

    w->c = connection_new(options);
    rnic_pattern(w->data, sizeof(w->data), 5);
    connection_fill(w->c, 0, w->data, sizeof(w->data));
    g_assert_cmpint(setsockopt(w->c->peer->fd, SOL_SOCKET, SO_RCVBUF, &small,
                               sizeof(small)), ==, 0);
    return w;
}

static void world_free(World *w)
{
    connection_free(w->c);
    g_free(w);
}

/* Sends until no more are taken; returns how many have completed. */
static unsigned send_until_full(World *w)
{
    struct rnic_cqe cqe;
    unsigned completed = 0;

    for (unsigned i = 0; i < SENDS; i++) {
        connection_post(w->c, RNIC_SQ_SEND, i, 0, LENGTH);
    }
    rnic_settle(w->c->r);
    while (rnic_cq_poll(w->c->r, &w->c->send_cq, &cqe)) {
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        completed++;
    }
    g_test_message("%u Sends have completed", completed);
    g_assert_cmpuint(completed, >, 0);
    g_assert_cmpuint(completed, <, SENDS);
    return completed;
}

/* Octets that nobody will want; the device may have read some before. */
static void put_unread(World *w)
{
    g_autofree uint8_t *octets = g_malloc0(UNREAD);

    g_assert_true(wire_try_put(w->c->peer, octets, UNREAD));
}

static void destroy_qp(Connection *c)
{
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
}

static void expect_sends(World *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        g_assert_cmpuint(wire_get_send(w->c->peer, WIRE_SEND, i + 1, w->got,
                                       LENGTH), ==, LENGTH);
        g_assert_cmpmem(w->got, LENGTH, w->data, LENGTH);
    }
}

/* A part of the next message may come before it. */
static void expect_fin(World *w)
{
    WireEnd end;
    uint8_t octet;

    while ((end = wire_end(w->c->peer)) == WIRE_DATA) {
        wire_get(w->c->peer, &octet, 1);
    }
    g_assert_cmpint(end, ==, WIRE_FIN);
}

static void check_destroyed(const ConnectionOptions *options)
{
    World *w = world_new(options);
    unsigned completed;

    /* A responder waits for the first FPDU. */
    wire_put_write(w->c->peer, w->c->mr.stag, w->c->mr.va + LENGTH, w->data, 1);
    completed = send_until_full(w);
    destroy_qp(w->c);
    put_unread(w);
    expect_sends(w, completed);
    expect_fin(w);
    world_free(w);
}

/* The QP is destroyed while its peer sends: the peer has all that completed. */
static void test_destroyed_with_unread(void)
{
    check_destroyed(&(ConnectionOptions) { .sq_depth = 512 });
    check_destroyed(&(ConnectionOptions) { .sq_depth = 512, .passive = true,
                                           .properties = ",io-threads=0" });
}

/* The same with a peer whose octets are there before. */
static void test_destroyed_after_a_mistake(void)
{
    World *w = world_new(&(ConnectionOptions) { .sq_depth = 512 });
    unsigned completed = send_until_full(w);

    /* No DDP version is 0: the device terminates the stream. */
    put_unread(w);
    rnic_wait_qp_state(w->c->r, &w->c->qp, RNIC_QPS_TERMINATE);
    destroy_qp(w->c);
    put_unread(w);
    expect_sends(w, completed);
    expect_fin(w);
    world_free(w);
}

/* ------------------------------------------------------------------ bounds */

static unsigned descriptors(Rnic *r)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/fd",
                                            qtest_pid(r->qts));
    DIR *dir = opendir(path);
    unsigned n = 0;

    g_assert_nonnull(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* A peer that does not end its direction: at a reset the device is rid of it. */
static void test_ends_at_reset(void)
{
    World *w = world_new(NULL);
    unsigned before = descriptors(w->c->r);

    destroy_qp(w->c);
    g_assert_cmpint(wire_end(w->c->peer), ==, WIRE_FIN);
    rnic_settle(w->c->r);
    g_assert_cmpuint(descriptors(w->c->r), ==, before);
    rnic_reset(w->c->r);
    RNIC_UNTIL(w->c->r, descriptors(w->c->r) < before);
    world_free(w);
}

/* And so it is when the time is up. */
static void test_ends_in_time(void)
{
    World *w = world_new(NULL);
    unsigned before = descriptors(w->c->r);

    destroy_qp(w->c);
    g_assert_cmpint(wire_end(w->c->peer), ==, WIRE_FIN);
    RNIC_UNTIL(w->c->r, descriptors(w->c->r) < before);
    world_free(w);
}

/* Many of these peers: the device keeps so many at most. */
static void test_bounded(void)
{
    enum { MORE = 20 };
    World *w = world_new(NULL);
    GPtrArray *seconds = g_ptr_array_new();
    unsigned before = descriptors(w->c->r), kept;

    for (unsigned i = 0; i < LINGERS_MAX + MORE; i++) {
        Connection *c = connection_prepare_second(w->c, NULL);

        connection_establish(c, NULL);
        destroy_qp(c);
        g_ptr_array_add(seconds, c);
    }
    /* Long before the first of them is closed because its time is up. */
    rnic_settle_fast(w->c->r);
    kept = descriptors(w->c->r);
    g_assert_cmpuint(kept, >, before);
    g_assert_cmpuint(kept, <=, before + LINGERS_MAX);
    for (unsigned i = 0; i < seconds->len; i++) {
        connection_free_second(seconds->pdata[i]);
    }
    g_ptr_array_free(seconds, true);
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/orderly-close/destroyed-with-unread",
                   test_destroyed_with_unread);
    qtest_add_func("rnic/orderly-close/destroyed-after-a-mistake",
                   test_destroyed_after_a_mistake);
    qtest_add_func("rnic/orderly-close/ends-at-reset", test_ends_at_reset);
    qtest_add_func("rnic/orderly-close/ends-in-time", test_ends_in_time);
    qtest_add_func("rnic/orderly-close/bounded", test_bounded);
    return g_test_run();
}
