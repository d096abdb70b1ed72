// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * memory-self: a process that registers memory of its own and reaches it
 * through the adapter, by a connection to itself.
 *
 * What it may not write the adapter may not write for it. What is registered
 * stays where it is, whatever the kernel is asked to do with it, for as long
 * as one registration lasts; and it counts against the limit of locked memory,
 * as queues do. Wants to be root, to see where pages are.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define REGION		(1 << 20)
#define MANY_CQES	65536	/* 2 MiB */
#define REMOTE		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)

static const char help[] =
"usage: memory-self [options] ADDRESS\n"
"Connects to itself over ADDRESS, one of this machine's own, and checks what\n"
"memory can be registered and that it stays where it is.\n"
"  -k, --no-keys         without the thousands of STags that nobody shall guess\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong data or a failure, 2 usage.\n";

static const struct option options[] = {
	{ "no-keys", no_argument, NULL, 'k' },
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct endpoint ep;
static uint8_t *data;		/* what the other end writes and reads */
static struct ibv_mr *data_mr;

static void *serve(void *listener)
{
	struct endpoint server;

	take_request(listener, &server, NULL, 0);
	make_qp(&server);
	accept_on(&server);
	wait_disconnect(&server);
	return NULL;
}

/* ------------------------------------------------------- the other end */

/* Both ends have the PD that rdma_cm gives each device. */
static void move(enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
		 void *addr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)data, length, data_mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)addr,
			.rkey = mr->rkey,
		},
	};
	struct ibv_wc wc;
	int ret = post_work_request(ep.id->qp, &wr);

	if (ret)
		fail("posting: %s", strerror(ret));
	expect_completion(ep.send_cq, ep.send_channel, &wc,
			  opcode == IBV_WR_RDMA_READ ? "Read" : "Write");
}

static void fill(uint8_t *at, uint32_t length, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < length; i++)
		at[i] = (i * 2654435761u + seed * 40503u) >> 13;
}

/* The adapter sees what the process sees, both ways. */
static void check_same(const struct ibv_mr *mr, uint8_t *region,
		       const char *when)
{
	static uint32_t seed;

	fill(data, REGION, ++seed);
	move(IBV_WR_RDMA_WRITE, mr, region, REGION);
	/* A Read of the same stream comes behind the Write. */
	memset(data, 0, REGION);
	move(IBV_WR_RDMA_READ, mr, region, REGION);
	if (memcmp(data, region, REGION))
		fail("%s: what was written is elsewhere", when);
	fill(region, REGION, ++seed);
	move(IBV_WR_RDMA_READ, mr, region, REGION);
	if (memcmp(data, region, REGION))
		fail("%s: something else is read", when);
}

/* ----------------------------------------------------------- the kernel */

static uint64_t page_frame(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (fd < 0 ||
	    pread(fd, &entry, sizeof(entry),
		  (uintptr_t)addr / getpagesize() * sizeof(entry)) !=
		    sizeof(entry))
		fail("/proc/self/pagemap: %s", strerror(errno));
	close(fd);
	return entry >> 63 ? entry & ((1ull << 55) - 1) : 0;
}

static void tell_kernel(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0)
		return;		/* not every kernel has it */
	if (write(fd, text, strlen(text)) < 0)
		say("%s: %s", file, strerror(errno));
	close(fd);
}

/* Everything that makes a kernel move or drop pages. */
static void press(uint8_t *region)
{
	/* May be refused for pages that are pinned: that is as good. */
	madvise(region, REGION, MADV_COLD);
	madvise(region, REGION, MADV_PAGEOUT);
	tell_kernel("/proc/sys/vm/compact_memory", "1");
	tell_kernel("/proc/sys/vm/drop_caches", "3");
}

static void *map(int protection)
{
	void *region = mmap(NULL, REGION, protection,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (region == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return region;
}

struct frames {
	uint64_t frame[REGION / 4096];
};

static void look(uint8_t *region, struct frames *f)
{
	size_t i;

	for (i = 0; i < REGION / 4096; i++)
		f->frame[i] = page_frame(region + i * 4096);
}

static void check_in_place(uint8_t *region, const struct frames *before,
			   const char *when)
{
	struct frames after;
	size_t i;

	look(region, &after);
	for (i = 0; i < REGION / 4096; i++)
		if (!before->frame[i] || after.frame[i] != before->frame[i])
			fail("%s: page %zu was at frame %#llx, is at %#llx",
			     when, i, (unsigned long long)before->frame[i],
			     (unsigned long long)after.frame[i]);
}

/* ------------------------------------------------------------ the tests */

/* A region for all rights keeps them, so it cannot move to memory for reading alone. */
static void refuse_move_to(uint8_t *read_only)
{
	uint8_t *region = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = register_memory(ep.id, region, REGION, REMOTE);

	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, read_only,
			 REGION, 0) != IBV_REREG_MR_ERR_CMD || errno != EFAULT)
		fail("a region for writing moved to read-only memory: %s",
		     strerror(errno));
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	munmap(region, REGION);
}

