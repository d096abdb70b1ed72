/*
 * rnic: sockets by which a peer can send descriptors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/iov.h"
#include "qemu/lockable.h"
#include "qemu/sockets.h"
#include "qemu/thread.h"
#include "descriptors.h"
#include "unix-socket.h"

enum {
    CLOSERS = 4,
    MESSAGE_MAX = 254,          /* descriptors: what a message can carry, and one
                                 * of the process that sent it */
    SENDER_MAX = 1024,          /* octets of what else is said of that process */
};

/* Linux 6.5 */
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

static struct {
    bool started;               /* the main loop's */
    QemuMutex lock;             /* of the queue */
    QemuCond added;
    GQueue queue;               /* descriptors, as pointers */
} closers;

static int closers_pop(void)
{
    QEMU_LOCK_GUARD(&closers.lock);
    while (g_queue_is_empty(&closers.queue)) {
        qemu_cond_wait(&closers.added, &closers.lock);
    }
    return GPOINTER_TO_INT(g_queue_pop_head(&closers.queue));
}

static void closers_push(int fd)
{
    QEMU_LOCK_GUARD(&closers.lock);
    g_queue_push_tail(&closers.queue, GINT_TO_POINTER(fd));
    qemu_cond_signal(&closers.added);
}

static void *closer_run(void *unused)
{
    for (;;) {
        rnic_descriptors_close(closers_pop());
    }
    return NULL;
}

void rnic_unix_closers_start(void)
{
    if (closers.started) {
        return;
    }
    closers.started = true;
    qemu_mutex_init(&closers.lock);
    qemu_cond_init(&closers.added);
    g_queue_init(&closers.queue);
    for (int i = 0; i < CLOSERS; i++) {
        QemuThread thread;

        qemu_thread_create(&thread, "rnic-close", closer_run, NULL,
                           QEMU_THREAD_DETACHED);
    }
}

void rnic_unix_close(int fd)
{
    int error = errno;

    shutdown(fd, SHUT_RDWR);
    closers_push(fd);
    errno = error;
}

void rnic_unix_discard(const int *fds, size_t count)
{
    rnic_descriptors_exceed(count);
    for (size_t i = 0; i < count; i++) {
        closers_push(fds[i]);
    }
}

/*
 * What has come with octets.  A bell is the peer's socket as well, which can have
 * the kernel add the sending process to them.
 */
typedef struct Arrival {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MESSAGE_MAX * sizeof(int)) + SENDER_MAX];
    } control;
    int fds[MESSAGE_MAX];
    size_t count;
    bool cut;                   /* there were more */
} Arrival;

static void arrival_add(Arrival *a, struct cmsghdr *header)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const int *fds = (const int *)CMSG_DATA(header);

    if (header->cmsg_level != SOL_SOCKET ||
        (header->cmsg_type != SCM_RIGHTS && header->cmsg_type != SCM_PIDFD)) {
        return;
    }
    for (size_t i = 0; i < count && a->count < MESSAGE_MAX; i++) {
        if (fds[i] >= 0) {      /* else: of a process that is gone */
            a->fds[a->count++] = fds[i];
        }
    }
}

/* Octets for so many descriptors; for all there can be, and what else comes. */
static size_t arrival_space(const Arrival *a, size_t room)
{
    if (room == MESSAGE_MAX) {
        return sizeof(a->control);
    }
    return room ? CMSG_LEN(room * sizeof(int)) : 0;
}

/* As recvmsg() without waiting, with room for so many descriptors. */
static ssize_t arrival_receive(Arrival *a, int fd, const struct iovec *iov,
                               size_t niov, int flags, size_t room)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = niov,
        .msg_control = &a->control,
        .msg_controllen = arrival_space(a, room),
    };
    ssize_t n = RETRY_ON_EINTR(recvmsg(fd, &msg, flags | MSG_DONTWAIT |
                                                 MSG_CMSG_CLOEXEC));
    struct cmsghdr *header = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

    a->count = 0;
    a->cut = n >= 0 && (msg.msg_flags & MSG_CTRUNC);
    for (; header; header = CMSG_NXTHDR(&msg, header)) {
        arrival_add(a, header);
    }
    return n;
}

/*
 * The octets that were looked at, and no more.  With descriptors this process has
 * their files open already, so that the kernel may close those of the socket.
 * Without, none can come, except to a bell, whose peer may read from it too.
 */
static ssize_t arrival_consume(Arrival *a, int fd, const struct iovec *iov,
                               size_t niov, size_t octets)
{
    g_autofree struct iovec *part = g_new(struct iovec, niov);
    unsigned parts = iov_copy(part, niov, iov, niov, 0, octets);
    Arrival other;
    ssize_t n = arrival_receive(&other, fd, part, parts, 0,
                                a->count ? 0 : MESSAGE_MAX);

    if (a->count == 0) {
        rnic_unix_discard(other.fds, other.count);
        a->cut = other.count || other.cut;
    }
    return n;
}

/*
 * The same with little room.  Octets with more descriptors stay in the socket: a
 * look at them makes descriptors, but closes no file.
 */
static ssize_t arrival_receive_if_room(Arrival *a, int fd,
                                       const struct iovec *iov, size_t niov,
                                       size_t room)
{
    ssize_t n = arrival_receive(a, fd, iov, niov, MSG_PEEK, room);

    return n > 0 && !a->cut ? arrival_consume(a, fd, iov, niov, n) : n;
}

ssize_t rnic_unix_receive(int fd, const struct iovec *iov, size_t niov,
                          int *fds, size_t max, size_t *count)
{
    size_t room = MESSAGE_MAX;
    Arrival a;
    ssize_t n;

    if (rnic_descriptors_expect(room)) {
        n = arrival_receive(&a, fd, iov, niov, 0, room);
    } else {
        room = rnic_descriptors_expect(max) ? max : 0;
        n = arrival_receive_if_room(&a, fd, iov, niov, room);
    }
    *count = 0;
    if (a.cut || a.count > max) {
        rnic_unix_discard(a.fds, a.count);
        errno = EPROTO;
        n = -1;
    } else if (a.count) {
        memcpy(fds, a.fds, a.count * sizeof(int));
        *count = a.count;
    }
    rnic_descriptors_expected(room);
    return n;
}
