/*
 * rnic: the guest memory of a queue, its record and its rings
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "dma.h"
#include "queue-memory.h"

enum {
    QUEUE_PAGE_SHIFT_MAX = 30,
    /* Enough for the largest rings in the smallest pages. */
    QUEUE_PAGES_MAX = 65536,
};

/* The pages that the rings reach, record included; no more may be given. */
static uint64_t queue_pages_needed(const RnicQueueMemory *mem, uint8_t shift)
{
    uint64_t end = RNIC_QUEUE_RECORD_SIZE;

    for (unsigned i = 0; i < ARRAY_SIZE(mem->ring_size); i++) {
        if (mem->ring_size[i]) {
            end = MAX(end, mem->ring_offset[i] + mem->ring_size[i]);
        }
    }
    return DIV_ROUND_UP(end, 1ULL << shift);
}

static bool ring_fits(const RnicQueueMemory *mem, unsigned ring)
{
    uint64_t size = rnic_pages_size(&mem->pages);
    uint32_t offset = mem->ring_offset[ring];

    if (mem->ring_size[ring] == 0) {
        return offset == 0;
    }
    return offset % 64 == 0 && offset >= RNIC_QUEUE_RECORD_SIZE &&
           offset < size && mem->ring_size[ring] <= size - offset;
}

static bool rings_overlap(const RnicQueueMemory *mem)
{
    const uint32_t *at = mem->ring_offset;
    const uint64_t *size = mem->ring_size;

    return size[0] && size[1] && at[0] < at[1] + size[1] &&
           at[1] < at[0] + size[0];
}

enum rnic_admin_status
rnic_queue_memory_read(RnicState *s, const struct rnic_queue_memory *wire,
                       uint64_t size0, uint64_t size1, RnicQueueMemory *mem)
{
    enum rnic_admin_status status;
    uint32_t count;

    *mem = (RnicQueueMemory) {
        .ring_offset = { le32_to_cpu(wire->ring_offset[0]),
                         le32_to_cpu(wire->ring_offset[1]) },
        .ring_size = { size0, size1 },
    };
    count = le32_to_cpu(wire->pages.count);
    if (wire->pages.page_shift > QUEUE_PAGE_SHIFT_MAX ||
        (count <= QUEUE_PAGES_MAX &&
         count > queue_pages_needed(mem, wire->pages.page_shift))) {
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    if (count <= QUEUE_PAGES_MAX &&
        count > s->config.max_queue_pages - s->queue_pages) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    status = rnic_pages_read(s, &wire->pages, QUEUE_PAGES_MAX, 0,
                             &mem->pages);
    if (status != RNIC_ST_OK) {
        return status;
    }
    s->queue_pages += mem->pages.count;
    if (!ring_fits(mem, 0) || !ring_fits(mem, 1) || rings_overlap(mem)) {
        rnic_queue_memory_free(s, mem);
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    return RNIC_ST_OK;
}

void rnic_queue_memory_free(RnicState *s, RnicQueueMemory *mem)
{
    s->queue_pages -= mem->pages.count;
    rnic_pages_free(&mem->pages);
}

static bool ring_access(RnicState *s, const RnicQueueMemory *mem,
                        uint64_t offset, void *buf, uint64_t len,
                        bool to_guest)
{
    uint64_t run;

    for (; len > 0; offset += run, buf += run, len -= run) {
        uint64_t addr = rnic_pages_translate(&mem->pages, offset, len, &run);

        if (!(to_guest ? rnic_dma_write(s, addr, buf, run)
                       : rnic_dma_read(s, addr, buf, run))) {
            return false;
        }
    }
    return true;
}

bool rnic_ring_read(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                    uint64_t offset, void *buf, uint64_t len)
{
    return ring_access(s, mem, mem->ring_offset[ring] + offset, buf, len,
                       false);
}

bool rnic_ring_write(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                     uint64_t offset, const void *buf, uint64_t len)
{
    return ring_access(s, mem, mem->ring_offset[ring] + offset, (void *)buf,
                       len, true);
}

static uint64_t word_address(const RnicQueueMemory *mem, uint64_t offset)
{
    uint64_t run;

    return rnic_pages_translate(&mem->pages, offset, 4, &run);
}

bool rnic_ring_store32(RnicState *s, const RnicQueueMemory *mem, unsigned ring,
                       uint64_t offset, uint32_t val)
{
    return rnic_dma_store32(
        s, word_address(mem, mem->ring_offset[ring] + offset), val);
}

bool rnic_record_load32(RnicState *s, const RnicQueueMemory *mem,
                        uint32_t offset, uint32_t *val)
{
    return rnic_dma_load32(s, word_address(mem, offset), val);
}

bool rnic_record_store32(RnicState *s, const RnicQueueMemory *mem,
                         uint32_t offset, uint32_t val)
{
    return rnic_dma_store32(s, word_address(mem, offset), val);
}
