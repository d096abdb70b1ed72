// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-quota: a process whose control group may have few objects and one open
 * adapter: beyond that nothing of any kind is made, what there is goes on, and what is
 * destroyed makes room. Who is in another group is not concerned.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define OBJECTS	20
#define DEPTH	4
#define SIZE	4096
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-quota [options] ADAPTER\n"
"Makes as many objects as its control group may have of the adapter. For root.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_cq *cqs[OBJECTS];
static unsigned int made;
static uint8_t *memory;

/* -------------------------------------------------------- control groups */

static char top[] = "/tmp/quota-XXXXXX";
static char group[40];

static void write_line(const char *directory, const char *name, const char *line)
{
	char path[80];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file || fprintf(file, "%s\n", line) < 0 || fclose(file))
		fail("%s to %s: %s", line, path, strerror(errno));
}

static void make_group(const char *name)
{
	char line[100];

	if (!mkdtemp(top) || mount("none", top, "cgroup2", 0, NULL))
		fail("mounting cgroup2: %s", strerror(errno));
	snprintf(group, sizeof(group), "%s/few", top);
	write_line(top, "cgroup.subtree_control", "+rdma");
	if (mkdir(group, 0700))
		fail("%s: %s", group, strerror(errno));
	snprintf(line, sizeof(line), "%s hca_handle=1 hca_object=%d", name,
		 OBJECTS);
	write_line(group, "rdma.max", line);
	write_line(group, "cgroup.procs", "0");
}

static void leave_group(void)
{
	write_line(top, "cgroup.procs", "0");
}

/*
 * Without limits first: Linux 6.12 keeps the record of a group's limits on the device's
 * list, though the group that it points to is freed (rdmacg_unregister_device()).
 */
static void remove_group(const char *name)
{
	char line[100];

	snprintf(line, sizeof(line), "%s hca_handle=max hca_object=max", name);
	write_line(group, "rdma.max", line);
	if (rmdir(group) || umount(top) || rmdir(top))
		fail("removing %s: %s", group, strerror(errno));
}

/* ---------------------------------------------------------------- objects */

static struct ibv_cq *try_cq(void)
{
	errno = 0;
	return ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0);
}

static void refuse(const void *object, const char *what)
{
	if (object || errno != EAGAIN)
		fail("%s beyond the group's share: %s", what,
		     object ? "made" : strerror(errno));
}

/* One of each kind. */
static void refuse_all(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr qp = {
		.send_cq = cqs[0], .recv_cq = cqs[0],
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	refuse(try_cq(), "a CQ");
	refuse(ibv_alloc_pd(adapter.context), "a PD");
	refuse(ibv_create_qp(adapter.pd, &qp), "a QP");
	refuse(ibv_create_srq(adapter.pd, &srq), "an S-RQ");
	refuse(ibv_reg_mr(adapter.pd, memory, SIZE, RIGHTS), "a region");
	refuse(ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2), "a window");
}

static void destroy_cq(void)
{
	if (ibv_destroy_cq(cqs[--made]))
		fail("ibv_destroy_cq: %s", strerror(errno));
}

/* The pair has been there before the group had all that it may have. */
static void expect_works(struct by_hand_pair *pair)
{
	struct ibv_send_wr *bad, send = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	unsigned int i;

	if (ibv_post_recv(pair->qps[1], &recv, &bad_recv) ||
	    ibv_post_send(pair->qps[0], &send, &bad))
		fail("posting");
	for (i = 0; i < 2; i++) {
		struct ibv_wc wc = by_hand_wait(pair->cqs[i], "a message");

		check_completion(&wc, "a message");
	}
}

static void refuse_adapter(void)
{
	if (ibv_open_device(adapter.context->device))
		fail("the adapter is opened twice by a group that may once");
	if (errno != EAGAIN)
		fail("an adapter beyond the group's: %s", strerror(errno));
}

static void run(const char *name)
{
	struct by_hand_pair pair;

	make_group(name);
	by_hand_open(&adapter, name);
	memory = allocate(SIZE);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	while (made < OBJECTS && (cqs[made] = try_cq()))
		made++;
	/* A PD, two QPs and their CQs. */
	if (made != OBJECTS - 5)
		fail("%u CQs of a group's %u objects", made, OBJECTS);
	refuse_all();
	refuse_adapter();
	expect_works(&pair);
	destroy_cq();
	cqs[made++] = try_cq();
	if (!cqs[made - 1])
		fail("no room for what has been destroyed: %s", strerror(errno));
	refuse_all();
	leave_group();
	cqs[made++] = try_cq();
	if (!cqs[made - 1])
		fail("who is in another group: %s", strerror(errno));
	while (made)
		destroy_cq();
	by_hand_free(&pair);
	by_hand_close(&adapter);
	free(memory);
	remove_group(name);
	say("a share of the adapter: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-quota", help, run);
}
