/*
 * Unit tests of the count of a worker's busy streams
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"

#include "hw/rnic/stream/busy-streams.h"

enum {
    STREAMS = 16,
    ROUND_NS = SCALE_MS,        /* each of them carries something in it */
};

typedef struct World {
    RnicBusyStreams busy;
    unsigned period[STREAMS];
    int64_t now;
    unsigned count;             /* as the last one was told */
} World;

static World world_new(void)
{
    return (World) { .now = 123456789 };
}

static void carry(World *w, unsigned stream)
{
    w->count = rnic_busy_streams(&w->busy, &w->period[stream], w->now);
}

/* The first @streams do, one after the other, for @ms. */
static void all_carry(World *w, unsigned streams, unsigned ms)
{
    for (int64_t end = w->now + ms * SCALE_MS; w->now < end;) {
        for (unsigned i = 0; i < streams; i++) {
            carry(w, i);
            w->now += ROUND_NS / streams;
        }
    }
}

static void test_alone(void)
{
    World w = world_new();

    for (unsigned i = 0; i < 1000; i++) {
        carry(&w, 3);
        g_assert_cmpuint(w.count, ==, 1);
        w.now += 77 * SCALE_US;
    }
}

static void test_each_once(void)
{
    World w = world_new();

    for (unsigned i = 0; i < STREAMS; i++) {
        carry(&w, i);
        carry(&w, i);
        g_assert_cmpuint(w.count, ==, i + 1);
    }
}

/* A new period does not begin with one. */
static void test_stays(void)
{
    World w = world_new();

    all_carry(&w, STREAMS, 5);
    for (unsigned i = 0; i < 200; i++) {
        all_carry(&w, STREAMS, 1);
        g_assert_cmpuint(w.count, ==, STREAMS);
    }
}

static void test_fewer(void)
{
    World w = world_new();

    all_carry(&w, STREAMS, 100);
    all_carry(&w, 5, 300);
    g_assert_cmpuint(w.count, ==, 5);
    all_carry(&w, 1, 300);
    g_assert_cmpuint(w.count, ==, 1);
}

/* Those of before a pause do not count. */
static void test_after_a_pause(void)
{
    World w = world_new();

    all_carry(&w, STREAMS, 100);
    w.now += 60LL * 1000 * SCALE_MS;
    carry(&w, 0);
    g_assert_cmpuint(w.count, ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rnic/busy-streams/alone", test_alone);
    g_test_add_func("/rnic/busy-streams/each-once", test_each_once);
    g_test_add_func("/rnic/busy-streams/stays", test_stays);
    g_test_add_func("/rnic/busy-streams/fewer", test_fewer);
    g_test_add_func("/rnic/busy-streams/after-a-pause", test_after_a_pause);
    return g_test_run();
}
