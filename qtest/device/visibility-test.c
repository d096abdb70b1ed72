/*
 * rnic: when what is delivered, read or written can be seen, and by whom; buffers
 * that change under way; numbers that name nothing any more
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

enum { LARGE = 16 * 1024 * 1024 };

static RnicMr large_region(Connection *c, uint8_t octet)
{
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    rnic_mem_fill(c->r, mr.bus, octet, LARGE);
    return mr;
}

/* ------------------------------------------------------------------ delivery */

static size_t send_octets(Connection *c, uint32_t msn, uint32_t mo, bool last,
                          const char *text, uint8_t *out)
{
    WireSegment segment = {
        .opcode = WIRE_SEND, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .msn = msn, .mo = mo, .length = strlen(text),
        .payload = (uint8_t *)text,
    };
    uint8_t ulpdu[256];

    return wire_encode_fpdu(c->peer, ulpdu,
                            wire_encode_segment(&segment, ulpdu), out);
}

/* One whose end comes after the QP has left RTS for @state is never delivered. */
static void check_half_send(uint8_t state)
{
    Connection *c = connection_new(NULL);
    uint8_t octets[256], got[8];

    connection_recv(c, 3, 200, 16);
    wire_put(c->peer, octets, send_octets(c, 1, 0, false, "half", octets));
    RNIC_UNTIL(c->r, (connection_peek(c, 200, got, 4),
                      memcmp(got, "half", 4) == 0));
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                     RNIC_ST_OK);
    wire_try_put(c->peer, octets, send_octets(c, 1, 4, true, "end", octets));
    rnic_expect_cqe(c->r, &c->recv_cq, 3, RNIC_WC_FLUSHED);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_peek(c, 200, got, 8);
    g_assert_cmpmem(got, 8, "half\0\0\0", 8);
    connection_free(c);
}

/* Of a Send the end is missing: neither it nor the one behind it is there. */
static void test_send_withheld(void)
{
    Connection *c = connection_new(NULL);
    uint8_t octets[1024];
    size_t length, cut;
    struct rnic_cqe cqe;

    connection_recv(c, 1, 0, 16);
    connection_recv(c, 2, 100, 16);
    length = send_octets(c, 1, 0, false, "first", octets);
    wire_put(c->peer, octets, length);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    length = send_octets(c, 1, 5, true, "and last", octets);
    cut = length - 9;
    length += send_octets(c, 2, 0, true, "next", octets + length);
    wire_put(c->peer, octets, cut);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    wire_put(c->peer, octets + cut, length - cut);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, 13);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    connection_free(c);
    check_half_send(RNIC_QPS_ERROR);
    check_half_send(RNIC_QPS_TERMINATE);
    rnic_shows("V6.4-5 R5.5-3 R5.5-13");
}

/* A Send behind a Read whose answer takes its time is delivered all the same. */
static void test_send_passes_response(void)
{
    Connection *c = connection_new(NULL);
    RnicMr mr = large_region(c, 0x31);
    WireSegment segment;
    uint32_t got = 0;

    connection_recv(c, 1, 0, 8);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = LARGE, .source_stag = mr.stag, .source_to = mr.va });
    wire_put_send(c->peer, WIRE_SEND, 0, "overtake", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    do {
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_READ_RESPONSE);
        got += segment.length;
        g_free(segment.payload);
    } while (!segment.last);
    g_assert_cmpuint(got, ==, LARGE);
    connection_free(c);
    rnic_shows("V8.2.2-16 R5.5-15");
}

/* A Read of nothing, of an STag that is none, proves that what preceded is there. */
static void test_empty_read_proves(void)
{
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    uint8_t data[9000], got[9000];

    connection_establish(other, NULL);
    for (unsigned round = 0; round < 40; round++) {
        WireRead empty = { .sink_stag = 0x1d, .sink_to = round,
                           .source_stag = 0x77777700 + round };

        rnic_pattern(data, sizeof(data), round);
        connection_recv(c, round, 100000, 8);
        wire_put_write(c->peer, c->mr.stag, c->mr.va + round, data,
                       sizeof(data));
        wire_put_send(c->peer, WIRE_SEND, 0, data, 8);
        wire_put_read_request(c->peer, &empty);
        g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0x1d,
                                         round, NULL, 0), ==, 0);
        wire_put_read_request(other->peer, &(WireRead) {
            .size = sizeof(data), .source_stag = c->mr.stag,
            .source_to = c->mr.va + round });
        wire_get_tagged(other->peer, WIRE_READ_RESPONSE, 0, 0, got,
                        sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        wire_put_read_request(other->peer, &(WireRead) {
            .size = 8, .source_stag = c->mr.stag,
            .source_to = c->mr.va + 100000 });
        wire_get_tagged(other->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
        g_assert_cmpmem(got, 8, data, 8);
        rnic_expect_cqe(c->r, &c->recv_cq, round, RNIC_WC_SUCCESS);
    }
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V8.2.2.2-9");
}

