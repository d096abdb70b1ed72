/*
 * rnic: what stops, what stays and what comes back when a QP leaves RTS
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

static void to_state(Connection *c, uint8_t state)
{
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                     RNIC_ST_OK);
}

/* A Write of @length octets that the peer sends though nobody may want it. */
static void try_write(Connection *c, uint64_t offset, const void *data,
                      uint32_t length)
{
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va + offset,
        .length = length, .payload = (uint8_t *)data,
    };

    wire_try_put_segment(c->peer, &segment);
}

/* Messages both ways. @msn: of those that the device has sent. */
static void assert_serves(Connection *c, uint32_t *msn)
{
    uint8_t got[8];

    connection_recv(c, 0x5e, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "neighbor", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 0x5e, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 0x5f, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, ++*msn, got, 8);
    g_assert_cmpmem(got, 8, "neighbor", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0x5f, RNIC_WC_SUCCESS);
}

/* ------------------------------------------------------------ posts across */

enum { EACH = 5 };

static void post_some(Connection *c, unsigned from, bool sends)
{
    for (unsigned i = from; i < from + EACH; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_SEND, i, 0, 4);

        wr.flags |= RNIC_WQE_READ_FENCE;
        if (sends) {
            rnic_post_send(c->r, &c->qp, &wr);
        }
        connection_recv(c, 100 + i, 0, 4);
    }
}

static void expect_all_flushed(Connection *c, unsigned count, bool sends)
{
    for (unsigned i = 0; i < count; i++) {
        if (sends) {
            rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_FLUSHED);
        }
        rnic_expect_cqe(c->r, &c->recv_cq, 100 + i, RNIC_WC_FLUSHED);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
}

/*
 * Work is posted before, in and behind Terminate, or Error: each WR comes back
 * flushed, once, and none was done.
 */
