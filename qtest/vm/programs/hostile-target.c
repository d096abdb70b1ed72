// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hostile-target: the guest's end of the connections of qtest/hostile-peer. It
 * accepts all that connect, has memory with all kinds of rights for them, echoes
 * what they send, reads from them when they ask, and checks that no octet has
 * changed that nobody may write to. Or it connects, again and again, and says how
 * each attempt has ended.
 */

#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define REGION		4096	/* and as much between two regions */
#define FREE		2048	/* that many of region 0 peers may write to */
#define MAX_CLIENTS	256
#define RECEIVES	8	/* of a connection */
#define SLOT		64	/* octets of a receive, and as many behind it */
#define SINK		(2 * SLOT * RECEIVES)	/* of Reads: of this many octets */
#define SINK_SIZE	256
#define CLIENT_MEMORY	(SINK + 2 * SINK_SIZE)
#define READ_DEPTH	4
#define DATA_MAX	255	/* what struct rdma_conn_param can say */

static const char help[] =
"usage: hostile-target --server [options]\n"
"       hostile-target --connects N [options] SERVER\n"
"The target of qtest/hostile-peer.\n"
"  -s, --server          serve until a request says \"end!\"\n"
"  -c, --connects N      connect N times; a line for each says how it ended\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "connects", required_argument, NULL, 'c' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The regions of memory, in the order of the Reply's private data. */
enum { FREE_REGION, READ_ONLY, WRITE_ONLY, LOCAL, FOREIGN, STALE, REGIONS };

static const int rights[REGIONS] = {
	[FREE_REGION] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	[READ_ONLY] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	[WRITE_ONLY] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	[LOCAL] = IBV_ACCESS_LOCAL_WRITE,
	[FOREIGN] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		    IBV_ACCESS_REMOTE_READ,
	[STALE] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_READ,
};

struct request {		/* private data of a Request, big endian */
	uint8_t letter;		/* 'h' */
	uint8_t receives;	/* posted before the Reply */
	uint16_t again;		/* another one for each that is used */
};

struct place {
	uint64_t addr;
	uint32_t rkey;
} __attribute__((packed));

struct answer {			/* private data of the Reply, big endian */
	uint32_t size;		/* of a region */
	uint32_t read_depth;
	struct place places[REGIONS];
} __attribute__((packed));

struct order {			/* a Send to us, big endian */
	uint8_t letter;
	uint8_t unused[3];
	uint32_t rkey;
	uint64_t addr;
	uint32_t length;
} __attribute__((packed));

struct client {
	struct rdma_cm_id *id;	/* NULL: not in use */
	uint32_t generation;
	bool again;
	uint8_t *memory;	/* slots and sink */
};

struct server {
	struct rdma_event_channel *channel;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	struct ibv_pd *pd;	/* our own: librdmacm's goes with the last id */
	struct ibv_pd *foreign_pd;
	uint8_t *regions;
	uint8_t *memory;
	struct ibv_mr *mr;	/* of memory */
	struct answer answer;
	struct client clients[MAX_CLIENTS];
	unsigned connections;
	unsigned most;		/* at the same time */
	unsigned in_use;
	bool over;
};

/* ---------------------------------------------------------------- memory */

static uint8_t untouched(size_t at)
{
	return 7 * at + (at >> 8) + 0x5a;
}

static void fill(uint8_t *memory, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		memory[i] = untouched(i);
}

static void check(const uint8_t *memory, size_t from, size_t to,
		  const char *what)
{
	size_t i;

	for (i = from; i < to; i++)
		if (memory[i] != untouched(i))
			fail("%s: octet %zu is 0x%02x, not 0x%02x", what, i,
			     memory[i], untouched(i));
}

