/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: memory that a queue shares with the device, the process's own or the
 * kernel's: a record, then rings.
 *
 * The kernel's is of single pages. No entry of a ring is in two of them.
 */
#ifndef RNIC_QUEUE_MEMORY_H
#define RNIC_QUEUE_MEMORY_H

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/types.h>

#include "rnic-hw.h"
#include "rnic_page_list.h"

struct ib_umem;
struct rnic_dev;

/* The deepest CQ with timestamps, and its record. */
#define RNIC_MAX_QUEUE_MEMORY	(128 << 20)

#define RNIC_RING_ALIGNMENT	64

struct rnic_queue_page {
	void *va;			/* zeroed at first */
	dma_addr_t dma;
};

struct rnic_queue {
	struct ib_umem *umem;		/* a process's memory, or */
	struct rnic_queue_page *pages;	/* the kernel's */
	u32 num_pages;
	void *record;			/* in the first page of these */
};

/* What is at offset in the kernel's queue memory. */
static inline void *rnic_queue_at(const struct rnic_queue_page *pages,
				  size_t offset)
{
	return pages[offset >> PAGE_SHIFT].va + offset_in_page(offset);
}

/* Where a ring can begin that follows what ends at offset end. */
static inline u32 rnic_ring_begin(u32 end, u32 entry_size)
{
	return ALIGN(end, max_t(u32, entry_size, RNIC_RING_ALIGNMENT));
}

/* One ring in a process's memory; checked against the rest of it. */
struct rnic_user_ring {
	u32 offset;
	u32 depth;
	u32 min_depth;
	u32 max_depth;
	unsigned int shift;		/* an entry has 1 << shift octets */
};

/* Exactly as much as the rings reach: the device takes no more pages. */
int rnic_queue_alloc(struct rnic_dev *dev, struct rnic_queue *queue,
		     size_t size);
int rnic_queue_pin(struct rnic_dev *dev, struct rnic_queue *queue,
		   u64 addr, u32 length);
void rnic_queue_free(struct rnic_dev *dev, struct rnic_queue *queue);

/*
 * Tells where the queue is, for the command that creates it. The table is to
 * be freed after that command.
 */
int rnic_queue_describe(struct rnic_dev *dev, const struct rnic_queue *queue,
			struct rnic_queue_memory *memory,
			struct rnic_page_table *table);

/* 0, or -EINVAL if a process's rings are not as rnic-abi.h wants them. */
int rnic_check_user_rings(u32 length, const struct rnic_user_ring *rings,
			  unsigned int count);

#endif /* RNIC_QUEUE_MEMORY_H */
