// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-windows: a memory window of type 1 is its PD's: whichever QP binds it,
 * all QPs of the PD serve it to their peers, and no others
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS	500
#define PAIRS	3		/* the QP that serves: 0 and 1 of the PD, 2 not */
#define DEPTH	8
#define SIZE	8192		/* octets of the region */
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-windows [options] ADAPTER\n"
"Binds a window of type 1 through each of two QPs, and tries all their peers.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct by_hand_pair pairs[PAIRS];
static struct ibv_pd *other_pd;
static struct ibv_mr *region_mr, *own_mr;
static struct ibv_mw *mw;
static uint8_t *region, *own;
static unsigned int seed = 1;

static void connect_pair(unsigned int i)
{
	by_hand_connect(&adapter, &pairs[i], i == 2 ? other_pd : adapter.pd,
			RIGHTS, DEPTH);
}

static void open_all(const char *name)
{
	unsigned int i;

	by_hand_open(&adapter, name);
	other_pd = ibv_alloc_pd(adapter.context);
	region = allocate(SIZE);
	own = allocate(SIZE);
	region_mr = ibv_reg_mr(adapter.pd, region, SIZE,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	own_mr = ibv_reg_mr(adapter.pd, own, SIZE, IBV_ACCESS_LOCAL_WRITE);
	mw = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_1);
	if (!other_pd || !region_mr || !own_mr || !mw)
		fail("PD, MRs and window: %s", strerror(errno));
	for (i = 0; i < PAIRS; i++)
		connect_pair(i);
}

static enum ibv_wc_status bind_by(unsigned int i, uint32_t offset,
				  uint32_t length)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = length ? region_mr : NULL,
			.addr = length ? (uintptr_t)region + offset : 0,
			.length = length,
			.mw_access_flags = RIGHTS,
		},
	};
	int ret = ibv_bind_mw(pairs[i].qps[1], mw, &bind);

	if (ret)
		fail("ibv_bind_mw: %s", strerror(ret));
	return by_hand_wait(pairs[i].cqs[1], "bind").status;
}

/* The peer of pair i's QP writes or reads length octets of the region. */
static enum ibv_wc_status transfer(unsigned int i, enum ibv_wr_opcode opcode,
				   uint32_t rkey, uint32_t offset,
				   uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)own, length, own_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)region + offset,
			.rkey = rkey,
		},
	};
	int ret = ibv_post_send(pairs[i].qps[0], &wr, &bad);

	if (ret)
		fail("ibv_post_send: %s", strerror(ret));
	return by_hand_wait(pairs[i].cqs[0], "transfer").status;
}

static void expect_served(unsigned int i, uint32_t offset, uint32_t length)
{
	uint8_t octet = 1 + rand_r(&seed) % 255;
	enum ibv_wc_status status;

	memset(own, octet, length);
	status = transfer(i, IBV_WR_RDMA_WRITE, mw->rkey, offset, length);
	if (status)
		fail("a Write by pair %u: %s", i, ibv_wc_status_str(status));
	memset(own, 0, length);
	status = transfer(i, IBV_WR_RDMA_READ, mw->rkey, offset, length);
	if (status)
		fail("a Read by pair %u: %s", i, ibv_wc_status_str(status));
	if (own[0] != octet || own[length - 1] != octet ||
	    region[offset] != octet || region[offset + length - 1] != octet)
		fail("pair %u: wrong octets", i);
}

/* The QPs are in error then: new ones. */
static void expect_refused(unsigned int i, uint32_t rkey, uint32_t offset)
{
	uint8_t before = region[offset];
	enum ibv_wc_status status;

	own[0] = before + 1;
	status = transfer(i, IBV_WR_RDMA_WRITE, rkey, offset, 1);
	if (status != IBV_WC_REM_ACCESS_ERR)
		fail("a Write by pair %u that is due to be refused: %s", i,
		     ibv_wc_status_str(status));
	if (region[offset] != before)
		fail("a refused Write by pair %u changed the memory", i);
	by_hand_free(&pairs[i]);
	connect_pair(i);
}

/* Bound anew by one QP after the other, while it is bound. */
static void try_rounds(void)
{
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		uint32_t offset = rand_r(&seed) % (SIZE / 2);
		uint32_t length = 1 + rand_r(&seed) % (SIZE / 2);
		enum ibv_wc_status status = bind_by(i & 1, offset, length);

		if (status)
			fail("round %u: bind: %s", i,
			     ibv_wc_status_str(status));
		expect_served(0, offset, length);
		expect_served(1, offset, length);
	}
}

static void try_refusals(void)
{
	uint32_t stale;

	if (bind_by(0, 0, 64))
		fail("bind");
	expect_refused(2, mw->rkey, 0);
	expect_served(1, 0, 64);
	expect_refused(0, mw->rkey, 64);
	expect_served(0, 0, 64);
	stale = mw->rkey;
	if (bind_by(1, 64, 64))
		fail("bind anew");
	expect_refused(0, stale, 0);
	expect_served(1, 64, 64);
	/* The QP that has bound it goes: it stays bound. */
	by_hand_free(&pairs[1]);
	expect_served(0, 64, 64);
	connect_pair(1);
	expect_served(1, 64, 64);
	if (bind_by(0, 0, 0))
		fail("a bind of no length");
	expect_refused(0, mw->rkey, 64);
	expect_refused(1, mw->rkey, 64);
	if (bind_by(2, 0, 64) != IBV_WC_MW_BIND_ERR)
		fail("a QP of another PD binds it");
}

static void run(const char *name)
{
	unsigned int i;

	open_all(name);
	try_rounds();
	try_refusals();
	for (i = 0; i < PAIRS; i++)
		by_hand_free(&pairs[i]);
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(region_mr) ||
	    ibv_dereg_mr(own_mr) || ibv_dealloc_pd(other_pd))
		fail("clean-up: %s", strerror(errno));
	by_hand_close(&adapter);
	say("windows of type 1: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-windows", help, run);
}
