/*
 * rnic: CM_CONNECT, CM_ACCEPT and CM_REJECT
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/rnic/guest/bulk.h"
#include "direct.h"
#include "endpoint.h"
#include "request.h"
#include "hw/rnic/base/trace.h"

IwarpMpaPolicy rnic_cm_policy(const RnicState *s, uint16_t ird, uint16_t ord)
{
    const RnicConfig *c = &s->config;

    return (IwarpMpaPolicy) {
        .crc = c->mpa_crc,
        .markers = c->mpa_markers,
        .revision = c->mpa_revision,
        .enhanced = c->mpa_revision >= 2,
        .peer_to_peer = c->mpa_rtr,
        .rtr = IWARP_RTR_ALL,
        .ird = ird,
        .ord = ord,
        .ird_limit = c->max_ird,
    };
}

static enum rnic_admin_status cm_check_depths(RnicState *s, uint16_t ird,
                                              uint16_t ord)
{
    if (ord > s->config.max_ord) {
        return RNIC_ST_ORD_EXCEEDED;
    }
    return ird > s->config.max_ird ? RNIC_ST_IRD_EXCEEDED : RNIC_ST_OK;
}

/* The bulk data are the ULP's private data. */
static enum rnic_admin_status
cm_read_private_data(RnicState *s, const struct rnic_admin_sqe *q,
                     IwarpMpaFrame *frame)
{
    uint8_t data[IWARP_MPA_PD_MAX];
    uint32_t len = le32_to_cpu(q->bulk_length);
    enum rnic_admin_status status;

    if (len > iwarp_mpa_pd_room(frame)) {
        return RNIC_ST_BAD_PRIVATE_DATA;
    }
    status = rnic_bulk_read(s, q, data, len);
    if (status == RNIC_ST_OK) {
        iwarp_mpa_set_pd(frame, data, len);
    }
    return status;
}

enum rnic_admin_status rnic_cm_admin_status(RnicFabricStatus status)
{
    switch (status) {
    case RNIC_FABRIC_OK:
        return RNIC_ST_OK;
    case RNIC_FABRIC_OUTSIDE_MAP:
    case RNIC_FABRIC_INVALID_ADDRESS:
        return RNIC_ST_INVALID_ADDRESS;
    case RNIC_FABRIC_ADDRESS_IN_USE:
        return RNIC_ST_ADDRESS_IN_USE;
    case RNIC_FABRIC_NO_DESCRIPTORS:
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    default:
        return RNIC_ST_FABRIC_ERROR;
    }
}

enum rnic_cm_status rnic_cm_event_status(RnicFabricStatus status)
{
    switch (status) {
    case RNIC_FABRIC_OK:
        return RNIC_CM_OK;
    case RNIC_FABRIC_OUTSIDE_MAP:
        return RNIC_CM_OUTSIDE_MAP;
    case RNIC_FABRIC_ADDRESS_IN_USE:
        return RNIC_CM_ADDRESS_IN_USE;
    case RNIC_FABRIC_UNREACHABLE:
        return RNIC_CM_UNREACHABLE;
    case RNIC_FABRIC_REFUSED:
        return RNIC_CM_REFUSED;
    case RNIC_FABRIC_TIMED_OUT:
        return RNIC_CM_TIMED_OUT;
    case RNIC_FABRIC_RESET:
        return RNIC_CM_RESET;
    case RNIC_FABRIC_TLS:
        return RNIC_CM_TLS;
    default:
        return RNIC_CM_LOCAL_ERROR;
    }
}

static enum rnic_admin_status cm_check_connect(RnicState *s,
                                               const struct rnic_admin_sqe *sqe,
                                               RnicQp **qp)
{
    if (!s->cm_eq) {
        return RNIC_ST_NO_CM_EQ;
    }
    *qp = rnic_qp_get(s, le32_to_cpu(sqe->connect.qpn));
    if (!*qp) {
        return RNIC_ST_INVALID_QP;
    }
    return cm_check_depths(s, le16_to_cpu(sqe->connect.ird),
                           le16_to_cpu(sqe->connect.ord));
}

