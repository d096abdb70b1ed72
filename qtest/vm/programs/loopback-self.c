// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loopback-self: a process that connects to itself over the address of its
 * own machine, and moves and checks data both ways.
 */

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

static const char help[] =
"usage: loopback-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and moves data\n"
"by RDMA Write, Read and Send both ways, checking every byte.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -S, --size SIZE       bytes of each kind (default 16M)\n"
"  -x, --extended        use ibv_wr_*() and ibv_start_poll()\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "size", required_argument, NULL, 'S' },
	{ "extended", no_argument, NULL, 'x' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct transfer_params params = {
	.size = 16 << 20,
	.seed = 1,
	.iterations = 1,
};

static void *serve(void *listener)
{
	struct rdma_event_channel *channel = listener;
	struct endpoint ep;
	struct transfer *t;

	take_request(channel, &ep, NULL, 0);
	make_qp(&ep);
	t = transfer_new(&ep, &params);
	transfer_prepare(t);
	accept_on(&ep);

	transfer_serve(t);
	transfer_initiate(t, "back", false);

	transfer_free(t);
	disconnect(&ep);
	return NULL;
}

static void run_client(const char *address, const char *port)
{
	struct endpoint ep;
	struct transfer *t;

	connect_to(&ep, address, port, NULL, 0);
	t = transfer_new(&ep, &params);

	transfer_initiate(t, "to self", true);
	transfer_serve(t);

	transfer_free(t);
	disconnect(&ep);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel;
	const char *port = DEFAULT_PORT;
	struct rdma_cm_id *listener;
	pthread_t server;
	int c;

	program = "loopback-self";
	while ((c = getopt_long(argc, argv, "p:S:xt:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			port = optarg;
			break;
		case 'S':
			params.size = parse_size(optarg, "--size");
			break;
		case 'x':
			use_extended = true;
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
	if (argc - optind != 1)
		fail_usage();

	channel = make_channel();
	listener = listen_at(channel, argv[optind], port);
	c = pthread_create(&server, NULL, serve, channel);
	if (c)
		fail("pthread_create: %s", strerror(c));
	run_client(argv[optind], port);
	pthread_join(server, NULL);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	say("loopback: ok");
	return 0;
}
