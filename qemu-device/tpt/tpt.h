/*
 * rnic: the translation and protection table (TPT)
 *
 * Which memory may be touched, by whom, through what: chapter 7 of the verbs
 * specification.  An STag is an index into this table (24 bits) and a key.
 * Nothing outside tpt*.c looks into an entry.
 *
 * Order of the access checks: "Access checks, in order" in the requirements of
 * chapter 7; each returns its own error, and no field is read before it is
 * known to mean something.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_TPT_H
#define HW_RNIC_TPT_H

#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/base/rnic.h"
#include "hw/rnic/guest/page-list.h"

typedef struct RnicDmaMap RnicDmaMap;

/* Page sizes a region may use, as bits: 4 KiB to 1 TiB. */
#define RNIC_PAGE_SIZES         0x000001fffffff000ULL
/* Block sizes, octets. */
#define RNIC_BLOCK_MIN          1
#define RNIC_BLOCK_MAX          (1ULL << 40)
/* Region lengths beyond this are refused. */
#define RNIC_MAX_REGION         (1ULL << 46)
/* Entries of the list of a region that ALLOC_STAG makes. */
#define RNIC_MAX_FAST_REGISTER_PAGES 1024
/* Entries of a Fast-Register's list that a turn reads. */
#define RNIC_FAST_REGISTER_PART 1024

void rnic_tpt_init(RnicState *s);
void rnic_tpt_cleanup(RnicState *s);
/* Free all entries.  No turn runs. */
void rnic_tpt_reset(RnicState *s);
/* STags of all kinds that exist.  Any thread. */
uint32_t rnic_tpt_stags(RnicState *s);

/*
 * The lock of the TPT.  A turn of a QP reads from its beginning to its end;
 * commands that change the TPT write, in a worker.  The main loop takes it where it
 * is the worker, and at reset: else it would wait for the turns of others.
 */
void rnic_tpt_read_lock(RnicState *s);
void rnic_tpt_read_unlock(RnicState *s);
void rnic_tpt_write_lock(RnicState *s);
void rnic_tpt_write_unlock(RnicState *s);

/* Why an access was refused. */
typedef enum RnicAccessResult {
    RNIC_ACCESS_OK,
    RNIC_ACCESS_INVALID_STAG,
    RNIC_ACCESS_NOT_INVALIDATED,        /* the STag exists but cannot be invalidated */
    RNIC_ACCESS_INVALID_PD,     /* MR of another PD, MW of another QP */
    RNIC_ACCESS_RIGHTS,
    RNIC_ACCESS_WRAP,
    RNIC_ACCESS_BOUNDS,
    RNIC_ACCESS_DMA,            /* the check allows it, but not all is RAM */
} RnicAccessResult;

/* The completion status that says so. */
enum rnic_wc_status rnic_access_status(RnicAccessResult result);

/*
 * Memory that an access check has allowed.  Valid until the turn ends or
 * changes the TPT itself; others may take the region away after that.
 */
typedef struct RnicTarget {
    const RnicPages *pages;     /* NULL: STag zero, offset is the address */
    uint64_t offset;
    uint64_t mapping;           /* of the STag to memory; never used again when
                                 * the STag is given other memory */
} RnicTarget;

/* On whose behalf memory is accessed. */
typedef struct RnicAccessor {
    RnicPd *pd;
    uint32_t qpn;
    bool stag_zero;             /* may use STag zero (local access only) */
    bool bind_without_rights;   /* RNIC_QP_BIND_WITHOUT_RIGHTS */
    uint32_t *windows;          /* how many are bound through the QP; it outlives
                                 * them.  Under the lock for writing */
} RnicAccessor;

/*
 * Check @len octets (at least 1) from tagged offset @to of @stag for a remote
 * access that needs the rights @need (RNIC_ACCESS_REMOTE_*).
 */
RnicAccessResult rnic_tpt_check_remote(RnicState *s, const RnicAccessor *who,
                                       uint32_t stag, uint64_t to,
                                       uint64_t len, uint8_t need,
                                       RnicTarget *target);

