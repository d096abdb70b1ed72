// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: queue pairs that stay in ERR for so long that a driver may ask itself
 * whether the adapter has forgotten them. One has nothing left to flush: its last Send
 * was not signaled, and has succeeded. Two have a CQ each without room for what is
 * flushed, of receives and of Sends that are not signaled: that is their user's mistake,
 * which costs nobody else the adapter, and their work requests end all the same.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "connect.h"
#include "lingering.h"

#define DEPTH		32
#define LINGER_MS	20000
#define STEP_MS		100

/* A QP whose CQ is too small. */
struct small {
	struct ib_cq *cq;
	struct ib_qp *qp;
	int flushed;
};

static struct {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];	/* the first one sends, on cq */
	struct small receiver, sender;
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
		.sq_sig_type = IB_SIGNAL_REQ_WR,
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

static int post_more_receives_than_fit(void)
{
	struct ib_qp *qp = lingering.receiver.qp;
	struct ib_recv_wr receive = {};
	int i, ret;

	ret = move(qp, IB_QPS_INIT);
	for (i = 0; i < DEPTH && !ret; i++)
		ret = ib_post_recv(qp, &receive, NULL);
	return ret ?: move(qp, IB_QPS_ERR);
}

/* In ERR, as the marker of a drain: these, too, come back. */
static int post_more_sends_than_fit(void)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_qp *qp = lingering.sender.qp;
	int i, ret;

	ret = move(qp, IB_QPS_INIT) ?: move(qp, IB_QPS_ERR);
	for (i = 0; i < DEPTH && !ret; i++)
		ret = ib_post_send(qp, &send, NULL);
	return ret;
}

static int poll_small(struct small *small)
{
	struct ib_wc wc;

	while (ib_poll_cq(small->cq, 1, &wc) == 1) {
		if (wc.status != IB_WC_WR_FLUSH_ERR)
			return wrong("a work request is not flushed");
		small->flushed++;
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
		ret = poll_small(&lingering.receiver) ?:
		      poll_small(&lingering.sender);
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
	if (lingering.receiver.flushed != DEPTH)
		return wrong("not all receives of a small CQ are flushed");
	return lingering.sender.flushed == DEPTH ? 0 :
	       wrong("not all Sends of a small CQ are flushed");
}

static void free_qp(struct ib_qp *qp)
{
	if (!IS_ERR_OR_NULL(qp))
		ib_destroy_qp(qp);
}

static void free_cq(struct ib_cq *cq)
{
	if (!IS_ERR_OR_NULL(cq))
		ib_destroy_cq(cq);
}

static void free_small(struct small *small)
{
	free_qp(small->qp);
	free_cq(small->cq);
}

static void free_all(void)
{
	free_small(&lingering.receiver);
	free_small(&lingering.sender);
	free_qp(lingering.qp[0]);
	free_qp(lingering.qp[1]);
	free_cq(lingering.cq);
	ib_dealloc_pd(lingering.pd);
}

static int make_small(struct ib_device *dev, struct small *small)
{
	struct ib_cq_init_attr init = { .cqe = 2 };

	small->cq = ib_create_cq(dev, NULL, NULL, NULL, &init);
	if (IS_ERR(small->cq))
		return PTR_ERR(small->cq);
	if (small->cq->cqe >= DEPTH)
		return wrong("a small CQ is not small");
	small->qp = make_qp(small->cq);
	return PTR_ERR_OR_ZERO(small->qp);
}

static int make_all(struct ib_device *dev)
{
	struct ib_cq_init_attr large = { .cqe = 4 * DEPTH };

	lingering.cq = ib_create_cq(dev, NULL, NULL, NULL, &large);
	if (IS_ERR(lingering.cq))
		return PTR_ERR(lingering.cq);
	lingering.qp[0] = make_qp(lingering.cq);
	lingering.qp[1] = make_qp(lingering.cq);
	return PTR_ERR_OR_ZERO(lingering.qp[0]) ?:
	       PTR_ERR_OR_ZERO(lingering.qp[1]) ?:
	       make_small(dev, &lingering.receiver) ?:
	       make_small(dev, &lingering.sender);
}

int check_lingering(struct ib_device *dev)
{
	int ret;

	lingering.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(lingering.pd))
		return PTR_ERR(lingering.pd);
	ret = make_all(dev) ?: send_without_a_signal() ?:
	      post_more_receives_than_fit() ?: post_more_sends_than_fit() ?:
	      linger() ?: check_in_service();
	free_all();
	return ret;
}
