/*
 * Unit tests of the protocol engine: Terminate
 *
 * RFC 5040 section 4.8 as we send it, and all layouts that peers are known to
 * send.  Messages are written out in hex here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/stream-tx.h"
#include "hw/rnic/iwarp/terminate.h"

#define DDP_TERMINATE "4147 00000000 00000002 00000001 00000000"
#define WRITE_HEADER "c140 deadbeef 0102030405060708"
#define SEND_HEADER "4144 11223344 00000000 00000009 00000010"
#define READ_DDP "4141 00000000 00000001 00000003 00000000"
#define READ_HEADER "01020304 05060708090a0b0c 0d0e0f10 11121314 " \
                    "15161718191a1b1c"

static IwarpEcho make_echo(guint16 len, const char *ddp, const char *rdma)
{
    g_autoptr(GByteArray) d = hex(ddp);
    g_autoptr(GByteArray) r = hex(rdma);
    IwarpEcho echo = { .segment_len = len, .ddp_len = (guint8)d->len,
                       .rdma_len = (guint8)r->len };

    g_assert_cmpuint(d->len, <=, sizeof(echo.ddp));
    g_assert_cmpuint(r->len, <=, sizeof(echo.rdma));
    if (d->len) {
        memcpy(echo.ddp, d->data, d->len);
    }
    if (r->len) {
        memcpy(echo.rdma, r->data, r->len);
    }
    return echo;
}

/* The whole Terminate for @error is the FPDU @text, CRC in use. */
static void assert_fpdu(const IwarpError *error, const char *text)
{
    g_autoptr(GByteArray) want = hex(text);
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    IwarpTxConfig config = { .crc = true };
    guint8 got[IWARP_TERMINATE_WIRE_MAX];
    IwarpTx tx;

    iwarp_tx_init(&tx, &config);
    assert_octets(got, iwarp_tx_terminate(&tx, error, frame, got), want);
    g_assert_cmpuint(frame->len, ==, want->len);
    iwarp_tx_commit(&tx, frame);
    g_assert_cmpuint(tx.msn[IWARP_QN_TERMINATE], ==, 2);
}

/* The Terminate's RDMAP header for @error is @text. */
static void assert_header(const IwarpError *error, const char *text)
{
    g_autoptr(GByteArray) want = hex(text);
    guint8 out[IWARP_TERMINATE_MAX];

    assert_octets(out, iwarp_terminate_encode(error, out), want);
}

/* The worked examples of the RDMAP notes, CRC included. */
static void test_examples(void)
{
    IwarpError error = iwarp_error_local(IWARP_TERM_OPCODE);

    assert_fpdu(&error, "0016 " DDP_TERMINATE "02060000 6f77b973");
    error = iwarp_error_local(IWARP_TERM_CRC);
    assert_fpdu(&error, "0016 " DDP_TERMINATE "20020000 7fe42585");
    error = iwarp_error_local(IWARP_TERM_TAGGED_STAG);
    error.echo = make_echo(22, "c140 deadbe00 0000000000001000", "");
    assert_fpdu(&error, "0026 " DDP_TERMINATE "1100c000 0016 "
                "c140 deadbe00 0000000000001000 f164be55");
    shows("R4.8-1 R5.4-1");
}

