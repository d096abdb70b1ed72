// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the kernel's posting of work requests.
 *
 * Send WQEs are written in place, piece by piece, because one may wrap around
 * the end of the ring, and go on in another page, at any multiple of RNIC_SQ_UNIT.
 */

#include <linux/log2.h>

#include "rnic.h"
#include "rnic_health.h"
#include "rnic_verbs.h"

/* A send WQE being written. */
struct rnic_wqe {
	const struct rnic_wq *sq;
	u32 start;			/* index of its first unit */
	struct rnic_sq_wqe head;
	u32 payload;			/* octets behind the head */
};

static void rnic_wqe_copy(const struct rnic_wqe *wqe, u32 offset,
			  const void *data, size_t length)
{
	const struct rnic_wq *sq = wqe->sq;
	u32 size = sq->depth * RNIC_SQ_UNIT;
	u32 at = wqe->start * RNIC_SQ_UNIT + offset;

	while (length) {
		u32 place = sq->ring_offset + (at & (size - 1));
		size_t part = min3(length, size - (at & (size - 1)),
				   PAGE_SIZE - offset_in_page(place));

		memcpy(rnic_queue_at(sq->ring, place), data, part);
		data += part;
		at += part;
		length -= part;
	}
}

static void rnic_wqe_add(struct rnic_wqe *wqe, const void *data, size_t length)
{
	rnic_wqe_copy(wqe, sizeof(wqe->head) + wqe->payload, data, length);
	wqe->payload += length;
}

static void rnic_wqe_add_sges(struct rnic_wqe *wqe,
			      const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		struct rnic_sge sge = {
			.to = cpu_to_le64(wr->sg_list[i].addr),
			.stag = cpu_to_le32(wr->sg_list[i].lkey),
			.length = cpu_to_le32(wr->sg_list[i].length),
		};

		rnic_wqe_add(wqe, &sge, sizeof(sge));
	}
	wqe->head.num_sge = wr->num_sge;
}

/* Inline data of the kernel is at kernel addresses. */
static int rnic_wqe_add_inline(struct rnic_qp *qp, struct rnic_wqe *wqe,
			       const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		u32 length = wr->sg_list[i].length;

		if (length > qp->cap.max_inline_data - wqe->payload)
			return -EINVAL;
		rnic_wqe_add(wqe, (void *)(uintptr_t)wr->sg_list[i].addr,
			     length);
	}
	wqe->head.flags |= RNIC_WQE_INLINE;
	wqe->head.data_length = cpu_to_le32(wqe->payload);
	return 0;
}

static int rnic_wqe_add_data(struct rnic_qp *qp, struct rnic_wqe *wqe,
			     const struct ib_send_wr *wr)
{
	if (wr->send_flags & IB_SEND_INLINE)
		return rnic_wqe_add_inline(qp, wqe, wr);
	rnic_wqe_add_sges(wqe, wr);
	return 0;
}

/* Octets, which no byte order changes. */
static void rnic_wqe_set_immediate(struct rnic_wqe *wqe,
				   const struct ib_send_wr *wr)
{
	memcpy(wqe->head.immediate, &wr->ex.imm_data,
	       sizeof(wqe->head.immediate));
}

static int rnic_wqe_send(struct rnic_qp *qp, struct rnic_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	wqe->head.opcode = RNIC_SQ_SEND;
	if (wr->opcode == IB_WR_SEND_WITH_IMM) {
		wqe->head.opcode = RNIC_SQ_SEND_IMMEDIATE;
		rnic_wqe_set_immediate(wqe, wr);
	}
	if (wr->opcode == IB_WR_SEND_WITH_INV) {
		wqe->head.opcode = RNIC_SQ_SEND_INVALIDATE;
		wqe->head.invalidate_stag =
			cpu_to_le32(wr->ex.invalidate_rkey);
	}
	if (wr->send_flags & IB_SEND_SOLICITED)
		wqe->head.flags |= RNIC_WQE_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->head.flags |= RNIC_WQE_READ_FENCE;
	return rnic_wqe_add_data(qp, wqe, wr);
}

