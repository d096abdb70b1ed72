/*
 * rnic: the TPT, life of its entries, and the admin commands about any STag
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/guest-random.h"
#include "hw/rnic/guest/bulk.h"
#include "entry.h"
#include "hw/rnic/base/trace.h"

void rnic_tpt_init(RnicState *s)
{
    RnicTpt *tpt = g_new0(RnicTpt, 1);

    g_rw_lock_init(&tpt->lock);
    qemu_mutex_init(&tpt->turnstile);
    tpt->entries = g_hash_table_new(NULL, NULL);
    tpt->max_stags = s->config.max_mr;
    tpt->max_pages = s->config.max_mr_pages;
    s->tpt = tpt;
}

void rnic_tpt_cleanup(RnicState *s)
{
    RnicTpt *tpt = g_steal_pointer(&s->tpt);

    assert(!g_hash_table_size(tpt->entries));
    g_hash_table_unref(tpt->entries);
    qemu_mutex_destroy(&tpt->turnstile);
    g_rw_lock_clear(&tpt->lock);
    g_free(tpt);
}

uint32_t rnic_tpt_stags(RnicState *s)
{
    return qatomic_read(&s->tpt->stags);
}

/* ------------------------------------------------------------ lock */

/* Without the turnstile busy readers could keep a writer out for ever. */
void rnic_tpt_read_lock(RnicState *s)
{
    qemu_mutex_lock(&s->tpt->turnstile);
    g_rw_lock_reader_lock(&s->tpt->lock);
    qemu_mutex_unlock(&s->tpt->turnstile);
}

void rnic_tpt_read_unlock(RnicState *s)
{
    g_rw_lock_reader_unlock(&s->tpt->lock);
}

void rnic_tpt_write_lock(RnicState *s)
{
    qemu_mutex_lock(&s->tpt->turnstile);
    g_rw_lock_writer_lock(&s->tpt->lock);
}

void rnic_tpt_write_unlock(RnicState *s)
{
    g_rw_lock_writer_unlock(&s->tpt->lock);
    qemu_mutex_unlock(&s->tpt->turnstile);
}

RnicState *rnic_tpt_change_guard_begin(RnicState *s)
{
    rnic_tpt_read_unlock(s);
    rnic_tpt_write_lock(s);
    return s;
}

void rnic_tpt_change_guard_end(RnicState **s)
{
    rnic_tpt_write_unlock(*s);
    rnic_tpt_read_lock(*s);
}

/* --------------------------------------------------------- buffers */

RnicBuffer *rnic_buffer_new(RnicState *s, uint32_t max_pages)
{
    RnicBuffer *buffer;

    if (max_pages > s->tpt->max_pages - s->tpt->pages) {
        return NULL;
    }
    s->tpt->pages += max_pages;
    buffer = g_new0(RnicBuffer, 1);
    buffer->max_pages = max_pages;
    return buffer;
}

void rnic_buffer_forget_reader(RnicBuffer *buffer)
{
    if (buffer->reader) {
        rnic_pages_free(&buffer->reader->pages);
        g_clear_pointer(&buffer->reader, g_free);
    }
}

