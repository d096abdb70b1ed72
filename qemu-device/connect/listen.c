/*
 * rnic: listeners, CM_LISTEN and CM_UNLISTEN
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "endpoint.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/base/trace.h"

enum {
    BACKLOG_MIN = 64,           /* bursts that a small backlog did not mean
                                 * to refuse */
    BACKLOG_MAX = 1024,
};

void rnic_addr_from_wire(RnicAddr *addr, const struct rnic_cm_addr *wire)
{
    memcpy(addr->ip, wire->ip, sizeof(addr->ip));
    addr->port = be16_to_cpu(wire->port);
}

void rnic_addr_to_wire(struct rnic_cm_addr *wire, const RnicAddr *addr)
{
    *wire = (struct rnic_cm_addr) { .port = cpu_to_be16(addr->port) };
    memcpy(wire->ip, addr->ip, sizeof(wire->ip));
}

/* The fabric brings a connection. */
static void accept_connection(void *opaque, RnicTransport *t,
                              const RnicAddr *local, const RnicAddr *remote)
{
    RnicListener *listener = opaque;
    RnicEndpoint *ep = NULL;

    if (listener->pending < listener->backlog) {
        ep = rnic_endpoint_new(listener->s, t, local, remote);
    }
    if (!ep) {
        trace_rnic_err_cm_backlog(listener->number, listener->pending);
        rnic_transport_abort(t);
        return;
    }
    ep->listener = listener;
    ep->cookie = listener->cookie;
    listener->pending++;
    rnic_endpoint_start_responder(ep);
}

void rnic_listener_release(RnicEndpoint *ep)
{
    if (ep->listener) {
        ep->listener->pending--;
        ep->listener = NULL;
    }
}

enum rnic_admin_status rnic_cm_listen(RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    RnicState *s = q->s;
    uint32_t backlog = le32_to_cpu(sqe->listen.backlog);
    RnicFabricStatus status;
    RnicListener *listener;
    RnicAddr local;

    if (!s->cm_eq) {
        return RNIC_ST_NO_CM_EQ;
    }
    listener = g_new0(RnicListener, 1);
    listener->number = rnic_table_insert(&s->listeners, listener);
    if (!listener->number) {
        g_free(listener);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    listener->s = s;
    listener->cookie = le64_to_cpu(sqe->listen.cookie);
    listener->backlog = MIN(MAX(backlog, BACKLOG_MIN), BACKLOG_MAX);
    rnic_addr_from_wire(&local, &sqe->listen.local);
    listener->fabric_listener = rnic_fabric_listen(
        s->fabric, &local, listener->backlog, accept_connection, listener,
        &status);
    if (!listener->fabric_listener) {
        rnic_table_remove(&s->listeners, listener->number);
        g_free(listener);
        return rnic_cm_admin_status(status);
    }
    q->cqe.number = cpu_to_le32(listener->number);
    trace_rnic_cm_listen(listener->number, local.port);
    return RNIC_ST_OK;
}

static void unlisten(RnicState *s, RnicListener *listener)
{
    RnicEndpoint *ep;
    uint32_t number;

    trace_rnic_cm_unlisten(listener->number);
    rnic_fabric_unlisten(s->fabric, listener->fabric_listener);
    RNIC_TABLE_FOREACH(&s->endpoints, number, ep) {
        if (ep->listener != listener) {
            continue;
        }
        /* What the guest was told of it may still accept. */
        if (ep->state == RNIC_EP_REQUESTED) {
            rnic_listener_release(ep);
        } else {
            rnic_endpoint_free(ep);
        }
    }
    rnic_table_remove(&s->listeners, listener->number);
    g_free(listener);
}

enum rnic_admin_status rnic_cm_unlisten(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    RnicListener *listener = rnic_table_get(&s->listeners,
                                            le32_to_cpu(sqe->object.number));

    if (!listener) {
        return RNIC_ST_INVALID_ENDPOINT;
    }
    unlisten(s, listener);
    return RNIC_ST_OK;
}

void rnic_cm_reset(RnicState *s)
{
    RnicListener *listener;
    RnicEndpoint *ep;
    uint32_t number;

    RNIC_TABLE_FOREACH(&s->listeners, number, listener) {
        unlisten(s, listener);
    }
    RNIC_TABLE_FOREACH(&s->endpoints, number, ep) {
        rnic_endpoint_free(ep);
    }
    rnic_lingers_end(s->lingers);
}
