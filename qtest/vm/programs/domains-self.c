// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * domains-self: a process that connects to itself with queues on a parent domain,
 * whose allocator gave their memory and whose thread domain says that one thread
 * uses them, and moves and checks data; objects made in the newer ways of verbs;
 * protection domain and memory region imported, in this process and in another.
 */

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define MEMORY		4096
#define MESSAGES	1000

static const char help[] =
"usage: domains-self [options] ADDRESS\n"
"Listens at ADDRESS, one of this machine's own, connects to it, and checks parent\n"
"domains, thread domains and what is imported.\n"
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

/* ---------------------------------------------------------- allocator */

static struct allocator {
	bool use_default;
	bool refuse;
	unsigned int asked, given, freed;
} allocator;

static void *give(struct ibv_pd *pd, void *context, size_t size,
		  size_t alignment, uint64_t type)
{
	struct allocator *from = context;
	void *memory;

	(void)pd;
	(void)type;
	from->asked++;
	if (from->refuse)
		return NULL;
	if (from->use_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (posix_memalign(&memory, alignment, size))
		fail("posix_memalign");
	/* What is new in a queue must not look posted or completed. */
	memset(memory, 0xff, size);
	from->given++;
	return memory;
}

static void take_back(struct ibv_pd *pd, void *context, void *memory,
		      uint64_t type)
{
	struct allocator *from = context;

	(void)pd;
	(void)type;
	from->freed++;
	free(memory);
}

/* ------------------------------------------------------------ domains */

struct domains {
	struct ibv_context *context;
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
};

static void make_domains(struct domains *d, struct ibv_context *context)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = give,
		.free = take_back,
		.pd_context = &allocator,
	};

	d->context = context;
	d->pd = ibv_alloc_pd(context);
	d->td = ibv_alloc_td(context, &td_attr);
	if (!d->pd || !d->td)
		fail("ibv_alloc_pd or ibv_alloc_td: %s", strerror(errno));
	attr.pd = d->pd;
	attr.td = d->td;
	d->parent = ibv_alloc_parent_domain(context, &attr);
	if (!d->parent)
		fail("ibv_alloc_parent_domain: %s", strerror(errno));
}

static void expect_status(int ret, int status, const char *what)
{
	if (ret != status)
		fail("%s: %s, not %s", what, strerror(ret), strerror(status));
}

static void free_domains(struct domains *d)
{
	expect_status(ibv_dealloc_td(d->td), EBUSY, "a TD in use");
	expect_status(ibv_dealloc_pd(d->pd), EBUSY, "a PD in use");
	expect_status(ibv_dealloc_pd(d->parent), 0, "a parent domain");
	expect_status(ibv_dealloc_td(d->td), 0, "a TD");
	expect_status(ibv_dealloc_pd(d->pd), 0, "a PD");
}

static void check_no_parent_of_parent(const struct domains *d)
{
	struct ibv_parent_domain_init_attr attr = { .pd = d->parent };

	if (ibv_alloc_parent_domain(d->context, &attr) || errno != EINVAL)
		fail("a parent domain of a parent domain: not EINVAL");
}

static struct ibv_cq *make_cq(const struct domains *d)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = QP_DEPTH,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS |
			     IBV_CQ_INIT_ATTR_MASK_PD,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			 IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
		.parent_domain = d->parent,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(d->context, &attr);

	if (!cq)
		fail("ibv_create_cq_ex on a parent domain: %s",
		     strerror(errno));
	attr.parent_domain = d->pd;
	if (ibv_create_cq_ex(d->context, &attr) || errno != EINVAL)
		fail("a CQ on what is no parent domain: not EINVAL");
	return ibv_cq_ex_to_cq(cq);
}

static struct ibv_srq *make_srq(const struct domains *d)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = QP_DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = d->parent,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(d->context, &attr);
	uint32_t number = 0;
	int ret;

	if (!srq)
		fail("ibv_create_srq_ex: %s", strerror(errno));
	ret = ibv_get_srq_num(srq, &number);
	if (ret || !number)
		fail("ibv_get_srq_num: %s, number %u", strerror(ret), number);
	attr.srq_type = IBV_SRQT_TM;
	if (ibv_create_srq_ex(d->context, &attr) || errno != EOPNOTSUPP)
		fail("an S-RQ with tag matching: not EOPNOTSUPP");
	return srq;
}

