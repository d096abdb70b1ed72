/*
 * iWARP engine: CRC32C
 *
 * The sum itself is ISA-L's (crc32_iscsi: iSCSI has the same one), which knows
 * the fastest way of each processor.  ISA-L leaves both complements to its
 * caller.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <limits.h>
#include <string.h>

#include <isa-l/crc.h>

#include "crc32c.h"

/* Octets that are copied at once, so that they are still near afterwards. */
#define CRC32C_NEAR 16384u

uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    while (len) {
        int n = len < INT_MAX ? (int)len : INT_MAX;

        /* ISA-L only reads, but has no const. */
        crc = ~crc32_iscsi((unsigned char *)p, n, ~crc);
        p += n;
        len -= (size_t)n;
    }
    return crc;
}

uint32_t iwarp_crc32c_copy(uint32_t crc, void *out, const void *data,
                           size_t len)
{
    const uint8_t *p = data;
    uint8_t *copy = out;

    while (len) {
        size_t n = len < CRC32C_NEAR ? len : CRC32C_NEAR;

        memcpy(copy, p, n);
        crc = iwarp_crc32c(crc, copy, n);
        copy += n;
        p += n;
        len -= n;
    }
    return crc;
}

void iwarp_crc32c_put(uint8_t *out, uint32_t crc)
{
    out[0] = (uint8_t)crc;
    out[1] = (uint8_t)(crc >> 8);
    out[2] = (uint8_t)(crc >> 16);
    out[3] = (uint8_t)(crc >> 24);
}

uint32_t iwarp_crc32c_get(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 |
           (uint32_t)in[3] << 24;
}
