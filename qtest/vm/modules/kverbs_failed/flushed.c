// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_failed: what becomes of work requests and queue pairs when their adapter has
 * failed. Each work request completes, flushed, once and in its queue's order, signaled
 * or not; so does what is posted afterwards. The QPs go to ERR and RESET, drains end, and
 * a QP on an S-RQ has its last event.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <rdma/ib_verbs.h>

#include "flushed.h"

#define SENDS		6	/* each second one is signaled */
#define RECEIVES	5
#define SEND_ID		0x100	/* wr_ids: these and the number */
#define RECEIVE_ID	0x200
#define DRAIN_LIMIT	(5 * HZ)
#define EVENT_LIMIT	(5 * HZ)

static struct {
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_srq *srq;
	struct ib_qp *srq_qp;
	struct completion last_wqe;
	int sends, receives;	/* that came back */
} flushed;

/*
 * --------------------------------------------------------------- before
 */
static void qp_event(struct ib_event *event, void *unused)
{
	if (event->event == IB_EVENT_QP_LAST_WQE_REACHED &&
	    event->element.qp == flushed.srq_qp)
		complete(&flushed.last_wqe);
}

static struct ib_qp *make_qp(struct ib_pd *pd, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.event_handler = qp_event,
		.send_cq = flushed.cq,
		.recv_cq = flushed.cq,
		.srq = srq,
		.cap = {
			.max_send_wr = 2 * SENDS,
			.max_recv_wr = srq ? 0 : 2 * RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = srq ? 0 : 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(pd, &init);
}

static int move(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state, .port_num = 1 };
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
	return ib_modify_qp(qp, &attr, mask);
}

static int post_send(unsigned int i)
{
	struct ib_send_wr wr = {
		.wr_id = SEND_ID + i,
		.opcode = IB_WR_SEND,
		.send_flags = i % 2 ? IB_SEND_SIGNALED : 0,
	};

	return ib_post_send(flushed.qp, &wr, NULL);
}

static int post_receive(unsigned int i)
{
	struct ib_recv_wr wr = { .wr_id = RECEIVE_ID + i };

	return ib_post_recv(flushed.qp, &wr, NULL);
}

/* In Idle the device keeps what is posted. */
static int post_all(void)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < SENDS && !ret; i++)
		ret = post_send(i);
	for (i = 0; i < RECEIVES && !ret; i++)
		ret = post_receive(i);
	return ret;
}

int flushed_begin(struct ib_device *dev, struct ib_pd *pd)
{
	struct ib_srq_init_attr srq_attr = {
		.attr = { .max_wr = RECEIVES, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};

	init_completion(&flushed.last_wqe);
	flushed.cq = ib_alloc_cq(dev, NULL, 64, 0, IB_POLL_DIRECT);
	if (IS_ERR(flushed.cq))
		return PTR_ERR(flushed.cq);
	flushed.qp = make_qp(pd, NULL);
	if (IS_ERR(flushed.qp))
		return PTR_ERR(flushed.qp);
	flushed.srq = ib_create_srq(pd, &srq_attr);
	if (IS_ERR(flushed.srq))
		return PTR_ERR(flushed.srq);
	flushed.srq_qp = make_qp(pd, flushed.srq);
	if (IS_ERR(flushed.srq_qp))
		return PTR_ERR(flushed.srq_qp);
	return move(flushed.qp, IB_QPS_INIT) ?:
	       move(flushed.srq_qp, IB_QPS_INIT) ?: post_all();
}

void flushed_end(void)
{
	if (!IS_ERR_OR_NULL(flushed.srq_qp))
		ib_destroy_qp(flushed.srq_qp);
	if (!IS_ERR_OR_NULL(flushed.srq))
		ib_destroy_srq(flushed.srq);
	if (!IS_ERR_OR_NULL(flushed.qp))
		ib_destroy_qp(flushed.qp);
	if (!IS_ERR_OR_NULL(flushed.cq))
		ib_free_cq(flushed.cq);
	memset(&flushed, 0, sizeof(flushed));
}

/*
 * ------------------------------------------------------------- afterwards
 */
static const char *take(const struct ib_wc *wc)
{
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		return "a completion is not flushed";
	if (wc->qp != flushed.qp)
		return "a completion is of another QP";
	if (wc->wr_id == SEND_ID + flushed.sends)
		flushed.sends++;
	else if (wc->wr_id == RECEIVE_ID + flushed.receives)
		flushed.receives++;
	else
		return "a completion is not the next of its queue";
	return NULL;
}

static const char *take_all(int sends, int receives)
{
	const char *wrong = NULL;
	struct ib_wc wc;

	while (!wrong && ib_poll_cq(flushed.cq, 1, &wc) == 1)
		wrong = take(&wc);
	if (wrong)
		return wrong;
	if (flushed.sends != sends || flushed.receives != receives)
		return "not all is flushed";
	return NULL;
}

static const char *post_more(void)
{
	if (post_send(SENDS) || post_receive(RECEIVES))
		return "a post is refused";
	return take_all(SENDS + 1, RECEIVES + 1);
}

static const char *change_states(void)
{
	if (move(flushed.qp, IB_QPS_ERR) || move(flushed.srq_qp, IB_QPS_ERR))
		return "ERR is refused";
	if (move(flushed.qp, IB_QPS_RTS) != -ENETDOWN)
		return "RTS is not ENETDOWN";
	return NULL;
}

static const char *drain(void)
{
	unsigned long begun = jiffies;

	ib_drain_qp(flushed.qp);
	ib_drain_qp(flushed.srq_qp);
	return time_after(jiffies, begun + DRAIN_LIMIT) ? "drains take long" :
							 NULL;
}

static const char *reset(void)
{
	if (move(flushed.qp, IB_QPS_RESET) || move(flushed.srq_qp, IB_QPS_RESET))
		return "RESET is refused";
	if (move(flushed.qp, IB_QPS_INIT) != -ENETDOWN)
		return "INIT is not ENETDOWN";
	return NULL;
}

void flushed_check(void)
{
	const char *wrong = take_all(SENDS, RECEIVES);

	if (!wrong)
		wrong = post_more();
	if (!wrong && !wait_for_completion_timeout(&flushed.last_wqe,
						   EVENT_LIMIT))
		wrong = "no LAST_WQE_REACHED";
	if (!wrong)
		wrong = change_states();
	if (!wrong)
		wrong = drain();
	if (!wrong)
		wrong = reset();
	pr_info("flushed: %s\n", wrong ?: "all");
}
