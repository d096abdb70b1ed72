// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * QPs that a program connects by hand: the adapter, and the moves.
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define PORT	1	/* of the adapter */

static void find_gid(struct by_hand *h)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (h->gid_index = 0;
	     !ibv_query_gid(h->context, PORT, h->gid_index, &h->gid);
	     h->gid_index++)
		if (!memcmp(h->gid.raw, mapped, sizeof(mapped)))
			return;
	fail("the adapter has no IPv4 address");
}

void by_hand_open(struct by_hand *h, const char *adapter)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int i;

	h->context = NULL;
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), adapter))
			h->context = ibv_open_device(list[i]);
	if (!h->context)
		fail("there is no adapter %s that can be opened", adapter);
	ibv_free_device_list(list);
	h->pd = ibv_alloc_pd(h->context);
	if (!h->pd)
		fail("ibv_alloc_pd: %s", strerror(errno));
	find_gid(h);
}

void by_hand_close(struct by_hand *h)
{
	if (ibv_dealloc_pd(h->pd) || ibv_close_device(h->context))
		fail("closing the adapter: %s", strerror(errno));
}

struct ibv_qp *by_hand_qp(struct by_hand *h, struct ibv_cq *cq,
			  unsigned int depth)
{
	return by_hand_qp_of(h, h->pd, cq, depth);
}

struct ibv_qp *by_hand_qp_of(struct by_hand *h, struct ibv_pd *pd,
			     struct ibv_cq *cq, unsigned int depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = h->max_sge ? h->max_sge : 1,
			.max_recv_sge = h->max_sge ? h->max_sge : 1,
		},
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void move(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int ret = ibv_modify_qp(qp, attr, IBV_QP_STATE | mask);

	if (ret)
		fail("QP %u to state %d: %s", qp->qp_num, attr->qp_state,
		     strerror(ret));
}

void by_hand_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = access,
	};

	move(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void by_hand_rtr(struct by_hand *h, struct ibv_qp *qp, uint32_t peer_qpn,
		 uint32_t rq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {
				.dgid = h->gid,
				.sgid_index = h->gid_index,
				.hop_limit = 1,
			},
		},
		.dest_qp_num = peer_qpn,
		.rq_psn = rq_psn,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = h->reads ? h->reads : 1,
	};

	move(qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void by_hand_rts(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn)
{
	by_hand_rts_with(h, qp, sq_psn, 7);
}

void by_hand_rts_with(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn,
		      uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.max_rd_atomic = h->reads ? h->reads : 1,
		.timeout = 20,
		.retry_cnt = 7,
		.rnr_retry = rnr_retry,
	};

	move(qp, &attr, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void by_hand_join(struct by_hand *h, struct by_hand_pair *pair, int access)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		by_hand_init(pair->qps[i], access);
	for (i = 0; i < 2; i++)
		by_hand_rtr(h, pair->qps[i], pair->qps[!i]->qp_num, 0);
	for (i = 0; i < 2; i++)
		by_hand_rts(h, pair->qps[i], 0);
}

void by_hand_connect(struct by_hand *h, struct by_hand_pair *pair,
		     struct ibv_pd *pd, int access, unsigned int depth)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		pair->cqs[i] = ibv_create_cq(h->context, 2 * depth, NULL, NULL,
					     0);
		if (!pair->cqs[i])
			fail("ibv_create_cq: %s", strerror(errno));
		pair->qps[i] = by_hand_qp_of(h, i ? pd : h->pd, pair->cqs[i],
					     depth);
	}
	by_hand_join(h, pair, access);
}

void by_hand_free(struct by_hand_pair *pair)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (ibv_destroy_qp(pair->qps[i]) ||
		    ibv_destroy_cq(pair->cqs[i]))
			fail("QP or CQ %u: %s", i, strerror(errno));
}

const void *by_hand_event_object(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
		return event->element.qp;
	case IBV_EVENT_CQ_ERR:
		return event->element.cq;
	default:
		return NULL;
	}
}

bool by_hand_next_event(struct by_hand *h, double seconds,
			struct ibv_async_event *event)
{
	struct pollfd fd = { .fd = h->context->async_fd, .events = POLLIN };
	double end = now() + seconds, left;

	while ((left = end - now()) > 0 && poll(&fd, 1, left * 1000 + 1) > 0) {
		if (ibv_get_async_event(h->context, event))
			fail("ibv_get_async_event: %s", strerror(errno));
		ibv_ack_async_event(event);
		if (by_hand_event_object(event))
			return true;
	}
	return false;
}

void by_hand_expect_event(struct by_hand *h, const struct ibv_qp *qp,
			  enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		if (!by_hand_next_event(h, time_limit, &event))
			fail("no %s of QP %u", ibv_event_type_str(type),
			     qp->qp_num);
	} while (by_hand_event_object(&event) != qp);
	if (event.event_type != type)
		fail("%s of QP %u instead of %s",
		     ibv_event_type_str(event.event_type), qp->qp_num,
		     ibv_event_type_str(type));
}

void by_hand_expect_overflow(struct by_hand *h, const struct ibv_cq *cq,
			     const struct ibv_qp *qp)
{
	bool cq_told = false, qp_told = false;
	struct ibv_async_event event;

	while (!cq_told || !qp_told) {
		if (!by_hand_next_event(h, time_limit, &event))
			fail("a full CQ: no event of the %s",
			     cq_told ? "QP" : "CQ");
		if (event.event_type == IBV_EVENT_CQ_ERR && !cq_told &&
		    event.element.cq == cq)
			cq_told = true;
		else if (event.event_type == IBV_EVENT_QP_FATAL && !qp_told &&
			 event.element.qp == qp)
			qp_told = true;
		else if (event.event_type == IBV_EVENT_CQ_ERR ||
			 by_hand_event_object(&event) == qp)
			fail("a full CQ: %s once more, or of another CQ",
			     ibv_event_type_str(event.event_type));
	}
}

void by_hand_expect_no_event(struct by_hand *h, const struct ibv_qp *qp)
{
	struct ibv_async_event event;

	while (by_hand_next_event(h, 0.2, &event))
		if (!qp || by_hand_event_object(&event) == qp)
			fail("an event more: %s",
			     ibv_event_type_str(event.event_type));
}

enum ibv_qp_state by_hand_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	return attr.qp_state;
}

void by_hand_await_error(struct ibv_qp *qp)
{
	double end = now() + time_limit;

	while (by_hand_state(qp) != IBV_QPS_ERR)
		if (now() > end)
			fail("QP %u does not come to ERR", qp->qp_num);
}

struct ibv_wc by_hand_wait(struct ibv_cq *cq, const char *what)
{
	double deadline = now() + time_limit;
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n < 0 || now() > deadline)
			fail("no completion: %s", what);
	} while (!n);
	return wc;
}

int by_hand_main(int argc, char **argv, const char *name, const char *help,
		 void (*run)(const char *adapter))
{
	static const struct option options[] = {
		{ "time-limit", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option;

	program = name;
	while ((option = getopt_long(argc, argv, "t:h", options, NULL)) != -1)
		switch (option) {
		case 't':
			time_limit = parse_number(optarg, "--time-limit", 86400);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fail_usage();
		}
	if (optind != argc - 1)
		fail_usage();
	run(argv[optind]);
	return 0;
}
