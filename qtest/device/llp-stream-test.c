/*
 * rnic: LLP streaming mode (6.6), and the QP that adopts the stream
 *
 * The peer talks octets of its own with the guest first; then a Modify QP from Idle to
 * RTS takes the stream, with a Stream Message or without, and the next octets in either
 * direction are FPDUs. There is no MPA start-up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/llp.h"

#define COOKIE 0x11223344aabbccddULL
#define QUESTION "Are you OK with going to iWARP?"
#define ANSWER "Yes, I'm in iWARP now"

static void close_peer(Connection *c)
{
    if (c->peer) {
        wire_close(g_steal_pointer(&c->peer));
    }
}

/* Octets both ways, whoever began. */
static void chat(Rnic *r, uint32_t stream, WirePeer *peer)
{
    char got[sizeof(QUESTION)];

    llp_send(r, stream, QUESTION, sizeof(QUESTION));
    wire_get(peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), QUESTION, sizeof(QUESTION));
    wire_put(peer, "How? ", 5);
    wire_put(peer, "So", 2);
    llp_expect(r, stream, "How? So", 7);
    llp_drain_events(r);
}

static uint32_t begin(Connection *c, bool passive)
{
    return passive ? llp_accept(c->r, COOKIE, &c->peer)
                   : llp_connect(c->r, COOKIE, &c->peer);
}

static void adopt(Connection *c, uint32_t stream, const char *message)
{
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, message,
                                   message ? strlen(message) : 0), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
}

/* The peer gets all of a Stream Message, the longest one. */
static void adopt_with_longest(Connection *c, uint32_t stream)
{
    uint8_t data[RNIC_LLP_MAX_OCTETS], got[RNIC_LLP_MAX_OCTETS];

    rnic_pattern(data, sizeof(data), 5);
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, data, sizeof(data)),
                     ==, RNIC_ST_OK);
    wire_get(c->peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
}

/* A Send each way; the device's has @msn. */
static void exchange(Connection *c, uint32_t msn)
{
    uint8_t got[8];

    connection_recv(c, 100 + msn, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "from you", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 100 + msn, RNIC_WC_SUCCESS);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "from you", 8);
    connection_fill(c, 64, "from me!", 8);
    connection_post(c, RNIC_SQ_SEND, 200 + msn, 64, 8);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, msn, got, 8), ==, 8);
    g_assert_cmpmem(got, 8, "from me!", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 200 + msn, RNIC_WC_SUCCESS);
}

/* UNIX sockets have no reset. */
static void expect_reset(WirePeer *peer)
{
    g_assert_cmpint(wire_end(peer), ==,
                    wire_directory() ? WIRE_FIN : WIRE_RST);
}

static uint32_t streams(Rnic *r)
{
    return le32_to_cpu(rnic_query_counters(r).llp_streams);
}

/* --------------------------------------------------------- streaming mode */

static void test_octets(void)
{
    Rnic *r = rnic_boot_up("");
    uint8_t data[RNIC_LLP_MAX_OCTETS], got[RNIC_LLP_MAX_OCTETS];

    rnic_pattern(data, sizeof(data), 3);
    for (int passive = 0; passive < 2; passive++) {
        struct rnic_counters before = rnic_query_counters(r), after;
        WirePeer *peer;
        uint32_t stream = passive ? llp_accept(r, COOKIE, &peer)
                                  : llp_connect(r, COOKIE, &peer);
        uint32_t n;
        bool end;

        after = rnic_query_counters(r);
        g_assert_cmpuint(le32_to_cpu(after.llp_streams), ==, 1);
        g_assert_cmpuint(after.endpoints, ==, 0);
        g_assert_cmpuint(le64_to_cpu(after.connects) -
                         le64_to_cpu(before.connects), ==, !passive);
        g_assert_cmpuint(le64_to_cpu(after.accepts) -
                         le64_to_cpu(before.accepts), ==, passive);
        rnic_expect_no_cm(r);
        chat(r, stream, peer);
        for (uint32_t size = 1; size <= sizeof(data); size = 2 * size) {
            llp_send(r, stream, data, size);
            wire_get(peer, got, size);
            g_assert_cmpmem(got, size, data, size);
            wire_put(peer, data, size);
            llp_expect(r, stream, data, size);
        }
        /* Nothing: not an error, and not the end. */
        llp_drain_events(r);
        g_assert_cmpuint(llp_try_receive(r, stream, got, 8, &n, &end), ==,
                         RNIC_ST_OK);
        g_assert_cmpuint(n, ==, 0);
        g_assert_false(end);
        /* One event, whatever comes, until the guest has asked again. */
        wire_put(peer, "a", 1);
        llp_expect_event(r, RNIC_CM_STREAM_READABLE, stream);
        wire_put(peer, "b", 1);
        rnic_settle(r);
        rnic_expect_no_cm(r);
        llp_expect(r, stream, "ab", 2);
        /* The peer's end is told behind its octets; this side's is open. */
        wire_put(peer, "bye", 3);
        wire_shutdown(peer);
        llp_expect(r, stream, "bye", 3);
        RNIC_UNTIL(r, llp_try_receive(r, stream, got, 8, &n, &end) ==
                      RNIC_ST_OK && end);
        g_assert_cmpuint(n, ==, 0);
        llp_send(r, stream, "bye bye", 7);
        wire_get(peer, got, 7);
        g_assert_cmpmem(got, 7, "bye bye", 7);
        g_assert_cmpuint(llp_try_close(r, stream, false), ==, RNIC_ST_OK);
        g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
        wire_close(peer);
        g_assert_cmpuint(streams(r), ==, 0);
        llp_drain_events(r);
    }
    rnic_quit(r);
}

/* What is sent before a close in order arrives; a reset is a reset. */
static void test_close(void)
{
    Rnic *r = rnic_boot_up("");
    uint8_t data[RNIC_LLP_MAX_OCTETS], got[RNIC_LLP_MAX_OCTETS];
    WirePeer *peer;
    uint32_t stream = llp_connect(r, COOKIE, &peer);

    rnic_pattern(data, sizeof(data), 4);
    llp_send(r, stream, data, sizeof(data));
    wire_put(peer, "unread", 6);
    llp_expect_event(r, RNIC_CM_STREAM_READABLE, stream);
    g_assert_cmpuint(llp_try_close(r, stream, false), ==, RNIC_ST_OK);
    wire_get(peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
    wire_close(peer);
    stream = llp_connect(r, COOKIE, &peer);
    g_assert_cmpuint(llp_try_close(r, stream, true), ==, RNIC_ST_OK);
    expect_reset(peer);
    wire_close(peer);
    rnic_quit(r);
}

/* An attempt that fails is told once, and its number names nothing any more. */
static void test_open_fails(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_cm_event event;
    uint32_t stream;
    uint16_t port;
    int listener;

    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), wire_free_port(2),
                                  COOKIE, &stream), ==, RNIC_ST_OK);
    event = llp_expect_event(r, RNIC_CM_STREAM_OPENED, stream);
    g_assert_cmpint(event.status, ==, RNIC_CM_REFUSED);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, COOKIE);
    g_assert_cmpuint(llp_try_close(r, stream, false), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    g_assert_cmpuint(le64_to_cpu(rnic_query_counters(r).connect_failures), ==,
                     1);
    /* Given up by the guest: no event. */
    listener = wire_listen(2, &port);
    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), port, COOKIE, &stream),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_close(r, stream, true), ==, RNIC_ST_OK);
    rnic_settle(r);
    llp_drain_events(r);
    g_assert_cmpuint(streams(r), ==, 0);
    close(listener);
    rnic_quit(r);
}

