/*
 * Unit tests of the protocol engine: DDP and RDMAP headers and their rules
 *
 * RFC 5040, RFC 5041, RFC 7306.  Segments are written out in hex here; MPA
 * framing around them is that of wire.h, with neither CRC nor markers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/stream-tx.h"

#define SEND1 "4143 00000000 00000000 00000001 00000000"
#define READ_HEADER "00000005 0000000000000006 00000007 00000008 " \
                    "0000000000000009"
#define READ1 "4141 00000000 00000001 00000001 00000000 " READ_HEADER

/* Sending: what stands in the octets */

static IwarpTx tx_start(guint16 mulpdu)
{
    IwarpTxConfig config = { .mulpdu = mulpdu };
    IwarpTx tx;

    iwarp_tx_init(&tx, &config);
    return tx;
}

/* The ULPDU the send half makes of @seg, all payload octets 0x5a. */
static GByteArray *tx_ulpdu(IwarpTx *tx, const IwarpTxSegment *seg)
{
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    g_autofree guint8 *payload = g_malloc(seg->payload_len + 1);
    GByteArray *out = g_byte_array_new();
    struct iovec in = { payload, seg->payload_len };
    struct iovec iov[3];
    guint len;
    int n;

    memset(payload, 0x5a, seg->payload_len);
    n = iwarp_tx_frame(tx, seg, &in, 1, frame, iov, 3);
    g_assert_cmpint(n, >, 0);
    for (int i = 0; i < n; i++) {
        g_byte_array_append(out, iov[i].iov_base, iov[i].iov_len);
    }
    iwarp_tx_commit(tx, frame);
    len = out->data[0] << 8 | out->data[1];
    g_byte_array_remove_range(out, 0, 2);
    g_assert_cmpuint(out->len, ==, len + (0 - (2 + len)) % 4 + 4);
    g_byte_array_set_size(out, len);
    return out;
}

static void assert_sends(IwarpTx *tx, const IwarpTxSegment *seg,
                         const char *text)
{
    g_autoptr(GByteArray) want = hex(text);
    g_autoptr(GByteArray) got = tx_ulpdu(tx, seg);

    assert_octets(got->data, got->len, want);
}

/* The control octets of every kind, L set and clear. */
static const struct {
    IwarpOpcode opcode;
    guint8 header_len;
    const char *last;       /* octets 0 and 1 */
    const char *more;       /* the same with L clear; NULL: not used */
    const char *rest;       /* STag and TO; or RsvdULP, QN, MSN, MO */
} kinds[] = {
    { IWARP_OP_WRITE, 0, "c140", "8140", "00000077 0000000000000088" },
    { IWARP_OP_READ_REQUEST, 28, "4141", NULL,
      "00000000 00000001 00000001 00000000" },
    { IWARP_OP_READ_RESPONSE, 0, "c142", "8142",
      "00000077 0000000000000088" },
    { IWARP_OP_SEND, 0, "4143", "0143",
      "00000000 00000000 00000001 00000000" },
    { IWARP_OP_SEND_INV, 0, "4144", "0144",
      "11223344 00000000 00000001 00000000" },
    { IWARP_OP_SEND_SE, 0, "4145", "0145",
      "00000000 00000000 00000001 00000000" },
    { IWARP_OP_SEND_SE_INV, 0, "4146", "0146",
      "11223344 00000000 00000001 00000000" },
    { IWARP_OP_TERMINATE, 4, "4147", NULL,
      "00000000 00000002 00000001 00000000" },
    { IWARP_OP_IMMEDIATE, 8, "4148", NULL,
      "00000000 00000000 00000001 00000000" },
    { IWARP_OP_IMMEDIATE_SE, 8, "4149", NULL,
      "00000000 00000000 00000001 00000000" },
    { IWARP_OP_ATOMIC_REQUEST, 52, "414a", NULL,
      "00000000 00000001 00000001 00000000" },
    { IWARP_OP_ATOMIC_RESPONSE, 12, "414b", NULL,
      "00000000 00000003 00000001 00000000" },
};

/* With STag, TO and Invalidate STag set whether the kind has them or not. */
static void assert_control_octets(void)
{
    guint8 header[52];

    memset(header, 0xa5, sizeof(header));
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
        IwarpTx tx = tx_start(0);
        IwarpTxSegment seg = { .opcode = kinds[i].opcode, .stag = 0x77,
                               .to = 0x88, .inv_stag = 0x11223344,
                               .header = header,
                               .header_len = kinds[i].header_len };
        g_autofree char *last = g_strconcat(kinds[i].last, kinds[i].rest,
                                            NULL);
        g_autoptr(GByteArray) want = hex(last);
        g_autoptr(GByteArray) got = NULL;

        if (kinds[i].more) {
            g_autofree char *more = g_strconcat(kinds[i].more, kinds[i].rest,
                                                "5a5a5a", NULL);

            seg.payload_len = 3;
            assert_sends(&tx, &seg, more);
            seg.payload_len = 0;
        }
        seg.last = true;
        got = tx_ulpdu(&tx, &seg);
        add_fill(want, 0xa5, kinds[i].header_len);
        assert_octets(got->data, got->len, want);
    }
}

static void test_control_octets(void)
{
    assert_control_octets();
    shows("R3.1-2 R4.1-1 R4.1-2 R4.1-5 R4.2-1 R4.5-1 R5.1-1 R5.2.2-1 "
          "R5.3-10");
}

static void test_read_request_sent(void)
{
    IwarpTx tx = tx_start(0);
    IwarpReadRequest read = {
        .sink_stag = 0x01020304,
        .sink_to = G_GUINT64_CONSTANT(0x05060708090a0b0c),
        .size = 0x0d0e0f10,
        .source_stag = 0x11121314,
        .source_to = G_GUINT64_CONSTANT(0x15161718191a1b1c),
    };
    guint8 header[IWARP_READ_REQUEST_LEN];
    IwarpTxMessage msg = { .opcode = IWARP_OP_READ_REQUEST, .header = header,
                           .header_len = sizeof(header) };

    iwarp_read_request_encode(&read, header);
    for (int i = 1; i <= 5; i++) {
        g_autofree char *text = g_strdup_printf(
            "4141 00000000 00000001 %08x 00000000 01020304 05060708090a0b0c "
            "0d0e0f10 11121314 15161718191a1b1c", i);
        IwarpTxSegment seg;

        iwarp_tx_segment(&tx, &msg, 0, &seg);
        g_assert_true(seg.last);
        assert_sends(&tx, &seg, text);
    }
    shows("R4.4-1 R5.2.1-1 R5.2.1-6");
}

