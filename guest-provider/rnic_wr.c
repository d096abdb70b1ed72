// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The ibv_wr_* way of posting. The SQ is locked from ibv_wr_start to
 * ibv_wr_complete or ibv_wr_abort; the first error is kept, and with one
 * nothing of the batch is posted.
 */

#include <errno.h>

#include <util/util.h>

#include "rnic.h"

static void wr_start(struct ibv_qp_ex *ibqp)
{
	struct rnic_qp *qp = to_rqp_ex(ibqp);

	rnic_wq_lock(&qp->sq);
	qp->next = qp->sq.producer;
	qp->wr_err = rnic_check_post(&ibqp->qp_base);
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
	struct rnic_qp *qp = to_rqp_ex(ibqp);
	int ret = qp->wr_err;

	if (!ret)
		rnic_wq_publish(&qp->sq, qp->next);
	rnic_wq_unlock(&qp->sq);
	return ret;
}

static void wr_abort(struct ibv_qp_ex *ibqp)
{
	rnic_wq_unlock(&to_rqp_ex(ibqp)->sq);
}

/* The WQE begun, to be filled further, or NULL after an error. */
static struct rnic_qp *begin(struct ibv_qp_ex *ibqp, enum ibv_wr_opcode opcode)
{
	struct rnic_qp *qp = to_rqp_ex(ibqp);

	if (!qp->wr_err)
		qp->wr_err = rnic_wqe_begin(qp, opcode, ibqp->wr_id,
					    ibqp->wr_flags);
	return qp->wr_err ? NULL : qp;
}

static void wr_send(struct ibv_qp_ex *ibqp)
{
	begin(ibqp, IBV_WR_SEND);
}

static void wr_send_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_SEND_WITH_INV);

	if (qp)
		rnic_wqe_invalidate(qp, invalidate_rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
			  uint64_t remote_addr)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_RDMA_WRITE);

	if (qp)
		rnic_wqe_remote(qp, rkey, remote_addr);
}

static void wr_send_imm(struct ibv_qp_ex *ibqp, __be32 imm_data)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_SEND_WITH_IMM);

	if (qp)
		rnic_wqe_immediate(qp, imm_data);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ibqp, uint32_t rkey,
			      uint64_t remote_addr, __be32 imm_data)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_RDMA_WRITE_WITH_IMM);

	if (!qp)
		return;
	rnic_wqe_remote(qp, rkey, remote_addr);
	rnic_wqe_immediate(qp, imm_data);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ibqp, uint32_t rkey,
			      uint64_t remote_addr, uint64_t compare,
			      uint64_t swap)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_ATOMIC_CMP_AND_SWP);

	if (!qp)
		return;
	rnic_wqe_remote(qp, rkey, remote_addr);
	rnic_wqe_atomic(qp, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ibqp, uint32_t rkey,
				uint64_t remote_addr, uint64_t add)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_ATOMIC_FETCH_AND_ADD);

	if (!qp)
		return;
	rnic_wqe_remote(qp, rkey, remote_addr);
	rnic_wqe_atomic(qp, add, 0);
}

static void wr_rdma_read(struct ibv_qp_ex *ibqp, uint32_t rkey,
			 uint64_t remote_addr)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_RDMA_READ);

	if (qp)
		rnic_wqe_remote(qp, rkey, remote_addr);
}

static void wr_local_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_LOCAL_INV);

	if (!qp)
		return;
	if (rnic_is_stag_zero(invalidate_rkey))
		qp->wr_err = EINVAL;
	else
		rnic_wqe_invalidate(qp, invalidate_rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ibqp, struct ibv_mw *mw,
		       uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct rnic_qp *qp = begin(ibqp, IBV_WR_BIND_MW);

	if (!qp)
		return;
	if (rnic_may_bind(rkey, info))
		rnic_wqe_bind(qp, rkey, info);
	else
		qp->wr_err = EINVAL;
}

static void wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num_sge,
			    const struct ibv_sge *sg_list)
{
	struct rnic_qp *qp = to_rqp_ex(ibqp);

	if (!qp->wr_err)
		qp->wr_err = rnic_wqe_sges(qp, sg_list, num_sge);
}

static void wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ibqp, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct rnic_qp *qp = to_rqp_ex(ibqp);

	if (qp->wr_err)
		return;
	if (!rnic_wqe_may_inline(qp))
		qp->wr_err = EINVAL;
	else
		qp->wr_err = rnic_wqe_inline(qp, buf_list, num_buf);
}

static void wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
			       size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ibqp, 1, &buf);
}

/* All of them, asked for or not: begin() refuses what the device lacks. */
void rnic_set_wr_ops(struct rnic_qp *qp)
{
	struct ibv_qp_ex *ops = &qp->vqp.qp_ex;

	ops->wr_start = wr_start;
	ops->wr_complete = wr_complete;
	ops->wr_abort = wr_abort;
	ops->wr_send = wr_send;
	ops->wr_send_inv = wr_send_inv;
	ops->wr_rdma_write = wr_rdma_write;
	ops->wr_send_imm = wr_send_imm;
	ops->wr_rdma_write_imm = wr_rdma_write_imm;
	ops->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ops->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ops->wr_rdma_read = wr_rdma_read;
	ops->wr_local_inv = wr_local_inv;
	ops->wr_bind_mw = wr_bind_mw;
	ops->wr_set_sge = wr_set_sge;
	ops->wr_set_sge_list = wr_set_sge_list;
	ops->wr_set_inline_data = wr_set_inline_data;
	ops->wr_set_inline_data_list = wr_set_inline_data_list;
	qp->vqp.comp_mask |= VERBS_QP_EX;
}
