// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * endings-self: a process that connects to itself by rdma_cm, with all posted before
 * there is a connection; and that ends connections in each of the ways that there are:
 * a close, one with work left, a Terminate, a reset, errors found here and there. At both ends, each time: what is posted comes
 * back once, in order, of a close before DISCONNECTED comes; an event tells of the
 * end where no completion does, once; the QP is in ERR. What is posted late comes back
 * as well. Then both QPs are connected again, by hand. What is posted while the end is
 * under way comes back, too; and a QP may be destroyed then.
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define RECEIVES	8	/* at each end, when the connection ends */
#define LATE		3	/* of each kind, later */
#define READS		60
#define SIZE		(1 << 20)
#define SLOT		64
#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)
#define NO_EVENT	-1

static const char help[] =
"usage: endings-self [options] ADAPTER ADDRESS\n"
"Listens at ADDRESS, that of ADAPTER, connects to it, and ends the connection in\n"
"different ways.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct by_hand adapter;	/* its GID */
static struct rdma_event_channel *listen_channel;
static struct endpoint ends[2];	/* the first connects, and acts */
static struct ibv_mr *mrs[2];
static uint8_t *memory;

struct ending {
	const char *what;
	void (*act)(void);
	int event[2];		/* that tells of it at each end, or NO_EVENT */
	enum ibv_wc_status receive[2];	/* of each end's first receive */
	unsigned int sends;	/* of the first end, and the first one's status */
	enum ibv_wc_status send;
};

/* ---------------------------------------------------------- connections */

static void *accept_one(void *unused)
{
	(void)unused;
	take_request(listen_channel, &ends[1], NULL, 0);
	make_qp(&ends[1]);
	accept_on(&ends[1]);
	return NULL;
}

static void connect_ends(const char *address, const char *port)
{
	pthread_t acceptor;
	int i, ret = pthread_create(&acceptor, NULL, accept_one, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_to(&ends[0], address, port, NULL, 0);
	pthread_join(acceptor, NULL);
	for (i = 0; i < 2; i++)
		mrs[i] = register_memory(ends[i].id, memory, SIZE, RIGHTS);
}

static void free_ends(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (ibv_dereg_mr(mrs[i]))
			fail("ibv_dereg_mr: %s", strerror(errno));
		free_endpoint(&ends[i]);
	}
}

static void receive(int end, uint64_t wr_id)
{
	post_receive(&ends[end], mrs[end], memory, SLOT, wr_id);
}

static void post_one(enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length,
		     uint32_t lkey, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, length, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)memory, .rkey = rkey },
	};

	if (ibv_post_send(ends[0].id->qp, &wr, &bad))
		fail("ibv_post_send");
}

static struct ibv_wc next_wc(struct ibv_cq *cq, uint64_t wr_id,
			     enum ibv_wc_status status, const char *what)
{
	struct ibv_wc wc = by_hand_wait(cq, what);

	if (wc.wr_id != wr_id || wc.status != status)
		fail("%s: WR %llu with %s, not %llu with %s", what,
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
		     ibv_wc_status_str(status));
	return wc;
}

/* From the first end to the second one. */
static void send_message(void)
{
	post_one(IBV_WR_SEND, 0, SLOT, mrs[0]->lkey, 0);
	post_one(IBV_WR_RDMA_WRITE, 1, 1, mrs[0]->lkey, mrs[1]->rkey);
}

/* ------------------------------------------------------------ beginnings */

static void post_at(int end, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory, SLOT, mrs[end]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	if (ibv_post_send(ends[end].id->qp, &wr, &bad))
		fail("posting before the connection is there");
}

/* All that may come, before there is a connection, and a Send. */
static void prepare_end(int end)
{
	int i;

	make_qp(&ends[end]);
	mrs[end] = register_memory(ends[end].id, memory, SIZE, RIGHTS);
	for (i = 0; i < 2; i++)
		receive(end, 10 + i);
	post_at(end, 0);
}

/* It sends before the other end can have said anything. */
static void *accept_early(void *unused)
{
	struct rdma_conn_param param;

	(void)unused;
	take_request(listen_channel, &ends[1], NULL, 0);
	prepare_end(1);
	param = connect_param(&ends[1]);
	if (rdma_accept(ends[1].id, &param))
		fail("rdma_accept: %s", strerror(errno));
	post_at(1, 1);
	expect_and_ack(ends[1].channel, RDMA_CM_EVENT_ESTABLISHED);
	return NULL;
}