/* All Send kinds and Immediate Data count MSNs of queue 0 together. */
static void test_msn_sent(void)
{
    static const IwarpOpcode sends[] = {
        IWARP_OP_SEND, IWARP_OP_SEND_INV, IWARP_OP_SEND_SE,
        IWARP_OP_SEND_SE_INV, IWARP_OP_SEND,
    };
    IwarpTx tx = tx_start(0);
    IwarpTxSegment seg = { .last = true };

    for (guint i = 0; i < G_N_ELEMENTS(sends); i++) {
        g_autofree char *text = g_strdup_printf(
            "41%02x 00000000 00000000 %08x 00000000", 0x40 | sends[i], i + 1);

        seg.opcode = sends[i];
        assert_sends(&tx, &seg, text);
    }
    /* tagged messages have none; after ffffffff comes 0 */
    seg.opcode = IWARP_OP_WRITE;
    assert_sends(&tx, &seg, "c140 00000000 0000000000000000");
    tx.msn[0] = 0xffffffff;
    seg.opcode = IWARP_OP_SEND;
    assert_sends(&tx, &seg, "4143 00000000 00000000 ffffffff 00000000");
    assert_sends(&tx, &seg, "4143 00000000 00000000 00000000 00000000");
    g_assert_cmpuint(tx.msn[1], ==, 1);
    g_assert_cmpuint(tx.msn[2], ==, 1);
    g_assert_cmpuint(tx.msn[3], ==, 1);
    shows("R5.3-1");
}

/* A long message: one MSN, one RsvdULP, rising MO or TO, L at the end only. */
static void test_long_messages_sent(void)
{
    static const char send[][64] = {
        "0144 deadbeef 00000000 00000001 00000000",
        "0144 deadbeef 00000000 00000001 0000006e",
        "4144 deadbeef 00000000 00000001 000000dc",
    };
    static const char write[][64] = {
        "8140 00000007 ffffffffffffff00",
        "8140 00000007 ffffffffffffff72",
        "c140 00000007 ffffffffffffffe4",
    };
    IwarpTx tx = tx_start(128);
    IwarpTxMessage msg = { .opcode = IWARP_OP_SEND_INV, .length = 221,
                           .inv_stag = 0xdeadbeef };
    IwarpTxSegment seg;
    guint32 offset = 0;

    for (int i = 0; i < 3; i++, offset += seg.payload_len) {
        g_autoptr(GByteArray) want = hex(send[i]);
        g_autoptr(GByteArray) got = NULL;

        iwarp_tx_segment(&tx, &msg, offset, &seg);
        add_fill(want, 0x5a, seg.payload_len);
        got = tx_ulpdu(&tx, &seg);
        assert_octets(got->data, got->len, want);
    }
    g_assert_cmpuint(offset, ==, 221);

    msg = (IwarpTxMessage) { .opcode = IWARP_OP_WRITE, .length = 229,
                             .stag = 7,
                             .to = G_GUINT64_CONSTANT(0xffffffffffffff00) };
    offset = 0;
    for (int i = 0; i < 3; i++, offset += seg.payload_len) {
        g_autoptr(GByteArray) want = hex(write[i]);
        g_autoptr(GByteArray) got = NULL;

        iwarp_tx_segment(&tx, &msg, offset, &seg);
        add_fill(want, 0x5a, seg.payload_len);
        got = tx_ulpdu(&tx, &seg);
        assert_octets(got->data, got->len, want);
    }
    g_assert_cmpuint(offset, ==, 229);
    shows("R3.1-3 R5.1-7");
}

/* Receiving: what is taken and what is refused */

/* A stream of the given ULPDUs, "|" between them. */
static GByteArray *stream(const char *text)
{
    PlainStream s = plain_stream(false, false);
    g_auto(GStrv) parts = g_strsplit(text, "|", 0);

    for (char **part = parts; *part; part++) {
        plain_fpdu_hex(&s, *part);
    }
    return s.out;
}

static void assert_receives(guint16 opcodes, const char *text,
                            const char *want)
{
    g_autoptr(GByteArray) octets = stream(text);
    RxScript script = { .opcodes = opcodes };
    g_autofree char *got = rx_read(&script, octets);

    g_assert_cmpstr(got, ==, want);
}

/* Feed @text to a new receive half and take events up to the last. */
static void receive(IwarpRx *rx, guint8 *buffer, guint16 opcodes,
                    const char *text)
{
    g_autoptr(GByteArray) octets = stream(text);
    g_autoptr(GString) log = g_string_new(NULL);
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = IWARP_RX_BUFFER_MIN,
        .opcodes = opcodes ? opcodes : IWARP_OPS_RFC5040,
    };

    g_assert_true(iwarp_rx_init(rx, &config));
    g_assert_cmpuint(iwarp_rx_feed(rx, octets->data, octets->len), ==,
                     octets->len);
    rx_drain(rx, log);
}

static void test_reserved_bits(void)
{
    assert_control_octets();    /* zero when sent */

    /* DDP's four, RDMAP's two; Invalidate STag where it means nothing */
    assert_receives(0, "7d73 00000000 00000000 00000001 00000000",
                    "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n");
    assert_receives(0, "fd70 00000009 0000000000000001 42",
                    "write first last stag=9 to=1 at=0 len=1 [42]\n");
    assert_receives(0, "4143 deadbeef 00000000 00000001 00000000"
                       "|4145 deadbeef 00000000 00000002 00000000",
                    "send first last qn=0 msn=1 inv=0 at=0 len=0 []\n"
                    "send-se first last qn=0 msn=2 inv=0 at=0 len=0 []\n");
    assert_receives(0, "4141 deadbeef 00000001 00000001 00000000" READ_HEADER,
                    "read-request first last qn=1 msn=1 inv=0 at=0 len=0 "
                    "[]\n");
    assert_receives(0, "4147 deadbeef 00000002 00000001 00000000 00000000",
                    "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n");
    shows("R4.1-7 R4.1-8");
}

