/*
 * Unit tests of the protocol engine: MPA framing, both halves of a stream
 *
 * RFC 5044 section 4: length, pad, CRC, markers, and that the receiver takes
 * any cut of the octets.  Frames are RFC 5044's figures, worked examples in
 * hex, and those of the plain framer of wire.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/mpa-fpdu.h"
#include "hw/rnic/iwarp/stream-tx.h"

#define ZERO24 "000000000000000000000000000000000000000000000000"

/* RFC 5044 figure 5: marker, length, Send, MSN 1, 24 octets, CRC. */
#define FIGURE_5 "00000000 002a 4143 00000000 00000000 00000001 00000000" \
                 ZERO24 "52239983"

/* RFC 5044 figure 6: the same with MSN 2, and the marker 20 octets in. */
#define FIGURE_6 "002a 4143 00000000 00000000 00000002 00000000" \
                 "00000014" ZERO24 "84925898"

static void assert_transcript(const RxScript *script, const GByteArray *octets,
                              const char *want)
{
    g_autofree char *got = rx_read(script, octets);

    g_assert_cmpstr(got, ==, want);
}

/* Every cut in two and byte by byte gives @want, whatever the buffer held. */
static void assert_all_cuts(const RxScript *base, const GByteArray *octets,
                            const char *want)
{
    for (gsize cut = 0; cut <= octets->len; cut++) {
        RxScript script = *base;
        g_autofree char *got = NULL;

        script.dirt = cut & 1 ? 0xff : 0;
        script.first = cut ? cut : 1;
        script.step = cut ? 0 : 1;
        got = rx_transcript(&script, octets->data, octets->len, NULL);
        g_assert_cmpstr(got, ==, want);
    }
}

/* Append what the send half makes of one segment. */
static void send_segment(IwarpTx *tx, const IwarpTxSegment *seg,
                         const guint8 *payload, GByteArray *out)
{
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    g_autofree struct iovec *iov = g_new(struct iovec, 512);
    struct iovec in = { (void *)payload, seg->payload_len };
    gsize before = out->len;
    int n = iwarp_tx_frame(tx, seg, &in, 1, frame, iov, 512);

    g_assert_cmpint(n, >, 0);
    g_byte_array_set_size(out, before + frame->len);
    g_assert_cmpuint(iwarp_tx_copy(tx, iov, n, out->data + before), ==,
                     frame->len);
    iwarp_tx_commit(tx, frame);
}

/* Append all segments of a message. */
static guint send_message(IwarpTx *tx, const IwarpTxMessage *msg,
                          const guint8 *payload, GByteArray *out)
{
    IwarpTxSegment seg;
    guint32 offset = 0;
    guint count = 0;

    do {
        iwarp_tx_segment(tx, msg, offset, &seg);
        send_segment(tx, &seg, payload + offset, out);
        offset += seg.payload_len;
        count++;
    } while (!seg.last);
    g_assert_cmpuint(offset, ==, msg->length);
    return count;
}

static IwarpTx tx_start(bool crc, bool markers, guint16 mulpdu)
{
    IwarpTxConfig config = { .crc = crc, .markers = markers,
                             .mulpdu = mulpdu };
    IwarpTx tx;

    iwarp_tx_init(&tx, &config);
    return tx;
}

static void test_figure_5(void)
{
    g_autoptr(GByteArray) want = hex(FIGURE_5);
    g_autoptr(GByteArray) got = g_byte_array_new();
    RxScript script = { .crc = true, .markers = true };
    IwarpTx tx = tx_start(true, true, 0);
    IwarpTxMessage send = { .opcode = IWARP_OP_SEND, .length = 24 };
    guint8 zero[24] = { 0 };

    assert_all_cuts(&script, want, "send first last qn=0 msn=1 inv=0 at=0 "
                    "len=24 [" ZERO24 "]\n");
    send_message(&tx, &send, zero, got);
    assert_octets(got->data, got->len, want);
}

/* The same FPDU without its marker has another CRC. */
static void test_figure_5_plain(void)
{
    g_autoptr(GByteArray) want = hex("002a 4143 00000000 00000000 00000001"
                                     "00000000" ZERO24 "b7243ec3");
    g_autoptr(GByteArray) got = g_byte_array_new();
    RxScript script = { .crc = true };
    IwarpTx tx = tx_start(true, false, 0);
    IwarpTxMessage send = { .opcode = IWARP_OP_SEND, .length = 24 };
    guint8 zero[24] = { 0 };

    assert_all_cuts(&script, want, "send first last qn=0 msn=1 inv=0 at=0 "
                    "len=24 [" ZERO24 "]\n");
    send_message(&tx, &send, zero, got);
    assert_octets(got->data, got->len, want);
}

