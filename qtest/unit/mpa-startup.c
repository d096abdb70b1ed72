/*
 * Unit tests of the protocol engine: MPA Request and Reply, negotiation
 *
 * RFC 5044 section 7.1 and RFC 6581.  Frames are written out in hex here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/mpa-startup.h"

#define REQ "4d504120494420526571204672616d65"
#define REP "4d504120494420526570204672616d65"

/* Parse @octets cut after @first octets and then every @step. */
static IwarpMpaResult parse_cut(const GByteArray *octets, bool want_reply,
                                gsize first, gsize step, IwarpMpaFrame *frame,
                                gsize *taken)
{
    IwarpMpaParser parser;
    IwarpMpaResult result = IWARP_MPA_NEED_MORE;
    gsize at = 0;
    gsize piece = first;

    *taken = 0;
    iwarp_mpa_parser_init(&parser, want_reply, 2);
    while (at < octets->len && result == IWARP_MPA_NEED_MORE) {
        gsize n = MIN(piece, octets->len - at);
        gsize want = iwarp_mpa_parser_want(&parser);
        gsize used;

        g_assert_cmpuint(want, >, 0);
        result = iwarp_mpa_parse(&parser, octets->data + at, n, &used, frame);
        g_assert_cmpuint(used, <=, n);
        if (result == IWARP_MPA_NEED_MORE) {
            g_assert_cmpuint(used, ==, n);
        }
        *taken += used;
        at += n;
        piece = step;
    }
    return result;
}

/* The same with all cuts in two and byte by byte; all must agree. */
static IwarpMpaResult parse(const char *text, bool want_reply,
                            IwarpMpaFrame *frame, gsize *taken)
{
    g_autoptr(GByteArray) octets = hex(text);
    IwarpMpaResult whole = parse_cut(octets, want_reply, octets->len,
                                     octets->len, frame, taken);

    for (gsize cut = 0; cut <= octets->len; cut++) {
        IwarpMpaFrame other;
        gsize other_taken;
        gsize first = cut ? cut : 1;
        gsize step = cut ? octets->len : 1;

        g_assert_cmpint(parse_cut(octets, want_reply, first, step, &other,
                                  &other_taken), ==, whole);
        if (whole == IWARP_MPA_OK) {
            g_assert_cmpuint(other_taken, ==, *taken);
            g_assert_cmpmem(&other, sizeof(other), frame, sizeof(*frame));
        }
    }
    return whole;
}

static IwarpMpaResult parse_error(const char *text, bool want_reply)
{
    IwarpMpaFrame frame;
    gsize taken;

    return parse(text, want_reply, &frame, &taken);
}

static void assert_encodes(const IwarpMpaFrame *frame, const char *text)
{
    g_autoptr(GByteArray) want = hex(text);
    guint8 out[IWARP_MPA_FRAME_MAX];

    assert_octets(out, iwarp_mpa_encode(frame, out), want);
}

static void test_plain_frames(void)
{
    IwarpMpaFrame f;
    gsize taken;

    /* C, revision 1, private data "hello", then two octets of an FPDU */
    g_assert_cmpint(parse(REQ "40 01 0005 68656c6c6f 0012", false, &f,
                          &taken), ==, IWARP_MPA_OK);
    g_assert_cmpuint(taken, ==, 25);
    g_assert_false(f.reply || f.markers || f.reject || f.enhanced);
    g_assert_true(f.crc);
    g_assert_cmpuint(f.revision, ==, 1);
    g_assert_cmpmem(f.pd, f.pd_len, "hello", 5);
    assert_encodes(&f, REQ "40 01 0005 68656c6c6f");

    /* M and R, no private data */
    g_assert_cmpint(parse(REP "a0 01 0000 ffff", true, &f, &taken), ==,
                    IWARP_MPA_OK);
    g_assert_cmpuint(taken, ==, 20);
    g_assert_true(f.reply && f.markers && f.reject);
    g_assert_false(f.crc || f.enhanced);
    g_assert_cmpuint(f.pd_len, ==, 0);
    assert_encodes(&f, REP "a0 01 0000");
}