/* Write, Read, fenced Write to one place: read is the first, left the second. */
static void test_write_read_write(void)
{
    Connection *a = connection_prepare(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    enum { SIZE = 3000, THERE = 50000, READ = 10000, SECOND = 20000 };
    uint8_t first[SIZE], second[SIZE], got[SIZE];

    connection_pair(a, b);
    for (unsigned round = 0; round < 100; round++) {
        static const uint8_t opcodes[] = {
            RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ, RNIC_SQ_RDMA_WRITE,
        };

        rnic_pattern(first, SIZE, 2 * round);
        rnic_pattern(second, SIZE, 2 * round + 1);
        connection_fill(a, 0, first, SIZE);
        connection_fill(a, SECOND, second, SIZE);
        for (int i = 0; i < 3; i++) {
            RnicWr wr = connection_wr(a, opcodes[i], i,
                                      i == 0 ? 0 : i == 1 ? READ : SECOND,
                                      SIZE);

            wr.remote_stag = b->mr.stag;
            wr.remote_to = b->mr.va + THERE;
            wr.flags |= i == 2 ? RNIC_WQE_READ_FENCE : 0;
            rnic_post_send(a->r, &a->qp, &wr);
        }
        for (int i = 0; i < 3; i++) {
            rnic_expect_cqe(a->r, &a->send_cq, i, RNIC_WC_SUCCESS);
        }
        connection_peek(a, READ, got, SIZE);
        g_assert_cmpmem(got, SIZE, first, SIZE);
        RNIC_UNTIL(a->r, (connection_peek(b, THERE, got, SIZE),
                          memcmp(got, second, SIZE) == 0));
        rnic_settle_fast(a->r);
        connection_peek(b, THERE, got, SIZE);
        g_assert_cmpmem(got, SIZE, second, SIZE);
    }
    connection_free_second(b);
    connection_free(a);
    rnic_shows("V8.2.2.2-10");
}

/* Whatever a peer sends, with a receive queue of its own and with an S-RQ. */
static void test_all_messages(void)
{
    static const uint8_t opcodes[] = {
        WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE,
        WIRE_SEND_SE_INVALIDATE,
    };
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    Connection *each[2];
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    each[0] = connection_prepare_on(r, NULL);
    each[1] = connection_prepare_second(each[0], &(ConnectionOptions) {
        .srq = &srq });
    for (int shared = 0; shared < 2; shared++) {
        Connection *c = each[shared];
        uint8_t got[8];
        WireRead read;

        connection_establish(c, &(ConnectionOptions) {
            .srq = shared ? &srq : NULL });
        for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
            struct rnic_sge sge = rnic_sge(&c->mr, 1000 + 8 * i, 8);

            if (shared) {
                rnic_post_srq_recv(r, &srq, i, 1, &sge);
            } else {
                rnic_post_recv(r, &c->qp, i, 1, &sge);
            }
        }
        /* None of these takes a receive. */
        wire_put_write(c->peer, c->mr.stag, c->mr.va, "written!", 8);
        wire_put_read_request(c->peer, &(WireRead) {
            .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
        wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
        g_assert_cmpmem(got, 8, "written!", 8);
        connection_post(c, RNIC_SQ_RDMA_READ, 9, 100, 8);
        wire_get_read_request(c->peer, 1, &read);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                               "response", 8);
        rnic_expect_cqe(r, &c->send_cq, 9, RNIC_WC_SUCCESS);
        connection_peek(c, 100, got, 8);
        g_assert_cmpmem(got, 8, "response", 8);
        rnic_settle(r);
        rnic_expect_no_cqe(r, &c->recv_cq);
        for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
            StagRegion region = stag_region(r, 1);
            uint8_t data[8];

            stag_register(r, &region);
            rnic_pattern(data, 8, i);
            wire_put_send(c->peer, opcodes[i], i & 2 ? region.stag : 0, data,
                          8);
            rnic_expect_cqe(r, &c->recv_cq, i, RNIC_WC_SUCCESS);
            connection_peek(c, 1000 + 8 * i, got, 8);
            g_assert_cmpmem(got, 8, data, 8);
            g_assert_cmpint(stag_query_mr(r, region.stag).valid, ==, !(i & 2));
        }
        rnic_expect_no_cqe(r, &c->recv_cq);
        rnic_expect_no_async(r);
    }
    connection_free_second(each[1]);
    connection_free(each[0]);
    rnic_shows("V6.2.2-3");
}

