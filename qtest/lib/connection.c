/*
 * A QP of the device connected to a wire peer, ready for a test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "connection.h"

static const ConnectionOptions defaults;

/* The QP's own CQs, unless it shares one. */
static RnicQpInit make_cqs(Connection *c, const ConnectionOptions *o)
{
    uint32_t cq_depth = o->cq_depth ? o->cq_depth : 1024;

    if (o->cq) {
        return rnic_qp_default(c->r, o->cq, o->cq);
    }
    rnic_create_cq(c->r, &c->send_cq, cq_depth, c->r->comp_eq.number);
    if (o->one_cq) {
        return rnic_qp_default(c->r, &c->send_cq, &c->send_cq);
    }
    rnic_create_cq(c->r, &c->recv_cq, cq_depth, c->r->comp_eq.number);
    return rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
}

static void make_qp(Connection *c, const ConnectionOptions *o)
{
    RnicQpInit init = make_cqs(c, o);

    init.ird = o->no_reads ? 0 : o->ird ? o->ird : 4;
    init.ord = o->no_reads ? 0 : o->ord ? o->ord : 4;
    init.sq_depth = o->sq_depth ? o->sq_depth : init.sq_depth;
    init.rq_depth = o->rq_depth ? o->rq_depth : init.rq_depth;
    init.enables = o->enables ? o->enables : init.enables;
    init.pd = o->pd ? o->pd : init.pd;
    init.srq = o->srq;
    init.rq_limit = o->rq_limit;
    if (o->max_sge) {
        init.max_sge = o->max_sge;
        init.rq_shift = RNIC_RQ_MAX_WQE_SHIFT;
    }
    rnic_create_qp(c->r, &c->qp, &init);
    rnic_create_mr(c->r, &c->mr, init.pd, CONNECTION_MR_SIZE,
                   RNIC_TEST_ACCESS_ALL);
}

Connection *connection_prepare(const ConnectionOptions *options)
{
    const ConnectionOptions *o = options ? options : &defaults;
    Connection *c = g_new0(Connection, 1);
    g_autofree char *properties =
        g_strdup_printf(",mpa-rtr=off%s", o->properties ? o->properties : "");

    c->r = rnic_boot(properties, o->arguments);
    rnic_up_with(c->r, rnic_features(c->r) & ~o->features_off);
    make_qp(c, o);
    return c;
}

Connection *connection_prepare_on(Rnic *r, const ConnectionOptions *options)
{
    Connection *c = g_new0(Connection, 1);

    c->r = r;
    make_qp(c, options ? options : &defaults);
    return c;
}

Connection *connection_prepare_second(Connection *first,
                                      const ConnectionOptions *options)
{
    return connection_prepare_on(first->r, options);
}

static void set_modes(Connection *c, bool device_is_initiator)
{
    const WireMpa *ours = device_is_initiator ? &c->reply : &c->request;
    const WireMpa *devices = device_is_initiator ? &c->request : &c->reply;

    c->peer->crc = c->request.crc || c->reply.crc;
    c->peer->markers_in = ours->markers;
    c->peer->markers_out = devices->markers;
}

static uint16_t ird_of(const ConnectionOptions *o)
{
    return o->no_reads ? 0 : o->ird ? o->ird : 4;
}

static uint16_t ord_of(const ConnectionOptions *o)
{
    return o->no_reads ? 0 : o->ord ? o->ord : 4;
}

static void establish_active(Connection *c, const ConnectionOptions *o)
{
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      ird_of(o), ord_of(o), CONNECTION_COOKIE,
                                      NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    close(listener);
    wire_mpa_get(c->peer, &c->request);
    g_assert_false(c->request.reply);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.crc |= o->crc;
    c->reply.markers = o->markers_in;
    c->reply.ird = ord_of(o);
    c->reply.ord = ird_of(o);
    wire_mpa_put(c->peer, &c->reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, CONNECTION_COOKIE);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    set_modes(c, true);
}

static void establish_passive(Connection *c, const ConnectionOptions *o)
{
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    uint32_t listener;

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 7,
                                     &listener), ==, RNIC_ST_OK);
    c->peer = wire_connect(c->r->qts, 3, 1, port);
    c->request = wire_mpa_request();
    if (o->plain) {
        c->request.revision = 1;
        c->request.enhanced = false;
    }
    c->request.crc = o->crc;
    c->request.markers = o->markers_in;
    c->request.ird = ord_of(o);
    c->request.ord = ird_of(o);
    wire_mpa_put(c->peer, &c->request);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint), &c->qp,
                                     ird_of(o), ord_of(o), CONNECTION_COOKIE,
                                     NULL, 0), ==, RNIC_ST_OK);
    wire_mpa_get(c->peer, &c->reply);
    g_assert_true(c->reply.reply);
    g_assert_false(c->reply.reject);
    event = rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, CONNECTION_COOKIE);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN, listener),
                     ==, RNIC_ST_OK);
    set_modes(c, false);
}

