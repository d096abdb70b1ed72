/*
 * rnic: the channel of a UNIX stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <poll.h>
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/iov.h"
#include "qemu/memfd.h"
#include "qemu/module.h"
#include "qemu/sockets.h"
#include "qemu/thread.h"
#include "io/channel-socket.h"
#include "hw/rnic/base/compat.h"
#include "unix-channel.h"
#include "shared-ring.h"
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

/* One of the descriptors that a channel watches, and what for. */
typedef struct Watch {
    IOHandler *read;
    IOHandler *write;
} Watch;

struct RnicUnixChannel {
    QIOChannelSocket parent_obj;

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
    bool tx_silent;             /* the bell is not worth being watched */
    bool rx_silent;

    AioContext *ctx;            /* of the handlers, which get opaque */
    IOHandler *on_readable;
    IOHandler *on_writable;
    void *opaque;
    Watch socket_watch;
    Watch tx_watch;
    Watch rx_watch;
    QEMUBH *more;               /* readable, though the bell is not */

    GDestroyNotify at_end;
    void *at_end_opaque;
};

/* Those of the parent class. */
static typeof_field(QIOChannelClass, io_writev) socket_writev;
static typeof_field(QIOChannelClass, io_shutdown) socket_shutdown;
static typeof_field(QIOChannelClass, io_close) socket_close;

/* ------------------------------------------------------------- watches */

static void ring_readable(void *opaque);

/* There may be octets in the ring that its bell will not be rung for. */
static void look_for_more(RnicUnixChannel *c)
{
    if (c->on_readable && c->rx && !rnic_shared_ring_waits(c->rx)) {
        if (!c->more) {
            c->more = aio_bh_new(c->ctx, ring_readable, c);
        }
        qemu_bh_schedule(c->more);
    }
}

static void forget_more(RnicUnixChannel *c)
{
    g_clear_pointer(&c->more, qemu_bh_delete);
}

/*
 * A handler may give the channel to another thread: then it is that one's, which
 * has made ctx its own before the handler returns.
 */
static void ring_readable(void *opaque)
{
    RnicUnixChannel *c = opaque;
    AioContext *ctx = c->ctx;

    object_ref(OBJECT(c));
    if (c->on_readable) {
        c->on_readable(c->opaque);
        if (c->ctx == ctx) {
            look_for_more(c);
        }
    }
    object_unref(OBJECT(c));
}

static void socket_readable(void *opaque)
{
    RnicUnixChannel *c = opaque;

    c->look = true;
    ring_readable(c);
}

static void socket_writable(void *opaque)
{
    RnicUnixChannel *c = opaque;

    c->on_writable(c->opaque);
}

static void update_watches(RnicUnixChannel *c);

static void rx_rung(void *opaque)
{
    RnicUnixChannel *c = opaque;

    if (!rnic_shared_ring_rung(c->rx)) {
        c->rx_silent = true;
        update_watches(c);
    }
    ring_readable(c);
}

static void tx_rung(void *opaque)
{
    RnicUnixChannel *c = opaque;

    if (!rnic_shared_ring_rung(c->tx)) {
        c->tx_silent = true;
        update_watches(c);
    }
    if (c->on_writable) {
        c->on_writable(c->opaque);
    }
}

static void set_watch(RnicUnixChannel *c, Watch *w, int fd, IOHandler *read,
                      IOHandler *write)
{
    if (w->read != read || w->write != write) {
        *w = (Watch) { read, write };
        aio_set_fd_handler(c->ctx, fd, read, write, NULL, NULL, c);
    }
}

/*
 * The bells are watched all the time, whether anybody waits or not: QEMU looks
 * through all descriptors of a thread for one that is new.
 */
static void update_watches(RnicUnixChannel *c)
{
    bool any = c->on_readable || c->on_writable;

    set_watch(c, &c->socket_watch, c->parent_obj.fd,
              c->on_readable && !c->ended ? socket_readable : NULL,
              c->on_writable && !c->tx ? socket_writable : NULL);
    if (c->rx) {
        set_watch(c, &c->rx_watch, rnic_shared_ring_bell(c->rx),
                  any && !c->rx_silent ? rx_rung : NULL, NULL);
    }
    if (c->tx) {
        set_watch(c, &c->tx_watch, rnic_shared_ring_bell(c->tx),
                  any && !c->tx_silent ? tx_rung : NULL, NULL);
    }
}

