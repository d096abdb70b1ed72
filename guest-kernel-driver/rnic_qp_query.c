// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what a queue pair tells about itself: the device's part as the device
 * has it, the rest as modify_qp set it. Most of the latter means nothing to
 * iWARP, but programs read back what they wrote.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_verbs.h"

#define RNIC_REMOTE_RIGHTS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

static void rnic_qp_remember_path(struct ib_qp_attr *set,
				  const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_PATH_MTU)
		set->path_mtu = attr->path_mtu;
	if (mask & IB_QP_DEST_QPN)
		set->dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_PATH_MIG_STATE)
		set->path_mig_state = attr->path_mig_state;
	if (mask & IB_QP_AV) {
		set->ah_attr = attr->ah_attr;
		/* That reference is the caller's. */
		set->ah_attr.grh.sgid_attr = NULL;
	}
}

static void rnic_qp_remember_patience(struct ib_qp_attr *set,
				      const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_TIMEOUT)
		set->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		set->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		set->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_MIN_RNR_TIMER)
		set->min_rnr_timer = attr->min_rnr_timer;
}

void rnic_qp_remember(struct rnic_qp *qp, const struct ib_qp_attr *attr,
		      int mask)
{
	struct ib_qp_attr *set = &qp->set;

	if (mask & IB_QP_ACCESS_FLAGS)
		set->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		set->pkey_index = attr->pkey_index;
	if (mask & IB_QP_SQ_PSN)
		set->sq_psn = attr->sq_psn;
	if (mask & IB_QP_RQ_PSN)
		set->rq_psn = attr->rq_psn;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		set->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		set->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	rnic_qp_remember_path(set, attr, mask);
	rnic_qp_remember_patience(set, attr, mask);
}

void rnic_qp_forget_attributes(struct rnic_qp *qp)
{
	memset(&qp->set, 0, sizeof(qp->set));
	qp->set.port_num = 1;
}

static enum ib_qp_state rnic_qp_ib_state(const struct rnic_qp *qp, u8 state)
{
	switch (state) {
	case RNIC_QPS_IDLE:
		return qp->idle_state;
	case RNIC_QPS_RTS:
		return qp->direct ? qp->idle_state : IB_QPS_RTS;
	case RNIC_QPS_CLOSING:
		return IB_QPS_SQD;
	case RNIC_QPS_TERMINATE:
		return IB_QPS_SQE;
	default:
		return IB_QPS_ERR;
	}
}

/* Those that the device has. */
static int rnic_remote_rights(const struct rnic_qp *qp)
{
	if (rnic_has(to_rnic_dev(qp->ibqp.device), RNIC_FEATURE_RDMAP_EXTENSIONS))
		return RNIC_REMOTE_RIGHTS | IB_ACCESS_REMOTE_ATOMIC;
	return RNIC_REMOTE_RIGHTS;
}

/* What a peer may do is what the device lets it, see rnic_qp_modify.c. */
static int rnic_qp_ib_access(const struct rnic_qp *qp, u32 enables)
{
	int access = qp->set.qp_access_flags & ~rnic_remote_rights(qp);

	if (enables & RNIC_QP_ENABLE_READ)
		access |= IB_ACCESS_REMOTE_READ;
	if (enables & RNIC_QP_ENABLE_WRITE)
		access |= IB_ACCESS_REMOTE_WRITE;
	if (enables & RNIC_QP_ENABLE_ATOMIC)
		access |= IB_ACCESS_REMOTE_ATOMIC;
	return access;
}

static void rnic_qp_fill_attr(const struct rnic_qp *qp,
			      const struct rnic_qp_info *info,
			      struct ib_qp_attr *attr)
{
	struct net_device *netdev = to_rnic_dev(qp->ibqp.device)->netdev;

	*attr = qp->set;
	attr->qp_state = rnic_qp_ib_state(qp, info->state);
	attr->cur_qp_state = attr->qp_state;
	attr->qp_access_flags = rnic_qp_ib_access(qp, info->enables);
	if (!qp->direct) {
		attr->max_rd_atomic = info->ord;
		attr->max_dest_rd_atomic = info->ird;
	}
	if (!attr->path_mtu)
		attr->path_mtu = ib_mtu_int_to_enum(READ_ONCE(netdev->mtu));
	attr->cap = qp->cap;
}

static void rnic_qp_fill_init_attr(const struct rnic_qp *qp,
				   struct ib_qp_init_attr *attr)
{
	const struct ib_qp *ibqp = &qp->ibqp;

	memset(attr, 0, sizeof(*attr));
	attr->qp_type = ibqp->qp_type;
	attr->qp_context = ibqp->qp_context;
	attr->event_handler = ibqp->event_handler;
	attr->send_cq = ibqp->send_cq;
	attr->recv_cq = ibqp->recv_cq;
	attr->srq = ibqp->srq;
	attr->cap = qp->cap;
	attr->sq_sig_type = qp->enables & RNIC_QP_SIGNAL_ALL ?
			    IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
}

int rnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr)
{
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	struct rnic_qp_info info;
	int ret;

	mutex_lock(&qp->modify_lock);
	ret = rnic_cmd_query_qp(to_rnic_dev(ibqp->device), qp->qpn, &info);
	if (ret && rnic_failed(to_rnic_dev(ibqp->device))) {
		info = (struct rnic_qp_info){ .state = RNIC_QPS_ERROR };
		ret = 0;
	}
	if (!ret) {
		rnic_qp_fill_attr(qp, &info, attr);
		rnic_qp_fill_init_attr(qp, init_attr);
	}
	mutex_unlock(&qp->modify_lock);
	return ret;
}
