// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * window-self: a process that connects to itself and reaches its own memory
 * through a memory window, bound anew for each round.
 *
 * The owner binds the window to a random part of a region that grants no remote
 * right itself, tells its peer, and checks every byte of the region after the
 * peer has written and read there. Type 2: the window is invalidated by the
 * owner in one round, by the peer's Send with Invalidate in the next. Type 1:
 * it is unbound in one round, and bound elsewhere as it is in the next. In the
 * end the peer uses stale rkeys: the connection must break each time, the bytes
 * must not change.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orders.h"

static const char help[] =
"usage: window-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and writes and\n"
"reads through a memory window, checking every byte.\n"
"  -T, --type 1|2        of window (default 2)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -n, --number N        rounds (default 1000)\n"
"  -S, --size SIZE       of the region (default 256k, up to 1M)\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "type", required_argument, NULL, 'T' },
	{ "port", required_argument, NULL, 'p' },
	{ "number", required_argument, NULL, 'n' },
	{ "size", required_argument, NULL, 'S' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct owner owner;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static uint8_t *region;
static uint8_t *expected;
static uint64_t region_size = 256 << 10;

/* ------------------------------------------------- what ends a binding */

static void await_send(const char *what)
{
	struct ibv_wc wc;

	expect_completion(owner.ep.send_cq, owner.ep.send_channel, &wc, what);
}

static void post_and_wait(struct ibv_send_wr *wr, const char *what)
{
	struct ibv_send_wr *bad;
	int ret;

	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = ibv_post_send(owner.ep.id->qp, wr, &bad);
	if (ret)
		fail("%s: %s", what, strerror(ret));
	await_send(what);
}

/* Type 1: a bind of no length unbinds. */
static void bind_type_1(uint32_t offset, uint32_t length)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = mr,
			.addr = (uintptr_t)region + offset,
			.length = length,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ,
		},
	};
	int ret = ibv_bind_mw(owner.ep.id->qp, mw, &bind);

	if (ret)
		fail("ibv_bind_mw: %s", strerror(ret));
	await_send("bind");
}

static void bind_type_2(uint32_t offset, uint32_t length)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)region + offset,
				.length = length,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
						   IBV_ACCESS_REMOTE_READ,
			},
		},
	};

	mw->rkey = wr.bind_mw.rkey;
	post_and_wait(&wr, "bind");
}

/* Each bind has the next key, in turn all 256; the index is the window's own. */
static void bind_window(uint32_t offset, uint32_t length)
{
	uint32_t before = mw->rkey;

	if (mw->type == IBV_MW_TYPE_1)
		bind_type_1(offset, length);
	else
		bind_type_2(offset, length);
	if (mw->rkey >> 8 != before >> 8 ||
	    (mw->rkey & 0xff) != ((before + 1) & 0xff))
		fail("rkey 0x%x after 0x%x", mw->rkey, before);
}

static void invalidate_window(void)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = mw->rkey,
	};

	if (mw->type == IBV_MW_TYPE_1)
		bind_type_1(0, 0);
	else
		post_and_wait(&wr, "local invalidate");
}

/* --------------------------------------------------------------- rounds */

static void check_region(const char *when)
{
	uint32_t i;

	if (!memcmp(region, expected, region_size))
		return;
	for (i = 0; region[i] == expected[i]; i++)
		;
	fail("%s: byte %u is 0x%02x, not 0x%02x", when, i, region[i],
	     expected[i]);
}

static void run_round(uint32_t round, unsigned int *random)
{
	bool invalidate = (round & 1) && mw->type == IBV_MW_TYPE_2;
	uint32_t offset = rand_r(random) % region_size;
	struct target target = {
		.addr = (uintptr_t)region + offset,
		.length = 1 + rand_r(random) % (region_size - offset),
	};
	uint32_t i;

	bind_window(offset, target.length);
	target.rkey = mw->rkey;
	for (i = 0; i < target.length; i++)
		expected[offset + i] = pattern(round, i);
	order_transfer(&owner, &target, round, invalidate);
	check_region("after a round");
	if (!(round & 1))
		invalidate_window();
}

