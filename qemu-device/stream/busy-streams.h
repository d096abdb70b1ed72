/*
 * rnic: how many streams of a worker are busy at the same time
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_BUSY_STREAMS_H
#define HW_RNIC_BUSY_STREAMS_H

/* Of a worker, and its thread's. Zeroes to begin with. */
typedef struct RnicBusyStreams {
    int64_t until;              /* the end of this period, host's time, ns */
    unsigned period;
    unsigned counted;           /* in this period */
    unsigned before;            /* in the one before */
} RnicBusyStreams;

/*
 * A stream has carried a lot at @now (host's time, ns): how many of its
 * worker's did so of late, it included.  *@period is the stream's, zero to
 * begin with.
 */
unsigned rnic_busy_streams(RnicBusyStreams *busy, unsigned *period,
                           int64_t now);

#endif /* HW_RNIC_BUSY_STREAMS_H */
