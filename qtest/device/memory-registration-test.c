/*
 * rnic: what a registration says, what it gives back, and what holds from then on
 * (7.3, 7.4)
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
#define ZB RNIC_ACCESS_ZERO_BASED

typedef struct World {
    Connection *c;
    Rnic *r;
    uint8_t octet;              /* the last that was written */
} World;

static void world_init_with(World *w, const char *properties)
{
    ConnectionOptions options = stag_options;

    options.properties = properties;
    *w = (World) { .c = connection_new(&options) };
    w->r = w->c->r;
}

static void world_init(World *w)
{
    world_init_with(w, NULL);
}

static void world_cleanup(World *w)
{
    connection_free(w->c);
}

/* An octet of the peer of @c, at @to of @stag, lands at @bus. */
static void assert_maps_for(World *w, Connection *c, uint32_t stag,
                            uint64_t to, uint64_t bus)
{
    uint8_t got;

    w->octet++;
    stag_peer_writes(c, stag, to, &w->octet, 1);
    rnic_mem_read(w->r, bus, &got, 1);
    g_assert_cmphex(got, ==, w->octet);
}

static void assert_maps(World *w, uint32_t stag, uint64_t to, uint64_t bus)
{
    assert_maps_for(w, w->c, stag, to, bus);
}

static void invalidate_ok(World *w, uint32_t stag)
{
    g_assert_cmpint(stag_invalidate(w->c, stag), ==, RNIC_WC_SUCCESS);
}

static void fast_register_ok(World *w, const StagRegion *region)
{
    g_assert_cmpint(stag_fast_register(w->c, region), ==, RNIC_WC_SUCCESS);
}

static RnicWr wr_of(uint8_t opcode, const StagRegion *region, uint64_t offset,
                    uint32_t length)
{
    return (RnicWr) {
        .opcode = opcode, .flags = RNIC_WQE_SIGNALED, .wr_id = 3,
        .num_sge = 1, .remote_stag = CONNECTION_REMOTE_STAG,
        .sge[0] = {
            .stag = cpu_to_le32(region->stag),
            .to = cpu_to_le64(region->va + offset),
            .length = cpu_to_le32(length),
        },
    };
}

/* -------------------------------------------------------- ways to register */

typedef enum How { REGISTER, REREGISTER, FAST_REGISTER, RIGHTS_ALONE } How;

