/*
 * rnic: Shared Receive Queues (6.3, 9.2.4)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

enum { DEPTH = 8, STRIDE = 256, UNUSED = 0xabcde };

/*
 * Two QPs on one S-RQ, each with its own CQs and buffer. The S-RQ and its
 * buffer are in PD "shared", the QPs in the device's first.
 */
typedef struct World {
    Connection *holder;         /* of the device; its QP is an ordinary one */
    Rnic *r;
    uint32_t shared_pd;
    RnicSrq srq;
    RnicMr mr;                  /* of the shared PD */
    Connection *qp[2];
} World;

static ConnectionOptions options_of(World *w)
{
    return (ConnectionOptions) { .srq = &w->srq };
}

static void world_init_with(World *w, uint32_t limit, bool establish)
{
    ConnectionOptions options = options_of(w);
    RnicSrqInit init;

    w->holder = connection_prepare(NULL);
    w->r = w->holder->r;
    w->shared_pd = rnic_alloc_pd(w->r);
    init = rnic_srq_default(w->r);
    init.pd = w->shared_pd;
    init.depth = DEPTH;
    init.limit = limit;
    rnic_create_srq(w->r, &w->srq, &init);
    rnic_create_mr(w->r, &w->mr, w->shared_pd, 64 * STRIDE,
                   RNIC_TEST_ACCESS_ALL);
    for (int i = 0; i < 2; i++) {
        w->qp[i] = connection_prepare_second(w->holder, &options);
        if (establish) {
            connection_establish(w->qp[i], &options);
        }
    }
}

static void world_init(World *w)
{
    world_init_with(w, 0, true);
}

static void world_cleanup(World *w)
{
    connection_free_second(w->qp[0]);
    connection_free_second(w->qp[1]);
    connection_free(w->holder);
}

/* Part number @wr_id of the shared buffer. */
static void post(World *w, uint64_t wr_id)
{
    struct rnic_sge sge = rnic_sge(&w->mr, wr_id * STRIDE, STRIDE);

    rnic_post_srq_recv(w->r, &w->srq, wr_id, 1, &sge);
}

static void post_many(World *w, unsigned count)
{
    while (count--) {
        post(w, count);
    }
}

static void put_send(Connection *c, const char *text)
{
    wire_put_send(c->peer, WIRE_SEND, 0, text, strlen(text));
}

/* The next receive of @c is part @wr_id and holds @text. */
static void expect_receive(World *w, Connection *c, uint64_t wr_id,
                           const char *text)
{
    struct rnic_cqe cqe = rnic_expect_cqe(w->r, &c->recv_cq, wr_id,
                                          RNIC_WC_SUCCESS);
    g_autofree char *got = g_malloc0(strlen(text) + 1);

    g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, strlen(text));
    g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, !=, 0);
    g_assert_cmphex(cqe.flags & RNIC_CQE_SRQ, !=, 0);
    g_assert_cmphex(le32_to_cpu(cqe.wq_consumer), ==, w->srq.number);
    rnic_mem_read(w->r, w->mr.bus + wr_id * STRIDE, got, strlen(text));
    g_assert_cmpstr(got, ==, text);
}

static uint32_t taken(World *w)
{
    return rnic_mem_read32(w->r, w->srq.memory +
                           offsetof(struct rnic_srq_record, consumer));
}

static void reconnect(World *w, Connection *c)
{
    ConnectionOptions options = options_of(w);

    connection_recycle(c);
    connection_establish(c, &options);
}

/* Messages that nobody has to answer go from the other QP as well as ever. */
static void assert_works(World *w, Connection *c, uint64_t wr_id)
{
    post(w, wr_id);
    put_send(c, "still here");
    expect_receive(w, c, wr_id, "still here");
}

/* --------------------------------------------------------------- commands */

static void refused(Rnic *r, struct rnic_admin_sqe sqe, uint16_t status)
{
    uint32_t srqs = rnic_query_counters(r).srqs;

    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, status);
    g_assert_cmpuint(rnic_query_counters(r).srqs, ==, srqs);
}

#define REFUSED(change, status)                                         \
    do {                                                                \
        struct rnic_admin_sqe sqe_ = good;                              \
                                                                        \
        sqe_.create_srq.change;                                         \
        refused(r, sqe_, status);                                       \
    } while (0)

static void assert_created(const struct rnic_admin_cqe *cqe,
                           const RnicSrqInit *init)
{
    g_assert_cmpuint(le32_to_cpu(cqe->srq.depth), ==, init->depth);
    g_assert_cmpuint(le32_to_cpu(cqe->srq.pdn), ==, init->pd);
    g_assert_cmpuint(le32_to_cpu(cqe->srq.limit), ==, init->limit);
    g_assert_cmpuint(cqe->srq.limit_armed, ==, init->limit != 0);
    g_assert_cmpuint(cqe->srq.max_sge, ==, init->max_sge);
    g_assert_cmpuint(cqe->srq.failed, ==, 0);
}

/* CREATE_SRQ, which answers what there is. */
static void create_as_answered(Rnic *r, RnicSrq *srq, const RnicSrqInit *init)
{
    struct rnic_admin_sqe sqe = rnic_srq_command(r, init, srq);
    struct rnic_admin_cqe cqe;

    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    srq->number = le32_to_cpu(cqe.number);
    g_assert_cmphex(srq->number, !=, 0);
    assert_created(&cqe, init);
}

static void test_create(void)
{
    Rnic *r = rnic_boot_up(",max-srq=3");
    struct rnic_device_attr attr = rnic_query_device(r);
    RnicSrqInit init = rnic_srq_default(r);
    struct rnic_admin_sqe good;
    uint32_t other_pd = rnic_alloc_pd(r);
    struct rnic_admin_cqe cqe;
    RnicSrq srqs[3], extra;

    g_assert_cmpuint(le32_to_cpu(attr.max_srq), ==, 3);
    g_assert_cmpuint(le32_to_cpu(attr.srq_order), ==, RNIC_SRQ_ORDER_ARRIVAL);
    good = rnic_srq_command(r, &init, &extra);
    REFUSED(pdn = 0, RNIC_ST_INVALID_PD);
    REFUSED(pdn = cpu_to_le32(UNUSED), RNIC_ST_INVALID_PD);
    REFUSED(pdn = cpu_to_le32(r->pd | 1u << 24), RNIC_ST_INVALID_PD);
    REFUSED(depth = 0, RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSED(depth = cpu_to_le32(3), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSED(depth = cpu_to_le32(2 * le32_to_cpu(attr.max_srq_wr)),
            RNIC_ST_TOO_MANY_WRS);
    REFUSED(depth = cpu_to_le32(le32_to_cpu(attr.max_srq_wr) + 1),
            RNIC_ST_TOO_MANY_WRS);
    REFUSED(depth = cpu_to_le32(0xffffffff), RNIC_ST_TOO_MANY_WRS);
    REFUSED(max_sge = le32_to_cpu(attr.max_recv_sge) + 1,
            RNIC_ST_TOO_MANY_SGES);
    REFUSED(max_sge = 8, RNIC_ST_BAD_QUEUE_MEMORY);  /* not in 128 octets */
    REFUSED(wqe_shift = 4, RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSED(wqe_shift = 10, RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSED(wqe_shift = 8, RNIC_ST_BAD_QUEUE_MEMORY);   /* too large now */
    REFUSED(limit = cpu_to_le32(init.depth + 1), RNIC_ST_SRQ_LIMIT_RANGE);
    REFUSED(limit = cpu_to_le32(0xffffffff), RNIC_ST_SRQ_LIMIT_RANGE);
    REFUSED(doorbell_page = cpu_to_le32(1024), RNIC_ST_BAD_DOORBELL_PAGE);
    REFUSED(srqn = cpu_to_le32(1), RNIC_ST_RESERVED_NOT_ZERO);
    REFUSED(reserved = 1, RNIC_ST_RESERVED_NOT_ZERO);
    REFUSED(mask = RNIC_SRQ_MODIFY_LIMIT, RNIC_ST_INVALID_MODIFIER);
    REFUSED(memory.pages.count = 0, RNIC_ST_INVALID_PBL_SIZE);
    REFUSED(memory.ring_offset[0] = cpu_to_le32(64),
            RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSED(memory.ring_offset[1] = cpu_to_le32(128),
            RNIC_ST_BAD_QUEUE_MEMORY);
    for (int i = 0; i < 3; i++) {
        init.depth = 4 << i;
        init.max_sge = i == 2 ? le32_to_cpu(attr.max_recv_sge) : 1 + i;
        init.shift = i == 2 ? RNIC_RQ_MAX_WQE_SHIFT : init.shift;
        init.limit = init.depth - i;
        init.pd = i < 2 ? r->pd : other_pd;     /* two share one */
        create_as_answered(r, &srqs[i], &init);
        cqe = rnic_query_srq(r, &srqs[i]);
        g_assert_cmpuint(le32_to_cpu(cqe.number), ==, srqs[i].number);
        assert_created(&cqe, &init);
    }
    good = rnic_srq_command(r, &init, &extra);
    refused(r, good, RNIC_ST_INSUFFICIENT_RESOURCES);
    /* Their PDs stay. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd), ==,
                     RNIC_ST_PD_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, other_pd),
                     ==, RNIC_ST_PD_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ,
                                       srqs[1].number), ==, RNIC_ST_OK);
    rnic_create_srq(r, &srqs[1], &init);
    rnic_quit(r);
    rnic_shows("V6.3-1 V6.3-4 V6.3.1-1 V9-3 V9.2.1.2-7 V9.2.4.1-1 V9.2.4.1-2 "
               "V9.2.4.1-3 V9.2.4.1-5 V9.2.4.1-6 V9.2.4.1-7 V9.2.4.2-1");
}

static void test_modify_destroy(void)
{
    Rnic *r = rnic_boot_up("");
    RnicSrqInit init = rnic_srq_default(r);
    uint32_t bad[] = { 0, UNUSED, 0xffffffff, 1u << 24 };
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_SRQ);
    struct rnic_admin_cqe cqe;
    RnicSrq srq, none;

    rnic_create_srq(r, &srq, &init);
    cqe = rnic_query_srq(r, &srq);
    g_assert_cmpuint(cqe.srq.limit_armed, ==, 0);
    bad[3] |= srq.number;       /* one bit more than a number has */
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        none.number = bad[i];
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_QUERY_SRQ, bad[i]),
                         ==, RNIC_ST_INVALID_SRQ);
        g_assert_cmpuint(rnic_modify_srq_limit(r, &none, 1), ==,
                         RNIC_ST_INVALID_SRQ);
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ, bad[i]),
                         ==, RNIC_ST_INVALID_SRQ);
    }
    /* Arming what is armed is no error (V9.2.4.3-3). */
    for (uint32_t limit = 1; limit <= srq.depth; limit++) {
        g_assert_cmpuint(rnic_modify_srq_limit(r, &srq, limit), ==,
                         RNIC_ST_OK);
        cqe = rnic_query_srq(r, &srq);
        g_assert_cmpuint(le32_to_cpu(cqe.srq.limit), ==, limit);
        g_assert_cmpuint(cqe.srq.limit_armed, ==, 1);
    }
    g_assert_cmpuint(rnic_modify_srq_limit(r, &srq, srq.depth + 1), ==,
                     RNIC_ST_SRQ_LIMIT_RANGE);
    sqe.create_srq.srqn = cpu_to_le32(srq.number);
    sqe.create_srq.mask = 0x80;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_MODIFIER);
    cqe = rnic_query_srq(r, &srq);
    g_assert_cmpuint(le32_to_cpu(cqe.srq.limit), ==, srq.depth);
    g_assert_cmpuint(le32_to_cpu(cqe.srq.depth), ==, srq.depth);
    g_assert_cmpuint(rnic_modify_srq_limit(r, &srq, 0), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_query_srq(r, &srq).srq.limit_armed, ==, 0);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ, srq.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ, srq.number),
                     ==, RNIC_ST_INVALID_SRQ);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_QUERY_SRQ, srq.number),
                     ==, RNIC_ST_INVALID_SRQ);
    rnic_quit(r);
    rnic_shows("V6.3.8-4 V9.2.4.1-1 V9.2.4.2-3 V9.2.4.3-5 V9.2.4.3-6 "
               "V9.2.4.3-7 V9.2.4.4-3");
}

