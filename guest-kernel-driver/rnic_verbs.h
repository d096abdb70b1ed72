/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the verbs objects and operations.
 */
#ifndef RNIC_VERBS_H
#define RNIC_VERBS_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "rnic.h"
#include "rnic_posted.h"
#include "rnic_queue_memory.h"

struct iw_cm_id;
struct rdma_cm_id;
struct uapi_definition;

#define RNIC_KERNEL_DOORBELL_PAGE	0

#define RNIC_MIN_SQ_DEPTH	8
#define RNIC_MIN_RQ_DEPTH	1

struct rnic_ucontext {
	struct ib_ucontext ibucontext;
	struct rdma_user_mmap_entry *doorbell_entry;
	struct rdma_user_mmap_entry *state_entry;
	struct rnic_state_page *state;	/* that entry's */
	struct list_head entry_of_dev;	/* of ucontexts, with state_lock */
	u32 doorbell_page;
};

struct rnic_pd {
	struct ib_pd ibpd;
	u32 pdn;
	/* Memory windows: those that exist, and all that ever were made. */
	atomic_t windows;
	atomic_t windows_made;
	atomic_t has_kernel_qps;	/* or has had some */
};

/* What a PD's windows were before a command that windows may refuse. */
struct rnic_windows_before {
	int made;
	bool any;
};

struct rnic_mr {
	struct ib_mr ibmr;
	/* A process's memory: */
	struct ib_umem *umem;
	int access;			/* IB_ACCESS_* */
	u64 iova;			/* of its first octet */
	bool gone;			/* a failed rereg_mr has taken it away */
	/* For Fast-Register, while the device reads it: */
	__le64 *pages;
	dma_addr_t pages_dma;
	u32 max_pages;
	u32 num_pages;
};

struct rnic_mw {
	struct ib_mw ibmw;
};

struct rnic_cq {
	struct ib_cq ibcq;
	struct rnic_ref ref;
	u32 cqn;
	u32 flags;			/* RNIC_CQ_* */
	struct mutex resize_lock;	/* what changes depth and queue */
	u32 depth;
	struct rnic_queue queue;
	/* The kernel's only. */
	atomic_t callers;		/* of its handler; see rnic_cq.c */
	bool armed;			/* and no event since */
	bool armed_solicited;		/* for solicited events only */
	spinlock_t lock;		/* all of these */
	const struct rnic_queue_page *ring; /* NULL: not the kernel's */
	u32 ring_offset;	/* where it begins in these pages */
	u32 consumer;
	bool waits;			/* a CQE did, at the last check ... */
	u32 waits_at;			/* ... and consumer was that */
	bool has_failed;		/* the device stores nothing any more */
	struct list_head send_qps;	/* rnic_qp.send_entry */
	struct list_head recv_qps;	/* rnic_qp.recv_entry */
};

struct rnic_srq {
	struct ib_srq ibsrq;
	struct rnic_ref ref;
	u32 srqn;
	struct mutex resize_lock;	/* what changes queue and wq.depth */
	struct rnic_queue queue;
	struct rnic_wq wq;
};

enum rnic_cm_state {
	RNIC_CM_NONE,
	RNIC_CM_CONNECTING,
	RNIC_CM_ACCEPTING,
	RNIC_CM_CONNECTED,
	RNIC_CM_PEER_CLOSED,		/* connected, and iw_cm knows of the FIN */
};

/* The connection of a QP, see rnic_cm.c. */
struct rnic_connection {
	/* Held over an iw_cm event, so that events come in order. */
	struct mutex lock;
	bool ends;			/* its QP does, see rnic_qp_end() */
	enum rnic_cm_state state;
	struct iw_cm_id *cm_id;		/* referenced, unless NONE */
	u64 cookie;			/* what the device's events must say */
	unsigned long since;		/* jiffies: its beginning */
	unsigned int streamless;	/* looks in a row, see rnic_cm_check() */
	/* See rnic_cm_queue.c. */
	struct work_struct work;
	struct list_head events;
	unsigned int num_events;
	spinlock_t events_lock;		/* of the list */
};

