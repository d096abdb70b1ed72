// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-atomics: QPs of one process, connected by hand, and a thread with its own
 * atomic instructions add to one word; none of the additions may be lost
 *
 * Then Compare-and-Swap and immediate data.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define PAIRS		4	/* of QPs: the first of each adds */
#define PARTIES		(PAIRS + 1)
#define DEPTH		16	/* additions of a QP at a time */
#define IMMEDIATE	0x12345678
#define PAYLOAD		"payload"

static const char help[] =
"usage: by-hand-atomics [options] ADAPTER\n"
"Four QPs, with other QPs of the adapter as peers, and a thread of the processor\n"
"add to one 64-bit word. Checks the sum and what each addition found, then\n"
"Compare-and-Swap and immediate data.\n"
"  -n, --additions N     in all (default 1000000)\n"
"  -t, --time-limit SEC  for all of it (default 600)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "additions", required_argument, NULL, 'n' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* What QPs and peers share. */
static struct shared {
	_Atomic uint64_t word;
	uint64_t found[PAIRS][DEPTH];	/* by the additions of a QP */
	char sent[64];
	char received[64];
} *shared;

static struct by_hand adapter = { .reads = DEPTH };
static struct ibv_mr *mr;
static uint64_t each;		/* additions of a party */
static double deadline;

/* Of a pair: QP 0 asks, QP 1 is asked. */
static struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	uint64_t posted, done;
	uint64_t last;		/* what the addition before found */
} pairs[PAIRS];

static void make_pair(struct pair *p)
{
	int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	unsigned int i;

	p->cq = ibv_create_cq(adapter.context, 4 * DEPTH, NULL, NULL, 0);
	if (!p->cq)
		fail("ibv_create_cq: %s", strerror(errno));
	for (i = 0; i < 2; i++) {
		p->qp[i] = by_hand_qp(&adapter, p->cq, DEPTH);
		by_hand_init(p->qp[i], access);
	}
	for (i = 0; i < 2; i++)
		by_hand_rtr(&adapter, p->qp[i], p->qp[!i]->qp_num, 0);
	for (i = 0; i < 2; i++)
		by_hand_rts(&adapter, p->qp[i], 0);
}

static void free_pair(struct pair *p)
{
	if (ibv_destroy_qp(p->qp[0]) || ibv_destroy_qp(p->qp[1]) ||
	    ibv_destroy_cq(p->cq))
		fail("clean-up: %s", strerror(errno));
}

/* --------------------------------------------------------- additions */

static void post_atomic(struct pair *p, enum ibv_wr_opcode opcode,
			uint64_t *found, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)found,
		.length = sizeof(*found),
		.lkey = mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = {
			.remote_addr = (uintptr_t)&shared->word,
			.rkey = mr->rkey,
			.compare_add = compare_add,
			.swap = swap,
		},
	};
	int ret = ibv_post_send(p->qp[0], &wr, &bad);

	if (ret)
		fail("posting an atomic: %s", strerror(ret));
}

static struct ibv_wc wait_wc(struct pair *p, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(p->cq, 1, &wc)))
		if (now() > deadline)
			fail("no completion after %.0f s", time_limit);
	if (n < 0)
		fail("ibv_poll_cq");
	check_completion(&wc, "atomic or immediate");
	if (wc.opcode != opcode)
		fail("completion of kind %d, not %d", wc.opcode, opcode);
	return wc;
}

static bool may_post(const struct pair *p)
{
	return p->posted < each && p->posted - p->done < DEPTH;
}

/* Each finds more than the one before: the word only grows. */
static void take_completion(struct pair *p, unsigned int i)
{
	uint64_t found;

	if (wait_wc(p, IBV_WC_FETCH_ADD).byte_len != sizeof(uint64_t))
		fail("an atomic of another length");
	found = shared->found[i][p->done % DEPTH];
	if (p->done && found <= p->last)
		fail("addition %llu found %llu, the one before it %llu",
		     (unsigned long long)p->done, (unsigned long long)found,
		     (unsigned long long)p->last);
	p->last = found;
	p->done++;
}

/* Keeps pace with the QPs, so that it meets them all the time. */
static void *add_by_processor(void *unused)
{
	uint64_t i;

	(void)unused;
	for (i = 0; i < each; i++) {
		while (atomic_load(&shared->word) / PARTIES < i)
			;
		atomic_fetch_add(&shared->word, 1);
	}
	return NULL;
}

