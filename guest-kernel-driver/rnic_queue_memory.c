// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: queue memory.
 *
 * The kernel's queues are of single pages, which are there when no larger block
 * is. The device has the list of them, the kernel finds an entry by its page. All
 * of this sleeps.
 */

#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "rnic.h"
#include "rnic_queue_memory.h"

#define RNIC_QUEUE_MIN_SHIFT	12
#define RNIC_QUEUE_MAX_SHIFT	30

int rnic_queue_alloc(struct rnic_dev *dev, struct rnic_queue *queue,
		     size_t size)
{
	u32 count = DIV_ROUND_UP(size, PAGE_SIZE);

	memset(queue, 0, sizeof(*queue));
	queue->pages = kvcalloc(count, sizeof(*queue->pages), GFP_KERNEL);
	if (!queue->pages)
		return -ENOMEM;
	while (queue->num_pages < count) {
		struct rnic_queue_page *page = &queue->pages[queue->num_pages];

		page->va = dma_alloc_coherent(&dev->pdev->dev, PAGE_SIZE,
					      &page->dma,
					      GFP_KERNEL | __GFP_NOWARN);
		if (!page->va) {
			rnic_queue_free(dev, queue);
			return -ENOMEM;
		}
		queue->num_pages++;
		cond_resched();
	}
	queue->record = queue->pages[0].va;
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
	return 0;
}

void rnic_queue_free(struct rnic_dev *dev, struct rnic_queue *queue)
{
	u32 i;

	if (queue->umem)
		ib_umem_release(queue->umem);
	for (i = 0; i < queue->num_pages; i++) {
		dma_free_coherent(&dev->pdev->dev, PAGE_SIZE,
				  queue->pages[i].va, queue->pages[i].dma);
		cond_resched();
	}
	kvfree(queue->pages);
	memset(queue, 0, sizeof(*queue));
}

int rnic_queue_describe(struct rnic_dev *dev, const struct rnic_queue *queue,
			struct rnic_queue_memory *memory,
			struct rnic_page_table *table)
{
	unsigned long page_size;
	int ret;

	memset(table, 0, sizeof(*table));
	if (!queue->umem && queue->num_pages == 1) {
		rnic_page_list_inline(&memory->pages, queue->pages[0].dma,
				      PAGE_SHIFT);
		return 0;
	}
	if (!queue->umem) {
		ret = rnic_page_table_init_queue(dev, table, queue->pages,
						 queue->num_pages);
		memory->pages = table->list;
		return ret;
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
	       IS_ALIGNED(ring->offset, RNIC_RING_ALIGNMENT) &&
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