static void make_qp_on(struct endpoint *ep, const struct domains *d,
		       struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = QP_DEPTH, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = d->parent,
		.create_flags = 1,
	};

	if (!rdma_create_qp_ex(ep->id, &attr) || errno != EOPNOTSUPP)
		fail("a QP with a create flag: not EOPNOTSUPP");
	attr.create_flags = 0;
	if (rdma_create_qp_ex(ep->id, &attr))
		fail("rdma_create_qp_ex on a parent domain: %s",
		     strerror(errno));
	ep->read_depth = 1;
}

static void check_allocator_refuses(const struct domains *d, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};
	struct ibv_qp *qp;

	allocator.refuse = true;
	if (ibv_create_qp(d->parent, &attr) || errno != ENOMEM)
		fail("a QP without memory: not ENOMEM");
	allocator.refuse = false;

	allocator.use_default = true;
	qp = ibv_create_qp(d->parent, &attr);
	allocator.use_default = false;
	if (!qp)
		fail("a QP with the provider's memory: %s", strerror(errno));
	expect_status(ibv_dealloc_pd(d->parent), EBUSY, "a parent domain in use");
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
}

/* ------------------------------------------------------------ traffic */

struct server {
	struct domains d;
	struct endpoint ep;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *memory;
};

/* Message i has one half of the memory, the next one the other. */
static struct ibv_sge message_sge(const struct server *s, unsigned int i)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)s->memory + i % 2 * MEMORY,
		.length = MEMORY,
		.lkey = s->mr->lkey,
	};
}

static void post_to_srq(struct server *s, unsigned int i)
{
	struct ibv_sge sge = message_sge(s, i);
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	int ret = ibv_post_srq_recv(s->srq, &wr, &bad);

	if (ret)
		fail("ibv_post_srq_recv: %s", strerror(ret));
}

static void await_completion(struct server *s, enum ibv_wc_opcode opcode)
{
	double end = now() + time_limit;
	struct ibv_wc wc;

	while (!ibv_poll_cq(s->cq, 1, &wc))
		if (now() > end)
			fail("no completion within %g s", time_limit);
	check_completion(&wc, "server");
	if (wc.opcode != opcode)
		fail("completion of %d instead of %d", wc.opcode, opcode);
}

static void send_back(struct server *s, unsigned int i)
{
	struct ibv_sge sge = message_sge(s, i);
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ibv_post_send(s->ep.id->qp, &wr, &bad);

	if (ret)
		fail("ibv_post_send: %s", strerror(ret));
}

static void echo_messages(struct server *s)
{
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		await_completion(s, IBV_WC_RECV);
		/* The answer to this one is what the next one waits for. */
		if (i + 1 < MESSAGES)
			post_to_srq(s, i + 1);
		send_back(s, i);
		await_completion(s, IBV_WC_SEND);
	}
}

