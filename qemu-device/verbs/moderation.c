/*
 * rnic: completion event moderation (event-hold-us=)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qp-internal.h"

/* One event tells of so many CQEs at most, so that the guest refills its queues
 * in time. */
enum { CQES_MAX = 16 };

void rnic_moderation_cancel(RnicQp *qp)
{
    qp->moderation.cqes = 0;
    timer_del(&qp->moderation.timer);
}

void rnic_moderation_release(RnicQp *qp)
{
    if (qp->moderation.cqes) {
        rnic_moderation_cancel(qp);
        rnic_cq_release_event(qp->s, qp->send_cq);
        rnic_cq_release_event(qp->s, qp->recv_cq);
    }
}

bool rnic_qp_post_cqe(RnicQp *qp, RnicCq *cq, struct rnic_cqe *cqe)
{
    bool may_hold = qp->s->config.event_hold_us &&
                    qp->state == RNIC_QPS_RTS &&
                    qp->moderation.cqes < CQES_MAX &&
                    !(cqe->flags & RNIC_CQE_SRQ);
    bool held;
    bool posted = rnic_cq_post(qp->s, cq, cqe, may_hold, &held);

    if (posted) {
        qp->cqes++;
        qp->cqe_errors += cqe->status != RNIC_WC_SUCCESS;
    }
    if (held) {
        qp->moderation.cqes++;
    } else {
        rnic_moderation_release(qp);
    }
    return posted;
}

static void moderation_timer(void *opaque)
{
    RnicQp *qp = opaque;

    rnic_qp_begin_turn(qp);
    rnic_moderation_release(qp);
    rnic_qp_end_turn(qp);
}

/* Completions are sure to come, if the peer goes on: work that was begun, in
 * either direction, or that is posted and awaits its turn. */
static bool moderation_more_to_come(const RnicQp *qp)
{
    return qp->state == RNIC_QPS_RTS &&
           (qp->rq.taken || qp->job.kind != RNIC_JOB_NONE ||
            qp->sq.producer != qp->sq.consumer ||
            !QSIMPLEQ_EMPTY(&qp->sq.works));
}

void rnic_moderation_end_turn(RnicQp *qp)
{
    RnicModeration *m = &qp->moderation;

    if (!moderation_more_to_come(qp)) {
        rnic_moderation_release(qp);
    } else if (m->cqes && !timer_pending(&m->timer)) {
        timer_mod(&m->timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                             qp->s->config.event_hold_us * (int64_t)SCALE_US);
    }
}

void rnic_moderation_init(RnicQp *qp)
{
    aio_timer_init(qp->worker->bottom_halves, &qp->moderation.timer,
                   QEMU_CLOCK_VIRTUAL, SCALE_NS, moderation_timer, qp);
}
