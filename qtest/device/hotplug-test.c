/*
 * rnic: device_add and device_del in full traffic
 *
 * The machine is an i440FX: the test writes the ACPI hot-plug controller's
 * registers, as the guest's firmware tables do, to let a device go.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/units.h"
#include "qobject/qdict.h"

#include "tests/qtest/rnic/lib/crowd.h"
#include "tests/qtest/rnic/lib/process.h"
#include "tests/qtest/rnic/lib/watchdog.h"

#define PCI_HOTPLUG_SELECT 0xae10
#define PCI_HOTPLUG_EJECT 0xae08

enum {
    ROUNDS = 100,
    WARM_UP = 5,                /* what QEMU allocates once is there then */
    QPS = 4,
    HANG_SECONDS = 110,
    SENDER_MEMORY = 192 * 1024 * 1024,
};

typedef struct World {
    Crowd *crowd;
    QTestState *qts;
    uint64_t memory;            /* of the listener, where each round begins */
    unsigned plugged;           /* times */
    uint64_t bars;              /* where those of the plugged device are */
    Watchdog *dog;
} World;

static World *world_new(void)
{
    World *w = g_new0(World, 1);

    w->crowd = crowd_new("-machine pc", 0);
    w->qts = w->crowd->listener->qts;
    w->memory = w->crowd->listener->next_free;
    w->bars = w->crowd->listener->pci->mmio_alloc_ptr;
    w->dog = watchdog_new(w->qts, HANG_SECONDS, "hot-plug");
    return w;
}

static void world_free(World *w)
{
    crowd_free(w->crowd);
    watchdog_free(w->dog);
    g_free(w);
}

/* The guest's memory is as new. */
static void prepare_round(World *w)
{
    Rnic *r = w->crowd->listener;

    rnic_reset(r);
    rnic_mem_fill(r, w->memory, 0, r->next_free - w->memory);
    rnic_mem_fill(r, SENDER_MEMORY, 0, 8 * MiB);
    r->next_free = w->memory;
    r->scratch = 0;
    r->pci->mmio_alloc_ptr = w->bars;
    rnic_up(r);
}

/* Without a thread of its own, with one, with several: one after the other. */
static void plug(World *w)
{
    g_autofree char *slot = g_strdup_printf("%d", CROWD_SLOT);
    static const int threads[] = { 0, 1, 3 };

    qtest_qmp_assert_success(w->qts, "{ 'execute': 'device_add', 'arguments':"
                             " { 'driver': 'rnic', 'id': 'sender', 'addr': %s,"
                             " 'fabric': 'crowd', 'io-threads': %d } }",
                             slot, threads[w->plugged++ % 3]);
}

static void wait_deleted(World *w)
{
    for (;;) {
        QDict *event = qtest_qmp_eventwait_ref(w->qts, "DEVICE_DELETED");
        const char *device = qdict_get_try_str(qdict_get_qdict(event, "data"),
                                               "device");
        bool ours = g_strcmp0(device, "sender") == 0;

        qobject_unref(event);
        if (ours) {
            return;
        }
    }
}

static void unplug(World *w)
{
    qtest_qmp_assert_success(w->qts, "{ 'execute': 'device_del', 'arguments':"
                             " { 'id': 'sender' } }");
    qtest_outl(w->qts, PCI_HOTPLUG_SELECT, 0);
    qtest_outl(w->qts, PCI_HOTPLUG_EJECT, 1u << CROWD_SLOT);
    wait_deleted(w);
    crowd_forget_sender(w->crowd);
}

static void plug_busy(World *w)
{
    prepare_round(w);
    plug(w);
    crowd_take_sender(w->crowd);
    crowd_connect(w->crowd, QPS);
    crowd_send(w->crowd);
    crowd_assert_busy(w->crowd);
}

static void test_in_full_traffic(void)
{
    World *w = world_new();
    unsigned descriptors = 0, threads = 0;
    uint64_t memory = 0;

    for (int i = 0; i < ROUNDS; i++) {
        plug_busy(w);
        unplug(w);
        RNIC_UNTIL(w->crowd->listener, rnic_query_counters(
                       w->crowd->listener).endpoints == 0);
        if (i == WARM_UP) {
            prepare_round(w);
            descriptors = process_descriptors(w->qts);
            threads = process_threads(w->qts);
            memory = process_memory(w->qts);
        }
    }
    prepare_round(w);
    g_assert_cmpuint(process_descriptors(w->qts), ==, descriptors);
    g_assert_cmpuint(process_threads(w->qts), ==, threads);
    process_assert_growth(w->qts, memory, 32 * MiB);
    world_free(w);
}

/* The listener is reset in every other round, before the sender goes. */
static void test_with_reset_of_the_peer(void)
{
    World *w = world_new();

    for (int i = 0; i < 10; i++) {
        plug_busy(w);
        if (i & 1) {
            rnic_reset(w->crowd->listener);
            rnic_up(w->crowd->listener);
        }
        unplug(w);
    }
    world_free(w);
}

/* A device that comes while the machine is stopped works after cont. */
static void test_plugged_while_stopped(void)
{
    World *w = world_new();

    prepare_round(w);
    qtest_qmp_assert_success(w->qts, "{ 'execute': 'stop' }");
    plug(w);
    qtest_qmp_assert_success(w->qts, "{ 'execute': 'cont' }");
    crowd_take_sender(w->crowd);
    crowd_connect(w->crowd, QPS);
    crowd_send(w->crowd);
    crowd_assert_busy(w->crowd);
    /* It goes while the machine is stopped, too. */
    qtest_qmp_assert_success(w->qts, "{ 'execute': 'stop' }");
    unplug(w);
    qtest_qmp_assert_success(w->qts, "{ 'execute': 'cont' }");
    plug_busy(w);
    unplug(w);
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/hot-plug/in-full-traffic", test_in_full_traffic);
    qtest_add_func("rnic/hot-plug/with-reset-of-the-peer",
                   test_with_reset_of_the_peer);
    qtest_add_func("rnic/hot-plug/while-stopped", test_plugged_while_stopped);
    return g_test_run();
}
