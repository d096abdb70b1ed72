/*
 * rnic: protection domains
 *
 * The table of PDs, and their life, are the main loop's.  QPs, MRs, MWs, S-RQs and
 * commands are the users of a PD (rnic_object_ref()).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_PD_H
#define HW_RNIC_PD_H

#include "hw/rnic/base/rnic.h"

/* Admin commands. */
enum rnic_admin_status rnic_pd_alloc(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_pd_dealloc(RnicState *s,
                                       const struct rnic_admin_sqe *sqe);
/* Free every PD; none is in use. */
void rnic_pd_reset(RnicState *s);

/* NULL if there is no such PD.  Main loop. */
RnicPd *rnic_pd_get(RnicState *s, uint32_t pdn);

#endif /* HW_RNIC_PD_H */
