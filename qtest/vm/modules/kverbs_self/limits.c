// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: of each limit that the adapter tells, one beyond it: the driver has to
 * refuse that, whatever a process's library does before. An object that is made all the
 * same is a failure, and stays.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "limits.h"

static int refused_by(const void *object, int error, const char *what)
{
	if (IS_ERR(object) && PTR_ERR(object) == error)
		return 0;
	pr_err("%s: %d instead of %d\n", what, PTR_ERR_OR_ZERO(object), error);
	return -EIO;
}

static int refused(const void *object, const char *what)
{
	return refused_by(object, -EINVAL, what);
}

static int check_cqs(struct ib_device *dev)
{
	int cqe = dev->attrs.max_cqe;

	return refused(ib_alloc_cq(dev, NULL, 0, 0, IB_POLL_DIRECT),
		       "a CQ of nothing") ?:
	       refused(ib_alloc_cq(dev, NULL, cqe + 1, 0, IB_POLL_DIRECT),
		       "a larger CQ");
}

static int refuse_srq(struct ib_pd *pd, u32 wr, u32 sge, u32 limit,
		      const char *what)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = wr, .max_sge = sge, .srq_limit = limit },
	};

	return refused(ib_create_srq(pd, &init), what);
}

static int check_srqs(struct ib_pd *pd)
{
	const struct ib_device_attr *attrs = &pd->device->attrs;

	return refuse_srq(pd, 0, 1, 0, "an S-RQ of nothing") ?:
	       refuse_srq(pd, attrs->max_srq_wr + 1, 1, 0, "a larger S-RQ") ?:
	       refuse_srq(pd, 1, attrs->max_srq_sge + 1, 0,
			  "more SGEs in an S-RQ") ?:
	       refuse_srq(pd, 8, 1, 9, "a limit above the S-RQ");
}

static struct ib_qp *make_qp_of(struct ib_pd *pd, struct ib_cq *cq,
				struct ib_qp_cap cap, enum ib_qp_type type,
				u32 create_flags)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = cap,
		.qp_type = type,
		.create_flags = create_flags,
	};

	return ib_create_qp(pd, &init);
}

static struct ib_qp *make_qp(struct ib_pd *pd, struct ib_cq *cq,
			     struct ib_qp_cap cap)
{
	return make_qp_of(pd, cq, cap, IB_QPT_RC, 0);
}

static int refuse_qp(struct ib_pd *pd, struct ib_cq *cq, struct ib_qp_cap cap,
		     const char *what)
{
	return refused(make_qp(pd, cq, cap), what);
}

static int granted(struct ib_pd *pd, struct ib_cq *cq, struct ib_qp_cap cap)
{
	struct ib_qp *qp = make_qp(pd, cq, cap);

	if (IS_ERR(qp)) {
		pr_err("the largest QP: %ld\n", PTR_ERR(qp));
		return PTR_ERR(qp);
	}
	return ib_destroy_qp(qp);
}

static int check_qps_on(struct ib_pd *pd, struct ib_cq *cq)
{
	const struct ib_device_attr *attrs = &pd->device->attrs;
	struct ib_qp_cap cap = {
		.max_send_wr = 1, .max_recv_wr = 1,
		.max_send_sge = 1, .max_recv_sge = 1,
	};
	struct ib_qp_cap largest = cap, sq = cap, rq = cap, send = cap,
			 receive = cap, inlined = cap;

	/* A ring of so short work requests has room for more. */
	sq.max_send_wr = attrs->max_qp_wr + 1;
	rq.max_recv_wr = attrs->max_qp_wr + 1;
	send.max_send_sge = attrs->max_send_sge + 1;
	receive.max_recv_sge = attrs->max_recv_sge + 1;
	inlined.max_inline_data = SZ_64K;
	largest.max_send_wr = attrs->max_qp_wr;
	largest.max_recv_wr = attrs->max_qp_wr;
	return granted(pd, cq, largest) ?:
	       refuse_qp(pd, cq, sq, "a larger SQ") ?:
	       refuse_qp(pd, cq, rq, "a larger RQ") ?:
	       refuse_qp(pd, cq, send, "more SGEs to send") ?:
	       refuse_qp(pd, cq, receive, "more SGEs to receive") ?:
	       refuse_qp(pd, cq, inlined, "more inline data");
}

/* What iWARP has not. */
static int check_qp_kinds_on(struct ib_pd *pd, struct ib_cq *cq)
{
	struct ib_qp_cap cap = {
		.max_send_wr = 1, .max_recv_wr = 1,
		.max_send_sge = 1, .max_recv_sge = 1,
	};

	return refused_by(make_qp_of(pd, cq, cap, IB_QPT_UD, 0), -EOPNOTSUPP,
			  "a QP of datagrams") ?:
	       refused_by(make_qp_of(pd, cq, cap, IB_QPT_RC,
				     IB_QP_CREATE_NETIF_QP), -EOPNOTSUPP,
			  "a QP with a flag");
}

static int check_qps(struct ib_pd *pd)
{
	struct ib_cq *cq = ib_alloc_cq(pd->device, NULL, 8, 0, IB_POLL_DIRECT);
	int ret;

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	ret = check_qps_on(pd, cq) ?: check_qp_kinds_on(pd, cq);
	ib_free_cq(cq);
	return ret;
}

/* The longest page list that the adapter offers, and none longer. */
static int check_mrs(struct ib_pd *pd)
{
	u32 pages = pd->device->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages);

	if (IS_ERR(mr)) {
		pr_err("a region of %u pages: %ld\n", pages, PTR_ERR(mr));
		return PTR_ERR(mr);
	}
	return ib_dereg_mr(mr) ?:
	       refused(ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages + 1),
		       "a region of more pages");
}

int check_limits(struct ib_pd *pd)
{
	return check_cqs(pd->device) ?: check_srqs(pd) ?: check_qps(pd) ?:
	       check_mrs(pd);
}
