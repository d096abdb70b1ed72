/*
 * rnic: events that an event queue has no room for
 *
 * The device holds 4096 of them. What is lost beyond is told of and counted,
 * and what concerns nobody any more is not held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

#define HUB "-netdev hubport,id=net0,hubid=0"

enum { HELD_MAX = 4096, MORE = 100 };

static void use_small_eq(Rnic *r, RnicEq *eq, uint8_t eq_class)
{
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ, eq->number),
                     ==, RNIC_ST_OK);
    rnic_create_eq(r, eq, eq_class, 0, 2);
}

/* An event that may have been held until the queue was kicked. */
static bool eq_poll_held(Rnic *r, RnicEq *eq, void *event)
{
    if (rnic_eq_poll(r, eq, event)) {
        return true;
    }
    rnic_write32(r, RNIC_REG_EQ_KICK, eq->number);
    rnic_settle_fast(r);
    return rnic_eq_poll(r, eq, event);
}

static void expect_overflow(Rnic *r, uint32_t eqn)
{
    struct rnic_aeqe aeqe = rnic_expect_async(r, RNIC_AE_EQ_OVERFLOW, eqn);

    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_EQ);
}

static void expect_lost(Rnic *r, uint64_t count)
{
    struct rnic_counters counters = rnic_query_counters(r);

    g_assert_cmpuint(le32_to_cpu(counters.events_lost), ==, count);
}

static void set_link(Rnic *r, bool up)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'set_link', 'arguments': "
                             "{ 'name': 'net0', 'up': %i } }", up);
}

/* LINK_CHANGE events; the first of another kind is left in @aeqe. */
static unsigned take_link_changes(Rnic *r, struct rnic_aeqe *aeqe)
{
    unsigned taken = 0;

    while (eq_poll_held(r, &r->async_eq, aeqe) &&
           le16_to_cpu(aeqe->event) == RNIC_AE_LINK_CHANGE) {
        taken++;
        aeqe->event = 0;
    }
    return taken;
}

static void test_held_async_events(void)
{
    Rnic *r = rnic_boot(",netdev=net0", HUB);
    struct rnic_aeqe aeqe = { };
    unsigned taken;

    rnic_up(r);
    use_small_eq(r, &r->async_eq, RNIC_EQ_ASYNC);
    for (int i = 0; i < 2 + HELD_MAX + MORE; i++) {
        set_link(r, i & 1);
    }
    taken = take_link_changes(r, &aeqe);
    g_assert_cmpuint(taken, >=, HELD_MAX);
    g_assert_cmpuint(taken, <, 2 + HELD_MAX + MORE);
    g_assert_cmpint(le16_to_cpu(aeqe.event), ==, RNIC_AE_EQ_OVERFLOW);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_EQ);
    g_assert_cmphex(le32_to_cpu(aeqe.number), ==, r->async_eq.number);
    expect_lost(r, 2 + HELD_MAX + MORE - taken);
    /* Nothing is lost of what comes now. */
    set_link(r, false);
    set_link(r, true);
    g_assert_cmpuint(take_link_changes(r, &aeqe), ==, 2);
    expect_lost(r, 2 + HELD_MAX + MORE - taken);
    rnic_quit(r);
}

static uint64_t count_async_events(Rnic *r)
{
    struct rnic_counters counters = rnic_query_counters(r);

    return le64_to_cpu(counters.async_events);
}

static void destroy(Rnic *r, enum rnic_admin_opcode opcode, uint32_t number)
{
    g_assert_cmpuint(rnic_admin_object(r, opcode, number), ==, RNIC_ST_OK);
}

/* An event of each kind of object waits for room when the object goes. */
static void test_destroyed(void)
{
    Rnic *r = rnic_boot(",netdev=net0", HUB);
    struct rnic_aeqe aeqe = { };
    RnicSrqInit init;
    uint64_t before;
    Connection *c;
    RnicSrq srq;

    rnic_up(r);
    init = rnic_srq_default(r);
    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) {
        .srq = &srq, .cq_depth = 2 });
    connection_establish(c, &(ConnectionOptions) {
        .srq = &srq, .cq_depth = 2 });
    use_small_eq(r, &r->async_eq, RNIC_EQ_ASYNC);
    set_link(r, false);
    set_link(r, true);
    before = count_async_events(r);
    g_assert_cmpuint(rnic_modify_srq_limit(r, &srq, 1), ==, RNIC_ST_OK);
    rnic_post_srq_recv(r, &srq, 1, 0, NULL);
    wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
    RNIC_UNTIL(r, count_async_events(r) == before + 1);
    for (int i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 8);
    }
    /* Of the CQ, which overflows, and of the QP. */
    RNIC_UNTIL(r, count_async_events(r) >= before + 3);
    destroy(r, RNIC_ADMIN_DESTROY_QP, c->qp.number);
    destroy(r, RNIC_ADMIN_DESTROY_CQ, c->send_cq.number);
    destroy(r, RNIC_ADMIN_DESTROY_SRQ, srq.number);
    g_assert_cmpuint(take_link_changes(r, &aeqe), ==, 2);
    g_assert_cmpint(le16_to_cpu(aeqe.event), ==, 0);
    g_assert_false(eq_poll_held(r, &r->async_eq, &aeqe));
    connection_free(c);
}

