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
    RnicWatch watch;
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

/* Its user's handlers are the socket's. */
static void socket_watch(RnicTransport *t)
{
    SocketTransport *s = socket_of(t);

    rnic_transport_watch(t, &s->watch, s->fd, t->readable, t->writable,
                         t->opaque);
}

static void socket_close(RnicTransport *t, bool reset)
{
    /* Closing with a linger time of zero discards what waits and resets. */
    const struct linger at_once = { .l_onoff = 1 };
    SocketTransport *s = socket_of(t);

    if (reset) {
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    rnic_descriptors_close(s->fd);
}

static RnicTransportEnd socket_end(RnicTransport *t)
{
    return rnic_transport_socket_end(socket_of(t)->fd);
}

static const RnicTransportOps socket_ops = {
    .readv = socket_readv,
    .writev = socket_writev,
    .shut_down = socket_shut_down,
    .close = socket_close,
    .watch = socket_watch,
    .end = socket_end,
    .cork = socket_cork,
};

RnicTransport *rnic_socket_transport_new(int fd)
{
    SocketTransport *s = g_new0(SocketTransport, 1);

    s->transport.ops = &socket_ops;
    s->fd = fd;
    return &s->transport;
}
