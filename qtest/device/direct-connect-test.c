/*
 * rnic: QPs that programs move by hand, told of each other by other means
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <poll.h>
#include <sys/resource.h>

#include "tests/qtest/rnic/lib/direct.h"

enum {
    LENGTH = DIRECT_LENGTH,
};

/* ------------------------------------------------------------------ orders */

/* All orders of the four commands that keep each end's own order. */
static void test_orders(void)
{
    static const char *const orders[] = {
        "AaBb", "ABab", "ABba", "BAab", "BAba", "BbAa",
    };
    DirectPair p = direct_pair_up();

    for (unsigned i = 0; i < G_N_ELEMENTS(orders); i++) {
        for (const char *step = orders[i]; *step; step++) {
            switch (*step) {
            case 'A':
                direct_pair_a_rtr(&p);
                break;
            case 'a':
                direct_to_rts(p.a, 0x222, FOR_EVER, 0);
                break;
            case 'B':
                direct_pair_b_rtr(&p);
                break;
            default:
                direct_to_rts(p.b, 0x111, FOR_EVER, 0);
                break;
            }
        }
        direct_assert_works(&p);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    direct_pair_free(&p);
}

/* Both commands are given before either is looked for. */
static void test_simultaneous(void)
{
    DirectPair p = direct_pair_up();

    for (unsigned i = 0; i < 20; i++) {
        struct rnic_admin_sqe a = direct_connect_command(&p.a->qp, OURS, PEERS,
                                                         p.b->qp.number, 0x111);
        struct rnic_admin_sqe b = direct_connect_command(&p.b->qp, PEERS, OURS,
                                                         p.a->qp.number, 0x222);
        struct rnic_admin_cqe cqe;

        rnic_admin_fill(p.a->r, &a);
        rnic_admin_fill(p.b->r, &b);
        rnic_admin_tail(i % 2 ? p.a->r : p.b->r);
        rnic_admin_tail(i % 2 ? p.b->r : p.a->r);
        rnic_admin_completion(p.a->r, &cqe);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
        rnic_admin_completion(p.b->r, &cqe);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
        direct_to_rts(p.a, 0x222, FOR_EVER, 0);
        direct_to_rts(p.b, 0x111, FOR_EVER, 0);
        direct_assert_works(&p);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    direct_pair_free(&p);
}

/*
 * An end in RTR receives, answers Reads, and sends what it posted before its peer
 * came and later.  A peer that goes meanwhile is missed by a WR only.
 */
static void test_before_rts(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_a_rtr(&p);
    connection_post(p.a, RNIC_SQ_SEND, 9, 0, LENGTH);
    rnic_pass_time(p.a->r, 200);
    direct_assert_quiet(p.a);
    direct_pair_b_rtr(&p);
    connection_recv(p.b, 10, 0, LENGTH);
    rnic_expect_cqe(p.a->r, &p.a->send_cq, 9, RNIC_WC_SUCCESS);
    rnic_expect_cqe(p.b->r, &p.b->recv_cq, 10, RNIC_WC_SUCCESS);
    direct_deliver(p.b, p.a, 62, true);
    direct_write_and_read(p.b, p.a);
    direct_write_and_read(p.a, p.b);
    direct_to_idle(p.b);
    rnic_wait_qp_state(p.a->r, &p.a->qp, RNIC_QPS_IDLE);
    connection_post(p.a, RNIC_SQ_SEND, 11, 0, LENGTH);
    rnic_expect_cqe(p.a->r, &p.a->send_cq, 11, RNIC_WC_RETRY_EXCEEDED);
    direct_pair_free(&p);
}

/* Sends wait for receives, in order; what needs none goes on before them. */
static void test_late_receive(void)
{
    DirectPair p = direct_pair_up();
    enum { COUNT = 5, LARGE = 100000 };
    RnicWr wr;

    direct_pair_connect(&p);
    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t data[LENGTH];

        rnic_pattern(data, LENGTH, i);
        connection_fill(p.a, i * LENGTH, data, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, i, i * LENGTH, LENGTH);
    }
    connection_post(p.a, RNIC_SQ_SEND, 77, 0, LARGE);
    rnic_pass_time(p.a->r, 10);
    direct_assert_quiet(p.b);
    g_assert_cmpint(rnic_qp_state(p.a->r, &p.a->qp), ==, RNIC_QPS_RTS);
    g_assert_cmpint(rnic_qp_state(p.b->r, &p.b->qp), ==, RNIC_QPS_RTS);
    /* The other direction does not wait. */
    direct_deliver(p.b, p.a, 62, true);
    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t data[LENGTH], got[LENGTH];

        connection_recv(p.b, 100 + i, 8192, LENGTH);
        rnic_expect_cqe(p.b->r, &p.b->recv_cq, 100 + i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(p.a->r, &p.a->send_cq, i, RNIC_WC_SUCCESS);
        connection_peek(p.b, 8192, got, LENGTH);
        rnic_pattern(data, LENGTH, i);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
        rnic_settle(p.b->r);
        direct_assert_quiet(p.b);
    }
    connection_recv(p.b, 177, 0, LARGE);
    rnic_expect_cqe(p.b->r, &p.b->recv_cq, 177, RNIC_WC_SUCCESS);
    rnic_expect_cqe(p.a->r, &p.a->send_cq, 77, RNIC_WC_SUCCESS);
    direct_assert_works(&p);

    /* It is given up with the QP, on either side. */
    connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
    rnic_settle(p.b->r);
    wr = connection_wr(p.b, RNIC_SQ_SEND, 2, 0, LENGTH);
    wr.sge[0].stag ^= 1 << 8;
    rnic_post_send(p.b->r, &p.b->qp, &wr);
    rnic_expect_cqe(p.b->r, &p.b->send_cq, 2, RNIC_WC_INVALID_STAG);
    rnic_wait_qp_state(p.b->r, &p.b->qp, RNIC_QPS_ERROR);
    direct_pair_free(&p);
}

/* The same on a QP of rdma_cm, for as long as rnr-wait-ms says. */
static void test_rnr_wait(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",rnr-wait-ms=2000" });

    wire_put_send(c->peer, WIRE_SEND, 0, "first", 5);
    rnic_pass_time(c->r, 1);
    direct_assert_quiet(c);
    connection_recv(c, 1, 0, LENGTH);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    wire_put_send(c->peer, WIRE_SEND, 0, "next", 4);
    rnic_pass_time(c->r, 1);
    direct_assert_quiet(c);
    rnic_pass_time(c->r, 2);
    rnic_expect_async(c->r, RNIC_AE_RQ_MSN_RANGE, c->qp.number);
    wire_expect_terminate(c->peer, 0x1202);
    connection_free(c);
}

