/*
 * rnic: Modify CQ, a new ring for a CQ in use
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/traffic.h"

enum {
    MESSAGE = 32,
    DEPTH = 64,
};

/* ---------------------------------------------------- one step at a time */

typedef struct World {
    Connection *c;
    Rnic *r;
    RnicCq *cq;                 /* of sends */
    Drain *drain;
    uint64_t posted;            /* wr_id of the next WR */
    uint64_t polled;            /* ... of the next completion */
} World;

static World *world_new(const char *properties)
{
    World *w = g_new0(World, 1);

    w->c = connection_new(&(ConnectionOptions) {
        .properties = properties, .cq_depth = DEPTH });
    w->r = w->c->r;
    w->cq = &w->c->send_cq;
    w->drain = drain_new(&w->c->peer->fd, 1);
    return w;
}

static void world_free(World *w)
{
    drain_free(w->drain);
    connection_free(w->c);
    g_free(w);
}

static uint64_t cqe_count(World *w)
{
    struct rnic_counters counters = rnic_query_counters(w->r);

    return le64_to_cpu(counters.cqes);
}

/* @n WRs are posted, and their CQEs are in the ring. */
static void complete(World *w, unsigned n)
{
    uint64_t before = cqe_count(w);

    for (unsigned i = 0; i < n; i++) {
        connection_post(w->c, RNIC_SQ_RDMA_WRITE, w->posted++, 0, MESSAGE);
    }
    RNIC_UNTIL(w->r, cqe_count(w) == before + n);
}

/* Take the next @n CQEs off the ring @cq. */
static void take(World *w, RnicCq *cq, unsigned n)
{
    while (n--) {
        rnic_expect_cqe(w->r, cq, w->polled++, RNIC_WC_SUCCESS);
    }
}

static void assert_depth(World *w, uint32_t depth)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_CQ);
    struct rnic_admin_cqe cqe;

    sqe.object.number = cpu_to_le32(w->cq->number);
    g_assert_cmpint(rnic_admin(w->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, depth);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.eqn), ==, w->r->comp_eq.number);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.end), ==, 0);
}

/* Resize, which succeeds; the CQEs left of the ring until now are taken. */
static void resize(World *w, uint32_t depth, unsigned left)
{
    RnicCq before;
    uint32_t end;

    g_assert_cmpint(rnic_try_resize_cq(w->r, w->cq, depth, 0, &before, &end),
                    ==, RNIC_ST_OK);
    g_assert_cmpuint(end, ==, before.index + left);
    g_assert_cmpuint(w->cq->depth, ==, depth);      /* as answered */
    take(w, &before, left);
    rnic_expect_no_cqe(w->r, &before);
}

/* Resize, which is refused; @earlier as in the command. */
static void refuse(World *w, uint32_t depth, uint32_t earlier, uint16_t status)
{
    RnicCq before;
    uint32_t end;

    g_assert_cmpint(rnic_try_resize_cq(w->r, w->cq, depth, earlier, &before,
                                       &end), ==, status);
}

/* The phases of several rounds of the ring. */
static void go_around(World *w)
{
    for (unsigned i = 0; i < 3 * w->cq->depth; i += 8) {
        complete(w, 8);
        take(w, w->cq, 8);
    }
    rnic_expect_no_cqe(w->r, w->cq);
}

static void test_grows_and_shrinks(void)
{
    static const uint32_t depths[] = { 256, 16, 16, 1024, 32, 64 };
    World *w = world_new("");

    go_around(w);
    for (unsigned i = 0; i < G_N_ELEMENTS(depths); i++) {
        complete(w, 13);
        take(w, w->cq, 4);
        resize(w, depths[i], 9);
        assert_depth(w, depths[i]);
        go_around(w);
    }
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V5.3.2-1 V5.3.3-1 V9.2.3.2-1 V9.2.3.3-1 V9.2.3.3-2");
}

/* The memory until now is the guest's again, but for what it reads there. */
static void test_leaves_old_memory(void)
{
    World *w = world_new("");
    uint8_t memory[RNIC_QUEUE_RECORD_SIZE + DEPTH * sizeof(struct rnic_cqe)];
    uint8_t now[sizeof(memory)];
    RnicCq before = *w->cq;

    complete(w, 5);
    take(w, w->cq, 5);
    resize(w, DEPTH, 0);
    rnic_pattern(memory, sizeof(memory), 7);
    rnic_mem_write(w->r, before.memory, memory, sizeof(memory));
    go_around(w);
    rnic_mem_read(w->r, before.memory, now, sizeof(now));
    g_assert_cmpmem(memory, sizeof(memory), now, sizeof(now));
    world_free(w);
}

