// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * srq-self: a process that connects to itself several times over, with one
 * shared receive queue for all the connections it accepts.
 *
 * Messages arrive over the connections in a random order; each must come out
 * whole, once, in the order of its connection, on the CQ of its QP. Besides,
 * what of the S-RQ verbs is to be refused is tried, the limit event is waited
 * for, one connection breaks while the others go on, and a QP is destroyed whose
 * receives were not polled.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define CONNECTIONS	4
#define MESSAGE		1000	/* bytes at most */
#define SLOT		1024
#define WANTED_WRS	24
#define WANTED_SGES	3
#define MAX_SLOTS	4096
#define UNPOLLED	5

static const char help[] =
"usage: srq-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it several times,\n"
"and receives by one shared receive queue, checking every byte.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -n, --number N        messages (default 2000)\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "number", required_argument, NULL, 'n' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct message {
	uint32_t connection;
	uint32_t number;	/* of its connection's messages */
	uint32_t length;	/* of data */
	uint8_t data[MESSAGE];
};

static uint32_t rounds = 2000;
static const char *address;
static const char *port = DEFAULT_PORT;

static struct rdma_event_channel *listen_channel;
static struct endpoint senders[CONNECTIONS];
static struct endpoint receivers[CONNECTIONS];
static struct ibv_srq *srq;
static uint32_t max_wr;		/* of the S-RQ, as created */
static uint32_t max_sge;
static uint8_t *slots;
static struct ibv_mr *slots_mr;
static struct message *outgoing;
static struct ibv_mr *outgoing_mr;
static uint32_t sent[CONNECTIONS], received[CONNECTIONS];

static uint8_t pattern(uint32_t connection, uint32_t number, uint32_t i)
{
	return (i * 2654435761u + number * 40503u + connection * 97) >> 11;
}

/* ----------------------------------------------------------- posting */

/* A slot is scattered over three pieces, one of them empty. */
static int try_post(uint32_t slot)
{
	uint64_t at = (uintptr_t)slots + (uint64_t)slot * SLOT;
	struct ibv_sge sges[WANTED_SGES] = {
		{ at, 100, slots_mr->lkey },
		{ at, 0, 12345 },
		{ at + 100, SLOT - 100, slots_mr->lkey },
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = slot,
		.sg_list = sges,
		.num_sge = WANTED_SGES,
	};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

/* Slots [first, first + count) by one list. */
static int try_post_list(uint32_t first, uint32_t count, uint32_t *posted)
{
	struct ibv_sge *sges = calloc(count, sizeof(*sges));
	struct ibv_recv_wr *wrs = calloc(count, sizeof(*wrs));
	struct ibv_recv_wr *bad = NULL;
	uint32_t i;
	int ret;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge) {
			(uintptr_t)slots + (uint64_t)(first + i) * SLOT, SLOT,
			slots_mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr) {
			.wr_id = first + i,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	ret = ibv_post_srq_recv(srq, wrs, &bad);
	*posted = bad ? bad - wrs : count;
	free(sges);
	free(wrs);
	return ret;
}

static void post(uint32_t slot)
{
	int ret = try_post(slot);

	if (ret)
		fail("ibv_post_srq_recv: %s", strerror(ret));
}

static void expect_refused(int ret, int error, const char *what)
{
	if (ret < 0)
		ret = errno;
	if (ret != error)
		fail("%s: %s, not %s", what, strerror(ret), strerror(error));
}

/* -------------------------------------------------------- set-up */

static struct ibv_context *device(void)
{
	return senders[0].id->verbs;
}

static void *accept_all(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < CONNECTIONS; i++) {
		uint32_t which;
		struct endpoint ep;

		take_request(listen_channel, &ep, &which, sizeof(which));
		if (which >= CONNECTIONS)
			fail("connect request of nobody");
		ep.srq = srq;
		make_qp(&ep);
		accept_on(&ep);
		receivers[which] = ep;
	}
	return NULL;
}

/* An id that has a device, to make the S-RQ with before the first QP. */
static struct rdma_cm_id *bound_id(struct rdma_event_channel *channel)
{
	char why[WHY_SIZE];
	struct rdma_cm_id *id = resolve(channel, address, port, why);

