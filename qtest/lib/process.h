/*
 * What the QEMU process of a test has of the host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_PROCESS_H
#define RNIC_QTEST_PROCESS_H

#include "tests/qtest/libqtest.h"

/* Octets of memory that are resident, those of the guest's RAM as well. */
uint64_t process_memory(QTestState *qts);

/*
 * Fails the test if QEMU has @limit octets more than @before or more than that.
 * With a sanitizer the limit is wider: its shadow of the memory counts, and freed
 * memory that it keeps.  Returns how much more QEMU has.
 */
int64_t process_assert_growth(QTestState *qts, uint64_t before,
                              uint64_t limit);

/* Open file descriptors. */
unsigned process_descriptors(QTestState *qts);

/* Threads. */
unsigned process_threads(QTestState *qts);

#endif
