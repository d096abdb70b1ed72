/*
 * rnic: connection management, as the rest of the device sees it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CM_H
#define HW_RNIC_CM_H

#include "hw/rnic/base/rnic.h"

/* Admin commands. */
enum rnic_admin_status rnic_cm_listen(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_cm_unlisten(RnicState *s,
                                        const struct rnic_admin_sqe *sqe);
enum rnic_admin_status rnic_cm_connect(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_cm_accept(RnicState *s,
                                      const struct rnic_admin_sqe *sqe);
enum rnic_admin_status rnic_cm_reject(RnicState *s,
                                      const struct rnic_admin_sqe *sqe);

/* Drop all listeners and endpoints, without events. */
void rnic_cm_reset(RnicState *s);

/* The QP that @endpoint has claimed left Idle: the set-up fails. */
void rnic_cm_qp_left_idle(RnicState *s, void *endpoint);
/* The QP that @endpoint has claimed is destroyed: no event names it. */
void rnic_cm_qp_gone(RnicState *s, void *endpoint);

/* PEER_CLOSE or DISCONNECTED of an established stream. */
void rnic_cm_stream_event(RnicState *s, enum rnic_cm_event_type type,
                          uint32_t qpn, uint64_t cookie, uint16_t terminate);

#endif /* HW_RNIC_CM_H */
