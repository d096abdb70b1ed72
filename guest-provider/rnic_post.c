// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Building and posting work requests. The system is not called.
 */

#include <errno.h>
#include <string.h>

#include <ccan/array_size.h>
#include <ccan/minmax.h>
#include <util/util.h>

#include "rnic.h"

#define RNIC_WQE_MAX_BUFS	RNIC_MAX_SGE

/* What is particular about an operation. */
enum {
	OP_REMOTE	= 1 << 0,	/* has a remote address */
	OP_INVALIDATE	= 1 << 1,	/* has an STag to invalidate */
	OP_DATA		= 1 << 2,	/* has local data */
	OP_INLINE	= 1 << 3,	/* ... which may be inline */
	OP_SOLICITED	= 1 << 4,	/* may raise a solicited event */
	OP_BIND		= 1 << 5,
	OP_IMMEDIATE	= 1 << 6,
	OP_ATOMIC	= 1 << 7,
};

struct rnic_op {
	uint8_t opcode;		/* enum rnic_sq_opcode; 0: no such operation */
	uint8_t kind;		/* OP_* */
	uint8_t fence;		/* what IBV_SEND_FENCE becomes */
	uint64_t feature;	/* RNIC_FEATURE_* it takes */
	uint64_t wr_op;		/* IBV_QP_EX_WITH_* */
};

/*
 * A Read needs no fence towards earlier Reads: they are answered in order.
 * A Local Invalidate or a Bind, though, would not wait for anything without one.
 */
static const struct rnic_op ops[] = {
	[IBV_WR_SEND] = {
		.opcode = RNIC_SQ_SEND,
		.kind = OP_DATA | OP_INLINE | OP_SOLICITED,
		.fence = RNIC_WQE_READ_FENCE,
		.wr_op = IBV_QP_EX_WITH_SEND,
	},
	[IBV_WR_SEND_WITH_INV] = {
		.opcode = RNIC_SQ_SEND_INVALIDATE,
		.kind = OP_DATA | OP_INLINE | OP_SOLICITED | OP_INVALIDATE,
		.fence = RNIC_WQE_READ_FENCE,
		.feature = RNIC_FEATURE_REMOTE_INVALIDATE,
		.wr_op = IBV_QP_EX_WITH_SEND_WITH_INV,
	},
	[IBV_WR_RDMA_WRITE] = {
		.opcode = RNIC_SQ_RDMA_WRITE,
		.kind = OP_DATA | OP_INLINE | OP_REMOTE,
		.fence = RNIC_WQE_READ_FENCE,
		.wr_op = IBV_QP_EX_WITH_RDMA_WRITE,
	},
	[IBV_WR_RDMA_READ] = {
		.opcode = RNIC_SQ_RDMA_READ,
		.kind = OP_DATA | OP_REMOTE,
		.wr_op = IBV_QP_EX_WITH_RDMA_READ,
	},
	[IBV_WR_SEND_WITH_IMM] = {
		.opcode = RNIC_SQ_SEND_IMMEDIATE,
		.kind = OP_DATA | OP_INLINE | OP_SOLICITED | OP_IMMEDIATE,
		.fence = RNIC_WQE_READ_FENCE,
		.feature = RNIC_FEATURE_RDMAP_EXTENSIONS,
		.wr_op = IBV_QP_EX_WITH_SEND_WITH_IMM,
	},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		.opcode = RNIC_SQ_WRITE_IMMEDIATE,
		.kind = OP_DATA | OP_INLINE | OP_SOLICITED | OP_REMOTE |
			OP_IMMEDIATE,
		.fence = RNIC_WQE_READ_FENCE,
		.feature = RNIC_FEATURE_RDMAP_EXTENSIONS,
		.wr_op = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		.opcode = RNIC_SQ_COMPARE_SWAP,
		.kind = OP_DATA | OP_ATOMIC,
		.fence = RNIC_WQE_READ_FENCE,
		.feature = RNIC_FEATURE_RDMAP_EXTENSIONS,
		.wr_op = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		.opcode = RNIC_SQ_FETCH_ADD,
		.kind = OP_DATA | OP_ATOMIC,
		.fence = RNIC_WQE_READ_FENCE,
		.feature = RNIC_FEATURE_RDMAP_EXTENSIONS,
		.wr_op = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	},
	[IBV_WR_LOCAL_INV] = {
		.opcode = RNIC_SQ_LOCAL_INVALIDATE,
		.kind = OP_INVALIDATE,
		.fence = RNIC_WQE_LOCAL_FENCE,
		.feature = RNIC_FEATURE_LOCAL_INVALIDATE,
		.wr_op = IBV_QP_EX_WITH_LOCAL_INV,
	},
	[IBV_WR_BIND_MW] = {
		.opcode = RNIC_SQ_BIND_MW,
		.kind = OP_BIND,
		.fence = RNIC_WQE_LOCAL_FENCE,
		.feature = RNIC_FEATURE_MEMORY_WINDOW,
		.wr_op = IBV_QP_EX_WITH_BIND_MW,
	},
};

