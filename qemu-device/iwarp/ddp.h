/*
 * iWARP engine: the DDP segment header (RFC 5041 section 4)
 *
 * Encodes and decodes 14 octets (tagged) or 18 octets (untagged).  The rules
 * about what may follow what live in stream-rx; here is only the layout.
 *
 * Offset in the ULPDU, big-endian:
 *
 *     octet  tagged                      untagged
 *     0      T=1, L, reserved(4), DV(2)  T=0, L, reserved(4), DV(2)
 *     1      RsvdULP: RDMAP control      RsvdULP: RDMAP control
 *     2      STag (4)                    RsvdULP: Invalidate STag (4)
 *     6      TO (8)                      QN (4)
 *     10                                 MSN (4)
 *     14     payload                     MO (4)
 *     18                                 payload
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_DDP_H
#define IWARP_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IWARP_DDP_TAGGED_LEN = 14,
    IWARP_DDP_UNTAGGED_LEN = 18,
    IWARP_DDP_HEADER_MAX = 18,

    IWARP_DDP_T = 0x80,
    IWARP_DDP_L = 0x40,
    IWARP_DDP_VERSION_MASK = 0x03,
    IWARP_DDP_VERSION = 1,

    IWARP_QN_SEND = 0,
    IWARP_QN_READ = 1,              /* Read Requests and Atomic Requests */
    IWARP_QN_TERMINATE = 2,
    IWARP_QN_ATOMIC_RESPONSE = 3,
    IWARP_QN_COUNT = 4,
};

typedef struct IwarpDdpHeader {
    bool tagged;
    bool last;
    uint8_t version;        /* DV, 0..3 */
    uint8_t control;        /* RsvdULP octet 1: the RDMAP control field */
    /* tagged */
    uint32_t stag;
    uint64_t to;
    /* untagged */
    uint32_t rsvd_ulp;      /* RsvdULP octets 2..5: Invalidate STag */
    uint32_t qn;
    uint32_t msn;
    uint32_t mo;
} IwarpDdpHeader;

/* Octets of the header whose first octet is @first: 14 or 18. */
static inline size_t iwarp_ddp_header_len(uint8_t first)
{
    return first & IWARP_DDP_T ? IWARP_DDP_TAGGED_LEN : IWARP_DDP_UNTAGGED_LEN;
}

/*
 * Decode the header at the start of the @len octets at @in.  The fields of the
 * other kind become zero; reserved bits are ignored.
 *
 * Returns the header's octets, 0 when @len is below them.
 */
size_t iwarp_ddp_decode(IwarpDdpHeader *h, const uint8_t *in, size_t len);

/*
 * Encode @h to @out, which has room for IWARP_DDP_HEADER_MAX octets.  Reserved
 * bits are sent as zero.  Returns the octets written.
 */
size_t iwarp_ddp_encode(const IwarpDdpHeader *h, uint8_t *out);

/*
 * True when @len octets from tagged offset @to on do not fit below 2^64, the
 * TO wrap of RFC 5041 section 7.1.  Ending exactly at 2^64 is no wrap.
 */
static inline bool iwarp_to_wraps(uint64_t to, uint64_t len)
{
    return len && to > UINT64_MAX - (len - 1);
}

#endif /* IWARP_DDP_H */