/* ---------------------------------------------------------------- adoption */

/*
 * The sequence of 6.6.1.1: the last octets of streaming mode are the message; then
 * the peer's first FPDU, which lands in what was posted; only then ours.
 */
static void test_goes_first(void)
{
    Connection *c = connection_prepare(NULL);

    for (int passive = 0; passive < 2; passive++) {
        uint32_t stream = begin(c, passive);
        char got[sizeof(ANSWER) - 1];
        struct rnic_qp_attr attr;
        uint8_t state;

        chat(c->r, stream, c->peer);
        connection_recv(c, 1, 0, 16);
        connection_fill(c, 64, "early", 5);
        connection_post(c, RNIC_SQ_SEND, 2, 64, 5);
        adopt(c, stream, ANSWER);
        wire_get(c->peer, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), ANSWER, sizeof(got));
        wire_expect_silence(c->peer);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_cmphex(le32_to_cpu(attr.llp_stream), ==, stream);
        g_assert_cmpuint(attr.mpa_revision, ==, 0);
        g_assert_cmphex(attr.mpa_flags, ==, 0);
        wire_put_send(c->peer, WIRE_SEND, 0, "I have followed", 15);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
        wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
        g_assert_cmpmem(got, 5, "early", 5);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        exchange(c, 2);
        /* The handle is the QP's until the stream has ended. */
        state = passive ? RNIC_QPS_TERMINATE : RNIC_QPS_CLOSING;
        g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                         RNIC_ST_OK);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_cmpint(attr.state, ==, state);
        g_assert_cmphex(le32_to_cpu(attr.llp_stream), ==, stream);
        connection_recycle(c);
        g_assert_cmpuint(streams(c->r), ==, 0);
    }
    connection_free(c);
    rnic_shows("V6.6.1-1 V6.2.1.2-3 V6.2.1.2-4 V6.6.1.1-1 V6.6.1.1-2 "
               "V9.2.5.2-7");
}

/*
 * The peer has not followed when it closes, or this end gives up: no Terminate, which the
 * peer would take for octets of streaming mode.
 */
static void test_not_followed(void)
{
    Connection *c = connection_prepare(NULL);

    for (int modify = 0; modify < 2; modify++) {
        uint32_t stream = begin(c, false);
        char got[sizeof(ANSWER) - 1];

        adopt(c, stream, ANSWER);
        wire_get(c->peer, got, sizeof(got));
        connection_post(c, RNIC_SQ_SEND, 2, 64, 5);
        rnic_settle(c->r);
        if (modify) {
            g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                                  RNIC_QPS_TERMINATE), ==,
                             RNIC_ST_OK);
        } else {
            wire_shutdown(c->peer);
        }
        expect_reset(c->peer);
        rnic_expect_async(c->r, modify ? RNIC_AE_BAD_CLOSE
                                       : RNIC_AE_BAD_LLP_CLOSE, c->qp.number);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
        connection_recycle(c);
    }
    connection_free(c);
}

/* That of 6.6.1.2: the peer's message, no message of ours, and a Send that waited. */
static void test_goes_second(void)
{
    Connection *c = connection_prepare(NULL);

    for (int passive = 0; passive < 2; passive++) {
        uint32_t stream = begin(c, passive);
        char got[16];

        chat(c->r, stream, c->peer);
        wire_put(c->peer, ANSWER, strlen(ANSWER));
        llp_expect(c->r, stream, ANSWER, strlen(ANSWER));
        connection_fill(c, 64, "early", 5);
        connection_post(c, RNIC_SQ_SEND, 2, 64, 5);
        wire_expect_silence(c->peer);
        adopt(c, stream, NULL);
        wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
        g_assert_cmpmem(got, 5, "early", 5);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        exchange(c, 2);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.6.1-1 V6.6.1.2-1 V13.1-3");
}

/* iWARP from the first octet on (13.1): this side first, the peer first, both. */
static void test_at_once(void)
{
    enum { DEVICE = 1, PEER = 2 };
    Connection *c = connection_prepare(NULL);

    for (int passive = 0; passive < 2; passive++) {
        for (int first = DEVICE; first <= (DEVICE | PEER); first++) {
            uint32_t stream = begin(c, passive);
            char got[8];

            connection_recv(c, 1, 0, 8);
            if (first & PEER) {
                wire_put_send(c->peer, WIRE_SEND, 0, "in haste", 8);
                rnic_settle_fast(c->r);
            }
            if (first & DEVICE) {
                connection_fill(c, 64, "me first", 8);
                connection_post(c, RNIC_SQ_SEND, 2, 64, 8);
            }
            llp_drain_events(c->r);
            adopt(c, stream, NULL);
            if (first & DEVICE) {
                wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
                g_assert_cmpmem(got, 8, "me first", 8);
                rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
            }
            if (!(first & PEER)) {
                wire_put_send(c->peer, WIRE_SEND, 0, "in haste", 8);
            }
            rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
            connection_peek(c, 0, got, 8);
            g_assert_cmpmem(got, 8, "in haste", 8);
            exchange(c, first & DEVICE ? 2 : 1);
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("V6.6.1-2 V13.1-1 V13.1-2 V13.1-5");
}

/* The peer's last octets of streaming mode and its first FPDU in one segment. */
static void test_no_gap(void)
{
    Connection *c = connection_prepare(NULL);
    WireSegment send = {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 4,
        .payload = (uint8_t *)"fast",
    };

    for (int message = 0; message < 2; message++) {
        uint32_t stream = begin(c, false);
        uint8_t octets[64] = "last", ulpdu[64], got[8];
        size_t length = 4;

        length += wire_encode_fpdu(c->peer, ulpdu,
                                   wire_encode_segment(&send, ulpdu),
                                   octets + length);
        wire_put(c->peer, octets, length);
        llp_expect(c->r, stream, "last", 4);
        llp_drain_events(c->r);
        connection_recv(c, 1, 0, 8);
        adopt(c, stream, message ? ANSWER : NULL);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, 4);
        g_assert_cmpmem(got, 4, "fast", 4);
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.1.2-5 V13.1-2");
}

/* ------------------------------------------------ the order of 6.2.1.2 */

/* Send until no more is taken, also not a while later; returns what was. */
static GByteArray *fill_up(Rnic *r, uint32_t stream)
{
    GByteArray *sent = g_byte_array_new();
    uint8_t data[RNIC_LLP_MAX_OCTETS];
    bool full = false;

    for (unsigned i = 0;;) {
        uint16_t status;

        rnic_pattern(data, sizeof(data), i);
        status = llp_try_send(r, stream, data, sizeof(data));
        if (status == RNIC_ST_OK) {
            g_byte_array_append(sent, data, sizeof(data));
            i++;
            full = false;
            continue;
        }
        g_assert_cmpuint(status, ==, RNIC_ST_STREAM_FULL);
        if (full) {
            break;
        }
        full = true;
        rnic_settle(r);
    }
    llp_drain_events(r);
    return sent;
}

static void expect_octets(WirePeer *peer, const GByteArray *sent)
{
    g_autofree uint8_t *got = g_malloc(sent->len);

    wire_get(peer, got, sent->len);
    g_assert_true(!memcmp(got, sent->data, sent->len));
}

/*
 * The message cannot leave, as the peer does not read; nor is the peer's FPDU read
 * then, which has come already. When the message has left, it is.
 */
static void test_order(void)
{
    Connection *c = connection_prepare(NULL);
    uint32_t stream = llp_connect_narrow(c->r, COOKIE, &c->peer);
    GByteArray *sent = fill_up(c->r, stream);
    char got[sizeof(ANSWER) - 1];

    connection_recv(c, 1, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "in haste", 8);
    adopt(c, stream, ANSWER);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    expect_octets(c->peer, sent);
    wire_get(c->peer, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), ANSWER, sizeof(got));
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    llp_drain_events(c->r);
    exchange(c, 1);
    g_byte_array_unref(sent);
    connection_free(c);
    rnic_shows("V6.2.1.2-3 V6.2.1.2-6 V9.2.5.3-5");
}

/* What LLP_SEND has taken goes before the first FPDU, without a message as well. */
static void test_behind_octets(void)
{
    Connection *c = connection_prepare(NULL);
    uint32_t stream = llp_connect_narrow(c->r, COOKIE, &c->peer);
    GByteArray *sent = fill_up(c->r, stream);
    char got[8];

    adopt(c, stream, NULL);
    connection_fill(c, 64, "me first", 8);
    connection_post(c, RNIC_SQ_SEND, 2, 64, 8);
    rnic_settle(c->r);
    expect_octets(c->peer, sent);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "me first", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    llp_drain_events(c->r);
    exchange(c, 2);
    g_byte_array_unref(sent);
    connection_free(c);
}

/* ------------------------------------------------------- nothing but iWARP */

/* From the message on every octet is an FPDU's, up to FIN; and no command adds one. */
static void test_only_iwarp(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .sq_depth = 256 });
    uint32_t stream = begin(c, false), n;
    char got[4096];
    struct rnic_cm_event event;
    bool end;

    chat(c->r, stream, c->peer);
    adopt(c, stream, ANSWER);
    wire_get(c->peer, got, strlen(ANSWER));
    exchange(c, 1);
    for (uint32_t i = 2; i < 40; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, i * 100);
    }
    g_assert_cmpuint(llp_try_send(c->r, stream, "not iWARP", 9), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    g_assert_cmpuint(llp_try_receive(c->r, stream, got, 8, &n, &end), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    g_assert_cmpuint(llp_try_close(c->r, stream, true), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, ANSWER, 3), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    for (uint32_t i = 2; i < 40; i++) {
        g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, i, got,
                                       sizeof(got)), ==, i * 100);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    close_peer(c);
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, COOKIE);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    rnic_expect_no_cm(c->r);
    g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
    connection_free(c);
    rnic_shows("V6.6.1-3");
}

