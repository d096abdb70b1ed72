/*
 * Unit tests of captures: blocks of a pcapng file, made-up headers, FPDUs followed
 *
 * Octets are made by hand from draft-ietf-opsawg-pcapng, RFC 791, 8200, 9293, 7323
 * and 1071.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "wire.h"
#include "hw/rnic/capture/fpdus.h"
#include "hw/rnic/capture/packet.h"
#include "hw/rnic/capture/pcapng.h"

/* ------------------------------------------------------------------ pcapng */

static void test_head(void)
{
    g_autoptr(GByteArray) want = hex(
        /* Section Header Block: type, total length, magic, version, length */
        "0a0d0d0a 30000000 4d3c2b1a 0100 0000 ffffffffffffffff"
        /* shb_userappl "QEMU rnic", opt_endofopt, total length */
        "0400 0900 51454d5520726e6963 000000 0000 0000 30000000"
        /* Interface Description Block: Ethernet, reserved, snaplen 128 */
        "01000000 28000000 0100 0000 80000000"
        /* if_name "rnic", if_tsresol 10^-9 */
        "0200 0400 726e6963 0900 0100 09 000000 0000 0000 28000000");
    uint8_t out[RNIC_PCAPNG_HEAD_MAX];

    memset(out, 0xee, sizeof(out));
    assert_octets(out, rnic_pcapng_head(out, 128), want);
}

static void check_packet(const RnicPcapngPacket *p, const char *data,
                         const char *want_hex)
{
    g_autoptr(GByteArray) want = hex(want_hex);
    g_autoptr(GByteArray) octets = hex(data);
    uint8_t out[512];

    g_assert_cmpuint(octets->len, ==, p->captured);
    g_assert_cmpuint(rnic_pcapng_packet_size(p), ==, want->len);
    memset(out, 0xee, sizeof(out));
    rnic_pcapng_packet(out, p);
    memcpy(out + RNIC_PCAPNG_AT_DATA, octets->data, octets->len);
    assert_octets(out, want->len, want);
    g_assert_cmphex(out[want->len], ==, 0xee);
}

static void test_packets(void)
{
    /* Type, total length, interface, time (high, low), lengths, data, padding. */
    check_packet(&(RnicPcapngPacket) {
            .ns = 0x1122334455667788, .captured = 5, .original = 9 },
        "0102030405",
        "06000000 28000000 00000000 44332211 88776655 05000000 09000000"
        "0102030405 000000 28000000");
    check_packet(&(RnicPcapngPacket) {
            .ns = 1, .captured = 4, .original = 4,
            .way = RNIC_PCAPNG_OUTBOUND },
        "01020304",
        "06000000 30000000 00000000 00000000 01000000 04000000 04000000"
        "01020304 0200 0400 02000000 0000 0000 30000000");
    check_packet(&(RnicPcapngPacket) {
            .ns = 1, .captured = 4, .original = 4,
            .way = RNIC_PCAPNG_INBOUND, .comment = "hello" },
        "01020304",
        "06000000 3c000000 00000000 00000000 01000000 04000000 04000000"
        "01020304 0100 0500 68656c6c6f 000000 0200 0400 01000000 0000 0000"
        "3c000000");
}

/* The block stays within what its user has been told. */
static void test_long_comment(void)
{
    g_autofree char *text = g_strnfill(RNIC_PCAPNG_COMMENT_MAX + 100, 'x');
    RnicPcapngPacket p = { .captured = 0, .comment = text };
    uint8_t out[1024];

    g_assert_cmpuint(rnic_pcapng_packet_size(&p), ==,
                     28 + 4 + RNIC_PCAPNG_COMMENT_MAX + 4 + 4);
    memset(out, 0xee, sizeof(out));
    rnic_pcapng_packet(out, &p);
    g_assert_cmphex(out[rnic_pcapng_packet_size(&p)], ==, 0xee);
    g_assert_cmphex(out[30], ==, RNIC_PCAPNG_COMMENT_MAX & 0xff);
    g_assert_cmphex(out[31], ==, RNIC_PCAPNG_COMMENT_MAX >> 8);
}