static void rnic_wqe_set_remote(struct rnic_wqe *wqe,
				const struct ib_send_wr *wr)
{
	wqe->head.remote_to = cpu_to_le64(rdma_wr(wr)->remote_addr);
	wqe->head.remote_stag = cpu_to_le32(rdma_wr(wr)->rkey);
}

static int rnic_wqe_write(struct rnic_qp *qp, struct rnic_wqe *wqe,
			  const struct ib_send_wr *wr)
{
	wqe->head.opcode = RNIC_SQ_RDMA_WRITE;
	if (wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM) {
		wqe->head.opcode = RNIC_SQ_WRITE_IMMEDIATE;
		rnic_wqe_set_immediate(wqe, wr);
		if (wr->send_flags & IB_SEND_SOLICITED)
			wqe->head.flags |= RNIC_WQE_SOLICITED;
	}
	rnic_wqe_set_remote(wqe, wr);
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->head.flags |= RNIC_WQE_READ_FENCE;
	return rnic_wqe_add_data(qp, wqe, wr);
}

/*
 * What the device invalidates after a Read is always the Read's sink. The core's
 * rdma_rw gives a new key to the sink only, so keys may differ.
 */
static bool rnic_read_invalidates_sink(const struct ib_send_wr *wr)
{
	return wr->num_sge && rnic_stag_index(wr->sg_list[0].lkey) ==
			      rnic_stag_index(wr->ex.invalidate_rkey);
}

static int rnic_wqe_read(const struct rnic_dev *dev, struct rnic_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	if (wr->num_sge > (int)dev->limits.max_read_sge ||
	    (wr->send_flags & IB_SEND_INLINE))
		return -EINVAL;
	if (wr->opcode == IB_WR_RDMA_READ_WITH_INV &&
	    (wr->num_sge > 1 || !rnic_read_invalidates_sink(wr)))
		return -EINVAL;
	wqe->head.opcode = wr->opcode == IB_WR_RDMA_READ ?
			   RNIC_SQ_RDMA_READ : RNIC_SQ_RDMA_READ_INVALIDATE;
	rnic_wqe_set_remote(wqe, wr);
	rnic_wqe_add_sges(wqe, wr);
	return 0;
}

static int rnic_wqe_atomic(struct rnic_wqe *wqe, const struct ib_send_wr *wr)
{
	bool add = wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
	const struct ib_atomic_wr *atomic = atomic_wr(wr);
	struct rnic_atomic_wqe body = {
		.add_swap = cpu_to_le64(add ? atomic->compare_add :
					      atomic->swap),
		.compare = cpu_to_le64(add ? 0 : atomic->compare_add),
	};

	if (wr->num_sge != 1 || (wr->send_flags & IB_SEND_INLINE))
		return -EINVAL;
	wqe->head.opcode = add ? RNIC_SQ_FETCH_ADD : RNIC_SQ_COMPARE_SWAP;
	wqe->head.remote_to = cpu_to_le64(atomic->remote_addr);
	wqe->head.remote_stag = cpu_to_le32(atomic->rkey);
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->head.flags |= RNIC_WQE_READ_FENCE;
	rnic_wqe_add(wqe, &body, sizeof(body));
	rnic_wqe_add_sges(wqe, wr);
	return 0;
}

static int rnic_wqe_local_invalidate(struct rnic_wqe *wqe,
				     const struct ib_send_wr *wr)
{
	/* STag zero is always Valid (V7.2.1-12). */
	if (!rnic_stag_index(wr->ex.invalidate_rkey))
		return -EINVAL;
	wqe->head.opcode = RNIC_SQ_LOCAL_INVALIDATE;
	wqe->head.invalidate_stag = cpu_to_le32(wr->ex.invalidate_rkey);
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->head.flags |= RNIC_WQE_LOCAL_FENCE;
	return 0;
}