static void test_posts_across_error(void)
{
    Connection *c = connection_prepare(NULL);
    WireSegment segment;
    WireRead read;

    for (int terminate = 0; terminate < 2; terminate++) {
        connection_establish(c, NULL);
        connection_post(c, RNIC_SQ_RDMA_READ, 0x99, 0, 4);
        wire_get_read_request(c->peer, 1, &read);
        post_some(c, 0, true);
        to_state(c, terminate ? RNIC_QPS_TERMINATE : RNIC_QPS_ERROR);
        post_some(c, EACH, true);
        if (terminate) {
            wire_get_segment(c->peer, &segment);
            g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
            g_free(segment.payload);
            post_some(c, 2 * EACH, true);
            wire_shutdown(c->peer);
            rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        } else {
            rnic_settle(c->r);
            post_some(c, 2 * EACH, true);
        }
        wire_expect_end(c->peer);
        rnic_expect_cqe(c->r, &c->send_cq, 0x99, RNIC_WC_FLUSHED);
        expect_all_flushed(c, 3 * EACH, true);
        post_some(c, 0, true);
        expect_all_flushed(c, EACH, true);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.3-6 V6.2.4-5 V9.3.1.1-23 V9.3.1.2-5");
}

/* Receives, across Closing and into Idle; then Sends into a Closing. */
static void test_posts_across_closing(void)
{
    Connection *c = connection_prepare(NULL);

    connection_establish(c, NULL);
    post_some(c, 0, false);
    to_state(c, RNIC_QPS_CLOSING);
    post_some(c, EACH, false);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    post_some(c, 2 * EACH, false);
    rnic_settle(c->r);
    /* What was accepted in Idle waits there, and is not lost either. */
    to_state(c, RNIC_QPS_ERROR);
    expect_all_flushed(c, 3 * EACH, false);
    connection_recycle(c);

    connection_establish(c, NULL);
    post_some(c, 0, false);
    to_state(c, RNIC_QPS_CLOSING);
    for (unsigned i = 0; i < EACH; i++) {
        rnic_expect_cqe(c->r, &c->recv_cq, 100 + i, RNIC_WC_FLUSHED);
    }
    post_some(c, 0, true);
    rnic_expect_async(c->r, RNIC_AE_BAD_CLOSE, c->qp.number);
    post_some(c, EACH, true);
    expect_all_flushed(c, 2 * EACH, true);
    wire_expect_end(c->peer);
    connection_free(c);
    rnic_shows("V6.2.5-3 V9.3.1.1-23 V9.3.1.2-5");
}

/* ------------------------------------------------------------- what stops */

/* Left alone it stays in RTS; an error takes it to Error in the end. */
static void test_left_alone(void)
{
    Connection *c = connection_new(NULL);
    uint32_t msn = 0;

    for (int i = 0; i < 3; i++) {
        rnic_pass_time(c->r, 50);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
        rnic_expect_no_async(c->r);
        assert_serves(c, &msn);
    }
    wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    wire_expect_terminate(c->peer, 0x1100);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    connection_free(c);
    rnic_shows("V6.2-3");
}

/*
 * In the middle of a flood: once the command is answered, or an error of the QP's own
 * has led to Terminate, not an octet changes.
 */
static void test_flood_stops(void)
{
    enum { SIZE = 1024, ROUNDS = CONNECTION_MR_SIZE / SIZE };
    enum { ERROR, TERMINATE, OWN_ERROR, COUNT };
    g_autofree uint8_t *before = g_malloc(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);
    Connection *c = connection_prepare(NULL);
    uint8_t data[SIZE];

    for (int kind = 0; kind < COUNT; kind++) {
        connection_establish(c, NULL);
        rnic_mem_fill(c->r, c->mr.bus, 0, CONNECTION_MR_SIZE);
        memset(data, 0xab, SIZE);
        for (int i = 0; i < ROUNDS; i++) {
            try_write(c, i * SIZE, data, SIZE);
        }
        if (kind == OWN_ERROR) {
            RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 8);

            wr.sge[0].stag = cpu_to_le32(0x77777700);
            rnic_post_send(c->r, &c->qp, &wr);
            rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
        } else {
            to_state(c, kind == ERROR ? RNIC_QPS_ERROR : RNIC_QPS_TERMINATE);
        }
        connection_peek(c, 0, before, CONNECTION_MR_SIZE);
        memset(data, 0xcd, SIZE);
        for (int i = 0; i < ROUNDS; i++) {
            try_write(c, i * SIZE, data, SIZE);
        }
        rnic_settle(c->r);
        connection_peek(c, 0, after, CONNECTION_MR_SIZE);
        g_assert_cmpmem(after, CONNECTION_MR_SIZE, before,
                        CONNECTION_MR_SIZE);
        g_assert_cmpuint(rnic_query_qp(c->r, &c->qp).llp_stream == 0, ==,
                         kind == ERROR);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.4-4");
}

/* ---------------------------------------------------- a segment half sent */

enum { LONG_WRITE = 32 * 1024 * 1024 };

/* A Write that the peer does not read, so that it stops somewhere. */
static void write_till_blocked(Connection *c, RnicMr *mr)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 1, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 7 };

    rnic_create_mr(c->r, mr, c->r->pd, LONG_WRITE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(mr, 0, LONG_WRITE);
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_settle(c->r);
}

/*
 * The source goes away: a segment that has begun is not damaged by that, since it was
 * copied whole before. It comes to its end, with a right CRC, and the Terminate begins
 * where another segment would.
 */
static void check_source_gone(void)
{
    static const ConnectionOptions options = { .crc = true };
    Connection *c = connection_new(&options);
    WireTerminate t;
    RnicMr mr;

    write_till_blocked(c, &mr);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG, mr.stag),
                     ==, RNIC_ST_OK);
    wire_skip_to_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, 0x0000);
    wire_expect_end(c->peer);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_INVALID_STAG);
    connection_free(c);
}

/* Octets up to the end of the stream, which is a reset. */
static GByteArray *get_till_reset(WirePeer *peer)
{
    GByteArray *got = g_byte_array_new();
    uint8_t octets[65536];
    ssize_t n;

    while ((n = recv(peer->fd, octets, sizeof(octets), 0)) > 0) {
        g_byte_array_append(got, octets, n);
    }
    g_assert_cmpint(n, ==, -1);
    g_assert_cmpint(errno, ==, ECONNRESET);
    return got;
}

