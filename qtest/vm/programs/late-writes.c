// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * late-writes: a peer writes to a region without a pause. When standard input ends, the
 * region is deregistered: from then on its memory does not change, in whatever state the
 * adapter is.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define DEPTH		16
#define SIZE		65536
#define LOOK_US		300000	/* for octets that come late */

static const char help[] =
"usage: late-writes [options] ADAPTER\n"
"Says \"writing\", and deregisters what is written to when its input ends.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct by_hand_pair pair;
static struct ibv_mr *source_mr, *target_mr;
static uint8_t *source, *target;
static atomic_uint written;

static bool write_once(uint8_t octet)
{
	struct ibv_sge sge = { (uintptr_t)source, SIZE, source_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)target, target_mr->rkey },
	};
	struct ibv_wc wc;
	int polled;

	memset(source, octet, SIZE);
	if (ibv_post_send(pair.qps[0], &wr, &bad))
		return false;
	do
		polled = ibv_poll_cq(pair.cqs[0], 1, &wc);
	while (!polled);
	return polled == 1 && wc.status == IBV_WC_SUCCESS;
}

/* Until the region, or the adapter, has gone. */
static void *write_on(void *unused)
{
	uint8_t octet = 0;

	(void)unused;
	while (write_once(++octet))
		atomic_fetch_add(&written, 1);
	return NULL;
}

static void await_writes(void)
{
	double end = now() + time_limit;
	unsigned int before = atomic_load(&written);

	while (atomic_load(&written) < before + 10) {
		if (now() > end)
			fail("no Writes succeed");
		usleep(1000);
	}
}

static void await_end_of_input(void)
{
	char octet;

	while (read(STDIN_FILENO, &octet, 1) > 0)
		;
}

static void run(const char *name)
{
	static uint8_t seen[SIZE];
	pthread_t writer;

	by_hand_open(&adapter, name);
	source = allocate(SIZE);
	target = allocate(SIZE);
	source_mr = ibv_reg_mr(adapter.pd, source, SIZE, 0);
	target_mr = ibv_reg_mr(adapter.pd, target, SIZE,
			       IBV_ACCESS_LOCAL_WRITE |
			       IBV_ACCESS_REMOTE_WRITE);
	if (!source_mr || !target_mr)
		fail("ibv_reg_mr");
	by_hand_connect(&adapter, &pair, adapter.pd, IBV_ACCESS_REMOTE_WRITE,
			DEPTH);
	if (pthread_create(&writer, NULL, write_on, NULL))
		fail("pthread_create");
	await_writes();
	say("writing");
	fflush(stdout);
	await_end_of_input();
	if (ibv_dereg_mr(target_mr))
		fail("ibv_dereg_mr");
	memcpy(seen, target, SIZE);
	usleep(LOOK_US);
	if (memcmp(seen, target, SIZE))
		fail("memory changes after its region was deregistered");
	say("%u Writes, and none late", atomic_load(&written));
	/* The writer may wait for what never comes. */
	_exit(0);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "late-writes", help, run);
}
