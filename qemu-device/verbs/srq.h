/*
 * rnic: Shared Receive Queues (6.3)
 *
 * An S-RQ belongs to a PD and is used by any number of QPs.  Messages take its
 * WQEs in the order in which they arrive ("arrival order").  A WQE taken is
 * the taking QP's business alone: nothing that happens to that QP changes the
 * S-RQ (V6.3.6-2), and a WQE not taken is never flushed (V6.3.6-3).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_SRQ_H
#define HW_RNIC_SRQ_H

#include "hw/rnic/base/rnic.h"
#include "receive-ring.h"

enum rnic_admin_status rnic_srq_create(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_srq_query(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_srq_modify(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_srq_destroy(RnicState *s,
                                        const struct rnic_admin_sqe *sqe);
void rnic_srq_reset(RnicState *s);

/* RNIC_DB_SRQ on doorbell page @page; false: not the page's to ring. */
bool rnic_srq_doorbell(RnicState *s, uint32_t page, uint32_t srqn);

/* NULL if there is no such S-RQ. */
RnicSrq *rnic_srq_get(RnicState *s, uint32_t srqn);
/* The PD that the STags in its WQEs are checked against (V6.3.5-8). */
RnicPd *rnic_srq_pd(const RnicSrq *srq);
/* The most WRs that may be outstanding. */
uint32_t rnic_srq_depth(const RnicSrq *srq);

/*
 * Take a WQE for a message.  Raises the limit event when it is due.  UNREADABLE
 * concerns the caller's QP only; BROKEN means that the S-RQ has failed (AE
 * SRQ_CATASTROPHIC, once), as it will for everybody else who asks.  Any thread.
 */
RnicRingTake rnic_srq_take(RnicState *s, RnicSrq *srq, RnicReceiveWqe *wqe);

#endif /* HW_RNIC_SRQ_H */
