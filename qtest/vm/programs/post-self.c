// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * post-self: a process that connects to itself and tries what the verbs promise
 * of posting work requests and of polling their completions: lists, wrong work
 * requests in lists, full queues, unsignaled work requests, states.
 *
 * Each trial has a connection of its own, since many of them spoil it.
 */

#include <errno.h>
#include <getopt.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#define MEMORY		65536
#define CHAIN		8
#define LIST		5
#define BAD		2	/* which of a list is wrong */
#define MIXED		31	/* of KINDS, the last one a Send */
#define KINDS		6
#define CIRCLES		200
#define MOST_POSTS	4096
#define MOST_LIST	64
#define SRQ_DEPTH	16
#define FAILING		10	/* Writes, of which number BAD is wrong */
#define ROOM		30000	/* octets of a receive */
#define QUIET_ROUNDS	2000

static const char help[] =
"usage: post-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and checks how\n"
"work requests can be posted and completions polled.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The active end, a, posts; b has the memory that Writes and Reads name. */
struct pair {
	struct endpoint a, b;
	uint8_t *a_memory, *b_memory;
	struct ibv_mr *a_mr, *b_mr;
	unsigned int receives;	/* posted by b */
	bool use_srq;		/* by b, which has no RQ then */
};

static const char *address;
static const char *port = DEFAULT_PORT;
static struct rdma_event_channel *listen_channel;

/* A wr_id that needs all 64 bits, for number i. */
static uint64_t wide(unsigned int i)
{
	return 0xfedcba9876543210ull - i * 0x1000100010001001ull;
}

/* -------------------------------------------------------- connections */

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (!srq || init.attr.max_wr != SRQ_DEPTH)
		fail("ibv_create_srq: %m, %u", init.attr.max_wr);
	return srq;
}

static void *accept_b(void *opaque)
{
	struct pair *p = opaque;
	unsigned int i;

	take_request(listen_channel, &p->b, NULL, 0);
	if (p->use_srq)
		p->b.srq = make_srq(p->b.id->pd);
	make_qp(&p->b);
	p->b_mr = register_memory(p->b.id, p->b_memory, MEMORY,
				  IBV_ACCESS_LOCAL_WRITE |
				  IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
	for (i = 0; i < p->receives; i++)
		post_receive(&p->b, p->b_mr, p->b_memory + i * 64, 64, wide(i));
	accept_on(&p->b);
	return NULL;
}

static void connect_ends(struct pair *p)
{
	pthread_t acceptor;
	int ret;

	p->a_memory = allocate(MEMORY);
	p->b_memory = allocate(MEMORY);
	ret = pthread_create(&acceptor, NULL, accept_b, p);
	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_to(&p->a, address, port, NULL, 0);
	pthread_join(acceptor, NULL);
	p->a_mr = register_memory(p->a.id, p->a_memory, MEMORY,
				  IBV_ACCESS_LOCAL_WRITE |
				  IBV_ACCESS_MW_BIND |
				  IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
}

static void connect_pair(struct pair *p, unsigned int receives)
{
	*p = (struct pair) { .receives = receives };
	connect_ends(p);
}

static void free_pair(struct pair *p)
{
	struct ibv_srq *srq = p->b.srq;

	ibv_dereg_mr(p->a_mr);
	ibv_dereg_mr(p->b_mr);
	free_endpoint(&p->a);
	free_endpoint(&p->b);
	if (srq && ibv_destroy_srq(srq))
		fail("ibv_destroy_srq: %m");
	free(p->a_memory);
	free(p->b_memory);
}

static void end_pair(struct pair *p)
{
	rdma_disconnect(p->a.id);
	rdma_disconnect(p->b.id);
	expect_and_ack(p->a.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect_and_ack(p->b.channel, RDMA_CM_EVENT_DISCONNECTED);
	free_pair(p);
}

/* ------------------------------------------------------ work requests */

/* One octet, a's number i to b's number i. */
static struct ibv_send_wr write_wr(struct pair *p, struct ibv_sge *sge,
				   unsigned int i, bool signaled)
{
	*sge = (struct ibv_sge) {
		(uintptr_t)p->a_memory + i, 1, p->a_mr->lkey,
	};
	return (struct ibv_send_wr) {
		.wr_id = i,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = {
			.remote_addr = (uintptr_t)p->b_memory + i,
			.rkey = p->b_mr->rkey,
		},
	};
}

static int try_write(struct pair *p, unsigned int i, bool signaled)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = write_wr(p, &sge, i, signaled);
	int ret = ibv_post_send(p->a.id->qp, &wr, &bad);

	if (ret && bad != &wr)
		fail("a refused work request is not the bad one");
	return ret;
}

static void post_write(struct pair *p, unsigned int i, bool signaled)
{
	int ret = try_write(p, i, signaled);

	if (ret)
		fail("ibv_post_send, number %u: %s", i, strerror(ret));
}

static void expect_refused(int ret, int error, const char *what)
{
	if (ret != error)
		fail("%s: %s, not %s", what, strerror(ret), strerror(error));
}

static void fill(struct pair *p)
{
	unsigned int i;

	for (i = 0; i < MEMORY; i++)
		p->a_memory[i] = 1 + i % 251;
}

/* By polling alone: no event may be needed. */
static struct ibv_wc poll_wc(struct ibv_cq *cq, uint64_t wr_id,
			     enum ibv_wc_status status)
{
	double end = now() + time_limit;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		if (now() > end)
			fail("no completion of %llu",
			     (unsigned long long)wr_id);
	if (n < 0)
		fail("ibv_poll_cq: %d", n);
	if (wc.wr_id != wr_id || wc.status != status)
		fail("completion of %llu, %s, not of %llu, %s",
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
		     ibv_wc_status_str(status));
	return wc;
}

static void poll_one(struct ibv_cq *cq, uint64_t wr_id,
		     enum ibv_wc_status status)
{
	poll_wc(cq, wr_id, status);
}

static void expect_nothing(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;

	poll(NULL, 0, 50);
	if (ibv_poll_cq(cq, 1, &wc))
		fail("%s: a completion of %llu, %s", what,
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
}

/* Until b's number i has come. */
static void await_octet(struct pair *p, unsigned int i)
{
	double end = now() + time_limit;

	while (*(volatile uint8_t *)&p->b_memory[i] != p->a_memory[i])
		if (now() > end)
			fail("octet %u did not arrive", i);
}

static uint64_t doorbells(struct pair *p)
{
	char path[256];
	unsigned long long value;
	FILE *f;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/1/hw_counters/doorbells",
		 ibv_get_device_name(p->a.id->verbs->device));
	/* The kernel asks the device anew after 10 ms. */
	poll(NULL, 0, 50);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &value) != 1)
		fail("%s: %m", path);
	fclose(f);
	return value;
}

