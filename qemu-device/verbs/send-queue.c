/*
 * rnic: the send queue, from WQE to work in progress to CQE
 *
 * WRs start in post order and complete in post order (8.2.2).  One that turns
 * out to be bad is held until all WRs before it are complete, so that the
 * consumer may rely on their success (V8.1.3.1-5).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "hw/rnic/guest/dma.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    HEADER = sizeof(struct rnic_sq_wqe),
    /*
     * WRs begun and not completed: no more are begun.  Behind a Read that the
     * peer does not answer they would take the host's memory.
     */
    WORKS_MAX = 1024,
    KNOWN_FLAGS = RNIC_WQE_SIGNALED | RNIC_WQE_SOLICITED |
                  RNIC_WQE_READ_FENCE | RNIC_WQE_LOCAL_FENCE |
                  RNIC_WQE_INLINE,
};

void rnic_sq_init(RnicSendQueue *sq, uint32_t depth)
{
    sq->depth = depth;
    QSIMPLEQ_INIT(&sq->works);
}

void rnic_sq_cleanup(RnicSendQueue *sq)
{
    RnicSendWork *work, *next;

    QSIMPLEQ_FOREACH_SAFE(work, &sq->works, next, next) {
        g_free(work);
    }
    QSIMPLEQ_INIT(&sq->works);
    sq->works_count = 0;
    sq->read = NULL;
    sq->reads = 0;
}

static const struct rnic_sq_wqe *sq_head(const RnicQp *qp)
{
    return (const struct rnic_sq_wqe *)qp->sq.wqe;
}

/* What follows the WQE's header: SGEs, inline data or arguments. */
static const void *sq_arguments(const RnicQp *qp)
{
    return qp->sq.wqe + HEADER;
}

static bool sq_is_atomic_type(uint8_t opcode)
{
    return opcode == RNIC_SQ_FETCH_ADD || opcode == RNIC_SQ_COMPARE_SWAP;
}

static const struct rnic_sge *sq_sges(const RnicQp *qp)
{
    size_t args = sq_is_atomic_type(sq_head(qp)->opcode)
                  ? sizeof(struct rnic_atomic_wqe) : 0;

    return sq_arguments(qp) + args;
}

static bool sq_load_producer(RnicQp *qp)
{
    return rnic_record_load32(qp->s, &qp->mem,
                              offsetof(struct rnic_qp_record, sq_producer),
                              &qp->sq.producer);
}

/* The queue looks empty: have the next post ring, then look once more. */
static bool sq_publish(RnicQp *qp)
{
    RnicSendQueue *sq = &qp->sq;

    if (sq->published == sq->producer) {
        return true;
    }
    sq->published = sq->producer;
    if (!rnic_record_store32(qp->s, &qp->mem,
                             offsetof(struct rnic_qp_record, sq_event),
                             sq->published)) {
        return false;
    }
    rnic_dma_barrier();
    return sq_load_producer(qp);
}

/* Learn of WQEs if none is known of.  False: the record cannot be used. */
static bool sq_look(RnicQp *qp)
{
    RnicSendQueue *sq = &qp->sq;

    if (sq->producer != sq->consumer) {
        return true;
    }
    return sq_load_producer(qp) &&
           (sq->producer != sq->consumer || sq_publish(qp));
}

bool rnic_sq_has_wqe(RnicQp *qp)
{
    return sq_look(qp) && qp->sq.producer != qp->sq.consumer;
}

bool rnic_sq_idle(RnicQp *qp)
{
    return QSIMPLEQ_EMPTY(&qp->sq.works) && !qp->sq.fetched &&
           qp->job.kind != RNIC_JOB_WORK && !rnic_sq_has_wqe(qp);
}

/* ----------------------------------------------------------- fetch */

static bool sq_read_units(RnicQp *qp, unsigned first, unsigned count)
{
    RnicSendQueue *sq = &qp->sq;

    for (unsigned i = first; i < first + count; i++) {
        uint64_t slot = (sq->consumer + i) & (sq->depth - 1);

        if (!rnic_ring_read(qp->s, &qp->mem, 0, slot * RNIC_SQ_UNIT,
                            sq->wqe + i * RNIC_SQ_UNIT, RNIC_SQ_UNIT)) {
            return false;
        }
    }
    return true;
}

/* Units the guest has posted and the device has not used. */
static uint32_t sq_posted(const RnicQp *qp)
{
    return qp->sq.producer - qp->sq.consumer;
}

/*
 * More than the ring holds is the guest's mistake.  The slot of a WQE is the
 * guest's again when its WR is complete, not when the device has copied it.
 */
static bool sq_overrun(const RnicQp *qp)
{
    const RnicSendWork *oldest = QSIMPLEQ_FIRST(&qp->sq.works);
    uint32_t start = oldest ? oldest->start : qp->sq.consumer;

    return qp->sq.producer - start > qp->sq.depth;
}

/* Copy the WQE at the consumer index, once.  False: the queue is unusable. */
static bool sq_fetch(RnicQp *qp)
{
    unsigned units;

    if (sq_overrun(qp)) {
        trace_rnic_ub_sq_producer(qp->qpn, qp->sq.producer, qp->sq.consumer);
        return false;
    }
    if (!sq_read_units(qp, 0, 1)) {
        return false;
    }
    units = sq_head(qp)->units;
    if (units < 1 || units > RNIC_SQ_MAX_UNITS || units > sq_posted(qp)) {
        trace_rnic_ub_sq_wqe(qp->qpn, sq_head(qp)->opcode, units);
        return false;
    }
    if (!sq_read_units(qp, 1, units - 1)) {
        return false;
    }
    qp->sq.fetched = true;
    qp->sq.messages_count = 0;
    return true;
}

