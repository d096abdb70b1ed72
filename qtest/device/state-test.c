/*
 * rnic: the states of a QP, how streams end, resets under traffic
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/resize.h"

/* Of a peer that has not closed: recv() does not tell of a reset behind a FIN. */
static bool was_reset(WirePeer *peer)
{
    struct pollfd p = { .fd = peer->fd };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void assert_no_stream(Connection *c)
{
    g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
}

/* The first messages of a new stream, both ways. */
static void assert_serves(Connection *c)
{
    uint8_t got[8];

    connection_post(c, RNIC_SQ_SEND, 0x5f, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0x5f, RNIC_WC_SUCCESS);
    connection_recv(c, 0x5e, 64, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "received", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 0x5e, RNIC_WC_SUCCESS);
    connection_peek(c, 64, got, 8);
    g_assert_cmpmem(got, 8, "received", 8);
}

/* ------------------------------------------------------------- the 25 pairs */

static void go_to(Connection *c, uint8_t state)
{
    if (state == RNIC_QPS_ERROR) {
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
        RNIC_UNTIL(c->r, rnic_qp_state(c->r, &c->qp) == RNIC_QPS_ERROR);
        rnic_settle(c->r);
    } else if (state != RNIC_QPS_IDLE) {
        connection_establish(c, NULL);
        if (state != RNIC_QPS_RTS) {
            /* The peer does not close, so the QP stays there. */
            g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                             RNIC_ST_OK);
        }
    }
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, state);
}

/*
 * @state to itself with attributes, or attributes alone: refused, and nothing is
 * different afterwards.
 */
static void check_attributes_refused(Connection *c, uint8_t state,
                                     uint16_t status)
{
    static const uint32_t masks[] = {
        RNIC_QP_MODIFY_ORD, RNIC_QP_MODIFY_IRD, RNIC_QP_MODIFY_ENABLES,
        RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_ORD,
        RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_ENABLES,
    };
    struct rnic_qp_attr before, after;
    RnicQp next;

    go_to(c, state);
    before = rnic_query_qp(c->r, &c->qp);
    for (unsigned i = 0; i <= G_N_ELEMENTS(masks); i++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

        if (i == G_N_ELEMENTS(masks)) {
            sqe = resize_qp_command(c->r, &c->qp, 128, 128, &next);
        } else {
            sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
            sqe.modify_qp.mask = cpu_to_le32(masks[i]);
            sqe.modify_qp.next_state = state;
            sqe.modify_qp.ord = cpu_to_le16(1);
            sqe.modify_qp.ird = cpu_to_le16(1);
            sqe.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_READ);
        }
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         state == RNIC_QPS_ERROR &&
                         i < G_N_ELEMENTS(masks) &&
                         (masks[i] & RNIC_QP_MODIFY_STATE)
                         ? RNIC_ST_INVALID_STATE_CHANGE : status);
        after = rnic_query_qp(c->r, &c->qp);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    }
    connection_recycle(c);
}

/* All that Query QP tells, but for what counts octets: a Terminate may be on its way. */
static void assert_same_attributes(const struct rnic_qp_attr *before,
                                   struct rnic_qp_attr after)
{
    after.bytes_sent = before->bytes_sent;
    after.tx_fpdus = before->tx_fpdus;
    g_assert_cmpint(after.state, ==, before->state);
    g_assert_cmpmem(&after, sizeof(after), before, sizeof(*before));
}

static void test_matrix(void)
{
    enum { I = RNIC_ST_OK, X = RNIC_ST_INVALID_STATE_CHANGE,
           L = RNIC_ST_INVALID_LLP_STREAM };
    static const uint16_t expected[5][5] = {
        /* to:                 Idle RTS Closing Terminate Error */
        [RNIC_QPS_IDLE] =      { I,  L,  X,      X,        I },
        [RNIC_QPS_RTS] =       { X,  I,  I,      I,        I },
        [RNIC_QPS_CLOSING] =   { X,  X,  X,      X,        X },
        [RNIC_QPS_TERMINATE] = { X,  X,  X,      X,        X },
        [RNIC_QPS_ERROR] =     { I,  X,  X,      X,        X },
    };
    Connection *c = connection_prepare(NULL);

    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    for (uint8_t from = 0; from < 5; from++) {
        for (uint8_t to = 0; to < 5; to++) {
            struct rnic_qp_attr before;
            uint16_t status;

            go_to(c, from);
            before = rnic_query_qp(c->r, &c->qp);
            status = rnic_modify_qp_state(c->r, &c->qp, to);
            g_assert_cmpuint(status, ==, expected[from][to]);
            if (status != RNIC_ST_OK) {
                assert_same_attributes(&before, rnic_query_qp(c->r, &c->qp));
            } else {
                g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, to);
            }
            if (from == RNIC_QPS_RTS && status != RNIC_ST_OK) {
                uint8_t got[4];

                connection_post(c, RNIC_SQ_SEND, 1, 0, 4);
                wire_get_send(c->peer, WIRE_SEND, 1, got, 4);
            }
            if (c->peer) {
                wire_close(c->peer);
                c->peer = NULL;
            }
            if (from == RNIC_QPS_RTS && status != RNIC_ST_OK) {
                rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
            }
            connection_recycle(c);
        }
    }
    check_attributes_refused(c, RNIC_QPS_CLOSING,
                             RNIC_ST_INVALID_STATE_CHANGE);
    check_attributes_refused(c, RNIC_QPS_TERMINATE,
                             RNIC_ST_INVALID_STATE_CHANGE);
    check_attributes_refused(c, RNIC_QPS_ERROR,
                             RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    connection_free(c);
    rnic_shows("V6.2-1 V6.2-2 V6.2.1-1 V6.2.1-4 V6.2.2-4 V6.2.3-12 V6.2.4-10 "
               "V6.2.5-2 V6.1.3-11 V9.2.5.3-3");
}

