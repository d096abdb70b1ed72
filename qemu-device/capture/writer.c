/*
 * rnic: the writer of a capture, a bounded buffer and a thread
 *
 * Positions in the buffer count octets since the start.  A block is never cut at
 * the buffer's end: a mark there says that the next one is at the beginning.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <poll.h>
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/lockable.h"
#include "qemu/thread.h"
#include "qemu/timer.h"
#include "file.h"
#include "packet.h"
#include "pcapng.h"
#include "writer.h"
#include "hw/rnic/base/trace.h"

enum {
    /* Types that no block in the buffer has. */
    MARK_WRAP = 0,
    MARK_NEXT_FILE = 2,
    NEXT_FILE_LEN = 32,         /* type, length, RnicCaptureCounts */

    RUN_MAX = 1024 * 1024,      /* octets of one write */
    /*
     * The thread lets octets gather: to wake it for each packet costs the streams more
     * than to copy the packet.
     */
    GATHER_MS = 20,
    GATHERED = 256 * 1024,      /* and not more than a quarter of the buffer */
    POLL_MS = 50,
    OPEN_MS = 5000,
    /* At the end: without progress, the thread's and the caller's. */
    STUCK_MS = 500,
    PROGRESS_MS = 2000,
    /* For the thread, which has been told to leave out the rest. */
    LEAVE_MS = 500,
};

typedef enum WriterPhase {
    WRITER_OPENS,
    WRITER_RUNS,
    WRITER_DONE,
} WriterPhase;

struct RnicCaptureWriter {
    QemuThread thread;
    QemuMutex lock;             /* of what follows, up to the blank line */
    QemuCond wake;              /* the thread */
    QemuCond told;              /* who waits for it */
    WriterPhase phase;
    Error *refused;             /* with DONE, before RUNS */
    uint64_t head;              /* octets put; in front of it is the reserved */
    uint64_t tail;              /* octets written */
    uint64_t progress;          /* octets that the file has taken */
    bool ending;
    bool leaving;               /* what is in the buffer is left out */
    RnicCaptureCounts counts;   /* with ending */

    bool failed;                /* set by the thread; atomic */
    int refs;                   /* the thread's and the other threads' */
    size_t skip;                /* of the reserved: up to the buffer's end */
    uint8_t *buffer;
    size_t size;

    int fd;                     /* the thread's, as is the rest */
    char *file;
    uint32_t snaplen;
    bool ring;
    uint32_t files;
    RnicCaptureCounts left_out; /* at the end: what is added to the last file's */
};

/* ------------------------------------------------------------- the thread */

static int64_t writer_now(void)
{
    return get_clock() / SCALE_MS;
}

static void writer_fail(RnicCaptureWriter *w, Error *err)
{
    trace_rnic_err_capture(w->file, error_get_pretty(err));
    error_report_err(err);
    qatomic_set(&w->failed, true);
}

static bool writer_is_ending(RnicCaptureWriter *w)
{
    QEMU_LOCK_GUARD(&w->lock);
    return w->ending;
}

static bool writer_is_leaving(RnicCaptureWriter *w)
{
    QEMU_LOCK_GUARD(&w->lock);
    return w->leaving;
}

static void writer_made_progress(RnicCaptureWriter *w, size_t octets)
{
    QEMU_LOCK_GUARD(&w->lock);
    w->progress += octets;
}

/* False: what the file is takes nothing, and the capture is over. */
static bool writer_await_room(RnicCaptureWriter *w, int64_t *stuck_since)
{
    struct pollfd p = { .fd = w->fd, .events = POLLOUT };
    int64_t now = writer_now();

    if (poll(&p, 1, POLL_MS) > 0 || !writer_is_ending(w)) {
        *stuck_since = now;
        return true;
    }
    return now - *stuck_since < STUCK_MS;
}

static void writer_put(RnicCaptureWriter *w, const uint8_t *octets, size_t len)
{
    int64_t stuck_since = writer_now();
    Error *err = NULL;

    while (len && !w->failed) {
        ssize_t n = RETRY_ON_EINTR(write(w->fd, octets, len));

        if (n >= 0) {
            octets += n;
            len -= n;
            writer_made_progress(w, n);
            continue;
        }
        if (errno != EAGAIN) {
            error_setg_errno(&err, errno, "capture: cannot write to %s; the "
                             "capture ends here", w->file);
            writer_fail(w, err);
        } else if (!writer_await_room(w, &stuck_since)) {
            error_setg(&err, "capture: %s takes nothing; what was left at "
                       "the end is lost", w->file);
            writer_fail(w, err);
        }
    }
}

