/*
 * rnic: a ring of receive WQEs in guest memory, of an RQ or an S-RQ
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_RECEIVE_RING_H
#define HW_RNIC_RECEIVE_RING_H

#include "hw/rnic/rnic-hw.h"
#include "hw/rnic/guest/queue-memory.h"

typedef struct RnicReceiveRing {
    unsigned ring;              /* of its queue memory */
    uint32_t producer_offset;   /* of the producer index in the record */
    uint32_t depth;             /* WQEs */
    uint8_t wqe_shift;
    uint8_t max_sge;
    uint32_t producer;          /* as last read from the record */
    uint32_t consumer;          /* next WQE to take */
} RnicReceiveRing;

/* A WQE, copied once and checked. */
typedef struct RnicReceiveWqe {
    uint64_t wr_id;
    bool valid;                 /* false: only wr_id means something */
    uint32_t num_sge;
    struct rnic_sge sge[RNIC_MAX_SGE];
} RnicReceiveWqe;

typedef enum RnicRingTake {
    RNIC_RING_TAKEN,
    RNIC_RING_EMPTY,
    RNIC_RING_UNREADABLE,       /* the WQE could not be read; it is skipped */
    RNIC_RING_BROKEN,           /* the record: not readable, or nonsense */
} RnicRingTake;

/* Whether stride and SGEs are what an RQ or S-RQ may have, and fit. */
bool rnic_receive_stride_ok(uint8_t wqe_shift, uint8_t max_sge);

/* Read the producer index anew; false: BROKEN. */
bool rnic_receive_ring_load(RnicState *s, const RnicQueueMemory *mem,
                            RnicReceiveRing *ring);

/* WQEs posted and not taken, by the producer index as last read. */
static inline uint32_t rnic_receive_ring_posted(const RnicReceiveRing *ring)
{
    return ring->producer - ring->consumer;
}

/* Take the next WQE; reads the producer index if none is known of. */
RnicRingTake rnic_receive_ring_take(RnicState *s, const RnicQueueMemory *mem,
                                    RnicReceiveRing *ring,
                                    RnicReceiveWqe *wqe);

#endif /* HW_RNIC_RECEIVE_RING_H */
