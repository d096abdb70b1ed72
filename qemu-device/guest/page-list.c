/*
 * rnic: physical buffer lists, from a buffer's offsets to bus addresses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "dma.h"
#include "page-list.h"

/* Levels DIRECT and INDIRECT both read runs of entries. */
static bool read_entries(RnicState *s, uint64_t from, uint64_t *to,
                         uint32_t count)
{
    return rnic_dma_read(s, from, to, (dma_addr_t)count * sizeof(*to));
}

static enum rnic_admin_status read_indirect(RnicState *s, uint64_t table,
                                            RnicPages *pages)
{
    uint32_t chunks = DIV_ROUND_UP(pages->count, RNIC_PAGE_CHUNK_ENTRIES);
    g_autofree uint64_t *chunk = g_new(uint64_t, chunks);

    if (!read_entries(s, table, chunk, chunks)) {
        return RNIC_ST_DMA_ERROR;
    }
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t done = i * RNIC_PAGE_CHUNK_ENTRIES;
        uint64_t from = le64_to_cpu(chunk[i]);

        if (from & 7) {
            return RNIC_ST_BAD_BUFFER;
        }
        if (!read_entries(s, from, pages->addr + done,
                          MIN(pages->count - done, RNIC_PAGE_CHUNK_ENTRIES))) {
            return RNIC_ST_DMA_ERROR;
        }
    }
    return RNIC_ST_OK;
}

static enum rnic_admin_status read_addresses(RnicState *s, uint8_t level,
                                             uint64_t list, RnicPages *pages)
{
    switch (level) {
    case RNIC_PAGE_LIST_INLINE:
        if (pages->count != 1) {
            return RNIC_ST_INVALID_PBL_SIZE;
        }
        pages->addr[0] = cpu_to_le64(list);
        return RNIC_ST_OK;
    case RNIC_PAGE_LIST_DIRECT:
        if (list & 7) {
            return RNIC_ST_BAD_BUFFER;
        }
        return read_entries(s, list, pages->addr, pages->count)
               ? RNIC_ST_OK : RNIC_ST_DMA_ERROR;
    case RNIC_PAGE_LIST_INDIRECT:
        if (list & 7) {
            return RNIC_ST_BAD_BUFFER;
        }
        return read_indirect(s, list, pages);
    default:
        return RNIC_ST_INVALID_MODIFIER;
    }
}

static bool address_ok(const RnicPages *pages, uint64_t addr)
{
    return pages->shift ? rnic_pages_within(pages, addr) == 0
                        : addr <= UINT64_MAX - (pages->size - 1);
}

static bool addresses_ok(RnicPages *pages)
{
    for (uint32_t i = 0; i < pages->count; i++) {
        pages->addr[i] = le64_to_cpu(pages->addr[i]);
        if (!address_ok(pages, pages->addr[i])) {
            return false;
        }
    }
    return true;
}

static bool size_ok(const struct rnic_page_list *wire, uint64_t block_size)
{
    return block_size ? wire->page_shift == 0
                      : wire->page_shift >= 12 && wire->page_shift <= 63;
}

enum rnic_admin_status rnic_pages_read(RnicState *s,
                                       const struct rnic_page_list *wire,
                                       uint32_t max, uint64_t block_size,
                                       RnicPages *pages)
{
    enum rnic_admin_status status;

    *pages = (RnicPages) { .count = le32_to_cpu(wire->count) };
    if (wire->reserved) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    if (pages->count == 0 || pages->count > max ||
        !size_ok(wire, block_size)) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    pages->shift = wire->page_shift;
    pages->size = block_size ? block_size : 1ULL << pages->shift;
    pages->addr = g_try_new(uint64_t, pages->count);
    if (!pages->addr) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    status = read_addresses(s, wire->level, le64_to_cpu(wire->addr), pages);
    if (status == RNIC_ST_OK && !addresses_ok(pages)) {
        status = RNIC_ST_INVALID_PBL_ENTRY;
    }
    if (status != RNIC_ST_OK) {
        rnic_pages_free(pages);
    }
    return status;
}

void rnic_pages_free(RnicPages *pages)
{
    g_free(pages->addr);
    *pages = (RnicPages) { };
}

uint64_t rnic_pages_translate(const RnicPages *pages, uint64_t offset,
                              uint64_t len, uint64_t *run)
{
    uint64_t index = pages->shift ? offset >> pages->shift
                                  : offset / pages->size;
    uint64_t within = rnic_pages_within(pages, offset);
    uint64_t addr = pages->addr[index] + within;
    uint64_t got = pages->size - within;

    while (got < len && ++index < pages->count &&
           pages->addr[index] == pages->addr[index - 1] + pages->size) {
        got += pages->size;
    }
    *run = MIN(got, len);
    return addr;
}
