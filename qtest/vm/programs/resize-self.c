// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * resize-self: a process that connects to itself and resizes its queues while
 * messages go over the connection.
 *
 * Each message is numbered. Every completion of a Send and of a receive must
 * come once and in order, whatever the sizes. Besides, sizes that are to be
 * refused are tried, and a QP is destroyed whose completions are in several
 * rings of its CQ.
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include "common.h"

#define WINDOW		32	/* messages under way at most */
#define SLOT		64
#define BATCH		8

static const char help[] =
"usage: resize-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and resizes its\n"
"queues under traffic, checking every completion.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -n, --number N        resizes of each kind (default 10000)\n"
"  -s, --srq             receive by a shared receive queue\n"
"  -x, --extended        poll by ibv_start_poll() and so on\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "number", required_argument, NULL, 'n' },
	{ "srq", no_argument, NULL, 's' },
	{ "extended", no_argument, NULL, 'x' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static uint32_t number = 10000;
static const char *address;
static const char *port = DEFAULT_PORT;

static bool use_srq;
static struct rdma_event_channel *listen_channel;
static struct endpoint from, to;
static uint8_t *from_slots, *to_slots;
static struct ibv_mr *from_mr, *to_mr;

static atomic_bool stop;		/* no more messages */
static atomic_bool all_sent;	/* and the sender has ended: sent is the last */
static atomic_ullong sent;		/* Sends posted */
static atomic_ullong receives;		/* receives posted */
static atomic_ullong received;

/* ----------------------------------------------------------- traffic */

static void post_numbered(uint64_t n)
{
	uint64_t *slot = (void *)(from_slots + n % WINDOW * SLOT);

	*slot = n;
	post_message(&from, from_mr, slot, SLOT, n);
}

static void post_to_srq(uint64_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)to_slots + n % WINDOW * SLOT,
		.length = SLOT,
		.lkey = to_mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = n,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ibv_post_srq_recv(to.srq, &wr, &bad);

	if (ret)
		fail("ibv_post_srq_recv: %s", strerror(ret));
}

static void add_receive(void)
{
	uint64_t n = atomic_load(&receives);

	if (use_srq)
		post_to_srq(n);
	else
		post_receive(&to, to_mr, to_slots + n % WINDOW * SLOT, SLOT,
			     n);
	atomic_store(&receives, n + 1);
}

/* Of completions n, n + 1 and so on; returns the next one's number. */
static uint64_t check_order(const struct ibv_wc *wc, int count, uint64_t n,
			    const char *what)
{
	int i;

	for (i = 0; i < count; i++, n++) {
		check_completion(&wc[i], what);
		if (wc[i].wr_id != n)
			fail("%s: completion of %llu instead of %llu", what,
			     (unsigned long long)wc[i].wr_id,
			     (unsigned long long)n);
	}
	return n;
}

static uint64_t take_sends(uint64_t done)
{
	struct ibv_wc wc[BATCH];
	int n = wait_completions(from.send_cq, from.send_channel, wc, BATCH,
				 time_limit);

	if (!n)
		fail("no completion of Send %llu within %g s",
		     (unsigned long long)done, time_limit);
	return check_order(wc, n, done, "Send");
}

/* Until stopped; then, until all is complete. */
static void *send_all(void *unused)
{
	uint64_t posted = atomic_load(&sent), done = posted;

	(void)unused;
	while (!atomic_load(&stop) || done != posted) {
		while (!atomic_load(&stop) && posted - done < WINDOW &&
		       posted < atomic_load(&receives)) {
			post_numbered(posted++);
			atomic_store(&sent, posted);
		}
		if (posted != done)
			done = take_sends(done);
	}
	return NULL;
}

static uint64_t take_receives(uint64_t done)
{
	struct ibv_wc wc[BATCH];
	uint64_t next;
	int n = wait_completions(to.recv_cq, to.recv_channel, wc, BATCH, 0.2);

	for (next = check_order(wc, n, done, "receive"); done < next; done++) {
		uint64_t got = *(uint64_t *)(to_slots + done % WINDOW * SLOT);

		if (got != done)
			fail("message %llu came as number %llu",
			     (unsigned long long)got,
			     (unsigned long long)done);
		add_receive();
	}
	atomic_store(&received, next);
	return next;
}