/* --------------------------------------------------------------- trials */

/* A list is one post and, the queue being idle, one doorbell; when the call is
 * over nobody needs the list any more. */
static void try_chain(void)
{
	struct ibv_send_wr *bad, wrs[CHAIN];
	struct ibv_sge sges[CHAIN];
	struct pair p;
	uint64_t before;
	unsigned int i;
	int ret;

	connect_pair(&p, 0);
	fill(&p);
	post_write(&p, CHAIN, true);
	poll_one(p.a.send_cq, CHAIN, IBV_WC_SUCCESS);
	before = doorbells(&p);
	for (i = 0; i < CHAIN; i++) {
		wrs[i] = write_wr(&p, &sges[i], i, true);
		wrs[i].next = i + 1 < CHAIN ? &wrs[i + 1] : NULL;
	}
	ret = ibv_post_send(p.a.id->qp, wrs, &bad);
	memset(wrs, 0xee, sizeof(wrs));
	memset(sges, 0xee, sizeof(sges));
	if (ret)
		fail("a list of %d: %s", CHAIN, strerror(ret));
	if (doorbells(&p) != before + 1)
		fail("a list took %llu doorbells",
		     (unsigned long long)(doorbells(&p) - before));
	for (i = 0; i < CHAIN; i++) {
		poll_one(p.a.send_cq, i, IBV_WC_SUCCESS);
		await_octet(&p, i);
	}
	end_pair(&p);
	say("lists: ok");
}

/* The same of receives: the message of each finds its place. */
static void try_receive_chain(void)
{
	struct ibv_recv_wr *bad, wrs[CHAIN];
	struct ibv_sge sges[CHAIN];
	struct pair p;
	unsigned int i;
	int ret;

	connect_pair(&p, 0);
	fill(&p);
	for (i = 0; i < CHAIN; i++) {
		sges[i] = (struct ibv_sge) {
			(uintptr_t)p.b_memory + 64 * i, 64, p.b_mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr) {
			.wr_id = i, .sg_list = &sges[i], .num_sge = 1,
			.next = i + 1 < CHAIN ? &wrs[i + 1] : NULL,
		};
	}
	ret = ibv_post_recv(p.b.id->qp, wrs, &bad);
	memset(wrs, 0xee, sizeof(wrs));
	memset(sges, 0xee, sizeof(sges));
	if (ret)
		fail("a list of %d receives: %s", CHAIN, strerror(ret));
	for (i = 0; i < CHAIN; i++) {
		post_message(&p.a, p.a_mr, p.a_memory + 64 * i, 64, i);
		poll_one(p.a.send_cq, i, IBV_WC_SUCCESS);
		poll_one(p.b.recv_cq, i, IBV_WC_SUCCESS);
	}
	if (memcmp(p.a_memory, p.b_memory, 64 * CHAIN))
		fail("messages are not where their receives say");
	end_pair(&p);
	say("lists of receives: ok");
}

static void fill_srq_list(struct pair *p, struct ibv_recv_wr *wrs,
			  struct ibv_sge *sges, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge) {
			(uintptr_t)p->b_memory + 64 * i, 64, p->b_mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr) {
			.wr_id = wide(i), .sg_list = &sges[i], .num_sge = 1,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
		};
	}
}

/* A message for each of the first count WRs of a list, where that one says. */
static void use_srq_list(struct pair *p, unsigned int count)
{
	unsigned int i;

	memset(p->b_memory, 0, MEMORY);
	for (i = 0; i < count; i++) {
		post_message(&p->a, p->a_mr, p->a_memory + 64 * i, 64, i);
		poll_one(p->a.send_cq, i, IBV_WC_SUCCESS);
		poll_one(p->b.recv_cq, wide(i), IBV_WC_SUCCESS);
	}
	if (memcmp(p->a_memory, p->b_memory, 64 * count) ||
	    p->b_memory[64 * count])
		fail("messages are not where an S-RQ's receives say");
}

/* Of an S-RQ: of a list whose third is bad two are taken, and have the next two
 * messages; then a list is taken as a whole; then as much of one as there is room for. */