static void channel_set_aio_fd_handler(QIOChannel *ioc, AioContext *read_ctx,
                                       IOHandler *io_read,
                                       AioContext *write_ctx,
                                       IOHandler *io_write, void *opaque)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(ioc);

    assert(read_ctx == write_ctx);
    if (!io_read) {
        forget_more(c);
    }
    /* A thread that gave the channel away may be looking, see above. */
    if (c->ctx != read_ctx) {
        c->ctx = read_ctx;
    }
    c->on_readable = io_read;
    c->on_writable = io_write;
    c->opaque = opaque;
    update_watches(c);
    look_for_more(c);
}

/* --------------------------------------------------------------- offer */

static gpointer make_offer(gpointer unused)
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
static int offer(void)
{
    static GOnce once = G_ONCE_INIT;

    return GPOINTER_TO_INT(g_once(&once, make_offer, NULL));
}

/* One of another version is none. */
static bool is_offer(int fd)
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
static bool is_memory(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

static bool is_unix_socket(int fd)
{
    int domain;
    socklen_t len = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           domain == AF_UNIX;
}

static int closers;             /* all threads' */

/* While too many wait, streams are plain sockets to both ends. */
static bool may_take_descriptors(void)
{
    return qatomic_read(&closers) < CLOSERS_MAX;
}

static void *close_and_end(void *opaque)
{
    close(GPOINTER_TO_INT(opaque));
    qatomic_dec(&closers);
    return NULL;
}

/*
 * What may wait does so in a thread of its own; it ends its stream, too.  With
 * too many of them it stays open instead: only streams that were offered rings
 * before can bring more.
 */
static void close_unknown(int fd)
{
    QemuThread thread;

    if (is_memory(fd) || is_unix_socket(fd)) {
        close(fd);
    } else if (qatomic_fetch_inc(&closers) < CLOSERS_MAX) {
        qemu_thread_create(&thread, "rnic-close", close_and_end,
                           GINT_TO_POINTER(fd), QEMU_THREAD_DETACHED);
    } else {
        qatomic_dec(&closers);
        trace_rnic_err_fabric_unix_left_open(fd);
    }
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        close_unknown(fds[i]);
    }
}

/* ---------------------------------------------------------------- read */

static bool ended_both_ways(int fd)
{
    struct pollfd p = { .fd = fd };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static bool take_ring(RnicUnixChannel *c, int memory, int bell)
{
    c->rx = rnic_shared_ring_open(memory, bell);
    if (!c->rx) {
        trace_rnic_err_fabric_unix_ring(c, errno);
        return false;
    }
    trace_rnic_fabric_unix_ring(c, "received");
    update_watches(c);
    return true;
}

/* Takes them. */
static bool take_descriptors(RnicUnixChannel *c, const int *fds, size_t count)
{
    if (count == 1 && is_memory(fds[0])) {
        c->peer_takes_rings |= is_offer(fds[0]);
        close(fds[0]);
        return true;
    }
    if (count == 2 && c->offered && !c->rx && is_memory(fds[0]) &&
        is_unix_socket(fds[1])) {
        return take_ring(c, fds[0], fds[1]);
    }
    trace_rnic_err_fabric_unix_descriptors(c, count);
    close_all(fds, count);
    return false;
}

/* False: descriptors that do not belong there, or that there is no room for. */
static bool take_control(RnicUnixChannel *c, struct msghdr *msg)
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
        trace_rnic_err_fabric_unix_lost_descriptors(c);
        close_all(fds, count);
        return false;
    }
    return count == 0 || take_descriptors(c, fds, count);
}

static ssize_t read_socket(RnicUnixChannel *c, const struct iovec *iov,
                           size_t niov)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    /* Of an end that has offered nothing nothing is expected. */
    bool take = c->offered || may_take_descriptors();
    struct msghdr msg = {
        .msg_iov = (struct iovec *)iov,
        .msg_iovlen = niov,
        .msg_control = take ? &control : NULL,
        .msg_controllen = take ? sizeof(control) : 0,
    };
    ssize_t n = RETRY_ON_EINTR(recvmsg(c->parent_obj.fd, &msg,
                                       MSG_CMSG_CLOEXEC));

    if (n >= 0 && take && !take_control(c, &msg)) {
        errno = EPROTO;
        return -1;
    }
    return n < 0 && errno == EAGAIN ? QIO_CHANNEL_ERR_BLOCK : n;
}

/* The ring is empty. */
static ssize_t look_at_socket(RnicUnixChannel *c)
{
    char octet;
    ssize_t n = RETRY_ON_EINTR(recv(c->parent_obj.fd, &octet, 1, 0));

    if (n > 0) {
        trace_rnic_err_fabric_unix_beside_ring(c);
        errno = EPROTO;
        return -1;
    }
    if (n < 0 && errno == EAGAIN) {
        c->look = false;
        return QIO_CHANNEL_ERR_BLOCK;
    }
    return n;
}

