/*
 * rnic: the device follows the VM's run state
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_RUN_STATE_H
#define HW_RNIC_RUN_STATE_H

#include "hw/rnic/base/rnic.h"

/* Main loop. */
void rnic_run_state_realize(RnicState *s);
void rnic_run_state_unrealize(RnicState *s);

#endif /* HW_RNIC_RUN_STATE_H */