void rnic_buffer_drop(RnicState *s, RnicBuffer *buffer)
{
    if (buffer) {
        rnic_buffer_forget_reader(buffer);
        s->tpt->pages -= buffer->max_pages;
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
    if (old && --old->regions == 0) {
        rnic_buffer_drop(s, old);
    }
}

/* --------------------------------------------------------- entries */

void rnic_stag_set_pd(RnicStag *entry, RnicPd *pd)
{
    rnic_object_ref(pd);
    rnic_object_unref(entry->pd);
    entry->pd = pd;
}

void rnic_stag_set_valid(RnicState *s, RnicStag *entry)
{
    entry->valid = true;
    entry->mapping = ++s->tpt->mappings;
}

/* A fuzzer's input does the same each time. */
static uint32_t tpt_any_number(const RnicTpt *tpt)
{
#ifdef CONFIG_FUZZ
    return g_hash_table_size(tpt->entries);
#else
    uint32_t number;

    qemu_guest_getrandom_nofail(&number, sizeof(number));
    return number;
#endif
}

/*
 * A peer must not guess an STag from those it knows (RFC 5040 8.1.1): indices are
 * random ones of all 24 bits.  Where one is taken, the next that is not: few are,
 * unless max-mr is near to all.
 */
static uint32_t tpt_choose_index(const RnicTpt *tpt)
{
    uint32_t index = tpt_any_number(tpt);

    do {
        index = index % RNIC_OBJECT_NUMBER_MASK + 1;
    } while (g_hash_table_contains(tpt->entries, GUINT_TO_POINTER(index)));
    return index;
}

RnicStag *rnic_tpt_create(RnicState *s, uint8_t kind, RnicPd *pd,
                          RnicBuffer *buffer, uint32_t *index)
{
    RnicTpt *tpt = s->tpt;
    RnicStag *entry;

    if (g_hash_table_size(tpt->entries) >= tpt->max_stags) {
        return NULL;
    }
    entry = g_new0(RnicStag, 1);
    *index = tpt_choose_index(tpt);
    g_hash_table_insert(tpt->entries, GUINT_TO_POINTER(*index), entry);
    qatomic_inc(&tpt->stags);
    entry->kind = kind;
    entry->pd = pd;
    rnic_object_ref(pd);
    rnic_stag_set_buffer(s, entry, buffer);
    return entry;
}

void rnic_tpt_destroy(RnicState *s, uint32_t index, RnicStag *entry)
{
    if (entry->kind == RNIC_STAG_MW && entry->valid) {
        rnic_window_unbind(s, entry, entry->pd);
    }
    g_hash_table_remove(s->tpt->entries, GUINT_TO_POINTER(index));
    qatomic_dec(&s->tpt->stags);
    rnic_object_unref(entry->pd);
    rnic_stag_set_buffer(s, entry, NULL);
    g_free(entry);
}

static void tpt_destroy_all(RnicState *s, bool windows_only)
{
    g_autofree gpointer *indices = NULL;
    unsigned count;

    indices = g_hash_table_get_keys_as_array(s->tpt->entries, &count);
    for (unsigned i = 0; i < count; i++) {
        uint32_t index = GPOINTER_TO_UINT(indices[i]);
        RnicStag *entry = rnic_tpt_by_index(s, index);

        if (!windows_only || entry->kind == RNIC_STAG_MW) {
            rnic_tpt_destroy(s, index, entry);
        }
    }
}

/* Windows first: they name regions and QPs. */
void rnic_tpt_reset(RnicState *s)
{
    tpt_destroy_all(s, true);
    tpt_destroy_all(s, false);
}

/* -------------------------------------------------- admin commands */

static void tpt_fill_region(const RnicStag *entry, struct rnic_mr_attr *attr)
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

static void tpt_fill_window(RnicState *s, const RnicStag *entry,
                        struct rnic_mr_attr *attr)
{
    const RnicStag *region = rnic_tpt_by_index(s, entry->mr_index);

    attr->length = cpu_to_le64(entry->length);
    attr->qpn = cpu_to_le32(entry->qpn);
    attr->window_of_pd = entry->of_pd;
    if (region) {
        attr->mr_stag = cpu_to_le32(rnic_stag_value(entry->mr_index,
                                                    region->key));
    }
}

static void tpt_fill_entry(RnicState *s, uint32_t index, const RnicStag *entry,
                       struct rnic_mr_attr *attr)
{
    attr->stag = cpu_to_le32(rnic_stag_value(index, entry->key));
    attr->pdn = cpu_to_le32(rnic_object_number(entry->pd));
    attr->va = cpu_to_le64(entry->base);
    attr->access = cpu_to_le32(entry->access);
    attr->kind = entry->kind;
    attr->valid = entry->valid;
    if (entry->kind == RNIC_STAG_MW) {
        tpt_fill_window(s, entry, attr);
    } else {
        tpt_fill_region(entry, attr);
    }
}

/* V7.7-1, V7.10.3-1: each verb for its own kind only. */
enum rnic_admin_status rnic_tpt_query(RnicAdminRequest *q)
{
    bool window = le16_to_cpu(q->sqe.opcode) == RNIC_ADMIN_QUERY_MW;
    uint32_t stag = le32_to_cpu(q->sqe.object.number);
    struct rnic_mr_attr attr = { };
    const RnicStag *entry;
    bool found;

    rnic_tpt_read_lock(q->s);
    entry = rnic_tpt_entry(q->s, stag);
    found = entry && (entry->kind == RNIC_STAG_MW) == window;
    if (found) {
        tpt_fill_entry(q->s, stag >> 8, entry, &attr);
    }
    rnic_tpt_read_unlock(q->s);
    return found ? rnic_bulk_write(q->s, &q->sqe, &attr, sizeof(attr))
                 : RNIC_ST_INVALID_STAG;
}

/* 7.9: the key is not looked at; windows hold a region. */
enum rnic_admin_status rnic_tpt_dealloc(RnicAdminRequest *q)
{
    uint32_t stag = le32_to_cpu(q->sqe.object.number);
    RnicStag *entry;

    RNIC_TPT_WRITE_GUARD(q->s);
    entry = rnic_tpt_entry(q->s, stag);
    if (!entry) {
        return RNIC_ST_INVALID_STAG;
    }
    if (entry->windows) {
        return RNIC_ST_MW_BOUND_TO_MR;
    }
    rnic_tpt_destroy(q->s, stag >> 8, entry);
    trace_rnic_stag_deallocated(stag >> 8);
    return RNIC_ST_OK;
}