/* ------------------------------------------------------- who holds a PD */

static void assert_held(World *w, uint32_t pd)
{
    struct rnic_counters before = rnic_query_counters(w->r), after;

    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_PD_IN_USE);
    after = rnic_query_counters(w->r);
    g_assert_cmpuint(after.pds, ==, before.pds);
    g_assert_cmpuint(after.qps, ==, before.qps);
    g_assert_cmpuint(after.srqs, ==, before.srqs);
    g_assert_cmpuint(after.stags, ==, before.stags);
}

static void take_away(World *w, uint16_t opcode, uint32_t number)
{
    g_assert_cmpuint(rnic_admin_object(w->r, opcode, number), ==, RNIC_ST_OK);
}

/* Each kind of object by itself holds its PD, and works on meanwhile. */
static void test_pd_users(void)
{
    World w;
    ConnectionOptions options = stag_options;
    StagRegion region, shared;
    RnicSrqInit init;
    Connection *c;
    RnicSrq srq;
    StagBind bind;
    uint32_t pd, mw, stag;

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    init = rnic_srq_default(w.r);
    init.pd = pd;
    rnic_create_srq(w.r, &srq, &init);
    assert_held(&w, pd);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &srq, 1), ==, RNIC_ST_OK);
    take_away(&w, RNIC_ADMIN_DESTROY_SRQ, srq.number);
    /* A QP, with the buffer that comes with it gone. */
    options.pd = pd;
    c = connection_prepare_second(w.holder, &options);
    connection_establish(c, &options);
    stag_dealloc(w.r, c->mr.stag);
    assert_held(&w, pd);
    /* A region, a Shared one of the same pages in another PD, a window. */
    region = stag_region(w.r, 1);
    region.pd = pd;
    stag_register(w.r, &region);
    mw = stag_alloc_mw(w.r, pd, 9);
    bind = stag_window(mw, &region, region.va, 8, RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    assert_held(&w, pd);
    stag_peer_writes(c, bind.mw, region.va, "window", 6);
    g_assert_cmpint(stag_invalidate(c, bind.mw), ==, RNIC_WC_SUCCESS);
    connection_recycle(c);
    take_away(&w, RNIC_ADMIN_DESTROY_QP, c->qp.number);
    connection_free_second(c);
    assert_held(&w, pd);
    stag_dealloc(w.r, region.stag);
    assert_held(&w, pd);                /* the Invalid window */
    stag_dealloc(w.r, mw);
    stag = stag_alloc(w.r, pd, 1, 1, true);
    assert_held(&w, pd);                /* an STag for Fast-Register */
    stag_dealloc(w.r, stag);
    region.pd = w.r->pd;
    stag_register(w.r, &region);
    shared = region;
    shared.pd = pd;
    stag_share(w.r, region.stag, &shared);
    stag_dealloc(w.r, region.stag);
    assert_held(&w, pd);
    g_assert_cmpint(stag_query_mr(w.r, shared.stag).valid, ==, 1);
    stag_dealloc(w.r, shared.stag);
    region.pd = pd;
    stag_register(w.r, &region);
    assert_held(&w, pd);
    stag_dealloc(w.r, region.stag);
    take_away(&w, RNIC_ADMIN_DEALLOC_PD, pd);
    world_cleanup(&w);
    rnic_shows("V5.2.2-1 V9.2.2.2-2");
}

/* The driver has not said that it knows of S-RQs. */
static void test_not_accepted(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_device_attr attr;
    RnicSrqInit init;
    RnicSrq srq;

    g_assert_cmphex(rnic_read64(r, RNIC_REG_FEATURES) & RNIC_FEATURE_SRQ, !=,
                    0);
    rnic_up_with(r, rnic_features(r) & ~RNIC_FEATURE_SRQ);
    init = rnic_srq_default(r);
    refused(r, rnic_srq_command(r, &init, &srq), RNIC_ST_UNSUPPORTED);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_QUERY_SRQ, 1), ==,
                     RNIC_ST_UNSUPPORTED);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ, 1), ==,
                     RNIC_ST_UNSUPPORTED);
    srq.number = 1;
    g_assert_cmpuint(rnic_modify_srq_limit(r, &srq, 0), ==,
                     RNIC_ST_UNSUPPORTED);
    attr = rnic_query_device(r);
    g_assert_cmpuint(le32_to_cpu(attr.max_srq), ==, 0);
    g_assert_cmpuint(le32_to_cpu(attr.max_srq_wr), ==, 0);
    rnic_quit(r);
    rnic_shows("V9-3 V9.2.1.2-7 V9.2.4.1-1");
}

/* One QP keeps it, in each of its states, until the QP is destroyed. */
static void check_in_use_in_each_state(void)
{
    for (uint8_t state = RNIC_QPS_IDLE; state <= RNIC_QPS_ERROR; state++) {
        World w;
        Connection *c;
        RnicSrqInit init;
        RnicSrq srq;
        ConnectionOptions options = { .srq = &srq };

        world_init(&w);
        init = rnic_srq_default(w.r);
        rnic_create_srq(w.r, &srq, &init);
        c = connection_prepare_second(w.holder, &options);
        if (state != RNIC_QPS_IDLE) {
            connection_establish(c, &options);
        }
        if (state > RNIC_QPS_RTS) {
            /* The peer does not close: the QP stays there. */
            g_assert_cmpuint(rnic_modify_qp_state(w.r, &c->qp, state), ==,
                             RNIC_ST_OK);
        }
        g_assert_cmpint(rnic_qp_state(w.r, &c->qp), ==, state);
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                           srq.number), ==,
                         RNIC_ST_SRQ_IN_USE);
        g_assert_cmpint(rnic_qp_state(w.r, &c->qp), ==, state);
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                           c->qp.number), ==, RNIC_ST_OK);
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                           srq.number), ==, RNIC_ST_OK);
        connection_free_second(c);
        world_cleanup(&w);
    }
}