/* What RFC 5044 says not to check: reserved bits, R in a Request. */
static void test_ignored_bits(void)
{
    IwarpMpaFrame f;
    gsize taken;

    g_assert_cmpint(parse(REQ "3f 01 0000", false, &f, &taken), ==,
                    IWARP_MPA_OK);
    g_assert_false(f.markers || f.crc || f.reject || f.enhanced);
    assert_encodes(&f, REQ "00 01 0000");

    /* S with revision 1 is a reserved bit: the 4 octets are the ULP's */
    g_assert_cmpint(parse(REQ "10 01 0004 80080008", false, &f, &taken), ==,
                    IWARP_MPA_OK);
    g_assert_false(f.enhanced);
    g_assert_cmpuint(f.pd_len, ==, 4);
}

static void test_enhanced_frames(void)
{
    IwarpMpaFrame f;
    gsize taken;

    /* the example of the RFC 6581 notes: A, IRD 8, Write and Read, ORD 8 */
    g_assert_cmpint(parse(REQ "50 02 0004 8008 c008", false, &f, &taken), ==,
                    IWARP_MPA_OK);
    g_assert_true(f.enhanced && f.crc && f.peer_to_peer);
    g_assert_cmpuint(f.rtr, ==, IWARP_RTR_WRITE | IWARP_RTR_READ);
    g_assert_cmpuint(f.ird, ==, 8);
    g_assert_cmpuint(f.ord, ==, 8);
    g_assert_cmpuint(f.pd_len, ==, 0);
    assert_encodes(&f, REQ "50 02 0004 8008 c008");

    /* A and B, IRD 0x3fff, ORD 1, two octets for the ULP */
    g_assert_cmpint(parse(REP "10 02 0006 ffff 0001 abcd", true, &f, &taken),
                    ==, IWARP_MPA_OK);
    g_assert_true(f.peer_to_peer);
    g_assert_cmpuint(f.rtr, ==, IWARP_RTR_SEND);
    g_assert_cmpuint(f.ird, ==, 0x3fff);
    g_assert_cmpuint(f.ord, ==, 1);
    g_assert_cmpmem(f.pd, f.pd_len, "\xab\xcd", 2);
    assert_encodes(&f, REP "10 02 0006 ffff 0001 abcd");

    /* revision 2 without S is a plain frame */
    g_assert_cmpint(parse(REQ "00 02 0004 8008 c008", false, &f, &taken), ==,
                    IWARP_MPA_OK);
    g_assert_false(f.enhanced);
    g_assert_cmpuint(f.pd_len, ==, 4);
}

static void test_bad_frames(void)
{
    /* not MPA at all, known from the first octet */
    g_assert_cmpint(parse_error("47", false), ==, IWARP_MPA_BAD_KEY);
    g_assert_cmpint(parse_error("474554202f20485454502f312e310d0a", false),
                    ==, IWARP_MPA_BAD_KEY);
    g_assert_cmpint(parse_error("4d504120494420526571204672616d66", false),
                    ==, IWARP_MPA_BAD_KEY);
    /* the two keys mixed */
    g_assert_cmpint(parse_error("4d504120494420526570204672616d66", false),
                    ==, IWARP_MPA_BAD_KEY);
    /* two initiators, two responders */
    g_assert_cmpint(parse_error(REQ "40010000", true), ==,
                    IWARP_MPA_WRONG_ROLE);
    g_assert_cmpint(parse_error(REP "40010000", false), ==,
                    IWARP_MPA_WRONG_ROLE);
    g_assert_cmpint(parse_error(REQ "40000000", false), ==,
                    IWARP_MPA_BAD_REVISION);
    g_assert_cmpint(parse_error(REQ "40030000", false), ==,
                    IWARP_MPA_BAD_REVISION);
    g_assert_cmpint(parse_error(REP "40ff0000", true), ==,
                    IWARP_MPA_BAD_REVISION);
    g_assert_cmpint(parse_error(REQ "40010201", false), ==,
                    IWARP_MPA_PD_TOO_LONG);
    g_assert_cmpint(parse_error(REP "4002ffff", true), ==,
                    IWARP_MPA_PD_TOO_LONG);
    for (int len = 0; len < 4; len++) {
        g_autofree char *text = g_strdup_printf(REQ "5002000%d 000000", len);

        g_assert_cmpint(parse_error(text, false), ==,
                        IWARP_MPA_PD_NO_ENHANCED);
    }
}

