/*
 * rnic: accepting connections from a listening socket
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include "qemu/main-loop.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"
#include "hw/rnic/base/compat.h"
#include "accept.h"
#include "descriptors.h"
#include "hw/rnic/base/trace.h"

enum {
    ACCEPTS_PER_TURN = 16,
    ACCEPT_PAUSE_MS = 100,
};

struct RnicAcceptor {
    int fd;                     /* -1 after rnic_acceptor_free() */
    unsigned refs;              /* that may come from within @accepted */
    RnicAcceptorFunc *accepted;
    void *opaque;
    QEMUTimer *resume;          /* the host was out of something */
};

static void acceptor_unref(RnicAcceptor *a)
{
    if (--a->refs == 0) {
        timer_free(a->resume);
        g_free(a);
    }
}

static void acceptor_ready(void *opaque);

static void acceptor_resume(void *opaque)
{
    RnicAcceptor *a = opaque;

    qemu_set_fd_handler(a->fd, acceptor_ready, NULL, a);
}

/* True if it makes sense to try again at once. */
static bool acceptor_failed(RnicAcceptor *a, int error)
{
    switch (error) {
    case EAGAIN:
#if EAGAIN != EWOULDBLOCK
    case EWOULDBLOCK:
#endif
        return false;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
        return true;
    default:
        /* Out of descriptors or memory: do not spin on a readable socket. */
        trace_rnic_err_fabric_host("accept", error);
        qemu_set_fd_handler(a->fd, NULL, NULL, NULL);
        timer_mod(a->resume, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
                             ACCEPT_PAUSE_MS);
        return false;
    }
}

/* Without a descriptor for it the connection is refused. */
static void acceptor_take(RnicAcceptor *a, int fd)
{
    if (!rnic_descriptors_take(1)) {
        close(fd);
        return;
    }
    g_unix_set_fd_nonblocking(fd, true, NULL);
    a->accepted(a->opaque, fd);
}

static void acceptor_ready(void *opaque)
{
    RnicAcceptor *a = opaque;

    a->refs++;
    for (int i = 0; i < ACCEPTS_PER_TURN && a->fd >= 0; i++) {
        int fd = qemu_accept(a->fd, NULL, NULL);

        if (fd >= 0) {
            acceptor_take(a, fd);
        } else if (!acceptor_failed(a, errno)) {
            break;
        }
    }
    acceptor_unref(a);
}

RnicAcceptor *rnic_acceptor_new(int fd, RnicAcceptorFunc *accepted,
                                void *opaque)
{
    RnicAcceptor *a = g_new0(RnicAcceptor, 1);

    a->fd = fd;
    a->refs = 1;
    a->accepted = accepted;
    a->opaque = opaque;
    a->resume = timer_new_ms(QEMU_CLOCK_REALTIME, acceptor_resume, a);
    qemu_set_fd_handler(fd, acceptor_ready, NULL, a);
    return a;
}

void rnic_acceptor_free(RnicAcceptor *a)
{
    timer_del(a->resume);
    qemu_set_fd_handler(a->fd, NULL, NULL, NULL);
    close(a->fd);
    rnic_descriptors_release(1);
    a->fd = -1;
    acceptor_unref(a);
}
