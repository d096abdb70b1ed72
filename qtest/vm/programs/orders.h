/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that connects to itself: its main thread owns memory and gives
 * orders; a second thread, the peer, writes to that memory and reads it over
 * the connection. An order that the device must refuse breaks the connection;
 * both then make a new one.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "common.h"

/* The most that one order may move. */
#define ORDER_MAX	(1 << 20)

/* What the peer may touch, and with which rkey. */
struct target {
	uint64_t addr;		/* TO of the first byte */
	uint32_t rkey;
	uint32_t length;
};

struct owner {
	struct endpoint ep;		/* of the connection there is now */
	struct rdma_event_channel *listener;
	struct ibv_mr *mr;
	struct order *order;		/* to send; answers come behind it */
};

/* The byte that the peer writes at i of an order with this seed. */
uint8_t pattern(uint32_t seed, uint32_t i);

/* Starts the peer, which connects to host:port, and takes its connection. */
void owner_start(struct owner *o, const char *host, const char *port);

/*
 * The peer writes pattern(seed, i) to the target, reads it back and compares;
 * to end with, it invalidates the rkey if it is told to.
 */
void order_transfer(struct owner *o, const struct target *target,
		    uint32_t seed, bool invalidate);

/* The peer reads, writes nothing. */
void order_read(struct owner *o, const struct target *target);

/*
 * The peer writes (or reads), which must break the connection. The QP, in
 * Error, stays until owner_reconnect(): what is bound to it goes first.
 */
void order_refused_write(struct owner *o, const struct target *target);
void order_refused_read(struct owner *o, const struct target *target);
void owner_reconnect(struct owner *o);

/*
 * The peer writes again and again until that is refused. Returns at once;
 * owner_await_refusal() waits for the end.
 */
void order_endless_write(struct owner *o, const struct target *target,
			 uint32_t seed);
void owner_await_refusal(struct owner *o);

/* On a connection: ends the peer, and frees all. */
void owner_end(struct owner *o);

#endif
