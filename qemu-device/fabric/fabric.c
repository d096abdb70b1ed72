/*
 * rnic: the fabric, how guest addresses reach the host network
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/module.h"
#include "qemu/sockets.h"
#include "io/channel-socket.h"
#include "qom/object_interfaces.h"
#include "fabric.h"
#include "map.h"
#include "tls.h"
#include "hw/rnic/base/trace.h"

RnicFabric *rnic_fabric_new_default(Error **errp)
{
    Object *obj = object_new(TYPE_RNIC_FABRIC_UNIX);

    if (!user_creatable_complete(USER_CREATABLE(obj), errp)) {
        object_unref(obj);
        return NULL;
    }
    return RNIC_FABRIC(obj);
}

RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote,
                                 RnicFabricDialed *dialed, void *opaque,
                                 enum rnic_cm_status *status)
{
    char from[RNIC_IP_TEXT], to[RNIC_IP_TEXT];
    RnicFabricDial *dial;

    *status = RNIC_CM_OK;
    dial = RNIC_FABRIC_GET_CLASS(f)->dial(f, local, remote, dialed, opaque,
                                          status);
    trace_rnic_fabric_dial(dial, rnic_ip_text(local->ip, from), local->port,
                           rnic_ip_text(remote->ip, to), remote->port,
                           *status);
    return dial;
}

void rnic_fabric_cancel(RnicFabric *f, RnicFabricDial *dial)
{
    trace_rnic_fabric_cancel(dial);
    RNIC_FABRIC_GET_CLASS(f)->cancel(f, dial);
}

void rnic_fabric_dialed(const RnicFabricDial *dial,
                        enum rnic_cm_status status, QIOChannel *ioc,
                        const RnicAddr *local)
{
    char text[RNIC_IP_TEXT];
    RnicAddr none = { };

    trace_rnic_fabric_dialed(dial, status, ioc,
                             rnic_ip_text(local ? local->ip : none.ip, text),
                             local ? local->port : 0);
    dial->dialed(dial->opaque, status, ioc, local);
}

RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog,
                                       RnicFabricAccept *accept, void *opaque,
                                       enum rnic_admin_status *status)
{
    char text[RNIC_IP_TEXT];
    RnicFabricListener *listener;

    *status = RNIC_ST_OK;
    listener = RNIC_FABRIC_GET_CLASS(f)->listen(f, local, backlog, accept,
                                                opaque, status);
    trace_rnic_fabric_listen(listener, rnic_ip_text(local->ip, text),
                             local->port, *status);
    return listener;
}

void rnic_fabric_unlisten(RnicFabric *f, RnicFabricListener *listener)
{
    trace_rnic_fabric_unlisten(listener);
    RNIC_FABRIC_GET_CLASS(f)->unlisten(f, listener);
}

void rnic_fabric_abort(QIOChannel *ioc)
{
    QIOChannel *below = rnic_tls_give_up(ioc);
    QIOChannelSocket *sioc = (QIOChannelSocket *)object_dynamic_cast(
        OBJECT(below), TYPE_QIO_CHANNEL_SOCKET);

    trace_rnic_fabric_abort(ioc);
    if (sioc && sioc->fd >= 0) {
        /* TCP: closing with a linger time of zero discards and resets. */
        const struct linger at_once = { .l_onoff = 1 };

        setsockopt(sioc->fd, SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof(at_once));
    }
    qio_channel_close(ioc, NULL);
    object_unref(OBJECT(ioc));
}

static const TypeInfo rnic_fabric_info = {
    .name = TYPE_RNIC_FABRIC,
    .parent = TYPE_OBJECT,
    .instance_size = sizeof(RnicFabric),
    .class_size = sizeof(RnicFabricClass),
    .abstract = true,
};

static void rnic_fabric_register_types(void)
{
    type_register_static(&rnic_fabric_info);
}

type_init(rnic_fabric_register_types)
