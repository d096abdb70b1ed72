// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what "rdma resource show -dd" tells of objects beyond what the core knows:
 * the device's numbers, sizes and states. The core holds the object meanwhile; its
 * caller may sleep.
 */

#include <net/netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_compat.h"
#include "rnic_verbs.h"

/* Adds what fill puts as the driver's part of the message, all or nothing. */
static int rnic_res_nest(struct sk_buff *msg, const void *object,
			 int (*fill)(struct sk_buff *msg, const void *object))
{
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!nest)
		return -EMSGSIZE;
	if (fill(msg, object)) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

/* ------------------------------------------------------------------ QP */

struct rnic_res_qp {
	const struct rnic_qp *qp;
	struct rnic_qp_info info;
};

static const char *rnic_res_qp_state(u8 state)
{
	static const char * const names[] = {
		[RNIC_QPS_IDLE] = "idle",
		[RNIC_QPS_RTS] = "rts",
		[RNIC_QPS_CLOSING] = "closing",
		[RNIC_QPS_TERMINATE] = "terminate",
		[RNIC_QPS_ERROR] = "error",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "unknown";
}

static int rnic_res_fill_stream(struct sk_buff *msg,
				const struct rnic_qp_info *info)
{
	return rdma_nl_put_driver_u32(msg, "mpa_revision",
				      info->mpa_revision) ||
	       rdma_nl_put_driver_u32(msg, "mpa_crc",
				      !!(info->mpa_flags & RNIC_MPA_CRC)) ||
	       rdma_nl_put_driver_u64(msg, "bytes_sent",
				      info->counts[RNIC_QP_TX_OCTETS]) ||
	       rdma_nl_put_driver_u64(msg, "bytes_received",
				      info->counts[RNIC_QP_RX_OCTETS]);
}

static int rnic_res_fill_qp(struct sk_buff *msg, const void *object)
{
	const struct rnic_res_qp *res = object;
	const struct rnic_qp_info *info = &res->info;

	return rdma_nl_put_driver_string(msg, "state",
					 rnic_res_qp_state(info->state)) ||
	       rdma_nl_put_driver_u32(msg, "direct", res->qp->direct) ||
	       rdma_nl_put_driver_u32(msg, "ird", info->ird) ||
	       rdma_nl_put_driver_u32(msg, "ord", info->ord) ||
	       rdma_nl_put_driver_u32(msg, "sq_units", info->sq_depth) ||
	       rdma_nl_put_driver_u32(msg, "sq_consumer", info->sq_consumer) ||
	       rdma_nl_put_driver_u32(msg, "rq_depth", info->rq_depth) ||
	       rdma_nl_put_driver_u32(msg, "rq_consumer", info->rq_consumer) ||
	       rnic_res_fill_stream(msg, info);
}

int rnic_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct rnic_res_qp res = { .qp = to_rnic_qp(ibqp) };
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);

	/* A device that does not answer has nothing to tell. */
	if (rnic_cmd_query_qp(dev, res.qp->qpn, &res.info))
		return 0;
	return rnic_res_nest(msg, &res, rnic_res_fill_qp);
}

/* ------------------------------------------------------------- the others */

static int rnic_res_fill_cq(struct sk_buff *msg, const void *object)
{
	const struct rnic_cq *cq = object;

	return rdma_nl_put_driver_u32(msg, "cqn", cq->cqn) ||
	       rdma_nl_put_driver_u32(msg, "depth", READ_ONCE(cq->depth));
}

int rnic_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	return rnic_res_nest(msg, to_rnic_cq(ibcq), rnic_res_fill_cq);
}

struct rnic_res_mr {
	const struct rnic_mr *mr;
	bool known;			/* info is */
	struct rnic_mr_info info;
};

/* IB_ACCESS_* of the device's RNIC_ACCESS_*, which see rnic_access_rights(). */
static u32 rnic_res_mr_access(u32 access)
{
	static const struct {
		u32 rnic, ib;
	} rights[] = {
		{ RNIC_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE },
		{ RNIC_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_WRITE },
		{ RNIC_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_READ },
		{ RNIC_ACCESS_REMOTE_ATOMIC, IB_ACCESS_REMOTE_ATOMIC },
		{ RNIC_ACCESS_MW_BIND, IB_ACCESS_MW_BIND },
		{ RNIC_ACCESS_ZERO_BASED, IB_ZERO_BASED },
	};
	u32 ib = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(rights); i++)
		if (access & rights[i].rnic)
			ib |= rights[i].ib;
	return ib;
}

static int rnic_res_fill_mr_info(struct sk_buff *msg,
				 const struct rnic_mr_info *info)
{
	return rdma_nl_put_driver_string(msg, "state", info->valid ?
					 "valid" : "invalid") ||
	       rdma_nl_put_driver_u32_hex(msg, "access",
					  rnic_res_mr_access(info->access)) ||
	       rdma_nl_put_driver_u32(msg, "pages", info->page_count) ||
	       rdma_nl_put_driver_u32(msg, "bound_windows",
				      info->bound_windows);
}

/* Not the key: the core tells keys to CAP_NET_ADMIN alone. */
static int rnic_res_fill_mr(struct sk_buff *msg, const void *object)
{
	const struct rnic_res_mr *res = object;
	const struct rnic_mr *mr = res->mr;

	return rdma_nl_put_driver_u32(msg, "stag_index",
				      rnic_stag_index(mr->ibmr.lkey)) ||
	       rdma_nl_put_driver_u32(msg, "max_pages", mr->max_pages) ||
	       (res->known && rnic_res_fill_mr_info(msg, &res->info));
}

int rnic_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct rnic_res_mr res = { .mr = to_rnic_mr(ibmr) };

	/* STag zero is no region of the device; one that has gone is another's. */
	res.known = ibmr->lkey && !res.mr->gone &&
		    !rnic_cmd_query_mr(to_rnic_dev(ibmr->device), ibmr->lkey,
				       &res.info);
	return rnic_res_nest(msg, &res, rnic_res_fill_mr);
}

#ifdef RNIC_HAVE_FILL_RES_SRQ
struct rnic_res_srq {
	const struct rnic_srq *srq;
	bool known;			/* info is */
	struct rnic_srq_info info;
};

static int rnic_res_fill_srq_info(struct sk_buff *msg,
				  const struct rnic_srq_info *info)
{
	return rdma_nl_put_driver_string(msg, "state", info->failed ?
					 "error" : "ready") ||
	       rdma_nl_put_driver_u32(msg, "limit", info->limit) ||
	       rdma_nl_put_driver_u32(msg, "limit_armed", info->limit_armed);
}

static int rnic_res_fill_srq(struct sk_buff *msg, const void *object)
{
	const struct rnic_res_srq *res = object;
	const struct rnic_srq *srq = res->srq;

	return rdma_nl_put_driver_u32(msg, "srqn", srq->srqn) ||
	       rdma_nl_put_driver_u32(msg, "depth",
				      READ_ONCE(srq->wq.depth)) ||
	       (res->known && rnic_res_fill_srq_info(msg, &res->info));
}

int rnic_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct rnic_res_srq res = { .srq = to_rnic_srq(ibsrq) };

	res.known = !rnic_cmd_query_srq(to_rnic_dev(ibsrq->device),
					res.srq->srqn, &res.info);
	return rnic_res_nest(msg, &res, rnic_res_fill_srq);
}
#endif
