/*
 * rnic: receiving, from the stream to guest memory
 *
 * The engine finds what the wire alone can show wrong; here memory and queues
 * are asked.  Where the engine allows it (no CRC, no markers) large payload
 * goes from the transport straight to its place.  Every octet placed is checked
 * in the turn that places it, since regions may vanish between turns.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/guest/dma.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    OCTETS_PER_TURN = 1024 * 1024,
    /* Payload at least this long is worth its own place in a readv(). */
    DIRECT_MIN = 2048,
    /* Octets read behind the payload or FPDU in progress: the next headers. */
    READ_BEHIND = 256,
    /* Octets read to the buffer otherwise: many small frames at once. */
    BUFFERED_READ = 64 * 1024,
};

/* ---------------------------------------------------- error reporting */

static void fail(RnicQp *qp, enum rnic_async_event event, IwarpTermCode term)
{
    iwarp_rx_reject(&qp->stream->rx, term);
    rnic_qp_stream_error(qp, event, &qp->stream->rx.error);
}

static void fail_tagged(RnicQp *qp, RnicAccessResult result)
{
    static const struct {
        enum rnic_async_event event;
        IwarpTermCode term;
    } errors[] = {
        [RNIC_ACCESS_INVALID_STAG] = {
            RNIC_AE_TAGGED_INVALID_STAG, IWARP_TERM_TAGGED_STAG },
        [RNIC_ACCESS_INVALID_PD] = {
            RNIC_AE_TAGGED_INVALID_PD, IWARP_TERM_TAGGED_STREAM },
        [RNIC_ACCESS_RIGHTS] = {
            RNIC_AE_TAGGED_ACCESS, IWARP_TERM_TAGGED_STREAM },
        [RNIC_ACCESS_WRAP] = {
            RNIC_AE_TAGGED_WRAP, IWARP_TERM_TAGGED_WRAP },
        [RNIC_ACCESS_BOUNDS] = {
            RNIC_AE_TAGGED_BASE_BOUNDS, IWARP_TERM_TAGGED_BOUNDS },
    };

    fail(qp, errors[result].event, errors[result].term);
}

static void fail_receive(RnicQp *qp, enum rnic_wc_status status,
                         IwarpTermCode term)
{
    iwarp_rx_reject(&qp->stream->rx, term);
    rnic_rq_fail(qp, status, &qp->stream->rx.error);
}

/* The sender's mistake, but not one of the receiver's QP after a direct connect. */
static void fail_no_receive(RnicQp *qp)
{
    if (qp->direct.connected) {
        iwarp_rx_reject(&qp->stream->rx, IWARP_TERM_NO_BUFFER);
        rnic_qp_refuse_send(qp, &qp->stream->rx.error);
    } else {
        fail(qp, RNIC_AE_RQ_MSN_RANGE, IWARP_TERM_NO_BUFFER);
    }
}

/* Queue 1, or the opcode that belongs there, in the header that was wrong. */
static bool about_read_request(const IwarpError *error)
{
    const IwarpEcho *echo = &error->echo;
    IwarpDdpHeader h;

    return iwarp_ddp_decode(&h, echo->ddp, echo->ddp_len) && !h.tagged &&
           (h.qn == IWARP_QN_READ ||
            iwarp_rdmap_opcode(h.control) == IWARP_OP_READ_REQUEST);
}