/* CRC and markers are the properties', both ways. */
static void test_crc_and_markers(void)
{
    for (int markers = 0; markers < 2; markers++) {
        Connection *c = connection_prepare(&(ConnectionOptions) {
            .properties = markers ? ",mpa-crc=on,mpa-markers=on"
                                  : ",mpa-crc=on" });
        uint32_t stream = begin(c, false);
        uint8_t data[4000], got[4000];

        chat(c->r, stream, c->peer);
        adopt(c, stream, ANSWER);
        wire_get(c->peer, got, strlen(ANSWER));
        g_assert_cmphex(rnic_query_qp(c->r, &c->qp).mpa_flags, ==,
                        RNIC_MPA_CRC | (markers ? RNIC_MPA_MARKERS_SENT |
                                        RNIC_MPA_MARKERS_RECEIVED : 0));
        c->peer->crc = true;
        c->peer->markers_in = c->peer->markers_out = markers;
        exchange(c, 1);
        rnic_pattern(data, sizeof(data), 8);
        connection_recv(c, 5, 0, sizeof(data));
        wire_put_send(c->peer, WIRE_SEND, 0, data, sizeof(data));
        rnic_expect_cqe(c->r, &c->recv_cq, 5, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        connection_post(c, RNIC_SQ_SEND, 6, 0, sizeof(data));
        wire_get_send(c->peer, WIRE_SEND, 2, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        connection_free(c);
    }
}

/* Two QPs of the device, each with an end of one stream. */
static void test_with_itself(void)
{
    Connection *a = connection_prepare(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    Rnic *r = a->r;
    uint16_t port = wire_free_port(1);
    uint32_t listener, active, passive;
    struct rnic_cm_event event;
    struct rnic_cqe cqe;
    char got[8];

    g_assert_cmpuint(llp_try_listen(r, port, 7, 8, &listener), ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(1), port, 8, &active), ==,
                     RNIC_ST_OK);
    passive = 0;
    for (int i = 0; i < 2; i++) {
        rnic_eq_wait(r, &r->cm_eq, &event);
        if (event.type == RNIC_CM_STREAM_REQUEST) {
            passive = le32_to_cpu(event.endpoint);
        } else {
            g_assert_cmpint(event.type, ==, RNIC_CM_STREAM_OPENED);
        }
    }
    g_assert_cmpuint(llp_try_take(r, passive, 9), ==, RNIC_ST_OK);
    llp_send(r, active, QUESTION, sizeof(QUESTION));
    llp_expect(r, passive, QUESTION, sizeof(QUESTION));
    connection_recv(b, 1, 0, 8);
    g_assert_cmpuint(llp_try_adopt(r, &b->qp, passive, ANSWER,
                                   strlen(ANSWER)), ==, RNIC_ST_OK);
    llp_expect(r, active, ANSWER, strlen(ANSWER));
    g_assert_cmpuint(llp_try_adopt(r, &a->qp, active, NULL, 0), ==,
                     RNIC_ST_OK);
    connection_fill(a, 0, "followed", 8);
    connection_post(a, RNIC_SQ_SEND, 2, 0, 8);
    rnic_cq_wait(r, &b->recv_cq, &cqe);
    g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
    connection_peek(b, 0, got, 8);
    g_assert_cmpmem(got, 8, "followed", 8);
    connection_recv(a, 3, 16, 8);
    connection_post(b, RNIC_SQ_SEND, 4, 0, 8);
    rnic_expect_cqe(r, &a->recv_cq, 3, RNIC_WC_SUCCESS);
    connection_free_second(b);
    connection_free(a);
}

/* --------------------------------------------------- attributes on the way */

/* Read Requests that arrive before one is answered. */
static unsigned reads_at_a_time(Connection *c, unsigned posted)
{
    WireRead read[16];
    unsigned n = 0;

    for (unsigned i = 0; i < posted; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, 300 + i, 8 * i, 8);
    }
    while (n < posted && wire_end(c->peer) == WIRE_DATA) {
        wire_get_read_request(c->peer, n + 1, &read[n]);
        n++;
        if (n == le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord)) {
            wire_expect_silence(c->peer);
            break;
        }
    }
    for (unsigned i = 0; i < posted; i++) {
        if (i >= n) {
            wire_get_read_request(c->peer, i + 1, &read[i]);
        }
        wire_put_read_response(c->peer, read[i].sink_stag, read[i].sink_to,
                               "12345678", 8);
        rnic_expect_cqe(c->r, &c->send_cq, 300 + i, RNIC_WC_SUCCESS);
    }
    return n;
}

