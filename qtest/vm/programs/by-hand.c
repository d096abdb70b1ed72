// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * QPs that a program connects by hand: the adapter, and the moves.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define PORT	1	/* of the adapter */

static void find_gid(struct by_hand *h)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (h->gid_index = 0;
	     !ibv_query_gid(h->context, PORT, h->gid_index, &h->gid);
	     h->gid_index++)
		if (!memcmp(h->gid.raw, mapped, sizeof(mapped)))
			return;
	fail("the adapter has no IPv4 address");
}

void by_hand_open(struct by_hand *h, const char *adapter)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int i;

	h->context = NULL;
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), adapter))
			h->context = ibv_open_device(list[i]);
	if (!h->context)
		fail("there is no adapter %s that can be opened", adapter);
	ibv_free_device_list(list);
	h->pd = ibv_alloc_pd(h->context);
	if (!h->pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	find_gid(h);
}

void by_hand_close(struct by_hand *h)
{
	if (ibv_dealloc_pd(h->pd) || ibv_close_device(h->context))
		fail("closing the adapter: %s", strerror(errno));
}

struct ibv_qp *by_hand_qp(struct by_hand *h, struct ibv_cq *cq,
			  unsigned int depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(h->pd, &init);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void move(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int ret = ibv_modify_qp(qp, attr, IBV_QP_STATE | mask);

	if (ret)
		fail("QP %u to state %d: %s", qp->qp_num, attr->qp_state,
		     strerror(ret));
}

void by_hand_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = access,
	};

	move(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void by_hand_rtr(struct by_hand *h, struct ibv_qp *qp, uint32_t peer_qpn,
		 uint32_t rq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {
				.dgid = h->gid,
				.sgid_index = h->gid_index,
				.hop_limit = 1,
			},
		},
		.dest_qp_num = peer_qpn,
		.rq_psn = rq_psn,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = h->reads ? h->reads : 1,
	};

	move(qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void by_hand_rts(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn)
{
	by_hand_rts_with(h, qp, sq_psn, 7);
}

void by_hand_rts_with(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn,
		      uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.max_rd_atomic = h->reads ? h->reads : 1,
		.timeout = 20,
		.retry_cnt = 7,
		.rnr_retry = rnr_retry,
	};

	move(qp, &attr, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}
