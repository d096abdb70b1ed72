// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * attributes-self: what programs written for other devices set and read back:
 * rights to memory and of QPs, states of QPs, the depths of Reads, attributes that
 * mean nothing to iWARP, the version of the firmware.
 */

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define MEMORY		4096
#define ROUNDS		50
#define ALL_RIGHTS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const char help[] =
"usage: attributes-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and checks what\n"
"can be set of memory regions and QPs, and what is read back.\n"
"  -p, --port PORT       (default " DEFAULT_PORT ")\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "time-limit", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static struct rdma_event_channel *listen_channel;
static struct endpoint a, b;	/* a connects to b */

static void *accept_b(void *unused)
{
	(void)unused;
	take_request(listen_channel, &b, NULL, 0);
	make_qp(&b);
	accept_on(&b);
	return NULL;
}

static void connect_ends(const char *address, const char *port)
{
	pthread_t acceptor;
	int ret = pthread_create(&acceptor, NULL, accept_b, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_to(&a, address, port, NULL, 0);
	pthread_join(acceptor, NULL);
}

/* ------------------------------------------------------------- memory */

static void transfer(enum ibv_wr_opcode opcode, struct ibv_mr *here,
		     struct ibv_mr *there)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)here->addr,
		.length = MEMORY,
		.lkey = here->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {
			.remote_addr = (uintptr_t)there->addr,
			.rkey = there->rkey,
		},
	};
	struct ibv_wc wc;
	int ret = post_work_request(a.id->qp, &wr);

	if (ret)
		fail("posting: %s", strerror(ret));
	expect_completion(a.send_cq, a.send_channel, &wc, "transfer");
}

/* An atomic needs more than the right to it. */
static void try_atomic(struct ibv_mr *here, struct ibv_mr *there)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)here->addr,
		.length = 8,
		.lkey = here->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = {
			.remote_addr = (uintptr_t)there->addr,
			.rkey = there->rkey,
			.compare_add = 1,
		},
	};
	struct ibv_device_attr device;

	if (ibv_query_device(a.id->verbs, &device))
		fail("ibv_query_device: %s", strerror(errno));
	if (device.atomic_cap == IBV_ATOMIC_NONE &&
	    !ibv_post_send(a.id->qp, &wr, &bad))
		fail("an atomic was posted to a device without them");
}

static void check_rights(int more)
{
	uint8_t *from = allocate(MEMORY), *to = allocate(MEMORY);
	struct ibv_mr *here, *there;
	unsigned int i;

	here = register_memory(a.id, from, MEMORY, ALL_RIGHTS | more);
	there = register_memory(b.id, to, MEMORY, ALL_RIGHTS | more);
	for (i = 1; i <= ROUNDS; i++) {
		memset(from, i, MEMORY);
		transfer(IBV_WR_RDMA_WRITE, here, there);
		memset(from, 0, MEMORY);
		transfer(IBV_WR_RDMA_READ, here, there);
		if (from[0] != i || memcmp(from, to, MEMORY))
			fail("other data with access 0x%x", ALL_RIGHTS | more);
	}
	try_atomic(here, there);
	ibv_dereg_mr(here);
	ibv_dereg_mr(there);
	free(from);
	free(to);
}

/* Rights that the core refuses in regions that may not be written to. */
static void check_refused_rights(void)
{
	uint8_t *memory = allocate(MEMORY);

	if (ibv_reg_mr(a.id->pd, memory, MEMORY, IBV_ACCESS_REMOTE_ATOMIC) ||
	    errno != EINVAL)
		fail("REMOTE_ATOMIC without LOCAL_WRITE: not EINVAL but %s",
		     strerror(errno));
	free(memory);
}

