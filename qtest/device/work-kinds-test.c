/*
 * rnic: what holds of every kind of work: signaled or not, modifiers of others, flushed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

enum { DATA = 8 };

/* The ten kinds, in an order in which each can be done behind those before it. */
static const struct {
    uint8_t opcode, flags, units;
} kinds[] = {
    { RNIC_SQ_FAST_REGISTER, 0, 2 },
    { RNIC_SQ_BIND_MW, 0, 1 },
    { RNIC_SQ_SEND, 0, 1 },
    { RNIC_SQ_SEND, RNIC_WQE_SOLICITED, 1 },
    { RNIC_SQ_SEND_INVALIDATE, 0, 1 },
    { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED, 1 },
    { RNIC_SQ_RDMA_WRITE, 0, 1 },
    { RNIC_SQ_RDMA_READ, 0, 1 },
    { RNIC_SQ_LOCAL_INVALIDATE, 0, 1 },
    { RNIC_SQ_RDMA_READ_INVALIDATE, 0, 1 },
};

enum { KINDS = G_N_ELEMENTS(kinds) };

typedef struct World {
    Connection *c;
    StagRegion fast;            /* Invalid, and what a Fast-Register gives it */
    StagBind bind;              /* of fast, by a window of its own */
    struct rnic_page_list pages;
} World;

static void world_init(World *w)
{
    Connection *c = connection_prepare(&stag_options);
    uint64_t list = rnic_alloc(c->r, RNIC_TEST_PAGE), entry;

    w->c = c;
    w->fast = stag_region(c->r, 1);
    w->fast.stag = stag_alloc(c->r, c->r->pd, 1, w->fast.key, true);
    w->bind = stag_window(stag_alloc_mw(c->r, c->r->pd, 7), &w->fast,
                          w->fast.va, DATA, RNIC_ACCESS_REMOTE_READ |
                          RNIC_ACCESS_REMOTE_WRITE);
    entry = cpu_to_le64(w->fast.bus[0]);
    rnic_mem_write(c->r, list, &entry, sizeof(entry));
    w->pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(list), .count = cpu_to_le32(1),
        .level = RNIC_PAGE_LIST_DIRECT, .page_shift = 12,
    };
}

static uint64_t id_of(unsigned kind)
{
    return 0xa5a5a5a500000000 | kind << 24 | kind;
}

static void put_arguments(World *w, unsigned kind, uint8_t *wqe)
{
    struct rnic_fast_register_wqe *fast = (void *)(wqe + 32);
    struct rnic_bind_wqe *bind = (void *)(wqe + 32);

    if (kinds[kind].opcode == RNIC_SQ_FAST_REGISTER) {
        *fast = (struct rnic_fast_register_wqe) {
            .stag = cpu_to_le32(w->fast.stag),
            .va = cpu_to_le64(w->fast.va),
            .length = cpu_to_le64(w->fast.length),
            .access = w->fast.access,
            .pages = w->pages,
        };
    } else {
        *bind = (struct rnic_bind_wqe) {
            .mw_stag = cpu_to_le32(w->bind.mw),
            .mr_stag = cpu_to_le32(w->bind.mr),
            .va = cpu_to_le64(w->bind.va),
            .length = cpu_to_le64(w->bind.length),
            .access = w->bind.access,
        };
    }
}

/* What an invalidation, by the peer or here, names. */
static uint32_t invalidated_by(const World *w, unsigned kind)
{
    return kinds[kind].opcode == RNIC_SQ_LOCAL_INVALIDATE ? w->bind.mw
         : kinds[kind].opcode == RNIC_SQ_SEND_INVALIDATE ? 0x11223300 + kind
                                                         : 0;
}

/* Into @wqe, which has room for two units. */
static void encode(World *w, unsigned kind, uint8_t flags, uint8_t *wqe)
{
    RnicWr wr = connection_wr(w->c, kinds[kind].opcode, id_of(kind),
                              DATA * kind, DATA);
    struct rnic_sq_wqe *head = (void *)wqe;

    memset(wqe, 0, 2 * RNIC_SQ_UNIT);
    wr.flags = kinds[kind].flags | flags;
    wr.invalidate_stag = invalidated_by(w, kind);
    switch (kinds[kind].opcode) {
    case RNIC_SQ_RDMA_READ_INVALIDATE:
        wr.remote_stag = CONNECTION_REMOTE_STAG;
        wr.sge[0].stag = cpu_to_le32(w->fast.stag);
        wr.sge[0].to = cpu_to_le64(w->fast.va);
        break;
    case RNIC_SQ_FAST_REGISTER:
    case RNIC_SQ_BIND_MW:
    case RNIC_SQ_LOCAL_INVALIDATE:
        wr.num_sge = 0;
    }
    rnic_encode_wr(&wr, wqe);
    head->units = kinds[kind].units;
    if (kinds[kind].opcode == RNIC_SQ_FAST_REGISTER ||
        kinds[kind].opcode == RNIC_SQ_BIND_MW) {
        put_arguments(w, kind, wqe);
    }
}

