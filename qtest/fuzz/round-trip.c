/*
 * Fuzzer of the protocol engine: messages out by the send half, and in again
 *
 * Whatever is sent, the receive half takes it, octet for octet: with markers, with
 * CRC, at each MULPDU, and with payload in spans of any size.
 *
 *     0   flags
 *     1   MULPDU (2)
 *     3   for each message: opcode, span (1), length (2), STag (4), TO (8)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fuzz.h"
#include "hw/rnic/iwarp/bytes.h"
#include "hw/rnic/iwarp/stream-rx.h"
#include "hw/rnic/iwarp/stream-tx.h"

enum {
    FLAG_CRC = 1,
    FLAG_MARKERS = 2,

    MESSAGES = 8,
    PAYLOAD_MAX = 20000,
    SPANS = 700,
};

static uint8_t payload[PAYLOAD_MAX];
static uint8_t buffer[IWARP_RX_BUFFER_MIN];
static uint8_t wire[IWARP_FPDU_WIRE_MAX];

static void fill_payload(void)
{
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 7 + i / 251);
    }
}

static IwarpTxMessage message_of(FuzzInput *in, uint8_t *header, size_t *span)
{
    IwarpTxMessage msg = { .opcode = fuzz_octet(in) % IWARP_OP_COUNT };
    const IwarpOpInfo *op = iwarp_op_info(msg.opcode);

    *span = (size_t)fuzz_octet(in) * 4 + 29;
    msg.length = fuzz_number(in, 2) % PAYLOAD_MAX;
    msg.stag = msg.inv_stag = fuzz_number(in, 4);
    msg.to = fuzz_number(in, 8);
    if (!op->payload) {
        msg.length = 0;
        msg.header_len = op->header_min;
        msg.header = header;
        for (int i = 0; i < IWARP_RDMAP_HEADER_MAX; i++) {
            header[i] = fuzz_octet(in);
        }
    }
    return msg;
}

/* The payload from @offset on, in pieces of @span octets. */
static size_t spans_of(struct iovec *iov, uint32_t offset, uint32_t len,
                       size_t span)
{
    size_t count = 0;

    for (uint32_t at = 0; at < len; at += span) {
        must(count < SPANS);
        iov[count].iov_base = payload + offset + at;
        iov[count].iov_len = len - at < span ? len - at : span;
        count++;
    }
    return count;
}

/* One frame on the wire; its length. */
static size_t send_segment(IwarpTx *tx, const IwarpTxSegment *seg,
                           uint32_t offset, size_t span)
{
    static struct iovec in[SPANS], out[3 * SPANS];
    static IwarpTxFrame frame;
    size_t count = spans_of(in, offset, seg->payload_len, span);
    int n = iwarp_tx_frame(tx, seg, in, count, &frame, out, 3 * SPANS);

    must(n > 0);
    must(iwarp_tx_frame(tx, seg, in, count, &frame, out, n - 1) ==
         IWARP_TX_NO_ROOM);
    n = iwarp_tx_frame(tx, seg, in, count, &frame, out, n);
    must(n > 0 && iwarp_tx_copy(tx, out, n, wire) == frame.len);
    iwarp_tx_commit(tx, &frame);
    return frame.len;
}

/* The receive half has to see @seg, and its payload. */
static void receive_segment(IwarpRx *rx, const IwarpTxSegment *seg,
                            uint32_t offset, size_t len)
{
    uint32_t got = 0;

    must(iwarp_rx_feed(rx, wire, len) == len);
    must(iwarp_rx_next(rx) == IWARP_RX_SEGMENT);
    must(rx->segment.opcode == seg->opcode && rx->segment.last == seg->last);
    must(rx->segment.payload_len == seg->payload_len);
    must(!rx->segment.tagged || (rx->segment.stag == seg->stag &&
                                 rx->segment.to == seg->to));
    while (got < seg->payload_len) {
        must(iwarp_rx_next(rx) == IWARP_RX_PAYLOAD);
        must(rx->payload_offset == got);
        must(!memcmp(rx->payload, payload + offset + got, rx->payload_len));
        got += rx->payload_len;
    }
    must(iwarp_rx_next(rx) == IWARP_RX_SEGMENT_END);
    must(iwarp_rx_next(rx) == IWARP_RX_NEED_MORE);
}

static void move_message(IwarpTx *tx, IwarpRx *rx, const IwarpTxMessage *msg,
                         size_t span)
{
    IwarpTxSegment seg;
    uint32_t offset = 0;

    do {
        iwarp_tx_segment(tx, msg, offset, &seg);
        receive_segment(rx, &seg, offset, send_segment(tx, &seg, offset, span));
        offset += seg.payload_len;
    } while (!seg.last);
    must(offset == msg->length);
    must(iwarp_rx_idle(rx));
}

/* Segments that cannot be are refused, and leave no trace. */
static void refuse(const IwarpTx *tx, FuzzInput *in)
{
    uint8_t header[IWARP_RDMAP_HEADER_MAX] = { 0 };
    IwarpTxSegment seg = {
        .opcode = fuzz_octet(in) & 15,
        .payload_len = fuzz_number(in, 3),
        .header = header,
        .header_len = fuzz_octet(in) % sizeof(header),
    };
    static IwarpTxFrame frame;
    struct iovec out[4];

    iwarp_tx_max_payload(tx, seg.opcode, seg.header_len);
    if (seg.payload_len) {
        must(iwarp_tx_frame(tx, &seg, NULL, 0, &frame, out, 4) ==
             IWARP_TX_BAD_SEGMENT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    uint8_t flags = fuzz_octet(&in);
    IwarpTxConfig config = {
        .crc = flags & FLAG_CRC, .markers = flags & FLAG_MARKERS,
        .mulpdu = fuzz_number(&in, 2),
    };
    IwarpRxConfig rx_config = {
        .buffer = buffer, .buffer_size = sizeof(buffer), .crc = config.crc,
        .markers = config.markers, .opcodes = IWARP_OPS_ALL,
    };
    uint8_t header[IWARP_RDMAP_HEADER_MAX];
    IwarpTxMessage msg;
    IwarpTx tx;
    IwarpRx rx;
    size_t span;

    fill_payload();
    iwarp_tx_init(&tx, &config);
    must(iwarp_rx_init(&rx, &rx_config));
    for (int i = 0; i < MESSAGES && in.size; i++) {
        msg = message_of(&in, header, &span);
        move_message(&tx, &rx, &msg, span);
        refuse(&tx, &in);
    }
    return 0;
}
