/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The rdma-core provider of the rnic device: what its files share.
 *
 *	rnic.c		device, context
 *	rnic_pd.c	protection, thread and parent domains
 *	rnic_clock.c	the device's clock
 *	rnic_queue.c	queue memory, producer indices and doorbells
 *	rnic_cq.c	completion queues
 *	rnic_qp.c	queue pairs
 *	rnic_srq.c	shared receive queues
 *	rnic_post.c	building and posting work requests
 *	rnic_wr.c	the ibv_wr_* way of posting
 *	rnic_mr.c	memory regions and windows
 *
 * Locks, in the order of taking: rnic_context.qp_table_mutex, then
 * rnic_cq.resize_mutex, then rnic_cq.lock (of two CQs, the one at the lower
 * address first).
 * rnic_wq.lock is never taken with another lock held, but for those of an SQ and
 * then its RQ when both are resized.
 */
#ifndef RNIC_H
#define RNIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/driver.h>
#include <infiniband/kern-abi.h>

#include "rnic-abi.h"
#include "rnic-hw.h"

/* The driver's structs are only ever used as a whole, through drv_payload. */
#define _STRUCT_rnic_uresp_alloc_ucontext	struct {}
#define _STRUCT_rnic_ureq_create_cq		struct {}
#define _STRUCT_rnic_uresp_create_cq		struct {}
#define _STRUCT_rnic_ureq_resize_cq		struct {}
#define _STRUCT_rnic_uresp_resize_cq		struct {}
#define _STRUCT_rnic_ureq_create_srq		struct {}
#define _STRUCT_rnic_uresp_create_srq		struct {}
#define _STRUCT_rnic_ureq_modify_srq		struct {}
#define _STRUCT_rnic_ureq_modify_qp		struct {}
#define _STRUCT_rnic_ureq_create_qp		struct {}
#define _STRUCT_rnic_uresp_create_qp		struct {}

DECLARE_DRV_CMD(rnic_cmd_alloc_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		empty, rnic_uresp_alloc_ucontext);
DECLARE_DRV_CMD(rnic_cmd_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		rnic_ureq_create_cq, rnic_uresp_create_cq);
DECLARE_DRV_CMD(rnic_cmd_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		rnic_ureq_resize_cq, rnic_uresp_resize_cq);
DECLARE_DRV_CMD(rnic_cmd_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ,
		rnic_ureq_create_srq, rnic_uresp_create_srq);
DECLARE_DRV_CMD(rnic_cmd_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		rnic_ureq_modify_srq, empty);
DECLARE_DRV_CMD(rnic_cmd_modify_qp, IB_USER_VERBS_CMD_MODIFY_QP,
		rnic_ureq_modify_qp, empty);
DECLARE_DRV_CMD(rnic_cmd_create_qp, IB_USER_VERBS_CMD_CREATE_QP,
		rnic_ureq_create_qp, rnic_uresp_create_qp);

#define RNIC_QP_TABLE_BITS	12
#define RNIC_QP_TABLE_SIZE	(1 << RNIC_QP_TABLE_BITS)

struct rnic_device {
	struct verbs_device vdev;
};

struct rnic_qp;
struct rnic_qp_place;

struct rnic_context {
	struct verbs_context vctx;
	struct rnic_uresp_alloc_ucontext attr;	/* features and limits */
	void *db_map;
	void *db;		/* RNIC_DB_* registers, in db_map */
	const struct rnic_state_page *state;	/* a mapping, or the kernel has none */
	_Atomic(int64_t) wallclock_offset;	/* see rnic_clock.c */
	_Atomic(uint64_t) wallclock_checked;

	/*
	 * QPs by number: high half, then low half. Entries change under the
	 * mutex; removing one also takes the locks of the QP's CQs, so that what
	 * rnic_find_qp() returns stays as long as its caller holds the lock of the
	 * CQ. Leaves stay until the context goes.
	 */
	pthread_mutex_t qp_table_mutex;
	struct rnic_qp_place *qp_table[RNIC_QP_TABLE_SIZE];
};

struct rnic_td;

/* A protection domain, or a parent domain. */
struct rnic_pd {
	struct ibv_pd pd;
	_Atomic(unsigned int) users;	/* parent domains, or memory of queues */
	/* A parent domain's only: */
	struct rnic_pd *protection_domain;
	struct rnic_td *td;		/* NULL: none */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr,
		     uint64_t resource_type);
	void *pd_context;
};

/* What a parent domain's alloc is told. */
enum rnic_memory {
	RNIC_MEMORY_QP,
	RNIC_MEMORY_SRQ,
	RNIC_MEMORY_CQ,
};

/* Memory that the device reads and writes; starts out as zero. */
struct rnic_buf {
	void *base;
	size_t length;
	struct rnic_pd *parent;		/* domain of which it is; NULL: none */
	bool of_program;		/* the alloc of parent gave it */
	enum rnic_memory resource;
};