/* A Send of 464 octets first, so that the figure starts at position 492. */
static void test_figure_6(void)
{
    PlainStream s = plain_stream(true, true);
    g_autoptr(GByteArray) want = s.out;
    g_autoptr(GByteArray) first = hex("4143 00000000 00000000 00000001"
                                      "00000000");
    g_autoptr(GByteArray) got = g_byte_array_new();
    RxScript script = { .crc = true, .markers = true };
    IwarpTx tx = tx_start(true, true, 0);
    IwarpTxMessage send = { .opcode = IWARP_OP_SEND, .length = 464 };
    guint8 zero[464] = { 0 };
    g_autofree char *log = NULL;

    add_fill(first, 0, 464);
    plain_fpdu(&s, first);
    g_assert_cmpuint(want->len, ==, 492);
    add_hex(want, FIGURE_6);

    log = rx_read(&script, want);
    g_assert_true(g_str_has_suffix(log, "]\nsend first last qn=0 msn=2 inv=0 "
                                   "at=0 len=24 [" ZERO24 "]\n"));
    assert_all_cuts(&script, want, log);

    send_message(&tx, &send, zero, got);
    send.length = 24;
    send_message(&tx, &send, zero, got);
    assert_octets(got->data, got->len, want);
}

static void test_arithmetic(void)
{
    for (gsize len = 0; len <= 65535; len++) {
        gsize content = iwarp_fpdu_content(len);

        g_assert_cmpuint(content % 4, ==, 0);
        g_assert_cmpuint(content, >=, len + 6);
        g_assert_cmpuint(content, <=, len + 9);
    }
    /* counted one octet at a time */
    for (guint pos = 0; pos < 512; pos += 4) {
        guint at = pos;
        gsize markers = 0;

        for (gsize content = 1; content < 2100; content++) {
            if (at % 512 == 0) {
                markers++;
                at += 4;
            }
            at++;
            g_assert_cmpuint(iwarp_marker_count(pos, content), ==, markers);
        }
        g_assert_cmpuint(iwarp_marker_count(pos, 0), ==, 0);
    }
    g_assert_cmpuint(iwarp_marker_count(0, IWARP_FPDU_CONTENT_MAX), ==,
                     IWARP_FPDU_MARKERS_MAX);
    g_assert_cmpuint(iwarp_fpdu_content(65535), ==, IWARP_FPDU_CONTENT_MAX);
}

/* The worked examples of the RDMAP notes: FPDU, and what it says. */
static const struct {
    const char *fpdu;
    const char *log;
} examples[] = {
    { "0012 4143 00000000 00000000 00000001 00000000 587be8c4",
      "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n" },
    { "0015 4143 00000000 00000000 00000001 00000000 686921 00 46b1498b",
      "send first last qn=0 msn=1 inv=0 at=0 len=3 [686921]\n" },
    { "000e c140 00000001 0000000000000000 ebd34c5f",
      "write first last stag=1 to=0 at=0 len=0 []\n" },
    { "002e 4141 00000000 00000001 00000001 00000000 00000000 "
      "0000000000000000 00000000 00000001 0000000000000000 ba10e3c9",
      "read-request first last qn=1 msn=1 inv=0 at=0 len=0 []\n" },
    { "000e c142 00000000 0000000000000000 6975d6ca",
      "read-response first last stag=0 to=0 at=0 len=0 []\n" },
    { "0016 4147 00000000 00000002 00000001 00000000 02060000 6f77b973",
      "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n" },
    { "0016 4147 00000000 00000002 00000001 00000000 20020000 7fe42585",
      "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n" },
    { "0026 4147 00000000 00000002 00000001 00000000 1100c000 0016 c140 "
      "deadbe00 0000000000001000 f164be55",
      "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n" },
};

static void test_examples(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(examples); i++) {
        g_autoptr(GByteArray) fpdu = hex(examples[i].fpdu);
        RxScript crc = { .crc = true };
        RxScript plain = { .crc = false };

        g_assert_cmphex(plain_crc32c(fpdu->data, fpdu->len - 4), ==,
                        fpdu->data[fpdu->len - 4] |
                        fpdu->data[fpdu->len - 3] << 8 |
                        fpdu->data[fpdu->len - 2] << 16 |
                        (guint32)fpdu->data[fpdu->len - 1] << 24);
        assert_all_cuts(&crc, fpdu, examples[i].log);
        assert_all_cuts(&plain, fpdu, examples[i].log);
    }
}

/* The first five examples, from the send half. */
static void test_examples_sent(void)
{
    IwarpReadRequest read = { .source_stag = 1 };
    guint8 header[IWARP_READ_REQUEST_LEN];
    IwarpTxMessage messages[] = {
        { .opcode = IWARP_OP_SEND },
        { .opcode = IWARP_OP_SEND, .length = 3 },
        { .opcode = IWARP_OP_WRITE, .stag = 1 },
        { .opcode = IWARP_OP_READ_REQUEST, .header = header,
          .header_len = sizeof(header) },
        { .opcode = IWARP_OP_READ_RESPONSE },
    };

    iwarp_read_request_encode(&read, header);
    for (gsize i = 0; i < G_N_ELEMENTS(messages); i++) {
        g_autoptr(GByteArray) want = hex(examples[i].fpdu);
        g_autoptr(GByteArray) got = g_byte_array_new();
        IwarpTx tx = tx_start(true, false, 0);

        send_message(&tx, &messages[i], (const guint8 *)"hi!", got);
        assert_octets(got->data, got->len, want);

        /* without CRC: the same with a zero field */
        tx = tx_start(false, false, 0);
        g_byte_array_set_size(got, 0);
        send_message(&tx, &messages[i], (const guint8 *)"hi!", got);
        memset(want->data + want->len - 4, 0, 4);
        assert_octets(got->data, got->len, want);
    }
    shows("R5.3-8 R5.1-8");
}