static void try_srq_lists(void)
{
	struct ibv_recv_wr *bad = NULL, wrs[MOST_LIST];
	struct pair p = { .use_srq = true };
	struct ibv_sge sges[MOST_LIST];
	int ret;

	connect_ends(&p);
	fill(&p);
	fill_srq_list(&p, wrs, sges, LIST);
	wrs[BAD].num_sge = 10000;
	expect_refused(ibv_post_srq_recv(p.b.srq, wrs, &bad), EINVAL,
		       "an S-RQ's list with too many SGEs in the third");
	if (bad != &wrs[BAD])
		fail("number %td of an S-RQ's list is said to be bad",
		     bad - wrs);
	use_srq_list(&p, BAD);
	fill_srq_list(&p, wrs, sges, CHAIN);
	ret = ibv_post_srq_recv(p.b.srq, wrs, &bad);
	memset(wrs, 0xee, sizeof(wrs));
	memset(sges, 0xee, sizeof(sges));
	if (ret)
		fail("a list of %d for an S-RQ: %s", CHAIN, strerror(ret));
	use_srq_list(&p, CHAIN);
	fill_srq_list(&p, wrs, sges, MOST_LIST);
	expect_refused(ibv_post_srq_recv(p.b.srq, wrs, &bad), ENOMEM,
		       "a list of more than an S-RQ has room for");
	if (bad != &wrs[SRQ_DEPTH])
		fail("%td of a list fill an S-RQ of %u", bad - wrs, SRQ_DEPTH);
	use_srq_list(&p, SRQ_DEPTH);
	expect_nothing(p.b.recv_cq, "all of an S-RQ's lists is used");
	end_pair(&p);
	say("lists of an S-RQ: ok");
}

/* What is before the bad one runs, what is behind it never does. */
static void try_bad_in_list(void)
{
	struct ibv_recv_wr *bad_recv, recvs[LIST];
	struct ibv_send_wr *bad, wrs[LIST];
	struct ibv_sge sges[LIST], room;
	struct pair p;
	unsigned int i;

	connect_pair(&p, 0);
	fill(&p);
	room = (struct ibv_sge) { (uintptr_t)p.b_memory, 64, p.b_mr->lkey };
	for (i = 0; i < LIST; i++) {
		wrs[i] = write_wr(&p, &sges[i], i, true);
		wrs[i].next = i + 1 < LIST ? &wrs[i + 1] : NULL;
		recvs[i] = (struct ibv_recv_wr) {
			.wr_id = i,
			.next = i + 1 < LIST ? &recvs[i + 1] : NULL,
			.sg_list = &room,
			.num_sge = 1,
		};
	}
	wrs[BAD].num_sge = 10000;
	expect_refused(ibv_post_send(p.a.id->qp, wrs, &bad), EINVAL,
		       "a list with too many SGEs in the third");
	if (bad != &wrs[BAD])
		fail("number %td is said to be bad", bad - wrs);
	for (i = 0; i < BAD; i++)
		poll_one(p.a.send_cq, i, IBV_WC_SUCCESS);
	expect_nothing(p.a.send_cq, "behind the bad one");
	for (; i < LIST; i++)
		if (p.b_memory[i])
			fail("octet %u of a refused Write arrived", i);

	wrs[BAD].opcode = IBV_WR_RDMA_READ;
	wrs[BAD].next = NULL;
	expect_refused(ibv_post_send(p.a.id->qp, &wrs[BAD], &bad), EINVAL,
		       "a Read with too many SGEs");
	if (bad != &wrs[BAD])
		fail("the Read is not said to be bad");
	expect_nothing(p.a.send_cq, "a refused Read");

	recvs[BAD].num_sge = 10000;
	expect_refused(ibv_post_recv(p.b.id->qp, recvs, &bad_recv), EINVAL,
		       "a receive list with too many SGEs in the third");
	if (bad_recv != &recvs[BAD])
		fail("receive %td is said to be bad", bad_recv - recvs);
	for (i = 0; i < BAD; i++) {
		post_message(&p.a, p.a_mr, p.a_memory, 8, 100 + i);
		poll_one(p.a.send_cq, 100 + i, IBV_WC_SUCCESS);
		poll_one(p.b.recv_cq, i, IBV_WC_SUCCESS);
	}
	/* Nothing of the list waits in either queue. */
	post_write(&p, 200, true);
	poll_one(p.a.send_cq, 200, IBV_WC_SUCCESS);
	end_pair(&p);
	say("bad work requests in lists: ok");
}

/* All but the last of a list have room; count: at most MOST_POSTS. */
static void fill_rq_by_list(struct pair *p, unsigned int count)
{
	struct ibv_recv_wr *wrs = calloc(count + 1, sizeof(*wrs)), *bad = NULL;
	unsigned int i;

	if (!wrs)
		fail("no memory");
	for (i = 0; i <= count; i++) {
		wrs[i].wr_id = wide(i);
		wrs[i].next = i < count ? &wrs[i + 1] : NULL;
	}
	expect_refused(ibv_post_recv(p->b.id->qp, wrs, &bad), ENOMEM,
		       "a list for a full RQ");
	if (bad != &wrs[count])
		fail("a list for an RQ of %u is refused from number %td on",
		     count, bad - wrs);
	for (i = 0; i < count; i++) {
		post_message(&p->a, p->a_mr, p->a_memory, 0, 7);
		poll_one(p->a.send_cq, 7, IBV_WC_SUCCESS);
		poll_one(p->b.recv_cq, wide(i), IBV_WC_SUCCESS);
	}
	free(wrs);
}

static void expect_full_rq(struct pair *p, const char *what)
{
	struct ibv_recv_wr *bad = NULL, recv = { 0 };

	expect_refused(ibv_post_recv(p->b.id->qp, &recv, &bad), ENOMEM, what);
	if (bad != &recv)
		fail("%s: the receive is not said to be bad", what);
}

/* a's number i to b's number i, where a receive waits for it. */
static void send_octet(struct pair *p, unsigned int i)
{
	post_message(&p->a, p->a_mr, p->a_memory + i, 1, 7);
	poll_one(p->a.send_cq, 7, IBV_WC_SUCCESS);
	await_octet(p, i);
}

