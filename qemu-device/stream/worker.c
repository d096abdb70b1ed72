/*
 * rnic: workers, the threads of the data path
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "hw/rnic/base/trace.h"
#include "requests.h"
#include "worker.h"

/* ---------------------------------------------------------------- use */

RnicWorker *rnic_worker_take(RnicState *s)
{
    RnicWorker *best = &s->workers[0];

    for (unsigned i = 1; i < s->worker_count; i++) {
        if (s->workers[i].qps < best->qps) {
            best = &s->workers[i];
        }
    }
    best->qps++;
    return best;
}

void rnic_worker_release(RnicWorker *worker)
{
    worker->qps--;
}

/* --------------------------------------------------------------- halt */

typedef struct HaltCall {
    RnicWorker *worker;
    RnicWorkerFn *fn;
} HaltCall;

static bool in_worker(const RnicWorker *worker)
{
    return worker->bottom_halves == qemu_get_current_aio_context();
}

static void halt_bh(void *opaque)
{
    HaltCall *call = opaque;

    call->fn(call->worker);
    qemu_sem_post(&call->worker->called);
}

/*
 * Not aio_wait_bh_oneshot(): that runs other bottom halves of the main loop
 * while it waits, and a reset must not find an admin command half done.
 */
void rnic_worker_halt(RnicWorker *worker, RnicWorkerFn *fn)
{
    HaltCall call = { worker, fn };

    qatomic_set(&worker->halted, true);
    if (in_worker(worker)) {
        fn(worker);
        return;
    }
    aio_bh_schedule_oneshot(worker->bottom_halves, halt_bh, &call);
    qemu_sem_wait(&worker->called);
}

void rnic_workers_end_turns(RnicState *s)
{
    for (unsigned i = 0; i < s->worker_count; i++) {
        qatomic_set(&s->workers[i].halted, true);
    }
}

void rnic_worker_go(RnicWorker *worker)
{
    qatomic_set(&worker->halted, false);
    rnic_requests_go(worker->requests);
    if (worker == worker->s->workers) {
        rnic_requests_go(worker->s->tpt_requests);
    }
}

/* ------------------------------------------------- life of the threads */

/*
 * The event loop outlives its IOThread when QEMU ends without unplugging the
 * device: it still holds the QPs' bottom halves.
 */
static void worker_init(RnicState *s, RnicWorker *worker, IOThread *thread,
                        bool own)
{
    *worker = (RnicWorker) { .s = s, .thread = thread, .own = own };
    qemu_sem_init(&worker->called, 0);
    if (thread) {
        aio_context_ref(iothread_get_aio_context(thread));
    }
}

static void worker_cleanup(RnicWorker *worker)
{
    AioContext *ctx;

    assert(worker->qps == 0 && !worker->requests);
    if (worker->thread) {
        ctx = iothread_get_aio_context(worker->thread);
        if (worker->own) {
            iothread_destroy(worker->thread);
        }
        aio_context_unref(ctx);
    }
    qemu_sem_destroy(&worker->called);
}

/* A name of QEMU's own objects, not of the user's; all adapters count on. */
static IOThread *worker_new_thread(Error **errp)
{
    static unsigned number;
    g_autofree char *name = g_strdup_printf("rnic-io%u", number++);

    return iothread_create(name, errp);
}

static bool workers_create_own(RnicState *s, unsigned count, Error **errp)
{
    s->workers = g_new0(RnicWorker, count);
    while (s->worker_count < count) {
        IOThread *thread = worker_new_thread(errp);

        if (!thread) {
            return false;
        }
        worker_init(s, &s->workers[s->worker_count++], thread, true);
    }
    return true;
}

bool rnic_workers_create(RnicState *s, Error **errp)
{
    int32_t wanted = s->config.io_threads;

    if (s->iothread && wanted != RNIC_IO_THREADS_AUTO) {
        error_setg(errp, "iothread= and io-threads=%d contradict each "
                   "other; give one of them", wanted);
        return false;
    }
    if (s->iothread || wanted == 0) {
        s->workers = g_new0(RnicWorker, 1);
        s->worker_count = 1;
        worker_init(s, s->workers, s->iothread, false);
        return true;
    }
    return workers_create_own(s, wanted == RNIC_IO_THREADS_AUTO ? 1 : wanted,
                              errp);
}

void rnic_workers_destroy(RnicState *s)
{
    for (unsigned i = 0; i < s->worker_count; i++) {
        worker_cleanup(&s->workers[i]);
    }
    s->worker_count = 0;
    g_clear_pointer(&s->workers, g_free);
}

/* ------------------------------------------------------- start and stop */

/*
 * A vIOMMU that cannot translate tells the guest, by an interrupt, and takes
 * that the big lock is held for granted.
 */
static bool workers_in_main_loop(const RnicState *s)
{
    return rnic_dma_behind_iommu(s);
}

static void worker_start(RnicWorker *worker, bool in_main_loop)
{
    if (worker->thread && !in_main_loop) {
        worker->bottom_halves = iothread_get_aio_context(worker->thread);
        worker->sockets = worker->bottom_halves;
    } else {
        worker->bottom_halves = qemu_get_aio_context();
        worker->sockets = iohandler_get_aio_context();
    }
    worker->halted = worker->s->stopped;
    worker->requests = rnic_requests_new(worker);
    worker->lingers = rnic_lingers_new(worker->sockets);
}

void rnic_workers_start(RnicState *s)
{
    bool in_main_loop = workers_in_main_loop(s);

    for (unsigned i = 0; i < s->worker_count; i++) {
        worker_start(&s->workers[i], in_main_loop);
    }
    s->tpt_requests = rnic_requests_new(&s->workers[0]);
    trace_rnic_workers_start(s->worker_count, in_main_loop);
}

bool rnic_workers_started(const RnicState *s)
{
    return s->worker_count && s->workers[0].requests;
}

static void worker_stop(RnicWorker *worker)
{
    RnicState *s = worker->s;

    worker->at_stop(worker);
    rnic_lingers_end(worker->lingers);
    rnic_requests_stop(worker->requests);
    if (worker == s->workers) {
        rnic_requests_stop(s->tpt_requests);
    }
}

void rnic_workers_fail(RnicState *s, RnicWorkerFn *fn)
{
    rnic_workers_end_turns(s);
    for (unsigned i = 0; i < s->worker_count; i++) {
        rnic_worker_halt(&s->workers[i], fn);
    }
    for (unsigned i = 0; i < s->worker_count; i++) {
        rnic_requests_end(s->workers[i].requests);
    }
    rnic_requests_end(s->tpt_requests);
}

void rnic_workers_stop(RnicState *s, RnicWorkerFn *fn)
{
    if (!rnic_workers_started(s)) {
        return;
    }
    rnic_workers_end_turns(s);
    for (unsigned i = 0; i < s->worker_count; i++) {
        s->workers[i].at_stop = fn;
        rnic_worker_halt(&s->workers[i], worker_stop);
    }
    for (unsigned i = 0; i < s->worker_count; i++) {
        g_clear_pointer(&s->workers[i].requests, rnic_requests_free);
        g_clear_pointer(&s->workers[i].lingers, rnic_lingers_free);
    }
    g_clear_pointer(&s->tpt_requests, rnic_requests_free);
}
