/*
 * rnic: access rights and the Remote Access Flag (7.4), when and where they
 * are asked for (7.5), modes of physical buffer lists (7.6.2)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define LR RNIC_ACCESS_LOCAL_READ
#define LW RNIC_ACCESS_LOCAL_WRITE
#define RR RNIC_ACCESS_REMOTE_READ
#define RW RNIC_ACCESS_REMOTE_WRITE

typedef struct World {
    Connection *c;
    Rnic *r;
} World;

static void world_init(World *w)
{
    w->c = connection_new(&stag_options);
    w->r = w->c->r;
}

static void world_cleanup(World *w)
{
    connection_free(w->c);
}

/* ---------------------------------------------------------- combinations */

/* Figure 18, by local rights, then remote ones. */
static const struct {
    uint32_t access;
    bool valid;
} figure18[16] = {
    { 0, false }, { RR, false }, { RW, false }, { RR | RW, false },
    { LR, true }, { LR | RR, true }, { LR | RW, false },
    { LR | RR | RW, false },
    { LW, true }, { LW | RR, false }, { LW | RW, true },
    { LW | RR | RW, false },
    { LR | LW, true }, { LR | LW | RR, true }, { LR | LW | RW, true },
    { LR | LW | RR | RW, true },
};

static void assert_status(unsigned i, uint16_t status)
{
    g_assert_cmpuint(status, ==, figure18[i].valid
                                 ? RNIC_ST_OK
                                 : RNIC_ST_INVALID_ACCESS_RIGHTS);
}

static void assert_rights(World *w, unsigned i, uint32_t stag)
{
    g_assert_cmphex(le32_to_cpu(stag_query_mr(w->r, stag).access), ==,
                    figure18[i].access);
}

static void by_register(World *w, unsigned i)
{
    StagRegion region = stag_region(w->r, 1);

    region.access = figure18[i].access;
    assert_status(i, stag_try_register(w->r, &region));
    if (figure18[i].valid) {
        assert_rights(w, i, region.stag);
        stag_dealloc(w->r, region.stag);
    }
}

static void by_reregister(World *w, unsigned i)
{
    static const uint32_t changes[] = { RNIC_REREGISTER_ACCESS,
                                        STAG_CHANGE_ALL };

    for (unsigned k = 0; k < G_N_ELEMENTS(changes); k++) {
        StagRegion region = stag_region(w->r, 1);

        stag_register(w->r, &region);
        region.access = figure18[i].access;
        assert_status(i, stag_try_reregister(w->r, &region, changes[k]));
        g_assert_cmpint(stag_exists(w->r, region.stag), ==,
                        figure18[i].valid);
        if (figure18[i].valid) {
            assert_rights(w, i, region.stag);
            stag_dealloc(w->r, region.stag);
        }
    }
}

static void by_share(World *w, unsigned i)
{
    StagRegion region = stag_region(w->r, 1), other;

    stag_register(w->r, &region);
    other = region;
    other.access = figure18[i].access;
    assert_status(i, stag_try_share(w->r, region.stag, &other));
    if (figure18[i].valid) {
        assert_rights(w, i, other.stag);
        stag_dealloc(w->r, other.stag);
    }
    stag_dealloc(w->r, region.stag);
}

static void by_fast_register(World *w, unsigned i)
{
    StagRegion region = stag_region(w->r, 1);

    region.stag = stag_alloc(w->r, w->r->pd, 1, region.key, true);
    region.access = figure18[i].access;
    g_assert_cmpint(stag_fast_register(w->c, &region), ==,
                    figure18[i].valid ? RNIC_WC_SUCCESS
                                      : RNIC_WC_INVALID_ACCESS_RIGHTS);
    if (figure18[i].valid) {
        assert_rights(w, i, region.stag);
    } else {
        g_assert_cmpint(stag_query_mr(w->r, region.stag).valid, ==, 0);
        stag_reconnect(w->c);
    }
    stag_dealloc(w->r, region.stag);
}

static void test_combinations(void)
{
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(figure18); i++) {
        by_register(&w, i);
        by_reregister(&w, i);
        by_share(&w, i);
        by_fast_register(&w, i);
    }
    world_cleanup(&w);
    rnic_shows("V7.1-2 V7.4.2-1 V9.3.1.1-18 V9.3.1.1-20 V9.5.2-19");
}

/* ---------------------------------------------------- Remote Access Flag */

