// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: a Send that is not signaled, of which the adapter says that it has
 * succeeded. In RTS the completion was that of a signaled one behind it, which is flushed;
 * in ERR it was flushed itself. The driver does not believe it: it has failed.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "connect.h"
#include "go.h"
#include "unsignaled.h"

#define DEPTH		4
#define TIME_LIMIT	(60 * HZ)

static struct {
	struct ib_pd *pd;
	struct ib_cq *send_cq, *recv_cq;
	struct ib_qp *from, *to;
} unsignaled;

static int wrong(const char *what)
{
	pr_err("unsignaled: %s\n", what);
	return -EIO;
}

static struct ib_qp *make_qp(void)
{
	struct ib_qp_init_attr init = {
		.send_cq = unsignaled.send_cq,
		.recv_cq = unsignaled.recv_cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(unsignaled.pd, &init);
}

static int make_all(struct ib_device *dev)
{
	struct ib_cq_init_attr init = { .cqe = 2 * DEPTH };

	unsignaled.send_cq = ib_create_cq(dev, NULL, NULL, NULL, &init);
	if (IS_ERR(unsignaled.send_cq))
		return PTR_ERR(unsignaled.send_cq);
	unsignaled.recv_cq = ib_create_cq(dev, NULL, NULL, NULL, &init);
	if (IS_ERR(unsignaled.recv_cq))
		return PTR_ERR(unsignaled.recv_cq);
	unsignaled.from = make_qp();
	unsignaled.to = make_qp();
	return PTR_ERR_OR_ZERO(unsignaled.from) ?:
	       PTR_ERR_OR_ZERO(unsignaled.to) ?:
	       connect_by_hand(unsignaled.from, unsignaled.to);
}

static void free_all(void)
{
	if (!IS_ERR_OR_NULL(unsignaled.from))
		ib_destroy_qp(unsignaled.from);
	if (!IS_ERR_OR_NULL(unsignaled.to))
		ib_destroy_qp(unsignaled.to);
	if (!IS_ERR_OR_NULL(unsignaled.send_cq))
		ib_destroy_cq(unsignaled.send_cq);
	if (!IS_ERR_OR_NULL(unsignaled.recv_cq))
		ib_destroy_cq(unsignaled.recv_cq);
	ib_dealloc_pd(unsignaled.pd);
}

static int send(u64 wr_id, int flags)
{
	struct ib_send_wr wr = {
		.wr_id = wr_id, .opcode = IB_WR_SEND, .send_flags = flags,
	};
	struct ib_recv_wr receive = {};

	return ib_post_recv(unsignaled.to, &receive, NULL) ?:
	       ib_post_send(unsignaled.from, &wr, NULL);
}

static int expect(u64 wr_id, enum ib_wc_status status)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	struct ib_wc wc;
	int n;

	while (!(n = ib_poll_cq(unsignaled.send_cq, 1, &wc))) {
		if (time_after(jiffies, deadline))
			return wrong("no completion");
		usleep_range(1000, 2000);
	}
	if (n == 1 && wc.wr_id == wr_id && wc.status == status)
		return 0;
	pr_err("unsignaled: Send %llu completes with: %s\n", wc.wr_id,
	       ib_wc_status_msg(wc.status));
	return -EIO;
}

static int send_in_rts(void)
{
	return send(1, 0) ?: send(2, IB_SEND_SIGNALED) ?:
	       expect(1, IB_WC_FATAL_ERR) ?: expect(2, IB_WC_WR_FLUSH_ERR);
}

static int send_in_error(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(unsignaled.from, &attr, IB_QP_STATE) ?:
	       send(1, 0) ?: expect(1, IB_WC_FATAL_ERR);
}

int check_unsignaled(struct ib_device *dev, bool in_error)
{
	int ret;

	unsignaled.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(unsignaled.pd))
		return PTR_ERR(unsignaled.pd);
	ret = make_all(dev);
	if (!ret) {
		pr_info("unsignaled: QP %u\n", unsignaled.from->qp_num);
		ret = await_go() ?:
		      (in_error ? send_in_error() : send_in_rts());
	}
	free_all();
	return ret;
}
