/*
 * rnic: errors of work requests and queues, to Terminate, CQE and event
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/regions.h"
#include "tests/qtest/rnic/lib/stags.h"

/* ------------------------------------------------ errors of the send queue */

/* The WR that is wrong; those around it differ from it in the last octet. */
#define WR_IDS 0xfedcba9876543200
#define BAD_ID (WR_IDS | 0x77)

typedef struct WrError {
    const char *name;
    void (*spoil)(World *w, RnicWr *wr);
    uint8_t opcode;
    uint8_t status;
} WrError;

#define SPOIL(name) static void name(World *w, RnicWr *wr)

SPOIL(sge_unknown)
{
    wr->sge[0].stag = cpu_to_le32(0xdeadbe00);
}

SPOIL(sge_wrong_key)
{
    wr->sge[0].stag ^= cpu_to_le32(0x55);
}

SPOIL(sge_gone)
{
    wr->sge[0] = rnic_sge(&w->gone, 0, 8);
}

SPOIL(sge_zero)
{
    wr->sge[0].stag = 0;
    wr->sge[0].to = cpu_to_le64(w->c->mr.bus);
}

SPOIL(sge_foreign)
{
    wr->sge[0] = rnic_sge(&w->foreign, 0, 8);
}

SPOIL(sge_write_only)
{
    wr->sge[0] = rnic_sge(&w->write_only, 0, 8);
}

SPOIL(sge_read_only)
{
    wr->sge[0] = rnic_sge(&w->read_only, 0, 8);
}

SPOIL(sge_before)
{
    wr->sge[0].to = cpu_to_le64(w->c->mr.va - 1);
}

SPOIL(sge_behind)
{
    wr->sge[0] = rnic_sge(&w->c->mr, CONNECTION_MR_SIZE - 7, 8);
}

/* Of several segments all but the last are in the region. */
SPOIL(sge_long)
{
    wr->sge[0] = rnic_sge(&w->c->mr, 0, CONNECTION_MR_SIZE + 1);
}

SPOIL(sge_wraps)
{
    wr->sge[0].to = cpu_to_le64(~0ULL - 3);
}

SPOIL(sge_second)
{
    wr->num_sge = 2;
    wr->sge[1] = rnic_sge(&w->foreign, 0, 1);
}

SPOIL(sge_total)
{
    wr->num_sge = 2;
    wr->sge[0].length = cpu_to_le32(0x80000000);
    wr->sge[1] = wr->sge[0];
}

SPOIL(sge_broken)
{
    wr->sge[0].stag = cpu_to_le32(w->broken.stag);
    wr->sge[0].to = 0;
}

SPOIL(remote_zero)
{
    wr->remote_stag = 0;
    wr->remote_to = 0x1000;
}

/* Its octets have no STag here; the one at the peer counts all the same. */
SPOIL(inline_to_zero)
{
    remote_zero(w, wr);
    wr->flags |= RNIC_WQE_INLINE;
    wr->inline_data = "12345678";
    wr->inline_length = 8;
}

SPOIL(five_sges)
{
    for (int i = 1; i < 5; i++) {
        wr->sge[i] = wr->sge[0];
    }
    wr->num_sge = 5;            /* the QP has 4 */
}

SPOIL(two_sges)
{
    wr->num_sge = 2;
    wr->sge[1] = wr->sge[0];
}

SPOIL(unknown_flag)
{
    wr->flags |= 0x80;
}

SPOIL(read_inline)
{
    wr->flags |= RNIC_WQE_INLINE;
    wr->inline_data = "12345678";
    wr->inline_length = 8;
}

typedef struct Message {
    uint8_t opcode, flags;
} Message;
SPOIL(read_invalidate_unknown)
{
    sge_unknown(w, wr);
    wr->remote_stag = CONNECTION_REMOTE_STAG;
}

static const WrError wr_errors[] = {
    { "send-unknown", sge_unknown, RNIC_SQ_SEND, RNIC_WC_INVALID_STAG },
    { "send-key", sge_wrong_key, RNIC_SQ_SEND, RNIC_WC_INVALID_STAG },
    { "send-deallocated", sge_gone, RNIC_SQ_SEND, RNIC_WC_INVALID_STAG },
    { "send-stag-zero", sge_zero, RNIC_SQ_SEND, RNIC_WC_INVALID_STAG },
    { "send-foreign", sge_foreign, RNIC_SQ_SEND, RNIC_WC_INVALID_PD },
    { "send-write-only", sge_write_only, RNIC_SQ_SEND,
      RNIC_WC_ACCESS_VIOLATION },
    { "send-before", sge_before, RNIC_SQ_SEND, RNIC_WC_BASE_BOUNDS },
    { "send-behind", sge_behind, RNIC_SQ_SEND, RNIC_WC_BASE_BOUNDS },
    { "send-wraps", sge_wraps, RNIC_SQ_SEND, RNIC_WC_WRAP },
    { "send-second-sge", sge_second, RNIC_SQ_SEND, RNIC_WC_INVALID_PD },
    { "send-total", sge_total, RNIC_SQ_SEND, RNIC_WC_INVALID_LENGTH },
    { "send-broken", sge_broken, RNIC_SQ_SEND, RNIC_WC_QP_CATASTROPHIC },
    { "send-sges", five_sges, RNIC_SQ_SEND, RNIC_WC_INVALID_WQE },
    { "send-flag", unknown_flag, RNIC_SQ_SEND, RNIC_WC_INVALID_WQE },
    { "write-unknown", sge_unknown, RNIC_SQ_RDMA_WRITE,
      RNIC_WC_INVALID_STAG },
    { "write-key", sge_wrong_key, RNIC_SQ_RDMA_WRITE, RNIC_WC_INVALID_STAG },
    { "write-stag-zero", sge_zero, RNIC_SQ_RDMA_WRITE, RNIC_WC_INVALID_STAG },
    { "write-foreign", sge_foreign, RNIC_SQ_RDMA_WRITE, RNIC_WC_INVALID_PD },
    { "write-write-only", sge_write_only, RNIC_SQ_RDMA_WRITE,
      RNIC_WC_ACCESS_VIOLATION },
    { "write-behind", sge_behind, RNIC_SQ_RDMA_WRITE, RNIC_WC_BASE_BOUNDS },
    { "write-wraps", sge_wraps, RNIC_SQ_RDMA_WRITE, RNIC_WC_WRAP },
    { "write-total", sge_total, RNIC_SQ_RDMA_WRITE, RNIC_WC_INVALID_LENGTH },
    { "write-broken", sge_broken, RNIC_SQ_RDMA_WRITE,
      RNIC_WC_QP_CATASTROPHIC },
    { "write-sges", five_sges, RNIC_SQ_RDMA_WRITE, RNIC_WC_INVALID_WQE },
    { "write-remote-zero", remote_zero, RNIC_SQ_RDMA_WRITE,
      RNIC_WC_INVALID_STAG },
    { "write-inline-to-zero", inline_to_zero, RNIC_SQ_RDMA_WRITE,
      RNIC_WC_INVALID_STAG },
    { "read-unknown", sge_unknown, RNIC_SQ_RDMA_READ, RNIC_WC_INVALID_STAG },
    { "read-stag-zero", sge_zero, RNIC_SQ_RDMA_READ, RNIC_WC_INVALID_STAG },
    { "read-foreign", sge_foreign, RNIC_SQ_RDMA_READ, RNIC_WC_INVALID_PD },
    { "read-behind", sge_behind, RNIC_SQ_RDMA_READ, RNIC_WC_BASE_BOUNDS },
    { "read-wraps", sge_wraps, RNIC_SQ_RDMA_READ, RNIC_WC_WRAP },
    { "read-remote-zero", remote_zero, RNIC_SQ_RDMA_READ,
      RNIC_WC_INVALID_STAG },
    { "read-sges", two_sges, RNIC_SQ_RDMA_READ, RNIC_WC_INVALID_WQE },
    { "read-inline", read_inline, RNIC_SQ_RDMA_READ, RNIC_WC_INVALID_WQE },
    { "send-invalidate-unknown", sge_unknown, RNIC_SQ_SEND_INVALIDATE,
      RNIC_WC_INVALID_STAG },
    { "read-invalidate-unknown", read_invalidate_unknown,
      RNIC_SQ_RDMA_READ_INVALIDATE, RNIC_WC_INVALID_STAG },
};

