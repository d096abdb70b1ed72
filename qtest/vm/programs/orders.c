// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An owner of memory and a peer that does as it is told; see orders.h.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orders.h"

enum order_kind {
	ORDER_TRANSFER,
	ORDER_READ,
	ORDER_REFUSED_WRITE,
	ORDER_REFUSED_READ,
	ORDER_ENDLESS_WRITE,
	ORDER_END,
};

struct order {
	struct target target;
	uint32_t seed;
	uint32_t invalidate;
	uint32_t kind;
};

#define ANSWER_SIZE	16
#define ORDER_ROOM	256	/* one order, or one answer behind it */

struct peer {
	struct endpoint ep;
	struct ibv_mr *mr;
	uint8_t *data;		/* to write; what is read comes behind it */
	struct order *order;
};

static struct {
	const char *host;
	const char *port;
	struct rdma_cm_id *listener;
	pthread_t thread;
} peer_thread;

uint8_t pattern(uint32_t seed, uint32_t i)
{
	return (i * 2654435761u + seed * 40503u) >> 13;
}

/* ------------------------------------------------------------ the peer */

static void peer_post(struct peer *p, enum ibv_wr_opcode opcode, void *at)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)at,
		.length = p->order->target.length,
		.lkey = p->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = p->order->target.addr,
			.rkey = p->order->target.rkey,
		},
	};
	int ret = ibv_post_send(p->ep.id->qp, &wr, &bad);

	if (ret)
		fail("posting: %s", strerror(ret));
}

static void peer_move(struct peer *p, enum ibv_wr_opcode opcode, void *at,
		      const char *what)
{
	struct ibv_wc wc;

	peer_post(p, opcode, at);
	expect_completion(p->ep.send_cq, p->ep.send_channel, &wc, what);
}

/* Says that the order has been carried out, and that the next may come. */
static void peer_answer(struct peer *p, const struct order *done)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = done && done->invalidate ? IBV_WR_SEND_WITH_INV
						   : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.invalidate_rkey = done ? done->target.rkey : 0,
	};
	struct ibv_wc wc;
	int ret;

	post_receive(&p->ep, p->mr, p->order, sizeof(*p->order), 1);
	ret = ibv_post_send(p->ep.id->qp, &wr, &bad);
	if (ret)
		fail("posting the answer: %s", strerror(ret));
	expect_completion(p->ep.send_cq, p->ep.send_channel, &wc, "answer");
}

static void peer_transfer(struct peer *p)
{
	uint8_t *got = p->data + ORDER_MAX;

	peer_move(p, IBV_WR_RDMA_WRITE, p->data, "Write");
	memset(got, ~p->data[0], p->order->target.length);
	peer_move(p, IBV_WR_RDMA_READ, got, "Read");
	if (memcmp(got, p->data, p->order->target.length))
		fail("what was read is not what was written");
}

/* A completion tells of each Write until the connection ends. */
static void peer_write_endlessly(struct peer *p)
{
	struct ibv_wc wc;

	do {
		peer_post(p, IBV_WR_RDMA_WRITE, p->data);
		if (!wait_completions(p->ep.send_cq, p->ep.send_channel, &wc,
				      1, time_limit))
			fail("endless Write: no completion within %g s",
			     time_limit);
	} while (wc.status == IBV_WC_SUCCESS);
}

static void peer_refused(struct peer *p, enum ibv_wr_opcode opcode)
{
	peer_post(p, opcode, p->data);
	expect_and_ack(p->ep.channel, RDMA_CM_EVENT_DISCONNECTED);
}

static enum order_kind peer_obey(struct peer *p)
{
	struct order order;
	struct ibv_wc wc;
	uint32_t i;

	expect_completion(p->ep.recv_cq, p->ep.recv_channel, &wc, "order");
	order = *p->order;
	for (i = 0; i < order.target.length; i++)
		p->data[i] = pattern(order.seed, i);
	switch (order.kind) {
	case ORDER_TRANSFER:
		peer_transfer(p);
		peer_answer(p, &order);
		break;
	case ORDER_READ:
		peer_move(p, IBV_WR_RDMA_READ, p->data, "Read");
		peer_answer(p, &order);
		break;
	case ORDER_REFUSED_WRITE:
		peer_refused(p, IBV_WR_RDMA_WRITE);
		break;
	case ORDER_REFUSED_READ:
		peer_refused(p, IBV_WR_RDMA_READ);
		break;
	case ORDER_ENDLESS_WRITE:
		peer_write_endlessly(p);
		break;
	case ORDER_END:
		break;
	}
	return order.kind;
}

static bool ends_connection(enum order_kind kind)
{
	return kind != ORDER_TRANSFER && kind != ORDER_READ;
}

