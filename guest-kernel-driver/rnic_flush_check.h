/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: queue pairs of the kernel that the device does not flush.
 */
#ifndef RNIC_FLUSH_CHECK_H
#define RNIC_FLUSH_CHECK_H

struct rnic_dev;

/* Now and then, by one thread at a time; sleeps, as it asks the device. */
void rnic_flush_check(struct rnic_dev *dev);

#endif /* RNIC_FLUSH_CHECK_H */
