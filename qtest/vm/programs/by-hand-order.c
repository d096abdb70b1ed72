// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-order: what a program can count on within one list of work requests, with
 * no completion in between: fences, binds; what of a work request counts and what
 * does not; and the order in which completions of several queues come.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	32768
#define ROUNDS	30
#define DEPTH	16
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-order [options] ADAPTER\n"
"Connects QPs of the adapter to each other, and posts lists whose work requests need\n"
"what those before them do.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct by_hand_pair pair;	/* the first one asks */
static struct ibv_mr *mr;
static struct ibv_mw *mw;
/* SIZE octets of each: what is read, where it is read to, where that goes. */
static uint8_t *source, *sink, *target;

/* -------------------------------------------------------- work requests */

/* One list, which nobody needs when the call is over. */
static void post_list(struct ibv_qp *qp, struct ibv_send_wr *wrs,
		      unsigned int count)
{
	struct ibv_send_wr *bad;
	unsigned int i;
	int ret;

	for (i = 0; i + 1 < count; i++)
		wrs[i].next = &wrs[i + 1];
	ret = ibv_post_send(qp, wrs, &bad);
	if (ret)
		fail("posting number %d: %s", (int)(bad - wrs), strerror(ret));
}

static struct ibv_send_wr transfer(enum ibv_wr_opcode opcode,
				   struct ibv_sge *sge, uint8_t *here,
				   uint8_t *there, uint32_t length)
{
	*sge = (struct ibv_sge) { (uintptr_t)here, length, mr->lkey };
	return (struct ibv_send_wr) {
		.opcode = opcode, .sg_list = sge, .num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)there, .rkey = mr->rkey,
		},
	};
}

static struct ibv_send_wr bind_wr(void)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)target,
				.length = SIZE,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	mw->rkey = wr.bind_mw.rkey;
	return wr;
}

static void receive(uint8_t *to, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)to, length, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(pair.qps[1], &wr, &bad))
		fail("ibv_post_recv");
}

static struct ibv_wc complete(int end, enum ibv_wc_opcode opcode,
			      const char *what)
{
	struct ibv_wc wc = by_hand_wait(pair.cqs[end], what);

	check_completion(&wc, what);
	if (wc.opcode != opcode)
		fail("%s: opcode %d, not %d", what, wc.opcode, opcode);
	return wc;
}

static void check_octets(const uint8_t *at, uint8_t octet, uint32_t length,
			 const char *what)
{
	uint32_t i;

	for (i = 0; i < length; i++)
		if (at[i] != octet)
			fail("%s: octet %u is %u, not %u", what, i, at[i],
			     octet);
}

/* --------------------------------------------------------------- fences */

struct kind {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode sent, received;
	bool receives;
	const char *what;
	unsigned int flags;
};

static const struct kind kinds[] = {
	{ IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0, false, "a Write", 0 },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE,
	  IBV_WC_RECV_RDMA_WITH_IMM, true, "a Write with Immediate", 0 },
	{ IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, true, "a Send", 0 },
	{ IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, true, "a solicited Send",
	  IBV_SEND_SOLICITED },
	{ IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_WC_RECV, true,
	  "a Send with Immediate", 0 },
	{ IBV_WR_SEND_WITH_INV, IBV_WC_SEND, IBV_WC_RECV, true,
	  "a Send with Invalidate", 0 },
	{ IBV_WR_SEND_WITH_INV, IBV_WC_SEND, IBV_WC_RECV, true,
	  "a solicited Send with Invalidate", IBV_SEND_SOLICITED },
};

static void bind_first(void)
{
	struct ibv_send_wr wr = bind_wr();

	post_list(pair.qps[1], &wr, 1);
	complete(1, IBV_WC_BIND_MW, "a bind");
}

static void invalidate_window(void)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey,
	};

	post_list(pair.qps[1], &wr, 1);
	complete(1, IBV_WC_LOCAL_INV, "an Invalidate");
}

