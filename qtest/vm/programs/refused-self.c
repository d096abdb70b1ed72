// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * refused-self: the adapter has no resources for one kind of command after another,
 * which somebody else sees to. What the command was for is refused, nothing is made, and
 * what there is goes on as it was; when there are resources again it succeeds. Or it
 * answers all of them with one status after another, each of which has an errno.
 */

#define _GNU_SOURCE	/* strerrorname_np() */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	4096
#define DEPTH	8
#define TIMES	20
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: refused-self [options] ADAPTER DIRECTORY [STATUS=ERRNO]...\n"
"Makes DIRECTORY/.signal-refuse-COMMAND, and waits for .signal-refused-COMMAND: the\n"
"ADAPTER refuses that admin command from then on; the same with grant and granted.\n"
"With STATUS=ERRNO, such as 4=EBUSY, the same with .signal-refuse-STATUS: the ADAPTER\n"
"answers all of the commands with it, and the errno of each is ERRNO.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char *directory;
static struct by_hand adapter;
static struct by_hand_pair pair;
static struct ibv_mr *mr;
static struct ibv_cq *cq;	/* of nothing */
static struct ibv_srq *srq;
static struct ibv_qp *idle;	/* in INIT, on the S-RQ */
static uint8_t *memory;

/* -------------------------------------------------------- the adapter */

static void path_of(char *path, size_t size, const char *what,
		    const char *command)
{
	snprintf(path, size, "%s/.signal-%s-%s", directory, what, command);
}

static void have(const char *order, const char *done, const char *command)
{
	double end = now() + time_limit;
	char path[300];
	int fd;

	path_of(path, sizeof(path), order, command);
	fd = open(path, O_CREAT | O_WRONLY, 0666);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
	path_of(path, sizeof(path), done, command);
	while (access(path, F_OK)) {
		if (now() > end)
			fail("no %s", path);
		poll(NULL, 0, 50);
	}
}

/* ---------------------------------------------------- what there is works */

static void try_traffic(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory + 64,
			.rkey = mr->rkey,
		},
	};
	struct ibv_wc wc;

	memory[0]++;
	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("ibv_post_send");
	wc = by_hand_wait(pair.cqs[0], "Write");
	check_completion(&wc, "Write");
	if (memory[64] != memory[0])
		fail("a Write has written nothing");
}

static void refused(const void *object, int status, const char *what)
{
	if (object || errno != status)
		fail("%s: %s, not %s", what, object ? "made" :
		     strerrorname_np(errno), strerrorname_np(status));
}

static void expect_status(int ret, int status, const char *what)
{
	if (ret < 0)
		ret = errno;
	if (ret != status)
		fail("%s: %s, not %s", what, strerror(ret), strerror(status));
}

/* ------------------------------------------------------------- commands */

/* status: what is expected of it. */
struct command {
	const char *name;
	void (*attempt)(int status);
};

/* One of each, which goes again if it is made. */
#define ATTEMPT(make, drop, what) do { \
	errno = 0; \
	void *object = make; \
	if (status) \
		refused(object, status, what); \
	else if (!object) \
		fail("%s: %s", what, strerror(errno)); \
	else if (drop) \
		fail("%s stays", what); \
} while (0)

static void attempt_pd(int status)
{
	ATTEMPT(ibv_alloc_pd(adapter.context), ibv_dealloc_pd(object), "a PD");
}

static void attempt_mr(int status)
{
	ATTEMPT(ibv_reg_mr(adapter.pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE),
		ibv_dereg_mr(object), "a region");
}

static void attempt_mw(int status)
{
	ATTEMPT(ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2), ibv_dealloc_mw(object),
		"a window");
}

static void attempt_cq(int status)
{
	ATTEMPT(ibv_create_cq(adapter.context, 10, NULL, NULL, 0),
		ibv_destroy_cq(object), "a CQ");
}

static void attempt_srq(int status)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	ATTEMPT(ibv_create_srq(adapter.pd, &init), ibv_destroy_srq(object),
		"an S-RQ");
}

static void attempt_qp(int status)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	ATTEMPT(ibv_create_qp(adapter.pd, &init), ibv_destroy_qp(object),
		"a QP");
}

static void attempt_resize_cq(int status)
{
	int before = cq->cqe;

	expect_status(ibv_resize_cq(cq, status ? 2 * before + 2 : before),
		      status, "ibv_resize_cq");
	if (cq->cqe < before || (status && cq->cqe != before))
		fail("a CQ of %d is of %d", before, cq->cqe);
}

static void attempt_modify_srq(int status)
{
	struct ibv_srq_attr before, after, attr = { .max_wr = 60 };

	if (ibv_query_srq(srq, &before))
		fail("ibv_query_srq: %s", strerror(errno));
	expect_status(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), status,
		      "an S-RQ resized");
	attr.srq_limit = 1;
	expect_status(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), status,
		      "the limit of an S-RQ");
	if (ibv_query_srq(srq, &after))
		fail("ibv_query_srq: %s", strerror(errno));
	if (status && memcmp(&before, &after, sizeof(after)))
		fail("an S-RQ is changed all the same");
	attr.srq_limit = 0;
	if (!status)
		expect_status(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0,
			      "no limit");
}

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_qp(qp, &attr, 0x1ffffff, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	return attr;
}