/* Segments of the Write, the last of them cut; and no Terminate. */
static bool last_is_cut(const GByteArray *got)
{
    size_t at = 0;

    while (at + 3 <= got->len) {
        g_assert_cmphex(got->data[at + 2] & 0x80, ==, 0x80);    /* tagged */
        at += ROUND_UP(2 + lduw_be_p(got->data + at), 4) + 4;
    }
    return at != got->len;
}

/* What ends it in the middle of a segment: not an octet more, and a reset. */
static void check_cut(bool reset_device)
{
    bool cut = false;

    for (int i = 0; i < 5 && !cut; i++) {
        Connection *c = connection_new(NULL);
        GByteArray *got;
        RnicMr mr;

        write_till_blocked(c, &mr);
        if (reset_device) {
            rnic_reset(c->r);
        } else {
            to_state(c, RNIC_QPS_ERROR);
        }
        got = get_till_reset(c->peer);
        cut = last_is_cut(got);
        g_byte_array_unref(got);
        if (reset_device) {
            rnic_up(c->r);
        }
        connection_free(c);
    }
    g_assert_true(cut);
}

static void test_segment_begun(void)
{
    check_source_gone();
    check_cut(false);
    check_cut(true);
    rnic_shows("V6.4-3");
}

/* A Read Request each way and work are there: nothing of it is done any more. */
static void test_error_stops_all(void)
{
    enum { LARGE = 16 * 1024 * 1024 };
    Connection *c = connection_new(NULL);
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 1, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 7 };
    g_autofree uint8_t *octets = g_malloc(LARGE);
    uint64_t received = 0;
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    rnic_mem_fill(c->r, mr.bus, 0x11, LARGE);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = LARGE, .source_stag = mr.stag, .source_to = mr.va });
    rnic_settle(c->r);
    to_state(c, RNIC_QPS_ERROR);
    g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    /* Of what is in memory now nothing reaches the peer. */
    rnic_mem_fill(c->r, mr.bus, 0x22, LARGE);
    try_write(c, 0, "intruder", 8);
    rnic_settle(c->r);
    g_assert_cmphex(rnic_mem_read32(c->r, c->mr.bus), ==, 0);
    for (;;) {
        ssize_t n = recv(c->peer->fd, octets, LARGE, 0);

        if (n <= 0) {
            break;
        }
        received += n;
        g_assert_null(memmem(octets, n, "\x22\x22\x22\x22\x22\x22\x22\x22",
                             8));
    }
    g_assert_cmpuint(received, <, LARGE);
    connection_free(c);
    rnic_shows("V6.2.2.4-2");
}

/* The peer goes on sending behind its error: Terminate and FIN arrive, no reset. */
static void test_close_is_graceful(void)
{
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    uint8_t data[1000];
    uint32_t msn = 0;

    connection_establish(other, NULL);
    memset(data, 0x77, sizeof(data));
    wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    for (int i = 0; i < 100; i++) {
        try_write(c, 0, data, sizeof(data));
    }
    assert_serves(other, &msn);
    {
        WireTerminate t;

        wire_get_terminate(c->peer, &t);
        g_assert_cmphex(t.code, ==, 0x1100);
    }
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    for (int i = 0; i < 100; i++) {
        try_write(c, 0, data, sizeof(data));
    }
    rnic_settle(c->r);
    g_assert_cmphex(rnic_mem_read32(c->r, c->mr.bus), ==, 0);
    assert_serves(other, &msn);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    assert_serves(other, &msn);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.4-4 R6.2.1-4 R7-2");
}

/* ---------------------------------------------------------- what can be seen */

