/*
 * rnic: busy polling, waiting for the answer to a small message (busy-poll-us=)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_BUSY_POLL_H
#define HW_RNIC_BUSY_POLL_H

#include "hw/rnic/base/rnic.h"

/* Of a QP; its worker's. */
typedef struct RnicBusyPoll {
    unsigned left_out;          /* how many polls, after the last in vain */
    unsigned to_leave_out;      /* of those */
} RnicBusyPoll;

/* A turn of the QP begins.  In the worker, as is all here. */
void rnic_busy_poll_begin_turn(RnicQp *qp);

/*
 * The QP's turn is over and has sent @octets.  If an answer is likely to come
 * at once, look for it for a while, and take it.  Between turns, in the
 * worker; the stream may be gone afterwards.
 */
void rnic_busy_poll(RnicQp *qp, uint64_t octets);

#endif /* HW_RNIC_BUSY_POLL_H */