/* RsvdULP comes back whole, in several segments too. */
static void test_rsvd_ulp(void)
{
    assert_receives(0,
        "0144 01020304 00000000 00000001 00000000 aa"
        "|4144 01020304 00000000 00000001 00000001 bb"
        "|0146 05060708 00000000 00000002 00000000 cc"
        "|4146 05060708 00000000 00000002 00000001 dd",
        "send-inv first qn=0 msn=1 inv=1020304 at=0 len=1 [aa]\n"
        "send-inv last qn=0 msn=1 inv=1020304 at=1 len=1 [bb]\n"
        "send-se-inv first qn=0 msn=2 inv=5060708 at=0 len=1 [cc]\n"
        "send-se-inv last qn=0 msn=2 inv=5060708 at=1 len=1 [dd]\n");
    g_assert_true(iwarp_op_info(IWARP_OP_SEND_SE)->solicited);
    g_assert_true(iwarp_op_info(IWARP_OP_SEND_SE_INV)->solicited);
    g_assert_false(iwarp_op_info(IWARP_OP_SEND_INV)->solicited);
    shows("R3.1-5");
}

/* STag and TO of a tagged segment without payload are nobody's business. */
static void test_zero_length(void)
{
    assert_receives(0, "c140 ffffffff ffffffffffffffff"
                       "|c142 ffffffff ffffffffffffffff",
        "write first last stag=ffffffff to=ffffffffffffffff at=0 len=0 []\n"
        "read-response first last stag=ffffffff to=ffffffffffffffff at=0 "
        "len=0 []\n");
    /* an empty last segment ends the message, wherever it points */
    assert_receives(0, "8140 00000001 0000000000000000 0102"
                       "|c140 00000099 0000000000000777"
                       "|c140 00000002 0000000000000005 03",
        "write first stag=1 to=0 at=0 len=2 [0102]\n"
        "write last stag=99 to=777 at=2 len=0 []\n"
        "write first last stag=2 to=5 at=0 len=1 [03]\n");
    assert_receives(0, "0143 00000000 00000000 00000001 00000000 0102"
                       "|4143 00000000 00000000 00000001 00000002",
        "send first qn=0 msn=1 inv=0 at=0 len=2 [0102]\n"
        "send last qn=0 msn=1 inv=0 at=2 len=0 []\n");
    shows("R5.1-8");
}

/* A response may start at any TO and crosses 2^64 only in the caller's eyes. */
static void test_any_to(void)
{
    assert_receives(0, "8142 00000001 fffffffffffffffe 0102"
                       "|c142 00000001 0000000000000000 03",
        "read-response first stag=1 to=fffffffffffffffe at=0 len=2 [0102]\n"
        "read-response last stag=1 to=0 at=2 len=1 [03]\n");
    g_assert_false(iwarp_to_wraps(G_MAXUINT64, 0));
    g_assert_false(iwarp_to_wraps(G_MAXUINT64, 1));
    g_assert_true(iwarp_to_wraps(G_MAXUINT64, 2));
    g_assert_false(iwarp_to_wraps(G_MAXUINT64 - 3, 4));
    g_assert_true(iwarp_to_wraps(G_MAXUINT64 - 3, 8));
    g_assert_false(iwarp_to_wraps(0, G_MAXUINT64));
    g_assert_true(iwarp_to_wraps(2, G_MAXUINT64));
    shows("R5.2.2-8");
}

/* A Terminate may come in the middle of any message; the rest still counts. */
static void test_terminate_between(void)
{
    assert_receives(0, "0143 00000000 00000000 00000001 00000000 0102"
                       "|4147 00000000 00000002 00000001 00000000 02ff0000",
        "send first qn=0 msn=1 inv=0 at=0 len=2 [0102]\n"
        "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n");
    assert_receives(0, "8140 00000001 0000000000000000 0102"
                       "|4147 00000000 00000002 00000001 00000000 02ff0000"
                       "|c140 00000001 0000000000000002 03",
        "write first stag=1 to=0 at=0 len=2 [0102]\n"
        "terminate first last qn=2 msn=1 inv=0 at=0 len=0 []\n"
        "write last stag=1 to=2 at=2 len=1 [03]\n");
}

static void test_msn_wrap(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    g_autoptr(GByteArray) octets = stream(
        "4143 00000000 00000000 ffffffff 00000000"
        "|4143 00000000 00000000 00000000 00000000");
    g_autoptr(GString) log = g_string_new(NULL);
    IwarpRx rx;

    receive(&rx, buffer, 0, SEND1);
    rx.msn[0] = 0xffffffff;
    iwarp_rx_feed(&rx, octets->data, octets->len);
    g_assert_true(rx_drain(&rx, log));
    g_assert_cmpstr(log->str, ==,
                    "send first last qn=0 msn=4294967295 inv=0 at=0 len=0 "
                    "[]\n"
                    "send first last qn=0 msn=0 inv=0 at=0 len=0 []\n");
}

/* Messages of 2^32 - 1 octets end well, those above do not. */
static void test_message_length(void)
{
    static const struct {
        const char *start;
        const char *end;
        const char *log;
    } rows[] = {
        { "0143 00000000 00000000 00000001 00000000 11",
          "4143 00000000 00000000 00000001 fffffffd 2222",
          "send last qn=0 msn=1 inv=0 at=4294967293 len=2 [2222]\n" },
        { "0143 00000000 00000000 00000001 00000000 11",
          "4143 00000000 00000000 00000001 fffffffd 222222",
          "error untagged-length 1205\n" },
        { "8140 00000001 0000000000000000 11",
          "c140 00000001 0000000000000001 2222",
          "write last stag=1 to=1 at=4294967293 len=2 [2222]\n" },
        { "8140 00000001 0000000000000000 11",
          "c140 00000001 0000000000000001 222222",
          "error tagged-length 1101\n" },
    };
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GByteArray) end = stream(rows[i].end);
        g_autoptr(GString) log = g_string_new(NULL);
        IwarpRx rx;

        receive(&rx, buffer, 0, rows[i].start);
        g_assert_true(rx.message.open);
        rx.message.length = 0xfffffffd;     /* as if 4 GiB had come */
        iwarp_rx_feed(&rx, end->data, end->len);
        rx_drain(&rx, log);
        g_assert_cmpstr(log->str, ==, rows[i].log);
    }
}

/*
 * Every mistake the wire can show: the segments, the last of which is wrong,
 * the fault, the term code, and which of its headers are kept.
 */