/*
 * A peer that resets the stream is seen at once, whatever the QP has not read; a
 * Send before a FIN still gets its receive.  @sends of them come.
 */
static void rnr_wait_ends(bool reset, unsigned sends)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",rnr-wait-ms=60000" });
    uint8_t data[LENGTH] = { 1 };

    for (unsigned i = 0; i < sends; i++) {
        wire_put_send(c->peer, WIRE_SEND, 0, data, LENGTH);
    }
    rnic_pass_time(c->r, 1);
    direct_assert_quiet(c);
    if (reset) {
        wire_abort(g_steal_pointer(&c->peer));
        rnic_pass_time(c->r, 1);
        rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    } else {
        wire_shutdown(c->peer);
        rnic_pass_time(c->r, 1);
        direct_assert_quiet(c);
        for (unsigned i = 0; i < sends; i++) {
            connection_recv(c, i, 0, LENGTH);
            rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
        }
        rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    }
    connection_free(c);
}

static void test_rnr_wait_ends(void)
{
    rnr_wait_ends(true, 1);
    rnr_wait_ends(true, 100);   /* most of them stay unread */
    rnr_wait_ends(false, 1);
    rnr_wait_ends(false, 9);
}

/* A receive of an S-RQ, which has no doorbell, is found. */
static void test_srq_wait(void)
{
    Rnic *r = rnic_boot_up(",rnr-wait-ms=60000,mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    struct rnic_sge sge;
    Connection *c;
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) { .srq = &srq });
    connection_establish(c, NULL);
    for (unsigned i = 0; i < 3; i++) {
        wire_put_send(c->peer, WIRE_SEND, 0, "first", 5);
        rnic_pass_time(r, 1);
        direct_assert_quiet(c);
        sge = rnic_sge(&c->mr, 0, LENGTH);
        rnic_post_srq_recv(r, &srq, i, 1, &sge);
        rnic_expect_cqe(r, &c->recv_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

/* -------------------------------------------------------- peers that are late */

/* WRs wait for the peer, in order. */
static void test_late_peer(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 22, 3);  /* 17 s, four times */
    for (unsigned i = 0; i < 3; i++) {
        connection_post(p.a, RNIC_SQ_SEND, i, 0, LENGTH);
        connection_recv(p.b, 10 + i, 0, LENGTH);
    }
    rnic_pass_time(p.a->r, 30);
    direct_assert_quiet(p.a);
    g_assert_cmpint(rnic_qp_state(p.a->r, &p.a->qp), ==, RNIC_QPS_IDLE);
    direct_pair_b_rtr(&p);
    for (unsigned i = 0; i < 3; i++) {
        rnic_expect_cqe(p.a->r, &p.a->send_cq, i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(p.b->r, &p.b->recv_cq, 10 + i, RNIC_WC_SUCCESS);
    }
    direct_to_rts(p.b, 0x111, FOR_EVER, 0);
    direct_assert_works(&p);
    direct_pair_free(&p);
}

/* No peer: not before the time is over, and only a WR misses it. */
static void test_no_peer(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 20, 1);  /* 4.29 s, twice */
    connection_recv(p.a, 1, 0, LENGTH);
    rnic_pass_time(p.a->r, 20);
    direct_assert_quiet(p.a);
    connection_post(p.a, RNIC_SQ_SEND, 2, 0, LENGTH);
    connection_post(p.a, RNIC_SQ_SEND, 3, 0, LENGTH);
    rnic_settle(p.a->r);
    rnic_pass_time(p.a->r, 8);
    direct_assert_quiet(p.a);
    rnic_pass_time(p.a->r, 1);
    direct_expect_retry_exceeded(p.a, 2);
    rnic_expect_cqe(p.a->r, &p.a->send_cq, 3, RNIC_WC_FLUSHED);
    rnic_expect_cqe(p.a->r, &p.a->recv_cq, 1, RNIC_WC_FLUSHED);
    direct_assert_quiet(p.a);

    /* It has given up: it does not answer. */
    direct_pair_b_rtr(&p);
    direct_to_rts(p.b, 0x111, FOR_EVER, 0);
    rnic_pass_time(p.a->r, 10);
    g_assert_cmpint(rnic_qp_state(p.b->r, &p.b->qp), ==, RNIC_QPS_IDLE);

    /* Then it is used again. */
    direct_to_idle(p.a);
    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, FOR_EVER, 0);
    direct_assert_works(&p);
    direct_pair_free(&p);
}