static void test_statistics(void)
{
    g_autoptr(GByteArray) want = hex(
        /* Interface Statistics Block; isb_ifrecv, isb_ifdrop */
        "05000000 34000000 00000000 44332211 88776655"
        "0400 0800 0700000000000000 0500 0800 0200000000000000 0000 0000"
        "34000000");
    g_autoptr(GByteArray) want_cut = hex(
        /* The same with opt_comment in front of them. */
        "05000000 54000000 00000000 44332211 88776655"
        "0100 1c00 636170747572652d726174653a 20 7061636b657473 20 6375743a 20 39"
        "0400 0800 0700000000000000 0500 0800 0200000000000000 0000 0000"
        "54000000");
    uint8_t out[RNIC_PCAPNG_STATISTICS_MAX];

    assert_octets(out, rnic_pcapng_statistics(out, 0x1122334455667788, 7, 2, 0),
                  want);
    assert_octets(out, rnic_pcapng_statistics(out, 0x1122334455667788, 7, 2, 9),
                  want_cut);
    g_assert_cmpuint(rnic_pcapng_statistics(out, 0, 7, 2, UINT64_MAX), <=,
                     sizeof(out));
}

/* ----------------------------------------------------------------- packets */

static RnicPacketEnd end_of(const char *mac_hex, const char *ip_hex,
                            uint16_t port)
{
    g_autoptr(GByteArray) mac = hex(mac_hex);
    g_autoptr(GByteArray) ip = hex(ip_hex);
    RnicPacketEnd end = { .port = port };

    g_assert_cmpuint(mac->len, ==, sizeof(end.mac));
    g_assert_cmpuint(ip->len, ==, sizeof(end.ip));
    memcpy(end.mac, mac->data, mac->len);
    memcpy(end.ip, ip->data, ip->len);
    return end;
}

/* Headers, with @payload behind them and the checksum. */
static void check_headers(RnicPacket *p, const char *payload,
                          const char *want_hex)
{
    g_autoptr(GByteArray) want = hex(want_hex);
    g_autoptr(GByteArray) octets = hex(payload);
    uint8_t out[RNIC_PACKET_HEADERS_MAX + 16];
    size_t len;

    memset(out, 0xee, sizeof(out));
    p->payload_len = octets->len;
    len = rnic_packet_headers(p, out);
    if (octets->len) {
        memcpy(out + len, octets->data, octets->len);
    }
    rnic_packet_checksum(out, len + octets->len);
    assert_octets(out, len + octets->len, want);
}

static void test_ipv4(void)
{
    RnicPacketEnd a = end_of("525400123456", "00000000000000000000ffff0a000001",
                             1000);
    RnicPacketEnd b = end_of("02000a000002", "00000000000000000000ffff0a000002",
                             2000);

    check_headers(&(RnicPacket) { .from = &a, .to = &b, .seq = 1, .ack = 2,
                                  .flags = RNIC_PACKET_ACK }, "",
        "02000a000002 525400123456 0800"
        "4500 0028 0000 4000 4006 26ce 0a000001 0a000002"
        "03e8 07d0 00000001 00000002 5010 ffff 9017 0000");
    /* An odd octet; the same sums, less 1 for its length and 8000 for itself. */
    check_headers(&(RnicPacket) { .from = &a, .to = &b, .seq = 1, .ack = 2,
                                  .flags = RNIC_PACKET_ACK }, "80",
        "02000a000002 525400123456 0800"
        "4500 0029 0000 4000 4006 26cd 0a000001 0a000002"
        "03e8 07d0 00000001 00000002 5010 ffff 1016 0000 80");
}

static void test_ipv6_syn(void)
{
    RnicPacketEnd a = end_of("525400123456", "fd000000000000000000000000000001",
                             1000);
    RnicPacketEnd b = end_of("020000000002", "fd000000000000000000000000000002",
                             2000);

    /* Without ACK the acknowledgement number is zero. */
    check_headers(&(RnicPacket) { .from = &a, .to = &b, .seq = 1, .ack = 2,
                                  .flags = RNIC_PACKET_SYN }, "",
        "020000000002 525400123456 86dd"
        "60000000 001c 06 40 fd000000000000000000000000000001"
        "fd000000000000000000000000000002"
        "03e8 07d0 00000001 00000000 7002 ffff 8444 0000"
        "0204 ffc3 01 03030e");
}

static void test_note(void)
{
    g_autoptr(GByteArray) want = hex("525400123456 525400123456 88b5");
    uint8_t out[64] = { };

    rnic_packet_note_header(want->data, out);
    assert_octets(out, 14, want);
    rnic_packet_checksum(out, sizeof(out));
    for (size_t i = 14; i < sizeof(out); i++) {
        g_assert_cmphex(out[i], ==, 0);
    }
}

/* ------------------------------------------------------------------- FPDUs */

static GByteArray *start_up(guint8 private_data)
{
    GByteArray *out = g_byte_array_new();

    g_byte_array_append(out, (const guint8 *)"MPA ID Req Frame", 16);
    add_hex(out, "4001 00");
    g_byte_array_append(out, &private_data, 1);
    add_fill(out, 0x55, private_data);
    return out;
}

