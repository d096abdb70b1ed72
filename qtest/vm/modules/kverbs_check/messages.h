/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: what the two ends say to each other.
 */
#ifndef KVERBS_MESSAGES_H
#define KVERBS_MESSAGES_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct kverbs_endpoint;

/* Private data of the connect request. */
struct kverbs_hello {
	__be32 magic;
	__be32 mode;		/* enum kverbs_mode */
	__be64 seed;
	__be32 iterations;
	__be32 max_size;
	__be32 slots;
	__be32 number;		/* of this connection */
	__be32 last;		/* 1: no other follows */
	__be32 reserved;
};

#define KVERBS_MAGIC	0x6b766272

enum kverbs_kind {
	KVERBS_START = 1,	/* each end's first, the client's before all */
	KVERBS_ADVERT,		/* here is a Memory Region: use it */
	KVERBS_REPLY,		/* it was used */
	KVERBS_STALE_ADVERT,	/* this was a Memory Region: try to use it */
	KVERBS_BYE,		/* the sender has nothing to do any more */
};

/* How the region of an advert is used. */
#define KVERBS_READ		BIT(0)	/* RDMA Read, else Write */
#define KVERBS_PEER_INVALIDATES	BIT(1)	/* the reply does */
#define KVERBS_SOLICITED	BIT(2)	/* the reply is */
#define KVERBS_ONE_LIST		BIT(3)	/* all work requests posted at once */
#define KVERBS_READ_INVALIDATES	BIT(4)	/* RDMA Read with Invalidate */
#define KVERBS_LOCAL_REGION	BIT(5)	/* Write from a Memory Region */
#define KVERBS_INLINE		BIT(6)	/* messages are */
#define KVERBS_ANY_FLAGS	GENMASK(6, 0)

struct kverbs_message {
	__be32 kind;
	__be32 slot;
	__be32 flags;
	__be32 length;
	__be64 address;
	__be64 key;		/* of the part's contents */
	__be32 rkey;
	__be32 offset;		/* of the part in the area of the receiver */
};

/* A message to send; one at a time. */
struct kverbs_outgoing {
	struct kverbs_message *message;
	u64 dma;
	struct ib_sge sge;
	struct ib_send_wr wr;
};

int kverbs_outgoing_init(struct kverbs_outgoing *out,
			 struct kverbs_endpoint *ep);
void kverbs_outgoing_free(struct kverbs_outgoing *out,
			  struct kverbs_endpoint *ep);
/* A signaled Send of the message, as out->wr. */
void kverbs_outgoing_prepare(struct kverbs_outgoing *out,
			     struct kverbs_endpoint *ep, struct ib_cqe *cqe,
			     bool inlined);

struct kverbs_receive;

/* Receives for count messages, which go to ep->receive(). */
int kverbs_receives_init(struct kverbs_endpoint *ep, u32 count);
void kverbs_receives_free(struct kverbs_endpoint *ep);

#endif
