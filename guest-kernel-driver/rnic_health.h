/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: whether the device still works, and what if not.
 */
#ifndef RNIC_HEALTH_H
#define RNIC_HEALTH_H

struct rnic_dev;

void rnic_health_init(struct rnic_dev *dev);
/* From now on the device is looked at now and then. */
void rnic_health_watch(struct rnic_dev *dev);
void rnic_health_unwatch(struct rnic_dev *dev);
/* When no thread can fail the device any more. */
void rnic_health_free(struct rnic_dev *dev);

/* Looks at the device, and fails it if it is not as it should be. */
void rnic_health_check(struct rnic_dev *dev);

/* Takes the device out of service. Any context. */
void rnic_fail(struct rnic_dev *dev, const char *why);
/* The same without a word to anybody. */
void rnic_silence(struct rnic_dev *dev);

#endif /* RNIC_HEALTH_H */
