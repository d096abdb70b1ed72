/*
 * iWARP engine: copies of many octets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_COPY_H
#define IWARP_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* glibc's memmove() takes REP MOVSB for more than this, or than a larger size
 * (glibc.cpu.x86_rep_movsb_threshold). */
#define IWARP_COPY_PIECE 2048u

/*
 * Copy @len octets from @in to @out, which do not overlap; in pieces, without REP
 * MOVSB.  Where the destination is 1 to 15 octets behind the source, modulo 4096,
 * AMD's processors since Zen 3 copy by it a fifteenth as fast (glibc bug 30994);
 * and behind headers of 16 octets and CRCs of 4, payloads are anywhere.  GCC makes
 * REP MOVSQ of a memcpy() that it knows to be short, but calls memmove().
 */
static inline void iwarp_copy(void *out, const void *in, size_t len)
{
    const uint8_t *from = in;
    uint8_t *to = out;

    while (len) {
        size_t n = len < IWARP_COPY_PIECE ? len : IWARP_COPY_PIECE;

        memmove(to, from, n);
        to += n;
        from += n;
        len -= n;
    }
}

#endif /* IWARP_COPY_H */
