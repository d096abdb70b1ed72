// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the kernel's polling of completion queues.
 *
 * A completion counts if its QP uses this CQ and its work request is outstanding
 * (rnic_posted.c). One that looks like that of a QP that is gone, or was reset
 * since, is passed over: if it is a lie, the next completion of that work queue
 * shows it, or in ERR, where there may be none, rnic_flush_check.c. A receive of an
 * S-RQ is passed over only while a QP goes. Any other is a lie: the driver takes the
 * device out of service, because the completion that it should have been will never
 * come.
 *
 * On a device out of service everything outstanding completes here, flushed; so does
 * that of a QP in ERR whose CQ has failed, when the device has had its time.
 */

#include "rnic.h"
#include "rnic_health.h"
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

static struct rnic_cqe *rnic_cqe_at(const struct rnic_cq *cq, u32 index)
{
	u32 slot = index & (cq->depth - 1);

	return rnic_queue_at(cq->ring, cq->ring_offset +
			     slot * sizeof(struct rnic_cqe));
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

/* A poll of a CQ; qp is that of the last completion, referenced, or NULL. */
struct rnic_poll {
	struct rnic_dev *dev;
	struct rnic_cq *cq;
	struct rnic_qp *qp;
};

static struct rnic_qp *rnic_poll_find_qp(struct rnic_poll *poll, u32 qpn)
{
	if (poll->qp && poll->qp->qpn == qpn)
		return poll->qp;
	if (poll->qp)
		rnic_ref_put(&poll->qp->ref);
	poll->qp = qpn == RNIC_NO_QP ? NULL : rnic_qp_get(poll->dev, qpn);
	return poll->qp;
}

static bool rnic_qp_uses_cq(const struct rnic_qp *qp, const struct rnic_cq *cq,
			    const struct rnic_cqe *cqe)
{
	/* A process's QP has nothing to say here. */
	if (!qp->sq.ring)
		return false;
	return cqe->flags & RNIC_CQE_RECEIVE ? qp->ibqp.recv_cq == &cq->ibcq :
					       qp->ibqp.send_cq == &cq->ibcq;
}

static enum rnic_claim rnic_qp_complete(struct rnic_qp *qp,
					const struct rnic_cqe *cqe,
					struct rnic_posted *wr)
{
	u64 wr_id = le64_to_cpu(cqe->wr_id);

	if (!(cqe->flags & RNIC_CQE_RECEIVE))
		return rnic_wq_complete(&qp->sq, wr_id, wr);
	if (!qp->ibqp.srq)
		return rnic_wq_complete(&qp->rq, wr_id, wr);
	return rnic_srq_complete(&to_rnic_srq(qp->ibqp.srq)->wq, wr_id, wr);
}

static bool rnic_cqe_writes_immediate(const struct rnic_cqe *cqe)
{
	return (cqe->flags & RNIC_CQE_RECEIVE) &&
	       cqe->opcode == RNIC_SQ_WRITE_IMMEDIATE;
}

static bool rnic_cqe_has_immediate(const struct rnic_dev *dev,
				   const struct rnic_cqe *cqe)
{
	return rnic_has(dev, RNIC_FEATURE_RDMAP_EXTENSIONS) &&
	       (cqe->flags & RNIC_CQE_IMMEDIATE) &&
	       !(cqe->flags & RNIC_CQE_INVALIDATED);
}

/*
 * Why the work request cannot have succeeded as the device says; NULL: it can. A Write
 * with Immediate has no octets for the receive buffer.
 */
static const char *rnic_cqe_lie(const struct rnic_dev *dev,
				const struct rnic_cqe *cqe,
				const struct rnic_posted *wr)
{
	if (cqe->status != RNIC_WC_SUCCESS)
		return NULL;
	/* Its user may have no way to handle a completion that is no error. */
	if (!wr->signaled)
		return "it completed with success what is not signaled";
	if (rnic_cqe_writes_immediate(cqe))
		return rnic_cqe_has_immediate(dev, cqe) ? NULL :
		       "it received a Write with Immediate that cannot be one";
	return le32_to_cpu(cqe->byte_len) <= wr->length ? NULL :
	       "it received more than there was room for";
}

/* What a message carries besides octets. */
static void rnic_wc_fill_arrived(struct ib_wc *wc, const struct rnic_cqe *cqe)
{
	if (cqe->flags & RNIC_CQE_INVALIDATED) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->stag);
	} else if (cqe->flags & RNIC_CQE_IMMEDIATE) {
		/* Octets, as the peer's program gave them. */
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->imm;
	}
}

