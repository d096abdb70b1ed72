/*
 * rnic: queue pairs, creation, query, modification, destruction
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/rnic/pci/admin.h"
#include "hw/rnic/connect/cm.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/tpt/pd.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    KNOWN_ENABLES = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                    RNIC_QP_ENABLE_BIND | RNIC_QP_PRIVILEGED |
                    RNIC_QP_SIGNAL_ALL | RNIC_QP_READ_SINK_BY_REQUEST |
                    RNIC_QP_LAST_WQE_EVENT,
    KNOWN_MODIFY = RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_IRD |
                   RNIC_QP_MODIFY_ORD | RNIC_QP_MODIFY_ENABLES |
                   RNIC_QP_MODIFY_RQ_LIMIT | RNIC_QP_MODIFY_SQ_DEPTH |
                   RNIC_QP_MODIFY_RQ_DEPTH,
    SQ_DEPTH_MIN = RNIC_SQ_MAX_UNITS,
};

/* ------------------------------------------------------------ turns */

void rnic_qp_begin_turn(RnicQp *qp)
{
    rnic_worker_count_turn(qp->worker, qp->qpn);
    rnic_tpt_read_lock(qp->s);
}

void rnic_qp_end_turn(RnicQp *qp)
{
    rnic_moderation_end_turn(qp);
    rnic_dma_window_close(&qp->worker->window);
    rnic_tpt_read_unlock(qp->s);
}

typedef struct TurnCall {
    RnicQp *qp;
    RnicWorkerFn *fn;
    void *opaque;
} TurnCall;

static void call_turn(void *opaque)
{
    TurnCall *call = opaque;

    rnic_qp_begin_turn(call->qp);
    call->fn(call->opaque);
    rnic_qp_end_turn(call->qp);
}

void rnic_qp_call(RnicQp *qp, RnicWorkerFn *fn, void *opaque)
{
    TurnCall call = { qp, fn, opaque };

    rnic_worker_call(qp->worker, call_turn, &call);
}

static void work_turn(RnicQp *qp)
{
    switch (qp->state) {
    case RNIC_QPS_RTS:
        if (qp->started) {
            rnic_transmit(qp);
        }
        break;
    case RNIC_QPS_IDLE:
        break;
    default:
        rnic_qp_closing_turn(qp);
        break;
    }
}

static void qp_bh(void *opaque)
{
    RnicQp *qp = opaque;
    uint64_t before = qp->bytes_sent;

    rnic_worker_want(qp->worker, false);
    rnic_qp_begin_turn(qp);
    work_turn(qp);
    rnic_qp_end_turn(qp);
    rnic_busy_poll(qp, qp->bytes_sent - before);
}

void rnic_qp_kick(RnicQp *qp)
{
    rnic_worker_want(qp->worker, true);
    qemu_bh_schedule(qp->bh);
}

RnicQp *rnic_qp_get(RnicState *s, uint32_t qpn)
{
    return rnic_table_get(&s->qps, qpn);
}

uint32_t rnic_qp_number(const RnicQp *qp)
{
    return qp->qpn;
}

bool rnic_qp_doorbell(RnicState *s, uint32_t page, uint32_t qpn, bool sq)
{
    RnicQp *qp = rnic_qp_get(s, qpn);

    /* With an S-RQ there is no RQ to post to (V6.3.5-1). */
    if (!qp || qp->doorbell_page != page || (!sq && qp->rq.srq)) {
        return false;
    }
    trace_rnic_qp_doorbell(qpn, sq);
    rnic_qp_kick(qp);
    return true;
}

typedef struct IdleCall {
    RnicQp *qp;
    bool idle;
} IdleCall;

/* A QP may come to Idle by itself, but it does not leave it so. */
static void look_idle(void *opaque)
{
    IdleCall *call = opaque;

    call->idle = call->qp->state == RNIC_QPS_IDLE;
}