/* Every shorter frame is only incomplete. */
static void test_truncated(void)
{
    g_autoptr(GByteArray) all = hex(REQ "50 02 0006 8008 c008 0102");

    for (guint len = 0; len < all->len; len++) {
        IwarpMpaParser p;
        IwarpMpaFrame frame;
        gsize used;

        iwarp_mpa_parser_init(&p, false, 2);
        g_assert_cmpint(iwarp_mpa_parse(&p, all->data, len, &used, &frame),
                        ==, IWARP_MPA_NEED_MORE);
        g_assert_cmpuint(iwarp_mpa_parser_want(&p), ==,
                         (len < 20 ? 20 : all->len) - len);
    }
}

/* A revision-1 end refuses revision 2; a finished parser takes no more. */
static void test_parser_limits(void)
{
    g_autoptr(GByteArray) two = hex(REQ "40 02 0000");
    g_autoptr(GByteArray) one = hex(REQ "40 01 0000");
    IwarpMpaFrame frame;
    IwarpMpaParser p;
    gsize used;

    iwarp_mpa_parser_init(&p, false, 1);
    g_assert_cmpint(iwarp_mpa_parse(&p, two->data, 20, &used, &frame), ==,
                    IWARP_MPA_BAD_REVISION);
    g_assert_cmpuint(iwarp_mpa_parser_want(&p), ==, 0);
    g_assert_cmpint(iwarp_mpa_parse(&p, one->data, 20, &used, &frame), ==,
                    IWARP_MPA_BAD_REVISION);
    g_assert_cmpuint(used, ==, 0);

    iwarp_mpa_parser_init(&p, false, 1);
    g_assert_cmpint(iwarp_mpa_parse(&p, one->data, 20, &used, &frame), ==,
                    IWARP_MPA_OK);
    g_assert_cmpint(iwarp_mpa_parse(&p, one->data, 20, &used, &frame), ==,
                    IWARP_MPA_OK);
    g_assert_cmpuint(used, ==, 0);
}

static void test_private_data(void)
{
    IwarpMpaFrame f = { .revision = 2 };
    IwarpMpaFrame back;
    IwarpMpaParser p;
    guint8 pd[600];
    guint8 out[IWARP_MPA_FRAME_MAX];
    gsize used;

    memset(pd, 0x5a, sizeof(pd));
    g_assert_true(iwarp_mpa_set_pd(&f, pd, 512));
    g_assert_false(iwarp_mpa_set_pd(&f, pd, 513));
    g_assert_cmpuint(f.pd_len, ==, 512);
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 532);
    g_assert_cmpmem(out + 16, 4, "\x00\x02\x02\x00", 4);
    iwarp_mpa_parser_init(&p, false, 2);
    g_assert_cmpint(iwarp_mpa_parse(&p, out, 532, &used, &back), ==,
                    IWARP_MPA_OK);
    g_assert_cmpmem(back.pd, back.pd_len, pd, 512);

    f.enhanced = true;
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 0);
    g_assert_false(iwarp_mpa_set_pd(&f, pd, 509));
    g_assert_true(iwarp_mpa_set_pd(&f, pd, 508));
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 532);
    f.revision = 1;
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 0);
    f.revision = 2;
    f.ird = 0x4000;
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 0);
    f.ird = 0;
    f.ord = 0xffff;
    g_assert_cmpuint(iwarp_mpa_encode(&f, out), ==, 0);
}

