/*
 * rnic: rules of RFC 5040 over every kind of message, every field, a queue that is full
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

/* Larger than what the sockets between the device and a peer take. */
enum { LARGE = 16 * 1024 * 1024 };

static const uint8_t send_kinds[] = {
    WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE, WIRE_SEND_SE_INVALIDATE,
};

static bool kind_invalidates(uint8_t opcode)
{
    return opcode == WIRE_SEND_INVALIDATE || opcode == WIRE_SEND_SE_INVALIDATE;
}

/* Each 64 KiB has an octet of its own; the same goes to @data. */
static RnicMr large_mr(Connection *c, uint8_t *data)
{
    enum { PART = 64 * 1024 };
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    for (unsigned i = 0; i < LARGE / PART; i++) {
        rnic_mem_fill(c->r, mr.bus + i * PART, i, PART);
        memset(data + i * PART, i, PART);
    }
    return mr;
}

/* A whole segment of @opcode that is right; the first of its queue. */
static WireSegment right_segment(Connection *c, uint8_t opcode)
{
    static uint8_t payload[28];
    WireSegment s = {
        .opcode = opcode, .last = true, .ddp_version = 1, .rdmap_version = 1,
        .msn = 1, .payload = payload,
    };

    switch (opcode) {
    case WIRE_WRITE:
    case WIRE_READ_RESPONSE:
        s.tagged = true;
        s.stag = c->mr.stag;
        s.to = c->mr.va;
        s.length = 8;
        break;
    case WIRE_READ_REQUEST:
        s.qn = 1;
        s.length = 28;
        break;
    case WIRE_TERMINATE:
        s.qn = 2;
        s.length = 4;
        break;
    default:
        s.length = 8;
    }
    return s;
}

/* ----------------------------------------------------------------- headers */

static void check_versions(const ConnectionOptions *options,
                           const uint8_t *versions, unsigned count)
{
    Connection *c = connection_prepare(options);

    for (unsigned i = 0; i < count; i++) {
        for (uint8_t opcode = WIRE_WRITE; opcode <= WIRE_TERMINATE; opcode++) {
            WireSegment s = right_segment(c, opcode);

            g_test_message("opcode %u, version %u", opcode, versions[i]);
            connection_establish(c, options);
            connection_recv(c, 1, 0, 64);
            s.rdmap_version = versions[i];
            wire_put_segment(c->peer, &s);
            wire_expect_terminate(c->peer, 0x0205);
            rnic_expect_async(c->r, RNIC_AE_RDMAP_VERSION, c->qp.number);
            rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
            connection_recycle(c);
        }
    }
    connection_free(c);
}

/* 1 is the version of each message, whichever revision of MPA has begun it. */
static void test_versions(void)
{
    static const uint8_t others[] = { 0, 2, 3 };

    check_versions(NULL, others, 3);
    check_versions(&(ConnectionOptions) { .plain = true }, others, 1);
    rnic_shows("R4.1-6 R7.2-3");
}

static void put_reserved(Connection *c, WireSegment s)
{
    s.reserved = 0x3f;
    if (!s.tagged && !kind_invalidates(s.opcode)) {
        s.stag = c->mr.stag;
    }
    wire_put_segment(c->peer, &s);
}

/* Reserved bits and an Invalidate STag that means nothing, of every kind. */
static void test_reserved(void)
{
    Connection *c = connection_new(&stag_options);
    WireSegment s;
    struct rnic_aeqe aeqe;
    WireRead read;
    uint8_t header[28] = { }, got[8];

    for (unsigned i = 0; i < G_N_ELEMENTS(send_kinds); i++) {
        StagRegion region = stag_region(c->r, 1);
        struct rnic_cqe cqe;

        stag_register(c->r, &region);
        connection_recv(c, i, 0, 8);
        s = right_segment(c, send_kinds[i]);
        s.msn = i + 1;
        s.stag = region.stag;
        put_reserved(c, s);
        cqe = rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
        g_assert_cmpint(!!(cqe.flags & RNIC_CQE_INVALIDATED), ==,
                        kind_invalidates(send_kinds[i]));
        g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==,
                        !kind_invalidates(send_kinds[i]));
    }
    s = right_segment(c, WIRE_WRITE);
    s.payload = (uint8_t *)"written!";
    put_reserved(c, s);
    s = right_segment(c, WIRE_READ_REQUEST);
    s.payload = header;
    stl_be_p(header + 12, 8);
    stl_be_p(header + 16, c->mr.stag);
    stq_be_p(header + 20, c->mr.va);
    put_reserved(c, s);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    g_assert_cmpmem(got, 8, "written!", 8);
    connection_post(c, RNIC_SQ_RDMA_READ, 9, 64, 8);
    wire_get_read_request(c->peer, 1, &read);
    s = right_segment(c, WIRE_READ_RESPONSE);
    s.to = read.sink_to;
    s.payload = (uint8_t *)"response";
    put_reserved(c, s);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(c->r, c->mr.stag).valid, ==, 1);
    rnic_expect_no_async(c->r);
    /* Of a Terminate the 13 bits of its own header as well. */
    s = right_segment(c, WIRE_TERMINATE);
    s.payload = (uint8_t *)"\x02\xff\x1f\xff";
    put_reserved(c, s);
    aeqe = rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, 0x02ff);
    wire_expect_end(c->peer);
    g_assert_cmpint(stag_query_mr(c->r, c->mr.stag).valid, ==, 1);
    connection_free(c);
    rnic_shows("R4.1-7 R4.1-8 R4.8-5");
}

