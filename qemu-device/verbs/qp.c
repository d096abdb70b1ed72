/*
 * rnic: queue pairs, creation, query, modification, destruction
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/rnic/guest/bulk.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/stream/requests.h"
#include "hw/rnic/tpt/pd.h"
#include "qp-internal.h"
#include "qp-resize.h"
#include "hw/rnic/base/trace.h"

enum {
    KNOWN_ENABLES = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                    RNIC_QP_ENABLE_BIND | RNIC_QP_PRIVILEGED |
                    RNIC_QP_SIGNAL_ALL | RNIC_QP_READ_SINK_BY_REQUEST |
                    RNIC_QP_LAST_WQE_EVENT | RNIC_QP_BIND_WITHOUT_RIGHTS |
                    RNIC_QP_ENABLE_ATOMIC | RNIC_QP_READ_LIST,
    KNOWN_MODIFY = RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_IRD |
                   RNIC_QP_MODIFY_ORD | RNIC_QP_MODIFY_ENABLES |
                   RNIC_QP_MODIFY_RQ_LIMIT | RNIC_QP_MODIFY_SQ_DEPTH |
                   RNIC_QP_MODIFY_RQ_DEPTH,
    /* Of guest memory, that a turn maps: a region may be made of octets. */
    PIECES_PER_TURN = 16 * 1024,
};

/* ------------------------------------------------------------ turns */

void rnic_qp_begin_turn(RnicQp *qp)
{
    rnic_busy_poll_begin_turn(qp);
    qp->worker->window.pieces = 0;
    rnic_tpt_read_lock(qp->s);
}

void rnic_qp_end_turn(RnicQp *qp)
{
    rnic_moderation_end_turn(qp);
    rnic_dma_window_close(&qp->worker->window);
    rnic_tpt_read_unlock(qp->s);
}

bool rnic_qp_turn_over(const RnicQp *qp)
{
    return qp->worker->window.pieces >= PIECES_PER_TURN ||
           rnic_worker_halted(qp->worker);
}

static void qp_work_turn(RnicQp *qp)
{
    switch (qp->state) {
    case RNIC_QPS_RTS:
        if (qp->receive_again || qp->receive_wait.waits) {
            rnic_receive(qp);
        }
        if (qp->state == RNIC_QPS_RTS) {
            rnic_transmit(qp);
        }
        break;
    case RNIC_QPS_IDLE:
        rnic_direct_qp_idle_turn(qp);
        break;
    default:
        rnic_qp_closing_turn(qp);
        break;
    }
}

/*
 * The VM goes on.  The transport may have said that there is room to a turn that
 * ended at once because the worker was being halted, and does not say so again.
 */
static void qp_unpause(RnicQp *qp)
{
    if (!qp->paused) {
        return;
    }
    qp->paused = false;
    if (qp->stream) {
        rnic_stream_resume(qp->stream);
        rnic_qp_flush_stream(qp, false);
    }
}

static void qp_bh(void *opaque)
{
    RnicQp *qp = opaque;
    uint64_t before = qp->bytes_sent;

    if (rnic_worker_halted(qp->worker)) {
        return;                 /* rnic_qp_go() will kick it */
    }
    rnic_qp_begin_turn(qp);
    qp_unpause(qp);
    qp_work_turn(qp);
    rnic_qp_end_turn(qp);
    rnic_busy_poll(qp, qp->bytes_sent - before);
}

void rnic_qp_kick(RnicQp *qp)
{
    qemu_bh_schedule(qp->bh);
}

/* ---------------------------------------------------------- requests */

static RnicAdminRequest *qp_command(RnicRequest *request)
{
    return container_of(request, RnicAdminRequest, request);
}