/* Anew, or in place of what the STag of @region was before. */
static void register_by(World *w, How how, StagRegion *region)
{
    switch (how) {
    case REGISTER:
        if (region->stag) {
            stag_dealloc(w->r, region->stag);
        }
        stag_register(w->r, region);
        break;
    case REREGISTER:
        if (!region->stag) {
            StagRegion other = stag_region(w->r, region->count);

            stag_register(w->r, &other);
            region->stag = other.stag;
        }
        g_assert_cmpuint(stag_try_reregister(w->r, region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        break;
    case RIGHTS_ALONE:              /* of what is registered, if anything is */
        if (!region->stag) {
            stag_register(w->r, region);
        }
        g_assert_cmpuint(stag_try_reregister(w->r, region,
                                             RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_OK);
        break;
    case FAST_REGISTER:
        if (!region->stag) {
            region->stag = stag_alloc(w->r, w->r->pd, region->count,
                                      region->key, true);
        } else {
            invalidate_ok(w, region->stag);
        }
        fast_register_ok(w, region);
        break;
    }
}

static void assert_base(World *w, const StagRegion *region)
{
    bool zero_based = region->access & ZB;
    uint64_t base = zero_based ? 0 : region->va;
    uint64_t last = region->offset + region->length - 1;

    g_assert_cmphex(le64_to_cpu(stag_query_mr(w->r, region->stag).va), ==,
                    base);
    assert_maps(w, region->stag, base, region->bus[0] + region->offset);
    assert_maps(w, region->stag, base + region->length - 1,
                region->bus[last / 4096] + last % 4096);
    stag_peer_write_refused(w->c, region->stag, base + region->length, 1,
                            0x1101);
    stag_peer_write_refused(w->c, region->stag, zero_based ? region->va : 0,
                            1, 0x1101);
}

/* VA based, zero based, and the other way round, by each way to register. */
static void test_bases(void)
{
    World w;

    world_init(&w);
    for (How how = 0; how <= FAST_REGISTER; how++) {
        StagRegion region = stag_region(w.r, 3);

        region.offset = 0x234;
        region.va += 0x234;
        region.length = 2 * 4096 + 5;
        for (int i = 0; i < 4; i++) {
            region.access = LR | LW | RR | RW | (i & 1 ? ZB : 0);
            register_by(&w, how, &region);
            assert_base(&w, &region);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.3.1.1-1");
}

/* It is as before, though the command says the other base. */
static void assert_base_stays(World *w, const StagRegion *region)
{
    static const uint32_t changes[] = {
        0, RNIC_REREGISTER_ACCESS, RNIC_REREGISTER_PD,
        RNIC_REREGISTER_ACCESS | RNIC_REREGISTER_PD,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
        StagRegion other = *region;

        other.access ^= ZB;
        g_assert_cmpuint(stag_try_reregister(w->r, &other, changes[i]), ==,
                         RNIC_ST_OK);
        g_assert_cmphex(le32_to_cpu(stag_query_mr(w->r, region->stag).access),
                        ==, region->access);
        assert_base(w, region);
    }
}

/* Where TOs begin belongs to the translation, and to nothing else of Reregister's. */
static void test_base_of_translation(void)
{
    StagRegion region;
    World w;

    world_init(&w);
    region = stag_region(w.r, 3);
    region.offset = 0x234;
    region.va += 0x234;
    region.length = 2 * 4096 + 5;
    region.access = LR | LW | RR | RW;
    stag_register(w.r, &region);
    for (int i = 0; i < 4; i++) {
        assert_base_stays(&w, &region);
        region.access ^= ZB;
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             RNIC_REREGISTER_TRANSLATION), ==,
                         RNIC_ST_OK);
        g_assert_cmphex(le32_to_cpu(stag_query_mr(w.r, region.stag).access),
                        ==, region.access);
        assert_base(&w, &region);
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-8");
}

/* Rights that there are none of, in each of 32 bits: none of them is for Reregister. */
static void test_unknown_rights(void)
{
    uint32_t known = LR | LW | RR | RW | MB | ZB | RNIC_ACCESS_REMOTE_ATOMIC |
                     RNIC_ACCESS_READ_SINK;
    World w;

    world_init(&w);
    for (unsigned bit = 0; bit < 32; bit++) {
        StagRegion region = stag_region(w.r, 1);

        if (known >> bit & 1) {
            continue;
        }
        stag_register(w.r, &region);
        region.access |= 1u << bit;
        /* It is not looked at unless rights are to change. */
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             STAG_CHANGE_ALL &
                                             ~RNIC_REREGISTER_ACCESS), ==,
                         RNIC_ST_OK);
        g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                             bit & 1 ? STAG_CHANGE_ALL
                                                     : RNIC_REREGISTER_ACCESS),
                         ==, RNIC_ST_INVALID_ACCESS_RIGHTS);
        g_assert_false(stag_exists(w.r, region.stag));
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-7");
}

/* ------------------------------------------------------ windows on a region */

static void assert_bindable(World *w, const StagRegion *region, bool yes)
{
    uint32_t mw = stag_alloc_mw(w->r, w->r->pd, 1);
    StagBind bind = stag_window(mw, region, region->va + 7, 1, RR | RW);

    g_assert_cmpint(!!(le32_to_cpu(stag_query_mr(w->r, region->stag).access) &
                       MB), ==, yes);
    g_assert_cmpint(stag_bind(w->c, &bind), ==,
                    yes ? RNIC_WC_SUCCESS : RNIC_WC_ACCESS_VIOLATION);
    if (yes) {
        assert_maps(w, bind.mw, bind.va, region->bus[0] + 7);
    } else {
        stag_reconnect(w->c);
        g_assert_cmpint(stag_query_mw(w->r, mw).valid, ==, 0);
    }
    stag_dealloc(w->r, mw);
}

/* Each registration says it, and may say other than the one before. */
static void test_bind_flag(void)
{
    World w;

    world_init(&w);
    for (How how = 0; how <= RIGHTS_ALONE; how++) {
        StagRegion region = stag_region(w.r, 1), shared;

        for (int i = 0; i < 4; i++) {
            region.access = LR | LW | (i & 1 ? MB : 0);
            register_by(&w, how, &region);
            assert_bindable(&w, &region, i & 1);
        }
        /* A shared one says it for itself. */
        for (int i = 0; i < 2; i++) {
            shared = region;
            shared.access = LR | LW | (i ? MB : 0);
            stag_share(w.r, region.stag, &shared);
            assert_bindable(&w, &shared, i);
            assert_bindable(&w, &region, true);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2-1 V7.3.2.3-8");
}

/* All that Reregister may change, other than it is. */
static StagRegion all_else(World *w, const StagRegion *region)
{
    StagRegion other = stag_region(w->r, 1);

    other.stag = region->stag;
    other.key = region->key + 1;
    other.access = LR;
    other.pd = rnic_alloc_pd(w->r);
    return other;
}

/* With one window bound or more it is refused, and nothing has changed. */
static void assert_held(World *w, const StagRegion *region, unsigned windows)
{
    static const uint32_t changes[] = {
        0, RNIC_REREGISTER_PD, RNIC_REREGISTER_ACCESS,
        RNIC_REREGISTER_TRANSLATION, STAG_CHANGE_ALL, 8,
    };
    struct rnic_mr_attr before = stag_query_mr(w->r, region->stag), after;

    g_assert_cmpuint(le32_to_cpu(before.bound_windows), ==, windows);
    for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
        StagRegion other = all_else(w, region);

        g_assert_cmpuint(stag_try_reregister(w->r, &other, changes[i]), ==,
                         RNIC_ST_MW_BOUND_TO_MR);
        after = stag_query_mr(w->r, region->stag);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    }
    assert_maps(w, region->stag, region->va + 1, region->bus[0] + 1);
    assert_maps(w, region->stag, region->va + region->length - 1,
                region->bus[1] + 4095);
}

static void test_held_by_windows(void)
{
    World w;
    StagRegion region, other;
    StagBind binds[2];

    world_init(&w);
    region = stag_region(w.r, 2);
    stag_register(w.r, &region);
    for (int i = 0; i < 2; i++) {
        binds[i] = stag_window(stag_alloc_mw(w.r, w.r->pd, i), &region,
                               region.va + 100 * i, 10, RR | RW);
        g_assert_cmpint(stag_bind(w.c, &binds[i]), ==, RNIC_WC_SUCCESS);
        assert_held(&w, &region, i + 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_maps(&w, binds[i].mw, binds[i].va, region.bus[0] + 100 * i);
    }
    invalidate_ok(&w, binds[0].mw);
    assert_held(&w, &region, 1);
    assert_maps(&w, binds[1].mw, binds[1].va, region.bus[0] + 100);
    stag_dealloc(w.r, binds[1].mw);
    other = all_else(&w, &region);
    other.pd = w.r->pd;
    other.access = LR | LW | RW;
    g_assert_cmpuint(stag_try_reregister(w.r, &other, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    assert_maps(&w, other.stag, other.va, other.bus[0]);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-4 V7.3.2.3-6");
}

/*
 * A window is bound to @region, unless it has a new key by then, while a list that takes
 * its place is read. The status of that registration.
 */
static uint16_t reregister_while_bound(World *w, StagRegion *region,
                                       const struct rnic_page_list *list,
                                       uint32_t mw, uint8_t *bound)
{
    struct rnic_admin_sqe sqe = stag_command(w->r, RNIC_ADMIN_REREGISTER_MR,
                                             region);
    StagBind bind = stag_window(mw, region, region->va, 1, RW);
    struct rnic_admin_cqe cqe;

    sqe.register_mr.stag = cpu_to_le32(region->stag);
    sqe.register_mr.change = cpu_to_le32(RNIC_REREGISTER_TRANSLATION);
    sqe.register_mr.pages = *list;
    sqe.register_mr.key = region->key + 1;
    rnic_admin_fill(w->r, &sqe);
    rnic_admin_tail(w->r);
    rnic_settle_fast(w->r);
    *bound = stag_bind(w->c, &bind);
    rnic_admin_completion(w->r, &cqe);
    return le16_to_cpu(cqe.status);
}

/* Bound while the new list is read: refused then, and nothing has changed. */
static void test_bound_meanwhile(void)
{
    enum { TIMES = 20, CHUNKS = 32 * 1024 };
    struct rnic_page_list list;
    unsigned bound_in_time = 0;
    World w;

    world_init(&w);
    list = rnic_long_list(w.r, CHUNKS, false);
    for (int i = 0; i < TIMES && bound_in_time < 3; i++) {
        uint32_t mw = stag_alloc_mw(w.r, w.r->pd, 0x11);
        StagRegion region = stag_region(w.r, 1);
        struct rnic_mr_attr before, after;
        uint16_t status;
        uint8_t bound;

        stag_register(w.r, &region);
        before = stag_query_mr(w.r, region.stag);
        status = reregister_while_bound(&w, &region, &list, mw, &bound);
        if (bound == RNIC_WC_SUCCESS) {
            g_assert_cmpuint(status, ==, RNIC_ST_MW_BOUND_TO_MR);
            after = stag_query_mr(w.r, region.stag);
            g_assert_cmpuint(le32_to_cpu(after.bound_windows), ==, 1);
            after.bound_windows = before.bound_windows;
            g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
            assert_maps(&w, mw, region.va, region.bus[0]);
            assert_maps(&w, region.stag, region.va + 1, region.bus[0] + 1);
            bound_in_time++;
        } else {
            g_assert_cmpint(bound, ==, RNIC_WC_INVALID_REGION);
            g_assert_cmpuint(status, ==, RNIC_ST_OK);
            stag_reconnect(w.c);
        }
        stag_dealloc(w.r, mw);
        stag_dealloc(w.r, region.stag);
    }
    g_assert_cmpuint(bound_in_time, >, 0);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-4 V7.3.2.3-6");
}

/* ----------------------------------------------------- how much there is */

/* Of ALLOC_STAG: the STag, and the number of entries that it says it has. */
static uint32_t alloc_sized(Rnic *r, uint32_t pages, uint32_t *granted)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_admin_cqe cqe;

    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    sqe.alloc_stag.max_pages = cpu_to_le32(pages);
    sqe.alloc_stag.remote_access = 1;
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    *granted = le32_to_cpu(cqe.mr.pages);
    return le32_to_cpu(cqe.number);
}

/* @count entries, of which the last is @last and all before it are @page. */
static uint8_t fast_register_many(World *w, uint32_t stag, uint64_t list,
                                  uint32_t count, uint64_t page, uint64_t last)
{
    StagRegion region = {
        .stag = stag, .length = 4096ULL * count, .access = LR | LW | RR | RW };
    struct rnic_page_list pages = {
        .addr = cpu_to_le64(list), .count = cpu_to_le32(count),
        .level = RNIC_PAGE_LIST_DIRECT, .page_shift = 12 };
    g_autofree uint64_t *entries = g_new(uint64_t, count);

    for (uint32_t i = 0; i < count; i++) {
        entries[i] = cpu_to_le64(i == count - 1 ? last : page);
    }
    rnic_mem_write(w->r, list, entries, 8 * count);
    stag_store_fast_register_of(w->c, 6, RNIC_WQE_SIGNALED, &region, &pages);
    rnic_ring_sq(w->r, &w->c->qp);
    return stag_status_of(w->c, 6);
}

/* What ALLOC_STAG says it has granted can be used, and not one entry more. */
static void test_granted(void)
{
    static const uint32_t sizes[] = {
        1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 64, 65, 127, 128, 255, 256,
    };
    World w;
    uint64_t pages, list;
    uint32_t limit, granted, stag;

    world_init(&w);
    limit = le32_to_cpu(rnic_query_device(w.r).max_fast_register_pages);
    pages = rnic_alloc(w.r, 2 * 4096);
    list = rnic_alloc(w.r, 8 * (limit + 1));
    for (unsigned i = 0; i <= G_N_ELEMENTS(sizes); i++) {
        uint32_t size = i < G_N_ELEMENTS(sizes) ? sizes[i] : limit;

        g_assert_cmpuint(size, <=, limit);
        stag = alloc_sized(w.r, size, &granted);
        g_assert_cmpuint(granted, >=, size);
        g_assert_cmpuint(le32_to_cpu(stag_query_mr(w.r, stag).max_pages), ==,
                         granted);
        g_assert_cmpint(fast_register_many(&w, stag, list, granted + 1, pages,
                                           pages + 4096), ==,
                        RNIC_WC_PBL_TOO_LONG);
        stag_reconnect(w.c);
        g_assert_cmpint(stag_query_mr(w.r, stag).valid, ==, 0);
        g_assert_cmpint(fast_register_many(&w, stag, list, granted, pages,
                                           pages + 4096), ==,
                        RNIC_WC_SUCCESS);
        assert_maps(&w, stag, 4096ULL * granted - 1, pages + 8191);
        stag_dealloc(w.r, stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.1-2 V7.3.2.5-7");
}

static uint16_t try_alloc(Rnic *r, uint32_t pages)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_STAG);

    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    sqe.alloc_stag.max_pages = cpu_to_le32(pages);
    return rnic_admin(r, &sqe, NULL);
}

/* What fails for want of an STag holds no entries, and the other way round. */
static void test_failed_holds_nothing(void)
{
    enum { PAGES = 6 };
    Rnic *r = rnic_boot_up(",max-mr=3,max-mr-pages=6");
    struct rnic_counters before = rnic_query_counters(r);
    StagRegion region = stag_region(r, PAGES), small = stag_region(r, 1);
    uint32_t mw[3];

    for (int i = 0; i < 3; i++) {
        mw[i] = stag_alloc_mw(r, r->pd, i);
    }
    for (int i = 0; i < 5; i++) {
        g_assert_cmpuint(stag_try_register(r, &region), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        g_assert_cmpuint(try_alloc(r, PAGES), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
    }
    stag_dealloc(r, mw[0]);
    stag_register(r, &region);
    stag_dealloc(r, mw[1]);
    for (int i = 0; i < 5; i++) {
        g_assert_cmpuint(stag_try_register(r, &small), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        g_assert_cmpuint(try_alloc(r, 1), ==, RNIC_ST_INSUFFICIENT_RESOURCES);
    }
    mw[1] = stag_alloc_mw(r, r->pd, 1);
    stag_dealloc(r, region.stag);
    g_assert_cmpuint(try_alloc(r, PAGES + 1), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    region.stag = stag_alloc(r, r->pd, PAGES, 1, true);
    stag_dealloc(r, region.stag);
    stag_dealloc(r, mw[1]);
    stag_dealloc(r, mw[2]);
    stag_assert_no_leak(r, &before);
    rnic_quit(r);
    rnic_shows("V7.3-3");
}

/* Where no entry is left, as many may share those of one region as there are STags. */
static void test_sharers(void)
{
    enum { SHARERS = 100, PAGES = 10 };
    StagRegion source, shared[SHARERS], more;
    World w;

    world_init_with(&w, ",max-mr-pages=74");    /* 64 of them c->mr's */
    source = stag_region(w.r, PAGES);
    more = stag_region(w.r, 1);
    stag_register(w.r, &source);
    g_assert_cmpuint(stag_try_register(w.r, &more), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    for (unsigned i = 0; i < SHARERS; i++) {
        shared[i] = source;
        shared[i].key = i;
        shared[i].va = 0x10000ULL * i;
        stag_share(w.r, i ? shared[i - 1].stag : source.stag, &shared[i]);
    }
    for (unsigned i = 0; i < SHARERS; i++) {
        unsigned page = i % PAGES;

        assert_maps(&w, shared[i].stag, shared[i].va + 4096 * page + i,
                    source.bus[page] + i);
    }
    /* Their entries go with the last of them, and not before. */
    stag_dealloc(w.r, source.stag);
    for (unsigned i = 0; i < SHARERS; i++) {
        g_assert_cmpuint(stag_try_register(w.r, &more), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        assert_maps(&w, shared[i].stag, shared[i].va, source.bus[0]);
        stag_dealloc(w.r, shared[i].stag);
    }
    stag_register(w.r, &source);
    assert_maps(&w, source.stag, source.va, source.bus[0]);
    world_cleanup(&w);
    rnic_shows("V7.4.3-2");
}

/* -------------------------------------------------------- Fast-Register */

enum { ALLOCATED, REGISTERED, REREGISTERED, ORIGINS };

/* Of three origins, over pages that it has not had before. */
static StagRegion made_by(World *w, int origin)
{
    StagRegion old = stag_region(w->r, 2), region = stag_region(w->r, 2);

    if (origin == ALLOCATED) {
        old.stag = stag_alloc(w->r, w->r->pd, 2, old.key, true);
    } else {
        stag_register(w->r, &old);
    }
    if (origin == REREGISTERED) {
        g_assert_cmpuint(stag_try_reregister(w->r, &old, STAG_CHANGE_ALL), ==,
                         RNIC_ST_OK);
    }
    if (origin != ALLOCATED) {
        assert_maps(w, old.stag, old.va, old.bus[0]);
        invalidate_ok(w, old.stag);
    }
    region.stag = old.stag;
    return region;
}

static void assert_moves_data(World *w, const StagRegion *region)
{
    RnicWr wr = wr_of(RNIC_SQ_SEND, region, 4090, 12);
    uint8_t got[12];

    assert_maps(w, region->stag, region->va, region->bus[0]);
    assert_maps(w, region->stag, region->va + 8191, region->bus[1] + 4095);
    stag_peer_writes(w->c, region->stag, region->va + 4090, "twelveoctets",
                     12);
    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_send(w->c->peer, WIRE_SEND, 1, got, 12);
    g_assert_cmpmem(got, 12, "twelveoctets", 12);
    rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_SUCCESS);
}

/* An STag of whatever origin is made Valid through the SQ, or by Reregister. */
static void test_origins(void)
{
    World w;

    world_init(&w);
    for (int origin = 0; origin < ORIGINS; origin++) {
        StagRegion region = made_by(&w, origin);
        struct rnic_cqe cqe;

        stag_post_fast_register(w.c, 9, &region);
        cqe = rnic_expect_cqe(w.r, &w.c->send_cq, 9, RNIC_WC_SUCCESS);
        g_assert_cmpint(cqe.opcode, ==, RNIC_SQ_FAST_REGISTER);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, w.c->qp.number);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 1);
        assert_moves_data(&w, &region);
        rnic_expect_no_cqe(w.r, &w.c->recv_cq);
        stag_reconnect(w.c);
        region = made_by(&w, origin);
        g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        assert_moves_data(&w, &region);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V7.3.2.1-5 V7.3.2.3-2 V7.3.2.3-12 V7.3.2.5-1");
}

/* MODIFY_QP with the other privilege is refused, with all that comes with it. */
static void refuse_privilege(Rnic *r, const RnicQp *qp)
{
    struct rnic_qp_attr before = rnic_query_qp(r, qp), after;
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(qp->number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES |
                                     RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(le16_to_cpu(before.ord) - 1);
    sqe.modify_qp.enables = before.enables ^
                            cpu_to_le32(RNIC_QP_PRIVILEGED |
                                        RNIC_QP_ENABLE_WRITE);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                     RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    after = rnic_query_qp(r, qp);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
}

/* A QP is privileged, or not, as it was created: also after Idle and a new stream. */
static void test_privilege_is_fixed(void)
{
    StagRegion region;
    Connection *plain;
    World w;

    world_init(&w);
    plain = stag_unprivileged_qp(w.c);
    region = stag_region(w.r, 1);
    region.stag = stag_alloc(w.r, w.r->pd, 1, region.key, true);
    for (int again = 0; again < 2; again++) {
        refuse_privilege(w.r, &plain->qp);
        g_assert_cmpuint(stag_fast_register(plain, &region), ==,
                         RNIC_WC_NOT_PRIVILEGED);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
        connection_recycle(plain);
        refuse_privilege(w.r, &plain->qp);
        connection_establish(plain, &stag_options);

        refuse_privilege(w.r, &w.c->qp);
        g_assert_cmpuint(stag_fast_register(w.c, &region), ==,
                         RNIC_WC_SUCCESS);
        g_assert_cmpuint(stag_invalidate(w.c, region.stag), ==,
                         RNIC_WC_SUCCESS);
        connection_recycle(w.c);
        refuse_privilege(w.r, &w.c->qp);
        connection_establish(w.c, &stag_options);
    }
    connection_free_second(plain);
    world_cleanup(&w);
    rnic_shows("V6.1.1-6 V7.3.2.5-11");
}

/* ------------------------------------------------------------------ rights */

/* What may be sent needs Local Read, whatever it is sent by. */
static void test_sources(void)
{
    static const struct {
        uint8_t opcode, flags;
    } kinds[] = {
        { RNIC_SQ_SEND, 0 }, { RNIC_SQ_SEND, RNIC_WQE_SOLICITED },
        { RNIC_SQ_SEND_INVALIDATE, 0 },
        { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED },
        { RNIC_SQ_RDMA_WRITE, 0 },
    };
    StagRegion good, bad;
    World w;

    world_init(&w);
    good = bad = stag_region(w.r, 1);
    good.access = LR;
    bad.access = LW | RW;
    stag_register(w.r, &good);
    stag_register(w.r, &bad);
    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(kinds); i++) {
        unsigned kind = i / 2;
        bool second = i & 1;            /* SGE is the bad one */
        RnicWr wr = wr_of(kinds[kind].opcode, second ? &good : &bad, 0, 8);

        wr.flags |= kinds[kind].flags;
        wr.num_sge = 1 + second;
        wr.sge[1] = wr_of(0, &bad, 0, 8).sge[0];
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_expect_terminate(w.c->peer, 0);
        rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_ACCESS_VIOLATION);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V7.4.1-3");
}

/* A receive of an S-RQ needs Local Write, as one of an RQ does. */
static void test_srq_sinks(void)
{
    static const uint32_t rights[] = { LR, LR | RR, LW, LW | RW };
    ConnectionOptions options = { };
    RnicSrqInit init;
    Connection *c;
    RnicSrq srq;
    World w;

    world_init(&w);
    init = rnic_srq_default(w.r);
    rnic_create_srq(w.r, &srq, &init);
    options.srq = &srq;
    c = connection_prepare_second(w.c, &options);
    for (unsigned i = 0; i < G_N_ELEMENTS(rights); i++) {
        bool good = rights[i] & LW;
        StagRegion region = stag_region(w.r, 1);
        RnicWr wr;
        uint8_t got[8];

        region.access = rights[i];
        stag_register(w.r, &region);
        rnic_mem_write(w.r, region.bus[0], "original", 8);
        connection_establish(c, &options);
        wr = wr_of(0, &region, 0, 8);
        rnic_post_srq_recv(w.r, &srq, 3, 1, wr.sge);
        wire_put_send(c->peer, WIRE_SEND, 0, "intruder", 8);
        rnic_expect_cqe(w.r, &c->recv_cq, 3,
                        good ? RNIC_WC_SUCCESS : RNIC_WC_ACCESS_VIOLATION);
        if (!good) {
            wire_expect_terminate(c->peer, 0);
        }
        rnic_mem_read(w.r, region.bus[0], got, 8);
        g_assert_cmpmem(got, 8, good ? "intruder" : "original", 8);
        connection_recycle(c);
    }
    connection_free_second(c);
    world_cleanup(&w);
    rnic_shows("V7.4.1-4");
}

/* Without the flag, which Reregister changes with the rights alone. */
static void assert_local(World *w, const StagRegion *region)
{
    struct rnic_mr_attr attr = stag_query_mr(w->r, region->stag);

    g_assert_cmpint(attr.remote_access, ==, 0);
    g_assert_cmphex(le32_to_cpu(attr.access) & (RR | RW), ==, 0);
    stag_peer_write_refused(w->c, region->stag, region->va, 1, 0x1102);
    stag_peer_read_refused(w->c, region->stag, region->va, 1, 0x0102);
}

static void test_local_only(void)
{
    StagRegion region, other;
    uint8_t octet;
    World w;

    world_init(&w);
    region = stag_region(w.r, 1);
    region.access = LR | LW;
    region.local_only = true;
    stag_register(w.r, &region);
    assert_local(&w, &region);
    /* These say otherwise, but not that they change it. */
    region.access = LR | LW | RR | RW;
    region.local_only = false;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, RNIC_REREGISTER_PD), ==,
                     RNIC_ST_OK);
    assert_local(&w, &region);
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_TRANSLATION), ==,
                     RNIC_ST_OK);
    assert_local(&w, &region);
    g_assert_cmpuint(stag_try_reregister(w.r, &region, 0), ==, RNIC_ST_OK);
    assert_local(&w, &region);
    /* This does; then it is taken away again. */
    region.access = LR | LW | RR;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).remote_access, ==, 1);
    stag_peer_reads(w.c, region.stag, region.va, &octet, 1);
    region.access = LR | LW;
    region.local_only = true;
    g_assert_cmpuint(stag_try_reregister(w.r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    assert_local(&w, &region);
    /* Another STag over the same memory has rights of its own. */
    other = region;
    other.access = LR | LW | RR | RW;
    stag_share(w.r, region.stag, &other);
    assert_maps(&w, other.stag, other.va, region.bus[0]);
    assert_local(&w, &region);
    world_cleanup(&w);
    rnic_shows("V7.4-2 V7.3.2.3-11");
}

/* --------------------------------------------------- several over one memory */

/* @c's peer may do what @access says, and nothing else. */
static void assert_remote(World *w, Connection *c, const StagRegion *region,
                          uint32_t access)
{
    uint8_t got, there;

    if (access & RR) {
        rnic_mem_read(w->r, region->bus[0], &there, 1);
        stag_peer_reads(c, region->stag, region->va, &got, 1);
        g_assert_cmphex(got, ==, there);
    } else {
        stag_peer_read_refused(c, region->stag, region->va, 1, 0x0102);
    }
    if (access & RW) {
        assert_maps_for(w, c, region->stag, region->va, region->bus[0]);
    } else {
        stag_peer_write_refused(c, region->stag, region->va, 1, 0x1102);
    }
}

static void assert_foreign(Connection *c, const StagRegion *region)
{
    stag_peer_write_refused(c, region->stag, region->va, 1, 0x1102);
    stag_peer_read_refused(c, region->stag, region->va, 1, 0x0103);
}

/* Page lists that overlap in part, in whole; rights and PDs that differ. */
static void test_overlap(void)
{
    StagRegion pages, some[4];
    Connection *other;
    uint32_t pd;
    uint8_t got[8];
    World w;

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    other = stag_second_qp(w.c, pd);
    pages = stag_region(w.r, 3);
    for (int i = 0; i < 4; i++) {
        some[i] = pages;
        some[i].va += 0x100000 * i;
        some[i].key = i;
        some[i].count = 2;
        some[i].length = 8192;
    }
    some[0].access = LR | LW | RR | RW;         /* the first and the second */
    some[1].access = LR | RR;                   /* the second and the third */
    some[1].bus[0] = pages.bus[1];
    some[1].bus[1] = pages.bus[2];
    some[2].access = LW | RW;                   /* all three */
    some[2].pd = pd;
    some[2].count = 3;
    some[2].length = 3 * 4096;
    some[3].access = LR | LW | RR;              /* the first and the second */
    some[3].pd = pd;
    for (int i = 0; i < 4; i++) {
        Connection *own = some[i].pd == pd ? other : w.c;

        stag_register(w.r, &some[i]);
        for (int k = 0; k < i; k++) {
            g_assert_cmphex(some[i].stag >> 8, !=, some[k].stag >> 8);
        }
        assert_remote(&w, own, &some[i], some[i].access);
        assert_foreign(own == other ? w.c : other, &some[i]);
    }
    stag_peer_writes(w.c, some[0].stag, some[0].va + 4096, "by first", 8);
    stag_peer_reads(w.c, some[1].stag, some[1].va, got, 8);
    g_assert_cmpmem(got, 8, "by first", 8);
    stag_peer_writes(other, some[2].stag, some[2].va + 4096, "by third", 8);
    stag_peer_reads(w.c, some[0].stag, some[0].va + 4096, got, 8);
    g_assert_cmpmem(got, 8, "by third", 8);
    stag_peer_reads(other, some[3].stag, some[3].va + 4096, got, 8);
    g_assert_cmpmem(got, 8, "by third", 8);
    connection_free_second(other);
    world_cleanup(&w);
    rnic_shows("V7.4.3-1");
}

/* A shared region's own PD, rights and base hold for it, and not the source's. */
static void test_shared_elsewhere(void)
{
    StagRegion source, shared;
    Connection *other;
    RnicWr wr;
    World w;

    world_init(&w);
    source = stag_region(w.r, 2);
    stag_register(w.r, &source);
    shared = source;
    shared.pd = rnic_alloc_pd(w.r);
    other = stag_second_qp(w.c, shared.pd);
    shared.access = LW | RW;
    shared.key = 0x77;
    shared.va += 0x5000;
    stag_share(w.r, source.stag, &shared);
    assert_remote(&w, other, &shared, RW);
    assert_foreign(w.c, &shared);
    assert_remote(&w, w.c, &source, RR | RW);
    assert_foreign(other, &source);
    stag_peer_write_refused(other, shared.stag, source.va, 1, 0x1101);
    stag_peer_write_refused(w.c, source.stag, shared.va, 1, 0x1101);
    wr = wr_of(RNIC_SQ_SEND, &shared, 0, 8);
    rnic_post_recv(w.r, &other->qp, 4, 1, wr.sge);
    wire_put_send(other->peer, WIRE_SEND, 0, "received", 8);
    rnic_expect_cqe(w.r, &other->recv_cq, 4, RNIC_WC_SUCCESS);
    rnic_post_send(w.r, &other->qp, &wr);
    wire_expect_terminate(other->peer, 0);
    rnic_expect_cqe(w.r, &other->send_cq, 3, RNIC_WC_ACCESS_VIOLATION);
    connection_free_second(other);
    world_cleanup(&w);
    rnic_shows("V7.3.2.4-7");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/registration/bases", test_bases);
    qtest_add_func("rnic/registration/base-of-translation",
                   test_base_of_translation);
    qtest_add_func("rnic/registration/unknown-rights", test_unknown_rights);
    qtest_add_func("rnic/registration/bind-flag", test_bind_flag);
    qtest_add_func("rnic/registration/held-by-windows", test_held_by_windows);
    qtest_add_func("rnic/registration/bound-meanwhile", test_bound_meanwhile);
    qtest_add_func("rnic/registration/granted", test_granted);
    qtest_add_func("rnic/registration/failed-holds-nothing",
                   test_failed_holds_nothing);
    qtest_add_func("rnic/registration/sharers", test_sharers);
    qtest_add_func("rnic/registration/origins", test_origins);
    qtest_add_func("rnic/registration/privilege-is-fixed",
                   test_privilege_is_fixed);
    qtest_add_func("rnic/registration/sources", test_sources);
    qtest_add_func("rnic/registration/srq-sinks", test_srq_sinks);
    qtest_add_func("rnic/registration/local-only", test_local_only);
    qtest_add_func("rnic/registration/overlap", test_overlap);
    qtest_add_func("rnic/registration/shared-elsewhere",
                   test_shared_elsewhere);
    return g_test_run();
}
