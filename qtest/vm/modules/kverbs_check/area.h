/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: memory that RDMA operations use.
 *
 * Of an area, one part at a time is used, at any offset; all octets around it
 * are guards. The part is mapped for the device page by page, and may be
 * Fast-Registered as a Memory Region of just its size.
 */
#ifndef KVERBS_AREA_H
#define KVERBS_AREA_H

#include <linux/dma-direction.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

struct kverbs_area {
	struct ib_device *device;
	u8 *memory;
	size_t size;
	u32 max_length;		/* of a part */
	struct ib_mr *mr;
	struct scatterlist *sg;
	int pages;		/* of the part, 0: not mapped */
	int mapped;		/* pieces of the part, for the device */
	enum dma_data_direction direction;
	u32 offset;
	u32 length;
};

int kverbs_area_init(struct kverbs_area *area, struct ib_pd *pd,
		     u32 max_length);
/* Also of one that is zeroes only. */
void kverbs_area_free(struct kverbs_area *area);

/* An offset of a part of length octets, made of something random. */
u32 kverbs_area_offset(const struct kverbs_area *area, u32 length, u32 random);

/* The part that is used from now on; false if it is not inside the guards. */
bool kverbs_area_choose(struct kverbs_area *area, u32 offset, u32 length);
/* Octets of the part, which differ with the key. */
void kverbs_area_fill(struct kverbs_area *area, u64 key);
/* All octets are guards again; only those of the part. */
void kverbs_area_clear(struct kverbs_area *area);
void kverbs_area_clear_part(struct kverbs_area *area);

int kverbs_area_map(struct kverbs_area *area,
		    enum dma_data_direction direction);
void kverbs_area_unmap(struct kverbs_area *area);

/* A work request that registers the mapped part, with a new key. */
int kverbs_area_register(struct kverbs_area *area, struct ib_reg_wr *wr,
			 int access);
/* The mapped part, by local_dma_lkey: area->mapped SGEs. */
void kverbs_area_sges(const struct kverbs_area *area, u32 lkey,
		      struct ib_sge *sge);
/* The registered part. */
struct ib_sge kverbs_area_sge(const struct kverbs_area *area);

/*
 * Looks at every octet of an unmapped area: the part is as fill made it, the
 * rest is guards. Returns -1 if so, else the number of one that is wrong.
 */
s64 kverbs_area_check(const struct kverbs_area *area, u64 key);
/* The same when the part was cleared and not filled. */
s64 kverbs_area_check_clear(const struct kverbs_area *area);

#endif
