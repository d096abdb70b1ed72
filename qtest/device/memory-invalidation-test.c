/*
 * rnic: what an invalidation or a deallocation ends, in each of its ways, and what it
 * leaves (7.8, 7.9, 7.10.4)
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
#define MB RNIC_ACCESS_MW_BIND

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

static uint32_t octet_at(World *w, uint64_t bus)
{
    uint8_t octet;

    rnic_mem_read(w->r, bus, &octet, 1);
    return octet;
}

/* ------------------------------------------------------------ the four ways */

typedef enum Way { BY_LOCAL, BY_SEND, BY_SEND_SE, BY_READ, WAYS } Way;

/* The peer of @c invalidates @stag; a receive takes the message. */
static void peer_invalidates(Connection *c, Way way, uint32_t stag)
{
    struct rnic_cqe cqe;

    connection_recv(c, 4, 0, 8);
    wire_put_send(c->peer, way == BY_SEND ? WIRE_SEND_INVALIDATE
                                          : WIRE_SEND_SE_INVALIDATE,
                  stag, "payload!", 8);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 4, RNIC_WC_SUCCESS);
    g_assert_cmphex(le32_to_cpu(cqe.stag), ==, stag);
}

/* @stag is Valid, and good for @c; by a Read it gets eight octets at @to. */
static void invalidate_by(Connection *c, Way way, uint32_t stag, uint64_t to)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .wr_id = 3,
                  .remote_stag = CONNECTION_REMOTE_STAG };
    WireRead read;

    switch (way) {
    case BY_LOCAL:
        g_assert_cmpint(stag_invalidate(c, stag), ==, RNIC_WC_SUCCESS);
        break;
    case BY_SEND:
    case BY_SEND_SE:
        peer_invalidates(c, way, stag);
        break;
    default:
        wr.sge[0].stag = cpu_to_le32(stag);
        wr.sge[0].to = cpu_to_le64(to);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, 1, &read);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                               "invalid!", 8);
        rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
        break;
    }
}

/* The peer's next Write is the first thing that comes, and it is refused. */
static void assert_closed(World *w, Connection *c, uint32_t stag, uint64_t to,
                          uint64_t bus)
{
    uint32_t octet = octet_at(w, bus);

    stag_peer_write_refused(c, stag, to, 1, 0x1100);
    stag_peer_read_refused(c, stag, to, 1, 0x0100);
    g_assert_cmphex(octet_at(w, bus), ==, octet);
}

/* --------------------------------------------------------------- of regions */

typedef enum Origin { ALLOCATED, REGISTERED, REREGISTERED, ORIGINS } Origin;