/* One flipped bit anywhere is a CRC error, or an FPDU that never ends. */
static void test_bit_errors(void)
{
    g_autoptr(GByteArray) fpdu = hex(examples[1].fpdu);
    RxScript script = { .crc = true };

    for (gsize bit = 0; bit < fpdu->len * 8; bit++) {
        g_autofree char *log = NULL;

        fpdu->data[bit / 8] ^= (guint8)(1 << bit % 8);
        log = rx_read(&script, fpdu);
        if (bit >= 16) {
            g_assert_cmpstr(log, ==, "error crc 2002\n");
        } else {
            g_assert_true(g_str_equal(log, "") ||
                          g_str_equal(log, "error crc 2002\n"));
        }
        fpdu->data[bit / 8] ^= (guint8)(1 << bit % 8);
    }
}

/* Without CRC the field may hold anything, and so may the pad. */
static void test_crc_unused(void)
{
    g_autoptr(GByteArray) fpdu = hex("0015 4143 00000000 00000000 00000001 "
                                     "00000000 686921 ff deadbeef");
    RxScript script = { .crc = false };

    assert_transcript(&script, fpdu, examples[1].log);
}

/* With CRC the pad counts, but need not be zero. */
static void test_pad_covered(void)
{
    g_autoptr(GByteArray) fpdu = hex("0015 4143 00000000 00000000 00000001 "
                                     "00000000 686921 ff 00000000");
    RxScript script = { .crc = true };
    guint32 crc = plain_crc32c(fpdu->data, fpdu->len - 4);

    assert_transcript(&script, fpdu, "error crc 2002\n");
    for (int i = 0; i < 4; i++) {
        fpdu->data[fpdu->len - 4 + i] = (guint8)(crc >> (8 * i));
    }
    assert_transcript(&script, fpdu, examples[1].log);
}

/* Markers that point elsewhere; their low two and reserved bits are free. */
static void test_marker_errors(void)
{
    static const struct {
        const char *marker;
        const char *log;
    } rows[] = {
        { "00000000", "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n" },
        { "00000003", "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n" },
        { "ffff0000", "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n" },
        { "00000004", "error marker 2003\n" },
        { "00008000", "error marker 2003\n" },
    };
    RxScript script = { .markers = true };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GByteArray) octets = hex(rows[i].marker);

        add_hex(octets, examples[0].fpdu);
        assert_all_cuts(&script, octets, rows[i].log);
    }
}

/*
 * The first FPDU and the second one's length agree with what is there; the marker within
 * the second one has it begin elsewhere (RFC 5044 4.3).
 */
static void test_marker_within(void)
{
    static const guint8 backs[][2] = {
        { 0, 0 }, { 0, 16 }, { 0, 24 }, { 1, 20 }, { 2, 0 }, { 0x80, 20 },
    };
    RxScript script = { .markers = true };

    for (gsize i = 0; i < G_N_ELEMENTS(backs); i++) {
        PlainStream s = plain_stream(false, true);
        g_autoptr(GByteArray) octets = s.out;
        g_autoptr(GByteArray) first = hex("4143 00000000 00000000 00000001"
                                          "00000000");
        g_autofree char *log = NULL;

        add_fill(first, 0, 464);
        plain_fpdu(&s, first);
        g_assert_cmpuint(octets->len, ==, 492);
        add_hex(octets, FIGURE_6);
        octets->data[514] = backs[i][0];
        octets->data[515] = backs[i][1];
        log = rx_read(&script, octets);
        g_assert_true(g_str_has_prefix(log, "send first last qn=0 msn=1 "));
        g_assert_null(strstr(log, "msn=2"));
        g_assert_true(g_str_has_suffix(log, "]\nerror marker 2003\n"));
        assert_all_cuts(&script, octets, log);
    }
    shows("V9.5.3-8");
}

/* The stream used for cuts: all kinds of RFC 5040, sizes around the pads. */
static void fill_stream(PlainStream *s)
{
    plain_fpdu_hex(s, "4143 00000000 00000000 00000001 00000000 68");
    plain_fpdu_hex(s, "0144 aabbccdd 00000000 00000002 00000000 0102");
    plain_fpdu_hex(s, "4144 aabbccdd 00000000 00000002 00000002 030405");
    plain_fpdu_hex(s, "8140 00000100 fffffffffffffff0 1112131415161718");
    plain_fpdu_hex(s, "c140 00000100 fffffffffffffff8 21222324252627");
    plain_fpdu_hex(s, "4141 00000000 00000001 00000001 00000000 00000005 "
                      "0000000000000006 00000007 00000008 0000000000000009");
    plain_fpdu_hex(s, "c142 00000005 0000000000000006 31323334353637");
    plain_fpdu_hex(s, "4145 00000000 00000000 00000003 00000000");
    plain_fpdu_hex(s, "4146 11223344 00000000 00000004 00000000 99");
    plain_fpdu_hex(s, "c140 00000000 0000000000000000");
    plain_fpdu_hex(s, "4147 00000000 00000002 00000001 00000000 00000000");
}

