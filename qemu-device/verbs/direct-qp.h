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

/* Part of a QP; the worker's. */
typedef struct RnicDirectQp {
    bool connected;             /* the stream is, or was, of a direct connect */
    bool rts_given;             /* CM_DIRECT_SEND was given */
    uint16_t ord;               /* with it, as are the next two */
    uint32_t sq_psn;
    int64_t answer_ms;          /* how long a WR waits for a peer; 0: for ever */
    uint32_t peer_psn;          /* when connected: that the peer expects first */
} RnicDirectQp;

/* CM_DIRECT_SEND for a QP that is being connected directly.  Main loop. */
enum rnic_admin_status rnic_direct_qp_send(RnicAdminRequest *q);

#endif /* HW_RNIC_DIRECT_QP_H */
