// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: what the kernel's verbs promise of posting and polling: lists, and what
 * is wrong in them; full queues; what is not signaled; what is flushed, and what a QP
 * takes with it. Each on a CQ and two QPs of its own, which are connected by hand.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>

#include "connect.h"
#include "posting.h"

#define TIME_LIMIT	(60 * HZ)
#define DEPTH		16
#define LIST		4
#define SLOT		64	/* octets of a message; receives come behind Sends */
#define TIMES		20
#define MOST_POSTS	4096
#define MOST_LIST	64
#define PLACES		31	/* of messages, in each half of the page */

struct posting {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];	/* the first one sends */
	struct ib_mr *mr;
	struct ib_srq *srq;
	u8 *page;
	dma_addr_t dma;
};

/*
 * -------------------------------------------------------- completions
 */
static int poll_one(struct posting *p, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	int n;

	while (!(n = ib_poll_cq(p->cq, 1, wc))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(50, 100);
	}
	return min(n, 0);
}

static int expect(struct posting *p, u64 wr_id, enum ib_wc_status status)
{
	struct ib_wc wc;
	int ret = poll_one(p, &wc);

	if (!ret && (wc.wr_id != wr_id || wc.status != status))
		ret = -EIO;
	if (ret)
		pr_err("completion %llu, %s, instead of %llu, %s: error %d\n",
		       wc.wr_id, ib_wc_status_msg(wc.status), wr_id,
		       ib_wc_status_msg(status), ret);
	return ret;
}

static int expect_nothing(struct posting *p, const char *what)
{
	struct ib_wc wc;

	msleep(20);
	if (!ib_poll_cq(p->cq, 1, &wc))
		return 0;
	pr_err("%s: completion %llu, %s\n", what, wc.wr_id,
	       ib_wc_status_msg(wc.status));
	return -EIO;
}

static int need(bool right, const char *what)
{
	if (right)
		return 0;
	pr_err("wrong: %s\n", what);
	return -EIO;
}

/*
 * ------------------------------------------------------ work requests
 */
static void fill_send(struct posting *p, struct ib_send_wr *wr,
		      struct ib_sge *sge, unsigned int i, int flags)
{
	*sge = (struct ib_sge) {
		.addr = p->dma + i * SLOT,
		.length = SLOT,
		.lkey = p->pd->local_dma_lkey,
	};
	*wr = (struct ib_send_wr) {
		.wr_id = i,
		.opcode = IB_WR_SEND,
		.send_flags = flags,
		.sg_list = sge,
		.num_sge = 1,
	};
	memset(p->page + i * SLOT, 'a' + i, SLOT);
}

static u8 *received(struct posting *p, unsigned int i)
{
	return p->page + PAGE_SIZE / 2 + i * SLOT;
}

static void fill_receive(struct posting *p, struct ib_recv_wr *wr,
			 struct ib_sge *sge, unsigned int i)
{
	*sge = (struct ib_sge) {
		.addr = p->dma + PAGE_SIZE / 2 + i * SLOT,
		.length = SLOT,
		.lkey = p->pd->local_dma_lkey,
	};
	*wr = (struct ib_recv_wr) {
		.wr_id = 100 + i,
		.sg_list = sge,
		.num_sge = 1,
	};
	memset(received(p, i), 0, SLOT);
}

static int post_send_one(struct posting *p, unsigned int i, int flags)
{
	struct ib_send_wr wr;
	struct ib_sge sge;

	fill_send(p, &wr, &sge, i, flags);
	return ib_post_send(p->qp[0], &wr, NULL);
}

static int post_receive_one(struct posting *p, struct ib_qp *qp, unsigned int i)
{
	struct ib_recv_wr wr;
	struct ib_sge sge;

	fill_receive(p, &wr, &sge, i);
	return ib_post_recv(qp, &wr, NULL);
}

