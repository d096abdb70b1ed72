// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: queue pairs of the kernel that the device does not flush.
 *
 * A user that ends a queue pair takes it to ERR and waits, without a limit, for the
 * last completion (ib_drain_qp()). No later completion shows that this one is lost. So
 * the driver looks now and then at what is outstanding in ERR: if the device has
 * flushed nothing for several looks, and nothing of the queue pair waits to be polled,
 * the driver takes the device out of service, which flushes. If a CQ of the QP has
 * failed, as the device has said, it is the user's mistake: the driver flushes that QP
 * alone.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_flush_check.h"
#include "rnic_health.h"
#include "rnic_verbs.h"

/* Looks, two seconds apart, after which a QP that is in Error has been flushed. */
#define RNIC_FLUSH_CHECKS	5
/*
 * Looks after which it is in Error: the device's own time-outs for a close, a Terminate
 * and a peer that does not answer are less.
 */
#define RNIC_ERROR_CHECKS	90

/* The device owes it a CQE, and none waits to be polled. */
static bool rnic_wq_lacks_cqe(struct rnic_qp *qp, struct rnic_wq *wq,
			      struct ib_cq *ibcq)
{
	return rnic_wq_owes_cqe(wq) &&
	       !rnic_cq_holds_any_of(to_rnic_cq(ibcq), qp->qpn,
				     READ_ONCE(wq->tag));
}

/* Whether a CQE is to come, and nothing has moved since the last look. */
static bool rnic_qp_stands_still(struct rnic_qp *qp)
{
	struct rnic_flush_look *look = &qp->flush_look;
	u32 sq = READ_ONCE(qp->sq.consumer);
	u32 rq = READ_ONCE(qp->rq.consumer);
	bool same = look->sq_consumer == sq && look->rq_consumer == rq;

	look->sq_consumer = sq;
	look->rq_consumer = rq;
	return same &&
	       (rnic_wq_lacks_cqe(qp, &qp->sq, qp->ibqp.send_cq) ||
		rnic_wq_lacks_cqe(qp, &qp->rq, qp->ibqp.recv_cq));
}

static bool rnic_qp_is_in_error(struct rnic_qp *qp)
{
	struct rnic_qp_info info;

	return !rnic_cmd_query_qp(to_rnic_dev(qp->ibqp.device), qp->qpn,
				  &info) && info.state == RNIC_QPS_ERROR;
}

static bool rnic_qp_is_not_flushed(struct rnic_qp *qp)
{
	if (!qp->sq.ring || !READ_ONCE(qp->flushes) ||
	    !rnic_qp_stands_still(qp)) {
		qp->flush_look.still = 0;
		return false;
	}
	qp->flush_look.still++;
	return qp->flush_look.still > RNIC_ERROR_CHECKS ||
	       (qp->flush_look.still > RNIC_FLUSH_CHECKS &&
		rnic_qp_is_in_error(qp));
}

static bool rnic_qp_has_failed_cq(const struct rnic_qp *qp)
{
	return READ_ONCE(to_rnic_cq(qp->ibqp.send_cq)->has_failed) ||
	       READ_ONCE(to_rnic_cq(qp->ibqp.recv_cq)->has_failed);
}

/* What waits for it on each CQ polls, and finds it flushed (rnic_poll.c). */
static void rnic_qp_abandon(struct rnic_dev *dev, struct rnic_qp *qp)
{
	WRITE_ONCE(qp->abandoned, true);
	rnic_cq_flush_event(dev, to_rnic_cq(qp->ibqp.send_cq)->cqn);
	rnic_cq_flush_event(dev, to_rnic_cq(qp->ibqp.recv_cq)->cqn);
}

void rnic_flush_check(struct rnic_dev *dev)
{
	unsigned long qpn;
	void *entry;

	xa_for_each(&dev->qps, qpn, entry) {
		struct rnic_qp *qp = rnic_qp_get(dev, qpn);

		if (!qp)
			continue;
		if (rnic_qp_is_not_flushed(qp)) {
			/* Memory is given back: only if the device says Error. */
			if (rnic_qp_has_failed_cq(qp) &&
			    rnic_qp_is_in_error(qp))
				rnic_qp_abandon(dev, qp);
			else
				rnic_fail(dev, "it does not flush a queue pair");
		}
		rnic_ref_put(&qp->ref);
	}
}
