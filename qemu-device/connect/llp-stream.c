/*
 * rnic: LLP streams in streaming mode (6.6), from their begin to the QP that adopts them
 *
 * Octets of a stream are read when the guest asks for them, to its own memory, and not
 * before: so the device keeps none, a peer that sends too much waits, and what nobody
 * has read when a QP adopts the stream are its FPDUs, however early they came (13.1).
 * Of what is to be sent it keeps one message.
 *
 * The guest knows streams by numbers, which go round as those of connection requests
 * do (request.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "direct.h"
#include "endpoint.h"
#include "llp-stream.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/guest/bulk.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/iwarp/mpa-fpdu.h"

enum { OPEN_TIMEOUT_MS = 10 * 1000 };

typedef enum RnicLlpState {
    RNIC_LLP_DIALING,
    RNIC_LLP_REQUESTED,         /* by a peer: LLP_OPEN takes it */
    RNIC_LLP_OPEN,
    RNIC_LLP_ADOPTING,          /* a Modify QP is under way */
} RnicLlpState;

typedef struct RnicLlpStream {
    RnicState *s;
    uint32_t number;
    RnicLlpState state;
    RnicFabricDial *dial;       /* until it has become a transport */
    RnicTransport *transport;
    RnicListener *listener;     /* that brought it, until it is taken */
    uint64_t cookie;
    RnicAddr local;
    RnicAddr remote;
    QEMUTimer *timer;           /* while dialing */
    bool tell_readable;         /* as soon as there is something to be read */
    bool tell_writable;         /* as soon as all is sent */
    bool fin_received;
    bool broken;                /* the transport is no use any more */
    uint8_t *out;               /* what is to be sent, of g_malloc() */
    size_t out_done;
    size_t out_len;
    RnicAdoption adoption;
} RnicLlpStream;

/* ---------------------------------------------------------------- numbers */

void rnic_llp_init(RnicState *s)
{
    s->llp_streams = g_hash_table_new(NULL, NULL);
}

void rnic_llp_cleanup(RnicState *s)
{
    assert(!g_hash_table_size(s->llp_streams) && !s->llp_requests);
    g_hash_table_unref(s->llp_streams);
}

uint32_t rnic_llp_count(const RnicState *s)
{
    return g_hash_table_size(s->llp_streams);
}

static RnicLlpStream *llp_get(const RnicState *s, uint32_t number)
{
    return g_hash_table_lookup(s->llp_streams, GUINT_TO_POINTER(number));
}

/* There are far fewer streams than numbers: a property limits them. */
static void llp_give_number(RnicLlpStream *st)
{
    RnicState *s = st->s;

    do {
        s->last_llp_stream = s->last_llp_stream % RNIC_OBJECT_NUMBER_MASK + 1;
    } while (llp_get(s, s->last_llp_stream));
    st->number = s->last_llp_stream;
    g_hash_table_insert(s->llp_streams, GUINT_TO_POINTER(st->number), st);
}

/* Neither the guest nor peers can take what the other needs. */
static bool llp_room(const RnicState *s, bool request)
{
    uint32_t count = request ? s->llp_requests
                             : rnic_llp_count(s) - s->llp_requests;

    return count < s->config.max_llp_streams;
}

/* ------------------------------------------------------------------- life */

static RnicLlpStream *llp_new(RnicState *s, RnicLlpState state,
                              const RnicAddr *local, const RnicAddr *remote)
{
    RnicLlpStream *st = g_new0(RnicLlpStream, 1);

    st->s = s;
    st->state = state;
    st->local = *local;
    st->remote = *remote;
    llp_give_number(st);
    s->llp_requests += state == RNIC_LLP_REQUESTED;
    trace_rnic_llp_stream(st->number, state, state);
    return st;
}

static void llp_leave_listener(RnicLlpStream *st)
{
    if (st->listener) {
        st->listener->pending--;
        st->listener = NULL;
    }
}