/* What the engine found, as the event of figure 37. */
static enum rnic_async_event fault_event(const IwarpError *error)
{
    static const struct {
        enum rnic_async_event event;
        enum rnic_async_event of_read_request;  /* 0: the same */
    } events[] = {
        [IWARP_FAULT_CRC] = { RNIC_AE_LLP_CRC },
        [IWARP_FAULT_MARKER] = { RNIC_AE_LLP_BAD_FPDU },
        [IWARP_FAULT_SEGMENT_SHORT] = { RNIC_AE_LLP_SEGMENT_SIZE },
        [IWARP_FAULT_HEADER_SHORT] = {
            RNIC_AE_LLP_SEGMENT_SIZE, RNIC_AE_BAD_READ_REQUEST },
        [IWARP_FAULT_TAGGED_VERSION] = { RNIC_AE_DDP_VERSION },
        [IWARP_FAULT_UNTAGGED_VERSION] = { RNIC_AE_DDP_VERSION },
        [IWARP_FAULT_RDMAP_VERSION] = { RNIC_AE_RDMAP_VERSION },
        [IWARP_FAULT_QN_UNKNOWN] = { RNIC_AE_INVALID_QUEUE_NUMBER },
        [IWARP_FAULT_QN_OPCODE] = { RNIC_AE_INVALID_QUEUE_NUMBER },
        [IWARP_FAULT_MSN_PAST] = {
            RNIC_AE_RQ_MSN_RANGE, RNIC_AE_IRRQ_MSN_RANGE },
        [IWARP_FAULT_MSN_AHEAD] = {
            RNIC_AE_RQ_MSN_GAP, RNIC_AE_IRRQ_MSN_GAP },
        [IWARP_FAULT_MO] = { RNIC_AE_BAD_READ_REQUEST },
        [IWARP_FAULT_HEADER_LONG] = { RNIC_AE_BAD_READ_REQUEST },
        [IWARP_FAULT_NOT_LAST] = { RNIC_AE_NO_LAST_BIT },
        [IWARP_FAULT_EMPTY_NOT_LAST] = { RNIC_AE_NO_LAST_BIT },
        [IWARP_FAULT_STAG_CHANGED] = { RNIC_AE_TAGGED_INVALID_STAG },
        [IWARP_FAULT_TO_JUMP] = { RNIC_AE_TAGGED_BASE_BOUNDS },
        [IWARP_FAULT_TAGGED_LENGTH] = { RNIC_AE_TAGGED_BASE_BOUNDS },
    };
    unsigned fault = error->fault;

    if (fault >= ARRAY_SIZE(events) || !events[fault].event) {
        return RNIC_AE_UNEXPECTED_OPCODE;
    }
    return events[fault].of_read_request && about_read_request(error)
           ? events[fault].of_read_request : events[fault].event;
}

static void engine_error(RnicQp *qp)
{
    const IwarpError *error = &qp->stream->rx.error;

    trace_rnic_err_wire(qp->qpn, iwarp_fault_name(error->fault), error->term);
    rnic_qp_stream_error(qp, fault_event(error), error);
}

/* ------------------------------------------------- place of a segment */

static RnicAccessResult tagged_target(RnicQp *qp, uint32_t offset,
                                      uint32_t len, RnicTarget *target)
{
    const IwarpSegment *seg = &qp->stream->rx.segment;
    RnicAccessResult result;

    if (seg->opcode == IWARP_OP_WRITE) {
        result = rnic_tpt_check_remote(qp->s, &qp->who, seg->stag,
                                       seg->to + offset, len,
                                       RNIC_ACCESS_REMOTE_WRITE, target);
    } else {
        result = rnic_tpt_check_read_sink(qp->s, &qp->who, seg->stag,
                                          seg->to + offset, len, target);
    }
    return result == RNIC_ACCESS_OK
           ? rnic_target_hold(target, &qp->who, &qp->incoming_mapping) : result;
}

/*
 * V9.5.2-4: memory that DMA does not reach is told by the WR's status.  Only an RDMA
 * Write has no WR here.
 */
static void place_failed(RnicQp *qp, RnicAccessResult result)
{
    const IwarpSegment *seg = &qp->stream->rx.segment;

    if (seg->tagged && result != RNIC_ACCESS_DMA) {
        fail_tagged(qp, result);
    } else if (seg->tagged && seg->opcode == IWARP_OP_WRITE) {
        rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
    } else if (seg->tagged) {
        rnic_sq_read_failed(qp, rnic_access_status(result));
    } else {
        fail_receive(qp, rnic_access_status(result), IWARP_TERM_RDMAP_LOCAL);
    }
}

