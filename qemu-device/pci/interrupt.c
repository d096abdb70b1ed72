/*
 * rnic: what happens in the main loop only, interrupts and the FATAL status
 *
 * One bottom half raises all vectors, for callers in any thread: masking and the
 * pending bits need the big lock, and the guest may aim a vector at any address,
 * the device's own registers too.  So no lock of the device may be held, and the
 * bottom half is guarded: QEMU then refuses what would enter the device again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "qemu/main-loop.h"
#include "hw/pci/msix.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/fault/fault.h"
#include "failure.h"
#include "interrupt.h"

static void fatal_set(RnicState *s, uint32_t health)
{
    if (s->regs.status & RNIC_STATUS_FATAL) {
        return;
    }
    trace_rnic_err_fatal(health);
    rnic_capture_note(s, "The device fails, health %u", health);
    s->regs.health = health;
    s->failing = s->regs.status & RNIC_STATUS_ENABLED;
    qemu_bh_schedule(s->interrupt_bh);
    qatomic_set(&s->regs.status, s->regs.status | RNIC_STATUS_FATAL);
}

void rnic_fatal(RnicState *s, uint32_t health)
{
    if (bql_locked()) {
        fatal_set(s, health);
    } else if (qatomic_cmpxchg(&s->wanted_health, 0, health) == 0) {
        qemu_bh_schedule(s->interrupt_bh);
    }
}

void rnic_interrupt(RnicState *s, uint32_t vector)
{
    if (vector < s->config.vectors) {
        set_bit_atomic(vector, s->wanted_vectors);
        qemu_bh_schedule(s->interrupt_bh);
    }
}

static void interrupt_notify(RnicState *s, uint32_t vector)
{
    trace_rnic_interrupt(vector);
    msix_notify(PCI_DEVICE(s), vector);
}

/* The same, unless a fault is asked for. */
static void interrupt_raise(RnicState *s, uint32_t vector)
{
    unsigned times = 1;
    RnicFault rule;

    if (rnic_fault(s, RNIC_FAULT_EVENT_INTERRUPT, 0, vector, &rule)) {
        times = rnic_fault_written(&rule, NULL, 0);
    }
    if (times > 1) {
        /* In another turn: two in one would be one for the guest. */
        set_bit_atomic(vector, s->repeated_vectors);
        qemu_bh_schedule(s->interrupt_bh);
    }
    if (times > 0) {
        interrupt_notify(s, vector);
    }
}

static void interrupt_each(RnicState *s, unsigned long *vectors,
                           void (*raise)(RnicState *s, uint32_t vector))
{
    for (unsigned i = 0; i < BITS_TO_LONGS(s->config.vectors); i++) {
        unsigned long word = qatomic_xchg(&vectors[i], 0);

        while (word && DEVICE(s)->realized) {
            raise(s, i * BITS_PER_LONG + ctzl(word));
            word &= word - 1;
        }
    }
}

static void interrupt_all(RnicState *s)
{
    uint32_t health = qatomic_xchg(&s->wanted_health, 0);

    if (health) {
        fatal_set(s, health);
    }
    if (qatomic_read(&s->stopped)) {
        return;                 /* a vector writes to memory */
    }
    if (s->failing) {
        s->failing = false;
        rnic_failure(s);
    }
    interrupt_each(s, s->repeated_vectors, interrupt_notify);
    interrupt_each(s, s->wanted_vectors, interrupt_raise);
}

/* A vector may be aimed at what unplugs the device. */
static void interrupt_bh(void *opaque)
{
    RnicState *s = RNIC(object_ref(opaque));

    interrupt_all(s);
    object_unref(OBJECT(s));
}

void rnic_interrupt_realize(RnicState *s)
{
    s->interrupt_bh = qemu_bh_new_guarded(interrupt_bh, s,
                                          &DEVICE(s)->mem_reentrancy_guard);
}

void rnic_interrupt_unrealize(RnicState *s)
{
    qemu_bh_delete(s->interrupt_bh);
}

void rnic_interrupt_reset(RnicState *s)
{
    qemu_bh_cancel(s->interrupt_bh);
    bitmap_zero(s->wanted_vectors, RNIC_MAX_VECTORS);
    bitmap_zero(s->repeated_vectors, RNIC_MAX_VECTORS);
    s->wanted_health = 0;
    s->failing = false;
}

void rnic_interrupt_go(RnicState *s)
{
    qemu_bh_schedule(s->interrupt_bh);
}