/* Of a QP with an S-RQ, and of its S-RQ while it has QPs. */
static void test_association(void)
{
    World w;
    RnicQpInit init;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    struct rnic_qp_attr attr;
    RnicQp qp;

    world_init_with(&w, 0, false);
    for (int i = 0; i < 2; i++) {
        Connection *c = i ? w.holder : w.qp[0];

        init = rnic_qp_default(w.r, &c->send_cq, &c->recv_cq);
        attr = rnic_query_qp(w.r, &c->qp);
        g_assert_cmphex(le32_to_cpu(attr.send_cqn), ==, c->send_cq.number);
        g_assert_cmphex(le32_to_cpu(attr.recv_cqn), ==, c->recv_cq.number);
        g_assert_cmphex(le32_to_cpu(attr.srqn), ==, i ? 0 : w.srq.number);
        g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, init.sq_depth);
        g_assert_cmpuint(attr.max_send_sge, ==, init.max_sge);
        g_assert_cmpuint(attr.max_write_sge, ==, init.max_sge);
        g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==,
                         i ? init.rq_depth : 0);
        g_assert_cmpuint(attr.max_recv_sge, ==, i ? init.max_sge : 0);
    }
    init = rnic_qp_default(w.r, &w.holder->send_cq, &w.holder->recv_cq);
    init.srq = &w.srq;
    sqe = rnic_qp_command(w.r, &init, &qp);
    sqe.create_qp.srqn = cpu_to_le32(UNUSED);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==, RNIC_ST_INVALID_SRQ);
    sqe.create_qp.srqn = cpu_to_le32(w.srq.number);
    /* Nothing that is said of the RQ counts, but it has no ring. */
    sqe.create_qp.rq_depth = cpu_to_le32(0xfffffff1);
    sqe.create_qp.rq_wqe_shift = 0xff;
    sqe.create_qp.max_recv_sge = 0xff;
    sqe.create_qp.memory.ring_offset[1] = cpu_to_le32(4096);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                     RNIC_ST_BAD_QUEUE_MEMORY);
    sqe.create_qp.memory.ring_offset[1] = 0;
    sqe.create_qp.rq_limit = cpu_to_le32(DEPTH + 1);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==, RNIC_ST_RQ_LIMIT_RANGE);
    sqe.create_qp.rq_limit = cpu_to_le32(DEPTH);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, 0);
    qp.number = le32_to_cpu(cqe.number);
    attr = rnic_query_qp(w.r, &qp);
    g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, 0);
    g_assert_cmpuint(attr.max_recv_sge, ==, 0);
    g_assert_cmpuint(le32_to_cpu(attr.rq_limit), ==, DEPTH);
    g_assert_cmpuint(attr.rq_limit_armed, ==, 1);

    /* In use whatever the state of the QPs. */
    g_assert_cmpuint(rnic_modify_qp_state(w.r, &w.qp[0]->qp, RNIC_QPS_ERROR),
                     ==, RNIC_ST_OK);
    for (int i = 0; i < 2; i++) {
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                           w.srq.number), ==,
                         RNIC_ST_SRQ_IN_USE);
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                           w.qp[i]->qp.number), ==,
                         RNIC_ST_OK);
    }
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                       w.srq.number), ==, RNIC_ST_SRQ_IN_USE);
    world_cleanup(&w);
    check_in_use_in_each_state();
    rnic_shows("V6.3.3-1 V6.3.4-1 V9.2.4.4-2 V9.2.5.1-4 V9.2.5.1-5 "
               "V9.2.5.2-1 V9.2.5.2-2");
}

/* ------------------------------------------------------------ data, in order */

/* Both QPs take in the order of arrival, each completes on its own CQ. */
static void test_shared_by_two(void)
{
    World w;
    char text[32];
    unsigned next = 0;

    world_init(&w);
    for (int i = 0; i < DEPTH; i++) {
        post(&w, i);
    }
    for (int i = 0; i < 5 * DEPTH; i++) {
        /* 0 0 0 1 0 0 0 1 ... */
        Connection *c = w.qp[i % 4 == 3];

        g_snprintf(text, sizeof(text), "message %d", i);
        put_send(c, text);
        expect_receive(&w, c, next % 64, text);
        rnic_expect_no_cqe(w.r, &w.qp[i % 4 != 3]->recv_cq);
        g_assert_cmpuint(taken(&w), ==, i + 1);
        next++;
        /* V6.3.5-2: room for one more at once. */
        post(&w, (i + DEPTH) % 64);
    }
    world_cleanup(&w);
    rnic_shows("V6.3-3 V6.3.5-3 V6.3.5-4 V8.2.2-11 V9.2.5.1-4 V9.3.1.2-1 "
               "V9.3.2.1-8 "
               "V10.4.2-4");
}

/* One message to @c: what its completion says is the same from an RQ and an S-RQ. */
static void check_kind(World *w, Connection *c, uint8_t opcode, uint8_t flags)
{
    struct rnic_sge sge = rnic_sge(&c->mr, 0, STRIDE);
    StagRegion region = { };
    struct rnic_cqe cqe;

    if (flags & RNIC_CQE_INVALIDATED) {
        region = stag_region(w->r, 1);
        stag_register(w->r, &region);
    }
    if (c == w->holder) {
        rnic_post_recv(w->r, &c->qp, 1, 1, &sge);
    } else {
        post(w, 1);
    }
    wire_put_send(c->peer, opcode, region.stag, "message", 7);
    cqe = rnic_expect_cqe(w->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, 7);
    g_assert_cmphex(le32_to_cpu(cqe.stag), ==, region.stag);
    g_assert_cmphex(cqe.imm, ==, 0);
    g_assert_cmphex(cqe.opcode, ==, 0);
    g_assert_cmphex(cqe.flags & ~(RNIC_CQE_PHASE | RNIC_CQE_SRQ), ==,
                    RNIC_CQE_RECEIVE | flags);
    if (region.stag) {
        g_assert_cmpint(stag_query_mr(w->r, region.stag).valid, ==, 0);
        stag_dealloc(w->r, region.stag);
    }
}

/* Every kind of Send, by a QP with an RQ and by one with an S-RQ. */
static void test_kinds(void)
{
    static const struct {
        uint8_t opcode, flags;
    } kinds[] = {
        { WIRE_SEND, 0 },
        { WIRE_SEND_SE, RNIC_CQE_SOLICITED },
        { WIRE_SEND_INVALIDATE, RNIC_CQE_INVALIDATED },
        { WIRE_SEND_SE_INVALIDATE,
          RNIC_CQE_SOLICITED | RNIC_CQE_INVALIDATED },
    };
    World w;

    world_init(&w);
    connection_establish(w.holder, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        check_kind(&w, w.holder, kinds[i].opcode, kinds[i].flags);
        check_kind(&w, w.qp[0], kinds[i].opcode, kinds[i].flags);
    }
    world_cleanup(&w);
    rnic_shows("V6.3.5-3");
}

/* One QP takes all; many segments are one message and take one WQE. */
static void test_one_takes_all(void)
{
    World w;
    uint8_t data[1000], got[1000];
    struct rnic_sge sge[4];

    world_init(&w);
    rnic_pattern(data, sizeof(data), 7);
    w.qp[1]->peer->segment_size = 100;
    for (int i = 0; i < DEPTH; i++) {
        sge[0] = rnic_sge(&w.mr, i * 1024, 333);
        sge[1] = rnic_sge(&w.mr, i * 1024 + 333, 0);
        sge[2] = rnic_sge(&w.mr, i * 1024 + 333, 600);
        sge[3] = rnic_sge(&w.mr, i * 1024 + 933, 91);
        rnic_post_srq_recv(w.r, &w.srq, i, 4, sge);
    }
    for (int i = 0; i < DEPTH; i++) {
        wire_put_send(w.qp[1]->peer, WIRE_SEND, 0, data, sizeof(data));
        rnic_expect_cqe(w.r, &w.qp[1]->recv_cq, i, RNIC_WC_SUCCESS);
        g_assert_cmpuint(taken(&w), ==, i + 1);
        rnic_mem_read(w.r, w.mr.bus + i * 1024, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    }
    /* None is left, of which nobody is told: the limit is zero. */
    g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.limit_armed, ==, 0);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);
    /* That stream ends, the other QP and the S-RQ do not. */
    put_send(w.qp[1], "too much");
    wire_expect_terminate(w.qp[1]->peer, 0x1202);
    rnic_expect_async(w.r, RNIC_AE_RQ_MSN_RANGE, w.qp[1]->qp.number);
    assert_works(&w, w.qp[0], 20);
    reconnect(&w, w.qp[1]);
    assert_works(&w, w.qp[1], 21);
    world_cleanup(&w);
    rnic_shows("V6.3.5-4 V6.3.5-6 V6.3.5-7 V6.3.7-1 V9.2.4.1-3 "
               "V9.2.4.1-4 V13.2-1");
}

/*
 * All messages of both QPs are there before a completion is looked at: those of each are
 * in the order of its messages, whoever took which WQE.
 */
static void check_all_at_once(void)
{
    World w;
    char text[8];

    world_init(&w);
    post_many(&w, DEPTH);
    for (int i = 0; i < DEPTH; i++) {
        g_snprintf(text, sizeof(text), "%d", i);
        put_send(w.qp[i % 3 == 0], text);
    }
    RNIC_UNTIL(w.r, taken(&w) == DEPTH);
    for (int q = 0; q < 2; q++) {
        for (int i = 0; i < DEPTH; i++) {
            struct rnic_cqe cqe;
            char got;

            if ((i % 3 == 0) != q) {
                continue;
            }
            rnic_cq_wait(w.r, &w.qp[q]->recv_cq, &cqe);
            g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
            g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, w.qp[q]->qp.number);
            rnic_mem_read(w.r, w.mr.bus + le64_to_cpu(cqe.wr_id) * STRIDE,
                          &got, 1);
            g_assert_cmpint(got, ==, '0' + i);
        }
        rnic_expect_no_cqe(w.r, &w.qp[q]->recv_cq);
    }
    world_cleanup(&w);
}

