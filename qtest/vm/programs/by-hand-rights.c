// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-rights: what the peer of a QP that was connected by hand may do is what
 * the program has said at INIT, nothing included, whatever its memory allows; and
 * what its memory allows, which may have several regions with other rights and PDs. The
 * program that owns the memory hears of all else, and nothing of it changes.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	64

static const char help[] =
"usage: by-hand-rights [options] ADAPTER\n"
"Connects pairs of QPs with each set of rights, of QPs and of regions, and tries a\n"
"Write and a Read.\n"
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

/* The QP that has the rights is of this PD. */
static void connect_pair_of(struct ibv_pd *pd, int access)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		pair.qps[i] = by_hand_qp_of(&pair.adapter,
					    i ? pd : pair.adapter.pd, pair.cq,
					    4);
	for (i = 0; i < 2; i++)
		by_hand_init(pair.qps[i], i ? access : 0);
	for (i = 0; i < 2; i++)
		by_hand_rtr(&pair.adapter, pair.qps[i], pair.qps[!i]->qp_num,
			    0);
	for (i = 0; i < 2; i++)
		by_hand_rts(&pair.adapter, pair.qps[i], 0);
	check_told(access);
}

static void connect_pair(int access)
{
	connect_pair_of(pair.adapter.pd, access);
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

static void post_with(uint32_t lkey, enum ibv_wr_opcode opcode, uint32_t length,
		      uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair.memory,
		.length = length,
		.lkey = lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)pair.memory + SIZE,
			.rkey = rkey,
		},
	};

	if (ibv_post_send(pair.qps[0], &wr, &bad))
		fail("ibv_post_send failed");
}

static void post(enum ibv_wr_opcode opcode, uint32_t length, uint32_t rkey)
{
	post_with(pair.mr->lkey, opcode, length, rkey);
}

static void check_memory(enum ibv_wr_opcode opcode, bool done, const char *what)
{
	uint8_t peers = done && opcode == IBV_WR_RDMA_WRITE ? 1 : 2;
	uint8_t own = done && opcode == IBV_WR_RDMA_READ ? 2 : 1;
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		if (pair.memory[i] != own || pair.memory[SIZE + i] != peers)
			fail("%s, opcode %d: octet %u is %u, the peer's %u", what,
			     opcode, i, pair.memory[i], pair.memory[SIZE + i]);
}

static void fill_memory(void)
{
	memset(pair.memory, 1, SIZE);
	memset(pair.memory + SIZE, 2, SIZE);
}