static const uint32_t remote_rights[] = { RR, RW, RR | RW };

static void assert_remote(World *w, const StagRegion *region, uint32_t remote)
{
    uint8_t octet;

    if (remote & RR) {
        stag_peer_reads(w->c, region->stag, region->va, &octet, 1);
    } else {
        stag_peer_read_refused(w->c, region->stag, region->va, 1, 0x0102);
    }
    if (remote & RW) {
        stag_peer_writes(w->c, region->stag, region->va, "x", 1);
    } else {
        stag_peer_write_refused(w->c, region->stag, region->va, 1, 0x1102);
    }
}

static void assert_flag(World *w, uint32_t stag, bool flag)
{
    g_assert_cmpint(stag_query_mr(w->r, stag).remote_access, ==, flag);
}

/* An STag keeps the flag it was registered with through Fast-Register. */
static void assert_flag_lasts(World *w, const StagRegion *region)
{
    StagRegion copy = *region;

    g_assert_cmpint(stag_invalidate(w->c, region->stag), ==, RNIC_WC_SUCCESS);
    copy.access = LR | LW | RR;
    if (region->local_only) {
        g_assert_cmpint(stag_fast_register(w->c, &copy), ==,
                        RNIC_WC_INVALID_ACCESS_RIGHTS);
        stag_reconnect(w->c);
        copy.access = LR | LW;
    }
    g_assert_cmpint(stag_fast_register(w->c, &copy), ==, RNIC_WC_SUCCESS);
    assert_remote(w, &copy, copy.access);
    assert_flag(w, copy.stag, !region->local_only);
}

static void test_flag_register(void)
{
    World w;
    StagRegion region;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(remote_rights); i++) {
        region = stag_region(w.r, 1);
        region.access = LR | LW | remote_rights[i];
        region.local_only = true;
        g_assert_cmpuint(stag_try_register(w.r, &region), ==,
                         RNIC_ST_INVALID_ACCESS_RIGHTS);
        region.local_only = false;
        stag_register(w.r, &region);
        assert_flag(&w, region.stag, true);
        assert_remote(&w, &region, remote_rights[i]);
        assert_flag_lasts(&w, &region);
    }
    region = stag_region(w.r, 1);
    region.access = LR | LW;
    region.local_only = true;
    stag_register(w.r, &region);
    assert_flag(&w, region.stag, false);
    assert_remote(&w, &region, 0);
    assert_flag_lasts(&w, &region);
    world_cleanup(&w);
    rnic_shows("V7.3.2.2-2 V9.2.6.2-9 V7.4-3");
}

static void test_flag_reregister(void)
{
    World w;
    StagRegion region;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(remote_rights); i++) {
        region = stag_region(w.r, 1);
        region.access = LR | LW;
        region.local_only = true;
        stag_register(w.r, &region);
        /* Set ... */
        region.access |= remote_rights[i];
        region.local_only = false;
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_OK);
        assert_flag(&w, region.stag, true);
        assert_remote(&w, &region, remote_rights[i]);
        /* ... kept, as the rights are, when they are not to change ... */
        region.local_only = true;
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             RNIC_REREGISTER_TRANSLATION),
                         ==, RNIC_ST_OK);
        assert_flag(&w, region.stag, true);
        assert_remote(&w, &region, remote_rights[i]);
        /* ... cleared ... */
        region.access = LR | LW;
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_OK);
        assert_flag(&w, region.stag, false);
        assert_remote(&w, &region, 0);
        assert_flag_lasts(&w, &region);
        /* ... and in contradiction to the rights. */
        region.access |= remote_rights[i];
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_INVALID_ACCESS_RIGHTS);
        g_assert_false(stag_exists(w.r, region.stag));
    }
    /* ALLOC_STAG's is shown with Fast-Register in memory-region-test. */
    region.stag = stag_alloc(w.r, w.r->pd, 1, region.key, false);
    assert_flag(&w, region.stag, false);
    g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                    RNIC_WC_INVALID_ACCESS_RIGHTS);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-11 V7.4-3 V9.2.6.5-6");
}

/* ---------------------------------------------------- each right by itself */

typedef enum Use {
    GATHER,
    SCATTER,
    PEER_READS,
    PEER_WRITES,
    USES,
} Use;

static const uint32_t right_of[USES] = { LR, LW, RR, RW };

