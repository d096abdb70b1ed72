/*
 * rnic: Fast-Registers whose lists are longer than the part that a turn reads
 *
 * A region of REGISTER_MR has room for far more entries than one of ALLOC_STAG, and a
 * Fast-Register may have as many (7.8).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define PAGE 4096
#define PAGES 3000
/* In so many parts that other QPs have their turns between them. */
#define CHUNKS (16 * 1024)

typedef struct World {
    Connection *c;
    Rnic *r;
    struct rnic_counters before;
} World;

static void world_init(World *w, const char *properties)
{
    ConnectionOptions options = stag_options;

    options.properties = properties;
    w->c = connection_new(&options);
    w->r = w->c->r;
    w->before = rnic_query_counters(w->r);
}

static void world_cleanup(World *w)
{
    stag_assert_no_leak(w->r, &w->before);
    connection_free(w->c);
}

static StagRegion long_region(World *w, const struct rnic_page_list *list)
{
    StagRegion region = stag_region(w->r, 1);

    region.length = (uint64_t)le32_to_cpu(list->count) * PAGE;
    return region;
}

/* REGISTER_MR or, if @region has an STag, REREGISTER_MR. */
static void register_list(World *w, StagRegion *region,
                          const struct rnic_page_list *list)
{
    struct rnic_admin_sqe sqe =
        stag_command(w->r, region->stag ? RNIC_ADMIN_REREGISTER_MR
                                        : RNIC_ADMIN_REGISTER_MR, region);
    struct rnic_admin_cqe cqe;

    sqe.register_mr.pages = *list;
    if (region->stag) {
        sqe.register_mr.stag = cpu_to_le32(region->stag);
        sqe.register_mr.change = cpu_to_le32(STAG_CHANGE_ALL);
    }
    g_assert_cmpuint(rnic_admin(w->r, &sqe, &cqe), ==, RNIC_ST_OK);
    region->stag = le32_to_cpu(cqe.number);
    region->granted = le32_to_cpu(cqe.mr.pages);
    g_assert_cmpuint(region->granted, >=, le32_to_cpu(list->count));
}

static void post(Connection *c, uint64_t wr_id, const StagRegion *region,
                 const struct rnic_page_list *list)
{
    stag_store_fast_register_of(c, wr_id, RNIC_WQE_SIGNALED, region, list);
    rnic_ring_sq(c->r, &c->qp);
}

/* The peer's octets at the list's ends and at the ends of parts are in @memory. */
static void assert_maps(World *w, const StagRegion *region, uint64_t memory)
{
    static const unsigned pages[] = { 0, 1, 1023, 1024, 2047, 2048, PAGES - 1 };
    uint8_t sent[16], got[16];

    for (unsigned i = 0; i < G_N_ELEMENTS(pages); i++) {
        uint64_t at = (pages[i] + 1) * PAGE - (pages[i] == PAGES - 1 ? 16 : 8);

        rnic_pattern(sent, sizeof(sent), i + memory);
        stag_peer_writes(w->c, region->stag, region->va + at, sent,
                         sizeof(sent));
        rnic_mem_read(w->r, memory + at, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), sent, sizeof(sent));
    }
}

/* Regions of one page until there are no entries left in the pool. */
static GArray *exhaust(World *w)
{
    GArray *stags = g_array_new(false, false, sizeof(uint32_t));

    for (;;) {
        StagRegion small = stag_region(w->r, 1);
        uint16_t status = stag_try_register(w->r, &small);

        if (status != RNIC_ST_OK) {
            g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
            return stags;
        }
        g_array_append_val(stags, small.stag);
    }
}

static void free_all(World *w, GArray *stags)
{
    for (unsigned i = 0; i < stags->len; i++) {
        stag_dealloc(w->r, g_array_index(stags, uint32_t, i));
    }
    g_array_free(stags, true);
}

