/*
 * rnic: Shared Memory Regions, Reregister, Block Lists, what all of it takes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define RR RNIC_ACCESS_REMOTE_READ
#define RW RNIC_ACCESS_REMOTE_WRITE
#define LR RNIC_ACCESS_LOCAL_READ
#define LW RNIC_ACCESS_LOCAL_WRITE
#define MB RNIC_ACCESS_MW_BIND
#define ZB RNIC_ACCESS_ZERO_BASED

typedef struct World {
    Connection *c;
    Rnic *r;
    struct rnic_counters before;
} World;

static void world_init_with(World *w, const char *properties)
{
    ConnectionOptions options = stag_options;

    options.properties = properties;
    w->c = connection_new(&options);
    w->r = w->c->r;
    w->before = rnic_query_counters(w->r);
}

static void world_init(World *w)
{
    world_init_with(w, stag_options.properties);
}

static void world_cleanup(World *w)
{
    stag_assert_no_leak(w->r, &w->before);
    connection_free(w->c);
}

static uint8_t octet_at(World *w, uint64_t bus)
{
    uint8_t octet;

    rnic_mem_read(w->r, bus, &octet, 1);
    return octet;
}

/* The peer's octet at @to of @stag lands at @bus. */
static void assert_maps(World *w, uint32_t stag, uint64_t to, uint64_t bus)
{
    static uint8_t octet;

    octet += octet == 255 ? 2 : 1;
    stag_peer_writes(w->c, stag, to, &octet, 1);
    g_assert_cmphex(octet_at(w, bus), ==, octet);
}

/* What was registered is what QUERY_MR tells. */
static void assert_as_registered(World *w, const StagRegion *region)
{
    struct rnic_mr_attr attr = stag_query_mr(w->r, region->stag);

    g_assert_cmphex(le32_to_cpu(attr.stag), ==, region->stag);
    g_assert_cmphex(region->stag & 0xff, ==, region->key);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, region->pd);
    g_assert_cmphex(le64_to_cpu(attr.length), ==, region->length);
    g_assert_cmphex(le64_to_cpu(attr.first_byte_offset), ==, region->offset);
    g_assert_cmphex(le32_to_cpu(attr.access), ==, region->access);
    if (!(region->access & ZB)) {
        g_assert_cmphex(le64_to_cpu(attr.va), ==, region->va);
    }
    g_assert_cmpuint(le32_to_cpu(attr.page_count), ==, region->count);
    g_assert_cmpuint(le32_to_cpu(attr.max_pages), >=, region->count);
    g_assert_cmpuint(le32_to_cpu(attr.max_pages), ==, region->granted);
    g_assert_cmpuint(attr.remote_access, ==, !region->local_only);
    g_assert_cmpuint(attr.valid, ==, 1);
}

/* No source of a Send; all is new afterwards. */
static void assert_no_local_use(World *w, uint32_t stag, uint64_t to)
{
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };

    wr.sge[0].stag = cpu_to_le32(stag);
    wr.sge[0].to = cpu_to_le64(to);
    wr.sge[0].length = cpu_to_le32(1);
    rnic_post_send(w->r, &w->c->qp, &wr);
    rnic_expect_cqe(w->r, &w->c->send_cq, 0, RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w->c->peer, 0);
    stag_reconnect(w->c);
}

/* ------------------------------------------------------------ shared: life */

static void test_shared(void)
{
    World w;
    StagRegion source, other;
    struct rnic_mr_attr before, after;
    uint8_t data[8192], got[8192];

    world_init(&w);
    source = stag_region(w.r, 2);
    stag_register(w.r, &source);
    before = stag_query_mr(w.r, source.stag);
    other = source;
    other.va += 0x7000;
    other.key = 0xee;
    stag_share(w.r, source.stag, &other);
    after = stag_query_mr(w.r, source.stag);
    g_assert_cmpint(before.kind, ==, RNIC_STAG_MR);
    g_assert_cmpint(after.kind, ==, RNIC_STAG_SHARED_MR);
    after.kind = before.kind;
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    after = stag_query_mr(w.r, other.stag);
    g_assert_cmpint(after.kind, ==, RNIC_STAG_SHARED_MR);
    g_assert_cmpint(after.valid, ==, 1);
    g_assert_cmphex(le64_to_cpu(after.va), ==, other.va);
    g_assert_cmphex(after.length, ==, before.length);
    g_assert_cmphex(after.page_count, ==, before.page_count);
    g_assert_cmphex(other.stag >> 8, !=, source.stag >> 8);
    g_assert_cmphex(other.stag & 0xff, ==, 0xee);
    g_assert_cmphex(after.stag, ==, cpu_to_le32(other.stag));

    rnic_pattern(data, sizeof(data), 5);
    stag_peer_writes(w.c, source.stag, source.va, data, sizeof(data));
    stag_peer_reads(w.c, other.stag, other.va, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    stag_peer_write_refused(w.c, other.stag ^ 1, other.va, 1, 0x1100);
    stag_peer_write_refused(w.c, other.stag, other.va - 1, 1, 0x1101);
    stag_peer_write_refused(w.c, other.stag, other.va + 8191, 2, 0x1101);
    /* Shared again, of the new one. */
    for (int i = 0; i < 100; i++) {
        StagRegion third = other;
        uint32_t of = i & 1 ? source.stag : other.stag;

        third.key = i;
        third.va = 0x10000ULL * i;
        g_assert_cmpuint(stag_try_share(w.r, of ^ 1u << i % 8, &third), ==,
                         RNIC_ST_INVALID_STAG);
        stag_share(w.r, of, &third);
        assert_maps(&w, third.stag, third.va + 4097, source.bus[1] + 1);
        if (i != 50) {
            stag_dealloc(w.r, third.stag);
            continue;
        }
        /* In any order, the first one first. */
        stag_dealloc(w.r, source.stag);
        stag_peer_write_refused(w.c, source.stag, source.va, 1, 0x1100);
        source = third;
    }
    stag_dealloc(w.r, other.stag);
    assert_maps(&w, source.stag, source.va, source.bus[0]);
    stag_dealloc(w.r, source.stag);
    stag_peer_read_refused(w.c, source.stag, source.va, 1, 0x0100);
    world_cleanup(&w);
    rnic_shows("V7.3.2.4-3 V7.3.2.4-4 V7.3.2.4-6 V7.3.2.4-8 V7.4.3-2 V7.9-4");
}

/* Fast-Register and Reregister: TO 0 is the first octet, whatever the VA. */
static void check_zero_based(World *w)
{
    StagRegion region = stag_region(w->r, 2);
    uint64_t first = region.bus[0] + 0x123;

    region.offset = 0x123;
    region.length = 5000;
    region.va = 0x123456789;            /* means nothing */
    region.access |= ZB;
    region.stag = stag_alloc(w->r, w->r->pd, 2, region.key, true);
    for (int again = 0; again < 2; again++) {
        if (again) {
            g_assert_cmpuint(stag_try_reregister(w->r, &region,
                                                 STAG_CHANGE_ALL), ==,
                             RNIC_ST_OK);
        } else {
            g_assert_cmpuint(stag_fast_register(w->c, &region), ==,
                             RNIC_WC_SUCCESS);
        }
        assert_maps(w, region.stag, 0, first);
        assert_maps(w, region.stag, 4999, first + 4999);
        stag_peer_write_refused(w->c, region.stag, 5000, 1, 0x1101);
        stag_peer_write_refused(w->c, region.stag, region.va, 1, 0x1101);
    }
    stag_dealloc(w->r, region.stag);
}

/* A copy has a base type of its own: this one of a zero based region is VA based. */
static void check_share_of_zero_based(World *w, const StagRegion *zero_based)
{
    StagRegion copy = *zero_based;
    uint64_t first = copy.bus[0] + copy.offset;

    g_assert_cmphex(copy.access & ZB, !=, 0);
    copy.access = RNIC_TEST_ACCESS_ALL;
    copy.va = 0x7000000000 + copy.offset;
    copy.key = 0x5a;
    stag_share(w->r, zero_based->stag, &copy);
    g_assert_cmphex(le64_to_cpu(stag_query_mr(w->r, copy.stag).va), ==,
                    copy.va);
    assert_maps(w, copy.stag, copy.va, first);
    assert_maps(w, copy.stag, copy.va + copy.length - 1,
                first + copy.length - 1);
    stag_peer_write_refused(w->c, copy.stag, 0, 1, 0x1101);
    stag_dealloc(w->r, copy.stag);
}

/* Own rights, PD, key and base. */
static void test_shared_own(void)
{
    World w;
    StagRegion source, read, foreign;
    uint32_t pd;
    uint8_t got[4];
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    source = stag_region(w.r, 2);
    source.offset = 0x123;
    source.va += 0x123;
    source.length -= 0x123;
    stag_register(w.r, &source);
    read = foreign = source;
    read.access = LR | RR | ZB;
    read.va = 0x123456789;              /* means nothing */
    read.key = 0;
    stag_share(w.r, source.stag, &read);
    rnic_mem_write(w.r, source.bus[0] + 0x123, "abcd", 4);
    stag_peer_reads(w.c, read.stag, 0, got, 4);
    g_assert_cmpmem(got, 4, "abcd", 4);
    stag_peer_write_refused(w.c, read.stag, 0, 1, 0x1102);
    stag_peer_read_refused(w.c, read.stag, source.length, 1, 0x0101);
    assert_maps(&w, source.stag, source.va, source.bus[0] + 0x123);
    check_share_of_zero_based(&w, &read);
    foreign.pd = pd;
    foreign.access = LW | RW;
    stag_share(w.r, read.stag, &foreign);
    g_assert_cmphex(le32_to_cpu(stag_query_mr(w.r, foreign.stag).pdn), ==,
                    pd);
    g_assert_cmphex(le64_to_cpu(stag_query_mr(w.r, foreign.stag).length), ==,
                    source.length);
    g_assert_cmphex(le64_to_cpu(stag_query_mr(w.r, read.stag).length), ==,
                    source.length);
    stag_peer_reads(w.c, read.stag, source.length - 1, got, 1);
    stag_peer_write_refused(w.c, foreign.stag, foreign.va, 1, 0x1102);
    wr.sge[0].stag = cpu_to_le32(foreign.stag);
    wr.sge[0].to = cpu_to_le64(foreign.va);
    wr.sge[0].length = cpu_to_le32(1);
    rnic_post_send(w.r, &w.c->qp, &wr);
    rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_INVALID_PD);
    stag_reconnect(w.c);
    stag_dealloc(w.r, source.stag);
    stag_dealloc(w.r, foreign.stag);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    stag_peer_reads(w.c, read.stag, 4, got, 4);
    stag_dealloc(w.r, read.stag);
    check_zero_based(&w);
    world_cleanup(&w);
    rnic_shows("V7.3.2.4-7 V7.6.1.2-2 V9.2.5.1-11 V9.2.6.6-3");
}

