/*
 * iWARP engine: what can be wrong on a stream, and how a Terminate names it
 *
 * Two views of one mistake.  A *fault* is the engine's own exact reason, for
 * trace events and tests.  A *term code* is what the peer is told: layer,
 * error type and error code of the Terminate header (RFC 5040 section 4.8,
 * RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 9.4).  Several
 * faults share a term code.
 *
 * This file names things.  It neither finds errors nor builds messages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_ERROR_H
#define IWARP_ERROR_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A term code is the first 16 bits of a Terminate header:
 * layer (4), error type (4), error code (8), most significant first.
 */
typedef uint16_t IwarpTermCode;

#define IWARP_TERM(layer, etype, code) \
    ((IwarpTermCode)(((layer) & 15) << 12 | ((etype) & 15) << 8 | \
                     ((code) & 255)))

enum {
    IWARP_LAYER_RDMAP = 0,
    IWARP_LAYER_DDP = 1,
    IWARP_LAYER_MPA = 2,
};

enum {
    /* RDMAP 0: local catastrophic, not tied to an incoming message */
    IWARP_TERM_RDMAP_LOCAL = 0x0000,

    /* RDMAP 1: remote protection, about a Read Request or an Invalidate */
    IWARP_TERM_READ_STAG = 0x0100,          /* source STag invalid */
    IWARP_TERM_READ_BOUNDS = 0x0101,
    IWARP_TERM_READ_ACCESS = 0x0102,
    IWARP_TERM_READ_STREAM = 0x0103,        /* not of this stream or PD */
    IWARP_TERM_READ_WRAP = 0x0104,
    IWARP_TERM_INVALIDATE = 0x0109,         /* the STag exists but cannot be */
    IWARP_TERM_PROTECTION = 0x01ff,

    /* RDMAP 2: remote operation */
    IWARP_TERM_RDMAP_VERSION = 0x0205,
    IWARP_TERM_OPCODE = 0x0206,
    IWARP_TERM_STREAM = 0x0207,             /* catastrophic, this stream */
    IWARP_TERM_GLOBAL = 0x0208,             /* catastrophic, the adapter */
    IWARP_TERM_INVALIDATE_UNKNOWN = 0x0209, /* no such STag */
    IWARP_TERM_OPERATION = 0x02ff,

    /* DDP 0: local catastrophic */
    IWARP_TERM_DDP_LOCAL = 0x1000,

    /* DDP 1: tagged buffer */
    IWARP_TERM_TAGGED_STAG = 0x1100,
    IWARP_TERM_TAGGED_BOUNDS = 0x1101,
    IWARP_TERM_TAGGED_STREAM = 0x1102,
    IWARP_TERM_TAGGED_WRAP = 0x1103,
    IWARP_TERM_TAGGED_VERSION = 0x1104,

    /* DDP 2: untagged buffer */
    IWARP_TERM_QN = 0x1201,
    IWARP_TERM_NO_BUFFER = 0x1202,
    IWARP_TERM_MSN = 0x1203,
    IWARP_TERM_MO = 0x1204,
    IWARP_TERM_TOO_LONG = 0x1205,
    IWARP_TERM_UNTAGGED_VERSION = 0x1206,

    /* MPA 0 */
    IWARP_TERM_LLP_LOST = 0x2001,
    IWARP_TERM_CRC = 0x2002,
    IWARP_TERM_FRAMING = 0x2003,            /* marker and length disagree */
    IWARP_TERM_MPA_FRAME = 0x2004,          /* bad Request or Reply */
    IWARP_TERM_MPA_LOCAL = 0x2005,          /* RFC 6581 */
    IWARP_TERM_MPA_IRD = 0x2006,            /* RFC 6581 */
    IWARP_TERM_MPA_RTR = 0x2007,            /* RFC 6581 */
};

static inline unsigned iwarp_term_layer(IwarpTermCode term)
{
    return term >> 12;
}

static inline unsigned iwarp_term_etype(IwarpTermCode term)
{
    return term >> 8 & 15;
}

/* A short name of a registered term code, NULL when there is none. */
const char *iwarp_term_name(IwarpTermCode term);

/*
 * The exact mistake of the peer.  The comment gives the term code; the table
 * in error.c is the authority.
 */