/*
 * Lists of receives and of Sends; number bad of each has too many SGEs. When the calls
 * are over nobody needs the lists any more.
 */
static int post_lists(struct posting *p, unsigned int bad)
{
	const struct ib_recv_wr *bad_recv = NULL;
	const struct ib_send_wr *bad_send = NULL;
	struct ib_recv_wr recvs[LIST];
	struct ib_send_wr sends[LIST];
	struct ib_sge from[LIST], to[LIST];
	int expected = bad < LIST ? -EINVAL : 0, ret[2];
	unsigned int i;

	for (i = 0; i < LIST; i++) {
		fill_receive(p, &recvs[i], &to[i], i);
		fill_send(p, &sends[i], &from[i], i, IB_SEND_SIGNALED);
		recvs[i].next = i + 1 < LIST ? &recvs[i + 1] : NULL;
		sends[i].next = i + 1 < LIST ? &sends[i + 1] : NULL;
		if (i == bad) {
			recvs[i].num_sge = 1000;
			sends[i].num_sge = 1000;
		}
	}
	ret[0] = ib_post_recv(p->qp[1], recvs, &bad_recv);
	ret[1] = ib_post_send(p->qp[0], sends, &bad_send);
	memset(recvs, 0xee, sizeof(recvs));
	memset(sends, 0xee, sizeof(sends));
	memset(from, 0xee, sizeof(from));
	memset(to, 0xee, sizeof(to));
	if (ret[0] != expected || ret[1] != expected) {
		pr_err("lists: %d and %d\n", ret[0], ret[1]);
		return -EIO;
	}
	return need(!expected || (bad_recv == &recvs[bad] &&
				  bad_send == &sends[bad]),
		    "which of a list is the bad one");
}

/* Of one CQ: a message's two completions may come in either order. */
static int take_messages(struct posting *p, unsigned int count)
{
	unsigned int next[2] = { 0, 0 }, i;
	struct ib_wc wc;
	int ret;

	for (i = 0; i < 2 * count; i++) {
		bool receive;

		ret = poll_one(p, &wc);
		if (ret)
			return ret;
		receive = wc.opcode == IB_WC_RECV;
		if (wc.status != IB_WC_SUCCESS ||
		    wc.qp != p->qp[receive] ||
		    wc.wr_id != (receive ? 100 : 0) + next[receive]++) {
			pr_err("completion %llu, %s\n", wc.wr_id,
			       ib_wc_status_msg(wc.status));
			return -EIO;
		}
	}
	for (i = 0; i < count; i++)
		if (memchr_inv(received(p, i), 'a' + i, SLOT))
			return need(false, "the octets of a message");
	return 0;
}

static int check_lists(struct posting *p)
{
	return post_lists(p, LIST) ?: take_messages(p, LIST) ?:
	       expect_nothing(p, "a list is complete");
}

/* What is before the bad one is done, what is behind it never is. */
static int check_bad_in_list(struct posting *p)
{
	return post_lists(p, 2) ?: take_messages(p, 2) ?:
	       expect_nothing(p, "behind the bad one") ?:
	       check_lists(p);
}

/* Full queues: of the first QP with Sends, of the second with receives. */
struct full {
	unsigned int sends, recvs;
	unsigned int next[2];		/* to complete, of each */
	bool refused;
};

/* Of the message @i, and of that which finds no room: another than the oldest one's. */
static unsigned int place_of(unsigned int i)
{
	return i % PLACES;
}