static void test_shared_refused(void)
{
    World w;
    StagRegion source, other, invalid;
    uint32_t fresh;

    world_init(&w);
    source = stag_region(w.r, 2);
    source.offset = 0x40;
    source.va += 0x40;
    source.length -= 0x40;
    stag_register(w.r, &source);
    other = source;
#define REFUSED(stag, status)                                           \
    g_assert_cmpuint(stag_try_share(w.r, (stag), &other), ==, (status))
    REFUSED(0, RNIC_ST_INVALID_STAG);
    REFUSED(STAG_UNKNOWN, RNIC_ST_INVALID_STAG);
    for (unsigned bit = 0; bit < 8; bit++) {
        REFUSED(source.stag ^ 1u << bit, RNIC_ST_INVALID_STAG);
    }
    other.pd = 0x7777;
    REFUSED(source.stag, RNIC_ST_INVALID_PD);
    other.pd = source.pd;
    /* The VA: any with the source's offset in the first page. */
    other.va = source.va + 1;
    REFUSED(source.stag, RNIC_ST_INVALID_VA);
    other.va = source.va - 1;
    REFUSED(source.stag, RNIC_ST_INVALID_VA);
    other.va = 0xfffffffffffff040;
    REFUSED(source.stag, RNIC_ST_INVALID_VA);
    other.va = source.va;
    /* Figure 18. */
    for (unsigned access = 0; access < 16; access++) {
        bool lr = access & LR, lw = access & LW;
        bool rr = access & RR, rw = access & RW;
        bool good = (lr || lw) && (!rr || lr) && (!rw || lw);

        other.access = access;
        if (!good) {
            REFUSED(source.stag, RNIC_ST_INVALID_ACCESS_RIGHTS);
        }
    }
    other.access = LR | 0x80;
    REFUSED(source.stag, RNIC_ST_INVALID_ACCESS_RIGHTS);
    other.access = LR;
    g_assert_cmpint(stag_query_mr(w.r, source.stag).kind, ==, RNIC_STAG_MR);
    /* Invalid ones: fresh, and invalidated. */
    fresh = stag_alloc(w.r, w.r->pd, 2, 7, true);
    REFUSED(fresh, RNIC_ST_INVALID_STAG);
    g_assert_cmpint(stag_query_mr(w.r, fresh).valid, ==, 0);
    stag_dealloc(w.r, fresh);
    invalid = source;
    stag_register(w.r, &invalid);
    g_assert_cmpuint(stag_invalidate(w.c, invalid.stag), ==, RNIC_WC_SUCCESS);
    REFUSED(invalid.stag, RNIC_ST_INVALID_STAG);
    g_assert_cmpint(stag_query_mr(w.r, invalid.stag).valid, ==, 0);
    g_assert_cmpint(stag_query_mr(w.r, invalid.stag).kind, ==, RNIC_STAG_MR);
    stag_dealloc(w.r, invalid.stag);
    /* Whole pages further it may be. */
    other.va = source.va + 0x3000;
    other.access = LR | LW | RR | RW;
    REFUSED(source.stag, RNIC_ST_OK);
    assert_maps(&w, other.stag, other.va, source.bus[0] + 0x40);
    stag_dealloc(w.r, other.stag);
    stag_dealloc(w.r, source.stag);
    REFUSED(source.stag, RNIC_ST_INVALID_STAG);
#undef REFUSED
    world_cleanup(&w);
    rnic_shows("V7.3.2.4-1 V7.3.2.4-3 V7.3.2.4-5 V7.2.1-11 V9.2.6.6-5 "
               "V7.2.2-3");
}

static uint16_t share_with_flags(Rnic *r, uint32_t source, uint8_t flags,
                                 StagRegion *region)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_SHARED_MR);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.shared_mr.stag = cpu_to_le32(source);
    sqe.shared_mr.pdn = cpu_to_le32(region->pd);
    sqe.shared_mr.va = cpu_to_le64(region->va);
    sqe.shared_mr.access = cpu_to_le32(region->access);
    sqe.shared_mr.key = region->key;
    sqe.shared_mr.mr_flags = flags;
    status = rnic_admin(r, &sqe, &cqe);
    region->stag = le32_to_cpu(cqe.number);
    return status;
}

/* The octet at @to of @stag is @octet: a Send takes it along. */
static void assert_sends(World *w, uint32_t stag, uint64_t to, uint8_t octet)
{
    RnicWr wr = connection_wr(w->c, RNIC_SQ_SEND, 77, 0, 1);
    uint8_t got[1];

    wr.sge[0].stag = cpu_to_le32(stag);
    wr.sge[0].to = cpu_to_le64(to);
    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_send(w->c->peer, WIRE_SEND, 1, got, 1);
    g_assert_cmphex(got[0], ==, octet);
    rnic_expect_cqe(w->r, &w->c->send_cq, 77, RNIC_WC_SUCCESS);
}

