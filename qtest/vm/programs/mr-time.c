// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mr-time: how long registering and deregistering memory takes.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static const char help[] =
"usage: mr-time [options]\n"
"Registers memory that is there already with the first RDMA device, and takes\n"
"the registration back, some times; says the shortest times.\n"
"  -s, --size BYTES      (default 1024M)\n"
"  -n, --number N        (default 3)\n"
"Exit status: 0 all right, 1 a failure, 2 usage.\n";

static const struct option options[] = {
	{ "size", required_argument, NULL, 's' },
	{ "number", required_argument, NULL, 'n' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ)

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	if (!list || !list[0])
		fail("no RDMA device");
	context = ibv_open_device(list[0]);
	if (!context)
		fail("ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return context;
}

/* A kind of registration that all the devices compared know. */
static void measure(struct ibv_pd *pd, char *memory, size_t size,
		    double *registering, double *deregistering)
{
	double start = now(), middle;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, size, ACCESS);

	if (!mr)
		fail("ibv_reg_mr of %zu bytes: %s", size, strerror(errno));
	middle = now();
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr failed");
	if (middle - start < *registering)
		*registering = middle - start;
	if (now() - middle < *deregistering)
		*deregistering = now() - middle;
}

int main(int argc, char **argv)
{
	double registering = 1e9, deregistering = 1e9;
	size_t size = 1024UL << 20;
	uint64_t number = 3;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char *memory;
	int c;

	program = "mr-time";
	while ((c = getopt_long(argc, argv, "s:n:h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			size = parse_size(optarg, "--size");
			break;
		case 'n':
			number = parse_number(optarg, "--number", 1000);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (argc != optind || !size || !number)
		fail_usage();
	context = open_first();
	pd = ibv_alloc_pd(context);
	if (!pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	memory = allocate(size);
	memset(memory, 1, size);	/* all pages are there */
	while (number--)
		measure(pd, memory, size, &registering, &deregistering);
	say("%zu bytes: registered in %.3f ms, deregistered in %.3f ms", size,
	    1000 * registering, 1000 * deregistering);
	return 0;
}
