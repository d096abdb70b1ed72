/*
 * rnic: direct connect, from two QPs that were told of each other to a stream
 *
 * A QP waits from CM_DIRECT_CONNECT on, and has the object below until it leaves
 * Idle by a command, or is destroyed; also while it is connected.  It listens
 * first and dials then, so the later of two ends finds the earlier one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "direct.h"
#include "direct-data.h"
#include "endpoint.h"
#include "rendezvous.h"
#include "hw/rnic/fabric/loop-transport.h"
#include "hw/rnic/verbs/direct-qp.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"

enum {
    DIALS_MAX = 256,            /* attempts at a time, of a device */
    DIAL_AGAIN_MIN_MS = 500,
    DIAL_AGAIN_MAX_MS = 8000,
    LISTEN_WAIT_MIN_MS = 2,     /* for a fabric that is busy */
    LISTEN_WAIT_MAX_MS = 1000,
    HURRIES_MAX = 3,            /* dials at once, when the peer is there */
    NUMBER_MAX = 0xffffff,      /* QP numbers and PSNs */
    TIME_CODE_MAX = 31,
    COUNT_MAX = 7,
};

typedef struct RnicDirect {
    RnicState *s;
    RnicQp *qp;
    RnicQpClaim claim;
    RnicRendezvous *rendezvous;
    RnicAddr local;             /* port 0: any */
    RnicAddr remote;
    uint32_t qpn;
    uint32_t peer_qpn;
    uint32_t rq_psn;
    uint8_t min_rnr_timer;
    IwarpMpaPolicy policy;
    RnicEndpoint *dial;         /* our attempt */
    RnicEndpoint *answer;       /* the peer's, that we have accepted */
    RnicEstablishing *to_itself;        /* a QP that is its own peer */
    bool connected;             /* the QP has been in RTS */
    bool again;                 /* the peer is there: dial again at once, */
    unsigned hurries;           /* so often until now */
    bool queued;                /* for its turn to dial */
    QEMUTimer *timer;           /* to dial */
    int64_t again_ms;           /* next wait */
    int64_t listen_ms;          /* next wait for the listener */
    QTAILQ_ENTRY(RnicDirect) queue;
} RnicDirect;

struct RnicDirects {
    GHashTable *by_qpn;         /* uint32_t, in the RnicDirect -> RnicDirect */
    RnicRendezvousList rendezvous;
    unsigned dials;
    QTAILQ_HEAD(, RnicDirect) queue;
};

/* ------------------------------------------------------------- attempts */

static const RnicEndpointOps direct_ops;
static void direct_dial_next(RnicDirects *all);

static void direct_dial_in(RnicDirect *d, int64_t ms)
{
    timer_mod(d->timer, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) + ms);
}

/* For what may be lost: usually the peer's attempt finds us. */
static void direct_dial_later(RnicDirect *d)
{
    direct_dial_in(d, d->again_ms);
    d->again_ms = MIN(2 * d->again_ms, DIAL_AGAIN_MAX_MS);
}

static void direct_wait_for_listener(RnicDirect *d)
{
    direct_dial_in(d, d->listen_ms);
    d->listen_ms = MIN(2 * d->listen_ms, LISTEN_WAIT_MAX_MS);
}

static bool direct_waits(const RnicDirect *d)
{
    return !d->connected && !d->answer && !d->to_itself &&
           rnic_qp_in_idle(d->qp);
}

static bool direct_has_extensions(const RnicState *s)
{
    return rnic_accepted(s, RNIC_FEATURE_RDMAP_EXTENSIONS);
}

/* What the peer says of itself in its Request or Reply. */
static void direct_take_data(const RnicDirect *d, RnicEndpoint *ep,
                             const RnicDirectData *data)
{
    ep->peer_psn = data->psn;
    ep->extensions = (data->flags & RNIC_DIRECT_EXTENSIONS) &&
                     direct_has_extensions(d->s);
    ep->min_rnr_timer = d->min_rnr_timer;
}

static void direct_fill_data(const RnicDirect *d, IwarpMpaFrame *frame)
{
    RnicDirectData data = {
        .flags = direct_has_extensions(d->s) ? RNIC_DIRECT_EXTENSIONS : 0,
        .from_qpn = d->qpn,
        .to_qpn = d->peer_qpn,
        .psn = d->rq_psn,
    };

    memcpy(data.from_gid, d->local.ip, sizeof(data.from_gid));
    memcpy(data.to_gid, d->remote.ip, sizeof(data.to_gid));
    rnic_direct_data_encode(&data, frame);
}

