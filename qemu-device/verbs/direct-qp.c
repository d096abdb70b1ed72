/*
 * rnic: a QP that is connected directly, as its worker sees it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    /* Of a WR: the devices need a moment to find each other. */
    ANSWER_MIN_MS = 100,
    TIMEOUT_UNIT_NS = 4096,
};

/* -------------------------------------------------------- CM_DIRECT_SEND */

static int64_t direct_answer_ms(const struct rnic_admin_sqe *sqe)
{
    int64_t ns = (int64_t)TIMEOUT_UNIT_NS << sqe->direct_send.timeout;

    if (!sqe->direct_send.timeout) {
        return 0;
    }
    ns *= sqe->direct_send.retry_count + 1;
    return MAX(ns / SCALE_MS, ANSWER_MIN_MS);
}

/* No more Reads at a time than both CM_DIRECT_SEND and the peer allow. */
static void direct_limit_reads(RnicQp *qp)
{
    const RnicDirectQp *d = &qp->direct;

    if (d->connected && d->rts_given) {
        qp->ord = MIN(d->agreed_ord, d->ord);
    }
}

static bool direct_psn_differs(const RnicQp *qp)
{
    const RnicDirectQp *d = &qp->direct;

    return d->connected && d->rts_given && d->sq_psn != d->peer_psn;
}

static void direct_trace_psn(const RnicQp *qp)
{
    if (direct_psn_differs(qp)) {
        trace_rnic_err_direct_psn(qp->qpn, qp->direct.sq_psn,
                                  qp->direct.peer_psn);
    }
}

static void direct_await_answer(RnicQp *qp)
{
    timer_mod(&qp->timer, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                          qp->direct.answer_ms);
}

/* Another time: from now on.  In RTS the timer is another's. */
static void direct_change_answer_time(RnicQp *qp, int64_t ms)
{
    RnicDirectQp *d = &qp->direct;
    bool changed = d->answer_ms != ms;

    d->answer_ms = ms;
    if (changed && qp->state == RNIC_QPS_IDLE && timer_pending(&qp->timer)) {
        timer_del(&qp->timer);
        if (ms) {
            direct_await_answer(qp);
        }
    }
}

static enum rnic_admin_status direct_send_turn(RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    RnicQp *qp = q->qp;
    RnicDirectQp *d = &qp->direct;

    if (qp->state != RNIC_QPS_IDLE && qp->state != RNIC_QPS_RTS) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    if (!d->rts_given) {
        d->sq_psn = le32_to_cpu(sqe->direct_send.sq_psn);
    }
    d->ord = le16_to_cpu(sqe->direct_send.ord);
    direct_change_answer_time(qp, direct_answer_ms(sqe));
    d->rnr_retry = sqe->direct_send.rnr_retry;
    trace_rnic_direct_send(qp->qpn, d->sq_psn, d->answer_ms);
    if (!d->rts_given) {
        d->rts_given = true;
        direct_trace_psn(qp);
    }
    direct_limit_reads(qp);
    rnic_qp_kick(qp);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_direct_qp_send(RnicAdminRequest *q)
{
    return rnic_qp_ask(q, le32_to_cpu(q->sqe.direct_send.qpn),
                       direct_send_turn);
}

/* --------------------------------------------------------------- stream */

/* InfiniBand's code of the RNR NAK timer: 10 us times 2, 3, 4, 6, 8, 12 ... / 2. */
static int64_t direct_rnr_timer_us(uint8_t code)
{
    unsigned step = code ?: 32;

    return step == 1 ? 10 : (step % 2 ? 15 : 10) << (step / 2);
}

void rnic_direct_qp_established(RnicQp *qp, const RnicEstablish *what)
{
    timer_del(&qp->timer);
    qp->direct.connected = true;
    qp->direct.peer_psn = what->peer_psn;
    qp->direct.agreed_ord = qp->ord;
    qp->direct.rnr_retry_told = RNIC_RNR_RETRY_FOR_EVER;
    qp->direct.peer_rnr_retry = RNIC_RNR_RETRY_FOR_EVER;
    qp->direct.rnr_timer_us = direct_rnr_timer_us(what->min_rnr_timer);
    rnic_extensions_settle(qp, what->extensions);
    trace_rnic_direct_established(qp->qpn);
    direct_trace_psn(qp);
    direct_limit_reads(qp);
}

/*
 * iWARP has one state for both of RTR and RTS, and programs that know it post in
 * RTR (perftest's credits of Sends), so CM_DIRECT_SEND is not waited for.
 */
RnicSqStep rnic_direct_qp_gate(RnicQp *qp)
{
    if (!direct_psn_differs(qp)) {
        return RNIC_SQ_MESSAGE;
    }
    if (!rnic_sq_has_wqe(qp)) {
        return RNIC_SQ_EMPTY;
    }
    rnic_qp_retry_exceeded(qp);
    return RNIC_SQ_FAILED;
}

bool rnic_direct_qp_stream_ended(RnicQp *qp, bool abort)
{
    bool missed;

    if (!qp->direct.connected) {
        return false;
    }
    missed = !rnic_sq_idle(qp);
    trace_rnic_direct_stream_ended(qp->qpn, abort, missed);
    if (missed) {
        rnic_qp_retry_exceeded(qp);
    } else {
        rnic_qp_lose_stream(qp, abort);
    }
    return true;
}

/* ----------------------------------------------------------------- Idle */

void rnic_direct_qp_idle_turn(RnicQp *qp)
{
    const RnicDirectQp *d = &qp->direct;

    /* What waits in Idle for no answer stays unread. */
    if ((!d->connected && !d->answer_ms) || !rnic_sq_has_wqe(qp)) {
        return;
    }
    if (d->connected) {
        trace_rnic_err_direct_no_answer(qp->qpn, true);
        rnic_qp_retry_exceeded(qp);
    } else if (!timer_pending(&qp->timer)) {
        direct_await_answer(qp);
    }
}

void rnic_direct_qp_timed_out(RnicQp *qp)
{
    if (rnic_sq_has_wqe(qp)) {
        trace_rnic_err_direct_no_answer(qp->qpn, false);
        rnic_qp_retry_exceeded(qp);
    }
}

void rnic_direct_qp_forget(RnicQp *qp)
{
    timer_del(&qp->timer);
    qp->direct = (RnicDirectQp) { };
}
