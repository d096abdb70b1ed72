// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bound-race: one thread deallocates a window while another deregisters the region, or
 * destroys the QP, that it is bound to. That is done, or refused as long as the window
 * is there; the adapter stays in service for everybody.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS		300
#define DEPTH		4
#define SIZE		4096
#define RIGHTS		(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: bound-race [options] ADAPTER\n"
"Deregisters regions and destroys QPs while the windows bound to them go.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct by_hand_pair pair;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static uint8_t *region;
static pthread_barrier_t start;

/* ------------------------------------------------------------ windows */

static void make_bound_window(enum ibv_mw_type type)
{
	struct ibv_mw_bind_info info = {
		.mr = mr,
		.addr = (uintptr_t)region,
		.length = SIZE,
		.mw_access_flags = RIGHTS,
	};
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = info,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .bind_info = info },
	};
	int ret;

	mw = ibv_alloc_mw(adapter.pd, type);
	if (!mw)
		fail("ibv_alloc_mw: %s", strerror(errno));
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	ret = type == IBV_MW_TYPE_1 ? ibv_bind_mw(pair.qps[1], mw, &bind) :
				      ibv_post_send(pair.qps[1], &wr, &bad);
	if (ret)
		fail("bind: %s", strerror(ret));
	if (by_hand_wait(pair.cqs[1], "bind").status != IBV_WC_SUCCESS)
		fail("bind");
}

static void register_region(void)
{
	mr = ibv_reg_mr(adapter.pd, region, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
}

/* --------------------------------------------------------------- race */

static void *deallocate_window(void *unused)
{
	int ret;

	(void)unused;
	pthread_barrier_wait(&start);
	ret = ibv_dealloc_mw(mw);
	if (ret)
		fail("ibv_dealloc_mw: %s", strerror(ret));
	return NULL;
}

static int end_region(void)
{
	return ibv_dereg_mr(mr);
}

static int end_qp(void)
{
	return ibv_destroy_qp(pair.qps[1]);
}

/* Returns whether end() was refused at first. */
static bool race(int (*end)(void), const char *what)
{
	pthread_t other;
	int ret;

	if (pthread_create(&other, NULL, deallocate_window, NULL))
		fail("pthread_create");
	pthread_barrier_wait(&start);
	ret = end();
	if (ret && ret != EBUSY)
		fail("%s: %s", what, strerror(ret));
	pthread_join(other, NULL);
	if (!ret)
		return false;
	ret = end();
	if (ret)
		fail("%s without a window: %s", what, strerror(ret));
	return true;
}

static void race_regions(void)
{
	unsigned int i, refused = 0;

	for (i = 0; i < ROUNDS; i++) {
		register_region();
		make_bound_window(IBV_MW_TYPE_1);
		refused += race(end_region, "ibv_dereg_mr");
	}
	say("regions: %u of %u refused at first", refused, ROUNDS);
}

/* The pair's other QP and the CQs are destroyed as usual. */
static void race_qps(void)
{
	unsigned int i, refused = 0;

	register_region();
	for (i = 0; i < ROUNDS / 3; i++) {
		make_bound_window(IBV_MW_TYPE_2);
		refused += race(end_qp, "ibv_destroy_qp");
		pair.qps[1] = by_hand_qp(&adapter, pair.cqs[1], DEPTH);
		by_hand_free(&pair);
		by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	}
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr");
	if (!refused)
		fail("no QP was destroyed while its window was there");
	say("QPs: %u of %u refused at first", refused, ROUNDS / 3);
}

static void check_in_service(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(adapter.context);

	if (!pd)
		fail("the adapter is out of service: %s", strerror(errno));
	ibv_dealloc_pd(pd);
}

static void run(const char *name)
{
	by_hand_open(&adapter, name);
	region = allocate(SIZE);
	pthread_barrier_init(&start, NULL, 2);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	race_regions();
	check_in_service();
	race_qps();
	check_in_service();
	by_hand_free(&pair);
	by_hand_close(&adapter);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "bound-race", help, run);
}
