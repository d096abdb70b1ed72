// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * notify-self: what a process is told of completions, and when. Two pairs of QPs, each
 * with a CQ on a channel; one CQ on no channel. An event comes once for a request, for
 * the next completion or the next solicited one; it takes no completion away, and none
 * is missed. Each vector raises its own interrupt.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define PAIRS	2
#define DEPTH	32
#define SLOT	64
#define ROUNDS	1000		/* by events alone */

static const char help[] =
"usage: notify-self [options] ADAPTER\n"
"Connects QPs of the adapter to each other, and looks at the events of completions.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

/* qps[0] sends; qps[1] receives, and its receives complete on cq. */
struct line {
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *cq;
	struct ibv_qp *qps[2];
	uint64_t posted, sent, taken;
};

static struct by_hand adapter;
static struct line lines[PAIRS];
static struct ibv_mr *mr;
static uint8_t *memory;

/* ------------------------------------------------------------- objects */

static struct ibv_comp_channel *make_channel_of_events(void)
{
	struct ibv_comp_channel *channel =
		ibv_create_comp_channel(adapter.context);

	if (!channel ||
	    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK))
		fail("ibv_create_comp_channel: %s", strerror(errno));
	return channel;
}

static struct ibv_qp *make_qp_of(struct line *l)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = l->send_cq,
		.recv_cq = l->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(adapter.pd, &attr);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	return qp;
}

/* Without a channel, its CQ tells nobody. */
static void make_line(struct line *l, struct ibv_comp_channel *channel, int vector)
{
	struct by_hand_pair pair;

	*l = (struct line) { .channel = channel };
	l->send_cq = ibv_create_cq(adapter.context, 4 * DEPTH, NULL, NULL, 0);
	/* The context of an event is that of the CQ. */
	l->cq = ibv_create_cq(adapter.context, 4 * DEPTH, l, channel, vector);
	if (!l->send_cq || !l->cq)
		fail("ibv_create_cq: %s", strerror(errno));
	l->qps[0] = pair.qps[0] = make_qp_of(l);
	l->qps[1] = pair.qps[1] = make_qp_of(l);
	by_hand_join(&adapter, &pair, IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
}

static void free_line(struct line *l)
{
	if (ibv_destroy_qp(l->qps[0]) || ibv_destroy_qp(l->qps[1]) ||
	    ibv_destroy_cq(l->send_cq) || ibv_destroy_cq(l->cq) ||
	    (l->channel && ibv_destroy_comp_channel(l->channel)))
		fail("destroying: %s", strerror(errno));
}

/* ------------------------------------------------------------- traffic */

static void post_receive_of(struct line *l, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, SLOT, lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = l->posted++, .sg_list = &sge, .num_sge = 1,
	};

	if (ibv_post_recv(l->qps[1], &wr, &bad))
		fail("ibv_post_recv");
}

/* One message, by a good receive; it has arrived when the Send is complete. */
static void send_message(struct line *l, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)memory + SLOT, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = l->sent, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
	};
	struct ibv_wc wc;

	post_receive_of(l, mr->lkey);
	if (ibv_post_send(l->qps[0], &wr, &bad))
		fail("ibv_post_send");
	wc = by_hand_wait(l->send_cq, "Send");
	check_completion(&wc, "Send");
	l->sent++;
}

/* All that were sent are there, whatever events there were. */
static void take_all(struct line *l)
{
	while (l->taken < l->sent) {
		struct ibv_wc wc = by_hand_wait(l->cq, "receive");

		check_completion(&wc, "receive");
		if (wc.wr_id != l->taken++)
			fail("receive %llu", (unsigned long long)wc.wr_id);
	}
}

/* -------------------------------------------------------------- events */

static bool readable_within(struct ibv_comp_channel *channel, double seconds)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, seconds * 1000) > 0;
}

static void ask(struct line *l, int solicited_only)
{
	if (ibv_req_notify_cq(l->cq, solicited_only))
		fail("ibv_req_notify_cq: %s", strerror(errno));
}