/* What may be wrong with the local memory of any operation. */
static const struct {
    const char *name;
    void (*spoil)(World *w, RnicWr *wr);
    uint8_t status;
} local_errors[] = {
    { "unknown", sge_unknown, RNIC_WC_INVALID_STAG },
    { "key", sge_wrong_key, RNIC_WC_INVALID_STAG },
    { "deallocated", sge_gone, RNIC_WC_INVALID_STAG },
    { "stag zero", sge_zero, RNIC_WC_INVALID_STAG },
    { "foreign", sge_foreign, RNIC_WC_INVALID_PD },
    { "before", sge_before, RNIC_WC_BASE_BOUNDS },
    { "behind", sge_behind, RNIC_WC_BASE_BOUNDS },
    { "long", sge_long, RNIC_WC_BASE_BOUNDS },
    { "wraps", sge_wraps, RNIC_WC_WRAP },
};

/* Three WRs behind @end; each one's slot is the guest's again, as with a success. */
static void expect_three_flushed(Connection *c, uint32_t end)
{
    for (int i = 0; i < 3; i++) {
        struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->send_cq,
                                              WR_IDS | (30 + i),
                                              RNIC_WC_FLUSHED);

        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, end + 1 + i);
    }
}

/*
 * Good work before it arrives; it completes with its status; all behind it is
 * flushed in order, Unsignaled too; Terminate 0x0000; no event.
 */
static void check_sq_error(World *w, const void *wqe, uint32_t units,
                           uint8_t opcode, uint8_t status)
{
    Connection *c = w->c;
    Rnic *r = c->r;
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, WR_IDS | 20, 0, 4);
    struct rnic_qp_attr attr;
    struct rnic_cqe cqe;
    WireTerminate t;
    uint8_t got[16];
    uint32_t end;

    connection_recv(c, WR_IDS | 1, 0, 64);
    connection_recv(c, WR_IDS | 2, 0, 64);
    wr.flags = 0;
    rnic_post_send(r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_RDMA_WRITE, WR_IDS | 21, 0, 5);
    rnic_store_wqe(r, &c->qp, wqe, units);
    end = c->qp.sq_producer;
    for (int i = 0; i < 3; i++) {
        uint8_t behind[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        wr.wr_id = WR_IDS | (30 + i);
        wr.flags = i & 1 ? RNIC_WQE_SIGNALED : 0;
        rnic_store_wqe(r, &c->qp, behind, rnic_encode_wr(&wr, behind));
    }
    rnic_ring_sq(r, &c->qp);

    wire_get_send(c->peer, WIRE_SEND, 1, got, 16);
    connection_get_write(c, 0, got, 16);
    t = wire_expect_terminate(c->peer, 0x0000);
    g_assert_cmphex(t.flags, ==, 0);
    g_assert_cmpuint(t.length, ==, 4);
    rnic_expect_cqe(r, &c->send_cq, WR_IDS | 21, RNIC_WC_SUCCESS);
    cqe = rnic_expect_cqe(r, &c->send_cq, BAD_ID, status);
    g_assert_cmpint(cqe.opcode, ==, opcode);
    g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, end);
    expect_three_flushed(c, end);
    rnic_expect_cqe(r, &c->recv_cq, WR_IDS | 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(r, &c->recv_cq, WR_IDS | 2, RNIC_WC_FLUSHED);
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_TERMINATE);
    g_assert_cmpint(attr.terminate_origin, ==, 1);
    g_assert_cmpmem(attr.terminate, attr.terminate_length, t.octets,
                    t.length);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(r, &c->qp, RNIC_QPS_ERROR);
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.terminate_origin, ==, 1);
    g_assert_cmpmem(attr.terminate, attr.terminate_length, t.octets,
                    t.length);
    rnic_expect_cm(r, RNIC_CM_DISCONNECTED);
    rnic_settle(r);
    rnic_expect_no_async(r);
    rnic_expect_no_cqe(r, &c->send_cq);
    rnic_expect_no_cqe(r, &c->recv_cq);
}

/* Each of these in each operation. */
static void check_local_errors(World *w)
{
    static const Message operations[] = {
        { RNIC_SQ_SEND }, { RNIC_SQ_SEND, RNIC_WQE_SOLICITED },
        { RNIC_SQ_SEND_INVALIDATE },
        { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED },
        { RNIC_SQ_RDMA_WRITE }, { RNIC_SQ_RDMA_READ },
        { RNIC_SQ_RDMA_READ_INVALIDATE },
    };

    for (unsigned k = 0; k < G_N_ELEMENTS(operations); k++) {
        bool read = operations[k].opcode == RNIC_SQ_RDMA_READ ||
                    operations[k].opcode == RNIC_SQ_RDMA_READ_INVALIDATE;

        for (unsigned i = 0; i <= G_N_ELEMENTS(local_errors); i++) {
            bool rights = i == G_N_ELEMENTS(local_errors);
            RnicWr wr = connection_wr(w->c, operations[k].opcode, BAD_ID, 64, 8);
            uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

            if (rights && read) {
                break;          /* a sink's rights count with the response */
            }
            g_test_message("opcode %d, %s", operations[k].opcode,
                           rights ? "rights" : local_errors[i].name);
            connection_establish(w->c, NULL);
            wr.flags = operations[k].flags;
            wr.remote_stag = read ? CONNECTION_REMOTE_STAG : wr.remote_stag;
            (rights ? sge_write_only : local_errors[i].spoil)(w, &wr);
            check_sq_error(w, wqe, rnic_encode_wr(&wr, wqe),
                           operations[k].opcode,
                           rights ? RNIC_WC_ACCESS_VIOLATION
                                  : local_errors[i].status);
            connection_recycle(w->c);
        }
    }
}

static void test_work_requests(void)
{
    World w;

    world_init(&w, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(wr_errors); i++) {
        const WrError *e = &wr_errors[i];
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        RnicWr wr;

        g_test_message("%s", e->name);
        connection_establish(w.c, NULL);
        wr = connection_wr(w.c, e->opcode, BAD_ID, 64, 8);
        wr.flags = 0;
        e->spoil(&w, &wr);
        check_sq_error(&w, wqe, rnic_encode_wr(&wr, wqe), e->opcode,
                       e->status);
        connection_recycle(w.c);
    }
    check_local_errors(&w);
    world_cleanup(&w);
    rnic_shows("V5.3-2 V6.2.4-2 V6.2.4-3 V6.4-7 V7.3-1 V8.1.2.2-3 V8.1.3.1-3 "
               "V8.1.3.1-4 V8.1.3.1-5 V8.1.3.2-1 V8.1.3.2-4 V8.1.3.2.1-3 "
               "V8.2.1-8 V8.3.2-4 V8.3.2-8 V9.3.1.1-6 V9.3.2.1-3 V9.5.2-4 V9.5.2-6 "
               "V9.5.2-8 V9.5.2-10 "
               "R7.1-2 V6.2.3-7 V6.4-2 V8.2.4-6 V8.3.2-3 V9.3.2.1-6");
}

/* Of many WRs with an error, in both queues, one has its status; all come back. */
static void test_many_errors(void)
{
    enum { MANY = 4 };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    World w;
    RnicWr wr;

    world_init(&w, NULL);
    for (int receive = 0; receive < 2; receive++) {
        Connection *c = w.c;
        RnicCq *first = receive ? &c->recv_cq : &c->send_cq;
        WireRead read;

        connection_establish(c, NULL);
        if (receive) {
            connection_post(c, RNIC_SQ_RDMA_READ, 99, 0, 8);
            wire_get_read_request(c->peer, 1, &read);
        }
        for (int i = 0; i < MANY; i++) {
            wr = connection_wr(c, RNIC_SQ_SEND, i, 0, 8);
            wr.flags = i & 1 ? RNIC_WQE_SIGNALED : 0;
            wr.flags |= receive ? RNIC_WQE_READ_FENCE : 0;
            sge_unknown(&w, &wr);
            rnic_post_recv(c->r, &c->qp, i, 1, wr.sge);
            rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
        }
        rnic_ring_sq(c->r, &c->qp);
        if (receive) {
            wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        }
        wire_expect_terminate(c->peer, 0);
        wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        wire_shutdown(c->peer);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        if (receive) {
            rnic_expect_cqe(c->r, &c->send_cq, 99, RNIC_WC_FLUSHED);
        }
        for (int i = 0; i < MANY; i++) {
            rnic_expect_cqe(c->r, first, i,
                            i ? RNIC_WC_FLUSHED : RNIC_WC_INVALID_STAG);
            rnic_expect_cqe(c->r, receive ? &c->send_cq : &c->recv_cq, i,
                            RNIC_WC_FLUSHED);
        }
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        rnic_expect_no_async(c->r);
        connection_recycle(c);
    }
    world_cleanup(&w);
    rnic_shows("V6.2.4-2 V6.2.4-3");
}