static void *receive_all(void *unused)
{
	uint64_t done = atomic_load(&received);
	double last = now();

	(void)unused;
	while (!atomic_load(&all_sent) || done != atomic_load(&sent)) {
		uint64_t next = take_receives(done);

		if (next == done && done != atomic_load(&sent) &&
		    now() - last > time_limit)
			fail("message %llu has not come within %g s",
			     (unsigned long long)done, time_limit);
		if (next != done)
			last = now();
		done = next;
	}
	return NULL;
}

/* ------------------------------------------------------------ CQs */

static void resize(struct ibv_cq *cq, int cqe)
{
	int ret = ibv_resize_cq(cq, cqe);

	if (ret)
		fail("ibv_resize_cq to %d: %s", cqe, strerror(ret));
	if (cq->cqe < cqe)
		fail("resized to %d, and not to %d", cq->cqe, cqe);
}

static void resize_cqs(unsigned int *random)
{
	uint32_t i;

	for (i = 0; i < number / 2; i++) {
		resize(from.send_cq, WINDOW + rand_r(random) % 1000);
		resize(to.recv_cq, WINDOW + rand_r(random) % 1000);
	}
	say("%u resizes of CQs", number / 2 * 2);
}

static void expect_refused(struct ibv_cq *cq, int cqe, int error)
{
	int before = cq->cqe;
	int ret = ibv_resize_cq(cq, cqe);

	if (ret != error)
		fail("resizing a CQ to %d: %s, not %s", cqe, strerror(ret),
		     strerror(error));
	if (cq->cqe != before)
		fail("a refused resize changed the CQ");
}

static void wait_received(uint64_t n)
{
	double end = now() + time_limit;
	struct ibv_wc wc;

	/* An event tells that a receive is complete, which stays there. */
	while (atomic_load(&received) != n) {
		if (ibv_poll_cq(to.recv_cq, 1, &wc) == 1) {
			check_order(&wc, 1, received, "receive");
			add_receive();
			atomic_fetch_add(&received, 1);
		} else if (now() > end) {
			fail("message %llu has not come",
			     (unsigned long long)received);
		}
	}
}

static uint64_t send_more(uint64_t number, unsigned int count)
{
	uint64_t end = number + count;

	while (number < end)
		post_numbered(number++);
	wait_received(end);
	return end;
}

/* Into wc, which has room for count. */
static void take_sends_of(uint64_t first, int count, struct ibv_wc *wc)
{
	double end = now() + time_limit;
	int got = 0, n;

	while (got < count) {
		n = ibv_poll_cq(from.send_cq, count - got, wc + got);
		if (n < 0 || now() > end)
			fail("%d of %d completions of Sends", got, count);
		got += n;
	}
	check_order(wc, count, first, "Send");
}

/* By the library, and by the adapter: there are more completions. */
static void refuse_both(void)
{
	expect_refused(from.send_cq, 0, EINVAL);
	expect_refused(from.send_cq, 2, EINVAL);
}

/* V8.3.1-2: what is refused neither asks for an event nor takes a request for one. */
static void refuse_between_requests(void)
{
	uint64_t first = atomic_load(&sent), number;
	struct ibv_wc wc[8];

	/* Of requests before, which the completions since then have answered. */
	take_cq_events(from.send_channel, 0);
	/* None is asked for behind this one. */
	if (ibv_req_notify_cq(from.send_cq, 0))
		fail("ibv_req_notify_cq: %s", strerror(errno));
	number = send_more(first, 4);
	expect_cq_events(from.send_channel, 1, "of the first request");
	refuse_both();
	number = send_more(number, 4);
	expect_cq_events(from.send_channel, 0, "not asked for");
	if (ibv_req_notify_cq(from.send_cq, 0))
		fail("ibv_req_notify_cq: %s", strerror(errno));
	refuse_both();
	expect_cq_events(from.send_channel, 0, "of a refused resize");
	take_sends_of(first, 8, wc);
	send_more(number, 2);
	expect_cq_events(from.send_channel, 1, "of a request");
	take_sends_of(number, 2, wc);
	atomic_store(&sent, number + 2);
	say("requests of events beside refused resizes: ok");
}