/* INSUFFICIENT is not lasting: RNIC_FABRIC_OK, and dial later. */
static RnicFabricStatus direct_dial(RnicDirect *d)
{
    RnicEndpoint *ep = rnic_endpoint_new(d->s, NULL, &d->local, &d->remote);
    RnicFabricStatus status;

    if (!ep) {
        direct_dial_later(d);
        direct_dial_next(d->s->directs);
        return RNIC_FABRIC_OK;
    }
    ep->ops = &direct_ops;
    ep->owner = d;
    ep->qp = d->qp;
    ep->policy = d->policy;
    iwarp_mpa_request(&ep->policy, &ep->request);
    direct_fill_data(d, &ep->request);
    d->s->directs->dials++;
    d->dial = ep;
    trace_rnic_direct_dial(d->qpn, d->peer_qpn);
    status = rnic_endpoint_start_initiator(ep);
    if (status != RNIC_FABRIC_OK) {
        trace_rnic_err_direct_dial(d->qpn, rnic_cm_event_status(status));
        rnic_endpoint_free(ep);
        direct_dial_later(d);
    }
    return status;
}

/* Dial, or wait for the end of other attempts. */
static RnicFabricStatus direct_dial_in_turn(RnicDirect *d)
{
    RnicDirects *all = d->s->directs;

    if (all->dials < DIALS_MAX) {
        return direct_dial(d);
    }
    d->queued = true;
    QTAILQ_INSERT_TAIL(&all->queue, d, queue);
    return RNIC_FABRIC_OK;
}

static void direct_leave_queue(RnicDirect *d)
{
    if (d->queued) {
        d->queued = false;
        QTAILQ_REMOVE(&d->s->directs->queue, d, queue);
    }
}

static void direct_dial_next(RnicDirects *all)
{
    RnicDirect *d = QTAILQ_FIRST(&all->queue);

    if (d && all->dials < DIALS_MAX) {
        direct_leave_queue(d);
        direct_dial_in(d, 0);
    }
}

static void direct_timer(void *opaque)
{
    RnicDirect *d = opaque;

    if (!direct_waits(d) || d->dial || d->queued) {
        direct_dial_next(d->s->directs);        /* it may have been its turn */
        return;
    }
    if (!rnic_rendezvous_listens(d->rendezvous)) {
        direct_wait_for_listener(d);
        return;
    }
    d->again = false;
    direct_dial_in_turn(d);
}

/* ------------------------------------------- what becomes of an endpoint */

static void direct_attempt_failed(RnicDirect *d, const RnicEndpoint *ep,
                                  enum rnic_cm_status status)
{
    RnicDirectData data;

    if (status == RNIC_CM_REJECTED &&
        rnic_direct_data_decode(&ep->reply, &data)) {
        trace_rnic_direct_rejected(d->qpn, d->peer_qpn,
                                   rnic_direct_reason_name(data.reason));
    } else {
        trace_rnic_err_direct_dial(d->qpn, status);
    }
    if (!direct_waits(d)) {
        return;
    }
    if (d->again && d->hurries < HURRIES_MAX) {
        d->hurries++;
        direct_dial_in(d, 0);
    } else {
        direct_dial_later(d);
    }
}

static void direct_ended(RnicEndpoint *ep, enum rnic_cm_status status)
{
    RnicDirect *d = ep->owner;

    if (!d) {
        return;                 /* a stranger */
    }
    if (d->dial == ep) {
        d->dial = NULL;
    } else {
        d->answer = NULL;
    }
    ep->owner = NULL;
    if (status == RNIC_CM_OK) {
        d->connected = true;
        timer_del(d->timer);
        direct_leave_queue(d);
        direct_dial_next(d->s->directs);        /* it may have been its turn */
    } else {
        direct_attempt_failed(d, ep, status);
    }
}

static void direct_freed(RnicEndpoint *ep)
{
    RnicDirect *d = ep->owner;

    if (d && d->dial == ep) {
        d->dial = NULL;
    } else if (d) {
        d->answer = NULL;
    }
    if (!ep->incoming) {
        ep->s->directs->dials--;
        direct_dial_next(ep->s->directs);
    }
    rnic_rendezvous_release(ep);
}

/* ------------------------------------------------------------- requests */

static RnicDirect *direct_find(RnicState *s, uint32_t qpn)
{
    return s->directs ? g_hash_table_lookup(s->directs->by_qpn, &qpn) : NULL;
}