/* WQEs whose form is wrong. */
static void check_bad_forms(void)
{
    static const struct {
        const char *what;
        uint8_t offset, value;
        uint64_t unless;        /* feature that makes it no error of form */
        uint8_t status;
    } cases[] = {
        { "opcode 0", 0, 0, 0, RNIC_WC_INVALID_WQE },
        { "opcode 13", 0, 13, 0, RNIC_WC_INVALID_WQE },
        { "opcode 255", 0, 255, 0, RNIC_WC_INVALID_WQE },
        { "bind", 0, RNIC_SQ_BIND_MW, RNIC_FEATURE_MEMORY_WINDOW,
          RNIC_WC_UNSUPPORTED },
        { "send immediate", 0, RNIC_SQ_SEND_IMMEDIATE,
          RNIC_FEATURE_RDMAP_EXTENSIONS, RNIC_WC_UNSUPPORTED },
        { "write immediate", 0, RNIC_SQ_WRITE_IMMEDIATE,
          RNIC_FEATURE_RDMAP_EXTENSIONS, RNIC_WC_UNSUPPORTED },
        { "fetch and add", 0, RNIC_SQ_FETCH_ADD,
          RNIC_FEATURE_RDMAP_EXTENSIONS, RNIC_WC_UNSUPPORTED },
        { "compare and swap", 0, RNIC_SQ_COMPARE_SWAP,
          RNIC_FEATURE_RDMAP_EXTENSIONS, RNIC_WC_UNSUPPORTED },
        { "units 2", 3, 2, 0, RNIC_WC_INVALID_WQE },
        { "sges 255", 2, 255, 0, RNIC_WC_INVALID_WQE },
        { "data_length", 4, 1, 0, RNIC_WC_INVALID_WQE },
        { "inline with an sge", 1, RNIC_WQE_INLINE, 0, RNIC_WC_INVALID_WQE },
        { "flags", 1, 0xe0, 0, RNIC_WC_INVALID_WQE },
    };
    World w;

    world_init(&w, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS] = { };
        RnicWr wr;

        if (rnic_features(w.c->r) & cases[i].unless) {
            continue;
        }
        g_test_message("%s", cases[i].what);
        connection_establish(w.c, NULL);
        wr = connection_wr(w.c, RNIC_SQ_SEND, BAD_ID, 0, 8);
        wr.flags = 0;
        rnic_encode_wr(&wr, wqe);
        wqe[cases[i].offset] = cases[i].value;
        check_sq_error(&w, wqe, cases[i].offset == 3 ? cases[i].value : 1,
                       wqe[0], cases[i].status);
        connection_recycle(w.c);
    }
    world_cleanup(&w);
}

/* Each mistake of form that any operation can have, in each operation. */
static void check_form_of_each(void)
{
    static const struct {
        uint8_t opcode, num_sge, units;
        uint64_t needs;
    } operations[] = {
        { RNIC_SQ_SEND, 1, 1 },
        { RNIC_SQ_SEND_INVALIDATE, 1, 1 },
        { RNIC_SQ_RDMA_WRITE, 1, 1 },
        { RNIC_SQ_RDMA_READ, 1, 1 },
        { RNIC_SQ_RDMA_READ_INVALIDATE, 1, 1 },
        { RNIC_SQ_BIND_MW, 0,
          DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) +
                       sizeof(struct rnic_bind_wqe), RNIC_SQ_UNIT) },
        { RNIC_SQ_FAST_REGISTER, 0,
          DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) +
                       sizeof(struct rnic_fast_register_wqe), RNIC_SQ_UNIT) },
        { RNIC_SQ_LOCAL_INVALIDATE, 0, 1 },
        { RNIC_SQ_SEND_IMMEDIATE, 1, 1, RNIC_FEATURE_RDMAP_EXTENSIONS },
        { RNIC_SQ_WRITE_IMMEDIATE, 1, 1, RNIC_FEATURE_RDMAP_EXTENSIONS },
        { RNIC_SQ_FETCH_ADD, 1, 2, RNIC_FEATURE_RDMAP_EXTENSIONS },
        { RNIC_SQ_COMPARE_SWAP, 1, 2, RNIC_FEATURE_RDMAP_EXTENSIONS },
    };
    static const struct {
        const char *what;
        uint8_t offset, add;
    } mistakes[] = {
        { "flags", 1, 0xe0 }, { "inline", 1, RNIC_WQE_INLINE },
        { "sges", 2, 17 }, { "units", 3, 1 }, { "data_length", 4, 1 },
    };
    World w;

    world_init(&w, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(operations); i++) {
        if (operations[i].needs & ~rnic_features(w.c->r)) {
            continue;
        }
        for (unsigned k = 0; k < G_N_ELEMENTS(mistakes); k++) {
            uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS] = { };
            RnicWr wr;

            g_test_message("opcode %d, %s", operations[i].opcode,
                           mistakes[k].what);
            connection_establish(w.c, NULL);
            wr = connection_wr(w.c, operations[i].opcode, BAD_ID, 0, 8);
            wr.flags = 0;
            wr.num_sge = operations[i].num_sge;
            rnic_encode_wr(&wr, wqe);
            wqe[3] = operations[i].units;
            wqe[mistakes[k].offset] += mistakes[k].add;
            check_sq_error(&w, wqe, wqe[3], wqe[0], RNIC_WC_INVALID_WQE);
            connection_recycle(w.c);
        }
    }
    world_cleanup(&w);
}

static void test_bad_form(void)
{
    check_bad_forms();
    check_form_of_each();
    rnic_shows("V9.5.2-3");
}

static void set_ord(Connection *c, uint16_t ord)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(ord);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
}

/* It is ORD that counts: with none of it Reads come in, and none go out. */
static void check_one_way_reads(void)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS], got[8];
    WireRead read;
    RnicWr wr;
    World w;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    connection_fill(w.c, 0, "incoming", 8);
    set_ord(w.c, 0);
    wire_put_read_request(w.c->peer, &(WireRead) {
        .size = 8, .source_stag = w.c->mr.stag, .source_to = w.c->mr.va });
    wire_get_tagged(w.c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    g_assert_cmpmem(got, 8, "incoming", 8);
    wr = connection_wr(w.c, RNIC_SQ_RDMA_READ, BAD_ID, 0, 0);
    check_sq_error(&w, wqe, rnic_encode_wr(&wr, wqe), RNIC_SQ_RDMA_READ,
                   RNIC_WC_ZERO_READ_RESOURCES);
    connection_recycle(w.c);
    connection_establish(w.c, NULL);
    connection_post(w.c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(w.c->peer, 1, &read);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to, "answered",
                           8);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 1, RNIC_WC_SUCCESS);
    world_cleanup(&w);
}

static void test_zero_ord(void)
{
    static const uint8_t reads[] = { RNIC_SQ_RDMA_READ,
                                     RNIC_SQ_RDMA_READ_INVALIDATE };
    ConnectionOptions options = { .no_reads = true };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    RnicWr wr;
    World w;

    world_init(&w, &options);
    for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++) {
        connection_establish(w.c, &options);
        wr = connection_wr(w.c, reads[i], BAD_ID, 0, 8);
        wr.remote_stag = CONNECTION_REMOTE_STAG;
        check_sq_error(&w, wqe, rnic_encode_wr(&wr, wqe), reads[i],
                       RNIC_WC_ZERO_READ_RESOURCES);
        connection_recycle(w.c);
    }
    /* A bad form, in the same way. */
    connection_establish(w.c, &options);
    wr = connection_wr(w.c, RNIC_SQ_SEND, BAD_ID, 0, 8);
    rnic_encode_wr(&wr, wqe);
    wqe[0] = 13;
    check_sq_error(&w, wqe, 1, 13, RNIC_WC_INVALID_WQE);
    world_cleanup(&w);
    check_one_way_reads();
    rnic_shows("V8.2.2-18 V9.5.2-12 V8.3.2-7");
}

