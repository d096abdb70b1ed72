/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: asynchronous events.
 */
#ifndef RNIC_ASYNC_H
#define RNIC_ASYNC_H

#include <linux/types.h>

struct rnic_dev;
struct xarray;

/* The next event of the queue, if there is one. */
bool rnic_async_event(struct rnic_dev *dev);

/*
 * Stores the object at a number that is reserved. The events that are in the
 * queue are of an earlier object of that number: they are forgotten.
 */
void rnic_async_store(struct rnic_dev *dev, struct xarray *objects, u8 resource,
		      u32 number, void *object);

/* An event of the port or of the whole device, to whoever listens. */
void rnic_dispatch_event(struct rnic_dev *dev, int ib_event);

#endif /* RNIC_ASYNC_H */
