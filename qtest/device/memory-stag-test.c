/*
 * rnic: the index and the key of an STag, and the STag of zero (7.2)
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
    uint32_t reads;             /* requests since the stream began */
    uint8_t octet;              /* the last that was written */
} World;

static void world_init_enables(World *w, uint32_t enables)
{
    ConnectionOptions options = stag_options;

    options.enables = enables;
    *w = (World) { .c = connection_new(&options) };
    w->r = w->c->r;
}

static void world_init(World *w)
{
    world_init_enables(w, STAG_ENABLES);
}

static void world_cleanup(World *w)
{
    connection_free(w->c);
}

static void renew(World *w)
{
    stag_reconnect(w->c);
    w->reads = 0;
}

static void assert_octet(World *w, uint64_t bus)
{
    uint8_t got;

    rnic_mem_read(w->r, bus, &got, 1);
    g_assert_cmphex(got, ==, w->octet);
}

static RnicWr wr_of(uint8_t opcode, uint32_t stag, uint64_t to,
                    uint32_t length)
{
    return (RnicWr) {
        .opcode = opcode, .flags = RNIC_WQE_SIGNALED, .wr_id = 3,
        .num_sge = 1, .remote_stag = CONNECTION_REMOTE_STAG,
        .sge[0] = {
            .stag = cpu_to_le32(stag), .to = cpu_to_le64(to),
            .length = cpu_to_le32(length),
        },
    };
}

/* A Read goes out with this sink; *@read is what the peer has got. */
static void post_read(World *w, uint32_t stag, uint64_t to, uint32_t length,
                      WireRead *read)
{
    RnicWr wr = wr_of(RNIC_SQ_RDMA_READ, stag, to, length);

    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_read_request(w->c->peer, ++w->reads, read);
    g_assert_cmphex(read->sink_stag, ==, stag);
    g_assert_cmphex(read->sink_to, ==, to);
}

/* @stag names the octet at @bus: for a peer's Write, and as the sink of a Read. */
static void assert_names(World *w, uint32_t stag, uint64_t to, uint64_t bus)
{
    WireRead read;

    w->octet++;
    stag_peer_writes(w->c, stag, to, &w->octet, 1);
    assert_octet(w, bus);
    post_read(w, stag, to, 1, &read);
    w->octet++;
    wire_put_read_response(w->c->peer, stag, to, &w->octet, 1);
    rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_SUCCESS);
    assert_octet(w, bus);
}

static void assert_names_nothing(World *w, uint32_t stag, uint64_t to)
{
    stag_peer_write_refused(w->c, stag, to, 1, 0x1100);
    stag_peer_read_refused(w->c, stag, to, 1, 0x0100);
    w->reads = 0;
}

/* ------------------------------------------------------------------- keys */

/* Register, Reregister, Register Shared with @key, with two that differ from it. */
static void check_key(World *w, uint8_t key)
{
    StagRegion region = stag_region(w->r, 1), shared;
    uint32_t index, old;

    region.key = key;
    stag_register(w->r, &region);
    index = region.stag >> 8;
    old = index * 256 + key;
    assert_names(w, old, region.va, region.bus[0]);
    /* Of the old STag the index counts, its key is not looked at. */
    region.key = key + 77;
    region.stag = old ^ 0x5a;
    g_assert_cmpuint(stag_try_reregister(w->r, &region,
                                         RNIC_REREGISTER_ACCESS), ==,
                     RNIC_ST_OK);
    g_assert_cmphex(region.stag >> 8, ==, index);
    assert_names(w, index * 256 + (uint8_t)(key + 77), region.va,
                 region.bus[0]);
    shared = region;
    shared.key = 255 - key;
    stag_share(w->r, region.stag, &shared);
    assert_names(w, (shared.stag >> 8) * 256 + 255 - key, shared.va,
                 region.bus[0]);
    if (key % 32 == 5) {
        assert_names_nothing(w, old, region.va);
        assert_names_nothing(w, region.stag ^ 1, region.va);
        assert_names_nothing(w, shared.stag ^ 1, shared.va);
    }
    stag_dealloc(w->r, shared.stag);
    stag_dealloc(w->r, region.stag);
}

