/*
 * rnic: Memory Windows, from allocation to the last octet they let through
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

/* A connection, a region of four pages that may be bound to, a window. */
typedef struct World {
    Connection *c;
    Rnic *r;
    StagRegion mr;
    uint32_t mw;                /* key 0x11 */
    struct rnic_counters before;
} World;

static void world_init_rights(World *w, uint32_t access)
{
    w->c = connection_new(&stag_options);
    w->r = w->c->r;
    w->before = rnic_query_counters(w->r);
    w->mr = stag_region(w->r, 4);
    w->mr.access = access;
    stag_register(w->r, &w->mr);
    w->mw = stag_alloc_mw(w->r, w->r->pd, 0x11);
}

/* Local rights alone: what the peer may, it may through windows. */
static void world_init(World *w)
{
    world_init_rights(w, LR | LW | MB);
}

static void world_cleanup(World *w)
{
    stag_dealloc(w->r, w->mw);
    stag_dealloc(w->r, w->mr.stag);
    stag_assert_no_leak(w->r, &w->before);
    connection_free(w->c);
}

/* 100 octets from octet 5000 of the region, all remote rights. */
static StagBind usual(const World *w)
{
    return stag_window((w->mw & ~0xffu) | 0x22, &w->mr, w->mr.va + 5000, 100,
                       RR | RW);
}

static uint32_t bound_windows(const World *w)
{
    return le32_to_cpu(stag_query_mr(w->r, w->mr.stag).bound_windows);
}

static void assert_unbound(const World *w)
{
    g_assert_cmpint(stag_query_mw(w->r, w->mw).valid, ==, 0);
    g_assert_cmpuint(bound_windows(w), ==, 0);
}

static void bind_ok(World *w, const StagBind *bind)
{
    g_assert_cmpuint(stag_bind(w->c, bind), ==, RNIC_WC_SUCCESS);
}

static void invalidate_ok(World *w, uint32_t stag)
{
    g_assert_cmpuint(stag_invalidate(w->c, stag), ==, RNIC_WC_SUCCESS);
}

static void assert_usable(World *w, const StagBind *bind)
{
    uint8_t got;

    g_assert_cmpint(stag_query_mw(w->r, bind->mw).valid, ==, 1);
    stag_peer_writes(w->c, bind->mw, bind->va, "u", 1);
    stag_peer_reads(w->c, bind->mw, bind->va, &got, 1);
    g_assert_cmphex(got, ==, 'u');
}

/* ------------------------------------------------- allocation and queries */

static void test_alloc_query(void)
{
    Rnic *r = rnic_boot_up(",max-mr=50");
    struct rnic_counters before = rnic_query_counters(r);
    uint32_t pd = rnic_alloc_pd(r), stags[50], attr_size;
    StagRegion mr = stag_region(r, 1);
    struct rnic_mr_attr attr;

    stags[0] = stag_alloc_mw(r, pd, 0xa5);
    attr = stag_query_mw(r, stags[0]);
    g_assert_cmpint(attr.kind, ==, RNIC_STAG_MW);
    g_assert_cmpint(attr.valid, ==, 0);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, pd);
    g_assert_cmphex(le32_to_cpu(attr.qpn), ==, 0);
    g_assert_cmphex(le32_to_cpu(attr.mr_stag), ==, 0);

    /* Each query for its own kind only. */
    attr_size = sizeof(attr);
    stag_register(r, &mr);
    g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, stags[0],
                                      &attr, attr_size), ==,
                     RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MW, mr.stag, &attr,
                                      attr_size), ==, RNIC_ST_INVALID_STAG);
    for (int i = 0; i < 2; i++) {
        uint32_t none = i ? STAG_UNKNOWN : 0;

        g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MW, none, &attr,
                                          attr_size), ==,
                         RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(stag_try_dealloc(r, none), ==,
                         RNIC_ST_INVALID_STAG);
    }
    /* The PD is held. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_PD_IN_USE);
    /* As many as there are, then none; then again. */
    for (int round = 0; round < 2; round++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_MW);

        for (int i = 1; i < 49; i++) {
            stags[i] = stag_alloc_mw(r, pd, i);
        }
        sqe.alloc_stag.pdn = cpu_to_le32(pd);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        for (int i = 1; i < 49; i++) {
            stag_dealloc(r, stags[i] ^ 0xff);   /* whatever the key */
            g_assert_cmpuint(stag_try_dealloc(r, stags[i]), ==,
                             RNIC_ST_INVALID_STAG);
        }
    }
    stag_dealloc(r, stags[0]);
    stag_dealloc(r, mr.stag);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    stag_assert_no_leak(r, &before);
    rnic_quit(r);
    rnic_shows("V7.10.1-1 V7.2-5 V7.9-2 V7.9-7");
}

/* ------------------------------------------------------- bind and access */

/* What QUERY_MW tells of a window that is bound to the usual 100 octets. */
static void assert_bound(const World *w, const StagBind *bind, uint64_t base)
{
    struct rnic_mr_attr attr = stag_query_mw(w->r, w->mw);

    g_assert_cmpint(attr.valid, ==, 1);
    g_assert_cmphex(le32_to_cpu(attr.stag), ==, bind->mw);
    g_assert_cmphex(le64_to_cpu(attr.va), ==, base);
    g_assert_cmphex(le64_to_cpu(attr.length), ==, 100);
    g_assert_cmphex(le32_to_cpu(attr.access), ==, bind->access);
    g_assert_cmphex(le32_to_cpu(attr.mr_stag), ==, w->mr.stag);
    g_assert_cmphex(le32_to_cpu(attr.qpn), ==, w->c->qp.number);
    g_assert_cmpuint(bound_windows(w), ==, 1);
}

/* A Read of this side reaches out of the window as little as the peer does. */
static void assert_sink_bounds(World *w, const StagBind *bind, uint64_t base)
{
    const uint64_t bad[] = { base + 93, base + 100, base - 1 };
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(bind->mw);
    wr.sge[0].length = cpu_to_le32(8);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        wr.sge[0].to = cpu_to_le64(bad[i]);
        rnic_post_send(w->r, &w->c->qp, &wr);
        rnic_expect_cqe(w->r, &w->c->send_cq, 0,
                        bad[i] + 8 < 8 ? RNIC_WC_WRAP : RNIC_WC_BASE_BOUNDS);
        wire_expect_terminate(w->c->peer, 0);
        stag_reconnect(w->c);
    }
    /* The last eight. */
    wr.sge[0].to = cpu_to_le64(base + 92);
    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_read_request(w->c->peer, 1, &read);
    wire_put_read_response(w->c->peer, read.sink_stag, read.sink_to,
                           "response", 8);
    rnic_expect_cqe(w->r, &w->c->send_cq, 0, RNIC_WC_SUCCESS);
}

/*
 * An FPDU that comes in two parts, of a Write that ends beyond the window: nothing of
 * the first part, which is inside it, is placed.
 */
static void refuse_in_two_parts(World *w, uint32_t stag, uint64_t to)
{
    uint8_t data[100], ulpdu[2 + sizeof(data) + 64], fpdu[sizeof(ulpdu) + 64];
    WireSegment write = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true,
        .ddp_version = 1, .rdmap_version = 1, .stag = stag, .to = to,
        .length = sizeof(data), .payload = data,
    };
    const size_t first = 2 + 14 + 40;
    size_t length;

    memset(data, 0x66, sizeof(data));
    length = wire_encode_fpdu(w->c->peer, ulpdu,
                              wire_encode_segment(&write, ulpdu), fpdu);
    wire_put(w->c->peer, fpdu, first);
    rnic_settle(w->r);
    wire_try_put(w->c->peer, fpdu + first, length - first);
    wire_expect_terminate(w->c->peer, 0x1101);
    stag_reconnect(w->c);
}

/* VA or zero based: the same octets, to the octet at both ends. */
static void check_bounds(World *w, uint8_t base_type)
{
    StagBind bind = usual(w);
    uint64_t base = base_type ? 0 : bind.va;
    uint8_t got[100], data[100], page[4096];

    bind.access |= base_type;
    bind_ok(w, &bind);
    assert_bound(w, &bind, base);

    rnic_pattern(data, 100, base_type);
    stag_peer_writes(w->c, bind.mw, base, data, 100);
    rnic_mem_read(w->r, w->mr.bus[1] + 5000 - 4096, got, 100);
    g_assert_cmpmem(got, 100, data, 100);
    stag_peer_reads(w->c, bind.mw, base, got, 100);
    g_assert_cmpmem(got, 100, data, 100);
    stag_peer_reads(w->c, bind.mw, base + 99, got, 1);
    g_assert_cmphex(got[0], ==, data[99]);
    stag_peer_writes(w->c, bind.mw, base + 99, &data[99], 1);

    if (base) {
        stag_peer_write_refused(w->c, bind.mw, base - 1, 1, 0x1101);
        stag_peer_write_refused(w->c, bind.mw, base - 1, 102, 0x1101);
        stag_peer_read_refused(w->c, bind.mw, base - 1, 2, 0x0101);
    } else {
        stag_peer_write_refused(w->c, bind.mw, bind.va, 1, 0x1101);
        stag_peer_read_refused(w->c, bind.mw, ~0ULL, 1, 0x0101);
    }
    stag_peer_write_refused(w->c, bind.mw, base + 100, 1, 0x1101);
    stag_peer_write_refused(w->c, bind.mw, base + 99, 2, 0x1101);
    refuse_in_two_parts(w, bind.mw, base + 50);
    stag_peer_read_refused(w->c, bind.mw, base, 101, 0x0101);
    stag_peer_read_refused(w->c, bind.mw, base + 100, 1, 0x0101);
    stag_peer_write_refused(w->c, bind.mw, ~0ULL, 2, 0x1103);
    stag_peer_read_refused(w->c, bind.mw, ~0ULL, 2, 0x0104);
    /* No octets: nothing is looked at. */
    stag_peer_writes(w->c, bind.mw, base - 77, NULL, 0);
    stag_peer_reads(w->c, bind.mw, base - 77, NULL, 0);
    stag_peer_writes(w->c, bind.mw ^ 1, ~0ULL, NULL, 0);
    stag_peer_reads(w->c, bind.mw ^ 1, ~0ULL, NULL, 0);
    rnic_mem_read(w->r, w->mr.bus[1], page, 4096);
    for (unsigned i = 0; i < 4096; i++) {
        if (i < 5000 - 4096 || i >= 5100 - 4096) {
            g_assert_cmphex(page[i], ==, 0);
        }
    }
    g_assert_cmpmem(page + 5000 - 4096, 100, data, 100);
    assert_sink_bounds(w, &bind, base);
    memcpy(data + 92, "response", 8);
    invalidate_ok(w, bind.mw);
    assert_unbound(w);
    stag_peer_write_refused(w->c, bind.mw, base, 1, 0x1100);
    stag_peer_read_refused(w->c, bind.mw, base, 1, 0x0100);
    stag_peer_writes(w->c, bind.mw, base, NULL, 0);
    stag_peer_reads(w->c, bind.mw, base, NULL, 0);
    rnic_mem_read(w->r, w->mr.bus[1] + 5000 - 4096, got, 100);
    g_assert_cmpmem(got, 100, data, 100);
    rnic_mem_fill(w->r, w->mr.bus[1], 0, 4096);
}

