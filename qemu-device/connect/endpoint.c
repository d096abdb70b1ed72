/*
 * rnic: endpoints, MPA start-up as initiator and responder
 *
 * One state machine per side, driven by the transport.  No more octets are read
 * than belong to the peer's frame: those behind it are the stream's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "endpoint.h"
#include "request.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/iwarp/mpa-fpdu.h"
#include "hw/rnic/base/trace.h"

enum {
    /* To connect, and for the peer's Request (RFC 5044 7.1.2: should). */
    START_TIMEOUT_MS = 10 * 1000,
    /* For the Reply: the peer's ULP has to make up its mind. */
    REPLY_TIMEOUT_MS = 60 * 1000,
};

static bool endpoint_initiator(const RnicEndpoint *ep)
{
    return ep->state <= RNIC_EP_REPLIED;
}

/* ---------------------------------------------------------- life */

static void endpoint_set_handlers(RnicEndpoint *ep, IOHandler *readable,
                         IOHandler *writable)
{
    rnic_transport_set_handlers(ep->transport, iohandler_get_aio_context(),
                                readable, writable, ep);
}

static void endpoint_set_state(RnicEndpoint *ep, RnicEndpointState state,
                      int64_t timeout_ms)
{
    trace_rnic_cm_endpoint(ep->number, ep->state, state);
    ep->state = state;
    if (timeout_ms) {
        timer_mod(ep->timer, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                  timeout_ms);
    } else {
        timer_del(ep->timer);
    }
}

static void endpoint_timed_out(void *opaque)
{
    rnic_endpoint_fail(opaque, RNIC_CM_TIMED_OUT);
}

/* Neither way can take what the other needs. */
static bool endpoint_room(const RnicState *s, bool incoming)
{
    uint32_t count = incoming ? s->incoming
                              : s->endpoints.count - s->incoming;

    return count < s->config.max_endpoints;
}

RnicEndpoint *rnic_endpoint_new(RnicState *s, RnicTransport *t,
                                const RnicAddr *local, const RnicAddr *remote)
{
    RnicEndpoint *ep;

    if (!endpoint_room(s, t != NULL)) {
        return NULL;
    }
    ep = g_new0(RnicEndpoint, 1);
    ep->number = rnic_table_insert(&s->endpoints, ep);
    if (!ep->number) {
        g_free(ep);
        return NULL;
    }
    ep->s = s;
    ep->transport = t;
    ep->incoming = t != NULL;
    s->incoming += ep->incoming;
    ep->local = *local;
    ep->remote = *remote;
    ep->timer = timer_new_ms(QEMU_CLOCK_VIRTUAL, endpoint_timed_out, ep);
    return ep;
}

void rnic_endpoint_free(RnicEndpoint *ep)
{
    rnic_listener_release(ep);
    if (ep->qp) {
        rnic_qp_unclaim(ep->qp, &ep->claim);
    }
    if (ep->establishing) {
        rnic_qp_establish_forget(ep->establishing);
    }
    if (ep->dial) {
        rnic_fabric_cancel(ep->s->fabric, ep->dial);
    }
    if (ep->transport) {
        rnic_transport_abort(ep->transport);
    }
    if (ep->ops) {
        ep->ops->freed(ep);
    }
    timer_free(ep->timer);
    rnic_request_remove(ep->s, ep->request_number);
    ep->s->incoming -= ep->incoming;
    rnic_table_remove(&ep->s->endpoints, ep->number);
    g_free(ep);
}

/* -------------------------------------------------------- events */

static struct rnic_cm_event endpoint_new_event(const RnicEndpoint *ep,
                                      enum rnic_cm_event_type type,
                                      enum rnic_cm_status status)
{
    struct rnic_cm_event event = {
        .type = type,
        .status = status,
        .cookie = cpu_to_le64(ep->cookie),
    };

