/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: what the kernel has posted to a queue and not yet polled.
 */
#ifndef RNIC_POSTED_H
#define RNIC_POSTED_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct rnic_dev;

/* One work request. The device never sees its wr_id, which may be a pointer. */
struct rnic_posted {
	u64 wr_id;
	u32 key;		/* the low 32 bits of what the device has instead */
	u32 length;		/* octets of its SGEs */
	u32 next_free;		/* S-RQ: while it is free */
	u8 units;		/* of the ring; 0: nothing is outstanding here */
	u8 opcode;		/* enum ib_wc_opcode */
	bool signaled;		/* a CQE tells of success, too */
	bool owes_cqe;		/* a CQE tells of its end, whatever that is */
};

/* One of the kernel's work queues; sq counts units, rq and S-RQ WQEs. */
struct rnic_wq {
	spinlock_t lock;	/* all of this */
	const struct rnic_queue_page *ring; /* NULL: not the kernel's */
	u32 ring_offset;	/* where it begins in these pages */
	u32 depth;		/* a power of two */
	u32 producer;
	u32 consumer;		/* of a ring that completes in order */
	struct rnic_posted *posted;	/* depth of them */
	u32 first_free;		/* S-RQ: of posted; depth: none is free */
	u32 tag;		/* the high 32 bits of the device's wr_ids */
	/* Of receive queues: */
	u32 max_sge;
	u8 wqe_shift;
};

/* Memory for depth work requests; -ENOMEM. */
int rnic_wq_init(struct rnic_dev *dev, struct rnic_wq *wq, u32 depth);
void rnic_wq_free(struct rnic_wq *wq);

/*
 * Nothing is outstanding any more, and what the device still says of earlier
 * work requests concerns none of the following ones. Takes the lock.
 */
void rnic_wq_restart(struct rnic_dev *dev, struct rnic_wq *wq);

/*
 * The caller holds the lock, and the queue has room. Notes a work request: at the
 * producer index, where it takes its units of the ring (rnic_wq_post), or in a free
 * slot of an S-RQ (rnic_srq_post). Returns the wr_id for the device.
 */
u64 rnic_wq_post(struct rnic_wq *wq, const struct rnic_posted *wr);
bool rnic_srq_has_room(const struct rnic_wq *wq);
u64 rnic_srq_post(struct rnic_wq *wq, const struct rnic_posted *wr);

enum rnic_claim {
	RNIC_CLAIM_TRUE,
	RNIC_CLAIM_STALE,	/* of a queue that is gone or has restarted */
	RNIC_CLAIM_FALSE,	/* no such work request is outstanding, or one
				 * before it would have had to complete first
				 */
};

/*
 * What becomes of the device's claim that work request device_wr_id is complete;
 * if it is true a copy is in wr, and its place is free. Take the lock.
 */
enum rnic_claim rnic_wq_complete(struct rnic_wq *wq, u64 device_wr_id,
				 struct rnic_posted *wr);
enum rnic_claim rnic_srq_complete(struct rnic_wq *wq, u64 device_wr_id,
				  struct rnic_posted *wr);

static inline bool rnic_wq_is_busy(const struct rnic_wq *wq)
{
	return READ_ONCE(wq->consumer) != READ_ONCE(wq->producer);
}

/*
 * Whether a CQE is still to come. What owes none may have succeeded without one.
 * Takes the lock.
 */
bool rnic_wq_owes_cqe(struct rnic_wq *wq);

/* The oldest that is outstanding is complete; false: none is. Takes the lock. */
bool rnic_wq_complete_oldest(struct rnic_wq *wq, struct rnic_posted *wr);

#endif /* RNIC_POSTED_H */
