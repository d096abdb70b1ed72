/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: whether the device still works, and what if not.
 */
#ifndef RNIC_HEALTH_H
#define RNIC_HEALTH_H

#include "rnic.h"

int rnic_health_init(struct rnic_dev *dev);
/* From now on the device is looked at now and then. */
void rnic_health_watch(struct rnic_dev *dev);
void rnic_health_unwatch(struct rnic_dev *dev);
/* When no thread can fail the device any more. */
void rnic_health_free(struct rnic_dev *dev);

/* Looks at the device, and fails it if it is not as it should be. */
void rnic_health_check(struct rnic_dev *dev);

/*
 * Any context. When this returns the device does not touch memory any more. The
 * registers of a device whose bus has stopped are left alone, and its DMA is turned off.
 */
void rnic_reset_at_once(struct rnic_dev *dev);

/*
 * Takes the device out of service. Any context. When this returns the device
 * does not touch memory any more.
 */
void rnic_fail(struct rnic_dev *dev, const char *why);
/*
 * The same for a cause outside of the device: a reload, its PCI function. It is no
 * failure, and none is noted.
 */
void rnic_leave_service(struct rnic_dev *dev, const char *why);
/* The same, and no consumer is told. */
void rnic_silence(struct rnic_dev *dev);

/* After a post: on a failed device the work request has to be found flushed. */
static inline void rnic_health_flush(struct rnic_dev *dev)
{
	if (unlikely(rnic_failed(dev)))
		queue_work(dev->health_wq, &dev->flush_work);
}

#endif /* RNIC_HEALTH_H */
