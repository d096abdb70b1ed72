/*
 * rnic: the receive queue, from WQE to filled buffer to CQE
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/guest/event-queue.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

/* Where the WQE came from, for whoever keeps count. */
static void rq_name_source(const RnicReceiveQueue *rq, struct rnic_cqe *cqe)
{
    cqe->flags |= RNIC_CQE_RECEIVE;
    if (rq->srq) {
        cqe->flags |= RNIC_CQE_SRQ;
        cqe->wq_consumer = cpu_to_le32(rnic_object_number(rq->srq));
    } else {
        cqe->wq_consumer = cpu_to_le32(rq->ring.consumer);
    }
}

static void rq_post_cqe(RnicQp *qp, struct rnic_cqe *cqe)
{
    rq_name_source(&qp->rq, cqe);
    cqe->wr_id = cpu_to_le64(qp->rq.wqe.wr_id);
    cqe->qpn = cpu_to_le32(qp->qpn);
    qp->rq.taken = false;
    rnic_count(&qp->s->counters.rq_wrs, 1);
    qp->rq_wrs++;
    if (!rnic_qp_post_cqe(qp, qp->recv_cq, cqe) &&
        qp->state == RNIC_QPS_RTS) {
        rnic_qp_local_error(qp, RNIC_AE_CQ_RQ_ERROR, IWARP_TERM_STREAM);
    }
}

void rnic_rq_arm_limit(RnicQp *qp, uint32_t limit)
{
    qp->rq.limit = limit;
    qp->rq.limit_armed = true;
}

/*
 * V6.3.8-6: messages being placed that have no CQE yet.  Segments are placed
 * in order, so there is never more than the one whose WQE was just taken.
 */
static void rq_check_limit(RnicQp *qp)
{
    const uint32_t in_progress = 1;

    if (qp->rq.limit_armed && in_progress > qp->rq.limit) {
        qp->rq.limit_armed = false;
        rnic_async_event(qp->s, RNIC_AE_QP_RQ_LIMIT, RNIC_RESOURCE_QP,
                         qp->qpn, qp->state, 0);
    }
}

static RnicRingTake rq_take(RnicQp *qp)
{
    RnicReceiveQueue *rq = &qp->rq;

    return rq->srq ? rnic_srq_take(qp->s, rq->srq, &rq->wqe)
                   : rnic_receive_ring_take(qp->s, &qp->mem, &rq->ring,
                                            &rq->wqe);
}

/* The queue, or its next WQE, cannot be read. */
static void rq_queue_error(RnicQp *qp)
{
    if (qp->rq.srq) {
        trace_rnic_ub_srq_take(qp->qpn, rnic_object_number(qp->rq.srq));
        rnic_qp_local_error(qp, RNIC_AE_SRQ_QP_ERROR, IWARP_TERM_STREAM);
    } else {
        trace_rnic_ub_rq_producer(qp->qpn, qp->rq.ring.producer,
                                  qp->rq.ring.consumer);
        rnic_qp_local_error(qp, RNIC_AE_QP_CATASTROPHIC, IWARP_TERM_STREAM);
    }
}

/* Success, or what is wrong with the WQE; sets the octets it has room for. */
static enum rnic_wc_status rq_measure(RnicReceiveQueue *rq)
{
    if (!rq->wqe.valid) {
        return RNIC_WC_INVALID_WQE;
    }
    rq->room = 0;
    for (uint32_t i = 0; i < rq->wqe.num_sge; i++) {
        rq->room += le32_to_cpu(rq->wqe.sge[i].length);
    }
    return rq->room > UINT32_MAX ? RNIC_WC_INVALID_LENGTH : RNIC_WC_SUCCESS;
}

RnicRingTake rnic_rq_take(RnicQp *qp)
{
    RnicReceiveQueue *rq = &qp->rq;
    RnicRingTake take = rq_take(qp);
    enum rnic_wc_status status;

    if (take == RNIC_RING_EMPTY) {
        return take;
    }
    if (take != RNIC_RING_TAKEN) {
        rq_queue_error(qp);
        return RNIC_RING_BROKEN;
    }
    rq->taken = true;
    rq_check_limit(qp);
    status = rq_measure(rq);
    if (status != RNIC_WC_SUCCESS) {
        IwarpError error = iwarp_error_local(IWARP_TERM_RDMAP_LOCAL);

        rnic_rq_fail(qp, status, &error);
        return RNIC_RING_BROKEN;
    }
    return RNIC_RING_TAKEN;
}

