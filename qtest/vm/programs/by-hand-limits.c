// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-limits: all PDs and all QPs that there can be, in use: each PD is another
 * one, takes objects of all kinds, and keeps its memory from the QPs of others; every
 * QP can have a Read. What names an object that has gone makes nothing.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	4096
#define DEPTH	4
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-limits [options] ADAPTER\n"
"Makes as many PDs and QPs as the adapter says, and uses them. Let these be few.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_device_attr device;
static uint8_t *memory;

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

static void expect_status(int ret, int status, const char *what)
{
	if (ret != status)
		fail("%s: %s, not %s", what, strerror(ret), strerror(status));
}

static struct ibv_mr *register_on(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, SIZE,
				       IBV_ACCESS_LOCAL_WRITE | RIGHTS |
				       IBV_ACCESS_MW_BIND);

	need(mr, "ibv_reg_mr");
	return mr;
}

/* From the first QP of the pair, by its memory, to that of another region. */
static enum ibv_wc_status transfer(struct by_hand_pair *pair,
				   enum ibv_wr_opcode opcode,
				   const struct ibv_mr *own,
				   const struct ibv_mr *other)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, own->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory + 64,
			.rkey = other->rkey,
		},
	};

	expect_status(ibv_post_send(pair->qps[0], &wr, &bad), 0, "posting");
	return by_hand_wait(pair->cqs[0], "transfer").status;
}

/* ------------------------------------------------------------------ PDs */

/* Memory of pd is no other's: not what a peer names, nor what an own WR does. */
static void try_foreign(struct ibv_pd *pd, const struct ibv_mr *own)
{
	struct ibv_mr *foreign = register_on(pd);
	struct by_hand_pair pair;

	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	expect_status(transfer(&pair, IBV_WR_RDMA_WRITE, own, own),
		      IBV_WC_SUCCESS, "a Write within a PD");
	expect_status(transfer(&pair, IBV_WR_RDMA_WRITE, own, foreign),
		      IBV_WC_REM_ACCESS_ERR, "a Write to another PD's memory");
	by_hand_free(&pair);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	expect_status(transfer(&pair, IBV_WR_RDMA_WRITE, foreign, own),
		      IBV_WC_LOC_PROT_ERR, "a Write of another PD's memory");
	by_hand_free(&pair);
	if (ibv_dereg_mr(foreign))
		fail("ibv_dereg_mr: %s", strerror(errno));
}

static void bind_window(struct by_hand_pair *pair, struct ibv_mw *mw,
			struct ibv_mr *mr)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr, .addr = (uintptr_t)memory,
				.length = SIZE, .mw_access_flags = RIGHTS,
			},
		},
	};
	struct ibv_wc wc;

	expect_status(ibv_post_send(pair->qps[1], &wr, &bad), 0, "posting");
	wc = by_hand_wait(pair->cqs[1], "bind");
	check_completion(&wc, "bind");
	mw->rkey = wr.bind_mw.rkey;
}

/* One object of each kind, all of which work together. */
static void try_all_kinds(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_mr *mr = register_on(pd), window;
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_pd *before = adapter.pd;
	struct by_hand_pair pair;

	need(srq, "ibv_create_srq");
	need(mw, "ibv_alloc_mw");
	adapter.pd = pd;
	by_hand_connect(&adapter, &pair, pd, RIGHTS, DEPTH);
	adapter.pd = before;
	bind_window(&pair, mw, mr);
	window = *mr;
	window.rkey = mw->rkey;
	expect_status(transfer(&pair, IBV_WR_RDMA_WRITE, mr, mr),
		      IBV_WC_SUCCESS, "a Write");
	expect_status(transfer(&pair, IBV_WR_RDMA_READ, mr, &window),
		      IBV_WC_SUCCESS, "a Read through a window");
	expect_status(ibv_dealloc_mw(mw), 0, "ibv_dealloc_mw");
	by_hand_free(&pair);
	expect_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
	expect_status(ibv_destroy_srq(srq), 0, "ibv_destroy_srq");
}

static void try_pds(void)
{
	int number = device.max_pd - 1, i;
	struct ibv_pd **pds = calloc(number + 1, sizeof(*pds));
	struct ibv_mr *own = register_on(adapter.pd);

	for (i = 0; i < number; i++) {
		pds[i] = ibv_alloc_pd(adapter.context);
		need(pds[i], "a PD");
	}
	if (ibv_alloc_pd(adapter.context) || errno != ENOMEM)
		fail("more PDs than there can be");
	for (i = 0; i < number; i++)
		try_foreign(pds[i], own);
	try_all_kinds(pds[0]);
	try_all_kinds(pds[number / 2]);
	try_all_kinds(pds[number - 1]);
	for (i = 0; i < number; i++)
		expect_status(ibv_dealloc_pd(pds[i]), 0, "ibv_dealloc_pd");
	expect_status(ibv_dereg_mr(own), 0, "ibv_dereg_mr");
	free(pds);
	say("%d PDs: ok", number);
}

/* ------------------------------------------------------------------ QPs */