static struct rnic_sge sge_at(const StagRegion *region, uint64_t offset,
                              uint32_t length)
{
    return (struct rnic_sge) {
        .stag = cpu_to_le32(region->stag),
        .to = cpu_to_le64(region->va + offset),
        .length = cpu_to_le32(length),
    };
}

static void gather(World *w, const StagRegion *region, uint64_t offset,
                   uint32_t length, bool allowed)
{
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1,
                  .sge = { sge_at(region, offset, length) } };
    WireSegment segment;
    uint8_t data[16];

    rnic_pattern(data, length, offset);
    rnic_mem_write(w->r, region->bus[0] + offset, data, length);
    rnic_post_send(w->r, &w->c->qp, &wr);
    rnic_expect_cqe(w->r, &w->c->send_cq, 0,
                    allowed ? RNIC_WC_SUCCESS : RNIC_WC_ACCESS_VIOLATION);
    if (!allowed) {
        stag_reconnect(w->c);
        return;
    }
    wire_get_segment(w->c->peer, &segment);
    g_assert_cmpint(segment.opcode, ==, WIRE_SEND);
    g_assert_cmpmem(segment.payload, segment.length, data, length);
    g_free(segment.payload);
}

static void scatter(World *w, const StagRegion *region, uint64_t offset,
                    uint32_t length, bool allowed)
{
    struct rnic_sge sge = sge_at(region, offset, length);
    uint8_t data[16], got[16], before[16];

    rnic_pattern(data, length, offset + 77);
    rnic_mem_read(w->r, region->bus[0] + offset, before, length);
    rnic_post_recv(w->r, &w->c->qp, 5, 1, &sge);
    wire_put_send(w->c->peer, WIRE_SEND, 0, data, length);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 5,
                    allowed ? RNIC_WC_SUCCESS : RNIC_WC_ACCESS_VIOLATION);
    rnic_mem_read(w->r, region->bus[0] + offset, got, length);
    g_assert_cmpmem(got, length, allowed ? data : before, length);
    if (!allowed) {
        stag_reconnect(w->c);
    }
}

static void peer_reads(World *w, const StagRegion *region, uint64_t offset,
                       uint32_t length, bool allowed)
{
    uint8_t got[16], data[16];

    if (!allowed) {
        stag_peer_read_refused(w->c, region->stag, region->va + offset,
                               length, 0x0102);
        return;
    }
    rnic_mem_read(w->r, region->bus[0] + offset, data, length);
    stag_peer_reads(w->c, region->stag, region->va + offset, got, length);
    g_assert_cmpmem(got, length, data, length);
}

static void peer_writes(World *w, const StagRegion *region, uint64_t offset,
                        uint32_t length, bool allowed)
{
    uint8_t got[16], data[16];

    rnic_mem_read(w->r, region->bus[0] + offset, data, length);
    if (allowed) {
        rnic_pattern(data, length, offset + 99);
        stag_peer_writes(w->c, region->stag, region->va + offset, data,
                         length);
    } else {
        stag_peer_write_refused(w->c, region->stag, region->va + offset,
                                length, 0x1102);
    }
    rnic_mem_read(w->r, region->bus[0] + offset, got, length);
    g_assert_cmpmem(got, length, data, length);
}

static void use(World *w, Use use, const StagRegion *region, uint64_t offset,
                uint32_t length)
{
    bool allowed = region->access & right_of[use];

    switch (use) {
    case GATHER:
        gather(w, region, offset, length, allowed);
        break;
    case SCATTER:
        scatter(w, region, offset, length, allowed);
        break;
    case PEER_READS:
        peer_reads(w, region, offset, length, allowed);
        break;
    default:
        peer_writes(w, region, offset, length, allowed);
        break;
    }
}

/* Right behind Deallocate, for each use, whatever rights there were. */
static void assert_gone(World *w, const StagRegion *region)
{
    RnicWr wr = { .flags = RNIC_WQE_SIGNALED, .wr_id = 6, .num_sge = 1,
                  .sge = { sge_at(region, 0, 8) },
                  .remote_stag = CONNECTION_REMOTE_STAG };
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ,
    };

    stag_peer_write_refused(w->c, region->stag, region->va, 1, 0x1100);
    stag_peer_read_refused(w->c, region->stag, region->va, 1, 0x0100);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        wr.opcode = opcodes[i];
        rnic_post_send(w->r, &w->c->qp, &wr);
        rnic_expect_cqe(w->r, &w->c->send_cq, 6, RNIC_WC_INVALID_STAG);
        stag_reconnect(w->c);
    }
    rnic_post_recv(w->r, &w->c->qp, 7, 1, wr.sge);
    wire_put_send(w->c->peer, WIRE_SEND, 0, "x", 1);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 7, RNIC_WC_INVALID_STAG);
    stag_reconnect(w->c);
    g_assert_cmpuint(stag_try_dealloc(w->r, region->stag), ==,
                     RNIC_ST_INVALID_STAG);
}