/* Both sides in one go; the Reply is returned for further looks. */
static IwarpMpaResult negotiate(const IwarpMpaPolicy *initiator,
                                const IwarpMpaPolicy *responder,
                                IwarpMpaFrame *reply, IwarpMpaAgreed *ours,
                                IwarpMpaAgreed *theirs)
{
    IwarpMpaFrame request;

    iwarp_mpa_request(initiator, &request);
    iwarp_mpa_accept(responder, &request, reply, theirs);
    return iwarp_mpa_conclude(initiator, &request, reply, ours);
}

/* The tables of facts 3.2: CRC if either wants it, markers each way alone. */
static void test_crc_and_markers(void)
{
    for (int bits = 0; bits < 16; bits++) {
        IwarpMpaPolicy a = { .revision = 1, .crc = bits & 1,
                             .markers = bits & 2 };
        IwarpMpaPolicy b = { .revision = 1, .crc = bits & 4,
                             .markers = bits & 8 };
        bool crc = bits & 5;
        IwarpMpaFrame reply;
        IwarpMpaAgreed i, r;

        g_assert_cmpint(negotiate(&a, &b, &reply, &i, &r), ==, IWARP_MPA_OK);
        g_assert_true(i.crc == crc && r.crc == crc);
        g_assert_true(i.rx_markers == a.markers && r.tx_markers == a.markers);
        g_assert_true(i.tx_markers == b.markers && r.rx_markers == b.markers);
        g_assert_cmpuint(i.revision, ==, 1);
        g_assert_false(i.enhanced || r.enhanced);
    }
}

static void test_depths(void)
{
    IwarpMpaPolicy a = { .revision = 2, .enhanced = true, .ird = 4, .ord = 9,
                         .ird_limit = 32 };
    IwarpMpaPolicy b = { .revision = 2, .ird = 6, .ord = 16 };
    IwarpMpaFrame reply;
    IwarpMpaAgreed i, r;

    /* responder's ORD is cut to the initiator's IRD, and the reverse */
    g_assert_cmpint(negotiate(&a, &b, &reply, &i, &r), ==, IWARP_MPA_OK);
    assert_encodes(&reply, REP "10 02 0004 0006 0004");
    g_assert_cmpuint(r.ird, ==, 6);
    g_assert_cmpuint(r.ord, ==, 4);
    g_assert_cmpuint(i.ird, ==, 4);
    g_assert_cmpuint(i.ord, ==, 6);
    g_assert_cmpuint(r.peer_ird, ==, 4);
    g_assert_cmpuint(r.peer_ord, ==, 9);
    g_assert_cmpuint(i.peer_ird, ==, 6);
    g_assert_cmpuint(i.peer_ord, ==, 4);

    /* a plain Request leaves the depths to each side */
    a.enhanced = false;
    g_assert_cmpint(negotiate(&a, &b, &reply, &i, &r), ==, IWARP_MPA_OK);
    assert_encodes(&reply, REP "00 02 0000");
    g_assert_cmpuint(i.ird, ==, 4);
    g_assert_cmpuint(i.ord, ==, 9);
    g_assert_cmpuint(r.ird, ==, 6);
    g_assert_cmpuint(r.ord, ==, 16);
    g_assert_cmpuint(i.peer_ird, ==, 0x3fff);
    g_assert_cmpuint(r.peer_ord, ==, 0x3fff);
}

/* RFC 6581 section 9.1: 0x3fff means "not negotiated here". */
static void test_depths_unset(void)
{
    IwarpMpaPolicy a = { .revision = 2, .enhanced = true, .ird = 0x3fff,
                         .ord = 0x3fff };
    IwarpMpaPolicy b = { .revision = 2, .ird = 6, .ord = 16 };
    IwarpMpaFrame reply;
    IwarpMpaAgreed i, r;

    g_assert_cmpint(negotiate(&a, &b, &reply, &i, &r), ==, IWARP_MPA_OK);
    assert_encodes(&reply, REP "10 02 0004 3fff 3fff");
    g_assert_cmpuint(r.ird, ==, 6);
    g_assert_cmpuint(r.ord, ==, 16);
    g_assert_cmpuint(i.ird, ==, 0x3fff);
    g_assert_cmpuint(i.ord, ==, 0x3fff);
}