static const char stream_log[] =
    "send first last qn=0 msn=1 inv=0 at=0 len=1 [68]\n"
    "send-inv first qn=0 msn=2 inv=aabbccdd at=0 len=2 [0102]\n"
    "send-inv last qn=0 msn=2 inv=aabbccdd at=2 len=3 [030405]\n"
    "write first stag=100 to=fffffffffffffff0 at=0 len=8 [1112131415161718]\n"
    "write last stag=100 to=fffffffffffffff8 at=8 len=7 [21222324252627]\n"
    "read-request first last qn=1 msn=1 inv=0 at=0 len=0 []\n"
    "read-response first last stag=5 to=6 at=0 len=7 [31323334353637]\n"
    "send-se first last qn=0 msn=3 inv=0 at=0 len=0 []\n"
    "send-se-inv first last qn=0 msn=4 inv=11223344 at=0 len=1 [99]\n"
    "write first last stag=0 to=0 at=0 len=0 []\n"
    "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n";

/* All modes, all cuts; then in random pieces of 1 to 7 octets. */
static void test_cuts(void)
{
    for (int mode = 0; mode < 5; mode++) {
        RxScript script = { .crc = mode & 1, .markers = mode & 2,
                            .direct = mode == 4 };
        PlainStream s = plain_stream(script.crc, script.markers);
        g_autoptr(GByteArray) octets = s.out;

        fill_stream(&s);
        g_assert_cmpuint(octets->len, <, 512);
        assert_all_cuts(&script, octets, stream_log);
        for (gsize step = 1; step <= 7; step++) {
            for (gsize first = 1; first <= step; first++) {
                g_autofree char *log = NULL;

                script.first = first;
                script.step = step;
                log = rx_transcript(&script, octets->data, octets->len, NULL);
                g_assert_cmpstr(log, ==, stream_log);
            }
        }
    }
    shows("R3.1-8");
}

/* A stream cut off anywhere reports a beginning of the whole, and no error. */
static void test_truncated(void)
{
    for (int mode = 0; mode < 4; mode++) {
        RxScript script = { .crc = mode & 1, .markers = mode & 2 };
        PlainStream s = plain_stream(script.crc, script.markers);
        g_autoptr(GByteArray) octets = s.out;

        fill_stream(&s);
        for (gsize len = 0; len < octets->len; len++) {
            g_autofree char *log = NULL;
            bool idle;

            log = rx_transcript(&script, octets->data, len, &idle);
            g_assert_true(g_str_has_prefix(stream_log, log));
            g_assert_null(strstr(log, "error"));
            g_assert_cmpuint(strlen(log), <, strlen(stream_log));
            /* idle only where messages, not just FPDUs, are whole */
            if (idle) {
                g_assert_true(!*log || g_str_has_suffix(log, "]\n"));
                g_assert_false(g_str_has_suffix(log, "len=2 [0102]\n"));
                g_assert_false(g_str_has_suffix(log, "[1112131415161718]\n"));
            }
        }
    }
}

/* Long messages with markers everywhere, in both directions. */
static void test_markers_long(void)
{
    static const guint32 sizes[] = { 0, 1, 2, 3, 463, 464, 465, 466, 467, 468,
                                     487, 488, 489, 490, 491, 492, 508, 2000,
                                     1, 70000, 5, 64768 };
    g_autoptr(GByteArray) data = g_byte_array_new();

    add_pattern(data, 70000, 1);
    for (int crc = 0; crc < 2; crc++) {
        PlainStream s = plain_stream(crc, true);
        g_autoptr(GByteArray) want = s.out;
        g_autoptr(GByteArray) got = g_byte_array_new();
        IwarpTx tx = tx_start(crc, true, 0);
        RxScript script = { .crc = crc, .markers = true, .step = 777 };
        g_autofree char *log = NULL;

        for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
            IwarpTxMessage msg = { .opcode = IWARP_OP_SEND,
                                   .length = sizes[i] };
            guint32 cut = MIN(sizes[i], 64768 - 18);
            g_autofree char *head = g_strdup_printf(
                "%s43 00000000 00000000 %08x 00000000",
                cut < sizes[i] ? "01" : "41", (guint)i + 1);
            g_autoptr(GByteArray) ulpdu = hex(head);

            g_byte_array_append(ulpdu, data->data, cut);
            plain_fpdu(&s, ulpdu);
            if (cut < sizes[i]) {
                g_autofree char *more = g_strdup_printf(
                    "4143 00000000 00000000 %08x %08x", (guint)i + 1, cut);
                g_autoptr(GByteArray) rest = hex(more);

                g_byte_array_append(rest, data->data + cut, sizes[i] - cut);
                plain_fpdu(&s, rest);
            }
            send_message(&tx, &msg, data->data, got);
        }
        assert_octets(got->data, got->len, want);
        log = rx_read(&script, want);
        g_assert_null(strstr(log, "error"));
        g_assert_nonnull(strstr(log, "msn=22 inv=0 at=64750 len=18 ["));
    }
}

