/*
 * rnic: windows of a PD, which every QP of the PD binds and is served by
 * (InfiniBand's type 1; manual, deviations)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define RR RNIC_ACCESS_REMOTE_READ
#define RW RNIC_ACCESS_REMOTE_WRITE
#define LOCAL (RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE)

/* 0xLTCC of RFC 5040 4.8 and RFC 5041 7.2. */
#define WRITE_INVALID_STAG 0x1100
#define WRITE_BOUNDS 0x1101
#define WRITE_NOT_OF_STREAM 0x1102
#define READ_INVALID_STAG 0x0100
#define READ_NOT_OF_STREAM 0x0103
#define CANNOT_INVALIDATE 0x0109

/* Two QPs of one PD, one of another, and a window of the first PD. */
typedef struct World {
    Connection *qp[2];
    Connection *stranger;
    uint32_t strange_pd;
    Rnic *r;
    struct rnic_counters before;
    StagRegion mr;
    uint32_t mw;                /* key 0x11 */
} World;

static Connection *another_qp(World *w, uint32_t pd)
{
    uint32_t own = w->r->pd;
    Connection *c;

    w->r->pd = pd;
    c = connection_prepare_second(w->qp[0], &stag_options);
    w->r->pd = own;
    connection_establish(c, &stag_options);
    return c;
}

static uint16_t try_alloc(Rnic *r, uint8_t window_of_pd, uint32_t *stag)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_MW);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    sqe.alloc_stag.key = 0x11;
    sqe.alloc_stag.window_of_pd = window_of_pd;
    status = rnic_admin(r, &sqe, &cqe);
    *stag = le32_to_cpu(cqe.number);
    return status;
}

static void world_init(World *w)
{
    w->qp[0] = connection_new(&stag_options);
    w->r = w->qp[0]->r;
    w->before = rnic_query_counters(w->r);
    w->qp[1] = another_qp(w, w->r->pd);
    w->strange_pd = rnic_alloc_pd(w->r);
    w->stranger = another_qp(w, w->strange_pd);
    w->mr = stag_region(w->r, 4);
    w->mr.access = LOCAL | RNIC_ACCESS_MW_BIND;
    stag_register(w->r, &w->mr);
    g_assert_cmpuint(try_alloc(w->r, 1, &w->mw), ==, RNIC_ST_OK);
}

static void drop_qp(World *w, Connection *c)
{
    if (c->peer) {
        connection_recycle(c);
    }
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->send_cq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_CQ,
                                       c->recv_cq.number), ==, RNIC_ST_OK);
    stag_dealloc(w->r, c->mr.stag);
    connection_free_second(c);
}

/* The window and the region go; nothing else may be left of the test. */
static void world_cleanup(World *w)
{
    stag_dealloc(w->r, w->mw);
    stag_dealloc(w->r, w->mr.stag);
    drop_qp(w, w->qp[1]);
    drop_qp(w, w->stranger);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DEALLOC_PD,
                                       w->strange_pd), ==, RNIC_ST_OK);
    stag_assert_no_leak(w->r, &w->before);
    connection_free(w->qp[0]);
}

/* @length octets from octet @offset of the region on, with key @key. */
static StagBind binding(const World *w, uint8_t key, uint64_t offset,
                        uint64_t length)
{
    return stag_window((w->mw & ~0xffu) | key, &w->mr, w->mr.va + offset,
                       length, RR | RW);
}

static void bind_ok(Connection *c, const StagBind *bind)
{
    g_assert_cmpuint(stag_bind(c, bind), ==, RNIC_WC_SUCCESS);
}

static StagBind nothing(const World *w, uint8_t key)
{
    return (StagBind) { .mw = (w->mw & ~0xffu) | key };
}

