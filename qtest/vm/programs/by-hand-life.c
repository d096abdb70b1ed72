// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-life: the life of objects, from the first that is made to the last that is
 * destroyed: what is in use stays and goes on; QPs go through their states, and what
 * is posted to them comes back once, in order, or not at all if the QP is destroyed.
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define DEPTH	16
#define SLOT	64
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define TIMES	20
#define MANY	4096

static const char help[] =
"usage: by-hand-life [options] ADAPTER\n"
"Makes objects, uses them, tries to destroy them in every order, and moves QPs\n"
"through their states.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_mr *mr;
static uint8_t *memory;

static void expect_status(int ret, int status, const char *what)
{
	if (ret != status)
		fail("%s: %s, not %s", what, strerror(ret), strerror(status));
}

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

static struct ibv_cq *make_cq(int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(adapter.context, cqe, NULL, NULL, 0);

	need(cq, "ibv_create_cq");
	if (cq->cqe < cqe)
		fail("a CQ of %d, not %d", cq->cqe, cqe);
	return cq;
}

static struct ibv_qp *make_qp_on(struct ibv_pd *pd, struct ibv_cq *send_cq,
				 struct ibv_cq *recv_cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	need(qp, "ibv_create_qp");
	return qp;
}

/* ------------------------------------------------------------- posting */

/* From and to the first octets; a Read is of the second slot, a Write to the fourth. */
static void post(struct ibv_qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode,
		 unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = opcode, .send_flags = flags,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory +
				(opcode == IBV_WR_RDMA_READ ? SLOT : 3 * SLOT),
			.rkey = mr->rkey,
		},
	};

	expect_status(ibv_post_send(qp, &wr, &bad), 0, "ibv_post_send");
}

static void post_send(struct ibv_qp *qp, uint64_t wr_id)
{
	post(qp, wr_id, IBV_WR_SEND, IBV_SEND_SIGNALED);
}

static void post_recv(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory + 2 * SLOT, SLOT, mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	expect_status(ibv_post_recv(qp, &wr, &bad), 0, "ibv_post_recv");
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id,
		      enum ibv_wc_status status, const char *what)
{
	struct ibv_wc wc = by_hand_wait(cq, what);

	if (wc.wr_id != wr_id || wc.status != status)
		fail("%s: WR %llu with %s, not %llu with %s", what,
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
		     ibv_wc_status_str(status));
}

static void expect_empty(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n)
		fail("%s: a completion of %llu", what,
		     (unsigned long long)wc.wr_id);
}

static int try_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* The change has happened when the call is over. */
static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	expect_status(try_state(qp, state), 0, "ibv_modify_qp");
	if (by_hand_state(qp) != state)
		fail("after a change to state %d it is %d", state,
		     by_hand_state(qp));
}

/* A message from the first to the second of a pair, and its two completions. */
static void send_one(struct by_hand_pair *pair, uint64_t wr_id)
{
	post_recv(pair->qps[1], wr_id);
	post_send(pair->qps[0], wr_id);
	expect_wc(pair->cqs[0], wr_id, IBV_WC_SUCCESS, "Send");
	expect_wc(pair->cqs[1], wr_id, IBV_WC_SUCCESS, "receive");
}

/* ----------------------------------------------------------- everything */

/* All kinds of objects, in the order in which the specification makes them. */
struct all {
	struct by_hand adapter;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qps[2];
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint8_t *memory;
};

static void make_qps(struct all *all)
{
	struct by_hand_pair pair;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		all->qps[i] = make_qp_on(all->adapter.pd, all->cq, all->cq,
					 all->srq);
		pair.qps[i] = all->qps[i];
	}
	by_hand_join(&all->adapter, &pair, RIGHTS);
}

static void make_all(struct all *all, const char *name)
{
	struct ibv_srq_init_attr srq = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};

	by_hand_open(&all->adapter, name);
	all->channel = ibv_create_comp_channel(all->adapter.context);
	need(all->channel, "ibv_create_comp_channel");
	all->cq = ibv_create_cq(all->adapter.context, 8 * DEPTH, NULL,
				all->channel, 0);
	need(all->cq, "ibv_create_cq");
	all->srq = ibv_create_srq(all->adapter.pd, &srq);
	need(all->srq, "ibv_create_srq");
	all->memory = allocate(SLOT);
	all->mr = ibv_reg_mr(all->adapter.pd, all->memory, SLOT,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	need(all->mr, "ibv_reg_mr");
	all->mw = ibv_alloc_mw(all->adapter.pd, IBV_MW_TYPE_2);
	need(all->mw, "ibv_alloc_mw");
	make_qps(all);
}

static void execute(struct all *all, struct ibv_send_wr *wr,
		    enum ibv_wc_opcode opcode)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags = IBV_SEND_SIGNALED;
	expect_status(ibv_post_send(all->qps[1], wr, &bad), 0, "posting");
	wc = by_hand_wait(all->cq, "bind or invalidation");
	check_completion(&wc, "bind or invalidation");
	if (wc.opcode != opcode)
		fail("completion of kind %d, not %d", wc.opcode, opcode);
}

