/*
 * rnic: sending, from messages to FPDUs on the socket
 *
 * One message at a time, its segments in order, never interleaved; read
 * responses and SQ work take turns, so that neither waits for the other.
 * Frames are copied: small ones leave together, the CRC of each is right though
 * the guest may change its payload at any time (V8.2.2-9), and guest memory is
 * mapped for one frame only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/iov.h"
#include "hw/rnic/guest/dma.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    OCTETS_PER_TURN = 1024 * 1024,
    MESSAGES_PER_TURN = 256,
    SMALL_PAYLOAD = 4096,
};

/* ------------------------------------------------------ the message */

static void begin_read_response(RnicQp *qp, const RnicInboundRead *read)
{
    qp->job.mapping = 0;
    qp->job.msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_READ_RESPONSE,
        .stag = read->request.sink_stag,
        .to = rnic_extensions_response_to(qp, &read->request),
        .length = read->request.size,
    };
}

static void response_error(RnicQp *qp, RnicAccessResult result);

/*
 * The operation is done when its answer is made, so all are done in order (RFC 7306
 * 5).  False: not now, or the QP has left RTS.
 */
static bool begin_atomic_response(RnicQp *qp, const RnicInboundRead *read)
{
    const IwarpAtomicRequest *request = &read->atomic_request;
    IwarpAtomicResponse response = { .request_id = request->request_id };
    RnicAccessResult result = RNIC_ACCESS_OK;

    switch (rnic_atomic_execute(qp, request, &response.original, &result)) {
    case RNIC_ATOMIC_DONE:
        break;
    case RNIC_ATOMIC_BUSY:
        rnic_qp_kick(qp);
        return false;
    case RNIC_ATOMIC_UNALIGNED:
        rnic_qp_stream_error(qp, RNIC_AE_ATOMIC_ALIGNMENT, &(IwarpError) {
            .fault = IWARP_FAULT_REJECTED,
            .term = IWARP_TERM_STREAM,
            .echo = read->echo,
        });
        return false;
    case RNIC_ATOMIC_REFUSED:
        qp->job.offset = 0;
        response_error(qp, result);
        return false;
    }
    iwarp_atomic_response_encode(&response, qp->job.header);
    qp->job.msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_ATOMIC_RESPONSE,
        .header = qp->job.header,
        .header_len = IWARP_ATOMIC_RESPONSE_LEN,
    };
    return true;
}

static bool begin_response(RnicQp *qp, const RnicInboundRead *read)
{
    if (!read->atomic) {
        begin_read_response(qp, read);
    } else if (!begin_atomic_response(qp, read)) {
        return false;
    }
    qp->job.kind = RNIC_JOB_READ_RESPONSE;
    qp->job.offset = 0;
    return true;
}

static bool begin_note(RnicQp *qp)
{
    if (!rnic_direct_note_next(qp, &qp->job.msg)) {
        return false;
    }
    qp->job.kind = RNIC_JOB_NOTE;
    qp->job.offset = 0;
    return true;
}

static RnicSqStep begin_work(RnicQp *qp)
{
    RnicSqStep step = rnic_direct_qp_gate(qp);

    if (step == RNIC_SQ_MESSAGE) {
        step = rnic_sq_begin(qp, &qp->job);
    }
    if (step == RNIC_SQ_MESSAGE || step == RNIC_SQ_QUESTION) {
        qp->job.kind = step == RNIC_SQ_MESSAGE ? RNIC_JOB_WORK
                                               : RNIC_JOB_QUESTION;
        qp->job.offset = 0;
        qp->job.second = false;
    }
    return step;
}

/* Choose what to send next; false when there is nothing for now. */
static bool next_message(RnicQp *qp, unsigned *messages)
{
    RnicJob *job = &qp->job;
    const RnicInboundRead *read = rnic_reads_head(qp);

    (*messages)++;
    if (begin_note(qp)) {
        return true;
    }
    if (read && !job->was_response) {
        return begin_response(qp, read);
    }
    for (; *messages < MESSAGES_PER_TURN && !rnic_qp_turn_over(qp);
         (*messages)++) {
        switch (begin_work(qp)) {
        case RNIC_SQ_MESSAGE:
        case RNIC_SQ_QUESTION:
            return true;
        case RNIC_SQ_LOCAL:
            continue;
        case RNIC_SQ_FAILED:
            return false;
        case RNIC_SQ_EMPTY:
            return read && begin_response(qp, read);
        }
    }
    return false;
}

static void response_sent(RnicQp *qp)
{
    const RnicInboundRead *read = rnic_reads_head(qp);

    if (!read->atomic) {
        rnic_extensions_responded(qp, &read->request);
    }
    rnic_reads_pop(qp);
}