/* -------------------------------------------------------- complete */

static void sq_post_cqe(RnicQp *qp, const RnicSendWork *work,
                     enum rnic_wc_status status)
{
    struct rnic_cqe cqe = {
        .wr_id = cpu_to_le64(work->wr_id),
        .qpn = cpu_to_le32(qp->qpn),
        .byte_len = cpu_to_le32(work->before + work->length),
        .wq_consumer = cpu_to_le32(work->end),
        .imm = cpu_to_le32(status == RNIC_WC_REMOTE_TERMINATION
                           ? qp->terminate_code : 0),
        .status = status,
        .opcode = work->opcode,
    };

    if (work->question) {
        return;
    }
    if (!rnic_qp_post_cqe(qp, qp->send_cq, &cqe) &&
        qp->state == RNIC_QPS_RTS) {
        rnic_qp_local_error(qp, RNIC_AE_CQ_SQ_ERROR, IWARP_TERM_STREAM);
    }
}

/* What the peer answers, in order: Reads, and atomics with them (RFC 7306 5). */
static bool sq_is_read_type(uint8_t opcode)
{
    return opcode == RNIC_SQ_RDMA_READ ||
           opcode == RNIC_SQ_RDMA_READ_INVALIDATE ||
           sq_is_atomic_type(opcode);
}

/* The first Read is done, or leaves undone: the next one is the first. */
static void sq_leave_read(RnicSendQueue *sq)
{
    sq->reads--;
    do {
        sq->read = QSIMPLEQ_NEXT(sq->read, next);
    } while (sq->read && !sq_is_read_type(sq->read->opcode));
}

/* The oldest of the works, which is the caller's to free. */
static RnicSendWork *sq_take_work(RnicSendQueue *sq)
{
    RnicSendWork *work = QSIMPLEQ_FIRST(&sq->works);

    if (work == sq->read) {
        sq_leave_read(sq);
    }
    QSIMPLEQ_REMOVE_HEAD(&sq->works, next);
    sq->works_count--;
    return work;
}

static bool sq_work_is_done(const RnicQp *qp, const RnicSendWork *work)
{
    return work->done || (work->message && !sq_is_read_type(work->opcode) &&
                          work->message <= qp->direct.acknowledged);
}

static void sq_complete_done(RnicQp *qp)
{
    RnicSendQueue *sq = &qp->sq;
    RnicSendWork *work;

    while ((work = QSIMPLEQ_FIRST(&sq->works)) && sq_work_is_done(qp, work)) {
        sq_take_work(sq);
        if (work->signaled) {
            sq_post_cqe(qp, work, RNIC_WC_SUCCESS);
        }
        g_free(work);
    }
}

static RnicSendWork sq_work_at_head(const RnicQp *qp)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);
    RnicSendWork work = {
        .wr_id = le64_to_cpu(wqe->wr_id),
        .start = qp->sq.consumer,
        .end = qp->sq.consumer + wqe->units,
        .opcode = wqe->opcode,
        .signaled = (wqe->flags & RNIC_WQE_SIGNALED) ||
                    (qp->enables & RNIC_QP_SIGNAL_ALL),
        .messages_count = qp->sq.messages_count,
    };

    memcpy(work.messages, qp->sq.messages, sizeof(work.messages));
    return work;
}

/* The WQE has been used: the next one is to be fetched. */
static void sq_advance(RnicQp *qp)
{
    qp->sq.consumer += sq_head(qp)->units;
    qp->sq.fetched = false;
    qp->sq.requested = 0;
    qp->sq.list = 0;
    qp->sq.refused = 0;
    rnic_count(&qp->s->counters.sq_wrs, 1);
    qp->sq_wrs++;
}

static void sq_append_work(RnicQp *qp, const RnicSendWork *work)
{
    RnicSendWork *copy = g_memdup2(work, sizeof(*work));

    QSIMPLEQ_INSERT_TAIL(&qp->sq.works, copy, next);
    qp->sq.works_count++;
    if (sq_is_read_type(work->opcode)) {
        qp->sq.reads++;
        qp->sq.read = qp->sq.read ?: copy;
    }
}

/* A Read or atomic, whose request begins now. */
static void sq_append_request(RnicQp *qp, RnicSendWork *work,
                              const IwarpTxMessage *request)
{
    work->messages[0] = rnic_sent_message(&qp->stream->tx, request);
    work->messages_count = 1;
    sq_append_work(qp, work);
}

/* The WR in sq.wqe has been done: complete, once nothing is before it. */
static void sq_finish_head(RnicQp *qp)
{
    RnicSendWork work = sq_work_at_head(qp);

    sq_advance(qp);
    work.done = true;
    if (!QSIMPLEQ_EMPTY(&qp->sq.works)) {
        sq_append_work(qp, &work);
    } else if (work.signaled) {
        sq_post_cqe(qp, &work, RNIC_WC_SUCCESS);
    }
}

/* The WR in sq.wqe has been sent to a peer that acknowledges it. */
static void sq_await_acknowledgement(RnicQp *qp)
{
    RnicSendWork work = sq_work_at_head(qp);

    sq_advance(qp);
    work.message = qp->direct.sent;
    sq_append_work(qp, &work);
}

/*
 * The WR of the oldest work ends with @status, and with one CQE: its other works
 * leave too, and so does its WQE if more of it was to be requested.
 */
static void sq_end_oldest(RnicQp *qp, enum rnic_wc_status status)
{
    RnicSendWork *work = sq_take_work(&qp->sq);
    bool question = work->question;
    uint32_t start = work->start;

    sq_post_cqe(qp, work, status);
    g_free(work);
    if (question) {
        return;
    }
    while ((work = QSIMPLEQ_FIRST(&qp->sq.works)) && work->start == start) {
        g_free(sq_take_work(&qp->sq));
    }
    if (qp->sq.fetched && qp->sq.consumer == start) {
        sq_advance(qp);
        if (qp->job.kind == RNIC_JOB_WORK) {
            qp->job.kind = RNIC_JOB_NONE;
        }
    }
}

