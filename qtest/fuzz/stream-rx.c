/*
 * Fuzzer of the protocol engine: MPA start-up, the receive half, Terminate
 *
 * The first octet of the input chooses the mode, the second how the rest is
 * cut into pieces.  CRC errors are what a fuzzer hits first and learns nothing
 * from, so CRC mode is one choice among several.  A broken rule aborts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fuzz.h"
#include "hw/rnic/iwarp/mpa-startup.h"
#include "hw/rnic/iwarp/stream-rx.h"
#include "hw/rnic/iwarp/stream-tx.h"

enum {
    MODE_CRC = 0x01,
    MODE_MARKERS = 0x02,
    MODE_DIRECT = 0x04,
    MODE_EXTENSIONS = 0x08,
    MODE_STARTUP = 0x10,    /* an MPA frame comes first */
    MODE_REPLY = 0x20,
    MODE_REJECT = 0x40,     /* refuse the third segment */
};

static uint8_t buffer[IWARP_RX_BUFFER_MIN];

/* A failed stream's Terminate has to be one that can be sent and read. */
static void check_error(const IwarpRx *rx)
{
    uint8_t out[IWARP_TERMINATE_MAX];
    size_t len = iwarp_terminate_encode(&rx->error, out);
    IwarpTerminate t;

    must(len == 4 || len == 20 || len == 24 || len == 52);
    must(iwarp_terminate_decode(&t, out, len));
    must(t.term == rx->error.term && !t.siw_layout);
    must(rx->error.fault != IWARP_FAULT_NONE);
}

static void check_segment(const IwarpRx *rx)
{
    const IwarpSegment *seg = &rx->segment;
    const IwarpOpInfo *op = iwarp_op_info(seg->opcode);

    must(op && op->tagged == seg->tagged);
    must(rx->opcodes >> seg->opcode & 1);
    must(op->payload || seg->payload_len == 0);
    must(seg->payload_len <= IWARP_ULPDU_MAX);
    must(UINT32_MAX - seg->message_offset >= seg->payload_len);
    must(seg->first == (seg->message_offset == 0));
}

static bool within(const IwarpRx *rx, const uint8_t *octets, size_t len)
{
    return rx->payload >= octets && rx->payload_len <= len &&
           rx->payload <= octets + len - rx->payload_len;
}

/* Take all events; false once the stream failed. */
static bool drain(IwarpRx *rx, uint8_t mode, size_t *payload, int *segments)
{
    for (;;) {
        switch (iwarp_rx_next(rx)) {
        case IWARP_RX_NEED_MORE:
            return true;
        case IWARP_RX_SEGMENT:
            check_segment(rx);
            *payload = 0;
            if (++*segments == 3 && (mode & MODE_REJECT)) {
                iwarp_rx_reject(rx, IWARP_TERM_TAGGED_STAG);
            }
            break;
        case IWARP_RX_PAYLOAD:
            must(rx->payload_len > 0);
            must(rx->payload_offset == *payload);
            must(within(rx, buffer, sizeof(buffer)));
            *payload += rx->payload_len;
            break;
        case IWARP_RX_SEGMENT_END:
            must(*payload == rx->segment.payload_len);
            break;
        case IWARP_RX_ERROR:
            check_error(rx);
            return false;
        }
    }
}

static void fuzz_stream(const uint8_t *data, size_t size, uint8_t mode,
                        size_t piece)
{
    IwarpRxConfig config = {
        .buffer = buffer, .buffer_size = sizeof(buffer),
        .crc = mode & MODE_CRC, .markers = mode & MODE_MARKERS,
        .opcodes = mode & MODE_EXTENSIONS ? IWARP_OPS_ALL : IWARP_OPS_RFC5040,
    };
    size_t payload = 0;
    int segments = 0;
    IwarpRx rx;

    must(iwarp_rx_init(&rx, &config));
    while (size) {
        size_t n = size < piece ? size : piece;
        size_t direct = mode & MODE_DIRECT ? iwarp_rx_direct(&rx) : 0;

        if (direct) {
            n = n < direct ? n : direct;
            must(iwarp_rx_direct_offset(&rx) == payload);
            must(iwarp_rx_placed(&rx, n));
            payload += n;
        } else {
            n = iwarp_rx_feed(&rx, data, n);
            must(n > 0);
        }
        data += n;
        size -= n;
        if (!drain(&rx, mode, &payload, &segments)) {
            return;
        }
    }
}

/* Parse a frame, negotiate, encode the answer.  Returns the octets used. */
static size_t fuzz_startup(const uint8_t *data, size_t size, uint8_t mode,
                           size_t piece)
{
    IwarpMpaPolicy policy = {
        .revision = 2, .enhanced = true, .peer_to_peer = true,
        .rtr = IWARP_RTR_ALL, .ird = 8, .ord = 8, .ird_limit = 16,
    };
    IwarpMpaResult result = IWARP_MPA_NEED_MORE;
    uint8_t out[IWARP_MPA_FRAME_MAX];
    IwarpMpaFrame frame, other;
    IwarpMpaAgreed agreed;
    IwarpMpaParser parser;
    size_t at = 0;

    iwarp_mpa_parser_init(&parser, mode & MODE_REPLY, 2);
    while (at < size && result == IWARP_MPA_NEED_MORE) {
        size_t n = size - at < piece ? size - at : piece;
        size_t used;

        result = iwarp_mpa_parse(&parser, data + at, n, &used, &frame);
        must(used <= n);
        at += used;
    }
    if (result != IWARP_MPA_OK) {
        return size;
    }
    must(iwarp_mpa_encode(&frame, out) == at);
    if (mode & MODE_REPLY) {
        iwarp_mpa_request(&policy, &other);
        iwarp_mpa_conclude(&policy, &other, &frame, &agreed);
    } else {
        iwarp_mpa_accept(&policy, &frame, &other, &agreed);
        must(iwarp_mpa_encode(&other, out) > 0);
        iwarp_mpa_reject(&policy, &frame, &other);
        must(iwarp_mpa_encode(&other, out) > 0);
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    IwarpTerminate t;
    uint8_t mode;
    size_t piece;

    if (size < 2) {
        return 0;
    }
    mode = data[0];
    piece = (size_t)data[1] * 4 + 1;
    data += 2;
    size -= 2;
    iwarp_terminate_decode(&t, data, size);
    if (mode & MODE_STARTUP) {
        size_t used = fuzz_startup(data, size, mode, piece);

        data += used;
        size -= used;
    }
    fuzz_stream(data, size, mode, piece);
    return 0;
}
