/*
 * Direct connects: commands, two devices, and a peer that the test speaks for
 *
 * Private data and notes are written here octet by octet, from the manual's tables.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "direct.h"

enum {
    SECOND_SLOT = RNIC_TEST_SLOT + 1,
    LENGTH = DIRECT_LENGTH,
};

/* ---------------------------------------------------------------- commands */

struct rnic_admin_sqe direct_connect_command(const RnicQp *qp, unsigned local,
                                             unsigned remote,
                                             uint32_t peer_qpn,
                                             uint32_t rq_psn)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_DIRECT_CONNECT);
    struct rnic_cm_addr addr = rnic_addr(wire_guest_ip(local), 0);

    sqe.direct_connect.qpn = cpu_to_le32(qp->number);
    sqe.direct_connect.peer_qpn = cpu_to_le32(peer_qpn);
    sqe.direct_connect.rq_psn = cpu_to_le32(rq_psn);
    sqe.direct_connect.ird = cpu_to_le16(4);
    sqe.direct_connect.ord = cpu_to_le16(4);
    memcpy(sqe.direct_connect.local, addr.ip, 16);
    addr = rnic_addr(wire_guest_ip(remote), 0);
    memcpy(sqe.direct_connect.remote, addr.ip, 16);
    return sqe;
}

struct rnic_admin_sqe direct_send_command(const RnicQp *qp, uint32_t sq_psn,
                                          uint8_t timeout, uint8_t retries)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_DIRECT_SEND);

    sqe.direct_send.qpn = cpu_to_le32(qp->number);
    sqe.direct_send.sq_psn = cpu_to_le32(sq_psn);
    sqe.direct_send.ord = cpu_to_le16(4);
    sqe.direct_send.timeout = timeout;
    sqe.direct_send.retry_count = retries;
    sqe.direct_send.rnr_retry = 7;
    return sqe;
}

/* RTR */
void direct_to_rtr(Connection *c, unsigned local, unsigned remote,
                   uint32_t peer_qpn, uint32_t rq_psn)
{
    struct rnic_admin_sqe sqe = direct_connect_command(&c->qp, local, remote,
                                                       peer_qpn, rq_psn);

    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
}

/* RTS */
void direct_to_rts(Connection *c, uint32_t sq_psn, uint8_t timeout,
                   uint8_t retries)
{
    struct rnic_admin_sqe sqe = direct_send_command(&c->qp, sq_psn, timeout,
                                                    retries);

    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
}

/* RESET, as a driver does it. */
void direct_to_idle(Connection *c)
{
    uint16_t status;

    if (rnic_qp_state(c->r, &c->qp) != RNIC_QPS_ERROR) {
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR),
                         ==, RNIC_ST_OK);
    }
    do {
        status = rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
    } while (status == RNIC_ST_STILL_FLUSHING);
    g_assert_cmpuint(status, ==, RNIC_ST_OK);
    connection_drain_events(c);
}

/* ------------------------------------------------------------- two devices */

/* A QP of each of two devices. */
DirectPair direct_pair_up(void)
{
    Rnic *r = rnic_boot("", "-device rnic,id=second,addr=5,fabric=wire");
    Rnic *second;
    DirectPair p;

    rnic_up(r);
    second = rnic_sibling(r, SECOND_SLOT);
    rnic_up(second);
    p.a = connection_prepare_on(r, NULL);
    /* Other QP numbers than those of the first. */
    connection_free_second(connection_prepare_on(second, NULL));
    p.b = connection_prepare_on(second, NULL);
    return p;
}

void direct_pair_free(DirectPair *p)
{
    Rnic *second = p->b->r;

    connection_free_second(p->b);
    rnic_sibling_free(second);
    connection_free(p->a);
}

void direct_pair_a_rtr(DirectPair *p)
{
    direct_to_rtr(p->a, OURS, PEERS, p->b->qp.number, 0x111);
}

void direct_pair_b_rtr(DirectPair *p)
{
    direct_to_rtr(p->b, PEERS, OURS, p->a->qp.number, 0x222);
}