/* What rnic_flush_check.c saw of a QP. */
struct rnic_flush_look {
	u32 sq_consumer;
	u32 rq_consumer;
	unsigned int still;		/* looks since anything moved */
};

struct rnic_qp {
	struct ib_qp ibqp;
	struct rnic_ref ref;
	u32 qpn;
	struct rnic_queue queue;
	struct ib_qp_cap cap;
	u32 enables;			/* RNIC_QP_* that never change */
	u8 rq_wqe_shift;
	/* Serializes modify_qp, and protects set and, but from posts, idle_state. */
	struct mutex modify_lock;
	enum ib_qp_state idle_state;	/* which of those that are Idle */
	bool direct;			/* see rnic_qp_direct.c; with modify_lock */
	bool gone;			/* from the device; with modify_lock */
	bool idle_again;		/* by its user's will, since it connected */
	struct ib_qp_attr set;		/* by modify_qp, see rnic_qp_query.c */
	struct rnic_connection connection;
	bool end_seen;			/* of its stream; a hint, without a lock */
	/* While it is bound to a counter; with dev->counter_lock. */
	struct list_head counted_entry;
	u64 counted[RNIC_NUM_QP_COUNTS];	/* already added to it */
	bool uncounted;			/* it ends: no counter may have it any more */
	/* The kernel's only. */
	struct rnic_wq sq;
	struct rnic_wq rq;
	struct list_head send_entry;	/* of its CQs, with their locks */
	struct list_head recv_entry;
	bool flushes;			/* it is in ERR, or soon */
	bool abandoned;			/* in ERR, and a CQ of it has failed */
	struct rnic_flush_look flush_look;
};

static inline struct rnic_ucontext *to_rnic_ucontext(struct ib_ucontext *ibuc)
{
	return container_of(ibuc, struct rnic_ucontext, ibucontext);
}

static inline struct rnic_pd *to_rnic_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct rnic_pd, ibpd);
}

static inline struct rnic_windows_before
rnic_pd_note_windows(struct ib_pd *ibpd)
{
	struct rnic_pd *pd = to_rnic_pd(ibpd);
	struct rnic_windows_before before = {
		.made = atomic_read(&pd->windows_made),
	};

	/* Pairs with smp_wmb() in rnic_alloc_mw(): a window is in one of the two. */
	smp_rmb();
	before.any = atomic_read(&pd->windows);
	return before;
}

/*
 * Whether the PD has had a window at any time since then. Another thread of the
 * process may have deallocated it before the answer is looked at.
 */
static inline bool
rnic_pd_has_had_windows(struct ib_pd *ibpd,
			const struct rnic_windows_before *before)
{
	return before->any ||
	       atomic_read(&to_rnic_pd(ibpd)->windows_made) != before->made;
}

static inline struct rnic_mr *to_rnic_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rnic_mr, ibmr);
}

static inline struct rnic_cq *to_rnic_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rnic_cq, ibcq);
}

static inline struct rnic_qp *to_rnic_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct rnic_qp, ibqp);
}

static inline struct rnic_srq *to_rnic_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct rnic_srq, ibsrq);
}

/* The doorbell page of whoever calls: a process, or with NULL the kernel. */
u32 rnic_doorbell_page(struct ib_udata *udata);

/* rnic_device.c */
int rnic_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
		      struct ib_udata *udata);
int rnic_query_port(struct ib_device *ibdev, u32 port,
		    struct ib_port_attr *attr);
int rnic_get_port_immutable(struct ib_device *ibdev, u32 port,
			    struct ib_port_immutable *immutable);
void rnic_get_dev_fw_str(struct ib_device *ibdev, char *str);
extern const struct attribute_group rnic_device_group;

/* rnic_restrack.c */
int rnic_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int rnic_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int rnic_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int rnic_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);

