/*
 * rnic: connections, MPA start-up, and peers that do it wrong
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { DATA = 200 };

/* One message each way. */
static void exchange(Connection *c, uint32_t msn)
{
    uint8_t data[DATA], got[DATA];

    rnic_pattern(data, DATA, msn);
    connection_recv(c, 500 + msn, 1000, DATA);
    wire_put_send(c->peer, WIRE_SEND, 0, data, DATA);
    rnic_expect_cqe(c->r, &c->recv_cq, 500 + msn, RNIC_WC_SUCCESS);
    connection_peek(c, 1000, got, DATA);
    g_assert_cmpmem(got, DATA, data, DATA);
    connection_fill(c, 5000, data, DATA);
    connection_post(c, RNIC_SQ_SEND, 600 + msn, 5000, DATA);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, msn, got, DATA), ==,
                     DATA);
    g_assert_cmpmem(got, DATA, data, DATA);
    rnic_expect_cqe(c->r, &c->send_cq, 600 + msn, RNIC_WC_SUCCESS);
}

static void assert_address(const struct rnic_cm_addr *addr, unsigned host,
                           uint16_t port)
{
    struct rnic_cm_addr expected = rnic_addr(wire_guest_ip(host), port);

    g_assert_cmpmem(addr->ip, 16, expected.ip, 16);
    if (port) {
        g_assert_cmphex(addr->port, ==, expected.port);
    }
}

/* ------------------------------------------------------------------ connect */

/* The request, octet by octet, and the event of its reply. */
static void test_connect(void)
{
    static const uint8_t expected[] = {
        'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a',
        'm', 'e', 0x10, 2, 0, 9, 0, 3, 0, 2, 'h', 'e', 'l', 'l', 'o',
    };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .ird = 8, .ord = 8 });
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);
    struct rnic_cm_event event;
    uint64_t bulk = rnic_alloc(c->r, 4096);
    uint8_t got[sizeof(expected)];
    struct rnic_qp_attr attr;
    uint16_t port;
    int listener = wire_listen(2, &port);
    WireMpa reply = { .reply = true, .revision = 2, .enhanced = true,
                      .ird = 7, .ord = 1, .length = 3, .data = "bye" };

    rnic_mem_write(c->r, bulk, "hello", 5);
    sqe.bulk_addr = cpu_to_le64(bulk);
    sqe.bulk_length = cpu_to_le32(5);
    sqe.connect.cookie = cpu_to_le64(0x1122334455667788);
    sqe.connect.qpn = cpu_to_le32(c->qp.number);
    sqe.connect.ird = cpu_to_le16(3);
    sqe.connect.ord = cpu_to_le16(2);
    sqe.connect.local = rnic_addr(wire_guest_ip(1), 0);
    sqe.connect.remote = rnic_addr(wire_guest_ip(2), port);
    /* No message leaves while the QP is in Idle, nor behind the request. */
    connection_post(c, RNIC_SQ_SEND, 5, 0, 3);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_get(c->peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), expected, sizeof(expected));
    wire_expect_silence(c->peer);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    rnic_expect_no_cm(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);

    wire_mpa_put(c->peer, &reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, 0x1122334455667788);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    g_assert_cmpint(event.mpa_revision, ==, 2);
    g_assert_cmpint(le16_to_cpu(event.private_data_length), ==, 3);
    g_assert_cmpmem(event.private_data, 3, "bye", 3);
    g_assert_cmpuint(le16_to_cpu(event.ord), ==, 2);
    g_assert_cmpuint(le16_to_cpu(event.ird), >=, 1);
    assert_address(&event.local, 1, 0);
    g_assert_cmphex(event.local.port, !=, 0);
    assert_address(&event.remote, 2, port);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_RTS);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, le16_to_cpu(event.ord));
    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, le16_to_cpu(event.ird));
    g_assert_cmpint(attr.mpa_revision, ==, 2);
    g_assert_cmphex(attr.mpa_flags, ==, 0);
    g_assert_cmphex(attr.llp_stream, !=, 0);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got)),
                     ==, 3);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    exchange(c, 2);
    close(listener);
    connection_free(c);
    rnic_shows("V6.2.1.2-4 V6.2.2-1");
}

static void test_connect_revision_1(void)
{
    static const uint8_t expected[] = {
        'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a',
        'm', 'e', 0, 1, 0, 2, 'h', 'i',
    };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",mpa-revision=1" });
    uint8_t got[sizeof(expected)];
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);
    WireMpa reply = { .reply = true, .revision = 1, .length = 1,
                      .data = "x" };

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      3, 2, 1, "hi", 2), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_get(c->peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), expected, sizeof(expected));
    wire_mpa_put(c->peer, &reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmpint(event.mpa_revision, ==, 1);
    /* Nothing was negotiated: as asked. */
    g_assert_cmpuint(le16_to_cpu(event.ird), ==, 3);
    g_assert_cmpuint(le16_to_cpu(event.ord), ==, 2);
    g_assert_cmpint(le16_to_cpu(event.private_data_length), ==, 1);
    exchange(c, 1);
    close(listener);
    connection_free(c);
}

/*
 * Users who give each direction the same depth at both ends get just that, and say so
 * on the wire; one who asks for more than the peer serves gets what it serves.
 */
