// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the guest test programs share; see common.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define RESOLVE_MS	5000
#define RETRY_MS	200
#define MAX_SGE		8
#define MAX_INLINE	64
#define MAX_READ_DEPTH	16

const char *program = "?";
double time_limit = 60;
bool use_extended;
uint64_t extra_wc_flags;
uint32_t extra_cq_flags;
int listen_backlog = 16;
int type_of_service = -1;

/* Programs of a script have vm-run's factor for slow guests, as the script has. */
__attribute__((constructor))
static void stretch_time_limit(void)
{
	const char *patience = getenv("RNIC_PATIENCE");

	if (patience)
		time_limit *= parse_number(patience, "RNIC_PATIENCE", 10000);
}

/* ------------------------------------------------------------ messages */

void fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: error: ", program);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	fflush(stderr);
	/* Another thread may be in a library call: no clean-up at exit. */
	_exit(FAILED);
}

void fail_usage(void)
{
	fprintf(stderr, "%s: try --help\n", program);
	exit(USAGE);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

uint64_t parse_number(const char *text, const char *what, uint64_t max)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || value > max) {
		fprintf(stderr, "%s: %s: '%s' is not a number up to %llu\n",
			program, what, text, (unsigned long long)max);
		exit(USAGE);
	}
	return value;
}

uint64_t parse_size(const char *text, const char *what)
{
	static const char units[] = "kMG";
	size_t length = strlen(text);
	const char *unit = length ? strchr(units, text[length - 1]) : NULL;
	char digits[32];
	int shift = 0;

	if (unit && *unit) {
		shift = 10 * (unit - units + 1);
		length--;
	}
	snprintf(digits, sizeof(digits), "%.*s", (int)length, text);
	return parse_number(digits, what, UINT64_MAX >> shift) << shift;
}

void *allocate(size_t size)
{
	void *memory;

	if (posix_memalign(&memory, sysconf(_SC_PAGESIZE), size))
		fail("no memory for %zu bytes", size);
	memset(memory, 0, size);
	return memory;
}

uint64_t pinned_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long long kb = 0;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %llu", &kb) == 1)
			break;
	if (!f)
		fail("/proc/self/status: %s", strerror(errno));
	fclose(f);
	return kb;
}

/* --------------------------------------------------- connection events */

static void set_nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		fail("fcntl: %s", strerror(errno));
}

/* Is there something to read within seconds? */
static bool readable(int fd, double seconds)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	double end = now() + seconds, left;
	int n;

	do {
		left = end - now();
		n = poll(&p, 1, left > 0 ? left * 1000 + 1 : 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		fail("poll: %s", strerror(errno));
	return n > 0;
}

struct rdma_event_channel *make_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		fail("rdma_create_event_channel: %s (is there an RDMA device?)",
		     strerror(errno));
	set_nonblocking(channel->fd);
	return channel;
}

struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
				 double seconds)
{
	double end = now() + seconds;
	struct rdma_cm_event *event;

	do {
		if (!rdma_get_cm_event(channel, &event))
			return event;
		if (errno != EAGAIN && errno != EINTR)
			fail("rdma_get_cm_event: %s", strerror(errno));
	} while (readable(channel->fd, end - now()));
	return NULL;
}

const char *describe_event(const struct rdma_cm_event *event)
{
	static char text[WHY_SIZE];
	const char *name = rdma_event_str(event->event);

	if (!strncmp(name, "RDMA_CM_EVENT_", 14))
		name += 14;
	snprintf(text, sizeof(text), "%s, status %d%s%s%s", name,
		 event->status, event->status < 0 ? " (" : "",
		 event->status < 0 ? strerror(-event->status) : "",
		 event->status < 0 ? ")" : "");
	return text;
}

bool is_failure(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		return true;
	default:
		return false;
	}
}

struct rdma_cm_event *expect_event(struct rdma_event_channel *channel,
				   enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event(channel, time_limit);

	if (!event)
		fail("no %s within %g s", rdma_event_str(type), time_limit);
	if (event->event != type)
		fail("expected %s, got %s", rdma_event_str(type),
		     describe_event(event));
	return event;
}

void expect_and_ack(struct rdma_event_channel *channel,
		    enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(expect_event(channel, type));
}

/* ----------------------------------------------------------- addresses */

static struct addrinfo *look_up(const char *host, const char *port)
{
	struct addrinfo hints = {
		.ai_family = host ? AF_UNSPEC : AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = host ? 0 : AI_PASSIVE,
	};
	struct addrinfo *result;
	int ret;

	ret = getaddrinfo(host, port, &hints, &result);
	if (ret)
		fail("%s port %s: %s", host ? host : "any address", port,
		     gai_strerror(ret));
	return result;
}