/* Timeout zero: for ever. The shortest one: the devices have a moment. */
static void test_timeouts(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, FOR_EVER, 7);
    connection_post(p.a, RNIC_SQ_SEND, 2, 0, LENGTH);
    rnic_pass_time(p.a->r, 120);
    direct_assert_quiet(p.a);
    direct_to_idle(p.a);

    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 1, 0);
    connection_post(p.a, RNIC_SQ_SEND, 3, 0, LENGTH);
    rnic_settle(p.a->r);
    direct_assert_quiet(p.a);
    rnic_pass_time(p.a->r, 1);
    direct_expect_retry_exceeded(p.a, 3);
    direct_to_idle(p.a);

    /* The time of an earlier use is not that of the next one. */
    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 18, 0);  /* 1.07 s */
    connection_post(p.a, RNIC_SQ_SEND, 4, 0, LENGTH);
    rnic_settle(p.a->r);
    direct_to_idle(p.a);
    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 22, 0);
    connection_post(p.a, RNIC_SQ_SEND, 5, 0, LENGTH);
    rnic_pass_time(p.a->r, 4);
    direct_assert_quiet(p.a);
    direct_to_idle(p.a);

    /* A retry is the time once more. */
    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, 20, 2);  /* 4.3 s */
    connection_post(p.a, RNIC_SQ_SEND, 6, 0, LENGTH);
    rnic_settle(p.a->r);
    rnic_pass_time(p.a->r, 12);
    direct_assert_quiet(p.a);
    rnic_pass_time(p.a->r, 1);
    direct_expect_retry_exceeded(p.a, 6);
    direct_pair_free(&p);
}

static void connect_with(DirectPair *p, Connection *c, uint16_t ird,
                         uint16_t ord, uint16_t send_ord)
{
    bool a = c == p->a;
    struct rnic_admin_sqe sqe = direct_connect_command(
        &c->qp, a ? OURS : PEERS, a ? PEERS : OURS,
        (a ? p->b : p->a)->qp.number, a ? 0x111 : 0x222);

    sqe.direct_connect.ird = cpu_to_le16(ird);
    sqe.direct_connect.ord = cpu_to_le16(ord);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    sqe = direct_send_command(&c->qp, a ? 0x222 : 0x111, FOR_EVER, 0);
    sqe.direct_send.ord = cpu_to_le16(send_ord);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
}

static void assert_read_resources(Connection *c, unsigned ird, unsigned ord)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, ird);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, ord);
}

/* IRD is what RTR says; ORD the least of RTR's, RTS's and the peer's IRD. */
static void test_read_resources(void)
{
    static const struct {
        uint16_t ird, ord, send_ord, granted;
    } cases[] = {
        { 3, 9, 8, 5 }, { 4, 4, 8, 4 }, { 7, 9, 1, 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        DirectPair p = direct_pair_up();

        connect_with(&p, p.a, cases[i].ird, cases[i].ord, cases[i].send_ord);
        connect_with(&p, p.b, 5, 2, 2);
        direct_deliver(p.a, p.b, 1, true);
        direct_deliver(p.b, p.a, 2, true);
        assert_read_resources(p.a, cases[i].ird, cases[i].granted);
        assert_read_resources(p.b, 5, 2);
        direct_pair_free(&p);
    }
}

/* RTS given again: its time to wait for the peer, and its ORD, count from then on. */
static void test_rts_again(void)
{
    Connection *c = connection_prepare(NULL);
    int listener;
    struct rnic_admin_sqe sqe;
    WirePeer *peer;
    WireRead read;

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    direct_to_rts(c, 2, 24, 7);     /* 68 s, eight times */
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    rnic_settle(c->r);
    direct_to_rts(c, 2, 20, 0);     /* 4.3 s */
    rnic_settle(c->r);
    rnic_pass_time(c->r, 4);
    direct_assert_quiet(c);
    rnic_pass_time(c->r, 1);
    direct_expect_retry_exceeded(c, 1);
    direct_to_idle(c);

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    direct_to_rts(c, 2, 20, 0);
    connection_post(c, RNIC_SQ_SEND, 2, 0, LENGTH);
    rnic_settle(c->r);
    direct_to_rts(c, 2, FOR_EVER, 0);
    rnic_pass_time(c->r, 60);
    direct_assert_quiet(c);
    direct_to_idle(c);

    listener = wire_listen_at(PEERS, DIRECT_PORT);
    peer = direct_meet_dial(c, listener);
    sqe = direct_send_command(&c->qp, 0x654321, FOR_EVER, 0);
    sqe.direct_send.ord = cpu_to_le16(1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    connection_post(c, RNIC_SQ_RDMA_READ, 3, 0, LENGTH);
    connection_post(c, RNIC_SQ_RDMA_READ, 4, 0, LENGTH);
    wire_get_read_request(peer, 1, &read);
    wire_expect_silence(peer);
    /* RTS alone is what it is in. */
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_RTS), ==,
                     RNIC_ST_OK);
    sqe.direct_send.ord = cpu_to_le16(4);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    wire_get_read_request(peer, 2, &read);
    wire_close(peer);
    close(listener);
    connection_free(c);
    rnic_shows("V6.2.2.1-1");
}

/* ---------------------------------------------------------------- mismatch */

