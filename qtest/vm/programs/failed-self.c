// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * failed-self: a process whose adapter fails, and which reads no events: each way
 * of posting a work request says so. What it has can be destroyed then, and the
 * adapter that takes the place of the failed one can be opened.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define DEPTH	16

static const char help[] =
"usage: failed-self [-t SECONDS] ADAPTER\n"
"Says \"ready\" and waits for the adapter to fail. Then checks that nothing can be\n"
"posted, that the event was there, and that the adapter can be opened again.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

struct user {
	struct by_hand adapter;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	void *memory;
};

static struct ibv_qp *make_extended_qp(struct user *u)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = u->cq,
		.recv_cq = u->cq,
		.cap = {
			.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = u->adapter.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(u->adapter.context, &attr);

	if (!qp)
		fail("ibv_create_qp_ex: %s", strerror(errno));
	by_hand_init(qp, 0);
	return qp;
}

static void make_objects(struct user *u)
{
	struct ibv_srq_init_attr srq = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};

	u->memory = allocate(4096);
	u->cq = ibv_create_cq(u->adapter.context, 4 * DEPTH, NULL, NULL, 0);
	u->srq = ibv_create_srq(u->adapter.pd, &srq);
	u->mr = ibv_reg_mr(u->adapter.pd, u->memory, 4096,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	u->mw = ibv_alloc_mw(u->adapter.pd, IBV_MW_TYPE_1);
	if (!u->cq || !u->srq || !u->mr || !u->mw)
		fail("making objects: %s", strerror(errno));
	u->qp = make_extended_qp(u);
}

/* ------------------------------------------------- the ways of posting */

static int post_send(struct user *u)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	int ret = ibv_post_send(u->qp, &wr, &bad);

	if (ret && bad != &wr)
		fail("ibv_post_send does not name the WR it refuses");
	return ret;
}

static int post_by_wr(struct user *u)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(u->qp);

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	return ibv_wr_complete(qp);
}

static int post_recv(struct user *u)
{
	struct ibv_recv_wr wr = {}, *bad = NULL;
	int ret = ibv_post_recv(u->qp, &wr, &bad);

	if (ret && bad != &wr)
		fail("ibv_post_recv does not name the WR it refuses");
	return ret;
}

static int post_srq_recv(struct user *u)
{
	struct ibv_recv_wr wr = {}, *bad = NULL;
	int ret = ibv_post_srq_recv(u->srq, &wr, &bad);

	if (ret && bad != &wr)
		fail("ibv_post_srq_recv does not name the WR it refuses");
	return ret;
}

static int bind_mw(struct user *u)
{
	struct ibv_mw_bind bind = {
		.bind_info = {
			.mr = u->mr,
			.addr = (uintptr_t)u->memory,
			.length = 64,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		},
	};

	return ibv_bind_mw(u->qp, u->mw, &bind);
}

static const struct way {
	const char *name;
	int (*post)(struct user *u);
} ways[] = {
	{ "ibv_post_send", post_send },
	{ "ibv_wr_complete", post_by_wr },
	{ "ibv_post_recv", post_recv },
	{ "ibv_post_srq_recv", post_srq_recv },
	{ "ibv_bind_mw", bind_mw },
};

static void expect_posts(struct user *u, int expected)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int ret = ways[i].post(u);

		if (ret != expected)
			fail("%s returns %d, not %d", ways[i].name, ret,
			     expected);
	}
}

/* ---------------------------------------------------------- the trial */

/* A batch of no WRs: it fails like others, but fills no queue. */
static int post_nothing(struct user *u)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(u->qp);

	ibv_wr_start(qp);
	return ibv_wr_complete(qp);
}

static void wait_for_failure(struct user *u)
{
	double end = now() + time_limit;

	while (!post_nothing(u)) {
		if (now() > end)
			fail("posting never fails");
		usleep(10000);
	}
}

/* Events about the port may come before. */
static void expect_fatal_event(struct user *u)
{
	struct ibv_async_event event;

	do {
		if (ibv_get_async_event(u->adapter.context, &event))
			fail("no IBV_EVENT_DEVICE_FATAL: %s", strerror(errno));
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
}

static void destroy_objects(struct user *u)
{
	if (ibv_destroy_qp(u->qp) || ibv_dealloc_mw(u->mw) ||
	    ibv_dereg_mr(u->mr) || ibv_destroy_srq(u->srq) ||
	    ibv_destroy_cq(u->cq))
		fail("destroying: %s", strerror(errno));
	by_hand_close(&u->adapter);
	free(u->memory);
}

static bool can_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context && !ibv_close_device(context);
}

static void wait_for_next(const char *name)
{
	double end = now() + time_limit;

	while (!can_open(name)) {
		if (now() > end)
			fail("no adapter %s takes the place of the failed one",
			     name);
		usleep(100000);
	}
}

static void run(const char *name)
{
	struct user u = {};

	by_hand_open(&u.adapter, name);
	make_objects(&u);
	expect_posts(&u, 0);
	puts("ready");
	fflush(stdout);
	wait_for_failure(&u);
	expect_posts(&u, EIO);
	wait_for_next(name);
	/* Of a context without a device, as of one whose device has failed. */
	expect_posts(&u, EIO);
	expect_fatal_event(&u);
	destroy_objects(&u);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "failed-self", help, run);
}