static bool add_a_little(void)
{
	bool busy = false;
	unsigned int i;

	for (i = 0; i < PAIRS; i++) {
		struct pair *p = &pairs[i];

		while (may_post(p)) {
			post_atomic(p, IBV_WR_ATOMIC_FETCH_AND_ADD,
				    &shared->found[i][p->posted % DEPTH], 1,
				    0);
			p->posted++;
		}
		if (p->done < p->posted)
			take_completion(p, i);
		busy |= p->done < each;
	}
	return busy;
}

static void add_all(void)
{
	pthread_t thread;
	int ret = pthread_create(&thread, NULL, add_by_processor, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	while (add_a_little())
		;
	pthread_join(thread, NULL);
	if (shared->word != PARTIES * each)
		fail("%llu additions make %llu",
		     (unsigned long long)(PARTIES * each),
		     (unsigned long long)shared->word);
}

/* ---------------------------------------------------------- the rest */

static void swap_word(struct pair *p, uint64_t compare, uint64_t swap,
		      uint64_t found, uint64_t after)
{
	post_atomic(p, IBV_WR_ATOMIC_CMP_AND_SWP, shared->found[0], compare,
		    swap);
	wait_wc(p, IBV_WC_COMP_SWAP);
	if (shared->found[0][0] != found || shared->word != after)
		fail("Compare-and-Swap found %llu, not %llu, and left %llu, not %llu",
		     (unsigned long long)shared->found[0][0],
		     (unsigned long long)found,
		     (unsigned long long)shared->word,
		     (unsigned long long)after);
}

static void check_swap(struct pair *p)
{
	uint64_t sum = shared->word;

	swap_word(p, sum, 0x1122334455667788, sum, 0x1122334455667788);
	swap_word(p, sum, 1, 0x1122334455667788, 0x1122334455667788);
}

static void post_receive_by_hand(struct pair *p)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)shared->received,
		.length = sizeof(shared->received),
		.lkey = mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(p->qp[1], &wr, &bad))
		fail("ibv_post_recv");
}

static void post_immediate(struct pair *p, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)shared->sent,
		.length = sizeof(PAYLOAD),
		.lkey = mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.imm_data = htonl(IMMEDIATE),
		.wr.rdma = {
			.remote_addr = (uintptr_t)shared->received,
			.rkey = mr->rkey,
		},
	};
	int ret = ibv_post_send(p->qp[0], &wr, &bad);

	if (ret)
		fail("posting with immediate data: %s", strerror(ret));
}

/* Both completions are in one CQ: the receive's comes first. */
static void check_immediate(struct pair *p, enum ibv_wr_opcode opcode)
{
	bool write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ibv_wc wc;

	memset(shared->received, 0, sizeof(shared->received));
	strcpy(shared->sent, PAYLOAD);
	post_receive_by_hand(p);
	post_immediate(p, opcode);
	wc = wait_wc(p, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	if (wc.wc_flags != IBV_WC_WITH_IMM || ntohl(wc.imm_data) != IMMEDIATE ||
	    wc.byte_len != sizeof(PAYLOAD))
		fail("immediate data 0x%x, flags 0x%x, %u octets",
		     ntohl(wc.imm_data), wc.wc_flags, wc.byte_len);
	if (strcmp(shared->received, PAYLOAD))
		fail("the octets are \"%.*s\"", (int)sizeof(shared->received),
		     shared->received);
	wait_wc(p, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
}

static void run(const char *name)
{
	double start = now();
	unsigned int i;

	deadline = start + time_limit;
	by_hand_open(&adapter, name);
	shared = allocate(sizeof(*shared));
	mr = ibv_reg_mr(adapter.pd, shared, sizeof(*shared),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	for (i = 0; i < PAIRS; i++)
		make_pair(&pairs[i]);
	add_all();
	say("%llu additions in %.1f s", (unsigned long long)(PARTIES * each),
	    now() - start);
	check_swap(&pairs[0]);
	check_immediate(&pairs[0], IBV_WR_RDMA_WRITE_WITH_IMM);
	check_immediate(&pairs[0], IBV_WR_SEND_WITH_IMM);
	for (i = 0; i < PAIRS; i++)
		free_pair(&pairs[i]);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr");
	by_hand_close(&adapter);
}

int main(int argc, char **argv)
{
	int option;

	program = "by-hand-atomics";
	time_limit *= 10;
	each = 1000000 / PARTIES;
	while ((option = getopt_long(argc, argv, "n:t:h", options, NULL)) != -1)
		switch (option) {
		case 'n':
			each = parse_number(optarg, "--additions", 1 << 30) /
			       PARTIES;
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
	if (optind != argc - 1)
		fail_usage();
	run(argv[optind]);
	return 0;
}