static void post_five(Connection *c, RnicSrq *srq)
{
    for (uint64_t i = 0; i < 5; i++) {
        struct rnic_sge sge = rnic_sge(&c->mr, 100 * i, 100);

        if (srq) {
            rnic_post_srq_recv(c->r, srq, 40 + i, 1, &sge);
        } else {
            rnic_post_recv(c->r, &c->qp, 40 + i, 1, &sge);
        }
    }
}

/* Of five receives three messages of a kind take three; the other two are left. */
static void check_receives_used(Connection *c, RnicSrq *srq, uint8_t opcode)
{
    static const uint32_t lengths[] = { 0, 100, 1 };
    bool invalidate = opcode == WIRE_SEND_INVALIDATE ||
                      opcode == WIRE_SEND_SE_INVALIDATE;
    uint8_t data[100];

    rnic_pattern(data, sizeof(data), opcode);
    post_five(c, srq);
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        StagRegion region = stag_region(c->r, 1);
        struct rnic_cqe cqe;

        stag_register(c->r, &region);
        wire_put_send(c->peer, opcode, invalidate ? region.stag : 0, data,
                      lengths[i]);
        cqe = rnic_expect_cqe(c->r, &c->recv_cq, 40 + i, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, lengths[i]);
        stag_dealloc(c->r, region.stag);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    for (unsigned i = 3; i < 5; i++) {
        wire_put_send(c->peer, WIRE_SEND, 0, data, 7);
        rnic_expect_cqe(c->r, &c->recv_cq, 40 + i, RNIC_WC_SUCCESS);
    }
    rnic_expect_no_cqe(c->r, &c->recv_cq);
}

/* Each Send takes one receive, of whatever kind and length it is. */
static void test_receives_used(void)
{
    static const uint8_t opcodes[] = {
        WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE,
        WIRE_SEND_SE_INVALIDATE,
    };
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    for (int shared = 0; shared < 2; shared++) {
        const ConnectionOptions options = { .srq = shared ? &srq : NULL };
        Connection *c = connection_prepare_on(r, &options);

        connection_establish(c, &options);
        for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
            check_receives_used(c, shared ? &srq : NULL, opcodes[i]);
        }
        rnic_expect_no_async(r);
        connection_recycle(c);
        connection_free_second(c);
    }
    rnic_quit(r);
    rnic_shows("V8.1.2.1-1");
}

/*
 * The sink of a Read is another thing when its response comes: for it as for a Write
 * it is what it is then that counts.
 */
static void test_sink_changed(void)
{
    enum { GONE, INVALIDATED, OTHER_PD, NO_RIGHT, WAYS };
    static const struct {
        uint16_t event, code;
    } expected[WAYS] = {
        [GONE] = { RNIC_AE_TAGGED_INVALID_STAG, 0x1100 },
        [INVALIDATED] = { RNIC_AE_TAGGED_INVALID_STAG, 0x1100 },
        [OTHER_PD] = { RNIC_AE_TAGGED_INVALID_PD, 0x1102 },
        [NO_RIGHT] = { RNIC_AE_TAGGED_ACCESS, 0x1102 },
    };
    Connection *c = connection_new(&stag_options);
    uint32_t pd = rnic_alloc_pd(c->r);

    for (int way = 0; way < WAYS; way++) {
        StagRegion sink = stag_region(c->r, 1);
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, 5, 0, 8);
        uint8_t got[8];
        WireRead read;

        stag_register(c->r, &sink);
        wr.sge[0].stag = cpu_to_le32(sink.stag);
        wr.sge[0].to = cpu_to_le64(sink.va);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, 1, &read);
        if (way == GONE) {
            stag_dealloc(c->r, sink.stag);
        } else if (way == INVALIDATED) {
            stag_post_invalidate(c, 6, sink.stag);
            RNIC_UNTIL(c->r, !stag_query_mr(c->r, sink.stag).valid);
        } else {
            sink.pd = way == OTHER_PD ? pd : sink.pd;
            sink.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE |
                          (way == OTHER_PD ? RNIC_ACCESS_REMOTE_WRITE : 0);
            g_assert_cmpuint(stag_try_reregister(c->r, &sink, STAG_CHANGE_ALL),
                             ==, RNIC_ST_OK);
            g_assert_cmphex(sink.stag, ==, read.sink_stag);
        }
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                               "intruder", 8);
        wire_expect_terminate(c->peer, expected[way].code);
        rnic_expect_async(c->r, expected[way].event, c->qp.number);
        rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_FLUSHED);
        rnic_mem_read(c->r, sink.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
        stag_reconnect(c);
    }
    connection_free(c);
    rnic_shows("V8.3.3-11");
}