/* The device holds what is posted before the connection. */
static int fill_both(struct posting *p, struct full *f)
{
	const struct ib_recv_wr *bad_recv = NULL;
	const struct ib_send_wr *bad_send = NULL;
	struct ib_recv_wr recv;
	struct ib_send_wr send;
	struct ib_sge sge;
	int ret;

	do {
		fill_send(p, &send, &sge, place_of(f->sends), IB_SEND_SIGNALED);
		ret = ib_post_send(p->qp[0], &send, &bad_send);
	} while (!ret && ++f->sends < MOST_POSTS);
	if (ret != -ENOMEM || bad_send != &send || f->sends < DEPTH)
		return need(false, "a full SQ");
	do {
		fill_receive(p, &recv, &sge, place_of(f->recvs));
		ret = ib_post_recv(p->qp[1], &recv, &bad_recv);
	} while (!ret && ++f->recvs < MOST_POSTS);
	if (ret != -ENOMEM || bad_recv != &recv || f->recvs < DEPTH)
		return need(false, "a full RQ");
	return expect_nothing(p, "without a connection");
}

/* One unit of the ring is free; a registration has two. */
static int refuse_longer(struct posting *p, struct full *f)
{
	const struct ib_send_wr *bad = NULL;
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = p->mr,
		.key = p->mr->rkey,
	};

	f->refused = true;
	return need(ib_post_send(p->qp[0], &reg.wr, &bad) == -ENOMEM &&
		    bad == &reg.wr, "a registration where a Send has room");
}

static int take_next(struct posting *p, struct full *f)
{
	unsigned int *next, place;
	struct ib_wc wc;
	bool receive;
	int ret = poll_one(p, &wc);

	if (ret)
		return ret;
	receive = wc.opcode == IB_WC_RECV;
	next = &f->next[receive];
	place = place_of((*next)++);
	if (wc.status != IB_WC_SUCCESS || wc.wr_id != (receive ? 100 : 0) + place)
		return need(false, "a message of a full queue");
	if (!receive)
		return f->refused ? 0 : refuse_longer(p, f);
	if (memchr_inv(received(p, place), 'a' + place, SLOT))
		return need(false, "the octets of a full queue's message");
	if (f->recvs == f->sends)
		return 0;
	return post_receive_one(p, p->qp[1], place_of(f->recvs++));
}

/* The refusal has disturbed nothing: each message comes as it was posted. */
static int check_full(struct posting *p)
{
	struct full f = {};
	int ret = fill_both(p, &f);

	if (ret)
		return ret;
	if (f.recvs > f.sends || f.sends > PLACES + 1)
		return need(false, "how much fills a queue");
	ret = connect_by_hand(p->qp[0], p->qp[1]);
	while (!ret && f.next[0] + f.next[1] < 2 * f.sends)
		ret = take_next(p, &f);
	return ret ?: expect_nothing(p, "all of a full queue has come");
}

/* Of an S-RQ, and of the RQ that a QP with an S-RQ has not. */
static int check_srq(struct posting *p)
{
	struct ib_qp_init_attr init = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.srq = p->srq,
		/* What is said of an RQ does not count. */
		.cap = {
			.max_send_wr = 1, .max_recv_wr = 1000000000,
			.max_send_sge = 1, .max_recv_sge = 1000,
		},
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp = ib_create_qp(p->pd, &init);
	const struct ib_recv_wr *bad = NULL;
	struct ib_recv_wr recv = {};
	unsigned int recvs = 0;
	int ret;

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	ret = need(!init.cap.max_recv_wr && !init.cap.max_recv_sge,
		   "the driver returns no RQ of a QP with an S-RQ") ?:
	      need(ib_post_recv(qp, &recv, &bad) == -EINVAL && bad == &recv,
		   "a receive for the RQ of a QP with an S-RQ");
	ib_destroy_qp(qp);
	if (ret)
		return ret;
	bad = NULL;
	do {
		ret = ib_post_srq_recv(p->srq, &recv, &bad);
	} while (!ret && ++recvs < MOST_POSTS);
	return need(ret == -ENOMEM && bad == &recv && recvs >= DEPTH,
		    "a full S-RQ");
}

