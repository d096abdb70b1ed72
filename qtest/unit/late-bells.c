/*
 * Unit tests of the bells that are rung late
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "block/aio.h"
#include "qapi/error.h"
#include "qemu/units.h"

#include "hw/rnic/stream/late-bells.h"

enum {
    BELLS = 8,
    LATE = 1536 * KiB,
};

typedef struct World {
    AioContext *ctx;
    RnicLateBells bells;
    RnicLateBell bell[BELLS];
    GString *rung;              /* a digit for each, in order */
} World;

static World world;

static void ring(RnicLateBell *bell)
{
    /* It may be due again at once. */
    g_assert_false(bell->due);
    g_string_append_printf(world.rung, "%u", (unsigned)(bell - world.bell));
}

static void world_init(void)
{
    world = (World) {
        .ctx = aio_context_new(&error_abort),
        .rung = g_string_new(NULL),
    };
    for (unsigned i = 0; i < BELLS; i++) {
        world.bell[i].ring = ring;
    }
    rnic_late_bells_init(&world.bells, world.ctx);
}

static void world_cleanup(void)
{
    rnic_late_bells_destroy(&world.bells);
    aio_context_unref(world.ctx);
    g_string_free(world.rung, true);
}

static void add(unsigned i)
{
    rnic_late_bells_add(&world.bells, &world.bell[i]);
}

static void written(size_t n)
{
    rnic_late_bells_written(&world.bells, n);
}

static void come_round(void)
{
    aio_bh_poll(world.ctx);
}

static void check_rung(const char *bells)
{
    g_assert_cmpstr(world.rung->str, ==, bells);
}

/* Each after so much has been written behind it. */
static void test_by_octets(void)
{
    world_init();
    written(100 * MiB);
    add(3);
    written(1 * MiB);
    add(1);
    add(3);
    written(512 * KiB - 1);
    check_rung("");
    written(1);
    check_rung("3");
    written(1 * MiB - 1);
    check_rung("3");
    add(3);
    written(1);
    check_rung("31");
    add(5);
    add(4);
    written(LATE);
    check_rung("31354");
    written(10 * LATE);
    come_round();
    come_round();
    check_rung("31354");
    world_cleanup();
}

/* As long as something is written there are others to wait for, then not. */
static void test_by_rounds(void)
{
    world_init();
    for (unsigned i = 0; i < BELLS; i++) {
        written(1000);
        add(i);
        come_round();
        check_rung("");
    }
    come_round();
    check_rung("01234567");
    /* Where nothing is written at all. */
    add(2);
    come_round();
    check_rung("012345672");
    /* Nor does the loop come round for nothing. */
    written(1000);
    g_assert_cmpint(0, ==, aio_bh_poll(world.ctx));
    world_cleanup();
}

static void test_remove(void)
{
    world_init();
    add(0);
    add(1);
    add(2);
    rnic_late_bells_remove(&world.bells, &world.bell[1]);
    rnic_late_bells_remove(&world.bells, &world.bell[1]);
    rnic_late_bells_remove(&world.bells, &world.bell[7]);
    written(LATE);
    check_rung("02");
    add(1);
    rnic_late_bells_remove(&world.bells, &world.bell[1]);
    come_round();
    come_round();
    check_rung("02");
    world_cleanup();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rnic/late-bells/by-octets", test_by_octets);
    g_test_add_func("/rnic/late-bells/by-rounds", test_by_rounds);
    g_test_add_func("/rnic/late-bells/remove", test_remove);
    return g_test_run();
}
