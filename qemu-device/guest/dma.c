/*
 * rnic: access to guest memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "dma.h"
#include "hw/rnic/base/trace.h"

/* PCI_DEVICE() would compare names, for each page that is mapped. */
static PCIDevice *pci(RnicState *s)
{
    return &s->parent_obj;
}

static MemTxAttrs dma_attrs(RnicState *s)
{
    return (MemTxAttrs) {
        .memory = true,
        .requester_id = pci_requester_id(pci(s)),
    };
}

bool rnic_dma_behind_iommu(const RnicState *s)
{
    return pci_device_iommu_address_space(&((RnicState *)s)->parent_obj) !=
           &address_space_memory;
}

static bool dma_failed(RnicState *s, dma_addr_t addr, dma_addr_t len,
                       bool to_guest)
{
    rnic_count(&s->counters.dma_errors, 1);
    trace_rnic_err_dma(addr, len, to_guest);
    return false;
}

/*
 * QEMU's generic fuzzer fills what a device is about to read.  It knows of one thread
 * only.
 */
static void dma_let_fuzzer_fill(dma_addr_t addr, dma_addr_t len, MemoryRegion *mr)
{
#ifdef CONFIG_FUZZ
    if (bql_locked()) {
        fuzz_dma_read_cb(addr, len, mr);
    }
#endif
}

/*
 * Where the first octets of the range are on the host; *@len becomes their
 * number.  NULL: they are not RAM, or ROM that is to be written.  QEMU's own
 * functions for that (address_space_rw() and _map()) take such a range for
 * MMIO, and take the big lock.  In an RCU critical section.
 */
static void *dma_find_ram(RnicState *s, dma_addr_t addr, dma_addr_t *len,
                          bool to_guest, MemoryRegion **mr)
{
    MemTxAttrs attrs = dma_attrs(s);
    hwaddr offset;

    *mr = address_space_translate(pci_get_address_space(pci(s)), addr,
                                  &offset, len, to_guest, attrs);
    if (*len == 0 || !memory_access_is_direct(*mr, to_guest, attrs)) {
        return NULL;
    }
    if (!to_guest) {
        dma_let_fuzzer_fill(addr, *len, *mr);
    }
    return (uint8_t *)memory_region_get_ram_ptr(*mr) + offset;
}

/* The same, to be undone by dma_unmap_ram(). */
static void *dma_map_ram(RnicState *s, dma_addr_t addr, dma_addr_t *len,
                         bool to_guest)
{
    MemoryRegion *mr;
    void *host;

    RCU_READ_LOCK_GUARD();
    host = dma_find_ram(s, addr, len, to_guest, &mr);
    if (host) {
        memory_region_ref(mr);
    }
    return host;
}

/* What is to the guest becomes dirty; code that was translated there goes. */
static void dma_unmap_ram(RnicState *s, void *host, dma_addr_t len,
                          bool to_guest)
{
    address_space_unmap(pci_get_address_space(pci(s)), host, len, to_guest,
                        len);
}

bool rnic_dma_read(RnicState *s, dma_addr_t addr, void *buf, dma_addr_t len)
{
    MemoryRegion *mr;
    dma_addr_t part;
    void *host;

    RCU_READ_LOCK_GUARD();
    for (; len > 0; len -= part, addr += part, buf += part) {
        part = len;
        host = dma_find_ram(s, addr, &part, false, &mr);
        if (!host) {
            return dma_failed(s, addr, len, false);
        }
        rnic_guest_memory_begin();
        memcpy(buf, host, part);
        rnic_guest_memory_end();
    }
    return true;
}

bool rnic_dma_write(RnicState *s, dma_addr_t addr, const void *buf,
                    dma_addr_t len)
{
    dma_addr_t part;
    void *host;

    for (; len > 0; len -= part, addr += part, buf += part) {
        part = len;
        host = dma_map_ram(s, addr, &part, true);
        if (!host) {
            return dma_failed(s, addr, len, true);
        }
        rnic_guest_memory_begin();
        memcpy(host, buf, part);
        rnic_guest_memory_end();
        dma_unmap_ram(s, host, part, true);
    }
    return true;
}

bool rnic_dma_load32(RnicState *s, dma_addr_t addr, uint32_t *val)
{
    dma_addr_t len = sizeof(*val);
    MemoryRegion *mr;
    uint32_t *host;

    RCU_READ_LOCK_GUARD();
    host = dma_find_ram(s, addr, &len, false, &mr);
    if (!host || len < sizeof(*val)) {
        return dma_failed(s, addr, sizeof(*val), false);
    }
    rnic_guest_memory_begin();
    *val = le32_to_cpu(qatomic_read(host));
    rnic_guest_memory_end();
    return true;
}

