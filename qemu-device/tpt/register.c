/*
 * rnic: the TPT, Memory Regions and the rules of registration (7.3, 7.6)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pd.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

enum {
    KNOWN_ACCESS = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE |
                   RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE |
                   RNIC_ACCESS_MW_BIND | RNIC_ACCESS_ZERO_BASED |
                   RNIC_ACCESS_READ_SINK,
    REMOTE_ACCESS = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE,
    KNOWN_FLAGS = RNIC_MR_BLOCK_LIST | RNIC_MR_REMOTE_ACCESS,
    KNOWN_CHANGE = RNIC_REREGISTER_PD | RNIC_REREGISTER_ACCESS |
                   RNIC_REREGISTER_TRANSLATION,
};

/* ----------------------------------------------------------- rules */

bool rnic_access_valid(uint32_t access)
{
    bool lr = access & RNIC_ACCESS_LOCAL_READ;
    bool lw = access & RNIC_ACCESS_LOCAL_WRITE;

    return !(access & ~KNOWN_ACCESS) && (lr || lw) &&
           (lr || !(access & RNIC_ACCESS_REMOTE_READ)) &&
           (lw || !(access & (RNIC_ACCESS_REMOTE_WRITE |
                              RNIC_ACCESS_READ_SINK)));
}

/* V7.4-3: no remote right without the Remote Access Flag. */
static bool remote_access_ok(uint32_t access, bool flag)
{
    return flag || !(access & REMOTE_ACCESS);
}

/* 7.6.1.1: the VA of the first octet falls where the list says. */
static bool va_ok(const RnicPages *pages, uint64_t first_byte_offset,
                  uint64_t va, uint64_t length)
{
    return rnic_pages_within(pages, va) == first_byte_offset &&
           (length == 0 || va <= UINT64_MAX - (length - 1));
}

static enum rnic_admin_status check_arithmetic(const RnicRegistration *r,
                                               const RnicPages *pages)
{
    if (r->first_byte_offset >= pages->size) {
        return RNIC_ST_INVALID_FBO;
    }
    if (r->length > rnic_pages_size(pages) - r->first_byte_offset) {
        return RNIC_ST_INVALID_LENGTH;
    }
    if (!(r->access & RNIC_ACCESS_ZERO_BASED) &&
        !va_ok(pages, r->first_byte_offset, r->va, r->length)) {
        return RNIC_ST_INVALID_VA;
    }
    return RNIC_ST_OK;
}

static bool buffer_size_ok(const RnicRegistration *r)
{
    if (r->block_size) {
        return r->block_size >= RNIC_BLOCK_MIN &&
               r->block_size <= RNIC_BLOCK_MAX;
    }
    return r->pages.page_shift <= 63 &&
           (RNIC_PAGE_SIZES >> r->pages.page_shift & 1);
}

enum rnic_admin_status rnic_registration_check(RnicState *s,
                                               const RnicRegistration *r,
                                               uint32_t max_pages,
                                               RnicPages *pages)
{
    enum rnic_admin_status status;

    if (r->length > RNIC_MAX_REGION) {
        return RNIC_ST_INVALID_LENGTH;
    }
    if (!buffer_size_ok(r)) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    status = rnic_pages_read(s, &r->pages, max_pages, r->block_size, pages);
    if (status != RNIC_ST_OK) {
        return status;
    }
    status = check_arithmetic(r, pages);
    if (status != RNIC_ST_OK) {
        rnic_pages_free(pages);
    }
    return status;
}

void rnic_region_commit(RnicState *s, RnicStag *region,
                        const RnicRegistration *r, const RnicPages *pages)
{
    RnicBuffer *buffer = region->buffer;

    rnic_pages_free(&buffer->pages);
    buffer->pages = *pages;
    buffer->length = r->length;
    buffer->first_byte_offset = r->first_byte_offset;
    region->key = r->key;
    region->access = r->access;
    region->base = r->access & RNIC_ACCESS_ZERO_BASED ? 0 : r->va;
    rnic_stag_set_valid(s, region);
}

/* -------------------------------------------------------- allocate */

enum rnic_admin_status rnic_tpt_alloc_stag(RnicState *s,
                                           const struct rnic_admin_sqe *sqe,
                                           struct rnic_admin_cqe *cqe)
{
    uint32_t pdn = le32_to_cpu(sqe->alloc_stag.pdn);
    uint32_t max_pages = le32_to_cpu(sqe->alloc_stag.max_pages);
    RnicStag *region;
    uint32_t index;

