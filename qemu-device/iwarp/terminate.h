/*
 * iWARP engine: the Terminate header (RFC 5040 section 4.8)
 *
 *     0  layer(4) etype(4) code(8)   the term code of error.h
 *     2  M D R reserved(13)
 *     4  DDP Segment Length (2)      with M or D
 *     6  DDP header (14 or 18)       with D
 *        Read Request header (28)    with R
 *
 * Builds one from an IwarpError and reads one from the peer.  Linux siw lays
 * out the first four octets by its compiler's bit-field order (nibbles and
 * flag bits reversed on little-endian hosts); reading understands both.
 * Building always follows the RFC.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_TERMINATE_H
#define IWARP_TERMINATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "rdmap.h"

enum {
    IWARP_TERM_M = 0x80,        /* octet 2 of the header */
    IWARP_TERM_D = 0x40,
    IWARP_TERM_R = 0x20,
};

/*
 * Encode the header for @error to @out, which has room for
 * IWARP_TERMINATE_MAX octets.  Returns its octets: 4, 20, 24 or 52.
 *
 * Which of the echoed headers go in (RFC 5040 figure 10 and section 7.1):
 * none for RDMAP local catastrophic and MPA errors; length and DDP header for
 * all others, if there is an echo; the Read Request header for an error of
 * RDMAP's on a Read Request.
 */
size_t iwarp_terminate_encode(const IwarpError *error, uint8_t *out);

/* A received Terminate, host order. */
typedef struct IwarpTerminate {
    IwarpTermCode term;         /* after undoing siw's layout */
    bool siw_layout;
    bool has_length;            /* M or D set and the octets are there */
    bool has_ddp;               /* D set and the octets are there */
    bool has_read;              /* R set, the octets are there, and the echoed
                                 * DDP header is a Read Request's */
    uint16_t segment_len;       /* do not rely on it: siw and irdma differ */
    uint8_t ddp_len;            /* 14 or 18 with has_ddp, else 0 */
    uint8_t ddp[IWARP_ECHO_DDP_MAX];
    IwarpReadRequest read;
} IwarpTerminate;

/*
 * Decode the @len octets of a Terminate header at @in.  Headers that the flags
 * promise and the length does not hold are left out; octets behind the header
 * are ignored.  Returns false only when @len is below 4.
 */
bool iwarp_terminate_decode(IwarpTerminate *t, const uint8_t *in, size_t len);

#endif /* IWARP_TERMINATE_H */