/* To RTS without a stream of its own: none, one half made, another QP's, one gone. */
static void test_no_stream(void)
{
    Connection *c = connection_prepare(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    WireMpa request;
    WirePeer *half;
    uint16_t port;
    int listener;

#define NO_STREAM()                                                     \
    do {                                                                \
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,             \
                                              RNIC_QPS_RTS),            \
                         ==, RNIC_ST_INVALID_LLP_STREAM);               \
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==,                \
                        RNIC_QPS_IDLE);                                 \
    } while (0)
    NO_STREAM();
    connection_establish(other, NULL);
    NO_STREAM();

    listener = wire_listen(2, &port);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1,
                                      1, 7, NULL, 0), ==, RNIC_ST_OK);
    half = wire_accept(c->r->qts, listener);
    wire_mpa_get(half, &request);
    NO_STREAM();
    wire_close(half);
    close(listener);
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    NO_STREAM();

    connection_establish(c, NULL);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    NO_STREAM();
#undef NO_STREAM
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.2.1.2-1 V9.2.5.3-4");
}

/*
 * A transition with each attribute, one at a time; the values are good ones, and others
 * than those in force.
 */
static struct rnic_admin_sqe transition_with(Connection *c, uint8_t next,
                                             unsigned attribute)
{
    static const uint32_t masks[] = {
        RNIC_QP_MODIFY_IRD, RNIC_QP_MODIFY_ORD, RNIC_QP_MODIFY_ENABLES,
        RNIC_QP_MODIFY_RQ_LIMIT,
        RNIC_QP_MODIFY_SQ_DEPTH | RNIC_QP_MODIFY_RQ_DEPTH,
    };
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    RnicQp resized;

    if (attribute >= G_N_ELEMENTS(masks)) {
        return (struct rnic_admin_sqe) { };
    }
    if (masks[attribute] & RNIC_QP_MODIFY_SQ_DEPTH) {
        sqe = resize_qp_command(c->r, &c->qp, 128, 128, &resized);
    }
    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE | masks[attribute]);
    sqe.modify_qp.next_state = next;
    sqe.modify_qp.ird = cpu_to_le16(2);
    sqe.modify_qp.ord = cpu_to_le16(1);
    sqe.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_READ);
    sqe.modify_qp.rq_limit = cpu_to_le32(
        masks[attribute] & RNIC_QP_MODIFY_RQ_LIMIT ? 3 : 0);
    return sqe;
}

static void check_no_attributes(Connection *c, uint8_t from, uint8_t to)
{
    struct rnic_qp_attr before;
    struct rnic_admin_sqe sqe;

    go_to(c, from);
    before = rnic_query_qp(c->r, &c->qp);
    for (unsigned i = 0; sqe = transition_with(c, to, i), sqe.opcode; i++) {
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
        assert_same_attributes(&before, rnic_query_qp(c->r, &c->qp));
    }
    /* It was the attributes. */
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, to), ==, RNIC_ST_OK);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, to);
}

/* The same five for a QP with an S-RQ: one that has an RQ has no RQ Limit anyhow. */
static void check_no_limit(uint8_t from, uint8_t to)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    Connection *c;
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) { .srq = &srq });
    check_no_attributes(c, from, to);
    connection_free(c);
}

/* These transitions take no attribute along. */
static void test_no_attributes(void)
{
    static const uint8_t pairs[][2] = {
        { RNIC_QPS_IDLE, RNIC_QPS_ERROR },
        { RNIC_QPS_RTS, RNIC_QPS_CLOSING },
        { RNIC_QPS_RTS, RNIC_QPS_TERMINATE },
        { RNIC_QPS_RTS, RNIC_QPS_ERROR },
        { RNIC_QPS_ERROR, RNIC_QPS_IDLE },
    };
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(pairs); i++) {
        check_no_attributes(c, pairs[i][0], pairs[i][1]);
        connection_recycle(c);
        check_no_limit(pairs[i][0], pairs[i][1]);
    }
    /* IRD is fixed once connected; nothing changes in Closing. */
    for (int closing = 0; closing < 2; closing++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

        go_to(c, closing ? RNIC_QPS_CLOSING : RNIC_QPS_RTS);
        sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
        sqe.modify_qp.mask = cpu_to_le32(closing ? RNIC_QP_MODIFY_ORD
                                                 : RNIC_QP_MODIFY_IRD);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), !=, RNIC_ST_OK);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.1.3-4");
}

/* --------------------------------------------------------------------- Idle */

static void test_idle(void)
{
    enum { SENDS = 7, RECEIVES = 9 };
    Connection *c = connection_prepare(NULL);
    struct rnic_qp_attr attr;
    uint8_t got[8];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SENDS; i++) {
            RnicWr wr = connection_wr(c, i & 1 ? RNIC_SQ_SEND
                                               : RNIC_SQ_RDMA_READ, i, 0, 4);

            wr.flags = i & 2 ? RNIC_WQE_SIGNALED : 0;
            rnic_post_send(c->r, &c->qp, &wr);
        }
        for (int i = 0; i < RECEIVES; i++) {
            connection_recv(c, 100 + i, 0, 4);
        }
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_cmpint(attr.state, ==, RNIC_QPS_IDLE);
        g_assert_cmphex(attr.llp_stream, ==, 0);
        go_to(c, RNIC_QPS_ERROR);
        for (int i = 0; i < SENDS; i++) {
            struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->send_cq, i,
                                                  RNIC_WC_FLUSHED);

            g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        }
        for (int i = 0; i < RECEIVES; i++) {
            rnic_expect_cqe(c->r, &c->recv_cq, 100 + i, RNIC_WC_FLUSHED);
        }
        /* The drain marker: posted in Error, comes back flushed. */
        connection_post(c, RNIC_SQ_SEND, 50, 0, 0);
        connection_recv(c, 51, 0, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 50, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->recv_cq, 51, RNIC_WC_FLUSHED);
        RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE) ==
                         RNIC_ST_OK);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        rnic_expect_no_async(c->r);
        rnic_expect_no_cm(c->r);
    }
    connection_establish(c, NULL);
    connection_post(c, RNIC_SQ_SEND, 60, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 60, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V9.3.1.2-5 V6.1.1-9 V6.2.1-2 V6.2.1-3 V8.2.4-9 V9.5.2-2");
}

/* ------------------------------------------------------------- clean closes */

static void post_receives(Connection *c, int count)
{
    for (int i = 0; i < count; i++) {
        connection_recv(c, 200 + i, 0, 8);
    }
}

static void expect_flushed_receives(Connection *c, int count)
{
    for (int i = 0; i < count; i++) {
        rnic_expect_cqe(c->r, &c->recv_cq, 200 + i, RNIC_WC_FLUSHED);
    }
}