/*
 * Rights with and without one; each allows just its own use, and does so, or
 * not, for the first octet, the last, and those at the joint of two pages.
 */
static void test_each_right(void)
{
    static const uint32_t sets[] = {
        LR, LW, LR | LW, LR | RR, LW | RW, LR | LW | RR, LR | LW | RW,
        LR | LW | RR | RW,
    };
    static const struct {
        uint64_t offset;
        uint32_t length;
    } places[] = { { 0, 1 }, { 4095, 2 }, { 8191, 1 } };
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(sets); i++) {
        StagRegion region = stag_region(w.r, 2);

        region.access = sets[i];
        stag_register(w.r, &region);
        for (unsigned k = 0; k < G_N_ELEMENTS(places); k++) {
            for (Use u = 0; u < USES; u++) {
                use(&w, u, &region, places[k].offset, places[k].length);
            }
        }
        stag_dealloc(w.r, region.stag);
        assert_gone(&w, &region);
    }
    world_cleanup(&w);
    rnic_shows("V7.4-1 V7.4.1-2 V7.9-1");
}

/* ------------------------------------------------- the sink of an RDMA Read */

static void post_read(World *w, const StagRegion *sink, uint32_t msn,
                      WireRead *read)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 3, .num_sge = 1, .sge = { sge_at(sink, 0, 8) },
                  .remote_stag = CONNECTION_REMOTE_STAG };

    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_read_request(w->c->peer, msn, read);
    g_assert_cmphex(read->sink_stag, ==, sink->stag);
    rnic_expect_no_cqe(w->r, &w->c->send_cq);
}

static void respond(World *w, const WireRead *read)
{
    wire_put_read_response(w->c->peer, read->sink_stag, read->sink_to,
                           "response", 8);
}

/* The request is on the wire whatever the sink's rights; they count later. */
static void test_read_sink(void)
{
    static const uint32_t without[] = { LR, LW, LR | LW, LR | RR,
                                        LR | LW | RR };
    World w;
    WireRead read;
    uint8_t got[8];

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(without); i++) {
        StagRegion sink = stag_region(w.r, 1);

        sink.access = without[i];
        stag_register(w.r, &sink);
        post_read(&w, &sink, 1, &read);
        respond(&w, &read);
        wire_expect_terminate(w.c->peer, 0x1102);
        rnic_expect_async(w.r, RNIC_AE_TAGGED_ACCESS, w.c->qp.number);
        rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_FLUSHED);
        rnic_mem_read(w.r, sink.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
        stag_reconnect(w.c);
        /* It comes to have the right between request and response. */
        post_read(&w, &sink, 1, &read);
        sink.access = LW | RW;
        g_assert_cmpuint(stag_try_reregister(w.r, &sink,
                                             RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_OK);
        respond(&w, &read);
        rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_SUCCESS);
        rnic_mem_read(w.r, sink.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "response", 8);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V7.4.2-6 V7.4.2-5");
}

/* The sink comes to be of another PD between request and response, and back. */
static void test_read_sink_pd(void)
{
    World w;
    StagRegion sink;
    WireRead read;
    uint8_t got[8];

    world_init(&w);
    sink = stag_region(w.r, 1);
    stag_register(w.r, &sink);
    post_read(&w, &sink, 1, &read);
    sink.pd = rnic_alloc_pd(w.r);
    g_assert_cmpuint(stag_try_reregister(w.r, &sink, RNIC_REREGISTER_PD), ==,
                     RNIC_ST_OK);
    g_assert_cmphex(sink.stag, ==, read.sink_stag);
    respond(&w, &read);
    wire_expect_terminate(w.c->peer, 0x1102);
    rnic_expect_async(w.r, RNIC_AE_TAGGED_INVALID_PD, w.c->qp.number);
    rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_FLUSHED);
    rnic_mem_read(w.r, sink.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
    stag_reconnect(w.c);
    sink.pd = w.r->pd;
    g_assert_cmpuint(stag_try_reregister(w.r, &sink, RNIC_REREGISTER_PD), ==,
                     RNIC_ST_OK);
    post_read(&w, &sink, 1, &read);
    respond(&w, &read);
    rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_mem_read(w.r, sink.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "response", 8);
    world_cleanup(&w);
    rnic_shows("V5.2-1");
}