/* What the peer says of its sink comes back, whatever the device knows by it. */
static void test_sinks(void)
{
    static const uint64_t sink_to[] = {
        0, 1, 0xfffff001, 0xffffffffffff0001,
    };
    Connection *c = connection_new(NULL);
    uint32_t sinks[] = { 0, 1, 0xffffffff, STAG_UNKNOWN, c->mr.stag,
                         c->mr.stag ^ 1 };
    g_autofree uint8_t *data = g_malloc(20000);
    g_autofree uint8_t *got = g_malloc(20000);

    rnic_pattern(data, 20000, 3);
    connection_fill(c, 3, data, 20000);
    for (unsigned i = 0; i < G_N_ELEMENTS(sinks); i++) {
        for (unsigned k = 0; k < G_N_ELEMENTS(sink_to); k++) {
            wire_put_read_request(c->peer, &(WireRead) {
                .sink_stag = sinks[i], .sink_to = sink_to[k], .size = 20000,
                .source_stag = c->mr.stag, .source_to = c->mr.va + 3 });
            g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE,
                                             sinks[i], sink_to[k], got,
                                             20000), ==, 20000);
            g_assert_cmpmem(got, 20000, data, 20000);
        }
    }
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("R4.4-2 R4.4-3");
}

/* ------------------------------------------------------------------- Sends */

