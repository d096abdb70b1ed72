/*
 * rnic: what is left to be done when the device has failed (STATUS.FATAL)
 *
 * One event to the guest, if the event queue takes it, and a Terminate to each peer
 * (V8.3.3-20, -21).  The streams end in order; nothing else happens until a reset.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "failure.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/connect/cm.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/stream/worker.h"
#include "hw/rnic/verbs/qp.h"

void rnic_failure(RnicState *s)
{
    trace_rnic_failure(s->regs.health);
    rnic_eq_post_failure(s);
    rnic_workers_fail(s, rnic_qp_fail_all);
    rnic_cm_reset(s);
}
