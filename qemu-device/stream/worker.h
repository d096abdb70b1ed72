/*
 * rnic: workers, the threads of the data path
 *
 * A worker is an event loop in an IOThread (the device's own, or iothread=),
 * or the main loop: with io-threads=0, and behind a vIOMMU, whose faults are
 * reported under the big lock only.  A QP and its LLP stream belong to one
 * worker for life: only code that runs in the worker touches them.
 *
 * The main loop asks a worker for something by a request (requests.h) and does
 * not wait for it.  The exception is rnic_worker_halt().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_WORKER_H
#define HW_RNIC_WORKER_H

#include "qemu/atomic.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/base/rnic.h"
#include "hw/rnic/guest/dma.h"
#include "system/iothread.h"

typedef void RnicWorkerFn(RnicWorker *worker);

struct RnicWorker {
    RnicState *s;
    AioContext *bottom_halves;  /* where bottom halves run */
    AioContext *sockets;        /* where file descriptors are watched */
    IOThread *thread;           /* NULL: the main loop */
    bool own;                   /* made by this device */
    unsigned qps;               /* main loop only */
    RnicRequests *requests;     /* about its QPs */
    RnicWorkerFn *at_stop;      /* see rnic_workers_stop() */
    QemuSemaphore called;       /* the end of a function of rnic_worker_halt() */
    RnicDmaWindow window;       /* open within a turn only */
    RnicLingers *lingers;       /* streams that are being closed */
    bool halted;                /* any thread, atomic */

    /* verbs/busy-poll.c */
    uint32_t turns_of;          /* the QP that took the last turn */
    unsigned turns_in_a_row;    /* that it took */
};

/*
 * Make the threads that the properties ask for.  False with @errp set; then
 * rnic_workers_destroy() is still to be called.  Main loop.
 */
bool rnic_workers_create(RnicState *s, Error **errp);
/* Main loop; the workers are not in use. */
void rnic_workers_destroy(RnicState *s);

/*
 * With ENABLE: choose where each worker runs, as the machine is now (behind a
 * vIOMMU or not).  Main loop.
 */
void rnic_workers_start(RnicState *s);
bool rnic_workers_started(const RnicState *s);

/*
 * Halt the workers one after the other, with @fn, see rnic_worker_halt(), and
 * cancel all requests.  They are not in use until rnic_workers_start().  Main
 * loop.
 */
void rnic_workers_stop(RnicState *s, RnicWorkerFn *fn);

/*
 * The same, for good until they are stopped, but streams that are being closed go
 * on with that.  They have been started.  Main loop.
 */
void rnic_workers_fail(RnicState *s, RnicWorkerFn *fn);

/*
 * Have all turns end early, run @fn in the worker, and wait for that: the one
 * place where the main loop waits for a worker.  No turn and no request runs
 * from then on, and @fn may read what is the main loop's.  Main loop, without
 * the TPT lock.
 */
void rnic_worker_halt(RnicWorker *worker, RnicWorkerFn *fn);

/* Before several are halted: have all of them end their turns at the same time. */
void rnic_workers_end_turns(RnicState *s);

/* Turns and requests run again.  What did not run meanwhile is the caller's to
 * schedule, except for requests.  Main loop. */
void rnic_worker_go(RnicWorker *worker);

/* What runs in the worker is to return at once. */
static inline bool rnic_worker_halted(const RnicWorker *worker)
{
    return qatomic_read(&worker->halted);
}

/* The worker with the fewest QPs, one more from now on.  Main loop. */
RnicWorker *rnic_worker_take(RnicState *s);
void rnic_worker_release(RnicWorker *worker);

#endif /* HW_RNIC_WORKER_H */
