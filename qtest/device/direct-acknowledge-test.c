/*
 * rnic: completions on QPs that are connected directly wait for the peer
 *
 * A Send completes when the peer's receive has, a Write when its octets are in the
 * peer's memory, and an error of the peer's is in the completion of the WR that it is
 * about.  The devices tell each other by notes (manual, Direct connect).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/direct.h"
#include "tests/qtest/rnic/lib/stags.h"

enum {
    LENGTH = DIRECT_LENGTH,

    TAGGED_BOUNDS = 0x1101,     /* Terminate codes, RFC 5041 7.2 */
    NO_BUFFER = 0x1202,
};

/* ------------------------------------------------------------- completions */

static void write_to(Connection *from, const Connection *to, uint64_t wr_id,
                     uint64_t offset, uint32_t stag_change)
{
    RnicWr wr = connection_wr(from, RNIC_SQ_RDMA_WRITE, wr_id, 0, LENGTH);

    wr.remote_stag = to->mr.stag ^ stag_change;
    wr.remote_to = to->mr.va + offset;
    rnic_post_send(from->r, &from->qp, &wr);
}

static void read_from(Connection *from, const Connection *to, uint64_t wr_id)
{
    RnicWr wr = connection_wr(from, RNIC_SQ_RDMA_READ, wr_id, 32768, LENGTH);

    wr.remote_stag = to->mr.stag;
    wr.remote_to = to->mr.va;
    rnic_post_send(from->r, &from->qp, &wr);
}

static void expect_sent(Connection *c, uint64_t wr_id,
                        enum rnic_wc_status status)
{
    rnic_expect_cqe(c->r, &c->send_cq, wr_id, status);
}

static void expect_received(Connection *c, uint64_t wr_id,
                            enum rnic_wc_status status)
{
    rnic_expect_cqe(c->r, &c->recv_cq, wr_id, status);
}

/* With the completion of a Write its octets are in the peer's memory. */
static void test_write(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_connect(&p);
    for (unsigned i = 0; i < 100; i++) {
        uint8_t data[LENGTH], got[LENGTH];

        rnic_pattern(data, LENGTH, i);
        connection_fill(p.a, 0, data, LENGTH);
        write_to(p.a, p.b, i, 8192, 0);
        expect_sent(p.a, i, RNIC_WC_SUCCESS);
        connection_peek(p.b, 8192, got, LENGTH);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
    }
    direct_assert_quiet(p.a);
    direct_pair_free(&p);
}

/* A Send is not complete before its receive; the other direction goes on. */
static void test_send(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_connect(&p);
    connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
    rnic_pass_time(p.a->r, 20);
    direct_assert_quiet(p.a);
    connection_recv(p.a, 2, 0, LENGTH);
    connection_post(p.b, RNIC_SQ_SEND, 3, 0, LENGTH);
    expect_received(p.a, 2, RNIC_WC_SUCCESS);
    connection_recv(p.b, 4, 0, LENGTH);
    expect_sent(p.a, 1, RNIC_WC_SUCCESS);
    expect_received(p.b, 4, RNIC_WC_SUCCESS);
    expect_sent(p.b, 3, RNIC_WC_SUCCESS);
    direct_assert_quiet(p.a);
    direct_assert_quiet(p.b);
    direct_pair_free(&p);
}

