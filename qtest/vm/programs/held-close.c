// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * held-close: connections to a peer that does not answer, so that QPs stay in Closing
 * and in Terminate: no change takes them out of there, but what is posted comes back, and
 * RESET waits until the adapter gives the peer up.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define NUMBER		4
#define RECEIVES	4
#define SLOT		64

static const char help[] =
"usage: held-close [options] ADDRESS [DIRECTORY]\n"
"Without DIRECTORY listens at ADDRESS, takes connections and waits for their end.\n"
"With it connects, makes DIRECTORY/.signal-stop, waits for .signal-stopped, which\n"
"says that the peer stands still; at last makes .signal-continue.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct endpoint ends[NUMBER];
static struct ibv_mr *mrs[NUMBER];
static uint8_t *memory;

static void serve(const char *address, const char *port)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = listen_at(channel, address, port);
	int i;

	for (i = 0; i < NUMBER; i++) {
		take_request(channel, &ends[i], NULL, 0);
		make_qp(&ends[i]);
		accept_on(&ends[i]);
	}
	for (i = 0; i < NUMBER; i++)
		wait_disconnect(&ends[i]);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	say("all connections have ended");
}

/* --------------------------------------------------------------- states */

static int change(int end, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};

	return ibv_modify_qp(ends[end].id->qp, &attr, mask);
}

static void expect_state(int end, enum ibv_qp_state state, const char *when)
{
	enum ibv_qp_state is = by_hand_state(ends[end].id->qp);

	if (is != state)
		fail("%s QP %d is in state %d, not %d", when, end, is, state);
}

struct all_attributes {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
};

static struct all_attributes query(int end)
{
	struct all_attributes all;

	memset(&all, 0, sizeof(all));
	if (ibv_query_qp(ends[end].id->qp, &all.attr, 0x1ffffff, &all.init))
		fail("ibv_query_qp: %s", strerror(errno));
	return all;
}

static void refuse(int end, enum ibv_qp_state held, enum ibv_qp_state state,
		   int mask)
{
	struct all_attributes before = query(end), after;
	int ret = change(end, state, mask);

	if (ret != EINVAL)
		fail("from state %d to %d, attributes 0x%x: %s, not EINVAL",
		     held, state, mask, strerror(ret));
	expect_state(end, held, "after what is refused");
	after = query(end);
	if (memcmp(&after, &before, sizeof(after)))
		fail("from state %d to %d, attributes 0x%x: others afterwards",
		     held, state, mask);
}

