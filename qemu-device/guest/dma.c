/*
 * rnic: access to guest memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "dma.h"
#include "hw/rnic/base/trace.h"

/* PCI_DEVICE() would compare names, for each page that is mapped. */
static PCIDevice *pci(RnicState *s)
{
    return &s->parent_obj;
}

static MemTxAttrs ram_only(RnicState *s)
{
    return (MemTxAttrs) {
        .memory = true,
        .requester_id = pci_requester_id(pci(s)),
    };
}

static bool check(RnicState *s, MemTxResult result, dma_addr_t addr,
                  dma_addr_t len, bool to_guest)
{
    if (result == MEMTX_OK) {
        return true;
    }
    rnic_count(&s->counters.dma_errors, 1);
    trace_rnic_err_dma(addr, len, to_guest);
    return false;
}

static bool access_memory(RnicState *s, dma_addr_t addr, void *buf,
                          dma_addr_t len, DMADirection direction)
{
    MemTxResult result;

    rnic_guest_memory_begin();
    result = pci_dma_rw(pci(s), addr, buf, len, direction,
                        ram_only(s));
    rnic_guest_memory_end();
    return check(s, result, addr, len,
                 direction == DMA_DIRECTION_FROM_DEVICE);
}

bool rnic_dma_read(RnicState *s, dma_addr_t addr, void *buf, dma_addr_t len)
{
    return access_memory(s, addr, buf, len, DMA_DIRECTION_TO_DEVICE);
}

bool rnic_dma_write(RnicState *s, dma_addr_t addr, const void *buf,
                    dma_addr_t len)
{
    return access_memory(s, addr, (void *)buf, len,
                         DMA_DIRECTION_FROM_DEVICE);
}

bool rnic_dma_load32(RnicState *s, dma_addr_t addr, uint32_t *val)
{
    MemTxResult result;

    rnic_guest_memory_begin();
    result = ldl_le_pci_dma(pci(s), addr, val, ram_only(s));
    rnic_guest_memory_end();
    return check(s, result, addr, sizeof(*val), false);
}

bool rnic_dma_store32(RnicState *s, dma_addr_t addr, uint32_t val)
{
    MemTxResult result;

    smp_wmb();
    rnic_guest_memory_begin();
    result = stl_le_pci_dma(pci(s), addr, val, ram_only(s));
    rnic_guest_memory_end();
    return check(s, result, addr, sizeof(val), true);
}

static DMADirection direction(const RnicDmaMap *map)
{
    return map->to_guest ? DMA_DIRECTION_FROM_DEVICE : DMA_DIRECTION_TO_DEVICE;
}

/*
 * Maps a first part of the range.  What is not RAM would be mapped as a
 * bounce buffer, which hides errors: refused.
 */
static void *map_ram(RnicState *s, const RnicDmaMap *map, dma_addr_t addr,
                     dma_addr_t *len)
{
    AddressSpace *as = pci_get_address_space(pci(s));
    ram_addr_t offset;
    void *host = dma_memory_map(as, addr, len, direction(map), ram_only(s));

    if (host && !memory_region_from_host(host, &offset)) {
        dma_memory_unmap(as, host, *len, direction(map), 0);
        return NULL;
    }
    return host;
}

/* A map of fewer pieces is done before a window is open. */
enum { WINDOW_MIN = 3 };

/* Everything around @addr that is in one piece, if it is RAM. */
static void window_open(RnicDmaWindow *w, AddressSpace *as, dma_addr_t addr)
{
    dma_addr_t start, len;

    address_space_cache_init(&w->cache, as, addr, 1, true);
    start = w->cache.mrs.offset_within_address_space;
    len = int128_gethi(w->cache.mrs.size) ? UINT64_MAX
                                          : int128_getlo(w->cache.mrs.size);
    if (w->cache.ptr) {
        address_space_cache_destroy(&w->cache);
        len = address_space_cache_init(&w->cache, as, start, len, true);
    }
    w->start = start;
    w->len = len;
}

void rnic_dma_window_close(RnicDmaWindow *w)
{
    if (w->len) {
        address_space_cache_destroy(&w->cache);
        w->len = 0;
    }
}

/* NULL: not in the window, or the window is not what the guest sees now. */
static void *window_find(RnicState *s, RnicDmaMap *map, dma_addr_t addr,
                         dma_addr_t *len)
{
    AddressSpace *as = pci_get_address_space(pci(s));
    RnicDmaWindow *w = map->window;

    if (!w->len && map->count >= WINDOW_MIN) {
        window_open(w, as, addr);
    }
    if (addr - w->start >= w->len || !w->cache.ptr ||
        w->cache.fv != address_space_to_flatview(as)) {
        return NULL;
    }
    *len = MIN(*len, w->len - (addr - w->start));
    return w->cache.ptr + (addr - w->start);
}

bool rnic_dma_map_add(RnicState *s, RnicDmaMap *map, dma_addr_t addr,
                      dma_addr_t len, bool *full)
{
    *full = false;
    while (len > 0) {
        dma_addr_t part = len;
        void *host;

        if (map->count == RNIC_DMA_MAP_MAX) {
            *full = true;
            return false;
        }
        host = window_find(s, map, addr, &part);
        map->in_window[map->count] = host != NULL;
        if (!host) {
            host = map_ram(s, map, addr, &part);
        }
        if (!host) {
            return check(s, MEMTX_DECODE_ERROR, addr, len, map->to_guest);
        }
        map->iov[map->count++] = (struct iovec) { host, part };
        addr += part;
        len -= part;
    }
    return true;
}

void rnic_dma_unmap(RnicState *s, RnicDmaMap *map)
{
    AddressSpace *as = pci_get_address_space(pci(s));

    for (unsigned i = 0; i < map->count; i++) {
        void *host = map->iov[i].iov_base;
        dma_addr_t len = map->iov[i].iov_len;

        if (!map->in_window[i]) {
            dma_memory_unmap(as, host, len, direction(map), len);
        } else if (map->to_guest) {
            address_space_cache_invalidate(
                &map->window->cache, (uint8_t *)host - map->window->cache.ptr,
                len);
        }
    }
    map->count = 0;
}
