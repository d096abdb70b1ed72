// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Moving and checking data; see transfer.h.
 *
 * A pass goes so (I initiates, S serves). Who sends something that lets the
 * peer send posts the receive for it first: iWARP has no retry.
 *
 *	I START(kind, pass)    S READY(rkey, addr)
 *	Write:  I writes,      I DONE           S checks, RESULT
 *	Read:   I reads, checks, I DONE         S RESULT
 *	Send:   I a batch,     S GO, I a batch, ... S checks, RESULT
 */

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

#define GUARD		64	/* bytes around the area that must not change */
#define GUARD_BYTE	0xa5
#define MAX_SHIFT	64
#define MAX_PIECE	(1u << 20)
#define BATCH		16	/* Sends between two GOs */
#define WINDOW		32	/* WRs in flight */
#define SIGNAL_EVERY	4
#define ALL_RIGHT	UINT64_MAX

enum kind { WRITE, READ, SEND, KINDS };
static const char *const kind_names[KINDS] = { "write", "read", "send" };

enum message { START = 1, READY, GO, DONE, RESULT, END };

/* Control messages, big endian. */
struct control {
	uint32_t message;
	uint32_t kind;
	uint32_t pass;
	uint32_t rkey;
	uint64_t addr;
	uint64_t value;		/* RESULT, DONE: first bad byte, or ALL_RIGHT */
};

struct transfer {
	struct endpoint *ep;
	struct transfer_params params;
	uint8_t *memory;
	struct ibv_mr *mr;		/* what the peer may use */
	struct ibv_mr *local_mr;	/* the same memory, for this end only */
	struct control *out, *in;	/* in the registered control page */
	struct ibv_mr *control_mr;
	uint32_t read_sge;
};

/* ---------------------------------------------------------- parameters */

static void put64(uint8_t *wire, uint64_t value)
{
	value = htobe64(value);
	memcpy(wire, &value, sizeof(value));
}

static uint64_t get64(const uint8_t *wire)
{
	uint64_t value;

	memcpy(&value, wire, sizeof(value));
	return be64toh(value);
}

void pack_params(const struct transfer_params *params, uint8_t *wire)
{
	put64(wire, params->size);
	put64(wire + 8, params->seed);
	put64(wire + 16, params->iterations);
	put64(wire + 24, params->no_empty);
}

void unpack_params(const uint8_t *wire, struct transfer_params *params)
{
	params->size = get64(wire);
	params->seed = get64(wire + 8);
	params->iterations = get64(wire + 16);
	params->no_empty = get64(wire + 24);
}

/* ------------------------------------------------------------- patterns */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* What the data of this pass is made of; differs in every pass and kind. */
static uint64_t pass_key(const struct transfer *t, enum kind kind,
			 uint32_t pass)
{
	return mix(mix(t->params.seed) + pass * KINDS + kind);
}

static void fill(uint8_t *p, uint64_t length, uint64_t key)
{
	uint64_t i, word;

	for (i = 0; i < length; i += sizeof(word)) {
		word = htole64(mix(key + i / sizeof(word)));
		memcpy(p + i, &word, length - i < sizeof(word) ?
		       length - i : sizeof(word));
	}
}

/* The offset of the first byte that differs from the pattern. */
static uint64_t check(const uint8_t *p, uint64_t length, uint64_t key)
{
	uint8_t expected[sizeof(uint64_t)];
	uint64_t i, j, n;

	for (i = 0; i < length; i += sizeof(expected)) {
		n = length - i < sizeof(expected) ?
		    length - i : sizeof(expected);
		fill(expected, n, key + i / sizeof(expected));
		if (!memcmp(p + i, expected, n))
			continue;
		for (j = 0; p[i + j] == expected[j]; j++)
			;
		return i + j;
	}
	return ALL_RIGHT;
}

/* --------------------------------------------------------------- pieces */

/* One message; pieces follow each other without a gap. */
struct piece {
	uint64_t offset;
	uint32_t length;
	uint32_t index;
};

static const uint32_t lengths[] = {
	1, 0, 3, 64, 4095, 4096, 65535, MAX_PIECE, 17, 12345, 8191, 300,
};
#define LENGTHS	(sizeof(lengths) / sizeof(lengths[0]))

/* Pass 0 takes the lengths above in turn, others take any. */
static uint32_t piece_length(const struct transfer *t, uint32_t pass,
			     uint32_t index)
{
	uint64_t random = mix(t->params.seed + ((uint64_t)pass << 32) + index);
	uint32_t length = pass ? (random >> 32) % (1u << random % 21) :
			  lengths[index % LENGTHS];

	return length || !t->params.no_empty ? length : 2;
}

