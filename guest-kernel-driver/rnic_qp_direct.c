// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: queue pairs that a program moves by hand, with the peer's GID, QP number
 * and PSN. The two devices find each other (programming manual, Direct connect).
 * To the device the QP is in Idle until it has a stream, and again when its
 * peer has gone: RTR and RTS are remembered here.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_verbs.h"

/* What rdma_cm and iw_cm never set: a program moves the QP by itself. */
#define RNIC_BY_HAND	(IB_QP_AV | IB_QP_DEST_QPN | IB_QP_PATH_MTU | \
			 IB_QP_RQ_PSN | IB_QP_MIN_RNR_TIMER)

bool rnic_qp_moves_directly(const struct rnic_qp *qp,
			    const struct ib_qp_attr *attr, int mask)
{
	if (!(mask & IB_QP_STATE))
		return false;
	if (attr->qp_state == IB_QPS_RTR)
		return mask & RNIC_BY_HAND;
	return attr->qp_state == IB_QPS_RTS && qp->direct;
}

static int rnic_qp_direct_connect(struct rnic_qp *qp,
				  const struct ib_qp_attr *attr)
{
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);
	const struct rdma_ah_attr *ah = &attr->ah_attr;
	struct rnic_direct_params params = {
		.qpn = qp->qpn,
		.peer_qpn = attr->dest_qp_num,
		.rq_psn = attr->rq_psn,
		.ird = attr->max_dest_rd_atomic,
		.ord = dev->limits.max_ord,
		.min_rnr_timer = attr->min_rnr_timer,
	};

	/* The GIDs are the addresses of the two interfaces. */
	if (!(rdma_ah_get_ah_flags(ah) & IB_AH_GRH) || !ah->grh.sgid_attr)
		return -EINVAL;
	params.local = &ah->grh.sgid_attr->gid;
	params.remote = &ah->grh.dgid;
	return rnic_cmd_direct_connect(dev, &params);
}

static int rnic_qp_direct_send(struct rnic_qp *qp,
			       const struct ib_qp_attr *attr)
{
	struct ib_qp_attr all = qp->set;

	/* From RTS to RTS only some are given. */
	if (qp->idle_state == IB_QPS_RTR)
		all = *attr;
	return rnic_cmd_direct_send(to_rnic_dev(qp->ibqp.device), qp->qpn, &all);
}

static int rnic_qp_direct_move(struct rnic_qp *qp,
			       const struct ib_qp_attr *attr)
{
	return attr->qp_state == IB_QPS_RTR ? rnic_qp_direct_connect(qp, attr) :
					      rnic_qp_direct_send(qp, attr);
}

/* The peer may be there at once, so its rights come first. */
static int rnic_qp_direct_move_with(struct rnic_qp *qp,
				    const struct ib_qp_attr *attr, int access)
{
	struct rnic_qp_info before;
	int ret;

	ret = rnic_cmd_query_qp(to_rnic_dev(qp->ibqp.device), qp->qpn, &before);
	if (!ret)
		ret = rnic_qp_set_access(qp, access);
	if (ret)
		return ret;
	ret = rnic_qp_direct_move(qp, attr);
	if (ret)
		rnic_qp_set_enables(qp, before.enables);
	return ret;
}

int rnic_qp_move_directly(struct rnic_qp *qp, const struct ib_qp_attr *attr,
			  int mask)
{
	int ret;

	if (!ib_modify_qp_is_ok(qp->idle_state, attr->qp_state, IB_QPT_RC,
				mask))
		return -EINVAL;
	if (!rnic_has(to_rnic_dev(qp->ibqp.device),
		      RNIC_FEATURE_DIRECT_CONNECT))
		return -EOPNOTSUPP;
	if (mask & IB_QP_ACCESS_FLAGS)
		ret = rnic_qp_direct_move_with(qp, attr, attr->qp_access_flags);
	else if (attr->qp_state == IB_QPS_RTR)
		ret = rnic_qp_direct_move_with(qp, attr,
					       qp->set.qp_access_flags);
	else
		ret = rnic_qp_direct_move(qp, attr);
	if (ret)
		return ret;
	qp->direct = true;
	WRITE_ONCE(qp->idle_state, attr->qp_state);
	return 0;
}
