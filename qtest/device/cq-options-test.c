/*
 * rnic: what a CQ can be asked for: moderation, overruns, timestamps
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/traffic.h"

enum {
    MESSAGE = 32,
    PERIOD_US = 60000,          /* far more than waiting steps the clock by */
};

typedef struct World {
    Rnic *r;
    Connection *c;
    RnicCq cq;
    Drain *drain;
    uint64_t posted;
    uint64_t polled;
} World;

static uint16_t try_create_cq(Rnic *r, RnicCq *cq, uint32_t depth,
                              uint32_t flags)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    (uint64_t)depth * (flags & RNIC_CQ_TIMESTAMP ? 64 : 32);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    *cq = (RnicCq) { .depth = depth, .memory = rnic_alloc(r, size) };
    sqe.create_cq.flags = cpu_to_le32(flags);
    sqe.create_cq.depth = cpu_to_le32(depth);
    sqe.create_cq.eqn = cpu_to_le32(r->comp_eq.number);
    sqe.create_cq.memory.pages = rnic_pages(r, cq->memory, size);
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    status = rnic_admin(r, &sqe, &cqe);
    cq->number = le32_to_cpu(cqe.number);
    return status;
}

static World *world_new(uint32_t depth, uint32_t flags)
{
    World *w = g_new0(World, 1);

    w->r = rnic_boot(",mpa-rtr=off", "");
    rnic_up(w->r);
    g_assert_cmpint(try_create_cq(w->r, &w->cq, depth, flags), ==, RNIC_ST_OK);
    w->c = connection_prepare_on(w->r, &(ConnectionOptions) { .cq = &w->cq });
    connection_establish(w->c, NULL);
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

/* @n WRs are posted, one by one, and their CQEs are there. */
static void complete(World *w, unsigned n)
{
    for (; n; n--) {
        uint64_t before = cqe_count(w);

        connection_post(w->c, RNIC_SQ_RDMA_WRITE, w->posted++, 0, MESSAGE);
        RNIC_UNTIL(w->r, cqe_count(w) == before + 1);
    }
}

static void take(World *w, unsigned n)
{
    for (; n; n--) {
        rnic_expect_cqe(w->r, &w->cq, w->polled++, RNIC_WC_SUCCESS);
    }
}

/* ------------------------------------------------------------ moderation */

static uint16_t moderate(World *w, uint16_t count, uint16_t period)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_CQ);

    sqe.modify_cq.cqn = cpu_to_le32(w->cq.number);
    sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_MODERATION);
    sqe.modify_cq.event_count = cpu_to_le16(count);
    sqe.modify_cq.event_period = cpu_to_le16(period);
    return rnic_admin(w->r, &sqe, NULL);
}

static bool event_there(World *w)
{
    struct rnic_ceqe event;

    if (!rnic_eq_poll(w->r, &w->r->comp_eq, &event)) {
        return false;
    }
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, w->cq.number);
    return true;
}

static void expect_event(World *w)
{
    RNIC_UNTIL(w->r, event_there(w));
    g_assert_false(event_there(w));
}

/* It is there before the period is over. */
static void expect_event_by_count(World *w)
{
    int64_t counted = qtest_clock_step(w->r->qts, 1);

    expect_event(w);
    g_assert_cmpint(qtest_clock_step(w->r->qts, 1) - counted, <,
                    PERIOD_US * 1000 / 2);
}

static void arm(World *w)
{
    rnic_cq_arm(w->r, &w->cq, RNIC_ARM_NEXT);
}

static void test_by_count(void)
{
    World *w = world_new(64, 0);

    g_assert_cmpint(moderate(w, 4, PERIOD_US), ==, RNIC_ST_OK);
    for (int i = 0; i < 3; i++) {
        arm(w);
        complete(w, 3);
        g_assert_false(event_there(w));
        complete(w, 1);
        expect_event_by_count(w);
        /* Not armed: nothing is counted. */
        complete(w, 5);
        g_assert_false(event_there(w));
        take(w, 9);
    }
    world_free(w);
}

static void test_by_time(void)
{
    World *w = world_new(64, 0);

    g_assert_cmpint(moderate(w, 1000, PERIOD_US), ==, RNIC_ST_OK);
    for (int i = 0; i < 3; i++) {
        arm(w);
        complete(w, 2);
        g_assert_false(event_there(w));
        qtest_clock_step(w->r->qts, PERIOD_US * 1000);
        expect_event(w);
        qtest_clock_step(w->r->qts, 2 * PERIOD_US * 1000);
        g_assert_false(event_there(w));
        take(w, 2);
    }
    world_free(w);
}