/* A send queue, in RNIC_SQ_UNIT, or a receive queue, in WQEs. */
struct rnic_wq {
	pthread_spinlock_t lock;	/* ring and producer */
	bool single_threaded;		/* of a thread domain: no lock needed */
	void *ring;
	uint32_t depth;			/* a power of two; may be 0 */
	uint32_t stride_shift;
	uint32_t max_sge;
	uint32_t producer;
	_Atomic(uint32_t) consumer;	/* stored by those who poll the CQ */

	__le32 *producer_record;
	const __le32 *event_record;
	void *doorbell;
	uint32_t number;		/* what the doorbell is told */
};

struct rnic_srq {
	struct verbs_srq vsrq;
	struct rnic_buf buf;
	struct rnic_wq wq;
};

/* Where CQEs are. A CQ that was resized may have several, see rnic_resize_cq(). */
struct rnic_cq_ring {
	struct rnic_buf buf;
	uint8_t *cqes;			/* struct rnic_cqe of the first entry */
	uint32_t stride_shift;
	struct rnic_cq_record *record;
	uint32_t depth;
	uint32_t consumer;
	uint32_t returned;		/* the consumer index in the record */
	bool ended;
	uint32_t end;			/* if so: behind its last CQE */
	struct rnic_cq_ring *next;	/* newer, or NULL */
};

struct rnic_cq {
	struct verbs_cq vcq;
	uint32_t cqn;
	pthread_mutex_t resize_mutex;	/* to add a ring */
	pthread_spinlock_t lock;	/* all below */
	bool single_threaded;		/* the application needs no lock */
	bool timed;			/* entries are struct rnic_timed_cqe */
	struct rnic_cq_ring *ring;	/* oldest: the next CQE is there */
	struct rnic_cq_ring *used_up;	/* rings to be freed without the lock */
	const struct rnic_cqe *current;	/* ibv_start_poll to ibv_end_poll */
};

struct rnic_qp {
	struct verbs_qp vqp;
	struct rnic_buf buf;
	struct rnic_wq sq;
	struct rnic_wq rq;		/* depth 0 with an S-RQ */
	struct ibv_qp_cap cap;
	bool sq_sig_all;

	/* Under sq.lock: the WQE being built, at next - its units. */
	uint32_t next;
	struct rnic_sq_wqe *wqe;
	int wr_err;			/* ibv_wr_start to ibv_wr_complete */
};

static inline struct rnic_context *to_rctx(struct ibv_context *context)
{
	return container_of(context, struct rnic_context, vctx.context);
}

static inline struct rnic_pd *to_rpd(struct ibv_pd *pd)
{
	return container_of(pd, struct rnic_pd, pd);
}

static inline struct rnic_cq *to_rcq(struct ibv_cq *cq)
{
	return container_of(cq, struct rnic_cq, vcq.cq);
}

static inline struct rnic_cq *to_rcq_ex(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct rnic_cq, vcq.cq_ex);
}

static inline struct rnic_qp *to_rqp(struct ibv_qp *qp)
{
	return container_of(qp, struct rnic_qp, vqp.qp);
}

static inline struct rnic_qp *to_rqp_ex(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct rnic_qp, vqp.qp_ex);
}

static inline struct rnic_srq *to_rsrq(struct ibv_srq *srq)
{
	return container_of(srq, struct rnic_srq, vsrq.srq);
}

static inline bool rnic_has_feature(struct rnic_context *ctx, uint64_t feature)
{
	return (ctx->attr.features & feature) == feature;
}

/*
 * 0, or the errno of posting to a device that has failed or gone: it would never
 * complete. Of what was posted before, the kernel's DEVICE_FATAL event tells.
 */
static inline int rnic_check_device(const struct rnic_context *ctx)
{
	return *(const volatile uint32_t *)&ctx->state->failed ? EIO : 0;
}

/* rnic_pd.c */
struct ibv_pd *rnic_alloc_pd(struct ibv_context *context);
int rnic_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_pd *rnic_import_pd(struct ibv_context *context, uint32_t handle);
void rnic_unimport_pd(struct ibv_pd *ibpd);
struct ibv_td *rnic_alloc_td(struct ibv_context *context,
			     struct ibv_td_init_attr *attr);
int rnic_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *rnic_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);

/* rnic_queue.c */
/* pd: whose allocator is asked, if it is a parent domain that has one; or NULL. */
int rnic_buf_alloc(struct rnic_buf *buf, struct ibv_pd *pd,
		   enum rnic_memory resource, size_t length);
void rnic_buf_free(struct rnic_buf *buf);
bool rnic_wq_has_room(struct rnic_wq *wq, uint32_t new_producer);
void rnic_wq_publish(struct rnic_wq *wq, uint32_t new_producer);
int rnic_size_receive_queue(struct rnic_context *ctx, struct rnic_wq *wq,
			    uint32_t max_wr, uint32_t max_sge,
			    uint32_t max_depth);

static inline void rnic_wq_lock(struct rnic_wq *wq)
{
	if (!wq->single_threaded)
		pthread_spin_lock(&wq->lock);
}

