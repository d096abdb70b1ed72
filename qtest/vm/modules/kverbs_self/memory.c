// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: what the kernel's verbs promise of memory that is registered by work
 * requests: rights that change with each registration, page lists of all lengths,
 * addresses that begin at zero, and that STag zero is no region. Each trial on two QPs
 * of its own, which are connected by hand: the second has the memory, the first is the
 * peer that uses it.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "connect.h"
#include "memory.h"

#define TIME_LIMIT	(60 * HZ)
#define DEPTH		16
#define OCTETS		8	/* of a transfer */
#define OFFSET		100	/* of a region that begins within a page */
#define LENGTH		200
#define PAGES		2
#define MOST_REGIONS	1000	/* of the longest lists; args has them be fewer */
#define ALL_RIGHTS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ)

struct memory {
	struct ib_pd *pd;
	struct ib_cq *cq[2];	/* of each QP */
	struct ib_qp *qp[2];
	struct ib_mr *mr;
	struct ib_mr *own;	/* the peer's page */
	u8 *page[PAGES];	/* the last is the peer's */
	dma_addr_t dma[PAGES];
};

static int complain(const char *what)
{
	pr_err("wrong: %s\n", what);
	return -EIO;
}

static int need(bool right, const char *what)
{
	return right ? 0 : complain(what);
}

/*
 * ------------------------------------------------------ work requests
 */
static int await(struct memory *m, int end, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + TIME_LIMIT;
	int n;

	while (!(n = ib_poll_cq(m->cq[end], 1, wc))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(50, 100);
	}
	return min(n, 0);
}

static int execute(struct memory *m, int end, struct ib_send_wr *wr,
		   enum ib_wc_status status, const char *what)
{
	struct ib_wc wc;
	int ret;

	wr->send_flags |= IB_SEND_SIGNALED;
	ret = ib_post_send(m->qp[end], wr, NULL) ?: await(m, end, &wc);
	if (!ret && wc.status == status)
		return 0;
	pr_err("%s: error %d, %s instead of %s\n", what, ret,
	       ib_wc_status_msg(wc.status), ib_wc_status_msg(status));
	return ret ?: -EIO;
}

/* Of what is mapped already. */
static int register_mapped(struct memory *m, int access,
			   enum ib_wc_status status, const char *what)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = m->mr,
		.access = access,
	};

	ib_update_fast_reg_key(m->mr, m->mr->rkey + 1);
	wr.key = m->mr->rkey;
	return execute(m, 1, &wr.wr, status, what);
}

static int invalidate(struct memory *m)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = m->mr->rkey,
	};

	return execute(m, 1, &wr, IB_WC_SUCCESS, "an Invalidate");
}

static int map(struct memory *m, struct ib_mr *mr, int page,
	       unsigned int offset, unsigned int length)
{
	struct scatterlist sg;

	sg_init_one(&sg, m->page[page] + offset, length);
	sg_dma_address(&sg) = m->dma[page] + offset;
	sg_dma_len(&sg) = length;
	return ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) == 1 ? 0 : -EINVAL;
}

static int map_part(struct memory *m, unsigned int offset, unsigned int length)
{
	return map(m, m->mr, 0, offset, length);
}

static int register_own(struct memory *m)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = m->own,
		.key = m->own->rkey,
		.access = IB_ACCESS_LOCAL_WRITE,
	};

	return map(m, m->own, 1, 0, PAGE_SIZE) ?:
	       execute(m, 0, &wr.wr, IB_WC_SUCCESS, "the peer's region");
}

/*
 * The peer writes OCTETS, or reads them to where it writes from, for which STag zero
 * will not do.
 */
static int use(struct memory *m, enum ib_wr_opcode opcode, u64 addr,
	       enum ib_wc_status status, const char *what)
{
	struct ib_sge sge = {
		.addr = m->dma[1],
		.length = OCTETS,
		.lkey = m->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = addr,
		.rkey = m->mr->rkey,
	};

	if (opcode == IB_WR_RDMA_READ) {
		sge.addr = m->own->iova;
		sge.lkey = m->own->lkey;
	}
	return execute(m, 0, &wr.wr, status, what);
}

/*
 * ------------------------------------------------------------ objects
 */
