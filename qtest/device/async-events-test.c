/*
 * rnic: figure 37, every asynchronous event once
 *
 * What else each of them brings along is shown where its cause is tested; here that
 * all of them exist, are told apart, and name the resource that they are of.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

typedef struct Scene {
    Rnic *r;
    Connection *c;              /* connected, with the options of the case */
    RnicMr read_only, foreign;
    RnicSrq srq;
    uint32_t number;            /* of the resource; the QP's unless it is changed */
} Scene;

typedef struct Case {
    uint16_t event;
    uint8_t resource;
    void (*provoke)(Scene *s);
    ConnectionOptions options;
    bool srq;                   /* the QP has one */
} Case;

#define PROVOKE(name) static void name(Scene *s)

/* --------------------------------------------------------- segments, Reads */

static WireSegment send_segment(void)
{
    return (WireSegment) {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 8,
        .payload = (uint8_t *)"PAYLOAD!",
    };
}

static void put_send(Scene *s, void (*spoil)(WireSegment *))
{
    WireSegment segment = send_segment();

    connection_recv(s->c, 1, 0, 8);
    spoil(&segment);
    wire_put_segment(s->c->peer, &segment);
}

static void put_write(Scene *s, uint32_t stag, uint64_t to)
{
    wire_put_write(s->c->peer, stag, to, "PAYLOAD!", 8);
}

static void put_read(Scene *s, uint32_t stag, uint64_t to)
{
    wire_put_read_request(s->c->peer, &(WireRead) {
        .sink_stag = 5, .size = 8, .source_stag = stag, .source_to = to });
}

/* A Read Request of @length octets with @msn. */
static void put_read_header(Scene *s, uint32_t msn, uint32_t length, bool last)
{
    uint8_t header[64] = { };
    WireSegment segment = {
        .opcode = WIRE_READ_REQUEST, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .qn = 1, .msn = msn, .length = length,
        .payload = header,
    };

    wire_put_segment(s->c->peer, &segment);
}

/* --------------------------------------------------- what the LLP comes to */

static void close_it(Scene *s)
{
    g_assert_cmpuint(rnic_modify_qp_state(s->r, &s->c->qp, RNIC_QPS_CLOSING),
                     ==, RNIC_ST_OK);
}

PROVOKE(closed)
{
    close_it(s);
    wire_shutdown(s->c->peer);
}

PROVOKE(terminated)
{
    wire_put_terminate(s->c->peer, 0x0207);
}

PROVOKE(reset)
{
    wire_abort(g_steal_pointer(&s->c->peer));
}

PROVOKE(lost)
{
    close_it(s);
    rnic_pass_time(s->r, 11);
}

PROVOKE(too_short)
{
    wire_put_ulpdu(s->c->peer, "\x41\x43\0\0", 4);
}

PROVOKE(crc)
{
    s->c->peer->bad_crc = true;
    wire_put_send(s->c->peer, WIRE_SEND, 0, "PAYLOAD!", 8);
}

PROVOKE(marker)
{
    uint8_t data[1024] = { };

    s->c->peer->bad_marker = true;
    wire_put_send(s->c->peer, WIRE_SEND, 0, data, sizeof(data));
}

PROVOKE(data_in_closing)
{
    close_it(s);
    wire_put_send(s->c->peer, WIRE_SEND, 0, "PAYLOAD!", 8);
}

