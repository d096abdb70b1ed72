/*
 * rnic: queues of whose memory a page is nowhere: they work until that page is wanted
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { PAGE = RNIC_TEST_PAGE, DEPTH = 16 };

/* @count pages at @bus, of which number @missing is not there. */
static struct rnic_page_list pages_without(Rnic *r, uint64_t bus, unsigned count,
                                           unsigned missing)
{
    uint64_t list = rnic_alloc(r, PAGE);

    for (unsigned i = 0; i < count; i++) {
        uint64_t entry = cpu_to_le64(i == missing ? RNIC_TEST_NOWHERE
                                                  : bus + i * PAGE);

        rnic_mem_write(r, list + 8 * i, &entry, sizeof(entry));
    }
    return (struct rnic_page_list) {
        .addr = cpu_to_le64(list),
        .count = cpu_to_le32(count),
        .level = RNIC_PAGE_LIST_DIRECT,
        .page_shift = 12,
    };
}

static uint32_t create(Rnic *r, struct rnic_admin_sqe *sqe)
{
    struct rnic_admin_cqe cqe;

    g_assert_cmpuint(rnic_admin(r, sqe, &cqe), ==, RNIC_ST_OK);
    return le32_to_cpu(cqe.number);
}

/* A connected QP with its rings there in three pages, the second of which is nowhere. */
static Connection *connect_without_second_page(uint32_t sq_offset, uint32_t rq_offset)
{
    Connection *c = connection_prepare(NULL);
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe;

    init.sq_depth = DEPTH;
    init.rq_depth = DEPTH;
    sqe = rnic_qp_command(c->r, &init, &c->qp);
    c->qp.memory = rnic_alloc(c->r, 3 * PAGE);
    c->qp.sq_offset = sq_offset;
    c->qp.rq_offset = rq_offset;
    sqe.create_qp.memory.pages = pages_without(c->r, c->qp.memory, 3, 1);
    sqe.create_qp.memory.ring_offset[0] = cpu_to_le32(sq_offset);
    sqe.create_qp.memory.ring_offset[1] = cpu_to_le32(rq_offset);
    c->qp.number = create(c->r, &sqe);
    connection_establish(c, NULL);
    return c;
}

static void expect_catastrophe(Connection *c)
{
    wire_expect_terminate(c->peer, 0x0207);
    rnic_expect_async(c->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
}

/* Of a WQE that has two units the first one is there: nothing is done of it. */
static void test_half_of_wqe(void)
{
    Connection *c = connect_without_second_page(PAGE - RNIC_SQ_UNIT, 2 * PAGE);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 8);

    wr.num_sge = 3;
    wr.sge[1] = wr.sge[0];
    wr.sge[2] = wr.sge[0];
    connection_recv(c, 2, 0, 8);
    rnic_post_send(c->r, &c->qp, &wr);
    expect_catastrophe(c);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
    connection_free(c);
    rnic_shows("V9.5.3-31");
}

static void test_receive(void)
{
    Connection *c = connect_without_second_page(2 * PAGE, PAGE);
    uint8_t got[8];

    connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_recv(c, 2, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "intruder", 8);
    expect_catastrophe(c);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
    connection_free(c);
    rnic_shows("V9.5.3-31");
}

/* A CQ of two entries, without its record. */
static RnicCq create_cq_without_record(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    uint64_t memory = rnic_alloc(r, 2 * PAGE);
    RnicCq cq = { .depth = 2, .memory = memory + PAGE - RNIC_QUEUE_RECORD_SIZE };

    sqe.create_cq.depth = cpu_to_le32(cq.depth);
    sqe.create_cq.eqn = cpu_to_le32(r->comp_eq.number);
    sqe.create_cq.memory.pages = pages_without(r, memory, 2, 0);
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(PAGE);
    cq.number = create(r, &sqe);
    return cq;
}

/* Whether there is room for a third is not to be known: the CQ fails, and the QP. */
static void check_cq_record(bool receive)
{
    Connection *c = connection_prepare(NULL);
    RnicCq cq = create_cq_without_record(c->r);
    RnicQpInit init = rnic_qp_default(c->r, receive ? &c->send_cq : &cq,
                                      receive ? &cq : &c->recv_cq);
    struct rnic_aeqe aeqe;
    uint8_t got[8];

    rnic_create_qp(c->r, &c->qp, &init);
    connection_establish(c, NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        if (receive) {
            connection_recv(c, i, 0, 8);
            wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        } else {
            connection_post(c, RNIC_SQ_SEND, i, 0, 8);
            wire_get_send(c->peer, WIRE_SEND, i, got, 8);
        }
    }
    aeqe = rnic_expect_async(c->r, RNIC_AE_CQ_ERROR, cq.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_CQ);
    rnic_expect_async(c->r, receive ? RNIC_AE_CQ_RQ_ERROR : RNIC_AE_CQ_SQ_ERROR,
                      c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    rnic_expect_cqe(c->r, &cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(c->r, &cq);
    connection_free(c);
}

static void test_cq_record(void)
{
    check_cq_record(false);
    check_cq_record(true);
    rnic_shows("V9.5.3-29 V9.5.3-33");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/queue-memory/half-of-wqe", test_half_of_wqe);
    qtest_add_func("rnic/queue-memory/receive", test_receive);
    qtest_add_func("rnic/queue-memory/cq-record", test_cq_record);
    return g_test_run();
}
