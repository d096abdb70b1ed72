/*
 * rnic: the states of a queue pair (6.2) and the end of its stream
 *
 *     Idle --(CM)--> RTS --> Closing --> Idle          (direct connect: direct-qp.h)
 *                     |         |
 *                     +--> Terminate --> Error --(Modify)--> Idle
 *
 * Terminate: the message has been staged, FIN follows it, and the QP waits,
 * for a bounded time, for the peer's FIN.  WRs are flushed from there on
 * (V6.2.3-7).  Where no message may be sent, it is left at once.  Error: no stream is
 * associated, everything is flushed.
 *
 * A function here may drop qp->stream: callers must not use it afterwards
 * unless the QP is still in RTS.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/guest/event-queue.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    /* V6.2.3-5, V6.2.5-9: how long a silent peer can hold a QP. */
    CLOSE_TIMEOUT_MS = 10 * 1000,
    DISCARDED_PER_TURN = 64,
    FLUSHED_PER_TURN = 256,
};

static const char *qp_state_name(uint8_t state)
{
    static const char *const names[] = {
        [RNIC_QPS_IDLE] = "Idle",
        [RNIC_QPS_RTS] = "RTS",
        [RNIC_QPS_CLOSING] = "Closing",
        [RNIC_QPS_TERMINATE] = "Terminate",
        [RNIC_QPS_ERROR] = "Error",
    };

    return state < G_N_ELEMENTS(names) && names[state] ? names[state] : "?";
}

/* The main loop looks at it, see rnic_qp_claim(). */
static void qp_set_state(RnicQp *qp, uint8_t state)
{
    trace_rnic_qp_state(qp->qpn, qp->state, state);
    rnic_capture_note(qp->s, "QP 0x%x: %s to %s", qp->qpn,
                      qp_state_name(qp->state), qp_state_name(state));
    qatomic_set(&qp->state, state);
}

static void qp_async_event(RnicQp *qp, enum rnic_async_event event)
{
    rnic_async_event(qp->s, event, RNIC_RESOURCE_QP, qp->qpn, qp->state,
                     qp->terminate_code);
}

/* The guest made no connection of one that was direct, and hears of none. */
static void qp_cm_event(RnicQp *qp, enum rnic_cm_event_type type,
                        uint16_t terminate)
{
    if (!qp->direct.connected) {
        rnic_cm_stream_event(qp->s, type, qp->qpn, qp->cookie, terminate);
    }
}

/* ----------------------------------------------- end of the stream */

static void stream_is_gone(RnicQp *qp)
{
    qp->stream = NULL;
    rnic_receive_wait_end(qp);
    qp->job = (RnicJob) { };
    qp->receive_again = false;
    timer_del(&qp->timer);
    rnic_reads_clear(qp);
}

void rnic_qp_drop_stream(RnicQp *qp, bool abort)
{
    RnicStream *st = qp->stream;

    if (!st) {
        return;
    }
    if (abort) {
        rnic_stream_abort(st);
    } else {
        /* As much as the host's socket takes still goes out. */
        rnic_transmit_last_notes(qp);
        rnic_stream_flush(st, false);
        rnic_stream_close(st);
    }
    stream_is_gone(qp);
}

/* Error is entered without a stream (V6.2.4-1); @event 0: none. */
static void enter_error(RnicQp *qp, bool abort, enum rnic_async_event event)
{
    bool had_stream = qp->stream != NULL;

    rnic_qp_drop_stream(qp, abort);
    qp->job.kind = RNIC_JOB_NONE;
    qp_set_state(qp, RNIC_QPS_ERROR);
    qp->flushing = true;
    if (event) {
        qp_async_event(qp, event);
    }
    if (had_stream) {
        qp_cm_event(qp, RNIC_CM_DISCONNECTED, qp->terminate_code);
    }
    rnic_qp_kick(qp);
}

/* V6.2.5-10: reset and state first, then the event. */
static void bad_close(RnicQp *qp)
{
    trace_rnic_err_bad_close(qp->qpn);
    enter_error(qp, true, RNIC_AE_BAD_CLOSE);
}