static void llp_set_state(RnicLlpStream *st, RnicLlpState state)
{
    trace_rnic_llp_stream(st->number, st->state, state);
    if (st->state == RNIC_LLP_REQUESTED) {
        st->s->llp_requests--;
        llp_leave_listener(st);
    }
    st->state = state;
    if (st->timer) {
        g_clear_pointer(&st->timer, timer_free);
    }
}

/* All but the transport, which has been dealt with. */
static void llp_free(RnicLlpStream *st)
{
    if (st->state == RNIC_LLP_REQUESTED) {
        st->s->llp_requests--;
        llp_leave_listener(st);
    }
    if (st->dial) {
        rnic_fabric_cancel(st->s->fabric, st->dial);
    }
    if (st->timer) {
        timer_free(st->timer);
    }
    g_hash_table_remove(st->s->llp_streams, GUINT_TO_POINTER(st->number));
    g_free(st->out);
    g_free(st);
}

static void llp_abort(RnicLlpStream *st)
{
    if (st->transport) {
        rnic_transport_abort(g_steal_pointer(&st->transport));
    }
    llp_free(st);
}

/* FIN behind all that was to be sent. */
static void llp_end(RnicLlpStream *st)
{
    if (st->transport) {
        rnic_linger(st->s->lingers, g_steal_pointer(&st->transport),
                    g_steal_pointer(&st->out), st->out_done, st->out_len);
    }
    llp_free(st);
}

/* ----------------------------------------------------------------- events */

static bool llp_event(const RnicLlpStream *st, enum rnic_cm_event_type type,
                      enum rnic_cm_status status)
{
    struct rnic_cm_event event = {
        .type = type,
        .status = status,
        .cookie = cpu_to_le64(st->cookie),
        .endpoint = cpu_to_le32(st->number),
    };

    rnic_addr_to_wire(&event.local, &st->local);
    rnic_addr_to_wire(&event.remote, &st->remote);
    return rnic_cm_event_post(st->s, &event);
}

/* ----------------------------------------------------------------- octets */

static bool llp_sending(const RnicLlpStream *st)
{
    return st->out_done < st->out_len;
}

static void on_llp_readable(void *opaque);
static void on_llp_writable(void *opaque);

static void llp_watch(RnicLlpStream *st)
{
    rnic_transport_set_handlers(
        st->transport, iohandler_get_aio_context(),
        st->tell_readable && !st->broken ? on_llp_readable : NULL,
        llp_sending(st) && !st->broken ? on_llp_writable : NULL, st);
}

/* Reset or lost: LLP_RECEIVE, if nothing else, will say so. */
static void llp_break(RnicLlpStream *st, int error)
{
    trace_rnic_err_llp_stream(st->number, strerror(error));
    st->broken = true;
    st->out_done = st->out_len;
    if (st->tell_readable) {
        st->tell_readable = false;
        llp_event(st, RNIC_CM_STREAM_READABLE, RNIC_CM_OK);
    }
}

static void llp_write(RnicLlpStream *st)
{
    ssize_t n = rnic_transport_write(st->transport, st->out + st->out_done,
                                     st->out_len - st->out_done);

    if (n > 0) {
        st->out_done += n;
    } else if (n < 0 && errno != EAGAIN) {
        llp_break(st, errno);
    }
    if (!llp_sending(st)) {
        g_clear_pointer(&st->out, g_free);
        st->out_done = st->out_len = 0;
    }
}

static void on_llp_writable(void *opaque)
{
    RnicLlpStream *st = opaque;

    llp_write(st);
    if (!llp_sending(st) && st->tell_writable) {
        st->tell_writable = false;
        llp_event(st, RNIC_CM_STREAM_WRITABLE, RNIC_CM_OK);
    }
    llp_watch(st);
}

/* Once: LLP_RECEIVE asks for the next time. */
static void on_llp_readable(void *opaque)
{
    RnicLlpStream *st = opaque;

    st->tell_readable = false;
    llp_event(st, RNIC_CM_STREAM_READABLE, RNIC_CM_OK);
    llp_watch(st);
}