/* V5.3.3-3: completions that nobody has polled are in the way. */
static void refuse_resizes(void)
{
	struct ibv_device_attr attr;
	struct ibv_wc wc[20];
	uint64_t i, first = atomic_load(&sent);

	if (ibv_query_device(from.id->verbs, &attr))
		fail("ibv_query_device: %s", strerror(errno));
	resize(from.send_cq, 64);
	for (i = 0; i < 20; i++)
		post_numbered(first + i);
	wait_received(first + 20);
	expect_refused(from.send_cq, 0, EINVAL);
	expect_refused(from.send_cq, -1, EINVAL);
	expect_refused(from.send_cq, attr.max_cqe + 1, EINVAL);
	expect_refused(from.send_cq, 16, EINVAL);
	resize(from.send_cq, 20);
	/* They are in a ring that the device has left, and count. */
	expect_refused(from.send_cq, 16, EINVAL);
	resize(from.send_cq, 100);
	take_sends_of(first, 20, wc);
	if (ibv_poll_cq(from.send_cq, 1, wc))
		fail("a completion too many");
	resize(from.send_cq, 2);
	resize(from.send_cq, 64);
	atomic_store(&sent, first + 20);
	say("refused resizes of a CQ: ok");
}

/* Nobody polls any more; what is in all the rings goes with the QP. */
static void leave_completions(void)
{
	uint64_t first = atomic_load(&sent);
	uint32_t i;

	for (i = 0; i < WINDOW; i++) {
		post_numbered(first + i);
		if (i % 4 == 3)
			resize(from.send_cq, 64 + i);
	}
	wait_received(first + WINDOW);
}

/* A CQ that nothing is completed on. */
static void expect_empty(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc))
		fail("a completion of a QP that was destroyed");
}

/* ----------------------------------------------------- QPs and S-RQs */

static struct ibv_qp_cap capabilities(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	return init.cap;
}

/* What the driver tells: in ibv_query_qp() the provider puts its own in its place. */
static struct ibv_qp_cap drivers_capabilities(struct ibv_qp *qp)
{
	struct ib_uverbs_query_qp_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr head;
		struct ib_uverbs_query_qp query;
	} cmd = {
		.head = {
			.command = IB_USER_VERBS_CMD_QUERY_QP,
			.in_words = sizeof(cmd) / 4,
			.out_words = sizeof(resp) / 4,
		},
		.query = {
			.response = (uintptr_t)&resp,
			.qp_handle = qp->handle,
			.attr_mask = IBV_QP_CAP,
		},
	};

	if (write(qp->context->cmd_fd, &cmd, sizeof(cmd)) != sizeof(cmd))
		fail("the driver's query of a QP: %s", strerror(errno));
	return (struct ibv_qp_cap) {
		.max_send_wr = resp.max_send_wr,
		.max_recv_wr = resp.max_recv_wr,
		.max_send_sge = resp.max_send_sge,
		.max_recv_sge = resp.max_recv_sge,
		.max_inline_data = resp.max_inline_data,
	};
}

static int try_resize_qp(struct ibv_qp *qp, uint32_t send_wr, uint32_t recv_wr)
{
	struct ibv_qp_attr attr = { .cap = capabilities(qp) };

	attr.cap.max_send_wr = send_wr;
	attr.cap.max_recv_wr = recv_wr;
	return ibv_modify_qp(qp, &attr, IBV_QP_CAP);
}