static void expect_disconnected(Connection *c, uint16_t terminate)
{
    struct rnic_cm_event event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);

    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, CONNECTION_COOKIE);
    g_assert_cmphex(le16_to_cpu(event.terminate), ==, terminate);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
}

/* The state that a Modify QP to Closing, which succeeds, has led to. */
static uint8_t close_succeeds(Connection *c)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    struct rnic_admin_cqe cqe;

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_CLOSING;
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    return cqe.qp.state;
}

/* The event comes before Idle, once; there is no stream, and nothing else comes. */
static void expect_close_complete(Connection *c)
{
    struct rnic_aeqe aeqe = rnic_expect_async(
        c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);

    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_CLOSING);
    expect_disconnected(c, 0);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    assert_no_stream(c);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
}

/* The guest closes. */
static void test_close(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .rq_depth = 1024 });

    for (int receives = 0; receives <= 700; receives += 350) {
        connection_establish(c, NULL);
        post_receives(c, receives);
        g_assert_cmpint(close_succeeds(c), ==, RNIC_QPS_CLOSING);
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
        expect_flushed_receives(c, receives);
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_CLOSING);
        g_assert_false(was_reset(c->peer));
        wire_shutdown(c->peer);
        expect_close_complete(c);
        connection_recycle(c);
        /* The QP is as good as new. */
        connection_establish(c, NULL);
        assert_serves(c);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.2.2-4 V6.2.5-4 V6.2.5-5 V6.2.5-11 V6.6.2.1-1 V9.5.3-2");
}

/*
 * The command that succeeds has had the QP enter Closing; what takes it out again
 * may be quicker than the answer.
 */
static void test_close_left(void)
{
    Connection *c = connection_prepare(NULL);

    for (int busy = 0; busy < 2; busy++) {
        WireRead read;
        uint8_t state;

        connection_establish(c, NULL);
        if (busy) {
            connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
            wire_get_read_request(c->peer, 1, &read);
        }
        state = close_succeeds(c);
        g_assert_true(state == RNIC_QPS_CLOSING ||
                      (busy && state == RNIC_QPS_ERROR));
        state = rnic_qp_state(c->r, &c->qp);
        g_assert_true(state == RNIC_QPS_CLOSING ||
                      (busy && state == RNIC_QPS_ERROR));
        if (busy) {
            rnic_expect_async(c->r, RNIC_AE_BAD_CLOSE, c->qp.number);
        } else {
            wire_shutdown(c->peer);
            rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
        }
        rnic_wait_qp_state(c->r, &c->qp, busy ? RNIC_QPS_ERROR
                                              : RNIC_QPS_IDLE);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.2.2-6");
}

/* Work of each kind in both directions, all of it done. */
static void do_work(Connection *c)
{
    WireRead read;
    uint8_t got[8];

    connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    connection_post(c, RNIC_SQ_RDMA_WRITE, 2, 0, 8);
    connection_get_write(c, 0, got, 8);
    connection_post(c, RNIC_SQ_RDMA_READ, 3, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "12345678",
                           8);
    for (int i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
}

/* The peer closes, and nothing is unfinished: also when work has been done. */
static void test_peer_close(void)
{
    Connection *c = connection_prepare(NULL);

    for (int receives = 0; receives < 3; receives++) {
        struct rnic_cm_event event;

        connection_establish(c, NULL);
        post_receives(c, receives);
        if (receives) {
            do_work(c);
        }
        wire_shutdown(c->peer);
        event = rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
        g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
        g_assert_cmphex(le64_to_cpu(event.cookie), ==, CONNECTION_COOKIE);
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
        expect_flushed_receives(c, receives);
        expect_close_complete(c);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.2.2-1 V6.2.5-11 V6.6.2.1-1 V9.5.3-2");
}

/*
 * What is posted after a close nobody noticed stays, and can be recovered; the
 * completions of before keep their status, and no stream notices: not the neighbour's
 * either.
 */
static void test_late_posts(void)
{
    enum { SENDS = 5, RECEIVES = 3 };
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    uint8_t got[8];

    connection_establish(other, NULL);
    connection_post(c, RNIC_SQ_SEND, 9, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    for (int i = 0; i < SENDS; i++) {
        connection_post(c, RNIC_SQ_SEND, 20 + i, 0, 4);
    }
    post_receives(c, RECEIVES);
    rnic_settle(c->r);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    connection_drain_events(c);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    for (int i = 0; i < SENDS; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, 20 + i, RNIC_WC_FLUSHED);
    }
    expect_flushed_receives(c, RECEIVES);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cm(c->r);
    wire_expect_silence(other->peer);
    connection_recycle(c);
    /* Nothing of it comes again. */
    connection_establish(c, NULL);
    connection_recv(c, 31, 0, 4);
    wire_put_send(c->peer, WIRE_SEND, 0, "anew", 4);
    rnic_expect_cqe(c->r, &c->recv_cq, 31, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 30, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 4, "anew", 4);
    rnic_expect_cqe(c->r, &c->send_cq, 30, RNIC_WC_SUCCESS);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.2.1-5");
}

/* Idle to Error: each queue's in its order, behind what is on the CQ; no stream. */
static void test_flush_in_idle(void)
{
    enum { DONE = 4, SENDS = 6, RECEIVES = 3 };
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    struct rnic_counters before, after;
    uint8_t got[8];

    connection_establish(other, NULL);
    for (int i = 0; i < DONE; i++) {
        connection_recv(c, 10 + i, 0, 4);
        wire_put_send(c->peer, WIRE_SEND, 0, "done", 4);
        connection_post(c, RNIC_SQ_SEND, i, 0, 4);
        wire_get_send(c->peer, WIRE_SEND, i + 1, got, 8);
    }
    RNIC_UNTIL(c->r, le64_to_cpu(rnic_query_qp(c->r, &c->qp).cqes) ==
                     2 * DONE);
    wire_close(c->peer);
    c->peer = NULL;
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
    expect_disconnected(c, 0);
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    for (int i = 0; i < SENDS; i++) {
        connection_post(c, RNIC_SQ_SEND, 20 + i, 0, 4);
    }
    post_receives(c, RECEIVES);
    before = rnic_query_counters(c->r);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    for (int i = 0; i < DONE; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(c->r, &c->recv_cq, 10 + i, RNIC_WC_SUCCESS);
    }
    for (int i = 0; i < SENDS; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, 20 + i, RNIC_WC_FLUSHED);
    }
    expect_flushed_receives(c, RECEIVES);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cm(c->r);
    after = rnic_query_counters(c->r);
    g_assert_cmpuint(after.tx_octets, ==, before.tx_octets);
    g_assert_cmpuint(after.connects, ==, before.connects);
    g_assert_cmpuint(after.endpoints, ==, before.endpoints);
    wire_expect_silence(other->peer);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.2.1.3-1");
}

/* ---------------------------------------------------------- closes gone bad */

/* FIN while something is under way. */
static void test_peer_close_busy(void)
{
    enum { READ_OUT, READ_IN, SEND, COUNT };     /* of octets that cannot go */
    enum { LARGE = 16 * 1024 * 1024 };

    for (int kind = 0; kind < COUNT; kind++) {
        Connection *c = connection_new(NULL);
        struct rnic_cm_event event;
        struct rnic_aeqe aeqe;
        WireTerminate t;
        WireRead read;
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .wr_id = 1, .num_sge = 1 };
        RnicMr mr;

        post_receives(c, 2);
        rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
        switch (kind) {
        case READ_OUT:
            connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
            break;
        case READ_IN:
            wire_put_read_request(c->peer, &(WireRead) {
                .size = LARGE, .source_stag = mr.stag,
                .source_to = mr.va });
            break;
        default:
            wr.sge[0] = rnic_sge(&mr, 0, LARGE);
            rnic_post_send(c->r, &c->qp, &wr);
        }
        rnic_settle(c->r);
        wire_shutdown(c->peer);
        aeqe = rnic_expect_async(c->r, RNIC_AE_BAD_LLP_CLOSE, c->qp.number);
        g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_TERMINATE);
        if (kind == READ_OUT) {
            wire_get_read_request(c->peer, 1, &read);
            wire_get_terminate(c->peer, &t);
        } else {
            /* What had begun of the message precedes it. */
            wire_skip_to_terminate(c->peer, &t);
        }
        g_assert_cmphex(t.code, ==, 0x0207);
        g_assert_cmphex(t.flags, ==, 0);
        wire_expect_end(c->peer);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        if (kind != READ_IN) {
            rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
        }
        expect_flushed_receives(c, 2);
        event = rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
        event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
        g_assert_cmphex(le16_to_cpu(event.terminate), ==, 0x0207);
        rnic_expect_no_async(c->r);
        connection_free(c);
    }
    /* An error of the peer's and one of its own lead there, too. */
    for (int own = 0; own < 2; own++) {
        Connection *c = connection_new(NULL);
        RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 8);

        if (own) {
            wr.sge[0].stag = cpu_to_le32(0x77777700);
            rnic_post_send(c->r, &c->qp, &wr);
        } else {
            wire_put_write(c->peer, 0x77777700, 0, "x", 1);
        }
        wire_expect_terminate(c->peer, own ? 0 : 0x1100);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
        wire_shutdown(c->peer);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        connection_free(c);
    }
    rnic_shows("V6.2.2.2-2 V6.2.2.3-3 V8.3.3-13 V9.5.3-22");
}

