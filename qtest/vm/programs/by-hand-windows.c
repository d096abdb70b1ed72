// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-windows: a memory window of type 1 is its PD's: whichever QP binds it,
 * all QPs of the PD serve it to their peers, and no others. One of type 2 is the QP's
 * that binds it: that QP, and the region below, stay as long as it is bound.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS	500
#define PAIRS	3		/* the QP that serves: 0 and 1 of the PD, 2 not */
#define DEPTH	8
#define SIZE	8192		/* octets of the region */
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-windows [options] ADAPTER\n"
"Binds a window of type 1 through each of two QPs, and tries all their peers; then\n"
"one of type 2, and what must not be done meanwhile.\n"
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
				   uint32_t rkey, uint64_t offset,
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
	by_hand_expect_event(&adapter, pairs[i].qps[1],
			     IBV_EVENT_QP_ACCESS_ERR);
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

static void expect_bind_refused(struct ibv_qp *qp, struct ibv_mw *window,
				struct ibv_mr *mr, uint32_t length,
				const char *what)
{
	struct ibv_mw_bind bind = {
		.bind_info = {
			.mr = mr,
			.addr = (uintptr_t)mr->addr,
			.length = length,
			.mw_access_flags = RIGHTS,
		},
	};
	uint32_t rkey = window->rkey;
	int ret = ibv_bind_mw(qp, window, &bind);

	if (ret != EINVAL)
		fail("%s: %s, not EINVAL", what, strerror(ret));
	if (window->rkey != rkey)
		fail("%s changes the rkey", what);
}

/* Refused where it is posted (V7.2.1-12), so the QP goes on. */
static void refuse_stag_zero(void)
{
	struct ibv_qp *qp = pairs[0].qps[1];
	struct ibv_mr no_region = *region_mr;
	struct ibv_mw no_window = *mw;

	no_region.lkey = no_region.rkey = 0;
	expect_bind_refused(qp, mw, &no_region, 64, "a bind to STag zero");
	no_region.lkey = 0x55;
	expect_bind_refused(qp, mw, &no_region, 64, "a bind to index zero");
	no_window.rkey = 0x55;
	expect_bind_refused(qp, &no_window, region_mr, 64,
			    "a bind of index zero");
	expect_bind_refused(qp, &no_window, region_mr, 0,
			    "a bind of index zero to nothing");
	if (bind_by(0, 0, 64))
		fail("a bind behind those that were refused");
	if (bind_by(0, 0, 0))
		fail("a bind of no length");
}

/* By a call of its own, it is posted like any other work request: not in RESET. */
static void refuse_in_reset(void)
{
	struct ibv_cq *cq = ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0);
	struct ibv_qp *qp;

	if (!cq)
		fail("ibv_create_cq: %s", strerror(errno));
	qp = by_hand_qp(&adapter, cq, DEPTH);
	expect_bind_refused(qp, mw, region_mr, 64, "a bind in RESET");
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq))
		fail("destroying: %s", strerror(errno));
}

/* ---------------------------------------------------------- type 2 */

static struct ibv_mw *mw2;

/* Of pair 0's QP that serves. */
static enum ibv_wc_status execute(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret = ibv_post_send(pairs[0].qps[1], wr, &bad);

	if (ret)
		fail("opcode %d: %s", wr->opcode, strerror(ret));
	return by_hand_wait(pairs[0].cqs[1], "bind or invalidation").status;
}

static enum ibv_wc_status bind_2(struct ibv_mr *mr, uint32_t offset,
				 uint32_t length, int access)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw2,
			.rkey = ibv_inc_rkey(mw2->rkey),
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)mr->addr + offset,
				.length = length,
				.mw_access_flags = access,
			},
		},
	};
	enum ibv_wc_status status = execute(&wr);

	if (!status)
		mw2->rkey = wr.bind_mw.rkey;
	return status;
}

static enum ibv_wc_status invalidate(uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = rkey,
	};

	return execute(&wr);
}

static void need_status(int status, int expected, const char *what)
{
	if (status != expected)
		fail("%s: %d, not %d", what, status, expected);
}

static void reconnect(void)
{
	by_hand_free(&pairs[0]);
	connect_pair(0);
}

static void new_window(void)
{
	mw2 = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2);
	if (!mw2)
		fail("ibv_alloc_mw: %s", strerror(errno));
}