/* All that Register Shared MR takes, the Remote Access Flag as well. */
static void test_shared_inputs(void)
{
    World w;
    StagRegion source, local, remote;

    world_init(&w);
    source = stag_region(w.r, 2);
    stag_register(w.r, &source);
    local = source;
    local.key = 0x5b;
    for (unsigned access = 0; access < 16; access++) {
        if (access & (RR | RW)) {
            local.access = access | LR | LW;
            g_assert_cmpuint(share_with_flags(w.r, source.stag,
                                              RNIC_MR_LOCAL_ONLY, &local), ==,
                             RNIC_ST_INVALID_ACCESS_RIGHTS);
        }
    }
    local.access = LR | LW | ZB;
    for (unsigned bit = 0; bit < 8; bit++) {
        if (1u << bit != RNIC_MR_LOCAL_ONLY) {
            g_assert_cmpuint(share_with_flags(w.r, source.stag, 1u << bit,
                                              &local), ==,
                             RNIC_ST_INVALID_MODIFIER);
        }
    }
    g_assert_cmpint(stag_query_mr(w.r, source.stag).kind, ==, RNIC_STAG_MR);
    g_assert_cmpuint(share_with_flags(w.r, source.stag, RNIC_MR_LOCAL_ONLY,
                                      &local), ==, RNIC_ST_OK);
    remote = source;
    remote.key = 0x5c;
    remote.va = source.va + 0x3000;
    remote.pd = w.r->pd;
    g_assert_cmpuint(share_with_flags(w.r, source.stag, 0, &remote), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(stag_query_mr(w.r, local.stag).remote_access, ==, 0);
    g_assert_cmpuint(stag_query_mr(w.r, remote.stag).remote_access, ==, 1);
    g_assert_cmphex(local.stag & 0xff, ==, 0x5b);
    g_assert_cmphex(remote.stag & 0xff, ==, 0x5c);
    g_assert_cmphex(local.stag >> 8, !=, source.stag >> 8);
    g_assert_cmphex(remote.stag >> 8, !=, source.stag >> 8);
    g_assert_cmphex(remote.stag >> 8, !=, local.stag >> 8);
    /* The same octets, by both addressing types. */
    assert_maps(&w, source.stag, source.va + 4097, source.bus[1] + 1);
    assert_maps(&w, remote.stag, remote.va + 4097, source.bus[1] + 1);
    rnic_mem_write(w.r, source.bus[1] + 1, "\x5d", 1);
    assert_sends(&w, local.stag, 4097, 0x5d);
    /* The peer may not use it: there is no right to. */
    stag_peer_write_refused(w.c, local.stag, 0, 1, 0x1102);
    stag_dealloc(w.r, local.stag);
    stag_dealloc(w.r, remote.stag);
    stag_dealloc(w.r, source.stag);
    world_cleanup(&w);
    rnic_shows("V9.2.6.6-1");
}

/* Always Valid: neither reregistered, fast-registered nor invalidated. */
static void test_shared_for_ever(void)
{
    World w;
    StagRegion regions[2], again;
    struct rnic_mr_attr before, after;
    StagBind bind;
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };

    world_init(&w);
    regions[0] = stag_region(w.r, 2);
    stag_register(w.r, &regions[0]);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 1), &regions[0],
                       regions[0].va + 1, 1, RW);
    g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
    before = stag_query_mr(w.r, regions[0].stag);
    g_assert_cmpuint(le32_to_cpu(before.bound_windows), ==, 1);
    regions[1] = regions[0];
    stag_share(w.r, regions[0].stag, &regions[1]);
    /* Shared is all that the first one has become. */
    after = stag_query_mr(w.r, regions[0].stag);
    g_assert_cmpint(after.kind, ==, RNIC_STAG_SHARED_MR);
    after.kind = before.kind;
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    assert_maps(&w, bind.mw, bind.va, regions[0].bus[0] + 1);
    stag_dealloc(w.r, bind.mw);
    for (int i = 0; i < 2; i++) {
        StagRegion *region = &regions[i];
        struct rnic_cqe cqe;
        WireRead read;
        uint8_t got[8];

        again = *region;
        g_assert_cmpuint(stag_try_reregister(w.r, &again, STAG_CHANGE_ALL),
                         ==, RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(stag_fast_register(w.c, region), ==,
                         RNIC_WC_INVALID_STAG);
        stag_reconnect(w.c);
        g_assert_cmpuint(stag_invalidate(w.c, region->stag), ==,
                         RNIC_WC_INVALID_STAG);
        stag_reconnect(w.c);
        for (int se = 0; se < 2; se++) {
            connection_recv(w.c, 4, 0, 8);
            wire_put_send(w.c->peer, se ? WIRE_SEND_SE_INVALIDATE
                                        : WIRE_SEND_INVALIDATE,
                          region->stag, "payload!", 8);
            wire_expect_terminate(w.c->peer, 0x0109);
            rnic_expect_cqe(w.r, &w.c->recv_cq, 4, RNIC_WC_INVALIDATE_STAG);
            connection_peek(w.c, 0, got, 8);
            g_assert_cmpmem(got, 8, "payload!", 8);
            stag_reconnect(w.c);
        }
        wr.sge[0].stag = cpu_to_le32(region->stag);
        wr.sge[0].to = cpu_to_le64(region->va);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_get_read_request(w.c->peer, 1, &read);
        wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                               i ? "response" : "RESPONSE", 8);
        rnic_cq_wait(w.r, &w.c->send_cq, &cqe);
        g_assert_cmpint(cqe.status, ==, RNIC_WC_INVALID_STAG);
        wire_expect_terminate(w.c->peer, 0);
        rnic_mem_read(w.r, region->bus[0], got, 8);
        g_assert_cmpmem(got, 8, i ? "response" : "RESPONSE", 8);
        stag_reconnect(w.c);
        g_assert_cmpint(stag_query_mr(w.r, region->stag).valid, ==, 1);
        g_assert_cmpint(stag_query_mr(w.r, region->stag).kind, ==,
                        RNIC_STAG_SHARED_MR);
        assert_maps(&w, region->stag, region->va, region->bus[0]);
    }
    stag_dealloc(w.r, regions[1].stag);
    /* Also when it is alone again. */
    again = regions[0];
    g_assert_cmpuint(stag_try_reregister(w.r, &again, STAG_CHANGE_ALL), ==,
                     RNIC_ST_INVALID_STAG);
    assert_maps(&w, regions[0].stag, regions[0].va, regions[0].bus[0]);
    g_assert_cmpint(stag_query_mr(w.r, regions[0].stag).kind, ==,
                    RNIC_STAG_SHARED_MR);
    stag_dealloc(w.r, regions[0].stag);
    world_cleanup(&w);
    rnic_shows("V7.2.2-5 V7.3.2.5-2 V7.8-2 V7.8-3 V7.8-4 V9.2.6.6-2");
}

/* ------------------------------------------------------------- reregister */

static void test_reregister(void)
{
    World w;
    StagRegion region, moved;
    uint32_t old, pd;
    struct rnic_mr_attr attr;

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    region = stag_region(w.r, 4);
    region.access = LR | LW;
    stag_register(w.r, &region);
    stag_peer_write_refused(w.c, region.stag, region.va, 1, 0x1102);

    /* Rights: given, with another key, and taken. */
    old = region.stag;
    region.access = LR | LW | RR | RW;
    region.key++;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, region.va + 5, region.bus[0] + 5);
    /* The same index, so that the old key is what dies. */
    g_assert_cmphex(old >> 8, ==, region.stag >> 8);
    g_assert_cmphex(region.stag & 0xff, ==, region.key);
    g_assert_cmphex(old, !=, region.stag);
    stag_peer_write_refused(w.c, old, region.va, 1, 0x1100);
    stag_peer_read_refused(w.c, old, region.va, 1, 0x0100);
    assert_no_local_use(&w, old, region.va);
    region.access = LR | LW | RR;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    stag_peer_write_refused(w.c, region.stag, region.va, 1, 0x1102);
    region.access = LR | LW | RR | RW;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);

    /* The memory, keeping the rights: what this says of those is ignored. */
    moved = stag_region(w.r, 2);
    moved.stag = region.stag;
    moved.access = 0;
    moved.pd = 0x7777;
    g_assert_cmpuint(stag_try_reregister(w.r, &moved,
                                         RNIC_REREGISTER_TRANSLATION), ==,
                     RNIC_ST_OK);
    attr = stag_query_mr(w.r, moved.stag);
    g_assert_cmphex(le32_to_cpu(attr.access), ==, region.access);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, w.r->pd);
    g_assert_cmpuint(le32_to_cpu(attr.page_count), ==, 2);
    g_assert_cmpuint(le32_to_cpu(attr.max_pages), ==, moved.granted);
    g_assert_cmpuint(moved.granted, >=, 2);
    assert_maps(&w, moved.stag, moved.va + 4096, moved.bus[1]);
    g_assert_cmphex(octet_at(&w, region.bus[1]), ==, 0);
    stag_peer_write_refused(w.c, moved.stag, region.va, 1, 0x1101);
    stag_peer_write_refused(w.c, moved.stag, moved.va + 8192, 1, 0x1101);

    /* The PD, alone but for a key: there and back. */
    old = moved.stag;
    moved.pd = pd;
    moved.key++;
    g_assert_cmpuint(stag_try_reregister(w.r, &moved, RNIC_REREGISTER_PD), ==,
                     RNIC_ST_OK);
    g_assert_cmphex(le32_to_cpu(stag_query_mr(w.r, moved.stag).pdn), ==, pd);
    stag_peer_write_refused(w.c, moved.stag, moved.va, 1, 0x1102);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_PD_IN_USE);
    moved.pd = w.r->pd;
    g_assert_cmpuint(stag_try_reregister(w.r, &moved, RNIC_REREGISTER_PD), ==,
                     RNIC_ST_OK);
    assert_maps(&w, moved.stag, moved.va, moved.bus[0]);
    stag_peer_write_refused(w.c, old, moved.va, 1, 0x1100);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);

    /* All at once, and zero based. */
    region.stag = moved.stag;
    region.access = LW | RW | ZB;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, 0, region.bus[0]);
    assert_maps(&w, region.stag, 16383, region.bus[3] + 4095);
    /* Rights of a zero based region: the base is not theirs to change. */
    region.access = LW | RW | LR;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, 1, region.bus[0] + 1);
    /* Growth. */
    moved = stag_region(w.r, 60);
    moved.stag = region.stag;
    g_assert_cmpuint(stag_try_reregister(w.r, &moved, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(moved.granted, >=, 60);
    assert_maps(&w, moved.stag, moved.va + 59 * 4096, moved.bus[59]);
    stag_dealloc(w.r, moved.stag);
    world_cleanup(&w);
    rnic_shows("V7.2-2 V7.3.2.3-3 V7.3.2.3-5 V7.3.2.3-8 V7.3.2.3-10 "
               "V7.3.2.3-11 V7.3.1.1-1 V9.2.6.5-1 V9.2.6.5-2");
}

/* From Invalid: fresh, and invalidated; and then Fast-Register of the size. */
static void test_reregister_invalid(void)
{
    World w;
    StagRegion region, small;

    world_init(&w);
    region = stag_region(w.r, 3);
    region.stag = stag_alloc(w.r, w.r->pd, 2, 6, false);
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, region.va, region.bus[0]);
    g_assert_cmpuint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).remote_access, ==, 1);
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, region.va, region.bus[0]);
    g_assert_cmpuint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    /* The size is now three, and stays so. */
    small = region;
    small.count = 1;
    small.length = 4096;
    g_assert_cmpuint(stag_fast_register(w.c, &small), ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(stag_invalidate(w.c, small.stag), ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(stag_fast_register(w.c, &region), ==, RNIC_WC_SUCCESS);
    assert_maps(&w, region.stag, region.va + 8192, region.bus[2]);
    stag_dealloc(w.r, region.stag);
    /* Nothing to keep: refused, and gone. */
    region.stag = stag_alloc(w.r, w.r->pd, 2, 6, true);
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_false(stag_exists(w.r, region.stag));
    world_cleanup(&w);
    rnic_shows("V7.2.2-3 V7.3.2.1-5 V7.3.2.3-2 V7.3.2.5-1 V7.8-7");
}

/* A bad STag: nothing happens to anything. */
static void test_reregister_bad_stag(void)
{
    World w;
    StagRegion region, copy, shared[2];
    StagBind bind;
    struct rnic_mr_attr before, after;
    struct rnic_mr_attr of_window, of_shared;
    uint32_t stags[] = { 0, STAG_UNKNOWN, 0xffffffff, 0, 0, 0, 0 };

    world_init(&w);
    region = stag_region(w.r, 2);
    stag_register(w.r, &region);
    shared[0] = stag_region(w.r, 1);
    stag_register(w.r, &shared[0]);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 1), &shared[0],
                       shared[0].va, 1, RW);
    g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
    shared[1] = shared[0];
    stag_share(w.r, shared[0].stag, &shared[1]);
    stags[3] = bind.mw;
    stags[4] = shared[0].stag;
    stags[5] = shared[1].stag;
    stags[6] = stag_alloc_mw(w.r, w.r->pd, 2);
    before = stag_query_mr(w.r, region.stag);
    of_window = stag_query_mw(w.r, bind.mw);
    of_shared = stag_query_mr(w.r, shared[0].stag);
    for (unsigned i = 0; i < G_N_ELEMENTS(stags); i++) {
        copy = region;
        copy.stag = stags[i];
        copy.access = 0;                /* not looked at */
        g_assert_cmpuint(stag_try_reregister(w.r, &copy, STAG_CHANGE_ALL), ==,
                         RNIC_ST_INVALID_STAG);
    }
    after = stag_query_mr(w.r, region.stag);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    after = stag_query_mw(w.r, bind.mw);
    g_assert_cmpmem(&after, sizeof(after), &of_window, sizeof(of_window));
    after = stag_query_mr(w.r, shared[0].stag);
    g_assert_cmpmem(&after, sizeof(after), &of_shared, sizeof(of_shared));
    g_assert_cmpint(stag_query_mw(w.r, stags[6]).valid, ==, 0);
    stag_dealloc(w.r, stags[6]);
    assert_maps(&w, region.stag, region.va, region.bus[0]);
    assert_maps(&w, bind.mw, bind.va, shared[0].bus[0]);
    assert_maps(&w, shared[0].stag, shared[0].va, shared[0].bus[0]);
    assert_maps(&w, shared[1].stag, shared[1].va + 1, shared[0].bus[0] + 1);
    stag_dealloc(w.r, bind.mw);
    stag_dealloc(w.r, shared[0].stag);
    stag_dealloc(w.r, shared[1].stag);
    stag_dealloc(w.r, region.stag);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-1 V7.3.2.3-6 V9.2.6.5-4");
}

