/*
 * rnic: protection domains
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_PD_H
#define HW_RNIC_PD_H

#include "hw/rnic/base/rnic.h"

enum rnic_admin_status rnic_pd_alloc(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_pd_dealloc(RnicState *s,
                                       const struct rnic_admin_sqe *sqe);
void rnic_pd_reset(RnicState *s);

bool rnic_pd_exists(RnicState *s, uint32_t pdn);

/* A QP, MR, MW or S-RQ comes to use @pdn, which exists, or ceases to. */
void rnic_pd_ref(RnicState *s, uint32_t pdn);
void rnic_pd_unref(RnicState *s, uint32_t pdn);

#endif /* HW_RNIC_PD_H */
