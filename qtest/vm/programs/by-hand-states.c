// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-states: from each state in which a QP stays, a change to each of the
 * others: those that there are happen, all others change nothing. Nor does a change
 * with an attribute too many, or with one that the adapter has not.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define PORT	1
#define SIZE	64
#define DEPTH	4
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define STATES	(IBV_QPS_ERR + 1)

static const char help[] =
"usage: by-hand-states [options] ADAPTER\n"
"Takes QPs of the adapter to each state, and tries to change it to each other one.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const char *const names[STATES] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
};

static struct by_hand adapter;
static struct ibv_device_attr device;
static struct ibv_mr *mr;
static uint8_t *memory;

/* The QPs on which one change is tried; the first is the one that changes. */
static struct by_hand_pair pair;

/* ----------------------------------------------------------- attributes */

struct all_attributes {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
};

static struct all_attributes query(void)
{
	struct all_attributes all;

	memset(&all, 0, sizeof(all));
	if (ibv_query_qp(pair.qps[0], &all.attr, 0x1ffffff, &all.init))
		fail("ibv_query_qp: %s", strerror(errno));
	return all;
}

static void expect_same(const struct all_attributes *before, const char *what)
{
	struct all_attributes after = query();

	if (after.attr.qp_state != before->attr.qp_state)
		fail("%s: from %s to %s", what,
		     names[before->attr.qp_state], names[after.attr.qp_state]);
	if (memcmp(&after, before, sizeof(after)))
		fail("%s in %s: attributes are others", what,
		     names[before->attr.qp_state]);
}

/* -------------------------------------------------------------- changes */

/* With all attributes that Linux wants for that state. */
static int request(enum ibv_qp_state state, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr) { .qp_state = state };
	switch (state) {
	case IBV_QPS_INIT:
		attr->port_num = PORT;
		attr->qp_access_flags = RIGHTS;
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		attr->ah_attr.is_global = 1;
		attr->ah_attr.port_num = PORT;
		attr->ah_attr.grh.dgid = adapter.gid;
		attr->ah_attr.grh.sgid_index = adapter.gid_index;
		attr->dest_qp_num = pair.qps[1]->qp_num;
		attr->path_mtu = IBV_MTU_1024;
		attr->max_dest_rd_atomic = 1;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		attr->timeout = 20;
		attr->retry_cnt = 7;
		attr->rnr_retry = 7;
		attr->max_rd_atomic = 1;
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

static int change(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask = request(state, &attr);

	/* A QP that is in RTS wants none of them any more. */
	if (state == IBV_QPS_RTS && query().attr.qp_state == IBV_QPS_RTS)
		mask = IBV_QP_STATE;
	return ibv_modify_qp(pair.qps[0], &attr, mask);
}

static void make_pair(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		pair.cqs[i] = ibv_create_cq(adapter.context, 2 * DEPTH, NULL,
					    NULL, 0);
		if (!pair.cqs[i])
			fail("ibv_create_cq: %s", strerror(errno));
		pair.qps[i] = by_hand_qp(&adapter, pair.cqs[i], DEPTH);
	}
	/* The peer waits, whether or not the other one comes. */
	by_hand_init(pair.qps[1], RIGHTS);
	by_hand_rtr(&adapter, pair.qps[1], pair.qps[0]->qp_num, 0);
	by_hand_rts(&adapter, pair.qps[1], 0);
}

/* A Write to the peer is done, and one from the peer. */
static void try_traffic(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, 1, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory + 1, .rkey = mr->rkey,
		},
	};
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		memory[0]++;
		if (ibv_post_send(pair.qps[i], &wr, &bad))
			fail("ibv_post_send");
		wc = by_hand_wait(pair.cqs[i], "Write");
		check_completion(&wc, "Write");
		if (memory[1] != memory[0])
			fail("a Write has written nothing");
	}
}

/* never: ERR straight from INIT, else from RTS. */
static void go_to(enum ibv_qp_state state, bool never)
{
	static const enum ibv_qp_state ways[][5] = {
		[IBV_QPS_RESET] = { IBV_QPS_RESET },
		[IBV_QPS_INIT] = { IBV_QPS_INIT },
		[IBV_QPS_RTR] = { IBV_QPS_INIT, IBV_QPS_RTR },
		[IBV_QPS_RTS] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS },
		[IBV_QPS_ERR] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
				  IBV_QPS_ERR },
	};
	static const enum ibv_qp_state short_way[] = {
		IBV_QPS_INIT, IBV_QPS_ERR,
	};
	const enum ibv_qp_state *next = never ? short_way : ways[state];
	int ret;

	do {
		ret = change(*next);
		if (ret)
			fail("on the way to %s, to %s: %s", names[state],
			     names[*next], strerror(ret));
		if (*next == IBV_QPS_RTS)
			try_traffic();
	} while (*next++ != state);
	if (query().attr.qp_state != state)
		fail("not in %s", names[state]);
}

/* ------------------------------------------------------------ the matrix */

/* SQE is left at once, when the peer has answered. */
static void expect_changed(enum ibv_qp_state to)
{
	enum ibv_qp_state state = query().attr.qp_state;

	if (state != to && !(to == IBV_QPS_SQE && state == IBV_QPS_ERR))
		fail("changed to %s, it is in %s", names[to], names[state]);
}

static void try_change(enum ibv_qp_state from, bool never,
		       enum ibv_qp_state to, int status)
{
	struct all_attributes before;
	char what[40];
	int ret;

	make_pair();
	go_to(from, never);
	before = query();
	snprintf(what, sizeof(what), "%s to %s", names[from], names[to]);
	ret = change(to);
	if (ret != status)
		fail("%s: %s, not %s", what, strerror(ret), strerror(status));
	if (status)
		expect_same(&before, what);
	else
		expect_changed(to);
	if (status && from == IBV_QPS_RTS)
		try_traffic();
	by_hand_free(&pair);
}