/* Any other failure: the region is gone, with all it held. */
static void test_reregister_gone(void)
{
    static const struct {
        const char *what;
        uint32_t change;
        uint16_t status;
    } cases[] = {
        { "pd", RNIC_REREGISTER_PD, RNIC_ST_INVALID_PD },
        { "rights", RNIC_REREGISTER_ACCESS, RNIC_ST_INVALID_ACCESS_RIGHTS },
        { "unknown right", RNIC_REREGISTER_ACCESS,
          RNIC_ST_INVALID_ACCESS_RIGHTS },
        { "va", STAG_CHANGE_ALL, RNIC_ST_INVALID_VA },
        { "offset", STAG_CHANGE_ALL, RNIC_ST_INVALID_FBO },
        { "length", RNIC_REREGISTER_TRANSLATION, RNIC_ST_INVALID_LENGTH },
        { "page size", RNIC_REREGISTER_TRANSLATION,
          RNIC_ST_INVALID_PBL_SIZE },
        { "entry", RNIC_REREGISTER_TRANSLATION, RNIC_ST_INVALID_PBL_ENTRY },
        { "no pages", RNIC_REREGISTER_TRANSLATION, RNIC_ST_INVALID_PBL_SIZE },
        { "change", 8, RNIC_ST_INVALID_MODIFIER },
        { "no room", STAG_CHANGE_ALL, RNIC_ST_INSUFFICIENT_RESOURCES },
    };
    World w;

    world_init_with(&w, ",max-mr-pages=80");    /* 64 of them c->mr's */
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        StagRegion region = stag_region(w.r, 2), bad;

        g_test_message("%s", cases[i].what);
        stag_register(w.r, &region);
        bad = region;
        bad.pd = i == 0 ? 0x7777 : region.pd;
        bad.access = i == 1 ? RW | LR : i == 2 ? LR | 0x80 : region.access;
        bad.va += i == 3;
        bad.offset = i == 4 ? 4096 : 0;
        bad.length += i == 5;
        bad.page_shift = i == 6 ? 11 : 12;
        bad.bus[1] += i == 7 ? 8 : 0;
        bad.count = i == 8 ? 0 : 2;
        if (cases[i].status == RNIC_ST_INSUFFICIENT_RESOURCES) {
            bad = stag_region(w.r, 20);
            bad.stag = region.stag;
        }
        g_assert_cmpuint(stag_try_reregister(w.r, &bad, cases[i].change), ==,
                         cases[i].status);
        g_assert_false(stag_exists(w.r, region.stag));
        g_assert_cmpuint(stag_try_dealloc(w.r, region.stag), ==,
                         RNIC_ST_INVALID_STAG);
        stag_assert_no_leak(w.r, &w.before);
        stag_peer_write_refused(w.c, region.stag, region.va, 1, 0x1100);
        assert_no_local_use(&w, region.stag, region.va);
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-7 V9.2.6.5-5");
}

/* QUERY_MR after whatever makes an STag, and after whatever changes one. */
static void test_query(void)
{
    World w;
    StagRegion region, shared;
    struct rnic_mr_attr attr;

    world_init(&w);
    region = stag_region(w.r, 2);
    for (int remote = 0; remote < 2; remote++) {
        uint32_t stag = stag_alloc(w.r, w.r->pd, 3, 0x44, remote);

        attr = stag_query_mr(w.r, stag);
        g_assert_cmphex(le32_to_cpu(attr.pdn), ==, w.r->pd);
        g_assert_cmpint(attr.valid, ==, 0);
        g_assert_cmpint(attr.kind, ==, RNIC_STAG_MR);
        g_assert_cmpint(attr.remote_access, ==, remote);
        g_assert_cmpuint(le32_to_cpu(attr.max_pages), >=, 3);
        region.stag = stag;
        region.granted = le32_to_cpu(attr.max_pages);
        region.local_only = !remote;
        region.access = remote ? LR | LW | RR | MB : LW;
        region.key = 0x45 + remote;
        region.stag = (stag & ~0xff) | region.key;
        g_assert_cmpuint(stag_fast_register(w.c, &region), ==,
                         RNIC_WC_SUCCESS);
        assert_as_registered(&w, &region);
        g_assert_cmpint(stag_query_mr(w.r, stag).kind, ==, RNIC_STAG_MR);
        if (!remote) {
            g_assert_cmpuint(stag_invalidate(w.c, region.stag), ==,
                             RNIC_WC_SUCCESS);
        } else {
            connection_recv(w.c, 1, 0, 0);
            wire_put_send(w.c->peer, WIRE_SEND_INVALIDATE, region.stag, NULL,
                          0);
            rnic_expect_cqe(w.r, &w.c->recv_cq, 1, RNIC_WC_SUCCESS);
        }
        attr = stag_query_mr(w.r, stag);
        g_assert_cmpint(attr.valid, ==, 0);
        g_assert_cmpint(attr.remote_access, ==, remote);
        g_assert_cmphex(le32_to_cpu(attr.pdn), ==, w.r->pd);
        stag_dealloc(w.r, stag);
    }
    /* The five access controls one after the other: each shows, alone. */
    region = stag_region(w.r, 2);
    stag_register(w.r, &region);
    for (unsigned i = 0; i < 5; i++) {
        static const uint32_t rights[] = { LR, LW, LR | RR, LW | RW, LR | MB };

        region.access = rights[i];
        region.key = 0x50 + i;
        g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        assert_as_registered(&w, &region);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).kind, ==,
                        RNIC_STAG_MR);
    }
    shared = region;
    shared.access = LW | ZB;
    shared.key = 0x77;
    stag_share(w.r, region.stag, &shared);
    shared.granted = le32_to_cpu(stag_query_mr(w.r, shared.stag).max_pages);
    assert_as_registered(&w, &shared);
    assert_as_registered(&w, &region);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).kind, ==,
                    RNIC_STAG_SHARED_MR);
    g_assert_cmpint(stag_query_mr(w.r, shared.stag).kind, ==,
                    RNIC_STAG_SHARED_MR);
    stag_dealloc(w.r, region.stag);
    stag_dealloc(w.r, shared.stag);
    world_cleanup(&w);
    rnic_shows("V7.7-1 V9.2.6.3-1 V9.2.6.3-2");
}