static void test_peer_reset(void)
{
    Connection *c = connection_prepare(NULL);

    for (int round = 0; round < 2; round++) {
        connection_establish(c, NULL);
        post_receives(c, 3);
        connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
        connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 8);
        rnic_settle(c->r);
        wire_abort(c->peer);
        c->peer = NULL;
        rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
        expect_flushed_receives(c, 3);
        expect_disconnected(c, 0);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
        g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
        g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
        rnic_expect_no_async(c->r);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.2.4-3 V6.2.2.4-4 V9.5.3-4 V6.2.4-1");
}

/* All ways out of RTS. */
enum { CLOSE, BUSY_CLOSE, PEER_TERMINATE, RESET, BAD_WRITE, BAD_WORK, ABORT,
       OWN_CLOSE, OWN_TERMINATE, WAYS_OUT };

static void leave_rts(Connection *c, int way)
{
    switch (way) {
    case PEER_TERMINATE:
        wire_put_terminate(c->peer, 0x0207);
        break;
    case RESET:
        wire_abort(c->peer);
        c->peer = NULL;
        break;
    case BAD_WRITE:
        wire_put_write(c->peer, 0x77777700, 0, "x", 1);
        break;
    case BAD_WORK:
        break;
    case ABORT:
    case OWN_CLOSE:
    case OWN_TERMINATE:
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              way == ABORT ? RNIC_QPS_ERROR
                                              : way == OWN_CLOSE
                                              ? RNIC_QPS_CLOSING
                                              : RNIC_QPS_TERMINATE),
                         ==, RNIC_ST_OK);
        break;
    default:
        wire_shutdown(c->peer);
    }
}

/* What the peer gets until the end, which is as it should be: a Terminate? */
static bool terminate_comes(Connection *c, int way)
{
    WireSegment segment;
    WireEnd end = WIRE_RST;
    bool seen = false;

    while (c->peer && (end = wire_end(c->peer)) == WIRE_DATA) {
        wire_get_segment(c->peer, &segment);
        seen |= segment.opcode == WIRE_TERMINATE;
        g_free(segment.payload);
    }
    g_assert_cmpint(end, ==, way == ABORT || way == RESET ? WIRE_RST
                                                          : WIRE_FIN);
    return seen;
}

/*
 * As many events as there should be, a Terminate only when there should be one,
 * everything flushed, and a new stream afterwards.
 */
