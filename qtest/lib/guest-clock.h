/*
 * The guest's clock, which the test moves unless the machine runs
 *
 * QEMU's qtest accelerator leaves the virtual clock to the test. With another
 * one it runs by itself, and nobody can step it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_GUEST_CLOCK_H
#define RNIC_QTEST_GUEST_CLOCK_H

#include "tests/qtest/libqtest.h"

/* Tells of the machine that is booted next: its clock runs by itself. */
void guest_clock_set_running(bool running);

/* Lets @nanoseconds pass on a clock that does not run by itself. */
void guest_clock_step(QTestState *qts, int64_t nanoseconds);

#endif