/* Every term code with its M, D and R, for each kind of segment. */
static void assert_header_control(void)
{
    static const struct {
        guint16 term;
        guint8 write, send, read;   /* octet 2 of the header */
    } rows[] = {
        { 0x0000, 0x00, 0x00, 0x00 },
        { 0x0100, 0xc0, 0xc0, 0xe0 }, { 0x0101, 0xc0, 0xc0, 0xe0 },
        { 0x0102, 0xc0, 0xc0, 0xe0 }, { 0x0103, 0xc0, 0xc0, 0xe0 },
        { 0x0104, 0xc0, 0xc0, 0xe0 }, { 0x0109, 0xc0, 0xc0, 0xe0 },
        { 0x01ff, 0xc0, 0xc0, 0xe0 },
        { 0x0205, 0xc0, 0xc0, 0xe0 }, { 0x0206, 0xc0, 0xc0, 0xe0 },
        { 0x0207, 0xc0, 0xc0, 0xe0 }, { 0x0208, 0xc0, 0xc0, 0xe0 },
        { 0x0209, 0xc0, 0xc0, 0xe0 }, { 0x02ff, 0xc0, 0xc0, 0xe0 },
        { 0x1000, 0xc0, 0xc0, 0xc0 },
        { 0x1100, 0xc0, 0xc0, 0xc0 }, { 0x1101, 0xc0, 0xc0, 0xc0 },
        { 0x1102, 0xc0, 0xc0, 0xc0 }, { 0x1103, 0xc0, 0xc0, 0xc0 },
        { 0x1104, 0xc0, 0xc0, 0xc0 },
        { 0x1201, 0xc0, 0xc0, 0xc0 }, { 0x1202, 0xc0, 0xc0, 0xc0 },
        { 0x1203, 0xc0, 0xc0, 0xc0 }, { 0x1204, 0xc0, 0xc0, 0xc0 },
        { 0x1205, 0xc0, 0xc0, 0xc0 }, { 0x1206, 0xc0, 0xc0, 0xc0 },
        { 0x2001, 0x00, 0x00, 0x00 }, { 0x2002, 0x00, 0x00, 0x00 },
        { 0x2003, 0x00, 0x00, 0x00 }, { 0x2004, 0x00, 0x00, 0x00 },
        { 0x2005, 0x00, 0x00, 0x00 }, { 0x2006, 0x00, 0x00, 0x00 },
        { 0x2007, 0x00, 0x00, 0x00 },
    };
    IwarpEcho echoes[3] = {
        make_echo(0x1234, WRITE_HEADER, ""),
        make_echo(0x1234, SEND_HEADER, ""),
        make_echo(46, READ_DDP, READ_HEADER),
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        guint8 control[3] = { rows[i].write, rows[i].send, rows[i].read };
        const char *texts[3] = {
            ("1234" WRITE_HEADER), ("1234" SEND_HEADER), ("002e" READ_DDP),
        };

        g_assert_nonnull(iwarp_term_name(rows[i].term));
        for (int kind = 0; kind < 3; kind++) {
            IwarpError error = { .term = rows[i].term, .echo = echoes[kind] };
            g_autofree char *text = g_strdup_printf(
                "%04x %02x 00 %s %s", rows[i].term, control[kind],
                control[kind] ? texts[kind] : "",
                control[kind] & 0x20 ? READ_HEADER : "");

            assert_header(&error, text);
        }
    }
}

static void test_header_control(void)
{
    assert_header_control();
    shows("R4.8-6 R4.8-7 R4.8-8 R4.8-9");
}

static void test_no_echo(void)
{
    IwarpError error = iwarp_error_local(IWARP_TERM_NO_BUFFER);

    assert_header(&error, "12020000");
    /* an echo of an impossible length is not sent */
    error.echo.ddp_len = 17;
    assert_header(&error, "12020000");
    error.echo.ddp_len = 255;
    assert_header(&error, "12020000");
    error = iwarp_error_local(IWARP_TERM(0, 0, 0xff));
    assert_header(&error, "00ff0000");
}

/* A Read that failed after 2048 of its octets, as RFC 5040's example. */
static void test_advance(void)
{
    IwarpError error = { .term = IWARP_TERM_READ_STAG };

    error.echo = make_echo(46, READ_DDP, "00000001 00000000ffffff00 00001000 "
                           "00000002 fffffffffffffc00");
    iwarp_echo_advance_read(&error.echo, 2048);
    assert_header(&error, "0100e000 002e" READ_DDP
                  "00000001 0000000100000700 00000800 00000002 "
                  "0000000000000400");
    iwarp_echo_advance_read(&error.echo, 99999);    /* no more than the size */
    assert_header(&error, "0100e000 002e" READ_DDP
                  "00000001 0000000100000f00 00000000 00000002 "
                  "0000000000000c00");

    error.echo = make_echo(22, WRITE_HEADER, "");
    iwarp_echo_advance_read(&error.echo, 2048);
    assert_header(&error, "0100c000 0016" WRITE_HEADER);
}

/* Decode @text, which must have at least 4 octets. */
static IwarpTerminate decode(const char *text)
{
    g_autoptr(GByteArray) in = hex(text);
    IwarpTerminate t;

    g_assert_true(iwarp_terminate_decode(&t, in->data, in->len));
    return t;
}

