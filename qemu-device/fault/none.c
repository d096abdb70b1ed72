/*
 * rnic: a build without faults on demand
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "fault.h"

void rnic_fault_class_init(ObjectClass *oc)
{
}

void rnic_fault_init(RnicState *s)
{
}

void rnic_fault_finalize(RnicState *s)
{
}

bool rnic_fault_find(RnicState *s, RnicFaultEvent on, uint32_t kind,
                     uint32_t object, RnicFault *rule)
{
    return false;
}

unsigned rnic_fault_written(const RnicFault *rule, void *entry, size_t size)
{
    return 1;
}
