// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * region-self: a process that connects to itself and registers memory in every
 * way there is: small and huge pages, odd offsets, an IOVA of its own choice,
 * zero based, a dma-buf. The peer writes to and reads from random parts, the
 * first and the last bytes among them; each byte there, and around it, is
 * checked. In the end the region is deregistered, and its rkey is of no use. Then
 * many small regions, at all offsets in a page.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "orders.h"

#define HUGE_PAGE	(2ull << 20)
#define SMALL_PAGE	4096
#define SMALL_REGIONS	300
#define GUARD		4096	/* bytes checked on either side of a part */
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)

static const char help[] =
"usage: region-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and writes and\n"
"reads through memory regions of all kinds, checking the bytes.\n"
"  -k, --kind NAME       only this kind, such as \"huge pages, odd\"\n"
"  -S, --size SIZE       of each region (default 64M), a multiple of 2M\n"
"  -n, --number N        parts of each that are used (default 20)\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "kind", required_argument, NULL, 'k' },
	{ "size", required_argument, NULL, 'S' },
	{ "number", required_argument, NULL, 'n' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct owner owner;
static uint64_t size = 64 << 20;
static uint32_t parts = 20;
static unsigned int seed;

/* Memory of this process, and the part of it that is registered. */
struct memory {
	uint8_t *mapped;
	uint8_t *start;
	uint64_t length;
	int fd;			/* what a dma-buf is made of; else -1 */
};

struct kind {
	const char *name;
	void (*allocate)(struct memory *memory);
	/* *to becomes the TO of the first byte. */
	struct ibv_mr *(*register_memory)(const struct memory *memory,
					  uint64_t *to);
};

/* ---------------------------------------------------------------- memory */

static void map(struct memory *memory, int flags, int fd)
{
	memory->mapped = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
			      flags, fd, 0);
	if (memory->mapped == MAP_FAILED)
		fail("mmap of %llu bytes: %m",
		     (unsigned long long)(size + HUGE_PAGE));
	memory->start = memory->mapped;
	memory->length = size;
	memory->fd = fd;
}

static void small_pages(struct memory *memory)
{
	map(memory, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (madvise(memory->mapped, size + HUGE_PAGE, MADV_NOHUGEPAGE))
		fail("madvise: %m");
}

static void huge_pages(struct memory *memory)
{
	map(memory, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
}

/* Neither the first byte nor the end at a page's boundary. */
static void make_odd(struct memory *memory)
{
	memory->start += 1235;
	memory->length -= 7777;
}

static void odd_small_pages(struct memory *memory)
{
	small_pages(memory);
	make_odd(memory);
}

static void odd_huge_pages(struct memory *memory)
{
	huge_pages(memory);
	make_odd(memory);
}

static void shared_file(struct memory *memory)
{
	int fd = memfd_create("region-self", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, size + HUGE_PAGE))
		fail("memfd_create: %m");
	map(memory, MAP_SHARED, fd);
}

static void release(struct memory *memory)
{
	munmap(memory->mapped, size + HUGE_PAGE);
	if (memory->fd >= 0)
		close(memory->fd);
}

/* ---------------------------------------------------------- registration */

static struct ibv_pd *pd(void)
{
	return owner.ep.id->pd;
}

static struct ibv_mr *as_it_is(const struct memory *memory, uint64_t *to)
{
	*to = (uintptr_t)memory->start;
	return ibv_reg_mr(pd(), memory->start, memory->length, ACCESS);
}

/* The core wants the IOVA at the same place in a page. */
static struct ibv_mr *at_iova(const struct memory *memory, uint64_t *to)
{
	*to = 0x123456789000 + (uintptr_t)memory->start % 4096;
	return ibv_reg_mr_iova(pd(), memory->start, memory->length, *to,
			       ACCESS);
}

/* TO has 64 bits: a region that crosses 2^32, and one that ends with the last. */
static struct ibv_mr *across_4_gib(const struct memory *memory, uint64_t *to)
{
	*to = (1ull << 32) - HUGE_PAGE + (uintptr_t)memory->start % HUGE_PAGE;
	return ibv_reg_mr_iova(pd(), memory->start, memory->length, *to,
			       ACCESS);
}

static struct ibv_mr *at_the_top(const struct memory *memory, uint64_t *to)
{
	*to = 0 - (size + HUGE_PAGE) + (uintptr_t)memory->start % HUGE_PAGE;
	return ibv_reg_mr_iova(pd(), memory->start, memory->length, *to,
			       ACCESS);
}

static struct ibv_mr *at_iova_0(const struct memory *memory, uint64_t *to)
{
	*to = 0;
	return ibv_reg_mr_iova(pd(), memory->start, memory->length, *to,
			       ACCESS);
}

static struct ibv_mr *zero_based(const struct memory *memory, uint64_t *to)
{
	*to = 0;
	return ibv_reg_mr(pd(), memory->start, memory->length,
			  ACCESS | IBV_ACCESS_ZERO_BASED);
}

static int make_dmabuf(const struct memory *memory)
{
	struct udmabuf_create create = {
		.memfd = memory->fd,
		.size = size,
	};
	int device = open("/dev/udmabuf", O_RDWR), fd;

	if (device < 0)
		fail("/dev/udmabuf: %m");
	/* Its pages must not go away. */
	if (fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK))
		fail("sealing: %m");
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		fail("UDMABUF_CREATE: %m");
	close(device);
	return fd;
}

