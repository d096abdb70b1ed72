/*
 * rnic: workers, the threads of the data path
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "hw/rnic/base/trace.h"
#include "worker.h"

typedef struct Call {
    RnicWorker *worker;
    RnicWorkerFn *fn;
    void *opaque;
} Call;

static bool in_worker(const RnicWorker *worker)
{
    return !worker->thread ||
           qemu_get_current_aio_context() == worker->bottom_halves;
}

static void call_bh(void *opaque)
{
    Call *call = opaque;

    call->fn(call->opaque);
    qemu_sem_post(&call->worker->called);
}

/*
 * Not aio_wait_bh_oneshot(): that runs other bottom halves while it waits, and
 * an admin command must not find another one half done.
 */
void rnic_worker_call(RnicWorker *worker, RnicWorkerFn *fn, void *opaque)
{
    Call call = { worker, fn, opaque };

    if (in_worker(worker)) {
        fn(opaque);
        return;
    }
    rnic_worker_want(worker, true);
    aio_bh_schedule_oneshot(worker->bottom_halves, call_bh, &call);
    qemu_sem_wait(&worker->called);
}

void rnic_worker_count_turn(RnicWorker *worker, uint32_t qpn)
{
    if (worker->turns_of != qpn) {
        worker->turns_of = qpn;
        worker->turns_in_a_row = 0;
    }
    worker->turns_in_a_row++;
}

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

/* --------------------------------------------------- life of workers */

/*
 * The event loop outlives its IOThread when QEMU ends without unplugging the
 * device: it still holds the QPs' bottom halves.
 */
static void use_thread(RnicWorker *worker, IOThread *thread, bool own)
{
    AioContext *ctx = iothread_get_aio_context(thread);

    aio_context_ref(ctx);
    *worker = (RnicWorker) {
        .bottom_halves = ctx,
        .sockets = ctx,
        .thread = thread,
        .own = own,
    };
    qemu_sem_init(&worker->called, 0);
}

static void use_main_loop(RnicWorker *worker)
{
    *worker = (RnicWorker) {
        .bottom_halves = qemu_get_aio_context(),
        .sockets = iohandler_get_aio_context(),
    };
}

/* A name of QEMU's own objects, not of the user's; all adapters count on. */
static IOThread *new_thread(Error **errp)
{
    static unsigned number;
    g_autofree char *name = g_strdup_printf("rnic-io%u", number++);

    return iothread_create(name, errp);
}

static bool create_own(RnicState *s, unsigned count, Error **errp)
{
    s->workers = g_new0(RnicWorker, count);
    while (s->worker_count < count) {
        IOThread *thread = new_thread(errp);

        if (!thread) {
            return false;
        }
        use_thread(&s->workers[s->worker_count++], thread, true);
    }
    return true;
}

static void create_one(RnicState *s)
{
    s->workers = g_new0(RnicWorker, 1);
    s->worker_count = 1;
    if (s->iothread) {
        use_thread(s->workers, s->iothread, false);
    } else {
        use_main_loop(s->workers);
    }
}

bool rnic_workers_create(RnicState *s, Error **errp)
{
    int32_t wanted = s->config.io_threads;

    if (s->iothread && wanted != RNIC_IO_THREADS_AUTO) {
        error_setg(errp, "rnic: iothread= and io-threads=%d contradict each "
                   "other; give one of them", wanted);
        return false;
    }
    if (s->iothread || wanted == 0) {
        create_one(s);
        return true;
    }
    return create_own(s, wanted == RNIC_IO_THREADS_AUTO ? 1 : wanted, errp);
}

void rnic_workers_destroy(RnicState *s)
{
    for (unsigned i = 0; i < s->worker_count; i++) {
        RnicWorker *worker = &s->workers[i];

        assert(worker->qps == 0);
        if (worker->own) {
            iothread_destroy(worker->thread);
        }
        if (worker->thread) {
            qemu_sem_destroy(&worker->called);
            aio_context_unref(worker->bottom_halves);
        }
    }
    s->worker_count = 0;
    g_clear_pointer(&s->workers, g_free);
}
