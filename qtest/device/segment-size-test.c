/*
 * rnic: how large FPDUs are that the device sends
 *
 * The peer advertises a TCP segment as that of a network, or none: then it is the
 * host's loopback interface.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <netinet/tcp.h>

#include "tests/qtest/rnic/lib/connection.h"

enum {
    LENGTH = 200000,
    MULPDU_MAX = 64768,
};

/* Connected to a peer that takes segments of @mss octets; 0: of any size. */
static Connection *connect_to(int mss, bool markers, const char *properties)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = properties });
    uint16_t port;
    int listener = wire_listen(2, &port);

    if (mss) {
        g_assert_cmpint(setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &mss,
                                   sizeof(mss)), ==, 0);
    }
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1, 1,
                                      1, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    close(listener);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    c->reply.markers = markers;
    wire_mpa_put(c->peer, &c->reply);
    g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_OK);
    c->peer->markers_in = markers;
    return c;
}

/* What a segment towards @peer carries: its TCP's view, which is the device's. */
static uint32_t emss_of(const WirePeer *peer)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    g_assert_cmpint(getsockopt(peer->fd, IPPROTO_TCP, TCP_INFO, &info, &size),
                    ==, 0);
    return info.tcpi_snd_mss;
}

/* A Send comes in segments of @mulpdu octets, headers included, and a last one. */
static void check_segments(Connection *c, uint32_t mulpdu)
{
    g_autofree uint8_t *data = g_malloc(LENGTH);
    uint32_t at = 0;

    rnic_pattern(data, LENGTH, mulpdu);
    connection_fill(c, 0, data, LENGTH);
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    while (at < LENGTH) {
        WireSegment segment;

        wire_get_segment(c->peer, &segment);
        g_assert_cmpuint(segment.mo, ==, at);
        g_assert_cmpmem(segment.payload, segment.length, data + at,
                        segment.length);
        at += segment.length;
        if (at < LENGTH) {
            g_assert_cmpuint(c->peer->last_ulpdu_length, ==, mulpdu);
        } else {
            g_assert_cmpuint(c->peer->last_ulpdu_length, <=, mulpdu);
        }
        g_free(segment.payload);
    }
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
}

static void test_fits_a_packet(void)
{
    for (int mss = 1448; mss < 10000; mss += 3001) {
        Connection *c = connect_to(mss, false, NULL);
        uint32_t emss = emss_of(c->peer);

        g_assert_cmpuint(emss, <=, mss);
        g_assert_cmpuint(emss, >, mss - 40);
        check_segments(c, emss - (6 + emss % 4));
        connection_free(c);
    }
}

static void test_fits_with_markers(void)
{
    Connection *c = connect_to(1448, true, NULL);
    uint32_t emss = emss_of(c->peer);

    check_segments(c, emss - (6 + 4 * DIV_ROUND_UP(emss, 512) + emss % 4));
    connection_free(c);
}

static void test_on_one_host(void)
{
    Connection *c = connect_to(0, false, NULL);

    check_segments(c, MULPDU_MAX);
    connection_free(c);
}

/* The property is a bound, not a wish. */
static void test_property(void)
{
    Connection *c = connect_to(0, false, ",mulpdu=1000");

    check_segments(c, 1000);
    connection_free(c);
    c = connect_to(1448, false, ",mulpdu=1000");
    check_segments(c, 1000);
    connection_free(c);
    c = connect_to(1448, false, ",mulpdu=5000");
    g_assert_cmpuint(emss_of(c->peer), <, 5000);
    check_segments(c, emss_of(c->peer) - (6 + emss_of(c->peer) % 4));
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/segment-size/fits-a-packet", test_fits_a_packet);
    qtest_add_func("/rnic/segment-size/fits-with-markers",
                   test_fits_with_markers);
    qtest_add_func("/rnic/segment-size/on-one-host", test_on_one_host);
    qtest_add_func("/rnic/segment-size/property", test_property);
    return g_test_run();
}