/* Completions keep the order of posts, whatever shows the peer's side of each. */
static void test_order(void)
{
    DirectPair p = direct_pair_up();
    enum { COUNT = 50 };

    direct_pair_connect(&p);
    for (unsigned i = 0; i < COUNT; i += 2) {
        connection_recv(p.b, i, 0, LENGTH);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        switch (i * 7 % 5) {
        case 0:
            read_from(p.a, p.b, i);
            break;
        case 1:
        case 3:
            write_to(p.a, p.b, i, 8192, 0);
            break;
        default:
            connection_post(p.a, RNIC_SQ_SEND, i, 0, LENGTH);
            break;
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        expect_sent(p.a, i, RNIC_WC_SUCCESS);
    }
    direct_pair_free(&p);
}

/* The response to a Read shows that what was sent before it is delivered, not what
 * was sent behind it. */
static void test_read_between(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_connect(&p);
    write_to(p.a, p.b, 1, 8192, 0);
    read_from(p.a, p.b, 2);
    connection_post(p.a, RNIC_SQ_SEND, 3, 0, LENGTH);
    read_from(p.a, p.b, 4);
    expect_sent(p.a, 1, RNIC_WC_SUCCESS);
    expect_sent(p.a, 2, RNIC_WC_SUCCESS);
    rnic_pass_time(p.a->r, 1);
    direct_assert_quiet(p.a);
    connection_recv(p.b, 5, 0, LENGTH);
    expect_sent(p.a, 3, RNIC_WC_SUCCESS);
    expect_sent(p.a, 4, RNIC_WC_SUCCESS);
    direct_pair_free(&p);
}

/* The slots of WRs that ask for no completion are used again all the same. */
static void test_unsignaled(void)
{
    DirectPair p = direct_pair_up();
    enum { ROUNDS = 20 };

    direct_pair_connect(&p);
    for (unsigned i = 0; i < ROUNDS; i++) {
        RnicWr wr = connection_wr(p.a, RNIC_SQ_RDMA_WRITE, 7, 0, LENGTH);

        wr.flags = 0;
        wr.remote_stag = p.b->mr.stag;
        wr.remote_to = p.b->mr.va;
        for (unsigned k = 0; k < 10; k++) {
            rnic_post_send(p.a->r, &p.a->qp, &wr);
        }
        write_to(p.a, p.b, i, 0, 0);
        expect_sent(p.a, i, RNIC_WC_SUCCESS);
    }
    direct_assert_quiet(p.a);
    direct_pair_free(&p);
}

/* A local fence, and a WR that is bad, wait for what was sent before them. */
static void test_behind_unacknowledged(void)
{
    DirectPair p = direct_pair_up();
    RnicWr wr;

    direct_pair_connect(&p);
    connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
    wr = (RnicWr) {
        .opcode = RNIC_SQ_LOCAL_INVALIDATE, .wr_id = 2,
        .flags = RNIC_WQE_SIGNALED | RNIC_WQE_LOCAL_FENCE,
        .invalidate_stag = p.a->mr.stag,
    };
    rnic_post_send(p.a->r, &p.a->qp, &wr);
    wr = connection_wr(p.a, RNIC_SQ_SEND, 3, 0, LENGTH);
    rnic_post_send(p.a->r, &p.a->qp, &wr);
    rnic_pass_time(p.a->r, 1);
    direct_assert_quiet(p.a);
    connection_recv(p.b, 4, 0, LENGTH);
    expect_sent(p.a, 1, RNIC_WC_SUCCESS);
    expect_sent(p.a, 2, RNIC_WC_SUCCESS);
    /* Its source was there until the fence. */
    expect_sent(p.a, 3, RNIC_WC_INVALID_STAG);
    expect_received(p.b, 4, RNIC_WC_SUCCESS);
    direct_pair_free(&p);
}

/* Both ends send, and neither posts a receive before its Send is complete at the
 * other end, which has posted one: the acknowledgement is behind a Send that waits. */
static void test_behind_waiting_send(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_connect(&p);
    for (unsigned i = 0; i < 10; i++) {
        connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 2, 0, 20000 * (i % 5));
        rnic_settle(p.b->r);
        connection_recv(p.a, 3, 0, LENGTH);
        connection_post(p.b, RNIC_SQ_SEND, 4, 0, LENGTH);
        expect_received(p.a, 3, RNIC_WC_SUCCESS);
        expect_sent(p.b, 4, RNIC_WC_SUCCESS);
        direct_assert_quiet(p.a);
        connection_recv(p.b, 5, 0, LENGTH);
        connection_recv(p.b, 6, 0, 100000);
        expect_sent(p.a, 1, RNIC_WC_SUCCESS);
        expect_sent(p.a, 2, RNIC_WC_SUCCESS);
        expect_received(p.b, 5, RNIC_WC_SUCCESS);
        expect_received(p.b, 6, RNIC_WC_SUCCESS);
    }
    direct_pair_free(&p);
}

/* ------------------------------------------------------ errors of the peer's */

static void expect_error_state(Connection *c)
{
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_expect_no_async(c->r);
}

