/*
 * rnic: the inside of the TPT, private to this folder
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_TPT_ENTRY_H
#define HW_RNIC_TPT_ENTRY_H

#include "pd.h"
#include "tpt.h"

struct RnicTpt {
    GRWLock lock;
    QemuMutex turnstile;        /* a waiting writer lets no new reader in */
    GHashTable *entries;        /* RnicStag by STag index, tpt.c */
    uint32_t max_stags;
    uint32_t stags;             /* of entries; atomic */
    uint64_t pages;             /* page list entries held by all regions */
    uint64_t max_pages;
    uint64_t mappings;          /* made so far, see RnicTarget */
    uint64_t lists;             /* of Fast-Registers, begun so far */
};

/*
 * The memory of a region: a physical buffer list and the part of it that is
 * the region.  Shared Memory Regions of one origin have one between them.
 */
typedef struct RnicBuffer {
    uint32_t regions;           /* that name it */
    uint32_t max_pages;         /* entries taken from the pool (PBL size) */
    RnicPages pages;            /* empty until registered */
    uint64_t first_byte_offset;
    uint64_t length;
    RnicPagesReader *reader;    /* of a Fast-Register's list, or NULL */
    uint64_t list;              /* reader's: a number that no other list has had */
} RnicBuffer;

/*
 * One STag.  The kind and the PD are fixed by allocation (a Non-Shared Memory
 * Region may become a Shared one; an invalidated window goes to the PD of the
 * QP that did it, unless it is of its PD); what follows `valid` has a meaning
 * only in that state,
 * except that the last rights decide about a remote invalidation.
 */
typedef struct RnicStag {
    uint8_t kind;               /* RNIC_STAG_* */
    RnicPd *pd;                 /* held */
    bool remote_access;         /* MR: RAF, may be given remote rights */
    bool of_pd;                 /* MW: any QP of the PD binds it and is served */
    bool valid;                 /* STag state, 7.2.2 and 7.10.5 */
    uint8_t key;
    uint8_t access;             /* RNIC_ACCESS_* */
    uint64_t base;              /* TO of the first octet */
    uint64_t mapping;           /* see RnicTarget */
    /* Memory Regions */
    RnicBuffer *buffer;
    uint32_t windows;           /* bound to it */
    /* Memory Windows */
    uint32_t mr_index;          /* the region it is bound to */
    uint32_t qpn;               /* the QP it is bound through; of_pd: 0 */
    uint32_t *qp_windows;       /* of that QP, see RnicAccessor; of_pd: NULL */
    uint64_t mr_offset;         /* of its first octet in the region; MR: 0 */
    uint64_t length;
} RnicStag;

enum {
    RNIC_REMOTE_ACCESS = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE |
                         RNIC_ACCESS_REMOTE_ATOMIC,
};

static inline uint32_t rnic_stag_value(uint32_t index, uint8_t key)
{
    return index << 8 | key;
}

/* The entry of @index, NULL if not allocated. */
static inline RnicStag *rnic_tpt_by_index(RnicState *s, uint32_t index)
{
    return g_hash_table_lookup(s->tpt->entries, GUINT_TO_POINTER(index));
}

/* That of @stag's index, whatever its key. */
static inline RnicStag *rnic_tpt_entry(RnicState *s, uint32_t stag)
{
    return rnic_tpt_by_index(s, stag >> 8);
}

static inline bool rnic_is_region(const RnicStag *entry)
{
    return entry && entry->kind != RNIC_STAG_MW;
}

/* Hold the lock for writing to the end of the block. */
#define RNIC_TPT_WRITE_GUARD(s)                                             \
    __attribute__((cleanup(rnic_tpt_write_guard_end)))                      \
    G_GNUC_UNUSED RnicState *tpt_guard = rnic_tpt_write_guard_begin(s)

static inline RnicState *rnic_tpt_write_guard_begin(RnicState *s)
{
    rnic_tpt_write_lock(s);
    return s;
}

static inline void rnic_tpt_write_guard_end(RnicState **s)
{
    rnic_tpt_write_unlock(*s);
}

/* The same within a turn, which reads the TPT before and again behind that. */
#define RNIC_TPT_CHANGE_GUARD(s)                                            \
    __attribute__((cleanup(rnic_tpt_change_guard_end)))                     \
    G_GNUC_UNUSED RnicState *tpt_guard = rnic_tpt_change_guard_begin(s)

RnicState *rnic_tpt_change_guard_begin(RnicState *s);
void rnic_tpt_change_guard_end(RnicState **s);

/* WRAP, BOUNDS, or OK: [to, to + len) is within @length octets from @base. */
RnicAccessResult rnic_tpt_check_range(uint64_t base, uint64_t length,
                                      uint64_t to, uint64_t len);

/*
 * A new entry of @kind, Invalid; a region names @buffer.  NULL when there is no
 * index.
 */
RnicStag *rnic_tpt_create(RnicState *s, uint8_t kind, RnicPd *pd,
                          RnicBuffer *buffer, uint32_t *index);
void rnic_tpt_destroy(RnicState *s, uint32_t index, RnicStag *entry);

/* Valid from now on, through a mapping that no access has used yet. */
void rnic_stag_set_valid(RnicState *s, RnicStag *entry);

/* Name another buffer; the old one goes when no STag names it any more. */
void rnic_stag_set_buffer(RnicState *s, RnicStag *entry, RnicBuffer *buffer);
/* Move to another PD. */
void rnic_stag_set_pd(RnicStag *entry, RnicPd *pd);

/*
 * A buffer of @max_pages entries, charged to the pool, that no region names yet;
 * NULL: no room.  And give up one that no region names, if there is one.
 */
RnicBuffer *rnic_buffer_new(RnicState *s, uint32_t max_pages);
void rnic_buffer_drop(RnicState *s, RnicBuffer *buffer);
/* Free what a Fast-Register has read so far, if there is one.  Under the lock for writing. */
void rnic_buffer_forget_reader(RnicBuffer *buffer);

/* ---------------------------------------------------- register.c */

/* What Register, Reregister and Fast-Register are given. */
typedef struct RnicRegistration {
    uint64_t va;
    uint64_t length;
    uint64_t first_byte_offset;
    uint64_t block_size;        /* 0: a page list */
    uint32_t access;            /* as given: other bits are refused later */
    uint8_t key;
    struct rnic_page_list pages;
} RnicRegistration;

/* Figure 18, and that no unknown bit is set; atomics as Writes. */
bool rnic_access_valid(const RnicState *s, uint32_t access);

/* V7.4-3: no remote right without the Remote Access Flag. */
bool rnic_remote_access_ok(uint32_t access, bool flag);

bool rnic_page_size_ok(uint8_t shift);
/* The rules of 7.3.2 that need no list, and those that its form decides. */
enum rnic_admin_status rnic_registration_form(const RnicRegistration *r);
enum rnic_admin_status rnic_registration_fits(const RnicRegistration *r,
                                              const RnicPages *pages);

/* Put a checked registration into force: the region becomes Valid. */
void rnic_region_commit(RnicState *s, RnicStag *region,
                        const RnicRegistration *r, const RnicPages *pages);

/* ------------------------------------------------------ window.c */

/* A Valid window becomes Invalid and owned by @pd. */
void rnic_window_unbind(RnicState *s, RnicStag *window, RnicPd *pd);

#endif /* HW_RNIC_TPT_ENTRY_H */
