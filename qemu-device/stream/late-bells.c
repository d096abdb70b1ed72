/*
 * rnic: bells of shared rings that are rung late, to the good of all
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "late-bells.h"

enum {
    /* More than a processor's own cache holds: 1 MiB where it was measured. */
    LATE_OCTETS = 1536 * 1024,
};

static void ring_first(RnicLateBells *bells)
{
    RnicLateBell *bell = QTAILQ_FIRST(&bells->queue);

    rnic_late_bells_remove(bells, bell);
    bell->ring(bell);
}

/* With nothing written since last time there is nothing to wait for. */
static void came_round(void *opaque)
{
    RnicLateBells *bells = opaque;

    if (bells->octets != bells->octets_before) {
        bells->octets_before = bells->octets;
        if (!QTAILQ_EMPTY(&bells->queue)) {
            qemu_bh_schedule(bells->bh);
        }
        return;
    }
    while (!QTAILQ_EMPTY(&bells->queue)) {
        ring_first(bells);
    }
}

void rnic_late_bells_init(RnicLateBells *bells, AioContext *ctx)
{
    *bells = (RnicLateBells) { 0 };
    QTAILQ_INIT(&bells->queue);
    bells->bh = aio_bh_new(ctx, came_round, bells);
}

void rnic_late_bells_destroy(RnicLateBells *bells)
{
    assert(QTAILQ_EMPTY(&bells->queue));
    qemu_bh_delete(bells->bh);
}

void rnic_late_bells_add(RnicLateBells *bells, RnicLateBell *bell)
{
    if (!bell->due) {
        bell->due = true;
        bell->since = bells->octets;
        QTAILQ_INSERT_TAIL(&bells->queue, bell, next);
        qemu_bh_schedule(bells->bh);
    }
}

void rnic_late_bells_remove(RnicLateBells *bells, RnicLateBell *bell)
{
    if (bell->due) {
        bell->due = false;
        QTAILQ_REMOVE(&bells->queue, bell, next);
    }
}

void rnic_late_bells_written(RnicLateBells *bells, size_t n)
{
    RnicLateBell *first;

    bells->octets += n;
    while ((first = QTAILQ_FIRST(&bells->queue)) &&
           bells->octets - first->since >= LATE_OCTETS) {
        ring_first(bells);
    }
}
