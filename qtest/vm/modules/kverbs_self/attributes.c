// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: queues of different sizes have room for what was asked for, and no
 * work request has less room for SGEs than that; what is asked of a QP and an S-RQ
 * later is what they are; the states that a QP goes through.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>

#include "attributes.h"
#include "connect.h"

#define TIME_LIMIT	(60 * HZ)
#define CQES		256
#define MOST_POSTS	4096
#define MOST_SGES	40
#define RIGHTS		(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC)	/* connect_by_hand()'s */

struct attributes {
	struct ib_pd *pd;
	struct ib_cq *cq[2];	/* of Sends, of receives */
	struct ib_srq *srq;
	u8 *page;
	dma_addr_t dma;
};

static int need(bool right, const char *what)
{
	if (right)
		return 0;
	pr_err("wrong: %s\n", what);
	return -EIO;
}

static struct ib_qp *make_qp(struct attributes *a, struct ib_qp_cap cap,
			     struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.qp_context = a,
		.send_cq = a->cq[0],
		.recv_cq = a->cq[1],
		.srq = srq,
		.cap = cap,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(a->pd, &init);
}

/*
 * ---------------------------------------------------- room in the queues
 */
static struct ib_qp_cap sizes(u32 send_wr, u32 recv_wr, u32 send_sge,
			      u32 recv_sge)
{
	return (struct ib_qp_cap) {
		.max_send_wr = send_wr, .max_recv_wr = recv_wr,
		.max_send_sge = send_sge, .max_recv_sge = recv_sge,
	};
}

static int to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_REMOTE_READ,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

/* The device holds what is posted; with as many SGEs as there may be. */
static u32 fill_sq(struct ib_qp *qp, u32 sge)
{
	struct ib_sge sges[MOST_SGES] = {};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .sg_list = sges, .num_sge = sge,
	};
	u32 posts = 0;

	while (posts < MOST_POSTS && !ib_post_send(qp, &wr, NULL))
		posts++;
	return posts;
}

static u32 fill_rq(struct ib_qp *qp, struct ib_srq *srq, u32 sge)
{
	struct ib_sge sges[MOST_SGES] = {};
	struct ib_recv_wr wr = { .sg_list = sges, .num_sge = sge };
	u32 posts = 0;

	while (posts < MOST_POSTS &&
	       !(srq ? ib_post_srq_recv(srq, &wr, NULL) :
		       ib_post_recv(qp, &wr, NULL)))
		posts++;
	return posts;
}

static int refuse_sges(struct ib_qp *qp, struct ib_qp_cap cap)
{
	struct ib_sge sges[MOST_SGES] = {};
	struct ib_rdma_wr send = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.sg_list = sges,
			.num_sge = cap.max_send_sge + 1,
		},
	};
	struct ib_recv_wr recv = {
		.sg_list = sges, .num_sge = cap.max_recv_sge + 1,
	};
	int ret = need(ib_post_recv(qp, &recv, NULL) == -EINVAL,
		       "a receive of an SGE more");

	ret = ret ?: need(ib_post_send(qp, &send.wr, NULL) == -EINVAL,
			  "a Write of an SGE more");
	send.wr.opcode = IB_WR_SEND;
	return ret ?: need(ib_post_send(qp, &send.wr, NULL) == -EINVAL,
			   "a Send of an SGE more");
}

static int check_room_of(struct attributes *a, struct ib_qp *qp,
			 struct ib_qp_cap cap)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret;

	ret = ib_query_qp(qp, &attr, IB_QP_CAP, &init) ?: to_init(qp) ?:
	      refuse_sges(qp, attr.cap);
	if (ret)
		return ret;
	return need(attr.cap.max_send_wr >= cap.max_send_wr &&
		    attr.cap.max_recv_wr >= cap.max_recv_wr &&
		    attr.cap.max_send_sge >= cap.max_send_sge &&
		    attr.cap.max_recv_sge >= cap.max_recv_sge &&
		    !memcmp(&attr.cap, &init.cap, sizeof(init.cap)),
		    "what is granted") ?:
	       need(fill_sq(qp, attr.cap.max_send_sge) >= attr.cap.max_send_wr &&
		    fill_rq(qp, NULL, attr.cap.max_recv_sge) >=
		    attr.cap.max_recv_wr, "room in queues");
}

