// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: memory that RDMA operations use, see area.h.
 */

#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "area.h"

#define GUARD		0xa5
#define GUARD_OCTETS	64	/* on each side, at least */

int kverbs_area_init(struct kverbs_area *area, struct ib_pd *pd,
		     u32 max_length)
{
	unsigned int pages = DIV_ROUND_UP(max_length, PAGE_SIZE) + 1;

	area->device = pd->device;
	area->max_length = max_length;
	/* A page more than needed: room for any offset in a page. */
	area->size = PAGE_ALIGN(max_length + 2 * GUARD_OCTETS) + PAGE_SIZE;
	area->memory = vmalloc(area->size);
	area->sg = kcalloc(pages, sizeof(*area->sg), GFP_KERNEL);
	if (!area->memory || !area->sg)
		goto err_free;
	area->mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(area->mr))
		goto err_free;
	kverbs_area_clear(area);
	return 0;

err_free:
	area->mr = NULL;
	kverbs_area_free(area);
	return -ENOMEM;
}

void kverbs_area_free(struct kverbs_area *area)
{
	kverbs_area_unmap(area);
	if (area->mr)
		ib_dereg_mr(area->mr);
	kfree(area->sg);
	vfree(area->memory);
	memset(area, 0, sizeof(*area));
}

u32 kverbs_area_offset(const struct kverbs_area *area, u32 length, u32 random)
{
	u32 room = area->size - 2 * GUARD_OCTETS - length;

	return GUARD_OCTETS + random % (room + 1);
}

bool kverbs_area_choose(struct kverbs_area *area, u32 offset, u32 length)
{
	if (!length || length > area->max_length || offset < GUARD_OCTETS ||
	    offset > area->size - GUARD_OCTETS - length)
		return false;
	area->offset = offset;
	area->length = length;
	return true;
}

/* --------------------------------------------------------- its contents */

static u64 pattern(u64 key, u32 index)
{
	return (key + index) * GOLDEN_RATIO_64;
}

void kverbs_area_fill(struct kverbs_area *area, u64 key)
{
	u8 *p = area->memory + area->offset;
	u32 words = area->length / sizeof(u64);
	u64 last = pattern(key, words);
	u32 i;

	for (i = 0; i < words; i++)
		put_unaligned(pattern(key, i), (u64 *)p + i);
	memcpy(p + words * sizeof(u64), &last, area->length % sizeof(u64));
}

void kverbs_area_clear(struct kverbs_area *area)
{
	memset(area->memory, GUARD, area->size);
}

void kverbs_area_clear_part(struct kverbs_area *area)
{
	memset(area->memory + area->offset, GUARD, area->length);
}

/* Where in a word is the octet that differs? */
static s64 different(const u8 *p, u64 expected, u32 octets)
{
	u32 i;

	for (i = 0; i < octets; i++)
		if (p[i] != ((const u8 *)&expected)[i])
			return i;
	return -1;
}

static s64 check_part(const struct kverbs_area *area, u64 key)
{
	const u8 *p = area->memory + area->offset;
	u32 words = area->length / sizeof(u64);
	s64 at;
	u32 i;

	for (i = 0; i < words; i++)
		if (get_unaligned((const u64 *)p + i) != pattern(key, i))
			break;
	at = different(p + i * sizeof(u64), pattern(key, i),
		       min_t(u32, area->length - i * sizeof(u64), sizeof(u64)));
	return at < 0 ? -1 : area->offset + i * sizeof(u64) + at;
}

static s64 check_guards(const struct kverbs_area *area, size_t from, size_t to)
{
	const u8 *wrong = memchr_inv(area->memory + from, GUARD, to - from);

	return wrong ? wrong - area->memory : -1;
}

s64 kverbs_area_check(const struct kverbs_area *area, u64 key)
{
	s64 wrong = check_part(area, key);

	if (wrong < 0)
		wrong = check_guards(area, 0, area->offset);
	if (wrong < 0)
		wrong = check_guards(area, area->offset + area->length,
				     area->size);
	return wrong;
}

s64 kverbs_area_check_clear(const struct kverbs_area *area)
{
	return check_guards(area, 0, area->size);
}

/* ------------------------------------------------------- for the device */

static void list_pages(struct kverbs_area *area)
{
	u32 offset = area->offset, left = area->length, part;

	for (area->pages = 0; left; area->pages++) {
		part = min_t(u32, left, PAGE_SIZE - offset_in_page(offset));
		sg_set_page(&area->sg[area->pages],
			    vmalloc_to_page(area->memory + offset), part,
			    offset_in_page(offset));
		offset += part;
		left -= part;
	}
}

int kverbs_area_map(struct kverbs_area *area,
		    enum dma_data_direction direction)
{
	unsigned int pages = DIV_ROUND_UP(offset_in_page(area->offset) +
					  area->length, PAGE_SIZE);

	sg_init_table(area->sg, pages);
	list_pages(area);
	flush_kernel_vmap_range(area->memory, area->size);
	area->direction = direction;
	area->mapped = ib_dma_map_sg(area->device, area->sg, area->pages,
				     direction);
	if (area->mapped)
		return 0;
	area->pages = 0;
	return -ENOMEM;
}

void kverbs_area_unmap(struct kverbs_area *area)
{
	if (!area->pages)
		return;
	ib_dma_unmap_sg(area->device, area->sg, area->pages, area->direction);
	invalidate_kernel_vmap_range(area->memory, area->size);
	area->pages = 0;
}

int kverbs_area_register(struct kverbs_area *area, struct ib_reg_wr *wr,
			 int access)
{
	struct ib_mr *mr = area->mr;
	int n = ib_map_mr_sg(mr, area->sg, area->mapped, NULL, PAGE_SIZE);

	if (n != area->mapped || mr->length != area->length)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	*wr = (struct ib_reg_wr) {
		.wr.opcode = IB_WR_REG_MR,
		.mr = mr,
		.key = mr->rkey,
		.access = access,
	};
	return 0;
}

void kverbs_area_sges(const struct kverbs_area *area, u32 lkey,
		      struct ib_sge *sge)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(area->sg, sg, area->mapped, i)
		sge[i] = (struct ib_sge) {
			.addr = sg_dma_address(sg),
			.length = sg_dma_len(sg),
			.lkey = lkey,
		};
}

struct ib_sge kverbs_area_sge(const struct kverbs_area *area)
{
	return (struct ib_sge) {
		.addr = area->mr->iova,
		.length = area->mr->length,
		.lkey = area->mr->lkey,
	};
}
