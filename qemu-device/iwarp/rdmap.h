/*
 * iWARP engine: RDMAP messages (RFC 5040, and RFC 7306 for 8 to 11)
 *
 * The table of opcodes and the layouts of the RDMAP headers that stand behind
 * the DDP header.  All fields big-endian on the wire, host order in structs.
 * Terminate has its own file.  No stream state here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_RDMAP_H
#define IWARP_RDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum IwarpOpcode {
    IWARP_OP_WRITE = 0,
    IWARP_OP_READ_REQUEST = 1,
    IWARP_OP_READ_RESPONSE = 2,
    IWARP_OP_SEND = 3,
    IWARP_OP_SEND_INV = 4,
    IWARP_OP_SEND_SE = 5,
    IWARP_OP_SEND_SE_INV = 6,
    IWARP_OP_TERMINATE = 7,
    IWARP_OP_IMMEDIATE = 8,
    IWARP_OP_IMMEDIATE_SE = 9,
    IWARP_OP_ATOMIC_REQUEST = 10,
    IWARP_OP_ATOMIC_RESPONSE = 11,
    IWARP_OP_COUNT = 12,
} IwarpOpcode;

/* Sets of opcodes: bit n stands for opcode n. */
enum {
    IWARP_OPS_RFC5040 = 0x00ff,
    IWARP_OPS_IMMEDIATE = 0x0300,
    IWARP_OPS_ATOMIC = 0x0c00,
    IWARP_OPS_ALL = 0x0fff,
};

enum {
    IWARP_RDMAP_VERSION = 1,
    IWARP_READ_REQUEST_LEN = 28,
    IWARP_IMMEDIATE_LEN = 8,
    IWARP_ATOMIC_REQUEST_LEN = 52,
    IWARP_ATOMIC_RESPONSE_LEN = 12,
    IWARP_TERMINATE_MIN = 4,
    IWARP_TERMINATE_MAX = 52,
    IWARP_RDMAP_HEADER_MAX = 52,
};

/* One row per opcode. */
typedef struct IwarpOpInfo {
    const char *name;
    bool tagged;
    bool payload;           /* ULP payload may follow, in any number of
                             * segments; else the message is one segment */
    bool invalidates;       /* the Invalidate STag field is meant */
    bool solicited;
    uint8_t qn;             /* untagged kinds */
    uint8_t header_min;     /* RDMAP header behind the DDP header, octets */
    uint8_t header_max;     /* above header_min for Terminate only */
} IwarpOpInfo;

/* The row of @opcode (0..15), NULL when the opcode is unassigned. */
const IwarpOpInfo *iwarp_op_info(unsigned opcode);

/* A name for traces, never NULL. */
const char *iwarp_op_name(unsigned opcode);

/* The RDMAP control octet: version(2), reserved(2), opcode(4). */
static inline uint8_t iwarp_rdmap_control(unsigned opcode)
{
    return (uint8_t)(IWARP_RDMAP_VERSION << 6 | (opcode & 15));
}

static inline unsigned iwarp_rdmap_version(uint8_t control)
{
    return control >> 6;
}

static inline unsigned iwarp_rdmap_opcode(uint8_t control)
{
    return control & 15;
}

/* Read Request header, 28 octets in this order (RFC 5040 section 4.4). */
typedef struct IwarpReadRequest {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size;          /* RDMARDSZ, octets */
    uint32_t source_stag;
    uint64_t source_to;
} IwarpReadRequest;

/* @in and @out hold IWARP_READ_REQUEST_LEN octets. */
void iwarp_read_request_decode(IwarpReadRequest *r, const uint8_t *in);
void iwarp_read_request_encode(const IwarpReadRequest *r, uint8_t *out);

/* Atomic operation codes of RFC 7306; all others are unassigned. */
enum {
    IWARP_ATOMIC_FETCH_ADD = 0,
    IWARP_ATOMIC_CMP_SWAP = 2,
};

/* Atomic Request header, 52 octets (RFC 7306 section 5.2.1). */
typedef struct IwarpAtomicRequest {
    uint8_t atomic_op;      /* low 4 bits of the first 32; the rest reserved */
    uint32_t request_id;
    uint32_t stag;
    uint64_t to;            /* of 8 octets, 8-octet aligned in memory */
    uint64_t data;          /* Add Data or Swap Data */
    uint64_t mask;          /* Add Mask or Swap Mask */
    uint64_t compare;
    uint64_t compare_mask;
} IwarpAtomicRequest;

/* @in and @out hold IWARP_ATOMIC_REQUEST_LEN octets. */
void iwarp_atomic_request_decode(IwarpAtomicRequest *r, const uint8_t *in);
void iwarp_atomic_request_encode(const IwarpAtomicRequest *r, uint8_t *out);

/*
 * The value @x becomes under @r (host order).  FetchAdd: @x + data with the
 * carry cut above each bit set in the mask.  CmpSwap: where (x ^ compare) &
 * compare_mask is 0, the bits of the mask come from data.  Any other operation
 * leaves @x.
 */
uint64_t iwarp_atomic_apply(const IwarpAtomicRequest *r, uint64_t x);

/* Atomic Response header, 12 octets (RFC 7306 section 5.2.2). */
typedef struct IwarpAtomicResponse {
    uint32_t request_id;
    uint64_t original;      /* the value before the operation */
} IwarpAtomicResponse;

/* @in and @out hold IWARP_ATOMIC_RESPONSE_LEN octets. */
void iwarp_atomic_response_decode(IwarpAtomicResponse *r, const uint8_t *in);
void iwarp_atomic_response_encode(const IwarpAtomicResponse *r, uint8_t *out);

#endif /* IWARP_RDMAP_H */
