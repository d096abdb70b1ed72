// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: STags that are no more, see stale.h.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "kverbs.h"
#include "stale.h"

/* What fills an area. */
enum {
	OWNERS = 0x1111,	/* at first, the owner's */
	WRITTEN = 0x2222,	/* by the peer, while it may */
	OFFERED = 0x3333,	/* by the peer, for the owner to read */
	FORBIDDEN = 0x4444,	/* what the peer would write at last */
};

static int complain(struct kverbs_stale *s, const char *what)
{
	kverbs_fail(s->ep.test, "case %u %s: %s", s->ending,
		    s->read ? "Read" : "Write", what);
	return -EIO;
}

static int check_area(struct kverbs_stale *s, u64 key)
{
	kverbs_area_unmap(&s->area);
	if (kverbs_area_check(&s->area, key) < 0)
		return 0;
	return complain(s, "an octet is wrong");
}

/* ------------------------------------------------------------- the owner */

static int advertise(struct kverbs_stale *s, enum kverbs_kind kind, u32 rkey)
{
	s->out.message->address = cpu_to_be64(sg_dma_address(s->area.sg));
	s->out.message->rkey = cpu_to_be32(rkey);
	return kverbs_stale_say(s, kind, 0, 0);
}

/* The peer uses the STag; some peers end it. */
static int let_use(struct kverbs_stale *s)
{
	const struct ib_wc *wc = &s->message_wc;
	bool ends = s->ending == KVERBS_SEND_INVALIDATE ||
		    s->ending == KVERBS_SOLICITED_SEND_INVALIDATE;
	int ret;

	ret = kverbs_stale_register(s, IB_ACCESS_LOCAL_WRITE |
				       IB_ACCESS_REMOTE_WRITE |
				       IB_ACCESS_REMOTE_READ);
	if (!ret)
		ret = advertise(s, KVERBS_ADVERT, s->area.mr->rkey);
	if (!ret)
		ret = kverbs_stale_hear(s, KVERBS_REPLY);
	if (ret)
		return ret;
	if (ends != !!(wc->wc_flags & IB_WC_WITH_INVALIDATE))
		return complain(s, "wrong about what the reply invalidates");
	if (ends && wc->ex.invalidate_rkey != s->area.mr->rkey)
		return complain(s, "another STag was invalidated");
	return 0;
}

/* Into the region that the peer knows, which that invalidates. */
static int read_offer(struct kverbs_stale *s)
{
	struct ib_sge sge = kverbs_area_sge(&s->area);
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.invalidate_rkey = s->area.mr->rkey,
		},
		.remote_addr = be64_to_cpu(s->message.address),
		.rkey = be32_to_cpu(s->message.rkey),
	};

	return kverbs_stale_execute(s, &wr.wr, &wr.wr);
}

static int deregister(struct kverbs_stale *s)
{
	int ret = ib_dereg_mr(s->area.mr);

	if (ret)
		return complain(s, "ib_dereg_mr fails");
	s->area.mr = NULL;
	return 0;
}

static int register_anew(struct kverbs_stale *s)
{
	int ret = kverbs_stale_invalidate(s, s->area.mr->rkey);

	if (ret)
		return ret;
	return kverbs_stale_register(s, IB_ACCESS_LOCAL_WRITE |
					IB_ACCESS_REMOTE_WRITE |
					IB_ACCESS_REMOTE_READ);
}

static int end_stag(struct kverbs_stale *s)
{
	switch (s->ending) {
	case KVERBS_LOCAL_INVALIDATE:
		return kverbs_stale_invalidate(s, s->area.mr->rkey);
	case KVERBS_READ_INVALIDATE:
		return read_offer(s);
	case KVERBS_DEREGISTERED:
		return deregister(s);
	case KVERBS_NEW_KEY:
		return register_anew(s);
	default:
		return 0;	/* it never was one, or the peer has done it */
	}
}

static u64 expected_key(const struct kverbs_stale *s)
{
	if (s->ending == KVERBS_READ_INVALIDATE)
		return OFFERED;
	if (s->read || s->ending == KVERBS_NEVER_REGISTERED)
		return OWNERS;
	return WRITTEN;
}

/* The connection broke because a remote access was refused. */
static int await_refusal(struct kverbs_stale *s)
{
	int ret = kverbs_stale_await_break(s);

	if (!ret && s->ep.qp_event != IB_EVENT_QP_ACCESS_ERR)
		return complain(s, ib_event_msg(s->ep.qp_event));
	return ret;
}