/* Receives of @recvs, one after another in the page's second half; number bad is wrong. */
static void fill_srq_list(struct posting *p, struct ib_recv_wr *recvs,
			  struct ib_sge *sges, unsigned int count,
			  unsigned int bad)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		fill_receive(p, &recvs[i], &sges[i], i % PLACES);
		recvs[i].wr_id = 100 + i;
		recvs[i].next = i + 1 < count ? &recvs[i + 1] : NULL;
	}
	if (bad < count)
		recvs[bad].num_sge = 1000;
}

/* A message for each of the first @count receives of the S-RQ. */
static int use_srq_list(struct posting *p, unsigned int count)
{
	unsigned int i, k;
	int ret = 0;

	for (i = 0; i < count && !ret; i++) {
		bool received_it = false, sent_it = false;

		memset(received(p, i), 0, SLOT);
		ret = post_send_one(p, i, IB_SEND_SIGNALED);
		for (k = 0; k < 2 && !ret; k++) {
			struct ib_wc wc;

			ret = poll_one(p, &wc) ?:
			      need(wc.status == IB_WC_SUCCESS, "an S-RQ's message");
			received_it |= wc.qp == p->qp[1] && wc.wr_id == 100 + i &&
				       wc.opcode == IB_WC_RECV;
			sent_it |= wc.qp == p->qp[0] && wc.wr_id == i;
		}
		ret = ret ?: need(received_it && sent_it &&
				  !memchr_inv(received(p, i), 'a' + i, SLOT),
				  "which of an S-RQ's receives has a message");
	}
	return ret;
}

/*
 * Of a list whose third is bad two are taken, and have the next two messages; then a
 * list is taken as a whole; then as much of one as there is room for.
 */
static int post_srq_lists(struct posting *p, struct ib_recv_wr *recvs,
			  struct ib_sge *sges)
{
	const struct ib_recv_wr *bad = NULL;
	struct ib_srq_attr attr;
	int ret;

	fill_srq_list(p, recvs, sges, LIST, 2);
	ret = ib_query_srq(p->srq, &attr) ?:
	      need(attr.max_wr == DEPTH, "the size of an S-RQ") ?:
	      need(ib_post_srq_recv(p->srq, recvs, &bad) == -EINVAL &&
		   bad == &recvs[2], "which of an S-RQ's list is the bad one");
	fill_srq_list(p, recvs, sges, LIST, LIST);
	ret = ret ?: use_srq_list(p, 2) ?:
	      ib_post_srq_recv(p->srq, recvs, &bad);
	memset(recvs, 0xee, LIST * sizeof(*recvs));
	memset(sges, 0xee, LIST * sizeof(*sges));
	ret = ret ?: use_srq_list(p, LIST);
	fill_srq_list(p, recvs, sges, MOST_LIST, MOST_LIST);
	return ret ?: need(ib_post_srq_recv(p->srq, recvs, &bad) == -ENOMEM &&
			   bad == &recvs[DEPTH],
			   "how many of a list fill an S-RQ") ?:
	       use_srq_list(p, DEPTH) ?:
	       expect_nothing(p, "all of an S-RQ's lists is used");
}

static int check_srq_lists(struct posting *p)
{
	struct ib_recv_wr *recvs = kcalloc(MOST_LIST, sizeof(*recvs), GFP_KERNEL);
	struct ib_sge *sges = kcalloc(MOST_LIST, sizeof(*sges), GFP_KERNEL);
	int ret = recvs && sges ? post_srq_lists(p, recvs, sges) : -ENOMEM;

	kfree(sges);
	kfree(recvs);
	return ret;
}

/* Nothing is said of what is not signaled, until it fails. */
static int check_unsignaled(struct posting *p)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < LIST && !ret; i++)
		ret = post_receive_one(p, p->qp[1], i) ?:
		      post_send_one(p, i, i == LIST - 1 ? IB_SEND_SIGNALED : 0);
	/* Receives come before the Send that is signaled, or behind it. */
	for (i = 0; i < LIST + 1 && !ret; i++) {
		struct ib_wc wc;

		ret = poll_one(p, &wc);
		if (!ret && (wc.status != IB_WC_SUCCESS ||
			     (wc.opcode == IB_WC_SEND && wc.wr_id != LIST - 1)))
			ret = need(false, "a completion not asked for");
	}
	return ret ?: expect_nothing(p, "four Sends, one signaled");
}