typedef enum IwarpFault {
    IWARP_FAULT_NONE,
    IWARP_FAULT_CRC,                /* 2/0/02 */
    IWARP_FAULT_MARKER,             /* 2/0/03 marker does not point back */
    IWARP_FAULT_SEGMENT_SHORT,      /* 2/0/03 ULPDU below the DDP header */
    IWARP_FAULT_TAGGED_VERSION,     /* 1/1/04 */
    IWARP_FAULT_UNTAGGED_VERSION,   /* 1/2/06 */
    IWARP_FAULT_RDMAP_VERSION,      /* 0/2/05 */
    IWARP_FAULT_OPCODE_UNKNOWN,     /* 0/2/06 not assigned */
    IWARP_FAULT_OPCODE_REFUSED,     /* 0/2/06 not accepted on this stream */
    IWARP_FAULT_TAG_FLAG,           /* 0/2/06 T flag against the opcode */
    IWARP_FAULT_QN_UNKNOWN,         /* 1/2/01 no such queue */
    IWARP_FAULT_QN_OPCODE,          /* 1/2/01 not the opcode's queue */
    IWARP_FAULT_MSN_PAST,           /* 1/2/03 below the expected one */
    IWARP_FAULT_MSN_AHEAD,          /* 1/2/03 above the expected one */
    IWARP_FAULT_MO,                 /* 1/2/04 does not continue */
    IWARP_FAULT_INTERLEAVED,        /* 0/2/06 within another's message */
    IWARP_FAULT_OPCODE_CHANGED,     /* 0/2/06 within its own message */
    IWARP_FAULT_STAG_CHANGED,       /* 1/1/00 within its message */
    IWARP_FAULT_TO_JUMP,            /* 1/1/01 does not continue */
    IWARP_FAULT_TAGGED_LENGTH,      /* 1/1/01 message of 2^32 or more */
    IWARP_FAULT_UNTAGGED_LENGTH,    /* 1/2/05 message of 2^32 or more */
    IWARP_FAULT_HEADER_SHORT,       /* 0/2/ff below the RDMAP header */
    IWARP_FAULT_HEADER_LONG,        /* 1/2/05 octets behind it */
    IWARP_FAULT_NOT_LAST,           /* 0/2/ff single-segment kind, L clear */
    IWARP_FAULT_EMPTY_NOT_LAST,     /* 0/2/ff no payload and L clear */
    IWARP_FAULT_REJECTED,           /* any: the engine's user refused it */
    IWARP_FAULT__MAX
} IwarpFault;

/* The term code for @fault (0 for NONE and REJECTED, which have none). */
IwarpTermCode iwarp_fault_term(IwarpFault fault);

/* A stable lower-case name for traces, never NULL. */
const char *iwarp_fault_name(IwarpFault fault);

/*
 * The headers of an incoming segment, kept so that a Terminate can show them
 * (RFC 5040 section 4.8).  Octets are as they came.
 */
enum {
    IWARP_ECHO_DDP_MAX = 18,
    IWARP_ECHO_RDMA = 28,
};

typedef struct IwarpEcho {
    uint16_t segment_len;   /* octets of the whole DDP segment (the ULPDU) */
    uint8_t ddp_len;        /* 14, 18, or 0: no header kept */
    uint8_t rdma_len;       /* 28 for a Read Request, else 0 */
    uint8_t ddp[IWARP_ECHO_DDP_MAX];
    uint8_t rdma[IWARP_ECHO_RDMA];
} IwarpEcho;

/* An error ready to be told: to the peer (term, echo) and in traces (fault). */
typedef struct IwarpError {
    IwarpFault fault;
    IwarpTermCode term;
    IwarpEcho echo;
} IwarpError;

/*
 * An error that no incoming message caused (RFC 5040 section 7.1, case 1):
 * it echoes no header.
 */
IwarpError iwarp_error_local(IwarpTermCode term);

/*
 * A Read Request was refused after @done octets of its answer had been sent:
 * move the echoed header on, sink TO + done, source TO + done, size - done
 * (RFC 5040 section 4.8).  Does nothing without an echoed Read Request.
 * @done above the size counts as the size.
 */
void iwarp_echo_advance_read(IwarpEcho *echo, uint32_t done);

#endif /* IWARP_ERROR_H */
