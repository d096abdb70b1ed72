// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rereg-self: a process that connects to itself and reregisters a region in
 * each of the forms of ibv_rereg_mr(): other memory, another PD, other rights,
 * and any two or all three of them. After each, what the peer may do it can, with
 * every byte checked; what it may not do breaks the connection and changes
 * nothing: the old rkey, a right not granted, the PD of no QP. A failure leaves no
 * region. At last the region is reregistered, and deregistered, while the peer writes
 * to it without a pause.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "orders.h"

#define PAGE		4096
#define REGION		(128 << 10)
#define MANY		1000
#define ALL_RIGHTS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)
#define ALL_FLAGS	(IBV_REREG_MR_CHANGE_TRANSLATION | \
			 IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

static const char help[] =
"usage: rereg-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and reregisters\n"
"memory, checking every byte.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -n, --number N        reregistrations of each kind (default 20)\n"
"  -m, --too-many PAGES  the adapter has not so many (default: not tried)\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "number", required_argument, NULL, 'n' },
	{ "too-many", required_argument, NULL, 'm' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The two pieces of memory that the region is moved between. */
struct memory {
	uint8_t *start;
	uint8_t *expected;
	uint64_t length;
};

static struct owner owner;
static struct memory memories[2];
static struct ibv_pd *pds[2];	/* the first is that of the QP */
static struct ibv_mr *mr;
static unsigned int seed = 1;
static uint32_t connections;
static uint32_t too_many;	/* pages; 0: not tried */

/* What the region is now. */
static int memory_now, pd_now, rights_now = ALL_RIGHTS;

static bool granted(int right)
{
	return pd_now == 0 && (rights_now & right);
}

static struct target whole(uint32_t rkey)
{
	return (struct target) {
		.addr = rights_now & IBV_ACCESS_ZERO_BASED ?
			0 : (uintptr_t)memories[memory_now].start,
		.length = memories[memory_now].length,
		.rkey = rkey,
	};
}

/* ---------------------------------------------------------------- checks */

static void check_memories(const char *when)
{
	const struct memory *m;
	uint64_t i;

	for (m = memories; m < memories + 2; m++)
		for (i = 0; i < m->length; i++)
			if (m->start[i] != m->expected[i])
				fail("%s: byte %llu of memory %d is 0x%02x, not 0x%02x",
				     when, (unsigned long long)i,
				     (int)(m - memories), m->start[i],
				     m->expected[i]);
}

static void refused(void (*order)(struct owner *, const struct target *),
		    const struct target *target, const char *what)
{
	order(&owner, target);
	check_memories(what);
	owner_reconnect(&owner);
	connections++;
}

static void check_write(const struct target *target)
{
	struct memory *m = &memories[memory_now];
	uint32_t round = rand_r(&seed), i;

	if (!granted(IBV_ACCESS_REMOTE_WRITE)) {
		refused(order_refused_write, target, "a Write not granted");
		return;
	}
	if (!granted(IBV_ACCESS_REMOTE_READ))
		return;		/* the transfer reads back what it wrote */
	for (i = 0; i < m->length; i++)
		m->expected[i] = pattern(round, i);
	order_transfer(&owner, target, round, false);
	check_memories("after a transfer");
}

static void check_read(const struct target *target)
{
	if (granted(IBV_ACCESS_REMOTE_READ))
		order_read(&owner, target);
	else
		refused(order_refused_read, target, "a Read not granted");
}

/* -------------------------------------------------------- reregistration */

static const int rights[] = {
	ALL_RIGHTS,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	IBV_ACCESS_REMOTE_READ,
	0,
	ALL_RIGHTS | IBV_ACCESS_ZERO_BASED,
};

#define NUMBER_OF_RIGHTS (sizeof(rights) / sizeof(rights[0]))

static void reregister(int flags)
{
	struct memory *m;
	int ret;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		memory_now = !memory_now;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		pd_now = !pd_now;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		rights_now = rights[rand_r(&seed) % NUMBER_OF_RIGHTS];
	m = &memories[memory_now];
	/* The library takes no rights unless they are to change. */
	ret = ibv_rereg_mr(mr, flags, pds[pd_now], m->start, m->length,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? rights_now : 0);
	if (ret)
		fail("ibv_rereg_mr with flags %d: %d (%m)", flags, ret);
}

/* Peers know the rkey, and it is good for what the new rights allow. */
static bool keeps_rkey(int flags)
{
	return flags == IBV_REREG_MR_CHANGE_ACCESS;
}

/* Where the region would begin if its octets were counted from elsewhere. */
static struct target other_base(void)
{
	struct target target = whole(mr->rkey);

	target.addr = target.addr ? 0 : (uintptr_t)memories[memory_now].start;
	return target;
}

static void run_form(int flags, uint32_t times)
{
	struct target stale, target, other;
	uint32_t i;

	for (i = 0; i < times; i++) {
		stale = whole(mr->rkey);
		reregister(flags);
		if ((mr->rkey == stale.rkey) != keeps_rkey(flags))
			fail("ibv_rereg_mr with flags %d: rkey 0x%x, before 0x%x",
			     flags, mr->rkey, stale.rkey);
		target = whole(mr->rkey);
		check_write(&target);
		check_read(&target);
		if (i % 4 == 0 && !keeps_rkey(flags))
			refused(order_refused_write, &stale, "the old rkey");
		other = other_base();
		if (i % 4 == 1)
			refused(order_refused_write, &other, "another base");
	}
	say("flags %d: %u reregistrations, %u connections so far", flags,
	    times, connections);
}

/* To where any peer can write and read. */
static void open_all(void)
{
	struct memory *m = &memories[memory_now = 0];

	rights_now = ALL_RIGHTS;
	pd_now = 0;
	if (ibv_rereg_mr(mr, ALL_FLAGS, pds[0], m->start, m->length,
			 ALL_RIGHTS))
		fail("ibv_rereg_mr of everything: %m");
}

static void fill(struct memory *m, uint8_t byte)
{
	memset(m->start, byte, m->length);
	memset(m->expected, byte, m->length);
}

static void await_byte(const struct memory *m, uint8_t byte)
{
	double end = now() + time_limit;

	while (*(volatile uint8_t *)m->start != byte)
		if (now() > end)
			fail("no Write has come within %g s", time_limit);
}

/* Until the peer's Writes of round i, which do not end, have reached the region. */
static void await_endless_write(struct memory *m, uint32_t i)
{
	struct target target;

	open_all();
	fill(m, ~pattern(i, 0));
	target = whole(mr->rkey);
	order_endless_write(&owner, &target, i);
	await_byte(m, pattern(i, 0));
}

/* When ibv_rereg_mr() has returned, nothing comes through the old rkey. */
static void reregister_while_written(uint32_t times)
{
	struct memory *m = &memories[0];
	uint32_t i;
	int flags;

	for (i = 0; i < times; i++) {
		await_endless_write(m, i);
		flags = 1 + i % ALL_FLAGS;
		reregister(keeps_rkey(flags) ? ALL_FLAGS : flags);
		fill(m, ~pattern(i, 0));
		owner_await_refusal(&owner);
		check_memories("after reregistration under writes");
		owner_reconnect(&owner);
	}
	say("while written to: %u reregistrations", times);
}

static void register_region(void)
{
	mr = register_memory(owner.ep.id, memories[0].start,
			     memories[0].length, ALL_RIGHTS);
}

/* The same of ibv_dereg_mr(), of a region that was reregistered. */
static void deregister_while_written(uint32_t times)
{
	struct memory *m = &memories[0];
	uint32_t i;

	for (i = 0; i < times; i++) {
		await_endless_write(m, i);
		if (ibv_dereg_mr(mr))
			fail("ibv_dereg_mr under writes: %m");
		fill(m, ~pattern(i, 0));
		owner_await_refusal(&owner);
		check_memories("after deregistration under writes");
		owner_reconnect(&owner);
		register_region();
	}
	say("while written to: %u deregistrations", times);
}

static void expect_pinned(uint64_t kb, const char *when)
{
	uint64_t pinned = pinned_kb();

	if (pinned != kb)
		fail("%s %llu kB are pinned, not %llu", when,
		     (unsigned long long)pinned, (unsigned long long)kb);
}

/* As often as anybody wants, as long as it is no larger than at first. */
static void run_many(void)
{
	const struct memory *m = &memories[0];
	struct target target;
	uint64_t pinned;
	uint32_t i;

	open_all();
	pinned = pinned_kb();
	for (i = 0; i < MANY; i++)
		if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				 m->start, m->length - i % m->length, 0))
			fail("reregistration %u: %m", i);
	open_all();
	expect_pinned(pinned, "after many of them");
	target = whole(mr->rkey);
	check_write(&target);
	say("in a row: %u reregistrations", MANY);
}