static const struct {
    const char *segments;
    IwarpFault fault;
    guint16 term;
    guint16 opcodes;
    guint8 ddp_len;
    guint8 rdma_len;
} mistakes[] = {
    /* shorter than a DDP header; B9: lengths below the header, zero, one */
    { " ", IWARP_FAULT_SEGMENT_SHORT, 0x2003, 0, 0, 0 },
    { "c1", IWARP_FAULT_SEGMENT_SHORT, 0x2003, 0, 0, 0 },
    { "c140", IWARP_FAULT_SEGMENT_SHORT, 0x2003, 0, 0, 0 },
    { "c140 00000001 00000000000000", IWARP_FAULT_SEGMENT_SHORT, 0x2003, 0, 0,
      0 },
    { "4143 00000000 00000000 00000001 000000", IWARP_FAULT_SEGMENT_SHORT,
      0x2003, 0, 0, 0 },
    /* versions */
    { "c040 00000001 0000000000000000 01", IWARP_FAULT_TAGGED_VERSION, 0x1104,
      0, 0, 0 },
    { "c240 00000001 0000000000000000 01", IWARP_FAULT_TAGGED_VERSION, 0x1104,
      0, 0, 0 },
    { "4043 00000000 00000000 00000001 00000000",
      IWARP_FAULT_UNTAGGED_VERSION, 0x1206, 0, 0, 0 },
    { "4343 00000000 00000000 00000001 00000000",
      IWARP_FAULT_UNTAGGED_VERSION, 0x1206, 0, 0, 0 },
    { "4103 00000000 00000000 00000001 00000000", IWARP_FAULT_RDMAP_VERSION,
      0x0205, 0, 18, 0 },
    { "4183 00000000 00000000 00000001 00000000", IWARP_FAULT_RDMAP_VERSION,
      0x0205, 0, 18, 0 },
    { "c1c0 00000001 0000000000000000", IWARP_FAULT_RDMAP_VERSION, 0x0205, 0,
      14, 0 },
    { "4101 00000000 00000001 00000001 00000000" READ_HEADER,
      IWARP_FAULT_RDMAP_VERSION, 0x0205, 0, 18, 0 },
    /* of a second segment as well */
    { "8140 00000001 0000000000000000 01|c240 00000001 0000000000000001 02",
      IWARP_FAULT_TAGGED_VERSION, 0x1104, 0, 0, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4343 00000000 00000000 00000001 00000001 02",
      IWARP_FAULT_UNTAGGED_VERSION, 0x1206, 0, 0, 0 },
    { "8142 00000001 0000000000000000 01|c102 00000001 0000000000000001 02",
      IWARP_FAULT_RDMAP_VERSION, 0x0205, 0, 14, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4183 00000000 00000000 00000001 00000001 02",
      IWARP_FAULT_RDMAP_VERSION, 0x0205, 0, 18, 0 },
    /* opcodes */
    { "414c 00000000 00000000 00000001 00000000", IWARP_FAULT_OPCODE_UNKNOWN,
      0x0206, IWARP_OPS_ALL, 18, 0 },
    { "414f 00000000 00000000 00000001 00000000", IWARP_FAULT_OPCODE_UNKNOWN,
      0x0206, 0xffff, 18, 0 },
    { "c14e 00000000 0000000000000000", IWARP_FAULT_OPCODE_UNKNOWN, 0x0206, 0,
      14, 0 },
    { "4148 00000000 00000000 00000001 00000000 0102030405060708",
      IWARP_FAULT_OPCODE_REFUSED, 0x0206, 0, 18, 0 },
    { "4149 00000000 00000000 00000001 00000000 0102030405060708",
      IWARP_FAULT_OPCODE_REFUSED, 0x0206, 0, 18, 0 },
    { "414a 00000000 00000001 00000001 00000000",
      IWARP_FAULT_OPCODE_REFUSED, 0x0206, 0, 18, 0 },
    { "414b 00000000 00000003 00000001 00000000",
      IWARP_FAULT_OPCODE_REFUSED, 0x0206, 0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|414f 00000000 00000000 00000001 00000001 02",
      IWARP_FAULT_OPCODE_UNKNOWN, 0x0206, 0xffff, 18, 0 },
    { "8140 00000001 0000000000000000 01|c14e 00000001 0000000000000001 02",
      IWARP_FAULT_OPCODE_UNKNOWN, 0x0206, 0, 14, 0 },
    /* T flag against the opcode */
    { "c143 00000000 0000000000000000", IWARP_FAULT_TAG_FLAG, 0x0206, 0, 14,
      0 },
    { "c144 00000001 0000000000000000", IWARP_FAULT_TAG_FLAG, 0x0206, 0, 14,
      0 },
    { "c145 00000000 0000000000000000", IWARP_FAULT_TAG_FLAG, 0x0206, 0, 14,
      0 },
    { "c146 00000001 0000000000000000", IWARP_FAULT_TAG_FLAG, 0x0206, 0, 14,
      0 },
    { "4140 00000001 00000000 00000001 00000000 01", IWARP_FAULT_TAG_FLAG,
      0x0206, 0, 18, 0 },
    { "4142 00000001 00000000 00000001 00000000 01", IWARP_FAULT_TAG_FLAG,
      0x0206, 0, 18, 0 },
    { "c141 00000000 0000000000000000" READ_HEADER, IWARP_FAULT_TAG_FLAG,
      0x0206, 0, 14, 0 },
    { "c147 00000000 0000000000000000", IWARP_FAULT_TAG_FLAG, 0x0206, 0, 14,
      0 },
    /* queue numbers */
    { "4143 00000000 00000007 00000001 00000000", IWARP_FAULT_QN_UNKNOWN,
      0x1201, 0, 18, 0 },
    { "4143 00000000 80000000 00000001 00000000", IWARP_FAULT_QN_UNKNOWN,
      0x1201, 0, 18, 0 },
    { "4147 00000000 ffffffff 00000001 00000000 00000000",
      IWARP_FAULT_QN_UNKNOWN, 0x1201, 0, 18, 0 },
    { "4143 00000000 00000001 00000001 00000000", IWARP_FAULT_QN_OPCODE,
      0x1201, 0, 18, 0 },
    { "4141 00000000 00000000 00000001 00000000" READ_HEADER,
      IWARP_FAULT_QN_OPCODE, 0x1201, 0, 18, 0 },
    { "4147 00000000 00000000 00000001 00000000 00000000",
      IWARP_FAULT_QN_OPCODE, 0x1201, 0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4143 00000000 00000007 00000001 00000001 02", IWARP_FAULT_QN_UNKNOWN,
      0x1201, 0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4143 00000000 00000001 00000001 00000001 02", IWARP_FAULT_QN_OPCODE,
      0x1201, 0, 18, 0 },
    /* MSN */
    { "4143 00000000 00000000 00000000 00000000", IWARP_FAULT_MSN_PAST,
      0x1203, 0, 18, 0 },
    { "4143 00000000 00000000 00000002 00000000", IWARP_FAULT_MSN_AHEAD,
      0x1203, 0, 18, 0 },
    /* before the wrap */
    { "4143 00000000 00000000 ffffffff 00000000", IWARP_FAULT_MSN_PAST,
      0x1203, 0, 18, 0 },
    { "4141 00000000 00000001 80000002 00000000" READ_HEADER,
      IWARP_FAULT_MSN_PAST, 0x1203, 0, 18, 28 },
    { "4143 00000000 00000000 80000000 00000000", IWARP_FAULT_MSN_AHEAD,
      0x1203, 0, 18, 0 },
    { SEND1 "|" SEND1, IWARP_FAULT_MSN_PAST, 0x1203, 0, 18, 0 },
    { READ1 "|" READ1, IWARP_FAULT_MSN_PAST, 0x1203, 0, 18, 28 },
    { "4147 00000000 00000002 00000002 00000000 00000000",
      IWARP_FAULT_MSN_AHEAD, 0x1203, 0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4143 00000000 00000000 00000002 00000001 02", IWARP_FAULT_MSN_AHEAD,
      0x1203, 0, 18, 0 },
    /* MO */
    { "4143 00000000 00000000 00000001 00000001", IWARP_FAULT_MO, 0x1204, 0,
      18, 0 },
    { "4141 00000000 00000001 00000001 00000004" READ_HEADER, IWARP_FAULT_MO,
      0x1204, 0, 18, 28 },
    { "0143 00000000 00000000 00000001 00000000 0102"
      "|4143 00000000 00000000 00000001 00000001 02", IWARP_FAULT_MO, 0x1204,
      0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 0102"
      "|4143 00000000 00000000 00000001 00000003 02", IWARP_FAULT_MO, 0x1204,
      0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000 0102"
      "|4143 00000000 00000000 00000001 00000000 02", IWARP_FAULT_MO, 0x1204,
      0, 18, 0 },
    /* B9: other messages within an unfinished one */
    { "0143 00000000 00000000 00000001 00000000 01"
      "|c140 00000001 0000000000000000 02", IWARP_FAULT_INTERLEAVED, 0x0206, 0,
      14, 0 },
    { "0143 00000000 00000000 00000001 00000000 01|" READ1,
      IWARP_FAULT_INTERLEAVED, 0x0206, 0, 18, 28 },
    { "8140 00000001 0000000000000000 01|" SEND1, IWARP_FAULT_INTERLEAVED,
      0x0206, 0, 18, 0 },
    { "8142 00000001 0000000000000000 01|" READ1, IWARP_FAULT_INTERLEAVED,
      0x0206, 0, 18, 28 },
    { "0143 00000000 00000000 00000001 00000000 01"
      "|4145 00000000 00000000 00000001 00000001 02",
      IWARP_FAULT_OPCODE_CHANGED, 0x0206, 0, 18, 0 },
    { "8140 00000001 0000000000000000 01|c142 00000001 0000000000000001 02",
      IWARP_FAULT_OPCODE_CHANGED, 0x0206, 0, 14, 0 },
    { "8142 00000001 0000000000000000 01|c140 00000001 0000000000000001",
      IWARP_FAULT_OPCODE_CHANGED, 0x0206, 0, 14, 0 },
    /* tagged continuation */
    { "8140 00000001 0000000000000000 01|c140 00000002 0000000000000001 02",
      IWARP_FAULT_STAG_CHANGED, 0x1100, 0, 14, 0 },
    { "8142 00000001 0000000000000000 01|c142 00000002 0000000000000001 02",
      IWARP_FAULT_STAG_CHANGED, 0x1100, 0, 14, 0 },
    { "8140 00000001 0000000000000000 01|c140 00000001 0000000000000002 02",
      IWARP_FAULT_TO_JUMP, 0x1101, 0, 14, 0 },
    { "8142 00000001 0000000000000010 0102"
      "|8142 00000001 0000000000000010 0102", IWARP_FAULT_TO_JUMP, 0x1101, 0,
      14, 0 },
    /* sizes */
    { "4141 00000000 00000001 00000001 00000000 00000005 0000000000000006 "
      "00000007 00000008 00000000000000", IWARP_FAULT_HEADER_SHORT, 0x02ff, 0,
      18, 0 },
    { "4141 00000000 00000001 00000001 00000000", IWARP_FAULT_HEADER_SHORT,
      0x02ff, 0, 18, 0 },
    { READ1 "00000000", IWARP_FAULT_HEADER_LONG, 0x1205, 0, 18, 28 },
    { "4147 00000000 00000002 00000001 00000000 0000",
      IWARP_FAULT_HEADER_SHORT, 0x02ff, 0, 18, 0 },
    { "4147 00000000 00000002 00000001 00000000" READ_HEADER READ_HEADER,
      IWARP_FAULT_HEADER_LONG, 0x1205, 0, 18, 0 },
    { "4148 00000000 00000000 00000001 00000000 01020304050607",
      IWARP_FAULT_HEADER_SHORT, 0x02ff, IWARP_OPS_ALL, 18, 0 },
    { "4148 00000000 00000000 00000001 00000000 010203040506070809",
      IWARP_FAULT_HEADER_LONG, 0x1205, IWARP_OPS_ALL, 18, 0 },
    { "0141 00000000 00000001 00000001 00000000" READ_HEADER,
      IWARP_FAULT_NOT_LAST, 0x02ff, 0, 18, 28 },
    { "0147 00000000 00000002 00000001 00000000 00000000",
      IWARP_FAULT_NOT_LAST, 0x02ff, 0, 18, 0 },
    { "0143 00000000 00000000 00000001 00000000", IWARP_FAULT_EMPTY_NOT_LAST,
      0x02ff, 0, 18, 0 },
    { "8140 00000001 0000000000000000", IWARP_FAULT_EMPTY_NOT_LAST, 0x02ff, 0,
      14, 0 },
};