static void resize_qp(struct ibv_qp *qp, uint32_t send_wr, uint32_t recv_wr)
{
	int ret = try_resize_qp(qp, send_wr, recv_wr);
	struct ibv_qp_cap cap = capabilities(qp);
	struct ibv_qp_cap drivers = drivers_capabilities(qp);

	if (ret)
		fail("ibv_modify_qp to %u and %u WRs: %s", send_wr, recv_wr,
		     strerror(ret));
	if (memcmp(&drivers, &cap, sizeof(cap)))
		fail("the driver tells of a QP of %u and %u WRs, the provider of %u and %u",
		     drivers.max_send_wr, drivers.max_recv_wr, cap.max_send_wr,
		     cap.max_recv_wr);
	if (cap.max_send_wr < send_wr || (!qp->srq && cap.max_recv_wr < recv_wr))
		fail("a QP of %u and %u WRs, and not of %u and %u",
		     cap.max_send_wr, cap.max_recv_wr, send_wr, recv_wr);
}

static int try_resize_srq(uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(to.srq, &attr, IBV_SRQ_MAX_WR);
}

static void resize_srq(uint32_t max_wr)
{
	int ret = try_resize_srq(max_wr);
	struct ibv_srq_attr attr;

	if (ret)
		fail("ibv_modify_srq to %u WRs: %s", max_wr, strerror(ret));
	if (ibv_query_srq(to.srq, &attr) || attr.max_wr < max_wr)
		fail("an S-RQ of %u WRs, and not of %u", attr.max_wr, max_wr);
}

static void resize_queues(unsigned int *random)
{
	uint32_t i;

	for (i = 0; i < number / 4; i++) {
		resize_qp(from.id->qp, WINDOW + rand_r(random) % 500,
			  1 + rand_r(random) % 100);
		if (use_srq)
			resize_srq(WINDOW + rand_r(random) % 500);
		else
			resize_qp(to.id->qp, 1 + rand_r(random) % 100,
				  WINDOW + rand_r(random) % 500);
	}
	say("%u resizes of QPs%s", number / 4 * 2, use_srq ? " and S-RQs" : "");
}

/* Neither of what was done nor of what was refused. */
static void expect_no_event(void)
{
	struct ibv_context *context = from.id->verbs;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, 200) <= 0)
		return;
	if (ibv_get_async_event(context, &event))
		fail("ibv_get_async_event: %s", strerror(errno));
	fail("an event: %s", ibv_event_type_str(event.event_type));
}

static void refuse_srq_resizes(uint32_t most)
{
	struct ibv_srq_attr before, after;

	if (ibv_query_srq(to.srq, &before))
		fail("ibv_query_srq: %s", strerror(errno));
	if (try_resize_srq(most + 1) != EINVAL ||
	    try_resize_srq(WINDOW / 2) != EINVAL ||
	    try_resize_srq(0) != EINVAL)
		fail("a senseless S-RQ");
	if (ibv_query_srq(to.srq, &after))
		fail("ibv_query_srq: %s", strerror(errno));
	if (after.max_wr != before.max_wr || after.max_sge != before.max_sge ||
	    after.srq_limit != before.srq_limit)
		fail("a refused resize changed the S-RQ");
}

/* The receives of the S-RQ have nothing to do with the depth of a QP's RQ. */
static void resize_rq_with_srq(void)
{
	uint32_t send_wr = capabilities(to.id->qp).max_send_wr;
	struct ibv_srq_attr before, after;

	if (ibv_query_srq(to.srq, &before))
		fail("ibv_query_srq: %s", strerror(errno));
	resize_qp(to.id->qp, send_wr, 4 * WINDOW);
	resize_qp(to.id->qp, send_wr, 1);
	if (ibv_query_srq(to.srq, &after))
		fail("ibv_query_srq: %s", strerror(errno));
	if (after.max_wr != before.max_wr || after.max_sge != before.max_sge ||
	    after.srq_limit != before.srq_limit)
		fail("an S-RQ of %u WRs has %u after a change of its QP",
		     before.max_wr, after.max_wr);
}