/* What is held comes when moderation ends; errors do not wait. */
static void test_not_held(void)
{
    World *w = world_new(64, 0);

    g_assert_cmpint(moderate(w, 100, PERIOD_US), ==, RNIC_ST_OK);
    arm(w);
    complete(w, 1);
    g_assert_false(event_there(w));
    g_assert_cmpint(moderate(w, 0, 0), ==, RNIC_ST_OK);
    expect_event(w);
    arm(w);
    complete(w, 1);
    expect_event(w);
    g_assert_cmpint(moderate(w, 1, PERIOD_US), ==, RNIC_ST_OK);
    arm(w);
    complete(w, 1);
    expect_event(w);
    g_assert_cmpint(moderate(w, 100, PERIOD_US), ==, RNIC_ST_OK);
    connection_recv(w->c, 1, 0, MESSAGE);
    arm(w);
    g_assert_cmpint(rnic_modify_qp_state(w->r, &w->c->qp, RNIC_QPS_ERROR), ==,
                    RNIC_ST_OK);
    expect_event(w);
    world_free(w);
}

/* It is resized, and goes, while it holds an event, which does not come then. */
static void test_held_and_resized(void)
{
    World *w = world_new(64, 0);
    RnicCq before;
    uint32_t end;

    g_assert_cmpint(moderate(w, 3, PERIOD_US), ==, RNIC_ST_OK);
    arm(w);
    complete(w, 2);
    g_assert_cmpint(rnic_try_resize_cq(w->r, &w->cq, 128, 0, &before, &end),
                    ==, RNIC_ST_OK);
    g_assert_false(event_there(w));
    complete(w, 1);
    expect_event(w);
    arm(w);
    complete(w, 1);
    g_assert_false(event_there(w));
    g_assert_cmpint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP,
                                      w->c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_CQ,
                                      w->cq.number), ==, RNIC_ST_OK);
    qtest_clock_step(w->r->qts, 2 * PERIOD_US * 1000);
    rnic_settle(w->r);
    g_assert_false(event_there(w));
    world_free(w);
    rnic_shows("V5.3.4-2 V9.2.3.4-1");
}

static void test_modify_refused(void)
{
    World *w = world_new(64, 0);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_CQ);
    struct rnic_device_attr attr = rnic_query_device(w->r);

    g_assert_cmpuint(le16_to_cpu(attr.max_event_count), ==, 65535);
    g_assert_cmpuint(le16_to_cpu(attr.max_event_period), ==, 65535);
    sqe.modify_cq.cqn = cpu_to_le32(w->cq.number);
    sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_MODERATION |
                                     RNIC_CQ_MODIFY_DEPTH);
    g_assert_cmpint(rnic_admin(w->r, &sqe, NULL), ==,
                    RNIC_ST_INVALID_MODIFIER);
    sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_MODERATION);
    sqe.modify_cq.reserved = cpu_to_le32(1);
    g_assert_cmpint(rnic_admin(w->r, &sqe, NULL), ==,
                    RNIC_ST_RESERVED_NOT_ZERO);
    sqe.modify_cq.reserved = 0;
    sqe.modify_cq.cqn = cpu_to_le32(4711);
    g_assert_cmpint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_INVALID_CQ);
    world_free(w);
}

static void test_needs_features(void)
{
    Rnic *r = rnic_boot("", "");
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_CQ);
    RnicCq cq;

    rnic_up_with(r, rnic_features(r) &
                    ~(RNIC_FEATURE_CQ_MODERATION | RNIC_FEATURE_TIMESTAMP |
                      RNIC_FEATURE_IGNORE_OVERRUN));
    g_assert_cmpint(try_create_cq(r, &cq, 16, RNIC_CQ_TIMESTAMP), ==,
                    RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpint(try_create_cq(r, &cq, 16, RNIC_CQ_IGNORE_OVERRUN), ==,
                    RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpint(try_create_cq(r, &cq, 16, 0), ==, RNIC_ST_OK);
    sqe.modify_cq.cqn = cpu_to_le32(cq.number);
    sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_MODERATION);
    g_assert_cmpint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_UNSUPPORTED);
    g_assert_cmphex(qtest_readq(r->qts, r->doorbells.addr + RNIC_DB_CLOCK),
                    ==, 0);
    rnic_quit(r);
}

/* --------------------------------------------------------------- overrun */