static int own(struct kverbs_stale *s)
{
	u32 rkey = s->area.mr->rkey;
	int ret = kverbs_stale_hear(s, KVERBS_START);

	kverbs_area_fill(&s->area, OWNERS);
	if (!ret)
		ret = kverbs_stale_map(s, DMA_BIDIRECTIONAL);
	if (!ret && s->ending != KVERBS_NEVER_REGISTERED) {
		ret = let_use(s);
		rkey = s->area.mr->rkey;
	}
	if (!ret)
		ret = end_stag(s);
	kverbs_may_end(&s->ep);
	if (!ret)
		ret = advertise(s, KVERBS_STALE_ADVERT, rkey);
	if (!ret)
		ret = await_refusal(s);
	if (!ret)
		ret = check_area(s, expected_key(s));
	return ret;
}

static int own_case(struct kverbs_stale *s)
{
	u32 number = be32_to_cpu(s->ep.hello.number);
	int ret;

	if (s->ep.hello.magic != cpu_to_be32(KVERBS_MAGIC) ||
	    s->ep.hello.mode != cpu_to_be32(KVERBS_STALE) ||
	    number >= 2 * KVERBS_ENDINGS) {
		kverbs_fail(s->ep.test, "the client wants something else");
		return -EPROTO;
	}
	s->ending = number / 2;
	s->read = number % 2;
	ret = kverbs_stale_open(s);
	if (!ret)
		ret = kverbs_accept(&s->ep);
	if (!ret)
		ret = own(s);
	return ret;
}

int kverbs_stale_serve(struct kverbs_stale *s, struct kverbs_endpoint *listener)
{
	bool last = false;
	int ret = 0;

	while (!ret && !last) {
		ret = kverbs_take_request(listener, &s->ep);
		if (!ret)
			ret = own_case(s);
		last = be32_to_cpu(s->ep.hello.last);
		kverbs_stale_free(s);
	}
	if (!ret)
		pr_info("%u uses of stale STags refused\n", 2 * KVERBS_ENDINGS);
	return ret;
}

/* -------------------------------------------------------------- the peer */

/* Into an area that is cleared and mapped. */
static int read_from(struct kverbs_stale *s, bool may)
{
	int ret = kverbs_stale_register(s, IB_ACCESS_LOCAL_WRITE |
					   IB_ACCESS_REMOTE_WRITE);
	struct ib_sge sge = kverbs_area_sge(&s->area);
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = be64_to_cpu(s->message.address),
		.rkey = be32_to_cpu(s->message.rkey),
	};

	if (ret)
		return ret;
	if (may)
		return kverbs_stale_execute(s, &wr.wr, &wr.wr);
	return kverbs_stale_try(s, &wr.wr, &wr.wr);
}

/* From an area that is filled and mapped. */
static int write_to(struct kverbs_stale *s, bool may)
{
	struct ib_sge sges[8];
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.sg_list = sges,
			.num_sge = s->area.mapped,
		},
		.remote_addr = be64_to_cpu(s->message.address),
		.rkey = be32_to_cpu(s->message.rkey),
	};

	if (s->area.mapped > ARRAY_SIZE(sges))
		return complain(s, "the area has too many pages");
	kverbs_area_sges(&s->area, s->ep.pd->local_dma_lkey, sges);
	if (may)
		return kverbs_stale_execute(s, &wr.wr, &wr.wr);
	return kverbs_stale_try(s, &wr.wr, &wr.wr);
}

/* While the STag is good. */
static int use(struct kverbs_stale *s)
{
	int ret;

	if (!s->read) {
		kverbs_area_fill(&s->area, WRITTEN);
		ret = kverbs_stale_map(s, DMA_TO_DEVICE);
		if (!ret)
			ret = write_to(s, true);
		return ret ?: check_area(s, WRITTEN);
	}
	ret = kverbs_stale_map(s, DMA_FROM_DEVICE);
	if (!ret)
		ret = read_from(s, true);
	if (!ret)
		ret = kverbs_stale_invalidate(s, s->area.mr->rkey);
	return ret ?: check_area(s, OWNERS);
}

