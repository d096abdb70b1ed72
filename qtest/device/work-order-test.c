/*
 * rnic: work of every kind on one send queue: what goes out when, what completes when,
 * what a fence holds, what completes without a word
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

/* ------------------------------------------------- messages that are no Reads */

typedef struct Message {
    uint8_t opcode, flags, sent;
} Message;

static const Message messages[] = {
    { RNIC_SQ_SEND, 0, WIRE_SEND },
    { RNIC_SQ_SEND, RNIC_WQE_SOLICITED, WIRE_SEND_SE },
    { RNIC_SQ_SEND_INVALIDATE, 0, WIRE_SEND_INVALIDATE },
    { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED, WIRE_SEND_SE_INVALIDATE },
    { RNIC_SQ_RDMA_WRITE, 0, WIRE_WRITE },
};

static void store_message(Connection *c, const Message *message,
                          uint64_t wr_id, uint8_t flags, uint32_t length)
{
    RnicWr wr = connection_wr(c, message->opcode, wr_id, 0, length);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    wr.flags = message->flags | flags;
    if (message->opcode == RNIC_SQ_SEND_INVALIDATE) {
        wr.invalidate_stag = 0x1234;
    }
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

static void expect_message(Connection *c, const Message *message,
                           uint32_t length)
{
    WireSegment segment;

    wire_get_segment(c->peer, &segment);
    g_assert_cmpint(segment.opcode, ==, message->sent);
    g_assert_cmpuint(segment.length, ==, length);
    g_assert_true(segment.last);
    g_free(segment.payload);
}

/* --------------------------------------------------------------------- Reads */

enum { READ_LENGTH = 16 };

static void store_read(Connection *c, uint64_t wr_id, uint8_t flags,
                       uint32_t length)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, wr_id, 1000, length);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    wr.flags = flags;
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

static void store_read_invalidate(Connection *c, uint64_t wr_id, uint8_t flags,
                                  uint32_t length, const StagRegion *sink)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = flags, .wr_id = wr_id,
                  .remote_stag = CONNECTION_REMOTE_STAG };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    wr.sge[0].stag = cpu_to_le32(sink->stag);
    wr.sge[0].to = cpu_to_le64(sink->va);
    wr.sge[0].length = cpu_to_le32(length);
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

/* The octets of a response up to @end, of those asked for. */
static void respond(Connection *c, const WireRead *read, uint32_t begin,
                    uint32_t end)
{
    uint8_t data[READ_LENGTH] = "response";
    WireSegment segment = {
        .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = read->sink_stag,
        .to = read->sink_to + begin, .length = end - begin,
        .last = end == read->size, .payload = data + begin,
    };

    wire_put_segment(c->peer, &segment);
}

/* ------------------------------------------------------------------ Read Fence */

static void assert_held(Connection *c)
{
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
}

/*
 * Two Reads, then three messages of a kind, the second one fenced: the first goes out
 * at once, the others when both responses are whole, and by themselves.
 */