static void test_ways_out(void)
{
    static const struct {
        uint16_t event;
        bool terminate;         /* from the device */
    } ways[WAYS_OUT] = {
        [CLOSE] = { RNIC_AE_LLP_CLOSE_COMPLETE, false },
        [BUSY_CLOSE] = { RNIC_AE_BAD_LLP_CLOSE, true },
        [PEER_TERMINATE] = { RNIC_AE_TERMINATE_RECEIVED, false },
        [RESET] = { RNIC_AE_LLP_RESET, false },
        [BAD_WRITE] = { RNIC_AE_TAGGED_INVALID_STAG, true },
        [BAD_WORK] = { 0, true },
        [ABORT] = { 0, false },
        [OWN_CLOSE] = { RNIC_AE_LLP_CLOSE_COMPLETE, false },
        [OWN_TERMINATE] = { 0, true },
    };
    Connection *c = connection_prepare(NULL);

    for (int way = 0; way < WAYS_OUT; way++) {
        RnicWr wr = connection_wr(c, way == BAD_WORK ? RNIC_SQ_SEND
                                                     : RNIC_SQ_RDMA_READ, 1,
                                  0, 8);
        bool clean = way == CLOSE || way == OWN_CLOSE;
        bool seen;

        connection_establish(c, NULL);
        post_receives(c, 3);
        if (!clean) {
            if (way == BAD_WORK) {
                wr.sge[0].stag = cpu_to_le32(0x77777700);
            }
            rnic_post_send(c->r, &c->qp, &wr);
            connection_post(c, RNIC_SQ_SEND, 2, 0, 8);
            rnic_settle(c->r);
        }
        leave_rts(c, way);
        seen = terminate_comes(c, way);
        if (way == PEER_TERMINATE || way == BAD_WRITE || way == BAD_WORK ||
            way == OWN_CLOSE || way == OWN_TERMINATE) {
            wire_shutdown(c->peer);
        }
        rnic_wait_qp_state(c->r, &c->qp, clean ? RNIC_QPS_IDLE
                                               : RNIC_QPS_ERROR);
        if (way == CLOSE || way == BUSY_CLOSE) {
            rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
        }
        rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
        if (ways[way].event) {
            rnic_expect_async(c->r, ways[way].event, c->qp.number);
        }
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        g_assert_cmpint(seen, ==, ways[way].terminate);
        assert_no_stream(c);
        g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin == 1, ==,
                        ways[way].terminate);
        if (!clean) {
            rnic_expect_cqe(c->r, &c->send_cq, 1,
                            way == BAD_WORK ? RNIC_WC_INVALID_STAG
                                            : RNIC_WC_FLUSHED);
            rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
        }
        expect_flushed_receives(c, 3);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        connection_recycle(c);
        connection_establish(c, NULL);
        assert_serves(c);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.2.2-3 V6.2.2.4-4 V6.2.3-9 V6.2.4-1 V6.4-13 V6.6.2-1 "
               "V6.6.2.2-2 R6.2-1");
}

/*
 * What an error in Closing leads to, in this order: a reset and no stream, Error, the
 * event; once, and without a Terminate.
 */
static void expect_bad_close(Connection *c, uint16_t event)
{
    struct rnic_aeqe aeqe = rnic_expect_async(c->r, event, c->qp.number);

    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_ERROR);
    g_assert_cmphex(aeqe.terminate, ==, 0);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    assert_no_stream(c);
    if (c->peer) {
        RNIC_UNTIL(c->r, was_reset(c->peer));
    }
    expect_disconnected(c, 0);
    rnic_expect_no_async(c->r);
    g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
}

/* All there is until the end: Read Responses, the last one cut perhaps. */
static void expect_responses_and_end(Connection *c, uint32_t most)
{
    g_autofree uint8_t *octets = g_malloc(most);
    size_t count = 0, at = 0;
    ssize_t n;

    do {
        n = recv(c->peer->fd, octets + count, most - count, 0);
        count += MAX(n, 0);
    } while (n > 0);
    g_assert_cmpuint(count, <, most);
    while (at + 4 <= count) {
        g_assert_cmphex(octets[at + 3] & 0x0f, ==, WIRE_READ_RESPONSE);
        at += ROUND_UP(lduw_be_p(octets + at) + 2, 4) + 4;
    }
}

/* What is under way when a close begins, or is posted into it. */
static void check_close_with_work(void)
{
    enum { READ_OUT, READ_IN, LATE, COUNT };
    enum { LARGE = 16 * 1024 * 1024 };

    for (int kind = 0; kind < COUNT; kind++) {
        Connection *c = connection_new(NULL);
        WireRead read;
        RnicMr mr;

        post_receives(c, 2);
        if (kind == READ_OUT) {
            connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
            wire_get_read_request(c->peer, 1, &read);
        } else if (kind == READ_IN) {
            rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
            wire_put_read_request(c->peer, &(WireRead) {
                .size = LARGE, .source_stag = mr.stag, .source_to = mr.va });
            g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
        }
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              RNIC_QPS_CLOSING), ==,
                         RNIC_ST_OK);
        if (kind == LATE) {
            g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
            expect_flushed_receives(c, 2);
            g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==,
                            RNIC_QPS_CLOSING);
            connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
        }
        expect_bad_close(c, RNIC_AE_BAD_CLOSE);
        if (kind == READ_IN) {
            expect_responses_and_end(c, LARGE);
        } else {
            wire_expect_end(c->peer);
            rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
        }
        if (kind != LATE) {
            expect_flushed_receives(c, 2);
        }
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        connection_recycle(c);
        connection_establish(c, NULL);
        assert_serves(c);
        connection_free(c);
    }
}

/* Receives alone are no work left: Idle, where what is posted then waits. */
static void check_close_with_receives(void)
{
    Connection *c = connection_new(NULL);
    uint8_t got[8];

    post_receives(c, 2);
    g_assert_cmpint(close_succeeds(c), ==, RNIC_QPS_CLOSING);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    wire_close(c->peer);
    c->peer = NULL;
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    expect_flushed_receives(c, 2);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    connection_post(c, RNIC_SQ_SEND, 7, 0, 8);
    connection_recv(c, 8, 0, 8);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_drain_events(c);
    connection_establish(c, NULL);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 7, RNIC_WC_SUCCESS);
    wire_put_send(c->peer, WIRE_SEND, 0, "received", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 8, RNIC_WC_SUCCESS);
    connection_free(c);
}

static void test_close_with_work(void)
{
    check_close_with_work();
    check_close_with_receives();
    rnic_shows("V6.2.2.2-5 V6.2.5-1 V6.2.5-6 V6.2.5-10 V6.6.2.2-2 V8.3.3-12 "
               "V9.5.3-21");
}