static struct rnic_admin_sqe modify(Connection *c, uint32_t mask)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(mask);
    return sqe;
}

/* ORD in each of the three transitions: granted, queried, and on the wire. */
static void test_ord(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) { .ord = 8 });
    struct rnic_admin_sqe sqe = modify(c, RNIC_QP_MODIFY_ORD);
    struct rnic_admin_cqe cqe;
    uint32_t stream;
    char got[32];

    sqe.modify_qp.ord = cpu_to_le16(5);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 5);
    stream = begin(c, false);
    adopt(c, stream, NULL);
    g_assert_cmpuint(reads_at_a_time(c, 8), ==, 5);
    connection_recycle(c);

    stream = begin(c, false);
    sqe = llp_adopt_command(c->r, &c->qp, stream, ANSWER, strlen(ANSWER));
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(3);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 3);
    g_assert_cmpint(cqe.qp.state, ==, RNIC_QPS_RTS);
    wire_get(c->peer, got, strlen(ANSWER));
    g_assert_cmpmem(got, strlen(ANSWER), ANSWER, strlen(ANSWER));
    connection_recv(c, 1, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "from you", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpuint(reads_at_a_time(c, 8), ==, 3);
    connection_recycle(c);

    stream = begin(c, false);
    adopt(c, stream, NULL);
    sqe = modify(c, RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(2);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 2);
    g_assert_cmpuint(reads_at_a_time(c, 8), ==, 2);
    connection_free(c);
    rnic_shows("V6.1.3-2 V6.5-7");
}

/* New memory for rings of these depths, with nothing posted. */
static void ask_depths(Connection *c, struct rnic_admin_sqe *sqe, uint32_t sq,
                       uint32_t rq)
{
    uint32_t sq_octets = sq * RNIC_SQ_UNIT;
    uint64_t size = RNIC_QUEUE_RECORD_SIZE + sq_octets +
                    ((uint64_t)rq << c->qp.rq_shift);
    uint64_t memory = rnic_alloc(c->r, size);

    sqe->modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH |
                                       RNIC_QP_MODIFY_RQ_DEPTH);
    sqe->modify_qp.sq_depth = cpu_to_le32(sq);
    sqe->modify_qp.rq_depth = cpu_to_le32(rq);
    sqe->modify_qp.memory.pages = rnic_pages(c->r, memory, size);
    sqe->modify_qp.memory.ring_offset[0] =
        cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    sqe->modify_qp.memory.ring_offset[1] =
        cpu_to_le32(RNIC_QUEUE_RECORD_SIZE + sq_octets);
    rnic_mem_write32(c->r, memory, c->qp.sq_producer);
    rnic_mem_write32(c->r, memory + 4, c->qp.rq_producer);
    c->qp.memory = memory;
    c->qp.sq_offset = RNIC_QUEUE_RECORD_SIZE;
    c->qp.rq_offset = RNIC_QUEUE_RECORD_SIZE + sq_octets;
    c->qp.sq_depth = sq;
    c->qp.rq_depth = rq;
}

static void expect_depths(Connection *c, struct rnic_admin_sqe *sqe)
{
    struct rnic_admin_cqe cqe;
    struct rnic_qp_attr attr;

    g_assert_cmpuint(rnic_admin(c->r, sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, c->qp.sq_depth);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, c->qp.rq_depth);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, c->qp.sq_depth);
    g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, c->qp.rq_depth);
}

/* What Query RNIC claims can be changed, where it can; else it is refused. */
static void test_other_attributes(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_device_attr attr = rnic_query_device(c->r);
    struct rnic_admin_sqe sqe = modify(c, RNIC_QP_MODIFY_IRD);
    struct rnic_admin_cqe cqe;
    uint32_t stream;

    g_assert_cmphex(le32_to_cpu(attr.abilities) & RNIC_ABILITY_MODIFY_IRD, !=,
                    0);
    g_assert_cmphex(le32_to_cpu(attr.abilities) & RNIC_ABILITY_MODIFY_WRS, !=,
                    0);
    /* Idle to Idle. */
    sqe.modify_qp.ird = cpu_to_le16(7);
    ask_depths(c, &sqe, 128, 64);
    expect_depths(c, &sqe);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, 7);
    /* Idle to RTS. */
    stream = begin(c, false);
    sqe = llp_adopt_command(c->r, &c->qp, stream, NULL, 0);
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_IRD |
                                      RNIC_QP_MODIFY_ENABLES);
    sqe.modify_qp.ird = cpu_to_le16(2);
    sqe.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_WRITE);
    ask_depths(c, &sqe, 256, 16);
    expect_depths(c, &sqe);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, 2);
    g_assert_cmphex(le32_to_cpu(rnic_query_qp(c->r, &c->qp).enables), ==,
                    RNIC_QP_ENABLE_WRITE);
    exchange(c, 1);
    /* RTS to RTS: not IRD, and this is said. */
    sqe = modify(c, RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_RTS;
    ask_depths(c, &sqe, 64, 32);
    expect_depths(c, &sqe);
    exchange(c, 2);
    sqe = modify(c, RNIC_QP_MODIFY_IRD);
    sqe.modify_qp.ird = cpu_to_le16(3);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==,
                     RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, 2);
    exchange(c, 3);
    connection_free(c);
}

/* The RQ Limit, which only a QP with an S-RQ has. */
static void test_limit(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    struct rnic_admin_sqe sqe;
    struct rnic_qp_attr attr;
    Connection *c;
    uint32_t stream;
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    c = connection_prepare_on(r, &(ConnectionOptions) { .srq = &srq });
    /* Idle to Idle. */
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.rq_limit_armed, ==, 0);
    sqe = modify(c, RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_RQ_LIMIT);
    sqe.modify_qp.next_state = RNIC_QPS_IDLE;
    sqe.modify_qp.rq_limit = cpu_to_le32(5);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(le32_to_cpu(attr.rq_limit), ==, 5);
    g_assert_cmpint(attr.rq_limit_armed, ==, 1);
    /* Idle to RTS. */
    stream = begin(c, false);
    sqe = llp_adopt_command(r, &c->qp, stream, NULL, 0);
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_RQ_LIMIT);
    sqe.modify_qp.rq_limit = cpu_to_le32(3);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_RTS);
    g_assert_cmpuint(le32_to_cpu(attr.rq_limit), ==, 3);
    g_assert_cmpint(attr.rq_limit_armed, ==, 1);
    connection_free(c);
}

static void test_attributes(void)
{
    test_other_attributes();
    test_limit();
    rnic_shows("V6.1.3-3 V9.2.5.3-1 V9.2.5.3-8 V9.2.5.3-13");
}

