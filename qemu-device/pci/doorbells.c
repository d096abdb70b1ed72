/*
 * rnic: the doorbells of BAR 2
 *
 * A page belongs to one user context; a doorbell is honoured only for an
 * object created with that page (V10: countermeasure 12).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/verbs/cq.h"
#include "hw/rnic/verbs/qp.h"
#include "registers.h"
#include "hw/rnic/verbs/srq.h"
#include "hw/rnic/base/trace.h"

static bool ring(RnicState *s, uint32_t page, uint32_t offset, uint32_t val)
{
    switch (offset) {
    case RNIC_DB_SQ:
        return rnic_qp_doorbell(s, page, val, true);
    case RNIC_DB_RQ:
        return rnic_qp_doorbell(s, page, val, false);
    case RNIC_DB_SRQ:
        return rnic_srq_doorbell(s, page, val);
    case RNIC_DB_CQ_ARM:
        return rnic_cq_arm(s, page, val);
    default:
        return false;
    }
}

static void doorbells_write(void *opaque, hwaddr addr, uint64_t val,
                            unsigned size)
{
    RnicState *s = opaque;
    uint32_t page = addr / RNIC_DOORBELL_PAGE_SIZE;
    uint32_t offset = addr % RNIC_DOORBELL_PAGE_SIZE;

    if (rnic_enabled(s) && size == 4 && ring(s, page, offset, val)) {
        rnic_count(&s->counters.doorbells, 1);
        return;
    }
    rnic_count(&s->counters.bad_doorbells, 1);
    trace_rnic_ub_doorbell(page, offset, val, size);
}

/* What every process may know: the clock.  Everything else reads as zero. */
static uint64_t doorbells_read(void *opaque, hwaddr addr, unsigned size)
{
    RnicState *s = opaque;
    bool clock = addr % RNIC_DOORBELL_PAGE_SIZE == RNIC_DB_CLOCK && size == 8;

    if (qatomic_read(&s->vanished)) {
        return UINT64_MAX;
    }
    return clock && rnic_enabled(s) && rnic_accepted(s, RNIC_FEATURE_TIMESTAMP)
           ? rnic_cq_clock() : 0;
}

const MemoryRegionOps rnic_doorbells_ops = {
    .read = doorbells_read,
    .write = doorbells_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};