/* The error waits for its turn behind an unanswered Read. */
static void test_error_behind_read(void)
{
    World w;
    RnicWr wr;
    WireRead read;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    connection_post(w.c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wr = connection_wr(w.c, RNIC_SQ_SEND, 2, 0, 8);
    wr.sge[0].stag = cpu_to_le32(0x77000000);
    rnic_post_send(w.c->r, &w.c->qp, &wr);
    wire_get_read_request(w.c->peer, 1, &read);
    wire_expect_silence(w.c->peer);
    rnic_expect_no_cqe(w.c->r, &w.c->send_cq);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                           "12345678", 8);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 2, RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w.c->peer, 0);
    world_cleanup(&w);
}

/* Sent, but behind a Read that never came back: flushed, Unsignaled too. */
static void test_flush_behind_read(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 2, 0, 8);
    uint8_t got[8];
    WireRead read;

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wr.flags = 0;
    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_SEND, 3, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    connection_get_write(c, 0, got, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_abort(c->peer);
    c->peer = NULL;
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    for (int i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_FLUSHED);
    }
    connection_free(c);
}

/* --------------------------------------------- errors of the receive queue */

/* A receive completes, and the one behind it is the one that is @spoil's. */
static void check_receive_error(World *w, void (*spoil)(World *, RnicWr *),
                                uint8_t status)
{
    Connection *c = w->c;
    g_autofree uint8_t *before = g_malloc(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);
    WireTerminate t;
    WireRead read;
    RnicWr wr;

    connection_establish(c, NULL);
    rnic_pattern(before, CONNECTION_MR_SIZE, 9);
    connection_fill(c, 0, before, CONNECTION_MR_SIZE);
    connection_recv(c, 0, 0, 0);
    wr = connection_wr(c, 0, 0, 64, 8);
    spoil(w, &wr);
    rnic_post_recv(c->r, &c->qp, BAD_ID, wr.num_sge, wr.sge);
    connection_recv(c, 2, 0, 64);
    connection_post(c, RNIC_SQ_RDMA_READ, 3, 1000, 0);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
    rnic_expect_cqe(c->r, &c->recv_cq, 0, RNIC_WC_SUCCESS);
    wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    wire_get_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, 0);
    g_assert_cmphex(t.flags, ==, 0);
    rnic_expect_cqe(c->r, &c->recv_cq, BAD_ID, status);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_FLUSHED);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_peek(c, 0, after, CONNECTION_MR_SIZE);
    g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
    connection_recycle(c);
}

/* A sink's local right is all that counts, whatever the QP lets the peer do. */
static void check_receive_rights(void)
{
    static const uint32_t enables[] = {
        RNIC_QP_SIGNAL_ALL, RNIC_QP_ENABLE_READ, RNIC_QP_ENABLE_WRITE,
        RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(enables); i++) {
        const ConnectionOptions options = { .enables = enables[i] };
        struct rnic_sge sge;
        uint8_t got[8];
        World w;

        world_init(&w, &options);
        connection_establish(w.c, &options);
        sge = rnic_sge(&w.local, 0, 8);
        rnic_post_recv(w.c->r, &w.c->qp, 1, 1, &sge);
        sge = rnic_sge(&w.read_only, 0, 8);
        rnic_post_recv(w.c->r, &w.c->qp, 2, 1, &sge);
        wire_put_send(w.c->peer, WIRE_SEND, 0, "received", 8);
        rnic_expect_cqe(w.c->r, &w.c->recv_cq, 1, RNIC_WC_SUCCESS);
        rnic_mem_read(w.c->r, w.local.bus, got, 8);
        g_assert_cmpmem(got, 8, "received", 8);
        wire_put_send(w.c->peer, WIRE_SEND, 0, "intruder", 8);
        wire_expect_terminate(w.c->peer, 0);
        rnic_expect_cqe(w.c->r, &w.c->recv_cq, 2, RNIC_WC_ACCESS_VIOLATION);
        rnic_mem_read(w.c->r, w.read_only.bus, got, 8);
        g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
        world_cleanup(&w);
    }
}

/* Of two SGEs the first is good. */
static void second_sge(World *w, RnicWr *wr, struct rnic_sge sge)
{
    wr->num_sge = 2;
    wr->sge[0] = rnic_sge(&w->c->mr, 64, 4);
    wr->sge[1] = sge;
}

SPOIL(second_behind)
{
    second_sge(w, wr, rnic_sge(&w->c->mr, CONNECTION_MR_SIZE - 3, 4));
}

SPOIL(second_read_only)
{
    second_sge(w, wr, rnic_sge(&w->read_only, 0, 4));
}

SPOIL(second_foreign)
{
    second_sge(w, wr, rnic_sge(&w->foreign, 0, 4));
}

SPOIL(second_wraps)
{
    second_sge(w, wr, rnic_sge(&w->c->mr, 0, 4));
    wr->sge[1].to = cpu_to_le64(~0ULL - 2);
}

SPOIL(second_unknown)
{
    second_sge(w, wr, rnic_sge(&w->c->mr, 0, 4));
    wr->sge[1].stag = cpu_to_le32(0xdeadbe00);
}

static void test_receive_errors(void)
{
    static const struct {
        const char *name;
        void (*spoil)(World *w, RnicWr *wr);
        uint8_t status;
    } cases[] = {
        { "unknown", sge_unknown, RNIC_WC_INVALID_STAG },
        { "key", sge_wrong_key, RNIC_WC_INVALID_STAG },
        { "deallocated", sge_gone, RNIC_WC_INVALID_STAG },
        { "stag zero", sge_zero, RNIC_WC_INVALID_STAG },
        { "foreign", sge_foreign, RNIC_WC_INVALID_PD },
        { "read only", sge_read_only, RNIC_WC_ACCESS_VIOLATION },
        { "before", sge_before, RNIC_WC_BASE_BOUNDS },
        { "behind", sge_behind, RNIC_WC_BASE_BOUNDS },
        { "wraps", sge_wraps, RNIC_WC_WRAP },
        { "second behind", second_behind, RNIC_WC_BASE_BOUNDS },
        { "second read only", second_read_only, RNIC_WC_ACCESS_VIOLATION },
        { "second foreign", second_foreign, RNIC_WC_INVALID_PD },
        { "second wraps", second_wraps, RNIC_WC_WRAP },
        { "second unknown", second_unknown, RNIC_WC_INVALID_STAG },
        { "sges", five_sges, RNIC_WC_INVALID_WQE },
    };
    World w;
    uint8_t octets[4096], filled[4096];

    world_init(&w, NULL);
    memset(filled, 0x3c, sizeof(filled));
    rnic_mem_fill(w.c->r, w.read_only.bus, 0x3c, sizeof(filled));
    rnic_mem_fill(w.c->r, w.foreign.bus, 0x3c, sizeof(filled));
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_test_message("%s", cases[i].name);
        check_receive_error(&w, cases[i].spoil, cases[i].status);
    }
    rnic_mem_read(w.c->r, w.read_only.bus, octets, sizeof(octets));
    g_assert_cmpmem(octets, sizeof(octets), filled, sizeof(filled));
    rnic_mem_read(w.c->r, w.foreign.bus, octets, sizeof(octets));
    g_assert_cmpmem(octets, sizeof(octets), filled, sizeof(filled));
    world_cleanup(&w);
    check_receive_rights();
    rnic_shows("V7.4.1-4 V8.1.2.2-9 V8.3.2-5 V9.3.2.1-3 V9.5.2-6 V9.5.2-8 "
               "V9.5.2-10");
}

/*
 * Who is told, and in which one of the three ways: the command's status, the CQE
 * on the CQ of the WR's own queue, the event.
 */