/* The bad Write fails, those before it are complete, the one behind it is flushed. */
static void test_bad_write(void)
{
    DirectPair p = direct_pair_up();

    for (unsigned good = 0; good < 4; good++) {
        struct rnic_cqe cqe;

        direct_pair_connect(&p);
        for (unsigned i = 0; i < good; i++) {
            write_to(p.a, p.b, i, 8192, 0);
        }
        write_to(p.a, p.b, 10, 8192, 0x5500);
        write_to(p.a, p.b, 11, 8192, 0);
        for (unsigned i = 0; i < good; i++) {
            expect_sent(p.a, i, RNIC_WC_SUCCESS);
        }
        cqe = rnic_expect_cqe(p.a->r, &p.a->send_cq, 10,
                              RNIC_WC_REMOTE_TERMINATION);
        g_assert_cmphex(le32_to_cpu(cqe.imm), ==, 0x1100);
        expect_sent(p.a, 11, RNIC_WC_FLUSHED);
        expect_error_state(p.a);
        rnic_expect_async(p.b->r, RNIC_AE_TAGGED_INVALID_STAG, p.b->qp.number);
        rnic_wait_qp_state(p.b->r, &p.b->qp, RNIC_QPS_ERROR);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    direct_pair_free(&p);
}

/* The same of a Send, whose receive is bad, and of a Read. */
static void test_bad_receive_and_read(void)
{
    DirectPair p = direct_pair_up();
    struct rnic_sge sge;
    RnicWr wr;

    direct_pair_connect(&p);
    connection_recv(p.b, 20, 0, LENGTH);
    sge = rnic_sge(&p.b->mr, 0, LENGTH);
    sge.stag ^= cpu_to_le32(0x5500);
    rnic_post_recv(p.b->r, &p.b->qp, 21, 1, &sge);
    for (unsigned i = 0; i < 3; i++) {
        connection_post(p.a, RNIC_SQ_SEND, i, 0, LENGTH);
    }
    expect_sent(p.a, 0, RNIC_WC_SUCCESS);
    expect_sent(p.a, 1, RNIC_WC_REMOTE_TERMINATION);
    expect_sent(p.a, 2, RNIC_WC_FLUSHED);
    expect_error_state(p.a);
    expect_received(p.b, 20, RNIC_WC_SUCCESS);
    expect_received(p.b, 21, RNIC_WC_INVALID_STAG);
    rnic_wait_qp_state(p.b->r, &p.b->qp, RNIC_QPS_ERROR);
    direct_to_idle(p.a);
    direct_to_idle(p.b);

    direct_pair_connect(&p);
    write_to(p.a, p.b, 30, 8192, 0);
    wr = connection_wr(p.a, RNIC_SQ_RDMA_READ, 31, 0, LENGTH);
    wr.remote_stag = p.b->mr.stag ^ 0x5500;
    wr.remote_to = p.b->mr.va;
    rnic_post_send(p.a->r, &p.a->qp, &wr);
    write_to(p.a, p.b, 32, 8192, 0);
    expect_sent(p.a, 30, RNIC_WC_SUCCESS);
    expect_sent(p.a, 31, RNIC_WC_REMOTE_TERMINATION);
    expect_sent(p.a, 32, RNIC_WC_FLUSHED);
    expect_error_state(p.a);
    direct_pair_free(&p);
}

/* ----------------------------------------------------------- receiver not ready */

/* As direct_pair_connect(), b with @timer and a with @retry. */
static void connect_not_ready(DirectPair *p, uint8_t timer, uint8_t retry)
{
    struct rnic_admin_sqe sqe;

    sqe = direct_connect_command(&p->b->qp, PEERS, OURS, p->a->qp.number,
                                 0x222);
    sqe.direct_connect.min_rnr_timer = timer;
    g_assert_cmpuint(rnic_admin(p->b->r, &sqe, NULL), ==, RNIC_ST_OK);
    direct_pair_a_rtr(p);
    direct_to_rts(p->b, 0x111, FOR_EVER, 0);
    sqe = direct_send_command(&p->a->qp, 0x222, FOR_EVER, 0);
    sqe.direct_send.rnr_retry = retry;
    g_assert_cmpuint(rnic_admin(p->a->r, &sqe, NULL), ==, RNIC_ST_OK);
    rnic_wait_qp_state(p->a->r, &p->a->qp, RNIC_QPS_RTS);
    rnic_wait_qp_state(p->b->r, &p->b->qp, RNIC_QPS_RTS);
}

static void expect_rnr_retry_exceeded(DirectPair *p)
{
    expect_sent(p->a, 1, RNIC_WC_RNR_RETRY_EXCEEDED);
    expect_sent(p->a, 2, RNIC_WC_FLUSHED);
    expect_error_state(p->a);
    /* The receiver did nothing wrong: it only has lost its peer. */
    rnic_wait_qp_state(p->b->r, &p->b->qp, RNIC_QPS_IDLE);
    direct_assert_quiet(p->b);
}

/* A Send without a receive is tried rnr_retry times, min_rnr_timer apart. */
static void test_rnr_retry(void)
{
    static const struct {
        uint8_t timer, retry;
        unsigned not_within_s, within_s;
    } cases[] = {
        { 31, 0, 0, 0 },        /* at once */
        { 1, 6, 0, 1 },         /* 10 us * 6 */
        { 0, 6, 3, 1 },         /* 655.36 ms * 6 */
        { 31, 5, 2, 1 },        /* 491.52 ms * 5 */
        { 30, 4, 1, 1 },        /* 327.68 ms * 4 */
    };
    DirectPair p = direct_pair_up();

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        connect_not_ready(&p, cases[i].timer, cases[i].retry);
        connection_recv(p.b, 9, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 0, 0, LENGTH);
        expect_sent(p.a, 0, RNIC_WC_SUCCESS);
        expect_received(p.b, 9, RNIC_WC_SUCCESS);
        connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 2, 0, LENGTH);
        rnic_settle(p.b->r);
        if (cases[i].not_within_s) {
            rnic_pass_time(p.a->r, cases[i].not_within_s);
            direct_assert_quiet(p.a);
        }
        if (cases[i].within_s) {
            rnic_pass_time(p.a->r, cases[i].within_s);
        }
        expect_rnr_retry_exceeded(&p);
        direct_to_idle(p.a);
        direct_to_idle(p.b);
    }
    direct_pair_free(&p);
}