/* A Reply that needs more IRD than announced. */
static void test_depths_raised(void)
{
    IwarpMpaPolicy a = { .revision = 2, .enhanced = true, .ird = 4, .ord = 4,
                         .ird_limit = 8 };
    IwarpMpaFrame request;
    IwarpMpaFrame reply;
    IwarpMpaAgreed agreed;
    gsize taken;
    bool send;

    iwarp_mpa_request(&a, &request);
    assert_encodes(&request, REQ "10 02 0004 0004 0004");
    parse(REP "10 02 0004 0004 0008", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&a, &request, &reply, &agreed), ==,
                    IWARP_MPA_OK);
    g_assert_cmpuint(agreed.ird, ==, 8);
    parse(REP "10 02 0004 0004 0009", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&a, &request, &reply, &agreed), ==,
                    IWARP_MPA_NO_IRD);
    g_assert_cmpuint(agreed.peer_ord, ==, 9);
    g_assert_cmphex(iwarp_mpa_result_term(IWARP_MPA_NO_IRD, &send), ==,
                    0x2006);
    g_assert_true(send);
}

/* The RTR kind, for what the initiator and the responder can. */
static void test_rtr(void)
{
    for (guint8 can = 1; can < 8; can++) {
        for (guint8 takes = 0; takes < 8; takes++) {
            IwarpMpaPolicy a = { .revision = 2, .enhanced = true,
                                 .peer_to_peer = true, .rtr = can, .ird = 1 };
            IwarpMpaPolicy b = { .revision = 2, .rtr = takes, .ird = 1 };
            guint8 both = can & takes;
            IwarpMpaFrame reply;
            IwarpMpaAgreed i, r;
            IwarpMpaResult result = negotiate(&a, &b, &reply, &i, &r);

            g_assert_true(reply.peer_to_peer && r.peer_to_peer);
            g_assert_cmpuint(reply.rtr, !=, 0);
            g_assert_cmpuint(reply.rtr, ==, r.rtr);
            if (both) {
                g_assert_cmpint(result, ==, IWARP_MPA_OK);
                g_assert_cmpuint(reply.rtr, ==, both);
                g_assert_cmpuint(i.rtr, ==, both & 2 ? 2 : both & 4 ? 4 : 1);
            } else if (can & reply.rtr) {
                g_assert_cmpint(result, ==, IWARP_MPA_OK);
            } else {
                g_assert_cmpint(result, ==, IWARP_MPA_NO_RTR);
            }
        }
    }
}

static void test_rtr_edges(void)
{
    IwarpMpaPolicy a = { .revision = 2, .enhanced = true,
                         .peer_to_peer = true, .rtr = IWARP_RTR_READ };
    IwarpMpaPolicy b = { .revision = 2, .rtr = IWARP_RTR_ALL };
    IwarpMpaFrame request, reply;
    IwarpMpaAgreed i, r;
    gsize taken;
    bool send;

    /* a Read needs an IRD: the responder raises it from 0 */
    g_assert_cmpint(negotiate(&a, &b, &reply, &i, &r), ==, IWARP_MPA_OK);
    assert_encodes(&reply, REP "10 02 0004 8001 4000");
    g_assert_cmpuint(r.ird, ==, 1);

    /* a responder that leaves it at 0 cannot be sent a Read */
    iwarp_mpa_request(&a, &request);
    assert_encodes(&request, REQ "10 02 0004 8000 4000");
    parse(REP "10 02 0004 8000 4000", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&a, &request, &reply, &i), ==,
                    IWARP_MPA_NO_RTR);
    g_assert_cmphex(iwarp_mpa_result_term(IWARP_MPA_NO_RTR, &send), ==,
                    0x2007);
    g_assert_true(send);

    /* client-server: B, C and D are zero in the Request, ignored if set */
    a.peer_to_peer = false;
    iwarp_mpa_request(&a, &request);
    assert_encodes(&request, REQ "10 02 0004 0000 0000");
    parse(REQ "10 02 0004 4000 c000", false, &request, &taken);
    iwarp_mpa_accept(&b, &request, &reply, &r);
    assert_encodes(&reply, REP "10 02 0004 0000 0000");
    g_assert_false(r.peer_to_peer);
    g_assert_cmpuint(r.rtr, ==, 0);
}

