/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: asynchronous events.
 */
#ifndef RNIC_ASYNC_H
#define RNIC_ASYNC_H

#include "rnic-hw.h"

struct rnic_dev;

void rnic_async_event(struct rnic_dev *dev, const struct rnic_aeqe *event);

/* An event of the port or of the whole device, to whoever listens. */
void rnic_dispatch_event(struct rnic_dev *dev, int ib_event);

#endif /* RNIC_ASYNC_H */
