/*
 * rnic: a transport, what all of them have in common
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <poll.h>
#include "qemu/atomic.h"
#include "transport.h"
#include "hw/rnic/base/trace.h"

static void transport_unref(RnicTransport *t)
{
    if (qatomic_fetch_dec(&t->refs) == 0) {
        g_free(t);
    }
}

static void transport_end(RnicTransport *t, bool reset)
{
    RnicTransportTap *tap = t->tap;

    if (tap) {
        tap->ops->closed(tap, reset);
        qatomic_set(&t->tapped, false);
        t->tap = NULL;
    }
    rnic_transport_leave_loop(t);
    t->ops->close(t, reset);
    transport_unref(t);
}

void rnic_transport_close(RnicTransport *t)
{
    trace_rnic_transport_close(t);
    transport_end(t, false);
}

void rnic_transport_abort(RnicTransport *t)
{
    trace_rnic_transport_abort(t);
    transport_end(t, true);
}

/* ----------------------------------------------------------------- the tap */

static void transport_tap_broken(RnicTransport *t, bool sent, int error)
{
    if (error != EAGAIN) {
        t->tap->ops->ended(t->tap, sent, error);
    }
}

void rnic_transport_tap_read(RnicTransport *t, const struct iovec *iov,
                             size_t count, ssize_t got)
{
    int saved = errno;

    if (got > 0) {
        t->tap->ops->octets(t->tap, false, iov, count, got);
    } else if (got == 0) {
        t->tap->ops->ended(t->tap, false, 0);
    } else {
        transport_tap_broken(t, false, saved);
    }
    errno = saved;
}

void rnic_transport_tap_written(RnicTransport *t, const struct iovec *iov,
                                size_t count, ssize_t taken)
{
    int saved = errno;

    if (taken > 0) {
        t->tap->ops->octets(t->tap, true, iov, count, taken);
    } else if (taken < 0) {
        transport_tap_broken(t, true, saved);
    }
    errno = saved;
}

void rnic_transport_tap_shut_down(RnicTransport *t)
{
    t->tap->ops->ended(t->tap, true, 0);
}

/* ---------------------------------------------------------------- handlers */

static void transport_more(void *opaque)
{
    rnic_transport_readable(opaque);
}

/* Nothing may ever become readable for octets that have arrived already. */
static void transport_look_for_more(RnicTransport *t)
{
    if (t->readable && t->ops->pending && t->ops->pending(t)) {
        if (!t->more) {
            t->more = aio_bh_new(t->ctx, transport_more, t);
        }
        qemu_bh_schedule(t->more);
    }
}

/* If the handler gives the transport to another thread, it is that one's. */
void rnic_transport_readable(RnicTransport *t)
{
    AioContext *ctx = t->ctx;

    qatomic_inc(&t->refs);
    if (t->readable) {
        t->readable(t->opaque);
        if (qatomic_read(&t->ctx) == ctx) {
            transport_look_for_more(t);
        }
    }
    transport_unref(t);
}

void rnic_transport_writable(RnicTransport *t)
{
    if (t->writable) {
        t->writable(t->opaque);
    }
}

/* A stream asks for the same handlers again and again. */
void rnic_transport_watch(RnicTransport *t, RnicWatch *w, int fd,
                          IOHandler *read, IOHandler *write, void *opaque)
{
    if (w->ctx == t->ctx && w->read == read && w->write == write &&
        w->opaque == opaque) {
        return;
    }
    if (w->ctx && w->ctx != t->ctx) {
        aio_set_fd_handler(w->ctx, fd, NULL, NULL, NULL, NULL, NULL);
    }
    *w = (RnicWatch) { t->ctx, read, write, opaque };
    if (t->ctx) {
        aio_set_fd_handler(t->ctx, fd, read, write, NULL, NULL, opaque);
    }
}

static void transport_set_handlers(RnicTransport *t, AioContext *ctx,
                                   IOHandler *readable, IOHandler *writable,
                                   void *opaque)
{
    qatomic_set(&t->ctx, ctx);
    t->readable = readable;
    t->writable = writable;
    t->opaque = opaque;
    t->ops->watch(t);
}

void rnic_transport_set_handlers(RnicTransport *t, AioContext *ctx,
                                 IOHandler *readable, IOHandler *writable,
                                 void *opaque)
{
    if (t->ctx && t->ctx != ctx) {
        rnic_transport_leave_loop(t);
    }
    transport_set_handlers(t, ctx, readable, writable, opaque);
    transport_look_for_more(t);
}

RnicTransportEnd rnic_transport_socket_end(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };

    if (poll(&p, 1, 0) < 1) {
        return RNIC_END_NONE;
    }
    return p.revents & (POLLHUP | POLLERR) ? RNIC_END_BOTH : RNIC_END_PEER;
}

void rnic_transport_leave_loop(RnicTransport *t)
{
    g_clear_pointer(&t->more, qemu_bh_delete);
    transport_set_handlers(t, NULL, NULL, NULL, NULL);
}
