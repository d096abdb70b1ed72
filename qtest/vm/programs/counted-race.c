// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * counted-race: two threads take one QP to INIT at the same time, which binds it to a
 * counter if the adapter has an automatic mode of counters. Whether it has one already
 * Linux asks before it takes a lock: the driver sees to it that it is bound once.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS	100
#define DEPTH	4
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: counted-race [options] ADAPTER\n"
"Takes QPs to INIT, each by two threads at once, and destroys them.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_qp *qp;
static pthread_barrier_t start;

static void *take_to_init(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&start);
	by_hand_init(qp, RIGHTS);
	return NULL;
}

static void race(struct ibv_cq *cq)
{
	pthread_t other;

	qp = by_hand_qp(&adapter, cq, DEPTH);
	if (pthread_create(&other, NULL, take_to_init, NULL))
		fail("pthread_create");
	take_to_init(NULL);
	pthread_join(other, NULL);
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp");
}

static void run(const char *name)
{
	struct ibv_cq *cq;
	int i;

	by_hand_open(&adapter, name);
	cq = ibv_create_cq(adapter.context, 2 * DEPTH, NULL, NULL, 0);
	if (!cq)
		fail("ibv_create_cq");
	pthread_barrier_init(&start, NULL, 2);
	for (i = 0; i < ROUNDS; i++)
		race(cq);
	ibv_destroy_cq(cq);
	by_hand_close(&adapter);
	say("%d QPs: ok", ROUNDS);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "counted-race", help, run);
}