/* What arrives in Closing: none of it is done. */
static void put_into_close(Connection *c, uint8_t opcode)
{
    switch (opcode) {
    case WIRE_TERMINATE:
        wire_put_terminate(c->peer, 0x0207);
        break;
    case WIRE_SEND:
        wire_put_send(c->peer, WIRE_SEND, 0, "intruder", 8);
        break;
    case WIRE_READ_REQUEST:
        wire_put_read_request(c->peer, &(WireRead) {
            .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
        break;
    default:
        wire_put_write(c->peer, c->mr.stag, c->mr.va, "intruder", 8);
    }
}

static void test_close_with_data(void)
{
    static const uint8_t opcodes[] = {
        WIRE_WRITE, WIRE_SEND, WIRE_READ_REQUEST, WIRE_TERMINATE,
    };
    g_autofree uint8_t *before = g_malloc0(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        Connection *c = connection_new(NULL);

        post_receives(c, 2);
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              RNIC_QPS_CLOSING), ==,
                         RNIC_ST_OK);
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
        put_into_close(c, opcodes[i]);
        /* No Terminate, no response; the peer's Terminate is not kept. */
        expect_bad_close(c, RNIC_AE_BAD_CLOSE);
        wire_expect_end(c->peer);
        expect_flushed_receives(c, 2);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        connection_peek(c, 0, after, CONNECTION_MR_SIZE);
        g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
        connection_free(c);
    }
    rnic_shows("V6.2.5-1 V6.2.5-7 V6.2.5-8 V6.2.5-10 V8.3.3-12 V9.5.3-21");
}

/* The peer dies, or says nothing. */
static void test_close_lost(void)
{
    for (int silent = 0; silent < 2; silent++) {
        Connection *c = connection_new(NULL);

        post_receives(c, 1);
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              RNIC_QPS_CLOSING), ==,
                         RNIC_ST_OK);
        expect_flushed_receives(c, 1);
        if (silent) {
            rnic_pass_time(c->r, 5);
            g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==,
                            RNIC_QPS_CLOSING);
            rnic_expect_no_async(c->r);
            rnic_pass_time(c->r, 10);
        } else {
            wire_abort(c->peer);
            c->peer = NULL;
        }
        expect_bad_close(c, RNIC_AE_LLP_LOST);
        connection_free(c);
    }
    rnic_shows("V6.2.5-9 V6.2.5-10");
}

/* ---------------------------------------------------------------- Terminate */

/* Of @attr: whose Terminate it is, and its octets. */
static void assert_terminate_kept(const struct rnic_qp_attr *attr,
                                  const WireTerminate *t)
{
    g_assert_cmpint(attr->terminate_origin, ==, 1);
    g_assert_cmpmem(attr->terminate, attr->terminate_length, t->octets,
                    t->length);
}

/* Nothing of it is done any more for the peer, and none of it is an error. */
static void put_into_terminate(Connection *c, const WireRead *read)
{
    wire_put_write(c->peer, c->mr.stag, c->mr.va, "intruder", 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "intruder", 8);
    wire_put_read_response(c->peer, read->sink_stag, read->sink_to,
                           "intruder", 8);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    wire_put_terminate(c->peer, 0x0207);
}

/* A Read is not answered yet, a Send waits for that; the QP is told to end. */
static void check_terminate(Connection *c)
{
    g_autofree uint8_t *before = g_malloc0(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 2, 0, 8);
    struct rnic_qp_attr attr;
    WireTerminate t;
    WireRead read;

    post_receives(c, 2);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wr.flags |= RNIC_WQE_READ_FENCE;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE),
                     ==, RNIC_ST_OK);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_TERMINATE);
    wire_get_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, 0);
    g_assert_cmphex(t.flags, ==, 0);
    g_assert_cmpuint(t.length, ==, 4);
    assert_terminate_kept(&attr, &t);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    put_into_terminate(c, &read);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    expect_flushed_receives(c, 2);
    expect_disconnected(c, 0);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_peek(c, 0, after, CONNECTION_MR_SIZE);
    g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
    attr = rnic_query_qp(c->r, &c->qp);
    assert_terminate_kept(&attr, &t);
    g_assert_cmphex(attr.llp_stream, ==, 0);
}

static void test_terminate(void)
{
    Connection *c = connection_prepare(NULL);

    for (int round = 0; round < 2; round++) {
        connection_establish(c, NULL);
        check_terminate(c);
        connection_recycle(c);
    }
    /* A new stream starts without one. */
    connection_establish(c, NULL);
    g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
    assert_serves(c);
    connection_free(c);
    rnic_shows("V6.2.2.3-1 V6.2.3-1 V6.2.3-3 V6.2.3-8 V6.2.3-10 V6.2.3-11 "
               "V6.2.3-13 V6.2.4-6");
}

/* Into Terminate. */
enum { BY_MODIFY, BY_MODIFY_STUCK, BY_WORK, BY_RECEIVE, BY_PEER, WAYS_IN };
enum { LONG_MESSAGE = 16 * 1024 * 1024 };

/* More than there is room for, on the way to a peer that does not read. */
static void post_large_write(Connection *c)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 1, .num_sge = 1,
                  .remote_stag = 7 };
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LONG_MESSAGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LONG_MESSAGE);
    rnic_post_send(c->r, &c->qp, &wr);
}

/* *@t is what the peer gets, or is to get. */
static void enter_terminate(Connection *c, int way, WireTerminate *t)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 8);

    wr.sge[0].stag = cpu_to_le32(0x77777700);
    switch (way) {
    case BY_MODIFY_STUCK:
        post_large_write(c);
        rnic_settle(c->r);
        /* fall through */
    case BY_MODIFY:
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              RNIC_QPS_TERMINATE), ==,
                         RNIC_ST_OK);
        break;
    case BY_WORK:
        rnic_post_send(c->r, &c->qp, &wr);
        break;
    case BY_RECEIVE:
        rnic_post_recv(c->r, &c->qp, 1, 1, wr.sge);
        wire_put_send(c->peer, WIRE_SEND, 0, "nowhere.", 8);
        break;
    default:
        wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    }
    if (way == BY_MODIFY_STUCK) {
        *t = (WireTerminate) { .length = 4 };
    } else {
        wire_get_terminate(c->peer, t);
    }
    if (way == BY_PEER) {
        rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    }
}

