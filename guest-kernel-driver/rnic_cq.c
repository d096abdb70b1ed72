// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: completion queues, their life. Polling is in rnic_poll.c.
 */

#include <linux/delay.h>
#include <linux/log2.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_completion.h"
#include "rnic_health.h"
#include "rnic_number.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

#define RNIC_MIN_CQ_DEPTH	2

struct rnic_cq *rnic_cq_get(struct rnic_dev *dev, u32 cqn)
{
	unsigned long irq_flags;
	struct rnic_cq *cq;

	xa_lock_irqsave(&dev->cqs, irq_flags);
	cq = xa_load(&dev->cqs, cqn);
	if (cq && !rnic_ref_tryget(&cq->ref))
		cq = NULL;
	xa_unlock_irqrestore(&dev->cqs, irq_flags);
	return cq;
}

/*
 * The kernel expects one event of a CQ that it has armed, and no other, and no second
 * one while its handler runs: a caller leaves the call to one that is at it. The
 * kernel destroys the CQ's QPs, then ends the work that the handler queues, and then
 * destroys the CQ: a handler that is called without QPs would queue work for a CQ
 * that is freed.
 */
static void rnic_cq_call_handler(struct rnic_cq *cq)
{
	/*
	 * A device whose events never end could keep the caller below for ever, by
	 * events that other CPUs take: they leave here. The barrier is between what the
	 * caller has set (a CQE, the mark of a failed device or QP) and this look at
	 * armed. It pairs with the one in rnic_req_notify_cq().
	 */
	smp_mb();
	if (!READ_ONCE(cq->armed) || !rnic_cq_has_qps(cq))
		return;
	/* A full barrier: pairs with rnic_cq_await_callers(), after the removal of a QP. */
	if (atomic_inc_return(&cq->callers) > 1)
		return;
	do {
		if (rnic_cq_has_qps(cq) && xchg(&cq->armed, false) &&
		    cq->ibcq.comp_handler)
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	} while (atomic_dec_return(&cq->callers));
}

void rnic_cq_await_callers(struct rnic_cq *cq)
{
	/* Pairs with rnic_cq_call_handler(). */
	smp_mb();
	while (atomic_read(&cq->callers))
		usleep_range(10, 50);
}

void rnic_cq_completion_event(struct rnic_cq *cq)
{
	if (cq->ring)
		rnic_cq_call_handler(cq);
	else if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	rnic_ref_put(&cq->ref);
}

void rnic_cq_flush_event(struct rnic_dev *dev, u32 cqn)
{
	struct rnic_cq *cq = rnic_cq_get(dev, cqn);

	if (!cq)
		return;
	if (cq->ring)
		rnic_cq_call_handler(cq);
	rnic_ref_put(&cq->ref);
}

static bool rnic_cq_event_is_lost(struct rnic_cq *cq)
{
	/* Which of the CQEs is solicited the device alone knows. */
	return cq->ring && READ_ONCE(cq->armed) &&
	       !READ_ONCE(cq->armed_solicited) && rnic_cq_waits(cq);
}

void rnic_cqs_check(struct rnic_dev *dev)
{
	unsigned long cqn;
	void *entry;

	xa_for_each(&dev->cqs, cqn, entry) {
		struct rnic_cq *cq = rnic_cq_get(dev, cqn);

		if (!cq)
			continue;
		if (rnic_cq_event_is_lost(cq))
			rnic_cq_completion_event(cq);
		else
			rnic_ref_put(&cq->ref);
	}
}

static void rnic_cq_end(struct rnic_dev *dev, struct rnic_cq *cq)
{
	if (rnic_cmd_destroy_cq(dev, cq->cqn))
		rnic_fail(dev, "it would not destroy a completion queue");
}