/* -------------------------------------------------------- another adapter */

/* The numbers of one adapter, beyond those that both have, name nothing here. */
static void assert_unknown_there(Connection *a, Rnic *second)
{
    uint32_t pd = 0;
    RnicEq eq;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;
    struct rnic_admin_sqe sqe;

    for (int i = 0; i < 8; i++) {
        pd = rnic_alloc_pd(a->r);
        rnic_create_eq(a->r, &eq, RNIC_EQ_COMPLETION, RNIC_NO_VECTOR, 4);
        rnic_create_cq(a->r, &cq, 4, eq.number);
        init = rnic_qp_default(a->r, &cq, &cq);
        init.pd = pd;
        rnic_create_qp(a->r, &qp, &init);
    }
    g_assert_cmpuint(rnic_admin_object(second, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_INVALID_PD);
    g_assert_cmpuint(rnic_admin_object(second, RNIC_ADMIN_DESTROY_QP,
                                       qp.number), ==, RNIC_ST_INVALID_QP);
    g_assert_cmpuint(rnic_admin_object(second, RNIC_ADMIN_QUERY_CQ,
                                       cq.number), ==, RNIC_ST_INVALID_CQ);
    g_assert_cmpuint(rnic_admin_object(second, RNIC_ADMIN_DESTROY_EQ,
                                       eq.number), ==, RNIC_ST_INVALID_EQ);
    init = rnic_qp_default(second, &cq, &cq);
    sqe = rnic_qp_command(second, &init, &qp);
    g_assert_cmpuint(rnic_admin(second, &sqe, NULL), ==, RNIC_ST_INVALID_CQ);
    g_assert_cmpuint(le32_to_cpu(rnic_query_counters(second).qps), ==, 1);
}

static void test_other_device(void)
{
    enum { SLOT = 5, REGIONS = 8 };
    ConnectionOptions options = stag_options;
    StagRegion regions[REGIONS];
    Connection *a, *b;
    Rnic *second;
    uint8_t octet;

    options.arguments = "-device rnic,addr=5,mpa-rtr=off,fabric=wire";
    a = connection_new(&options);
    second = rnic_sibling(a->r, SLOT);
    rnic_up(second);
    b = connection_prepare_on(second, &stag_options);
    connection_establish(b, &stag_options);
    assert_unknown_there(a, second);
    for (unsigned i = 0; i < REGIONS; i++) {
        regions[i] = stag_region(a->r, 1);
        regions[i].key = 0x80 + i;
        stag_register(a->r, &regions[i]);
        stag_peer_writes(a, regions[i].stag, regions[i].va, "a", 1);
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .num_sge = 1, .sge = { sge_at(&regions[i], 0, 1) } };

        stag_peer_write_refused(b, regions[i].stag, regions[i].va, 1, 0x1100);
        stag_peer_read_refused(b, regions[i].stag, regions[i].va, 1, 0x0100);
        rnic_post_send(second, &b->qp, &wr);
        rnic_expect_cqe(second, &b->send_cq, 0, RNIC_WC_INVALID_STAG);
        stag_reconnect(b);
        rnic_mem_read(a->r, regions[i].bus[0], &octet, 1);
        g_assert_cmphex(octet, ==, 'a');
    }
    /* They are still good where they belong. */
    stag_peer_writes(a, regions[0].stag, regions[0].va, "b", 1);
    connection_free_second(b);
    rnic_sibling_free(second);
    connection_free(a);
    rnic_shows("V5.1-1 V7.1-1");
}

/* -------------------------------------------------- what a process reaches */