/* The peer of @c writes and reads the first and the last octet. */
static void assert_served(Connection *c, const StagBind *bind)
{
    uint8_t got;

    stag_peer_writes(c, bind->mw, bind->va, "f", 1);
    stag_peer_writes(c, bind->mw, bind->va + bind->length - 1, "l", 1);
    stag_peer_reads(c, bind->mw, bind->va, &got, 1);
    g_assert_cmphex(got, ==, 'f');
    stag_peer_reads(c, bind->mw, bind->va + bind->length - 1, &got, 1);
    g_assert_cmphex(got, ==, 'l');
}

static void assert_refused(Connection *c, const StagBind *bind, uint16_t write,
                           uint16_t read)
{
    stag_peer_write_refused(c, bind->mw, bind->va, 1, write);
    stag_peer_read_refused(c, bind->mw, bind->va, 1, read);
}

static void assert_gone(Connection *c, const StagBind *bind)
{
    assert_refused(c, bind, WRITE_INVALID_STAG, READ_INVALID_STAG);
}

static uint32_t bound_windows(const World *w)
{
    return le32_to_cpu(stag_query_mr(w->r, w->mr.stag).bound_windows);
}

/* ------------------------------------------------------------------------ */

static void test_alloc(void)
{
    ConnectionOptions without = { .features_off = RNIC_FEATURE_PD_WINDOW };
    Rnic *r = rnic_boot_up("");
    struct rnic_mr_attr attr;
    Connection *c;
    uint32_t mw;

    g_assert_cmpuint(try_alloc(r, 2, &mw), ==, RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(try_alloc(r, 1, &mw), ==, RNIC_ST_OK);
    attr = stag_query_mw(r, mw);
    g_assert_cmpuint(attr.kind, ==, RNIC_STAG_MW);
    g_assert_cmpuint(attr.window_of_pd, ==, 1);
    g_assert_cmpuint(attr.valid, ==, 0);
    g_assert_cmpuint(attr.qpn, ==, 0);
    stag_dealloc(r, mw);
    g_assert_cmpuint(try_alloc(r, 0, &mw), ==, RNIC_ST_OK);
    g_assert_cmpuint(stag_query_mw(r, mw).window_of_pd, ==, 0);
    stag_dealloc(r, mw);
    rnic_quit(r);

    c = connection_new(&without);
    g_assert_cmpuint(try_alloc(c->r, 1, &mw), ==, RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(try_alloc(c->r, 0, &mw), ==, RNIC_ST_OK);
    connection_free(c);
}

/* Whichever QP has bound it, both are served, and no QP of another PD. */
static void test_every_qp(void)
{
    World w;

    world_init(&w);
    for (int by = 0; by < 2; by++) {
        StagBind bind = binding(&w, 0x20 + by, 5000 + by, 100);
        struct rnic_mr_attr attr;

        bind_ok(w.qp[by], &bind);
        attr = stag_query_mw(w.r, bind.mw);
        g_assert_cmpuint(attr.valid, ==, 1);
        g_assert_cmpuint(attr.qpn, ==, 0);
        g_assert_cmphex(le32_to_cpu(attr.mr_stag), ==, w.mr.stag);
        assert_served(w.qp[0], &bind);
        assert_served(w.qp[1], &bind);
        assert_refused(w.stranger, &bind, WRITE_NOT_OF_STREAM,
                       READ_NOT_OF_STREAM);
        stag_peer_write_refused(w.qp[!by], bind.mw, bind.va + bind.length, 1,
                                WRITE_BOUNDS);
        assert_served(w.qp[0], &bind);
    }
    world_cleanup(&w);
}

/* A QP of another PD neither binds nor unbinds it. */
static void test_stranger(void)
{
    World w;
    StagBind bind, other, none;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    other = binding(&w, 0x21, 6000, 100);
    none = nothing(&w, 0x22);
    bind_ok(w.qp[0], &bind);
    g_assert_cmpuint(stag_bind(w.stranger, &other), ==, RNIC_WC_INVALID_PD);
    stag_reconnect(w.stranger);
    g_assert_cmpuint(stag_bind(w.stranger, &none), ==, RNIC_WC_INVALID_PD);
    stag_reconnect(w.stranger);
    assert_served(w.qp[1], &bind);
    world_cleanup(&w);
}

/* A Bind takes the place of the one before. */
static void test_bound_anew(void)
{
    World w;
    StagBind first, second;

    world_init(&w);
    first = binding(&w, 0x20, 5000, 100);
    second = binding(&w, 0x21, 9000, 50);
    bind_ok(w.qp[0], &first);
    bind_ok(w.qp[1], &second);
    g_assert_cmpuint(bound_windows(&w), ==, 1);
    for (int i = 0; i < 2; i++) {
        assert_gone(w.qp[i], &first);
        assert_served(w.qp[i], &second);
    }
    world_cleanup(&w);
}

static void set_enables(Connection *c, uint32_t enables)
{
    g_assert_cmpuint(rnic_modify_qp_enables(c->r, &c->qp, enables), ==,
                     RNIC_ST_OK);
}

/* A Bind that fails, whatever of it is wrong, leaves the binding before. */
static void test_refused_bind(void)
{
    World w;
    StagBind good, wrong[6];
    StagRegion foreign, unbindable;
    static const uint8_t statuses[] = {
        RNIC_WC_INVALID_REGION, RNIC_WC_INVALID_PD, RNIC_WC_ACCESS_VIOLATION,
        RNIC_WC_ACCESS_VIOLATION, RNIC_WC_BASE_BOUNDS, RNIC_WC_ACCESS_VIOLATION,
    };

    world_init(&w);
    foreign = unbindable = w.mr;
    foreign.pd = w.strange_pd;
    stag_register(w.r, &foreign);
    unbindable.access = LOCAL;
    stag_register(w.r, &unbindable);
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        wrong[i] = binding(&w, 0x30 + i, 9000, 50);
    }
    wrong[0].mr ^= 1;
    wrong[1].mr = foreign.stag;
    wrong[2].mr = unbindable.stag;
    wrong[3].access |= RNIC_ACCESS_MW_BIND;
    wrong[4].va = w.mr.va + w.mr.length - 49;
    wrong[5] = nothing(&w, 0x35);       /* on a QP that may not bind */

    good = binding(&w, 0x20, 5000, 100);
    bind_ok(w.qp[1], &good);
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_test_message("%u", i);
        if (i == 5) {
            set_enables(w.qp[0], STAG_ENABLES & ~RNIC_QP_ENABLE_BIND);
        }
        g_assert_cmpuint(stag_bind(w.qp[0], &wrong[i]), ==, statuses[i]);
        stag_reconnect(w.qp[0]);
        set_enables(w.qp[0], STAG_ENABLES);
        assert_served(w.qp[0], &good);
        assert_served(w.qp[1], &good);
        assert_gone(w.qp[1], &wrong[i]);
    }
    stag_dealloc(w.r, foreign.stag);
    stag_dealloc(w.r, unbindable.stag);
    world_cleanup(&w);
}

