// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * qp-load: many queue pairs between two machines, idle or all of them writing.
 * They share a CQ, so that what one more costs is a queue pair.
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define MAX_DEPTH	64

static const char help[] =
"usage: qp-load --server [options]\n"
"       qp-load [options] SERVER\n"
"Connects many queue pairs. Then either leaves them idle until a signal to\n"
"terminate (--idle), or writes with all of them for some time, and says how\n"
"much that was together and for the least and the best served of them.\n"
"  -S, --server          serve until the client has gone\n"
"  -r, --rounds N        server: N clients, one after the other (default 1)\n"
"  -q, --qps N           queue pairs (default 16)\n"
"  -i, --idle            do nothing with them\n"
"  -s, --size BYTES      of a Write (default 64k)\n"
"  -d, --depth N         Writes outstanding for each (default 16)\n"
"  -t, --seconds SEC     how long to write (default 3)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 'S' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "qps", required_argument, NULL, 'q' },
	{ "idle", no_argument, NULL, 'i' },
	{ "size", required_argument, NULL, 's' },
	{ "depth", required_argument, NULL, 'd' },
	{ "seconds", required_argument, NULL, 't' },
	{ "port", required_argument, NULL, 'p' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Private data of a connect request: what the server has to have ready. */
struct hello {
	uint32_t qps;
	uint32_t size;
};

/* ... and of its reply: where to write. Both are this program's own. */
struct target {
	uint64_t addr;
	uint32_t rkey;
};

struct load {
	uint32_t qps;
	uint32_t size;
	uint32_t depth;
	double seconds;
	struct rdma_cm_id **ids;
	struct ibv_cq *cq;
	char *buffer;
	struct ibv_mr *mr;
	struct target *targets;
	uint64_t *written;	/* Writes that completed in time, by QP */
};

static volatile sig_atomic_t told_to_end;

static void note_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

/* ------------------------------------------------------------ queue pairs */

/* All queue pairs are on the first one's PD. */
static void make_shared(struct load *l, struct rdma_cm_id *id, int access)
{
	if (l->cq)
		return;
	l->cq = ibv_create_cq(id->verbs, (int)(l->qps * l->depth) + 1, NULL,
			      NULL, 0);
	if (!l->cq)
		fail("ibv_create_cq: %s", strerror(errno));
	l->buffer = allocate(l->size);
	l->mr = register_memory(id, l->buffer, l->size, access);
}

static void make_one(struct load *l, struct rdma_cm_id *id, int access)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = l->depth,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	make_shared(l, id, access);
	init.send_cq = l->cq;
	init.recv_cq = l->cq;
	if (rdma_create_qp(id, l->mr->pd, &init))
		fail("rdma_create_qp: %s", strerror(errno));
}

/* ----------------------------------------------------------------- client */

static void connect_one(struct load *l, struct rdma_event_channel *channel,
			const char *host, const char *port, uint32_t index)
{
	struct hello hello = { l->qps, l->size };
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	struct rdma_cm_event *event;
	char why[WHY_SIZE];

	l->ids[index] = resolve(channel, host, port, why);
	if (!l->ids[index])
		fail("%s: %s", host, why);
	make_one(l, l->ids[index], IBV_ACCESS_LOCAL_WRITE);
	if (!start_connect(l->ids[index], &param, why))
		fail("queue pair %u: %s", index, why);
	event = expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	if (event->param.conn.private_data_len < sizeof(l->targets[index]))
		fail("the server's reply has no private data");
	memcpy(&l->targets[index], event->param.conn.private_data,
	       sizeof(l->targets[index]));
	rdma_ack_cm_event(event);
}

static void write_once(struct load *l, uint32_t index)
{
	struct ibv_sge sge = { (uintptr_t)l->buffer, l->size, l->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = index,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = l->targets[index].addr,
			.rkey = l->targets[index].rkey,
		},
	};
	int ret = ibv_post_send(l->ids[index]->qp, &wr, &bad);

	if (ret)
		fail("posting a Write: %s", strerror(ret));
}

/* Completions until the time is up, or, with again false, of all. */
static uint64_t drive(struct load *l, uint64_t outstanding, double end,
		      bool again)
{
	struct ibv_wc wc[16];
	int i, n;

	while (outstanding && (!again || now() < end)) {
		n = ibv_poll_cq(l->cq, 16, wc);
		if (n < 0)
			fail("ibv_poll_cq: %d", n);
		for (i = 0; i < n; i++) {
			check_completion(&wc[i], "writing");
			outstanding--;
			if (!again)
				continue;
			l->written[wc[i].wr_id]++;
			write_once(l, wc[i].wr_id);
			outstanding++;
		}
	}
	return outstanding;
}

