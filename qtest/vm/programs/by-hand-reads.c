// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-reads: Reads that scatter what they read over several SGEs; a Send, a receive
 * and a Write with as many SGEs as the adapter says
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS	200
#define LISTS	4		/* Reads at a time */
#define ROOM	(256 << 10)	/* octets of a list, and of its source */
#define GAP	16		/* octets between SGEs, not to be touched */
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-reads [options] ADAPTER\n"
"Connects two QPs, reads with random lists of SGEs, sends and writes with the longest\n"
"ones, and checks every octet.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter = { .reads = LISTS };
static struct by_hand_pair pair;
static struct ibv_mr *mr;
static uint8_t *source, *sinks, *expected;
static unsigned int seed = 1;

static void open_all(const char *name)
{
	int access = IBV_ACCESS_LOCAL_WRITE | RIGHTS;
	struct ibv_device_attr attr;
	unsigned int i;

	by_hand_open(&adapter, name);
	if (ibv_query_device(adapter.context, &attr))
		fail("ibv_query_device: %s", strerror(errno));
	if (attr.max_sge_rd < 2 || attr.max_sge != attr.max_sge_rd)
		fail("max_sge_rd is %d, max_sge %d", attr.max_sge_rd,
		     attr.max_sge);
	adapter.max_sge = attr.max_sge_rd;
	source = allocate((1 + LISTS) * ROOM);
	sinks = source + ROOM;
	expected = allocate(LISTS * ROOM);
	for (i = 0; i < ROOM; i++)
		source[i] = rand_r(&seed);
	mr = ibv_reg_mr(adapter.pd, source, (1 + LISTS) * ROOM, access);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, LISTS);
}

/* One SGE of up to a third of the room, often of none; returns its length. */
static uint32_t random_sge(struct ibv_sge *sge, uint32_t list, uint32_t room,
			   uint32_t at)
{
	uint32_t most = room < 300 || rand_r(&seed) % 3 == 0 ? room / 3 : 100;

	*sge = (struct ibv_sge) {
		.addr = (uintptr_t)sinks + list * ROOM + at,
		.length = rand_r(&seed) % (most + 1),
		.lkey = mr->lkey,
	};
	return sge->length;
}

/* Posts a Read of random shape; returns its octets. */
static uint32_t post_list(uint32_t list)
{
	uint32_t count = 1 + rand_r(&seed) % adapter.max_sge;
	uint32_t from = rand_r(&seed) % 1000, at = 0, total = 0, i;
	uint8_t *due = expected + list * ROOM;
	struct ibv_sge sges[count];
	struct ibv_send_wr *bad, wr = {
		.wr_id = list,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = sges,
		.num_sge = count,
		.wr.rdma = {
			.remote_addr = (uintptr_t)source + from,
			.rkey = mr->rkey,
		},
	};
	int ret;

	for (i = 0; i < count; i++) {
		uint32_t room = ROOM - 1000 - at - GAP * count;
		uint32_t length = random_sge(&sges[i], list, room, at);

		memcpy(due + at, source + from + total, length);
		total += length;
		at += length + GAP;
	}
	ret = ibv_post_send(pair.qps[0], &wr, &bad);
	if (ret)
		fail("a Read with %u SGEs: %s", count, strerror(ret));
	return total;
}

static void run_round(unsigned int round)
{
	uint32_t octets[LISTS], i;

	memset(sinks, 0xee, LISTS * ROOM);
	memset(expected, 0xee, LISTS * ROOM);
	for (i = 0; i < LISTS; i++)
		octets[i] = post_list(i);
	for (i = 0; i < LISTS; i++) {
		struct ibv_wc wc = by_hand_wait(pair.cqs[0], "Read");

		if (wc.status || wc.wr_id != i || wc.opcode != IBV_WC_RDMA_READ)
			fail("round %u: Read %u: %s of WR %llu", round, i,
			     ibv_wc_status_str(wc.status),
			     (unsigned long long)wc.wr_id);
		if (wc.byte_len != octets[i])
			fail("round %u: Read %u: %u octets, not %u", round, i,
			     wc.byte_len, octets[i]);
	}
	for (i = 0; i < LISTS * ROOM; i++)
		if (sinks[i] != expected[i])
			fail("round %u: Read %u: octet %u is 0x%02x, not 0x%02x",
			     round, i / ROOM, i % ROOM, sinks[i], expected[i]);
}