/* Each kind is refused with the header that it had, and with no other. */
static void test_bad_send_of_each_kind(void)
{
    enum { QUEUE, NO_RECEIVE, GAP, OFFSET, TOO_LONG, ERRORS };
    static const uint16_t codes[] = { 0x1201, 0x1202, 0x1203, 0x1204, 0x1205 };
    Connection *c = connection_prepare(&stag_options);

    for (unsigned i = 0; i < G_N_ELEMENTS(send_kinds); i++) {
        for (int error = 0; error < ERRORS; error++) {
            WireSegment s = right_segment(c, send_kinds[i]);
            uint8_t ulpdu[64];
            WireTerminate t;

            g_test_message("opcode %u, code %x", s.opcode, codes[error]);
            connection_establish(c, &stag_options);
            if (error != NO_RECEIVE) {
                connection_recv(c, 1, 0, error == TOO_LONG ? 7 : 8);
            }
            s.stag = kind_invalidates(s.opcode) ? c->mr.stag : 0;
            s.qn = error == QUEUE ? 7 : 0;
            s.msn = error == GAP ? 2 : 1;
            s.mo = error == OFFSET ? 8 : 0;
            wire_encode_segment(&s, ulpdu);
            wire_put_segment(c->peer, &s);
            t = wire_expect_terminate(c->peer, codes[error]);
            g_assert_cmphex(t.flags, ==, 0xc0);
            g_assert_cmpuint(t.segment_length, ==, 18 + 8);
            g_assert_cmpmem(t.ddp, t.ddp_length, ulpdu, 18);
            /* It did not get as far as its STag. */
            g_assert_cmpint(stag_query_mr(c->r, c->mr.stag).valid, ==, 1);
            if (error != NO_RECEIVE) {
                rnic_expect_cqe(c->r, &c->recv_cq, 1,
                                error == TOO_LONG ? RNIC_WC_MESSAGE_TOO_LONG
                                                  : RNIC_WC_FLUSHED);
            }
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("R5.3-6 R7.1-3");
}

/* A Send of any kind tells that the Writes before it are there. */
static void test_send_tells_of_writes(void)
{
    Connection *c = connection_new(&stag_options);
    uint8_t data[5000], got[5000];

    c->peer->segment_size = 1000;
    for (unsigned round = 0; round < 40; round++) {
        uint8_t kind = send_kinds[round % 4];
        StagRegion region = stag_region(c->r, 1);

        stag_register(c->r, &region);
        rnic_pattern(data, sizeof(data), round);
        connection_recv(c, round, 100000, 16);
        wire_put_write(c->peer, c->mr.stag, c->mr.va, data, 4000);
        wire_put_write(c->peer, c->mr.stag, c->mr.va + 4000, data + 4000,
                       1000);
        wire_put_send(c->peer, kind, kind_invalidates(kind) ? region.stag : 0,
                      data, 16);
        rnic_expect_cqe(c->r, &c->recv_cq, round, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        connection_peek(c, 100000, got, 16);
        g_assert_cmpmem(got, 16, data, 16);
        stag_dealloc(c->r, region.stag);
    }
    connection_free(c);
    rnic_shows("R5.1-6 R5.5-4");
}

/* Neither written nor read, nor valid again, until its owner registers it anew. */
static void test_invalidated(void)
{
    Connection *c = connection_new(&stag_options);

    for (int se = 0; se < 2; se++) {
        uint8_t kind = se ? WIRE_SEND_SE_INVALIDATE : WIRE_SEND_INVALIDATE;
        StagRegion region = stag_region(c->r, 1);
        uint8_t got[4];

        stag_register(c->r, &region);
        stag_peer_writes(c, region.stag, region.va, "good", 4);
        /* Once more is allowed, and changes nothing. */
        for (int i = 0; i < 2; i++) {
            connection_recv(c, i, 0, 8);
            wire_put_send(c->peer, kind, region.stag, "payload!", 8);
            rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
            g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 0);
        }
        stag_peer_write_refused(c, region.stag, region.va, 4, 0x1100);
        stag_peer_read_refused(c, region.stag, region.va, 4, 0x0100);
        rnic_mem_read(c->r, region.bus[0], got, 4);
        g_assert_cmpmem(got, 4, "good", 4);
        g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 0);
        g_assert_cmpuint(stag_try_reregister(c->r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        stag_peer_reads(c, region.stag, region.va, got, 4);
        g_assert_cmpmem(got, 4, "good", 4);
        stag_peer_writes(c, region.stag, region.va, "anew", 4);
    }
    connection_free(c);
    rnic_shows("R1.2-1 R5.3-12 R7.2-4");
}

/* ------------------------------------------------------------------- Reads */

/* IRD requests, none of which can be answered yet: all are taken, in order. */
static void test_ird_pending(void)
{
    enum { IRD = 8 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .ird = IRD, .ord = 2 });
    g_autofree uint8_t *data = g_malloc(LARGE);
    g_autofree uint8_t *got = g_malloc(LARGE);
    RnicMr mr;

    mr = large_mr(c, data);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < IRD; i++) {
            wire_put_read_request(c->peer, &(WireRead) {
                .sink_stag = i, .size = i ? (IRD - i) * 1000 : LARGE,
                .source_stag = mr.stag, .source_to = mr.va + i * 64000 });
            if (i == 0) {
                /* From here on nothing fits. */
                g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
            }
        }
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
        for (unsigned i = 0; i < IRD; i++) {
            uint32_t size = i ? (IRD - i) * 1000 : LARGE;

            g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, i, 0,
                                             got, LARGE), ==, size);
            g_assert_cmpmem(got, size, data + i * 64000, size);
        }
        wire_expect_silence(c->peer);
    }
    connection_free(c);
    rnic_shows("R5.2.1-5 R5.2.2-2 R5.2.2-5 R5.5-17 R6.1-2");
}