/* The stream ends within a response: an error, and nothing beside the sink. */
static void test_response_cut(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[100], got[300];
    WireSegment segment = {
        .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .length = 60, .payload = data,
    };
    WireRead read;

    rnic_mem_fill(c->r, c->mr.bus, 0xe1, sizeof(got));
    memset(data, 0x1e, sizeof(data));
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 100, 100);
    wire_get_read_request(c->peer, 1, &read);
    segment.stag = read.sink_stag;
    segment.to = read.sink_to;
    wire_put_segment(c->peer, &segment);
    rnic_settle(c->r);
    wire_abort(c->peer);
    c->peer = NULL;
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    connection_peek(c, 0, got, sizeof(got));
    for (unsigned i = 0; i < sizeof(got); i++) {
        if (i < 100 || i >= 200) {
            g_assert_cmphex(got[i], ==, 0xe1);
        }
    }
    connection_free(c);
    rnic_shows("R3.1-7");
}

/* Behind a Read with Invalidate: what is not fenced goes out meanwhile. */
static void test_behind_read_invalidate(void)
{
    Connection *c = connection_new(&stag_options);
    StagRegion region = stag_region(c->r, 1);
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9, .wr_id = 1 };
    uint8_t got[8];
    WireRead read;

    stag_register(c->r, &region);
    wr.sge[0].stag = cpu_to_le32(region.stag);
    wr.sge[0].to = cpu_to_le64(region.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wr = connection_wr(c, RNIC_SQ_SEND, 3, 0, 5);
    wr.flags |= RNIC_WQE_READ_FENCE;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, 8), ==, 4);
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 1);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 2, got, 8), ==, 5);
    for (int i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 0);
    connection_free(c);
    rnic_shows("V8.2.2.1-4");
}

/* ------------------------------------------------------ buffers, while in use */

/* A completed Send or Write has no use for its buffer, whoever reads it when. */
static void test_source_free(void)
{
    Connection *c = connection_new(NULL);
    enum { SIZE = 20000 };
    uint8_t data[SIZE], got[SIZE];

    for (int write = 0; write < 2; write++) {
        rnic_pattern(data, SIZE, write);
        connection_fill(c, 0, data, SIZE);
        connection_post(c, write ? RNIC_SQ_RDMA_WRITE : RNIC_SQ_SEND, 1, 0,
                        SIZE);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        rnic_mem_fill(c->r, c->mr.bus, 0xbd, SIZE);
        rnic_settle(c->r);
        if (write) {
            connection_get_write(c, 0, got, SIZE);
        } else {
            wire_get_send(c->peer, WIRE_SEND, 1, got, SIZE);
        }
        g_assert_cmpmem(got, SIZE, data, SIZE);
    }
    /* So has a completed Read, and a receive. */
    {
        WireRead read;

        connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 8);
        wire_get_read_request(c->peer, 1, &read);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                               "response", 8);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        connection_recv(c, 3, 8, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "received", 8);
        rnic_expect_cqe(c->r, &c->recv_cq, 3, RNIC_WC_SUCCESS);
        connection_fill(c, 0, "mine nowmine now", 16);
        connection_recv(c, 4, 100, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "received", 8);
        rnic_expect_cqe(c->r, &c->recv_cq, 4, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, 16);
        g_assert_cmpmem(got, 16, "mine nowmine now", 16);
    }
    connection_free(c);
    rnic_shows("V8.2.4-5");
}

/* The guest writes to what is being sent: some octets or others, a good stream. */
static void test_source_changes(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .crc = true });
    RnicMr mr = large_region(c, 0);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1 };
    WireSegment segment;
    uint32_t got = 0, count = 0;
    uint8_t small[4];

    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    do {
        if (count++ % 16 == 0) {
            rnic_mem_fill(c->r, mr.bus + got, count, MIN(LARGE - got, 1 << 20));
        }
        /* Checks the CRC and where it belongs. */
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_SEND);
        g_assert_cmpuint(segment.mo, ==, got);
        got += segment.length;
        g_free(segment.payload);
    } while (!segment.last);
    g_assert_cmpuint(got, ==, LARGE);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 2, small, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V8.1.3.2-2 V8.2.2-9");
}