static struct ib_qp *make_qp(struct memory *m, int end)
{
	struct ib_qp_init_attr init = {
		.send_cq = m->cq[end],
		.recv_cq = m->cq[end],
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	return ib_create_qp(m->pd, &init);
}

static void free_qps(struct memory *m)
{
	struct ib_wc wc;
	int end;

	for (end = 0; end < 2; end++) {
		ib_destroy_qp(m->qp[end]);
		while (ib_poll_cq(m->cq[end], 1, &wc) > 0)
			;
	}
}

static int connect_qps(struct memory *m)
{
	int ret;

	m->qp[0] = make_qp(m, 0);
	if (IS_ERR(m->qp[0]))
		return PTR_ERR(m->qp[0]);
	m->qp[1] = make_qp(m, 1);
	if (IS_ERR(m->qp[1])) {
		ib_destroy_qp(m->qp[0]);
		return PTR_ERR(m->qp[1]);
	}
	ret = connect_by_hand(m->qp[0], m->qp[1]);
	if (ret)
		free_qps(m);
	return ret;
}

static int with_qps(struct memory *m, int (*check)(struct memory *m))
{
	int ret = connect_qps(m);

	if (!ret) {
		ret = check(m);
		free_qps(m);
	}
	return ret;
}

/*
 * ------------------------------------------------------------- rights
 */

/* A refusal ends the connection; the region stays registered. */
static int check_use(struct memory *m, int access, enum ib_wr_opcode opcode)
{
	bool write = opcode == IB_WR_RDMA_WRITE;
	bool may = access & (write ? IB_ACCESS_REMOTE_WRITE :
				     IB_ACCESS_REMOTE_READ);
	int ret;

	memset(m->page[0], 1, OCTETS);
	memset(m->page[1], 2, OCTETS);
	ret = map_part(m, 0, PAGE_SIZE) ?:
	      register_mapped(m, access, IB_WC_SUCCESS, "rights") ?:
	      use(m, opcode, m->mr->iova,
		  may ? IB_WC_SUCCESS : IB_WC_REM_ACCESS_ERR,
		  write ? "a Write" : "a Read");
	if (ret) {
		pr_err("with access 0x%x\n", access);
		return ret;
	}
	return need(m->page[0][OCTETS - 1] == (may && write ? 2 : 1) &&
		    m->page[1][OCTETS - 1] == (may && !write ? 1 : 2),
		    "the octets of a transfer");
}

static int try_use(struct memory *m, int access, enum ib_wr_opcode opcode)
{
	int ret = connect_qps(m);

	if (ret)
		return ret;
	ret = check_use(m, access, opcode);
	free_qps(m);
	/* On another SQ of the PD. */
	return ret ?: with_qps(m, invalidate);
}

/* One STag, with other rights each time: local alone, then remote ones as well. */
static int check_rights(struct memory *m)
{
	static const int rights[] = {
		IB_ACCESS_LOCAL_WRITE, ALL_RIGHTS, 0,
		IB_ACCESS_REMOTE_READ,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ,
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < ARRAY_SIZE(rights) && !ret; i++)
		ret = try_use(m, rights[i], IB_WR_RDMA_WRITE) ?:
		      try_use(m, rights[i], IB_WR_RDMA_READ);
	return ret;
}

/*
 * ---------------------------------------------------- lengths of lists
 */

/* Page after page of the list is the same. */
static int fill_list(struct memory *m, struct scatterlist *sgs, u32 pages)
{
	struct scatterlist *sg;
	u32 i;

	sg_init_table(sgs, pages);
	for_each_sg(sgs, sg, pages, i) {
		sg_set_buf(sg, m->page[0], PAGE_SIZE);
		sg_dma_address(sg) = m->dma[0];
		sg_dma_len(sg) = PAGE_SIZE;
	}
	return 0;
}

static int use_last_page(struct memory *m, u32 pages)
{
	u64 last = m->mr->iova + (u64)(pages - 1) * PAGE_SIZE;

	memset(m->page[0], 0, PAGE_SIZE);
	m->page[1][0] = pages;
	return use(m, IB_WR_RDMA_WRITE, last + OFFSET, IB_WC_SUCCESS,
		   "a Write to the last page") ?:
	       need(m->page[0][OFFSET] == (u8)pages, "the last page");
}

static int use_behind(struct memory *m, u32 pages)
{
	return use(m, IB_WR_RDMA_WRITE, m->mr->iova + (u64)pages * PAGE_SIZE -
		   OCTETS + 1, IB_WC_REM_ACCESS_ERR, "a Write past the end");
}

/* A list as long as the STag's may be, none longer. */
static int check_list(struct memory *m, struct scatterlist *sgs, u32 pages)
{
	int ret;

	fill_list(m, sgs, pages + 1);
	if (ib_map_mr_sg(m->mr, sgs, pages + 1, NULL, PAGE_SIZE) != pages)
		return complain("a list that is longer than the STag's");
	ret = ib_map_mr_sg(m->mr, sgs, pages, NULL, PAGE_SIZE);
	if (ret != pages)
		return complain("a list as long as the STag's");
	return register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "a list") ?:
	       use_last_page(m, pages) ?: use_behind(m, pages);
}

