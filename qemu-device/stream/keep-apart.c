/*
 * rnic: two threads that work at the same time, on processors of their own
 *
 * Linux draws a thread to the processor of the one that wakes it.  On a host
 * with fewer processors than busy threads that can last: both data threads of
 * two virtual machines take turns on one processor, and on the other one two
 * vCPUs do nothing but look for completions.  As the load is the same on both,
 * the scheduler finds nothing to mend.
 *
 * So the thread that finds the other one where it is itself, time and again,
 * leaves; where to is up to the host.  It does so seldom enough to cost nothing
 * where there is no better place, or where the peer does not tell the truth.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "keep-apart.h"

enum {
    MET = 16,
    PAUSE_NS = 20 * SCALE_MS,
};

bool rnic_keep_apart_due(RnicKeepApart *apart, int own, int theirs,
                         int64_t now)
{
    if (own < 0 || own != theirs) {
        apart->met = 0;
        return false;
    }
    if (++apart->met < MET || now < apart->next) {
        return false;
    }
    apart->met = 0;
    apart->next = now + PAUSE_NS;
    return true;
}

#ifdef CONFIG_LINUX

int rnic_own_processor(void)
{
    return sched_getcpu();
}

bool rnic_leave_processor(int processor)
{
    cpu_set_t all, others, set;

    if (sched_getaffinity(0, sizeof(all), &all) < 0) {
        return false;
    }
    others = all;
    CPU_CLR(processor, &others);
    if (CPU_COUNT(&others) == 0 ||
        sched_setaffinity(0, sizeof(others), &others) < 0) {
        return false;
    }
    /* Unless somebody else has set it meanwhile. */
    if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
        CPU_EQUAL(&set, &others)) {
        sched_setaffinity(0, sizeof(all), &all);
    }
    return true;
}

#else

int rnic_own_processor(void)
{
    return -1;
}

bool rnic_leave_processor(int processor)
{
    return false;
}

#endif
