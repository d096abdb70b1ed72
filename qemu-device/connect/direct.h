/*
 * rnic: direct connect, from two QPs that were told of each other to a stream
 *
 * The manual has the rules (Direct connect).  Main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_DIRECT_H
#define HW_RNIC_DIRECT_H

#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/fabric/fabric.h"

/* Admin commands. */
enum rnic_admin_status rnic_direct_connect(RnicState *s,
                                           const struct rnic_admin_sqe *sqe);
enum rnic_admin_status rnic_direct_send(RnicAdminRequest *q);

/*
 * No other connection may have @addr: RNIC_DIRECT_PORT, once the driver has accepted
 * the feature.  A program that had it could take others' direct connects.
 */
bool rnic_direct_owns_port(const RnicState *s, const RnicAddr *addr);

/* Give up all that is being connected. */
void rnic_direct_reset(RnicState *s);

#endif /* HW_RNIC_DIRECT_H */