/* ------------------------------------------------------------ stale rkeys */

static struct target whole_window(void)
{
	return (struct target) {
		.addr = (uintptr_t)region,
		.length = region_size,
		.rkey = mw->rkey,
	};
}

static void by_invalidation(void)
{
	invalidate_window();
}

static void by_the_peer(void)
{
	struct target target = whole_window();
	uint32_t i;

	for (i = 0; i < region_size; i++)
		expected[i] = pattern(99, i);
	order_transfer(&owner, &target, 99, true);
}

static void by_binding_anew(void)
{
	if (mw->type == IBV_MW_TYPE_2)
		invalidate_window();
	bind_window(0, region_size);
}

static void new_window(enum ibv_mw_type type)
{
	mw = ibv_alloc_mw(owner.ep.id->pd, type);
	if (!mw)
		fail("ibv_alloc_mw: %m");
}

static void by_deallocation(void)
{
	enum ibv_mw_type type = mw->type;

	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw: %m");
	new_window(type);
}

/* A window belongs to the QP it is bound with: here it outlives none. */
static void refuse_stale(void (*end_binding)(void), const char *how, bool read)
{
	enum ibv_mw_type type = mw->type;
	struct target target;

	bind_window(0, region_size);
	target = whole_window();
	/* Refused, it loses nothing: not the end of its connection either. */
	if (type == IBV_MW_TYPE_2 &&
	    ibv_destroy_qp(owner.ep.id->qp) != EBUSY)
		fail("a QP with a window is destroyed, or not refused so");
	end_binding();
	if (read)
		order_refused_read(&owner, &target);
	else
		order_refused_write(&owner, &target);
	check_region(how);
	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw: %m");
	owner_reconnect(&owner);
	new_window(type);
	say("stale after %s: %s refused", how, read ? "Read" : "Write");
}

static void refuse_all_stale(void)
{
	int read;

	for (read = 0; read < 2; read++) {
		refuse_stale(by_invalidation, mw->type == IBV_MW_TYPE_1 ?
			     "unbinding" : "local invalidate", read);
		refuse_stale(by_binding_anew, "binding anew", read);
		refuse_stale(by_deallocation, "deallocation", read);
		if (mw->type == IBV_MW_TYPE_2)
			refuse_stale(by_the_peer, "Send with Invalidate",
				     read);
	}
}

/* ------------------------------------------------------------------ main */

static void set_up(enum ibv_mw_type type)
{
	uint32_t i;

	region = allocate(region_size);
	expected = allocate(region_size);
	for (i = 0; i < region_size; i++)
		region[i] = expected[i] = pattern(77, i);
	mr = register_memory(owner.ep.id, region, region_size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	new_window(type);
}

static void clean_up(void)
{
	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw: %m");
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
	owner_end(&owner);
	free(region);
	free(expected);
}

int main(int argc, char **argv)
{
	uint32_t rounds = 1000, type = 2, i;
	const char *port = DEFAULT_PORT;
	unsigned int random = 1;
	int c;

	program = "window-self";
	while ((c = getopt_long(argc, argv, "T:p:n:S:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 'T':
			type = parse_number(optarg, "--type", 2);
			break;
		case 'p':
			port = optarg;
			break;
		case 'n':
			rounds = parse_number(optarg, "--number", 100000000);
			break;
		case 'S':
			region_size = parse_size(optarg, "--size");
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
	if (region_size < 1 || region_size > ORDER_MAX) {
		fprintf(stderr, "%s: --size: 1 to %u\n", program, ORDER_MAX);
		return USAGE;
	}

	owner_start(&owner, argv[optind], port);
	set_up(type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	for (i = 0; i < rounds; i++)
		run_round(i, &random);
	refuse_all_stale();
	clean_up();
	say("windows: ok");
	return 0;
}
