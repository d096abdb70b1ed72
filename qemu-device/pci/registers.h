/*
 * rnic: the registers of BAR 0 and the doorbells of BAR 2
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_REGISTERS_H
#define HW_RNIC_REGISTERS_H

#include "hw/rnic/base/rnic.h"

extern const MemoryRegionOps rnic_registers_ops;
extern const MemoryRegionOps rnic_doorbells_ops;

/* All registers to their values after reset. */
void rnic_registers_reset(RnicState *s);

#endif /* HW_RNIC_REGISTERS_H */