/* The first piece has index 0 and follows one of no length before it. */
static bool next_piece(const struct transfer *t, uint32_t pass,
		       struct piece *piece, bool first)
{
	uint64_t left;

	if (first)
		*piece = (struct piece) { 0 };
	else
		piece->index++;
	piece->offset += piece->length;
	left = t->params.size - piece->offset;
	if (!left)
		return false;
	piece->length = piece_length(t, pass, piece->index);
	if (piece->length > left)
		piece->length = left;
	return true;
}

/* The area's place in memory moves from pass to pass, at both ends apart. */
static uint8_t *area(const struct transfer *t, uint32_t pass, bool serving)
{
	uint32_t shift = serving ? pass * 7 : 5 + pass * 13;

	return t->memory + GUARD + shift % MAX_SHIFT;
}

static size_t memory_size(const struct transfer *t)
{
	return t->params.size + 2 * GUARD + MAX_SHIFT;
}

static void clear_memory(struct transfer *t)
{
	memset(t->memory, GUARD_BYTE, memory_size(t));
}

/* Were only the bytes of the area changed? */
static void check_guards(const struct transfer *t, const uint8_t *from,
			 enum kind kind)
{
	const uint8_t *p, *to = from + t->params.size;
	const uint8_t *end = t->memory + memory_size(t);

	for (p = t->memory; p < end; p++) {
		if (p == from)
			p = to;
		if (*p != GUARD_BYTE)
			fail("%s: a byte outside the area was changed, %td %s",
			     kind_names[kind], p < from ? from - p : p - to + 1,
			     p < from ? "before it" : "behind it");
	}
}

/* ------------------------------------------------------ control messages */

static void expect_control(struct transfer *t)
{
	post_receive(t->ep, t->control_mr, t->in, sizeof(*t->in), 0);
}

static void send_control(struct transfer *t, enum message message,
			 enum kind kind, uint32_t pass, uint64_t value)
{
	struct ibv_wc wc;

	*t->out = (struct control) {
		.message = htonl(message),
		.kind = htonl(kind),
		.pass = htonl(pass),
		.value = htobe64(value),
	};
	if (message == READY) {
		t->out->rkey = htonl(t->mr->rkey);
		t->out->addr = htobe64((uintptr_t)area(t, pass, true));
	}
	post_message(t->ep, t->control_mr, t->out, sizeof(*t->out), 0);
	expect_completion(t->ep->send_cq, t->ep->send_channel, &wc,
			  "control message");
}

static enum message get_control(struct transfer *t)
{
	struct ibv_wc wc;

	expect_completion(t->ep->recv_cq, t->ep->recv_channel, &wc,
			  "receiving a control message");
	if (wc.opcode != IBV_WC_RECV || wc.byte_len != sizeof(*t->in))
		fail("control message: opcode %d, %u bytes", wc.opcode,
		     wc.byte_len);
	return ntohl(t->in->message);
}

static void want_control(struct transfer *t, enum message wanted)
{
	enum message message = get_control(t);

	if (message != wanted)
		fail("expected control message %d, got %d", wanted, message);
}

/* ----------------------------------------------------------- initiating */

/* One kind in one pass, seen from the initiator. */
struct pass {
	struct transfer *t;
	enum kind kind;
	uint32_t number;
	uint32_t rkey;
	uint64_t remote;
	uint64_t posted, completed;	/* WRs, signaled or not */
	uint32_t messages;
};

/* Cuts [addr, addr + length) in 1 to max SGEs of uneven lengths. */
static int cut(struct ibv_sge *sge, uint8_t *addr, uint32_t length,
	       uint32_t lkey, uint32_t index, uint32_t max)
{
	uint32_t n = 1 + index % max, i, part;

	sge[0] = (struct ibv_sge) { (uintptr_t)addr, 0, lkey };
	if (!length)
		return index & 1;	/* one SGE of no length, or none */
	if (n > length)
		n = length;
	for (i = 0; i < n; i++) {
		part = i == n - 1 ? length : length / (n - i + 1);
		if (!part)
			part = 1;
		sge[i] = (struct ibv_sge) { (uintptr_t)addr, part, lkey };
		addr += part;
		length -= part;
	}
	return n;
}

/* Completions come in order, and a signaled one speaks for those before. */
static void reap(struct pass *p)
{
	struct endpoint *ep = p->t->ep;
	struct ibv_wc wc[8];
	int i, n;

	n = wait_completions(ep->send_cq, ep->send_channel, wc, 8, time_limit);
	if (!n)
		fail("%s: no completion within %g s", kind_names[p->kind],
		     time_limit);
	for (i = 0; i < n; i++) {
		check_completion(&wc[i], kind_names[p->kind]);
		if (wc[i].wr_id < p->completed || wc[i].wr_id >= p->posted)
			fail("%s: completion of WR %llu between %llu and %llu",
			     kind_names[p->kind],
			     (unsigned long long)wc[i].wr_id,
			     (unsigned long long)p->completed,
			     (unsigned long long)p->posted);
		p->completed = wc[i].wr_id + 1;
	}
}

