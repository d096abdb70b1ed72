/*
 * New queue memory for a QP or an S-RQ
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "resize.h"

typedef struct Ring {
    uint64_t bus;
    uint32_t depth;
    uint32_t shift;
} Ring;

static uint64_t slot_of(const Ring *ring, uint32_t index)
{
    return ring->bus + ((uint64_t)(index & (ring->depth - 1)) << ring->shift);
}

/* The entries before @producer. */
static void copy_ring(Rnic *r, const Ring *from, const Ring *to,
                      uint32_t producer)
{
    uint8_t entry[1 << RNIC_RQ_MAX_WQE_SHIFT];

    for (uint32_t n = 1; n <= MIN(from->depth, to->depth); n++) {
        rnic_mem_read(r, slot_of(from, producer - n), entry, 1 << from->shift);
        rnic_mem_write(r, slot_of(to, producer - n), entry, 1 << to->shift);
    }
}

static Ring sq_ring(const RnicQp *qp)
{
    return (Ring) { qp->memory + qp->sq_offset, qp->sq_depth, 6 };
}

static Ring rq_ring(const RnicQp *qp)
{
    return (Ring) { qp->memory + qp->rq_offset, qp->rq_depth, qp->rq_shift };
}

static void copy_queues(Rnic *r, const RnicQp *from, const RnicQp *to)
{
    Ring sq[2] = { sq_ring(from), sq_ring(to) };
    Ring rq[2] = { rq_ring(from), rq_ring(to) };

    copy_ring(r, &sq[0], &sq[1], from->sq_producer);
    if (from->rq_offset) {
        copy_ring(r, &rq[0], &rq[1], from->rq_producer);
    }
    rnic_mem_write32(r, to->memory +
                     offsetof(struct rnic_qp_record, sq_producer),
                     to->sq_producer);
    rnic_mem_write32(r, to->memory +
                     offsetof(struct rnic_qp_record, rq_producer),
                     to->rq_producer);
}

struct rnic_admin_sqe resize_qp_command(Rnic *r, const RnicQp *qp,
                                        uint32_t sq_depth, uint32_t rq_depth,
                                        RnicQp *next)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    bool rq = qp->rq_offset;
    uint64_t size = qp->sq_offset + (uint64_t)sq_depth * RNIC_SQ_UNIT;

    *next = *qp;
    next->sq_depth = sq_depth;
    next->rq_depth = rq_depth;
    if (rq) {
        next->rq_offset = size;
        size += (uint64_t)rq_depth << qp->rq_shift;
    }
    next->memory = rnic_alloc(r, size);
    copy_queues(r, qp, next);

    sqe.modify_qp.qpn = cpu_to_le32(qp->number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH |
                                     (rq ? RNIC_QP_MODIFY_RQ_DEPTH : 0));
    sqe.modify_qp.sq_depth = cpu_to_le32(sq_depth);
    sqe.modify_qp.rq_depth = cpu_to_le32(rq_depth);
    sqe.modify_qp.memory.pages = rnic_pages(r, next->memory, size);
    sqe.modify_qp.memory.ring_offset[0] = cpu_to_le32(next->sq_offset);
    sqe.modify_qp.memory.ring_offset[1] = cpu_to_le32(next->rq_offset);
    return sqe;
}

uint16_t resize_qp(Rnic *r, RnicQp *qp, uint32_t sq_depth, uint32_t rq_depth)
{
    RnicQp next;
    struct rnic_admin_sqe sqe = resize_qp_command(r, qp, sq_depth, rq_depth,
                                                  &next);
    uint16_t status = rnic_admin(r, &sqe, NULL);

    if (status == RNIC_ST_OK) {
        *qp = next;
    }
    return status;
}

struct rnic_admin_sqe resize_srq_command(Rnic *r, const RnicSrq *srq,
                                         uint32_t depth, RnicSrq *next)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_SRQ);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE + ((uint64_t)depth << srq->shift);
    Ring from = { srq->memory + RNIC_QUEUE_RECORD_SIZE, srq->depth,
                  srq->shift };
    Ring to = { 0, depth, srq->shift };

    *next = *srq;
    next->depth = depth;
    next->memory = rnic_alloc(r, size);
    to.bus = next->memory + RNIC_QUEUE_RECORD_SIZE;
    copy_ring(r, &from, &to, srq->producer);
    rnic_publish_srq(r, next);

    sqe.create_srq.srqn = cpu_to_le32(srq->number);
    sqe.create_srq.mask = RNIC_SRQ_MODIFY_DEPTH;
    sqe.create_srq.depth = cpu_to_le32(depth);
    sqe.create_srq.memory.pages = rnic_pages(r, next->memory, size);
    sqe.create_srq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    return sqe;
}

uint16_t resize_srq(Rnic *r, RnicSrq *srq, uint32_t depth)
{
    RnicSrq next;
    struct rnic_admin_sqe sqe = resize_srq_command(r, srq, depth, &next);
    uint16_t status = rnic_admin(r, &sqe, NULL);

    if (status == RNIC_ST_OK) {
        *srq = next;
    }
    return status;
}
