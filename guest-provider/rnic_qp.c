// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs.
 */

#include <errno.h>
#include <stdlib.h>

#include <ccan/minmax.h>
#include <util/util.h>

#include "rnic.h"

#define RNIC_SQ_MIN_DEPTH	8
#define RNIC_SQ_UNIT_SHIFT	6

/* ------------------------------------------------ QPs by their number */

/*
 * The CQs stand beside the QP: one that is of other CQs may be freed just now, and is
 * not looked at.
 */
struct rnic_qp_place {
	struct rnic_qp *qp;
	const struct ibv_cq *send_cq;
	const struct ibv_cq *recv_cq;
};

struct rnic_qp *rnic_find_qp(const struct ibv_cq *cq, uint32_t qpn,
			     bool receive)
{
	struct rnic_context *ctx = to_rctx(cq->context);
	const struct rnic_qp_place *place;

	if (qpn > RNIC_OBJECT_NUMBER_MASK)
		return NULL;
	place = ctx->qp_table[qpn >> RNIC_QP_TABLE_BITS];
	if (!place)
		return NULL;
	place += qpn & (RNIC_QP_TABLE_SIZE - 1);
	return (receive ? place->recv_cq : place->send_cq) == cq ? place->qp :
								   NULL;
}

/* Make sure that the table has a place for qpn, so that adding cannot fail. */
static int make_place(struct rnic_context *ctx, uint32_t qpn)
{
	struct rnic_qp_place **leaf =
		&ctx->qp_table[qpn >> RNIC_QP_TABLE_BITS];

	if (qpn > RNIC_OBJECT_NUMBER_MASK)
		return EINVAL;
	if (!*leaf)
		*leaf = calloc(RNIC_QP_TABLE_SIZE, sizeof(**leaf));
	return *leaf ? 0 : ENOMEM;
}

/* qp: NULL when it goes, with the locks of its CQs held. */
static void set_place(struct rnic_context *ctx, uint32_t qpn,
		      struct rnic_qp *qp)
{
	ctx->qp_table[qpn >> RNIC_QP_TABLE_BITS]
		     [qpn & (RNIC_QP_TABLE_SIZE - 1)] = (struct rnic_qp_place) {
		.qp = qp,
		.send_cq = qp ? qp->vqp.qp.send_cq : NULL,
		.recv_cq = qp ? qp->vqp.qp.recv_cq : NULL,
	};
}

static int add_qp(struct rnic_context *ctx, struct rnic_qp *qp)
{
	uint32_t qpn = qp->sq.number;
	int ret;

	pthread_mutex_lock(&ctx->qp_table_mutex);
	ret = make_place(ctx, qpn);
	if (!ret)
		set_place(ctx, qpn, qp);
	pthread_mutex_unlock(&ctx->qp_table_mutex);
	return ret;
}

/* ------------------------------------------------------------- sizes */

/* max_qp_wr, as the kernel tells it: attainable whatever the WRs look like. */
static uint32_t max_qp_wr(const struct rnic_context *ctx)
{
	return min_t(uint32_t, ctx->attr.max_sq_units / RNIC_SQ_MAX_UNITS,
		     ctx->attr.max_rq_wr);
}

