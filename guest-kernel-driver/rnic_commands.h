/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: one function per admin command, in the driver's own types.  No
 * other file builds an admin SQE or reads an admin CQE, but rnic_admin_log.c for
 * its notes.
 *
 * All return 0 or a negative errno and may sleep.  Those that take something
 * away succeed on a device that has failed: its reset has taken everything.
 */
#ifndef RNIC_COMMANDS_H
#define RNIC_COMMANDS_H

#include <linux/types.h>

#include "rnic-hw.h"

struct rnic_dev;

struct rnic_eq_params {
	u8 eq_class;			/* enum rnic_eq_class */
	u32 vector;
	u32 depth;
	struct rnic_queue_memory memory;
};

struct rnic_cq_params {
	u32 flags;			/* RNIC_CQ_* */
	u32 depth;
	u32 eqn;
	u32 doorbell_page;
	struct rnic_queue_memory memory;
};

struct rnic_cq_resize {
	u32 cqn;
	u32 depth;
	u32 earlier;
	struct rnic_queue_memory memory;
};

struct rnic_srq_params {
	u32 pdn;
	u32 depth;
	u32 limit;
	u32 doorbell_page;
	u8 wqe_shift;
	u8 max_sge;
	struct rnic_queue_memory memory;
};

struct rnic_qp_params {
	u32 pdn;
	u32 send_cqn;
	u32 recv_cqn;
	u32 srqn;			/* 0: none */
	u32 sq_depth;			/* units */
	u32 rq_depth;			/* WQEs */
	u32 doorbell_page;
	u16 ird;
	u16 ord;
	u8 rq_wqe_shift;
	u8 max_send_sge;
	u8 max_write_sge;
	u8 max_recv_sge;
	u32 enables;			/* RNIC_QP_* */
	struct rnic_queue_memory memory;
};

/* Only what mask names is looked at. */
struct rnic_qp_change {
	u32 mask;			/* RNIC_QP_MODIFY_* */
	u8 state;			/* enum rnic_qp_state */
	u16 ird;
	u16 ord;
	u32 enables;
	u32 sq_depth;
	u32 rq_depth;
	struct rnic_queue_memory memory;	/* with a depth */
};

/* Of struct rnic_counters, the first ones: those that a QP has of its own. */
enum rnic_qp_count {
	RNIC_QP_SQ_WRS,
	RNIC_QP_RQ_WRS,
	RNIC_QP_CQES,
	RNIC_QP_CQE_ERRORS,
	RNIC_QP_TX_FPDUS,
	RNIC_QP_TX_OCTETS,
	RNIC_QP_RX_FPDUS,
	RNIC_QP_RX_OCTETS,
	RNIC_NUM_QP_COUNTS
};

struct rnic_qp_info {
	u8 state;			/* enum rnic_qp_state */
	u16 ird;
	u16 ord;
	u32 enables;
	u32 sq_depth;			/* units */
	u32 rq_depth;
	u32 sq_consumer;
	u32 rq_consumer;
	u8 mpa_revision;		/* of the last stream */
	u8 mpa_flags;			/* RNIC_MPA_* */
	/* Since the QP was created; with ABI 1.2, the octets only. */
	u64 counts[RNIC_NUM_QP_COUNTS];
};

struct rnic_mr_info {
	bool valid;
	u32 access;			/* RNIC_ACCESS_* */
	u32 page_count;
	u32 bound_windows;
};

struct rnic_srq_info {
	u32 limit;
	bool limit_armed;
	bool failed;
};

struct rnic_mr_params {
	u32 pdn;
	u32 access;			/* RNIC_ACCESS_* */
	u8 key;
	u64 va;
	u64 length;
	u64 first_byte_offset;
	struct rnic_page_list pages;
};

struct rnic_connect_params {
	u64 cookie;
	u32 qpn;
	u16 ird;
	u16 ord;
	struct rnic_cm_addr local;
	struct rnic_cm_addr remote;
	u8 tos;
	const void *private_data;
	u16 private_data_length;
};

struct rnic_direct_params {
	u32 qpn;
	u32 peer_qpn;
	u32 rq_psn;
	u16 ird;
	u16 ord;
	u8 min_rnr_timer;
	const union ib_gid *local;
	const union ib_gid *remote;
};

struct rnic_accept_params {
	u64 cookie;
	u32 endpoint;
	u32 qpn;
	u16 ird;
	u16 ord;
	const void *private_data;
	u16 private_data_length;
};

struct rnic_eth_params {
	u32 queue;			/* RNIC_ETH_QUEUE_* */
	u32 vector;
	u32 depth;
	struct rnic_queue_memory memory;
};