static ssize_t read_ring(RnicUnixChannel *c, const struct iovec *iov,
                         size_t niov)
{
    ssize_t n = rnic_shared_ring_read(c->rx, iov, niov);

    if (n != 0 || c->ended) {
        return n;
    }
    n = c->look ? look_at_socket(c) : QIO_CHANNEL_ERR_BLOCK;
    if (n == 0) {
        c->ended = true;
        update_watches(c);
        /* What was put there before the end. */
        n = rnic_shared_ring_read(c->rx, iov, niov);
    }
    return n;
}

static ssize_t channel_readv(QIOChannel *ioc, const struct iovec *iov,
                             size_t niov, int **fds, size_t *nfds, int flags,
                             Error **errp)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(ioc);
    ssize_t n = c->rx ? read_ring(c, iov, niov) : read_socket(c, iov, niov);

    if (n == 0 && !c->fin_sent && ended_both_ways(c->parent_obj.fd)) {
        errno = ECONNRESET;
        n = -1;
    }
    if (n == -1) {
        int error = errno;

        error_setg_errno(errp, error, "the peer ended the connection");
        errno = error;
    }
    return n;
}

/* --------------------------------------------------------------- write */

static int rings;               /* to send by; all threads' */

static void free_tx(RnicUnixChannel *c)
{
    if (c->tx) {
        g_clear_pointer(&c->tx, rnic_shared_ring_free);
        qatomic_dec(&rings);
    }
}

static void tell(RnicUnixChannel *c)
{
    if (c->tx && !c->corked) {
        rnic_shared_ring_tell(c->tx);
    }
}

static void channel_set_cork(QIOChannel *ioc, bool enabled)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(ioc);

    c->corked = enabled;
    tell(c);
}

/* @before octets have left otherwise. */
static ssize_t write_ring(RnicUnixChannel *c, const struct iovec *iov,
                          size_t niov, size_t before, Error **errp)
{
    ssize_t n = rnic_shared_ring_write(c->tx, iov, niov);
    int error = errno;

    if (n < 0) {
        error_setg_errno(errp, error, "the peer's end of the ring is gone");
        errno = error;
        return -1;
    }
    tell(c);
    return n + before ? n + before : QIO_CHANNEL_ERR_BLOCK;
}

static bool wants_ring(const RnicUnixChannel *c)
{
    return c->rings && c->peer_takes_rings && c->sent >= RING_AFTER;
}

/* The ring, with its receiver's descriptors in @fds; or NULL. */
static RnicSharedRing *new_ring(RnicUnixChannel *c, int *fds)
{
    RnicSharedRing *ring = NULL;

    if (qatomic_fetch_inc(&rings) < RINGS_MAX) {
        ring = rnic_shared_ring_create(&fds[0], &fds[1]);
        if (!ring) {
            trace_rnic_err_fabric_host("ring", errno);
        }
    }
    if (!ring) {
        qatomic_dec(&rings);
        c->rings = false;       /* do not try again */
    }
    return ring;
}

/* Give the ring to the peer, with one octet.  As socket_writev(). */
static ssize_t send_ring(RnicUnixChannel *c, int *fds, const struct iovec *iov,
                         Error **errp)
{
    struct iovec octet = { iov->iov_base, 1 };
    ssize_t n = socket_writev(QIO_CHANNEL(c), &octet, 1, fds, 2, 0, errp);
    int error = errno;

    close(fds[0]);
    close(fds[1]);
    errno = error;
    return n;
}

/* As channel_writev(); 0 if there is no ring to be had. */
static ssize_t begin_ring(RnicUnixChannel *c, const struct iovec *iov,
                          size_t niov, Error **errp)
{
    g_autofree struct iovec *copy = g_memdup2(iov, niov * sizeof(*iov));
    struct iovec *rest = copy;
    unsigned count = niov;
    int fds[2];
    RnicSharedRing *ring = new_ring(c, fds);
    ssize_t n;

    if (!ring) {
        return 0;
    }
    while (rest->iov_len == 0) {
        rest++;
        count--;
    }
    n = send_ring(c, fds, rest, errp);
    c->tx = ring;
    if (n != 1) {
        free_tx(c);
        return n;
    }
    trace_rnic_fabric_unix_ring(c, "sent");
    update_watches(c);
    iov_discard_front(&rest, &count, 1);
    return write_ring(c, rest, count, 1, errp);
}

static ssize_t write_socket(RnicUnixChannel *c, const struct iovec *iov,
                            size_t niov, int flags, Error **errp)
{
    bool first = c->rings && c->sent == 0 && may_take_descriptors();
    int fd = first ? offer() : -1;
    ssize_t n = socket_writev(QIO_CHANNEL(c), iov, niov, fd < 0 ? NULL : &fd,
                              fd < 0 ? 0 : 1, flags, errp);

    if (n > 0) {
        c->offered |= fd >= 0;
        c->sent += MIN(n, RING_AFTER);
    }
    return n;
}

