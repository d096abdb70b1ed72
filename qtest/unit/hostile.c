/*
 * Unit tests of the protocol engine: a hostile or broken peer
 *
 * Streams that are valid, mutated and random, with a fixed seed.  Whatever
 * comes in, the receive half must come to the same conclusion however the
 * octets were cut and whatever its buffer held before - so it never looked at
 * an octet it was not given - and must do no more than a step per octet.
 * Run under the address and undefined-behaviour sanitizers this also shows
 * that nothing is read or written out of bounds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/stream-tx.h"

static guint8 random_octet(GRand *rand)
{
    return (guint8)g_rand_int_range(rand, 0, 256);
}

/* A ULPDU that is likely to be valid as the next one of the stream. */
static GByteArray *likely_ulpdu(GRand *rand, guint32 msn[4])
{
    static const guint8 kinds[] = { 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 10, 11 };
    guint8 opcode = kinds[g_rand_int_range(rand, 0, G_N_ELEMENTS(kinds))];
    const IwarpOpInfo *op = iwarp_op_info(opcode);
    GByteArray *out = g_byte_array_new();
    guint8 last = g_rand_int_range(rand, 0, 4) ? 0x40 : 0;
    g_autofree char *head = NULL;

    if (op->tagged) {
        head = g_strdup_printf("%02x%02x 00000001 0000000000000100",
                               0x81 | last, 0x40 | opcode);
    } else {
        head = g_strdup_printf("%02x%02x 00000000 %08x %08x 00000000",
                               0x01 | last, 0x40 | opcode, op->qn,
                               msn[op->qn]);
        msn[op->qn] += last != 0;
    }
    add_hex(out, head);
    add_pattern(out, op->payload ? g_rand_int_range(rand, 0, 600)
                                 : op->header_min, opcode);
    return out;
}

static void mutate(GRand *rand, GByteArray *octets)
{
    guint count = g_rand_int_range(rand, 0, 4);

    for (guint i = 0; i < count && octets->len; i++) {
        guint at = g_rand_int_range(rand, 0, octets->len);

        switch (g_rand_int_range(rand, 0, 3)) {
        case 0:
            octets->data[at] ^= (guint8)(1 << g_rand_int_range(rand, 0, 8));
            break;
        case 1:
            octets->data[at] = random_octet(rand);
            break;
        default:
            g_byte_array_set_size(octets, at);
        }
    }
}

/* Segments, some of them mutated before they were framed, some after. */
static GByteArray *hostile_stream(GRand *rand, const RxScript *script)
{
    PlainStream s = plain_stream(script->crc, script->markers);
    guint32 msn[4] = { 1, 1, 1, 1 };
    guint count = g_rand_int_range(rand, 1, 8);

    for (guint i = 0; i < count; i++) {
        g_autoptr(GByteArray) ulpdu = likely_ulpdu(rand, msn);

        if (g_rand_int_range(rand, 0, 3) == 0) {
            mutate(rand, ulpdu);
        }
        plain_fpdu(&s, ulpdu);
    }
    if (g_rand_int_range(rand, 0, 4) == 0) {
        mutate(rand, s.out);
    }
    return s.out;
}

static void assert_cut_free(GRand *rand, const RxScript *base,
                            const GByteArray *octets)
{
    g_autofree char *whole = rx_read(base, octets);
    guint lines = 0;

    for (const char *p = whole; *p; p++) {
        lines += *p == '\n';
    }
    g_assert_cmpuint(lines, <=, octets->len);
    for (int i = 0; i < 3; i++) {
        RxScript script = *base;
        g_autofree char *got = NULL;

        script.dirt = (guint8)(i * 0x7f);
        script.direct = i == 2 && !script.crc && !script.markers;
        script.first = g_rand_int_range(rand, 1, 100);
        script.step = g_rand_int_range(rand, 1, i ? 2000 : 20);
        got = rx_transcript(&script, octets->data, octets->len, NULL);
        g_assert_cmpstr(got, ==, whole);
    }
}

static void test_mutated(void)
{
    GRand *rand = g_rand_new_with_seed(5040);
    guint failed = 0;

    for (int round = 0; round < 3000; round++) {
        RxScript script = {
            .crc = round & 1, .markers = round & 2,
            .opcodes = round & 4 ? IWARP_OPS_ALL : IWARP_OPS_RFC5040,
        };
        g_autoptr(GByteArray) octets = hostile_stream(rand, &script);
        g_autofree char *log = rx_read(&script, octets);

        failed += strstr(log, "error") != NULL;
        assert_cut_free(rand, &script, octets);
    }
    /* the mix is one: some streams fail and some do not */
    g_assert_cmpuint(failed, >, 300);
    g_assert_cmpuint(failed, <, 2900);
    g_rand_free(rand);
}

