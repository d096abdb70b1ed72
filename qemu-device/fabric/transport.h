/*
 * rnic: a transport, one connected reliable byte stream
 *
 * A table of operations.  A host socket (socket-transport.c), TLS above it
 * (tls.c), and a UNIX socket with shared rings (unix-transport.c) fill it in.
 * Code above the fabric uses only the functions below and cannot tell which
 * transport it has.
 *
 * Nothing here blocks.  A transport belongs to one thread at a time: the thread
 * of the event loop that its handlers are set in, and before any were set the
 * main loop's.
 *
 * A transport may have a tap, which sees every octet that goes to and comes from the
 * user.  Without one, or while the tap does not look, that costs one branch.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TRANSPORT_H
#define HW_RNIC_FABRIC_TRANSPORT_H

#include "block/aio.h"
#include "qemu/atomic.h"
#include "hw/rnic/base/compat.h"

typedef struct RnicTransport RnicTransport;
typedef struct RnicTransportTap RnicTransportTap;

/* How far a connection has ended, whatever is left to be read before the end. */
typedef enum RnicTransportEnd {
    RNIC_END_NONE,
    RNIC_END_PEER,              /* the peer has ended its direction */
    RNIC_END_BOTH,              /* the peer reset or left it, or is lost */
} RnicTransportEnd;

typedef struct RnicTransportOps {
    ssize_t (*readv)(RnicTransport *t, const struct iovec *iov, size_t count);
    ssize_t (*writev)(RnicTransport *t, const struct iovec *iov,
                      size_t count);
    bool (*shut_down)(RnicTransport *t);
    /* Free all but the structure, which is out of the event loop. */
    void (*close)(RnicTransport *t, bool reset);
    /* The handlers have changed: watch what they need, without ctx nothing. */
    void (*watch)(RnicTransport *t);
    RnicTransportEnd (*end)(RnicTransport *t);

    /* NULL: the transport has nothing of the kind. */
    bool (*pending)(RnicTransport *t);  /* octets that nothing will wake for */
    void (*cork)(RnicTransport *t, bool corked);
    void *(*reserve)(RnicTransport *t, size_t len);     /* with commit */
    void (*commit)(RnicTransport *t, size_t len);
    size_t (*segment_size)(RnicTransport *t);
} RnicTransportOps;

/* Calls of the tap come from the transport's thread.  errno stays what it is. */
typedef struct RnicTransportTapOps {
    /* The first @len octets of @iov were taken to be @sent, or have been read. */
    void (*octets)(RnicTransportTap *tap, bool sent, const struct iovec *iov,
                   size_t count, size_t len);
    /* This direction has ended; @error: errno, the connection is broken; 0: FIN. */
    void (*ended)(RnicTransportTap *tap, bool sent, int error);
    /* See rnic_transport_tell_place(). */
    void (*place)(RnicTransportTap *tap, bool sent, size_t left, uint16_t pos);
    /* The transport goes: frees the tap. */
    void (*closed)(RnicTransportTap *tap, bool reset);
} RnicTransportTapOps;

/* The first member of each tap's own structure. */
struct RnicTransportTap {
    const RnicTransportTapOps *ops;
};

/* The first member of each transport's own structure, of g_new0(). */
struct RnicTransport {
    const RnicTransportOps *ops;
    bool tapped;                /* the tap looks; any thread, atomic */
    RnicTransportTap *tap;      /* NULL: there is none */
    int refs;                   /* running handlers, besides the user */
    AioContext *ctx;            /* of the handlers; NULL: in no event loop */
    IOHandler *readable;
    IOHandler *writable;
    void *opaque;
    QEMUBH *more;               /* readable, though no descriptor is */
};

/* One of the descriptors that a transport watches, and what for. */
typedef struct RnicWatch {
    AioContext *ctx;
    IOHandler *read;
    IOHandler *write;
    void *opaque;
} RnicWatch;

/* The tap looks. */
static inline bool rnic_transport_tapped(const RnicTransport *t)
{
    return unlikely(qatomic_read(&t->tapped));
}

/* What readv() and writev() have returned, shutdown() has done. */
void rnic_transport_tap_read(RnicTransport *t, const struct iovec *iov,
                             size_t count, ssize_t got);
void rnic_transport_tap_written(RnicTransport *t, const struct iovec *iov,
                                size_t count, ssize_t taken);
void rnic_transport_tap_shut_down(RnicTransport *t);

/*
 * Octets read into @iov; 0: the peer has ended its direction; -1 with errno:
 * EAGAIN (none for now), ETIMEDOUT (the peer is lost), others (a reset).
 */
static inline ssize_t rnic_transport_readv(RnicTransport *t,
                                           const struct iovec *iov,
                                           size_t count)
{
    ssize_t got = t->ops->readv(t, iov, count);

    if (rnic_transport_tapped(t)) {
        rnic_transport_tap_read(t, iov, count, got);
    }
    return got;
}

