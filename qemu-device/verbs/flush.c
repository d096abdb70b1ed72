/*
 * rnic: flushing, completing what will not be done (V6.2.4-2)
 *
 * In bounded turns, so that a deep queue cannot hold up the others.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum { FLUSHED_PER_TURN = 256 };

bool rnic_flush_turn(RnicQp *qp, bool sq)
{
    unsigned n = 0;

    if (sq) {
        n = rnic_sq_flush(qp, FLUSHED_PER_TURN);
    }
    n += rnic_rq_flush(qp, FLUSHED_PER_TURN - n);
    if (n) {
        trace_rnic_qp_flushed(qp->qpn, n);
    }
    return n == FLUSHED_PER_TURN;
}