/* Valid, of three entries; @flag: with the Remote Access Flag and remote rights. */
static StagRegion made_by(World *w, Connection *c, Origin origin, uint32_t pd,
                          bool flag)
{
    StagRegion region = stag_region(w->r, 3), first = region;

    region.pd = first.pd = pd;
    region.local_only = first.local_only = !flag;
    region.access = first.access = flag ? LR | LW | RR | RW : LR | LW;
    switch (origin) {
    case ALLOCATED:
        region.stag = stag_alloc(w->r, pd, 3, region.key, flag);
        g_assert_cmpint(stag_fast_register(c, &region), ==, RNIC_WC_SUCCESS);
        break;
    case REGISTERED:
        stag_register(w->r, &region);
        break;
    default:
        first.count = 1;
        first.length = 4096;
        first.local_only = flag;
        first.access = LR | LW;
        stag_register(w->r, &first);
        region.stag = first.stag;
        g_assert_cmpuint(stag_try_reregister(w->r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        break;
    }
    return region;
}

static void assert_kept(World *w, const struct rnic_mr_attr *valid,
                        uint32_t stag)
{
    struct rnic_mr_attr attr = stag_query_mr(w->r, stag);

    g_assert_cmpint(valid->valid, ==, 1);
    g_assert_cmpint(attr.valid, ==, 0);
    g_assert_cmpint(attr.kind, ==, RNIC_STAG_MR);
    g_assert_cmphex(attr.pdn, ==, valid->pdn);
    g_assert_cmpint(attr.remote_access, ==, valid->remote_access);
    g_assert_cmphex(attr.max_pages, ==, valid->max_pages);
}

/* One entry, then as many as there are, and no more. */
static void assert_size_kept(World *w, Connection *c, const StagRegion *region)
{
    StagRegion some = *region;
    uint32_t most = le32_to_cpu(stag_query_mr(w->r, region->stag).max_pages);

    some.count = 1;
    some.length = 4096;
    g_assert_cmpint(stag_fast_register(c, &some), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_invalidate(c, some.stag), ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(most, >=, 3);
    g_assert_cmpuint(most, <, STAG_MAX_PAGES);
    for (some.count = most; some.count <= most + 1; some.count++) {
        for (unsigned i = 0; i < some.count; i++) {
            some.bus[i] = region->bus[i % 3];
        }
        some.length = some.count * 4096;
        g_assert_cmpint(stag_fast_register(c, &some), ==,
                        some.count > most ? RNIC_WC_PBL_TOO_LONG
                                          : RNIC_WC_SUCCESS);
        if (some.count == most) {
            g_assert_cmpint(stag_invalidate(c, some.stag), ==,
                            RNIC_WC_SUCCESS);
        }
    }
    wire_expect_terminate(c->peer, 0);
    stag_reconnect(c);
}

/* Of whatever origin, in whatever way, with the flag and without, in another PD. */
static void test_kept(void)
{
    World w;
    Connection *other;

    world_init(&w);
    other = stag_second_qp(w.c, rnic_alloc_pd(w.r));
    for (Way way = 0; way < WAYS; way++) {
        for (Origin origin = 0; origin < ORIGINS; origin++) {
            Connection *c = (way + origin) & 1 ? other : w.c;
            uint32_t pd = le32_to_cpu(rnic_query_qp(w.r, &c->qp).pdn);

            for (int flag = 0; flag < 2; flag++) {
                StagRegion region;
                struct rnic_mr_attr valid;

                if (!flag && way != BY_LOCAL) {
                    continue;           /* the peer has no right to */
                }
                region = made_by(&w, c, origin, pd, flag);
                valid = stag_query_mr(w.r, region.stag);
                g_assert_cmpint(valid.remote_access, ==, flag);
                g_assert_cmphex(le32_to_cpu(valid.pdn), ==, pd);
                invalidate_by(c, way, region.stag, region.va);
                assert_kept(&w, &valid, region.stag);
                assert_closed(&w, c, region.stag, region.va, region.bus[0]);
                assert_kept(&w, &valid, region.stag);
                assert_size_kept(&w, c, &region);
                assert_kept(&w, &valid, region.stag);
                stag_dealloc(w.r, region.stag);
            }
        }
    }
    connection_free_second(other);
    world_cleanup(&w);
    rnic_shows("V7.8-5 V7.8-6 V7.8-7");
}

/*
 * No entry of any page list is free: what an STag was said to have it has, whatever it
 * came of and whatever was made of it in between.
 */
static void test_size_without_room(void)
{
    World w;
    StagRegion region, rest;
    ConnectionOptions options = stag_options;

    options.properties = ",max-mr-pages=80";    /* 64 of them c->mr's */
    w.c = connection_new(&options);
    w.r = w.c->r;
    for (Origin origin = 0; origin < ORIGINS; origin++) {
        region = made_by(&w, w.c, origin, w.r->pd, true);
        rest = stag_region(w.r, 1);
        rest.count = 0;
        do {
            rest.count++;
            rest.length = rest.count * 4096;
            rest.bus[rest.count - 1] = rest.bus[0];
        } while (rest.count + le32_to_cpu(stag_query_mr(
                     w.r, region.stag).max_pages) < 80 - 64);
        stag_register(w.r, &rest);
        for (int i = 0; i < 4; i++) {
            StagRegion none = stag_region(w.r, 1);

            g_assert_cmpuint(stag_try_register(w.r, &none), ==,
                             RNIC_ST_INSUFFICIENT_RESOURCES);
            g_assert_cmpint(stag_invalidate(w.c, region.stag), ==,
                            RNIC_WC_SUCCESS);
            region.count = i & 1 ? 3 : 1;
            region.length = region.count * 4096;
            g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                            RNIC_WC_SUCCESS);
            stag_peer_writes(w.c, region.stag, region.va + region.length - 1,
                             "r", 1);
            g_assert_cmphex(octet_at(&w, region.bus[region.count - 1] + 4095),
                            ==, 'r');
        }
        stag_dealloc(w.r, region.stag);
        stag_dealloc(w.r, rest.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.8-8");
}

/* One of two over the same octets ends; the other goes on, and a third one can begin. */
static void test_others_untouched(void)
{
    World w;
    StagRegion stays;
    uint8_t got[8];

    world_init(&w);
    stays = stag_region(w.r, 2);
    stag_register(w.r, &stays);
    for (int way = 0; way <= WAYS; way++) {
        StagRegion goes = stays, comes = stays;
        struct rnic_mr_attr before, after;
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .num_sge = 1, .wr_id = 5 };

        goes.key = 0x70 + way;
        stag_register(w.r, &goes);
        before = stag_query_mr(w.r, stays.stag);
        if (way < WAYS) {
            invalidate_by(w.c, way, goes.stag, goes.va);
        } else {
            stag_dealloc(w.r, goes.stag);
        }
        stag_register(w.r, &comes);
        stag_peer_writes(w.c, comes.stag, comes.va + 4092, "overlaps", 8);
        stag_peer_reads(w.c, stays.stag, stays.va + 4092, got, 8);
        g_assert_cmpmem(got, 8, "overlaps", 8);
        stag_peer_writes(w.c, stays.stag, stays.va + 4092, "survivor", 8);
        wr.sge[0].stag = cpu_to_le32(stays.stag);
        wr.sge[0].to = cpu_to_le64(stays.va + 4092);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_get_send(w.c->peer, WIRE_SEND, 1, got, 8);
        g_assert_cmpmem(got, 8, "survivor", 8);
        rnic_expect_cqe(w.r, &w.c->send_cq, 5, RNIC_WC_SUCCESS);
        after = stag_query_mr(w.r, stays.stag);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
        assert_closed(&w, w.c, goes.stag, goes.va, goes.bus[0]);
        if (way < WAYS) {
            stag_dealloc(w.r, goes.stag);
        }
        stag_dealloc(w.r, comes.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.8-1 V7.9-3");
}

/* Each bit of the key, and the key before; by this side and by the peer. */
static void test_keys(void)
{
    World w;
    StagRegion region;
    StagBind bind;

    world_init(&w);
    region = stag_region(w.r, 1);
    stag_register(w.r, &region);
    region.key = 0x30;
    g_assert_cmpint(stag_try_reregister(w.r, &region, 0), ==, RNIC_ST_OK);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 0x80), &region, region.va,
                       8, RR | RW);
    for (int window = 0; window < 2; window++) {
        uint32_t good = window ? bind.mw : region.stag;

        if (window) {
            g_assert_cmpint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
        }
        for (unsigned i = 0; i < 9; i++) {
            uint8_t key = i < 8 ? good ^ 1u << i : good - 1;
            uint32_t stag = (good & ~0xffu) | key;

            g_assert_cmpint(stag_invalidate(w.c, stag), ==,
                            RNIC_WC_INVALID_STAG);
            wire_expect_terminate(w.c->peer, 0);
            stag_reconnect(w.c);
            connection_recv(w.c, 4, 0, 8);
            wire_put_send(w.c->peer, i & 1 ? WIRE_SEND_INVALIDATE
                                           : WIRE_SEND_SE_INVALIDATE,
                          stag, "payload!", 8);
            wire_expect_terminate(w.c->peer, 0x0109);
            rnic_expect_cqe(w.r, &w.c->recv_cq, 4, RNIC_WC_INVALIDATE_STAG);
            stag_reconnect(w.c);
            stag_peer_writes(w.c, good, region.va, "k", 1);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.8-13");
}

/* A Read with Invalidate of no octets, which is answered; how it ends. */
static uint8_t read_nothing(Connection *c, uint32_t stag)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .wr_id = 3, .remote_stag = CONNECTION_REMOTE_STAG };
    struct rnic_cqe cqe;
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(stag);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(read.size, ==, 0);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL, 0);
    rnic_cq_wait(c->r, &c->send_cq, &cqe);
    g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, 3);
    wire_expect_terminate(c->peer, 0);
    stag_reconnect(c);
    return cqe.status;
}

/* Its sink is not looked at before: what cannot be invalidated fails it at the end. */
static void test_by_empty_read(void)
{
    enum { UNKNOWN, ZERO, KEY, FOREIGN, SHARED, BOUND, WINDOW, COUNT };
    static const uint8_t statuses[COUNT] = {
        [UNKNOWN] = RNIC_WC_INVALID_STAG, [ZERO] = RNIC_WC_INVALID_STAG,
        [KEY] = RNIC_WC_INVALID_STAG, [FOREIGN] = RNIC_WC_INVALID_PD,
        [SHARED] = RNIC_WC_INVALID_STAG, [BOUND] = RNIC_WC_INVALID_STAG,
        [WINDOW] = RNIC_WC_INVALID_PD,
    };
    StagRegion regions[COUNT];
    uint32_t stags[COUNT];
    StagBind bind;
    World w;

    world_init(&w);
    for (int i = 0; i < COUNT; i++) {
        regions[i] = stag_region(w.r, 1);
        regions[i].pd = i == FOREIGN ? rnic_alloc_pd(w.r) : w.r->pd;
        if (i == SHARED) {
            stag_share(w.r, regions[KEY].stag, &regions[i]);
        } else {
            stag_register(w.r, &regions[i]);
        }
        stags[i] = regions[i].stag;
    }
    stags[UNKNOWN] = STAG_UNKNOWN;
    stags[ZERO] = 0;
    stags[KEY] = regions[UNKNOWN].stag ^ 1;
    stags[WINDOW] = stag_alloc_mw(w.r, regions[FOREIGN].pd, 8);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 7), &regions[BOUND],
                       regions[BOUND].va, 8, RR);
    g_assert_cmpint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
    for (int i = 0; i < COUNT; i++) {
        g_test_message("%d", i);
        g_assert_cmpint(read_nothing(w.c, stags[i]), ==, statuses[i]);
        for (int k = 0; k < COUNT; k++) {
            g_assert_cmpint(stag_query_mr(w.r, regions[k].stag).valid, ==, 1);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.10.6.3-2 V7.10.6.3-3 V8.1.2.3.3-2 V8.1.3.1-3");
}

/* -------------------------------------------------------------- of windows */

/*
 * In each way, and by Deallocate: the window is its PD's again, another QP of which
 * binds it next, or the region may go; the octets are as the last that was allowed
 * left them.
 */
static void test_windows(void)
{
    World w;
    Connection *other;

    world_init(&w);
    other = stag_second_qp(w.c, 0);
    for (Way way = 0; way <= WAYS; way++) {
        StagRegion region = stag_region(w.r, 1);
        struct rnic_mr_attr attr;
        StagBind bind;

        region.access = LR | LW | MB;
        stag_register(w.r, &region);
        bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 0x80), &region,
                           region.va + 16, 8, RR | RW);
        g_assert_cmpint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
        stag_peer_writes(w.c, bind.mw, bind.va, "allowed!", 8);
        if (way == WAYS) {
            stag_dealloc(w.r, bind.mw);
            assert_closed(&w, w.c, bind.mw, bind.va, region.bus[0] + 16);
            stag_dealloc(w.r, region.stag);
            continue;
        }
        invalidate_by(w.c, way, bind.mw, bind.va);
        assert_closed(&w, w.c, bind.mw, bind.va, region.bus[0] + 16);
        attr = stag_query_mw(w.r, bind.mw);
        g_assert_cmpint(attr.valid, ==, 0);
        g_assert_cmphex(le32_to_cpu(attr.pdn), ==, w.r->pd);
        g_assert_cmphex(attr.qpn, ==, 0);
        g_assert_cmphex(attr.mr_stag, ==, 0);
        g_assert_cmpint(stag_bind(other, &bind), ==, RNIC_WC_SUCCESS);
        stag_peer_writes(other, bind.mw, bind.va, "another!", 8);
        stag_peer_write_refused(w.c, bind.mw, bind.va, 8, 0x1102);
        g_assert_cmphex(octet_at(&w, region.bus[0] + 16), ==, 'a');
        invalidate_by(other, way, bind.mw, bind.va);
        stag_dealloc(w.r, region.stag);
        stag_reconnect(w.c);
        stag_reconnect(other);
        stag_dealloc(w.r, bind.mw);
    }
    connection_free_second(other);
    world_cleanup(&w);
    rnic_shows("V7.10.4-1 V7.10.4-2 V7.10.4-4 V7.10.4.1-2 V7.10.4.1-3");
}