/* A slot comes back with the completion, not with the message. */
static void fill_rq_unpolled(struct pair *p, unsigned int count)
{
	unsigned int i;

	fill(p);
	for (i = 0; i < count; i++)
		post_receive(&p->b, p->b_mr, p->b_memory + i, 1, wide(i));
	for (i = 0; i < count; i++)
		send_octet(p, i);
	expect_full_rq(p, "all receives done, none polled");
	poll_one(p->b.recv_cq, wide(0), IBV_WC_SUCCESS);
	post_receive(&p->b, p->b_mr, p->b_memory + count, 1, wide(count));
	expect_full_rq(p, "one receive polled, one posted");
	for (i = 1; i < count; i++)
		poll_one(p->b.recv_cq, wide(i), IBV_WC_SUCCESS);
	send_octet(p, count);
	poll_one(p->b.recv_cq, wide(count), IBV_WC_SUCCESS);
}

static void fill_rq(struct pair *p)
{
	struct ibv_recv_wr *bad = NULL, recv = { 0 };
	unsigned int receives = 0, i;
	int ret;

	while (!(ret = ibv_post_recv(p->b.id->qp, &recv, &bad)))
		if (++receives == MOST_POSTS)
			fail("the RQ is never full");
	expect_refused(ret, ENOMEM, "a full RQ");
	if (receives < QP_DEPTH || bad != &recv)
		fail("an RQ of %d is full with %u", QP_DEPTH, receives);
	/* The refusal disturbs none of them. */
	for (i = 0; i < receives; i++) {
		post_message(&p->a, p->a_mr, p->a_memory, 0, 7);
		poll_one(p->a.send_cq, 7, IBV_WC_SUCCESS);
		poll_one(p->b.recv_cq, 0, IBV_WC_SUCCESS);
	}
	fill_rq_by_list(p, receives);
	fill_rq_unpolled(p, receives);
	expect_nothing(p->b.recv_cq, "all receives have completed");
}

/* A list takes as much of the SQ as its WRs do one by one. */
static void try_full_by_list(unsigned int room)
{
	struct ibv_send_wr *bad = NULL, wrs[CHAIN];
	struct ibv_sge sges[CHAIN];
	unsigned int posted = 0, i;
	struct pair p;
	int ret;

	connect_pair(&p, 0);
	fill(&p);
	do {
		for (i = 0; i < CHAIN; i++) {
			wrs[i] = write_wr(&p, &sges[i], posted + i, false);
			wrs[i].next = i + 1 < CHAIN ? &wrs[i + 1] : NULL;
		}
		ret = ibv_post_send(p.a.id->qp, wrs, &bad);
		posted += ret ? bad - wrs : CHAIN;
	} while (!ret && posted < MOST_POSTS);
	expect_refused(ret, ENOMEM, "a list for a full SQ");
	if (posted != room)
		fail("%u WRs of lists fill an SQ that has room for %u", posted,
		     room);
	for (i = 0; i < posted; i++)
		await_octet(&p, i);
	if (p.b_memory[posted])
		fail("octet %u of a refused Write arrived", posted);
	end_pair(&p);
}

static void fill_srq(struct pair *p)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = 10, .max_sge = 1 },
	};
	struct ibv_srq *srq = ibv_create_srq(p->b.id->pd, &init);
	struct ibv_recv_wr *bad = NULL, recv = { 0 };
	unsigned int receives = 0;
	int ret;

	if (!srq)
		fail("ibv_create_srq: %m");
	while (!(ret = ibv_post_srq_recv(srq, &recv, &bad)))
		if (++receives == MOST_POSTS)
			fail("the S-RQ is never full");
	expect_refused(ret, ENOMEM, "a full S-RQ");
	if (receives != init.attr.max_wr || bad != &recv)
		fail("an S-RQ of %u is full with %u", init.attr.max_wr,
		     receives);
	if (ibv_destroy_srq(srq))
		fail("ibv_destroy_srq: %m");
}

/* Three SGEs are more than the one unit of the ring that is free. */
static void refuse_longer(struct pair *p)
{
	struct ibv_send_wr *bad = NULL, wr = { .opcode = IBV_WR_SEND };
	struct ibv_sge sges[3] = { { 0 } };

	wr.sg_list = sges;
	wr.num_sge = 3;
	expect_refused(ibv_post_send(p->a.id->qp, &wr, &bad), ENOMEM,
		       "a long WR where a short one has room");
	if (bad != &wr)
		fail("the long WR is not said to be bad");
}

/* A slot comes back with the completion, not with the work. */
static void try_full_queues(void)
{
	struct pair p;
	unsigned int n, i;
	int ret;

	connect_pair(&p, 0);
	fill(&p);
	post_write(&p, 0, true);
	for (n = 1; !(ret = try_write(&p, n, false)); n++)
		if (n == MOST_POSTS)
			fail("the SQ is never full");
	expect_refused(ret, ENOMEM, "a full SQ");
	if (n < QP_DEPTH)
		fail("an SQ of %d is full with %u", QP_DEPTH, n);
	for (i = 0; i < n; i++)
		await_octet(&p, i);
	expect_refused(try_write(&p, n, false), ENOMEM, "all done, none polled");
	poll_one(p.a.send_cq, 0, IBV_WC_SUCCESS);
	refuse_longer(&p);
	post_write(&p, n, false);
	expect_refused(try_write(&p, n + 1, false), ENOMEM,
		       "one polled, one posted");
	await_octet(&p, n);
	expect_nothing(p.a.send_cq, "unsignaled successes");
	/* What was refused was never sent. */
	if (p.b_memory[n + 1])
		fail("octet %u of a refused Write arrived", n + 1);

	end_pair(&p);
	try_full_by_list(n);
	connect_pair(&p, 0);
	fill_rq(&p);
	fill_srq(&p);
	end_pair(&p);
	say("full queues: ok");
}

