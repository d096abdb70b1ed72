// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queues.
 */

#include <errno.h>
#include <stdlib.h>

#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "rnic.h"

#define RNIC_CQ_RING_OFFSET	RNIC_QUEUE_RECORD_SIZE
#define RNIC_CQ_MIN_DEPTH	2

#define RNIC_WC_TIMED_FLAGS						\
	((uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |		\
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static void free_rings(struct rnic_cq_ring *ring)
{
	struct rnic_cq_ring *next;

	for (; ring; ring = next) {
		next = ring->next;
		rnic_buf_free(&ring->buf);
		free(ring);
	}
}

static void lock_cq(struct rnic_cq *cq)
{
	if (!cq->single_threaded)
		pthread_spin_lock(&cq->lock);
}

static void unlock_cq(struct rnic_cq *cq)
{
	struct rnic_cq_ring *used_up = cq->used_up;

	cq->used_up = NULL;
	if (!cq->single_threaded)
		pthread_spin_unlock(&cq->lock);
	/* The program's own allocator may take its time. */
	if (unlikely(used_up))
		free_rings(used_up);
}

/* ------------------------------------------------ what a CQE says */

/* RDMAP and DDP protection errors have type 1 (RFC 5040 4.8, RFC 5041 7.2). */
static enum ibv_wc_status terminate_status(uint32_t code)
{
	if (code == RNIC_TERMINATE_MESSAGE_TOO_LONG)
		return IBV_WC_REM_INV_REQ_ERR;
	return (code & 0x0f00) == 0x0100 && code < 0x2000 ?
	       IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR;
}

/* The specification's figure 36 in Linux's terms. */
static enum ibv_wc_status wc_status(const struct rnic_cqe *cqe)
{
	bool bind = !(cqe->flags & RNIC_CQE_RECEIVE) &&
		    cqe->opcode == RNIC_SQ_BIND_MW;

	switch (cqe->status) {
	case RNIC_WC_SUCCESS:
		return IBV_WC_SUCCESS;
	case RNIC_WC_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case RNIC_WC_QP_CATASTROPHIC:
		return IBV_WC_FATAL_ERR;
	case RNIC_WC_REMOTE_TERMINATION:
		return terminate_status(le32toh(cqe->imm));
	case RNIC_WC_INVALID_STAG:
	case RNIC_WC_INVALID_PD:
	case RNIC_WC_WRAP:
	case RNIC_WC_BASE_BOUNDS:
		return bind ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_PROT_ERR;
	case RNIC_WC_ACCESS_VIOLATION:
		return bind ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_ACCESS_ERR;
	case RNIC_WC_INVALIDATE_STAG:
		return IBV_WC_REM_INV_REQ_ERR;
	case RNIC_WC_RETRY_EXCEEDED:
		return IBV_WC_RETRY_EXC_ERR;
	case RNIC_WC_RNR_RETRY_EXCEEDED:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case RNIC_WC_STAG_NOT_INVALID:
		return bind ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_QP_OP_ERR;
	case RNIC_WC_INVALID_REGION:
	case RNIC_WC_INVALID_WINDOW:
		return IBV_WC_MW_BIND_ERR;
	case RNIC_WC_INVALID_LENGTH:
	case RNIC_WC_MESSAGE_TOO_LONG:
		return IBV_WC_LOC_LEN_ERR;
	case RNIC_WC_INVALID_WQE:
	case RNIC_WC_ZERO_READ_RESOURCES:
	case RNIC_WC_NOT_PRIVILEGED:
	case RNIC_WC_INVALID_PAGE_SIZE:
	case RNIC_WC_INVALID_PBL_SIZE:
	case RNIC_WC_INVALID_PBL_ENTRY:
	case RNIC_WC_INVALID_FBO:
	case RNIC_WC_INVALID_REGISTER_LENGTH:
	case RNIC_WC_INVALID_ACCESS_RIGHTS:
	case RNIC_WC_PBL_TOO_LONG:
	case RNIC_WC_INVALID_VA:
	case RNIC_WC_UNSUPPORTED:
		return IBV_WC_LOC_QP_OP_ERR;
	default:
		return IBV_WC_GENERAL_ERR;
	}
}

/* The merged statuses above stay distinguishable by this. */
static uint32_t wc_vendor_err(const struct rnic_cqe *cqe)
{
	return cqe->status == RNIC_WC_SUCCESS ? 0 : cqe->status;
}

static enum ibv_wc_opcode wc_opcode(const struct rnic_cqe *cqe)
{
	if (cqe->flags & RNIC_CQE_RECEIVE)
		return cqe->opcode == RNIC_SQ_WRITE_IMMEDIATE ?
		       IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	switch (cqe->opcode) {
	case RNIC_SQ_RDMA_WRITE:
	case RNIC_SQ_WRITE_IMMEDIATE:
		return IBV_WC_RDMA_WRITE;
	case RNIC_SQ_RDMA_READ:
	case RNIC_SQ_RDMA_READ_INVALIDATE:
		return IBV_WC_RDMA_READ;
	case RNIC_SQ_BIND_MW:
		return IBV_WC_BIND_MW;
	case RNIC_SQ_LOCAL_INVALIDATE:
		return IBV_WC_LOCAL_INV;
	case RNIC_SQ_FETCH_ADD:
		return IBV_WC_FETCH_ADD;
	case RNIC_SQ_COMPARE_SWAP:
		return IBV_WC_COMP_SWAP;
	default:
		return IBV_WC_SEND;
	}
}

static unsigned int wc_flags(const struct rnic_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & RNIC_CQE_IMMEDIATE)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & RNIC_CQE_INVALIDATED)
		flags |= IBV_WC_WITH_INV;
	return flags;
}

