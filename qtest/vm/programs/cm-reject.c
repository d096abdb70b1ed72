// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cm-reject: how connecting fails, and what private data says. The server
 * rejects or accepts as the client's private data asks; the client checks
 * what it is told, and that nobody answers where there is nobody.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define IWARP_MAX_DATA	255	/* what struct rdma_conn_param can say */
#define OTHER_MAX_DATA	56	/* InfiniBand's CM */

static const char help[] =
"usage: cm-reject --server [options]\n"
"       cm-reject [options] SERVER\n"
"The client asks to be rejected and to be accepted, with private data of many\n"
"lengths both ways, and connects to a port where nobody listens.\n"
"  -s, --server          serve until the client has done all\n"
"  -n, --nobody ADDRESS  client: also connect there, where no machine is\n"
"  -c, --closed PORT     client: nobody listens at this port (default 7999)\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "nobody", required_argument, NULL, 'n' },
	{ "closed", required_argument, NULL, 'c' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The lengths of private data, asked for and answered with. */
static const struct {
	uint8_t request;
	uint8_t reply;
} cases[] = {
	{ 2, 0 }, { 2, 1 }, { 3, 2 }, { 17, 4 }, { 55, 55 }, { 56, 56 },
	{ 57, 100 }, { 196, 196 }, { IWARP_MAX_DATA, IWARP_MAX_DATA },
};
#define CASES	(sizeof(cases) / sizeof(cases[0]))

enum ask { REJECT = 'r', ACCEPT = 'a', END = 'e' };

/* Octet i of private data: an ask, a case, then this. */
static void fill(uint8_t *data, enum ask ask, uint8_t number, unsigned length)
{
	unsigned i;

	for (i = 0; i < length; i++)
		data[i] = 17 * i + number + ask;
	data[0] = ask;
	data[1] = number;
}

/* Did the private data arrive, no more (on iWARP) and no less? */
static void check_data(struct rdma_cm_id *id, const struct rdma_cm_event *event,
		       const uint8_t *expected, unsigned length,
		       const char *what)
{
	const struct rdma_conn_param *got = &event->param.conn;
	bool exact = id->verbs && id->verbs->device->transport_type ==
		     IBV_TRANSPORT_IWARP;

	if (got->private_data_len < length ||
	    (exact && got->private_data_len != length))
		fail("%s: %u bytes of private data instead of %u", what,
		     got->private_data_len, length);
	if (length && memcmp(got->private_data, expected, length))
		fail("%s: wrong private data", what);
}

static unsigned cases_of(const struct rdma_cm_id *id)
{
	unsigned n = 0, max = id->verbs->device->transport_type ==
			      IBV_TRANSPORT_IWARP ?
			      IWARP_MAX_DATA : OTHER_MAX_DATA;

	while (n < CASES && cases[n].request <= max && cases[n].reply <= max)
		n++;
	return n;
}

/* -------------------------------------------------------------- server */

/* Answers one request; false when it was the last. */
static bool answer(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	uint8_t data[256], reply[256];
	struct rdma_conn_param param;
	struct endpoint ep;
	uint8_t ask, number;

	event = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (event->param.conn.private_data_len < 2)
		fail("a request without private data");
	ask = ((const uint8_t *)event->param.conn.private_data)[0];
	number = ((const uint8_t *)event->param.conn.private_data)[1];
	if (number >= CASES)
		fail("a request for case %u", number);
	fill(data, ask, number, cases[number].request);
	check_data(event->id, event, data, cases[number].request,
		   "connect request");
	ep = (struct endpoint) { .id = event->id };
	rdma_ack_cm_event(event);

	fill(reply, ask + 1, number, cases[number].reply);
	if (ask == REJECT) {
		if (rdma_reject(ep.id, reply, cases[number].reply))
			fail("rdma_reject: %s", strerror(errno));
		if (rdma_destroy_id(ep.id))
			fail("rdma_destroy_id: %s", strerror(errno));
		return true;
	}

	ep.channel = make_channel();
	if (rdma_migrate_id(ep.id, ep.channel))
		fail("rdma_migrate_id: %s", strerror(errno));
	make_qp(&ep);
	param = connect_param(&ep);
	param.private_data = reply;
	param.private_data_len = cases[number].reply;
	if (rdma_accept(ep.id, &param))
		fail("rdma_accept: %s", strerror(errno));
	expect_and_ack(ep.channel, RDMA_CM_EVENT_ESTABLISHED);
	disconnect(&ep);
	return ask != END;
}

static void serve(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);
	unsigned n = 1;

	while (answer(channel))
		n++;
	say("%u requests answered", n);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

/* -------------------------------------------------------------- client */

/* False, with why, when it is known at once that nobody is there. */
static bool try_connect(struct endpoint *ep, const char *host,
			const char *port, const void *data, uint8_t length,
			char *why)
{
	struct rdma_conn_param param;

	*ep = (struct endpoint) { .channel = make_channel() };
	ep->id = resolve(ep->channel, host, port, why);
	if (!ep->id)
		return false;
	make_qp(ep);
	param = connect_param(ep);
	param.private_data = data;
	param.private_data_len = length;
	return start_connect(ep->id, &param, why);
}

static void check_rejected(const struct endpoint *ep,
			   const struct rdma_cm_event *event, unsigned number)
{
	uint8_t reply[256];
	bool iwarp = ep->id->verbs->device->transport_type ==
		     IBV_TRANSPORT_IWARP;

	if (event->event != RDMA_CM_EVENT_REJECTED)
		fail("case %u: expected REJECTED, got %s", number,
		     describe_event(event));
	if (iwarp && event->status != -ECONNREFUSED &&
	    event->status != -ECONNRESET)
		fail("case %u: status of the rejection: %d", number,
		     event->status);
	fill(reply, REJECT + 1, number, cases[number].reply);
	check_data(ep->id, event, reply, cases[number].reply, "rejection");
}

static void check_accepted(const struct endpoint *ep,
			   const struct rdma_cm_event *event, unsigned number,
			   enum ask ask)
{
	uint8_t reply[256];

	if (event->event != RDMA_CM_EVENT_ESTABLISHED)
		fail("case %u: expected ESTABLISHED, got %s", number,
		     describe_event(event));
	fill(reply, ask + 1, number, cases[number].reply);
	check_data(ep->id, event, reply, cases[number].reply, "reply");
}

/* Returns how many cases this kind of device has. */
static unsigned ask_for(const char *host, const char *port, enum ask ask,
			unsigned number)
{
	struct rdma_cm_event *event;
	struct endpoint ep;
	char why[WHY_SIZE];
	uint8_t data[256];
	unsigned n;

	fill(data, ask, number, cases[number].request);
	if (!try_connect(&ep, host, port, data, cases[number].request, why))
		fail("case %u: %s: %s", number, host, why);
	n = cases_of(ep.id);
	event = next_event(ep.channel, time_limit);
	if (!event)
		fail("case %u: no answer within %g s", number, time_limit);
	if (ask == REJECT)
		check_rejected(&ep, event, number);
	else
		check_accepted(&ep, event, number, ask);
	rdma_ack_cm_event(event);

	if (ask == REJECT)
		free_endpoint(&ep);
	else
		disconnect(&ep);
	return n;
}

static void run_cases(const char *host, const char *port, enum ask ask)
{
	unsigned i, n = CASES;

	for (i = 0; i < n; i++)
		n = ask_for(host, port, ask, i);
	say("%s %u times with private data, all of it delivered",
	    ask == REJECT ? "rejected" : "accepted", n);
}

/* Connecting must fail, in whichever step, and in time. */
static void expect_failure(const char *host, const char *port,
			   const char *what)
{
	struct rdma_cm_event *event;
	struct endpoint ep;
	char why[WHY_SIZE];

	if (try_connect(&ep, host, port, NULL, 0, why)) {
		event = next_event(ep.channel, time_limit);
		if (!event)
			fail("%s: no answer within %g s", what, time_limit);
		if (!is_failure(event))
			fail("%s: %s", what, describe_event(event));
		snprintf(why, sizeof(why), "%s", describe_event(event));
		rdma_ack_cm_event(event);
	}
	free_endpoint(&ep);
	say("%s: %s", what, why);
}

/* Until somebody listens, so that the cases see only what they ask for. */
static void wait_for_server(const char *host, const char *port)
{
	struct endpoint ep;
	uint8_t data[256];

	fill(data, ACCEPT, 0, cases[0].request);
	connect_to(&ep, host, port, data, cases[0].request);
	disconnect(&ep);
}

int main(int argc, char **argv)
{
	const char *address = NULL, *port = DEFAULT_PORT, *closed = "7999";
	const char *nobody = NULL, *host;
	bool server = false;
	int c;

	program = "cm-reject";
	while ((c = getopt_long(argc, argv, "sn:c:b:p:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'n':
			nobody = optarg;
			break;
		case 'c':
			closed = optarg;
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

	if (server) {
		serve(address, port);
	} else {
		host = argv[optind];
		wait_for_server(host, port);
		run_cases(host, port, REJECT);
		run_cases(host, port, ACCEPT);
		expect_failure(host, closed, "closed port");
		if (nobody)
			expect_failure(nobody, port, "nobody there");
		ask_for(host, port, END, 0);
	}
	say("reject: ok");
	return 0;
}