static ssize_t channel_writev(QIOChannel *ioc, const struct iovec *iov,
                              size_t niov, int *fds, size_t nfds, int flags,
                              Error **errp)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(ioc);
    ssize_t n = 0;

    if (c->tx) {
        return write_ring(c, iov, niov, 0, errp);
    }
    if (wants_ring(c) && iov_size(iov, niov) > 0) {
        n = begin_ring(c, iov, niov, errp);
    }
    return n ? n : write_socket(c, iov, niov, flags, errp);
}

size_t rnic_unix_channel_room(const RnicUnixChannel *c)
{
    return c->tx ? rnic_shared_ring_room(c->tx) : SIZE_MAX;
}

bool rnic_unix_channel_await_room(RnicUnixChannel *c)
{
    return rnic_shared_ring_await_room(c->tx);
}

void *rnic_unix_channel_place(const RnicUnixChannel *c, size_t len)
{
    return c->tx ? rnic_shared_ring_place(c->tx, len) : NULL;
}

void rnic_unix_channel_commit(RnicUnixChannel *c, size_t len)
{
    rnic_shared_ring_commit(c->tx, len);
}

const void *rnic_unix_channel_peek(const RnicUnixChannel *c, size_t *n)
{
    *n = 0;
    return c->rx ? rnic_shared_ring_peek(c->rx, n) : NULL;
}

void rnic_unix_channel_consume(RnicUnixChannel *c, size_t n)
{
    rnic_shared_ring_consume(c->rx, n);
}

/* ----------------------------------------------------------------- end */

static int channel_shutdown(QIOChannel *ioc, QIOChannelShutdown how,
                            Error **errp)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(ioc);

    c->fin_sent |= how != QIO_CHANNEL_SHUTDOWN_READ;
    return socket_shutdown(ioc, how, errp);
}

static void free_rings(RnicUnixChannel *c)
{
    forget_more(c);
    free_tx(c);
    g_clear_pointer(&c->rx, rnic_shared_ring_free);
}

static int channel_close(QIOChannel *ioc, Error **errp)
{
    free_rings(RNIC_UNIX_CHANNEL(ioc));
    return socket_close(ioc, errp);
}

static void channel_finalize(Object *obj)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(obj);

    free_rings(c);
    if (c->at_end) {
        c->at_end(c->at_end_opaque);
    }
}

RnicUnixChannel *rnic_unix_channel_new(int fd, bool with_rings)
{
    RnicUnixChannel *c = RNIC_UNIX_CHANNEL(object_new(TYPE_RNIC_UNIX_CHANNEL));
    QIOChannel *ioc = QIO_CHANNEL(c);
    const int size = SEND_BUFFER;

    c->rings = with_rings;
    c->parent_obj.fd = fd;
    c->parent_obj.localAddr.ss_family = AF_UNIX;    /* see stream.c */
    qio_channel_set_feature(ioc, QIO_CHANNEL_FEATURE_SHUTDOWN);
    qio_channel_set_blocking(ioc, false, NULL);
    /* As much of it as net.core.wmem_max permits. */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return c;
}

int rnic_unix_channel_fd(const RnicUnixChannel *c)
{
    return c->parent_obj.fd;
}

void rnic_unix_channel_at_end(RnicUnixChannel *c, GDestroyNotify fn,
                              void *opaque)
{
    c->at_end = fn;
    c->at_end_opaque = opaque;
}

static void channel_class_init(ObjectClass *klass, RNIC_CLASS_DATA *data)
{
    QIOChannelClass *ioc = QIO_CHANNEL_CLASS(klass);

    socket_writev = ioc->io_writev;
    socket_shutdown = ioc->io_shutdown;
    socket_close = ioc->io_close;
    ioc->io_readv = channel_readv;
    ioc->io_writev = channel_writev;
    ioc->io_shutdown = channel_shutdown;
    ioc->io_close = channel_close;
    ioc->io_set_cork = channel_set_cork;
    ioc->io_set_aio_fd_handler = channel_set_aio_fd_handler;
}

static const TypeInfo channel_types[] = {
    {
        .name = TYPE_RNIC_UNIX_CHANNEL,
        .parent = TYPE_QIO_CHANNEL_SOCKET,
        .instance_size = sizeof(RnicUnixChannel),
        .instance_finalize = channel_finalize,
        .class_init = channel_class_init,
    },
};

DEFINE_TYPES(channel_types)
