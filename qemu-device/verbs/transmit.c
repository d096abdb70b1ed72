/*
 * rnic: sending, from messages to FPDUs on the socket
 *
 * One message at a time, its segments in order, never interleaved; read
 * responses and SQ work take turns, so that neither waits for the other.
 * Small frames are copied into the stream's stage and leave together; large
 * ones are gathered straight from guest memory, many FPDUs a call.
 *
 * Guest memory is mapped for one call only.  Where the socket takes part of a
 * frame, the rest of that frame is copied to the stage; later frames are
 * framed anew in the next turn, as is a frame for which a ring has no room.
 * With CRC every frame is copied to the stage: the guest may change its payload
 * at any time, the CRC must still be right (V8.2.2-9).
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
    BATCH_FRAMES = 16,
    BATCH_OCTETS = 512 * 1024,
    BATCH_SPANS = 1024,
    /* One frame's payload: pages of 4 KiB, and the ends of its SGEs. */
    SPANS_PER_FRAME = IWARP_MULPDU_MAX / 4096 + 2 * RNIC_MAX_SGE + 2,
};

/* ------------------------------------------------------ the message */

static void begin_response(RnicJob *job, const RnicInboundRead *read)
{
    job->kind = RNIC_JOB_READ_RESPONSE;
    job->offset = 0;
    job->mapping = 0;
    job->msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_READ_RESPONSE,
        .stag = read->request.sink_stag,
        .to = read->request.sink_to,
        .length = read->request.size,
    };
}

static RnicSqStep begin_work(RnicQp *qp)
{
    RnicSqStep step = rnic_sq_begin(qp, &qp->job);

    if (step == RNIC_SQ_MESSAGE) {
        qp->job.kind = RNIC_JOB_WORK;
        qp->job.offset = 0;
    }
    return step;
}

/* Choose what to send next; false when there is nothing for now. */
static bool next_message(RnicQp *qp, unsigned *messages)
{
    RnicJob *job = &qp->job;
    const RnicInboundRead *read = rnic_reads_head(qp);

    (*messages)++;
    if (read && !job->was_response) {
        begin_response(job, read);
        return true;
    }
    for (; *messages < MESSAGES_PER_TURN && !rnic_qp_turn_over(qp);
         (*messages)++) {
        switch (begin_work(qp)) {
        case RNIC_SQ_MESSAGE:
            return true;
        case RNIC_SQ_LOCAL:
            continue;
        case RNIC_SQ_FAILED:
            return false;
        case RNIC_SQ_EMPTY:
            if (read) {
                begin_response(job, read);
            }
            return read != NULL;
        }
    }
    return false;
}

static void message_sent(RnicQp *qp)
{
    RnicJob *job = &qp->job;
    RnicJobKind kind = job->kind;

    trace_rnic_message_sent(qp->qpn, job->msg.opcode, job->msg.length);
    job->kind = RNIC_JOB_NONE;
    job->was_response = kind == RNIC_JOB_READ_RESPONSE;
    if (kind == RNIC_JOB_WORK) {
        rnic_sq_sent(qp);
    } else if (kind == RNIC_JOB_READ_RESPONSE) {
        rnic_reads_pop(qp);
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
    };
    IwarpError error = {
        .fault = IWARP_FAULT_REJECTED,
        .term = errors[result].term,
        .echo = rnic_reads_head(qp)->echo,
    };

    iwarp_echo_advance_read(&error.echo, qp->job.offset);
    rnic_qp_stream_error(qp, errors[result].event, &error);
}

/*
 * The whole source is checked for each segment: a request too long fails
 * before its first octet, and an invalidation in the middle takes effect.
 */