/* To each command that names an STag. */
static void assert_unknown(World *w, uint32_t stag)
{
    static const uint16_t opcodes[] = {
        RNIC_ADMIN_QUERY_MR, RNIC_ADMIN_QUERY_MW,
    };
    StagRegion region = stag_region(w->r, 1);
    struct rnic_mr_attr attr;

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        g_assert_cmpuint(rnic_admin_query(w->r, opcodes[i], stag, &attr,
                                          sizeof(attr)), ==,
                         RNIC_ST_INVALID_STAG);
    }
    region.stag = stag;
    g_assert_cmpuint(stag_try_reregister(w->r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(stag_try_share(w->r, stag, &region), ==,
                     RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(stag_try_dealloc(w->r, stag), ==, RNIC_ST_INVALID_STAG);
}

/* Of whatever origin, in whatever state: gone, for both sides. */
static void test_dealloc_any(void)
{
    enum { ALLOCATED, FAST_REGISTERED, REGISTERED, INVALIDATED, REREGISTERED,
           SHARED, WINDOW, BOUND_WINDOW, KINDS };
    World w;

    world_init(&w);
    for (int kind = 0; kind < KINDS; kind++) {
        StagRegion region = stag_region(w.r, 1), other;
        StagBind bind;
        uint32_t stag;

        rnic_mem_fill(w.r, region.bus[0], 0x5c, 4096);
        if (kind == ALLOCATED || kind == FAST_REGISTERED) {
            region.stag = stag_alloc(w.r, w.r->pd, 1, region.key, true);
        } else {
            stag_register(w.r, &region);
        }
        other = region;
        stag = region.stag;
        switch (kind) {
        case FAST_REGISTERED:
            g_assert_cmpuint(stag_fast_register(w.c, &region), ==,
                             RNIC_WC_SUCCESS);
            break;
        case INVALIDATED:
            g_assert_cmpuint(stag_invalidate(w.c, stag), ==, RNIC_WC_SUCCESS);
            break;
        case REREGISTERED:
            g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                                 STAG_CHANGE_ALL),
                             ==, RNIC_ST_OK);
            break;
        case SHARED:
            stag_share(w.r, region.stag, &other);
            stag = other.stag;
            break;
        case WINDOW:
        case BOUND_WINDOW:
            stag = stag_alloc_mw(w.r, w.r->pd, 7);
            bind = stag_window(stag, &region, region.va, 1, RR | RW);
            if (kind == BOUND_WINDOW) {
                g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
            }
        }
        stag_dealloc(w.r, stag);
        assert_unknown(&w, stag);
        stag_peer_write_refused(w.c, stag, region.va, 1, 0x1100);
        stag_peer_read_refused(w.c, stag, region.va, 1, 0x0100);
        assert_no_local_use(&w, stag, region.va);
        g_assert_cmphex(octet_at(&w, region.bus[0]), ==, 0x5c);
        if (stag != region.stag) {
            stag_dealloc(w.r, region.stag);
        }
    }
    world_cleanup(&w);
    rnic_shows("V9.2.6.4-1 V7.2.2-4");
}