static void test_overrun(void)
{
    World *w = world_new(4, RNIC_CQ_IGNORE_OVERRUN);
    struct rnic_cqe ring[4];

    complete(w, 10);
    rnic_expect_no_async(w->r);
    g_assert_cmpint(rnic_qp_state(w->r, &w->c->qp), ==, RNIC_QPS_RTS);
    rnic_mem_read(w->r, w->cq.memory + RNIC_QUEUE_RECORD_SIZE, ring,
                  sizeof(ring));
    /* The newest one of each slot. */
    g_assert_cmpuint(le64_to_cpu(ring[0].wr_id), ==, 8);
    g_assert_cmpuint(le64_to_cpu(ring[1].wr_id), ==, 9);
    g_assert_cmpuint(le64_to_cpu(ring[2].wr_id), ==, 6);
    g_assert_cmpuint(le64_to_cpu(ring[3].wr_id), ==, 7);
    g_assert_cmphex(ring[0].flags & RNIC_CQE_PHASE, ==, RNIC_CQE_PHASE);
    g_assert_cmphex(ring[2].flags & RNIC_CQE_PHASE, ==, 0);
    world_free(w);
}

/* ------------------------------------------------------------ timestamps */

static uint64_t clock_now(World *w)
{
    return qtest_readq(w->r->qts, w->r->doorbells.addr + RNIC_DB_CLOCK);
}

/* The timed CQE number @index of the ring, which is there. */
static struct rnic_timed_cqe timed_cqe(World *w, uint32_t index)
{
    struct rnic_timed_cqe timed;

    rnic_mem_read(w->r, w->cq.memory + RNIC_QUEUE_RECORD_SIZE +
                  (index & (w->cq.depth - 1)) * 64, &timed, sizeof(timed));
    g_assert_cmphex(timed.cqe.flags & RNIC_CQE_PHASE, ==,
                    index & w->cq.depth ? 0 : RNIC_CQE_PHASE);
    rnic_mem_write32(w->r, w->cq.memory +
                     offsetof(struct rnic_cq_record, consumer), index + 1);
    return timed;
}

static void test_timestamps(void)
{
    World *w = world_new(8, RNIC_CQ_TIMESTAMP);
    struct rnic_device_attr attr = rnic_query_device(w->r);

    g_assert_cmpuint(le32_to_cpu(attr.clock_khz), ==, 1000000);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t before = clock_now(w);
        struct rnic_timed_cqe timed;

        complete(w, 1);
        timed = timed_cqe(w, i);
        g_assert_cmpuint(le64_to_cpu(timed.cqe.wr_id), ==, i);
        g_assert_cmpint(timed.cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le64_to_cpu(timed.timestamp), >=, before);
        g_assert_cmpuint(le64_to_cpu(timed.timestamp), <=, clock_now(w));
        g_assert_cmphex(timed.reserved[0] | timed.reserved[1] |
                        timed.reserved[2], ==, 0);
        qtest_clock_step(w->r->qts, 1000);
    }
    rnic_expect_no_async(w->r);
    world_free(w);
}

static uint64_t bad_doorbells(World *w)
{
    return rnic_read32(w->r, RNIC_REG_BAD_DOORBELLS);
}

static void test_clock(void)
{
    World *w = world_new(8, 0);
    uint64_t at = w->r->doorbells.addr + RNIC_DB_CLOCK;
    uint64_t before = clock_now(w), bad = bad_doorbells(w);

    qtest_clock_step(w->r->qts, 123456789);
    g_assert_cmpuint(clock_now(w) - before, >=, 123456789);
    /* Of every page; nowhere else, and in one piece. */
    g_assert_cmpuint(qtest_readq(w->r->qts, at + RNIC_DOORBELL_PAGE_SIZE), >,
                     before);
    g_assert_cmphex(qtest_readl(w->r->qts, at), ==, 0);
    g_assert_cmphex(qtest_readq(w->r->qts, at + 8), ==, 0);
    g_assert_cmphex(qtest_readq(w->r->qts, at - 8), ==, 0);
    qtest_writel(w->r->qts, at, 1);
    qtest_writeq(w->r->qts, at, 1);
    g_assert_cmpuint(bad_doorbells(w), ==, bad + 2);
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/cq-options/by-count", test_by_count);
    qtest_add_func("/rnic/cq-options/by-time", test_by_time);
    qtest_add_func("/rnic/cq-options/not-held", test_not_held);
    qtest_add_func("/rnic/cq-options/held-and-resized",
                   test_held_and_resized);
    qtest_add_func("/rnic/cq-options/modify-refused", test_modify_refused);
    qtest_add_func("/rnic/cq-options/needs-features", test_needs_features);
    qtest_add_func("/rnic/cq-options/overrun", test_overrun);
    qtest_add_func("/rnic/cq-options/timestamps", test_timestamps);
    qtest_add_func("/rnic/cq-options/clock", test_clock);
    return g_test_run();
}