static int rnic_wqe_fast_register(const struct rnic_dev *dev,
				  struct rnic_wqe *wqe,
				  const struct ib_send_wr *wr)
{
	const struct ib_reg_wr *reg = reg_wr(wr);
	const struct rnic_mr *mr = to_rnic_mr(reg->mr);
	const struct ib_mr *ibmr = reg->mr;
	struct rnic_fast_register_wqe body = {
		.stag = cpu_to_le32(reg->key),
		.first_byte_offset =
			cpu_to_le32(ibmr->iova & (ibmr->page_size - 1)),
		.va = cpu_to_le64(ibmr->iova),
		.length = cpu_to_le64(ibmr->length),
		.access = rnic_access_rights(dev, reg->access),
		.pages = {
			.addr = cpu_to_le64(mr->pages_dma),
			.count = cpu_to_le32(mr->num_pages),
			.level = RNIC_PAGE_LIST_DIRECT,
			.page_shift = order_base_2(ibmr->page_size),
		},
	};

	/* No size before ib_map_mr_sg(); and STag zero is no region (V7.2.1-12). */
	if (!is_power_of_2(ibmr->page_size) || !rnic_stag_index(reg->key) ||
	    (wr->send_flags & IB_SEND_INLINE))
		return -EINVAL;
	wqe->head.opcode = RNIC_SQ_FAST_REGISTER;
	rnic_wqe_add(wqe, &body, sizeof(body));
	return 0;
}

/* By enum ib_wr_opcode, of those that rnic_wqe_build() knows. */
static const u8 rnic_wc_opcodes[] = {
	[IB_WR_SEND] = IB_WC_SEND,
	[IB_WR_SEND_WITH_IMM] = IB_WC_SEND,
	[IB_WR_SEND_WITH_INV] = IB_WC_SEND,
	[IB_WR_RDMA_WRITE] = IB_WC_RDMA_WRITE,
	[IB_WR_RDMA_WRITE_WITH_IMM] = IB_WC_RDMA_WRITE,
	[IB_WR_RDMA_READ] = IB_WC_RDMA_READ,
	[IB_WR_RDMA_READ_WITH_INV] = IB_WC_RDMA_READ,
	[IB_WR_ATOMIC_CMP_AND_SWP] = IB_WC_COMP_SWAP,
	[IB_WR_ATOMIC_FETCH_AND_ADD] = IB_WC_FETCH_ADD,
	[IB_WR_LOCAL_INV] = IB_WC_LOCAL_INV,
	[IB_WR_REG_MR] = IB_WC_REG_MR,
};

static bool rnic_wr_is_extension(const struct ib_send_wr *wr)
{
	return wr->opcode == IB_WR_SEND_WITH_IMM ||
	       wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM ||
	       wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

static int rnic_wqe_build(struct rnic_qp *qp, struct rnic_wqe *wqe,
			  const struct ib_send_wr *wr)
{
	const struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);

	if (rnic_wr_is_extension(wr) &&
	    !rnic_has(dev, RNIC_FEATURE_RDMAP_EXTENSIONS))
		return -EOPNOTSUPP;
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
		return rnic_wqe_send(qp, wqe, wr);
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return rnic_wqe_write(qp, wqe, wr);
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		return rnic_wqe_read(dev, wqe, wr);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return rnic_wqe_atomic(wqe, wr);
	case IB_WR_LOCAL_INV:
		return rnic_wqe_local_invalidate(wqe, wr);
	case IB_WR_REG_MR:
		return rnic_wqe_fast_register(dev, wqe, wr);
	default:
		return -EOPNOTSUPP;
	}
}

