/*
 * rnic: event queues (completion, asynchronous, CM)
 *
 * A completion EQ cannot overflow if it has a slot for each of its CQs: every
 * CQ has at most one event in it (rnic_eq_post_completion).  Asynchronous and
 * CM events that find their queue full, or the VM stopped, are held back, up to
 * HELD_MAX of them, until the driver kicks or the VM goes on.  What is lost beyond
 * that is counted, and an event says so once the queue has been drained.
 *
 * Events come from all threads and are rare next to what they tell of: one
 * lock for all queues, event_lock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "event-queue.h"
#include "queue-memory.h"
#include "hw/rnic/fault/fault.h"
#include "hw/rnic/base/trace.h"

enum {
    HELD_MAX = 4096,
    FLOOD_TURN = 4096,          /* events of a flood in a turn of the main loop */
};

struct RnicEq {
    RnicObject object;          /* its users: CQs */
    RnicState *s;
    uint8_t eq_class;
    uint32_t vector;
    uint32_t depth;
    uint64_t producer;          /* index of the next event: never wraps */
    uint32_t consumer;          /* as last read from the record */
    uint32_t event_size;
    GQueue held;                /* events of event_size octets */
    bool overflowed;            /* and the guest has not been told */
    void *flood;                /* an event that a fault writes again; NULL: none */
    QEMUBH *flood_bh;
    RnicQueueMemory mem;
};

static const uint32_t event_sizes[] = {
    [RNIC_EQ_COMPLETION] = sizeof(struct rnic_ceqe),
    [RNIC_EQ_ASYNC] = sizeof(struct rnic_aeqe),
    [RNIC_EQ_CM] = sizeof(struct rnic_cm_event),
};

/* The device's slot for the one queue of a class, NULL for completion. */
static RnicEq **eq_singleton(RnicState *s, uint8_t eq_class)
{
    switch (eq_class) {
    case RNIC_EQ_ASYNC:
        return &s->async_eq;
    case RNIC_EQ_CM:
        return &s->cm_eq;
    default:
        return NULL;
    }
}