/* No octets through a window without the right, then through another QP's. */
static void check_no_octets(void)
{
    World of_one, *w = &of_one;
    Connection *other;
    StagBind bind;

    world_init(w);
    bind = usual(w);
    other = connection_prepare_second(w->c, &stag_options);
    connection_establish(other, &stag_options);
    bind.access = RR;
    bind_ok(w, &bind);
    stag_peer_writes(w->c, bind.mw, bind.va, NULL, 0);
    invalidate_ok(w, bind.mw);
    bind.access = RW;
    bind_ok(w, &bind);
    stag_peer_reads(w->c, bind.mw, bind.va, NULL, 0);
    stag_peer_writes(other, bind.mw, bind.va, NULL, 0);
    stag_peer_reads(other, bind.mw, bind.va, NULL, 0);
    g_assert_cmpint(rnic_qp_state(w->r, &w->c->qp), ==, RNIC_QPS_RTS);
    g_assert_cmpint(rnic_qp_state(w->r, &other->qp), ==, RNIC_QPS_RTS);
    connection_free_second(other);
    connection_free(w->c);
}

static void test_bounds(void)
{
    World w;

    world_init(&w);
    check_bounds(&w, 0);
    check_bounds(&w, ZB);
    world_cleanup(&w);
    check_no_octets();
    rnic_shows("V7.10.2-1 V7.10.2-6 V7.10.3-1 V7.10.6.2-1 V7.10.6.2-3 "
               "V7.10.6.2-7 V7.10.2-9 V7.5.2-1 V7.1-2 V9.3.1.1-15");
}

/* Sub-ranges across pages, the whole region, one octet, none. */
static void test_ranges(void)
{
    static const struct {
        uint32_t at, length;
    } ranges[] = {
        { 0, 16384 }, { 0, 1 }, { 16383, 1 }, { 4095, 2 }, { 4096, 4096 },
        { 1, 16382 }, { 16384, 0 }, { 0, 0 },
    };
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++) {
        uint32_t length = ranges[i].length;
        g_autofree uint8_t *data = g_malloc(length + 1);
        g_autofree uint8_t *got = g_malloc(length + 1);
        StagBind bind = usual(&w);

        bind.mw = (w.mw & ~0xffu) | i;
        bind.va = w.mr.va + ranges[i].at;
        bind.length = length;
        bind.access |= i & 1 ? ZB : 0;
        bind_ok(&w, &bind);
        rnic_pattern(data, length, i);
        if (length) {
            stag_peer_writes(w.c, bind.mw, i & 1 ? 0 : bind.va, data, length);
            rnic_mem_read(w.r, w.mr.bus[0] + ranges[i].at, got, length);
            g_assert_cmpmem(got, length, data, length);
        }
        stag_peer_write_refused(w.c, bind.mw,
                                (i & 1 ? 0 : bind.va) + length, 1, 0x1101);
        invalidate_ok(&w, bind.mw);
    }
    /* One octet past the end, from the middle and from the end. */
    for (unsigned i = 0; i < 2; i++) {
        StagBind bind = usual(&w);

        bind.va = w.mr.va + (i ? 16383 : 5000);
        bind.length = i ? 2 : 16384 - 5000 + 1;
        g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_BASE_BOUNDS);
        wire_expect_terminate(w.c->peer, 0);
        stag_reconnect(w.c);
        assert_unbound(&w);
    }
    world_cleanup(&w);
    rnic_shows("V7.10.6.1-8 V9.3.1.1-17");
}

/* Every key but the one bound is refused; the index stays. */
static void test_keys(void)
{
    World w;
    StagBind bind;
    uint8_t got;

    world_init(&w);
    bind = usual(&w);
    bind_ok(&w, &bind);
    for (unsigned bit = 0; bit < 8; bit++) {
        stag_peer_write_refused(w.c, bind.mw ^ 1u << bit, bind.va, 1, 0x1100);
    }
    stag_peer_write_refused(w.c, w.mw, bind.va, 1, 0x1100);
    stag_peer_read_refused(w.c, bind.mw ^ 1, bind.va, 1, 0x0100);
    stag_peer_reads(w.c, bind.mw, bind.va, &got, 1);
    invalidate_ok(&w, bind.mw);
    /* With every key in turn; its predecessor fails, now and then tried. */
    for (unsigned key = 0; key < 256; key++) {
        bind.mw = (w.mw & ~0xffu) | key;
        bind_ok(&w, &bind);
        stag_peer_reads(w.c, bind.mw, bind.va, &got, 1);
        if (key % 64 == 1) {
            stag_peer_read_refused(w.c, bind.mw - 1, bind.va, 1, 0x0100);
        }
        invalidate_ok(&w, bind.mw);
    }
    world_cleanup(&w);
    rnic_shows("V7.10.2-10 V7.2-3 V7.10.4-3");
}

/* A source needs local read, a receive local write. */
static void assert_local_rights(World *w, const StagRegion *mr)
{
    Connection *c = w->c;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };

    wr.sge[0].stag = cpu_to_le32(mr->stag);
    wr.sge[0].to = cpu_to_le64(mr->va);
    wr.sge[0].length = cpu_to_le32(1);
    if (!(mr->access & LR)) {
        rnic_post_send(c->r, &c->qp, &wr);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_ACCESS_VIOLATION);
        stag_reconnect(c);
    }
    if (!(mr->access & LW)) {
        rnic_post_recv(c->r, &c->qp, 6, 1, wr.sge);
        wire_put_send(c->peer, WIRE_SEND, 0, "x", 1);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->recv_cq, 6, RNIC_WC_ACCESS_VIOLATION);
        stag_reconnect(c);
    }
}

static void assert_queried(const World *w, const StagBind *bind)
{
    struct rnic_mr_attr attr = stag_query_mw(w->r, w->mw);

    g_assert_cmpint(attr.valid, ==, 1);
    g_assert_cmphex(le32_to_cpu(attr.stag), ==, bind->mw);
    g_assert_cmphex(le32_to_cpu(attr.access), ==, bind->access);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, w->r->pd);
}

/* Figure 20, and what the rights then permit. */
static void test_rights(void)
{
    static const uint8_t locals[] = { LR, LW, LR | LW };
    World w;
    uint8_t octet = 7;

    world_init(&w);
    g_assert_cmpint(stag_query_mw(w.r, w.mw).valid, ==, 0);
    g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).pdn), ==, w.r->pd);
    for (unsigned l = 0; l < G_N_ELEMENTS(locals); l++) {
        for (unsigned remote = 0; remote < 4; remote++) {
            bool rr = remote & 1, rw = remote & 2;
            bool good = remote && (!rr || (locals[l] & LR)) &&
                        (!rw || (locals[l] & LW));
            StagRegion mr = w.mr;
            StagBind bind;

            mr.access = locals[l] | MB;
            stag_register(w.r, &mr);
            bind = stag_window((w.mw & ~0xffu) | (l << 4 | remote), &mr,
                               mr.va, 16, (rr ? RR : 0) | (rw ? RW : 0));
            g_assert_cmpuint(stag_bind(w.c, &bind), ==,
                             good ? RNIC_WC_SUCCESS
                                  : RNIC_WC_ACCESS_VIOLATION);
            if (!good) {
                wire_expect_terminate(w.c->peer, 0);
                stag_reconnect(w.c);
                if (!remote) {
                    assert_local_rights(&w, &mr);
                }
                g_assert_cmpint(stag_query_mw(w.r, w.mw).valid, ==, 0);
                stag_dealloc(w.r, mr.stag);
                continue;
            }
            assert_queried(&w, &bind);
            if (rr) {
                stag_peer_reads(w.c, bind.mw, bind.va, &octet, 1);
            } else {
                stag_peer_read_refused(w.c, bind.mw, bind.va, 1, 0x0102);
            }
            if (rw) {
                stag_peer_writes(w.c, bind.mw, bind.va, &octet, 1);
            } else {
                stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1102);
            }
            /* The region itself gives the peer nothing. */
            stag_peer_write_refused(w.c, mr.stag, mr.va, 1, 0x1102);
            stag_peer_read_refused(w.c, mr.stag, mr.va, 1, 0x0102);
            invalidate_ok(&w, bind.mw);
            g_assert_cmpint(stag_query_mw(w.r, w.mw).valid, ==, 0);
            g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).pdn), ==,
                            w.r->pd);
            stag_dealloc(w.r, mr.stag);
        }
    }
    world_cleanup(&w);
    rnic_shows("V7.10.2-8 V7.10.2-9 V7.10.6.1-6 V7.10.6.2-4 V9.2.6.8-1 "
               "V9.3.1.1-16 V9.5.2-8 V7.1-2");
}

/*
 * A QP whose driver asks for it binds a window to no remote right, as InfiniBand's
 * may (manual, deviations): it is Valid, and refuses the peer.
 */
static void test_no_rights(void)
{
    ConnectionOptions options = stag_options;
    World w = { };
    StagBind bind;

    options.enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                      RNIC_QP_ENABLE_BIND | RNIC_QP_BIND_WITHOUT_RIGHTS;
    w.c = connection_new(&options);
    w.r = w.c->r;
    w.mr = stag_region(w.r, 4);
    w.mr.access = LR | LW | RR | RW | MB;
    stag_register(w.r, &w.mr);
    w.mw = stag_alloc_mw(w.r, w.r->pd, 0x11);
    bind = usual(&w);
    bind.access = 0;
    g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mw(w.r, bind.mw).valid, ==, 1);
    wire_put_write(w.c->peer, bind.mw, bind.va, "x", 1);
    wire_expect_terminate(w.c->peer, 0x1102);
    rnic_expect_async(w.r, RNIC_AE_TAGGED_ACCESS, w.c->qp.number);
    connection_free(w.c);
}

