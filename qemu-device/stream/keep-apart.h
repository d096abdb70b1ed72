/*
 * rnic: two threads that work at the same time, on processors of their own
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_KEEP_APART_H
#define HW_RNIC_KEEP_APART_H

/* Of a thread, and its own.  Zeroes to begin with. */
typedef struct RnicKeepApart {
    unsigned met;               /* times in a row */
    int64_t next;               /* host's time, ns; not to be moved before */
} RnicKeepApart;

/*
 * A peer's thread that works at the same time as this one was on processor
 * @theirs (-1: not known), this one is on @own at @now (host's time, ns).  True:
 * this one had better go to another.  @theirs need not be true.
 */
bool rnic_keep_apart_due(RnicKeepApart *apart, int own, int theirs,
                         int64_t now);

/* The host's processor that the calling thread is on, or -1. */
int rnic_own_processor(void);

/*
 * The calling thread goes on at another processor than @processor, and still
 * may run on all that it might before.  False: there is no other for it, or the
 * host does not permit it.
 */
bool rnic_leave_processor(int processor);

#endif /* HW_RNIC_KEEP_APART_H */
