// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * limits-self: tries what a device says of itself: each limit, and one beyond it;
 * each capability that it has, and each that it says it has not.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PORT		1
#define MEMORY		4096
#define DEEPER		40	/* WRs of a queue, when it is resized */

static const char help[] =
"usage: limits-self DEVICE\n"
"Tries the limits and capabilities that the RDMA device DEVICE tells. Makes as many\n"
"objects of each kind as it says: let these be few.\n"
"Exit status: 0 they are true, 1 they are not, 2 usage.\n";

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct ibv_context *context;
static struct ibv_device_attr_ex device;
static struct ibv_port_attr port;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t *memory;

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *found = NULL;
	int i;

	for (i = 0; list && list[i] && !found; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = ibv_open_device(list[i]);
	if (!found)
		fail("no RDMA device %s", name);
	ibv_free_device_list(list);
	return found;
}

static void expect_error(bool refused, int error, const char *what)
{
	if (!refused)
		fail("%s is accepted", what);
	if (errno != error)
		fail("%s: %s, not %s", what, strerror(errno), strerror(error));
}

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

/* -------------------------------------------------------------- queues */

static struct ibv_qp *make_limit_qp(int send_wr, int recv_wr, int send_sge,
				    int recv_sge)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = send_wr,
			.max_recv_wr = recv_wr,
			.max_send_sge = send_sge,
			.max_recv_sge = recv_sge,
		},
	};

	errno = 0;
	return ibv_create_qp(pd, &attr);
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (ret)
		fail("INIT: %s", strerror(ret));
}

static int post_one(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int num_sge)
{
	struct ibv_sge sges[32] = { 0 };
	struct ibv_send_wr *bad = NULL, wr = {
		.opcode = opcode,
		.sg_list = sges,
		.num_sge = num_sge,
	};
	int ret = ibv_post_send(qp, &wr, &bad);

	if (ret && bad != &wr)
		fail("a WR that is refused is not the bad one");
	return ret;
}

static int post_one_recv(struct ibv_qp *qp, struct ibv_srq *srq, int num_sge)
{
	struct ibv_sge sges[32] = { 0 };
	struct ibv_recv_wr *bad = NULL, wr = {
		.sg_list = sges,
		.num_sge = num_sge,
	};
	int ret = srq ? ibv_post_srq_recv(srq, &wr, &bad) :
		  ibv_post_recv(qp, &wr, &bad);

	if (ret && bad != &wr)
		fail("a receive that is refused is not the bad one");
	return ret;
}

static void expect_post(int ret, int error, const char *what)
{
	if (ret != error)
		fail("%s: %s, not %s", what, strerror(ret), strerror(error));
}

/* In every WR as many SGEs as the QP has been given, and no more. */
static void try_sges(struct ibv_qp *qp, const struct ibv_qp_cap *cap)
{
	expect_post(post_one(qp, IBV_WR_SEND, cap->max_send_sge), 0, "a Send");
	expect_post(post_one(qp, IBV_WR_RDMA_WRITE, cap->max_send_sge), 0,
		    "a Write");
	expect_post(post_one_recv(qp, NULL, cap->max_recv_sge), 0, "a receive");
	expect_post(post_one(qp, IBV_WR_SEND, cap->max_send_sge + 1), EINVAL,
		    "a Send with an SGE more");
	expect_post(post_one(qp, IBV_WR_RDMA_WRITE, cap->max_send_sge + 1),
		    EINVAL, "a Write with an SGE more");
	expect_post(post_one(qp, IBV_WR_SEND, -1), EINVAL,
		    "a Send with less than no SGEs");
	expect_post(post_one_recv(qp, NULL, cap->max_recv_sge + 1), EINVAL,
		    "a receive with an SGE more");
}

static unsigned int fill_sq(struct ibv_qp *qp, int num_sge)
{
	unsigned int count = 0;
	int ret;

	while (!(ret = post_one(qp, IBV_WR_SEND, num_sge)))
		count++;
	expect_post(ret, ENOMEM, "a Send beyond the queue");
	return count;
}

static unsigned int fill_rq(struct ibv_qp *qp, struct ibv_srq *srq, int num_sge)
{
	unsigned int count = 0;
	int ret;

	while (!(ret = post_one_recv(qp, srq, num_sge)))
		count++;
	expect_post(ret, ENOMEM, "a receive beyond the queue");
	return count;
}