/* A receive in time; the next Send has the whole time again. */
static void test_rnr_in_time(void)
{
    DirectPair p = direct_pair_up();

    connect_not_ready(&p, 0, 6);
    for (unsigned i = 0; i < 4; i++) {
        connection_post(p.a, RNIC_SQ_SEND, i, 0, LENGTH);
        rnic_settle(p.b->r);
        rnic_pass_time(p.a->r, 3);
        direct_assert_quiet(p.a);
        connection_recv(p.b, i, 0, LENGTH);
        expect_sent(p.a, i, RNIC_WC_SUCCESS);
        expect_received(p.b, i, RNIC_WC_SUCCESS);
    }
    direct_pair_free(&p);
}

/* ------------------------------------------------------------- peers that go */

static void destroy_qp(Connection *c)
{
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
}

/* What the peer has received is complete, however soon the peer goes. */
static void test_received_before_end(void)
{
    for (unsigned i = 0; i < 20; i++) {
        DirectPair p = direct_pair_up();
        struct rnic_cqe cqe;

        direct_pair_connect(&p);
        connection_recv(p.b, 5, 0, LENGTH);
        connection_post(p.a, RNIC_SQ_SEND, 6, 0, LENGTH);
        while (!rnic_cq_poll(p.b->r, &p.b->recv_cq, &cqe)) {
            /* at once */
        }
        g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
        if (i % 2) {
            destroy_qp(p.b);
        } else {
            g_assert_cmpuint(rnic_modify_qp_state(p.b->r, &p.b->qp,
                                                  RNIC_QPS_ERROR),
                             ==, RNIC_ST_OK);
        }
        expect_sent(p.a, 6, RNIC_WC_SUCCESS);
        rnic_wait_qp_state(p.a->r, &p.a->qp, RNIC_QPS_IDLE);
        direct_assert_quiet(p.a);
        direct_pair_free(&p);
    }
}

/* What it has not received is missed. */
static void test_not_received(void)
{
    DirectPair p = direct_pair_up();

    direct_pair_connect(&p);
    connection_post(p.a, RNIC_SQ_SEND, 1, 0, LENGTH);
    write_to(p.a, p.b, 2, 0, 0);
    rnic_settle(p.b->r);
    direct_assert_quiet(p.a);
    destroy_qp(p.b);
    direct_expect_retry_exceeded(p.a, 1);
    expect_sent(p.a, 2, RNIC_WC_FLUSHED);
    direct_assert_quiet(p.a);
    direct_pair_free(&p);
}

/* ------------------------------------------ a peer that the test speaks for */

/* Stream between the QP of a device and the test; both in RTS. */
typedef struct Spoken {
    Connection *c;
    WirePeer *peer;
    int listener;
} Spoken;

static Spoken spoken_up_with(const ConnectionOptions *options)
{
    Spoken s = { .c = connection_prepare(options) };

    s.listener = wire_listen_at(PEERS, DIRECT_PORT);
    s.peer = direct_meet_dial(s.c, s.listener);
    direct_to_rts(s.c, 0x654321, FOR_EVER, 0);
    rnic_wait_qp_state(s.c->r, &s.c->qp, RNIC_QPS_RTS);
    return s;
}

static Spoken spoken_up(void)
{
    return spoken_up_with(NULL);
}

static void spoken_free(Spoken *s)
{
    if (s->peer) {
        wire_close(s->peer);
    }
    close(s->listener);
    connection_free(s->c);
}

