/*
 * rnic: what a fence holds, and for how long (8.2.2.2)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

/* ------------------------------------------------------------- Read Fence */

enum { FENCED = 0xfe };

/* The operations that can have the fence. */
static const struct {
    uint8_t opcode, flags;
    uint8_t wire;
} fenced[] = {
    { RNIC_SQ_SEND, 0, WIRE_SEND },
    { RNIC_SQ_SEND, RNIC_WQE_SOLICITED, WIRE_SEND_SE },
    { RNIC_SQ_SEND_INVALIDATE, 0, WIRE_SEND_INVALIDATE },
    { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED, WIRE_SEND_SE_INVALIDATE },
    { RNIC_SQ_RDMA_WRITE, 0, WIRE_WRITE },
};

static void post_read(Connection *c, uint8_t opcode, uint8_t flags,
                      uint64_t wr_id)
{
    StagRegion sink = stag_region(c->r, 1);
    RnicWr wr = { .opcode = opcode, .flags = RNIC_WQE_SIGNALED | flags,
                  .wr_id = wr_id, .num_sge = 1,
                  .remote_stag = CONNECTION_REMOTE_STAG };

    stag_register(c->r, &sink);
    wr.sge[0].stag = cpu_to_le32(sink.stag);
    wr.sge[0].to = cpu_to_le64(sink.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
}

static void respond(Connection *c, const WireRead *read)
{
    wire_put_read_response(c->peer, read->sink_stag, read->sink_to, "response",
                           8);
}

/* Two Reads of either type, and one answer at a time. */
static void check_read_fence(Connection *c, unsigned i, uint8_t second_read)
{
    RnicWr wr = connection_wr(c, fenced[i].opcode, FENCED, 0, 5);
    WireSegment segment;
    WireRead reads[2];

    wr.flags |= fenced[i].flags | RNIC_WQE_READ_FENCE;
    wr.invalidate_stag = fenced[i].opcode == RNIC_SQ_SEND_INVALIDATE ? 0x77 : 0;
    post_read(c, RNIC_SQ_RDMA_READ, 0, 0);
    post_read(c, second_read, 0, 1);
    rnic_post_send(c->r, &c->qp, &wr);
    for (unsigned k = 0; k < 2; k++) {
        wire_get_read_request(c->peer, k + 1, &reads[k]);
    }
    for (unsigned k = 0; k < 2; k++) {
        wire_expect_silence(c->peer);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        respond(c, &reads[k]);
        rnic_expect_cqe(c->r, &c->send_cq, k, RNIC_WC_SUCCESS);
    }
    wire_get_segment(c->peer, &segment);
    g_assert_cmpint(segment.opcode, ==, fenced[i].wire);
    g_assert_cmpuint(segment.length, ==, 5);
    g_free(segment.payload);
    rnic_expect_cqe(c->r, &c->send_cq, FENCED, RNIC_WC_SUCCESS);
}

/* Registered while the Read before it is under way, whatever @flags say. */
static StagRegion fast_register_now(Connection *c, uint8_t flags,
                                    uint64_t wr_id)
{
    StagRegion region = stag_region(c->r, 1);

    region.stag = stag_alloc(c->r, region.pd, 1, 0x21, true);
    stag_store_fast_register(c, wr_id, RNIC_WQE_SIGNALED | flags, &region);
    rnic_ring_sq(c->r, &c->qp);
    RNIC_UNTIL(c->r, stag_query_mr(c->r, region.stag).valid);
    return region;
}

/* Of what does not have this fence it holds nothing back, behind a Read. */
static void check_no_read_fence(void)
{
    enum { FLAGS = RNIC_WQE_SIGNALED | RNIC_WQE_READ_FENCE };
    Connection *c = connection_new(&stag_options);
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE, .flags = FLAGS,
                  .wr_id = 3 };
    WireRead reads[3];
    StagRegion region;
    StagBind bind;

    post_read(c, RNIC_SQ_RDMA_READ, 0, 0);
    region = fast_register_now(c, FLAGS, 1);
    bind = stag_window(stag_alloc_mw(c->r, region.pd, 0x22), &region,
                       region.va, 8, RNIC_ACCESS_REMOTE_WRITE);
    stag_store_bind(c, 2, FLAGS, &bind);
    rnic_ring_sq(c->r, &c->qp);
    RNIC_UNTIL(c->r, stag_query_mw(c->r, bind.mw).valid);
    wr.invalidate_stag = bind.mw;
    rnic_post_send(c->r, &c->qp, &wr);
    RNIC_UNTIL(c->r, !stag_query_mw(c->r, bind.mw).valid);
    post_read(c, RNIC_SQ_RDMA_READ, RNIC_WQE_READ_FENCE, 4);
    post_read(c, RNIC_SQ_RDMA_READ_INVALIDATE, RNIC_WQE_READ_FENCE, 5);
    for (unsigned k = 0; k < 3; k++) {
        wire_get_read_request(c->peer, k + 1, &reads[k]);
    }
    rnic_expect_no_cqe(c->r, &c->send_cq);
    for (unsigned k = 0; k < 3; k++) {
        respond(c, &reads[k]);
    }
    for (unsigned i = 0; i < 6; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

static void test_read_fence(void)
{
    Connection *c = connection_new(&stag_options);

    for (unsigned i = 0; i < G_N_ELEMENTS(fenced); i++) {
        check_read_fence(c, i, RNIC_SQ_RDMA_READ);
        stag_reconnect(c);
        check_read_fence(c, i, RNIC_SQ_RDMA_READ_INVALIDATE);
        stag_reconnect(c);
    }
    connection_free(c);
    check_no_read_fence();
    rnic_shows("V8.2.2.2-8 V9.3.1.1-13");
}

/* ------------------------------------------------------------ Local Fence */

/* A message that does not go out before its peer reads. */
static void check_behind_large(uint8_t opcode)
{
    enum { LARGE = 32 * 1024 * 1024 };
    Connection *c = connection_new(&stag_options);
    g_autofree uint8_t *got = g_malloc(LARGE);
    RnicWr wr = { .opcode = opcode, .flags = RNIC_WQE_SIGNALED, .wr_id = 1,
                  .num_sge = 1,
                  .remote_stag = opcode == RNIC_SQ_RDMA_WRITE
                                 ? CONNECTION_REMOTE_STAG : 0 };
    RnicWr invalidate = { .opcode = RNIC_SQ_LOCAL_INVALIDATE, .wr_id = 2,
                          .flags = RNIC_WQE_SIGNALED | RNIC_WQE_LOCAL_FENCE };
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    rnic_mem_fill(c->r, mr.bus, 0x3e, LARGE);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    invalidate.invalidate_stag = mr.stag;
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_post_send(c->r, &c->qp, &invalidate);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    g_assert_cmpint(stag_query_mr(c->r, mr.stag).valid, ==, 1);
    g_assert_cmpuint(opcode == RNIC_SQ_RDMA_WRITE
                     ? connection_get_write(c, 0, got, LARGE)
                     : wire_get_send(c->peer, WIRE_SEND, 1, got, LARGE), ==,
                     LARGE);
    for (unsigned i = 0; i < LARGE; i++) {
        g_assert_cmphex(got[i], ==, 0x3e);
    }
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(c->r, mr.stag).valid, ==, 0);
    connection_free(c);
}

/* Two Reads, and what is done behind them: the last of all has to be complete. */
static void check_behind_reads(void)
{
    Connection *c = connection_new(&stag_options);
    StagRegion region = stag_region(c->r, 1);
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE, .wr_id = 3,
                  .flags = RNIC_WQE_SIGNALED | RNIC_WQE_LOCAL_FENCE };
    WireRead reads[2];
    uint8_t got[8];

    stag_register(c->r, &region);
    post_read(c, RNIC_SQ_RDMA_READ, 0, 0);
    post_read(c, RNIC_SQ_RDMA_READ_INVALIDATE, 0, 1);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wr.invalidate_stag = region.stag;
    rnic_post_send(c->r, &c->qp, &wr);
    for (unsigned k = 0; k < 2; k++) {
        wire_get_read_request(c->peer, k + 1, &reads[k]);
    }
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    for (unsigned k = 0; k < 2; k++) {
        rnic_settle(c->r);
        g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 1);
        respond(c, &reads[k]);
        rnic_expect_cqe(c->r, &c->send_cq, k, RNIC_WC_SUCCESS);
    }
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 0);
    connection_free(c);
}

