/*
 * rnic: the guest memory of a queue, its record and its rings
 *
 * Offsets count from the start of the queue's memory.  Every access is by
 * DMA and may fail; a failure never changes anything here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_QUEUE_MEMORY_H
#define HW_RNIC_QUEUE_MEMORY_H

#include "page-list.h"

typedef struct RnicQueueMemory {
    RnicPages pages;
    uint32_t ring_offset[2];
    uint64_t ring_size[2];      /* octets */
} RnicQueueMemory;

/*
 * Read the description @wire of a queue with rings of @size0 and @size1 octets
 * (0: that ring does not exist, and its offset must be zero).  Statuses: those of
 * rnic_pages_read(), BAD_QUEUE_MEMORY (also of a list with more pages than the
 * rings reach) and INSUFFICIENT_RESOURCES.  The list is charged to
 * max-queue-pages.  Main loop.
 */
enum rnic_admin_status
rnic_queue_memory_read(RnicState *s, const struct rnic_queue_memory *wire,
                       uint64_t size0, uint64_t size1, RnicQueueMemory *mem);

void rnic_queue_memory_free(RnicState *s, RnicQueueMemory *mem);

/* @len octets at @offset of ring @ring; the range must lie inside. */
bool rnic_ring_read(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                    uint64_t offset, void *buf, uint64_t len);
bool rnic_ring_write(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                     uint64_t offset, const void *buf, uint64_t len);

/* A 4-aligned word of ring @ring, stored after all earlier writes. */
bool rnic_ring_store32(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                       uint64_t offset, uint32_t val);

/* A 4-aligned word at @offset of the record. */
bool rnic_record_load32(RnicState *s, const RnicQueueMemory *mem,
                        uint32_t offset, uint32_t *val);
bool rnic_record_store32(RnicState *s, const RnicQueueMemory *mem,
                         uint32_t offset, uint32_t val);

#endif /* HW_RNIC_QUEUE_MEMORY_H */