/* A wrong PSN concerns one direction, and only its first WR shows it. */
static void test_wrong_psn(void)
{
    DirectPair p = direct_pair_up();

    for (unsigned early = 0; early < 2; early++) {
        if (early) {
            direct_pair_a_rtr(&p);
            direct_to_rts(p.a, 0x223, FOR_EVER, 7);
            direct_pair_b_rtr(&p);
        } else {
            direct_pair_a_rtr(&p);
            direct_pair_b_rtr(&p);
            rnic_wait_qp_state(p.a->r, &p.a->qp, RNIC_QPS_RTS);
            direct_to_rts(p.a, 0x223, FOR_EVER, 7);
        }
        direct_to_rts(p.b, 0x111, FOR_EVER, 0);
        direct_deliver(p.b, p.a, 5, true);
        direct_assert_quiet(p.a);
        connection_recv(p.b, 6, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 7, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 8, 0, LENGTH);
        direct_expect_retry_exceeded(p.a, 7);
        rnic_expect_cqe(p.a->r, &p.a->send_cq, 8, RNIC_WC_FLUSHED);
        direct_assert_quiet(p.a);
        /* The other end learns of it when it sends. */
        rnic_wait_qp_state(p.b->r, &p.b->qp, RNIC_QPS_IDLE);
        direct_assert_quiet(p.b);
        connection_post(p.b, RNIC_SQ_SEND, 9, 0, LENGTH);
        direct_expect_retry_exceeded(p.b, 9);
        rnic_expect_cqe(p.b->r, &p.b->recv_cq, 6, RNIC_WC_FLUSHED);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    direct_pair_free(&p);
}

static void test_wrong_qpn(void)
{
    DirectPair p = direct_pair_up();
    Connection *other = connection_prepare_second(p.b, NULL);

    /* The other QP exists and waits for somebody else; then it does not wait. */
    direct_to_rtr(p.a, OURS, PEERS, other->qp.number, 0x111);
    direct_to_rts(p.a, 0x222, 20, 0);
    direct_to_rtr(other, PEERS, OURS, p.a->qp.number + 77, 0x222);
    direct_pair_b_rtr(&p);
    connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
    rnic_pass_time(p.a->r, 3);
    g_assert_cmpint(rnic_qp_state(p.a->r, &p.a->qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpint(rnic_qp_state(p.b->r, &p.b->qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpint(rnic_qp_state(p.b->r, &other->qp), ==, RNIC_QPS_IDLE);
    direct_assert_quiet(p.a);
    rnic_pass_time(p.a->r, 3);
    direct_expect_retry_exceeded(p.a, 1);

    direct_to_idle(p.a);
    direct_pair_a_rtr(&p);
    direct_to_rts(p.a, 0x222, FOR_EVER, 0);
    direct_to_rts(p.b, 0x111, FOR_EVER, 0);
    direct_assert_works(&p);
    connection_free_second(other);
    direct_pair_free(&p);
}

/* ----------------------------------------------------------------- to oneself */

static void test_one_device(void)
{
    DirectPair p = { .a = connection_prepare(NULL) };

    p.b = connection_prepare_second(p.a, NULL);
    for (unsigned i = 0; i < 4; i++) {
        Connection *first = i % 2 ? p.a : p.b;
        Connection *second = i % 2 ? p.b : p.a;

        direct_to_rtr(first, OURS, OURS, second->qp.number, 3);
        direct_to_rtr(second, OURS, OURS, first->qp.number, 4);
        direct_to_rts(first, 4, FOR_EVER, 0);
        direct_to_rts(second, 3, FOR_EVER, 0);
        direct_assert_works(&p);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    connection_free_second(p.b);
    connection_free(p.a);
}

/* Sends, Writes and Reads of a QP whose peer is itself; it is no other's. */
static void test_own_peer(void)
{
    Connection *c = connection_prepare(NULL);
    DirectPair p = { .a = c, .b = c };

    for (unsigned i = 0; i < 3; i++) {
        direct_to_rtr(c, OURS, OURS, c->qp.number, 5);
        direct_to_rts(c, 5, FOR_EVER, 0);
        direct_assert_works(&p);
        /* More than a socket holds. */
        for (unsigned k = 0; k < 8; k++) {
            RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, k, 0,
                                      CONNECTION_MR_SIZE / 2);

            wr.remote_stag = c->mr.stag;
            wr.remote_to = c->mr.va + CONNECTION_MR_SIZE / 2;
            rnic_post_send(c->r, &c->qp, &wr);
        }
        for (unsigned k = 0; k < 8; k++) {
            rnic_expect_cqe(c->r, &c->send_cq, k, RNIC_WC_SUCCESS);
        }
        direct_to_idle(c);
    }
    /* The wrong PSN. */
    direct_to_rtr(c, OURS, OURS, c->qp.number, 5);
    direct_to_rts(c, 6, FOR_EVER, 0);
    connection_post(c, RNIC_SQ_SEND, 9, 0, LENGTH);
    direct_expect_retry_exceeded(c, 9);
    connection_free(c);
}

/* ------------------------------------------------------------ peers that go */

typedef enum Departure {
    DESTROYED,
    RESET_DEVICE,
    TO_ERROR,
    DEPARTURES,
} Departure;

static void depart(Connection *c, Departure how)
{
    switch (how) {
    case DESTROYED:
        g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                           c->qp.number), ==, RNIC_ST_OK);
        break;
    case RESET_DEVICE:
        rnic_reset(c->r);
        break;
    default:
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
        break;
    }
}

/* No event, and receives stay: the next WR misses the peer. */
static void test_peer_goes(void)
{
    for (Departure how = 0; how < DEPARTURES; how++) {
        DirectPair p = direct_pair_up();

        direct_pair_connect(&p);
        direct_assert_works(&p);
        connection_recv(p.a, 29, 0, LENGTH);
        depart(p.b, how);
        rnic_wait_qp_state(p.a->r, &p.a->qp, RNIC_QPS_IDLE);
        direct_assert_quiet(p.a);
        rnic_pass_time(p.a->r, 20);
        direct_assert_quiet(p.a);
        connection_post(p.a, RNIC_SQ_SEND, 30, 0, LENGTH);
        direct_expect_retry_exceeded(p.a, 30);
        rnic_expect_cqe(p.a->r, &p.a->recv_cq, 29, RNIC_WC_FLUSHED);
        direct_assert_quiet(p.a);
        direct_pair_free(&p);
    }
}

/* What has completed arrives, though the QP goes to Error at once. */
static void test_sent_before_error(void)
{
    DirectPair p = direct_pair_up();
    enum { COUNT = 20 };

    direct_pair_connect(&p);
    for (unsigned i = 0; i < COUNT; i++) {
        connection_recv(p.b, 100 + i, 0, 8192);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        connection_post(p.a, RNIC_SQ_SEND, i, 0, 8192);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_expect_cqe(p.a->r, &p.a->send_cq, i, RNIC_WC_SUCCESS);
    }
    direct_to_idle(p.a);
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_expect_cqe(p.b->r, &p.b->recv_cq, 100 + i, RNIC_WC_SUCCESS);
    }
    direct_pair_free(&p);
}

/* Nothing is left of what was under way. */
static void test_given_up(void)
{
    for (Departure how = 0; how < DEPARTURES; how++) {
        DirectPair p = direct_pair_up();

        direct_pair_a_rtr(&p);
        direct_to_rts(p.a, 0x222, 20, 7);
        connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
        rnic_settle(p.a->r);
        depart(p.a, how);
        rnic_pass_time(p.a->r, 2);
        if (how != RESET_DEVICE) {
            g_assert_cmpuint(rnic_query_counters(p.a->r).endpoints, ==, 0);
        }
        if (how == TO_ERROR) {
            rnic_expect_cqe(p.a->r, &p.a->send_cq, 1, RNIC_WC_FLUSHED);
            direct_to_idle(p.a);
        }
        direct_pair_b_rtr(&p);
        direct_to_rts(p.b, 0x111, FOR_EVER, 0);
        rnic_pass_time(p.a->r, 2);
        g_assert_cmpint(rnic_qp_state(p.b->r, &p.b->qp), ==, RNIC_QPS_IDLE);
        direct_pair_free(&p);
    }
}

/* ------------------------------------------- a peer that the test speaks for */

/*
 * A peer goes in the middle of a message.  Its receive is flushed; the next one is
 * for the next peer, whose first message is whole.
 */
static void test_cut_message(void)
{
    Connection *c = connection_prepare(NULL);
    int listener = wire_listen_at(PEERS, DIRECT_PORT);
    uint8_t part[LENGTH] = { }, whole[LENGTH], got[LENGTH];
    const WireSegment first = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1, .msn = 1,
        .length = LENGTH, .payload = part,
    };
    WirePeer *peer = direct_meet_dial(c, listener);

    connection_recv(c, 60, 0, 2 * LENGTH);
    connection_recv(c, 61, 0, LENGTH);
    wire_put_segment(peer, &first);
    wire_close(peer);
    rnic_expect_cqe(c->r, &c->recv_cq, 60, RNIC_WC_FLUSHED);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    direct_assert_quiet(c);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE), ==,
                     RNIC_ST_OK);
    peer = direct_meet_dial(c, listener);
    direct_assert_quiet(c);
    rnic_pattern(whole, LENGTH, 7);
    wire_put_send(peer, WIRE_SEND, 0, whole, LENGTH);
    rnic_expect_cqe(c->r, &c->recv_cq, 61, RNIC_WC_SUCCESS);
    connection_peek(c, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, whole, LENGTH);
    wire_close(peer);
    close(listener);
    connection_free(c);
}