/* Flush up to @max of the works; returns how many. */
static unsigned sq_flush_works(RnicQp *qp, unsigned max)
{
    unsigned n = 0;

    while (n < max && !QSIMPLEQ_EMPTY(&qp->sq.works)) {
        /* Also what was sent, but behind a Read that did not come back. */
        sq_end_oldest(qp, RNIC_WC_FLUSHED);
        n++;
    }
    return n;
}

/* The WR in sq.wqe fails; everything before it is complete. */
static void sq_fail_head(RnicQp *qp, enum rnic_wc_status status)
{
    RnicSendWork work = sq_work_at_head(qp);

    trace_rnic_ub_sq_work_error(qp->qpn, work.wr_id, work.opcode, status);
    sq_advance(qp);
    qp->job.kind = RNIC_JOB_NONE;
    sq_post_cqe(qp, &work, status);
    rnic_qp_local_error(qp, 0, IWARP_TERM_RDMAP_LOCAL);
}

/* ----------------------------------------------------------- check */

/* Octets of the SGL; V8.1.3.2-4: at most 2^32 - 1. */
static uint64_t sq_sgl_length(const RnicQp *qp)
{
    uint64_t total = 0;

    if (sq_head(qp)->flags & RNIC_WQE_INLINE) {
        return le32_to_cpu(sq_head(qp)->data_length);
    }
    for (unsigned i = 0; i < sq_head(qp)->num_sge; i++) {
        total += le32_to_cpu(sq_sges(qp)[i].length);
    }
    return total;
}

RnicAccessResult rnic_sq_map(RnicQp *qp, uint64_t offset, uint64_t len,
                             RnicDmaMap *map)
{
    return rnic_tpt_map_sgl(qp->s, &qp->who, sq_sges(qp), sq_head(qp)->num_sge,
                            offset, len, RNIC_ACCESS_LOCAL_READ, map);
}

/* The whole source before its first octet is sent (7.4.1). */
static enum rnic_wc_status sq_check_source(RnicQp *qp)
{
    uint64_t len = sq_sgl_length(qp);

    if (len > UINT32_MAX) {
        return RNIC_WC_INVALID_LENGTH;
    }
    /* Inline data has no SGE. */
    return rnic_access_status(rnic_sq_map(qp, 0, len, NULL));
}

/* V8.1.3.2.1-3: STag zero is never a remote one; no octets, no check. */
static bool sq_names_stag_zero(const RnicQp *qp)
{
    return sq_head(qp)->remote_stag == 0 && sq_sgl_length(qp) > 0;
}

/* Of a sink only that it is there (V8.1.2.2-3); its rights when the data arrives
 * (7.4.2, 7.5.2). */
static RnicAccessResult sq_check_sinks(RnicQp *qp)
{
    RnicAccessResult result = RNIC_ACCESS_OK;
    unsigned count = sq_head(qp)->num_sge;
    RnicTarget target;

    for (unsigned i = 0; i < count && result == RNIC_ACCESS_OK; i++) {
        const struct rnic_sge *sink = &sq_sges(qp)[i];
        uint32_t len = le32_to_cpu(sink->length);

        if (len > 0) {
            result = rnic_tpt_check_remote(qp->s, &qp->who,
                                           le32_to_cpu(sink->stag),
                                           le64_to_cpu(sink->to), len, 0,
                                           &target);
        }
    }
    return result;
}

static enum rnic_wc_status sq_check_read(RnicQp *qp)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);
    uint64_t len = sq_sgl_length(qp);

    if (len > UINT32_MAX) {
        return RNIC_WC_INVALID_LENGTH;
    }
    if (sq_names_stag_zero(qp)) {
        return RNIC_WC_INVALID_STAG;
    }
    if (qp->ord == 0) {
        return RNIC_WC_ZERO_READ_RESOURCES;
    }
    /* Of several requests the peer cannot see that all of them together wrap. */
    if (wqe->num_sge > 1 && iwarp_to_wraps(le64_to_cpu(wqe->remote_to), len)) {
        return RNIC_WC_WRAP;
    }
    return rnic_access_status(sq_check_sinks(qp));
}

static enum rnic_wc_status sq_check_atomic(RnicQp *qp)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);
    const struct rnic_atomic_wqe *args = sq_arguments(qp);

    if (wqe->num_sge != 1 ||
        (wqe->opcode == RNIC_SQ_FETCH_ADD && args->compare)) {
        return RNIC_WC_INVALID_WQE;
    }
    if (sq_sgl_length(qp) != sizeof(uint64_t)) {
        return RNIC_WC_INVALID_LENGTH;
    }
    if (sq_names_stag_zero(qp)) {
        return RNIC_WC_INVALID_STAG;
    }
    if (qp->ord == 0) {
        return RNIC_WC_ZERO_READ_RESOURCES;
    }
    return rnic_access_status(
        rnic_tpt_map_sgl(qp->s, &qp->who, sq_sges(qp), 1, 0, sizeof(uint64_t),
                         RNIC_ACCESS_LOCAL_WRITE, NULL));
}

static enum rnic_wc_status sq_check_write(RnicQp *qp)
{
    return sq_names_stag_zero(qp) ? RNIC_WC_INVALID_STAG : sq_check_source(qp);
}

static enum rnic_wc_status sq_check_fast_register(RnicQp *qp)
{
    const struct rnic_fast_register_wqe *args = sq_arguments(qp);

