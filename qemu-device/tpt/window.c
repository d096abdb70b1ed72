/*
 * rnic: the TPT, Memory Windows (7.10); and windows of a PD, InfiniBand's type 1
 * (manual, deviations)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

enum rnic_admin_status rnic_tpt_alloc_mw(RnicAdminRequest *q)
{
    RnicStag *window;
    uint32_t index;

    if (q->sqe.alloc_stag.max_pages || q->sqe.alloc_stag.remote_access ||
        q->sqe.alloc_stag.window_of_pd >
        rnic_accepted(q->s, RNIC_FEATURE_PD_WINDOW)) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!q->pd) {
        return RNIC_ST_INVALID_PD;
    }
    RNIC_TPT_WRITE_GUARD(q->s);
    window = rnic_tpt_create(q->s, RNIC_STAG_MW, q->pd, NULL, &index);
    if (!window) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    window->key = q->sqe.alloc_stag.key;
    window->of_pd = q->sqe.alloc_stag.window_of_pd;
    q->cqe.number = cpu_to_le32(rnic_stag_value(index,
                                                q->sqe.alloc_stag.key));
    trace_rnic_mw_allocated(index, rnic_object_number(q->pd));
    return RNIC_ST_OK;
}

/* Figure 20: some remote right, each with the region's local one. */
static bool bind_rights_ok(const RnicState *s, const RnicAccessor *who,
                           const RnicStag *region, uint8_t access)
{
    uint8_t known = RNIC_REMOTE_ACCESS | RNIC_ACCESS_ZERO_BASED;

    if (!rnic_accepted(s, RNIC_FEATURE_RDMAP_EXTENSIONS)) {
        known &= ~RNIC_ACCESS_REMOTE_ATOMIC;
    }
    return ((access & RNIC_REMOTE_ACCESS) || who->bind_without_rights) &&
           !(access & ~known) &&
           (!(access & RNIC_ACCESS_REMOTE_READ) ||
            (region->access & RNIC_ACCESS_LOCAL_READ)) &&
           (!(access & (RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC)) ||
            (region->access & RNIC_ACCESS_LOCAL_WRITE));
}

static enum rnic_wc_status bind_check_stags(const RnicAccessor *who,
                                            const RnicStag *window,
                                            const RnicStag *region,
                                            uint8_t mr_key)
{
    if (!window || window->kind != RNIC_STAG_MW) {
        return RNIC_WC_INVALID_WINDOW;
    }
    if (window->valid && !window->of_pd) {
        return RNIC_WC_STAG_NOT_INVALID;
    }
    if (!rnic_is_region(region) || !region->valid || region->key != mr_key) {
        return RNIC_WC_INVALID_REGION;
    }
    if (window->pd != region->pd || window->pd != who->pd) {
        return RNIC_WC_INVALID_PD;
    }
    return RNIC_WC_SUCCESS;
}

/* 7.10.6.1, in the order of "Window bind". */
static enum rnic_wc_status bind_check(const RnicState *s,
                                      const RnicAccessor *who,
                                      const RnicStag *window,
                                      const RnicStag *region,
                                      const struct rnic_bind_wqe *wqe)
{
    enum rnic_wc_status status = bind_check_stags(
        who, window, region, le32_to_cpu(wqe->mr_stag) & 0xff);

    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    if (!(region->access & RNIC_ACCESS_MW_BIND)) {
        return RNIC_WC_ACCESS_VIOLATION;
    }
    if (region->access & RNIC_ACCESS_ZERO_BASED) {
        return RNIC_WC_INVALID_REGION;
    }
    if (!bind_rights_ok(s, who, region, wqe->access)) {
        return RNIC_WC_ACCESS_VIOLATION;
    }
    return rnic_access_status(
        rnic_tpt_check_range(region->base, region->buffer->length,
                             le64_to_cpu(wqe->va), le64_to_cpu(wqe->length)));
}

/* A Bind of no length takes a window of a PD from its region. */
static enum rnic_wc_status bind_to_nothing(RnicState *s, const RnicAccessor *who,
                                           RnicStag *window, uint32_t index)
{
    if (window->pd != who->pd) {
        return RNIC_WC_INVALID_PD;
    }
    if (window->valid) {
        rnic_window_unbind(s, window, window->pd);
        trace_rnic_mw_unbound(index, who->qpn);
    }
    return RNIC_WC_SUCCESS;
}

enum rnic_wc_status rnic_tpt_bind(RnicState *s, const RnicAccessor *who,
                                  const struct rnic_bind_wqe *wqe)
{
    uint32_t mw_stag = le32_to_cpu(wqe->mw_stag);
    uint32_t mr_stag = le32_to_cpu(wqe->mr_stag);
    uint64_t va = le64_to_cpu(wqe->va);
    enum rnic_wc_status status;
    RnicStag *window, *region;

    RNIC_TPT_CHANGE_GUARD(s);
    window = rnic_tpt_entry(s, mw_stag);
    if (window && window->of_pd && wqe->length == 0) {
        return bind_to_nothing(s, who, window, mw_stag >> 8);
    }
    region = mr_stag ? rnic_tpt_entry(s, mr_stag) : NULL;
    status = bind_check(s, who, window, region, wqe);
    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    if (window->valid) {
        rnic_window_unbind(s, window, window->pd);
    }
    window->key = mw_stag & 0xff;
    window->access = wqe->access;
    window->base = wqe->access & RNIC_ACCESS_ZERO_BASED ? 0 : va;
    window->length = le64_to_cpu(wqe->length);
    window->mr_offset = va - region->base;
    window->mr_index = mr_stag >> 8;
    if (!window->of_pd) {
        window->qpn = who->qpn;
        window->qp_windows = who->windows;
        ++*window->qp_windows;
    }
    rnic_stag_set_valid(s, window);
    region->windows++;
    trace_rnic_mw_bound(mw_stag >> 8, mr_stag >> 8, who->qpn, va,
                        window->length, window->access);
    return RNIC_WC_SUCCESS;
}

/* V7.10.4-2: @pd is that of the QP that did it. */
void rnic_window_unbind(RnicState *s, RnicStag *window, RnicPd *pd)
{
    RnicStag *region = rnic_tpt_by_index(s, window->mr_index);

    region->windows--;
    if (window->qp_windows) {
        --*window->qp_windows;
    }
    window->valid = false;
    window->mr_index = 0;
    window->qpn = 0;
    window->qp_windows = NULL;
    rnic_stag_set_pd(window, pd);
}