static struct ibv_mr *dmabuf(const struct memory *memory, uint64_t *to)
{
	int fd = make_dmabuf(memory);
	struct ibv_mr *mr;

	*to = 0x40000000;
	mr = ibv_reg_dmabuf_mr(pd(), 0, memory->length, *to, fd, ACCESS);
	close(fd);	/* the region holds on to it */
	return mr;
}

static const struct kind kinds[] = {
	{ "small pages", small_pages, as_it_is },
	{ "huge pages", huge_pages, as_it_is },
	{ "small pages, odd", odd_small_pages, as_it_is },
	{ "huge pages, odd", odd_huge_pages, as_it_is },
	{ "at an IOVA", odd_huge_pages, at_iova },
	{ "across 4 GiB", odd_huge_pages, across_4_gib },
	{ "at the top", odd_small_pages, at_the_top },
	{ "at IOVA 0", huge_pages, at_iova_0 },
	{ "zero based", odd_huge_pages, zero_based },
	{ "shared memory", shared_file, as_it_is },
	{ "dma-buf", shared_file, dmabuf },
};

/* ----------------------------------------------------------------- parts */

/* Offset and length of what is used; the first two are the two ends. */
static void choose(const struct memory *memory, uint32_t part,
		   uint64_t *offset, uint32_t *length)
{
	*length = 1 + rand_r(&seed) % ORDER_MAX;
	if (part == 0)
		*offset = 0;
	else if (part == 1)
		*offset = memory->length - *length;
	else
		*offset = ((uint64_t)rand_r(&seed) << 16 ^ rand_r(&seed)) %
			  (memory->length - *length + 1);
}

static void expect_bytes(const uint8_t *at, const uint8_t *expected,
			 uint64_t length, const char *what)
{
	uint64_t i;

	if (!memcmp(at, expected, length))
		return;
	for (i = 0; at[i] == expected[i]; i++)
		;
	fail("%s: byte %llu is 0x%02x, not 0x%02x", what,
	     (unsigned long long)i, at[i], expected[i]);
}

/* What is around the part: as much as is mapped, up to GUARD. */
static void look_around(const struct memory *memory, uint64_t offset,
			uint32_t length, uint8_t *before, uint8_t *after,
			uint64_t *room_before, uint64_t *room_after)
{
	uint8_t *part = memory->start + offset;
	uint64_t left = part - memory->mapped;
	uint64_t right = memory->mapped + size - part - length;

	*room_before = left < GUARD ? left : GUARD;
	*room_after = right < GUARD ? right : GUARD;
	memcpy(before, part - *room_before, *room_before);
	memcpy(after, part + length, *room_after);
}

static void use_part(const struct memory *memory, const struct target *whole,
		     uint32_t part)
{
	static uint8_t expected[ORDER_MAX], before[GUARD], after[GUARD];
	uint64_t offset, room_before, room_after;
	struct target target = *whole;
	uint32_t length, i;

	choose(memory, part, &offset, &length);
	target.addr += offset;
	target.length = length;
	look_around(memory, offset, length, before, after, &room_before,
		    &room_after);
	for (i = 0; i < length; i++)
		expected[i] = pattern(part, i);
	order_transfer(&owner, &target, part, false);
	expect_bytes(memory->start + offset, expected, length, "inside");
	expect_bytes(memory->start + offset - room_before, before,
		     room_before, "before");
	expect_bytes(memory->start + offset + length, after, room_after,
		     "behind");
}

/* One byte more than there is, at either end. */
static void refuse_outside(const struct target *whole, uint64_t length)
{
	struct target target = *whole;

	target.length = 2;
	target.addr = whole->addr + length - 1;
	order_refused_write(&owner, &target);
	owner_reconnect(&owner);
	target.addr = whole->addr - 1;
	order_refused_read(&owner, &target);
	owner_reconnect(&owner);
}