static void direct_reject(RnicEndpoint *ep, const RnicDirectData *request,
                          RnicDirectReason reason)
{
    RnicDirectData data = {
        .reason = reason,
        .from_qpn = request->to_qpn,
        .to_qpn = request->from_qpn,
    };

    memcpy(data.from_gid, request->to_gid, sizeof(data.from_gid));
    memcpy(data.to_gid, request->from_gid, sizeof(data.to_gid));
    trace_rnic_err_direct_reject(ep->number, request->to_qpn,
                                 request->from_qpn,
                                 rnic_direct_reason_name(reason));
    ep->policy = rnic_cm_policy(ep->s, ep->s->config.max_ird,
                                ep->s->config.max_ord);
    iwarp_mpa_reject(&ep->policy, &ep->request, &ep->reply);
    rnic_direct_data_encode(&data, &ep->reply);
    rnic_count(&ep->s->counters.rejects, 1);
    rnic_endpoint_send_reply(ep);
}

static bool direct_expects(const RnicDirect *d, const RnicEndpoint *ep,
                           const RnicDirectData *request)
{
    return d->peer_qpn == request->from_qpn &&
           memcmp(d->local.ip, ep->local.ip, sizeof(d->local.ip)) == 0 &&
           memcmp(d->remote.ip, ep->remote.ip, sizeof(d->remote.ip)) == 0;
}

/*
 * Both ends compare the same: QP numbers, then the GIDs as their owners know
 * them.
 */
static bool direct_our_attempt_wins(const RnicDirect *d,
                                    const RnicDirectData *request)
{
    if (d->qpn != request->from_qpn) {
        return d->qpn < request->from_qpn;
    }
    return memcmp(d->local.ip, request->from_gid, sizeof(d->local.ip)) < 0;
}

/* The QP's worker has been given our attempt's stream. */
static bool direct_is_taken(const RnicDirect *d)
{
    return d->dial && d->dial->establishing;
}

/* An attempt that has not reached the peer cannot win: it may never do so. */
static bool direct_request_is_under_way(const RnicDirect *d)
{
    return d->dial && d->dial->state > RNIC_EP_DIALING;
}

/* The peer may have given this attempt up, and have accepted ours instead. */
static bool direct_peer_is_there(RnicEndpoint *ep)
{
    char octet;

    return rnic_transport_read(ep->transport, &octet, 1) < 0 &&
           errno == EAGAIN;
}

static void direct_accept(RnicDirect *d, RnicEndpoint *ep,
                          const RnicDirectData *request)
{
    if (d->dial) {
        rnic_endpoint_free(d->dial);
    }
    d->answer = ep;
    ep->owner = d;
    ep->qp = d->qp;
    ep->policy = d->policy;
    direct_take_data(d, ep, request);
    iwarp_mpa_accept(&ep->policy, &ep->request, &ep->reply, &ep->agreed);
    direct_fill_data(d, &ep->reply);
    trace_rnic_direct_accept(d->qpn, d->peer_qpn);
    rnic_endpoint_send_reply(ep);
}

static void direct_requested(RnicEndpoint *ep)
{
    RnicDirectData request = { };
    RnicDirect *d;

    if (!direct_peer_is_there(ep)) {
        rnic_endpoint_fail(ep, RNIC_CM_RESET);
        return;
    }
    if (!rnic_direct_data_decode(&ep->request, &request)) {
        direct_reject(ep, &request, RNIC_DIRECT_NOT_UNDERSTOOD);
        return;
    }
    d = direct_find(ep->s, request.to_qpn);
    if (!d || !direct_waits(d) || direct_is_taken(d)) {
        direct_reject(ep, &request, RNIC_DIRECT_NO_QP);
    } else if (!direct_expects(d, ep, &request)) {
        direct_reject(ep, &request, RNIC_DIRECT_MISMATCH);
    } else if (direct_request_is_under_way(d) &&
               direct_our_attempt_wins(d, &request)) {
        d->again = true;
        direct_reject(ep, &request, RNIC_DIRECT_BUSY);
    } else {
        direct_accept(d, ep, &request);
    }
}

static bool direct_replied(RnicEndpoint *ep)
{
    const RnicDirect *d = ep->owner;
    RnicDirectData reply;

    if (!rnic_direct_data_decode(&ep->reply, &reply) ||
        reply.from_qpn != d->peer_qpn || reply.to_qpn != d->qpn) {
        trace_rnic_err_direct_reply(d->qpn, d->peer_qpn);
        return false;
    }
    direct_take_data(d, ep, &reply);
    return true;
}

static const RnicEndpointOps direct_ops = {
    .requested = direct_requested,
    .replied = direct_replied,
    .ended = direct_ended,
    .freed = direct_freed,
};