static void bind_window(struct all *all)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = all->mw,
			.rkey = ibv_inc_rkey(all->mw->rkey),
			.bind_info = {
				.mr = all->mr,
				.addr = (uintptr_t)all->memory,
				.length = SLOT,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	execute(all, &wr, IBV_WC_BIND_MW);
	all->mw->rkey = wr.bind_mw.rkey;
}

static void invalidate_window(struct all *all)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = all->mw->rkey,
	};

	execute(all, &wr, IBV_WC_LOCAL_INV);
}

/* A Write through the window: all that is below it works. */
static void use_all(struct all *all)
{
	struct ibv_sge sge = { (uintptr_t)all->memory, 1, all->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = (uintptr_t)all->memory + 1,
			.rkey = all->mw->rkey,
		},
	};
	struct ibv_wc wc;

	all->memory[0]++;
	expect_status(ibv_post_send(all->qps[0], &wr, &bad), 0, "a Write");
	wc = by_hand_wait(all->cq, "Write");
	check_completion(&wc, "Write");
	if (all->memory[1] != all->memory[0])
		fail("a Write through a window did nothing");
}

/* V8.3.1-2: whether an event is asked for is as before as well. */
static void refuse_to_destroy_cq(struct all *all)
{
	expect_status(ibv_destroy_cq(all->cq), EBUSY, "a CQ in use");
	use_all(all);
	expect_cq_events(all->channel, 0, "not asked for");
	expect_status(ibv_req_notify_cq(all->cq, 0), 0, "ibv_req_notify_cq");
	expect_status(ibv_destroy_cq(all->cq), EBUSY, "a CQ in use");
	expect_cq_events(all->channel, 0, "of nothing");
	use_all(all);
	use_all(all);
	expect_cq_events(all->channel, 1, "asked for once");
}

/* Each of them has others that use it: none goes, and all go on. */
static void refuse_to_destroy(struct all *all)
{
	expect_status(ibv_dealloc_pd(all->adapter.pd), EBUSY, "a PD in use");
	refuse_to_destroy_cq(all);
	expect_status(ibv_destroy_srq(all->srq), EBUSY, "an S-RQ in use");
	expect_status(ibv_dereg_mr(all->mr), EBUSY, "a region in use");
	expect_status(ibv_destroy_qp(all->qps[1]), EBUSY, "a QP in use");
	use_all(all);
}

/* The last that uses a PD may be of any kind. */
static void destroy_all(struct all *all)
{
	struct ibv_pd *pd = all->adapter.pd;

	invalidate_window(all);
	expect_status(ibv_destroy_qp(all->qps[0]), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(all->cq), EBUSY, "a CQ in use");
	expect_status(ibv_destroy_qp(all->qps[1]), 0, "ibv_destroy_qp");
	expect_status(ibv_dealloc_mw(all->mw), 0, "ibv_dealloc_mw");
	expect_status(ibv_dealloc_pd(pd), EBUSY, "a PD in use");
	expect_status(ibv_dereg_mr(all->mr), 0, "ibv_dereg_mr");
	expect_status(ibv_dealloc_pd(pd), EBUSY, "a PD of an S-RQ");
	expect_status(ibv_destroy_srq(all->srq), 0, "ibv_destroy_srq");
	all->mr = ibv_reg_mr(pd, all->memory, SLOT, 0);
	expect_status(ibv_dealloc_pd(pd), EBUSY, "a PD of a region");
	expect_status(ibv_dereg_mr(all->mr), 0, "ibv_dereg_mr");
	all->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	expect_status(ibv_dealloc_pd(pd), EBUSY, "a PD of a window");
	expect_status(ibv_dealloc_mw(all->mw), 0, "ibv_dealloc_mw");
	all->qps[0] = make_qp_on(pd, all->cq, all->cq, NULL);
	expect_status(ibv_dealloc_pd(pd), EBUSY, "a PD of a QP");
	expect_status(ibv_destroy_qp(all->qps[0]), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(all->cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_comp_channel(all->channel), 0, "the channel");
	by_hand_close(&all->adapter);
	free(all->memory);
}

static void try_all(const char *name)
{
	uint64_t pinned = pinned_kb();
	struct all all = { 0 };

	make_all(&all, name);
	bind_window(&all);
	use_all(&all);
	refuse_to_destroy(&all);
	destroy_all(&all);
	if (pinned_kb() != pinned)
		fail("%llu kB stay pinned",
		     (unsigned long long)(pinned_kb() - pinned));
	say("all objects: ok");
}

/* ------------------------------------------------------------------ CQs */

/* In INIT a receive is taken; in ERR it comes back. */
static void flush_receives(struct ibv_qp *qp, unsigned int count, uint64_t first)
{
	unsigned int i;

	by_hand_init(qp, 0);
	for (i = 0; i < count; i++)
		post_recv(qp, first + i);
	to_state(qp, IBV_QPS_ERR);
}

/* Each of them comes once, whichever QP's flush is the first. */
static void take_each_once(struct ibv_cq *cq, unsigned int count)
{
	bool seen[256] = { false };
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct ibv_wc wc = by_hand_wait(cq, "a full CQ");

		if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.wr_id >= count ||
		    seen[wc.wr_id])
			fail("a full CQ: %s of WR %llu",
			     ibv_wc_status_str(wc.status),
			     (unsigned long long)wc.wr_id);
		seen[wc.wr_id] = true;
	}
	expect_empty(cq, "a CQ that was full");
}