/* IRD, changed in Idle: as many Reads of the peer's can wait, and not one more. */
static void check_ird_counts(uint16_t ird)
{
    enum { LARGE = 16 * 1024 * 1024 };
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe sqe = modify(c, RNIC_QP_MODIFY_IRD);
    WireRead read = { .size = LARGE };
    struct rnic_admin_cqe cqe;
    WireTerminate t;
    RnicMr mr;

    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, 4);
    sqe.modify_qp.ird = cpu_to_le16(ird);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, ird);
    adopt(c, begin(c, false), NULL);
    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    read.source_stag = mr.stag;
    read.source_to = mr.va;
    for (unsigned i = 0; i < ird; i++) {
        wire_put_read_request(c->peer, &read);
    }
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    wire_put_read_request(c->peer, &read);
    rnic_expect_async(c->r, RNIC_AE_IRRQ_TOO_MANY, c->qp.number);
    wire_skip_to_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, 0x1202);
    connection_free(c);
}

static void test_ird(void)
{
    check_ird_counts(2);
    check_ird_counts(6);
    rnic_shows("V9.2.1.2-5 V9.2.5.3-7");
}

/* ----------------------------------------------------------------- refusals */

/* The stream is as before, and so is the QP. */
static void expect_unharmed(Connection *c, uint32_t stream)
{
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    chat(c->r, stream, c->peer);
}

/* A stream, or a message, where there is no transition from Idle to RTS. */
static void test_other_transitions(void)
{
    static const struct {
        uint8_t from, to;
    } cases[] = {
        { RNIC_QPS_IDLE, RNIC_QPS_IDLE }, { RNIC_QPS_IDLE, RNIC_QPS_ERROR },
        { RNIC_QPS_RTS, RNIC_QPS_RTS }, { RNIC_QPS_RTS, RNIC_QPS_CLOSING },
        { RNIC_QPS_RTS, RNIC_QPS_TERMINATE },
        { RNIC_QPS_RTS, RNIC_QPS_ERROR }, { RNIC_QPS_ERROR, RNIC_QPS_IDLE },
        { RNIC_QPS_ERROR, RNIC_QPS_RTS },
    };
    Connection *c = connection_prepare(NULL);
    WirePeer *peer;
    uint32_t stream = llp_connect(c->r, COOKIE, &peer);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        if (cases[i].from == RNIC_QPS_RTS) {
            connection_establish(c, NULL);
        } else if (cases[i].from == RNIC_QPS_ERROR) {
            g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp,
                                                  RNIC_QPS_ERROR), ==,
                             RNIC_ST_OK);
        }
        for (int what = 1; what <= 3; what++) {
            struct rnic_admin_sqe sqe = llp_adopt_command(
                c->r, &c->qp, what & 1 ? stream : 0, ANSWER,
                what & 2 ? strlen(ANSWER) : 0);
            uint16_t status;

            sqe.modify_qp.next_state = cases[i].to;
            status = rnic_admin(c->r, &sqe, NULL);
            if (cases[i].to != RNIC_QPS_RTS) {
                g_assert_cmpuint(status, ==, RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
            } else if (!(what & 1)) {
                g_assert_cmpuint(status, ==, RNIC_ST_INVALID_LLP_STREAM);
            } else {
                g_assert_cmpuint(status, ==, cases[i].from == RNIC_QPS_RTS
                                 ? RNIC_ST_CANNOT_CHANGE_ATTRIBUTE
                                 : RNIC_ST_INVALID_STATE_CHANGE);
            }
            g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, cases[i].from);
        }
        connection_recycle(c);
    }
    /* Attributes alone take no stream along either. */
    for (int what = 1; what <= 3; what++) {
        struct rnic_admin_sqe sqe = llp_adopt_command(
            c->r, &c->qp, what & 1 ? stream : 0, ANSWER,
            what & 2 ? strlen(ANSWER) : 0);

        sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD);
        sqe.modify_qp.ord = cpu_to_le16(2);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
        g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord), ==, 4);
    }
    llp_drain_events(c->r);
    wire_expect_silence(peer);
    c->peer = peer;
    expect_unharmed(c, stream);
    adopt(c, stream, NULL);
    exchange(c, 1);
    connection_free(c);
    rnic_shows("V9.2.5.3-5");
}

/* One that is still being opened: both commands in one look at the ring. */
static void refuse_unopened(Connection *c, uint32_t last)
{
    struct rnic_admin_sqe open = rnic_command(RNIC_ADMIN_LLP_OPEN), adopting;
    struct rnic_admin_cqe opened, refused;
    uint16_t port;
    int listener = wire_listen(2, &port);
    WirePeer *peer;

    open.llp_open.local = rnic_addr(wire_guest_ip(1), 0);
    open.llp_open.remote = rnic_addr(wire_guest_ip(2), port);
    adopting = llp_adopt_command(c->r, &c->qp, last + 1, NULL, 0);
    rnic_admin_fill(c->r, &open);
    rnic_admin_fill(c->r, &adopting);
    rnic_admin_tail(c->r);
    rnic_admin_completion(c->r, &opened);
    rnic_admin_completion(c->r, &refused);
    g_assert_cmpuint(le16_to_cpu(opened.status), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(opened.number), ==, last + 1);
    g_assert_cmpuint(le16_to_cpu(refused.status), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    peer = wire_accept(c->r->qts, listener);
    llp_expect_event(c->r, RNIC_CM_STREAM_OPENED, last + 1);
    g_assert_cmpuint(llp_try_close(c->r, last + 1, true), ==, RNIC_ST_OK);
    wire_close(peer);
    close(listener);
}

/* Streams that there are not, or not yet, or not any more. */
static void test_bad_streams(void)
{
    Connection *c = connection_prepare(NULL);
    Connection *other = connection_prepare_second(c, NULL);
    uint16_t port = wire_free_port(1), far;
    uint32_t stream, listener;
    struct rnic_cm_event event;
    WirePeer *peer;
    int far_listener;

#define NO_STREAM(number)                                               \
    do {                                                                \
        g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, number, ANSWER,    \
                                       strlen(ANSWER)), ==,             \
                         RNIC_ST_INVALID_LLP_STREAM);                   \
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==,                \
                        RNIC_QPS_IDLE);                                 \
    } while (0)
    NO_STREAM(0);
    NO_STREAM(1);
    NO_STREAM(0xffffffff);
    /* That of a connection, by what Query QP calls it, and by the QP's number. */
    connection_establish(other, NULL);
    NO_STREAM(le32_to_cpu(rnic_query_qp(c->r, &other->qp).llp_stream));
    NO_STREAM(other->qp.number);
    /* A peer's that was not taken. */
    g_assert_cmpuint(llp_try_listen(c->r, port, 7, 8, &listener), ==,
                     RNIC_ST_OK);
    peer = wire_connect(c->r->qts, 3, 1, port);
    event = rnic_expect_cm(c->r, RNIC_CM_STREAM_REQUEST);
    stream = le32_to_cpu(event.endpoint);
    NO_STREAM(stream);
    g_assert_cmpuint(llp_try_close(c->r, stream, false), ==, RNIC_ST_OK);
    g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
    wire_close(peer);
    NO_STREAM(stream);
    /* One that the peer has half closed, and one that it has reset. */
    stream = llp_connect(c->r, 1, &peer);
    wire_shutdown(peer);
    llp_expect_event(c->r, RNIC_CM_STREAM_READABLE, stream);
    NO_STREAM(stream);
    g_assert_cmpuint(llp_try_close(c->r, stream, true), ==, RNIC_ST_OK);
    wire_close(peer);
    stream = llp_connect(c->r, 1, &peer);
    wire_abort(peer);
    llp_expect_event(c->r, RNIC_CM_STREAM_READABLE, stream);
    NO_STREAM(stream);
    g_assert_cmpuint(llp_try_close(c->r, stream, true), ==, RNIC_ST_OK);
    refuse_unopened(c, stream);
    /* One that is another QP's by now. */
    stream = llp_connect(c->r, 1, &peer);
    connection_recycle(other);
    g_assert_cmpuint(llp_try_adopt(c->r, &other->qp, stream, NULL, 0), ==,
                     RNIC_ST_OK);
    other->peer = peer;
    NO_STREAM(stream);
    exchange(other, 1);