static void qp_timer_fired(void *opaque)
{
    RnicQp *qp = opaque;

    rnic_qp_begin_turn(qp);
    if (qp->state != RNIC_QPS_RTS) {
        trace_rnic_qp_close_timeout(qp->qpn, qp->state);
    }
    if (qp->state == RNIC_QPS_CLOSING) {
        enter_error(qp, true, RNIC_AE_LLP_LOST);
    } else if (qp->state == RNIC_QPS_TERMINATE) {
        enter_error(qp, true, qp->quiet_error ? RNIC_AE_BAD_CLOSE : 0);
    } else if (qp->state == RNIC_QPS_IDLE) {
        rnic_direct_qp_timed_out(qp);
    } else if (qp->state == RNIC_QPS_RTS) {
        rnic_qp_kick(qp);       /* a Send that waits looks for a receive */
    }
    rnic_qp_end_turn(qp);
}

/* The guest's clock: it stands still while the VM is stopped. */
static void qp_start_close_timer(RnicQp *qp)
{
    timer_mod(&qp->timer, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                          CLOSE_TIMEOUT_MS);
}

void rnic_qp_state_init(RnicQp *qp)
{
    qp->state = RNIC_QPS_IDLE;
    aio_timer_init(qp->worker->bottom_halves, &qp->timer, QEMU_CLOCK_VIRTUAL,
                   SCALE_MS, qp_timer_fired, qp);
}

void rnic_qp_state_cleanup(RnicQp *qp)
{
    timer_del(&qp->timer);
}

/* ------------------------------------------- flushing (V6.2.4-2) */

/* In bounded turns, so that a deep queue cannot hold up the others.  False: all
 * is done. */
static bool qp_flush_turn(RnicQp *qp, bool sq)
{
    unsigned n = sq ? rnic_sq_flush(qp, FLUSHED_PER_TURN) : 0;

    n += rnic_rq_flush(qp, FLUSHED_PER_TURN - n);
    if (n) {
        trace_rnic_qp_flushed(qp->qpn, n);
    }
    return n == FLUSHED_PER_TURN;
}

/* -------------------------------------------------- direct connect */

void rnic_qp_retry_exceeded(RnicQp *qp)
{
    rnic_sq_fail_oldest(qp, RNIC_WC_RETRY_EXCEEDED);
    enter_error(qp, false, 0);
}

/* A receive that the peer has begun to fill is no use to the next one. */
void rnic_qp_lose_stream(RnicQp *qp, bool abort)
{
    if (qp->rq.taken) {
        rnic_rq_flush(qp, 1);
        if (qp->state != RNIC_QPS_RTS) {
            return;             /* there was no room for its CQE */
        }
    }
    rnic_qp_drop_stream(qp, abort);
    qp_set_state(qp, RNIC_QPS_IDLE);
    rnic_qp_kick(qp);
}

/* ---------------------------------------------------------- closing */

static void start_closing(RnicQp *qp)
{
    rnic_receive_wait_end(qp);
    qp_set_state(qp, RNIC_QPS_CLOSING);
    qp_start_close_timer(qp);
    rnic_stream_want_fin(qp->stream);
    rnic_qp_kick(qp);
    rnic_qp_flush_stream(qp, false);
}

/* V6.2.5-11: flushed, closed both ways; event first, then Idle. */
static void closing_done(RnicQp *qp)
{
    rnic_qp_drop_stream(qp, false);
    qp_async_event(qp, RNIC_AE_LLP_CLOSE_COMPLETE);
    qp_set_state(qp, RNIC_QPS_IDLE);
    qp_cm_event(qp, RNIC_CM_DISCONNECTED, 0);
    rnic_direct_qp_forget(qp);  /* the next connection may be of the CM */
}

static void closing_turn(RnicQp *qp)
{
    RnicStream *st = qp->stream;

    if (!rnic_sq_idle(qp) || rnic_reads_head(qp)) {
        bad_close(qp);
        return;
    }
    if (qp_flush_turn(qp, false)) {
        rnic_qp_kick(qp);
        return;
    }
    if (rnic_stream_has_ended(st)) {
        closing_done(qp);
    }
}

/* ------------------------------------------------------- terminate */

