/*
 * rnic: a host's TCP socket as a transport
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/sockets.h"
#include "descriptors.h"
#include "socket-transport.h"

typedef struct SocketTransport {
    RnicTransport transport;
    int fd;
    AioContext *ctx;            /* of the handlers; NULL: in no event loop */
    IOHandler *readable;
    IOHandler *writable;
    void *opaque;
} SocketTransport;

static SocketTransport *socket_of(RnicTransport *t)
{
    return container_of(t, SocketTransport, transport);
}

static ssize_t socket_readv(RnicTransport *t, const struct iovec *iov,
                            size_t count)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };

    return RETRY_ON_EINTR(recvmsg(socket_of(t)->fd, &msg, 0));
}

static ssize_t socket_writev(RnicTransport *t, const struct iovec *iov,
                             size_t count)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };

    return RETRY_ON_EINTR(sendmsg(socket_of(t)->fd, &msg, MSG_NOSIGNAL));
}

static bool socket_shut_down(RnicTransport *t)
{
    shutdown(socket_of(t)->fd, SHUT_WR);
    return true;
}

static void socket_cork(RnicTransport *t, bool corked)
{
    socket_set_cork(socket_of(t)->fd, corked);
}

/* A stream asks for the same handlers again and again. */
static void socket_set_handlers(RnicTransport *t, AioContext *ctx,
                                IOHandler *readable, IOHandler *writable,
                                void *opaque)
{
    SocketTransport *s = socket_of(t);

    if (s->ctx == ctx && s->readable == readable && s->writable == writable &&
        s->opaque == opaque) {
        return;
    }
    if (s->ctx && s->ctx != ctx) {
        aio_set_fd_handler(s->ctx, s->fd, NULL, NULL, NULL, NULL, NULL);
    }
    s->ctx = ctx;
    s->readable = readable;
    s->writable = writable;
    s->opaque = opaque;
    if (ctx) {
        aio_set_fd_handler(ctx, s->fd, readable, writable, NULL, NULL, opaque);
    }
}

static void socket_close(RnicTransport *t, bool reset)
{
    /* Closing with a linger time of zero discards what waits and resets. */
    const struct linger at_once = { .l_onoff = 1 };
    SocketTransport *s = socket_of(t);

    socket_set_handlers(t, NULL, NULL, NULL, NULL);
    if (reset) {
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    close(s->fd);
    rnic_descriptors_release(1);
    g_free(s);
}

static const RnicTransportOps socket_ops = {
    .readv = socket_readv,
    .writev = socket_writev,
    .shut_down = socket_shut_down,
    .close = socket_close,
    .set_handlers = socket_set_handlers,
    .cork = socket_cork,
};

RnicTransport *rnic_socket_transport_new(int fd)
{
    SocketTransport *s = g_new0(SocketTransport, 1);

    s->transport.ops = &socket_ops;
    s->fd = fd;
    return &s->transport;
}