/* As many SGEs as the QP may have, or as there are octets. */
static int with_most(const struct pair *p, struct ibv_sge *sges, uint32_t length)
{
	uint32_t count = length < p->a.max_sge ? length : p->a.max_sge, i;

	for (i = 0; i < count; i++)
		sges[i] = (struct ibv_sge) {
			(uintptr_t)p->a_memory + i, 1, p->a_mr->lkey,
		};
	if (count)
		sges[count - 1].length = length - (count - 1);
	return count;
}

/* What the QP says that its SQ has room for. */
static uint32_t told_depth(struct pair *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(p->a.id->qp, &attr, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %m");
	return init.cap.max_send_wr;
}

/* So many Writes of the most SGEs; the last one is signaled. */
static void post_circle(struct pair *p, uint32_t depth)
{
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sges[16];
	uint32_t i;
	int ret;

	for (i = 0; i < depth; i++) {
		wr = write_wr(p, sges, i, i == depth - 1);
		wr.num_sge = with_most(p, sges, 64);
		ret = ibv_post_send(p->a.id->qp, &wr, &bad);
		if (ret)
			fail("number %u of an SQ of %u: %s", i, depth,
			     strerror(ret));
	}
	poll_one(p->a.send_cq, depth - 1, IBV_WC_SUCCESS);
}

/* One signaled work request in a whole queue keeps it going. */
static void try_circles(void)
{
	unsigned int circle;
	struct pair p;
	uint32_t depth;

	connect_pair(&p, 0);
	fill(&p);
	depth = told_depth(&p);
	if (depth < QP_DEPTH)
		fail("an SQ of %d says %u", QP_DEPTH, depth);
	for (circle = 0; circle < CIRCLES; circle++)
		post_circle(&p, depth);
	expect_nothing(p.a.send_cq, "one signaled of a queue");
	end_pair(&p);
	say("one signaled of a whole queue: ok");
}

static void post_unsignaled(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret = ibv_post_send(p->a.id->qp, wr, &bad);

	if (ret)
		fail("unsignaled, opcode %d: %s", wr->opcode, strerror(ret));
}

/* Number i of all kinds in turn, a fence where it means nothing; gone: what Sends
 * invalidate, which may be Invalid already. */
static struct ibv_send_wr mixed_wr(struct pair *p, struct ibv_sge *sge,
				   unsigned int i, struct ibv_mw *mw,
				   uint32_t gone)
{
	unsigned int solicited = i / KINDS % 2 ? IBV_SEND_SOLICITED : 0;
	struct ibv_send_wr wr = write_wr(p, sge, 4096 + i, false);

	switch (i % KINDS) {
	case 0:
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = solicited;
		break;
	case 1:
		wr.opcode = IBV_WR_RDMA_READ;
		wr.send_flags = IBV_SEND_FENCE;
		sge->addr = (uintptr_t)p->a_memory + 8192 + i;
		break;
	case 2:
		wr = (struct ibv_send_wr) {
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_FENCE,
			.bind_mw = {
				.mw = mw,
				.rkey = ibv_inc_rkey(mw->rkey),
				.bind_info = {
					.mr = p->a_mr,
					.addr = (uintptr_t)p->a_memory,
					.length = 64,
					.mw_access_flags =
						IBV_ACCESS_REMOTE_WRITE,
				},
			},
		};
		mw->rkey = wr.bind_mw.rkey;
		break;
	case 3:
		wr = (struct ibv_send_wr) {
			.opcode = IBV_WR_LOCAL_INV,
			.invalidate_rkey = mw->rkey,
		};
		break;
	case 4:
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.send_flags = solicited;
		wr.invalidate_rkey = gone;
		break;
	}
	return wr;
}

/* Every kind, none signaled; then one Write that is: one completion. */
static void try_unsignaled(void)
{
	unsigned int sends = 0, i;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *gone;
	struct ibv_mw *mw;
	struct pair p;

	connect_pair(&p, MIXED);
	fill(&p);
	gone = register_memory(p.b.id, p.b_memory, 64,
			       IBV_ACCESS_LOCAL_WRITE |
			       IBV_ACCESS_REMOTE_WRITE);
	mw = ibv_alloc_mw(p.a.id->pd, IBV_MW_TYPE_2);
	if (!mw)
		fail("ibv_alloc_mw: %m");
	for (i = 0; i < MIXED; i++) {
		wr = mixed_wr(&p, &sge, i, mw, gone->rkey);
		sends += wr.opcode == IBV_WR_SEND ||
			 wr.opcode == IBV_WR_SEND_WITH_INV;
		post_unsignaled(&p, &wr);
	}
	post_write(&p, 7, true);
	poll_one(p.a.send_cq, 7, IBV_WC_SUCCESS);
	expect_nothing(p.a.send_cq, "31 unsignaled, one signaled");
	for (i = 0; i < sends; i++)
		poll_one(p.b.recv_cq, wide(i), IBV_WC_SUCCESS);
	if (ibv_dereg_mr(gone))
		fail("ibv_dereg_mr: %m");
	end_pair(&p);
	say("unsignaled work requests: ok");
	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw: %m");
}

/* Each wr_id once: those done before, and those that the error flushes. */
static void try_flush(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair p;
	unsigned int i;

	connect_pair(&p, 8);
	fill(&p);
	for (i = 0; i < 4; i++)
		post_message(&p.a, p.a_mr, p.a_memory + i * 64, 8, i);
	poll_one(p.a.send_cq, 0, IBV_WC_SUCCESS);
	poll_one(p.a.send_cq, 1, IBV_WC_SUCCESS);
	await_octet(&p, 3 * 64);
	poll_one(p.b.recv_cq, wide(0), IBV_WC_SUCCESS);
	/* Two of each are there and not polled, four receives wait. */
	if (ibv_modify_qp(p.b.id->qp, &attr, IBV_QP_STATE))
		fail("ibv_modify_qp: %m");
	for (i = 1; i < 4; i++)
		poll_one(p.b.recv_cq, wide(i), IBV_WC_SUCCESS);
	for (; i < 8; i++)
		poll_one(p.b.recv_cq, wide(i), IBV_WC_WR_FLUSH_ERR);
	expect_nothing(p.b.recv_cq, "all receives have completed");
	poll_one(p.a.send_cq, 2, IBV_WC_SUCCESS);
	poll_one(p.a.send_cq, 3, IBV_WC_SUCCESS);
	expect_nothing(p.a.send_cq, "all Sends have completed");
	end_pair(&p);
	say("flushed work requests: ok");
}

/* Two halves, and between them an SGE of nothing, for which any lkey will do. */
static int with_empty(struct ibv_sge *sges, uint8_t *at, uint32_t length,
		      uint32_t lkey)
{
	uint32_t half = length / 2;

	sges[0] = (struct ibv_sge) { (uintptr_t)at, half, lkey };
	sges[1] = (struct ibv_sge) { (uintptr_t)at, 0, 0x1234567 };
	sges[2] = (struct ibv_sge) { (uintptr_t)at + half, length - half, lkey };
	return 3;
}

static void post_list_of_sges(struct pair *p, enum ibv_wr_opcode opcode,
			      uint64_t wr_id, struct ibv_sge *sges, int count)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = sges,
		.num_sge = count,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = (uintptr_t)p->b_memory,
			.rkey = p->b_mr->rkey,
		},
	};
	int ret = ibv_post_send(p->a.id->qp, &wr, &bad);

	if (ret)
		fail("opcode %d with %d SGEs: %s", opcode, count,
		     strerror(ret));
}

