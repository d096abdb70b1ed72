/*
 * rnic: sockets by which a peer can send descriptors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/sockets.h"
#include "descriptors.h"
#include "unix-socket.h"

enum {
    CLOSERS = 4,
    MESSAGE_MAX = 253,          /* descriptors that the kernel lets one carry */
};

static GThreadPool *closers;    /* NULL: not started, nothing has come yet */

/* A descriptor is 1 more here: 0 is no item. */
static void closer_close(gpointer item, gpointer unused)
{
    rnic_descriptors_close(GPOINTER_TO_INT(item) - 1);
}

static void closer_push(int fd)
{
    g_thread_pool_push(closers, GINT_TO_POINTER(fd + 1), NULL);
}

bool rnic_unix_closers_start(Error **errp)
{
    g_autoptr(GError) error = NULL;

    if (closers) {
        return true;
    }
    closers = g_thread_pool_new(closer_close, NULL, CLOSERS, true, &error);
    if (error) {
        error_setg(errp, "no threads to close sockets: %s", error->message);
        g_thread_pool_free(g_steal_pointer(&closers), true, false);
        return false;
    }
    return true;
}

void rnic_unix_close(int fd)
{
    int error = errno;

    shutdown(fd, SHUT_RDWR);
    closer_push(fd);
    errno = error;
}

void rnic_unix_discard(const int *fds, size_t count)
{
    rnic_descriptors_exceed(count);
    for (size_t i = 0; i < count; i++) {
        closer_push(fds[i]);
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