static void connect_early(const char *address, const char *port)
{
	struct rdma_conn_param param;
	char why[WHY_SIZE];

	ends[0] = (struct endpoint) { .channel = make_channel() };
	ends[0].id = resolve(ends[0].channel, address, port, why);
	if (!ends[0].id)
		fail("%s: %s", address, why);
	prepare_end(0);
	param = connect_param(&ends[0]);
	if (rdma_connect(ends[0].id, &param))
		fail("rdma_connect: %s", strerror(errno));
	expect_and_ack(ends[0].channel, RDMA_CM_EVENT_ESTABLISHED);
	post_at(0, 1);
}

/* Nothing of it is lost, whichever end sends first. */
static void run_early(const char *address, const char *port)
{
	pthread_t acceptor;
	int end, i, ret = pthread_create(&acceptor, NULL, accept_early, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_early(address, port);
	pthread_join(acceptor, NULL);
	for (end = 0; end < 2; end++)
		for (i = 0; i < 2; i++) {
			next_wc(ends[end].send_cq, i, IBV_WC_SUCCESS,
				"a Send posted early");
			next_wc(ends[end].recv_cq, 10 + i, IBV_WC_SUCCESS,
				"a Send posted early");
		}
	rdma_disconnect(ends[0].id);
	for (end = 0; end < 2; end++)
		expect_and_ack(ends[end].channel, RDMA_CM_EVENT_DISCONNECTED);
	free_ends();
}

/* -------------------------------------------------------------- the ways */

static void change_state(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int ret = ibv_modify_qp(ends[0].id->qp, &attr, IBV_QP_STATE);

	if (ret)
		fail("to state %d: %s", state, strerror(ret));
	if (by_hand_state(ends[0].id->qp) == IBV_QPS_RTS)
		fail("after a change to state %d it is in RTS", state);
}

static void close_it(void)
{
	if (rdma_disconnect(ends[0].id))
		fail("rdma_disconnect: %s", strerror(errno));
}

static void close_busy(void)
{
	unsigned int i;

	for (i = 0; i < READS; i++)
		post_one(IBV_WR_RDMA_READ, i, SIZE, mrs[0]->lkey, mrs[1]->rkey);
	change_state(IBV_QPS_SQD);
}

static void terminate_it(void)
{
	change_state(IBV_QPS_SQE);
}

static void abort_it(void)
{
	change_state(IBV_QPS_ERR);
}

static void local_error(void)
{
	post_one(IBV_WR_SEND, 0, SLOT, 0xffffff00, 0);
	post_one(IBV_WR_SEND, 1, SLOT, mrs[0]->lkey, 0);
}

static void remote_error(void)
{
	post_one(IBV_WR_RDMA_WRITE, 0, SLOT, mrs[0]->lkey, mrs[1]->rkey ^ 1);
}

static void too_long(void)
{
	post_one(IBV_WR_SEND, 0, SLOT + 1, mrs[0]->lkey, 0);
}

/* A Send or Write of rdma_cm is complete when it is sent. */
static const struct ending endings[] = {
	{
		.what = "a close", .act = close_it,
		.event = { NO_EVENT, NO_EVENT },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
	}, {
		.what = "a close with Reads left", .act = close_busy,
		.event = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
		.sends = READS, .send = IBV_WC_WR_FLUSH_ERR,
	}, {
		.what = "a Terminate", .act = terminate_it,
		.event = { NO_EVENT, IBV_EVENT_QP_FATAL },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
	}, {
		.what = "a reset", .act = abort_it,
		.event = { NO_EVENT, IBV_EVENT_QP_FATAL },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
	}, {
		.what = "an error here", .act = local_error,
		.event = { NO_EVENT, IBV_EVENT_QP_FATAL },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
		.sends = 2, .send = IBV_WC_LOC_PROT_ERR,
	}, {
		.what = "an error of the peer's memory", .act = remote_error,
		.event = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
		.sends = 1, .send = IBV_WC_SUCCESS,
	}, {
		.what = "an error of a receive", .act = too_long,
		.event = { IBV_EVENT_QP_FATAL, NO_EVENT },
		.receive = { IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_LEN_ERR },
		.sends = 1, .send = IBV_WC_SUCCESS,
	},
};

/* ----------------------------------------------------- what comes of them */

static void expect_nothing(int end, const char *what)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(ends[end].send_cq, 1, &wc) ||
	    ibv_poll_cq(ends[end].recv_cq, 1, &wc))
		fail("%s, end %d: a completion of WR %llu", what, end,
		     (unsigned long long)wc.wr_id);
}

