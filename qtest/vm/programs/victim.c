// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * victim: two ends that write, read and send without a pause until one of
 * them is killed. The survivor must be told that the connection is gone, and
 * get every work request back, each once, in order.
 */

#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define MESSAGE_SIZE	64
#define RECEIVES	16
#define SENDS		32	/* WRs of the send queue in flight */
#define DRAIN_SENDS	4	/* WRs posted when all is over */

static const char help[] =
"usage: victim --server [options]\n"
"       victim [options] SERVER\n"
"Both ends use the connection without a pause until one is killed; then the\n"
"other checks that it is told, and that all its work requests come back, each\n"
"once and in order, and that what it posts afterwards is flushed.\n"
"  -s, --server          wait for the client\n"
"  -d, --die-after MS    kill this end, as by SIGKILL, so long after connecting\n"
"  -c, --chunk SIZE      bytes of one Write or Read (default 64k)\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait, also for the end (default 60)\n"
"Exit status of the survivor: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "die-after", required_argument, NULL, 'd' },
	{ "chunk", required_argument, NULL, 'c' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The private data of request and reply, big endian. */
struct window {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

/* One work queue: WRs are numbered, and come back in this order. */
struct queue {
	const char *name;
	uint64_t posted;
	uint64_t good;
	uint64_t bad;
	uint64_t not_flushed;	/* of the bad ones */
};

static struct endpoint ep;
static struct queue sq = { .name = "send queue" };
static struct queue rq = { .name = "receive queue" };
static uint64_t chunk = 64 << 10;
static uint8_t *memory;		/* messages, then a chunk for the peer, then ours */
static struct ibv_mr *mr;
static struct window peer;
static bool may_send;		/* the peer has a receive for us */
static bool may_start;		/* the client, or the server when it heard it */

/* -------------------------------------------------------- work requests */

static void post_next_receive(void)
{
	post_receive(&ep, mr, memory + rq.posted % RECEIVES * MESSAGE_SIZE,
		     MESSAGE_SIZE, rq.posted);
	rq.posted++;
}

static void post_work(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(memory + RECEIVES * MESSAGE_SIZE + chunk),
		.length = opcode == IBV_WR_SEND ? MESSAGE_SIZE : chunk,
		.lkey = mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = sq.posted,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = peer.addr,
		.wr.rdma.rkey = peer.rkey,
	};
	int ret = ibv_post_send(ep.id->qp, &wr, &bad);

	if (ret)
		fail("ibv_post_send: %s", strerror(ret));
	sq.posted++;
}

/* Keeps the send queue busy; a message whenever the peer is ready for one. */
static void post_more(void)
{
	while (may_start && sq.posted - sq.good - sq.bad < SENDS) {
		if (may_send) {
			may_send = false;
			post_work(IBV_WR_SEND);
		} else {
			post_work(sq.posted % 2 ? IBV_WR_RDMA_READ :
				  IBV_WR_RDMA_WRITE);
		}
	}
}

/*
 * The peer's Terminate, if one came before the peer died, is about one WR;
 * Reads before that WR have no answer and are flushed (V9.5.2-2, V9.5.2-5).
 */
static void account_failure(struct queue *q, const struct ibv_wc *wc)
{
	if (!q->bad)
		say("%s: first failure is WR %llu: %s, vendor error %u",
		    q->name, (unsigned long long)wc->wr_id,
		    ibv_wc_status_str(wc->status), wc->vendor_err);
	q->bad++;
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (q->not_flushed++ ||
	    (q->bad > 1 && (q != &sq || wc->status != IBV_WC_REM_ACCESS_ERR)))
		fail("%s: a failure, then WR %llu not flushed but %s", q->name,
		     (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status));
}

static void account(struct queue *q, const struct ibv_wc *wc)
{
	uint64_t next = q->good + q->bad;

	if (wc->wr_id != next || next >= q->posted)
		fail("%s: WR %llu came back instead of %llu, of %llu posted",
		     q->name, (unsigned long long)wc->wr_id,
		     (unsigned long long)next, (unsigned long long)q->posted);
	if (wc->status != IBV_WC_SUCCESS) {
		account_failure(q, wc);
		return;
	}
	if (q->bad)
		fail("%s: WR %llu succeeded after one that failed", q->name,
		     (unsigned long long)next);
	q->good++;
}

/* Takes what is complete in one queue; how many were there? */
static int reap(struct queue *q, bool running)
{
	struct ibv_wc wc[16];
	int i, n;

	n = ibv_poll_cq(q == &sq ? ep.send_cq : ep.recv_cq, 16, wc);
	if (n < 0)
		fail("ibv_poll_cq: %d", n);
	for (i = 0; i < n; i++) {
		account(q, &wc[i]);
		if (q == &rq && running && wc[i].status == IBV_WC_SUCCESS) {
			post_next_receive();
			may_send = true;
			may_start = true;
		}
	}
	return n;
}

/* ------------------------------------------------------------ connecting */

static void prepare(void)
{
	size_t size = RECEIVES * MESSAGE_SIZE + 2 * chunk;
	int i;

	make_qp(&ep);
	memory = allocate(size);
	mr = register_memory(ep.id, memory, size, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	for (i = 0; i < RECEIVES; i++)
		post_next_receive();
}

static struct window own_window(void)
{
	return (struct window) {
		.addr = htobe64((uintptr_t)(memory + RECEIVES * MESSAGE_SIZE)),
		.rkey = htobe32(mr->rkey),
		.length = htobe32(chunk),
	};
}

static void learn_window(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct window window;

	if (param->private_data_len < sizeof(window))
		fail("%u bytes of private data", param->private_data_len);
	memcpy(&window, param->private_data, sizeof(window));
	peer.addr = be64toh(window.addr);
	peer.rkey = be32toh(window.rkey);
	if (be32toh(window.length) != chunk)
		fail("the peer's --chunk is %u", be32toh(window.length));
}

static struct rdma_conn_param window_param(const struct window *window)
{
	struct rdma_conn_param param = connect_param(&ep);

	param.private_data = window;
	param.private_data_len = sizeof(*window);
	return param;
}

static void accept_client(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);
	struct rdma_conn_param param;
	struct rdma_cm_event *event;
	struct window window;

	event = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	ep = (struct endpoint) { .channel = channel, .id = event->id };
	learn_window(event);
	rdma_ack_cm_event(event);
	prepare();
	window = own_window();
	param = window_param(&window);
	if (rdma_accept(ep.id, &param))
		fail("rdma_accept: %s", strerror(errno));
	expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_id(listener);
}

/* One try; false if it might go better later. */
static bool connect_once(const char *host, const char *port, char *why)
{
	struct rdma_conn_param param;
	struct rdma_cm_event *event;
	struct window window;
	bool good;

	ep = (struct endpoint) { .channel = make_channel() };
	ep.id = resolve(ep.channel, host, port, why);
	if (!ep.id)
		return false;
	prepare();
	window = own_window();
	param = window_param(&window);
	if (!start_connect(ep.id, &param, why))
		return false;
	event = next_event(ep.channel, time_limit);
	if (!event)
		fail("no answer from %s within %g s", host, time_limit);
	good = event->event == RDMA_CM_EVENT_ESTABLISHED;
	if (good)
		learn_window(event);
	else if (!is_failure(event))
		fail("connecting: %s", describe_event(event));
	snprintf(why, WHY_SIZE, "%s", describe_event(event));
	rdma_ack_cm_event(event);
	return good;
}

static void connect_to_server(const char *host, const char *port)
{
	double end = now() + time_limit;
	char why[WHY_SIZE];

	while (!connect_once(host, port, why)) {
		if (now() > end)
			fail("no connection to %s port %s within %g s: %s",
			     host, port, time_limit, why);
		if (mr)
			ibv_dereg_mr(mr);
		free_endpoint(&ep);
		free(memory);
		memory = NULL;
		mr = NULL;
		rq.posted = 0;
		poll(NULL, 0, 200);
	}
}

/* -------------------------------------------------------- life and death */

static void arm(void)
{
	if (ibv_req_notify_cq(ep.send_cq, 0) ||
	    ibv_req_notify_cq(ep.recv_cq, 0))
		fail("ibv_req_notify_cq failed");
}

static void take_comp_events(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

static void sleep_until_something(double seconds)
{
	struct pollfd fds[] = {
		{ .fd = ep.channel->fd, .events = POLLIN },
		{ .fd = ep.send_channel->fd, .events = POLLIN },
		{ .fd = ep.recv_channel->fd, .events = POLLIN },
	};

	poll(fds, 3, seconds * 1000 + 1);
	take_comp_events(ep.send_channel);
	take_comp_events(ep.recv_channel);
}

static int reap_both(bool running)
{
	int n = reap(&sq, running);

	return n + reap(&rq, running);
}

static bool told_of_the_end(void)
{
	struct rdma_cm_event *event = next_event(ep.channel, 0);
	bool end;

	if (!event)
		return false;
	end = event->event == RDMA_CM_EVENT_DISCONNECTED;
	if (!end)
		fail("unexpected %s", describe_event(event));
	rdma_ack_cm_event(event);
	return end;
}

/* Works until the connection fails. */
static void live(double die_at)
{
	double end = now() + time_limit;
	bool told = false;

	while (!told && !sq.bad && !rq.bad) {
		if (die_at && now() > die_at)
			kill(getpid(), SIGKILL);
		if (now() > end)
			fail("nobody died within %g s", time_limit);
		post_more();
		if (reap_both(true))
			continue;
		arm();
		if (reap_both(true))
			continue;
		told = told_of_the_end();
		if (!told)
			sleep_until_something(0.05);
	}
	end = now() + time_limit;
	while (!told) {
		reap_both(false);
		told = told_of_the_end();
		if (!told && now() > end)
			fail("work requests fail, but no DISCONNECTED within %g s",
			     time_limit);
		if (!told)
			sleep_until_something(0.05);
	}
}

static void wait_until_empty(struct queue *q, double seconds)
{
	double end = now() + seconds;

	while (q->good + q->bad < q->posted) {
		if (reap(q, false))
			continue;
		if (now() > end)
			fail("%s: %llu of %llu WRs never came back", q->name,
			     (unsigned long long)(q->posted - q->good -
						  q->bad),
			     (unsigned long long)q->posted);
		poll(NULL, 0, 5);
	}
	if (reap(q, false))
		fail("%s: more completions than WRs", q->name);
}

/* After the end: everything comes back, and so does what is posted now. */
static void mourn(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t bad;
	int i;

	/* As every program does; it may be that there is nothing to close. */
	rdma_disconnect(ep.id);
	if (ibv_modify_qp(ep.id->qp, &attr, IBV_QP_STATE))
		fail("ibv_modify_qp to ERR: %s", strerror(errno));
	wait_until_empty(&sq, time_limit);
	wait_until_empty(&rq, time_limit);

	bad = sq.bad + rq.bad;
	for (i = 0; i < DRAIN_SENDS; i++)
		post_work(IBV_WR_SEND);
	post_next_receive();
	wait_until_empty(&sq, time_limit);
	wait_until_empty(&rq, time_limit);
	if (sq.bad + rq.bad != bad + DRAIN_SENDS + 1)
		fail("work requests posted after the end were not flushed");
}

int main(int argc, char **argv)
{
	const char *address = NULL, *port = DEFAULT_PORT;
	double die_after = 0;
	bool server = false;
	int c;

	program = "victim";
	while ((c = getopt_long(argc, argv, "sd:c:b:p:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'd':
			die_after = parse_number(optarg, "--die-after",
						 86400000) / 1e3;
			break;
		case 'c':
			chunk = parse_size(optarg, "--chunk");
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
	if (argc - optind != !server || chunk < MESSAGE_SIZE ||
	    chunk > 1 << 30)
		fail_usage();

	if (server)
		accept_client(address, port);
	else
		connect_to_server(argv[optind], port);
	say("connected");
	may_send = !server;
	may_start = !server;
	live(die_after ? now() + die_after : 0);
	mourn();
	ibv_dereg_mr(mr);
	free_endpoint(&ep);
	free(memory);
	say("send queue: %llu done, %llu flushed; receive queue: %llu done, %llu flushed",
	    (unsigned long long)sq.good, (unsigned long long)sq.bad,
	    (unsigned long long)rq.good, (unsigned long long)rq.bad);
	say("survivor: ok");
	return 0;
}