    rnic_addr_to_wire(&event.local, &ep->local);
    rnic_addr_to_wire(&event.remote, &ep->remote);
    return event;
}

static void endpoint_add_private_data(struct rnic_cm_event *event,
                             const IwarpMpaFrame *frame)
{
    event->mpa_revision = frame->revision;
    event->private_data_length = cpu_to_le16(frame->pd_len);
    memcpy(event->private_data, frame->pd, frame->pd_len);
}

/* The end of CM_CONNECT or CM_ACCEPT. */
static struct rnic_cm_event endpoint_result_event(const RnicEndpoint *ep,
                                         enum rnic_cm_status status)
{
    struct rnic_cm_event event = endpoint_new_event(
        ep, endpoint_initiator(ep) ? RNIC_CM_CONNECT_REPLY : RNIC_CM_ESTABLISHED,
        status);

    event.qpn = cpu_to_le32(rnic_qp_number(ep->qp));
    event.ird = cpu_to_le16(ep->agreed.ird);
    event.ord = cpu_to_le16(ep->agreed.ord);
    if (endpoint_initiator(ep)) {
        endpoint_add_private_data(&event, &ep->reply);
    }
    return event;
}

static void endpoint_post_failure(RnicEndpoint *ep, enum rnic_cm_status status)
{
    struct rnic_cm_event event = endpoint_result_event(ep, status);

    if (endpoint_initiator(ep)) {
        rnic_count(&ep->s->counters.connect_failures, 1);
    }
    rnic_cm_event_post(ep->s, &event);
}

/* RFC 6581: 0x3fff, or no word of it at all, is "not negotiated". */
static uint16_t endpoint_wish(const IwarpMpaFrame *frame, uint16_t depth)
{
    return frame->enhanced && depth != IWARP_MPA_DEPTH_UNSET ? depth : 0xffff;
}

static bool endpoint_post_request(RnicEndpoint *ep)
{
    struct rnic_cm_event event = endpoint_new_event(ep, RNIC_CM_CONNECT_REQUEST,
                                           RNIC_CM_OK);

    ep->request_number = rnic_request_add(ep->s, ep);
    event.endpoint = cpu_to_le32(ep->request_number);
    event.ird = cpu_to_le16(endpoint_wish(&ep->request, ep->request.ird));
    event.ord = cpu_to_le16(endpoint_wish(&ep->request, ep->request.ord));
    endpoint_add_private_data(&event, &ep->request);
    return rnic_cm_event_post(ep->s, &event);
}

static void endpoint_post_request_gone(RnicEndpoint *ep)
{
    struct rnic_cm_event event = endpoint_new_event(ep, RNIC_CM_REQUEST_GONE,
                                           RNIC_CM_RESET);

    event.endpoint = cpu_to_le32(ep->request_number);
    if (!rnic_cm_event_withdraw(ep->s, ep->request_number)) {
        rnic_cm_event_post(ep->s, &event);
    }
}

static void endpoint_tell_failure(RnicEndpoint *ep, enum rnic_cm_status status)
{
    switch (ep->state) {
    case RNIC_EP_REQUESTED:
        endpoint_post_request_gone(ep);
        break;
    case RNIC_EP_AWAITING_REQUEST:      /* the guest never heard of it */
    case RNIC_EP_SENDING_REJECT:
        break;
    default:
        endpoint_post_failure(ep, status);
        break;
    }
}

void rnic_endpoint_fail(RnicEndpoint *ep, enum rnic_cm_status status)
{
    trace_rnic_err_cm_failed(ep->number, ep->state, status);
    if (ep->ops) {
        ep->ops->ended(ep, status);
    } else {
        endpoint_tell_failure(ep, status);
    }
    rnic_endpoint_free(ep);
}

/* ------------------------------------------------------------ the QP */

static void endpoint_qp_left_idle(RnicQpClaim *claim)
{
    rnic_endpoint_fail(container_of(claim, RnicEndpoint, claim),
                       RNIC_CM_QP_STATE);
}

