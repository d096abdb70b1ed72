/*
 * iWARP engine: RDMAP opcode table and header codecs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "bytes.h"
#include "ddp.h"
#include "rdmap.h"

static const IwarpOpInfo ops[IWARP_OP_COUNT] = {
    [IWARP_OP_WRITE] = {
        .name = "write", .tagged = true, .payload = true,
    },
    [IWARP_OP_READ_REQUEST] = {
        .name = "read-request", .qn = IWARP_QN_READ,
        .header_min = IWARP_READ_REQUEST_LEN,
        .header_max = IWARP_READ_REQUEST_LEN,
    },
    [IWARP_OP_READ_RESPONSE] = {
        .name = "read-response", .tagged = true, .payload = true,
    },
    [IWARP_OP_SEND] = {
        .name = "send", .qn = IWARP_QN_SEND, .payload = true,
    },
    [IWARP_OP_SEND_INV] = {
        .name = "send-inv", .qn = IWARP_QN_SEND, .payload = true,
        .invalidates = true,
    },
    [IWARP_OP_SEND_SE] = {
        .name = "send-se", .qn = IWARP_QN_SEND, .payload = true,
        .solicited = true,
    },
    [IWARP_OP_SEND_SE_INV] = {
        .name = "send-se-inv", .qn = IWARP_QN_SEND, .payload = true,
        .invalidates = true, .solicited = true,
    },
    [IWARP_OP_TERMINATE] = {
        .name = "terminate", .qn = IWARP_QN_TERMINATE,
        .header_min = IWARP_TERMINATE_MIN,
        .header_max = IWARP_TERMINATE_MAX,
    },
    [IWARP_OP_IMMEDIATE] = {
        .name = "immediate", .qn = IWARP_QN_SEND,
        .header_min = IWARP_IMMEDIATE_LEN,
        .header_max = IWARP_IMMEDIATE_LEN,
    },
    [IWARP_OP_IMMEDIATE_SE] = {
        .name = "immediate-se", .qn = IWARP_QN_SEND,
        .header_min = IWARP_IMMEDIATE_LEN,
        .header_max = IWARP_IMMEDIATE_LEN,
        .solicited = true,
    },
    [IWARP_OP_ATOMIC_REQUEST] = {
        .name = "atomic-request", .qn = IWARP_QN_READ,
        .header_min = IWARP_ATOMIC_REQUEST_LEN,
        .header_max = IWARP_ATOMIC_REQUEST_LEN,
    },
    [IWARP_OP_ATOMIC_RESPONSE] = {
        .name = "atomic-response", .qn = IWARP_QN_ATOMIC_RESPONSE,
        .header_min = IWARP_ATOMIC_RESPONSE_LEN,
        .header_max = IWARP_ATOMIC_RESPONSE_LEN,
    },
};

const IwarpOpInfo *iwarp_op_info(unsigned opcode)
{
    return opcode < IWARP_OP_COUNT ? &ops[opcode] : NULL;
}

const char *iwarp_op_name(unsigned opcode)
{
    return opcode < IWARP_OP_COUNT ? ops[opcode].name : "unassigned";
}

void iwarp_read_request_decode(IwarpReadRequest *r, const uint8_t *in)
{
    r->sink_stag = iwarp_get32(in);
    r->sink_to = iwarp_get64(in + 4);
    r->size = iwarp_get32(in + 12);
    r->source_stag = iwarp_get32(in + 16);
    r->source_to = iwarp_get64(in + 20);
}

void iwarp_read_request_encode(const IwarpReadRequest *r, uint8_t *out)
{
    iwarp_put32(out, r->sink_stag);
    iwarp_put64(out + 4, r->sink_to);
    iwarp_put32(out + 12, r->size);
    iwarp_put32(out + 16, r->source_stag);
    iwarp_put64(out + 20, r->source_to);
}

void iwarp_atomic_request_decode(IwarpAtomicRequest *r, const uint8_t *in)
{
    r->atomic_op = in[3] & 15;
    r->request_id = iwarp_get32(in + 4);
    r->stag = iwarp_get32(in + 8);
    r->to = iwarp_get64(in + 12);
    r->data = iwarp_get64(in + 20);
    r->mask = iwarp_get64(in + 28);
    r->compare = iwarp_get64(in + 36);
    r->compare_mask = iwarp_get64(in + 44);
}

void iwarp_atomic_request_encode(const IwarpAtomicRequest *r, uint8_t *out)
{
    iwarp_put32(out, r->atomic_op & 15);
    iwarp_put32(out + 4, r->request_id);
    iwarp_put32(out + 8, r->stag);
    iwarp_put64(out + 12, r->to);
    iwarp_put64(out + 20, r->data);
    iwarp_put64(out + 28, r->mask);
    iwarp_put64(out + 36, r->compare);
    iwarp_put64(out + 44, r->compare_mask);
}

uint64_t iwarp_atomic_apply(const IwarpAtomicRequest *r, uint64_t x)
{
    switch (r->atomic_op) {
    case IWARP_ATOMIC_FETCH_ADD:
        /* No carry leaves a bit that is set in the mask. */
        return ((x & ~r->mask) + (r->data & ~r->mask)) ^
               ((x ^ r->data) & r->mask);
    case IWARP_ATOMIC_CMP_SWAP:
        if (((x ^ r->compare) & r->compare_mask) == 0) {
            return (x & ~r->mask) | (r->data & r->mask);
        }
        return x;
    default:
        return x;
    }
}

void iwarp_atomic_response_decode(IwarpAtomicResponse *r, const uint8_t *in)
{
    r->request_id = iwarp_get32(in);
    r->original = iwarp_get64(in + 4);
}

void iwarp_atomic_response_encode(const IwarpAtomicResponse *r, uint8_t *out)
{
    iwarp_put32(out, r->request_id);
    iwarp_put64(out + 4, r->original);
}