static void set_type_of_service(struct rdma_cm_id *id, uint8_t value)
{
	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value,
			    sizeof(value)))
		fail("type of service %#x: %s", value, strerror(errno));
}

static struct rdma_cm_id *make_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		fail("rdma_create_id: %s", strerror(errno));
	if (type_of_service >= 0)
		set_type_of_service(id, type_of_service);
	return id;
}

/* Did the step lead to the event hoped for? Else why says what came. */
static bool step(struct rdma_event_channel *channel,
		 enum rdma_cm_event_type hoped, char *why)
{
	struct rdma_cm_event *event = next_event(channel, time_limit);
	bool good;

	if (!event)
		fail("no %s within %g s", rdma_event_str(hoped), time_limit);
	good = event->event == hoped;
	if (!good && !is_failure(event))
		fail("expected %s, got %s", rdma_event_str(hoped),
		     describe_event(event));
	snprintf(why, WHY_SIZE, "%s", describe_event(event));
	rdma_ack_cm_event(event);
	return good;
}

struct rdma_cm_id *resolve(struct rdma_event_channel *channel,
			   const char *host, const char *port, char *why)
{
	struct rdma_cm_id *id = make_id(channel);
	struct addrinfo *to = look_up(host, port);
	bool good = false;

	if (rdma_resolve_addr(id, NULL, to->ai_addr, RESOLVE_MS))
		snprintf(why, WHY_SIZE, "rdma_resolve_addr: %s",
			 strerror(errno));
	else if (step(channel, RDMA_CM_EVENT_ADDR_RESOLVED, why)) {
		if (rdma_resolve_route(id, RESOLVE_MS))
			fail("rdma_resolve_route %s: %s", host,
			     strerror(errno));
		good = step(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, why);
	}
	freeaddrinfo(to);
	if (good)
		return id;
	rdma_destroy_id(id);
	return NULL;
}

struct rdma_cm_id *listen_at(struct rdma_event_channel *channel,
			     const char *host, const char *port)
{
	struct rdma_cm_id *id = make_id(channel);
	struct addrinfo *at = look_up(host, port);

	if (rdma_bind_addr(id, at->ai_addr))
		fail("rdma_bind_addr port %s: %s", port, strerror(errno));
	if (rdma_listen(id, listen_backlog))
		fail("rdma_listen port %s: %s", port, strerror(errno));
	freeaddrinfo(at);
	return id;
}

/* ---------------------------------------------------------- end points */

static uint32_t at_most(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct ibv_comp_channel *make_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);

	if (!channel)
		fail("ibv_create_comp_channel: %s", strerror(errno));
	set_nonblocking(channel->fd);
	return channel;
}

static struct ibv_cq *make_cq(struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * QP_DEPTH,
		.channel = channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
			    IBV_WC_EX_WITH_QP_NUM | extra_wc_flags,
		.comp_mask = extra_cq_flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
		.flags = extra_cq_flags,
	};
	struct ibv_cq_ex *cq_ex;
	struct ibv_cq *cq;

	if (use_extended) {
		cq_ex = ibv_create_cq_ex(channel->context, &attr);
		cq = cq_ex ? ibv_cq_ex_to_cq(cq_ex) : NULL;
	} else {
		cq = ibv_create_cq(channel->context, attr.cqe, NULL, channel,
				   0);
	}
	if (!cq)
		fail("creating a CQ: %s", strerror(errno));
	return cq;
}

void make_qp(struct endpoint *ep)
{
	struct ibv_context *context = ep->id->verbs;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ep->id->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_device_attr device;

	if (ibv_query_device(context, &device))
		fail("ibv_query_device: %s", strerror(errno));
	ep->send_channel = make_comp_channel(context);
	ep->recv_channel = make_comp_channel(context);
	ep->send_cq = make_cq(ep->send_channel);
	ep->recv_cq = make_cq(ep->recv_channel);

	init.send_cq = ep->send_cq;
	init.recv_cq = ep->recv_cq;
	init.srq = ep->srq;
	init.cap.max_send_wr = QP_DEPTH;
	init.cap.max_recv_wr = QP_DEPTH;
	init.cap.max_send_sge = at_most(MAX_SGE, device.max_sge);
	init.cap.max_recv_sge = init.cap.max_send_sge;
	init.cap.max_inline_data = MAX_INLINE;
	if (use_extended)
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (rdma_create_qp_ex(ep->id, &init))
		fail("rdma_create_qp_ex: %s", strerror(errno));

	ep->max_sge = at_most(init.cap.max_send_sge, MAX_SGE);
	ep->max_inline = init.cap.max_inline_data;
	ep->read_depth = at_most(MAX_READ_DEPTH,
				 at_most(device.max_qp_rd_atom,
					 device.max_qp_init_rd_atom));
}

