/*
 * rnic: sockets by which a peer can send descriptors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "qemu/sockets.h"
#include "qemu/thread.h"
#include "descriptors.h"
#include "unix-socket.h"

enum {
    CLOSERS = 4,
    MESSAGE_MAX = 253,          /* descriptors that the kernel lets one carry */
};

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

ssize_t rnic_unix_receive(int fd, const struct iovec *iov, size_t niov,
                          int *fds, size_t max, size_t *count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MESSAGE_MAX * sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = niov,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n = RETRY_ON_EINTR(recvmsg(fd, &msg,
                                       MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
    struct cmsghdr *header = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    const int *all = NULL;
    size_t come = 0;

    *count = 0;
    if (header && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_RIGHTS) {
        all = (const int *)CMSG_DATA(header);
        come = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    }
    /* Some were lost if this process may have no more files open. */
    if (n >= 0 && (come > max || (msg.msg_flags & MSG_CTRUNC))) {
        rnic_unix_discard(all, come);
        errno = EPROTO;
        return -1;
    }
    if (come) {
        memcpy(fds, all, come * sizeof(int));
        *count = come;
    }
    return n;
}