/* Octets of the guest; *@out is of g_malloc(). */
static enum rnic_admin_status llp_read_bulk(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            uint8_t **out, size_t *len)
{
    uint32_t octets = le32_to_cpu(sqe->bulk_length);
    g_autofree uint8_t *buf = NULL;
    enum rnic_admin_status status;

    if (octets > RNIC_LLP_MAX_OCTETS) {
        return RNIC_ST_BAD_BUFFER;
    }
    buf = g_malloc(octets);
    status = rnic_bulk_read(s, sqe, buf, octets);
    if (status == RNIC_ST_OK) {
        *out = g_steal_pointer(&buf);
        *len = octets;
    }
    return status;
}

/* The stream that LLP_SEND or LLP_RECEIVE is about. */
static enum rnic_admin_status llp_find_open(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            RnicLlpStream **st)
{
    *st = llp_get(s, le32_to_cpu(sqe->llp_octets.stream));
    if (!*st) {
        return RNIC_ST_INVALID_LLP_STREAM;
    }
    if ((*st)->state != RNIC_LLP_OPEN) {
        return RNIC_ST_STREAM_NOT_OPEN;
    }
    return (*st)->broken ? RNIC_ST_STREAM_ENDED : RNIC_ST_OK;
}

/* The host may have room by now, though it has not said so.  False: octets still
 * wait, and the guest is to be told when they do not, or the stream is broken. */
static bool llp_sent_before(RnicLlpStream *st)
{
    if (llp_sending(st)) {
        llp_write(st);
        st->tell_writable = llp_sending(st);
        llp_watch(st);
    }
    return !llp_sending(st) && !st->broken;
}

enum rnic_admin_status rnic_llp_send(RnicState *s,
                                     const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status;
    RnicLlpStream *st;

    status = llp_find_open(s, sqe, &st);
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!sqe->bulk_length) {
        return RNIC_ST_BAD_BUFFER;
    }
    if (!llp_sent_before(st)) {
        return st->broken ? RNIC_ST_STREAM_ENDED : RNIC_ST_STREAM_FULL;
    }
    status = llp_read_bulk(s, sqe, &st->out, &st->out_len);
    if (status != RNIC_ST_OK) {
        return status;
    }
    llp_write(st);
    llp_watch(st);
    return st->broken ? RNIC_ST_STREAM_ENDED : RNIC_ST_OK;
}

/* Straight to the guest, so that none is lost if its memory is not there.  *@got is
 * what was read, or -errno. */
static enum rnic_admin_status llp_read_to(RnicLlpStream *st, uint64_t addr,
                                          uint32_t len, ssize_t *got)
{
    QEMU_UNINITIALIZED RnicDmaMap map;
    RnicDmaWindow window = { };
    bool mapped;

    rnic_dma_map_init(&map, &window, true);
    mapped = rnic_dma_map_add(st->s, &map, addr, len);
    if (mapped) {
        rnic_guest_memory_begin();
        *got = rnic_transport_readv(st->transport, map.iov, map.count);
        *got = *got < 0 ? -errno : *got;
        rnic_guest_memory_end();
    }
    rnic_dma_unmap(st->s, &map);
    rnic_dma_window_close(&window);
    return mapped ? RNIC_ST_OK : RNIC_ST_DMA_ERROR;
}

enum rnic_admin_status rnic_llp_receive(RnicState *s,
                                        const struct rnic_admin_sqe *sqe,
                                        struct rnic_admin_cqe *cqe)
{
    uint64_t addr = le64_to_cpu(sqe->bulk_addr);
    uint32_t room = le32_to_cpu(sqe->bulk_length);
    enum rnic_admin_status status;
    RnicLlpStream *st;
    ssize_t got;

