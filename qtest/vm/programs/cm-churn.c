// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cm-churn: connects and disconnects many times, a message and its answer
 * each time, and checks that nothing is left behind.
 */

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define MESSAGE_SIZE	64
#define WARM_UP		3	/* connections before the first count */

static const char help[] =
"usage: cm-churn --server [options]\n"
"       cm-churn [options] SERVER\n"
"Connects, sends a small message, receives it back, and disconnects, again and\n"
"again. In the end neither end may hold more file descriptors, nor its machine\n"
"more RDMA resources (by rdma(8), when it is there), than near the beginning.\n"
"  -s, --server          serve until the client has done all\n"
"  -n, --number N        connections (default 200)\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -T, --tos VALUE       type of service of the IP packets (default: the kernel's)\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure or a leak, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "number", required_argument, NULL, 'n' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "tos", required_argument, NULL, 'T' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Private data of a connect request, big endian. */
struct hello {
	uint32_t index;
	uint32_t total;
};

/* --------------------------------------------------------------- leaks */

struct holdings {
	int files;
	char resources[1000];	/* as rdma(8) lists them; empty: no rdma(8) */
};

static int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		fail("cannot read /proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void take_stock(struct holdings *h)
{
	FILE *rdma = popen("rdma resource show 2>/dev/null", "r");
	size_t n = 0;

	if (rdma) {
		n = fread(h->resources, 1, sizeof(h->resources) - 1, rdma);
		pclose(rdma);
	}
	h->resources[n] = 0;
	h->files = count_files();
}

/* Is any number in the second list greater than its like in the first? */
static bool more_resources(const char *before, const char *after)
{
	char *b, *a;

	while (*before && *after) {
		if (!isdigit((unsigned char)*before) ||
		    !isdigit((unsigned char)*after)) {
			if (*before++ != *after++)
				return true;
			continue;
		}
		if (strtoul(after, &a, 10) > strtoul(before, &b, 10))
			return true;
		before = b;
		after = a;
	}
	return *after;
}

/* What goes away late, by the kernel's work queues, gets some time. */
static void check_stock(const struct holdings *before)
{
	double end = now() + 10;
	struct holdings after;

	for (;;) {
		take_stock(&after);
		if (after.files <= before->files &&
		    !more_resources(before->resources, after.resources))
			break;
		if (now() > end)
			fail("leak: %d files before, %d after; RDMA resources before:\n%safter:\n%s",
			     before->files, after.files, before->resources,
			     after.resources);
		poll(NULL, 0, 200);
	}
	say("nothing left behind: %d files%s", after.files,
	    *after.resources ? ", no more RDMA resources" :
	    "; no rdma(8) here, RDMA resources not counted");
}

/* --------------------------------------------------------- a connection */

struct buffers {
	char *memory;	/* out, then in */
	struct ibv_mr *mr;
};

static void make_buffers(struct endpoint *ep, struct buffers *b)
{
	b->memory = allocate(2 * MESSAGE_SIZE);
	b->mr = register_memory(ep->id, b->memory, 2 * MESSAGE_SIZE,
				IBV_ACCESS_LOCAL_WRITE);
	post_receive(ep, b->mr, b->memory + MESSAGE_SIZE, MESSAGE_SIZE, 1);
}

static void free_buffers(struct buffers *b)
{
	if (ibv_dereg_mr(b->mr))
		fail("ibv_dereg_mr failed");
	free(b->memory);
}

static void send_text(struct endpoint *ep, struct buffers *b)
{
	struct ibv_wc wc;

	post_message(ep, b->mr, b->memory, MESSAGE_SIZE, 2);
	expect_completion(ep->send_cq, ep->send_channel, &wc, "sending");
}

static void receive_text(struct endpoint *ep)
{
	struct ibv_wc wc;

	expect_completion(ep->recv_cq, ep->recv_channel, &wc, "receiving");
	if (wc.byte_len != MESSAGE_SIZE)
		fail("%u bytes arrived instead of %d", wc.byte_len,
		     MESSAGE_SIZE);
}

/* The two ends take turns in being first. */
static void end_connection(struct endpoint *ep, bool first)
{
	if (first)
		disconnect(ep);
	else
		wait_disconnect(ep);
}

static void run_client(const char *host, const char *port, uint32_t index,
		       uint32_t total)
{
	struct hello hello = { htonl(index), htonl(total) };
	struct endpoint ep;
	struct buffers b;

	connect_to(&ep, host, port, &hello, sizeof(hello));
	make_buffers(&ep, &b);
	snprintf(b.memory, MESSAGE_SIZE, "connection %u of %u", index, total);
	send_text(&ep, &b);
	receive_text(&ep);
	if (memcmp(b.memory, b.memory + MESSAGE_SIZE, MESSAGE_SIZE))
		fail("connection %u: '%s' came back instead of '%s'", index,
		     b.memory + MESSAGE_SIZE, b.memory);
	free_buffers(&b);
	end_connection(&ep, index % 2 == 0);
}

/* Serves one connection; false when it was the last. */
static bool serve(struct rdma_event_channel *channel)
{
	struct endpoint ep;
	struct hello hello;
	struct buffers b;

	take_request(channel, &ep, &hello, sizeof(hello));
	make_qp(&ep);
	make_buffers(&ep, &b);
	accept_on(&ep);
	receive_text(&ep);
	memcpy(b.memory, b.memory + MESSAGE_SIZE, MESSAGE_SIZE);
	send_text(&ep, &b);
	free_buffers(&b);
	end_connection(&ep, ntohl(hello.index) % 2);
	return ntohl(hello.index) + 1 < ntohl(hello.total);
}

static uint32_t serve_all(const char *address, const char *port,
			  struct holdings *stock)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);
	uint32_t n = 0;
	bool more;

	do {
		more = serve(channel);
		if (++n == WARM_UP)
			take_stock(stock);
	} while (more);
	if (n > WARM_UP)
		check_stock(stock);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return n;
}

static void connect_all(const char *host, const char *port, uint32_t number,
			struct holdings *stock)
{
	double start = now();
	uint32_t i;

	for (i = 0; i < number; i++) {
		if (i == WARM_UP)
			take_stock(stock);
		run_client(host, port, i, number);
	}
	say("%u connections in %.1f s", number, now() - start);
	if (number > WARM_UP)
		check_stock(stock);
}

int main(int argc, char **argv)
{
	const char *address = NULL, *port = DEFAULT_PORT;
	struct holdings stock;
	uint32_t number = 200;
	bool server = false;
	int c;

	program = "cm-churn";
	while ((c = getopt_long(argc, argv, "sn:b:p:T:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'n':
			number = parse_number(optarg, "--number", 10000000);
			break;
		case 'b':
			address = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		case 'T':
			type_of_service = parse_number(optarg, "--tos", 255);
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
		say("%u connections served",
		    serve_all(address, port, &stock));
	else
		connect_all(argv[optind], port, number, &stock);
	say("churn: ok");
	return 0;
}
