/*
 * rnic: Shared Receive Queues (6.3)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/tpt/pd.h"
#include "srq.h"
#include "hw/rnic/base/trace.h"

struct RnicSrq {
    RnicObject object;          /* its users: QPs */
    RnicPd *pd;                 /* held */
    uint32_t doorbell_page;
    QemuMutex lock;             /* of what follows */
    RnicQueueMemory mem;
    uint32_t limit;
    bool limit_armed;
    bool failed;
    RnicReceiveRing ring;       /* its depth: written with the lock, atomic */
};

/* ---------------------------------------------------------- create */

static enum rnic_admin_status srq_check_depth(uint32_t depth)
{
    if (depth > RNIC_SRQ_MAX_DEPTH) {
        return RNIC_ST_TOO_MANY_WRS;
    }
    return is_power_of_2(depth) ? RNIC_ST_OK : RNIC_ST_BAD_QUEUE_MEMORY;
}

static enum rnic_admin_status srq_check_create(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    uint32_t depth = le32_to_cpu(sqe->create_srq.depth);
    enum rnic_admin_status status = srq_check_depth(depth);

    if (sqe->create_srq.mask) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!rnic_pd_get(s, le32_to_cpu(sqe->create_srq.pdn))) {
        return RNIC_ST_INVALID_PD;
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (sqe->create_srq.max_sge > RNIC_MAX_SGE) {
        return RNIC_ST_TOO_MANY_SGES;
    }
    if (!rnic_receive_stride_ok(sqe->create_srq.wqe_shift,
                                sqe->create_srq.max_sge)) {
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    if (le32_to_cpu(sqe->create_srq.limit) > depth) {
        return RNIC_ST_SRQ_LIMIT_RANGE;
    }
    if (le32_to_cpu(sqe->create_srq.doorbell_page) >=
        s->config.doorbell_pages) {
        return RNIC_ST_BAD_DOORBELL_PAGE;
    }
    return RNIC_ST_OK;
}

static void srq_fill_result(const RnicSrq *srq, struct rnic_admin_cqe *cqe)
{
    cqe->number = cpu_to_le32(srq->object.number);
    cqe->srq.pdn = cpu_to_le32(rnic_object_number(srq->pd));
    cqe->srq.depth = cpu_to_le32(srq->ring.depth);
    cqe->srq.limit = cpu_to_le32(srq->limit);
    cqe->srq.limit_armed = srq->limit_armed;
    cqe->srq.max_sge = srq->ring.max_sge;
    cqe->srq.failed = srq->failed;
}

/* V6.3.8-1, V9.2.4.3-3: zero does not arm; armed already is no error. */
static void srq_set_limit(RnicSrq *srq, uint32_t limit)
{
    srq->limit = limit;
    srq->limit_armed = limit != 0;
    trace_rnic_srq_limit(srq->object.number, limit);
}

static void srq_init_from_command(RnicState *s, RnicSrq *srq,
                                  const struct rnic_admin_sqe *sqe)
{
    srq->pd = rnic_pd_get(s, le32_to_cpu(sqe->create_srq.pdn));
    srq->doorbell_page = le32_to_cpu(sqe->create_srq.doorbell_page);
    srq->ring = (RnicReceiveRing) {
        .producer_offset = offsetof(struct rnic_srq_record, producer),
        .depth = le32_to_cpu(sqe->create_srq.depth),
        .wqe_shift = sqe->create_srq.wqe_shift,
        .max_sge = sqe->create_srq.max_sge,
    };
    srq_set_limit(srq, le32_to_cpu(sqe->create_srq.limit));
}

enum rnic_admin_status rnic_srq_create(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status = srq_check_create(s, sqe);
    RnicQueueMemory mem;
    RnicSrq *srq;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(
        s, &sqe->create_srq.memory,
        (uint64_t)le32_to_cpu(sqe->create_srq.depth) <<
            sqe->create_srq.wqe_shift, 0, &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    srq = g_new0(RnicSrq, 1);
    if (!rnic_object_insert(&s->srqs, srq)) {
        rnic_queue_memory_free(s, &mem);
        g_free(srq);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    qemu_mutex_init(&srq->lock);
    srq->mem = mem;
    srq_init_from_command(s, srq, sqe);
    rnic_object_ref(srq->pd);
    srq_fill_result(srq, cqe);
    trace_rnic_srq_created(srq->object.number, rnic_object_number(srq->pd), srq->ring.depth);
    return RNIC_ST_OK;
}

/* -------------------------------------------------- query, modify */

enum rnic_admin_status rnic_srq_query(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    RnicSrq *srq = rnic_srq_get(s, le32_to_cpu(sqe->object.number));

    if (!srq) {
        return RNIC_ST_INVALID_SRQ;
    }
    QEMU_LOCK_GUARD(&srq->lock);
    srq_fill_result(srq, cqe);
    return RNIC_ST_OK;
}

/*
 * WQEs not taken are in the new ring by now, and the guest posts nothing until the
 * command is complete.  Before anything changes: do they fit (V9.2.4.3-4)?
 */
static enum rnic_admin_status srq_enter_ring(RnicState *s,
                                             RnicReceiveRing *ring,
                                             const RnicQueueMemory *mem)
{
    if (!rnic_record_load32(s, mem, ring->producer_offset, &ring->producer) ||
        !rnic_record_store32(s, mem,
                             offsetof(struct rnic_srq_record, consumer),
                             ring->consumer)) {
        return RNIC_ST_DMA_ERROR;
    }
    return rnic_receive_ring_posted(ring) <= ring->depth
           ? RNIC_ST_OK : RNIC_ST_SHRINK_TOO_SMALL;
}

/* @mem becomes the S-RQ's, and that before comes back, unless it is refused. */
static enum rnic_admin_status srq_resize(RnicState *s, RnicSrq *srq,
                                         uint32_t depth, RnicQueueMemory *mem)
{
    RnicQueueMemory before = srq->mem;
    RnicReceiveRing ring = srq->ring;
    enum rnic_admin_status status;

    ring.depth = depth;
    status = srq_enter_ring(s, &ring, mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    srq->mem = *mem;
    *mem = before;
    srq->ring.producer = ring.producer;
    qatomic_set(&srq->ring.depth, depth);
    trace_rnic_srq_resized(srq->object.number, depth);
    return RNIC_ST_OK;
}

/* V6.3.8-4: neither a limit above the depth nor a depth below an armed limit. */
static enum rnic_admin_status
srq_check_limit_range(const RnicSrq *srq, const struct rnic_admin_sqe *sqe)
{
    bool resized = sqe->create_srq.mask & RNIC_SRQ_MODIFY_DEPTH;
    uint32_t depth = resized ? le32_to_cpu(sqe->create_srq.depth)
                             : srq->ring.depth;

    if (sqe->create_srq.mask & RNIC_SRQ_MODIFY_LIMIT) {
        return le32_to_cpu(sqe->create_srq.limit) > depth
               ? RNIC_ST_SRQ_LIMIT_RANGE : RNIC_ST_OK;
    }
    return srq->limit_armed && srq->limit > depth ? RNIC_ST_INVALID_MODIFIER
                                                  : RNIC_ST_OK;
}

/* @mem: as of srq_resize(), without a new depth NULL. */
static enum rnic_admin_status
srq_modify(RnicState *s, RnicSrq *srq, const struct rnic_admin_sqe *sqe,
           RnicQueueMemory *mem, struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status;

    QEMU_LOCK_GUARD(&srq->lock);
    status = srq_check_limit_range(srq, sqe);
    if (status == RNIC_ST_OK && mem) {
        status = srq_resize(s, srq, le32_to_cpu(sqe->create_srq.depth), mem);
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (sqe->create_srq.mask & RNIC_SRQ_MODIFY_LIMIT) {
        srq_set_limit(srq, le32_to_cpu(sqe->create_srq.limit));
    }
    srq_fill_result(srq, cqe);
    return RNIC_ST_OK;
}

/* The form of WQEs, and so the SGEs of one, stays. */
static enum rnic_admin_status
srq_read_memory(RnicState *s, const RnicSrq *srq,
                const struct rnic_admin_sqe *sqe, RnicQueueMemory *mem)
{
    uint32_t depth = le32_to_cpu(sqe->create_srq.depth);
    enum rnic_admin_status status = srq_check_depth(depth);

    return status != RNIC_ST_OK ? status : rnic_queue_memory_read(
        s, &sqe->create_srq.memory, (uint64_t)depth << srq->ring.wqe_shift, 0,
        mem);
}

/* V6.3.2-1, V9.2.4.3-1: S-RQs can be resized where SQs and RQs can. */
enum rnic_admin_status rnic_srq_modify(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe)
{
    RnicSrq *srq = rnic_srq_get(s, le32_to_cpu(sqe->create_srq.srqn));
    uint8_t known = RNIC_SRQ_MODIFY_LIMIT |
        (rnic_accepted(s, RNIC_FEATURE_RESIZE_QP) ? RNIC_SRQ_MODIFY_DEPTH : 0);
    enum rnic_admin_status status;
    RnicQueueMemory mem;

    if (!srq) {
        return RNIC_ST_INVALID_SRQ;
    }
    if (sqe->create_srq.mask & ~known) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!(sqe->create_srq.mask & RNIC_SRQ_MODIFY_DEPTH)) {
        return srq_modify(s, srq, sqe, NULL, cqe);
    }
    status = srq_read_memory(s, srq, sqe, &mem);
    if (status == RNIC_ST_OK) {
        status = srq_modify(s, srq, sqe, &mem, cqe);
        rnic_queue_memory_free(s, &mem);
    }
    return status;
}

/* --------------------------------------------------------- destroy */

static void srq_destroy(RnicState *s, RnicSrq *srq)
{
    trace_rnic_srq_destroyed(srq->object.number);
    rnic_table_remove(&s->srqs, srq->object.number);
    rnic_object_unref(srq->pd);
    rnic_queue_memory_free(s, &srq->mem);
    qemu_mutex_destroy(&srq->lock);
    g_free(srq);
}

/* V6.3.3-1, -2: WRs still posted do not matter, QPs do, in any state. */
enum rnic_admin_status rnic_srq_destroy(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    RnicSrq *srq = rnic_srq_get(s, le32_to_cpu(sqe->object.number));

    if (!srq) {
        return RNIC_ST_INVALID_SRQ;
    }
    if (rnic_object_in_use(srq)) {
        return RNIC_ST_SRQ_IN_USE;
    }
    rnic_async_events_withdraw(s, RNIC_RESOURCE_SRQ, srq->object.number);
    srq_destroy(s, srq);
    return RNIC_ST_OK;
}

void rnic_srq_reset(RnicState *s)
{
    RnicSrq *srq;
    uint32_t srqn;

    RNIC_TABLE_FOREACH(&s->srqs, srqn, srq) {
        srq_destroy(s, srq);
    }
}

/* ------------------------------------------------------------- use */

bool rnic_srq_doorbell(RnicState *s, uint32_t page, uint32_t srqn)
{
    RnicSrq *srq = rnic_srq_get(s, srqn);

    /* Nothing to do: who needs a WQE looks. */
    return srq && srq->doorbell_page == page;
}

RnicSrq *rnic_srq_get(RnicState *s, uint32_t srqn)
{
    return rnic_table_get(&s->srqs, srqn);
}

RnicPd *rnic_srq_pd(const RnicSrq *srq)
{
    return srq->pd;
}

uint32_t rnic_srq_depth(const RnicSrq *srq)
{
    return qatomic_read(&srq->ring.depth);
}

static void srq_event(RnicState *s, RnicSrq *srq, enum rnic_async_event event)
{
    rnic_async_event(s, event, RNIC_RESOURCE_SRQ, srq->object.number, 0, 0);
}

static void srq_fail(RnicState *s, RnicSrq *srq)
{
    srq->failed = true;
    trace_rnic_ub_srq_failed(srq->object.number, srq->ring.producer,
                             srq->ring.consumer);
    srq_event(s, srq, RNIC_AE_SRQ_CATASTROPHIC);
}

/* V6.3.8-2: what was posted since the last look counts as unused, too. */
static void srq_check_limit(RnicState *s, RnicSrq *srq)
{
    if (!srq->limit_armed ||
        rnic_receive_ring_posted(&srq->ring) >= srq->limit) {
        return;
    }
    if (!rnic_receive_ring_load(s, &srq->mem, &srq->ring)) {
        srq_fail(s, srq);
    } else if (rnic_receive_ring_posted(&srq->ring) < srq->limit) {
        srq->limit_armed = false;
        srq_event(s, srq, RNIC_AE_SRQ_LIMIT);
    }
}

static bool srq_publish_consumer(RnicState *s, RnicSrq *srq)
{
    return rnic_record_store32(s, &srq->mem,
                               offsetof(struct rnic_srq_record, consumer),
                               srq->ring.consumer);
}

RnicRingTake rnic_srq_take(RnicState *s, RnicSrq *srq, RnicReceiveWqe *wqe)
{
    RnicRingTake take;

    QEMU_LOCK_GUARD(&srq->lock);
    if (srq->failed) {
        return RNIC_RING_BROKEN;
    }
    take = rnic_receive_ring_take(s, &srq->mem, &srq->ring, wqe);
    if (take == RNIC_RING_EMPTY) {
        return take;
    }
    if (take == RNIC_RING_BROKEN || !srq_publish_consumer(s, srq)) {
        srq_fail(s, srq);
    } else {
        srq_check_limit(s, srq);
    }
    return srq->failed ? RNIC_RING_BROKEN : take;
}