bool rnic_qp_claim(RnicQp *qp, void *endpoint)
{
    IdleCall call = { .qp = qp };

    rnic_qp_call(qp, look_idle, &call);
    if (!call.idle || qp->claimed_by) {
        return false;
    }
    qp->claimed_by = endpoint;
    return true;
}

void rnic_qp_unclaim(RnicQp *qp)
{
    qp->claimed_by = NULL;
}

void *rnic_qp_claimed_by(const RnicQp *qp)
{
    return qp->claimed_by;
}

void rnic_qp_set_read_resources(RnicQp *qp, uint16_t ird, uint16_t ord)
{
    rnic_reads_clear(qp);
    qp->ird = ird;
    qp->ord = ord;
}

/* ---------------------------------------------------------- create */

static enum rnic_admin_status check_sq(const struct rnic_admin_sqe *sqe)
{
    uint32_t depth = le32_to_cpu(sqe->create_qp.sq_depth);

    if (depth > RNIC_SQ_MAX_DEPTH) {
        return RNIC_ST_SQ_WRS_EXCEEDED;
    }
    if (sqe->create_qp.max_send_sge > RNIC_MAX_SGE ||
        sqe->create_qp.max_write_sge > RNIC_MAX_SGE) {
        return RNIC_ST_SQ_SGES_EXCEEDED;
    }
    return depth >= SQ_DEPTH_MIN && is_power_of_2(depth)
           ? RNIC_ST_OK : RNIC_ST_BAD_QUEUE_MEMORY;
}

static enum rnic_admin_status check_rq(const struct rnic_admin_sqe *sqe)
{
    uint32_t depth = le32_to_cpu(sqe->create_qp.rq_depth);

    if (depth > RNIC_RQ_MAX_DEPTH) {
        return RNIC_ST_RQ_WRS_EXCEEDED;
    }
    if (sqe->create_qp.max_recv_sge > RNIC_MAX_SGE) {
        return RNIC_ST_RQ_SGES_EXCEEDED;
    }
    return is_power_of_2(depth) &&
           rnic_receive_stride_ok(sqe->create_qp.rq_wqe_shift,
                                  sqe->create_qp.max_recv_sge)
           ? RNIC_ST_OK : RNIC_ST_BAD_QUEUE_MEMORY;
}

static bool names_srq(const struct rnic_admin_sqe *sqe)
{
    return sqe->create_qp.srqn != 0;
}

/* What is said of an RQ does not count with an S-RQ (V6.3.4-1). */
static enum rnic_admin_status check_depths(const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = check_sq(sqe);

    return status == RNIC_ST_OK && !names_srq(sqe) ? check_rq(sqe) : status;
}

/* V9.2.5.1-5: the RQ Limit belongs to QPs with an S-RQ. */
static enum rnic_admin_status check_srq(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    uint32_t limit = le32_to_cpu(sqe->create_qp.rq_limit);
    RnicSrq *srq = rnic_srq_get(s, le32_to_cpu(sqe->create_qp.srqn));

    if (names_srq(sqe) && !srq) {
        return RNIC_ST_INVALID_SRQ;
    }
    return limit > (srq ? rnic_srq_depth(srq) : 0) ? RNIC_ST_RQ_LIMIT_RANGE
                                                   : RNIC_ST_OK;
}

static enum rnic_admin_status check_create(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = check_srq(s, sqe);

    if (le32_to_cpu(sqe->create_qp.enables) & ~KNOWN_ENABLES) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!rnic_pd_exists(s, le32_to_cpu(sqe->create_qp.pdn))) {
        return RNIC_ST_INVALID_PD;
    }
    if (!rnic_cq_get(s, le32_to_cpu(sqe->create_qp.send_cqn)) ||
        !rnic_cq_get(s, le32_to_cpu(sqe->create_qp.recv_cqn))) {
        return RNIC_ST_INVALID_CQ;
    }
    if (le16_to_cpu(sqe->create_qp.ord) > s->config.max_ord) {
        return RNIC_ST_ORD_EXCEEDED;
    }
    if (le16_to_cpu(sqe->create_qp.ird) > s->config.max_ird) {
        return RNIC_ST_IRD_EXCEEDED;
    }
    if (le32_to_cpu(sqe->create_qp.doorbell_page) >=
        s->config.doorbell_pages) {
        return RNIC_ST_BAD_DOORBELL_PAGE;
    }
    return check_depths(sqe);
}

