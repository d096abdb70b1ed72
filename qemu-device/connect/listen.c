/*
 * rnic: listeners, CM_LISTEN and CM_UNLISTEN
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "direct.h"
#include "endpoint.h"
#include "llp-stream.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"

enum {
    BACKLOG_MIN = 64,           /* bursts that a small backlog did not mean
                                 * to refuse */
    BACKLOG_MAX = 1024,

    /* While the fabric is busy. */
    LISTEN_RETRY_MS = 1,
    LISTEN_RETRY_MAX_MS = 16,
    LISTEN_GIVE_UP_MS = 100,
    LISTEN_PAUSE_MS = 100,      /* while the VM is stopped */
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
static void listener_accept(void *opaque, RnicTransport *t,
                            const RnicAddr *local, const RnicAddr *remote)
{
    RnicListener *listener = opaque;
    RnicEndpoint *ep = NULL;

    if (listener->streams) {
        rnic_llp_arrived(listener, t, local, remote);
        return;
    }
    if (listener->pending < listener->backlog) {
        ep = rnic_endpoint_new(listener->s, t, local, remote);
    }
    if (!ep) {
        trace_rnic_err_cm_backlog(listener->number, listener->pending);
        rnic_transport_abort(t);
        return;
    }
    rnic_capture_attach(listener->s, t, local, remote, false);
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

/* False with *@status, BUSY among others. */
static bool listener_try(RnicListener *l, RnicFabricStatus *status)
{
    l->fabric_listener = rnic_fabric_listen(l->s->fabric, &l->local,
                                            l->backlog, l->tos,
                                            listener_accept, l, status);
    if (l->fabric_listener) {
        trace_rnic_cm_listen(l->number, l->local.port);
    }
    return l->fabric_listener != NULL;
}

static void listener_free(RnicListener *l)
{
    if (l->retry) {
        timer_free(l->retry);
    }
    rnic_table_remove(&l->s->listeners, l->number);
    g_free(l);
}

static void listener_retry_in(RnicListener *l, int64_t ms)
{
    timer_mod(l->retry, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + ms);
}

/* The command ends: it listens, or @status says why it does not. */
static void listener_begun(RnicListener *l, RnicFabricStatus status)
{
    RnicAdminRequest *q = g_steal_pointer(&l->begun);

    q->cqe.number = cpu_to_le32(l->number);
    if (status == RNIC_FABRIC_OK) {
        g_clear_pointer(&l->retry, timer_free);
    } else {
        listener_free(l);
    }
    rnic_admin_finish(q, rnic_cm_admin_status(status));
}

/* A stopped VM's command ends when the VM goes on. */
static void listener_retry(void *opaque)
{
    RnicListener *l = opaque;
    RnicFabricStatus status;

    if (!rnic_active(l->s)) {
        listener_retry_in(l, LISTEN_PAUSE_MS);
    } else if (!listener_try(l, &status) && status == RNIC_FABRIC_BUSY &&
               qemu_clock_get_ms(QEMU_CLOCK_REALTIME) < l->give_up_ms) {
        listener_retry_in(l, l->retry_ms);
        l->retry_ms = MIN(2 * l->retry_ms, LISTEN_RETRY_MAX_MS);
    } else {
        listener_begun(l, status);
    }
}

/* The fabric is busy for a moment: the command ends later. */
static enum rnic_admin_status listener_wait(RnicListener *l,
                                            RnicAdminRequest *q)
{
    l->begun = q;
    l->retry = timer_new_ms(QEMU_CLOCK_REALTIME, listener_retry, l);
    l->retry_ms = LISTEN_RETRY_MS;
    l->give_up_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
                    LISTEN_GIVE_UP_MS;
    listener_retry_in(l, LISTEN_RETRY_MS);
    return RNIC_ADMIN_LATER;
}

enum rnic_admin_status rnic_cm_listen(RnicAdminRequest *q)
{
    const struct rnic_admin_sqe *sqe = &q->sqe;
    RnicState *s = q->s;
    uint32_t backlog = le32_to_cpu(sqe->listen.backlog);
    RnicFabricStatus status;
    RnicAddr local;
    RnicListener *l;

    if (!s->cm_eq) {
        return RNIC_ST_NO_CM_EQ;
    }
    if (sqe->listen.streams > 1) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (sqe->listen.streams && !rnic_accepted(s, RNIC_FEATURE_LLP_STREAM)) {
        return RNIC_ST_UNSUPPORTED;
    }
    rnic_addr_from_wire(&local, &sqe->listen.local);
    if (rnic_direct_owns_port(s, &local)) {
        return RNIC_ST_ADDRESS_IN_USE;
    }
    l = g_new0(RnicListener, 1);
    l->number = rnic_table_insert(&s->listeners, l);
    if (!l->number) {
        g_free(l);
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    l->s = s;
    l->cookie = le64_to_cpu(sqe->listen.cookie);
    l->backlog = MIN(MAX(backlog, BACKLOG_MIN), BACKLOG_MAX);
    l->tos = sqe->listen.tos;
    l->streams = sqe->listen.streams;
    l->local = local;
    if (listener_try(l, &status)) {
        q->cqe.number = cpu_to_le32(l->number);
        return RNIC_ST_OK;
    }
    if (status == RNIC_FABRIC_BUSY) {
        return listener_wait(l, q);
    }
    listener_free(l);
    return rnic_cm_admin_status(status);
}

static void listener_unlisten(RnicState *s, RnicListener *listener)
{
    RnicEndpoint *ep;
    uint32_t number;

    trace_rnic_cm_unlisten(listener->number);
    if (listener->fabric_listener) {
        rnic_fabric_unlisten(s->fabric, listener->fabric_listener);
    }
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
    rnic_llp_unlisten(listener);
    listener_free(listener);
}

enum rnic_admin_status rnic_cm_unlisten(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    RnicListener *listener = rnic_table_get(&s->listeners,
                                            le32_to_cpu(sqe->object.number));

    if (!listener || listener->begun) {
        return RNIC_ST_INVALID_ENDPOINT;
    }
    listener_unlisten(s, listener);
    return RNIC_ST_OK;
}

void rnic_cm_reset(RnicState *s)
{
    RnicListener *listener;
    RnicEndpoint *ep;
    uint32_t number;

    rnic_direct_reset(s);
    rnic_llp_reset(s);
    RNIC_TABLE_FOREACH(&s->listeners, number, listener) {
        if (listener->begun) {
            rnic_admin_forget(listener->begun);
        }
        listener_unlisten(s, listener);
    }
    RNIC_TABLE_FOREACH(&s->endpoints, number, ep) {
        rnic_endpoint_free(ep);
    }
    rnic_lingers_end(s->lingers);
}