/* What a Read brings is sent on, by one list: not before all of it has come. */
static void try_read_fence(const struct kind *kind, uint8_t octet)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr wrs[2] = {
		transfer(IBV_WR_RDMA_READ, &sges[0], sink, source, SIZE),
		transfer(kind->opcode, &sges[1], sink, target, SIZE),
	};

	memset(source, octet, SIZE);
	memset(sink, 0, SIZE);
	memset(target, 0, SIZE);
	wrs[1].send_flags = IBV_SEND_FENCE | kind->flags;
	if (kind->opcode == IBV_WR_SEND_WITH_INV) {
		bind_first();
		wrs[1].invalidate_rkey = mw->rkey;
	}
	if (kind->receives)
		receive(target, SIZE);
	post_list(pair.qps[0], wrs, 2);
	complete(0, IBV_WC_RDMA_READ, "a Read");
	complete(0, kind->sent, kind->what);
	if (kind->receives)
		complete(1, kind->received, kind->what);
	check_octets(target, octet, SIZE, kind->what);
}

/* The region of a Read's sink goes when the Read is complete, not before. */
static void try_local_fence(uint8_t octet)
{
	struct ibv_mr *own = ibv_reg_mr(adapter.pd, sink, SIZE,
					IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge;
	struct ibv_send_wr wrs[2] = {
		transfer(IBV_WR_RDMA_READ, &sge, sink, source, SIZE),
		{ .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_FENCE },
	};

	if (!own)
		fail("ibv_reg_mr: %s", strerror(errno));
	memset(source, octet, SIZE);
	sge.lkey = own->lkey;
	wrs[1].invalidate_rkey = own->rkey;
	post_list(pair.qps[0], wrs, 2);
	complete(0, IBV_WC_RDMA_READ, "a Read before an Invalidate");
	complete(0, IBV_WC_LOCAL_INV, "an Invalidate");
	check_octets(sink, octet, SIZE, "a Read before an Invalidate");
	if (ibv_dereg_mr(own))
		fail("ibv_dereg_mr: %s", strerror(errno));
}

/* The peer is told of a window in the list that binds it, and uses it at once. */
static void try_bind(uint8_t octet)
{
	struct ibv_send_wr wrs[2] = { bind_wr() }, write;
	struct ibv_sge sges[2];
	struct ibv_sge to = { (uintptr_t)sink, 8, mr->lkey };
	struct ibv_recv_wr *bad, recv = { .sg_list = &to, .num_sge = 1 };

	if (ibv_post_recv(pair.qps[0], &recv, &bad))
		fail("ibv_post_recv");
	memcpy(source + 8, &mw->rkey, sizeof(mw->rkey));
	wrs[1] = transfer(IBV_WR_SEND, &sges[0], source + 8, NULL, 4);
	post_list(pair.qps[1], wrs, 2);
	complete(0, IBV_WC_RECV, "an rkey");
	source[0] = octet;
	write = transfer(IBV_WR_RDMA_WRITE, &sges[1], source, target, 1);
	memcpy(&write.wr.rdma.rkey, sink, sizeof(uint32_t));
	post_list(pair.qps[0], &write, 1);
	complete(0, IBV_WC_RDMA_WRITE, "a Write through a new window");
	check_octets(target, octet, 1, "a Write through a new window");
	complete(1, IBV_WC_BIND_MW, "a bind");
	complete(1, IBV_WC_SEND, "an rkey");
}

/* -------------------------------------------------- memory that is taken away */

static void join_anew(void)
{
	by_hand_free(&pair);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
}

/* The region goes while Reads to it are under way: these fail, or were done before;
 * nothing of them comes to the memory later. */
static void try_dereg(uint8_t octet)
{
	struct ibv_mr *own = ibv_reg_mr(adapter.pd, sink, SIZE,
					IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sges[DEPTH];
	struct ibv_send_wr wrs[DEPTH];
	unsigned int i, failed = 0;
	struct ibv_wc wc;

	if (!own)
		fail("ibv_reg_mr: %s", strerror(errno));
	memset(source, octet, SIZE);
	for (i = 0; i < DEPTH; i++) {
		wrs[i] = transfer(IBV_WR_RDMA_READ, &sges[i], sink, source,
				  SIZE);
		sges[i].lkey = own->lkey;
	}
	post_list(pair.qps[0], wrs, DEPTH);
	if (ibv_dereg_mr(own))
		fail("ibv_dereg_mr: %s", strerror(errno));
	memset(sink, 0, SIZE);
	for (i = 0; i < DEPTH; i++) {
		wc = by_hand_wait(pair.cqs[0], "a Read without a region");
		failed += wc.status != IBV_WC_SUCCESS;
		if (wc.status == IBV_WC_SUCCESS && failed)
			fail("a Read behind one that failed succeeds");
	}
	check_octets(sink, 0, SIZE, "after its region has gone");
	if (failed)
		join_anew();
}

/* What may not be written is no sink of a Read. */
static void try_sink_without_right(void)
{
	struct ibv_mr *own = ibv_reg_mr(adapter.pd, sink, SIZE,
					IBV_ACCESS_REMOTE_READ);
	struct ibv_sge sge;
	struct ibv_send_wr wr = transfer(IBV_WR_RDMA_READ, &sge, sink, source,
					 SIZE);
	struct ibv_wc wc;

	if (!own)
		fail("ibv_reg_mr: %s", strerror(errno));
	memset(source, 1, SIZE);
	memset(sink, 0, SIZE);
	sge.lkey = own->lkey;
	post_list(pair.qps[0], &wr, 1);
	by_hand_expect_event(&adapter, pair.qps[0], IBV_EVENT_QP_ACCESS_ERR);
	wc = by_hand_wait(pair.cqs[0], "a Read to what may not be written");
	if (wc.status != IBV_WC_WR_FLUSH_ERR)
		fail("a Read to what may not be written: %s",
		     ibv_wc_status_str(wc.status));
	check_octets(sink, 0, SIZE, "what may not be written");
	by_hand_await_error(pair.qps[0]);
	join_anew();
	if (ibv_dereg_mr(own))
		fail("ibv_dereg_mr: %s", strerror(errno));
}

/* ------------------------------------------------------------ what counts */

/* Fields of other kinds of work requests say nothing, whatever is in them. */
static void try_ignored_read(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = transfer(IBV_WR_RDMA_READ, &sge, sink + 3,
					 source + 13, 7);

	memset(source, 5, SIZE);
	memset(sink, 0, SIZE);
	wr.send_flags = IBV_SEND_SOLICITED;
	wr.invalidate_rkey = 0x12345678;
	memset(&wr.bind_mw, 0xee, sizeof(wr.bind_mw));
	post_list(pair.qps[0], &wr, 1);
	complete(0, IBV_WC_RDMA_READ, "a Read with more than it needs");
	check_octets(sink, 0, 3, "before a Read");
	check_octets(sink + 3, 5, 7, "a Read");
	check_octets(sink + 10, 0, SIZE - 10, "behind a Read");
}

/* No receive is there, which immediate data would take. */
static void try_ignored_write(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = transfer(IBV_WR_RDMA_WRITE, &sge, source,
					 target + 3, 7);

	memset(source, 6, SIZE);
	memset(target, 0, SIZE);
	wr.send_flags = IBV_SEND_SOLICITED;
	wr.imm_data = 0x12345678;
	memset(&wr.bind_mw, 0xee, sizeof(wr.bind_mw));
	post_list(pair.qps[0], &wr, 1);
	complete(0, IBV_WC_RDMA_WRITE, "a Write with more than it needs");
	check_octets(target, 0, 3, "before a Write");
	check_octets(target + 3, 6, 7, "a Write");
	check_octets(target + 10, 0, SIZE - 10, "behind a Write");
}

static struct ibv_wc try_ignored_send(enum ibv_wr_opcode opcode, uint32_t field)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = transfer(opcode, &sge, source, NULL, 9);

	wr.invalidate_rkey = field;
	memset(&wr.wr, 0xee, sizeof(wr.wr));
	memset(&wr.bind_mw, 0xee, sizeof(wr.bind_mw));
	receive(target, SIZE);
	post_list(pair.qps[0], &wr, 1);
	complete(0, IBV_WC_SEND, "a Send with more than it needs");
	return complete(1, IBV_WC_RECV, "its receive");
}

static void try_ignored_sends(void)
{
	struct ibv_wc wc = try_ignored_send(IBV_WR_SEND, 0x12345678);

	if (wc.wc_flags)
		fail("a Send has other flags than it was given");
	bind_first();
	wc = try_ignored_send(IBV_WR_SEND_WITH_INV, mw->rkey);
	if (wc.wc_flags != IBV_WC_WITH_INV || wc.invalidated_rkey != mw->rkey)
		fail("a Send with Invalidate: flags 0x%x, rkey 0x%x",
		     wc.wc_flags, wc.invalidated_rkey);
}

static void try_ignored_by_windows(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = bind_wr();

	sge = (struct ibv_sge) { (uintptr_t)source, SIZE, 0xdeadbe00 };
	wr.sg_list = &sge;
	wr.num_sge = 30;
	wr.send_flags = IBV_SEND_SOLICITED;
	wr.imm_data = 0x12345678;
	memset(&wr.wr, 0xee, sizeof(wr.wr));
	post_list(pair.qps[1], &wr, 1);
	complete(1, IBV_WC_BIND_MW, "a bind with SGEs");

	wr = transfer(IBV_WR_LOCAL_INV, &sge, source, source, SIZE);
	sge.lkey = 0xdeadbe00;
	wr.num_sge = 30;
	wr.invalidate_rkey = mw->rkey;
	post_list(pair.qps[1], &wr, 1);
	complete(1, IBV_WC_LOCAL_INV, "an Invalidate with SGEs");
}

static void try_ignored(void)
{
	try_ignored_read();
	try_ignored_write();
	try_ignored_sends();
	try_ignored_by_windows();
}

static void refuse(struct ibv_send_wr *wr, const char *what)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(pair.qps[0], wr, &bad);

	if (ret != EINVAL || bad != wr)
		fail("%s: %s, not EINVAL", what, strerror(ret));
}