static void test_reregister_loop(void)
{
    World w;
    StagRegion a, b;

    world_init(&w);
    a = stag_region(w.r, 4);
    b = stag_region(w.r, 3);
    stag_register(w.r, &a);
    for (unsigned i = 0; i < 1000; i++) {
        StagRegion *region = i & 1 ? &a : &b;

        region->stag = (i & 1 ? &b : &a)->stag;
        if (i == 0) {
            region->stag = a.stag;
        }
        region->key = i;
        region->count = 1 + i % 3;
        region->length = region->count * 4096;
        g_assert_cmpuint(stag_try_reregister(w.r, region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        if (i % 20 == 0) {
            assert_maps(&w, region->stag, region->va + region->length - 1,
                        region->bus[region->count - 1] + 4095);
        }
        a.stag = b.stag = region->stag;
    }
    stag_dealloc(w.r, a.stag);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-12");
}

/* A Read is under way, its sink loses the right, its PD or its memory. */
static void test_sink_reregistered(void)
{
    World w;
    uint32_t pd;

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    for (int i = 0; i < 3; i++) {
        StagRegion region = stag_region(w.r, 1);
        RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .num_sge = 1,
                      .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
        WireRead read;
        uint8_t got[8];

        stag_register(w.r, &region);
        wr.sge[0].stag = cpu_to_le32(region.stag);
        wr.sge[0].to = cpu_to_le64(region.va);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_get_read_request(w.c->peer, 1, &read);
        region.access = i == 0 ? LR | LW | RR : region.access;
        region.pd = i == 1 ? pd : region.pd;
        region.length = i == 2 ? 7 : region.length;
        g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                               "response", 8);
        wire_expect_terminate(w.c->peer, i == 2 ? 0x1101 : 0x1102);
        rnic_expect_async(w.r, i == 0 ? RNIC_AE_TAGGED_ACCESS
                             : i == 1 ? RNIC_AE_TAGGED_INVALID_PD
                             : RNIC_AE_TAGGED_BASE_BOUNDS,
                          w.c->qp.number);
        rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_FLUSHED);
        rnic_mem_read(w.r, region.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
        stag_reconnect(w.c);
        stag_dealloc(w.r, region.stag);
    }
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V7.4.2-5");
}

/* ------------------------------------------- remote access flag, STag bits */

/* Without the flag no way but Reregister gives the peer anything. */
static void test_remote_access_flag(void)
{
    World w;
    StagRegion region, copy;

    world_init(&w);
    region = stag_region(w.r, 2);
    region.stag = stag_alloc(w.r, w.r->pd, 2, 0x31, false);
    for (int i = 0; i < 3; i++) {
        copy = region;
        copy.access = LR | LW | (i == 0 ? RR : i == 1 ? RW : RR | RW);
        g_assert_cmpuint(stag_fast_register(w.c, &copy), ==,
                         RNIC_WC_INVALID_ACCESS_RIGHTS);
        stag_reconnect(w.c);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
        copy.access = LR | LW;
        g_assert_cmpuint(stag_fast_register(w.c, &copy), ==, RNIC_WC_SUCCESS);
        stag_peer_write_refused(w.c, copy.stag, copy.va, 1, 0x1102);
        stag_peer_read_refused(w.c, copy.stag, copy.va, 1, 0x0102);
        g_assert_cmpuint(stag_invalidate(w.c, copy.stag), ==,
                         RNIC_WC_SUCCESS);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).remote_access, ==, 0);
    }
    copy.access = LR | LW;
    g_assert_cmpuint(stag_try_reregister(w.r, &copy, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(stag_invalidate(w.c, copy.stag), ==, RNIC_WC_SUCCESS);
    /* Now every mask, one registration after the other. */
    for (unsigned remote = 0; remote < 8; remote++) {
        uint8_t got;

        copy.access = LR | LW | (remote & 1 ? RR : 0) | (remote & 2 ? RW : 0);
        g_assert_cmpuint(stag_fast_register(w.c, &copy), ==, RNIC_WC_SUCCESS);
        if (remote & 1) {
            stag_peer_reads(w.c, copy.stag, copy.va, &got, 1);
        } else {
            stag_peer_read_refused(w.c, copy.stag, copy.va, 1, 0x0102);
        }
        if (remote & 2) {
            stag_peer_writes(w.c, copy.stag, copy.va, "x", 1);
        } else {
            stag_peer_write_refused(w.c, copy.stag, copy.va, 1, 0x1102);
        }
        g_assert_cmpuint(stag_invalidate(w.c, copy.stag), ==,
                         RNIC_WC_SUCCESS);
        g_assert_cmpint(stag_query_mr(w.r, copy.stag).remote_access, ==, 1);
    }
    stag_dealloc(w.r, copy.stag);       /* in state Invalid */
    /* Allocated with the flag: every right, from the first. */
    copy.stag = stag_alloc(w.r, w.r->pd, 2, 0x32, true);
    copy.access = LR | LW | RR | RW;
    g_assert_cmpuint(stag_fast_register(w.c, &copy), ==, RNIC_WC_SUCCESS);
    assert_maps(&w, copy.stag, copy.va, copy.bus[0]);
    stag_dealloc(w.r, copy.stag);       /* in state Valid */
    world_cleanup(&w);
    rnic_shows("V9.2.6.1-2 V9.3.1.1-20 V7.3.2.1-3 V7.3.2.1-4 V7.3.2.5-8 "
               "V7.3.2.5-9 V7.3.2.5-10 V7.4-2");
}

/* One of two over the same pages goes: nothing happens to the other. */
static void test_overlap(void)
{
    World w;
    StagRegion one, two;

    world_init(&w);
    one = two = stag_region(w.r, 2);
    stag_register(w.r, &one);
    stag_register(w.r, &two);
    g_assert_cmpuint(stag_invalidate(w.c, one.stag), ==, RNIC_WC_SUCCESS);
    stag_peer_write_refused(w.c, one.stag, one.va, 1, 0x1100);
    assert_maps(&w, two.stag, two.va + 8191, two.bus[1] + 4095);
    one.access = LR;
    g_assert_cmpuint(stag_try_reregister(w.r, &one, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, two.stag, two.va, two.bus[0]);
    stag_dealloc(w.r, one.stag);                /* Valid */
    assert_maps(&w, two.stag, two.va, two.bus[0]);
    g_assert_cmpuint(stag_invalidate(w.c, two.stag), ==, RNIC_WC_SUCCESS);
    stag_dealloc(w.r, two.stag);                /* Invalid */
    stag_dealloc(w.r, stag_alloc(w.r, w.r->pd, 1, 1, false));
    stag_peer_write_refused(w.c, two.stag, two.va, 1, 0x1100);
    world_cleanup(&w);
    rnic_shows("V7.8-1 V7.9-3 V7.9-6 V7.2.2-4");
}

/* Each of the 32 bits counts, whatever the STag is used for. */
static void test_every_bit(void)
{
    World w;
    StagRegion region;

    world_init(&w);
    region = stag_region(w.r, 1);
    stag_register(w.r, &region);
    g_assert_cmphex(region.stag & 0xff, ==, region.key);
    for (unsigned bit = 0; bit < 32; bit++) {
        uint32_t stag = region.stag ^ 1u << bit;
        RnicWr wr = { .flags = RNIC_WQE_SIGNALED, .num_sge = 1,
                      .remote_stag = 9 };

        wr.sge[0].stag = cpu_to_le32(stag);
        wr.sge[0].to = cpu_to_le64(region.va);
        wr.sge[0].length = cpu_to_le32(1);
        for (int i = 0; i < 2; i++) {
            wr.opcode = i ? RNIC_SQ_RDMA_READ : RNIC_SQ_SEND;
            rnic_post_send(w.r, &w.c->qp, &wr);
            rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_INVALID_STAG);
            stag_reconnect(w.c);
        }
        stag_peer_write_refused(w.c, stag, region.va, 1, 0x1100);
        stag_peer_read_refused(w.c, stag, region.va, 1, 0x0100);
    }
    assert_maps(&w, region.stag, region.va, region.bus[0]);
    stag_dealloc(w.r, region.stag);
    world_cleanup(&w);
    rnic_shows("V7.4-4 V7.2-1 V9.2.6.2-2");
}

/* ------------------------------------------------------------ block lists */

/* Blocks of an odd size at odd addresses, in no order. */
static void test_blocks(void)
{
    enum { BLOCKS = 7, SIZE = 1000, FBO = 123,
           LENGTH = BLOCKS * SIZE - FBO - 77 };
    World w;
    uint8_t data[LENGTH], got[LENGTH], whole[BLOCKS * SIZE];
    uint64_t memory;

    world_init(&w);
    memory = rnic_alloc(w.r, 2 * BLOCKS * SIZE + 4096);
    for (int zero_based = 0; zero_based < 2; zero_based++) {
        StagRegion region = {
            .pd = w.r->pd, .block_size = SIZE, .count = BLOCKS,
            .length = LENGTH, .offset = FBO, .key = 3,
            .access = RNIC_TEST_ACCESS_ALL | MB | (zero_based ? ZB : 0),
            .va = zero_based ? 0 : 1000ULL * 0x12345678 + FBO,
        };
        uint32_t mw;
        StagBind bind;

        rnic_mem_fill(w.r, memory, 0, 2 * BLOCKS * SIZE);
        for (unsigned i = 0; i < BLOCKS; i++) {
            region.bus[i] = memory + 1 + (i * 3 % BLOCKS) * (SIZE + 13);
        }
        stag_register(w.r, &region);
        rnic_pattern(data, LENGTH, zero_based);
        stag_peer_writes(w.c, region.stag, region.va, data, LENGTH);
        for (unsigned i = 0; i < BLOCKS; i++) {
            rnic_mem_read(w.r, region.bus[i], whole + i * SIZE, SIZE);
        }
        g_assert_cmpmem(whole + FBO, LENGTH, data, LENGTH);
        for (unsigned i = 0; i < BLOCKS * SIZE; i++) {
            if (i < FBO || i >= FBO + LENGTH) {
                g_assert_cmphex(whole[i], ==, 0);
            }
        }
        stag_peer_reads(w.c, region.stag, region.va, got, LENGTH);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
        for (unsigned i = 0; i < 40; i++) {
            unsigned from = i * 997 % (LENGTH - 2100);
            unsigned size = 1 + i * 53;

            stag_peer_reads(w.c, region.stag, region.va + from, got, size);
            g_assert_cmpmem(got, size, data + from, size);
        }
        if (!zero_based) {
            stag_peer_write_refused(w.c, region.stag, region.va - 1, 1,
                                    0x1101);
            /* A window on it, across a joint. */
            mw = stag_alloc_mw(w.r, w.r->pd, 1);
            bind = stag_window(mw, &region, region.va + 870, 20,
                               RR | RW | ZB);
            g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
            stag_peer_reads(w.c, mw, 0, got, 20);
            g_assert_cmpmem(got, 20, data + 870, 20);
            stag_peer_read_refused(w.c, mw, 0, 21, 0x0101);
            stag_dealloc(w.r, mw);
        }
        stag_peer_write_refused(w.c, region.stag, region.va + LENGTH, 1,
                                0x1101);
        stag_peer_read_refused(w.c, region.stag, region.va + LENGTH - 1, 2,
                               0x0101);
        stag_dealloc(w.r, region.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.6.2.2-1 V7.6.2.2-2 V9.2.6.2-4");
}

/* Far more blocks than one call of the host's takes, in one segment. */
static void test_small_blocks(void)
{
    enum { BLOCKS = 3000, SIZE = 7, LENGTH = BLOCKS * SIZE };
    World w;
    StagRegion region;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED };
    uint64_t memory, list;
    uint32_t stag;
    g_autofree uint8_t *data = g_malloc(LENGTH), *got = g_malloc(LENGTH);

    world_init(&w);
    memory = rnic_alloc(w.r, 2 * LENGTH);
    list = rnic_alloc(w.r, 8 * BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t entry = cpu_to_le64(memory + i * 2 * SIZE);

        rnic_mem_write(w.r, list + 8 * i, &entry, 8);
    }
    region = (StagRegion) {
        .pd = w.r->pd, .block_size = SIZE, .count = 1, .length = LENGTH,
        .access = RNIC_TEST_ACCESS_ALL, .key = 9, .bus = { memory },
    };
    sqe = stag_command(w.r, RNIC_ADMIN_REGISTER_MR, &region);
    sqe.register_mr.pages.addr = cpu_to_le64(list);
    sqe.register_mr.pages.count = cpu_to_le32(BLOCKS);
    g_assert_cmpuint(rnic_admin(w.r, &sqe, &cqe), ==, RNIC_ST_OK);
    stag = le32_to_cpu(cqe.number);

    w.c->peer->segment_size = LENGTH;
    rnic_pattern(data, LENGTH, 1);
    stag_peer_writes(w.c, stag, 0, data, LENGTH);
    for (unsigned i = 0; i < BLOCKS; i++) {
        rnic_mem_read(w.r, memory + i * 2 * SIZE, got + i * SIZE, SIZE);
    }
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    memset(got, 0, LENGTH);
    stag_peer_reads(w.c, stag, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    wr.sge[0].stag = cpu_to_le32(stag);
    wr.sge[0].length = cpu_to_le32(LENGTH);
    rnic_post_send(w.r, &w.c->qp, &wr);
    memset(got, 0, LENGTH);
    g_assert_cmpuint(wire_get_send(w.c->peer, WIRE_SEND, 1, got, LENGTH), ==,
                     LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_SUCCESS);
    stag_dealloc(w.r, stag);
    world_cleanup(&w);
    rnic_shows("V7.6.2.2-1");
}

static void test_block_rules(void)
{
    static const uint64_t sizes[] = { 1, 7, 1000, 4096, 5000, 1ULL << 40 };
    World w;
    StagRegion region;
    struct rnic_admin_sqe sqe;
    uint64_t memory;

    world_init(&w);
    memory = rnic_alloc(w.r, 64 * 1024);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        region = (StagRegion) {
            .pd = w.r->pd, .block_size = sizes[i], .count = 1,
            .length = 1, .access = RNIC_TEST_ACCESS_ALL, .key = 3,
            .va = sizes[i] * 77 + sizes[i] / 2, .offset = sizes[i] / 2,
            .bus = { memory + 5 },
        };
#define REGISTERS(status)                                               \
    g_assert_cmpuint(stag_try_register(w.r, &region), ==, (status))
        REGISTERS(RNIC_ST_OK);
        if (sizes[i] < 64 * 1024) {
            assert_maps(&w, region.stag, region.va,
                        memory + 5 + sizes[i] / 2);
        }
        stag_dealloc(w.r, region.stag);
        if (sizes[i] > 1) {
            region.va++;
            REGISTERS(RNIC_ST_INVALID_VA);
            region.va--;
        }
        region.offset = sizes[i];
        REGISTERS(RNIC_ST_INVALID_FBO);
        region.offset = 0;
        region.va = 0;
        region.length = sizes[i] + 1;
        REGISTERS(RNIC_ST_INVALID_LENGTH);
        region.length = sizes[i];
        REGISTERS(RNIC_ST_OK);
        stag_dealloc(w.r, region.stag);
        /* A block that passes the end of all addresses. */
        region.bus[0] = 0 - sizes[i] + 1;
        if (sizes[i] > 1) {
            REGISTERS(RNIC_ST_INVALID_PBL_ENTRY);
        }
    }
    region.bus[0] = memory;
    region.block_size = (1ULL << 40) + 1;
    REGISTERS(RNIC_ST_INVALID_PBL_SIZE);
#undef REGISTERS
    region.block_size = 1000;
    sqe = stag_command(w.r, RNIC_ADMIN_REGISTER_MR, &region);
    sqe.register_mr.block_size = 0;
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_PBL_SIZE);
    sqe.register_mr.block_size = cpu_to_le64(1000);
    sqe.register_mr.pages.page_shift = 12;
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_PBL_SIZE);
    sqe = stag_command(w.r, RNIC_ADMIN_REGISTER_MR, &region);
    sqe.register_mr.mr_flags |= 4;
    g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmphex(rnic_features(w.r) & RNIC_FEATURE_BLOCK_LIST, !=, 0);
    world_cleanup(&w);
    rnic_shows("V7.6.2.2-3 V7.6.2-3");
}