/*
 * Map octets [offset, offset + *@len) of the segment's payload, or a first part
 * of them, as many as the map takes: *@len.
 */
static bool place_map(RnicQp *qp, uint32_t offset, size_t *len, RnicDmaMap *map)
{
    const IwarpSegment *seg = &qp->stream->rx.segment;
    RnicAccessResult result;
    RnicTarget target;

    if (seg->tagged) {
        result = tagged_target(qp, offset, *len, &target);
        if (result == RNIC_ACCESS_OK) {
            result = rnic_target_map(qp->s, &target, *len, map);
        }
    } else {
        result = rnic_rq_map(qp, (uint64_t)seg->message_offset + offset, *len,
                             map);
    }
    if (result == RNIC_ACCESS_OK) {
        *len = rnic_dma_map_octets(map);
        return true;
    }
    rnic_dma_unmap(qp->s, map);
    place_failed(qp, result);
    return false;
}

static void place_payload(RnicQp *qp)
{
    const IwarpRx *rx = &qp->stream->rx;
    QEMU_UNINITIALIZED RnicDmaMap map;
    size_t len;

    for (size_t done = 0; done < rx->payload_len; done += len) {
        len = rx->payload_len - done;
        rnic_dma_map_init(&map, &qp->worker->window, true);
        if (!place_map(qp, rx->payload_offset + done, &len, &map)) {
            return;
        }
        rnic_guest_memory_begin();
        iov_from_buf(map.iov, map.count, 0, rx->payload + done, len);
        rnic_guest_memory_end();
        rnic_dma_unmap(qp->s, &map);
    }
}

/* ------------------------------------------------ start of a segment */

/* The stream, and @seg with it, may be gone behind this. */
static void start_note(RnicQp *qp, const IwarpSegment *seg)
{
    if (!rnic_direct_note_received(qp, seg)) {
        fail(qp, RNIC_AE_TAGGED_BASE_BOUNDS, IWARP_TERM_TAGGED_BOUNDS);
    }
}

static void start_write(RnicQp *qp, const IwarpSegment *seg)
{
    RnicAccessResult result;
    RnicTarget target;

    if (seg->payload_len == 0) {
        return;
    }
    if (!(qp->enables & RNIC_QP_ENABLE_WRITE)) {
        fail(qp, RNIC_AE_WRITE_NOT_ENABLED, IWARP_TERM_TAGGED_STREAM);
        return;
    }
    result = tagged_target(qp, 0, seg->payload_len, &target);
    if (result != RNIC_ACCESS_OK) {
        fail_tagged(qp, result);
    }
}

/* A response must be to the oldest Read and continue where it stands. */
static bool response_fits(const IwarpSegment *seg, const RnicSendWork *read)
{
    if (seg->payload_len > read->length - read->received) {
        return false;
    }
    if (seg->last && read->received + seg->payload_len != read->length) {
        return false;
    }
    return seg->payload_len == 0 || seg->to == read->sink_to + read->received;
}

static void start_read_response(RnicQp *qp, const IwarpSegment *seg)
{
    RnicSendWork *read = rnic_sq_current_read(qp);
    RnicAccessResult result = RNIC_ACCESS_OK;
    RnicTarget target;

    if (qp->stream->rtr_read && seg->payload_len == 0 && seg->last) {
        return;                 /* it has no WR, see end_segment() */
    }
    if (!read || qp->stream->rtr_read || rnic_sq_is_atomic(read)) {
        fail(qp, RNIC_AE_UNEXPECTED_OPCODE, IWARP_TERM_OPCODE);
        return;
    }
    if (seg->payload_len && !(qp->enables & (RNIC_QP_ENABLE_WRITE |
                                             RNIC_QP_READ_SINK_BY_REQUEST))) {
        fail(qp, RNIC_AE_WRITE_NOT_ENABLED, IWARP_TERM_TAGGED_STREAM);
        return;
    }
    if (seg->payload_len && seg->stag != read->sink_stag) {
        result = RNIC_ACCESS_INVALID_STAG;
    } else if (!response_fits(seg, read)) {
        result = RNIC_ACCESS_BOUNDS;
    } else if (seg->payload_len) {
        result = tagged_target(qp, 0, seg->payload_len, &target);
    }
    if (result != RNIC_ACCESS_OK) {
        fail_tagged(qp, result);
    }
}

