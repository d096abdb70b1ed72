// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the last admin commands, for those who look into a failure. Callers hold
 * the lock of the admin queue.
 */

#include "rnic.h"
#include "rnic_admin_log.h"
#include "rnic_verbs.h"

#define RNIC_OPCODE_NAME(name)	[RNIC_ADMIN_ ## name] = #name

static const char * const rnic_admin_opcodes[] = {
	RNIC_OPCODE_NAME(NOP),
	RNIC_OPCODE_NAME(QUERY_DEVICE),
	RNIC_OPCODE_NAME(QUERY_COUNTERS),
	RNIC_OPCODE_NAME(CREATE_EQ),
	RNIC_OPCODE_NAME(DESTROY_EQ),
	RNIC_OPCODE_NAME(ALLOC_PD),
	RNIC_OPCODE_NAME(DEALLOC_PD),
	RNIC_OPCODE_NAME(CREATE_CQ),
	RNIC_OPCODE_NAME(QUERY_CQ),
	RNIC_OPCODE_NAME(MODIFY_CQ),
	RNIC_OPCODE_NAME(DESTROY_CQ),
	RNIC_OPCODE_NAME(CREATE_SRQ),
	RNIC_OPCODE_NAME(QUERY_SRQ),
	RNIC_OPCODE_NAME(MODIFY_SRQ),
	RNIC_OPCODE_NAME(DESTROY_SRQ),
	RNIC_OPCODE_NAME(CREATE_QP),
	RNIC_OPCODE_NAME(QUERY_QP),
	RNIC_OPCODE_NAME(MODIFY_QP),
	RNIC_OPCODE_NAME(DESTROY_QP),
	RNIC_OPCODE_NAME(ALLOC_STAG),
	RNIC_OPCODE_NAME(REGISTER_MR),
	RNIC_OPCODE_NAME(REREGISTER_MR),
	RNIC_OPCODE_NAME(REGISTER_SHARED_MR),
	RNIC_OPCODE_NAME(QUERY_MR),
	RNIC_OPCODE_NAME(DEALLOC_STAG),
	RNIC_OPCODE_NAME(ALLOC_MW),
	RNIC_OPCODE_NAME(QUERY_MW),
	RNIC_OPCODE_NAME(CM_LISTEN),
	RNIC_OPCODE_NAME(CM_UNLISTEN),
	RNIC_OPCODE_NAME(CM_CONNECT),
	RNIC_OPCODE_NAME(CM_ACCEPT),
	RNIC_OPCODE_NAME(CM_REJECT),
	RNIC_OPCODE_NAME(CM_DIRECT_CONNECT),
	RNIC_OPCODE_NAME(CM_DIRECT_SEND),
	RNIC_OPCODE_NAME(LLP_OPEN),
	RNIC_OPCODE_NAME(LLP_SEND),
	RNIC_OPCODE_NAME(LLP_RECEIVE),
	RNIC_OPCODE_NAME(LLP_CLOSE),
	RNIC_OPCODE_NAME(CREATE_ETH_QUEUE),
	RNIC_OPCODE_NAME(DESTROY_ETH_QUEUE),
	RNIC_OPCODE_NAME(SET_RX_MODE),
};

const char *rnic_admin_opcode_name(u16 opcode)
{
	if (opcode < ARRAY_SIZE(rnic_admin_opcodes) &&
	    rnic_admin_opcodes[opcode])
		return rnic_admin_opcodes[opcode];
	return "unknown";
}

static bool rnic_admin_is_of_stag(u16 opcode)
{
	switch (opcode) {
	case RNIC_ADMIN_ALLOC_STAG:
	case RNIC_ADMIN_REGISTER_MR:
	case RNIC_ADMIN_REREGISTER_MR:
	case RNIC_ADMIN_REGISTER_SHARED_MR:
	case RNIC_ADMIN_QUERY_MR:
	case RNIC_ADMIN_DEALLOC_STAG:
	case RNIC_ADMIN_ALLOC_MW:
	case RNIC_ADMIN_QUERY_MW:
		return true;
	default:
		return false;
	}
}

static u32 rnic_admin_object_number(u16 opcode, u32 number)
{
	return rnic_admin_is_of_stag(opcode) ? rnic_stag_index(number) : number;
}

/* What the command is about; 0: its answer tells, or nothing of all objects. */
static u32 rnic_admin_subject(u16 opcode, const struct rnic_admin_sqe *sqe)
{
	switch (opcode) {
	case RNIC_ADMIN_DESTROY_EQ:
	case RNIC_ADMIN_DEALLOC_PD:
	case RNIC_ADMIN_QUERY_CQ:
	case RNIC_ADMIN_DESTROY_CQ:
	case RNIC_ADMIN_QUERY_SRQ:
	case RNIC_ADMIN_DESTROY_SRQ:
	case RNIC_ADMIN_QUERY_QP:
	case RNIC_ADMIN_DESTROY_QP:
	case RNIC_ADMIN_QUERY_MR:
	case RNIC_ADMIN_DEALLOC_STAG:
	case RNIC_ADMIN_QUERY_MW:
	case RNIC_ADMIN_CM_UNLISTEN:
		return le32_to_cpu(sqe->object.number);
	case RNIC_ADMIN_MODIFY_CQ:
		return le32_to_cpu(sqe->modify_cq.cqn);
	case RNIC_ADMIN_MODIFY_SRQ:
		return le32_to_cpu(sqe->create_srq.srqn);
	case RNIC_ADMIN_MODIFY_QP:
		return le32_to_cpu(sqe->modify_qp.qpn);
	case RNIC_ADMIN_REREGISTER_MR:
		return le32_to_cpu(sqe->register_mr.stag);
	case RNIC_ADMIN_CM_CONNECT:
		return le32_to_cpu(sqe->connect.qpn);
	case RNIC_ADMIN_CM_ACCEPT:
	case RNIC_ADMIN_CM_REJECT:
		return le32_to_cpu(sqe->accept.endpoint);
	case RNIC_ADMIN_CM_DIRECT_CONNECT:
		return le32_to_cpu(sqe->direct_connect.qpn);
	case RNIC_ADMIN_CM_DIRECT_SEND:
		return le32_to_cpu(sqe->direct_send.qpn);
	default:
		return 0;
	}
}

void rnic_admin_note_begin(struct rnic_admin_note *note,
			   const struct rnic_admin_sqe *sqe)
{
	u16 opcode = le16_to_cpu(sqe->opcode);
	u32 subject = rnic_admin_subject(opcode, sqe);

	*note = (struct rnic_admin_note) {
		.begun = ktime_get(),
		.number = rnic_admin_object_number(opcode, subject),
		.opcode = opcode,
	};
}

void rnic_admin_note_end(struct rnic_admin_note *note,
			 const struct rnic_admin_cqe *cqe,
			 struct rnic_admin_log *log)
{
	note->answered = ktime_get();
	note->status = le16_to_cpu(cqe->status);
	if (!note->number && note->status == RNIC_ST_OK)
		note->number =
			rnic_admin_object_number(note->opcode,
						 le32_to_cpu(cqe->number));
	log->answered[log->count % RNIC_ADMIN_LOG_LENGTH] = *note;
	log->count++;
}
