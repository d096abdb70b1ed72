/*
 * rnic: protection domains
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "hw/rnic/base/trace.h"
#include "pd.h"

struct RnicPd {
    uint32_t pdn;
    uint32_t users;             /* atomic */
};

enum rnic_admin_status rnic_pd_alloc(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    RnicPd *pd = g_new0(RnicPd, 1);

    pd->pdn = rnic_table_insert(&s->pds, pd);
    if (!pd->pdn) {
        g_free(pd);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    cqe->number = cpu_to_le32(pd->pdn);
    trace_rnic_pd_allocated(pd->pdn);
    return RNIC_ST_OK;
}

static void pd_free(RnicState *s, RnicPd *pd)
{
    rnic_table_remove(&s->pds, pd->pdn);
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
    if (qatomic_read(&pd->users)) {
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

uint32_t rnic_pd_number(const RnicPd *pd)
{
    return pd->pdn;
}

void rnic_pd_ref(RnicPd *pd)
{
    qatomic_inc(&pd->users);
}

void rnic_pd_unref(RnicPd *pd)
{
    qatomic_dec(&pd->users);
}
