/*
 * rnic: what a page list, its first octet's offset and its length must be, by each way
 * to register (7.6.1, 7.6.2)
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

typedef enum How { REGISTER, REREGISTER, FAST_REGISTER, WAYS } How;

/* An STag for @how to work on. */
static void prepare(World *w, How how, StagRegion *region)
{
    StagRegion first = stag_region(w->r, 1);

    if (how == REREGISTER) {
        stag_register(w->r, &first);
        region->stag = first.stag;
    } else if (how == FAST_REGISTER) {
        region->stag = stag_alloc(w->r, w->r->pd, region->count, region->key,
                                  true);
    }
}

/* The outcome as if it were a completion's. */
static uint8_t registers(World *w, How how, StagRegion *region)
{
    static const uint8_t completions[] = {
        [RNIC_ST_OK] = RNIC_WC_SUCCESS,
        [RNIC_ST_INVALID_VA] = RNIC_WC_INVALID_VA,
        [RNIC_ST_INVALID_FBO] = RNIC_WC_INVALID_FBO,
        [RNIC_ST_INVALID_LENGTH] = RNIC_WC_INVALID_REGISTER_LENGTH,
        [RNIC_ST_INVALID_PBL_ENTRY] = RNIC_WC_INVALID_PBL_ENTRY,
    };
    uint16_t status;

    if (how == FAST_REGISTER) {
        return stag_fast_register(w->c, region);
    }
    status = how == REGISTER ? stag_try_register(w->r, region)
                             : stag_try_reregister(w->r, region,
                                                   STAG_CHANGE_ALL);
    g_assert_cmpuint(status, <, G_N_ELEMENTS(completions));
    g_assert_true(status == RNIC_ST_OK || completions[status]);
    return completions[status];
}

/* Refused, and of it there is nothing that is Valid. */
static void assert_refused(World *w, How how, const StagRegion *bad,
                           uint8_t status)
{
    uint32_t stags = rnic_query_counters(w->r).stags;
    StagRegion region = *bad;

    prepare(w, how, &region);
    g_assert_cmpint(registers(w, how, &region), ==, status);
    if (how == FAST_REGISTER) {
        wire_expect_terminate(w->c->peer, 0);
        stag_reconnect(w->c);
        g_assert_cmpint(stag_query_mr(w->r, region.stag).valid, ==, 0);
        stag_dealloc(w->r, region.stag);
    }
    g_assert_cmphex(rnic_query_counters(w->r).stags, ==, stags);
}

static void assert_registers(World *w, How how, StagRegion *region)
{
    prepare(w, how, region);
    g_assert_cmpint(registers(w, how, region), ==, RNIC_WC_SUCCESS);
}

/* --------------------------------------------------- any offset, any length */

/* All of it by the peer and by this side; the octets around it are not it. */
static void assert_exact(World *w, const StagRegion *region)
{
    uint64_t at = region->bus[0] + region->offset;
    g_autofree uint8_t *data = g_malloc(region->length);
    g_autofree uint8_t *got = g_malloc(region->length + 2);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1, .wr_id = 3 };

    rnic_mem_fill(w->r, at - 1, 0xee, region->length + 2);
    rnic_pattern(data, region->length, region->offset);
    stag_peer_writes(w->c, region->stag, region->va, data, region->length);
    rnic_mem_read(w->r, at - 1, got, region->length + 2);
    g_assert_cmphex(got[0], ==, 0xee);
    g_assert_cmpmem(got + 1, region->length, data, region->length);
    g_assert_cmphex(got[region->length + 1], ==, 0xee);
    stag_peer_reads(w->c, region->stag, region->va, got, region->length);
    g_assert_cmpmem(got, region->length, data, region->length);
    wr.sge[0].stag = cpu_to_le32(region->stag);
    wr.sge[0].to = cpu_to_le64(region->va);
    wr.sge[0].length = cpu_to_le32(region->length);
    rnic_post_send(w->r, &w->c->qp, &wr);
    memset(got, 0, region->length);
    g_assert_cmpuint(wire_get_send(w->c->peer, WIRE_SEND, 1, got,
                                   region->length), ==, region->length);
    g_assert_cmpmem(got, region->length, data, region->length);
    rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_SUCCESS);
    stag_peer_write_refused(w->c, region->stag, region->va - 1, 1, 0x1101);
    stag_peer_write_refused(w->c, region->stag, region->va + region->length,
                            1, 0x1101);
    stag_peer_read_refused(w->c, region->stag,
                           region->va + region->length - 1, 2, 0x0101);
}