/*
 * A CQ of any size takes as many completions as it says, of QPs of two PDs; the CQ of
 * their SQs is smaller than these.
 */
static void try_cq_size(int cqe)
{
	struct ibv_pd *pds[2] = { adapter.pd, ibv_alloc_pd(adapter.context) };
	struct ibv_cq *cq = make_cq(cqe), *small = make_cq(1);
	unsigned int count = cq->cqe, qps = 0, i;
	struct ibv_qp *qp[256 / DEPTH];

	need(pds[1], "ibv_alloc_pd");
	if (count > 256)
		fail("a CQ of %d has %u", cqe, count);
	for (i = 0; i < count; i += DEPTH) {
		qp[qps] = make_qp_on(pds[qps % 2], small, cq, NULL);
		flush_receives(qp[qps++], count - i < DEPTH ? count - i : DEPTH,
			       i);
	}
	take_each_once(cq, count);
	while (qps)
		expect_status(ibv_destroy_qp(qp[--qps]), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(small), 0, "ibv_destroy_cq");
	expect_status(ibv_dealloc_pd(pds[1]), 0, "ibv_dealloc_pd");
}

/* A CQ that is full: whenever one completion is taken there is room for one. */
static void try_full_cq(void)
{
	struct ibv_cq *cq = make_cq(DEPTH), *small = make_cq(1);
	struct ibv_qp *qp = make_qp_on(adapter.pd, small, cq, NULL);
	unsigned int i;

	if (cq->cqe != DEPTH)
		fail("a CQ of %d has %d", DEPTH, cq->cqe);
	flush_receives(qp, DEPTH, 0);
	for (i = 0; i < 100 * DEPTH; i++) {
		expect_wc(cq, i, IBV_WC_WR_FLUSH_ERR, "a full CQ");
		post_recv(qp, DEPTH + i);
	}
	for (; i < 101 * DEPTH; i++)
		expect_wc(cq, i, IBV_WC_WR_FLUSH_ERR, "a full CQ");
	expect_empty(cq, "a CQ that was full");
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(small), 0, "ibv_destroy_cq");
}

/* The completions of each queue are on its CQ, and on no other. */
static void try_two_cqs(void)
{
	struct ibv_cq *send_cq = make_cq(DEPTH), *recv_cq = make_cq(DEPTH);
	struct ibv_qp *qp = make_qp_on(adapter.pd, send_cq, recv_cq, NULL);
	unsigned int i;

	by_hand_init(qp, 0);
	for (i = 0; i < 3; i++) {
		post_recv(qp, 10 + i);
		post_send(qp, 20 + i);
	}
	/* Nothing is done of it without a connection. */
	poll(NULL, 0, 100);
	expect_empty(send_cq, "in INIT");
	expect_empty(recv_cq, "in INIT");
	to_state(qp, IBV_QPS_ERR);
	for (i = 0; i < 3; i++) {
		expect_wc(recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR, "receives");
		expect_wc(send_cq, 20 + i, IBV_WC_WR_FLUSH_ERR, "Sends");
	}
	expect_empty(send_cq, "all Sends have come back");
	expect_empty(recv_cq, "all receives have come back");
	expect_status(ibv_destroy_cq(send_cq), EBUSY, "the CQ of an SQ");
	expect_status(ibv_destroy_cq(recv_cq), EBUSY, "the CQ of an RQ");
	post_send(qp, 30);
	expect_wc(send_cq, 30, IBV_WC_WR_FLUSH_ERR, "a Send in ERR");
	post_recv(qp, 31);
	expect_wc(recv_cq, 31, IBV_WC_WR_FLUSH_ERR, "a receive in ERR");
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(send_cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(recv_cq), 0, "ibv_destroy_cq");
}

/* So many receives and Sends come back, numbered from @first and @first + DEPTH. */
static void flush(struct ibv_qp *qp, uint64_t first, unsigned int receives,
		  unsigned int sends)
{
	unsigned int i;

	by_hand_init(qp, 0);
	for (i = 0; i < receives; i++)
		post_recv(qp, first + i);
	for (i = 0; i < sends; i++)
		post_send(qp, first + DEPTH + i);
	to_state(qp, IBV_QPS_ERR);
}

/* Both queues of the QP are full, then flushed. */
static void flush_both(struct ibv_qp *qp, uint64_t first)
{
	flush(qp, first, DEPTH, DEPTH);
}

