// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: a CQ whose number another one had. The asynchronous event of the earlier
 * one, which the driver has not taken when that is destroyed, is none of the later one.
 *
 * One thread of the driver takes these events in order: the handler of a first CQ's event
 * holds that thread until the later one of two other CQs is there.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "reused_events.h"

#define RECEIVES	16	/* more than a CQ of one CQE holds */
#define TIME_LIMIT	(60 * HZ)
#define SILENCE		200	/* ms in which nothing comes */

struct overflown {
	struct ib_cq *cq;
	struct ib_qp *qp;
	atomic_t events;
	struct completion told;
	bool holds;		/* the thread that tells, until let_go */
};

static struct {
	struct ib_pd *pd;
	struct overflown first, earlier, later;
	struct completion let_go;
} reused;

static int wrong(const char *what)
{
	pr_err("events of a number that is used again: %s\n", what);
	return -EIO;
}

static void overflown_told(struct ib_event *event, void *context)
{
	struct overflown *o = context;

	atomic_inc(&o->events);
	complete(&o->told);
	if (o->holds)
		wait_for_completion_timeout(&reused.let_go, TIME_LIMIT);
}

static int overflown_make(struct overflown *o)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 1 };
	struct ib_qp_init_attr qp_attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = RECEIVES },
		.qp_type = IB_QPT_RC,
	};

	atomic_set(&o->events, 0);
	init_completion(&o->told);
	o->cq = ib_create_cq(reused.pd->device, NULL, overflown_told, o, &cq_attr);
	if (IS_ERR(o->cq))
		return PTR_ERR(o->cq);
	qp_attr.send_cq = o->cq;
	qp_attr.recv_cq = o->cq;
	o->qp = ib_create_qp(reused.pd, &qp_attr);
	return PTR_ERR_OR_ZERO(o->qp);
}

static void overflown_destroy(struct overflown *o)
{
	if (!IS_ERR_OR_NULL(o->qp))
		ib_destroy_qp(o->qp);
	if (!IS_ERR_OR_NULL(o->cq))
		ib_destroy_cq(o->cq);
	o->qp = NULL;
	o->cq = NULL;
}

/* More receives are flushed than its CQ holds. */
static int overflow(struct overflown *o)
{
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	int ret = ib_modify_qp(o->qp, &error, IB_QP_STATE);
	unsigned int i;

	for (i = 0; i < RECEIVES && !ret; i++) {
		struct ib_recv_wr wr = { .wr_id = i };

		ret = ib_post_recv(o->qp, &wr, NULL);
	}
	return ret;
}

static int await_event(struct overflown *o)
{
	return wait_for_completion_timeout(&o->told, TIME_LIMIT) ?
	       0 : wrong("no event of a CQ that overflows");
}

/* What the adapter has counted of the counter of that name; 0 if it cannot be read. */
static u64 counted(const char *name)
{
	struct ib_device *dev = reused.pd->device;
	struct rdma_hw_stats *stats = dev->ops.alloc_hw_port_stats(dev, 1);
	u64 value = 0;
	int i;

	if (!stats)
		return 0;
	dev->ops.get_hw_stats(dev, stats, 1, 0);
	for (i = 0; i < stats->num_counters; i++)
		if (!strcmp(stats->descs[i].name, name))
			value = stats->value[i];
	rdma_free_hw_stats_struct(stats);
	return value;
}

/* The adapter has written the event that the driver cannot take yet, as the first one. */
static int overflow_unheard(struct overflown *o)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	u64 before = counted("async_events");
	int ret = before ? overflow(o) : wrong("no counters");

	while (!ret && counted("async_events") <= before) {
		if (time_after(jiffies, deadline))
			return wrong("the adapter counts no event");
		usleep_range(1000, 2000);
	}
	if (!ret && atomic_read(&o->events))
		return wrong("the event was taken too early");
	return ret;
}

/* So the later one of two has the number that the earlier one had. */
static int expect_limit(void)
{
	struct ib_cq_init_attr attr = { .cqe = 1 };
	struct ib_cq *cq = ib_create_cq(reused.pd->device, NULL, NULL, NULL, &attr);

	if (IS_ERR(cq))
		return 0;
	ib_destroy_cq(cq);
	return wrong("the adapter has more than two CQs");
}

/* Events come in order: what there was before its own is over when that has come. */
static int expect_own_event(struct overflown *o)
{
	int ret = overflow(o) ?: await_event(o);

	msleep(SILENCE);
	if (!ret && atomic_read(&o->events) != 1)
		return wrong("an event of the earlier CQ");
	return ret;
}

int check_reused_events(struct ib_pd *pd)
{
	int ret;

	reused.pd = pd;
	init_completion(&reused.let_go);
	reused.first.holds = true;
	ret = overflown_make(&reused.first) ?: overflow(&reused.first) ?:
	      await_event(&reused.first) ?: overflown_make(&reused.earlier) ?:
	      expect_limit() ?: overflow_unheard(&reused.earlier);
	overflown_destroy(&reused.earlier);
	ret = ret ?: overflown_make(&reused.later);
	complete(&reused.let_go);
	ret = ret ?: expect_own_event(&reused.later);
	overflown_destroy(&reused.later);
	overflown_destroy(&reused.first);
	return ret;
}