/* As many entries as the region was told to have, with nothing left; one more. */
static void check_as_many(World *w, StagRegion *region)
{
    uint64_t memory = rnic_alloc(w->r, PAGES * PAGE);
    struct rnic_page_list list = rnic_pages(w->r, memory, PAGES * PAGE);
    struct rnic_page_list longer = list;
    GArray *others = exhaust(w);

    g_assert_cmpuint(region->granted, ==, PAGES);
    g_assert_cmpint(stag_invalidate(w->c, region->stag), ==, RNIC_WC_SUCCESS);
    for (int i = 0; i < 2; i++) {
        post(w->c, 1, region, &list);
        g_assert_cmpint(stag_status_of(w->c, 1), ==, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(stag_query_mr(w->r, region->stag)
                                     .page_count), ==, PAGES);
        assert_maps(w, region, memory);
        g_assert_cmpint(stag_invalidate(w->c, region->stag), ==,
                        RNIC_WC_SUCCESS);
    }
    longer.count = cpu_to_le32(PAGES + 1);
    post(w->c, 2, region, &longer);
    g_assert_cmpint(stag_status_of(w->c, 2), ==, RNIC_WC_PBL_TOO_LONG);
    g_assert_cmpint(stag_query_mr(w->r, region->stag).valid, ==, 0);
    stag_reconnect(w->c);
    free_all(w, others);
}

static void test_as_many(void)
{
    for (int again = 0; again < 2; again++) {
        World w;
        StagRegion region, small;
        struct rnic_page_list list;

        world_init(&w, ",max-mr-pages=4000");
        list = rnic_pages(w.r, rnic_alloc(w.r, PAGES * PAGE), PAGES * PAGE);
        region = long_region(&w, &list);
        if (again) {
            small = stag_region(w.r, 1);
            stag_register(w.r, &small);
            region.stag = small.stag;
        }
        register_list(&w, &region, &list);
        check_as_many(&w, &region);
        stag_dealloc(w.r, region.stag);
        world_cleanup(&w);
    }
    rnic_shows("V7.8-8");
}

/* Posted with it, and begun when it is done: a Write from what it maps. */
static void test_next_work(void)
{
    World w;
    struct rnic_page_list first, list;
    uint64_t memory;
    uint8_t sent[16], got[16];
    StagRegion region;

    world_init(&w, "");
    memory = rnic_alloc(w.r, PAGES * PAGE);
    first = rnic_pages(w.r, rnic_alloc(w.r, PAGES * PAGE), PAGES * PAGE);
    list = rnic_pages(w.r, memory, PAGES * PAGE);
    region = long_region(&w, &first);
    register_list(&w, &region, &first);
    for (int i = 0; i < 20; i++) {
        uint64_t at = (PAGES - 1 - i) * PAGE - 8;

        rnic_pattern(sent, sizeof(sent), i);
        rnic_mem_write(w.r, memory + at, sent, sizeof(sent));
        stag_post_invalidate(w.c, 1, region.stag);
        post(w.c, 2, &region, &list);
        rnic_post_send(w.r, &w.c->qp, &(RnicWr) {
            .opcode = RNIC_SQ_RDMA_WRITE, .flags = RNIC_WQE_SIGNALED,
            .wr_id = 3, .remote_stag = CONNECTION_REMOTE_STAG,
            .num_sge = 1,
            .sge = { { .stag = cpu_to_le32(region.stag),
                       .to = cpu_to_le64(region.va + at),
                       .length = cpu_to_le32(sizeof(sent)) } } });
        g_assert_cmpuint(connection_get_write(w.c, 0, got, sizeof(got)), ==,
                         sizeof(sent));
        g_assert_cmpmem(got, sizeof(got), sent, sizeof(sent));
        for (uint64_t id = 1; id <= 3; id++) {
            g_assert_cmpint(stag_status_of(w.c, id), ==, RNIC_WC_SUCCESS);
        }
    }
    stag_dealloc(w.r, region.stag);
    world_cleanup(&w);
    rnic_shows("V7.3.2.5-12");
}