static RnicAccessResult map_response(RnicQp *qp, uint32_t offset, uint32_t len,
                                     RnicDmaMap *map, bool *dma_ok)
{
    const IwarpReadRequest *r = &rnic_reads_head(qp)->request;
    RnicAccessResult result;
    RnicTarget target;
    bool full;

    result = rnic_tpt_check_remote(qp->s, &qp->who, r->source_stag,
                                   r->source_to, r->size,
                                   RNIC_ACCESS_REMOTE_READ, &target);
    if (result == RNIC_ACCESS_OK) {
        result = rnic_target_hold(&target, &qp->who, &qp->job.mapping);
    }
    if (result == RNIC_ACCESS_OK) {
        target.offset += offset;
        *dma_ok = rnic_target_map(qp->s, &target, len, map, &full) || full;
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
    RnicAccessResult result = RNIC_ACCESS_OK;
    bool dma_ok = true;

    if (len == 0) {
        return true;
    }
    if (response) {
        result = map_response(qp, offset, len, map, &dma_ok);
    } else {
        result = rnic_sq_map(qp, offset, len, map, &dma_ok);
    }
    if (result == RNIC_ACCESS_OK && dma_ok) {
        return true;
    }
    rnic_dma_unmap(qp->s, map);
    if (!response) {
        rnic_sq_source_error(qp, result);
    } else if (result != RNIC_ACCESS_OK) {
        response_error(qp, result);
    } else {
        rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
    }
    return false;
}

/* ------------------------------------------------------------ frames */

static void count_frame(RnicQp *qp, size_t len)
{
    rnic_count(&qp->s->counters.tx_fpdus, 1);
    rnic_count(&qp->s->counters.tx_octets, len);
    qp->bytes_sent += len;
}

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

/* More scattered than the device can gather. */
static void frame_impossible(RnicQp *qp)
{
    rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
}

static void stage_frame(RnicQp *qp, const IwarpTxSegment *seg,
                        const struct iovec *spans, size_t count)
{
    QEMU_UNINITIALIZED struct iovec out[BATCH_SPANS];
    IwarpTxFrame frame;
    RnicStream *st = qp->stream;
    int n = iwarp_tx_frame(&st->tx, seg, spans, count, &frame, out,
                           BATCH_SPANS);

    if (n < 0) {
        frame_impossible(qp);
        return;
    }
    iwarp_tx_commit(&st->tx, &frame);
    rnic_stream_stage_frame(st, out, n);
    count_frame(qp, frame.len);
    qp->job.offset += seg->payload_len;
    if (seg->last) {
        message_sent(qp);
    }
}

/* More pieces than a map takes: by way of a buffer. */
static bool stage_scattered(RnicQp *qp, const IwarpTxSegment *seg)
{
    g_autofree uint8_t *payload = g_malloc(seg->payload_len);
    struct iovec span = { payload, seg->payload_len };
    RnicDmaMap map;
    size_t len;

    for (size_t done = 0; done < seg->payload_len; done += len) {
        rnic_dma_map_init(&map, &qp->worker->window, false);
        if (!map_payload(qp, qp->job.offset + done, seg->payload_len - done,
                         &map)) {
            return false;
        }
        rnic_guest_memory_begin();
        len = iov_to_buf(map.iov, map.count, 0, payload + done,
                         seg->payload_len - done);
        rnic_guest_memory_end();
        rnic_dma_unmap(qp->s, &map);
    }
    stage_frame(qp, seg, &span, 1);
    return true;
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
static bool stage_segment(RnicQp *qp, const IwarpTxSegment *seg)
{
    RnicStream *st = qp->stream;
    QEMU_UNINITIALIZED RnicDmaMap map;
    struct iovec span;

    if (!stage_has_room(st, seg->payload_len)) {
        rnic_qp_output_progress(qp, rnic_stream_flush(st));
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
        rnic_dma_unmap(qp->s, &map);
        return stage_scattered(qp, seg);
    }
    /* stage_frame() may complete the WR; its octets are copied by then. */
    stage_frame(qp, seg, map.iov, map.count);
    rnic_dma_unmap(qp->s, &map);
    return true;
}

/* ----------------------------------------------------------- batches */

typedef struct Batch {
    unsigned frames;
    unsigned spans;
    size_t octets;
    size_t room;                /* for more octets than that there is none */
    bool no_room;               /* not even for the first frame */
    bool scattered;             /* the first segment, see stage_scattered() */
    RnicDmaMap map;
    IwarpTxSegment seg[BATCH_FRAMES];
    IwarpTxFrame frame[BATCH_FRAMES];
    unsigned first_span[BATCH_FRAMES];
    struct iovec out[BATCH_SPANS];
} Batch;

/* Frame one more segment of the message.  False: no more fit, or failed. */
static bool batch_add(RnicQp *qp, Batch *b, IwarpTx *tx, uint32_t *offset)
{
    unsigned i = b->frames;
    unsigned before = b->map.count;
    int n;

    iwarp_tx_segment(tx, &qp->job.msg, *offset, &b->seg[i]);
    if (!map_payload(qp, *offset, b->seg[i].payload_len, &b->map)) {
        return false;
    }
    if (iov_size(b->map.iov + before, b->map.count - before) <
        b->seg[i].payload_len) {
        b->scattered = i == 0;
        return false;
    }
    n = iwarp_tx_frame(tx, &b->seg[i], b->map.iov + before,
                       b->map.count - before, &b->frame[i],
                       b->out + b->spans, BATCH_SPANS - 1 - b->spans);
    if (n < 0) {
        if (i == 0) {
            frame_impossible(qp);
        }
        return false;
    }
    if (b->frame[i].len > b->room - b->octets) {
        b->no_room = i == 0;
        return false;
    }
    iwarp_tx_commit(tx, &b->frame[i]);
    b->first_span[i] = b->spans;
    b->frames++;
    b->spans += n;
    b->octets += b->frame[i].len;
    *offset += b->seg[i].payload_len;
    return !b->seg[i].last && b->frames < BATCH_FRAMES &&
           b->octets < BATCH_OCTETS &&
           b->map.count + SPANS_PER_FRAME < RNIC_DMA_MAP_MAX;
}

/* The socket took @sent octets of the batch: account for whole frames, and
 * keep the rest of one that was cut. */
static void batch_account(RnicQp *qp, Batch *b, size_t sent)
{
    RnicStream *st = qp->stream;

    for (unsigned i = 0; i < b->frames && sent > 0; i++) {
        size_t len = b->frame[i].len;
        unsigned end = i + 1 < b->frames ? b->first_span[i + 1] : b->spans;

        if (sent < len) {
            rnic_stream_stage_octets(st, b->out + b->first_span[i],
                                     end - b->first_span[i], sent);
        }
        sent -= MIN(sent, len);
        iwarp_tx_commit(&st->tx, &b->frame[i]);
        count_frame(qp, len);
        qp->job.offset += b->seg[i].payload_len;
    }
}

/* Wait until the transport has room for a whole frame: the rest of a frame that
 * was sent in part would be copied to the stage. */
static void await_room(RnicQp *qp)
{
    RnicIo io = rnic_stream_await_room(qp->stream);

    rnic_qp_output_progress(qp, io);
    if (io == RNIC_IO_OK) {
        rnic_qp_kick(qp);
    }
}

/* True if another frame seems to follow.  A wrong guess costs nothing:
 * rnic_stream_flush() uncorks. */
static bool more_follows(const RnicQp *qp, const Batch *b)
{
    bool work = qp->job.kind == RNIC_JOB_WORK;
    unsigned other_reads = qp->reads.count - (work ? 0 : 1);

    return !b->seg[b->frames - 1].last || other_reads > 0 ||
           (work && rnic_sq_has_next(qp));
}

/* False: the socket is full, or the message or the stream has failed. */
static bool send_batch(RnicQp *qp, size_t *octets)
{
    g_autofree Batch *b = g_new(Batch, 1);
    RnicStream *st = qp->stream;
    IwarpTx tx = st->tx;
    uint32_t offset = qp->job.offset;
    bool last;
    RnicIo io;
    size_t n;

    b->frames = 0;
    b->spans = 0;
    b->octets = 0;
    b->room = rnic_stream_room(st);
    b->no_room = false;
    b->scattered = false;
    rnic_dma_map_init(&b->map, &qp->worker->window, false);
    while (batch_add(qp, b, &tx, &offset)) {
        /* as many as fit */
    }
    if (qp->state != RNIC_QPS_RTS) {
        rnic_dma_unmap(qp->s, &b->map);
        return false;
    }
    if (b->scattered) {
        rnic_dma_unmap(qp->s, &b->map);
        *octets += b->seg[0].payload_len;
        return stage_segment(qp, &b->seg[0]);
    }
    if (b->no_room) {
        rnic_dma_unmap(qp->s, &b->map);
        await_room(qp);
        return false;
    }
    if (more_follows(qp, b)) {
        rnic_stream_cork(st);
    }
    io = rnic_stream_writev(st, b->out, b->spans, &n);
    batch_account(qp, b, n);
    last = n > 0 && qp->job.offset >= qp->job.msg.length;
    rnic_dma_unmap(qp->s, &b->map);
    *octets += n;
    if (last && io != RNIC_IO_RESET && io != RNIC_IO_LOST) {
        message_sent(qp);
    }
    if (qp->stream == st) {
        rnic_qp_output_progress(qp, io);
    }
    return io == RNIC_IO_OK && qp->state == RNIC_QPS_RTS;
}

/* -------------------------------------------------------------- turn */

/* False: stop for this turn. */
static bool send_some(RnicQp *qp, size_t *octets)
{
    RnicStream *st = qp->stream;
    IwarpTxSegment seg;

    iwarp_tx_segment(&st->tx, &qp->job.msg, qp->job.offset, &seg);
    if (rnic_stream_uses_crc(st) || seg.payload_len <= SMALL_PAYLOAD) {
        *octets += seg.payload_len;
        return stage_segment(qp, &seg);
    }
    return send_batch(qp, octets);
}

void rnic_transmit(RnicQp *qp)
{
    RnicStream *st = qp->stream;
    unsigned messages = 0;
    size_t octets = 0;

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
        if (!send_some(qp, &octets)) {
            break;
        }
    }
    if (qp->state == RNIC_QPS_RTS && !rnic_stream_blocked(st)) {
        rnic_qp_output_progress(qp, rnic_stream_flush(st));
    }
    if ((messages >= MESSAGES_PER_TURN || rnic_qp_turn_over(qp)) &&
        qp->state == RNIC_QPS_RTS) {
        rnic_qp_kick(qp);
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
