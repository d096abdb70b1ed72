// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-rights: what the peer of a QP that was connected by hand may do is what
 * the program has said at INIT, nothing included, whatever its memory allows
 */

#include <errno.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	64

static const char help[] =
"usage: by-hand-rights [options] ADAPTER\n"
"Connects pairs of QPs with each set of rights, and tries a Write and a Read.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

/* qps[0] asks, qps[1] has the rights. */
static struct pair {
	struct by_hand adapter;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory;	/* SIZE octets of each */
	struct ibv_qp *qps[2];
} pair;

static void open_pair(const char *adapter)
{
	by_hand_open(&pair.adapter, adapter);
	pair.memory = allocate(2 * SIZE);
	pair.cq = ibv_create_cq(pair.adapter.context, 16, NULL, NULL, 0);
	pair.mr = ibv_reg_mr(pair.adapter.pd, pair.memory, 2 * SIZE,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_WRITE);
	if (!pair.cq || !pair.mr)
		fail("CQ and MR: %s", strerror(errno));
}

static void check_told(int access)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(pair.qps[1], &attr, IBV_QP_ACCESS_FLAGS, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	if ((int)attr.qp_access_flags != access)
		fail("rights 0x%x, but 0x%x are told", access,
		     attr.qp_access_flags);
}

static void connect_pair(int access)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		pair.qps[i] = by_hand_qp(&pair.adapter, pair.cq, 4);
	for (i = 0; i < 2; i++)
		by_hand_init(pair.qps[i], i ? access : 0);
	for (i = 0; i < 2; i++)
		by_hand_rtr(&pair.adapter, pair.qps[i], pair.qps[!i]->qp_num,
			    0);
	for (i = 0; i < 2; i++)
		by_hand_rts(&pair.adapter, pair.qps[i], 0);
	check_told(access);
}

/* The first status of so many completions that is not good, if there is one. */
static enum ibv_wc_status complete(unsigned int count)
{
	enum ibv_wc_status worst = IBV_WC_SUCCESS;

	while (count--) {
		struct ibv_wc wc = by_hand_wait(pair.cq, "Write or Read");

		if (worst == IBV_WC_SUCCESS)
			worst = wc.status;
	}
	return worst;
}

static void post(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair.memory,
		.length = length,
		.lkey = pair.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)pair.memory + SIZE,
			.rkey = pair.mr->rkey,
		},
	};

	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("ibv_post_send failed");
}

/* A Read behind it tells how a Write went; of no octets, it needs no right. */
static void try_one(int access, enum ibv_wr_opcode opcode, int needed)
{
	enum ibv_wc_status status;

	connect_pair(access);
	memset(pair.memory, 1, SIZE);
	memset(pair.memory + SIZE, 2, SIZE);
	post(opcode, SIZE);
	post(IBV_WR_RDMA_READ, 0);
	status = complete(2);
	if ((status == IBV_WC_SUCCESS) != !!(access & needed))
		fail("rights 0x%x, opcode %d: %s", access, opcode,
		     ibv_wc_status_str(status));
	if (pair.memory[SIZE] != (opcode == IBV_WR_RDMA_WRITE &&
				  (access & needed) ? 1 : 2))
		fail("rights 0x%x, opcode %d: the peer's memory is %u", access,
		     opcode, pair.memory[SIZE]);
	if (ibv_destroy_qp(pair.qps[0]) || ibv_destroy_qp(pair.qps[1]))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

static void run(const char *adapter)
{
	static const int sets[] = {
		0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	unsigned int i;

	open_pair(adapter);
	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		try_one(sets[i], IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE);
		try_one(sets[i], IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ);
	}
	if (ibv_dereg_mr(pair.mr) || ibv_destroy_cq(pair.cq))
		fail("clean-up: %s", strerror(errno));
	by_hand_close(&pair.adapter);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-rights", help, run);
}
