/*
 * rnic: the fabric, how guest addresses reach the host network
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"
#include "qom/object_interfaces.h"
#include "fabric.h"
#include "descriptors.h"
#include "map.h"
#include "hw/rnic/base/trace.h"

enum {
    BACKLOG_MIN = 1,
    BACKLOG_MAX = 1024,
    ACCEPTS_PER_TURN = 16,
    ACCEPT_PAUSE_MS = 100,
};

RnicFabric *rnic_fabric_new_default(Object *parent, Error **errp)
{
    Object *obj = object_new_with_props(TYPE_RNIC_FABRIC_UNIX, parent,
                                        "default-fabric", errp, NULL);

    return obj ? RNIC_FABRIC(obj) : NULL;
}

RnicFabricStatus rnic_fabric_status(int error)
{
    switch (error) {
    case EADDRINUSE:
        return RNIC_FABRIC_ADDRESS_IN_USE;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return RNIC_FABRIC_UNREACHABLE;
    case ECONNREFUSED:
    case ENOENT:
        return RNIC_FABRIC_REFUSED;
    case ETIMEDOUT:
        return RNIC_FABRIC_TIMED_OUT;
    case ECONNRESET:
    case ENOTCONN:
        return RNIC_FABRIC_RESET;
    case EAGAIN:
        return RNIC_FABRIC_BUSY;
    case EMFILE:
        return RNIC_FABRIC_NO_DESCRIPTORS;
    default:
        return RNIC_FABRIC_ERROR;
    }
}

int rnic_fabric_socket(int family)
{
    int fd;

    if (!rnic_descriptors_take(1)) {
        return -1;
    }
    fd = qemu_socket(family, SOCK_STREAM, 0);
    if (fd < 0) {
        rnic_descriptors_release(1);
    } else {
        g_unix_set_fd_nonblocking(fd, true, NULL);
    }
    return fd;
}

/* Of a dial or a listener; -1: it has none. */
static void fabric_close(RnicFabric *f, int fd)
{
    if (fd >= 0) {
        RNIC_FABRIC_GET_CLASS(f)->close_socket(fd);
    }
}

/* ---------------------------------------------------------------- dial */

RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote, uint8_t tos,
                                 RnicFabricDialed *dialed, void *opaque,
                                 RnicFabricStatus *status)
{
    char from[RNIC_IP_TEXT], to[RNIC_IP_TEXT];
    RnicFabricDial *dial;

    *status = RNIC_FABRIC_OK;
    dial = RNIC_FABRIC_GET_CLASS(f)->dial(f, local, remote, tos, status);
    if (dial) {
        dial->fabric = RNIC_FABRIC(object_ref(OBJECT(f)));
        dial->dialed = dialed;
        dial->opaque = opaque;
    }
    trace_rnic_fabric_dial(dial, rnic_ip_text(local->ip, from), local->port,
                           rnic_ip_text(remote->ip, to), remote->port,
                           *status);
    return dial;
}

static void dial_free(RnicFabricDial *dial)
{
    RNIC_FABRIC_GET_CLASS(dial->fabric)->dial_cleanup(dial);
    fabric_close(dial->fabric, dial->fd);
    object_unref(OBJECT(dial->fabric));
    g_free(dial);
}

void rnic_fabric_cancel(RnicFabric *f, RnicFabricDial *dial)
{
    trace_rnic_fabric_cancel(dial);
    dial_free(dial);
}

void rnic_fabric_dialed(RnicFabricDial *dial, RnicFabricStatus status,
                        RnicTransport *t)
{
    RnicFabricDialed *dialed = dial->dialed;
    void *opaque = dial->opaque;
    RnicAddr local = dial->local;
    char text[RNIC_IP_TEXT];

    trace_rnic_fabric_dialed(dial, status, t, rnic_ip_text(local.ip, text),
                             local.port);
    dial_free(dial);
    dialed(opaque, status, t, t ? &local : NULL);
}

/* -------------------------------------------------------------- listen */