/* Every WQE is given room for the longest the caller may post. */
static int size_sq(struct rnic_context *ctx, struct rnic_qp *qp,
		   const struct ibv_qp_cap *want)
{
	uint32_t max_sge = min_t(uint32_t, ctx->attr.max_send_sge,
				 ctx->attr.max_write_sge);
	size_t sges = want->max_send_sge * sizeof(struct rnic_sge);
	size_t payload = want->max_inline_data;
	uint32_t units, room;
	uint64_t depth;

	if (want->max_send_sge > max_sge ||
	    want->max_inline_data > ctx->attr.max_inline)
		return EINVAL;

	if (payload < sges)
		payload = sges;
	units = DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) + payload,
			     RNIC_SQ_UNIT);
	depth = (uint64_t)want->max_send_wr * units;
	if (depth < RNIC_SQ_MIN_DEPTH)
		depth = RNIC_SQ_MIN_DEPTH;
	depth = roundup_pow_of_two(depth);
	if (depth > ctx->attr.max_sq_units)
		return EINVAL;

	room = units * RNIC_SQ_UNIT - sizeof(struct rnic_sq_wqe);
	qp->sq.depth = depth;
	qp->sq.stride_shift = RNIC_SQ_UNIT_SHIFT;
	qp->sq.max_sge = min_t(uint32_t, max_sge,
			       room / sizeof(struct rnic_sge));
	/* A ring may have room for more; no more is granted (V5.1.3-2). */
	qp->cap.max_send_wr = min_t(uint32_t, max_qp_wr(ctx), depth / units);
	qp->cap.max_send_sge = qp->sq.max_sge;
	qp->cap.max_inline_data = min_t(uint32_t, ctx->attr.max_inline, room);
	return 0;
}

static int size_rq(struct rnic_context *ctx, struct rnic_qp *qp,
		   const struct ibv_qp_cap *want)
{
	int ret;

	ret = rnic_size_receive_queue(ctx, &qp->rq, want->max_recv_wr,
				      want->max_recv_sge, ctx->attr.max_rq_wr);
	if (ret)
		return ret;

	qp->cap.max_recv_wr = min_t(uint32_t, max_qp_wr(ctx), qp->rq.depth);
	qp->cap.max_recv_sge = qp->rq.max_sge;
	return 0;
}

/* ------------------------------------------------------------ create */

static int check_init_attr(struct rnic_context *ctx,
			   const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->qp_type != IBV_QPT_RC || (attr->comp_mask & ~known))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq ||
	    !attr->recv_cq)
		return EINVAL;
	if (attr->cap.max_send_wr > max_qp_wr(ctx) ||
	    (!attr->srq && attr->cap.max_recv_wr > max_qp_wr(ctx)))
		return EINVAL;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    (attr->send_ops_flags & ~rnic_send_ops(ctx)))
		return EOPNOTSUPP;
	return 0;
}

static size_t sq_offset(void)
{
	return RNIC_QUEUE_RECORD_SIZE;
}

/* Rings begin at multiples of 64 octets; the SQ is a multiple by itself. */
static size_t rq_offset(const struct rnic_qp *qp)
{
	return sq_offset() + ((size_t)qp->sq.depth << qp->sq.stride_shift);
}

static int alloc_rings(struct ibv_pd *pd, struct rnic_qp *qp)
{
	struct rnic_qp_record *record;
	uint8_t *base;
	int ret;

	ret = rnic_buf_alloc(&qp->buf, pd, RNIC_MEMORY_QP, rq_offset(qp) +
			     ((size_t)qp->rq.depth << qp->rq.stride_shift));
	if (ret)
		return ret;

	base = qp->buf.base;
	record = qp->buf.base;

	qp->sq.ring = base + sq_offset();
	qp->sq.producer_record = &record->sq_producer;
	qp->sq.event_record = &record->sq_event;
	if (qp->rq.depth)
		qp->rq.ring = base + rq_offset(qp);
	qp->rq.producer_record = &record->rq_producer;
	qp->rq.event_record = &record->rq_event;
	return 0;
}

static int alloc_queues(struct rnic_context *ctx, struct ibv_pd *pd,
			struct rnic_qp *qp)
{
	uint8_t *db = ctx->db;
	int ret;

	ret = alloc_rings(pd, qp);
	if (ret)
		return ret;

	qp->sq.doorbell = db + RNIC_DB_SQ;
	pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
	qp->rq.doorbell = db + RNIC_DB_RQ;
	pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);
	qp->sq.single_threaded = to_rpd(pd)->td;
	qp->rq.single_threaded = to_rpd(pd)->td;
	return 0;
}

static void free_queues(struct rnic_qp *qp)
{
	pthread_spin_destroy(&qp->rq.lock);
	pthread_spin_destroy(&qp->sq.lock);
	rnic_buf_free(&qp->buf);
}

