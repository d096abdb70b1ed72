/*
 * rnic: completion event moderation
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "qp-internal.h"

/*
 * While an event is held the guest does not refill its queues.  So an event is
 * held only while twice as many WRs are posted as CQEs wait for it.
 */
static bool may_hold(const RnicQp *qp, uint32_t left)
{
    return left / 2 > qp->moderation.cqes;
}

void rnic_moderation_cancel(RnicQp *qp)
{
    qp->moderation.cqes = 0;
    timer_del(&qp->moderation.timer);
}

void rnic_moderation_release(RnicQp *qp)
{
    if (qp->moderation.cqes == 0) {
        return;
    }
    rnic_moderation_cancel(qp);
    rnic_cq_release_event(qp->s, qp->send_cq);
    rnic_cq_release_event(qp->s, qp->recv_cq);
}

bool rnic_qp_post_cqe(RnicQp *qp, RnicCq *cq, struct rnic_cqe *cqe,
                      uint32_t left)
{
    RnicModeration *m = &qp->moderation;
    int64_t release_at;
    bool posted = rnic_cq_post(qp->s, cq, cqe, may_hold(qp, left),
                               &release_at);

    if (!release_at) {
        rnic_moderation_release(qp);
    } else if (m->cqes++ == 0) {
        m->release_at = release_at;
    }
    return posted;
}

static void timer_fired(void *opaque)
{
    RnicQp *qp = opaque;

    rnic_qp_begin_turn(qp);
    rnic_moderation_release(qp);
    rnic_qp_end_turn(qp);
}

/* Completions are sure to come, if the peer goes on: work that was begun, in
 * either direction, or that is posted and awaits its turn. */
static bool more_to_come(const RnicQp *qp)
{
    return qp->state == RNIC_QPS_RTS &&
           (qp->rq.taken || qp->job.kind != RNIC_JOB_NONE ||
            qp->sq.producer != qp->sq.consumer ||
            !QSIMPLEQ_EMPTY(&qp->sq.works));
}

void rnic_moderation_end_turn(RnicQp *qp)
{
    RnicModeration *m = &qp->moderation;

    if (!more_to_come(qp)) {
        rnic_moderation_release(qp);
    } else if (m->cqes && !timer_pending(&m->timer)) {
        timer_mod(&m->timer, m->release_at);
    }
}

void rnic_moderation_init(RnicQp *qp)
{
    aio_timer_init(qp->worker->bottom_halves, &qp->moderation.timer,
                   QEMU_CLOCK_VIRTUAL, SCALE_NS, timer_fired, qp);
}