/* ----------------------------------------------- while a message is under way */

#define PIECE 1000
#define PAGE_SHIFT 21
#define PAGE (1u << PAGE_SHIFT)

/* One page, many times, so that no socket holds a Read of all of it. */
static StagRegion big_region(World *w)
{
    StagRegion region = {
        .pd = w->r->pd, .access = LR | LW | RR | RW | MB,
        .page_shift = PAGE_SHIFT, .count = STAG_MAX_PAGES, .key = 0x31,
        .length = (uint64_t)STAG_MAX_PAGES * PAGE, .va = 0x6600000000,
    };
    uint64_t bus = QEMU_ALIGN_UP(rnic_alloc(w->r, 2 * PAGE), PAGE);

    for (unsigned i = 0; i < region.count; i++) {
        region.bus[i] = bus;
    }
    rnic_mem_fill(w->r, bus, 'o', PAGE);
    stag_register(w->r, &region);
    return region;
}

static void assert_octets(World *w, uint64_t bus, uint8_t octet, size_t length)
{
    g_autofree uint8_t *got = g_malloc(length);

    rnic_mem_read(w->r, bus, got, length);
    for (size_t i = 0; i < length; i++) {
        g_assert_cmphex(got[i], ==, octet);
    }
}

/* A window, bound over all of @region. */
static StagBind bound_over(World *w, const StagRegion *region)
{
    StagBind bind = stag_window(stag_alloc_mw(w->r, w->r->pd, 0x51), region,
                                region->va, region->length, RR | RW);

    g_assert_cmpint(stag_bind(w->c, &bind), ==, RNIC_WC_SUCCESS);
    return bind;
}

