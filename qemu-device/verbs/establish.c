/*
 * rnic: from a connection that has been set up to a QP in RTS
 *
 * The main loop claims a QP, sets up the connection, and hands its transport to
 * the QP's worker by one request.  Until then the QP may leave Idle: the worker
 * looks once more.  An LLP stream comes with a Modify QP, which is a request already.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/fabric/transport.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/stream/requests.h"
#include "qp-internal.h"

struct RnicEstablishing {
    RnicRequest request;
    RnicQp *qp;
    RnicEstablish what;
    bool refused;               /* a Modify of the QP's state is older */
    bool established;           /* the transport is the QP's */
    RnicEstablishedFn *fn;      /* NULL: forgotten */
    void *opaque;
    RnicEstablishing **handle;
};

bool rnic_qp_in_idle(const RnicQp *qp)
{
    return qatomic_read(&qp->state) == RNIC_QPS_IDLE;
}

/*
 * A QP may come to Idle by itself, but without a claim it leaves it by commands
 * only.  While one of these is in progress nothing is known of the state behind it.
 */
bool rnic_qp_claim(RnicQp *qp, RnicQpClaim *claim)
{
    if (qp->claim || qp->changes || !rnic_qp_in_idle(qp)) {
        return false;
    }
    qp->claim = claim;
    return true;
}

void rnic_qp_unclaim(RnicQp *qp, RnicQpClaim *claim)
{
    if (qp->claim == claim) {
        qp->claim = NULL;
    }
}

static RnicWorkResult establish_work(RnicRequest *request)
{
    RnicEstablishing *e = container_of(request, RnicEstablishing, request);
    RnicQp *qp = e->qp;

    if (e->refused || qp->gone || qp->state != RNIC_QPS_IDLE) {
        return RNIC_WORK_DONE;
    }
    e->what.setup.agreed = &e->what.agreed;
    e->established = true;
    rnic_capture_qp(qp->s, e->what.setup.transport, qp->qpn);
    rnic_qp_begin_turn(qp);
    rnic_qp_enter_rts(qp, &e->what.setup, e->what.cookie);
    if (e->what.direct) {
        rnic_direct_qp_established(qp, &e->what);
    } else {
        rnic_cm_event_post(qp->s, &e->what.event);
    }
    rnic_qp_start(qp);
    rnic_qp_end_turn(qp);
    return RNIC_WORK_DONE;
}

static void establish_free(RnicEstablishing *e)
{
    if (!e->established) {
        rnic_transport_abort(e->what.setup.transport);
    }
    if (e->fn) {
        *e->handle = NULL;
    }
    rnic_qp_put(e->qp);
    g_free(e);
}

static void establish_done(RnicRequest *request)
{
    RnicEstablishing *e = container_of(request, RnicEstablishing, request);
    RnicEstablishedFn *fn = e->fn;
    void *opaque = e->opaque;
    bool established = e->established;

    establish_free(e);
    if (fn) {
        fn(opaque, established);
    }
}

static void establish_cancel(RnicRequest *request)
{
    establish_free(container_of(request, RnicEstablishing, request));
}

void rnic_qp_establish(RnicQp *qp, const RnicEstablish *establish,
                       RnicEstablishedFn *fn, void *opaque,
                       RnicEstablishing **handle)
{
    RnicEstablishing *e = g_new0(RnicEstablishing, 1);

    *e = (RnicEstablishing) {
        .request = { establish_work, establish_done, establish_cancel },
        .qp = qp,
        .refused = qp->changes > 0,
        .what = *establish,
        .fn = fn,
        .opaque = opaque,
        .handle = handle,
    };
    *handle = e;
    rnic_qp_hold(qp);
    rnic_requests_add(qp->worker->requests, &e->request);
}

void rnic_qp_establish_forget(RnicEstablishing *handle)
{
    handle->fn = NULL;
}

/* ------------------------------------------------------ an LLP stream */

/* 6.2.1.2: what is to be sent in streaming mode first, and iWARP behind it; reading
 * goes on when that has been sent. */
void rnic_qp_take_stream(RnicQp *qp, RnicAdoption *adoption)
{
    RnicTransport *t = adoption->setup.transport;

    trace_rnic_llp_adopted(qp->qpn, adoption->number, adoption->setup.raw_len);
    adoption->agreed.ird = qp->ird;
    adoption->agreed.ord = qp->ord;
    adoption->setup.agreed = &adoption->agreed;
    adoption->adopted = true;
    rnic_direct_qp_forget(qp);
    rnic_capture_qp(qp->s, t, qp->qpn);
    rnic_capture_adopted(qp->s, t, adoption->setup.raw_len,
                         &adoption->agreed);
    rnic_qp_enter_rts(qp, &adoption->setup, adoption->cookie);
    qp->llp_stream = adoption->number;
    rnic_qp_start(qp);
    if (adoption->setup.raw_len) {
        rnic_qp_flush_stream(qp, false);
    }
}
