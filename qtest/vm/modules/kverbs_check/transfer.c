// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: data moves between two machines, see transfer.h.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/slab.h>

#include "kverbs.h"
#include "transfer.h"

/* REG_MR, RDMA operation, LOCAL_INV and Send; each for owner and peer. */
#define SENDS_PER_SLOT	8
#define POLL_BUDGET	64
#define POLL_PAUSE_US	20

bool kverbs_slot_check(struct kverbs_slot *slot, const char *who)
{
	s64 wrong = kverbs_area_check(&slot->area, slot->use.key);
	char what[80];

	if (wrong < 0) {
		kverbs_area_clear_part(&slot->area);
		return true;
	}
	snprintf(what, sizeof(what), "octet %lld is wrong, the part is %u to %u",
		 wrong, slot->area.offset,
		 slot->area.offset + slot->area.length - 1);
	kverbs_slot_fail(slot, who, what);
	return false;
}

/* ------------------------------------------------------- start and end */

static void out_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kverbs_transfer *t = container_of(wc->wr_cqe,
						 struct kverbs_transfer,
						 out_cqe);

	if (!kverbs_completed(&t->ep, wc, "a Send"))
		return;
	t->out_sent = true;
	kverbs_transfer_step(t);
}

static void say(struct kverbs_transfer *t, enum kverbs_kind kind)
{
	t->out_sent = false;
	t->out.message->kind = cpu_to_be32(kind);
	kverbs_outgoing_prepare(&t->out, &t->ep, &t->out_cqe, true);
	kverbs_post_send(&t->ep, &t->out.wr);
}

/* The client's START says that the server may send. */
static void take_start(struct kverbs_transfer *t)
{
	u32 i;

	if (t->started) {
		kverbs_fail(t->ep.test, "the peer starts twice");
		return;
	}
	t->started = true;
	if (!t->client)
		say(t, KVERBS_START);
	for (i = 0; i < t->params.slots; i++)
		kverbs_owner_start(&t->own.slots[i]);
	kverbs_transfer_step(t);
}

static void take_bye(struct kverbs_transfer *t)
{
	t->bye_received = true;
	kverbs_may_end(&t->ep);
	kverbs_transfer_step(t);
}

void kverbs_transfer_step(struct kverbs_transfer *t)
{
	if (!t->started || t->own.done < t->own.total ||
	    t->peer.done < t->peer.total || !t->out_sent)
		return;
	if (!t->bye_sent) {
		t->bye_sent = true;
		say(t, KVERBS_BYE);
	} else if (t->bye_received) {
		kverbs_raise(t->ep.test, &t->complete);
	}
}

static void receive(struct kverbs_endpoint *ep,
		    const struct kverbs_message *message,
		    const struct ib_wc *wc)
{
	struct kverbs_transfer *t = ep->context;
	u32 kind = be32_to_cpu(message->kind);
	u32 slot = be32_to_cpu(message->slot);

	if (slot >= t->params.slots || (kind != KVERBS_START && !t->started))
		kind = 0;
	switch (kind) {
	case KVERBS_START:
		take_start(t);
		break;
	case KVERBS_ADVERT:
		kverbs_peer_advert(&t->peer.slots[slot], message);
		break;
	case KVERBS_REPLY:
		kverbs_owner_reply(&t->own.slots[slot], wc);
		break;
	case KVERBS_BYE:
		take_bye(t);
		break;
	default:
		kverbs_fail(ep->test, "unexpected message %u, slot %u",
			    be32_to_cpu(message->kind), slot);
	}
}

/* ------------------------------------------------------------- resources */

static int init_role(struct kverbs_transfer *t, struct kverbs_role *role,
		     u32 total, void (*init)(struct kverbs_slot *slot))
{
	struct kverbs_slot *slot;
	int ret = 0;
	u32 i;

	role->total = total;
	role->slots = kvcalloc(t->params.slots, sizeof(*role->slots),
			       GFP_KERNEL);
	if (!role->slots)
		return -ENOMEM;
	for (i = 0; i < t->params.slots && !ret; i++) {
		slot = &role->slots[i];
		slot->transfer = t;
		slot->index = i;
		init(slot);
		ret = kverbs_area_init(&slot->area, t->ep.pd,
				       t->params.max_size);
		if (!ret)
			ret = kverbs_outgoing_init(&slot->out, &t->ep);
	}
	return ret;
}

static void free_role(struct kverbs_transfer *t, struct kverbs_role *role)
{
	u32 i;

	if (!role->slots)
		return;
	for (i = 0; i < t->params.slots; i++) {
		kverbs_area_free(&role->slots[i].area);
		kverbs_outgoing_free(&role->slots[i].out, &t->ep);
	}
	kvfree(role->slots);
}