static void check_bind(void)
{
	uint8_t *memory = allocate(MEMORY);
	struct ibv_mr *mr = register_memory(b.id, memory, MEMORY, ALL_RIGHTS |
					    IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.id->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = mr,
			.addr = (uintptr_t)memory,
			.length = MEMORY,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_ATOMIC,
		},
	};
	struct ibv_wc wc;
	int ret;

	if (!mw)
		fail("ibv_alloc_mw: %s", strerror(errno));
	ret = ibv_bind_mw(b.id->qp, mw, &bind);
	if (ret)
		fail("ibv_bind_mw with REMOTE_ATOMIC: %s", strerror(ret));
	expect_completion(b.send_cq, b.send_channel, &wc, "bind");
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
	free(memory);
}

/* ---------------------------------------------------------------- QPs */

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		   const char *what)
{
	int ret = ibv_modify_qp(qp, attr, mask);

	if (ret)
		fail("ibv_modify_qp, %s: %s", what, strerror(ret));
}

static struct ibv_qp_attr query(struct ibv_qp *qp,
				struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr attr;
	int ret = ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, init);

	if (ret)
		fail("ibv_query_qp: %s", strerror(ret));
	return attr;
}

static void expect_state(struct ibv_qp *qp, enum ibv_qp_state state,
			 const char *when)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = query(qp, &init);

	if (attr.qp_state != state)
		fail("%s the state is %d, not %d", when, attr.qp_state, state);
}

#define EXPECT(field, value) do { \
	if (attr.field != (value)) \
		fail(#field " is %u, not %u", (unsigned int)attr.field, \
		     (unsigned int)(value)); \
} while (0)

static struct ibv_qp_attr to_init(int access)
{
	return (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = access,
	};
}

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | \
		   IBV_QP_ACCESS_FLAGS)

static void check_attributes(struct ibv_qp *qp)
{
	struct ibv_qp_attr set = to_init(ALL_RIGHTS), attr;
	struct ibv_qp_init_attr init;
	union ibv_gid gid;

	if (ibv_query_gid(qp->context, 1, 1, &gid))
		fail("ibv_query_gid");
	modify(qp, &set, INIT_MASK, "INIT");
	/* Its peer is the QP itself. */
	set = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = 1 } },
		.dest_qp_num = qp->qp_num,
		.path_mtu = IBV_MTU_512,
		.rq_psn = 0x123456,
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = 3,
	};
	modify(qp, &set, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN |
	       IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER |
	       IBV_QP_MAX_DEST_RD_ATOMIC, "RTR");
	set = (struct ibv_qp_attr) {
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 6,
		.sq_psn = 0x654321,
		.max_rd_atomic = 2,
	};
	modify(qp, &set, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, "attributes");

	attr = query(qp, &init);
	EXPECT(qp_state, IBV_QPS_RTR);
	EXPECT(cur_qp_state, IBV_QPS_RTR);
	EXPECT(port_num, 1);
	EXPECT(qp_access_flags, ALL_RIGHTS);
	EXPECT(path_mtu, IBV_MTU_512);
	EXPECT(dest_qp_num, qp->qp_num);
	EXPECT(rq_psn, 0x123456);
	EXPECT(sq_psn, 0x654321);
	EXPECT(min_rnr_timer, 12);
	EXPECT(max_dest_rd_atomic, 3);
	EXPECT(max_rd_atomic, 2);
	EXPECT(timeout, 14);
	EXPECT(retry_cnt, 7);
	EXPECT(rnr_retry, 6);
}

static void set_depth(struct ibv_qp *qp, int mask, unsigned int depth)
{
	struct ibv_qp_attr set = {
		.max_rd_atomic = depth, .max_dest_rd_atomic = depth,
	}, attr;
	struct ibv_qp_init_attr init;

	modify(qp, &set, mask, "a read depth");
	attr = query(qp, &init);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		EXPECT(max_rd_atomic, depth);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		EXPECT(max_dest_rd_atomic, depth);
}

/* What is asked for is granted, none included: smaller or larger than before, each
 * without the other. */
