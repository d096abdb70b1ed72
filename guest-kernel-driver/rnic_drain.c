// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: draining of the kernel's queues.
 *
 * As the core does it, with a last work request that is flushed behind all the
 * others, except that none waits for a device that has failed.
 */

#include "rnic.h"
#include "rnic_verbs.h"

struct rnic_drain {
	struct ib_cqe cqe;
	struct completion done;
};

static void rnic_drain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	complete(&container_of(wc->wr_cqe, struct rnic_drain, cqe)->done);
}

static int rnic_drain_begin(struct ib_qp *ibqp, struct rnic_drain *drain)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	drain->cqe.done = rnic_drain_done;
	init_completion(&drain->done);
	return ib_modify_qp(ibqp, &attr, IB_QP_STATE);
}

/*
 * A device that has failed has been reset and adds no completions. Those that
 * it left are thrown away, but whoever polls may have taken ours before that:
 * it is on the stack, so give him time to tell.
 */
static void rnic_drain_give_up(struct ib_qp *ibqp, struct ib_cq *cq,
			       struct rnic_drain *drain)
{
	rnic_cq_forget_qp(to_rnic_cq(cq), to_rnic_qp(ibqp));
	wait_for_completion_timeout(&drain->done, HZ);
}

static void rnic_drain_wait(struct rnic_dev *dev, struct ib_qp *ibqp,
			    struct ib_cq *cq, struct rnic_drain *drain)
{
	while (!wait_for_completion_timeout(&drain->done, HZ / 10)) {
		if (cq->poll_ctx == IB_POLL_DIRECT)
			ib_process_cq_direct(cq, -1);
		if (rnic_failed(dev) && !completion_done(&drain->done)) {
			rnic_drain_give_up(ibqp, cq, drain);
			return;
		}
	}
}

void rnic_drain_sq(struct ib_qp *ibqp)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	struct rnic_drain drain;
	struct ib_rdma_wr last = {
		.wr = {
			.wr_cqe = &drain.cqe,
			.opcode = IB_WR_RDMA_WRITE,
		},
	};
	const struct ib_send_wr *bad_wr;
	int ret;

	ret = rnic_drain_begin(ibqp, &drain);
	if (!ret)
		ret = rnic_post_send(ibqp, &last.wr, &bad_wr);
	if (!ret)
		rnic_drain_wait(dev, ibqp, ibqp->send_cq, &drain);
	else if (!rnic_failed(dev))
		WARN_ONCE(1, "failed to drain send queue: %d\n", ret);
}

void rnic_drain_rq(struct ib_qp *ibqp)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	struct rnic_drain drain;
	struct ib_recv_wr last = { .wr_cqe = &drain.cqe };
	const struct ib_recv_wr *bad_wr;
	int ret;

	ret = rnic_drain_begin(ibqp, &drain);
	if (!ret)
		ret = rnic_post_recv(ibqp, &last, &bad_wr);
	if (!ret)
		rnic_drain_wait(dev, ibqp, ibqp->recv_cq, &drain);
	else if (!rnic_failed(dev))
		WARN_ONCE(1, "failed to drain receive queue: %d\n", ret);
}