static void report(const struct load *l, double seconds)
{
	uint64_t total = 0, least = l->written[0], most = 0;
	double mib = l->size / 1048576.0 / seconds;
	uint32_t i;

	for (i = 0; i < l->qps; i++) {
		total += l->written[i];
		if (l->written[i] < least)
			least = l->written[i];
		if (l->written[i] > most)
			most = l->written[i];
	}
	say("%u queue pairs: %.1f MiB/s together, least %.3f, most %.3f of a fair share",
	    l->qps, total * mib, total ? (double)least * l->qps / total : 0,
	    total ? (double)most * l->qps / total : 0);
}

static void write_all(struct load *l)
{
	uint64_t outstanding = 0;
	double start;
	uint32_t i, k;

	for (k = 0; k < l->depth; k++)
		for (i = 0; i < l->qps; i++, outstanding++)
			write_once(l, i);
	/* A start that is not counted, so that all are under way. */
	outstanding = drive(l, outstanding, now() + l->seconds / 4, true);
	memset(l->written, 0, l->qps * sizeof(*l->written));
	start = now();
	outstanding = drive(l, outstanding, start + l->seconds, true);
	report(l, now() - start);
	drive(l, outstanding, 0, false);
}

static void run_client(struct load *l, const char *host, const char *port,
		       bool idle)
{
	struct rdma_event_channel *channel = make_channel();
	uint32_t i;

	for (i = 0; i < l->qps; i++)
		connect_one(l, channel, host, port, i);
	say("%u queue pairs are connected", l->qps);
	fflush(stdout);
	if (!idle)
		write_all(l);
	/* The signal ends a wait; waking up often would not be idle. */
	while (idle && !told_to_end)
		poll(NULL, 0, 5000);
	for (i = 0; i < l->qps; i++)
		rdma_disconnect(l->ids[i]);
}

/* ----------------------------------------------------------------- server */

static void take(struct load *l, struct rdma_cm_event *event)
{
	const struct hello *hello = event->param.conn.private_data;
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	struct target target;

	if (event->param.conn.private_data_len < sizeof(*hello))
		fail("a connect request without private data");
	l->qps = hello->qps;
	l->size = hello->size;
	make_one(l, event->id,
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	target = (struct target) { (uintptr_t)l->buffer, l->mr->rkey };
	param.private_data = &target;
	param.private_data_len = sizeof(target);
	if (rdma_accept(event->id, &param))
		fail("rdma_accept: %s", strerror(errno));
}

/* True: the event was the end of a connection. */
static bool handle(struct load *l, struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	bool ended = false;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		take(l, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		ended = true;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fail("%s", describe_event(event));
	}
	rdma_ack_cm_event(event);
	if (ended) {
		rdma_disconnect(id);
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
	return ended;
}

static void serve(struct load *l, struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	uint32_t gone = 0;

	l->qps = 0;
	while (!told_to_end && (!l->qps || gone < l->qps)) {
		event = next_event(channel, 5);
		if (event && handle(l, event))
			gone++;
	}
}

static void serve_all(struct load *l, const char *port, uint64_t rounds)
{
	struct rdma_event_channel *channel = make_channel();

	listen_at(channel, NULL, port);
	while (rounds-- && !told_to_end)
		serve(l, channel);
}

/* ------------------------------------------------------------------- main */

static void allocate_tables(struct load *l)
{
	l->ids = calloc(l->qps, sizeof(*l->ids));
	l->targets = calloc(l->qps, sizeof(*l->targets));
	l->written = calloc(l->qps, sizeof(*l->written));
	if (!l->ids || !l->targets || !l->written)
		fail("out of memory");
}

int main(int argc, char **argv)
{
	struct load load = {
		.qps = 16,
		.size = 65536,
		.depth = 16,
		.seconds = 3,
	};
	bool server = false, idle = false;
	uint64_t rounds = 1;
	const char *port = DEFAULT_PORT;
	int c;

	program = "qp-load";
	while ((c = getopt_long(argc, argv, "Sr:q:is:d:t:p:h", options,
				NULL)) != -1) {
		switch (c) {
		case 'S':
			server = true;
			break;
		case 'r':
			rounds = parse_number(optarg, "--rounds", 1000000);
			break;
		case 'q':
			load.qps = parse_number(optarg, "--qps", 65536);
			break;
		case 'i':
			idle = true;
			break;
		case 's':
			load.size = parse_size(optarg, "--size");
			break;
		case 'd':
			load.depth = parse_number(optarg, "--depth",
						  MAX_DEPTH);
			break;
		case 't':
			load.seconds = parse_number(optarg, "--seconds",
						    3600);
			break;
		case 'p':
			port = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (argc - optind != !server || !load.qps || !load.depth || !load.size)
		fail_usage();
	signal(SIGTERM, note_signal);
	if (server) {
		load.depth = 1;
		serve_all(&load, port, rounds);
	} else {
		allocate_tables(&load);
		run_client(&load, argv[optind], port, idle);
	}
	return 0;
}