static void rnic_wc_fill(struct ib_wc *wc, struct rnic_qp *qp,
			 const struct rnic_cqe *cqe,
			 const struct rnic_posted *wr)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr->wr_id;
	wc->qp = &qp->ibqp;
	wc->status = rnic_wc_status(cqe);
	wc->opcode = rnic_cqe_writes_immediate(cqe) ?
		     IB_WC_RECV_RDMA_WITH_IMM : wr->opcode;
	/*
	 * Consumers look for so many octets in the receive buffer, also those that
	 * expect no Write with Immediate, which a peer may send at any time.
	 */
	wc->byte_len = min(le32_to_cpu(cqe->byte_len), wr->length);
	if (wc->status != IB_WC_SUCCESS) {
		wc->vendor_err = cqe->status;
		WRITE_ONCE(qp->end_seen, true);
	} else if (cqe->flags & RNIC_CQE_RECEIVE) {
		rnic_wc_fill_arrived(wc, cqe);
	}
}

/* The QP is going, and the S-RQ that it used has its entry back. */
static void rnic_cqe_of_no_qp(struct rnic_dev *dev, const struct rnic_cqe *cqe)
{
	struct rnic_posted wr;
	struct rnic_srq *srq;

	if (!(cqe->flags & RNIC_CQE_SRQ) ||
	    le32_to_cpu(cqe->qpn) == RNIC_NO_QP)
		return;
	srq = rnic_srq_get(dev, le32_to_cpu(cqe->wq_consumer));
	if (!srq)
		return;
	rnic_srq_complete(&srq->wq, le64_to_cpu(cqe->wr_id), &wr);
	rnic_ref_put(&srq->ref);
}

/*
 * Receives of an S-RQ complete in no order, so no later one would show that this is a
 * lie. The queues have forgotten those of QPs that have gone (RNIC_NO_QP).
 */
static void rnic_poll_no_qp(struct rnic_poll *poll, const struct rnic_cqe *cqe)
{
	if ((cqe->flags & RNIC_CQE_SRQ) &&
	    le32_to_cpu(cqe->qpn) != RNIC_NO_QP &&
	    !atomic_read(&poll->dev->qps_ending))
		rnic_fail(poll->dev, "it completed a receive of no queue pair");
	else
		rnic_cqe_of_no_qp(poll->dev, cqe);
}

/* False: it does not count. */
static bool rnic_poll_one(struct rnic_poll *poll, const struct rnic_cqe *cqe,
			  struct ib_wc *wc)
{
	struct rnic_qp *qp = rnic_poll_find_qp(poll, le32_to_cpu(cqe->qpn));
	struct rnic_posted wr;
	const char *lie;

	if (!qp || !rnic_qp_uses_cq(qp, poll->cq, cqe)) {
		rnic_poll_no_qp(poll, cqe);
		return false;
	}
	switch (rnic_qp_complete(qp, cqe, &wr)) {
	case RNIC_CLAIM_STALE:
		return false;
	case RNIC_CLAIM_FALSE:
		rnic_fail(poll->dev, "it completed what was not outstanding");
		return false;
	case RNIC_CLAIM_TRUE:
		break;
	}
	rnic_wc_fill(wc, qp, cqe, &wr);
	lie = rnic_cqe_lie(poll->dev, cqe, &wr);
	if (lie) {
		rnic_fail(poll->dev, lie);
		wc->status = IB_WC_FATAL_ERR;
		wc->byte_len = 0;
		wc->wc_flags = 0;
	}
	return true;
}