/* Makes the CQ in the device and findable; its memory is there. */
static int rnic_cq_start(struct rnic_dev *dev, struct rnic_cq *cq,
			 const struct ib_cq_init_attr *attr,
			 u32 ring_offset, u32 doorbell_page)
{
	struct rnic_cq_params params = {
		.flags = cq->flags,
		.depth = cq->depth,
		.eqn = dev->comp_eqs[attr->comp_vector %
				     dev->num_comp_eqs].eqn,
		.doorbell_page = doorbell_page,
		.memory.ring_offset[0] = cpu_to_le32(ring_offset),
	};
	struct rnic_page_table table;
	int ret;

	rnic_ref_init(&cq->ref);
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	mutex_init(&cq->resize_lock);
	ret = rnic_queue_describe(dev, &cq->queue, &params.memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_create_cq(dev, &params, &cq->cqn);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	rnic_completions_take_old(dev);
	ret = rnic_number_take(dev, &dev->cqs, RNIC_RESOURCE_CQ, cq->cqn, cq);
	if (ret)
		rnic_cq_end(dev, cq);
	return ret;
}

static int rnic_create_kernel_cq(struct rnic_dev *dev, struct rnic_cq *cq,
				 const struct ib_cq_init_attr *attr)
{
	int ret;

	cq->depth = roundup_pow_of_two(max_t(u32, attr->cqe,
					     RNIC_MIN_CQ_DEPTH));
	cq->ring_offset = rnic_ring_begin(RNIC_QUEUE_RECORD_SIZE,
					  sizeof(struct rnic_cqe));
	ret = rnic_queue_alloc(dev, &cq->queue, cq->ring_offset +
			       cq->depth * sizeof(struct rnic_cqe));
	if (ret)
		return ret;
	cq->ring = cq->queue.pages;
	ret = rnic_cq_start(dev, cq, attr, cq->ring_offset,
			    RNIC_KERNEL_DOORBELL_PAGE);
	if (ret)
		rnic_queue_free(dev, &cq->queue);
	return ret;
}

/* Of a process's CQ: RNIC_CQ_*, or -EOPNOTSUPP. */
static int rnic_cq_set_flags(struct rnic_dev *dev, struct rnic_cq *cq, u32 flags)
{
	const u32 known = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN |
			  IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;

	cq->flags = 0;
	if (flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		cq->flags |= RNIC_CQ_IGNORE_OVERRUN;
	if (flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		cq->flags |= RNIC_CQ_TIMESTAMP;
	if ((flags & ~known) ||
	    ((cq->flags & RNIC_CQ_IGNORE_OVERRUN) &&
	     !rnic_has(dev, RNIC_FEATURE_IGNORE_OVERRUN)) ||
	    ((cq->flags & RNIC_CQ_TIMESTAMP) &&
	     !rnic_has(dev, RNIC_FEATURE_TIMESTAMP)))
		return -EOPNOTSUPP;
	return 0;
}

static size_t rnic_cqe_size(const struct rnic_cq *cq)
{
	return cq->flags & RNIC_CQ_TIMESTAMP ? sizeof(struct rnic_timed_cqe) :
					       sizeof(struct rnic_cqe);
}

/* cqe: what the program asks for. */
static int rnic_cq_check_ring(struct rnic_dev *dev, const struct rnic_cq *cq,
			      u32 cqe, u32 buf_length, u32 offset, u32 depth)
{
	struct rnic_user_ring ring = {
		.offset = offset,
		.depth = depth,
		.min_depth = max_t(u32, cqe, RNIC_MIN_CQ_DEPTH),
		.max_depth = dev->limits.max_cqe,
		.shift = ilog2(rnic_cqe_size(cq)),
	};

	return rnic_check_user_rings(buf_length, &ring, 1);
}

static int rnic_cq_read_request(struct rnic_dev *dev, const struct rnic_cq *cq,
				const struct ib_cq_init_attr *attr,
				struct ib_udata *udata,
				struct rnic_ureq_create_cq *request)
{
	int ret;

	ret = rnic_udata_read(udata, request, sizeof(*request));
	if (ret)
		return ret;
	if (request->reserved)
		return -EINVAL;
	return rnic_cq_check_ring(dev, cq, attr->cqe, request->buf_length,
				  request->ring_offset, request->depth);
}

int rnic_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct RNIC_CQ_UDATA *cq_udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct ib_udata *udata = rnic_cq_udata(cq_udata);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	struct rnic_ureq_create_cq request;
	struct rnic_uresp_create_cq response = {};
	int ret;

	ret = rnic_cq_set_flags(dev, cq, attr->flags);
	if (ret)
		return ret;
	if (!attr->cqe || attr->cqe > dev->limits.max_cqe)
		return -EINVAL;
	ret = rnic_cq_read_request(dev, cq, attr, udata, &request);
	if (ret)
		return ret;
	ret = rnic_queue_pin(dev, &cq->queue, request.buf_addr,
			     request.buf_length);
	if (ret)
		return ret;
	cq->depth = request.depth;
	ret = rnic_cq_start(dev, cq, attr, request.ring_offset,
			    rnic_doorbell_page(udata));
	if (ret)
		goto err_unpin;
	ibcq->cqe = cq->depth;
	response.cqn = cq->cqn;
	response.depth = cq->depth;
	ret = rnic_udata_answer(udata, &response, sizeof(response));
	if (ret)
		goto err_destroy;
	return 0;

err_destroy:
	rnic_destroy_cq(ibcq, udata);
	return ret;
err_unpin:
	rnic_queue_free(dev, &cq->queue);
	return ret;
}

int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct RNIC_CQ_UDATA *cq_udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	int ret;

	if (rnic_cq_udata(cq_udata))
		return rnic_create_user_cq(ibcq, attr, cq_udata);
	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->limits.max_cqe)
		return -EINVAL;
	ret = rnic_create_kernel_cq(dev, cq, attr);
	if (!ret)
		ibcq->cqe = cq->depth;
	return ret;
}

