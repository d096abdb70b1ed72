/*
 * iWARP engine: CRC32C (Castagnoli), the checksum of an MPA FPDU
 *
 * RFC 5044 section 4.4.  The conventional CRC32C: reflected, initial value all
 * ones, final complement.  Nothing here knows about frames.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_CRC32C_H
#define IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC32C of @len octets at @data, continuing from @crc.  @crc is the value
 * returned for the octets before these, 0 at the start:
 *
 *     crc(0, "ab") == crc(crc(0, "a"), "b")
 */
uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len);

/*
 * The same, and copy the octets to @out, which does not overlap them.  They may
 * change meanwhile: the result is that of the octets at @out.
 */
uint32_t iwarp_crc32c_copy(uint32_t crc, void *out, const void *data,
                           size_t len);

/* Write @crc as MPA sends it: least significant octet first, four octets. */
void iwarp_crc32c_put(uint8_t *out, uint32_t crc);

/* Read a CRC as MPA sends it. */
uint32_t iwarp_crc32c_get(const uint8_t *in);

#endif /* IWARP_CRC32C_H */
