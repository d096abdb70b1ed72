/*
 * rnic: bulk data of admin commands, the guest memory beside their arguments
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_BULK_H
#define HW_RNIC_BULK_H

#include "hw/rnic/base/rnic.h"

/*
 * Reading wants bulk_length of @sqe to be @len octets exactly; writing sends at
 * most bulk_length octets of @buf.  Statuses: BAD_BUFFER, DMA_ERROR.  Any
 * thread.
 */
enum rnic_admin_status rnic_bulk_read(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      void *buf, uint32_t len);
enum rnic_admin_status rnic_bulk_write(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       const void *buf, uint32_t len);

#endif /* HW_RNIC_BULK_H */
