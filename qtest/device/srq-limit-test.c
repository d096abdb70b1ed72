/*
 * rnic: the limit of an S-RQ, armed again, changed while it is armed, beside a new
 * depth, and of an S-RQ that is broken (6.3.8, 9.2.4.3)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/resize.h"

enum { DEPTH = 16 };

typedef struct World {
    Connection *c;              /* its QP receives by the S-RQ */
    Rnic *r;
    RnicSrq srq;
} World;

static void world_init(World *w, uint32_t limit)
{
    RnicSrqInit init;

    *w = (World) { .r = rnic_boot_up(",mpa-rtr=off") };
    init = rnic_srq_default(w->r);
    init.depth = DEPTH;
    init.limit = limit;
    rnic_create_srq(w->r, &w->srq, &init);
    w->c = connection_prepare_on(w->r, &(ConnectionOptions) {
        .srq = &w->srq });
    connection_establish(w->c, NULL);
}

static void world_cleanup(World *w)
{
    connection_free(w->c);
}

static void post(World *w, unsigned n)
{
    while (n--) {
        rnic_post_srq_recv(w->r, &w->srq, 7, 0, NULL);
    }
}

static void receive(World *w, unsigned n)
{
    while (n--) {
        wire_put_send(w->c->peer, WIRE_SEND, 0, NULL, 0);
        rnic_expect_cqe(w->r, &w->c->recv_cq, 7, RNIC_WC_SUCCESS);
    }
}

static void arm(World *w, uint32_t limit)
{
    g_assert_cmpuint(rnic_modify_srq_limit(w->r, &w->srq, limit), ==,
                     RNIC_ST_OK);
}

static void assert_limit(World *w, uint32_t limit, bool armed)
{
    struct rnic_admin_cqe cqe = rnic_query_srq(w->r, &w->srq);

    g_assert_cmpuint(le32_to_cpu(cqe.srq.limit), ==, limit);
    g_assert_cmpuint(cqe.srq.limit_armed, ==, armed);
}

static void expect_no_event(World *w)
{
    rnic_settle(w->r);
    rnic_expect_no_async(w->r);
}

/* One, of this limit, which is armed no longer. */
static void expect_event(World *w, uint32_t limit)
{
    rnic_expect_async(w->r, RNIC_AE_SRQ_LIMIT, w->srq.number);
    assert_limit(w, limit, false);
    expect_no_event(w);
}

/* The value that it had: armed again by it after each event, and twice is once. */
static void test_same_value(void)
{
    World w;

    world_init(&w, 3);
    post(&w, 3);
    for (int round = 0; round < 3; round++) {
        assert_limit(&w, 3, true);
        receive(&w, 1);
        expect_event(&w, 3);
        post(&w, 1);
        arm(&w, 3);
    }
    arm(&w, 3);
    receive(&w, 1);
    expect_event(&w, 3);
    receive(&w, 1);
    expect_no_event(&w);
    world_cleanup(&w);
    rnic_shows("V6.3.8-3 V9.2.4.2-2 V9.2.4.3-3");
}

/* One that is armed gives way to a lower one as to a higher one. */
static void test_changed_while_armed(void)
{
    World w;

    world_init(&w, 6);
    post(&w, 8);
    arm(&w, 2);
    assert_limit(&w, 2, true);
    receive(&w, 6);             /* 2 are left */
    expect_no_event(&w);
    arm(&w, 5);
    post(&w, 4);
    receive(&w, 1);             /* 5 */
    expect_no_event(&w);
    receive(&w, 1);
    expect_event(&w, 5);
    world_cleanup(&w);
    rnic_shows("V9.2.4.3-2");
}

static void resize(World *w, uint32_t depth, uint16_t status)
{
    g_assert_cmpuint(resize_srq(w->r, &w->srq, depth), ==, status);
}

/*
 * A new depth alone neither arms nor disarms: the limit counts in the new ring. No
 * depth below it as long as it is armed; afterwards it is in no depth's way.
 */