bool rnic_dma_store32(RnicState *s, dma_addr_t addr, uint32_t val)
{
    dma_addr_t len = sizeof(val);
    uint32_t *host = dma_map_ram(s, addr, &len, true);

    if (!host) {
        return dma_failed(s, addr, sizeof(val), true);
    }
    if (len == sizeof(val)) {
        smp_wmb();
        rnic_guest_memory_begin();
        qatomic_set(host, cpu_to_le32(val));
        rnic_guest_memory_end();
    }
    dma_unmap_ram(s, host, len, true);
    return len == sizeof(val) || dma_failed(s, addr, sizeof(val), true);
}

#ifdef CONFIG_ATOMIC64
/* Of a word that guest and device change at the same time. */
enum { ATOMIC_TRIES = 1000 };

static RnicDmaAtomic dma_change64(uint64_t *host, RnicDmaChange *change,
                                  const void *arg, uint64_t *original)
{
    uint64_t old = qatomic_read__nocheck(host);

    for (unsigned i = 0; i < ATOMIC_TRIES; i++) {
        uint64_t seen = qatomic_cmpxchg__nocheck(
            host, old, cpu_to_le64(change(arg, le64_to_cpu(old))));

        if (seen == old) {
            *original = le64_to_cpu(old);
            return RNIC_DMA_ATOMIC_DONE;
        }
        old = seen;
    }
    return RNIC_DMA_ATOMIC_BUSY;
}
#else
static RnicDmaAtomic dma_change64(uint64_t *host, RnicDmaChange *change,
                                  const void *arg, uint64_t *original)
{
    return RNIC_DMA_ATOMIC_FAILED;      /* never asked for */
}
#endif

RnicDmaAtomic rnic_dma_atomic64(RnicState *s, dma_addr_t addr,
                                RnicDmaChange *change, const void *arg,
                                uint64_t *original)
{
    RnicDmaAtomic result = RNIC_DMA_ATOMIC_FAILED;
    dma_addr_t len = sizeof(uint64_t);
    void *host = dma_map_ram(s, addr, &len, true);

    if (!host) {
        dma_failed(s, addr, sizeof(uint64_t), true);
        return result;
    }
    if (len == sizeof(uint64_t) && QEMU_PTR_IS_ALIGNED(host, len)) {
        rnic_guest_memory_begin();
        result = dma_change64(host, change, arg, original);
        rnic_guest_memory_end();
    }
    dma_unmap_ram(s, host, len, true);
    if (result == RNIC_DMA_ATOMIC_FAILED) {
        dma_failed(s, addr, sizeof(uint64_t), true);
    }
    return result;
}

/* A map of fewer pieces is done before a window is open. */
enum { WINDOW_MIN = 3 };

/* Everything around @addr that is in one piece, if it is RAM. */
static void dma_window_open(RnicDmaWindow *w, AddressSpace *as, dma_addr_t addr)
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
static void *dma_window_find(RnicState *s, RnicDmaMap *map, dma_addr_t addr,
                         dma_addr_t *len)
{
    AddressSpace *as = pci_get_address_space(pci(s));
    RnicDmaWindow *w = map->window;

    if (!w->len && map->count >= WINDOW_MIN) {
        dma_window_open(w, as, addr);
    }
    if (addr - w->start >= w->len || !w->cache.ptr ||
        w->cache.fv != address_space_to_flatview(as)) {
        return NULL;
    }
    *len = MIN(*len, w->len - (addr - w->start));
    return w->cache.ptr + (addr - w->start);
}

bool rnic_dma_map_add(RnicState *s, RnicDmaMap *map, dma_addr_t addr,
                      dma_addr_t len)
{
    while (len > 0 && !rnic_dma_map_full(map)) {
        dma_addr_t part = len;
        void *host = dma_window_find(s, map, addr, &part);

        map->in_window[map->count] = host != NULL;
        if (!host) {
            host = dma_map_ram(s, addr, &part, map->to_guest);
        }
        if (!host) {
            return dma_failed(s, addr, len, map->to_guest);
        }
        map->iov[map->count++] = (struct iovec) { host, part };
        map->window->pieces++;
        addr += part;
        len -= part;
    }
    return true;
}

void rnic_dma_unmap(RnicState *s, RnicDmaMap *map)
{
    for (unsigned i = 0; i < map->count; i++) {
        void *host = map->iov[i].iov_base;
        dma_addr_t len = map->iov[i].iov_len;

        if (!map->in_window[i]) {
            dma_unmap_ram(s, host, len, map->to_guest);
        } else if (map->to_guest) {
            address_space_cache_invalidate(
                &map->window->cache, (uint8_t *)host - map->window->cache.ptr,
                len);
        }
    }
    map->count = 0;
}