/* An end of the stream is noticed, though a Send waits for a receive before it. */
static void test_end_behind_waiting_send(void)
{
    for (unsigned i = 0; i < 6; i++) {
        Spoken s = spoken_up();
        uint8_t got[LENGTH];

        connection_post(s.c, i < 2 ? RNIC_SQ_SEND : RNIC_SQ_RDMA_READ, 1, 0,
                        LENGTH);
        if (i < 2) {
            wire_get_send(s.peer, WIRE_SEND, 1, got, LENGTH);
        } else {
            WireRead read;

            wire_get_read_request(s.peer, 1, &read);
        }
        wire_put_send(s.peer, WIRE_SEND, 0, "waits", 5);
        rnic_settle(s.c->r);
        direct_assert_quiet(s.c);
        if (i >= 4) {
            g_autofree uint8_t *much = g_malloc0(100000);

            /* Together more than is read ahead. */
            for (unsigned k = 0; k < 3; k++) {
                wire_put_send(s.peer, WIRE_SEND, 0, much, 100000);
                rnic_pass_time(s.c->r, 1);
            }
        }
        if (i % 2) {
            wire_close(s.peer);
        } else {
            wire_abort(s.peer);
        }
        s.peer = NULL;
        rnic_pass_time(s.c->r, 1);
        direct_expect_retry_exceeded(s.c, 1);
        direct_assert_quiet(s.c);
        spoken_free(&s);
    }
}

/* The next note of this kind; its number is @least or more. */
static uint64_t get_delivered_from(WirePeer *peer, uint64_t least)
{
    WireSegment segment;

    wire_get_segment(peer, &segment);
    g_assert_cmpint(segment.opcode, ==, WIRE_WRITE);
    g_assert_cmphex(segment.stag, ==, 0);
    g_assert_cmpuint(segment.length, ==, 0);
    g_assert_true(segment.last);
    g_assert_cmphex(segment.to & ~UINT64_C(0xffff), ==, DIRECT_NOTE_DELIVERED);
    g_assert_cmpuint(segment.to & 0xffff, >=, least);
    g_free(segment.payload);
    return segment.to & 0xffff;
}

/* Sends and Writes are counted, Reads and the peer's own notes are not. */
static void test_notes_of_delivery(void)
{
    Spoken s = spoken_up();
    uint8_t data[LENGTH] = { }, got[LENGTH];
    const WireRead read = { .size = 0 };
    uint64_t told = 0;

    for (unsigned i = 0; i < 3; i++) {
        connection_recv(s.c, i, 0, LENGTH);
        wire_put_send(s.peer, WIRE_SEND, 0, data, LENGTH);
    }
    while (told < 3) {
        told = get_delivered_from(s.peer, told + 1);
    }
    wire_put_write(s.peer, s.c->mr.stag, s.c->mr.va, data, LENGTH);
    direct_get_delivered(s.peer, 4);
    wire_put_write(s.peer, 1, 0, NULL, 0);
    direct_get_delivered(s.peer, 5);
    direct_put_delivered(s.peer, 0);
    wire_put_write(s.peer, 0, 0, NULL, 0);
    wire_put_read_request(s.peer, &read);
    wire_get_tagged(s.peer, WIRE_READ_RESPONSE, 0, 0, NULL, 0);
    wire_expect_silence(s.peer);
    /* All this time the device counts what it sends by itself. */
    connection_post(s.c, RNIC_SQ_SEND, 9, 0, LENGTH);
    wire_get_send(s.peer, WIRE_SEND, 1, got, LENGTH);
    for (unsigned i = 0; i < 3; i++) {
        expect_received(s.c, i, RNIC_WC_SUCCESS);
    }
    rnic_settle(s.c->r);
    direct_assert_quiet(s.c);
    direct_put_delivered(s.peer, 1);
    expect_sent(s.c, 9, RNIC_WC_SUCCESS);
    spoken_free(&s);
}

/* One note may tell of several; of the last one it tells before a Terminate. */
static void test_notes_and_terminate(void)
{
    Spoken s = spoken_up();
    uint8_t data[LENGTH] = { };
    uint64_t told = 0;

    for (unsigned i = 0; i < 3; i++) {
        write_to(s.c, s.c, i, 0, 0);
        wire_get_tagged(s.peer, WIRE_WRITE, s.c->mr.stag, s.c->mr.va, data,
                        LENGTH);
    }
    direct_put_delivered(s.peer, 2);
    expect_sent(s.c, 0, RNIC_WC_SUCCESS);
    expect_sent(s.c, 1, RNIC_WC_SUCCESS);
    rnic_settle(s.c->r);
    direct_assert_quiet(s.c);
    direct_put_delivered(s.peer, 2);
    direct_put_delivered(s.peer, 3);
    expect_sent(s.c, 2, RNIC_WC_SUCCESS);

    for (unsigned i = 0; i < 2; i++) {
        wire_put_write(s.peer, s.c->mr.stag, s.c->mr.va, data, LENGTH);
    }
    wire_put_write(s.peer, s.c->mr.stag ^ 0x5500, s.c->mr.va, data, LENGTH);
    while (told < 2) {
        told = get_delivered_from(s.peer, told + 1);
    }
    wire_expect_terminate(s.peer, 0x1100);
    rnic_expect_async(s.c->r, RNIC_AE_TAGGED_INVALID_STAG, s.c->qp.number);
    spoken_free(&s);
}