static void test_one_way_each(void)
{
    World w;
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    RnicWr wr;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    wr = connection_wr(w.c, RNIC_SQ_SEND, BAD_ID, 64, 8);
    wr.flags = 0;
    sge_unknown(&w, &wr);
    check_sq_error(&w, wqe, rnic_encode_wr(&wr, wqe), RNIC_SQ_SEND,
                   RNIC_WC_INVALID_STAG);
    connection_recycle(w.c);
    check_receive_error(&w, sge_unknown, RNIC_WC_INVALID_STAG);

    /* The peer's: an event, and of completions only the flushed one. */
    connection_establish(w.c, NULL);
    connection_recv(w.c, 5, 0, 8);
    wire_put_write(w.c->peer, 0xdeadbe00, 0, "x", 1);
    wire_expect_terminate(w.c->peer, 0x1100);
    g_assert_cmpint(wire_end(w.c->peer), ==, WIRE_FIN);
    rnic_expect_async(w.c->r, RNIC_AE_TAGGED_INVALID_STAG, w.c->qp.number);
    g_assert_cmpint(rnic_qp_state(w.c->r, &w.c->qp), ==, RNIC_QPS_TERMINATE);
    wire_shutdown(w.c->peer);
    rnic_wait_qp_state(w.c->r, &w.c->qp, RNIC_QPS_ERROR);
    rnic_expect_cqe(w.c->r, &w.c->recv_cq, 5, RNIC_WC_FLUSHED);
    connection_recycle(w.c);

    /* A command's: its status. */
    connection_establish(w.c, NULL);
    connection_recv(w.c, 6, 0, 8);
    g_assert_cmpuint(rnic_modify_qp_enables(w.c->r, &w.c->qp, 1u << 31), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(rnic_admin_object(w.c->r, RNIC_ADMIN_DESTROY_CQ,
                                       w.c->send_cq.number), ==,
                     RNIC_ST_CQ_IN_USE);
    g_assert_cmpuint(rnic_admin_object(w.c->r, RNIC_ADMIN_DEALLOC_STAG, 0),
                     ==, RNIC_ST_INVALID_STAG);
    rnic_settle(w.c->r);
    rnic_expect_no_async(w.c->r);
    rnic_expect_no_cqe(w.c->r, &w.c->send_cq);
    rnic_expect_no_cqe(w.c->r, &w.c->recv_cq);
    wire_put_send(w.c->peer, WIRE_SEND, 0, "12345678", 8);
    rnic_expect_cqe(w.c->r, &w.c->recv_cq, 6, RNIC_WC_SUCCESS);
    world_cleanup(&w);
    rnic_shows("V6.2.2.3-5 V6.6.2.5-1 V8.2.4-7 V8.3-1 V8.3.2-2");
}

/* A reserved field of a receive WQE. */
static void test_receive_reserved(void)
{
    Connection *c = connection_new(NULL);

    connection_recv(c, 1, 0, 64);
    rnic_mem_write32(c->r, c->qp.memory + c->qp.rq_offset + 12, 1);
    wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_INVALID_WQE);
    connection_free(c);
}

/*
 * A WQE of the send queue in a ring of receives is no Send, but a receive that is
 * wrong; the opcode that receives have in a CQE is none of the send queue.
 */
static void check_send_in_receives(bool shared, uint8_t opcode)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    RnicSrq srq;
    Connection *c;
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    uint64_t ring;
    RnicWr wr;

    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) {
        .srq = shared ? &srq : NULL });
    ring = shared ? srq.memory + RNIC_QUEUE_RECORD_SIZE
                  : c->qp.memory + c->qp.rq_offset;
    connection_establish(c, NULL);
    if (shared) {
        rnic_post_srq_recv(r, &srq, 1, 0, NULL);
    } else {
        connection_recv(c, 1, 0, 64);
    }
    wr = connection_wr(c, opcode, 0x1122334455667788, 0, 8);
    rnic_encode_wr(&wr, wqe);
    rnic_mem_write(r, ring, wqe, 32);
    wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(r, &c->recv_cq, ldq_le_p(wqe), RNIC_WC_INVALID_WQE);
    rnic_settle(r);
    rnic_expect_no_cqe(r, &c->send_cq);
    connection_free(c);
}

static void test_send_in_receives(void)
{
    World w;
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    RnicWr wr;

    check_send_in_receives(false, RNIC_SQ_SEND);
    check_send_in_receives(false, RNIC_SQ_RDMA_WRITE);
    check_send_in_receives(true, RNIC_SQ_SEND);
    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    wr = connection_wr(w.c, RNIC_SQ_SEND, BAD_ID, 0, 8);
    rnic_encode_wr(&wr, wqe);
    wqe[offsetof(struct rnic_sq_wqe, opcode)] = 0;
    check_sq_error(&w, wqe, 1, 0, RNIC_WC_INVALID_WQE);
    world_cleanup(&w);
    rnic_shows("V8.1.2.1-3");
}

/*
 * The CQ of the queue that the WR was posted to; of an S-RQ's, that of the QP which
 * took it.
 */
static void test_right_cq(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    struct rnic_sge unknown = { .stag = cpu_to_le32(0xdeadbe00),
                                .length = cpu_to_le32(8) };
    Connection *c[2];
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    for (int i = 0; i < 2; i++) {
        c[i] = connection_prepare_on(r, &(ConnectionOptions) { .srq = &srq });
        connection_establish(c[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        struct rnic_cqe cqe;

        rnic_post_srq_recv(r, &srq, 10 + i, 1, &unknown);
        wire_put_send(c[i]->peer, WIRE_SEND, 0, "12345678", 8);
        wire_expect_terminate(c[i]->peer, 0);
        cqe = rnic_expect_cqe(r, &c[i]->recv_cq, 10 + i,
                              RNIC_WC_INVALID_STAG);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c[i]->qp.number);
        g_assert_cmphex(cqe.flags & (RNIC_CQE_RECEIVE | RNIC_CQE_SRQ), ==,
                        RNIC_CQE_RECEIVE | RNIC_CQE_SRQ);
        rnic_settle(r);
        rnic_expect_no_cqe(r, &c[i]->send_cq);
        rnic_expect_no_cqe(r, &c[!i]->recv_cq);
        connection_recycle(c[i]);
        connection_establish(c[i], NULL);
        connection_post(c[i], RNIC_SQ_SEND, 20 + i, CONNECTION_MR_SIZE, 1);
        wire_expect_terminate(c[i]->peer, 0);
        rnic_expect_cqe(r, &c[i]->send_cq, 20 + i, RNIC_WC_BASE_BOUNDS);
        rnic_settle(r);
        rnic_expect_no_cqe(r, &c[i]->recv_cq);
        rnic_expect_no_cqe(r, &c[!i]->send_cq);
        rnic_expect_no_async(r);
    }
    connection_free_second(c[1]);
    connection_free(c[0]);
    rnic_shows("V8.3.2-1");
}

/* ------------------------------------------------------- one octet too many */

/* Of an SGE, of a Bind, of a message: to the octet. */
static void test_bounds(void)
{
    Connection *c = connection_new(&stag_options);
    StagRegion region = stag_region(c->r, 2);
    uint32_t mw = stag_alloc_mw(c->r, c->r->pd, 1);
    uint8_t data[100] = { }, got[100];
    StagBind bind;
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 5, 0, 8);

    stag_register(c->r, &region);
    wr.sge[0].stag = cpu_to_le32(region.stag);
    wr.sge[0].to = cpu_to_le64(region.va + region.length - 8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    wr.sge[0].length = cpu_to_le32(9);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_BASE_BOUNDS);
    stag_reconnect(c);

    bind = stag_window(mw, &region, region.va + 1, region.length,
                       RNIC_ACCESS_REMOTE_READ);
    g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_BASE_BOUNDS);
    stag_reconnect(c);
    bind.length--;
    g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    /* The sink of a Read may be a window, which ends where the region does. */
    wr = connection_wr(c, RNIC_SQ_RDMA_READ, 5, 0, 2);
    wr.sge[0].stag = cpu_to_le32(mw);
    wr.sge[0].to = cpu_to_le64(region.va);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_BASE_BOUNDS);
    stag_reconnect(c);
    g_assert_cmpuint(stag_invalidate(c, mw), ==, RNIC_WC_SUCCESS);

    connection_recv(c, 6, 0, 99);
    wire_put_send(c->peer, WIRE_SEND, 0, data, 99);
    rnic_expect_cqe(c->r, &c->recv_cq, 6, RNIC_WC_SUCCESS);
    connection_recv(c, 7, 0, 99);
    wire_put_send(c->peer, WIRE_SEND, 0, data, 100);
    wire_expect_terminate(c->peer, RNIC_TERMINATE_MESSAGE_TOO_LONG);
    rnic_expect_cqe(c->r, &c->recv_cq, 7, RNIC_WC_MESSAGE_TOO_LONG);
    connection_free(c);
    rnic_shows("V9.5.2-7");
}