	if (!id)
		fail("%s: %s", address, why);
	return id;
}

static void check_device(struct ibv_context *context)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(context, &attr))
		fail("ibv_query_device: %s", strerror(errno));
	if (attr.max_srq < 1 || attr.max_srq_wr < WANTED_WRS ||
	    attr.max_srq_sge < WANTED_SGES)
		fail("the device offers %d S-RQs of %d WRs of %d SGEs",
		     attr.max_srq, attr.max_srq_wr, attr.max_srq_sge);
}

static void refuse_creation(struct ibv_pd *pd)
{
	struct ibv_device_attr device_attr;
	struct ibv_srq_init_attr none = { .attr = { .max_sge = 1 } };
	struct ibv_srq_init_attr limit = {
		.attr = { .max_wr = 8, .max_sge = 1, .srq_limit = 1000000 },
	};
	struct ibv_srq_init_attr large = { .attr = { .max_sge = 1 } };
	struct ibv_srq_init_attr sges = { .attr = { .max_wr = 8 } };

	ibv_query_device(pd->context, &device_attr);
	large.attr.max_wr = device_attr.max_srq_wr + 1;
	sges.attr.max_sge = device_attr.max_srq_sge + 1;
	if (ibv_create_srq(pd, &none) || ibv_create_srq(pd, &limit) ||
	    ibv_create_srq(pd, &large) || ibv_create_srq(pd, &sges))
		fail("a senseless S-RQ was created");
}

static void make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {
		.attr = {
			.max_wr = WANTED_WRS,
			.max_sge = WANTED_SGES,
		},
	};
	struct ibv_srq_attr attr;

	srq = ibv_create_srq(pd, &init);
	if (!srq)
		fail("ibv_create_srq: %s", strerror(errno));
	max_wr = init.attr.max_wr;
	max_sge = init.attr.max_sge;
	if (max_wr < WANTED_WRS || max_wr > MAX_SLOTS / 2 ||
	    max_sge < WANTED_SGES)
		fail("an S-RQ of %u WRs of %u SGEs", max_wr, max_sge);
	if (ibv_query_srq(srq, &attr))
		fail("ibv_query_srq: %s", strerror(errno));
	if (attr.max_wr != max_wr || attr.max_sge != max_sge ||
	    attr.srq_limit)
		fail("ibv_query_srq says %u WRs, %u SGEs, limit %u",
		     attr.max_wr, attr.max_sge, attr.srq_limit);
}

static void connect_all(void)
{
	pthread_t acceptor;
	uint32_t i;
	int ret;

	ret = pthread_create(&acceptor, NULL, accept_all, NULL);
	if (ret)
		fail("pthread_create: %s", strerror(ret));
	for (i = 0; i < CONNECTIONS; i++)
		connect_to(&senders[i], address, port, &i, sizeof(i));
	pthread_join(acceptor, NULL);
}

/* ------------------------------------------------------- messages */

static void send_one(uint32_t c, unsigned int *random)
{
	struct message *m = &outgoing[c];
	struct ibv_wc wc;
	uint32_t i;

	m->connection = c;
	m->number = sent[c]++;
	m->length = rand_r(random) % (MESSAGE + 1);
	for (i = 0; i < m->length; i++)
		m->data[i] = pattern(c, m->number, i);
	post_message(&senders[c], outgoing_mr, m,
		     offsetof(struct message, data) + m->length, 1);
	expect_completion(senders[c].send_cq, senders[c].send_channel, &wc,
			  "Send");
}

/* The slot of the next message of a connection, which is checked. */
static uint32_t take_one(uint32_t c)
{
	const struct message *m;
	struct ibv_wc wc;
	uint32_t i;

	expect_completion(receivers[c].recv_cq, receivers[c].recv_channel,
			  &wc, "receive");
	if (wc.wr_id >= MAX_SLOTS || wc.qp_num != receivers[c].id->qp->qp_num)
		fail("a completion of slot %llu, QP %u",
		     (unsigned long long)wc.wr_id, wc.qp_num);
	m = (void *)(slots + wc.wr_id * SLOT);
	if (m->connection != c || m->number != received[c] ||
	    wc.byte_len != offsetof(struct message, data) + m->length)
		fail("message %u of connection %u, %u bytes, as number %u of %u",
		     m->number, m->connection, wc.byte_len, received[c], c);
	received[c]++;
	for (i = 0; i < m->length; i++)
		if (m->data[i] != pattern(c, m->number, i))
			fail("byte %u of a message is wrong", i);
	memset((void *)m, 0, SLOT);
	return wc.wr_id;
}