/* Each queue's completions in its order, and no more. */
static void take_both(struct ibv_cq *cq, uint64_t first)
{
	uint64_t next[2] = { first, first + DEPTH };
	unsigned int i;

	for (i = 0; i < 2 * DEPTH; i++) {
		struct ibv_wc wc = by_hand_wait(cq, "the last QP");
		uint64_t *due = &next[wc.wr_id >= first + DEPTH];

		if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.wr_id != (*due)++)
			fail("the last QP: %s of WR %llu",
			     ibv_wc_status_str(wc.status),
			     (unsigned long long)wc.wr_id);
	}
	expect_empty(cq, "the last QP");
}

/*
 * QPs go with all that is on their CQ, again and again: what they had is of no QP that
 * comes after them, and the CQ has just room for those of the next.
 */
static void try_destroyed(void)
{
	struct ibv_cq *cq = make_cq(2 * DEPTH);
	struct ibv_qp *qp;
	unsigned int i;

	for (i = 0; i < TIMES; i++) {
		qp = make_qp_on(adapter.pd, cq, cq, NULL);
		flush_both(qp, 100);
		expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
		expect_empty(cq, "of a QP that has gone");
	}
	qp = make_qp_on(adapter.pd, cq, cq, NULL);
	flush_both(qp, 200);
	take_both(cq, 200);
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
}

static struct ibv_cq *make_extended_cq(int cqe)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(adapter.context, &attr);

	need(cq, "ibv_create_cq_ex");
	return ibv_cq_ex_to_cq(cq);
}

/* The same as expect_empty() by the other interface, for a CQ of its own kind. */
static void expect_empty_extended(struct ibv_cq *cq, const char *what)
{
	struct ibv_poll_cq_attr attr = { };

	expect_status(ibv_start_poll((struct ibv_cq_ex *)cq, &attr), ENOENT,
		      what);
}

/*
 * A full CQ has a completion of a QP that stays, and behind it those of one that is
 * destroyed: once it is polled and empty, all of its places are free again.
 */
