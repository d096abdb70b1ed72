/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moving data over an established connection by RDMA Write, RDMA Read and
 * Send, and checking every byte of it. One end initiates, the other serves;
 * both know what each byte must be from the parameters alone.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "common.h"

struct transfer_params {
	uint64_t size;		/* bytes that each kind moves in one pass */
	uint64_t seed;
	uint32_t iterations;	/* passes */
	uint32_t no_empty;	/* no messages of no bytes */
};

/* The parameters travel in the private data of the connect request. */
#define PARAMS_WIRE_SIZE	32
void pack_params(const struct transfer_params *params, uint8_t *wire);
void unpack_params(const uint8_t *wire, struct transfer_params *params);

/*
 * To be ready for an initiator, the server calls transfer_prepare() before it
 * accepts the connection; an initiator that is to serve next says so.
 */
struct transfer;
struct transfer *transfer_new(struct endpoint *ep,
			      const struct transfer_params *params);
void transfer_prepare(struct transfer *t);
void transfer_serve(struct transfer *t);
/* Fails at the first wrong byte; prints a line for each kind. */
void transfer_initiate(struct transfer *t, const char *direction,
		       bool serve_next);
void transfer_free(struct transfer *t);

#endif
