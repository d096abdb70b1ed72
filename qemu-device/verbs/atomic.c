/*
 * rnic: atomic operations of the peer on this guest's memory (RFC 7306 section 5)
 *
 * They are done by the host's atomic instructions on the guest's memory: atomic
 * towards other streams, other devices and the guest's processors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/guest/dma.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

static uint64_t atomic_change(const void *request, uint64_t word)
{
    return iwarp_atomic_apply(request, word);
}

RnicAtomicStep rnic_atomic_execute(RnicQp *qp, const IwarpAtomicRequest *request,
                                   uint64_t *original, RnicAccessResult *result)
{
    RnicTarget target;
    uint64_t addr;

    *result = rnic_tpt_check_remote(qp->s, &qp->who, request->stag, request->to,
                                    sizeof(uint64_t),
                                    RNIC_ACCESS_REMOTE_ATOMIC, &target);
    if (*result != RNIC_ACCESS_OK) {
        return RNIC_ATOMIC_REFUSED;
    }
    /* RFC 7306 5: the address that the TO stands for. */
    if (!rnic_target_word(&target, &addr)) {
        trace_rnic_err_atomic(qp->qpn, request->to, "not aligned");
        return RNIC_ATOMIC_UNALIGNED;
    }
    switch (rnic_dma_atomic64(qp->s, addr, atomic_change, request, original)) {
    case RNIC_DMA_ATOMIC_DONE:
        trace_rnic_atomic(qp->qpn, request->atomic_op, request->to, *original);
        return RNIC_ATOMIC_DONE;
    case RNIC_DMA_ATOMIC_BUSY:
        return RNIC_ATOMIC_BUSY;
    default:
        *result = RNIC_ACCESS_DMA;
        return RNIC_ATOMIC_REFUSED;
    }
}
