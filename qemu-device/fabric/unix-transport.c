/*
 * rnic: the transport of a UNIX stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <poll.h>
#include "qemu/atomic.h"
#include "qemu/iov.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "descriptors.h"
#include "shared-ring.h"
#include "unix-socket.h"
#include "unix-transport.h"
#include "hw/rnic/base/trace.h"

enum {
    /*
     * A small one costs a turn of both event loops for each of its fillings; in
     * a large one octets leave the processor's cache before they are read.
     */
    SEND_BUFFER = 1024 * 1024,

    /* A stream that has sent less is not worth a ring's memory. */
    RING_AFTER = 256 * 1024,

    /* Rings of each direction, of the whole process: 128 MiB. */
    RINGS_MAX = 256,
};

/* What the descriptor at the beginning of a stream is the file of. */
static const char offer_text[] = "rnic-ring 4\n";

typedef enum Direction { TX, RX, DIRECTIONS } Direction;

/* How far a transport is with the ring of a direction. */
typedef enum RingState {
    RING_NONE,
    RING_CHARGED,               /* counted, with a descriptor for its bell */
    RING_MADE,                  /* the descriptor is the bell's */
} RingState;

typedef struct UnixTransport {
    RnicTransport transport;
    int fd;
    bool fin_sent;
    bool corked;
    bool rings;
    bool offered;
    bool peer_takes_rings;
    size_t sent;                /* by the socket */
    RingState ring_state[DIRECTIONS];
    RnicSharedRing *tx;         /* NULL: the socket */
    RnicSharedRing *rx;
    bool look;                  /* beside the ring, at the socket */
    bool ended;                 /* no more comes */
    RnicWatch socket_watch;
    RnicWatch tx_watch;
    RnicWatch rx_watch;

    GDestroyNotify at_end;
    void *at_end_opaque;
} UnixTransport;

static UnixTransport *unix_of(RnicTransport *t)
{
    return container_of(t, UnixTransport, transport);
}

/* ------------------------------------------------------------- watches */

/* There may be octets in the ring that its bell will not be rung for. */
static bool unix_pending(RnicTransport *t)
{
    UnixTransport *u = unix_of(t);

    return u->rx && !rnic_shared_ring_waits(u->rx);
}

static void unix_socket_readable(void *opaque)
{
    UnixTransport *u = opaque;

    u->look = true;
    rnic_transport_readable(&u->transport);
}

static void unix_socket_writable(void *opaque)
{
    rnic_transport_writable(opaque);
}

static void unix_watch(RnicTransport *t);

static void unix_rx_rung(void *opaque)
{
    UnixTransport *u = opaque;

    rnic_shared_ring_rung(u->rx);
    unix_watch(&u->transport);
    rnic_transport_readable(&u->transport);
}

static void unix_tx_rung(void *opaque)
{
    UnixTransport *u = opaque;

    rnic_shared_ring_rung(u->tx);
    unix_watch(&u->transport);
    rnic_transport_writable(&u->transport);
}

/*
 * The bells are watched all the time, whether anybody waits or not: QEMU looks
 * through all descriptors of a thread for one that is new.
 */
static void unix_watch_bell(UnixTransport *u, RnicWatch *w,
                            const RnicSharedRing *ring, IOHandler *rung)
{
    bool any = u->transport.readable || u->transport.writable;

    if (ring) {
        rung = any && !rnic_shared_ring_silent(ring) ? rung : NULL;
        rnic_transport_watch(&u->transport, w, rnic_shared_ring_bell(ring),
                             rung, NULL, u);
    }
}

static void unix_watch(RnicTransport *t)
{
    UnixTransport *u = unix_of(t);

    rnic_transport_watch(t, &u->socket_watch, u->fd,
                         t->readable && !u->ended ? unix_socket_readable : NULL,
                         t->writable && !u->tx ? unix_socket_writable : NULL,
                         u);
    unix_watch_bell(u, &u->rx_watch, u->rx, unix_rx_rung);
    unix_watch_bell(u, &u->tx_watch, u->tx, unix_tx_rung);
}