static void set_enables(RnicQp *qp, uint32_t enables)
{
    qp->enables = enables;
    qp->who.stag_zero = enables & RNIC_QP_PRIVILEGED;
}

static void init_rq(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint32_t limit = le32_to_cpu(sqe->create_qp.rq_limit);

    if (names_srq(sqe)) {
        qp->rq.srq = rnic_srq_get(qp->s, le32_to_cpu(sqe->create_qp.srqn));
        if (limit) {
            rnic_rq_arm_limit(qp, limit);
        }
        return;
    }
    qp->rq.ring = (RnicReceiveRing) {
        .ring = 1,
        .producer_offset = offsetof(struct rnic_qp_record, rq_producer),
        .depth = le32_to_cpu(sqe->create_qp.rq_depth),
        .wqe_shift = sqe->create_qp.rq_wqe_shift,
        .max_sge = sqe->create_qp.max_recv_sge,
    };
}

static void init_from_command(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    RnicState *s = qp->s;

    qp->who.pdn = le32_to_cpu(sqe->create_qp.pdn);
    qp->who.qpn = qp->qpn;
    qp->send_cq = rnic_cq_get(s, le32_to_cpu(sqe->create_qp.send_cqn));
    qp->recv_cq = rnic_cq_get(s, le32_to_cpu(sqe->create_qp.recv_cqn));
    qp->doorbell_page = le32_to_cpu(sqe->create_qp.doorbell_page);
    qp->ird = le16_to_cpu(sqe->create_qp.ird);
    qp->ord = le16_to_cpu(sqe->create_qp.ord);
    qp->max_send_sge = sqe->create_qp.max_send_sge;
    qp->max_write_sge = sqe->create_qp.max_write_sge;
    set_enables(qp, le32_to_cpu(sqe->create_qp.enables));
    rnic_sq_init(&qp->sq, le32_to_cpu(sqe->create_qp.sq_depth));
    init_rq(qp, sqe);
}

static void take_references(RnicQp *qp)
{
    rnic_pd_ref(qp->s, qp->who.pdn);
    rnic_cq_ref(qp->send_cq);
    rnic_cq_ref(qp->recv_cq);
    if (qp->rq.srq) {
        rnic_srq_ref(qp->rq.srq);
    }
}

static void fill_result(const RnicQp *qp, struct rnic_admin_cqe *cqe)
{
    cqe->number = cpu_to_le32(qp->qpn);
    cqe->qp.ird = cpu_to_le16(qp->ird);
    cqe->qp.ord = cpu_to_le16(qp->ord);
    cqe->qp.sq_depth = cpu_to_le32(qp->sq.depth);
    cqe->qp.rq_depth = cpu_to_le32(qp->rq.ring.depth);
    cqe->qp.state = qp->state;
}

static uint64_t rq_octets(const struct rnic_admin_sqe *sqe)
{
    return names_srq(sqe) ? 0
           : (uint64_t)le32_to_cpu(sqe->create_qp.rq_depth) <<
             sqe->create_qp.rq_wqe_shift;
}