/* The fence holds until the last of the Reads before it is complete. */
static void test_fence_of_many(void)
{
    enum { READS = 3 };
    static const uint8_t opcodes[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE };
    Connection *c = connection_new(NULL);
    uint8_t data[16] = { 7 }, got[16];
    uint32_t msn = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        RnicWr wr = connection_wr(c, opcodes[i], READS, 0, 9);
        WireRead reads[READS];

        for (unsigned k = 0; k < READS; k++) {
            connection_post(c, RNIC_SQ_RDMA_READ, k, k * 16, 16);
            wire_get_read_request(c->peer, ++msn, &reads[k]);
        }
        wr.flags |= RNIC_WQE_READ_FENCE;
        rnic_post_send(c->r, &c->qp, &wr);
        for (unsigned k = 0; k < READS; k++) {
            wire_expect_silence(c->peer);
            rnic_expect_no_cqe(c->r, &c->send_cq);
            wire_put_read_response(c->peer, reads[k].sink_stag,
                                   reads[k].sink_to, data, 16);
            rnic_expect_cqe(c->r, &c->send_cq, k, RNIC_WC_SUCCESS);
        }
        if (opcodes[i] == RNIC_SQ_SEND) {
            wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
        } else {
            connection_get_write(c, 0, got, sizeof(got));
        }
        rnic_expect_cqe(c->r, &c->send_cq, READS, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("R5.5-9");
}

/* ----------------------------------------------------------------- streams */

/* Numbered work of three kinds on @c, in one go: it goes out in order. */
static void check_mixed(Connection *c)
{
    enum { COUNT = 60 };
    static const uint8_t kinds[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE,
                                     RNIC_SQ_RDMA_READ };
    uint8_t got[COUNT + 1];
    uint32_t sends = 0, reads = 0;
    WireRead read;

    for (unsigned i = 0; i < COUNT; i++) {
        RnicWr wr = connection_wr(c, kinds[i % 3], i, 0, i + 1);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        wr.remote_to = i;
        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    rnic_ring_sq(c->r, &c->qp);
    for (unsigned i = 0; i < COUNT; i++) {
        if (i % 3 == 0) {
            g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, ++sends, got,
                                           COUNT), ==, i + 1);
        } else if (i % 3 == 1) {
            g_assert_cmpuint(connection_get_write(c, i, got, COUNT), ==, i + 1);
        } else {
            wire_get_read_request(c->peer, ++reads, &read);
            g_assert_cmpuint(read.source_to, ==, i);
            g_assert_cmpuint(read.size, ==, i + 1);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to, got,
                                   read.size);
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
}

/*
 * Of one stream the peer takes nothing: what is on it is not complete, and the other
 * stream goes on. Then it takes all: no octet is missing.
 */
static void test_stalled_stream(void)
{
    const ConnectionOptions options = { .sq_depth = 256 };
    Connection *a = connection_new(&options);
    Connection *b = connection_prepare_second(a, &options);
    RnicWr wr = { .flags = RNIC_WQE_SIGNALED, .num_sge = 1 };
    g_autofree uint8_t *data = g_malloc(LARGE);
    g_autofree uint8_t *got = g_malloc(LARGE);
    RnicMr mr;

    connection_establish(b, &options);
    mr = large_mr(a, data);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    for (int is_write = 0; is_write < 2; is_write++) {
        wr.opcode = is_write ? RNIC_SQ_RDMA_WRITE : RNIC_SQ_SEND;
        wr.remote_stag = is_write ? CONNECTION_REMOTE_STAG : 0;
        wr.wr_id = 1000 + is_write;
        rnic_post_send(a->r, &a->qp, &wr);
        if (!is_write) {
            check_mixed(b);
        }
        rnic_settle(a->r);
        rnic_expect_no_cqe(a->r, &a->send_cq);
        g_assert_cmpuint(is_write ? connection_get_write(a, 0, got, LARGE)
                                  : wire_get_send(a->peer, WIRE_SEND, 1, got,
                                                  LARGE), ==, LARGE);
        g_assert_cmpmem(got, LARGE, data, LARGE);
        rnic_expect_cqe(a->r, &a->send_cq, 1000 + is_write, RNIC_WC_SUCCESS);
    }
    connection_free_second(b);
    connection_free(a);
    rnic_shows("R1.1-2 R5.5-11");
}

/* Octets that the device has given to the host's socket; it is stopped. */
static uint64_t octets_of_socket(WirePeer *peer)
{
    static uint8_t octets[1024 * 1024];
    uint64_t sum = 0;
    ssize_t n;

    for (unsigned silent = 0; silent < 20; silent++) {
        while ((n = recv(peer->fd, octets, sizeof(octets), MSG_DONTWAIT)) > 0) {
            sum += n;
            silent = 0;
        }
        g_usleep(10 * 1000);
    }
    return sum;
}

/*
 * The peer takes nothing: of the Sends as many are complete as the socket and the
 * device's output for it have whole.
 */
static void test_complete_by_llp(void)
{
    enum { COUNT = 512, SIZE = 64 * 1024, OUTPUT = 136 * 1024 };
    const ConnectionOptions options = { .sq_depth = COUNT };
    Connection *c = connection_new(&options);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1 };
    g_autofree uint8_t *data = g_malloc(LARGE);
    RnicMr mr = large_mr(c, data);
    uint64_t complete = 0;
    struct rnic_cqe cqe;

    for (unsigned i = 0; i < COUNT; i++) {
        wr.wr_id = i;
        wr.sge[0] = rnic_sge(&mr, i * SIZE % LARGE, SIZE);
        rnic_post_send(c->r, &c->qp, &wr);
    }
    rnic_settle(c->r);
    while (rnic_cq_poll(c->r, &c->send_cq, &cqe)) {
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        complete += SIZE;
    }
    g_assert_cmpuint(complete, >, 0);
    g_assert_cmpuint(complete, <, COUNT * SIZE);
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'stop' }");
    g_assert_cmpuint(complete, <=, octets_of_socket(c->peer) + OUTPUT);
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'cont' }");
    connection_free(c);
    rnic_shows("R5.5-11");
}

