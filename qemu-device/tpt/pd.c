/*
 * rnic: protection domains
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/base/trace.h"
#include "pd.h"

enum rnic_admin_status rnic_pd_alloc(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    RnicPd *pd = g_new0(RnicPd, 1);

    if (!rnic_object_insert(&s->pds, pd)) {
        g_free(pd);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    cqe->number = cpu_to_le32(pd->number);
    trace_rnic_pd_allocated(pd->number);
    return RNIC_ST_OK;
}

static void pd_free(RnicState *s, RnicPd *pd)
{
    rnic_table_remove(&s->pds, pd->number);
    g_free(pd);
}

enum rnic_admin_status rnic_pd_dealloc(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    uint32_t pdn = le32_to_cpu(sqe->object.number);
    RnicPd *pd = rnic_pd_get(s, pdn);

    if (!pd) {
        return RNIC_ST_INVALID_PD;
    }
    if (rnic_object_in_use(pd)) {
        return RNIC_ST_PD_IN_USE;
    }
    pd_free(s, pd);
    trace_rnic_pd_deallocated(pdn);
    return RNIC_ST_OK;
}

void rnic_pd_reset(RnicState *s)
{
    RnicPd *pd;
    uint32_t pdn;

    RNIC_TABLE_FOREACH(&s->pds, pdn, pd) {
        pd_free(s, pd);
    }
}

RnicPd *rnic_pd_get(RnicState *s, uint32_t pdn)
{
    return rnic_table_get(&s->pds, pdn);
}
