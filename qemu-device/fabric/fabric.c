/*
 * rnic: the fabric, how guest addresses reach the host network
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/module.h"
#include "qom/object_interfaces.h"
#include "fabric.h"
#include "map.h"
#include "hw/rnic/base/trace.h"

RnicFabric *rnic_fabric_new_default(Object *parent, Error **errp)
{
    Object *obj = object_new_with_props(TYPE_RNIC_FABRIC_UNIX, parent,
                                        "default-fabric", errp, NULL);

    return obj ? RNIC_FABRIC(obj) : NULL;
}

RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote,
                                 RnicFabricDialed *dialed, void *opaque,
                                 RnicFabricStatus *status)
{
    char from[RNIC_IP_TEXT], to[RNIC_IP_TEXT];
    RnicFabricDial *dial;

    *status = RNIC_FABRIC_OK;
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

void rnic_fabric_dialed(const RnicFabricDial *dial, RnicFabricStatus status,
                        RnicTransport *t, const RnicAddr *local)
{
    char text[RNIC_IP_TEXT];
    RnicAddr none = { };

    trace_rnic_fabric_dialed(dial, status, t,
                             rnic_ip_text(local ? local->ip : none.ip, text),
                             local ? local->port : 0);
    dial->dialed(dial->opaque, status, t, local);
}

RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog,
                                       RnicFabricAccept *accept, void *opaque,
                                       RnicFabricStatus *status)
{
    char text[RNIC_IP_TEXT];
    RnicFabricListener *listener;

    *status = RNIC_FABRIC_OK;
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