static void try_destroyed_behind(struct ibv_cq *cq,
				 void (*empty)(struct ibv_cq *, const char *))
{
	struct ibv_qp *stays = make_qp_on(adapter.pd, cq, cq, NULL);
	struct ibv_qp *goes = make_qp_on(adapter.pd, cq, cq, NULL);

	flush(stays, 300, 1, 0);
	flush(goes, 100, DEPTH, DEPTH - 1);
	expect_status(ibv_destroy_qp(goes), 0, "ibv_destroy_qp");
	expect_wc(cq, 300, IBV_WC_WR_FLUSH_ERR, "of the QP that stays");
	empty(cq, "of a QP that has gone");
	goes = make_qp_on(adapter.pd, cq, cq, NULL);
	flush_both(goes, 200);
	take_both(cq, 200);
	expect_status(ibv_destroy_qp(goes), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_qp(stays), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
}

/* More receives are posted than their CQ has room for completions; all of them
 * complete in turn. */
static void try_small_cq(void)
{
	struct ibv_cq *cq = make_cq(DEPTH), *small = make_cq(1);
	struct by_hand_pair pairs[2];
	unsigned int i, k;

	if (small->cqe >= 2 * DEPTH)
		fail("a CQ of 1 has %d", small->cqe);
	for (k = 0; k < 2; k++) {
		pairs[k].qps[0] = make_qp_on(adapter.pd, cq, cq, NULL);
		pairs[k].qps[1] = make_qp_on(adapter.pd, cq, small, NULL);
		by_hand_join(&adapter, &pairs[k], RIGHTS);
		for (i = 0; i < DEPTH; i++)
			post_recv(pairs[k].qps[1], i);
	}
	for (i = 0; i < DEPTH; i++)
		for (k = 0; k < 2; k++) {
			post_send(pairs[k].qps[0], i);
			expect_wc(cq, i, IBV_WC_SUCCESS, "Send");
			expect_wc(small, i, IBV_WC_SUCCESS, "small CQ");
		}
	for (k = 0; k < 2; k++)
		for (i = 0; i < 2; i++)
			expect_status(ibv_destroy_qp(pairs[k].qps[i]), 0,
				      "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(small), 0, "ibv_destroy_cq");
}

/* One completion more than there is room for; those before it are there. */
static void overflow(struct by_hand_pair *pair)
{
	struct ibv_cq *cq = pair->cqs[0];
	int count = cq->cqe, i;

	for (i = 0; i <= count; i++)
		post(pair->qps[0], i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	by_hand_expect_overflow(&adapter, cq, pair->qps[0]);
	for (i = 0; i < count; i++)
		expect_wc(cq, i, IBV_WC_SUCCESS, "before the overflow");
	expect_empty(cq, "behind the overflow");
}

/* The program is told how many completions have room from now on. */
static void resize(struct ibv_cq *cq, int cqe)
{
	expect_status(ibv_resize_cq(cq, cqe), 0, "ibv_resize_cq");
	if (cq->cqe < cqe || cq->cqe >= 2 * cqe)
		fail("a CQ of %d after it is resized to %d", cq->cqe, cqe);
}

/*
 * Two CQs that the program does not poll: each event names the one that is full. One
 * has become larger, the other one smaller.
 */
static void try_overflow(void)
{
	const int before[] = { 1, MANY }, after = DEPTH / 2;
	struct by_hand_pair pairs[2];
	unsigned int i, k;

	for (k = 0; k < 2; k++) {
		for (i = 0; i < 2; i++) {
			pairs[k].cqs[i] = make_cq(before[k]);
			resize(pairs[k].cqs[i], after);
			pairs[k].qps[i] = make_qp_on(adapter.pd,
						     pairs[k].cqs[i],
						     pairs[k].cqs[i], NULL);
		}
		by_hand_join(&adapter, &pairs[k], RIGHTS);
	}
	for (k = 2; k-- > 0; )
		overflow(&pairs[k]);
	for (k = 0; k < 2; k++)
		by_hand_free(&pairs[k]);
}

/* A CQ goes with what is on it, and an event that was asked for does not come. */
static void try_unpolled(void)
{
	struct ibv_comp_channel *channel =
		ibv_create_comp_channel(adapter.context);
	struct pollfd fd = { .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	unsigned int i;

	need(channel, "ibv_create_comp_channel");
	fd.fd = channel->fd;
	for (i = 0; i < TIMES; i++) {
		cq = ibv_create_cq(adapter.context, DEPTH, NULL, channel, 0);
		need(cq, "ibv_create_cq");
		qp = make_qp_on(adapter.pd, cq, cq, NULL);
		flush_receives(qp, DEPTH, 100);
		expect_status(ibv_req_notify_cq(cq, 0), 0, "ibv_req_notify_cq");
		expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
		expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
	}
	if (poll(&fd, 1, 300) > 0)
		fail("an event of a CQ that has gone");
	expect_status(ibv_destroy_comp_channel(channel), 0, "the channel");
}

static void try_cqs(void)
{
	static const int sizes[] = { 1, 3, 17, 100 };
	unsigned int i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		try_cq_size(sizes[i]);
	try_full_cq();
	try_two_cqs();
	try_small_cq();
	try_overflow();
	try_destroyed();
	try_destroyed_behind(make_cq(2 * DEPTH), expect_empty);
	try_destroyed_behind(make_extended_cq(2 * DEPTH),
			     expect_empty_extended);
	try_unpolled();
	say("CQs: ok");
}

/* ---------------------------------------------------------------- S-RQ */

static bool is_limit_event(struct ibv_srq *srq, double seconds)
{
	struct pollfd fd = { .fd = adapter.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, seconds * 1000) > 0) {
		if (ibv_get_async_event(adapter.context, &event))
			fail("ibv_get_async_event: %s", strerror(errno));
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			return event.element.srq == srq;
	}
	return false;
}

static void post_srq_recv(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory + 2 * SLOT, SLOT, mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	expect_status(ibv_post_srq_recv(srq, &wr, &bad), 0, "ibv_post_srq_recv");
}

/* With the limit 2, given when the S-RQ is made, or none: three WRs, two messages. */
static void try_srq_limit(uint32_t limit)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = 4, .max_sge = 1, .srq_limit = limit },
	};
	struct ibv_srq *srq = ibv_create_srq(adapter.pd, &init);
	struct by_hand_pair pair = { .cqs = { make_cq(8), make_cq(8) } };
	unsigned int i;

	need(srq, "ibv_create_srq");
	for (i = 0; i < 2; i++)
		pair.qps[i] = make_qp_on(adapter.pd, pair.cqs[i], pair.cqs[i],
					 i ? srq : NULL);
	by_hand_join(&adapter, &pair, 0);
	for (i = 0; i < 3; i++)
		post_srq_recv(srq, i);
	for (i = 0; i < 2; i++) {
		post_send(pair.qps[0], i);
		expect_wc(pair.cqs[0], i, IBV_WC_SUCCESS, "Send");
		expect_wc(pair.cqs[1], i, IBV_WC_SUCCESS, "receive");
		if (is_limit_event(srq, i && limit ? time_limit : 0.3) !=
		    (i && limit))
			fail("limit %u, %u WRs left: the event is wrong", limit,
			     2 - i);
	}
	by_hand_free(&pair);
	expect_status(ibv_destroy_srq(srq), 0, "ibv_destroy_srq");
}

/* --------------------------------------------------------------- states */

/* What is posted before the connection is sent with it, ahead of what comes later. */
static void try_posted_before(void)
{
	struct by_hand_pair pair;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		pair.cqs[i] = make_cq(2 * DEPTH);
		pair.qps[i] = make_qp_on(adapter.pd, pair.cqs[i], pair.cqs[i],
					 NULL);
		by_hand_init(pair.qps[i], RIGHTS);
	}
	for (i = 0; i < 8; i++)
		post_recv(pair.qps[1], i);
	for (i = 0; i < 4; i++)
		post_send(pair.qps[0], i);
	for (i = 0; i < 2; i++)
		by_hand_rtr(&adapter, pair.qps[i], pair.qps[!i]->qp_num, 0);
	for (i = 0; i < 2; i++)
		by_hand_rts(&adapter, pair.qps[i], 0);
	for (i = 4; i < 8; i++)
		post_send(pair.qps[0], i);
	for (i = 0; i < 8; i++) {
		expect_wc(pair.cqs[0], i, IBV_WC_SUCCESS, "Send");
		expect_wc(pair.cqs[1], i, IBV_WC_SUCCESS, "receive");
	}
	by_hand_free(&pair);
}

