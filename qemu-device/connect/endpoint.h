/*
 * rnic: the inside of connection management, shared by the files of this folder
 *
 * An endpoint is a connection being set up: from CM_CONNECT, or from a
 * connection that a listener's fabric brings, to the moment its transport
 * passes to a QP or is closed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CM_INTERNAL_H
#define HW_RNIC_CM_INTERNAL_H

#include "cm.h"
#include "hw/rnic/fabric/fabric.h"
#include "hw/rnic/iwarp/mpa-startup.h"
#include "hw/rnic/verbs/qp.h"

/* listen.c */
typedef struct RnicListener {
    RnicState *s;
    uint32_t number;
    uint64_t cookie;
    uint32_t backlog;
    uint8_t tos;
    bool streams;               /* of LLP streams, not of MPA (llp-stream.h) */
    uint32_t pending;           /* endpoints not yet accepted or rejected */
    RnicAddr local;
    RnicFabricListener *fabric_listener;        /* NULL: not yet */
    RnicAdminRequest *begun;    /* CM_LISTEN, until it listens */
    QEMUTimer *retry;           /* then */
    unsigned retry_ms;
    int64_t give_up_ms;         /* of the host's time */
} RnicListener;

typedef enum RnicEndpointState {
    /* initiator */
    RNIC_EP_DIALING,
    RNIC_EP_SENDING_REQUEST,
    RNIC_EP_AWAITING_REPLY,
    RNIC_EP_REPLIED,            /* the QP's worker has to take it */
    /* responder */
    RNIC_EP_AWAITING_REQUEST,
    RNIC_EP_REQUESTED,          /* the guest has to accept or reject */
    RNIC_EP_SENDING_REPLY,
    RNIC_EP_ACCEPTED,           /* the same */
    RNIC_EP_SENDING_REJECT,
} RnicEndpointState;

typedef struct RnicEndpoint RnicEndpoint;
typedef struct RnicRendezvous RnicRendezvous;

/*
 * What becomes of an endpoint that the guest does not hear of: the one that made it
 * decides (direct.c).
 */
typedef struct RnicEndpointOps {
    /* A Request has come: send the reply, fail or free the endpoint. */
    void (*requested)(RnicEndpoint *ep);
    /* A Reply has come that accepts.  False: it will not do. */
    bool (*replied)(RnicEndpoint *ep);
    /* RNIC_CM_OK: the QP is in RTS.  The endpoint is freed by the caller. */
    void (*ended)(RnicEndpoint *ep, enum rnic_cm_status status);
    /* It is being freed. */
    void (*freed)(RnicEndpoint *ep);
} RnicEndpointOps;

struct RnicEndpoint {
    RnicState *s;
    uint32_t number;
    uint32_t request_number;    /* the guest's for it; 0: it knows of none */
    RnicEndpointState state;
    RnicFabricDial *dial;       /* until it has become a transport */
    RnicTransport *transport;
    bool incoming;              /* the peer began */
    uint8_t tos;                /* of what is dialed */
    RnicListener *listener;     /* responder, until accepted or rejected */
    RnicQp *qp;                 /* claimed */
    RnicQpClaim claim;
    RnicEstablishing *establishing;     /* the transport is on its way */
    uint64_t cookie;
    RnicAddr local;
    RnicAddr remote;
    QEMUTimer *timer;
    IwarpMpaPolicy policy;
    IwarpMpaParser parser;
    IwarpMpaFrame request;
    IwarpMpaFrame reply;
    IwarpMpaAgreed agreed;
    uint8_t out[IWARP_MPA_FRAME_MAX];   /* the frame being sent */
    size_t out_len;
    size_t out_done;

    /* Direct connect */
    const RnicEndpointOps *ops; /* NULL: events tell the guest */
    void *owner;                /* theirs; NULL: a QP is not known yet */
    RnicRendezvous *rendezvous; /* responder, of its connections */
    uint32_t peer_psn;          /* that the peer expects first */
    uint8_t min_rnr_timer;      /* of ours, InfiniBand's code */
    bool extensions;            /* both take messages of RFC 7306 */
};

/*
 * NULL when there are max-endpoints already that peers began (@t), or that the
 * guest began (no @t yet); then @t stays the caller's.
 */
RnicEndpoint *rnic_endpoint_new(RnicState *s, RnicTransport *t,
                                const RnicAddr *local, const RnicAddr *remote);
/* Claim @qp for it; false: the QP is not to be had. */
bool rnic_endpoint_claim(RnicEndpoint *ep, RnicQp *qp);
/* Reset the transport if it is still there, release the QP, forget all. */
void rnic_endpoint_free(RnicEndpoint *ep);

/*
 * Start as initiator: dial; or, having a transport, as responder.  The status is
 * not OK if dialing could not begin; the endpoint is as it was then.
 */
RnicFabricStatus rnic_endpoint_start_initiator(RnicEndpoint *ep);
void rnic_endpoint_start_responder(RnicEndpoint *ep);

/* Send the reply in ep->reply; with it the set-up ends. */
void rnic_endpoint_send_reply(RnicEndpoint *ep);

/* The set-up fails: tell the guest and free the endpoint. */
void rnic_endpoint_fail(RnicEndpoint *ep, enum rnic_cm_status status);

/* What a fabric's status is to the guest: of a command, and of a connection. */
enum rnic_admin_status rnic_cm_admin_status(RnicFabricStatus status);
enum rnic_cm_status rnic_cm_event_status(RnicFabricStatus status);

/* Our wishes: the device's properties and the given read resources. */
IwarpMpaPolicy rnic_cm_policy(const RnicState *s, uint16_t ird, uint16_t ord);

void rnic_addr_from_wire(RnicAddr *addr, const struct rnic_cm_addr *wire);
void rnic_addr_to_wire(struct rnic_cm_addr *wire, const RnicAddr *addr);

/* The listener's connection has been accepted, rejected or lost. */
void rnic_listener_release(RnicEndpoint *ep);

#endif /* HW_RNIC_CM_INTERNAL_H */