static void check_depths(uint16_t out, uint16_t in, uint16_t served)
{
    Connection *c = connection_prepare(NULL);
    uint16_t port;
    int listener = wire_listen(2, &port);
    struct rnic_cm_event event;

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      in, out, 1, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    g_assert_cmpuint(c->request.ird & WIRE_MPA2_VALUE, ==, in);
    g_assert_cmpuint(c->request.ord & WIRE_MPA2_VALUE, ==, out);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.ird = served;
    c->reply.ord = in;
    wire_mpa_put(c->peer, &c->reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpuint(le16_to_cpu(event.ird), ==, in);
    g_assert_cmpuint(le16_to_cpu(event.ord), ==, MIN(out, served));
    close(listener);
    connection_free(c);
}

static void test_depths_agree(void)
{
    check_depths(5, 3, 5);
    check_depths(3, 5, 3);
    check_depths(5, 3, 4);
    rnic_shows("R6.1-6");
}

/* The reply in single octets; the first FPDU in the same segment. */
static void test_reply_in_pieces(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa reply;
    uint8_t octets[1200];
    WireSegment send = {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 4,
        .payload = (uint8_t *)"fast",
    };

    for (int at_once = 0; at_once < 2; at_once++) {
        uint8_t ulpdu[64], got[4];
        uint16_t port;
        int listener = wire_listen(2, &port);
        size_t length;

        connection_recv(c, 9, 0, 16);
        g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2),
                                          port, 4, 4, 1, NULL, 0), ==,
                         RNIC_ST_OK);
        c->peer = wire_accept(c->r->qts, listener);
        wire_mpa_get(c->peer, &c->request);
        reply = wire_mpa_reply(&c->request);
        reply.length = 508;
        rnic_pattern(reply.data, 508, 1);
        length = wire_mpa_encode(&reply, octets);
        length += wire_encode_fpdu(c->peer, ulpdu,
                                   wire_encode_segment(&send, ulpdu),
                                   octets + length);
        for (size_t i = 0; i < length; i += at_once ? length : 1) {
            wire_put(c->peer, octets + i, at_once ? length : 1);
        }
        rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
        rnic_expect_cqe(c->r, &c->recv_cq, 9, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, 4);
        g_assert_cmpmem(got, 4, "fast", 4);
        close(listener);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.1.2-5");
}

/* --------------------------------------------------------- listen, accept */

static struct rnic_cm_event await_request(Connection *c, unsigned from,
                                          uint16_t port, const WireMpa *mpa)
{
    c->peer = wire_connect(c->r->qts, from, 1, port);
    wire_mpa_put(c->peer, mpa);
    return rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
}

static uint16_t start_listening(Connection *c, uint32_t *number)
{
    uint16_t port = wire_free_port(1);

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 0xabcdef,
                                     number), ==, RNIC_ST_OK);
    return port;
}

static void test_accept(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .ird = 8, .ord = 8 });
    WireMpa request = { .revision = 2, .enhanced = true, .ird = 5, .ord = 3,
                        .length = 7, .data = "request" };
    struct rnic_cm_event event;
    struct rnic_qp_attr attr;
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    WireMpa reply;

    event = await_request(c, 3, port, &request);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, 0xabcdef);
    g_assert_cmphex(le32_to_cpu(event.endpoint), !=, 0);
    g_assert_cmpint(event.mpa_revision, ==, 2);
    g_assert_cmpuint(le16_to_cpu(event.ird), ==, 5);
    g_assert_cmpuint(le16_to_cpu(event.ord), ==, 3);
    g_assert_cmpint(le16_to_cpu(event.private_data_length), ==, 7);
    g_assert_cmpmem(event.private_data, 7, "request", 7);
    assert_address(&event.local, 1, port);
    assert_address(&event.remote, 3, 0);
    wire_expect_silence(c->peer);

    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                     &c->qp, 3, 8, 77, "yes", 3), ==,
                     RNIC_ST_OK);
    wire_mpa_get(c->peer, &reply);
    g_assert_true(reply.reply);
    g_assert_false(reply.reject);
    g_assert_true(reply.enhanced);
    g_assert_cmpint(reply.revision, ==, 2);
    g_assert_cmpuint(reply.ird, ==, 3);
    /* The peer can take in 5. */
    g_assert_cmpuint(reply.ord, ==, 5);
    g_assert_cmpuint(reply.length, ==, 3);
    g_assert_cmpmem(reply.data, 3, "yes", 3);
    /* The endpoint is used up. */
    g_assert_cmpuint(rnic_try_reject(c->r, le32_to_cpu(event.endpoint), NULL,
                                     0), ==, RNIC_ST_INVALID_ENDPOINT);
    event = rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmpuint(le64_to_cpu(event.cookie), ==, 77);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    g_assert_cmpuint(le16_to_cpu(event.ird), ==, 3);
    g_assert_cmpuint(le16_to_cpu(event.ord), ==, 5);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, 3);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, 5);
    exchange(c, 1);
    connection_free(c);
}

static void test_accept_revision_1(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = { .revision = 1, .length = 512 };
    struct rnic_cm_event event;
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    uint8_t data[512];
    WireMpa reply;

    rnic_pattern(data, sizeof(data), 1);
    memcpy(request.data, data, sizeof(data));
    event = await_request(c, 3, port, &request);
    g_assert_cmpint(event.mpa_revision, ==, 1);
    g_assert_cmphex(le16_to_cpu(event.ird), ==, 0xffff);
    g_assert_cmphex(le16_to_cpu(event.ord), ==, 0xffff);
    g_assert_cmpint(le16_to_cpu(event.private_data_length), ==, 512);
    g_assert_cmpmem(event.private_data, 512, data, 512);
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                     &c->qp, 4, 4, 77, data, 512), ==,
                     RNIC_ST_OK);
    wire_mpa_get(c->peer, &reply);
    g_assert_false(reply.enhanced);
    g_assert_cmpint(reply.revision, ==, 1);
    g_assert_cmpuint(reply.length, ==, 512);
    g_assert_cmpmem(reply.data, 512, data, 512);
    rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    exchange(c, 1);
    connection_free(c);
}

/* The first FPDU is the initiator's, whatever waits here (RFC 5044 7.1.2). */
static void test_responder_waits(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .passive = true });
    uint8_t got[8];

    connection_post(c, RNIC_SQ_SEND, 1, 0, 3);
    connection_establish(c, &(ConnectionOptions) { .passive = true });
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_put_write(c->peer, 0, 0, NULL, 0);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, 8), ==, 3);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 2, got, 8), ==, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V6.2.1.2-3 V6.6.1.1-2");
}

/* Nor does it send a Terminate then: a reset is all that an error of its own leaves. */
static void test_responder_resets(void)
{
    static const ConnectionOptions passive = { .passive = true };
    Connection *c = connection_prepare(&passive);

    for (int modify = 0; modify < 2; modify++) {
        struct rnic_cm_event event;

        connection_establish(c, &passive);
        connection_recv(c, 1, 0, 8);
        connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
        rnic_settle(c->r);
        if (modify) {
            g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                                  RNIC_QPS_TERMINATE), ==,
                             RNIC_ST_OK);
        } else {
            wire_shutdown(c->peer);
            rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
        }
        /* UNIX sockets have no reset. */
        g_assert_cmpint(wire_end(c->peer), ==,
                        wire_directory() ? WIRE_FIN : WIRE_RST);
        rnic_expect_async(c->r, modify ? RNIC_AE_BAD_CLOSE
                                       : RNIC_AE_BAD_LLP_CLOSE, c->qp.number);
        event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
        g_assert_cmphex(le16_to_cpu(event.terminate), ==, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
        g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
        rnic_expect_no_async(c->r);
        connection_recycle(c);
    }
    connection_free(c);
}