    if (!buffer_is_zero(args->reserved, sizeof(args->reserved)) ||
        !buffer_is_zero(args->reserved2, sizeof(args->reserved2))) {
        return RNIC_WC_INVALID_WQE;
    }
    return qp->enables & RNIC_QP_PRIVILEGED ? RNIC_WC_SUCCESS
                                            : RNIC_WC_NOT_PRIVILEGED;
}

static enum rnic_wc_status sq_check_bind(RnicQp *qp)
{
    const struct rnic_bind_wqe *args = sq_arguments(qp);

    if (!buffer_is_zero(args->reserved, sizeof(args->reserved))) {
        return RNIC_WC_INVALID_WQE;
    }
    return qp->enables & RNIC_QP_ENABLE_BIND ? RNIC_WC_SUCCESS
                                             : RNIC_WC_ACCESS_VIOLATION;
}

static enum rnic_wc_status sq_check_nothing(RnicQp *qp)
{
    return RNIC_WC_SUCCESS;
}

/* ----------------------------------------------------- fences, ORD */

static bool sq_read_fence_waits(const RnicQp *qp)
{
    return (sq_head(qp)->flags & RNIC_WQE_READ_FENCE) && qp->sq.reads;
}

static bool sq_local_fence_waits(const RnicQp *qp)
{
    return (sq_head(qp)->flags & RNIC_WQE_LOCAL_FENCE) &&
           !QSIMPLEQ_EMPTY(&qp->sq.works);
}

/* V8.2.2-17.  With ORD 0 it would wait for ever; sq_check_read() refuses it. */
static bool sq_ord_waits(const RnicQp *qp)
{
    return qp->ord && qp->sq.reads + qp->stream->rtr_read >= qp->ord;
}

static bool sq_atomic_waits(const RnicQp *qp)
{
    return sq_read_fence_waits(qp) || sq_ord_waits(qp);
}

static bool sq_never_waits(const RnicQp *qp)
{
    return false;
}

/* ----------------------------------------------------------- begin */

static IwarpOpcode sq_send_opcode(const struct rnic_sq_wqe *wqe)
{
    bool se = wqe->flags & RNIC_WQE_SOLICITED;

    if (wqe->opcode == RNIC_SQ_SEND_INVALIDATE) {
        return se ? IWARP_OP_SEND_SE_INV : IWARP_OP_SEND_INV;
    }
    return se ? IWARP_OP_SEND_SE : IWARP_OP_SEND;
}

static void sq_begin_send(RnicQp *qp, RnicJob *job)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);

    job->msg = (IwarpTxMessage) {
        .opcode = sq_send_opcode(wqe),
        .inv_stag = le32_to_cpu(wqe->invalidate_stag),
        .length = sq_sgl_length(qp),
    };
}

static void sq_begin_write(RnicQp *qp, RnicJob *job)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);

    job->msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_WRITE,
        .stag = le32_to_cpu(wqe->remote_stag),
        .to = le64_to_cpu(wqe->remote_to),
        .length = sq_sgl_length(qp),
    };
    rnic_direct_note_exclude(qp, &job->msg);
}

static bool sq_all_requested(const RnicQp *qp)
{
    return qp->sq.requested == sq_sgl_length(qp);
}

/* Where the next octets of the Read go: the first SGE, if there are none. */
static struct rnic_sge sq_next_sink(const RnicQp *qp)
{
    const struct rnic_sge *sges = sq_sges(qp);
    uint64_t before = qp->sq.requested;

    for (unsigned i = 0; i < sq_head(qp)->num_sge; i++) {
        uint32_t length = le32_to_cpu(sges[i].length);

        if (length > before) {
            return sges[i];
        }
        before -= length;
    }
    return sq_head(qp)->num_sge ? sges[0] : (struct rnic_sge) { };
}

/*
 * A Read becomes a work in progress before its request is sent.  One with several
 * SGEs comes here for each that has octets (R5.2.2-7).
 */
static void sq_begin_read(RnicQp *qp, RnicJob *job)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);
    struct rnic_sge sink = sq_next_sink(qp);
    RnicSendWork work = sq_work_at_head(qp);
    IwarpReadRequest request = {
        .size = le32_to_cpu(sink.length),
        .source_stag = le32_to_cpu(wqe->remote_stag),
        .source_to = le64_to_cpu(wqe->remote_to) + qp->sq.requested,
    };

    work.before = qp->sq.requested;
    qp->sq.requested += request.size;
    work.signaled = work.signaled && sq_all_requested(qp);
    work.sink_stag = le32_to_cpu(sink.stag);
    work.sink_to = le64_to_cpu(sink.to);
    if (request.size == 0 && work.sink_stag == 0) {
        work.sink_to = 0;       /* not to be taken for the question */
    }
    work.length = request.size;
    work.message = qp->direct.sent;
    request.sink_stag = work.sink_stag;
    request.sink_to = work.sink_to;
    iwarp_read_request_encode(&request, job->header);
    job->msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_READ_REQUEST,
        .header = job->header,
        .header_len = IWARP_READ_REQUEST_LEN,
    };
    sq_append_request(qp, &work, &job->msg);
}

static void sq_begin_immediate(RnicQp *qp, RnicJob *job)
{
    rnic_extensions_immediate(sq_head(qp), &job->msg, job->header);
}

/* As a Read: a work in progress before the request is sent. */
static void sq_begin_atomic(RnicQp *qp, RnicJob *job)
{
    RnicSendWork work = sq_work_at_head(qp);

    work.sink_stag = le32_to_cpu(sq_sges(qp)[0].stag);
    work.sink_to = le64_to_cpu(sq_sges(qp)[0].to);
    work.length = sizeof(uint64_t);
    work.message = qp->direct.sent;
    qp->sq.requested = work.length;
    rnic_extensions_atomic(sq_head(qp), sq_arguments(qp), work.start,
                           &job->msg, job->header);
    sq_append_request(qp, &work, &job->msg);
}

