/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: completion events, from their queues to the users of CQs.
 */
#ifndef RNIC_COMPLETION_H
#define RNIC_COMPLETION_H

#include <linux/workqueue.h>

struct rnic_dev;
struct rnic_eq;

/* For the interrupt of the queue's vector. Takes the queue's lock. */
void rnic_completions_interrupt(struct rnic_eq *eq);

/* What the queue's more_work does. */
void rnic_completions_more_work(struct work_struct *work);

/*
 * Takes the completion events that the device has written so far. Call it before a new
 * CQ can be found by its number: an earlier one may have had that number, and its events
 * reach nothing then. Takes the locks of the queues. Sleeps.
 */
void rnic_completions_take_old(struct rnic_dev *dev);

#endif /* RNIC_COMPLETION_H */