static void assert_mistake(gsize i, IwarpRx *rx, guint8 *buffer)
{
    const char *bar = strrchr(mistakes[i].segments, '|');
    g_autoptr(GByteArray) bad = hex(bar ? bar + 1 : mistakes[i].segments);

    receive(rx, buffer, mistakes[i].opcodes, mistakes[i].segments);
    g_assert_cmpint(iwarp_rx_next(rx), ==, IWARP_RX_ERROR);
    g_assert_cmpstr(iwarp_fault_name(rx->error.fault), ==,
                    iwarp_fault_name(mistakes[i].fault));
    g_assert_cmphex(rx->error.term, ==, mistakes[i].term);
    g_assert_cmphex(iwarp_fault_term(mistakes[i].fault), ==,
                    mistakes[i].term);
    g_assert_cmpuint(rx->error.echo.ddp_len, ==, mistakes[i].ddp_len);
    g_assert_cmpuint(rx->error.echo.rdma_len, ==, mistakes[i].rdma_len);
    if (mistakes[i].ddp_len) {
        g_assert_cmpuint(rx->error.echo.segment_len, ==, bad->len);
        g_assert_cmpmem(rx->error.echo.ddp, mistakes[i].ddp_len, bad->data,
                        mistakes[i].ddp_len);
    }
    if (mistakes[i].rdma_len) {
        g_assert_cmpmem(rx->error.echo.rdma, 28, bad->data + 18, 28);
    }
}

