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
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TRANSPORT_H
#define HW_RNIC_FABRIC_TRANSPORT_H

#include "hw/rnic/base/compat.h"

typedef struct RnicTransport RnicTransport;

typedef struct RnicTransportOps {
    ssize_t (*readv)(RnicTransport *t, const struct iovec *iov, size_t count);
    ssize_t (*writev)(RnicTransport *t, const struct iovec *iov,
                      size_t count);
    bool (*shut_down)(RnicTransport *t);
    void (*close)(RnicTransport *t, bool reset);
    /* Without @ctx: leave the event loop. */
    void (*set_handlers)(RnicTransport *t, AioContext *ctx,
                         IOHandler *readable, IOHandler *writable,
                         void *opaque);

    /* NULL: the transport has nothing of the kind. */
    void (*cork)(RnicTransport *t, bool corked);
    void *(*reserve)(RnicTransport *t, size_t len);     /* with commit */
    void (*commit)(RnicTransport *t, size_t len);
} RnicTransportOps;

/* The first member of each transport's own structure. */
struct RnicTransport {
    const RnicTransportOps *ops;
};

/*
 * Octets read into @iov; 0: the peer has ended its direction; -1 with errno:
 * EAGAIN (none for now), ETIMEDOUT (the peer is lost), others (a reset).
 */
ssize_t rnic_transport_readv(RnicTransport *t, const struct iovec *iov,
                             size_t count);
ssize_t rnic_transport_read(RnicTransport *t, void *octets, size_t len);

/* Octets of @iov that were taken; -1 with errno, as with reading. */
ssize_t rnic_transport_writev(RnicTransport *t, const struct iovec *iov,
                              size_t count);
ssize_t rnic_transport_write(RnicTransport *t, const void *octets, size_t len);

/*
 * End this direction behind all that was written.  True: that has been said, or
 * cannot be said any more.  False: the transport says it as soon as it can, and
 * the writable handler is called then; to call this again tells.
 */
bool rnic_transport_shut_down(RnicTransport *t);

/*
 * Free the transport.  Handlers are no longer called.  Octets that the peer has
 * sent and nobody has read may turn the end into a reset: rnic_linger() closes
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
 * While it is corked the end of what is written may wait for more, to leave in
 * one packet or to be found by a peer that is told once.
 */
void rnic_transport_cork(RnicTransport *t, bool corked);

/*
 * Where the stream's next @len octets go, for the caller to put them there
 * without another copy; NULL: only by writing.  Then that they are there: the
 * peer is told when the transport is uncorked or written to next.
 */
void *rnic_transport_reserve(RnicTransport *t, size_t len);
void rnic_transport_commit(RnicTransport *t, size_t len);

#endif /* HW_RNIC_FABRIC_TRANSPORT_H */