/* rnic_restrack_cm.c */
int rnic_fill_res_cm_id_entry(struct sk_buff *msg, struct rdma_cm_id *id);

/* rnic_gid.c */
int rnic_query_gid(struct ib_device *ibdev, u32 port, int index,
		   union ib_gid *gid);

/* rnic_counters.c */
struct rdma_hw_stats *rnic_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port);
int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index);

/* rnic_qp_counters.c */
#ifdef RNIC_HAVE_COUNTER_INIT
struct rnic_counter {
	struct rdma_counter counter;	/* and nothing else */
};
#endif

void rnic_qp_counters_init(struct rnic_dev *dev);
/* All counters, with dev->counter_lock held. */
void rnic_qp_counters_update(struct rnic_dev *dev);
/* A QP that ends leaves its counter, and gets no other. Sleeps. */
void rnic_qp_set_uncounted(struct rnic_qp *qp, bool uncounted);
void rnic_counter_init(struct rdma_counter *counter);
#ifdef RNIC_HAVE_COUNTER_BIND_PORT
int rnic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			 u32 port);
int rnic_counter_unbind_qp(struct ib_qp *ibqp, u32 port);
#else
int rnic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp);
int rnic_counter_unbind_qp(struct ib_qp *ibqp);
#endif
int rnic_counter_update_stats(struct rdma_counter *counter);
int rnic_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *rnic_counter_alloc_stats(struct rdma_counter *counter);

/* rnic_ucontext.c */
/* Counts the doorbell pages that there are for processes. */
void rnic_doorbells_init(struct rnic_dev *dev);
int rnic_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata);
void rnic_dealloc_ucontext(struct ib_ucontext *ibuc);
int rnic_query_ucontext(struct ib_ucontext *ibuc,
			struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition rnic_uapi_definitions[];
void rnic_disassociate_ucontext(struct ib_ucontext *ibuc);
int rnic_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma);
void rnic_mmap_free(struct rdma_user_mmap_entry *entry);

/* rnic_pd.c */
/*
 * Before the kernel makes a QP of the PD: from then until the PD goes the driver counts
 * a user. ib_srpt, for one, keeps a PD without QPs for as long as the device is there.
 */
void rnic_pd_note_kernel_qp(struct ib_pd *ibpd);
int rnic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int rnic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* The part of an STag that is not the key. */
static inline u32 rnic_stag_index(u32 stag)
{
	return stag >> 8;
}

/* rnic_mr.c */
u8 rnic_access_rights(const struct rnic_dev *dev, int ib_access);
void rnic_mr_set_stag(struct rnic_mr *mr, u32 stag);
struct ib_mr *rnic_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rnic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_pages);
int rnic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		   unsigned int *offset);
int rnic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* rnic_user_mr.c */
struct ib_mr *rnic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access, RNIC_DMAH_PARAMETER
			       struct ib_udata *udata);
struct ib_mr *rnic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 virt_addr, int fd,
				      int access, RNIC_DMAH_PARAMETER
				      struct RNIC_DMABUF_UDATA *udata);
struct ib_mr *rnic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 virt_addr, int access,
				 struct ib_pd *ibpd, struct ib_udata *udata);

/* rnic_mw.c */
int rnic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int rnic_dealloc_mw(struct ib_mw *ibmw);

/* rnic_cq.c */
int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct RNIC_CQ_UDATA *udata);
int rnic_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct RNIC_CQ_UDATA *udata);
int rnic_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int rnic_resize_cq(struct ib_cq *ibcq, RNIC_CQE_COUNT cqe,
		   struct ib_udata *udata);
int rnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
/* With a reference, or NULL. */
struct rnic_cq *rnic_cq_get(struct rnic_dev *dev, u32 cqn);
/* Tells its user, and drops the caller's reference. Any context. */
void rnic_cq_completion_event(struct rnic_cq *cq);
/*
 * Calls the handler of a kernel's CQ of that number, if there is one: what is posted
 * there is flushed. Any context.
 */