static void sq_begin_question(RnicQp *qp, RnicJob *job)
{
    RnicSendWork work = {
        .start = qp->sq.consumer,
        .end = qp->sq.consumer,
        .opcode = RNIC_SQ_RDMA_READ,
        .question = true,
        .message = qp->direct.sent,
    };

    rnic_extensions_ask(qp, &job->msg, job->header);
    sq_append_request(qp, &work, &job->msg);
}

static enum rnic_wc_status sq_do_invalidate(RnicQp *qp, uint32_t stag)
{
    return rnic_access_status(
        rnic_tpt_invalidate(qp->s, &qp->who, stag, false));
}

static enum rnic_wc_status sq_local_invalidate(RnicQp *qp)
{
    return sq_do_invalidate(qp, le32_to_cpu(sq_head(qp)->invalidate_stag));
}

/* The part of its list that the turn reads counts as what a turn maps. */
static enum rnic_wc_status sq_fast_register(RnicQp *qp)
{
    const struct rnic_fast_register_wqe *args = sq_arguments(qp);
    bool began_before = qp->sq.list;
    enum rnic_wc_status status;

    qp->worker->window.pieces += MIN(le32_to_cpu(args->pages.count),
                                     RNIC_FAST_REGISTER_PART);
    status = rnic_tpt_fast_register(qp->s, &qp->who, args, &qp->sq.list);
    if (began_before && status != RNIC_WC_SUCCESS) {
        /* While it waits for those before it a long list is not read again. */
        qp->sq.refused = status;
    }
    return status;
}

static enum rnic_wc_status sq_bind(RnicQp *qp)
{
    return rnic_tpt_bind(qp->s, &qp->who, sq_arguments(qp));
}

/* ----------------------------------------------------------- types */

/* What distinguishes the types of WRs. */
typedef struct WorkType {
    enum rnic_wc_status (*check)(RnicQp *qp);   /* all but the form */
    bool (*waits)(const RnicQp *qp);            /* 8.2.2.2 */
    void (*begin)(RnicQp *qp, RnicJob *job);    /* makes the message */
    enum rnic_wc_status (*execute)(RnicQp *qp); /* instead: it is local */
    void (*second)(RnicQp *qp, RnicJob *job);   /* makes the one that follows */
    uint8_t args;               /* octets of its arguments, in front of its SGEs */
    bool inline_data;           /* which may be its octets instead */
    uint64_t needs;             /* RNIC_FEATURE_* to be accepted */
} WorkType;

static const WorkType work_types[] = {
    [RNIC_SQ_SEND] = {
        sq_check_source, sq_read_fence_waits, sq_begin_send,
        .inline_data = true },
    [RNIC_SQ_SEND_INVALIDATE] = {
        sq_check_source, sq_read_fence_waits, sq_begin_send,
        .inline_data = true, .needs = RNIC_FEATURE_REMOTE_INVALIDATE },
    [RNIC_SQ_RDMA_WRITE] = {
        sq_check_write, sq_read_fence_waits, sq_begin_write,
        .inline_data = true },
    [RNIC_SQ_RDMA_READ] = { sq_check_read, sq_ord_waits, sq_begin_read },
    [RNIC_SQ_RDMA_READ_INVALIDATE] = {
        sq_check_read, sq_ord_waits, sq_begin_read,
        .needs = RNIC_FEATURE_READ_INVALIDATE },
    [RNIC_SQ_FAST_REGISTER] = {
        sq_check_fast_register, sq_never_waits, .execute = sq_fast_register,
        .args = sizeof(struct rnic_fast_register_wqe),
        .needs = RNIC_FEATURE_FAST_REGISTER },
    [RNIC_SQ_BIND_MW] = {
        sq_check_bind, sq_local_fence_waits, .execute = sq_bind,
        .args = sizeof(struct rnic_bind_wqe),
        .needs = RNIC_FEATURE_MEMORY_WINDOW },
    [RNIC_SQ_LOCAL_INVALIDATE] = {
        sq_check_nothing, sq_local_fence_waits,
        .execute = sq_local_invalidate,
        .needs = RNIC_FEATURE_LOCAL_INVALIDATE },
    [RNIC_SQ_SEND_IMMEDIATE] = {
        sq_check_source, sq_read_fence_waits, sq_begin_immediate,
        .second = sq_begin_send, .inline_data = true,
        .needs = RNIC_FEATURE_RDMAP_EXTENSIONS },
    [RNIC_SQ_WRITE_IMMEDIATE] = {
        sq_check_write, sq_read_fence_waits, sq_begin_write,
        .second = sq_begin_immediate, .inline_data = true,
        .needs = RNIC_FEATURE_RDMAP_EXTENSIONS },
    [RNIC_SQ_FETCH_ADD] = {
        sq_check_atomic, sq_atomic_waits, sq_begin_atomic,
        .args = sizeof(struct rnic_atomic_wqe),
        .needs = RNIC_FEATURE_RDMAP_EXTENSIONS },
    [RNIC_SQ_COMPARE_SWAP] = {
        sq_check_atomic, sq_atomic_waits, sq_begin_atomic,
        .args = sizeof(struct rnic_atomic_wqe),
        .needs = RNIC_FEATURE_RDMAP_EXTENSIONS },
};

static bool sq_is_read(const RnicQp *qp)
{
    return sq_is_read_type(sq_head(qp)->opcode);
}