static void test_decode(void)
{
    IwarpTerminate t = decode("02060000");
    g_autoptr(GByteArray) write = hex(WRITE_HEADER);

    g_assert_cmphex(t.term, ==, 0x0206);
    g_assert_false(t.siw_layout || t.has_length || t.has_ddp || t.has_read);

    t = decode("1100c000 0016" WRITE_HEADER);
    g_assert_cmphex(t.term, ==, 0x1100);
    g_assert_true(t.has_length && t.has_ddp && !t.has_read && !t.siw_layout);
    g_assert_cmpuint(t.segment_len, ==, 22);
    g_assert_cmpmem(t.ddp, t.ddp_len, write->data, write->len);

    t = decode("0102e000 002e" READ_DDP READ_HEADER);
    g_assert_true(t.has_ddp && t.has_read);
    g_assert_cmpuint(t.ddp_len, ==, 18);
    g_assert_cmphex(t.read.sink_stag, ==, 0x01020304);
    g_assert_cmphex(t.read.size, ==, 0x0d0e0f10);
    g_assert_cmphex(t.read.source_to, ==,
                    G_GUINT64_CONSTANT(0x15161718191a1b1c));

    /* M without D has the length alone; D without M has both */
    t = decode("11008000 0016 ffff");
    g_assert_true(t.has_length && !t.has_ddp);
    t = decode("11004000 0016" WRITE_HEADER);
    g_assert_true(t.has_length && t.has_ddp);
    /* headers that are not announced may be there as zeroes */
    t = decode("02060000 0000 00000000 00000000");
    g_assert_false(t.has_length || t.has_ddp || t.has_read);
    /* nor is a Read header taken where the echo is of something else */
    t = decode("0109e000 0012" SEND_HEADER READ_HEADER);
    g_assert_true(t.has_ddp && !t.has_read);
}

/* The 13 reserved bits set change nothing. */
static void test_decode_reserved(void)
{
    IwarpTerminate t = decode("02061fff");

    g_assert_cmphex(t.term, ==, 0x0206);
    g_assert_false(t.siw_layout || t.has_length);
    t = decode("1100dfff 0016" WRITE_HEADER);
    g_assert_cmphex(t.term, ==, 0x1100);
    g_assert_true(t.has_ddp && !t.has_read && !t.siw_layout);
    t = decode("0100ffff 002e" READ_DDP READ_HEADER);
    g_assert_true(t.has_read);

    assert_header_control();    /* zero when sent */
    shows("R4.8-5");
}

/* Linux siw on a little-endian host: nibbles and flags the other way round. */
static void test_decode_siw(void)
{
    IwarpTerminate t = decode("21030300 0012" SEND_HEADER);

    g_assert_true(t.siw_layout && t.has_length && t.has_ddp && !t.has_read);
    g_assert_cmphex(t.term, ==, 0x1203);
    t = decode("10000700 002e" READ_DDP READ_HEADER);
    g_assert_true(t.siw_layout && t.has_read);
    g_assert_cmphex(t.term, ==, 0x0100);
    /* M, D and R, but only a Send's header behind: lengths win */
    t = decode("10090700 0012" SEND_HEADER);
    g_assert_true(t.siw_layout && t.has_ddp && !t.has_read);
    g_assert_cmphex(t.term, ==, 0x0109);

    /* no headers: the reading that is registered */
    t = decode("02020000");
    g_assert_true(t.siw_layout);
    g_assert_cmphex(t.term, ==, 0x2002);
    t = decode("20070000");     /* both are: the RFC's */
    g_assert_false(t.siw_layout);
    g_assert_cmphex(t.term, ==, 0x2007);
    t = decode("02060000");
    g_assert_cmphex(t.term, ==, 0x0206);
    t = decode("00ff0000");     /* its SQ error state */
    g_assert_cmphex(t.term, ==, 0x00ff);
    g_assert_nonnull(iwarp_term_name(t.term));
    /* neither is: as it stands (some hardware's CRC error) */
    t = decode("23020000");
    g_assert_false(t.siw_layout);
    g_assert_cmphex(t.term, ==, 0x2302);
    g_assert_null(iwarp_term_name(t.term));
}