enum rnic_admin_status rnic_qp_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status = check_create(s, sqe);
    RnicQueueMemory mem;
    RnicQp *qp;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(
        s, &sqe->create_qp.memory,
        (uint64_t)le32_to_cpu(sqe->create_qp.sq_depth) * RNIC_SQ_UNIT,
        rq_octets(sqe), &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    qp = g_new0(RnicQp, 1);
    qp->qpn = rnic_table_insert(&s->qps, qp);
    if (!qp->qpn) {
        rnic_queue_memory_free(&mem);
        g_free(qp);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    qp->s = s;
    qp->mem = mem;
    init_from_command(qp, sqe);
    take_references(qp);
    qp->worker = rnic_worker_take(s);
    rnic_moderation_init(qp);
    /* No re-entrancy guard: it is the big lock's, and the DMA of a turn cannot
     * reach MMIO (dma.h). */
    qp->bh = aio_bh_new(qp->worker->bottom_halves, qp_bh, qp);
    fill_result(qp, cqe);
    trace_rnic_qp_created(qp->qpn, qp->who.pdn, qp->sq.depth,
                          qp->rq.ring.depth,
                          qp->rq.srq ? rnic_srq_number(qp->rq.srq) : 0);
    return RNIC_ST_OK;
}

/* ----------------------------------------------------------- query */

typedef struct QueryCall {
    const RnicQp *qp;
    struct rnic_qp_attr attr;
} QueryCall;

static void query(void *opaque)
{
    QueryCall *call = opaque;
    const RnicQp *qp = call->qp;

    call->attr = (struct rnic_qp_attr) {
        .qpn = cpu_to_le32(qp->qpn),
        .pdn = cpu_to_le32(qp->who.pdn),
        .send_cqn = cpu_to_le32(rnic_cq_number(qp->send_cq)),
        .recv_cqn = cpu_to_le32(rnic_cq_number(qp->recv_cq)),
        .srqn = cpu_to_le32(qp->rq.srq ? rnic_srq_number(qp->rq.srq) : 0),
        .enables = cpu_to_le32(qp->enables),
        .sq_depth = cpu_to_le32(qp->sq.depth),
        .rq_depth = cpu_to_le32(qp->rq.ring.depth),
        .ird = cpu_to_le16(qp->ird),
        .ord = cpu_to_le16(qp->ord),
        .state = qp->state,
        .max_send_sge = qp->max_send_sge,
        .max_write_sge = qp->max_write_sge,
        .max_recv_sge = qp->rq.ring.max_sge,
        .llp_stream = cpu_to_le32(qp->stream ? qp->qpn : 0),
        .rq_limit = cpu_to_le32(qp->rq.limit),
        .rq_limit_armed = qp->rq.limit_armed,
        .sq_consumer = cpu_to_le32(qp->sq.consumer),
        .rq_consumer = cpu_to_le32(qp->rq.ring.consumer),
        .terminate_origin = qp->terminate_origin,
        .terminate_length = qp->terminate_length,
        .mpa_revision = qp->mpa_revision,
        .mpa_flags = qp->mpa_flags,
        .bytes_sent = cpu_to_le64(qp->bytes_sent),
        .bytes_received = cpu_to_le64(qp->bytes_received),
    };
    memcpy(call->attr.terminate, qp->terminate, sizeof(call->attr.terminate));
}

enum rnic_admin_status rnic_qp_query(RnicState *s,
                                     const struct rnic_admin_sqe *sqe)
{
    RnicQp *qp = rnic_qp_get(s, le32_to_cpu(sqe->object.number));
    QueryCall call = { .qp = qp };

    if (!qp) {
        return RNIC_ST_INVALID_QP;
    }
    rnic_qp_call(qp, query, &call);
    return rnic_admin_bulk_write(s, sqe, &call.attr, sizeof(call.attr));
}

/* ---------------------------------------------------------- modify */

static enum rnic_admin_status check_modify(RnicQp *qp,
                                           const struct rnic_admin_sqe *sqe)
{
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);

    if (mask & ~KNOWN_MODIFY ||
        ((mask & RNIC_QP_MODIFY_ENABLES) &&
         (le32_to_cpu(sqe->modify_qp.enables) & ~KNOWN_ENABLES))) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    /* RESIZE_QP is not offered; a limit belongs to QPs with an S-RQ. */
    if ((mask & (RNIC_QP_MODIFY_SQ_DEPTH | RNIC_QP_MODIFY_RQ_DEPTH)) ||
        ((mask & RNIC_QP_MODIFY_RQ_LIMIT) && !qp->rq.srq)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    if ((mask & RNIC_QP_MODIFY_RQ_LIMIT) &&
        le32_to_cpu(sqe->modify_qp.rq_limit) > rnic_srq_depth(qp->rq.srq)) {
        return RNIC_ST_RQ_LIMIT_RANGE;
    }
    if ((mask & RNIC_QP_MODIFY_ORD) &&
        le16_to_cpu(sqe->modify_qp.ord) > qp->s->config.max_ord) {
        return RNIC_ST_ORD_EXCEEDED;
    }
    if ((mask & RNIC_QP_MODIFY_IRD) &&
        le16_to_cpu(sqe->modify_qp.ird) > qp->s->config.max_ird) {
        return RNIC_ST_IRD_EXCEEDED;
    }
    return RNIC_ST_OK;
}

static bool leaves_state(const RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint8_t next = sqe->modify_qp.next_state;

    /* Error to Error is no transition either, but one to be refused. */
    return (le32_to_cpu(sqe->modify_qp.mask) & RNIC_QP_MODIFY_STATE) &&
           (next != qp->state || next == RNIC_QPS_ERROR);
}

/* V6.2.3-12, V6.2.5-2: any Modify QP in Closing and Terminate is refused;
 * attributes change within Idle and within RTS only (V6.1.3-4). */
static enum rnic_admin_status check_modify_state(RnicQp *qp,
                                                 const struct rnic_admin_sqe *sqe)
{
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);
    bool attributes = mask & ~RNIC_QP_MODIFY_STATE;

    if (qp->state == RNIC_QPS_CLOSING || qp->state == RNIC_QPS_TERMINATE) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    if (leaves_state(qp, sqe) &&
        !rnic_qp_transition_exists(qp->state, sqe->modify_qp.next_state)) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    if (attributes && (qp->state == RNIC_QPS_ERROR || leaves_state(qp, sqe))) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    /* IRD counts slots that may be in use: fixed once connected. */
    if (qp->state == RNIC_QPS_RTS && (mask & RNIC_QP_MODIFY_IRD)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    return RNIC_ST_OK;
}

static void apply_attributes(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);

    if (mask & RNIC_QP_MODIFY_ENABLES) {
        set_enables(qp, le32_to_cpu(sqe->modify_qp.enables));
    }
    if (mask & RNIC_QP_MODIFY_ORD) {
        qp->ord = le16_to_cpu(sqe->modify_qp.ord);
    }
    if (mask & RNIC_QP_MODIFY_IRD) {
        rnic_qp_set_read_resources(qp, le16_to_cpu(sqe->modify_qp.ird),
                                   qp->ord);
    }
    if (mask & RNIC_QP_MODIFY_RQ_LIMIT) {
        rnic_rq_arm_limit(qp, le32_to_cpu(sqe->modify_qp.rq_limit));
    }
    rnic_qp_kick(qp);
}