/*
 * The sink of a Read of this very QP, when the response arrives: a remote access
 * that needs remote write, or, for a region with RNIC_ACCESS_READ_SINK, local
 * write.
 */
RnicAccessResult rnic_tpt_check_read_sink(RnicState *s,
                                          const RnicAccessor *who,
                                          uint32_t stag, uint64_t to,
                                          uint64_t len, RnicTarget *target);

/*
 * All pieces of one message of the peer go through one mapping (V7.3.2.3-13).
 * *@held is that of the pieces before, 0 at the first; INVALID_STAG when it is
 * another one now.
 */
RnicAccessResult rnic_target_hold(const RnicTarget *target,
                                  const RnicAccessor *who, uint64_t *held);

/* The bus address of the 8 octets at @target.  False: they are not aligned to 8. */
bool rnic_target_word(const RnicTarget *target, uint64_t *addr);

/* Map @len octets of @target, or as many as the map takes: OK or DMA. */
RnicAccessResult rnic_target_map(RnicState *s, const RnicTarget *target,
                                 uint64_t len, RnicDmaMap *map);

/*
 * Check octets [offset, offset + len) of the @count SGEs for a local access that
 * needs the rights @need (RNIC_ACCESS_LOCAL_*), and with @map map them, or as many
 * of them as the map takes.
 */
RnicAccessResult rnic_tpt_map_sgl(RnicState *s, const RnicAccessor *who,
                                  const struct rnic_sge *sge, unsigned count,
                                  uint64_t offset, uint64_t len, uint8_t need,
                                  RnicDmaMap *map);

/*
 * Work requests and messages that change the TPT.  They end the turn's reading
 * of it and begin another: what was found in it before may have changed.
 */

/*
 * Invalidate an STag on behalf of @who (7.8): Invalidate Local STag, Read with
 * Invalidate, and with @remote an incoming Send with Invalidate.  INVALID_STAG:
 * there is no STag of this index; NOT_INVALIDATED: STag zero, a shared region, a
 * window of a PD, another key than that of a Valid STag, or windows are bound to it;
 * INVALID_PD: another PD's, or a window of another QP.  RNIC_ACCESS_RIGHTS can only
 * come with @remote.
 */
RnicAccessResult rnic_tpt_invalidate(RnicState *s, const RnicAccessor *who,
                                     uint32_t stag, bool remote);

/*
 * Fast-Register (7.3.2.5), and Bind (7.10.2) as the WQE says.  Success or the
 * completion status of the failure.
 *
 * *@list is 0 where a Fast-Register begins.  With SUCCESS the region is Valid and *@list
 * is 0; or the list is longer than a part, *@list is not 0, and the QP calls again with it
 * in another turn.  With another status *@list is 0.  In a turn, which reads the TPT.
 */
enum rnic_wc_status
rnic_tpt_fast_register(RnicState *s, const RnicAccessor *who,
                       const struct rnic_fast_register_wqe *wqe, uint64_t *list);
enum rnic_wc_status rnic_tpt_bind(RnicState *s, const RnicAccessor *who,
                                  const struct rnic_bind_wqe *wqe);

/*
 * Admin commands; tpt.c, register.c and window.c.  In a worker, without the
 * lock.  A handler that returns RNIC_ADMIN_LATER is called once more for its next
 * part.
 */
enum rnic_admin_status rnic_tpt_alloc_stag(RnicAdminRequest *q);
enum rnic_admin_status rnic_tpt_register(RnicAdminRequest *q);
enum rnic_admin_status rnic_tpt_reregister(RnicAdminRequest *q);
enum rnic_admin_status rnic_tpt_register_shared(RnicAdminRequest *q);
enum rnic_admin_status rnic_tpt_query(RnicAdminRequest *q);     /* MR, MW */
enum rnic_admin_status rnic_tpt_dealloc(RnicAdminRequest *q);
enum rnic_admin_status rnic_tpt_alloc_mw(RnicAdminRequest *q);

/* The device is being reset: drop what a handler keeps between its parts. */
void rnic_tpt_cancel(RnicAdminRequest *q);

#endif /* HW_RNIC_TPT_H */