static inline ssize_t rnic_transport_read(RnicTransport *t, void *octets,
                                          size_t len)
{
    return rnic_transport_readv(t, &(struct iovec) { octets, len }, 1);
}

/* Octets of @iov that were taken; -1 with errno, as with reading. */
static inline ssize_t rnic_transport_writev(RnicTransport *t,
                                            const struct iovec *iov,
                                            size_t count)
{
    ssize_t taken = t->ops->writev(t, iov, count);

    if (rnic_transport_tapped(t)) {
        rnic_transport_tap_written(t, iov, count, taken);
    }
    return taken;
}

static inline ssize_t rnic_transport_write(RnicTransport *t,
                                           const void *octets, size_t len)
{
    return rnic_transport_writev(t, &(struct iovec) { (void *)octets, len },
                                 1);
}

/*
 * End this direction behind all that was written.  True: that has been said, or
 * cannot be said any more.  False: the transport says it as soon as it can, and
 * the writable handler is called then; to call this again tells.
 */
static inline bool rnic_transport_shut_down(RnicTransport *t)
{
    bool said = t->ops->shut_down(t);

    if (said && rnic_transport_tapped(t)) {
        rnic_transport_tap_shut_down(t);
    }
    return said;
}

static inline RnicTransportEnd rnic_transport_end(RnicTransport *t)
{
    return t->ops->end(t);
}

/*
 * Free the transport.  Handlers are no longer called.  Octets that the peer has
 * sent and the user has not read may turn the end into a reset: rnic_linger() closes
 * in order.
 */
void rnic_transport_close(RnicTransport *t);
/* The same; the peer sees a reset (abortive LLP close, V6.2.2.4-1). */
void rnic_transport_abort(RnicTransport *t);

/*
 * Call @readable when something can be read, @writable when something can be
 * written (NULL: do not), with @opaque, in the thread of @ctx.  A transport that
 * has octets for which nothing will wake it looks for them here.
 */
void rnic_transport_set_handlers(RnicTransport *t, AioContext *ctx,
                                 IOHandler *readable, IOHandler *writable,
                                 void *opaque);
/*
 * Nothing of the transport is in an event loop any more: it can be given to
 * another thread.  In the thread of the event loop, from a handler too.
 */
void rnic_transport_leave_loop(RnicTransport *t);

/*
 * Octets of the largest TCP segment that is sent now (EMSS); 0: octets do not leave
 * in segments, or these are no packets of a network.
 */
static inline size_t rnic_transport_segment_size(RnicTransport *t)
{
    return t->ops->segment_size ? t->ops->segment_size(t) : 0;
}

/*
 * While it is corked the end of what is written may wait for more, to leave in
 * one packet or to be found by a peer that is told once.
 */
static inline void rnic_transport_cork(RnicTransport *t, bool corked)
{
    if (t->ops->cork) {
        t->ops->cork(t, corked);
    }
}

/*
 * Where the stream's next @len octets go, for the caller to put them there
 * without another copy; NULL: only by writing.  Then that they are there: the
 * peer is told when the transport is uncorked or written to next.  The place may be
 * memory that the peer writes to as well, so a tap could not trust what it reads there.
 */
static inline void *rnic_transport_reserve(RnicTransport *t, size_t len)
{
    return t->ops->reserve && !rnic_transport_tapped(t)
           ? t->ops->reserve(t, len) : NULL;
}

static inline void rnic_transport_commit(RnicTransport *t, size_t len)
{
    t->ops->commit(t, len);
}

/*
 * For a tap that does not know where it is in the stream: an FPDU ends @left octets
 * behind those that were @sent, or read; the next one begins at stream position
 * @pos (iwarp/mpa-fpdu.h).  Only to be called for a transport that is tapped.
 */
static inline void rnic_transport_tell_place(RnicTransport *t, bool sent,
                                             size_t left, uint16_t pos)
{
    t->tap->ops->place(t->tap, sent, left, pos);
}

/* ------------------------------------------------------ for transports */

/*
 * Call the user's handler, if there is one.  It may close the transport, or give
 * it to another thread; the structure stays until these return.
 */
void rnic_transport_readable(RnicTransport *t);
void rnic_transport_writable(RnicTransport *t);

/* end() of the socket @fd. */
RnicTransportEnd rnic_transport_socket_end(int fd);

/* Have @read and @write (NULL: do not) called for @fd in @t's event loop. */
void rnic_transport_watch(RnicTransport *t, RnicWatch *w, int fd,
                          IOHandler *read, IOHandler *write, void *opaque);

#endif /* HW_RNIC_FABRIC_TRANSPORT_H */
