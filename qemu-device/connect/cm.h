/*
 * rnic: connection management, as the rest of the device sees it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CM_H
#define HW_RNIC_CM_H

#include "hw/rnic/base/admin-request.h"

/* Admin commands. */
enum rnic_admin_status rnic_cm_listen(RnicAdminRequest *q);
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

#endif /* HW_RNIC_CM_H */
