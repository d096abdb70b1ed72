/*
 * rnic: where devices that connect QPs directly find each other
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/timer.h"
#include "qemu/xxhash.h"
#include "rendezvous.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/capture/capture.h"

enum {
    BACKLOG = 1024,             /* connections whose Request is not answered */
    /* Of one remote address, for each QP that waits for a peer there: the peer may
     * give attempts up, and they stay here until they time out. */
    BACKLOG_EACH = 8,
    BUSY_RETRY_MS = 1,          /* while the fabric is busy, then less often */
    BUSY_RETRY_MAX_MS = 16,
    FAILED_RETRY_MS = 1000,     /* when the address was lost to another process */
};

/* An address where peers are. */
typedef struct RendezvousRemote {
    uint8_t ip[16];             /* the key */
    unsigned users;
    unsigned pending;           /* endpoints; without users they end by themselves */
} RendezvousRemote;

struct RnicRendezvous {
    RnicState *s;
    RnicAddr local;
    const RnicEndpointOps *ops;
    GHashTable *remotes;
    unsigned users;
    unsigned pending;           /* endpoints */
    RnicFabricListener *listener;       /* NULL: not yet */
    QEMUTimer *retry;           /* of the host's time */
    int64_t busy_ms;            /* the next wait of a busy fabric */
    QLIST_ENTRY(RnicRendezvous) next;
};

/* --------------------------------------------------------------- remotes */

static guint rendezvous_ip_hash(gconstpointer ip)
{
    return qemu_xxhash4(ldq_he_p(ip), ldq_he_p((const uint8_t *)ip + 8));
}

static gboolean rendezvous_ip_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(((RendezvousRemote *)0)->ip)) == 0;
}

static RendezvousRemote *rendezvous_remote(const RnicRendezvous *r,
                                           const RnicAddr *addr)
{
    return g_hash_table_lookup(r->remotes, addr->ip);
}

static void rendezvous_add_remote(RnicRendezvous *r, const RnicAddr *addr)
{
    RendezvousRemote *remote = rendezvous_remote(r, addr);

    if (!remote) {
        remote = g_new0(RendezvousRemote, 1);
        memcpy(remote->ip, addr->ip, sizeof(remote->ip));
        g_hash_table_insert(r->remotes, remote->ip, remote);
    }
    remote->users++;
}

/* Strangers have no part of the backlog, and no peer has all of it. */
static bool rendezvous_expects(const RnicRendezvous *r, const RnicAddr *addr)
{
    const RendezvousRemote *remote = rendezvous_remote(r, addr);

    return remote && remote->users && r->pending < BACKLOG &&
           remote->pending / BACKLOG_EACH < remote->users;
}

static void rendezvous_remote_changed(RnicRendezvous *r,
                                      RendezvousRemote *remote)
{
    if (!remote->users && !remote->pending) {
        g_hash_table_remove(r->remotes, remote->ip);
    }
}

/* ------------------------------------------------------------- endpoints */

static void rendezvous_accept(void *opaque, RnicTransport *t,
                              const RnicAddr *local, const RnicAddr *remote)
{
    RnicRendezvous *r = opaque;
    RnicEndpoint *ep = NULL;

    if (rendezvous_expects(r, remote)) {
        ep = rnic_endpoint_new(r->s, t, local, remote);
    }
    if (!ep) {
        trace_rnic_err_direct_backlog(r->pending);
        rnic_transport_abort(t);
        return;
    }
    rnic_capture_attach(r->s, t, local, remote, false);
    ep->ops = r->ops;
    ep->rendezvous = r;
    r->pending++;
    rendezvous_remote(r, remote)->pending++;
    rnic_endpoint_start_responder(ep);
}

void rnic_rendezvous_release(RnicEndpoint *ep)
{
    RnicRendezvous *r = ep->rendezvous;
    RendezvousRemote *remote;

    if (!r) {
        return;
    }
    ep->rendezvous = NULL;
    r->pending--;
    remote = rendezvous_remote(r, &ep->remote);
    remote->pending--;
    rendezvous_remote_changed(r, remote);
}

/* --------------------------------------------------------------- listener */

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

    r->listener = rnic_fabric_listen(r->s->fabric, &r->local, BACKLOG, 0,
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
    g_hash_table_destroy(r->remotes);
    QLIST_REMOVE(r, next);
    g_free(r);
}

void rnic_rendezvous_put(RnicRendezvous *r, const RnicAddr *addr)
{
    RendezvousRemote *remote = rendezvous_remote(r, addr);

    remote->users--;
    rendezvous_remote_changed(r, remote);
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
    r->remotes = g_hash_table_new_full(rendezvous_ip_hash, rendezvous_ip_equal,
                                       NULL, g_free);
    r->busy_ms = BUSY_RETRY_MS;
    r->retry = timer_new_ms(QEMU_CLOCK_REALTIME, rendezvous_retry, r);
    QLIST_INSERT_HEAD(list, r, next);
    return r;
}

RnicRendezvous *rnic_rendezvous_get(RnicState *s, RnicRendezvousList *list,
                                    const RnicAddr *local,
                                    const RnicAddr *remote,
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
    rendezvous_add_remote(r, remote);
    r->users++;
    return r;
}

bool rnic_rendezvous_listens(const RnicRendezvous *r)
{
    return r->listener != NULL;
}
