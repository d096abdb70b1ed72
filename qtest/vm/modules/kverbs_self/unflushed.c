// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: a queue pair in ERR whose last completion the adapter loses. It is one as
 * ib_drain_sq() waits for, without a signal; nothing else is outstanding, and two other
 * queue pairs keep the same CQ busy. The driver finds out all the same.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "connect.h"
#include "go.h"
#include "unflushed.h"

#define MESSAGES	16	/* on their way at any time */
#define TIME_LIMIT	(120 * HZ)
#define MARKER		7

static struct {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *from, *to;	/* the others */
	struct ib_qp *qp;
	unsigned int others;		/* their completions */
	bool flushed;
} unflushed;

static int wrong(const char *what)
{
	pr_err("unflushed: %s\n", what);
	return -EIO;
}

static struct ib_qp *make_qp(void)
{
	struct ib_qp_init_attr init = {
		.send_cq = unflushed.cq,
		.recv_cq = unflushed.cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(unflushed.pd, &init);
}

static int make_all(struct ib_device *dev)
{
	struct ib_cq_init_attr init = { .cqe = 4 * MESSAGES };

	unflushed.cq = ib_create_cq(dev, NULL, NULL, NULL, &init);
	if (IS_ERR(unflushed.cq))
		return PTR_ERR(unflushed.cq);
	unflushed.from = make_qp();
	unflushed.to = make_qp();
	unflushed.qp = make_qp();
	return PTR_ERR_OR_ZERO(unflushed.from) ?:
	       PTR_ERR_OR_ZERO(unflushed.to) ?: PTR_ERR_OR_ZERO(unflushed.qp);
}

static void free_qp(struct ib_qp *qp)
{
	if (!IS_ERR_OR_NULL(qp))
		ib_destroy_qp(qp);
}

static void free_all(void)
{
	free_qp(unflushed.from);
	free_qp(unflushed.to);
	free_qp(unflushed.qp);
	if (!IS_ERR_OR_NULL(unflushed.cq))
		ib_destroy_cq(unflushed.cq);
	ib_dealloc_pd(unflushed.pd);
}

/* Receives first: no Send waits for one. */
static int post_message(void)
{
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_recv_wr receive = {};

	return ib_post_recv(unflushed.to, &receive, NULL) ?:
	       ib_post_send(unflushed.from, &send, NULL);
}

static int start_others(void)
{
	int i, ret;

	ret = connect_by_hand(unflushed.from, unflushed.to);
	for (i = 0; i < MESSAGES && !ret; i++)
		ret = post_message();
	return ret;
}

static int post_marker(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_rdma_wr marker = {
		.wr = { .wr_id = MARKER, .opcode = IB_WR_RDMA_WRITE },
	};

	return ib_modify_qp(unflushed.qp, &attr, IB_QP_STATE) ?:
	       ib_post_send(unflushed.qp, &marker.wr, NULL);
}

/* A completion of one of the others; a Send's makes room for the next message. */
static int take_other(const struct ib_wc *wc)
{
	/* The adapter is out of service: no traffic is needed any more. */
	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return 0;
	if (wc->status != IB_WC_SUCCESS)
		return wrong("a message fails");
	unflushed.others++;
	if (wc->qp == unflushed.from)
		post_message();
	return 0;
}

/* So few at a time that some always wait. */
static int poll_some(void)
{
	struct ib_wc wc;
	int i, ret = 0;

	for (i = 0; i < 2 && !ret && ib_poll_cq(unflushed.cq, 1, &wc) == 1; i++) {
		if (wc.qp != unflushed.qp)
			ret = take_other(&wc);
		else if (wc.wr_id == MARKER && wc.status == IB_WC_WR_FLUSH_ERR)
			unflushed.flushed = true;
		else
			ret = wrong("another completion than the marker's");
	}
	return ret;
}

static int await_marker(void)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	int ret = 0;

	while (!ret && !unflushed.flushed) {
		if (time_after(jiffies, deadline))
			return wrong("the marker does not come back");
		ret = poll_some();
		usleep_range(1000, 2000);
	}
	return ret;
}

int check_unflushed(struct ib_device *dev)
{
	int ret;

	unflushed.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(unflushed.pd))
		return PTR_ERR(unflushed.pd);
	ret = make_all(dev);
	if (!ret) {
		pr_info("unflushed: QP %u\n", unflushed.qp->qp_num);
		ret = await_go() ?: start_others() ?: post_marker() ?:
		      await_marker();
	}
	pr_info("unflushed: %u other completions\n", unflushed.others);
	free_all();
	return ret;
}
