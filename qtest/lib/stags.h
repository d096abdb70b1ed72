/*
 * STags of every kind: regions, shared regions, windows, and work about them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_STAGS_H
#define RNIC_QTEST_STAGS_H

#include "connection.h"

#define STAG_MAX_PAGES 64
#define STAG_ENABLES (RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |      \
                      RNIC_QP_ENABLE_BIND | RNIC_QP_PRIVILEGED)
#define STAG_UNKNOWN 0x77777700u

/* What a registration says, in host order; .stag is what came of it. */
typedef struct StagRegion {
    uint32_t pd;
    uint64_t va;
    uint64_t length;
    uint64_t offset;            /* in the first page or block */
    uint64_t block_size;        /* 0: a page list */
    uint32_t access;
    bool local_only;            /* without the Remote Access Flag */
    uint8_t key;
    uint8_t page_shift;
    unsigned count;
    uint64_t bus[STAG_MAX_PAGES];
    uint32_t stag;
    uint32_t granted;           /* page list entries, as answered */
} StagRegion;

typedef struct StagBind {
    uint32_t mw;                /* index and new key */
    uint32_t mr;
    uint64_t va;
    uint64_t length;
    uint8_t access;
    uint8_t flags;              /* of the WQE, besides SIGNALED */
} StagBind;

/* A QP that may do everything. */
extern const ConnectionOptions stag_options;

/* Pages of 4 KiB that follow each other; all rights and MW_BIND, not zero. */
StagRegion stag_region(Rnic *r, unsigned pages);

/* REGISTER_MR or REREGISTER_MR (of region->stag); takes no guest memory. */
struct rnic_admin_sqe stag_command(Rnic *r, uint16_t opcode,
                                   const StagRegion *region);
uint16_t stag_try_register(Rnic *r, StagRegion *region);
void stag_register(Rnic *r, StagRegion *region);
/* With OK, QUERY_MR has told of as many entries as the answer. */
uint16_t stag_try_reregister(Rnic *r, StagRegion *region, uint32_t change);
#define STAG_CHANGE_ALL (RNIC_REREGISTER_PD | RNIC_REREGISTER_ACCESS |  \
                         RNIC_REREGISTER_TRANSLATION)
/* REGISTER_SHARED_MR: pd, va, access and key of @region, its .stag is set. */
uint16_t stag_try_share(Rnic *r, uint32_t source, StagRegion *region);
void stag_share(Rnic *r, uint32_t source, StagRegion *region);
/* ALLOC_STAG. */
uint32_t stag_alloc(Rnic *r, uint32_t pd, uint32_t pages, uint8_t key,
                    bool remote);
uint32_t stag_alloc_mw(Rnic *r, uint32_t pd, uint8_t key);

struct rnic_mr_attr stag_query_mr(Rnic *r, uint32_t stag);
struct rnic_mr_attr stag_query_mw(Rnic *r, uint32_t stag);
/* Whether QUERY_MR, or else QUERY_MW, knows it. */
bool stag_exists(Rnic *r, uint32_t stag);
uint16_t stag_try_dealloc(Rnic *r, uint32_t stag);
void stag_dealloc(Rnic *r, uint32_t stag);

/* Work requests with these flags and no others; the producer index does not move. */
void stag_store_bind(Connection *c, uint64_t wr_id, uint8_t flags,
                     const StagBind *bind);
void stag_store_fast_register(Connection *c, uint64_t wr_id, uint8_t flags,
                              const StagRegion *region);
/* The same with a list of the test's own in the place of region->bus. */
void stag_store_fast_register_of(Connection *c, uint64_t wr_id, uint8_t flags,
                                 const StagRegion *region,
                                 const struct rnic_page_list *list);

/* Work requests. Signaled. */
void stag_post_bind(Connection *c, uint64_t wr_id, const StagBind *bind);
void stag_post_invalidate(Connection *c, uint64_t wr_id, uint32_t stag);
void stag_post_fast_register(Connection *c, uint64_t wr_id,
                             const StagRegion *region);
/* The next completion, which is of @wr_id: its status. */
uint8_t stag_status_of(Connection *c, uint64_t wr_id);
/* ... and waited for: the completion status. */
uint8_t stag_bind(Connection *c, const StagBind *bind);
uint8_t stag_invalidate(Connection *c, uint32_t stag);
uint8_t stag_fast_register(Connection *c, const StagRegion *region);

/* The window of @length octets at @va of @region, VA based. */
StagBind stag_window(uint32_t mw, const StagRegion *region, uint64_t va,
                     uint64_t length, uint8_t access);

/* What the peer does; it is there when these return. */
void stag_peer_writes(Connection *c, uint32_t stag, uint64_t to,
                      const void *data, uint32_t length);
void stag_peer_reads(Connection *c, uint32_t stag, uint64_t to, void *data,
                     uint32_t length);
/* ... and is refused with @code; then all is new (with stag_options). */
void stag_peer_write_refused(Connection *c, uint32_t stag, uint64_t to,
                             uint32_t length, uint16_t code);
void stag_peer_read_refused(Connection *c, uint32_t stag, uint64_t to,
                            uint32_t length, uint16_t code);
/* The stream has ended: a new one (with stag_options). */
void stag_reconnect(Connection *c);
/* Another QP of the device, of @pd and in RTS (with stag_options). */
Connection *stag_second_qp(Connection *first, uint32_t pd);
/* The same without RNIC_QP_PRIVILEGED; of the device's first PD. */
Connection *stag_unprivileged_qp(Connection *first);

/* Nothing the test made is left: PDs, QPs, CQs and STags are as in @before. */
void stag_assert_no_leak(Rnic *r, const struct rnic_counters *before);

#endif
