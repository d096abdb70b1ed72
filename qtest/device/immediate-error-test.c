/*
 * rnic: commands that are refused while everything is in use: device, PD, CQ, QP and
 * STags are as before, to the octet, and go on; a QP in the midst of a message that is
 * not destroyed; and what Error and Idle leave of one in the midst of its work
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

/* --------------------------------------------------------------- the commands */

typedef struct World {
    Connection *c;
    Rnic *r;
    StagRegion region;
    StagBind window;            /* over the region */
} World;

static void refuse_object(World *w, uint16_t opcode, uint32_t number,
                          uint16_t status)
{
    g_assert_cmpuint(rnic_admin_object(w->r, opcode, number), ==, status);
}

static void refuse_modify(World *w, uint32_t mask, uint16_t status)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(w->c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(mask);
    sqe.modify_qp.next_state = RNIC_QPS_IDLE;
    sqe.modify_qp.ird = cpu_to_le16(1);
    sqe.modify_qp.ord = cpu_to_le16(1);
    sqe.modify_qp.enables = cpu_to_le32(1u << 31);
    g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, status);
}

static void refuse_stags(World *w)
{
    StagRegion other = w->region;

    refuse_object(w, RNIC_ADMIN_DEALLOC_STAG, w->region.stag,
                  RNIC_ST_MW_BOUND_TO_MR);
    refuse_object(w, RNIC_ADMIN_DEALLOC_STAG, STAG_UNKNOWN,
                  RNIC_ST_INVALID_STAG);
    other.pd = 0x777777;
    g_assert_cmpuint(stag_try_reregister(w->r, &other, STAG_CHANGE_ALL), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    other.pd = w->region.pd;
    other.access = RNIC_ACCESS_REMOTE_WRITE;
    g_assert_cmpuint(stag_try_register(w->r, &other), ==,
                     RNIC_ST_INVALID_ACCESS_RIGHTS);
}

static void refuse_all(World *w)
{
    struct rnic_admin_sqe unknown = rnic_command(0x777);

    g_assert_cmpuint(rnic_admin(w->r, &unknown, NULL), ==,
                     RNIC_ST_UNKNOWN_OPCODE);
    refuse_object(w, RNIC_ADMIN_DEALLOC_PD, w->r->pd, RNIC_ST_PD_IN_USE);
    refuse_object(w, RNIC_ADMIN_DESTROY_CQ, w->c->send_cq.number,
                  RNIC_ST_CQ_IN_USE);
    refuse_object(w, RNIC_ADMIN_DESTROY_CQ, w->c->recv_cq.number,
                  RNIC_ST_CQ_IN_USE);
    refuse_object(w, RNIC_ADMIN_DESTROY_EQ, w->r->comp_eq.number,
                  RNIC_ST_EQ_IN_USE);
    refuse_modify(w, RNIC_QP_MODIFY_STATE, RNIC_ST_INVALID_STATE_CHANGE);
    refuse_modify(w, RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_ORD,
                  RNIC_ST_INVALID_STATE_CHANGE);
    refuse_modify(w, RNIC_QP_MODIFY_IRD, RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    refuse_modify(w, RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD,
                  RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    refuse_modify(w, RNIC_QP_MODIFY_ENABLES | RNIC_QP_MODIFY_ORD,
                  RNIC_ST_INVALID_MODIFIER);
    refuse_modify(w, 1u << 31, RNIC_ST_INVALID_MODIFIER);
    refuse_stags(w);
}

/* -------------------------------------------------------------- what there is */

typedef struct Seen {
    struct rnic_device_attr device;
    struct rnic_qp_attr qp;
    struct rnic_mr_attr mr, mw;
    struct rnic_counters counters;
    struct rnic_admin_cqe cq[2];
} Seen;

static Seen see(World *w)
{
    RnicCq *const cqs[] = { &w->c->send_cq, &w->c->recv_cq };
    Seen seen = {
        .device = rnic_query_device(w->r),
        .qp = rnic_query_qp(w->r, &w->c->qp),
        .mr = stag_query_mr(w->r, w->region.stag),
        .mw = stag_query_mw(w->r, w->window.mw),
        .counters = rnic_query_counters(w->r),
    };

    for (int i = 0; i < 2; i++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_CQ);

        sqe.object.number = cpu_to_le32(cqs[i]->number);
        g_assert_cmpuint(rnic_admin(w->r, &sqe, &seen.cq[i]), ==, RNIC_ST_OK);
    }
    return seen;
}

static void assert_same(const Seen *a, const Seen *b)
{
    g_assert_cmpmem(&a->device, sizeof(a->device), &b->device,
                    sizeof(b->device));
    g_assert_cmpmem(&a->qp, sizeof(a->qp), &b->qp, sizeof(b->qp));
    g_assert_cmpmem(&a->mr, sizeof(a->mr), &b->mr, sizeof(b->mr));
    g_assert_cmpmem(&a->mw, sizeof(a->mw), &b->mw, sizeof(b->mw));
    for (int i = 0; i < 2; i++) {
        g_assert_cmpmem(&a->cq[i].cq, sizeof(a->cq[i].cq), &b->cq[i].cq,
                        sizeof(b->cq[i].cq));
    }
    g_assert_cmpuint(a->counters.pds, ==, b->counters.pds);
    g_assert_cmpuint(a->counters.cqs, ==, b->counters.cqs);
    g_assert_cmpuint(a->counters.qps, ==, b->counters.qps);
    g_assert_cmpuint(a->counters.stags, ==, b->counters.stags);
}

/* Both ways, through the region and the window, and into a receive of before. */
static void assert_goes_on(World *w)
{
    Connection *c = w->c;
    uint8_t got[8];

    wire_put_send(c->peer, WIRE_SEND, 0, "received", 8);
    rnic_expect_cqe(w->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 3, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 2, got, 8);
    rnic_expect_cqe(w->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    stag_peer_writes(c, w->region.stag, w->region.va, "region", 6);
    stag_peer_reads(c, w->window.mw, w->window.va, got, 6);
    g_assert_cmpmem(got, 6, "region", 6);
    stag_peer_writes(c, w->window.mw, w->window.va, "window", 6);
    stag_peer_reads(c, w->region.stag, w->region.va, got, 6);
    g_assert_cmpmem(got, 6, "window", 6);
    stag_register(w->r, &(StagRegion) { .pd = w->r->pd, .va = w->region.va,
        .length = 4096, .access = w->region.access, .page_shift = 12,
        .count = 1, .bus = { w->region.bus[0] } });
}

static void test_refused_in_use(void)
{
    World w = { .c = connection_new(&stag_options) };
    Connection *c = w.c;
    struct rnic_ceqe event;
    Seen before, after;
    uint8_t got[8];

    w.r = c->r;
    w.region = stag_region(w.r, 1);
    stag_register(w.r, &w.region);
    w.window = stag_window(stag_alloc_mw(w.r, w.r->pd, 3), &w.region,
                           w.region.va, 64, RNIC_ACCESS_REMOTE_READ |
                                            RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpuint(stag_bind(c, &w.window), ==, RNIC_WC_SUCCESS);
    /* A CQE that nobody has polled; the other CQ is armed. */
    connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    connection_recv(c, 2, 0, 8);
    rnic_settle(w.r);
    rnic_cq_arm(w.r, &c->recv_cq, RNIC_ARM_NEXT);
    before = see(&w);
    for (int round = 0; round < 20; round++) {
        refuse_all(&w);
    }
    after = see(&w);
    assert_same(&before, &after);
    rnic_settle(w.r);
    wire_expect_silence(c->peer);
    rnic_expect_no_async(w.r);
    g_assert_false(rnic_eq_poll(w.r, &w.r->comp_eq, &event));
    rnic_expect_no_cqe(w.r, &c->recv_cq);
    rnic_expect_cqe(w.r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(w.r, &c->send_cq);
    assert_goes_on(&w);
    rnic_eq_wait(w.r, &w.r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->recv_cq.number);
    connection_free(c);
    rnic_shows("V8.3.1-1 V8.3.1-2 V8.3.1-3 V8.3.1-5 V8.3.1-6");
}

/* ------------------------------------------------- a QP that is not destroyed */

static void put_part(Connection *c, uint32_t offset, bool last)
{
    WireSegment part = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1, .msn = 1,
        .mo = offset, .last = last, .length = 4,
        .payload = (uint8_t *)(last ? "rest" : "half"),
    };

    wire_put_segment(c->peer, &part);
}

/*
 * It has a window, and half a message in a receive that it has taken from an S-RQ: to
 * be refused leaves it that receive, and it goes on.
 */
static void test_destroy_refused(void)
{
    World w = { .r = rnic_boot_up(",mpa-rtr=off") };
    ConnectionOptions options = stag_options;
    RnicSrqInit init = rnic_srq_default(w.r);
    struct rnic_qp_attr before, after;
    struct rnic_sge sge;
    RnicSrq srq;
    uint8_t got[8];

    rnic_create_srq(w.r, &srq, &init);
    options.srq = &srq;
    w.c = connection_prepare_on(w.r, &options);
    connection_establish(w.c, &options);
    w.region = stag_region(w.r, 1);
    stag_register(w.r, &w.region);
    w.window = stag_window(stag_alloc_mw(w.r, w.r->pd, 3), &w.region,
                           w.region.va, 64, RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpuint(stag_bind(w.c, &w.window), ==, RNIC_WC_SUCCESS);
    sge = rnic_sge(&w.c->mr, 0, 8);
    rnic_post_srq_recv(w.r, &srq, 2, 1, &sge);
    put_part(w.c, 0, false);
    RNIC_UNTIL(w.r, rnic_mem_read32(w.r, srq.memory +
                    offsetof(struct rnic_srq_record, consumer)) == 1);
    before = rnic_query_qp(w.r, &w.c->qp);
    for (int i = 0; i < 3; i++) {
        refuse_object(&w, RNIC_ADMIN_DESTROY_QP, w.c->qp.number,
                      RNIC_ST_MW_BOUND_TO_QP);
    }
    after = rnic_query_qp(w.r, &w.c->qp);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    rnic_settle(w.r);
    rnic_expect_no_cqe(w.r, &w.c->recv_cq);
    put_part(w.c, 4, true);
    rnic_expect_cqe(w.r, &w.c->recv_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(w.c, 0, got, 8);
    g_assert_cmpmem(got, 8, "halfrest", 8);
    stag_peer_writes(w.c, w.window.mw, w.window.va, "window", 6);
    stag_dealloc(w.r, w.window.mw);
    connection_free(w.c);
    rnic_shows("V8.3.1-3 V9.2.5.4-2");
}

/* ------------------------------------------------------ Error, and then Idle */

/* Work of which nothing can be finished, all of it for no completion. */
static void post_stuck(Connection *c, const RnicMr *large)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, 1, 0, 64);

    wr.flags = 0;
    rnic_post_send(c->r, &c->qp, &wr);
    wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 2, 0, 0);
    wr.flags = 0;
    wr.sge[0] = rnic_sge(large, 0, large->length);
    rnic_post_send(c->r, &c->qp, &wr);
    for (int i = 3; i < 6; i++) {
        wr = connection_wr(c, RNIC_SQ_SEND, i, 0, 8);
        wr.flags = 0;
        rnic_post_send(c->r, &c->qp, &wr);
    }
    connection_recv(c, 11, 100, 64);
    connection_recv(c, 12, 200, 64);
}

static void expect_at_once(Connection *c, RnicCq *cq, uint64_t wr_id)
{
    struct rnic_cqe cqe;

    g_assert_true(rnic_cq_poll(c->r, cq, &cqe));
    g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, wr_id);
    g_assert_cmpint(cqe.status, ==, RNIC_WC_FLUSHED);
}

/* With Idle every WR is complete, and the QP has done with their memory. */
static void test_error_then_idle(void)
{
    enum { LARGE = 16 * 1024 * 1024 };
    Connection *c = connection_prepare(NULL);
    g_autofree uint8_t *octets = g_malloc(LARGE);
    g_autofree uint8_t *got = g_malloc(CONNECTION_MR_SIZE);
    WireRead read;
    ssize_t n;
    RnicMr large;

    rnic_create_mr(c->r, &large, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    rnic_mem_fill(c->r, large.bus, 0x11, LARGE);
    connection_establish(c, NULL);
    rnic_mem_fill(c->r, c->mr.bus, 0x33, CONNECTION_MR_SIZE);
    post_stuck(c, &large);
    wire_get_read_request(c->peer, 1, &read);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE) ==
                     RNIC_ST_OK);
    for (uint64_t i = 1; i < 6; i++) {
        expect_at_once(c, &c->send_cq, i);
    }
    expect_at_once(c, &c->recv_cq, 11);
    expect_at_once(c, &c->recv_cq, 12);
    rnic_mem_fill(c->r, large.bus, 0x22, LARGE);
    /* What the peer still sends is for no one. */
    memset(octets, 0x44, 64);
    wire_try_put(c->peer, octets, 64);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_mem_read(c->r, c->mr.bus, got, CONNECTION_MR_SIZE);
    for (unsigned i = 0; i < CONNECTION_MR_SIZE; i++) {
        g_assert_cmphex(got[i], ==, 0x33);
    }
    while ((n = recv(c->peer->fd, octets, LARGE, MSG_DONTWAIT)) > 0) {
        g_assert_null(memmem(octets, n, "\x22\x22\x22\x22\x22\x22\x22\x22",
                             8));
    }
    connection_free(c);
    rnic_shows("V8.2.4-9");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/immediate-error/in-use", test_refused_in_use);
    qtest_add_func("rnic/immediate-error/destroy-refused",
                   test_destroy_refused);
    qtest_add_func("rnic/immediate-error/error-then-idle",
                   test_error_then_idle);
    return g_test_run();
}