PROVOKE(fin_with_work)
{
    WireRead read;

    connection_post(s->c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(s->c->peer, 1, &read);
    wire_shutdown(s->c->peer);
}

/* ------------------------------------------------------- headers gone wrong */

static void spoil_ddp_version(WireSegment *segment)
{
    segment->ddp_version = 2;
}

static void spoil_rdmap_version(WireSegment *segment)
{
    segment->rdmap_version = 3;
}

static void spoil_opcode(WireSegment *segment)
{
    segment->opcode = 15;
}

static void spoil_queue(WireSegment *segment)
{
    segment->qn = 7;
}

static void spoil_msn(WireSegment *segment)
{
    segment->msn = 2;
}

PROVOKE(ddp_version)
{
    put_send(s, spoil_ddp_version);
}

PROVOKE(rdmap_version)
{
    put_send(s, spoil_rdmap_version);
}

PROVOKE(opcode)
{
    put_send(s, spoil_opcode);
}

PROVOKE(queue)
{
    put_send(s, spoil_queue);
}

PROVOKE(send_msn_ahead)
{
    put_send(s, spoil_msn);
}

PROVOKE(no_receive)
{
    wire_put_send(s->c->peer, WIRE_SEND, 0, "PAYLOAD!", 8);
}

PROVOKE(read_too_short)
{
    put_read_header(s, 1, 24, true);
}

PROVOKE(read_not_last)
{
    put_read_header(s, 1, 28, false);
}

PROVOKE(read_msn_ahead)
{
    put_read_header(s, 2, 28, true);
}

PROVOKE(read_msn_past)
{
    put_read_header(s, 0, 28, true);
}

/* ---------------------------------------------------------- access to memory */

PROVOKE(write_own)
{
    put_write(s, s->c->mr.stag, s->c->mr.va);
}

PROVOKE(write_unknown)
{
    put_write(s, s->c->mr.stag ^ 1, s->c->mr.va);
}

PROVOKE(write_behind)
{
    put_write(s, s->c->mr.stag, s->c->mr.va + CONNECTION_MR_SIZE - 7);
}

PROVOKE(write_read_only)
{
    put_write(s, s->read_only.stag, s->read_only.va);
}

PROVOKE(write_foreign)
{
    put_write(s, s->foreign.stag, s->foreign.va);
}

PROVOKE(write_wraps)
{
    put_write(s, s->c->mr.stag, ~0ULL - 3);
}

PROVOKE(read_own)
{
    put_read(s, s->c->mr.stag, s->c->mr.va);
}

PROVOKE(read_unknown)
{
    put_read(s, s->c->mr.stag ^ 1, s->c->mr.va);
}

PROVOKE(read_behind)
{
    put_read(s, s->c->mr.stag, s->c->mr.va + CONNECTION_MR_SIZE - 7);
}

PROVOKE(read_write_only)
{
    RnicMr mr;

    rnic_create_mr(s->r, &mr, s->r->pd, 4096, RNIC_ACCESS_LOCAL_WRITE |
                                              RNIC_ACCESS_REMOTE_WRITE);
    put_read(s, mr.stag, mr.va);
}

PROVOKE(read_foreign)
{
    put_read(s, s->foreign.stag, s->foreign.va);
}

PROVOKE(read_wraps)
{
    put_read(s, s->c->mr.stag, ~0ULL - 3);
}

/* None of them can be answered, as the peer does not read. */
PROVOKE(reads_too_many)
{
    enum { LARGE = 16 * 1024 * 1024 };
    RnicMr mr;

    rnic_create_mr(s->r, &mr, s->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    for (int i = 0; i < 2; i++) {
        wire_put_read_request(s->c->peer, &(WireRead) {
            .sink_stag = 5, .size = LARGE, .source_stag = mr.stag,
            .source_to = mr.va });
    }
}

/* -------------------------------------------------------------------- queues */

/* Three completions on a CQ that has room for two. */
static void fill_send_cq(Scene *s)
{
    for (int i = 0; i < 3; i++) {
        connection_post(s->c, RNIC_SQ_SEND, i, 0, 8);
    }
}

PROVOKE(send_cq_full)
{
    fill_send_cq(s);
}

PROVOKE(cq_overflow)
{
    s->number = s->c->send_cq.number;
    fill_send_cq(s);
}

PROVOKE(receive_cq_full)
{
    for (int i = 0; i < 3; i++) {
        connection_recv(s->c, i, 0, 8);
        wire_put_send(s->c->peer, WIRE_SEND, 0, "PAYLOAD!", 8);
    }
}

/* One WQE more than there can be. */
PROVOKE(sq_overshoot)
{
    s->c->qp.sq_producer += s->c->qp.sq_depth + 1;
    rnic_ring_sq(s->r, &s->c->qp);
}

static void overshoot_srq(Scene *s)
{
    rnic_mem_write32(s->r, s->srq.memory +
                     offsetof(struct rnic_srq_record, producer),
                     s->srq.depth + 1);
    wire_put_send(s->c->peer, WIRE_SEND, 0, "PAYLOAD!", 8);
}

PROVOKE(srq_failed_for_qp)
{
    overshoot_srq(s);
}

PROVOKE(srq_failed)
{
    s->number = s->srq.number;
    overshoot_srq(s);
}

PROVOKE(srq_low)
{
    s->number = s->srq.number;
    g_assert_cmpuint(rnic_modify_srq_limit(s->r, &s->srq, 1), ==, RNIC_ST_OK);
    rnic_post_srq_recv(s->r, &s->srq, 1, 0, NULL);
    wire_put_send(s->c->peer, WIRE_SEND, 0, NULL, 0);
}

/* A limit of none, that any message in progress exceeds. */
PROVOKE(many_in_progress)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(s->c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_RQ_LIMIT);
    g_assert_cmpuint(rnic_admin(s->r, &sqe, NULL), ==, RNIC_ST_OK);
    rnic_post_srq_recv(s->r, &s->srq, 1, 0, NULL);
    wire_put_send(s->c->peer, WIRE_SEND, 0, NULL, 0);
}

/* A CQ whose memory is nowhere, for the sends of another QP. */
PROVOKE(cq_unreachable)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    struct rnic_admin_cqe cqe;
    RnicCq bad = { };
    RnicQpInit init;
    RnicQp qp;

    sqe.create_cq.depth = cpu_to_le32(16);
    sqe.create_cq.eqn = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.create_cq.memory.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    sqe.create_cq.memory.pages.count = cpu_to_le32(1);
    sqe.create_cq.memory.pages.page_shift = 12;
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(s->r, &sqe, &cqe), ==, RNIC_ST_OK);
    bad.number = le32_to_cpu(cqe.number);
    s->number = bad.number;
    init = rnic_qp_default(s->r, &bad, &s->c->recv_cq);
    rnic_create_qp(s->r, &qp, &init);
    rnic_post_send(s->r, &qp, &(RnicWr) { .opcode = RNIC_SQ_SEND,
                                          .flags = RNIC_WQE_SIGNALED });
    g_assert_cmpuint(rnic_modify_qp_state(s->r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
}

PROVOKE(device_fails)
{
    s->number = 0;
    qtest_qmp_assert_success(s->r->qts, "{ 'execute': 'qom-set', 'arguments': "
        "{ 'path': '/machine/peripheral/nic', 'property': 'x-fault', "
        "'value': { 'rules': [ { 'on': 'completion', 'do': 'fatal' } ] } } }");
    connection_post(s->c, RNIC_SQ_SEND, 1, 0, 8);
}

/* ------------------------------------------------------------------ the table */

enum {
    QP = RNIC_RESOURCE_QP, CQ = RNIC_RESOURCE_CQ, SRQ = RNIC_RESOURCE_SRQ,
    NONE = RNIC_RESOURCE_NONE,
};

#define NO_READS { .enables = RNIC_QP_ENABLE_WRITE }
#define NO_WRITES { .enables = RNIC_QP_ENABLE_READ }
#define SMALL_CQ { .cq_depth = 2 }

/* Event n is entry n - 1. */
static const Case figure_37[] = {
    { RNIC_AE_LLP_CLOSE_COMPLETE, QP, closed },
    { RNIC_AE_TERMINATE_RECEIVED, QP, terminated },
    { RNIC_AE_LLP_RESET, QP, reset },
    { RNIC_AE_LLP_LOST, QP, lost },
    { RNIC_AE_LLP_SEGMENT_SIZE, QP, too_short },
    { RNIC_AE_LLP_CRC, QP, crc },
    { RNIC_AE_LLP_BAD_FPDU, QP, marker },
    { RNIC_AE_DDP_VERSION, QP, ddp_version },
    { RNIC_AE_RDMAP_VERSION, QP, rdmap_version },
    { RNIC_AE_UNEXPECTED_OPCODE, QP, opcode },
    { RNIC_AE_INVALID_QUEUE_NUMBER, QP, queue },
    { RNIC_AE_READ_NOT_ENABLED, QP, read_own, NO_READS },
    { RNIC_AE_WRITE_NOT_ENABLED, QP, write_own, NO_WRITES },
    { RNIC_AE_BAD_READ_REQUEST, QP, read_too_short },
    { RNIC_AE_NO_LAST_BIT, QP, read_not_last },
    { RNIC_AE_TAGGED_INVALID_STAG, QP, write_unknown },
    { RNIC_AE_TAGGED_BASE_BOUNDS, QP, write_behind },
    { RNIC_AE_TAGGED_ACCESS, QP, write_read_only },
    { RNIC_AE_TAGGED_INVALID_PD, QP, write_foreign },
    { RNIC_AE_TAGGED_WRAP, QP, write_wraps },
    { RNIC_AE_BAD_CLOSE, QP, data_in_closing },
    { RNIC_AE_BAD_LLP_CLOSE, QP, fin_with_work },
    { RNIC_AE_RQ_MSN_RANGE, QP, no_receive },
    { RNIC_AE_RQ_MSN_GAP, QP, send_msn_ahead },
    { RNIC_AE_IRRQ_TOO_MANY, QP, reads_too_many, { .ird = 1 } },
    { RNIC_AE_IRRQ_MSN_GAP, QP, read_msn_ahead },
    { RNIC_AE_IRRQ_MSN_RANGE, QP, read_msn_past },
    { RNIC_AE_IRRQ_INVALID_STAG, QP, read_unknown },
    { RNIC_AE_IRRQ_BASE_BOUNDS, QP, read_behind },
    { RNIC_AE_IRRQ_ACCESS, QP, read_write_only },
    { RNIC_AE_IRRQ_INVALID_PD, QP, read_foreign },
    { RNIC_AE_IRRQ_WRAP, QP, read_wraps },
    { RNIC_AE_CQ_SQ_ERROR, QP, send_cq_full, SMALL_CQ },
    { RNIC_AE_CQ_RQ_ERROR, QP, receive_cq_full, SMALL_CQ },
    { RNIC_AE_SRQ_QP_ERROR, QP, srq_failed_for_qp, { }, true },
    { RNIC_AE_QP_CATASTROPHIC, QP, sq_overshoot },
    { RNIC_AE_CQ_OVERFLOW, CQ, cq_overflow, SMALL_CQ },
    { RNIC_AE_CQ_ERROR, CQ, cq_unreachable },
    { RNIC_AE_SRQ_LIMIT, SRQ, srq_low, { }, true },
    { RNIC_AE_QP_RQ_LIMIT, QP, many_in_progress, { }, true },
    { RNIC_AE_SRQ_CATASTROPHIC, SRQ, srq_failed, { }, true },
    { RNIC_AE_RNIC_CATASTROPHIC, NONE, device_fails },
};

/* What comes besides is of the same resources; it is not this event again. */
static void expect_event(Scene *s, const Case *expected)
{
    struct rnic_aeqe aeqe;

    do {
        rnic_eq_wait(s->r, &s->r->async_eq, &aeqe);
    } while (le16_to_cpu(aeqe.event) != expected->event);
    g_assert_cmpint(aeqe.resource, ==, expected->resource);
    g_assert_cmphex(le32_to_cpu(aeqe.number), ==, s->number);
}

static void run(Scene *s, const Case *expected)
{
    ConnectionOptions options = expected->options;
    RnicSrqInit init = rnic_srq_default(s->r);

    if (expected->srq) {
        rnic_create_srq(s->r, &s->srq, &init);
        options.srq = &s->srq;
    }
    s->c = connection_prepare_on(s->r, &options);
    connection_establish(s->c, &options);
    s->number = s->c->qp.number;
    expected->provoke(s);
    expect_event(s, expected);
}

static void test_figure_37(void)
{
    Scene s = { .r = rnic_boot_up(",id=nic,mpa-rtr=off,mpa-crc=on,"
                                  "mpa-markers=on") };

    rnic_create_mr(s.r, &s.read_only, s.r->pd, 4096,
                   RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_REMOTE_READ);
    rnic_create_mr(s.r, &s.foreign, rnic_alloc_pd(s.r), 4096,
                   RNIC_TEST_ACCESS_ALL);
    for (unsigned i = 0; i < G_N_ELEMENTS(figure_37); i++) {
        g_test_message("event %u", figure_37[i].event);
        g_assert_cmpuint(figure_37[i].event, ==, i + 1);
        run(&s, &figure_37[i]);
        if (figure_37[i].event != RNIC_AE_RNIC_CATASTROPHIC) {
            connection_recycle(s.c);
        }
        connection_free_second(s.c);
    }
    g_assert_cmpuint(G_N_ELEMENTS(figure_37), ==, RNIC_AE_RNIC_CATASTROPHIC);
    rnic_reset(s.r);
    rnic_up(s.r);
    rnic_quit(s.r);
    rnic_shows("V9.5.3-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/async-events/figure-37", test_figure_37);
    return g_test_run();
}
