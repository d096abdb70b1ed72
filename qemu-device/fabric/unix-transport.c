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
#include "qemu/thread.h"
#include "descriptors.h"
#include "shared-ring.h"
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

    /* Rings to send by, of the whole process: 128 MiB. */
    RINGS_MAX = 256,

    /* Threads that wait for a close(2), of the whole process. */
    CLOSERS_MAX = 16,
};

/* What the descriptor at the beginning of a stream is the file of. */
static const char offer_text[] = "rnic-ring 4\n";

/* One of the descriptors that a transport watches, and what for. */
typedef struct Watch {
    IOHandler *read;
    IOHandler *write;
} Watch;

typedef struct UnixTransport {
    RnicTransport transport;
    int refs;                   /* the user's, and a running handler's */
    int fd;
    unsigned descriptors;       /* of rnic_descriptors_take() */
    bool fin_sent;
    bool corked;
    bool rings;
    bool offered;
    bool peer_takes_rings;
    size_t sent;                /* by the socket */
    RnicSharedRing *tx;         /* NULL: the socket */
    RnicSharedRing *rx;
    bool look;                  /* beside the ring, at the socket */
    bool ended;                 /* no more comes */
    bool tx_silent;             /* the peer has closed its end of the bell */
    bool rx_silent;

    AioContext *ctx;            /* of the handlers; NULL: in no event loop */
    IOHandler *readable;
    IOHandler *writable;
    void *opaque;
    Watch socket_watch;
    Watch tx_watch;
    Watch rx_watch;
    QEMUBH *more;               /* readable, though the bell is not */

    GDestroyNotify at_end;
    void *at_end_opaque;
} UnixTransport;

static UnixTransport *unix_of(RnicTransport *t)
{
    return container_of(t, UnixTransport, transport);
}

/* ------------------------------------------------------------- watches */

static void unix_ring_readable(void *opaque);

/* There may be octets in the ring that its bell will not be rung for. */
static void unix_look_for_more(UnixTransport *u)
{
    if (u->readable && u->rx && !rnic_shared_ring_waits(u->rx)) {
        if (!u->more) {
            u->more = aio_bh_new(u->ctx, unix_ring_readable, u);
        }
        qemu_bh_schedule(u->more);
    }
}

static void unix_forget_more(UnixTransport *u)
{
    g_clear_pointer(&u->more, qemu_bh_delete);
}

/* Handlers may close the transport, or give it to another thread. */
static void unix_ref(UnixTransport *u)
{
    qatomic_inc(&u->refs);
}

static void unix_unref(UnixTransport *u)
{
    if (qatomic_fetch_dec(&u->refs) == 1) {
        g_free(u);
    }
}

/* If the handler gives the transport to another thread, it is that one's. */
static void unix_ring_readable(void *opaque)
{
    UnixTransport *u = opaque;
    AioContext *ctx = u->ctx;

    unix_ref(u);
    if (u->readable) {
        u->readable(u->opaque);
        if (qatomic_read(&u->ctx) == ctx) {
            unix_look_for_more(u);
        }
    }
    unix_unref(u);
}

static void unix_socket_readable(void *opaque)
{
    UnixTransport *u = opaque;

    u->look = true;
    unix_ring_readable(u);
}

static void unix_socket_writable(void *opaque)
{
    UnixTransport *u = opaque;

    u->writable(u->opaque);
}

static void unix_update_watches(UnixTransport *u);

static void unix_rx_rung(void *opaque)
{
    UnixTransport *u = opaque;

    if (!rnic_shared_ring_rung(u->rx)) {
        u->rx_silent = true;
        unix_update_watches(u);
    }
    unix_ring_readable(u);
}

static void unix_tx_rung(void *opaque)
{
    UnixTransport *u = opaque;

    if (!rnic_shared_ring_rung(u->tx)) {
        u->tx_silent = true;
        unix_update_watches(u);
    }
    if (u->writable) {
        u->writable(u->opaque);
    }
}

