/*
 * New queue memory for a QP or an S-RQ
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_RESIZE_H
#define RNIC_QTEST_RESIZE_H

#include "librnic.h"

/*
 * The command, and in *@next the queue as it is after it: WQEs are copied to new
 * memory, as many as either ring holds, and the producer indices are there.
 */
struct rnic_admin_sqe resize_qp_command(Rnic *r, const RnicQp *qp,
                                        uint32_t sq_depth, uint32_t rq_depth,
                                        RnicQp *next);
struct rnic_admin_sqe resize_srq_command(Rnic *r, const RnicSrq *srq,
                                         uint32_t depth, RnicSrq *next);

/* Give it; the status.  With OK, *@qp or *@srq is what it is then. */
uint16_t resize_qp(Rnic *r, RnicQp *qp, uint32_t sq_depth, uint32_t rq_depth);
uint16_t resize_srq(Rnic *r, RnicSrq *srq, uint32_t depth);

#endif
