/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: lists of bus addresses for the device to read.
 */
#ifndef RNIC_PAGE_LIST_H
#define RNIC_PAGE_LIST_H

#include <linux/types.h>

#include "rnic-hw.h"

struct ib_umem;
struct rnic_dev;
struct rnic_queue_page;

/* Lives for one command: the device keeps its own copy of a list. */
struct rnic_page_table {
	struct rnic_page_list list;	/* what the command takes */
	unsigned int num_chunks;
	void **chunks;			/* RNIC_PAGE_CHUNK octets each */
	__le64 *chunk_addrs;		/* their bus addresses */
	dma_addr_t chunk_addrs_dma;
};

/* The list of a block of 1 << shift octets that is aligned to its size. */
void rnic_page_list_inline(struct rnic_page_list *list, dma_addr_t addr,
			   unsigned int shift);

/* The list of a process's memory in pages of page_size octets. */
int rnic_page_table_init(struct rnic_dev *dev, struct rnic_page_table *table,
			 struct ib_umem *umem, unsigned long page_size);
/* The list of a kernel's queue. */
int rnic_page_table_init_queue(struct rnic_dev *dev,
			       struct rnic_page_table *table,
			       const struct rnic_queue_page *pages, u32 count);
void rnic_page_table_free(struct rnic_dev *dev, struct rnic_page_table *table);

#endif /* RNIC_PAGE_LIST_H */