/* Peers may write to the first half of region 0, and of WRITE_ONLY. */
static void check_regions(const struct server *s)
{
	size_t free_one = REGION, write_only = REGION * (2 * WRITE_ONLY + 1);

	check(s->regions, 0, free_one, "regions");
	check(s->regions, free_one + FREE, write_only, "regions");
	check(s->regions, write_only + FREE, REGION * (2 * REGIONS + 1),
	      "regions");
}

/* Nothing behind a receive or the sink. */
static void check_client(const struct client *c)
{
	unsigned i;

	for (i = 0; i < RECEIVES; i++)
		check(c->memory, 2 * SLOT * i + SLOT, 2 * SLOT * (i + 1),
		      "behind a receive");
	check(c->memory, SINK + SINK_SIZE, CLIENT_MEMORY, "behind the sink");
}

static struct ibv_pd *make_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);

	if (!pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	return pd;
}

static void register_regions(struct server *s)
{
	struct ibv_mr *mr;
	uint8_t *addr;
	int i;

	s->answer.size = htobe32(REGION);
	s->answer.read_depth = htobe32(READ_DEPTH);
	for (i = 0; i < REGIONS; i++) {
		addr = s->regions + REGION * (2 * i + 1);
		mr = ibv_reg_mr(i == FOREIGN ? s->foreign_pd : s->pd, addr,
				REGION, rights[i]);
		if (!mr)
			fail("ibv_reg_mr: %s", strerror(errno));
		s->answer.places[i].addr = htobe64((uintptr_t)addr);
		s->answer.places[i].rkey = htobe32(mr->rkey);
		if (i == STALE && ibv_dereg_mr(mr))
			fail("ibv_dereg_mr: %s", strerror(errno));
	}
	s->mr = ibv_reg_mr(s->pd, s->memory, MAX_CLIENTS * CLIENT_MEMORY,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!s->mr)
		fail("ibv_reg_mr: %s", strerror(errno));
}

/* ----------------------------------------------------------- connections */

/* What all QPs share: the first of them has shown the device. */
static void make_shared(struct server *s, struct ibv_context *context)
{
	s->comp_channel = ibv_create_comp_channel(context);
	if (!s->comp_channel)
		fail("ibv_create_comp_channel: %s", strerror(errno));
	s->cq = ibv_create_cq(context, MAX_CLIENTS * 64, NULL, s->comp_channel, 0);
	if (!s->cq || ibv_req_notify_cq(s->cq, 0))
		fail("ibv_create_cq: %s", strerror(errno));
	s->pd = make_pd(context);
	s->foreign_pd = make_pd(context);
	register_regions(s);
}

static bool make_client_qp(struct server *s, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 32, .max_recv_wr = RECEIVES,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = SLOT },
	};

	if (!s->cq)
		make_shared(s, id->verbs);
	attr.send_cq = attr.recv_cq = s->cq;
	return !rdma_create_qp(id, s->pd, &attr);
}

static uint64_t client_wr_id(const struct server *s, const struct client *c,
			     unsigned slot)
{
	return (uint64_t)c->generation << 32 | (c - s->clients) << 8 | slot;
}

static void post_slot(struct server *s, struct client *c, unsigned slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(c->memory + 2 * SLOT * slot),
		.length = SLOT, .lkey = s->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = client_wr_id(s, c, slot), .sg_list = &sge, .num_sge = 1,
	};

	if (ibv_post_recv(c->id->qp, &wr, &bad))
		fail("ibv_post_recv: %s", strerror(errno));
}

static struct client *unused_client(struct server *s)
{
	unsigned i;

	for (i = 0; i < MAX_CLIENTS; i++)
		if (!s->clients[i].id)
			return &s->clients[i];
	return NULL;
}

static void forget(struct server *s, struct rdma_cm_id *id)
{
	struct client *c = id->context;

	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
	check_regions(s);
	if (c) {
		check_client(c);
		c->id = NULL;
		s->in_use--;
	}
}

