// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: queues as large as the adapter says that they can be: a CQ of
 * max_cqe, two QPs of max_qp_wr in both directions, an S-RQ of max_srq_wr that a
 * third QP uses. They are filled to their ends, and all of them wrap around.
 *
 * Every message is its number, octet by octet from SGEs to SGEs. The CQ is written
 * once around by work requests that are flushed, which no message slows down.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "connect.h"
#include "maxima.h"

#define TIME_LIMIT	(100 * HZ)
#define BATCH		16
#define ROUNDS		3	/* messages for each work request of a queue */
#define OCTETS		sizeof(u64)
#define SLOTS_OF_PAGE	(PAGE_SIZE / OCTETS)

struct slots {
	unsigned int pages;
	void **va;
	u64 *dma;
};

struct maxima {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp[3];	/* the second sends to the third's S-RQ, too */
	struct slots source;
	struct slots sink;
	unsigned int num_slots;
	unsigned long deadline;
};

/* One direction of one connection. */
struct flow {
	struct maxima *m;
	struct ib_qp *from;
	struct ib_qp *to;
	unsigned int send_window;
	unsigned int recv_window;
	u64 total;
	u64 offered;		/* receives posted */
	u64 received;
	u64 sent;
	u64 completed;
};

/*
 * --------------------------------------------------------------- memory
 */
static void slots_free(struct ib_device *dev, struct slots *slots)
{
	while (slots->pages--)
		dma_free_coherent(dev->dma_device, PAGE_SIZE,
				  slots->va[slots->pages],
				  slots->dma[slots->pages]);
	kfree(slots->va);
	kfree(slots->dma);
}

static int slots_alloc(struct ib_device *dev, struct slots *slots,
		       unsigned int number)
{
	unsigned int pages = DIV_ROUND_UP(number, SLOTS_OF_PAGE);

	slots->va = kcalloc(pages, sizeof(*slots->va), GFP_KERNEL);
	slots->dma = kcalloc(pages, sizeof(*slots->dma), GFP_KERNEL);
	slots->pages = 0;
	while (slots->va && slots->dma && slots->pages < pages) {
		dma_addr_t dma;
		void *va = dma_alloc_coherent(dev->dma_device, PAGE_SIZE, &dma,
					      GFP_KERNEL);

		if (!va)
			break;
		slots->va[slots->pages] = va;
		slots->dma[slots->pages++] = dma;
	}
	if (slots->pages == pages)
		return 0;
	slots_free(dev, slots);
	return -ENOMEM;
}

static u64 *slot(const struct maxima *m, const struct slots *slots, u64 number)
{
	unsigned int i = number % m->num_slots;

	return slots->va[i / SLOTS_OF_PAGE] + i % SLOTS_OF_PAGE * OCTETS;
}

/* An SGE for each octet. */
static int slot_sges(const struct maxima *m, const struct slots *slots,
		     u64 number, struct ib_sge *sges)
{
	unsigned int i = number % m->num_slots;
	unsigned int k;

	for (k = 0; k < OCTETS; k++)
		sges[k] = (struct ib_sge) {
			.addr = slots->dma[i / SLOTS_OF_PAGE] +
				i % SLOTS_OF_PAGE * OCTETS + k,
			.length = 1,
			.lkey = m->pd->local_dma_lkey,
		};
	return OCTETS;
}

/*
 * ------------------------------------------------------------- messages
 */
static int post_receive(struct flow *f)
{
	struct ib_sge sges[OCTETS];
	struct ib_recv_wr wr = {
		.wr_id = f->offered,
		.sg_list = sges,
		.num_sge = slot_sges(f->m, &f->m->sink, f->offered, sges),
	};

	*slot(f->m, &f->m->sink, f->offered) = ~f->offered;
	f->offered++;
	return f->to->srq ? ib_post_srq_recv(f->to->srq, &wr, NULL) :
			    ib_post_recv(f->to, &wr, NULL);
}

