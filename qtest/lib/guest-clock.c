/*
 * The guest's clock, which the test moves unless the machine runs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"

#include "guest-clock.h"

static bool guest_clock_running;

void guest_clock_set_running(bool running)
{
    guest_clock_running = running;
}

void guest_clock_step(QTestState *qts, int64_t nanoseconds)
{
    if (!guest_clock_running) {
        qtest_clock_step(qts, nanoseconds);
    }
}
