// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: the peer's side of an iteration, see transfer.h.
 */

#include "kverbs.h"
#include "transfer.h"

static const char who[] = "peer";

/* The work requests of an iteration, as far as they are posted at once. */
struct peer_list {
	struct ib_send_wr *first;
	struct ib_send_wr **end;
	struct ib_reg_wr reg;
	struct ib_rdma_wr rdma;
	struct ib_send_wr invalidate;
	struct ib_sge sges[KVERBS_MAX_SGES];
};

static void append(struct peer_list *list, struct ib_send_wr *wr)
{
	wr->next = NULL;
	*list->end = wr;
	list->end = &wr->next;
}

static void post(struct kverbs_slot *slot, struct peer_list *list)
{
	kverbs_post_send(&slot->transfer->ep, list->first);
}

static bool reads(const struct kverbs_slot *slot)
{
	return slot->use.flags & KVERBS_READ;
}

static bool read_invalidates(const struct kverbs_slot *slot)
{
	return reads(slot) && (slot->use.flags & KVERBS_READ_INVALIDATES);
}

/* iWARP has no local_dma_lkey for what a Read brings. */
static bool uses_region(const struct kverbs_slot *slot)
{
	return reads(slot) || (slot->use.flags & KVERBS_LOCAL_REGION) ||
	       slot->area.mapped > slot->transfer->max_sges;
}

static bool one_list(const struct kverbs_slot *slot)
{
	return slot->use.flags & KVERBS_ONE_LIST;
}

/* ------------------------------------------------------ the work requests */

static int add_register(struct kverbs_slot *slot, struct peer_list *list)
{
	/* By the RDMAP standard, what a Read brings is written remotely. */
	int access = reads(slot) ?
		     IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE : 0;
	int ret = kverbs_area_register(&slot->area, &list->reg, access);

	list->reg.wr.wr_cqe = &slot->register_cqe;
	append(list, &list->reg.wr);
	return ret;
}

static void add_rdma(struct kverbs_slot *slot, struct peer_list *list)
{
	const struct kverbs_use *use = &slot->use;

	list->rdma = (struct ib_rdma_wr) {
		.wr = {
			.wr_cqe = &slot->rdma_cqe,
			.opcode = reads(slot) ? IB_WR_RDMA_READ :
						IB_WR_RDMA_WRITE,
			.send_flags = one_list(slot) ? 0 : IB_SEND_SIGNALED,
			.sg_list = list->sges,
			.num_sge = slot->area.mapped,
		},
		.remote_addr = use->address,
		.rkey = use->rkey,
	};
	if (uses_region(slot)) {
		list->sges[0] = kverbs_area_sge(&slot->area);
		list->rdma.wr.num_sge = 1;
	} else {
		kverbs_area_sges(&slot->area,
				 slot->transfer->ep.pd->local_dma_lkey,
				 list->sges);
	}
	if (read_invalidates(slot)) {
		list->rdma.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
		list->rdma.wr.ex.invalidate_rkey = slot->area.mr->rkey;
	}
	append(list, &list->rdma.wr);
}

/* The fence: what is ahead may still use the region. */
static void add_invalidate(struct kverbs_slot *slot, struct peer_list *list)
{
	list->invalidate = (struct ib_send_wr) {
		.wr_cqe = &slot->invalidate_cqe,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_FENCE,
		.ex.invalidate_rkey = slot->area.mr->rkey,
	};
	append(list, &list->invalidate);
}

/* The fence: the owner must not take its region back from under a Read. */
static void add_reply(struct kverbs_slot *slot, struct peer_list *list)
{
	const struct kverbs_use *use = &slot->use;
	struct ib_send_wr *wr = &slot->out.wr;

	*slot->out.message = (struct kverbs_message) {
		.kind = cpu_to_be32(KVERBS_REPLY),
		.slot = cpu_to_be32(slot->index),
	};
	kverbs_outgoing_prepare(&slot->out, &slot->transfer->ep,
				&slot->send_cqe, use->flags & KVERBS_INLINE);
	if (use->flags & KVERBS_PEER_INVALIDATES) {
		wr->opcode = IB_WR_SEND_WITH_INV;
		wr->ex.invalidate_rkey = use->rkey;
	}
	if (use->flags & KVERBS_SOLICITED)
		wr->send_flags |= IB_SEND_SOLICITED;
	if (reads(slot))
		wr->send_flags |= IB_SEND_FENCE;
	append(list, wr);
}