static unsigned sq_max_sge(const RnicQp *qp, const WorkType *type)
{
    if (!type->begin) {
        return 0;
    }
    if (sq_is_read(qp)) {
        return sq_head(qp)->opcode == RNIC_SQ_RDMA_READ &&
               (qp->enables & RNIC_QP_READ_LIST) ? RNIC_MAX_READ_SGE : 1;
    }
    return type->check == sq_check_write ? qp->max_write_sge : qp->max_send_sge;
}

static bool sq_form_ok(const RnicQp *qp, const WorkType *type)
{
    const struct rnic_sq_wqe *wqe = sq_head(qp);
    uint32_t data = le32_to_cpu(wqe->data_length);
    unsigned max_sge = sq_max_sge(qp, type);
    uint32_t max_data = 0;

    if (wqe->flags & RNIC_WQE_INLINE) {
        max_sge = 0;
        max_data = RNIC_MAX_INLINE;
    }
    return !(wqe->flags & ~KNOWN_FLAGS) &&
           (type->inline_data || !(wqe->flags & RNIC_WQE_INLINE)) &&
           wqe->num_sge <= max_sge && data <= max_data &&
           wqe->units == DIV_ROUND_UP(
               HEADER + type->args + data +
               wqe->num_sge * sizeof(struct rnic_sge), RNIC_SQ_UNIT);
}

/* NULL, with the completion status: there is none. */
static const WorkType *sq_work_type(const RnicQp *qp,
                                    enum rnic_wc_status *status)
{
    uint8_t opcode = sq_head(qp)->opcode;
    const WorkType *type = opcode < ARRAY_SIZE(work_types)
                           ? &work_types[opcode] : NULL;

    if (type && !rnic_accepted(qp->s, type->needs)) {
        *status = RNIC_WC_UNSUPPORTED;
        return NULL;
    }
    *status = RNIC_WC_INVALID_WQE;
    return type && type->check ? type : NULL;
}

/* The next WR cannot be done; it fails once those before it are complete. */
static RnicSqStep sq_refuse(RnicQp *qp, enum rnic_wc_status status)
{
    if (!QSIMPLEQ_EMPTY(&qp->sq.works)) {
        return RNIC_SQ_EMPTY;
    }
    sq_fail_head(qp, status);
    return RNIC_SQ_FAILED;
}

static RnicSqStep sq_broken(RnicQp *qp)
{
    rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
    return RNIC_SQ_FAILED;
}

/* While a WR waits nothing else looks at what the guest goes on to post. */
static RnicSqStep sq_wait(RnicQp *qp)
{
    return sq_load_producer(qp) && !sq_overrun(qp) ? RNIC_SQ_EMPTY
                                                   : sq_broken(qp);
}

/* May the peer be sent messages of RFC 7306?  MESSAGE: yes. */
static RnicSqStep sq_extensions_gate(RnicQp *qp, RnicJob *job)
{
    switch (qp->extensions.state) {
    case RNIC_EXTENSIONS_AGREED:
        return RNIC_SQ_MESSAGE;
    case RNIC_EXTENSIONS_ASKED:
        return sq_wait(qp);
    case RNIC_EXTENSIONS_UNKNOWN:
        if (qp->ord == 0) {
            break;              /* the question is a Read */
        }
        if (sq_ord_waits(qp)) {
            return sq_wait(qp);
        }
        sq_begin_question(qp, job);
        return RNIC_SQ_QUESTION;
    case RNIC_EXTENSIONS_REFUSED:
        break;
    }
    return sq_refuse(qp, RNIC_WC_UNSUPPORTED);
}

/* Of the WR in sq.wqe; a Read's or atomic's is its work's. */
static void sq_message_begins(RnicQp *qp, const IwarpTxMessage *msg)
{
    RnicSendQueue *sq = &qp->sq;

    if (!sq_is_read(qp)) {
        sq->messages[sq->messages_count++] =
            rnic_sent_message(&qp->stream->tx, msg);
    }
}

RnicSqStep rnic_sq_begin(RnicQp *qp, RnicJob *job)
{
    RnicSqStep step = RNIC_SQ_MESSAGE;
    enum rnic_wc_status status;
    const WorkType *type;

    if (!qp->sq.fetched) {
        if (!sq_look(qp)) {
            return sq_broken(qp);
        }
        if (qp->sq.producer == qp->sq.consumer) {
            return RNIC_SQ_EMPTY;
        }
        if (!sq_fetch(qp)) {
            return sq_broken(qp);
        }
    }
    if (qp->sq.refused) {
        return sq_refuse(qp, qp->sq.refused);
    }
    type = sq_work_type(qp, &status);
    if (qp->sq.works_count >= WORKS_MAX || (type && type->waits(qp))) {
        return sq_wait(qp);
    }
    if (type) {
        status = sq_form_ok(qp, type) ? type->check(qp) : RNIC_WC_INVALID_WQE;
    }
    if (status == RNIC_WC_SUCCESS && type->execute) {
        status = type->execute(qp);
    }
    if (status != RNIC_WC_SUCCESS) {
        return sq_refuse(qp, status);
    }
    if (qp->sq.list) {
        rnic_qp_kick(qp);       /* it goes on in the next turn */
        return sq_wait(qp);
    }
    if (type->execute) {
        sq_finish_head(qp);
        return qp->state == RNIC_QPS_RTS ? RNIC_SQ_LOCAL : RNIC_SQ_FAILED;
    }
    /* RFC 7306: the peer has to agree. */
    if (type->needs == RNIC_FEATURE_RDMAP_EXTENSIONS) {
        step = sq_extensions_gate(qp, job);
    }
    if (step == RNIC_SQ_MESSAGE) {
        /* From here there is this one and type->second: no more than the array has. */
        qp->sq.messages_count = 0;
        type->begin(qp, job);
        sq_message_begins(qp, &job->msg);
    }
    return step;
}