/*
 * On whose behalf the buffers of a WQE are accessed: the PD is the S-RQ's,
 * whether STag zero may be used is the QP's to say (V6.3.5-8, -10).
 */
static RnicAccessor rq_receiver(const RnicQp *qp)
{
    RnicAccessor who = qp->who;

    if (qp->rq.srq) {
        who.pd = rnic_srq_pd(qp->rq.srq);
    }
    return who;
}

RnicAccessResult rnic_rq_map(RnicQp *qp, uint64_t offset, uint32_t len,
                             RnicDmaMap *map)
{
    RnicAccessor who = rq_receiver(qp);

    return rnic_tpt_map_sgl(qp->s, &who, qp->rq.wqe.sge, qp->rq.wqe.num_sge,
                            offset, len, RNIC_ACCESS_LOCAL_WRITE, map);
}

void rnic_rq_complete(RnicQp *qp, const RnicReceived *m)
{
    struct rnic_cqe cqe = {
        .byte_len = cpu_to_le32(m->octets),
        .stag = cpu_to_le32(m->invalidated ? m->stag : 0),
        .status = RNIC_WC_SUCCESS,
        .opcode = m->written ? RNIC_SQ_WRITE_IMMEDIATE : 0,
        .flags = (m->solicited ? RNIC_CQE_SOLICITED : 0) |
                 (m->invalidated ? RNIC_CQE_INVALIDATED : 0) |
                 (m->immediate ? RNIC_CQE_IMMEDIATE : 0),
    };

    if (m->immediate) {
        memcpy(&cqe.imm, m->immediate, sizeof(cqe.imm));
    }
    rq_post_cqe(qp, &cqe);
}

void rnic_rq_fail(RnicQp *qp, enum rnic_wc_status status,
                  const IwarpError *error)
{
    struct rnic_cqe cqe = { .status = status };

    trace_rnic_ub_rq_work_error(qp->qpn, qp->rq.wqe.wr_id, status);
    rq_post_cqe(qp, &cqe);
    if (qp->state == RNIC_QPS_RTS) {
        rnic_qp_stream_error(qp, 0, error);
    }
}

/* The queue is empty: have the next post ring, then look once more. */
static bool rq_publish(RnicQp *qp)
{
    RnicReceiveQueue *rq = &qp->rq;

    if (rq->published == rq->ring.producer) {
        return false;
    }
    rq->published = rq->ring.producer;
    if (!rnic_record_store32(qp->s, &qp->mem,
                             offsetof(struct rnic_qp_record, rq_event),
                             rq->published)) {
        return false;
    }
    rnic_dma_barrier();
    return true;
}

bool rnic_rq_await(RnicQp *qp)
{
    return !qp->rq.srq && rq_publish(qp);
}

static void rq_post_flushed(RnicQp *qp)
{
    rq_post_cqe(qp, &(struct rnic_cqe) { .status = RNIC_WC_FLUSHED });
}

/* Flush one WQE of the QP's own RQ; false: there is none. */
static bool rq_flush_next(RnicQp *qp)
{
    RnicReceiveRing *ring = &qp->rq.ring;

    switch (rq_take(qp)) {
    case RNIC_RING_TAKEN:
        rq_post_flushed(qp);
        return true;
    case RNIC_RING_EMPTY:
        return rq_publish(qp) && rq_flush_next(qp);
    default:
        /* What cannot be understood cannot be completed either. */
        ring->consumer = ring->producer;
        return false;
    }
}

unsigned rnic_rq_flush(RnicQp *qp, unsigned max)
{
    unsigned n = 0;

    if (qp->rq.taken && max) {
        rq_post_flushed(qp);
        n++;
    }
    if (qp->rq.srq) {
        return n;
    }
    while (n < max && rq_flush_next(qp)) {
        n++;
    }
    return n;
}