struct rdma_conn_param connect_param(const struct endpoint *ep)
{
	return (struct rdma_conn_param) {
		.responder_resources = ep->read_depth,
		.initiator_depth = ep->read_depth,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

bool start_connect(struct rdma_cm_id *id, struct rdma_conn_param *param,
		   char *why)
{
	if (!rdma_connect(id, param))
		return true;
	if (errno != ECONNREFUSED && errno != EHOSTUNREACH &&
	    errno != ENETUNREACH && errno != ETIMEDOUT)
		fail("rdma_connect: %s", strerror(errno));
	snprintf(why, WHY_SIZE, "rdma_connect: %s", strerror(errno));
	return false;
}

static bool try_connect(struct endpoint *ep, const char *host,
			const char *port, struct rdma_conn_param *data,
			char *why)
{
	struct rdma_conn_param param;

	ep->id = resolve(ep->channel, host, port, why);
	if (!ep->id)
		return false;
	make_qp(ep);
	param = connect_param(ep);
	param.private_data = data->private_data;
	param.private_data_len = data->private_data_len;
	if (!start_connect(ep->id, &param, why))
		return false;
	return step(ep->channel, RDMA_CM_EVENT_ESTABLISHED, why);
}

void connect_to(struct endpoint *ep, const char *host, const char *port,
		const void *private_data, uint8_t size)
{
	struct rdma_conn_param data = {
		.private_data = private_data,
		.private_data_len = size,
	};
	double end = now() + time_limit;
	char why[WHY_SIZE];

	*ep = (struct endpoint) { .channel = make_channel() };
	while (!try_connect(ep, host, port, &data, why)) {
		if (now() > end)
			fail("no connection to %s port %s within %g s: %s",
			     host, port, time_limit, why);
		free_endpoint(ep);
		ep->channel = make_channel();
		poll(NULL, 0, RETRY_MS);
	}
}

void take_request(struct rdma_event_channel *listener, struct endpoint *ep,
		  void *private_data, uint8_t size)
{
	struct rdma_cm_event *request;

	request = expect_event(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
	*ep = (struct endpoint) {
		.channel = make_channel(),
		.id = request->id,
	};
	if (request->param.conn.private_data_len < size)
		fail("connect request with %u bytes of private data, not %u",
		     request->param.conn.private_data_len, size);
	if (size)
		memcpy(private_data, request->param.conn.private_data, size);
	rdma_ack_cm_event(request);
	if (rdma_migrate_id(ep->id, ep->channel))
		fail("rdma_migrate_id: %s", strerror(errno));
}

void accept_on(struct endpoint *ep)
{
	struct rdma_conn_param param = connect_param(ep);

	if (rdma_accept(ep->id, &param))
		fail("rdma_accept: %s", strerror(errno));
	expect_and_ack(ep->channel, RDMA_CM_EVENT_ESTABLISHED);
}

void disconnect(struct endpoint *ep)
{
	/* Fails when the peer was first, and then the event comes anyhow. */
	rdma_disconnect(ep->id);
	expect_and_ack(ep->channel, RDMA_CM_EVENT_DISCONNECTED);
	free_endpoint(ep);
}

void wait_disconnect(struct endpoint *ep)
{
	expect_and_ack(ep->channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(ep->id);	/* as every program does */
	free_endpoint(ep);
}

static void free_cq(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	if (ibv_destroy_cq(cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
	if (ibv_destroy_comp_channel(channel))
		fail("ibv_destroy_comp_channel: %s", strerror(errno));
}

void free_endpoint(struct endpoint *ep)
{
	if (ep->send_cq) {
		rdma_destroy_qp(ep->id);
		free_cq(ep->send_cq, ep->send_channel);
		free_cq(ep->recv_cq, ep->recv_channel);
	}
	if (ep->id && rdma_destroy_id(ep->id))
		fail("rdma_destroy_id: %s", strerror(errno));
	rdma_destroy_event_channel(ep->channel);
	*ep = (struct endpoint) { 0 };
}

/* --------------------------------------------------------- completions */

static void read_completion(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc) {
		.wr_id = cq->wr_id,
		.status = cq->status,
		.vendor_err = ibv_wc_read_vendor_err(cq),
		.opcode = ibv_wc_read_opcode(cq),
		.byte_len = ibv_wc_read_byte_len(cq),
		.qp_num = ibv_wc_read_qp_num(cq),
		.wc_flags = ibv_wc_read_wc_flags(cq),
	};
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
	else if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(cq);
}

int poll_cq_ex(struct ibv_cq_ex *cq, struct ibv_wc *wc, int max)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0, ret = ibv_start_poll(cq, &attr);

	if (ret == ENOENT)
		return 0;
	while (!ret) {
		read_completion(cq, &wc[n++]);
		ret = n < max ? ibv_next_poll(cq) : ENOENT;
	}
	ibv_end_poll(cq);
	if (ret != ENOENT)
		fail("ibv_next_poll: %s", strerror(ret));
	return n;
}

static int poll_cq(struct ibv_cq *cq, struct ibv_wc *wc, int max)
{
	int n = use_extended ? poll_cq_ex((struct ibv_cq_ex *)cq, wc, max) :
		ibv_poll_cq(cq, max, wc);

	if (n < 0)
		fail("ibv_poll_cq: %d", n);
	return n;
}

static void take_events(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	struct ibv_cq *which;
	void *context;

	while (!ibv_get_cq_event(channel, &which, &context)) {
		if (which != cq)
			fail("completion event of another CQ");
		ibv_ack_cq_events(cq, 1);
	}
	if (errno != EAGAIN)
		fail("ibv_get_cq_event: %s", strerror(errno));
}

int wait_completions(struct ibv_cq *cq, struct ibv_comp_channel *channel,
		     struct ibv_wc *wc, int max, double seconds)
{
	double end = now() + seconds;
	int n = poll_cq(cq, wc, max);

	while (!n) {
		if (ibv_req_notify_cq(cq, 0))
			fail("ibv_req_notify_cq: %s", strerror(errno));
		/* What came before the request raises no event. */
		n = poll_cq(cq, wc, max);
		if (n || !readable(channel->fd, end - now()))
			break;
		take_events(cq, channel);
		n = poll_cq(cq, wc, max);
	}
	return n;
}

unsigned int take_cq_events(struct ibv_comp_channel *channel,
			    unsigned int count)
{
	unsigned int got = 0;
	struct ibv_cq *cq;
	void *context;

	/* One more than there may be would come at once. */
	while (readable(channel->fd, got < count ? time_limit : 0.2)) {
		if (ibv_get_cq_event(channel, &cq, &context))
			fail("ibv_get_cq_event: %s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
		got++;
	}
	return got;
}

void expect_cq_events(struct ibv_comp_channel *channel, unsigned int count,
		      const char *what)
{
	unsigned int got = take_cq_events(channel, count);

	if (got != count)
		fail("%s: %u events of CQs, not %u", what, got, count);
}

void check_completion(const struct ibv_wc *wc, const char *what)
{
	if (wc->status != IBV_WC_SUCCESS)
		fail("%s: wr_id %#llx completed with %s (%d), vendor error %u",
		     what, (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status), wc->status,
		     wc->vendor_err);
}

void expect_completion(struct ibv_cq *cq, struct ibv_comp_channel *channel,
		       struct ibv_wc *wc, const char *what)
{
	if (!wait_completions(cq, channel, wc, 1, time_limit))
		fail("%s: no completion within %g s", what, time_limit);
	check_completion(wc, what);
}

/* ------------------------------------------------------ work requests */

static void set_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[MAX_SGE];
	int i;

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge && i < MAX_SGE; i++) {
		bufs[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		bufs[i].length = wr->sg_list[i].length;
	}
	ibv_wr_set_inline_data_list(qp, i, bufs);
}

static int post_extended(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	ibv_wr_start(qp);
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		break;
	default:
		ibv_wr_send(qp);
	}
	set_data(qp, wr);
	return ibv_wr_complete(qp);
}

int post_work_request(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (use_extended)
		return post_extended(ibv_qp_to_qp_ex(qp), wr);
	return ibv_post_send(qp, wr, &bad);
}

struct ibv_mr *register_memory(struct rdma_cm_id *id, void *addr,
			       size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(id->pd, addr, length, access);

	if (!mr)
		fail("ibv_reg_mr of %zu bytes: %s", length, strerror(errno));
	return mr;
}

void post_receive(struct endpoint *ep, struct ibv_mr *mr, void *addr,
		  uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)addr, length, mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ibv_post_recv(ep->id->qp, &wr, &bad);

	if (ret)
		fail("ibv_post_recv: %s", strerror(ret));
}

void post_message(struct endpoint *ep, struct ibv_mr *mr, void *addr,
		  uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)addr, length, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int ret = post_work_request(ep->id->qp, &wr);

	if (ret)
		fail("posting a Send: %s", strerror(ret));
}