static void unix_set_watch(UnixTransport *u, Watch *w, int fd, IOHandler *read,
                           IOHandler *write)
{
    if (w->read != read || w->write != write) {
        *w = (Watch) { read, write };
        aio_set_fd_handler(u->ctx, fd, read, write, NULL, NULL, u);
    }
}

/*
 * The bells are watched all the time, whether anybody waits or not: QEMU looks
 * through all descriptors of a thread for one that is new.
 */
static void unix_update_watches(UnixTransport *u)
{
    bool any = u->readable || u->writable;

    unix_set_watch(u, &u->socket_watch, u->fd,
                   u->readable && !u->ended ? unix_socket_readable : NULL,
                   u->writable && !u->tx ? unix_socket_writable : NULL);
    if (u->rx) {
        unix_set_watch(u, &u->rx_watch, rnic_shared_ring_bell(u->rx),
                       any && !u->rx_silent ? unix_rx_rung : NULL, NULL);
    }
    if (u->tx) {
        unix_set_watch(u, &u->tx_watch, rnic_shared_ring_bell(u->tx),
                       any && !u->tx_silent ? unix_tx_rung : NULL, NULL);
    }
}

static void unix_leave_loop(UnixTransport *u)
{
    unix_forget_more(u);
    u->readable = NULL;
    u->writable = NULL;
    if (u->ctx) {
        unix_update_watches(u);
        qatomic_set(&u->ctx, NULL);
    }
}

static void unix_set_handlers(RnicTransport *t, AioContext *ctx,
                              IOHandler *readable, IOHandler *writable,
                              void *opaque)
{
    UnixTransport *u = unix_of(t);

    if (!ctx) {
        unix_leave_loop(u);
        return;
    }
    if (!readable) {
        unix_forget_more(u);
    }
    qatomic_set(&u->ctx, ctx);
    u->readable = readable;
    u->writable = writable;
    u->opaque = opaque;
    unix_update_watches(u);
    unix_look_for_more(u);
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

/*
 * A descriptor from the peer may be of any file, also of one whose every
 * operation, close(2) too, waits for as long as the peer likes (FUSE).  These
 * two questions are answered by the kernel alone.
 */
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

static int closers;             /* all threads' */

/* While too many wait, streams are plain sockets to both ends. */
static bool unix_may_take_descriptors(void)
{
    return qatomic_read(&closers) < CLOSERS_MAX;
}

static void *unix_close_and_end(void *opaque)
{
    close(GPOINTER_TO_INT(opaque));
    qatomic_dec(&closers);
    return NULL;
}

/*
 * close(2) of an unknown file may block, so a thread of its own does it; the
 * stream fails.  With too many of these threads the file stays open instead: only
 * streams that were offered rings before can bring more.
 */
static void unix_close_unknown(int fd)
{
    QemuThread thread;

    if (unix_is_memory(fd) || unix_is_unix_socket(fd)) {
        close(fd);
    } else if (qatomic_fetch_inc(&closers) < CLOSERS_MAX) {
        qemu_thread_create(&thread, "rnic-close", unix_close_and_end,
                           GINT_TO_POINTER(fd), QEMU_THREAD_DETACHED);
    } else {
        qatomic_dec(&closers);
        trace_rnic_err_fabric_unix_left_open(fd);
    }
}

static void unix_close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unix_close_unknown(fds[i]);
    }
}

/* ---------------------------------------------------------------- read */