/* A window counts by itself: with less than its region has, and with more. */
static void test_rights_of_window_only(void)
{
    World w;
    StagBind bind;
    StagRegion local;
    uint64_t end;
    uint8_t got;

    world_init_rights(&w, LR | LW | RR | RW | MB);
    end = w.mr.va + w.mr.length;
    bind = usual(&w);
    bind.access = RR;
    bind_ok(&w, &bind);
    stag_peer_reads(w.c, bind.mw, bind.va, &got, 1);
    stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1102);
    stag_peer_read_refused(w.c, bind.mw, bind.va - 1, 1, 0x0101);
    stag_peer_read_refused(w.c, bind.mw, bind.va + 99, 2, 0x0101);
    stag_peer_writes(w.c, w.mr.stag, bind.va, "x", 1);
    /* The region's own end, for what names the region. */
    stag_peer_writes(w.c, w.mr.stag, end - 1, "y", 1);
    stag_peer_reads(w.c, w.mr.stag, end - 1, &got, 1);
    g_assert_cmphex(got, ==, 'y');
    stag_peer_write_refused(w.c, w.mr.stag, end - 1, 2, 0x1101);
    stag_peer_read_refused(w.c, w.mr.stag, end, 1, 0x0101);
    invalidate_ok(&w, bind.mw);

    /* More than the region: the peer may write through it alone. */
    local = w.mr;
    local.access = LR | LW | MB;
    stag_register(w.r, &local);
    bind = stag_window(w.mw, &local, local.va + 10, 20, RW);
    bind_ok(&w, &bind);
    stag_peer_write_refused(w.c, local.stag, local.va + 10, 1, 0x1102);
    wire_put_write(w.c->peer, bind.mw, bind.va, "z", 1);
    RNIC_UNTIL(w.r, (rnic_mem_read32(w.r, local.bus[0] + 10) & 0xff) == 'z');
    stag_peer_write_refused(w.c, bind.mw, bind.va - 1, 1, 0x1101);
    stag_peer_write_refused(w.c, bind.mw, bind.va + 20, 1, 0x1101);
    invalidate_ok(&w, bind.mw);
    stag_dealloc(w.r, local.stag);
    world_cleanup(&w);
    rnic_shows("V7.10.6.2-4 V8.1.2.2-4 V8.1.2.2-10 V8.1.2.3.1-1");
}

static void set_enables(Connection *c, uint32_t enables)
{
    g_assert_cmpuint(rnic_modify_qp_enables(c->r, &c->qp, enables), ==,
                     RNIC_ST_OK);
}

/* The QP's permission is needed too. */
static void test_qp_enables(void)
{
    World w;
    StagBind bind;
    uint8_t got;

    world_init(&w);
    bind = usual(&w);
    bind_ok(&w, &bind);
    set_enables(w.c, STAG_ENABLES & ~RNIC_QP_ENABLE_WRITE);
    stag_peer_reads(w.c, bind.mw, bind.va, &got, 1);
    stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1102);
    set_enables(w.c, STAG_ENABLES & ~RNIC_QP_ENABLE_READ);
    wire_put_write(w.c->peer, bind.mw, bind.va, "!", 1);
    RNIC_UNTIL(w.r, (rnic_mem_read32(w.r, w.mr.bus[1] + 5000 - 4096) & 0xff)
                    == '!');
    stag_peer_read_refused(w.c, bind.mw, bind.va, 1, 0x1201);
    set_enables(w.c, STAG_ENABLES);
    invalidate_ok(&w, bind.mw);
    world_cleanup(&w);
    rnic_shows("V7.10.6.2-5");
}

/* ---------------------------------------------------------- bind refused */

typedef struct BindError {
    const char *what;
    void (*spoil)(World *w, StagBind *bind);
    uint8_t status;
} BindError;

#define SPOIL(name) static void name(World *w, StagBind *bind)

SPOIL(mw_unknown) { bind->mw = STAG_UNKNOWN; }
SPOIL(mw_zero) { bind->mw = 0; }
SPOIL(mw_region) { bind->mw = w->mr.stag; }
SPOIL(mr_zero) { bind->mr = 0; }
SPOIL(mr_zero_key) { bind->mr = 1; }
SPOIL(mr_unknown) { bind->mr = STAG_UNKNOWN; }
SPOIL(mr_window) { bind->mr = w->mw; }
SPOIL(mr_key) { bind->mr ^= 0x80; }
SPOIL(no_rights) { bind->access = 0; }
SPOIL(only_zero_based) { bind->access = ZB; }
SPOIL(local_right) { bind->access |= LR; }
SPOIL(unknown_right) { bind->access |= RNIC_ACCESS_READ_SINK; }
SPOIL(wrap) { bind->length = 0 - bind->va + 1; }
SPOIL(wrap_most) { bind->length = ~0ULL; }
SPOIL(far) { bind->va += 1ULL << 32; }
SPOIL(far_below) { bind->va -= 1ULL << 32; }
SPOIL(early) { bind->va = w->mr.va - 1; }
SPOIL(late) { bind->va = w->mr.va + 4 * 4096; bind->length = 1; }
SPOIL(long_) { bind->length = 4 * 4096 - 5000 + 1; }
SPOIL(beyond) { bind->va = w->mr.va + 4 * 4096 + 1; bind->length = 0; }
SPOIL(huge) { bind->length = 1ULL << 40; }
SPOIL(early_zero_based) { early(w, bind); bind->access |= ZB; }
SPOIL(long_zero_based) { long_(w, bind); bind->access |= ZB; }
SPOIL(wrap_zero_based) { wrap(w, bind); bind->access |= ZB; }

static uint32_t other_region(World *w, uint32_t pd, uint32_t access)
{
    StagRegion other = w->mr;

    other.pd = pd;
    other.access = access;
    stag_register(w->r, &other);
    return other.stag;
}

SPOIL(mr_foreign)
{
    bind->mr = other_region(w, rnic_alloc_pd(w->r), w->mr.access);
}

SPOIL(mr_no_bind) { bind->mr = other_region(w, w->r->pd, LR | LW | RR | RW); }
SPOIL(mr_zero_based)
{
    bind->mr = other_region(w, w->r->pd, LR | LW | MB | ZB);
    bind->va = 0;
}
SPOIL(both_zero_based)
{
    mr_zero_based(w, bind);
    bind->access |= ZB;
}
SPOIL(mr_read_only) { bind->mr = other_region(w, w->r->pd, LR | MB); }
SPOIL(mr_write_only) { bind->mr = other_region(w, w->r->pd, LW | MB); }
SPOIL(mr_fresh) { bind->mr = stag_alloc(w->r, w->r->pd, 4, 5, true); }
SPOIL(mw_foreign)
{
    bind->mw = stag_alloc_mw(w->r, rnic_alloc_pd(w->r), 9);
}
SPOIL(both_foreign)
{
    uint32_t pd = rnic_alloc_pd(w->r);

    bind->mr = other_region(w, pd, w->mr.access);
    bind->mw = stag_alloc_mw(w->r, pd, 9);
}

SPOIL(mw_valid)
{
    bind->mw = stag_alloc_mw(w->r, w->r->pd, 9);
    bind_ok(w, bind);
    bind->mw ^= 1;
}

SPOIL(mr_gone)
{
    bind->mr = other_region(w, w->r->pd, w->mr.access);
    stag_dealloc(w->r, bind->mr);
}

SPOIL(mr_invalidated)
{
    bind->mr = other_region(w, w->r->pd, w->mr.access);
    invalidate_ok(w, bind->mr);
}

SPOIL(not_enabled)
{
    set_enables(w->c, STAG_ENABLES & ~RNIC_QP_ENABLE_BIND);
}

static const BindError bind_errors[] = {
    { "bind not enabled", not_enabled, RNIC_WC_ACCESS_VIOLATION },
    { "window unknown", mw_unknown, RNIC_WC_INVALID_WINDOW },
    { "window zero", mw_zero, RNIC_WC_INVALID_WINDOW },
    { "window is a region", mw_region, RNIC_WC_INVALID_WINDOW },
    { "window valid", mw_valid, RNIC_WC_STAG_NOT_INVALID },
    { "region zero", mr_zero, RNIC_WC_INVALID_REGION },
    { "region zero, key", mr_zero_key, RNIC_WC_INVALID_REGION },
    { "region unknown", mr_unknown, RNIC_WC_INVALID_REGION },
    { "region is a window", mr_window, RNIC_WC_INVALID_REGION },
    { "region never valid", mr_fresh, RNIC_WC_INVALID_REGION },
    { "region deallocated", mr_gone, RNIC_WC_INVALID_REGION },
    { "region invalidated", mr_invalidated, RNIC_WC_INVALID_REGION },
    { "region's key", mr_key, RNIC_WC_INVALID_REGION },
    { "region's PD", mr_foreign, RNIC_WC_INVALID_PD },
    { "window's PD", mw_foreign, RNIC_WC_INVALID_PD },
    { "QP's PD", both_foreign, RNIC_WC_INVALID_PD },
    { "region without bind", mr_no_bind, RNIC_WC_ACCESS_VIOLATION },
    { "region zero based", mr_zero_based, RNIC_WC_INVALID_REGION },
    { "both zero based", both_zero_based, RNIC_WC_INVALID_REGION },
    { "no rights", no_rights, RNIC_WC_ACCESS_VIOLATION },
    { "zero based, no rights", only_zero_based, RNIC_WC_ACCESS_VIOLATION },
    { "local right", local_right, RNIC_WC_ACCESS_VIOLATION },
    { "unknown right", unknown_right, RNIC_WC_ACCESS_VIOLATION },
    { "write over read", mr_read_only, RNIC_WC_ACCESS_VIOLATION },
    { "read over write", mr_write_only, RNIC_WC_ACCESS_VIOLATION },
    { "wrap", wrap, RNIC_WC_WRAP },
    { "wrap most", wrap_most, RNIC_WC_WRAP },
    { "far", far, RNIC_WC_BASE_BOUNDS },
    { "far below", far_below, RNIC_WC_BASE_BOUNDS },
    { "early", early, RNIC_WC_BASE_BOUNDS },
    { "late", late, RNIC_WC_BASE_BOUNDS },
    { "long", long_, RNIC_WC_BASE_BOUNDS },
    { "beyond", beyond, RNIC_WC_BASE_BOUNDS },
    { "huge", huge, RNIC_WC_BASE_BOUNDS },
    { "early, zero based", early_zero_based, RNIC_WC_BASE_BOUNDS },
    { "long, zero based", long_zero_based, RNIC_WC_BASE_BOUNDS },
    { "wrap, zero based", wrap_zero_based, RNIC_WC_WRAP },
};

/* All that the device says of what a Bind names, and of the usual region and window. */
typedef struct Named {
    struct rnic_mr_attr attr[4];    /* zero of what does not exist */
} Named;

static Named query_named(const World *w, const StagBind *bind)
{
    const uint32_t stags[] = { bind->mr, bind->mw, w->mr.stag, w->mw };
    Named named = { };

    for (unsigned i = 0; i < G_N_ELEMENTS(stags); i++) {
        struct rnic_mr_attr *attr = &named.attr[i];

        if (stag_exists(w->r, stags[i]) &&
            rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR, stags[i], attr,
                             sizeof(*attr)) != RNIC_ST_OK) {
            *attr = stag_query_mw(w->r, stags[i]);
        }
    }
    return named;
}

/* A Bind with two receives and a Send behind it, all of which it flushes. */
static void bind_refused(World *w, const StagBind *bind, uint8_t status)
{
    RnicWr wr = connection_wr(w->c, RNIC_SQ_SEND, 3, 0, 8);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    connection_recv(w->c, 1, 0, 8);
    connection_recv(w->c, 2, 0, 8);
    stag_store_bind(w->c, 0xb1d, RNIC_WQE_SIGNALED, bind);
    rnic_store_wqe(w->r, &w->c->qp, wqe, rnic_encode_wr(&wr, wqe));
    rnic_ring_sq(w->r, &w->c->qp);
    rnic_expect_cqe(w->r, &w->c->send_cq, 0xb1d, status);
    wire_expect_terminate(w->c->peer, 0);
    rnic_expect_cqe(w->r, &w->c->send_cq, 3, RNIC_WC_FLUSHED);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 2, RNIC_WC_FLUSHED);
}