/* The STag goes while a Send is under way: an error, and no look at the pages. */
static void test_source_deallocated(void)
{
    Connection *c = connection_new(NULL);
    RnicMr mr = large_region(c, 0x11);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1 };
    WireSegment segment;
    uint32_t got = 0;

    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_settle(c->r);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG, mr.stag),
                     ==, RNIC_ST_OK);
    rnic_mem_fill(c->r, mr.bus, 0x22, LARGE);
    for (;;) {
        wire_get_segment(c->peer, &segment);
        if (segment.opcode != WIRE_SEND) {
            break;
        }
        g_assert_false(segment.last);
        for (unsigned i = 0; i < segment.length; i++) {
            g_assert_cmphex(segment.payload[i], ==, 0x11);
        }
        got += segment.length;
        g_free(segment.payload);
    }
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_free(segment.payload);
    g_assert_cmpuint(got, <, LARGE);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_INVALID_STAG);
    connection_free(c);
    rnic_shows("V8.2.2-8");
}

/* Rights end while the peer writes on and on: from then on nothing changes. */
static void test_revoked(void)
{
    enum { DEALLOC, INVALIDATE, REREGISTER, COUNT };
    enum { SIZE = 1024, PAGES = 64, ROUNDS = PAGES * 4096 / SIZE };
    Connection *c = connection_new(&stag_options);
    g_autofree uint8_t *before = g_malloc(PAGES * 4096);
    g_autofree uint8_t *after = g_malloc(PAGES * 4096);
    uint8_t data[SIZE];

    for (int way = 0; way < COUNT; way++) {
        StagRegion region = stag_region(c->r, PAGES);

        stag_register(c->r, &region);
        for (int late = 0; late < 2; late++) {
            memset(data, late ? 0xcd : 0xab, SIZE);
            for (int i = 0; i < ROUNDS; i++) {
                WireSegment segment = {
                    .opcode = WIRE_WRITE, .tagged = true, .last = true,
                    .ddp_version = 1, .rdmap_version = 1,
                    .stag = region.stag, .to = region.va + i * SIZE,
                    .length = SIZE, .payload = data,
                };

                wire_try_put_segment(c->peer, &segment);
            }
            if (late) {
                break;
            }
            if (way == DEALLOC) {
                stag_dealloc(c->r, region.stag);
            } else if (way == INVALIDATE) {
                g_assert_cmpuint(stag_invalidate(c, region.stag), ==,
                                 RNIC_WC_SUCCESS);
            } else {
                uint32_t stag = region.stag;

                region.access = RNIC_ACCESS_LOCAL_READ |
                                RNIC_ACCESS_LOCAL_WRITE;
                g_assert_cmpuint(stag_try_reregister(c->r, &region,
                                                     STAG_CHANGE_ALL), ==,
                                 RNIC_ST_OK);
                g_assert_cmphex(region.stag, ==, stag);
            }
            rnic_mem_read(c->r, region.bus[0], before, PAGES * 4096);
        }
        rnic_settle(c->r);
        rnic_mem_read(c->r, region.bus[0], after, PAGES * 4096);
        g_assert_cmpmem(after, PAGES * 4096, before, PAGES * 4096);
        wire_expect_terminate(c->peer, way == REREGISTER ? 0x1102 : 0x1100);
        stag_reconnect(c);
    }
    connection_free(c);
    rnic_shows("R8.1.1-6");
}

/* -------------------------------------------------------------- CQs, numbers */

/* Drain, arm, drain, while messages come: what the last missed is told of. */
static void test_arm_loses_nothing(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .rq_depth = 512 });
    struct rnic_ceqe event;
    struct rnic_cqe cqe;

    for (unsigned i = 0; i < 400; i++) {
        connection_recv(c, i, 0, 8);
    }
    for (unsigned i = 0; i < 400; i++) {
        bool there;

        wire_put_send(c->peer, WIRE_SEND, 0, "eventual", 8);
        /* Sooner and later, so that it comes before, between and after. */
        g_usleep(i % 40 * 5);
        there = rnic_cq_poll(c->r, &c->recv_cq, &cqe);
        rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
        there = there || rnic_cq_poll(c->r, &c->recv_cq, &cqe);
        while (!there) {
            /* The event may be that of an earlier round's arming. */
            rnic_eq_wait(c->r, &c->r->comp_eq, &event);
            g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->recv_cq.number);
            there = rnic_cq_poll(c->r, &c->recv_cq, &cqe);
            if (!there) {
                rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
                there = rnic_cq_poll(c->r, &c->recv_cq, &cqe);
            }
        }
        g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, i);
    }
    connection_free(c);
    rnic_shows("V8.2.5-13");
}

