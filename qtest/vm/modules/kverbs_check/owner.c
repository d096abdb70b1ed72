// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: the owner's side of an iteration, see transfer.h.
 */

#include "kverbs.h"
#include "transfer.h"

static const char who[] = "owner";

/* Small lengths are as frequent as large ones. */
static u32 random_length(struct kverbs_transfer *t)
{
	u32 max = t->params.max_size;
	u32 bits = prandom_u32_state(&t->random) % (fls(max) + 1);

	return 1 + prandom_u32_state(&t->random) % min_t(u32, BIT(bits), max);
}

static u32 random_offset(struct kverbs_slot *slot, u32 length)
{
	return kverbs_area_offset(&slot->area, length,
				  prandom_u32_state(&slot->transfer->random));
}

/*
 * Iterations start in the order of their numbers, so that each draws the same
 * random numbers whatever the timing.
 */
static void choose_use(struct kverbs_slot *slot)
{
	struct kverbs_transfer *t = slot->transfer;
	struct kverbs_use *use = &slot->use;
	u32 length = random_length(t);

	*use = (struct kverbs_use) {
		.iteration = t->own.started++,
		.flags = prandom_u32_state(&t->random) & KVERBS_ANY_FLAGS,
		.length = length,
		.key = (u64)prandom_u32_state(&t->random) << 32 |
		       prandom_u32_state(&t->random),
	};
	kverbs_area_choose(&slot->area, random_offset(slot, length), length);
}

static void fill_advert(struct kverbs_slot *slot)
{
	const struct kverbs_use *use = &slot->use;

	*slot->out.message = (struct kverbs_message) {
		.kind = cpu_to_be32(KVERBS_ADVERT),
		.slot = cpu_to_be32(slot->index),
		.flags = cpu_to_be32(use->flags),
		.length = cpu_to_be32(use->length),
		.address = cpu_to_be64(use->address),
		.key = cpu_to_be64(use->key),
		.rkey = cpu_to_be32(use->rkey),
		.offset = cpu_to_be32(random_offset(slot, use->length)),
	};
}

/* The Send needs no completion of the Fast-Register before it. */
static void advertise(struct kverbs_slot *slot, struct ib_reg_wr *reg)
{
	struct kverbs_transfer *t = slot->transfer;

	slot->use.address = slot->area.mr->iova;
	slot->use.rkey = slot->area.mr->rkey;
	fill_advert(slot);
	kverbs_outgoing_prepare(&slot->out, &t->ep, &slot->send_cqe,
				slot->use.flags & KVERBS_INLINE);
	reg->wr.wr_cqe = &slot->register_cqe;
	reg->wr.next = &slot->out.wr;
	slot->busy = true;
	slot->awaited = 2;	/* the Send's completion and the reply */
	kverbs_post_send(&t->ep, &reg->wr);
}

void kverbs_owner_start(struct kverbs_slot *slot)
{
	struct kverbs_transfer *t = slot->transfer;
	struct ib_reg_wr reg;
	bool read;

	if (t->own.started == t->own.total)
		return;
	choose_use(slot);
	read = slot->use.flags & KVERBS_READ;
	if (read)
		kverbs_area_fill(&slot->area, slot->use.key);
	if (kverbs_area_map(&slot->area,
			    read ? DMA_TO_DEVICE : DMA_FROM_DEVICE) ||
	    kverbs_area_register(&slot->area, &reg,
				 read ? IB_ACCESS_REMOTE_READ :
					IB_ACCESS_LOCAL_WRITE |
					IB_ACCESS_REMOTE_WRITE |
					IB_ACCESS_REMOTE_ATOMIC)) {
		kverbs_slot_fail(slot, who, "cannot map the area");
		return;
	}
	advertise(slot, &reg);
}

static void happened(struct kverbs_slot *slot)
{
	struct kverbs_transfer *t = slot->transfer;

	if (--slot->awaited)
		return;
	/* Only now, with the STag Invalid, is the memory ours. */
	kverbs_area_unmap(&slot->area);
	if (!kverbs_slot_check(slot, who))
		return;
	t->own.done++;
	kverbs_owner_start(slot);
	kverbs_transfer_step(t);
}

static void invalidate(struct kverbs_slot *slot)
{
	struct ib_send_wr wr = {
		.wr_cqe = &slot->invalidate_cqe,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = slot->use.rkey,
	};

	slot->awaited++;
	kverbs_post_send(&slot->transfer->ep, &wr);
}

void kverbs_owner_reply(struct kverbs_slot *slot, const struct ib_wc *wc)
{
	bool invalidated = wc->wc_flags & IB_WC_WITH_INVALIDATE;

	if (!slot->busy) {
		kverbs_slot_fail(slot, who, "a reply that nobody awaits");
		return;
	}
	slot->busy = false;
	if (invalidated != !!(slot->use.flags & KVERBS_PEER_INVALIDATES)) {
		kverbs_slot_fail(slot, who, invalidated ?
				 "the reply has invalidated something" :
				 "the reply has invalidated nothing");
		return;
	}
	if (invalidated && wc->ex.invalidate_rkey != slot->use.rkey) {
		kverbs_slot_fail(slot, who, "another STag was invalidated");
		return;
	}
	if (!invalidated)
		invalidate(slot);
	happened(slot);
}

static void register_done(struct ib_cq *cq, struct ib_wc *wc)
{
	kverbs_unsignaled(cq->cq_context, wc, "the owner's Fast-Register");
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (kverbs_completed(cq->cq_context, wc, "the owner's Send"))
		happened(container_of(wc->wr_cqe, struct kverbs_slot,
				      send_cqe));
}

static void invalidate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (kverbs_completed(cq->cq_context, wc, "the owner's invalidation"))
		happened(container_of(wc->wr_cqe, struct kverbs_slot,
				      invalidate_cqe));
}

void kverbs_owner_init(struct kverbs_slot *slot)
{
	slot->register_cqe.done = register_done;
	slot->send_cqe.done = send_done;
	slot->invalidate_cqe.done = invalidate_done;
}