/* Nothing is changed, attributes included. ERR is granted, as it comes by itself. */
static void try_changes(int end, enum ibv_qp_state held)
{
	expect_state(end, held, "held,");
	refuse(end, held, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
	       IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	refuse(end, held, IBV_QPS_INIT, IBV_QP_STATE);
	refuse(end, held, IBV_QPS_RTR, IBV_QP_STATE);
	refuse(end, held, IBV_QPS_RTS, IBV_QP_STATE);
	refuse(end, held, IBV_QPS_SQD, IBV_QP_STATE);
	refuse(end, held, IBV_QPS_SQE, IBV_QP_STATE);
	refuse(end, held, held, IBV_QP_MAX_QP_RD_ATOMIC);
	refuse(end, held, held, IBV_QP_ACCESS_FLAGS);
	refuse(end, held, held, IBV_QP_MAX_DEST_RD_ATOMIC);
	refuse(end, held, held, IBV_QP_CAP);
	refuse(end, held, held, IBV_QP_STATE);
	if (change(end, IBV_QPS_ERR, IBV_QP_STATE))
		fail("from state %d to ERR: refused", held);
	expect_state(end, held, "on its way to ERR");
}

/* -------------------------------------------------------------- the client */

static void receive(int end, uint64_t wr_id)
{
	post_receive(&ends[end], mrs[end], memory, SLOT, wr_id);
}

static void expect_flushed(struct ibv_cq *cq, uint64_t wr_id, const char *what)
{
	struct ibv_wc wc = by_hand_wait(cq, what);

	if (wc.wr_id != wr_id || wc.status != IBV_WC_WR_FLUSH_ERR)
		fail("%s: WR %llu with %s", what, (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
}

static void expect_receives(int end, uint64_t number)
{
	uint64_t i;

	for (i = 0; i < number; i++)
		expect_flushed(ends[end].recv_cq, i, "a receive");
}

static void have(const char *directory, const char *order, const char *done)
{
	double deadline = now() + time_limit;
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/.signal-%s", directory, order);
	fd = open(path, O_CREAT | O_WRONLY, 0666);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
	snprintf(path, sizeof(path), "%s/.signal-%s", directory, done);
	while (access(path, F_OK)) {
		if (now() > deadline)
			fail("no %s", path);
		poll(NULL, 0, 20);
	}
}

/* Its events of QPs: of the one that breaks its close, once, and no other. */
static void expect_bad_close(int end)
{
	struct by_hand h = { .context = ends[end].id->verbs };
	int i;

	by_hand_expect_event(&h, ends[end].id->qp, IBV_EVENT_QP_FATAL);
	expect_state(end, IBV_QPS_ERR, "at its event");
	for (i = 0; i < NUMBER; i++)
		by_hand_expect_no_event(&h, ends[i].id->qp);
}

/* From every state, as InfiniBand's verbs have it. What has been posted is forgotten. */
static void reset_held(int end)
{
	double since = now();
	int ret = change(end, IBV_QPS_RESET, IBV_QP_STATE);

	if (ret)
		fail("from state %d to RESET: %s", IBV_QPS_SQE, strerror(ret));
	expect_state(end, IBV_QPS_RESET, "after RESET,");
	say("RESET has taken %.1f s", now() - since);
}

/*
 * One closes, one terminates; one closes and posts what breaks that; one terminates and
 * is reset.
 */
static void end_all(void)
{
	static const enum ibv_qp_state states[NUMBER] = {
		IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_SQD, IBV_QPS_SQE,
	};
	int i, ret;

	for (i = 0; i < NUMBER; i++) {
		ret = change(i, states[i], IBV_QP_STATE);
		if (ret)
			fail("to state %d: %s", states[i], strerror(ret));
		expect_state(i, states[i], "just changed");
		expect_receives(i, RECEIVES);
		receive(i, 0);
	}
	try_changes(0, IBV_QPS_SQD);
	try_changes(1, IBV_QPS_SQE);
	post_message(&ends[2], mrs[2], memory, 8, 7);
	expect_bad_close(2);
	expect_flushed(ends[2].send_cq, 7, "a Send that breaks a close");
	expect_receives(2, 1);
	reset_held(3);
	say("held: ok");
}

static void run(const char *address, const char *port, const char *directory)
{
	int i, k;

	memory = allocate(SLOT);
	for (i = 0; i < NUMBER; i++) {
		connect_to(&ends[i], address, port, NULL, 0);
		mrs[i] = register_memory(ends[i].id, memory, SLOT,
					 IBV_ACCESS_LOCAL_WRITE);
		for (k = 0; k < RECEIVES; k++)
			receive(i, k);
	}
	have(directory, "stop", "stopped");
	end_all();
	have(directory, "continue", "continued");
	for (i = 0; i < NUMBER; i++) {
		expect_and_ack(ends[i].channel, RDMA_CM_EVENT_DISCONNECTED);
		if (i < 2)
			expect_receives(i, 1);
		expect_state(i, i < 3 ? IBV_QPS_ERR : IBV_QPS_RESET,
			     "at the end");
		if (ibv_dereg_mr(mrs[i]))
			fail("ibv_dereg_mr: %s", strerror(errno));
		free_endpoint(&ends[i]);
	}
	say("held closes: ok");
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	int c;

	program = "held-close";
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
	if (argc - optind == 1)
		serve(argv[optind], port);
	else if (argc - optind == 2)
		run(argv[optind], port, argv[optind + 1]);
	else
		fail_usage();
	return 0;
}
