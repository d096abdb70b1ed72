// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cq-options-self: a process that connects to itself and asks of its CQs what
 * verbs have besides completions: timestamps in the device's time and in the
 * system's, moderation of events, and no error for an overrun.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"

#define MESSAGES	60
#define SLOT		64
#define ROUNDS		50
/* The two clocks are compared by a process that may have to wait meanwhile. */
#define WALLCLOCK_ERROR	500000000LL
#define LONG_PERIOD	60000	/* microseconds */
#define LESS		0.05	/* seconds, and a little less than that */

static const char *address;
static const char *port = DEFAULT_PORT;
static struct rdma_event_channel *listen_channel;
static struct endpoint from, to;
static uint8_t *slots;
static struct ibv_mr *from_mr, *to_mr;

static void *accept_one(void *unused)
{
	(void)unused;
	take_request(listen_channel, &to, NULL, 0);
	make_qp(&to);
	to_mr = register_memory(to.id, slots, SLOT, IBV_ACCESS_LOCAL_WRITE);
	accept_on(&to);
	return NULL;
}

static void connect_both(void)
{
	pthread_t acceptor;
	int ret = pthread_create(&acceptor, NULL, accept_one, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_to(&from, address, port, NULL, 0);
	from_mr = register_memory(from.id, slots, SLOT, 0);
	pthread_join(acceptor, NULL);
}

static uint64_t system_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static uint64_t device_ns(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int ret = ibv_query_rt_values_ex(from.id->verbs, &values);

	if (ret || values.comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
		fail("ibv_query_rt_values_ex: %s", strerror(ret));
	return values.raw_clock.tv_sec * 1000000000ULL +
	       values.raw_clock.tv_nsec;
}

static void check_device(void)
{
	struct ibv_device_attr_ex attr;
	uint64_t before, system;

	if (ibv_query_device_ex(from.id->verbs, NULL, &attr))
		fail("ibv_query_device_ex: %s", strerror(errno));
	if (attr.completion_timestamp_mask != UINT64_MAX ||
	    attr.hca_core_clock != 1000000)
		fail("a clock of %llu kHz, mask %#llx",
		     (unsigned long long)attr.hca_core_clock,
		     (unsigned long long)attr.completion_timestamp_mask);
	if (attr.cq_mod_caps.max_cq_count < 2 ||
	    !attr.cq_mod_caps.max_cq_period)
		fail("no moderation of CQs");
	before = device_ns();
	system = system_ns();
	poll(NULL, 0, 200);
	before = device_ns() - before;
	system = system_ns() - system;
	if (before < system / 2 || before > 2 * system)
		fail("the device counts %llu ns in %llu ns",
		     (unsigned long long)before, (unsigned long long)system);
}

static void check_times(struct ibv_cq_ex *cq, uint64_t device, uint64_t system)
{
	uint64_t ts = ibv_wc_read_completion_ts(cq);
	int64_t wall = ibv_wc_read_completion_wallclock_ns(cq);

	if (cq->status != IBV_WC_SUCCESS)
		fail("%s", ibv_wc_status_str(cq->status));
	if (ts < device || ts > device_ns())
		fail("timestamp %llu is not between %llu and now",
		     (unsigned long long)ts, (unsigned long long)device);
	if (wall < (int64_t)system - WALLCLOCK_ERROR ||
	    wall > (int64_t)system_ns() + WALLCLOCK_ERROR)
		fail("wall clock %lld is not between %llu and now",
		     (long long)wall, (unsigned long long)system);
}

static void expect_timed(struct ibv_cq *cq, uint64_t device, uint64_t system)
{
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };
	double end = now() + time_limit;
	int ret;

	while ((ret = ibv_start_poll(cq_ex, &attr)) == ENOENT && now() < end)
		;
	if (ret)
		fail("ibv_start_poll: %s", strerror(ret));
	check_times(cq_ex, device, system);
	ibv_end_poll(cq_ex);
}

static void timestamps(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		uint64_t device = device_ns(), system = system_ns();

		/* With a smaller ring, and with a larger. */
		if (i % 10 == 5 && ibv_resize_cq(from.send_cq, 8 << i % 4))
			fail("ibv_resize_cq of a CQ with timestamps");
		post_receive(&to, to_mr, slots, SLOT, i);
		post_message(&from, from_mr, slots, SLOT, i);
		expect_timed(to.recv_cq, device, system);
		expect_timed(from.send_cq, device, system);
	}
	say("timestamps: ok");
}