/* No event names it. */
static void endpoint_qp_gone(RnicQpClaim *claim)
{
    rnic_endpoint_free(container_of(claim, RnicEndpoint, claim));
}

bool rnic_endpoint_claim(RnicEndpoint *ep, RnicQp *qp)
{
    ep->claim.left_idle = endpoint_qp_left_idle;
    ep->claim.gone = endpoint_qp_gone;
    if (!rnic_qp_claim(qp, &ep->claim)) {
        return false;
    }
    ep->qp = qp;
    return true;
}

/* ------------------------------------------------------- established */

static void endpoint_established(void *opaque, bool established)
{
    RnicEndpoint *ep = opaque;
    RnicCounters *c = &ep->s->counters;

    if (!established) {
        rnic_endpoint_fail(ep, RNIC_CM_QP_STATE);
        return;
    }
    rnic_count(endpoint_initiator(ep) ? &c->connects : &c->accepts, 1);
    if (ep->ops) {
        ep->ops->ended(ep, RNIC_CM_OK);
    }
    rnic_endpoint_free(ep);
}

/* RFC 5044: an FPDU fits a TCP segment, where there are any. */
static uint16_t endpoint_mulpdu(const RnicEndpoint *ep)
{
    uint16_t fits = iwarp_mulpdu(rnic_transport_segment_size(ep->transport),
                                 ep->agreed.tx_markers);

    return MIN(fits, ep->s->config.mulpdu);
}

/* The QP's worker takes the transport, and tells the guest. */
static void endpoint_establish(RnicEndpoint *ep)
{
    RnicEstablish what = {
        .setup = {
            .transport = ep->transport,
            .initiator = endpoint_initiator(ep),
            .mulpdu = endpoint_mulpdu(ep),
        },
        .agreed = ep->agreed,
        .cookie = ep->cookie,
        .direct = ep->ops != NULL,
        .peer_psn = ep->peer_psn,
        .min_rnr_timer = ep->min_rnr_timer,
        .extensions = ep->extensions,
    };

    if (!ep->ops) {
        what.event = endpoint_result_event(ep, RNIC_CM_OK);
    }
    rnic_transport_leave_loop(ep->transport);
    ep->transport = NULL;
    endpoint_set_state(ep, endpoint_initiator(ep) ? RNIC_EP_REPLIED
                                                  : RNIC_EP_ACCEPTED, 0);
    rnic_qp_establish(ep->qp, &what, endpoint_established, ep,
                      &ep->establishing);
}

/* ------------------------------------------------------------ sending */

/* False: not all of it could be sent yet, or the endpoint has failed. */
static bool endpoint_send_frame(RnicEndpoint *ep, bool *failed)
{
    ssize_t n = rnic_transport_write(ep->transport, ep->out + ep->out_done,
                                     ep->out_len - ep->out_done);

    *failed = n < 0 && errno != EAGAIN;
    if (n > 0) {
        ep->out_done += n;
    }
    return ep->out_done == ep->out_len;
}

static void on_reply_readable(void *opaque);

static void on_request_writable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    bool failed;

    if (endpoint_send_frame(ep, &failed)) {
        iwarp_mpa_parser_init(&ep->parser, true, ep->policy.revision);
        endpoint_set_state(ep, RNIC_EP_AWAITING_REPLY, REPLY_TIMEOUT_MS);
        endpoint_set_handlers(ep, on_reply_readable, NULL);
    } else if (failed) {
        rnic_endpoint_fail(ep, RNIC_CM_RESET);
    }
}

static void on_reply_writable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    bool failed;

    if (endpoint_send_frame(ep, &failed)) {
        endpoint_establish(ep);
    } else if (failed) {
        rnic_endpoint_fail(ep, RNIC_CM_RESET);
    }
}