static void test_reject(void)
{
    IwarpMpaPolicy a = { .revision = 2, .enhanced = true, .ird = 2, .ord = 2 };
    IwarpMpaPolicy b = { .revision = 2, .ird = 5, .ord = 7 };
    IwarpMpaFrame request, reply;
    IwarpMpaAgreed agreed;

    /* enhanced to enhanced, with the ORD that would be needed */
    iwarp_mpa_request(&a, &request);
    iwarp_mpa_reject(&b, &request, &reply);
    g_assert_true(iwarp_mpa_set_pd(&reply, "no", 2));
    assert_encodes(&reply, REP "30 02 0006 0005 0007 6e6f");
    g_assert_cmpint(iwarp_mpa_conclude(&a, &request, &reply, &agreed), ==,
                    IWARP_MPA_REJECTED);
    g_assert_cmpuint(agreed.peer_ord, ==, 7);

    /* plain to plain */
    a.enhanced = false;
    a.revision = 1;
    iwarp_mpa_request(&a, &request);
    iwarp_mpa_reject(&b, &request, &reply);
    assert_encodes(&reply, REP "20 01 0000");
    g_assert_cmpint(iwarp_mpa_conclude(&a, &request, &reply, &agreed), ==,
                    IWARP_MPA_REJECTED);
}

/* Replies that do not fit the Request (RFC 6581 section 10). */
static void test_mismatch(void)
{
    IwarpMpaPolicy enhanced = { .revision = 2, .enhanced = true };
    IwarpMpaPolicy plain = { .revision = 2 };
    IwarpMpaPolicy old = { .revision = 1 };
    IwarpMpaFrame request, reply;
    IwarpMpaAgreed agreed;
    gsize taken;

    iwarp_mpa_request(&enhanced, &request);
    parse(REP "00 02 0000", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&enhanced, &request, &reply, &agreed),
                    ==, IWARP_MPA_NOT_ENHANCED);
    parse(REP "10 01 0004 00000000", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&enhanced, &request, &reply, &agreed),
                    ==, IWARP_MPA_NOT_ENHANCED);

    iwarp_mpa_request(&plain, &request);
    parse(REP "10 02 0004 00000000", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&plain, &request, &reply, &agreed), ==,
                    IWARP_MPA_UNASKED_ENHANCED);

    iwarp_mpa_request(&old, &request);
    g_assert_cmpuint(request.revision, ==, 1);
    parse(REP "00 02 0000", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&old, &request, &reply, &agreed), ==,
                    IWARP_MPA_REVISION_RAISED);

    /* a revision-1 responder answers a plain revision-2 Request with 1 */
    iwarp_mpa_request(&plain, &request);
    iwarp_mpa_accept(&old, &request, &reply, &agreed);
    assert_encodes(&reply, REP "00 01 0000");
    g_assert_cmpint(iwarp_mpa_conclude(&plain, &request, &reply, &agreed), ==,
                    IWARP_MPA_OK);
    g_assert_cmpuint(agreed.revision, ==, 1);
}

