/*
 * rnic: faults on demand, the rules and when they apply
 *
 * What a fault does to an event is with the code that makes the event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-visit-qom.h"
#include "qemu/bswap.h"
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "fault.h"
#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"

enum { RULES_MAX = 4096 };

struct RnicFaultRules {
    QemuMutex lock;             /* innermost: of all below */
    RnicFaults *set;            /* never NULL */
    QEMUBH *vanish_bh;
};

/* What can be done at an event, and the octets that can be forged of it. */
typedef struct FaultEventInfo {
    uint32_t actions;
    uint32_t size;
} FaultEventInfo;

#define ANY (BIT(RNIC_FAULT_ACTION_FATAL) | BIT(RNIC_FAULT_ACTION_VANISH))
#define ENTRY (ANY | BIT(RNIC_FAULT_ACTION_LOSE) |                          \
               BIT(RNIC_FAULT_ACTION_REPEAT) | BIT(RNIC_FAULT_ACTION_FORGE))
#define EVENT (ENTRY | BIT(RNIC_FAULT_ACTION_FLOOD))

static const FaultEventInfo fault_events[RNIC_FAULT_EVENT__MAX] = {
    [RNIC_FAULT_EVENT_ADMIN] = {
        ENTRY | BIT(RNIC_FAULT_ACTION_STATUS) | BIT(RNIC_FAULT_ACTION_LATE),
        offsetof(struct rnic_admin_cqe, flags) },
    [RNIC_FAULT_EVENT_COMPLETION] = { ENTRY, sizeof(struct rnic_cqe) },
    [RNIC_FAULT_EVENT_COMPLETION_EVENT] = {
        EVENT, offsetof(struct rnic_ceqe, flags) },
    [RNIC_FAULT_EVENT_ASYNC_EVENT] = {
        EVENT, offsetof(struct rnic_aeqe, flags) },
    [RNIC_FAULT_EVENT_CONNECTION_EVENT] = {
        EVENT, offsetof(struct rnic_cm_event, flags) },
    [RNIC_FAULT_EVENT_INTERRUPT] = {
        ANY | BIT(RNIC_FAULT_ACTION_LOSE) | BIT(RNIC_FAULT_ACTION_REPEAT) },
    [RNIC_FAULT_EVENT_REGISTER] = {
        ANY | BIT(RNIC_FAULT_ACTION_FORGE), sizeof(uint64_t) },
};

/* --------------------------------------------------------------- the rules */

static bool fault_check_forge(const RnicFault *rule, Error **errp)
{
    uint32_t room = rule->bulk ? UINT16_MAX : fault_events[rule->on].size;

    if (!is_power_of_2(rule->size) || rule->size > sizeof(rule->value)) {
        error_setg(errp, "x-fault: size %u is not 1, 2, 4 or 8", rule->size);
        return false;
    }
    if (rule->size > room || rule->offset > room - rule->size) {
        error_setg(errp, "x-fault: %s has %u octets to forge, not %u at %u",
                   RnicFaultEvent_str(rule->on), room, rule->size,
                   rule->offset);
        return false;
    }
    return true;
}

static bool fault_check(const RnicFault *rule, Error **errp)
{
    if (!(fault_events[rule->on].actions & BIT(rule->q_do))) {
        error_setg(errp, "x-fault: there is no %s of %s",
                   RnicFaultAction_str(rule->q_do),
                   RnicFaultEvent_str(rule->on));
        return false;
    }
    if (rule->has_seen || rule->has_done) {
        error_setg(errp, "x-fault: seen and done are only read");
        return false;
    }
    if (rule->has_nth && !rule->nth) {
        error_setg(errp, "x-fault: nth begins with 1");
        return false;
    }
    if ((rule->q_do == RNIC_FAULT_ACTION_STATUS && !rule->has_status) ||
        (rule->q_do == RNIC_FAULT_ACTION_LATE && !rule->has_delay_ms)) {
        error_setg(errp, "x-fault: %s needs %s",
                   RnicFaultAction_str(rule->q_do),
                   rule->q_do == RNIC_FAULT_ACTION_LATE ? "delay-ms"
                                                        : "status");
        return false;
    }
    if (rule->bulk && (rule->on != RNIC_FAULT_EVENT_ADMIN ||
                       rule->q_do != RNIC_FAULT_ACTION_FORGE)) {
        error_setg(errp, "x-fault: bulk is of the forge of an admin command");
        return false;
    }
    if (rule->q_do == RNIC_FAULT_ACTION_STATUS &&
        rule->status == RNIC_ADMIN_LATER) {
        error_setg(errp, "x-fault: status %u is none of a command's end",
                   rule->status);
        return false;
    }
    return rule->q_do != RNIC_FAULT_ACTION_FORGE ||
           fault_check_forge(rule, errp);
}

static void fault_set_defaults(RnicFault *rule)
{
    rule->nth = rule->has_nth ? rule->nth : 1;
    rule->times = rule->has_times ? rule->times : 1;
    rule->size = rule->has_size ? rule->size : sizeof(uint32_t);
    rule->has_nth = rule->has_times = true;
}

static bool fault_check_all(RnicFaults *set, Error **errp)
{
    unsigned count = 0;

    for (RnicFaultList *l = set->rules; l; l = l->next) {
        fault_set_defaults(l->value);
        if (!fault_check(l->value, errp)) {
            return false;
        }
        if (++count > RULES_MAX) {
            error_setg(errp, "x-fault: more than %d rules", RULES_MAX);
            return false;
        }
    }
    return true;
}