static const struct rnic_op *find_op(struct rnic_context *ctx,
				     enum ibv_wr_opcode opcode)
{
	const struct rnic_op *op;

	if ((size_t)opcode >= ARRAY_SIZE(ops))
		return NULL;
	op = &ops[opcode];
	if (!op->opcode || !rnic_has_feature(ctx, op->feature))
		return NULL;
	return op;
}

/* IBV_QP_EX_WITH_* of what this device can do. */
uint64_t rnic_send_ops(struct rnic_context *ctx)
{
	uint64_t mask = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (find_op(ctx, i))
			mask |= ops[i].wr_op;
	return mask;
}

/* ------------------------------------------------- building SQ WQEs */

/* Where the WQE at qp->next minus its units began. */
static uint32_t wqe_start(const struct rnic_qp *qp)
{
	return qp->next - qp->wqe->units;
}

/* Lengthens the WQE being built, its last part so far, to hold payload. */
static int reserve(struct rnic_qp *qp, size_t payload)
{
	uint32_t start = wqe_start(qp);
	uint32_t units = DIV_ROUND_UP(sizeof(*qp->wqe) + payload,
				      RNIC_SQ_UNIT);

	if (!rnic_wq_has_room(&qp->sq, start + units))
		return ENOMEM;
	qp->wqe->units = units;
	qp->next = start + units;
	return 0;
}

/* Copies to the WQE being built, which may wrap around the ring's end. */
static void copy_in(struct rnic_qp *qp, size_t offset, const void *data,
		    size_t length)
{
	size_t size = (size_t)qp->sq.depth * RNIC_SQ_UNIT;
	uint8_t *ring = qp->sq.ring;
	size_t at = ((size_t)wqe_start(qp) * RNIC_SQ_UNIT + offset) &
		    (size - 1);
	size_t first = min_t(size_t, length, size - at);

	memcpy(ring + at, data, first);
	memcpy(ring, (const uint8_t *)data + first, length - first);
}

static uint8_t wqe_flags(const struct rnic_qp *qp, const struct rnic_op *op,
			 unsigned int send_flags)
{
	uint8_t flags = 0;

	if (qp->sq_sig_all || (send_flags & IBV_SEND_SIGNALED))
		flags |= RNIC_WQE_SIGNALED;
	if ((op->kind & OP_SOLICITED) && (send_flags & IBV_SEND_SOLICITED))
		flags |= RNIC_WQE_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= op->fence;
	return flags;
}

/* Starts a WQE at qp->next, one unit long for now. */
static int begin(struct rnic_qp *qp, const struct rnic_op *op, uint64_t wr_id,
		 unsigned int send_flags)
{
	struct rnic_sq_wqe *wqe = rnic_wq_entry(&qp->sq, qp->next);

	if (!rnic_wq_has_room(&qp->sq, qp->next + 1))
		return ENOMEM;

	*wqe = (struct rnic_sq_wqe) {
		.opcode = op->opcode,
		.flags = wqe_flags(qp, op, send_flags),
		.units = 1,
		.wr_id = htole64(wr_id),
	};
	qp->wqe = wqe;
	qp->next++;
	return 0;
}

int rnic_wqe_begin(struct rnic_qp *qp, enum ibv_wr_opcode opcode,
		   uint64_t wr_id, unsigned int send_flags)
{
	const struct rnic_op *op;

	op = find_op(to_rctx(qp->vqp.qp.context), opcode);
	if (!op)
		return EOPNOTSUPP;
	return begin(qp, op, wr_id, send_flags);
}

void rnic_wqe_remote(struct rnic_qp *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wqe->remote_stag = htole32(rkey);
	qp->wqe->remote_to = htole64(remote_addr);
}

void rnic_wqe_invalidate(struct rnic_qp *qp, uint32_t rkey)
{
	qp->wqe->invalidate_stag = htole32(rkey);
}

/* Octets, which no byte order changes. */
void rnic_wqe_immediate(struct rnic_qp *qp, __be32 imm_data)
{
	memcpy(qp->wqe->immediate, &imm_data, sizeof(qp->wqe->immediate));
}

static bool is_atomic(const struct rnic_sq_wqe *wqe)
{
	return wqe->opcode == RNIC_SQ_FETCH_ADD ||
	       wqe->opcode == RNIC_SQ_COMPARE_SWAP;
}

