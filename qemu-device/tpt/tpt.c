/*
 * rnic: the TPT, life of its entries, and the admin commands about any STag
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/pci/admin.h"
#include "hw/rnic/guest/dma.h"
#include "pd.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

void rnic_tpt_init(RnicState *s)
{
    g_rw_lock_init(&s->tpt.lock);
    qemu_mutex_init(&s->tpt.turnstile);
    rnic_table_init(&s->tpt.entries, s->config.max_mr);
    s->tpt.pages = 0;
    s->tpt.mappings = 0;
    s->tpt.max_pages = s->config.max_mr_pages;
}

void rnic_tpt_cleanup(RnicState *s)
{
    rnic_table_cleanup(&s->tpt.entries);
    qemu_mutex_destroy(&s->tpt.turnstile);
    g_rw_lock_clear(&s->tpt.lock);
}

/* ------------------------------------------------------------ lock */

/* Without the turnstile busy readers could keep a writer out for ever. */
void rnic_tpt_read_lock(RnicState *s)
{
    qemu_mutex_lock(&s->tpt.turnstile);
    g_rw_lock_reader_lock(&s->tpt.lock);
    qemu_mutex_unlock(&s->tpt.turnstile);
}

void rnic_tpt_read_unlock(RnicState *s)
{
    g_rw_lock_reader_unlock(&s->tpt.lock);
}

void rnic_tpt_write_lock(RnicState *s)
{
    qemu_mutex_lock(&s->tpt.turnstile);
    g_rw_lock_writer_lock(&s->tpt.lock);
}

void rnic_tpt_write_unlock(RnicState *s)
{
    g_rw_lock_writer_unlock(&s->tpt.lock);
    qemu_mutex_unlock(&s->tpt.turnstile);
}

void rnic_tpt_begin_change(RnicState *s)
{
    rnic_tpt_read_unlock(s);
    rnic_tpt_write_lock(s);
}

void rnic_tpt_end_change(RnicState *s)
{
    rnic_tpt_write_unlock(s);
    rnic_tpt_read_lock(s);
}

/* --------------------------------------------------------- buffers */

RnicBuffer *rnic_buffer_new(RnicState *s, uint32_t max_pages)
{
    RnicBuffer *buffer;

    if (max_pages > s->tpt.max_pages - s->tpt.pages) {
        return NULL;
    }
    s->tpt.pages += max_pages;
    buffer = g_new0(RnicBuffer, 1);
    buffer->max_pages = max_pages;
    return buffer;
}

static void buffer_put(RnicState *s, RnicBuffer *buffer)
{
    if (buffer && --buffer->regions == 0) {
        s->tpt.pages -= buffer->max_pages;
        rnic_pages_free(&buffer->pages);
        g_free(buffer);
    }
}

void rnic_stag_set_buffer(RnicState *s, RnicStag *entry, RnicBuffer *buffer)
{
    RnicBuffer *old = entry->buffer;

    if (buffer) {
        buffer->regions++;
    }
    entry->buffer = buffer;
    buffer_put(s, old);
}

/* --------------------------------------------------------- entries */

void rnic_stag_set_pd(RnicState *s, RnicStag *entry, uint32_t pdn)
{
    rnic_pd_ref(s, pdn);
    rnic_pd_unref(s, entry->pdn);
    entry->pdn = pdn;
}

void rnic_stag_set_valid(RnicState *s, RnicStag *entry)
{
    entry->valid = true;
    entry->mapping = ++s->tpt.mappings;
}

RnicStag *rnic_tpt_create(RnicState *s, uint8_t kind, uint32_t pdn,
                          uint32_t max_pages, uint32_t *index)
{
    RnicBuffer *buffer = NULL;
    RnicStag *entry;

    entry = g_new0(RnicStag, 1);
    *index = rnic_table_insert(&s->tpt.entries, entry);
    if (*index && max_pages) {
        buffer = rnic_buffer_new(s, max_pages);
        if (!buffer) {
            rnic_table_remove(&s->tpt.entries, *index);
            *index = 0;
        }
    }
    if (!*index) {
        g_free(entry);
        return NULL;
    }
    entry->kind = kind;
    entry->pdn = pdn;
    rnic_pd_ref(s, pdn);
    rnic_stag_set_buffer(s, entry, buffer);
    return entry;
}