static void transfer_all(void)
{
	unsigned int random = 1;
	uint32_t i, c;

	expect_refused(try_post_list(0, max_wr + 1, &c), ENOMEM,
		       "a list of a WR too many");
	if (c != max_wr)
		fail("%u of the list were posted, not %u", c, max_wr);
	for (i = 0; i < rounds; i++) {
		c = rand_r(&random) % CONNECTIONS;
		send_one(c, &random);
		post(take_one(c));
	}
	say("%u messages over %d connections: ok", rounds, CONNECTIONS);
}

/* With the queue full, to the last WR: each completion makes room for one. */
static void fill_and_drain(void)
{
	unsigned int random = 2;
	uint32_t i, slot;

	expect_refused(try_post(max_wr), ENOMEM, "a WR too many");
	for (i = 0; i < max_wr; i++)
		send_one(i % CONNECTIONS, &random);
	/* All are taken by the device, but none was polled. */
	expect_refused(try_post(max_wr), ENOMEM, "a WR too many");
	for (i = 0; i < max_wr; i++) {
		slot = take_one(i % CONNECTIONS);
		post(slot);
		expect_refused(try_post(max_wr), ENOMEM, "a WR too many");
	}
	say("a full S-RQ: ok");
}

/* --------------------------------------------------------- refusals */

/* An RQ says the same. */
static void refuse_in_rq(void)
{
	struct ibv_qp *qp = senders[0].id->qp;
	struct ibv_sge sges[64] = { { 0 } };
	struct ibv_recv_wr *bad, wr = { .sg_list = sges };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t i;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	wr.num_sge = attr.cap.max_recv_sge + 1;
	expect_refused(ibv_post_recv(qp, &wr, &bad), EINVAL,
		       "a WR of too many SGEs");
	wr.num_sge = -1;
	expect_refused(ibv_post_recv(qp, &wr, &bad), EINVAL,
		       "a WR of less than no SGEs");
	wr.num_sge = 0;
	for (i = 0; i < attr.cap.max_recv_wr; i++)
		expect_refused(ibv_post_recv(qp, &wr, &bad), 0, "a WR");
	expect_refused(ibv_post_recv(qp, &wr, &bad), ENOMEM, "a WR too many");
}

