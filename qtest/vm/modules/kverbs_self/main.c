// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: atomic operations, immediate data and Reads with several SGEs by
 * kernel verbs, on two QPs of the adapter that are connected by hand to each other;
 * then posting and polling, notification, what the driver has to refuse, sizes of
 * queues, and memory.
 *
 * Loading it does all of that; it loads if all is right. With maxima=1 it has the
 * largest queues that the adapter offers, instead; with lingering=1 queue pairs that
 * stay in ERR; with reused=1 those, and CQs, whose numbers others had; with unflushed=1
 * one whose completion the adapter loses, and with unsignaled=1 one of whose Sends it
 * says too much (with in_error=1: in ERR), once go=1 says that it does.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#include "attributes.h"
#include "connect.h"
#include "events.h"
#include "limits.h"
#include "lingering.h"
#include "maxima.h"
#include "memory.h"
#include "posting.h"
#include "reused.h"
#include "unflushed.h"
#include "unsignaled.h"

#define TIME_LIMIT	(60 * HZ)
#define IMMEDIATE	0x12345678
#define PAYLOAD		40	/* octets of a message */

/* Where what is, in the page. */
#define WORD		0	/* the target of the atomics */
#define FOUND		8	/* what they have found there */
#define SOURCE		64
#define SINK		128
#define SINK_GAP	32	/* octets from one of a Read's SGEs to the next */
#define SINKS		3

static struct self {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];	/* the first one asks */
	struct ib_mr *mr;
	struct scatterlist sg;
	u8 *page;
} self;

static bool maxima;
module_param(maxima, bool, 0);
static bool lingering;
module_param(lingering, bool, 0);
static bool reused;
module_param(reused, bool, 0);
static bool unflushed;
module_param(unflushed, bool, 0);
static bool unsignaled;
module_param(unsignaled, bool, 0);
static bool in_error;
module_param(in_error, bool, 0);

static int result = -ENODEV;	/* of the first adapter; no adapter */

/*
 * ------------------------------------------------------------- posting
 */
static struct ib_sge part(unsigned int offset, unsigned int length)
{
	return (struct ib_sge) {
		.addr = sg_dma_address(&self.sg) + offset,
		.length = length,
		.lkey = self.pd->local_dma_lkey,
	};
}

static u64 *word_at(unsigned int offset)
{
	return (u64 *)(self.page + offset);
}

static int expect(enum ib_wc_opcode opcode, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	int n;

	while (!(n = ib_poll_cq(self.cq, 1, wc))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(50, 100);
	}
	if (n < 0)
		return n;
	if (wc->status != IB_WC_SUCCESS || wc->opcode != opcode) {
		pr_err("status %s, opcode %d instead of %d\n",
		       ib_wc_status_msg(wc->status), wc->opcode, opcode);
		return -EIO;
	}
	return 0;
}

static int register_page(void)
{
	struct ib_reg_wr wr = {
		.wr = {
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.mr = self.mr,
		.key = self.mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC,
	};
	struct ib_wc wc;

	if (ib_map_mr_sg(self.mr, &self.sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	return ib_post_send(self.qp[0], &wr.wr, NULL) ?:
	       expect(IB_WC_REG_MR, &wc);
}

static int post_atomic(enum ib_wr_opcode opcode, u64 compare_add, u64 swap)
{
	struct ib_sge sge = part(FOUND, sizeof(u64));
	struct ib_atomic_wr wr = {
		.wr = {
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = self.mr->iova + WORD,
		.rkey = self.mr->rkey,
		.compare_add = compare_add,
		.swap = swap,
	};

	return ib_post_send(self.qp[0], &wr.wr, NULL);
}

static int check_atomic(enum ib_wr_opcode opcode, u64 compare_add, u64 swap,
			u64 found, u64 after)
{
	bool add = opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
	struct ib_wc wc;
	int ret;

	ret = post_atomic(opcode, compare_add, swap) ?:
	      expect(add ? IB_WC_FETCH_ADD : IB_WC_COMP_SWAP, &wc);
	if (ret)
		return ret;
	if (*word_at(FOUND) != found || *word_at(WORD) != after) {
		pr_err("found %llu, left %llu\n", *word_at(FOUND),
		       *word_at(WORD));
		return -EIO;
	}
	return 0;
}

static int check_atomics(void)
{
	*word_at(WORD) = 40;
	return check_atomic(IB_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 40, 42) ?:
	       check_atomic(IB_WR_ATOMIC_CMP_AND_SWP, 42, 7, 42, 7) ?:
	       check_atomic(IB_WR_ATOMIC_CMP_AND_SWP, 42, 8, 7, 7);
}

static int post_receive(void)
{
	struct ib_sge sge = part(SINK, PAYLOAD);
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(self.qp[1], &wr, NULL);
}

static int post_immediate(enum ib_wr_opcode opcode)
{
	struct ib_sge sge = part(SOURCE, PAYLOAD);
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.imm_data = cpu_to_be32(IMMEDIATE),
		},
		.remote_addr = self.mr->iova + SINK,
		.rkey = self.mr->rkey,
	};

	return ib_post_send(self.qp[0], &wr.wr, NULL);
}

static int check_immediate(enum ib_wr_opcode opcode)
{
	bool write = opcode == IB_WR_RDMA_WRITE_WITH_IMM;
	struct ib_wc wc;
	int ret;

	memset(self.page + SOURCE, write ? 0x5a : 0xa5, PAYLOAD);
	ret = post_receive() ?: post_immediate(opcode) ?:
	      expect(write ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV, &wc);
	if (ret)
		return ret;
	if (!(wc.wc_flags & IB_WC_WITH_IMM) || wc.byte_len != PAYLOAD ||
	    be32_to_cpu(wc.ex.imm_data) != IMMEDIATE ||
	    memcmp(self.page + SOURCE, self.page + SINK, PAYLOAD)) {
		pr_err("immediate data 0x%x, flags 0x%x, %u octets\n",
		       be32_to_cpu(wc.ex.imm_data), wc.wc_flags, wc.byte_len);
		return -EIO;
	}
	return expect(write ? IB_WC_RDMA_WRITE : IB_WC_SEND, &wc);
}

static int post_read_list(const unsigned int *lengths)
{
	struct ib_sge sges[SINKS];
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = sges,
			.num_sge = SINKS,
		},
		.remote_addr = self.mr->iova + SOURCE,
		.rkey = self.mr->rkey,
	};
	unsigned int i;

	for (i = 0; i < SINKS; i++)
		sges[i] = (struct ib_sge) {
			.addr = self.mr->iova + SINK + i * SINK_GAP,
			.length = lengths[i],
			.lkey = self.mr->lkey,
		};
	return ib_post_send(self.qp[0], &wr.wr, NULL);
}