/* The end of Terminate fails: once more an event, if there was none yet. */
static void check_terminate_lost(int way, bool silent)
{
    Connection *c = connection_new(NULL);
    struct rnic_qp_attr attr;
    WireTerminate t;

    enter_terminate(c, way, &t);
    if (silent) {
        rnic_pass_time(c->r, 5);
    } else {
        rnic_settle(c->r);
    }
    rnic_expect_no_async(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
    if (silent) {
        /* What the peer says meanwhile is no reason to wait longer. */
        wire_put_write(c->peer, c->mr.stag, c->mr.va, "intruder", 8);
        rnic_settle(c->r);
        rnic_pass_time(c->r, 6);
    } else {
        wire_abort(c->peer);
        c->peer = NULL;
    }
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    if (way != BY_PEER) {
        struct rnic_aeqe aeqe = rnic_expect_async(c->r, RNIC_AE_BAD_CLOSE,
                                                  c->qp.number);

        g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_ERROR);
    }
    if (silent) {
        RNIC_UNTIL(c->r, was_reset(c->peer));
    }
    expect_disconnected(c, t.code);
    rnic_expect_no_async(c->r);
    attr = rnic_query_qp(c->r, &c->qp);
    assert_terminate_kept(&attr, &t);
    g_assert_cmphex(attr.llp_stream, ==, 0);
    connection_recycle(c);
    connection_establish(c, NULL);
    assert_serves(c);
    connection_free(c);
}

static void test_terminate_lost(void)
{
    for (int way = 0; way < WAYS_IN; way++) {
        check_terminate_lost(way, false);
        check_terminate_lost(way, true);
    }
    rnic_shows("V6.2.3-4 V6.2.3-5 V6.2.3-8 V6.2.3-9 V6.6.2.2-1 "
               "V6.6.2.5-3");
}

/*
 * In the middle of a large message of the guest's, or of a Read Response: whole FPDUs,
 * then the Terminate, which nothing follows.
 */
static void check_mid_message(bool response, bool error)
{
    Connection *c = connection_new(NULL);
    WireSegment segment;
    uint64_t got = 0;
    RnicMr mr;

    if (response) {
        rnic_create_mr(c->r, &mr, c->r->pd, LONG_MESSAGE, RNIC_TEST_ACCESS_ALL);
        wire_put_read_request(c->peer, &(WireRead) {
            .size = LONG_MESSAGE, .source_stag = mr.stag, .source_to = mr.va });
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
    } else {
        post_large_write(c);
    }
    connection_post(c, RNIC_SQ_SEND, 2, 0, 8);
    rnic_settle(c->r);
    if (error) {
        wire_put_write(c->peer, 0x77777700, 0, "x", 1);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
    } else {
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                              RNIC_QPS_TERMINATE),
                         ==, RNIC_ST_OK);
    }
    for (;;) {
        wire_get_segment(c->peer, &segment);
        if (segment.opcode != (response ? WIRE_READ_RESPONSE : WIRE_WRITE)) {
            break;
        }
        g_free(segment.payload);
        g_assert_cmphex(segment.to, ==, got);
        got += segment.length;
    }
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_assert_cmphex(lduw_be_p(segment.payload), ==, error ? 0x1100 : 0);
    g_free(segment.payload);
    g_assert_cmpuint(got, <, LONG_MESSAGE);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    wire_shutdown(c->peer);
    if (!response) {
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    }
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    connection_free(c);
}

static void test_terminate_mid_message(void)
{
    check_mid_message(false, false);
    check_mid_message(true, false);
    check_mid_message(false, true);
    check_mid_message(true, true);
    rnic_shows("V6.2.3-1 V6.4-1 V6.4-6 R5.4-6");
}

/* -------------------------------------------------------------------- Error */

static void test_abort(void)
{
    Connection *c = connection_prepare(NULL);
    WireRead read;

    for (int round = 0; round < 3; round++) {
        connection_establish(c, NULL);
        post_receives(c, 2);
        connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
        wire_get_read_request(c->peer, 1, &read);
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
        assert_no_stream(c);
        /* No Terminate; what the peer still sends finds nothing. */
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_RST);
        g_assert_false(wire_try_put(c->peer, "\0\0\0\0\0\0\0\0", 8));
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
        expect_flushed_receives(c, 2);
        expect_disconnected(c, 0);
        rnic_expect_no_async(c->r);
        g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
        connection_recycle(c);
    }
    /* And without any. */
    connection_establish(c, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_RST);
    connection_free(c);
    rnic_shows("V6.2.2.4-1 V6.2.2.4-4 V6.6.2.3-1");
}

/* @number of @wr and as many receives, called 0 on, each queue with one doorbell. */
static void post_deep(Connection *c, RnicWr wr, int number)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    for (int i = 0; i < number; i++) {
        wr.wr_id = i;
        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
        rnic_store_recv(c->r, &c->qp, i, 0, NULL);
    }
    rnic_ring_sq(c->r, &c->qp);
    rnic_ring_rq(c->r, &c->qp);
}

/*
 * A deep queue takes several turns to flush; Idle is refused until then. In the
 * main loop, so that no turn falls between the two commands.
 */
static void test_flush_deep(void)
{
    enum { DEEP = 4096 };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",io-threads=0",
        .sq_depth = DEEP, .rq_depth = DEEP, .cq_depth = 8192 });
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    uint16_t status;

    post_deep(c, connection_wr(c, RNIC_SQ_SEND, 0, 0, 4), DEEP);
    /* Both commands at once, so that the second one is early. */
    sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_ERROR;
    rnic_admin_fill(c->r, &sqe);
    sqe.modify_qp.next_state = RNIC_QPS_IDLE;
    rnic_admin_fill(c->r, &sqe);
    rnic_admin_tail(c->r);
    rnic_admin_completion(c->r, &cqe);
    g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    rnic_admin_completion(c->r, &cqe);
    status = le16_to_cpu(cqe.status);
    g_assert_cmpuint(status, ==, RNIC_ST_STILL_FLUSHING);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE) ==
                     RNIC_ST_OK);
    for (int i = 0; i < DEEP; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_FLUSHED);
    }
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free(c);
    rnic_shows("V9.2.5.3-12 V6.2.4-9");
}

/* ------------------------------------------------------------------ destroy */