static enum rnic_admin_status eq_check_create(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    uint8_t eq_class = sqe->create_eq.eq_class;
    uint32_t depth = le32_to_cpu(sqe->create_eq.depth);
    RnicEq **slot;

    if (eq_class >= ARRAY_SIZE(event_sizes)) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (depth < 2 || depth > RNIC_EQ_MAX_DEPTH || !is_power_of_2(depth)) {
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    if (!rnic_vector_valid(s, le32_to_cpu(sqe->create_eq.vector))) {
        return RNIC_ST_BAD_VECTOR;
    }
    slot = eq_singleton(s, eq_class);
    return slot && *slot ? RNIC_ST_EQ_IN_USE : RNIC_ST_OK;
}

static void eq_flood_bh(void *opaque);

enum rnic_admin_status rnic_eq_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    uint8_t eq_class = sqe->create_eq.eq_class;
    uint32_t depth = le32_to_cpu(sqe->create_eq.depth);
    enum rnic_admin_status status = eq_check_create(s, sqe);
    RnicQueueMemory mem;
    RnicEq *eq;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(s, &sqe->create_eq.memory,
                                    (uint64_t)depth * event_sizes[eq_class],
                                    0, &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    QEMU_LOCK_GUARD(&s->event_lock);
    eq = g_new0(RnicEq, 1);
    if (!rnic_object_insert(&s->eqs, eq)) {
        rnic_queue_memory_free(s, &mem);
        g_free(eq);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    eq->s = s;
    eq->eq_class = eq_class;
    eq->event_size = event_sizes[eq_class];
    eq->vector = le32_to_cpu(sqe->create_eq.vector);
    eq->depth = depth;
    eq->mem = mem;
    g_queue_init(&eq->held);
    eq->flood_bh = qemu_bh_new_guarded(eq_flood_bh, eq,
                                       &DEVICE(s)->mem_reentrancy_guard);
    if (eq_singleton(s, eq_class)) {
        *eq_singleton(s, eq_class) = eq;
    }
    cqe->number = cpu_to_le32(eq->object.number);
    trace_rnic_eq_created(eq->object.number, eq_class, depth, eq->vector);
    return RNIC_ST_OK;
}

static void eq_destroy(RnicEq *eq)
{
    RnicEq **slot = eq_singleton(eq->s, eq->eq_class);
    RnicState *s = eq->s;

    QEMU_LOCK_GUARD(&s->event_lock);
    trace_rnic_eq_destroyed(eq->object.number);
    if (slot) {
        *slot = NULL;
    }
    rnic_table_remove(&s->eqs, eq->object.number);
    g_queue_clear_full(&eq->held, g_free);
    qemu_bh_delete(eq->flood_bh);
    g_free(eq->flood);
    rnic_queue_memory_free(s, &eq->mem);
    g_free(eq);
}

enum rnic_admin_status rnic_eq_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    RnicEq *eq = rnic_table_get(&s->eqs, le32_to_cpu(sqe->object.number));

    if (!eq) {
        return RNIC_ST_INVALID_EQ;
    }
    if (rnic_object_in_use(eq)) {
        return RNIC_ST_EQ_IN_USE;
    }
    eq_destroy(eq);
    return RNIC_ST_OK;
}

void rnic_eq_reset(RnicState *s)
{
    RnicEq *eq;
    uint32_t eqn;

    RNIC_TABLE_FOREACH(&s->eqs, eqn, eq) {
        eq_destroy(eq);
    }
}

RnicEq *rnic_eq_get_completion(RnicState *s, uint32_t eqn)
{
    RnicEq *eq = rnic_table_get(&s->eqs, eqn);

    return eq && eq->eq_class == RNIC_EQ_COMPLETION ? eq : NULL;
}

static bool eq_read_consumer(RnicEq *eq)
{
    return rnic_record_load32(eq->s, &eq->mem,
                              offsetof(struct rnic_eq_record, consumer),
                              &eq->consumer);
}

/* Events that the guest has not consumed. */
static uint32_t eq_waiting(const RnicEq *eq)
{
    return (uint32_t)eq->producer - eq->consumer;
}

static bool eq_has_room(RnicEq *eq)
{
    if (eq_waiting(eq) >= eq->depth && !eq_read_consumer(eq)) {
        return false;
    }
    return eq_waiting(eq) < eq->depth;
}

/* @event is event_size octets; its last word is the flags, stored last. */
static void eq_write_entry(RnicEq *eq, const void *event)
{
    uint32_t body = eq->event_size - sizeof(uint32_t);
    uint64_t at = (eq->producer & (eq->depth - 1)) * eq->event_size;
    uint32_t flags = eq->producer & eq->depth ? 0 : RNIC_EQE_PHASE;

    if (!rnic_ring_write(eq->s, &eq->mem, 0, at, event, body) ||
        !rnic_ring_store32(eq->s, &eq->mem, 0, at + body, flags)) {
        rnic_fatal(eq->s, RNIC_HEALTH_EQ_DMA);
        return;
    }
    eq->producer++;
    rnic_interrupt(eq->s, eq->vector);
}

/* Whether a fault is asked for at @event. */
static bool eq_meets_fault(RnicEq *eq, const void *event, RnicFault *rule)
{
    const struct rnic_cm_event *cm = event;
    const struct rnic_ceqe *ceqe = event;
    const struct rnic_aeqe *aeqe = event;

    switch (eq->eq_class) {
    case RNIC_EQ_COMPLETION:
        return rnic_fault(eq->s, RNIC_FAULT_EVENT_COMPLETION_EVENT, 0,
                          le32_to_cpu(ceqe->cqn), rule);
    case RNIC_EQ_ASYNC:
        return rnic_fault(eq->s, RNIC_FAULT_EVENT_ASYNC_EVENT,
                          le16_to_cpu(aeqe->event),
                          le32_to_cpu(aeqe->number), rule);
    default:
        return rnic_fault(eq->s, RNIC_FAULT_EVENT_CONNECTION_EVENT, cm->type,
                          le32_to_cpu(cm->qpn), rule);
    }
}

/* The fault's event, as often as there is room for it, while there are faults. */
static void eq_flood_bh(void *opaque)
{
    RnicEq *eq = opaque;
    RnicState *s = eq->s;

    QEMU_LOCK_GUARD(&s->event_lock);
    if (!eq->flood) {
        return;         /* ended before; a worker had scheduled this again */
    }
    if (!rnic_active(s) || !qatomic_read(&s->faults_armed)) {
        g_clear_pointer(&eq->flood, g_free);
        return;
    }
    for (unsigned n = 0; n < FLOOD_TURN && eq_has_room(eq); n++) {
        eq_write_entry(eq, eq->flood);
    }
    qemu_bh_schedule(eq->flood_bh);
}

static void eq_begin_flood(RnicEq *eq, const void *event)
{
    g_free(eq->flood);
    eq->flood = g_memdup2(event, eq->event_size);
    qemu_bh_schedule(eq->flood_bh);
}

/* There is room for one. */
static void eq_write(RnicEq *eq, const void *event)
{
    g_autofree void *wrong = NULL;
    unsigned times;
    RnicFault rule;

    if (!eq_meets_fault(eq, event, &rule)) {
        eq_write_entry(eq, event);
        return;
    }
    if (rule.q_do == RNIC_FAULT_ACTION_FLOOD) {
        eq_begin_flood(eq, event);
    }
    wrong = g_memdup2(event, eq->event_size);
    times = rnic_fault_written(&rule, wrong, eq->event_size);
    for (; times && eq_has_room(eq); times--) {
        eq_write_entry(eq, wrong);
    }
}

/* False when the event is lost. */
static bool eq_post_or_hold(RnicEq *eq, const void *event)
{
    RnicState *s = eq->s;

    if (rnic_active(s) && g_queue_is_empty(&eq->held) && eq_has_room(eq)) {
        eq_write(eq, event);
        return true;
    }
    if (g_queue_get_length(&eq->held) >= HELD_MAX) {
        trace_rnic_ub_event_dropped(eq->object.number);
        rnic_count(&s->counters.events_lost, 1);
        eq->overflowed = true;
        return false;
    }
    g_queue_push_tail(&eq->held, g_memdup2(event, eq->event_size));
    return true;
}

void rnic_async_events_withdraw(RnicState *s, uint8_t resource,
                                uint32_t number)
{
    GList *next;

    QEMU_LOCK_GUARD(&s->event_lock);
    for (GList *held = s->async_eq ? s->async_eq->held.head : NULL; held;
         held = next) {
        const struct rnic_aeqe *aeqe = held->data;

        next = held->next;
        if (aeqe->resource == resource &&
            le32_to_cpu(aeqe->number) == number) {
            g_free(held->data);
            g_queue_delete_link(&s->async_eq->held, held);
        }
    }
}

/* To the asynchronous event queue, if there is one. */
static void eq_post_async(RnicState *s, enum rnic_async_event event,
                          uint8_t resource, uint32_t number, uint8_t qp_state,
                          uint16_t terminate)
{
    struct rnic_aeqe aeqe = {
        .event = cpu_to_le16(event),
        .resource = resource,
        .qp_state = qp_state,
        .number = cpu_to_le32(number),
        .terminate = cpu_to_le16(terminate),
    };

    trace_rnic_async_event(event, resource, number, terminate);
    rnic_count(&s->counters.async_events, 1);
    if (s->async_eq) {
        eq_post_or_hold(s->async_eq, &aeqe);
    }
}

static void eq_post_held(RnicEq *eq)
{
    while (!g_queue_is_empty(&eq->held) && eq_has_room(eq)) {
        g_autofree void *event = g_queue_pop_head(&eq->held);

        eq_write(eq, event);
    }
    if (eq->overflowed && g_queue_is_empty(&eq->held)) {
        eq->overflowed = false;
        eq_post_async(eq->s, RNIC_AE_EQ_OVERFLOW, RNIC_RESOURCE_EQ, eq->object.number,
                      0, 0);
    }
}

void rnic_eq_kick(RnicState *s, uint32_t eqn)
{
    RnicEq *eq = rnic_table_get(&s->eqs, eqn);

    if (eq && rnic_active(s)) {
        QEMU_LOCK_GUARD(&s->event_lock);
        eq_post_held(eq);
    }
}

void rnic_eq_go(RnicState *s)
{
    RnicEq *eq;
    uint32_t eqn;

    RNIC_TABLE_FOREACH(&s->eqs, eqn, eq) {
        rnic_eq_kick(s, eqn);
    }
}

void rnic_eq_post_completion(RnicState *s, RnicEq *eq, uint32_t cqn,
                             uint64_t *last, bool *posted)
{
    struct rnic_ceqe event = { .cqn = cpu_to_le32(cqn) };

    QEMU_LOCK_GUARD(&s->event_lock);
    if (*posted && eq_read_consumer(eq) &&
        eq->producer - *last <= eq_waiting(eq)) {
        return;
    }
    if (!eq_has_room(eq)) {
        /* Fewer slots than CQs: the driver's mistake. */
        trace_rnic_ub_event_dropped(eq->object.number);
        return;
    }
    *last = eq->producer;
    *posted = true;
    trace_rnic_completion_event(eq->object.number, cqn);
    eq_write(eq, &event);
}

void rnic_async_event(RnicState *s, enum rnic_async_event event,
                      uint8_t resource, uint32_t number, uint8_t qp_state,
                      uint16_t terminate)
{
    QEMU_LOCK_GUARD(&s->event_lock);
    eq_post_async(s, event, resource, number, qp_state, terminate);
}

/* Though the device is not active any more. */
void rnic_eq_post_failure(RnicState *s)
{
    struct rnic_aeqe aeqe = {
        .event = cpu_to_le16(RNIC_AE_RNIC_CATASTROPHIC),
        .resource = RNIC_RESOURCE_NONE,
    };

    QEMU_LOCK_GUARD(&s->event_lock);
    rnic_count(&s->counters.async_events, 1);
    if (s->async_eq && eq_has_room(s->async_eq)) {
        eq_write(s->async_eq, &aeqe);
    }
}

bool rnic_cm_event_post(RnicState *s, const struct rnic_cm_event *event)
{
    trace_rnic_cm_event(event->type, event->status, le32_to_cpu(event->qpn),
                        le32_to_cpu(event->endpoint));
    QEMU_LOCK_GUARD(&s->event_lock);
    return s->cm_eq && eq_post_or_hold(s->cm_eq, event);
}

void rnic_cm_stream_event(RnicState *s, enum rnic_cm_event_type type,
                          uint32_t qpn, uint64_t cookie, uint16_t terminate)
{
    struct rnic_cm_event event = {
        .type = type,
        .qpn = cpu_to_le32(qpn),
        .cookie = cpu_to_le64(cookie),
        .terminate = cpu_to_le16(terminate),
    };

    rnic_cm_event_post(s, &event);
}

static int eq_compare_request(gconstpointer held, gconstpointer endpoint)
{
    const struct rnic_cm_event *event = held;

    return event->type == RNIC_CM_CONNECT_REQUEST &&
           event->endpoint == *(const uint32_t *)endpoint ? 0 : 1;
}

bool rnic_cm_event_withdraw(RnicState *s, uint32_t endpoint)
{
    uint32_t number = cpu_to_le32(endpoint);
    GList *held;

    QEMU_LOCK_GUARD(&s->event_lock);
    held = s->cm_eq ? g_queue_find_custom(&s->cm_eq->held, &number,
                                          eq_compare_request) : NULL;
    if (held) {
        g_free(held->data);
        g_queue_delete_link(&s->cm_eq->held, held);
    }
    return held != NULL;
}