/* Tells the kernel the sizes we chose, not those asked for. */
static int create_in_kernel(struct ibv_context *context, struct rnic_qp *qp,
			    const struct ibv_qp_init_attr_ex *want)
{
	struct rnic_cmd_create_qp_resp resp = {};
	struct rnic_cmd_create_qp cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)qp->buf.base,
			.buf_length = qp->buf.length,
			.sq_offset = sq_offset(),
			.rq_offset = want->srq ? 0 : rq_offset(qp),
			.sq_depth = qp->sq.depth,
			.rq_depth = qp->rq.depth,
			.rq_wqe_shift = qp->rq.stride_shift,
		},
	};
	struct ibv_qp_init_attr_ex attr = *want;
	int ret;

	attr.cap = qp->cap;
	/* None, see check_init_attr(). */
	attr.comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ret = ibv_cmd_create_qp_ex(context, &qp->vqp, &attr, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (ret)
		return ret;

	qp->sq.number = resp.drv_payload.qpn;
	qp->rq.number = resp.drv_payload.qpn;
	return 0;
}

struct ibv_qp *rnic_create_qp_ex(struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct rnic_context *ctx = to_rctx(context);
	struct rnic_qp *qp;
	int ret;

	ret = check_init_attr(ctx, attr);
	if (ret)
		goto err;

	ret = ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		goto err;

	ret = size_sq(ctx, qp, &attr->cap);
	/* With an S-RQ nothing that is said of the RQ counts. */
	if (!ret && !attr->srq)
		ret = size_rq(ctx, qp, &attr->cap);
	if (!ret)
		ret = alloc_queues(ctx, attr->pd, qp);
	if (ret)
		goto err_free;

	ret = create_in_kernel(context, qp, attr);
	if (ret)
		goto err_queues;

	ret = add_qp(ctx, qp);
	if (ret)
		goto err_destroy;

	attr->cap = qp->cap;
	qp->sq_sig_all = attr->sq_sig_all;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		rnic_set_wr_ops(qp);
	return &qp->vqp.qp;

err_destroy:
	ibv_cmd_destroy_qp(&qp->vqp.qp);
err_queues:
	free_queues(qp);
err_free:
	free(qp);
err:
	errno = ret;
	return NULL;
}

struct ibv_qp *rnic_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = rnic_create_qp_ex(pd->context, &attr_ex);

	if (qp)
		attr->cap = attr_ex.cap;
	return qp;
}

/* ------------------------------------------- modify, query, destroy */

/* To RESET: completions are forgotten, and the queues are empty. */
static void reset_queues(struct rnic_qp *qp)
{
	rnic_lock_cqs(&qp->vqp.qp);
	rnic_forget_completions(&qp->vqp.qp);
	atomic_store(&qp->sq.consumer, qp->sq.producer);
	atomic_store(&qp->rq.consumer, qp->rq.producer);
	rnic_unlock_cqs(&qp->vqp.qp);
}

/*
 * Depths for the WRs of want. What may be put into one WR stays, so that WQEs of
 * both sizes have the same form.
 */
static int size_again(struct rnic_qp *qp, const struct ibv_qp_cap *want,
		      struct rnic_qp *next)
{
	struct rnic_context *ctx = to_rctx(qp->vqp.qp.context);
	struct ibv_qp_cap cap = qp->cap;
	int ret;

	if (want->max_send_sge > cap.max_send_sge ||
	    want->max_inline_data > cap.max_inline_data ||
	    want->max_send_wr > max_qp_wr(ctx))
		return EINVAL;
	cap.max_send_wr = want->max_send_wr;
	ret = size_sq(ctx, next, &cap);
	if (ret || qp->vqp.qp.srq)
		return ret;

	if (want->max_recv_sge > cap.max_recv_sge ||
	    want->max_recv_wr > max_qp_wr(ctx))
		return EINVAL;
	cap.max_recv_wr = want->max_recv_wr;
	return size_rq(ctx, next, &cap);
}

