/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: event queues, and the interrupts that announce them.
 */
#ifndef RNIC_EQ_H
#define RNIC_EQ_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "rnic-hw.h"
#include "rnic_queue_memory.h"

struct cpumask;
struct ib_device;
struct rnic_dev;

/* Slots of a completion event queue, and so CQs: one MiB. */
#define RNIC_MAX_COMP_EQ_DEPTH	65536

struct rnic_eq {
	struct rnic_dev *dev;
	u32 eqn;
	u32 depth;
	u32 entry_size;
	u32 ring_offset;
	/* Of consumer and entries. cm_eq needs none: event_work alone takes from it. */
	spinlock_t lock;
	u32 consumer;
	bool ready;		/* exists; interrupts look at this first */
	struct work_struct more_work;	/* of completion queues: more than one turn */
	struct rnic_queue queue;
};

/*
 * The entry that is so many behind the next one; NULL: it is not there yet. With lock
 * held; without it the answer only says whether to look again with it.
 */
void *rnic_eq_peek(const struct rnic_eq *eq, u32 behind);
/*
 * Copies the next event and tells the device that it is consumed: from then
 * on the device may reuse the entry, and only then the event may be acted on. With lock
 * held, except that of cm_eq.
 */
bool rnic_eq_take(struct rnic_eq *eq, void *event);

/* Now and then: takes what is in the queues although no interrupt came. Sleeps. */
void rnic_eqs_check(struct rnic_dev *dev);

int rnic_vectors_init(struct rnic_dev *dev);
void rnic_vectors_free(struct rnic_dev *dev);

/* Which CPUs are told of the completions of CQs with that comp_vector. */
const struct cpumask *rnic_get_vector_affinity(struct ib_device *ibdev,
					       int comp_vector);

/* The queues for asynchronous, connection and completion events. */
int rnic_eqs_create(struct rnic_dev *dev);
void rnic_eqs_destroy(struct rnic_dev *dev);

#endif /* RNIC_EQ_H */