static void test_any_alignment(void)
{
    static const struct {
        uint32_t offset, length;
    } places[] = {
        { 1, 1 }, { 4095, 1 }, { 4095, 2 }, { 2048, 4096 }, { 1, 8191 },
        { 3, 4093 }, { 77, 12288 - 77 + 1 }, { 4094, 2 }, { 1365, 9001 },
    };
    World w;

    world_init(&w);
    for (How how = 0; how < WAYS; how++) {
        for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
            StagRegion region = stag_region(w.r, 4);

            region.offset = places[i].offset;
            region.va += places[i].offset;
            region.length = places[i].length;
            assert_registers(&w, how, &region);
            assert_exact(&w, &region);
            stag_dealloc(w.r, region.stag);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.6.1.1-2");
}

/* --------------------------------------------------------- what does not fit */

/* Each entry of four, by the lowest bit of its address and by the highest. */
static void test_every_entry(void)
{
    World w;

    world_init(&w);
    for (How how = 0; how < WAYS; how++) {
        StagRegion good = stag_region(w.r, 4);

        for (unsigned entry = 0; entry < 4; entry++) {
            for (unsigned bit = 0; bit < 12; bit += 11) {
                StagRegion bad = good;

                bad.bus[entry] += 1u << bit;
                assert_refused(&w, how, &bad, RNIC_WC_INVALID_PBL_ENTRY);
            }
        }
        assert_registers(&w, how, &good);
    }
    world_cleanup(&w);
    rnic_shows("V7.6.2.1-2");
}

/* The offset: within a page. The length: from there to the end of the list. */
static void test_offset_and_length(void)
{
    static const uint64_t offsets[] = { 4096, 4097, 1ULL << 31 };
    World w;

    world_init(&w);
    for (How how = 0; how < WAYS; how++) {
        for (unsigned offset = 0; offset < 4096; offset += 4095) {
            StagRegion good = stag_region(w.r, 3), bad;

            good.offset = offset;
            good.va += offset;
            good.length = 3 * 4096 - offset;
            bad = good;
            bad.length++;
            assert_refused(&w, how, &bad, RNIC_WC_INVALID_REGISTER_LENGTH);
            bad.length = good.length + (1ULL << 32);
            assert_refused(&w, how, &bad, RNIC_WC_INVALID_REGISTER_LENGTH);
            bad.length = 1;
            for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++) {
                bad.offset = offsets[i];
                assert_refused(&w, how, &bad, RNIC_WC_INVALID_FBO);
            }
            assert_registers(&w, how, &good);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.6.2.1-3");
}

/* By Register Shared, of a good one. */
static void assert_share_refused(World *w, const StagRegion *good, uint64_t va)
{
    StagRegion source = *good, shared = *good;

    stag_register(w->r, &source);
    shared.va = va;
    g_assert_cmpuint(stag_try_share(w->r, source.stag, &shared), ==,
                     RNIC_ST_INVALID_VA);
    g_assert_cmpint(stag_query_mr(w->r, source.stag).kind, ==, RNIC_STAG_MR);
    stag_dealloc(w->r, source.stag);
}

/*
 * The address of a VA based region agrees with the offset in each bit below the size of
 * a page, whatever that is, and in none above.
 */
static void test_address(void)
{
    World w;
    uint64_t cap;

    world_init(&w);
    cap = le64_to_cpu(rnic_query_device(w.r).page_size_cap);
    for (unsigned shift = 12; shift < 64; shift++) {
        uint64_t size = 1ULL << shift;
        StagRegion good = {
            .pd = w.r->pd, .page_shift = shift, .count = 2, .key = 1,
            .length = 2, .access = LR | LW | RR | RW, .offset = 77,
            .bus = { size, 3 * size }, .va = size * 5 + 77,
        };

        if (!(cap & size)) {
            continue;
        }
        for (uint64_t bit = 1; bit < size; bit <<= 1) {
            StagRegion bad = good;

            bad.va = good.va ^ bit;
            for (How how = 0; how < WAYS; how++) {
                assert_refused(&w, how, &bad, RNIC_WC_INVALID_VA);
            }
            assert_share_refused(&w, &good, bad.va);
        }
        for (How how = 0; how < WAYS; how++) {
            StagRegion region = good;

            region.va ^= size;
            assert_registers(&w, how, &region);
            g_assert_cmphex(le64_to_cpu(stag_query_mr(w.r, region.stag).va),
                            ==, region.va);
            stag_dealloc(w.r, region.stag);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.6.1.1-3 V7.6.2.1-4");
}

/* ------------------------------------------------------ more than 2^32 octets */

#define LARGE_SHIFT 27
#define LARGE_PAGE (1ULL << LARGE_SHIFT)

/* Of nearly 8 GiB: from 4 GiB on it is over another page than before. */
static StagRegion long_region(World *w)
{
    uint64_t at = rnic_alloc(w->r, 4096);
    StagRegion region = {
        .pd = w->r->pd, .access = LR | LW | RR | RW | MB, .key = 1,
        .page_shift = LARGE_SHIFT, .count = STAG_MAX_PAGES, .offset = at,
        .length = (STAG_MAX_PAGES - 1) * LARGE_PAGE + 100,
        .va = 0x7700000000 + at,
    };

    for (unsigned i = 0; i < region.count; i++) {
        region.bus[i] = i < region.count / 2 ? 0 : LARGE_PAGE;
    }
    return region;
}

/* @stag names the octet at @bus, which is its last one, in front of @end. */
static void assert_last(World *w, uint32_t stag, uint64_t end, uint64_t bus)
{
    uint8_t got;

    rnic_mem_fill(w->r, bus, 0, 2);
    stag_peer_writes(w->c, stag, end - 1, "w", 1);
    rnic_mem_read(w->r, bus, &got, 1);
    g_assert_cmphex(got, ==, 'w');
    rnic_mem_fill(w->r, bus, 'r', 1);
    stag_peer_reads(w->c, stag, end - 1, &got, 1);
    g_assert_cmphex(got, ==, 'r');
    stag_peer_write_refused(w->c, stag, end, 1, 0x1101);
    stag_peer_read_refused(w->c, stag, end - 1, 2, 0x0101);
    rnic_mem_read(w->r, bus + 1, &got, 1);
    g_assert_cmphex(got, ==, 0);
}

/* Bound over the last @length octets of @region. */
static void assert_window(World *w, const StagRegion *region, uint64_t length,
                          uint64_t bus)
{
    uint64_t end = region->va + region->length;
    StagBind bind = stag_window(stag_alloc_mw(w->r, w->r->pd, 1), region,
                                end - length, length, RR | RW);

    g_assert_cmpint(stag_bind(w->c, &bind), ==, RNIC_WC_SUCCESS);
    g_assert_cmphex(le64_to_cpu(stag_query_mw(w->r, bind.mw).length), ==,
                    length);
    assert_last(w, bind.mw, end, bus);
    stag_peer_write_refused(w->c, bind.mw, end - length - 1, 1, 0x1101);
    stag_dealloc(w->r, bind.mw);
}

/* Lengths of regions and windows, and offsets in them, have 64 bits. */
static void test_beyond_4_gib(void)
{
    World w;

    world_init(&w);
    for (How how = 0; how < WAYS; how++) {
        StagRegion region = long_region(&w);
        uint64_t last = LARGE_PAGE + region.offset + 99;
        uint8_t got;

        assert_registers(&w, how, &region);
        g_assert_cmphex(le64_to_cpu(stag_query_mr(w.r, region.stag).length),
                        ==, region.length);
        stag_peer_writes(w.c, region.stag, region.va, "first", 5);
        rnic_mem_read(w.r, region.offset, &got, 1);
        g_assert_cmphex(got, ==, 'f');
        assert_last(&w, region.stag, region.va + region.length, last);
        assert_window(&w, &region, region.length, last);
        assert_window(&w, &region, 8, last);
        stag_dealloc(w.r, region.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.5.1-1 V7.6.2.1-3 V7.10.2-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/page-lists/any-alignment", test_any_alignment);
    qtest_add_func("rnic/page-lists/every-entry", test_every_entry);
    qtest_add_func("rnic/page-lists/offset-and-length",
                   test_offset_and_length);
    qtest_add_func("rnic/page-lists/address", test_address);
    qtest_add_func("rnic/page-lists/beyond-4-gib", test_beyond_4_gib);
    return g_test_run();
}