#undef NO_STREAM
    /* A good one, for a QP that is being connected otherwise. */
    far_listener = wire_listen(2, &far);
    stream = llp_connect(c->r, COOKIE, &c->peer);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), far, 1,
                                      1, 7, NULL, 0), ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, ANSWER, 3), ==,
                     RNIC_ST_INVALID_STATE_CHANGE);
    wire_close(wire_accept(c->r->qts, far_listener));
    close(far_listener);
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    expect_unharmed(c, stream);
    /* And for one that there is not. */
    g_assert_cmpuint(llp_try_adopt(c->r, &(RnicQp) { .number = 4711 }, stream,
                                   ANSWER, 3), ==, RNIC_ST_INVALID_QP);
    expect_unharmed(c, stream);
    adopt(c, stream, NULL);
    exchange(c, 1);
    connection_free_second(other);
    connection_free(c);
    rnic_shows("V6.2.1.2-1 V9.2.5.3-4");
}

/* What is wrong with the command leaves QP and stream as they were. */
static void test_bad_commands(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_device_attr attr = rnic_query_device(c->r);
    uint32_t stream = begin(c, false);
    struct rnic_admin_sqe good, sqe;

    g_assert_cmpuint(le32_to_cpu(attr.max_llp_octets), ==,
                     RNIC_LLP_MAX_OCTETS);
#define REFUSED(change, status)                                         \
    do {                                                                \
        good = llp_adopt_command(c->r, &c->qp, stream, ANSWER, 16);     \
        sqe = good;                                                     \
        sqe.change;                                                     \
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, status);     \
        expect_unharmed(c, stream);                                     \
    } while (0)
    REFUSED(bulk_length = 0, RNIC_ST_BAD_BUFFER);
    REFUSED(bulk_length = cpu_to_le32(RNIC_LLP_MAX_OCTETS + 1),
            RNIC_ST_BAD_BUFFER);
    REFUSED(bulk_length = cpu_to_le32(UINT32_MAX), RNIC_ST_BAD_BUFFER);
    REFUSED(bulk_addr |= cpu_to_le64(4), RNIC_ST_BAD_BUFFER);
    REFUSED(bulk_addr = cpu_to_le64(RNIC_TEST_NOWHERE), RNIC_ST_DMA_ERROR);
    REFUSED(modify_qp.reserved[1] = 1, RNIC_ST_RESERVED_NOT_ZERO);
    REFUSED(modify_qp.mask |= cpu_to_le32(1u << 31),
            RNIC_ST_INVALID_MODIFIER);
    REFUSED(modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_RQ_LIMIT),
            RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    good.modify_qp.ord = 0;
    REFUSED(modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH),
            RNIC_ST_INVALID_MODIFIER);
#undef REFUSED
    sqe = llp_adopt_command(c->r, &c->qp, stream, ANSWER, 16);
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(le32_to_cpu(attr.max_ord) + 1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_ORD_EXCEEDED);
    expect_unharmed(c, stream);
    wire_expect_silence(c->peer);
    adopt_with_longest(c, stream);
    exchange(c, 1);
    connection_free(c);
    rnic_shows("V6.2.1.2-3");
}

/* The commands of streaming mode themselves. */
static void test_refused(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_admin_sqe sqe;
    WirePeer *peer;
    uint32_t stream, request, listener, n;
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    uint8_t got[8];
    bool end;

    stream = llp_connect(r, COOKIE, &peer);
#define BAD(opcode, member, field, value, bulk, length, status)         \
    do {                                                                \
        sqe = rnic_command(opcode);                                     \
        sqe.member.stream = cpu_to_le32(stream);                        \
        sqe.bulk_addr = cpu_to_le64(bulk);                              \
        sqe.bulk_length = cpu_to_le32(length);                          \
        sqe.field = value;                                              \
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, status);        \
    } while (0)
    for (int i = 0; i < 2; i++) {
        uint16_t opcode = i ? RNIC_ADMIN_LLP_RECEIVE : RNIC_ADMIN_LLP_SEND;
        uint64_t bus = rnic_alloc(r, 2 * RNIC_LLP_MAX_OCTETS);

        BAD(opcode, llp_octets, llp_octets.stream, 0, bus, 8,
            RNIC_ST_INVALID_LLP_STREAM);
        BAD(opcode, llp_octets, llp_octets.stream, 0xffffffff, bus, 8,
            RNIC_ST_INVALID_LLP_STREAM);
        BAD(opcode, llp_octets, raw[4], 1, bus, 8, RNIC_ST_RESERVED_NOT_ZERO);
        BAD(opcode, llp_octets, bulk_length, 0, bus, 8, RNIC_ST_BAD_BUFFER);
        BAD(opcode, llp_octets, raw[4], 0, bus, RNIC_LLP_MAX_OCTETS + 1,
            RNIC_ST_BAD_BUFFER);
        BAD(opcode, llp_octets, raw[4], 0, bus + 1, 8, RNIC_ST_BAD_BUFFER);
        BAD(opcode, llp_octets, raw[4], 0, RNIC_TEST_NOWHERE, 8,
            RNIC_ST_DMA_ERROR);
    }
    BAD(RNIC_ADMIN_LLP_CLOSE, llp_close, llp_close.stream, 0, 0, 0,
        RNIC_ST_INVALID_LLP_STREAM);
    BAD(RNIC_ADMIN_LLP_CLOSE, llp_close, llp_close.reset, 2, 0, 0,
        RNIC_ST_INVALID_MODIFIER);
    BAD(RNIC_ADMIN_LLP_CLOSE, llp_close, llp_close.reserved[2], 1, 0, 0,
        RNIC_ST_RESERVED_NOT_ZERO);
    BAD(RNIC_ADMIN_LLP_CLOSE, llp_close, raw[4], 0, 0, 8,
        RNIC_ST_RESERVED_NOT_ZERO);
