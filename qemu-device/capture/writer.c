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
#include "packet.h"
#include "pcapng.h"
#include "writer.h"
#include "hw/rnic/base/trace.h"

enum {
    /* Types that no block in the buffer has. */
    MARK_WRAP = 0,
    MARK_NEXT_FILE = 2,
    NEXT_FILE_LEN = 24,         /* type, length, RnicCaptureCounts */

    RUN_MAX = 1024 * 1024,      /* octets of one write */
    POLL_MS = 50,
    /* At the end: of a file that takes nothing, and of the main loop. */
    STUCK_MS = 500,
    END_MS = 2000,
};

struct RnicCaptureWriter {
    QemuThread thread;
    QemuSemaphore done;
    QemuMutex lock;             /* of what follows, up to the blank line */
    QemuCond wake;
    uint64_t head;              /* octets put; in front of it is the reserved */
    uint64_t tail;              /* octets written */
    bool ending;
    bool failed;
    RnicCaptureCounts counts;   /* with ending */

    int refs;                   /* the thread's and the other threads' */
    size_t skip;                /* of the reserved: up to the buffer's end */
    uint8_t *buffer;
    size_t size;

    int fd;                     /* the thread's, as is the rest */
    char *file;
    uint32_t snaplen;
    uint32_t files;
};

/* --------------------------------------------------------------- the file */

static bool writer_check_file(int fd, const char *file, bool ring, Error **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_setg_errno(errp, errno, "capture: %s", file);
        return false;
    }
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)) {
        error_setg(errp, "capture: %s is no file, FIFO or character device",
                   file);
        return false;
    }
    if (ring && !S_ISREG(st.st_mode)) {
        error_setg(errp, "capture: %s is no regular file, so it has no "
                   "capture-size", file);
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        return true;
    }
    if (st.st_uid != geteuid()) {
        error_setg(errp, "capture: %s belongs to another user", file);
        return false;
    }
    if (st.st_nlink > 1) {
        error_setg(errp, "capture: %s has another name, too (a hard link)",
                   file);
        return false;
    }
    if (qemu_lock_fd(fd, 0, 0, true) == -EAGAIN) {
        error_setg(errp, "capture: %s is in use by another capture", file);
        return false;
    }
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0) {
        error_setg_errno(errp, errno, "capture: %s", file);
        return false;
    }
    return true;
}

