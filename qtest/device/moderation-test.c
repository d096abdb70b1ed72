/*
 * rnic: completion event moderation (event-hold-us=)
 *
 * CQEs are never late; the event of an armed CQ may be, by so much at most, and
 * only while its QP certainly has more completions coming.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum {
    HOLD_US = 100 * 1000,       /* far more than waiting steps the clock by */
    CQES_MAX = 16,              /* that of moderation.c */
    MESSAGE = 32,
};

typedef struct World {
    Connection *c;
    Rnic *r;
    RnicCq *cq;                 /* whose events are looked at */
    uint32_t received;          /* wr_id of the next receive to complete */
    uint32_t posted;
} World;

static void add_receives(World *w, unsigned n)
{
    while (n--) {
        connection_recv(w->c, w->posted++, 0, MESSAGE);
    }
}

static void world_init(World *w, const char *properties, unsigned receives)
{
    *w = (World) { .c = connection_new(&(ConnectionOptions) {
        .properties = properties, .rq_depth = 64 }) };
    w->r = w->c->r;
    w->cq = &w->c->recv_cq;
    add_receives(w, receives);
}

static size_t put_part(WirePeer *peer, uint8_t *out, uint8_t opcode,
                       uint32_t offset, uint32_t length, bool last)
{
    static uint8_t data[MESSAGE];
    uint8_t ulpdu[MESSAGE + 64];
    WireSegment segment = {
        .opcode = opcode, .ddp_version = 1, .rdmap_version = 1,
        .last = last, .qn = 0, .msn = peer->send_msn, .mo = offset,
        .payload = data, .length = length,
    };
    size_t n = wire_encode_segment(&segment, ulpdu);

    peer->send_msn += last;
    return wire_encode_fpdu(peer, ulpdu, n, out);
}

/* One whole message and half of the next, in one piece. */
static void put_one_and_half(World *w, uint8_t opcode)
{
    uint8_t octets[1024];
    size_t n = put_part(w->c->peer, octets, opcode, 0, MESSAGE, true);

    n += put_part(w->c->peer, octets + n, WIRE_SEND, 0, MESSAGE / 2, false);
    wire_put(w->c->peer, octets, n);
}

static void put_other_half(World *w)
{
    uint8_t octets[256];
    size_t n = put_part(w->c->peer, octets, WIRE_SEND, MESSAGE / 2,
                        MESSAGE / 2, true);

    wire_put(w->c->peer, octets, n);
}

/* The rest of a message and half of the next: the QP is never at rest. */
static void put_rest_and_half(World *w)
{
    uint8_t octets[1024];
    size_t n = put_part(w->c->peer, octets, WIRE_SEND, MESSAGE / 2,
                        MESSAGE / 2, true);

    n += put_part(w->c->peer, octets + n, WIRE_SEND, 0, MESSAGE / 2, false);
    wire_put(w->c->peer, octets, n);
}

static void put_whole(World *w)
{
    uint8_t octets[256];
    size_t n = put_part(w->c->peer, octets, WIRE_SEND, 0, MESSAGE, true);

    wire_put(w->c->peer, octets, n);
}

/* The CQE is there, and the turn that made it is over. */
static void expect_received(World *w)
{
    rnic_expect_cqe(w->r, &w->c->recv_cq, w->received++, RNIC_WC_SUCCESS);
    rnic_query_qp(w->r, &w->c->qp);
}

static bool event_there(World *w)
{
    struct rnic_ceqe event;

    if (!rnic_eq_poll(w->r, &w->r->comp_eq, &event)) {
        return false;
    }
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, w->cq->number);
    return true;
}

static void expect_event(World *w)
{
    struct rnic_ceqe event;

    rnic_eq_wait(w->r, &w->r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, w->cq->number);
    g_assert_false(event_there(w));
}

static void pass_us(World *w, int64_t us)
{
    qtest_clock_step(w->r->qts, us * 1000);
}

/* A message and half of the next have come, and the event is held. */
static void world_init_held(World *w, unsigned receives)
{
    world_init(w, ",event-hold-us=100000", receives);
    rnic_cq_arm(w->r, w->cq, RNIC_ARM_NEXT);
    put_one_and_half(w, WIRE_SEND);
    expect_received(w);
    g_assert_false(event_there(w));
}