/* What would do in every other state. */
static void refuse_extended_in_reset(struct ibv_qp_ex *qp)
{
	ibv_wr_start(qp);
	ibv_wr_local_inv(qp, mw->rkey);
	if (ibv_wr_complete(qp) != EINVAL)
		fail("ibv_wr_complete() in RESET: not EINVAL");
}

static struct ibv_qp_ex *make_extended(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair.cqs[0], .recv_cq = pair.cqs[0],
		.cap = { .max_send_wr = 4, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = adapter.pd,
		.send_ops_flags = IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(adapter.context, &attr);

	if (!qp)
		fail("ibv_create_qp_ex: %s", strerror(errno));
	refuse_extended_in_reset(ibv_qp_to_qp_ex(qp));
	by_hand_init(qp, 0);
	return ibv_qp_to_qp_ex(qp);
}

static void refuse_extended(const struct ibv_mr *none)
{
	struct ibv_mw_bind_info infos[2] = {
		{ .mr = mr, .addr = (uintptr_t)target, .length = 1 },
		{ .mr = (struct ibv_mr *)none, .length = 1 },
	};
	struct ibv_qp_ex *qp = make_extended();
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ibv_wr_start(qp);
		if (i == 2)
			ibv_wr_local_inv(qp, 0x55);
		else
			ibv_wr_bind_mw(qp, mw, i ? mw->rkey : 0, &infos[i]);
		if (ibv_wr_complete(qp) != EINVAL)
			fail("STag zero, number %u by ibv_wr_*(): not EINVAL", i);
	}
	if (ibv_destroy_qp(&qp->qp_base))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

/* It is no window or region of the program's, and always Valid. */
static void try_stag_zero(void)
{
	struct ibv_mr none = *mr;
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV };

	none.lkey = none.rkey = 0;
	refuse(&wr, "an Invalidate of STag zero");
	wr.invalidate_rkey = 0x55;
	refuse(&wr, "an Invalidate of index zero");
	wr = bind_wr();
	wr.bind_mw.rkey = 0;
	refuse(&wr, "a bind of STag zero");
	wr = bind_wr();
	wr.bind_mw.bind_info.mr = &none;
	refuse(&wr, "a bind to STag zero");
	refuse_extended(&none);
	bind_first();
	invalidate_window();
}