/* All receives are posted, and no message is on its way. */
static void refuse_queue_resizes(void)
{
	struct ibv_device_attr attr;
	struct ibv_qp_cap cap;

	if (ibv_query_device(from.id->verbs, &attr))
		fail("ibv_query_device: %s", strerror(errno));
	if (!(attr.device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR) ||
	    !(attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		fail("the device does not say that it can resize queues");
	cap = capabilities(to.id->qp);
	if (try_resize_qp(to.id->qp, attr.max_qp_wr + 1, WINDOW) != EINVAL)
		fail("an SQ of too many WRs");
	if (use_srq) {
		refuse_srq_resizes(attr.max_srq_wr);
		resize_rq_with_srq();
	} else if (try_resize_qp(to.id->qp, 1, attr.max_qp_wr + 1) != EINVAL ||
		   try_resize_qp(to.id->qp, 1, WINDOW / 2) != EINVAL) {
		fail("a senseless RQ");
	}
	if (capabilities(to.id->qp).max_send_wr != cap.max_send_wr ||
	    capabilities(to.id->qp).max_recv_wr != cap.max_recv_wr)
		fail("a refused resize changed the QP");
	say("refused resizes of a QP: ok");
}

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = WINDOW, .max_sge = 1 },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (!srq)
		fail("ibv_create_srq: %s", strerror(errno));
	return srq;
}

/* ---------------------------------------------------------- set-up */

static void *accept_one(void *unused)
{
	(void)unused;
	take_request(listen_channel, &to, NULL, 0);
	if (use_srq)
		to.srq = make_srq(to.id->pd);
	make_qp(&to);
	to_slots = allocate(WINDOW * SLOT);
	to_mr = register_memory(to.id, to_slots, WINDOW * SLOT,
				IBV_ACCESS_LOCAL_WRITE);
	while (atomic_load(&receives) < WINDOW)
		add_receive();
	accept_on(&to);
	return NULL;
}

static pthread_t start_thread(void *(*run)(void *unused))
{
	pthread_t thread;
	int ret = pthread_create(&thread, NULL, run, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	return thread;
}

static void connect_both(void)
{
	pthread_t acceptor = start_thread(accept_one);

	connect_to(&from, address, port, NULL, 0);
	from_slots = allocate(WINDOW * SLOT);
	from_mr = register_memory(from.id, from_slots, WINDOW * SLOT, 0);
	pthread_join(acceptor, NULL);
}

/* resize_all(), while messages go. */
static void run_traffic(void (*resize_all)(unsigned int *random))
{
	unsigned int random = 1;
	pthread_t sender, receiver;
	double begin = now();
	uint64_t before = atomic_load(&received);

	atomic_store(&stop, false);
	atomic_store(&all_sent, false);
	sender = start_thread(send_all);
	receiver = start_thread(receive_all);
	resize_all(&random);
	atomic_store(&stop, true);
	pthread_join(sender, NULL);
	/* The sender may post one more after it was told to stop. */
	atomic_store(&all_sent, true);
	pthread_join(receiver, NULL);
	say("%llu messages in %.1f s: ok",
	    (unsigned long long)(atomic_load(&received) - before),
	    now() - begin);
}

static void free_all(void)
{
	struct ibv_srq *srq = to.srq;

	rdma_disconnect(from.id);
	expect_and_ack(from.channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(from.id);
	expect_empty(from.send_cq);
	if (ibv_destroy_cq(from.send_cq) || ibv_destroy_cq(from.recv_cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
	from.send_cq = NULL;
	if (ibv_dereg_mr(from_mr) || ibv_dereg_mr(to_mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	free_endpoint(&from);
	free_endpoint(&to);
	if (srq && ibv_destroy_srq(srq))
		fail("ibv_destroy_srq: %s", strerror(errno));
}

static void run(void)
{
	struct rdma_cm_id *listener;

	listen_channel = make_channel();
	listener = listen_at(listen_channel, address, port);
	connect_both();
	run_traffic(resize_cqs);
	refuse_resizes();
	refuse_between_requests();
	run_traffic(resize_queues);
	refuse_queue_resizes();
	leave_completions();
	expect_no_event();
	free_all();
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
}

int main(int argc, char **argv)
{
	int c;

	program = "resize-self";
	while ((c = getopt_long(argc, argv, "p:n:sxt:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			port = optarg;
			break;
		case 'n':
			number = parse_number(optarg, "--number", UINT32_MAX);
			break;
		case 's':
			use_srq = true;
			break;
		case 'x':
			use_extended = true;
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
	say("resizing: ok");
	return 0;
}
