/*
 * rnic: more than is flushed in a turn, and what no doorbell has told of: a QP does
 * not go to Idle before all of it has come back (6.2.4, 6.2.5)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { MANY = 700 };

static const ConnectionOptions deep = { .sq_depth = 1024, .rq_depth = 1024 };

/* In the rings and their producer indices, without a doorbell. */
static void publish(Connection *c)
{
    rnic_mem_write32(c->r, c->qp.memory +
                     offsetof(struct rnic_qp_record, sq_producer),
                     c->qp.sq_producer);
    rnic_mem_write32(c->r, c->qp.memory +
                     offsetof(struct rnic_qp_record, rq_producer),
                     c->qp.rq_producer);
}

static void store_send(Connection *c, uint64_t wr_id)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, wr_id, 0, 8);

    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

static void store_receives(Connection *c)
{
    for (unsigned i = 0; i < MANY; i++) {
        rnic_store_recv(c->r, &c->qp, i, 0, NULL);
    }
}

/* Flushed ones, which are on the CQ by now. */
static void take_flushed(Connection *c, RnicCq *cq)
{
    struct rnic_cqe cqe;

    for (unsigned i = 0; i < MANY; i++) {
        g_assert_true(rnic_cq_poll(c->r, cq, &cqe));
        g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, i);
        g_assert_cmpint(cqe.status, ==, RNIC_WC_FLUSHED);
    }
    rnic_expect_no_cqe(c->r, cq);
}

static void to_state(Connection *c, uint8_t state)
{
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                     RNIC_ST_OK);
}

/* Posted in Error when nothing was left to flush: Idle is refused until it is back. */
static void test_error(void)
{
    Connection *c = connection_prepare(&deep);

    to_state(c, RNIC_QPS_ERROR);
    rnic_settle(c->r);
    for (unsigned i = 0; i < MANY; i++) {
        store_send(c, i);
    }
    store_receives(c);
    publish(c);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE), ==,
                     RNIC_ST_STILL_FLUSHING);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE) ==
                     RNIC_ST_OK);
    take_flushed(c, &c->send_cq);
    take_flushed(c, &c->recv_cq);
    connection_free(c);
    rnic_shows("V6.2.4-9 V6.6.2.2-2");
}

/* Both ends have closed before all receives are flushed: the event comes behind them. */
static void test_closing(void)
{
    Connection *c = connection_new(&deep);

    store_receives(c);
    rnic_ring_rq(c->r, &c->qp);
    wire_shutdown(c->peer);
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    take_flushed(c, &c->recv_cq);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free(c);
    rnic_shows("V6.2.5-4 V6.2.5-11");
}

/* A Send is there when the peer's FIN comes: the close is broken all the same. */
static void test_send_in_closing(void)
{
    Connection *c = connection_new(&deep);

    to_state(c, RNIC_QPS_CLOSING);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    rnic_settle(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_CLOSING);
    store_send(c, 7);
    publish(c);
    wire_shutdown(c->peer);
    rnic_expect_async(c->r, RNIC_AE_BAD_CLOSE, c->qp.number);
    rnic_expect_cqe(c->r, &c->send_cq, 7, RNIC_WC_FLUSHED);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("V6.2.5-6");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/flush-turns/error", test_error);
    qtest_add_func("rnic/flush-turns/closing", test_closing);
    qtest_add_func("rnic/flush-turns/send-in-closing", test_send_in_closing);
    return g_test_run();
}