static void writer_put_head(RnicCaptureWriter *w)
{
    uint8_t head[RNIC_PCAPNG_HEAD_MAX];

    writer_put(w, head, rnic_pcapng_head(head, w->snaplen));
}

static void writer_put_counts(RnicCaptureWriter *w,
                              const RnicCaptureCounts *counts)
{
    uint8_t block[RNIC_PCAPNG_STATISTICS_MAX];

    writer_put(w, block,
               rnic_pcapng_statistics(block,
                                      qemu_clock_get_ns(QEMU_CLOCK_HOST),
                                      counts->received, counts->dropped,
                                      counts->truncated));
}

/*
 * The file that was current keeps its lock until it has another name: nobody else's
 * capture can begin in it.
 */
static bool writer_renew_file(RnicCaptureWriter *w, Error **errp)
{
    int old = w->fd;

    if (w->files == 1) {
        if (lseek(old, 0, SEEK_SET) < 0) {
            error_setg_errno(errp, errno, "capture: %s", w->file);
            return false;
        }
        return rnic_capture_file_clear(old, w->file, errp);
    }
    if (!rnic_capture_file_age(w->file, w->files, errp)) {
        return false;
    }
    w->fd = rnic_capture_file_open(w->file, true, errp);
    close(old);
    return w->fd >= 0 && rnic_capture_file_clear(w->fd, w->file, errp);
}

static void writer_change_file(RnicCaptureWriter *w, const uint8_t *mark)
{
    RnicCaptureCounts counts;
    Error *err = NULL;

    if (w->failed) {
        return;
    }
    memcpy(&counts, mark + 8, sizeof(counts));
    writer_put_counts(w, &counts);
    if (w->failed) {
        return;
    }
    if (!writer_renew_file(w, &err)) {
        writer_fail(w, err);
        return;
    }
    trace_rnic_capture_next_file(w->file);
    writer_put_head(w);
}

/* In the writer's thread: to sum up megabytes costs time. */
static void writer_finish_packet(uint8_t *block)
{
    uint32_t captured = ldl_le_p(block + RNIC_PCAPNG_AT_CAPTURED);

    if (captured == ldl_le_p(block + RNIC_PCAPNG_AT_ORIGINAL)) {
        rnic_packet_checksum(block + RNIC_PCAPNG_AT_DATA, captured);
    }
}

/* Octets of the blocks at @from, before @end and without a mark. */
static size_t writer_run(RnicCaptureWriter *w, uint8_t *from, size_t end)
{
    size_t run = 0;

    while (run < end && run < RUN_MAX &&
           ldl_le_p(from + run) == RNIC_PCAPNG_PACKET) {
        writer_finish_packet(from + run);
        run += ldl_le_p(from + run + RNIC_PCAPNG_AT_LENGTH);
    }
    return run;
}

/* Returns octets of the buffer that have been dealt with, of @len. */
static size_t writer_take(RnicCaptureWriter *w, uint64_t tail, size_t len)
{
    size_t at = tail % w->size;
    uint8_t *from = w->buffer + at;
    size_t run;

    switch (ldl_le_p(from)) {
    case MARK_WRAP:
        return w->size - at;
    case MARK_NEXT_FILE:
        writer_change_file(w, from);
        return NEXT_FILE_LEN;
    default:
        run = writer_run(w, from, MIN(len, w->size - at));
        writer_put(w, from, run);
        return run;
    }
}

/* By the rate, not by the snap length. */
static bool writer_is_truncated(const RnicCaptureWriter *w, const uint8_t *block)
{
    uint32_t captured = ldl_le_p(block + RNIC_PCAPNG_AT_CAPTURED);
    uint32_t original = ldl_le_p(block + RNIC_PCAPNG_AT_ORIGINAL);

    return captured < (w->snaplen ? MIN(w->snaplen, original) : original);
}

/* The same, but nothing goes to the file: its statistics have to say so. */
static size_t writer_leave_out(RnicCaptureWriter *w, uint64_t tail)
{
    size_t at = tail % w->size;
    const uint8_t *from = w->buffer + at;
    RnicCaptureCounts counts;

    switch (ldl_le_p(from)) {
    case MARK_WRAP:
        return w->size - at;
    case MARK_NEXT_FILE:
        /* There is no next one: these packets count here as well. */
        memcpy(&counts, from + 8, sizeof(counts));
        w->left_out.received += counts.received;
        w->left_out.dropped += counts.dropped;
        w->left_out.truncated += counts.truncated;
        return NEXT_FILE_LEN;
    default:
        w->left_out.dropped++;
        w->left_out.truncated -= writer_is_truncated(w, from);
        return ldl_le_p(from + RNIC_PCAPNG_AT_LENGTH);
    }
}

