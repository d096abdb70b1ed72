/*
 * Admin commands in progress: reset, a stopped machine and one another
 *
 * Most commands are done by a worker and answered by the main loop.  Whatever
 * comes in between must find them whole.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "tests/qtest/rnic/lib/connection.h"

enum {
    DEPTH = 1024,
    MANY = 500,
    ROUNDS = 20,
    LONG_PAGES = 4096,
};

static struct rnic_admin_sqe object_command(uint16_t opcode, uint32_t number)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);

    sqe.object.number = cpu_to_le32(number);
    return sqe;
}

static struct rnic_admin_sqe register_page(Rnic *r, uint64_t bus)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.va = cpu_to_le64(bus);
    sqe.register_mr.length = cpu_to_le64(RNIC_TEST_PAGE);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.pages = rnic_pages(r, bus, RNIC_TEST_PAGE);
    return sqe;
}

static void enable_deep(Rnic *r)
{
    rnic_reset(r);
    rnic_enable(r, DEPTH, RNIC_NO_VECTOR, rnic_features(r));
    r->pd = rnic_alloc_pd(r);
}

static void give_registrations(Rnic *r, unsigned count, uint64_t bus)
{
    for (unsigned i = 0; i < count; i++) {
        struct rnic_admin_sqe sqe = register_page(r, bus);

        rnic_admin_fill(r, &sqe);
    }
    rnic_admin_tail(r);
}

/* A reset right behind commands that the worker has done, and that the main loop
 * has not answered yet. */
static void test_registrations_and_reset(void)
{
    Rnic *r = rnic_boot("", "");
    uint64_t bus = rnic_alloc(r, RNIC_TEST_PAGE);

    for (int round = 0; round < ROUNDS; round++) {
        enable_deep(r);
        give_registrations(r, DEPTH - 1, bus);
        g_usleep(round * 50);
    }
    enable_deep(r);
    g_assert_cmpuint(le32_to_cpu(rnic_query_counters(r).stags), ==, 0);
    rnic_quit(r);
}

/* The first is refused, the second one, given before its answer, is not. */
static void test_destroyed_twice(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .enables = RNIC_QP_ENABLE_BIND | RNIC_QP_ENABLE_WRITE |
                   RNIC_QP_ENABLE_READ });
    struct rnic_admin_cqe cqe;
    unsigned gone = 0;

    for (int i = 0; i < 2; i++) {
        struct rnic_admin_sqe sqe = object_command(RNIC_ADMIN_DESTROY_QP,
                                                   c->qp.number);

        rnic_admin_fill(c->r, &sqe);
    }
    rnic_admin_tail(c->r);
    for (int i = 0; i < MANY; i++) {
        rnic_doorbell(c->r, c->qp.doorbell_page, RNIC_DB_SQ, c->qp.number);
    }
    for (int i = 0; i < 2; i++) {
        rnic_admin_completion(c->r, &cqe);
        gone += le16_to_cpu(cqe.status) == RNIC_ST_OK;
    }
    g_assert_cmpuint(gone, ==, 1);
    rnic_assert_alive(c->r);
    connection_free(c);
}

static void stop(Rnic *r)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'stop' }");
}

static void go(Rnic *r)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'cont' }");
}

/* Completions so far, by their phase: all are of the first pass. */
static unsigned completions(Rnic *r, unsigned first)
{
    unsigned n = 0;

    while (rnic_mem_read32(r, r->admin_cq + (first + n) * 64 + 60) &
           RNIC_EQE_PHASE) {
        n++;
    }
    return n;
}

/* Of LONG_PAGES pages, all the same: the worker has something to read. */
static struct rnic_admin_sqe register_long(Rnic *r, uint64_t bus)
{
    struct rnic_admin_sqe sqe = register_page(r, bus);
    uint64_t list = rnic_alloc(r, LONG_PAGES * 8);

