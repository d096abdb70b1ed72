// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: the steps of a case of stale.c.
 */

#include "kverbs.h"
#include "stale.h"

#define SIZE	20000

static void step_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kverbs_stale *s = container_of(wc->wr_cqe, struct kverbs_stale,
					      step_cqe);

	s->step_wc = *wc;
	kverbs_raise(s->ep.test, &s->step_done);
}

static void receive(struct kverbs_endpoint *ep,
		    const struct kverbs_message *message,
		    const struct ib_wc *wc)
{
	struct kverbs_stale *s = ep->context;

	if (kverbs_raised(&s->message_came)) {
		kverbs_fail(ep->test, "two messages at once");
		return;
	}
	s->message = *message;
	s->message_wc = *wc;
	kverbs_raise(ep->test, &s->message_came);
}

int kverbs_stale_open(struct kverbs_stale *s)
{
	const struct kverbs_needs needs = {
		.sends = 8,
		.receives = 4,
		.send_sges = DIV_ROUND_UP(SIZE, PAGE_SIZE) + 1,
	};
	int ret = kverbs_open(&s->ep, &needs);

	s->ep.receive = receive;
	s->ep.context = s;
	s->step_cqe.done = step_done;
	s->message_came = false;
	if (!ret)
		ret = kverbs_area_init(&s->area, s->ep.pd, SIZE);
	if (!ret)
		ret = kverbs_outgoing_init(&s->out, &s->ep);
	if (!ret)
		ret = kverbs_receives_init(&s->ep, needs.receives);
	if (!ret)
		kverbs_area_choose(&s->area, 100 + s->ending, SIZE);
	return ret;
}

void kverbs_stale_free(struct kverbs_stale *s)
{
	kverbs_close(&s->ep);
	kverbs_area_free(&s->area);
	kverbs_outgoing_free(&s->out, &s->ep);
	s->out.message = NULL;
	kverbs_free_endpoint(&s->ep);
}

int kverbs_stale_try(struct kverbs_stale *s, struct ib_send_wr *first,
		     struct ib_send_wr *last)
{
	s->step_done = false;
	last->wr_cqe = &s->step_cqe;
	last->send_flags |= IB_SEND_SIGNALED;
	kverbs_post_send(&s->ep, first);
	return kverbs_wait(s->ep.test, kverbs_raised(&s->step_done));
}

int kverbs_stale_execute(struct kverbs_stale *s, struct ib_send_wr *first,
			 struct ib_send_wr *last)
{
	int ret = kverbs_stale_try(s, first, last);

	if (ret || s->step_wc.status == IB_WC_SUCCESS)
		return ret;
	kverbs_fail(s->ep.test, "case %u %s: work request %u: %s", s->ending,
		    s->read ? "Read" : "Write", last->opcode,
		    ib_wc_status_msg(s->step_wc.status));
	return -EIO;
}

int kverbs_stale_map(struct kverbs_stale *s, enum dma_data_direction direction)
{
	int ret = kverbs_area_map(&s->area, direction);

	if (ret)
		kverbs_fail(s->ep.test, "cannot map the area");
	return ret;
}

int kverbs_stale_register(struct kverbs_stale *s, int access)
{
	struct ib_reg_wr wr;
	int ret = kverbs_area_register(&s->area, &wr, access);

	if (!ret)
		return kverbs_stale_execute(s, &wr.wr, &wr.wr);
	kverbs_fail(s->ep.test, "cannot map the region");
	return ret;
}

int kverbs_stale_invalidate(struct kverbs_stale *s, u32 rkey)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = rkey,
	};

	return kverbs_stale_execute(s, &wr, &wr);
}

int kverbs_stale_say(struct kverbs_stale *s, enum kverbs_kind kind,
		     u32 invalidate, int flags)
{
	struct ib_send_wr *wr = &s->out.wr;

	s->out.message->kind = cpu_to_be32(kind);
	kverbs_outgoing_prepare(&s->out, &s->ep, &s->step_cqe, false);
	wr->send_flags |= flags;
	if (invalidate) {
		wr->opcode = IB_WR_SEND_WITH_INV;
		wr->ex.invalidate_rkey = invalidate;
	}
	return kverbs_stale_execute(s, wr, wr);
}

int kverbs_stale_hear(struct kverbs_stale *s, enum kverbs_kind kind)
{
	int ret = kverbs_wait(s->ep.test, kverbs_raised(&s->message_came));

	if (ret)
		return ret;
	WRITE_ONCE(s->message_came, false);
	if (be32_to_cpu(s->message.kind) == kind)
		return 0;
	kverbs_fail(s->ep.test, "case %u: expected message %u, got %u",
		    s->ending, kind, be32_to_cpu(s->message.kind));
	return -EPROTO;
}

int kverbs_stale_await_break(struct kverbs_stale *s)
{
	struct ib_qp_init_attr init_attr;
	struct ib_qp_attr attr;
	int ret;

	ret = kverbs_wait(s->ep.test,
			  READ_ONCE(s->ep.state) == KVERBS_DISCONNECTED);
	if (!ret)
		ret = kverbs_wait(s->ep.test, kverbs_raised(&s->ep.flushed));
	if (!ret)
		ret = kverbs_wait(s->ep.test,
				  kverbs_raised(&s->ep.had_qp_event));
	if (!ret)
		ret = ib_query_qp(s->ep.id->qp, &attr, IB_QP_STATE, &init_attr);
	if (ret)
		return ret;
	if (attr.qp_state == IB_QPS_SQE || attr.qp_state == IB_QPS_ERR)
		return 0;
	kverbs_fail(s->ep.test, "case %u: the QP is in state %u", s->ending,
		    attr.qp_state);
	return -EIO;
}