/* What was pinned for reading is pinned anew, and is where it was: at an IOVA. */
static void run_at_iova(void)
{
	struct memory *m = &memories[0];
	struct target target;
	uint64_t iova = 0x123456789000 + (uintptr_t)m->start % PAGE;

	open_all();
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
	mr = ibv_reg_mr_iova(pds[0], m->start, m->length, iova,
			     IBV_ACCESS_REMOTE_READ);
	if (!mr)
		fail("ibv_reg_mr_iova: %m");
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			 ALL_RIGHTS))
		fail("all rights at an IOVA: %m");
	target = whole(mr->rkey);
	target.addr = iova;
	check_write(&target);
	check_read(&target);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
	register_region();
	say("at an IOVA: ok");
}

/* ------------------------------------------------------------- failures */

static void fail_to_reregister(void *start, size_t length, int error,
			       const char *what)
{
	int ret = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, start,
			       length, 0);

	if (ret != IBV_REREG_MR_ERR_CMD || errno != error)
		fail("ibv_rereg_mr of %s: %d (%m), not %d (%s)", what, ret,
		     IBV_REREG_MR_ERR_CMD, strerror(error));
}

/* No region is left, new or old, nor is any memory pinned. */
static void run_failure(void *start, size_t length, int error, const char *what)
{
	struct target stale;
	uint64_t pinned;

	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
	pinned = pinned_kb();
	register_region();
	stale = whole(mr->rkey);
	fail_to_reregister(start, length, error, what);
	expect_pinned(pinned, "after a failure");
	refused(order_refused_write, &stale, "the rkey of before");
	fail_to_reregister(memories[0].start, memories[0].length, EINVAL,
			   "a region that has gone");
}