void connection_connect(Connection *c, const ConnectionOptions *options)
{
    const ConnectionOptions *o = options ? options : &defaults;

    if (o->passive) {
        establish_passive(c, o);
    } else {
        establish_active(c, o);
    }
}

void connection_establish(Connection *c, const ConnectionOptions *options)
{
    connection_connect(c, options);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
}

void connection_pair(Connection *a, Connection *b)
{
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    uint32_t listener;

    g_assert_cmpuint(rnic_try_listen(a->r, wire_guest_ip(1), port, 5,
                                     &listener), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(1), port,
                                      2, 2, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(a->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(a->r, le32_to_cpu(event.endpoint),
                                     &b->qp, 2, 2, 2, NULL, 0), ==,
                     RNIC_ST_OK);
    for (int i = 0; i < 2; i++) {
        rnic_eq_wait(a->r, &a->r->cm_eq, &event);
        g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    }
    g_assert_cmpuint(rnic_admin_object(a->r, RNIC_ADMIN_CM_UNLISTEN, listener),
                     ==, RNIC_ST_OK);
}

Connection *connection_new(const ConnectionOptions *options)
{
    Connection *c = connection_prepare(options);

    connection_establish(c, options);
    return c;
}

void connection_free_second(Connection *c)
{
    if (c->peer) {
        wire_close(c->peer);
    }
    g_free(c);
}

void connection_free(Connection *c)
{
    Rnic *r = c->r;

    connection_free_second(c);
    rnic_quit(r);
}

static bool back_to_idle(Connection *c)
{
    uint8_t state = rnic_qp_state(c->r, &c->qp);

    if (state == RNIC_QPS_ERROR) {
        uint16_t status = rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);

        g_assert_true(status == RNIC_ST_OK ||
                      status == RNIC_ST_STILL_FLUSHING);
        return status == RNIC_ST_OK;
    }
    return state == RNIC_QPS_IDLE;
}

void connection_drain_events(Connection *c)
{
    struct rnic_cm_event cm;
    struct rnic_aeqe aeqe;
    struct rnic_cqe cqe;

    while (rnic_eq_poll(c->r, &c->r->async_eq, &aeqe) ||
           rnic_eq_poll(c->r, &c->r->cm_eq, &cm) ||
           rnic_cq_poll(c->r, &c->send_cq, &cqe) ||
           (c->qp.recv_cq != &c->send_cq &&
            rnic_cq_poll(c->r, &c->recv_cq, &cqe))) {
        /* nothing */
    }
}

void connection_recycle(Connection *c)
{
    if (c->peer) {
        wire_close(c->peer);
        c->peer = NULL;
    }
    RNIC_UNTIL(c->r, back_to_idle(c));
    connection_drain_events(c);
}

void connection_fill(Connection *c, uint64_t offset, const void *data,
                     uint32_t length)
{
    rnic_mem_write(c->r, c->mr.bus + offset, data, length);
}

void connection_peek(Connection *c, uint64_t offset, void *data,
                     uint32_t length)
{
    rnic_mem_read(c->r, c->mr.bus + offset, data, length);
}

RnicWr connection_wr(Connection *c, uint8_t opcode, uint64_t wr_id,
                     uint64_t offset, uint32_t length)
{
    RnicWr wr = {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .num_sge = 1,
        .sge[0] = rnic_sge(&c->mr, offset, length),
    };

    if (opcode == RNIC_SQ_RDMA_WRITE || opcode == RNIC_SQ_RDMA_READ ||
        opcode == RNIC_SQ_WRITE_IMMEDIATE || opcode == RNIC_SQ_FETCH_ADD ||
        opcode == RNIC_SQ_COMPARE_SWAP) {
        wr.remote_stag = CONNECTION_REMOTE_STAG;
    }

    return wr;
}

void connection_post(Connection *c, uint8_t opcode, uint64_t wr_id,
                     uint64_t offset, uint32_t length)
{
    RnicWr wr = connection_wr(c, opcode, wr_id, offset, length);

    rnic_post_send(c->r, &c->qp, &wr);
}

uint32_t connection_get_write(Connection *c, uint64_t to, void *data,
                              uint32_t size)
{
    return wire_get_tagged(c->peer, WIRE_WRITE, CONNECTION_REMOTE_STAG, to,
                           data, size);
}

void connection_recv(Connection *c, uint64_t wr_id, uint64_t offset,
                     uint32_t length)
{
    struct rnic_sge sge = rnic_sge(&c->mr, offset, length);

    rnic_post_recv(c->r, &c->qp, wr_id, 1, &sge);
}