/* What is said of the RQ of a QP that has none does not count. */
static void ignore_rq(void)
{
	struct ibv_qp_init_attr init, attr = {
		.send_cq = receivers[0].send_cq,
		.recv_cq = receivers[0].recv_cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1000000000,
			.max_recv_sge = 1000,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(receivers[0].id->pd, &attr);
	struct ibv_qp_attr now;

	if (!qp)
		fail("a QP with an S-RQ and an absurd RQ: %s", strerror(errno));
	if (attr.cap.max_recv_wr || attr.cap.max_recv_sge)
		fail("ibv_create_qp with an S-RQ returned an RQ of %u WRs of %u SGEs",
		     attr.cap.max_recv_wr, attr.cap.max_recv_sge);
	if (ibv_query_qp(qp, &now, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	if (init.cap.max_recv_wr || init.cap.max_recv_sge || init.srq != srq)
		fail("a QP with an S-RQ says that its RQ has %u WRs of %u SGEs",
		     init.cap.max_recv_wr, init.cap.max_recv_sge);
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

static void expect_srq(uint32_t wr, uint32_t limit, const char *when)
{
	struct ibv_srq_attr attr;

	if (ibv_query_srq(srq, &attr))
		fail("ibv_query_srq: %s", strerror(errno));
	if (attr.max_wr != wr || attr.max_sge != max_sge ||
	    attr.srq_limit != limit)
		fail("%s: %u WRs of %u SGEs, limit %u", when, attr.max_wr,
		     attr.max_sge, attr.srq_limit);
}

static void set_limit(uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	if (ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT))
		fail("ibv_modify_srq: %s", strerror(errno));
}

static void refuse_misuse(void)
{
	struct ibv_sge sges[64] = { { 0 } };
	struct ibv_recv_wr *bad, wr = { .sg_list = sges };
	struct ibv_srq_attr attr = { .srq_limit = max_wr + 1 };

	for (wr.num_sge = 0; wr.num_sge < 2; wr.num_sge++) {
		bad = NULL;
		expect_refused(ibv_post_recv(receivers[0].id->qp, &wr, &bad),
			       EINVAL, "ibv_post_recv with an S-RQ");
		if (bad != &wr)
			fail("bad_wr is wrong");
	}
	wr.num_sge = max_sge + 1;
	expect_refused(ibv_post_srq_recv(srq, &wr, &bad), EINVAL,
		       "a WR of too many SGEs");
	wr.num_sge = -1;
	expect_refused(ibv_post_srq_recv(srq, &wr, &bad), EINVAL,
		       "a WR of less than no SGEs");
	expect_refused(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL,
		       "a limit above the S-RQ");
	expect_srq(max_wr, 0, "after a refused limit");
	attr.srq_limit = 1;
	attr.max_wr = 2 * max_wr;
	expect_refused(ibv_modify_srq(srq, &attr,
				      IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR), EINVAL,
		       "a size that does not come alone");
	expect_refused(ibv_modify_srq(srq, &attr, 1 << 2), EOPNOTSUPP,
		       "an attribute that there is not");
	expect_srq(max_wr, 0, "after refused attributes");
	expect_refused(ibv_destroy_srq(srq), EBUSY, "destroying an S-RQ in use");
	ignore_rq();
	refuse_in_rq();
}

/*
 * The device refuses a size below the armed limit, when the library has a ring of that
 * size already: the ring is the one before, with the receives that are in it.
 */
static void refuse_size(void)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr / 2 };
	uint32_t taken[MAX_SLOTS], count = max_wr - max_wr / 4, i;
	unsigned int random = 7;

	for (i = 0; i < count; i++) {
		send_one(i % 2, &random);
		taken[i] = take_one(i % 2);
	}
	set_limit(max_wr);
	expect_refused(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL,
		       "an S-RQ in use smaller than its limit");
	expect_srq(max_wr, max_wr, "after a refused size");
	set_limit(0);
	for (i = 0; i < count; i++)
		post(taken[i]);
	for (i = 0; i < 2 * max_wr; i++) {
		send_one(i % 2, &random);
		post(take_one(i % 2));
	}
	say("a refused size: ok");
}

/* ------------------------------------------------------------ events */

static bool next_async(struct ibv_async_event *event, double seconds)
{
	struct pollfd p = { .fd = device()->async_fd, .events = POLLIN };

	if (poll(&p, 1, seconds * 1000) <= 0)
		return false;
	if (ibv_get_async_event(device(), event))
		fail("ibv_get_async_event: %s", strerror(errno));
	return true;
}

static void arm_limit(uint32_t limit)
{
	set_limit(limit);
	expect_srq(max_wr, limit, "armed");
}

static void expect_limit_event(void)
{
	struct ibv_async_event event;

	if (!next_async(&event, time_limit))
		fail("no event at the limit");
	if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED ||
	    event.element.srq != srq)
		fail("%s at the limit", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	if (next_async(&event, 0.2))
		fail("%s, a second event",
		     ibv_event_type_str(event.event_type));
}

/* With max_wr - 2 WQEs left there is no event, and one with one less. */
static void cross_limit(void)
{
	struct ibv_async_event event;
	unsigned int random = 3;
	uint32_t slot[4];
	int i;

	for (i = 0; i < 2; i++) {
		send_one(0, &random);
		slot[i] = take_one(0);
	}
	if (next_async(&event, 0.2))
		fail("%s before the limit",
		     ibv_event_type_str(event.event_type));
	for (i = 2; i < 4; i++) {
		send_one(0, &random);
		slot[i] = take_one(0);
	}
	expect_limit_event();
	for (i = 0; i < 4; i++)
		post(slot[i]);
}

/* Once for each time that it is armed; to arm it twice is once. */
static void limit_event(void)
{
	arm_limit(max_wr - 2);
	cross_limit();
	arm_limit(1);
	arm_limit(max_wr - 2);
	arm_limit(max_wr - 2);
	cross_limit();
	say("the limit event: ok");
}

static int resize_new(struct ibv_srq *other)
{
	struct ibv_srq_attr attr = { .max_wr = WANTED_WRS / 2 };

	return ibv_modify_srq(other, &attr, IBV_SRQ_MAX_WR);
}

/* The limit that is given at creation is armed: smaller than that it does not become,
 * until there is none. */
static void limit_of_new(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {
		.attr = {
			.max_wr = WANTED_WRS,
			.max_sge = WANTED_SGES,
			.srq_limit = WANTED_WRS,
		},
	};
	struct ibv_srq *other = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr = { 0 };

	if (!other)
		fail("ibv_create_srq with a limit: %s", strerror(errno));
	expect_refused(resize_new(other), EINVAL,
		       "an S-RQ smaller than its limit");
	if (ibv_query_srq(other, &attr) || attr.srq_limit != WANTED_WRS ||
	    attr.max_wr != init.attr.max_wr)
		fail("a refused size leaves %u WRs, limit %u", attr.max_wr,
		     attr.srq_limit);
	attr.srq_limit = 0;
	expect_refused(ibv_modify_srq(other, &attr, IBV_SRQ_LIMIT), 0,
		       "no limit");
	expect_refused(resize_new(other), 0, "a smaller S-RQ");
	if (ibv_destroy_srq(other))
		fail("ibv_destroy_srq: %s", strerror(errno));
}

/*
 * The last connection breaks: its QP is told to have taken its last WQE, and
 * nothing is flushed that it has not taken; the others go on.
 */
static void break_one(void)
{
	struct endpoint *from = &senders[CONNECTIONS - 1];
	struct ibv_qp *qp = receivers[CONNECTIONS - 1].id->qp;
	struct ibv_sge sge = {
		.addr = (uintptr_t)outgoing,
		.length = 8,
		.lkey = outgoing_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .rkey = 0x12345600 },
	};
	struct ibv_async_event event;
	bool last_wqe = false;
	unsigned int random = 4;
	struct ibv_wc wc;
	uint32_t i;

	if (ibv_post_send(from->id->qp, &wr, &bad))
		fail("posting a Write");
	while (!last_wqe) {
		if (!next_async(&event, time_limit))
			fail("no IBV_EVENT_QP_LAST_WQE_REACHED");
		last_wqe = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
			   event.element.qp == qp;
		ibv_ack_async_event(&event);
	}
	expect_and_ack(from->channel, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < 4 * max_wr; i++) {
		uint32_t c = i % (CONNECTIONS - 1);

		send_one(c, &random);
		post(take_one(c));
	}
	if (ibv_poll_cq(receivers[CONNECTIONS - 1].recv_cq, 1, &wc))
		fail("a completion of the broken QP");
	say("a broken connection: ok");
}

