/*
 * rnic: how many streams of a worker are busy at the same time
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "busy-streams.h"

enum { PERIOD_NS = 100 * SCALE_MS };

static void next_period(RnicBusyStreams *busy, int64_t now)
{
    busy->before = now - busy->until < PERIOD_NS ? busy->counted : 0;
    busy->counted = 0;
    busy->period++;
    busy->until = now + PERIOD_NS;
}

unsigned rnic_busy_streams(RnicBusyStreams *busy, unsigned *period,
                           int64_t now)
{
    if (now >= busy->until) {
        next_period(busy, now);
    }
    if (*period != busy->period) {
        *period = busy->period;
        busy->counted++;
    }
    return MAX(busy->before, busy->counted);
}