/* Completions of one QP are in the order of its messages. */
static void test_interleaved(void)
{
    World w;
    char text[2][32];

    world_init(&w);
    for (int round = 0; round < 10; round++) {
        uint64_t first = round * 2 % 64;

        post(&w, first);
        post(&w, first + 1);
        for (int i = 0; i < 2; i++) {
            WireSegment half = {
                .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
                .msn = round + 1, .length = 4,
                .payload = (uint8_t *)"half",
            };

            wire_put_segment(w.qp[i]->peer, &half);
            RNIC_UNTIL(w.r, taken(&w) == 2 * round + i + 1);
        }
        for (int i = 1; i >= 0; i--) {
            WireSegment rest = {
                .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
                .msn = round + 1, .mo = 4, .length = 5, .last = true,
                .payload = (uint8_t *)(i ? "-one " : "-zero"),
            };

            wire_put_segment(w.qp[i]->peer, &rest);
            g_snprintf(text[i], sizeof(text[i]), "half%s",
                       i ? "-one " : "-zero");
            expect_receive(&w, w.qp[i], first + i, text[i]);
        }
    }
    world_cleanup(&w);
    check_all_at_once();
    rnic_shows("V6.3.5-5");
}

/* ------------------------------------------------------------------- rights */

/* A message longer than its WQE: as with an RQ, and what is behind that stays. */
static void check_too_long(World *w, Connection *c)
{
    struct rnic_sge sge = rnic_sge(&w->mr, 7 * STRIDE, 4);
    uint8_t behind;

    rnic_post_srq_recv(w->r, &w->srq, 7, 1, &sge);
    put_send(c, "five!");
    rnic_expect_cqe(w->r, &c->recv_cq, 7, RNIC_WC_MESSAGE_TOO_LONG);
    wire_expect_terminate(c->peer, 0x1205);
    rnic_settle(w->r);
    rnic_expect_no_async(w->r);
    rnic_expect_no_cqe(w->r, &c->recv_cq);
    rnic_mem_read(w->r, w->mr.bus + 7 * STRIDE + 4, &behind, 1);
    g_assert_cmpint(behind, ==, 0);
    assert_works(w, w->qp[1], 8);
}

/* The receive's PD is the S-RQ's; all else is the QP's. */
static void test_pd(void)
{
    World w;
    Connection *c;
    struct rnic_sge sge;
    uint8_t got[8];
    uint16_t codes[] = { 0x1102, 0x0103 };
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ,
    };
    WireRead read;

    world_init(&w);
    c = w.qp[0];
    /* MR of the S-RQ's PD: fine. */
    post(&w, 1);
    put_send(c, "into it");
    expect_receive(&w, c, 1, "into it");
    /* MR of the QP's PD: not on receipt ... */
    sge = rnic_sge(&c->mr, 0, 64);
    rnic_post_srq_recv(w.r, &w.srq, 2, 1, &sge);
    put_send(c, "intruder");
    rnic_expect_cqe(w.r, &c->recv_cq, 2, RNIC_WC_INVALID_PD);
    wire_expect_terminate(c->peer, 0);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
    assert_works(&w, w.qp[1], 3);
    reconnect(&w, c);
    g_assert_false(c->qp.recv_cq == w.qp[1]->qp.recv_cq);
    /* ... but as source of Send and Write and for the peer. */
    connection_fill(c, 0, "of QP's", 8);
    connection_post(c, RNIC_SQ_SEND, 4, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "of QP's", 8);
    connection_post(c, RNIC_SQ_RDMA_WRITE, 5, 0, 8);
    connection_get_write(c, 0, got, 8);
    rnic_expect_cqe(w.r, &c->send_cq, 4, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    stag_peer_writes(c, c->mr.stag, c->mr.va, "written", 8);
    stag_peer_reads(c, c->mr.stag, c->mr.va, got, 8);
    g_assert_cmpmem(got, 8, "written", 8);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        RnicWr wr = { .opcode = opcodes[i],
                      .flags = RNIC_WQE_SIGNALED, .wr_id = 6, .num_sge = 1,
                      .remote_stag = CONNECTION_REMOTE_STAG,
                      .sge = { rnic_sge(&w.mr, 0, 8) } };

        rnic_post_send(w.r, &c->qp, &wr);
        rnic_expect_cqe(w.r, &c->send_cq, 6, RNIC_WC_INVALID_PD);
        wire_expect_terminate(c->peer, 0);
        reconnect(&w, c);
    }
    check_too_long(&w, c);
    reconnect(&w, c);
    rnic_mem_write(w.r, w.mr.bus, "untouched", 9);
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            wire_put_write(c->peer, w.mr.stag, w.mr.va, "intruder", 8);
        } else {
            read = (WireRead) { .size = 8, .source_stag = w.mr.stag,
                                .source_to = w.mr.va };
            wire_put_read_request(c->peer, &read);
        }
        wire_expect_terminate(c->peer, codes[i]);
        reconnect(&w, c);
    }
    rnic_mem_read(w.r, w.mr.bus, got, 8);
    g_assert_cmpmem(got, 8, "untouche", 8);
    world_cleanup(&w);
    rnic_shows("V6.3.5-3 V6.3.5-8 V6.3.6-1 V7.6.3-4 V7.6.3-5");
}