/* One octet at to, by rkey: done or refused; refused, the QPs are new ones, and so
 * is the window, which was the old QP's. */
static void expect_octet(enum ibv_wr_opcode opcode, uint64_t to, bool good,
			 const char *what)
{
	uint8_t before[3];
	enum ibv_wc_status status;

	memcpy(before, region + 99, 3);
	own[0] = before[1] + 1;
	status = transfer(0, opcode, mw2->rkey, to - (uintptr_t)region, 1);
	need_status(status, good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR,
		    what);
	if (good && opcode == IBV_WR_RDMA_READ && own[0] != before[1])
		fail("%s: another octet was read", what);
	if (good && opcode == IBV_WR_RDMA_WRITE)
		before[1]++;
	if (memcmp(before, region + 99, 3))
		fail("%s: other octets are there", what);
	if (good)
		return;
	by_hand_expect_event(&adapter, pairs[0].qps[1],
			     IBV_EVENT_QP_ACCESS_ERR);
	need_status(ibv_dealloc_mw(mw2), 0, "a window of a QP in Error");
	reconnect();
	new_window();
}

/* Octet 100 and no other, by its address, or counted from zero. */
static void try_range(int access, bool zero_based)
{
	uint64_t to = zero_based ? 0 : (uintptr_t)region + 100;
	int rights = access | (zero_based ? IBV_ACCESS_ZERO_BASED : 0);
	bool read = access & IBV_ACCESS_REMOTE_READ;
	enum ibv_wr_opcode may = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	enum ibv_wr_opcode other = read ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;

	need_status(bind_2(region_mr, 100, 1, rights), 0, "bind");
	expect_octet(may, to, true, "inside");
	expect_octet(other, to, false, "a right that the window has not");
	need_status(bind_2(region_mr, 100, 1, rights), 0, "bind");
	expect_octet(may, to + 1, false, "behind the window");
	need_status(bind_2(region_mr, 100, 1, rights), 0, "bind");
	expect_octet(may, to - 1, false, "before the window");
	need_status(bind_2(region_mr, 100, 1, rights), 0, "bind");
	expect_octet(may, zero_based ? (uintptr_t)region + 100 : 0, false,
		     "counted from elsewhere");
}

/* What a bind must not do takes the QP to Error. */
static void refuse_bind(struct ibv_mr *mr, uint32_t offset, uint32_t length,
			const char *what)
{
	need_status(bind_2(mr, offset, length, IBV_ACCESS_REMOTE_READ),
		    IBV_WC_MW_BIND_ERR, what);
	by_hand_await_error(pairs[0].qps[1]);
	reconnect();
}

static struct ibv_mr *register_region(int access)
{
	struct ibv_mr *mr = ibv_reg_mr(adapter.pd, region, SIZE, access);

	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	return mr;
}

/* A region is none, though an Invalidate takes both. */
static void refuse_region_as_window(void)
{
	struct ibv_mr *mr = register_region(IBV_ACCESS_LOCAL_WRITE |
					    IBV_ACCESS_MW_BIND);
	uint32_t rkey = mw2->rkey;

	mw2->rkey = mr->rkey;
	refuse_bind(region_mr, 0, 1, "a region in a window's place");
	mw2->rkey = rkey;
	need_status(invalidate(mr->rkey), 0, "a region invalidated");
	need_status(ibv_dereg_mr(mr), 0, "a region that was invalidated");
}

/* A zero based region takes no window, of either base. */
static void refuse_over_zero_based(void)
{
	static const int bases[] = { 0, IBV_ACCESS_ZERO_BASED };
	struct ibv_mr *mr = register_region(IBV_ACCESS_LOCAL_WRITE |
					    IBV_ACCESS_MW_BIND |
					    IBV_ACCESS_ZERO_BASED);
	struct ibv_mr none = *mr;
	unsigned int i;

	none.addr = NULL;
	for (i = 0; i < 2; i++) {
		need_status(bind_2(&none, 0, 1,
				   IBV_ACCESS_REMOTE_READ | bases[i]),
			    IBV_WC_MW_BIND_ERR, "a zero based region");
		by_hand_await_error(pairs[0].qps[1]);
		reconnect();
	}
	need_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
}