/*
 * A queue of each size: at least so many WRs, and all that it says it has, each with as
 * many SGEs as it may have.
 */
static void try_qp_of(int send_wr, int recv_wr, int send_sge, int recv_sge)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = send_wr, .max_recv_wr = recv_wr,
			.max_send_sge = send_sge, .max_recv_sge = recv_sge,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	struct ibv_qp_cap *cap = &attr.cap;
	unsigned int sends = 2, receives = 1;	/* by try_sges() */

	need(qp, "a QP");
	if ((int)cap->max_send_wr < send_wr || (int)cap->max_recv_wr < recv_wr ||
	    (int)cap->max_send_sge < send_sge || (int)cap->max_recv_sge < recv_sge)
		fail("a QP is smaller than what it was asked for");
	to_init(qp);
	try_sges(qp, cap);
	sends += fill_sq(qp, cap->max_send_sge);
	receives += fill_rq(qp, NULL, cap->max_recv_sge);
	if (sends < cap->max_send_wr || receives < cap->max_recv_wr)
		fail("of %u and %u WRs %u and %u fit", cap->max_send_wr,
		     cap->max_recv_wr, sends, receives);
	if (ibv_destroy_qp(qp))
		fail("a full QP stays: %s", strerror(errno));
}

/* A Read takes SGEs by a limit of its own. */
static void try_read_sges(struct ibv_qp *qp, int number, int error)
{
	int ret;

	to_init(qp);
	ret = post_one(qp, IBV_WR_RDMA_READ, number);
	if (ret != error)
		fail("a Read with %d SGEs: %s", number, strerror(ret));
}

static struct ibv_qp_attr query_depths(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	return attr;
}

/* One that is too large changes neither, whether the other is good or not. */
static void try_depths_together(struct ibv_qp *qp, int ord, int ird)
{
	struct ibv_qp_attr before = query_depths(qp), after, attr = {
		.max_rd_atomic = ord,
		.max_dest_rd_atomic = ird,
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MAX_QP_RD_ATOMIC) != EINVAL)
		fail("ORD %d and IRD %d are not refused", ord, ird);
	after = query_depths(qp);
	if (after.max_rd_atomic != before.max_rd_atomic ||
	    after.max_dest_rd_atomic != before.max_dest_rd_atomic)
		fail("a refused call leaves ORD %u, IRD %u",
		     after.max_rd_atomic, after.max_dest_rd_atomic);
}

static void try_read_depth(struct ibv_qp *qp, int mask, int depth, int error)
{
	struct ibv_qp_attr attr = {
		.max_dest_rd_atomic = depth,
		.max_rd_atomic = depth,
	};
	int ret = ibv_modify_qp(qp, &attr, mask);

	if (ret != error)
		fail("a read depth of %d: %s", depth, strerror(ret));
}

/* What is granted is no more than what the device says that there can be. */
static void try_granted(int sge)
{
	int wr = device.orig_attr.max_qp_wr;
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = wr, .max_recv_wr = wr,
			.max_send_sge = sge, .max_recv_sge = sge,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	need(qp, "a QP of the most WRs");
	if ((int)attr.cap.max_send_wr != wr || (int)attr.cap.max_recv_wr != wr)
		fail("%u and %u WRs are granted, of %d SGEs; the most are %d",
		     attr.cap.max_send_wr, attr.cap.max_recv_wr, sge, wr);
	ibv_destroy_qp(qp);
}

static void try_qps(void)
{
	int wr = device.orig_attr.max_qp_wr, sge = device.orig_attr.max_sge;
	struct ibv_qp *qp = make_limit_qp(wr, wr, sge, sge);

	need(qp, "the largest QP");
	try_read_sges(qp, device.orig_attr.max_sge_rd, 0);
	try_read_sges(qp, device.orig_attr.max_sge_rd + 1, EINVAL);
	try_read_depth(qp, IBV_QP_MAX_DEST_RD_ATOMIC,
		       device.orig_attr.max_qp_rd_atom, 0);
	try_read_depth(qp, IBV_QP_MAX_DEST_RD_ATOMIC,
		       device.orig_attr.max_qp_rd_atom + 1, EINVAL);
	try_read_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC,
		       device.orig_attr.max_qp_init_rd_atom, 0);
	try_read_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC,
		       device.orig_attr.max_qp_init_rd_atom + 1, EINVAL);
	try_depths_together(qp, 1, device.orig_attr.max_qp_rd_atom + 1);
	try_depths_together(qp, device.orig_attr.max_qp_init_rd_atom + 1, 1);
	ibv_destroy_qp(qp);

	try_qp_of(1, 64, 1, 1);
	try_qp_of(64, 1, 1, 1);
	try_qp_of(3, 17, 3, 2);
	try_qp_of(5, 5, sge, sge);
	if (sge < 4)
		fail("max_sge is %d", sge);
	try_granted(1);
	try_granted(8);
	try_granted(sge);

	expect_error(!make_limit_qp(wr + 1, 1, 1, 1), EINVAL, "a larger SQ");
	expect_error(!make_limit_qp(1, wr + 1, 1, 1), EINVAL, "a larger RQ");
	expect_error(!make_limit_qp(1, 1, sge + 1, 1), EINVAL,
		     "more SGEs to send");
	expect_error(!make_limit_qp(1, 1, 1, sge + 1), EINVAL,
		     "more SGEs to receive");
}