/* The device dials; its frame in octets, whatever its properties are. */
static void test_dials(void)
{
    static const char *const properties[] = { "", ",mpa-revision=1" };

    for (unsigned i = 0; i < G_N_ELEMENTS(properties); i++) {
        Connection *c = connection_prepare(&(ConnectionOptions) {
            .properties = properties[i] });
        int listener = wire_listen_at(PEERS, DIRECT_PORT);
        WireMpa reply = direct_peers_reply(c, 0xabcdef, 0x654321);
        WirePeer *peer;

        direct_to_rtr(c, OURS, PEERS, 0xabcdef, 0x123456);
        peer = direct_dialed(c, listener, 0xabcdef, 0x123456);
        direct_to_rts(c, 0x654321, FOR_EVER, 0);
        wire_mpa_put(peer, &reply);
        /* RTR: an empty Write. */
        wire_get_tagged(peer, WIRE_WRITE, 0, 0, NULL, 0);
        direct_exchange(c, peer);
        direct_assert_quiet(c);
        wire_close(peer);
        close(listener);
        connection_free(c);
    }
}

/* The peer dials; the Reply in octets. */
static void test_answers(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = direct_peers_request(c, 0xabcdef, 0x654321), reply;
    WirePeer *peer;

    direct_to_rtr(c, OURS, PEERS, 0xabcdef, 0x123456);
    direct_to_rts(c, 0x654321, FOR_EVER, 0);
    rnic_settle(c->r);
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_mpa_put(peer, &request);
    wire_mpa_get(peer, &reply);
    g_assert_true(reply.reply);
    g_assert_false(reply.reject);
    direct_assert_data(c, &reply, 0xabcdef, 0x123456, 0);
    wire_put_write(peer, 0, 0, NULL, 0);
    direct_exchange(c, peer);
    direct_assert_quiet(c);
    /* The QP does not wait any more. */
    {
        WirePeer *again = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);

        wire_mpa_put(again, &request);
        wire_mpa_get(again, &reply);
        g_assert_true(reply.reject);
        g_assert_cmpint(reply.data[DIRECT_AT_REASON], ==, DIRECT_REASON_NO_QP);
        g_assert_cmpint(wire_end(again), ==, WIRE_FIN);
        wire_close(again);
    }
    wire_abort(peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    connection_post(c, RNIC_SQ_SEND, 60, 0, LENGTH);
    direct_expect_retry_exceeded(c, 60);
    connection_free(c);
}

/* Reads that the peer did not answer are missed when it is killed. */
static void test_peer_killed(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = direct_peers_request(c, 7, 0x654321), reply;
    WirePeer *peer;
    WireRead read;

    direct_to_rtr(c, OURS, PEERS, 7, 0x123456);
    direct_to_rts(c, 0x654321, FOR_EVER, 0);
    rnic_settle(c->r);
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_mpa_put(peer, &request);
    wire_mpa_get(peer, &reply);
    g_assert_false(reply.reject);
    wire_put_write(peer, 0, 0, NULL, 0);
    connection_recv(c, 1, 0, LENGTH);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 64);
    connection_post(c, RNIC_SQ_SEND, 3, 0, 64);
    wire_get_read_request(peer, 1, &read);
    rnic_settle(c->r);
    direct_assert_quiet(c);
    wire_abort(peer);
    direct_expect_retry_exceeded(c, 2);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
    direct_assert_quiet(c);
    connection_free(c);
}