static void test_mistakes(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    bool seen[IWARP_FAULT__MAX] = {
        /* shown by the framing tests and by tests of their own */
        [IWARP_FAULT_NONE] = true, [IWARP_FAULT_CRC] = true,
        [IWARP_FAULT_MARKER] = true, [IWARP_FAULT_REJECTED] = true,
        [IWARP_FAULT_TAGGED_LENGTH] = true,
        [IWARP_FAULT_UNTAGGED_LENGTH] = true,
    };
    IwarpRx rx;

    assert_control_octets();    /* our own segments make none of them */
    for (gsize i = 0; i < G_N_ELEMENTS(mistakes); i++) {
        assert_mistake(i, &rx, buffer);
        seen[mistakes[i].fault] = true;
    }
    for (int fault = 0; fault < IWARP_FAULT__MAX; fault++) {
        g_assert_true(seen[fault]);
        g_assert_cmpstr(iwarp_fault_name(fault), !=, "?");
        if (iwarp_fault_term(fault)) {
            g_assert_nonnull(iwarp_term_name(iwarp_fault_term(fault)));
        }
    }
    g_assert_cmpstr(iwarp_fault_name(IWARP_FAULT__MAX), ==, "?");
    shows("R4.1-3 R4.1-4 R4.1-6 R4.2-2 R5.2.2-7 R7.2-3");
}

/* The same mistakes in every cut of the octets. */
static void test_mistakes_cut(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(mistakes); i++) {
        g_autoptr(GByteArray) octets = stream(mistakes[i].segments);
        RxScript script = { .opcodes = mistakes[i].opcodes };
        g_autofree char *want = rx_read(&script, octets);
        g_autofree char *line = g_strdup_printf(
            "error %s %04x\n", iwarp_fault_name(mistakes[i].fault),
            mistakes[i].term);

        g_assert_true(g_str_has_suffix(want, line));
        for (gsize cut = 0; cut < octets->len; cut++) {
            g_autofree char *got = NULL;

            script.first = cut ? cut : 1;
            script.step = cut ? 0 : 1;
            script.dirt = cut & 1 ? 0xff : 0x41;
            got = rx_transcript(&script, octets->data, octets->len, NULL);
            g_assert_cmpstr(got, ==, want);
        }
    }
}

/* Only the first error counts, whoever found it. */
static void test_reject(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    g_autoptr(GByteArray) want = hex("c140 00000001 0000000000000000");
    g_autoptr(GByteArray) more = stream(SEND1);
    IwarpRx rx;

    receive(&rx, buffer, 0, "c140 00000001 0000000000000000 0102030405060708");
    iwarp_rx_reject(&rx, IWARP_TERM_TAGGED_STAG);
    iwarp_rx_feed(&rx, more->data, more->len);
    g_assert_cmpint(iwarp_rx_next(&rx), ==, IWARP_RX_ERROR);
    g_assert_cmpint(rx.error.fault, ==, IWARP_FAULT_REJECTED);
    g_assert_cmphex(rx.error.term, ==, 0x1100);
    g_assert_cmpuint(rx.error.echo.segment_len, ==, 22);
    g_assert_cmpmem(rx.error.echo.ddp, 14, want->data, 14);
    iwarp_rx_reject(&rx, IWARP_TERM_TAGGED_BOUNDS);
    g_assert_cmphex(rx.error.term, ==, 0x1100);

    /* without a segment there is no header to show */
    receive(&rx, buffer, 0, READ1);
    memset(&rx.segment, 0, sizeof(rx.segment));
    iwarp_rx_reject(&rx, IWARP_TERM_STREAM);
    g_assert_cmpuint(rx.error.echo.ddp_len, ==, 0);

    receive(&rx, buffer, 0, "4143 00000000 00000007 00000001 00000000");
    iwarp_rx_reject(&rx, IWARP_TERM_TAGGED_STAG);
    g_assert_cmphex(rx.error.term, ==, 0x1201);
}

static void test_read_request_received(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRx rx;

    receive(&rx, buffer, 0,
            "4141 00000000 00000001 00000001 00000000 01020304 "
            "05060708090a0b0c 0d0e0f10 11121314 15161718191a1b1c");
    g_assert_cmpuint(rx.segment.opcode, ==, IWARP_OP_READ_REQUEST);
    g_assert_cmphex(rx.segment.u.read.sink_stag, ==, 0x01020304);
    g_assert_cmphex(rx.segment.u.read.sink_to, ==,
                    G_GUINT64_CONSTANT(0x05060708090a0b0c));
    g_assert_cmphex(rx.segment.u.read.size, ==, 0x0d0e0f10);
    g_assert_cmphex(rx.segment.u.read.source_stag, ==, 0x11121314);
    g_assert_cmphex(rx.segment.u.read.source_to, ==,
                    G_GUINT64_CONSTANT(0x15161718191a1b1c));
    g_assert_cmpuint(rx.segment.echo.segment_len, ==, 46);
    g_assert_cmpuint(rx.segment.echo.rdma_len, ==, 28);
}

