// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shared receive queues. Posting is in rnic_post.c.
 *
 * Completions come in any order, but the device takes WQEs in ring order and
 * has taken at least as many as have completed: so each completion polled
 * frees one entry of the ring.
 */

#include <errno.h>
#include <stdlib.h>

#include "rnic.h"

#define RNIC_SRQ_RING_OFFSET	RNIC_QUEUE_RECORD_SIZE

static int size_queue(struct rnic_context *ctx, struct rnic_wq *wq,
		      const struct ibv_srq_attr *want)
{
	if (!want->max_wr || want->max_wr > ctx->attr.max_srq_wr)
		return EINVAL;
	return rnic_size_receive_queue(ctx, wq, want->max_wr, want->max_sge,
				       ctx->attr.max_srq_wr);
}

static int alloc_ring(struct ibv_pd *pd, struct rnic_wq *wq,
		      struct rnic_buf *buf)
{
	struct rnic_srq_record *record;
	int ret;

	ret = rnic_buf_alloc(buf, pd, RNIC_MEMORY_SRQ, RNIC_SRQ_RING_OFFSET +
			     ((size_t)wq->depth << wq->stride_shift));
	if (ret)
		return ret;

	record = buf->base;
	wq->ring = (uint8_t *)buf->base + RNIC_SRQ_RING_OFFSET;
	wq->producer_record = &record->producer;
	wq->event_record = &record->event;
	return 0;
}

static int alloc_queue(struct rnic_context *ctx, struct ibv_pd *pd,
		       struct rnic_srq *srq)
{
	uint8_t *db = ctx->db;
	int ret;

	ret = alloc_ring(pd, &srq->wq, &srq->buf);
	if (ret)
		return ret;

	srq->wq.doorbell = db + RNIC_DB_SRQ;
	srq->wq.single_threaded = to_rpd(pd)->td;
	pthread_spin_init(&srq->wq.lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

static void free_queue(struct rnic_srq *srq)
{
	pthread_spin_destroy(&srq->wq.lock);
	rnic_buf_free(&srq->buf);
}

/* Tells the kernel the sizes we chose, not those asked for. */
static int create_in_kernel(struct ibv_pd *pd, struct rnic_srq *srq,
			    const struct ibv_srq_init_attr *want)
{
	struct rnic_cmd_create_srq_resp resp = {};
	struct rnic_cmd_create_srq cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)srq->buf.base,
			.buf_length = srq->buf.length,
			.ring_offset = RNIC_SRQ_RING_OFFSET,
			.depth = srq->wq.depth,
			.wqe_shift = srq->wq.stride_shift,
		},
	};
	struct ibv_srq_init_attr attr = *want;
	int ret;

	attr.attr.max_wr = srq->wq.depth;
	attr.attr.max_sge = srq->wq.max_sge;
	ret = ibv_cmd_create_srq(pd, &srq->vsrq.srq, &attr, &cmd.ibv_cmd,
				 sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (ret)
		return ret;

	srq->wq.number = resp.drv_payload.srqn;
	return 0;
}

struct ibv_srq *rnic_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr)
{
	struct rnic_context *ctx = to_rctx(pd->context);
	struct rnic_srq *srq;
	int ret;

	if (!rnic_has_feature(ctx, RNIC_FEATURE_SRQ)) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	srq = calloc(1, sizeof(*srq));
	if (!srq) {
		errno = ENOMEM;
		return NULL;
	}

	ret = size_queue(ctx, &srq->wq, &attr->attr);
	if (!ret)
		ret = alloc_queue(ctx, pd, srq);
	if (ret)
		goto err_free;

	ret = create_in_kernel(pd, srq, attr);
	if (ret)
		goto err_queue;

	attr->attr.max_wr = srq->wq.depth;
	attr->attr.max_sge = srq->wq.max_sge;
	return &srq->vsrq.srq;

err_queue:
	free_queue(srq);
err_free:
	free(srq);
	errno = ret;
	return NULL;
}

/* An ordinary one, said in another way. */
struct ibv_srq *rnic_create_srq_ex(struct ibv_context *context,
				   struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	struct ibv_srq_init_attr basic = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
	};
	struct ibv_srq *srq;

	if ((attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) &&
	     attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}

	srq = rnic_create_srq(attr->pd, &basic);
	if (srq)
		attr->attr = basic.attr;
	return srq;
}

int rnic_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	*number = to_rsrq(ibsrq)->wq.number;
	return 0;
}

/* With wq->lock held; next has a ring of its own in buf. */
static int resize_locked(struct rnic_srq *srq, struct ibv_srq_attr *attr,
			 struct rnic_wq *next, struct rnic_buf *buf)
{
	struct rnic_cmd_modify_srq cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)buf->base,
			.buf_length = buf->length,
			.ring_offset = RNIC_SRQ_RING_OFFSET,
			.depth = next->depth,
		},
	};
	struct rnic_buf before = srq->buf;
	int ret;

	if (srq->wq.producer - atomic_load(&srq->wq.consumer) > next->depth)
		return EINVAL;
	rnic_wq_copy_posted(&srq->wq, next);
	ret = ibv_cmd_modify_srq(&srq->vsrq.srq, attr, IBV_SRQ_MAX_WR,
				 &cmd.ibv_cmd, sizeof(cmd));
	if (ret)
		return ret;
	rnic_wq_change_ring(&srq->wq, next);
	srq->buf = *buf;
	*buf = before;
	return 0;
}

/* Who posts waits meanwhile; messages do not. */
static int resize(struct rnic_srq *srq, struct ibv_srq_attr *attr)
{
	struct rnic_context *ctx = to_rctx(srq->vsrq.srq.context);
	struct rnic_wq next = { .stride_shift = srq->wq.stride_shift };
	struct ibv_srq_attr want = {
		.max_wr = attr->max_wr,
		.max_sge = srq->wq.max_sge,
	};
	struct rnic_buf buf;
	int ret;

	if (!rnic_has_feature(ctx, RNIC_FEATURE_RESIZE_QP))
		return EOPNOTSUPP;
	ret = size_queue(ctx, &next, &want);
	if (!ret)
		ret = alloc_ring(srq->vsrq.srq.pd, &next, &buf);
	if (ret)
		return ret;

	rnic_wq_lock(&srq->wq);
	ret = resize_locked(srq, attr, &next, &buf);
	rnic_wq_unlock(&srq->wq);
	/* What is not used: the new memory, or the one before. */
	rnic_buf_free(&buf);
	return ret;
}

int rnic_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		    int attr_mask)
{
	struct ibv_modify_srq cmd = {};

	if (attr_mask == IBV_SRQ_MAX_WR)
		return resize(to_rsrq(ibsrq), attr);
	return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

int rnic_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}

int rnic_destroy_srq(struct ibv_srq *ibsrq)
{
	struct rnic_srq *srq = to_rsrq(ibsrq);
	int ret;

	ret = ibv_cmd_destroy_srq(ibsrq);
	if (ret)
		return ret;

	free_queue(srq);
	free(srq);
	return 0;
}