static void post(World *w, unsigned kind, const uint8_t *wqe)
{
    rnic_store_wqe(w->c->r, &w->c->qp, wqe, kinds[kind].units);
    rnic_ring_sq(w->c->r, &w->c->qp);
}

static void answer_read(Connection *c, uint32_t msn)
{
    WireRead read;

    wire_get_read_request(c->peer, msn, &read);
    g_assert_cmphex(read.source_stag, ==, CONNECTION_REMOTE_STAG);
    g_assert_cmphex(read.source_to, ==, 0);
    g_assert_cmpuint(read.size, ==, DATA);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           DATA);
}

/* The peer's part, and that it was asked for what the WR says. */
static void serve(World *w, unsigned kind, uint32_t *sends, uint32_t *reads)
{
    static const uint8_t opcodes[] = {
        WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE,
        WIRE_SEND_SE_INVALIDATE,
    };
    Connection *c = w->c;
    WireSegment segment;
    uint8_t got[DATA];

    switch (kinds[kind].opcode) {
    case RNIC_SQ_SEND:
    case RNIC_SQ_SEND_INVALIDATE:
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcodes[*sends]);
        g_assert_cmphex(segment.stag, ==, invalidated_by(w, kind));
        g_assert_cmpuint(segment.msn, ==, ++*sends);
        g_assert_cmpuint(segment.length, ==, DATA);
        g_free(segment.payload);
        break;
    case RNIC_SQ_RDMA_WRITE:
        g_assert_cmpuint(connection_get_write(c, 0, got, DATA), ==, DATA);
        break;
    case RNIC_SQ_RDMA_READ:
    case RNIC_SQ_RDMA_READ_INVALIDATE:
        answer_read(c, ++*reads);
    }
}

/* What the work on STags was for: the window gone, the data there, both Invalid. */
static void check_done(World *w)
{
    uint8_t got[DATA];

    g_assert_cmpint(stag_query_mr(w->c->r, w->fast.stag).valid, ==, 0);
    g_assert_cmpint(stag_query_mw(w->c->r, w->bind.mw).valid, ==, 0);
    rnic_mem_read(w->c->r, w->fast.bus[0], got, DATA);
    g_assert_cmpmem(got, DATA, "response", DATA);
}

/* ------------------------------------------------------------ signaled or not */

/* One kind is Signaled, or none, of all that succeed. */
static void test_unsignaled(void)
{
    World w;

    world_init(&w);
    for (unsigned signaled = 0; signaled <= KINDS; signaled++) {
        uint32_t sends = 0, reads = 0;
        struct rnic_cqe cqe;

        connection_establish(w.c, &stag_options);
        rnic_mem_fill(w.c->r, w.fast.bus[0], 0, DATA);
        for (unsigned kind = 0; kind < KINDS; kind++) {
            uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

            encode(&w, kind, kind == signaled ? RNIC_WQE_SIGNALED : 0, wqe);
            post(&w, kind, wqe);
            serve(&w, kind, &sends, &reads);
        }
        RNIC_UNTIL(w.c->r, !stag_query_mr(w.c->r, w.fast.stag).valid);
        check_done(&w);
        if (signaled < KINDS) {
            cqe = rnic_expect_cqe(w.c->r, &w.c->send_cq, id_of(signaled),
                                  RNIC_WC_SUCCESS);
            g_assert_cmpint(cqe.opcode, ==, kinds[signaled].opcode);
        }
        rnic_settle(w.c->r);
        rnic_expect_no_cqe(w.c->r, &w.c->send_cq);
        rnic_expect_no_async(w.c->r);
        connection_recycle(w.c);
    }
    connection_free(w.c);
    rnic_shows("V9.3.1.1-6");
}

/* ------------------------------------------------------- modifiers of others */

/* In fields, and of the flags those, that say nothing for the kind. */
static void add_foreign(unsigned kind, uint8_t *wqe)
{
    struct rnic_sq_wqe *head = (void *)wqe;
    bool send = kinds[kind].opcode == RNIC_SQ_SEND ||
                kinds[kind].opcode == RNIC_SQ_SEND_INVALIDATE;
    bool write = kinds[kind].opcode == RNIC_SQ_RDMA_WRITE;
    bool read = kinds[kind].opcode == RNIC_SQ_RDMA_READ ||
                kinds[kind].opcode == RNIC_SQ_RDMA_READ_INVALIDATE;
    bool local_fence = kinds[kind].opcode == RNIC_SQ_LOCAL_INVALIDATE ||
                       kinds[kind].opcode == RNIC_SQ_BIND_MW;

    if (!write && !read) {
        head->remote_stag = cpu_to_le32(0xdeadbeef);
        head->remote_to = cpu_to_le64(0xdeadbeefdeadbeef);
    }
    if (!head->invalidate_stag) {
        head->invalidate_stag = cpu_to_le32(0xdeadbeef);
    }
    head->flags |= send ? 0 : RNIC_WQE_SOLICITED;
    head->flags |= send || write ? 0 : RNIC_WQE_READ_FENCE;
    head->flags |= local_fence ? 0 : RNIC_WQE_LOCAL_FENCE;
}

