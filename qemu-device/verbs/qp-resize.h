/*
 * rnic: new queue memory for a queue pair, with other depths
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_QP_RESIZE_H
#define HW_RNIC_QP_RESIZE_H

#include "hw/rnic/base/admin-request.h"

/* Of Create QP as well. */
enum rnic_admin_status rnic_qp_check_sq_depth(uint32_t depth);
enum rnic_admin_status rnic_qp_check_rq_depth(uint32_t depth);

/* Whether this Modify QP has new memory. */
bool rnic_qp_resize_asked(const struct rnic_admin_sqe *sqe);

/* Before the worker's part of a Modify QP: reads the page list, if there is one, to
 * q->work.  Main loop. */
enum rnic_admin_status rnic_qp_resize_prepare(RnicAdminRequest *q);

/* Within the turn: the memory in q->work becomes the QP's, and the one before is
 * there; or nothing has changed. */
enum rnic_admin_status rnic_qp_resize(RnicAdminRequest *q);

/* Forget the memory in q->work, if there is any.  Main loop. */
void rnic_qp_resize_end(RnicAdminRequest *q);

#endif /* HW_RNIC_QP_RESIZE_H */