/* One's Terminate is the other's: the same octets, and whose they are. */
static void test_both_ends(void)
{
    Connection *a = connection_prepare(NULL);
    Connection *b = connection_prepare_second(a, NULL);

    for (int error = 0; error < 2; error++) {
        Connection *source = error ? b : a, *sink = error ? a : b;
        struct rnic_qp_attr sent, received;

        connection_pair(a, b);
        if (error) {
            RnicWr wr = connection_wr(a, RNIC_SQ_RDMA_WRITE, 1, 0, 8);

            wr.remote_stag = 0x77777700;
            rnic_post_send(a->r, &a->qp, &wr);
        } else {
            to_state(a, RNIC_QPS_TERMINATE);
        }
        rnic_wait_qp_state(a->r, &a->qp, RNIC_QPS_ERROR);
        rnic_wait_qp_state(a->r, &b->qp, RNIC_QPS_ERROR);
        sent = rnic_query_qp(a->r, &source->qp);
        received = rnic_query_qp(a->r, &sink->qp);
        g_assert_cmpint(sent.terminate_origin, ==, 1);
        g_assert_cmpint(received.terminate_origin, ==, 2);
        g_assert_cmpuint(sent.terminate_length, ==, error ? 20 : 4);
        g_assert_cmphex(lduw_be_p(sent.terminate), ==, error ? 0x1100 : 0);
        g_assert_cmpmem(sent.terminate, sent.terminate_length,
                        received.terminate, received.terminate_length);
        connection_recycle(a);
        connection_recycle(b);
    }
    connection_free_second(b);
    connection_free(a);
    rnic_shows("V6.2.2.3-2 V6.2.4-6 V6.6.2.5-3 V9.2.5.2-5");
}

/* Completions of before are there in whatever state the QP is polled. */
static void test_old_completions(void)
{
    static const uint8_t states[] = {
        RNIC_QPS_CLOSING, RNIC_QPS_TERMINATE, RNIC_QPS_ERROR, RNIC_QPS_IDLE,
    };
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(states); i++) {
        uint8_t got[4];

        connection_establish(c, NULL);
        connection_recv(c, 7, 0, 4);
        connection_post(c, RNIC_SQ_SEND, 8, 0, 4);
        wire_get_send(c->peer, WIRE_SEND, 1, got, 4);
        wire_put_send(c->peer, WIRE_SEND, 0, "done", 4);
        RNIC_UNTIL(c->r, (connection_peek(c, 0, got, 4),
                          memcmp(got, "done", 4) == 0));
        rnic_settle(c->r);
        if (states[i] == RNIC_QPS_IDLE) {
            to_state(c, RNIC_QPS_ERROR);
            RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE)
                             == RNIC_ST_OK);
        } else {
            to_state(c, states[i]);
        }
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, states[i]);
        rnic_expect_cqe(c->r, &c->recv_cq, 7, RNIC_WC_SUCCESS);
        rnic_expect_cqe(c->r, &c->send_cq, 8, RNIC_WC_SUCCESS);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, states[i]);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V8.2.4-2");
}

/*
 * Regions that the QP used: Valid as before, and another QP's to invalidate, or
 * anybody's to deallocate.
 */
static void test_regions_stay(void)
{
    Connection *c = connection_new(&stag_options);
    Connection *other = connection_prepare_second(c, &stag_options);
    StagRegion region = stag_region(c->r, 1), second = stag_region(c->r, 1);
    uint8_t got[4];

    connection_establish(other, &stag_options);
    stag_register(c->r, &region);
    stag_register(c->r, &second);
    stag_peer_writes(c, region.stag, region.va, "used", 4);
    stag_peer_writes(c, second.stag, second.va, "used", 4);
    to_state(c, RNIC_QPS_ERROR);
    g_assert_cmpint(stag_query_mr(c->r, second.stag).valid, ==, 1);
    stag_dealloc(c->r, second.stag);
    g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 1);
    stag_peer_reads(other, region.stag, region.va, got, 4);
    g_assert_cmpmem(got, 4, "used", 4);
    stag_peer_writes(other, region.stag, region.va, "more", 4);
    g_assert_cmpuint(stag_invalidate(other, region.stag), ==,
                     RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(c->r, region.stag).valid, ==, 0);
    stag_peer_write_refused(other, region.stag, region.va, 1, 0x1100);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.2.4-8");
}

