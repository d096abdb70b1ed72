/*
 * rnic: the TPT, access checks, translation and invalidation (7.4 to 7.8)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/iwarp/ddp.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

/* What @stag names with its index and key, if it is Valid. */
static const RnicStag *tpt_valid(RnicState *s, uint32_t stag)
{
    const RnicStag *entry = rnic_tpt_entry(s, stag);

    return entry && entry->valid && entry->key == (stag & 0xff) ? entry
                                                                 : NULL;
}

RnicAccessResult rnic_tpt_check_range(uint64_t base, uint64_t length,
                                      uint64_t to, uint64_t len)
{
    if (iwarp_to_wraps(to, len)) {
        return RNIC_ACCESS_WRAP;
    }
    return to >= base && to - base <= length && len <= length - (to - base)
           ? RNIC_ACCESS_OK : RNIC_ACCESS_BOUNDS;
}

/* V7.6.3-3, and 7.10.6.2: a window serves the QP that it is bound through. */
static bool tpt_serves(const RnicStag *entry, const RnicAccessor *who)
{
    return entry->kind == RNIC_STAG_MW && !entry->of_pd
           ? entry->qpn == who->qpn : entry->pd == who->pd;
}

/* 7.10.6.2: of a window its own rights; the region's are not asked. */
static RnicAccessResult tpt_check_entry(RnicState *s, const RnicStag *entry,
                                        const RnicAccessor *who, uint64_t to,
                                        uint64_t len, uint8_t need,
                                        RnicTarget *target)
{
    const RnicStag *region = entry;
    uint64_t length;

    if (!entry) {
        return RNIC_ACCESS_INVALID_STAG;
    }
    if (entry->kind == RNIC_STAG_MW) {
        region = rnic_tpt_by_index(s, entry->mr_index);
        length = entry->length;
    } else {
        length = entry->buffer->length;
    }
    if (!tpt_serves(entry, who)) {
        return RNIC_ACCESS_INVALID_PD;
    }
    if ((entry->access & need) != need) {
        return RNIC_ACCESS_RIGHTS;
    }
    *target = (RnicTarget) {
        .pages = &region->buffer->pages,
        .offset = region->buffer->first_byte_offset + entry->mr_offset +
                  (to - entry->base),
        .mapping = entry->mapping,
    };
    return rnic_tpt_check_range(entry->base, length, to, len);
}

/* STag zero: physical addresses, no PD and no rights (7.2.1). */
static RnicAccessResult tpt_check_zero(const RnicAccessor *who, uint64_t to,
                                       uint64_t len, RnicTarget *target)
{
    if (!who->stag_zero) {
        return RNIC_ACCESS_INVALID_STAG;
    }
    if (iwarp_to_wraps(to, len)) {
        return RNIC_ACCESS_WRAP;
    }
    *target = (RnicTarget) { .offset = to };
    return RNIC_ACCESS_OK;
}

/* A window is no place for local data (V8.1.3.2-3). */
static RnicAccessResult tpt_check_local(RnicState *s, const RnicAccessor *who,
                                        uint32_t stag, uint64_t to,
                                        uint64_t len, uint8_t need,
                                        RnicTarget *target)
{
    const RnicStag *region;

    if (stag == 0) {
        return tpt_check_zero(who, to, len, target);
    }
    region = tpt_valid(s, stag);
    if (!rnic_is_region(region)) {
        return RNIC_ACCESS_INVALID_STAG;
    }
    return tpt_check_entry(s, region, who, to, len, need, target);
}

RnicAccessResult rnic_tpt_check_remote(RnicState *s, const RnicAccessor *who,
                                       uint32_t stag, uint64_t to,
                                       uint64_t len, uint8_t need,
                                       RnicTarget *target)
{
    return tpt_check_entry(s, tpt_valid(s, stag), who, to, len, need, target);
}

RnicAccessResult rnic_tpt_check_read_sink(RnicState *s,
                                          const RnicAccessor *who,
                                          uint32_t stag, uint64_t to,
                                          uint64_t len, RnicTarget *target)
{
    const RnicStag *entry = tpt_valid(s, stag);
    uint8_t need = rnic_is_region(entry) &&
                   (entry->access & RNIC_ACCESS_READ_SINK)
                   ? RNIC_ACCESS_LOCAL_WRITE : RNIC_ACCESS_REMOTE_WRITE;

    return tpt_check_entry(s, entry, who, to, len, need, target);
}

enum rnic_wc_status rnic_access_status(RnicAccessResult result)
{
    static const uint8_t statuses[] = {
        [RNIC_ACCESS_OK] = RNIC_WC_SUCCESS,
        [RNIC_ACCESS_INVALID_STAG] = RNIC_WC_INVALID_STAG,
        [RNIC_ACCESS_NOT_INVALIDATED] = RNIC_WC_INVALID_STAG,
        [RNIC_ACCESS_INVALID_PD] = RNIC_WC_INVALID_PD,
        [RNIC_ACCESS_RIGHTS] = RNIC_WC_ACCESS_VIOLATION,
        [RNIC_ACCESS_WRAP] = RNIC_WC_WRAP,
        [RNIC_ACCESS_BOUNDS] = RNIC_WC_BASE_BOUNDS,
        [RNIC_ACCESS_DMA] = RNIC_WC_QP_CATASTROPHIC,
    };