static void test_bind_errors(void)
{
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(bind_errors); i++) {
        StagBind bind = usual(&w);
        Named before, after;

        g_test_message("%s", bind_errors[i].what);
        bind_errors[i].spoil(&w, &bind);
        before = query_named(&w, &bind);
        bind_refused(&w, &bind, bind_errors[i].status);
        g_assert_cmpint(rnic_qp_state(w.r, &w.c->qp), ==, RNIC_QPS_TERMINATE);
        wire_close(w.c->peer);
        w.c->peer = NULL;
        rnic_wait_qp_state(w.r, &w.c->qp, RNIC_QPS_ERROR);
        rnic_expect_no_async(w.r);
        g_assert_cmpint(stag_query_mw(w.r, w.mw).valid, ==, 0);
        after = query_named(&w, &bind);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
        if (bind_errors[i].spoil == mw_valid) {
            struct rnic_mr_attr attr = stag_query_mw(w.r, bind.mw);

            g_assert_cmpint(attr.valid, ==, 1);
            g_assert_cmphex(le32_to_cpu(attr.stag), ==, bind.mw ^ 1);
            stag_dealloc(w.r, bind.mw);
        }
        if (bind.mr >> 8 && bind.mr != w.mw && bind.mr >> 8 !=
            w.mr.stag >> 8) {
            stag_try_dealloc(w.r, bind.mr);
        }
        if (bind_errors[i].spoil == mw_foreign ||
            bind_errors[i].spoil == both_foreign) {
            g_assert_cmpint(stag_query_mw(w.r, bind.mw).valid, ==, 0);
            stag_dealloc(w.r, bind.mw);
        }
        stag_reconnect(w.c);
        stag_peer_write_refused(w.c, usual(&w).mw, w.mr.va + 5000, 1, 0x1100);
        if (i == 0) {
            set_enables(w.c, STAG_ENABLES);
        }
    }
    w.before.pds = rnic_query_counters(w.r).pds;
    /* None of them has spoilt the window. */
    bind_ok(&w, &(StagBind) { .mw = w.mw, .mr = w.mr.stag, .va = w.mr.va,
                              .length = w.mr.length, .access = RR | RW });
    stag_peer_writes(w.c, w.mw, w.mr.va, "x", 1);
    world_cleanup(&w);
    rnic_shows("V7.2.1-9 V7.10.2-7 V7.10.2-11 V7.10.2-12 V7.10.6.1-1 "
               "V7.10.6.1-2 V7.10.6.1-3 V7.10.6.1-4 V7.10.6.1-5 V7.10.6.1-6 "
               "V7.10.6.1-7 V7.10.6.1-8 V7.3.2-1 V5.2-5 V8.3.2-10 V9.2.5.1-8 "
               "V9.2.6.2-8 V9.5.2-10 V9.5.2-20");
}

/* ------------------------------------------------- a window is no region */

static void test_window_as_sge(void)
{
    static const uint8_t sources[] = {
        RNIC_SQ_SEND, RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_RDMA_WRITE,
    };
    World w;
    StagBind bind;
    StagRegion shared;
    struct rnic_sge sge;
    RnicWr unknown = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };
    uint8_t got[8];

    world_init(&w);
    bind = usual(&w);
    bind_ok(&w, &bind);
    sge = (struct rnic_sge) { .stag = cpu_to_le32(bind.mw),
                              .to = cpu_to_le64(bind.va),
                              .length = cpu_to_le32(8) };
    for (unsigned i = 0; i < G_N_ELEMENTS(sources); i++) {
        RnicWr wr = { .opcode = sources[i], .num_sge = 1, .sge = { sge },
                      .remote_stag = 9 };

        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_expect_terminate(w.c->peer, 0);
        rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_INVALID_STAG);
        stag_reconnect(w.c);
    }
    rnic_post_recv(w.r, &w.c->qp, 5, 1, &sge);
    wire_put_send(w.c->peer, WIRE_SEND, 0, "intruder", 8);
    wire_expect_terminate(w.c->peer, 0);
    rnic_expect_cqe(w.r, &w.c->recv_cq, 5, RNIC_WC_INVALID_STAG);
    rnic_mem_read(w.r, w.mr.bus[1] + 5000 - 4096, got, 8);
    g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
    stag_reconnect(w.c);
    /* But a Read's sink it may be. */
    for (int to_region = 0; to_region < 2; to_region++) {
        RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ,
                      .flags = RNIC_WQE_SIGNALED,
                      .num_sge = 1, .sge = { sge }, .remote_stag = 9 };
        WireRead read;

        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_get_read_request(w.c->peer, to_region + 1, &read);
        g_assert_cmphex(read.sink_stag, ==, bind.mw);
        wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                               "response", 8);
        rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_SUCCESS);
        rnic_mem_read(w.r, w.mr.bus[1] + 5000 - 4096, got, 8);
        g_assert_cmpmem(got, 8, "response", 8);
    }
    /* The other STags that are none for this: an unknown one, a shared region. */
    unknown.sge[0] = sge;
    unknown.sge[0].stag = cpu_to_le32(STAG_UNKNOWN);
    rnic_post_send(w.r, &w.c->qp, &unknown);
    wire_expect_terminate(w.c->peer, 0);
    rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_INVALID_STAG);
    stag_reconnect(w.c);
    invalidate_ok(&w, bind.mw);
    shared = w.mr;
    stag_share(w.r, w.mr.stag, &shared);
    g_assert_cmpuint(stag_invalidate(w.c, shared.stag), ==,
                     RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    stag_dealloc(w.r, shared.stag);
    world_cleanup(&w);
    rnic_shows("V7.5.1-2 V8.1.3.2-3 V9.5.2-6");
}

/* A window, bound or not: it is refused, and stays as it is. */
static void assert_no_region(World *w, uint32_t mw)
{
    struct rnic_mr_attr before = stag_query_mw(w->r, mw), after;
    StagRegion region = w->mr;

    region.stag = mw;
    g_assert_cmpuint(stag_try_reregister(w->r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(stag_try_share(w->r, mw, &region), ==,
                     RNIC_ST_INVALID_STAG);
    region.stag = mw;
    g_assert_cmpuint(stag_fast_register(w->c, &region), ==,
                     RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w->c->peer, 0);
    stag_reconnect(w->c);
    g_assert_cmpuint(rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR, mw, &after,
                                      sizeof(after)),
                     ==, RNIC_ST_INVALID_STAG);
    after = stag_query_mw(w->r, mw);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
}

/* Commands and work that are for regions. */
static void test_not_for_windows(void)
{
    World w;
    StagBind bind;
    struct rnic_mr_attr attr;

    world_init(&w);
    assert_no_region(&w, w.mw);
    assert_unbound(&w);
    bind = usual(&w);
    bind_ok(&w, &bind);
    assert_no_region(&w, bind.mw);
    assert_usable(&w, &bind);
    g_assert_cmpuint(bound_windows(&w), ==, 1);
    invalidate_ok(&w, bind.mw);
    /* And those that are for windows. */
    g_assert_cmpuint(rnic_admin_query(w.r, RNIC_ADMIN_QUERY_MW, w.mr.stag,
                                      &attr, sizeof(attr)),
                     ==, RNIC_ST_INVALID_STAG);
    bind = usual(&w);
    bind.mw = w.mr.stag;
    g_assert_cmpuint(stag_bind(w.c, &bind), ==, RNIC_WC_INVALID_WINDOW);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    /* Invalidation and deallocation are for both. */
    bind = usual(&w);
    bind_ok(&w, &bind);
    invalidate_ok(&w, bind.mw);
    invalidate_ok(&w, w.mr.stag);
    world_cleanup(&w);
    rnic_shows("V7.10.1-2 V7.3.2.5-5 V9.2.6-2");
}

/* ----------------------------------------------------------- invalidation */

enum { BY_LOCAL, BY_SEND, BY_SEND_SE, BY_READ, WAYS };

/* The window becomes Invalid, in one of four ways. */
static void invalidate_by(World *w, const StagBind *bind, int way)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
    struct rnic_cqe cqe;
    WireSegment segment;

    switch (way) {
    case BY_LOCAL:
        invalidate_ok(w, bind->mw);
        break;
    case BY_SEND:
    case BY_SEND_SE:
        connection_recv(w->c, 3, 0, 8);
        wire_put_send(w->c->peer, way == BY_SEND ? WIRE_SEND_INVALIDATE
                                                 : WIRE_SEND_SE_INVALIDATE,
                      bind->mw, "payload!", 8);
        cqe = rnic_expect_cqe(w->r, &w->c->recv_cq, 3, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.stag), ==, bind->mw);
        break;
    case BY_READ:
        wr.sge[0].stag = cpu_to_le32(bind->mw);
        wr.sge[0].to = cpu_to_le64(bind->va);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w->r, &w->c->qp, &wr);
        wire_get_segment(w->c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_READ_REQUEST);
        g_free(segment.payload);
        wire_put_read_response(w->c->peer, bind->mw, bind->va, "abcdefgh", 8);
        rnic_expect_cqe(w->r, &w->c->send_cq, 0, RNIC_WC_SUCCESS);
        break;
    }
}

static void test_invalidate(void)
{
    World w;

    world_init(&w);
    /* From the PD, and nothing to anybody before it is bound. */
    assert_unbound(&w);
    g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).pdn), ==, w.r->pd);
    g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).mr_stag), ==, 0);
    stag_peer_write_refused(w.c, w.mw, w.mr.va + 5000, 1, 0x1100);
    stag_peer_read_refused(w.c, w.mw, w.mr.va + 5000, 1, 0x0100);
    for (int way = 0; way < WAYS; way++) {
        StagBind bind = usual(&w);

        bind_ok(&w, &bind);
        stag_peer_writes(w.c, bind.mw, bind.va, "x", 1);
        invalidate_by(&w, &bind, way);
        assert_unbound(&w);
        g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).pdn), ==,
                        w.r->pd);
        stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1100);
        stag_peer_read_refused(w.c, bind.mw, bind.va, 1, 0x0100);
        /* Already Invalid: allowed, whatever the key. */
        invalidate_ok(&w, bind.mw ^ 1);
        assert_unbound(&w);
    }
    for (unsigned i = 0; i < 1000; i++) {
        StagBind bind = usual(&w);

        bind.mw = (w.mw & ~0xffu) | (uint8_t)i;
        bind_ok(&w, &bind);
        invalidate_ok(&w, bind.mw);
    }
    world_cleanup(&w);
    rnic_shows("V7.10.4-1 V7.10.4-3 V7.10.5-1 V7.10.4.1-2 V7.10.6.3-2 "
               "V8.1.2.3.3-1 V9.2.6.7-1");
}