/* ------------------------------------------------------- one CQ for several */

struct common {
	struct by_hand_pair lines[2];
	struct ibv_cq *send_cq, *cq;	/* the latter of all receives */
};

/* Twice the one, once the other. */
static unsigned int line_of(unsigned int message)
{
	return message % 3 == 2;
}

/* It has arrived when the Send is complete. */
static void send_by_common(struct common *c, unsigned int message)
{
	struct by_hand_pair *line = &c->lines[line_of(message)];
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = message };
	struct ibv_wc wc;

	if (ibv_post_recv(line->qps[1], &recv, &bad_recv) ||
	    ibv_post_send(line->qps[0], &wr, &bad))
		fail("posting");
	wc = by_hand_wait(c->send_cq, "a Send");
	check_completion(&wc, "a Send");
}

static void take_from_common(struct common *c, unsigned int message)
{
	struct ibv_wc wc = by_hand_wait(c->cq, "a receive");

	check_completion(&wc, "a receive");
	if (wc.wr_id != message ||
	    wc.qp_num != c->lines[line_of(message)].qps[1]->qp_num)
		fail("receive %llu of QP %u is number %u",
		     (unsigned long long)wc.wr_id, wc.qp_num, message);
}

static void make_common(struct common *c)
{
	unsigned int k;

	c->send_cq = ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0);
	c->cq = ibv_create_cq(adapter.context, 2 * DEPTH, NULL, NULL, 0);
	if (!c->send_cq || !c->cq)
		fail("ibv_create_cq: %s", strerror(errno));
	for (k = 0; k < 2; k++) {
		c->lines[k].qps[0] = by_hand_qp(&adapter, c->send_cq, DEPTH);
		c->lines[k].qps[1] = by_hand_qp(&adapter, c->cq, DEPTH);
		by_hand_join(&adapter, &c->lines[k], 0);
	}
}