static int with_list(struct memory *m, u32 pages)
{
	struct scatterlist *sgs = kvcalloc(pages + 1, sizeof(*sgs), GFP_KERNEL);
	int ret;

	if (!sgs)
		return -ENOMEM;
	ret = connect_qps(m);
	if (!ret) {
		ret = check_list(m, sgs, pages);
		if (ret)
			pr_err("of %u pages\n", pages);
		free_qps(m);
	}
	kvfree(sgs);
	return ret;
}

static int check_length(struct memory *m, u32 pages)
{
	struct ib_mr *before = m->mr;
	int ret;

	m->mr = ib_alloc_mr(m->pd, IB_MR_TYPE_MEM_REG, pages);
	ret = PTR_ERR_OR_ZERO(m->mr);
	if (!ret) {
		ret = with_list(m, pages);
		ib_dereg_mr(m->mr);
	}
	m->mr = before;
	return ret;
}

static int check_lengths(struct memory *m)
{
	u32 most = m->pd->device->attrs.max_fast_reg_page_list_len;

	return check_length(m, 1) ?: check_length(m, 2) ?: check_length(m, 3) ?:
	       check_length(m, 17) ?: check_length(m, most);
}

/*
 * ------------------------------------------------------------ addresses
 */
static int register_zero_based(struct memory *m)
{
	return map_part(m, OFFSET, LENGTH) ?:
	       register_mapped(m, ALL_RIGHTS | IB_ZERO_BASED, IB_WC_SUCCESS,
			       "zero based");
}

/* From zero to the length, wherever in its page it begins. */
static int check_zero_based(struct memory *m)
{
	int ret;

	memset(m->page[0], 0, PAGE_SIZE);
	memset(m->page[1], 3, OCTETS);
	ret = register_zero_based(m) ?:
	      use(m, IB_WR_RDMA_WRITE, 0, IB_WC_SUCCESS, "a Write to zero") ?:
	      use(m, IB_WR_RDMA_WRITE, LENGTH - OCTETS, IB_WC_SUCCESS,
		  "a Write to the end");
	if (ret)
		return ret;
	return need(m->page[0][OFFSET] == 3 && !m->page[0][OFFSET - 1] &&
		    m->page[0][OFFSET + LENGTH - 1] == 3 &&
		    !m->page[0][OFFSET + LENGTH] && !m->page[0][OFFSET + OCTETS],
		    "where Writes to a zero based region go") ?:
	       use(m, IB_WR_RDMA_WRITE, m->mr->iova, IB_WC_REM_ACCESS_ERR,
		   "a Write to the address of a zero based region");
}

/* The same memory by its own address. */
static int check_va_based(struct memory *m)
{
	memset(m->page[1], 4, OCTETS);
	return invalidate(m) ?: map_part(m, OFFSET, LENGTH) ?:
	       register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "VA based") ?:
	       use(m, IB_WR_RDMA_WRITE, m->mr->iova, IB_WC_SUCCESS,
		   "a Write to an address") ?:
	       need(m->page[0][OFFSET] == 4, "where it goes") ?:
	       use(m, IB_WR_RDMA_WRITE, 0, IB_WC_REM_ACCESS_ERR,
		   "a Write to zero");
}

/*
 * ----------------------------------------------------------- STag zero
 */
static int refuse_post(struct memory *m, struct ib_send_wr *wr,
		       const char *what)
{
	const struct ib_send_wr *bad = NULL;
	int ret = ib_post_send(m->qp[1], wr, &bad);

	return need(ret == -EINVAL && bad == wr, what);
}

static int check_stag_zero_posts(struct memory *m)
{
	struct ib_send_wr local = { .opcode = IB_WR_LOCAL_INV };
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = m->mr,
		.access = ALL_RIGHTS,
	};

	return map_part(m, 0, PAGE_SIZE) ?:
	       refuse_post(m, &local, "an Invalidate of STag zero") ?:
	       refuse_post(m, &reg.wr, "a Fast-Register of STag zero");
}