static void keep_terminate(RnicQp *qp, const IwarpError *error, uint8_t origin)
{
    memset(qp->terminate, 0, sizeof(qp->terminate));
    qp->terminate_length = iwarp_terminate_encode(error, qp->terminate);
    qp->terminate_origin = origin;
    qp->terminate_code = error->term;
}

/* With it a directly connected peer learns what was delivered before the error. */
static void stage_terminate(RnicQp *qp, const IwarpError *error)
{
    rnic_transmit_last_notes(qp);
    rnic_stream_stage_terminate(qp->stream, error);
    rnic_count(&qp->s->counters.terminates_sent, 1);
    trace_rnic_terminate_sent(qp->qpn, error->term);
}

/* @event 0: the error is shown by a CQE, or Modify QP asked for it. */
static void enter_terminate(RnicQp *qp, enum rnic_async_event event,
                            const IwarpError *error)
{
    if (qp->state != RNIC_QPS_RTS) {
        return;                 /* the first error counts */
    }
    rnic_receive_wait_end(qp);
    keep_terminate(qp, error, 1);
    stage_terminate(qp, error);
    /* What arrives is discarded: nobody knows any more where an FPDU begins. */
    iwarp_rx_reject(&qp->stream->rx, error->term);
    qp_set_state(qp, RNIC_QPS_TERMINATE);
    qp->quiet_error = !event;
    qp->flushing = true;
    qp_start_close_timer(qp);
    rnic_stream_want_fin(qp->stream);
    if (event) {
        qp_async_event(qp, event);
    }
    rnic_qp_kick(qp);
    rnic_qp_flush_stream(qp, false);
}

void rnic_qp_stream_error(RnicQp *qp, enum rnic_async_event event,
                          const IwarpError *error)
{
    IwarpError copy = *error;   /* it may be part of the stream */

    enter_terminate(qp, event, &copy);
}

/* RFC 5044 7.1.2: before the peer's first FPDU there is none of ours, and what is not
 * delivered is a bad close (V6.6.2.2-1). */
static void terminate_unsent(RnicQp *qp, enum rnic_async_event event)
{
    trace_rnic_err_bad_close(qp->qpn);
    qp_set_state(qp, RNIC_QPS_TERMINATE);
    enter_error(qp, true, event ? event : RNIC_AE_BAD_CLOSE);
}

void rnic_qp_local_error(RnicQp *qp, enum rnic_async_event event,
                         IwarpTermCode term)
{
    IwarpError error = iwarp_error_local(term);

    if (qp->state == RNIC_QPS_RTS && qp->stream->hold_output) {
        terminate_unsent(qp, event);
    } else {
        enter_terminate(qp, event, &error);
    }
}

void rnic_qp_terminate_received(RnicQp *qp, const IwarpTerminate *terminate,
                                const IwarpSegment *segment)
{
    IwarpTerminate copy = *terminate;
    IwarpError error = {
        .term = copy.term,
        .echo = { .segment_len = copy.segment_len, .ddp_len = copy.ddp_len },
    };

    memcpy(error.echo.ddp, copy.ddp, sizeof(copy.ddp));
    if (copy.has_read) {
        error.echo.rdma_len = IWARP_ECHO_RDMA;
        iwarp_read_request_encode(&copy.read, error.echo.rdma);
    }
    rnic_count(&qp->s->counters.terminates_received, 1);
    trace_rnic_terminate_received(qp->qpn, copy.term, copy.siw_layout);
    qp_set_state(qp, RNIC_QPS_TERMINATE);
    keep_terminate(qp, &error, 2);
    if (!rnic_sq_remote_error(qp, &copy) || !qp->direct.connected) {
        qp_async_event(qp, RNIC_AE_TERMINATE_RECEIVED);
    }
    /* V6.2.2.3-7: nothing is left to wait for. */
    enter_error(qp, false, 0);
}

void rnic_qp_refuse_send(RnicQp *qp, const IwarpError *error)
{
    stage_terminate(qp, error);
    rnic_direct_qp_stream_ended(qp, false);
}