/* The largest ULPDU the length field can name, in the smallest buffer. */
static void test_largest(void)
{
    for (int mode = 0; mode < 5; mode++) {
        RxScript script = { .crc = mode & 1, .markers = mode & 2,
                            .direct = mode == 4, .step = 1000 };
        PlainStream s = plain_stream(script.crc, script.markers);
        g_autoptr(GByteArray) octets = s.out;
        g_autofree char *log = NULL;

        for (int i = 1; i <= 3; i++) {
            g_autofree char *head = g_strdup_printf(
                "4143 00000000 00000000 %08x 00000000", i);
            g_autoptr(GByteArray) ulpdu = hex(head);

            add_pattern(ulpdu, 65535 - 18, i);
            plain_fpdu(&s, ulpdu);
        }
        log = rx_read(&script, octets);
        g_assert_null(strstr(log, "error"));
        g_assert_nonnull(strstr(log, "msn=3 inv=0 at=0 len=65517 ["));
        g_assert_true(g_str_has_suffix(log, "]\n"));
    }
}

static void test_buffer(void)
{
    guint8 small[16];
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRxConfig config = { .buffer = small, .buffer_size = sizeof(small) };
    g_autoptr(GByteArray) bad = hex("0001 ff 00");
    IwarpRx rx;
    void *ptr;
    gsize space;

    g_assert_false(iwarp_rx_init(&rx, &config));
    config.buffer = NULL;
    config.buffer_size = IWARP_RX_BUFFER_MIN;
    g_assert_false(iwarp_rx_init(&rx, &config));
    config.buffer = buffer;
    config.buffer_size = IWARP_RX_BUFFER_MIN - 1;
    g_assert_false(iwarp_rx_init(&rx, &config));
    config.buffer_size = IWARP_RX_BUFFER_MIN;
    g_assert_true(iwarp_rx_init(&rx, &config));
    g_assert_true(iwarp_rx_idle(&rx));

    /* more than there is room for is cut, not written past the end */
    iwarp_rx_buffer(&rx, &ptr, &space);
    g_assert_cmpuint(space, ==, IWARP_RX_BUFFER_MIN);
    memset(ptr, 0, space);
    iwarp_rx_filled(&rx, G_MAXSIZE);
    iwarp_rx_buffer(&rx, &ptr, &space);
    g_assert_cmpuint(space, ==, 0);
    g_assert_cmpuint(iwarp_rx_feed(&rx, small, 1), ==, 0);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_ERROR);

    /* a failed stream offers its buffer for draining and stays failed */
    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, bad->data, bad->len);
    for (int i = 0; i < 3; i++) {
        g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_ERROR);
        g_assert_cmpint(rx.error.fault, ==, IWARP_FAULT_SEGMENT_SHORT);
        iwarp_rx_buffer(&rx, &ptr, &space);
        g_assert_cmpuint(space, ==, IWARP_RX_BUFFER_MIN);
        memset(ptr, 0x41, space);
        iwarp_rx_filled(&rx, space);
    }
    g_assert_false(iwarp_rx_idle(&rx));
}

/* Direct placement: what is offered, and when. */
static void test_direct(void)
{
    g_autoptr(GByteArray) fpdu = hex("0018 c140 00000001 0000000000000010 "
                                     "00010203040506070809 0000 00000000");
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRxConfig config = { .buffer = buffer,
                             .buffer_size = IWARP_RX_BUFFER_MIN,
                             .opcodes = IWARP_OPS_RFC5040 };
    IwarpRx rx;

    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, fpdu->data, 18);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_SEGMENT);
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 0);  /* 2 octets wait */
    g_assert_false(iwarp_rx_placed(&rx, 1));
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_PAYLOAD);
    g_assert_cmpuint(rx.payload_len, ==, 2);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_NEED_MORE);
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 8);
    g_assert_cmpuint(iwarp_rx_direct_offset(&rx), ==, 2);
    g_assert_false(iwarp_rx_placed(&rx, 9));
    g_assert_true(iwarp_rx_placed(&rx, 5));
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 3);
    g_assert_cmpuint(iwarp_rx_direct_offset(&rx), ==, 7);
    g_assert_true(iwarp_rx_placed(&rx, 3));
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 0);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_NEED_MORE);
    iwarp_rx_feed(&rx, fpdu->data + 26, 5);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_NEED_MORE);
    iwarp_rx_feed(&rx, fpdu->data + 31, 1);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_SEGMENT_END);
    g_assert_true(iwarp_rx_idle(&rx));
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 0);

    /* never with CRC: a segment comes whole or not at all */
    config.crc = true;
    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, fpdu->data, 18);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_NEED_MORE);
    g_assert_cmpuint(iwarp_rx_direct(&rx), ==, 0);
    g_assert_false(iwarp_rx_placed(&rx, 1));
}

/* What is behind a segment that its receiver does not take yet: a Write of 10 octets
 * and one of none, each whole; of the last one the CRC is missing. */
