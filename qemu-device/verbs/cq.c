/*
 * rnic: completion queues
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "qemu/timer.h"
#include "cq.h"
#include "hw/rnic/fault/fault.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/guest/queue-memory.h"
#include "hw/rnic/base/trace.h"

struct RnicCq {
    RnicObject object;          /* its users: work queues */
    RnicState *s;
    uint32_t flags;             /* RNIC_CQ_* */
    uint32_t doorbell_page;
    RnicEq *eq;                 /* NULL: no notification */
    uint32_t eqn;
    QemuMutex lock;             /* of what follows, and of the ring */
    uint32_t depth;
    RnicQueueMemory mem;
    uint32_t producer;          /* in this ring: the first CQE is number 0 */
    uint32_t consumer;          /* as last read from the record */
    uint32_t armed;             /* RNIC_ARM_* */
    bool failed;
    uint64_t last_event;        /* see rnic_eq_post_completion() */
    bool event_posted;
    bool event_held;            /* armed, and what it is armed for is there */

    /* Moderation that the guest has asked for, instead of the device's. */
    uint16_t event_count;       /* 0: none */
    uint16_t event_period;      /* microseconds */
    uint32_t cqes_held;         /* whose event is held; 0: none is */
    QEMUTimer *timer;           /* the main loop's, of the guest's clock */
};

static size_t cqe_size(uint32_t flags)
{
    return flags & RNIC_CQ_TIMESTAMP ? sizeof(struct rnic_timed_cqe)
                                     : sizeof(struct rnic_cqe);
}

static enum rnic_admin_status cq_check_depth(uint32_t depth)
{
    if (depth > RNIC_CQ_MAX_DEPTH) {
        return RNIC_ST_CQ_TOO_MANY_ENTRIES;
    }
    return depth >= 2 && is_power_of_2(depth) ? RNIC_ST_OK
                                              : RNIC_ST_BAD_QUEUE_MEMORY;
}

static enum rnic_admin_status
cq_read_memory(RnicState *s, const struct rnic_queue_memory *wire,
               uint32_t depth, uint32_t flags, RnicQueueMemory *mem)
{
    return rnic_queue_memory_read(s, wire, (uint64_t)depth * cqe_size(flags),
                                  0, mem);
}

static uint32_t cq_known_flags(const RnicState *s)
{
    return (rnic_accepted(s, RNIC_FEATURE_IGNORE_OVERRUN)
            ? RNIC_CQ_IGNORE_OVERRUN : 0) |
           (rnic_accepted(s, RNIC_FEATURE_TIMESTAMP) ? RNIC_CQ_TIMESTAMP : 0);
}

static enum rnic_admin_status cq_check_create(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    uint32_t eqn = le32_to_cpu(sqe->create_cq.eqn);
    enum rnic_admin_status status =
        cq_check_depth(le32_to_cpu(sqe->create_cq.depth));

    if (le32_to_cpu(sqe->create_cq.flags) & ~cq_known_flags(s)) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (eqn != RNIC_NO_VECTOR && !rnic_eq_get_completion(s, eqn)) {
        return RNIC_ST_INVALID_EVENT_HANDLER;
    }
    if (le32_to_cpu(sqe->create_cq.doorbell_page) >=
        s->config.doorbell_pages) {
        return RNIC_ST_BAD_DOORBELL_PAGE;
    }
    return RNIC_ST_OK;
}

static void cq_fill_result(const RnicCq *cq, struct rnic_admin_cqe *cqe)
{
    cqe->number = cpu_to_le32(cq->object.number);
    cqe->cq.depth = cpu_to_le32(cq->depth);
    cqe->cq.eqn = cpu_to_le32(cq->eqn);
}