/* A Write of the guest that names STag 0 is no note, for it has no octets. */
static void test_guest_makes_no_note(void)
{
    Spoken s = spoken_up();
    RnicWr wr = connection_wr(s.c, RNIC_SQ_RDMA_WRITE, 1, 0, 0);

    wr.num_sge = 0;
    wr.remote_stag = 0;
    wr.remote_to = DIRECT_NOTE_DELIVERED | 1;
    rnic_post_send(s.c->r, &s.c->qp, &wr);
    wire_get_tagged(s.peer, WIRE_WRITE, 0xffffffff,
                    DIRECT_NOTE_DELIVERED | 1, NULL, 0);
    direct_put_delivered(s.peer, 1);
    expect_sent(s.c, 1, RNIC_WC_SUCCESS);
    spoken_free(&s);
}

/* A Read Fence does not wait for Writes and Sends, though they are not complete. */
static void test_read_fence_passes(void)
{
    Spoken s = spoken_up();
    uint8_t got[LENGTH];

    for (unsigned write = 0; write < 2; write++) {
        RnicWr wr = connection_wr(s.c, write ? RNIC_SQ_RDMA_WRITE
                                             : RNIC_SQ_SEND, 3, 0, LENGTH);

        wr.flags |= RNIC_WQE_READ_FENCE;
        wr.remote_to = s.c->mr.va;
        write_to(s.c, s.c, 1, 0, 0);
        connection_post(s.c, RNIC_SQ_SEND, 2, 0, LENGTH);
        rnic_post_send(s.c->r, &s.c->qp, &wr);
        wire_get_tagged(s.peer, WIRE_WRITE, s.c->mr.stag, s.c->mr.va, got,
                        LENGTH);
        wire_get_send(s.peer, WIRE_SEND, 1 + 2 * write, got, LENGTH);
        if (write) {
            wire_get_tagged(s.peer, WIRE_WRITE, CONNECTION_REMOTE_STAG,
                            s.c->mr.va, got, LENGTH);
        } else {
            wire_get_send(s.peer, WIRE_SEND, 2, got, LENGTH);
        }
        rnic_settle(s.c->r);
        direct_assert_quiet(s.c);
        direct_put_delivered(s.peer, 3 + 3 * write);
        for (unsigned i = 1; i <= 3; i++) {
            expect_sent(s.c, i, RNIC_WC_SUCCESS);
        }
    }
    spoken_free(&s);
    rnic_shows("V8.2.2.2-4");
}

/* A Local Fence does: for a Write, for a Send; and what is behind it waits, too. */
static void test_local_fence_waits(void)
{
    Spoken s = spoken_up();

    for (unsigned write = 0; write < 2; write++) {
        RnicWr wr = connection_wr(s.c, write ? RNIC_SQ_RDMA_WRITE
                                             : RNIC_SQ_SEND, 1, 0, LENGTH);
        uint8_t got[LENGTH];
        RnicMr source;

        rnic_create_mr(s.c->r, &source, s.c->r->pd, LENGTH,
                       RNIC_TEST_ACCESS_ALL);
        wr.sge[0] = rnic_sge(&source, 0, LENGTH);
        rnic_post_send(s.c->r, &s.c->qp, &wr);
        wr = (RnicWr) {
            .opcode = RNIC_SQ_LOCAL_INVALIDATE, .wr_id = 2,
            .flags = RNIC_WQE_SIGNALED | RNIC_WQE_LOCAL_FENCE,
            .invalidate_stag = source.stag,
        };
        rnic_post_send(s.c->r, &s.c->qp, &wr);
        connection_post(s.c, RNIC_SQ_SEND, 3, 0, LENGTH);
        if (write) {
            wire_get_tagged(s.peer, WIRE_WRITE, CONNECTION_REMOTE_STAG, 0, got,
                            LENGTH);
        } else {
            wire_get_send(s.peer, WIRE_SEND, 1, got, LENGTH);
        }
        wire_expect_silence(s.peer);
        direct_assert_quiet(s.c);
        g_assert_cmpint(stag_query_mr(s.c->r, source.stag).valid, ==, 1);
        direct_put_delivered(s.peer, 1 + 2 * write);
        /* By itself. */
        wire_get_send(s.peer, WIRE_SEND, 2 + write, got, LENGTH);
        g_assert_cmpint(stag_query_mr(s.c->r, source.stag).valid, ==, 0);
        direct_put_delivered(s.peer, 2 + 2 * write);
        for (unsigned i = 1; i <= 3; i++) {
            expect_sent(s.c, i, RNIC_WC_SUCCESS);
        }
    }
    spoken_free(&s);
    rnic_shows("V8.2.2.2-6 V8.2.2.2-7");
}