void rnic_tpt_destroy(RnicState *s, uint32_t index, RnicStag *entry)
{
    if (entry->kind == RNIC_STAG_MW && entry->valid) {
        rnic_window_unbind(s, entry, entry->pdn);
    }
    rnic_table_remove(&s->tpt.entries, index);
    rnic_pd_unref(s, entry->pdn);
    rnic_stag_set_buffer(s, entry, NULL);
    g_free(entry);
}

/* Windows first: they name regions and QPs. */
void rnic_tpt_reset(RnicState *s)
{
    RnicStag *entry;
    uint32_t index;

    RNIC_TABLE_FOREACH(&s->tpt.entries, index, entry) {
        if (entry->kind == RNIC_STAG_MW) {
            rnic_tpt_destroy(s, index, entry);
        }
    }
    RNIC_TABLE_FOREACH(&s->tpt.entries, index, entry) {
        rnic_tpt_destroy(s, index, entry);
    }
}

/* -------------------------------------------------- admin commands */

static void fill_region(const RnicStag *entry, struct rnic_mr_attr *attr)
{
    const RnicBuffer *buffer = entry->buffer;

    attr->length = cpu_to_le64(buffer->length);
    attr->first_byte_offset = cpu_to_le64(buffer->first_byte_offset);
    attr->page_count = cpu_to_le32(buffer->pages.count);
    attr->max_pages = cpu_to_le32(buffer->max_pages);
    attr->page_shift = buffer->pages.shift;
    attr->remote_access = entry->remote_access;
    attr->bound_windows = cpu_to_le32(entry->windows);
}

static void fill_window(RnicState *s, const RnicStag *entry,
                        struct rnic_mr_attr *attr)
{
    const RnicStag *region = rnic_table_get(&s->tpt.entries, entry->mr_index);

    attr->length = cpu_to_le64(entry->length);
    attr->qpn = cpu_to_le32(entry->qpn);
    if (region) {
        attr->mr_stag = cpu_to_le32(rnic_stag_value(entry->mr_index,
                                                    region->key));
    }
}

/* V7.7-1, V7.10.3-1: each verb for its own kind only. */
static enum rnic_admin_status query(RnicState *s,
                                    const struct rnic_admin_sqe *sqe,
                                    bool window)
{
    uint32_t stag = le32_to_cpu(sqe->object.number);
    const RnicStag *entry = rnic_tpt_entry(s, stag);
    struct rnic_mr_attr attr = { };

    if (!entry || (entry->kind == RNIC_STAG_MW) != window) {
        return RNIC_ST_INVALID_STAG;
    }
    attr.stag = cpu_to_le32(rnic_stag_value(stag >> 8, entry->key));
    attr.pdn = cpu_to_le32(entry->pdn);
    attr.va = cpu_to_le64(entry->base);
    attr.access = cpu_to_le32(entry->access);
    attr.kind = entry->kind;
    attr.valid = entry->valid;
    if (window) {
        fill_window(s, entry, &attr);
    } else {
        fill_region(entry, &attr);
    }
    return rnic_admin_bulk_write(s, sqe, &attr, sizeof(attr));
}

enum rnic_admin_status rnic_tpt_query_mr(RnicState *s,
                                         const struct rnic_admin_sqe *sqe)
{
    return query(s, sqe, false);
}

enum rnic_admin_status rnic_tpt_query_mw(RnicState *s,
                                         const struct rnic_admin_sqe *sqe)
{
    return query(s, sqe, true);
}

/* 7.9: the key is not looked at; windows hold a region. */
enum rnic_admin_status rnic_tpt_dealloc(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    uint32_t stag = le32_to_cpu(sqe->object.number);
    RnicStag *entry = rnic_tpt_entry(s, stag);

    if (!entry) {
        return RNIC_ST_INVALID_STAG;
    }
    if (entry->windows) {
        return RNIC_ST_MW_BOUND_TO_MR;
    }
    rnic_tpt_destroy(s, stag >> 8, entry);
    trace_rnic_stag_deallocated(stag >> 8);
    return RNIC_ST_OK;
}