    status = llp_find_open(s, sqe, &st);
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!room || room > RNIC_LLP_MAX_OCTETS || (addr & 7)) {
        return RNIC_ST_BAD_BUFFER;
    }
    status = llp_read_to(st, addr, room, &got);
    if (status != RNIC_ST_OK) {
        return status;
    }
    st->tell_readable = false;
    if (got < 0 && got != -EAGAIN) {
        llp_break(st, -got);
    }
    st->fin_received |= got == 0;
    st->tell_readable = !st->broken && !st->fin_received;
    llp_watch(st);
    cqe->number = cpu_to_le32(st->number);
    cqe->llp.octets = cpu_to_le32(MAX(got, 0));
    cqe->llp.end = st->fin_received;
    return st->broken ? RNIC_ST_STREAM_ENDED : RNIC_ST_OK;
}

/* ------------------------------------------------------------ open, close */

static void llp_opened(RnicLlpStream *st)
{
    llp_set_state(st, RNIC_LLP_OPEN);
    st->tell_readable = true;
    llp_watch(st);
}

static void llp_failed(RnicLlpStream *st, enum rnic_cm_status status)
{
    trace_rnic_err_llp_open(st->number, status);
    rnic_count(&st->s->counters.connect_failures, 1);
    llp_event(st, RNIC_CM_STREAM_OPENED, status);
    llp_free(st);
}

static void llp_timed_out(void *opaque)
{
    llp_failed(opaque, RNIC_CM_TIMED_OUT);
}

static void on_llp_dialed(void *opaque, RnicFabricStatus status,
                          RnicTransport *t, const RnicAddr *local)
{
    RnicLlpStream *st = opaque;

    st->dial = NULL;
    if (status != RNIC_FABRIC_OK) {
        rnic_capture_note(st->s, "A connect fails, fabric status %d", status);
        llp_failed(st, rnic_cm_event_status(status));
        return;
    }
    st->transport = t;
    st->local = *local;
    rnic_capture_attach_stream(st->s, t, local, &st->remote, true);
    rnic_count(&st->s->counters.connects, 1);
    llp_event(st, RNIC_CM_STREAM_OPENED, RNIC_CM_OK);
    llp_opened(st);
}

static enum rnic_admin_status llp_connect(RnicState *s,
                                          const struct rnic_admin_sqe *sqe,
                                          struct rnic_admin_cqe *cqe)
{
    RnicFabricStatus status;
    RnicAddr local, remote;
    RnicLlpStream *st;

    rnic_addr_from_wire(&local, &sqe->llp_open.local);
    rnic_addr_from_wire(&remote, &sqe->llp_open.remote);
    if (rnic_direct_owns_port(s, &remote)) {
        return RNIC_ST_INVALID_ADDRESS;
    }
    if (!llp_room(s, false)) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    st = llp_new(s, RNIC_LLP_DIALING, &local, &remote);
    st->cookie = le64_to_cpu(sqe->llp_open.cookie);
    st->dial = rnic_fabric_dial(s->fabric, &local, &remote, sqe->llp_open.tos,
                                on_llp_dialed, st, &status);
    if (!st->dial) {
        llp_free(st);
        return rnic_cm_admin_status(status);
    }
    st->timer = timer_new_ms(QEMU_CLOCK_VIRTUAL, llp_timed_out, st);
    timer_mod(st->timer, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                         OPEN_TIMEOUT_MS);
    cqe->number = cpu_to_le32(st->number);
    return RNIC_ST_OK;
}

/* The guest answers a STREAM_REQUEST. */
static enum rnic_admin_status llp_take(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe)
{
    static const struct rnic_cm_addr none;
    RnicLlpStream *st = llp_get(s, le32_to_cpu(sqe->llp_open.stream));