/* The last entry is wrong: nothing is Valid, and a right list comes next. */
static void test_bad_end(void)
{
    World w;
    struct rnic_page_list list, bad;
    StagRegion region;

    world_init(&w, "");
    list = rnic_long_list(w.r, 8, false);
    bad = rnic_long_list(w.r, 8, true);
    region = long_region(&w, &list);
    register_list(&w, &region, &list);
    g_assert_cmpint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    for (int i = 0; i < 3; i++) {
        post(w.c, 1, &region, &bad);
        g_assert_cmpint(stag_status_of(w.c, 1), ==, RNIC_WC_INVALID_PBL_ENTRY);
        g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
        stag_reconnect(w.c);
        stag_peer_write_refused(w.c, region.stag, region.va, 1, 0x1100);
    }
    post(w.c, 1, &region, &list);
    g_assert_cmpint(stag_status_of(w.c, 1), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 1);
    stag_dealloc(w.r, region.stag);
    world_cleanup(&w);
}

/* ------------------------------------------------ what happens meanwhile */

/* What another QP or a command does while the list is read. */
typedef struct Meanwhile {
    World w;
    Connection *other;
    struct rnic_page_list list;
    StagRegion region;          /* Invalid, with room for the list */
} Meanwhile;

/* The pool has room for the list once, and for what the QPs have. */
static void meanwhile_init(Meanwhile *m)
{
    g_autofree char *properties = g_strdup_printf(
        ",max-mr-pages=%u", CHUNKS * RNIC_PAGE_CHUNK_ENTRIES + 1000);

    world_init(&m->w, properties);
    m->other = stag_second_qp(m->w.c, 0);
    m->list = rnic_long_list(m->w.r, CHUNKS, false);
    m->region = long_region(&m->w, &m->list);
    register_list(&m->w, &m->region, &m->list);
    g_assert_cmpint(stag_invalidate(m->w.c, m->region.stag), ==,
                    RNIC_WC_SUCCESS);
}

/* The entries go back to the pool, also those of a list that was not read to its end. */
static void meanwhile_cleanup(Meanwhile *m)
{
    if (stag_exists(m->w.r, m->region.stag)) {
        stag_dealloc(m->w.r, m->region.stag);
    }
    m->region.stag = 0;
    register_list(&m->w, &m->region, &m->list);
    connection_free_second(m->other);
    connection_free(m->w.c);
}