/* Page list to block list and back; shared blocks. */
static void test_blocks_change(void)
{
    World w;
    StagRegion region, blocks, shared;

    world_init(&w);
    region = stag_region(w.r, 2);
    stag_register(w.r, &region);
    blocks = (StagRegion) {
        .pd = w.r->pd, .block_size = 1000, .count = 2, .length = 1500,
        .access = RNIC_TEST_ACCESS_ALL, .key = 9, .va = 3456, .offset = 456,
        .bus = { region.bus[1] + 17, region.bus[0] + 3 },
        .stag = region.stag,
    };
    g_assert_cmpuint(stag_try_reregister(w.r, &blocks, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, blocks.stag, 3456, region.bus[1] + 17 + 456);
    assert_maps(&w, blocks.stag, 4000, region.bus[0] + 3);
    region.stag = blocks.stag;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, region.stag, region.va + 1, region.bus[0] + 1);
    blocks.stag = region.stag;
    g_assert_cmpuint(stag_try_reregister(w.r, &blocks, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    shared = blocks;
    shared.va = 7457;
    g_assert_cmpuint(stag_try_share(w.r, blocks.stag, &shared), ==,
                     RNIC_ST_INVALID_VA);
    shared.va = 7456;
    stag_share(w.r, blocks.stag, &shared);
    stag_dealloc(w.r, blocks.stag);
    assert_maps(&w, shared.stag, 8000, region.bus[0] + 3);
    stag_dealloc(w.r, shared.stag);

    /* The Remote Access Flag changes too; rules are those of REGISTER_MR. */
    region = stag_region(w.r, 2);
    region.access = LR | LW;
    region.local_only = true;
    stag_register(w.r, &region);
    stag_peer_write_refused(w.c, region.stag, region.va, 1, 0x1102);
    region.access = LR | LW | RW;
    region.local_only = false;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).remote_access, ==, 1);
    assert_maps(&w, region.stag, region.va, region.bus[0]);
    region.access = LR | RW;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_INVALID_ACCESS_RIGHTS);
    region.access = LR | LW | RW;
    stag_register(w.r, &region);
    region.page_shift = 11;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_INVALID_PBL_SIZE);
    world_cleanup(&w);
    rnic_shows("V9.2.6.5-6");
}

/* ------------------------------------------------------------- page sizes */

/* By Register Shared and by Reregister; @good but for its offset. */
static void check_misaligned(Rnic *r, const StagRegion *good)
{
    uint64_t size = 1ULL << good->page_shift;
    StagRegion region = *good, shared;

    region.offset = size - 1;
    stag_register(r, &region);
    shared = region;
    shared.va--;
    g_assert_cmpuint(stag_try_share(r, region.stag, &shared), ==,
                     RNIC_ST_INVALID_VA);
    region.offset = size - 2;
    g_assert_cmpuint(stag_try_reregister(r, &region,
                                         RNIC_REREGISTER_TRANSLATION), ==,
                     RNIC_ST_INVALID_VA);
    g_assert_false(stag_exists(r, region.stag));
}

/* By Fast-Register, with each size of page: wrong in the highest bit, the lowest. */
static void check_fast_register_misaligned(void)
{
    World w;
    uint64_t cap;

    world_init(&w);
    cap = le64_to_cpu(rnic_query_device(w.r).page_size_cap);
    for (unsigned shift = 0; shift < 64; shift++) {
        uint64_t size = 1ULL << shift;
        StagRegion region = {
            .page_shift = shift, .count = 2, .key = 1, .length = 2,
            .access = LR | LW, .bus = { size, 3 * size }, .offset = 77,
        };
        const uint64_t wrong[] = { size / 2, 1 };

        if (!(cap & size)) {
            continue;
        }
        region.stag = stag_alloc(w.r, w.r->pd, 2, region.key, true);
        for (int i = 0; i < 2; i++) {
            region.va = size * 5 + region.offset + wrong[i];
            g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                            RNIC_WC_INVALID_VA);
            stag_reconnect(w.c);
            g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
        }
        region.va = size * 5 + region.offset;
        g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                        RNIC_WC_SUCCESS);
        stag_dealloc(w.r, region.stag);
    }
    world_cleanup(&w);
}

static void test_page_sizes(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_counters before = rnic_query_counters(r);
    struct rnic_device_attr device = rnic_query_device(r);
    uint64_t cap = le64_to_cpu(device.page_size_cap);
    uint64_t most = le64_to_cpu(device.max_mr_size);

    g_assert_cmphex(cap & (1ULL << 12), !=, 0);
    g_assert_cmphex(cap & (1ULL << 21), !=, 0);
    g_assert_cmphex(cap & (1ULL << 30), !=, 0);
    for (unsigned shift = 0; shift < 70; shift++) {
        uint64_t size = shift < 64 ? 1ULL << shift : 0;
        bool offered = shift < 64 && (cap >> shift & 1);
        StagRegion region = {
            .pd = r->pd, .page_shift = shift, .count = 2, .key = 1,
            .access = RNIC_TEST_ACCESS_ALL, .bus = { size, 3 * size },
            .length = 2, .va = size * 5 + size - 1, .offset = size - 1,
        };

#define REGISTERS(status)                                               \
    g_assert_cmpuint(stag_try_register(r, &region), ==, (status))
        if (!offered) {
            REGISTERS(RNIC_ST_INVALID_PBL_SIZE);
            continue;
        }
        REGISTERS(RNIC_ST_OK);
        g_assert_cmpint(stag_query_mr(r, region.stag).page_shift, ==, shift);
        g_assert_cmphex(le64_to_cpu(stag_query_mr(r, region.stag)
                                    .first_byte_offset), ==, region.offset);
        stag_dealloc(r, region.stag);
        region.offset = size;
        REGISTERS(RNIC_ST_INVALID_FBO);
        region.offset = size - 2;
        REGISTERS(RNIC_ST_INVALID_VA);
        check_misaligned(r, &region);
        region.offset = 0;
        region.va = 0;
        region.length = 2 * size + 1;
        REGISTERS(RNIC_ST_INVALID_LENGTH);
        region.length = 2 * size;
        REGISTERS(region.length > most ? RNIC_ST_INVALID_LENGTH
                                       : RNIC_ST_OK);
        if (region.length <= most) {
            stag_dealloc(r, region.stag);
        }
        region.bus[1] += size / 2;
        REGISTERS(RNIC_ST_INVALID_PBL_ENTRY);
#undef REGISTERS
    }
    stag_assert_no_leak(r, &before);
    rnic_quit(r);
    check_fast_register_misaligned();
    rnic_shows("V7.6.2.1-1 V7.6.2.1-2 V7.6.2.1-3 V7.6.2.1-4 V7.6.1.1-3 "
               "V9.3.1.1-19");
}

