/*
 * rnic: queue pairs, as the rest of the device sees them
 *
 * For the main loop, except for rnic_qp_windows_changed().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_QP_H
#define HW_RNIC_QP_H

#include "hw/rnic/base/rnic.h"
#include "hw/rnic/stream/stream.h"

/* Admin commands. */
enum rnic_admin_status rnic_qp_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_qp_query(RnicState *s,
                                     const struct rnic_admin_sqe *sqe);
enum rnic_admin_status rnic_qp_modify(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_qp_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe);
/* Break every stream: no DMA, no event, no octet on the wire afterwards. */
void rnic_qp_stop(RnicState *s);
/* Free every QP. */
void rnic_qp_reset(RnicState *s);

/*
 * RNIC_DB_SQ or RNIC_DB_RQ on doorbell page @page.  False if the doorbell is
 * not the page's to ring.
 */
bool rnic_qp_doorbell(RnicState *s, uint32_t page, uint32_t qpn, bool sq);

/* NULL if there is no such QP. */
RnicQp *rnic_qp_get(RnicState *s, uint32_t qpn);
uint32_t rnic_qp_number(const RnicQp *qp);

/*
 * Connection set-up.  An endpoint claims a QP in Idle, so that no other uses
 * it; NULL releases it.  False: not Idle, or claimed already.
 */
bool rnic_qp_claim(RnicQp *qp, void *endpoint);
void rnic_qp_unclaim(RnicQp *qp);
/* The claiming endpoint, NULL if none. */
void *rnic_qp_claimed_by(const RnicQp *qp);

/* Read resources of the QP, as created or modified: the CM's wishes may
 * lower or raise them within the device's limits. */
void rnic_qp_set_read_resources(RnicQp *qp, uint16_t ird, uint16_t ord);

/*
 * Idle to RTS on the stream of @setup.  @cookie goes into the CM events of
 * this stream.  An initiator sends the RTR that was agreed first of all.
 */
void rnic_qp_establish(RnicQp *qp, const RnicStreamSetup *setup,
                       uint64_t cookie);

/* Windows bound through QP @qpn have become more or fewer by @change.  Under
 * the TPT lock, any thread. */
void rnic_qp_windows_changed(RnicState *s, uint32_t qpn, int change);

/* Everything may go on once the CM has told the guest of the connection. */
void rnic_qp_start(RnicQp *qp);

#endif /* HW_RNIC_QP_H */
