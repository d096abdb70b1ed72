/*
 * rnic: the messages of a WR that have begun, and which of them a header is of
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qp-internal.h"

RnicSentMessage rnic_sent_message(const IwarpTx *tx, const IwarpTxMessage *msg)
{
    const IwarpOpInfo *op = iwarp_op_info(msg->opcode);

    return (RnicSentMessage) {
        .opcode = msg->opcode,
        .msn = op->tagged ? 0 : tx->msn[op->qn],
        .stag = msg->stag,
        .to = msg->to,
        .length = msg->length,
    };
}

bool rnic_sent_message_is(const RnicSentMessage *m, uint32_t sent,
                          const IwarpDdpHeader *header)
{
    const IwarpOpInfo *op = iwarp_op_info(m->opcode);

    if (iwarp_rdmap_opcode(header->control) != m->opcode ||
        header->tagged != op->tagged) {
        return false;
    }
    if (!op->tagged) {
        return header->qn == op->qn && header->msn == m->msn;
    }
    return header->stag == m->stag &&
           (header->to - m->to < MIN(sent, m->length) ||
            (!m->length && header->to == m->to));
}
