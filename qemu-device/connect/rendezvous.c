/*
 * rnic: where devices that connect QPs directly find each other
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "rendezvous.h"
#include "hw/rnic/base/trace.h"

enum {
    BACKLOG = 1024,             /* connections whose Request is not answered */
    BUSY_RETRY_MS = 1,          /* while the fabric is busy, then less often */
    BUSY_RETRY_MAX_MS = 16,
    FAILED_RETRY_MS = 1000,     /* when the address was lost to another process */
};

struct RnicRendezvous {
    RnicState *s;
    RnicAddr local;
    const RnicEndpointOps *ops;
    unsigned users;
    unsigned pending;           /* endpoints */
    RnicFabricListener *listener;       /* NULL: not yet */
    QEMUTimer *retry;           /* of the host's time */
    int64_t busy_ms;            /* the next wait of a busy fabric */
    QLIST_ENTRY(RnicRendezvous) next;
};

static void rendezvous_accept(void *opaque, RnicTransport *t,
                              const RnicAddr *local, const RnicAddr *remote)
{
    RnicRendezvous *r = opaque;
    RnicEndpoint *ep = NULL;

    if (r->pending < BACKLOG) {
        ep = rnic_endpoint_new(r->s, t, local, remote);
    }
    if (!ep) {
        trace_rnic_err_direct_backlog(r->pending);
        rnic_transport_abort(t);
        return;
    }
    ep->ops = r->ops;
    ep->rendezvous = r;
    r->pending++;
    rnic_endpoint_start_responder(ep);
}

void rnic_rendezvous_release(RnicEndpoint *ep)
{
    if (ep->rendezvous) {
        ep->rendezvous->pending--;
        ep->rendezvous = NULL;
    }
}

static void rendezvous_try_later(RnicRendezvous *r, RnicFabricStatus status)
{
    int64_t ms = FAILED_RETRY_MS;

    if (status == RNIC_FABRIC_BUSY) {
        ms = r->busy_ms;
        r->busy_ms = MIN(2 * ms, BUSY_RETRY_MAX_MS);
    }
    timer_mod(r->retry, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + ms);
}

static RnicFabricStatus rendezvous_try(RnicRendezvous *r)
{
    RnicFabricStatus status;

    r->listener = rnic_fabric_listen(r->s->fabric, &r->local, BACKLOG,
                                     rendezvous_accept, r, &status);
    if (r->listener) {
        trace_rnic_direct_listen(r->local.port);
        return RNIC_FABRIC_OK;
    }
    rendezvous_try_later(r, status);
    return status;
}

static void rendezvous_retry(void *opaque)
{
    RnicFabricStatus status = rendezvous_try(opaque);

    if (status != RNIC_FABRIC_OK && status != RNIC_FABRIC_BUSY) {
        trace_rnic_err_direct_listen(status);
    }
}

static void rendezvous_free(RnicRendezvous *r)
{
    RnicEndpoint *ep;
    uint32_t number;

    RNIC_TABLE_FOREACH(&r->s->endpoints, number, ep) {
        if (ep->rendezvous == r) {
            rnic_endpoint_free(ep);
        }
    }
    if (r->listener) {
        rnic_fabric_unlisten(r->s->fabric, r->listener);
    }
    timer_free(r->retry);
    QLIST_REMOVE(r, next);
    g_free(r);
}

void rnic_rendezvous_put(RnicRendezvous *r)
{
    if (--r->users == 0) {
        rendezvous_free(r);
    }
}

static RnicRendezvous *rendezvous_find(RnicRendezvousList *list,
                                       const uint8_t *ip)
{
    RnicRendezvous *r;

    QLIST_FOREACH(r, list, next) {
        if (memcmp(r->local.ip, ip, sizeof(r->local.ip)) == 0) {
            break;
        }
    }
    return r;
}

static RnicRendezvous *rendezvous_new(RnicState *s, RnicRendezvousList *list,
                                      const RnicAddr *local,
                                      const RnicEndpointOps *ops)
{
    RnicRendezvous *r = g_new0(RnicRendezvous, 1);

    r->s = s;
    r->local = *local;
    r->local.port = RNIC_DIRECT_PORT;
    r->ops = ops;
    r->busy_ms = BUSY_RETRY_MS;
    r->retry = timer_new_ms(QEMU_CLOCK_REALTIME, rendezvous_retry, r);
    QLIST_INSERT_HEAD(list, r, next);
    return r;
}

RnicRendezvous *rnic_rendezvous_get(RnicState *s, RnicRendezvousList *list,
                                    const RnicAddr *local,
                                    const RnicEndpointOps *ops,
                                    RnicFabricStatus *status)
{
    RnicRendezvous *r = rendezvous_find(list, local->ip);

    *status = RNIC_FABRIC_OK;
    if (!r) {
        r = rendezvous_new(s, list, local, ops);
        *status = rendezvous_try(r);
        if (*status != RNIC_FABRIC_OK && *status != RNIC_FABRIC_BUSY) {
            rendezvous_free(r);
            return NULL;
        }
    }
    r->users++;
    return r;
}

bool rnic_rendezvous_listens(const RnicRendezvous *r)
{
    return r->listener != NULL;
}