/* The initiator: what was posted in Idle is its first FPDU. */
static void test_initiator_starts(void)
{
    Connection *c = connection_prepare(NULL);
    uint8_t got[8];

    connection_post(c, RNIC_SQ_SEND, 1, 0, 3);
    connection_recv(c, 5, 100, 8);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_establish(c, NULL);
    wire_put_send(c->peer, WIRE_SEND, 0, "early", 5);
    rnic_expect_cqe(c->r, &c->recv_cq, 5, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, 8), ==, 3);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 2, got, 8), ==, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(c, 100, got, 5);
    g_assert_cmpmem(got, 5, "early", 5);
    connection_free(c);
    rnic_shows("V6.2.2-2 V6.6.1.2-1 V13.1-3");
}

/* ------------------------------------------------------------------- reject */

static void test_reject(void)
{
    Connection *c = connection_prepare(NULL);
    static const uint16_t lengths[] = { 0, 1, 508 };
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    uint8_t data[512];

    rnic_pattern(data, sizeof(data), 3);
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        WireMpa request = wire_mpa_request(), reply;
        struct rnic_cm_event event = await_request(c, 3, port, &request);

        g_assert_cmpuint(rnic_try_reject(c->r, le32_to_cpu(event.endpoint),
                                         data, lengths[i]), ==, RNIC_ST_OK);
        wire_mpa_get(c->peer, &reply);
        g_assert_true(reply.reply);
        g_assert_true(reply.reject);
        /* siw strips four octets without looking: they must be there. */
        g_assert_true(reply.enhanced);
        g_assert_cmpint(reply.revision, ==, 2);
        g_assert_cmpuint(reply.length, ==, lengths[i]);
        g_assert_cmpmem(reply.data, lengths[i], data, lengths[i]);
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
        wire_close(c->peer);
        c->peer = NULL;
        g_assert_cmpuint(rnic_try_reject(c->r, le32_to_cpu(event.endpoint),
                                         NULL, 0), ==,
                         RNIC_ST_INVALID_ENDPOINT);
    }
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    connection_free(c);
}

static void test_rejected(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);
    WireMpa request, reply;

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &request);
    reply = wire_mpa_reply(&request);
    reply.reject = true;
    reply.length = 4;
    memcpy(reply.data, "nope", 4);
    wire_mpa_put(c->peer, &reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_REJECTED);
    g_assert_cmpuint(le64_to_cpu(event.cookie), ==, 5);
    g_assert_cmpint(le16_to_cpu(event.private_data_length), ==, 4);
    g_assert_cmpmem(event.private_data, 4, "nope", 4);
    wire_expect_end(c->peer);
    wire_close(c->peer);
    c->peer = NULL;
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    rnic_expect_no_async(c->r);
    close(listener);
    /* It can try again. */
    connection_establish(c, NULL);
    exchange(c, 1);
    connection_free(c);
}

/* -------------------------------------------------------------- negotiation */

/* Reads in both directions: what the frames say, the QP does. */
static void test_read_resources(void)
{
    static const struct {
        uint16_t ird, ord;          /* asked for */
        uint16_t peer_ird, peer_ord;
        uint16_t expected_ird, expected_ord;
    } active[] = {
        { 4, 4, 4, 4, 4, 4 },
        { 4, 4, 2, 1, 1, 2 },
        { 4, 4, 9, 4, 4, 4 },
        { 0, 4, 4, 0, 0, 4 },
        { 4, 0, 9, 4, 4, 0 },
        { 2, 2, WIRE_MPA2_VALUE, WIRE_MPA2_VALUE, 2, 2 },
    };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .ird = 16, .ord = 16, .properties = ",max-ird=16,max-ord=16" });

    for (unsigned i = 0; i < G_N_ELEMENTS(active); i++) {
        struct rnic_cm_event event;
        struct rnic_qp_attr attr;
        uint16_t port;
        int listener = wire_listen(2, &port);

        g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2),
                                          port, active[i].ird, active[i].ord,
                                          5, NULL, 0), ==, RNIC_ST_OK);
        c->peer = wire_accept(c->r->qts, listener);
        wire_mpa_get(c->peer, &c->request);
        g_assert_cmpuint(c->request.ird, ==, active[i].ird);
        g_assert_cmpuint(c->request.ord, ==, active[i].ord);
        c->reply = wire_mpa_reply(&c->request);
        c->reply.ird = active[i].peer_ird;
        c->reply.ord = active[i].peer_ord;
        wire_mpa_put(c->peer, &c->reply);
        event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
        g_assert_cmpint(event.status, ==, RNIC_CM_OK);
        g_assert_cmpuint(le16_to_cpu(event.ord), ==, active[i].expected_ord);
        g_assert_cmpuint(le16_to_cpu(event.ird), >=, active[i].expected_ird);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_cmpuint(le16_to_cpu(attr.ord), ==, le16_to_cpu(event.ord));
        g_assert_cmpuint(le16_to_cpu(attr.ird), ==, le16_to_cpu(event.ird));
        close(listener);
        connection_recycle(c);
    }
    connection_free(c);
}

/* The peer wants more Reads than the device has slots. */
static void test_insufficient_ird(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",max-ird=4" });
    struct rnic_cm_event event;
    WireTerminate terminate;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      2, 2, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.ord = 5;
    wire_mpa_put(c->peer, &c->reply);
    terminate = wire_expect_terminate(c->peer, 0x2006);
    g_assert_cmphex(terminate.flags, ==, 0);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_MPA_READ_RESOURCES);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    close(listener);
    connection_free(c);
}

/* CRC is used if either side asks; all eight cases, data each way. */
static void test_crc(void)
{
    for (int device = 0; device < 2; device++) {
        for (int passive = 0; passive < 2; passive++) {
            for (int peer = 0; peer < 2; peer++) {
                ConnectionOptions options = {
                    .properties = device ? ",mpa-crc=on" : ",mpa-crc=off",
                    .passive = passive,
                    .crc = peer,
                };
                Connection *c = connection_new(&options);
                struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);
                bool expected = device || peer;

                if (passive) {
                    g_assert_cmpint(c->reply.crc, ==, expected);
                } else {
                    g_assert_cmpint(c->request.crc, ==, device);
                }
                g_assert_cmpint(!!(attr.mpa_flags & RNIC_MPA_CRC), ==,
                                expected);
                c->peer->crc = expected;
                exchange(c, 1);
                connection_free(c);
            }
        }
    }
}

