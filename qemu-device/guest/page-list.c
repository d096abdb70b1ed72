/*
 * rnic: physical buffer lists, from a buffer's offsets to bus addresses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "dma.h"
#include "page-list.h"

static bool pages_read_entries(RnicState *s, uint64_t from, uint64_t *to,
                               uint32_t count)
{
    return rnic_dma_read(s, from, to, (dma_addr_t)count * sizeof(*to));
}

/* The rest of the chunk that entry reader->done is in, or of the list. */
static enum rnic_admin_status pages_read_chunk(RnicState *s,
                                               RnicPagesReader *reader,
                                               uint32_t *count)
{
    uint32_t index = reader->done / RNIC_PAGE_CHUNK_ENTRIES;
    uint64_t chunk;

    *count = MIN(reader->pages.count - reader->done, RNIC_PAGE_CHUNK_ENTRIES);
    if (!pages_read_entries(s, reader->list + index * sizeof(chunk), &chunk,
                            1)) {
        return RNIC_ST_DMA_ERROR;
    }
    chunk = le64_to_cpu(chunk);
    if (chunk & 7) {
        return RNIC_ST_BAD_BUFFER;
    }
    return pages_read_entries(s, chunk, reader->pages.addr + reader->done,
                              *count) ? RNIC_ST_OK : RNIC_ST_DMA_ERROR;
}

/* About @entries more, as they are in guest memory; *@count is their number. */
static enum rnic_admin_status pages_read_part(RnicState *s,
                                              RnicPagesReader *reader,
                                              uint32_t entries,
                                              uint32_t *count)
{
    uint64_t *to = reader->pages.addr + reader->done;

    switch (reader->level) {
    case RNIC_PAGE_LIST_INLINE:
        *count = 1;
        *to = cpu_to_le64(reader->list);
        return RNIC_ST_OK;
    case RNIC_PAGE_LIST_DIRECT:
        *count = MIN(reader->pages.count - reader->done, entries);
        return pages_read_entries(s, reader->list +
                                  reader->done * sizeof(*to), to, *count)
               ? RNIC_ST_OK : RNIC_ST_DMA_ERROR;
    default:
        return pages_read_chunk(s, reader, count);
    }
}

static bool pages_address_ok(const RnicPages *pages, uint64_t addr)
{
    return pages->shift ? rnic_pages_within(pages, addr) == 0
                        : addr <= UINT64_MAX - (pages->size - 1);
}

static bool pages_addresses_ok(RnicPages *pages, uint32_t first,
                               uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        pages->addr[i] = le64_to_cpu(pages->addr[i]);
        if (!pages_address_ok(pages, pages->addr[i])) {
            return false;
        }
    }
    return true;
}

static bool pages_size_ok(const struct rnic_page_list *wire,
                          uint64_t block_size)
{
    return block_size ? wire->page_shift == 0
                      : wire->page_shift >= 12 && wire->page_shift <= 63;
}

static enum rnic_admin_status pages_check_list(const RnicPagesReader *reader)
{
    if (reader->level > RNIC_PAGE_LIST_INDIRECT) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (reader->level == RNIC_PAGE_LIST_INLINE) {
        return reader->pages.count == 1 ? RNIC_ST_OK
                                        : RNIC_ST_INVALID_PBL_SIZE;
    }
    return reader->list & 7 ? RNIC_ST_BAD_BUFFER : RNIC_ST_OK;
}

enum rnic_admin_status rnic_pages_begin(RnicPagesReader *reader,
                                        const struct rnic_page_list *wire,
                                        uint32_t max, uint64_t block_size)
{
    RnicPages *pages = &reader->pages;
    enum rnic_admin_status status;

    *reader = (RnicPagesReader) {
        .pages.count = le32_to_cpu(wire->count),
        .list = le64_to_cpu(wire->addr),
        .level = wire->level,
    };
    if (wire->reserved) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    if (pages->count == 0 || pages->count > max ||
        !pages_size_ok(wire, block_size)) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    status = pages_check_list(reader);
    if (status != RNIC_ST_OK) {
        return status;
    }
    pages->shift = wire->page_shift;
    pages->size = block_size ? block_size : 1ULL << pages->shift;
    pages->addr = g_try_new(uint64_t, pages->count);
    return pages->addr ? RNIC_ST_OK : RNIC_ST_INSUFFICIENT_RESOURCES;
}

enum rnic_admin_status rnic_pages_continue(RnicState *s,
                                           RnicPagesReader *reader,
                                           uint32_t entries)
{
    RnicPages *pages = &reader->pages;
    uint64_t until = (uint64_t)reader->done + entries;
    enum rnic_admin_status status = RNIC_ST_OK;
    uint32_t count;

    while (status == RNIC_ST_OK && reader->done < MIN(until, pages->count)) {
        status = pages_read_part(s, reader, until - reader->done, &count);
        if (status == RNIC_ST_OK &&
            !pages_addresses_ok(pages, reader->done, count)) {
            status = RNIC_ST_INVALID_PBL_ENTRY;
        }
        reader->done += status == RNIC_ST_OK ? count : 0;
    }
    if (status != RNIC_ST_OK) {
        rnic_pages_free(pages);
        return status;
    }
    return reader->done < pages->count ? RNIC_ADMIN_LATER : RNIC_ST_OK;
}

enum rnic_admin_status rnic_pages_read(RnicState *s,
                                       const struct rnic_page_list *wire,
                                       uint32_t max, uint64_t block_size,
                                       RnicPages *pages)
{
    RnicPagesReader reader;
    enum rnic_admin_status status = rnic_pages_begin(&reader, wire, max,
                                                     block_size);

    if (status == RNIC_ST_OK) {
        status = rnic_pages_continue(s, &reader, UINT32_MAX);
    }
    *pages = status == RNIC_ST_OK ? reader.pages : (RnicPages) { };
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
