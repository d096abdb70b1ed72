/*
 * rnic: faults on demand, the property x-fault
 *
 * The device does something wrong where a rule says so, for tests of drivers.
 * Rules are QAPI's (qom-objects.json, which is also their grammar); they outlive
 * every reset.  Without CONFIG_RNIC_FAULT there is no property and no fault.
 *
 * Code with something to do wrong asks rnic_fault() at the event, and does what
 * the rule says.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FAULT_H
#define HW_RNIC_FAULT_H

#include "hw/rnic/base/rnic.h"
#include "qapi/qapi-types-qom.h"

/* The property of the class; what each device has for it.  Main loop. */
void rnic_fault_class_init(ObjectClass *oc);
void rnic_fault_init(RnicState *s);
void rnic_fault_finalize(RnicState *s);

/* For rnic_fault(). */
bool rnic_fault_find(RnicState *s, RnicFaultEvent on, uint32_t kind,
                     uint32_t object, RnicFault *rule);

/*
 * Event @on of @kind at @object happens (RnicFaultEvent says what these are; what
 * an event has none of is zero).  True: a rule applies to it, *@rule is a copy, and
 * the caller acts on its @do.  FATAL and VANISH are done here: they are false.
 * Any thread, with any lock of the device.
 */
static inline bool rnic_fault(RnicState *s, RnicFaultEvent on, uint32_t kind,
                              uint32_t object, RnicFault *rule)
{
    return unlikely(qatomic_read(&s->faults_armed)) &&
           rnic_fault_find(s, on, kind, object, rule);
}

/*
 * How many times the @size octets of @entry are to be written to the guest: LOSE
 * never, REPEAT twice.  FORGE, unless it is of bulk memory, changes them; no other
 * fault reads @entry.
 */
unsigned rnic_fault_written(const RnicFault *rule, void *entry, size_t size);

#endif /* HW_RNIC_FAULT_H */
