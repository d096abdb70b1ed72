/*
 * rnic: the TPT, Fast-Register (7.3.2.5)
 *
 * The work request's registration: within a turn of a QP, hence of a list that is
 * short.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

/* The completion status that says what an admin status says (figure 36). */
static enum rnic_wc_status fast_register_status(enum rnic_admin_status status)
{
    switch (status) {
    case RNIC_ST_OK:
        return RNIC_WC_SUCCESS;
    case RNIC_ST_INVALID_FBO:
        return RNIC_WC_INVALID_FBO;
    case RNIC_ST_INVALID_LENGTH:
        return RNIC_WC_INVALID_REGISTER_LENGTH;
    case RNIC_ST_INVALID_VA:
        return RNIC_WC_INVALID_VA;
    case RNIC_ST_INVALID_PBL_SIZE:
        return RNIC_WC_INVALID_PBL_SIZE;
    case RNIC_ST_INVALID_PBL_ENTRY:
        return RNIC_WC_INVALID_PBL_ENTRY;
    case RNIC_ST_DMA_ERROR:
    case RNIC_ST_INSUFFICIENT_RESOURCES:
        return RNIC_WC_QP_CATASTROPHIC;
    default:
        return RNIC_WC_INVALID_WQE;
    }
}

/*
 * V9.5.2-15: in Page Mode it is the page size that is wrong, in Block Mode the
 * size of a physical buffer.
 */
static enum rnic_wc_status fast_register_wrong_size(const RnicState *s)
{
    return rnic_accepted(s, RNIC_FEATURE_BLOCK_LIST)
           ? RNIC_WC_INVALID_PBL_SIZE : RNIC_WC_INVALID_PAGE_SIZE;
}

static enum rnic_wc_status fast_register_check(const RnicState *s,
                                               const RnicAccessor *who,
                                               const RnicStag *region,
                                               const RnicRegistration *r)
{
    if (!region || region->kind != RNIC_STAG_MR) {
        return RNIC_WC_INVALID_STAG;
    }
    if (region->pd != who->pd) {
        return RNIC_WC_INVALID_PD;
    }
    if (region->valid) {
        return RNIC_WC_STAG_NOT_INVALID;
    }
    /* A region of REGISTER_MR may have room for far more than that. */
    if (le32_to_cpu(r->pages.count) > MIN(region->buffer->max_pages,
                                          RNIC_MAX_FAST_REGISTER_PAGES)) {
        return RNIC_WC_PBL_TOO_LONG;
    }
    if (!rnic_access_valid(s, r->access) ||
        !rnic_remote_access_ok(r->access, region->remote_access)) {
        return RNIC_WC_INVALID_ACCESS_RIGHTS;
    }
    return rnic_page_size_ok(r->pages.page_shift) ? RNIC_WC_SUCCESS
                                                  : fast_register_wrong_size(s);
}

/* On success @pages is the caller's. */
static enum rnic_admin_status fast_register_read(RnicState *s,
                                                 const RnicRegistration *r,
                                                 RnicPages *pages)
{
    enum rnic_admin_status status = rnic_registration_form(r);

    if (status == RNIC_ST_OK) {
        status = rnic_pages_read(s, &r->pages, RNIC_MAX_FAST_REGISTER_PAGES,
                                 0, pages);
    }
    if (status == RNIC_ST_OK) {
        status = rnic_registration_fits(r, pages);
        if (status != RNIC_ST_OK) {
            rnic_pages_free(pages);
        }
    }
    return status;
}

enum rnic_wc_status
rnic_tpt_fast_register(RnicState *s, const RnicAccessor *who,
                       const struct rnic_fast_register_wqe *wqe)
{
    uint32_t stag = le32_to_cpu(wqe->stag);
    RnicRegistration r = {
        .va = le64_to_cpu(wqe->va),
        .length = le64_to_cpu(wqe->length),
        .first_byte_offset = le32_to_cpu(wqe->first_byte_offset),
        .access = wqe->access,
        .key = stag & 0xff,
        .pages = wqe->pages,
    };
    enum rnic_wc_status status;
    RnicStag *region;
    RnicPages pages;

    RNIC_TPT_CHANGE_GUARD(s);
    region = rnic_tpt_entry(s, stag);
    status = fast_register_check(s, who, region, &r);
    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    status = fast_register_status(fast_register_read(s, &r, &pages));
    if (status == RNIC_WC_SUCCESS) {
        rnic_region_commit(s, region, &r, &pages);
        trace_rnic_mr_fast_registered(stag >> 8, r.va, r.length, r.access);
    }
    return status;
}
