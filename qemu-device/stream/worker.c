/*
 * rnic: workers, the threads of the data path
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#ifdef CONFIG_LINUX
#include <sys/resource.h>
#include <sys/syscall.h>
#endif
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
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

enum {
    FLOW_NS = 100 * 1000,
    FULL_FLOW = 128 * 1024,     /* octets in that time */
};

bool rnic_worker_full_flow(RnicWorker *worker, size_t octets)
{
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_REALTIME);
    int64_t passed = now - worker->flow_since;

    if (passed > FLOW_NS) {
        worker->flow_octets = passed > 2 * FLOW_NS ? 0
                                                   : worker->flow_octets / 2;
        worker->flow_since = now;
    }
    worker->flow_octets += octets;
    return worker->flow_octets >= FULL_FLOW;
}

unsigned rnic_worker_busy_streams(RnicWorker *worker, unsigned *period)
{
    return rnic_busy_streams(&worker->busy, period,
                             qemu_clock_get_ns(QEMU_CLOCK_REALTIME));
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

/* ---------------------------------------------------------- scheduling */

enum { SLICE_NS = 100 * 1000 };

/*
 * Guests that poll a CQ keep their processors busy.  A worker that wakes up on
 * a full host would wait for the end of a vCPU's time slice, milliseconds; with
 * a shorter slice of its own, Linux (6.12 and later) lets it run at once.  Its
 * share of the processors stays the same, no privilege is needed, and older
 * hosts ignore it.
 */
static void ask_for_short_slices(void *opaque)
{
#if defined(CONFIG_LINUX) && defined(SYS_sched_setattr)
    const struct {              /* sched_setattr(2), as of its first version */
        uint32_t size;
        uint32_t sched_policy;
        uint64_t sched_flags;
        int32_t sched_nice;
        uint32_t sched_priority;
        uint64_t sched_runtime;
        uint64_t sched_deadline;
        uint64_t sched_period;
    } attr = {
        .size = sizeof(attr),
        .sched_policy = SCHED_OTHER,
        .sched_nice = getpriority(PRIO_PROCESS, 0),
        .sched_runtime = SLICE_NS,
    };

    if (sched_getscheduler(0) == SCHED_OTHER) {
        syscall(SYS_sched_setattr, 0, &attr, 0);
    }
#endif
}

void rnic_worker_keep_apart(RnicWorker *worker, int theirs)
{
    int own = rnic_own_processor();

    if (worker->own &&
        rnic_keep_apart_due(&worker->apart, own, theirs,
                            qemu_clock_get_ns(QEMU_CLOCK_REALTIME))) {
        bool left = rnic_leave_processor(own);

        trace_rnic_worker_leaves(own, left);
    }
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
    rnic_late_bells_init(&worker->late_bells, ctx);
}

static void use_main_loop(RnicWorker *worker)
{
    *worker = (RnicWorker) {
        .bottom_halves = qemu_get_aio_context(),
        .sockets = iohandler_get_aio_context(),
    };
    rnic_late_bells_init(&worker->late_bells, worker->bottom_halves);
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
        use_thread(&s->workers[s->worker_count], thread, true);
        rnic_worker_call(&s->workers[s->worker_count++], ask_for_short_slices,
                         NULL);
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

/* In the worker: its event loop may be coming round just now. */
static void destroy_late_bells(void *opaque)
{
    RnicWorker *worker = opaque;

    rnic_late_bells_destroy(&worker->late_bells);
}

void rnic_workers_destroy(RnicState *s)
{
    for (unsigned i = 0; i < s->worker_count; i++) {
        RnicWorker *worker = &s->workers[i];

        assert(worker->qps == 0);
        rnic_worker_call(worker, destroy_late_bells, worker);
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