static int check_read_list(void)
{
	static const unsigned int lengths[SINKS] = { 7, 20, 13 };
	const u8 *source = self.page + SOURCE;
	struct ib_wc wc;
	unsigned int i;
	int ret;

	for (i = 0; i < PAYLOAD; i++)
		self.page[SOURCE + i] = 1 + i;
	memset(self.page + SINK, 0, SINKS * SINK_GAP);
	ret = post_read_list(lengths) ?: expect(IB_WC_RDMA_READ, &wc);
	if (ret)
		return ret;
	for (i = 0; i < SINKS; i++) {
		const u8 *sink = self.page + SINK + i * SINK_GAP;

		if (memcmp(sink, source, lengths[i]) || sink[lengths[i]]) {
			pr_err("SGE %u of a Read has other octets\n", i);
			return -EIO;
		}
		source += lengths[i];
	}
	return 0;
}

static int check_all(void)
{
	if (self.dev->attrs.atomic_cap != IB_ATOMIC_HCA)
		return -EOPNOTSUPP;
	return connect_by_hand(self.qp[0], self.qp[1]) ?: register_page() ?:
	       check_atomics() ?:
	       check_immediate(IB_WR_RDMA_WRITE_WITH_IMM) ?:
	       check_immediate(IB_WR_SEND_WITH_IMM) ?:
	       check_read_list();
}

/*
 * ------------------------------------------------------------- objects
 */
static struct ib_qp *make_qp(void)
{
	struct ib_qp_init_attr init = {
		.send_cq = self.cq,
		.recv_cq = self.cq,
		.cap = {
			.max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = SINKS,
			.max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(self.pd, &init);
}

static int with_qps(void)
{
	int ret;

	self.qp[0] = make_qp();
	if (IS_ERR(self.qp[0]))
		return PTR_ERR(self.qp[0]);
	self.qp[1] = make_qp();
	ret = PTR_ERR_OR_ZERO(self.qp[1]) ?: check_all();
	if (!IS_ERR(self.qp[1]))
		ib_destroy_qp(self.qp[1]);
	ib_destroy_qp(self.qp[0]);
	return ret;
}

static int with_region(void)
{
	int ret;

	self.mr = ib_alloc_mr(self.pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(self.mr))
		return PTR_ERR(self.mr);
	ret = with_qps();
	ib_dereg_mr(self.mr);
	return ret;
}

static int with_page(void)
{
	int ret = -ENOMEM;

	self.page = (u8 *)get_zeroed_page(GFP_KERNEL);
	if (!self.page)
		return ret;
	sg_init_one(&self.sg, self.page, PAGE_SIZE);
	if (ib_dma_map_sg(self.dev, &self.sg, 1, DMA_BIDIRECTIONAL) == 1) {
		ret = with_region();
		ib_dma_unmap_sg(self.dev, &self.sg, 1, DMA_BIDIRECTIONAL);
	}
	free_page((unsigned long)self.page);
	return ret;
}

static int with_cq(void)
{
	int ret;

	self.cq = ib_alloc_cq(self.dev, NULL, 32, 0, IB_POLL_DIRECT);
	if (IS_ERR(self.cq))
		return PTR_ERR(self.cq);
	ret = with_page();
	ib_free_cq(self.cq);
	return ret;
}

static int check_device(struct ib_device *dev)
{
	int ret;

	self.dev = dev;
	self.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(self.pd))
		return PTR_ERR(self.pd);
	ret = with_cq() ?: check_posting(self.pd) ?: check_events(self.pd) ?:
	      check_limits(self.pd) ?: check_attributes(self.pd) ?:
	      check_memory_verbs(self.pd);
	ib_dealloc_pd(self.pd);
	return ret;
}

static int self_add(struct ib_device *dev)
{
	/* The adapter is back: it was taken out of service. */
	if (result != -ENODEV)
		return 0;
	if (maxima)
		result = check_maxima(dev);
	else if (lingering)
		result = check_lingering(dev);
	else if (unflushed)
		result = check_unflushed(dev);
	else if (unsignaled)
		result = check_unsignaled(dev, in_error);
	else if (reused)
		result = check_reused(dev);
	else
		result = check_device(dev);
	return 0;
}

static void self_remove(struct ib_device *dev, void *data)
{
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = self_add,
	.remove = self_remove,
};

static int __init self_init(void)
{
	int ret = ib_register_client(&client);

	if (ret)
		return ret;
	if (result)
		ib_unregister_client(&client);
	return result;
}

static void __exit self_exit(void)
{
	ib_unregister_client(&client);
}

module_init(self_init);
module_exit(self_exit);
MODULE_DESCRIPTION("Atomic operations and immediate data by kernel verbs");
MODULE_LICENSE("GPL");
