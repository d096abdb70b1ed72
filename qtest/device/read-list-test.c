/*
 * rnic: RDMA Reads with several SGEs (RNIC_QP_READ_LIST; manual, deviations)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define ENABLES (STAG_ENABLES | RNIC_QP_READ_LIST)
#define SOURCE_STAG 0x00beef01u
#define SOURCE_TO 0x7fff00001234ULL

static ConnectionOptions with_ord(uint16_t ord)
{
    return (ConnectionOptions) {
        .enables = ENABLES, .ird = 4, .ord = ord, .max_sge = RNIC_MAX_SGE,
    };
}

/* A Read into parts of the buffer: SGE i has @lengths[i] octets, 8 KiB apart. */
static RnicWr list_wr(Connection *c, uint64_t wr_id, const uint32_t *lengths,
                      unsigned count)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, wr_id, 0, 0);

    wr.remote_stag = SOURCE_STAG;
    wr.remote_to = SOURCE_TO;
    wr.num_sge = count;
    for (unsigned i = 0; i < count; i++) {
        wr.sge[i] = rnic_sge(&c->mr, i * 8192, lengths[i]);
    }
    return wr;
}

/* The request for SGE @sge of a list, @before octets from its beginning on. */
static void expect_request(Connection *c, uint32_t msn, unsigned sge,
                           uint64_t before, uint32_t length)
{
    WireRead read;

    wire_get_read_request(c->peer, msn, &read);
    g_assert_cmphex(read.source_stag, ==, SOURCE_STAG);
    g_assert_cmphex(read.source_to, ==, SOURCE_TO + before);
    g_assert_cmpuint(read.size, ==, length);
    g_assert_cmphex(read.sink_stag, ==, c->mr.stag);
    g_assert_cmphex(read.sink_to, ==, c->mr.va + sge * 8192);
}

static void respond(Connection *c, unsigned sge, const uint8_t *data,
                    uint32_t length)
{
    wire_put_read_response(c->peer, c->mr.stag, c->mr.va + sge * 8192, data,
                           length);
}

static void expect_placed(Connection *c, unsigned sge, const uint8_t *data,
                          uint32_t length)
{
    g_autofree uint8_t *got = g_malloc(length + 1);

    connection_peek(c, sge * 8192, got, length + 1);
    g_assert_cmpmem(got, length, data, length);
    g_assert_cmphex(got[length], ==, 0xee);
}

/* Nothing completes or goes out for now. */
static void expect_nothing(Connection *c)
{
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_expect_silence(c->peer);
}

static void expect_all(Connection *c, uint64_t wr_id, uint32_t octets)
{
    struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->send_cq, wr_id,
                                          RNIC_WC_SUCCESS);

    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, octets);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_SQ_RDMA_READ);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
}

/* ---------------------------------------------------------------- success */

/* One request for each SGE with octets; one completion, with the last of them. */
static void test_each_sge(void)
{
    static const uint32_t lengths[] = { 100, 0, 5000, 7 };
    ConnectionOptions options = with_ord(4);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 4);
    uint8_t data[5107];

    rnic_pattern(data, sizeof(data), 3);
    rnic_mem_fill(c->r, c->mr.bus, 0xee, 40000);
    rnic_post_send(c->r, &c->qp, &wr);
    expect_request(c, 1, 0, 0, 100);
    expect_request(c, 2, 2, 100, 5000);
    expect_request(c, 3, 3, 5100, 7);
    expect_nothing(c);
    respond(c, 0, data, 100);
    respond(c, 2, data + 100, 5000);
    expect_nothing(c);
    respond(c, 3, data + 5100, 7);
    expect_all(c, 9, sizeof(data));
    expect_placed(c, 0, data, 100);
    expect_placed(c, 1, data, 0);
    expect_placed(c, 2, data + 100, 5000);
    expect_placed(c, 3, data + 5100, 7);
    connection_free(c);
    rnic_shows("R5.2.2-7");
}

/* Each request takes one of ORD; what is behind the list waits for all of it. */
static void test_ord(void)
{
    static const uint32_t lengths[] = { 10, 20, 30 };
    ConnectionOptions options = with_ord(1);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 3), behind = list_wr(c, 10, lengths, 1);
    uint8_t data[60];

    rnic_pattern(data, sizeof(data), 5);
    rnic_mem_fill(c->r, c->mr.bus, 0xee, 40000);
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_post_send(c->r, &c->qp, &behind);
    expect_request(c, 1, 0, 0, 10);
    expect_nothing(c);
    respond(c, 0, data, 10);
    expect_request(c, 2, 1, 10, 20);
    expect_nothing(c);
    respond(c, 1, data + 10, 20);
    expect_request(c, 3, 2, 30, 30);
    expect_nothing(c);
    respond(c, 2, data + 30, 30);
    expect_request(c, 4, 0, 0, 10);
    expect_all(c, 9, 60);
    respond(c, 0, data, 10);
    expect_all(c, 10, 10);
    expect_placed(c, 1, data + 10, 20);
    expect_placed(c, 2, data + 30, 30);
    connection_free(c);
}