/* A second QP, of the same PD or another, that has the same device. */
static Connection *second_qp(World *w, uint32_t pd)
{
    uint32_t own = w->r->pd;
    Connection *other;

    w->r->pd = pd;
    other = connection_prepare_second(w->c, &stag_options);
    w->r->pd = own;
    connection_establish(other, &stag_options);
    return other;
}

static void drop_second(World *w, Connection *other)
{
    if (other->peer) {
        connection_recycle(other);
    }
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP,
                                       other->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_CQ,
                                       other->send_cq.number), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_CQ,
                                       other->recv_cq.number), ==,
                     RNIC_ST_OK);
    stag_dealloc(w->r, other->mr.stag);
    connection_free_second(other);
}

/* Two numbers, which Create, Query and completions agree about. */
static void assert_numbers(Connection *a, Connection *b)
{
    Connection *each[2] = { a, b };

    g_assert_cmphex(a->qp.number, !=, b->qp.number);
    for (int i = 0; i < 2; i++) {
        struct rnic_cqe cqe;
        uint8_t got[4];

        g_assert_cmphex(le32_to_cpu(rnic_query_qp(a->r, &each[i]->qp).qpn),
                        ==, each[i]->qp.number);
        connection_post(each[i], RNIC_SQ_SEND, i, 0, 4);
        wire_get_send(each[i]->peer, WIRE_SEND, 1, got, 4);
        cqe = rnic_expect_cqe(a->r, &each[i]->send_cq, i, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, each[i]->qp.number);
    }
}

/* Another QP of the PD: it may neither use nor invalidate. */
static void test_other_qp(void)
{
    World w;
    StagBind bind, both;
    Connection *other;
    uint32_t pd, foreign;
    uint8_t got;

    world_init(&w);
    bind = usual(&w);
    other = second_qp(&w, w.r->pd);
    assert_numbers(w.c, other);
    /* At the Bind it is PDs that count. */
    pd = rnic_alloc_pd(w.r);
    foreign = stag_alloc_mw(w.r, pd, 0x22);
    both = bind;
    both.mw = foreign;
    g_assert_cmpuint(stag_bind(w.c, &both), ==, RNIC_WC_INVALID_PD);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    stag_dealloc(w.r, foreign);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    /* Afterwards it is the QP. */
    bind_ok(&w, &bind);
    g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, bind.mw).qpn), ==,
                    w.c->qp.number);
    stag_peer_write_refused(other, bind.mw, bind.va, 1, 0x1102);
    assert_usable(&w, &bind);
    stag_peer_read_refused(other, bind.mw, bind.va, 1, 0x0103);
    assert_usable(&w, &bind);
    g_assert_cmpuint(stag_invalidate(other, bind.mw), ==, RNIC_WC_INVALID_PD);
    wire_expect_terminate(other->peer, 0);
    stag_reconnect(other);
    assert_usable(&w, &bind);
    connection_recv(other, 5, 0, 8);
    wire_put_send(other->peer, WIRE_SEND_INVALIDATE, bind.mw, "payload!", 8);
    wire_expect_terminate(other->peer, 0x0109);
    rnic_expect_cqe(w.r, &other->recv_cq, 5, RNIC_WC_INVALIDATE_STAG);
    stag_reconnect(other);
    assert_usable(&w, &bind);
    /* Its own QP, a wrong key. */
    g_assert_cmpuint(stag_invalidate(w.c, bind.mw ^ 2), ==,
                     RNIC_WC_INVALID_STAG);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    assert_usable(&w, &bind);
    /* The other QP binds it once it is free. */
    invalidate_ok(&w, bind.mw);
    g_assert_cmpuint(stag_bind(other, &bind), ==, RNIC_WC_SUCCESS);
    stag_peer_writes(other, bind.mw, bind.va, "o", 1);
    stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1102);
    g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, bind.mw).qpn), ==,
                    other->qp.number);
    /* The same octets for both: one may write, one may read. */
    both = bind;
    both.mw = stag_alloc_mw(w.r, w.r->pd, 0x33);
    both.access = RR;
    bind_ok(&w, &both);
    stag_peer_writes(other, bind.mw, bind.va, "b", 1);
    stag_peer_reads(w.c, both.mw, both.va, &got, 1);
    g_assert_cmphex(got, ==, 'b');
    stag_peer_write_refused(w.c, both.mw, both.va, 1, 0x1102);
    stag_peer_reads(other, bind.mw, bind.va, &got, 1);
    g_assert_cmphex(got, ==, 'b');
    stag_dealloc(w.r, both.mw);
    g_assert_cmpuint(stag_invalidate(other, bind.mw), ==, RNIC_WC_SUCCESS);
    drop_second(&w, other);
    world_cleanup(&w);
    rnic_shows("V5.2-2 V6.1.1-8 V10.3-2 V10.3-5 R8.1.1-2 V7.10.2-5 "
               "V7.10.4-2 V7.10.6.2-2 V7.10.6.2-6 V7.10.6.3-1 V7.10.6.3-3 "
               "V9.3.1.1-21");
}

/* An Invalid window is its PD's. */
static void test_other_pd(void)
{
    World w;
    uint32_t pd;
    Connection *other;
    StagBind bind;

    world_init(&w);
    bind = usual(&w);
    pd = rnic_alloc_pd(w.r);
    other = second_qp(&w, pd);
    for (int was_bound = 0; was_bound < 2; was_bound++) {
        if (was_bound) {
            bind_ok(&w, &bind);
            invalidate_ok(&w, bind.mw);
        }
        g_assert_cmpuint(stag_invalidate(other, w.mw), ==,
                         RNIC_WC_INVALID_PD);
        wire_expect_terminate(other->peer, 0);
        stag_reconnect(other);
        connection_recv(other, 5, 0, 8);
        wire_put_send(other->peer, WIRE_SEND_INVALIDATE, w.mw, "payload!", 8);
        wire_expect_terminate(other->peer, 0x0109);
        stag_reconnect(other);
        g_assert_cmphex(le32_to_cpu(stag_query_mw(w.r, w.mw).pdn), ==,
                        w.r->pd);
    }
    invalidate_ok(&w, w.mw);
    drop_second(&w, other);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V7.10.6.3-2 V7.10.6.3-3");
}

/* Each kind of work with what is another PD's, or another QP's window. */
static void test_foreign_stags(void)
{
    World w;
    StagRegion mr, fast;
    StagBind bind, held;
    Connection *other;
    uint32_t pd;
    RnicWr wr = { .remote_stag = 9, .num_sge = 1 };

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    mr = w.mr;
    mr.pd = pd;
    mr.access = LR | LW | RR | RW | MB;
    stag_register(w.r, &mr);
    fast = mr;
    fast.stag = stag_alloc(w.r, pd, 4, mr.key, true);
    other = second_qp(&w, w.r->pd);
    held = usual(&w);
    g_assert_cmpuint(stag_bind(other, &held), ==, RNIC_WC_SUCCESS);
#define FOREIGN(status)                                                 \
    do {                                                                \
        g_assert_cmpuint((status), ==, RNIC_WC_INVALID_PD);             \
        wire_expect_terminate(w.c->peer, 0);                            \
        stag_reconnect(w.c);                                            \
    } while (0)
    for (int i = 0; i < 5; i++) {
        static const uint8_t opcodes[] = {
            RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ,
            RNIC_SQ_RDMA_READ_INVALIDATE, RNIC_SQ_RDMA_READ,
        };
        struct rnic_cqe cqe;

        wr.opcode = opcodes[i];
        wr.sge[0].stag = cpu_to_le32(i == 4 ? held.mw : mr.stag);
        wr.sge[0].to = cpu_to_le64(i == 4 ? held.va : mr.va);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        rnic_cq_wait(w.r, &w.c->send_cq, &cqe);
        FOREIGN(cqe.status);
    }
    wr.sge[0].stag = cpu_to_le32(mr.stag);
    wr.sge[0].to = cpu_to_le64(mr.va);
    rnic_post_recv(w.r, &w.c->qp, 5, 1, wr.sge);
    wire_put_send(w.c->peer, WIRE_SEND, 0, "intruder", 8);
    rnic_expect_cqe(w.r, &w.c->recv_cq, 5, RNIC_WC_INVALID_PD);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    bind = stag_window(stag_alloc_mw(w.r, w.r->pd, 1), &mr, mr.va, 8, RR);
    FOREIGN(stag_bind(w.c, &bind));
    stag_dealloc(w.r, bind.mw);
    FOREIGN(stag_fast_register(w.c, &fast));
    FOREIGN(stag_invalidate(w.c, mr.stag));
    FOREIGN(stag_invalidate(w.c, held.mw));
#undef FOREIGN
    g_assert_cmpint(stag_query_mr(w.r, mr.stag).valid, ==, 1);
    g_assert_cmpint(stag_query_mr(w.r, fast.stag).valid, ==, 0);
    g_assert_cmpint(stag_query_mw(w.r, held.mw).valid, ==, 1);
    stag_dealloc(w.r, mr.stag);
    stag_dealloc(w.r, fast.stag);
    g_assert_cmpuint(stag_invalidate(other, held.mw), ==, RNIC_WC_SUCCESS);
    drop_second(&w, other);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V9.5.2-9");
}