static void test_foreign_modifiers(void)
{
    uint32_t sends = 0, reads = 0;
    struct rnic_cqe cqe;
    World w;

    world_init(&w);
    connection_establish(w.c, &stag_options);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        encode(&w, kind, RNIC_WQE_SIGNALED, wqe);
        add_foreign(kind, wqe);
        post(&w, kind, wqe);
        serve(&w, kind, &sends, &reads);
        cqe = rnic_expect_cqe(w.c->r, &w.c->send_cq, id_of(kind),
                              RNIC_WC_SUCCESS);
        g_assert_cmpint(cqe.opcode, ==, kinds[kind].opcode);
    }
    check_done(&w);
    connection_free(w.c);
    rnic_shows("V9.3.1.1-4");
}

/* ------------------------------------------------------------- reserved octets */

/* One octet of what is reserved is not zero: a WQE of a wrong form, that does nothing. */
static void test_reserved(void)
{
    enum { HEAD = sizeof(struct rnic_sq_wqe), FAST_REGISTER = 0, BIND = 1 };
    static const struct {
        uint8_t kind, at;
    } cases[] = {
        { FAST_REGISTER, HEAD + offsetof(struct rnic_fast_register_wqe, reserved) },
        { FAST_REGISTER, HEAD + offsetof(struct rnic_fast_register_wqe, pages) - 1 },
        { FAST_REGISTER, HEAD + offsetof(struct rnic_fast_register_wqe, reserved2) },
        { FAST_REGISTER, HEAD + sizeof(struct rnic_fast_register_wqe) - 1 },
        { BIND, HEAD + offsetof(struct rnic_bind_wqe, reserved) },
        { BIND, HEAD + sizeof(struct rnic_bind_wqe) - 1 },
    };
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        StagRegion bindable = w.fast;

        connection_establish(w.c, &stag_options);
        stag_register(w.c->r, &bindable);
        w.bind.mr = bindable.stag;
        encode(&w, cases[i].kind, 0, wqe);
        wqe[cases[i].at] = 1;
        post(&w, cases[i].kind, wqe);
        wire_expect_terminate(w.c->peer, 0);
        rnic_expect_cqe(w.c->r, &w.c->send_cq, id_of(cases[i].kind),
                        RNIC_WC_INVALID_WQE);
        g_assert_cmpint(stag_query_mr(w.c->r, w.fast.stag).valid, ==, 0);
        g_assert_cmpint(stag_query_mw(w.c->r, w.bind.mw).valid, ==, 0);
        stag_dealloc(w.c->r, bindable.stag);
        connection_recycle(w.c);
    }
    connection_free(w.c);
    rnic_shows("V9.5.2-3");
}

/* -------------------------------------------------------------------- flushed */

/* In Idle, or behind a Read that the peer does not answer; signaled and not. */
static void check_flushed(World *w, bool connected)
{
    enum { RECEIVES = 5, READ = 0x4ead };
    Connection *c = w->c;
    WireRead read;

    if (connected) {
        connection_establish(c, &stag_options);
        connection_post(c, RNIC_SQ_RDMA_READ, READ, 0, DATA);
        wire_get_read_request(c->peer, 1, &read);
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        encode(w, kind, kind & 1 ? RNIC_WQE_SIGNALED : 0, wqe);
        post(w, kind, wqe);
    }
    for (int i = 0; i < RECEIVES; i++) {
        connection_recv(c, id_of(i) ^ UINT64_MAX, 0, DATA);
    }
    if (connected) {
        rnic_settle(c->r);
    }
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    if (connected) {
        rnic_expect_cqe(c->r, &c->send_cq, READ, RNIC_WC_FLUSHED);
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->send_cq, id_of(kind),
                                              RNIC_WC_FLUSHED);

        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, ==, 0);
    }
    for (int i = 0; i < RECEIVES; i++) {
        rnic_expect_cqe(c->r, &c->recv_cq, id_of(i) ^ UINT64_MAX,
                        RNIC_WC_FLUSHED);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_recycle(c);
}

static void test_flushed(void)
{
    World w;

    world_init(&w);
    check_flushed(&w, false);
    /* What was not begun has done nothing. */
    g_assert_cmpint(stag_query_mr(w.c->r, w.fast.stag).valid, ==, 0);
    g_assert_cmpint(stag_query_mw(w.c->r, w.bind.mw).valid, ==, 0);
    check_flushed(&w, true);
    connection_free(w.c);
    rnic_shows("V9.3.2.1-3 V9.5.2-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/work-kinds/unsignaled", test_unsignaled);
    qtest_add_func("rnic/work-kinds/foreign-modifiers",
                   test_foreign_modifiers);
    qtest_add_func("rnic/work-kinds/reserved", test_reserved);
    qtest_add_func("rnic/work-kinds/flushed", test_flushed);
    return g_test_run();
}