void rnic_cq_flush_event(struct rnic_dev *dev, u32 cqn);
/* The handler of a kernel's CQ whose last QP has gone is not called any more. */
void rnic_cq_await_callers(struct rnic_cq *cq);
/*
 * Now and then: notifies the CQs of the kernel whose event the device owes for so
 * long that it must be lost.
 */
void rnic_cqs_check(struct rnic_dev *dev);

/* rnic_qp.c */
int rnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata);
int rnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
/* With a reference, or NULL. */
struct rnic_qp *rnic_qp_get(struct rnic_dev *dev, u32 qpn);
/* Nothing that was posted is outstanding any more, or will complete. */
void rnic_qp_forget_posted(struct rnic_qp *qp);

/* rnic_qp_resize.c, with modify_lock held: new memory that a process gives. */
int rnic_qp_resize(struct rnic_qp *qp, struct ib_udata *udata);

/* rnic_srq.c */
int rnic_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata);
int rnic_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int rnic_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rnic_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
/* With a reference, or NULL. */
struct rnic_srq *rnic_srq_get(struct rnic_dev *dev, u32 srqn);

/* rnic_qp_modify.c */
int rnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
/*
 * Puts a QP that is in Idle since its connection has ended in Error; one that is not, or
 * is gone, stays as it is. Takes modify_lock. Sleeps.
 */
void rnic_qp_leave_idle(struct rnic_qp *qp);
/* Whether it is in Idle or Error. */
bool rnic_qp_has_no_stream(struct rnic_qp *qp);
/*
 * Puts a QP in Error, from every state, unless it is gone; a device that refuses is taken
 * out of service. Takes modify_lock. Sleeps.
 */
void rnic_qp_give_up(struct rnic_qp *qp);

/*
 * With modify_lock held: the rights of peers, as IB_ACCESS_REMOTE_*, where others do
 * not count, or as the device has them.
 */
int rnic_qp_set_access(struct rnic_qp *qp, int access);
int rnic_qp_set_enables(struct rnic_qp *qp, u32 enables);

/*
 * rnic_qp_direct.c, with modify_lock held: whether a program asks for a state that
 * only a direct connect has, and the move to that state.
 */
bool rnic_qp_moves_directly(const struct rnic_qp *qp,
			    const struct ib_qp_attr *attr, int mask);
int rnic_qp_move_directly(struct rnic_qp *qp, const struct ib_qp_attr *attr,
			  int mask);

/* rnic_qp_query.c; all but the operation with modify_lock held */
int rnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr);
/* Takes note of what mask names, for query_qp. */
void rnic_qp_remember(struct rnic_qp *qp, const struct ib_qp_attr *attr,
		      int mask);
void rnic_qp_forget_attributes(struct rnic_qp *qp);

/* rnic_post.c, rnic_poll.c: the kernel's own use of queues */
int rnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int rnic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
int rnic_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
/* The smallest stride of a receive queue that has room for max_sge. */
u8 rnic_receive_wqe_shift(u32 max_sge);
int rnic_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);
int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/*
 * The kernel's QPs of a CQ are those whose work requests it flushes when the
 * device has failed.
 */
void rnic_cqs_add_qp(struct rnic_qp *qp);
void rnic_cqs_remove_qp(struct rnic_qp *qp);
bool rnic_cq_has_qps(const struct rnic_cq *cq);

/* Whether a CQE has been waiting since the last such question. */
bool rnic_cq_waits(struct rnic_cq *cq);
/*
 * Whether a CQE of that QP's work queue of that tag waits there to be polled. Looks at all
 * that waits.
 */
bool rnic_cq_holds_any_of(struct rnic_cq *cq, u32 qpn, u32 tag);

/* The S-RQ of a QP, if it has one, has back what completed and was not polled. */
void rnic_cq_forget_receives(struct rnic_qp *qp);

#endif /* RNIC_VERBS_H */