/* What neither side may invalidate: all stays as it was. */
static void test_not_invalidated(void)
{
    enum { UNKNOWN, ZERO, KEY, LOCAL, FOREIGN, OTHERS_WINDOW, BOUND, COUNT };
    static const struct {
        uint16_t code;          /* of the peer's attempt */
        uint8_t status;         /* of an Invalidate; SUCCESS: it may */
    } cases[COUNT] = {
        [UNKNOWN] = { 0x0209, RNIC_WC_INVALID_STAG },
        [ZERO] = { 0x0109, RNIC_WC_INVALID_STAG },
        [KEY] = { 0x0109, RNIC_WC_INVALID_STAG },
        [LOCAL] = { 0x0102, RNIC_WC_SUCCESS },
        [FOREIGN] = { 0x0109, RNIC_WC_INVALID_PD },
        [OTHERS_WINDOW] = { 0x0109, RNIC_WC_INVALID_PD },
        [BOUND] = { 0x0109, RNIC_WC_INVALID_STAG },
    };
    World w;
    StagRegion regions[COUNT];
    StagBind held, own;
    Connection *other;
    uint32_t pd;

    world_init_rights(&w, LR | LW | RR | RW | MB);
    pd = rnic_alloc_pd(w.r);
    other = second_qp(&w, w.r->pd);
    for (int i = 0; i < COUNT; i++) {
        regions[i] = w.mr;
        regions[i].pd = i == FOREIGN ? pd : w.r->pd;
        regions[i].access = i == LOCAL ? LR | LW : w.mr.access;
        stag_register(w.r, &regions[i]);
    }
    held = usual(&w);
    g_assert_cmpuint(stag_bind(other, &held), ==, RNIC_WC_SUCCESS);
    own = stag_window(stag_alloc_mw(w.r, w.r->pd, 1), &regions[BOUND],
                      w.mr.va, 8, RR | RW);
    bind_ok(&w, &own);
    for (int i = 0; i < COUNT; i++) {
        uint32_t stag = i == UNKNOWN ? STAG_UNKNOWN : i == ZERO ? 0
                      : i == KEY ? regions[i].stag ^ 1
                      : i == OTHERS_WINDOW ? held.mw : regions[i].stag;

        connection_recv(w.c, 5, 0, 8);
        wire_put_send(w.c->peer, WIRE_SEND_INVALIDATE, stag, "payload!", 8);
        wire_expect_terminate(w.c->peer, cases[i].code);
        rnic_expect_cqe(w.r, &w.c->recv_cq, 5, RNIC_WC_INVALIDATE_STAG);
        stag_reconnect(w.c);
        if (cases[i].status != RNIC_WC_SUCCESS) {
            g_assert_cmpuint(stag_invalidate(w.c, stag), ==, cases[i].status);
            wire_expect_terminate(w.c->peer, 0);
            stag_reconnect(w.c);
        }
        for (int j = 0; j < COUNT; j++) {
            g_assert_cmpint(stag_query_mr(w.r, regions[j].stag).valid, ==, 1);
        }
        g_assert_cmpint(stag_query_mw(w.r, held.mw).valid, ==, 1);
        g_assert_cmpint(stag_query_mw(w.r, own.mw).valid, ==, 1);
    }
    /* By a Read with Invalidate: the data is there, the invalidation fails. */
    for (int i = 0; i < 2; i++) {
        RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                      .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
        StagRegion shared = regions[i ? KEY : BOUND];
        WireRead read;

        if (i) {
            stag_share(w.r, regions[KEY].stag, &shared);
        }
        wr.sge[0].stag = cpu_to_le32(shared.stag);
        wr.sge[0].to = cpu_to_le64(shared.va);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &w.c->qp, &wr);
        wire_get_read_request(w.c->peer, 1, &read);
        wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                               "abcdefgh", 8);
        rnic_expect_cqe(w.r, &w.c->send_cq, 0, RNIC_WC_INVALID_STAG);
        wire_expect_terminate(w.c->peer, 0);
        stag_reconnect(w.c);
        g_assert_cmpint(stag_query_mr(w.r, shared.stag).valid, ==, 1);
        if (i) {
            stag_dealloc(w.r, shared.stag);
        }
    }
    assert_usable(&w, &own);
    stag_dealloc(w.r, own.mw);
    for (int i = 0; i < COUNT; i++) {
        stag_dealloc(w.r, regions[i].stag);
    }
    g_assert_cmpuint(stag_invalidate(other, held.mw), ==, RNIC_WC_SUCCESS);
    drop_second(&w, other);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V8.3.2-6 V8.3.2-11 V9.5.2-11");
}

/* What commands make of @region is there when they are answered. */
static void check_commands_take_effect(World *w, StagRegion region)
{
    StagRegion shared;

    stag_dealloc(w->r, region.stag);
    stag_register(w->r, &region);
    stag_peer_writes(w->c, region.stag, region.va, "now", 3);
    region.va += 0x5000;
    g_assert_cmpuint(stag_try_reregister(w->r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    stag_peer_writes(w->c, region.stag, region.va, "now", 3);
    shared = region;
    shared.va += 0x3000;
    stag_share(w->r, region.stag, &shared);
    stag_peer_writes(w->c, shared.stag, shared.va, "now", 3);
    g_assert_cmpint(stag_query_mr(w->r, region.stag).kind, ==,
                    RNIC_STAG_SHARED_MR);
    stag_dealloc(w->r, shared.stag);
    stag_peer_write_refused(w->c, shared.stag, shared.va, 3, 0x1100);
    stag_dealloc(w->r, region.stag);
    stag_peer_write_refused(w->c, region.stag, region.va, 3, 0x1100);
}

/*
 * The ten kinds of work and the receive, each of which says what it was; four of
 * them are operations on memory. There is no eleventh.
 */
static void test_kinds_of_work(void)
{
    static const struct {
        uint8_t opcode, flags;
    } plain[] = {
        { RNIC_SQ_SEND, 0 }, { RNIC_SQ_SEND, RNIC_WQE_SOLICITED },
        { RNIC_SQ_SEND_INVALIDATE, 0 },
        { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED },
        { RNIC_SQ_RDMA_WRITE, 0 },
    };
    static const uint8_t opcodes[] = {
        RNIC_SQ_FAST_REGISTER, RNIC_SQ_BIND_MW, RNIC_SQ_SEND, RNIC_SQ_SEND,
        RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_SEND_INVALIDATE, RNIC_SQ_RDMA_WRITE,
        RNIC_SQ_RDMA_READ, RNIC_SQ_LOCAL_INVALIDATE,
        RNIC_SQ_RDMA_READ_INVALIDATE,
    };
    World w;
    StagRegion fast;
    StagBind bind;
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9, .wr_id = 9 };
    WireSegment segment;
    struct rnic_cqe cqe;
    WireRead read;
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    world_init(&w);
    fast = stag_region(w.r, 2);
    fast.stag = stag_alloc(w.r, w.r->pd, 2, fast.key, true);
    bind = stag_window(w.mw, &fast, fast.va + 1, 8, RR | RW);
    stag_post_fast_register(w.c, 0, &fast);
    stag_post_bind(w.c, 1, &bind);
    for (unsigned i = 0; i < G_N_ELEMENTS(plain); i++) {
        RnicWr some = connection_wr(w.c, plain[i].opcode, 2 + i, 0, 4);

        some.flags |= plain[i].flags;
        some.invalidate_stag = 0x1234;
        if (plain[i].opcode == RNIC_SQ_RDMA_WRITE) {
            some.invalidate_stag = 0;
        }
        rnic_post_send(w.r, &w.c->qp, &some);
        wire_get_segment(w.c->peer, &segment);
        g_free(segment.payload);
    }
    stag_peer_writes(w.c, bind.mw, bind.va, "bound", 5);
    connection_post(w.c, RNIC_SQ_RDMA_READ, 7, 0, 4);
    wire_get_read_request(w.c->peer, 1, &read);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to, "read", 4);
    stag_post_invalidate(w.c, 8, bind.mw);
    wr.sge[0].stag = cpu_to_le32(fast.stag);
    wr.sge[0].to = cpu_to_le64(fast.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(w.r, &w.c->qp, &wr);
    wire_get_read_request(w.c->peer, 2, &read);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                           "abcdefgh", 8);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        cqe = rnic_expect_cqe(w.r, &w.c->send_cq, i, RNIC_WC_SUCCESS);
        g_assert_cmpint(cqe.opcode, ==, opcodes[i]);
        g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, ==, 0);
    }
    connection_recv(w.c, 10, 0, 4);
    wire_put_send(w.c->peer, WIRE_SEND, 0, "recv", 4);
    cqe = rnic_expect_cqe(w.r, &w.c->recv_cq, 10, RNIC_WC_SUCCESS);
    g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, !=, 0);
    g_assert_cmpint(stag_query_mr(w.r, fast.stag).valid, ==, 0);
    assert_unbound(&w);
    check_commands_take_effect(&w, fast);
    for (unsigned opcode = RNIC_SQ_COMPARE_SWAP + 1; opcode <= 256;
         opcode += 3) {
        wr = connection_wr(w.c, RNIC_SQ_SEND, 11, 0, 4);
        rnic_encode_wr(&wr, wqe);
        wqe[0] = opcode;                /* the last one is 0 */
        rnic_store_wqe(w.r, &w.c->qp, wqe, 1);
        rnic_ring_sq(w.r, &w.c->qp);
        rnic_expect_cqe(w.r, &w.c->send_cq, 11, RNIC_WC_INVALID_WQE);
        wire_expect_terminate(w.c->peer, 0);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V8.1.2.3-1 V9.2.6-1 V9.3.1.1-3 V9.5.2-1");
}

/* STag zero knows no PD. */
static void test_stag_zero_pds(void)
{
    World w;
    uint64_t buffer;
    uint32_t pd;
    Connection *other, *each[2];
    uint8_t got[8];

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    other = second_qp(&w, pd);
    each[0] = w.c;
    each[1] = other;
    buffer = rnic_alloc(w.r, 4096);
    rnic_mem_write(w.r, buffer, "physical", 8);
    for (int i = 0; i < 2; i++) {
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .num_sge = 1 };

        wr.sge[0].to = cpu_to_le64(buffer);
        wr.sge[0].length = cpu_to_le32(8);
        rnic_post_send(w.r, &each[i]->qp, &wr);
        wire_get_send(each[i]->peer, WIRE_SEND, 1, got, 8);
        g_assert_cmpmem(got, 8, "physical", 8);
        rnic_expect_cqe(w.r, &each[i]->send_cq, 0, RNIC_WC_SUCCESS);
    }
    drop_second(&w, other);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    world_cleanup(&w);
    rnic_shows("V7.2.1-4");
}

/* --------------------------------------------------- what a window holds */