static unsigned int fill_sq(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory + SLOT,
			.rkey = mr->rkey,
		},
	};
	int ret;

	while (!(ret = ibv_post_send(qp, &wr, &bad)))
		if (++wr.wr_id > MANY)
			fail("the SQ is never full");
	expect_status(ret, ENOMEM, "a full SQ");
	return wr.wr_id;
}

static struct ibv_qp_cap capabilities(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	expect_status(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0,
		      "ibv_query_qp");
	return init.cap;
}

/* No room for what is outstanding: the QP stays as it is. */
static void refuse_depths(struct ibv_qp *qp, uint32_t send_wr, uint32_t recv_wr)
{
	struct ibv_qp_attr attr = { .cap = capabilities(qp) };
	struct ibv_qp_cap before = attr.cap, after;

	attr.cap.max_send_wr = send_wr;
	attr.cap.max_recv_wr = recv_wr;
	expect_status(ibv_modify_qp(qp, &attr, IBV_QP_CAP), EINVAL,
		      "queues too small for what is in them");
	after = capabilities(qp);
	if (memcmp(&before, &after, sizeof(before)))
		fail("a refused change of depths: the SQ has %u, the RQ %u",
		     after.max_send_wr, after.max_recv_wr);
}

/* Both queues are full of what waits for the connection. */
static void try_shrink_full(void)
{
	struct by_hand_pair pair;
	unsigned int count, i;

	for (i = 0; i < 2; i++) {
		pair.cqs[i] = make_cq(MANY);
		pair.qps[i] = make_qp_on(adapter.pd, pair.cqs[i], pair.cqs[i],
					 NULL);
		by_hand_init(pair.qps[i], RIGHTS);
	}
	count = fill_sq(pair.qps[0]);
	for (i = 0; i < DEPTH; i++)
		post_recv(pair.qps[0], i);
	refuse_depths(pair.qps[0], DEPTH / 2, DEPTH);
	refuse_depths(pair.qps[0], DEPTH, DEPTH / 2);
	refuse_depths(pair.qps[0], 1, 1);
	for (i = 0; i < 2; i++)
		by_hand_rtr(&adapter, pair.qps[i], pair.qps[!i]->qp_num, 0);
	for (i = 0; i < 2; i++)
		by_hand_rts(&adapter, pair.qps[i], 0);
	for (i = 0; i < count; i++)
		expect_wc(pair.cqs[0], i, IBV_WC_SUCCESS, "a held Write");
	for (i = 0; i < DEPTH; i++) {
		post_send(pair.qps[1], i);
		expect_wc(pair.cqs[1], i, IBV_WC_SUCCESS, "Send");
		expect_wc(pair.cqs[0], i, IBV_WC_SUCCESS, "a held receive");
	}
	if (fill_sq(pair.qps[0]) != count)
		fail("a refused change of depths changes the SQ");
	for (i = 0; i < count; i++)
		expect_wc(pair.cqs[0], i, IBV_WC_SUCCESS, "a Write");
	expect_empty(pair.cqs[0], "all are complete");
	by_hand_free(&pair);
}

/* Many more Reads than may be outstanding, which is one. */
static void try_reads(struct by_hand_pair *pair)
{
	unsigned int i;

	memory[SLOT] = 77;
	for (i = 0; i < DEPTH; i++)
		post(pair->qps[0], i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);
	for (i = 0; i < DEPTH; i++)
		expect_wc(pair->cqs[0], i, IBV_WC_SUCCESS, "Read");
	if (memory[0] != 77)
		fail("Reads have read nothing");
}

/* All that is outstanding comes back, in order, at both ends. */
static void expect_flushed(struct by_hand_pair *pair)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		expect_wc(pair->cqs[1], 50 + i, IBV_WC_WR_FLUSH_ERR, "receive");
	for (i = 0; i < 4; i++)
		expect_wc(pair->cqs[0], 40 + i, IBV_WC_WR_FLUSH_ERR, "receive");
	expect_empty(pair->cqs[0], "after the flush");
	expect_empty(pair->cqs[1], "after the flush");
}

static void post_waiting(struct by_hand_pair *pair)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		post_recv(pair->qps[0], 40 + i);
		post_recv(pair->qps[1], 50 + i);
	}
}

/* Back to RESET, and with each other again. */
static void join_again(struct by_hand_pair *pair)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		to_state(pair->qps[i], IBV_QPS_RESET);
	by_hand_join(&adapter, pair, RIGHTS);
	send_one(pair, 60);
	try_reads(pair);
}

/*
 * One end terminates the connection; the other is told by an event, and comes to ERR
 * by itself. The one that left has asked for it, and is told nothing.
 */
