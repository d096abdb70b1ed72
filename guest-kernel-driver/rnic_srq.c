// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: shared receive queues. Posting is in rnic_post.c.
 *
 * As many entries of the ring are free as work requests are not outstanding,
 * whichever these were: the device has taken at least as many as were completed,
 * and takes them in ring order.
 */

#include <linux/log2.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_number.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

struct rnic_srq *rnic_srq_get(struct rnic_dev *dev, u32 srqn)
{
	unsigned long irq_flags;
	struct rnic_srq *srq;

	xa_lock_irqsave(&dev->srqs, irq_flags);
	srq = xa_load(&dev->srqs, srqn);
	if (srq && !rnic_ref_tryget(&srq->ref))
		srq = NULL;
	xa_unlock_irqrestore(&dev->srqs, irq_flags);
	return srq;
}

static int rnic_srq_check_attr(struct rnic_dev *dev,
			       const struct ib_srq_init_attr *attr)
{
	const struct rnic_limits *l = &dev->limits;

	if (attr->srq_type != IB_SRQT_BASIC || !rnic_has(dev, RNIC_FEATURE_SRQ))
		return -EOPNOTSUPP;
	if (!attr->attr.max_wr || attr->attr.max_wr > l->max_srq_wr ||
	    attr->attr.max_sge > l->max_recv_sge ||
	    attr->attr.srq_limit > attr->attr.max_wr)
		return -EINVAL;
	return 0;
}

static void rnic_srq_end(struct rnic_dev *dev, struct rnic_srq *srq)
{
	if (rnic_cmd_destroy_srq(dev, srq->srqn))
		rnic_fail(dev, "it would not destroy a shared receive queue");
}

/* Makes the S-RQ in the device and findable; its memory is there. */
static int rnic_srq_start(struct rnic_dev *dev, struct rnic_srq *srq,
			  struct rnic_srq_params *params)
{
	struct rnic_page_table table;
	int ret;

	params->pdn = to_rnic_pd(srq->ibsrq.pd)->pdn;
	params->max_sge = srq->wq.max_sge;
	params->depth = srq->wq.depth;
	params->wqe_shift = srq->wq.wqe_shift;
	ret = rnic_queue_describe(dev, &srq->queue, &params->memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_create_srq(dev, params, &srq->srqn);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	ret = rnic_number_take(dev, &dev->srqs, RNIC_RESOURCE_SRQ, srq->srqn,
			       srq);
	if (ret)
		rnic_srq_end(dev, srq);
	return ret;
}

static void rnic_srq_free_memory(struct rnic_dev *dev, struct rnic_srq *srq)
{
	rnic_queue_free(dev, &srq->queue);
	rnic_wq_free(&srq->wq);
}

static int rnic_create_kernel_srq(struct rnic_dev *dev, struct rnic_srq *srq,
				  struct rnic_srq_params *params)
{
	size_t size = (size_t)srq->wq.depth << srq->wq.wqe_shift;
	u32 offset = rnic_ring_begin(RNIC_QUEUE_RECORD_SIZE,
				     BIT(srq->wq.wqe_shift));
	int ret;

	ret = rnic_queue_alloc(dev, &srq->queue, offset + size);
	if (ret)
		return ret;
	srq->wq.ring = srq->queue.pages;
	srq->wq.ring_offset = offset;
	params->doorbell_page = RNIC_KERNEL_DOORBELL_PAGE;
	params->memory.ring_offset[0] = cpu_to_le32(offset);
	ret = rnic_wq_init(dev, &srq->wq, srq->wq.depth);
	if (!ret)
		ret = rnic_srq_start(dev, srq, params);
	if (ret)
		rnic_srq_free_memory(dev, srq);
	return ret;
}

static int rnic_srq_read_request(struct rnic_dev *dev, struct rnic_srq *srq,
				 struct ib_udata *udata,
				 struct rnic_ureq_create_srq *request)
{
	struct rnic_user_ring ring = {
		.min_depth = srq->wq.depth,
		.max_depth = dev->limits.max_srq_wr,
	};
	int ret;

	ret = rnic_udata_read(udata, request, sizeof(*request));
	if (ret)
		return ret;
	if (memchr_inv(request->reserved, 0, sizeof(request->reserved)) ||
	    request->wqe_shift < srq->wq.wqe_shift ||
	    request->wqe_shift > RNIC_RQ_MAX_WQE_SHIFT)
		return -EINVAL;
	ring.offset = request->ring_offset;
	ring.depth = request->depth;
	ring.shift = request->wqe_shift;
	return rnic_check_user_rings(request->buf_length, &ring, 1);
}

static int rnic_create_user_srq(struct rnic_dev *dev, struct rnic_srq *srq,
				struct rnic_srq_params *params,
				struct ib_udata *udata)
{
	struct rnic_ureq_create_srq request;
	int ret;