/* --------------------------------------------------------------- offer */

static gpointer unix_make_offer(gpointer unused)
{
    int fd = qemu_memfd_create("rnic-offer", sizeof(offer_text), false, 0,
                               F_SEAL_SHRINK | F_SEAL_GROW, NULL);

    if (fd >= 0 &&
        (pwrite(fd, offer_text, sizeof(offer_text), 0) < 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) < 0)) {
        close(fd);
        fd = -1;
    }
    return GINT_TO_POINTER(fd);
}

/* The same for all streams of the process, or -1. */
static int unix_offer(void)
{
    static GOnce once = G_ONCE_INIT;

    return GPOINTER_TO_INT(g_once(&once, unix_make_offer, NULL));
}

/* One of another version is none. */
static bool unix_is_offer(int fd)
{
    char text[sizeof(offer_text)];

    return pread(fd, text, sizeof(text), 0) == sizeof(text) &&
           !memcmp(text, offer_text, sizeof(text));
}

/* --------------------------------------------------------- descriptors */

/* Of a descriptor from the peer only the kernel is asked, see unix-socket.h. */
static bool unix_is_memory(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

static bool unix_is_unix_socket(int fd)
{
    int domain;
    socklen_t len = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           domain == AF_UNIX;
}

static int rings[DIRECTIONS];   /* all threads' */

/* Before there is a ring.  False: too many rings, or too many descriptors. */
static bool unix_charge_ring(UnixTransport *u, Direction d)
{
    if (u->ring_state[d] != RING_NONE) {
        return true;
    }
    if (qatomic_fetch_inc(&rings[d]) >= RINGS_MAX ||
        !rnic_descriptors_take(1)) {
        qatomic_dec(&rings[d]);
        return false;
    }
    u->ring_state[d] = RING_CHARGED;
    return true;
}

static void unix_end_ring(UnixTransport *u, Direction d, RnicSharedRing **ring)
{
    g_clear_pointer(ring, rnic_shared_ring_free);
    if (u->ring_state[d] == RING_CHARGED) {
        rnic_descriptors_release(1);
    }
    if (u->ring_state[d] != RING_NONE) {
        qatomic_dec(&rings[d]);
    }
    u->ring_state[d] = RING_NONE;
}

/* ---------------------------------------------------------------- read */

static bool unix_ended_both_ways(int fd)
{
    struct pollfd p = { .fd = fd };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static bool unix_take_ring(UnixTransport *u, int memory, int bell)
{
    u->ring_state[RX] = RING_MADE;
    u->rx = rnic_shared_ring_open(memory, bell);
    if (!u->rx) {
        trace_rnic_err_fabric_unix_ring(u, errno);
        return false;
    }
    trace_rnic_fabric_unix_ring(u, "received");
    unix_watch(&u->transport);
    return true;
}

/* Takes them. */
static bool unix_take_descriptors(UnixTransport *u, const int *fds,
                                  size_t count)
{
    if (count == 0) {
        return true;
    }
    if (count == 1 && unix_is_memory(fds[0])) {
        u->peer_takes_rings |= unix_is_offer(fds[0]);
        rnic_unix_discard(fds, 1);
        return true;
    }
    if (count == 2 && u->offered && !u->rx && unix_is_memory(fds[0]) &&
        unix_is_unix_socket(fds[1])) {
        return unix_take_ring(u, fds[0], fds[1]);
    }
    trace_rnic_err_fabric_unix_descriptors(u, count);
    rnic_unix_discard(fds, count);
    return false;
}

static ssize_t unix_read_socket(UnixTransport *u, const struct iovec *iov,
                                size_t niov)
{
    int fds[2];
    size_t count;
    ssize_t n = rnic_unix_receive(u->fd, iov, niov, fds, ARRAY_SIZE(fds),
                                  &count);

    if (!unix_take_descriptors(u, fds, count)) {
        errno = EPROTO;
        return -1;
    }
    return n;
}

/* The ring is empty. */
static ssize_t unix_look_at_socket(UnixTransport *u)
{
    char octet;
    size_t none;
    ssize_t n = rnic_unix_receive(u->fd, &(struct iovec) { &octet, 1 }, 1, NULL,
                                  0, &none);

    if (n > 0) {
        trace_rnic_err_fabric_unix_beside_ring(u);
        errno = EPROTO;
        return -1;
    }
    if (n < 0 && errno == EAGAIN) {
        u->look = false;
    }
    return n;
}

static ssize_t unix_read_ring(UnixTransport *u, const struct iovec *iov,
                              size_t niov)
{
    ssize_t n = rnic_shared_ring_read(u->rx, iov, niov);

    if (n != 0 || u->ended) {
        return n;
    }
    if (!u->look) {
        errno = EAGAIN;
        return -1;
    }
    n = unix_look_at_socket(u);
    if (n == 0) {
        u->ended = true;
        unix_watch(&u->transport);
        /* What was put there before the end. */
        n = rnic_shared_ring_read(u->rx, iov, niov);
    }
    return n;
}

static ssize_t unix_readv(RnicTransport *t, const struct iovec *iov,
                          size_t niov)
{
    UnixTransport *u = unix_of(t);
    ssize_t n = u->rx ? unix_read_ring(u, iov, niov)
                      : unix_read_socket(u, iov, niov);

    if (n == 0 && !u->fin_sent && unix_ended_both_ways(u->fd)) {
        errno = ECONNRESET;
        n = -1;
    }
    return n;
}

/* --------------------------------------------------------------- write */

/* As sendmsg(), with so many descriptors: one or two. */
static ssize_t unix_send_with(UnixTransport *u, const struct iovec *iov,
                              size_t niov, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = { };
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = niov,
    };

    if (count) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    }
    return RETRY_ON_EINTR(sendmsg(u->fd, &msg, MSG_NOSIGNAL));
}