/* What is left of a Read of the peer's is not sent; a Terminate is, in its place. */
static void check_source(World *w, const StagRegion *region, bool dealloc)
{
    StagBind bind = bound_over(w, region);
    WireRead read = { .size = bind.length, .source_stag = bind.mw,
                      .source_to = bind.va };
    WireSegment segment;
    uint64_t done = 0;

    wire_put_read_request(w->c->peer, &read);
    wire_get_segment(w->c->peer, &segment);
    while (segment.opcode == WIRE_READ_RESPONSE) {
        g_assert_cmphex(segment.to, ==, done);
        g_assert_false(segment.last);
        if (done == 0 && dealloc) {
            stag_dealloc(w->r, bind.mw);
        } else if (done == 0) {
            peer_invalidates(w->c, BY_SEND, bind.mw);
        }
        done += segment.length;
        g_free(segment.payload);
        wire_get_segment(w->c->peer, &segment);
    }
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_assert_cmphex(lduw_be_p(segment.payload), ==, 0x0100);
    g_free(segment.payload);
    wire_expect_end(w->c->peer);
    g_assert_cmpuint(done, >, 0);
    g_assert_cmpuint(done, <, bind.length);
    rnic_expect_async(w->r, RNIC_AE_IRRQ_INVALID_STAG, w->c->qp.number);
    stag_reconnect(w->c);
    if (!dealloc) {
        stag_dealloc(w->r, bind.mw);
    }
}

