/*
 * rnic: how long QEMU's main loop is held by what the guest asks for
 *
 * A second monitor is asked all the time; its longest round trip is the
 * longest time that the main loop did nothing else. 1,000 QPs are busy.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/crowd.h"
#include "tests/qtest/rnic/lib/monitor-probe.h"
#include "tests/qtest/rnic/lib/watchdog.h"

enum {
    QPS = 1000,
    MANY = 250,                 /* of them, by a command each */
    /*
     * On a host with nothing else to do it is below 100; one that is busy with
     * other things adds to that.  To wait for queue pairs one by one takes seconds
     * on any.
     */
    LIMIT_MILLISECONDS = 1000,
    HANG_SECONDS = 60,
};

typedef struct Held {
    MonitorProbe *probe;
    Crowd *crowd;
} Held;

typedef struct Disturbance {
    const char *name;
    const char *arguments;      /* of QEMU */
    void (*disturb)(Held *held);
} Disturbance;

/* What the host, and the traffic, do by themselves, in a second. */
static double hold_anyway(MonitorProbe *probe)
{
    monitor_probe_begin(probe);
    g_usleep(G_USEC_PER_SEC);
    return monitor_probe_end(probe);
}

static void report(double longest, double anyway, const char *what)
{
    printf("# main loop held at most %.1f ms during %s, %.1f ms in the second "
           "before\n", longest, what, anyway);
    fflush(stdout);
}

static double hold_once(const Disturbance *what)
{
    Held held = { .probe = monitor_probe_new() };
    g_autofree char *arguments =
        g_strdup_printf("%s %s", monitor_probe_arguments(held.probe),
                        what->arguments);
    gint64 start = g_get_monotonic_time();
    double longest, anyway;
    Watchdog *dog;

    held.crowd = crowd_new(arguments, 1);
    monitor_probe_start(held.probe);
    crowd_connect(held.crowd, QPS);
    crowd_send(held.crowd);
    crowd_assert_busy(held.crowd);
    g_test_message("%d QPs busy after %.1f s", QPS,
                   (g_get_monotonic_time() - start) / 1e6);
    dog = watchdog_new(held.crowd->listener->qts, HANG_SECONDS, what->name);
    anyway = hold_anyway(held.probe);
    monitor_probe_begin(held.probe);
    what->disturb(&held);
    longest = monitor_probe_end(held.probe);
    rnic_assert_alive(held.crowd->listener);
    monitor_probe_stop(held.probe);
    crowd_free(held.crowd);
    watchdog_free(dog);
    monitor_probe_free(held.probe);
    report(longest, anyway, what->name);
    return longest;
}

static void hold_assert_short(double longest)
{
    g_assert_cmpfloat(longest, <=, LIMIT_MILLISECONDS * watchdog_patience());
}

static void hold(const Disturbance *what)
{
    hold_assert_short(hold_once(what));
}

/* ------------------------------------------------------------------- resets */

static void do_reset(Held *held)
{
    rnic_reset(held->crowd->sender);
}

static void test_reset(void)
{
    hold(&(Disturbance) { "a reset by register", "", do_reset });
}

static void do_flr(Held *held)
{
    rnic_flr(held->crowd->sender);
}

static void test_flr(void)
{
    hold(&(Disturbance) { "a Function Level Reset", "", do_flr });
}

/* The receiver's QPs are as busy as the sender's. */
static void do_reset_receiver(Held *held)
{
    rnic_reset(held->crowd->listener);
}

static void test_reset_receiver(void)
{
    hold(&(Disturbance) { "a reset of the receiver", "", do_reset_receiver });
}

/* Registers of the i440FX machine's ACPI hot-plug controller. */
#define PCI_HOTPLUG_SELECT 0xae10
#define PCI_HOTPLUG_EJECT 0xae08

static void do_unplug(Held *held)
{
    Crowd *crowd = held->crowd;
    QTestState *qts = crowd->listener->qts;

    qtest_qmp_assert_success(qts, "{ 'execute': 'device_del', 'arguments': "
                             "{ 'id': 'sender' } }");
    qtest_outl(qts, PCI_HOTPLUG_SELECT, 0);
    qtest_outl(qts, PCI_HOTPLUG_EJECT, 1u << CROWD_SLOT);
    qtest_qmp_eventwait(qts, "DEVICE_DELETED");
    crowd_forget_sender(crowd);
}

static void test_unplug(void)
{
    hold(&(Disturbance) { "an unplug", "-machine pc", do_unplug });
}