static void test_every_key(void)
{
    World w;

    world_init(&w);
    for (unsigned key = 0; key < 256; key++) {
        check_key(&w, key);
    }
    world_cleanup(&w);
    rnic_shows("V7.2-1 V7.2-2 V7.3.2.2-1 V7.3.2.3-3 V7.3.2.4-4");
}

/* One index with each key in turn; its predecessor names nothing. */
static void test_fast_register_keys(void)
{
    World w;
    StagRegion region;
    struct rnic_mr_attr before, after;
    uint32_t index, neighbours[2];

    world_init(&w);
    region = stag_region(w.r, 1);
    neighbours[0] = stag_alloc(w.r, w.r->pd, 1, 0x31, true);
    index = stag_alloc(w.r, w.r->pd, 1, 0x31, true) >> 8;
    neighbours[1] = stag_alloc(w.r, w.r->pd, 1, 0x31, true);
    for (unsigned key = 0; key < 256; key++) {
        region.stag = index * 256 + key;
        before = stag_query_mr(w.r, neighbours[key & 1]);
        g_assert_cmpint(stag_fast_register(w.c, &region), ==,
                        RNIC_WC_SUCCESS);
        assert_names(&w, region.stag, region.va, region.bus[0]);
        if (key % 32 == 0) {
            assert_names_nothing(&w, index * 256 + (uint8_t)(key - 1),
                                 region.va);
        }
        after = stag_query_mr(w.r, neighbours[key & 1]);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
        g_assert_cmpint(stag_invalidate(w.c, region.stag), ==,
                        RNIC_WC_SUCCESS);
    }
    world_cleanup(&w);
    rnic_shows("V7.2-3 V7.3.2.5-3");
}

/* Invalidate Local STag compares each of the 32 bits. */
static void test_invalidate_every_bit(void)
{
    World w;
    StagRegion region;

    world_init(&w);
    region = stag_region(w.r, 1);
    stag_register(w.r, &region);
    for (unsigned bit = 0; bit < 32; bit++) {
        g_assert_cmpint(stag_invalidate(w.c, region.stag ^ 1u << bit), ==,
                        RNIC_WC_INVALID_STAG);
        wire_expect_terminate(w.c->peer, 0);
        renew(&w);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 1);
    }
    assert_names(&w, region.stag, region.va, region.bus[0]);
    g_assert_cmpint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    assert_names_nothing(&w, region.stag, region.va);
    world_cleanup(&w);
    rnic_shows("V7.2-4");
}

/* ---------------------------------------------------------------- indices */

enum { ALLOCATED, WINDOW, REGISTERED, SHARED, REREGISTERED, MADE };

/* By each of the five commands, over a page for each. */
static void make_each(World *w, StagRegion regions[MADE])
{
    for (int i = 0; i < MADE; i++) {
        regions[i] = stag_region(w->r, 1);
        regions[i].key = 0x10 + i;
    }
    regions[ALLOCATED].stag = stag_alloc(w->r, w->r->pd, 1, 0x10, true);
    regions[WINDOW].stag = stag_alloc_mw(w->r, w->r->pd, 0x11);
    stag_register(w->r, &regions[REGISTERED]);
    regions[SHARED].va = regions[REGISTERED].va + 0x7000;
    stag_share(w->r, regions[REGISTERED].stag, &regions[SHARED]);
    regions[SHARED].bus[0] = regions[REGISTERED].bus[0];
    stag_register(w->r, &regions[REREGISTERED]);
    regions[REREGISTERED].key = 0x55;
    g_assert_cmpuint(stag_try_reregister(w->r, &regions[REREGISTERED],
                                         STAG_CHANGE_ALL), ==, RNIC_ST_OK);
}

