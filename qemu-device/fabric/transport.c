/*
 * rnic: a transport, one connected reliable byte stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "transport.h"
#include "hw/rnic/base/trace.h"

ssize_t rnic_transport_readv(RnicTransport *t, const struct iovec *iov,
                             size_t count)
{
    return t->ops->readv(t, iov, count);
}

ssize_t rnic_transport_read(RnicTransport *t, void *octets, size_t len)
{
    struct iovec iov = { octets, len };

    return rnic_transport_readv(t, &iov, 1);
}

ssize_t rnic_transport_writev(RnicTransport *t, const struct iovec *iov,
                              size_t count)
{
    return t->ops->writev(t, iov, count);
}

ssize_t rnic_transport_write(RnicTransport *t, const void *octets, size_t len)
{
    struct iovec iov = { (void *)octets, len };

    return rnic_transport_writev(t, &iov, 1);
}

bool rnic_transport_shut_down(RnicTransport *t)
{
    return t->ops->shut_down(t);
}

void rnic_transport_close(RnicTransport *t)
{
    trace_rnic_transport_close(t);
    t->ops->close(t, false);
}

void rnic_transport_abort(RnicTransport *t)
{
    trace_rnic_transport_abort(t);
    t->ops->close(t, true);
}

void rnic_transport_set_handlers(RnicTransport *t, AioContext *ctx,
                                 IOHandler *readable, IOHandler *writable,
                                 void *opaque)
{
    t->ops->set_handlers(t, ctx, readable, writable, opaque);
}

void rnic_transport_leave_loop(RnicTransport *t)
{
    t->ops->set_handlers(t, NULL, NULL, NULL, NULL);
}

void rnic_transport_cork(RnicTransport *t, bool corked)
{
    if (t->ops->cork) {
        t->ops->cork(t, corked);
    }
}

void *rnic_transport_reserve(RnicTransport *t, size_t len)
{
    return t->ops->reserve ? t->ops->reserve(t, len) : NULL;
}

void rnic_transport_commit(RnicTransport *t, size_t len)
{
    t->ops->commit(t, len);
}