/* After a close all of them are there already. */
static void check_receives(const struct ending *e, int end)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < RECEIVES; i++) {
		if (e->act != close_it)
			wc = by_hand_wait(ends[end].recv_cq, e->what);
		else if (ibv_poll_cq(ends[end].recv_cq, 1, &wc) != 1)
			fail("%s, end %d: receive %d is not back", e->what,
			     end, i);
		if ((int)wc.wr_id != i ||
		    wc.status != (i ? IBV_WC_WR_FLUSH_ERR : e->receive[end]))
			fail("%s, end %d: receive %llu with %s", e->what, end,
			     (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status));
	}
}

/* Of a busy close some may have been done before. */
static void check_sends(const struct ending *e)
{
	enum ibv_wc_status expected = e->send;
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < e->sends; i++) {
		wc = by_hand_wait(ends[0].send_cq, e->what);
		if (e->sends == READS && wc.status == IBV_WC_SUCCESS &&
		    wc.wr_id == i && i < READS - 1 &&
		    expected == e->send)
			continue;
		if (wc.wr_id != i || wc.status != expected)
			fail("%s: WR %llu with %s, not %u with %s", e->what,
			     (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status), i,
			     ibv_wc_status_str(expected));
		expected = IBV_WC_WR_FLUSH_ERR;
	}
}

static void check_state_at_event(const struct ending *e, int end)
{
	enum ibv_qp_state state = by_hand_state(ends[end].id->qp);

	/* What a close breaks is in ERR when it is told. */
	if (state != IBV_QPS_ERR &&
	    (state != IBV_QPS_SQE || e->act == close_busy))
		fail("%s, end %d: at its event the QP is in state %d", e->what,
		     end, state);
}