/* One page of BAR 2 is all that a process has; no command comes from there. */
static void test_user_page(void)
{
    enum { PAGE = 3 };
    World w;
    StagRegion region;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    uint32_t bad, status;

    world_init(&w);
    region = stag_region(w.r, 1);
    /* A registration waits in the ring for ADMIN_TAIL alone. */
    sqe = stag_command(w.r, RNIC_ADMIN_REGISTER_MR, &region);
    rnic_admin_fill(w.r, &sqe);
    bad = rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS);
    status = rnic_read32(w.r, RNIC_REG_STATUS);
    for (uint32_t at = 0; at < RNIC_DOORBELL_PAGE_SIZE; at += 4) {
        /* It names no object of that page: nothing may come of it. */
        rnic_doorbell(w.r, PAGE, at, w.r->admin_tail);
        g_assert_cmphex(qpci_io_readl(w.r->dev, w.r->doorbells,
                                      PAGE * RNIC_DOORBELL_PAGE_SIZE + at),
                        ==, 0);
    }
    g_assert_cmpuint(rnic_read32(w.r, RNIC_REG_BAD_DOORBELLS) - bad, ==,
                     RNIC_DOORBELL_PAGE_SIZE / 4);
    g_assert_cmphex(rnic_read32(w.r, RNIC_REG_STATUS), ==, status);
    rnic_settle_fast(w.r);
    g_assert_false(rnic_admin_try_completion(w.r, &cqe));
    rnic_admin_tail(w.r);
    rnic_admin_completion(w.r, &cqe);
    g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V7.5-1");
}

/* With @index, and some key, neither this side nor the peer gets at a queue. */
static void assert_opens_nothing(Connection *c, uint32_t index,
                                 const ConnectionOptions *options)
{
    static const uint8_t keys[] = { 0, 1, 0xff };

    for (unsigned k = 0; k < G_N_ELEMENTS(keys); k++) {
        uint32_t stag = index << 8 | keys[k];
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .num_sge = 1 };

        wr.sge[0].stag = cpu_to_le32(stag);
        wr.sge[0].to = cpu_to_le64(c->qp.memory);
        wr.sge[0].length = cpu_to_le32(1);
        rnic_post_send(c->r, &c->qp, &wr);
        rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_INVALID_STAG);
        connection_recycle(c);
        connection_establish(c, options);
        wire_put_write(c->peer, stag, c->qp.memory, "x", 1);
        wire_expect_terminate(c->peer, 0x1100);
        connection_recycle(c);
        connection_establish(c, options);
        g_assert_false(stag_exists(c->r, stag));
    }
}

/*
 * Any STag that was not given out opens nothing, queues or no queues: the lowest
 * ones, the highest, those that are numbers of other objects, and neighbours.
 */
static void test_no_hidden_stags(void)
{
    enum { LOWEST = 24, INDICES = LOWEST + 12, MOST = 0xffffff };
    ConnectionOptions options = { .properties = ",max-mr=32" };
    Connection *c = connection_new(&options);
    Connection *more = connection_prepare_second(c, NULL);
    uint32_t own[2] = { c->mr.stag >> 8, more->mr.stag >> 8 };
    RnicSrqInit init = rnic_srq_default(c->r);
    RnicSrq srq;

    rnic_create_srq(c->r, &srq, &init);
    g_assert_cmpuint(le32_to_cpu(rnic_query_counters(c->r).stags), ==, 2);
    for (unsigned i = 0; i < INDICES; i++) {
        const uint32_t others[] = {
            MOST, MOST - 1, c->qp.number & MOST, more->qp.number & MOST,
            c->send_cq.number & MOST, c->recv_cq.number & MOST,
            more->recv_cq.number & MOST, srq.number & MOST,
            c->r->comp_eq.number & MOST, c->r->pd & MOST,
            (own[0] + 1) & MOST, (own[1] - 1) & MOST,
        };
        uint32_t index = i < LOWEST ? i : others[i - LOWEST];

        if (index != own[0] && index != own[1]) {
            assert_opens_nothing(c, index, &options);
        }
    }
    connection_free_second(more);
    connection_free(c);
    rnic_shows("V7.5-2");
}

/* ------------------------------------------------------------- reregister */

