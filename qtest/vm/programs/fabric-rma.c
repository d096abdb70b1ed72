// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fabric-rma: one-sided put and get of libfabric, in both directions at a time,
 * every octet checked
 *
 * Both ends have a target that the other one writes and reads. They exchange
 * addresses and keys, and meet between the steps, over a TCP connection.
 */

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define PROVIDER	"verbs;ofi_rxm"
#define MEETING_PORT	"7480"
#define ROUNDS		10
#define MOST		(1 << 20)

static const char help[] =
"usage: fabric-rma [options] OWN [SERVER]\n"
"Puts to and gets from its peer's memory over libfabric's " PROVIDER ". OWN is\n"
"this end's address; without SERVER it waits for its peer.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* What each end tells the other one. */
struct business_card {
	uint64_t address;	/* of the target */
	uint64_t key;
	uint8_t name[256];	/* of the endpoint */
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *target_mr, *own_mr;
static uint8_t *target, *own;
static struct business_card peer;
static fi_addr_t peer_addr;
static int meeting;		/* the TCP connection */

static void check(int ret, const char *what)
{
	if (ret < 0)
		fail("%s: %s", what, fi_strerror(-ret));
}

/* ------------------------------------------------------- the meeting */

static struct addrinfo *lookup(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;

	if (getaddrinfo(host, MEETING_PORT, &hints, &found))
		fail("%s is no address", host);
	return found;
}

static void meet(const char *own_host, const char *server)
{
	struct addrinfo *a = lookup(server ? server : own_host);
	int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (server) {
		if (connect(s, a->ai_addr, a->ai_addrlen))
			fail("connect to %s: %m", server);
		meeting = s;
	} else {
		if (bind(s, a->ai_addr, a->ai_addrlen) || listen(s, 1))
			fail("listen: %m");
		meeting = accept(s, NULL, NULL);
		close(s);
	}
	freeaddrinfo(a);
}

/* An endpoint goes on only while its program asks: also while it waits here. */
static void progress(void)
{
	struct fi_cq_entry entry;
	ssize_t n = fi_cq_read(cq, &entry, 1);

	if (n != -FI_EAGAIN)
		fail("a completion or an error that nothing is due for: %zd", n);
}

static void exchange(const void *mine, void *theirs, size_t size)
{
	double deadline = now() + time_limit;
	size_t done = 0;

	if (write(meeting, mine, size) != (ssize_t)size)
		fail("the peer has gone: %m");
	while (done < size) {
		ssize_t n = recv(meeting, (char *)theirs + done, size - done,
				 MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			fail("the peer has gone");
		if (n > 0)
			done += n;
		if (cq)
			progress();
		if (now() > deadline)
			fail("the peer does not come");
	}
}

static void barrier(void)
{
	char mine = 'b', theirs;

	exchange(&mine, &theirs, 1);
}

/* -------------------------------------------------------- the endpoint */

static void find_provider(const char *own_host)
{
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->fabric_attr->prov_name = strdup(PROVIDER);
	check(fi_getinfo(FI_VERSION(1, 18), own_host, NULL, FI_SOURCE, hints,
			 &info), "fi_getinfo " PROVIDER);
	fi_freeinfo(hints);
}

static struct fid_mr *register_octets(uint8_t *octets, uint64_t access)
{
	struct fid_mr *mr;

	check(fi_mr_reg(domain, octets, MOST, access, 0, 0, 0, &mr, NULL),
	      "fi_mr_reg");
	return mr;
}

static void open_endpoint(void)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };

	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &av->fid, 0), "the AV");
	check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "the CQ");
	check(fi_enable(ep), "fi_enable");
	target = allocate(MOST);
	own = allocate(MOST);
	target_mr = register_octets(target, FI_REMOTE_READ | FI_REMOTE_WRITE);
	own_mr = register_octets(own, FI_READ | FI_WRITE);
}

static void introduce(void)
{
	struct business_card card = {
		.address = (uintptr_t)target,
		.key = fi_mr_key(target_mr),
	};
	size_t size = sizeof(card.name);

	check(fi_getname(&ep->fid, card.name, &size), "fi_getname");
	exchange(&card, &peer, sizeof(card));
	if (fi_av_insert(av, peer.name, 1, &peer_addr, 0, NULL) != 1)
		fail("fi_av_insert");
}

static void close_endpoint(void)
{
	check(fi_close(&ep->fid), "fi_close, endpoint");
	check(fi_close(&own_mr->fid), "fi_close, MR");
	check(fi_close(&target_mr->fid), "fi_close, MR");
	check(fi_close(&cq->fid), "fi_close, CQ");
	check(fi_close(&av->fid), "fi_close, AV");
	check(fi_close(&domain->fid), "fi_close, domain");
	check(fi_close(&fabric->fid), "fi_close, fabric");
	fi_freeinfo(info);
}

/* ------------------------------------------------------------ put and get */

static void wait_done(const char *what)
{
	double deadline = now() + time_limit;
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_entry entry;
	ssize_t n;

	while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		if (now() > deadline)
			fail("%s does not complete", what);
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(cq, &error, 0);
		fail("%s: %s", what, fi_strerror(error.err));
	}
	check(n, what);
}

/* One operation on the first octets of both; again while the queue is full. */
static void transfer(bool put, size_t length)
{
	static struct fi_context context[2];
	void *desc = fi_mr_desc(own_mr);
	double deadline = now() + time_limit;
	ssize_t ret;

	do {
		ret = put ? fi_write(ep, own, length, desc, peer_addr,
				     peer.address, peer.key, context) :
			    fi_read(ep, own, length, desc, peer_addr,
				    peer.address, peer.key, context);
		if (ret == -FI_EAGAIN)
			progress();
	} while (ret == -FI_EAGAIN && now() < deadline);
	check(ret, put ? "fi_write" : "fi_read");
	wait_done(put ? "a put" : "a get");
}

static uint8_t octet_of(bool server, unsigned int round, size_t i)
{
	return (server ? 101 : 7) * (round + 1) + i + (i >> 8);
}

static void expect(const uint8_t *octets, size_t length, bool server,
		   unsigned int round, const char *what)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (octets[i] != octet_of(server, round, i))
			fail("%s, round %u of %zu octets: octet %zu is 0x%02x",
			     what, round, length, i, octets[i]);
}

/* A get behind a put shows that the put has arrived. */
static void run_round(bool server, unsigned int round, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		own[i] = octet_of(server, round, i);
	transfer(true, length);
	memset(own, 0, length);
	transfer(false, length);
	expect(own, length, server, round, "got");
	barrier();
	expect(target, length, !server, round, "put by the peer");
	barrier();
}

int main(int argc, char **argv)
{
	static const size_t lengths[] = { 8, 4096, MOST };
	unsigned int i, round;
	bool server;
	int option;

	program = "fabric-rma";
	while ((option = getopt_long(argc, argv, "t:h", options, NULL)) != -1)
		switch (option) {
		case 't':
			time_limit = parse_number(optarg, "--time-limit", 86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	if (argc - optind < 1 || argc - optind > 2)
		fail_usage();
	server = argc - optind == 1;

	find_provider(argv[optind]);
	open_endpoint();
	meet(argv[optind], server ? NULL : argv[optind + 1]);
	introduce();
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (round = 0; round < ROUNDS; round++)
			run_round(server, round, lengths[i]);
	barrier();
	close_endpoint();
	say("put and get over %s: ok", PROVIDER);
	return 0;
}
