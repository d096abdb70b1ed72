// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-reused: a CQ whose number another one had. The event of the earlier one, which
 * is not taken before it is destroyed, is none of the later one.
 *
 * The adapter has to have two CQs, and raise no interrupt of completions: the driver
 * takes the events that are there every two seconds.
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define DEPTH		4
#define CQ_DEPTH	16
#define TIMES		200
#define ENOUGH		3	/* of these that are in time */
/* Seconds: the driver looks every two, so seldom between an event and the next CQ. */
#define IN_TIME		0.5
#define QUIET		5000	/* ms without an event: the driver has looked twice */
#define WRITE_US	20000	/* the adapter has written an event by then */

static const char help[] =
"usage: by-hand-reused [options] ADAPTER\n"
"Has events of a CQ whose number another one had.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;

static struct ibv_cq *make_cq(struct ibv_comp_channel *of)
{
	struct ibv_cq *cq = ibv_create_cq(adapter.context, CQ_DEPTH, NULL, of,
					  0);

	if (!cq)
		fail("ibv_create_cq: %s", strerror(errno));
	return cq;
}

static void destroy_cq(struct ibv_cq *cq)
{
	if (ibv_destroy_cq(cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
}

static void exchange(struct by_hand_pair *pair)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
	};
	unsigned int i;

	if (ibv_post_recv(pair->qps[1], &recv, &bad_recv) ||
	    ibv_post_send(pair->qps[0], &wr, &bad))
		fail("posting: %s", strerror(errno));
	for (i = 0; i < 2; i++)
		if (by_hand_wait(pair->cqs[0], "a Send").status !=
		    IBV_WC_SUCCESS)
			fail("a Send, or its receive");
}

/* Completions of cq, which is armed: the adapter has written an event. */
static void complete_on(struct ibv_cq *cq)
{
	struct by_hand_pair pair = { .cqs = { cq, cq } };
	unsigned int i;

	for (i = 0; i < 2; i++)
		pair.qps[i] = by_hand_qp(&adapter, cq, DEPTH);
	by_hand_join(&adapter, &pair, 0);
	if (ibv_req_notify_cq(cq, 0))
		fail("ibv_req_notify_cq");
	exchange(&pair);
	usleep(WRITE_US);
	for (i = 0; i < 2; i++)
		if (ibv_destroy_qp(pair.qps[i]))
			fail("ibv_destroy_qp: %s", strerror(errno));
}

static bool event_within(int ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, ms) > 0;
}

static void take_event(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	if (!event_within(time_limit * 1000) ||
	    ibv_get_cq_event(channel, &of, &context) || of != cq)
		fail("no event of the later CQ");
	ibv_ack_cq_events(cq, 1);
}

/*
 * Has the event of a CQ in the adapter's queue when the next one has its number. False:
 * that took so long that the driver has probably looked meanwhile, which shows nothing.
 */
static bool try_number(void)
{
	struct ibv_cq *cq = make_cq(channel);
	double begin = now();
	bool in_time;

	complete_on(cq);
	destroy_cq(cq);
	cq = make_cq(channel);
	in_time = now() - begin < IN_TIME;
	if (in_time) {
		if (event_within(QUIET))
			fail("an event of a CQ that is not armed");
		complete_on(cq);
		take_event(cq);
	}
	destroy_cq(cq);
	return in_time;
}

/* So that a CQ has the number of the last one, when there is another one. */
static void check_limit(void)
{
	struct ibv_cq *cqs[] = { make_cq(NULL), make_cq(NULL) };

	if (ibv_create_cq(adapter.context, CQ_DEPTH, NULL, NULL, 0))
		fail("the adapter has more than two CQs");
	destroy_cq(cqs[0]);
	destroy_cq(cqs[1]);
}

static void run(const char *name)
{
	unsigned int i, in_time = 0;
	struct ibv_cq *other;

	by_hand_open(&adapter, name);
	channel = ibv_create_comp_channel(adapter.context);
	if (!channel)
		fail("ibv_create_comp_channel: %s", strerror(errno));
	mr = ibv_reg_mr(adapter.pd, allocate(8), 8, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	check_limit();
	other = make_cq(NULL);
	for (i = 0; i < TIMES && in_time < ENOUGH; i++)
		in_time += try_number();
	if (in_time < ENOUGH)
		fail("too slow: the driver looks before the next CQ is there");
	destroy_cq(other);
	if (ibv_dereg_mr(mr) || ibv_destroy_comp_channel(channel))
		fail("freeing: %s", strerror(errno));
	by_hand_close(&adapter);
	say("numbers used again: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-reused", help, run);
}