static int post_send(struct flow *f)
{
	struct ib_sge sges[OCTETS];
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.wr_id = f->sent,
		.sg_list = sges,
		.num_sge = slot_sges(f->m, &f->m->source, f->sent, sges),
	};

	*slot(f->m, &f->m->source, f->sent) = f->sent;
	f->sent++;
	return ib_post_send(f->from, &wr, NULL);
}

static int post_what_fits(struct flow *f)
{
	int ret = 0;

	while (!ret && f->offered < f->total &&
	       f->offered - f->received < f->recv_window)
		ret = post_receive(f);
	while (!ret && f->sent < f->offered &&
	       f->sent - f->completed < f->send_window)
		ret = post_send(f);
	return ret;
}

static int take(struct flow *f, const struct ib_wc *wc)
{
	u64 *next = wc->opcode == IB_WC_RECV ? &f->received : &f->completed;

	if (wc->status != IB_WC_SUCCESS || wc->wr_id != *next) {
		pr_err("status %s of %llu instead of %llu\n",
		       ib_wc_status_msg(wc->status), wc->wr_id, *next);
		return -EIO;
	}
	if (wc->opcode == IB_WC_RECV &&
	    *slot(f->m, &f->m->sink, *next) != *next) {
		pr_err("receive %llu has %llu\n", *next,
		       *slot(f->m, &f->m->sink, *next));
		return -EIO;
	}
	++*next;
	return 0;
}

static int take_what_came(struct flow *f)
{
	struct ib_wc wc[BATCH];
	int n = ib_poll_cq(f->m->cq, BATCH, wc);
	int ret = min(n, 0);
	int i;

	for (i = 0; i < n && !ret; i++)
		ret = take(f, &wc[i]);
	return ret;
}

static int run_flow(struct flow *f)
{
	int ret = 0;

	while (!ret && (f->received < f->total || f->completed < f->total)) {
		ret = post_what_fits(f) ?: take_what_came(f);
		if (!ret && time_after(jiffies, f->m->deadline))
			ret = -ETIMEDOUT;
		cond_resched();
	}
	if (ret)
		pr_err("%llu offered, %llu sent, %llu received: error %d\n",
		       f->offered, f->sent, f->received, ret);
	return ret;
}

static int check_rq(struct maxima *m)
{
	struct flow f = {
		.m = m,
		.from = m->qp[0],
		.to = m->qp[1],
		.send_window = m->dev->attrs.max_qp_wr,
		.recv_window = m->dev->attrs.max_qp_wr,
		.total = (u64)ROUNDS * m->dev->attrs.max_qp_wr,
	};

	return connect_by_hand(f.from, f.to) ?: run_flow(&f);
}