static int open_transfer(struct kverbs_transfer *t)
{
	const struct kverbs_params *p = &t->params;
	struct kverbs_needs needs = {
		.sends = SENDS_PER_SLOT * p->slots + 2,
		.receives = 2 * p->slots + 2,
		.send_sges = min_t(u32, KVERBS_MAX_SGES,
				   t->ep.id->device->attrs.max_send_sge),
	};
	u32 rest = p->iterations / 2;
	int ret = kverbs_open(&t->ep, &needs);

	t->max_sges = needs.send_sges;
	t->ep.receive = receive;
	t->ep.context = t;
	t->out_cqe.done = out_done;
	/* Each end has random numbers of its own. */
	prandom_seed_state(&t->random, p->seed + t->client);
	if (!ret)
		ret = init_role(t, &t->own,
				t->client ? p->iterations - rest : rest,
				kverbs_owner_init);
	if (!ret)
		ret = init_role(t, &t->peer,
				t->client ? rest : p->iterations - rest,
				kverbs_peer_init);
	if (!ret)
		ret = kverbs_outgoing_init(&t->out, &t->ep);
	if (!ret)
		ret = kverbs_receives_init(&t->ep, needs.receives);
	return ret;
}

static void free_transfer(struct kverbs_transfer *t)
{
	kverbs_close(&t->ep);
	free_role(t, &t->own);
	free_role(t, &t->peer);
	if (t->out.message)
		kverbs_outgoing_free(&t->out, &t->ep);
	kverbs_free_endpoint(&t->ep);
}

/* ------------------------------------------------------------ the thread */

static int connect_transfer(struct kverbs_transfer *t)
{
	const struct kverbs_params *p = &t->params;
	struct kverbs_hello hello = {
		.magic = cpu_to_be32(KVERBS_MAGIC),
		.mode = cpu_to_be32(p->mode),
		.seed = cpu_to_be64(p->seed),
		.iterations = cpu_to_be32(p->iterations),
		.max_size = cpu_to_be32(p->max_size),
		.slots = cpu_to_be32(p->slots),
		.last = cpu_to_be32(t->last),
	};
	int ret;

	if (!t->client) {
		t->out_sent = true;
		return kverbs_accept(&t->ep);
	}
	ret = kverbs_connect(&t->ep, &hello);
	if (!ret)
		say(t, KVERBS_START);
	return ret;
}

/* What is posted is completed or flushed, so one of these will come true. */
static bool finished(struct kverbs_transfer *t)
{
	return kverbs_raised(&t->complete) || kverbs_raised(&t->ep.flushed);
}

/* With IB_POLL_DIRECT nobody else looks at the CQ. */
static int poll_until_finished(struct kverbs_transfer *t)
{
	while (!finished(t)) {
		if (kverbs_over(t->ep.test))
			return -ECANCELED;
		if (!ib_process_cq_direct(t->ep.cq, POLL_BUDGET))
			usleep_range(POLL_PAUSE_US, 2 * POLL_PAUSE_US);
		cond_resched();
	}
	return 0;
}

static int wait_until_finished(struct kverbs_transfer *t)
{
	struct kverbs_test *test = t->ep.test;
	int ret = 0;

	if (t->params.poll == IB_POLL_DIRECT)
		ret = poll_until_finished(t);
	else
		ret = kverbs_wait(test, finished(t));
	if (!ret && !kverbs_raised(&t->complete)) {
		kverbs_fail(test, "the connection ended too early");
		ret = -ECONNRESET;
	}
	return ret;
}

static void report(const struct kverbs_transfer *t, u64 start)
{
	u64 ms = div_u64(ktime_get_ns() - start, NSEC_PER_MSEC);

	pr_info("seed %llu: %u iterations as owner, %u as peer in %llu ms; as peer: wrote %llu octets, read %llu, left %u invalidations to the owner, did %u by Send, %u by Read\n",
		t->params.seed, t->own.done, t->peer.done, ms, t->written,
		t->read, t->local_invalidates, t->remote_invalidates,
		t->read_invalidates);
}

int kverbs_transfer(struct kverbs_transfer *t, bool client)
{
	u64 start;
	int ret;

	t->client = client;
	ret = open_transfer(t);
	if (!ret)
		ret = connect_transfer(t);
	start = ktime_get_ns();
	if (!ret)
		ret = wait_until_finished(t);
	if (!ret)
		report(t, start);
	free_transfer(t);
	return ret;
}
