/*
 * rnic: notification of a CQ that nobody polls meanwhile: what is on it before it is
 * armed, what an event leaves on it, errors of either queue
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

enum { MESSAGE = 8 };

static void arm(Connection *c, uint32_t how)
{
    rnic_cq_arm(c->r, &c->send_cq, how);
}

/* A receive completes by a Send of this kind; its CQE stays on the CQ. */
static void receive_kind(Connection *c, uint8_t opcode, uint64_t wr_id)
{
    uint8_t data[MESSAGE], got[MESSAGE];

    memset(data, wr_id, MESSAGE);
    connection_recv(c, wr_id, wr_id * MESSAGE, MESSAGE);
    wire_put_send(c->peer, opcode, 0, data, MESSAGE);
    RNIC_UNTIL(c->r, (connection_peek(c, wr_id * MESSAGE, got, MESSAGE),
                      memcmp(got, data, MESSAGE) == 0));
    rnic_settle(c->r);
}

static void receive_one(Connection *c, uint64_t wr_id)
{
    receive_kind(c, WIRE_SEND, wr_id);
}

/* One event of the CQ, or none. */
static void expect_events(Connection *c, unsigned count)
{
    struct rnic_ceqe event;

    if (count) {
        rnic_eq_wait(c->r, &c->r->comp_eq, &event);
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->send_cq.number);
    }
    rnic_settle(c->r);
    g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
}

/* None for what is there already, one for the next; all of it can still be polled. */
static void test_not_polled(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .one_cq = true });
    uint64_t posted = 1, polled = 1;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++) {
            receive_one(c, posted++);
        }
        arm(c, RNIC_ARM_NEXT);
        expect_events(c, 0);
        receive_one(c, posted++);
        expect_events(c, 1);
        /* The event was for one; the others come without a word. */
        receive_one(c, posted++);
        expect_events(c, 0);
        if (round == 1) {
            continue;
        }
        while (polled < posted) {
            rnic_expect_cqe(c->r, &c->send_cq, polled++, RNIC_WC_SUCCESS);
        }
        rnic_expect_no_cqe(c->r, &c->send_cq);
    }
    connection_free(c);
    rnic_shows("V8.2.4-1 V8.2.5-6 V8.2.5-7 V8.2.5-15");
}

/* To solicited mode the same: solicited CQEs that are there do not count. */
static void test_solicited_not_polled(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .one_cq = true });
    uint64_t posted = 1;

    for (unsigned round = 0; round < 3; round++) {
        receive_kind(c, WIRE_SEND_SE, posted++);
        receive_kind(c, WIRE_SEND, posted++);
        receive_kind(c, WIRE_SEND_SE, posted++);
        arm(c, RNIC_ARM_SOLICITED);
        expect_events(c, 0);
        receive_kind(c, WIRE_SEND, posted++);
        expect_events(c, 0);
        receive_kind(c, WIRE_SEND_SE, posted++);
        expect_events(c, 1);
    }
    for (uint64_t wr_id = 1; wr_id < posted; wr_id++) {
        rnic_expect_cqe(c->r, &c->send_cq, wr_id, RNIC_WC_SUCCESS);
    }
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
    rnic_shows("V8.2.5-6 V8.2.5-9 V8.2.5-15");
}

/* Of what is not signaled nobody is told, whatever it is; of the next that is. */
static void test_unsignaled(void)
{
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_RDMA_WRITE,
        RNIC_SQ_RDMA_READ, RNIC_SQ_LOCAL_INVALIDATE,
    };
    Connection *c = connection_new(&(ConnectionOptions) { .one_cq = true });

    arm(c, RNIC_ARM_NEXT);
    for (unsigned i = 0; i <= G_N_ELEMENTS(opcodes); i++) {
        bool last = i == G_N_ELEMENTS(opcodes);
        RnicWr wr = connection_wr(c, last ? RNIC_SQ_SEND : opcodes[i], i, 0,
                                  MESSAGE);
        WireSegment segment;

        wr.flags = last ? RNIC_WQE_SIGNALED : 0;
        if (wr.opcode == RNIC_SQ_LOCAL_INVALIDATE) {
            RnicMr mr;

            rnic_create_mr(c->r, &mr, c->r->pd, 64, RNIC_TEST_ACCESS_ALL);
            wr.num_sge = 0;
            wr.invalidate_stag = mr.stag;
            rnic_post_send(c->r, &c->qp, &wr);
            RNIC_UNTIL(c->r, !stag_query_mr(c->r, mr.stag).valid);
        } else {
            rnic_post_send(c->r, &c->qp, &wr);
            wire_get_segment(c->peer, &segment);
            if (segment.opcode == WIRE_READ_REQUEST) {
                wire_put_read_response(c->peer, ldl_be_p(segment.payload),
                                       ldq_be_p(segment.payload + 4),
                                       "response", MESSAGE);
            }
            g_free(segment.payload);
        }
        expect_events(c, last);
    }
    rnic_expect_cqe(c->r, &c->send_cq, G_N_ELEMENTS(opcodes), RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
    rnic_shows("V8.2.5-11");
}

/* ------------------------------------------------- errors, to solicited mode */

enum { SQ_FAILS, SQ_FLUSHED, RQ_FAILS, RQ_FLUSHED, WAYS };

/* A completion in error, of one queue, with nothing on the other. */
static void complete_in_error(Connection *c, int way)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, MESSAGE);
    struct rnic_sge sge;

    switch (way) {
    case SQ_FAILS:
        wr.flags = 0;
        wr.sge[0].stag = cpu_to_le32(STAG_UNKNOWN);
        rnic_post_send(c->r, &c->qp, &wr);
        break;
    case RQ_FAILS:
        sge = rnic_sge(&c->mr, 0, MESSAGE);
        sge.stag = cpu_to_le32(STAG_UNKNOWN);
        rnic_post_recv(c->r, &c->qp, 1, 1, &sge);
        wire_put_send(c->peer, WIRE_SEND, 0, "received", MESSAGE);
        break;
    default:
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
        rnic_settle(c->r);
        expect_events(c, 0);
        if (way == SQ_FLUSHED) {
            wr.flags = 0;
            rnic_post_send(c->r, &c->qp, &wr);
        } else {
            connection_recv(c, 1, 0, MESSAGE);
        }
    }
}

/* Each is as good as a solicited message; afterwards the CQ is armed no longer. */
static void test_errors(void)
{
    static const uint8_t statuses[WAYS] = {
        [SQ_FAILS] = RNIC_WC_INVALID_STAG, [SQ_FLUSHED] = RNIC_WC_FLUSHED,
        [RQ_FAILS] = RNIC_WC_INVALID_STAG, [RQ_FLUSHED] = RNIC_WC_FLUSHED,
    };
    const ConnectionOptions options = { .one_cq = true };
    Connection *c = connection_prepare(&options);

    for (int way = 0; way < WAYS; way++) {
        connection_establish(c, &options);
        arm(c, RNIC_ARM_SOLICITED);
        complete_in_error(c, way);
        expect_events(c, 1);
        rnic_expect_cqe(c->r, &c->send_cq, 1, statuses[way]);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        if (way == SQ_FLUSHED || way == RQ_FLUSHED) {
            connection_recv(c, 2, 0, MESSAGE);
            rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
            expect_events(c, 0);
        }
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V8.2.5-10");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/notification/not-polled", test_not_polled);
    qtest_add_func("rnic/notification/solicited-not-polled",
                   test_solicited_not_polled);
    qtest_add_func("rnic/notification/unsignaled", test_unsignaled);
    qtest_add_func("rnic/notification/errors", test_errors);
    return g_test_run();
}
