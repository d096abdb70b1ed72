// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: connects two QPs of one adapter by hand, by the first GID that is an
 * IPv4 address. May sleep.
 */

#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "connect.h"

#define PORT	1

static int find_gid(struct ib_device *dev, union ib_gid *gid)
{
	int i;

	for (i = 0; !rdma_query_gid(dev, PORT, i, gid); i++)
		if (ipv6_addr_v4mapped((struct in6_addr *)gid))
			return i;
	return -EADDRNOTAVAIL;
}

static int to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE |
				   IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_ATOMIC,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ib_qp *qp, struct ib_qp *peer)
{
	union ib_gid gid;
	int index = find_gid(qp->device, &gid);
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
	};

	if (index < 0)
		return index;
	attr.ah_attr.type = rdma_ah_find_type(qp->device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, &gid, 0, index, 1, 0);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV |
			    IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			    IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.timeout = 20,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
			    IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
}

int connect_by_hand(struct ib_qp *a, struct ib_qp *b)
{
	return to_init(a) ?: to_init(b) ?: to_rtr(a, b) ?: to_rtr(b, a) ?:
	       to_rts(a) ?: to_rts(b);
}