static void test_markers(void)
{
    for (int device = 0; device < 2; device++) {
        for (int passive = 0; passive < 2; passive++) {
            for (int peer = 0; peer < 2; peer++) {
                ConnectionOptions options = {
                    .properties = device ? ",mpa-markers=on" : "",
                    .passive = passive,
                    .markers_in = peer,
                };
                Connection *c = connection_new(&options);
                const WireMpa *devices = passive ? &c->reply : &c->request;
                struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

                g_assert_cmpint(devices->markers, ==, device);
                g_assert_cmphex(attr.mpa_flags, ==,
                                (device ? RNIC_MPA_MARKERS_RECEIVED : 0) |
                                (peer ? RNIC_MPA_MARKERS_SENT : 0));
                for (uint32_t i = 1; i < 8; i++) {
                    exchange(c, i);
                }
                connection_free(c);
            }
        }
    }
}

/* ---------------------------------------------------------------------- RTR */

/* The device starts: it sends the kind of RTR that both have. */
static void test_rtr_initiator(void)
{
    static const struct {
        uint16_t ird_flags, ord_flags;
    } kinds[] = {
        { WIRE_MPA2_A, WIRE_MPA2_C },
        { WIRE_MPA2_A, WIRE_MPA2_D },
        { WIRE_MPA2_A | WIRE_MPA2_B, 0 },
        { WIRE_MPA2_A | WIRE_MPA2_B, WIRE_MPA2_C | WIRE_MPA2_D },
    };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",mpa-rtr=on" });

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        struct rnic_cm_event event;
        WireSegment rtr;
        uint32_t msn = 1;
        uint16_t port;
        int listener = wire_listen(2, &port);
        uint8_t got[8];

        g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2),
                                          port, 4, 4, 5, NULL, 0), ==,
                         RNIC_ST_OK);
        c->peer = wire_accept(c->r->qts, listener);
        wire_mpa_get(c->peer, &c->request);
        g_assert_cmphex(c->request.ird & WIRE_MPA2_A, !=, 0);
        g_assert_cmpuint(c->request.ird & WIRE_MPA2_VALUE, ==, 4);
        g_assert_cmphex((c->request.ird & WIRE_MPA2_B) |
                        (c->request.ord & (WIRE_MPA2_C | WIRE_MPA2_D)),
                        !=, 0);
        c->reply = wire_mpa_reply(&c->request);
        c->reply.ird |= kinds[i].ird_flags;
        c->reply.ord |= kinds[i].ord_flags;
        /* Something to say already: the RTR must come first. */
        connection_post(c, RNIC_SQ_SEND, 1, 0, 5);
        wire_mpa_put(c->peer, &c->reply);
        event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
        g_assert_cmpint(event.status, ==, RNIC_CM_OK);
        wire_get_segment(c->peer, &rtr);
        g_assert_true(rtr.last);
        switch (rtr.opcode) {
        case WIRE_WRITE:
            g_assert_cmphex(kinds[i].ord_flags & WIRE_MPA2_C, !=, 0);
            g_assert_cmpuint(rtr.length, ==, 0);
            break;
        case WIRE_READ_REQUEST:
            g_assert_cmphex(kinds[i].ord_flags & WIRE_MPA2_D, !=, 0);
            g_assert_cmpuint(ldl_be_p(rtr.payload + 12), ==, 0);
            wire_put_read_response(c->peer, ldl_be_p(rtr.payload),
                                   ldq_be_p(rtr.payload + 4), NULL, 0);
            break;
        case WIRE_SEND:
            g_assert_cmphex(kinds[i].ird_flags & WIRE_MPA2_B, !=, 0);
            g_assert_cmpuint(rtr.length, ==, 0);
            msn = 2;
            break;
        default:
            g_assert_not_reached();
        }
        g_free(rtr.payload);
        g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, msn, got, 8), ==,
                         5);
        /* The RTR has no completion. */
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        rnic_expect_no_async(c->r);
        close(listener);
        connection_recycle(c);
    }
    connection_free(c);
}

/* After an RTR by Read the first Read of the ULP has MSN 2, and works. */
static void test_rtr_read_then_reads(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",mpa-rtr=on" });
    uint16_t port;
    int listener = wire_listen(2, &port);
    WireRead read;

    /* An ORD of 1, which the RTR takes. */
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      4, 1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.ird |= WIRE_MPA2_A;
    c->reply.ord |= WIRE_MPA2_D;
    wire_mpa_put(c->peer, &c->reply);
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(read.size, ==, 0);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 3);
    wire_expect_silence(c->peer);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL, 0);
    wire_get_read_request(c->peer, 2, &read);
    g_assert_cmpuint(read.size, ==, 3);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "abc", 3);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    close(listener);
    connection_free(c);
}

/* The peer starts: its RTR opens the device's direction, and is no receive. */
static void test_rtr_responder(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",mpa-rtr=on" });
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);

    for (int kind = 0; kind < 3; kind++) {
        WireMpa request = wire_mpa_request();
        struct rnic_cm_event event;
        WireMpa reply;
        uint8_t got[8];

        request.ird |= WIRE_MPA2_A | (kind == 0 ? WIRE_MPA2_B : 0);
        request.ord |= (kind == 1 ? WIRE_MPA2_C : 0) |
                       (kind == 2 ? WIRE_MPA2_D : 0);
        event = await_request(c, 3, port, &request);
        g_assert_cmpuint(le16_to_cpu(event.ird), ==, 4);
        connection_post(c, RNIC_SQ_SEND, 1, 0, 5);
        connection_recv(c, 2, 100, 8);
        g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                         &c->qp, 4, 4, 6, NULL, 0), ==,
                         RNIC_ST_OK);
        wire_mpa_get(c->peer, &reply);
        g_assert_cmphex(reply.ird & WIRE_MPA2_A, !=, 0);
        /* The kind offered is among the ones it has. */
        g_assert_true((kind == 0 && (reply.ird & WIRE_MPA2_B)) ||
                      (kind == 1 && (reply.ord & WIRE_MPA2_C)) ||
                      (kind == 2 && (reply.ord & WIRE_MPA2_D)));
        rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
        wire_expect_silence(c->peer);
        switch (kind) {
        case 0:
            wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
            break;
        case 1:
            wire_put_write(c->peer, 1, 0, NULL, 0);
            break;
        default:
            wire_put_read_request(c->peer, &(WireRead) { .source_stag = 1 });
        }
        if (kind == 2) {
            WireSegment first;

            /* Response and Send, in the order the device likes. */
            wire_get_segment(c->peer, &first);
            g_free(first.payload);
            if (first.opcode == WIRE_READ_RESPONSE) {
                wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
            } else {
                wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
            }
        } else {
            wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
        }
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->recv_cq);
        wire_put_send(c->peer, WIRE_SEND, 0, "data", 4);
        rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
        connection_recycle(c);
    }
    connection_free(c);
}