/* RFC 7306: layouts, and that Atomics share queue 1 with Reads. */
static void test_extensions(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    IwarpRx rx;

    receive(&rx, buffer, IWARP_OPS_ALL,
            READ1 "|414a 00000000 00000001 00000002 00000000 fffffff2 "
            "11223344 55667788 0102030405060708 1112131415161718 "
            "2122232425262728 3132333435363738 4142434445464748");
    g_assert_cmpint(rx.error.fault, ==, IWARP_FAULT_NONE);
    g_assert_cmpuint(rx.segment.u.atomic.atomic_op, ==, IWARP_ATOMIC_CMP_SWAP);
    g_assert_cmphex(rx.segment.u.atomic.request_id, ==, 0x11223344);
    g_assert_cmphex(rx.segment.u.atomic.stag, ==, 0x55667788);
    g_assert_cmphex(rx.segment.u.atomic.to, ==,
                    G_GUINT64_CONSTANT(0x0102030405060708));
    g_assert_cmphex(rx.segment.u.atomic.data, ==,
                    G_GUINT64_CONSTANT(0x1112131415161718));
    g_assert_cmphex(rx.segment.u.atomic.mask, ==,
                    G_GUINT64_CONSTANT(0x2122232425262728));
    g_assert_cmphex(rx.segment.u.atomic.compare, ==,
                    G_GUINT64_CONSTANT(0x3132333435363738));
    g_assert_cmphex(rx.segment.u.atomic.compare_mask, ==,
                    G_GUINT64_CONSTANT(0x4142434445464748));
    g_assert_cmpuint(rx.segment.echo.rdma_len, ==, 0);

    receive(&rx, buffer, IWARP_OPS_ALL,
            "414b 00000000 00000003 00000001 00000000 11223344 "
            "0102030405060708");
    g_assert_cmphex(rx.segment.u.atomic_response.request_id, ==, 0x11223344);
    g_assert_cmphex(rx.segment.u.atomic_response.original, ==,
                    G_GUINT64_CONSTANT(0x0102030405060708));

    receive(&rx, buffer, IWARP_OPS_ALL,
            SEND1 "|4149 00000000 00000000 00000002 00000000 "
            "0102030405060708");
    g_assert_cmpuint(rx.segment.opcode, ==, IWARP_OP_IMMEDIATE_SE);
    g_assert_cmpuint(rx.segment.payload_len, ==, 0);
    g_assert_cmpmem(rx.segment.u.immediate, 8,
                    "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
}

static void test_extensions_sent(void)
{
    IwarpAtomicRequest r = {
        .atomic_op = IWARP_ATOMIC_FETCH_ADD, .request_id = 1, .stag = 2,
        .to = 3, .data = 4, .mask = 5, .compare = 6, .compare_mask = 7,
    };
    IwarpAtomicResponse response = { .request_id = 8, .original = 9 };
    guint8 octets[IWARP_ATOMIC_REQUEST_LEN];
    g_autoptr(GByteArray) request = hex(
        "00000000 00000001 00000002 0000000000000003 0000000000000004 "
        "0000000000000005 0000000000000006 0000000000000007");
    g_autoptr(GByteArray) answer = hex("00000008 0000000000000009");

    iwarp_atomic_request_encode(&r, octets);
    assert_octets(octets, sizeof(octets), request);
    iwarp_atomic_response_encode(&response, octets);
    assert_octets(octets, IWARP_ATOMIC_RESPONSE_LEN, answer);
}

/*
 * Whole ULPDUs, written by hand: RFC 7306 figures 2 (Immediate Data, queue 0), 3
 * (Atomic Request, 4.2 and 5.2.1: queue 1) and 5 (Atomic Response, 5.2.2: queue 3).
 */
static void test_extension_ulpdus(void)
{
    static const IwarpAtomicRequest add = {
        .atomic_op = IWARP_ATOMIC_FETCH_ADD, .request_id = 0x0a0b0c0d,
        .stag = 0x00beef01, .to = G_GUINT64_CONSTANT(0x0123456789abcde8),
        .data = 1, .compare_mask = G_MAXUINT64,
    };
    static const IwarpAtomicRequest swap = {
        .atomic_op = IWARP_ATOMIC_CMP_SWAP, .request_id = 0x0a0b0c0e,
        .stag = 0x00beef01, .to = 16, .data = 7, .mask = G_MAXUINT64,
        .compare = 42, .compare_mask = G_MAXUINT64,
    };
    static const IwarpAtomicResponse response = {
        .request_id = 0x0a0b0c0d,
        .original = G_GUINT64_CONSTANT(0x1122334455667788),
    };
    guint8 header[IWARP_RDMAP_HEADER_MAX] = { 0xde, 0xad, 0xbe, 0xef };
    IwarpTxSegment seg = { .last = true, .header = header };
    IwarpTx tx = tx_start(0);

    seg.opcode = IWARP_OP_IMMEDIATE;
    seg.header_len = 8;
    assert_sends(&tx, &seg, "4148 00000000 00000000 00000001 00000000 "
                            "deadbeef 00000000");
    seg.opcode = IWARP_OP_IMMEDIATE_SE;
    header[7] = 1;
    assert_sends(&tx, &seg, "4149 00000000 00000000 00000002 00000000 "
                            "deadbeef 00000001");
    seg.opcode = IWARP_OP_ATOMIC_REQUEST;
    seg.header_len = 52;
    iwarp_atomic_request_encode(&add, header);
    assert_sends(&tx, &seg, "414a 00000000 00000001 00000001 00000000 "
                            "00000000 0a0b0c0d 00beef01 0123456789abcde8 "
                            "0000000000000001 0000000000000000 "
                            "0000000000000000 ffffffffffffffff");
    iwarp_atomic_request_encode(&swap, header);
    assert_sends(&tx, &seg, "414a 00000000 00000001 00000002 00000000 "
                            "00000002 0a0b0c0e 00beef01 0000000000000010 "
                            "0000000000000007 ffffffffffffffff "
                            "000000000000002a ffffffffffffffff");
    seg.opcode = IWARP_OP_ATOMIC_RESPONSE;
    seg.header_len = 12;
    iwarp_atomic_response_encode(&response, header);
    assert_sends(&tx, &seg, "414b 00000000 00000003 00000001 00000000 "
                            "0a0b0c0d 1122334455667788");
}

/* What was not agreed is refused until it is. */
static void test_accept(void)
{
    g_autofree guint8 *buffer = g_malloc(IWARP_RX_BUFFER_MIN);
    g_autoptr(GByteArray) octets = stream(
        "4148 00000000 00000000 00000001 00000000 0102030405060708");
    g_autoptr(GString) log = g_string_new(NULL);
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = IWARP_RX_BUFFER_MIN,
        .opcodes = IWARP_OPS_RFC5040,
    };
    IwarpRx rx;

    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, octets->data, octets->len);
    rx_drain(&rx, log);
    g_assert_cmpint(rx.error.fault, ==, IWARP_FAULT_OPCODE_REFUSED);

    g_assert_true(iwarp_rx_init(&rx, &config));
    iwarp_rx_accept(&rx, IWARP_OPS_IMMEDIATE);
    iwarp_rx_feed(&rx, octets->data, octets->len);
    rx_drain(&rx, log);
    g_assert_cmpint(rx.error.fault, ==, IWARP_FAULT_NONE);
    g_assert_cmpuint(rx.segment.opcode, ==, IWARP_OP_IMMEDIATE);
}

