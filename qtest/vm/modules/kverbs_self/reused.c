// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: a queue pair whose number another one had. What is left of the earlier
 * one on the CQ is no completion of the later one.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "connect.h"
#include "reused.h"
#include "reused_events.h"

#define DEPTH		8
#define LEFT		3	/* completions that an earlier QP leaves */
#define TIME_LIMIT	(60 * HZ)
#define FIRST_WR_ID	100

static struct {
	struct ib_pd *pd;
	struct ib_cq *send_cq, *recv_cq;
	struct ib_qp *qp[2];	/* the first one sends */
	u32 numbers[2];		/* of the earlier pair */
} reused;

static int wrong(const char *what)
{
	pr_err("reused: %s\n", what);
	return -EIO;
}

static struct ib_qp *make_qp(void)
{
	struct ib_qp_init_attr init = {
		.send_cq = reused.send_cq,
		.recv_cq = reused.recv_cq,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(reused.pd, &init);
}

static void destroy_pair(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (!IS_ERR_OR_NULL(reused.qp[i]))
			ib_destroy_qp(reused.qp[i]);
		reused.qp[i] = NULL;
	}
}

static int make_pair(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		reused.qp[i] = make_qp();
		if (IS_ERR(reused.qp[i]))
			return PTR_ERR(reused.qp[i]);
	}
	return connect_by_hand(reused.qp[0], reused.qp[1]);
}

static int poll_one(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	int n;

	while (!(n = ib_poll_cq(cq, 1, wc))) {
		if (time_after(jiffies, deadline))
			return wrong("no completion");
		usleep_range(50, 100);
	}
	return n == 1 ? 0 : wrong("ib_poll_cq");
}

static int post_receives(unsigned int first)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < LEFT && !ret; i++) {
		struct ib_recv_wr wr = { .wr_id = first + i };

		ret = ib_post_recv(reused.qp[1], &wr, NULL);
	}
	return ret;
}

/* Their receives have completed when they have. */
static int send_all(void)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < LEFT && !ret; i++) {
		struct ib_send_wr wr = {
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
		struct ib_wc wc;

		ret = ib_post_send(reused.qp[0], &wr, NULL) ?:
		      poll_one(reused.send_cq, &wc);
		if (!ret && wc.status != IB_WC_SUCCESS)
			ret = wrong("a Send");
	}
	return ret;
}

static int expect_none(void)
{
	struct ib_wc wc;

	return ib_poll_cq(reused.recv_cq, 1, &wc) ?
	       wrong("a completion of the earlier queue pair") : 0;
}

static int expect_receives(unsigned int first)
{
	unsigned int i;
	struct ib_wc wc;

	for (i = 0; i < LEFT; i++) {
		if (poll_one(reused.recv_cq, &wc))
			return -EIO;
		if (wc.status != IB_WC_SUCCESS || wc.qp != reused.qp[1] ||
		    wc.wr_id != first + i)
			return wrong("another completion than the receive's");
	}
	return expect_none();
}

/* Leaves the completions of its receives. */
static int use_earlier_pair(void)
{
	int ret = make_pair() ?: post_receives(FIRST_WR_ID) ?: send_all();

	if (!ret) {
		reused.numbers[0] = reused.qp[0]->qp_num;
		reused.numbers[1] = reused.qp[1]->qp_num;
	}
	destroy_pair();
	return ret;
}

static int use_later_pair(unsigned int first)
{
	int ret = make_pair();

	if (ret)
		return ret;
	if (reused.qp[0]->qp_num != reused.numbers[0] ||
	    reused.qp[1]->qp_num != reused.numbers[1])
		return wrong("other numbers");
	return expect_none() ?: post_receives(first) ?: expect_none() ?:
	       send_all() ?: expect_receives(first);
}

static int check_pairs(void)
{
	unsigned int round;
	int ret = 0;

	for (round = 1; round <= 3 && !ret; round++) {
		ret = use_earlier_pair() ?:
		      use_later_pair(FIRST_WR_ID + round * LEFT);
		destroy_pair();
	}
	return ret;
}

static int with_cqs(struct ib_device *dev)
{
	struct ib_cq_init_attr attr = { .cqe = 4 * DEPTH };
	int ret;

	reused.send_cq = ib_create_cq(dev, NULL, NULL, NULL, &attr);
	if (IS_ERR(reused.send_cq))
		return PTR_ERR(reused.send_cq);
	reused.recv_cq = ib_create_cq(dev, NULL, NULL, NULL, &attr);
	ret = PTR_ERR_OR_ZERO(reused.recv_cq);
	if (!ret) {
		ret = check_pairs();
		ib_destroy_cq(reused.recv_cq);
	}
	ib_destroy_cq(reused.send_cq);
	return ret;
}

int check_reused(struct ib_device *dev)
{
	int ret;

	reused.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(reused.pd))
		return PTR_ERR(reused.pd);
	ret = with_cqs(dev) ?: check_reused_events(reused.pd);
	ib_dealloc_pd(reused.pd);
	return ret;
}