/* More is delivered than was sent, or less than before: an error of the stream. */
static void test_false_notes(void)
{
    static const uint64_t notes[] = {
        DIRECT_NOTE_DELIVERED | 3,
        DIRECT_NOTE_DELIVERED | 0,
        DIRECT_NOTE_DELIVERED | 0xffffffffffffff,
        DIRECT_NOTE_DELIVERED | 1ULL << 32,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(notes); i++) {
        Spoken s = spoken_up();
        uint8_t got[LENGTH];

        for (unsigned k = 1; k <= 2; k++) {
            connection_post(s.c, RNIC_SQ_SEND, k, 0, LENGTH);
            wire_get_send(s.peer, WIRE_SEND, k, got, LENGTH);
        }
        direct_put_delivered(s.peer, 1);
        expect_sent(s.c, 1, RNIC_WC_SUCCESS);
        wire_put_write(s.peer, 0, notes[i], NULL, 0);
        wire_expect_terminate(s.peer, TAGGED_BOUNDS);
        rnic_expect_async(s.c->r, RNIC_AE_TAGGED_BASE_BOUNDS,
                          s.c->qp.number);
        expect_sent(s.c, 2, RNIC_WC_FLUSHED);
        spoken_free(&s);
    }
}

/* The stream ends, and with it all that the note was part of. */
static void test_false_note_and_reset(void)
{
    for (unsigned i = 0; i < 30; i++) {
        Spoken s = spoken_up();

        direct_put_delivered(s.peer, 77);
        wire_abort(s.peer);
        s.peer = NULL;
        rnic_wait_qp_state(s.c->r, &s.c->qp, RNIC_QPS_ERROR);
        rnic_assert_alive(s.c->r);
        spoken_free(&s);
    }
}

/* What is acknowledged behind a Send that waits has no room in the CQ. */
static void test_full_cq_behind_waiting_send(void)
{
    for (unsigned i = 0; i < 10; i++) {
        Spoken s = spoken_up_with(&(ConnectionOptions) { .cq_depth = 2 });
        uint8_t got[LENGTH];

        for (unsigned k = 1; k <= 3; k++) {
            connection_post(s.c, RNIC_SQ_SEND, k, 0, LENGTH);
            wire_get_send(s.peer, WIRE_SEND, k, got, LENGTH);
        }
        wire_put_send(s.peer, WIRE_SEND, 0, "waits", 5);
        direct_put_delivered(s.peer, 3);
        direct_put_delivered(s.peer, 3);
        wire_abort(s.peer);
        s.peer = NULL;
        rnic_pass_time(s.c->r, 1);
        rnic_wait_qp_state(s.c->r, &s.c->qp, RNIC_QPS_ERROR);
        rnic_assert_alive(s.c->r);
        spoken_free(&s);
    }
}

/* The peer goes in the middle of a Send; for its receive's CQE there is no room. */
static void test_full_cq_and_cut_message(void)
{
    Spoken s = spoken_up_with(&(ConnectionOptions) { .cq_depth = 2 });
    const WireSegment first = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1, .msn = 3,
        .length = 5, .payload = (uint8_t *)"parts",
    };

    for (unsigned k = 1; k <= 3; k++) {
        connection_recv(s.c, k, 0, LENGTH);
    }
    wire_put_send(s.peer, WIRE_SEND, 0, "one", 3);
    wire_put_send(s.peer, WIRE_SEND, 0, "two", 3);
    wire_put_segment(s.peer, &first);
    rnic_settle(s.c->r);
    wire_abort(s.peer);
    s.peer = NULL;
    rnic_wait_qp_state(s.c->r, &s.c->qp, RNIC_QPS_ERROR);
    spoken_free(&s);
}