/* The SGE comes behind it, see rnic_wqe_sges(). */
void rnic_wqe_atomic(struct rnic_qp *qp, uint64_t compare_add, uint64_t swap)
{
	bool add = qp->wqe->opcode == RNIC_SQ_FETCH_ADD;
	struct rnic_atomic_wqe atomic = {
		.add_swap = htole64(add ? compare_add : swap),
		.compare = htole64(add ? 0 : compare_add),
	};

	copy_in(qp, sizeof(*qp->wqe), &atomic, sizeof(atomic));
}

/* Without atomics their right is none, as at registration. */
static uint8_t bind_access(struct rnic_context *ctx,
			   unsigned int mw_access_flags)
{
	uint8_t access = 0;

	if (mw_access_flags & IBV_ACCESS_REMOTE_READ)
		access |= RNIC_ACCESS_REMOTE_READ;
	if (mw_access_flags & IBV_ACCESS_REMOTE_WRITE)
		access |= RNIC_ACCESS_REMOTE_WRITE;
	if ((mw_access_flags & IBV_ACCESS_REMOTE_ATOMIC) &&
	    rnic_has_feature(ctx, RNIC_FEATURE_RDMAP_EXTENSIONS))
		access |= RNIC_ACCESS_REMOTE_ATOMIC;
	if (mw_access_flags & IBV_ACCESS_ZERO_BASED)
		access |= RNIC_ACCESS_ZERO_BASED;
	return access;
}

void rnic_wqe_bind(struct rnic_qp *qp, uint32_t rkey,
		   const struct ibv_mw_bind_info *info)
{
	struct rnic_bind_wqe bind = {
		.mw_stag = htole32(rkey),
		.mr_stag = htole32(info->mr ? info->mr->lkey : 0),
		.va = htole64(info->addr),
		.length = htole64(info->length),
		.access = bind_access(to_rctx(qp->vqp.qp.context),
				      info->mw_access_flags),
	};

	copy_in(qp, sizeof(*qp->wqe), &bind, sizeof(bind));
}

int rnic_wqe_sges(struct rnic_qp *qp, const struct ibv_sge *sg_list,
		  size_t num_sge)
{
	size_t args = is_atomic(qp->wqe) ? sizeof(struct rnic_atomic_wqe) : 0;
	struct rnic_sge sge;
	size_t i;
	int ret;

	if (num_sge > qp->sq.max_sge)
		return EINVAL;
	if (args && num_sge != 1)
		return EINVAL;
	if (qp->wqe->opcode == RNIC_SQ_RDMA_READ &&
	    num_sge > to_rctx(qp->vqp.qp.context)->attr.max_read_sge)
		return EINVAL;
	ret = reserve(qp, args + num_sge * sizeof(sge));
	if (ret)
		return ret;

	qp->wqe->num_sge = num_sge;
	for (i = 0; i < num_sge; i++) {
		sge.to = htole64(sg_list[i].addr);
		sge.stag = htole32(sg_list[i].lkey);
		sge.length = htole32(sg_list[i].length);
		copy_in(qp, sizeof(*qp->wqe) + args + i * sizeof(sge), &sge,
			sizeof(sge));
	}
	return 0;
}

bool rnic_wqe_may_inline(const struct rnic_qp *qp)
{
	return qp->wqe->opcode != RNIC_SQ_RDMA_READ && !is_atomic(qp->wqe);
}

int rnic_wqe_inline(struct rnic_qp *qp, const struct ibv_data_buf *bufs,
		    size_t num_bufs)
{
	size_t offset = sizeof(*qp->wqe), total = 0, i;
	int ret;

	for (i = 0; i < num_bufs; i++) {
		if (bufs[i].length > qp->cap.max_inline_data - total)
			return EINVAL;
		total += bufs[i].length;
	}
	ret = reserve(qp, total);
	if (ret)
		return ret;

	if (total)
		qp->wqe->flags |= RNIC_WQE_INLINE;
	qp->wqe->data_length = htole32(total);
	for (i = 0; i < num_bufs; i++) {
		copy_in(qp, offset, bufs[i].addr, bufs[i].length);
		offset += bufs[i].length;
	}
	return 0;
}

/* ----------------------------------------------------- posting sends */

static int add_inline(struct rnic_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[RNIC_WQE_MAX_BUFS];
	int i;

	if (wr->num_sge > RNIC_WQE_MAX_BUFS)
		return EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		bufs[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		bufs[i].length = wr->sg_list[i].length;
	}
	return rnic_wqe_inline(qp, bufs, wr->num_sge);
}