static void read_only_memory(void)
{
	uint8_t *region = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	fill(region, REGION, 99);
	if (mprotect(region, REGION, PROT_READ))
		fail("mprotect: %s", strerror(errno));
	mr = ibv_reg_mr(ep.id->pd, region, REGION, IBV_ACCESS_LOCAL_WRITE);
	if (mr)
		fail("memory that cannot be written was registered for it");
	say("LOCAL_WRITE to read-only memory: %s", strerror(errno));
	mr = ibv_reg_mr(ep.id->pd, region, REGION, REMOTE);
	if (mr)
		fail("memory that cannot be written was registered for it");
	mr = register_memory(ep.id, region, REGION, IBV_ACCESS_REMOTE_READ);
	move(IBV_WR_RDMA_READ, mr, region, REGION);
	if (memcmp(data, region, REGION))
		fail("something else is read from read-only memory");
	/* Nor is what is registered already for reading. */
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			 IBV_ACCESS_LOCAL_WRITE) != IBV_REREG_MR_ERR_CMD)
		fail("memory that cannot be written was reregistered for it");
	say("LOCAL_WRITE later: %s", strerror(errno));
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	refuse_move_to(region);
	munmap(region, REGION);
	say("read-only memory: ok");
	if (ibv_reg_mr(ep.id->pd, region, REGION, REMOTE) || errno != EFAULT)
		fail("memory that is not there was registered: %s",
		     strerror(errno));
}

#define KEYS 1000
#define PAGE 4096

/* No step from one number of @bits to the next comes often, by its highest octet. */
static void expect_no_stride(const uint32_t *numbers, unsigned int bits,
			     const char *what)
{
	static unsigned int steps[1 << 8];
	unsigned int i, step;

	memset(steps, 0, sizeof(steps));
	for (i = 1; i < KEYS; i++) {
		step = (numbers[i] - numbers[i - 1]) >> (bits - 8) & 0xff;
		if (++steps[step] > KEYS / 20)
			fail("%s goes on by the same step %u times", what,
			     steps[step]);
	}
}

/* A peer does not guess them, from others or from those of before (R8.1.1-8). */
static void hard_to_guess(void)
{
	static uint32_t keys[KEYS], indices[KEYS];
	struct ibv_mr *mrs[KEYS];
	unsigned int i, repeated = 0;
	uint32_t last, parts = 0;

	for (i = 0; i < KEYS; i++) {
		mrs[i] = register_memory(ep.id, data, PAGE,
					 IBV_ACCESS_LOCAL_WRITE);
		keys[i] = mrs[i]->rkey & 0xff;
		indices[i] = mrs[i]->rkey >> 8;
		parts |= 1 << (mrs[i]->rkey >> 28);
	}
	expect_no_stride(keys, 8, "the key");
	expect_no_stride(indices, 24, "the index");
	if (parts != 0xffff)
		fail("%u STags are of the sixteenths 0x%x of the range", KEYS,
		     parts);
	for (i = 0; i < KEYS; i++) {
		last = mrs[i]->rkey;
		if (ibv_dereg_mr(mrs[i]))
			fail("ibv_dereg_mr: %s", strerror(errno));
		mrs[i] = register_memory(ep.id, data, PAGE,
					 IBV_ACCESS_LOCAL_WRITE);
		repeated += mrs[i]->rkey >> 8 == last >> 8;
	}
	/* Each by chance, once in 2^24. */
	if (repeated > 2)
		fail("%u of %u indices are used again at once", repeated, KEYS);
	for (i = 0; i < KEYS; i++)
		if (ibv_dereg_mr(mrs[i]))
			fail("ibv_dereg_mr: %s", strerror(errno));
	say("%u STags that are hard to guess: ok", KEYS);
}

