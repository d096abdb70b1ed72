/*
 * rnic: a host's TCP socket as a transport
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <netinet/tcp.h>
#include "qemu/sockets.h"
#include "descriptors.h"
#include "socket-transport.h"

enum { LOOPBACK_MTU = 65535 };

typedef struct SocketTransport {
    RnicTransport transport;
    int fd;
    RnicWatch watch;
} SocketTransport;

static SocketTransport *socket_of(RnicTransport *t)
{
    return container_of(t, SocketTransport, transport);
}

/*
 * The peer has reset the connection, or TCP has given it up.  It does so for the reason
 * that a router has sent, if one has, and else for ETIMEDOUT; while it still tries,
 * no such message is an error (RFC 1122, 4.2.3.9).
 */
static ssize_t socket_result(ssize_t n)
{
    if (n < 0 && errno != EAGAIN && errno != ECONNRESET && errno != EPIPE) {
        errno = ETIMEDOUT;
    }
    return n;
}

static ssize_t socket_readv(RnicTransport *t, const struct iovec *iov,
                            size_t count)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };

    return socket_result(RETRY_ON_EINTR(recvmsg(socket_of(t)->fd, &msg, 0)));
}

static ssize_t socket_writev(RnicTransport *t, const struct iovec *iov,
                             size_t count)
{
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = count,
    };

    return socket_result(RETRY_ON_EINTR(sendmsg(socket_of(t)->fd, &msg,
                                                MSG_NOSIGNAL)));
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

/*
 * TCP bounds a segment by half of the largest window that it has seen, too, which is
 * what counts on a host's loopback interface, whose packets have 64 KiB, at first.
 * There an FPDU gains nothing by being smaller.
 */
static size_t socket_segment_size(RnicTransport *t)
{
    struct tcp_info info = { };
    socklen_t len = sizeof(info);

    if (getsockopt(socket_of(t)->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0) {
        return 0;               /* another kind of socket */
    }
    if (info.tcpi_pmtu >= LOOPBACK_MTU && info.tcpi_snd_mss > LOOPBACK_MTU / 4) {
        return 0;
    }
    return info.tcpi_snd_mss;
}

static const RnicTransportOps socket_ops = {
    .readv = socket_readv,
    .writev = socket_writev,
    .shut_down = socket_shut_down,
    .close = socket_close,
    .watch = socket_watch,
    .end = socket_end,
    .cork = socket_cork,
    .segment_size = socket_segment_size,
};

RnicTransport *rnic_socket_transport_new(int fd)
{
    SocketTransport *s = g_new0(SocketTransport, 1);

    s->transport.ops = &socket_ops;
    s->fd = fd;
    return &s->transport;
}