static int to_error(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

/* Signaled or not, in order; also what is posted later. */
static int check_flush(struct posting *p)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < LIST && !ret; i++)
		ret = post_receive_one(p, p->qp[0], i);
	if (!ret)
		ret = to_error(p->qp[0]);
	for (i = 0; i < LIST && !ret; i++)
		ret = expect(p, 100 + i, IB_WC_WR_FLUSH_ERR);
	for (i = 0; i < LIST && !ret; i++)
		ret = post_send_one(p, i, 0);
	for (i = 0; i < LIST && !ret; i++)
		ret = expect(p, i, IB_WC_WR_FLUSH_ERR);
	return ret ?: expect_nothing(p, "all is flushed");
}

static int execute(struct posting *p, struct ib_send_wr *wr,
		   enum ib_wc_opcode opcode, enum ib_wc_status status)
{
	struct ib_wc wc;
	int ret;

	wr->send_flags |= IB_SEND_SIGNALED;
	ret = ib_post_send(p->qp[0], wr, NULL) ?: poll_one(p, &wc);
	if (ret)
		return ret;
	if (wc.status == status &&
	    (status != IB_WC_SUCCESS || wc.opcode == opcode))
		return 0;
	pr_err("opcode %d: %s, kind %d\n", wr->opcode,
	       ib_wc_status_msg(wc.status), wc.opcode);
	return -EIO;
}

static int register_page(struct posting *p, struct ib_mr *mr,
			 enum ib_wc_status status)
{
	struct scatterlist sg;
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = mr,
		.key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_READ,
	};

	sg_init_one(&sg, p->page, PAGE_SIZE);
	sg_dma_address(&sg) = p->dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	return execute(p, &reg.wr, IB_WC_REG_MR, status);
}

/* Each memory operation completes as what it is; the last, by another key, fails. */
static int check_memory(struct posting *p)
{
	struct ib_sge sge = { .length = 8, .lkey = p->mr->lkey };
	struct ib_rdma_wr read = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.invalidate_rkey = p->mr->rkey,
		},
		.rkey = p->mr->rkey,
	};
	struct ib_send_wr invalidate = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = p->mr->rkey,
	};
	struct ib_send_wr wrong = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = p->mr->rkey ^ 1,
	};
	int ret;

	memcpy(p->page + SLOT, "together", 8);
	ret = register_page(p, p->mr, IB_WC_SUCCESS);
	if (ret)
		return ret;
	sge.addr = p->mr->iova;
	read.remote_addr = p->mr->iova + SLOT;
	return execute(p, &read.wr, IB_WC_RDMA_READ, IB_WC_SUCCESS) ?:
	       need(!memcmp(p->page, "together", 8), "what was read") ?:
	       register_page(p, p->mr, IB_WC_SUCCESS) ?:
	       execute(p, &invalidate, IB_WC_LOCAL_INV, IB_WC_SUCCESS) ?:
	       register_page(p, p->mr, IB_WC_SUCCESS) ?:
	       need(execute(p, &wrong, IB_WC_LOCAL_INV, IB_WC_SUCCESS) == -EIO,
		    "another key invalidates");
}

