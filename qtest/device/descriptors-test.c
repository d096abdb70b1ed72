/*
 * rnic: the descriptors that streams, listeners and dials may have
 *
 * The limit is half of what QEMU's process may have open, at least 64.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <sys/resource.h>

#include "tests/qtest/rnic/lib/connection.h"

enum {
    OPEN_FILES = 200,           /* for QEMU */
    LIMIT = OPEN_FILES / 2,
};

/* QEMU raises its own limit to the hard one when it starts. */
static Connection *prepare_with_limit(void)
{
    const struct rlimit low = { OPEN_FILES, OPEN_FILES };
    Connection *c = connection_prepare(NULL);

    g_assert_cmpint(prlimit(qtest_pid(c->r->qts), RLIMIT_NOFILE, &low, NULL),
                    ==, 0);
    return c;
}

/* Descriptors that are just being closed may make a difference for a moment. */
static uint16_t try_connect(Connection *c, uint16_t port)
{
    uint16_t status = RNIC_ST_OK;

    for (unsigned i = 0; i < 2; i++) {
        status = rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1, 1,
                                  5, NULL, 0);
        if (status == RNIC_ST_OK) {
            break;
        }
        rnic_settle(c->r);
    }
    return status;
}

/* Connections until the device has no more descriptors for them. */
static GPtrArray *connect_until_limit(Connection *first)
{
    GPtrArray *all = g_ptr_array_new();
    uint16_t port;
    int listener = wire_listen(2, &port);
    uint16_t status;

    for (;;) {
        Connection *c = connection_prepare_second(first, NULL);

        g_ptr_array_add(all, c);
        status = try_connect(c, port);
        if (status != RNIC_ST_OK || all->len > LIMIT) {
            break;
        }
        c->peer = wire_accept(c->r->qts, listener);
        wire_mpa_get(c->peer, &c->request);
        c->reply = wire_mpa_reply(&c->request);
        wire_mpa_put(c->peer, &c->reply);
        g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, ==,
                        RNIC_CM_OK);
    }
    close(listener);
    g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
    return all;
}

/* The device does not take the connection, and does not end it. */
static WirePeer *connect_and_wait(Connection *c, uint16_t port)
{
    WirePeer *peer = wire_connect(c->r->qts, 3, 1, port);
    WireMpa request = wire_mpa_request();

    wire_mpa_put(peer, &request);
    wire_expect_silence(peer);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    return peer;
}

/* Other connections end meanwhile. */
static void expect_request(Rnic *r)
{
    struct rnic_cm_event event;

    do {
        rnic_eq_wait(r, &r->cm_eq, &event);
    } while (event.type != RNIC_CM_CONNECT_REQUEST);
}

static void test_limit(void)
{
    Connection *first = prepare_with_limit();
    uint16_t port = wire_free_port(1);
    GPtrArray *all;
    Connection *last;
    WirePeer *waiting;

    g_assert_cmpuint(rnic_try_listen(first->r, wire_guest_ip(1), port, 7,
                                     NULL), ==, RNIC_ST_OK);
    all = connect_until_limit(first);
    g_test_message("%u connections", all->len - 1);
    /* A stream of the UNIX fabric has up to three. */
    g_assert_cmpuint(all->len, >, LIMIT / 3 - 2);
    g_assert_cmpuint(all->len, <=, LIMIT);
    waiting = connect_and_wait(first, port);
    g_assert_cmpuint(rnic_try_listen(first->r, wire_guest_ip(1),
                                     wire_free_port(1), 7, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    rnic_assert_alive(first->r);
    /* Some come back: there is room again. */
    for (unsigned i = 0; i < 4; i++) {
        Connection *c = all->pdata[i];

        wire_close(c->peer);
        c->peer = NULL;
    }
    expect_request(first->r);
    for (unsigned i = 0; i < 4; i++) {
        connection_recycle(all->pdata[i]);
    }
    last = all->pdata[all->len - 1];
    connection_establish(last, NULL);
    for (unsigned i = 0; i < all->len; i++) {
        connection_free_second(all->pdata[i]);
    }
    g_ptr_array_free(all, true);
    wire_close(waiting);
    connection_free(first);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/descriptors/limit", test_limit);
    return g_test_run();
}