/* The WR that waits for the oldest answer is an atomic, and this one is its own. */
static void start_atomic_response(RnicQp *qp, const IwarpSegment *seg)
{
    const RnicSendWork *work = rnic_sq_current_read(qp);

    if (!work || qp->stream->rtr_read || !rnic_sq_is_atomic(work) ||
        seg->u.atomic_response.request_id != work->start) {
        trace_rnic_err_immediate(qp->qpn, "an Atomic Response that nothing awaits");
        fail(qp, RNIC_AE_UNEXPECTED_OPCODE, IWARP_TERM_OPCODE);
    }
}

/* Immediate data for the Send that follows: it takes no receive of its own. */
static void start_held_immediate(RnicQp *qp, const IwarpSegment *seg)
{
    RnicExtensions *ext = &qp->extensions;

    if (ext->held) {
        trace_rnic_err_immediate(qp->qpn, "a Send is to follow immediate data");
        fail(qp, RNIC_AE_UNEXPECTED_OPCODE, IWARP_TERM_OPCODE);
        return;
    }
    ext->held = true;
    memcpy(ext->immediate, seg->u.immediate, sizeof(ext->immediate));
}

/* Behind immediate data of a Send comes that Send, which invalidates nothing. */
static bool receive_fits_immediate(const RnicQp *qp, const IwarpSegment *seg)
{
    return !qp->extensions.held || seg->opcode == IWARP_OP_SEND ||
           seg->opcode == IWARP_OP_SEND_SE;
}

static void start_receive(RnicQp *qp, const IwarpSegment *seg)
{
    RnicAccessResult result;

    if (!receive_fits_immediate(qp, seg)) {
        trace_rnic_err_immediate(qp->qpn, "a Send is to follow immediate data");
        fail(qp, RNIC_AE_UNEXPECTED_OPCODE, IWARP_TERM_OPCODE);
        return;
    }
    if (seg->first) {
        RnicRingTake take = rnic_rq_take(qp);

        if (take == RNIC_RING_EMPTY && rnic_receive_wait(qp)) {
            return;
        }
        rnic_receive_wait_end(qp);
        if (take == RNIC_RING_EMPTY) {
            fail_no_receive(qp);
        }
        if (take != RNIC_RING_TAKEN) {
            return;
        }
    }
    if ((uint64_t)seg->message_offset + seg->payload_len > qp->rq.room) {
        fail_receive(qp, RNIC_WC_MESSAGE_TOO_LONG, IWARP_TERM_TOO_LONG);
        return;
    }
    result = rnic_rq_map(qp, seg->message_offset, seg->payload_len, NULL);
    if (result != RNIC_ACCESS_OK) {
        fail_receive(qp, rnic_access_status(result), IWARP_TERM_RDMAP_LOCAL);
    }
}

static void start_read_request(RnicQp *qp, const IwarpSegment *seg)
{
    if (!(qp->enables & RNIC_QP_ENABLE_READ) && seg->u.read.size) {
        fail(qp, RNIC_AE_READ_NOT_ENABLED, IWARP_TERM_QN);
    } else if (!rnic_reads_push(qp, seg)) {
        fail(qp, RNIC_AE_IRRQ_TOO_MANY, IWARP_TERM_NO_BUFFER);
    } else {
        rnic_extensions_requested(qp, &seg->u.read);
        rnic_qp_kick(qp);
    }
}