static RnicWorkResult qp_command_work(RnicRequest *request)
{
    RnicAdminRequest *q = qp_command(request);

    if (q->qp->gone) {
        q->status = RNIC_ST_INVALID_QP;
        return RNIC_WORK_DONE;
    }
    rnic_qp_begin_turn(q->qp);
    q->status = q->handler(q);
    rnic_qp_end_turn(q->qp);
    return RNIC_WORK_DONE;
}

static void qp_end_adoption(RnicAdminRequest *q)
{
    RnicAdoption *adoption = g_steal_pointer(&q->adoption);

    if (adoption) {
        adoption->ended(adoption);
    }
}

static void qp_command_cancel(RnicRequest *request)
{
    RnicAdminRequest *q = qp_command(request);

    rnic_qp_resize_end(q);
    qp_end_adoption(q);
    rnic_qp_put(q->qp);
    rnic_admin_forget(q);
}

static void qp_command_done(RnicRequest *request)
{
    RnicAdminRequest *q = qp_command(request);
    RnicQp *qp = q->qp;

    rnic_qp_resize_end(q);
    qp_end_adoption(q);
    rnic_admin_finish(q, q->status);
    rnic_qp_put(qp);
}

/* Run @turn as a turn of the QP, then @done in the main loop. */
static enum rnic_admin_status
qp_ask(RnicAdminRequest *q, uint32_t qpn,
       enum rnic_admin_status (*turn)(RnicAdminRequest *q),
       void (*done)(RnicRequest *request))
{
    q->qp = rnic_qp_get(q->s, qpn);
    if (!q->qp) {
        return RNIC_ST_INVALID_QP;
    }
    q->handler = turn;
    q->request.work = qp_command_work;
    q->request.done = done;
    q->request.cancel = qp_command_cancel;
    rnic_qp_hold(q->qp);
    rnic_requests_add(q->qp->worker->requests, &q->request);
    return RNIC_ADMIN_LATER;
}

enum rnic_admin_status
rnic_qp_ask(RnicAdminRequest *q, uint32_t qpn,
            enum rnic_admin_status (*turn)(RnicAdminRequest *q))
{
    return qp_ask(q, qpn, turn, qp_command_done);
}

/* A command that may take the QP out of its state has begun, and has been done. */
static void qp_change_begins(RnicQp *qp)
{
    qp->changes++;
}

static void qp_change_done(RnicQp *qp)
{
    if (--qp->changes == 0 && !qp->gone) {
        rnic_qp_kick(qp);       /* for doorbells that were ignored */
    }
}

void rnic_qp_hold(RnicQp *qp)
{
    qp->requests++;
}

void rnic_qp_put(RnicQp *qp)
{
    if (--qp->requests == 0 && qp->released) {
        g_free(qp);
    }
}

/* --------------------------------------------------------------- use */

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
    if (!qp->changes) {
        rnic_qp_kick(qp);
    }
    return true;
}

void rnic_qp_set_read_resources(RnicQp *qp, uint16_t ird, uint16_t ord)
{
    rnic_reads_clear(qp);
    qp->ird = ird;
    qp->ord = ord;
}

/* ---------------------------------------------------------- create */

static enum rnic_admin_status qp_check_sq(const struct rnic_admin_sqe *sqe)
{
    if (sqe->create_qp.max_send_sge > RNIC_MAX_SGE ||
        sqe->create_qp.max_write_sge > RNIC_MAX_SGE) {
        return RNIC_ST_SQ_SGES_EXCEEDED;
    }
    return rnic_qp_check_sq_depth(le32_to_cpu(sqe->create_qp.sq_depth));
}