int rnic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);

	if (!rnic_has(dev, RNIC_FEATURE_CQ_MODERATION))
		return -EOPNOTSUPP;
	if (count > dev->limits.max_event_count ||
	    period > dev->limits.max_event_period)
		return -EINVAL;
	return rnic_cmd_moderate_cq(dev, to_rnic_cq(ibcq)->cqn, count, period);
}

/* Has the device go on in queue; the memory before is free then. */
static int rnic_cq_change_queue(struct rnic_dev *dev, struct rnic_cq *cq,
				struct rnic_queue *queue,
				struct rnic_cq_resize *params, u32 *end)
{
	struct rnic_page_table table;
	int ret;

	ret = rnic_queue_describe(dev, queue, &params->memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_resize_cq(dev, params, end);
	rnic_page_table_free(dev, &table);
	if (ret)
		return ret;
	rnic_queue_free(dev, &cq->queue);
	cq->queue = *queue;
	cq->depth = params->depth;
	cq->ibcq.cqe = cq->depth;
	return 0;
}

static int rnic_cq_resize_to(struct rnic_dev *dev, struct rnic_cq *cq,
			     const struct rnic_ureq_resize_cq *request,
			     u32 *end)
{
	struct rnic_cq_resize params = {
		.cqn = cq->cqn,
		.depth = request->depth,
		.earlier = request->earlier,
		.memory.ring_offset[0] = cpu_to_le32(request->ring_offset),
	};
	struct rnic_queue queue;
	int ret;

	ret = rnic_queue_pin(dev, &queue, request->buf_addr,
			     request->buf_length);
	if (ret)
		return ret;
	mutex_lock(&cq->resize_lock);
	ret = rnic_cq_change_queue(dev, cq, &queue, &params, end);
	mutex_unlock(&cq->resize_lock);
	if (ret)
		rnic_queue_free(dev, &queue);
	return ret;
}

static int rnic_cq_read_resize(struct rnic_dev *dev, const struct rnic_cq *cq,
			       u32 cqe, struct ib_udata *udata,
			       struct rnic_ureq_resize_cq *request)
{
	int ret = rnic_udata_read(udata, request, sizeof(*request));

	if (ret)
		return ret;
	return rnic_cq_check_ring(dev, cq, cqe, request->buf_length,
				  request->ring_offset, request->depth);
}

int rnic_resize_cq(struct ib_cq *ibcq, RNIC_CQE_COUNT cqe,
		   struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	struct rnic_ureq_resize_cq request;
	struct rnic_uresp_resize_cq response = {};
	int ret;

	if (!udata || !rnic_has(dev, RNIC_FEATURE_RESIZE_CQ))
		return -EOPNOTSUPP;
	if (cqe < 1 || cqe > dev->limits.max_cqe)
		return -EINVAL;
	ret = rnic_cq_read_resize(dev, cq, cqe, udata, &request);
	/* That there is room for the answer must be sure before. */
	if (!ret)
		ret = rnic_udata_answer(udata, &response, sizeof(response));
	if (!ret)
		ret = rnic_cq_resize_to(dev, cq, &request, &response.end);
	if (ret)
		return ret;
	response.depth = request.depth;
	return rnic_udata_answer(udata, &response, sizeof(response));
}

int rnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);

	/* Its number is free for another CQ as soon as the command is done. */
	xa_erase_irq(&dev->cqs, cq->cqn);
	rnic_cq_end(dev, cq);
	rnic_ref_drain(&cq->ref);
	rnic_queue_free(dev, &cq->queue);
	return 0;
}