static void attempt_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			   int status, const char *what)
{
	struct ibv_qp_attr before = query(qp), after;

	expect_status(ibv_modify_qp(qp, attr, mask), status, what);
	after = query(qp);
	if (status && memcmp(&before, &after, sizeof(after)))
		fail("%s: refused, and changed", what);
}

static void attempt_attributes(int status)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = status ? 0 : RIGHTS,
		.max_rd_atomic = status ? 2 : 3,
		.cap = { .max_send_wr = 2 * DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	attempt_modify(idle, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
		       IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
		       IBV_QP_MAX_QP_RD_ATOMIC, status, "INIT");
	attempt_modify(pair.qps[0], &attr, IBV_QP_CAP, status, "a QP resized");
}

/* Back to what it was in the beginning. */
static void idle_again(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	attempt_modify(idle, &attr, IBV_QP_STATE, 0, "RESET");
	by_hand_init(idle, RIGHTS);
}

static void attempt_modify_qp(int status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	attempt_attributes(status);
	if (status)
		attempt_modify(pair.qps[0], &attr, IBV_QP_STATE, status, "ERR");
	attr.qp_state = IBV_QPS_RESET;
	if (status)
		attempt_modify(pair.qps[0], &attr, IBV_QP_STATE, status,
			       "RESET");
	else
		idle_again();
}

static const struct command commands[] = {
	{ "create-qp", attempt_qp },
	{ "modify-qp", attempt_modify_qp },
	{ "create-cq", attempt_cq },
	{ "modify-cq", attempt_resize_cq },
	{ "create-srq", attempt_srq },
	{ "modify-srq", attempt_modify_srq },
	{ "alloc-pd", attempt_pd },
	{ "register-mr", attempt_mr },
	{ "alloc-mw", attempt_mw },
};

static void run_command(const struct command *c)
{
	uint64_t pinned;
	unsigned int i;

	c->attempt(0);
	have("refuse", "refused", c->name);
	pinned = pinned_kb();
	for (i = 0; i < TIMES; i++) {
		c->attempt(ENOMEM);
		try_traffic();
	}
	if (pinned_kb() != pinned)
		fail("%s: %llu kB stay pinned", c->name,
		     (unsigned long long)(pinned_kb() - pinned));
	have("grant", "granted", c->name);
	c->attempt(0);
	try_traffic();
	say("%s: ok", c->name);
}

/* ------------------------------------------------------------- statuses */

/* What all commands do that can have a status without an end of the adapter. */
static void (*const all[])(int status) = {
	attempt_pd, attempt_mr, attempt_mw, attempt_cq, attempt_resize_cq,
	attempt_srq, attempt_modify_srq, attempt_qp, attempt_attributes,
};

static void attempt_all(int status)
{
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		all[i](status);
}

static int errno_of(const char *name)
{
	int number;

	for (number = 1; number < 134; number++) {
		const char *known = strerrorname_np(number);

		if (known && !strcmp(known, name))
			return number;
	}
	fail_usage();
	return 0;
}

/* STATUS=ERRNO */
static void run_status(char *argument)
{
	char *name = strchr(argument, '=');

	if (!name)
		fail_usage();
	*name++ = '\0';
	have("refuse", "refused", argument);
	attempt_all(errno_of(name));
	have("grant", "granted", argument);
	attempt_all(0);
	/* As before, for the next one. */
	idle_again();
	try_traffic();
	say("status %s: %s", argument, name);
}

/* ----------------------------------------------------------------- main */

static void set_up(const char *name)
{
	struct ibv_srq_init_attr srq_init = {
		.attr = { .max_wr = 20, .max_sge = 1 },
	};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};

	by_hand_open(&adapter, name);
	memory = allocate(SIZE);
	mr = ibv_reg_mr(adapter.pd, memory, SIZE,
			IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	cq = ibv_create_cq(adapter.context, 10, NULL, NULL, 0);
	srq = ibv_create_srq(adapter.pd, &srq_init);
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	idle = cq && srq ? ibv_create_qp(adapter.pd, &init) : NULL;
	if (!mr || !idle)
		fail("objects: %s", strerror(errno));
	by_hand_init(idle, RIGHTS);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
}

static void clean_up(void)
{
	by_hand_free(&pair);
	if (ibv_destroy_qp(idle) || ibv_destroy_srq(srq) ||
	    ibv_destroy_cq(cq) || ibv_dereg_mr(mr))
		fail("destroying: %s", strerror(errno));
	by_hand_close(&adapter);
}

int main(int argc, char **argv)
{
	unsigned int i;
	int c;

	program = "refused-self";
	while ((c = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
		switch (c) {
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
	if (argc - optind < 2)
		fail_usage();

	directory = argv[optind + 1];
	set_up(argv[optind]);
	for (i = optind + 2; i < (unsigned int)argc; i++)
		run_status(argv[i]);
	for (i = 0; argc - optind == 2 &&
	     i < sizeof(commands) / sizeof(commands[0]); i++)
		run_command(&commands[i]);
	clean_up();
	say("refusals: ok");
	return 0;
}
