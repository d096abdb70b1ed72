// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: page lists of processes' memory and of the kernel's queues.
 *
 * The entries are in chunks of a fixed size, however long the list is; only
 * the array of the chunks' addresses has to be contiguous, which is one page
 * for every gibibyte of 4 KiB pages. A process may ask for more than there is
 * contiguous; that is its error, not the kernel's. As a list can have millions of
 * entries, every chunk is a place to let others have the CPU.
 */

#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "rnic.h"
#include "rnic_page_list.h"
#include "rnic_queue_memory.h"

void rnic_page_list_inline(struct rnic_page_list *list, dma_addr_t addr,
			   unsigned int shift)
{
	*list = (struct rnic_page_list) {
		.addr = cpu_to_le64(addr),
		.count = cpu_to_le32(1),
		.level = RNIC_PAGE_LIST_INLINE,
		.page_shift = shift,
	};
}

static void rnic_page_table_set(struct rnic_page_table *table, u32 i,
				dma_addr_t addr)
{
	__le64 *chunk = table->chunks[i / RNIC_PAGE_CHUNK_ENTRIES];

	if (i % RNIC_PAGE_CHUNK_ENTRIES == 0)
		cond_resched();
	chunk[i % RNIC_PAGE_CHUNK_ENTRIES] = cpu_to_le64(addr);
}

static void rnic_page_table_fill(struct rnic_page_table *table,
				 struct ib_umem *umem, unsigned long page_size)
{
	u32 count = le32_to_cpu(table->list.count);
	struct ib_block_iter iter;
	u32 i = 0;

	rdma_umem_for_each_dma_block(umem, &iter, page_size) {
		if (WARN_ON_ONCE(i == count))
			return;
		rnic_page_table_set(table, i++,
				    rdma_block_iter_dma_address(&iter));
	}
}

static int rnic_page_table_map_chunks(struct rnic_dev *dev,
				      struct rnic_page_table *table)
{
	struct device *dma_dev = &dev->pdev->dev;
	unsigned int i;

	for (i = 0; i < table->num_chunks; i++) {
		dma_addr_t addr = dma_map_single(dma_dev, table->chunks[i],
						 RNIC_PAGE_CHUNK,
						 DMA_TO_DEVICE);

		if (dma_mapping_error(dma_dev, addr))
			return -ENOMEM;
		table->chunk_addrs[i] = cpu_to_le64(addr);
		cond_resched();
	}
	return 0;
}

static int rnic_page_table_map(struct rnic_dev *dev,
			       struct rnic_page_table *table)
{
	struct device *dma_dev = &dev->pdev->dev;
	dma_addr_t addr;
	int ret;

	ret = rnic_page_table_map_chunks(dev, table);
	if (ret)
		return ret;
	if (table->num_chunks == 1) {
		table->list.level = RNIC_PAGE_LIST_DIRECT;
		table->list.addr = table->chunk_addrs[0];
		return 0;
	}
	addr = dma_map_single(dma_dev, table->chunk_addrs,
			      table->num_chunks * sizeof(__le64),
			      DMA_TO_DEVICE);
	if (dma_mapping_error(dma_dev, addr))
		return -ENOMEM;
	table->chunk_addrs_dma = addr;
	table->list.level = RNIC_PAGE_LIST_INDIRECT;
	table->list.addr = cpu_to_le64(addr);
	return 0;
}

static int rnic_page_table_alloc(struct rnic_page_table *table, u32 count,
				 unsigned int page_shift)
{
	unsigned int num_chunks = DIV_ROUND_UP(count, RNIC_PAGE_CHUNK_ENTRIES);

	memset(table, 0, sizeof(*table));
	table->list.count = cpu_to_le32(count);
	table->list.page_shift = page_shift;
	table->chunks = kvcalloc(num_chunks, sizeof(*table->chunks),
				 GFP_KERNEL);
	/* The device reads it, so vmalloc() would not do. */
	table->chunk_addrs = kcalloc(num_chunks, sizeof(*table->chunk_addrs),
				     GFP_KERNEL | __GFP_NOWARN);
	if (!table->chunks || !table->chunk_addrs)
		return -ENOMEM;
	while (table->num_chunks < num_chunks) {
		void *chunk = kzalloc(RNIC_PAGE_CHUNK, GFP_KERNEL);

		if (!chunk)
			return -ENOMEM;
		table->chunks[table->num_chunks++] = chunk;
		cond_resched();
	}
	return 0;
}

int rnic_page_table_init(struct rnic_dev *dev, struct rnic_page_table *table,
			 struct ib_umem *umem, unsigned long page_size)
{
	size_t count = ib_umem_num_dma_blocks(umem, page_size);
	int ret;

	memset(table, 0, sizeof(*table));
	if (count > U32_MAX)
		return -EINVAL;
	ret = rnic_page_table_alloc(table, count, __ffs(page_size));
	if (!ret) {
		rnic_page_table_fill(table, umem, page_size);
		ret = rnic_page_table_map(dev, table);
	}
	if (ret)
		rnic_page_table_free(dev, table);
	return ret;
}

int rnic_page_table_init_queue(struct rnic_dev *dev,
			       struct rnic_page_table *table,
			       const struct rnic_queue_page *pages, u32 count)
{
	int ret = rnic_page_table_alloc(table, count, PAGE_SHIFT);
	u32 i;

	if (!ret) {
		for (i = 0; i < count; i++)
			rnic_page_table_set(table, i, pages[i].dma);
		ret = rnic_page_table_map(dev, table);
	}
	if (ret)
		rnic_page_table_free(dev, table);
	return ret;
}

void rnic_page_table_free(struct rnic_dev *dev, struct rnic_page_table *table)
{
	struct device *dma_dev = &dev->pdev->dev;
	unsigned int i;

	if (table->chunk_addrs_dma)
		dma_unmap_single(dma_dev, table->chunk_addrs_dma,
				 table->num_chunks * sizeof(__le64),
				 DMA_TO_DEVICE);
	for (i = 0; i < table->num_chunks; i++) {
		if (table->chunk_addrs[i])
			dma_unmap_single(dma_dev,
					 le64_to_cpu(table->chunk_addrs[i]),
					 RNIC_PAGE_CHUNK, DMA_TO_DEVICE);
		kfree(table->chunks[i]);
		cond_resched();
	}
	kvfree(table->chunks);
	kfree(table->chunk_addrs);
	memset(table, 0, sizeof(*table));
}