/* In order, so that what was sent last does not die with a reset. */
static void endpoint_close_gracefully(RnicEndpoint *ep)
{
    rnic_linger(ep->s->lingers, ep->transport, NULL, 0, 0);
    ep->transport = NULL;
}

static void on_reject_writable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    bool failed;

    if (!endpoint_send_frame(ep, &failed) && !failed) {
        return;
    }
    endpoint_close_gracefully(ep);
    rnic_endpoint_free(ep);
}

void rnic_endpoint_send_reply(RnicEndpoint *ep)
{
    ep->out_len = iwarp_mpa_encode(&ep->reply, ep->out);
    ep->out_done = 0;
    if (ep->reply.reject) {
        endpoint_set_state(ep, RNIC_EP_SENDING_REJECT, START_TIMEOUT_MS);
        endpoint_set_handlers(ep, NULL, on_reject_writable);
    } else {
        endpoint_set_state(ep, RNIC_EP_SENDING_REPLY, START_TIMEOUT_MS);
        endpoint_set_handlers(ep, NULL, on_reply_writable);
    }
}

/* ---------------------------------------------------------- initiator */

static void on_dialed(void *opaque, RnicFabricStatus status,
                      RnicTransport *t, const RnicAddr *local)
{
    RnicEndpoint *ep = opaque;

    ep->dial = NULL;
    if (status != RNIC_FABRIC_OK) {
        rnic_capture_note(ep->s, "A connect fails, fabric status %d", status);
        rnic_endpoint_fail(ep, rnic_cm_event_status(status));
        return;
    }
    ep->transport = t;
    ep->local = *local;
    rnic_capture_attach(ep->s, t, local, &ep->remote, true);
    ep->out_len = iwarp_mpa_encode(&ep->request, ep->out);
    endpoint_set_state(ep, RNIC_EP_SENDING_REQUEST, START_TIMEOUT_MS);
    endpoint_set_handlers(ep, NULL, on_request_writable);
}

RnicFabricStatus rnic_endpoint_start_initiator(RnicEndpoint *ep)
{
    RnicFabricStatus status;

    ep->dial = rnic_fabric_dial(ep->s->fabric, &ep->local, &ep->remote,
                                ep->tos, on_dialed, ep, &status);
    if (ep->dial) {
        endpoint_set_state(ep, RNIC_EP_DIALING, START_TIMEOUT_MS);
    }
    return status;
}

/* RFC 6581: tell the peer why, before the connection goes. */
static void endpoint_send_terminate(RnicEndpoint *ep, IwarpTermCode term)
{
    IwarpTxConfig config = {
        .crc = ep->agreed.crc,
        .markers = ep->agreed.tx_markers,
    };
    IwarpError error = iwarp_error_local(term);
    uint8_t octets[IWARP_TERMINATE_WIRE_MAX];
    IwarpTxFrame frame;
    IwarpTx tx;

    iwarp_tx_init(&tx, &config);
    iwarp_tx_terminate(&tx, &error, &frame, octets);
    rnic_transport_write(ep->transport, octets, frame.len);
}

static enum rnic_cm_status endpoint_mpa_status(IwarpMpaResult result)
{
    switch (result) {
    case IWARP_MPA_OK:
        return RNIC_CM_OK;
    case IWARP_MPA_REJECTED:
        return RNIC_CM_REJECTED;
    case IWARP_MPA_BAD_REVISION:
    case IWARP_MPA_REVISION_RAISED:
    case IWARP_MPA_NOT_ENHANCED:
    case IWARP_MPA_UNASKED_ENHANCED:
        return RNIC_CM_MPA_REVISION;
    case IWARP_MPA_PD_TOO_LONG:
    case IWARP_MPA_PD_NO_ENHANCED:
        return RNIC_CM_MPA_PRIVATE_DATA;
    case IWARP_MPA_NO_IRD:
        return RNIC_CM_MPA_READ_RESOURCES;
    case IWARP_MPA_NO_RTR:
        return RNIC_CM_MPA_NO_RTR;
    default:
        return RNIC_CM_NOT_MPA;
    }
}