/* Both dial at the same time: the lower QP number's attempt wins. */
static void test_tie(void)
{
    Connection *c = connection_prepare(NULL);
    int listener = wire_listen_at(PEERS, DIRECT_PORT);
    uint32_t high = c->qp.number + 1, low = c->qp.number - 1;
    WireMpa request, reply;
    WirePeer *ours, *theirs;

    /* Ours wins; when it fails all the same, the next one follows at once. */
    direct_to_rtr(c, OURS, PEERS, high, 1);
    direct_to_rts(c, 2, FOR_EVER, 0);
    ours = direct_dialed(c, listener, high, 1);
    theirs = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    request = direct_peers_request(c, high, 2);
    wire_mpa_put(theirs, &request);
    wire_mpa_get(theirs, &reply);
    g_assert_true(reply.reject);
    g_assert_cmpint(reply.data[DIRECT_AT_REASON], ==, DIRECT_REASON_BUSY);
    wire_close(theirs);
    wire_abort(ours);
    ours = direct_dialed(c, listener, high, 1);
    reply = direct_peers_reply(c, high, 2);
    wire_mpa_put(ours, &reply);
    wire_get_tagged(ours, WIRE_WRITE, 0, 0, NULL, 0);
    direct_exchange(c, ours);
    wire_close(ours);
    direct_to_idle(c);

    /* The peer's wins: ours ends. */
    direct_to_rtr(c, OURS, PEERS, low, 1);
    direct_to_rts(c, 2, FOR_EVER, 0);
    ours = direct_dialed(c, listener, low, 1);
    theirs = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    request = direct_peers_request(c, low, 2);
    wire_mpa_put(theirs, &request);
    wire_mpa_get(theirs, &reply);
    g_assert_false(reply.reject);
    wire_expect_end(ours);
    wire_close(ours);
    wire_put_write(theirs, 0, 0, NULL, 0);
    direct_exchange(c, theirs);
    wire_close(theirs);
    close(listener);
    connection_free(c);
}

/* A peer that comes later dials, and otherwise the device, but not often. */
static void test_dials_again(void)
{
    Connection *c = connection_prepare(NULL);
    int listener = wire_listen_at(PEERS, DIRECT_PORT);
    WireMpa reply = direct_peers_reply(c, 5, 2);
    unsigned attempts = 0;
    struct pollfd p = { .fd = listener, .events = POLLIN };
    WirePeer *peer;

    reply.reject = true;
    reply.data[DIRECT_AT_REASON] = DIRECT_REASON_NO_QP;
    direct_to_rtr(c, OURS, PEERS, 5, 1);
    for (unsigned i = 0; i < 60; i++) {
        rnic_pass_time(c->r, 1);
        while (poll(&p, 1, 1) > 0) {
            peer = direct_dialed(c, listener, 5, 1);
            wire_mpa_put(peer, &reply);
            wire_close(peer);
            attempts++;
        }
    }
    g_assert_cmpuint(attempts, >=, 6);
    g_assert_cmpuint(attempts, <=, 14);
    close(listener);
    connection_free(c);
}

/* ---------------------------------------------------------------- bad peers */

/* Requests that are refused, with the reason. */
static void test_hostile_requests(void)
{
    static const struct {
        unsigned at;
        uint8_t flip;
        uint8_t reason;
    } octets[] = {
        { 0, 0x01, DIRECT_REASON_NOT_UNDERSTOOD },
        { 3, 0x80, DIRECT_REASON_NOT_UNDERSTOOD },
        { 4, 0x03, DIRECT_REASON_NOT_UNDERSTOOD },
        { DIRECT_AT_FROM_QPN, 0x80, DIRECT_REASON_MISMATCH },
        { DIRECT_AT_FROM_QPN + 3, 0x01, DIRECT_REASON_MISMATCH },
        { DIRECT_AT_TO_QPN, 0x80, DIRECT_REASON_NO_QP },
        { DIRECT_AT_TO_QPN + 3, 0x40, DIRECT_REASON_NO_QP },
    };
    static const uint16_t lengths[] = { 0, 1, 55, 57, 508 };
    Connection *c = connection_prepare(NULL);
    WirePeer *peer;
    WireMpa reply;

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    direct_to_rts(c, 2, FOR_EVER, 0);
    rnic_settle(c->r);
    for (unsigned i = 0; i < G_N_ELEMENTS(octets) + G_N_ELEMENTS(lengths);
         i++) {
        WireMpa request = direct_peers_request(c, 5, 2);
        uint8_t reason = DIRECT_REASON_NOT_UNDERSTOOD;

        if (i < G_N_ELEMENTS(octets)) {
            request.data[octets[i].at] ^= octets[i].flip;
            reason = octets[i].reason;
        } else {
            request.length = lengths[i - G_N_ELEMENTS(octets)];
        }
        peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
        wire_mpa_put(peer, &request);
        wire_mpa_get(peer, &reply);
        g_assert_true(reply.reject);
        g_assert_cmpuint(reply.length, ==, DIRECT_DATA_LEN);
        g_assert_cmpint(reply.data[DIRECT_AT_REASON], ==, reason);
        g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
        wire_close(peer);
    }
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    direct_assert_quiet(c);
    connection_free(c);
}

/* An address that no QP waits for is turned away unheard; the peer's own attempts
 * cannot fill the device either. */
static void test_crowded(void)
{
    enum { EACH = 8 };
    Connection *c = connection_prepare(NULL);
    WirePeer *silent[EACH], *peer;

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    rnic_settle(c->r);
    for (unsigned i = 0; i < 100; i++) {
        peer = wire_connect(c->r->qts, STRANGERS, OURS, DIRECT_PORT);
        wire_expect_end(peer);
        wire_close(peer);
    }
    for (unsigned i = 0; i < EACH; i++) {
        silent[i] = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    }
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == EACH);
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_expect_end(peer);
    wire_close(peer);
    wire_close(silent[0]);
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == EACH - 1);
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    {
        WireMpa request = direct_peers_request(c, 5, 2), reply;

        wire_mpa_put(peer, &request);
        wire_mpa_get(peer, &reply);
        g_assert_false(reply.reject);
        wire_put_write(peer, 0, 0, NULL, 0);
        direct_exchange(c, peer);
    }
    wire_close(peer);
    for (unsigned i = 1; i < EACH; i++) {
        wire_close(silent[i]);
    }
    connection_free(c);
}