/* Notes that are not known change nothing; a large rnr_retry is for ever. */
static void test_other_notes(void)
{
    Spoken s = spoken_up();

    wire_put_write(s.peer, 0, 3ULL << 56 | 5, NULL, 0);
    wire_put_write(s.peer, 0, 0xffULL << 56, NULL, 0);
    wire_put_write(s.peer, 0, DIRECT_NOTE_RNR_RETRY | 8, NULL, 0);
    wire_put_send(s.peer, WIRE_SEND, 0, "waits", 5);
    rnic_pass_time(s.c->r, 30);
    direct_assert_quiet(s.c);
    connection_recv(s.c, 1, 0, LENGTH);
    expect_received(s.c, 1, RNIC_WC_SUCCESS);
    direct_get_delivered(s.peer, 1);
    wire_put_write(s.peer, 0, DIRECT_NOTE_RNR_RETRY | 0, NULL, 0);
    wire_put_send(s.peer, WIRE_SEND, 0, "waits", 5);
    wire_expect_terminate(s.peer, NO_BUFFER);
    spoken_free(&s);
}

/* The device tells its rnr_retry when it is not 7, once. */
static void test_rnr_retry_is_told(void)
{
    Spoken s = spoken_up();
    uint8_t got[LENGTH];

    wire_expect_silence(s.peer);
    for (unsigned i = 0; i < 2; i++) {
        struct rnic_admin_sqe sqe = direct_send_command(&s.c->qp, 0x654321,
                                                        FOR_EVER, 0);

        sqe.direct_send.rnr_retry = 5;
        g_assert_cmpuint(rnic_admin(s.c->r, &sqe, NULL), ==, RNIC_ST_OK);
    }
    connection_post(s.c, RNIC_SQ_SEND, 1, 0, LENGTH);
    wire_get_tagged(s.peer, WIRE_WRITE, 0, DIRECT_NOTE_RNR_RETRY | 5, NULL, 0);
    wire_get_send(s.peer, WIRE_SEND, 1, got, LENGTH);
    wire_put_terminate(s.peer, NO_BUFFER);
    expect_sent(s.c, 1, RNIC_WC_RNR_RETRY_EXCEEDED);
    expect_error_state(s.c);
    spoken_free(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/acknowledge/write", test_write);
    qtest_add_func("rnic/acknowledge/send", test_send);
    qtest_add_func("rnic/acknowledge/order", test_order);
    qtest_add_func("rnic/acknowledge/read-between", test_read_between);
    qtest_add_func("rnic/acknowledge/unsignaled", test_unsignaled);
    qtest_add_func("rnic/acknowledge/behind-unacknowledged",
                   test_behind_unacknowledged);
    qtest_add_func("rnic/acknowledge/behind-waiting-send",
                   test_behind_waiting_send);
    qtest_add_func("rnic/acknowledge/bad-write", test_bad_write);
    qtest_add_func("rnic/acknowledge/bad-receive-and-read",
                   test_bad_receive_and_read);
    qtest_add_func("rnic/acknowledge/rnr-retry", test_rnr_retry);
    qtest_add_func("rnic/acknowledge/rnr-in-time", test_rnr_in_time);
    qtest_add_func("rnic/acknowledge/received-before-end",
                   test_received_before_end);
    qtest_add_func("rnic/acknowledge/not-received", test_not_received);
    qtest_add_func("rnic/acknowledge/end-behind-waiting-send",
                   test_end_behind_waiting_send);
    qtest_add_func("rnic/acknowledge/notes-of-delivery",
                   test_notes_of_delivery);
    qtest_add_func("rnic/acknowledge/notes-and-terminate",
                   test_notes_and_terminate);
    qtest_add_func("rnic/acknowledge/guest-makes-no-note",
                   test_guest_makes_no_note);
    qtest_add_func("rnic/acknowledge/read-fence-passes",
                   test_read_fence_passes);
    qtest_add_func("rnic/acknowledge/local-fence-waits",
                   test_local_fence_waits);
    qtest_add_func("rnic/acknowledge/false-notes", test_false_notes);
    qtest_add_func("rnic/acknowledge/false-note-and-reset",
                   test_false_note_and_reset);
    qtest_add_func("rnic/acknowledge/full-cq-behind-waiting-send",
                   test_full_cq_behind_waiting_send);
    qtest_add_func("rnic/acknowledge/full-cq-and-cut-message",
                   test_full_cq_and_cut_message);
    qtest_add_func("rnic/acknowledge/other-notes", test_other_notes);
    qtest_add_func("rnic/acknowledge/rnr-retry-is-told",
                   test_rnr_retry_is_told);
    return g_test_run();
}
