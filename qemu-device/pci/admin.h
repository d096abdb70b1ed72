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

/* No command has been started that is not completed. */
bool rnic_admin_idle(const RnicState *s);

#endif /* HW_RNIC_ADMIN_H */
