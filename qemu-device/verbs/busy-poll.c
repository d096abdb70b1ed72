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

void rnic_busy_poll_begin_turn(RnicQp *qp)
{
    RnicWorker *worker = qp->worker;

    if (worker->turns_of != qp->qpn) {
        worker->turns_of = qp->qpn;
        worker->turns_in_a_row = 0;
    }
    worker->turns_in_a_row++;
}

static bool busy_poll_is_small(uint64_t octets)
{
    return octets > 0 && octets <= SMALL_OCTETS;
}

/* A bottom half or a timer waits for the thread. */
static bool busy_poll_called_away(const RnicWorker *worker)
{
    return rnic_worker_halted(worker) ||
           aio_compute_timeout(worker->bottom_halves) == 0;
}

/* No other device, and not the main loop, waits for the thread. */
static bool busy_poll_in_own_thread(const RnicWorker *worker)
{
    return worker->own && worker->bottom_halves != qemu_get_aio_context();
}

static bool busy_poll_may(const RnicQp *qp)
{
    return qp->s->config.busy_poll_us > 0 &&
           busy_poll_in_own_thread(qp->worker) &&
           qp->worker->turns_in_a_row >= TURNS_ALONE &&
           !busy_poll_called_away(qp->worker) && qp->state == RNIC_QPS_RTS &&
           !rnic_stream_blocked(qp->stream) && rnic_stream_watched(qp->stream);
}

static const char *busy_poll_look(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    uint64_t before = qp->bytes_received;
    int64_t until = qemu_clock_get_ns(QEMU_CLOCK_REALTIME) +
                    (int64_t)qp->s->config.busy_poll_us * SCALE_US;

    for (;;) {
        rnic_qp_readable(qp);
        if (qp->stream != st || qp->state != RNIC_QPS_RTS) {
            return "the stream has ended";
        }
        rnic_stream_update_handlers(st);
        if (qp->bytes_received != before) {
            return "answered";
        }
        if (busy_poll_called_away(qp->worker)) {
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
    RnicBusyPoll *bp = &qp->busy_poll;
    uint64_t before = qp->bytes_received;
    const char *end;

    if (!busy_poll_is_small(octets) || !busy_poll_may(qp)) {
        return;
    }
    if (bp->to_leave_out) {
        bp->to_leave_out--;
        return;
    }
    end = busy_poll_look(qp);
    if (busy_poll_is_small(qp->bytes_received - before)) {
        bp->left_out = 0;
    } else {
        bp->left_out = MIN(MAX(1, 2 * bp->left_out), LEFT_OUT_MAX);
    }
    bp->to_leave_out = bp->left_out;
    trace_rnic_busy_poll(qp->qpn, end, qp->bytes_received - before);
}