/* Peers that say nothing, half of it, or something else. */
static void test_strange_peers(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = direct_peers_request(c, 5, 2), reply;
    uint8_t octets[600];
    size_t length = wire_mpa_encode(&request, octets);
    WirePeer *silent, *half, *other, *peer;

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    direct_to_rts(c, 2, FOR_EVER, 0);
    rnic_settle(c->r);
    silent = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    half = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_put(half, octets, length - 1);
    other = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_put(other, "GET / HTTP/1.1\r\n\r\n1234567890", 28);
    wire_expect_end(other);
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 2);
    rnic_pass_time(c->r, 11);
    wire_expect_end(silent);
    wire_expect_end(half);
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
    wire_close(silent);
    wire_close(half);
    wire_close(other);
    /* A Request whose sender has gone is not accepted. */
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_put(peer, octets, length);
    wire_close(peer);
    rnic_settle(c->r);
    peer = wire_connect(c->r->qts, PEERS, OURS, DIRECT_PORT);
    wire_mpa_put(peer, &request);
    wire_mpa_get(peer, &reply);
    if (!reply.reject) {
        wire_put_write(peer, 0, 0, NULL, 0);
        direct_exchange(c, peer);
    }
    wire_close(peer);
    connection_free(c);
}

/* Replies that are not those of the peer: the device dials again later. */
static void test_hostile_replies(void)
{
    static const unsigned flips[] = { 0, 4, DIRECT_AT_FROM_QPN + 3, DIRECT_AT_TO_QPN + 3 };
    Connection *c = connection_prepare(NULL);
    int listener = wire_listen_at(PEERS, DIRECT_PORT);
    WireMpa reply;
    WirePeer *peer;

    direct_to_rtr(c, OURS, PEERS, 5, 1);
    direct_to_rts(c, 2, FOR_EVER, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(flips) + 1; i++) {
        peer = direct_dialed(c, listener, 5, 1);
        reply = direct_peers_reply(c, 5, 2);
        if (i < G_N_ELEMENTS(flips)) {
            reply.data[flips[i]] ^= 2;
        } else {
            reply.length = 0;
        }
        wire_mpa_put(peer, &reply);
        wire_expect_end(peer);
        wire_close(peer);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
        rnic_pass_time(c->r, 9);
    }
    peer = direct_dialed(c, listener, 5, 1);
    reply = direct_peers_reply(c, 5, 2);
    wire_mpa_put(peer, &reply);
    wire_get_tagged(peer, WIRE_WRITE, 0, 0, NULL, 0);
    direct_exchange(c, peer);
    wire_close(peer);
    close(listener);
    connection_free(c);
}

/* ---------------------------------------------------------------- commands */

static uint16_t give(Connection *c, struct rnic_admin_sqe sqe)
{
    return rnic_admin(c->r, &sqe, NULL);
}

static void test_commands(void)
{
    Connection *c = connection_prepare(NULL);
    const struct rnic_admin_sqe rtr = direct_connect_command(&c->qp, OURS, PEERS, 5,
                                                             1);
    const struct rnic_admin_sqe rts = direct_send_command(&c->qp, 1, 14, 7);
    struct rnic_admin_sqe sqe;
    int listener;

#define REFUSED(what, field, value, expected)                   \
    do {                                                        \
        sqe = (what);                                           \
        sqe.field = (value);                                    \
        g_assert_cmpuint(give(c, sqe), ==, RNIC_ST_##expected); \
    } while (0)
    g_assert_cmpuint(give(c, rts), ==, RNIC_ST_INVALID_STATE_CHANGE);
    REFUSED(rtr, direct_connect.qpn, cpu_to_le32(999), INVALID_QP);
    REFUSED(rtr, direct_connect.peer_qpn, cpu_to_le32(1 << 24),
            INVALID_MODIFIER);
    REFUSED(rtr, direct_connect.rq_psn, cpu_to_le32(1 << 24),
            INVALID_MODIFIER);
    REFUSED(rtr, direct_connect.min_rnr_timer, 32, INVALID_MODIFIER);
    REFUSED(rtr, direct_connect.ird, cpu_to_le16(129), IRD_EXCEEDED);
    REFUSED(rtr, direct_connect.ord, cpu_to_le16(129), ORD_EXCEEDED);
    REFUSED(rtr, direct_connect.reserved[2], 1, RESERVED_NOT_ZERO);
    REFUSED(rtr, direct_connect.remote[0], 0xff, INVALID_ADDRESS);
    REFUSED(rtr, direct_connect.local[0], 0xff, INVALID_ADDRESS);
    REFUSED(rts, direct_send.qpn, cpu_to_le32(999), INVALID_QP);
    /* A refused one has changed nothing. */
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    g_assert_cmpuint(give(c, rts), ==, RNIC_ST_INVALID_STATE_CHANGE);
    listener = wire_listen_at(OURS, DIRECT_PORT);
    g_assert_cmpuint(give(c, rtr), ==, RNIC_ST_ADDRESS_IN_USE);
    close(listener);
    /* The port is for direct connects only. */
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(OURS), DIRECT_PORT, 1, NULL),
                     ==, RNIC_ST_ADDRESS_IN_USE);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(PEERS), DIRECT_PORT,
                                      1, 1, 1, NULL, 0), ==,
                     RNIC_ST_INVALID_ADDRESS);

    g_assert_cmpuint(give(c, rtr), ==, RNIC_ST_OK);
    g_assert_cmpuint(give(c, rtr), ==, RNIC_ST_INVALID_STATE_CHANGE);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(PEERS), 99,
                                      1, 1, 1, NULL, 0), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    REFUSED(rts, direct_send.sq_psn, cpu_to_le32(1 << 24), INVALID_MODIFIER);
    REFUSED(rts, direct_send.timeout, 32, INVALID_MODIFIER);
    REFUSED(rts, direct_send.retry_count, 8, INVALID_MODIFIER);
    REFUSED(rts, direct_send.rnr_retry, 8, INVALID_MODIFIER);
    REFUSED(rts, direct_send.ord, cpu_to_le16(129), ORD_EXCEEDED);
    REFUSED(rts, direct_send.reserved[0], 1, RESERVED_NOT_ZERO);
    g_assert_cmpuint(give(c, rts), ==, RNIC_ST_OK);
    g_assert_cmpuint(give(c, rts), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(give(c, rts), ==, RNIC_ST_INVALID_STATE_CHANGE);
#undef REFUSED
    connection_free(c);
}