void direct_pair_connect(DirectPair *p)
{
    direct_pair_a_rtr(p);
    direct_to_rts(p->a, 0x222, FOR_EVER, 0);
    direct_pair_b_rtr(p);
    direct_to_rts(p->b, 0x111, FOR_EVER, 0);
    rnic_wait_qp_state(p->a->r, &p->a->qp, RNIC_QPS_RTS);
    rnic_wait_qp_state(p->b->r, &p->b->qp, RNIC_QPS_RTS);
}

/* A Send of @from whose receive is posted by now, or not. */
void direct_deliver(Connection *from, Connection *to, uint64_t wr_id,
                    bool post_receive)
{
    uint8_t data[LENGTH], got[LENGTH];

    rnic_pattern(data, LENGTH, wr_id);
    connection_fill(from, 0, data, LENGTH);
    if (post_receive) {
        connection_recv(to, wr_id, 8192, LENGTH);
    }
    connection_post(from, RNIC_SQ_SEND, wr_id, 0, LENGTH);
    rnic_expect_cqe(from->r, &from->send_cq, wr_id, RNIC_WC_SUCCESS);
    rnic_expect_cqe(to->r, &to->recv_cq, wr_id, RNIC_WC_SUCCESS);
    connection_peek(to, 8192, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
}

/* Octets of @from's buffer to @to's, and of @to's to @from's. */
void direct_write_and_read(Connection *from, Connection *to)
{
    uint8_t data[LENGTH], got[LENGTH];
    RnicWr wr = connection_wr(from, RNIC_SQ_RDMA_WRITE, 71, 0, LENGTH);

    rnic_pattern(data, LENGTH, 71);
    connection_fill(from, 0, data, LENGTH);
    wr.remote_stag = to->mr.stag;
    wr.remote_to = to->mr.va + 16384;
    rnic_post_send(from->r, &from->qp, &wr);
    rnic_expect_cqe(from->r, &from->send_cq, 71, RNIC_WC_SUCCESS);
    wr = connection_wr(from, RNIC_SQ_RDMA_READ, 72, 32768, LENGTH);
    wr.remote_stag = to->mr.stag;
    wr.remote_to = to->mr.va + 16384;
    rnic_post_send(from->r, &from->qp, &wr);
    rnic_expect_cqe(from->r, &from->send_cq, 72, RNIC_WC_SUCCESS);
    connection_peek(from, 32768, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
}

void direct_assert_quiet(Connection *c)
{
    rnic_expect_no_async(c->r);
    rnic_expect_no_cm(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
}

/* Both ways, everything; nothing but completions tells the guest. */
void direct_assert_works(DirectPair *p)
{
    direct_deliver(p->a, p->b, 61, true);
    direct_deliver(p->b, p->a, 62, true);
    direct_write_and_read(p->a, p->b);
    direct_write_and_read(p->b, p->a);
    direct_assert_quiet(p->a);
    direct_assert_quiet(p->b);
}

void direct_expect_retry_exceeded(Connection *c, uint64_t wr_id)
{
    rnic_expect_cqe(c->r, &c->send_cq, wr_id, RNIC_WC_RETRY_EXCEEDED);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
}

/* ------------------------------------------ a peer that the test speaks for */

static void put_be32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = value >> (24 - 8 * i);
    }
}

static void put_gid(uint8_t *at, unsigned host)
{
    memset(at, 0, 10);
    memset(at + 10, 0xff, 2);
    put_be32(at + 12, wire_guest_ip(host));
}

static void private_data(uint8_t *data, unsigned from, unsigned to,
                         uint32_t from_qpn, uint32_t to_qpn, uint32_t psn)
{
    memset(data, 0, DIRECT_DATA_LEN);
    memcpy(data, "RNDC", 4);
    data[4] = 2;
    put_be32(data + DIRECT_AT_FROM_QPN, from_qpn);
    put_be32(data + DIRECT_AT_TO_QPN, to_qpn);
    put_be32(data + DIRECT_AT_PSN, psn);
    put_gid(data + DIRECT_AT_FROM_GID, from);
    put_gid(data + DIRECT_AT_TO_GID, to);
}

static void peers_data(Connection *c, WireMpa *mpa, uint32_t peer_qpn,
                       uint32_t psn)
{
    mpa->length = DIRECT_DATA_LEN;
    private_data(mpa->data, PEERS, OURS, peer_qpn, c->qp.number, psn);
}

WireMpa direct_peers_request(Connection *c, uint32_t peer_qpn, uint32_t psn)
{
    WireMpa request = wire_mpa_request();

    request.ird |= WIRE_MPA2_A;
    request.ord |= WIRE_MPA2_C | WIRE_MPA2_D;
    peers_data(c, &request, peer_qpn, psn);
    return request;
}

/* The device's own frame has this reason, or zero and what it can do. */
void direct_assert_data(Connection *c, const WireMpa *mpa, uint32_t peer_qpn,
                        uint32_t psn, uint8_t reason)
{
    uint8_t expected[DIRECT_DATA_LEN];

    private_data(expected, OURS, PEERS, c->qp.number, peer_qpn, psn);
    expected[DIRECT_AT_REASON] = reason;
    expected[DIRECT_AT_FLAGS] = reason ? 0 : DIRECT_EXTENSIONS;
    g_assert_true(mpa->enhanced);
    g_assert_cmpint(mpa->revision, ==, 2);
    g_assert_cmpmem(mpa->data, mpa->length, expected, DIRECT_DATA_LEN);
}

WirePeer *direct_dialed(Connection *c, int listener, uint32_t peer_qpn,
                        uint32_t psn)
{
    WirePeer *peer = wire_accept(c->r->qts, listener);
    WireMpa request;

    wire_mpa_get(peer, &request);
    g_assert_false(request.reply);
    g_assert_cmphex(request.ird & WIRE_MPA2_A, !=, 0);
    g_assert_cmphex(request.ord & WIRE_MPA2_C, !=, 0);
    direct_assert_data(c, &request, peer_qpn, psn, 0);
    return peer;
}

WireMpa direct_peers_reply(Connection *c, uint32_t peer_qpn, uint32_t psn)
{
    WireMpa reply = { .reply = true, .revision = 2, .enhanced = true,
                      .ird = 4 | WIRE_MPA2_A, .ord = 4 | WIRE_MPA2_C };

    peers_data(c, &reply, peer_qpn, psn);
    return reply;
}

void direct_put_delivered(WirePeer *peer, uint64_t messages)
{
    wire_put_write(peer, 0, DIRECT_NOTE_DELIVERED | messages, NULL, 0);
}

void direct_get_delivered(WirePeer *peer, uint64_t messages)
{
    wire_get_tagged(peer, WIRE_WRITE, 0, DIRECT_NOTE_DELIVERED | messages,
                    NULL, 0);
}

/* A Send each way; the RTR, if there was one, has been read. */
void direct_exchange(Connection *c, WirePeer *peer)
{
    uint8_t data[LENGTH], got[LENGTH];

    rnic_pattern(data, LENGTH, 1);
    connection_recv(c, 50, 0, LENGTH);
    wire_put_send(peer, WIRE_SEND, 0, data, LENGTH);
    rnic_expect_cqe(c->r, &c->recv_cq, 50, RNIC_WC_SUCCESS);
    direct_get_delivered(peer, 1);
    connection_peek(c, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    connection_post(c, RNIC_SQ_SEND, 51, 0, LENGTH);
    g_assert_cmpuint(wire_get_send(peer, WIRE_SEND, 1, got, LENGTH), ==,
                     LENGTH);
    direct_put_delivered(peer, 1);
    rnic_expect_cqe(c->r, &c->send_cq, 51, RNIC_WC_SUCCESS);
}

/* To the QP of @c; the peer has the QP 0xabcdef. */
WirePeer *direct_meet_dial(Connection *c, int listener)
{
    WireMpa reply = direct_peers_reply(c, 0xabcdef, 0x654321);
    WirePeer *peer;

    direct_to_rtr(c, OURS, PEERS, 0xabcdef, 0x123456);
    peer = direct_dialed(c, listener, 0xabcdef, 0x123456);
    wire_mpa_put(peer, &reply);
    wire_get_tagged(peer, WIRE_WRITE, 0, 0, NULL, 0);
    return peer;
}
