// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cpu-distance: how far from each other the first two processors of this
 * process are: how long a cache line takes from one to the other and back. A
 * hypervisor may move them between cores that share a cache and cores that do
 * not, as it likes and without a trace in /proc, and data between two threads
 * then moves several times as slowly.
 *
 *   cpu-distance MILLISECONDS
 *
 * prints "UNIX-TIME NANOSECONDS" every so often, until it is killed or who has
 * started it ends; nothing for a time at which the two did not come to run
 * together. It uses some 0.1 ms of both processors each time, at real-time
 * priority where it may.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define BATCHES		5
#define ROUND_TRIPS	40		/* of a batch */
#define PATIENCE	2000000		/* nanoseconds, for all of them */
#define SPINS		100		/* before the clock is looked at */

static _Alignas(4096) _Atomic uint64_t ball;
static uint64_t start, period;		/* nanoseconds of CLOCK_REALTIME */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_until(uint64_t when)
{
	struct timespec t = { when / 1000000000, when % 1000000000 };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) ==
	       EINTR)
		;
}

/* Which of the processors that this process may use. */
static int nth_processor(int n)
{
	cpu_set_t mine;

	if (sched_getaffinity(0, sizeof(mine), &mine))
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &mine) && n-- == 0)
			return cpu;
	return -1;
}

static void stay_on(int cpu)
{
	struct sched_param first = { .sched_priority = 1 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
	/* Without the right to it some measurements are missed. */
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
}

static bool await(uint64_t value, uint64_t end)
{
	for (uint64_t spins = 1;
	     atomic_load_explicit(&ball, memory_order_acquire) != value;
	     spins++)
		if (spins % SPINS == 0 && now() > end)
			return false;
	return true;
}

/*
 * One processor's part of a round trip: the first throws an odd value, the
 * second answers with the even one after it.
 */
static bool play(uint64_t thrown, bool first, uint64_t end)
{
	if (first)
		atomic_store_explicit(&ball, thrown, memory_order_release);
	if (!await(first ? thrown + 1 : thrown, end))
		return false;
	if (!first)
		atomic_store_explicit(&ball, thrown + 1, memory_order_release);
	return true;
}

/* Nanoseconds that ROUND_TRIPS from @thrown on took, or 0. */
static uint64_t play_batch(uint64_t thrown, bool first, uint64_t end)
{
	uint64_t began = now();

	for (int i = 0; i < ROUND_TRIPS; i++)
		if (!play(thrown + 2 * i, first, end))
			return 0;
	return now() - began;
}

/*
 * Nanoseconds of the fastest batch: the others may have been interrupted. 0 if
 * the other processor did not come. The values of a turn are its own, so that
 * none of one that was missed counts. The first round trip, which waits for the
 * other to wake up, is not counted.
 */
static uint64_t take_turn(uint64_t turn, bool first)
{
	uint64_t when = start + turn * period, least = 0;
	uint64_t thrown = turn * 2 * (BATCHES * ROUND_TRIPS + 1) + 1;

	sleep_until(when);
	if (!play(thrown, first, when + PATIENCE))
		return 0;
	thrown += 2;
	for (int i = 0; i < BATCHES; i++, thrown += 2 * ROUND_TRIPS) {
		uint64_t took = play_batch(thrown, first, when + PATIENCE);

		if (!took)
			break;
		if (!least || took < least)
			least = took;
	}
	return least;
}

static void *answer(void *cpu)
{
	stay_on(*(int *)cpu);
	for (uint64_t turn = 1;; turn++)
		take_turn(turn, false);
	return NULL;
}

static void ask(int cpu)
{
	stay_on(cpu);
	for (uint64_t turn = 1;; turn++) {
		uint64_t took = take_turn(turn, true);

		if (took) {
			printf("%.3f %.0f\n", (start + turn * period) / 1e9,
			       (double)took / ROUND_TRIPS);
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	int one = nth_processor(0), other = nth_processor(1);
	pthread_t thread;

	if (argc != 2 || atoi(argv[1]) <= 0) {
		fprintf(stderr, "usage: cpu-distance MILLISECONDS\n");
		return 2;
	}
	if (other < 0) {
		fprintf(stderr, "cpu-distance: error: one processor only\n");
		return 1;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	start = now();
	period = atoi(argv[1]) * 1000000ull;
	if (pthread_create(&thread, NULL, answer, &other)) {
		fprintf(stderr, "cpu-distance: error: no second thread\n");
		return 1;
	}
	ask(one);
	return 0;
}