static void endpoint_conclude(RnicEndpoint *ep)
{
    IwarpMpaResult result = iwarp_mpa_conclude(&ep->policy, &ep->request,
                                               &ep->reply, &ep->agreed);
    IwarpTermCode term;
    bool send;

    trace_rnic_cm_reply(ep->number, iwarp_mpa_result_name(result));
    if (result == IWARP_MPA_OK) {
        if (ep->ops && !ep->ops->replied(ep)) {
            rnic_endpoint_fail(ep, RNIC_CM_NOT_MPA);
        } else {
            endpoint_establish(ep);
        }
        return;
    }
    term = iwarp_mpa_result_term(result, &send);
    if (send) {
        endpoint_send_terminate(ep, term);
        endpoint_close_gracefully(ep);
    }
    rnic_endpoint_fail(ep, endpoint_mpa_status(result));
}

/* ------------------------------------------------------------ reading */

/*
 * Read what is sure to belong to the frame.  *@result is the parser's word
 * once it has one; false: wait, or the endpoint has failed.
 */
static bool endpoint_read_frame(RnicEndpoint *ep, IwarpMpaFrame *frame,
                       IwarpMpaResult *result)
{
    uint8_t buf[IWARP_MPA_FRAME_MAX];
    size_t used;

    do {
        size_t want = iwarp_mpa_parser_want(&ep->parser);
        ssize_t n = rnic_transport_read(ep->transport, buf, want);

        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n <= 0) {
            rnic_endpoint_fail(ep, RNIC_CM_RESET);
            return false;
        }
        *result = iwarp_mpa_parse(&ep->parser, buf, n, &used, frame);
    } while (*result == IWARP_MPA_NEED_MORE);
    return true;
}

static void on_reply_readable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    IwarpMpaResult result;

    if (!endpoint_read_frame(ep, &ep->reply, &result)) {
        return;
    }
    if (result != IWARP_MPA_OK) {
        trace_rnic_cm_reply(ep->number, iwarp_mpa_result_name(result));
        ep->reply = (IwarpMpaFrame) { };
        rnic_endpoint_fail(ep, endpoint_mpa_status(result));
        return;
    }
    endpoint_conclude(ep);
}

/* Until our Reply an initiator has nothing to say: it can only leave. */
static void on_requested_readable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    char octet;

    if (rnic_transport_read(ep->transport, &octet, 1) >= 0 ||
        errno != EAGAIN) {
        rnic_endpoint_fail(ep, RNIC_CM_RESET);
    }
}

static void on_request_readable(void *opaque)
{
    RnicEndpoint *ep = opaque;
    IwarpMpaResult result;

    if (!endpoint_read_frame(ep, &ep->request, &result)) {
        return;
    }
    trace_rnic_cm_request(ep->number, iwarp_mpa_result_name(result));
    if (result != IWARP_MPA_OK) {
        rnic_endpoint_fail(ep, endpoint_mpa_status(result));
        return;
    }
    endpoint_set_state(ep, RNIC_EP_REQUESTED, 0);
    endpoint_set_handlers(ep, on_requested_readable, NULL);
    if (ep->ops) {
        ep->ops->requested(ep);
    } else if (!endpoint_post_request(ep)) {
        rnic_endpoint_free(ep);
    }
}

void rnic_endpoint_start_responder(RnicEndpoint *ep)
{
    iwarp_mpa_parser_init(&ep->parser, false,
                          ep->ops ? IWARP_MPA_REVISION_MAX
                                  : ep->s->config.mpa_revision);
    endpoint_set_state(ep, RNIC_EP_AWAITING_REQUEST, START_TIMEOUT_MS);
    endpoint_set_handlers(ep, on_request_readable, NULL);
}
