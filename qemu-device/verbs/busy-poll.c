/*
 * rnic: busy polling, waiting for the answer to a small message
 *
 * Sleeping and waking takes a thread longer than a small message and its answer
 * need.  A worker that has sent one therefore looks for the answer for a while: its
 * guest waits for the same, and the processor has nothing better to do.
 *
 * Where many queue pairs are busy, or where no answer is due, the processor has
 * something better to do.  So a worker polls for one queue pair at a time, and only
 * if it has served no other of late; a poll in vain is followed by fewer polls; and
 * a poll ends as soon as anything is scheduled in the worker.  Only threads of the
 * device's own poll: others serve other devices too.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "busy-poll.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    /* More than that is no message whose latency counts, nor is its answer. */
    SMALL_OCTETS = 4096,
    /* Turns in a row of one QP after which the worker is taken for its own. */
    TURNS_ALONE = 16,
    /* Polls that are left out after one in vain, at most. */
    LEFT_OUT_MAX = 64,
};

static bool small(uint64_t octets)
{
    return octets > 0 && octets <= SMALL_OCTETS;
}

static bool may_poll(const RnicQp *qp)
{
    const RnicWorker *worker = qp->worker;

    return qp->s->config.busy_poll_us > 0 && rnic_worker_in_own_thread(worker) &&
           worker->turns_in_a_row >= TURNS_ALONE &&
           !rnic_worker_is_wanted(worker) && qp->state == RNIC_QPS_RTS &&
           !rnic_stream_blocked(qp->stream) && rnic_stream_watched(qp->stream);
}

static bool its_turn(RnicBusyPoll *bp)
{
    if (bp->to_leave_out == 0) {
        return true;
    }
    bp->to_leave_out--;
    return false;
}

static void account(RnicBusyPoll *bp, bool answered)
{
    bp->left_out = answered ? 0 : MIN(MAX(1, 2 * bp->left_out), LEFT_OUT_MAX);
    bp->to_leave_out = bp->left_out;
}

static const char *look_for_answer(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    uint64_t before = qp->bytes_received;
    int64_t until = qemu_clock_get_ns(QEMU_CLOCK_REALTIME) +
                    (int64_t)qp->s->config.busy_poll_us * SCALE_US;

    for (;;) {
        if (!rnic_stream_read_now(st) || qp->state != RNIC_QPS_RTS) {
            return "the stream has ended";
        }
        if (qp->bytes_received != before) {
            return "answered";
        }
        if (rnic_worker_is_wanted(qp->worker) ||
            rnic_worker_halted(qp->worker)) {
            return "called away";
        }
        if (!rnic_stream_watched(st)) {
            return "paused";
        }
        if (qemu_clock_get_ns(QEMU_CLOCK_REALTIME) >= until) {
            return "in vain";
        }
    }
}

void rnic_busy_poll(RnicQp *qp, uint64_t octets)
{
    uint64_t before = qp->bytes_received;
    const char *end;

    if (small(octets) && may_poll(qp) && its_turn(&qp->busy_poll)) {
        end = look_for_answer(qp);
        account(&qp->busy_poll, small(qp->bytes_received - before));
        trace_rnic_busy_poll(qp->qpn, end, qp->bytes_received - before);
    }
}
