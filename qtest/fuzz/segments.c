/*
 * Fuzzer of the protocol engine: segments in right FPDUs, however they are cut
 *
 * The input is a list of ULPDUs.  A plain framer, which is not the engine's, puts
 * them into FPDUs with good CRCs and markers, so that what a fuzzer would hardly
 * find by itself does not keep it from what stands behind.  What the receive half
 * reports must not depend on CRC, on markers, on direct placement, or on where the
 * stream is cut.
 *
 *     0   flags
 *     1   octets of the first piece
 *     2   octets of all others
 *     3   for each ULPDU: its length (2), and as many octets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fuzz.h"
#include "../unit/wire.h"

enum {
    FLAG_CRC = 1,
    FLAG_MARKERS = 2,
    FLAG_DIRECT = 4,
    FLAG_EXTENSIONS = 8,
    FLAG_DIRT = 16,
};

static GByteArray *frame_all(FuzzInput in, bool crc, bool markers)
{
    PlainStream s = plain_stream(crc, markers);

    while (in.size > 2) {
        size_t size;
        size_t want = fuzz_number(&in, 2);
        const uint8_t *octets = fuzz_octets(&in, want, &size);
        GByteArray *ulpdu = g_byte_array_new();

        g_byte_array_append(ulpdu, octets, size);
        plain_fpdu(&s, ulpdu);
        g_byte_array_unref(ulpdu);
    }
    return s.out;
}

/* How many octets are left of an FPDU must agree with where they end. */
static void check_left(const GByteArray *octets, bool markers)
{
    static uint8_t buffer[IWARP_RX_BUFFER_MIN];
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = sizeof(buffer), .crc = true,
        .markers = markers, .opcodes = IWARP_OPS_ALL,
    };
    size_t n, left;
    uint16_t pos;
    IwarpRx rx;

    must(iwarp_rx_init(&rx, &config));
    n = iwarp_rx_feed(&rx, octets->data, octets->len);
    if (iwarp_rx_fpdu_left(&rx, &left, &pos) && n == octets->len) {
        must(left == 0);
    }
}

/* Those that wait are looked at, before the first of them is taken. */
static void look_ahead(const GByteArray *octets)
{
    static uint8_t buffer[IWARP_RX_BUFFER_MIN];
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = sizeof(buffer), .crc = true,
        .opcodes = IWARP_OPS_ALL,
    };
    IwarpSegment ahead;
    unsigned seen = 0;
    size_t at = 0;
    IwarpRx rx;

    must(iwarp_rx_init(&rx, &config));
    iwarp_rx_feed(&rx, octets->data, octets->len);
    if (iwarp_rx_next(&rx) != IWARP_RX_SEGMENT) {
        return;
    }
    while (iwarp_rx_look_ahead(&rx, &at, &ahead)) {
        must(ahead.payload_len <= IWARP_ULPDU_MAX);
        must(++seen <= sizeof(buffer) / 20);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    uint8_t flags = fuzz_octet(&in);
    RxScript plain = { 0 };
    RxScript script = {
        .crc = flags & FLAG_CRC,
        .markers = flags & FLAG_MARKERS,
        .direct = flags & FLAG_DIRECT,
        .dirt = flags & FLAG_DIRT ? 0xff : 0,
        .first = fuzz_octet(&in),
        .step = fuzz_octet(&in),
    };
    GByteArray *reference = frame_all(in, false, false);
    GByteArray *other = frame_all(in, script.crc, script.markers);
    bool idle, other_idle;
    char *want, *got;

    if (flags & FLAG_EXTENSIONS) {
        plain.opcodes = script.opcodes = IWARP_OPS_ALL;
    }
    want = rx_transcript(&plain, reference->data, reference->len, &idle);
    got = rx_transcript(&script, other->data, other->len, &other_idle);
    must(!strcmp(want, got));
    must(idle == other_idle);
    check_left(other, script.markers);
    if (script.crc && !script.markers) {
        look_ahead(other);
    }
    g_free(want);
    g_free(got);
    g_byte_array_unref(reference);
    g_byte_array_unref(other);
    return 0;
}