static void refuse_deregistered(const struct memory *memory,
				const struct target *whole)
{
	uint8_t first[64];
	struct target target = *whole;

	target.length = sizeof(first);
	memcpy(first, memory->start, sizeof(first));
	order_refused_write(&owner, &target);
	expect_bytes(memory->start, first, sizeof(first), "deregistered");
	owner_reconnect(&owner);
	order_refused_read(&owner, &target);
	owner_reconnect(&owner);
}

static void run_kind(const struct kind *kind)
{
	struct memory memory;
	struct target whole;
	struct ibv_mr *mr;
	double start;
	uint32_t i;

	kind->allocate(&memory);
	memset(memory.mapped, 0xa5, size);
	start = now();
	mr = kind->register_memory(&memory, &whole.addr);
	if (!mr)
		fail("%s: registration: %m", kind->name);
	say("%s: %llu bytes registered in %.1f ms", kind->name,
	    (unsigned long long)memory.length, (now() - start) * 1000);
	whole.rkey = mr->rkey;
	for (i = 0; i < parts; i++)
		use_part(&memory, &whole, i);
	refuse_outside(&whole, memory.length);
	if (ibv_dereg_mr(mr))
		fail("%s: ibv_dereg_mr: %m", kind->name);
	refuse_deregistered(&memory, &whole);
	release(&memory);
}

/* ----------------------------------------------------------- all offsets */

/* A small region at any offset in a page, of any length. */
static void try_small(const struct memory *memory, uint32_t number)
{
	static uint8_t expected[4 * SMALL_PAGE];
	struct memory small = { .mapped = memory->mapped };
	struct target target;
	struct ibv_mr *mr;
	uint32_t i;

	small.start = memory->mapped + SMALL_PAGE +
		      (number * 37 + 1) % SMALL_PAGE;
	small.length = 1 + rand_r(&seed) % (3 * SMALL_PAGE);
	memset(memory->mapped, 0xa5, 6 * SMALL_PAGE);
	mr = as_it_is(&small, &target.addr);
	if (!mr)
		fail("%llu octets at %p: %m", (unsigned long long)small.length,
		     (void *)small.start);
	target.rkey = mr->rkey;
	target.length = small.length;
	order_transfer(&owner, &target, number, false);
	memset(expected, 0xa5, sizeof(expected));
	expect_bytes(small.start - SMALL_PAGE, expected, SMALL_PAGE, "before");
	expect_bytes(small.start + small.length, expected, SMALL_PAGE,
		     "behind");
	for (i = 0; i < small.length; i++)
		expected[i] = pattern(number, i);
	expect_bytes(small.start, expected, small.length, "inside");
	if (number % 50 == 0)
		refuse_outside(&target, small.length);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %m");
}

/* An IOVA has the place in a page that the memory has. */
static void refuse_other_offset(const struct memory *memory)
{
	if (ibv_reg_mr_iova(pd(), memory->mapped + 1, SMALL_PAGE, 2 * SMALL_PAGE,
			    ACCESS) || errno != EINVAL)
		fail("an IOVA at another offset: not EINVAL but %m");
}

static void run_small(uint32_t number)
{
	struct memory memory;
	uint32_t i;

	small_pages(&memory);
	for (i = 0; i < number; i++)
		try_small(&memory, i);
	refuse_other_offset(&memory);
	release(&memory);
	say("%u small regions: ok", number);
}

/* All of them, if there is no name. */
static void run_kinds(const char *name)
{
	bool found = false;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (name && strcmp(name, kinds[i].name))
			continue;
		found = true;
		run_kind(&kinds[i]);
	}
	if (!found)
		fail("there is no kind \"%s\"", name);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT, *kind = NULL;
	int c;

	program = "region-self";
	while ((c = getopt_long(argc, argv, "k:S:n:p:t:h", options,
				NULL)) != -1) {
		switch (c) {
		case 'k':
			kind = optarg;
			break;
		case 'S':
			size = parse_size(optarg, "--size");
			break;
		case 'n':
			parts = parse_number(optarg, "--number", 1000000);
			break;
		case 'p':
			port = optarg;
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
	if (size < 2 * ORDER_MAX || size % HUGE_PAGE) {
		fprintf(stderr, "%s: --size: not a multiple of 2M\n", program);
		return USAGE;
	}

	owner_start(&owner, argv[optind], port);
	run_kinds(kind);
	if (!kind)
		run_small(SMALL_REGIONS);
	owner_end(&owner);
	say("regions: ok");
	return 0;
}