/* The new ring takes as many CQEs as it has places, and no more. */
static void test_every_place(void)
{
    World *w = world_new("");

    complete(w, 8);
    resize(w, 8, 8);
    complete(w, 8);
    rnic_expect_no_async(w->r);
    connection_post(w->c, RNIC_SQ_RDMA_WRITE, w->posted++, 0, MESSAGE);
    rnic_expect_async(w->r, RNIC_AE_CQ_OVERFLOW, w->cq->number);
    take(w, w->cq, 8);
    rnic_expect_no_cqe(w->r, w->cq);
    world_free(w);
}

/* --------------------------------------------------------------- refused */

static void test_too_small(void)
{
    World *w = world_new("");
    RnicCq before;
    uint32_t end;

    complete(w, 20);
    take(w, w->cq, 3);
    refuse(w, 16, 0, RNIC_ST_SHRINK_TOO_SMALL);
    assert_depth(w, DEPTH);
    /* Those of the ring before count, as the guest says. */
    g_assert_cmpint(rnic_try_resize_cq(w->r, w->cq, 32, 0, &before, &end), ==,
                    RNIC_ST_OK);
    complete(w, 4);
    refuse(w, 16, 17, RNIC_ST_SHRINK_TOO_SMALL);
    refuse(w, 4, 1, RNIC_ST_SHRINK_TOO_SMALL);
    refuse(w, 32, 29, RNIC_ST_SHRINK_TOO_SMALL);
    refuse(w, 32, UINT32_MAX, RNIC_ST_SHRINK_TOO_SMALL);
    take(w, &before, 17);
    g_assert_cmpuint(before.index, ==, end);
    /* As small as it can be. */
    complete(w, 4);
    resize(w, 8, 8);
    go_around(w);
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V5.3.3-2 V5.3.3-3 V8.3.1-2 V9.2.3.3-3");
}

static void refuse_command(World *w, const struct rnic_admin_sqe *sqe,
                           uint16_t status)
{
    struct rnic_admin_sqe copy = *sqe;
    struct rnic_admin_cqe cqe;

    g_assert_cmpint(rnic_admin(w->r, &copy, &cqe), ==, status);
    assert_depth(w, DEPTH);
}

#define REFUSE(w, good, field, value, status)                           \
    do {                                                                \
        struct rnic_admin_sqe bad_ = (good);                            \
        bad_.modify_cq.field = (value);                                 \
        refuse_command((w), &bad_, (status));                           \
    } while (0)

static void test_refused(void)
{
    World *w = world_new("");
    uint64_t memory = rnic_alloc(w->r, 2 * RNIC_TEST_PAGE);
    struct rnic_admin_sqe good = rnic_resize_command(w->r, w->cq, 128, memory);

    complete(w, 3);
    rnic_cq_arm(w->r, w->cq, RNIC_ARM_NEXT);
    REFUSE(w, good, cqn, cpu_to_le32(0), RNIC_ST_INVALID_CQ);
    REFUSE(w, good, cqn, cpu_to_le32(77777), RNIC_ST_INVALID_CQ);
    REFUSE(w, good, cqn, cpu_to_le32(w->cq->number | 1u << 24),
           RNIC_ST_INVALID_CQ);
    REFUSE(w, good, mask, cpu_to_le32(0), RNIC_ST_INVALID_MODIFIER);
    REFUSE(w, good, mask, cpu_to_le32(0x80000001), RNIC_ST_INVALID_MODIFIER);
    REFUSE(w, good, depth, cpu_to_le32(RNIC_CQ_MAX_DEPTH + 1),
           RNIC_ST_CQ_TOO_MANY_ENTRIES);
    REFUSE(w, good, depth, cpu_to_le32(2 * RNIC_CQ_MAX_DEPTH),
           RNIC_ST_CQ_TOO_MANY_ENTRIES);
    REFUSE(w, good, depth, cpu_to_le32(0xffffffff),
           RNIC_ST_CQ_TOO_MANY_ENTRIES);
    REFUSE(w, good, depth, cpu_to_le32(0), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, depth, cpu_to_le32(1), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, depth, cpu_to_le32(100), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, depth, cpu_to_le32(256), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, memory.ring_offset[0], cpu_to_le32(64),
           RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, memory.ring_offset[1], cpu_to_le32(128),
           RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, memory.pages.addr, cpu_to_le64(RNIC_TEST_NOWHERE),
           RNIC_ST_DMA_ERROR);
    /* All of it as before: CQEs, arm state, and it goes on. */
    take(w, w->cq, 3);
    complete(w, 1);
    rnic_eq_wait(w->r, &w->r->comp_eq, &(struct rnic_ceqe) { });
    take(w, w->cq, 1);
    go_around(w);
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V5.3.3-2 V8.3.1-2 V9.2.3.3-4 V9.2.3.3-5");
}