static struct ibv_qp_cap query_cap(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	return attr.cap;
}

/* Depths can be changed if the device says so, and else cannot. */
static void try_resizing(void)
{
	unsigned int flags = device.orig_attr.device_cap_flags;
	bool can = flags & IBV_DEVICE_RESIZE_MAX_WR;
	struct ibv_qp *qp = make_limit_qp(4, 4, 1, 1);
	struct ibv_qp_attr attr;
	struct ibv_qp_cap cap;

	need(qp, "a QP");
	to_init(qp);
	attr.cap = query_cap(qp);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = DEEPER;
	expect_post(ibv_modify_qp(qp, &attr, IBV_QP_CAP), can ? 0 : EOPNOTSUPP,
		    "other depths of a QP");
	cap = query_cap(qp);
	if ((cap.max_send_wr >= DEEPER) != can ||
	    (cap.max_recv_wr >= DEEPER) != can)
		fail("a QP of %u and %u WRs, where %d are %s", cap.max_send_wr,
		     cap.max_recv_wr, DEEPER, can ? "granted" : "refused");
	ibv_destroy_qp(qp);
	if ((flags & IBV_DEVICE_SRQ_RESIZE) && !device.orig_attr.max_srq)
		fail("S-RQs can be resized, and there are none");
}

static struct ibv_srq *make_limit_srq(int wr, int sge)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = sge },
	};

	errno = 0;
	return ibv_create_srq(pd, &attr);
}

/* Of each WR so many SGEs as the S-RQ was given, and so many WRs. */
static void try_srq_of(int wr, int sge)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = sge },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	unsigned int count;

	need(srq, "an S-RQ");
	expect_post(post_one_recv(NULL, srq, attr.attr.max_sge + 1), EINVAL,
		    "a receive with an SGE more");
	count = fill_rq(NULL, srq, attr.attr.max_sge);
	if ((int)attr.attr.max_wr < wr || (int)attr.attr.max_sge < sge ||
	    count != attr.attr.max_wr)
		fail("an S-RQ of %u WRs of %u SGEs has room for %u",
		     attr.attr.max_wr, attr.attr.max_sge, count);
	if (ibv_destroy_srq(srq))
		fail("a full S-RQ stays: %s", strerror(errno));
}

/* Without S-RQs there is no number of theirs, nor one of them. */
static void refuse_srqs(void)
{
	if (device.orig_attr.max_srq_wr || device.orig_attr.max_srq_sge)
		fail("no S-RQs, of %d WRs of %d SGEs",
		     device.orig_attr.max_srq_wr, device.orig_attr.max_srq_sge);
	expect_error(!make_limit_srq(1, 1), EOPNOTSUPP, "an S-RQ");
}

static void try_srqs(void)
{
	int wr = device.orig_attr.max_srq_wr, sge = device.orig_attr.max_srq_sge;
	struct ibv_srq *srq;

	if (!device.orig_attr.max_srq) {
		refuse_srqs();
		return;
	}
	srq = make_limit_srq(wr, sge);
	need(srq, "the largest S-RQ");
	ibv_destroy_srq(srq);
	try_srq_of(7, 2);
	try_srq_of(100, sge);
	expect_error(!make_limit_srq(wr + 1, 1), EINVAL, "a larger S-RQ");
	expect_error(!make_limit_srq(1, sge + 1), EINVAL,
		     "more SGEs in an S-RQ");
}