/* A Bind of no length of a QP's window is no way to unbind it. */
static void test_no_length_of_qp_window(void)
{
    World w;
    StagBind bind, none;
    uint32_t mw;

    world_init(&w);
    mw = stag_alloc_mw(w.r, w.r->pd, 0x11);
    bind = stag_window((mw & ~0xffu) | 0x22, &w.mr, w.mr.va, 100, RR | RW);
    none = (StagBind) { .mw = (mw & ~0xffu) | 0x23 };
    bind_ok(w.qp[0], &bind);
    g_assert_cmpuint(stag_bind(w.qp[0], &none), ==, RNIC_WC_STAG_NOT_INVALID);
    stag_reconnect(w.qp[0]);
    assert_served(w.qp[0], &bind);
    g_assert_cmpuint(stag_invalidate(w.qp[0], bind.mw), ==, RNIC_WC_SUCCESS);
    stag_dealloc(w.r, mw);
    world_cleanup(&w);
}

/* The sink of a Read of either QP; but no Read invalidates it. */
static void test_read_sink(void)
{
    World w;
    StagBind bind;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    bind_ok(w.qp[0], &bind);
    for (int invalidate = 0; invalidate < 2; invalidate++) {
        for (int i = 0; i < 2; i++) {
            Connection *c = w.qp[i];
            RnicWr wr = connection_wr(c, invalidate
                                         ? RNIC_SQ_RDMA_READ_INVALIDATE
                                         : RNIC_SQ_RDMA_READ, 7, 0, 8);
            char text[9];
            WireRead read;

            wr.remote_stag = CONNECTION_REMOTE_STAG;
            wr.sge[0].stag = cpu_to_le32(bind.mw);
            wr.sge[0].to = cpu_to_le64(bind.va);
            g_test_message("invalidate %d, QP %d", invalidate, i);
            rnic_post_send(w.r, &c->qp, &wr);
            snprintf(text, sizeof(text), "read %d %d", invalidate, i);
            wire_get_read_request(c->peer, 1, &read);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                                   text, 8);
            rnic_expect_cqe(w.r, &c->send_cq, 7, invalidate
                            ? RNIC_WC_INVALID_STAG : RNIC_WC_SUCCESS);
            rnic_mem_read(w.r, w.mr.bus[1] + 5000 - 4096, text + 1, 8);
            g_assert_cmpint(text[6], ==, '0' + invalidate);
            g_assert_cmpint(text[8], ==, '0' + i);
            stag_reconnect(c);
            assert_served(c, &bind);
        }
    }
    world_cleanup(&w);
}