/* A CQ for which there is no room: none is made, not even a smaller one. */
static void refuse_to_create(World *w, uint32_t depth)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    (uint64_t)depth * sizeof(struct rnic_cqe);
    uint32_t cqs = rnic_query_counters(w->r).cqs;

    sqe.create_cq.depth = cpu_to_le32(depth);
    sqe.create_cq.eqn = cpu_to_le32(w->r->comp_eq.number);
    sqe.create_cq.memory.pages = rnic_pages(w->r, rnic_alloc(w->r, size), size);
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpint(rnic_admin(w->r, &sqe, NULL), ==,
                    RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_query_counters(w->r).cqs, ==, cqs);
}

/* Both rings count in max-queue-pages while the command is done. */
static void test_no_room_for_list(void)
{
    World *w = world_new(",max-queue-pages=64");
    uint32_t depth = 8192;      /* 65 pages */

    complete(w, 3);
    refuse(w, depth, 0, RNIC_ST_INSUFFICIENT_RESOURCES);
    assert_depth(w, DEPTH);
    refuse_to_create(w, depth);
    take(w, w->cq, 3);
    for (unsigned i = 0; i < 200; i++) {
        resize(w, i % 2 ? 64 : 1024, 0);
    }
    go_around(w);
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V5.3.1-3 V5.3.3-2 V9.2.3.3-5");
}

static void test_needs_feature(void)
{
    Rnic *r = rnic_boot("", "");
    RnicCq cq, before;
    uint32_t end;

    rnic_up_with(r, rnic_features(r) & ~RNIC_FEATURE_RESIZE_CQ);
    rnic_create_cq(r, &cq, DEPTH, RNIC_NO_VECTOR);
    g_assert_cmpint(rnic_try_resize_cq(r, &cq, 128, 0, &before, &end), ==,
                    RNIC_ST_UNSUPPORTED);
    rnic_quit(r);
}

/* ---------------------------------------------------------- notification */

static bool event_there(World *w)
{
    struct rnic_ceqe event;

    return rnic_eq_poll(w->r, &w->r->comp_eq, &event);
}

/* An armed CQ stays armed; one that is not does not become so. */
static void test_arm_state(void)
{
    World *w = world_new("");
    struct rnic_ceqe event;

    resize(w, 128, 0);
    complete(w, 1);
    g_assert_false(event_there(w));
    rnic_cq_arm(w->r, w->cq, RNIC_ARM_NEXT);
    resize(w, 32, 1);
    g_assert_false(event_there(w));
    complete(w, 2);
    rnic_eq_wait(w->r, &w->r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, w->cq->number);
    resize(w, 64, 2);
    complete(w, 1);
    g_assert_false(event_there(w));
    world_free(w);
    rnic_shows("V9.2.3.3-2");
}

/* --------------------------------------------------------- under traffic */

enum {
    RESIZES = 1000,
    QPS = 2,
    BURST = 16,                 /* WRs of a QP at most */
    AREAS = 4,
    DEPTHS = 4,
};

static const uint32_t traffic_depths[DEPTHS] = { 32, 256, 64, 128 };

typedef struct Ring {
    RnicCq cq;
    uint32_t end;               /* known once there is a newer ring */
} Ring;

typedef struct Traffic {
    Rnic *r;
    RnicCq first;
    Connection *c[QPS];
    uint64_t posted[QPS];
    uint64_t polled[QPS];
    Drain *drain;
    GRand *rand;
    uint64_t area[AREAS];
    struct rnic_admin_sqe command[AREAS][DEPTHS];
    unsigned oldest, newest;    /* of all rings there were */
    Ring ring[AREAS];           /* by that number modulo AREAS */
} Traffic;

static void traffic_init(Traffic *t)
{
    int fds[QPS];

    *t = (Traffic) { .r = rnic_boot(",mpa-rtr=off", "") };
    rnic_up(t->r);
    rnic_create_cq(t->r, &t->first, traffic_depths[0], t->r->comp_eq.number);
    t->ring[0].cq = t->first;
    for (unsigned i = 0; i < QPS; i++) {
        t->c[i] = connection_prepare_on(
            t->r, &(ConnectionOptions) { .cq = &t->first });
        connection_establish(t->c[i], NULL);
        fds[i] = t->c[i]->peer->fd;
    }
    t->drain = drain_new(fds, QPS);
    t->rand = g_rand_new_with_seed(1);
    for (unsigned a = 0; a < AREAS; a++) {
        t->area[a] = rnic_alloc(t->r, 3 * RNIC_TEST_PAGE);
        for (unsigned d = 0; d < DEPTHS; d++) {
            t->command[a][d] = rnic_resize_command(
                t->r, &t->first, traffic_depths[d], t->area[a]);
        }
    }
}

