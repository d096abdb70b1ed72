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

/* A Read takes SGEs by a limit of its own. */
static void try_read_sges(struct ibv_qp *qp, int number, int error)
{
	struct ibv_sge sges[32] = { 0 };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = sges,
		.num_sge = number,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (ret)
		fail("INIT: %s", strerror(ret));
	ret = ibv_post_send(qp, &wr, &bad);
	if (ret != error)
		fail("a Read with %d SGEs: %s", number, strerror(ret));
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
	ibv_destroy_qp(qp);

	expect_error(!make_limit_qp(wr + 1, 1, 1, 1), EINVAL, "a larger SQ");
	expect_error(!make_limit_qp(1, wr + 1, 1, 1), EINVAL, "a larger RQ");
	expect_error(!make_limit_qp(1, 1, sge + 1, 1), EINVAL,
		     "more SGEs to send");
	expect_error(!make_limit_qp(1, 1, 1, sge + 1), EINVAL,
		     "more SGEs to receive");
}

static struct ibv_srq *make_limit_srq(int wr, int sge)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = sge },
	};

	errno = 0;
	return ibv_create_srq(pd, &attr);
}

static void try_srqs(void)
{
	int wr = device.orig_attr.max_srq_wr, sge = device.orig_attr.max_srq_sge;
	struct ibv_srq *srq = make_limit_srq(wr, sge);

	need(srq, "the largest S-RQ");
	ibv_destroy_srq(srq);
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

static void *add_mr(void)
{
	return ibv_reg_mr(pd, memory, MEMORY, 0);
}

static int drop_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *add_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int drop_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

/* As many as the device tells, without those in use already; then none. */
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
	while (number)
		if (drop(objects[--number]))
			fail("one of the %s stays: %s", what, strerror(errno));
	free(objects);
}

static void try_numbers(void)
{
	const struct ibv_device_attr *d = &device.orig_attr;

	try_number("PDs", d->max_pd, 1, add_pd, drop_pd);
	try_number("CQs", d->max_cq, 1, add_cq, drop_cq);
	try_number("S-RQs", d->max_srq, 0, add_srq, drop_srq);
	try_number("QPs", d->max_qp, 0, add_qp, drop_qp);
	try_number("regions", d->max_mr, 0, add_mr, drop_mr);
	try_number("windows", d->max_mw, 0, add_mw, drop_mw);
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
	try_srqs();
	try_cqs();
	try_numbers();
	try_gids();
	try_regions();
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