/* A CQ that is destroyed with CQEs in it and armed: not an octet, no event. */
static void test_cq_destroyed(void)
{
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    struct rnic_counters before = rnic_query_counters(c->r), after;
    uint8_t ring[2][4096], now[2][4096], got[4];
    struct rnic_ceqe event;

    connection_establish(other, NULL);
    for (int i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 4);
        wire_get_send(c->peer, WIRE_SEND, i + 1, got, 4);
    }
    rnic_settle(c->r);
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
    for (int i = 0; i < 5; i++) {
        connection_recv(c, i, 0, 4);
    }
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->send_cq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->recv_cq.number), ==, RNIC_ST_OK);
    after = rnic_query_counters(c->r);
    g_assert_cmpuint(le32_to_cpu(after.cqs), ==, le32_to_cpu(before.cqs) - 2);
    rnic_mem_read(c->r, c->send_cq.memory, ring[0], sizeof(ring[0]));
    rnic_mem_read(c->r, c->recv_cq.memory, ring[1], sizeof(ring[1]));
    wire_try_put(c->peer, "what comes too late", 19);
    /* Arming it again is for nobody. */
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    connection_post(other, RNIC_SQ_SEND, 9, 0, 4);
    wire_get_send(other->peer, WIRE_SEND, 1, got, 4);
    rnic_expect_cqe(c->r, &other->send_cq, 9, RNIC_WC_SUCCESS);
    rnic_settle(c->r);
    rnic_mem_read(c->r, c->send_cq.memory, now[0], sizeof(now[0]));
    rnic_mem_read(c->r, c->recv_cq.memory, now[1], sizeof(now[1]));
    g_assert_cmpmem(now, sizeof(now), ring, sizeof(ring));
    g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
    rnic_expect_no_async(c->r);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V5.3.4-2 V9.2.3.4-1");
}

/* Armed for neither kind is not armed. */
static void test_notify_types(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_ceqe event;

    for (int solicited = 0; solicited < 2; solicited++) {
        rnic_cq_arm(c->r, &c->recv_cq, 0);
        connection_recv(c, 1, 0, 4);
        wire_put_send(c->peer, WIRE_SEND_SE, 0, "none", 4);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
        rnic_settle(c->r);
        g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
        rnic_cq_arm(c->r, &c->recv_cq, solicited ? RNIC_ARM_SOLICITED
                                                 : RNIC_ARM_NEXT);
        connection_recv(c, 2, 0, 4);
        wire_put_send(c->peer, solicited ? WIRE_SEND_SE : WIRE_SEND, 0,
                      "one.", 4);
        rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
        rnic_eq_wait(c->r, &c->r->comp_eq, &event);
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->recv_cq.number);
    }
    rnic_expect_no_async(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    connection_free(c);
    rnic_shows("V9.3.2.2-1");
}

/* Doorbells and records of what is gone: nothing happens to anything. */
static void test_dead_numbers(void)
{
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    RnicSrqInit srq_init = rnic_srq_default(c->r);
    struct rnic_ceqe event;
    RnicSrq srq;
    uint8_t got[4];

    rnic_create_srq(c->r, &srq, &srq_init);
    connection_establish(other, NULL);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->send_cq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_SRQ,
                                       srq.number), ==, RNIC_ST_OK);
    for (int i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 4);
        connection_recv(c, i, 0, 4);
        rnic_ring_sq(c->r, &c->qp);
        rnic_ring_rq(c->r, &c->qp);
        rnic_post_srq_recv(c->r, &srq, i, 0, NULL);
        rnic_doorbell(c->r, 0, RNIC_DB_SRQ, srq.number);
        /* The consumer index of the CQ, and arming it. */
        rnic_mem_write32(c->r, c->send_cq.memory, 100 + i);
        rnic_cq_arm(c->r, &c->send_cq, i ? RNIC_ARM_NEXT
                                         : RNIC_ARM_SOLICITED);
    }
    rnic_settle(c->r);
    rnic_assert_alive(c->r);
    g_assert_cmphex(rnic_read32(c->r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED);
    rnic_expect_no_async(c->r);
    g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
    connection_post(other, RNIC_SQ_SEND, 9, 0, 4);
    wire_get_send(other->peer, WIRE_SEND, 1, got, 4);
    rnic_expect_cqe(c->r, &other->send_cq, 9, RNIC_WC_SUCCESS);
    connection_recv(other, 8, 0, 4);
    wire_put_send(other->peer, WIRE_SEND, 0, "good", 4);
    rnic_expect_cqe(c->r, &other->recv_cq, 8, RNIC_WC_SUCCESS);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V9.3.1.2-7 V9.3.2.1-9");
}

