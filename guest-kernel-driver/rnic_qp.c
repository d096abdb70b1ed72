// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: queue pairs, their life. States are in rnic_qp_modify.c, connections
 * in rnic_cm.c, posting in rnic_post.c.
 */

#include <linux/log2.h>

#include "rnic.h"
#include "rnic_cm.h"
#include "rnic_cm_queue.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_number.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

struct rnic_qp *rnic_qp_get(struct rnic_dev *dev, u32 qpn)
{
	unsigned long irq_flags;
	struct rnic_qp *qp;

	xa_lock_irqsave(&dev->qps, irq_flags);
	qp = xa_load(&dev->qps, qpn);
	if (qp && !rnic_ref_tryget(&qp->ref))
		qp = NULL;
	xa_unlock_irqrestore(&dev->qps, irq_flags);
	return qp;
}

static int rnic_qp_check_attr(struct rnic_dev *dev,
			      const struct ib_qp_init_attr *attr)
{
	const struct rnic_limits *l = &dev->limits;
	const struct ib_qp_cap *cap = &attr->cap;
	u32 max_wr = dev->ibdev.attrs.max_qp_wr;

	if (attr->qp_type != IB_QPT_RC || attr->create_flags)
		return -EOPNOTSUPP;
	if (cap->max_send_sge > min(l->max_send_sge, l->max_write_sge) ||
	    cap->max_inline_data > l->max_inline ||
	    cap->max_send_wr > max_wr)
		return -EINVAL;
	/* With an S-RQ what is said of the RQ does not count. */
	if (!attr->srq && (cap->max_recv_sge > l->max_recv_sge ||
			   cap->max_recv_wr > max_wr))
		return -EINVAL;
	return 0;
}

/*
 * READ_SINK_BY_REQUEST: Linux applications do not expect that a Read wants
 * remote access, to the QP or the memory, on the side that reads.
 */
static u32 rnic_qp_enables(struct rnic_dev *dev,
			   const struct ib_qp_init_attr *attr, bool user)
{
	u32 enables = RNIC_QP_READ_SINK_BY_REQUEST;

	if (attr->sq_sig_type == IB_SIGNAL_ALL_WR)
		enables |= RNIC_QP_SIGNAL_ALL;
	if (attr->srq)
		enables |= RNIC_QP_LAST_WQE_EVENT;
	if (rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW))
		enables |= RNIC_QP_ENABLE_BIND;
	if (rnic_has(dev, RNIC_FEATURE_BIND_WITHOUT_RIGHTS))
		enables |= RNIC_QP_BIND_WITHOUT_RIGHTS;
	if (rnic_has(dev, RNIC_FEATURE_READ_LIST))
		enables |= RNIC_QP_READ_LIST;
	if (!user && (rnic_has(dev, RNIC_FEATURE_STAG_ZERO) ||
		      rnic_has(dev, RNIC_FEATURE_FAST_REGISTER)))
		enables |= RNIC_QP_PRIVILEGED;
	return enables;
}

static void rnic_qp_init(struct rnic_dev *dev, struct rnic_qp *qp,
			 const struct ib_qp_init_attr *attr, bool user)
{
	rnic_ref_init(&qp->ref);
	mutex_init(&qp->modify_lock);
	mutex_init(&qp->connection.lock);
	rnic_cm_queue_init_qp(qp);
	spin_lock_init(&qp->sq.lock);
	spin_lock_init(&qp->rq.lock);
	qp->cap = attr->cap;
	if (attr->srq) {
		qp->cap.max_recv_wr = 0;
		qp->cap.max_recv_sge = 0;
	}
	rnic_qp_forget_attributes(qp);
	/* So programs expect it of an RNIC. */
	qp->idle_state = IB_QPS_INIT;
	qp->enables = rnic_qp_enables(dev, attr, user);
}

