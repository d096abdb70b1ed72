/*
 * rnic: new queue memory for a queue pair, with other depths (V6.1.3-8)
 *
 * The main loop reads the page list, the QP's worker changes over within a turn,
 * the main loop forgets the memory of which there is no use any more.  WQEs that
 * the device has not copied are in the new rings by then: the guest has put them
 * there, and posts nothing until the command is complete.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qp-internal.h"
#include "qp-resize.h"
#include "hw/rnic/base/trace.h"

enum { SQ_DEPTH_MIN = RNIC_SQ_MAX_UNITS };

enum rnic_admin_status rnic_qp_check_sq_depth(uint32_t depth)
{
    if (depth > RNIC_SQ_MAX_DEPTH) {
        return RNIC_ST_SQ_WRS_EXCEEDED;
    }
    return depth >= SQ_DEPTH_MIN && is_power_of_2(depth)
           ? RNIC_ST_OK : RNIC_ST_BAD_QUEUE_MEMORY;
}

enum rnic_admin_status rnic_qp_check_rq_depth(uint32_t depth)
{
    if (depth > RNIC_RQ_MAX_DEPTH) {
        return RNIC_ST_RQ_WRS_EXCEEDED;
    }
    return is_power_of_2(depth) ? RNIC_ST_OK : RNIC_ST_BAD_QUEUE_MEMORY;
}

bool rnic_qp_resize_asked(const struct rnic_admin_sqe *sqe)
{
    return sqe->modify_qp.mask & cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH |
                                             RNIC_QP_MODIFY_RQ_DEPTH);
}

/* Both rings are in one memory, so both depths are told (V9.2.5.3-8). */
static enum rnic_admin_status resize_check_mask(const RnicQp *qp, uint32_t mask)
{
    bool sq = mask & RNIC_QP_MODIFY_SQ_DEPTH;
    bool rq = mask & RNIC_QP_MODIFY_RQ_DEPTH;

    if (!rnic_accepted(qp->s, RNIC_FEATURE_RESIZE_QP) || (rq && qp->rq.srq)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    return sq && (rq || qp->rq.srq) ? RNIC_ST_OK : RNIC_ST_INVALID_MODIFIER;
}

static enum rnic_admin_status resize_check(const RnicQp *qp,
                                           const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status =
        resize_check_mask(qp, le32_to_cpu(sqe->modify_qp.mask));

    if (status == RNIC_ST_OK) {
        status = rnic_qp_check_sq_depth(le32_to_cpu(sqe->modify_qp.sq_depth));
    }
    if (status == RNIC_ST_OK && !qp->rq.srq) {
        status = rnic_qp_check_rq_depth(le32_to_cpu(sqe->modify_qp.rq_depth));
    }
    return status;
}

static uint64_t resize_rq_octets(const RnicQp *qp,
                                 const struct rnic_admin_sqe *sqe)
{
    return qp->rq.srq ? 0 : (uint64_t)le32_to_cpu(sqe->modify_qp.rq_depth) <<
                            qp->rq.ring.wqe_shift;
}

enum rnic_admin_status rnic_qp_resize_prepare(RnicAdminRequest *q)
{
    RnicQp *qp = rnic_qp_get(q->s, le32_to_cpu(q->sqe.modify_qp.qpn));
    enum rnic_admin_status status;
    RnicQueueMemory mem;

    if (!qp || !rnic_qp_resize_asked(&q->sqe)) {
        return RNIC_ST_OK;
    }
    status = resize_check(qp, &q->sqe);
    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(
        q->s, &q->sqe.modify_qp.memory,
        (uint64_t)le32_to_cpu(q->sqe.modify_qp.sq_depth) * RNIC_SQ_UNIT,
        resize_rq_octets(qp, &q->sqe), &mem);
    if (status == RNIC_ST_OK) {
        q->work = g_memdup2(&mem, sizeof(mem));
    }
    return status;
}

void rnic_qp_resize_end(RnicAdminRequest *q)
{
    if (q->work) {
        rnic_queue_memory_free(q->s, q->work);
        g_clear_pointer(&q->work, g_free);
    }
}

/* Where the guest's producer indices in the new record are. */
typedef struct ResizeProducers {
    uint32_t sq;
    uint32_t rq;
} ResizeProducers;

static bool resize_load(RnicState *s, const RnicQueueMemory *mem,
                        ResizeProducers *producers)
{
    return rnic_record_load32(s, mem,
                              offsetof(struct rnic_qp_record, sq_producer),
                              &producers->sq) &&
           rnic_record_load32(s, mem,
                              offsetof(struct rnic_qp_record, rq_producer),
                              &producers->rq);
}

/* Which posts ring is as it was. */
static bool resize_publish(const RnicQp *qp, const RnicQueueMemory *mem)
{
    return rnic_record_store32(qp->s, mem,
                               offsetof(struct rnic_qp_record, sq_event),
                               qp->sq.published) &&
           rnic_record_store32(qp->s, mem,
                               offsetof(struct rnic_qp_record, rq_event),
                               qp->rq.published);
}

/* V9.2.5.3-9.  A slot of the SQ is in use until its WR is complete. */
static bool resize_fits(const RnicQp *qp, const struct rnic_admin_sqe *sqe,
                        const ResizeProducers *producers)
{
    const RnicSendWork *oldest = QSIMPLEQ_FIRST(&qp->sq.works);
    uint32_t start = oldest ? oldest->start : qp->sq.consumer;

    return producers->sq - start <= le32_to_cpu(sqe->modify_qp.sq_depth) &&
           (qp->rq.srq || producers->rq - qp->rq.ring.consumer <=
                          le32_to_cpu(sqe->modify_qp.rq_depth));
}

static void resize_change_over(RnicQp *qp, const struct rnic_admin_sqe *sqe,
                               const ResizeProducers *producers,
                               RnicQueueMemory *mem)
{
    RnicQueueMemory before = qp->mem;

    qp->mem = *mem;
    *mem = before;
    qp->sq.depth = le32_to_cpu(sqe->modify_qp.sq_depth);
    qp->sq.producer = producers->sq;
    if (!qp->rq.srq) {
        qp->rq.ring.depth = le32_to_cpu(sqe->modify_qp.rq_depth);
        qp->rq.ring.producer = producers->rq;
    }
}

enum rnic_admin_status rnic_qp_resize(RnicAdminRequest *q)
{
    RnicQueueMemory *mem = q->work;
    ResizeProducers producers;
    RnicQp *qp = q->qp;

    if (!resize_load(q->s, mem, &producers) || !resize_publish(qp, mem)) {
        return RNIC_ST_DMA_ERROR;
    }
    if (!resize_fits(qp, &q->sqe, &producers)) {
        return RNIC_ST_SHRINK_TOO_SMALL;
    }
    resize_change_over(qp, &q->sqe, &producers, mem);
    trace_rnic_qp_resized(qp->qpn, qp->sq.depth, qp->rq.ring.depth);
    return RNIC_ST_OK;
}