static int rnic_poll_ring(struct rnic_poll *poll, int count, struct ib_wc *wc)
{
	struct rnic_cq *cq = poll->cq;
	u32 looked_at = 0;
	int found = 0;

	/* A device that goes on writing does not keep the caller for ever. */
	while (found < count && looked_at++ < cq->depth &&
	       rnic_cqe_valid(cq, cq->consumer)) {
		struct rnic_cqe cqe;

		/* The word with the phase is stored last. */
		dma_rmb();
		cqe = *rnic_cqe_at(cq, cq->consumer++);
		if (rnic_poll_one(poll, &cqe, wc + found))
			found++;
	}
	return found;
}

static void rnic_wc_flush(struct ib_wc *wc, struct rnic_qp *qp,
			  const struct rnic_posted *wr)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr->wr_id;
	wc->qp = &qp->ibqp;
	wc->status = IB_WC_WR_FLUSH_ERR;
	wc->opcode = wr->opcode;
	wc->vendor_err = RNIC_WC_FLUSHED;
}

static int rnic_wq_flush(struct rnic_qp *qp, struct rnic_wq *wq, int count,
			 struct ib_wc *wc)
{
	struct rnic_posted wr;
	int found = 0;

	while (found < count && rnic_wq_complete_oldest(wq, &wr))
		rnic_wc_flush(wc + found++, qp, &wr);
	return found;
}

/* What the device will not complete any more: of all QPs, or of those abandoned. */
static int rnic_poll_flushed(struct rnic_cq *cq, bool all, int count,
			     struct ib_wc *wc)
{
	struct rnic_qp *qp;
	int found = 0;

	list_for_each_entry(qp, &cq->send_qps, send_entry)
		if (all || READ_ONCE(qp->abandoned))
			found += rnic_wq_flush(qp, &qp->sq, count - found,
					       wc + found);
	list_for_each_entry(qp, &cq->recv_qps, recv_entry)
		if (all || READ_ONCE(qp->abandoned))
			found += rnic_wq_flush(qp, &qp->rq, count - found,
					       wc + found);
	return found;
}

int rnic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	struct rnic_poll poll = {
		.dev = to_rnic_dev(ibcq->device),
		.cq = cq,
	};
	struct rnic_cq_record *record = cq->queue.record;
	unsigned long irq_flags;
	int found;

	spin_lock_irqsave(&cq->lock, irq_flags);
	found = rnic_poll_ring(&poll, count, wc);
	if (poll.qp)
		rnic_ref_put(&poll.qp->ref);
	/* The device may write where no queue is read any more. */
	mb();
	WRITE_ONCE(record->consumer, cpu_to_le32(cq->consumer));
	if (rnic_failed(poll.dev) || READ_ONCE(cq->has_failed))
		found += rnic_poll_flushed(cq, rnic_failed(poll.dev),
					   count - found, wc + found);
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return found;
}

bool rnic_cq_waits(struct rnic_cq *cq)
{
	unsigned long irq_flags;
	bool waits, still;

	spin_lock_irqsave(&cq->lock, irq_flags);
	waits = rnic_cqe_valid(cq, cq->consumer);
	still = waits && cq->waits && cq->waits_at == cq->consumer;
	cq->waits = waits;
	cq->waits_at = cq->consumer;
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return still;
}

/* The tag says that it is of the queue as it is now, not before RESET. */
static bool rnic_cqe_is_of(const struct rnic_cqe *cqe, u32 qpn, u32 tag)
{
	return le32_to_cpu(cqe->qpn) == qpn &&
	       upper_32_bits(le64_to_cpu(cqe->wr_id)) == tag;
}

bool rnic_cq_holds_any_of(struct rnic_cq *cq, u32 qpn, u32 tag)
{
	unsigned long irq_flags;
	bool found = false;
	u32 i;

	spin_lock_irqsave(&cq->lock, irq_flags);
	for (i = cq->consumer; !found && i - cq->consumer < cq->depth &&
	     rnic_cqe_valid(cq, i); i++) {
		dma_rmb();
		found = rnic_cqe_is_of(rnic_cqe_at(cq, i), qpn, tag);
	}
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return found;
}