/* The fence holds the Bind of a QP's window (the manual, Deviations); of a PD's: see
 * pd-window-test. */
static void check_bind(void)
{
    Connection *c = connection_new(&stag_options);
    StagRegion region = stag_region(c->r, 1);
    WireRead read;
    StagBind bind;

    stag_register(c->r, &region);
    bind = stag_window(stag_alloc_mw(c->r, region.pd, 0x22), &region,
                       region.va, 8, RNIC_ACCESS_REMOTE_WRITE);
    post_read(c, RNIC_SQ_RDMA_READ, 0, 1);
    stag_store_bind(c, 2, RNIC_WQE_SIGNALED | RNIC_WQE_LOCAL_FENCE, &bind);
    rnic_ring_sq(c->r, &c->qp);
    wire_get_read_request(c->peer, 1, &read);
    rnic_settle(c->r);
    g_assert_cmpint(stag_query_mw(c->r, bind.mw).valid, ==, 0);
    respond(c, &read);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mw(c->r, bind.mw).valid, ==, 1);
    connection_free(c);
}

/* Of what does not have this fence it holds nothing back, behind a Read. */
static void check_no_local_fence(void)
{
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_RDMA_WRITE,
    };
    Connection *c = connection_new(&stag_options);
    WireRead reads[3];
    uint8_t got[8];

    post_read(c, RNIC_SQ_RDMA_READ, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        RnicWr wr = connection_wr(c, opcodes[i], 1 + i, 0, 8);

        wr.flags |= RNIC_WQE_LOCAL_FENCE;
        wr.invalidate_stag = i == 1 ? 0x77 : 0;
        rnic_post_send(c->r, &c->qp, &wr);
    }
    post_read(c, RNIC_SQ_RDMA_READ, RNIC_WQE_LOCAL_FENCE, 4);
    post_read(c, RNIC_SQ_RDMA_READ_INVALIDATE, RNIC_WQE_LOCAL_FENCE, 5);
    fast_register_now(c, RNIC_WQE_LOCAL_FENCE, 6);
    wire_get_read_request(c->peer, 1, &reads[0]);
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    wire_get_send(c->peer, WIRE_SEND_INVALIDATE, 2, got, sizeof(got));
    connection_get_write(c, 0, got, sizeof(got));
    wire_get_read_request(c->peer, 2, &reads[1]);
    wire_get_read_request(c->peer, 3, &reads[2]);
    for (unsigned k = 0; k < 3; k++) {
        respond(c, &reads[k]);
    }
    for (unsigned i = 0; i < 7; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

static void test_local_fence(void)
{
    check_behind_large(RNIC_SQ_RDMA_WRITE);
    check_behind_large(RNIC_SQ_SEND);
    check_behind_reads();
    check_bind();
    check_no_local_fence();
    rnic_shows("V9.3.1.1-14");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fences/read", test_read_fence);
    qtest_add_func("rnic/fences/local", test_local_fence);
    return g_test_run();
}
