/*
 * rnic: requests, a FIFO from the main loop to a worker and back
 *
 * A request stays at the head of the FIFO while it is worked on, so that none
 * overtakes it.  The worker serves its QPs between two parts of one request.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "requests.h"

enum {
    REQUESTS_PER_TURN = 16,
    ANSWERS_PER_TURN = 64,
};

typedef QSIMPLEQ_HEAD(, RnicRequest) RequestList;

struct RnicRequests {
    RnicWorker *worker;
    QemuMutex lock;             /* of both lists */
    RequestList asked;
    RequestList answered;
    QEMUBH *work_bh;            /* the worker's */
    QEMUBH *answer_bh;          /* the main loop's */
};

static RnicRequest *requests_first(RnicRequests *r, RequestList *list)
{
    QEMU_LOCK_GUARD(&r->lock);
    return QSIMPLEQ_FIRST(list);
}

static RnicRequest *requests_take(RnicRequests *r, RequestList *list)
{
    RnicRequest *request;

    QEMU_LOCK_GUARD(&r->lock);
    request = QSIMPLEQ_FIRST(list);
    if (request) {
        QSIMPLEQ_REMOVE_HEAD(list, next);
    }
    return request;
}

static void requests_answer(RnicRequests *r)
{
    WITH_QEMU_LOCK_GUARD(&r->lock) {
        RnicRequest *request = QSIMPLEQ_FIRST(&r->asked);

        QSIMPLEQ_REMOVE_HEAD(&r->asked, next);
        QSIMPLEQ_INSERT_TAIL(&r->answered, request, next);
    }
    qemu_bh_schedule(r->answer_bh);
}

static void requests_work_bh(void *opaque)
{
    RnicRequests *r = opaque;
    RnicRequest *request;

    for (int i = 0; i < REQUESTS_PER_TURN; i++) {
        request = requests_first(r, &r->asked);
        if (!request || rnic_worker_halted(r->worker)) {
            return;
        }
        if (request->work(request) == RNIC_WORK_AGAIN) {
            break;
        }
        requests_answer(r);
    }
    qemu_bh_schedule(r->work_bh);
}

static void requests_answer_bh(void *opaque)
{
    RnicRequests *r = opaque;
    RnicRequest *request;

    if (qatomic_read(&r->worker->s->stopped)) {
        return;                 /* an answer is written to guest memory */
    }
    for (int i = 0; i < ANSWERS_PER_TURN; i++) {
        request = requests_take(r, &r->answered);
        if (!request) {
            return;
        }
        request->done(request);
    }
    qemu_bh_schedule(r->answer_bh);
}

RnicRequests *rnic_requests_new(RnicWorker *worker)
{
    RnicRequests *r = g_new0(RnicRequests, 1);

    r->worker = worker;
    qemu_mutex_init(&r->lock);
    QSIMPLEQ_INIT(&r->asked);
    QSIMPLEQ_INIT(&r->answered);
    /* No re-entrancy guard: it is the big lock's, and what a worker does
     * cannot reach MMIO (dma.h). */
    r->work_bh = aio_bh_new(worker->bottom_halves, requests_work_bh, r);
    r->answer_bh = qemu_bh_new_guarded(
        requests_answer_bh, r, &DEVICE(worker->s)->mem_reentrancy_guard);
    return r;
}

void rnic_requests_stop(RnicRequests *r)
{
    g_clear_pointer(&r->work_bh, qemu_bh_delete);
}

static void requests_cancel(RnicRequests *r, RequestList *list)
{
    RnicRequest *request;

    while ((request = requests_take(r, list))) {
        request->cancel(request);
    }
}

void rnic_requests_end(RnicRequests *r)
{
    RnicRequest *request;

    while ((request = requests_take(r, &r->answered))) {
        request->done(request);
    }
    requests_cancel(r, &r->asked);
}

void rnic_requests_free(RnicRequests *r)
{
    requests_cancel(r, &r->answered);
    requests_cancel(r, &r->asked);
    qemu_bh_delete(r->answer_bh);
    qemu_mutex_destroy(&r->lock);
    g_free(r);
}

void rnic_requests_add(RnicRequests *r, RnicRequest *request)
{
    WITH_QEMU_LOCK_GUARD(&r->lock) {
        QSIMPLEQ_INSERT_TAIL(&r->asked, request, next);
    }
    qemu_bh_schedule(r->work_bh);
}

void rnic_requests_go(RnicRequests *r)
{
    qemu_bh_schedule(r->answer_bh);
    qemu_bh_schedule(r->work_bh);
}
