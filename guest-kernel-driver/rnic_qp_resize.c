// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: new memory for the queues of a process's QP, with other depths.
 *
 * The sizes travel in the provider's own part of the command: uverbs has no
 * place for those of modify_qp.
 */

#include <linux/log2.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

static int rnic_qp_check_resize(struct rnic_dev *dev, const struct rnic_qp *qp,
				const struct rnic_ureq_modify_qp *request)
{
	const struct rnic_user_ring rings[2] = {
		{
			.offset = request->sq_offset,
			.depth = request->sq_depth,
			.min_depth = max_t(u32, request->max_send_wr,
					   RNIC_MIN_SQ_DEPTH),
			.max_depth = dev->limits.max_sq_units,
			.shift = ilog2(RNIC_SQ_UNIT),
		}, {
			.offset = request->rq_offset,
			.depth = request->rq_depth,
			.min_depth = max_t(u32, request->max_recv_wr,
					   RNIC_MIN_RQ_DEPTH),
			.max_depth = dev->limits.max_rq_wr,
			.shift = qp->rq_wqe_shift,
		},
	};
	u32 max_wr = dev->ibdev.attrs.max_qp_wr;

	if (request->reserved || request->max_send_wr > max_wr ||
	    request->max_recv_wr > max_wr)
		return -EINVAL;
	if (!qp->ibqp.srq)
		return rnic_check_user_rings(request->buf_length, rings, 2);
	if (request->rq_offset || request->rq_depth || request->max_recv_wr)
		return -EINVAL;
	return rnic_check_user_rings(request->buf_length, rings, 1);
}

/* Has the device go on in queue; the memory before is free then. */
static int rnic_qp_change_queue(struct rnic_dev *dev, struct rnic_qp *qp,
				struct rnic_queue *queue,
				struct rnic_qp_change *change)
{
	struct rnic_page_table table;
	int ret;

	ret = rnic_queue_describe(dev, queue, &change->memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_modify_qp(dev, qp->qpn, change);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	rnic_queue_free(dev, &qp->queue);
	qp->queue = *queue;
	return 0;
}

static int rnic_qp_resize_to(struct rnic_dev *dev, struct rnic_qp *qp,
			     const struct rnic_ureq_modify_qp *request)
{
	struct rnic_qp_change change = {
		.mask = RNIC_QP_MODIFY_SQ_DEPTH |
			(qp->ibqp.srq ? 0 : RNIC_QP_MODIFY_RQ_DEPTH),
		.sq_depth = request->sq_depth,
		.rq_depth = request->rq_depth,
		.memory.ring_offset[0] = cpu_to_le32(request->sq_offset),
		.memory.ring_offset[1] = cpu_to_le32(request->rq_offset),
	};
	struct rnic_queue queue;
	int ret;

	ret = rnic_queue_pin(dev, &queue, request->buf_addr,
			     request->buf_length);
	if (ret)
		return ret;
	ret = rnic_qp_change_queue(dev, qp, &queue, &change);
	if (ret)
		rnic_queue_free(dev, &queue);
	return ret;
}

int rnic_qp_resize(struct rnic_qp *qp, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);
	struct rnic_ureq_modify_qp request;
	int ret;

	if (!udata || qp->sq.ring || !rnic_has(dev, RNIC_FEATURE_RESIZE_QP))
		return -EOPNOTSUPP;
	ret = rnic_udata_read(udata, &request, sizeof(request));
	if (!ret)
		ret = rnic_qp_check_resize(dev, qp, &request);
	if (!ret)
		ret = rnic_udata_clear(udata, 0);
	if (!ret)
		ret = rnic_qp_resize_to(dev, qp, &request);
	if (ret)
		return ret;
	qp->cap.max_send_wr = request.max_send_wr;
	qp->cap.max_recv_wr = request.max_recv_wr;
	return 0;
}