static void destroy_pair(void)
{
	if (ibv_destroy_qp(pair.qps[0]) || ibv_destroy_qp(pair.qps[1]))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

/*
 * A Read behind it tells how a Write went; of no octets, it needs no right. Who owns
 * the memory is told by an event of its QP if something was not granted.
 */
static void try_access(enum ibv_wr_opcode opcode, uint32_t rkey, bool granted,
		       enum ibv_wc_status refusal, const char *what)
{
	enum ibv_wc_status status;

	fill_memory();
	post(opcode, SIZE, rkey);
	post(IBV_WR_RDMA_READ, 0, rkey);
	status = complete(2);
	if (status != (granted ? IBV_WC_SUCCESS : refusal))
		fail("%s, opcode %d: %s", what, opcode,
		     ibv_wc_status_str(status));
	check_memory(opcode, granted, what);
	if (!granted)
		by_hand_expect_event(&pair.adapter, pair.qps[1],
				     IBV_EVENT_QP_ACCESS_ERR);
	destroy_pair();
}

/* To RDMAP a Read that is not enabled is no error of protection. */
static void try_qp(int access, enum ibv_wr_opcode opcode, int needed)
{
	enum ibv_wc_status refusal = opcode == IBV_WR_RDMA_READ ?
				     IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
	char what[40];

	snprintf(what, sizeof(what), "a QP with rights 0x%x", access);
	connect_pair(access);
	try_access(opcode, pair.mr->rkey, access & needed, refusal, what);
}

/* ------------------------------------------------------------- regions */

#define ALL	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* A peer may write only where the owner may. */
static const int regions[] = {
	0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	IBV_ACCESS_LOCAL_WRITE | ALL,
};
#define REGIONS	(sizeof(regions) / sizeof(regions[0]))

static struct ibv_mr *register_with(int access)
{
	return ibv_reg_mr(pair.adapter.pd, pair.memory + SIZE, SIZE, access);
}

static void refuse_rights(int access)
{
	errno = 0;
	if (register_with(access) || errno != EINVAL)
		fail("a region with access 0x%x: not EINVAL but %s", access,
		     strerror(errno));
}

/* All at the same time, over the same octets: each keeps to its own rights. */
static void try_regions(void)
{
	struct ibv_mr *mrs[REGIONS];
	char what[40];
	unsigned int i;

	refuse_rights(IBV_ACCESS_REMOTE_WRITE);
	refuse_rights(ALL);
	for (i = 0; i < REGIONS; i++) {
		mrs[i] = register_with(regions[i]);
		if (!mrs[i])
			fail("access 0x%x: %s", regions[i], strerror(errno));
	}
	for (i = 0; i < REGIONS; i++) {
		snprintf(what, sizeof(what), "a region with rights 0x%x",
			 regions[i]);
		connect_pair(ALL);
		try_access(IBV_WR_RDMA_WRITE, mrs[i]->rkey,
			   regions[i] & IBV_ACCESS_REMOTE_WRITE,
			   IBV_WC_REM_ACCESS_ERR, what);
		connect_pair(ALL);
		try_access(IBV_WR_RDMA_READ, mrs[i]->rkey,
			   regions[i] & IBV_ACCESS_REMOTE_READ,
			   IBV_WC_REM_ACCESS_ERR, what);
	}
	for (i = 0; i < REGIONS; i++)
		if (ibv_dereg_mr(mrs[i]))
			fail("ibv_dereg_mr: %s", strerror(errno));
}

/*
 * A Read goes to memory that may be written here, whether or not the peer may write
 * there. To other memory nothing comes of its response, and the reader's QP has an event.
 */
static void try_sink(int access)
{
	bool granted = access & IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *sink = ibv_reg_mr(pair.adapter.pd, pair.memory, SIZE,
					 access);
	enum ibv_wc_status status;

	if (!sink)
		fail("a sink with access 0x%x: %s", access, strerror(errno));
	connect_pair(ALL);
	fill_memory();
	post_with(sink->lkey, IBV_WR_RDMA_READ, SIZE, pair.mr->rkey);
	status = complete(1);
	if ((status == IBV_WC_SUCCESS) != granted)
		fail("a sink with access 0x%x: %s", access,
		     ibv_wc_status_str(status));
	check_memory(IBV_WR_RDMA_READ, granted, "a sink");
	if (!granted)
		by_hand_expect_event(&pair.adapter, pair.qps[0],
				     IBV_EVENT_QP_ACCESS_ERR);
	destroy_pair();
	if (ibv_dereg_mr(sink))
		fail("ibv_dereg_mr: %s", strerror(errno));
}

/* Over the same octets again, for another PD: its QPs serve it, and no others. */
static void try_other_pd(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	};
	struct ibv_pd *pd = ibv_alloc_pd(pair.adapter.context);
	struct ibv_mr *mr;
	unsigned int i;

	if (!pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	mr = ibv_reg_mr(pd, pair.memory + SIZE, SIZE,
			IBV_ACCESS_LOCAL_WRITE | ALL);
	if (!mr || mr->lkey == pair.mr->lkey)
		fail("a region of another PD: %s", strerror(errno));
	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		connect_pair_of(pd, ALL);
		try_access(opcodes[i], mr->rkey, true, IBV_WC_SUCCESS,
			   "a region of the QP's PD");
		connect_pair(ALL);
		try_access(opcodes[i], mr->rkey, false, IBV_WC_REM_ACCESS_ERR,
			   "a region of another PD");
	}
	if (ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		fail("clean-up: %s", strerror(errno));
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
		try_qp(sets[i], IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE);
		try_qp(sets[i], IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ);
	}
	try_regions();
	for (i = 0; i < REGIONS; i++)
		try_sink(regions[i]);
	try_other_pd();
	if (ibv_dereg_mr(pair.mr) || ibv_destroy_cq(pair.cq))
		fail("clean-up: %s", strerror(errno));
	by_hand_close(&pair.adapter);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-rights", help, run);
}
