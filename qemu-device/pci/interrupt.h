/*
 * rnic: what happens in the main loop only, interrupts and the FATAL status
 *
 * rnic_interrupt() and rnic_fatal() of base/rnic.h are here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_INTERRUPT_H
#define HW_RNIC_INTERRUPT_H

#include "hw/rnic/base/rnic.h"

void rnic_interrupt_realize(RnicState *s);
void rnic_interrupt_unrealize(RnicState *s);

/* Forget what has not happened yet.  No worker asks for more. */
void rnic_interrupt_reset(RnicState *s);

/* The VM goes on: raise what waited. */
void rnic_interrupt_go(RnicState *s);

#endif /* HW_RNIC_INTERRUPT_H */