static void test_depth_alone(void)
{
    World w;

    world_init(&w, 4);
    g_assert_cmpuint(rnic_modify_srq_limit(w.r, &w.srq, 0x10001), ==,
                     RNIC_ST_SRQ_LIMIT_RANGE);
    resize(&w, 2, RNIC_ST_INVALID_MODIFIER);
    assert_limit(&w, 4, true);
    resize(&w, 4, RNIC_ST_OK);
    assert_limit(&w, 4, true);
    resize(&w, 8, RNIC_ST_OK);
    assert_limit(&w, 4, true);
    post(&w, 5);
    receive(&w, 1);             /* 4 */
    expect_no_event(&w);
    receive(&w, 1);
    expect_event(&w, 4);
    receive(&w, 1);             /* 2 */
    resize(&w, 2, RNIC_ST_OK);
    assert_limit(&w, 4, false);
    receive(&w, 2);
    expect_no_event(&w);
    world_cleanup(&w);
    rnic_shows("V6.3.2-1 V6.3.8-2 V6.3.8-4 V9.2.4.2-2 V9.2.4.3-1 V9.2.4.3-6");
}

/* With a depth that is too small for what is posted a good limit is refused, too. */
static void test_refused_with_depth(void)
{
    static const uint32_t limits[] = { 0, 5 };
    struct rnic_admin_cqe before, after;
    struct rnic_admin_sqe sqe;
    RnicSrq next;
    World w;

    world_init(&w, 3);
    post(&w, 9);
    before = rnic_query_srq(w.r, &w.srq);
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        sqe = resize_srq_command(w.r, &w.srq, 8, &next);
        sqe.create_srq.mask |= RNIC_SRQ_MODIFY_LIMIT;
        sqe.create_srq.limit = cpu_to_le32(limits[i]);
        g_assert_cmpuint(rnic_admin(w.r, &sqe, NULL), ==,
                         RNIC_ST_SHRINK_TOO_SMALL);
        after = rnic_query_srq(w.r, &w.srq);
        g_assert_cmpmem(&after.srq, sizeof(after.srq), &before.srq,
                        sizeof(before.srq));
    }
    receive(&w, 6);             /* 3 */
    expect_no_event(&w);
    receive(&w, 1);
    expect_event(&w, 3);
    world_cleanup(&w);
    rnic_shows("V8.3.1-4 V9.2.4.3-4");
}

/* The WQE is a good one; only for the limit the device looks at the ring again. */
static void test_catastrophic(void)
{
    struct rnic_aeqe event;
    World w;

    world_init(&w, 0);
    post(&w, 2);
    receive(&w, 1);             /* the device has seen both */
    arm(&w, 2);
    rnic_mem_write32(w.r, w.srq.memory +
                     offsetof(struct rnic_srq_record, producer), 0x80000000);
    wire_put_send(w.c->peer, WIRE_SEND, 0, NULL, 0);
    event = rnic_expect_async(w.r, RNIC_AE_SRQ_CATASTROPHIC, w.srq.number);
    g_assert_cmpint(event.resource, ==, RNIC_RESOURCE_SRQ);
    rnic_expect_async(w.r, RNIC_AE_SRQ_QP_ERROR, w.c->qp.number);
    wire_expect_terminate(w.c->peer, 0x0207);
    g_assert_cmpuint(rnic_query_srq(w.r, &w.srq).srq.failed, ==, 1);
    expect_no_event(&w);
    rnic_expect_no_cqe(w.r, &w.c->recv_cq);
    world_cleanup(&w);
    rnic_shows("V9.5.3-36");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/srq-limit/same-value", test_same_value);
    qtest_add_func("rnic/srq-limit/changed-while-armed",
                   test_changed_while_armed);
    qtest_add_func("rnic/srq-limit/depth-alone", test_depth_alone);
    qtest_add_func("rnic/srq-limit/refused-with-depth",
                   test_refused_with_depth);
    qtest_add_func("rnic/srq-limit/catastrophic", test_catastrophic);
    return g_test_run();
}