static void expect_event_of(struct line *l, const char *what)
{
	struct ibv_cq *cq;
	void *context;

	if (!readable_within(l->channel, time_limit))
		fail("%s: no event", what);
	if (ibv_get_cq_event(l->channel, &cq, &context))
		fail("%s: ibv_get_cq_event: %s", what, strerror(errno));
	if (cq != l->cq || context != l)
		fail("%s: an event of another CQ", what);
	ibv_ack_cq_events(cq, 1);
}

static void expect_no_event_of(struct line *l, const char *what)
{
	if (readable_within(l->channel, 0.3))
		fail("%s: an event", what);
}

/* ---------------------------------------------------------------- trials */

/* Nobody has asked. */
static void try_not_asked(struct line *l)
{
	send_message(l, 0);
	send_message(l, IBV_SEND_SOLICITED);
	expect_no_event_of(l, "not asked for");
	take_all(l);
}

/* However often it was asked for, and however many completions there are. */
static void try_once(struct line *l, struct line *other)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		ask(l, 0);
	ask(other, 0);
	for (i = 0; i < 10; i++)
		send_message(l, 0);
	expect_event_of(l, "asked for five times");
	expect_no_event_of(l, "asked for five times, again");
	expect_no_event_of(other, "of a CQ without completions");
	/* The event has taken none away. */
	take_all(l);
	ask(l, 0);
	send_message(l, 0);
	expect_event_of(l, "asked for anew");
	take_all(l);
	send_message(other, 0);
	expect_event_of(other, "asked for before");
	expect_no_event_of(l, "of the other CQ");
	take_all(other);
}

static void try_solicited(struct line *l)
{
	ask(l, 1);
	send_message(l, 0);
	send_message(l, 0);
	expect_no_event_of(l, "of Sends that are not solicited");
	send_message(l, IBV_SEND_SOLICITED);
	expect_event_of(l, "of a solicited Send");
	expect_no_event_of(l, "of a solicited Send, again");
	take_all(l);
}

/* To ask for less takes nothing back, before or after. */
static void try_both_kinds(struct line *l)
{
	int first;

	for (first = 0; first < 2; first++) {
		ask(l, first);
		ask(l, !first);
		send_message(l, 0);
		expect_event_of(l, "of both requests");
		take_all(l);
	}
	expect_no_event_of(l, "of both requests, again");
}

/* Take all, ask, take all, wait: nothing comes in between that nobody tells of. */
static void try_never_missed(struct line *l)
{
	struct ibv_wc wc;
	unsigned int i;
	int n;

	for (i = 0; i < ROUNDS; i++) {
		ask(l, 0);
		n = ibv_poll_cq(l->cq, 1, &wc);
		if (n)
			fail("a completion of nothing");
		send_message(l, 0);
		expect_event_of(l, "in turn");
		n = ibv_poll_cq(l->cq, 1, &wc);
		if (n != 1 || wc.wr_id != l->taken++)
			fail("an event, and %d completions", n);
	}
}

/* ------------------------------------------------------------- vectors */

/* Where the adapter is on its bus: its interrupts are named after that. */
static void read_bus_address(char *address, size_t size)
{
	char link[200], target[200];
	ssize_t length;

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device",
		 ibv_get_device_name(adapter.context->device));
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		fail("%s: %s", link, strerror(errno));
	target[length] = 0;
	snprintf(address, size, "%s", strrchr(target, '/') + 1);
}

/* A line of /proc/interrupts: "27:", a number for each processor, texts. */
static unsigned long long sum_of_line(const char *line)
{
	unsigned long long sum = 0, number;
	int length;

	line = strchr(line, ':') + 1;
	while (sscanf(line, " %llu%n", &number, &length) == 1 &&
	       line[length] == ' ') {
		sum += number;
		line += length;
	}
	return sum;
}

/* How often the interrupt of each vector of the adapter was raised so far. */
static void read_interrupts(unsigned long long *counts, unsigned int vectors)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char address[64], name[100], line[4096];
	unsigned int found = 0, vector;

	read_bus_address(address, sizeof(address));
	snprintf(name, sizeof(name), " rnic-%s-", address);
	while (file && fgets(line, sizeof(line), file)) {
		char *at = strstr(line, name);

		if (!at)
			continue;
		vector = atoi(at + strlen(name));
		/* The first two are of other events. */
		if (vector < 2 || vector - 2 >= vectors)
			continue;
		counts[vector - 2] = sum_of_line(line);
		found++;
	}
	if (!file || found != vectors)
		fail("%u of %u interrupts are found", found, vectors);
	fclose(file);
}

