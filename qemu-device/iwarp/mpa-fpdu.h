/*
 * iWARP engine: the shape of an MPA FPDU (RFC 5044 section 4)
 *
 *     ULPDU_Length (2) | ULPDU | pad (0..3) | CRC (4)
 *
 * and, if the receiver asked for them, a marker of 4 octets at every 512th
 * octet of the stream, wherever that falls.  This is the arithmetic that the
 * receive and the send half share.  No state, no buffers.
 *
 * *Content* is what an FPDU holds without markers.  A *stream position* is
 * counted from the first octet after start-up, modulo 512, markers included;
 * a marker stands at each position 0.  All FPDUs and markers are multiples of
 * 4 octets, so positions at an FPDU's start are too.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_MPA_FPDU_H
#define IWARP_MPA_FPDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IWARP_FPDU_LENGTH_LEN = 2,
    IWARP_FPDU_CRC_LEN = 4,
    IWARP_FPDU_TRAILER_MAX = 3 + IWARP_FPDU_CRC_LEN,
    IWARP_ULPDU_MAX = 65535,        /* what the length field can say */

    IWARP_MARKER_LEN = 4,
    IWARP_MARKER_SPACING = 512,
    IWARP_MARKER_GAP = IWARP_MARKER_SPACING - IWARP_MARKER_LEN,

    IWARP_MULPDU_MIN = 128,
    IWARP_MULPDU_MAX = 64768,       /* RFC 5044: a sender posts no more */

    /* Content of the largest FPDU, and that with all its markers. */
    IWARP_FPDU_CONTENT_MAX = 65544,
    IWARP_FPDU_MARKERS_MAX = 130,
    IWARP_FPDU_WIRE_MAX = IWARP_FPDU_CONTENT_MAX +
                          IWARP_FPDU_MARKERS_MAX * IWARP_MARKER_LEN,
};

/* Pad octets behind a ULPDU of @ulpdu_len octets. */
static inline size_t iwarp_fpdu_pad(size_t ulpdu_len)
{
    return (0 - (IWARP_FPDU_LENGTH_LEN + ulpdu_len)) & 3;
}

/* Content octets of an FPDU: length field, ULPDU, pad, CRC. */
static inline size_t iwarp_fpdu_content(size_t ulpdu_len)
{
    return IWARP_FPDU_LENGTH_LEN + ulpdu_len + iwarp_fpdu_pad(ulpdu_len) +
           IWARP_FPDU_CRC_LEN;
}

/* Content octets that fit between stream position @pos and the next marker. */
static inline size_t iwarp_marker_distance(unsigned pos)
{
    return (0 - pos) & (IWARP_MARKER_SPACING - 1);
}

/*
 * Markers among (or right before) @content octets that start at stream
 * position @pos.  One that stands right behind them is not counted.
 */
static inline size_t iwarp_marker_count(unsigned pos, size_t content)
{
    size_t first = iwarp_marker_distance(pos);

    return content <= first ? 0 : 1 + (content - first - 1) / IWARP_MARKER_GAP;
}

/*
 * The largest ULPDU whose FPDU fits a TCP segment of @emss octets (RFC 5044); 0:
 * segments have no such bound.
 */
static inline uint16_t iwarp_mulpdu(size_t emss, bool markers)
{
    size_t around = IWARP_FPDU_LENGTH_LEN + IWARP_FPDU_CRC_LEN + emss % 4;

    if (markers) {
        around += IWARP_MARKER_LEN * ((emss + IWARP_MARKER_SPACING - 1) /
                                      IWARP_MARKER_SPACING);
    }
    if (emss == 0 || emss >= IWARP_MULPDU_MAX + around) {
        return IWARP_MULPDU_MAX;
    }
    return emss < IWARP_MULPDU_MIN + around ? IWARP_MULPDU_MIN
                                            : (uint16_t)(emss - around);
}

#endif /* IWARP_MPA_FPDU_H */