/* The next event of a QP of the two within seconds; which: its end, or -1. */
static int next_told(double seconds, enum ibv_event_type *type)
{
	struct ibv_context *context = ends[0].id->verbs;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int end;

	if (poll(&fd, 1, seconds * 1000) <= 0)
		return -1;
	if (ibv_get_async_event(context, &event))
		fail("ibv_get_async_event: %s", strerror(errno));
	*type = event.event_type;
	end = event.element.qp == ends[1].id->qp;
	if (event.element.qp != ends[end].id->qp || !event.element.qp)
		fail("an event, %s, of neither QP",
		     ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	return end;
}

static void check_events(const struct ending *e)
{
	int missing = (e->event[0] != NO_EVENT) + (e->event[1] != NO_EVENT);
	bool told[2] = { false, false };
	enum ibv_event_type type;
	int end;

	while ((end = next_told(missing ? time_limit : 0.3, &type)) >= 0) {
		if ((int)type != e->event[end] || told[end])
			fail("%s, end %d: %s", e->what, end,
			     ibv_event_type_str(type));
		told[end] = true;
		missing--;
		check_state_at_event(e, end);
	}
	if (missing)
		fail("%s: an event is missing", e->what);
}

/* Of what is posted now nothing is done, and all of it comes back. */
static void check_late(const struct ending *e)
{
	unsigned int i;

	for (i = 0; i < LATE; i++) {
		receive(0, 100 + i);
		post_one(IBV_WR_RDMA_WRITE, 200 + i, SLOT, mrs[0]->lkey,
			 mrs[1]->rkey);
	}
	for (i = 0; i < LATE; i++) {
		next_wc(ends[0].recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR, e->what);
		next_wc(ends[0].send_cq, 200 + i, IBV_WC_WR_FLUSH_ERR, e->what);
	}
}

static void connect_again(const struct ending *e)
{
	struct by_hand_pair pair = {
		.qps = { ends[0].id->qp, ends[1].id->qp },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int i;

	for (i = 0; i < 2; i++) {
		expect_nothing(i, e->what);
		if (ibv_modify_qp(pair.qps[i], &attr, IBV_QP_STATE))
			fail("%s, end %d: RESET", e->what, i);
	}
	by_hand_join(&adapter, &pair, IBV_ACCESS_REMOTE_WRITE);
	receive(1, 300);
	memory[0]++;
	send_message();
	next_wc(ends[1].recv_cq, 300, IBV_WC_SUCCESS, e->what);
	next_wc(ends[0].send_cq, 0, IBV_WC_SUCCESS, e->what);
	next_wc(ends[0].send_cq, 1, IBV_WC_SUCCESS, e->what);
}

/* ------------------------------------------------------- while it ends */

/* What is posted across the end, at the end that closes: refused, or it comes back. */
static void run_across(enum ibv_qp_state state, const char *address,
		       const char *port)
{
	struct rdma_cm_event *event;
	unsigned int posted = 0, i;
	enum ibv_event_type type;

	connect_ends(address, port);
	for (; posted < RECEIVES; posted++)
		receive(0, posted);
	change_state(state);
	do {
		if (posted < QP_DEPTH)
			receive(0, posted++);
		event = next_event(ends[0].channel, 0.001);
	} while (!event);
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		fail("across the end: %s", describe_event(event));
	rdma_ack_cm_event(event);
	for (i = 0; i < posted; i++)
		next_wc(ends[0].recv_cq, i, IBV_WC_WR_FLUSH_ERR,
			"posted across the end");
	expect_nothing(0, "posted across the end");
	expect_and_ack(ends[1].channel, RDMA_CM_EVENT_DISCONNECTED);
	while (next_told(0.3, &type) >= 0)
		;
	free_ends();
	say("%u receives across the end: ok", posted);
}

/* A QP that is destroyed while its connection closes; the peer's ends by itself. */
static void run_destroyed(enum ibv_qp_state state, const char *address,
			  const char *port)
{
	struct endpoint *ep = &ends[0];
	enum ibv_event_type type;
	int i;

	connect_ends(address, port);
	for (i = 0; i < RECEIVES; i++)
		receive(0, i);
	post_one(IBV_WR_RDMA_READ, 0, SIZE, mrs[0]->lkey, mrs[1]->rkey);
	change_state(state);
	if (ibv_destroy_qp(ep->id->qp))
		fail("a QP that ends stays: %s", strerror(errno));
	ep->id->qp = NULL;
	expect_nothing(0, "of a QP that has gone");
	if (ibv_destroy_cq(ep->send_cq) || ibv_destroy_cq(ep->recv_cq) ||
	    ibv_destroy_comp_channel(ep->send_channel) ||
	    ibv_destroy_comp_channel(ep->recv_channel))
		fail("destroying: %s", strerror(errno));
	ep->send_cq = NULL;	/* see free_endpoint() */
	expect_and_ack(ends[1].channel, RDMA_CM_EVENT_DISCONNECTED);
	while (next_told(0.3, &type) >= 0)
		;
	free_ends();
}

static void run_ending(const struct ending *e, const char *address,
		       const char *port)
{
	int i, k;

	connect_ends(address, port);
	receive(1, 300);
	send_message();
	next_wc(ends[1].recv_cq, 300, IBV_WC_SUCCESS, "a message");
	next_wc(ends[0].send_cq, 0, IBV_WC_SUCCESS, "a message");
	next_wc(ends[0].send_cq, 1, IBV_WC_SUCCESS, "a message");
	for (i = 0; i < 2; i++)
		for (k = 0; k < RECEIVES; k++)
			receive(i, k);
	e->act();
	for (i = 0; i < 2; i++) {
		expect_and_ack(ends[i].channel, RDMA_CM_EVENT_DISCONNECTED);
		check_receives(e, i);
		if (by_hand_state(ends[i].id->qp) != IBV_QPS_ERR)
			fail("%s, end %d: not in ERR", e->what, i);
	}
	check_sends(e);
	check_events(e);
	check_late(e);
	connect_again(e);
	free_ends();
	say("%s: ok", e->what);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	struct rdma_cm_id *listener;
	unsigned int i;
	int c;

	program = "endings-self";
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
	if (argc - optind != 2)
		fail_usage();

	by_hand_open(&adapter, argv[optind]);
	memory = allocate(SIZE);
	listen_channel = make_channel();
	listener = listen_at(listen_channel, argv[optind + 1], port);
	for (i = 0; i < 20; i++)
		run_early(argv[optind + 1], port);
	say("posted before the beginning: ok");
	for (i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		run_ending(&endings[i], argv[optind + 1], port);
	run_across(IBV_QPS_SQD, argv[optind + 1], port);
	run_across(IBV_QPS_SQE, argv[optind + 1], port);
	run_destroyed(IBV_QPS_SQD, argv[optind + 1], port);
	run_destroyed(IBV_QPS_SQE, argv[optind + 1], port);
	say("destroyed at the end: ok");
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
	by_hand_close(&adapter);
	say("endings: ok");
	return 0;
}
