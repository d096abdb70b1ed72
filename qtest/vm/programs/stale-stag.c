// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stale-stag: uses rkeys that are no more.
 *
 * On a new connection for each case, the server makes an rkey for a part of its
 * memory, the client writes or reads there; then the rkey comes to its end in
 * one of the ways that a process has, and the client tries it again. That must
 * be refused: the connection breaks, a Read fails with a remote access error,
 * and no byte changes at either end. Where the client reads, both ends poll by
 * ibv_start_poll() and so on.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define MEMORY	(64 << 10)
#define OFFSET	100		/* of the part; all around it are guards */
#define LENGTH	50000

static const char help[] =
"usage: stale-stag --server [options]\n"
"       stale-stag [options] SERVER\n"
"Ends rkeys by deregistration, deallocation, invalidation and binding anew, and\n"
"checks that what uses them afterwards is refused.\n"
"  -s, --server          serve until the client has done all\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

enum ending {
	MR_DEREGISTERED,
	MW_NEVER_BOUND,
	MW_LOCAL_INVALIDATE,
	MW_SEND_INVALIDATE,
	MW_DEALLOCATED,
	MW_BOUND_ANEW,
	ENDINGS
};

static const char * const endings[ENDINGS] = {
	"MR deregistered", "window never bound", "window invalidated locally",
	"window invalidated by Send", "window deallocated",
	"window bound with a new key",
};

/* Private data of the connect request, big endian. */
struct hello {
	uint32_t ending;
	uint32_t read;		/* the client reads, else it writes */
	uint32_t last;
};

/* From the server: the rkey, while it is good and when it is stale. */
struct message {
	uint64_t addr;
	uint32_t rkey;
	uint32_t reserved;
};

/* What fills the part. */
enum { OWNERS = 1, WRITTEN, FORBIDDEN };

struct side {
	struct endpoint ep;
	enum ending ending;
	bool read;
	uint8_t *memory;
	uint8_t *expected;
	struct message *out, *in;
	struct ibv_mr *mr;
	struct ibv_mr *message_mr;
	struct ibv_mw *mw;
};

/* ---------------------------------------------------------- both ends */

static void fill(uint8_t *memory, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < LENGTH; i++)
		memory[OFFSET + i] = (i * 2654435761u + seed * 40503u) >> 13;
}

static void check(struct side *s)
{
	uint32_t i;

	for (i = 0; i < MEMORY; i++)
		if (s->memory[i] != s->expected[i])
			fail("%s: byte %u is wrong", endings[s->ending], i);
}

static void set_up(struct side *s)
{
	s->memory = allocate(MEMORY);
	s->expected = allocate(MEMORY);
	memset(s->memory, 0xa5, MEMORY);
	memset(s->expected, 0xa5, MEMORY);
	s->out = allocate(4096);
	s->in = s->out + 1;
	s->message_mr = register_memory(s->ep.id, s->out, 4096,
					IBV_ACCESS_LOCAL_WRITE);
}

static void tear_down(struct side *s)
{
	if (s->mw && ibv_dealloc_mw(s->mw))
		fail("ibv_dealloc_mw: %m");
	if ((s->mr && ibv_dereg_mr(s->mr)) || ibv_dereg_mr(s->message_mr))
		fail("ibv_dereg_mr: %m");
	free_endpoint(&s->ep);
	free(s->memory);
	free(s->expected);
	free(s->out);
}

static void expect_message(struct side *s)
{
	post_receive(&s->ep, s->message_mr, s->in, sizeof(*s->in), 1);
}

/* One that is good; the next may come. */
static struct ibv_wc take_message(struct side *s)
{
	struct ibv_wc wc;

	expect_completion(s->ep.recv_cq, s->ep.recv_channel, &wc, "message");
	return wc;
}

static void try(struct side *s, struct ibv_send_wr *wr, struct ibv_wc *wc,
		const char *what)
{
	struct ibv_send_wr *bad;
	int ret;

	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = ibv_post_send(s->ep.id->qp, wr, &bad);
	if (ret)
		fail("%s: %s", what, strerror(ret));
	if (!wait_completions(s->ep.send_cq, s->ep.send_channel, wc, 1,
			      time_limit))
		fail("%s: no completion within %g s", what, time_limit);
}