void rnic_qp_tell_failure(RnicQp *qp)
{
    IwarpError error = iwarp_error_local(IWARP_TERM_GLOBAL);

    if (qp->state != RNIC_QPS_RTS) {
        return;
    }
    if (qp->stream->hold_output) {
        rnic_qp_drop_stream(qp, true);
    } else {
        stage_terminate(qp, &error);
    }
}

/* ------------------------------------------------- what the LLP does */

void rnic_qp_peer_closed(RnicQp *qp)
{
    IwarpError error = iwarp_error_local(IWARP_TERM_STREAM);

    if (rnic_direct_qp_stream_ended(qp, false)) {
        return;
    }
    qp_cm_event(qp, RNIC_CM_PEER_CLOSE, 0);
    if (rnic_sq_idle(qp) && !rnic_reads_head(qp) &&
        rnic_stream_between_fpdus(qp->stream)) {
        start_closing(qp);
    } else if (rnic_stream_between_fpdus(qp->stream)) {
        rnic_qp_local_error(qp, RNIC_AE_BAD_LLP_CLOSE, IWARP_TERM_STREAM);
    } else {
        rnic_qp_stream_error(qp, RNIC_AE_BAD_LLP_CLOSE, &error);
    }
}

void rnic_qp_stream_failed(RnicQp *qp, RnicIo io)
{
    enum rnic_async_event event = io == RNIC_IO_LOST ? RNIC_AE_LLP_LOST
                                                     : RNIC_AE_LLP_RESET;

    trace_rnic_err_llp(qp->qpn, qp->state, io == RNIC_IO_LOST);
    if (qp->state == RNIC_QPS_RTS && rnic_direct_qp_stream_ended(qp, true)) {
        return;
    }
    switch (qp->state) {
    case RNIC_QPS_CLOSING:      /* V6.2.5-9 */
        event = RNIC_AE_LLP_LOST;
        break;
    case RNIC_QPS_TERMINATE:    /* V6.2.3-8, -9 */
        event = qp->quiet_error ? RNIC_AE_BAD_CLOSE : 0;
        break;
    default:
        break;
    }
    enter_error(qp, true, event);
}

void rnic_qp_flush_stream(RnicQp *qp, bool more)
{
    RnicIo io = rnic_stream_flush(qp->stream, more);

    if (io == RNIC_IO_RESET || io == RNIC_IO_LOST) {
        rnic_qp_stream_failed(qp, io);
    } else if (io == RNIC_IO_OK && qp->state != RNIC_QPS_RTS) {
        rnic_qp_kick(qp);
    }
}

/*
 * What is awaited is FIN.  Data during the close is an error (V6.2.5-7), in
 * Terminate it is ignored.
 */
static void qp_await_fin(RnicQp *qp)
{
    uint8_t sink[16 * 1024];
    struct iovec iov = { sink, sizeof(sink) };
    size_t n;

    for (int i = 0; i < DISCARDED_PER_TURN; i++) {
        RnicIo io = rnic_stream_readv(qp->stream, &iov, 1, &n);

        switch (io) {
        case RNIC_IO_OK:
            if (qp->state == RNIC_QPS_CLOSING) {
                bad_close(qp);
                return;
            }
            break;
        case RNIC_IO_BLOCKED:
            return;
        case RNIC_IO_EOF:
            rnic_stream_pause_reading(qp->stream);
            rnic_qp_kick(qp);
            return;
        default:
            rnic_qp_stream_failed(qp, io);
            return;
        }
    }
}

void rnic_qp_readable(void *opaque)
{
    RnicQp *qp = opaque;

    if (rnic_worker_halted(qp->worker)) {
        return;
    }
    rnic_qp_begin_turn(qp);
    if (qp->state == RNIC_QPS_RTS) {
        rnic_receive(qp);
    } else {
        qp_await_fin(qp);
    }
    rnic_qp_end_turn(qp);
}

static void qp_writable(void *opaque)
{
    RnicQp *qp = opaque;

    if (rnic_worker_halted(qp->worker)) {
        return;
    }
    rnic_qp_begin_turn(qp);
    rnic_qp_flush_stream(qp, false);
    if (qp->state == RNIC_QPS_RTS) {
        rnic_transmit(qp);
    }
    rnic_qp_end_turn(qp);
}