/* All kinds of work of an SQ, on a QP that has an S-RQ. */
static void test_send_queue(void)
{
    World w;
    ConnectionOptions options;
    StagRegion region;
    StagBind bind;
    Connection *c;
    WireRead read;
    uint8_t got[8];

    world_init(&w);
    options = options_of(&w);
    options.enables = STAG_ENABLES;
    c = connection_prepare_second(w.holder, &options);
    connection_establish(c, &options);
    connection_fill(c, 0, "payload", 8);
    connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "payload", 8);
    connection_post(c, RNIC_SQ_SEND_INVALIDATE, 2, 0, 8);
    wire_get_send(c->peer, WIRE_SEND_INVALIDATE, 2, got, 8);
    connection_post(c, RNIC_SQ_RDMA_WRITE, 3, 0, 8);
    connection_get_write(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "payload", 8);
    connection_post(c, RNIC_SQ_RDMA_READ, 4, 100, 8);
    connection_post(c, RNIC_SQ_SEND, 5, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wire_get_send(c->peer, WIRE_SEND, 3, got, 8);
    rnic_expect_cqe(w.r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_settle(w.r);
    rnic_expect_no_cqe(w.r, &c->send_cq);       /* in order: behind the Read */
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    rnic_expect_cqe(w.r, &c->send_cq, 4, RNIC_WC_SUCCESS);
    rnic_expect_cqe(w.r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    connection_peek(c, 100, got, 8);
    g_assert_cmpmem(got, 8, "response", 8);
    region = stag_region(w.r, 1);
    region.stag = stag_alloc(w.r, w.r->pd, 1, region.key, true);
    g_assert_cmpint(stag_fast_register(c, &region), ==, RNIC_WC_SUCCESS);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 7), &region, region.va, 8,
                       RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    stag_peer_writes(c, bind.mw, region.va, "window", 6);
    g_assert_cmpint(stag_invalidate(c, bind.mw), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_invalidate(c, region.stag), ==, RNIC_WC_SUCCESS);
    /* A failure flushes the SQ, and still nothing of the S-RQ. */
    post(&w, 1);
    connection_post(c, RNIC_SQ_LOCAL_INVALIDATE, 6, 0, 8);
    connection_post(c, RNIC_SQ_SEND, 7, 0, 8);
    rnic_expect_cqe(w.r, &c->send_cq, 6, RNIC_WC_INVALID_WQE);
    rnic_expect_cqe(w.r, &c->send_cq, 7, RNIC_WC_FLUSHED);
    rnic_settle(w.r);
    rnic_expect_no_cqe(w.r, &c->recv_cq);
    put_send(w.qp[0], "not flushed");
    expect_receive(&w, w.qp[0], 1, "not flushed");
    connection_free_second(c);
    world_cleanup(&w);
    rnic_shows("V6.3-5");
}

/* By this side and by the peer, in both of its ways, an STag of the QP's own PD is. */
static void check_invalidate_own(World *w, Connection *c)
{
    static const uint8_t opcodes[] = {
        0, WIRE_SEND_INVALIDATE, WIRE_SEND_SE_INVALIDATE,
    };

    g_assert_cmphex(w->shared_pd, !=, w->r->pd);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        StagRegion own = stag_region(w->r, 1);

        stag_register(w->r, &own);
        if (i == 0) {
            g_assert_cmpint(stag_invalidate(c, own.stag), ==,
                            RNIC_WC_SUCCESS);
        } else {
            post(w, i);
            wire_put_send(c->peer, opcodes[i], own.stag, "x", 1);
            rnic_expect_cqe(w->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
        }
        g_assert_cmpint(stag_query_mr(w->r, own.stag).valid, ==, 0);
        stag_dealloc(w->r, own.stag);
    }
}

/* An STag of the S-RQ's PD cannot be invalidated from a QP of another one. */
static void test_invalidate(void)
{
    World w;
    Connection *c;

    world_init(&w);
    c = w.qp[0];
    check_invalidate_own(&w, c);
    stag_post_invalidate(c, 9, w.mr.stag);
    rnic_expect_cqe(w.r, &c->send_cq, 9, RNIC_WC_INVALID_PD);
    wire_expect_terminate(c->peer, 0);
    reconnect(&w, c);
    for (int se = 0; se < 2; se++) {
        post(&w, 1);
        wire_put_send(c->peer, se ? WIRE_SEND_SE_INVALIDATE
                                  : WIRE_SEND_INVALIDATE, w.mr.stag, "x", 1);
        rnic_expect_cqe(w.r, &c->recv_cq, 1, RNIC_WC_INVALIDATE_STAG);
        wire_expect_terminate(c->peer, 0x0109);
        g_assert_cmpint(stag_query_mr(w.r, w.mr.stag).valid, ==, 1);
        reconnect(&w, c);
    }
    assert_works(&w, c, 2);
    world_cleanup(&w);
    rnic_shows("V6.3.5-9 V7.8-12");
}

/* STag zero: the QP decides, not the queue. */
static void test_stag_zero(void)
{
    World w;
    ConnectionOptions options;
    Connection *privileged;
    struct rnic_sge sge;
    uint8_t got[9];

    world_init(&w);
    options = options_of(&w);
    options.enables = STAG_ENABLES;
    privileged = connection_prepare_second(w.holder, &options);
    connection_establish(privileged, &options);
    sge = (struct rnic_sge) { .to = cpu_to_le64(w.mr.bus + 1000),
                              .length = cpu_to_le32(64) };
    rnic_post_srq_recv(w.r, &w.srq, 1, 1, &sge);
    put_send(privileged, "by address");
    rnic_expect_cqe(w.r, &privileged->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_mem_read(w.r, w.mr.bus + 1000, got, 9);
    g_assert_cmpmem(got, 9, "by addres", 9);
    rnic_post_srq_recv(w.r, &w.srq, 2, 1, &sge);
    put_send(w.qp[0], "not so");
    rnic_expect_cqe(w.r, &w.qp[0]->recv_cq, 2, RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w.qp[0]->peer, 0);
    wire_shutdown(w.qp[0]->peer);
    rnic_wait_qp_state(w.r, &w.qp[0]->qp, RNIC_QPS_ERROR);
    g_assert_cmpint(rnic_qp_state(w.r, &privileged->qp), ==, RNIC_QPS_RTS);
    g_assert_cmpint(rnic_qp_state(w.r, &w.qp[1]->qp), ==, RNIC_QPS_RTS);
    rnic_expect_no_async(w.r);
    rnic_mem_read(w.r, w.mr.bus + 1000, got, 9);
    g_assert_cmpmem(got, 9, "by addres", 9);
    rnic_post_srq_recv(w.r, &w.srq, 3, 1, &sge);
    put_send(privileged, "again");
    rnic_expect_cqe(w.r, &privileged->recv_cq, 3, RNIC_WC_SUCCESS);
    connection_free_second(privileged);
    world_cleanup(&w);
    rnic_shows("V6.3.5-10");
}

/* ------------------------------------------------------------- notification */

/* One event of the CQ of @c's receives, or none; of another CQ none in any case. */
static void expect_completion_events(World *w, Connection *c, unsigned count)
{
    struct rnic_ceqe event;

    if (count) {
        rnic_eq_wait(w->r, &w->r->comp_eq, &event);
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->recv_cq.number);
    }
    rnic_settle(w->r);
    g_assert_false(rnic_eq_poll(w->r, &w->r->comp_eq, &event));
}

/* A Send of either kind that solicits, behind one that does not. */
static void check_solicited(World *w, Connection *c, bool invalidate)
{
    StagRegion own = stag_region(w->r, 1);

    stag_register(w->r, &own);
    rnic_cq_arm(w->r, &c->recv_cq, RNIC_ARM_SOLICITED);
    assert_works(w, c, 1);
    expect_completion_events(w, c, 0);
    post(w, 2);
    wire_put_send(c->peer, invalidate ? WIRE_SEND_SE_INVALIDATE
                                      : WIRE_SEND_SE,
                  invalidate ? own.stag : 0, "solicited", 9);
    expect_receive(w, c, 2, "solicited");
    expect_completion_events(w, c, 1);
    stag_dealloc(w->r, own.stag);
}

/* What a QP takes from an S-RQ is told of as what it takes from an RQ of its own. */
static void test_notification(void)
{
    struct rnic_sge unknown = { .stag = cpu_to_le32(STAG_UNKNOWN),
                                .length = cpu_to_le32(STRIDE) };
    World w;

    world_init(&w);
    for (int i = 0; i < 2; i++) {
        Connection *c = w.qp[i];

        assert_works(&w, c, 3);
        expect_completion_events(&w, c, 0);
        rnic_cq_arm(w.r, &c->recv_cq, RNIC_ARM_NEXT);
        assert_works(&w, c, 4);
        expect_completion_events(&w, c, 1);
        check_solicited(&w, c, false);
        check_solicited(&w, c, true);
        rnic_cq_arm(w.r, &c->recv_cq, RNIC_ARM_SOLICITED);
        rnic_post_srq_recv(w.r, &w.srq, 5, 1, &unknown);
        put_send(c, "nowhere");
        rnic_expect_cqe(w.r, &c->recv_cq, 5, RNIC_WC_INVALID_STAG);
        expect_completion_events(&w, c, 1);
        reconnect(&w, c);
    }
    world_cleanup(&w);
    rnic_shows("V8.2.5-9 V8.2.5-10 V8.2.5-11");
}

/* ------------------------------------------------------------------- limits */

static void expect_limit(World *w)
{
    struct rnic_aeqe event = rnic_expect_async(w->r, RNIC_AE_SRQ_LIMIT,
                                               w->srq.number);

    g_assert_cmpint(event.resource, ==, RNIC_RESOURCE_SRQ);
    g_assert_cmphex(event.terminate, ==, 0);
    g_assert_cmpuint(rnic_query_srq(w->r, &w->srq).srq.limit_armed, ==, 0);
}

static void receive(World *w, unsigned count)
{
    while (count--) {
        struct rnic_cqe cqe;

        put_send(w->qp[count & 1], "one");
        rnic_cq_wait(w->r, &w->qp[count & 1]->recv_cq, &cqe);
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==,
                        w->qp[count & 1]->qp.number);
    }
}

static void test_limit(void)
{
    World w;

    /* Armed by creation; the queue being empty then is no event. */
    world_init_with(&w, 3, true);
    g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.limit_armed, ==, 1);
    post_many(&w, 8);
    receive(&w, 5);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);          /* 3 are left */
    receive(&w, 1);
    expect_limit(&w);
    receive(&w, 1);                     /* once */
    post_many(&w, 7);
    receive(&w, 7);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);
    /* Armed again, twice, with another limit; one left now. */
    post_many(&w, 6);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 3), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 5), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.limit_armed, ==, 1);
    receive(&w, 2);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);          /* 5 */
    receive(&w, 1);
    expect_limit(&w);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);
    /* What was posted but not seen yet by the device counts. */
    receive(&w, 4);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 2), ==, RNIC_ST_OK);
    post_many(&w, 1);
    post_many(&w, 2);
    receive(&w, 1);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);          /* 2 */
    receive(&w, 1);
    expect_limit(&w);
    world_cleanup(&w);
    rnic_shows("V6.3.8-1 V6.3.8-2 V6.3.8-3 V9.2.4.1-4 V9.2.4.2-2 V9.2.4.3-3 "
               "V9.2.4.3-2 V9.5.3-34 "
               "R8.1.2-8");
}

/* What is refused takes no receive away, adds none and moves no limit. */
static void test_refused_leaves_all(void)
{
    World w;
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_SRQ);
    struct rnic_admin_cqe before, after;

    world_init(&w);
    post_many(&w, 6);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 4), ==, RNIC_ST_OK);
    before = rnic_query_srq(w.r, &w.srq);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, w.srq.depth + 1), ==,
                     RNIC_ST_SRQ_LIMIT_RANGE);
    sqe.create_srq.srqn = cpu_to_le32(w.srq.number);
    sqe.create_srq.mask = 0x80;
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                       w.srq.number), ==, RNIC_ST_SRQ_IN_USE);
    after = rnic_query_srq(w.r, &w.srq);
    g_assert_cmpmem(&after.srq, sizeof(after.srq), &before.srq,
                    sizeof(before.srq));
    g_assert_cmpuint(taken(&w), ==, 0);
    receive(&w, 2);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);
    receive(&w, 1);
    expect_limit(&w);
    receive(&w, 3);
    world_cleanup(&w);
    rnic_shows("V8.3.1-4 V9.2.4.3-5 V9.2.4.3-6");
}

/* A message is half there. */
static void put_half(World *w, Connection *c, uint32_t msn)
{
    uint32_t before = taken(w);
    WireSegment half = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
        .msn = msn, .length = 4, .payload = (uint8_t *)"half",
    };

    wire_put_segment(c->peer, &half);
    RNIC_UNTIL(w->r, taken(w) == before + 1);
}

static void put_rest(Connection *c, uint32_t msn)
{
    WireSegment rest = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
        .msn = msn, .mo = 4, .length = 4, .last = true,
        .payload = (uint8_t *)"rest",
    };

    wire_put_segment(c->peer, &rest);
}

static uint16_t modify_rq_limit(World *w, const Connection *c, uint32_t limit)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_RQ_LIMIT);
    sqe.modify_qp.rq_limit = cpu_to_le32(limit);
    return rnic_admin(w->r, &sqe, NULL);
}

static void assert_rq_limit(World *w, const Connection *c, uint32_t limit,
                            bool armed)
{
    struct rnic_qp_attr attr = rnic_query_qp(w->r, &c->qp);

    g_assert_cmpuint(le32_to_cpu(attr.rq_limit), ==, limit);
    g_assert_cmpuint(attr.rq_limit_armed, ==, armed);
}