static bool writer_has_gathered(const RnicCaptureWriter *w, uint64_t octets)
{
    return octets >= MIN(GATHERED, w->size / 4);
}

/* Octets that are there, once there are any; 0: the end. */
static size_t writer_await(RnicCaptureWriter *w)
{
    QEMU_LOCK_GUARD(&w->lock);
    while (w->head == w->tail && !w->ending) {
        qemu_cond_wait(&w->wake, &w->lock);
    }
    if (!writer_has_gathered(w, w->head - w->tail) && !w->ending) {
        qemu_cond_timedwait(&w->wake, &w->lock, GATHER_MS);
    }
    return w->head - w->tail;
}

static void writer_unref(RnicCaptureWriter *w)
{
    if (qatomic_fetch_dec(&w->refs) > 1) {
        return;
    }
    qemu_cond_destroy(&w->told);
    qemu_cond_destroy(&w->wake);
    qemu_mutex_destroy(&w->lock);
    error_free(w->refused);
    g_free(w->buffer);
    g_free(w->file);
    g_free(w);
}

static void writer_tell(RnicCaptureWriter *w, WriterPhase phase, Error *refused)
{
    QEMU_LOCK_GUARD(&w->lock);
    w->phase = phase;
    w->refused = refused;
    qemu_cond_signal(&w->told);
}

/* False: the file is not to be written, or nobody waits for it any more. */
static bool writer_begin(RnicCaptureWriter *w)
{
    Error *err = NULL;

    w->fd = rnic_capture_file_open(w->file, w->ring, &err);
    if (w->fd >= 0 && !writer_is_ending(w) &&
        rnic_capture_file_clear(w->fd, w->file, &err)) {
        writer_tell(w, WRITER_RUNS, NULL);
        return true;
    }
    if (w->fd >= 0) {
        close(w->fd);
    }
    writer_tell(w, WRITER_DONE, err);
    return false;
}

static void writer_write(RnicCaptureWriter *w)
{
    size_t len;

    while ((len = writer_await(w))) {
        size_t taken = writer_is_leaving(w) ? writer_leave_out(w, w->tail)
                                            : writer_take(w, w->tail, len);

        QEMU_LOCK_GUARD(&w->lock);
        w->tail += taken;
    }
}

static void writer_finish(RnicCaptureWriter *w)
{
    RnicCaptureCounts counts = w->counts;

    counts.received += w->left_out.received;
    counts.dropped += w->left_out.dropped;
    counts.truncated += w->left_out.truncated;
    writer_put_counts(w, &counts);
    if (w->left_out.dropped && !w->failed) {
        warn_report("capture: %s has not been written in time; the statistics "
                    "at its end count the packets that are lost", w->file);
    }
    if (w->fd >= 0) {
        close(w->fd);
    }
    writer_tell(w, WRITER_DONE, NULL);
}

/* QEMU has its threads made with all signals blocked, SIGPIPE and SIGXFSZ too. */
static void *writer_thread(void *opaque)
{
    RnicCaptureWriter *w = opaque;

    if (writer_begin(w)) {
        writer_put_head(w);
        writer_write(w);
        writer_finish(w);
    }
    writer_unref(w);
    return NULL;
}

/* ------------------------------------------------------ the other threads */

static RnicCaptureWriter *writer_create(const RnicCaptureTarget *target,
                                        Error **errp)
{
    RnicCaptureWriter *w = g_new0(RnicCaptureWriter, 1);

    w->size = ROUND_DOWN(target->buffer, 4);
    w->buffer = g_try_malloc(w->size);
    if (!w->buffer) {
        error_setg(errp, "capture: no memory for capture-buffer");
        g_free(w);
        return NULL;
    }
    w->refs = 2;
    w->fd = -1;
    w->file = g_strdup(target->file);
    w->snaplen = target->snaplen;
    w->ring = target->size > 0;
    w->files = target->files;
    qemu_mutex_init(&w->lock);
    qemu_cond_init(&w->wake);
    qemu_cond_init(&w->told);
    qemu_thread_create(&w->thread, "rnic-capture", writer_thread, w,
                       QEMU_THREAD_DETACHED);
    return w;
}

