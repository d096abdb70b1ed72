/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest test programs share: failing with a clear line, waiting
 * never longer than a limit, and the life of a connection over rdma_cm.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#define DEFAULT_PORT	"7471"
#define QP_DEPTH	64
#define WHY_SIZE	200	/* of texts that say why something failed */

extern const char *program;	/* for messages */
extern int type_of_service;	/* of any id's IP packets; -1: the kernel's */
extern double time_limit;	/* seconds of one wait; RNIC_PATIENCE stretches it */
extern uint64_t extra_wc_flags;	/* of CQs, and ... */
extern uint32_t extra_cq_flags;	/* ... with use_extended */
extern bool use_extended;	/* ibv_wr_*() and ibv_start_poll() and so on */

/* Exit statuses: 0 good, FAILED, USAGE. */
#define FAILED	1
#define USAGE	2

__attribute__((noreturn, format(printf, 1, 2)))
void fail(const char *format, ...);
__attribute__((noreturn))
void fail_usage(void);		/* after getopt_long() said what is wrong */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now(void);
uint64_t parse_number(const char *text, const char *what, uint64_t max);
uint64_t parse_size(const char *text, const char *what);	/* 64M, 4k, 17 */
void *allocate(size_t size);	/* page aligned, zero */
uint64_t pinned_kb(void);	/* memory of this process that is pinned */

/* --------------------------------------------------- connection events */

struct rdma_event_channel *make_channel(void);

/* The next event, or NULL when seconds have passed; to be acknowledged. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
				 double seconds);

/* The next event, which must be of this type; to be acknowledged. */
struct rdma_cm_event *expect_event(struct rdma_event_channel *channel,
				   enum rdma_cm_event_type type);
void expect_and_ack(struct rdma_event_channel *channel,
		    enum rdma_cm_event_type type);

/* "REJECTED, status -111 (Connection refused)" */
const char *describe_event(const struct rdma_cm_event *event);
bool is_failure(const struct rdma_cm_event *event);	/* to connect */

/*
 * rdma_connect(); false, with why, for what some drivers say at once and
 * others by an event.
 */
bool start_connect(struct rdma_cm_id *id, struct rdma_conn_param *param,
		   char *why);

/* ---------------------------------------------------------- end points */

/* One end of a connection, with a CQ and a channel for each direction. */
struct endpoint {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *send_channel;
	struct ibv_comp_channel *recv_channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;	/* for make_qp(); NULL: an RQ of its own */
	uint32_t max_sge;
	uint32_t max_inline;
	uint8_t read_depth;	/* both IRD and ORD */
};

/*
 * A new id that knows the way to host:port, or NULL and in why (WHY_SIZE)
 * the event that said otherwise.
 */
struct rdma_cm_id *resolve(struct rdma_event_channel *channel,
			   const char *host, const char *port, char *why);

/* An id that listens at host:port; host may be NULL for any address. */
extern int listen_backlog;	/* connect requests that may wait */
struct rdma_cm_id *listen_at(struct rdma_event_channel *channel,
			     const char *host, const char *port);

/*
 * The end point of the next connect request, with an event channel its own.
 * At least size bytes must come as private data, and are stored.
 */
void take_request(struct rdma_event_channel *listener, struct endpoint *ep,
		  void *private_data, uint8_t size);

/* CQs and a QP on ep->id, which must have a device by now. */
void make_qp(struct endpoint *ep);

struct rdma_conn_param connect_param(const struct endpoint *ep);

/* resolve(), make_qp() and connect; tried again until time_limit. */
void connect_to(struct endpoint *ep, const char *host, const char *port,
		const void *private_data, uint8_t size);
void accept_on(struct endpoint *ep);

/*
 * Disconnects, or waits until the peer did, and frees everything. Both want
 * the DISCONNECTED event.
 */
void disconnect(struct endpoint *ep);
void wait_disconnect(struct endpoint *ep);
void free_endpoint(struct endpoint *ep);

/* --------------------------------------------------------- completions */

/* As ibv_poll_cq(), by ibv_start_poll() and so on. */
int poll_cq_ex(struct ibv_cq_ex *cq, struct ibv_wc *wc, int max);

/*
 * Waits, by completion events, for at least one completion; returns how many
 * of at most max were stored in wc, 0 when seconds have passed.
 */
int wait_completions(struct ibv_cq *cq, struct ibv_comp_channel *channel,
		     struct ibv_wc *wc, int max, double seconds);

/*
 * Takes events of CQs from channel: count of them, and what else comes within some
 * time. Returns how many there were.
 */
unsigned int take_cq_events(struct ibv_comp_channel *channel,
			    unsigned int count);
/* So many come, and no more. */
void expect_cq_events(struct ibv_comp_channel *channel, unsigned int count,
		      const char *what);

/* One completion, which must be good. */
void expect_completion(struct ibv_cq *cq, struct ibv_comp_channel *channel,
		       struct ibv_wc *wc, const char *what);
void check_completion(const struct ibv_wc *wc, const char *what);

/* ibv_post_send() or the same by ibv_wr_*(): Send, Write and Read. */
int post_work_request(struct ibv_qp *qp, struct ibv_send_wr *wr);
struct ibv_mr *register_memory(struct rdma_cm_id *id, void *addr,
			       size_t length, int access);
void post_receive(struct endpoint *ep, struct ibv_mr *mr, void *addr,
		  uint32_t length, uint64_t wr_id);
void post_message(struct endpoint *ep, struct ibv_mr *mr, void *addr,
		  uint32_t length, uint64_t wr_id);

#endif