/* Of every kind but Sends, none signaled: nothing is said but of the Send behind them. */
static int check_unsignaled_memory(struct posting *p)
{
	struct ib_sge sge = { .length = 8, .lkey = p->mr->lkey };
	struct ib_rdma_wr rdma = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.invalidate_rkey = p->mr->rkey,
		},
		.rkey = p->mr->rkey,
	};
	struct ib_send_wr invalidate = {
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_FENCE,
		.ex.invalidate_rkey = p->mr->rkey,
	};
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = p->mr,
		.key = p->mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_READ,
	};
	int ret = register_page(p, p->mr, IB_WC_SUCCESS);

	if (ret)
		return ret;
	sge.addr = p->mr->iova;
	rdma.remote_addr = p->mr->iova + SLOT;
	ret = ib_post_send(p->qp[0], &rdma.wr, NULL);
	rdma.wr.opcode = IB_WR_RDMA_READ;
	ret = ret ?: ib_post_send(p->qp[0], &rdma.wr, NULL) ?:
	      ib_post_send(p->qp[0], &invalidate, NULL) ?:
	      ib_post_send(p->qp[0], &reg.wr, NULL);
	rdma.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
	ret = ret ?: ib_post_send(p->qp[0], &rdma.wr, NULL) ?:
	      post_receive_one(p, p->qp[1], 0) ?:
	      post_send_one(p, 0, IB_SEND_SIGNALED | IB_SEND_FENCE);
	return ret ?: take_messages(p, 1) ?:
	       expect_nothing(p, "five unsignaled, one signaled");
}

struct fenced {
	enum ib_wr_opcode opcode;
	int flags;
};

/* Each kind of message that there is besides the Read. */
static const struct fenced fenced[] = {
	{ IB_WR_SEND, 0 },
	{ IB_WR_SEND, IB_SEND_SOLICITED },
	{ IB_WR_SEND_WITH_INV, 0 },
	{ IB_WR_SEND_WITH_INV, IB_SEND_SOLICITED },
	{ IB_WR_RDMA_WRITE, 0 },
};

/* Each kind of Send, and one that is signaled behind them. */
static const struct fenced sends[] = {
	{ IB_WR_SEND, 0 },
	{ IB_WR_SEND, IB_SEND_SOLICITED },
	{ IB_WR_SEND_WITH_INV, 0 },
	{ IB_WR_SEND_WITH_INV, IB_SEND_SOLICITED },
	{ IB_WR_SEND, IB_SEND_SIGNALED },
};

#define SENDS	ARRAY_SIZE(sends)

/* The second that invalidates finds the region Invalid, which is no error. */
static int post_sends(struct posting *p)
{
	struct ib_send_wr wr;
	struct ib_sge sge;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < SENDS && !ret; i++) {
		fill_send(p, &wr, &sge, i, sends[i].flags);
		wr.opcode = sends[i].opcode;
		if (wr.opcode == IB_WR_SEND_WITH_INV)
			wr.ex.invalidate_rkey = p->mr->rkey;
		ret = post_receive_one(p, p->qp[1], i) ?:
		      ib_post_send(p->qp[0], &wr, NULL);
	}
	return ret;
}

static int check_unsignaled_sends(struct posting *p)
{
	unsigned int i;
	struct ib_wc wc;
	int ret = register_page(p, p->mr, IB_WC_SUCCESS) ?: post_sends(p);

	for (i = 0; i < SENDS + 1 && !ret; i++) {
		ret = poll_one(p, &wc);
		if (!ret && (wc.status != IB_WC_SUCCESS ||
			     (wc.opcode == IB_WC_SEND && wc.wr_id != SENDS - 1)))
			ret = need(false, "a completion of a Send not signaled");
	}
	for (i = 0; i < SENDS && !ret; i++)
		ret = need(!memchr_inv(received(p, i), 'a' + i, SLOT),
			   "the octets of a Send not signaled");
	return ret ?: expect_nothing(p, "Sends of each kind, one signaled");
}