static int resize_in_kernel(struct rnic_qp *qp, const struct rnic_qp *next)
{
	struct rnic_cmd_modify_qp cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)next->buf.base,
			.buf_length = next->buf.length,
			.sq_offset = sq_offset(),
			.rq_offset = next->rq.depth ? rq_offset(next) : 0,
			.sq_depth = next->sq.depth,
			.rq_depth = next->rq.depth,
			.max_send_wr = next->cap.max_send_wr,
			.max_recv_wr = next->cap.max_recv_wr,
		},
	};
	struct ibv_qp_attr attr = {};

	return ibv_cmd_modify_qp(&qp->vqp.qp, &attr, IBV_QP_CAP, &cmd.ibv_cmd,
				 sizeof(cmd));
}

/* With the locks of both queues held. */
static int resize_locked(struct rnic_qp *qp, struct rnic_qp *next)
{
	struct rnic_buf before = qp->buf;
	int ret;

	if (!rnic_wq_copy_posted(&qp->sq, &next->sq) ||
	    (qp->rq.depth && !rnic_wq_copy_posted(&qp->rq, &next->rq)))
		return EINVAL;
	ret = resize_in_kernel(qp, next);
	if (ret)
		return ret;

	rnic_wq_change_ring(&qp->sq, &next->sq);
	rnic_wq_change_ring(&qp->rq, &next->rq);
	qp->cap.max_send_wr = next->cap.max_send_wr;
	qp->cap.max_recv_wr = next->cap.max_recv_wr;
	qp->buf = next->buf;
	next->buf = before;
	return 0;
}

/* Who posts waits meanwhile; the device does not. */
static int resize(struct rnic_qp *qp, struct ibv_qp_attr *attr)
{
	struct rnic_qp next = {};
	int ret;

	if (!rnic_has_feature(to_rctx(qp->vqp.qp.context),
			      RNIC_FEATURE_RESIZE_QP))
		return EOPNOTSUPP;
	ret = size_again(qp, &attr->cap, &next);
	if (!ret)
		ret = alloc_rings(qp->vqp.qp.pd, &next);
	if (ret)
		return ret;

	rnic_wq_lock(&qp->sq);
	rnic_wq_lock(&qp->rq);
	ret = resize_locked(qp, &next);
	if (!ret)
		attr->cap = qp->cap;
	rnic_wq_unlock(&qp->rq);
	rnic_wq_unlock(&qp->sq);
	/* What is not used: the new memory, or the one before. */
	rnic_buf_free(&next.buf);
	return ret;
}

int rnic_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask)
{
	struct ibv_modify_qp cmd = {};
	int ret;

	if (attr_mask == IBV_QP_CAP)
		return resize(to_rqp(ibqp), attr);

	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (!ret && (attr_mask & IBV_QP_STATE) &&
	    attr->qp_state == IBV_QPS_RESET)
		reset_queues(to_rqp(ibqp));
	return ret;
}

int rnic_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd = {};
	int ret;

	ret = ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd,
			       sizeof(cmd));
	if (ret)
		return ret;

	init_attr->cap = to_rqp(ibqp)->cap;
	attr->cap = init_attr->cap;
	return 0;
}

int rnic_destroy_qp(struct ibv_qp *ibqp)
{
	struct rnic_context *ctx = to_rctx(ibqp->context);
	struct rnic_qp *qp = to_rqp(ibqp);
	int ret;

	/*
	 * The mutex keeps a new QP that got the same number from being added
	 * before this one is forgotten.
	 */
	pthread_mutex_lock(&ctx->qp_table_mutex);
	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret) {
		pthread_mutex_unlock(&ctx->qp_table_mutex);
		return ret;
	}
	rnic_lock_cqs(ibqp);
	rnic_forget_completions(ibqp);
	set_place(ctx, qp->sq.number, NULL);
	rnic_unlock_cqs(ibqp);
	pthread_mutex_unlock(&ctx->qp_table_mutex);

	free_queues(qp);
	free(qp);
	return 0;
}