/* RFC 7306: FetchAdd field by field, CmpSwap under its masks. */
static void test_atomic_apply(void)
{
    IwarpAtomicRequest add = { .atomic_op = IWARP_ATOMIC_FETCH_ADD,
                               .data = 1 };
    IwarpAtomicRequest swap = {
        .atomic_op = IWARP_ATOMIC_CMP_SWAP,
        .data = G_GUINT64_CONSTANT(0xaaaaaaaaaaaaaaaa),
        .mask = 0xffff, .compare = 0x1200, .compare_mask = 0xff00,
    };

    g_assert_cmphex(iwarp_atomic_apply(&add, 41), ==, 42);
    g_assert_cmphex(iwarp_atomic_apply(&add, G_MAXUINT64), ==, 0);
    /* two 32-bit fields: the carry out of bit 31 is cut */
    add.mask = G_GUINT64_CONSTANT(0x8000000080000000);
    g_assert_cmphex(iwarp_atomic_apply(&add, 0xffffffff), ==, 0);
    add.data = G_GUINT64_CONSTANT(0x0000000200000001);
    g_assert_cmphex(
        iwarp_atomic_apply(&add, G_GUINT64_CONSTANT(0xffffffff7fffffff)), ==,
        G_GUINT64_CONSTANT(0x0000000180000000));
    /* every bit its own field: exclusive or */
    add.mask = G_MAXUINT64;
    add.data = 0xff;
    g_assert_cmphex(iwarp_atomic_apply(&add, 0x0f), ==, 0xf0);

    g_assert_cmphex(iwarp_atomic_apply(&swap, 0x99991234), ==, 0x9999aaaa);
    g_assert_cmphex(iwarp_atomic_apply(&swap, 0x99991334), ==, 0x99991334);
    swap.atomic_op = 1;
    g_assert_cmphex(iwarp_atomic_apply(&swap, 0x99991234), ==, 0x99991234);
}

/* The codecs by themselves: every short length, and the table's edges. */
static void test_codecs(void)
{
    g_autoptr(GByteArray) tagged = hex("fdff 01020304 05060708090a0b0c");
    g_autoptr(GByteArray) untagged = hex("03ff 01020304 05060708 090a0b0c "
                                         "0d0e0f10");
    IwarpDdpHeader h;

    for (gsize len = 0; len < 14; len++) {
        g_assert_cmpuint(iwarp_ddp_decode(&h, tagged->data, len), ==, 0);
    }
    for (gsize len = 0; len < 18; len++) {
        g_assert_cmpuint(iwarp_ddp_decode(&h, untagged->data, len), ==, 0);
    }
    g_assert_cmpuint(iwarp_ddp_decode(&h, tagged->data, 14), ==, 14);
    g_assert_true(h.tagged && h.last && h.version == 1 && h.control == 0xff);
    g_assert_cmphex(h.stag, ==, 0x01020304);
    g_assert_cmphex(h.to, ==, G_GUINT64_CONSTANT(0x05060708090a0b0c));
    g_assert_cmpuint(iwarp_ddp_decode(&h, untagged->data, 18), ==, 18);
    g_assert_true(!h.tagged && !h.last && h.version == 3);
    g_assert_cmphex(h.rsvd_ulp, ==, 0x01020304);
    g_assert_cmphex(h.qn, ==, 0x05060708);
    g_assert_cmphex(h.msn, ==, 0x090a0b0c);
    g_assert_cmphex(h.mo, ==, 0x0d0e0f10);

    for (unsigned opcode = 0; opcode < 16; opcode++) {
        g_assert_true(!iwarp_op_info(opcode) == (opcode > 11));
        g_assert_nonnull(iwarp_op_name(opcode));
    }
    g_assert_null(iwarp_op_info(G_MAXUINT));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/ddp/control-octets", test_control_octets);
    g_test_add_func("/iwarp/ddp/read-request-sent", test_read_request_sent);
    g_test_add_func("/iwarp/ddp/msn-sent", test_msn_sent);
    g_test_add_func("/iwarp/ddp/long-messages-sent", test_long_messages_sent);
    g_test_add_func("/iwarp/ddp/reserved-bits", test_reserved_bits);
    g_test_add_func("/iwarp/ddp/rsvd-ulp", test_rsvd_ulp);
    g_test_add_func("/iwarp/ddp/zero-length", test_zero_length);
    g_test_add_func("/iwarp/ddp/any-to", test_any_to);
    g_test_add_func("/iwarp/ddp/terminate-between", test_terminate_between);
    g_test_add_func("/iwarp/ddp/msn-wrap", test_msn_wrap);
    g_test_add_func("/iwarp/ddp/message-length", test_message_length);
    g_test_add_func("/iwarp/ddp/mistakes", test_mistakes);
    g_test_add_func("/iwarp/ddp/mistakes-cut", test_mistakes_cut);
    g_test_add_func("/iwarp/ddp/reject", test_reject);
    g_test_add_func("/iwarp/ddp/read-request-received",
                    test_read_request_received);
    g_test_add_func("/iwarp/ddp/extensions", test_extensions);
    g_test_add_func("/iwarp/ddp/extensions-sent", test_extensions_sent);
    g_test_add_func("/iwarp/ddp/extension-ulpdus", test_extension_ulpdus);
    g_test_add_func("/iwarp/ddp/accept", test_accept);
    g_test_add_func("/iwarp/ddp/atomic-apply", test_atomic_apply);
    g_test_add_func("/iwarp/ddp/codecs", test_codecs);
    return g_test_run();
}