    if (!rnic_pd_exists(s, pdn)) {
        return RNIC_ST_INVALID_PD;
    }
    if (max_pages == 0) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    if (max_pages > RNIC_MAX_FAST_REGISTER_PAGES) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;      /* V9.2.6.1-3 */
    }
    if (sqe->alloc_stag.remote_access > 1) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    region = rnic_tpt_create(s, RNIC_STAG_MR, pdn, max_pages, &index);
    if (!region) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    region->remote_access = sqe->alloc_stag.remote_access;
    region->key = sqe->alloc_stag.key;
    cqe->number = cpu_to_le32(rnic_stag_value(index, region->key));
    cqe->mr.pages = cpu_to_le32(max_pages);
    trace_rnic_stag_allocated(index, pdn, max_pages);
    return RNIC_ST_OK;
}

/* -------------------------------------------------------- register */

static void registration_from_command(const struct rnic_admin_sqe *sqe,
                                      RnicRegistration *r)
{
    *r = (RnicRegistration) {
        .va = le64_to_cpu(sqe->register_mr.va),
        .length = le64_to_cpu(sqe->register_mr.length),
        .first_byte_offset = le64_to_cpu(sqe->register_mr.first_byte_offset),
        .block_size = le64_to_cpu(sqe->register_mr.block_size),
        .access = le32_to_cpu(sqe->register_mr.access),
        .key = sqe->register_mr.key,
        .pages = sqe->register_mr.pages,
    };
}

static bool remote_access_flag(const struct rnic_admin_sqe *sqe)
{
    return sqe->register_mr.mr_flags & RNIC_MR_REMOTE_ACCESS;
}

/*
 * V7.6.2-2: who opens the device chooses its mode.  Without the feature it is
 * in Page Mode; in Block Mode a page is a block of a size that can be shifted.
 */
static enum rnic_admin_status check_flags(RnicState *s,
                                          const struct rnic_admin_sqe *sqe)
{
    bool block = sqe->register_mr.mr_flags & RNIC_MR_BLOCK_LIST;

    if (sqe->register_mr.mr_flags & ~KNOWN_FLAGS) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (block && !rnic_accepted(s, RNIC_FEATURE_BLOCK_LIST)) {
        return RNIC_ST_UNSUPPORTED;
    }
    if (block && !sqe->register_mr.block_size) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    /* A page list has no block size. */
    return block || !sqe->register_mr.block_size ? RNIC_ST_OK
                                                 : RNIC_ST_INVALID_MODIFIER;
}

enum rnic_admin_status rnic_tpt_register(RnicState *s,
                                         const struct rnic_admin_sqe *sqe,
                                         struct rnic_admin_cqe *cqe)
{
    uint32_t pdn = le32_to_cpu(sqe->register_mr.pdn);
    uint64_t room = s->tpt.max_pages - s->tpt.pages;
    uint32_t access = le32_to_cpu(sqe->register_mr.access);
    enum rnic_admin_status status = check_flags(s, sqe);
    RnicRegistration r;
    RnicStag *region;
    RnicPages pages;
    uint32_t index;

    if (status != RNIC_ST_OK) {
        return status;
    }
    if (sqe->register_mr.stag || sqe->register_mr.change) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!rnic_access_valid(access) ||
        !remote_access_ok(access, remote_access_flag(sqe))) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    if (!rnic_pd_exists(s, pdn)) {
        return RNIC_ST_INVALID_PD;
    }
    registration_from_command(sqe, &r);
    if (le32_to_cpu(r.pages.count) > room) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    status = rnic_registration_check(s, &r, MIN(room, UINT32_MAX), &pages);
    if (status != RNIC_ST_OK) {
        return status;
    }
    region = rnic_tpt_create(s, RNIC_STAG_MR, pdn, pages.count, &index);
    if (!region) {
        rnic_pages_free(&pages);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    region->remote_access = remote_access_flag(sqe);
    rnic_region_commit(s, region, &r, &pages);
    cqe->number = cpu_to_le32(rnic_stag_value(index, region->key));
    cqe->mr.pages = cpu_to_le32(region->buffer->max_pages);
    trace_rnic_mr_registered(index, pdn, r.va, r.length, r.access);
    return RNIC_ST_OK;
}

/* ------------------------------------------------------ reregister */