enum rnic_admin_status rnic_cm_connect(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       struct rnic_admin_cqe *cqe)
{
    IwarpMpaPolicy policy = rnic_cm_policy(s, le16_to_cpu(sqe->connect.ird),
                                           le16_to_cpu(sqe->connect.ord));
    RnicFabricStatus dialed;
    enum rnic_admin_status status;
    RnicAddr local, remote;
    IwarpMpaFrame request;
    RnicEndpoint *ep;
    RnicQp *qp;

    status = cm_check_connect(s, sqe, &qp);
    if (status != RNIC_ST_OK) {
        return status;
    }
    iwarp_mpa_request(&policy, &request);
    status = cm_read_private_data(s, sqe, &request);
    if (status != RNIC_ST_OK) {
        return status;
    }
    rnic_addr_from_wire(&local, &sqe->connect.local);
    rnic_addr_from_wire(&remote, &sqe->connect.remote);
    if (rnic_direct_owns_port(s, &remote)) {
        return RNIC_ST_INVALID_ADDRESS;
    }
    ep = rnic_endpoint_new(s, NULL, &local, &remote);
    if (!ep) {
        return RNIC_ST_INSUFFICIENT_RESOURCES;
    }
    if (!rnic_endpoint_claim(ep, qp)) {
        rnic_endpoint_free(ep);
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    ep->cookie = le64_to_cpu(sqe->connect.cookie);
    ep->tos = sqe->connect.tos;
    ep->policy = policy;
    ep->request = request;
    dialed = rnic_endpoint_start_initiator(ep);
    if (dialed != RNIC_FABRIC_OK) {
        rnic_endpoint_free(ep);
        return rnic_cm_admin_status(dialed);
    }
    cqe->number = cpu_to_le32(ep->number);
    return RNIC_ST_OK;
}

static RnicEndpoint *cm_requested_endpoint(RnicState *s, uint32_t number)
{
    RnicEndpoint *ep = rnic_request_get(s, number);

    return ep && ep->state == RNIC_EP_REQUESTED ? ep : NULL;
}

enum rnic_admin_status rnic_cm_accept(RnicState *s,
                                      const struct rnic_admin_sqe *sqe)
{
    uint16_t ird = le16_to_cpu(sqe->accept.ird);
    uint16_t ord = le16_to_cpu(sqe->accept.ord);
    RnicEndpoint *ep = cm_requested_endpoint(s,
                                             le32_to_cpu(sqe->accept.endpoint));
    RnicQp *qp = rnic_qp_get(s, le32_to_cpu(sqe->accept.qpn));
    enum rnic_admin_status status;

    if (!ep) {
        return RNIC_ST_INVALID_ENDPOINT;
    }
    if (!qp) {
        return RNIC_ST_INVALID_QP;
    }
    status = cm_check_depths(s, ird, ord);
    if (status != RNIC_ST_OK) {
        return status;
    }
    ep->policy = rnic_cm_policy(s, ird, ord);
    iwarp_mpa_accept(&ep->policy, &ep->request, &ep->reply, &ep->agreed);
    status = cm_read_private_data(s, sqe, &ep->reply);
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!rnic_endpoint_claim(ep, qp)) {
        return RNIC_ST_INVALID_STATE_CHANGE;
    }
    rnic_listener_release(ep);
    ep->cookie = le64_to_cpu(sqe->accept.cookie);
    rnic_endpoint_send_reply(ep);
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_cm_reject(RnicState *s,
                                      const struct rnic_admin_sqe *sqe)
{
    RnicEndpoint *ep = cm_requested_endpoint(s,
                                             le32_to_cpu(sqe->accept.endpoint));
    enum rnic_admin_status status;

    if (sqe->accept.qpn || sqe->accept.ird || sqe->accept.ord) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (!ep) {
        return RNIC_ST_INVALID_ENDPOINT;
    }
    ep->policy = rnic_cm_policy(s, s->config.max_ird, s->config.max_ord);
    iwarp_mpa_reject(&ep->policy, &ep->request, &ep->reply);
    status = cm_read_private_data(s, sqe, &ep->reply);
    if (status != RNIC_ST_OK) {
        return status;
    }
    rnic_listener_release(ep);
    rnic_count(&s->counters.rejects, 1);
    rnic_endpoint_send_reply(ep);
    return RNIC_ST_OK;
}