/* Armed twice it is told once, when a message, @msn, has begun; another one follows. */
static void check_limit_exceeded(World *w, Connection *c, uint32_t msn)
{
    struct rnic_aeqe event;

    g_assert_cmpuint(modify_rq_limit(w, c, DEPTH), ==, RNIC_ST_OK);
    g_assert_cmpuint(modify_rq_limit(w, c, 0), ==, RNIC_ST_OK);
    assert_rq_limit(w, c, 0, true);
    put_half(w, c, msn);
    event = rnic_expect_async(w->r, RNIC_AE_QP_RQ_LIMIT, c->qp.number);
    g_assert_cmpint(event.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmpint(event.qp_state, ==, RNIC_QPS_RTS);
    rnic_expect_no_cqe(w->r, &c->recv_cq);
    put_rest(c, msn);
    c->peer->send_msn = msn + 1;
    put_send(c, "exceeds");
    for (int i = 0; i < 2; i++) {
        struct rnic_cqe cqe;

        rnic_cq_wait(w->r, &c->recv_cq, &cqe);
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
    }
    rnic_settle(w->r);
    rnic_expect_no_async(w->r);
    assert_rq_limit(w, c, 0, false);
}

/* Beside a Terminate of @a's own, and one of @b's peer; not to be changed there. */
static void check_limit_in_ends(World *w, Connection *a, Connection *b)
{
    struct rnic_qp_attr attr;
    WireTerminate t;

    wire_put_write(a->peer, 0x77777700, 0, "x", 1);
    wire_get_terminate(a->peer, &t);
    attr = rnic_query_qp(w->r, &a->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_TERMINATE);
    g_assert_cmphex(attr.llp_stream, !=, 0);
    g_assert_cmpint(attr.terminate_origin, ==, 1);
    g_assert_cmpmem(attr.terminate, attr.terminate_length, t.octets, t.length);
    g_assert_cmpuint(modify_rq_limit(w, a, 1), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    assert_rq_limit(w, a, 2, true);
    g_assert_cmpuint(modify_rq_limit(w, b, 7), ==, RNIC_ST_OK);
    wire_put_terminate(b->peer, 0x0207);
    rnic_wait_qp_state(w->r, &b->qp, RNIC_QPS_ERROR);
    attr = rnic_query_qp(w->r, &b->qp);
    g_assert_cmpint(attr.terminate_origin, ==, 2);
    g_assert_cmpuint(attr.terminate_length, ==, 4);
    g_assert_cmphex(lduw_be_p(attr.terminate), ==, 0x0207);
    g_assert_cmpuint(modify_rq_limit(w, b, 1), ==,
                     RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    assert_rq_limit(w, b, 7, true);
    rnic_expect_async(w->r, RNIC_AE_TAGGED_INVALID_STAG, a->qp.number);
    rnic_expect_async(w->r, RNIC_AE_TERMINATE_RECEIVED, b->qp.number);
}

/* The peer does not close: the QP stays there, without a limit as before. */
static void check_limit_in_closing(World *w, Connection *c)
{
    g_assert_cmpuint(rnic_modify_qp_state(w->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(modify_rq_limit(w, c, 1), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    assert_rq_limit(w, c, 0, false);
    g_assert_cmpint(rnic_qp_state(w->r, &c->qp), ==, RNIC_QPS_CLOSING);
}

/*
 * Segments are placed in order, so a QP has one message in progress at most:
 * a limit of zero, which only Modify QP can arm, is what it can exceed.
 */
static void test_rq_limit(void)
{
    World w;
    ConnectionOptions options;
    Connection *armed;

    world_init(&w);
    options = options_of(&w);
    options.rq_limit = 2;
    armed = connection_prepare_second(w.holder, &options);
    connection_establish(armed, &options);
    assert_rq_limit(&w, armed, 2, true);
    assert_rq_limit(&w, w.qp[0], 0, false);
    post_many(&w, 8);
    for (int i = 0; i < 3; i++) {
        struct rnic_cqe cqe;

        put_send(armed, "never more than one");
        rnic_cq_wait(w.r, &armed->recv_cq, &cqe);
    }
    rnic_expect_no_async(w.r);
    assert_rq_limit(&w, armed, 2, true);

    g_assert_cmpuint(modify_rq_limit(&w, w.qp[0], DEPTH + 1), ==,
                     RNIC_ST_RQ_LIMIT_RANGE);
    g_assert_cmpuint(modify_rq_limit(&w, w.holder, 0), ==,
                     RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    assert_rq_limit(&w, w.qp[0], 0, false);
    check_limit_exceeded(&w, w.qp[0], 1);
    check_limit_exceeded(&w, w.qp[0], 3);
    /* Low water is told of the queue. */
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 1), ==, RNIC_ST_OK);
    receive(&w, 1);
    expect_limit(&w);
    check_limit_in_ends(&w, armed, w.qp[1]);
    check_limit_in_closing(&w, w.qp[0]);
    connection_free_second(armed);
    world_cleanup(&w);
    rnic_shows("V6.1.2-2 V6.2.5-2 V6.3-2 V6.3.8-5 V6.3.8-6 V6.3.8-7 "
               "V9.2.5.1-5 V9.2.5.2-6 V9.2.5.3-11 V9.5.3-35 V10.4.2-2");
}

/* -------------------------------------------------------- ends of a QP */

/*
 * However a QP ends: what it has taken comes back, what it has not stays for
 * the others, which do not notice.
 */
static void test_ends(void)
{
    enum { BY_ABORT, BY_PEER_ERROR, BY_MODIFY, BY_TERMINATE, BY_DESTROY,
           BY_CLOSE, WAYS };

    for (int way = 0; way < WAYS; way++) {
        Connection *c;
        World w;

        world_init(&w);
        c = w.qp[0];
        for (int i = 1; i <= 4; i++) {
            post(&w, i);
        }
        put_half(&w, c, 1);
        switch (way) {
        case BY_ABORT:
            wire_abort(c->peer);
            c->peer = NULL;
            break;
        case BY_PEER_ERROR:
            wire_put_write(c->peer, 0x12300, 0, "bad", 3);
            break;
        case BY_MODIFY:
            g_assert_cmpuint(rnic_modify_qp_state(w.r, &c->qp,
                                                  RNIC_QPS_ERROR), ==,
                             RNIC_ST_OK);
            break;
        case BY_TERMINATE:
            wire_put_terminate(c->peer, 0x0000);
            break;
        case BY_DESTROY:
            g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                               c->qp.number), ==, RNIC_ST_OK);
            break;
        case BY_CLOSE:
            g_assert_cmpuint(rnic_modify_qp_state(w.r, &c->qp,
                                                  RNIC_QPS_CLOSING), ==,
                             RNIC_ST_OK);
            break;
        }
        rnic_expect_cqe(w.r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
        rnic_settle(w.r);
        rnic_expect_no_cqe(w.r, &c->recv_cq);
        g_assert_cmpuint(taken(&w), ==, 1);
        put_send(w.qp[1], "two");
        expect_receive(&w, w.qp[1], 2, "two");
        put_send(w.qp[1], "three");
        expect_receive(&w, w.qp[1], 3, "three");
        if (way != BY_DESTROY) {
            reconnect(&w, c);
            put_send(c, "four");
            expect_receive(&w, c, 4, "four");
        }
        world_cleanup(&w);
    }
    rnic_shows("V6.3.6-2 V6.3.6-3");
}

/* A clean close flushes nothing of the S-RQ. */
static void test_close(void)
{
    World w;
    ConnectionOptions options;

    world_init(&w);
    options = options_of(&w);
    post_many(&w, 4);
    g_assert_cmpuint(rnic_modify_qp_state(w.r, &w.qp[0]->qp,
                                          RNIC_QPS_CLOSING), ==, RNIC_ST_OK);
    wire_expect_end(w.qp[0]->peer);
    wire_close(w.qp[0]->peer);
    w.qp[0]->peer = NULL;
    rnic_wait_qp_state(w.r, &w.qp[0]->qp, RNIC_QPS_IDLE);
    rnic_expect_async(w.r, RNIC_AE_LLP_CLOSE_COMPLETE, w.qp[0]->qp.number);
    rnic_expect_no_cqe(w.r, &w.qp[0]->recv_cq);
    g_assert_cmpuint(taken(&w), ==, 0);
    connection_drain_events(w.qp[0]);
    receive(&w, 1 - 1);
    put_send(w.qp[1], "all");
    expect_receive(&w, w.qp[1], 3, "all");
    connection_establish(w.qp[0], &options);
    put_send(w.qp[0], "four");
    expect_receive(&w, w.qp[0], 2, "four");
    world_cleanup(&w);
    rnic_shows("V6.3.6-3");
}

/* Linux's way to drain: told once that no receive of the QP is to come. */
static void test_last_wqe(void)
{
    World w;
    ConnectionOptions options;
    Connection *c;

    world_init(&w);
    options = options_of(&w);
    options.enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                      RNIC_QP_LAST_WQE_EVENT;
    c = connection_prepare_second(w.holder, &options);
    /* Of a QP that was never connected, too. */
    for (int round = 0; round < 3; round++) {
        if (round) {
            connection_establish(c, &options);
            post(&w, round);
            put_half(&w, c, 1);
        }
        g_assert_cmpuint(rnic_modify_qp_state(w.r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
        rnic_expect_async(w.r, RNIC_AE_QP_LAST_WQE, c->qp.number);
        if (round) {
            rnic_expect_cqe(w.r, &c->recv_cq, round, RNIC_WC_FLUSHED);
        }
        rnic_settle(w.r);
        rnic_expect_no_async(w.r);
        rnic_expect_no_cqe(w.r, &c->recv_cq);
        connection_recycle(c);
    }
    /* By an error, in state Terminate already. */
    connection_establish(c, &options);
    wire_put_write(c->peer, 0x12300, 0, "bad", 3);
    rnic_expect_async(w.r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_expect_async(w.r, RNIC_AE_QP_LAST_WQE, c->qp.number);
    connection_recycle(c);
    /* Nobody asked. */
    g_assert_cmpuint(rnic_modify_qp_state(w.r, &w.qp[0]->qp, RNIC_QPS_ERROR),
                     ==, RNIC_ST_OK);
    rnic_settle(w.r);
    rnic_expect_no_async(w.r);
    connection_free_second(c);
    world_cleanup(&w);
}

/* A good message for what is not there any more. */
static void put_late(Connection *c)
{
    WireSegment segment = {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 4,
        .payload = (uint8_t *)"late",
    };

    wire_try_put_segment(c->peer, &segment);
}

/* Another S-RQ, and another QP, have nothing of what was posted before. */
static void check_next_srq(World *w)
{
    RnicSrqInit init = rnic_srq_default(w->r);
    RnicSrq srq;
    ConnectionOptions options = { .srq = &srq };
    struct rnic_sge sge;
    Connection *c;

    rnic_create_srq(w->r, &srq, &init);
    c = connection_prepare_second(w->holder, &options);
    connection_establish(c, &options);
    sge = rnic_sge(&c->mr, 0, 8);
    rnic_post_srq_recv(w->r, &srq, 99, 1, &sge);
    put_send(c, "the next");
    rnic_expect_cqe(w->r, &c->recv_cq, 99, RNIC_WC_SUCCESS);
    put_send(c, "too much");
    wire_expect_terminate(c->peer, 0x1202);
    rnic_expect_async(w->r, RNIC_AE_RQ_MSN_RANGE, c->qp.number);
    connection_recycle(c);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_SRQ,
                                       srq.number), ==, RNIC_ST_OK);
    connection_free_second(c);
}

/* With WRs posted: the S-RQ goes, its buffers are not touched any more. */
static void test_destroy_full(void)
{
    g_autofree uint8_t *filled = g_malloc(64 * STRIDE);
    g_autofree uint8_t *got = g_malloc(64 * STRIDE);
    uint32_t srqs;
    World w;

    world_init(&w);
    post_many(&w, DEPTH);
    memset(filled, 0x5a, 64 * STRIDE);
    rnic_mem_write(w.r, w.mr.bus, filled, 64 * STRIDE);
    srqs = le32_to_cpu(rnic_query_counters(w.r).srqs);
    for (int i = 0; i < 2; i++) {
        g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                           w.qp[i]->qp.number), ==,
                         RNIC_ST_OK);
    }
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_SRQ,
                                       w.srq.number), ==, RNIC_ST_OK);
    for (int i = 0; i < 2; i++) {
        put_late(w.qp[i]);
    }
    g_assert_cmpuint(le32_to_cpu(rnic_query_counters(w.r).srqs), ==, srqs - 1);
    check_next_srq(&w);
    rnic_settle(w.r);
    rnic_mem_read(w.r, w.mr.bus, got, 64 * STRIDE);
    g_assert_cmpmem(got, 64 * STRIDE, filled, 64 * STRIDE);
    for (int i = 0; i < 2; i++) {
        rnic_expect_no_cqe(w.r, &w.qp[i]->recv_cq);
    }
    rnic_expect_no_async(w.r);
    /* Its doorbell is nobody's. */
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, w.srq.number);
    g_assert_cmpuint(rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS), ==, 1);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_STAG,
                                       w.mr.stag), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD,
                                       w.shared_pd), ==, RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V6.3.3-2 V9.2.4.4-1");
}