/* STag and alignment are looked at when it is its turn, as of a Read. */
static void start_atomic_request(RnicQp *qp, const IwarpSegment *seg)
{
    uint8_t op = seg->u.atomic.atomic_op;

    if (!(qp->enables & RNIC_QP_ENABLE_ATOMIC)) {
        fail(qp, RNIC_AE_ATOMIC_NOT_ENABLED, IWARP_TERM_QN);
    } else if (op != IWARP_ATOMIC_FETCH_ADD && op != IWARP_ATOMIC_CMP_SWAP) {
        trace_rnic_err_atomic(qp->qpn, seg->u.atomic.to, "unknown operation");
        fail(qp, RNIC_AE_UNEXPECTED_OPCODE, IWARP_TERM_OPCODE);
    } else if (!rnic_reads_push(qp, seg)) {
        fail(qp, RNIC_AE_IRRQ_TOO_MANY, IWARP_TERM_NO_BUFFER);
    } else {
        rnic_qp_kick(qp);
    }
}

static bool is_rtr(RnicQp *qp, const IwarpSegment *seg)
{
    return qp->stream->rtr_expected && seg->payload_len == 0 && seg->last &&
           (seg->opcode == IWARP_OP_WRITE || seg->opcode == IWARP_OP_SEND ||
            (seg->opcode == IWARP_OP_READ_REQUEST && !seg->u.read.size));
}

/* The peer's first FPDU opens our direction (RFC 5044 7.1.2). */
static void first_fpdu(RnicQp *qp)
{
    if (rnic_stream_let_send(qp->stream)) {
        rnic_qp_kick(qp);
    }
}

static void start_segment(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    const IwarpSegment *seg = &st->rx.segment;
    bool rtr = is_rtr(qp, seg);

    trace_rnic_segment(qp->qpn, seg->opcode, seg->payload_len, seg->last);
    rnic_count(&qp->s->counters.rx_fpdus, 1);
    qp->rx_fpdus++;
    st->rtr_expected = false;
    if (seg->first) {
        qp->incoming_mapping = 0;
    }
    first_fpdu(qp);
    switch (seg->opcode) {
    case IWARP_OP_WRITE:
        if (rnic_direct_note_is(qp, seg)) {
            start_note(qp, seg);
        } else {
            start_write(qp, seg);
        }
        break;
    case IWARP_OP_READ_RESPONSE:
        start_read_response(qp, seg);
        break;
    case IWARP_OP_READ_REQUEST:
        start_read_request(qp, seg);
        break;
    case IWARP_OP_TERMINATE:
        rnic_qp_terminate_received(qp, &seg->u.terminate, seg);
        break;
    case IWARP_OP_ATOMIC_REQUEST:
        start_atomic_request(qp, seg);
        break;
    case IWARP_OP_ATOMIC_RESPONSE:
        start_atomic_response(qp, seg);
        break;
    default:                    /* the Sends, and Immediate Data */
        if (rnic_extensions_of_send(seg)) {
            start_held_immediate(qp, seg);
            break;
        }
        /* An RTR Send is MPA's, not the ULP's: it takes no receive. */
        if (!rtr) {
            start_receive(qp, seg);
        }
        break;
    }
}

/* --------------------------------------------------- end of a segment */