	ret = rnic_srq_read_request(dev, srq, udata, &request);
	if (!ret)
		ret = rnic_queue_pin(dev, &srq->queue, request.buf_addr,
				     request.buf_length);
	if (ret)
		return ret;
	srq->wq.depth = request.depth;
	srq->wq.wqe_shift = request.wqe_shift;
	params->doorbell_page = rnic_doorbell_page(udata);
	params->memory.ring_offset[0] = cpu_to_le32(request.ring_offset);
	ret = rnic_srq_start(dev, srq, params);
	if (ret)
		rnic_queue_free(dev, &srq->queue);
	return ret;
}

static int rnic_srq_answer(struct rnic_srq *srq, struct ib_udata *udata)
{
	struct rnic_uresp_create_srq response = {
		.srqn = srq->srqn,
		.depth = srq->wq.depth,
	};

	return rnic_udata_answer(udata, &response, sizeof(response));
}

int rnic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibsrq->device);
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	struct rnic_srq_params params = { .limit = attr->attr.srq_limit };
	int ret;

	ret = rnic_srq_check_attr(dev, attr);
	if (ret)
		return ret;
	rnic_ref_init(&srq->ref);
	spin_lock_init(&srq->wq.lock);
	mutex_init(&srq->resize_lock);
	srq->wq.max_sge = attr->attr.max_sge;
	srq->wq.depth = roundup_pow_of_two(attr->attr.max_wr);
	srq->wq.wqe_shift = rnic_receive_wqe_shift(attr->attr.max_sge);
	if (udata)
		ret = rnic_create_user_srq(dev, srq, &params, udata);
	else
		ret = rnic_create_kernel_srq(dev, srq, &params);
	if (ret)
		return ret;
	attr->attr.max_wr = srq->wq.depth;
	if (!udata)
		return 0;
	ret = rnic_srq_answer(srq, udata);
	if (ret)
		rnic_destroy_srq(ibsrq, udata);
	return ret;
}

/* Has the device go on in queue; the memory before is free then. */
static int rnic_srq_change_queue(struct rnic_dev *dev, struct rnic_srq *srq,
				 struct rnic_queue *queue,
				 const struct rnic_ureq_modify_srq *request)
{
	struct rnic_queue_memory memory = {
		.ring_offset[0] = cpu_to_le32(request->ring_offset),
	};
	struct rnic_page_table table;
	int ret;

	ret = rnic_queue_describe(dev, queue, &memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_resize_srq(dev, srq->srqn, request->depth, &memory);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	rnic_queue_free(dev, &srq->queue);
	srq->queue = *queue;
	srq->wq.depth = request->depth;
	return 0;
}

static int rnic_srq_read_resize(struct rnic_dev *dev, struct rnic_srq *srq,
				u32 max_wr, struct ib_udata *udata,
				struct rnic_ureq_modify_srq *request)
{
	struct rnic_user_ring ring = {
		.min_depth = max_wr,
		.max_depth = dev->limits.max_srq_wr,
		.shift = srq->wq.wqe_shift,
	};
	int ret = rnic_udata_read(udata, request, sizeof(*request));

	if (ret)
		return ret;
	if (request->reserved)
		return -EINVAL;
	ring.offset = request->ring_offset;
	ring.depth = request->depth;
	return rnic_check_user_rings(request->buf_length, &ring, 1);
}

/* The kernel's own keep their size, as their QPs do. */
static int rnic_srq_resize(struct rnic_dev *dev, struct rnic_srq *srq,
			   u32 max_wr, struct ib_udata *udata)
{
	struct rnic_ureq_modify_srq request;
	struct rnic_queue queue;
	int ret;

	if (!udata || srq->wq.ring || !rnic_has(dev, RNIC_FEATURE_RESIZE_QP))
		return -EOPNOTSUPP;
	if (!max_wr || max_wr > dev->limits.max_srq_wr)
		return -EINVAL;
	ret = rnic_srq_read_resize(dev, srq, max_wr, udata, &request);
	if (!ret)
		ret = rnic_udata_clear(udata, 0);
	if (!ret)
		ret = rnic_queue_pin(dev, &queue, request.buf_addr,
				     request.buf_length);
	if (ret)
		return ret;
	mutex_lock(&srq->resize_lock);
	ret = rnic_srq_change_queue(dev, srq, &queue, &request);
	mutex_unlock(&srq->resize_lock);
	if (ret)
		rnic_queue_free(dev, &queue);
	return ret;
}

int rnic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibsrq->device);
	int ret;

	if (mask & ~(IB_SRQ_LIMIT | IB_SRQ_MAX_WR))
		return -EOPNOTSUPP;
	if (mask == IB_SRQ_MAX_WR)
		return rnic_srq_resize(dev, to_rnic_srq(ibsrq), attr->max_wr,
				       udata);
	/* All or nothing, so what resizes comes alone. */
	if (mask & IB_SRQ_MAX_WR)
		return -EINVAL;
	ret = rnic_udata_none(udata);
	if (ret)
		return ret;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	return rnic_cmd_set_srq_limit(dev, to_rnic_srq(ibsrq)->srqn,
				      attr->srq_limit);
}

int rnic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct rnic_dev *dev = to_rnic_dev(ibsrq->device);
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	struct rnic_srq_info info;
	int ret;

	ret = rnic_cmd_query_srq(dev, srq->srqn, &info);
	if (ret)
		return ret;
	attr->max_wr = srq->wq.depth;
	attr->max_sge = srq->wq.max_sge;
	attr->srq_limit = info.limit;
	return 0;
}

int rnic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibsrq->device);
	struct rnic_srq *srq = to_rnic_srq(ibsrq);

	/* Its number is free for another one as soon as the command is done. */
	xa_erase_irq(&dev->srqs, srq->srqn);
	rnic_srq_end(dev, srq);
	rnic_ref_drain(&srq->ref);
	rnic_srq_free_memory(dev, srq);
	return 0;
}