static int add_data(struct rnic_qp *qp, const struct rnic_op *op,
		    const struct ibv_send_wr *wr)
{
	if (wr->num_sge < 0)
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return rnic_wqe_sges(qp, wr->sg_list, wr->num_sge);
	if (!(op->kind & OP_INLINE))
		return EINVAL;
	return add_inline(qp, wr);
}

bool rnic_may_bind(uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	return info->mr && !rnic_is_stag_zero(rkey) &&
	       !rnic_is_stag_zero(info->mr->lkey);
}

static int build_send(struct rnic_qp *qp, const struct ibv_send_wr *wr)
{
	struct rnic_context *ctx = to_rctx(qp->vqp.qp.context);
	const struct rnic_op *op = find_op(ctx, wr->opcode);
	int ret;

	if (!op)
		return EOPNOTSUPP;
	if ((op->kind & OP_BIND) &&
	    !rnic_may_bind(wr->bind_mw.rkey, &wr->bind_mw.bind_info))
		return EINVAL;
	if (wr->opcode == IBV_WR_LOCAL_INV &&
	    rnic_is_stag_zero(wr->invalidate_rkey))
		return EINVAL;
	ret = begin(qp, op, wr->wr_id, wr->send_flags);
	if (ret)
		return ret;

	if (op->kind & OP_REMOTE)
		rnic_wqe_remote(qp, wr->wr.rdma.rkey,
				wr->wr.rdma.remote_addr);
	if (op->kind & OP_ATOMIC) {
		rnic_wqe_remote(qp, wr->wr.atomic.rkey,
				wr->wr.atomic.remote_addr);
		rnic_wqe_atomic(qp, wr->wr.atomic.compare_add,
				wr->wr.atomic.swap);
	}
	if (op->kind & OP_IMMEDIATE)
		rnic_wqe_immediate(qp, wr->imm_data);
	if (op->kind & OP_INVALIDATE)
		rnic_wqe_invalidate(qp, wr->invalidate_rkey);
	if (op->kind & OP_BIND)
		rnic_wqe_bind(qp, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	return op->kind & OP_DATA ? add_data(qp, op, wr) : 0;
}

/*
 * In every state but RESET the device knows what to do: it holds what is posted
 * before the connection and flushes what comes after it.
 */
int rnic_check_post(const struct ibv_qp *ibqp)
{
	if (ibqp->state == IBV_QPS_RESET)
		return EINVAL;
	return rnic_check_device(to_rctx(ibqp->context));
}

int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct rnic_qp *qp = to_rqp(ibqp);
	uint32_t end;
	int ret;

	ret = rnic_check_post(ibqp);
	if (ret) {
		*bad_wr = wr;
		return ret;
	}

	rnic_wq_lock(&qp->sq);
	end = qp->sq.producer;
	for (; wr; wr = wr->next) {
		qp->next = end;
		ret = build_send(qp, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		end = qp->next;
	}
	rnic_wq_publish(&qp->sq, end);
	rnic_wq_unlock(&qp->sq);

	return ret;
}

/* -------------------------------------------------- posting receives */

static int build_recv(struct rnic_wq *rq, uint32_t index,
		      const struct ibv_recv_wr *wr)
{
	struct rnic_rq_wqe *wqe = rnic_wq_entry(rq, index);
	int i;

	/* A QP with an S-RQ has none of its own. */
	if (!rq->depth || wr->num_sge < 0 || wr->num_sge > rq->max_sge)
		return EINVAL;
	if (!rnic_wq_has_room(rq, index + 1))
		return ENOMEM;

	wqe->wr_id = htole64(wr->wr_id);
	wqe->num_sge = htole32(wr->num_sge);
	wqe->reserved = 0;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].to = htole64(wr->sg_list[i].addr);
		wqe->sge[i].stag = htole32(wr->sg_list[i].lkey);
		wqe->sge[i].length = htole32(wr->sg_list[i].length);
	}
	return 0;
}

static int post_recvs(struct rnic_wq *rq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	uint32_t end;
	int ret = 0;

	rnic_wq_lock(rq);
	end = rq->producer;
	for (; wr; wr = wr->next) {
		ret = build_recv(rq, end, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		end++;
	}
	rnic_wq_publish(rq, end);
	rnic_wq_unlock(rq);

	return ret;
}

int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr)
{
	int ret = rnic_check_post(ibqp);

	if (ret) {
		*bad_wr = wr;
		return ret;
	}
	return post_recvs(&to_rqp(ibqp)->rq, wr, bad_wr);
}

int rnic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	int ret = rnic_check_device(to_rctx(ibsrq->context));

	if (ret) {
		*bad_wr = wr;
		return ret;
	}
	return post_recvs(&to_rsrq(ibsrq)->wq, wr, bad_wr);
}