/* The index that each command returns is that of what it has made. */
static void test_returned(void)
{
    static const uint8_t kinds[MADE] = {
        RNIC_STAG_MR, RNIC_STAG_MW, RNIC_STAG_SHARED_MR, RNIC_STAG_SHARED_MR,
        RNIC_STAG_MR,
    };
    StagRegion regions[MADE];
    StagBind bind;
    World w;

    world_init(&w);
    make_each(&w, regions);
    for (int i = 0; i < MADE; i++) {
        struct rnic_mr_attr attr = i == WINDOW
                                   ? stag_query_mw(w.r, regions[i].stag)
                                   : stag_query_mr(w.r, regions[i].stag);

        g_assert_cmphex(le32_to_cpu(attr.stag), ==, regions[i].stag);
        g_assert_cmpint(attr.kind, ==, kinds[i]);
        g_assert_cmpint(attr.valid, ==, i >= REGISTERED);
        for (int k = 0; k < i; k++) {
            g_assert_cmphex(regions[i].stag >> 8, !=, regions[k].stag >> 8);
        }
    }
    g_assert_cmpint(stag_fast_register(w.c, &regions[ALLOCATED]), ==,
                    RNIC_WC_SUCCESS);
    bind = stag_window(regions[WINDOW].stag, &regions[ALLOCATED],
                       regions[ALLOCATED].va + 9, 1, RR | RW);
    g_assert_cmpint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
    assert_names(&w, bind.mw, bind.va, regions[ALLOCATED].bus[0] + 9);
    for (int i = 0; i < MADE; i++) {
        if (i != WINDOW) {
            assert_names(&w, regions[i].stag, regions[i].va,
                         regions[i].bus[0]);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.2-5");
}

/* STags in each state, and what QUERY_MR and QUERY_MW tell of them. */
enum { FRESH, VALID = 3, UNBOUND = 7, BOUND = 10, UNDER = 13, SHARERS = 14,
       ENTRIES = 16 };

typedef struct Table {
    StagRegion region[ENTRIES];     /* of a window: .stag alone */
    bool gone[ENTRIES];
    struct rnic_mr_attr attr[ENTRIES];
} Table;

static bool is_window(unsigned i)
{
    return i >= UNBOUND && i < UNDER;
}

static struct rnic_mr_attr table_query(World *w, const Table *t, unsigned i)
{
    uint32_t stag = t->region[i].stag;

    return is_window(i) ? stag_query_mw(w->r, stag)
                        : stag_query_mr(w->r, stag);
}

static uint8_t table_bind(World *w, Table *t, unsigned window)
{
    const StagRegion *under = &t->region[UNDER];
    StagBind bind = stag_window(t->region[window].stag, under,
                                under->va + window, 1, RR | RW);

    return stag_bind(w->c, &bind);
}

static void table_init(World *w, Table *t)
{
    for (unsigned i = 0; i < ENTRIES; i++) {
        StagRegion *region = &t->region[i];

        *region = stag_region(w->r, 1);
        region->key = i;
        if (is_window(i)) {
            region->stag = stag_alloc_mw(w->r, w->r->pd, i);
        } else if (i < VALID) {
            region->stag = stag_alloc(w->r, w->r->pd, 1, i, true);
        } else if (i == SHARERS + 1) {
            *region = t->region[SHARERS];
            region->key = i;
            stag_share(w->r, t->region[SHARERS].stag, region);
        } else {
            stag_register(w->r, region);
        }
    }
    for (unsigned i = BOUND; i < UNDER; i++) {
        g_assert_cmpint(table_bind(w, t, i), ==, RNIC_WC_SUCCESS);
    }
    for (unsigned i = 0; i < ENTRIES; i++) {
        t->gone[i] = false;
        t->attr[i] = table_query(w, t, i);
    }
}

/*
 * Nothing but entry @only has changed, and of the region under a window that it is
 * bound to one more or less, by @bound.
 */
static void assert_only(World *w, Table *t, unsigned only, int bound)
{
    t->attr[UNDER].bound_windows =
        cpu_to_le32(le32_to_cpu(t->attr[UNDER].bound_windows) + bound);
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct rnic_mr_attr now, other;

        g_assert_cmpint(stag_exists(w->r, t->region[i].stag), ==,
                        !t->gone[i]);
        if (t->gone[i]) {
            continue;
        }
        now = table_query(w, t, i);
        g_assert_cmpuint(rnic_admin_query(w->r, is_window(i)
                                          ? RNIC_ADMIN_QUERY_MR
                                          : RNIC_ADMIN_QUERY_MW,
                                          t->region[i].stag, &other,
                                          sizeof(other)), ==,
                         RNIC_ST_INVALID_STAG);
        if (i == only) {
            g_assert_cmpint(memcmp(&now, &t->attr[i], sizeof(now)), !=, 0);
            t->attr[i] = now;
        }
        g_assert_cmpmem(&now, sizeof(now), &t->attr[i], sizeof(now));
    }
}

static void table_dealloc(World *w, Table *t, unsigned i, int bound)
{
    stag_dealloc(w->r, t->region[i].stag);
    t->gone[i] = true;
    assert_only(w, t, ENTRIES, bound);
}

/* Each Valid region is still over its own page. */
static void table_use(World *w, const Table *t)
{
    for (unsigned i = 0; i < ENTRIES; i++) {
        const StagRegion *region = &t->region[i];

        if (!is_window(i) && !t->gone[i] && t->attr[i].valid) {
            assert_names(w, region->stag, region->va, region->bus[0]);
        }
    }
    assert_names(w, t->region[BOUND].stag, t->region[UNDER].va + BOUND,
                 t->region[UNDER].bus[0] + BOUND);
}

static void test_one_entry(void)
{
    World w;
    Table t;
    StagRegion shared;

    world_init(&w);
    table_init(&w, &t);
    assert_only(&w, &t, ENTRIES, 0);        /* the queries */
    g_assert_cmpint(stag_fast_register(w.c, &t.region[FRESH + 1]), ==,
                    RNIC_WC_SUCCESS);
    assert_only(&w, &t, FRESH + 1, 0);
    g_assert_cmpint(stag_invalidate(w.c, t.region[FRESH + 1].stag), ==,
                    RNIC_WC_SUCCESS);
    assert_only(&w, &t, FRESH + 1, 0);
    g_assert_cmpint(stag_invalidate(w.c, t.region[VALID + 1].stag), ==,
                    RNIC_WC_SUCCESS);
    assert_only(&w, &t, VALID + 1, 0);
    g_assert_cmpuint(stag_try_reregister(w.r, &t.region[VALID + 1],
                                         STAG_CHANGE_ALL), ==, RNIC_ST_OK);
    assert_only(&w, &t, VALID + 1, 0);
    shared = t.region[VALID + 2];
    shared.key = 0x99;
    stag_share(w.r, t.region[VALID + 2].stag, &shared);
    assert_only(&w, &t, VALID + 2, 0);
    g_assert_cmpint(table_bind(&w, &t, UNBOUND + 1), ==, RNIC_WC_SUCCESS);
    assert_only(&w, &t, UNBOUND + 1, 1);
    g_assert_cmpint(stag_invalidate(w.c, t.region[BOUND + 1].stag), ==,
                    RNIC_WC_SUCCESS);
    assert_only(&w, &t, BOUND + 1, -1);
    table_dealloc(&w, &t, FRESH + 2, 0);
    table_dealloc(&w, &t, VALID + 3, 0);
    table_dealloc(&w, &t, UNBOUND, 0);
    table_dealloc(&w, &t, BOUND + 2, -1);
    table_dealloc(&w, &t, SHARERS + 1, 0);
    table_use(&w, &t);
    world_cleanup(&w);
    rnic_shows("V7.2-6 V7.10.3-1 V9.2.6.8-2");
}

/* --------------------------------------------------------------- STag zero */

/* With whatever key: no command takes index 0, and nothing comes of it. */
static void test_commands_of_zero(void)
{
    static const uint32_t zeros[] = { 0, 1, 0x31, 0xff };
    World w;
    StagRegion region, other;
    struct rnic_mr_attr before, after;
    uint32_t stags;

    world_init(&w);
    region = stag_region(w.r, 1);
    stag_register(w.r, &region);
    before = stag_query_mr(w.r, region.stag);
    stags = rnic_query_counters(w.r).stags;
    for (unsigned i = 0; i < G_N_ELEMENTS(zeros); i++) {
        other = region;
        other.stag = zeros[i];
        g_assert_cmpuint(stag_try_reregister(w.r, &other, STAG_CHANGE_ALL), ==,
                         RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(stag_try_share(w.r, zeros[i], &other), ==,
                         RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(rnic_admin_query(w.r, RNIC_ADMIN_QUERY_MR, zeros[i],
                                          &after, sizeof(after)), ==,
                         RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(rnic_admin_query(w.r, RNIC_ADMIN_QUERY_MW, zeros[i],
                                          &after, sizeof(after)), ==,
                         RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(stag_try_dealloc(w.r, zeros[i]), ==,
                         RNIC_ST_INVALID_STAG);
    }
    after = stag_query_mr(w.r, region.stag);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    g_assert_cmpuint(rnic_query_counters(w.r).stags, ==, stags);
    world_cleanup(&w);
    rnic_shows("V7.2.1-11");
}

/* Source of Send and Write, sink of a receive, all of @buffer. */
static void use_zero(Connection *c, uint64_t buffer, uint32_t length)
{
    g_autofree uint8_t *data = g_malloc(length), *got = g_malloc(length);
    RnicWr wr = wr_of(RNIC_SQ_SEND, 0, buffer, length);

    rnic_pattern(data, length, 1);
    rnic_mem_write(c->r, buffer, data, length);
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, length), ==,
                     length);
    g_assert_cmpmem(got, length, data, length);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    memset(got, 0, length);
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(connection_get_write(c, 0, got, length), ==, length);
    g_assert_cmpmem(got, length, data, length);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_pattern(data, length, 2);
    rnic_post_recv(c->r, &c->qp, 4, 1, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, length);
    rnic_expect_cqe(c->r, &c->recv_cq, 4, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, buffer, got, length);
    g_assert_cmpmem(got, length, data, length);
}

/* By QPs of two PDs, the same octets of several pages. */
static void test_zero_of_two_pds(void)
{
    enum { LENGTH = 3 * 4096 - 100 };
    ConnectionOptions foreign = stag_options;
    Connection *other;
    uint64_t buffer;
    World w;

    world_init(&w);
    foreign.pd = rnic_alloc_pd(w.r);
    other = connection_prepare_second(w.c, &foreign);
    connection_establish(other, &foreign);
    buffer = rnic_alloc(w.r, 3 * 4096) + 77;
    use_zero(w.c, buffer, LENGTH);
    use_zero(other, buffer, LENGTH);
    connection_free_second(other);
    world_cleanup(&w);
    rnic_shows("V7.2.1-1 V7.2.1-4 V7.2.1-8");
}

/* Tagged messages that name STag zero: a Write, and the response to a Read. */
static void peer_names_zero(World *w, uint64_t buffer, uint16_t code,
                            uint16_t event)
{
    WireRead read;
    uint8_t got[8];

    for (int response = 0; response < 2; response++) {
        if (response) {
            post_read(w, w->c->mr.stag, w->c->mr.va, 8, &read);
            wire_put_read_response(w->c->peer, 0, buffer, "intruder", 8);
        } else {
            wire_put_write(w->c->peer, 0, buffer, "intruder", 8);
        }
        wire_expect_terminate(w->c->peer, code);
        rnic_expect_async(w->r, event, w->c->qp.number);
        if (response) {
            rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_FLUSHED);
        }
        rnic_mem_read(w->r, buffer, got, 8);
        g_assert_cmpmem(got, 8, "original", 8);
        renew(w);
    }
}

static void no_peer_may_use_zero(uint32_t privileged)
{
    static const struct {
        uint32_t enables;
        uint16_t code, event;
    } cases[] = {
        { RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE | RNIC_QP_ENABLE_BIND,
          0x1100, RNIC_AE_TAGGED_INVALID_STAG },
        { RNIC_QP_ENABLE_WRITE, 0x1100, RNIC_AE_TAGGED_INVALID_STAG },
        { RNIC_QP_ENABLE_READ, 0x1102, RNIC_AE_WRITE_NOT_ENABLED },
        { 0, 0x1102, RNIC_AE_WRITE_NOT_ENABLED },
    };
    uint64_t buffer;
    World w;

    world_init_enables(&w, cases[0].enables | privileged);
    buffer = rnic_alloc(w.r, 4096);
    rnic_mem_write(w.r, buffer, "original", 8);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint32_t enables = cases[i].enables | privileged;

        g_assert_cmpuint(rnic_modify_qp_enables(w.r, &w.c->qp, enables), ==,
                         RNIC_ST_OK);
        peer_names_zero(&w, buffer, cases[i].code, cases[i].event);
    }
    world_cleanup(&w);
}

/* The QP may use STag zero, or not, and have Writes or not: no peer may. */
static void test_zero_is_not_for_peers(void)
{
    no_peer_may_use_zero(RNIC_QP_PRIVILEGED);
    no_peer_may_use_zero(0);
    rnic_shows("V7.2.1-6");
}

/* Where there is no memory: that WR fails, and all else goes on. */
static void test_zero_of_nowhere(void)
{
    static const uint8_t opcodes[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE };
    uint64_t buffer;
    RnicWr wr;
    World w;

    world_init(&w);
    buffer = rnic_alloc(w.r, 4096);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        wr = wr_of(opcodes[i], 0, RNIC_TEST_NOWHERE, 8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_expect_terminate(w.c->peer, 0);
        rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_QP_CATASTROPHIC);
        renew(&w);
        use_zero(w.c, buffer, 8);
        renew(&w);
    }
    rnic_post_recv(w.r, &w.c->qp, 4, 1, wr.sge);
    wire_put_send(w.c->peer, WIRE_SEND, 0, "nowhere", 7);
    rnic_expect_cqe(w.r, &w.c->recv_cq, 4, RNIC_WC_QP_CATASTROPHIC);
    wire_expect_terminate(w.c->peer, 0);
    renew(&w);
    use_zero(w.c, buffer, 8);
    world_cleanup(&w);
    rnic_shows("V7.2.1-13");
}