/* Immediate data, or the STag that was invalidated: verbs has one field. */
static __be32 wc_imm_data(const struct rnic_cqe *cqe)
{
	if (cqe->flags & RNIC_CQE_INVALIDATED)
		return (__force __be32)le32toh(cqe->stag);
	return (__force __be32)cqe->imm;
}

static void fill_wc(struct ibv_wc *wc, const struct rnic_cqe *cqe)
{
	*wc = (struct ibv_wc) {
		.wr_id = le64toh(cqe->wr_id),
		.status = wc_status(cqe),
		.opcode = wc_opcode(cqe),
		.vendor_err = wc_vendor_err(cqe),
		.byte_len = le32toh(cqe->byte_len),
		.imm_data = wc_imm_data(cqe),
		.qp_num = le32toh(cqe->qpn),
		.wc_flags = wc_flags(cqe),
	};
}

/* --------------------------------------------------------- polling */

/* The CQE number index if the device has stored it, else NULL. */
static struct rnic_cqe *valid_cqe(struct rnic_cq_ring *ring, uint32_t index)
{
	size_t slot = index & (ring->depth - 1);
	struct rnic_cqe *cqe = (void *)(ring->cqes +
					(slot << ring->stride_shift));
	uint8_t flags = *(volatile __u8 *)&cqe->flags;

	if (!!(flags & RNIC_CQE_PHASE) != !(index & ring->depth))
		return NULL;

	/* The rest was stored before the word that holds the flags. */
	udma_from_device_barrier();
	return cqe;
}

/* Any one entry, see rnic_srq.c; with the lock of the CQ held. */
static void free_srq_entry(struct ibv_srq *ibsrq)
{
	atomic_fetch_add_explicit(&to_rsrq(ibsrq)->wq.consumer, 1,
				  memory_order_release);
}

/* Frees what cqe covers in its work queue; false if no QP of this CQ is meant. */
static bool free_entries(struct rnic_cq *cq, const struct rnic_cqe *cqe)
{
	struct rnic_qp *qp = rnic_find_qp(&cq->vcq.cq, le32toh(cqe->qpn),
					  cqe->flags & RNIC_CQE_RECEIVE);
	struct rnic_wq *wq;

	if (!qp)
		return false;

	if ((cqe->flags & RNIC_CQE_RECEIVE) && qp->vqp.qp.srq) {
		free_srq_entry(qp->vqp.qp.srq);
		return true;
	}
	wq = cqe->flags & RNIC_CQE_RECEIVE ? &qp->rq : &qp->sq;
	atomic_store_explicit(&wq->consumer, le32toh(cqe->wq_consumer),
			      memory_order_release);
	return true;
}

/* All of the oldest ring's CQEs were taken, and there will be no more. */
static void leave_ring(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring = cq->ring;

	cq->ring = ring->next;
	ring->next = cq->used_up;
	cq->used_up = ring;
}