static bool unix_ended_both_ways(int fd)
{
    struct pollfd p = { .fd = fd };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static bool unix_take_ring(UnixTransport *u, int memory, int bell)
{
    u->rx = rnic_shared_ring_open(memory, bell);
    if (!u->rx) {
        trace_rnic_err_fabric_unix_ring(u, errno);
        return false;
    }
    trace_rnic_fabric_unix_ring(u, "received");
    unix_update_watches(u);
    return true;
}

/* Takes them. */
static bool unix_take_descriptors(UnixTransport *u, const int *fds,
                                  size_t count)
{
    if (count == 1 && unix_is_memory(fds[0])) {
        u->peer_takes_rings |= unix_is_offer(fds[0]);
        close(fds[0]);
        return true;
    }
    if (count == 2 && u->offered && !u->rx && unix_is_memory(fds[0]) &&
        unix_is_unix_socket(fds[1])) {
        return unix_take_ring(u, fds[0], fds[1]);
    }
    trace_rnic_err_fabric_unix_descriptors(u, count);
    unix_close_all(fds, count);
    return false;
}

/* False: descriptors that do not belong there, or that there is no room for. */
static bool unix_take_control(UnixTransport *u, struct msghdr *msg)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(msg);
    bool whole = !(msg->msg_flags & MSG_CTRUNC);
    size_t count = 0;
    int fds[2];

    if (header && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_RIGHTS) {
        count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    }
    if (!whole) {
        trace_rnic_err_fabric_unix_lost_descriptors(u);
        unix_close_all(fds, count);
        return false;
    }
    return count == 0 || unix_take_descriptors(u, fds, count);
}

static ssize_t unix_read_socket(UnixTransport *u, const struct iovec *iov,
                                size_t niov)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    /* Descriptors are accepted only if this end has offered rings. */
    bool take = u->offered || unix_may_take_descriptors();
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = niov,
        .msg_control = take ? &control : NULL,
        .msg_controllen = take ? sizeof(control) : 0,
    };
    ssize_t n = RETRY_ON_EINTR(recvmsg(u->fd, &msg,
                                       MSG_CMSG_CLOEXEC));

    if (n >= 0 && take && !unix_take_control(u, &msg)) {
        errno = EPROTO;
        return -1;
    }
    return n;
}

/* The ring is empty. */
static ssize_t unix_look_at_socket(UnixTransport *u)
{
    char octet;
    ssize_t n = RETRY_ON_EINTR(recv(u->fd, &octet, 1, 0));

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
        unix_update_watches(u);
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

static int rings;               /* to send by; all threads' */

/* One more descriptor for the transport; the bell of a ring. */
static bool unix_borrow(UnixTransport *u)
{
    bool ok = rnic_descriptors_take(1);

    u->descriptors += ok;
    return ok;
}

static void unix_give_back(UnixTransport *u)
{
    u->descriptors--;
    rnic_descriptors_release(1);
}

/* To be asked before the first octets.  The ring's descriptor is taken now. */
static bool unix_may_offer(UnixTransport *u)
{
    return u->rings && u->sent == 0 && unix_may_take_descriptors() &&
           (u->descriptors > 1 || unix_borrow(u));
}

static void unix_free_tx(UnixTransport *u)
{
    if (u->tx) {
        g_clear_pointer(&u->tx, rnic_shared_ring_free);
        qatomic_dec(&rings);
        unix_give_back(u);
    }
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

    if (qatomic_fetch_inc(&rings) < RINGS_MAX && unix_borrow(u)) {
        ring = rnic_shared_ring_create(&fds[0], &fds[1]);
        if (!ring) {
            trace_rnic_err_fabric_host("ring", errno);
            unix_give_back(u);
        }
    }
    if (!ring) {
        qatomic_dec(&rings);
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

        unix_free_tx(u);
        errno = error;
        return n;
    }
    trace_rnic_fabric_unix_ring(u, "sent");
    unix_update_watches(u);
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

    unix_leave_loop(u);
    unix_free_tx(u);
    g_clear_pointer(&u->rx, rnic_shared_ring_free);
    close(u->fd);
    rnic_descriptors_release(u->descriptors);
    if (u->at_end) {
        u->at_end(u->at_end_opaque);
    }
    unix_unref(u);
}

static const RnicTransportOps unix_ops = {
    .readv = unix_readv,
    .writev = unix_writev,
    .shut_down = unix_shut_down,
    .close = unix_close,
    .set_handlers = unix_set_handlers,
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
    u->refs = 1;
    u->fd = fd;
    u->descriptors = 1;
    u->rings = with_rings;
    u->at_end = at_end;
    u->at_end_opaque = opaque;
    /* As much of it as net.core.wmem_max permits. */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return &u->transport;
}