/* The events of a CQ come by its vector, and by no other. */
static void try_vector(unsigned int vector, unsigned int vectors)
{
	unsigned long long before[vectors], after[vectors];
	struct line l;
	unsigned int i;

	make_line(&l, make_channel_of_events(), vector);
	read_interrupts(before, vectors);
	for (i = 0; i < 20; i++) {
		ask(&l, 0);
		send_message(&l, 0);
		expect_event_of(&l, "of each vector");
		take_all(&l);
	}
	read_interrupts(after, vectors);
	for (i = 0; i < vectors; i++)
		if ((after[i] - before[i] >= 20) != (i == vector) ||
		    (i != vector && after[i] != before[i]))
			fail("20 events of vector %u raise interrupt %u %llu times",
			     vector, i, after[i] - before[i]);
	free_line(&l);
}

static void try_vectors(void)
{
	unsigned int vectors = adapter.context->num_comp_vectors, i;

	for (i = 0; i < vectors; i++)
		try_vector(i, vectors);
	if (ibv_create_cq(adapter.context, 1, NULL, NULL, vectors))
		fail("there is a vector more");
	say("%u vectors: ok", vectors);
}

/* ------------------------------------------------------ kinds of messages */

static struct ibv_wc execute(struct ibv_cq *cq, struct ibv_qp *qp,
			     struct ibv_send_wr *wr, enum ibv_wc_opcode opcode)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags |= IBV_SEND_SIGNALED;
	if (ibv_post_send(qp, wr, &bad))
		fail("posting opcode %d", wr->opcode);
	wc = by_hand_wait(cq, "work request");
	check_completion(&wc, "work request");
	if (wc.opcode != opcode)
		fail("opcode %d completes as %d", wr->opcode, wc.opcode);
	return wc;
}

/* A window of the receiving end's, for the message to invalidate. */
static uint32_t bind_window(struct line *l, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)memory,
				.length = SLOT,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	execute(l->send_cq, l->qps[1], &wr, IBV_WC_BIND_MW);
	mw->rkey = wr.bind_mw.rkey;
	return mw->rkey;
}

/* Of the four kinds of Send, with and without an event, and with an STag or none. */
static void try_send(struct line *l, uint32_t stag, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)memory + SLOT, 5 + flags % 7, mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = stag ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.send_flags = flags,
		.sg_list = &sge, .num_sge = 1,
		.invalidate_rkey = stag,
	};
	struct ibv_wc wc;

	memset(memory, 0, SLOT);
	memset(memory + SLOT, 1 + l->sent % 200, SLOT);
	ask(l, 1);
	post_receive_of(l, mr->lkey);
	execute(l->send_cq, l->qps[0], &wr, IBV_WC_SEND);
	l->sent++;
	if (flags & IBV_SEND_SOLICITED)
		expect_event_of(l, "of a solicited Send");
	else
		expect_no_event_of(l, "of a Send that is not solicited");
	wc = by_hand_wait(l->cq, "receive");
	check_completion(&wc, "receive");
	if (wc.wr_id != l->taken++ || wc.byte_len != sge.length ||
	    wc.opcode != IBV_WC_RECV ||
	    wc.wc_flags != (stag ? IBV_WC_WITH_INV : 0) ||
	    (stag && wc.invalidated_rkey != stag))
		fail("a receive of %u octets, flags 0x%x, rkey 0x%x",
		     wc.byte_len, wc.wc_flags, wc.invalidated_rkey);
	if (memcmp(memory, memory + SLOT, sge.length) || memory[sge.length])
		fail("a Send of other octets");
	/* The request is still open, for the next Send that is solicited. */
	if (!(flags & IBV_SEND_SOLICITED)) {
		send_message(l, IBV_SEND_SOLICITED);
		expect_event_of(l, "of a solicited Send");
		take_all(l);
	}
}