/* Where units end, taken @step octets at a time, each in two spans. */
static GArray *follow(RnicFpdus *f, GByteArray *octets, size_t step)
{
    GArray *ends = g_array_new(false, false, sizeof(size_t));

    for (size_t at = 0; at < octets->len;) {
        size_t len = MIN(step, octets->len - at);
        struct iovec iov[2] = {
            { octets->data + at, len / 2 },
            { octets->data + at + len / 2, len - len / 2 },
        };

        for (size_t done = 0; done < len;) {
            bool ended;
            size_t n = rnic_fpdus_step(f, iov, 2, done, len - done, &ended);
            size_t end = at + done + n;

            g_assert_cmpuint(n, >, 0);
            g_assert_cmpuint(n, <=, len - done);
            done += n;
            if (ended) {
                g_array_append_val(ends, end);
            }
        }
        at += len;
    }
    return ends;
}

static void check_follow(bool markers)
{
    static const size_t ulpdus[] = { 14, 18, 509, 1, 2, 3, 20, 1400, 492, 65535,
                                     16, 0 };
    g_autoptr(GByteArray) octets = start_up(7);
    PlainStream s = plain_stream(true, markers);
    g_autoptr(GByteArray) fpdus = s.out;
    size_t want[G_N_ELEMENTS(ulpdus) + 1] = { octets->len };

    for (size_t i = 0; i < G_N_ELEMENTS(ulpdus); i++) {
        g_autoptr(GByteArray) ulpdu = g_byte_array_new();

        add_fill(ulpdu, 0xab, ulpdus[i]);
        plain_fpdu(&s, ulpdu);
        want[i + 1] = octets->len + fpdus->len;
    }
    add(octets, fpdus);
    for (size_t step = 1; step < 100000; step += 1 + step / 3) {
        RnicFpdus f = { .markers = markers };
        g_autoptr(GArray) ends = follow(&f, octets, step);

        g_assert_cmpmem(ends->data, ends->len * sizeof(size_t), want,
                        sizeof(want));
        g_assert_true(rnic_fpdus_between(&f));
    }
}

static void test_follow(void)
{
    check_follow(false);
}

static void test_follow_markers(void)
{
    check_follow(true);
}

/* From a place in the stream on. */
static void test_place(void)
{
    PlainStream s = plain_stream(false, true);
    g_autoptr(GByteArray) all = s.out;
    g_autoptr(GByteArray) rest = g_byte_array_new();
    g_autoptr(GArray) ends = NULL;
    RnicFpdus f = { .markers = true, .done = 11, .length = 99 };
    size_t first, want[2];

    plain_fpdu_hex(&s, "0102030405060708090a0b0c0d0e0f10");
    first = all->len;
    for (int i = 0; i < 2; i++) {
        g_autoptr(GByteArray) ulpdu = g_byte_array_new();

        add_fill(ulpdu, 1, 600);
        plain_fpdu(&s, ulpdu);
        want[i] = all->len - first;
    }
    g_byte_array_append(rest, all->data + first, all->len - first);
    rnic_fpdus_place(&f, first % 512);
    ends = follow(&f, rest, 77);
    g_assert_cmpmem(ends->data, ends->len * sizeof(size_t), want, sizeof(want));
}

/* What is no MPA has no units, and no end. */
static void test_no_mpa(void)
{
    g_autoptr(GByteArray) octets = g_byte_array_new();
    g_autoptr(GArray) ends = NULL;
    RnicFpdus f = { };

    add_pattern(octets, 10000, 3);
    ends = follow(&f, octets, 999);
    g_assert_cmpuint(ends->len, ==, 0);
    g_assert_cmpint(f.phase, ==, RNIC_FPDUS_OPAQUE);
    g_assert_false(rnic_fpdus_between(&f));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture/pcapng/head", test_head);
    g_test_add_func("/capture/pcapng/packets", test_packets);
    g_test_add_func("/capture/pcapng/long-comment", test_long_comment);
    g_test_add_func("/capture/pcapng/statistics", test_statistics);
    g_test_add_func("/capture/packet/ipv4", test_ipv4);
    g_test_add_func("/capture/packet/ipv6-syn", test_ipv6_syn);
    g_test_add_func("/capture/packet/note", test_note);
    g_test_add_func("/capture/fpdus/follow", test_follow);
    g_test_add_func("/capture/fpdus/follow-markers", test_follow_markers);
    g_test_add_func("/capture/fpdus/place", test_place);
    g_test_add_func("/capture/fpdus/no-mpa", test_no_mpa);
    return g_test_run();
}