static void try_terminate(struct by_hand_pair *pair)
{
	enum ibv_qp_state state;

	send_one(pair, 1);
	post_waiting(pair);
	expect_status(try_state(pair->qps[0], IBV_QPS_SQE), 0, "SQE");
	state = by_hand_state(pair->qps[0]);
	if (state != IBV_QPS_ERR && state != IBV_QPS_SQE)
		fail("after a change to SQE the state is %d", state);
	by_hand_expect_event(&adapter, pair->qps[1], IBV_EVENT_QP_FATAL);
	by_hand_await_error(pair->qps[0]);
	by_hand_await_error(pair->qps[1]);
	expect_flushed(pair);
	by_hand_expect_no_event(&adapter, pair->qps[0]);
	join_again(pair);
}

/* Neither is done, and neither fails in its own way: both are flushed. */
static void flush_window_work(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_mw *mw = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, invalidate = {
		.wr_id = 85, .opcode = IBV_WR_LOCAL_INV,
	}, bind = {
		.wr_id = 84, .next = &invalidate, .opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)memory,
				.length = SLOT,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	need(mw, "ibv_alloc_mw");
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	invalidate.invalidate_rkey = bind.bind_mw.rkey;
	expect_status(ibv_post_send(qp, &bind, &bad), 0, "ibv_post_send");
	expect_wc(cq, 84, IBV_WC_WR_FLUSH_ERR, "a bind in ERR");
	expect_wc(cq, 85, IBV_WC_WR_FLUSH_ERR, "an Invalidate in ERR");
	expect_status(ibv_dealloc_mw(mw), 0, "ibv_dealloc_mw");
}

/* In ERR there is no way to RTS but by RESET. What is complete stays where it is. */
static void try_error(struct by_hand_pair *pair)
{
	struct ibv_qp *qp = pair->qps[1];
	unsigned int i;

	post_recv(qp, 70);
	post_send(pair->qps[0], 70);
	expect_wc(pair->cqs[0], 70, IBV_WC_SUCCESS, "Send");
	post_waiting(pair);
	to_state(qp, IBV_QPS_ERR);
	if (try_state(qp, IBV_QPS_RTS) != EINVAL ||
	    try_state(qp, IBV_QPS_SQE) != EINVAL)
		fail("from ERR to another state: not EINVAL");
	if (by_hand_state(qp) != IBV_QPS_ERR)
		fail("a refused change takes a QP out of ERR");
	expect_wc(pair->cqs[1], 70, IBV_WC_SUCCESS, "before ERR");
	/* The peer misses it when it asks for something. */
	post(pair->qps[0], 71, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	expect_wc(pair->cqs[0], 71, IBV_WC_RETRY_EXC_ERR, "the peer");
	by_hand_await_error(pair->qps[0]);
	expect_flushed(pair);
	for (i = 0; i < 4; i++)
		post(qp, 80 + i, IBV_WR_RDMA_WRITE, 0);
	for (i = 0; i < 4; i++)
		expect_wc(pair->cqs[1], 80 + i, IBV_WC_WR_FLUSH_ERR,
			  "posted in ERR");
	flush_window_work(qp, pair->cqs[1]);
	join_again(pair);
}

/* From ERR to RESET while thousands are being flushed: the change waits for that, and
 * what is posted afterwards is all that there is. */
static void try_reset_at_once(void)
{
	struct ibv_cq *cq = make_cq(MANY);
	struct ibv_qp *qp = by_hand_qp(&adapter, cq, MANY);
	unsigned int i, k;

	for (i = 0; i < TIMES; i++) {
		by_hand_init(qp, 0);
		for (k = 0; k < MANY; k++)
			post_recv(qp, k);
		expect_status(try_state(qp, IBV_QPS_ERR), 0, "ERR");
		to_state(qp, IBV_QPS_RESET);
		by_hand_init(qp, 0);
		post_recv(qp, MANY + i);
		to_state(qp, IBV_QPS_ERR);
		expect_wc(cq, MANY + i, IBV_WC_WR_FLUSH_ERR, "after RESET");
		expect_empty(cq, "after RESET");
		to_state(qp, IBV_QPS_RESET);
	}
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
}

/* Nothing is taken. */
static void refuse_in_reset(struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad_recv = NULL, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad = NULL, send = {
		.wr_id = 2, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	expect_status(ibv_post_send(qp, &send, &bad), EINVAL, "a Send in RESET");
	expect_status(ibv_post_recv(qp, &recv, &bad_recv), EINVAL,
		      "a receive in RESET");
	if (bad != &send || bad_recv != &recv)
		fail("what is refused in RESET is not the bad one");
}

/* Of what was refused in RESET nothing is done later, whether the QP is new or not. */
static void try_refused_in_reset(void)
{
	struct by_hand_pair pair;
	unsigned int round, i;

	for (i = 0; i < 2; i++) {
		pair.cqs[i] = make_cq(DEPTH);
		pair.qps[i] = make_qp_on(adapter.pd, pair.cqs[i], pair.cqs[i],
					 NULL);
	}
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 2; i++) {
			to_state(pair.qps[i], IBV_QPS_RESET);
			refuse_in_reset(pair.qps[i]);
		}
		by_hand_join(&adapter, &pair, RIGHTS);
		send_one(&pair, 3);
		poll(NULL, 0, 20);
		expect_empty(pair.cqs[0], "refused in RESET");
		expect_empty(pair.cqs[1], "refused in RESET");
	}
	by_hand_free(&pair);
}