static enum rnic_admin_status qp_check_rq(const struct rnic_admin_sqe *sqe)
{
    if (sqe->create_qp.max_recv_sge > RNIC_MAX_SGE) {
        return RNIC_ST_RQ_SGES_EXCEEDED;
    }
    if (!rnic_receive_stride_ok(sqe->create_qp.rq_wqe_shift,
                                sqe->create_qp.max_recv_sge)) {
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    return rnic_qp_check_rq_depth(le32_to_cpu(sqe->create_qp.rq_depth));
}

static bool qp_names_srq(const struct rnic_admin_sqe *sqe)
{
    return sqe->create_qp.srqn != 0;
}

/* What is said of an RQ does not count with an S-RQ (V6.3.4-1). */
static enum rnic_admin_status qp_check_depths(const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = qp_check_sq(sqe);

    return status == RNIC_ST_OK && !qp_names_srq(sqe) ? qp_check_rq(sqe) : status;
}

/* V9.2.5.1-5: the RQ Limit belongs to QPs with an S-RQ. */
static enum rnic_admin_status qp_check_srq(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    uint32_t limit = le32_to_cpu(sqe->create_qp.rq_limit);
    RnicSrq *srq = rnic_srq_get(s, le32_to_cpu(sqe->create_qp.srqn));

    if (qp_names_srq(sqe) && !srq) {
        return RNIC_ST_INVALID_SRQ;
    }
    return limit > (srq ? rnic_srq_depth(srq) : 0) ? RNIC_ST_RQ_LIMIT_RANGE
                                                   : RNIC_ST_OK;
}

static bool qp_enables_known(const RnicState *s, uint32_t enables)
{
    return !(enables & ~KNOWN_ENABLES) &&
           (!(enables & RNIC_QP_ENABLE_ATOMIC) ||
            rnic_accepted(s, RNIC_FEATURE_RDMAP_EXTENSIONS)) &&
           (!(enables & RNIC_QP_BIND_WITHOUT_RIGHTS) ||
            rnic_accepted(s, RNIC_FEATURE_BIND_WITHOUT_RIGHTS)) &&
           (!(enables & RNIC_QP_READ_LIST) ||
            rnic_accepted(s, RNIC_FEATURE_READ_LIST));
}

static enum rnic_admin_status qp_check_create(RnicState *s,
                                           const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = qp_check_srq(s, sqe);

    if (!qp_enables_known(s, le32_to_cpu(sqe->create_qp.enables))) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!rnic_pd_get(s, le32_to_cpu(sqe->create_qp.pdn))) {
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
    return qp_check_depths(sqe);
}

static void qp_set_enables(RnicQp *qp, uint32_t enables)
{
    qp->enables = enables;
    qp->who.stag_zero = (enables & RNIC_QP_PRIVILEGED) &&
                        rnic_accepted(qp->s, RNIC_FEATURE_STAG_ZERO);
    qp->who.bind_without_rights = enables & RNIC_QP_BIND_WITHOUT_RIGHTS;
}

static void qp_init_rq(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint32_t limit = le32_to_cpu(sqe->create_qp.rq_limit);

    if (qp_names_srq(sqe)) {
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

static void qp_init_from_command(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    RnicState *s = qp->s;

    qp->who.pd = rnic_pd_get(s, le32_to_cpu(sqe->create_qp.pdn));
    qp->who.qpn = qp->qpn;
    qp->who.windows = &qp->windows;
    qp->send_cq = rnic_cq_get(s, le32_to_cpu(sqe->create_qp.send_cqn));
    qp->recv_cq = rnic_cq_get(s, le32_to_cpu(sqe->create_qp.recv_cqn));
    qp->doorbell_page = le32_to_cpu(sqe->create_qp.doorbell_page);
    qp->ird = le16_to_cpu(sqe->create_qp.ird);
    qp->ord = le16_to_cpu(sqe->create_qp.ord);
    qp->max_send_sge = sqe->create_qp.max_send_sge;
    qp->max_write_sge = sqe->create_qp.max_write_sge;
    qp_set_enables(qp, le32_to_cpu(sqe->create_qp.enables));
    rnic_sq_init(&qp->sq, le32_to_cpu(sqe->create_qp.sq_depth));
    qp_init_rq(qp, sqe);
}

static void qp_take_references(RnicQp *qp)
{
    rnic_object_ref(qp->who.pd);
    rnic_object_ref(qp->send_cq);
    rnic_object_ref(qp->recv_cq);
    rnic_object_ref(qp->rq.srq);
}

static void qp_fill_result(const RnicQp *qp, struct rnic_admin_cqe *cqe)
{
    cqe->number = cpu_to_le32(qp->qpn);
    cqe->qp.ird = cpu_to_le16(qp->ird);
    cqe->qp.ord = cpu_to_le16(qp->ord);
    cqe->qp.sq_depth = cpu_to_le32(qp->sq.depth);
    cqe->qp.rq_depth = cpu_to_le32(qp->rq.ring.depth);
    cqe->qp.state = qp->state;
}

static uint64_t qp_rq_octets(const struct rnic_admin_sqe *sqe)
{
    return qp_names_srq(sqe) ? 0
           : (uint64_t)le32_to_cpu(sqe->create_qp.rq_depth) <<
             sqe->create_qp.rq_wqe_shift;
}

enum rnic_admin_status rnic_qp_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status = qp_check_create(s, sqe);
    RnicQueueMemory mem;
    RnicQp *qp;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(
        s, &sqe->create_qp.memory,
        (uint64_t)le32_to_cpu(sqe->create_qp.sq_depth) * RNIC_SQ_UNIT,
        qp_rq_octets(sqe), &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    qp = g_new0(RnicQp, 1);
    qp->qpn = rnic_table_insert(&s->qps, qp);
    if (!qp->qpn) {
        rnic_queue_memory_free(s, &mem);
        g_free(qp);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    qp->s = s;
    qp->mem = mem;
    qp_init_from_command(qp, sqe);
    qp_take_references(qp);
    qp->worker = rnic_worker_take(s);
    rnic_moderation_init(qp);
    rnic_qp_state_init(qp);
    /* No re-entrancy guard: it is the big lock's, and the DMA of a turn cannot
     * reach MMIO (dma.h). */
    qp->bh = aio_bh_new(qp->worker->bottom_halves, qp_bh, qp);
    qp_fill_result(qp, cqe);
    trace_rnic_qp_created(qp->qpn, rnic_object_number(qp->who.pd), qp->sq.depth,
                          qp->rq.ring.depth,
                          rnic_object_number(qp->rq.srq));
    return RNIC_ST_OK;
}

/* ----------------------------------------------------------- query */

static uint32_t qp_llp_stream(const RnicQp *qp)
{
    return qp->llp_stream ?: RNIC_LLP_STREAM_OF_CM | qp->qpn;
}

static enum rnic_admin_status qp_query_turn(RnicAdminRequest *q)
{
    const RnicQp *qp = q->qp;
    struct rnic_qp_attr attr = {
        .qpn = cpu_to_le32(qp->qpn),
        .pdn = cpu_to_le32(rnic_object_number(qp->who.pd)),
        .send_cqn = cpu_to_le32(rnic_object_number(qp->send_cq)),
        .recv_cqn = cpu_to_le32(rnic_object_number(qp->recv_cq)),
        .srqn = cpu_to_le32(rnic_object_number(qp->rq.srq)),
        .enables = cpu_to_le32(qp->enables),
        .sq_depth = cpu_to_le32(qp->sq.depth),
        .rq_depth = cpu_to_le32(qp->rq.ring.depth),
        .ird = cpu_to_le16(qp->ird),
        .ord = cpu_to_le16(qp->ord),
        .state = qp->state,
        .max_send_sge = qp->max_send_sge,
        .max_write_sge = qp->max_write_sge,
        .max_recv_sge = qp->rq.ring.max_sge,
        .llp_stream = cpu_to_le32(qp->stream ? qp_llp_stream(qp) : 0),
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
        .cqe_errors = cpu_to_le32(qp->cqe_errors),
        .sq_wrs = cpu_to_le64(qp->sq_wrs),
        .rq_wrs = cpu_to_le64(qp->rq_wrs),
        .cqes = cpu_to_le64(qp->cqes),
        .tx_fpdus = cpu_to_le64(qp->tx_fpdus),
        .rx_fpdus = cpu_to_le64(qp->rx_fpdus),
    };

    memcpy(attr.terminate, qp->terminate, sizeof(attr.terminate));
    return rnic_bulk_write(q->s, &q->sqe, &attr, sizeof(attr));
}

enum rnic_admin_status rnic_qp_query(RnicAdminRequest *q)
{
    return qp_ask(q, le32_to_cpu(q->sqe.object.number), qp_query_turn,
                  qp_command_done);
}

/* ---------------------------------------------------------- modify */

static enum rnic_admin_status qp_check_modify(RnicQp *qp,
                                           const struct rnic_admin_sqe *sqe)
{
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);

    if (mask & ~KNOWN_MODIFY ||
        ((mask & RNIC_QP_MODIFY_ENABLES) &&
         !qp_enables_known(qp->s, le32_to_cpu(sqe->modify_qp.enables)))) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    /* V6.1.1-6: what a Privileged Consumer alone gets is fixed at creation. */
    if ((mask & RNIC_QP_MODIFY_ENABLES) &&
        ((le32_to_cpu(sqe->modify_qp.enables) ^ qp->enables) &
         RNIC_QP_PRIVILEGED)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    /* A limit belongs to QPs with an S-RQ. */
    if ((mask & RNIC_QP_MODIFY_RQ_LIMIT) && !qp->rq.srq) {
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

static bool qp_leaves_state(const RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint8_t next = sqe->modify_qp.next_state;

    /* Error to Error is no transition either, but one to be refused. */
    return (le32_to_cpu(sqe->modify_qp.mask) & RNIC_QP_MODIFY_STATE) &&
           (next != qp->state || next == RNIC_QPS_ERROR);
}

/* V6.2.3-12, V6.2.5-2: any Modify QP in Closing and Terminate is refused;
 * attributes change within Idle, within RTS, and with a stream from Idle to RTS only
 * (V6.1.3-2, -4).  A stream belongs to that transition (V9.2.5.3-5). */
static enum rnic_admin_status qp_check_modify_state(RnicQp *qp,
                                                 const RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);
    bool attributes = (mask & ~RNIC_QP_MODIFY_STATE) && !q->adoption;

    if (qp->state == RNIC_QPS_CLOSING || qp->state == RNIC_QPS_TERMINATE) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    if (qp->state == RNIC_QPS_RTS && q->adoption) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    if (qp_leaves_state(qp, sqe) &&
        !rnic_qp_transition_exists(qp->state, sqe->modify_qp.next_state)) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    if (attributes && (qp->state == RNIC_QPS_ERROR || qp_leaves_state(qp, sqe))) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    /* IRD counts slots that may be in use: fixed once connected. */
    if (qp->state == RNIC_QPS_RTS && (mask & RNIC_QP_MODIFY_IRD)) {
        return RNIC_ST_CANNOT_CHANGE_ATTRIBUTE;
    }
    return RNIC_ST_OK;
}

static void qp_apply_attributes(RnicQp *qp, const struct rnic_admin_sqe *sqe)
{
    uint32_t mask = le32_to_cpu(sqe->modify_qp.mask);

    if (mask & RNIC_QP_MODIFY_ENABLES) {
        qp_set_enables(qp, le32_to_cpu(sqe->modify_qp.enables));
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

/* A stream is adopted last of all. */
static enum rnic_admin_status qp_modify_state(RnicQp *qp,
                                              const RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    enum rnic_admin_status status = qp_check_modify_state(qp, q);

    if (status == RNIC_ST_OK && q->adoption) {
        return RNIC_ST_OK;
    }
    if (status == RNIC_ST_OK && qp_leaves_state(qp, sqe)) {
        status = rnic_qp_change_state(qp, sqe->modify_qp.next_state);
    } else if (status == RNIC_ST_OK && qp->state == RNIC_QPS_IDLE &&
               (le32_to_cpu(sqe->modify_qp.mask) & RNIC_QP_MODIFY_STATE)) {
        rnic_direct_qp_forget(qp);
    }
    return status;
}

static enum rnic_admin_status qp_modify_turn(RnicAdminRequest *q)
{
    RnicQp *qp = q->qp;
    enum rnic_admin_status status = qp_check_modify(qp, &q->sqe);

    if (status == RNIC_ST_OK && rnic_qp_resize_asked(&q->sqe)) {
        status = qp_check_modify_state(qp, q);
        if (status == RNIC_ST_OK) {
            status = rnic_qp_resize(q);
        }
    }
    if (status == RNIC_ST_OK) {
        status = qp_modify_state(qp, q);
    }
    if (status == RNIC_ST_OK) {
        qp_apply_attributes(qp, &q->sqe);
        if (q->adoption) {
            rnic_qp_take_stream(qp, q->adoption);
        }
        qp_fill_result(qp, &q->cqe);
        trace_rnic_qp_modified(qp->qpn, le32_to_cpu(q->sqe.modify_qp.mask),
                               qp->enables, qp->ird, qp->ord);
    }
    return status;
}

/* A QP in @state now.  Modify QP takes no QP that is claimed to RTS. */
static void qp_end_claim(RnicQpClaim *claim, uint8_t state)
{
    if (state == RNIC_QPS_IDLE) {
        if (claim->to_idle) {
            claim->to_idle(claim);
        }
    } else if (state != RNIC_QPS_RTS) {
        claim->left_idle(claim);
    }
}

/* A claim is older than the command, see rnic_qp_claim(). */
static void qp_modify_state_done(RnicRequest *request)
{
    RnicAdminRequest *q = qp_command(request);
    RnicQpClaim *claim = q->qp->claim;
    RnicQp *qp = q->qp;

    if (claim && q->status == RNIC_ST_OK) {
        qp_end_claim(claim, q->cqe.qp.state);
    }
    qp_change_done(qp);
    qp_command_done(request);
}

enum rnic_admin_status rnic_qp_modify(RnicAdminRequest *q)
{
    bool state = le32_to_cpu(q->sqe.modify_qp.mask) & RNIC_QP_MODIFY_STATE;
    enum rnic_admin_status status = rnic_qp_resize_prepare(q);

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = qp_ask(q, le32_to_cpu(q->sqe.modify_qp.qpn), qp_modify_turn,
                    state ? qp_modify_state_done : qp_command_done);
    if (status == RNIC_ADMIN_LATER && state) {
        qp_change_begins(q->qp);
    }
    return status;
}

/* One that another connection is being made for has its own way to RTS. */
enum rnic_admin_status rnic_qp_adopt(RnicAdminRequest *q,
                                     RnicAdoption *adoption)
{
    RnicQp *qp = rnic_qp_get(q->s, le32_to_cpu(q->sqe.modify_qp.qpn));
    enum rnic_admin_status status;

    if (qp && qp->claim) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    q->adoption = adoption;
    status = rnic_qp_modify(q);
    if (status != RNIC_ADMIN_LATER) {
        q->adoption = NULL;
    }
    return status;
}

/* --------------------------------------------------------- destroy */

/* The worker's part: no turn comes after it. */
static void qp_quiesce(RnicQp *qp)
{
    qp->gone = true;
    rnic_moderation_cancel(qp);
    rnic_qp_state_cleanup(qp);
    g_clear_pointer(&qp->bh, qemu_bh_delete);
    rnic_sq_cleanup(&qp->sq);
    rnic_reads_clear(qp);
}

/* The main loop's part. */
static void qp_release(RnicQp *qp)
{
    RnicState *s = qp->s;

    trace_rnic_qp_destroyed(qp->qpn);
    if (qp->claim) {
        qp->claim->gone(qp->claim);
    }
    rnic_worker_release(qp->worker);
    rnic_table_remove(&s->qps, qp->qpn);
    rnic_object_unref(qp->who.pd);
    rnic_object_unref(qp->send_cq);
    rnic_object_unref(qp->recv_cq);
    rnic_object_unref(qp->rq.srq);
    rnic_queue_memory_free(s, &qp->mem);
    qp->released = true;
}

/*
 * A stream still there is closed, not reset: what the guest sees as completed
 * may still be on its way through the host's socket.
 */
static enum rnic_admin_status qp_destroy_turn(RnicAdminRequest *q)
{
    RnicQp *qp = q->qp;

    if (qp->windows > 0) {
        return RNIC_ST_MW_BOUND_TO_QP;
    }
    /* A WQE taken from an S-RQ has no other owner any more (V6.3.6-2). */
    if (qp->rq.srq) {
        rnic_rq_flush(qp, 1);
    }
    rnic_moderation_release(qp);
    rnic_qp_drop_stream(qp, false);
    qp_quiesce(qp);
    return RNIC_ST_OK;
}

static void qp_destroy_done(RnicRequest *request)
{
    RnicAdminRequest *q = qp_command(request);

    if (q->status == RNIC_ST_OK) {
        rnic_async_events_withdraw(q->qp->s, RNIC_RESOURCE_QP, q->qp->qpn);
        qp_release(q->qp);
    }
    qp_change_done(q->qp);
    qp_command_done(request);
}

enum rnic_admin_status rnic_qp_destroy(RnicAdminRequest *q)
{
    enum rnic_admin_status status = qp_ask(
        q, le32_to_cpu(q->sqe.object.number), qp_destroy_turn,
        qp_destroy_done);

    if (status == RNIC_ADMIN_LATER) {
        qp_change_begins(q->qp);
    }
    return status;
}

/* ---------------------------------------- reset, failure, stopped VM */

/* QPs of the worker.  The main loop waits, so that its table can be read. */
static void qp_for_each_of(RnicWorker *worker, void (*fn)(RnicQp *qp))
{
    RnicQp *qp;
    uint32_t qpn;

    RNIC_TABLE_FOREACH(&worker->s->qps, qpn, qp) {
        if (qp->worker == worker && !qp->gone) {
            fn(qp);
        }
    }
}

static void qp_stop(RnicQp *qp)
{
    rnic_qp_drop_stream(qp, true);
    qp_quiesce(qp);
}

void rnic_qp_quiesce_all(RnicWorker *worker)
{
    qp_for_each_of(worker, qp_stop);
}

/* V8.3.3-21: the peer is told, if that is possible. */
static void qp_fail(RnicQp *qp)
{
    rnic_qp_tell_failure(qp);
    rnic_qp_drop_stream(qp, false);
    qp_quiesce(qp);
}

void rnic_qp_fail_all(RnicWorker *worker)
{
    qp_for_each_of(worker, qp_fail);
}

static void qp_pause(RnicQp *qp)
{
    qp->paused = true;
    if (qp->stream) {
        rnic_stream_suspend(qp->stream);
    }
}

void rnic_qp_pause_all(RnicWorker *worker)
{
    qp_for_each_of(worker, qp_pause);
}

void rnic_qp_go(RnicState *s)
{
    RnicQp *qp;
    uint32_t qpn;

    RNIC_TABLE_FOREACH(&s->qps, qpn, qp) {
        if (!qp->changes) {
            rnic_qp_kick(qp);
        }
    }
}

void rnic_qp_reset(RnicState *s)
{
    RnicQp *qp;
    uint32_t qpn;

    RNIC_TABLE_FOREACH(&s->qps, qpn, qp) {
        qp_release(qp);
        assert(qp->requests == 0);
        g_free(qp);
    }
}