static void check_depths(struct ibv_qp *qp)
{
	struct ibv_device_attr device;
	unsigned int ird, ord, i;

	if (ibv_query_device(qp->context, &device))
		fail("ibv_query_device: %s", strerror(errno));
	ird = device.max_qp_rd_atom;
	ord = device.max_qp_init_rd_atom;
	for (i = 0; i < 2; i++) {
		set_depth(qp, IBV_QP_MAX_DEST_RD_ATOMIC, 0);
		set_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC, ord);
		set_depth(qp, IBV_QP_MAX_DEST_RD_ATOMIC, 1);
		set_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC, 0);
		set_depth(qp, IBV_QP_MAX_DEST_RD_ATOMIC, ird);
		set_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC, 1);
	}
}

/* Before the connection, and again: the last values are in force. */
static void check_before(struct ibv_qp *qp)
{
	struct ibv_qp_attr set = to_init(IBV_ACCESS_REMOTE_WRITE), attr;
	struct ibv_qp_init_attr init;
	unsigned int i;

	attr = query(qp, &init);
	if (!attr.max_rd_atomic || !attr.max_dest_rd_atomic)
		fail("a new QP has ORD %u and IRD %u", attr.max_rd_atomic,
		     attr.max_dest_rd_atomic);
	for (i = 1; i <= 2; i++) {
		set.max_rd_atomic = 3 - i;
		set.max_dest_rd_atomic = 4 - i;
		modify(qp, &set, INIT_MASK | IBV_QP_MAX_QP_RD_ATOMIC |
		       IBV_QP_MAX_DEST_RD_ATOMIC, "INIT");
		attr = query(qp, &init);
		EXPECT(qp_state, IBV_QPS_INIT);
		EXPECT(max_rd_atomic, 3 - i);
		EXPECT(max_dest_rd_atomic, 4 - i);
		EXPECT(qp_access_flags, set.qp_access_flags);
		set.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	}
}

/* Refused, and nothing of such a call is done. */
static void check_refused(struct ibv_qp *qp, enum ibv_qp_state state, int mask,
			  int error)
{
	struct ibv_qp_attr before, attr;
	struct ibv_qp_init_attr init;
	int ret;

	before = query(qp, &init);
	attr = (struct ibv_qp_attr) {
		.qp_state = state,
		.max_rd_atomic = before.max_rd_atomic + 1,
	};
	ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
	if (ret != error)
		fail("from state %d to %d: %s, not %s", before.qp_state, state,
		     strerror(ret), strerror(error));
	attr = query(qp, &init);
	EXPECT(qp_state, before.qp_state);
	EXPECT(max_rd_atomic, before.max_rd_atomic);
}

/* Without a connection there is no RTS, nor what comes behind it. */
static void check_no_transition(struct ibv_qp *qp)
{
	static const int masks[] = { 0, IBV_QP_MAX_QP_RD_ATOMIC };
	unsigned int i;

	for (i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		check_refused(qp, IBV_QPS_RTS, masks[i], ENOTCONN);
		check_refused(qp, IBV_QPS_SQD, masks[i], EINVAL);
		check_refused(qp, IBV_QPS_SQE, masks[i], EINVAL);
		check_refused(qp, 1000, masks[i], EINVAL);
	}
	expect_state(qp, IBV_QPS_INIT, "after what is refused");
}

/* When the connection has ended: there is no way but to RESET, and to where it is. */
static void check_ended(struct ibv_qp *qp)
{
	static const enum ibv_qp_state refused[] = {
		IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, 1000,
	};
	struct ibv_qp_attr set = to_init(0);
	unsigned int i;

	expect_state(qp, IBV_QPS_ERR, "disconnected,");
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		check_refused(qp, refused[i], 0, EINVAL);
	if (ibv_modify_qp(qp, &set, INIT_MASK) != EINVAL)
		fail("from ERR to INIT: not EINVAL");
	set.qp_state = IBV_QPS_ERR;
	modify(qp, &set, IBV_QP_STATE, "ERR, from there");
	expect_state(qp, IBV_QPS_ERR, "still");
	set.qp_state = IBV_QPS_RESET;
	modify(qp, &set, IBV_QP_STATE, "RESET, from ERR");
	expect_state(qp, IBV_QPS_RESET, "at last");
}