/* One page, again and again: no two of them can be one larger page. */
static void *map_pages(uint32_t pages)
{
	int fd = memfd_create("rereg-self", 0);
	uint8_t *start = mmap(NULL, (size_t)pages * PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t i;

	if (fd < 0 || ftruncate(fd, PAGE) || start == MAP_FAILED)
		fail("memory for %u pages: %m", pages);
	for (i = 0; i < pages; i++)
		if (mmap(start + (size_t)i * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			fail("page %u: %m", i);
	close(fd);
	return start;
}

/*
 * Memory that cannot be had, more than a region may have, more pages than the adapter
 * takes, of which it is the adapter that finds that.
 */
static void run_failures(uint32_t times)
{
	void *hole = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	void *pages = too_many ? map_pages(too_many) : NULL;
	uint32_t i;

	if (hole == MAP_FAILED)
		fail("mmap: %m");
	open_all();
	for (i = 0; i < times; i++) {
		if (pages && i % 4 == 3)
			run_failure(pages, (size_t)too_many * PAGE, ENOMEM,
				    "too many pages");
		else if (i % 2)
			run_failure(memories[0].start, (size_t)1 << 50, EINVAL,
				    "2^50 octets");
		else
			run_failure(hole, REGION, EFAULT,
				    "memory without access");
	}
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr of a region that has gone: %m");
	register_region();
	munmap(hole, REGION);
	if (pages)
		munmap(pages, (size_t)too_many * PAGE);
	say("failures: %u", times);
}

/* ------------------------------------------------------------------ main */

static void set_up(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		/* Of different sizes, neither on a page's boundary. */
		memories[i].length = (i ? 3 : 1) * REGION - 100 * i;
		memories[i].start = (uint8_t *)allocate(memories[i].length +
							PAGE) + 64 * i;
		memories[i].expected = allocate(memories[i].length);
		fill(&memories[i], 0x5a + i);
	}
	pds[0] = owner.ep.id->pd;
	pds[1] = ibv_alloc_pd(owner.ep.id->verbs);
	if (!pds[1])
		fail("ibv_alloc_pd: %m");
	register_region();
}

static void clean_up(void)
{
	open_all();
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
	if (ibv_dealloc_pd(pds[1]))
		fail("ibv_dealloc_pd: %m");
	owner_end(&owner);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	uint32_t times = 20;
	int c, flags;

	program = "rereg-self";
	while ((c = getopt_long(argc, argv, "p:n:m:t:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			port = optarg;
			break;
		case 'n':
			times = parse_number(optarg, "--number", 1000000);
			break;
		case 'm':
			too_many = parse_number(optarg, "--too-many", 60000);
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

	owner_start(&owner, argv[optind], port);
	set_up();
	for (flags = 1; flags <= ALL_FLAGS; flags++)
		run_form(flags, times);
	run_many();
	run_at_iova();
	run_failures(times);
	reregister_while_written(times);
	deregister_while_written(times);
	clean_up();
	say("rereg: ok");
	return 0;
}
