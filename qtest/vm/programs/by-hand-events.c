// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-events: what a program is told of asynchronous events: of each that the
 * adapter can have of a QP, once and of that QP; of a CQ that has no room.
 *
 * The host has the adapter forge the first events: a Write that is refused is told by
 * number 0, the next one by 1, and so on.
 */

#include <errno.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"
#include "rnic-hw.h"

#define DEPTH		4
#define SIZE		64
#define NUMBERS		72	/* forged, as the host has it */
#define NO_EVENT	((enum ibv_event_type)-1)

static const char help[] =
"usage: by-hand-events [options] ADAPTER\n"
"Has events of QPs and CQs. The adapter has to forge those of a wrong STag.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

static struct by_hand adapter;
static struct ibv_mr *mr;
static uint8_t *memory;

/* ---------------------------------------------------------------- events */

static void expect_event_of(const void *object, enum ibv_event_type type)
{
	struct ibv_async_event event;

	if (!by_hand_next_event(&adapter, time_limit, &event))
		fail("no %s", ibv_event_type_str(type));
	if (event.event_type != type || by_hand_event_object(&event) != object)
		fail("%s instead of %s, or of another object",
		     ibv_event_type_str(event.event_type),
		     ibv_event_type_str(type));
}

/* --------------------------------------------------------------- each of a QP */

static enum ibv_event_type name_of(unsigned int number)
{
	switch (number) {
	case RNIC_AE_TERMINATE_RECEIVED:
	case RNIC_AE_LLP_RESET:
	case RNIC_AE_LLP_LOST:
	case RNIC_AE_LLP_SEGMENT_SIZE:
	case RNIC_AE_LLP_CRC:
	case RNIC_AE_LLP_BAD_FPDU:
	case RNIC_AE_BAD_CLOSE:
	case RNIC_AE_BAD_LLP_CLOSE:
	case RNIC_AE_CQ_SQ_ERROR:
	case RNIC_AE_CQ_RQ_ERROR:
	case RNIC_AE_SRQ_QP_ERROR:
	case RNIC_AE_QP_CATASTROPHIC:
		return IBV_EVENT_QP_FATAL;
	case RNIC_AE_DDP_VERSION:
	case RNIC_AE_RDMAP_VERSION:
	case RNIC_AE_UNEXPECTED_OPCODE:
	case RNIC_AE_INVALID_QUEUE_NUMBER:
	case RNIC_AE_BAD_READ_REQUEST:
	case RNIC_AE_NO_LAST_BIT:
	case RNIC_AE_RQ_MSN_RANGE:
	case RNIC_AE_RQ_MSN_GAP:
	case RNIC_AE_IRRQ_TOO_MANY:
	case RNIC_AE_IRRQ_MSN_GAP:
	case RNIC_AE_IRRQ_MSN_RANGE:
	case RNIC_AE_ATOMIC_ALIGNMENT:
		return IBV_EVENT_QP_REQ_ERR;
	case RNIC_AE_READ_NOT_ENABLED:
	case RNIC_AE_WRITE_NOT_ENABLED:
	case RNIC_AE_TAGGED_INVALID_STAG:
	case RNIC_AE_TAGGED_BASE_BOUNDS:
	case RNIC_AE_TAGGED_ACCESS:
	case RNIC_AE_TAGGED_INVALID_PD:
	case RNIC_AE_TAGGED_WRAP:
	case RNIC_AE_IRRQ_INVALID_STAG:
	case RNIC_AE_IRRQ_BASE_BOUNDS:
	case RNIC_AE_IRRQ_ACCESS:
	case RNIC_AE_IRRQ_INVALID_PD:
	case RNIC_AE_IRRQ_WRAP:
	case RNIC_AE_ATOMIC_NOT_ENABLED:
		return IBV_EVENT_QP_ACCESS_ERR;
	case RNIC_AE_QP_LAST_WQE:
		return IBV_EVENT_QP_LAST_WQE_REACHED;
	default:
		/* A close without error, what is of no QP, and no event at all. */
		return NO_EVENT;
	}
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = {
			.remote_addr = (uintptr_t)memory, .rkey = rkey,
		},
	};

	if (ibv_post_send(qp, &wr, &bad))
		fail("ibv_post_send");
}

static void try_number(unsigned int number)
{
	enum ibv_event_type type = name_of(number);
	struct by_hand_pair pair;
	struct ibv_wc wc;

	by_hand_connect(&adapter, &pair, adapter.pd, IBV_ACCESS_REMOTE_WRITE,
			DEPTH);
	post(pair.qps[0], IBV_WR_RDMA_WRITE, mr->rkey ^ 1);
	wc = by_hand_wait(pair.cqs[0], "a Write by a wrong key");
	if (wc.status != IBV_WC_REM_ACCESS_ERR)
		fail("a Write by a wrong key: %s",
		     ibv_wc_status_str(wc.status));
	say("event %u", number);
	if (type != NO_EVENT)
		expect_event_of(pair.qps[1], type);
	by_hand_expect_no_event(&adapter, NULL);
	by_hand_free(&pair);
}

/* --------------------------------------------------------------------- a CQ */

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, SIZE, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(qp, &wr, &bad))
		fail("ibv_post_recv");
}

/* One completion more than there is room for: of the CQ, and of its QP. */
static void try_full_cq(void)
{
	struct by_hand_pair pair;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		pair.cqs[i] = ibv_create_cq(adapter.context, i ? 1 : 4 * DEPTH,
					    NULL, NULL, 0);
		if (!pair.cqs[i])
			fail("ibv_create_cq: %s", strerror(errno));
		pair.qps[i] = by_hand_qp(&adapter, pair.cqs[i], DEPTH);
	}
	if (pair.cqs[1]->cqe >= DEPTH)
		fail("a CQ of 1 has %d", pair.cqs[1]->cqe);
	by_hand_join(&adapter, &pair, 0);
	for (i = 0; i < DEPTH; i++)
		post_recv(pair.qps[1]);
	for (i = 0; i <= (unsigned int)pair.cqs[1]->cqe; i++)
		post(pair.qps[0], IBV_WR_SEND, 0);
	by_hand_expect_overflow(&adapter, pair.cqs[1], pair.qps[1]);
	by_hand_expect_no_event(&adapter, NULL);
	by_hand_free(&pair);
	say("a CQ without room: ok");
}

static void run(const char *name)
{
	unsigned int number;

	by_hand_open(&adapter, name);
	memory = allocate(SIZE);
	mr = ibv_reg_mr(adapter.pd, memory, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	for (number = 0; number < NUMBERS; number++)
		try_number(number);
	try_full_cq();
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	by_hand_close(&adapter);
	say("events: ok");
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "by-hand-events", help, run);
}