static void try_too_many(void)
{
	struct ibv_sge sges[adapter.max_sge + 1];
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = sges,
		.num_sge = adapter.max_sge + 1,
	};

	memset(sges, 0, sizeof(sges));
	if (ibv_post_send(pair.qps[0], &wr, &bad) != EINVAL)
		fail("a Read with more than max_sge_rd SGEs is not refused");
}

/* --------------------------------------------------------- other messages */

/* SGE i has i + 1 octets, and there is a gap behind it; returns all octets. */
static uint32_t fill_list(struct ibv_sge *sges, uint32_t count, uint8_t *at)
{
	uint32_t total = 0, i;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge) {
			(uintptr_t)at + total + i * GAP, i + 1, mr->lkey,
		};
		total += i + 1;
	}
	return total;
}

/* The list's octets, from its place, are at another list's, or one after another. */
static void expect_list(uint32_t count, const uint8_t *from, const uint8_t *to,
			bool gaps, const char *what)
{
	uint32_t at = 0, i, k;

	for (i = 0; i < count; i++) {
		for (k = 0; k <= i; k++, at++)
			if (to[at + (gaps ? i * GAP : 0)] != from[at + i * GAP])
				fail("%s: octet %u of SGE %u is wrong", what, k,
				     i);
		for (k = 0; gaps && k < GAP; k++)
			if (to[at + i * GAP + k] != 0xee)
				fail("%s: octet %u behind SGE %u has changed",
				     what, k, i);
	}
	if (to[at + (gaps ? count * GAP : 0)] != 0xee)
		fail("%s: the octet behind it has changed", what);
}

static void expect_done(int end, uint32_t octets, const char *what)
{
	struct ibv_wc wc = by_hand_wait(pair.cqs[end], what);

	check_completion(&wc, what);
	if (end && wc.byte_len != octets)
		fail("%s: %u octets, not %u", what, wc.byte_len, octets);
}

/* Of a Send, its receive, and a Write: as many SGEs as the adapter says. */
static void try_most_sges(void)
{
	uint32_t count = adapter.max_sge;
	struct ibv_sge from[count], to[count];
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = to, .num_sge = count };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .sg_list = from, .num_sge = count,
		.wr.rdma = {
			.remote_addr = (uintptr_t)sinks, .rkey = mr->rkey,
		},
	};
	uint32_t total = fill_list(from, count, source);

	memset(sinks, 0xee, ROOM);
	fill_list(to, count, sinks);
	if (ibv_post_recv(pair.qps[1], &recv, &bad_recv) ||
	    ibv_post_send(pair.qps[0], &wr, &bad))
		fail("a message with %u SGEs is refused", count);
	expect_done(0, total, "a Send of many SGEs");
	expect_done(1, total, "a receive of many SGEs");
	expect_list(count, source, sinks, true, "a message of many SGEs");
	memset(sinks, 0xee, ROOM);
	wr.opcode = IBV_WR_RDMA_WRITE;
	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("a Write with %u SGEs is refused", count);
	expect_done(0, total, "a Write of many SGEs");
	expect_list(count, source, sinks, false, "a Write of many SGEs");
	say("%u SGEs: ok", count);
}

static void run(const char *name)
{
	unsigned int i;

	open_all(name);
	for (i = 0; i < ROUNDS; i++)
		run_round(i);
	try_too_many();
	try_most_sges();
	by_hand_free(&pair);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	by_hand_close(&adapter);
	say("%u Reads: ok", ROUNDS * LISTS);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-reads", help, run);
}
