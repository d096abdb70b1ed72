/*
 * rnic: access to guest memory
 *
 * Everything goes through the PCI function's bus-master address space (so a
 * vIOMMU and the bus-master bit apply) and can reach only what QEMU accesses
 * directly: RAM, and ROM for reading.  MMIO, a hole, and ROM for writing are
 * failures.  No function here takes the big lock.  Failures are counted and
 * traced here; what they mean is the caller's to say.
 *
 * Any thread; but see rnic_dma_behind_iommu().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_DMA_H
#define HW_RNIC_DMA_H

#include "qemu/iov.h"
#include "qemu/tsan.h"
#include "hw/rnic/base/rnic.h"

/*
 * Around everything that touches guest memory.  The protocols of the queues order
 * the accesses of the guest's processors and of the device.  TSan cannot see that
 * order, so it ignores these accesses.
 */
static inline void rnic_guest_memory_begin(void)
{
    QEMU_TSAN_ANNOTATE_IGNORE_READS_BEGIN();
    QEMU_TSAN_ANNOTATE_IGNORE_WRITES_BEGIN();
}

static inline void rnic_guest_memory_end(void)
{
    QEMU_TSAN_ANNOTATE_IGNORE_WRITES_END();
    QEMU_TSAN_ANNOTATE_IGNORE_READS_END();
}

/*
 * Whether a vIOMMU translates the device's addresses.  Then all functions here
 * need the big lock: QEMU reports a vIOMMU's faults under it.
 */
bool rnic_dma_behind_iommu(const RnicState *s);

/* False: not all of it is RAM (ROM does for reading). */
bool rnic_dma_read(RnicState *s, dma_addr_t addr, void *buf, dma_addr_t len);
bool rnic_dma_write(RnicState *s, dma_addr_t addr, const void *buf,
                    dma_addr_t len);

/*
 * One aligned 32-bit little-endian word, read or written at once.  A store
 * becomes visible to the guest after every earlier write of the device.
 */
bool rnic_dma_load32(RnicState *s, dma_addr_t addr, uint32_t *val);
bool rnic_dma_store32(RnicState *s, dma_addr_t addr, uint32_t val);

/*
 * Change the aligned 64-bit little-endian word at @addr to @change(@arg, word) as
 * one of the host's atomic operations is done, hence atomically towards the guest's
 * processors, too.
 */
typedef uint64_t RnicDmaChange(const void *arg, uint64_t word);

typedef enum RnicDmaAtomic {
    RNIC_DMA_ATOMIC_DONE,       /* *@original: the word before */
    RNIC_DMA_ATOMIC_BUSY,       /* others change it all the time: try later */
    RNIC_DMA_ATOMIC_FAILED,     /* not RAM */
} RnicDmaAtomic;

RnicDmaAtomic rnic_dma_atomic64(RnicState *s, dma_addr_t addr,
                                RnicDmaChange *change, const void *arg,
                                uint64_t *original);

/* Whether this host has them. */
#ifdef CONFIG_ATOMIC64
enum { RNIC_DMA_HAS_ATOMIC64 = true };
#else
enum { RNIC_DMA_HAS_ATOMIC64 = false };
#endif

/* A full barrier between a store to and a load from guest memory. */
static inline void rnic_dma_barrier(void)
{
    smp_mb();
}

/*
 * Guest memory mapped for one turn of the event loop, as iovecs.  Must be
 * undone with rnic_dma_unmap() before the turn ends.  Who uses them says so
 * with rnic_guest_memory_begin().
 */
enum { RNIC_DMA_MAP_MAX = 512 };

/*
 * A stretch of RAM, all that is in one piece, the host address of which is
 * known: scattered pages are looked up in it much faster than one by one.  Open
 * for a turn at most, since it holds on to the guest's RAM.  Zeroed, it is
 * closed.
 */
typedef struct RnicDmaWindow {
    uint32_t pieces;                    /* mapped since the turn began */
    dma_addr_t start;
    dma_addr_t len;                     /* 0: closed */
    MemoryRegionCache cache;
} RnicDmaWindow;

/* Large: on hot paths it is declared QEMU_UNINITIALIZED. */
typedef struct RnicDmaMap {
    RnicDmaWindow *window;
    unsigned count;
    bool to_guest;                      /* the device writes */
    bool in_window[RNIC_DMA_MAP_MAX];
    struct iovec iov[RNIC_DMA_MAP_MAX + 1];     /* the last: for the caller */
} RnicDmaMap;

/* @window: of this thread. */
static inline void rnic_dma_map_init(RnicDmaMap *map, RnicDmaWindow *window,
                                     bool to_guest)
{
    map->window = window;
    map->count = 0;
    map->to_guest = to_guest;
}

/*
 * Append @len octets at @addr, or as many as the map takes.  False when not all of
 * them are RAM; spans appended before stay mapped.
 */
bool rnic_dma_map_add(RnicState *s, RnicDmaMap *map, dma_addr_t addr,
                      dma_addr_t len);

static inline bool rnic_dma_map_full(const RnicDmaMap *map)
{
    return map->count == RNIC_DMA_MAP_MAX;
}

/* Octets of all spans. */
static inline size_t rnic_dma_map_octets(const RnicDmaMap *map)
{
    return iov_size(map->iov, map->count);
}

/* Undo all spans; @to_guest maps are marked dirty in full. */
void rnic_dma_unmap(RnicState *s, RnicDmaMap *map);

/* At the end of a turn; no map is left. */
void rnic_dma_window_close(RnicDmaWindow *window);

#endif /* HW_RNIC_DMA_H */
