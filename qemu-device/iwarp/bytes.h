/*
 * iWARP engine: big-endian octet helpers
 *
 * Every multi-octet field of MPA, DDP and RDMAP is big-endian and may lie at
 * any alignment.  The engine reads and writes fields through these helpers
 * only; it never overlays a struct on wire octets.  The callers check the
 * length, these functions do not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_BYTES_H
#define IWARP_BYTES_H

#include <stdint.h>

static inline uint16_t iwarp_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t iwarp_get32(const uint8_t *p)
{
    return (uint32_t)iwarp_get16(p) << 16 | iwarp_get16(p + 2);
}

static inline uint64_t iwarp_get64(const uint8_t *p)
{
    return (uint64_t)iwarp_get32(p) << 32 | iwarp_get32(p + 4);
}

static inline void iwarp_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void iwarp_put32(uint8_t *p, uint32_t v)
{
    iwarp_put16(p, (uint16_t)(v >> 16));
    iwarp_put16(p + 2, (uint16_t)v);
}

static inline void iwarp_put64(uint8_t *p, uint64_t v)
{
    iwarp_put32(p, (uint32_t)(v >> 32));
    iwarp_put32(p + 4, (uint32_t)v);
}

#endif /* IWARP_BYTES_H */