/* The users' data: for the user of QEMU only, and nowhere else by a link. */
static int writer_open(const char *file, bool ring, Error **errp)
{
    int fd = RETRY_ON_EINTR(open(file, O_WRONLY | O_CREAT | O_NONBLOCK |
                                 O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600));

    if (fd < 0) {
        error_setg_errno(errp, errno, "capture: cannot open %s%s", file,
                         errno == ELOOP ? ", a symbolic link" :
                         errno == ENXIO ? ", which nothing reads" : "");
        return -1;
    }
    if (!writer_check_file(fd, file, ring, errp)) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *writer_old_name(const RnicCaptureWriter *w, uint32_t age)
{
    return age ? g_strdup_printf("%s.%u", w->file, age) : g_strdup(w->file);
}

/* FILE.1 becomes FILE.2, and FILE becomes FILE.1. */
static bool writer_age_files(RnicCaptureWriter *w, Error **errp)
{
    for (uint32_t age = w->files - 1; age > 0; age--) {
        g_autofree char *from = writer_old_name(w, age - 1);
        g_autofree char *to = writer_old_name(w, age);

        if (rename(from, to) < 0 && errno != ENOENT) {
            error_setg_errno(errp, errno, "capture: cannot rename %s", from);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------- the thread */

static void writer_fail(RnicCaptureWriter *w, Error *err)
{
    trace_rnic_err_capture(w->file, error_get_pretty(err));
    error_report_err(err);
    QEMU_LOCK_GUARD(&w->lock);
    w->failed = true;
}

static bool writer_is_ending(RnicCaptureWriter *w)
{
    QEMU_LOCK_GUARD(&w->lock);
    return w->ending;
}

/* False: what the file is takes nothing, and the capture is over. */
static bool writer_await_room(RnicCaptureWriter *w, int64_t *stuck_since)
{
    struct pollfd p = { .fd = w->fd, .events = POLLOUT };
    int64_t now = get_clock() / SCALE_MS;

    if (poll(&p, 1, POLL_MS) > 0 || !writer_is_ending(w)) {
        *stuck_since = now;
        return true;
    }
    return now - *stuck_since < STUCK_MS;
}

static void writer_put(RnicCaptureWriter *w, const uint8_t *octets, size_t len)
{
    int64_t stuck_since = get_clock() / SCALE_MS;
    Error *err = NULL;

    while (len && !w->failed) {
        ssize_t n = RETRY_ON_EINTR(write(w->fd, octets, len));

        if (n >= 0) {
            octets += n;
            len -= n;
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
                                      counts->received, counts->dropped));
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
    close(w->fd);
    w->fd = -1;
    if (writer_age_files(w, &err)) {
        w->fd = writer_open(w->file, true, &err);
    }
    if (w->fd < 0) {
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

/* Octets that are there, once there are any; 0: the end. */
static size_t writer_await(RnicCaptureWriter *w)
{
    QEMU_LOCK_GUARD(&w->lock);
    while (w->head == w->tail && !w->ending) {
        qemu_cond_wait(&w->wake, &w->lock);
    }
    return w->head - w->tail;
}

static void writer_unref(RnicCaptureWriter *w)
{
    if (qatomic_fetch_dec(&w->refs) > 1) {
        return;
    }
    qemu_sem_destroy(&w->done);
    qemu_cond_destroy(&w->wake);
    qemu_mutex_destroy(&w->lock);
    g_free(w->buffer);
    g_free(w->file);
    g_free(w);
}

static void *writer_thread(void *opaque)
{
    RnicCaptureWriter *w = opaque;
    size_t len;

    writer_put_head(w);
    while ((len = writer_await(w))) {
        size_t taken = writer_take(w, w->tail, len);

        QEMU_LOCK_GUARD(&w->lock);
        w->tail += taken;
    }
    writer_put_counts(w, &w->counts);
    if (w->fd >= 0) {
        close(w->fd);
    }
    qemu_sem_post(&w->done);
    writer_unref(w);
    return NULL;
}

/* ------------------------------------------------------ the other threads */

RnicCaptureWriter *rnic_capture_writer_new(const RnicCaptureTarget *target,
                                           Error **errp)
{
    int fd = writer_open(target->file, target->size > 0, errp);
    RnicCaptureWriter *w;

    if (fd < 0) {
        return NULL;
    }
    w = g_new0(RnicCaptureWriter, 1);
    w->size = ROUND_DOWN(target->buffer, 4);
    w->buffer = g_try_malloc(w->size);
    if (!w->buffer) {
        error_setg(errp, "capture: no memory for capture-buffer");
        close(fd);
        g_free(w);
        return NULL;
    }
    w->refs = 2;
    w->fd = fd;
    w->file = g_strdup(target->file);
    w->snaplen = target->snaplen;
    w->files = target->files;
    qemu_mutex_init(&w->lock);
    qemu_cond_init(&w->wake);
    qemu_sem_init(&w->done, 0);
    qemu_thread_create(&w->thread, "rnic-capture", writer_thread, w,
                       QEMU_THREAD_DETACHED);
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
    QEMU_LOCK_GUARD(&w->lock);
    w->head += w->skip + len;
    qemu_cond_signal(&w->wake);
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
    QEMU_LOCK_GUARD(&w->lock);
    return w->failed;
}

void rnic_capture_writer_end(RnicCaptureWriter *w,
                             const RnicCaptureCounts *counts)
{
    WITH_QEMU_LOCK_GUARD(&w->lock) {
        w->counts = *counts;
        w->ending = true;
        qemu_cond_signal(&w->wake);
    }
    qemu_sem_timedwait(&w->done, END_MS);
    writer_unref(w);
}
