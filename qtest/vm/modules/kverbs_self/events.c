// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: what the kernel is told of completions: the handler of a CQ is called
 * once for a request, for the next completion or the next solicited one, and takes none
 * away. Messages of no octets, between two QPs that are connected by hand; some
 * invalidate a region.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>

#include "connect.h"
#include "events.h"

#define TIME_LIMIT	(60 * HZ)
#define SILENCE		100	/* ms in which nothing comes */
#define DEPTH		32

struct told {
	atomic_t calls;
	struct ib_cq *of;	/* the CQ of the last call */
};

struct events {
	struct ib_cq *send_cq;
	struct ib_cq *cq;	/* of receives */
	struct ib_qp *qp[2];	/* the first one sends */
	struct ib_mr *mr;	/* for Sends to invalidate */
	dma_addr_t dma;		/* a page of it */
	struct told told;
	int expected;		/* calls so far */
	unsigned int sent;
	unsigned int taken;
};

static void called(struct ib_cq *cq, void *context)
{
	struct told *told = context;

	told->of = cq;
	atomic_inc(&told->calls);
}

static int wrong(const struct events *e, const char *what)
{
	pr_err("%s: %d calls, %d expected\n", what,
	       atomic_read(&e->told.calls), e->expected);
	return -EIO;
}

static int poll_one(struct ib_cq *cq)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	struct ib_wc wc;
	int n;

	while (!(n = ib_poll_cq(cq, 1, &wc))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(50, 100);
	}
	return n == 1 && wc.status == IB_WC_SUCCESS ? 0 : -EIO;
}

/* It has arrived when the Send is complete. */
static int send_wr(struct events *e, struct ib_send_wr *wr, int flags)
{
	struct ib_recv_wr recv = {};
	int ret;

	wr->send_flags = IB_SEND_SIGNALED | flags;
	ret = ib_post_recv(e->qp[1], &recv, NULL) ?:
	      ib_post_send(e->qp[0], wr, NULL);
	e->sent++;
	return ret ?: poll_one(e->send_cq);
}

static int send(struct events *e, int flags)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };

	return send_wr(e, &wr, flags);
}

static int register_region(struct events *e)
{
	struct scatterlist sg;
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.mr = e->mr,
		.key = e->mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};

	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = e->dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(e->mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	return ib_post_send(e->qp[1], &reg.wr, NULL) ?: poll_one(e->send_cq);
}

/* The Send with Invalidate, of a region that is Valid before it. */
static int send_invalidate(struct events *e, int flags)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.ex.invalidate_rkey = e->mr->rkey,
	};

	return register_region(e) ?: send_wr(e, &wr, flags);
}

static int expect_silence(struct events *e, const char *what)
{
	msleep(SILENCE);
	return atomic_read(&e->told.calls) == e->expected ? 0 : wrong(e, what);
}

static int expect_call(struct events *e, const char *what)
{
	unsigned long deadline = jiffies + TIME_LIMIT;

	e->expected++;
	while (atomic_read(&e->told.calls) < e->expected) {
		if (time_after(jiffies, deadline))
			return wrong(e, what);
		usleep_range(50, 100);
	}
	return e->told.of == e->cq ? expect_silence(e, what) :
				     wrong(e, "another CQ");
}

/* No call has taken one of them away. */
static int take_all(struct events *e)
{
	struct ib_wc wc;
	int ret = 0;

	while (e->taken < e->sent && !ret) {
		ret = poll_one(e->cq);
		e->taken++;
	}
	return ret ?: (ib_poll_cq(e->cq, 1, &wc) ?
		       wrong(e, "a completion too many") : 0);
}

static int check_next(struct events *e)
{
	return send(e, 0) ?: expect_silence(e, "not asked for") ?:
	       ib_req_notify_cq(e->cq, IB_CQ_NEXT_COMP) ?:
	       ib_req_notify_cq(e->cq, IB_CQ_NEXT_COMP) ?:
	       send(e, 0) ?: expect_call(e, "the next completion") ?:
	       send(e, 0) ?: expect_silence(e, "not asked for again") ?:
	       take_all(e);
}

/* Neither type, and both: refused, and the CQ is not armed. */
static int check_other_types(struct events *e)
{
	if (ib_req_notify_cq(e->cq, 0) != -EINVAL ||
	    ib_req_notify_cq(e->cq, IB_CQ_REPORT_MISSED_EVENTS) != -EINVAL ||
	    ib_req_notify_cq(e->cq, IB_CQ_SOLICITED_MASK) != -EINVAL)
		return wrong(e, "notification of no type, or of two");
	return send(e, IB_SEND_SOLICITED) ?:
	       expect_silence(e, "refused types") ?: take_all(e);
}