/* A QP goes before its receives are polled: just their places are free then. */
static void leave_unpolled(void)
{
	struct endpoint *from = &senders[CONNECTIONS - 2];
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
	};
	unsigned int random = 7;
	struct ibv_wc wc;
	uint32_t i;

	for (i = 0; i < UNPOLLED; i++)
		send_one(CONNECTIONS - 2, &random);
	/* It is answered when all before it has been delivered. */
	if (ibv_post_send(from->id->qp, &wr, &bad))
		fail("posting a Read");
	expect_completion(from->send_cq, from->send_channel, &wc, "Read");
	expect_refused(try_post(max_wr), ENOMEM, "a WR too many");
	free_endpoint(&receivers[CONNECTIONS - 2]);
	expect_and_ack(from->channel, RDMA_CM_EVENT_DISCONNECTED);
	for (i = 0; i < UNPOLLED; i++)
		post(MAX_SLOTS - 1 - i);
	expect_refused(try_post(max_wr), ENOMEM, "a WR too many");
	say("a QP that goes with what was not polled: ok");
}

/* Twice as large, with all that is posted, and full again. */
static void grow(void)
{
	struct ibv_srq_attr attr = { .max_wr = 2 * max_wr };
	unsigned int random = 5;
	uint32_t i;

	if (ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR))
		fail("ibv_modify_srq: %s", strerror(errno));
	/* The limit was reached, and is what it was. */
	expect_srq(2 * max_wr, max_wr - 2, "grown");
	for (i = max_wr; i < 2 * max_wr; i++)
		post(i);
	expect_refused(try_post(2 * max_wr), ENOMEM, "a WR too many");
	for (i = 0; i < 4 * max_wr; i++) {
		send_one(i % 2, &random);
		post(take_one(i % 2));
	}
	say("a larger S-RQ: ok");
}