/* Reads of the one, and Sends and Writes of the other, none of them signaled. */
static void post_both_ways(struct by_hand_pair *pair)
{
	unsigned int k;

	for (k = 0; k < DEPTH; k++)
		post_recv(pair->qps[0], k);
	for (k = 0; k < DEPTH; k++) {
		post(pair->qps[0], k, IBV_WR_RDMA_READ, 0);
		post(pair->qps[1], k,
		     k % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0);
	}
}

/* What nobody has posted changes neither the memory nor the CQ. */
static void expect_over(struct ibv_cq *cq)
{
	unsigned int k;

	memset(memory, 0x77, SLOT);
	memset(memory + SLOT, 0x55, 3 * SLOT);
	expect_empty(cq, "after RESET");
	poll(NULL, 0, 20);
	for (k = 0; k < 4 * SLOT; k++)
		if (memory[k] != (k < SLOT ? 0x77 : 0x55))
			fail("after RESET octet %u has changed", k);
	expect_empty(cq, "after RESET");
}

/* Work is under way, and nobody wants to hear of it: behind ERR and RESET it is over,
 * and the memory is the program's. */
static void try_reset_under_way(void)
{
	struct by_hand_pair pair;
	unsigned int i, k;

	for (i = 0; i < TIMES; i++) {
		for (k = 0; k < 2; k++) {
			pair.cqs[k] = make_cq(2 * DEPTH);
			pair.qps[k] = make_qp_on(adapter.pd, pair.cqs[k],
						 pair.cqs[k], NULL);
		}
		by_hand_join(&adapter, &pair, RIGHTS);
		post_both_ways(&pair);
		expect_status(try_state(pair.qps[0], IBV_QPS_ERR), 0, "ERR");
		to_state(pair.qps[0], IBV_QPS_RESET);
		expect_over(pair.cqs[0]);
		by_hand_free(&pair);
	}
}

/* Its stream has gone: what the peer posts fails, and its receives come back. */
static void expect_peer_fails(struct by_hand_pair *pair)
{
	unsigned int i;

	post(pair->qps[1], 90, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	for (i = 0; i < 5; i++)
		if (by_hand_wait(pair->cqs[1], "the peer").status ==
		    IBV_WC_SUCCESS)
			fail("a QP without a peer completes something");
	by_hand_await_error(pair->qps[1]);
}

/* A QP is destroyed in any state, with all that is posted to it; of that nothing is
 * done any more. */
static void destroy_in(enum ibv_qp_state state)
{
	struct by_hand_pair pair;
	unsigned int i;

	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	post_waiting(&pair);
	for (i = 0; i < DEPTH; i++)
		post(pair.qps[0], i, IBV_WR_RDMA_READ, 0);
	if (state != IBV_QPS_RTS)
		expect_status(try_state(pair.qps[0], state), 0, "state");
	expect_status(ibv_destroy_qp(pair.qps[0]), 0, "ibv_destroy_qp");
	expect_empty(pair.cqs[0], "of a QP that has gone");
	expect_peer_fails(&pair);
	expect_status(ibv_destroy_cq(pair.cqs[0]), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_qp(pair.qps[1]), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(pair.cqs[1]), 0, "ibv_destroy_cq");
}

static void destroy_unconnected(enum ibv_qp_state state)
{
	struct ibv_cq *cq = make_cq(4);
	struct ibv_qp *qp = make_qp_on(adapter.pd, cq, cq, NULL);

	if (state == IBV_QPS_INIT) {
		by_hand_init(qp, 0);
		post_recv(qp, 1);
		post_send(qp, 2);
	} else {
		to_state(qp, state);
	}
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_empty(cq, "of a QP that has gone");
	expect_status(ibv_destroy_cq(cq), 0, "ibv_destroy_cq");
}

static void try_states(void)
{
	struct by_hand_pair pair;

	try_posted_before();
	try_shrink_full();
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	try_reads(&pair);
	try_terminate(&pair);
	try_error(&pair);
	by_hand_free(&pair);
	try_reset_at_once();
	try_reset_under_way();
	try_refused_in_reset();
	say("states of QPs: ok");
	destroy_unconnected(IBV_QPS_RESET);
	destroy_unconnected(IBV_QPS_INIT);
	destroy_in(IBV_QPS_RTS);
	destroy_in(IBV_QPS_SQE);
	destroy_in(IBV_QPS_ERR);
	say("QPs destroyed in all states: ok");
}

static void run(const char *name)
{
	try_all(name);
	by_hand_open(&adapter, name);
	memory = allocate(4096);
	mr = ibv_reg_mr(adapter.pd, memory, 4096,
			IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	need(mr, "ibv_reg_mr");
	try_cqs();
	try_srq_limit(0);
	try_srq_limit(2);
	say("the limit of an S-RQ: ok");
	try_states();
	expect_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
	by_hand_close(&adapter);
	say("life: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-life", help, run);
}