/* A peer whose reply has no kind that was offered. */
static void test_rtr_no_match(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",mpa-rtr=on" });
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      4, 4, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.ird |= WIRE_MPA2_A;
    wire_mpa_put(c->peer, &c->reply);
    wire_expect_terminate(c->peer, 0x2007);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_MPA_NO_RTR);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    close(listener);
    connection_free(c);
}

/* --------------------------------------------------------- nobody is there */

static void test_refused(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;
    uint16_t port = wire_free_port(2);
    static const uint32_t outside[] = { 0xe0000001, 0xffffffff };
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 5, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_REFUSED);
    g_assert_cmpuint(le64_to_cpu(event.cookie), ==, 5);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);

    for (unsigned i = 0; i < G_N_ELEMENTS(outside); i++) {
        g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, outside[i], port,
                                          1, 1, 5, NULL, 0), ==,
                         RNIC_ST_INVALID_ADDRESS);
    }
    /* IPv6, which map=loopback does not have. */
    sqe.connect.qpn = cpu_to_le32(c->qp.number);
    sqe.connect.remote.ip[0] = 0x20;
    sqe.connect.remote.ip[15] = 1;
    sqe.connect.remote.port = cpu_to_be16(1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_ADDRESS);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    rnic_expect_no_cm(c->r);
    connection_establish(c, NULL);
    exchange(c, 1);
    connection_free(c);
}

static void test_address_in_use(void)
{
    Connection *c = connection_prepare(NULL);
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    uint16_t taken;
    int fd = wire_listen(1, &taken);

    /* Ours, and somebody else's on this host. */
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_ADDRESS_IN_USE);
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), taken, 1, NULL),
                     ==, RNIC_ST_ADDRESS_IN_USE);
    /* All addresses cannot be had with this map. */
    g_assert_cmpuint(rnic_try_listen(c->r, 0, port, 1, NULL), ==,
                     RNIC_ST_INVALID_ADDRESS);
    g_assert_cmpuint(rnic_try_listen(c->r, 0xe0000001, port, 1, NULL), ==,
                     RNIC_ST_INVALID_ADDRESS);
    g_assert_cmpuint(rnic_query_counters(c->r).listeners, ==, cpu_to_le32(1));
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN,
                                       listener), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN,
                                       listener), ==,
                     RNIC_ST_INVALID_ENDPOINT);
    /* Free again. */
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1,
                                     &listener), ==, RNIC_ST_OK);
    close(fd);
    connection_free(c);
}

/* ------------------------------------------------------------ garbage peers */

typedef struct BadReply {
    const char *octets;
    size_t length;
    uint8_t status;             /* 0: any but OK */
} BadReply;

#define BAD(octets, status) { octets, sizeof(octets) - 1, status }

static void test_bad_replies(void)
{
    static const BadReply bad[] = {
        BAD("HTTP/1.0 400 Bad Request\r\n\r\n", RNIC_CM_NOT_MPA),
        BAD("MPA ID Req Frame\x10\x02\0\x04\0\0\0\0", RNIC_CM_NOT_MPA),
        BAD("MPA ID Rep Framf\x10\x02\0\x04\0\0\0\0", RNIC_CM_NOT_MPA),
        BAD("MPA ID Rep Frame\x10\0\0\x04\0\0\0\0", RNIC_CM_MPA_REVISION),
        BAD("MPA ID Rep Frame\x10\x03\0\x04\0\0\0\0", RNIC_CM_MPA_REVISION),
        BAD("MPA ID Rep Frame\x10\xff\0\x04\0\0\0\0", RNIC_CM_MPA_REVISION),
        BAD("MPA ID Rep Frame\x10\x02\x02\x01", RNIC_CM_MPA_PRIVATE_DATA),
        BAD("MPA ID Rep Frame\x10\x02\xff\xff", RNIC_CM_MPA_PRIVATE_DATA),
        BAD("MPA ID Rep Frame\x10\x02\0\x03\0\0\0", RNIC_CM_MPA_PRIVATE_DATA),
        BAD("MPA ID Rep Frame\x10\x02\0\0", RNIC_CM_MPA_PRIVATE_DATA),
        BAD("MPA ID Rep Frame\0\x02\0\0", 0),
        BAD("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            RNIC_CM_NOT_MPA),
    };
    Connection *c = connection_prepare(NULL);
    uint16_t port;
    int listener = wire_listen(2, &port);

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct rnic_cm_event event;

        g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2),
                                          port, 1, 1, i, NULL, 0), ==,
                         RNIC_ST_OK);
        c->peer = wire_accept(c->r->qts, listener);
        wire_mpa_get(c->peer, &c->request);
        wire_try_put(c->peer, bad[i].octets, bad[i].length);
        event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
        g_assert_cmpuint(le64_to_cpu(event.cookie), ==, i);
        if (bad[i].status) {
            g_assert_cmpint(event.status, ==, bad[i].status);
        } else {
            g_assert_cmpint(event.status, !=, RNIC_CM_OK);
        }
        wire_expect_end(c->peer);
        wire_close(c->peer);
        c->peer = NULL;
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    }
    rnic_expect_no_async(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    close(listener);
    connection_establish(c, NULL);
    exchange(c, 1);
    connection_free(c);
}