/* What is not changed stays: fill in the registration from the region. */
static void keep_unchanged(const RnicStag *region, uint32_t change,
                           RnicRegistration *r)
{
    if (!(change & RNIC_REREGISTER_ACCESS)) {
        r->access = region->access;
    }
    if (!(change & RNIC_REREGISTER_TRANSLATION)) {
        r->access &= ~RNIC_ACCESS_ZERO_BASED;
        r->access |= region->access & RNIC_ACCESS_ZERO_BASED;
    }
}

/* A new page list, in the old buffer if it fits there (V7.3.2.3-12). */
static enum rnic_admin_status new_translation(RnicState *s, RnicStag *region,
                                              const RnicRegistration *r)
{
    uint64_t room = s->tpt.max_pages - s->tpt.pages;
    uint64_t most = MAX(room, region->buffer->max_pages);
    enum rnic_admin_status status;
    RnicBuffer *buffer;
    RnicPages pages;

    if (le32_to_cpu(r->pages.count) > most) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    status = rnic_registration_check(s, r, MIN(most, UINT32_MAX), &pages);
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (pages.count > region->buffer->max_pages) {
        buffer = rnic_buffer_new(s, pages.count);
        if (!buffer) {
            rnic_pages_free(&pages);
            return RNIC_ST_INSUFFICIENT_RESOURCES;
        }
        rnic_stag_set_buffer(s, region, buffer);
    }
    rnic_region_commit(s, region, r, &pages);
    return RNIC_ST_OK;
}

