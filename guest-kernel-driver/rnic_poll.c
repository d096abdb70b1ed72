// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the kernel's polling of completion queues.
 *
 * A QP that a completion names is alive while the CQ's lock is held: before it
 * is freed, rnic_cq_forget_qp() takes its completions off under that lock.
 */

#include "rnic.h"
#include "rnic_verbs.h"

/* Never the number of a QP. */
#define RNIC_NO_QP	0

static const u8 rnic_wc_statuses[] = {
	[RNIC_WC_SUCCESS] = IB_WC_SUCCESS,
	[RNIC_WC_FLUSHED] = IB_WC_WR_FLUSH_ERR,
	[RNIC_WC_INVALID_WQE] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_QP_CATASTROPHIC] = IB_WC_FATAL_ERR,
	[RNIC_WC_INVALID_STAG] = IB_WC_LOC_PROT_ERR,
	[RNIC_WC_BASE_BOUNDS] = IB_WC_LOC_PROT_ERR,
	[RNIC_WC_ACCESS_VIOLATION] = IB_WC_LOC_ACCESS_ERR,
	[RNIC_WC_INVALID_PD] = IB_WC_LOC_PROT_ERR,
	[RNIC_WC_WRAP] = IB_WC_LOC_PROT_ERR,
	[RNIC_WC_INVALIDATE_STAG] = IB_WC_REM_INV_REQ_ERR,
	[RNIC_WC_ZERO_READ_RESOURCES] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_NOT_PRIVILEGED] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_STAG_NOT_INVALID] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_PAGE_SIZE] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_PBL_SIZE] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_PBL_ENTRY] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_FBO] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_REGISTER_LENGTH] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_ACCESS_RIGHTS] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_PBL_TOO_LONG] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_VA] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_INVALID_REGION] = IB_WC_MW_BIND_ERR,
	[RNIC_WC_INVALID_WINDOW] = IB_WC_MW_BIND_ERR,
	[RNIC_WC_INVALID_LENGTH] = IB_WC_LOC_LEN_ERR,
	[RNIC_WC_MESSAGE_TOO_LONG] = IB_WC_LOC_LEN_ERR,
	[RNIC_WC_UNSUPPORTED] = IB_WC_LOC_QP_OP_ERR,
	[RNIC_WC_RETRY_EXCEEDED] = IB_WC_RETRY_EXC_ERR,
	[RNIC_WC_RNR_RETRY_EXCEEDED] = IB_WC_RNR_RETRY_EXC_ERR,
};

static const u8 rnic_wc_opcodes[] = {
	[RNIC_SQ_SEND] = IB_WC_SEND,
	[RNIC_SQ_SEND_INVALIDATE] = IB_WC_SEND,
	[RNIC_SQ_RDMA_WRITE] = IB_WC_RDMA_WRITE,
	[RNIC_SQ_RDMA_READ] = IB_WC_RDMA_READ,
	[RNIC_SQ_RDMA_READ_INVALIDATE] = IB_WC_RDMA_READ,
	[RNIC_SQ_FAST_REGISTER] = IB_WC_REG_MR,
	[RNIC_SQ_LOCAL_INVALIDATE] = IB_WC_LOCAL_INV,
	[RNIC_SQ_SEND_IMMEDIATE] = IB_WC_SEND,
	[RNIC_SQ_WRITE_IMMEDIATE] = IB_WC_RDMA_WRITE,
	[RNIC_SQ_FETCH_ADD] = IB_WC_FETCH_ADD,
	[RNIC_SQ_COMPARE_SWAP] = IB_WC_COMP_SWAP,
};

static struct rnic_cqe *rnic_cqe_at(const struct rnic_cq *cq, u32 index)
{
	return &cq->ring[index & (cq->depth - 1)];
}

static bool rnic_cqe_valid(const struct rnic_cq *cq, u32 index)
{
	const struct rnic_cqe *cqe = rnic_cqe_at(cq, index);

	return !!(READ_ONCE(cqe->flags) & RNIC_CQE_PHASE) ==
	       !(index & cq->depth);
}

/* RDMAP and DDP protection errors have type 1 (RFC 5040 4.8, RFC 5041 7.2). */
static bool rnic_terminate_is_protection(u32 code)
{
	return (code & 0x0f00) == 0x0100 && code < 0x2000;
}

static enum ib_wc_status rnic_terminate_status(u32 code)
{
	if (code == RNIC_TERMINATE_MESSAGE_TOO_LONG)
		return IB_WC_REM_INV_REQ_ERR;
	return rnic_terminate_is_protection(code) ? IB_WC_REM_ACCESS_ERR :
						    IB_WC_REM_OP_ERR;
}

static enum ib_wc_status rnic_wc_status(const struct rnic_cqe *cqe)
{
	u8 status = cqe->status;

	if (status == RNIC_WC_REMOTE_TERMINATION)
		return rnic_terminate_status(le32_to_cpu(cqe->imm));
	/* Zero would be success, which the device calls otherwise. */
	if (status == 0 || status >= ARRAY_SIZE(rnic_wc_statuses) ||
	    (status != RNIC_WC_SUCCESS && !rnic_wc_statuses[status]))
		return IB_WC_GENERAL_ERR;
	return rnic_wc_statuses[status];
}

