/*
 * rnic: physical buffer lists, from a buffer's offsets to bus addresses
 *
 * Page lists and block lists (7.6.2), read once from guest memory (struct
 * rnic_page_list) into the device; the guest cannot change them afterwards.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_PAGE_LIST_H
#define HW_RNIC_PAGE_LIST_H

#include "hw/rnic/base/admin-request.h"

typedef struct RnicPages {
    uint32_t count;
    uint8_t shift;          /* page list: size is 1 << shift; 0: block list */
    uint64_t size;          /* octets of each entry */
    uint64_t *addr;         /* count entries; of a page list aligned to size */
} RnicPages;

/* A list that is being read, part by part. */
typedef struct RnicPagesReader {
    RnicPages pages;
    uint64_t list;          /* address, as the level says */
    uint8_t level;          /* RNIC_PAGE_LIST_* */
    uint32_t done;          /* entries read and checked */
} RnicPagesReader;

/*
 * Begin to read the list @wire describes.  @max bounds the entries.
 * @block_size is 0 for a page list, whose size is wire->page_shift; else it is
 * the size of each block and page_shift must be 0.  With OK, pages of @reader
 * are to be freed with rnic_pages_free(), unless rnic_pages_continue() fails.
 *
 * Statuses of both: INVALID_PBL_SIZE (count, or page_shift outside 12..63),
 * INVALID_PBL_ENTRY (an address not aligned to the page, or a block that
 * passes the end of the address space), DMA_ERROR, BAD_BUFFER (the list itself
 * misaligned), RESERVED_NOT_ZERO, INVALID_MODIFIER (level),
 * INSUFFICIENT_RESOURCES (the host's memory).
 */
enum rnic_admin_status rnic_pages_begin(RnicPagesReader *reader,
                                        const struct rnic_page_list *wire,
                                        uint32_t max, uint64_t block_size);

/*
 * Read about @entries more.  OK: all are read, pages of @reader are complete.
 * RNIC_ADMIN_LATER: there are more.  Another status: it has failed.
 */
enum rnic_admin_status rnic_pages_continue(RnicState *s,
                                           RnicPagesReader *reader,
                                           uint32_t entries);

/* Both at once.  With OK the caller owns @pages. */
enum rnic_admin_status rnic_pages_read(RnicState *s,
                                       const struct rnic_page_list *wire,
                                       uint32_t max, uint64_t block_size,
                                       RnicPages *pages);

void rnic_pages_free(RnicPages *pages);

/* Octets the pages hold, UINT64_MAX if more than fit. */
static inline uint64_t rnic_pages_size(const RnicPages *pages)
{
    uint64_t size;

    return __builtin_mul_overflow(pages->size, (uint64_t)pages->count, &size)
           ? UINT64_MAX : size;
}

/* Octets into its entry of octet @offset of the list. */
static inline uint64_t rnic_pages_within(const RnicPages *pages,
                                         uint64_t offset)
{
    return pages->shift ? offset & (pages->size - 1) : offset % pages->size;
}

/*
 * Bus address of octet @offset, which must lie inside; *@run becomes the
 * octets, at most @len, that follow without a gap.
 */
uint64_t rnic_pages_translate(const RnicPages *pages, uint64_t offset,
                              uint64_t len, uint64_t *run);

#endif /* HW_RNIC_PAGE_LIST_H */