/* A child has its own copy; the parent keeps the pages, and writes to them. */
static void check_fork(struct ibv_mr *mr, uint8_t *region,
		       const struct frames *before)
{
	int to_child[2], status;
	char octet = 0;
	pid_t child;

	if (pipe(to_child))
		fail("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (!child) {
		close(to_child[1]);
		memset(region, 0x11, REGION);
		if (read(to_child[0], &octet, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(to_child[0]);
	check_same(mr, region, "with a child");
	check_in_place(region, before, "with a child");
	close(to_child[1]);
	if (waitpid(child, &status, 0) != child || status)
		fail("the child ended with status %d", status);
	check_same(mr, region, "after a child");
}

static void pinned_memory(void)
{
	uint8_t *region = map(PROT_READ | PROT_WRITE);
	uint64_t pinned = pinned_kb();
	struct frames before;
	struct ibv_mr *mr;
	int i;

	fill(region, REGION, 5);
	mr = register_memory(ep.id, region, REGION, REMOTE);
	if (pinned_kb() - pinned != REGION >> 10)
		fail("%llu kB are accounted for a region of %u",
		     (unsigned long long)(pinned_kb() - pinned),
		     REGION >> 10);
	look(region, &before);
	for (i = 0; i < 3; i++) {
		press(region);
		check_in_place(region, &before, "under pressure");
		check_same(mr, region, "under pressure");
	}
	check_fork(mr, region, &before);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	if (pinned_kb() != pinned)
		fail("pages stay accounted after deregistration");
	munmap(region, REGION);
	say("pinned memory: ok");
}

static struct ibv_pd *own_pd(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;

	context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	if (!context)
		fail("there is no RDMA device");
	pd = ibv_alloc_pd(context);
	if (!pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	return pd;
}

/* Making a CQ has to end with the error due, or, if that is 0, well. */
static void expect_cq(struct ibv_context *context, int entries, int due)
{
	struct ibv_cq *cq = ibv_create_cq(context, entries, NULL, NULL, 0);

	if ((cq ? 0 : errno) != due)
		fail("a CQ of %d entries, user %u: %s", entries, geteuid(),
		     cq ? "made" : strerror(errno));
	if (cq && ibv_destroy_cq(cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
}

/*
 * An ordinary user registers no more memory than the limit of locked memory; queues
 * count, too.
 */
static void obey_limit(void)
{
	struct rlimit limit = { REGION / 2, REGION / 2 };
	uint8_t *region = map(PROT_READ | PROT_WRITE);
	struct ibv_pd *pd = own_pd();
	struct ibv_mr *mr;

	mr = ibv_reg_mr(pd, region, REGION, REMOTE);
	if (!mr || ibv_dereg_mr(mr))
		fail("as root: %s", strerror(errno));
	expect_cq(pd->context, MANY_CQES, 0);
	if (setrlimit(RLIMIT_MEMLOCK, &limit) || seteuid(65534))
		fail("becoming an ordinary user: %s", strerror(errno));
	mr = ibv_reg_mr(pd, region, REGION, REMOTE);
	if (mr || errno != ENOMEM)
		fail("beyond the limit of locked memory: %s",
		     mr ? "registered" : strerror(errno));
	mr = ibv_reg_mr(pd, region, REGION / 4, REMOTE);
	if (!mr || ibv_dereg_mr(mr))
		fail("within the limit of locked memory: %s",
		     strerror(errno));
	expect_cq(pd->context, MANY_CQES, ENOMEM);
	expect_cq(pd->context, 16, 0);
	_exit(0);
}

/* In a process of its own: rdma_cm does not like a change of user. */
static void locked_memory_limit(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (!child)
		obey_limit();
	if (waitpid(child, &status, 0) != child || status)
		fail("the child ended with status %d", status);
	say("limit of locked memory: ok");
}

/* One registration goes; the pages are still the other's. */
static void registered_twice(void)
{
	uint8_t *region = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *one, *two;
	struct frames before;

	fill(region, REGION, 6);
	one = register_memory(ep.id, region, REGION, REMOTE);
	two = register_memory(ep.id, region, REGION, REMOTE);
	if (one->rkey >> 8 == two->rkey >> 8)
		fail("both registrations have one STag");
	look(region, &before);
	check_same(one, region, "both there");
	if (ibv_dereg_mr(one))
		fail("ibv_dereg_mr: %s", strerror(errno));
	press(region);
	check_in_place(region, &before, "after the first has gone");
	check_same(two, region, "after the first has gone");
	if (ibv_dereg_mr(two))
		fail("ibv_dereg_mr: %s", strerror(errno));
	munmap(region, REGION);
	say("registered twice: ok");
}

static void run(const char *address, const char *port, bool with_keys)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	pthread_t server;
	int ret;

	locked_memory_limit();
	channel = make_channel();
	listener = listen_at(channel, address, port);
	ret = pthread_create(&server, NULL, serve, channel);
	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_to(&ep, address, port, NULL, 0);
	data = allocate(REGION);
	data_mr = register_memory(ep.id, data, REGION,
				  IBV_ACCESS_LOCAL_WRITE);
	read_only_memory();
	pinned_memory();
	registered_twice();
	if (with_keys)
		hard_to_guess();
	if (ibv_dereg_mr(data_mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	disconnect(&ep);
	pthread_join(server, NULL);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	bool with_keys = true;
	int c;

	program = "memory-self";
	while ((c = getopt_long(argc, argv, "kp:t:h", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			with_keys = false;
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
	run(argv[optind], port, with_keys);
	say("memory: ok");
	return 0;
}