static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(5041);

    for (int round = 0; round < 1000; round++) {
        RxScript script = { .markers = round & 2, .opcodes = IWARP_OPS_ALL };
        g_autoptr(GByteArray) octets = g_byte_array_new();
        guint len = g_rand_int_range(rand, 1, 400);

        for (guint i = 0; i < len; i++) {
            add_fill(octets, random_octet(rand), 1);
        }
        octets->data[0] = 0;
        assert_cut_free(rand, &script, octets);
    }
    g_rand_free(rand);
}

/* Small FPDUs without end, each byte its own piece, in the smallest buffer. */
static void test_many_small(void)
{
    PlainStream s = plain_stream(false, false);
    g_autoptr(GByteArray) octets = s.out;
    RxScript script = { .step = 1, .opcodes = IWARP_OPS_RFC5040 };
    g_autofree char *log = NULL;
    bool idle;

    for (guint i = 0; i < 5000; i++) {
        plain_fpdu_hex(&s, "c140 00000000 0000000000000000");
    }
    log = rx_transcript(&script, octets->data, octets->len, &idle);
    g_assert_true(idle);
    g_assert_null(strstr(log, "error"));
}

/* What the other end should report of this segment. */
static void log_sent(GString *want, const IwarpTx *tx,
                     const IwarpTxSegment *seg, guint32 offset,
                     const guint8 *payload)
{
    const IwarpOpInfo *op = iwarp_op_info(seg->opcode);
    IwarpSegment s = {
        .opcode = seg->opcode, .tagged = op->tagged, .first = offset == 0,
        .last = seg->last, .stag = seg->stag, .to = seg->to,
        .msn = tx->msn[0], .inv_stag = op->invalidates ? seg->inv_stag : 0,
        .message_offset = offset, .payload_len = seg->payload_len,
    };

    log_segment(want, &s);
    log_octets(want, payload, seg->payload_len);
    g_string_append(want, "]\n");
}

/* Send all of @msg to @wire, and say to @want what should arrive. */
static void send_message(IwarpTx *tx, const IwarpTxMessage *msg,
                         const guint8 *data, GByteArray *wire, GString *want)
{
    g_autofree IwarpTxFrame *frame = g_new(IwarpTxFrame, 1);
    struct iovec iov[64];
    IwarpTxSegment seg;
    guint32 offset = 0;

    do {
        struct iovec in = { (void *)(data + offset), msg->length - offset };
        int n;

        iwarp_tx_segment(tx, msg, offset, &seg);
        log_sent(want, tx, &seg, offset, data + offset);
        n = iwarp_tx_frame(tx, &seg, &in, 1, frame, iov, G_N_ELEMENTS(iov));
        g_assert_cmpint(n, >, 0);
        g_byte_array_set_size(wire, wire->len + frame->len);
        iwarp_tx_copy(tx, iov, n, wire->data + wire->len - frame->len);
        iwarp_tx_commit(tx, frame);
        offset += seg.payload_len;
    } while (!seg.last);
}

/* What one half sends the other takes, message for message. */
static void round_trip(GRand *rand, const RxScript *script,
                       const GByteArray *data)
{
    static const IwarpOpcode kinds[] = {
        IWARP_OP_WRITE, IWARP_OP_READ_RESPONSE, IWARP_OP_SEND,
        IWARP_OP_SEND_INV, IWARP_OP_SEND_SE,
    };
    g_autoptr(GByteArray) wire = g_byte_array_new();
    g_autoptr(GString) want = g_string_new(NULL);
    g_autofree char *got = NULL;
    IwarpTxConfig config = {
        .crc = script->crc, .markers = script->markers,
        .mulpdu = (guint16)g_rand_int_range(rand, 128, 5000),
    };
    IwarpTx tx;

    iwarp_tx_init(&tx, &config);
    for (int i = 0; i < 6; i++) {
        IwarpTxMessage msg = {
            .opcode = kinds[g_rand_int_range(rand, 0, G_N_ELEMENTS(kinds))],
            .stag = g_rand_int(rand), .inv_stag = g_rand_int(rand),
            .to = (guint64)g_rand_int(rand) << 32 | g_rand_int(rand),
            .length = g_rand_int_range(rand, 0, 9000),
        };

        send_message(&tx, &msg, data->data, wire, want);
    }
    got = rx_read(script, wire);
    g_assert_cmpstr(got, ==, want->str);
}

static void test_round_trip(void)
{
    GRand *rand = g_rand_new_with_seed(5044);
    g_autoptr(GByteArray) data = g_byte_array_new();

    add_pattern(data, 10000, 77);
    for (int round = 0; round < 120; round++) {
        RxScript script = { .crc = round & 1, .markers = round & 2,
                            .direct = (round & 7) == 4,
                            .step = g_rand_int_range(rand, 1, 3000) };

        round_trip(rand, &script, data);
    }
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/hostile/mutated", test_mutated);
    g_test_add_func("/iwarp/hostile/random", test_random);
    g_test_add_func("/iwarp/hostile/many-small", test_many_small);
    g_test_add_func("/iwarp/hostile/round-trip", test_round_trip);
    return g_test_run();
}
