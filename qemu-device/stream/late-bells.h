/*
 * rnic: bells of shared rings that are rung late, to the good of all
 *
 * A receiver that is told at once reads right behind its sender.  Then it has to
 * fetch each octet from the cache of the sender's own processor, at a third of
 * the speed of the cache that processors share; and so has the sender, to write
 * there again.  A thread that has much to send by many rings therefore rings the
 * bell of one only after it has written so much to others that the octets have
 * left its own cache, or has nothing more to write.
 *
 * All of it is one thread's, that of the event loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_LATE_BELLS_H
#define HW_RNIC_LATE_BELLS_H

#include "block/aio.h"
#include "qemu/queue.h"

typedef struct RnicLateBell RnicLateBell;
typedef void RnicLateBellFn(RnicLateBell *bell);

/* Part of what has the bell.  Zeroes, and how to ring it, to begin with. */
struct RnicLateBell {
    RnicLateBellFn *ring;
    bool due;                   /* in the queue */
    uint64_t since;             /* RnicLateBells.octets at that time */
    QTAILQ_ENTRY(RnicLateBell) next;
};

typedef struct RnicLateBells {
    QTAILQ_HEAD(, RnicLateBell) queue;
    QEMUBH *bh;
    uint64_t octets;            /* written so far */
    uint64_t octets_before;     /* when the event loop last came round */
} RnicLateBells;

/* Any thread, before the first use. */
void rnic_late_bells_init(RnicLateBells *bells, AioContext *ctx);
/* None is in the queue. */
void rnic_late_bells_destroy(RnicLateBells *bells);

/* @bell is to be rung.  Unless it is to be already. */
void rnic_late_bells_add(RnicLateBells *bells, RnicLateBell *bell);
/* It no longer is, or never was. */
void rnic_late_bells_remove(RnicLateBells *bells, RnicLateBell *bell);

/* @n octets have been written, to whatever ring: some may be late enough. */
void rnic_late_bells_written(RnicLateBells *bells, size_t n);

#endif /* HW_RNIC_LATE_BELLS_H */