static inline void rnic_wq_unlock(struct rnic_wq *wq)
{
	if (!wq->single_threaded)
		pthread_spin_unlock(&wq->lock);
}

/*
 * What wq has posted and not seen completed, to the ring of next; false if it does not
 * fit. With wq->lock held.
 */
bool rnic_wq_copy_posted(struct rnic_wq *wq, struct rnic_wq *next);
/* The ring of next, of the same WQEs, is wq's now. With wq->lock held. */
void rnic_wq_change_ring(struct rnic_wq *wq, const struct rnic_wq *next);

static inline void *rnic_wq_entry(struct rnic_wq *wq, uint32_t index)
{
	return (uint8_t *)wq->ring +
	       ((size_t)(index & (wq->depth - 1)) << wq->stride_shift);
}

/* rnic_clock.c */
uint64_t rnic_read_clock(struct rnic_context *ctx);
/* Nanoseconds of the system's real time when the device's clock was that. */
uint64_t rnic_wallclock(struct rnic_context *ctx, uint64_t timestamp);
int rnic_query_rt_values(struct ibv_context *context,
			 struct ibv_values_ex *values);

/* rnic_cq.c */
int rnic_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
struct ibv_cq *rnic_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel,
			      int comp_vector);
struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr);
int rnic_resize_cq(struct ibv_cq *ibcq, int cqe);
int rnic_destroy_cq(struct ibv_cq *ibcq);
int rnic_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
int rnic_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void rnic_lock_cqs(struct ibv_qp *ibqp);
void rnic_unlock_cqs(struct ibv_qp *ibqp);
void rnic_forget_completions(struct ibv_qp *ibqp);

/* rnic_qp.c */
struct ibv_qp *rnic_create_qp(struct ibv_pd *pd,
			      struct ibv_qp_init_attr *attr);
struct ibv_qp *rnic_create_qp_ex(struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr);
int rnic_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask);
int rnic_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int rnic_destroy_qp(struct ibv_qp *ibqp);
/*
 * The QP of that number, if it uses cq for its receives, or for what it sends; with the
 * lock of cq held.
 */
struct rnic_qp *rnic_find_qp(const struct ibv_cq *cq, uint32_t qpn,
			     bool receive);

/* rnic_srq.c */
struct ibv_srq *rnic_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr);
struct ibv_srq *rnic_create_srq_ex(struct ibv_context *context,
				   struct ibv_srq_init_attr_ex *attr);
int rnic_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number);
int rnic_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		    int attr_mask);
int rnic_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int rnic_destroy_srq(struct ibv_srq *ibsrq);

/* rnic_post.c */
int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr);
int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr);
int rnic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr);
/* 0, or the errno of posting to the QP now. */
int rnic_check_post(const struct ibv_qp *ibqp);
uint64_t rnic_send_ops(struct rnic_context *ctx);

/* It is always Valid, and no region or window: V7.2.1-12. */
static inline bool rnic_is_stag_zero(uint32_t stag)
{
	return !(stag >> 8);
}

/* Building the next WQE of qp->sq; all with qp->sq.lock held. */
int rnic_wqe_begin(struct rnic_qp *qp, enum ibv_wr_opcode opcode,
		   uint64_t wr_id, unsigned int send_flags);
void rnic_wqe_remote(struct rnic_qp *qp, uint32_t rkey, uint64_t remote_addr);
void rnic_wqe_invalidate(struct rnic_qp *qp, uint32_t rkey);
void rnic_wqe_immediate(struct rnic_qp *qp, __be32 imm_data);
void rnic_wqe_atomic(struct rnic_qp *qp, uint64_t compare_add, uint64_t swap);
bool rnic_wqe_may_inline(const struct rnic_qp *qp);
/* Whether a WR names a window and a region at all. */
bool rnic_may_bind(uint32_t rkey, const struct ibv_mw_bind_info *info);
void rnic_wqe_bind(struct rnic_qp *qp, uint32_t rkey,
		   const struct ibv_mw_bind_info *info);
int rnic_wqe_sges(struct rnic_qp *qp, const struct ibv_sge *sg_list,
		  size_t num_sge);
int rnic_wqe_inline(struct rnic_qp *qp, const struct ibv_data_buf *bufs,
		    size_t num_bufs);

/* rnic_wr.c */
void rnic_set_wr_ops(struct rnic_qp *qp);

/* rnic_mr.c */
struct ibv_mr *rnic_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t hca_va, int access);
struct ibv_mr *rnic_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access);
int rnic_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		  void *addr, size_t length, int access);
int rnic_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *rnic_import_mr(struct ibv_pd *pd, uint32_t handle);
void rnic_unimport_mr(struct ibv_mr *ibmr);
struct ibv_mw *rnic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rnic_dealloc_mw(struct ibv_mw *ibmw);
int rnic_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw,
		 struct ibv_mw_bind *bind);

#endif /* RNIC_H */