/*
 * Where there is a next ring. As long as the command that gives the device that
 * ring is in progress, its end is not known here; but once there is a
 * CQE in the next, there are no more to come here. It must be seen at once:
 * its event may have been the last.
 */
static bool ring_is_done(struct rnic_cq_ring *ring)
{
	if (ring->ended)
		return ring->consumer == ring->end;
	return valid_cqe(ring->next, 0) && !valid_cqe(ring, ring->consumer);
}

static struct rnic_cq_ring *oldest_ring(struct rnic_cq *cq)
{
	while (unlikely(cq->ring->next) && ring_is_done(cq->ring))
		leave_ring(cq);
	return cq->ring;
}

/* As oldest_ring(), after an entry of ring; passed counts those of one ring. */
static struct rnic_cq_ring *next_ring(struct rnic_cq *cq,
				      const struct rnic_cq_ring *ring,
				      uint32_t *passed)
{
	struct rnic_cq_ring *oldest = oldest_ring(cq);

	if (oldest != ring)
		*passed = 0;
	return oldest;
}

static const struct rnic_cqe *next_cqe(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring = oldest_ring(cq);
	const struct rnic_cqe *cqe;
	uint32_t passed = 0;

	/* A device that goes on storing what is of no QP does not keep the caller. */
	while (passed++ < ring->depth &&
	       (cqe = valid_cqe(ring, ring->consumer))) {
		ring->consumer++;
		if (free_entries(cq, cqe))
			return cqe;
		ring = next_ring(cq, ring, &passed);
	}
	return NULL;
}

/* From here on the device may overwrite the CQEs taken. */
static void return_cqes(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring = cq->ring;

	if (ring->returned == ring->consumer)
		return;
	ring->returned = ring->consumer;
	atomic_thread_fence(memory_order_release);
	*(volatile __le32 *)&ring->record->consumer = htole32(ring->consumer);
}

int rnic_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct rnic_cq *cq = to_rcq(ibcq);
	const struct rnic_cqe *cqe;
	int polled = 0;

	lock_cq(cq);
	while (polled < num_entries && (cqe = next_cqe(cq)))
		fill_wc(&wc[polled++], cqe);
	return_cqes(cq);
	unlock_cq(cq);

	return polled;
}

int rnic_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct rnic_context *ctx = to_rctx(ibcq->context);
	struct rnic_cq *cq = to_rcq(ibcq);
	uint32_t arm = solicited_only ? RNIC_ARM_SOLICITED : RNIC_ARM_NEXT;

	udma_to_device_barrier();
	mmio_write32_le((uint8_t *)ctx->db + RNIC_DB_CQ_ARM,
			htole32(cq->cqn | arm));
	return 0;
}

/* ------------------------------------------- the extended interface */

static int take_cqe(struct rnic_cq *cq)
{
	const struct rnic_cqe *cqe = next_cqe(cq);

	if (!cqe)
		return ENOENT;

	cq->current = cqe;
	cq->vcq.cq_ex.status = wc_status(cqe);
	cq->vcq.cq_ex.wr_id = le64toh(cqe->wr_id);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct rnic_cq *cq = to_rcq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;

	lock_cq(cq);
	ret = take_cqe(cq);
	if (ret) {
		return_cqes(cq);
		unlock_cq(cq);
	}
	return ret;
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
	return take_cqe(to_rcq_ex(ibcq));
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	struct rnic_cq *cq = to_rcq_ex(ibcq);

	return_cqes(cq);
	unlock_cq(cq);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ibcq)
{
	return wc_opcode(to_rcq_ex(ibcq)->current);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ibcq)
{
	return wc_vendor_err(to_rcq_ex(ibcq)->current);
}

static uint32_t read_byte_len(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_rcq_ex(ibcq)->current->byte_len);
}

static __be32 read_imm_data(struct ibv_cq_ex *ibcq)
{
	return wc_imm_data(to_rcq_ex(ibcq)->current);
}

static uint32_t read_qp_num(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_rcq_ex(ibcq)->current->qpn);
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ibcq)
{
	return wc_flags(to_rcq_ex(ibcq)->current);
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ibcq)
{
	const struct rnic_timed_cqe *timed =
		container_of(to_rcq_ex(ibcq)->current, struct rnic_timed_cqe,
			     cqe);

	return le64toh(timed->timestamp);
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ibcq)
{
	return rnic_wallclock(to_rctx(ibcq->context),
			      read_completion_ts(ibcq));
}

