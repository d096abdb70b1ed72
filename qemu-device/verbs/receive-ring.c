/*
 * rnic: a ring of receive WQEs in guest memory, of an RQ or an S-RQ
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "receive-ring.h"

bool rnic_receive_stride_ok(uint8_t wqe_shift, uint8_t max_sge)
{
    return wqe_shift >= RNIC_RQ_MIN_WQE_SHIFT &&
           wqe_shift <= RNIC_RQ_MAX_WQE_SHIFT &&
           sizeof(struct rnic_rq_wqe) + max_sge * sizeof(struct rnic_sge) <=
           1u << wqe_shift;
}

bool rnic_receive_ring_load(RnicState *s, const RnicQueueMemory *mem,
                            RnicReceiveRing *ring)
{
    return rnic_record_load32(s, mem, ring->producer_offset,
                              &ring->producer) &&
           rnic_receive_ring_posted(ring) <= ring->depth;
}

/* Copy the WQE at the consumer index, once. */
static bool fetch(RnicState *s, const RnicQueueMemory *mem,
                  const RnicReceiveRing *ring, RnicReceiveWqe *wqe)
{
    uint64_t at = (uint64_t)(ring->consumer & (ring->depth - 1)) <<
                  ring->wqe_shift;
    struct rnic_rq_wqe head;

    if (!rnic_ring_read(s, mem, ring->ring, at, &head, sizeof(head))) {
        return false;
    }
    wqe->wr_id = le64_to_cpu(head.wr_id);
    wqe->num_sge = le32_to_cpu(head.num_sge);
    wqe->valid = wqe->num_sge <= ring->max_sge && !head.reserved;
    if (!wqe->valid) {
        wqe->num_sge = 0;
    }
    return rnic_ring_read(s, mem, ring->ring, at + sizeof(head), wqe->sge,
                          wqe->num_sge * sizeof(wqe->sge[0]));
}

RnicRingTake rnic_receive_ring_take(RnicState *s, const RnicQueueMemory *mem,
                                    RnicReceiveRing *ring,
                                    RnicReceiveWqe *wqe)
{
    uint32_t posted = rnic_receive_ring_posted(ring);
    bool read;

    /* More than the depth: nonsense that was read before, look again. */
    if ((posted == 0 || posted > ring->depth) &&
        !rnic_receive_ring_load(s, mem, ring)) {
        return RNIC_RING_BROKEN;
    }
    if (!rnic_receive_ring_posted(ring)) {
        return RNIC_RING_EMPTY;
    }
    read = fetch(s, mem, ring, wqe);
    ring->consumer++;
    return read ? RNIC_RING_TAKEN : RNIC_RING_UNREADABLE;
}