enum rnic_admin_status rnic_cq_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status = cq_check_create(s, sqe);
    uint32_t depth = le32_to_cpu(sqe->create_cq.depth);
    uint32_t flags = le32_to_cpu(sqe->create_cq.flags);
    RnicQueueMemory mem;
    RnicCq *cq;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = cq_read_memory(s, &sqe->create_cq.memory, depth, flags, &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    cq = g_new0(RnicCq, 1);
    if (!rnic_object_insert(&s->cqs, cq)) {
        rnic_queue_memory_free(s, &mem);
        g_free(cq);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    qemu_mutex_init(&cq->lock);
    cq->s = s;
    cq->flags = flags;
    cq->depth = depth;
    cq->doorbell_page = le32_to_cpu(sqe->create_cq.doorbell_page);
    cq->mem = mem;
    cq->eqn = le32_to_cpu(sqe->create_cq.eqn);
    cq->eq = rnic_eq_get_completion(s, cq->eqn);
    rnic_object_ref(cq->eq);
    cq_fill_result(cq, cqe);
    trace_rnic_cq_created(cq->object.number, depth, cq->eqn);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_cq_query(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    RnicCq *cq = rnic_cq_get(s, le32_to_cpu(sqe->object.number));

    if (!cq) {
        return RNIC_ST_INVALID_CQ;
    }
    cq_fill_result(cq, cqe);
    return RNIC_ST_OK;
}

/* ---------------------------------------------------------- resize */

static bool cq_load_consumer(RnicState *s, RnicCq *cq)
{
    return rnic_record_load32(s, &cq->mem,
                              offsetof(struct rnic_cq_record, consumer),
                              &cq->consumer);
}

/*
 * V5.3.3-3.  The new ring starts empty: what is counted are the CQEs that the
 * consumer has not taken, in whatever ring they are.
 */
static enum rnic_admin_status cq_check_shrink(RnicState *s, RnicCq *cq,
                                              uint32_t depth, uint32_t earlier)
{
    uint64_t there;

    if (!cq_load_consumer(s, cq)) {
        return RNIC_ST_DMA_ERROR;
    }
    there = cq->producer - cq->consumer;
    /* Where overruns are ignored some may have gone. */
    return MIN(there, cq->depth) + earlier > depth ? RNIC_ST_SHRINK_TOO_SMALL
                                                   : RNIC_ST_OK;
}

/*
 * From here on CQEs go to @mem.  The memory before it gets no more of them: a
 * worker writes with the lock held.
 */
static void cq_change_ring(RnicCq *cq, uint32_t depth, RnicQueueMemory *mem)
{
    RnicQueueMemory before = cq->mem;

    cq->mem = *mem;
    cq->depth = depth;
    cq->producer = 0;
    cq->consumer = 0;
    *mem = before;
}

/* @mem becomes the CQ's, and that before comes back, unless it is refused. */
static enum rnic_admin_status
cq_resize(RnicState *s, RnicCq *cq, const struct rnic_admin_sqe *sqe,
          RnicQueueMemory *mem, struct rnic_admin_cqe *cqe)
{
    uint32_t depth = le32_to_cpu(sqe->modify_cq.depth);
    enum rnic_admin_status status;
    uint32_t end;

    QEMU_LOCK_GUARD(&cq->lock);
    status = cq_check_shrink(s, cq, depth, le32_to_cpu(sqe->modify_cq.earlier));
    if (status != RNIC_ST_OK) {
        return status;
    }
    end = cq->producer;
    cq_change_ring(cq, depth, mem);
    cq_fill_result(cq, cqe);
    cqe->cq.end = cpu_to_le32(end);
    trace_rnic_cq_resized(cq->object.number, depth, end);
    return RNIC_ST_OK;
}

static enum rnic_admin_status
cq_modify_depth(RnicState *s, RnicCq *cq, const struct rnic_admin_sqe *sqe,
                struct rnic_admin_cqe *cqe)
{
    uint32_t depth = le32_to_cpu(sqe->modify_cq.depth);
    enum rnic_admin_status status = cq_check_depth(depth);
    RnicQueueMemory mem;

    if (status == RNIC_ST_OK) {
        status = cq_read_memory(s, &sqe->modify_cq.memory, depth, cq->flags,
                                &mem);
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    status = cq_resize(s, cq, sqe, &mem, cqe);
    rnic_queue_memory_free(s, &mem);
    return status;
}

/* ------------------------------------------------ events, moderation */

static void cq_post_event(RnicState *s, RnicCq *cq)
{
    cq->armed = 0;
    cq->event_held = false;
    if (cq->cqes_held) {
        cq->cqes_held = 0;
        timer_del(cq->timer);
    }
    rnic_eq_post_completion(s, cq->eq, cq->object.number, &cq->last_event,
                            &cq->event_posted);
}

static void cq_timer(void *opaque)
{
    RnicCq *cq = opaque;

    QEMU_LOCK_GUARD(&cq->lock);
    if (cq->cqes_held) {
        cq_post_event(cq->s, cq);
    }
}

/* A CQE is there that the CQ is armed for: the event waits for others. */
static void cq_hold_event(RnicState *s, RnicCq *cq)
{
    if (++cq->cqes_held >= cq->event_count) {
        cq_post_event(s, cq);
    } else if (cq->cqes_held == 1) {
        timer_mod(cq->timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                             cq->event_period * (int64_t)SCALE_US);
    }
}

/* One CQE, or no time, is as good as none. */
static void cq_modify_moderation(RnicState *s, RnicCq *cq,
                                 const struct rnic_admin_sqe *sqe,
                                 struct rnic_admin_cqe *cqe)
{
    uint16_t count = le16_to_cpu(sqe->modify_cq.event_count);
    uint16_t period = le16_to_cpu(sqe->modify_cq.event_period);

    if (!cq->timer) {
        cq->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, cq_timer, cq);
    }
    QEMU_LOCK_GUARD(&cq->lock);
    if (cq->cqes_held) {
        cq_post_event(s, cq);
    }
    cq->event_count = count > 1 && period ? count : 0;
    cq->event_period = period;
    cq_fill_result(cq, cqe);
    trace_rnic_cq_moderation(cq->object.number, count, period);
}

enum rnic_admin_status rnic_cq_modify(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    RnicCq *cq = rnic_cq_get(s, le32_to_cpu(sqe->modify_cq.cqn));

    if (!cq) {
        return RNIC_ST_INVALID_CQ;
    }
    switch (le32_to_cpu(sqe->modify_cq.mask)) {
    case RNIC_CQ_MODIFY_DEPTH:
        return rnic_accepted(s, RNIC_FEATURE_RESIZE_CQ)
               ? cq_modify_depth(s, cq, sqe, cqe) : RNIC_ST_UNSUPPORTED;
    case RNIC_CQ_MODIFY_MODERATION:
        if (!rnic_accepted(s, RNIC_FEATURE_CQ_MODERATION)) {
            return RNIC_ST_UNSUPPORTED;
        }
        cq_modify_moderation(s, cq, sqe, cqe);
        return RNIC_ST_OK;
    default:
        return RNIC_ST_INVALID_MODIFIER;
    }
}

/* --------------------------------------------------------- destroy */

static void cq_destroy(RnicState *s, RnicCq *cq)
{
    trace_rnic_cq_destroyed(cq->object.number);
    timer_free(cq->timer);
    rnic_table_remove(&s->cqs, cq->object.number);
    rnic_object_unref(cq->eq);
    rnic_queue_memory_free(s, &cq->mem);
    qemu_mutex_destroy(&cq->lock);
    g_free(cq);
}

enum rnic_admin_status rnic_cq_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    RnicCq *cq = rnic_cq_get(s, le32_to_cpu(sqe->object.number));

    if (!cq) {
        return RNIC_ST_INVALID_CQ;
    }
    if (rnic_object_in_use(cq)) {
        return RNIC_ST_CQ_IN_USE;
    }
    rnic_async_events_withdraw(s, RNIC_RESOURCE_CQ, cq->object.number);
    cq_destroy(s, cq);
    return RNIC_ST_OK;
}

void rnic_cq_reset(RnicState *s)
{
    RnicCq *cq;
    uint32_t cqn;

    RNIC_TABLE_FOREACH(&s->cqs, cqn, cq) {
        cq_destroy(s, cq);
    }
}

RnicCq *rnic_cq_get(RnicState *s, uint32_t cqn)
{
    return rnic_table_get(&s->cqs, cqn);
}

static void cq_fail(RnicState *s, RnicCq *cq, enum rnic_async_event event)
{
    cq->failed = true;
    trace_rnic_err_cq_failed(cq->object.number, event);
    rnic_async_event(s, event, RNIC_RESOURCE_CQ, cq->object.number, 0, 0);
}

static bool cq_has_room(RnicState *s, RnicCq *cq)
{
    if (cq->producer - cq->consumer < cq->depth ||
        (cq->flags & RNIC_CQ_IGNORE_OVERRUN)) {
        return true;
    }
    if (!cq_load_consumer(s, cq)) {
        cq_fail(s, cq, RNIC_AE_CQ_ERROR);
        return false;
    }
    if (cq->producer - cq->consumer >= cq->depth) {
        cq_fail(s, cq, RNIC_AE_CQ_OVERFLOW);
        return false;
    }
    return true;
}

/* The last word carries the phase: it must appear after all the others. */
static bool cq_write_entry(RnicState *s, RnicCq *cq, const void *entry,
                           uint32_t size)
{
    const uint32_t body = size - sizeof(uint32_t);
    uint64_t at = (uint64_t)(cq->producer & (cq->depth - 1)) * size;
    uint32_t last;

    memcpy(&last, (const uint8_t *)entry + body, sizeof(last));
    return rnic_ring_write(s, &cq->mem, 0, at, entry, body) &&
           rnic_ring_store32(s, &cq->mem, 0, at + body, le32_to_cpu(last));
}

static bool cq_write_cqe(RnicState *s, RnicCq *cq, const struct rnic_cqe *cqe)
{
    struct rnic_timed_cqe timed;

    QEMU_BUILD_BUG_ON(offsetof(struct rnic_cqe, status) != sizeof(*cqe) - 4);
    QEMU_BUILD_BUG_ON(offsetof(struct rnic_timed_cqe, cqe.status) !=
                      sizeof(timed) - 4);
    if (!(cq->flags & RNIC_CQ_TIMESTAMP)) {
        return cq_write_entry(s, cq, cqe, sizeof(*cqe));
    }
    timed = (struct rnic_timed_cqe) {
        .timestamp = cpu_to_le64(rnic_cq_clock()),
        .cqe = *cqe,
    };
    return cq_write_entry(s, cq, &timed, sizeof(timed));
}

/*
 * V8.2.5-9 to 12: which completions an armed CQ reports.  Errors and solicited
 * messages are reported at once.
 */
static void cq_notify(RnicState *s, RnicCq *cq, const struct rnic_cqe *cqe,
                      bool may_hold)
{
    bool solicited = cqe->status != RNIC_WC_SUCCESS ||
                     (cqe->flags & RNIC_CQE_SOLICITED);

    if (!cq->eq || !cq->armed ||
        (!(cq->armed & RNIC_ARM_NEXT) && !solicited)) {
        return;
    }
    if (!solicited && cq->event_count) {
        cq_hold_event(s, cq);
    } else if (may_hold && !solicited) {
        cq->event_held = true;
    } else {
        cq_post_event(s, cq);
    }
}

void rnic_cq_release_event(RnicState *s, RnicCq *cq)
{
    QEMU_LOCK_GUARD(&cq->lock);

    if (cq->event_held) {
        cq_post_event(s, cq);
    }
}

static bool cq_add_cqe(RnicState *s, RnicCq *cq, struct rnic_cqe *cqe)
{
    if (cq->failed || !cq_has_room(s, cq)) {
        return false;
    }
    cqe->flags &= ~RNIC_CQE_PHASE;
    if (!(cq->producer & cq->depth)) {
        cqe->flags |= RNIC_CQE_PHASE;
    }
    if (!cq_write_cqe(s, cq, cqe)) {
        cq_fail(s, cq, RNIC_AE_CQ_ERROR);
        return false;
    }
    cq->producer++;
    return true;
}

/* The same, unless a fault is asked for. */
static bool cq_add_or_err(RnicState *s, RnicCq *cq, struct rnic_cqe *cqe)
{
    unsigned times = 1;
    RnicFault rule;

    if (rnic_fault(s, RNIC_FAULT_EVENT_COMPLETION, cqe->opcode,
                   le32_to_cpu(cqe->qpn), &rule)) {
        times = rnic_fault_written(&rule, cqe, sizeof(*cqe));
    }
    while (times--) {
        if (!cq_add_cqe(s, cq, cqe)) {
            return false;
        }
    }
    return true;
}

bool rnic_cq_post(RnicState *s, RnicCq *cq, struct rnic_cqe *cqe,
                  bool may_hold, bool *held)
{
    QEMU_LOCK_GUARD(&cq->lock);

    *held = false;
    if (!cq_add_or_err(s, cq, cqe)) {
        return false;
    }
    rnic_count(&s->counters.cqes, 1);
    rnic_count(&s->counters.cqe_errors, cqe->status != RNIC_WC_SUCCESS);
    trace_rnic_cqe(cq->object.number, le32_to_cpu(cqe->qpn), le64_to_cpu(cqe->wr_id),
                   cqe->status, cqe->opcode, cqe->flags);
    cq_notify(s, cq, cqe, may_hold);
    *held = cq->event_held;
    return true;
}

bool rnic_cq_on_page(RnicState *s, uint32_t page, uint32_t cqn)
{
    const RnicCq *cq = rnic_cq_get(s, cqn);

    return cq && cq->doorbell_page == page;
}

bool rnic_cq_arm(RnicState *s, uint32_t page, uint32_t value)
{
    uint32_t cqn = value & RNIC_OBJECT_NUMBER_MASK;
    RnicCq *cq = rnic_cq_get(s, cqn);

    if (!rnic_cq_on_page(s, page, cqn) ||
        (value & ~(RNIC_OBJECT_NUMBER_MASK | RNIC_ARM_NEXT |
                   RNIC_ARM_SOLICITED))) {
        return false;
    }
    QEMU_LOCK_GUARD(&cq->lock);
    cq->armed |= value & (RNIC_ARM_NEXT | RNIC_ARM_SOLICITED);
    trace_rnic_cq_armed(cq->object.number, cq->armed);
    return true;
}