/* Between two events a command about events fails: both come. */
static void test_events_not_lost(void)
{
    Connection *c = connection_new(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);

    connection_establish(other, NULL);
    sqe.create_eq.eq_class = RNIC_EQ_ASYNC;
    sqe.create_eq.depth = cpu_to_le32(16);
    sqe.create_eq.memory.pages = rnic_pages(c->r, rnic_alloc(c->r, 4096),
                                            4096);
    sqe.create_eq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    wire_expect_terminate(c->peer, 0x1100);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_EQ_IN_USE);
    sqe.create_eq.eq_class = 9;
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_EQ, 0x777777),
                     ==, RNIC_ST_INVALID_EQ);
    wire_put_write(other->peer, 0x77777700, 0, "x", 1);
    wire_expect_terminate(other->peer, 0x1100);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, other->qp.number);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V8.3.1-7 V9.4.2-1");
}

/* ------------------------------------------------------------------- floods */

/* More messages than receives: the stream's own end, and nobody else's. */
static void test_flood(void)
{
    enum { OTHERS = 3, RECEIVES = 4 };
    Connection *c = connection_new(NULL);
    Connection *others[OTHERS];

    for (int i = 0; i < OTHERS; i++) {
        others[i] = connection_prepare_second(c, NULL);
        connection_establish(others[i], NULL);
        for (int k = 0; k < RECEIVES; k++) {
            connection_recv(others[i], k, 8 * k, 8);
        }
    }
    connection_recv(c, 1, 0, 8);
    for (int i = 0; i < 5; i++) {
        wire_put_send(c->peer, WIRE_SEND, 0, "flooding", 8);
    }
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    wire_expect_terminate(c->peer, 0x1202);
    rnic_settle(c->r);
    for (int i = 0; i < OTHERS; i++) {
        rnic_expect_no_cqe(c->r, &others[i]->recv_cq);
        for (int k = 0; k < RECEIVES; k++) {
            wire_put_send(others[i]->peer, WIRE_SEND, 0, "12345678", 8);
            rnic_expect_cqe(c->r, &others[i]->recv_cq, k, RNIC_WC_SUCCESS);
        }
        g_assert_cmpint(rnic_qp_state(c->r, &others[i]->qp), ==,
                        RNIC_QPS_RTS);
        connection_free_second(others[i]);
    }
    connection_free(c);
    rnic_shows("V10.4.2-1");
}