/* The peer's, which is the end of the connection. */
static int check_stag_zero_invalidated(struct memory *m)
{
	struct ib_sge sge = {
		.addr = m->dma[0],
		.length = OCTETS,
		.lkey = m->pd->local_dma_lkey,
	};
	struct ib_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };
	struct ib_send_wr send = { .opcode = IB_WR_SEND_WITH_INV };
	struct ib_wc wc;

	return ib_post_recv(m->qp[1], &recv, NULL) ?:
	       execute(m, 0, &send, IB_WC_REM_ACCESS_ERR,
		       "a Send that invalidates STag zero") ?:
	       await(m, 1, &wc) ?:
	       need(wc.status == IB_WC_REM_INV_REQ_ERR, "its receive");
}

static int check_stag_zero_read(struct memory *m)
{
	struct ib_sge sge = {
		.addr = m->dma[0],
		.length = OCTETS,
		.lkey = m->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = m->dma[1],
		.rkey = 0,
	};
	struct ib_wc wc;

	/* Refused at once, or when it is executed. */
	if (ib_post_send(m->qp[1], &wr.wr, NULL))
		return 0;
	return await(m, 1, &wc) ?:
	       need(wc.status != IB_WC_SUCCESS, "a Read that invalidates STag zero");
}

/* Local use of all memory, as before. */
static int check_stag_zero_works(struct memory *m)
{
	memset(m->page[1], 6, OCTETS);
	return map_part(m, 0, PAGE_SIZE) ?:
	       register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "a region") ?:
	       use(m, IB_WR_RDMA_WRITE, m->mr->iova, IB_WC_SUCCESS,
		   "a Write from STag zero") ?:
	       need(m->page[0][0] == 6, "what it writes") ?: invalidate(m);
}

static int check_stag_zero(struct memory *m)
{
	return with_qps(m, check_stag_zero_posts) ?:
	       with_qps(m, check_stag_zero_works) ?:
	       with_qps(m, check_stag_zero_invalidated) ?:
	       with_qps(m, check_stag_zero_works) ?:
	       with_qps(m, check_stag_zero_read) ?:
	       with_qps(m, check_stag_zero_works);
}

/*
 * ------------------------------------------------------ other refusals
 */

/* Pages that the adapter has not are a completion with an error. */
static int check_page_size(struct memory *m)
{
	struct scatterlist sg;

	if (m->pd->device->attrs.page_size_cap & SZ_512)
		return 0;
	sg_init_one(&sg, m->page[0], SZ_512);
	sg_dma_address(&sg) = m->dma[0];
	sg_dma_len(&sg) = SZ_512;
	if (ib_map_mr_sg(m->mr, &sg, 1, NULL, SZ_512) != 1)
		return complain("a list of small pages");
	return register_mapped(m, ALL_RIGHTS, IB_WC_LOC_QP_OP_ERR,
			       "pages of 512 octets");
}

/* A page within a larger one, the rest of which is not registered. */
static int check_large_page(struct memory *m)
{
	struct scatterlist sg;

	if (!(m->pd->device->attrs.page_size_cap & SZ_64K))
		return complain("no pages of 64 KiB");
	sg_init_one(&sg, m->page[0], PAGE_SIZE);
	sg_dma_address(&sg) = m->dma[0];
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(m->mr, &sg, 1, NULL, SZ_64K) != 1)
		return complain("a list of large pages");
	memset(m->page[0], 0, PAGE_SIZE);
	memset(m->page[1], 7, OCTETS);
	return register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS,
			       "pages of 64 KiB") ?:
	       use(m, IB_WR_RDMA_WRITE, m->mr->iova + PAGE_SIZE - OCTETS,
		   IB_WC_SUCCESS, "a Write within a large page") ?:
	       need(m->page[0][PAGE_SIZE - OCTETS] == 7 &&
		    !m->page[0][PAGE_SIZE - OCTETS - 1], "where it goes") ?:
	       use(m, IB_WR_RDMA_WRITE, m->mr->iova + PAGE_SIZE,
		   IB_WC_REM_ACCESS_ERR, "a Write behind the region");
}

static void set_key(struct memory *m, u32 key)
{
	m->mr->lkey = key;
	m->mr->rkey = key;
}

