/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: data moves between two machines.
 *
 * Each end owns memory in half of the iterations. In each, the owner
 * Fast-Registers a part of an area and advertises the STag; the other end, the
 * peer, writes or reads it and replies; the peer's reply or the owner itself
 * invalidates the STag; both check every octet of their areas. Many iterations
 * are under way at once, one per slot. All this happens in completion handlers,
 * which the CQ calls one at a time.
 */
#ifndef KVERBS_TRANSFER_H
#define KVERBS_TRANSFER_H

#include <linux/prandom.h>

#include "area.h"
#include "endpoint.h"
#include "messages.h"

struct kverbs_transfer;

#define KVERBS_MAX_SGES	32

/* What one iteration does. */
struct kverbs_use {
	u32 iteration;
	u32 flags;		/* KVERBS_READ and so on */
	u32 length;
	u64 key;
	u64 address;		/* of the owner's region */
	u32 rkey;
};

struct kverbs_slot {
	struct kverbs_transfer *transfer;
	u32 index;
	struct kverbs_area area;
	struct kverbs_outgoing out;
	struct kverbs_use use;
	/* The owner's: no reply yet. The peer's: an iteration is under way. */
	bool busy;
	unsigned int awaited;	/* the owner's: what has to happen yet */
	struct ib_cqe register_cqe;
	struct ib_cqe rdma_cqe;
	struct ib_cqe invalidate_cqe;
	struct ib_cqe send_cqe;
	/* The peer's: an advert may come before the last reply's completion. */
	bool has_next;
	struct kverbs_message next;
};

/* The iterations in which this end is the owner, or in which it is the peer. */
struct kverbs_role {
	struct kverbs_slot *slots;
	u32 total;
	u32 started;
	u32 done;
};

struct kverbs_transfer {
	struct kverbs_endpoint ep;
	struct kverbs_params params;
	bool client;
	bool last;			/* no other connection follows */
	u32 max_sges;
	struct rnd_state random;	/* of this end's own iterations */
	struct kverbs_role own;
	struct kverbs_role peer;
	bool started;
	struct kverbs_outgoing out;	/* for START and BYE */
	struct ib_cqe out_cqe;
	bool out_sent;
	bool bye_sent;
	bool bye_received;
	bool complete;
	/* Of this end, as peer. */
	u64 written, read;		/* octets */
	u32 local_invalidates, remote_invalidates, read_invalidates;
};

static inline void kverbs_slot_fail(struct kverbs_slot *slot, const char *who,
				    const char *what)
{
	const struct kverbs_use *use = &slot->use;

	kverbs_fail(slot->transfer->ep.test,
		    "%s, iteration %u (%s of %u octets, flags %#x, seed %llu): %s",
		    who, use->iteration,
		    use->flags & KVERBS_READ ? "Read" : "Write", use->length,
		    use->flags, slot->transfer->params.seed, what);
}

/* Every octet of the area: false, and the test has failed, if one is wrong. */
bool kverbs_slot_check(struct kverbs_slot *slot, const char *who);

/* After an iteration: is there anything left to do? */
void kverbs_transfer_step(struct kverbs_transfer *t);

/* owner.c */
void kverbs_owner_init(struct kverbs_slot *slot);
void kverbs_owner_start(struct kverbs_slot *slot);
void kverbs_owner_reply(struct kverbs_slot *slot, const struct ib_wc *wc);

/* peer.c */
void kverbs_peer_init(struct kverbs_slot *slot);
void kverbs_peer_advert(struct kverbs_slot *slot,
			const struct kverbs_message *message);

/* In the test's thread. ep is resolved, or a request that was taken. */
int kverbs_transfer(struct kverbs_transfer *t, bool client);

#endif