/* What only datagrams or InfiniBand have reads as zero, as in ibv_poll_cq. */

static uint32_t read_zero32(struct ibv_cq_ex *ibcq)
{
	return 0;
}

static uint8_t read_zero8(struct ibv_cq_ex *ibcq)
{
	return 0;
}

static void set_cq_ex_ops(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = read_zero32;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = read_zero32;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = read_zero8;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = read_zero8;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns =
			read_completion_wallclock_ns;
}

/* ----------------------------------------------- create and destroy */

/* An errno, or 0 and *new_ring, for cqe entries or more. */
static int alloc_ring(struct rnic_cq *cq, struct ibv_pd *pd, uint32_t cqe,
		      struct rnic_cq_ring **new_ring)
{
	size_t size = cq->timed ? sizeof(struct rnic_timed_cqe) :
				  sizeof(struct rnic_cqe);
	struct rnic_cq_ring *ring = calloc(1, sizeof(*ring));
	int ret;

	if (!ring)
		return ENOMEM;

	ring->depth = roundup_pow_of_two(cqe);
	if (ring->depth < RNIC_CQ_MIN_DEPTH)
		ring->depth = RNIC_CQ_MIN_DEPTH;

	ret = rnic_buf_alloc(&ring->buf, pd, RNIC_MEMORY_CQ,
			     RNIC_CQ_RING_OFFSET + ring->depth * size);
	if (ret) {
		free(ring);
		return ret;
	}

	ring->record = ring->buf.base;
	ring->stride_shift = __builtin_ctzl(size);
	ring->cqes = (uint8_t *)ring->buf.base + RNIC_CQ_RING_OFFSET +
		     (cq->timed ? offsetof(struct rnic_timed_cqe, cqe) : 0);
	*new_ring = ring;
	return 0;
}

static int create_in_kernel(struct ibv_context *context, struct rnic_cq *cq,
			    struct ibv_cq_init_attr_ex *attr)
{
	struct rnic_cmd_create_cq_resp resp = {};
	struct rnic_cmd_create_cq cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)cq->ring->buf.base,
			.buf_length = cq->ring->buf.length,
			.ring_offset = RNIC_CQ_RING_OFFSET,
			.depth = cq->ring->depth,
		},
	};
	int ret;

	ret = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp),
				   0);
	if (ret)
		return ret;

	cq->cqn = resp.drv_payload.cqn;
	cq->vcq.cq.cqe = cq->ring->depth;
	return 0;
}

static struct ibv_pd *parent_domain(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ?
	       attr->parent_domain : NULL;
}

static void free_cq(struct rnic_cq *cq)
{
	pthread_spin_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->resize_mutex);
	free(cq);
}

static struct rnic_cq *create_cq(struct ibv_context *context,
				 struct ibv_cq_init_attr_ex *attr)
{
	struct rnic_cq *cq;
	int ret;

	if (!attr->cqe || attr->cqe > to_rctx(context)->attr.max_cqe) {
		errno = EINVAL;
		return NULL;
	}

	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		errno = ENOMEM;
		return NULL;
	}

	cq->timed = attr->wc_flags & RNIC_WC_TIMED_FLAGS;
	pthread_mutex_init(&cq->resize_mutex, NULL);
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	ret = alloc_ring(cq, parent_domain(attr), attr->cqe, &cq->ring);
	if (ret)
		goto err_free;
	ret = create_in_kernel(context, cq, attr);
	if (ret)
		goto err_ring;
	return cq;

err_ring:
	free_rings(cq->ring);
err_free:
	free_cq(cq);
	errno = ret;
	return NULL;
}

struct ibv_cq *rnic_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel,
			      int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe > 0 ? cqe : 0,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct rnic_cq *cq = create_cq(context, &attr);

	return cq ? &cq->vcq.cq : NULL;
}

static int check_cq_attr_ex(struct rnic_context *ctx,
			    const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS |
			       IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			       IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	struct ibv_pd *pd = parent_domain(attr);

	if ((attr->comp_mask & ~known) ||
	    (attr->wc_flags & ~(IBV_WC_STANDARD_FLAGS | RNIC_WC_TIMED_FLAGS)))
		return EOPNOTSUPP;
	if ((attr->wc_flags & RNIC_WC_TIMED_FLAGS) &&
	    !rnic_has_feature(ctx, RNIC_FEATURE_TIMESTAMP))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~flags))
		return EOPNOTSUPP;
	return pd && !to_rpd(pd)->protection_domain ? EINVAL : 0;
}

struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr)
{
	struct rnic_cq *cq;
	int ret = check_cq_attr_ex(to_rctx(context), attr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	cq = create_cq(context, attr);
	if (!cq)
		return NULL;

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		cq->single_threaded =
			attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	set_cq_ex_ops(&cq->vcq.cq_ex, attr->wc_flags);
	return &cq->vcq.cq_ex;
}

int rnic_destroy_cq(struct ibv_cq *ibcq)
{
	struct rnic_cq *cq = to_rcq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;

	free_rings(cq->ring);
	free_cq(cq);
	return 0;
}

/* ------------------------------------------------ moderation, resize */

int rnic_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

static struct rnic_cq_ring *newest_ring(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring = cq->ring;

	while (ring->next)
		ring = ring->next;
	return ring;
}

/* CQEs not taken of rings that the device does not use any more. */
static uint32_t count_earlier(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring;
	uint32_t count = 0;

	lock_cq(cq);
	for (ring = cq->ring; ring->next; ring = ring->next)
		count += ring->end - ring->consumer;
	unlock_cq(cq);
	return count;
}

/* The device may use it from now on. */
static void add_ring(struct rnic_cq *cq, struct rnic_cq_ring *ring)
{
	lock_cq(cq);
	newest_ring(cq)->next = ring;
	unlock_cq(cq);
}

/* The one before ring, unless there is none any more. */
static struct rnic_cq_ring *ring_before(struct rnic_cq *cq,
					const struct rnic_cq_ring *ring)
{
	struct rnic_cq_ring *before = cq->ring;

	while (before && before->next != ring)
		before = before->next;
	return before;
}

/* The device uses ring, and left the one before at end. */
static void end_before(struct rnic_cq *cq, const struct rnic_cq_ring *ring,
		       uint32_t end)
{
	struct rnic_cq_ring *before;

	lock_cq(cq);
	before = ring_before(cq, ring);
	if (before) {
		before->end = end;
		before->ended = true;
		/* Where overruns are ignored, the rest has been overwritten. */
		if (end - before->consumer > before->depth)
			before->consumer = end - before->depth;
	}
	unlock_cq(cq);
}

/* The next ring has a CQE, so the device has stored all of this one. */
static void end_where_complete(struct rnic_cq_ring *ring)
{
	uint32_t end = ring->consumer;

	while (end - ring->consumer < ring->depth && valid_cqe(ring, end))
		end++;
	ring->end = end;
	ring->ended = true;
}

/*
 * The kernel says that the ring is not used. It may be all the same, if the answer
 * of the device got lost: then it stays, and false is returned.
 */
static bool remove_ring(struct rnic_cq *cq, struct rnic_cq_ring *ring)
{
	struct rnic_cq_ring *before;
	bool used;

	lock_cq(cq);
	before = ring_before(cq, ring);
	used = !before || valid_cqe(ring, 0);
	if (!used)
		before->next = NULL;
	else if (before)
		end_where_complete(before);
	unlock_cq(cq);
	return !used;
}

static int resize_in_kernel(struct rnic_cq *cq, struct rnic_cq_ring *ring,
			    int cqe)
{
	struct rnic_cmd_resize_cq_resp resp = {};
	struct rnic_cmd_resize_cq cmd = {
		.drv_payload = {
			.buf_addr = (uintptr_t)ring->buf.base,
			.buf_length = ring->buf.length,
			.ring_offset = RNIC_CQ_RING_OFFSET,
			.depth = ring->depth,
			.earlier = count_earlier(cq),
		},
	};
	int ret;

	add_ring(cq, ring);
	ret = ibv_cmd_resize_cq(&cq->vcq.cq, cqe, &cmd.ibv_cmd, sizeof(cmd),
				&resp.ibv_resp, sizeof(resp));
	if (!ret)
		end_before(cq, ring, resp.drv_payload.end);
	else if (!remove_ring(cq, ring))
		ret = 0;
	return ret;
}

/* Where the memory until now is from, the new comes from. */
static struct ibv_pd *memory_domain(struct rnic_cq *cq)
{
	struct ibv_pd *pd;

	lock_cq(cq);
	pd = cq->ring->buf.parent ? &cq->ring->buf.parent->pd : NULL;
	unlock_cq(cq);
	return pd;
}

/*
 * The device goes on in a new ring while others poll. What the one until now has
 * when the device leaves it is still to be taken, however long it takes; a ring
 * goes when it is empty.
 */
int rnic_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct rnic_context *ctx = to_rctx(ibcq->context);
	struct rnic_cq *cq = to_rcq(ibcq);
	struct rnic_cq_ring *ring;
	int ret;

	if (!rnic_has_feature(ctx, RNIC_FEATURE_RESIZE_CQ))
		return EOPNOTSUPP;
	if (cqe < 1 || (uint32_t)cqe > ctx->attr.max_cqe)
		return EINVAL;

	pthread_mutex_lock(&cq->resize_mutex);
	ret = alloc_ring(cq, memory_domain(cq), cqe, &ring);
	if (!ret) {
		ret = resize_in_kernel(cq, ring, cqe);
		if (ret)
			free_rings(ring);
	}
	pthread_mutex_unlock(&cq->resize_mutex);
	return ret;
}