/* ---------------------------------------------------------------- Invalid */

/* The sink was Valid when the Read went out; it is not when the response comes. */
static void test_sink_invalidated(void)
{
    World w;
    StagRegion region;
    WireRead read;
    uint8_t got[8];

    world_init(&w);
    region = stag_region(w.r, 1);
    for (int local = 0; local < 2; local++) {
        stag_register(w.r, &region);
        rnic_mem_write(w.r, region.bus[0], "original", 8);
        post_read(&w, region.stag, region.va, 8, &read);
        if (local) {
            stag_post_invalidate(w.c, 5, region.stag);
        } else {
            connection_recv(w.c, 4, 0, 8);
            wire_put_send(w.c->peer, WIRE_SEND_INVALIDATE, region.stag, "x",
                          1);
        }
        RNIC_UNTIL(w.r, !stag_query_mr(w.r, region.stag).valid);
        wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                               "response", 8);
        wire_expect_terminate(w.c->peer, 0x1100);
        rnic_expect_async(w.r, RNIC_AE_TAGGED_INVALID_STAG, w.c->qp.number);
        rnic_expect_cqe(w.r, &w.c->send_cq, 3, RNIC_WC_FLUSHED);
        rnic_mem_read(w.r, region.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "original", 8);
        renew(&w);
        stag_dealloc(w.r, region.stag);
    }
    world_cleanup(&w);
    rnic_shows("V7.2.2-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/stag/every-key", test_every_key);
    qtest_add_func("rnic/stag/fast-register-keys", test_fast_register_keys);
    qtest_add_func("rnic/stag/invalidate-every-bit",
                   test_invalidate_every_bit);
    qtest_add_func("rnic/stag/returned", test_returned);
    qtest_add_func("rnic/stag/one-entry", test_one_entry);
    qtest_add_func("rnic/stag/commands-of-zero", test_commands_of_zero);
    qtest_add_func("rnic/stag/zero-of-two-pds", test_zero_of_two_pds);
    qtest_add_func("rnic/stag/zero-is-not-for-peers",
                   test_zero_is_not_for_peers);
    qtest_add_func("rnic/stag/zero-of-nowhere", test_zero_of_nowhere);
    qtest_add_func("rnic/stag/sink-invalidated", test_sink_invalidated);
    return g_test_run();
}