/* Nothing is taken from the S-RQ in Terminate and Error. */
static void tell_last_wqe(RnicQp *qp)
{
    if (qp->rq.srq && (qp->enables & RNIC_QP_LAST_WQE_EVENT) &&
        !qp->rq.taken && !qp->last_wqe_told) {
        qp->last_wqe_told = true;
        qp_async_event(qp, RNIC_AE_QP_LAST_WQE);
    }
}

void rnic_qp_closing_turn(RnicQp *qp)
{
    if (qp->state == RNIC_QPS_CLOSING) {
        closing_turn(qp);
        return;
    }
    qp->flushing = qp_flush_turn(qp, true);
    if (qp->flushing) {
        rnic_qp_kick(qp);
    }
    tell_last_wqe(qp);
    if (qp->state == RNIC_QPS_TERMINATE && rnic_stream_has_ended(qp->stream)) {
        enter_error(qp, false, 0);
    }
}

/* ------------------------------------------------------- Modify QP */

bool rnic_qp_transition_exists(uint8_t from, uint8_t to)
{
    switch (from) {
    case RNIC_QPS_IDLE:
        return to == RNIC_QPS_RTS || to == RNIC_QPS_ERROR;
    case RNIC_QPS_RTS:
        return to == RNIC_QPS_CLOSING || to == RNIC_QPS_TERMINATE ||
               to == RNIC_QPS_ERROR;
    case RNIC_QPS_ERROR:
        return to == RNIC_QPS_IDLE;
    default:
        return false;
    }
}

static enum rnic_admin_status leave_error(RnicQp *qp)
{
    if (qp->flushing || qp_flush_turn(qp, true)) {
        return RNIC_ST_STILL_FLUSHING;
    }
    qp->last_wqe_told = false;
    rnic_direct_qp_forget(qp);
    qp_set_state(qp, RNIC_QPS_IDLE);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_qp_change_state(RnicQp *qp, uint8_t next)
{
    if (qp->state == RNIC_QPS_ERROR) {
        return leave_error(qp);
    }
    switch (next) {
    case RNIC_QPS_RTS:
        return RNIC_ST_INVALID_LLP_STREAM;
    case RNIC_QPS_CLOSING:
        start_closing(qp);
        break;
    case RNIC_QPS_TERMINATE:
        rnic_qp_local_error(qp, 0, IWARP_TERM_RDMAP_LOCAL);
        break;
    default:
        /* After a direct connect, what has completed arrives (manual). */
        enter_error(qp, !qp->direct.connected, 0);
        break;
    }
    return RNIC_ST_OK;
}

/* ------------------------------------------------------ Idle to RTS */

static uint8_t mpa_flags(const IwarpMpaAgreed *agreed)
{
    return (agreed->crc ? RNIC_MPA_CRC : 0) |
           (agreed->tx_markers ? RNIC_MPA_MARKERS_SENT : 0) |
           (agreed->rx_markers ? RNIC_MPA_MARKERS_RECEIVED : 0);
}

void rnic_qp_enter_rts(RnicQp *qp, const RnicStreamSetup *setup,
                       uint64_t cookie)
{
    qp->stream = rnic_stream_new(setup, qp->worker->sockets,
                                 qp->worker->lingers, rnic_qp_readable,
                                 qp_writable, qp);
    qp->cookie = cookie;
    qp->llp_stream = 0;
    qp->mpa_revision = setup->agreed->revision;
    qp->mpa_flags = mpa_flags(setup->agreed);
    qp->terminate_origin = 0;
    qp->terminate_length = 0;
    qp->terminate_code = 0;
    qp->quiet_error = false;
    qp->flushing = false;
    qp->job = (RnicJob) { };
    qp->extensions = (RnicExtensions) { };
    rnic_qp_set_read_resources(qp, setup->agreed->ird, setup->agreed->ord);
    qp_set_state(qp, RNIC_QPS_RTS);
    if (setup->initiator && setup->agreed->rtr) {
        rnic_transmit_rtr(qp, setup->agreed->rtr);
    }
}

void rnic_qp_start(RnicQp *qp)
{
    rnic_stream_resume_reading(qp->stream);
    rnic_qp_kick(qp);
}