typedef struct ModifyCall {
    RnicQp *qp;
    const struct rnic_admin_sqe *sqe;
    struct rnic_admin_cqe *cqe;
    enum rnic_admin_status status;
    bool left_idle;
} ModifyCall;

static enum rnic_admin_status modify_state(RnicQp *qp,
                                           const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = check_modify_state(qp, sqe);

    if (status == RNIC_ST_OK && leaves_state(qp, sqe)) {
        status = rnic_qp_change_state(qp, sqe->modify_qp.next_state);
    }
    return status;
}

static void modify(void *opaque)
{
    ModifyCall *call = opaque;
    RnicQp *qp = call->qp;
    bool was_idle = qp->state == RNIC_QPS_IDLE;

    call->status = check_modify(qp, call->sqe);
    if (call->status == RNIC_ST_OK) {
        call->status = modify_state(qp, call->sqe);
    }
    if (call->status != RNIC_ST_OK) {
        return;
    }
    call->left_idle = was_idle && qp->state != RNIC_QPS_IDLE;
    apply_attributes(qp, call->sqe);
    fill_result(qp, call->cqe);
    trace_rnic_qp_modified(qp->qpn, le32_to_cpu(call->sqe->modify_qp.mask),
                           qp->enables, qp->ird, qp->ord);
}