static void put_piece(World *w, uint8_t opcode, uint32_t stag, uint64_t to,
                      bool last)
{
    uint8_t payload[PIECE];
    WireSegment segment = {
        .opcode = opcode, .tagged = true, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .stag = stag, .to = to,
        .length = sizeof(payload), .payload = payload,
    };

    memset(payload, 'w', sizeof(payload));
    wire_put_segment(w->c->peer, &segment);
}

/* A Write, or the response to a Read of this side, has half come when the window goes. */
static void check_tagged(World *w, const StagRegion *region, uint8_t opcode,
                         bool dealloc)
{
    StagBind bind = bound_over(w, region);
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .num_sge = 1, .wr_id = 6,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
    WireRead read;

    rnic_mem_fill(w->r, region->bus[0], 'o', PAGE);
    if (opcode == WIRE_READ_RESPONSE) {
        wr.sge[0].stag = cpu_to_le32(bind.mw);
        wr.sge[0].to = cpu_to_le64(bind.va);
        wr.sge[0].length = cpu_to_le32(2 * PIECE);
        rnic_post_send(w->r, &w->c->qp, &wr);
        wire_get_read_request(w->c->peer, 1, &read);
    }
    put_piece(w, opcode, bind.mw, bind.va, false);
    RNIC_UNTIL(w->r, octet_at(w, region->bus[0] + PIECE - 1) == 'w');
    if (dealloc) {
        stag_dealloc(w->r, bind.mw);
    } else {
        /* Its completion comes behind that of a Read. */
        stag_post_invalidate(w->c, 7, bind.mw);
        RNIC_UNTIL(w->r, !stag_query_mw(w->r, bind.mw).valid);
    }
    put_piece(w, opcode, bind.mw, bind.va + PIECE, true);
    wire_expect_terminate(w->c->peer, 0x1100);
    rnic_expect_async(w->r, RNIC_AE_TAGGED_INVALID_STAG, w->c->qp.number);
    if (opcode == WIRE_READ_RESPONSE) {
        rnic_expect_cqe(w->r, &w->c->send_cq, 6, RNIC_WC_FLUSHED);
    }
    if (!dealloc) {
        rnic_expect_cqe(w->r, &w->c->send_cq, 7,
                        opcode == WIRE_READ_RESPONSE ? RNIC_WC_FLUSHED
                                                     : RNIC_WC_SUCCESS);
    }
    assert_octets(w, region->bus[0], 'w', PIECE);
    assert_octets(w, region->bus[0] + PIECE, 'o', PAGE - PIECE);
    stag_reconnect(w->c);
    if (!dealloc) {
        stag_dealloc(w->r, bind.mw);
    }
}