static void traffic_free(Traffic *t)
{
    drain_free(t->drain);
    g_rand_free(t->rand);
    connection_free_second(t->c[1]);
    connection_free(t->c[0]);
}

static void traffic_post(Traffic *t, unsigned qp)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    Connection *c = t->c[qp];

    while (t->posted[qp] - t->polled[qp] < BURST) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, t->posted[qp]++, 0,
                                  MESSAGE);

        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    rnic_ring_sq(c->r, &c->qp);
}

/* The next CQE is the next of its QP. */
static void traffic_account(Traffic *t, const struct rnic_cqe *cqe)
{
    unsigned qp = le32_to_cpu(cqe->qpn) == t->c[0]->qp.number ? 0 : 1;

    g_assert_cmpint(cqe->status, ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe->qpn), ==, t->c[qp]->qp.number);
    g_assert_cmpuint(le64_to_cpu(cqe->wr_id), ==, t->polled[qp]);
    t->polled[qp]++;
}

/* False: nothing is there. */
static bool traffic_poll(Traffic *t)
{
    Ring *ring = &t->ring[t->oldest % AREAS];
    struct rnic_cqe cqe;

    while (t->oldest != t->newest && ring->cq.index == ring->end) {
        ring = &t->ring[++t->oldest % AREAS];
    }
    if (!rnic_cq_poll(t->r, &ring->cq, &cqe)) {
        /* What the answer promised was there before it. */
        g_assert_cmpuint(t->oldest, ==, t->newest);
        return false;
    }
    traffic_account(t, &cqe);
    return true;
}

static uint32_t traffic_earlier(const Traffic *t)
{
    uint32_t sum = 0;

    for (unsigned n = t->oldest; n != t->newest; n++) {
        const Ring *ring = &t->ring[n % AREAS];

        sum += ring->end - ring->cq.index;
    }
    return sum;
}

/* All WRs that are outstanding fit into any of the depths. */
static void traffic_resize(Traffic *t)
{
    Ring *now = &t->ring[t->newest % AREAS];
    unsigned next = (t->newest + 1) % AREAS;
    unsigned d = g_rand_int_range(t->rand, 0, DEPTHS);
    struct rnic_admin_sqe sqe = t->command[next][d];
    struct rnic_admin_cqe cqe;

    rnic_mem_fill(t->r, t->area[next], 0, 3 * RNIC_TEST_PAGE);
    sqe.modify_cq.earlier = cpu_to_le32(traffic_earlier(t));
    g_assert_cmpint(rnic_admin(t->r, &sqe, &cqe), ==, RNIC_ST_OK);
    now->end = le32_to_cpu(cqe.cq.end);
    t->ring[next].cq = t->first;
    t->ring[next].cq.memory = t->area[next];
    t->ring[next].cq.depth = traffic_depths[d];
    t->newest++;
}

/* V5.3.3-1: resized all the time, nothing lost, twice or out of order. */
static void test_under_traffic(void)
{
    Traffic t;

    traffic_init(&t);
    for (unsigned i = 0; i < RESIZES; i++) {
        for (unsigned qp = 0; qp < QPS; qp++) {
            traffic_post(&t, qp);
        }
        for (int n = g_rand_int_range(t.rand, 0, 3 * BURST); n > 0; n--) {
            if (!traffic_poll(&t)) {
                break;
            }
        }
        while (t.newest - t.oldest == AREAS - 1) {
            traffic_poll(&t);
        }
        traffic_resize(&t);
    }
    RNIC_UNTIL(t.r, (traffic_poll(&t), t.polled[0] == t.posted[0] &&
                                       t.polled[1] == t.posted[1]));
    rnic_settle(t.r);
    g_assert_false(traffic_poll(&t));
    rnic_expect_no_async(t.r);
    g_test_message("%" PRIu64 " completions", t.polled[0] + t.polled[1]);
    traffic_free(&t);
    rnic_shows("V5.3.3-1 V5.3.3-2 V9.2.3.3-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/resize-cq/grows-and-shrinks",
                   test_grows_and_shrinks);
    qtest_add_func("/rnic/resize-cq/leaves-old-memory",
                   test_leaves_old_memory);
    qtest_add_func("/rnic/resize-cq/every-place", test_every_place);
    qtest_add_func("/rnic/resize-cq/too-small", test_too_small);
    qtest_add_func("/rnic/resize-cq/refused", test_refused);
    qtest_add_func("/rnic/resize-cq/no-room-for-list", test_no_room_for_list);
    qtest_add_func("/rnic/resize-cq/needs-feature", test_needs_feature);
    qtest_add_func("/rnic/resize-cq/arm-state", test_arm_state);
    qtest_add_func("/rnic/resize-cq/under-traffic", test_under_traffic);
    return g_test_run();
}