/* A Bind of no length, through either QP, takes it from its region. */
static void test_unbound(void)
{
    World w;
    StagBind bind, none;

    world_init(&w);
    none = nothing(&w, 0x30);
    for (int by = 0; by < 2; by++) {
        bind = binding(&w, 0x20, 5000, 100);
        bind_ok(w.qp[0], &bind);
        bind_ok(w.qp[by], &none);
        g_assert_cmpuint(stag_query_mw(w.r, w.mw).valid, ==, 0);
        g_assert_cmpuint(bound_windows(&w), ==, 0);
        assert_gone(w.qp[0], &bind);
        assert_gone(w.qp[1], &bind);
        bind_ok(w.qp[!by], &none);
    }
    world_cleanup(&w);
}

/* No Invalidate concerns it: not of a WR, not of the peer. */
static void test_not_invalidated(void)
{
    World w;
    StagBind bind;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    bind_ok(w.qp[0], &bind);
    for (int i = 0; i < 2; i++) {
        Connection *c = w.qp[i];

        g_assert_cmpuint(stag_invalidate(c, bind.mw), ==,
                         RNIC_WC_INVALID_STAG);
        stag_reconnect(c);
        connection_recv(c, 5, 0, 8);
        wire_put_send(c->peer, WIRE_SEND_INVALIDATE, bind.mw, "payload!", 8);
        wire_expect_terminate(c->peer, CANNOT_INVALIDATE);
        rnic_expect_cqe(w.r, &c->recv_cq, 5, RNIC_WC_INVALIDATE_STAG);
        stag_reconnect(c);
        assert_served(w.qp[!i], &bind);
    }
    world_cleanup(&w);
}