/* With the lock: the file is open. */
static bool writer_await_open(RnicCaptureWriter *w, Error **errp)
{
    int64_t until = writer_now() + OPEN_MS;

    while (w->phase == WRITER_OPENS && writer_now() < until) {
        qemu_cond_timedwait(&w->told, &w->lock, POLL_MS);
    }
    if (w->phase == WRITER_OPENS) {
        error_setg(errp, "capture: %s does not answer", w->file);
        w->ending = true;
    } else if (w->phase == WRITER_DONE) {
        error_propagate(errp, g_steal_pointer(&w->refused));
    }
    return w->phase == WRITER_RUNS;
}

RnicCaptureWriter *rnic_capture_writer_new(const RnicCaptureTarget *target,
                                           Error **errp)
{
    RnicCaptureWriter *w = writer_create(target, errp);
    bool open;

    if (!w) {
        return NULL;
    }
    WITH_QEMU_LOCK_GUARD(&w->lock) {
        open = writer_await_open(w, errp);
    }
    if (!open) {
        writer_unref(w);
        return NULL;
    }
    return w;
}

uint8_t *rnic_capture_writer_reserve(RnicCaptureWriter *w, size_t len)
{
    size_t at, left, room;

    WITH_QEMU_LOCK_GUARD(&w->lock) {
        room = w->size - (w->head - w->tail);
    }
    at = w->head % w->size;
    left = w->size - at;
    w->skip = left < len ? left : 0;
    if (room < w->skip + len) {
        return NULL;
    }
    if (!w->skip) {
        return w->buffer + at;
    }
    stl_le_p(w->buffer + at, MARK_WRAP);
    return w->buffer;
}

void rnic_capture_writer_commit(RnicCaptureWriter *w, size_t len)
{
    uint64_t waited;

    QEMU_LOCK_GUARD(&w->lock);
    waited = w->head - w->tail;
    w->head += w->skip + len;
    if (waited == 0 ||
        (!writer_has_gathered(w, waited) &&
         writer_has_gathered(w, w->head - w->tail))) {
        qemu_cond_signal(&w->wake);
    }
}

bool rnic_capture_writer_next_file(RnicCaptureWriter *w,
                                   const RnicCaptureCounts *counts)
{
    uint8_t *mark = rnic_capture_writer_reserve(w, NEXT_FILE_LEN);

    QEMU_BUILD_BUG_ON(NEXT_FILE_LEN != 8 + sizeof(*counts));
    if (!mark) {
        return false;
    }
    stl_le_p(mark, MARK_NEXT_FILE);
    stl_le_p(mark + RNIC_PCAPNG_AT_LENGTH, NEXT_FILE_LEN);
    memcpy(mark + 8, counts, sizeof(*counts));
    rnic_capture_writer_commit(w, NEXT_FILE_LEN);
    return true;
}

bool rnic_capture_writer_failed(RnicCaptureWriter *w)
{
    return qatomic_read(&w->failed);
}

/* With the lock: as long as the file takes something, and not longer than @until. */
static void writer_await_progress(RnicCaptureWriter *w, int64_t until)
{
    uint64_t progress = w->progress;
    int64_t now = writer_now(), stuck_since = now;

    while (w->phase != WRITER_DONE && now < until &&
           now - stuck_since < PROGRESS_MS) {
        qemu_cond_timedwait(&w->told, &w->lock, POLL_MS);
        now = writer_now();
        if (w->progress != progress) {
            progress = w->progress;
            stuck_since = now;
        }
    }
}

/* With the lock: have the rest left out, and leave the thread alone if it cannot. */
static void writer_await_leaving(RnicCaptureWriter *w)
{
    int64_t until = writer_now() + LEAVE_MS;

    w->leaving = true;
    while (w->phase != WRITER_DONE && writer_now() < until) {
        qemu_cond_timedwait(&w->told, &w->lock, POLL_MS);
    }
    if (w->phase != WRITER_DONE) {
        warn_report("capture: %s does not answer; it may lack %" PRIu64
                    " octets at its end", w->file, w->head - w->tail);
    }
}

void rnic_capture_writer_end(RnicCaptureWriter *w,
                             const RnicCaptureCounts *counts,
                             int64_t limit_ms)
{
    WITH_QEMU_LOCK_GUARD(&w->lock) {
        w->counts = *counts;
        w->ending = true;
        qemu_cond_signal(&w->wake);
        writer_await_progress(w, writer_now() + limit_ms);
        if (w->phase != WRITER_DONE) {
            writer_await_leaving(w);
        }
    }
    writer_unref(w);
}