/* Whatever index Reregister answers with, nothing of the old STag is left. */
static void test_reregister_index(void)
{
    static const uint32_t changes[] = {
        RNIC_REREGISTER_ACCESS, RNIC_REREGISTER_PD,
        RNIC_REREGISTER_TRANSLATION, STAG_CHANGE_ALL,
    };
    World w;
    uint32_t stags;

    world_init(&w);
    stags = rnic_query_counters(w.r).stags;
    for (unsigned i = 0; i < 3 * G_N_ELEMENTS(changes); i++) {
        StagRegion region = stag_region(w.r, 1 + i % 3);
        uint32_t old;

        region.key = i;
        stag_register(w.r, &region);
        old = region.stag;
        region.key = i + 100;
        if (i % 3 == 1) {
            /* More pages than it had. */
            StagRegion larger = stag_region(w.r, 5);

            larger.stag = region.stag;
            larger.key = region.key;
            region = larger;
            g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                                 STAG_CHANGE_ALL), ==,
                             RNIC_ST_OK);
        } else {
            g_assert_cmpuint(stag_try_reregister(w.r, &region, changes[i / 3]),
                             ==, RNIC_ST_OK);
        }
        if (old >> 8 != region.stag >> 8) {
            g_assert_false(stag_exists(w.r, old));
        }
        stag_peer_write_refused(w.c, old, region.va, 1, 0x1100);
        stag_peer_read_refused(w.c, old, region.va, 1, 0x0100);
        stag_peer_writes(w.c, region.stag, region.va, "new", 3);
        stag_dealloc(w.r, region.stag);
        g_assert_cmpuint(rnic_query_counters(w.r).stags, ==, stags);
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-9");
}

/* ------------------------------------------------------------------ modes */

static void assert_mode(bool block_mode)
{
    ConnectionOptions options = stag_options;
    StagRegion region, block;
    Connection *c;
    uint8_t octet;

    options.features_off = block_mode ? 0 : RNIC_FEATURE_BLOCK_LIST;
    c = connection_new(&options);
    /* ENABLE is what opens: with the mode that was asked for. */
    g_assert_cmpint(!!(rnic_read64(c->r, RNIC_REG_DRIVER_FEATURES) &
                       RNIC_FEATURE_BLOCK_LIST), ==, block_mode);
    g_assert_cmpuint(le32_to_cpu(rnic_query_device(c->r).list_mode), ==,
                     block_mode ? RNIC_LIST_MODE_BLOCK : RNIC_LIST_MODE_PAGE);
    region = stag_region(c->r, 2);
    stag_register(c->r, &region);
    stag_peer_writes(c, region.stag, region.va + 4096, "?", 1);
    rnic_mem_read(c->r, region.bus[1], &octet, 1);
    g_assert_cmphex(octet, ==, '?');
    block = region;
    block.page_shift = 0;
    block.block_size = 1000;
    block.bus[0] += 3;
    block.bus[1] += 5;
    block.length = 2000;
    block.va = 7000;
    g_assert_cmpuint(stag_try_reregister(c->r, &block, STAG_CHANGE_ALL), ==,
                     block_mode ? RNIC_ST_OK : RNIC_ST_UNSUPPORTED);
    g_assert_cmpuint(stag_try_register(c->r, &block), ==,
                     block_mode ? RNIC_ST_OK : RNIC_ST_UNSUPPORTED);
    if (block_mode) {
        stag_peer_writes(c, block.stag, block.va + 1000, "!", 1);
        rnic_mem_read(c->r, block.bus[1], &octet, 1);
        g_assert_cmphex(octet, ==, '!');
    }
    connection_free(c);
}

static void test_modes(void)
{
    assert_mode(false);
    assert_mode(true);
    rnic_shows("V5.1.2-3 V5.1.2-4 V7.6.2-2 V9-4 V9.2.1.1-1");
}

/* ------------------------------------------------------ ways to be Invalid */

enum { BY_LOCAL, BY_SEND, BY_SEND_SE, BY_READ, WAYS };

/* The completion of the operation is polled when this returns. */
static void invalidate_by(World *w, int way, const StagRegion *region)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE,
                  .flags = RNIC_WQE_SIGNALED, .wr_id = 3, .num_sge = 1,
                  .sge = { sge_at(region, 0, 8) },
                  .remote_stag = CONNECTION_REMOTE_STAG };
    WireRead read;

    switch (way) {
    case BY_LOCAL:
        g_assert_cmpint(stag_invalidate(w->c, region->stag), ==,
                        RNIC_WC_SUCCESS);
        break;
    case BY_SEND:
    case BY_SEND_SE:
        connection_recv(w->c, 4, 0, 8);
        wire_put_send(w->c->peer, way == BY_SEND ? WIRE_SEND_INVALIDATE
                                                 : WIRE_SEND_SE_INVALIDATE,
                      region->stag, "x", 1);
        rnic_expect_cqe(w->r, &w->c->recv_cq, 4, RNIC_WC_SUCCESS);
        break;
    case BY_READ:
        rnic_post_send(w->r, &w->c->qp, &wr);
        wire_get_read_request(w->c->peer, 1, &read);
        respond(w, &read);
        rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_SUCCESS);
        break;
    }
}

