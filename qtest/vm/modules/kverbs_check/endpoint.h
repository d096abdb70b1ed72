/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: one end of a connection, from an address to a QP and back.
 */
#ifndef KVERBS_ENDPOINT_H
#define KVERBS_ENDPOINT_H

#include <linux/socket.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "kverbs.h"
#include "messages.h"

enum kverbs_state {
	KVERBS_NEW,
	KVERBS_ADDRESS_RESOLVED,
	KVERBS_ROUTE_RESOLVED,
	KVERBS_ESTABLISHED,
	KVERBS_DISCONNECTED,
};

struct kverbs_endpoint {
	struct kverbs_test *test;
	struct rdma_cm_id *id;
	enum kverbs_state state;
	struct ib_pd *pd;
	struct ib_cq *cq;
	u32 max_inline;
	spinlock_t post_lock;	/* posting, and these */
	bool closing;		/* nothing is posted any more */
	bool ends;		/* it is right that work is flushed */
	bool flushed;		/* it was */
	enum ib_event_type qp_event;	/* the last */
	bool had_qp_event;
	struct kverbs_receive *receives;
	u32 num_receives;
	/* Called by the CQ, one at a time. */
	void (*receive)(struct kverbs_endpoint *ep,
			const struct kverbs_message *message,
			const struct ib_wc *wc);
	void *context;
	/* A listener's: a connect request that nobody has taken yet. */
	bool requested;
	struct rdma_cm_id *request;
	struct kverbs_hello hello;
};

/* Work requests of an endpoint at once, and SGEs of one. */
struct kverbs_needs {
	u32 sends;
	u32 receives;
	u32 send_sges;
};

/* To be freed, whether they succeed or not. */
int kverbs_listen(struct kverbs_endpoint *ep, struct kverbs_test *test,
		  struct sockaddr *address);
int kverbs_resolve(struct kverbs_endpoint *ep, struct kverbs_test *test,
		   struct sockaddr *address);
/* Waits for a connect request and makes it an endpoint. */
int kverbs_take_request(struct kverbs_endpoint *listener,
			struct kverbs_endpoint *ep);

/* PD, CQ and QP; then Receives, then the connection. */
int kverbs_open(struct kverbs_endpoint *ep, const struct kverbs_needs *needs);
int kverbs_connect(struct kverbs_endpoint *ep,
		   const struct kverbs_hello *hello);
int kverbs_accept(struct kverbs_endpoint *ep);

/* Dropped when the endpoint is closing, and a failure if refused. */
void kverbs_post_send(struct kverbs_endpoint *ep, struct ib_send_wr *wr);
void kverbs_post_receive(struct kverbs_endpoint *ep, struct ib_recv_wr *wr);
/* Was it a success? If not, that may be a failure of the test. */
bool kverbs_completed(struct kverbs_endpoint *ep, const struct ib_wc *wc,
		      const char *what);
/* For work requests that are not signaled: no success is reported. */
void kverbs_unsignaled(struct kverbs_endpoint *ep, const struct ib_wc *wc,
		       const char *what);
/* From now on it is right that work is flushed. */
void kverbs_may_end(struct kverbs_endpoint *ep);

/* Disconnects; when it returns, nothing is under way any more. */
void kverbs_close(struct kverbs_endpoint *ep);
void kverbs_free_endpoint(struct kverbs_endpoint *ep);

#endif