static int check_room(struct attributes *a, u32 send_wr, u32 recv_wr,
		      u32 send_sge, u32 recv_sge)
{
	struct ib_qp_cap cap = sizes(send_wr, recv_wr, send_sge, recv_sge);
	struct ib_qp *qp = make_qp(a, cap, NULL);
	int ret;

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	ret = check_room_of(a, qp, cap);
	ib_destroy_qp(qp);
	return ret;
}

static int check_rooms(struct attributes *a)
{
	const struct ib_device_attr *attrs = &a->pd->device->attrs;
	u32 send_sge = attrs->max_send_sge, recv_sge = attrs->max_recv_sge;

	if (send_sge >= MOST_SGES || recv_sge >= MOST_SGES)
		return need(false, "so many SGEs");
	return check_room(a, 3, 17, 2, 3) ?: check_room(a, 1, 64, 1, 1) ?:
	       check_room(a, 64, 1, 3, 1) ?:
	       check_room(a, 5, 5, send_sge, recv_sge);
}

/*
 * ------------------------------------------------------ SGEs in transfers
 */
static int await(struct ib_cq *cq)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	struct ib_wc wc;
	int n;

	while (!(n = ib_poll_cq(cq, 1, &wc))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(50, 100);
	}
	return n < 0 ? n : need(wc.status == IB_WC_SUCCESS, "a transfer");
}

/* An SGE for every second octet. */
static void list_octets(struct attributes *a, struct ib_sge *sges, u32 count,
			u32 offset)
{
	u32 i;

	for (i = 0; i < count; i++)
		sges[i] = (struct ib_sge) {
			.addr = a->dma + offset + 2 * i,
			.length = 1,
			.lkey = a->pd->local_dma_lkey,
		};
}

static int check_gathered(struct attributes *a, u32 at, u32 step, u32 count,
			  const char *what)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (a->page[at + step * i] != i + 1)
			return need(false, what);
	return 0;
}

static int try_send_of(struct attributes *a, struct ib_qp **qp, u32 count)
{
	struct ib_sge from[MOST_SGES], to[MOST_SGES];
	struct ib_recv_wr recv = { .sg_list = to, .num_sge = count };
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = from,
		.num_sge = count,
	};

	list_octets(a, from, count, 0);
	list_octets(a, to, count, 1024);
	return ib_post_recv(qp[1], &recv, NULL) ?:
	       ib_post_send(qp[0], &send, NULL) ?: await(a->cq[0]) ?:
	       await(a->cq[1]) ?:
	       check_gathered(a, 1024, 2, count, "a Send of many SGEs");
}

static int try_write_of(struct attributes *a, struct ib_qp **qp, u32 count,
			struct ib_mr *mr)
{
	struct ib_sge from[MOST_SGES];
	struct ib_rdma_wr write = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = from,
			.num_sge = count,
		},
		.remote_addr = mr->iova + 2048,
		.rkey = mr->rkey,
	};

	list_octets(a, from, count, 0);
	return ib_post_send(qp[0], &write.wr, NULL) ?: await(a->cq[0]) ?:
	       check_gathered(a, 2048, 1, count, "a Write of many SGEs");
}

static int register_page(struct attributes *a, struct ib_qp *qp,
			 struct ib_mr *mr)
{
	struct scatterlist sg;
	struct ib_reg_wr reg = {
		.wr = {
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.mr = mr,
		.key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};

	sg_init_one(&sg, a->page, PAGE_SIZE);
	sg_dma_address(&sg) = a->dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	return ib_post_send(qp, &reg.wr, NULL) ?: await(a->cq[0]);
}

/* As many SGEs as the adapter says, of Sends, Writes and receives alike. */
static int try_transfers(struct attributes *a, struct ib_qp **qp, u32 sge)
{
	struct ib_mr *mr = ib_alloc_mr(a->pd, IB_MR_TYPE_MEM_REG, 1);
	u32 i;
	int ret;

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	for (i = 0; i < sge; i++)
		a->page[2 * i] = i + 1;
	ret = register_page(a, qp[1], mr) ?: try_send_of(a, qp, sge) ?:
	      try_write_of(a, qp, sge, mr);
	ib_dereg_mr(mr);
	return ret;
}

/*
 * --------------------------------------------------- what a QP tells of itself
 */
static int expect_told(struct attributes *a, struct ib_qp *qp,
		       enum ib_qp_state state, int access)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret = ib_query_qp(qp, &attr, 0, &init);

