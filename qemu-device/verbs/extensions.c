/*
 * rnic: the messages of RFC 7306, and whether the peer takes them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    ASK_STAG = 0,
    OPCODES = IWARP_OPS_IMMEDIATE | IWARP_OPS_ATOMIC,

    /* Octets 4 to 7 of Immediate Data. */
    OF_WRITE = 0,
    OF_SEND = 1,
};

/* ------------------------------------------------------------ agreement */

static bool extensions_accepted(const RnicQp *qp)
{
    return rnic_accepted(qp->s, RNIC_FEATURE_RDMAP_EXTENSIONS);
}

void rnic_extensions_settle(RnicQp *qp, bool agreed)
{
    qp->extensions.state = agreed ? RNIC_EXTENSIONS_AGREED
                                  : RNIC_EXTENSIONS_REFUSED;
    if (agreed) {
        iwarp_rx_accept(&qp->stream->rx, OPCODES);
    }
    trace_rnic_extensions(qp->qpn, agreed);
}

void rnic_extensions_ask(RnicQp *qp, IwarpTxMessage *msg, uint8_t *header)
{
    IwarpReadRequest question = {
        .sink_stag = ASK_STAG,
        .sink_to = RNIC_EXTENSIONS_ASK,
        .source_stag = 1,       /* as RFC 6581's RTR: no octets, no meaning */
    };

    qp->extensions.state = RNIC_EXTENSIONS_ASKED;
    iwarp_read_request_encode(&question, header);
    *msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_READ_REQUEST,
        .header = header,
        .header_len = IWARP_READ_REQUEST_LEN,
    };
}

/* The peer may have asked meanwhile: then it is agreed already. */
void rnic_extensions_answered(RnicQp *qp, uint64_t to)
{
    if (qp->extensions.state == RNIC_EXTENSIONS_ASKED) {
        rnic_extensions_settle(qp, to == RNIC_EXTENSIONS_YES);
    }
}

static bool extensions_question(const RnicQp *qp,
                                const IwarpReadRequest *request)
{
    return request->size == 0 && request->sink_stag == ASK_STAG &&
           request->sink_to == RNIC_EXTENSIONS_ASK && extensions_accepted(qp) &&
           !qp->direct.connected;
}

void rnic_extensions_requested(RnicQp *qp, const IwarpReadRequest *request)
{
    if (extensions_question(qp, request)) {
        iwarp_rx_accept(&qp->stream->rx, OPCODES);
    }
}

uint64_t rnic_extensions_response_to(const RnicQp *qp,
                                     const IwarpReadRequest *request)
{
    return extensions_question(qp, request) ? RNIC_EXTENSIONS_YES
                                            : request->sink_to;
}

/* What we send behind the answer finds a peer that knows it. */
void rnic_extensions_responded(RnicQp *qp, const IwarpReadRequest *request)
{
    if (extensions_question(qp, request)) {
        rnic_extensions_settle(qp, true);
        rnic_qp_kick(qp);
    }
}

/* ------------------------------------------------------------- messages */

void rnic_extensions_immediate(const struct rnic_sq_wqe *wqe,
                               IwarpTxMessage *msg, uint8_t *header)
{
    bool of_send = wqe->opcode == RNIC_SQ_SEND_IMMEDIATE;
    bool se = !of_send && (wqe->flags & RNIC_WQE_SOLICITED);

    memcpy(header, wqe->immediate, sizeof(wqe->immediate));
    stl_be_p(header + sizeof(wqe->immediate), of_send ? OF_SEND : OF_WRITE);
    *msg = (IwarpTxMessage) {
        .opcode = se ? IWARP_OP_IMMEDIATE_SE : IWARP_OP_IMMEDIATE,
        .header = header,
        .header_len = IWARP_IMMEDIATE_LEN,
    };
}

bool rnic_extensions_of_send(const IwarpSegment *seg)
{
    return (seg->opcode == IWARP_OP_IMMEDIATE ||
            seg->opcode == IWARP_OP_IMMEDIATE_SE) &&
           ldl_be_p(seg->u.immediate + 4) == OF_SEND;
}

void rnic_extensions_atomic(const struct rnic_sq_wqe *wqe,
                            const struct rnic_atomic_wqe *args, uint32_t id,
                            IwarpTxMessage *msg, uint8_t *header)
{
    bool add = wqe->opcode == RNIC_SQ_FETCH_ADD;
    IwarpAtomicRequest request = {
        .atomic_op = add ? IWARP_ATOMIC_FETCH_ADD : IWARP_ATOMIC_CMP_SWAP,
        .request_id = id,
        .stag = le32_to_cpu(wqe->remote_stag),
        .to = le64_to_cpu(wqe->remote_to),
        .data = le64_to_cpu(args->add_swap),
        /* Carries between all bits; all bits are swapped, all compared. */
        .mask = add ? 0 : UINT64_MAX,
        .compare = le64_to_cpu(args->compare),
        .compare_mask = UINT64_MAX,
    };

    iwarp_atomic_request_encode(&request, header);
    *msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_ATOMIC_REQUEST,
        .header = header,
        .header_len = IWARP_ATOMIC_REQUEST_LEN,
    };
}
