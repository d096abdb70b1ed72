/*
 * iWARP engine: CRC32C
 *
 * The sum itself is ISA-L's (crc32_iscsi: iSCSI has the same one), which knows
 * the fastest way of each processor.  A build without ISA-L takes QEMU's own
 * function, which has one table of 256 words and is many times slower.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <limits.h>

#ifdef RNIC_HAVE_ISAL
#include <isa-l/crc.h>
#else
#include <stdint.h>
#include <sys/uio.h>
#include "qemu/crc32c.h"
#endif

#include "copy.h"
#include "crc32c.h"

/* Octets that are copied at once, so that they are still near afterwards. */
#define CRC32C_NEAR 16384u

/* CRC32C of at most INT_MAX octets. */
static uint32_t crc32c_some(uint32_t crc, const uint8_t *p, size_t len)
{
#ifdef RNIC_HAVE_ISAL
    /*
     * ISA-L leaves both complements to its caller.  It only reads, but has no
     * const.
     */
    return ~crc32_iscsi((unsigned char *)p, (int)len, ~crc);
#else
    /* QEMU's function makes the last complement and leaves the first. */
    return crc32c(~crc, p, (unsigned)len);
#endif
}

uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    while (len) {
        size_t n = len < INT_MAX ? len : INT_MAX;

        crc = crc32c_some(crc, p, n);
        p += n;
        len -= n;
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

        iwarp_copy(copy, p, n);
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