static void check_arrived(struct pair *p, uint32_t length, const char *what)
{
	if (memcmp(p->a_memory, p->b_memory, length) || p->b_memory[length])
		fail("%s of %u octets: others have arrived", what, length);
	memset(p->b_memory, 0, MEMORY);
}

/* The receive is complete with the length of the message, not of its room. */
static void try_length(struct pair *p, uint32_t length, bool most)
{
	/* All 64 bits of a wr_id come back. */
	const uint64_t send_id = length ? 0 : UINT64_MAX, recv_id = ~send_id;
	struct ibv_sge sges[16], room[3];
	struct ibv_recv_wr *bad, recv = { .wr_id = recv_id, .sg_list = room };
	int count = most ? with_most(p, sges, length) :
		    with_empty(sges, p->a_memory, length, p->a_mr->lkey);
	struct ibv_wc wc;
	int ret;

	recv.num_sge = with_empty(room, p->b_memory, ROOM, p->b_mr->lkey);
	ret = ibv_post_recv(p->b.id->qp, &recv, &bad);
	if (ret)
		fail("a receive with an empty SGE: %s", strerror(ret));
	post_list_of_sges(p, IBV_WR_SEND, send_id, sges, count);
	wc = poll_wc(p->a.send_cq, send_id, IBV_WC_SUCCESS);
	if (wc.opcode != IBV_WC_SEND || wc.qp_num != p->a.id->qp->qp_num)
		fail("a Send completes as %d of QP %u", wc.opcode, wc.qp_num);
	wc = poll_wc(p->b.recv_cq, recv_id, IBV_WC_SUCCESS);
	if (wc.byte_len != length || wc.opcode != IBV_WC_RECV || wc.wc_flags ||
	    wc.qp_num != p->b.id->qp->qp_num)
		fail("a message of %u octets: %u of kind %d, flags 0x%x, QP %u",
		     length, wc.byte_len, wc.opcode, wc.wc_flags, wc.qp_num);
	check_arrived(p, length, "Send");

	post_list_of_sges(p, IBV_WR_RDMA_WRITE, 1, sges, count);
	poll_one(p->a.send_cq, 1, IBV_WC_SUCCESS);
	/* A Read of nothing comes behind it. */
	post_list_of_sges(p, IBV_WR_RDMA_READ, 2, NULL, 0);
	poll_one(p->a.send_cq, 2, IBV_WC_SUCCESS);
	check_arrived(p, length, "Write");
}

static void try_lengths(void)
{
	static const uint32_t lengths[] = { 0, 1, 2, 1500, 20000, 0 };
	struct pair p;
	unsigned int i;

	connect_pair(&p, 0);
	fill(&p);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		try_length(&p, lengths[i], false);
		try_length(&p, lengths[i], true);
	}
	end_pair(&p);
	say("lengths of messages: ok");
}

