// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the last admin commands, for those who look into a failure. Callers hold
 * the lock of the admin queue.
 */

#include "rnic.h"
#include "rnic_admin_log.h"
#include "rnic_verbs.h"

static const char * const rnic_admin_opcodes[] = {
	[RNIC_ADMIN_NOP] = "NOP",
	[RNIC_ADMIN_QUERY_DEVICE] = "QUERY_DEVICE",
	[RNIC_ADMIN_QUERY_COUNTERS] = "QUERY_COUNTERS",
	[RNIC_ADMIN_CREATE_EQ] = "CREATE_EQ",
	[RNIC_ADMIN_DESTROY_EQ] = "DESTROY_EQ",
	[RNIC_ADMIN_ALLOC_PD] = "ALLOC_PD",
	[RNIC_ADMIN_DEALLOC_PD] = "DEALLOC_PD",
	[RNIC_ADMIN_CREATE_CQ] = "CREATE_CQ",
	[RNIC_ADMIN_QUERY_CQ] = "QUERY_CQ",
	[RNIC_ADMIN_MODIFY_CQ] = "MODIFY_CQ",
	[RNIC_ADMIN_DESTROY_CQ] = "DESTROY_CQ",
	[RNIC_ADMIN_CREATE_SRQ] = "CREATE_SRQ",
	[RNIC_ADMIN_QUERY_SRQ] = "QUERY_SRQ",
	[RNIC_ADMIN_MODIFY_SRQ] = "MODIFY_SRQ",
	[RNIC_ADMIN_DESTROY_SRQ] = "DESTROY_SRQ",
	[RNIC_ADMIN_CREATE_QP] = "CREATE_QP",
	[RNIC_ADMIN_QUERY_QP] = "QUERY_QP",
	[RNIC_ADMIN_MODIFY_QP] = "MODIFY_QP",
	[RNIC_ADMIN_DESTROY_QP] = "DESTROY_QP",
	[RNIC_ADMIN_ALLOC_STAG] = "ALLOC_STAG",
	[RNIC_ADMIN_REGISTER_MR] = "REGISTER_MR",
	[RNIC_ADMIN_REREGISTER_MR] = "REREGISTER_MR",
	[RNIC_ADMIN_REGISTER_SHARED_MR] = "REGISTER_SHARED_MR",
	[RNIC_ADMIN_QUERY_MR] = "QUERY_MR",
	[RNIC_ADMIN_DEALLOC_STAG] = "DEALLOC_STAG",
	[RNIC_ADMIN_ALLOC_MW] = "ALLOC_MW",
	[RNIC_ADMIN_QUERY_MW] = "QUERY_MW",
	[RNIC_ADMIN_CM_LISTEN] = "CM_LISTEN",
	[RNIC_ADMIN_CM_UNLISTEN] = "CM_UNLISTEN",
	[RNIC_ADMIN_CM_CONNECT] = "CM_CONNECT",
	[RNIC_ADMIN_CM_ACCEPT] = "CM_ACCEPT",
	[RNIC_ADMIN_CM_REJECT] = "CM_REJECT",
	[RNIC_ADMIN_CM_DIRECT_CONNECT] = "CM_DIRECT_CONNECT",
	[RNIC_ADMIN_CM_DIRECT_SEND] = "CM_DIRECT_SEND",
	[RNIC_ADMIN_LLP_OPEN] = "LLP_OPEN",
	[RNIC_ADMIN_LLP_SEND] = "LLP_SEND",
	[RNIC_ADMIN_LLP_RECEIVE] = "LLP_RECEIVE",
	[RNIC_ADMIN_LLP_CLOSE] = "LLP_CLOSE",
	[RNIC_ADMIN_CREATE_ETH_QUEUE] = "CREATE_ETH_QUEUE",
	[RNIC_ADMIN_DESTROY_ETH_QUEUE] = "DESTROY_ETH_QUEUE",
	[RNIC_ADMIN_SET_RX_MODE] = "SET_RX_MODE",
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