static void test_held_for_so_long(void)
{
    World w;

    world_init_held(&w, 16);
    pass_us(&w, HOLD_US);
    expect_event(&w);
    /* Once is all. */
    put_other_half(&w);
    expect_received(&w);
    g_assert_false(event_there(&w));
    connection_free(w.c);
    rnic_shows("V8.2.5-3 V8.2.5-7");
}

/* What is held comes as soon as the QP is at rest, and is one event. */
static void test_released_at_rest(void)
{
    World w;

    world_init_held(&w, 16);
    put_other_half(&w);
    expect_received(&w);
    g_assert_true(event_there(&w));
    g_assert_false(event_there(&w));
    /* A single message is told of at once. */
    rnic_cq_arm(w.r, w.cq, RNIC_ARM_NEXT);
    put_whole(&w);
    expect_received(&w);
    g_assert_true(event_there(&w));
    connection_free(w.c);
}

static void test_not_held(void)
{
    World w;

    /* Solicited. */
    world_init(&w, ",event-hold-us=100000", 16);
    rnic_cq_arm(w.r, w.cq, RNIC_ARM_NEXT);
    put_one_and_half(&w, WIRE_SEND_SE);
    expect_received(&w);
    g_assert_true(event_there(&w));
    connection_free(w.c);

    /* Switched off. */
    world_init(&w, ",event-hold-us=0", 16);
    rnic_cq_arm(w.r, w.cq, RNIC_ARM_NEXT);
    put_one_and_half(&w, WIRE_SEND);
    expect_received(&w);
    g_assert_true(event_there(&w));
    connection_free(w.c);
}

/* One event tells of so many CQEs at most. */
static void test_so_many(void)
{
    World w;

    world_init_held(&w, 2 * CQES_MAX);
    for (unsigned i = 1; i <= CQES_MAX; i++) {
        put_rest_and_half(&w);
        expect_received(&w);
        g_assert_cmpint(event_there(&w), ==, i == CQES_MAX);
    }
    connection_free(w.c);
}

/* An error does not wait, nor does what was held before it. */
static void test_error(void)
{
    World w;

    world_init_held(&w, 16);
    wire_abort(w.c->peer);
    w.c->peer = NULL;
    expect_event(&w);
    connection_free(w.c);
}

/* The CQ outlives the QP, and so does the promise of an event. */
static void test_qp_destroyed(void)
{
    World w;

    world_init_held(&w, 16);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                       w.c->qp.number), ==, RNIC_ST_OK);
    g_assert_true(event_there(&w));
    connection_free(w.c);
}

static void test_reset(void)
{
    World w;

    world_init_held(&w, 16);
    rnic_reset(w.r);
    pass_us(&w, 2 * HOLD_US);
    rnic_up(w.r);
    connection_free(w.c);
}

/* Reads that await their responses are work that will complete. */
static void test_reads(void)
{
    World w;
    WireRead read[4];

    world_init(&w, ",event-hold-us=100000", 0);
    w.cq = &w.c->send_cq;
    rnic_cq_arm(w.r, w.cq, RNIC_ARM_NEXT);
    for (unsigned i = 0; i < 4; i++) {
        connection_post(w.c, RNIC_SQ_RDMA_READ, 1 + i, 0, 8);
        wire_get_read_request(w.c->peer, 1 + i, &read[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        wire_put_read_response(w.c->peer, read[i].sink_stag, read[i].sink_to,
                               "abcdefgh", 8);
        rnic_expect_cqe(w.r, w.cq, 1 + i, RNIC_WC_SUCCESS);
        rnic_query_qp(w.r, &w.c->qp);
        g_assert_cmpint(event_there(&w), ==, i == 3);
    }
    connection_free(w.c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/moderation/held-for-so-long", test_held_for_so_long);
    qtest_add_func("rnic/moderation/released-at-rest", test_released_at_rest);
    qtest_add_func("rnic/moderation/not-held", test_not_held);
    qtest_add_func("rnic/moderation/so-many", test_so_many);
    qtest_add_func("rnic/moderation/error", test_error);
    qtest_add_func("rnic/moderation/qp-destroyed", test_qp_destroyed);
    qtest_add_func("rnic/moderation/reset", test_reset);
    qtest_add_func("rnic/moderation/reads", test_reads);
    return g_test_run();
}