static void try_cqs(void)
{
	int vector = context->num_comp_vectors, cqe = device.orig_attr.max_cqe;
	struct ibv_cq *largest = ibv_create_cq(context, cqe, NULL, NULL,
					       vector - 1);

	need(largest, "the largest CQ, on the last vector");
	ibv_destroy_cq(largest);
	expect_error(!ibv_create_cq(context, cqe + 1, NULL, NULL, 0), EINVAL,
		     "a larger CQ");
	expect_error(!ibv_create_cq(context, 1, NULL, NULL, vector), EINVAL,
		     "a CQ on a vector more");
	expect_error(!ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL,
		     "a CQ of nothing");
	expect_error(!ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL,
		     "a CQ of less than nothing");
}

/* ------------------------------------------------------------- numbers */

static void *add_pd(void)
{
	return ibv_alloc_pd(context);
}

static int drop_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *add_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static int drop_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *add_srq(void)
{
	return make_limit_srq(1, 1);
}

static int drop_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *add_qp(void)
{
	return make_limit_qp(1, 1, 1, 1);
}

static int drop_qp(void *object)
{
	return ibv_destroy_qp(object);
}

/* Index zero is STag zero's, and no object's. */
static void check_index(uint32_t rkey)
{
	if (!(rkey >> 8))
		fail("the rkey 0x%x has index zero", rkey);
}

static void *add_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, 0);

	if (mr)
		check_index(mr->rkey);
	return mr;
}

static int drop_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *add_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	if (mw)
		check_index(mw->rkey);
	return mw;
}

static int drop_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

/* As many as the device tells, without those in use already; then none, until one
 * has gone. */
static void try_number(const char *what, int max, int used,
		       void *(*add)(void), int (*drop)(void *))
{
	void **objects = calloc(max + 1, sizeof(*objects));
	int number = 0;

	errno = 0;
	while (number <= max && (objects[number] = add()))
		number++;
	if (number != max - used || errno != ENOMEM)
		fail("%d %s beside the %d in use, of %d: %s", number, what,
		     used, max, strerror(errno));
	if (drop(objects[number - 1]))
		fail("one of the %s stays: %s", what, strerror(errno));
	objects[number - 1] = add();
	if (!objects[number - 1])
		fail("no %s in the place of one that has gone: %s", what,
		     strerror(errno));
	while (number)
		if (drop(objects[--number]))
			fail("one of the %s stays: %s", what, strerror(errno));
	free(objects);
}

/* Nothing stays of what was refused, nor of what has gone: all there is again. */
static void try_numbers(void)
{
	const struct ibv_device_attr *d = &device.orig_attr;
	uint64_t pinned = pinned_kb();

	try_number("PDs", d->max_pd, 1, add_pd, drop_pd);
	try_number("CQs", d->max_cq, 1, add_cq, drop_cq);
	if (d->max_srq)
		try_number("S-RQs", d->max_srq, 0, add_srq, drop_srq);
	try_number("QPs", d->max_qp, 0, add_qp, drop_qp);
	try_number("regions", d->max_mr, 0, add_mr, drop_mr);
	if (d->max_mw)
		try_number("windows", d->max_mw, 0, add_mw, drop_mw);
	if (pinned_kb() != pinned)
		fail("%llu kB are pinned, before %llu",
		     (unsigned long long)pinned_kb(),
		     (unsigned long long)pinned);
}

static void try_gids(void)
{
	union ibv_gid gid;

	if (ibv_query_gid(context, PORT, port.gid_tbl_len - 1, &gid))
		fail("the last GID: %s", strerror(errno));
	if (!ibv_query_gid(context, PORT, port.gid_tbl_len, &gid))
		fail("there is a GID more");
}

/* -------------------------------------------------------- capabilities */

static void try_regions(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, 0);

	need(mr, "a region");
	ibv_dereg_mr(mr);
	errno = 0;
	expect_error(!ibv_reg_mr(pd, memory, device.orig_attr.max_mr_size + 1,
				 0), EINVAL, "a larger region");
	if (device.odp_caps.general_caps & IBV_ODP_SUPPORT)
		return;
	expect_error(!ibv_reg_mr(pd, memory, MEMORY, IBV_ACCESS_ON_DEMAND),
		     EOPNOTSUPP, "paging on demand");
}

static void try_window(unsigned int flag, enum ibv_mw_type type)
{
	bool told = device.orig_attr.device_cap_flags & flag;
	struct ibv_mw *mw = ibv_alloc_mw(pd, type);

	if (told)
		need(mw, "a memory window");
	else
		expect_error(!mw, EOPNOTSUPP, "a memory window");
	if (mw)
		ibv_dealloc_mw(mw);
}