    if (sqe->llp_open.tos ||
        memcmp(&sqe->llp_open.local, &none, sizeof(none)) ||
        memcmp(&sqe->llp_open.remote, &none, sizeof(none))) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!st || st->state != RNIC_LLP_REQUESTED) {
        return RNIC_ST_INVALID_ENDPOINT;
    }
    if (!llp_room(s, false)) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    st->cookie = le64_to_cpu(sqe->llp_open.cookie);
    rnic_count(&s->counters.accepts, 1);
    llp_opened(st);
    cqe->number = cpu_to_le32(st->number);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_llp_open(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    if (!s->cm_eq) {
        return RNIC_ST_NO_CM_EQ;
    }
    return sqe->llp_open.stream ? llp_take(s, sqe, cqe)
                                : llp_connect(s, sqe, cqe);
}

void rnic_llp_arrived(RnicListener *listener, RnicTransport *t,
                      const RnicAddr *local, const RnicAddr *remote)
{
    RnicState *s = listener->s;
    RnicLlpStream *st;

    if (listener->pending >= listener->backlog || !llp_room(s, true)) {
        trace_rnic_err_llp_backlog(listener->number, listener->pending);
        rnic_transport_abort(t);
        return;
    }
    rnic_capture_attach_stream(s, t, local, remote, false);
    st = llp_new(s, RNIC_LLP_REQUESTED, local, remote);
    st->transport = t;
    st->cookie = listener->cookie;
    st->listener = listener;
    listener->pending++;
    if (!llp_event(st, RNIC_CM_STREAM_REQUEST, RNIC_CM_OK)) {
        llp_abort(st);
    }
}

enum rnic_admin_status rnic_llp_close(RnicState *s,
                                      const struct rnic_admin_sqe *sqe)
{
    RnicLlpStream *st = llp_get(s, le32_to_cpu(sqe->llp_close.stream));

    if (sqe->llp_close.reset > 1) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!st) {
        return RNIC_ST_INVALID_LLP_STREAM;
    }
    if (st->state == RNIC_LLP_ADOPTING) {
        return RNIC_ST_STREAM_NOT_OPEN;
    }
    if (st->state == RNIC_LLP_REQUESTED) {
        rnic_count(&s->counters.rejects, 1);
    }
    if (sqe->llp_close.reset) {
        llp_abort(st);
    } else {
        llp_end(st);
    }
    return RNIC_ST_OK;
}

void rnic_llp_unlisten(RnicListener *listener)
{
    GHashTableIter iter;
    gpointer st;

    g_hash_table_iter_init(&iter, listener->s->llp_streams);
    while (g_hash_table_iter_next(&iter, NULL, &st)) {
        if (((RnicLlpStream *)st)->listener == listener) {
            llp_leave_listener(st);
        }
    }
}

void rnic_llp_reset(RnicState *s)
{
    GHashTableIter iter;
    gpointer st;

    for (;;) {
        g_hash_table_iter_init(&iter, s->llp_streams);
        if (!g_hash_table_iter_next(&iter, NULL, &st)) {
            return;
        }
        llp_abort(st);
    }
}

/* --------------------------------------------------------------- adoption */

/* The stream is a QP's, or it goes on as before. */
static void llp_adoption_ended(RnicAdoption *adoption)
{
    RnicLlpStream *st = container_of(adoption, RnicLlpStream, adoption);

    g_free((uint8_t *)adoption->setup.raw);
    if (adoption->adopted) {
        st->transport = NULL;
        llp_free(st);
        return;
    }
    llp_set_state(st, RNIC_LLP_OPEN);
    llp_watch(st);
}

/* V6.2.1.2-1: established, and able to send and to receive. */
static bool llp_adoptable(const RnicLlpStream *st)
{
    return st && st->state == RNIC_LLP_OPEN && !st->broken &&
           !st->fin_received &&
           rnic_transport_end(st->transport) == RNIC_END_NONE;
}

/*
 * There is no MPA start-up: CRC and markers are what the properties say, in both
 * directions.
 */