static void fault_set(Object *obj, Visitor *v, const char *name, void *opaque,
                      Error **errp)
{
    RnicState *s = RNIC(obj);
    RnicFaultRules *faults = s->faults;
    RnicFaults *set = NULL;

    if (!visit_type_RnicFaults(v, name, &set, errp)) {
        return;
    }
    if (!fault_check_all(set, errp)) {
        qapi_free_RnicFaults(set);
        return;
    }
    for (RnicFaultList *l = set->rules; l; l = l->next) {
        l->value->has_seen = l->value->has_done = true;
    }
    WITH_QEMU_LOCK_GUARD(&faults->lock) {
        qapi_free_RnicFaults(faults->set);
        faults->set = set;
        qatomic_set(&s->faults_armed, set->rules != NULL);
    }
    qatomic_set(&s->vanished, false);
}

static void fault_get(Object *obj, Visitor *v, const char *name, void *opaque,
                      Error **errp)
{
    RnicFaultRules *faults = RNIC(obj)->faults;
    RnicFaults *set;

    WITH_QEMU_LOCK_GUARD(&faults->lock) {
        set = QAPI_CLONE(RnicFaults, faults->set);
    }
    visit_type_RnicFaults(v, name, &set, errp);
    qapi_free_RnicFaults(set);
}

/* --------------------------------------------------------------- the events */

static bool fault_rule_applies(const RnicFault *rule, RnicFaultEvent on,
                               uint32_t kind, uint32_t object)
{
    return rule->on == on && (!rule->has_kind || rule->kind == kind) &&
           (!rule->has_object || rule->object == object);
}

/* One more event of @rule: whether it is one to do something at. */
static bool fault_rule_counts(RnicFault *rule)
{
    if (++rule->seen < rule->nth || (rule->times && rule->done >= rule->times)) {
        return false;
    }
    rule->done++;
    return true;
}

/* Every rule sees every event, so that what one counts depends on no other. */
static bool fault_look_up(RnicState *s, RnicFaultEvent on, uint32_t kind,
                          uint32_t object, RnicFault *rule)
{
    bool found = false;

    QEMU_LOCK_GUARD(&s->faults->lock);
    for (RnicFaultList *l = s->faults->set->rules; l; l = l->next) {
        if (fault_rule_applies(l->value, on, kind, object) &&
            fault_rule_counts(l->value) && !found) {
            *rule = *l->value;
            found = true;
        }
    }
    return found;
}

static void fault_vanish(RnicState *s)
{
    qatomic_set(&s->vanished, true);
    qemu_bh_schedule(s->faults->vanish_bh);
}

bool rnic_fault_find(RnicState *s, RnicFaultEvent on, uint32_t kind,
                     uint32_t object, RnicFault *rule)
{
    if (!fault_look_up(s, on, kind, object, rule)) {
        return false;
    }
    trace_rnic_fault(RnicFaultEvent_str(on), kind, object,
                     RnicFaultAction_str(rule->q_do));
    rnic_capture_note(s, "Fault: %s, at %s of kind %u, object 0x%x",
                      RnicFaultAction_str(rule->q_do), RnicFaultEvent_str(on),
                      kind, object);
    switch (rule->q_do) {
    case RNIC_FAULT_ACTION_FATAL:
        rnic_fatal(s, (uint32_t)rule->value ?: RNIC_HEALTH_FAULT);
        return false;
    case RNIC_FAULT_ACTION_VANISH:
        fault_vanish(s);
        return false;
    default:
        return true;
    }
}

unsigned rnic_fault_written(const RnicFault *rule, void *entry, size_t size)
{
    switch (rule->q_do) {
    case RNIC_FAULT_ACTION_FORGE:
        if (rule->bulk) {
            return 1;
        }
        assert(rule->offset + (size_t)rule->size <= size);
        stn_le_p((uint8_t *)entry + rule->offset, rule->size, rule->value);
        return 1;
    case RNIC_FAULT_ACTION_LOSE:
        return 0;
    case RNIC_FAULT_ACTION_REPEAT:
        return 2;
    default:
        return 1;
    }
}

/* --------------------------------------------------------------------- life */

static void fault_vanish_bh(void *opaque)
{
    RnicState *s = opaque;

    if (DEVICE(s)->realized && qatomic_read(&s->vanished)) {
        rnic_function_reset(s);
    }
}

void rnic_fault_class_init(ObjectClass *oc)
{
    object_class_property_add(oc, "x-fault", "RnicFaults", fault_get,
                              fault_set, NULL, NULL);
    object_class_property_set_description(oc, "x-fault", "faults on demand, "
        "for tests of drivers (default: none)");
}

void rnic_fault_init(RnicState *s)
{
    s->faults = g_new0(RnicFaultRules, 1);
    qemu_mutex_init(&s->faults->lock);
    s->faults->set = g_new0(RnicFaults, 1);
    s->faults->vanish_bh = qemu_bh_new_guarded(
        fault_vanish_bh, s, &DEVICE(s)->mem_reentrancy_guard);
}

void rnic_fault_finalize(RnicState *s)
{
    qemu_bh_delete(s->faults->vanish_bh);
    qapi_free_RnicFaults(s->faults->set);
    qemu_mutex_destroy(&s->faults->lock);
    g_clear_pointer(&s->faults, g_free);
}
