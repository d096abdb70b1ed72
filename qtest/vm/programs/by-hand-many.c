// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-many: many QPs of one process, connected by hand in pairs, all at the
 * same time, and a message each way on each pair
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PORT		1	/* of the adapter */
#define SLOT		8	/* octets of a QP's message, and of its receive */

static const char help[] =
"usage: by-hand-many [options] ADAPTER\n"
"Creates QPs, moves all of them to RTR, then all to RTS, each with another one of\n"
"them as its peer, sends a message on each and checks what arrives.\n"
"  -n, --qps N           an even number (default 1000)\n"
"  -t, --time-limit SEC  for all of it (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "qps", required_argument, NULL, 'n' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Of QP i the peer is i ^ 1. Its message is its number. */
static struct many {
	unsigned int count;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp **qps;
	struct ibv_mr *mr;
	uint64_t *sent, *received;	/* a slot for each QP */
	union ibv_gid gid;
	int gid_index;
} many;

static void open_adapter(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			many.context = ibv_open_device(list[i]);
	if (!many.context)
		fail("there is no adapter %s that can be opened", name);
	ibv_free_device_list(list);
}

/* That of an IPv4 address. */
static void find_gid(void)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	while (!ibv_query_gid(many.context, PORT, many.gid_index, &many.gid)) {
		if (!memcmp(many.gid.raw, mapped, sizeof(mapped)))
			return;
		many.gid_index++;
	}
	fail("the adapter has no IPv4 address");
}

static void create_qp(unsigned int i)
{
	struct ibv_qp_init_attr init = {
		.send_cq = many.cq,
		.recv_cq = many.cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,
	};

	many.qps[i] = ibv_create_qp(many.pd, &init);
	if (!many.qps[i])
		fail("ibv_create_qp, of QP %u: %s", i, strerror(errno));
}

static void create_all(void)
{
	unsigned int i;

	many.qps = calloc(many.count, sizeof(*many.qps));
	many.sent = allocate(2 * many.count * SLOT);
	many.received = many.sent + many.count;
	many.pd = ibv_alloc_pd(many.context);
	many.cq = ibv_create_cq(many.context, 2 * many.count, NULL, NULL, 0);
	if (!many.qps || !many.pd || !many.cq)
		fail("PD and CQ: %s", strerror(errno));
	many.mr = ibv_reg_mr(many.pd, many.sent, 2 * many.count * SLOT,
			     IBV_ACCESS_LOCAL_WRITE);
	if (!many.mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	for (i = 0; i < many.count; i++)
		create_qp(i);
}

static void move(unsigned int i, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = PORT,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {
				.dgid = many.gid,
				.sgid_index = many.gid_index,
				.hop_limit = 1,
			},
		},
		.dest_qp_num = many.qps[i ^ 1]->qp_num,
		.rq_psn = i ^ 1,
		.sq_psn = i,
		.path_mtu = IBV_MTU_1024,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.timeout = 20,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int ret = ibv_modify_qp(many.qps[i], &attr, IBV_QP_STATE | mask);

	if (ret)
		fail("QP %u to state %d: %s", i, state, strerror(ret));
}

static void move_all(enum ibv_qp_state state, int mask)
{
	unsigned int i;

	for (i = 0; i < many.count; i++)
		move(i, state, mask);
	say("all in state %d", state);
}

static struct ibv_sge slot_of(uint64_t *slots, unsigned int i)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)&slots[i],
		.length = SLOT,
		.lkey = many.mr->lkey,
	};
}

static void post_both(unsigned int i)
{
	struct ibv_sge from = slot_of(many.sent, i);
	struct ibv_sge to = slot_of(many.received, i);
	struct ibv_recv_wr *bad_recv, recv = {
		.wr_id = i,
		.sg_list = &to,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad_send, send = {
		.wr_id = i,
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};

	many.sent[i] = i;
	many.received[i] = UINT64_MAX;
	if (ibv_post_recv(many.qps[i], &recv, &bad_recv) ||
	    ibv_post_send(many.qps[i], &send, &bad_send))
		fail("posting to QP %u failed", i);
}

static void complete_all(double deadline)
{
	unsigned int done = 0;
	struct ibv_wc wc;

	while (done < 2 * many.count) {
		int n = ibv_poll_cq(many.cq, 1, &wc);

		if (n < 0)
			fail("ibv_poll_cq");
		if (n)
			check_completion(&wc, "message");
		if (now() > deadline)
			fail("%u of %u completions after %.0f s", done,
			     2 * many.count, time_limit);
		done += n;
	}
}

static void check_all(void)
{
	unsigned int i;

	for (i = 0; i < many.count; i++)
		if (many.received[i] != (i ^ 1))
			fail("QP %u got the message of QP %llu", i,
			     (unsigned long long)many.received[i]);
}

static void destroy_all(void)
{
	unsigned int i;

	for (i = 0; i < many.count; i++)
		if (ibv_destroy_qp(many.qps[i]))
			fail("ibv_destroy_qp, of QP %u", i);
	if (ibv_dereg_mr(many.mr) || ibv_destroy_cq(many.cq) ||
	    ibv_dealloc_pd(many.pd) || ibv_close_device(many.context))
		fail("clean-up: %s", strerror(errno));
}

static void run(const char *adapter)
{
	double start = now();
	unsigned int i;

	open_adapter(adapter);
	find_gid();
	create_all();
	move_all(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		 IBV_QP_ACCESS_FLAGS);
	move_all(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER);
	move_all(IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC);
	for (i = 0; i < many.count; i++)
		post_both(i);
	complete_all(start + time_limit);
	check_all();
	destroy_all();
	say("%u QPs in %.1f s", many.count, now() - start);
	if (now() - start > time_limit)
		fail("that took more than %.0f s", time_limit);
}

int main(int argc, char **argv)
{
	int option;

	program = "by-hand-many";
	time_limit = 60;
	many.count = 1000;
	while ((option = getopt_long(argc, argv, "n:t:h", options, NULL)) != -1)
		switch (option) {
		case 'n':
			many.count = parse_number(optarg, "--qps", 100000);
			break;
		case 't':
			time_limit = parse_number(optarg, "--time-limit", 86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	if (optind != argc - 1 || many.count % 2)
		fail_usage();
	run(argv[optind]);
	return 0;
}
