/*
 * rnic: the device follows the VM's run state
 *
 * While the VM is stopped nothing of its memory changes: the workers are halted
 * and read no socket, admin commands and Ethernet frames wait, events are held
 * back, interrupts too.  Connections are still set up as far as that needs no
 * guest.  The time-outs are the guest's: they stop with it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/stream/worker.h"
#include "hw/rnic/verbs/qp.h"
#include "system/runstate.h"
#include "admin.h"
#include "ethernet.h"
#include "interrupt.h"
#include "run-state.h"

static void run_state_stop(RnicState *s)
{
    qatomic_set(&s->stopped, true);
    if (!rnic_workers_started(s)) {
        return;
    }
    rnic_workers_end_turns(s);
    for (unsigned i = 0; i < s->worker_count; i++) {
        rnic_worker_halt(&s->workers[i], rnic_qp_pause_all);
    }
}

static void run_state_resume(RnicState *s)
{
    rnic_eq_go(s);
    for (unsigned i = 0; i < s->worker_count; i++) {
        rnic_worker_go(&s->workers[i]);
    }
    rnic_qp_go(s);
    rnic_admin_kick(s);
    if (s->ethernet) {
        rnic_ethernet_go(s);
    }
}

/* One that has failed stays as it is. */
static void run_state_go(RnicState *s)
{
    qatomic_set(&s->stopped, false);
    if (!rnic_workers_started(s)) {
        return;
    }
    if (rnic_active(s)) {
        run_state_resume(s);
    }
    rnic_interrupt_go(s);
}

static void run_state_changed(void *opaque, bool running, RunState state)
{
    RnicState *s = opaque;

    if (running == !s->stopped) {
        return;
    }
    trace_rnic_run_state(running);
    if (running) {
        run_state_go(s);
    } else {
        run_state_stop(s);
    }
}

void rnic_run_state_realize(RnicState *s)
{
    s->stopped = !runstate_is_live(runstate_get());
    s->run_state_handler =
        qemu_add_vm_change_state_handler(run_state_changed, s);
}

void rnic_run_state_unrealize(RnicState *s)
{
    qemu_del_vm_change_state_handler(s->run_state_handler);
}