/* False: the QP has left RTS. */
static bool invalidate_by_peer(RnicQp *qp, uint32_t stag)
{
    static const IwarpTermCode terms[] = {
        /*
         * RFC 5040 4.8 has code 09 of two types.  V7.8-16: an Operation Error only if
         * there is no such STag.
         */
        [RNIC_ACCESS_INVALID_STAG] = IWARP_TERM_INVALIDATE_UNKNOWN,
        [RNIC_ACCESS_NOT_INVALIDATED] = IWARP_TERM_INVALIDATE,
        [RNIC_ACCESS_INVALID_PD] = IWARP_TERM_INVALIDATE,
        [RNIC_ACCESS_RIGHTS] = IWARP_TERM_READ_ACCESS,
    };
    RnicAccessResult result = RNIC_ACCESS_RIGHTS;

    if (qp->enables & (RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE)) {
        result = rnic_tpt_invalidate(qp->s, &qp->who, stag, true);
    }
    if (result == RNIC_ACCESS_OK) {
        return true;
    }
    fail_receive(qp, RNIC_WC_INVALIDATE_STAG, terms[result]);
    return false;
}

static bool is_immediate(const IwarpSegment *seg)
{
    return seg->opcode == IWARP_OP_IMMEDIATE ||
           seg->opcode == IWARP_OP_IMMEDIATE_SE;
}

static void end_receive(RnicQp *qp, const IwarpSegment *seg)
{
    const IwarpOpInfo *info = iwarp_op_info(seg->opcode);
    RnicExtensions *ext = &qp->extensions;
    RnicReceived received = {
        .octets = seg->message_offset + seg->payload_len,
        .solicited = info->solicited,
        .invalidated = info->invalidates,
        .stag = seg->inv_stag,
        .immediate = ext->held ? ext->immediate : NULL,
    };

    if (is_immediate(seg)) {    /* RFC 7306 6: of the Write before it */
        received.octets = ext->written;
        received.immediate = seg->u.immediate;
        received.written = true;
    }
    ext->written = 0;
    if (!qp->rq.taken) {        /* an RTR Send */
        return;
    }
    if (info->invalidates && !invalidate_by_peer(qp, seg->inv_stag)) {
        return;
    }
    ext->held = false;
    rnic_rq_complete(qp, &received);
    rnic_direct_note_delivered(qp);
}

static void end_write(RnicQp *qp, const IwarpSegment *seg)
{
    if (!rnic_direct_note_is(qp, seg)) {
        qp->extensions.written = seg->message_offset + seg->payload_len;
        rnic_direct_note_delivered(qp);
    }
}

static void end_read_response(RnicQp *qp, const IwarpSegment *seg)
{
    RnicSendWork *read = rnic_sq_current_read(qp);

    if (qp->stream->rtr_read) {
        qp->stream->rtr_read = false;
        rnic_qp_kick(qp);       /* its ORD slot is free */
        return;
    }
    read->received += seg->payload_len;
    if (seg->last) {
        rnic_sq_read_done(qp, seg->to);
    }
}

static void end_segment(RnicQp *qp)
{
    const IwarpSegment *seg = &qp->stream->rx.segment;

    if (seg->opcode == IWARP_OP_READ_RESPONSE) {
        end_read_response(qp, seg);
    } else if (seg->opcode == IWARP_OP_ATOMIC_RESPONSE) {
        rnic_sq_atomic_done(qp, seg->u.atomic_response.original);
    } else if (rnic_extensions_of_send(seg)) {
        rnic_direct_note_delivered(qp);
    } else if (!seg->tagged && seg->qn == IWARP_QN_SEND && seg->last) {
        end_receive(qp, seg);
    } else if (seg->opcode == IWARP_OP_WRITE && seg->last) {
        end_write(qp, seg);
    }
}

/* -------------------------------------------------------------- turn */

/* True: no Send waits for a receive, or it has got one now. */
static bool receive_goes_on(RnicQp *qp)
{
    if (qp->receive_wait.waits) {
        start_receive(qp, &qp->stream->rx.segment);
    }
    return qp->state == RNIC_QPS_RTS && !qp->receive_wait.waits;
}