static void message_sent(RnicQp *qp)
{
    RnicJob *job = &qp->job;
    RnicJobKind kind = job->kind;

    trace_rnic_message_sent(qp->qpn, job->msg.opcode, job->msg.length);
    job->kind = RNIC_JOB_NONE;
    if (kind != RNIC_JOB_NOTE) {
        job->was_response = kind == RNIC_JOB_READ_RESPONSE;
    }
    if (kind == RNIC_JOB_WORK && rnic_sq_sent(qp, job)) {
        job->kind = RNIC_JOB_WORK;
        job->offset = 0;
        job->second = true;
    } else if (kind == RNIC_JOB_READ_RESPONSE) {
        response_sent(qp);
    }
}

/* ------------------------------------------------------- its payload */

static void response_error(RnicQp *qp, RnicAccessResult result)
{
    static const struct {
        enum rnic_async_event event;
        IwarpTermCode term;
    } errors[] = {
        [RNIC_ACCESS_INVALID_STAG] = {
            RNIC_AE_IRRQ_INVALID_STAG, IWARP_TERM_READ_STAG },
        [RNIC_ACCESS_INVALID_PD] = {
            RNIC_AE_IRRQ_INVALID_PD, IWARP_TERM_READ_STREAM },
        [RNIC_ACCESS_RIGHTS] = {
            RNIC_AE_IRRQ_ACCESS, IWARP_TERM_READ_ACCESS },
        [RNIC_ACCESS_WRAP] = { RNIC_AE_IRRQ_WRAP, IWARP_TERM_READ_WRAP },
        [RNIC_ACCESS_BOUNDS] = {
            RNIC_AE_IRRQ_BASE_BOUNDS, IWARP_TERM_READ_BOUNDS },
        [RNIC_ACCESS_DMA] = { 0 },      /* no error of the peer's */
    };
    IwarpError error = {
        .fault = IWARP_FAULT_REJECTED,
        .term = errors[result].term,
        .echo = rnic_reads_head(qp)->echo,
    };

    if (result == RNIC_ACCESS_DMA) {
        rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
        return;
    }
    iwarp_echo_advance_read(&error.echo, qp->job.offset);
    rnic_qp_stream_error(qp, errors[result].event, &error);
}

/*
 * The whole source is checked for each segment: a request too long fails
 * before its first octet, and an invalidation in the middle takes effect.
 */
static RnicAccessResult map_response(RnicQp *qp, uint32_t offset, uint32_t len,
                                     RnicDmaMap *map)
{
    const IwarpReadRequest *r = &rnic_reads_head(qp)->request;
    RnicAccessResult result;
    RnicTarget target;

    result = rnic_tpt_check_remote(qp->s, &qp->who, r->source_stag,
                                   r->source_to, r->size,
                                   RNIC_ACCESS_REMOTE_READ, &target);
    if (result == RNIC_ACCESS_OK) {
        result = rnic_target_hold(&target, &qp->who, &qp->job.mapping);
    }
    if (result == RNIC_ACCESS_OK) {
        target.offset += offset;
        result = rnic_target_map(qp->s, &target, len, map);
    }
    return result;
}

/*
 * Map octets [offset, offset + len) of the message, or as many of them as the
 * map takes.  False: the message has failed.
 */
static bool map_payload(RnicQp *qp, uint32_t offset, uint32_t len,
                        RnicDmaMap *map)
{
    bool response = qp->job.kind == RNIC_JOB_READ_RESPONSE;
    RnicAccessResult result;

    if (len == 0) {
        return true;
    }
    result = response ? map_response(qp, offset, len, map)
                      : rnic_sq_map(qp, offset, len, map);
    if (result == RNIC_ACCESS_OK) {
        return true;
    }
    rnic_dma_unmap(qp->s, map);
    if (response) {
        response_error(qp, result);
    } else {
        rnic_sq_source_error(qp, result);
    }
    return false;
}

/* ------------------------------------------------------------ frames */

/* The rest of the message.  Inline data are the WQE's own octets, no guest
 * memory. */
static bool inline_payload(const RnicQp *qp, struct iovec *span)
{
    const struct rnic_sq_wqe *wqe = (const void *)qp->sq.wqe;

    if (qp->job.kind != RNIC_JOB_WORK || !(wqe->flags & RNIC_WQE_INLINE)) {
        return false;
    }
    *span = (struct iovec) {
        (uint8_t *)qp->sq.wqe + sizeof(*wqe) + qp->job.offset,
        le32_to_cpu(wqe->data_length) - qp->job.offset,
    };
    return true;
}

/* With @count spans of payload. */
static void stage_frame(RnicQp *qp, const IwarpTxSegment *seg,
                        const struct iovec *spans, size_t count)
{
    size_t len = rnic_stream_stage_segment(qp->stream, seg, spans, count);

    if (!len) {                 /* more scattered than the device can gather */
        rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
        return;
    }
    rnic_count(&qp->s->counters.tx_fpdus, 1);
    rnic_count(&qp->s->counters.tx_octets, len);
    qp->tx_fpdus++;
    qp->bytes_sent += len;
    qp->job.offset += seg->payload_len;
    if (seg->last) {
        message_sent(qp);
    }
}