/* The completion of @wr and, if it is a Send, that of its receive. */
static int take_fenced(struct posting *p, const struct ib_send_wr *wr)
{
	unsigned int count = wr->opcode == IB_WR_RDMA_WRITE ? 1 : 2, i;
	struct ib_wc wc;
	int ret;

	for (i = 0; i < count; i++) {
		ret = poll_one(p, &wc);
		if (!ret && (wc.status != IB_WC_SUCCESS ||
			     wc.wr_id != (wc.opcode == IB_WC_RECV ? 100 :
								    wr->wr_id)))
			ret = need(false, "a completion behind a Read");
		if (ret)
			return ret;
	}
	return 0;
}

/* The memory of a message that is to be sent behind a Read, and of the Read. */
static void fill_fenced(struct posting *p, u8 round)
{
	memset(p->page, round, SLOT);			/* read from here */
	memset(p->page + SLOT, 0, SLOT);		/* to here, and sent */
	memset(received(p, 0), 0, SLOT);
}

/*
 * A Read, and behind it what sends on what it brings; the region is Valid, and stays so
 * if nothing invalidates it.
 */
static int send_behind_read(struct posting *p, const struct fenced *kind,
			    u8 round)
{
	struct ib_sge to = { .length = SLOT, .lkey = p->mr->lkey };
	struct ib_sge from = {
		.addr = p->dma + SLOT,
		.length = SLOT,
		.lkey = p->pd->local_dma_lkey,
	};
	struct ib_rdma_wr next = {
		.wr = {
			.wr_id = round,
			.opcode = kind->opcode,
			.send_flags = IB_SEND_FENCE | IB_SEND_SIGNALED |
				      kind->flags,
			.sg_list = &from,
			.num_sge = 1,
		},
		.remote_addr = p->mr->iova + PAGE_SIZE / 2,
		.rkey = p->mr->rkey,
	};
	struct ib_rdma_wr read = {
		.wr = {
			.opcode = IB_WR_RDMA_READ,
			.next = &next.wr,
			.sg_list = &to,
			.num_sge = 1,
		},
		.remote_addr = p->mr->iova,
		.rkey = p->mr->rkey,
	};
	int ret = 0;

	to.addr = p->mr->iova + SLOT;
	if (kind->opcode == IB_WR_SEND_WITH_INV)
		next.wr.ex.invalidate_rkey = p->mr->rkey;
	if (kind->opcode != IB_WR_RDMA_WRITE)
		ret = post_receive_one(p, p->qp[1], 0);
	fill_fenced(p, round);
	return ret ?: ib_post_send(p->qp[0], &read.wr, NULL) ?:
	       take_fenced(p, &next.wr) ?:
	       need(!memchr_inv(received(p, 0), round, SLOT),
		    "what was sent behind a Read");
}

/*
 * What a Read brings is sent on by the Send or Write behind it: none of it before all
 * of it has come.
 */
static int check_read_fence(struct posting *p)
{
	struct ib_send_wr invalidate = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = p->mr->rkey,
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < TIMES * ARRAY_SIZE(fenced) && !ret; i++) {
		const struct fenced *kind = &fenced[i % ARRAY_SIZE(fenced)];

		ret = register_page(p, p->mr, IB_WC_SUCCESS) ?:
		      send_behind_read(p, kind, 1 + i);
		if (!ret && kind->opcode != IB_WR_SEND_WITH_INV)
			ret = execute(p, &invalidate, IB_WC_LOCAL_INV,
				      IB_WC_SUCCESS);
	}
	return ret;
}

/* The region is of another PD than the QP. */
static int check_other_pd(struct posting *p)
{
	struct ib_pd *pd = ib_alloc_pd(p->pd->device, 0);
	struct ib_mr *mr;
	int ret;

	if (IS_ERR(pd))
		return PTR_ERR(pd);
	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	ret = PTR_ERR_OR_ZERO(mr);
	if (!ret) {
		ret = register_page(p, mr, IB_WC_LOC_PROT_ERR);
		ib_dereg_mr(mr);
	}
	ib_dealloc_pd(pd);
	return ret;
}

/*
 * ------------------------------------------------------------ objects
 */