/* ----------------------------------------------------------------- life */

static void direct_free(RnicDirect *d)
{
    RnicDirects *all = d->s->directs;

    trace_rnic_direct_end(d->qpn);
    timer_free(d->timer);
    direct_leave_queue(d);
    if (d->dial) {
        rnic_endpoint_free(d->dial);
    }
    if (d->answer) {
        rnic_endpoint_free(d->answer);
    }
    if (d->to_itself) {
        rnic_qp_establish_forget(d->to_itself);
    }
    if (d->rendezvous) {
        rnic_rendezvous_put(d->rendezvous, &d->remote);
    }
    rnic_qp_unclaim(d->qp, &d->claim);
    g_hash_table_remove(all->by_qpn, &d->qpn);
    g_free(d);
    direct_dial_next(all);      /* it may have been its turn */
}

static void direct_claim_ends(RnicQpClaim *claim)
{
    direct_free(container_of(claim, RnicDirect, claim));
}

static RnicDirects *direct_all(RnicState *s)
{
    if (!s->directs) {
        s->directs = g_new0(RnicDirects, 1);
        s->directs->by_qpn = g_hash_table_new(g_int_hash, g_int_equal);
        QLIST_INIT(&s->directs->rendezvous);
        QTAILQ_INIT(&s->directs->queue);
    }
    return s->directs;
}

void rnic_direct_reset(RnicState *s)
{
    RnicDirects *all = s->directs;
    GHashTableIter iter;
    void *d;

    if (!all) {
        return;
    }
    for (;;) {
        g_hash_table_iter_init(&iter, all->by_qpn);
        if (!g_hash_table_iter_next(&iter, NULL, &d)) {
            break;
        }
        direct_free(d);
    }
    g_hash_table_destroy(all->by_qpn);
    g_clear_pointer(&s->directs, g_free);
}

/* ------------------------------------------------------------- commands */

static IwarpMpaPolicy direct_policy(const RnicState *s, uint16_t ird,
                                    uint16_t ord)
{
    IwarpMpaPolicy policy = rnic_cm_policy(s, ird, ord);

    /* Either end may send first, whichever of them has dialed. */
    policy.revision = IWARP_MPA_REVISION_MAX;
    policy.enhanced = true;
    policy.peer_to_peer = true;
    /* Acknowledgements are found behind a Send that waits, but not with markers. */
    policy.markers = false;
    return policy;
}

static enum rnic_admin_status direct_check(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    if (le32_to_cpu(sqe->direct_connect.peer_qpn) > NUMBER_MAX ||
        le32_to_cpu(sqe->direct_connect.rq_psn) > NUMBER_MAX ||
        sqe->direct_connect.min_rnr_timer > TIME_CODE_MAX) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (le16_to_cpu(sqe->direct_connect.ord) > s->config.max_ord) {
        return RNIC_ST_ORD_EXCEEDED;
    }
    return le16_to_cpu(sqe->direct_connect.ird) > s->config.max_ird
           ? RNIC_ST_IRD_EXCEEDED : RNIC_ST_OK;
}

/* NULL: the QP is claimed, or not in Idle. */
static RnicDirect *direct_new(RnicState *s, RnicQp *qp,
                              const struct rnic_admin_sqe *sqe)
{
    RnicDirect *d = g_new0(RnicDirect, 1);

    d->claim.left_idle = direct_claim_ends;
    d->claim.to_idle = direct_claim_ends;
    d->claim.gone = direct_claim_ends;
    if (!rnic_qp_claim(qp, &d->claim)) {
        g_free(d);
        return NULL;
    }
    d->s = s;
    d->qp = qp;
    d->qpn = rnic_qp_number(qp);
    d->peer_qpn = le32_to_cpu(sqe->direct_connect.peer_qpn);
    d->rq_psn = le32_to_cpu(sqe->direct_connect.rq_psn);
    d->min_rnr_timer = sqe->direct_connect.min_rnr_timer;
    memcpy(d->local.ip, sqe->direct_connect.local, sizeof(d->local.ip));
    memcpy(d->remote.ip, sqe->direct_connect.remote, sizeof(d->remote.ip));
    d->remote.port = RNIC_DIRECT_PORT;
    d->policy = direct_policy(s, le16_to_cpu(sqe->direct_connect.ird),
                              le16_to_cpu(sqe->direct_connect.ord));
    d->again_ms = DIAL_AGAIN_MIN_MS;
    d->listen_ms = LISTEN_WAIT_MIN_MS;
    d->timer = timer_new_ms(QEMU_CLOCK_VIRTUAL, direct_timer, d);
    g_hash_table_insert(direct_all(s)->by_qpn, &d->qpn, d);
    return d;
}