static void test_look_ahead(void)
{
    g_autoptr(GByteArray) octets = hex(
        "0015 4143 00000000 00000000 00000001 00000000 616263 00 00000000"
        "0018 c140 00000001 0000000000000010 00010203040506070809 0000 00000000"
        "000e c140 00000000 0100000000000005 00000000"
        "000e c140 00000000 0100000000000006 00000000");
    enum { SEND = 28, WRITE = 32, EMPTY = 20 };

    for (guint crc = 0; crc < 2; crc++) {
        for (gsize len = SEND; len < octets->len; len++) {
            g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
            IwarpRxConfig config = { .buffer = buffer,
                                     .buffer_size = IWARP_RX_BUFFER_MIN,
                                     .opcodes = IWARP_OPS_RFC5040 };
            IwarpSegment ahead;
            gsize at = 0;
            IwarpRx rx;

            if (crc) {
                /* Of the Send the right one, of the others a wrong one. */
                guint32 right = GUINT32_TO_LE(plain_crc32c(octets->data, 24));

                memcpy(octets->data + 24, &right, 4);
                config.crc = true;
            }
            g_assert_true(iwarp_rx_init(&rx, &config));
            g_assert_false(iwarp_rx_look_ahead(&rx, &at, &ahead));
            iwarp_rx_feed(&rx, octets->data, len);
            g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_SEGMENT);
            if (len < SEND + WRITE || crc) {
                g_assert_false(iwarp_rx_look_ahead(&rx, &at, &ahead));
                continue;
            }
            g_assert_true(iwarp_rx_look_ahead(&rx, &at, &ahead));
            g_assert_cmpint(ahead.opcode, ==, IWARP_OP_WRITE);
            g_assert_cmphex(ahead.stag, ==, 1);
            g_assert_cmphex(ahead.to, ==, 16);
            g_assert_cmpuint(ahead.payload_len, ==, 10);
            if (len >= SEND + WRITE + EMPTY) {
                g_assert_true(iwarp_rx_look_ahead(&rx, &at, &ahead));
                g_assert_true(ahead.tagged && ahead.last);
                g_assert_cmphex(ahead.stag, ==, 0);
                g_assert_cmphex(ahead.to, ==, 0x0100000000000005);
                g_assert_cmpuint(ahead.payload_len, ==, 0);
            }
            g_assert_false(iwarp_rx_look_ahead(&rx, &at, &ahead));
            /* Nothing has been taken. */
            g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_PAYLOAD);
            g_assert_cmpmem(rx.payload, rx.payload_len, "abc", 3);
            g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_SEGMENT_END);
        }
    }
}

enum { MISSING_PAYLOAD = 700, MISSING_HEADERS = 2 + 14 };

/* RFC 5041 section 5.2, its two examples. */
static void test_segments(void)
{
    IwarpTx tx = tx_start(false, false, 1500);
    IwarpTxMessage send = { .opcode = IWARP_OP_SEND, .length = 2048 };
    IwarpTxMessage write = { .opcode = IWARP_OP_WRITE, .stag = 7,
                             .to = 16384, .length = 2048 };
    IwarpTxSegment seg;

    iwarp_tx_segment(&tx, &send, 0, &seg);
    g_assert_cmpuint(seg.mo, ==, 0);
    g_assert_cmpuint(seg.payload_len, ==, 1482);
    g_assert_false(seg.last);
    iwarp_tx_segment(&tx, &send, 1482, &seg);
    g_assert_cmpuint(seg.mo, ==, 1482);
    g_assert_cmpuint(seg.payload_len, ==, 566);
    g_assert_true(seg.last);

    iwarp_tx_segment(&tx, &write, 0, &seg);
    g_assert_cmpuint(seg.to, ==, 16384);
    g_assert_cmpuint(seg.payload_len, ==, 1486);
    g_assert_false(seg.last);
    iwarp_tx_segment(&tx, &write, 1486, &seg);
    g_assert_cmpuint(seg.to, ==, 17870);
    g_assert_cmpuint(seg.payload_len, ==, 562);
    g_assert_true(seg.last);

    /* exactly one segment's worth, nothing, and past the end */
    send.length = 1482;
    iwarp_tx_segment(&tx, &send, 0, &seg);
    g_assert_true(seg.last && seg.payload_len == 1482);
    send.length = 0;
    iwarp_tx_segment(&tx, &send, 0, &seg);
    g_assert_true(seg.last && seg.payload_len == 0);
    iwarp_tx_segment(&tx, &send, 5, &seg);
    g_assert_true(seg.last && seg.payload_len == 0);
}

/* The largest message in count of segments: 2^32 - 1 octets, few asserts. */
static void test_segments_4g(void)
{
    IwarpTx tx = tx_start(false, false, 0);
    IwarpTxMessage write = { .opcode = IWARP_OP_WRITE,
                             .to = G_GUINT64_CONSTANT(0xffffffff00000000),
                             .length = G_MAXUINT32 };
    IwarpTxSegment seg = { 0 };
    guint64 offset = 0;
    guint last = 0;

    while (offset < G_MAXUINT32) {
        iwarp_tx_segment(&tx, &write, (guint32)offset, &seg);
        g_assert_cmpuint(seg.payload_len, >, 0);
        g_assert_cmpuint(seg.to, ==, write.to + offset);
        offset += seg.payload_len;
        last += seg.last;
    }
    g_assert_cmpuint(offset, ==, G_MAXUINT32);
    g_assert_cmpuint(last, ==, 1);
    g_assert_true(seg.last);
}