/* Two SGEs at each end, each of a region of its own that ends where the SGE does. */
static void try_regions_of_list(void)
{
	static const uint32_t from[] = { 0, 1000 }, to[] = { 9000, 5000 };
	static const uint32_t sent[] = { 100, 60 }, taken[] = { 70, 90 };
	struct ibv_sge sges[2], room[2];
	struct ibv_recv_wr *bad, recv = { .sg_list = room, .num_sge = 2 };
	struct ibv_mr *a[2], *b[2];
	struct pair p;
	uint8_t *at;
	int i;

	connect_pair(&p, 0);
	fill(&p);
	for (i = 0; i < 2; i++) {
		at = p.a_memory + from[i];
		a[i] = register_memory(p.a.id, at, sent[i],
				       IBV_ACCESS_LOCAL_WRITE);
		sges[i] = (struct ibv_sge) { (uintptr_t)at, sent[i], a[i]->lkey };
		at = p.b_memory + to[i];
		b[i] = register_memory(p.b.id, at, taken[i],
				       IBV_ACCESS_LOCAL_WRITE);
		room[i] = (struct ibv_sge) { (uintptr_t)at, taken[i], b[i]->lkey };
	}
	if (ibv_post_recv(p.b.id->qp, &recv, &bad))
		fail("a receive of two regions is refused");
	post_list_of_sges(&p, IBV_WR_SEND, 1, sges, 2);
	poll_one(p.a.send_cq, 1, IBV_WC_SUCCESS);
	poll_one(p.b.recv_cq, 0, IBV_WC_SUCCESS);
	post_list_of_sges(&p, IBV_WR_RDMA_WRITE, 2, sges, 2);
	poll_one(p.a.send_cq, 2, IBV_WC_SUCCESS);
	/* A Read of nothing comes behind it. */
	post_list_of_sges(&p, IBV_WR_RDMA_READ, 3, NULL, 0);
	poll_one(p.a.send_cq, 3, IBV_WC_SUCCESS);
	if (memcmp(p.b_memory, p.a_memory, 100) ||
	    memcmp(p.b_memory + 100, p.a_memory + 1000, 60))
		fail("a Write of two regions: others have arrived");
	if (memcmp(p.b_memory + 9000, p.b_memory, 70) ||
	    memcmp(p.b_memory + 5000, p.b_memory + 70, 90))
		fail("a Send of two regions: others have arrived");
	for (i = 0; i < 2; i++)
		if (ibv_dereg_mr(a[i]) || ibv_dereg_mr(b[i]))
			fail("ibv_dereg_mr: %m");
	end_pair(&p);
	say("regions of a list: ok");
}

/* The next event about a QP, within seconds; NULL: none. */
static struct ibv_qp *next_qp_event(struct pair *p, double seconds,
				    enum ibv_event_type *type)
{
	struct pollfd fd = { .fd = p->a.id->verbs->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, seconds * 1000) <= 0)
		return NULL;
	if (ibv_get_async_event(p->a.id->verbs, &event))
		fail("ibv_get_async_event: %m");
	*type = event.event_type;
	ibv_ack_async_event(&event);
	return event.element.qp;
}

/* The end that finds a work request wrong completes it, and has no event besides; the
 * other one, which a Terminate has reached, has the event. */
static void expect_fatal_event(struct pair *p)
{
	enum ibv_event_type type;
	struct ibv_qp *qp = next_qp_event(p, time_limit, &type);

	if (!qp)
		fail("no event at the other end");
	do {
		if (qp == p->b.id->qp && type == IBV_EVENT_QP_FATAL)
			continue;
		fail("%s of QP %u", ibv_event_type_str(type), qp->qp_num);
	} while ((qp = next_qp_event(p, 0.3, &type)));
}

/* None is signaled; those before the wrong one say nothing, all others do. */
static void try_errors(void)
{
	struct pair p;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned int i;

	connect_pair(&p, 4);
	fill(&p);
	for (i = 0; i < FAILING; i++) {
		wr = write_wr(&p, &sge, i, false);
		wr.wr_id = wide(i);
		if (i == BAD)
			sge.lkey ^= 0x5500;
		post_unsignaled(&p, &wr);
	}
	poll_one(p.a.send_cq, wide(BAD), IBV_WC_LOC_PROT_ERR);
	for (i = BAD + 1; i < FAILING; i++)
		poll_one(p.a.send_cq, wide(i), IBV_WC_WR_FLUSH_ERR);
	expect_nothing(p.a.send_cq, "all Writes have completed");
	for (i = 0; i < BAD; i++)
		await_octet(&p, i);
	for (; i < FAILING; i++)
		if (p.b_memory[i])
			fail("octet %u of a Write that failed arrived", i);
	expect_fatal_event(&p);
	for (i = 0; i < 4; i++)
		poll_one(p.b.recv_cq, wide(i), IBV_WC_WR_FLUSH_ERR);
	end_pair(&p);
	say("unsignaled work requests that fail: ok");
}

/* One end closes the connection: both are told once, by the connection; no QP has an
 * event. What waits comes back. */