	if (ret)
		return ret;
	if (attr.qp_state != state || attr.cur_qp_state != state ||
	    (access >= 0 && attr.qp_access_flags != access)) {
		pr_err("state %d, access 0x%x, instead of %d, 0x%x\n",
		       attr.qp_state, attr.qp_access_flags, state, access);
		return -EIO;
	}
	return need(init.send_cq == a->cq[0] && init.recv_cq == a->cq[1] &&
		    init.srq == qp->srq && init.qp_type == IB_QPT_RC &&
		    init.qp_context == a &&
		    init.sq_sig_type == IB_SIGNAL_REQ_WR,
		    "what a QP tells of its objects");
}

static int set_depths(struct ib_qp *qp, u8 ird, u8 ord)
{
	struct ib_qp_attr attr = {
		.max_dest_rd_atomic = ird, .max_rd_atomic = ord,
	};
	struct ib_qp_init_attr before, init;
	struct ib_qp_attr told;

	return ib_query_qp(qp, &told, IB_QP_CAP, &before) ?:
	       ib_modify_qp(qp, &attr, IB_QP_MAX_DEST_RD_ATOMIC |
			    IB_QP_MAX_QP_RD_ATOMIC) ?:
	       ib_query_qp(qp, &attr, 0, &init) ?:
	       need(attr.max_dest_rd_atomic == ird && attr.max_rd_atomic == ord,
		    "IRD and ORD that were granted") ?:
	       need(!memcmp(&attr.cap, &before.cap, sizeof(attr.cap)) &&
		    !memcmp(&init.cap, &before.cap, sizeof(init.cap)),
		    "the WRs of a QP whose IRD and ORD have changed");
}

static int change(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

/* Nothing is taken in RESET. */
static int refuse_posts(struct ib_qp *qp)
{
	const struct ib_recv_wr *bad_recv = NULL;
	const struct ib_send_wr *bad_send = NULL;
	struct ib_recv_wr recv = {};
	struct ib_send_wr send = { .opcode = IB_WR_SEND };

	return need(ib_post_send(qp, &send, &bad_send) == -EINVAL &&
		    bad_send == &send &&
		    ib_post_recv(qp, &recv, &bad_recv) == -EINVAL &&
		    bad_recv == &recv, "posting in RESET");
}

/* From RESET to ERR: then it comes back. */
static int check_drain(struct ib_qp *qp, struct ib_cq *cq)
{
	struct ib_recv_wr recv = { .wr_id = 5 };
	unsigned long deadline = jiffies + TIME_LIMIT;
	struct ib_wc wc = {};
	int ret = change(qp, IB_QPS_ERR) ?: ib_post_recv(qp, &recv, NULL);

	while (!ret && !ib_poll_cq(cq, 1, &wc)) {
		usleep_range(50, 100);
		ret = time_after(jiffies, deadline) ? -ETIMEDOUT : 0;
	}
	return ret ?: need(wc.wr_id == 5 && wc.status == IB_WC_WR_FLUSH_ERR,
			   "what is posted in ERR, behind RESET");
}

static int check_states(struct attributes *a, struct ib_qp **qp)
{
	const struct ib_device_attr *attrs = &a->pd->device->attrs;

	return change(qp[0], IB_QPS_RESET) ?:
	       expect_told(a, qp[0], IB_QPS_RESET, 0) ?:
	       refuse_posts(qp[0]) ?: to_init(qp[0]) ?:
	       expect_told(a, qp[0], IB_QPS_INIT, -1) ?:
	       set_depths(qp[0], 2, 3) ?:
	       set_depths(qp[0], attrs->max_qp_rd_atom,
			  attrs->max_qp_init_rd_atom) ?:
	       set_depths(qp[0], 0, 0) ?: set_depths(qp[0], 1, 1) ?:
	       connect_by_hand(qp[0], qp[1]) ?:
	       expect_told(a, qp[0], IB_QPS_RTS, RIGHTS) ?:
	       expect_told(a, qp[1], IB_QPS_RTS, RIGHTS) ?:
	       try_transfers(a, qp, attrs->max_send_sge) ?:
	       change(qp[0], IB_QPS_ERR) ?:
	       expect_told(a, qp[0], IB_QPS_ERR, RIGHTS) ?:
	       change(qp[0], IB_QPS_RESET) ?:
	       expect_told(a, qp[0], IB_QPS_RESET, 0) ?:
	       refuse_posts(qp[0]) ?: check_drain(qp[0], a->cq[1]);
}

static int check_told(struct attributes *a)
{
	u32 sge = a->pd->device->attrs.max_send_sge;
	struct ib_qp *qp[2];
	int ret;

	qp[0] = make_qp(a, sizes(8, 8, sge, sge), NULL);
	if (IS_ERR(qp[0]))
		return PTR_ERR(qp[0]);
	qp[1] = make_qp(a, sizes(8, 8, sge, sge), NULL);
	ret = PTR_ERR_OR_ZERO(qp[1]);
	if (!ret) {
		ret = check_states(a, qp);
		ib_destroy_qp(qp[1]);
	}
	ib_destroy_qp(qp[0]);
	return ret;
}

/* With an S-RQ it has no RQ to tell of. */
static int check_told_with_srq(struct attributes *a)
{
	struct ib_qp *qp = make_qp(a, sizes(4, 99, 1, 9), a->srq);
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret;

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	ret = to_init(qp) ?: expect_told(a, qp, IB_QPS_INIT, -1) ?:
	      ib_query_qp(qp, &attr, IB_QP_CAP, &init) ?:
	      need(!attr.cap.max_recv_wr && !attr.cap.max_recv_sge &&
		   attr.cap.max_send_wr == 4, "the RQ of a QP with an S-RQ");
	ib_destroy_qp(qp);
	return ret;
}

/*
 * ----------------------------------------------------------------- S-RQs
 */
static int check_srq_room(struct attributes *a, u32 wr, u32 sge, u32 limit)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = wr, .max_sge = sge, .srq_limit = limit },
	};
	struct ib_srq *srq = ib_create_srq(a->pd, &init);
	struct ib_srq_attr attr;
	int ret;

	if (IS_ERR(srq))
		return PTR_ERR(srq);
	ret = ib_query_srq(srq, &attr) ?:
	      need(attr.max_wr >= wr && attr.max_sge >= sge &&
		   attr.srq_limit == limit && init.attr.max_wr == attr.max_wr,
		   "what an S-RQ is granted") ?:
	      need(fill_rq(NULL, srq, attr.max_sge) == attr.max_wr,
		   "room in an S-RQ");
	ib_destroy_srq(srq);
	return ret;
}