/* What comes behind the RDMA operation. */
static void add_rest(struct kverbs_slot *slot, struct peer_list *list)
{
	if (uses_region(slot) && !read_invalidates(slot))
		add_invalidate(slot, list);
	add_reply(slot, list);
}

/* -------------------------------------------------------------- iteration */

static bool take_use(struct kverbs_slot *slot,
		     const struct kverbs_message *message)
{
	slot->use = (struct kverbs_use) {
		.iteration = slot->transfer->peer.started++,
		.flags = be32_to_cpu(message->flags),
		.length = be32_to_cpu(message->length),
		.key = be64_to_cpu(message->key),
		.address = be64_to_cpu(message->address),
		.rkey = be32_to_cpu(message->rkey),
	};
	return kverbs_area_choose(&slot->area, be32_to_cpu(message->offset),
				  slot->use.length);
}

static void start(struct kverbs_slot *slot,
		  const struct kverbs_message *message)
{
	struct peer_list list = { .end = &list.first };

	slot->busy = true;
	if (!take_use(slot, message)) {
		kverbs_slot_fail(slot, who, "not a possible advert");
		return;
	}
	if (!reads(slot))
		kverbs_area_fill(&slot->area, slot->use.key);
	if (kverbs_area_map(&slot->area, reads(slot) ? DMA_FROM_DEVICE :
						       DMA_TO_DEVICE) ||
	    (uses_region(slot) && add_register(slot, &list))) {
		kverbs_slot_fail(slot, who, "cannot map the area");
		return;
	}
	add_rdma(slot, &list);
	if (one_list(slot))
		add_rest(slot, &list);
	post(slot, &list);
}

void kverbs_peer_advert(struct kverbs_slot *slot,
			const struct kverbs_message *message)
{
	if (!slot->busy) {
		start(slot, message);
	} else if (!slot->has_next) {
		slot->has_next = true;
		slot->next = *message;
	} else {
		kverbs_slot_fail(slot, who, "too many adverts");
	}
}

static void count(struct kverbs_slot *slot)
{
	struct kverbs_transfer *t = slot->transfer;
	const struct kverbs_use *use = &slot->use;

	t->peer.done++;
	*(reads(slot) ? &t->read : &t->written) += use->length;
	if (read_invalidates(slot))
		t->read_invalidates++;
	if (use->flags & KVERBS_PEER_INVALIDATES)
		t->remote_invalidates++;
	else
		t->local_invalidates++;
}

static void check_once(struct kverbs_slot *slot)
{
	if (!slot->area.pages)
		return;
	kverbs_area_unmap(&slot->area);
	kverbs_slot_check(slot, who);
}

static void finish(struct kverbs_slot *slot)
{
	check_once(slot);
	count(slot);
	slot->busy = false;
	if (slot->has_next) {
		slot->has_next = false;
		start(slot, &slot->next);
	}
	kverbs_transfer_step(slot->transfer);
}

/* ------------------------------------------------------------ completions */

static void register_done(struct ib_cq *cq, struct ib_wc *wc)
{
	kverbs_unsignaled(cq->cq_context, wc, "the peer's Fast-Register");
}

static void invalidate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	kverbs_unsignaled(cq->cq_context, wc, "the peer's invalidation");
}

static void rdma_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kverbs_slot *slot = container_of(wc->wr_cqe,
						struct kverbs_slot, rdma_cqe);
	struct peer_list list = { .end = &list.first };

	if (!kverbs_completed(cq->cq_context, wc,
			      reads(slot) ? "RDMA Read" : "RDMA Write"))
		return;
	if (one_list(slot)) {
		kverbs_slot_fail(slot, who, "a completion not asked for");
		return;
	}
	/* The data is there, and the sink's STag is Invalid already. */
	if (read_invalidates(slot))
		check_once(slot);
	add_rest(slot, &list);
	post(slot, &list);
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (kverbs_completed(cq->cq_context, wc, "the peer's Send"))
		finish(container_of(wc->wr_cqe, struct kverbs_slot, send_cqe));
}

void kverbs_peer_init(struct kverbs_slot *slot)
{
	slot->register_cqe.done = register_done;
	slot->rdma_cqe.done = rdma_done;
	slot->invalidate_cqe.done = invalidate_done;
	slot->send_cqe.done = send_done;
}