#undef BAD
    /* Octets that could not be stored were not lost. */
    wire_put(peer, "kept", 4);
    llp_expect_event(r, RNIC_CM_STREAM_READABLE, stream);
    sqe = rnic_command(RNIC_ADMIN_LLP_RECEIVE);
    sqe.llp_octets.stream = cpu_to_le32(stream);
    sqe.bulk_addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    sqe.bulk_length = cpu_to_le32(8);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_DMA_ERROR);
    llp_expect(r, stream, "kept", 4);
    chat(r, stream, peer);

    /* What is not open. */
    g_assert_cmpuint(llp_try_take(r, stream, 1), ==, RNIC_ST_INVALID_ENDPOINT);
    g_assert_cmpuint(llp_try_listen(r, port, 7, 8, &listener), ==, RNIC_ST_OK);
    wire_close(peer);
    peer = wire_connect(r->qts, 3, 1, port);
    do {
        rnic_eq_wait(r, &r->cm_eq, &event);
    } while (event.type != RNIC_CM_STREAM_REQUEST);
    request = le32_to_cpu(event.endpoint);
    g_assert_cmpuint(llp_try_send(r, request, "x", 1), ==,
                     RNIC_ST_STREAM_NOT_OPEN);
    g_assert_cmpuint(llp_try_receive(r, request, got, 8, &n, &end), ==,
                     RNIC_ST_STREAM_NOT_OPEN);
    sqe = rnic_command(RNIC_ADMIN_LLP_OPEN);
    sqe.llp_open.stream = cpu_to_le32(request);
    sqe.llp_open.tos = 1;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_MODIFIER);
    sqe.llp_open.tos = 0;
    sqe.llp_open.remote.port = cpu_to_be16(1);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_MODIFIER);
    /* No answer of the other kind. */
    g_assert_cmpuint(rnic_try_reject(r, request, NULL, 0), ==,
                     RNIC_ST_INVALID_ENDPOINT);
    g_assert_cmpuint(llp_try_take(r, request, 1), ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_take(r, request, 1), ==,
                     RNIC_ST_INVALID_ENDPOINT);
    /* Reset by the peer: said to all that ask. */
    wire_abort(peer);
    do {
        rnic_eq_wait(r, &r->cm_eq, &event);
    } while (le32_to_cpu(event.endpoint) != request);
    g_assert_cmpuint(llp_try_receive(r, request, got, 8, &n, &end), ==,
                     RNIC_ST_STREAM_ENDED);
    g_assert_cmpuint(llp_try_send(r, request, "x", 1), ==,
                     RNIC_ST_STREAM_ENDED);
    g_assert_cmpuint(llp_try_close(r, request, false), ==, RNIC_ST_OK);

    /* LLP_OPEN and CM_LISTEN. */
    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), RNIC_DIRECT_PORT, 1,
                                  NULL), ==, RNIC_ST_INVALID_ADDRESS);
    sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);
    sqe.listen.streams = 2;
    sqe.listen.local = rnic_addr(wire_guest_ip(1), wire_free_port(1));
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_MODIFIER);
    sqe.listen.streams = 1;
    sqe.listen.reserved[1] = 1;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_RESERVED_NOT_ZERO);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->cm_eq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), 99, 1, NULL), ==,
                     RNIC_ST_NO_CM_EQ);
    rnic_quit(r);
}

/* A driver that has not accepted the feature has none of it. */
static void test_not_accepted(void)
{
    static const uint16_t opcodes[] = {
        RNIC_ADMIN_LLP_OPEN, RNIC_ADMIN_LLP_SEND, RNIC_ADMIN_LLP_RECEIVE,
        RNIC_ADMIN_LLP_CLOSE,
    };
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .features_off = RNIC_FEATURE_LLP_STREAM });
    struct rnic_admin_sqe sqe;

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        sqe = rnic_command(opcodes[i]);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_UNSUPPORTED);
    }
    g_assert_cmpuint(llp_try_listen(c->r, wire_free_port(1), 7, 8, NULL), ==,
                     RNIC_ST_UNSUPPORTED);
    for (uint32_t length = 0; length <= 8; length += 8) {
        g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, 1, ANSWER, length), ==,
                         RNIC_ST_UNSUPPORTED);
    }
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, 0, ANSWER, 8), ==,
                     RNIC_ST_RESERVED_NOT_ZERO);
    /* Also where only an attribute changes. */
    sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ord = cpu_to_le16(1);
    sqe.modify_qp.llp_stream = cpu_to_le32(1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_UNSUPPORTED);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord), ==, 4);
    connection_free(c);
}

/* ------------------------------------------------------ what can be taken */

/* One more than there can be, of the guest's and of peers'. */
static void test_bounds(void)
{
    enum { MAX = 3 };
    Rnic *r = rnic_boot_up(",max-llp-streams=3");
    uint16_t port = wire_free_port(1);
    WirePeer *peer[MAX], *asks[MAX], *refused;
    uint32_t stream[MAX], request[MAX], listener;
    struct rnic_cm_event event;

    g_assert_cmpuint(le32_to_cpu(rnic_query_device(r).max_llp_streams), ==,
                     MAX);
    g_assert_cmpuint(llp_try_listen(r, port, 7, 64, &listener), ==,
                     RNIC_ST_OK);
    for (int i = 0; i < MAX; i++) {
        stream[i] = llp_connect(r, i, &peer[i]);
        asks[i] = wire_connect(r->qts, 3, 1, port);
        event = rnic_expect_cm(r, RNIC_CM_STREAM_REQUEST);
        request[i] = le32_to_cpu(event.endpoint);
    }
    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), port, 1, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(llp_try_take(r, request[0], 1), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    refused = wire_connect(r->qts, 3, 1, port);
    expect_reset(refused);
    wire_close(refused);
    rnic_expect_no_cm(r);
    g_assert_cmpuint(streams(r), ==, 2 * MAX);
    /* With one less of either there is room for one. */
    g_assert_cmpuint(llp_try_close(r, stream[0], true), ==, RNIC_ST_OK);
    expect_reset(peer[0]);
    g_assert_cmpuint(llp_try_take(r, request[0], 1), ==, RNIC_ST_OK);
    chat(r, request[0], asks[0]);
    refused = wire_connect(r->qts, 3, 1, port);
    rnic_expect_cm(r, RNIC_CM_STREAM_REQUEST);
    wire_close(refused);
    for (int i = 0; i < MAX; i++) {
        wire_close(peer[i]);
        wire_close(asks[i]);
    }
    rnic_quit(r);
}

/* A listener's backlog, and requests that outlive it. */
static void check_backlog(uint32_t asked, unsigned granted)
{
    Rnic *r = rnic_boot_up("");
    uint16_t port = wire_free_port(1);
    g_autofree WirePeer **peer = g_new0(WirePeer *, granted);
    WirePeer *refused;
    uint32_t request = 0, listener;
    struct rnic_cm_event event;

    g_assert_cmpuint(llp_try_listen(r, port, 7, asked, &listener), ==,
                     RNIC_ST_OK);
    for (unsigned i = 0; i < granted; i++) {
        peer[i] = wire_connect(r->qts, 3, 1, port);
        event = rnic_expect_cm(r, RNIC_CM_STREAM_REQUEST);
        request = le32_to_cpu(event.endpoint);
    }
    refused = wire_connect(r->qts, 3, 1, port);
    expect_reset(refused);
    wire_close(refused);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_CM_UNLISTEN, listener),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(llp_try_take(r, request, 1), ==, RNIC_ST_OK);
    chat(r, request, peer[granted - 1]);
    for (unsigned i = 0; i < granted; i++) {
        wire_close(peer[i]);
    }
    rnic_quit(r);
}