static void test_bad_requests(void)
{
    static const BadReply bad[] = {
        BAD("GET / HTTP/1.0\r\nHost: somewhere\r\n\r\n", 0),
        BAD("MPA ID Rep Frame\x10\x02\0\x04\0\0\0\0", 0),
        BAD("MPA ID Req Framf\x10\x02\0\x04\0\0\0\0", 0),
        BAD("MPA ID Req Frame\x10\0\0\x04\0\0\0\0", 0),
        BAD("MPA ID Req Frame\x10\x04\0\x04\0\0\0\0", 0),
        BAD("MPA ID Req Frame\x10\x02\x02\x01", 0),
        BAD("MPA ID Req Frame\x10\x02\0\x01\0", 0),
        BAD("MPA ID Req Frame\x10\x02\xff\xff", 0),
        BAD("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
            "\xff\xff\xff\xff", 0),
    };
    Connection *c = connection_prepare(NULL);
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        WirePeer *peer = wire_connect(c->r->qts, 3, 1, port);

        wire_try_put(peer, bad[i].octets, bad[i].length);
        wire_expect_end(peer);
        wire_close(peer);
    }
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN,
                                       listener), ==, RNIC_ST_OK);
    connection_establish(c, &(ConnectionOptions) { .passive = true });
    exchange(c, 1);
    connection_free(c);
}

/* The peer closes after each octet of its reply. */
static void test_reply_cut(void)
{
    Connection *c = connection_prepare(NULL);
    uint16_t port;
    int listener = wire_listen(2, &port);
    size_t length = 1;

    for (size_t at = 0; at < length; at++) {
        for (int abrupt = 0; abrupt < 2; abrupt++) {
            uint8_t octets[64];
            struct rnic_cm_event event;

            g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2),
                                              port, 1, 1, at, NULL, 0), ==,
                             RNIC_ST_OK);
            c->peer = wire_accept(c->r->qts, listener);
            wire_mpa_get(c->peer, &c->request);
            c->reply = wire_mpa_reply(&c->request);
            c->reply.length = 3;
            length = wire_mpa_encode(&c->reply, octets);
            wire_put(c->peer, octets, at);
            if (abrupt) {
                wire_abort(c->peer);
            } else {
                wire_close(c->peer);
            }
            c->peer = NULL;
            event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
            g_assert_cmpint(event.status, ==, RNIC_CM_RESET);
            g_assert_cmpuint(le64_to_cpu(event.cookie), ==, at);
            g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
        }
    }
    rnic_expect_no_cm(c->r);
    rnic_expect_no_async(c->r);
    close(listener);
    connection_establish(c, NULL);
    exchange(c, 1);
    connection_free(c);
}

static void test_request_cut(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = wire_mpa_request();
    uint8_t octets[64];
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    struct rnic_cm_event event;
    size_t length;

    request.length = 3;
    length = wire_mpa_encode(&request, octets);
    for (size_t at = 0; at < length; at++) {
        for (int abrupt = 0; abrupt < 2; abrupt++) {
            WirePeer *peer = wire_connect(c->r->qts, 3, 1, port);

            wire_put(peer, octets, at);
            if (abrupt) {
                wire_abort(peer);
            } else {
                wire_close(peer);
            }
        }
    }
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
    rnic_expect_no_cm(c->r);

    /* Whole, and then gone: the guest hears of both. */
    event = await_request(c, 3, port, &request);
    wire_close(c->peer);
    c->peer = NULL;
    {
        struct rnic_cm_event gone = rnic_expect_cm(c->r,
                                                   RNIC_CM_REQUEST_GONE);

        g_assert_cmphex(gone.endpoint, ==, event.endpoint);
        g_assert_cmphex(gone.cookie, ==, event.cookie);
    }
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                     &c->qp, 1, 1, 1, NULL, 0), ==,
                     RNIC_ST_INVALID_ENDPOINT);
    g_assert_cmpuint(rnic_try_reject(c->r, le32_to_cpu(event.endpoint),
                                     NULL, 0), ==, RNIC_ST_INVALID_ENDPOINT);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    connection_free(c);
}

/*
 * The guest answers a request that is gone, but has not heard of that: the number is
 * not that of a later request, however many there have been.
 */
static void test_request_numbers(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = wire_mpa_request();
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    uint32_t first = 0;

    for (int k = 0; k < 200; k++) {
        uint32_t number = le32_to_cpu(await_request(c, 3, port,
                                                    &request).endpoint);

        if (!k) {
            first = number;
        } else {
            g_assert_cmphex(number, !=, first);
            g_assert_cmpuint(rnic_try_accept(c->r, first, &c->qp, 1, 1, 1,
                                             NULL, 0), ==,
                             RNIC_ST_INVALID_ENDPOINT);
            g_assert_cmpuint(rnic_try_reject(c->r, first, NULL, 0), ==,
                             RNIC_ST_INVALID_ENDPOINT);
        }
        wire_close(c->peer);
        c->peer = NULL;
        rnic_expect_cm(c->r, RNIC_CM_REQUEST_GONE);
    }
    connection_free(c);
}

/* After the first @at octets of a Send of 5; returns how many its FPDU has. */
static size_t close_within(Connection *c, size_t at, bool last)
{
    WireSegment segment = {
        .opcode = WIRE_SEND, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 5,
        .payload = (uint8_t *)"12345",
    };
    uint8_t ulpdu[64], octets[64];
    size_t length;

    connection_establish(c, NULL);
    connection_recv(c, at, 0, 8);
    length = wire_encode_fpdu(c->peer, ulpdu,
                              wire_encode_segment(&segment, ulpdu), octets);
    g_assert_cmpuint(at, <=, length);
    wire_put(c->peer, octets, at);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_expect_cqe(c->r, &c->recv_cq, at, RNIC_WC_FLUSHED);
    rnic_expect_async(c->r, RNIC_AE_BAD_LLP_CLOSE, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_recycle(c);
    return length;
}

/*
 * The peer closes after each octet of an FPDU, and between two FPDUs of a message: half
 * a message is an error.
 */
static void test_fpdu_cut(void)
{
    Connection *c = connection_prepare(NULL);
    size_t length = 2;

    for (size_t at = 1; at < length; at++) {
        length = close_within(c, at, true);
    }
    close_within(c, length, false);
    connection_establish(c, NULL);
    exchange(c, 1);
    connection_free(c);
}

/* --------------------------------------------------------------- time-outs */

static void test_silent_responder(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    rnic_pass_time(c->r, 65);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_TIMED_OUT);
    wire_expect_end(c->peer);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    close(listener);
    connection_free(c);
}