static void try_close(void)
{
	enum ibv_event_type type;
	struct pair p;
	unsigned int i;

	connect_pair(&p, 4);
	if (rdma_disconnect(p.a.id))
		fail("rdma_disconnect: %m");
	expect_and_ack(p.a.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect_and_ack(p.b.channel, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < 4; i++)
		poll_one(p.b.recv_cq, wide(i), IBV_WC_WR_FLUSH_ERR);
	if (next_event(p.a.channel, 0.3) || next_event(p.b.channel, 0.1))
		fail("an end is told twice of the end");
	if (next_qp_event(&p, 0.1, &type))
		fail("%s after a close", ibv_event_type_str(type));
	free_pair(&p);
	say("closing: ok");
}

/* Together their lengths are zero, for who counts with 32 bits. */
static void try_too_long(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sges[2];
	struct ibv_wc wc;
	struct pair p;
	double end;

	connect_pair(&p, 1);
	fill(&p);
	sges[0] = (struct ibv_sge) {
		(uintptr_t)p.a_memory, 1u << 31, p.a_mr->lkey,
	};
	sges[1] = sges[0];
	post_list_of_sges(&p, opcode, 5, sges, 2);
	end = now() + time_limit;
	while (!ibv_poll_cq(p.a.send_cq, 1, &wc))
		if (now() > end)
			fail("no completion of 4 GiB, opcode %d", opcode);
	if (wc.wr_id != 5 || wc.status == IBV_WC_SUCCESS)
		fail("4 GiB, opcode %d: %s", opcode,
		     ibv_wc_status_str(wc.status));
	if (p.b_memory[0] || p.a_memory[0] != 1)
		fail("octets of 4 GiB arrived, opcode %d", opcode);
	poll_one(p.b.recv_cq, wide(0), IBV_WC_WR_FLUSH_ERR);
	end_pair(&p);
}

/* The same of a receive: what comes for it does not arrive. */
static void try_too_long_receive(void)
{
	struct ibv_sge sges[2];
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wide(6), .sg_list = sges, .num_sge = 2,
	};
	struct pair p;
	int ret;

	connect_pair(&p, 0);
	fill(&p);
	sges[0] = (struct ibv_sge) {
		(uintptr_t)p.b_memory, 1u << 31, p.b_mr->lkey,
	};
	sges[1] = sges[0];
	ret = ibv_post_recv(p.b.id->qp, &wr, &bad);
	if (ret)
		fail("a receive of 4 GiB: %s", strerror(ret));
	sges[0] = (struct ibv_sge) {
		(uintptr_t)p.a_memory, 8, p.a_mr->lkey,
	};
	post_list_of_sges(&p, IBV_WR_SEND, 7, sges, 1);
	poll_one(p.b.recv_cq, wide(6), IBV_WC_LOC_LEN_ERR);
	if (p.b_memory[0])
		fail("octets arrived in a receive of 4 GiB");
	end_pair(&p);
}

/* ------------------------------------------------- without the system */

static atomic_bool quiet_done;

static bool await_quietly(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (!n);
	return n == 1 && wc.wr_id == wr_id && wc.status == IBV_WC_SUCCESS;
}

static bool quiet_round(struct pair *p, uint64_t round)
{
	struct ibv_sge from = { (uintptr_t)p->a_memory, 64, p->a_mr->lkey };
	struct ibv_sge to = { (uintptr_t)p->b_memory, 64, p->b_mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = {
		.wr_id = round, .sg_list = &to, .num_sge = 1,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = round, .sg_list = &from, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	return !ibv_req_notify_cq(p->b.recv_cq, round & 1) &&
	       !ibv_post_recv(p->b.id->qp, &recv, &bad_recv) &&
	       !ibv_post_send(p->a.id->qp, &wr, &bad) &&
	       await_quietly(p->a.send_cq, round) &&
	       await_quietly(p->b.recv_cq, round);
}

/* The kernel ends this thread at the first system call but that of its end. */
static void *run_quietly(void *opaque)
{
	uint64_t round = 0;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		fail("PR_SET_SECCOMP: %m");
	while (round < QUIET_ROUNDS && quiet_round(opaque, round))
		round++;
	atomic_store(&quiet_done, round == QUIET_ROUNDS);
	syscall(SYS_exit, 0);
	return NULL;
}

static void try_without_system(void)
{
	pthread_t thread;
	struct pair p;
	int ret;

	connect_pair(&p, 0);
	ret = pthread_create(&thread, NULL, run_quietly, &p);
	if (ret)
		fail("pthread_create: %s", strerror(ret));
	pthread_join(thread, NULL);
	if (!atomic_load(&quiet_done))
		fail("posting, polling or asking for an event calls the system, or fails");
	end_pair(&p);
	say("without system calls: ok");
}

/* Verbs' Reset: nothing is accepted, nor sent later. (In Init it is, and held:
 * V6.2.1-2.) */
static void try_reset(void)
{
	struct endpoint ep = { .channel = make_channel() };
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	char why[WHY_SIZE];
	struct ibv_qp *qp;

	ep.id = resolve(ep.channel, address, port, why);
	if (!ep.id)
		fail("%s: %s", address, why);
	make_qp(&ep);
	init.send_cq = ep.send_cq;
	init.recv_cq = ep.recv_cq;
	qp = ibv_create_qp(ep.id->pd, &init);
	if (!qp)
		fail("ibv_create_qp: %m");
	expect_refused(ibv_post_send(qp, &wr, &bad), EINVAL,
		       "a Send in Reset");
	if (bad != &wr)
		fail("the Send is not said to be bad");
	expect_refused(ibv_post_recv(qp, &recv, &bad_recv), EINVAL,
		       "a receive in Reset");
	if (bad_recv != &recv)
		fail("the receive is not said to be bad");
	expect_nothing(ep.send_cq, "a refused Send");
	expect_nothing(ep.recv_cq, "a refused receive");
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp: %m");
	free_endpoint(&ep);
	say("posting in Reset: ok");
}

static void run(void)
{
	struct rdma_cm_id *listener;

	listen_channel = make_channel();
	listener = listen_at(listen_channel, address, port);
	try_reset();
	try_chain();
	try_receive_chain();
	try_bad_in_list();
	try_srq_lists();
	try_full_queues();
	try_circles();
	try_unsignaled();
	try_flush();
	try_lengths();
	try_regions_of_list();
	try_errors();
	try_close();
	try_too_long(IBV_WR_SEND);
	try_too_long(IBV_WR_RDMA_WRITE);
	try_too_long(IBV_WR_RDMA_READ);
	try_too_long_receive();
	say("lists that are too long: ok");
	try_without_system();
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
}

int main(int argc, char **argv)
{
	int c;

	program = "post-self";
	while ((c = getopt_long(argc, argv, "p:t:h", options, NULL)) != -1) {
		switch (c) {
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
	if (argc - optind != 1)
		fail_usage();
	address = argv[optind];
	run();
	say("posting: ok");
	return 0;
}