static void assert_invalid(World *w, const StagRegion *region)
{
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 6, .num_sge = 1,
                  .sge = { sge_at(region, 0, 8) } };

    /* What begins after the completion fails, first of all. */
    stag_peer_write_refused(w->c, region->stag, region->va, 1, 0x1100);
    g_assert_cmpint(stag_query_mr(w->r, region->stag).valid, ==, 0);
    assert_flag(w, region->stag, true);
    stag_peer_read_refused(w->c, region->stag, region->va, 1, 0x0100);
    rnic_post_send(w->r, &w->c->qp, &wr);
    rnic_expect_cqe(w->r, &w->c->send_cq, 6, RNIC_WC_INVALID_STAG);
    stag_reconnect(w->c);
}

static void test_ways_to_invalid(void)
{
    StagRegion region;
    World w;

    world_init(&w);
    region = stag_region(w.r, 1);
    region.stag = stag_alloc(w.r, w.r->pd, 1, region.key, true);
    assert_invalid(&w, &region);
    for (int way = 0; way < WAYS; way++) {
        g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                        RNIC_WC_SUCCESS);
        stag_peer_writes(w.c, region.stag, region.va, "valid", 5);
        invalidate_by(&w, way, &region);
        assert_invalid(&w, &region);
    }
    world_cleanup(&w);
    rnic_shows("V7.2.2-2 V7.8-5 V7.3.2.5-10");
}

/* -------------------------------------------------- after an invalidation */

/* The list of an Invalid STag is gone, in the device and for the guest. */
static void test_list_after_invalidate(void)
{
    World w;
    StagRegion region, other;
    uint8_t got[3];

    world_init(&w);
    region = stag_region(w.r, 2);
    stag_register(w.r, &region);
    g_assert_cmpint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(stag_query_mr(w.r, region.stag).page_count, ==, 0);
    g_assert_cmpuint(le32_to_cpu(stag_query_mr(w.r, region.stag).max_pages),
                     ==, 2);
    /* Both ways back to Valid bring a list of their own. */
    for (int i = 0; i < 2; i++) {
        other = stag_region(w.r, 2);
        other.stag = region.stag;
        other.key = region.key;
        if (i == 0) {
            g_assert_cmpint(stag_fast_register(w.c, &other), ==,
                            RNIC_WC_SUCCESS);
        } else {
            g_assert_cmpuint(stag_try_reregister(w.r, &other,
                                                 STAG_CHANGE_ALL), ==,
                             RNIC_ST_OK);
        }
        stag_peer_writes(w.c, other.stag, other.va + 4095, "new", 3);
        rnic_mem_read(w.r, other.bus[0] + 4095, got, 3);
        g_assert_cmpmem(got, 3, "new", 3);
        rnic_mem_read(w.r, region.bus[0] + 4095, got, 3);
        g_assert_cmpmem(got, 3, "\0\0", 3);
        g_assert_cmpint(stag_invalidate(w.c, other.stag), ==,
                        RNIC_WC_SUCCESS);
    }
    /* With nothing to go by, Reregister does not guess. */
    g_assert_cmpuint(stag_try_reregister(w.r, &other, RNIC_REREGISTER_ACCESS),
                     ==, RNIC_ST_INVALID_MODIFIER);
    world_cleanup(&w);
    rnic_shows("V7.8-9");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/rights/combinations", test_combinations);
    qtest_add_func("rnic/rights/flag-register", test_flag_register);
    qtest_add_func("rnic/rights/flag-reregister",
                   test_flag_reregister);
    qtest_add_func("rnic/rights/each-right", test_each_right);
    qtest_add_func("rnic/rights/read-sink", test_read_sink);
    qtest_add_func("rnic/rights/read-sink-pd", test_read_sink_pd);
    qtest_add_func("rnic/rights/other-device", test_other_device);
    qtest_add_func("rnic/rights/user-page", test_user_page);
    qtest_add_func("rnic/rights/no-hidden-stags",
                   test_no_hidden_stags);
    qtest_add_func("rnic/rights/reregister-index",
                   test_reregister_index);
    qtest_add_func("rnic/rights/modes", test_modes);
    qtest_add_func("rnic/rights/ways-to-invalid", test_ways_to_invalid);
    qtest_add_func("rnic/rights/list-after-invalidate",
                   test_list_after_invalidate);
    return g_test_run();
}
