// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: queue pairs that stay in ERR for so long that a driver may ask itself
 * whether the adapter has forgotten them. One has nothing left to flush: its last Send
 * was not signaled, and has succeeded. One has a CQ without room for what is flushed:
 * that is its user's mistake, which costs nobody else the adapter, and its work requests
 * end all the same.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "connect.h"
#include "lingering.h"

#define DEPTH		32
#define LINGER_MS	20000
#define STEP_MS		100

static struct {
	struct ib_pd *pd;
	struct ib_cq *cq, *small_cq;
	struct ib_qp *qp[2];	/* the first one sends, on cq */
	struct ib_qp *small_qp;	/* on small_cq */
	int flushed;		/* of small_qp */
} lingering;

static int wrong(const char *what)
{
	pr_err("lingering: %s\n", what);
	return -EIO;
}

static struct ib_qp *make_qp(struct ib_cq *cq)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(lingering.pd, &init);
}

static int move(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state, .port_num = 1 };
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
	return ib_modify_qp(qp, &attr, mask);
}

/* Until the Send's receive has completed, which is the only completion. */
static int send_without_a_signal(void)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_recv_wr receive = {};
	unsigned int waited;
	struct ib_wc wc;
	int ret;

	ret = connect_by_hand(lingering.qp[0], lingering.qp[1]) ?:
	      ib_post_recv(lingering.qp[1], &receive, NULL) ?:
	      ib_post_send(lingering.qp[0], &send, NULL);
	if (ret)
		return ret;
	for (waited = 0; !ib_poll_cq(lingering.cq, 1, &wc); waited += STEP_MS) {
		if (waited > LINGER_MS)
			return wrong("the Send does not arrive");
		msleep(STEP_MS);
	}
	if (wc.qp != lingering.qp[1] || wc.status != IB_WC_SUCCESS)
		return wrong("another completion than the receive's");
	return move(lingering.qp[0], IB_QPS_ERR);
}

static int post_more_than_fits(void)
{
	struct ib_recv_wr receive = {};
	int i, ret;

	if (lingering.small_cq->cqe >= DEPTH)
		return wrong("the small CQ is not small");
	ret = move(lingering.small_qp, IB_QPS_INIT);
	for (i = 0; i < DEPTH && !ret; i++)
		ret = ib_post_recv(lingering.small_qp, &receive, NULL);
	return ret ?: move(lingering.small_qp, IB_QPS_ERR);
}

static int poll_small_cq(void)
{
	struct ib_wc wc;

	while (ib_poll_cq(lingering.small_cq, 1, &wc) == 1) {
		if (wc.status != IB_WC_WR_FLUSH_ERR)
			return wrong("a receive is not flushed");
		lingering.flushed++;
	}
	return 0;
}

static int linger(void)
{
	unsigned int waited;
	int ret = 0;

	/* Longer than a CQ's event takes: it has overflowed. */
	msleep(1000);
	for (waited = 0; waited < LINGER_MS && !ret; waited += STEP_MS) {
		ret = poll_small_cq();
		msleep(STEP_MS);
	}
	return ret;
}

static int check_in_service(void)
{
	struct ib_pd *pd = ib_alloc_pd(lingering.pd->device, 0);

	if (IS_ERR(pd))
		return wrong("the adapter is out of service");
	ib_dealloc_pd(pd);
	return lingering.flushed == DEPTH ? 0 :
	       wrong("not all receives of the small CQ are flushed");
}

static void free_all(void)
{
	struct ib_qp *qps[] = {
		lingering.qp[0], lingering.qp[1], lingering.small_qp,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(qps); i++)
		if (!IS_ERR_OR_NULL(qps[i]))
			ib_destroy_qp(qps[i]);
	if (!IS_ERR_OR_NULL(lingering.small_cq))
		ib_destroy_cq(lingering.small_cq);
	if (!IS_ERR_OR_NULL(lingering.cq))
		ib_destroy_cq(lingering.cq);
	ib_dealloc_pd(lingering.pd);
}

static int make_all(struct ib_device *dev)
{
	struct ib_cq_init_attr large = { .cqe = 4 * DEPTH };
	struct ib_cq_init_attr small = { .cqe = 2 };

	lingering.cq = ib_create_cq(dev, NULL, NULL, NULL, &large);
	if (IS_ERR(lingering.cq))
		return PTR_ERR(lingering.cq);
	lingering.small_cq = ib_create_cq(dev, NULL, NULL, NULL, &small);
	if (IS_ERR(lingering.small_cq))
		return PTR_ERR(lingering.small_cq);
	lingering.qp[0] = make_qp(lingering.cq);
	lingering.qp[1] = make_qp(lingering.cq);
	lingering.small_qp = make_qp(lingering.small_cq);
	return PTR_ERR_OR_ZERO(lingering.qp[0]) ?:
	       PTR_ERR_OR_ZERO(lingering.qp[1]) ?:
	       PTR_ERR_OR_ZERO(lingering.small_qp);
}

int check_lingering(struct ib_device *dev)
{
	int ret;

	lingering.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(lingering.pd))
		return PTR_ERR(lingering.pd);
	ret = make_all(dev) ?: send_without_a_signal() ?:
	      post_more_than_fits() ?: linger() ?: check_in_service();
	free_all();
	return ret;
}