/* -------------------------------------------------------------------- QPs */

static void do_destroy(Held *held)
{
    Crowd *crowd = held->crowd;
    g_autofree struct rnic_admin_sqe *sqe = g_new(struct rnic_admin_sqe, MANY);
    g_autofree struct rnic_admin_cqe *cqe = g_new(struct rnic_admin_cqe, MANY);

    for (unsigned i = 0; i < MANY; i++) {
        sqe[i] = rnic_command(RNIC_ADMIN_DESTROY_QP);
        sqe[i].object.number = cpu_to_le32(crowd->qps[i].number);
    }
    rnic_admin_many(crowd->sender, sqe, MANY, cqe);
    for (unsigned i = 0; i < MANY; i++) {
        g_assert_cmpuint(le16_to_cpu(cqe[i].status), ==, RNIC_ST_OK);
    }
}

static void test_destroy(void)
{
    hold(&(Disturbance) { "the destruction of 250 QPs", "", do_destroy });
}

static void do_modify(Held *held)
{
    Crowd *crowd = held->crowd;
    g_autofree struct rnic_admin_sqe *sqe = g_new(struct rnic_admin_sqe, MANY);
    g_autofree struct rnic_admin_cqe *cqe = g_new(struct rnic_admin_cqe, MANY);

    for (unsigned i = 0; i < MANY; i++) {
        sqe[i] = rnic_command(RNIC_ADMIN_MODIFY_QP);
        sqe[i].modify_qp.qpn = cpu_to_le32(crowd->qps[i].number);
        sqe[i].modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
        sqe[i].modify_qp.next_state = RNIC_QPS_ERROR;
    }
    rnic_admin_many(crowd->sender, sqe, MANY, cqe);
    for (unsigned i = 0; i < MANY; i++) {
        g_assert_cmpuint(le16_to_cpu(cqe[i].status), ==, RNIC_ST_OK);
    }
}

static void test_modify(void)
{
    hold(&(Disturbance) { "250 QPs' way to Error", "", do_modify });
}

/* ---------------------------------------------------------------- regions */

/* 64 Mi pages, of which the last one is not aligned. */
static void register_in_vain(Rnic *r)
{
    enum { TIMES = 4, CHUNKS = 128 * 1024 };
    struct rnic_admin_sqe sqe[TIMES];
    struct rnic_admin_cqe cqe[TIMES];

    sqe[0] = rnic_command(RNIC_ADMIN_REGISTER_MR);
    sqe[0].register_mr.pdn = cpu_to_le32(r->pd);
    sqe[0].register_mr.length = cpu_to_le64(256ULL << 30);
    sqe[0].register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe[0].register_mr.pages = rnic_long_list(r, CHUNKS, true);
    for (int i = 1; i < TIMES; i++) {
        sqe[i] = sqe[0];
    }
    rnic_admin_many(r, sqe, TIMES, cqe);
    for (int i = 0; i < TIMES; i++) {
        g_assert_cmpuint(le16_to_cpu(cqe[i].status), ==,
                         RNIC_ST_INVALID_PBL_ENTRY);
    }
}

static double register_once(void)
{
    MonitorProbe *probe = monitor_probe_new();
    Rnic *r = rnic_boot("", monitor_probe_arguments(probe));
    Watchdog *dog = watchdog_new(r->qts, HANG_SECONDS, "a registration");
    double longest, anyway;

    rnic_up(r);
    monitor_probe_start(probe);
    anyway = hold_anyway(probe);
    monitor_probe_begin(probe);
    register_in_vain(r);
    longest = monitor_probe_end(probe);
    monitor_probe_stop(probe);
    rnic_quit(r);
    watchdog_free(dog);
    monitor_probe_free(probe);
    report(longest, anyway,
           "the registration of 64 Mi pages that fails at the last");
    return longest;
}

static void test_register(void)
{
    hold_assert_short(register_once());
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/main-loop-held/reset", test_reset);
    qtest_add_func("rnic/main-loop-held/flr", test_flr);
    qtest_add_func("rnic/main-loop-held/reset-receiver", test_reset_receiver);
    qtest_add_func("rnic/main-loop-held/unplug", test_unplug);
    qtest_add_func("rnic/main-loop-held/destroy", test_destroy);
    qtest_add_func("rnic/main-loop-held/modify", test_modify);
    qtest_add_func("rnic/main-loop-held/register", test_register);
    return g_test_run();
}
