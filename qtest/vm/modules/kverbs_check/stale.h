/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: STags that are no more.
 *
 * On a new connection for each case, the server makes an STag that its peer
 * uses with success, then ends it in one of the ways there are, and tells the
 * peer. What the peer does with it then must be refused, the connection must
 * break, and no octet may change at either end. Everything happens in the
 * test's thread, one step after the other.
 */
#ifndef KVERBS_STALE_H
#define KVERBS_STALE_H

#include "area.h"
#include "endpoint.h"
#include "messages.h"

/* The ways in which an STag is, or has become, Invalid. */
enum kverbs_ending {
	KVERBS_NEVER_REGISTERED,
	KVERBS_LOCAL_INVALIDATE,
	KVERBS_SEND_INVALIDATE,
	KVERBS_SOLICITED_SEND_INVALIDATE,
	KVERBS_READ_INVALIDATE,
	KVERBS_DEREGISTERED,
	KVERBS_NEW_KEY,
	KVERBS_ENDINGS
};

struct kverbs_stale {
	struct kverbs_endpoint ep;
	enum kverbs_ending ending;
	bool read;		/* by RDMA Read, else Write */
	struct kverbs_area area;
	struct kverbs_outgoing out;
	/* The work request that is waited for. */
	struct ib_cqe step_cqe;
	struct ib_wc step_wc;
	bool step_done;
	/* The message that has come, one at a time. */
	struct kverbs_message message;
	struct ib_wc message_wc;
	bool message_came;
};

/* All of these return 0, or the test has failed or is to end. */

/* stale_steps.c: the first is listened for, or resolved */
int kverbs_stale_open(struct kverbs_stale *s);
void kverbs_stale_free(struct kverbs_stale *s);
/* Posts a list and waits for the completion of its last one, as s->step_wc. */
int kverbs_stale_try(struct kverbs_stale *s, struct ib_send_wr *first,
		     struct ib_send_wr *last);
/* The same, and it must succeed. */
int kverbs_stale_execute(struct kverbs_stale *s, struct ib_send_wr *first,
			 struct ib_send_wr *last);
int kverbs_stale_map(struct kverbs_stale *s, enum dma_data_direction direction);
/* Fast-Registers what is mapped. */
int kverbs_stale_register(struct kverbs_stale *s, int access);
int kverbs_stale_invalidate(struct kverbs_stale *s, u32 rkey);
/* Sends s->out.message, and invalidates an STag by it if that is not zero. */
int kverbs_stale_say(struct kverbs_stale *s, enum kverbs_kind kind,
		     u32 invalidate, int flags);
int kverbs_stale_hear(struct kverbs_stale *s, enum kverbs_kind kind);
/* The connection breaks, not by this end's will. */
int kverbs_stale_await_break(struct kverbs_stale *s);

/* refusals.c: before anything is registered or mapped */
int kverbs_check_refusals(struct kverbs_stale *s);

/* stale.c: all cases */
int kverbs_stale_serve(struct kverbs_stale *s,
		       struct kverbs_endpoint *listener);
int kverbs_stale_connect(struct kverbs_stale *s, struct kverbs_test *test,
			 struct sockaddr *address);

#endif