/* Another QP's WRs do not wait for all of the list. */
static void test_others_go_on(void)
{
    enum { TIMES = 20 };
    unsigned in_time = 0;
    Meanwhile m;

    meanwhile_init(&m);
    for (int i = 0; i < TIMES && in_time < 3; i++) {
        post(m.w.c, 1, &m.region, &m.list);
        connection_post(m.other, RNIC_SQ_SEND, 2, 0, 8);
        rnic_expect_cqe(m.w.r, &m.other->send_cq, 2, RNIC_WC_SUCCESS);
        in_time += !stag_query_mr(m.w.r, m.region.stag).valid;
        g_assert_cmpint(stag_status_of(m.w.c, 1), ==, RNIC_WC_SUCCESS);
        g_assert_cmpint(stag_invalidate(m.w.c, m.region.stag), ==,
                        RNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(in_time, >, 0);
    meanwhile_cleanup(&m);
}

/* One of both has succeeded, and its list, of @counts entries, is the region's. */
static void check_one_wins(Meanwhile *m, const uint8_t statuses[2],
                           const uint32_t counts[2])
{
    Connection *const qps[] = { m->w.c, m->other };
    int winner = statuses[1] == RNIC_WC_SUCCESS;
    struct rnic_mr_attr attr = stag_query_mr(m->w.r, m->region.stag);

    g_assert_cmpint(statuses[winner], ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(statuses[!winner], ==, RNIC_WC_STAG_NOT_INVALID);
    g_assert_cmpuint(le32_to_cpu(attr.page_count), ==, counts[winner]);
    g_assert_cmpuint(le64_to_cpu(attr.length), ==,
                     (uint64_t)counts[winner] * PAGE);
    stag_reconnect(qps[!winner]);
}

/* Of two Fast-Registers of one region how often the other one, of @chunks, succeeds. */
static unsigned count_second(Meanwhile *m, uint32_t chunks)
{
    struct rnic_page_list list = rnic_long_list(m->w.r, chunks, false);
    const uint32_t counts[] = { le32_to_cpu(m->list.count),
                                le32_to_cpu(list.count) };
    StagRegion region = long_region(&m->w, &list);
    unsigned second = 0;

    region.stag = m->region.stag;
    for (int i = 0; i < 10; i++) {
        uint8_t statuses[2];

        stag_store_fast_register_of(m->w.c, 1, RNIC_WQE_SIGNALED, &m->region,
                                    &m->list);
        stag_store_fast_register_of(m->other, 2, RNIC_WQE_SIGNALED, &region,
                                    &list);
        rnic_ring_sq(m->w.r, &m->w.c->qp);
        rnic_ring_sq(m->w.r, &m->other->qp);
        statuses[1] = stag_status_of(m->other, 2);
        statuses[0] = stag_status_of(m->w.c, 1);
        check_one_wins(m, statuses, counts);
        second += statuses[1] == RNIC_WC_SUCCESS;
        g_assert_cmpint(stag_invalidate(m->w.c, region.stag), ==,
                        RNIC_WC_SUCCESS);
    }
    return second;
}

static void test_two(void)
{
    Meanwhile m;

    meanwhile_init(&m);
    g_assert_cmpuint(count_second(&m, CHUNKS - 1), >, 0);
    g_assert_cmpuint(count_second(&m, 2), >, 0);
    meanwhile_cleanup(&m);
    rnic_shows("V7.3.2.5-6");
}

/*
 * Another Fast-Register, done between two parts of the list, has the region, and leaves
 * it Invalid again: the one that reads the list has lost it.  False: it has not lost it,
 * as its list was read before (the other one failed) or not begun (QPs wait for nothing
 * of each other).
 */
static bool loses_to_invalidated(Meanwhile *m, const StagRegion *small)
{
    uint8_t first, second;

    post(m->w.c, 1, &m->region, &m->list);
    stag_store_fast_register(m->other, 2, RNIC_WQE_SIGNALED, small);
    stag_post_invalidate(m->other, 3, small->stag);
    second = stag_status_of(m->other, 2);
    first = stag_status_of(m->w.c, 1);
    if (second == RNIC_WC_SUCCESS) {
        g_assert_cmpint(stag_status_of(m->other, 3), ==, RNIC_WC_SUCCESS);
    } else {
        g_assert_cmpint(second, ==, RNIC_WC_STAG_NOT_INVALID);
        g_assert_cmpint(stag_status_of(m->other, 3), ==, RNIC_WC_FLUSHED);
        g_assert_cmpint(first, ==, RNIC_WC_SUCCESS);
        stag_reconnect(m->other);
    }
    if (first == RNIC_WC_SUCCESS) {
        g_assert_cmpint(stag_query_mr(m->w.r, small->stag).valid, ==, 1);
        g_assert_cmpint(stag_invalidate(m->w.c, small->stag), ==,
                        RNIC_WC_SUCCESS);
        return false;
    }
    g_assert_cmpint(first, ==, RNIC_WC_STAG_NOT_INVALID);
    g_assert_cmpint(stag_query_mr(m->w.r, small->stag).valid, ==, 0);
    stag_reconnect(m->w.c);
    return true;
}

static void test_two_and_invalidate(void)
{
    enum { TIMES = 20 };
    unsigned lost = 0;
    StagRegion small;
    Meanwhile m;

    meanwhile_init(&m);
    small = stag_region(m.w.r, 1);
    small.stag = m.region.stag;
    for (int i = 0; i < TIMES && lost < 3; i++) {
        lost += loses_to_invalidated(&m, &small);
    }
    g_assert_cmpuint(lost, >, 0);
    meanwhile_cleanup(&m);
}

/* True: the QP left before the list was read; what it had begun is no obstacle. */
static bool leaves_in_time(bool destroyed)
{
    struct rnic_cqe cqe;
    bool in_time;
    Meanwhile m;

    meanwhile_init(&m);
    post(m.w.c, 1, &m.region, &m.list);
    if (destroyed) {
        g_assert_cmpuint(rnic_admin_object(m.w.r, RNIC_ADMIN_DESTROY_QP,
                                           m.w.c->qp.number), ==, RNIC_ST_OK);
        in_time = !rnic_cq_poll(m.w.r, &m.w.c->send_cq, &cqe);
    } else {
        g_assert_cmpuint(rnic_modify_qp_state(m.w.r, &m.w.c->qp,
                                              RNIC_QPS_ERROR), ==, RNIC_ST_OK);
        in_time = stag_status_of(m.w.c, 1) == RNIC_WC_FLUSHED;
    }
    g_assert_cmpint(stag_query_mr(m.w.r, m.region.stag).valid, ==, !in_time);
    if (in_time) {
        post(m.other, 2, &m.region, &m.list);
        g_assert_cmpint(stag_status_of(m.other, 2), ==, RNIC_WC_SUCCESS);
        g_assert_cmpint(stag_query_mr(m.w.r, m.region.stag).valid, ==, 1);
    }
    meanwhile_cleanup(&m);
    return in_time;
}

/* The QP is destroyed, or is moved to Error; another one registers the region. */
static void test_qp_leaves(void)
{
    enum { TIMES = 10 };

    for (int destroyed = 0; destroyed < 2; destroyed++) {
        int i = 0;

        while (i < TIMES && !leaves_in_time(destroyed)) {
            i++;
        }
        g_assert_cmpint(i, <, TIMES);
    }
}

/* It fails behind a Read before it, whatever the peer wants meanwhile. */
static void test_behind_read(void)
{
    World w;
    struct rnic_page_list list, bad;
    StagRegion region;
    WireRead read;

    world_init(&w, "");
    list = rnic_long_list(w.r, 64, false);
    bad = rnic_long_list(w.r, 64, true);
    region = long_region(&w, &list);
    register_list(&w, &region, &list);
    g_assert_cmpint(stag_invalidate(w.c, region.stag), ==, RNIC_WC_SUCCESS);
    connection_post(w.c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(w.c->peer, 1, &read);
    post(w.c, 2, &region, &bad);
    for (int i = 0; i < 20; i++) {
        uint8_t got[8];

        wire_put_read_request(w.c->peer, &(WireRead) {
            .size = 8, .source_stag = w.c->mr.stag, .source_to = w.c->mr.va });
        wire_get_tagged(w.c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    }
    rnic_settle(w.r);
    rnic_expect_no_cqe(w.r, &w.c->send_cq);
    wire_put_read_response(w.c->peer, read.sink_stag, read.sink_to,
                           "response", 8);
    g_assert_cmpint(stag_status_of(w.c, 1), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_status_of(w.c, 2), ==, RNIC_WC_INVALID_PBL_ENTRY);
    g_assert_cmpint(stag_query_mr(w.r, region.stag).valid, ==, 0);
    stag_reconnect(w.c);
    stag_dealloc(w.r, region.stag);
    world_cleanup(&w);
    rnic_shows("V8.1.3.1-5");
}

/* The region goes: the Fast-Register was done before, or names no region. */
static void test_region_goes(void)
{
    Meanwhile m;
    uint8_t status;

    meanwhile_init(&m);
    post(m.w.c, 1, &m.region, &m.list);
    stag_dealloc(m.w.r, m.region.stag);
    status = stag_status_of(m.w.c, 1);
    g_assert_true(status == RNIC_WC_SUCCESS || status == RNIC_WC_INVALID_STAG);
    g_assert_false(stag_exists(m.w.r, m.region.stag));
    meanwhile_cleanup(&m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fast-register-parts/as-many", test_as_many);
    qtest_add_func("rnic/fast-register-parts/next-work", test_next_work);
    qtest_add_func("rnic/fast-register-parts/bad-end", test_bad_end);
    qtest_add_func("rnic/fast-register-parts/others-go-on", test_others_go_on);
    qtest_add_func("rnic/fast-register-parts/two", test_two);
    qtest_add_func("rnic/fast-register-parts/two-and-invalidate",
                   test_two_and_invalidate);
    qtest_add_func("rnic/fast-register-parts/qp-leaves", test_qp_leaves);
    qtest_add_func("rnic/fast-register-parts/behind-read", test_behind_read);
    qtest_add_func("rnic/fast-register-parts/region-goes", test_region_goes);
    return g_test_run();
}