static enum ib_wc_opcode rnic_wc_opcode(const struct rnic_cqe *cqe)
{
	if (cqe->flags & RNIC_CQE_RECEIVE)
		return cqe->opcode == RNIC_SQ_WRITE_IMMEDIATE ?
		       IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV;
	if (cqe->opcode < ARRAY_SIZE(rnic_wc_opcodes))
		return rnic_wc_opcodes[cqe->opcode];
	return IB_WC_SEND;
}

/* What the device says is only believed if it makes sense. */
static void rnic_wq_consumed(struct rnic_wq *wq, u32 consumer)
{
	unsigned long irq_flags;

	spin_lock_irqsave(&wq->lock, irq_flags);
	if (wq->producer - consumer <= wq->producer - wq->consumer)
		wq->consumer = consumer;
	spin_unlock_irqrestore(&wq->lock, irq_flags);
}

/* Lets what a completion covers be posted anew. */
static void rnic_cqe_free_entries(struct rnic_qp *qp,
				  const struct rnic_cqe *cqe)
{
	u32 consumer = le32_to_cpu(cqe->wq_consumer);

	if (!(cqe->flags & RNIC_CQE_RECEIVE))
		rnic_wq_consumed(&qp->sq, consumer);
	else if (qp->ibqp.srq)
		rnic_srq_consumed(to_rnic_srq(qp->ibqp.srq));
	else
		rnic_wq_consumed(&qp->rq, consumer);
}

static void rnic_wc_fill(struct ib_wc *wc, struct rnic_qp *qp,
			 const struct rnic_cqe *cqe)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = le64_to_cpu(cqe->wr_id);
	wc->qp = &qp->ibqp;
	wc->status = rnic_wc_status(cqe);
	wc->opcode = rnic_wc_opcode(cqe);
	wc->byte_len = le32_to_cpu(cqe->byte_len);
	if (wc->status != IB_WC_SUCCESS)
		wc->vendor_err = cqe->status;
	if (cqe->flags & RNIC_CQE_INVALIDATED) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->stag);
	} else if (cqe->flags & RNIC_CQE_IMMEDIATE) {
		/* Octets, as the peer's program gave them. */
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->imm;
	}
	rnic_cqe_free_entries(qp, cqe);
}

/*
 * A QP that is being destroyed is not found any more, but the S-RQ that it
 * used will have its entry back. Those of rnic_cq_forget_qp() had theirs.
 */
static void rnic_cqe_of_no_qp(struct rnic_dev *dev, const struct rnic_cqe *cqe)
{
	struct rnic_srq *srq;

	if (!(cqe->flags & RNIC_CQE_SRQ) ||
	    le32_to_cpu(cqe->qpn) == RNIC_NO_QP)
		return;
	srq = rnic_srq_get(dev, le32_to_cpu(cqe->wq_consumer));
	if (!srq)
		return;
	rnic_srq_consumed(srq);
	rnic_ref_put(&srq->ref);
}

/* False if it belongs to no queue. */
static bool rnic_poll_one(struct rnic_dev *dev, const struct rnic_cqe *cqe,
			  struct ib_wc *wc)
{
	u32 qpn = le32_to_cpu(cqe->qpn);
	struct rnic_qp *qp = qpn == RNIC_NO_QP ? NULL :
						 xa_load(&dev->qps, qpn);

	if (!qp)
		rnic_cqe_of_no_qp(dev, cqe);
	/* A process's QP has nothing to say here. */
	if (!qp || !qp->sq.ring)
		return false;
	rnic_wc_fill(wc, qp, cqe);
	return true;
}

int rnic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	struct rnic_cq_record *record = cq->queue.va;
	unsigned long irq_flags;
	int found = 0;

	spin_lock_irqsave(&cq->lock, irq_flags);
	while (found < count && rnic_cqe_valid(cq, cq->consumer)) {
		struct rnic_cqe cqe;

		/* The word with the phase is stored last. */
		dma_rmb();
		cqe = *rnic_cqe_at(cq, cq->consumer++);
		if (rnic_poll_one(dev, &cqe, wc + found))
			found++;
	}
	/* The device may write where no queue is read any more. */
	mb();
	WRITE_ONCE(record->consumer, cpu_to_le32(cq->consumer));
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return found;
}

int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	unsigned long irq_flags;
	int ret = 0;

	rnic_ring(dev, RNIC_DB_CQ_ARM,
		  cq->cqn | (solicited ? RNIC_ARM_SOLICITED : RNIC_ARM_NEXT));
	if (flags & IB_CQ_REPORT_MISSED_EVENTS) {
		spin_lock_irqsave(&cq->lock, irq_flags);
		ret = rnic_cqe_valid(cq, cq->consumer);
		spin_unlock_irqrestore(&cq->lock, irq_flags);
	}
	return ret;
}

void rnic_cq_forget_qp(struct rnic_cq *cq, struct rnic_qp *qp)
{
	unsigned long irq_flags;
	u32 i;

	spin_lock_irqsave(&cq->lock, irq_flags);
	for (i = cq->consumer; i - cq->consumer < cq->depth &&
	     rnic_cqe_valid(cq, i); i++) {
		struct rnic_cqe *cqe = rnic_cqe_at(cq, i);

		dma_rmb();
		if (le32_to_cpu(cqe->qpn) != qp->qpn)
			continue;
		/* An S-RQ outlives the QP, and has its entry back. */
		rnic_cqe_free_entries(qp, cqe);
		cqe->qpn = cpu_to_le32(RNIC_NO_QP);
	}
	spin_unlock_irqrestore(&cq->lock, irq_flags);
}