static void test_backlog(void)
{
    check_backlog(1, 64);       /* manual: at least 64 */
    check_backlog(100, 100);
}

/*
 * A peer that sends more than anyone reads is held up, and costs the device nothing;
 * one that does not read gets no more than there is room for.
 */
static void test_floods(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree uint8_t *flood = g_malloc0(1024 * 1024);
    Connection *other = connection_prepare_second(c, NULL);
    uint32_t stream = begin(c, false), n;
    struct pollfd writable = { .events = POLLOUT };
    GByteArray *sent;
    uint8_t got[16];
    size_t put = 0;
    ssize_t done;
    bool end;

    writable.fd = c->peer->fd;
    while (poll(&writable, 1, 200) == 1) {
        done = send(c->peer->fd, flood, 1024 * 1024,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done > 0) {
            put += done;
        }
    }
    g_assert_cmpuint(put, >, 0);
    llp_expect_event(c->r, RNIC_CM_STREAM_READABLE, stream);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    sent = fill_up(c->r, stream);
    connection_establish(other, NULL);
    exchange(other, 1);
    expect_octets(c->peer, sent);
    do {
        g_assert_cmpuint(llp_try_receive(c->r, stream, got, sizeof(got), &n,
                                         &end), ==, RNIC_ST_OK);
    } while (n < sizeof(got));
    llp_drain_events(c->r);
    /* What it said last is an FPDU's begin, of no sense. */
    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, NULL, 0), ==,
                     RNIC_ST_OK);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
    exchange(other, 2);
    g_byte_array_unref(sent);
    connection_free_second(other);
    connection_free(c);
}

/* After FULL an event tells when there is room again, once. */
static void test_writable(void)
{
    Rnic *r = rnic_boot_up("");
    WirePeer *peer;
    uint32_t stream = llp_connect_narrow(r, COOKIE, &peer);
    GByteArray *sent = fill_up(r, stream);

    g_assert_cmpuint(llp_try_send(r, stream, "x", 1), ==, RNIC_ST_STREAM_FULL);
    rnic_settle(r);
    rnic_expect_no_cm(r);
    expect_octets(peer, sent);
    llp_expect_event(r, RNIC_CM_STREAM_WRITABLE, stream);
    rnic_settle(r);
    rnic_expect_no_cm(r);
    chat(r, stream, peer);
    /* What waits is sent before FIN. */
    g_byte_array_unref(sent);
    sent = fill_up(r, stream);
    g_assert_cmpuint(llp_try_close(r, stream, false), ==, RNIC_ST_OK);
    expect_octets(peer, sent);
    g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
    wire_close(peer);
    g_byte_array_unref(sent);
    rnic_quit(r);
}

/* Nothing outlives a reset: those that were never adopted, and those that were. */
static void test_reset(void)
{
    Connection *c = connection_prepare(NULL);
    Rnic *r = c->r;
    uint16_t port = wire_free_port(1), far;
    uint32_t stream, listener;
    WirePeer *open, *asks;
    int far_listener = wire_listen(2, &far);

    for (int round = 0; round < 3; round++) {
        stream = llp_connect(r, 1, &c->peer);
        g_assert_cmpuint(llp_try_adopt(r, &c->qp, stream, ANSWER, 8), ==,
                         RNIC_ST_OK);
        stream = llp_connect(r, 2, &open);
        g_assert_cmpuint(llp_try_listen(r, port, 7, 8, &listener), ==,
                         RNIC_ST_OK);
        asks = wire_connect(r->qts, 3, 1, port);
        rnic_expect_cm(r, RNIC_CM_STREAM_REQUEST);
        g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), far, 3, NULL), ==,
                         RNIC_ST_OK);
        /* With an adoption that may be under way. */
        if (round) {
            RnicQpInit init = rnic_qp_default(r, &c->send_cq, &c->recv_cq);
            struct rnic_admin_sqe sqe;
            RnicQp qp;

            rnic_create_qp(r, &qp, &init);
            sqe = llp_adopt_command(r, &qp, stream, NULL, 0);
            rnic_admin_fill(r, &sqe);
            rnic_admin_tail(r);
        }
        if (round == 1) {
            rnic_flr(r);
        } else {
            rnic_reset(r);
        }
        expect_reset(asks);
        wire_expect_end(open);
        wire_close(asks);
        wire_close(open);
        close_peer(c);
        g_free(c);
        rnic_up(r);
        g_assert_cmpuint(streams(r), ==, 0);
        g_assert_cmpuint(llp_try_close(r, stream, true), ==,
                         RNIC_ST_INVALID_LLP_STREAM);
        c = connection_prepare_on(r, NULL);
    }
    close(far_listener);
    stream = begin(c, false);
    adopt(c, stream, NULL);
    exchange(c, 1);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/llp-stream/octets", test_octets);
    qtest_add_func("rnic/llp-stream/close", test_close);
    qtest_add_func("rnic/llp-stream/open-fails", test_open_fails);
    qtest_add_func("rnic/llp-stream/goes-first", test_goes_first);
    qtest_add_func("rnic/llp-stream/not-followed", test_not_followed);
    qtest_add_func("rnic/llp-stream/goes-second", test_goes_second);
    qtest_add_func("rnic/llp-stream/at-once", test_at_once);
    qtest_add_func("rnic/llp-stream/no-gap", test_no_gap);
    qtest_add_func("rnic/llp-stream/order", test_order);
    qtest_add_func("rnic/llp-stream/behind-octets", test_behind_octets);
    qtest_add_func("rnic/llp-stream/only-iwarp", test_only_iwarp);
    qtest_add_func("rnic/llp-stream/crc-and-markers", test_crc_and_markers);
    qtest_add_func("rnic/llp-stream/with-itself", test_with_itself);
    qtest_add_func("rnic/llp-stream/ord", test_ord);
    qtest_add_func("rnic/llp-stream/attributes", test_attributes);
    qtest_add_func("rnic/llp-stream/ird", test_ird);
    qtest_add_func("rnic/llp-stream/other-transitions",
                   test_other_transitions);
    qtest_add_func("rnic/llp-stream/bad-streams", test_bad_streams);
    qtest_add_func("rnic/llp-stream/bad-commands", test_bad_commands);
    qtest_add_func("rnic/llp-stream/refused", test_refused);
    qtest_add_func("rnic/llp-stream/not-accepted", test_not_accepted);
    qtest_add_func("rnic/llp-stream/bounds", test_bounds);
    qtest_add_func("rnic/llp-stream/backlog", test_backlog);
    qtest_add_func("rnic/llp-stream/floods", test_floods);
    qtest_add_func("rnic/llp-stream/writable", test_writable);
    qtest_add_func("rnic/llp-stream/reset", test_reset);
    return g_test_run();
}