/* For the owner's Read with Invalidate. */
static int offer(struct kverbs_stale *s)
{
	int ret;

	kverbs_area_fill(&s->area, OFFERED);
	ret = kverbs_stale_map(s, DMA_TO_DEVICE);
	if (!ret)
		ret = kverbs_stale_register(s, IB_ACCESS_REMOTE_READ);
	s->out.message->address = cpu_to_be64(s->area.mr->iova);
	s->out.message->rkey = cpu_to_be32(s->area.mr->rkey);
	return ret;
}

static int take_offer_back(struct kverbs_stale *s)
{
	int ret = kverbs_stale_invalidate(s, s->area.mr->rkey);

	return ret ?: check_area(s, OFFERED);
}

static int reply(struct kverbs_stale *s, u32 rkey)
{
	if (s->ending == KVERBS_SEND_INVALIDATE)
		return kverbs_stale_say(s, KVERBS_REPLY, rkey, 0);
	if (s->ending == KVERBS_SOLICITED_SEND_INVALIDATE)
		return kverbs_stale_say(s, KVERBS_REPLY, rkey,
					IB_SEND_SOLICITED);
	return kverbs_stale_say(s, KVERBS_REPLY, 0, 0);
}

static int use_while_good(struct kverbs_stale *s)
{
	bool offers = s->ending == KVERBS_READ_INVALIDATE;
	int ret = kverbs_stale_hear(s, KVERBS_ADVERT);
	u32 rkey = be32_to_cpu(s->message.rkey);

	if (!ret)
		ret = use(s);
	if (!ret && offers)
		ret = offer(s);
	if (!ret)
		ret = reply(s, rkey);
	return ret;
}

/* A Write is complete when it is sent; a Read learns of its failure. */
static int use_stale(struct kverbs_stale *s)
{
	int ret;

	kverbs_may_end(&s->ep);
	if (!s->read) {
		kverbs_area_fill(&s->area, FORBIDDEN);
		ret = kverbs_stale_map(s, DMA_TO_DEVICE);
		if (!ret)
			ret = write_to(s, false);
		if (!ret)
			ret = kverbs_stale_await_break(s);
		return ret ?: check_area(s, FORBIDDEN);
	}
	kverbs_area_clear(&s->area);
	ret = kverbs_stale_map(s, DMA_FROM_DEVICE);
	if (!ret)
		ret = read_from(s, false);
	if (!ret && s->step_wc.status != IB_WC_REM_ACCESS_ERR)
		return complain(s, ib_wc_status_msg(s->step_wc.status));
	if (!ret)
		ret = kverbs_stale_await_break(s);
	kverbs_area_unmap(&s->area);
	if (!ret && kverbs_area_check_clear(&s->area) >= 0)
		return complain(s, "something was read");
	return ret;
}

static int be_peer(struct kverbs_stale *s)
{
	int ret = 0;

	if (s->ending == KVERBS_NEVER_REGISTERED)
		ret = kverbs_check_refusals(s);
	if (!ret)
		ret = kverbs_stale_say(s, KVERBS_START, 0, 0);
	if (!ret && s->ending != KVERBS_NEVER_REGISTERED)
		ret = use_while_good(s);
	if (!ret)
		ret = kverbs_stale_hear(s, KVERBS_STALE_ADVERT);
	if (!ret && s->ending == KVERBS_READ_INVALIDATE)
		ret = take_offer_back(s);
	return ret ?: use_stale(s);
}

static int be_peer_in_case(struct kverbs_stale *s, struct kverbs_test *test,
			   struct sockaddr *address, u32 number)
{
	struct kverbs_hello hello = {
		.magic = cpu_to_be32(KVERBS_MAGIC),
		.mode = cpu_to_be32(KVERBS_STALE),
		.number = cpu_to_be32(number),
		.last = cpu_to_be32(number == 2 * KVERBS_ENDINGS - 1),
	};
	int ret;

	s->ending = number / 2;
	s->read = number % 2;
	ret = kverbs_resolve(&s->ep, test, address);
	if (!ret)
		ret = kverbs_stale_open(s);
	if (!ret)
		ret = kverbs_connect(&s->ep, &hello);
	if (!ret)
		ret = be_peer(s);
	kverbs_stale_free(s);
	return ret;
}

int kverbs_stale_connect(struct kverbs_stale *s, struct kverbs_test *test,
			 struct sockaddr *address)
{
	int ret = 0;
	u32 number;

	for (number = 0; number < 2 * KVERBS_ENDINGS && !ret; number++)
		ret = be_peer_in_case(s, test, address, number);
	if (!ret)
		pr_info("%u stale STags tried\n", number);
	return ret;
}