/*
 * Large frames leave in pairs, while they are still in the processor's cache.  A
 * small frame may exceed the limit: the stage has room for one more.
 */
static bool stage_has_room(const RnicStream *st, size_t payload)
{
    size_t room = rnic_stream_stage_room(st);

    return room > 0 && (payload <= SMALL_PAYLOAD || payload < room ||
                        rnic_stream_stage_empty(st));
}

/* False: no room in the stage, or the message has failed. */
static bool stage_segment(RnicQp *qp, IwarpTxSegment *seg)
{
    RnicStream *st = qp->stream;
    QEMU_UNINITIALIZED RnicDmaMap map;
    struct iovec span;

    if (!stage_has_room(st, seg->payload_len)) {
        rnic_qp_flush_stream(qp, true);
        if (qp->stream != st || rnic_stream_blocked(st)) {
            return false;
        }
    }
    if (inline_payload(qp, &span)) {
        stage_frame(qp, seg, &span, seg->payload_len ? 1 : 0);
        return true;
    }
    rnic_dma_map_init(&map, &qp->worker->window, false);
    if (!map_payload(qp, qp->job.offset, seg->payload_len, &map)) {
        return false;
    }
    if (rnic_dma_map_octets(&map) < seg->payload_len) {
        /* More pieces than a map takes: a shorter segment. */
        seg->payload_len = rnic_dma_map_octets(&map);
        seg->last = false;
    }
    /* stage_frame() may complete the WR; its octets are copied by then. */
    stage_frame(qp, seg, map.iov, map.count);
    rnic_dma_unmap(qp->s, &map);
    return true;
}

/* -------------------------------------------------------------- turn */

void rnic_transmit(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    unsigned messages = 0;
    size_t octets = 0;
    IwarpTxSegment seg;

    if (!rnic_stream_may_send(st)) {
        return;
    }
    while (qp->state == RNIC_QPS_RTS && !rnic_stream_blocked(st)) {
        if (octets >= OCTETS_PER_TURN || messages >= MESSAGES_PER_TURN ||
            rnic_qp_turn_over(qp)) {
            rnic_qp_kick(qp);
            break;
        }
        if (qp->job.kind == RNIC_JOB_NONE && !next_message(qp, &messages)) {
            break;
        }
        rnic_stream_segment(st, &qp->job.msg, qp->job.offset, &seg);
        octets += seg.payload_len;
        if (!stage_segment(qp, &seg)) {
            break;
        }
    }
    if (qp->state == RNIC_QPS_RTS && !rnic_stream_blocked(st)) {
        rnic_qp_flush_stream(qp, false);
    }
    if ((messages >= MESSAGES_PER_TURN || rnic_qp_turn_over(qp)) &&
        qp->state == RNIC_QPS_RTS) {
        rnic_qp_kick(qp);
    }
}

static void transmit_stage_note(RnicQp *qp, const IwarpTxMessage *note)
{
    IwarpTxSegment seg;

    rnic_stream_segment(qp->stream, note, 0, &seg);
    rnic_stream_stage_segment(qp->stream, &seg, NULL, 0);
}

void rnic_transmit_last_notes(RnicQp *qp)
{
    IwarpTxMessage note;

    /* A message of which no segment has been staged is not cut. */
    if (qp->stream->hold_output ||
        (qp->job.kind != RNIC_JOB_NONE && qp->job.offset > 0)) {
        return;
    }
    if (qp->job.kind == RNIC_JOB_NOTE) {
        transmit_stage_note(qp, &qp->job.msg);
        qp->job.kind = RNIC_JOB_NONE;
    }
    while (rnic_direct_note_next(qp, &note)) {
        transmit_stage_note(qp, &note);
    }
}

void rnic_transmit_rtr(RnicQp *qp, uint8_t rtr)
{
    RnicJob *job = &qp->job;
    IwarpReadRequest request = { .source_stag = 1 };

    *job = (RnicJob) { .kind = RNIC_JOB_RTR };
    switch (rtr) {
    case IWARP_RTR_WRITE:
        job->msg.opcode = IWARP_OP_WRITE;
        break;
    case IWARP_RTR_SEND:
        job->msg.opcode = IWARP_OP_SEND;
        break;
    default:
        /* RFC 6581: a Read of no octets; takes MSN 1 and an ORD slot. */
        qp->stream->rtr_read = true;
        iwarp_read_request_encode(&request, job->header);
        job->msg.opcode = IWARP_OP_READ_REQUEST;
        job->msg.header = job->header;
        job->msg.header_len = IWARP_READ_REQUEST_LEN;
        break;
    }
}