static void test_window_under_way(void)
{
    World w;
    StagRegion region;

    world_init(&w);
    region = big_region(&w);
    for (int dealloc = 0; dealloc < 2; dealloc++) {
        check_tagged(&w, &region, WIRE_WRITE, dealloc);
        check_tagged(&w, &region, WIRE_READ_RESPONSE, dealloc);
        rnic_mem_fill(w.r, region.bus[0], 'o', PAGE);
        check_source(&w, &region, dealloc);
    }
    stag_dealloc(w.r, region.stag);     /* nothing is bound to it any more */
    world_cleanup(&w);
    rnic_shows("V7.10.4.1-1");
}

/* A message has half come into a receive whose memory goes. */
static void test_receive_under_way(void)
{
    World w;

    world_init(&w);
    for (int dealloc = 0; dealloc < 2; dealloc++) {
        StagRegion region = stag_region(w.r, 1);
        struct rnic_sge sge = { .length = cpu_to_le32(4096) };
        uint8_t payload[PIECE];
        WireSegment half = {
            .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
            .msn = 1, .length = PIECE, .payload = payload,
        };

        memset(payload, 'w', PIECE);
        stag_register(w.r, &region);
        sge.stag = cpu_to_le32(region.stag);
        sge.to = cpu_to_le64(region.va);
        rnic_post_recv(w.r, &w.c->qp, 8, 1, &sge);
        wire_put_segment(w.c->peer, &half);
        RNIC_UNTIL(w.r, octet_at(&w, region.bus[0] + PIECE - 1) == 'w');
        if (dealloc) {
            stag_dealloc(w.r, region.stag);
        } else {
            g_assert_cmpint(stag_invalidate(w.c, region.stag), ==,
                            RNIC_WC_SUCCESS);
        }
        half.mo = PIECE;
        half.last = true;
        wire_put_segment(w.c->peer, &half);
        rnic_expect_cqe(w.r, &w.c->recv_cq, 8, RNIC_WC_INVALID_STAG);
        wire_expect_terminate(w.c->peer, 0);
        assert_octets(&w, region.bus[0] + PIECE, 0, 4096 - PIECE);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V7.8-10 V7.9-5");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/invalidation/kept", test_kept);
    qtest_add_func("rnic/invalidation/size-without-room",
                   test_size_without_room);
    qtest_add_func("rnic/invalidation/others-untouched",
                   test_others_untouched);
    qtest_add_func("rnic/invalidation/keys", test_keys);
    qtest_add_func("rnic/invalidation/by-empty-read", test_by_empty_read);
    qtest_add_func("rnic/invalidation/windows", test_windows);
    qtest_add_func("rnic/invalidation/window-under-way",
                   test_window_under_way);
    qtest_add_func("rnic/invalidation/receive-under-way",
                   test_receive_under_way);
    return g_test_run();
}
