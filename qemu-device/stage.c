/*
 * rnic: the stage, octets of a stream that wait for its socket
 *
 * Not lending, it is empty or filled from its start.  Lending, it is a ring,
 * with the difference that what waits is always in one piece: when it is empty
 * and what is left behind it could be too short, it begins anew at the start.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include <sys/ioctl.h>
#ifdef CONFIG_SPLICE
#include <linux/sockios.h>
#endif
#include "stage.h"

enum {
    /* Less is copied sooner than lent. */
    LEND_MIN = 16 * 1024,
    /* A stage that is used little stays in its first pages. */
    RETURN_FROM = 64 * 1024,
};

void rnic_stage_init(RnicStage *stage, int fd)
{
    *stage = (RnicStage) { .fd = fd, .size = RNIC_STAGE_SIZE };
}

void rnic_stage_cleanup(RnicStage *stage)
{
    if (stage->fd < 0) {
        g_free(stage->octets);
    } else if (stage->octets) {
        munmap(stage->octets, stage->size);
    }
    stage->octets = NULL;
}

/* ------------------------------------------------------------- lending */

#ifdef CONFIG_SPLICE

/*
 * A UNIX socket can be written to again when it holds a quarter of its limit,
 * or less.  Then the stage must not be full: or its stream would be told to go
 * on, and could not.
 */
static bool make_ring(RnicStage *stage)
{
    int limit;
    socklen_t len = sizeof(limit);

    if (getsockopt(stage->fd, SOL_SOCKET, SO_SNDBUF, &limit, &len) < 0) {
        return false;
    }
    stage->size = QEMU_ALIGN_UP(limit / 4 + 2 * RNIC_STAGE_SIZE,
                                qemu_real_host_page_size());
    stage->octets = mmap(NULL, stage->size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return stage->octets != MAP_FAILED;
}

/* What the socket holds, its own overhead too: never too little. */
static void ask_lent(RnicStage *stage)
{
    int held;

    if (stage->lent && ioctl(stage->fd, SIOCOUTQ, &held) == 0 && held >= 0) {
        stage->lent = MIN(stage->lent, held);
    }
}

typedef struct Pipe {
    int out;
    int in;
} Pipe;

static void pipe_free(gpointer opaque)
{
    Pipe *p = opaque;

    close(p->out);
    close(p->in);
    g_free(p);
}

/* One for each thread: it is empty between two calls. */
static Pipe *thread_pipe(void)
{
    static GPrivate key = G_PRIVATE_INIT(pipe_free);
    Pipe *p = g_private_get(&key);
    int fds[2];

    if (!p && g_unix_open_pipe(fds, FD_CLOEXEC, NULL)) {
        p = g_new(Pipe, 1);
        *p = (Pipe) { .out = fds[0], .in = fds[1] };
        /* Where this is too much for the user, less will do. */
        fcntl(p->in, F_SETPIPE_SZ, (int)RNIC_STAGE_SIZE);
        g_private_set(&key, p);
    }
    return p;
}

static void pipe_drain(const Pipe *p, size_t len)
{
    uint8_t unwanted[4096];

    while (len > 0) {
        ssize_t n = RETRY_ON_EINTR(
            read(p->out, unwanted, MIN(len, sizeof(unwanted))));

        assert(n > 0);
        len -= n;
    }
}

/* From the pipe to the socket; what that does not take is not left there. */
static ssize_t pipe_to_socket(const Pipe *p, int fd, size_t len)
{
    size_t done = 0;
    ssize_t n = 0;
    int error;

    while (done < len) {
        n = splice(p->out, NULL, fd, NULL, len - done, SPLICE_F_NONBLOCK);
        if (n <= 0) {
            break;
        }
        done += n;
    }
    error = errno;
    pipe_drain(p, len - done);
    errno = error;
    return done ? (ssize_t)done : n;
}

ssize_t rnic_stage_lend(const RnicStage *stage)
{
    size_t len = rnic_stage_waiting(stage);
    Pipe *p = stage->fd >= 0 && len >= LEND_MIN ? thread_pipe() : NULL;
    size_t done = 0;

    if (!p) {
        errno = ENOTSUP;
        return -1;
    }
    while (done < len) {
        struct iovec iov = { stage->octets + stage->head + done, len - done };
        ssize_t in = vmsplice(p->in, &iov, 1, SPLICE_F_NONBLOCK);
        ssize_t out = in > 0 ? pipe_to_socket(p, stage->fd, in) : -1;

        if (in <= 0) {
            errno = ENOTSUP;
        }
        if (out < 0) {
            return done ? (ssize_t)done : -1;
        }
        done += out;
        if (out < in) {
            break;
        }
    }
    return done;
}

#else

static bool make_ring(RnicStage *stage)
{
    return false;
}

static void ask_lent(RnicStage *stage)
{
}

ssize_t rnic_stage_lend(const RnicStage *stage)
{
    errno = ENOTSUP;
    return -1;
}

#endif

/* --------------------------------------------------------------- stage */

static void make(RnicStage *stage)
{
    if (stage->fd >= 0 && !make_ring(stage)) {
        stage->fd = -1;
        stage->size = RNIC_STAGE_SIZE;
    }
    if (stage->fd < 0) {
        stage->octets = g_malloc(stage->size);
    }
}

static void begin_anew(RnicStage *stage)
{
    stage->end = stage->tail;
    stage->head = 0;
    stage->tail = 0;
}

/* Octets behind what waits that nobody holds. */
static size_t room(const RnicStage *stage)
{
    if (stage->lent <= stage->head) {
        return stage->size - stage->tail;
    }
    return stage->end - (stage->lent - stage->head) - stage->tail;
}

bool rnic_stage_full(const RnicStage *stage)
{
    return rnic_stage_waiting(stage) == 0 && room(stage) < RNIC_STAGE_SIZE;
}

uint8_t *rnic_stage_append(RnicStage *stage, size_t len)
{
    uint8_t *place;

    if (!stage->octets) {
        make(stage);
    }
    if (rnic_stage_waiting(stage) == 0 && stage->tail >= RETURN_FROM) {
        ask_lent(stage);
        if (stage->lent == 0) {
            begin_anew(stage);
        }
    }
    assert(len <= room(stage));
    place = stage->octets + stage->tail;
    stage->tail += len;
    return place;
}

void rnic_stage_taken(RnicStage *stage, size_t len)
{
    assert(len <= rnic_stage_waiting(stage));
    stage->head += len;
    if (stage->fd >= 0) {
        stage->lent += len;
        ask_lent(stage);
    }
    if (rnic_stage_waiting(stage) == 0 &&
        (stage->lent == 0 ||
         (stage->lent <= stage->head &&
          stage->size - stage->tail < RNIC_STAGE_SIZE))) {
        begin_anew(stage);
    }
}