static struct ib_qp *make_qp(struct posting *p, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.srq = srq,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(p->pd, &init);
}

static int to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

/* Connected, or in INIT; the second one receives by @srq, or by an RQ of its own. */
static int with_qps_on(struct posting *p, struct ib_srq *srq, bool connected,
		       int (*check)(struct posting *p))
{
	int ret;

	p->qp[0] = make_qp(p, NULL);
	if (IS_ERR(p->qp[0]))
		return PTR_ERR(p->qp[0]);
	p->qp[1] = make_qp(p, srq);
	ret = PTR_ERR_OR_ZERO(p->qp[1]);
	if (!ret) {
		ret = connected ? connect_by_hand(p->qp[0], p->qp[1]) :
				  to_init(p->qp[0]);
		ret = ret ?: check(p);
		ib_destroy_qp(p->qp[1]);
	}
	ib_destroy_qp(p->qp[0]);
	/* What they had on the CQ has gone with them. */
	return ret ?: expect_nothing(p, "of QPs that have gone");
}

static int with_qps(struct posting *p, bool connected,
		    int (*check)(struct posting *p))
{
	return with_qps_on(p, NULL, connected, check);
}

static int leave_completions(struct posting *p)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < DEPTH && !ret; i++)
		ret = post_receive_one(p, p->qp[0], i % LIST);
	return ret ?: to_error(p->qp[0]);
}

/* The CQ has room for those of two QPs, and for those of many in turn. */
static int check_destroyed(struct posting *p)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < TIMES && !ret; i++)
		ret = with_qps(p, false, leave_completions);
	return ret;
}

static int check_all(struct posting *p)
{
	return with_qps(p, true, check_lists) ?:
	       with_qps(p, true, check_bad_in_list) ?:
	       with_qps(p, false, check_full) ?:
	       with_qps(p, true, check_unsignaled) ?:
	       with_qps(p, true, check_unsignaled_memory) ?:
	       with_qps(p, true, check_unsignaled_sends) ?:
	       with_qps(p, true, check_read_fence) ?:
	       check_destroyed(p) ?:
	       with_qps(p, false, check_flush) ?:
	       with_qps(p, true, check_memory) ?:
	       with_qps(p, true, check_other_pd) ?:
	       check_srq(p);
}

static int with_srq(struct posting *p)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	int ret;

	p->srq = ib_create_srq(p->pd, &init);
	if (IS_ERR(p->srq))
		return PTR_ERR(p->srq);
	ret = check_all(p);
	ib_destroy_srq(p->srq);
	if (ret)
		return ret;
	p->srq = ib_create_srq(p->pd, &init);
	if (IS_ERR(p->srq))
		return PTR_ERR(p->srq);
	ret = with_qps_on(p, p->srq, true, check_srq_lists);
	ib_destroy_srq(p->srq);
	return ret;
}

static int with_region(struct posting *p)
{
	int ret;

	p->mr = ib_alloc_mr(p->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(p->mr))
		return PTR_ERR(p->mr);
	ret = with_srq(p);
	ib_dereg_mr(p->mr);
	return ret;
}

static int with_cq(struct posting *p)
{
	int ret;

	p->cq = ib_alloc_cq(p->pd->device, NULL, 4 * DEPTH, 0, IB_POLL_DIRECT);
	if (IS_ERR(p->cq))
		return PTR_ERR(p->cq);
	ret = with_region(p);
	ib_free_cq(p->cq);
	return ret;
}

int check_posting(struct ib_pd *pd)
{
	struct device *dma_device = pd->device->dma_device;
	struct posting p = { .pd = pd };
	int ret;

	p.page = dma_alloc_coherent(dma_device, PAGE_SIZE, &p.dma, GFP_KERNEL);
	if (!p.page)
		return -ENOMEM;
	ret = with_cq(&p);
	dma_free_coherent(dma_device, PAGE_SIZE, p.page, p.dma);
	return ret;
}