static void check_init_attributes(struct ibv_qp *qp,
				  const struct ibv_qp_init_attr *made)
{
	struct ibv_qp_init_attr attr;

	query(qp, &attr);
	EXPECT(qp_type, IBV_QPT_RC);
	EXPECT(sq_sig_all, made->sq_sig_all);
	EXPECT(cap.max_send_wr, made->cap.max_send_wr);
	EXPECT(cap.max_recv_wr, made->cap.max_recv_wr);
	EXPECT(cap.max_send_sge, made->cap.max_send_sge);
	EXPECT(cap.max_recv_sge, made->cap.max_recv_sge);
	EXPECT(cap.max_inline_data, made->cap.max_inline_data);
	if (attr.send_cq != made->send_cq || attr.recv_cq != made->recv_cq ||
	    attr.qp_context != made->qp_context || attr.srq)
		fail("the QP has other CQs, S-RQ or context than it was given");
}

static void check_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;

	modify(qp, &attr, IBV_QP_STATE, "RESET");
	attr = query(qp, &init);
	EXPECT(qp_state, IBV_QPS_RESET);
	EXPECT(qp_access_flags, 0);
	EXPECT(timeout, 0);
	EXPECT(rq_psn, 0);
	attr = to_init(IBV_ACCESS_REMOTE_READ);
	modify(qp, &attr, INIT_MASK, "INIT again");
	attr = query(qp, &init);
	EXPECT(qp_state, IBV_QPS_INIT);
	EXPECT(qp_access_flags, IBV_ACCESS_REMOTE_READ);
}

/* A QP that is not connected. */
static void check_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_context = &a,
		.send_cq = a.send_cq,
		.recv_cq = a.recv_cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = 10,
			.max_recv_wr = 20,
			.max_send_sge = 2,
			.max_recv_sge = 3,
			.max_inline_data = 64,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(a.id->pd, &init);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	expect_state(qp, IBV_QPS_INIT, "after creation");
	check_init_attributes(qp, &init);
	check_before(qp);
	check_depths(qp);
	check_no_transition(qp);
	check_attributes(qp);
	check_reset(qp);
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

/* As many as there may be at once, or more: all are done. */
static void check_reads(unsigned int number)
{
	uint8_t *from = allocate(MEMORY), *to = allocate(MEMORY);
	struct ibv_mr *here = register_memory(a.id, to, MEMORY, ALL_RIGHTS);
	struct ibv_mr *there = register_memory(b.id, from, MEMORY, ALL_RIGHTS);
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < number; i++) {
		struct ibv_sge sge = { (uintptr_t)to + i, 1, here->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {
				.remote_addr = (uintptr_t)from + i,
				.rkey = there->rkey,
			},
		};

		from[i] = i + 1;
		if (ibv_post_send(a.id->qp, &wr, &bad))
			fail("posting Reads");
	}
	for (i = 0; i < number; i++) {
		expect_completion(a.send_cq, a.send_channel, &wc, "a Read");
		if (wc.wr_id != i)
			fail("Read %llu is number %u",
			     (unsigned long long)wc.wr_id, i);
	}
	if (memcmp(from, to, number))
		fail("Reads have brought other octets");
	ibv_dereg_mr(here);
	ibv_dereg_mr(there);
	free(from);
	free(to);
}

/* As it was connected: all that both ends have agreed on; less; again as many. IRD is
 * fixed by then. */
static void check_depths_connected(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr before = query(qp, &init), attr;

	check_reads(QP_DEPTH);
	set_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC, 1);
	check_reads(8);
	set_depth(qp, IBV_QP_MAX_QP_RD_ATOMIC, before.max_rd_atomic);
	check_reads(QP_DEPTH);
	attr = before;
	attr.max_dest_rd_atomic--;
	if (ibv_modify_qp(qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC) != EINVAL)
		fail("IRD of a connected QP: not EINVAL");
	attr = query(qp, &init);
	EXPECT(max_dest_rd_atomic, before.max_dest_rd_atomic);
}

