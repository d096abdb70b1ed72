/*
 * rnic: where FPDUs begin in one direction of a stream
 *
 * Follows the octets from the start-up frame on (RFC 5044 section 7.1), or from a
 * place that is known, and finds the end of each unit: the start-up frame, then one
 * FPDU after the other.  Judges nothing: the octets may be of a hostile peer, and
 * what does not begin with a start-up frame is no unit at all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_FPDUS_H
#define HW_RNIC_CAPTURE_FPDUS_H

typedef enum RnicFpdusPhase {
    RNIC_FPDUS_START_UP,
    RNIC_FPDUS_FPDUS,
    RNIC_FPDUS_OPAQUE,          /* no MPA: units are not known */
} RnicFpdusPhase;

enum { RNIC_FPDUS_START_UP_HEAD = 20 };

typedef struct RnicFpdus {
    RnicFpdusPhase phase;
    bool markers;               /* to be set before the first FPDU */
    uint16_t pos;               /* where the unit began, modulo 512 */
    uint32_t done;              /* octets of it until now */
    uint32_t length;            /* of it; 0: not known yet */
    uint8_t head[RNIC_FPDUS_START_UP_HEAD];
} RnicFpdus;

/* A unit begins with the next octet. */
static inline bool rnic_fpdus_between(const RnicFpdus *f)
{
    return f->phase != RNIC_FPDUS_OPAQUE && f->done == 0;
}

/* An FPDU begins with the next octet, at @pos. */
void rnic_fpdus_place(RnicFpdus *f, uint16_t pos);

/*
 * How many of the @len octets (at least 1) at @at of @iov are of the unit in
 * progress; *@ended: it ends with them.
 */
size_t rnic_fpdus_step(RnicFpdus *f, const struct iovec *iov, size_t count,
                       size_t at, size_t len, bool *ended);

#endif /* HW_RNIC_CAPTURE_FPDUS_H */
