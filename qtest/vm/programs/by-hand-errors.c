// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-errors: on QPs that were connected by hand the completion of a WR tells
 * what the peer found wrong with it, as on InfiniBand; and the peer's program hears of
 * what it has no WR for
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	64
#define DEPTH	8
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_ATOMIC)

static const char help[] =
"usage: by-hand-errors [options] ADAPTER\n"
"Connects pairs of QPs, makes one mistake with each, and looks at all completions.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

/* qps[0] asks, qps[1] answers. */
static struct pair {
	struct by_hand adapter;
	struct ibv_cq *cqs[2];
	struct ibv_mr *mr;
	uint8_t *memory;	/* SIZE octets of each */
	struct ibv_qp *qps[2];
} pair;

static void open_pair(const char *adapter)
{
	unsigned int i;

	by_hand_open(&pair.adapter, adapter);
	pair.memory = allocate(2 * SIZE);
	for (i = 0; i < 2; i++) {
		pair.cqs[i] = ibv_create_cq(pair.adapter.context, 2 * DEPTH,
					    NULL, NULL, 0);
		if (!pair.cqs[i])
			fail("ibv_create_cq: %s", strerror(errno));
	}
	pair.mr = ibv_reg_mr(pair.adapter.pd, pair.memory, 2 * SIZE,
			     IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	if (!pair.mr)
		fail("ibv_reg_mr: %s", strerror(errno));
}

static void connect_pair(uint8_t rnr_retry)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		pair.qps[i] = by_hand_qp(&pair.adapter, pair.cqs[i], DEPTH);
		by_hand_init(pair.qps[i], RIGHTS);
	}
	for (i = 0; i < 2; i++)
		by_hand_rtr(&pair.adapter, pair.qps[i], pair.qps[!i]->qp_num,
			    0);
	for (i = 0; i < 2; i++)
		by_hand_rts_with(&pair.adapter, pair.qps[i], 0, rnr_retry);
}

static void free_pair(void)
{
	if (ibv_destroy_qp(pair.qps[0]) || ibv_destroy_qp(pair.qps[1]))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

static struct ibv_sge own_half(void)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)pair.memory,
		.length = SIZE,
		.lkey = pair.mr->lkey,
	};
}

/* A wr_id that needs all 64 bits, for WR number i. */
static uint64_t wide(unsigned int i)
{
	return 0xfedcba9876543210ull - i * 0x1000100010001001ull;
}

static void post_at(unsigned int number, enum ibv_wr_opcode opcode, uint64_t to,
		    uint32_t key_change)
{
	struct ibv_sge sge = own_half();
	struct ibv_send_wr *bad, wr = {
		.wr_id = wide(number),
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = to,
			.rkey = pair.mr->rkey ^ key_change,
		},
	};

	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("ibv_post_send failed");
}

static void post(unsigned int number, enum ibv_wr_opcode opcode, uint32_t key_change)
{
	post_at(number, opcode, (uintptr_t)pair.memory + SIZE, key_change);
}

static void post_answerer_receive(unsigned int number, uint32_t length,
				  uint32_t key_change)
{
	struct ibv_sge sge = own_half();
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wide(number),
		.sg_list = &sge,
		.num_sge = 1,
	};

	sge.length = length;
	sge.lkey ^= key_change;
	if (ibv_post_recv(pair.qps[1], &wr, &bad))
		fail("ibv_post_recv failed");
}

static void expect(unsigned int qp, unsigned int number,
		   enum ibv_wc_status status)
{
	struct ibv_wc wc = by_hand_wait(pair.cqs[qp], qp ? "receive" : "WR");

	if (wc.wr_id != wide(number) || wc.status != status)
		fail("WR 0x%llx: %s, where WR 0x%llx with %s is due",
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status),
		     (unsigned long long)wide(number),
		     ibv_wc_status_str(status));
}

/* What a peer did wrong: the answering end has no WR that could tell. */
static void expect_told(enum ibv_event_type type)
{
	by_hand_expect_event(&pair.adapter, pair.qps[1], type);
}

/* A good WR, a bad one, and one behind it. */
static void try_key(enum ibv_wr_opcode opcode, uint32_t key_change)
{
	connect_pair(7);
	post(1, IBV_WR_RDMA_WRITE, 0);
	post(2, opcode, key_change);
	post(3, IBV_WR_RDMA_WRITE, 0);
	expect(0, 1, IBV_WC_SUCCESS);
	expect(0, 2, IBV_WC_REM_ACCESS_ERR);
	expect(0, 3, IBV_WC_WR_FLUSH_ERR);
	expect_told(IBV_EVENT_QP_ACCESS_ERR);
	free_pair();
}