/* Fills dev->limits. */
int rnic_cmd_query_device(struct rnic_dev *dev);
int rnic_cmd_query_counters(struct rnic_dev *dev,
			    struct rnic_counters *counters);

int rnic_cmd_create_eq(struct rnic_dev *dev, const struct rnic_eq_params *p,
		       u32 *eqn);
int rnic_cmd_destroy_eq(struct rnic_dev *dev, u32 eqn);

int rnic_cmd_alloc_pd(struct rnic_dev *dev, u32 *pdn);
int rnic_cmd_dealloc_pd(struct rnic_dev *dev, u32 pdn);

int rnic_cmd_create_cq(struct rnic_dev *dev, const struct rnic_cq_params *p,
		       u32 *cqn);
/* *end: where the ring before ends. After an error the CQ is as it was. */
int rnic_cmd_resize_cq(struct rnic_dev *dev, const struct rnic_cq_resize *p,
		       u32 *end);
/* count: CQEs of one event at most; period: in microseconds. */
int rnic_cmd_moderate_cq(struct rnic_dev *dev, u32 cqn, u16 count, u16 period);
int rnic_cmd_destroy_cq(struct rnic_dev *dev, u32 cqn);

int rnic_cmd_create_srq(struct rnic_dev *dev,
			const struct rnic_srq_params *p, u32 *srqn);
int rnic_cmd_query_srq(struct rnic_dev *dev, u32 srqn,
		       struct rnic_srq_info *info);
/* Arms it, too, unless it is zero. */
int rnic_cmd_set_srq_limit(struct rnic_dev *dev, u32 srqn, u32 limit);
int rnic_cmd_resize_srq(struct rnic_dev *dev, u32 srqn, u32 depth,
			const struct rnic_queue_memory *memory);
int rnic_cmd_destroy_srq(struct rnic_dev *dev, u32 srqn);

int rnic_cmd_create_qp(struct rnic_dev *dev, const struct rnic_qp_params *p,
		       u32 *qpn);
int rnic_cmd_query_qp(struct rnic_dev *dev, u32 qpn, struct rnic_qp_info *info);
int rnic_cmd_modify_qp(struct rnic_dev *dev, u32 qpn,
		       const struct rnic_qp_change *change);
int rnic_cmd_destroy_qp(struct rnic_dev *dev, u32 qpn);

int rnic_cmd_alloc_stag(struct rnic_dev *dev, u32 pdn, u32 max_pages, u8 key,
			u32 *stag);
int rnic_cmd_register_mr(struct rnic_dev *dev, const struct rnic_mr_params *p,
			 u32 *stag);
/*
 * change: RNIC_REREGISTER_*; only what it names is looked at, and the key.
 * *stag is the region's, and then its new one. With -EBUSY, windows are bound
 * to the region and it is as before; after any other error it is gone.
 */
int rnic_cmd_reregister_mr(struct rnic_dev *dev, u32 change,
			   const struct rnic_mr_params *p, u32 *stag);
int rnic_cmd_query_mr(struct rnic_dev *dev, u32 stag,
		      struct rnic_mr_info *info);
/* of_pd: of type 1, that every QP of the PD binds and is served by. */
int rnic_cmd_alloc_mw(struct rnic_dev *dev, u32 pdn, bool of_pd, u8 key,
		      u32 *stag);
int rnic_cmd_dealloc_stag(struct rnic_dev *dev, u32 stag);

int rnic_cmd_cm_listen(struct rnic_dev *dev, u64 cookie,
		       const struct rnic_cm_addr *local, u32 backlog, u8 tos,
		       u32 *listener);
int rnic_cmd_cm_unlisten(struct rnic_dev *dev, u32 listener);
int rnic_cmd_cm_connect(struct rnic_dev *dev,
			const struct rnic_connect_params *p);
int rnic_cmd_cm_accept(struct rnic_dev *dev,
		       const struct rnic_accept_params *p);
int rnic_cmd_cm_reject(struct rnic_dev *dev, u32 endpoint,
		       const void *private_data, u16 length);

int rnic_cmd_direct_connect(struct rnic_dev *dev,
			    const struct rnic_direct_params *p);
/* Takes from attr what has to do with sending. */
int rnic_cmd_direct_send(struct rnic_dev *dev, u32 qpn,
			 const struct ib_qp_attr *attr);

int rnic_cmd_create_eth_queue(struct rnic_dev *dev,
			      const struct rnic_eth_params *p);
int rnic_cmd_destroy_eth_queue(struct rnic_dev *dev, u32 queue);
/* macs: count times 6 octets. */
int rnic_cmd_set_rx_mode(struct rnic_dev *dev, u32 mode, const u8 *macs,
			 unsigned int count);

#endif /* RNIC_COMMANDS_H */
