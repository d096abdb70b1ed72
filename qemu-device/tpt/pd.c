/*
 * rnic: protection domains
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pd.h"
#include "hw/rnic/base/trace.h"

typedef struct RnicPd {
    uint32_t users;
} RnicPd;

enum rnic_admin_status rnic_pd_alloc(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    RnicPd *pd = g_new0(RnicPd, 1);
    uint32_t pdn = rnic_table_insert(&s->pds, pd);

    if (!pdn) {
        g_free(pd);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    cqe->number = cpu_to_le32(pdn);
    trace_rnic_pd_allocated(pdn);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_pd_dealloc(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    uint32_t pdn = le32_to_cpu(sqe->object.number);
    RnicPd *pd = rnic_table_get(&s->pds, pdn);

    if (!pd) {
        return RNIC_ST_INVALID_PD;
    }
    if (pd->users) {
        return RNIC_ST_PD_IN_USE;
    }
    rnic_table_remove(&s->pds, pdn);
    g_free(pd);
    trace_rnic_pd_deallocated(pdn);
    return RNIC_ST_OK;
}

void rnic_pd_reset(RnicState *s)
{
    RnicPd *pd;
    uint32_t pdn;

    RNIC_TABLE_FOREACH(&s->pds, pdn, pd) {
        rnic_table_remove(&s->pds, pdn);
        g_free(pd);
    }
}

bool rnic_pd_exists(RnicState *s, uint32_t pdn)
{
    return rnic_table_get(&s->pds, pdn) != NULL;
}

void rnic_pd_ref(RnicState *s, uint32_t pdn)
{
    RnicPd *pd = rnic_table_get(&s->pds, pdn);

    pd->users++;
}

void rnic_pd_unref(RnicState *s, uint32_t pdn)
{
    RnicPd *pd = rnic_table_get(&s->pds, pdn);

    pd->users--;
}