    for (uint32_t i = 0; i < LONG_PAGES; i++) {
        rnic_mem_write32(r, list + 8 * i, bus);
        rnic_mem_write32(r, list + 8 * i + 4, bus >> 32);
    }
    sqe.register_mr.length = cpu_to_le64((uint64_t)LONG_PAGES *
                                         RNIC_TEST_PAGE);
    sqe.register_mr.pages.addr = cpu_to_le64(list);
    sqe.register_mr.pages.count = cpu_to_le32(LONG_PAGES);
    sqe.register_mr.pages.level = RNIC_PAGE_LIST_DIRECT;
    return sqe;
}

/* The commands that are in progress at "stop". */
static unsigned registrations_and_stop(Rnic *r, struct rnic_admin_sqe *sqe)
{
    unsigned first, before;

    enable_deep(r);
    sqe->register_mr.pdn = cpu_to_le32(r->pd);
    first = r->admin_head;
    for (int i = 0; i < MANY; i++) {
        rnic_admin_fill(r, sqe);
    }
    rnic_admin_tail(r);
    stop(r);
    before = completions(r, first);
    rnic_settle_fast(r);
    g_assert_cmpuint(completions(r, first), ==, before);
    go(r);
    for (int i = 0; i < MANY; i++) {
        struct rnic_admin_cqe cqe;

        rnic_admin_completion(r, &cqe);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    }
    return MANY - before;
}

/* Nothing of what is in progress at "stop" is lost: all is answered. */
static void test_registrations_and_stop(void)
{
    Rnic *r = rnic_boot("", "");
    uint64_t bus = rnic_alloc(r, RNIC_TEST_PAGE);
    struct rnic_admin_sqe sqe = register_long(r, bus);
    unsigned in_progress = 0;

    for (int round = 0; round < ROUNDS; round++) {
        in_progress += registrations_and_stop(r, &sqe);
    }
    g_assert_cmpuint(in_progress, >, 0);
    rnic_reset(r);
    rnic_quit(r);
}

static struct rnic_admin_sqe connect_command(const RnicQp *qp)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    sqe.connect.qpn = cpu_to_le32(qp->number);
    sqe.connect.local = rnic_addr(wire_guest_ip(1), 0);
    sqe.connect.remote = rnic_addr(wire_guest_ip(3), wire_free_port(3));
    return sqe;
}

/* A command that takes the QP out of Idle is in progress: what its answer will
 * be is not known, so that no connection is begun that it would end. */
static void test_claimed_behind_modify(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) { });

    for (int i = 0; i < ROUNDS; i++) {
        struct rnic_admin_sqe modify = rnic_command(RNIC_ADMIN_MODIFY_QP);
        struct rnic_admin_sqe connect = connect_command(&c->qp);
        struct rnic_admin_cqe cqe;

        modify.modify_qp.qpn = cpu_to_le32(c->qp.number);
        modify.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
        modify.modify_qp.next_state = RNIC_QPS_ERROR;
        rnic_admin_fill(c->r, &modify);
        rnic_admin_fill(c->r, &connect);
        rnic_admin_tail(c->r);
        for (int j = 0; j < 2; j++) {
            rnic_admin_completion(c->r, &cqe);
            g_assert_cmpuint(le16_to_cpu(cqe.status), ==,
                             cqe.command_id == modify.command_id
                             ? RNIC_ST_OK : RNIC_ST_INVALID_STATE_CHANGE);
        }
        rnic_expect_no_cm(c->r);
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE), ==,
                         RNIC_ST_OK);
    }
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/in-progress/registrations-and-reset",
                   test_registrations_and_reset);
    qtest_add_func("rnic/in-progress/destroyed-twice", test_destroyed_twice);
    qtest_add_func("rnic/in-progress/registrations-and-stop",
                   test_registrations_and_stop);
    qtest_add_func("rnic/in-progress/claimed-behind-modify",
                   test_claimed_behind_modify);
    return g_test_run();
}
