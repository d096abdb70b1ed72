// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: queue memory.
 *
 * The kernel's queues are one contiguous block each, aligned to its size, so
 * that the block's address is all of its page list.
 */

#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/sizes.h>

#include "rnic.h"
#include "rnic_queue_memory.h"

#define RNIC_QUEUE_MIN_SHIFT	12
#define RNIC_QUEUE_MAX_SHIFT	30

int rnic_queue_alloc(struct rnic_dev *dev, struct rnic_queue *queue,
		     size_t size)
{
	memset(queue, 0, sizeof(*queue));
	queue->size = roundup_pow_of_two(max_t(size_t, size, PAGE_SIZE));
	queue->va = dma_alloc_coherent(&dev->pdev->dev, queue->size,
				       &queue->dma, GFP_KERNEL | __GFP_NOWARN);
	if (!queue->va)
		return -ENOMEM;
	if (!IS_ALIGNED(queue->dma, queue->size)) {
		rnic_queue_free(dev, queue);
		return -ENOMEM;
	}
	return 0;
}

int rnic_queue_pin(struct rnic_dev *dev, struct rnic_queue *queue,
		   u64 addr, u32 length)
{
	struct ib_umem *umem;

	memset(queue, 0, sizeof(*queue));
	if (!PAGE_ALIGNED(addr) || length > RNIC_MAX_QUEUE_MEMORY)
		return -EINVAL;
	umem = ib_umem_get_va(&dev->ibdev, addr, length,
			      IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	queue->umem = umem;
	queue->size = length;
	return 0;
}

void rnic_queue_free(struct rnic_dev *dev, struct rnic_queue *queue)
{
	if (queue->umem)
		ib_umem_release(queue->umem);
	else if (queue->va)
		dma_free_coherent(&dev->pdev->dev, queue->size, queue->va,
				  queue->dma);
	memset(queue, 0, sizeof(*queue));
}

int rnic_queue_describe(struct rnic_dev *dev, const struct rnic_queue *queue,
			struct rnic_queue_memory *memory,
			struct rnic_page_table *table)
{
	unsigned long page_size;
	int ret;

	memset(table, 0, sizeof(*table));
	if (!queue->umem) {
		rnic_page_list_inline(&memory->pages, queue->dma,
				      ilog2(queue->size));
		return 0;
	}
	/* The record is at offset 0 of the first page, whatever its address. */
	page_size = ib_umem_find_best_pgsz(queue->umem,
					   GENMASK(RNIC_QUEUE_MAX_SHIFT,
						   RNIC_QUEUE_MIN_SHIFT), 0);
	if (!page_size)
		return -EINVAL;
	ret = rnic_page_table_init(dev, table, queue->umem, page_size);
	if (!ret)
		memory->pages = table->list;
	return ret;
}

static u64 rnic_ring_end(const struct rnic_user_ring *ring)
{
	return ring->offset + ((u64)ring->depth << ring->shift);
}

static bool rnic_ring_valid(u32 length, const struct rnic_user_ring *ring)
{
	return is_power_of_2(ring->depth) && ring->depth >= ring->min_depth &&
	       ring->depth <= ring->max_depth &&
	       IS_ALIGNED(ring->offset, 64) &&
	       ring->offset >= RNIC_QUEUE_RECORD_SIZE &&
	       rnic_ring_end(ring) <= length;
}

int rnic_check_user_rings(u32 length, const struct rnic_user_ring *rings,
			  unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!rnic_ring_valid(length, &rings[i]))
			return -EINVAL;
	if (count == 2 && rings[0].offset < rnic_ring_end(&rings[1]) &&
	    rings[1].offset < rnic_ring_end(&rings[0]))
		return -EINVAL;
	return 0;
}