static void rnic_qp_fill_params(struct rnic_dev *dev, struct rnic_qp *qp,
				const struct ib_qp_init_attr *attr,
				struct rnic_qp_params *params)
{
	params->pdn = to_rnic_pd(qp->ibqp.pd)->pdn;
	params->send_cqn = to_rnic_cq(attr->send_cq)->cqn;
	params->recv_cqn = to_rnic_cq(attr->recv_cq)->cqn;
	if (attr->srq)
		params->srqn = to_rnic_srq(attr->srq)->srqn;
	/* Ceilings; each connection has its own. */
	params->ird = dev->limits.max_ird;
	params->ord = dev->limits.max_ord;
	params->max_send_sge = qp->cap.max_send_sge;
	params->max_write_sge = qp->cap.max_send_sge;
	params->max_recv_sge = qp->cap.max_recv_sge;
	params->enables = qp->enables;
}

/* Its CQs, if they are the kernel's, call no handler any more because of it. */
static void rnic_qp_leave_cqs(struct rnic_qp *qp)
{
	if (!qp->sq.ring)
		return;
	rnic_cqs_remove_qp(qp);
	rnic_cq_forget_receives(qp);
	rnic_cq_await_callers(to_rnic_cq(qp->ibqp.send_cq));
	rnic_cq_await_callers(to_rnic_cq(qp->ibqp.recv_cq));
}

/* Makes the QP in the device and findable; its memory is there. */
static int rnic_qp_start(struct rnic_dev *dev, struct rnic_qp *qp,
			 struct rnic_qp_params *params)
{
	struct rnic_page_table table;
	int ret;

	ret = rnic_queue_describe(dev, &qp->queue, &params->memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_create_qp(dev, params, &qp->qpn);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	qp->ibqp.qp_num = qp->qpn;
	if (qp->sq.ring) {
		rnic_cq_forget_receives(qp);
		rnic_cqs_add_qp(qp);
	}
	ret = rnic_number_take(dev, &dev->qps, RNIC_RESOURCE_QP, qp->qpn, qp);
	if (!ret)
		return 0;
	if (rnic_cmd_destroy_qp(dev, qp->qpn))
		rnic_fail(dev, "it would not destroy a queue pair");
	rnic_qp_leave_cqs(qp);
	return ret;
}

static void rnic_qp_free_memory(struct rnic_dev *dev, struct rnic_qp *qp)
{
	rnic_queue_free(dev, &qp->queue);
	rnic_wq_free(&qp->sq);
	rnic_wq_free(&qp->rq);
}

/* Units of the longest WQE that fits the capabilities. */
static u32 rnic_qp_wqe_units(struct rnic_dev *dev, const struct ib_qp_cap *cap)
{
	u32 payload = max_t(u32, cap->max_send_sge * sizeof(struct rnic_sge),
			    cap->max_inline_data);

	if (rnic_has(dev, RNIC_FEATURE_FAST_REGISTER))
		payload = max_t(u32, payload,
				sizeof(struct rnic_fast_register_wqe));
	return DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) + payload,
			    RNIC_SQ_UNIT);
}

static int rnic_qp_size_kernel_rings(struct rnic_dev *dev, struct rnic_qp *qp,
				     struct rnic_qp_params *params)
{
	u32 units = rnic_qp_wqe_units(dev, &qp->cap) * qp->cap.max_send_wr;

	if (units > dev->limits.max_sq_units)
		return -EINVAL;
	params->sq_depth = roundup_pow_of_two(max_t(u32, units,
						    RNIC_MIN_SQ_DEPTH));
	if (params->srqn)
		return 0;
	params->rq_depth = roundup_pow_of_two(max_t(u32, qp->cap.max_recv_wr,
						    RNIC_MIN_RQ_DEPTH));
	params->rq_wqe_shift = rnic_receive_wqe_shift(qp->cap.max_recv_sge);
	return 0;
}

/* Both rings' memory. */
static int rnic_qp_alloc_kernel_rings(struct rnic_dev *dev, struct rnic_qp *qp,
				      struct rnic_qp_params *params)
{
	u32 sq_offset = rnic_ring_begin(RNIC_QUEUE_RECORD_SIZE, RNIC_SQ_UNIT);
	u32 sq_end = sq_offset + params->sq_depth * RNIC_SQ_UNIT;
	u32 rq_offset = rnic_ring_begin(sq_end, BIT(params->rq_wqe_shift));
	u32 rq_end = rq_offset + (params->rq_depth << params->rq_wqe_shift);
	int ret;