/* Octets that the region has not, or that there cannot be. */
static void try_address(enum ibv_wr_opcode opcode, uint64_t to)
{
	connect_pair(7);
	post_at(1, opcode, to, 0);
	expect(0, 1, IBV_WC_REM_ACCESS_ERR);
	expect_told(IBV_EVENT_QP_ACCESS_ERR);
	free_pair();
}

/* RFC 7306 5: no error of protection. */
static void try_unaligned_atomic(void)
{
	struct ibv_sge sge = own_half();
	struct ibv_send_wr *bad, wr = {
		.wr_id = wide(1),
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = {
			.remote_addr = (uintptr_t)pair.memory + SIZE + 4,
			.rkey = pair.mr->rkey,
			.compare_add = 1,
		},
	};

	sge.length = 8;
	connect_pair(7);
	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("ibv_post_send failed");
	expect(0, 1, IBV_WC_REM_OP_ERR);
	expect_told(IBV_EVENT_QP_REQ_ERR);
	free_pair();
}

static void try_receive(uint32_t length, uint32_t key_change,
			enum ibv_wc_status receiver, enum ibv_wc_status sender)
{
	connect_pair(7);
	post_answerer_receive(11, SIZE, 0);
	post_answerer_receive(12, length, key_change);
	post(1, IBV_WR_SEND, 0);
	post(2, IBV_WR_SEND, 0);
	post(3, IBV_WR_SEND, 0);
	expect(0, 1, IBV_WC_SUCCESS);
	expect(0, 2, sender);
	expect(0, 3, IBV_WC_WR_FLUSH_ERR);
	expect(1, 11, IBV_WC_SUCCESS);
	expect(1, 12, receiver);
	free_pair();
}

static void try_no_receive(void)
{
	connect_pair(1);
	post(1, IBV_WR_SEND, 0);
	expect(0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	free_pair();
}

static void try_late_receive(void)
{
	struct ibv_wc wc;

	connect_pair(7);
	post(1, IBV_WR_SEND, 0);
	sleep(1);
	if (ibv_poll_cq(pair.cqs[0], 1, &wc))
		fail("a Send is complete that has no receive");
	post_answerer_receive(11, SIZE, 0);
	expect(0, 1, IBV_WC_SUCCESS);
	expect(1, 11, IBV_WC_SUCCESS);
	free_pair();
}

static void try_peer_in_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	connect_pair(7);
	post(1, IBV_WR_RDMA_WRITE, 0);
	expect(0, 1, IBV_WC_SUCCESS);
	if (ibv_modify_qp(pair.qps[1], &attr, IBV_QP_STATE))
		fail("a QP to ERR");
	post(2, IBV_WR_RDMA_WRITE, 0);
	expect(0, 2, IBV_WC_RETRY_EXC_ERR);
	free_pair();
}

/* SQD of iWARP closes the stream, that of InfiniBand does not. */
static void try_sqd(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	int ret;

	connect_pair(7);
	ret = ibv_modify_qp(pair.qps[0], &attr, IBV_QP_STATE);
	if (ret != EOPNOTSUPP)
		fail("a QP to SQD: %s, not EOPNOTSUPP", strerror(ret));
	post(1, IBV_WR_RDMA_WRITE, 0);
	expect(0, 1, IBV_WC_SUCCESS);
	free_pair();
}

static void run(const char *adapter)
{
	open_pair(adapter);
	/* Another index; another key of the same index. */
	try_key(IBV_WR_RDMA_WRITE, 0x5500);
	try_key(IBV_WR_RDMA_READ, 0x5500);
	try_key(IBV_WR_RDMA_WRITE, 0x01);
	try_key(IBV_WR_RDMA_READ, 0x80);
	try_address(IBV_WR_RDMA_WRITE, (uintptr_t)pair.memory + 2 * SIZE);
	try_address(IBV_WR_RDMA_READ, (uintptr_t)pair.memory + 2 * SIZE);
	try_address(IBV_WR_RDMA_WRITE, UINT64_MAX);
	try_address(IBV_WR_RDMA_READ, UINT64_MAX);
	try_unaligned_atomic();
	try_receive(SIZE, 0x5500, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	try_receive(SIZE, 0x01, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	try_receive(SIZE - 1, 0, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
	try_no_receive();
	try_late_receive();
	try_peer_in_error();
	try_sqd();
	if (ibv_dereg_mr(pair.mr) || ibv_destroy_cq(pair.cqs[0]) ||
	    ibv_destroy_cq(pair.cqs[1]))
		fail("clean-up: %s", strerror(errno));
	by_hand_close(&pair.adapter);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-errors", help, run);
}