static void post_piece(struct pass *p, const struct piece *piece, bool last)
{
	static const enum ibv_wr_opcode opcodes[KINDS] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
	};
	struct transfer *t = p->t;
	struct ibv_sge sge[16];
	struct ibv_send_wr wr = {
		.wr_id = p->posted,
		.sg_list = sge,
		.opcode = opcodes[p->kind],
	};
	int ret;

	wr.num_sge = cut(sge, area(t, p->number, false) + piece->offset,
			 piece->length, t->local_mr->lkey, piece->index,
			 p->kind == READ ? t->read_sge : t->ep->max_sge);
	wr.wr.rdma.rkey = p->rkey;
	wr.wr.rdma.remote_addr = p->remote + piece->offset;
	if (last || p->posted % SIGNAL_EVERY == SIGNAL_EVERY - 1)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (p->kind != READ && piece->length <= t->ep->max_inline &&
	    piece->index % 2)
		wr.send_flags |= IBV_SEND_INLINE;
	ret = post_work_request(t->ep->id->qp, &wr);
	if (ret)
		fail("%s of %u bytes in %d SGEs: %s", kind_names[p->kind],
		     piece->length, wr.num_sge, strerror(ret));
	p->posted++;
	p->messages++;
}

/* Between two batches of Sends the server has to say go. */
static void wait_go(struct pass *p, const struct piece *piece)
{
	if (p->kind != SEND || !piece->index || piece->index % BATCH)
		return;
	want_control(p->t, GO);
	expect_control(p->t);
}

static void move_all(struct pass *p)
{
	struct piece piece, following;
	bool more = next_piece(p->t, p->number, &piece, true);

	while (more) {
		following = piece;
		more = next_piece(p->t, p->number, &following, false);
		wait_go(p, &piece);
		while (p->posted - p->completed >= WINDOW)
			reap(p);
		/*
		 * Before a wait for GO nothing may be left unsignaled, or the
		 * queue's free room would not be known.
		 */
		post_piece(p, &piece,
			   !more || following.index % BATCH == 0);
		piece = following;
	}
	while (p->completed < p->posted)
		reap(p);
}

static void run_pass(struct transfer *t, enum kind kind, uint32_t number,
		     uint32_t *messages)
{
	struct pass p = { .t = t, .kind = kind, .number = number };
	uint8_t *at = area(t, number, false);
	uint64_t key = pass_key(t, kind, number), bad = ALL_RIGHT;

	clear_memory(t);
	if (kind != READ)
		fill(at, t->params.size, key);

	expect_control(t);
	send_control(t, START, kind, number, 0);
	want_control(t, READY);
	p.rkey = ntohl(t->in->rkey);
	p.remote = be64toh(t->in->addr);
	expect_control(t);
	move_all(&p);
	*messages += p.messages;

	if (kind == READ) {
		bad = check(at, t->params.size, key);
		if (bad != ALL_RIGHT)
			fail("read, pass %u: byte %llu is wrong", number,
			     (unsigned long long)bad);
		check_guards(t, at, kind);
	}
	if (kind != SEND)
		send_control(t, DONE, kind, number, bad);
	want_control(t, RESULT);
	bad = be64toh(t->in->value);
	if (bad != ALL_RIGHT)
		fail("%s, pass %u: the peer says that byte %llu is wrong",
		     kind_names[kind], number, (unsigned long long)bad);
}

void transfer_prepare(struct transfer *t)
{
	expect_control(t);
}

void transfer_initiate(struct transfer *t, const char *direction,
		       bool serve_next)
{
	uint32_t kind, pass, messages;

	for (kind = 0; kind < KINDS; kind++) {
		messages = 0;
		for (pass = 0; pass < t->params.iterations; pass++)
			run_pass(t, kind, pass, &messages);
		say("%s %s: %llu bytes in %u messages, every byte right",
		    kind_names[kind], direction,
		    (unsigned long long)(t->params.size *
					 t->params.iterations), messages);
	}
	if (serve_next)
		transfer_prepare(t);
	send_control(t, END, 0, 0, 0);
}

/* -------------------------------------------------------------- serving */