    return statuses[result];
}

RnicAccessResult rnic_target_hold(const RnicTarget *target,
                                  const RnicAccessor *who, uint64_t *held)
{
    if (*held && *held != target->mapping) {
        trace_rnic_err_mapping_replaced(who->qpn);
        return RNIC_ACCESS_INVALID_STAG;
    }
    *held = target->mapping;
    return RNIC_ACCESS_OK;
}

static uint64_t target_run(const RnicTarget *target, uint64_t done,
                           uint64_t len, uint64_t *run)
{
    if (!target->pages) {
        *run = len;
        return target->offset + done;
    }
    return rnic_pages_translate(target->pages, target->offset + done, len,
                                run);
}

RnicAccessResult rnic_target_map(RnicState *s, const RnicTarget *target,
                                 uint64_t len, RnicDmaMap *map)
{
    uint64_t run;

    for (uint64_t done = 0; done < len && !rnic_dma_map_full(map);
         done += run) {
        uint64_t addr = target_run(target, done, len - done, &run);

        if (!rnic_dma_map_add(s, map, addr, run)) {
            return RNIC_ACCESS_DMA;
        }
    }
    return RNIC_ACCESS_OK;
}

bool rnic_target_word(const RnicTarget *target, uint64_t *addr)
{
    uint64_t run;

    *addr = target_run(target, 0, sizeof(uint64_t), &run);
    return run == sizeof(uint64_t) && *addr % sizeof(uint64_t) == 0;
}

RnicAccessResult rnic_tpt_map_sgl(RnicState *s, const RnicAccessor *who,
                                  const struct rnic_sge *sge, unsigned count,
                                  uint64_t offset, uint64_t len, uint8_t need,
                                  RnicDmaMap *map)
{
    RnicAccessResult result = RNIC_ACCESS_OK;
    uint64_t size, part;
    RnicTarget target;

    for (; count && len && result == RNIC_ACCESS_OK; count--, sge++) {
        size = le32_to_cpu(sge->length);
        if (offset >= size) {
            offset -= size;
            continue;
        }
        part = MIN(len, size - offset);
        result = tpt_check_local(s, who, le32_to_cpu(sge->stag),
                                 le64_to_cpu(sge->to) + offset, part, need,
                                 &target);
        if (map && result == RNIC_ACCESS_OK) {
            result = rnic_target_map(s, &target, part, map);
        }
        offset = 0;
        len -= part;
    }
    return result;
}

/* Whether @stag names what can be invalidated at all. */
static bool stag_invalidatable(const RnicStag *entry, uint32_t stag)
{
    return entry->kind != RNIC_STAG_SHARED_MR && !entry->of_pd &&
           (!entry->valid || entry->key == (stag & 0xff));
}

/* Its PD may invalidate an STag, or the QP that a window is bound through. */
static bool stag_may_invalidate(const RnicStag *entry, const RnicAccessor *who)
{
    return entry->valid ? tpt_serves(entry, who) : entry->pd == who->pd;
}

/* "Invalidate" of chapter 7's access checks, in that order. */
RnicAccessResult rnic_tpt_invalidate(RnicState *s, const RnicAccessor *who,
                                     uint32_t stag, bool remote)
{
    RnicStag *entry;

    RNIC_TPT_CHANGE_GUARD(s);
    if (!stag) {
        return RNIC_ACCESS_NOT_INVALIDATED;
    }
    entry = rnic_tpt_entry(s, stag);
    if (!entry) {
        return RNIC_ACCESS_INVALID_STAG;
    }
    if (!stag_invalidatable(entry, stag)) {
        return RNIC_ACCESS_NOT_INVALIDATED;
    }
    if (!stag_may_invalidate(entry, who)) {
        return RNIC_ACCESS_INVALID_PD;
    }
    if (entry->windows) {
        return RNIC_ACCESS_NOT_INVALIDATED;
    }
    if (remote && !(entry->access & RNIC_REMOTE_ACCESS)) {
        return RNIC_ACCESS_RIGHTS;
    }
    if (entry->kind == RNIC_STAG_MW && entry->valid) {
        rnic_window_unbind(s, entry, who->pd);
    }
    if (rnic_is_region(entry)) {
        /* V7.8-9: no region has the list any more, its room stays. */
        rnic_pages_free(&entry->buffer->pages);
    }
    entry->valid = false;
    trace_rnic_stag_invalidated(stag >> 8, who->qpn, remote);
    return RNIC_ACCESS_OK;
}