static int check_srqs(struct attributes *a)
{
	u32 sge = a->pd->device->attrs.max_srq_sge;

	/* A limit of all that it has is a limit. */
	return check_srq_room(a, 7, 2, 0) ?: check_srq_room(a, 8, 1, 8) ?:
	       check_srq_room(a, 100, sge, 1);
}

/* A CQ says how many entries it has: a power of two, not less than was asked for. */
static int check_cq_of(struct attributes *a, int asked, int cqe)
{
	struct ib_cq *cq = ib_alloc_cq(a->pd->device, NULL, asked, 0,
				       IB_POLL_DIRECT);
	int ret;

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	ret = need(cq->cqe == cqe, "entries of a CQ");
	ib_free_cq(cq);
	return ret;
}

static int check_all(struct attributes *a)
{
	return check_rooms(a) ?: check_told(a) ?: check_told_with_srq(a) ?:
	       check_srqs(a) ?: check_cq_of(a, 100, 128) ?:
	       check_cq_of(a, 128, 128);
}

/*
 * -------------------------------------------------------------- set-up
 */
static int with_srq(struct attributes *a)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = 4, .max_sge = 1 },
	};
	int ret;

	a->srq = ib_create_srq(a->pd, &init);
	if (IS_ERR(a->srq))
		return PTR_ERR(a->srq);
	ret = check_all(a);
	ib_destroy_srq(a->srq);
	return ret;
}

static int with_cqs(struct attributes *a, int made)
{
	int ret;

	if (made == ARRAY_SIZE(a->cq))
		return with_srq(a);
	a->cq[made] = ib_alloc_cq(a->pd->device, NULL, CQES, 0,
				  IB_POLL_DIRECT);
	if (IS_ERR(a->cq[made]))
		return PTR_ERR(a->cq[made]);
	ret = with_cqs(a, made + 1);
	ib_free_cq(a->cq[made]);
	return ret;
}

int check_attributes(struct ib_pd *pd)
{
	struct device *dma_device = pd->device->dma_device;
	struct attributes a = { .pd = pd };
	int ret;

	a.page = dma_alloc_coherent(dma_device, PAGE_SIZE, &a.dma, GFP_KERNEL);
	if (!a.page)
		return -ENOMEM;
	ret = with_cqs(&a, 0);
	dma_free_coherent(dma_device, PAGE_SIZE, a.page, a.dma);
	return ret;
}