/* Receives for the pieces of one batch, one SGE each or several. */
static uint32_t post_batch(struct transfer *t, uint32_t pass,
			   struct piece *piece, bool *more)
{
	struct ibv_sge sge[16];
	struct ibv_recv_wr *bad, wr = { .sg_list = sge };
	uint32_t n;
	int ret;

	for (n = 0; *more && n < BATCH; n++) {
		wr.wr_id = piece->index;
		wr.num_sge = cut(sge, area(t, pass, true) + piece->offset,
				 piece->length, t->local_mr->lkey,
				 piece->index + 1,
				 t->ep->max_sge);
		ret = ibv_post_recv(t->ep->id->qp, &wr, &bad);
		if (ret)
			fail("ibv_post_recv: %s", strerror(ret));
		*more = next_piece(t, pass, piece, false);
	}
	return n;
}

static void receive_batch(struct transfer *t, uint32_t pass, uint32_t first,
			  uint32_t n)
{
	struct piece piece;
	struct ibv_wc wc;
	uint32_t i;

	for (i = first; i < first + n; i++) {
		expect_completion(t->ep->recv_cq, t->ep->recv_channel, &wc,
				  "receiving");
		piece.length = piece_length(t, pass, i);
		if (wc.wr_id != i)
			fail("receive %u completed as %llu", i,
			     (unsigned long long)wc.wr_id);
		/* The last piece may be shorter. */
		if (wc.byte_len > piece.length)
			fail("receive %u: %u bytes instead of %u", i,
			     wc.byte_len, piece.length);
	}
}

static void serve_sends(struct transfer *t, uint32_t pass)
{
	struct piece piece;
	bool more = next_piece(t, pass, &piece, true);
	uint32_t first = 0, n = post_batch(t, pass, &piece, &more);

	send_control(t, READY, SEND, pass, 0);
	for (;;) {
		receive_batch(t, pass, first, n);
		first += n;
		if (!more)
			break;
		n = post_batch(t, pass, &piece, &more);
		send_control(t, GO, SEND, pass, 0);
	}
	expect_control(t);
}

static void serve_one_sided(struct transfer *t, enum kind kind, uint32_t pass)
{
	expect_control(t);
	send_control(t, READY, kind, pass, 0);
	want_control(t, DONE);
	expect_control(t);
}

static void serve_pass(struct transfer *t, enum kind kind, uint32_t pass)
{
	uint8_t *at = area(t, pass, true);
	uint64_t key = pass_key(t, kind, pass), bad;

	clear_memory(t);
	if (kind == READ)
		fill(at, t->params.size, key);
	if (kind == SEND)
		serve_sends(t, pass);
	else
		serve_one_sided(t, kind, pass);

	bad = check(at, t->params.size, key);
	send_control(t, RESULT, kind, pass, bad);
	if (bad != ALL_RIGHT)
		fail("%s, pass %u: byte %llu is wrong", kind_names[kind], pass,
		     (unsigned long long)bad);
	check_guards(t, at, kind);
}

void transfer_serve(struct transfer *t)
{
	enum message message;

	while ((message = get_control(t)) != END) {
		if (message != START)
			fail("expected START, got control message %d",
			     message);
		if (ntohl(t->in->kind) >= KINDS)
			fail("no such kind: %u", ntohl(t->in->kind));
		serve_pass(t, ntohl(t->in->kind), ntohl(t->in->pass));
	}
}

/* --------------------------------------------------------- life and end */

struct transfer *transfer_new(struct endpoint *ep,
			      const struct transfer_params *params)
{
	struct transfer *t = allocate(sizeof(*t));
	struct ibv_device_attr device;

	t->ep = ep;
	t->params = *params;
	t->memory = allocate(memory_size(t));
	t->mr = register_memory(ep->id, t->memory, memory_size(t),
				IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ);
	t->local_mr = register_memory(ep->id, t->memory, memory_size(t),
				      IBV_ACCESS_LOCAL_WRITE);
	t->out = allocate(2 * sizeof(struct control));
	t->in = t->out + 1;
	t->control_mr = register_memory(ep->id, t->out,
					2 * sizeof(struct control),
					IBV_ACCESS_LOCAL_WRITE);
	if (ibv_query_device(ep->id->verbs, &device))
		fail("ibv_query_device failed");
	t->read_sge = device.max_sge_rd > 1 ? device.max_sge_rd : 1;
	if (t->read_sge > ep->max_sge)
		t->read_sge = ep->max_sge;
	return t;
}

void transfer_free(struct transfer *t)
{
	if (ibv_dereg_mr(t->mr) || ibv_dereg_mr(t->local_mr) ||
	    ibv_dereg_mr(t->control_mr))
		fail("ibv_dereg_mr failed");
	free(t->memory);
	free(t->out);
	free(t);
}
