// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rdma-verify: moves random data by RDMA Write, RDMA Read and Send, first
 * from the client to the server, then the other way round, and checks every
 * byte where it arrived.
 */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "transfer.h"

static const char help[] =
"usage: rdma-verify --server [options]\n"
"       rdma-verify [options] SERVER\n"
"Moves data by RDMA Write, Read and Send over rdma_cm, both ways, in messages\n"
"of many sizes at odd offsets and of several SGEs, and checks every byte.\n"
"  -s, --server          wait for one client, which says what to do\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -S, --size SIZE       bytes of each kind in one pass (default 64M)\n"
"  -i, --iterations N    passes; from the second on the lengths of the\n"
"                        messages are random (default 1)\n"
"  -r, --seed N          of data and lengths (default 1)\n"
"  -x, --extended        this end posts by ibv_wr_*() and polls by ibv_start_poll()\n"
"  -e, --no-empty        no messages of no bytes: Linux siw (6.12) fails RDMA\n"
"                        Reads of them\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "size", required_argument, NULL, 'S' },
	{ "iterations", required_argument, NULL, 'i' },
	{ "seed", required_argument, NULL, 'r' },
	{ "extended", no_argument, NULL, 'x' },
	{ "no-empty", no_argument, NULL, 'e' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void serve(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);
	uint8_t wire[PARAMS_WIRE_SIZE];
	struct transfer_params params;
	struct endpoint ep;
	struct transfer *t;

	take_request(channel, &ep, wire, sizeof(wire));
	unpack_params(wire, &params);
	make_qp(&ep);
	t = transfer_new(&ep, &params);
	transfer_prepare(t);
	accept_on(&ep);

	transfer_serve(t);
	transfer_initiate(t, "server to client", false);

	transfer_free(t);
	disconnect(&ep);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

static void run_client(const struct transfer_params *params, const char *host,
		       const char *port)
{
	uint8_t wire[PARAMS_WIRE_SIZE];
	struct endpoint ep;
	struct transfer *t;

	pack_params(params, wire);
	connect_to(&ep, host, port, wire, sizeof(wire));
	t = transfer_new(&ep, params);

	transfer_initiate(t, "client to server", true);
	transfer_serve(t);

	transfer_free(t);
	disconnect(&ep);
}

int main(int argc, char **argv)
{
	struct transfer_params params = {
		.size = 64 << 20,
		.seed = 1,
		.iterations = 1,
	};
	const char *address = NULL, *port = DEFAULT_PORT;
	bool server = false;
	int c;

	program = "rdma-verify";
	while ((c = getopt_long(argc, argv, "sb:p:S:i:r:xet:h", options,
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
		case 'S':
			params.size = parse_size(optarg, "--size");
			break;
		case 'i':
			params.iterations = parse_number(optarg,
							 "--iterations",
							 1000000);
			break;
		case 'r':
			params.seed = parse_number(optarg, "--seed",
						   UINT64_MAX);
			break;
		case 'x':
			use_extended = true;
			break;
		case 'e':
			params.no_empty = true;
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
		serve(address, port);
	else
		run_client(&params, argv[optind], port);
	say("verify: ok");
	return 0;
}