static bool accept_client(struct server *s, struct client *c)
{
	struct rdma_conn_param param = {
		.private_data = &s->answer, .private_data_len = sizeof(s->answer),
		.responder_resources = READ_DEPTH, .initiator_depth = READ_DEPTH,
	};

	return !rdma_accept(c->id, &param);
}

static void take_client(struct server *s, struct rdma_cm_id *id,
			const struct request *request)
{
	struct client *c = unused_client(s);
	unsigned i;

	id->context = NULL;
	if (!c || !make_client_qp(s, id)) {
		rdma_reject(id, NULL, 0);
		forget(s, id);
		return;
	}
	s->connections++;
	if (++s->in_use > s->most)
		s->most = s->in_use;
	id->context = c;
	c->id = id;
	c->generation++;
	c->again = request->again;
	c->memory = s->memory + CLIENT_MEMORY * (c - s->clients);
	fill(c->memory, CLIENT_MEMORY);
	for (i = 0; i < request->receives && i < RECEIVES; i++)
		post_slot(s, c, i);
	if (!accept_client(s, c))	/* the peer has left already */
		forget(s, id);
}

static void handle_request(struct server *s, struct rdma_cm_id *id,
			   const void *data, unsigned length)
{
	struct request request = { .receives = RECEIVES, .again = 1 };

	if (length >= 4 && !memcmp(data, "end!", 4)) {
		rdma_reject(id, NULL, 0);
		id->context = NULL;
		forget(s, id);
		s->over = true;
		return;
	}
	if (length >= sizeof(request) && *(const uint8_t *)data == 'h')
		memcpy(&request, data, sizeof(request));
	take_client(s, id, &request);
}

static void handle_event(struct server *s, struct rdma_cm_event *event)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	unsigned length = event->param.conn.private_data_len;
	uint8_t data[DATA_MAX];

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		memcpy(data, event->param.conn.private_data, length);
	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		handle_request(s, id, data, length);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		fail("the device has gone");
	default:
		forget(s, id);
		break;
	}
}

/* ----------------------------------------------------------- completions */

static void post_order(struct server *s, struct client *c,
		       enum ibv_wr_opcode opcode, const struct order *order)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(c->memory + SINK), .lkey = s->mr->lkey,
		.length = opcode == IBV_WR_RDMA_READ ? be32toh(order->length) : 8,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr_id = client_wr_id(s, c, RECEIVES),
		.sg_list = &sge, .num_sge = 1,
	};

	if (sge.length > SINK_SIZE)
		sge.length = SINK_SIZE;
	if (opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = be64toh(order->addr);
		wr.wr.rdma.rkey = be32toh(order->rkey);
	} else {
		wr.wr.atomic.remote_addr = be64toh(order->addr);
		wr.wr.atomic.rkey = be32toh(order->rkey);
		wr.wr.atomic.compare_add = 1;
	}
	ibv_post_send(c->id->qp, &wr, &bad);
}

static void echo(struct server *s, struct client *c, const uint8_t *data,
		 uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = length };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr_id = client_wr_id(s, c, RECEIVES),
		.sg_list = &sge, .num_sge = 1,
	};

	ibv_post_send(c->id->qp, &wr, &bad);
}

static void handle_receive(struct server *s, struct client *c, unsigned slot,
			   uint32_t length)
{
	const uint8_t *data = c->memory + 2 * SLOT * slot;
	struct order order;

	memcpy(&order, data, sizeof(order));
	if (length && *data == 'e')
		echo(s, c, data, length);
	else if (length >= sizeof(order) && *data == 'r')
		post_order(s, c, IBV_WR_RDMA_READ, &order);
	else if (length >= sizeof(order) && *data == 'f')
		post_order(s, c, IBV_WR_ATOMIC_FETCH_AND_ADD, &order);
	if (c->again)
		post_slot(s, c, slot);
}