/*
 * Sends wait for a peer that takes nothing, and then it asks for a Read: the response is
 * not behind all of them.
 */
static void test_response_between_sends(void)
{
    enum { COUNT = 512, SIZE = 64 * 1024 };
    const ConnectionOptions options = { .sq_depth = COUNT };
    Connection *c = connection_new(&options);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };
    g_autofree uint8_t *data = g_malloc(LARGE);
    RnicMr mr = large_mr(c, data);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    unsigned sends = 0, behind = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        wr.sge[0] = rnic_sge(&mr, i * SIZE % LARGE, SIZE);
        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    /* The device knows of all of them when it looks at the queue. */
    rnic_ring_sq(c->r, &c->qp);
    rnic_settle(c->r);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 8, .source_stag = mr.stag, .source_to = mr.va });
    while (sends < COUNT) {
        WireSegment segment;

        wire_get_segment(c->peer, &segment);
        g_free(segment.payload);
        sends += segment.opcode == WIRE_SEND && segment.last;
        if (segment.opcode == WIRE_READ_RESPONSE) {
            behind = COUNT - sends;
        }
    }
    g_assert_cmpuint(behind, >, 0);
    connection_free(c);
}

/* A Terminate comes while nearly all of the queue has not even begun. */
static void test_terminate_flushes_queue(void)
{
    enum { COUNT = 100 };
    Connection *c = connection_new(&(ConnectionOptions) { .sq_depth = 256 });
    g_autofree uint8_t *data = g_malloc(LARGE);
    RnicMr mr = large_mr(c, data);
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1,
                  .remote_stag = CONNECTION_REMOTE_STAG };
    static const uint8_t kinds[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE,
                                     RNIC_SQ_RDMA_READ };
    WireRead read;

    connection_post(c, RNIC_SQ_RDMA_READ, 0, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    for (unsigned i = 2; i < COUNT; i++) {
        connection_post(c, kinds[i % 3], i, 0, 8);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_put_terminate(c->peer, 0x0207);
    rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    wire_close(c->peer);
    c->peer = NULL;
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_FLUSHED);
    }
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
    rnic_shows("R5.4-5 R6.2.1-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/rdmap/versions", test_versions);
    qtest_add_func("rnic/rdmap/reserved", test_reserved);
    qtest_add_func("rnic/rdmap/sinks", test_sinks);
    qtest_add_func("rnic/rdmap/bad-send-of-each-kind",
                   test_bad_send_of_each_kind);
    qtest_add_func("rnic/rdmap/send-tells-of-writes",
                   test_send_tells_of_writes);
    qtest_add_func("rnic/rdmap/invalidated", test_invalidated);
    qtest_add_func("rnic/rdmap/ird-pending", test_ird_pending);
    qtest_add_func("rnic/rdmap/fence-of-many", test_fence_of_many);
    qtest_add_func("rnic/rdmap/complete-by-llp", test_complete_by_llp);
    qtest_add_func("rnic/rdmap/response-between-sends",
                   test_response_between_sends);
    qtest_add_func("rnic/rdmap/stalled-stream", test_stalled_stream);
    qtest_add_func("rnic/rdmap/terminate-flushes-queue",
                   test_terminate_flushes_queue);
    return g_test_run();
}