/* Every offset and length of a sweep: data and bounds exact. */
static void test_alignment(void)
{
    World w;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1 };
    uint32_t msn = 0;

    world_init(&w);
    for (unsigned i = 0; i < 24; i++) {
        StagRegion region = stag_region(w.r, 4);
        unsigned offset = i * 179 % 4096;
        g_autofree uint8_t *data = NULL, *got = NULL;

        region.offset = offset;
        region.va += offset;
        region.length = 1 + i * 517;
        data = g_malloc(region.length);
        got = g_malloc(region.length);
        stag_register(w.r, &region);
        assert_as_registered(&w, &region);
        rnic_pattern(data, region.length, i);
        stag_peer_writes(w.c, region.stag, region.va, data, region.length);
        rnic_mem_read(w.r, region.bus[0] + offset, got, region.length);
        g_assert_cmpmem(got, region.length, data, region.length);
        g_assert_cmphex(octet_at(&w, region.bus[0] + offset +
                                     region.length), ==, 0);
        wr.sge[0].stag = cpu_to_le32(region.stag);
        wr.sge[0].to = cpu_to_le64(region.va);
        wr.sge[0].length = cpu_to_le32(region.length);
        rnic_post_send(w.r, &w.c->qp, &wr);
        memset(got, 0, region.length);
        g_assert_cmpuint(wire_get_send(w.c->peer, WIRE_SEND, ++msn, got,
                                       region.length), ==, region.length);
        g_assert_cmpmem(got, region.length, data, region.length);
        rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_SUCCESS);
        if (i % 4 == 0) {
            stag_peer_write_refused(w.c, region.stag, region.va - 1, 1,
                                    0x1101);
            stag_peer_write_refused(w.c, region.stag,
                                    region.va + region.length, 1, 0x1101);
            msn = 0;                    /* of a new stream */
        }
        stag_dealloc(w.r, region.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.6.1.1-2 V9.2.6.2-1");
}

/* ------------------------------------------------------------ what it takes */

/* All page list entries of a small device: used up, given back, used again. */
static void test_pages_exhausted(void)
{
    Rnic *r = rnic_boot_up(",max-mr-pages=10");
    struct rnic_counters before = rnic_query_counters(r);
    StagRegion big = stag_region(r, 10), small, other, grow;

    for (int round = 0; round < 3; round++) {
        stag_register(r, &big);
        g_assert_cmpuint(le32_to_cpu(stag_query_mr(r, big.stag).max_pages),
                         ==, big.granted);
        small = stag_region(r, 1);
        g_assert_cmpuint(stag_try_register(r, &small), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        /* A shared region takes nothing more, a window nothing at all. */
        other = big;
        stag_share(r, big.stag, &other);
        stag_dealloc(r, stag_alloc_mw(r, r->pd, 0));
        stag_dealloc(r, big.stag);
        g_assert_cmpuint(stag_try_register(r, &small), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        stag_dealloc(r, other.stag);
        stag_register(r, &small);
        g_assert_cmpuint(stag_try_register(r, &big), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        /* Growing into what is there; then beyond it: gone, all given back. */
        grow = stag_region(r, 9);
        grow.stag = small.stag;
        g_assert_cmpuint(stag_try_reregister(r, &grow, STAG_CHANGE_ALL), ==,
                         RNIC_ST_OK);
        other = small;
        stag_register(r, &other);
        g_assert_cmpuint(stag_try_register(r, &other), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        big.stag = grow.stag;
        g_assert_cmpuint(stag_try_reregister(r, &big, STAG_CHANGE_ALL), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        g_assert_false(stag_exists(r, grow.stag));
        stag_dealloc(r, other.stag);
        stag_assert_no_leak(r, &before);
    }
    /* A reset gives back those of a region that there is. */
    for (int round = 0; round < 3; round++) {
        stag_register(r, &big);
        rnic_up(r);
        big.pd = r->pd;
    }
    stag_register(r, &big);
    rnic_quit(r);
    rnic_shows("V7.3-3 V7.9-1 V7.3.2.2-4 V9.2.1.3-1");
}

/* Within its own size Reregister and Fast-Register need no room. */
static void test_no_room_needed(void)
{
    ConnectionOptions options = stag_options;
    Connection *c;
    StagRegion region, fast, rest;

    options.properties = ",max-mr-pages=80";    /* 64 of them c->mr's */
    c = connection_new(&options);
    region = stag_region(c->r, 6);
    fast = stag_region(c->r, 6);
    rest = stag_region(c->r, 4);
    stag_register(c->r, &region);
    fast.stag = stag_alloc(c->r, c->r->pd, 6, 1, true);
    stag_register(c->r, &rest);
    for (unsigned i = 0; i < 20; i++) {
        rest.count = 1;
        rest.length = 1;
        g_assert_cmpuint(stag_try_register(c->r, &rest), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        region.count = 1 + i % 6;
        region.length = region.count * 4096;
        g_assert_cmpuint(stag_try_reregister(c->r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        fast.count = 6 - i % 6;
        fast.length = fast.count * 4096;
        g_assert_cmpuint(stag_fast_register(c, &fast), ==, RNIC_WC_SUCCESS);
        stag_peer_writes(c, fast.stag, fast.va + fast.length - 1, "x", 1);
        g_assert_cmpuint(stag_invalidate(c, fast.stag), ==, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("V7.8-8 V7.3.2.1-2 V7.3.2.3-12");
}

static void test_stags_exhausted(void)
{
    Rnic *r = rnic_boot_up(",max-mr=4");
    struct rnic_counters before = rnic_query_counters(r), after;
    StagRegion region = stag_region(r, 1), other;
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_STAG);

    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    sqe.alloc_stag.max_pages = cpu_to_le32(1);
    for (int round = 0; round < 3; round++) {
        uint32_t mw, fresh;

        stag_register(r, &region);
        mw = stag_alloc_mw(r, r->pd, 1);
        fresh = stag_alloc(r, r->pd, 1, 1, true);
        other = region;
        stag_share(r, region.stag, &other);
        g_assert_cmpuint(stag_try_register(r, &other), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        g_assert_cmpuint(stag_try_share(r, region.stag, &other), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        stag_dealloc(r, mw);
        stag_dealloc(r, fresh);
        stag_dealloc(r, region.stag);
        stag_dealloc(r, other.stag);
        stag_assert_no_leak(r, &before);
    }
    /* A share that failed has changed nothing, nor has its source's kind. */
    stag_register(r, &region);
    g_assert_cmpuint(stag_try_share(r, stag_alloc_mw(r, r->pd, 0), &other), ==,
                     RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(stag_try_share(r, stag_alloc(r, r->pd, 1, 1, true),
                                    &other), ==, RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(stag_try_share(r, STAG_UNKNOWN, &other), ==,
                     RNIC_ST_INVALID_STAG);
    other.pd = 0x7777;
    g_assert_cmpuint(stag_try_share(r, region.stag, &other), ==,
                     RNIC_ST_INVALID_PD);
    other.pd = region.pd;
    stag_alloc_mw(r, r->pd, 0);
    after = rnic_query_counters(r);
    g_assert_cmpuint(le32_to_cpu(after.stags), ==, 4);
    g_assert_cmpuint(stag_try_share(r, region.stag, &other), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpint(stag_query_mr(r, region.stag).kind, ==, RNIC_STAG_MR);
    g_assert_cmpint(stag_query_mr(r, region.stag).valid, ==, 1);
    rnic_quit(r);
    rnic_shows("V7.2.1-2 V9.2.6.6-6");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/region/shared", test_shared);
    qtest_add_func("rnic/region/shared-own", test_shared_own);
    qtest_add_func("rnic/region/shared-inputs", test_shared_inputs);
    qtest_add_func("rnic/region/shared-refused", test_shared_refused);
    qtest_add_func("rnic/region/shared-for-ever", test_shared_for_ever);
    qtest_add_func("rnic/region/reregister", test_reregister);
    qtest_add_func("rnic/region/reregister-invalid", test_reregister_invalid);
    qtest_add_func("rnic/region/reregister-bad-stag",
                   test_reregister_bad_stag);
    qtest_add_func("rnic/region/reregister-gone", test_reregister_gone);
    qtest_add_func("rnic/region/query", test_query);
    qtest_add_func("rnic/region/dealloc-any", test_dealloc_any);
    qtest_add_func("rnic/region/reregister-loop", test_reregister_loop);
    qtest_add_func("rnic/region/sink-reregistered", test_sink_reregistered);
    qtest_add_func("rnic/region/remote-access-flag",
                   test_remote_access_flag);
    qtest_add_func("rnic/region/overlap", test_overlap);
    qtest_add_func("rnic/region/every-bit", test_every_bit);
    qtest_add_func("rnic/region/blocks", test_blocks);
    qtest_add_func("rnic/region/small-blocks", test_small_blocks);
    qtest_add_func("rnic/region/block-rules", test_block_rules);
    qtest_add_func("rnic/region/blocks-change", test_blocks_change);
    qtest_add_func("rnic/region/page-sizes", test_page_sizes);
    qtest_add_func("rnic/region/alignment", test_alignment);
    qtest_add_func("rnic/region/pages-exhausted", test_pages_exhausted);
    qtest_add_func("rnic/region/no-room-needed", test_no_room_needed);
    qtest_add_func("rnic/region/stags-exhausted", test_stags_exhausted);
    return g_test_run();
}