static void try_one_sided(struct line *l)
{
	struct ibv_sge sge = { (uintptr_t)memory + SLOT, 9, mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge, .num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory + 3, .rkey = mr->rkey,
		},
	};

	memset(memory, 0, SLOT);
	memset(memory + SLOT, 7, SLOT);
	execute(l->send_cq, l->qps[0], &wr, IBV_WC_RDMA_WRITE);
	if (memory[2] || memcmp(memory + 3, memory + SLOT, 9) || memory[12])
		fail("a Write has written other octets");
	memset(memory, 8, SLOT);
	wr.opcode = IBV_WR_RDMA_READ;
	execute(l->send_cq, l->qps[0], &wr, IBV_WC_RDMA_READ);
	if (memcmp(memory + SLOT, memory, 9) || memory[SLOT + 9] != 7)
		fail("a Read has read other octets");
}

/* A kind of work request that there is not. */
static void refuse_unknown(struct line *l)
{
	struct ibv_send_wr *bad = NULL, wr = { .opcode = 1000 };

	if (ibv_post_send(l->qps[0], &wr, &bad) != EOPNOTSUPP || bad != &wr)
		fail("an unknown opcode: not EOPNOTSUPP");
}

static void try_messages(struct line *l)
{
	struct ibv_mw *mw = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr invalidate = { .opcode = IBV_WR_LOCAL_INV };

	if (!mw)
		fail("ibv_alloc_mw: %s", strerror(errno));
	try_send(l, 0, 0);
	try_send(l, 0, IBV_SEND_SOLICITED);
	try_send(l, bind_window(l, mw), 0);
	try_send(l, bind_window(l, mw), IBV_SEND_SOLICITED);
	refuse_unknown(l);
	try_one_sided(l);
	invalidate.invalidate_rkey = bind_window(l, mw);
	execute(l->send_cq, l->qps[1], &invalidate, IBV_WC_LOCAL_INV);
	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw: %s", strerror(errno));
}

/* An error is solicited, on a queue of either kind, and so is what it flushes. */
static void try_error(struct line *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < 3; i++)
		post_receive_of(l, mr->lkey);
	ask(l, 1);
	if (ibv_modify_qp(l->qps[1], &attr, IBV_QP_STATE))
		fail("ERR: %s", strerror(errno));
	expect_event_of(l, "of what is flushed");
	for (i = 0; i < 3; i++) {
		wc = by_hand_wait(l->cq, "what is flushed");
		if (wc.status != IBV_WC_WR_FLUSH_ERR ||
		    wc.wr_id != l->taken++)
			fail("receive %llu: %s", (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status));
	}
	expect_no_event_of(l, "of what is flushed, again");
}

/* A CQ on no channel may be asked; its completions are there. */
static void try_nobody(struct line *l)
{
	ask(l, 0);
	ask(l, 1);
	send_message(l, IBV_SEND_SOLICITED);
	take_all(l);
	free_line(l);
}

static void run(const char *name)
{
	struct line nobody;
	unsigned int i;

	by_hand_open(&adapter, name);
	memory = allocate(2 * SLOT);
	mr = ibv_reg_mr(adapter.pd, memory, 2 * SLOT,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	/* The first vector, and the last. */
	for (i = 0; i < PAIRS; i++)
		make_line(&lines[i], make_channel_of_events(),
			  i ? adapter.context->num_comp_vectors - 1 : 0);
	for (i = 0; i < PAIRS; i++) {
		try_not_asked(&lines[i]);
		try_once(&lines[i], &lines[!i]);
		try_solicited(&lines[i]);
		try_both_kinds(&lines[i]);
		try_never_missed(&lines[i]);
		try_messages(&lines[i]);
		say("CQ %u: ok", i);
	}
	try_vectors();
	make_line(&nobody, NULL, 0);
	try_nobody(&nobody);
	for (i = 0; i < PAIRS; i++) {
		try_error(&lines[i]);
		free_line(&lines[i]);
	}
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	by_hand_close(&adapter);
	say("notification: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "notify-self", help, run);
}
