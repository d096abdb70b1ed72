/*
 * rnic: event queues (completion, asynchronous, CM)
 *
 * A completion EQ cannot overflow if it has a slot for each of its CQs: every
 * CQ has at most one event in it (rnic_eq_post_completion).  Asynchronous and
 * CM events that find their queue full are held back, up to HELD_MAX of them,
 * until the driver kicks.
 *
 * Events come from all threads and are rare next to what they tell of: one
 * lock for all queues, event_lock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "event-queue.h"
#include "queue-memory.h"
#include "hw/rnic/base/trace.h"

enum {
    HELD_MAX = 4096,
};

struct RnicEq {
    RnicState *s;
    uint32_t eqn;
    uint8_t eq_class;
    uint32_t vector;
    uint32_t depth;
    uint32_t users;             /* CQs; main loop only */
    uint32_t producer;
    uint32_t consumer;          /* as last read from the record */
    uint32_t event_size;
    GQueue held;                /* events of event_size octets */
    RnicQueueMemory mem;
};

static const uint32_t event_sizes[] = {
    [RNIC_EQ_COMPLETION] = sizeof(struct rnic_ceqe),
    [RNIC_EQ_ASYNC] = sizeof(struct rnic_aeqe),
    [RNIC_EQ_CM] = sizeof(struct rnic_cm_event),
};

/* The device's slot for the one queue of a class, NULL for completion. */
static RnicEq **singleton(RnicState *s, uint8_t eq_class)
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

static enum rnic_admin_status check_create(RnicState *s,
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
    slot = singleton(s, eq_class);
    return slot && *slot ? RNIC_ST_EQ_IN_USE : RNIC_ST_OK;
}

enum rnic_admin_status rnic_eq_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    uint8_t eq_class = sqe->create_eq.eq_class;
    uint32_t depth = le32_to_cpu(sqe->create_eq.depth);
    enum rnic_admin_status status = check_create(s, sqe);
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
    eq->eqn = rnic_table_insert(&s->eqs, eq);
    if (!eq->eqn) {
        rnic_queue_memory_free(&mem);
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
    if (singleton(s, eq_class)) {
        *singleton(s, eq_class) = eq;
    }
    cqe->number = cpu_to_le32(eq->eqn);
    trace_rnic_eq_created(eq->eqn, eq_class, depth, eq->vector);
    return RNIC_ST_OK;
}

static void destroy(RnicEq *eq)
{
    RnicEq **slot = singleton(eq->s, eq->eq_class);
    RnicState *s = eq->s;

    QEMU_LOCK_GUARD(&s->event_lock);
    trace_rnic_eq_destroyed(eq->eqn);
    if (slot) {
        *slot = NULL;
    }
    rnic_table_remove(&s->eqs, eq->eqn);
    g_queue_clear_full(&eq->held, g_free);
    rnic_queue_memory_free(&eq->mem);
    g_free(eq);
}

enum rnic_admin_status rnic_eq_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    RnicEq *eq = rnic_table_get(&s->eqs, le32_to_cpu(sqe->object.number));

    if (!eq) {
        return RNIC_ST_INVALID_EQ;
    }
    if (eq->users) {
        return RNIC_ST_EQ_IN_USE;
    }
    destroy(eq);
    return RNIC_ST_OK;
}

void rnic_eq_reset(RnicState *s)
{
    RnicEq *eq;
    uint32_t eqn;

    RNIC_TABLE_FOREACH(&s->eqs, eqn, eq) {
        destroy(eq);
    }
}

RnicEq *rnic_eq_get_completion(RnicState *s, uint32_t eqn)
{
    RnicEq *eq = rnic_table_get(&s->eqs, eqn);

    return eq && eq->eq_class == RNIC_EQ_COMPLETION ? eq : NULL;
}

void rnic_eq_ref(RnicEq *eq)
{
    eq->users++;
}

void rnic_eq_unref(RnicEq *eq)
{
    eq->users--;
}

static bool read_consumer(RnicEq *eq)
{
    return rnic_record_load32(eq->s, &eq->mem,
                              offsetof(struct rnic_eq_record, consumer),
                              &eq->consumer);
}

static bool has_room(RnicEq *eq)
{
    if (eq->producer - eq->consumer >= eq->depth && !read_consumer(eq)) {
        return false;
    }
    return eq->producer - eq->consumer < eq->depth;
}

/* @event is event_size octets; its last word is the flags, stored last. */
static void write_event(RnicEq *eq, const void *event)
{
    uint32_t body = eq->event_size - sizeof(uint32_t);
    uint64_t at = (uint64_t)(eq->producer & (eq->depth - 1)) * eq->event_size;
    uint32_t flags = eq->producer & eq->depth ? 0 : RNIC_EQE_PHASE;

    if (!rnic_ring_write(eq->s, &eq->mem, 0, at, event, body) ||
        !rnic_ring_store32(eq->s, &eq->mem, 0, at + body, flags)) {
        rnic_fatal(eq->s, RNIC_HEALTH_EQ_DMA);
        return;
    }
    eq->producer++;
    rnic_interrupt(eq->s, eq->vector);
}

/* False when the event had to be dropped. */
static bool post_or_hold(RnicEq *eq, const void *event)
{
    if (g_queue_is_empty(&eq->held) && has_room(eq)) {
        write_event(eq, event);
        return true;
    }
    if (g_queue_get_length(&eq->held) >= HELD_MAX) {
        trace_rnic_ub_event_dropped(eq->eqn);
        return false;
    }
    g_queue_push_tail(&eq->held, g_memdup2(event, eq->event_size));
    return true;
}

void rnic_eq_kick(RnicState *s, uint32_t eqn)
{
    RnicEq *eq = rnic_table_get(&s->eqs, eqn);

    if (!eq) {
        return;
    }
    QEMU_LOCK_GUARD(&s->event_lock);
    while (!g_queue_is_empty(&eq->held) && has_room(eq)) {
        g_autofree void *event = g_queue_pop_head(&eq->held);

        write_event(eq, event);
    }
}

void rnic_eq_post_completion(RnicState *s, RnicEq *eq, uint32_t cqn,
                             uint32_t *last, bool *posted)
{
    struct rnic_ceqe event = { .cqn = cpu_to_le32(cqn) };

    QEMU_LOCK_GUARD(&s->event_lock);
    if (*posted && read_consumer(eq) &&
        (int32_t)(eq->consumer - *last) <= 0) {
        return;
    }
    if (!has_room(eq)) {
        /* Fewer slots than CQs: the driver's mistake. */
        trace_rnic_ub_event_dropped(eq->eqn);
        return;
    }
    *last = eq->producer;
    *posted = true;
    trace_rnic_completion_event(eq->eqn, cqn);
    write_event(eq, &event);
}

void rnic_async_event(RnicState *s, enum rnic_async_event event,
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
    QEMU_LOCK_GUARD(&s->event_lock);
    if (s->async_eq) {
        post_or_hold(s->async_eq, &aeqe);
    }
}

bool rnic_cm_event_post(RnicState *s, struct rnic_cm_event *event)
{
    trace_rnic_cm_event(event->type, event->status, le32_to_cpu(event->qpn),
                        le32_to_cpu(event->endpoint));
    QEMU_LOCK_GUARD(&s->event_lock);
    return s->cm_eq && post_or_hold(s->cm_eq, event);
}