/* ---------------------------------------------------------------- a thousand */

enum { CROWD = 1000 };

static void many(Rnic *r, struct rnic_admin_sqe *sqe)
{
    g_autofree struct rnic_admin_cqe *cqe = g_new0(struct rnic_admin_cqe,
                                                   CROWD);

    rnic_admin_many(r, sqe, CROWD, cqe);
    for (unsigned i = 0; i < CROWD; i++) {
        g_assert_cmpuint(le16_to_cpu(cqe[i].status), ==, RNIC_ST_OK);
    }
}

static RnicQp *crowd_qps(Connection *c)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    RnicQp *qps = g_new0(RnicQp, CROWD);

    init.sq_depth = 8;
    init.rq_depth = 2;
    init.rq_shift = RNIC_RQ_MIN_WQE_SHIFT;
    init.max_sge = 1;
    for (unsigned i = 0; i < CROWD; i++) {
        rnic_create_qp(c->r, &qps[i], &init);
    }
    return qps;
}

static void move_crowd(Connection *c, unsigned local, unsigned remote,
                       const RnicQp *qps, const RnicQp *peers)
{
    g_autofree struct rnic_admin_sqe *rtr = g_new(struct rnic_admin_sqe, CROWD);
    g_autofree struct rnic_admin_sqe *rts = g_new(struct rnic_admin_sqe, CROWD);

    for (unsigned i = 0; i < CROWD; i++) {
        rtr[i] = direct_connect_command(&qps[i], local, remote, peers[i].number, i);
        rts[i] = direct_send_command(&qps[i], i, 22, 7);
    }
    many(c->r, rtr);
    many(c->r, rts);
}

static void test_a_thousand(void)
{
    struct rlimit limit;
    g_autofree RnicQp *a = NULL;
    g_autofree RnicQp *b = NULL;
    DirectPair p;

    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = limit.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    p = direct_pair_up();
    a = crowd_qps(p.a);
    b = crowd_qps(p.b);
    move_crowd(p.a, OURS, PEERS, a, b);
    move_crowd(p.b, PEERS, OURS, b, a);
    for (unsigned i = 0; i < CROWD; i++) {
        RnicWr wr = connection_wr(p.a, RNIC_SQ_SEND, i, 0, 64);
        struct rnic_sge sge = rnic_sge(&p.b->mr, 0, 64);

        rnic_post_recv(p.b->r, &b[i], i, 1, &sge);
        rnic_post_send(p.a->r, &a[i], &wr);
        rnic_expect_cqe(p.b->r, &p.b->recv_cq, i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(p.a->r, &p.a->send_cq, i, RNIC_WC_SUCCESS);
    }
    direct_assert_quiet(p.a);
    direct_assert_quiet(p.b);
    g_assert_cmpuint(rnic_query_counters(p.a->r).endpoints, ==, 0);
    direct_pair_free(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/direct/orders", test_orders);
    qtest_add_func("rnic/direct/simultaneous", test_simultaneous);
    qtest_add_func("rnic/direct/before-rts", test_before_rts);
    qtest_add_func("rnic/direct/late-receive", test_late_receive);
    qtest_add_func("rnic/direct/rnr-wait", test_rnr_wait);
    qtest_add_func("rnic/direct/rnr-wait-ends", test_rnr_wait_ends);
    qtest_add_func("rnic/direct/srq-wait", test_srq_wait);
    qtest_add_func("rnic/direct/late-peer", test_late_peer);
    qtest_add_func("rnic/direct/no-peer", test_no_peer);
    qtest_add_func("rnic/direct/timeouts", test_timeouts);
    qtest_add_func("rnic/direct/read-resources", test_read_resources);
    qtest_add_func("rnic/direct/rts-again", test_rts_again);
    qtest_add_func("rnic/direct/wrong-psn", test_wrong_psn);
    qtest_add_func("rnic/direct/wrong-qpn", test_wrong_qpn);
    qtest_add_func("rnic/direct/one-device", test_one_device);
    qtest_add_func("rnic/direct/own-peer", test_own_peer);
    qtest_add_func("rnic/direct/peer-goes", test_peer_goes);
    qtest_add_func("rnic/direct/sent-before-error", test_sent_before_error);
    qtest_add_func("rnic/direct/given-up", test_given_up);
    qtest_add_func("rnic/direct/dials", test_dials);
    qtest_add_func("rnic/direct/cut-message", test_cut_message);
    qtest_add_func("rnic/direct/answers", test_answers);
    qtest_add_func("rnic/direct/peer-killed", test_peer_killed);
    qtest_add_func("rnic/direct/tie", test_tie);
    qtest_add_func("rnic/direct/dials-again", test_dials_again);
    qtest_add_func("rnic/direct/hostile-requests", test_hostile_requests);
    qtest_add_func("rnic/direct/crowded", test_crowded);
    qtest_add_func("rnic/direct/strange-peers", test_strange_peers);
    qtest_add_func("rnic/direct/hostile-replies", test_hostile_replies);
    qtest_add_func("rnic/direct/commands", test_commands);
    qtest_add_func("rnic/direct/a-thousand", test_a_thousand);
    return g_test_run();
}