/* A bound region can be neither deallocated, reregistered nor invalidated. */
static void test_region_held(void)
{
    World w;
    StagRegion region;
    StagBind bind;
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ_INVALIDATE, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
    struct rnic_mr_attr before, after;
    WireRead read;

    world_init_rights(&w, LR | LW | RR | RW | MB);
    bind = usual(&w);
    bind_ok(&w, &bind);
    before = stag_query_mr(w.r, w.mr.stag);
    g_assert_cmpuint(stag_try_dealloc(w.r, w.mr.stag), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    region = w.mr;
    region.access = LR;
    region.key++;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    region.pd = 0x7777;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    after = stag_query_mr(w.r, w.mr.stag);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    stag_peer_writes(w.c, w.mr.stag, w.mr.va, "r", 1);
    assert_usable(&w, &bind);
    g_assert_cmpuint(stag_invalidate(w.c, w.mr.stag), !=, RNIC_WC_SUCCESS);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    assert_usable(&w, &bind);
    connection_recv(w.c, 5, 0, 8);
    wire_put_send(w.c->peer, WIRE_SEND_INVALIDATE, w.mr.stag, "payload!", 8);
    wire_expect_terminate(w.c->peer, 0x0109);
    rnic_expect_cqe(w.r, &w.c->recv_cq, 5, RNIC_WC_INVALIDATE_STAG);
    stag_reconnect(w.c);
    assert_usable(&w, &bind);
    wr.sge[0].stag = cpu_to_le32(w.mr.stag);
    wr.sge[0].to = cpu_to_le64(w.mr.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(w.r, &w.c->qp, &wr);
    wire_get_read_request(w.c->peer, 1, &read);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                           "abcdefgh", 8);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    g_assert_cmpint(stag_query_mr(w.r, w.mr.stag).valid, ==, 1);
    stag_peer_writes(w.c, w.mr.stag, w.mr.va, "r", 1);
    assert_usable(&w, &bind);
    /* Each of them once the window is gone from it. */
    invalidate_ok(&w, bind.mw);
    region = w.mr;
    g_assert_cmpuint(stag_try_reregister(w.r, &region, STAG_CHANGE_ALL), ==,
                     RNIC_ST_OK);
    bind_ok(&w, &bind);
    invalidate_ok(&w, bind.mw);
    invalidate_ok(&w, w.mr.stag);
    world_cleanup(&w);
    rnic_shows("V7.8-14 V7.9-8 V7.10.4-4 V7.3.2.3-4 V8.3.1-5 V9.2.6.4-3 "
               "V9.2.6.5-3");
}

/* A bound window may be deallocated; that sets the region and the QP free. */
static void test_dealloc_bound(void)
{
    World w;
    StagBind bind;
    uint32_t mw;

    world_init(&w);
    /* Never bound, and no longer bound. */
    mw = stag_alloc_mw(w.r, w.r->pd, 3);
    stag_dealloc(w.r, mw);
    g_assert_false(stag_exists(w.r, mw));
    bind = usual(&w);
    mw = bind.mw;
    bind.mw = stag_alloc_mw(w.r, w.r->pd, 4);
    bind_ok(&w, &bind);
    invalidate_ok(&w, bind.mw);
    stag_dealloc(w.r, bind.mw);
    g_assert_false(stag_exists(w.r, bind.mw));
    bind.mw = mw;
    bind_ok(&w, &bind);
    stag_peer_writes(w.c, bind.mw, bind.va, "x", 1);
    stag_dealloc(w.r, bind.mw);
    g_assert_false(stag_exists(w.r, bind.mw));
    g_assert_cmpuint(bound_windows(&w), ==, 0);
    stag_peer_write_refused(w.c, bind.mw, bind.va, 1, 0x1100);
    stag_peer_read_refused(w.c, bind.mw, bind.va, 1, 0x0100);
    g_assert_cmphex(rnic_mem_read32(w.r, w.mr.bus[1] + 5000 - 4096), ==, 'x');
    stag_dealloc(w.r, w.mr.stag);
    connection_recycle(w.c);
    g_assert_cmpuint(rnic_admin_object(w.r, RNIC_ADMIN_DESTROY_QP,
                                       w.c->qp.number), ==, RNIC_ST_OK);
    w.before.qps = cpu_to_le32(le32_to_cpu(w.before.qps) - 1);
    stag_assert_no_leak(w.r, &w.before);
    connection_free(w.c);
    rnic_shows("V7.10.4-5 V7.10.4.1-3 V9.2.6.4-4");
}

/* Deallocated or invalidated while the peer's message is under way. */
static void test_gone_meanwhile(void)
{
    World w;
    StagBind bind;
    WireSegment segment;
    uint8_t data[50] = { 0x77 }, got[100];

    world_init(&w);
    for (int dealloc = 0; dealloc < 2; dealloc++) {
        bind = usual(&w);
        bind_ok(&w, &bind);
        rnic_mem_fill(w.r, w.mr.bus[1] + 5000 - 4096, 0, 100);
        segment = (WireSegment) {
            .opcode = WIRE_WRITE, .tagged = true, .ddp_version = 1,
            .rdmap_version = 1, .stag = bind.mw, .to = bind.va,
            .length = 50, .payload = data,
        };
        wire_put_segment(w.c->peer, &segment);
        RNIC_UNTIL(w.r, (rnic_mem_read32(w.r, w.mr.bus[1] + 5000 - 4096) &
                         0xff) == 0x77);
        if (dealloc) {
            stag_dealloc(w.r, bind.mw);
        } else {
            invalidate_ok(&w, bind.mw);
        }
        segment.to += 50;
        segment.last = true;
        wire_put_segment(w.c->peer, &segment);
        wire_expect_terminate(w.c->peer, 0x1100);
        rnic_mem_read(w.r, w.mr.bus[1] + 5000 - 4096, got, 100);
        g_assert_cmphex(got[0], ==, 0x77);
        g_assert_cmphex(got[50], ==, 0);
        stag_reconnect(w.c);
    }
    w.mw = stag_alloc_mw(w.r, w.r->pd, 0);
    world_cleanup(&w);
    rnic_shows("V7.10.4.1-1");
}

static uint16_t destroy_qp(World *w)
{
    return rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP, w->c->qp.number);
}