/* The only WR has an lkey of nobody: the QP that takes it says so. */
static void bad_receive(void)
{
	struct endpoint *to = &receivers[0];
	struct ibv_sge sge = { (uintptr_t)slots, SLOT, 0x12345600 };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 777, .sg_list = &sge, .num_sge = 1,
	};
	unsigned int random = 6;
	struct ibv_wc wc;
	uint32_t i;

	for (i = 0; i < 2 * max_wr; i++) {
		send_one(1, &random);
		take_one(1);
	}
	if (ibv_post_srq_recv(srq, &wr, &bad))
		fail("ibv_post_srq_recv of a WR that fails later");
	post_message(&senders[0], outgoing_mr, outgoing, 8, 1);
	if (!wait_completions(to->recv_cq, to->recv_channel, &wc, 1, time_limit))
		fail("no completion of a WR with an error");
	if (wc.wr_id != 777 || wc.status != IBV_WC_LOC_PROT_ERR ||
	    wc.qp_num != to->id->qp->qp_num)
		fail("WR %llu of QP %u: %s", (unsigned long long)wc.wr_id,
		     wc.qp_num, ibv_wc_status_str(wc.status));
	say("a WR with an error: ok");
}

/* As long as one QP is there, in Error as it is, the S-RQ stays; then it goes, full. */
static void free_all(void)
{
	uint32_t i;

	memset(slots, 0x5a, (size_t)MAX_SLOTS * SLOT);
	for (i = 0; i < max_wr; i++)
		post(i);
	for (i = 0; i < CONNECTIONS; i++) {
		rdma_disconnect(senders[i].id);
		free_endpoint(&senders[i]);
		expect_refused(ibv_destroy_srq(srq), EBUSY,
			       "destroying an S-RQ in use");
		if (receivers[i].channel)
			free_endpoint(&receivers[i]);
	}
	if (ibv_destroy_srq(srq))
		fail("ibv_destroy_srq: %s", strerror(errno));
	for (i = 0; i < MAX_SLOTS * SLOT; i++)
		if (slots[i] != 0x5a)
			fail("octet %u of what was posted has changed", i);
	if (ibv_dereg_mr(slots_mr) || ibv_dereg_mr(outgoing_mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
}

static void run(void)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener, *id;

	listen_channel = make_channel();
	listener = listen_at(listen_channel, address, port);
	id = bound_id(channel);
	slots = allocate((size_t)MAX_SLOTS * SLOT);
	outgoing = allocate(CONNECTIONS * sizeof(*outgoing));
	slots_mr = register_memory(id, slots, (size_t)MAX_SLOTS * SLOT,
				   IBV_ACCESS_LOCAL_WRITE);
	outgoing_mr = register_memory(id, outgoing,
				      CONNECTIONS * sizeof(*outgoing), 0);
	check_device(id->verbs);
	refuse_creation(id->pd);
	make_srq(id->pd);
	limit_of_new(id->pd);
	connect_all();
	transfer_all();
	fill_and_drain();
	refuse_misuse();
	refuse_size();
	limit_event();
	break_one();
	leave_unpolled();
	grow();
	bad_receive();
	free_all();
	rdma_destroy_id(id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(listen_channel);
}

int main(int argc, char **argv)
{
	int c;

	program = "srq-self";
	while ((c = getopt_long(argc, argv, "p:n:t:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			port = optarg;
			break;
		case 'n':
			rounds = parse_number(optarg, "--number", UINT32_MAX);
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
	say("S-RQ: ok");
	return 0;
}
