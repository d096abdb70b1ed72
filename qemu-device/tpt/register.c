/*
 * rnic: the TPT, Memory Regions and the rules of registration (7.3, 7.6)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/iwarp/ddp.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

enum {
    KNOWN_ACCESS = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE |
                   RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE |
                   RNIC_ACCESS_MW_BIND | RNIC_ACCESS_ZERO_BASED |
                   RNIC_ACCESS_READ_SINK,
    KNOWN_FLAGS = RNIC_MR_BLOCK_LIST | RNIC_MR_REMOTE_ACCESS,
    KNOWN_CHANGE = RNIC_REREGISTER_PD | RNIC_REREGISTER_ACCESS |
                   RNIC_REREGISTER_TRANSLATION,

    /* Entries of a list that are read at a stretch. */
    ENTRIES_PER_PART = 32 * 1024,
};

/* ----------------------------------------------------------- rules */

static uint32_t known_access(const RnicState *s)
{
    return KNOWN_ACCESS | (rnic_accepted(s, RNIC_FEATURE_RDMAP_EXTENSIONS)
                           ? RNIC_ACCESS_REMOTE_ATOMIC : 0);
}

bool rnic_access_valid(const RnicState *s, uint32_t access)
{
    bool lr = access & RNIC_ACCESS_LOCAL_READ;
    bool lw = access & RNIC_ACCESS_LOCAL_WRITE;

    return !(access & ~known_access(s)) && (lr || lw) &&
           (lr || !(access & RNIC_ACCESS_REMOTE_READ)) &&
           (lw || !(access & (RNIC_ACCESS_REMOTE_WRITE |
                              RNIC_ACCESS_REMOTE_ATOMIC |
                              RNIC_ACCESS_READ_SINK)));
}

/* V7.4-3: no remote right without the Remote Access Flag. */
bool rnic_remote_access_ok(uint32_t access, bool flag)
{
    return flag || !(access & RNIC_REMOTE_ACCESS);
}

/* 7.6.1.1: the VA of the first octet falls where the list says. */
static bool va_ok(const RnicPages *pages, uint64_t first_byte_offset,
                  uint64_t va, uint64_t length)
{
    return rnic_pages_within(pages, va) == first_byte_offset &&
           !iwarp_to_wraps(va, length);
}