/* Framing changes nothing; only the commit does. */
static void test_rewind(void)
{
    for (int mode = 0; mode < 4; mode++) {
        IwarpTx tx = tx_start(mode & 1, mode & 2, 0);
        IwarpTx again;
        IwarpTxSegment seg = { .opcode = IWARP_OP_SEND, .last = true,
                               .payload_len = 700 };
        g_autoptr(GByteArray) one = g_byte_array_new();
        g_autoptr(GByteArray) two = g_byte_array_new();
        guint8 data[700];

        memset(data, 0x77, sizeof(data));
        send_segment(&tx, &seg, data, one);     /* somewhere in the stream */
        g_byte_array_set_size(one, 0);
        again = tx;
        send_segment(&tx, &seg, data, one);
        send_segment(&again, &seg, data, two);
        assert_octets(two->data, two->len, one);
        g_assert_cmpuint(tx.msn[0], ==, 3);
        g_assert_cmpmem(&tx, sizeof(tx), &again, sizeof(again));
    }
}

/* Payload in many spans, empty and surplus ones among them. */
static void test_gather(void)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    IwarpTxSegment seg = { .opcode = IWARP_OP_WRITE, .last = true,
                           .stag = 9, .to = 8, .payload_len = 1200 };
    struct iovec spans[6], iov[32];

    add_pattern(data, 2000, 5);
    spans[0] = (struct iovec) { data->data, 1 };
    spans[1] = (struct iovec) { NULL, 0 };
    spans[2] = (struct iovec) { data->data + 1, 506 };
    spans[3] = (struct iovec) { data->data + 507, 3 };
    spans[4] = (struct iovec) { data->data + 510, 1490 };
    spans[5] = (struct iovec) { data->data, 2000 };
    for (int mode = 0; mode < 4; mode++) {
        PlainStream s = plain_stream(mode & 1, mode & 2);
        g_autoptr(GByteArray) want = s.out;
        g_autoptr(GByteArray) got = g_byte_array_new();
        g_autoptr(GByteArray) ulpdu = hex("c140 00000009 0000000000000008");
        IwarpTx tx = tx_start(mode & 1, mode & 2, 0);
        int n = iwarp_tx_frame(&tx, &seg, spans, 6, frame, iov, 32);

        for (int i = 0; i < n; i++) {
            g_assert_cmpuint(iov[i].iov_len, >, 0);
        }
        g_byte_array_set_size(got, frame->len);
        iwarp_tx_copy(&tx, iov, n, got->data);
        g_byte_array_append(ulpdu, data->data, 1200);
        plain_fpdu(&s, ulpdu);
        assert_octets(got->data, got->len, want);
        g_assert_cmpuint(frame->len, ==, want->len);
    }
    shows("R5.1-9");
}

static void test_tx_errors(void)
{
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    IwarpTx tx = tx_start(true, true, 0);
    IwarpTxSegment seg = { .opcode = IWARP_OP_SEND, .last = true,
                           .payload_len = 600 };
    guint8 data[600] = { 0 };
    struct iovec in = { data, sizeof(data) };
    struct iovec iov[8];
    int need = iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, 8);

    g_assert_cmpint(need, ==, 5);
    for (int max = 0; max < need; max++) {
        g_assert_cmpint(iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, max), ==,
                        IWARP_TX_NO_ROOM);
    }
    seg.payload_len = 601;
    g_assert_cmpint(iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, 8), ==,
                    IWARP_TX_BAD_SEGMENT);
    seg.payload_len = 65535 - 17;
    g_assert_cmpint(iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, 8), ==,
                    IWARP_TX_BAD_SEGMENT);
    seg.payload_len = 1;
    seg.opcode = IWARP_OP_READ_REQUEST;
    g_assert_cmpint(iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, 8), ==,
                    IWARP_TX_BAD_SEGMENT);
    seg.opcode = 12;
    g_assert_cmpint(iwarp_tx_frame(&tx, &seg, &in, 1, frame, iov, 8), ==,
                    IWARP_TX_BAD_SEGMENT);
    g_assert_cmpuint(iwarp_tx_max_payload(&tx, 12, 0), ==, 0);
    g_assert_cmpuint(iwarp_tx_max_payload(&tx, IWARP_OP_TERMINATE, 4), ==, 0);
    g_assert_cmpuint(iwarp_tx_max_payload(&tx, IWARP_OP_SEND, 0), ==,
                     64768 - 18);
    g_assert_cmpuint(iwarp_tx_max_payload(&tx, IWARP_OP_READ_RESPONSE, 0), ==,
                     64768 - 14);
}

static void test_tx_limits(void)
{
    g_assert_cmpuint(tx_start(false, false, 0).mulpdu, ==, 64768);
    g_assert_cmpuint(tx_start(false, false, 65535).mulpdu, ==, 64768);
    g_assert_cmpuint(tx_start(false, false, 1).mulpdu, ==, 128);
    g_assert_cmpuint(tx_start(false, false, 1454).mulpdu, ==, 1454);
}