static void free_common(struct common *c)
{
	unsigned int k;

	for (k = 0; k < 2; k++)
		if (ibv_destroy_qp(c->lines[k].qps[0]) ||
		    ibv_destroy_qp(c->lines[k].qps[1]))
			fail("ibv_destroy_qp: %s", strerror(errno));
	if (ibv_destroy_cq(c->send_cq) || ibv_destroy_cq(c->cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
}

/* Receives of two QPs, one at a time: their CQ has them in that order. */
static void try_common_cq(void)
{
	unsigned int first, i;
	struct common c;
	struct ibv_wc wc;

	make_common(&c);
	for (first = 0; first < 3 * DEPTH; first += DEPTH) {
		for (i = 0; i < DEPTH; i++)
			send_by_common(&c, first + i);
		for (i = 0; i < DEPTH; i++)
			take_from_common(&c, first + i);
		if (ibv_poll_cq(c.cq, 1, &wc))
			fail("an empty CQ has a completion");
	}
	free_common(&c);
}

static void run(const char *name)
{
	unsigned int i, k;

	by_hand_open(&adapter, name);
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	source = allocate(3 * SIZE);
	sink = source + SIZE;
	target = sink + SIZE;
	mr = ibv_reg_mr(adapter.pd, source, 3 * SIZE, IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_MW_BIND | RIGHTS);
	mw = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2);
	if (!mr || !mw)
		fail("region and window: %s", strerror(errno));
	for (i = 1; i <= ROUNDS; i++) {
		for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			try_read_fence(&kinds[k], i);
		try_local_fence(i);
	}
	say("fences: ok");
	for (i = 1; i <= ROUNDS; i++) {
		try_bind(i);
		invalidate_window();
	}
	say("binds: ok");
	for (i = 1; i <= ROUNDS; i++)
		try_dereg(i);
	try_sink_without_right();
	say("memory taken away: ok");
	try_ignored();
	try_stag_zero();
	try_common_cq();
	by_hand_free(&pair);
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr))
		fail("window and region: %s", strerror(errno));
	by_hand_close(&adapter);
	say("order: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-order", help, run);
}