/* ------------------------------------------------------------------ hostile */

static void test_doorbells(void)
{
    World w;
    RnicSrqInit init;
    RnicSrq other;
    uint32_t bad = 0;
    struct rnic_sge sge;

    world_init(&w);
    init = rnic_srq_default(w.r);
    init.doorbell_page = 2;
    rnic_create_srq(w.r, &other, &init);
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, w.srq.number);
    rnic_doorbell(w.r, 2, RNIC_DB_SRQ, other.number);
    g_assert_cmpuint(rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS), ==, 0);
    rnic_doorbell(w.r, 2, RNIC_DB_SRQ, w.srq.number);
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, other.number);
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, 0);
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, 0xffffffff);
    rnic_doorbell(w.r, 0, RNIC_DB_SRQ, w.srq.number | 1u << 31);
    bad += 5;
    g_assert_cmpuint(rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS), ==, bad);
    /* An RQ that such a QP does not have. */
    rnic_mem_write32(w.r, w.qp[0]->qp.memory +
                     offsetof(struct rnic_qp_record, rq_producer), 1);
    rnic_doorbell(w.r, 0, RNIC_DB_RQ, w.qp[0]->qp.number);
    g_assert_cmpuint(rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS), ==, bad + 1);
    rnic_settle(w.r);
    rnic_expect_no_cqe(w.r, &w.qp[0]->recv_cq);
    sge = rnic_sge(&w.mr, 0, 10);
    rnic_post_srq_recv(w.r, &w.srq, 0, 1, &sge);
    put_send(w.qp[0], "the S-RQ's");
    expect_receive(&w, w.qp[0], 0, "the S-RQ's");
    world_cleanup(&w);
    rnic_shows("V6.3.5-1 V8.1.1-2 V10.6-2");
}

/* A bad WQE is the problem of the QP that takes it. */
static void test_bad_wqes(void)
{
    static const struct {
        const char *name;
        uint32_t num_sge, reserved;
        uint8_t status;
    } rows[] = {
        { "SGEs", 5, 0, RNIC_WC_INVALID_WQE },
        { "all SGEs", 0xffffffff, 0, RNIC_WC_INVALID_WQE },
        { "reserved", 1, 1, RNIC_WC_INVALID_WQE },
    };
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint32_t slot = w.srq.producer & (w.srq.depth - 1);
        uint64_t at = w.srq.memory + RNIC_QUEUE_RECORD_SIZE +
                      ((uint64_t)slot << w.srq.shift);

        g_test_message("%s", rows[i].name);
        rnic_store_srq_recv(w.r, &w.srq, 50 + i, 0, NULL);
        rnic_mem_write32(w.r, at + offsetof(struct rnic_rq_wqe, num_sge),
                         rows[i].num_sge);
        rnic_mem_write32(w.r, at + offsetof(struct rnic_rq_wqe, reserved),
                         rows[i].reserved);
        rnic_publish_srq(w.r, &w.srq);
        put_send(w.qp[0], "spoilt");
        rnic_expect_cqe(w.r, &w.qp[0]->recv_cq, 50 + i, rows[i].status);
        wire_expect_terminate(w.qp[0]->peer, 0);
        rnic_settle(w.r);
        rnic_expect_no_async(w.r);
        assert_works(&w, w.qp[1], i);
        reconnect(&w, w.qp[0]);
    }
    world_cleanup(&w);
}

/* One WQE that cannot be read: an event of that QP; the others go on. */
static void test_unreadable_wqe(void)
{
    enum { SHIFT = 9, COUNT = 16 };     /* 8 WQEs in a page */
    World w;
    ConnectionOptions options;
    RnicSrqInit init;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    uint64_t list, pages[3];
    struct rnic_aeqe event;

    world_init(&w);
    init = rnic_srq_default(w.r);
    init.pd = w.shared_pd;
    init.depth = COUNT;
    init.shift = SHIFT;
    sqe = rnic_srq_command(w.r, &init, &w.srq);
    /* The first page has the record and 7 WQEs, the second is nowhere. */
    list = rnic_alloc(w.r, sizeof(pages));
    pages[0] = cpu_to_le64(w.srq.memory);
    pages[1] = cpu_to_le64(RNIC_TEST_NOWHERE);
    pages[2] = cpu_to_le64(w.srq.memory + 8192);
    rnic_mem_write(w.r, list, pages, sizeof(pages));
    sqe.create_srq.memory.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(list), .count = cpu_to_le32(3),
        .level = RNIC_PAGE_LIST_DIRECT, .page_shift = 12,
    };
    sqe.create_srq.memory.ring_offset[0] = cpu_to_le32(512);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, &cqe), ==, RNIC_ST_OK);
    w.srq.number = le32_to_cpu(cqe.number);
    options = options_of(&w);
    for (int i = 0; i < 2; i++) {
        connection_recycle(w.qp[i]);
        connection_free_second(w.qp[i]);
        w.qp[i] = connection_prepare_second(w.holder, &options);
        connection_establish(w.qp[i], &options);
    }
    rnic_mem_write32(w.r, w.srq.memory +
                     offsetof(struct rnic_srq_record, producer), COUNT);
    for (int i = 0; i < 7; i++) {       /* WQEs of zeroes take nothing in */
        wire_put_send(w.qp[0]->peer, WIRE_SEND, 0, NULL, 0);
        rnic_expect_cqe(w.r, &w.qp[0]->recv_cq, 0, RNIC_WC_SUCCESS);
    }
    for (int i = 0; i < 8; i++) {
        Connection *c = w.qp[i & 1];

        wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
        wire_expect_terminate(c->peer, 0x0207);
        event = rnic_expect_async(w.r, RNIC_AE_SRQ_QP_ERROR, c->qp.number);
        g_assert_cmpint(event.resource, ==, RNIC_RESOURCE_QP);
        g_assert_cmphex(le16_to_cpu(event.terminate), ==, 0x0207);
        rnic_expect_no_cqe(w.r, &c->recv_cq);
        g_assert_cmpint(rnic_qp_state(w.r, &w.qp[!(i & 1)]->qp), ==,
                        RNIC_QPS_RTS);
        reconnect(&w, c);
    }
    wire_put_send(w.qp[1]->peer, WIRE_SEND, 0, NULL, 0);
    rnic_expect_cqe(w.r, &w.qp[1]->recv_cq, 0, RNIC_WC_SUCCESS);
    g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.failed, ==, 0);
    world_cleanup(&w);
    rnic_shows("V8.3.3-18 V9.5.3-30");
}

