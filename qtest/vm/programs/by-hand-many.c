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

#include "by-hand.h"
#include "common.h"

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
	struct by_hand adapter;
	struct ibv_cq_ex *cq;
	struct ibv_qp **qps;
	struct ibv_mr *mr;
	uint64_t *sent, *received;	/* a slot for each QP */
} many;

static void create_all(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * many.count,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM,
	};
	unsigned int i;

	many.qps = calloc(many.count, sizeof(*many.qps));
	many.sent = allocate(2 * many.count * SLOT);
	many.received = many.sent + many.count;
	many.cq = ibv_create_cq_ex(many.adapter.context, &attr);
	if (!many.qps || !many.cq)
		fail("CQ: %s", strerror(errno));
	many.mr = ibv_reg_mr(many.adapter.pd, many.sent, 2 * many.count * SLOT,
			     IBV_ACCESS_LOCAL_WRITE);
	if (!many.mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	for (i = 0; i < many.count; i++)
		many.qps[i] = by_hand_qp(&many.adapter, ibv_cq_ex_to_cq(many.cq),
					  1);
}

/* The PSN of QP i is i. */
static void connect_all(void)
{
	unsigned int i;

	for (i = 0; i < many.count; i++)
		by_hand_init(many.qps[i], 0);
	say("all in INIT");
	for (i = 0; i < many.count; i++)
		by_hand_rtr(&many.adapter, many.qps[i],
			    many.qps[i ^ 1]->qp_num, i ^ 1);
	say("all in RTR");
	for (i = 0; i < many.count; i++)
		by_hand_rts(&many.adapter, many.qps[i], i);
	say("all in RTS");
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

/* A CQ that no queue uses is made and unmade beside. */
static void check_unused_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(many.adapter.context, 1, NULL, NULL,
					  0);
	struct ibv_wc wc;

	if (!cq || ibv_poll_cq(cq, 1, &wc) || ibv_destroy_cq(cq))
		fail("a CQ without queues: %s", strerror(errno));
}

/* The CQ has the completions of both queues of all QPs: one of each. */
static void note_completion(const struct ibv_wc *wc, uint8_t *seen)
{
	uint8_t bit = wc->opcode == IBV_WC_RECV ? 1 : 2;

	check_completion(wc, "message");
	if (wc->wr_id >= many.count ||
	    wc->qp_num != many.qps[wc->wr_id]->qp_num ||
	    (wc->opcode != IBV_WC_RECV && wc->opcode != IBV_WC_SEND) ||
	    (seen[wc->wr_id] & bit))
		fail("completion %llu, of kind %d, of QP %u",
		     (unsigned long long)wc->wr_id, wc->opcode, wc->qp_num);
	seen[wc->wr_id] |= bit;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct ibv_qp *const *left = a, *const *right = b;

	return (*left)->qp_num < (*right)->qp_num ? -1 :
	       (*left)->qp_num > (*right)->qp_num;
}

/* No two QPs have the same. */
static void check_numbers(void)
{
	struct ibv_qp **sorted = calloc(many.count, sizeof(*sorted));
	unsigned int i;

	if (!sorted)
		fail("no memory");
	memcpy(sorted, many.qps, many.count * sizeof(*sorted));
	qsort(sorted, many.count, sizeof(*sorted), compare_numbers);
	for (i = 1; i < many.count; i++)
		if (sorted[i - 1]->qp_num == sorted[i]->qp_num)
			fail("two QPs have the number %u", sorted[i]->qp_num);
	free(sorted);
}

/* By turns in one way and in the other. */
static int poll_one_of_all(struct ibv_wc *wc)
{
	static unsigned int turns;

	return turns++ % 2 ? poll_cq_ex(many.cq, wc, 1) :
	       ibv_poll_cq(ibv_cq_ex_to_cq(many.cq), 1, wc);
}

static void complete_all(double deadline)
{
	uint8_t *seen = calloc(many.count, 1);
	unsigned int done = 0;
	struct ibv_wc wc;

	while (done < 2 * many.count) {
		int n = poll_one_of_all(&wc);

		if (n < 0)
			fail("ibv_poll_cq");
		if (n)
			note_completion(&wc, seen);
		if (now() > deadline)
			fail("%u of %u completions after %.0f s", done,
			     2 * many.count, time_limit);
		done += n;
	}
	free(seen);
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
	if (ibv_dereg_mr(many.mr) || ibv_destroy_cq(ibv_cq_ex_to_cq(many.cq)))
		fail("clean-up: %s", strerror(errno));
	by_hand_close(&many.adapter);
}

static void run(const char *adapter)
{
	double start = now();
	unsigned int i;

	by_hand_open(&many.adapter, adapter);
	create_all();
	check_numbers();
	check_unused_cq();
	connect_all();
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