static void try_timestamps(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 1,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_cq_ex *with = ibv_create_cq_ex(context, &attr);

	if (device.completion_timestamp_mask)
		need(with, "a CQ with timestamps");
	else
		expect_error(!with, EOPNOTSUPP, "a CQ with timestamps");
	if (with)
		ibv_destroy_cq(ibv_cq_ex_to_cq(with));
}

static void try_device_memory(void)
{
	struct ibv_alloc_dm_attr attr = { .length = MEMORY };

	if (!device.max_dm_size)
		expect_error(!ibv_alloc_dm(context, &attr), EOPNOTSUPP,
			     "memory in the device");
}

/* Each of which ibv_devinfo -v has a line for: none. */
static void try_what_is_not(void)
{
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
		.pd = pd, .cq = cq,
	};
	struct ibv_ah_attr ah = { .port_num = PORT, .is_global = 1 };
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
	};
	struct ibv_flow_attr flow = { .size = sizeof(flow), .port = PORT };
	struct ibv_qp *qp = make_limit_qp(1, 1, 1, 1);
	union ibv_gid group = { .raw = { 0xff, 0x0e } };
	int ret;

	need(qp, "a QP");
	if (device.orig_attr.max_ah || device.orig_attr.max_mcast_grp ||
	    device.rss_caps.max_rwq_indirection_tables ||
	    device.max_wq_type_rq || device.raw_packet_caps ||
	    device.tso_caps.max_tso || device.odp_caps.general_caps ||
	    device.tm_caps.max_num_tags ||
	    device.packet_pacing_caps.qp_rate_limit_max)
		fail("the device tells of what it has not");
	expect_error(!ibv_create_ah(pd, &ah), EOPNOTSUPP, "an address handle");
	expect_error(!ibv_create_wq(context, &wq), EOPNOTSUPP, "a WQ");
	expect_error(!ibv_open_xrcd(context, &xrcd), EOPNOTSUPP, "an XRC domain");
	expect_error(!ibv_create_flow(qp, &flow), EOPNOTSUPP, "a flow rule");
	ret = ibv_attach_mcast(qp, &group, 0);
	if (ret != EOPNOTSUPP)
		fail("a multicast group: %s, not EOPNOTSUPP", strerror(ret));
	ibv_destroy_qp(qp);
}

static void try_moderation(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {
			.cq_count = device.cq_mod_caps.max_cq_count,
			.cq_period = device.cq_mod_caps.max_cq_period,
		},
	};
	int ret = ibv_modify_cq(cq, &attr);

	if (!device.cq_mod_caps.max_cq_count) {
		if (ret != EOPNOTSUPP)
			fail("moderation: %s, not EOPNOTSUPP", strerror(ret));
		return;
	}
	if (ret)
		fail("as much moderation as the device tells: %s",
		     strerror(ret));
}

static void try_other_types(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_RAW_PACKET };
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		attr.qp_type = types[i];
		expect_error(!ibv_create_qp(pd, &attr), EOPNOTSUPP,
			     "a QP of another type");
	}
}

int main(int argc, char **argv)
{
	int c;

	program = "limits-self";
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 'h')
			fail_usage();
		fputs(help, stdout);
		return 0;
	}
	if (argc - optind != 1)
		fail_usage();

	context = open_device(argv[optind]);
	if (ibv_query_device_ex(context, NULL, &device) ||
	    ibv_query_port(context, PORT, &port))
		fail("ibv_query_device_ex or ibv_query_port");
	memory = allocate(MEMORY);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	need(pd, "a PD");
	need(cq, "a CQ");

	try_qps();
	try_resizing();
	try_srqs();
	try_cqs();
	try_numbers();
	try_numbers();
	try_gids();
	try_regions();
	if (!device.orig_attr.max_mw != !(device.orig_attr.device_cap_flags &
					  (IBV_DEVICE_MEM_WINDOW |
					   IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		fail("%d windows", device.orig_attr.max_mw);
	try_window(IBV_DEVICE_MEM_WINDOW, IBV_MW_TYPE_1);
	try_window(IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_MW_TYPE_2);
	try_timestamps();
	try_moderation();
	try_device_memory();
	try_what_is_not();
	try_other_types();

	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	say("limits: ok");
	return 0;
}