/* RFC 5044: MULPDU = EMSS - (6 + 4 * Ceiling(EMSS / 512) + EMSS mod 4) */
static void test_mulpdu(void)
{
    static const struct { size_t emss; guint without, with; } table[] = {
        { 1460, 1454, 1442 }, { 1448, 1442, 1430 }, { 8960, 8954, 8882 },
        { 1461, 1454, 1442 }, { 1463, 1454, 1442 }, { 512, 506, 502 },
        { 513, 506, 498 }, { 134, 128, 128 }, { 138, 130, 128 },
        { 140, 134, 130 }, { 100, 128, 128 }, { 1, 128, 128 },
        { 65483, 64768, 64768 }, { 64774, 64766, 64258 }, { 0, 64768, 64768 },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(table); i++) {
        g_assert_cmpuint(iwarp_mulpdu(table[i].emss, false), ==,
                         table[i].without);
        g_assert_cmpuint(iwarp_mulpdu(table[i].emss, true), ==, table[i].with);
    }
}

/* How much of an FPDU is still to come, wherever a stream of them is cut. */
static void check_left(bool crc, bool markers)
{
    static const gsize ulpdus[] = { 14, 30, 700, 14, 509, 1200, 18, 2000 };
    static guint8 buffer[IWARP_RX_BUFFER_MIN];
    PlainStream s = plain_stream(crc, markers);
    g_autoptr(GByteArray) octets = s.out;
    gsize ends[G_N_ELEMENTS(ulpdus)];
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = sizeof(buffer), .crc = crc,
        .markers = markers, .opcodes = IWARP_OPS_RFC5040,
    };

    for (gsize i = 0; i < G_N_ELEMENTS(ulpdus); i++) {
        g_autoptr(GByteArray) ulpdu = hex("c140 00000001 0000000000000000");

        add_fill(ulpdu, 0x5a, ulpdus[i] - ulpdu->len);
        plain_fpdu(&s, ulpdu);
        ends[i] = octets->len;
    }
    for (gsize cut = 0; cut <= octets->len; cut++) {
        gsize next = 0, left, known;
        guint16 pos = 0xffff;
        IwarpRx rx;

        g_assert_true(iwarp_rx_init(&rx, &config));
        g_assert_cmpuint(iwarp_rx_feed(&rx, octets->data, cut), ==, cut);
        /* Before any event is taken, when some are, and after all. */
        for (int events = 0; events < 30; events++) {
            gsize start;

            for (next = 0; ends[next] < cut; next++) {
                /* the FPDU of the last octet, or which ends there */
            }
            start = next ? ends[next - 1] : 0;
            known = 2 + (markers && start % 512 == 0 ? 4 : 0);
            if (!iwarp_rx_fpdu_left(&rx, &left, &pos)) {
                g_assert_cmpuint(cut - start, <, known);
            } else if (cut == 0) {
                g_assert_cmpuint(left, ==, 0);
                g_assert_cmpuint(pos, ==, 0);
            } else {
                g_assert_cmpuint(left, ==, ends[next] - cut);
                if (markers) {
                    g_assert_cmpuint(pos, ==, ends[next] % 512);
                }
            }
            iwarp_rx_next(&rx);
        }
    }
}

static void test_left(void)
{
    check_left(false, false);
    check_left(true, false);
    check_left(false, true);
    check_left(true, true);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/framing/figure-5", test_figure_5);
    g_test_add_func("/iwarp/framing/figure-5-plain", test_figure_5_plain);
    g_test_add_func("/iwarp/framing/figure-6", test_figure_6);
    g_test_add_func("/iwarp/framing/arithmetic", test_arithmetic);
    g_test_add_func("/iwarp/framing/examples", test_examples);
    g_test_add_func("/iwarp/framing/examples-sent", test_examples_sent);
    g_test_add_func("/iwarp/framing/bit-errors", test_bit_errors);
    g_test_add_func("/iwarp/framing/crc-unused", test_crc_unused);
    g_test_add_func("/iwarp/framing/pad-covered", test_pad_covered);
    g_test_add_func("/iwarp/framing/marker-errors", test_marker_errors);
    g_test_add_func("/iwarp/framing/marker-within", test_marker_within);
    g_test_add_func("/iwarp/framing/cuts", test_cuts);
    g_test_add_func("/iwarp/framing/truncated", test_truncated);
    g_test_add_func("/iwarp/framing/markers-long", test_markers_long);
    g_test_add_func("/iwarp/framing/largest", test_largest);
    g_test_add_func("/iwarp/framing/buffer", test_buffer);
    g_test_add_func("/iwarp/framing/direct", test_direct);
    g_test_add_func("/iwarp/framing/look-ahead", test_look_ahead);
    g_test_add_func("/iwarp/framing/segments", test_segments);
    g_test_add_func("/iwarp/framing/segments-4g", test_segments_4g);
    g_test_add_func("/iwarp/framing/rewind", test_rewind);
    g_test_add_func("/iwarp/framing/gather", test_gather);
    g_test_add_func("/iwarp/framing/tx-errors", test_tx_errors);
    g_test_add_func("/iwarp/framing/tx-limits", test_tx_limits);
    g_test_add_func("/iwarp/framing/left", test_left);
    g_test_add_func("/iwarp/framing/mulpdu", test_mulpdu);
    return g_test_run();
}
