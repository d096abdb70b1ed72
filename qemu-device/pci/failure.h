/*
 * rnic: what is left to be done when the device has failed (STATUS.FATAL)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FAILURE_H
#define HW_RNIC_FAILURE_H

#include "hw/rnic/base/rnic.h"

/*
 * It has been ENABLED, and has just become FATAL: tell the guest and the peers, and
 * stop all else.  Main loop, not from within what may have failed.
 */
void rnic_failure(RnicState *s);

#endif /* HW_RNIC_FAILURE_H */