/* A Fast-Register has the key of its WR, which need not be the region's of before. */
static int check_key_of_wr(struct memory *m)
{
	u32 before = m->mr->rkey, key = ib_inc_rkey(before);
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = m->mr,
		.key = key,
		.access = ALL_RIGHTS,
	};
	int ret;

	memset(m->page[0], 0, OCTETS);
	memset(m->page[1], 8, OCTETS);
	ret = map_part(m, 0, PAGE_SIZE) ?:
	      execute(m, 1, &wr.wr, IB_WC_SUCCESS, "a key of the WR's");
	if (ret)
		return ret;
	set_key(m, key);
	ret = use(m, IB_WR_RDMA_WRITE, m->mr->iova, IB_WC_SUCCESS,
		  "a Write by the WR's key") ?:
	      need(m->page[0][0] == 8, "what it writes");
	set_key(m, before);
	ret = ret ?: use(m, IB_WR_RDMA_WRITE, m->mr->iova,
			 IB_WC_REM_ACCESS_ERR, "a Write by the key before");
	set_key(m, key);
	return ret;
}

/* The peer's Invalidate with a key that is not the region's. */
static int check_wrong_invalidate(struct memory *m)
{
	struct ib_recv_wr recv = {};
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND_WITH_INV,
	};
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct ib_wc wc;
	int ret;

	ret = map_part(m, 0, PAGE_SIZE) ?:
	      register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "a region");
	if (ret)
		return ret;
	send.ex.invalidate_rkey = m->mr->rkey ^ 1;
	ret = ib_post_recv(m->qp[1], &recv, NULL) ?:
	      execute(m, 0, &send, IB_WC_REM_ACCESS_ERR,
		      "a Send that invalidates another key") ?:
	      await(m, 1, &wc) ?:
	      need(wc.status == IB_WC_REM_INV_REQ_ERR, "its receive") ?:
	      ib_query_qp(m->qp[1], &attr, IB_QP_STATE, &init);
	return ret ?: need(attr.qp_state == IB_QPS_ERR ||
			   attr.qp_state == IB_QPS_SQE, "the state behind it");
}

/* This side's own: its WR fails, and the QP is in Error. */
static int check_wrong_local_invalidate(struct memory *m)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV };
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret;

	ret = map_part(m, 0, PAGE_SIZE) ?:
	      register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "a region");
	if (ret)
		return ret;
	wr.ex.invalidate_rkey = m->mr->rkey ^ 1;
	ret = execute(m, 1, &wr, IB_WC_LOC_PROT_ERR,
		      "an Invalidate of another key") ?:
	      ib_query_qp(m->qp[1], &attr, IB_QP_STATE, &init);
	return ret ?: need(attr.qp_state == IB_QPS_ERR ||
			   attr.qp_state == IB_QPS_SQE, "the state behind it");
}

/*
 * -------------------------------------------------------------- fences
 */

/* What a Read brings is written on by one list: not before it has come. */
static int check_read_fence_of(struct memory *m, u8 octet)
{
	struct ib_sge sge = {
		.addr = m->own->iova, .length = PAGE_SIZE / 2,
		.lkey = m->own->lkey,
	};
	struct ib_rdma_wr write = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED | IB_SEND_FENCE,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = m->mr->iova + PAGE_SIZE / 2,
		.rkey = m->mr->rkey,
	};
	struct ib_rdma_wr read = {
		.wr = {
			.next = &write.wr,
			.opcode = IB_WR_RDMA_READ,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = m->mr->iova,
		.rkey = m->mr->rkey,
	};
	struct ib_wc wc;
	int ret;

	memset(m->page[0], octet, PAGE_SIZE / 2);
	memset(m->page[0] + PAGE_SIZE / 2, 0, PAGE_SIZE / 2);
	memset(m->page[1], 0, PAGE_SIZE);
	/* Both are signaled, as all are. */
	ret = ib_post_send(m->qp[0], &read.wr, NULL) ?: await(m, 0, &wc) ?:
	      need(wc.status == IB_WC_SUCCESS, "the Read before it") ?:
	      await(m, 0, &wc);
	if (ret)
		return ret;
	return need(wc.status == IB_WC_SUCCESS &&
		    wc.opcode == IB_WC_RDMA_WRITE &&
		    !memchr_inv(m->page[0] + PAGE_SIZE / 2, octet,
				PAGE_SIZE / 2), "a fenced Write behind a Read");
}