/*
 * Idle is RESET and INIT, and RTR and RTS without the peer; Closing is SQD, which a
 * QP that is moved by hand has not; Terminate is SQE. Linux lets a QP go to RESET
 * from everywhere: by way of Error, what is posted is no more; and to ERR, also from
 * there.
 */
static void try_matrix(void)
{
	enum { OK = 0, X = EINVAL, S = EOPNOTSUPP, L = ENOTCONN };
	/* to:	RESET INIT RTR RTS SQD SQE ERR */
	static const int reset[STATES] = { OK, OK, X, L, X, X, OK },
		init[STATES] = { OK, OK, OK, L, X, X, OK },
		rtr[STATES] = { OK, X, X, OK, S, X, OK },
		rts[STATES] = { OK, X, X, OK, S, OK, OK },
		err[STATES] = { OK, X, X, X, S, X, OK },
		never[STATES] = { OK, X, X, X, X, X, OK };
	unsigned int to;

	for (to = 0; to < STATES; to++) {
		try_change(IBV_QPS_RESET, false, to, reset[to]);
		try_change(IBV_QPS_INIT, false, to, init[to]);
		try_change(IBV_QPS_RTR, false, to, rtr[to]);
		try_change(IBV_QPS_RTS, false, to, rts[to]);
		try_change(IBV_QPS_ERR, false, to, err[to]);
		try_change(IBV_QPS_ERR, true, to, never[to]);
	}
	say("all changes of state: ok");
}

/* -------------------------------------------------- attributes too many */

static void refuse(struct ibv_qp_attr *attr, int mask, const char *what)
{
	struct all_attributes before = query();
	int ret = ibv_modify_qp(pair.qps[0], attr, mask);

	if (ret != EINVAL)
		fail("%s in %s: %s, not EINVAL", what,
		     names[before.attr.qp_state], strerror(ret));
	expect_same(&before, what);
}

/* Of a change that ends the use of a QP the state is all that there is to say. */
static void refuse_attributes_of(enum ibv_qp_state from)
{
	static const enum ibv_qp_state ends[] = {
		IBV_QPS_RESET, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR,
	};
	static const int masks[] = {
		IBV_QP_ACCESS_FLAGS, IBV_QP_MAX_QP_RD_ATOMIC,
		IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_TIMEOUT, IBV_QP_CAP,
		IBV_QP_MIN_RNR_TIMER,
	};
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .timeout = 10,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
		.min_rnr_timer = 1,
	};
	unsigned int i, k;
	char what[40];

	make_pair();
	go_to(from, false);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (k = 0; k < sizeof(masks) / sizeof(masks[0]); k++) {
			attr.qp_state = ends[i];
			snprintf(what, sizeof(what), "%s with attribute 0x%x",
				 names[ends[i]], masks[k]);
			refuse(&attr, IBV_QP_STATE | masks[k], what);
		}
	if (from == IBV_QPS_RTS)
		try_traffic();
	by_hand_free(&pair);
}

/* One attribute that the adapter has not, among good ones: nothing is done. */
static void refuse_with(enum ibv_qp_state to, bool ord)
{
	struct ibv_qp_attr attr;
	int mask = request(to, &attr);
	char what[60];

	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	if (ord)
		attr.max_rd_atomic = device.max_qp_init_rd_atom + 1;
	else
		attr.max_dest_rd_atomic = device.max_qp_rd_atom + 1;
	snprintf(what, sizeof(what), "%s with too large an %s", names[to],
		 ord ? "ORD" : "IRD");
	refuse(&attr, mask | IBV_QP_ACCESS_FLAGS |
	       (ord ? IBV_QP_MAX_QP_RD_ATOMIC : IBV_QP_MAX_DEST_RD_ATOMIC),
	       what);
}

static void step_to(enum ibv_qp_state state)
{
	int ret = change(state);

	if (ret)
		fail("to %s: %s", names[state], strerror(ret));
}

/* At each step; then the step is done as it should be, and the QP works. */
static void try_wrong_attributes(void)
{
	make_pair();
	go_to(IBV_QPS_RESET, false);
	refuse_with(IBV_QPS_INIT, true);
	refuse_with(IBV_QPS_INIT, false);
	step_to(IBV_QPS_INIT);
	refuse_with(IBV_QPS_INIT, true);
	refuse_with(IBV_QPS_INIT, false);
	refuse_with(IBV_QPS_RTR, false);
	step_to(IBV_QPS_RTR);
	refuse_with(IBV_QPS_RTS, true);
	step_to(IBV_QPS_RTS);
	try_traffic();
	by_hand_free(&pair);
	say("wrong attributes: ok");
}

static void run(const char *name)
{
	by_hand_open(&adapter, name);
	if (ibv_query_device(adapter.context, &device))
		fail("ibv_query_device: %s", strerror(errno));
	if (device.max_qp_rd_atom > 254 || device.max_qp_init_rd_atom > 254)
		fail("there is no number that is too large");
	memory = allocate(SIZE);
	mr = ibv_reg_mr(adapter.pd, memory, SIZE,
			IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	try_matrix();
	refuse_attributes_of(IBV_QPS_RESET);
	refuse_attributes_of(IBV_QPS_INIT);
	refuse_attributes_of(IBV_QPS_RTR);
	refuse_attributes_of(IBV_QPS_RTS);
	refuse_attributes_of(IBV_QPS_ERR);
	say("attributes too many: ok");
	try_wrong_attributes();
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	by_hand_close(&adapter);
	say("states: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-states", help, run);
}