/* Frames as Linux siw makes them, both ways. */
static void test_siw(void)
{
    IwarpMpaPolicy us = { .revision = 2, .enhanced = true, .crc = true,
                          .ird = 16, .ord = 16, .ird_limit = 128,
                          .peer_to_peer = true, .rtr = IWARP_RTR_ALL };
    IwarpMpaFrame request, reply;
    IwarpMpaAgreed agreed;
    gsize taken;

    /* its Request: revision 2, S, no CRC, A to D clear */
    parse(REQ "10 02 0004 0080 0080", false, &request, &taken);
    iwarp_mpa_accept(&us, &request, &reply, &agreed);
    assert_encodes(&reply, REP "50 02 0004 0010 0010");
    g_assert_true(agreed.crc);
    g_assert_cmpuint(agreed.rtr, ==, 0);

    /* its peer-to-peer Request offers Write and Read */
    parse(REQ "10 02 0004 8001 c001", false, &request, &taken);
    iwarp_mpa_accept(&us, &request, &reply, &agreed);
    assert_encodes(&reply, REP "50 02 0004 8010 c001");

    /* its Reply repeats our header and chooses the Write */
    iwarp_mpa_request(&us, &request);
    assert_encodes(&request, REQ "50 02 0004 c010 c010");
    parse(REP "50 02 0004 8010 8010", true, &reply, &taken);
    g_assert_cmpint(iwarp_mpa_conclude(&us, &request, &reply, &agreed), ==,
                    IWARP_MPA_OK);
    g_assert_cmpuint(agreed.rtr, ==, IWARP_RTR_WRITE);
    g_assert_true(agreed.crc);
    g_assert_cmpuint(agreed.ird, ==, 16);
    g_assert_cmpuint(agreed.ord, ==, 16);
}

static void test_names(void)
{
    for (int i = 0; i < IWARP_MPA_RESULT__MAX; i++) {
        bool send;

        g_assert_nonnull(iwarp_mpa_result_name(i));
        if (i >= IWARP_MPA_BAD_KEY && i != IWARP_MPA_REJECTED) {
            IwarpTermCode term = iwarp_mpa_result_term(i, &send);

            g_assert_nonnull(iwarp_term_name(term));
            g_assert_cmpuint(term >> 8, ==, 0x20);
        }
    }
    g_assert_cmpstr(iwarp_mpa_result_name(99), ==, "?");
}

/* Random octets with a likely key: nothing but a result may come of it. */
static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(5044);

    for (int round = 0; round < 20000; round++) {
        g_autoptr(GByteArray) data = hex(round & 1 ? REQ : REP);
        guint extra = g_rand_int_range(rand, 0, 80);
        IwarpMpaFrame frame;
        gsize taken;

        for (guint i = 0; i < extra; i++) {
            add_fill(data, (guint8)g_rand_int_range(rand, 0, 256), 1);
        }
        if (data->len > 17 && round % 3) {
            data->data[17] = (guint8)g_rand_int_range(rand, 0, 4);
        }
        if (data->len > 18 && round % 5) {
            data->data[18] = (guint8)g_rand_int_range(rand, 0, 3);
        }
        if (round % 7 == 0) {
            data->data[g_rand_int_range(rand, 0, data->len)] ^= 4;
        }
        parse_cut(data, round & 2, 1 + g_rand_int_range(rand, 0, 30),
                  1 + g_rand_int_range(rand, 0, 30), &frame, &taken);
    }
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/mpa/plain-frames", test_plain_frames);
    g_test_add_func("/iwarp/mpa/ignored-bits", test_ignored_bits);
    g_test_add_func("/iwarp/mpa/enhanced-frames", test_enhanced_frames);
    g_test_add_func("/iwarp/mpa/bad-frames", test_bad_frames);
    g_test_add_func("/iwarp/mpa/truncated", test_truncated);
    g_test_add_func("/iwarp/mpa/parser-limits", test_parser_limits);
    g_test_add_func("/iwarp/mpa/private-data", test_private_data);
    g_test_add_func("/iwarp/mpa/crc-and-markers", test_crc_and_markers);
    g_test_add_func("/iwarp/mpa/depths", test_depths);
    g_test_add_func("/iwarp/mpa/depths-unset", test_depths_unset);
    g_test_add_func("/iwarp/mpa/depths-raised", test_depths_raised);
    g_test_add_func("/iwarp/mpa/rtr", test_rtr);
    g_test_add_func("/iwarp/mpa/rtr-edges", test_rtr_edges);
    g_test_add_func("/iwarp/mpa/reject", test_reject);
    g_test_add_func("/iwarp/mpa/mismatch", test_mismatch);
    g_test_add_func("/iwarp/mpa/siw", test_siw);
    g_test_add_func("/iwarp/mpa/names", test_names);
    g_test_add_func("/iwarp/mpa/random", test_random);
    return g_test_run();
}
