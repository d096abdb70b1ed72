/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QPs that a program connects by hand, to others of the same adapter.
 */
#ifndef BY_HAND_H
#define BY_HAND_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/* An open adapter and what its port is called by peers. */
struct by_hand {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;	/* of an IPv4 address */
	int gid_index;
	uint8_t reads;		/* outstanding per QP; 0: 1 */
	uint32_t max_sge;	/* of a WR; 0: 1 */
};

/* QPs of one adapter that are connected to each other: qps[0] asks. */
struct by_hand_pair {
	struct ibv_cq *cqs[2];	/* of each one's queues */
	struct ibv_qp *qps[2];
};

/* All of these end the program, with a clear line, when something fails. */
void by_hand_open(struct by_hand *h, const char *adapter);
void by_hand_close(struct by_hand *h);	/* nothing else uses its PD */

/* A queue of each kind of depth WRs; all of the SQ's are signaled. */
struct ibv_qp *by_hand_qp(struct by_hand *h, struct ibv_cq *cq,
			  unsigned int depth);
/* The same on another PD of the adapter. */
struct ibv_qp *by_hand_qp_of(struct by_hand *h, struct ibv_pd *pd,
			     struct ibv_cq *cq, unsigned int depth);

/* RESET to INIT, with the rights of the peer; to RTR; to RTS. */
void by_hand_init(struct ibv_qp *qp, int access);
void by_hand_rtr(struct by_hand *h, struct ibv_qp *qp, uint32_t peer_qpn,
		 uint32_t rq_psn);
void by_hand_rts(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn);
void by_hand_rts_with(struct by_hand *h, struct ibv_qp *qp, uint32_t sq_psn,
		      uint8_t rnr_retry);

/* Two new QPs, the second one on pd, moved to RTS; the peer's rights are access. */
void by_hand_connect(struct by_hand *h, struct by_hand_pair *pair,
		     struct ibv_pd *pd, int access, unsigned int depth);
void by_hand_free(struct by_hand_pair *pair);

/* The same, of QPs that are there: from RESET to RTS. */
void by_hand_join(struct by_hand *h, struct by_hand_pair *pair, int access);

/* The QP or CQ that an event is of; NULL: of neither. */
const void *by_hand_event_object(const struct ibv_async_event *event);
/* The next event of a QP or CQ within seconds; false: none. */
bool by_hand_next_event(struct by_hand *h, double seconds,
			struct ibv_async_event *event);
/* Waits for this event of qp; others before it are of no interest. */
void by_hand_expect_event(struct by_hand *h, const struct ibv_qp *qp,
			  enum ibv_event_type type);
/*
 * A completion that cq has no room for: an event of cq, and one of qp, in any order. No
 * other event of these comes before, nor one of another CQ; other QPs are of no interest.
 */
void by_hand_expect_overflow(struct by_hand *h, const struct ibv_cq *cq,
			     const struct ibv_qp *qp);
/* No event of qp, or with NULL of any QP or CQ, comes within some time. */
void by_hand_expect_no_event(struct by_hand *h, const struct ibv_qp *qp);
enum ibv_qp_state by_hand_state(struct ibv_qp *qp);
void by_hand_await_error(struct ibv_qp *qp);

/* The next completion; none within time_limit is a failure of what. */
struct ibv_wc by_hand_wait(struct ibv_cq *cq, const char *what);

/* main() of a program whose arguments are [-t SECONDS] ADAPTER. */
int by_hand_main(int argc, char **argv, const char *name, const char *help,
		 void (*run)(const char *adapter));

#endif