/* The QP stays as long as a window is bound through it, in every state. */
static void test_qp_held(void)
{
    World w;
    StagBind bind;

    world_init(&w);
    bind = usual(&w);
    bind_ok(&w, &bind);
    g_assert_cmpuint(destroy_qp(&w), ==, RNIC_ST_MW_BOUND_TO_QP);
    assert_usable(&w, &bind);
    connection_recycle(w.c);
    g_assert_cmpuint(destroy_qp(&w), ==, RNIC_ST_MW_BOUND_TO_QP);
    g_assert_cmpint(stag_query_mw(w.r, bind.mw).valid, ==, 1);
    /* The binding is the QP's, not the stream's. */
    connection_establish(w.c, &stag_options);
    assert_usable(&w, &bind);
    invalidate_ok(&w, bind.mw);
    /* In Error too; there the window can be deallocated, and then it is free. */
    bind_ok(&w, &bind);
    g_assert_cmpuint(rnic_modify_qp_state(w.r, &w.c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_wait_qp_state(w.r, &w.c->qp, RNIC_QPS_ERROR);
    g_assert_cmpuint(destroy_qp(&w), ==, RNIC_ST_MW_BOUND_TO_QP);
    g_assert_cmpuint(rnic_qp_state(w.r, &w.c->qp), ==, RNIC_QPS_ERROR);
    stag_dealloc(w.r, bind.mw);
    g_assert_cmpuint(destroy_qp(&w), ==, RNIC_ST_OK);
    w.mw = stag_alloc_mw(w.r, w.r->pd, 0);
    w.before.qps = cpu_to_le32(le32_to_cpu(w.before.qps) - 1);
    world_cleanup(&w);
    rnic_shows("V6.1.4-4 V6.2.4-7 V9.2.5.4-2");
}

/* RESET with windows bound: nothing is left, all works again. */
static void test_reset(void)
{
    World w;
    StagBind bind;
    Rnic *r;

    world_init(&w);
    r = w.r;
    bind = usual(&w);
    bind_ok(&w, &bind);
    wire_close(w.c->peer);
    w.c->peer = NULL;
    rnic_reset(r);
    rnic_up(r);
    g_assert_cmpuint(rnic_query_counters(r).stags, ==, 0);
    w.mr.pd = r->pd;
    stag_register(r, &w.mr);
    stag_dealloc(r, w.mr.stag);
    connection_free(w.c);
}

/* Many windows on one region and one QP, overlapping. */
static void test_many(void)
{
    enum { WINDOWS = 300 };
    ConnectionOptions options = stag_options;
    struct rnic_admin_sqe more = rnic_command(RNIC_ADMIN_ALLOC_MW);
    uint32_t mws[WINDOWS];
    StagRegion mr;
    struct rnic_counters before;
    Connection *c;
    uint8_t got;

    options.properties = ",max-mr=302";         /* and two regions */
    c = connection_new(&options);
    before = rnic_query_counters(c->r);
    mr = stag_region(c->r, 4);
    mr.access = LR | LW | MB;
    stag_register(c->r, &mr);
    for (int i = 0; i < WINDOWS; i++) {
        StagBind bind;

        mws[i] = stag_alloc_mw(c->r, c->r->pd, i);
        bind = stag_window(mws[i], &mr, mr.va + i, 1 + i,
                           i % 3 == 0 ? RR : i % 3 == 1 ? RW : RR | RW);
        g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(le32_to_cpu(stag_query_mr(c->r, mr.stag).bound_windows),
                     ==, WINDOWS);
    /* There is no other window. */
    more.alloc_stag.pdn = cpu_to_le32(c->r->pd);
    g_assert_cmpuint(rnic_admin(c->r, &more, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    for (int i = 0; i < WINDOWS; i++) {
        uint8_t octet = i + 1;

        if (i % 3) {
            stag_peer_writes(c, mws[i], mr.va + 2 * i, &octet, 1);
            rnic_mem_read(c->r, mr.bus[0] + 2 * i, &got, 1);
        } else {
            rnic_mem_write(c->r, mr.bus[0] + 2 * i, &octet, 1);
            stag_peer_reads(c, mws[i], mr.va + 2 * i, &got, 1);
        }
        g_assert_cmphex(got, ==, octet);
        if (i % 51 == 7) {
            stag_peer_write_refused(c, mws[i], mr.va + i - 1, 1, 0x1101);
            stag_peer_write_refused(c, mws[i], mr.va + 2 * i + 1, 1, 0x1101);
            stag_peer_read_refused(c, mws[i], mr.va + i, 1, 0x0102);
        } else if (i % 51 == 9) {
            stag_peer_write_refused(c, mws[i], mr.va + i, 1, 0x1102);
        }
    }
    for (int i = 0; i < WINDOWS; i++) {
        g_assert_cmpuint(stag_try_dealloc(c->r, mr.stag), ==,
                         RNIC_ST_MW_BOUND_TO_MR);
        if (i & 1) {
            g_assert_cmpuint(stag_invalidate(c, mws[i]), ==, RNIC_WC_SUCCESS);
        }
        stag_dealloc(c->r, mws[i]);
    }
    stag_dealloc(c->r, mr.stag);
    stag_assert_no_leak(c->r, &before);
    connection_free(c);
    rnic_shows("V7.10.2-3 V7.10.2-4 V7.10.2-13");
}

/* Bind, announce, invalidate in one post: in force for what follows. */
static void test_chain(void)
{
    World w;
    uint8_t got[8];
    StagBind bind;

    world_init(&w);
    for (unsigned i = 0; i < 20; i++) {
        bind = usual(&w);
        bind.mw = (w.mw & ~0xffu) | i;
        stag_post_bind(w.c, 3 * i, &bind);
        connection_post(w.c, RNIC_SQ_SEND, 3 * i + 1, 0, 4);
        stag_post_invalidate(w.c, 3 * i + 2, bind.mw);
    }
    for (unsigned i = 0; i < 20; i++) {
        wire_get_send(w.c->peer, WIRE_SEND, i + 1, got, 8);
        for (unsigned j = 0; j < 3; j++) {
            rnic_expect_cqe(w.r, &w.c->send_cq, 3 * i + j, RNIC_WC_SUCCESS);
        }
    }
    assert_unbound(&w);

    /* Nothing of that goes to the peer: the Send is the first octet. */
    bind = usual(&w);
    stag_post_bind(w.c, 70, &bind);
    rnic_expect_cqe(w.r, &w.c->send_cq, 70, RNIC_WC_SUCCESS);
    wire_expect_silence(w.c->peer);
    invalidate_ok(&w, bind.mw);
    wire_expect_silence(w.c->peer);
    /* The peer uses the STag as soon as it has it. */
    for (unsigned i = 0; i < 20; i++) {
        bind.mw = (w.mw & ~0xffu) | i;
        stag_post_bind(w.c, 2 * i, &bind);
        connection_post(w.c, RNIC_SQ_SEND, 2 * i + 1, 0, 4);
        wire_get_send(w.c->peer, WIRE_SEND, 21 + i, got, 8);
        stag_peer_writes(w.c, bind.mw, bind.va, "abc", 3);
        rnic_expect_cqe(w.r, &w.c->send_cq, 2 * i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(w.r, &w.c->send_cq, 2 * i + 1, RNIC_WC_SUCCESS);
        invalidate_ok(&w, bind.mw);
    }
    world_cleanup(&w);
    rnic_shows("V8.1.2.3.1-2 V8.2.2.1-6");
}

/* Bound or fast-registered already: refused, and the first stays in force. */
static void test_twice(void)
{
    World w;
    StagBind first, second;
    StagRegion fast, again;

    world_init(&w);
    first = second = usual(&w);
    bind_ok(&w, &first);
    second.va = w.mr.va;
    g_assert_cmpuint(stag_bind(w.c, &second), ==, RNIC_WC_STAG_NOT_INVALID);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    assert_usable(&w, &first);
    stag_peer_write_refused(w.c, first.mw, second.va, 1, 0x1101);
    invalidate_ok(&w, first.mw);

    fast = again = stag_region(w.r, 2);
    fast.stag = again.stag = stag_alloc(w.r, w.r->pd, 4, fast.key, true);
    g_assert_cmpuint(stag_fast_register(w.c, &fast), ==, RNIC_WC_SUCCESS);
    again.va += 0x100000;
    g_assert_cmpuint(stag_fast_register(w.c, &again), ==,
                     RNIC_WC_STAG_NOT_INVALID);
    wire_expect_terminate(w.c->peer, 0);
    stag_reconnect(w.c);
    stag_peer_writes(w.c, fast.stag, fast.va, "f", 1);
    stag_peer_write_refused(w.c, fast.stag, again.va, 1, 0x1101);
    stag_dealloc(w.r, fast.stag);
    world_cleanup(&w);
    rnic_shows("V8.2.2.1-9 V9.5.2-14");
}

/* A window over memory that a Fast-Register or shared STag names. */
static void test_other_regions(void)
{
    World w;
    StagRegion fast, shared;
    StagBind bind;

    world_init(&w);
    fast = w.mr;
    fast.stag = stag_alloc(w.r, w.r->pd, 4, 8, false);
    g_assert_cmpuint(stag_fast_register(w.c, &fast), ==, RNIC_WC_SUCCESS);
    bind = stag_window(w.mw, &fast, fast.va + 1, 10, RR | RW);
    bind_ok(&w, &bind);
    assert_usable(&w, &bind);
    /* The source of a shared region keeps its window. */
    shared = w.mr;
    shared.va += 0x10000000;
    stag_share(w.r, fast.stag, &shared);
    assert_usable(&w, &bind);
    g_assert_cmpuint(le32_to_cpu(stag_query_mr(w.r, fast.stag).bound_windows),
                     ==, 1);
    g_assert_cmpuint(le32_to_cpu(stag_query_mr(w.r, shared.stag)
                                 .bound_windows), ==, 0);
    g_assert_cmpuint(stag_try_dealloc(w.r, fast.stag), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    invalidate_ok(&w, bind.mw);
    bind = stag_window(w.mw, &shared, shared.va + 1, 10, RR | RW);
    bind_ok(&w, &bind);
    assert_usable(&w, &bind);
    stag_dealloc(w.r, fast.stag);
    assert_usable(&w, &bind);
    g_assert_cmpuint(stag_try_dealloc(w.r, shared.stag), ==,
                     RNIC_ST_MW_BOUND_TO_MR);
    stag_dealloc(w.r, w.mw);
    stag_dealloc(w.r, shared.stag);
    w.mw = stag_alloc_mw(w.r, w.r->pd, 0);
    world_cleanup(&w);
    rnic_shows("V7.10.2-2 V7.3.2.4-2");
}

/* -------------------------------------------------------------- any order */

enum { REGIONS = 6, WINDOWS = 12 };

typedef struct Walk {
    World w;
    StagRegion regions[REGIONS];    /* stag 0: none */
    uint32_t bound[REGIONS];
    bool shared[REGIONS];
    uint32_t windows[WINDOWS];
    int over[WINDOWS];              /* region it is bound over, or -1 */
} Walk;

static void walk_region(Walk *k, unsigned i, unsigned what)
{
    StagRegion *region = &k->regions[i];
    unsigned j = (i + 1) % REGIONS;
    uint16_t status;

    if (!region->stag) {
        *region = k->w.mr;
        region->count = 1 + what;
        region->length = region->count * 4096;
        stag_register(k->w.r, region);
        k->shared[i] = false;
    } else if (what == 0) {
        status = stag_try_dealloc(k->w.r, region->stag);
        g_assert_cmpuint(status, ==, k->bound[i] ? RNIC_ST_MW_BOUND_TO_MR
                                                 : RNIC_ST_OK);
        region->stag = status == RNIC_ST_OK ? 0 : region->stag;
    } else if (what == 1) {
        status = stag_try_reregister(k->w.r, region, STAG_CHANGE_ALL);
        g_assert_cmpuint(status, ==, k->shared[i] ? RNIC_ST_INVALID_STAG
                                   : k->bound[i] ? RNIC_ST_MW_BOUND_TO_MR
                                   : RNIC_ST_OK);
    } else if (!k->regions[j].stag) {
        k->regions[j] = *region;
        stag_share(k->w.r, region->stag, &k->regions[j]);
        k->shared[i] = k->shared[j] = true;
    }
}

static void walk_window(Walk *k, unsigned i, unsigned what)
{
    unsigned over = (i + what) % REGIONS;
    StagBind bind;

    if (!k->windows[i]) {
        k->windows[i] = stag_alloc_mw(k->w.r, k->w.r->pd, i);
        k->over[i] = -1;
    } else if (what == 0 || (k->over[i] >= 0 && what < 3)) {
        if (what == 0) {
            stag_dealloc(k->w.r, k->windows[i]);
            k->windows[i] = 0;
        } else {
            invalidate_ok(&k->w, k->windows[i]);
        }
        if (k->over[i] >= 0) {
            k->bound[k->over[i]]--;
        }
        k->over[i] = -1;
    } else if (k->over[i] < 0 && k->regions[over].stag) {
        bind = stag_window(k->windows[i], &k->regions[over],
                           k->regions[over].va + what, 100, RR | RW);
        bind_ok(&k->w, &bind);
        k->over[i] = over;
        k->bound[over]++;
    }
}

static void walk_check(Walk *k)
{
    bool any = false;

    for (unsigned i = 0; i < REGIONS; i++) {
        if (k->regions[i].stag) {
            struct rnic_mr_attr attr = stag_query_mr(k->w.r,
                                                     k->regions[i].stag);

            g_assert_cmpuint(le32_to_cpu(attr.bound_windows), ==,
                             k->bound[i]);
            g_assert_cmpint(attr.kind, ==, k->shared[i] ? RNIC_STAG_SHARED_MR
                                                        : RNIC_STAG_MR);
        }
    }
    for (unsigned i = 0; i < WINDOWS; i++) {
        if (k->windows[i]) {
            g_assert_cmpint(stag_query_mw(k->w.r, k->windows[i]).valid, ==,
                            k->over[i] >= 0);
            any |= k->over[i] >= 0;
        }
    }
    if (any) {
        g_assert_cmpuint(destroy_qp(&k->w), ==, RNIC_ST_MW_BOUND_TO_QP);
    }
}

/* Regions and windows come, are shared, bound and go, in any order. */
static void test_any_order(void)
{
    g_autofree Walk *k = g_new0(Walk, 1);
    GRand *rand = g_rand_new_with_seed(7);

    world_init(&k->w);
    for (unsigned step = 0; step < 3000; step++) {
        if (g_rand_boolean(rand)) {
            walk_region(k, g_rand_int_range(rand, 0, REGIONS),
                        g_rand_int_range(rand, 0, 4));
        } else {
            walk_window(k, g_rand_int_range(rand, 0, WINDOWS),
                        g_rand_int_range(rand, 0, 6));
        }
        if (step % 50 == 0) {
            walk_check(k);
        }
    }
    for (unsigned i = 0; i < WINDOWS; i++) {
        if (k->windows[i]) {
            stag_dealloc(k->w.r, k->windows[i]);
        }
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        if (k->regions[i].stag) {
            stag_dealloc(k->w.r, k->regions[i].stag);
        }
    }
    connection_recycle(k->w.c);
    g_assert_cmpuint(destroy_qp(&k->w), ==, RNIC_ST_OK);
    k->w.before.qps = cpu_to_le32(le32_to_cpu(k->w.before.qps) - 1);
    world_cleanup(&k->w);
    g_rand_free(rand);
    rnic_shows("V7.2-6 V7.10.5-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/window/alloc-query", test_alloc_query);
    qtest_add_func("rnic/window/bounds", test_bounds);
    qtest_add_func("rnic/window/ranges", test_ranges);
    qtest_add_func("rnic/window/keys", test_keys);
    qtest_add_func("rnic/window/rights", test_rights);
    qtest_add_func("rnic/window/no-rights", test_no_rights);
    qtest_add_func("rnic/window/rights-of-window-only",
                   test_rights_of_window_only);
    qtest_add_func("rnic/window/qp-enables", test_qp_enables);
    qtest_add_func("rnic/window/bind-errors", test_bind_errors);
    qtest_add_func("rnic/window/as-sge", test_window_as_sge);
    qtest_add_func("rnic/window/not-for-windows", test_not_for_windows);
    qtest_add_func("rnic/window/invalidate", test_invalidate);
    qtest_add_func("rnic/window/other-qp", test_other_qp);
    qtest_add_func("rnic/window/other-pd", test_other_pd);
    qtest_add_func("rnic/window/stag-zero-pds", test_stag_zero_pds);
    qtest_add_func("rnic/window/region-held", test_region_held);
    qtest_add_func("rnic/window/dealloc-bound", test_dealloc_bound);
    qtest_add_func("rnic/window/gone-meanwhile", test_gone_meanwhile);
    qtest_add_func("rnic/window/qp-held", test_qp_held);
    qtest_add_func("rnic/window/reset", test_reset);
    qtest_add_func("rnic/window/many", test_many);
    qtest_add_func("rnic/window/chain", test_chain);
    qtest_add_func("rnic/window/foreign-stags", test_foreign_stags);
    qtest_add_func("rnic/window/not-invalidated", test_not_invalidated);
    qtest_add_func("rnic/window/kinds-of-work", test_kinds_of_work);
    qtest_add_func("rnic/window/twice", test_twice);
    qtest_add_func("rnic/window/other-regions", test_other_regions);
    qtest_add_func("rnic/window/any-order", test_any_order);
    return g_test_run();
}