static void test_silent_initiator(void)
{
    Connection *c = connection_prepare(NULL);
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    struct rnic_cm_event event;
    WireMpa request = wire_mpa_request();

    c->peer = wire_connect(c->r->qts, 3, 1, port);
    wire_put(c->peer, "MPA ID", 6);
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints != 0);
    rnic_pass_time(c->r, 11);
    wire_expect_end(c->peer);
    wire_close(c->peer);
    rnic_expect_no_cm(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    /* The guest itself may take its time. */
    event = await_request(c, 3, port, &request);
    rnic_pass_time(c->r, 120);
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                     &c->qp, 4, 4, 1, NULL, 0), ==,
                     RNIC_ST_OK);
    wire_mpa_get(c->peer, &c->reply);
    rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    exchange(c, 1);
    connection_free(c);
}

/* ----------------------------------------------- QPs and listeners that go */

static void test_qp_busy(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_cm_event event;
    uint8_t octets[64];
    uint16_t port;
    int listener = wire_listen(2, &port);

    /* Connecting already. */
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 5, NULL, 0), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 6, NULL, 0), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    /* Taken to Error meanwhile. */
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_QP_STATE);
    g_assert_cmpuint(le64_to_cpu(event.cookie), ==, 5);
    wire_expect_end(c->peer);
    wire_close(c->peer);
    /* In Error. */
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 7, NULL, 0), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    c->peer = NULL;
    connection_recycle(c);
    /* Destroyed meanwhile: no event. */
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port,
                                      1, 1, 8, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    RNIC_UNTIL(c->r, wire_end(c->peer) != WIRE_DATA ||
                     recv(c->peer->fd, octets, sizeof(octets), 0) < 0);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    close(listener);
    connection_free(c);
}

static void test_unlisten(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = wire_mpa_request();
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    struct rnic_cm_event event = await_request(c, 3, port, &request);
    WirePeer *silent = wire_connect(c->r->qts, 4, 1, port), *third;
    uint32_t rejected;

    third = wire_connect(c->r->qts, 5, 1, port);
    wire_mpa_put(third, &request);
    rejected = le32_to_cpu(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST)
                           .endpoint);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN,
                                       listener), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN,
                                       listener), ==,
                     RNIC_ST_INVALID_ENDPOINT);
    /* Nobody knows of this one. */
    wire_expect_end(silent);
    wire_close(silent);
    /* Those the guest was told of can still be answered. */
    g_assert_cmpuint(rnic_try_reject(c->r, rejected, NULL, 0), ==,
                     RNIC_ST_OK);
    wire_mpa_get(third, &c->reply);
    g_assert_true(c->reply.reject);
    wire_close(third);
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint),
                                     &c->qp, 1, 1, CONNECTION_COOKIE, NULL,
                                     0), ==, RNIC_ST_OK);
    wire_mpa_get(c->peer, &c->reply);
    rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    exchange(c, 1);
    rnic_expect_no_cm(c->r);
    connection_free(c);
}

/* Bad accepts leave the request answerable. */
static void test_accept_refused(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",max-ird=8,max-ord=8" });
    WireMpa request = wire_mpa_request();
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    struct rnic_cm_event event = await_request(c, 3, port, &request);
    uint32_t endpoint = le32_to_cpu(event.endpoint);
    uint8_t data[512] = { };
    RnicQp none = { .number = 0x654321 };

    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &none, 1, 1, 1, NULL, 0),
                     ==, RNIC_ST_INVALID_QP);
    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &c->qp, 9, 1, 1, NULL,
                                     0), ==, RNIC_ST_IRD_EXCEEDED);
    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &c->qp, 1, 9, 1, NULL,
                                     0), ==, RNIC_ST_ORD_EXCEEDED);
    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &c->qp, 1, 1, 1, data,
                                     509), ==, RNIC_ST_BAD_PRIVATE_DATA);
    g_assert_cmpuint(rnic_try_reject(c->r, endpoint, data, 509), ==,
                     RNIC_ST_BAD_PRIVATE_DATA);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &c->qp, 1, 1, 1, NULL,
                                     0), ==, RNIC_ST_INVALID_STATE_CHANGE);
    RNIC_UNTIL(c->r, rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_IDLE) ==
                     RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_accept(c->r, endpoint, &c->qp, 1, 1, 1, data,
                                     508), ==, RNIC_ST_OK);
    wire_mpa_get(c->peer, &c->reply);
    g_assert_cmpuint(c->reply.length, ==, 508);
    rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    exchange(c, 1);
    connection_free(c);
}

/* --------------------------------------------------------------- many, self */

/* Out of RTS by way of Closing: ended, or reset; to Idle, with no stream. */
static void leave_closing(Connection *c, bool reset)
{
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_CLOSING);
    if (reset) {
        wire_abort(c->peer);
    } else {
        wire_close(c->peer);
    }
    c->peer = NULL;
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    if (!reset) {
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
        connection_drain_events(c);
        return;
    }
    connection_recycle(c);
}

/* Many streams on one QP, one after another; every count starts anew. */
static void check_reconnect(const char *properties)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = properties });

    for (int i = 0; i < 20; i++) {
        ConnectionOptions options = {
            .passive = i & 1, .markers_in = i & 2 };
        WireRead read;

        connection_establish(c, &options);
        exchange(c, 1);
        exchange(c, 2);
        connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 0);
        wire_get_read_request(c->peer, 1, &read);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL,
                               0);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        /* The peer's Read Requests are counted anew, too. */
        for (int n = 0; n < 2; n++) {
            uint8_t got[8];

            wire_put_read_request(c->peer, &(WireRead) {
                .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
            wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
        }
        if (i % 3 < 2) {
            leave_closing(c, i % 3);
        } else {
            connection_recycle(c);
        }
    }
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    connection_free(c);
}

static void test_reconnect(void)
{
    check_reconnect("");
    check_reconnect(",mpa-markers=on");
    rnic_shows("V6.2.1.2-2 V6.2.5-12 V6.6.1-1");
}