	ret = rnic_queue_alloc(dev, &qp->queue,
			       params->rq_depth ? rq_end : sq_end);
	if (ret)
		return ret;
	qp->sq.ring = qp->queue.pages;
	qp->sq.ring_offset = sq_offset;
	params->memory.ring_offset[0] = cpu_to_le32(sq_offset);
	if (!params->rq_depth)
		return 0;
	qp->rq.ring = qp->queue.pages;
	qp->rq.ring_offset = rq_offset;
	qp->rq.wqe_shift = params->rq_wqe_shift;
	qp->rq.max_sge = qp->cap.max_recv_sge;
	params->memory.ring_offset[1] = cpu_to_le32(rq_offset);
	return 0;
}

static int rnic_create_kernel_qp(struct rnic_dev *dev, struct rnic_qp *qp,
				 struct rnic_qp_params *params)
{
	int ret;

	ret = rnic_qp_size_kernel_rings(dev, qp, params);
	if (!ret)
		ret = rnic_qp_alloc_kernel_rings(dev, qp, params);
	if (ret)
		return ret;
	params->doorbell_page = RNIC_KERNEL_DOORBELL_PAGE;
	ret = rnic_wq_init(dev, &qp->sq, params->sq_depth);
	if (!ret && params->rq_depth)
		ret = rnic_wq_init(dev, &qp->rq, params->rq_depth);
	if (!ret)
		ret = rnic_qp_start(dev, qp, params);
	if (ret)
		rnic_qp_free_memory(dev, qp);
	return ret;
}

static bool rnic_qp_says_nothing_of_rq(const struct rnic_ureq_create_qp *r)
{
	return !r->rq_offset && !r->rq_depth && !r->rq_wqe_shift;
}

static int rnic_qp_check_request(struct rnic_dev *dev,
				 const struct rnic_qp *qp, bool srq,
				 const struct rnic_ureq_create_qp *request)
{
	const struct rnic_user_ring rings[2] = {
		{
			.offset = request->sq_offset,
			.depth = request->sq_depth,
			.min_depth = max_t(u32, qp->cap.max_send_wr,
					   RNIC_MIN_SQ_DEPTH),
			.max_depth = dev->limits.max_sq_units,
			.shift = ilog2(RNIC_SQ_UNIT),
		}, {
			.offset = request->rq_offset,
			.depth = request->rq_depth,
			.min_depth = max_t(u32, qp->cap.max_recv_wr,
					   RNIC_MIN_RQ_DEPTH),
			.max_depth = dev->limits.max_rq_wr,
			.shift = request->rq_wqe_shift,
		},
	};

	if (memchr_inv(request->reserved, 0, sizeof(request->reserved)))
		return -EINVAL;
	if (srq)
		return rnic_qp_says_nothing_of_rq(request) ?
		       rnic_check_user_rings(request->buf_length, rings, 1) :
		       -EINVAL;
	if (request->rq_wqe_shift < RNIC_RQ_MIN_WQE_SHIFT ||
	    request->rq_wqe_shift > RNIC_RQ_MAX_WQE_SHIFT)
		return -EINVAL;
	return rnic_check_user_rings(request->buf_length, rings,
				     ARRAY_SIZE(rings));
}

static int rnic_create_user_qp(struct rnic_dev *dev, struct rnic_qp *qp,
			       struct rnic_qp_params *params,
			       struct ib_udata *udata)
{
	struct rnic_ureq_create_qp request;
	int ret;