/* False: nothing more is to be done with what is in the buffer. */
static bool process_event(RnicQp *qp)
{
    if (!receive_goes_on(qp)) {
        return false;
    }
    switch (iwarp_rx_next(&qp->stream->rx)) {
    case IWARP_RX_NEED_MORE:
        return false;
    case IWARP_RX_SEGMENT:
        start_segment(qp);
        break;
    case IWARP_RX_PAYLOAD:
        place_payload(qp);
        break;
    case IWARP_RX_SEGMENT_END:
        end_segment(qp);
        break;
    case IWARP_RX_ERROR:
        engine_error(qp);
        break;
    }
    return qp->state == RNIC_QPS_RTS && !qp->receive_wait.waits;
}

/* What is in the buffer; the rest in another turn if this one is over. */
static void process_buffer(RnicQp *qp)
{
    qp->receive_again = false;
    while (process_event(qp)) {
        if (rnic_qp_turn_over(qp)) {
            qp->receive_again = true;
            rnic_qp_kick(qp);
            return;
        }
    }
}

/* @octets have been read, the first @placed of them to their place. */
static void receive_filled(RnicQp *qp, size_t octets, size_t placed)
{
    IwarpRx *rx = &qp->stream->rx;

    if (placed) {
        iwarp_rx_placed(rx, placed);
    }
    iwarp_rx_filled(rx, octets - placed);
    qp->bytes_received += octets;
    rnic_count(&qp->s->counters.rx_octets, octets);
}

/* Read once, payload straight to its place if it is long enough. */
static RnicIo read_some(RnicQp *qp, size_t *octets)
{
    RnicStream *st = qp->stream;
    size_t direct = iwarp_rx_direct(&st->rx);
    size_t room;
    QEMU_UNINITIALIZED RnicDmaMap map;
    void *buffer;
    RnicIo io;

    *octets = 0;
    rnic_dma_map_init(&map, &qp->worker->window, true);
    iwarp_rx_buffer(&st->rx, &buffer, &room);
    if (direct >= DIRECT_MIN) {
        size_t all = direct;

        if (!place_map(qp, iwarp_rx_direct_offset(&st->rx), &direct, &map)) {
            return RNIC_IO_BLOCKED;
        }
        room = direct < all ? 0 : MIN(room, READ_BEHIND);
    } else {
        direct = 0;
        room = MIN(room, BUFFERED_READ);
    }
    /* One iovec more than the map: the buffer behind the payload. */
    map.iov[map.count] = (struct iovec) { buffer, room };
    io = rnic_stream_readv(st, map.iov, map.count + 1, octets);
    rnic_dma_unmap(qp->s, &map);
    receive_filled(qp, *octets, MIN(*octets, direct));
    return io;
}

bool rnic_receive_ahead(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    RnicIo io = RNIC_IO_OK;
    void *buffer;
    size_t room, n;

    while (io == RNIC_IO_OK) {
        iwarp_rx_buffer(&st->rx, &buffer, &room);
        if (!room) {
            return rnic_stream_end(st) == RNIC_END_NONE;
        }
        io = rnic_stream_readv(st, &(struct iovec) { buffer, room }, 1, &n);
        receive_filled(qp, n, 0);
    }
    return io == RNIC_IO_BLOCKED;
}

void rnic_receive(RnicQp *qp)
{
    size_t total = 0;
    size_t n;

    /* What start-up or an earlier turn has left in the buffer. */
    process_buffer(qp);
    while (qp->state == RNIC_QPS_RTS && !qp->receive_wait.waits &&
           total < OCTETS_PER_TURN && !rnic_qp_turn_over(qp)) {
        RnicIo io = read_some(qp, &n);

        total += n;
        if (qp->state != RNIC_QPS_RTS || io == RNIC_IO_BLOCKED) {
            break;
        }
        if (io == RNIC_IO_EOF) {
            rnic_stream_pause_reading(qp->stream);
            rnic_qp_peer_closed(qp);
            break;
        }
        if (io != RNIC_IO_OK) {
            rnic_qp_stream_failed(qp, io);
            break;
        }
        process_buffer(qp);
    }
}