enum { CONNECTORS = 32 };

/* Each is refused, which is an event; cookies count from @first. */
static void fail_to_connect(Connection *c, unsigned first, unsigned times)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    uint16_t port = wire_free_port(2);
    RnicQp qps[CONNECTORS];

    for (int i = 0; i < CONNECTORS; i++) {
        rnic_create_qp(c->r, &qps[i], &init);
    }
    for (unsigned i = 0; i < times; i++) {
        RNIC_UNTIL(c->r, rnic_try_connect(c->r, &qps[i % CONNECTORS],
                                          wire_guest_ip(2), port, 1, 1,
                                          first + i,
                                          NULL, 0) == RNIC_ST_OK);
    }
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
}

static void test_held_cm_events(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;
    unsigned taken = 0;

    use_small_eq(c->r, &c->r->cm_eq, RNIC_EQ_CM);
    fail_to_connect(c, 0, 2 + HELD_MAX + MORE);
    while (eq_poll_held(c->r, &c->r->cm_eq, &event)) {
        g_assert_cmpint(event.type, ==, RNIC_CM_CONNECT_REPLY);
        g_assert_cmpint(event.status, ==, RNIC_CM_REFUSED);
        taken++;
    }
    g_assert_cmpuint(taken, >=, HELD_MAX);
    g_assert_cmpuint(taken, <, 2 + HELD_MAX + MORE);
    expect_overflow(c->r, c->r->cm_eq.number);
    expect_lost(c->r, 2 + HELD_MAX + MORE - taken);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void expect_refusal(const struct rnic_cm_event *event,
                           uint64_t cookie)
{
    g_assert_cmpint(event->type, ==, RNIC_CM_CONNECT_REPLY);
    g_assert_cmphex(le64_to_cpu(event->cookie), ==, cookie);
}

/* There is room again, and the device has not been told: what is held comes first. */
static void test_held_in_order(void)
{
    enum { ROOM = 2, HELD = 3 };
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;

    use_small_eq(c->r, &c->r->cm_eq, RNIC_EQ_CM);
    for (unsigned i = 0; i < ROOM + HELD; i++) {
        fail_to_connect(c, i, 1);
    }
    for (unsigned i = 0; i < ROOM; i++) {
        rnic_eq_wait(c->r, &c->r->cm_eq, &event);
        expect_refusal(&event, i);
    }
    fail_to_connect(c, ROOM + HELD, 1);
    for (unsigned i = ROOM; i < ROOM + HELD + 1; i++) {
        g_assert_true(eq_poll_held(c->r, &c->r->cm_eq, &event));
        expect_refusal(&event, i);
    }
    g_assert_false(eq_poll_held(c->r, &c->r->cm_eq, &event));
    connection_free(c);
}

static void request_connection(Connection *c, WirePeer **peer, uint16_t port)
{
    WireMpa request = wire_mpa_request();

    *peer = wire_connect(c->r->qts, 3, 1, port);
    wire_mpa_put(*peer, &request);
}

/* What a peer can have held goes away with it. */
static void test_held_requests_leave(void)
{
    enum { STAY = 3, LEAVE = 300 };
    Connection *c = connection_prepare(NULL);
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    WirePeer *peers[STAY], *peer;
    unsigned taken = 0;

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 7, NULL),
                     ==, RNIC_ST_OK);
    use_small_eq(c->r, &c->r->cm_eq, RNIC_EQ_CM);
    for (int i = 0; i < STAY; i++) {
        request_connection(c, &peers[i], port);
        RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == i + 1);
    }
    for (int i = 0; i < LEAVE; i++) {
        request_connection(c, &peer, port);
        RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == STAY + 1);
        rnic_settle_fast(c->r);
        wire_close(peer);
        RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == STAY);
    }
    while (eq_poll_held(c->r, &c->r->cm_eq, &event)) {
        g_assert_cmpint(event.type, ==, RNIC_CM_CONNECT_REQUEST);
        taken++;
    }
    g_assert_cmpuint(taken, ==, STAY);
    rnic_expect_no_async(c->r);
    for (int i = 0; i < STAY; i++) {
        wire_close(peers[i]);
    }
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/held-events/async", test_held_async_events);
    qtest_add_func("rnic/held-events/destroyed", test_destroyed);
    qtest_add_func("rnic/held-events/cm", test_held_cm_events);
    qtest_add_func("rnic/held-events/in-order", test_held_in_order);
    qtest_add_func("rnic/held-events/requests-leave",
                   test_held_requests_leave);
    return g_test_run();
}
