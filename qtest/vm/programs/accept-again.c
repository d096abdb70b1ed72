// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * accept-again: a process that accepts each request several times at once, with two
 * QPs in turn. librdmacm does not do that, but any process may: commands go to
 * /dev/infiniband/rdma_cm. What comes of the connection does not matter here, but that
 * everything ends, and that nothing of it is left. The client is another process.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "ucma.h"

#define ACCEPTS	5

static const char help[] =
"usage: accept-again [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and accepts each\n"
"request several times.\n"
"  -n, --number N        connections (default 100)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "number", required_argument, NULL, 'n' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct server {
	int fd;			/* of ucma.h */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2];
};

static void must(int error, const char *what)
{
	if (error)
		fail("%s: %s", what, strerror(error));
}

static void start_server(struct server *s, const char *address, const char *port)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(port)),
	};

	if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
		fail("%s is no IPv4 address", address);
	must(ucma_listen(&s->fd, &at), "listen");
}

static void make_qps(struct server *s)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	for (int i = 0; i < 2; i++) {
		s->qps[i] = ibv_create_qp(s->pd, &attr);
		if (!s->qps[i])
			fail("ibv_create_qp: %s", strerror(errno));
	}
}

/* Returns how many of the accepts the kernel took. */
static int accept_again(struct server *s, uint32_t id)
{
	int taken = 0;

	for (int i = 0; i < ACCEPTS; i++)
		taken += !ucma_accept(s->fd, id, s->qps[i % 2]->qp_num);
	return taken;
}

static void end_connection(struct server *s, uint32_t id)
{
	must(ucma_end(s->fd, id), "end");
	for (int i = 0; i < 2; i++)
		must(ibv_destroy_qp(s->qps[i]), "ibv_destroy_qp");
}

static void open_device(struct server *s)
{
	int count;
	struct ibv_context **devices = rdma_get_devices(&count);

	if (!devices || !count)
		fail("no RDMA device");
	s->verbs = devices[0];
	s->pd = ibv_alloc_pd(s->verbs);
	s->cq = ibv_create_cq(s->verbs, 16, NULL, NULL, 0);
	if (!s->pd || !s->cq)
		fail("no PD or CQ: %s", strerror(errno));
}

/* A connection that may fail: the other side may have given it up. */
static void connect_once(const char *address, const char *port)
{
	struct endpoint ep = { .channel = make_channel() };
	struct rdma_conn_param param;
	char why[WHY_SIZE];

	ep.id = resolve(ep.channel, address, port, why);
	if (!ep.id)
		fail("%s", why);
	make_qp(&ep);
	param = connect_param(&ep);
	if (start_connect(ep.id, &param, why)) {
		struct rdma_cm_event *event = next_event(ep.channel, time_limit);

		if (!event)
			fail("no answer to a connect");
		rdma_ack_cm_event(event);
	}
	rdma_disconnect(ep.id);
	free_endpoint(&ep);
}

static pid_t start_client(const char *address, const char *port, unsigned number)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	while (number--)
		connect_once(address, port);
	exit(0);
}

static void serve(struct server *s, unsigned number)
{
	unsigned again = 0;

	for (unsigned i = 0; i < number; i++) {
		uint32_t id;

		must(ucma_next_request(s->fd, &id), "next request");
		make_qps(s);
		again += accept_again(s, id) > 1;
		end_connection(s, id);
	}
	say("%u requests, %u of them accepted more than once", number, again);
}

int main(int argc, char **argv)
{
	struct server server = {};
	const char *port = DEFAULT_PORT;
	unsigned number = 100;
	int option, status;
	pid_t client;

	program = "accept-again";
	while ((option = getopt_long(argc, argv, "n:p:t:h", options, NULL)) >= 0) {
		switch (option) {
		case 'n':
			number = parse_number(optarg, "number", 1000000);
			break;
		case 'p':
			port = optarg;
			break;
		case 't':
			time_limit = parse_number(optarg, "time limit", 86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (optind != argc - 1)
		fail_usage();
	start_server(&server, argv[optind], port);
	client = start_client(argv[optind], port, number);
	open_device(&server);
	serve(&server, number);
	if (waitpid(client, &status, 0) < 0 || status)
		fail("the client failed");
	return 0;
}