/* ------------------------------------------------- the end of a QP */

void rnic_lock_cqs(struct ibv_qp *ibqp)
{
	struct rnic_cq *a = to_rcq(ibqp->send_cq);
	struct rnic_cq *b = to_rcq(ibqp->recv_cq);
	struct rnic_cq *first = a < b ? a : b;
	struct rnic_cq *second = a < b ? b : a;

	/* A ring that is being added would be missed. */
	pthread_mutex_lock(&first->resize_mutex);
	if (a != b)
		pthread_mutex_lock(&second->resize_mutex);
	lock_cq(first);
	if (a != b)
		lock_cq(second);
}

void rnic_unlock_cqs(struct ibv_qp *ibqp)
{
	struct rnic_cq *a = to_rcq(ibqp->send_cq);
	struct rnic_cq *b = to_rcq(ibqp->recv_cq);

	unlock_cq(a);
	pthread_mutex_unlock(&a->resize_mutex);
	if (a == b)
		return;
	unlock_cq(b);
	pthread_mutex_unlock(&b->resize_mutex);
}

static void forget_in_ring(struct rnic_cq_ring *ring, uint32_t qpn,
			   struct ibv_srq *srq)
{
	uint32_t count = ring->next ? ring->end - ring->consumer : ring->depth;
	struct rnic_cqe *cqe;
	uint32_t i;

	for (i = 0; i < count; i++) {
		cqe = valid_cqe(ring, ring->consumer + i);
		if (!cqe)
			break;
		if (le32toh(cqe->qpn) != qpn)
			continue;
		cqe->qpn = 0;	/* no QP has this number */
		if (srq && (cqe->flags & RNIC_CQE_RECEIVE))
			free_srq_entry(srq);
	}
}

/* What is forgotten and next to be polled has its places back at once. */
static void drop_forgotten(struct rnic_cq *cq)
{
	struct rnic_cq_ring *ring = oldest_ring(cq);
	const struct rnic_cqe *cqe;
	uint32_t passed = 0;

	while (passed++ < ring->depth &&
	       (cqe = valid_cqe(ring, ring->consumer)) && !cqe->qpn) {
		ring->consumer++;
		ring = next_ring(cq, ring, &passed);
	}
	return_cqes(cq);
}

static void forget_in(struct rnic_cq *cq, uint32_t qpn, struct ibv_srq *srq)
{
	struct rnic_cq_ring *ring;

	for (ring = cq->ring; ring; ring = ring->next)
		forget_in_ring(ring, qpn, srq);
	drop_forgotten(cq);
}

/*
 * Makes polling drop the completions of a QP that are not polled yet: its
 * number may soon be another's. With the locks of both CQs held, and no more
 * completions of the QP to come.
 */
void rnic_forget_completions(struct ibv_qp *ibqp)
{
	uint32_t qpn = to_rqp(ibqp)->sq.number;

	forget_in(to_rcq(ibqp->send_cq), qpn, ibqp->srq);
	if (ibqp->recv_cq != ibqp->send_cq)
		forget_in(to_rcq(ibqp->recv_cq), qpn, ibqp->srq);
}
