// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: work requests that ib_post_send() must refuse at once.
 *
 * Nothing of them may reach the device: the connection on which they are tried
 * works afterwards.
 */

#include "kverbs.h"
#include "stale.h"

static int must_refuse(struct kverbs_stale *s, struct ib_send_wr *wr,
		       const char *what)
{
	const struct ib_send_wr *bad = NULL;
	int ret = ib_post_send(s->ep.id->qp, wr, &bad);

	if (ret && bad == wr)
		return 0;
	kverbs_fail(s->ep.test, "%s is not refused: %d", what, ret);
	return -EIO;
}

static int refuse_stag_zero(struct kverbs_stale *s)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV };

	return must_refuse(s, &wr, "invalidation of STag zero");
}

static int refuse_unmapped_region(struct kverbs_stale *s)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = s->area.mr,
		.key = s->area.mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE,
	};

	return must_refuse(s, &wr.wr, "Fast-Register of nothing");
}

static int refuse_other_sink(struct kverbs_stale *s)
{
	struct ib_sge sge = { .lkey = s->area.mr->lkey, .length = 1 };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.invalidate_rkey = s->area.mr->lkey ^ 0x100,
		},
		.rkey = 0x100,
	};

	return must_refuse(s, &wr.wr, "a Read that invalidates another STag");
}

/* It has one sink, which it invalidates. */
static int refuse_two_sinks(struct kverbs_stale *s)
{
	struct ib_sge sges[2] = {
		{ .lkey = s->area.mr->lkey, .length = 1 },
		{ .lkey = s->area.mr->lkey, .length = 1 },
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.sg_list = sges,
			.num_sge = 2,
			.ex.invalidate_rkey = s->area.mr->lkey,
		},
		.rkey = 0x100,
	};

	return must_refuse(s, &wr.wr, "a Read that invalidates, with two SGEs");
}

static int refuse_inline_read(struct kverbs_stale *s)
{
	u64 data = 0;
	struct ib_sge sge = { .addr = (uintptr_t)&data, .length = 8 };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ,
			.send_flags = IB_SEND_INLINE,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.rkey = 0x100,
	};

	return must_refuse(s, &wr.wr, "an inline Read");
}

static int refuse_long_inline(struct kverbs_stale *s)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)s->area.memory,
		.length = s->ep.max_inline + 1,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
	};

	if (s->ep.max_inline >= s->area.size)
		return 0;
	return must_refuse(s, &wr, "more inline data than possible");
}

static int refuse_many_sges(struct kverbs_stale *s)
{
	struct ib_sge sge = {};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1000000,
	};
	int ret = must_refuse(s, &wr, "a million SGEs");

	wr.num_sge = -1;
	return ret ?: must_refuse(s, &wr, "less than no SGE");
}

static int refuse_unknown(struct kverbs_stale *s)
{
	struct ib_send_wr wr = { .opcode = IB_WR_RESERVED10 };

	return must_refuse(s, &wr, "an unknown work request");
}

/* What is ahead of a refused work request in a list is posted all the same. */
static int refuse_second(struct kverbs_stale *s)
{
	struct ib_send_wr bad_one = { .opcode = IB_WR_RESERVED10 };
	struct ib_send_wr good_one = {
		.next = &bad_one,
		.wr_cqe = &s->step_cqe,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = s->area.mr->rkey,
	};
	const struct ib_send_wr *bad = NULL;
	int ret;

	s->step_done = false;
	ret = ib_post_send(s->ep.id->qp, &good_one, &bad);
	if (!ret || bad != &bad_one) {
		kverbs_fail(s->ep.test, "the second of a list: %d", ret);
		return -EIO;
	}
	ret = kverbs_wait(s->ep.test, kverbs_raised(&s->step_done));
	if (!ret && s->step_wc.status != IB_WC_SUCCESS) {
		kverbs_fail(s->ep.test, "the first of a list: %s",
			    ib_wc_status_msg(s->step_wc.status));
		return -EIO;
	}
	return ret;
}

int kverbs_check_refusals(struct kverbs_stale *s)
{
	static int (* const checks[])(struct kverbs_stale *s) = {
		refuse_stag_zero,
		refuse_unmapped_region,
		refuse_other_sink,
		refuse_two_sinks,
		refuse_inline_read,
		refuse_long_inline,
		refuse_many_sges,
		refuse_unknown,
		refuse_second,
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < ARRAY_SIZE(checks) && !ret; i++)
		ret = checks[i](s);
	return ret;
}