/* Cut off anywhere: what is there is told, what is not is not. */
static void test_decode_short(void)
{
    static const char *const texts[] = {
        ("0102e000 002e" READ_DDP READ_HEADER),
        ("20010700 002e" READ_DDP READ_HEADER),
        ("1100c000 0016" WRITE_HEADER),
    };

    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GByteArray) all = hex(texts[i]);
        gsize ddp = all->data[6] & 0x80 ? 14 : 18;

        for (gsize len = 0; len <= all->len; len++) {
            /* a block of exactly this size, so that an overrun is seen */
            g_autofree guint8 *in = g_malloc(len + !len);
            IwarpTerminate t;

            memcpy(in, all->data, len);
            g_assert_true(iwarp_terminate_decode(&t, in, len) == (len >= 4));
            g_assert_true(t.has_length == (len >= 6));
            g_assert_true(t.has_ddp == (len >= 6 + ddp));
            g_assert_cmpuint(t.ddp_len, ==, t.has_ddp ? ddp : 0);
            g_assert_true(t.has_read == (ddp == 18 && len >= 52));
        }
    }
}

/* Feed @segment to a receive half; the Terminate that answers it is @want. */
static void assert_answer(const char *segment, IwarpTermCode verdict,
                          const char *want)
{
    PlainStream s = plain_stream(true, false);
    g_autoptr(GByteArray) octets = s.out;
    g_autoptr(GString) log = g_string_new(NULL);
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = IWARP_RX_BUFFER_MIN, .crc = true,
        .opcodes = IWARP_OPS_RFC5040,
    };
    IwarpRx rx;

    plain_fpdu_hex(&s, segment);
    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, octets->data, octets->len);
    if (rx_drain(&rx, log)) {
        iwarp_rx_reject(&rx, verdict);
    }
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_ERROR);
    assert_header(&rx.error, want);
}

/* From the peer's octets to our answer. */
static void test_answers(void)
{
    assert_answer("c140 deadbe00 0000000000001000 0102030405060708",
                  IWARP_TERM_TAGGED_STAG,
                  "1100c000 0016 c140 deadbe00 0000000000001000");
    assert_answer("4143 00000000 00000007 00000001 00000000 01", 0,
                  "1201c000 0013 4143 00000000 00000007 00000001 00000000");
    assert_answer("4141 00000000 00000001 00000001 00000000" READ_HEADER,
                  IWARP_TERM_READ_ACCESS,
                  "0102e000 002e 4141 00000000 00000001 00000001 00000000"
                  READ_HEADER);
    assert_answer("4144 aabbccdd 00000000 00000001 00000000 0102",
                  IWARP_TERM_INVALIDATE_UNKNOWN,
                  "0209c000 0014 4144 aabbccdd 00000000 00000001 00000000");
    assert_answer("414a 00000000 00000001 00000001 00000000", 0,
                  "0206c000 0012 414a 00000000 00000001 00000001 00000000");
    assert_answer("4043 00000000 00000000 00000001 00000000", 0, "12060000");
    assert_answer("c1", 0, "20030000");
}

/* An incoming Terminate, through the receive half. */
static void test_received(void)
{
    PlainStream s = plain_stream(true, false);
    g_autoptr(GByteArray) octets = s.out;
    g_autoptr(GString) log = g_string_new(NULL);
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = IWARP_RX_BUFFER_MIN, .crc = true,
        .opcodes = IWARP_OPS_RFC5040,
    };
    IwarpRx rx;

    plain_fpdu_hex(&s, DDP_TERMINATE "0102e000 002e" READ_DDP READ_HEADER);
    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, octets->data, octets->len);
    g_assert_true(rx_drain(&rx, log));
    g_assert_cmpuint(rx.segment.opcode, ==, IWARP_OP_TERMINATE);
    g_assert_cmphex(rx.segment.u.terminate.term, ==, 0x0102);
    g_assert_true(rx.segment.u.terminate.has_read);
    g_assert_true(iwarp_rx_idle(&rx));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/terminate/examples", test_examples);
    g_test_add_func("/iwarp/terminate/header-control", test_header_control);
    g_test_add_func("/iwarp/terminate/no-echo", test_no_echo);
    g_test_add_func("/iwarp/terminate/advance", test_advance);
    g_test_add_func("/iwarp/terminate/decode", test_decode);
    g_test_add_func("/iwarp/terminate/decode-reserved", test_decode_reserved);
    g_test_add_func("/iwarp/terminate/decode-siw", test_decode_siw);
    g_test_add_func("/iwarp/terminate/decode-short", test_decode_short);
    g_test_add_func("/iwarp/terminate/answers", test_answers);
    g_test_add_func("/iwarp/terminate/received", test_received);
    return g_test_run();
}
