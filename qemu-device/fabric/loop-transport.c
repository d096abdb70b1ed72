/*
 * rnic: a transport that returns what is written to it
 *
 * A pair of sockets: one is written to, the other one is read from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include "qemu/sockets.h"
#include "descriptors.h"
#include "loop-transport.h"
#include "socket-transport.h"

typedef struct LoopTransport {
    RnicTransport transport;
    RnicTransport *in;
    RnicTransport *out;
} LoopTransport;

static LoopTransport *loop_of(RnicTransport *t)
{
    return container_of(t, LoopTransport, transport);
}

static ssize_t loop_readv(RnicTransport *t, const struct iovec *iov,
                          size_t count)
{
    return rnic_transport_readv(loop_of(t)->in, iov, count);
}

static ssize_t loop_writev(RnicTransport *t, const struct iovec *iov,
                           size_t count)
{
    return rnic_transport_writev(loop_of(t)->out, iov, count);
}

static bool loop_shut_down(RnicTransport *t)
{
    return rnic_transport_shut_down(loop_of(t)->out);
}

static void loop_watch(RnicTransport *t)
{
    LoopTransport *loop = loop_of(t);

    if (!t->ctx) {
        rnic_transport_leave_loop(loop->in);
        rnic_transport_leave_loop(loop->out);
        return;
    }
    rnic_transport_set_handlers(loop->out, t->ctx, NULL, t->writable,
                                t->opaque);
    rnic_transport_set_handlers(loop->in, t->ctx, t->readable, NULL,
                                t->opaque);
}

static void loop_close(RnicTransport *t, bool reset)
{
    LoopTransport *loop = loop_of(t);

    rnic_transport_close(loop->out);
    rnic_transport_close(loop->in);
}

/* The peer is the user itself. */
static RnicTransportEnd loop_end(RnicTransport *t)
{
    return RNIC_END_NONE;
}

static const RnicTransportOps loop_ops = {
    .readv = loop_readv,
    .writev = loop_writev,
    .shut_down = loop_shut_down,
    .close = loop_close,
    .watch = loop_watch,
    .end = loop_end,
};

RnicTransport *rnic_loop_transport_new(void)
{
    LoopTransport *loop;
    int fd[2];

    if (!rnic_descriptors_take(2)) {
        return NULL;
    }
    if (qemu_socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0) {
        rnic_descriptors_release(2);
        return NULL;
    }
    g_unix_set_fd_nonblocking(fd[0], true, NULL);
    g_unix_set_fd_nonblocking(fd[1], true, NULL);
    loop = g_new0(LoopTransport, 1);
    loop->transport.ops = &loop_ops;
    loop->in = rnic_socket_transport_new(fd[0]);
    loop->out = rnic_socket_transport_new(fd[1]);
    return &loop->transport;
}