/*
 * Destroyed right behind the command that has its work flushed. In the main loop, so
 * that no turn falls between the two commands.
 */
static void check_destroy_while_flushing(uint8_t state)
{
    enum { DEEP = 2048 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",io-threads=0",
        .sq_depth = DEEP, .rq_depth = DEEP, .cq_depth = 2 * DEEP });
    RnicCq *cqs[2] = { &c->send_cq, &c->recv_cq };
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    struct rnic_counters counters;
    unsigned flushed = 0;

    post_deep(c, connection_wr(c, RNIC_SQ_RDMA_READ, 0, 0, 8), DEEP);
    rnic_settle(c->r);
    sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = state;
    rnic_admin_fill(c->r, &sqe);
    sqe = rnic_command(RNIC_ADMIN_DESTROY_QP);
    sqe.object.number = cpu_to_le32(c->qp.number);
    rnic_admin_fill(c->r, &sqe);
    rnic_admin_tail(c->r);
    for (int i = 0; i < 2; i++) {
        rnic_admin_completion(c->r, &cqe);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    }
    for (int i = 0; i < 2; i++) {
        struct rnic_cqe done;

        for (unsigned n = 0; rnic_cq_poll(c->r, cqs[i], &done); n++) {
            g_assert_cmpuint(le64_to_cpu(done.wr_id), ==, n);
            g_assert_cmpint(done.status, ==, RNIC_WC_FLUSHED);
            flushed++;
        }
    }
    g_assert_cmpuint(flushed, <, 2 * DEEP);
    rnic_settle(c->r);
    for (int i = 0; i < 2; i++) {
        rnic_expect_no_cqe(c->r, cqs[i]);
        g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                           cqs[i]->number), ==, RNIC_ST_OK);
    }
    counters = rnic_query_counters(c->r);
    g_assert_cmpuint(counters.qps, ==, 0);
    g_assert_cmpuint(counters.endpoints, ==, 0);
    connection_free(c);
}

static void test_destroy_while_flushing(void)
{
    check_destroy_while_flushing(RNIC_QPS_ERROR);
    check_destroy_while_flushing(RNIC_QPS_TERMINATE);
    check_destroy_while_flushing(RNIC_QPS_CLOSING);
    rnic_shows("V6.1.4-5 V9.2.5.4-1");
}

/* What the peer still sends, its end reached or not: a Write into the buffer. */
static void write_late(Connection *c)
{
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va,
        .length = 8, .payload = (uint8_t *)"intruder",
    };

    wire_try_put_segment(c->peer, &segment);
}

/* The peer's side of a QP that is gone: the stream ends, by FIN or RST. */
static void see_stream_end(Connection *c)
{
    write_late(c);
    while (wire_end(c->peer) == WIRE_DATA) {
        uint8_t octet;

        wire_get(c->peer, &octet, 1);
    }
    write_late(c);
    rnic_settle(c->r);
    g_assert_cmphex(rnic_mem_read32(c->r, c->mr.bus), ==, 0);
    wire_close(c->peer);
    c->peer = NULL;
}

/* Another QP with the CQs of the old one, whose number it may have. */
static void check_successor(Connection *c)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_cqe cqe;
    uint8_t got[8];

    rnic_create_qp(c->r, &c->qp, &init);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    connection_establish(c, NULL);
    connection_recv(c, 11, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "new life", 8);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 11, RNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    connection_post(c, RNIC_SQ_SEND, 12, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "new life", 8);
    cqe = rnic_expect_cqe(c->r, &c->send_cq, 12, RNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
}

static void check_destroy(uint8_t state)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_counters counters;

    go_to(c, state);
    if (state <= RNIC_QPS_RTS) {
        post_receives(c, 5);
        connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
        connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 8);
        rnic_settle(c->r);
    }
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_INVALID_QP);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    if (c->peer) {
        see_stream_end(c);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cm(c->r);
    /* Rung for nothing. */
    rnic_doorbell(c->r, 0, RNIC_DB_SQ, c->qp.number);
    check_successor(c);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->send_cq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->recv_cq.number), ==, RNIC_ST_OK);
    counters = rnic_query_counters(c->r);
    g_assert_cmpuint(counters.qps, ==, 0);
    g_assert_cmpuint(counters.cqs, ==, 0);
    g_assert_cmpuint(counters.endpoints, ==, 0);
    connection_free(c);
}

static void test_destroy(void)
{
    for (uint8_t state = 0; state < 5; state++) {
        check_destroy(state);
    }
    rnic_shows("V6.1.4-1 V6.1.4-2 V6.1.4-3 V6.1.4-5 V9.2.5.4-1 V9.2.5.4-3");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/state/matrix", test_matrix);
    qtest_add_func("rnic/state/no-stream", test_no_stream);
    qtest_add_func("rnic/state/no-attributes", test_no_attributes);
    qtest_add_func("rnic/state/idle", test_idle);
    qtest_add_func("rnic/state/close", test_close);
    qtest_add_func("rnic/state/close-left", test_close_left);
    qtest_add_func("rnic/state/peer-close", test_peer_close);
    qtest_add_func("rnic/state/late-posts", test_late_posts);
    qtest_add_func("rnic/state/flush-in-idle", test_flush_in_idle);
    qtest_add_func("rnic/state/peer-close-busy", test_peer_close_busy);
    qtest_add_func("rnic/state/peer-reset", test_peer_reset);
    qtest_add_func("rnic/state/ways-out", test_ways_out);
    qtest_add_func("rnic/state/close-with-work", test_close_with_work);
    qtest_add_func("rnic/state/close-with-data", test_close_with_data);
    qtest_add_func("rnic/state/close-lost", test_close_lost);
    qtest_add_func("rnic/state/terminate", test_terminate);
    qtest_add_func("rnic/state/terminate-lost", test_terminate_lost);
    qtest_add_func("rnic/state/terminate-mid-message",
                   test_terminate_mid_message);
    qtest_add_func("rnic/state/abort", test_abort);
    qtest_add_func("rnic/state/flush-deep", test_flush_deep);
    qtest_add_func("rnic/state/destroy", test_destroy);
    qtest_add_func("rnic/state/destroy-while-flushing",
                   test_destroy_while_flushing);
    return g_test_run();
}