/* One connection, until an order ends it. */
static enum order_kind peer_serve(struct peer *p)
{
	enum order_kind kind;

	connect_to(&p->ep, peer_thread.host, peer_thread.port, NULL, 0);
	p->mr = register_memory(p->ep.id, p->data, 2 * ORDER_MAX + 4096,
				IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE);
	peer_answer(p, NULL);
	do {
		kind = peer_obey(p);
	} while (!ends_connection(kind));
	ibv_dereg_mr(p->mr);
	free_endpoint(&p->ep);
	return kind;
}

static void *peer_run(void *unused)
{
	struct peer p = { .data = allocate(2 * ORDER_MAX + 4096) };

	p.order = (struct order *)(p.data + 2 * ORDER_MAX);
	while (peer_serve(&p) != ORDER_END)
		;
	free(p.data);
	return unused;
}

/* ----------------------------------------------------------- the owner */

static void *answer_room(struct owner *o)
{
	return (uint8_t *)o->order + ORDER_ROOM;
}

static void await_answer(struct owner *o, struct ibv_wc *wc)
{
	expect_completion(o->ep.recv_cq, o->ep.recv_channel, wc, "answer");
}

void owner_reconnect(struct owner *o)
{
	struct ibv_wc wc;

	if (o->ep.id)
		free_endpoint(&o->ep);
	take_request(o->listener, &o->ep, NULL, 0);
	make_qp(&o->ep);
	o->mr = register_memory(o->ep.id, o->order, 2 * ORDER_ROOM,
				IBV_ACCESS_LOCAL_WRITE);
	post_receive(&o->ep, o->mr, answer_room(o), ANSWER_SIZE, 2);
	accept_on(&o->ep);
	await_answer(o, &wc);	/* the peer is ready for orders */
}

static void close_connection(struct owner *o)
{
	expect_and_ack(o->ep.channel, RDMA_CM_EVENT_DISCONNECTED);
	if (ibv_dereg_mr(o->mr))
		fail("ibv_dereg_mr: %m");
}

static void give_order(struct owner *o, enum order_kind kind,
		       const struct target *target, uint32_t seed,
		       bool invalidate)
{
	struct ibv_wc wc;

	*o->order = (struct order) {
		.target = *target,
		.seed = seed,
		.invalidate = invalidate,
		.kind = kind,
	};
	if (!ends_connection(kind))
		post_receive(&o->ep, o->mr, answer_room(o), ANSWER_SIZE, 2);
	post_message(&o->ep, o->mr, o->order, sizeof(*o->order), 1);
	expect_completion(o->ep.send_cq, o->ep.send_channel, &wc, "order");
}

void order_transfer(struct owner *o, const struct target *target,
		    uint32_t seed, bool invalidate)
{
	struct ibv_wc wc;

	give_order(o, ORDER_TRANSFER, target, seed, invalidate);
	await_answer(o, &wc);
	if (invalidate && (!(wc.wc_flags & IBV_WC_WITH_INV) ||
			   wc.invalidated_rkey != target->rkey))
		fail("the answer says nothing of the invalidated rkey");
}

void order_read(struct owner *o, const struct target *target)
{
	struct ibv_wc wc;

	give_order(o, ORDER_READ, target, 0, false);
	await_answer(o, &wc);
}

void owner_await_refusal(struct owner *o)
{
	close_connection(o);
}

void order_refused_write(struct owner *o, const struct target *target)
{
	give_order(o, ORDER_REFUSED_WRITE, target, 12345, false);
	close_connection(o);
}

void order_refused_read(struct owner *o, const struct target *target)
{
	give_order(o, ORDER_REFUSED_READ, target, 12345, false);
	close_connection(o);
}

void order_endless_write(struct owner *o, const struct target *target,
			 uint32_t seed)
{
	give_order(o, ORDER_ENDLESS_WRITE, target, seed, false);
}

void owner_start(struct owner *o, const char *host, const char *port)
{
	int ret;

	o->listener = make_channel();
	o->order = allocate(2 * ORDER_ROOM);
	peer_thread.host = host;
	peer_thread.port = port;
	peer_thread.listener = listen_at(o->listener, host, port);
	ret = pthread_create(&peer_thread.thread, NULL, peer_run, NULL);
	if (ret)
		fail("pthread_create: %s", strerror(ret));
	owner_reconnect(o);
}

void owner_end(struct owner *o)
{
	static const struct target none;

	give_order(o, ORDER_END, &none, 0, false);
	close_connection(o);
	free_endpoint(&o->ep);
	pthread_join(peer_thread.thread, NULL);
	rdma_destroy_id(peer_thread.listener);
	rdma_destroy_event_channel(o->listener);
	free(o->order);
}
