/*
 * rnic: the TPT, Memory Windows (7.10)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pd.h"
#include "hw/rnic/verbs/qp.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

enum {
    REMOTE_ACCESS = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE,
    WINDOW_ACCESS = REMOTE_ACCESS | RNIC_ACCESS_ZERO_BASED,
};

enum rnic_admin_status rnic_tpt_alloc_mw(RnicState *s,
                                         const struct rnic_admin_sqe *sqe,
                                         struct rnic_admin_cqe *cqe)
{
    uint32_t pdn = le32_to_cpu(sqe->alloc_stag.pdn);
    RnicStag *window;
    uint32_t index;

    if (sqe->alloc_stag.max_pages || sqe->alloc_stag.remote_access) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!rnic_pd_exists(s, pdn)) {
        return RNIC_ST_INVALID_PD;
    }
    window = rnic_tpt_create(s, RNIC_STAG_MW, pdn, 0, &index);
    if (!window) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    window->key = sqe->alloc_stag.key;
    cqe->number = cpu_to_le32(rnic_stag_value(index, window->key));
    trace_rnic_mw_allocated(index, pdn);
    return RNIC_ST_OK;
}

/* Figure 20: some remote right, each with the region's local one. */
static bool bind_rights_ok(const RnicStag *region, uint8_t access)
{
    return (access & REMOTE_ACCESS) && !(access & ~WINDOW_ACCESS) &&
           (!(access & RNIC_ACCESS_REMOTE_READ) ||
            (region->access & RNIC_ACCESS_LOCAL_READ)) &&
           (!(access & RNIC_ACCESS_REMOTE_WRITE) ||
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
    if (window->valid) {
        return RNIC_WC_STAG_NOT_INVALID;
    }
    if (!rnic_is_region(region) || !region->valid || region->key != mr_key) {
        return RNIC_WC_INVALID_REGION;
    }
    if (window->pdn != region->pdn || window->pdn != who->pdn) {
        return RNIC_WC_INVALID_PD;
    }
    return RNIC_WC_SUCCESS;
}

static enum rnic_wc_status bind_check_range(const RnicStag *region, uint64_t va,
                                            uint64_t length)
{
    uint64_t offset = va - region->base;

    if (length && va > UINT64_MAX - (length - 1)) {
        return RNIC_WC_WRAP;
    }
    if (va < region->base || offset > region->buffer->length ||
        length > region->buffer->length - offset) {
        return RNIC_WC_BASE_BOUNDS;
    }
    return RNIC_WC_SUCCESS;
}

/* 7.10.6.1, in the order of "Window bind". */
static enum rnic_wc_status bind_check(const RnicAccessor *who,
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
    if (!bind_rights_ok(region, wqe->access)) {
        return RNIC_WC_ACCESS_VIOLATION;
    }
    return bind_check_range(region, le64_to_cpu(wqe->va),
                            le64_to_cpu(wqe->length));
}

static enum rnic_wc_status bind_window(RnicState *s, const RnicAccessor *who,
                                       const struct rnic_bind_wqe *wqe)
{
    uint32_t mw_stag = le32_to_cpu(wqe->mw_stag);
    uint32_t mr_stag = le32_to_cpu(wqe->mr_stag);
    RnicStag *window = rnic_tpt_entry(s, mw_stag);
    RnicStag *region = mr_stag ? rnic_tpt_entry(s, mr_stag) : NULL;
    enum rnic_wc_status status = bind_check(who, window, region, wqe);
    uint64_t va = le64_to_cpu(wqe->va);

    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    window->key = mw_stag & 0xff;
    window->access = wqe->access;
    window->base = wqe->access & RNIC_ACCESS_ZERO_BASED ? 0 : va;
    window->length = le64_to_cpu(wqe->length);
    window->mr_offset = va - region->base;
    window->mr_index = mr_stag >> 8;
    window->qpn = who->qpn;
    rnic_stag_set_valid(s, window);
    region->windows++;
    rnic_qp_windows_changed(s, who->qpn, 1);
    trace_rnic_mw_bound(mw_stag >> 8, mr_stag >> 8, who->qpn, va,
                        window->length, window->access);
    return RNIC_WC_SUCCESS;
}

enum rnic_wc_status rnic_tpt_bind(RnicState *s, const RnicAccessor *who,
                                  const struct rnic_bind_wqe *wqe)
{
    enum rnic_wc_status status;

    rnic_tpt_begin_change(s);
    status = bind_window(s, who, wqe);
    rnic_tpt_end_change(s);
    return status;
}

/* V7.10.4-2: back to the PD of the QP that did it. */
void rnic_window_unbind(RnicState *s, RnicStag *window, uint32_t pdn)
{
    RnicStag *region = rnic_table_get(&s->tpt.entries, window->mr_index);

    region->windows--;
    rnic_qp_windows_changed(s, window->qpn, -1);
    window->valid = false;
    window->mr_index = 0;
    window->qpn = 0;
    rnic_stag_set_pd(s, window, pdn);
}
