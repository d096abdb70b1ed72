/*
 * rnic: an incoming Send that waits for a receive to be posted
 *
 * By the specification the stream ends when a Send finds no receive.  Programs that
 * were written for InfiniBand count on the sender being made to wait.  On a QP that
 * was connected directly, and with rnr-wait-ms on every QP, the Send waits here:
 * its stream is not taken on, so the peer's TCP waits.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    /* A post to an RQ rings; that to an S-RQ is found by looking. */
    LOOK_MIN_MS = 1,
    LOOK_MAX_MS = 64,

    US_PER_MS = 1000,
};

static int64_t receive_wait_now(void)
{
    return qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL);
}

/*
 * Milliseconds; 0: not at all.  After a direct connect as long as an InfiniBand
 * sender would go on to try.
 */
static int64_t receive_wait_limit(const RnicQp *qp)
{
    const RnicDirectQp *d = &qp->direct;

    if (!d->connected) {
        return qp->s->config.rnr_wait_ms;
    }
    return d->peer_rnr_retry == RNIC_RNR_RETRY_FOR_EVER
           ? INT64_MAX
           : DIV_ROUND_UP(d->peer_rnr_retry * d->rnr_timer_us, US_PER_MS);
}

static int64_t receive_wait_left(const RnicQp *qp)
{
    return receive_wait_limit(qp) -
           (receive_wait_now() - qp->receive_wait.since_ms);
}

static void receive_wait_look_later(RnicQp *qp)
{
    RnicReceiveWait *wait = &qp->receive_wait;

    wait->look_ms = MIN(MAX(2 * wait->look_ms, LOOK_MIN_MS), LOOK_MAX_MS);
    timer_mod(&qp->timer, receive_wait_now() +
                          MIN(wait->look_ms, receive_wait_left(qp)));
}

/*
 * After a direct connect.  What comes behind the Send that waits is read as far as
 * the buffer goes: acknowledgements, and the end of the stream, with which the Send
 * is lost.  Its sender does not count on one that was not acknowledged.
 */
static void receive_wait_look_ahead(RnicQp *qp)
{
    bool goes_on = rnic_receive_ahead(qp);

    rnic_direct_note_look_ahead(qp, &qp->receive_wait.looked_at);
    if (!goes_on && qp->state == RNIC_QPS_RTS) {
        rnic_direct_qp_stream_ended(qp, true);
    }
}

bool rnic_receive_wait(RnicQp *qp)
{
    RnicReceiveWait *wait = &qp->receive_wait;

    if (!receive_wait_limit(qp)) {
        return false;
    }
    if (!wait->waits) {
        trace_rnic_receive_wait(qp->qpn);
        *wait = (RnicReceiveWait) {
            .waits = true,
            .since_ms = receive_wait_now(),
        };
        rnic_stream_pause_reading(qp->stream);
        if (rnic_rq_await(qp)) {
            rnic_qp_kick(qp);
        }
    } else if (receive_wait_left(qp) <= 0) {
        rnic_receive_wait_end(qp);
        return false;
    }
    if (qp->direct.connected) {
        receive_wait_look_ahead(qp);
    } else if (rnic_stream_end(qp->stream) == RNIC_END_BOTH) {
        /* A FIN, in contrast, keeps its place behind the Send. */
        rnic_qp_stream_failed(qp, RNIC_IO_RESET);
    }
    if (wait->waits && !timer_pending(&qp->timer)) {
        receive_wait_look_later(qp);
    }
    return true;
}

void rnic_receive_wait_end(RnicQp *qp)
{
    if (!qp->receive_wait.waits) {
        return;
    }
    trace_rnic_receive_wait_end(qp->qpn, receive_wait_now() -
                                         qp->receive_wait.since_ms);
    qp->receive_wait.waits = false;
    timer_del(&qp->timer);
    if (qp->stream) {
        rnic_stream_resume_reading(qp->stream);
    }
}