/* Of one that is connected: what changes does so at once; what is refused changes
 * nothing, and data is moved all the same. The last four want no other attribute. */
static void check_connected(void)
{
	static const enum ibv_qp_state refused[] = {
		IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_SQD, IBV_QPS_SQE,
		IBV_QPS_ERR, IBV_QPS_RESET, 1000,
	};
	struct ibv_qp *qp = a.id->qp;
	struct ibv_qp_attr before, attr, set = {
		.qp_state = IBV_QPS_RTS, .max_rd_atomic = 1,
	};
	struct ibv_qp_init_attr init;
	unsigned int i;

	check_depths_connected(qp);
	modify(qp, &set, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC, "ORD in RTS");
	attr = query(qp, &init);
	EXPECT(qp_state, IBV_QPS_RTS);
	EXPECT(max_rd_atomic, 1);
	before = attr;
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		set = to_init(0);
		set.qp_state = refused[i];
		if (ibv_modify_qp(qp, &set, INIT_MASK) != EINVAL)
			fail("from RTS to state %d: not EINVAL", refused[i]);
		attr = query(qp, &init);
		EXPECT(qp_state, IBV_QPS_RTS);
		EXPECT(qp_access_flags, before.qp_access_flags);
		EXPECT(max_rd_atomic, 1);
		EXPECT(max_dest_rd_atomic, before.max_dest_rd_atomic);
	}
	check_rights(0);
}

static void disconnect_ends(void)
{
	rdma_disconnect(a.id);
	wait_disconnect(&b);
	expect_and_ack(a.channel, RDMA_CM_EVENT_DISCONNECTED);
	check_ended(a.id->qp);
	free_endpoint(&a);
}

/* -------------------------------------------------------- read depths */

/* Reads under way: of the end that connects, and of the other one. */
enum { DEPTH_A = 3, DEPTH_B = 2 };

/* Of an event's parameters: what this end may ask, and what it has to serve. */
static void expect_depths(const struct rdma_cm_event *event, unsigned int ask,
			  unsigned int serve)
{
	if (event->param.conn.initiator_depth != ask ||
	    event->param.conn.responder_resources != serve)
		fail("%s: depths %u and %u, not %u and %u",
		     rdma_event_str(event->event),
		     event->param.conn.initiator_depth,
		     event->param.conn.responder_resources, ask, serve);
}

static struct rdma_conn_param depths_param(const struct endpoint *ep,
					   unsigned int ask, unsigned int serve)
{
	struct rdma_conn_param param = connect_param(ep);

	param.initiator_depth = ask;
	param.responder_resources = serve;
	return param;
}

static void *accept_depths(void *unused)
{
	struct rdma_conn_param param;
	struct rdma_cm_event *event;

	event = expect_event(listen_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	expect_depths(event, DEPTH_B, DEPTH_A);
	b = (struct endpoint) { .channel = make_channel(), .id = event->id };
	rdma_ack_cm_event(event);
	if (rdma_migrate_id(b.id, b.channel))
		fail("rdma_migrate_id: %s", strerror(errno));
	make_qp(&b);
	param = depths_param(&b, DEPTH_B, DEPTH_A);
	if (rdma_accept(b.id, &param))
		fail("rdma_accept: %s", strerror(errno));
	expect_and_ack(b.channel, RDMA_CM_EVENT_ESTABLISHED);
	return unused;
}

static void connect_with_depths(const char *address, const char *port)
{
	struct rdma_conn_param param;
	struct rdma_cm_event *event;
	char why[WHY_SIZE];

	a = (struct endpoint) { .channel = make_channel() };
	a.id = resolve(a.channel, address, port, why);
	if (!a.id)
		fail("%s: %s", address, why);
	make_qp(&a);
	param = depths_param(&a, DEPTH_A, DEPTH_B);
	if (!start_connect(a.id, &param, why))
		fail("%s", why);
	event = expect_event(a.channel, RDMA_CM_EVENT_ESTABLISHED);
	expect_depths(event, DEPTH_A, DEPTH_B);
	rdma_ack_cm_event(event);
}

static void check_agreed(struct ibv_qp *qp, unsigned int ask, unsigned int serve)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = query(qp, &init);

	EXPECT(max_rd_atomic, ask);
	EXPECT(max_dest_rd_atomic, serve);
}

