// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hold-region: registers pages with the rights that it is told, says "held", and keeps
 * them until it is killed
 */

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

static const char help[] =
"usage: hold-region [options] ADAPTER\n"
"Registers memory and waits for its end.\n"
"  -p, --pages N         (default 1)\n"
"  -a, --access BITS     of ibv_reg_mr() (default 1)\n"
"Exit status: 1 wrong, 2 usage; otherwise a signal ends it.\n";

static const struct option options[] = {
	{ "pages", required_argument, NULL, 'p' },
	{ "access", required_argument, NULL, 'a' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void hold(const char *adapter_name, size_t size, int access)
{
	struct by_hand adapter = { 0 };
	void *memory;

	by_hand_open(&adapter, adapter_name);
	memory = aligned_alloc(sysconf(_SC_PAGESIZE), size);
	if (!memory)
		fail("no memory");
	if (!ibv_reg_mr(adapter.pd, memory, size, access))
		fail("ibv_reg_mr: %s", strerror(errno));
	say("held");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	uint64_t pages = 1, access = IBV_ACCESS_LOCAL_WRITE;
	int c;

	program = "hold-region";
	while ((c = getopt_long(argc, argv, "p:a:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			pages = parse_number(optarg, "--pages", 1024);
			break;
		case 'a':
			access = parse_number(optarg, "--access", INT_MAX);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (argc - optind != 1 || !pages)
		fail_usage();
	hold(argv[optind], pages * sysconf(_SC_PAGESIZE), access);
}