static int to_reset(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

static int check_srq(struct maxima *m)
{
	struct flow f = {
		.m = m,
		.from = m->qp[1],
		.to = m->qp[2],
		.send_window = m->dev->attrs.max_qp_wr,
		.recv_window = m->dev->attrs.max_srq_wr,
		.total = (u64)ROUNDS * m->dev->attrs.max_srq_wr,
	};

	return to_reset(f.from) ?: connect_by_hand(f.from, f.to) ?:
	       run_flow(&f);
}

/*
 * ------------------------------------------------------------- flushing
 */
static int to_error(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

static int flush_receives(struct maxima *m, u64 first)
{
	struct ib_recv_wr wr = {};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < m->dev->attrs.max_qp_wr && !ret; i++) {
		wr.wr_id = first + i;
		ret = ib_post_recv(m->qp[0], &wr, NULL);
	}
	return ret;
}

static int take_flushed(struct maxima *m, u64 *next, u64 end)
{
	struct ib_wc wc[BATCH];
	int n, i;

	while (*next < end) {
		n = ib_poll_cq(m->cq, BATCH, wc);
		for (i = 0; i < n; i++) {
			if (wc[i].status != IB_WC_WR_FLUSH_ERR ||
			    wc[i].wr_id != (*next)++)
				return -EIO;
		}
		if (n < 0 || time_after(jiffies, m->deadline))
			return n < 0 ? n : -ETIMEDOUT;
		cond_resched();
	}
	return 0;
}

/* More completions than the CQ has places. */
static int check_cq(struct maxima *m)
{
	u64 next = 0;
	int ret = to_error(m->qp[0]);

	while (!ret && next <= m->cq->cqe)
		ret = flush_receives(m, next) ?:
		      take_flushed(m, &next,
				   next + m->dev->attrs.max_qp_wr);
	if (ret)
		pr_err("%llu flushed: error %d\n", next, ret);
	return ret;
}

/*
 * -------------------------------------------------------------- objects
 */
static struct ib_qp *make_qp(struct maxima *m, struct ib_srq *srq)
{
	const struct ib_device_attr *attrs = &m->dev->attrs;
	struct ib_qp_init_attr init = {
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.srq = srq,
		.cap = {
			.max_send_wr = srq ? 1 : attrs->max_qp_wr,
			.max_recv_wr = srq ? 0 : attrs->max_qp_wr,
			.max_send_sge = attrs->max_send_sge,
			.max_recv_sge = srq ? 0 : attrs->max_recv_sge,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(m->pd, &init);
}

static int with_qps(struct maxima *m, unsigned int made)
{
	struct ib_qp *qp;
	int ret;

	if (made == ARRAY_SIZE(m->qp))
		return check_rq(m) ?: check_srq(m) ?: check_cq(m);
	qp = make_qp(m, made == 2 ? m->srq : NULL);
	if (IS_ERR(qp)) {
		pr_err("QP %u: error %ld\n", made, PTR_ERR(qp));
		return PTR_ERR(qp);
	}
	m->qp[made] = qp;
	ret = with_qps(m, made + 1);
	ib_destroy_qp(qp);
	return ret;
}

static int with_srq(struct maxima *m)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = {
			.max_wr = m->dev->attrs.max_srq_wr,
			.max_sge = m->dev->attrs.max_srq_sge,
		},
	};
	int ret;

	m->srq = ib_create_srq(m->pd, &init);
	if (IS_ERR(m->srq)) {
		pr_err("S-RQ: error %ld\n", PTR_ERR(m->srq));
		return PTR_ERR(m->srq);
	}
	ret = with_qps(m, 0);
	ib_destroy_srq(m->srq);
	return ret;
}

static int with_cq(struct maxima *m)
{
	int ret;

	m->cq = ib_alloc_cq(m->dev, NULL, m->dev->attrs.max_cqe, 0,
			    IB_POLL_DIRECT);
	if (IS_ERR(m->cq)) {
		pr_err("CQ: error %ld\n", PTR_ERR(m->cq));
		return PTR_ERR(m->cq);
	}
	ret = with_srq(m);
	ib_free_cq(m->cq);
	return ret;
}

static int with_slots(struct maxima *m)
{
	int ret;

	m->num_slots = max(m->dev->attrs.max_qp_wr, m->dev->attrs.max_srq_wr);
	ret = slots_alloc(m->dev, &m->source, m->num_slots);
	if (ret)
		return ret;
	ret = slots_alloc(m->dev, &m->sink, m->num_slots);
	if (!ret) {
		ret = with_cq(m);
		slots_free(m->dev, &m->sink);
	}
	slots_free(m->dev, &m->source);
	return ret;
}

int check_maxima(struct ib_device *dev)
{
	struct maxima m = { .dev = dev, .deadline = jiffies + TIME_LIMIT };
	int ret;

	if (min(dev->attrs.max_send_sge, dev->attrs.max_recv_sge) < OCTETS)
		return -EOPNOTSUPP;
	m.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(m.pd))
		return PTR_ERR(m.pd);
	ret = with_slots(&m);
	ib_dealloc_pd(m.pd);
	if (!ret)
		pr_info("%d CQEs, %d WRs of a QP, %d of an S-RQ\n",
			dev->attrs.max_cqe, dev->attrs.max_qp_wr,
			dev->attrs.max_srq_wr);
	return ret;
}