static u32 rnic_wqe_max_units(const struct rnic_qp *qp,
			      const struct ib_send_wr *wr)
{
	u32 payload = wr->num_sge * sizeof(struct rnic_sge);

	if (wr->send_flags & IB_SEND_INLINE)
		payload = qp->cap.max_inline_data;
	else if (wr->opcode == IB_WR_REG_MR)
		payload = sizeof(struct rnic_fast_register_wqe);
	else if (wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
		 wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD)
		payload += sizeof(struct rnic_atomic_wqe);
	return DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) + payload,
			    RNIC_SQ_UNIT);
}

/* Octets; what does not fit 32 bits the device refuses. */
static u32 rnic_sges_length(const struct ib_sge *sges, int count)
{
	u64 length = 0;
	int i;

	for (i = 0; i < count; i++)
		length += sges[i].length;
	return min_t(u64, length, U32_MAX);
}

static int rnic_post_one_send(struct rnic_qp *qp, const struct ib_send_wr *wr)
{
	struct rnic_wq *sq = &qp->sq;
	struct rnic_wqe wqe = { .sq = sq, .start = sq->producer };
	struct rnic_posted posted = { .wr_id = wr->wr_id };
	int ret;

	if (wr->num_sge < 0 || wr->num_sge > (int)qp->cap.max_send_sge)
		return -EINVAL;
	if (rnic_wqe_max_units(qp, wr) >
	    sq->depth - (sq->producer - sq->consumer))
		return -ENOMEM;
	ret = rnic_wqe_build(qp, &wqe, wr);
	if (ret)
		return ret;
	if (wr->send_flags & IB_SEND_SIGNALED)
		wqe.head.flags |= RNIC_WQE_SIGNALED;
	wqe.head.units = DIV_ROUND_UP(sizeof(wqe.head) + wqe.payload,
				      RNIC_SQ_UNIT);
	posted.length = rnic_sges_length(wr->sg_list, wr->num_sge);
	posted.units = wqe.head.units;
	posted.opcode = rnic_wc_opcodes[wr->opcode];
	posted.signaled = (qp->enables & RNIC_QP_SIGNAL_ALL) ||
			  (wr->send_flags & IB_SEND_SIGNALED);
	/* What is posted in ERR never succeeds, so it has a CQE in any case. */
	posted.owes_cqe = posted.signaled || READ_ONCE(qp->flushes);
	wqe.head.wr_id = cpu_to_le64(rnic_wq_post(sq, &posted));
	rnic_wqe_copy(&wqe, 0, &wqe.head, sizeof(wqe.head));
	return 0;
}

/*
 * Tells of what was posted since old. The doorbell is owed if that went past
 * the index up to which the device looks by itself.
 */
static void rnic_publish(struct rnic_dev *dev, u32 number, u32 doorbell,
			 u32 old, u32 new, __le32 *producer,
			 const __le32 *event)
{
	if (new == old)
		return;
	/* WQEs before the index ... */
	dma_wmb();
	WRITE_ONCE(*producer, cpu_to_le32(new));
	/* ... before the device's answer to it. */
	mb();
	if (new - le32_to_cpu(READ_ONCE(*event)) - 1 < new - old)
		rnic_ring(dev, doorbell, number);
}

/* V8.2.1-11: in every other state the device holds it, does it or flushes it. */
static bool rnic_qp_takes_posts(const struct rnic_qp *qp)
{
	return READ_ONCE(qp->idle_state) != IB_QPS_RESET;
}

int rnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_qp_record *record = qp->queue.record;
	unsigned long irq_flags;
	int ret = 0;
	u32 old;

	if (!rnic_qp_takes_posts(qp)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->sq.lock, irq_flags);
	old = qp->sq.producer;
	for (; wr && !ret; wr = wr->next) {
		ret = rnic_post_one_send(qp, wr);
		if (ret)
			*bad_wr = wr;
	}
	rnic_publish(dev, qp->qpn, RNIC_DB_SQ, old, qp->sq.producer,
		     &record->sq_producer, &record->sq_event);
	spin_unlock_irqrestore(&qp->sq.lock, irq_flags);
	rnic_health_flush(dev);
	return ret;
}

