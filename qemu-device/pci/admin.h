/*
 * rnic: the admin queue
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_ADMIN_H
#define HW_RNIC_ADMIN_H

#include "hw/rnic/base/rnic.h"

void rnic_admin_realize(RnicState *s);
void rnic_admin_unrealize(RnicState *s);

/* Start with the registers' values; forget everything before. */
void rnic_admin_start(RnicState *s);
/* Stop: nothing is read or written any more. */
void rnic_admin_stop(RnicState *s);

/* RNIC_REG_ADMIN_TAIL was written. */
void rnic_admin_kick(RnicState *s);

/*
 * For command handlers: bulk data of @sqe.  Reading wants bulk_length to be
 * @len exactly; writing sends at most bulk_length octets of @buf.  Statuses:
 * BAD_BUFFER, DMA_ERROR.
 */
enum rnic_admin_status rnic_admin_bulk_read(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            void *buf, uint32_t len);
enum rnic_admin_status rnic_admin_bulk_write(RnicState *s,
                                             const struct rnic_admin_sqe *sqe,
                                             const void *buf, uint32_t len);

#endif /* HW_RNIC_ADMIN_H */