/* A receive of 4 GiB, of the QP's own queue or of an S-RQ, takes none of 8 octets. */
static void check_receive_length(bool of_srq)
{
    enum { HALF = 0x80000000 };
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    struct rnic_sge sge[2];
    uint8_t got[8];
    Connection *c;
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) {
        .srq = of_srq ? &srq : NULL });
    connection_establish(c, NULL);
    sge[0] = sge[1] = rnic_sge(&c->mr, 0, HALF);
    connection_fill(c, 0, "........", 8);
    if (of_srq) {
        rnic_post_srq_recv(r, &srq, 1, 2, sge);
    } else {
        rnic_post_recv(r, &c->qp, 1, 2, sge);
    }
    wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(r, &c->recv_cq, 1, RNIC_WC_INVALID_LENGTH);
    rnic_settle(r);
    rnic_expect_no_async(r);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "........", 8);
    connection_free(c);
}

/* A message has at most 2^32 - 1 octets. */
static void test_total_length(void)
{
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_RDMA_WRITE,
        RNIC_SQ_RDMA_READ,
    };
    World w;
    ConnectionOptions options = {
        .enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                   RNIC_QP_READ_LIST };

    world_init(&w, &options);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        RnicWr wr;

        connection_establish(w.c, &options);
        wr = connection_wr(w.c, opcodes[i], BAD_ID, 0, 8);
        sge_total(&w, &wr);
        check_sq_error(&w, wqe, rnic_encode_wr(&wr, wqe), opcodes[i],
                       RNIC_WC_INVALID_LENGTH);
        connection_recycle(w.c);
    }
    world_cleanup(&w);
    check_receive_length(false);
    check_receive_length(true);
    rnic_shows("V9.5.2-21");
}

/* ----------------------------------------------------------- broken queues */

/* All slots of the ring have a good WQE, which has been used. */
static void use_all_receives(Connection *c)
{
    for (uint32_t i = 0; i < c->qp.rq_depth; i++) {
        connection_recv(c, 1, 0, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    }
}

static void use_all_sends(Connection *c)
{
    uint32_t first = c->qp.sq_producer;
    uint8_t got[8];

    for (uint32_t msn = 1; c->qp.sq_producer - first < c->qp.sq_depth; msn++) {
        connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, msn, got, 8);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    }
}

/* More in the ring than it holds: nothing of it is done. */
static void test_producer_overshoot(void)
{
    for (int rq = 0; rq < 2; rq++) {
        Connection *c = connection_new(NULL);

        if (rq) {
            use_all_receives(c);
            c->qp.rq_producer += c->qp.rq_depth + 1;
            rnic_ring_rq(c->r, &c->qp);
            wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        } else {
            use_all_sends(c);
            c->qp.sq_producer += c->qp.sq_depth + 1;
            rnic_ring_sq(c->r, &c->qp);
        }
        wire_expect_terminate(c->peer, 0x0207);
        rnic_expect_async(c->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
        wire_shutdown(c->peer);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                           c->qp.number), ==, RNIC_ST_OK);
        connection_free(c);
    }
    rnic_shows("V8.3.3-19 V9.5.3-31");
}

/* A good WQE of which not all units are posted. */
static void test_units_not_posted(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 8);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    uint32_t units;

    wr.num_sge = 3;
    wr.sge[1] = wr.sge[2] = wr.sge[0];
    units = rnic_encode_wr(&wr, wqe);
    g_assert_cmpuint(units, >, 1);
    rnic_store_wqe(c->r, &c->qp, wqe, units);
    c->qp.sq_producer--;
    rnic_ring_sq(c->r, &c->qp);
    wire_expect_terminate(c->peer, 0x0207);
    rnic_expect_async(c->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
}