	ret = rnic_udata_read(udata, &request, sizeof(request));
	if (!ret)
		ret = rnic_qp_check_request(dev, qp, params->srqn, &request);
	if (!ret)
		ret = rnic_queue_pin(dev, &qp->queue, request.buf_addr,
				     request.buf_length);
	if (ret)
		return ret;
	params->sq_depth = request.sq_depth;
	params->rq_depth = request.rq_depth;
	params->rq_wqe_shift = request.rq_wqe_shift;
	qp->rq_wqe_shift = request.rq_wqe_shift;
	params->doorbell_page = rnic_doorbell_page(udata);
	params->memory.ring_offset[0] = cpu_to_le32(request.sq_offset);
	params->memory.ring_offset[1] = cpu_to_le32(request.rq_offset);
	ret = rnic_qp_start(dev, qp, params);
	if (ret)
		rnic_queue_free(dev, &qp->queue);
	return ret;
}

static int rnic_qp_answer(struct rnic_qp *qp, struct ib_udata *udata)
{
	struct rnic_uresp_create_qp response = { .qpn = qp->qpn };

	return rnic_udata_answer(udata, &response, sizeof(response));
}

void rnic_qp_forget_posted(struct rnic_qp *qp)
{
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);

	/* A process does this itself. */
	if (!qp->sq.ring)
		return;
	rnic_cq_forget_receives(qp);
	rnic_wq_restart(dev, &qp->sq);
	rnic_wq_restart(dev, &qp->rq);
}

/* No thread finds the QP, and the device has none of its number. */
static void rnic_qp_free(struct rnic_dev *dev, struct rnic_qp *qp)
{
	rnic_qp_leave_cqs(qp);
	rnic_ref_drain(&qp->ref);
	rnic_qp_free_memory(dev, qp);
}

/* iw_cm may ask for another state until the connection has ended for it. */
static void rnic_qp_set_gone(struct rnic_qp *qp, bool gone)
{
	mutex_lock(&qp->modify_lock);
	qp->gone = gone;
	mutex_unlock(&qp->modify_lock);
}

/*
 * The device may refuse if a process has windows bound to the QP, and the process
 * may hear of that. A QP that no owner would know of any more goes in any case.
 */
static int rnic_qp_end(struct rnic_qp *qp, bool may_refuse)
{
	struct rnic_windows_before windows = rnic_pd_note_windows(qp->ibqp.pd);
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);
	int ret;

	rnic_cm_qp_ends(qp);
	rnic_qp_set_uncounted(qp, true);
	rnic_qp_set_gone(qp, true);
	atomic_inc(&dev->qps_ending);
	/* Its number is free for another QP as soon as the command is done. */
	xa_erase_irq(&dev->qps, qp->qpn);
	ret = rnic_cmd_destroy_qp(dev, qp->qpn);
	if (ret == -EBUSY && may_refuse &&
	    rnic_pd_has_had_windows(qp->ibqp.pd, &windows) &&
	    !rnic_number_take_back(dev, &dev->qps, RNIC_RESOURCE_QP, qp->qpn,
				   qp)) {
		atomic_dec(&dev->qps_ending);
		rnic_qp_set_gone(qp, false);
		rnic_qp_set_uncounted(qp, false);
		rnic_cm_qp_stays(qp);
		return -EBUSY;
	}
	if (ret)
		rnic_fail(dev, "it would not destroy a queue pair");
	rnic_cm_abandon(qp);
	rnic_qp_free(dev, qp);
	atomic_dec(&dev->qps_ending);
	return 0;
}

int rnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	return rnic_qp_end(to_rnic_qp(ibqp), udata);
}

int rnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_qp_params params = {};
	int ret;

	ret = rnic_qp_check_attr(dev, attr);
	if (ret)
		return ret;
	rnic_qp_init(dev, qp, attr, udata);
	/* With an S-RQ there is no RQ to tell of (V9.2.5.1-4). */
	attr->cap = qp->cap;
	rnic_qp_fill_params(dev, qp, attr, &params);
	if (!udata) {
		rnic_pd_note_kernel_qp(ibqp->pd);
		return rnic_create_kernel_qp(dev, qp, &params);
	}
	ret = rnic_create_user_qp(dev, qp, &params, udata);
	if (ret)
		return ret;
	ret = rnic_qp_answer(qp, udata);
	if (ret)
		rnic_qp_end(qp, false);
	return ret;
}