/* Those of a queue pair that is no more are of no interest. */
static void handle_completion(struct server *s, const struct ibv_wc *wc)
{
	struct client *c = &s->clients[wc->wr_id >> 8 & 0xff];
	unsigned slot = wc->wr_id & 0xff;

	if (!c->id || c->generation != wc->wr_id >> 32 ||
	    wc->status != IBV_WC_SUCCESS || slot >= RECEIVES)
		return;
	if (wc->opcode & IBV_WC_RECV)
		handle_receive(s, c, slot, wc->byte_len);
}

static void handle_completions(struct server *s)
{
	struct ibv_wc wc[16];
	struct ibv_cq *cq;
	void *context;
	int i, n;

	if (ibv_get_cq_event(s->comp_channel, &cq, &context))
		fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		fail("ibv_req_notify_cq");
	while ((n = ibv_poll_cq(cq, 16, wc)) > 0)
		for (i = 0; i < n; i++)
			handle_completion(s, &wc[i]);
	if (n < 0)
		fail("ibv_poll_cq");
}

/* ---------------------------------------------------------------- server */

/* Completions first: what they are about may be taken away by an event. */
static void serve_some(struct server *s)
{
	struct pollfd p[2] = { { .fd = s->channel->fd, .events = POLLIN } };
	struct rdma_cm_event *event;

	if (s->comp_channel)
		p[1] = (struct pollfd) { .fd = s->comp_channel->fd,
					 .events = POLLIN };
	if (poll(p, s->comp_channel ? 2 : 1, -1) < 0 && errno != EINTR)
		fail("poll: %s", strerror(errno));
	if (p[1].revents)
		handle_completions(s);
	if (p[0].revents) {
		event = next_event(s->channel, 0);
		if (event)
			handle_event(s, event);
	}
}

static void serve(const char *port)
{
	struct server *s = calloc(1, sizeof(*s));
	struct rdma_cm_id *listener;

	if (!s)
		fail("no memory");
	s->regions = allocate(REGION * (2 * REGIONS + 1));
	fill(s->regions, REGION * (2 * REGIONS + 1));
	s->memory = allocate(MAX_CLIENTS * CLIENT_MEMORY);
	s->channel = make_channel();
	listen_backlog = MAX_CLIENTS;
	listener = listen_at(s->channel, NULL, port);
	while (!s->over)
		serve_some(s);
	check_regions(s);
	rdma_destroy_id(listener);
	say("%u connections, %u at the same time, nothing overwritten",
	    s->connections, s->most);
}

/* ---------------------------------------------------------------- client */

static void connect_once(const char *host, const char *port, unsigned number)
{
	struct endpoint ep = { .channel = make_channel(), .read_depth = READ_DEPTH };
	struct rdma_conn_param param;
	struct rdma_cm_event *event;
	uint32_t data = htobe32(number);
	char why[WHY_SIZE];

	ep.id = resolve(ep.channel, host, port, why);
	if (!ep.id)
		fail("%s: %s", host, why);
	make_qp(&ep);
	param = connect_param(&ep);
	param.private_data = &data;
	param.private_data_len = sizeof(data);
	if (!start_connect(ep.id, &param, why))
		fail("connect %u: %s", number, why);
	event = next_event(ep.channel, time_limit);
	if (!event)
		fail("connect %u: no answer within %g s", number, time_limit);
	say("connect %u: %s", number, describe_event(event));
	rdma_ack_cm_event(event);
	free_endpoint(&ep);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	unsigned connects = 0, i;
	bool server = false;
	int c;

	program = "hostile-target";
	while ((c = getopt_long(argc, argv, "sc:p:t:h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'c':
			connects = parse_number(optarg, "--connects", 100000);
			break;
		case 'p':
			port = optarg;
			break;
		case 't':
			time_limit = parse_number(optarg, "--time-limit", 86400);
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
		serve(port);
	for (i = 0; !server && i < connects; i++)
		connect_once(argv[optind], port, i);
	return 0;
}
