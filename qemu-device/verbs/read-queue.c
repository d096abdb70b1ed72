/*
 * rnic: the queue of inbound Read and Atomic Requests (IRRQ) of a QP
 *
 * A slot is taken when a request arrives and freed when its response has been
 * generated; requests beyond IRD are the peer's error (6.5).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qp-internal.h"

bool rnic_reads_push(RnicQp *qp, const IwarpSegment *segment)
{
    RnicReadQueue *q = &qp->reads;
    RnicInboundRead *slot;

    if (q->count >= qp->ird) {
        return false;
    }
    if (!q->slots) {
        q->size = qp->ird;
        q->slots = g_new(RnicInboundRead, q->size);
    }
    slot = &q->slots[(q->head + q->count) % q->size];
    *slot = (RnicInboundRead) { .echo = segment->echo };
    if (segment->opcode == IWARP_OP_ATOMIC_REQUEST) {
        slot->atomic = true;
        slot->atomic_request = segment->u.atomic;
    } else {
        slot->request = segment->u.read;
    }
    q->count++;
    return true;
}

const RnicInboundRead *rnic_reads_head(const RnicQp *qp)
{
    return qp->reads.count ? &qp->reads.slots[qp->reads.head] : NULL;
}

void rnic_reads_pop(RnicQp *qp)
{
    qp->reads.head = (qp->reads.head + 1) % qp->reads.size;
    qp->reads.count--;
}

void rnic_reads_clear(RnicQp *qp)
{
    g_free(qp->reads.slots);
    qp->reads = (RnicReadQueue) { };
}