u8 rnic_receive_wqe_shift(u32 max_sge)
{
	u32 stride = sizeof(struct rnic_rq_wqe) +
		     max_sge * sizeof(struct rnic_sge);

	return max_t(u32, order_base_2(stride), RNIC_RQ_MIN_WQE_SHIFT);
}

/* The WQE at producer; there is room, and the device's wr_id comes later. */
static struct rnic_rq_wqe *rnic_receive_wqe(struct rnic_wq *rq,
					    const struct ib_recv_wr *wr)
{
	struct rnic_rq_wqe *wqe;
	int i;

	wqe = rnic_queue_at(rq->ring, rq->ring_offset +
			    ((rq->producer & (rq->depth - 1)) <<
			     rq->wqe_shift));
	wqe->num_sge = cpu_to_le32(wr->num_sge);
	wqe->reserved = 0;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].to = cpu_to_le64(wr->sg_list[i].addr);
		wqe->sge[i].stag = cpu_to_le32(wr->sg_list[i].lkey);
		wqe->sge[i].length = cpu_to_le32(wr->sg_list[i].length);
	}
	return wqe;
}

static int rnic_post_one_recv(struct rnic_wq *rq, bool srq,
			      const struct ib_recv_wr *wr)
{
	struct rnic_posted posted = {
		.wr_id = wr->wr_id,
		.units = 1,
		.opcode = IB_WC_RECV,
		.signaled = true,
		.owes_cqe = true,
	};
	struct rnic_rq_wqe *wqe;

	/* A QP with an S-RQ has none of its own. */
	if (!rq->ring || wr->num_sge < 0 || wr->num_sge > (int)rq->max_sge)
		return -EINVAL;
	posted.length = rnic_sges_length(wr->sg_list, wr->num_sge);
	if (srq ? !rnic_srq_has_room(rq) :
		  rq->producer - rq->consumer == rq->depth)
		return -ENOMEM;
	wqe = rnic_receive_wqe(rq, wr);
	wqe->wr_id = cpu_to_le64(srq ? rnic_srq_post(rq, &posted) :
				       rnic_wq_post(rq, &posted));
	return 0;
}

/* With the lock of the queue held. */
static int rnic_post_recvs(struct rnic_wq *rq, bool srq,
			   const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad_wr)
{
	int ret = 0;

	for (; wr && !ret; wr = wr->next) {
		ret = rnic_post_one_recv(rq, srq, wr);
		if (ret)
			*bad_wr = wr;
	}
	return ret;
}

int rnic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_qp_record *record = qp->queue.record;
	unsigned long irq_flags;
	u32 old;
	int ret;

	if (!rnic_qp_takes_posts(qp)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->rq.lock, irq_flags);
	old = qp->rq.producer;
	ret = rnic_post_recvs(&qp->rq, false, wr, bad_wr);
	rnic_publish(dev, qp->qpn, RNIC_DB_RQ, old, qp->rq.producer,
		     &record->rq_producer, &record->rq_event);
	spin_unlock_irqrestore(&qp->rq.lock, irq_flags);
	rnic_health_flush(dev);
	return ret;
}

int rnic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct rnic_srq *srq = to_rnic_srq(ibsrq);
	struct rnic_srq_record *record = srq->queue.record;
	unsigned long irq_flags;
	u32 old;
	int ret;

	spin_lock_irqsave(&srq->wq.lock, irq_flags);
	old = srq->wq.producer;
	ret = rnic_post_recvs(&srq->wq, true, wr, bad_wr);
	/* The device looks for itself: there is no bell to ring. */
	if (srq->wq.producer != old) {
		dma_wmb();
		WRITE_ONCE(record->producer, cpu_to_le32(srq->wq.producer));
	}
	spin_unlock_irqrestore(&srq->wq.lock, irq_flags);
	return ret;
}