/* An MSN from far ahead takes nothing from the S-RQ. */
static void test_far_msn(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    ConnectionOptions options = { };
    WireSegment s = {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 10001, .length = 4,
        .payload = (uint8_t *)"far!",
    };
    RnicSrq srq;
    Connection *c, *other;

    rnic_create_srq(r, &srq, &init);
    options.srq = &srq;
    c = connection_prepare_on(r, &options);
    other = connection_prepare_second(c, &options);
    for (int i = 0; i < 3; i++) {
        struct rnic_sge sge = rnic_sge(&c->mr, 8 * i, 8);

        rnic_post_srq_recv(r, &srq, i, 1, &sge);
    }
    connection_establish(c, &options);
    connection_establish(other, &options);
    wire_put_segment(c->peer, &s);
    wire_expect_terminate(c->peer, 0x1203);
    rnic_expect_async(r, RNIC_AE_RQ_MSN_GAP, c->qp.number);
    rnic_expect_no_cqe(r, &c->recv_cq);
    g_assert_cmpuint(rnic_mem_read32(r, srq.memory +
                                     offsetof(struct rnic_srq_record,
                                              consumer)), ==, 0);
    for (int i = 0; i < 3; i++) {
        wire_put_send(other->peer, WIRE_SEND, 0, "near", 4);
        rnic_expect_cqe(r, &other->recv_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V10.4.2-3");
}

/* A CQ as large as all its queues together never overflows. */
static void test_cq_for_all(void)
{
    enum { DEPTH = 16, CQE = 4 * DEPTH };
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicCq cq;
    Connection *each[2];
    ConnectionOptions options = {
        .cq = &cq, .sq_depth = DEPTH, .rq_depth = DEPTH };
    unsigned flushed = 0, good = 0;
    struct rnic_cqe cqe;

    rnic_create_cq(r, &cq, CQE, RNIC_NO_VECTOR);
    each[0] = connection_prepare_on(r, &options);
    options.pd = rnic_alloc_pd(r);
    each[1] = connection_prepare_second(each[0], &options);
    for (int i = 0; i < 2; i++) {
        connection_establish(each[i], &options);
        for (int k = 0; k < DEPTH; k++) {
            RnicWr wr = { .opcode = k < DEPTH / 2 ? RNIC_SQ_SEND
                                                  : RNIC_SQ_RDMA_READ,
                          .flags = RNIC_WQE_SIGNALED };

            rnic_post_send(r, &each[i]->qp, &wr);
            rnic_post_recv(r, &each[i]->qp, k, 0, NULL);
        }
        /* One more than there is room for. */
        for (int k = 0; k < DEPTH + 1; k++) {
            uint8_t ulpdu[64], fpdu[80];
            WireSegment s = {
                .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
                .rdmap_version = 1, .msn = k + 1 };
            size_t size = wire_encode_segment(&s, ulpdu);

            if (k < DEPTH || i == 0) {
                size = wire_encode_fpdu(each[i]->peer, ulpdu, size, fpdu);
                wire_put(each[i]->peer, fpdu, size);
            }
        }
    }
    rnic_wait_qp_state(r, &each[0]->qp, RNIC_QPS_TERMINATE);
    rnic_settle(r);
    to_state(each[1], RNIC_QPS_ERROR);
    rnic_settle(r);
    rnic_expect_async(r, RNIC_AE_RQ_MSN_RANGE, each[0]->qp.number);
    rnic_expect_no_async(r);
    for (int i = 0; i < CQE; i++) {
        rnic_cq_wait(r, &cq, &cqe);
        good += cqe.status == RNIC_WC_SUCCESS;
        flushed += cqe.status == RNIC_WC_FLUSHED;
    }
    g_assert_cmpuint(good + flushed, ==, CQE);
    g_assert_cmpuint(good, >=, 2 * DEPTH);
    rnic_expect_no_cqe(r, &cq);
    connection_free_second(each[1]);
    connection_free(each[0]);
    rnic_shows("V10.4.3-1");
}

/* The same of an S-RQ, whose receives all complete where one QP takes them. */
static void test_cq_for_srq(void)
{
    enum { SENDS = 8, RECEIVES = 16, CQE = 2 * SENDS + RECEIVES };
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    ConnectionOptions options = { .sq_depth = SENDS };
    unsigned of_srq = 0;
    Connection *each[2];
    struct rnic_cqe cqe;
    WireTerminate t;
    RnicSrq srq;
    RnicCq cq;

    init.depth = RECEIVES;
    rnic_create_srq(r, &srq, &init);
    rnic_create_cq(r, &cq, CQE, RNIC_NO_VECTOR);
    options.srq = &srq;
    options.cq = &cq;
    for (int k = 0; k < RECEIVES; k++) {
        rnic_post_srq_recv(r, &srq, k, 0, NULL);
    }
    for (int i = 0; i < 2; i++) {
        each[i] = connection_prepare_on(r, &options);
        connection_establish(each[i], &options);
        /* Behind a Read that is not answered. */
        for (int k = 0; k < SENDS; k++) {
            rnic_post_send(r, &each[i]->qp, &(RnicWr) {
                .opcode = k ? RNIC_SQ_SEND : RNIC_SQ_RDMA_READ,
                .flags = RNIC_WQE_SIGNALED });
        }
    }
    /* One more than there is room for. */
    for (int k = 0; k < RECEIVES + 1; k++) {
        wire_put_send(each[0]->peer, WIRE_SEND, 0, NULL, 0);
    }
    rnic_expect_async(r, RNIC_AE_RQ_MSN_RANGE, each[0]->qp.number);
    wire_skip_to_terminate(each[0]->peer, &t);
    g_assert_cmphex(t.code, ==, 0x1202);
    to_state(each[1], RNIC_QPS_ERROR);
    for (int i = 0; i < CQE; i++) {
        rnic_cq_wait(r, &cq, &cqe);
        of_srq += !!(cqe.flags & RNIC_CQE_SRQ);
        g_assert_cmpint(cqe.status, ==, cqe.flags & RNIC_CQE_SRQ
                                        ? RNIC_WC_SUCCESS : RNIC_WC_FLUSHED);
    }
    g_assert_cmpuint(of_srq, ==, RECEIVES);
    rnic_settle(r);
    rnic_expect_no_cqe(r, &cq);
    rnic_expect_no_async(r);
    connection_free_second(each[1]);
    connection_free(each[0]);
    rnic_shows("V10.4.3-1");
}

/* ---------------------------------------------------------------- a whole life */

static void destroy(Rnic *r, uint16_t opcode, uint32_t number)
{
    g_assert_cmpuint(rnic_admin_object(r, opcode, number), ==, RNIC_ST_OK);
}

/* The order of 5.1.1.1, to work done, and that of 5.1.1.2, to nothing. */
static void test_whole_life(void)
{
    Rnic *r = rnic_boot("", NULL);
    Connection pair[2] = { { .r = r }, { .r = r } };
    struct rnic_counters start, end;
    struct rnic_ceqe event;
    RnicSrqInit srq_init;
    StagRegion region;
    StagBind bind;
    uint32_t free_stag, pd;
    uint8_t got[8];
    RnicSrq srq;
    RnicWr wr;

    rnic_enable(r, 16, RNIC_NO_VECTOR, rnic_features(r));
    start = rnic_query_counters(r);
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, RNIC_NO_VECTOR, 16);
    rnic_create_eq(r, &r->cm_eq, RNIC_EQ_CM, RNIC_NO_VECTOR, 16);
    pd = rnic_alloc_pd(r);
    r->pd = pd;
    rnic_create_eq(r, &r->comp_eq, RNIC_EQ_COMPLETION, RNIC_NO_VECTOR, 16);
    for (int i = 0; i < 2; i++) {
        rnic_create_cq(r, &pair[i].send_cq, 64, r->comp_eq.number);
        rnic_create_cq(r, &pair[i].recv_cq, 64, r->comp_eq.number);
    }
    srq_init = rnic_srq_default(r);
    rnic_create_srq(r, &srq, &srq_init);
    for (int i = 0; i < 2; i++) {
        RnicQpInit init = rnic_qp_default(r, &pair[i].send_cq,
                                          &pair[i].recv_cq);

        init.enables = STAG_ENABLES;
        init.srq = i ? &srq : NULL;
        rnic_create_qp(r, &pair[i].qp, &init);
        rnic_create_mr(r, &pair[i].mr, pd, 4096, RNIC_TEST_ACCESS_ALL);
    }
    region = stag_region(r, 1);
    stag_register(r, &region);
    free_stag = stag_alloc(r, pd, 1, 1, true);
    bind = stag_window(stag_alloc_mw(r, pd, 2), &region, region.va, 8,
                       RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE);
    connection_pair(&pair[0], &pair[1]);

    /* Work: the other's window is written to, and told of. */
    {
        struct rnic_sge sge = rnic_sge(&pair[1].mr, 0, 8);

        rnic_post_srq_recv(r, &srq, 5, 1, &sge);
    }
    wr = connection_wr(&pair[0], RNIC_SQ_SEND, 1, 0, 8);
    rnic_mem_write(r, pair[0].mr.bus, "working.", 8);
    rnic_cq_arm(r, &pair[1].recv_cq, RNIC_ARM_NEXT);
    rnic_post_send(r, &pair[0].qp, &wr);
    rnic_expect_cqe(r, &pair[0].send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(r, &pair[1].recv_cq, 5, RNIC_WC_SUCCESS);
    rnic_eq_wait(r, &r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, pair[1].recv_cq.number);
    g_assert_cmpuint(stag_bind(&pair[1], &bind), ==, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    wr.remote_stag = bind.mw;
    wr.remote_to = bind.va;
    rnic_post_send(r, &pair[0].qp, &wr);
    rnic_expect_cqe(r, &pair[0].send_cq, 1, RNIC_WC_SUCCESS);
    RNIC_UNTIL(r, (rnic_mem_read(r, region.bus[0], got, 8),
                   memcmp(got, "working.", 8) == 0));

    /* The way back. */
    g_assert_cmpuint(stag_invalidate(&pair[1], bind.mw), ==, RNIC_WC_SUCCESS);
    to_state(&pair[0], RNIC_QPS_CLOSING);
    rnic_wait_qp_state(r, &pair[0].qp, RNIC_QPS_IDLE);
    rnic_wait_qp_state(r, &pair[1].qp, RNIC_QPS_IDLE);
    rnic_expect_no_cqe(r, &pair[0].send_cq);
    rnic_expect_no_cqe(r, &pair[1].recv_cq);
    stag_dealloc(r, bind.mw);
    stag_dealloc(r, free_stag);
    stag_dealloc(r, region.stag);
    stag_dealloc(r, pair[0].mr.stag);
    stag_dealloc(r, pair[1].mr.stag);
    for (int i = 0; i < 2; i++) {
        destroy(r, RNIC_ADMIN_DESTROY_QP, pair[i].qp.number);
    }
    destroy(r, RNIC_ADMIN_DESTROY_SRQ, srq.number);
    for (int i = 0; i < 2; i++) {
        destroy(r, RNIC_ADMIN_DESTROY_CQ, pair[i].send_cq.number);
        destroy(r, RNIC_ADMIN_DESTROY_CQ, pair[i].recv_cq.number);
    }
    destroy(r, RNIC_ADMIN_DEALLOC_PD, pd);
    destroy(r, RNIC_ADMIN_DESTROY_EQ, r->comp_eq.number);
    destroy(r, RNIC_ADMIN_DESTROY_EQ, r->cm_eq.number);
    destroy(r, RNIC_ADMIN_DESTROY_EQ, r->async_eq.number);
    end = rnic_query_counters(r);
    g_assert_cmpuint(end.qps, ==, start.qps);
    g_assert_cmpuint(end.cqs, ==, start.cqs);
    g_assert_cmpuint(end.eqs, ==, start.eqs);
    g_assert_cmpuint(end.pds, ==, start.pds);
    g_assert_cmpuint(end.stags, ==, start.stags);
    g_assert_cmpuint(end.srqs, ==, start.srqs);
    g_assert_cmpuint(end.endpoints, ==, 0);
    g_assert_cmpuint(end.listeners, ==, 0);
    rnic_reset(r);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
    rnic_up(r);
    rnic_quit(r);
    rnic_shows("V5.1.1.1-1 V5.1.1.2-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/leaving-rts/posts-across-error",
                   test_posts_across_error);
    qtest_add_func("rnic/leaving-rts/posts-across-closing",
                   test_posts_across_closing);
    qtest_add_func("rnic/leaving-rts/left-alone", test_left_alone);
    qtest_add_func("rnic/leaving-rts/flood-stops", test_flood_stops);
    qtest_add_func("rnic/leaving-rts/segment-begun", test_segment_begun);
    qtest_add_func("rnic/leaving-rts/error-stops-all", test_error_stops_all);
    qtest_add_func("rnic/leaving-rts/close-is-graceful",
                   test_close_is_graceful);
    qtest_add_func("rnic/leaving-rts/both-ends", test_both_ends);
    qtest_add_func("rnic/leaving-rts/old-completions", test_old_completions);
    qtest_add_func("rnic/leaving-rts/regions-stay", test_regions_stay);
    qtest_add_func("rnic/leaving-rts/events-not-lost", test_events_not_lost);
    qtest_add_func("rnic/leaving-rts/flood", test_flood);
    qtest_add_func("rnic/leaving-rts/far-msn", test_far_msn);
    qtest_add_func("rnic/leaving-rts/cq-for-all", test_cq_for_all);
    qtest_add_func("rnic/leaving-rts/cq-for-srq", test_cq_for_srq);
    qtest_add_func("rnic/leaving-rts/whole-life", test_whole_life);
    return g_test_run();
}