static void execute(struct side *s, struct ibv_send_wr *wr, const char *what)
{
	struct ibv_wc wc;

	try(s, wr, &wc, what);
	check_completion(&wc, what);
}

static void send_message(struct side *s, uint32_t invalidate)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->out,
		.length = sizeof(*s->out),
		.lkey = s->message_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.invalidate_rkey = invalidate,
	};

	execute(s, &wr, "message");
}

/* The connection breaks: who waits for a message gets the Receive back. */
static void expect_break(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	if (!wait_completions(s->ep.recv_cq, s->ep.recv_channel, &wc, 1,
			      time_limit))
		fail("%s: the Receive does not come back", endings[s->ending]);
	if (wc.status != IBV_WC_WR_FLUSH_ERR)
		fail("%s: the Receive ends with %s", endings[s->ending],
		     ibv_wc_status_str(wc.status));
	expect_and_ack(s->ep.channel, RDMA_CM_EVENT_DISCONNECTED);
	if (ibv_query_qp(s->ep.id->qp, &attr, IBV_QP_STATE, &init))
		fail("ibv_query_qp: %m");
	if (attr.qp_state != IBV_QPS_ERR && attr.qp_state != IBV_QPS_SQE)
		fail("%s: the QP is in state %d", endings[s->ending],
		     attr.qp_state);
}

/* ---------------------------------------------------------- the owner */

static uint32_t register_part(struct side *s)
{
	s->mr = register_memory(s->ep.id, s->memory + OFFSET, LENGTH,
				IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ);
	return s->mr->rkey;
}

static void allocate_window(struct side *s)
{
	s->mr = register_memory(s->ep.id, s->memory, MEMORY,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	s->mw = ibv_alloc_mw(s->ep.id->pd, IBV_MW_TYPE_2);
	if (!s->mw)
		fail("ibv_alloc_mw: %m");
}

static uint32_t bind_window(struct side *s)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = s->mw,
			.rkey = ibv_inc_rkey(s->mw->rkey),
			.bind_info = {
				.mr = s->mr,
				.addr = (uintptr_t)s->memory + OFFSET,
				.length = LENGTH,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
						   IBV_ACCESS_REMOTE_READ,
			},
		},
	};

	s->mw->rkey = wr.bind_mw.rkey;
	execute(s, &wr, "bind");
	return s->mw->rkey;
}

static void invalidate_window(struct side *s)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = s->mw->rkey,
	};

	execute(s, &wr, "local invalidate");
}

static uint32_t make_rkey(struct side *s)
{
	if (s->ending == MR_DEREGISTERED)
		return register_part(s);
	allocate_window(s);
	return s->ending == MW_NEVER_BOUND ? s->mw->rkey : bind_window(s);
}

static void end_rkey(struct side *s)
{
	switch (s->ending) {
	case MR_DEREGISTERED:
		if (ibv_dereg_mr(s->mr))
			fail("ibv_dereg_mr: %m");
		s->mr = NULL;
		break;
	case MW_LOCAL_INVALIDATE:
		invalidate_window(s);
		break;
	case MW_DEALLOCATED:
		if (ibv_dealloc_mw(s->mw))
			fail("ibv_dealloc_mw: %m");
		s->mw = NULL;
		break;
	case MW_BOUND_ANEW:
		invalidate_window(s);
		bind_window(s);
		break;
	default:
		break;	/* it never was good, or the client has ended it */
	}
}

/* The client uses the rkey, and says so. */
static void let_use(struct side *s, uint32_t rkey)
{
	bool invalidates = s->ending == MW_SEND_INVALIDATE;
	struct ibv_wc wc;

	send_message(s, 0);
	wc = take_message(s);
	if (invalidates != !!(wc.wc_flags & IBV_WC_WITH_INV))
		fail("%s: the answer is wrong about that",
		     endings[s->ending]);
	if (invalidates && wc.invalidated_rkey != rkey)
		fail("%s: another one", endings[s->ending]);
	expect_message(s);
}