/* ------------------------------------------------- a QP that is its own peer */

static bool direct_is_own_peer(const RnicDirect *d)
{
    return d->peer_qpn == d->qpn &&
           memcmp(d->local.ip, d->remote.ip, sizeof(d->local.ip)) == 0;
}

static void direct_connected_to_itself(void *opaque, bool established)
{
    RnicDirect *d = opaque;

    d->connected = established;
}

/* What it sends comes back: no RTR, and neither end waits for the first FPDU. */
static RnicFabricStatus direct_connect_to_itself(RnicDirect *d)
{
    RnicEstablish what = {
        .setup = {
            .transport = rnic_loop_transport_new(),
            .initiator = true,
            .mulpdu = d->s->config.mulpdu,
        },
        .agreed = {
            .crc = d->policy.crc,
            .revision = d->policy.revision,
            .ird = d->policy.ird,
            .ord = MIN(d->policy.ird, d->policy.ord),
        },
        .direct = true,
        .peer_psn = d->rq_psn,
        .min_rnr_timer = d->min_rnr_timer,
        .extensions = direct_has_extensions(d->s),
    };

    if (!what.setup.transport) {
        return RNIC_FABRIC_NO_DESCRIPTORS;
    }
    rnic_capture_attach_loop(d->s, what.setup.transport, &d->local,
                             RNIC_DIRECT_PORT, d->policy.crc);
    rnic_qp_establish(d->qp, &what, direct_connected_to_itself, d,
                      &d->to_itself);
    return RNIC_FABRIC_OK;
}

/* ------------------------------------------------------------- the command */

bool rnic_direct_owns_port(const RnicState *s, const RnicAddr *addr)
{
    return addr->port == RNIC_DIRECT_PORT &&
           rnic_accepted(s, RNIC_FEATURE_DIRECT_CONNECT);
}

static RnicFabricStatus direct_start(RnicDirect *d)
{
    RnicFabricStatus status;

    d->rendezvous = rnic_rendezvous_get(d->s, &d->s->directs->rendezvous,
                                        &d->local, &d->remote, &direct_ops,
                                        &status);
    if (d->rendezvous && direct_is_own_peer(d)) {
        return direct_connect_to_itself(d);
    }
    if (status == RNIC_FABRIC_OK && rnic_rendezvous_listens(d->rendezvous)) {
        return direct_dial_in_turn(d);
    }
    if (d->rendezvous) {
        direct_wait_for_listener(d);
        return RNIC_FABRIC_OK;
    }
    return status;
}

/* What will not get better by itself. */
static bool direct_hopeless(const RnicDirect *d, RnicFabricStatus status)
{
    return !d->rendezvous || status == RNIC_FABRIC_OUTSIDE_MAP ||
           status == RNIC_FABRIC_INVALID_ADDRESS ||
           (status != RNIC_FABRIC_OK && direct_is_own_peer(d));
}

enum rnic_admin_status rnic_direct_connect(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = direct_check(s, sqe);
    RnicQp *qp = rnic_qp_get(s, le32_to_cpu(sqe->direct_connect.qpn));
    RnicFabricStatus started;
    RnicDirect *d;

    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!qp) {
        return RNIC_ST_INVALID_QP;
    }
    d = direct_new(s, qp, sqe);
    if (!d) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    trace_rnic_direct_begin(d->qpn, d->peer_qpn, d->rq_psn);
    started = direct_start(d);
    if (direct_hopeless(d, started)) {
        direct_free(d);
        return rnic_cm_admin_status(started);
    }
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_direct_send(RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    uint32_t qpn = le32_to_cpu(sqe->direct_send.qpn);

    if (le32_to_cpu(sqe->direct_send.sq_psn) > NUMBER_MAX ||
        sqe->direct_send.timeout > TIME_CODE_MAX ||
        sqe->direct_send.retry_count > COUNT_MAX ||
        sqe->direct_send.rnr_retry > COUNT_MAX) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (le16_to_cpu(sqe->direct_send.ord) > q->s->config.max_ord) {
        return RNIC_ST_ORD_EXCEEDED;
    }
    if (!rnic_qp_get(q->s, qpn)) {
        return RNIC_ST_INVALID_QP;
    }
    return direct_find(q->s, qpn) ? rnic_direct_qp_send(q)
                                  : RNIC_ST_INVALID_STATE_CHANGE;
}