/* To be asked before the first octets. */
static bool unix_may_offer(UnixTransport *u)
{
    return u->rings && u->sent == 0 && unix_charge_ring(u, RX);
}

static void unix_tell(UnixTransport *u)
{
    if (u->tx && !u->corked) {
        rnic_shared_ring_tell(u->tx);
    }
}

static void unix_cork(RnicTransport *t, bool corked)
{
    UnixTransport *u = unix_of(t);

    u->corked = corked;
    unix_tell(u);
}

/* @before octets have left otherwise. */
static ssize_t unix_write_ring(UnixTransport *u, const struct iovec *iov,
                               size_t niov, size_t before)
{
    ssize_t n = rnic_shared_ring_write(u->tx, iov, niov);

    if (n < 0) {
        return -1;
    }
    unix_tell(u);
    if (n + before == 0) {
        errno = EAGAIN;
        return -1;
    }
    return n + before;
}

static bool unix_wants_ring(const UnixTransport *u)
{
    return u->rings && u->peer_takes_rings && u->sent >= RING_AFTER;
}

/* The ring, with its receiver's descriptors in @fds; or NULL. */
static RnicSharedRing *unix_new_ring(UnixTransport *u, int *fds)
{
    RnicSharedRing *ring = NULL;

    if (unix_charge_ring(u, TX)) {
        ring = rnic_shared_ring_create(&fds[0], &fds[1]);
        if (!ring) {
            trace_rnic_err_fabric_host("ring", errno);
            unix_end_ring(u, TX, &u->tx);
        }
    }
    if (ring) {
        u->ring_state[TX] = RING_MADE;
    } else {
        u->rings = false;       /* do not try again */
    }
    return ring;
}

/* Give the ring to the peer, with one octet.  As unix_send_with(). */
static ssize_t unix_send_ring(UnixTransport *u, int *fds,
                              const struct iovec *iov)
{
    struct iovec octet = { iov->iov_base, 1 };
    ssize_t n = unix_send_with(u, &octet, 1, fds, 2);
    int error = errno;

    close(fds[0]);
    close(fds[1]);
    errno = error;
    return n;
}