static void llp_set_agreed(const RnicLlpStream *st, RnicAdoption *adoption)
{
    const RnicConfig *c = &st->s->config;
    uint16_t fits = iwarp_mulpdu(rnic_transport_segment_size(st->transport),
                                 c->mpa_markers);

    adoption->agreed = (IwarpMpaAgreed) {
        .crc = c->mpa_crc,
        .tx_markers = c->mpa_markers,
        .rx_markers = c->mpa_markers,
    };
    adoption->setup.mulpdu = MIN(fits, c->mulpdu);
}

/* What is not sent yet, and the Stream Message of @len octets behind it. */
static uint8_t *llp_raw(const RnicLlpStream *st, const uint8_t *message,
                        size_t len, size_t *raw_len)
{
    size_t before = st->out_len - st->out_done;
    uint8_t *raw = g_malloc(before + len);

    QEMU_BUILD_BUG_ON(2 * RNIC_LLP_MAX_OCTETS > RNIC_RAW_MAX);
    if (before) {
        memcpy(raw, st->out + st->out_done, before);
    }
    if (len) {
        memcpy(raw + before, message, len);
    }
    *raw_len = before + len;
    return raw;
}

/*
 * Who sends a Stream Message goes to iWARP first, and has no FPDU for a peer that has
 * not followed: its first one shows that (6.6.1.1).  The others need not wait.
 */
static enum rnic_admin_status llp_adopt(RnicAdminRequest *q, RnicLlpStream *st,
                                        const uint8_t *message, size_t len)
{
    RnicAdoption *adoption = &st->adoption;
    enum rnic_admin_status status;
    size_t raw_len;
    uint8_t *raw = llp_raw(st, message, len, &raw_len);

    *adoption = (RnicAdoption) {
        .setup = {
            .transport = st->transport,
            .initiator = len == 0,
            .raw = raw,
            .raw_len = raw_len,
        },
        .number = st->number,
        .cookie = st->cookie,
        .ended = llp_adoption_ended,
    };
    llp_set_agreed(st, adoption);
    llp_set_state(st, RNIC_LLP_ADOPTING);
    rnic_transport_leave_loop(st->transport);
    status = rnic_qp_adopt(q, adoption);
    if (status != RNIC_ADMIN_LATER) {
        llp_adoption_ended(adoption);
    }
    return status;
}

static bool modify_to_rts(const struct rnic_admin_sqe *sqe)
{
    return (le32_to_cpu(sqe->modify_qp.mask) & RNIC_QP_MODIFY_STATE) &&
           sqe->modify_qp.next_state == RNIC_QPS_RTS;
}

static enum rnic_admin_status modify_with_stream(RnicAdminRequest *q)
{
    uint32_t number = le32_to_cpu(q->sqe.modify_qp.llp_stream);
    RnicLlpStream *st = llp_get(q->s, number);
    g_autofree uint8_t *message = NULL;
    enum rnic_admin_status status;
    size_t len = 0;

    if (!modify_to_rts(&q->sqe)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    if (!llp_adoptable(st)) {
        return RNIC_ST_INVALID_LLP_STREAM;
    }
    if (q->sqe.bulk_length || q->sqe.bulk_addr) {
        if (!q->sqe.bulk_length) {
            return RNIC_ST_BAD_BUFFER;
        }
        status = llp_read_bulk(q->s, &q->sqe, &message, &len);
        if (status != RNIC_ST_OK) {
            return status;
        }
    }
    return llp_adopt(q, st, message, len);
}

enum rnic_admin_status rnic_llp_modify_qp(RnicAdminRequest *q)
{
    if (!q->sqe.bulk_addr && !q->sqe.bulk_length &&
        !q->sqe.modify_qp.llp_stream) {
        return rnic_qp_modify(q);
    }
    if (rnic_accepted(q->s, RNIC_FEATURE_LLP_STREAM)) {
        return modify_with_stream(q);
    }
    return q->sqe.modify_qp.llp_stream ? RNIC_ST_UNSUPPORTED
                                       : RNIC_ST_RESERVED_NOT_ZERO;
}
