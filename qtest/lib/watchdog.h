/*
 * A bound on the time of a test whose QEMU may hang
 *
 * A test waits for QEMU in reads of sockets that have no time-out. When the
 * time is over, a thread says so and kills QEMU; the read of the test then
 * ends, and with it the test.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_WATCHDOG_H
#define RNIC_QTEST_WATCHDOG_H

#include "tests/qtest/libqtest.h"

typedef struct Watchdog Watchdog;

/* RNIC_TEST_PATIENCE of the environment, at least 1. */
double watchdog_patience(void);

/*
 * QEMU of @qts is killed unless watchdog_free() comes within @seconds times the
 * patience. @what tells what the test waits for.
 */
Watchdog *watchdog_new(QTestState *qts, unsigned seconds, const char *what);
void watchdog_free(Watchdog *dog);

#endif