static void test_most_sges(void)
{
    ConnectionOptions options = with_ord(4);
    Connection *c = connection_new(&options);
    uint32_t lengths[RNIC_MAX_SGE];
    uint8_t data[RNIC_MAX_SGE];
    RnicWr wr;

    for (unsigned i = 0; i < RNIC_MAX_SGE; i++) {
        lengths[i] = 1;
        data[i] = 0x40 + i;
    }
    rnic_mem_fill(c->r, c->mr.bus, 0xee, RNIC_MAX_SGE * 8192);
    wr = list_wr(c, 9, lengths, RNIC_MAX_SGE);
    rnic_post_send(c->r, &c->qp, &wr);
    for (unsigned i = 0; i < RNIC_MAX_SGE; i++) {
        expect_request(c, i + 1, i, i, 1);
        respond(c, i, data + i, 1);
    }
    expect_all(c, 9, RNIC_MAX_SGE);
    for (unsigned i = 0; i < RNIC_MAX_SGE; i++) {
        expect_placed(c, i, data + i, 1);
    }
    connection_free(c);
}

/* A list of no octets is one Read of no octets. */
static void test_no_octets(void)
{
    static const uint32_t lengths[] = { 0, 0, 0 };
    ConnectionOptions options = with_ord(4);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 3);

    rnic_post_send(c->r, &c->qp, &wr);
    expect_request(c, 1, 0, 0, 0);
    expect_nothing(c);
    respond(c, 0, NULL, 0);
    expect_all(c, 9, 0);
    connection_free(c);
}

/* ----------------------------------------------------------------- errors */

/* The peer goes when one part has come: one FLUSHED for each WR, in order. */
static void test_flushed(void)
{
    static const uint32_t lengths[] = { 10, 20, 30, 40 };

    for (unsigned done = 0; done < 4; done++) {
        ConnectionOptions options = with_ord(2);
        Connection *c = connection_new(&options);
        RnicWr wr = list_wr(c, 9, lengths, 4);
        uint8_t data[40] = { 0 };
        uint64_t before = 0;

        wr.flags = 0;
        rnic_post_send(c->r, &c->qp, &wr);
        connection_post(c, RNIC_SQ_SEND, 10, 0, 4);
        expect_request(c, 1, 0, 0, 10);
        for (unsigned i = 0; i < 3; i++) {
            before += lengths[i];
            expect_request(c, i + 2, i + 1, before, lengths[i + 1]);
            if (i == done) {
                break;
            }
            respond(c, i, data, lengths[i]);
        }
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        wire_abort(c->peer);
        c->peer = NULL;
        rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->send_cq, 10, RNIC_WC_FLUSHED);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        connection_free(c);
    }
}

/* The peer refuses the second request: that is the WR's one completion. */
static void test_refused_by_peer(void)
{
    static const uint32_t lengths[] = { 10, 20, 30 };
    ConnectionOptions options = with_ord(2);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 3);
    uint8_t data[10] = { 0 };

    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_SEND, 10, 0, 4);
    expect_request(c, 1, 0, 0, 10);
    expect_request(c, 2, 1, 10, 20);
    respond(c, 0, data, 10);
    expect_request(c, 3, 2, 30, 30);
    wire_put_terminate(c->peer, 0x0100);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_REMOTE_TERMINATION);
    rnic_expect_cqe(c->r, &c->send_cq, 10, RNIC_WC_FLUSHED);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
}

/* A response to a request that has not been made, as the ORD is used up. */
static void test_answered_too_early(void)
{
    static const uint32_t lengths[] = { 10, 20 };
    ConnectionOptions options = with_ord(1);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 2);
    uint8_t data[20] = { 0 };

    rnic_mem_fill(c->r, c->mr.bus, 0xee, 40000);
    rnic_post_send(c->r, &c->qp, &wr);
    expect_request(c, 1, 0, 0, 10);
    respond(c, 1, data, 20);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_FLUSHED);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    expect_placed(c, 1, data, 0);
    connection_free(c);
}

/* The memory of a later SGE goes before its request: the WR fails, once. */
static void test_sink_gone(void)
{
    static const uint32_t lengths[] = { 10, 20 };
    ConnectionOptions options = with_ord(1);
    Connection *c = connection_new(&options);
    RnicWr wr = list_wr(c, 9, lengths, 2);
    uint8_t data[10] = { 0 };
    RnicMr second;

    rnic_create_mr(c->r, &second, c->r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    wr.sge[1] = rnic_sge(&second, 0, 20);
    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_SEND, 10, 0, 4);
    expect_request(c, 1, 0, 0, 10);
    stag_dealloc(c->r, second.stag);
    respond(c, 0, data, 10);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_INVALID_STAG);
    rnic_expect_cqe(c->r, &c->send_cq, 10, RNIC_WC_FLUSHED);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
}