static void check_fence(Connection *c, const Message *message, uint32_t length,
                        uint32_t *msn)
{
    StagRegion sink = stag_region(c->r, 1);
    WireRead reads[2];

    stag_register(c->r, &sink);
    store_read(c, 0, RNIC_WQE_SIGNALED, length);
    store_read_invalidate(c, 1, RNIC_WQE_SIGNALED, length, &sink);
    store_message(c, message, 2, RNIC_WQE_SIGNALED, 5);
    store_message(c, message, 3, RNIC_WQE_SIGNALED | RNIC_WQE_READ_FENCE, 6);
    store_message(c, message, 4, RNIC_WQE_SIGNALED, 7);
    rnic_ring_sq(c->r, &c->qp);
    for (int i = 0; i < 2; i++) {
        wire_get_read_request(c->peer, ++*msn, &reads[i]);
        g_assert_cmpuint(reads[i].size, ==, length);
    }
    expect_message(c, message, 5);
    assert_held(c);
    respond(c, &reads[0], 0, length);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    assert_held(c);
    if (length) {
        respond(c, &reads[1], 0, length - 1);
        assert_held(c);
        g_assert_cmpint(stag_query_mr(c->r, sink.stag).valid, ==, 1);
    }
    respond(c, &reads[1], length ? length - 1 : 0, length);
    expect_message(c, message, 6);
    /* What the fence waits for is the whole Read, its invalidation as well. */
    g_assert_cmpint(stag_query_mr(c->r, sink.stag).valid, ==, 0);
    expect_message(c, message, 7);
    for (int i = 1; i < 5; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    stag_dealloc(c->r, sink.stag);
}

static void test_read_fence(void)
{
    Connection *c = connection_new(&stag_options);
    uint32_t msn = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        check_fence(c, &messages[i], READ_LENGTH, &msn);
        check_fence(c, &messages[i], 0, &msn);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("V8.2.2-14 V8.2.2.2-1 V8.2.2.2-2 V8.2.2.2-3");
}

/* ------------------------------------------------------------------ every kind */

enum { KINDS = G_N_ELEMENTS(messages) + 5, BOUND = 8 };

/* What the memory operations of store_every_kind() are about. */
typedef struct Stags {
    StagRegion sink, fast;
    uint32_t mw;
} Stags;

static Stags make_stags(Connection *c)
{
    Stags s = { .sink = stag_region(c->r, 1), .fast = stag_region(c->r, 1) };

    stag_register(c->r, &s.sink);
    s.fast.stag = stag_alloc(c->r, c->r->pd, 1, s.fast.key, true);
    s.mw = stag_alloc_mw(c->r, c->r->pd, 7);
    return s;
}

static void free_stags(Connection *c, const Stags *s)
{
    stag_dealloc(c->r, s->mw);
    stag_dealloc(c->r, s->fast.stag);
    stag_dealloc(c->r, s->sink.stag);
}

static void store_invalidate(Connection *c, uint64_t wr_id, uint8_t flags,
                             uint32_t stag)
{
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE, .flags = flags,
                  .wr_id = wr_id, .invalidate_stag = stag };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

/* WRs @first to @first + KINDS - 1; nothing begins yet. */
static void store_every_kind(Connection *c, const Stags *s, uint64_t first,
                             uint8_t flags)
{
    StagBind bind = stag_window(s->mw, &s->fast, s->fast.va, BOUND,
                                RNIC_ACCESS_REMOTE_READ);
    uint64_t wr_id = first;

    store_read(c, wr_id++, flags, READ_LENGTH);
    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        store_message(c, &messages[i], wr_id++, flags, 10 + i);
    }
    stag_store_fast_register(c, wr_id++, flags, &s->fast);
    stag_store_bind(c, wr_id++, flags, &bind);
    store_read_invalidate(c, wr_id++, flags, READ_LENGTH, &s->sink);
    store_invalidate(c, wr_id++, flags, s->mw);
    g_assert_cmpuint(wr_id - first, ==, KINDS);
}

/* What of that goes out, in this order: two Reads are waiting then. */
static void expect_every_kind(Connection *c, WireRead reads[2], uint32_t *msn)
{
    wire_get_read_request(c->peer, ++*msn, &reads[0]);
    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        expect_message(c, &messages[i], 10 + i);
    }
    wire_get_read_request(c->peer, ++*msn, &reads[1]);
}

/* Out in the order of posts, and complete in it, whatever is long done. */
static void test_every_kind(void)
{
    Connection *c = connection_new(&stag_options);
    uint32_t msn = 0;

    for (int round = 0; round < 4; round++) {
        Stags s = make_stags(c);
        WireRead reads[2];

        store_every_kind(c, &s, 0, RNIC_WQE_SIGNALED);
        store_message(c, &messages[0], KINDS, RNIC_WQE_SIGNALED, 20);
        rnic_ring_sq(c->r, &c->qp);
        expect_every_kind(c, reads, &msn);
        expect_message(c, &messages[0], 20);
        /* All is done but for the two Reads. */
        assert_held(c);
        respond(c, &reads[0], 0, READ_LENGTH);
        for (unsigned i = 0; i < KINDS - 2; i++) {
            rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        }
        assert_held(c);
        respond(c, &reads[1], 0, READ_LENGTH);
        for (unsigned i = KINDS - 2; i <= KINDS; i++) {
            rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        }
        assert_held(c);
        free_stags(c, &s);
    }
    connection_free(c);
    rnic_shows("V8.2.2-1 V8.2.2-2");
}