/* A burst of requests, accepted backwards. */
static void test_burst(void)
{
    enum { COUNT = 20 };
    Connection *c = connection_prepare(NULL);
    uint32_t listener;
    uint16_t port = start_listening(c, &listener);
    WirePeer *peers[COUNT];
    RnicQp qps[COUNT];
    uint32_t endpoints[COUNT];
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    WireMpa request = wire_mpa_request(), reply;

    request.length = 1;
    for (int i = 0; i < COUNT; i++) {
        peers[i] = wire_connect(c->r->qts, 10 + i, 1, port);
        request.data[0] = i;
        wire_mpa_put(peers[i], &request);
    }
    for (int i = 0; i < COUNT; i++) {
        struct rnic_cm_event event = rnic_expect_cm(c->r,
                                                    RNIC_CM_CONNECT_REQUEST);
        uint8_t who = event.private_data[0];

        g_assert_cmpuint(who, <, COUNT);
        endpoints[who] = le32_to_cpu(event.endpoint);
        assert_address(&event.remote, 10 + who, 0);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        rnic_create_qp(c->r, &qps[i], &init);
        g_assert_cmpuint(rnic_try_accept(c->r, endpoints[i], &qps[i], 1, 1, i,
                                         NULL, 0), ==, RNIC_ST_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        wire_mpa_get(peers[i], &reply);
        g_assert_false(reply.reject);
        rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    }
    for (int i = 0; i < COUNT; i++) {
        wire_close(peers[i]);
    }
    connection_free(c);
}

/* The device connects to itself. */
static void test_self(void)
{
    Connection *a = connection_prepare(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    uint32_t listener;
    uint16_t port = start_listening(a, &listener);
    struct rnic_cm_event event;
    uint8_t data[5000], got[5000];
    RnicWr wr;

    rnic_pattern(data, sizeof(data), 77);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(1), port,
                                      2, 2, 1, "me", 2), ==, RNIC_ST_OK);
    event = rnic_expect_cm(a->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpmem(event.private_data, 2, "me", 2);
    g_assert_cmpuint(rnic_try_accept(a->r, le32_to_cpu(event.endpoint),
                                     &b->qp, 2, 2, 2, NULL, 0), ==,
                     RNIC_ST_OK);
    for (int i = 0; i < 2; i++) {
        rnic_eq_wait(a->r, &a->r->cm_eq, &event);
        g_assert_cmpint(event.status, ==, RNIC_CM_OK);
        g_assert_cmpint(event.type, ==, le64_to_cpu(event.cookie) == 1
                        ? RNIC_CM_CONNECT_REPLY : RNIC_CM_ESTABLISHED);
    }
    connection_fill(a, 0, data, sizeof(data));
    connection_recv(b, 10, 100, sizeof(data));
    connection_post(a, RNIC_SQ_SEND, 11, 0, sizeof(data));
    rnic_expect_cqe(a->r, &a->send_cq, 11, RNIC_WC_SUCCESS);
    rnic_expect_cqe(b->r, &b->recv_cq, 10, RNIC_WC_SUCCESS);
    connection_peek(b, 100, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    /* b writes to a and reads it back. */
    wr = connection_wr(b, RNIC_SQ_RDMA_WRITE, 12, 100, 5000);
    wr.remote_stag = a->mr.stag;
    wr.remote_to = a->mr.va + 20000;
    rnic_post_send(b->r, &b->qp, &wr);
    wr = connection_wr(b, RNIC_SQ_RDMA_READ, 13, 50000, 5000);
    wr.remote_stag = a->mr.stag;
    wr.remote_to = a->mr.va + 20000;
    rnic_post_send(b->r, &b->qp, &wr);
    rnic_expect_cqe(b->r, &b->send_cq, 12, RNIC_WC_SUCCESS);
    rnic_expect_cqe(b->r, &b->send_cq, 13, RNIC_WC_SUCCESS);
    connection_peek(b, 50000, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    connection_free_second(b);
    connection_free(a);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/cm/connect", test_connect);
    qtest_add_func("rnic/cm/depths-agree", test_depths_agree);
    qtest_add_func("rnic/cm/connect-revision-1", test_connect_revision_1);
    qtest_add_func("rnic/cm/reply-in-pieces", test_reply_in_pieces);
    qtest_add_func("rnic/cm/accept", test_accept);
    qtest_add_func("rnic/cm/accept-revision-1", test_accept_revision_1);
    qtest_add_func("rnic/cm/responder-waits", test_responder_waits);
    qtest_add_func("rnic/cm/responder-resets", test_responder_resets);
    qtest_add_func("rnic/cm/initiator-starts", test_initiator_starts);
    qtest_add_func("rnic/cm/reject", test_reject);
    qtest_add_func("rnic/cm/rejected", test_rejected);
    qtest_add_func("rnic/cm/read-resources", test_read_resources);
    qtest_add_func("rnic/cm/insufficient-ird", test_insufficient_ird);
    qtest_add_func("rnic/cm/crc", test_crc);
    qtest_add_func("rnic/cm/markers", test_markers);
    qtest_add_func("rnic/cm/rtr-initiator", test_rtr_initiator);
    qtest_add_func("rnic/cm/rtr-read-then-reads", test_rtr_read_then_reads);
    qtest_add_func("rnic/cm/rtr-responder", test_rtr_responder);
    qtest_add_func("rnic/cm/rtr-no-match", test_rtr_no_match);
    qtest_add_func("rnic/cm/refused", test_refused);
    qtest_add_func("rnic/cm/address-in-use", test_address_in_use);
    qtest_add_func("rnic/cm/bad-replies", test_bad_replies);
    qtest_add_func("rnic/cm/bad-requests", test_bad_requests);
    qtest_add_func("rnic/cm/reply-cut", test_reply_cut);
    qtest_add_func("rnic/cm/request-cut", test_request_cut);
    qtest_add_func("rnic/cm/request-numbers", test_request_numbers);
    qtest_add_func("rnic/cm/fpdu-cut", test_fpdu_cut);
    qtest_add_func("rnic/cm/silent-responder", test_silent_responder);
    qtest_add_func("rnic/cm/silent-initiator", test_silent_initiator);
    qtest_add_func("rnic/cm/qp-busy", test_qp_busy);
    qtest_add_func("rnic/cm/unlisten", test_unlisten);
    qtest_add_func("rnic/cm/accept-refused", test_accept_refused);
    qtest_add_func("rnic/cm/reconnect", test_reconnect);
    qtest_add_func("rnic/cm/burst", test_burst);
    qtest_add_func("rnic/cm/self", test_self);
    return g_test_run();
}