/* ---------------------------------------------------------------- refused */

typedef struct Refusal {
    const char *name;
    void (*spoil)(Connection *c, RnicWr *wr);
    uint8_t status;
} Refusal;

static void spoil_invalidate(Connection *c, RnicWr *wr)
{
    wr->opcode = RNIC_SQ_RDMA_READ_INVALIDATE;
}

/* The third one is a whole region too long. */
static void spoil_bounds(Connection *c, RnicWr *wr)
{
    wr->sge[2].length = cpu_to_le32(CONNECTION_MR_SIZE);
}

static void spoil_stag(Connection *c, RnicWr *wr)
{
    wr->sge[1].stag ^= cpu_to_le32(1);
}

static void spoil_source(Connection *c, RnicWr *wr)
{
    wr->remote_stag = 0;
}

/* The first part ends where the address space does. */
static void spoil_wrap(Connection *c, RnicWr *wr)
{
    wr->remote_to = -(uint64_t)le32_to_cpu(wr->sge[0].length);
}

static void spoil_total(Connection *c, RnicWr *wr)
{
    wr->sge[0].length = wr->sge[1].length = cpu_to_le32(0x80000000);
}

static const Refusal refusals[] = {
    { "with-invalidate", spoil_invalidate, RNIC_WC_INVALID_WQE },
    { "bounds", spoil_bounds, RNIC_WC_BASE_BOUNDS },
    { "stag", spoil_stag, RNIC_WC_INVALID_STAG },
    { "source-zero", spoil_source, RNIC_WC_INVALID_STAG },
    { "source-wraps", spoil_wrap, RNIC_WC_WRAP },
    { "total", spoil_total, RNIC_WC_INVALID_LENGTH },
};

/* Nothing of it is requested. */
static void test_refused(void)
{
    static const uint32_t lengths[] = { 10, 20, 30 };
    ConnectionOptions options = with_ord(4);

    for (unsigned i = 0; i < G_N_ELEMENTS(refusals); i++) {
        Connection *c = connection_new(&options);
        RnicWr wr = list_wr(c, 9, lengths, 3);

        g_test_message("%s", refusals[i].name);
        refusals[i].spoil(c, &wr);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 9, refusals[i].status);
        connection_free(c);
    }
}

/* A QP without the enable has the specification's one SGE: two are refused. */
static void test_without_enable(void)
{
    static const uint32_t lengths[] = { 10, 20 };
    Connection *c = connection_new(NULL);
    RnicWr one = list_wr(c, 8, lengths, 1), two = list_wr(c, 9, lengths, 2);
    uint8_t data[10] = { 'r', 'e', 'a', 'd' };

    g_assert_cmpuint(le32_to_cpu(rnic_query_device(c->r).max_read_sge), ==,
                     RNIC_MAX_SGE);
    rnic_mem_fill(c->r, c->mr.bus, 0xee, 40000);
    rnic_post_send(c->r, &c->qp, &one);
    expect_request(c, 1, 0, 0, 10);
    respond(c, 0, data, 10);
    expect_all(c, 8, 10);
    expect_placed(c, 0, data, 10);
    for (int invalidate = 0; invalidate < 2; invalidate++) {
        two.opcode = invalidate ? RNIC_SQ_RDMA_READ_INVALIDATE
                                : RNIC_SQ_RDMA_READ;
        rnic_post_send(c->r, &c->qp, &two);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_INVALID_WQE);
        connection_recycle(c);
        connection_establish(c, NULL);
    }
    connection_free(c);
    rnic_shows("V8.1.3.3-3 V9.3.1.1-11");
}

static void test_without_feature(void)
{
    ConnectionOptions options = { .features_off = RNIC_FEATURE_READ_LIST };
    Connection *c = connection_new(&options);

    g_assert_cmpuint(le32_to_cpu(rnic_query_device(c->r).max_read_sge), ==, 1);
    g_assert_cmpuint(rnic_modify_qp_enables(c->r, &c->qp, ENABLES), ==,
                     RNIC_ST_INVALID_MODIFIER);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/read-list/each-sge", test_each_sge);
    qtest_add_func("rnic/read-list/ord", test_ord);
    qtest_add_func("rnic/read-list/most-sges", test_most_sges);
    qtest_add_func("rnic/read-list/no-octets", test_no_octets);
    qtest_add_func("rnic/read-list/flushed", test_flushed);
    qtest_add_func("rnic/read-list/refused-by-peer", test_refused_by_peer);
    qtest_add_func("rnic/read-list/answered-too-early",
                   test_answered_too_early);
    qtest_add_func("rnic/read-list/sink-gone", test_sink_gone);
    qtest_add_func("rnic/read-list/refused", test_refused);
    qtest_add_func("rnic/read-list/without-enable", test_without_enable);
    qtest_add_func("rnic/read-list/without-feature", test_without_feature);
    return g_test_run();
}