static void end_server(struct server *s)
{
	expect_and_ack(s->ep.channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(s->ep.id);
	expect_status(ibv_destroy_srq(s->srq), 0, "ibv_destroy_srq");
	/* The CQ has memory of it. */
	expect_status(ibv_dealloc_pd(s->d.parent), EBUSY,
		      "a parent domain in use");
	expect_status(ibv_destroy_cq(s->cq), 0, "ibv_destroy_cq");
	expect_status(ibv_dereg_mr(s->mr), 0, "ibv_dereg_mr");
	free_domains(&s->d);
	free_endpoint(&s->ep);
	free(s->memory);
}

static void *serve(void *unused)
{
	struct server s = { .memory = allocate(2 * MEMORY) };

	(void)unused;
	take_request(listen_channel, &s.ep, NULL, 0);
	make_domains(&s.d, s.ep.id->verbs);
	check_no_parent_of_parent(&s.d);
	s.cq = make_cq(&s.d);
	s.srq = make_srq(&s.d);
	check_allocator_refuses(&s.d, s.cq);
	make_qp_on(&s.ep, &s.d, s.cq, s.srq);
	s.mr = ibv_reg_mr(s.d.parent, s.memory, 2 * MEMORY,
			  IBV_ACCESS_LOCAL_WRITE);
	if (!s.mr)
		fail("ibv_reg_mr on a parent domain: %s", strerror(errno));
	post_to_srq(&s, 0);
	accept_on(&s.ep);
	echo_messages(&s);
	end_server(&s);
	return NULL;
}

static void send_messages(struct endpoint *ep)
{
	uint8_t *memory = allocate(2 * MEMORY), *got = memory + MEMORY;
	struct ibv_mr *mr = register_memory(ep->id, memory, 2 * MEMORY,
					    IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;
	unsigned int i, k;

	for (i = 0; i < MESSAGES; i++) {
		for (k = 0; k < MEMORY; k++)
			memory[k] = i + k * 7;
		post_receive(ep, mr, got, MEMORY, i);
		post_message(ep, mr, memory, MEMORY, i);
		expect_completion(ep->send_cq, ep->send_channel, &wc, "Send");
		expect_completion(ep->recv_cq, ep->recv_channel, &wc, "echo");
		if (memcmp(memory, got, MEMORY))
			fail("message %u came back changed", i);
	}
	ibv_dereg_mr(mr);
	free(memory);
}

/* ------------------------------------------------------------- import */

/* What is imported is the same: objects can be made on it. */
static void use_imported(struct ibv_context *context, uint32_t pd_handle,
			 uint32_t mr_handle, const struct ibv_mr *mr)
{
	struct ibv_pd *pd = ibv_import_pd(context, pd_handle);
	struct ibv_mr *imported;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};
	struct ibv_qp *qp;

	if (!pd)
		fail("ibv_import_pd: %s", strerror(errno));
	imported = ibv_import_mr(pd, mr_handle);
	if (!imported)
		fail("ibv_import_mr: %s", strerror(errno));
	if (imported->lkey != mr->lkey || imported->rkey != mr->rkey ||
	    imported->length != mr->length)
		fail("the region imported is another");
	attr.send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	attr.recv_cq = attr.send_cq;
	qp = attr.send_cq ? ibv_create_qp(pd, &attr) : NULL;
	if (!qp)
		fail("CQ and QP on what is imported: %s", strerror(errno));
	expect_status(ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
	expect_status(ibv_destroy_cq(attr.send_cq), 0, "ibv_destroy_cq");
	ibv_unimport_mr(imported);
	ibv_unimport_pd(pd);
}

static void import_from(int fd, const struct ibv_pd *pd,
			const struct ibv_mr *mr)
{
	int own = dup(fd);
	struct ibv_context *context = own < 0 ? NULL : ibv_import_device(own);

	if (!context)
		fail("ibv_import_device: %s", strerror(errno));
	use_imported(context, pd->handle, mr->handle, mr);
	ibv_close_device(context);
}

static void import_in_child(int fd, const struct ibv_pd *pd,
			    const struct ibv_mr *mr)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (!child) {
		import_from(fd, pd, mr);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("importing in another process: status 0x%x", status);
}

static void check_import(struct ibv_context *context)
{
	uint8_t *memory = allocate(MEMORY);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, MEMORY,
					    IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (!mr)
		fail("PD or MR: %s", strerror(errno));
	import_from(context->cmd_fd, pd, mr);
	import_in_child(context->cmd_fd, pd, mr);
	/* They are all there still. */
	import_from(context->cmd_fd, pd, mr);
	expect_status(ibv_dereg_mr(mr), 0, "ibv_dereg_mr");
	expect_status(ibv_dealloc_pd(pd), 0, "ibv_dealloc_pd");
	free(memory);
}

static void run_client(const char *address, const char *port)
{
	struct endpoint ep;

	connect_to(&ep, address, port, NULL, 0);
	send_messages(&ep);
	check_import(ep.id->verbs);
	disconnect(&ep);
}

int main(int argc, char **argv)
{
	const char *port = DEFAULT_PORT;
	struct rdma_cm_id *listener;
	pthread_t server;
	int c;

	program = "domains-self";
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
	c = pthread_create(&server, NULL, serve, NULL);
	if (c)
		fail("pthread_create: %s", strerror(c));
	run_client(argv[optind], port);
	pthread_join(server, NULL);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(listen_channel);
	/* CQ, S-RQ and QP. */
	if (allocator.given != 3 || allocator.freed != 3 ||
	    allocator.asked != 5)
		fail("the allocator was asked %u times, gave %u, got %u back",
		     allocator.asked, allocator.given, allocator.freed);
	say("domains: ok");
	return 0;
}