enum rnic_admin_status rnic_qp_modify(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    RnicQp *qp = rnic_qp_get(s, le32_to_cpu(sqe->modify_qp.qpn));
    ModifyCall call = { .qp = qp, .sqe = sqe, .cqe = cqe };

    if (!qp) {
        return RNIC_ST_INVALID_QP;
    }
    rnic_qp_call(qp, modify, &call);
    if (call.left_idle && qp->claimed_by) {
        rnic_cm_qp_left_idle(s, qp->claimed_by);
    }
    return call.status;
}

/* --------------------------------------------------------- destroy */

/* The worker's part: no turn comes after it. */
static void quiesce(void *opaque)
{
    RnicQp *qp = opaque;

    rnic_qp_drop_stream(qp, false);
    rnic_moderation_cancel(qp);
    qemu_bh_delete(qp->bh);
    qp->bh = NULL;
    rnic_sq_cleanup(&qp->sq);
    rnic_reads_clear(qp);
}

/* The main loop's part. */
static void release(RnicQp *qp)
{
    RnicState *s = qp->s;

    trace_rnic_qp_destroyed(qp->qpn);
    if (qp->claimed_by) {
        rnic_cm_qp_gone(s, qp->claimed_by);
    }
    timer_free(qp->timer);
    rnic_worker_release(qp->worker);
    rnic_tpt_write_lock(s);
    rnic_table_remove(&s->qps, qp->qpn);
    rnic_pd_unref(s, qp->who.pdn);
    rnic_tpt_write_unlock(s);
    rnic_cq_unref(qp->send_cq);
    rnic_cq_unref(qp->recv_cq);
    if (qp->rq.srq) {
        rnic_srq_unref(qp->rq.srq);
    }
    rnic_queue_memory_free(&qp->mem);
    g_free(qp);
}

typedef struct DestroyCall {
    RnicQp *qp;
    bool refused;
} DestroyCall;

/*
 * A stream still there is closed, not reset: what the guest sees as completed
 * may still be on its way through the host's socket.
 */
static void destroy(void *opaque)
{
    DestroyCall *call = opaque;
    RnicQp *qp = call->qp;

    call->refused = qp->windows > 0;
    if (call->refused) {
        return;
    }
    /* A WQE taken from an S-RQ has no other owner any more (V6.3.6-2). */
    if (qp->rq.srq) {
        rnic_rq_flush(qp, 1);
    }
    rnic_moderation_release(qp);
    quiesce(qp);
}

enum rnic_admin_status rnic_qp_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe)
{
    RnicQp *qp = rnic_qp_get(s, le32_to_cpu(sqe->object.number));
    DestroyCall call = { .qp = qp };

    if (!qp) {
        return RNIC_ST_INVALID_QP;
    }
    rnic_qp_call(qp, destroy, &call);
    if (call.refused) {
        return RNIC_ST_MW_BOUND_TO_QP;
    }
    release(qp);
    return RNIC_ST_OK;
}

void rnic_qp_windows_changed(RnicState *s, uint32_t qpn, int change)
{
    RnicQp *qp = rnic_qp_get(s, qpn);

    qp->windows += change;
}

static void stop(void *opaque)
{
    RnicQp *qp = opaque;

    rnic_qp_drop_stream(qp, true);
    rnic_moderation_cancel(qp);
    qemu_bh_cancel(qp->bh);
}

void rnic_qp_stop(RnicState *s)
{
    RnicQp *qp;
    uint32_t qpn;

    RNIC_TABLE_FOREACH(&s->qps, qpn, qp) {
        rnic_qp_call(qp, stop, qp);
    }
}

void rnic_qp_reset(RnicState *s)
{
    RnicQp *qp;
    uint32_t qpn;

    RNIC_TABLE_FOREACH(&s->qps, qpn, qp) {
        rnic_qp_call(qp, quiesce, qp);
        release(qp);
    }
}