/*
 * What names no QP, a QP of another page, or contradicts itself disturbs no send
 * queue but the one that it is in.
 */
static void test_wrong_posts(void)
{
    Connection *c = connection_new(NULL);
    Connection *bad = connection_prepare_second(c, NULL);
    uint32_t dropped = rnic_read32(c->r, RNIC_REG_BAD_DOORBELLS);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS], got[4];
    RnicWr wr = connection_wr(bad, RNIC_SQ_SEND, 6, 0, 4);
    const struct {
        uint32_t page, number;
    } doorbells[] = {
        { 0, 0 }, { 0, 0x123456 }, { 0, RNIC_OBJECT_NUMBER_MASK },
        { 1, c->qp.number }, { 7, bad->qp.number },
        { 0, c->qp.number | 1u << 24 },
    };

    connection_establish(bad, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(doorbells); i++) {
        rnic_doorbell(c->r, doorbells[i].page, RNIC_DB_SQ,
                      doorbells[i].number);
    }
    g_assert_cmpuint(rnic_read32(c->r, RNIC_REG_BAD_DOORBELLS) - dropped, ==,
                     G_N_ELEMENTS(doorbells));
    rnic_encode_wr(&wr, wqe);
    wqe[offsetof(struct rnic_sq_wqe, flags)] |= RNIC_WQE_INLINE;
    rnic_store_wqe(c->r, &bad->qp, wqe, 1);
    rnic_ring_sq(c->r, &bad->qp);
    wire_expect_terminate(bad->peer, 0);
    rnic_expect_cqe(c->r, &bad->send_cq, 6, RNIC_WC_INVALID_WQE);
    for (uint32_t i = 1; i <= 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 4);
        wire_get_send(c->peer, WIRE_SEND, i, got, 4);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    /* And that queue is one like any other when the QP has been recovered. */
    connection_recycle(bad);
    connection_establish(bad, NULL);
    connection_post(bad, RNIC_SQ_SEND, 7, 0, 4);
    wire_get_send(bad->peer, WIRE_SEND, 1, got, 4);
    rnic_expect_cqe(c->r, &bad->send_cq, 7, RNIC_WC_SUCCESS);
    connection_free_second(bad);
    connection_free(c);
    rnic_shows("V9.3.1.1-25");
}

/* ------------------------------------------------------------ only on the CQ */

/* Whether any 8 octets of the @size at @bus are @value. */
static bool memory_has(Rnic *r, uint64_t bus, size_t size, uint64_t value)
{
    g_autofree uint8_t *octets = g_malloc(size);

    rnic_mem_read(r, bus, octets, size);
    for (size_t i = 0; i + sizeof(value) <= size; i++) {
        if (ldq_le_p(octets + i) == value) {
            return true;
        }
    }
    return false;
}

/*
 * What tells that a WR has completed, of all that the device writes to memory, is
 * its CQE: no event, no record and no answer of a command has it.
 */