/* The QP that has bound it goes; the region has to stay. */
static void test_outlives_qp(void)
{
    World w;
    StagBind bind;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    bind_ok(w.qp[1], &bind);
    drop_qp(&w, w.qp[1]);
    assert_served(w.qp[0], &bind);
    g_assert_cmpuint(stag_try_dealloc(w.r, w.mr.stag), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    w.qp[1] = another_qp(&w, w.r->pd);
    assert_served(w.qp[1], &bind);
    world_cleanup(&w);
}

/* Behind a Read: with the fence a Bind that is flushed has not been done. */
static void test_flushed(void)
{
    World w;
    StagBind bind;
    WireRead read;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    connection_post(w.qp[0], RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(w.qp[0]->peer, 1, &read);
    bind.flags = RNIC_WQE_LOCAL_FENCE;
    stag_post_bind(w.qp[0], 2, &bind);
    rnic_settle(w.r);
    wire_put_terminate(w.qp[0]->peer, READ_INVALID_STAG);
    rnic_expect_cqe(w.r, &w.qp[0]->send_cq, 1, RNIC_WC_REMOTE_TERMINATION);
    rnic_expect_cqe(w.r, &w.qp[0]->send_cq, 2, RNIC_WC_FLUSHED);
    g_assert_cmpuint(stag_query_mw(w.r, w.mw).valid, ==, 0);
    g_assert_cmpuint(bound_windows(&w), ==, 0);
    assert_gone(w.qp[1], &bind);
    stag_reconnect(w.qp[0]);

    /* When the Read is done, so is the Bind. */
    connection_post(w.qp[0], RNIC_SQ_RDMA_READ, 3, 0, 8);
    wire_get_read_request(w.qp[0]->peer, 1, &read);
    stag_post_bind(w.qp[0], 4, &bind);
    rnic_settle(w.r);
    g_assert_cmpuint(stag_query_mw(w.r, w.mw).valid, ==, 0);
    wire_put_read_response(w.qp[0]->peer, read.sink_stag, read.sink_to,
                           "readdata", 8);
    rnic_expect_cqe(w.r, &w.qp[0]->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.r, &w.qp[0]->send_cq, 4, RNIC_WC_SUCCESS);
    assert_served(w.qp[1], &bind);
    world_cleanup(&w);
}

/* A Write of the peer through one QP, while the other binds the window anew. */
static void test_bound_anew_under_write(void)
{
    uint8_t data[10] = { 'w', 'w' }, got[10], zero[10] = { 0 };
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .length = sizeof(data), .payload = data,
    };
    World w;
    StagBind bind;

    world_init(&w);
    bind = binding(&w, 0x20, 5000, 100);
    bind_ok(w.qp[0], &bind);
    segment.stag = bind.mw;
    segment.to = bind.va;
    wire_put_segment(w.qp[0]->peer, &segment);
    RNIC_UNTIL(w.r, (rnic_mem_read(w.r, w.mr.bus[1] + 5000 - 4096, got, 1),
                     got[0] == 'w'));
    bind_ok(w.qp[1], &bind);
    segment.to += 10;
    segment.last = true;
    wire_put_segment(w.qp[0]->peer, &segment);
    wire_expect_terminate(w.qp[0]->peer, WRITE_INVALID_STAG);
    rnic_mem_read(w.r, w.mr.bus[1] + 5010 - 4096, got, 10);
    g_assert_cmpmem(got, 10, zero, 10);
    stag_reconnect(w.qp[0]);
    assert_served(w.qp[0], &bind);
    world_cleanup(&w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/pd-window/alloc", test_alloc);
    qtest_add_func("rnic/pd-window/every-qp", test_every_qp);
    qtest_add_func("rnic/pd-window/stranger", test_stranger);
    qtest_add_func("rnic/pd-window/bound-anew", test_bound_anew);
    qtest_add_func("rnic/pd-window/refused-bind", test_refused_bind);
    qtest_add_func("rnic/pd-window/no-length-of-qp-window",
                   test_no_length_of_qp_window);
    qtest_add_func("rnic/pd-window/read-sink", test_read_sink);
    qtest_add_func("rnic/pd-window/unbound", test_unbound);
    qtest_add_func("rnic/pd-window/not-invalidated", test_not_invalidated);
    qtest_add_func("rnic/pd-window/outlives-qp", test_outlives_qp);
    qtest_add_func("rnic/pd-window/flushed", test_flushed);
    qtest_add_func("rnic/pd-window/bound-anew-under-write",
                   test_bound_anew_under_write);
    return g_test_run();
}