/* As unix_writev(); 0 if there is no ring to be had. */
static ssize_t unix_begin_ring(UnixTransport *u, const struct iovec *iov,
                               size_t niov)
{
    g_autofree struct iovec *copy = g_memdup2(iov, niov * sizeof(*iov));
    struct iovec *rest = copy;
    unsigned count = niov;
    int fds[2];
    RnicSharedRing *ring = unix_new_ring(u, fds);
    ssize_t n;

    if (!ring) {
        return 0;
    }
    while (rest->iov_len == 0) {
        rest++;
        count--;
    }
    n = unix_send_ring(u, fds, rest);
    u->tx = ring;
    if (n != 1) {
        int error = errno;

        unix_end_ring(u, TX, &u->tx);
        errno = error;
        return n;
    }
    trace_rnic_fabric_unix_ring(u, "sent");
    unix_watch(&u->transport);
    iov_discard_front(&rest, &count, 1);
    return unix_write_ring(u, rest, count, 1);
}

static ssize_t unix_write_socket(UnixTransport *u, const struct iovec *iov,
                                 size_t niov)
{
    int fd = unix_may_offer(u) ? unix_offer() : -1;
    ssize_t n = unix_send_with(u, iov, niov, &fd, fd >= 0);

    if (n > 0) {
        u->offered |= fd >= 0;
        u->sent += MIN(n, RING_AFTER);
    }
    return n;
}

static ssize_t unix_writev(RnicTransport *t, const struct iovec *iov,
                           size_t niov)
{
    UnixTransport *u = unix_of(t);
    ssize_t n = 0;

    if (u->tx) {
        return unix_write_ring(u, iov, niov, 0);
    }
    if (unix_wants_ring(u) && iov_size(iov, niov) > 0) {
        n = unix_begin_ring(u, iov, niov);
    }
    return n ? n : unix_write_socket(u, iov, niov);
}

static void *unix_reserve(RnicTransport *t, size_t len)
{
    UnixTransport *u = unix_of(t);

    return u->tx ? rnic_shared_ring_place(u->tx, len) : NULL;
}

static void unix_commit(RnicTransport *t, size_t len)
{
    rnic_shared_ring_commit(unix_of(t)->tx, len);
}

/* ----------------------------------------------------------------- end */

static bool unix_shut_down(RnicTransport *t)
{
    UnixTransport *u = unix_of(t);

    u->fin_sent = true;
    shutdown(u->fd, SHUT_WR);
    return true;
}

/* A closed socket has reset the connection unless its end was said before. */
static void unix_close(RnicTransport *t, bool reset)
{
    UnixTransport *u = unix_of(t);

    unix_end_ring(u, TX, &u->tx);
    unix_end_ring(u, RX, &u->rx);
    rnic_unix_close(u->fd);
    if (u->at_end) {
        u->at_end(u->at_end_opaque);
    }
}

static RnicTransportEnd unix_end(RnicTransport *t)
{
    return rnic_transport_socket_end(unix_of(t)->fd);
}

static const RnicTransportOps unix_ops = {
    .readv = unix_readv,
    .writev = unix_writev,
    .shut_down = unix_shut_down,
    .close = unix_close,
    .watch = unix_watch,
    .end = unix_end,
    .pending = unix_pending,
    .cork = unix_cork,
    .reserve = unix_reserve,
    .commit = unix_commit,
};

RnicTransport *rnic_unix_transport_new(int fd, bool with_rings,
                                       GDestroyNotify at_end, void *opaque)
{
    UnixTransport *u = g_new0(UnixTransport, 1);
    const int size = SEND_BUFFER;

    u->transport.ops = &unix_ops;
    u->fd = fd;
    u->rings = with_rings;
    u->at_end = at_end;
    u->at_end_opaque = opaque;
    /* As much of it as net.core.wmem_max permits. */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return &u->transport;
}