static enum rnic_admin_status reregister(RnicState *s, RnicStag *region,
                                         const struct rnic_admin_sqe *sqe)
{
    uint32_t change = le32_to_cpu(sqe->register_mr.change);
    uint32_t pdn = le32_to_cpu(sqe->register_mr.pdn);
    enum rnic_admin_status status = check_flags(s, sqe);
    bool remote = change & RNIC_REREGISTER_ACCESS ? remote_access_flag(sqe)
                                                  : region->remote_access;
    RnicRegistration r;

    if (status != RNIC_ST_OK || (change & ~KNOWN_CHANGE)) {
        return status != RNIC_ST_OK ? status : RNIC_ST_INVALID_MODIFIER;
    }
    if ((change & RNIC_REREGISTER_PD) && !rnic_pd_exists(s, pdn)) {
        return RNIC_ST_INVALID_PD;
    }
    registration_from_command(sqe, &r);
    keep_unchanged(region, change, &r);
    if (!rnic_access_valid(r.access) || !remote_access_ok(r.access, remote)) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    if (change & RNIC_REREGISTER_TRANSLATION) {
        status = new_translation(s, region, &r);
    } else if (!region->valid) {
        status = RNIC_ST_INVALID_MODIFIER;      /* nothing to keep */
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    region->access = r.access;
    region->key = r.key;
    region->remote_access = remote;
    if (change & RNIC_REREGISTER_PD) {
        rnic_stag_set_pd(s, region, pdn);
    }
    return RNIC_ST_OK;
}

/*
 * V7.3.2.3-6 and -7: a bad STag or a bound window leaves everything as it was;
 * after any other failure the region is gone.
 */
enum rnic_admin_status rnic_tpt_reregister(RnicState *s,
                                           const struct rnic_admin_sqe *sqe,
                                           struct rnic_admin_cqe *cqe)
{
    uint32_t stag = le32_to_cpu(sqe->register_mr.stag);
    RnicStag *region = rnic_tpt_entry(s, stag);
    enum rnic_admin_status status;

    if (!region || region->kind != RNIC_STAG_MR) {
        return RNIC_ST_INVALID_STAG;
    }
    if (region->windows) {
        return RNIC_ST_MW_BOUND_TO_MR;
    }
    status = reregister(s, region, sqe);
    trace_rnic_mr_reregistered(stag >> 8, status);
    if (status != RNIC_ST_OK) {
        rnic_tpt_destroy(s, stag >> 8, region);
        return status;
    }
    cqe->number = cpu_to_le32(rnic_stag_value(stag >> 8, region->key));
    cqe->mr.pages = cpu_to_le32(region->buffer->max_pages);
    return RNIC_ST_OK;
}

/* ---------------------------------------------------------- shared */

static enum rnic_admin_status check_shared(RnicState *s, const RnicStag *source,
                                           const struct rnic_admin_sqe *sqe)
{
    uint32_t access = le32_to_cpu(sqe->shared_mr.access);
    uint32_t key = le32_to_cpu(sqe->shared_mr.stag) & 0xff;
    const RnicBuffer *buffer;

    if (!rnic_is_region(source) || !source->valid || source->key != key) {
        return RNIC_ST_INVALID_STAG;
    }
    if (!rnic_pd_exists(s, le32_to_cpu(sqe->shared_mr.pdn))) {
        return RNIC_ST_INVALID_PD;
    }
    if (!rnic_access_valid(access)) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    buffer = source->buffer;
    if (!(access & RNIC_ACCESS_ZERO_BASED) &&
        !va_ok(&buffer->pages, buffer->first_byte_offset,
               le64_to_cpu(sqe->shared_mr.va), buffer->length)) {
        return RNIC_ST_INVALID_VA;
    }
    return RNIC_ST_OK;
}

/* 7.3.2.4: a second STag over the same list; the source becomes shared too. */
enum rnic_admin_status rnic_tpt_register_shared(
    RnicState *s, const struct rnic_admin_sqe *sqe,
    struct rnic_admin_cqe *cqe)
{
    RnicStag *source = rnic_tpt_entry(s, le32_to_cpu(sqe->shared_mr.stag));
    enum rnic_admin_status status = check_shared(s, source, sqe);
    RnicStag *region;
    uint32_t index;

    if (status != RNIC_ST_OK) {
        return status;
    }
    region = rnic_tpt_create(s, RNIC_STAG_SHARED_MR,
                             le32_to_cpu(sqe->shared_mr.pdn), 0, &index);
    if (!region) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    rnic_stag_set_buffer(s, region, source->buffer);
    source->kind = RNIC_STAG_SHARED_MR;
    region->remote_access = true;
    region->key = sqe->shared_mr.key;
    region->access = le32_to_cpu(sqe->shared_mr.access);
    region->base = region->access & RNIC_ACCESS_ZERO_BASED
                   ? 0 : le64_to_cpu(sqe->shared_mr.va);
    rnic_stag_set_valid(s, region);
    cqe->number = cpu_to_le32(rnic_stag_value(index, region->key));
    trace_rnic_mr_shared(index, le32_to_cpu(sqe->shared_mr.stag) >> 8,
                         region->access);
    return RNIC_ST_OK;
}

/* --------------------------------------------------- Fast-Register */

/* The completion status that says what an admin status says (figure 36). */
static enum rnic_wc_status completion_status(enum rnic_admin_status status)
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

static enum rnic_wc_status check_fast_register(const RnicAccessor *who,
                                               const RnicStag *region,
                                               const RnicRegistration *r)
{
    if (!region || region->kind != RNIC_STAG_MR) {
        return RNIC_WC_INVALID_STAG;
    }
    if (region->pdn != who->pdn) {
        return RNIC_WC_INVALID_PD;
    }
    if (region->valid) {
        return RNIC_WC_STAG_NOT_INVALID;
    }
    if (le32_to_cpu(r->pages.count) > region->buffer->max_pages) {
        return RNIC_WC_PBL_TOO_LONG;
    }
    if (!rnic_access_valid(r->access) ||
        !remote_access_ok(r->access, region->remote_access)) {
        return RNIC_WC_INVALID_ACCESS_RIGHTS;
    }
    return RNIC_WC_SUCCESS;
}

static enum rnic_wc_status
fast_register(RnicState *s, const RnicAccessor *who,
              const struct rnic_fast_register_wqe *wqe)
{
    uint32_t stag = le32_to_cpu(wqe->stag);
    RnicStag *region = rnic_tpt_entry(s, stag);
    RnicRegistration r = {
        .va = le64_to_cpu(wqe->va),
        .length = le64_to_cpu(wqe->length),
        .first_byte_offset = le32_to_cpu(wqe->first_byte_offset),
        .access = wqe->access,
        .key = stag & 0xff,
        .pages = wqe->pages,
    };
    enum rnic_wc_status status = check_fast_register(who, region, &r);
    RnicPages pages;

    if (status != RNIC_WC_SUCCESS) {
        return status;
    }
    status = completion_status(
        rnic_registration_check(s, &r, region->buffer->max_pages, &pages));
    if (status == RNIC_WC_SUCCESS) {
        rnic_region_commit(s, region, &r, &pages);
        trace_rnic_mr_fast_registered(stag >> 8, r.va, r.length, r.access);
    }
    return status;
}

enum rnic_wc_status
rnic_tpt_fast_register(RnicState *s, const RnicAccessor *who,
                       const struct rnic_fast_register_wqe *wqe)
{
    enum rnic_wc_status status;

    rnic_tpt_begin_change(s);
    status = fast_register(s, who, wqe);
    rnic_tpt_end_change(s);
    return status;
}