static int check_solicited(struct events *e)
{
	return ib_req_notify_cq(e->cq, IB_CQ_SOLICITED) ?:
	       send(e, 0) ?: expect_silence(e, "a Send not solicited") ?:
	       send(e, IB_SEND_SOLICITED) ?:
	       expect_call(e, "a solicited Send") ?:
	       send(e, IB_SEND_SOLICITED) ?:
	       expect_silence(e, "not asked for again") ?:
	       take_all(e);
}

static int check_solicited_invalidate(struct events *e)
{
	return ib_req_notify_cq(e->cq, IB_CQ_SOLICITED) ?:
	       send_invalidate(e, 0) ?:
	       expect_silence(e, "a Send with Invalidate not solicited") ?:
	       send_invalidate(e, IB_SEND_SOLICITED) ?:
	       expect_call(e, "a solicited Send with Invalidate") ?:
	       take_all(e);
}

/* ib_req_notify_cq() tells of a completion that came before it. */
static int check_missed(struct events *e)
{
	int ret = send(e, 0);

	if (ret)
		return ret;
	if (ib_req_notify_cq(e->cq, IB_CQ_NEXT_COMP |
			     IB_CQ_REPORT_MISSED_EVENTS) <= 0)
		return wrong(e, "a completion that was there");
	return take_all(e) ?: send(e, 0) ?:
	       expect_call(e, "the next completion") ?: take_all(e);
}

/* A receive that is flushed has no Send, but an error: the event comes all the same. */
static int check_error(struct events *e)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_recv_wr recv = {};
	struct ib_wc wc;
	int ret;

	ret = ib_req_notify_cq(e->cq, IB_CQ_SOLICITED) ?:
	      ib_post_recv(e->qp[1], &recv, NULL) ?:
	      expect_silence(e, "a receive that waits") ?:
	      ib_modify_qp(e->qp[1], &attr, IB_QP_STATE) ?:
	      expect_call(e, "a completion in error");
	if (ret)
		return ret;
	return ib_poll_cq(e->cq, 1, &wc) == 1 &&
	       wc.status == IB_WC_WR_FLUSH_ERR ?
	       0 : wrong(e, "not one receive that is flushed");
}

static struct ib_qp *make_qp(struct ib_pd *pd, struct events *e)
{
	struct ib_qp_init_attr init = {
		.send_cq = e->send_cq,
		.recv_cq = e->cq,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(pd, &init);
}

static int with_qps(struct ib_pd *pd, struct events *e)
{
	int ret;

	e->qp[0] = make_qp(pd, e);
	if (IS_ERR(e->qp[0]))
		return PTR_ERR(e->qp[0]);
	e->qp[1] = make_qp(pd, e);
	ret = PTR_ERR_OR_ZERO(e->qp[1]);
	if (!ret) {
		ret = connect_by_hand(e->qp[0], e->qp[1]) ?:
		      check_next(e) ?:
		      check_other_types(e) ?:
		      check_solicited(e) ?:
		      check_solicited_invalidate(e) ?:
		      check_missed(e) ?:
		      check_error(e);
		ib_destroy_qp(e->qp[1]);
	}
	ib_destroy_qp(e->qp[0]);
	return ret;
}

static int with_region(struct ib_pd *pd, struct events *e)
{
	struct device *dma_device = pd->device->dma_device;
	void *page = dma_alloc_coherent(dma_device, PAGE_SIZE, &e->dma,
					GFP_KERNEL);
	int ret;

	if (!page)
		return -ENOMEM;
	e->mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	ret = PTR_ERR_OR_ZERO(e->mr);
	if (!ret) {
		ret = with_qps(pd, e);
		ib_dereg_mr(e->mr);
	}
	dma_free_coherent(dma_device, PAGE_SIZE, page, e->dma);
	return ret;
}

static struct ib_cq *make_cq(struct ib_pd *pd, struct told *told)
{
	struct ib_cq_init_attr attr = { .cqe = 2 * DEPTH };

	return ib_create_cq(pd->device, told ? called : NULL, NULL, told, &attr);
}

int check_events(struct ib_pd *pd)
{
	struct events e = {};
	int ret;

	e.send_cq = make_cq(pd, NULL);
	if (IS_ERR(e.send_cq))
		return PTR_ERR(e.send_cq);
	e.cq = make_cq(pd, &e.told);
	ret = PTR_ERR_OR_ZERO(e.cq);
	if (!ret) {
		ret = with_region(pd, &e);
		ib_destroy_cq(e.cq);
	}
	ib_destroy_cq(e.send_cq);
	return ret;
}
