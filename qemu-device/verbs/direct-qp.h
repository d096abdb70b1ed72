/*
 * rnic: a QP that is connected directly, as its worker sees it
 *
 * The guest sees what it would of InfiniBand: a peer that is not there, or not
 * any more, is missed only by a WR that gets no answer (manual, Direct connect).
 * Finding the peer is the main loop's (connect/direct.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_DIRECT_QP_H
#define HW_RNIC_DIRECT_QP_H

#include "qp.h"

enum {
    RNIC_RNR_RETRY_FOR_EVER = 7,
};

/* Part of a QP; the worker's. */
typedef struct RnicDirectQp {
    bool connected;             /* the stream is, or was, of a direct connect */
    bool rts_given;             /* CM_DIRECT_SEND was given */
    uint16_t ord;               /* with it, as are the next three */
    uint32_t sq_psn;
    int64_t answer_ms;          /* how long a WR waits for a peer; 0: for ever */
    uint8_t rnr_retry;
    uint32_t peer_psn;          /* when connected: that the peer expects first */
    uint16_t agreed_ord;        /* when connected */

    /*
     * direct-note.c; messages are Sends, Immediate Data and Writes, since the stream
     * began
     */
    uint64_t sent;              /* of ours */
    uint64_t acknowledged;      /* of them, delivered */
    uint64_t noted;             /* of them, by notes that were taken in order */
    uint64_t delivered;         /* of the peer's */
    uint64_t delivered_told;    /* of them, as the peer was told last */
    uint8_t rnr_retry_told;     /* what the peer takes rnr_retry for */

    /* receive-wait.c */
    uint8_t peer_rnr_retry;
    int64_t rnr_timer_us;       /* between two tries of the peer */
} RnicDirectQp;

/* CM_DIRECT_SEND for a QP that is being connected directly.  Main loop. */
enum rnic_admin_status rnic_direct_qp_send(RnicAdminRequest *q);

#endif /* HW_RNIC_DIRECT_QP_H */