bool rnic_cq_has_qps(const struct rnic_cq *cq)
{
	return !list_empty(&cq->send_qps) || !list_empty(&cq->recv_qps);
}

static bool rnic_cq_has_flushed(struct rnic_cq *cq)
{
	struct rnic_qp *qp;

	list_for_each_entry(qp, &cq->send_qps, send_entry)
		if (rnic_wq_is_busy(&qp->sq))
			return true;
	list_for_each_entry(qp, &cq->recv_qps, recv_entry)
		if (rnic_wq_is_busy(&qp->rq))
			return true;
	return false;
}

int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct rnic_dev *dev = to_rnic_dev(ibcq->device);
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	bool solicited = flags & IB_CQ_SOLICITED;
	unsigned long irq_flags;
	int ret = 0;

	/* One type, and no other (V9.3.2.2-1). */
	if (solicited == !!(flags & IB_CQ_NEXT_COMP))
		return -EINVAL;

	WRITE_ONCE(cq->armed_solicited, solicited);
	/*
	 * The barrier is between armed and the looks at the device's failure and at
	 * CQEs. It pairs with the one in rnic_cq_call_handler().
	 */
	smp_store_mb(cq->armed, true);
	if (!rnic_failed(dev))
		rnic_ring(dev, RNIC_DB_CQ_ARM,
			  cq->cqn | (solicited ? RNIC_ARM_SOLICITED :
						 RNIC_ARM_NEXT));
	if (flags & IB_CQ_REPORT_MISSED_EVENTS) {
		spin_lock_irqsave(&cq->lock, irq_flags);
		ret = rnic_cqe_valid(cq, cq->consumer) ||
		      (rnic_failed(dev) && rnic_cq_has_flushed(cq));
		spin_unlock_irqrestore(&cq->lock, irq_flags);
	}
	return ret;
}

static void rnic_cq_forget_qp(struct rnic_dev *dev, struct rnic_cq *cq, u32 qpn)
{
	u32 i;

	for (i = cq->consumer; i - cq->consumer < cq->depth &&
	     rnic_cqe_valid(cq, i); i++) {
		struct rnic_cqe *cqe = rnic_cqe_at(cq, i);

		dma_rmb();
		if (le32_to_cpu(cqe->qpn) != qpn)
			continue;
		rnic_cqe_of_no_qp(dev, cqe);
		cqe->qpn = cpu_to_le32(RNIC_NO_QP);
	}
}

void rnic_cq_forget_receives(struct rnic_qp *qp)
{
	struct rnic_cq *cq = to_rnic_cq(qp->ibqp.recv_cq);
	unsigned long irq_flags;

	if (!qp->ibqp.srq)
		return;
	spin_lock_irqsave(&cq->lock, irq_flags);
	rnic_cq_forget_qp(to_rnic_dev(qp->ibqp.device), cq, qp->qpn);
	spin_unlock_irqrestore(&cq->lock, irq_flags);
}

static void rnic_list_change(struct ib_cq *ibcq, struct list_head *entry,
			     struct list_head *list)
{
	struct rnic_cq *cq = to_rnic_cq(ibcq);
	unsigned long irq_flags;

	spin_lock_irqsave(&cq->lock, irq_flags);
	if (list)
		list_add_tail(entry, list);
	else
		list_del(entry);
	spin_unlock_irqrestore(&cq->lock, irq_flags);
}

void rnic_cqs_add_qp(struct rnic_qp *qp)
{
	struct ib_cq *send_cq = qp->ibqp.send_cq;
	struct ib_cq *recv_cq = qp->ibqp.recv_cq;

	rnic_list_change(send_cq, &qp->send_entry,
			 &to_rnic_cq(send_cq)->send_qps);
	rnic_list_change(recv_cq, &qp->recv_entry,
			 &to_rnic_cq(recv_cq)->recv_qps);
}

void rnic_cqs_remove_qp(struct rnic_qp *qp)
{
	rnic_list_change(qp->ibqp.send_cq, &qp->send_entry, NULL);
	rnic_list_change(qp->ibqp.recv_cq, &qp->recv_entry, NULL);
}
