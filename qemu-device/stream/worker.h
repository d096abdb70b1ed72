/*
 * rnic: workers, the threads of the data path
 *
 * A worker is an event loop in an IOThread (the device's own, or iothread=),
 * or, with io-threads=0, the main loop.  A QP and its LLP stream belong to one
 * worker for life: only code that runs in the worker touches them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_WORKER_H
#define HW_RNIC_WORKER_H

#include "qemu/atomic.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/base/rnic.h"
#include "system/iothread.h"

typedef struct RnicWorker {
    AioContext *bottom_halves;  /* where bottom halves run */
    AioContext *sockets;        /* where file descriptors are watched */
    IOThread *thread;           /* NULL: the main loop */
    bool own;                   /* made by this device */
    unsigned qps;               /* main loop only */
    QemuSemaphore called;       /* the end of rnic_worker_call() */
    RnicDmaWindow window;       /* open within a turn only */
    uint32_t turns_of;          /* the QP that took the last turn */
    unsigned turns_in_a_row;    /* that it took */
    bool wanted;                /* rnic_worker_wanted(); any thread, atomic */
} RnicWorker;

typedef void RnicWorkerFn(void *opaque);

/*
 * Make the workers that the properties ask for.  False with @errp set; then
 * rnic_workers_destroy() is still to be called.  Main loop.
 */
bool rnic_workers_create(RnicState *s, Error **errp);
/* Main loop; no QP is left. */
void rnic_workers_destroy(RnicState *s);

/* A turn of QP @qpn begins.  The worker's thread. */
void rnic_worker_count_turn(RnicWorker *worker, uint32_t qpn);

/*
 * Somebody has something for the worker to do, soon to be scheduled.  Any
 * thread.  Does away with it: a turn that is going to see to all there is.
 */
static inline void rnic_worker_want(RnicWorker *worker, bool wanted)
{
    qatomic_set(&worker->wanted, wanted);
}

/* It need not look for more to do. */
static inline bool rnic_worker_wanted(const RnicWorker *worker)
{
    return qatomic_read(&worker->wanted);
}

/* The worker with the fewest QPs, one more from now on.  Main loop. */
RnicWorker *rnic_worker_take(RnicState *s);
void rnic_worker_release(RnicWorker *worker);

/*
 * Run @fn in the worker, between two turns, and wait until it is done.  Called
 * under the big lock, hence one at a time, without the TPT lock; workers never
 * wait for the big lock, so this takes no longer than a turn.  From within the
 * worker it is a plain call.
 */
void rnic_worker_call(RnicWorker *worker, RnicWorkerFn *fn, void *opaque);

#endif /* HW_RNIC_WORKER_H */
