/*
 * rnic: completion events, of many CQs and event queues, and of errors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/regions.h"

/* As many event queues as the device says, each with CQs of its own. */
enum { EQS = 9, EACH = 3 };

typedef struct Queues {
    Rnic *r;
    RnicEq eq[EQS];             /* the first is the device's comp_eq */
    RnicCq cq[EQS][EACH];
    RnicQp qp[EQS][EACH];       /* both queues of which complete there */
    unsigned count;             /* of the event queues */
} Queues;

static void queues_init(Queues *q)
{
    struct rnic_device_attr attr;

    q->r = rnic_boot_up(",max-eq=9");
    attr = rnic_query_device(q->r);
    g_assert_cmpuint(le32_to_cpu(attr.max_eq), ==, EQS);
    /* Two are those of the other classes. */
    q->count = EQS - 2;
    q->eq[0] = q->r->comp_eq;
    for (unsigned i = 0; i < q->count; i++) {
        if (i > 0) {
            rnic_create_eq(q->r, &q->eq[i], RNIC_EQ_COMPLETION,
                           1 + i % (RNIC_TEST_VECTORS - 1), 16);
        }
        for (unsigned k = 0; k < EACH; k++) {
            RnicQpInit init;

            rnic_create_cq(q->r, &q->cq[i][k], 16, q->eq[i].number);
            init = rnic_qp_default(q->r, &q->cq[i][k], &q->cq[i][k]);
            rnic_create_qp(q->r, &q->qp[i][k], &init);
        }
    }
}

static void expect_no_event(Queues *q)
{
    struct rnic_ceqe event;

    rnic_settle(q->r);
    for (unsigned i = 0; i < q->count; i++) {
        g_assert_false(rnic_eq_poll(q->r, &q->eq[i], &event));
    }
}

/* Two completions of each CQ, which stay on it until the events have been seen. */
static void flush_all(Queues *q)
{
    for (unsigned i = 0; i < q->count; i++) {
        for (unsigned k = 0; k < EACH; k++) {
            for (unsigned n = 0; n < 2; n++) {
                rnic_post_recv(q->r, &q->qp[i][k], n, 0, NULL);
            }
            g_assert_cmpuint(rnic_modify_qp_state(q->r, &q->qp[i][k],
                                                  RNIC_QPS_ERROR), ==,
                             RNIC_ST_OK);
        }
    }
}

static void poll_all(Queues *q)
{
    for (unsigned i = 0; i < q->count; i++) {
        for (unsigned k = 0; k < EACH; k++) {
            for (unsigned n = 0; n < 2; n++) {
                rnic_expect_cqe(q->r, &q->cq[i][k], n, RNIC_WC_FLUSHED);
            }
            rnic_expect_no_cqe(q->r, &q->cq[i][k]);
            RNIC_UNTIL(q->r, rnic_modify_qp_state(q->r, &q->qp[i][k],
                                                  RNIC_QPS_IDLE) ==
                             RNIC_ST_OK);
        }
    }
}

/* Armed or not, one CQ after the other: each event names its own, where it belongs. */
static void test_each_its_own(void)
{
    struct rnic_admin_sqe more = rnic_command(RNIC_ADMIN_CREATE_EQ);
    Queues q = { };

    queues_init(&q);
    more.create_eq.eq_class = RNIC_EQ_COMPLETION;
    more.create_eq.vector = cpu_to_le32(1);
    more.create_eq.depth = cpu_to_le32(16);
    more.create_eq.memory.pages = rnic_pages(q.r, rnic_alloc(q.r, 4096), 4096);
    more.create_eq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(q.r, &more, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    flush_all(&q);
    expect_no_event(&q);
    poll_all(&q);
    /* In each round another CQ of each event queue is the only one. */
    for (unsigned k = 0; k < EACH; k++) {
        for (unsigned i = 0; i < q.count; i++) {
            rnic_cq_arm(q.r, &q.cq[i][k], RNIC_ARM_NEXT);
        }
        flush_all(&q);
        for (unsigned i = 0; i < q.count; i++) {
            struct rnic_ceqe event;

            rnic_eq_wait(q.r, &q.eq[i], &event);
            g_assert_cmphex(le32_to_cpu(event.cqn), ==, q.cq[i][k].number);
        }
        expect_no_event(&q);
        /* No event has taken a CQE away. */
        poll_all(&q);
    }
    rnic_quit(q.r);
    rnic_shows("V9.3.2.2-5 V9.4.1-1 V9.4.1-4");
}

/* ---------------------------------------------------------------- errors */

/* Of the send queue and of the receive queue, failed and flushed. */
static void test_errors_are_solicited(void)
{
    enum { SEND_FAILS, SEND_FLUSHED, RECEIVE_FAILS, RECEIVE_FLUSHED, COUNT };

    for (int how = 0; how < COUNT; how++) {
        bool sends = how == SEND_FAILS || how == SEND_FLUSHED;
        struct rnic_ceqe event;
        struct rnic_sge bad;
        Connection *c;
        RnicCq *cq;
        RnicWr wr;
        World w;

        world_init(&w, NULL);
        c = w.c;
        cq = sends ? &c->send_cq : &c->recv_cq;
        connection_establish(c, NULL);
        rnic_cq_arm(c->r, cq, RNIC_ARM_SOLICITED);
        wr = connection_wr(c, RNIC_SQ_SEND, how, 0, 8);
        wr.flags = 0;
        bad = rnic_sge(&w.foreign, 0, 8);
        switch (how) {
        case SEND_FAILS:
            wr.sge[0] = bad;
            rnic_post_send(c->r, &c->qp, &wr);
            break;
        case RECEIVE_FAILS:
            rnic_post_recv(c->r, &c->qp, how, 1, &bad);
            wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
            break;
        default:
            g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                                  RNIC_QPS_ERROR), ==,
                             RNIC_ST_OK);
            if (sends) {
                rnic_post_send(c->r, &c->qp, &wr);
            } else {
                connection_recv(c, how, 0, 8);
            }
        }
        rnic_expect_cqe(c->r, cq, how, how == SEND_FAILS || how == RECEIVE_FAILS
                                       ? RNIC_WC_INVALID_PD : RNIC_WC_FLUSHED);
        rnic_eq_wait(c->r, &c->r->comp_eq, &event);
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, cq->number);
        rnic_settle(c->r);
        g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
        world_cleanup(&w);
    }
    rnic_shows("V9.3.2.2-3");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/completion-events/each-its-own", test_each_its_own);
    qtest_add_func("rnic/completion-events/errors-are-solicited",
                   test_errors_are_solicited);
    return g_test_run();
}