/* The one WR that asks for a completion has one, and frees the slots of all. */
static void test_unsignaled(void)
{
    ConnectionOptions options = stag_options;
    uint32_t msn = 0;
    Connection *c;

    options.sq_depth = 32;      /* units; no multiple of what a round takes */
    c = connection_new(&options);
    for (unsigned round = 0; round < 20; round++) {
        Stags s = make_stags(c);
        struct rnic_cqe cqe;
        WireRead reads[2];

        store_every_kind(c, &s, 100, 0);
        store_message(c, &messages[0], round, RNIC_WQE_SIGNALED, 20);
        rnic_ring_sq(c->r, &c->qp);
        expect_every_kind(c, reads, &msn);
        expect_message(c, &messages[0], 20);
        for (int i = 0; i < 2; i++) {
            respond(c, &reads[i], 0, READ_LENGTH);
        }
        cqe = rnic_expect_cqe(c->r, &c->send_cq, round, RNIC_WC_SUCCESS);
        g_assert_cmpint(cqe.opcode, ==, RNIC_SQ_SEND);
        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, c->qp.sq_producer);
        assert_held(c);
        g_assert_cmpint(stag_query_mr(c->r, s.sink.stag).valid, ==, 0);
        g_assert_cmpint(stag_query_mr(c->r, s.fast.stag).valid, ==, 1);
        g_assert_cmpint(stag_query_mw(c->r, s.mw).valid, ==, 0);
        free_stags(c, &s);
    }
    connection_free(c);
    rnic_shows("V8.1.3.1-1 V8.1.3.1-6 V8.2.4-3");
}

/*
 * Without a completion wanted, each kind fails with one all the same, and what is
 * behind it is flushed.
 */
static void test_unsignaled_fails(void)
{
    Connection *c = connection_new(&stag_options);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        Stags s = make_stags(c);
        StagBind bind = stag_window(s.mw, &s.sink, s.sink.va - 1, BOUND,
                                    RNIC_ACCESS_REMOTE_READ);
        unsigned operation = kind - G_N_ELEMENTS(messages);

        if (kind < G_N_ELEMENTS(messages)) {
            store_message(c, &messages[kind], 7, 0, CONNECTION_MR_SIZE + 1);
        } else if (operation == 0) {
            store_read(c, 7, 0, CONNECTION_MR_SIZE);
        } else if (operation == 1) {
            s.sink.va--;
            store_read_invalidate(c, 7, 0, READ_LENGTH, &s.sink);
        } else if (operation == 2) {
            stag_store_fast_register(c, 7, 0, &s.sink);     /* it is Valid */
        } else if (operation == 3) {
            stag_store_bind(c, 7, 0, &bind);
        } else {
            store_invalidate(c, 7, 0, STAG_UNKNOWN);
        }
        store_message(c, &messages[0], 8, 0, 4);
        rnic_ring_sq(c->r, &c->qp);
        wire_expect_terminate(c->peer, 0);
        RNIC_UNTIL(c->r, rnic_qp_state(c->r, &c->qp) != RNIC_QPS_RTS);
        {
            struct rnic_cqe cqe;

            rnic_cq_wait(c->r, &c->send_cq, &cqe);
            g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, 7);
            g_assert_cmpint(cqe.status, !=, RNIC_WC_SUCCESS);
            g_assert_cmpint(cqe.status, !=, RNIC_WC_FLUSHED);
        }
        rnic_expect_cqe(c->r, &c->send_cq, 8, RNIC_WC_FLUSHED);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        stag_reconnect(c);
        free_stags(c, &s);
    }
    connection_free(c);
    rnic_shows("V8.1.3.1-3 V8.1.3.1-4");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/work-order/read-fence", test_read_fence);
    qtest_add_func("rnic/work-order/every-kind", test_every_kind);
    qtest_add_func("rnic/work-order/unsignaled", test_unsignaled);
    qtest_add_func("rnic/work-order/unsignaled-fails", test_unsignaled_fails);
    return g_test_run();
}