static void test_only_on_cq(void)
{
    enum { SENT = 0x5e9d, RECEIVED = 0x4ecd };
    const uint64_t tag = 0xabcdef1234560000;
    Connection *c = connection_new(NULL);
    Rnic *r = c->r;
    RnicEq *const eqs[] = { &r->async_eq, &r->cm_eq, &r->comp_eq };
    const uint64_t ids[] = { tag | SENT, tag | RECEIVED };
    RnicCq *const cqs[] = { &c->send_cq, &c->recv_cq };
    struct rnic_qp_attr attr;
    uint8_t got[4];

    rnic_cq_arm(r, &c->send_cq, RNIC_ARM_NEXT);
    rnic_cq_arm(r, &c->recv_cq, RNIC_ARM_NEXT);
    connection_recv(c, tag | RECEIVED, 0, 4);
    wire_put_send(c->peer, WIRE_SEND, 0, "good", 4);
    connection_post(c, RNIC_SQ_SEND, tag | SENT, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 4);
    for (int i = 0; i < 2; i++) {
        RNIC_UNTIL(r, memory_has(r, cqs[i]->memory + RNIC_QUEUE_RECORD_SIZE,
                                 sizeof(struct rnic_cqe), ids[i]));
        g_assert_false(memory_has(r, cqs[i]->memory, RNIC_QUEUE_RECORD_SIZE,
                                  ids[i]));
        g_assert_false(memory_has(r, cqs[!i]->memory,
                                  RNIC_QUEUE_RECORD_SIZE + 64, ids[i]));
    }
    rnic_settle(r);
    attr = rnic_query_qp(r, &c->qp);
    for (int i = 0; i < 2; i++) {
        g_assert_false(memory_has(r, c->qp.memory, RNIC_QUEUE_RECORD_SIZE,
                                  ids[i]));
        g_assert_false(memory_has(r, r->scratch, sizeof(attr), ids[i]));
        for (unsigned e = 0; e < G_N_ELEMENTS(eqs); e++) {
            g_assert_false(memory_has(r, eqs[e]->memory,
                                      RNIC_QUEUE_RECORD_SIZE +
                                      eqs[e]->depth * eqs[e]->entry_size,
                                      ids[i]));
        }
        g_assert_false(memory_has(r, r->admin_cq, r->admin_depth *
                                  sizeof(struct rnic_admin_cqe), ids[i]));
    }
    rnic_expect_cqe(r, &c->recv_cq, tag | RECEIVED, RNIC_WC_SUCCESS);
    rnic_expect_cqe(r, &c->send_cq, tag | SENT, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V5.3-3");
}

/* --------------------------------------------------------- before the stream */

/* What a peer sends before the stream is the QP's reaches no QP. */
static void test_not_established(void)
{
    Connection *c = connection_prepare(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    uint8_t ulpdu[64], octets[80];
    WireSegment write = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va, .length = 8,
        .payload = (uint8_t *)"intruder",
    };
    uint16_t port = wire_free_port(1);
    WirePeer *peer;
    size_t size;

    connection_recv(c, 1, 100, 8);
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    /* FPDUs instead of a request, and behind one that nobody accepts. */
    for (int request = 0; request < 2; request++) {
        WireMpa mpa = wire_mpa_request();

        peer = wire_connect(c->r->qts, 9, 1, port);
        if (request) {
            wire_mpa_put(peer, &mpa);
            rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
        }
        size = wire_encode_fpdu(peer, ulpdu, wire_encode_segment(&write, ulpdu),
                                octets);
        for (int i = 0; i < 3; i++) {
            wire_try_put(peer, octets, size);
        }
        rnic_settle(c->r);
        g_assert_cmphex(rnic_mem_read32(c->r, c->mr.bus), ==, 0);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
        wire_close(peer);
        connection_drain_events(c);
    }
    /* Another QP's stream is that QP's alone. */
    connection_establish(other, NULL);
    connection_recv(other, 2, 0, 8);
    wire_put_send(other->peer, WIRE_SEND, 0, "other's!", 8);
    rnic_expect_cqe(c->r, &other->recv_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V10.2-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/visibility/send-withheld", test_send_withheld);
    qtest_add_func("rnic/visibility/send-passes-response",
                   test_send_passes_response);
    qtest_add_func("rnic/visibility/empty-read-proves",
                   test_empty_read_proves);
    qtest_add_func("rnic/visibility/response-cut", test_response_cut);
    qtest_add_func("rnic/visibility/behind-read-invalidate",
                   test_behind_read_invalidate);
    qtest_add_func("rnic/visibility/source-free", test_source_free);
    qtest_add_func("rnic/visibility/source-changes", test_source_changes);
    qtest_add_func("rnic/visibility/source-deallocated",
                   test_source_deallocated);
    qtest_add_func("rnic/visibility/revoked", test_revoked);
    qtest_add_func("rnic/visibility/write-read-write", test_write_read_write);
    qtest_add_func("rnic/visibility/all-messages", test_all_messages);
    qtest_add_func("rnic/visibility/receives-used", test_receives_used);
    qtest_add_func("rnic/visibility/sink-changed", test_sink_changed);
    qtest_add_func("rnic/visibility/arm-loses-nothing",
                   test_arm_loses_nothing);
    qtest_add_func("rnic/visibility/cq-destroyed", test_cq_destroyed);
    qtest_add_func("rnic/visibility/notify-types", test_notify_types);
    qtest_add_func("rnic/visibility/dead-numbers", test_dead_numbers);
    qtest_add_func("rnic/visibility/wrong-posts", test_wrong_posts);
    qtest_add_func("rnic/visibility/only-on-cq", test_only_on_cq);
    qtest_add_func("rnic/visibility/not-established", test_not_established);
    return g_test_run();
}