/* The last two of all are connected, each with one Read at a time. */
static void try_qps(void)
{
	struct by_hand_pair pair = {
		.cqs = { ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0),
			 ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0) },
	};
	struct ibv_qp **qps = calloc(device.max_qp + 1, sizeof(*qps));
	struct ibv_mr *mr = register_on(adapter.pd);
	int number = device.max_qp, i;

	need(pair.cqs[0], "ibv_create_cq");
	need(pair.cqs[1], "ibv_create_cq");
	for (i = 0; i < number; i++) {
		qps[i] = by_hand_qp(&adapter, pair.cqs[i % 2], 1);
		by_hand_init(qps[i], RIGHTS);
	}
	pair.qps[0] = qps[number - 2];
	pair.qps[1] = qps[number - 1];
	by_hand_join(&adapter, &pair, RIGHTS);
	memory[64] = 77;
	/* An even number of QPs, so that their CQs are those of the pair. */
	if (number % 2)
		fail("max_qp is odd");
	expect_status(transfer(&pair, IBV_WR_RDMA_READ, mr, mr),
		      IBV_WC_SUCCESS, "a Read of the last QP");
	if (memory[0] != 77)
		fail("a Read has read nothing");
	for (i = 0; i < number; i++)
		expect_status(ibv_destroy_qp(qps[i]), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(pair.cqs[0]), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(pair.cqs[1]), 0, "ibv_destroy_cq");
	expect_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
	free(qps);
	say("%d QPs: ok", number);
}

/* ------------------------------------------------------- what has gone */

struct named {
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
};

static struct ibv_qp *try_qp(const struct named *n)
{
	struct ibv_qp_init_attr init = {
		.send_cq = n->send_cq, .recv_cq = n->recv_cq, .srq = n->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	errno = 0;
	return ibv_create_qp(adapter.pd, &init);
}

/* The core knows no such object, or the library is given none. */
static void refuse(const void *object, const char *what)
{
	if (object || (errno != EINVAL && errno != ENOENT))
		fail("%s: %s", what, object ? "made" : strerror(errno));
}

/* The library keeps the kernel's number of an object, which is changed here. */
static void try_gone_pd(struct named *n)
{
	struct ibv_pd *gone = ibv_alloc_pd(adapter.context);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	uint32_t handle = adapter.pd->handle, stale;

	need(gone, "ibv_alloc_pd");
	stale = gone->handle;
	expect_status(ibv_dealloc_pd(gone), 0, "ibv_dealloc_pd");
	adapter.pd->handle = stale;
	refuse(try_qp(n), "a QP on a PD that has gone");
	refuse(ibv_create_srq(adapter.pd, &srq), "an S-RQ on such a PD");
	refuse(ibv_reg_mr(adapter.pd, memory, SIZE, 0), "a region of such a PD");
	refuse(ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2), "a window of such a PD");
	adapter.pd->handle = handle;
}

static void try_gone_cq(struct named *n, struct ibv_cq *cq, uint32_t stale)
{
	uint32_t handle = cq->handle;

	cq->handle = stale;
	refuse(try_qp(n), "a QP on a CQ that has gone");
	cq->handle = handle;
}

static void try_gone(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct named n = {
		.send_cq = ibv_create_cq(adapter.context, 4, NULL, NULL, 0),
		.recv_cq = ibv_create_cq(adapter.context, 4, NULL, NULL, 0),
	}, wrong;
	struct ibv_srq *srq = ibv_create_srq(adapter.pd, &init);
	struct ibv_srq *other = ibv_create_srq(adapter.pd, &init);
	struct ibv_cq *gone = ibv_create_cq(adapter.context, 4, NULL, NULL, 0);
	uint32_t stale, handle;
	struct ibv_qp *qp;

	need(n.send_cq && n.recv_cq && srq && other ? gone : NULL, "objects");
	stale = gone->handle;
	expect_status(ibv_destroy_cq(gone), 0, "ibv_destroy_cq");
	try_gone_pd(&n);
	try_gone_cq(&n, n.send_cq, stale);
	try_gone_cq(&n, n.recv_cq, stale);
	stale = other->handle;
	handle = srq->handle;
	expect_status(ibv_destroy_srq(other), 0, "ibv_destroy_srq");
	n.srq = srq;
	srq->handle = stale;
	refuse(try_qp(&n), "a QP on an S-RQ that has gone");
	srq->handle = handle;

	wrong = n;
	wrong.send_cq = NULL;
	refuse(try_qp(&wrong), "a QP without a CQ of its SQ");
	wrong = n;
	wrong.recv_cq = NULL;
	refuse(try_qp(&wrong), "a QP without a CQ of its RQ");
	qp = try_qp(&n);
	need(qp, "a QP of all these");
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_srq(srq), 0, "ibv_destroy_srq");
	expect_status(ibv_destroy_cq(n.send_cq), 0, "ibv_destroy_cq");
	expect_status(ibv_destroy_cq(n.recv_cq), 0, "ibv_destroy_cq");
	say("what has gone: ok");
}

static void run(const char *name)
{
	by_hand_open(&adapter, name);
	if (ibv_query_device(adapter.context, &device))
		fail("ibv_query_device: %s", strerror(errno));
	memory = allocate(SIZE);
	try_pds();
	try_qps();
	try_gone();
	by_hand_close(&adapter);
	say("all there can be: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-limits", help, run);
}