/* The record is nonsense: that is the end of the S-RQ, said once. */
static void test_catastrophic(void)
{
    static const uint32_t producers[] = { DEPTH + 1, 0x80000000, 0xffffffff };

    for (unsigned i = 0; i < G_N_ELEMENTS(producers); i++) {
        World w;
        struct rnic_aeqe event;
        WireRead read;
        uint8_t got[4];

        world_init(&w);
        rnic_mem_write32(w.r, w.srq.memory +
                         offsetof(struct rnic_srq_record, producer),
                         producers[i]);
        rnic_settle(w.r);
        rnic_expect_no_async(w.r);      /* nobody has asked yet */
        connection_post(w.qp[0], RNIC_SQ_RDMA_READ, 5, 0, 8);
        wire_get_read_request(w.qp[0]->peer, 1, &read);
        put_send(w.qp[0], "first");
        event = rnic_expect_async(w.r, RNIC_AE_SRQ_CATASTROPHIC,
                                  w.srq.number);
        g_assert_cmpint(event.resource, ==, RNIC_RESOURCE_SRQ);
        g_assert_cmphex(event.terminate, ==, 0);
        rnic_expect_async(w.r, RNIC_AE_SRQ_QP_ERROR, w.qp[0]->qp.number);
        wire_expect_terminate(w.qp[0]->peer, 0x0207);
        g_assert_cmpint(rnic_qp_state(w.r, &w.qp[0]->qp), ==,
                        RNIC_QPS_TERMINATE);
        rnic_expect_cqe(w.r, &w.qp[0]->send_cq, 5, RNIC_WC_FLUSHED);
        g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.failed, ==, 1);
        /* The other QP has nothing to do with it until it needs a WQE. */
        rnic_settle(w.r);
        g_assert_cmpint(rnic_qp_state(w.r, &w.qp[1]->qp), ==, RNIC_QPS_RTS);
        connection_post(w.qp[1], RNIC_SQ_SEND, 1, 0, 4);
        wire_get_send(w.qp[1]->peer, WIRE_SEND, 1, got, sizeof(got));
        rnic_expect_cqe(w.r, &w.qp[1]->send_cq, 1, RNIC_WC_SUCCESS);
        rnic_mem_write32(w.r, w.srq.memory +
                         offsetof(struct rnic_srq_record, producer), 1);
        put_send(w.qp[1], "second");
        rnic_expect_async(w.r, RNIC_AE_SRQ_QP_ERROR, w.qp[1]->qp.number);
        wire_expect_terminate(w.qp[1]->peer, 0x0207);
        rnic_settle(w.r);
        rnic_expect_no_async(w.r);
        for (int k = 0; k < 2; k++) {
            rnic_expect_no_cqe(w.r, &w.qp[k]->recv_cq);
        }
        rnic_assert_alive(w.r);
        world_cleanup(&w);
    }
    rnic_shows("V6.3.6-4 V9.5.3-36");
}

/* Memory of the queue that is nowhere at all. */
static void test_no_memory(void)
{
    World w;
    ConnectionOptions options;
    RnicSrqInit init;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    Connection *c;
    RnicSrq srq;

    world_init(&w);
    init = rnic_srq_default(w.r);
    sqe = rnic_srq_command(w.r, &init, &srq);
    sqe.create_srq.memory.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(RNIC_TEST_NOWHERE), .count = cpu_to_le32(1),
        .level = RNIC_PAGE_LIST_INLINE, .page_shift = 16,
    };
    g_assert_cmpuint(rnic_admin(w.r, &sqe, &cqe), ==, RNIC_ST_OK);
    srq.number = le32_to_cpu(cqe.number);
    options = (ConnectionOptions) { .srq = &srq };
    c = connection_prepare_second(w.holder, &options);
    connection_establish(c, &options);
    put_send(c, "where to");
    rnic_expect_async(w.r, RNIC_AE_SRQ_CATASTROPHIC, srq.number);
    rnic_expect_async(w.r, RNIC_AE_SRQ_QP_ERROR, c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    assert_works(&w, w.qp[0], 1);
    connection_free_second(c);
    world_cleanup(&w);
    rnic_shows("V9.5.3-36");
}

/*
 * Anything at all in a WQE, with few or many SGEs: it costs the QP that takes
 * it at most, and nothing outside the buffer is written.
 */
static void test_random_wqes(void)
{
    World w;
    uint8_t wqe[128], around[4096];

    world_init(&w);
    rnic_mem_fill(w.r, w.qp[0]->mr.bus, 0x5a, CONNECTION_MR_SIZE);
    for (unsigned i = 0; i < 60; i++) {
        uint32_t slot = w.srq.producer++ & (w.srq.depth - 1);
        uint64_t at = w.srq.memory + RNIC_QUEUE_RECORD_SIZE +
                      ((uint64_t)slot << w.srq.shift);
        struct rnic_cqe cqe;

        rnic_pattern(wqe, sizeof(wqe), 1000 + i);
        if (i % 3) {
            /* Good enough for its SGEs to be looked at. */
            stl_le_p(wqe + offsetof(struct rnic_rq_wqe, num_sge), i % 5);
            stl_le_p(wqe + offsetof(struct rnic_rq_wqe, reserved), 0);
        }
        if (i % 3 == 2) {
            struct rnic_sge sge = rnic_sge(&w.mr, i, 3);

            memcpy(wqe + sizeof(struct rnic_rq_wqe), &sge, sizeof(sge));
        }
        rnic_mem_write(w.r, at, wqe, sizeof(wqe));
        rnic_publish_srq(w.r, &w.srq);
        put_send(w.qp[0], "random");
        rnic_cq_wait(w.r, &w.qp[0]->recv_cq, &cqe);
        g_assert_cmphex(cqe.wr_id, ==, ldq_he_p(wqe));
        g_assert_cmpint(cqe.status, !=, RNIC_WC_SUCCESS);
        assert_works(&w, w.qp[1], i);
        reconnect(&w, w.qp[0]);
    }
    connection_peek(w.qp[0], 0, around, sizeof(around));
    for (unsigned i = 0; i < sizeof(around); i++) {
        g_assert_cmphex(around[i], ==, 0x5a);
    }
    world_cleanup(&w);
}

/* Reset with everything in use. */
static void test_reset(void)
{
    World w;

    world_init_with(&w, 2, true);
    post_many(&w, 5);
    put_half(&w, w.qp[0], 1);
    rnic_mem_fill(w.r, w.mr.bus, 0x5a, 64 * STRIDE);
    rnic_reset(w.r);
    rnic_up(w.r);
    g_assert_cmpuint(rnic_query_counters(w.r).srqs, ==, 0);
    rnic_expect_no_cqe(w.r, &w.qp[0]->recv_cq);
    world_cleanup(&w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/srq/create", test_create);
    qtest_add_func("rnic/srq/modify-destroy", test_modify_destroy);
    qtest_add_func("rnic/srq/pd-users", test_pd_users);
    qtest_add_func("rnic/srq/not-accepted", test_not_accepted);
    qtest_add_func("rnic/srq/association", test_association);
    qtest_add_func("rnic/srq/shared-by-two", test_shared_by_two);
    qtest_add_func("rnic/srq/kinds", test_kinds);
    qtest_add_func("rnic/srq/one-takes-all", test_one_takes_all);
    qtest_add_func("rnic/srq/interleaved", test_interleaved);
    qtest_add_func("rnic/srq/pd", test_pd);
    qtest_add_func("rnic/srq/send-queue", test_send_queue);
    qtest_add_func("rnic/srq/invalidate", test_invalidate);
    qtest_add_func("rnic/srq/stag-zero", test_stag_zero);
    qtest_add_func("rnic/srq/notification", test_notification);
    qtest_add_func("rnic/srq/limit", test_limit);
    qtest_add_func("rnic/srq/rq-limit", test_rq_limit);
    qtest_add_func("rnic/srq/ends", test_ends);
    qtest_add_func("rnic/srq/close", test_close);
    qtest_add_func("rnic/srq/last-wqe", test_last_wqe);
    qtest_add_func("rnic/srq/destroy-full", test_destroy_full);
    qtest_add_func("rnic/srq/doorbells", test_doorbells);
    qtest_add_func("rnic/srq/bad-wqes", test_bad_wqes);
    qtest_add_func("rnic/srq/refused-leaves-all", test_refused_leaves_all);
    qtest_add_func("rnic/srq/random-wqes", test_random_wqes);
    qtest_add_func("rnic/srq/unreadable-wqe", test_unreadable_wqe);
    qtest_add_func("rnic/srq/catastrophic", test_catastrophic);
    qtest_add_func("rnic/srq/no-memory", test_no_memory);
    qtest_add_func("rnic/srq/reset", test_reset);
    return g_test_run();
}