static void listener_unref(RnicFabricListener *l)
{
    if (--l->refs == 0) {
        timer_free(l->resume);
        g_free(l);
    }
}

static void listener_ready(void *opaque);

static void listener_resume(void *opaque)
{
    RnicFabricListener *l = opaque;

    qemu_set_fd_handler(l->fd, listener_ready, NULL, l);
}

/* True if it makes sense to try again at once. */
static bool listener_failed(RnicFabricListener *l, int error)
{
    switch (error) {
    case EAGAIN:
        return false;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
        return true;
    default:
        /* Out of descriptors or memory: do not spin on a readable socket. */
        trace_rnic_err_fabric_host("accept", error);
        qemu_set_fd_handler(l->fd, NULL, NULL, NULL);
        timer_mod(l->resume, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
                             ACCEPT_PAUSE_MS);
        return false;
    }
}

/* A connection, or -1 with errno.  Without a descriptor for it, it waits. */
static int listener_accept_next(const RnicFabricListener *l)
{
    int fd;

    if (!rnic_descriptors_take(1)) {
        return -1;
    }
    fd = qemu_accept(l->fd, NULL, NULL);
    if (fd < 0) {
        rnic_descriptors_release(1);
    } else {
        g_unix_set_fd_nonblocking(fd, true, NULL);
    }
    return fd;
}

/* The listener may go while its user is told of a connection. */
static void listener_ready(void *opaque)
{
    RnicFabricListener *l = opaque;

    l->refs++;
    for (int i = 0; i < ACCEPTS_PER_TURN && l->fd >= 0; i++) {
        int fd = listener_accept_next(l);

        if (fd >= 0) {
            RNIC_FABRIC_GET_CLASS(l->fabric)->accepted(l, fd);
        } else if (!listener_failed(l, errno)) {
            break;
        }
    }
    listener_unref(l);
}

void rnic_fabric_deliver(RnicFabricListener *l, RnicTransport *t,
                         const RnicAddr *local, const RnicAddr *remote)
{
    char text[RNIC_IP_TEXT];

    trace_rnic_fabric_accepted(l, t, rnic_ip_text(remote->ip, text),
                               remote->port);
    l->accept(l->opaque, t, local, remote);
}

RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog, uint8_t tos,
                                       RnicFabricAccept *accept, void *opaque,
                                       RnicFabricStatus *status)
{
    char text[RNIC_IP_TEXT];
    RnicFabricListener *l;

    *status = RNIC_FABRIC_OK;
    l = RNIC_FABRIC_GET_CLASS(f)->listen(
        f, local, MIN(MAX(backlog, BACKLOG_MIN), BACKLOG_MAX), tos, status);
    trace_rnic_fabric_listen(l, rnic_ip_text(local->ip, text), local->port,
                             *status);
    if (l) {
        l->fabric = RNIC_FABRIC(object_ref(OBJECT(f)));
        l->refs = 1;
        l->local = *local;
        l->accept = accept;
        l->opaque = opaque;
        l->resume = timer_new_ms(QEMU_CLOCK_REALTIME, listener_resume, l);
        qemu_set_fd_handler(l->fd, listener_ready, NULL, l);
    }
    return l;
}

void rnic_fabric_unlisten(RnicFabric *f, RnicFabricListener *l)
{
    trace_rnic_fabric_unlisten(l);
    timer_del(l->resume);
    qemu_set_fd_handler(l->fd, NULL, NULL, NULL);
    RNIC_FABRIC_GET_CLASS(f)->listener_cleanup(l);
    fabric_close(f, l->fd);
    l->fd = -1;
    object_unref(OBJECT(l->fabric));
    listener_unref(l);
}

static const TypeInfo rnic_fabric_types[] = {
    {
        .name = TYPE_RNIC_FABRIC,
        .parent = TYPE_OBJECT,
        .instance_size = sizeof(RnicFabric),
        .class_size = sizeof(RnicFabricClass),
        .abstract = true,
    },
};

DEFINE_TYPES(rnic_fabric_types)