/* Queue memory that is nowhere. */
static void test_queue_unreachable(void)
{
    Connection *c = connection_prepare(NULL);
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe = rnic_qp_command(c->r, &init, &c->qp);
    struct rnic_admin_cqe cqe;
    uint64_t list = rnic_alloc(c->r, 4096);
    uint64_t entry;

    /* The record is there, the rings are not. */
    entry = cpu_to_le64(c->qp.memory);
    rnic_mem_write(c->r, list, &entry, 8);
    for (int i = 1; i < 16; i++) {
        entry = cpu_to_le64(RNIC_TEST_NOWHERE + i * 4096);
        rnic_mem_write(c->r, list + 8 * i, &entry, 8);
    }
    sqe.create_qp.memory.pages.addr = cpu_to_le64(list);
    sqe.create_qp.memory.pages.count = cpu_to_le32(
        DIV_ROUND_UP(32768 + (init.rq_depth << init.rq_shift), 4096));
    sqe.create_qp.memory.pages.level = RNIC_PAGE_LIST_DIRECT;
    sqe.create_qp.memory.ring_offset[0] = cpu_to_le32(4096);
    sqe.create_qp.memory.ring_offset[1] = cpu_to_le32(32768);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    c->qp.number = le32_to_cpu(cqe.number);
    connection_establish(c, NULL);
    c->qp.sq_producer++;
    rnic_ring_sq(c->r, &c->qp);
    wire_expect_terminate(c->peer, 0x0207);
    rnic_expect_async(c->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    connection_free(c);
}

/* Work that waits until the QP ends: of the SQ, or of the RQ. */
static void post_waiting(Connection *c, bool send, uint64_t wr_id)
{
    WireRead read;

    if (send) {
        connection_post(c, RNIC_SQ_RDMA_READ, wr_id, 0, 8);
        wire_get_read_request(c->peer, 1, &read);
    } else {
        connection_recv(c, wr_id, 0, 8);
    }
}

/* A CQ that is full: its QP ends, but not the QP's other CQ, nor another QP. */
static void check_cq_overflow(bool receive)
{
    Connection *a = connection_new(&(ConnectionOptions) { .cq_depth = 2 });
    Connection *b = connection_prepare_second(a, NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_CQ);
    struct rnic_admin_cqe cqe;
    struct rnic_aeqe cq_event, qp_event;
    RnicCq *full = receive ? &a->recv_cq : &a->send_cq;
    RnicCq *good = receive ? &a->send_cq : &a->recv_cq;
    uint8_t got[8];
    WireTerminate t;

    /* What Create was asked for is what there is. */
    sqe.object.number = cpu_to_le32(full->number);
    g_assert_cmpuint(rnic_admin(a->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, 2);
    connection_establish(b, NULL);
    post_waiting(a, receive, 9);
    for (int i = 0; i < 3; i++) {
        if (receive) {
            connection_recv(a, i, 0, 8);
            wire_put_send(a->peer, WIRE_SEND, 0, "12345678", 8);
        } else {
            connection_post(a, RNIC_SQ_SEND, i, 0, 8);
            wire_get_send(a->peer, WIRE_SEND, i + 1, got, 8);
        }
    }
    rnic_eq_wait(a->r, &a->r->async_eq, &cq_event);
    rnic_eq_wait(a->r, &a->r->async_eq, &qp_event);
    if (cq_event.resource == RNIC_RESOURCE_QP) {
        struct rnic_aeqe swap = cq_event;

        cq_event = qp_event;
        qp_event = swap;
    }
    g_assert_cmpint(le16_to_cpu(cq_event.event), ==, RNIC_AE_CQ_OVERFLOW);
    g_assert_cmpint(cq_event.resource, ==, RNIC_RESOURCE_CQ);
    g_assert_cmphex(le32_to_cpu(cq_event.number), ==, full->number);
    g_assert_cmpint(le16_to_cpu(qp_event.event), ==,
                    receive ? RNIC_AE_CQ_RQ_ERROR : RNIC_AE_CQ_SQ_ERROR);
    g_assert_cmpint(qp_event.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmphex(le32_to_cpu(qp_event.number), ==, a->qp.number);
    wire_get_terminate(a->peer, &t);
    g_assert_cmphex(t.code, ==, 0x0207);
    g_assert_cmphex(t.flags, ==, 0);
    g_assert_cmpuint(t.length, ==, 4);
    g_assert_cmpint(rnic_qp_state(a->r, &a->qp), ==, RNIC_QPS_TERMINATE);
    wire_shutdown(a->peer);
    rnic_wait_qp_state(a->r, &a->qp, RNIC_QPS_ERROR);
    rnic_settle(a->r);
    rnic_expect_no_async(a->r);
    /* What was on it is still good. */
    rnic_expect_cqe(a->r, full, 0, RNIC_WC_SUCCESS);
    rnic_expect_cqe(a->r, full, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(a->r, good, 9, RNIC_WC_FLUSHED);
    for (uint32_t i = 1; i <= 5; i++) {
        connection_recv(b, i, 0, 8);
        wire_put_send(b->peer, WIRE_SEND, 0, "12345678", 8);
        rnic_expect_cqe(b->r, &b->recv_cq, i, RNIC_WC_SUCCESS);
        connection_post(b, RNIC_SQ_SEND, i, 0, 8);
        wire_get_send(b->peer, WIRE_SEND, i, got, 8);
        rnic_expect_cqe(b->r, &b->send_cq, i, RNIC_WC_SUCCESS);
    }
    rnic_expect_no_async(a->r);
    g_assert_cmpuint(rnic_admin_object(a->r, RNIC_ADMIN_DESTROY_QP,
                                       a->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(a->r, RNIC_ADMIN_DESTROY_CQ,
                                       full->number), ==, RNIC_ST_OK);
    connection_free_second(b);
    connection_free(a);
}

static void overflow_with(Connection *c, bool receive, uint64_t wr_id,
                          uint32_t msn)
{
    uint8_t got[8];

    if (receive) {
        connection_recv(c, wr_id, 0, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    } else {
        connection_post(c, RNIC_SQ_SEND, wr_id, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, msn, got, 8);
    }
}

/* One CQ of three QPs: it fails once, and each that it cannot serve has its event. */
static void check_shared_cq_overflow(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    Connection *c[3];
    RnicCq cq;

    rnic_create_cq(r, &cq, 2, r->comp_eq.number);
    for (int i = 0; i < 3; i++) {
        c[i] = connection_prepare_on(r, &(ConnectionOptions) { .cq = &cq });
        connection_establish(c[i], NULL);
    }
    overflow_with(c[0], false, 0, 1);
    overflow_with(c[1], true, 1, 1);
    rnic_settle(r);
    for (int i = 0; i < 3; i++) {
        bool receive = i == 1;

        overflow_with(c[i], receive, 10 + i, i == 0 ? 2 : 1);
        if (i == 0) {
            rnic_expect_async(r, RNIC_AE_CQ_OVERFLOW, cq.number);
        }
        rnic_expect_async(r, receive ? RNIC_AE_CQ_RQ_ERROR
                                     : RNIC_AE_CQ_SQ_ERROR, c[i]->qp.number);
        wire_expect_terminate(c[i]->peer, 0x0207);
        g_assert_cmpint(rnic_qp_state(r, &c[i]->qp), ==, RNIC_QPS_TERMINATE);
        /* Those that it has not hit go on. */
        for (int k = i + 1; k < 3; k++) {
            g_assert_cmpint(rnic_qp_state(r, &c[k]->qp), ==, RNIC_QPS_RTS);
        }
    }
    rnic_settle(r);
    rnic_expect_no_async(r);
    rnic_expect_cqe(r, &cq, 0, RNIC_WC_SUCCESS);
    rnic_expect_cqe(r, &cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(r, &cq);
    for (int i = 0; i < 3; i++) {
        connection_free_second(c[i]);
    }
    rnic_quit(r);
}

/*
 * A CQE that cannot be made has nothing to do with the large message that is going out:
 * the Terminate comes within it, and names no header.
 */
static void check_overflow_mid_message(void)
{
    enum { LARGE = 16 * 1024 * 1024 };
    Connection *c = connection_new(&(ConnectionOptions) { .cq_depth = 2 });
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 1, .num_sge = 1,
                  .remote_stag = 7 };
    uint64_t got = 0;
    WireSegment segment;
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 8);
    rnic_settle(c->r);
    for (int i = 0; i < 3; i++) {
        connection_recv(c, i, 0, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    }
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
    for (;;) {
        wire_get_segment(c->peer, &segment);
        if (segment.opcode != WIRE_WRITE) {
            break;
        }
        g_free(segment.payload);
        got += segment.length;
    }
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_assert_cmpuint(segment.length, ==, 4);
    g_assert_cmphex((uint32_t)ldl_be_p(segment.payload), ==, 0x02070000);
    g_free(segment.payload);
    g_assert_cmpuint(got, <, LARGE);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    connection_free(c);
}

static void test_cq_overflow(void)
{
    check_cq_overflow(false);
    check_cq_overflow(true);
    check_shared_cq_overflow();
    check_overflow_mid_message();
    rnic_shows("V5.3.1-2 V5.3.1-4 V5.3.1-5 V8.3.3-17 V9.2.3.1-2 V9.5.3-32 "
               "R8.1.1-10 V6.4-9 V9.5.3-29 V10.4.1-2");
}

/* Whose event it is: a QP's, a CQ's, an S-RQ's, or no one's but the device's. */
static void test_event_records(void)
{
    ConnectionOptions options = {
        .properties = ",netdev=net0",
        .arguments = "-netdev hubport,id=net0,hubid=0",
        .cq_depth = 2,
    };
    Connection *c = connection_new(&options);
    RnicSrqInit init = rnic_srq_default(c->r);
    Connection *other;
    struct rnic_aeqe aeqe;
    uint8_t got[8];
    RnicSrq srq;

    init.limit = 1;
    rnic_create_srq(c->r, &srq, &init);
    other = connection_prepare_second(c, &(ConnectionOptions) { .srq = &srq });
    connection_establish(other, NULL);

    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'set_link', 'arguments': "
                             "{ 'name': 'net0', 'up': false }}");
    aeqe = rnic_expect_async(c->r, RNIC_AE_LINK_CHANGE, 0);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_NONE);

    rnic_post_srq_recv(c->r, &srq, 1, 0, NULL);
    wire_put_send(other->peer, WIRE_SEND, 0, NULL, 0);
    aeqe = rnic_expect_async(c->r, RNIC_AE_SRQ_LIMIT, srq.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_SRQ);

    wire_put_write(other->peer, 0xdeadbe00, 0, "x", 1);
    aeqe = rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG,
                             other->qp.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);

    for (int i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, i + 1, got, 8);
    }
    aeqe = rnic_expect_async(c->r, RNIC_AE_CQ_OVERFLOW, c->send_cq.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_CQ);
    aeqe = rnic_expect_async(c->r, RNIC_AE_CQ_SQ_ERROR, c->qp.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V9.4.2-3");
}

/* Figure 12: what is nobody's segment has no header in its Terminate. */
static void test_figure_12(void)
{
    World w;
    WireTerminate t;
    RnicWr wr;

    world_init(&w, NULL);
    for (int building = 0; building < 2; building++) {
        connection_establish(w.c, NULL);
        if (building) {
            wr = connection_wr(w.c, RNIC_SQ_SEND, 1, 0, 8);
            sge_unknown(&w, &wr);
            rnic_post_send(w.c->r, &w.c->qp, &wr);
        } else {
            g_assert_cmpuint(rnic_modify_qp_state(w.c->r, &w.c->qp,
                                                  RNIC_QPS_TERMINATE),
                             ==, RNIC_ST_OK);
        }
        t = wire_expect_terminate(w.c->peer, 0x0000);
        g_assert_cmphex(t.flags, ==, 0);
        g_assert_cmpuint(t.length, ==, 4);
        connection_recycle(w.c);
    }
    world_cleanup(&w);
    check_cq_overflow(false);
    check_cq_overflow(true);
    rnic_shows("V6.4-14");
}

/* A CQ whose memory is nowhere, of one queue or the other. */
static void check_cq_unreachable(bool receive)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    struct rnic_admin_cqe cqe;
    uint16_t qp_event = receive ? RNIC_AE_CQ_RQ_ERROR : RNIC_AE_CQ_SQ_ERROR;
    struct rnic_aeqe of_cq, of_qp;
    RnicQpInit init;
    RnicCq bad = { };
    WireTerminate t;

    sqe.create_cq.depth = cpu_to_le32(16);
    sqe.create_cq.eqn = cpu_to_le32(c->r->comp_eq.number);
    sqe.create_cq.memory.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    sqe.create_cq.memory.pages.count = cpu_to_le32(1);
    sqe.create_cq.memory.pages.page_shift = 12;
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    bad.number = le32_to_cpu(cqe.number);
    init = rnic_qp_default(c->r, receive ? &c->send_cq : &bad,
                           receive ? &bad : &c->recv_cq);
    rnic_create_qp(c->r, &c->qp, &init);
    connection_establish(c, NULL);
    overflow_with(c, receive, 1, 1);
    t = wire_expect_terminate(c->peer, 0x0207);
    g_assert_cmphex(t.flags, ==, 0);
    rnic_eq_wait(c->r, &c->r->async_eq, &of_cq);
    rnic_eq_wait(c->r, &c->r->async_eq, &of_qp);
    if (of_cq.resource == RNIC_RESOURCE_QP) {
        struct rnic_aeqe swap = of_cq;

        of_cq = of_qp;
        of_qp = swap;
    }
    g_assert_cmpint(le16_to_cpu(of_cq.event), ==, RNIC_AE_CQ_ERROR);
    g_assert_cmpint(of_cq.resource, ==, RNIC_RESOURCE_CQ);
    g_assert_cmphex(le32_to_cpu(of_cq.number), ==, bad.number);
    g_assert_cmpint(le16_to_cpu(of_qp.event), ==, qp_event);
    g_assert_cmpint(of_qp.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmphex(le32_to_cpu(of_qp.number), ==, c->qp.number);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void test_cq_unreachable(void)
{
    check_cq_unreachable(false);
    check_cq_unreachable(true);
    rnic_shows("V8.3.3-17 V9.5.3-33");
}

/* ------------------------------------------------------- no event queue */

static void destroy_async_queue(Rnic *r)
{
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->async_eq.number), ==, RNIC_ST_OK);
}

/* An error, of which an event tells if there is a queue for it. */
static void make_async_event(Connection *c)
{
    connection_establish(c, NULL);
    wire_put_write(c->peer, 1, 0, "x", 1);
    wire_expect_terminate(c->peer, 0x1100);
    wire_close(c->peer);
    c->peer = NULL;
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
}

/* There is one; without it events are lost and nothing else; a new one has them. */
static void test_no_async_queue(void)
{
    enum { OLD_VECTOR = 3, NEW_VECTOR = 5, SIZE = RNIC_TEST_PAGE };
    Connection *c = connection_prepare(NULL);
    Rnic *r = c->r;
    struct rnic_admin_sqe second = rnic_command(RNIC_ADMIN_CREATE_EQ);
    uint8_t left[SIZE], now[SIZE];
    uint64_t old;

    rnic_msix_enable(r);
    destroy_async_queue(r);
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, OLD_VECTOR, 16);
    make_async_event(c);
    rnic_expect_async(r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    RNIC_UNTIL(r, rnic_msix_fired(r, OLD_VECTOR));
    connection_recycle(c);
    second.create_eq.eq_class = RNIC_EQ_ASYNC;
    second.create_eq.depth = cpu_to_le32(16);
    second.create_eq.memory.pages = rnic_pages(r, rnic_alloc(r, SIZE), SIZE);
    second.create_eq.memory.ring_offset[0] =
        cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(r, &second, NULL), ==, RNIC_ST_EQ_IN_USE);
    /* Switched off. */
    destroy_async_queue(r);
    old = r->async_eq.memory;
    rnic_mem_read(r, old, left, SIZE);
    make_async_event(c);
    rnic_settle(r);
    g_assert_false(rnic_msix_fired(r, OLD_VECTOR));
    /* Replaced: what was before is lost, what comes goes there alone. */
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, NEW_VECTOR, 2);
    rnic_settle(r);
    rnic_expect_no_async(r);
    g_assert_false(rnic_msix_fired(r, NEW_VECTOR));
    connection_recycle(c);
    make_async_event(c);
    rnic_expect_async(r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_expect_no_async(r);
    RNIC_UNTIL(r, rnic_msix_fired(r, NEW_VECTOR));
    g_assert_false(rnic_msix_fired(r, OLD_VECTOR));
    rnic_mem_read(r, old, now, SIZE);
    g_assert_cmpmem(now, SIZE, left, SIZE);
    connection_free(c);
    rnic_shows("V8.3.3-1 V8.3.3-2 V8.3.3-4 V9.4.2-1 V9.4.2-2");
}

/* More events than the queue holds: none is lost, in order. */
static void test_event_queue_full(void)
{
    enum { QPS = 6 };
    Connection *c = connection_prepare(NULL);
    Connection *more[QPS];
    struct rnic_aeqe aeqe;

    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_EQ,
                                       c->r->async_eq.number), ==,
                     RNIC_ST_OK);
    rnic_create_eq(c->r, &c->r->async_eq, RNIC_EQ_ASYNC, 0, 2);
    for (int i = 0; i < QPS; i++) {
        more[i] = connection_prepare_second(c, NULL);
        connection_establish(more[i], NULL);
    }
    for (int i = 0; i < QPS; i++) {
        wire_put_terminate(more[i]->peer, 0x0207);
        wire_expect_end(more[i]->peer);
    }
    rnic_settle(c->r);
    for (int i = 0; i < QPS; i += 2) {
        for (int k = 0; k < 2; k++) {
            aeqe = rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED,
                                     more[i + k]->qp.number);
            g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, 0x0207);
        }
        rnic_settle(c->r);
        g_assert_false(rnic_eq_poll(c->r, &c->r->async_eq, &aeqe));
        rnic_write32(c->r, RNIC_REG_EQ_KICK, c->r->async_eq.number);
    }
    rnic_write32(c->r, RNIC_REG_EQ_KICK, 0xffffffff);
    rnic_write32(c->r, RNIC_REG_EQ_KICK, 0);
    for (int i = 0; i < QPS; i++) {
        connection_free_second(more[i]);
    }
    connection_free(c);
    rnic_shows("V8.3.3-5 R5.4-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/work-error/work-requests", test_work_requests);
    qtest_add_func("rnic/work-error/many-errors", test_many_errors);
    qtest_add_func("rnic/work-error/form", test_bad_form);
    qtest_add_func("rnic/work-error/zero-ord", test_zero_ord);
    qtest_add_func("rnic/work-error/behind-read", test_error_behind_read);
    qtest_add_func("rnic/work-error/flush-behind-read",
                   test_flush_behind_read);
    qtest_add_func("rnic/work-error/receives", test_receive_errors);
    qtest_add_func("rnic/work-error/one-way-each", test_one_way_each);
    qtest_add_func("rnic/work-error/event-records", test_event_records);
    qtest_add_func("rnic/work-error/figure-12", test_figure_12);
    qtest_add_func("rnic/work-error/receive-reserved",
                   test_receive_reserved);
    qtest_add_func("rnic/work-error/send-in-receives",
                   test_send_in_receives);
    qtest_add_func("rnic/work-error/right-cq", test_right_cq);
    qtest_add_func("rnic/work-error/bounds", test_bounds);
    qtest_add_func("rnic/work-error/total-length", test_total_length);
    qtest_add_func("rnic/work-error/overshoot", test_producer_overshoot);
    qtest_add_func("rnic/work-error/units-not-posted",
                   test_units_not_posted);
    qtest_add_func("rnic/work-error/queue-unreachable",
                   test_queue_unreachable);
    qtest_add_func("rnic/work-error/cq-overflow", test_cq_overflow);
    qtest_add_func("rnic/work-error/cq-unreachable", test_cq_unreachable);
    qtest_add_func("rnic/work-error/no-event-queue", test_no_async_queue);
    qtest_add_func("rnic/work-error/event-queue-full", test_event_queue_full);
    return g_test_run();
}
