/*
 * Unit tests of the threads that keep apart: when one leaves, and how
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"

#include "hw/rnic/stream/keep-apart.h"

enum {
    IN_A_ROW = 16,
    SELDOM_NS = 20 * SCALE_MS,
};

static const int64_t start = 123456789;

/* How often it is time to leave, in @times meetings @apart_ns apart. */
static unsigned meet(RnicKeepApart *apart, unsigned times, int64_t apart_ns)
{
    unsigned due = 0;

    for (unsigned i = 0; i < times; i++) {
        due += rnic_keep_apart_due(apart, 3, 3, start + i * apart_ns);
    }
    return due;
}

static void test_apart(void)
{
    RnicKeepApart apart = { };

    for (unsigned i = 0; i < 1000; i++) {
        g_assert_false(rnic_keep_apart_due(&apart, i % 2, 2, start + i));
        g_assert_false(rnic_keep_apart_due(&apart, i % 2, -1, start + i));
        g_assert_false(rnic_keep_apart_due(&apart, -1, -1, start + i));
    }
}

static void test_time_and_again(void)
{
    RnicKeepApart apart = { };

    g_assert_cmpuint(meet(&apart, IN_A_ROW - 1, 1000), ==, 0);
    g_assert_true(rnic_keep_apart_due(&apart, 3, 3, start));
}

/* Somewhere else in between: from the beginning. */
static void test_in_a_row(void)
{
    RnicKeepApart apart = { };

    for (unsigned i = 0; i < 100; i++) {
        g_assert_cmpuint(meet(&apart, IN_A_ROW - 1, 1000), ==, 0);
        g_assert_false(rnic_keep_apart_due(&apart, 2, 3, start));
    }
    g_assert_cmpuint(meet(&apart, IN_A_ROW, 1000), ==, 1);
}

static void test_seldom(void)
{
    RnicKeepApart apart = { };

    g_assert_cmpuint(meet(&apart, 100 * 1000, SCALE_US), >=, 4);
    apart = (RnicKeepApart) { };
    g_assert_cmpuint(meet(&apart, 100 * 1000, SCALE_US), <=,
                     100 * SCALE_MS / SELDOM_NS);
}

#ifdef CONFIG_LINUX

static cpu_set_t permitted(void)
{
    cpu_set_t set;

    g_assert_cmpint(sched_getaffinity(0, sizeof(set), &set), ==, 0);
    return set;
}

/* It may still go wherever it might go before. */
static void test_leaves(void)
{
    cpu_set_t before = permitted();
    unsigned left = 0;

    if (CPU_COUNT(&before) < 2) {
        g_test_skip("this host has one processor for it");
        return;
    }
    for (unsigned i = 0; i < 100; i++) {
        int own = rnic_own_processor();
        cpu_set_t after;

        g_assert_true(rnic_leave_processor(own));
        left += rnic_own_processor() != own;
        after = permitted();
        g_assert_true(CPU_EQUAL(&before, &after));
    }
    /* The host may bring it back at once, though not each time. */
    g_assert_cmpuint(left, >, 0);
}

static void test_nowhere_to_go(void)
{
    cpu_set_t before = permitted();
    int own = rnic_own_processor();
    cpu_set_t one, after;

    CPU_ZERO(&one);
    CPU_SET(own, &one);
    g_assert_cmpint(sched_setaffinity(0, sizeof(one), &one), ==, 0);
    g_assert_false(rnic_leave_processor(own));
    after = permitted();
    g_assert_true(CPU_EQUAL(&one, &after));
    g_assert_cmpint(rnic_own_processor(), ==, own);
    g_assert_cmpint(sched_setaffinity(0, sizeof(before), &before), ==, 0);
}

#endif

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rnic/keep-apart/apart", test_apart);
    g_test_add_func("/rnic/keep-apart/time-and-again", test_time_and_again);
    g_test_add_func("/rnic/keep-apart/in-a-row", test_in_a_row);
    g_test_add_func("/rnic/keep-apart/seldom", test_seldom);
#ifdef CONFIG_LINUX
    g_test_add_func("/rnic/keep-apart/leaves", test_leaves);
    g_test_add_func("/rnic/keep-apart/nowhere-to-go", test_nowhere_to_go);
#endif
    return g_test_run();
}