static void moderate(uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = count, .cq_period = period },
	};
	int ret = ibv_modify_cq(to.recv_cq, &attr);

	if (ret)
		fail("ibv_modify_cq: %s", strerror(ret));
}

/* However events are moderated, none is missed. */
static void moderation(void)
{
	static const uint16_t settings[][2] = {
		{ 4, 1000 }, { 1000, 2000 }, { 1, 50 }, { 0, 0 },
	};
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < 80; i++) {
		if (i % 20 == 0)
			moderate(settings[i / 20][0], settings[i / 20][1]);
		post_receive(&to, to_mr, slots, SLOT, i);
		post_message(&from, from_mr, slots, SLOT, i);
		expect_completion(to.recv_cq, to.recv_channel, &wc, "receive");
		expect_completion(from.send_cq, from.send_channel, &wc,
				  "Send");
	}
	say("moderation: ok");
}

static void take_event(struct ibv_comp_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, time_limit * 1000) != 1 ||
	    ibv_get_cq_event(channel, &cq, &context))
		fail("no event");
	ibv_ack_cq_events(cq, 1);
}

static void await_one(struct ibv_cq *cq, const char *what)
{
	double end = now() + time_limit;
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		if (now() > end)
			fail("no completion of a %s", what);
	check_completion(&wc, what);
}

/* Seconds from the first of number messages until the event that tells of them. */
static double time_to_event(int number)
{
	double begun;
	int i;

	for (i = 0; i < number; i++)
		post_receive(&to, to_mr, slots, SLOT, i);
	if (ibv_req_notify_cq(to.recv_cq, 0))
		fail("ibv_req_notify_cq");
	begun = now();
	for (i = 0; i < number; i++)
		post_message(&from, from_mr, slots, SLOT, i);
	take_event(to.recv_channel);
	begun = now() - begun;
	for (i = 0; i < number; i++) {
		await_one(to.recv_cq, "receive");
		await_one(from.send_cq, "Send");
	}
	return begun;
}

/* One completion waits for as long as was asked for; of two, no longer than that. */
static void held_events(void)
{
	double fastest = LESS;
	int i;

	moderate(2, LONG_PERIOD);
	for (i = 0; i < 5; i++)
		if (time_to_event(1) < LESS)
			fail("an event comes before its time");
	for (i = 0; i < 100 && fastest >= LESS; i++)
		fastest = time_to_event(2);
	if (fastest >= LESS)
		fail("an event waits for more completions than asked for");
	say("held events: ok");
}

/* More completions than the CQ holds; nobody is told, and messages go on. */
static void overrun(void)
{
	struct pollfd p = { .fd = from.id->verbs->async_fd, .events = POLLIN };
	struct ibv_wc wc;
	int i;

	if (ibv_resize_cq(from.send_cq, 8))
		fail("ibv_resize_cq: %s", strerror(errno));
	for (i = 0; i < MESSAGES / 2; i++) {
		post_receive(&to, to_mr, slots, SLOT, i);
		post_message(&from, from_mr, slots, SLOT, i);
		expect_completion(to.recv_cq, to.recv_channel, &wc, "receive");
	}
	if (poll(&p, 1, 200))
		fail("an event for an overrun that is to be ignored");
	say("an ignored overrun: ok");
}

static void run_connected(void (*fn)(void), uint64_t wc_flags,
			  uint32_t cq_flags)
{
	use_extended = wc_flags || cq_flags;
	extra_wc_flags = wc_flags;
	extra_cq_flags = cq_flags;
	connect_both();
	fn();
	rdma_disconnect(from.id);
	expect_and_ack(from.channel, RDMA_CM_EVENT_DISCONNECTED);
	if (ibv_dereg_mr(from_mr) || ibv_dereg_mr(to_mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	free_endpoint(&from);
	free_endpoint(&to);
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listener;

	program = "cq-options-self";
	if (argc != 2) {
		fprintf(stderr, "usage: cq-options-self ADDRESS\n");
		return USAGE;
	}
	address = argv[1];
	slots = allocate(SLOT);
	listen_channel = make_channel();
	listener = listen_at(listen_channel, address, port);
	run_connected(check_device, 0, 0);
	run_connected(timestamps, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0);
	run_connected(moderation, 0, 0);
	run_connected(held_events, 0, 0);
	run_connected(overrun, 0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
	return 0;
}