/* Each message is acknowledged; the WR completes with the last one. */
bool rnic_sq_sent(RnicQp *qp, RnicJob *job)
{
    const WorkType *type = &work_types[sq_head(qp)->opcode];

    if (sq_is_read(qp)) {
        if (sq_all_requested(qp)) {
            sq_advance(qp);
        }
        return false;
    }
    qp->direct.sent += qp->direct.connected;
    if (type->second && !job->second) {
        type->second(qp, job);
        sq_message_begins(qp, &job->msg);
        return true;
    }
    if (qp->direct.connected) {
        sq_await_acknowledgement(qp);
    } else {
        sq_finish_head(qp);
    }
    return false;
}

void rnic_sq_acknowledged(RnicQp *qp)
{
    sq_complete_done(qp);
    rnic_qp_kick(qp);           /* what waited for these may begin */
}

/* Some of the message has been sent: nothing can wait for those before it. */
void rnic_sq_source_error(RnicQp *qp, RnicAccessResult result)
{
    sq_flush_works(qp, UINT_MAX);
    sq_fail_head(qp, rnic_access_status(result));
}

/* ----------------------------------------------------------- reads */

/* Its request is still to be sent: so nothing has begun behind it. */
static bool sq_read_is_begun(const RnicQp *qp, const RnicSendWork *read)
{
    return !QSIMPLEQ_NEXT(read, next) && read->start == qp->sq.consumer &&
           qp->job.kind == (read->question ? RNIC_JOB_QUESTION : RNIC_JOB_WORK);
}

/* No peer can answer what it has not been asked. */
RnicSendWork *rnic_sq_current_read(RnicQp *qp)
{
    RnicSendWork *read = qp->sq.read;

    return read && !sq_read_is_begun(qp, read) ? read : NULL;
}

bool rnic_sq_is_atomic(const RnicSendWork *work)
{
    return sq_is_atomic_type(work->opcode);
}

/* The first Read or atomic ends with @status. */
static void sq_end_read(RnicQp *qp, enum rnic_wc_status status)
{
    RnicSendWork *work = qp->sq.read;

    /* Its response shows that what was sent before it has been delivered. */
    qp->direct.acknowledged = MAX(qp->direct.acknowledged, work->message);
    sq_complete_done(qp);
    if (status == RNIC_WC_SUCCESS) {
        sq_leave_read(&qp->sq);
        work->done = true;
        sq_complete_done(qp);
        rnic_qp_kick(qp);
        return;
    }
    sq_end_oldest(qp, status);
    rnic_qp_local_error(qp, 0, IWARP_TERM_RDMAP_LOCAL);
}

void rnic_sq_read_done(RnicQp *qp, uint64_t to)
{
    const RnicSendWork *work = qp->sq.read;
    enum rnic_wc_status status = RNIC_WC_SUCCESS;

    if (work->question) {
        rnic_extensions_answered(qp, to);
    } else if (work->opcode == RNIC_SQ_RDMA_READ_INVALIDATE) {
        status = sq_do_invalidate(qp, work->sink_stag);
    }
    sq_end_read(qp, status);
}

void rnic_sq_read_failed(RnicQp *qp, enum rnic_wc_status status)
{
    sq_end_read(qp, status);
}

/* Its memory may have gone since the check at the start. */
static enum rnic_wc_status sq_place_original(RnicQp *qp, uint64_t original)
{
    const RnicSendWork *work = qp->sq.read;
    struct rnic_sge sink = {
        .to = cpu_to_le64(work->sink_to),
        .stag = cpu_to_le32(work->sink_stag),
        .length = cpu_to_le32(sizeof(original)),
    };
    uint64_t octets = cpu_to_le64(original);
    QEMU_UNINITIALIZED RnicDmaMap map;
    RnicAccessResult result;

    rnic_dma_map_init(&map, &qp->worker->window, true);
    result = rnic_tpt_map_sgl(qp->s, &qp->who, &sink, 1, 0, sizeof(octets),
                              RNIC_ACCESS_LOCAL_WRITE, &map);
    if (result == RNIC_ACCESS_OK) {
        rnic_guest_memory_begin();
        iov_from_buf(map.iov, map.count, 0, &octets, sizeof(octets));
        rnic_guest_memory_end();
    }
    rnic_dma_unmap(qp->s, &map);
    return rnic_access_status(result);
}

void rnic_sq_atomic_done(RnicQp *qp, uint64_t original)
{
    sq_end_read(qp, sq_place_original(qp, original));
}

/* ----------------------------------------------------------- errors */

bool rnic_sq_fail_oldest(RnicQp *qp, enum rnic_wc_status status)
{
    RnicSendWork posted;

    while (!QSIMPLEQ_EMPTY(&qp->sq.works)) {
        bool question = QSIMPLEQ_FIRST(&qp->sq.works)->question;

        sq_end_oldest(qp, status);
        if (!question) {
            return true;
        }
    }
    if (!qp->sq.fetched && (!rnic_sq_has_wqe(qp) || !sq_fetch(qp))) {
        return false;
    }
    posted = sq_work_at_head(qp);
    sq_advance(qp);
    qp->job.kind = RNIC_JOB_NONE;
    sq_post_cqe(qp, &posted, status);
    return true;
}

/* ----------------------------------------- what a Terminate is about */

/* The header of ours that @t shows; false: it shows none. */
static bool sq_header_shown(const IwarpTerminate *t, IwarpDdpHeader *header)
{
    return t->has_ddp && iwarp_ddp_decode(header, t->ddp, t->ddp_len);
}

