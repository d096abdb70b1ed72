// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lost-peer: two ends that write to each other without a pause, or do nothing,
 * until the network between them is gone. Each must be told so, by one
 * asynchronous event and by DISCONNECTED, when its QP is in the Error state, and
 * get its work requests back, in order and as flushed.
 */

#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define RECEIVES	4
#define WRITES		16	/* of the send queue in flight */
#define WRITE_SIZE	(256 << 10)
#define QUIET		0.3	/* seconds in which nothing more may come */

static const char help[] =
"usage: lost-peer --server [options]\n"
"       lost-peer [options] SERVER\n"
"Waits until the network to the other end is gone, and checks what this end is\n"
"told then. Prints when, in seconds since the machine was started.\n"
"  -s, --server          wait for the client\n"
"  -w, --write           write to the other end meanwhile\n"
"  -b, --bind ADDRESS    server: listen at this address (default: any)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait, also for the end (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "server", no_argument, NULL, 's' },
	{ "write", no_argument, NULL, 'w' },
	{ "bind", required_argument, NULL, 'b' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Where the other end may write, big endian. */
struct window {
	uint64_t addr;
	uint32_t rkey;
};

static struct endpoint ep;
static struct window *in, *out;
static uint8_t *memory;		/* for the peer, then ours, then windows */
static struct ibv_mr *mr;

/* WRs are numbered from 0 in each queue. */
static uint64_t sends_posted, sends_done, receives_done;

/* ------------------------------------------------------------ connecting */

static void prepare(void)
{
	size_t size = 2 * WRITE_SIZE + (RECEIVES + 1) * sizeof(struct window);
	int i;

	memory = allocate(size);
	in = (struct window *)(memory + 2 * WRITE_SIZE);
	out = in + RECEIVES;
	mr = register_memory(ep.id, memory, size, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE);
	for (i = 0; i < RECEIVES; i++)
		post_receive(&ep, mr, in + i, sizeof(*in), i);
}

static void tell_window(void)
{
	struct ibv_wc wc;

	*out = (struct window) {
		.addr = htobe64((uintptr_t)memory),
		.rkey = htobe32(mr->rkey),
	};
	post_message(&ep, mr, out, sizeof(*out), sends_posted++);
	expect_completion(ep.send_cq, ep.send_channel, &wc, "the window");
	sends_done++;
}

static void learn_window(void)
{
	struct ibv_wc wc;

	expect_completion(ep.recv_cq, ep.recv_channel, &wc, "the window");
	receives_done++;
}

static void be_server(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);

	take_request(channel, &ep, NULL, 0);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	make_qp(&ep);
	prepare();
	accept_on(&ep);
	learn_window();
	tell_window();
}

static void be_client(const char *host, const char *port)
{
	connect_to(&ep, host, port, NULL, 0);
	prepare();
	tell_window();
	learn_window();
}

/* --------------------------------------------------------------- the wait */

static void post_write(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory + WRITE_SIZE,
		.length = WRITE_SIZE,
		.lkey = mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = sends_posted,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = be64toh(in->addr),
		.wr.rdma.rkey = be32toh(in->rkey),
	};
	int ret = post_work_request(ep.id->qp, &wr);

	if (ret)
		fail("posting a Write: %s", strerror(ret));
	sends_posted++;
}

/* Of the send queue, in order; good, or the first of those that are flushed? */
static bool is_good(const struct ibv_wc *wc)
{
	if (wc->wr_id != sends_done)
		fail("send queue: WR %llu came back instead of %llu",
		     (unsigned long long)wc->wr_id,
		     (unsigned long long)sends_done);
	if (wc->status != IBV_WC_SUCCESS &&
	    wc->status != IBV_WC_WR_FLUSH_ERR)
		check_completion(wc, "a Write");
	return wc->status == IBV_WC_SUCCESS;
}

static void write_until_lost(void)
{
	struct ibv_wc wc;

	for (;;) {
		while (sends_posted - sends_done < WRITES)
			post_write();
		if (!wait_completions(ep.send_cq, ep.send_channel, &wc, 1,
				      time_limit))
			fail("nothing is lost within %g s", time_limit);
		if (!is_good(&wc))
			break;
		sends_done++;
	}
	sends_done++;
}

/* ---------------------------------------------------------------- the end */

static bool next_async(struct ibv_async_event *event, double seconds)
{
	struct pollfd p = { .fd = ep.id->verbs->async_fd, .events = POLLIN };

	if (poll(&p, 1, seconds * 1000) < 1)
		return false;
	if (ibv_get_async_event(ep.id->verbs, event))
		fail("ibv_get_async_event: %s", strerror(errno));
	ibv_ack_async_event(event);
	return true;
}

static void expect_lost(void)
{
	struct ibv_async_event event;

	if (!next_async(&event, time_limit))
		fail("no asynchronous event within %g s", time_limit);
	if (event.event_type != IBV_EVENT_QP_FATAL ||
	    event.element.qp != ep.id->qp)
		fail("event %s", ibv_event_type_str(event.event_type));
	say("lost at %.2f", now());
	if (next_async(&event, QUIET))
		fail("another event, %s", ibv_event_type_str(event.event_type));
}

static void expect_error_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(ep.id->qp, &attr, IBV_QP_STATE, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	if (attr.qp_state != IBV_QPS_ERR)
		fail("the QP's state is %d", attr.qp_state);
}

/* From done on up to posted, and nothing else. */
static void expect_flushed(const char *name, struct ibv_cq *cq,
			   struct ibv_comp_channel *channel, uint64_t done,
			   uint64_t posted)
{
	struct ibv_wc wc;

	for (; done < posted; done++) {
		if (!wait_completions(cq, channel, &wc, 1, time_limit))
			fail("%s: no completion of WR %llu", name,
			     (unsigned long long)done);
		if (wc.wr_id != done || wc.status != IBV_WC_WR_FLUSH_ERR)
			fail("%s: WR %llu %s, not %llu flushed", name,
			     (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status),
			     (unsigned long long)done);
	}
	if (wait_completions(cq, channel, &wc, 1, QUIET))
		fail("%s: more completions than WRs", name);
}

static void expect_end(void)
{
	expect_lost();
	expect_error_state();
	expect_flushed("send queue", ep.send_cq, ep.send_channel, sends_done,
		       sends_posted);
	expect_flushed("receive queue", ep.recv_cq, ep.recv_channel,
		       receives_done, RECEIVES);
	expect_and_ack(ep.channel, RDMA_CM_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	const char *address = NULL, *port = DEFAULT_PORT;
	bool server = false, writes = false;
	int c;

	program = "lost-peer";
	while ((c = getopt_long(argc, argv, "swb:p:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 's':
			server = true;
			break;
		case 'w':
			writes = true;
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

	if (server)
		be_server(address, port);
	else
		be_client(argv[optind], port);
	say("connected");
	if (writes)
		write_until_lost();
	expect_end();
	say("%llu Writes done, %llu flushed, %llu receives flushed",
	    (unsigned long long)(sends_done - 1 - writes),
	    (unsigned long long)(sends_posted - sends_done + writes),
	    (unsigned long long)(RECEIVES - receives_done));
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	free_endpoint(&ep);
	free(memory);
	return 0;
}