enum rnic_admin_status rnic_registration_fits(const RnicRegistration *r,
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

bool rnic_page_size_ok(uint8_t shift)
{
    return shift <= 63 && (RNIC_PAGE_SIZES >> shift & 1);
}

static bool buffer_size_ok(const RnicRegistration *r)
{
    if (r->block_size) {
        return r->block_size >= RNIC_BLOCK_MIN &&
               r->block_size <= RNIC_BLOCK_MAX;
    }
    return rnic_page_size_ok(r->pages.page_shift);
}

enum rnic_admin_status rnic_registration_form(const RnicRegistration *r)
{
    if (r->length > RNIC_MAX_REGION) {
        return RNIC_ST_INVALID_LENGTH;
    }
    return buffer_size_ok(r) ? RNIC_ST_OK : RNIC_ST_INVALID_PBL_SIZE;
}

void rnic_region_commit(RnicState *s, RnicStag *region,
                        const RnicRegistration *r, const RnicPages *pages)
{
    RnicBuffer *buffer = region->buffer;

    rnic_buffer_forget_reader(buffer);
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

/* A new Invalid region with room for @max_pages entries; NULL: no room. */
static RnicStag *region_create(RnicState *s, RnicPd *pd, uint32_t max_pages,
                               uint32_t *index)
{
    RnicBuffer *buffer = rnic_buffer_new(s, max_pages);
    RnicStag *region;

    if (!buffer) {
        return NULL;
    }
    region = rnic_tpt_create(s, RNIC_STAG_MR, pd, buffer, index);
    if (!region) {
        rnic_buffer_drop(s, buffer);
    }
    return region;
}

enum rnic_admin_status rnic_tpt_alloc_stag(RnicAdminRequest *q)
{
    uint32_t max_pages = le32_to_cpu(q->sqe.alloc_stag.max_pages);
    RnicStag *region;
    uint32_t index;

    if (!q->pd) {
        return RNIC_ST_INVALID_PD;
    }
    if (max_pages == 0) {
        return RNIC_ST_INVALID_PBL_SIZE;
    }
    if (max_pages > RNIC_MAX_FAST_REGISTER_PAGES) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;      /* V9.2.6.1-3 */
    }
    if (q->sqe.alloc_stag.remote_access > 1) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    RNIC_TPT_WRITE_GUARD(q->s);
    region = region_create(q->s, q->pd, max_pages, &index);
    if (!region) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    region->remote_access = q->sqe.alloc_stag.remote_access;
    region->key = q->sqe.alloc_stag.key;
    q->cqe.number = cpu_to_le32(rnic_stag_value(index, q->sqe.alloc_stag.key));
    q->cqe.mr.pages = cpu_to_le32(max_pages);
    trace_rnic_stag_allocated(index, rnic_object_number(q->pd), max_pages);
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

/*
 * A list that is being read for a registration, one part at a time: it may have
 * millions of entries, and the worker has QPs to serve.
 */
typedef struct ListInWork {
    RnicRegistration r;
    RnicPagesReader reader;
    RnicBuffer *buffer;         /* charged for it; NULL: it fits into the one
                                 * that the region has */
} ListInWork;

/* The list of @q, if there is one; q->work is NULL then. */
void rnic_tpt_cancel(RnicAdminRequest *q)
{
    ListInWork *list = g_steal_pointer(&q->work);

    if (list) {
        rnic_tpt_write_lock(q->s);
        rnic_buffer_drop(q->s, list->buffer);
        rnic_tpt_write_unlock(q->s);
        rnic_pages_free(&list->reader.pages);
        g_free(list);
    }
}

/*
 * Begin to read the list of @r, at most @max entries.  Whatever is more than
 * @charged already, the list is charged to the pool before there is memory for it.
 */
static enum rnic_admin_status list_begin(RnicAdminRequest *q,
                                         const RnicRegistration *r,
                                         uint32_t charged)
{
    uint32_t count = le32_to_cpu(r->pages.count);
    enum rnic_admin_status status = rnic_registration_form(r);
    ListInWork *list;

    if (status != RNIC_ST_OK) {
        return status;
    }
    list = g_new0(ListInWork, 1);
    q->work = list;
    list->r = *r;
    if (count > charged) {
        rnic_tpt_write_lock(q->s);
        list->buffer = rnic_buffer_new(q->s, count);
        rnic_tpt_write_unlock(q->s);
        status = list->buffer ? RNIC_ST_OK : RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    if (status == RNIC_ST_OK) {
        status = rnic_pages_begin(&list->reader, &r->pages, UINT32_MAX,
                                  r->block_size);
    }
    if (status != RNIC_ST_OK) {
        rnic_tpt_cancel(q);
    }
    return status;
}

/* LATER until the whole list has been read, and is right. */
static enum rnic_admin_status list_continue(RnicAdminRequest *q)
{
    ListInWork *list = q->work;
    enum rnic_admin_status status = rnic_pages_continue(q->s, &list->reader,
                                                        ENTRIES_PER_PART);

    return status == RNIC_ST_OK
           ? rnic_registration_fits(&list->r, &list->reader.pages) : status;
}

/* Put the list into force for @region.  Under the lock for writing. */
static void list_commit(RnicState *s, RnicStag *region, ListInWork *list)
{
    if (list->buffer && list->buffer != region->buffer) {
        rnic_stag_set_buffer(s, region, list->buffer);
    }
    list->buffer = NULL;
    rnic_region_commit(s, region, &list->r, &list->reader.pages);
    list->reader.pages = (RnicPages) { };
}

static enum rnic_admin_status register_begin(RnicAdminRequest *q)
{
    uint32_t access = le32_to_cpu(q->sqe.register_mr.access);
    enum rnic_admin_status status = check_flags(q->s, &q->sqe);
    RnicRegistration r;

    if (status != RNIC_ST_OK) {
        return status;
    }
    if (q->sqe.register_mr.stag || q->sqe.register_mr.change) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!rnic_access_valid(q->s, access) ||
        !rnic_remote_access_ok(access, remote_access_flag(&q->sqe))) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    if (!q->pd) {
        return RNIC_ST_INVALID_PD;
    }
    registration_from_command(&q->sqe, &r);
    return list_begin(q, &r, 0);
}

static enum rnic_admin_status register_end(RnicAdminRequest *q)
{
    ListInWork *list = q->work;
    RnicStag *region;
    uint32_t index;

    RNIC_TPT_WRITE_GUARD(q->s);
    region = rnic_tpt_create(q->s, RNIC_STAG_MR, q->pd, list->buffer, &index);
    if (!region) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    region->remote_access = remote_access_flag(&q->sqe);
    list_commit(q->s, region, list);
    q->cqe.mr.pages = cpu_to_le32(region->buffer->max_pages);
    q->cqe.number = cpu_to_le32(rnic_stag_value(index, list->r.key));
    trace_rnic_mr_registered(index, rnic_object_number(q->pd), list->r.va,
                             list->r.length, list->r.access);
    return RNIC_ST_OK;
}

/* Begin, read the list, if there is one, part by part, and end. */
static enum rnic_admin_status
list_work(RnicAdminRequest *q,
          enum rnic_admin_status (*begin)(RnicAdminRequest *q),
          enum rnic_admin_status (*end)(RnicAdminRequest *q))
{
    enum rnic_admin_status status = q->work ? RNIC_ST_OK : begin(q);

    if (status == RNIC_ST_OK && q->work) {
        status = list_continue(q);
    }
    if (status == RNIC_ST_OK) {
        status = end(q);
    }
    if (status != RNIC_ADMIN_LATER) {
        rnic_tpt_cancel(q);
    }
    return status;
}

enum rnic_admin_status rnic_tpt_register(RnicAdminRequest *q)
{
    return list_work(q, register_begin, register_end);
}

/* ------------------------------------------------------ reregister */

/* The region that may be reregistered.  Under the lock. */
static enum rnic_admin_status reregister_find(const RnicAdminRequest *q,
                                              RnicStag **region)
{
    *region = rnic_tpt_entry(q->s, le32_to_cpu(q->sqe.register_mr.stag));
    if (!*region || (*region)->kind != RNIC_STAG_MR) {
        return RNIC_ST_INVALID_STAG;
    }
    return (*region)->windows ? RNIC_ST_MW_BOUND_TO_MR : RNIC_ST_OK;
}

/* What is not changed stays: fill in the registration from the region. */
static void keep_unchanged(const RnicStag *region, uint32_t change,
                           RnicRegistration *r)
{
    uint32_t base = change & RNIC_REREGISTER_TRANSLATION ? r->access
                                                         : region->access;

    if (!(change & RNIC_REREGISTER_ACCESS)) {
        r->access = region->access;
    }
    /* Which is the translation's, not one of the rights. */
    r->access &= ~RNIC_ACCESS_ZERO_BASED;
    r->access |= base & RNIC_ACCESS_ZERO_BASED;
}

static bool reregister_remote(const RnicAdminRequest *q,
                              const RnicStag *region)
{
    return le32_to_cpu(q->sqe.register_mr.change) & RNIC_REREGISTER_ACCESS
           ? remote_access_flag(&q->sqe) : region->remote_access;
}

/* All but the list.  Under the lock. */
static enum rnic_admin_status reregister_check(RnicAdminRequest *q,
                                               const RnicStag *region,
                                               RnicRegistration *r)
{
    uint32_t change = le32_to_cpu(q->sqe.register_mr.change);
    enum rnic_admin_status status = check_flags(q->s, &q->sqe);

    if (status != RNIC_ST_OK || (change & ~KNOWN_CHANGE)) {
        return status != RNIC_ST_OK ? status : RNIC_ST_INVALID_MODIFIER;
    }
    if ((change & RNIC_REREGISTER_PD) && !q->pd) {
        return RNIC_ST_INVALID_PD;
    }
    registration_from_command(&q->sqe, r);
    keep_unchanged(region, change, r);
    if (!rnic_access_valid(q->s, r->access) ||
        !rnic_remote_access_ok(r->access, reregister_remote(q, region))) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    /* Without a new translation there has to be one to keep. */
    return region->valid || (change & RNIC_REREGISTER_TRANSLATION)
           ? RNIC_ST_OK : RNIC_ST_INVALID_MODIFIER;
}

/*
 * V7.3.2.3-6 and -7: a bad STag or a bound window leaves everything as it was;
 * after any other failure the region is gone.
 */
static enum rnic_admin_status reregister_fail(RnicAdminRequest *q,
                                              enum rnic_admin_status status)
{
    enum rnic_admin_status found;
    RnicStag *region;

    RNIC_TPT_WRITE_GUARD(q->s);
    found = reregister_find(q, &region);
    if (found == RNIC_ST_OK) {
        rnic_tpt_destroy(q->s, le32_to_cpu(q->sqe.register_mr.stag) >> 8,
                         region);
    }
    return found == RNIC_ST_OK ? status : found;
}

/*
 * Check, and begin to read a new list if there is one.  It goes into the
 * region's buffer if it fits there (V7.3.2.3-12).
 */
static enum rnic_admin_status reregister_begin(RnicAdminRequest *q)
{
    enum rnic_admin_status status;
    uint32_t charged = 0;
    RnicRegistration r;
    RnicStag *region;

    rnic_tpt_read_lock(q->s);
    status = reregister_find(q, &region);
    if (status == RNIC_ST_OK) {
        status = reregister_check(q, region, &r);
        charged = region->buffer->max_pages;
    }
    rnic_tpt_read_unlock(q->s);
    if (status == RNIC_ST_OK &&
        (le32_to_cpu(q->sqe.register_mr.change) &
         RNIC_REREGISTER_TRANSLATION)) {
        status = list_begin(q, &r, charged);
    }
    return status;
}

/* Once more, since a QP may have changed the region meanwhile; then commit. */
static enum rnic_admin_status reregister_end(RnicAdminRequest *q)
{
    enum rnic_admin_status status;
    RnicRegistration r;
    RnicStag *region;
    bool remote;

    RNIC_TPT_WRITE_GUARD(q->s);
    status = reregister_find(q, &region);
    if (status == RNIC_ST_OK) {
        status = reregister_check(q, region, &r);
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    remote = reregister_remote(q, region);
    if (q->work) {
        list_commit(q->s, region, q->work);
    }
    region->access = r.access;
    region->key = r.key;
    region->remote_access = remote;
    if (le32_to_cpu(q->sqe.register_mr.change) & RNIC_REREGISTER_PD) {
        rnic_stag_set_pd(region, q->pd);
    }
    q->cqe.number = cpu_to_le32(rnic_stag_value(
        le32_to_cpu(q->sqe.register_mr.stag) >> 8, region->key));
    q->cqe.mr.pages = cpu_to_le32(region->buffer->max_pages);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_tpt_reregister(RnicAdminRequest *q)
{
    enum rnic_admin_status status = list_work(q, reregister_begin,
                                              reregister_end);

    if (status == RNIC_ADMIN_LATER) {
        return status;
    }
    trace_rnic_mr_reregistered(le32_to_cpu(q->sqe.register_mr.stag) >> 8,
                               status);
    return status == RNIC_ST_OK ? status : reregister_fail(q, status);
}

/* ---------------------------------------------------------- shared */

/* The Remote Access Flag. */
static bool shared_remote(const RnicAdminRequest *q)
{
    return !(q->sqe.shared_mr.mr_flags & RNIC_MR_LOCAL_ONLY);
}

static enum rnic_admin_status shared_check(RnicAdminRequest *q,
                                           const RnicStag *source)
{
    uint32_t access = le32_to_cpu(q->sqe.shared_mr.access);
    uint32_t key = le32_to_cpu(q->sqe.shared_mr.stag) & 0xff;
    const RnicBuffer *buffer;

    if (q->sqe.shared_mr.mr_flags & ~RNIC_MR_LOCAL_ONLY) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!rnic_is_region(source) || !source->valid || source->key != key) {
        return RNIC_ST_INVALID_STAG;
    }
    if (!q->pd) {
        return RNIC_ST_INVALID_PD;
    }
    if (!rnic_access_valid(q->s, access) ||
        !rnic_remote_access_ok(access, shared_remote(q))) {
        return RNIC_ST_INVALID_ACCESS_RIGHTS;
    }
    buffer = source->buffer;
    if (!(access & RNIC_ACCESS_ZERO_BASED) &&
        !va_ok(&buffer->pages, buffer->first_byte_offset,
               le64_to_cpu(q->sqe.shared_mr.va), buffer->length)) {
        return RNIC_ST_INVALID_VA;
    }
    return RNIC_ST_OK;
}

/* 7.3.2.4: a second STag over the same list; the source becomes shared too. */
enum rnic_admin_status rnic_tpt_register_shared(RnicAdminRequest *q)
{
    enum rnic_admin_status status;
    RnicStag *source, *region;
    uint32_t index;

    RNIC_TPT_WRITE_GUARD(q->s);
    source = rnic_tpt_entry(q->s, le32_to_cpu(q->sqe.shared_mr.stag));
    status = shared_check(q, source);
    if (status != RNIC_ST_OK) {
        return status;
    }
    region = rnic_tpt_create(q->s, RNIC_STAG_SHARED_MR, q->pd, source->buffer,
                             &index);
    if (!region) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    source->kind = RNIC_STAG_SHARED_MR;
    region->remote_access = shared_remote(q);
    region->key = q->sqe.shared_mr.key;
    region->access = le32_to_cpu(q->sqe.shared_mr.access);
    region->base = region->access & RNIC_ACCESS_ZERO_BASED
                   ? 0 : le64_to_cpu(q->sqe.shared_mr.va);
    rnic_stag_set_valid(q->s, region);
    q->cqe.number = cpu_to_le32(rnic_stag_value(index, region->key));
    trace_rnic_mr_shared(index, le32_to_cpu(q->sqe.shared_mr.stag) >> 8,
                         region->access);
    return RNIC_ST_OK;
}