/* The peer has answered the Read, or told that it has the message. */
static bool sq_work_is_delivered(const RnicQp *qp, const RnicSendWork *work)
{
    return sq_work_is_done(qp, work) &&
           (work->message || sq_is_read_type(work->opcode));
}

static RnicSendWork *sq_work_of_header(RnicQp *qp, const IwarpDdpHeader *header)
{
    RnicSendWork *work;

    QSIMPLEQ_FOREACH(work, &qp->sq.works, next) {
        for (unsigned i = 0; i < work->messages_count; i++) {
            if (rnic_sent_message_is(&work->messages[i], UINT32_MAX, header) &&
                !sq_work_is_delivered(qp, work)) {
                return work;
            }
        }
    }
    return NULL;
}

/*
 * The WR that has been sent, or whose answer is due.  Without a header the code has to
 * do: an error of a Read is the oldest one's, as peers answer in order.  siw writes the
 * size of a Read that it cannot answer where the MSN belongs.
 */
static RnicSendWork *sq_work_concerned(RnicQp *qp, const IwarpTerminate *t)
{
    bool rdmap = iwarp_term_layer(t->term) == IWARP_LAYER_RDMAP;
    IwarpDdpHeader header;
    RnicSendWork *work;

    if (!sq_header_shown(t, &header)) {
        return (t->term & 0xff00) == IWARP_TERM_READ_STAG &&
               t->term != IWARP_TERM_INVALIDATE
               ? rnic_sq_current_read(qp) : NULL;
    }
    if (t->siw_layout && rdmap && !header.tagged && header.qn == IWARP_QN_READ) {
        return rnic_sq_current_read(qp);
    }
    work = sq_work_of_header(qp, &header);
    return work && sq_is_read_type(work->opcode) && sq_read_is_begun(qp, work)
           ? NULL : work;
}

/* Of no message: what has befallen the peer, or all of the stream (RFC 5040 4.8). */
static bool sq_code_is_of_stream(IwarpTermCode term)
{
    return term == IWARP_TERM_RDMAP_LOCAL || term == IWARP_TERM_STREAM ||
           term == IWARP_TERM_GLOBAL;
}

/* The WR that is being sent.  Without a header it may as well be about a Read. */
static bool sq_head_concerned(const RnicQp *qp, const IwarpTerminate *t)
{
    const RnicSendQueue *sq = &qp->sq;
    IwarpDdpHeader header;

    if (qp->job.kind != RNIC_JOB_WORK) {
        return false;
    }
    if (!sq_header_shown(t, &header)) {
        return !sq->read && !sq_code_is_of_stream(t->term);
    }
    for (unsigned i = 0; i < sq->messages_count; i++) {
        bool last = i + 1 == sq->messages_count;

        if (rnic_sent_message_is(&sq->messages[i],
                                 last ? qp->job.offset : UINT32_MAX, &header)) {
            return true;
        }
    }
    return false;
}

/* The peer has all messages before the WR; Reads before it stay unanswered. */
static void sq_flush_before(RnicQp *qp, const RnicSendWork *work)
{
    const uint32_t start = work->start;

    if (qp->direct.connected) {
        uint64_t before = work->message - (sq_is_read_type(work->opcode)
                                           ? 0 : work->messages_count);

        qp->direct.acknowledged = MAX(qp->direct.acknowledged, before);
        sq_complete_done(qp);
    }
    while ((work = QSIMPLEQ_FIRST(&qp->sq.works)) && work->start != start) {
        sq_end_oldest(qp, RNIC_WC_FLUSHED);
    }
}

static void sq_flush_before_head(RnicQp *qp)
{
    qp->direct.acknowledged = qp->direct.sent;
    sq_complete_done(qp);
    sq_flush_works(qp, UINT_MAX);
}

/* A peer that acknowledges has not got a receive for the message. */
static enum rnic_wc_status sq_remote_status(const RnicQp *qp,
                                            const IwarpTerminate *t,
                                            const RnicSendWork *work)
{
    return t->term == IWARP_TERM_NO_BUFFER && qp->direct.connected &&
           !(work && sq_is_read_type(work->opcode))
           ? RNIC_WC_RNR_RETRY_EXCEEDED : RNIC_WC_REMOTE_TERMINATION;
}

/*
 * V9.5.2-5.  After a direct connect, one that shows no header is about the oldest WR:
 * programs written for InfiniBand wait for a WR that fails.
 */
bool rnic_sq_remote_error(RnicQp *qp, const IwarpTerminate *t)
{
    const RnicSendWork *work = sq_work_concerned(qp, t);
    enum rnic_wc_status status = sq_remote_status(qp, t, work);

    if (work) {
        sq_flush_before(qp, work);
    } else if (sq_head_concerned(qp, t)) {
        sq_flush_before_head(qp);
    } else if (!qp->direct.connected || t->has_ddp) {
        return false;
    }
    return rnic_sq_fail_oldest(qp, status);
}

/* ----------------------------------------------------------- flush */

/* The next posted WQE's id and length, as far as they can be trusted. */
static bool sq_flush_next_posted(RnicQp *qp)
{
    RnicSendWork work;

    if (!qp->sq.fetched && (!rnic_sq_has_wqe(qp) || !sq_fetch(qp))) {
        /* What cannot be understood cannot be completed either. */
        qp->sq.consumer = qp->sq.producer;
        return false;
    }
    work = sq_work_at_head(qp);
    sq_advance(qp);
    sq_post_cqe(qp, &work, RNIC_WC_FLUSHED);
    return true;
}

unsigned rnic_sq_flush(RnicQp *qp, unsigned max)
{
    unsigned n = sq_flush_works(qp, max);

    qp->job.kind = RNIC_JOB_NONE;
    while (n < max && sq_flush_next_posted(qp)) {
        n++;
    }
    return n;
}
