/*
 * rnic: the TPT, Fast-Register (7.3.2.5)
 *
 * The work request's registration, within turns of a QP.  A turn reads a part of the
 * list: a region of REGISTER_MR may have millions of entries, and a Fast-Register may
 * have as many (V7.8-8).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/iwarp/ddp.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

/* The completion status that says what an admin status of @r says (figure 36). */
static enum rnic_wc_status fast_register_status(const RnicRegistration *r,
                                                enum rnic_admin_status status)
{
    switch (status) {
    case RNIC_ST_OK:
        return RNIC_WC_SUCCESS;
    case RNIC_ST_INVALID_FBO:
        return RNIC_WC_INVALID_FBO;
    case RNIC_ST_INVALID_LENGTH:
        return RNIC_WC_INVALID_REGISTER_LENGTH;
    case RNIC_ST_INVALID_VA:
        /* V9.5.2-10: a command has one status for both (V9.2.6.2-10). */
        return iwarp_to_wraps(r->va, r->length) ? RNIC_WC_WRAP
                                                : RNIC_WC_INVALID_VA;
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
    if (le32_to_cpu(r->pages.count) > region->buffer->max_pages) {
        return RNIC_WC_PBL_TOO_LONG;
    }
    if (!rnic_access_valid(s, r->access) ||
        !rnic_remote_access_ok(r->access, region->remote_access)) {
        return RNIC_WC_INVALID_ACCESS_RIGHTS;
    }
    return rnic_page_size_ok(r->pages.page_shift) ? RNIC_WC_SUCCESS
                                                  : fast_register_wrong_size(s);
}

/* The region is Invalid, so this is the only list that is charged to it. */
static enum rnic_admin_status fast_register_begin(RnicState *s,
                                                  const RnicRegistration *r,
                                                  RnicBuffer *buffer)
{
    enum rnic_admin_status status = rnic_registration_form(r);
    RnicPagesReader reader;

    if (status == RNIC_ST_OK) {
        status = rnic_pages_begin(&reader, &r->pages, buffer->max_pages, 0);
    }
    if (status == RNIC_ST_OK) {
        rnic_buffer_forget_reader(buffer);
        buffer->reader = g_memdup2(&reader, sizeof(reader));
        buffer->list = ++s->tpt->lists;
    }
    return status;
}

/* LATER: there is more to be read.  OK: the list is the reader's, and right. */
static enum rnic_admin_status fast_register_continue(RnicState *s,
                                                     const RnicRegistration *r,
                                                     RnicBuffer *buffer)
{
    enum rnic_admin_status status =
        rnic_pages_continue(s, buffer->reader, RNIC_FAST_REGISTER_PART);

    if (status == RNIC_ST_OK) {
        status = rnic_registration_fits(r, &buffer->reader->pages);
    }
    if (status != RNIC_ST_OK && status != RNIC_ADMIN_LATER) {
        rnic_buffer_forget_reader(buffer);
    }
    return status;
}

static void fast_register_commit(RnicState *s, RnicStag *region,
                                 const RnicRegistration *r)
{
    RnicPagesReader *reader = region->buffer->reader;
    RnicPages pages = reader->pages;

    reader->pages = (RnicPages) { };
    rnic_region_commit(s, region, r, &pages);
}

/* @list: as rnic_tpt_fast_register() is given it. */
static enum rnic_wc_status fast_register_read(RnicState *s,
                                              const RnicRegistration *r,
                                              RnicStag *region, uint64_t list)
{
    RnicBuffer *buffer = region->buffer;
    enum rnic_admin_status status = RNIC_ST_OK;

    if (list && (!buffer->reader || buffer->list != list)) {
        /* Another registration has begun since, and has the region. */
        return RNIC_WC_STAG_NOT_INVALID;
    }
    if (!list) {
        status = fast_register_begin(s, r, buffer);
    }
    if (status == RNIC_ST_OK) {
        status = fast_register_continue(s, r, buffer);
    }
    if (status == RNIC_ST_OK) {
        fast_register_commit(s, region, r);
    }
    return status == RNIC_ADMIN_LATER ? RNIC_WC_SUCCESS
                                      : fast_register_status(r, status);
}

enum rnic_wc_status
rnic_tpt_fast_register(RnicState *s, const RnicAccessor *who,
                       const struct rnic_fast_register_wqe *wqe, uint64_t *list)
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
    uint64_t begun = *list;
    enum rnic_wc_status status;
    RnicStag *region;

    RNIC_TPT_CHANGE_GUARD(s);
    *list = 0;
    region = rnic_tpt_entry(s, stag);
    status = fast_register_check(s, who, region, &r);
    if (status == RNIC_WC_SUCCESS) {
        status = fast_register_read(s, &r, region, begun);
    }
    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    if (!region->valid) {
        *list = region->buffer->list;
        return status;
    }
    trace_rnic_mr_fast_registered(stag >> 8, r.va, r.length, r.access);
    return status;
}