static void try_refused_binds(void)
{
	struct ibv_mr *mr;

	refuse_bind(own_mr, 0, 1, "a region that takes no windows");
	refuse_bind(region_mr, SIZE, 1, "behind the region");
	refuse_bind(region_mr, 100, SIZE, "more than the region");
	refuse_over_zero_based();
	/* The rights of windows are those that the region has here, not for peers. */
	mr = register_region(IBV_ACCESS_MW_BIND);
	need_status(bind_2(mr, 0, 1, IBV_ACCESS_REMOTE_WRITE),
		    IBV_WC_MW_BIND_ERR, "a right to write that the region has not");
	by_hand_await_error(pairs[0].qps[1]);
	reconnect();
	need_status(bind_2(mr, 0, 1, IBV_ACCESS_REMOTE_READ), 0, "to read");
	need_status(invalidate(mw2->rkey), 0, "invalidation");
	need_status(bind_2(mr, 0, 1, 0), 0, "a window without rights");
	need_status(invalidate(mw2->rkey), 0, "invalidation");
	need_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
	refuse_region_as_window();
}

/* A window that is bound is bound again only when it was invalidated; by its own rkey,
 * and no other key of its index. */
static void try_valid_window(void)
{
	need_status(bind_2(region_mr, 100, 1, IBV_ACCESS_REMOTE_READ), 0,
		    "bind");
	need_status(bind_2(region_mr, 0, 64, RIGHTS), IBV_WC_MW_BIND_ERR,
		    "binding a window that is bound");
	need_status(ibv_dealloc_mw(mw2), 0, "a window of a QP in Error");
	reconnect();
	new_window();
	need_status(bind_2(region_mr, 100, 1, IBV_ACCESS_REMOTE_READ), 0,
		    "bind");
	if (!invalidate(mw2->rkey ^ 1))
		fail("another key invalidates a window");
	need_status(ibv_dealloc_mw(mw2), 0, "a window of a QP in Error");
	reconnect();
	new_window();
}

/* A region whose rights are changed when no window is bound: now it takes none, then it
 * does again. */
static void try_changed_region(struct ibv_mr *mr)
{
	need_status(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				 IBV_ACCESS_LOCAL_WRITE), 0,
		    "a region without a window, changed");
	refuse_bind(mr, 0, 1, "a region that takes no windows any more");
	need_status(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
		    0, "the same again");
	need_status(bind_2(mr, 100, 1, RIGHTS), 0, "bind");
	expect_octet(IBV_WR_RDMA_WRITE, (uintptr_t)region + 100, true, "again");
	need_status(invalidate(mw2->rkey), 0, "invalidation");
}

/* A new translation gives a region new keys and leaves its rights; a Bind names it by
 * its lkey. */
static void try_moved_region(struct ibv_mr *mr)
{
	uint32_t before = mr->lkey;

	need_status(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				 region, SIZE, 0), 0,
		    "a region without a window, moved");
	if (mr->lkey == before)
		fail("the lkey of before names a region that was moved");
	need_status(bind_2(mr, 100, 1, RIGHTS), 0,
		    "bind to a region that was moved");
	expect_octet(IBV_WR_RDMA_WRITE, (uintptr_t)region + 100, true, "moved");
	need_status(invalidate(mw2->rkey), 0, "invalidation");
}

/* The QP was not destroyed: it can be changed, it serves, and its events are told. */
static void try_refused_destroy(void)
{
	struct ibv_qp_attr rights = { .qp_access_flags = RIGHTS };
	struct ibv_qp *qp = pairs[0].qps[1];

	need_status(ibv_destroy_qp(qp), EBUSY, "a QP with a window");
	need_status(ibv_modify_qp(qp, &rights, IBV_QP_ACCESS_FLAGS), 0,
		    "the same, changed");
	expect_octet(IBV_WR_RDMA_WRITE, (uintptr_t)region + 100, true, "still");
	expect_octet(IBV_WR_RDMA_READ, (uintptr_t)region + 100, true, "still");
	need_status(invalidate(mw2->rkey), 0, "invalidation");
	need_status(transfer(0, IBV_WR_RDMA_WRITE, mw2->rkey, 100, 1),
		    IBV_WC_REM_ACCESS_ERR, "by the key of the past");
	by_hand_expect_event(&adapter, qp, IBV_EVENT_QP_ACCESS_ERR);
	reconnect();
}