static int check_read_fence(struct memory *m)
{
	u8 octet;
	int ret = map_part(m, 0, PAGE_SIZE) ?:
		  register_mapped(m, ALL_RIGHTS, IB_WC_SUCCESS, "a region");

	for (octet = 1; octet < 30 && !ret; octet++)
		ret = check_read_fence_of(m, octet);
	return ret ?: invalidate(m);
}

/*
 * ------------------------------------------------------- no more of them
 */
static struct ib_mr *add_region(struct memory *m, u32 pages)
{
	return ib_alloc_mr(m->pd, IB_MR_TYPE_MEM_REG, pages);
}

/* However many there are, what an STag was given room for it has. */
static int use_first(struct memory *m, struct ib_mr *first, u32 pages)
{
	struct ib_mr *before = m->mr;
	int ret;

	m->mr = first;
	ret = with_list(m, pages);
	m->mr = before;
	return ret;
}

static int check_exhausted(struct memory *m)
{
	u32 pages = m->pd->device->attrs.max_fast_reg_page_list_len;
	struct ib_mr **mrs = kvcalloc(MOST_REGIONS, sizeof(*mrs), GFP_KERNEL);
	u32 number = 0;
	int ret = 0;

	if (!mrs)
		return -ENOMEM;
	while (number < MOST_REGIONS && !ret) {
		mrs[number] = add_region(m, pages);
		ret = PTR_ERR_OR_ZERO(mrs[number]);
		if (!ret)
			number++;
	}
	/* A refusal makes nothing: as soon as one has gone there is another. */
	ret = need(ret == -ENOMEM && number > 1, "as many regions as there can be");
	if (!ret) {
		ib_dereg_mr(mrs[--number]);
		mrs[number] = add_region(m, pages);
		ret = PTR_ERR_OR_ZERO(mrs[number]);
		number += !ret;
	}
	if (!ret)
		ret = use_first(m, mrs[0], pages);
	while (number)
		ib_dereg_mr(mrs[--number]);
	kvfree(mrs);
	return ret;
}

static int check_all(struct memory *m)
{
	return check_rights(m) ?: check_lengths(m) ?:
	       with_qps(m, check_zero_based) ?: with_qps(m, check_va_based) ?:
	       with_qps(m, invalidate) ?: check_stag_zero(m) ?:
	       with_qps(m, check_page_size) ?:
	       with_qps(m, check_large_page) ?: with_qps(m, invalidate) ?:
	       with_qps(m, check_key_of_wr) ?: with_qps(m, invalidate) ?:
	       with_qps(m, check_wrong_invalidate) ?:
	       with_qps(m, invalidate) ?:
	       with_qps(m, check_wrong_local_invalidate) ?:
	       with_qps(m, invalidate) ?: with_qps(m, check_read_fence) ?:
	       check_exhausted(m);
}

/*
 * -------------------------------------------------------------- set-up
 */
static int with_region(struct memory *m)
{
	int ret;

	m->mr = ib_alloc_mr(m->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(m->mr))
		return PTR_ERR(m->mr);
	m->own = ib_alloc_mr(m->pd, IB_MR_TYPE_MEM_REG, 1);
	ret = PTR_ERR_OR_ZERO(m->own);
	if (!ret) {
		ret = with_qps(m, register_own) ?: check_all(m);
		ib_dereg_mr(m->own);
	}
	ib_dereg_mr(m->mr);
	return ret;
}

static int with_cqs(struct memory *m, int made)
{
	int ret;

	if (made == ARRAY_SIZE(m->cq))
		return with_region(m);
	m->cq[made] = ib_alloc_cq(m->pd->device, NULL, 4 * DEPTH, 0,
				  IB_POLL_DIRECT);
	if (IS_ERR(m->cq[made]))
		return PTR_ERR(m->cq[made]);
	ret = with_cqs(m, made + 1);
	ib_free_cq(m->cq[made]);
	return ret;
}

static int with_pages(struct memory *m, int made)
{
	struct device *dma_device = m->pd->device->dma_device;
	int ret;

	if (made == PAGES)
		return with_cqs(m, 0);
	m->page[made] = dma_alloc_coherent(dma_device, PAGE_SIZE, &m->dma[made],
					   GFP_KERNEL);
	if (!m->page[made])
		return -ENOMEM;
	ret = with_pages(m, made + 1);
	dma_free_coherent(dma_device, PAGE_SIZE, m->page[made], m->dma[made]);
	return ret;
}

int check_memory_verbs(struct ib_pd *pd)
{
	struct memory m = { .pd = pd };

	return with_pages(&m, 0);
}