/* Each end serves what the other one may ask, whichever connects: both are told so, and
 * it holds. */
static void check_two_depths(const char *address, const char *port)
{
	pthread_t acceptor;
	int ret = pthread_create(&acceptor, NULL, accept_depths, NULL);

	if (ret)
		fail("pthread_create: %s", strerror(ret));
	connect_with_depths(address, port);
	pthread_join(acceptor, NULL);
	check_agreed(a.id->qp, DEPTH_A, DEPTH_B);
	check_agreed(b.id->qp, DEPTH_B, DEPTH_A);
	check_reads(QP_DEPTH);
	disconnect_ends();
}

/* ------------------------------------------------------------- device */

/* A number that PCI has in a file. */
static unsigned int pci_number(const char *name)
{
	unsigned int number;
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/%s",
		 ibv_get_device_name(a.id->verbs->device), name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%x", &number) != 1)
		fail("%s: %s", path, strerror(errno));
	fclose(file);
	return number;
}

static void check_vendor(void)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(a.id->verbs, &attr))
		fail("ibv_query_device: %s", strerror(errno));
	EXPECT(vendor_id, pci_number("vendor"));
	EXPECT(vendor_part_id, pci_number("device"));
	EXPECT(hw_ver, pci_number("revision"));
}

/* As the kernel, in sysfs, has it. */
static void check_firmware_version(void)
{
	struct ibv_device_attr_ex device;
	char path[200], version[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/fw_ver",
		 ibv_get_device_name(a.id->verbs->device));
	file = fopen(path, "r");
	if (!file || fscanf(file, "%63s", version) != 1)
		fail("%s: %s", path, strerror(errno));
	fclose(file);
	if (ibv_query_device_ex(a.id->verbs, NULL, &device))
		fail("ibv_query_device_ex: %s", strerror(errno));
	if (strcmp(device.orig_attr.fw_ver, version))
		fail("firmware %s, in sysfs %s", device.orig_attr.fw_ver,
		     version);
}

int main(int argc, char **argv)
{
	struct ibv_qp_attr rights = { .qp_access_flags = ALL_RIGHTS };
	const char *port = DEFAULT_PORT;
	struct rdma_cm_id *listener;
	int c;

	program = "attributes-self";
	while ((c = getopt_long(argc, argv, "p:t:h", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			port = optarg;
			break;
		case 't':
			time_limit = parse_number(optarg, "--time-limit",
						  86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	}
	if (argc - optind != 1)
		fail_usage();

	listen_channel = make_channel();
	listener = listen_at(listen_channel, argv[optind], port);
	connect_ends(argv[optind], port);

	modify(a.id->qp, &rights, IBV_QP_ACCESS_FLAGS, "rights");
	modify(b.id->qp, &rights, IBV_QP_ACCESS_FLAGS, "rights");
	expect_state(a.id->qp, IBV_QPS_RTS, "connected,");
	check_rights(0);
	check_rights(IBV_ACCESS_RELAXED_ORDERING);
	check_rights(IBV_ACCESS_OPTIONAL_RANGE);
	check_refused_rights();
	check_bind();
	check_qp();
	check_connected();
	check_firmware_version();
	check_vendor();

	disconnect_ends();
	check_two_depths(argv[optind], port);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
	say("attributes: ok");
	return 0;
}