static void refuse_change(struct ibv_mr *mr, int flags, void *start)
{
	struct ibv_mr before = *mr;
	uint64_t pinned = pinned_kb();

	need_status(ibv_rereg_mr(mr, flags, other_pd, start, SIZE,
				 flags & IBV_REREG_MR_CHANGE_ACCESS ?
				 IBV_ACCESS_LOCAL_WRITE : 0),
		    IBV_REREG_MR_ERR_CMD, "a region with a window, changed");
	need_status(errno, EBUSY, "the reason");
	if (mr->lkey != before.lkey || mr->rkey != before.rkey ||
	    mr->pd != before.pd || mr->addr != before.addr ||
	    mr->length != before.length || pinned_kb() != pinned)
		fail("a refused call changes a region");
}

/* Each of it; and if the new memory cannot be had, the window is still the reason. */
static void refuse_changes(struct ibv_mr *mr)
{
	void *none = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (none == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	refuse_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL);
	refuse_change(mr, IBV_REREG_MR_CHANGE_PD, NULL);
	refuse_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, own);
	refuse_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, none);
	refuse_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION |
			  IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
		      own);
	munmap(none, SIZE);
}

/* A region, and a QP, that a window is bound to: both go on, and go with it only. */
static void try_in_use(void)
{
	struct ibv_mr *mr = register_region(IBV_ACCESS_LOCAL_WRITE |
					    IBV_ACCESS_MW_BIND);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp;

	need_status(bind_2(mr, 100, 1, RIGHTS), 0, "bind");
	need_status(ibv_dereg_mr(mr), EBUSY, "a region with a window");
	refuse_changes(mr);
	try_refused_destroy();
	try_moved_region(mr);
	try_changed_region(mr);
	need_status(ibv_dereg_mr(mr), 0, "a region without a window");

	qp = pairs[0].qps[1];
	mr = register_region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	need_status(bind_2(mr, 100, 1, RIGHTS), 0, "bind");
	need_status(ibv_destroy_qp(qp), EBUSY, "a QP with a window");
	need_status(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0, "to ERR");
	need_status(ibv_destroy_qp(qp), EBUSY, "a QP in Error with a window");
	need_status(ibv_dereg_mr(mr), EBUSY, "a region with a window");
	need_status(ibv_dealloc_mw(mw2), 0, "a window that is bound");
	need_status(ibv_dereg_mr(mr), 0, "a region without a window");
	reconnect();
	new_window();
}

/* Through a window with both rights, by a QP that grants these. */
static void try_grant(int grant, enum ibv_wr_opcode opcode)
{
	bool read = opcode == IBV_WR_RDMA_READ;
	bool granted = grant & (read ? IBV_ACCESS_REMOTE_READ :
				       IBV_ACCESS_REMOTE_WRITE);
	int refusal = read ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
	uint8_t before = region[100], other = before + 1;

	by_hand_free(&pairs[0]);
	by_hand_connect(&adapter, &pairs[0], adapter.pd, grant, DEPTH);
	need_status(bind_2(region_mr, 100, 1, RIGHTS), 0, "bind");
	own[0] = other;
	need_status(transfer(0, opcode, mw2->rkey, 100, 1),
		    granted ? IBV_WC_SUCCESS : refusal,
		    read ? "a Read, by the QP's rights" :
			   "a Write, by the QP's rights");
	if (region[100] != (granted && !read ? other : before) ||
	    own[0] != (granted && read ? before : other))
		fail("QP of rights 0x%x: wrong octets", grant);
	need_status(ibv_dealloc_mw(mw2), 0, "a window that is bound");
	new_window();
}

/* The QP grants less than the window: none of the rights, or one. */
static void try_qp_rights(void)
{
	static const int grants[] = {
		0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
	};
	unsigned int i;

	for (i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		try_grant(grants[i], IBV_WR_RDMA_WRITE);
		try_grant(grants[i], IBV_WR_RDMA_READ);
	}
}

static void try_type_2(void)
{
	new_window();
	try_range(IBV_ACCESS_REMOTE_READ, false);
	try_range(IBV_ACCESS_REMOTE_WRITE, false);
	try_range(IBV_ACCESS_REMOTE_READ, true);
	try_refused_binds();
	try_valid_window();
	try_in_use();
	try_qp_rights();
	need_status(ibv_dealloc_mw(mw2), 0, "ibv_dealloc_mw");
	say("windows of type 2: ok");
}

static void run(const char *name)
{
	unsigned int i;

	open_all(name);
	try_rounds();
	try_refusals();
	refuse_in_reset();
	refuse_stag_zero();
	try_type_2();
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
