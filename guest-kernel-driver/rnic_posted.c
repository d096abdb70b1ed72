// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what the kernel has posted to a queue and not yet polled.
 *
 * The device has a key instead of a wr_id, and the tag of its queue. A completion
 * counts if both name a work request that is outstanding. A ring completes in
 * order: the key is the ring's index. An S-RQ does not, as its entries are of
 * many QPs: the low bits of the key are a place of the list, and the others
 * change with each use of the place.
 */

#include <linux/mm.h>

#include "rnic.h"
#include "rnic_posted.h"

static struct rnic_posted *rnic_posted_at(const struct rnic_wq *wq, u32 key)
{
	return &wq->posted[key & (wq->depth - 1)];
}

static u64 rnic_device_wr_id(const struct rnic_wq *wq, u32 key)
{
	return (u64)wq->tag << 32 | key;
}

static void rnic_wq_begin(struct rnic_dev *dev, struct rnic_wq *wq)
{
	u32 i;

	for (i = 0; i < wq->depth; i++) {
		wq->posted[i].units = 0;
		wq->posted[i].key = i;
		wq->posted[i].next_free = i + 1;
	}
	wq->first_free = 0;
	wq->consumer = wq->producer;
	wq->tag = atomic_inc_return(&dev->next_tag);
}

int rnic_wq_init(struct rnic_dev *dev, struct rnic_wq *wq, u32 depth)
{
	wq->posted = kvcalloc(depth, sizeof(*wq->posted), GFP_KERNEL);
	if (!wq->posted)
		return -ENOMEM;
	wq->depth = depth;
	rnic_wq_begin(dev, wq);
	return 0;
}

void rnic_wq_free(struct rnic_wq *wq)
{
	kvfree(wq->posted);
	wq->posted = NULL;
}

void rnic_wq_restart(struct rnic_dev *dev, struct rnic_wq *wq)
{
	unsigned long irq_flags;

	if (!wq->posted)
		return;
	spin_lock_irqsave(&wq->lock, irq_flags);
	rnic_wq_begin(dev, wq);
	spin_unlock_irqrestore(&wq->lock, irq_flags);
}

u64 rnic_wq_post(struct rnic_wq *wq, const struct rnic_posted *wr)
{
	struct rnic_posted *posted = rnic_posted_at(wq, wq->producer);

	*posted = *wr;
	posted->key = wq->producer;
	wq->producer += wr->units;
	return rnic_device_wr_id(wq, posted->key);
}

bool rnic_srq_has_room(const struct rnic_wq *wq)
{
	return wq->first_free < wq->depth;
}

u64 rnic_srq_post(struct rnic_wq *wq, const struct rnic_posted *wr)
{
	struct rnic_posted *posted = &wq->posted[wq->first_free];
	u32 key = posted->key + wq->depth;

	wq->first_free = posted->next_free;
	*posted = *wr;
	posted->key = key;
	wq->producer++;
	return rnic_device_wr_id(wq, key);
}

static enum rnic_claim rnic_posted_find(const struct rnic_wq *wq,
					u64 device_wr_id,
					struct rnic_posted **posted)
{
	u32 key = lower_32_bits(device_wr_id);

	if (!wq->posted || upper_32_bits(device_wr_id) != wq->tag)
		return RNIC_CLAIM_STALE;
	*posted = rnic_posted_at(wq, key);
	return (*posted)->units && (*posted)->key == key ? RNIC_CLAIM_TRUE :
							  RNIC_CLAIM_FALSE;
}

/* Nothing from the consumer index to end owes a CQE. */
static bool rnic_wq_is_silent(const struct rnic_wq *wq, u32 end)
{
	u32 index = wq->consumer;

	while (index != end) {
		const struct rnic_posted *posted = rnic_posted_at(wq, index);

		if (posted->owes_cqe)
			return false;
		index += posted->units;
	}
	return true;
}

bool rnic_wq_owes_cqe(struct rnic_wq *wq)
{
	unsigned long irq_flags;
	bool owes;

	spin_lock_irqsave(&wq->lock, irq_flags);
	owes = !rnic_wq_is_silent(wq, wq->producer);
	spin_unlock_irqrestore(&wq->lock, irq_flags);
	return owes;
}

static void rnic_wq_consume(struct rnic_wq *wq, struct rnic_posted *wr)
{
	struct rnic_posted *posted = rnic_posted_at(wq, wq->consumer);

	*wr = *posted;
	wq->consumer += posted->units;
	posted->units = 0;
}

static enum rnic_claim rnic_wq_complete_locked(struct rnic_wq *wq,
					       u64 device_wr_id,
					       struct rnic_posted *wr)
{
	struct rnic_posted *posted;
	enum rnic_claim claim = rnic_posted_find(wq, device_wr_id, &posted);

	if (claim != RNIC_CLAIM_TRUE)
		return claim;
	/* What is complete with a later one has no CQE of its own. */
	if (!rnic_wq_is_silent(wq, posted->key))
		return RNIC_CLAIM_FALSE;
	do {
		rnic_wq_consume(wq, wr);
	} while (wr->key != lower_32_bits(device_wr_id));
	return RNIC_CLAIM_TRUE;
}

enum rnic_claim rnic_wq_complete(struct rnic_wq *wq, u64 device_wr_id,
				 struct rnic_posted *wr)
{
	enum rnic_claim claim;
	unsigned long irq_flags;

	spin_lock_irqsave(&wq->lock, irq_flags);
	claim = rnic_wq_complete_locked(wq, device_wr_id, wr);
	spin_unlock_irqrestore(&wq->lock, irq_flags);
	return claim;
}

bool rnic_wq_complete_oldest(struct rnic_wq *wq, struct rnic_posted *wr)
{
	unsigned long irq_flags;
	bool any;

	spin_lock_irqsave(&wq->lock, irq_flags);
	any = wq->consumer != wq->producer;
	if (any)
		rnic_wq_consume(wq, wr);
	spin_unlock_irqrestore(&wq->lock, irq_flags);
	return any;
}

enum rnic_claim rnic_srq_complete(struct rnic_wq *wq, u64 device_wr_id,
				  struct rnic_posted *wr)
{
	struct rnic_posted *posted;
	unsigned long irq_flags;
	enum rnic_claim claim;

	spin_lock_irqsave(&wq->lock, irq_flags);
	claim = rnic_posted_find(wq, device_wr_id, &posted);
	if (claim == RNIC_CLAIM_TRUE) {
		*wr = *posted;
		posted->units = 0;
		posted->next_free = wq->first_free;
		wq->first_free = posted - wq->posted;
	}
	spin_unlock_irqrestore(&wq->lock, irq_flags);
	return claim;
}