static void own(struct side *s)
{
	uint32_t rkey;

	fill(s->memory, OWNERS);
	rkey = make_rkey(s);
	s->out->addr = htobe64((uintptr_t)s->memory + OFFSET);
	s->out->rkey = htonl(rkey);
	take_message(s);	/* the client is ready */
	expect_message(s);
	if (s->ending != MW_NEVER_BOUND)
		let_use(s, rkey);
	end_rkey(s);
	fill(s->expected, s->read || s->ending == MW_NEVER_BOUND ?
			  OWNERS : WRITTEN);
	send_message(s, 0);
	expect_break(s);
	check(s);
}

static bool serve(struct rdma_event_channel *channel)
{
	struct hello hello;
	struct side s = { 0 };

	take_request(channel, &s.ep, &hello, sizeof(hello));
	s.ending = ntohl(hello.ending);
	s.read = ntohl(hello.read);
	use_extended = s.read;
	if (s.ending >= ENDINGS)
		fail("there is no case %d", s.ending);
	make_qp(&s.ep);
	set_up(&s);
	expect_message(&s);
	accept_on(&s.ep);
	own(&s);
	tear_down(&s);
	return !hello.last;
}

static void serve_all(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);

	while (serve(channel))
		;
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

/* ----------------------------------------------------------- the peer */

static void move(struct side *s, struct ibv_wc *wc)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->memory + OFFSET,
		.length = LENGTH,
		.lkey = s->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = s->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = be64toh(s->in->addr),
			.rkey = ntohl(s->in->rkey),
		},
	};

	try(s, &wr, wc, s->read ? "Read" : "Write");
}

static void use_good(struct side *s)
{
	struct ibv_wc wc;
	uint32_t rkey;

	take_message(s);
	if (!s->read)
		fill(s->memory, WRITTEN);
	move(s, &wc);
	check_completion(&wc, "while the rkey is good");
	fill(s->expected, s->read ? OWNERS : WRITTEN);
	check(s);
	rkey = ntohl(s->in->rkey);
	expect_message(s);
	send_message(s, s->ending == MW_SEND_INVALIDATE ? rkey : 0);
}

/* A Write is complete when it is sent; a Read learns of its failure. */
static void use_stale(struct side *s)
{
	struct ibv_wc wc;

	take_message(s);
	expect_message(s);
	fill(s->memory, FORBIDDEN);
	fill(s->expected, FORBIDDEN);
	move(s, &wc);
	if (s->read && wc.status != IBV_WC_REM_ACCESS_ERR)
		fail("%s: the Read ends with %s", endings[s->ending],
		     ibv_wc_status_str(wc.status));
	expect_break(s);
	check(s);
}

static void try_case(const char *address, const char *port, uint32_t ending,
		     bool read, bool last)
{
	struct hello hello = { htonl(ending), htonl(read), htonl(last) };
	struct side s = { .ending = ending, .read = read };

	use_extended = read;
	connect_to(&s.ep, address, port, &hello, sizeof(hello));
	set_up(&s);
	s.mr = register_memory(s.ep.id, s.memory, MEMORY,
			       IBV_ACCESS_LOCAL_WRITE |
			       IBV_ACCESS_REMOTE_WRITE);
	expect_message(&s);
	send_message(&s, 0);
	if (ending != MW_NEVER_BOUND)
		use_good(&s);
	use_stale(&s);
	tear_down(&s);
	say("%s: the %s is refused", endings[ending], read ? "Read" : "Write");
}

static void try_all(const char *address, const char *port)
{
	uint32_t ending;

	for (ending = 0; ending < ENDINGS; ending++) {
		try_case(address, port, ending, false, false);
		try_case(address, port, ending, true, ending == ENDINGS - 1);
	}
}

int main(int argc, char **argv)
{
	const char *address = NULL, *port = DEFAULT_PORT;
	bool server = false;
	int c;

	program = "stale-stag";
	while ((c = getopt_long(argc, argv, "sb:p:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'b':
			address = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		case 't':
			time_limit = parse_number(optarg, "--time-limit",
						  86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (argc - optind != !server)
		fail_usage();
	if (server)
		serve_all(address, port);
	else
		try_all(argv[optind], port);
	say("stale rkeys: ok");
	return 0;
}
