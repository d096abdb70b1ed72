/*
 * iWARP engine: the send half of a stream
 *
 * A frame is laid out by a cursor that moves over the wire.  Wherever the next
 * octet would stand at stream position 0 a marker goes first; that one rule
 * puts markers before, inside and never behind a frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "stream-tx.h"
#include "terminate.h"

void iwarp_tx_init(IwarpTx *tx, const IwarpTxConfig *config)
{
    memset(tx, 0, sizeof(*tx));
    tx->crc = config->crc;
    tx->markers = config->markers;
    tx->mulpdu = config->mulpdu;
    if (tx->mulpdu == 0 || tx->mulpdu > IWARP_MULPDU_MAX) {
        tx->mulpdu = IWARP_MULPDU_MAX;
    }
    if (tx->mulpdu < IWARP_MULPDU_MIN) {
        tx->mulpdu = IWARP_MULPDU_MIN;
    }
    for (int qn = 0; qn < IWARP_QN_COUNT; qn++) {
        tx->msn[qn] = 1;
    }
}

/* Segmenting */

uint32_t iwarp_tx_max_payload(const IwarpTx *tx, IwarpOpcode opcode,
                              size_t header_len)
{
    const IwarpOpInfo *op = iwarp_op_info(opcode);
    size_t headers;

    if (!op || !op->payload) {
        return 0;
    }
    headers = header_len + (op->tagged ? IWARP_DDP_TAGGED_LEN
                                       : IWARP_DDP_UNTAGGED_LEN);
    return headers < tx->mulpdu ? (uint32_t)(tx->mulpdu - headers) : 0;
}

void iwarp_tx_segment(const IwarpTx *tx, const IwarpTxMessage *msg,
                      uint32_t offset, IwarpTxSegment *seg)
{
    uint32_t max = iwarp_tx_max_payload(tx, msg->opcode, msg->header_len);
    uint32_t left = offset < msg->length ? msg->length - offset : 0;

    seg->opcode = msg->opcode;
    seg->stag = msg->stag;
    seg->to = msg->to + offset;
    seg->mo = offset;
    seg->inv_stag = msg->inv_stag;
    seg->header = msg->header;
    seg->header_len = msg->header_len;
    seg->payload_len = left < max ? left : max;
    seg->last = max == 0 || left <= max;
}

/* Framing */

/* The place on the wire, and the spans laid out so far. */
typedef struct TxCursor {
    bool markers;
    unsigned pos;           /* stream position, modulo 512 */
    size_t wire;            /* octets since the frame's first */
    size_t start;           /* where the length field stands: 0 or 4 */
    size_t marker_used;     /* of IwarpTxFrame.marker */
    struct iovec *out;
    size_t count;
    size_t max;
} TxCursor;

static void tx_step(TxCursor *at, size_t n)
{
    at->wire += n;
    at->pos = (at->pos + n) & (IWARP_MARKER_SPACING - 1);
}

/* A marker stands here: write it to @out and step over it. */
static void tx_put_marker(TxCursor *at, uint8_t *out)
{
    iwarp_put16(out, 0);
    iwarp_put16(out + 2, (uint16_t)(at->wire ? at->wire - at->start : 0));
    tx_step(at, IWARP_MARKER_LEN);
}

static bool tx_marker_due(const TxCursor *at)
{
    return at->markers && at->pos == 0;
}

/* Octets of content, at most @len, up to the next marker. */
static size_t tx_run(const TxCursor *at, size_t len)
{
    size_t room = iwarp_marker_distance(at->pos);

    return at->markers && room && room < len ? room : len;
}

/* Copy @len octets to scratch @out with markers among them.  Octets used. */
static size_t tx_copy(TxCursor *at, uint8_t *out, const uint8_t *in,
                      size_t len)
{
    uint8_t *start = out;

    while (len) {
        size_t n;

        if (tx_marker_due(at)) {
            tx_put_marker(at, out);
            out += IWARP_MARKER_LEN;
        }
        n = tx_run(at, len);
        memcpy(out, in, n);
        tx_step(at, n);
        out += n;
        in += n;
        len -= n;
    }
    return (size_t)(out - start);
}

static bool tx_span(TxCursor *at, const void *base, size_t len)
{
    if (at->count == at->max) {
        return false;
    }
    at->out[at->count].iov_base = (void *)base;
    at->out[at->count].iov_len = len;
    at->count++;
    return true;
}

/* One run of payload in the caller's memory, with markers among it. */
static bool tx_payload_span(TxCursor *at, IwarpTxFrame *frame,
                            const uint8_t *in, size_t len)
{
    while (len) {
        size_t n;

        if (tx_marker_due(at)) {
            uint8_t *marker = frame->marker[at->marker_used++];

            tx_put_marker(at, marker);
            if (!tx_span(at, marker, IWARP_MARKER_LEN)) {
                return false;
            }
        }
        n = tx_run(at, len);
        if (!tx_span(at, in, n)) {
            return false;
        }
        tx_step(at, n);
        in += n;
        len -= n;
    }
    return true;
}

/* The first @len octets of the caller's spans. */
static int tx_payload(TxCursor *at, IwarpTxFrame *frame,
                      const struct iovec *payload, size_t count, size_t len)
{
    for (size_t i = 0; i < count && len; i++) {
        size_t n = payload[i].iov_len < len ? payload[i].iov_len : len;

        if (!tx_payload_span(at, frame, payload[i].iov_base, n)) {
            return IWARP_TX_NO_ROOM;
        }
        len -= n;
    }
    return len ? IWARP_TX_BAD_SEGMENT : 0;
}

/* Length field, DDP header and RDMAP header. */
static bool tx_head(TxCursor *at, const IwarpTx *tx, const IwarpTxSegment *seg,
                    const IwarpOpInfo *op, IwarpTxFrame *frame)
{
    uint8_t octets[IWARP_FPDU_LENGTH_LEN + IWARP_DDP_HEADER_MAX +
                   IWARP_RDMAP_HEADER_MAX];
    size_t len = IWARP_FPDU_LENGTH_LEN;
    IwarpDdpHeader h = {
        .tagged = op->tagged,
        .last = seg->last,
        .version = IWARP_DDP_VERSION,
        .control = iwarp_rdmap_control(seg->opcode),
        .stag = seg->stag,
        .to = seg->to,
        .rsvd_ulp = op->invalidates ? seg->inv_stag : 0,
        .qn = op->qn,
        .msn = tx->msn[op->qn],
        .mo = seg->mo,
    };

    len += iwarp_ddp_encode(&h, octets + len);
    if (seg->header_len) {
        memcpy(octets + len, seg->header, seg->header_len);
        len += seg->header_len;
    }
    iwarp_put16(octets, (uint16_t)(len - IWARP_FPDU_LENGTH_LEN +
                                   seg->payload_len));
    return tx_span(at, frame->head, tx_copy(at, frame->head, octets, len));
}

/* Pad and the CRC field, which is never cut by a marker. */
static bool tx_tail(TxCursor *at, size_t pad, IwarpTxFrame *frame)
{
    static const uint8_t zero[4];
    size_t len = tx_copy(at, frame->tail, zero, pad);

    len += tx_copy(at, frame->tail + len, zero, IWARP_FPDU_CRC_LEN);
    return tx_span(at, frame->tail, len);
}

/* The ULPDU's octets, 0 if the segment cannot be. */
static size_t tx_ulpdu_len(const IwarpTxSegment *seg, const IwarpOpInfo *op)
{
    size_t len;

    if (!op || seg->header_len < op->header_min ||
        seg->header_len > op->header_max ||
        (seg->payload_len && !op->payload)) {
        return 0;
    }
    len = op->tagged ? IWARP_DDP_TAGGED_LEN : IWARP_DDP_UNTAGGED_LEN;
    len += seg->header_len;
    if (seg->payload_len > IWARP_ULPDU_MAX - len) {
        return 0;
    }
    return len + seg->payload_len;
}

int iwarp_tx_frame(const IwarpTx *tx, const IwarpTxSegment *seg,
                   const struct iovec *payload, size_t count,
                   IwarpTxFrame *frame, struct iovec *out, size_t max)
{
    const IwarpOpInfo *op = iwarp_op_info(seg->opcode);
    size_t ulpdu_len = tx_ulpdu_len(seg, op);
    TxCursor at = {
        .markers = tx->markers,
        .pos = tx->stream_pos,
        .out = out,
        .max = max,
    };
    int ret;

    if (ulpdu_len == 0) {
        return IWARP_TX_BAD_SEGMENT;
    }
    at.start = tx_marker_due(&at) ? IWARP_MARKER_LEN : 0;
    if (!tx_head(&at, tx, seg, op, frame)) {
        return IWARP_TX_NO_ROOM;
    }
    ret = tx_payload(&at, frame, payload, count, seg->payload_len);
    if (ret < 0) {
        return ret;
    }
    if (!tx_tail(&at, iwarp_fpdu_pad(ulpdu_len), frame)) {
        return IWARP_TX_NO_ROOM;
    }
    frame->len = at.wire;
    frame->next_pos = (uint16_t)at.pos;
    frame->qn = op->tagged ? IWARP_QN_COUNT : op->qn;
    frame->last = seg->last;
    return (int)at.count;
}

static size_t tx_copy_plain(const struct iovec *iov, size_t count,
                            uint8_t *out)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        memcpy(out + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    return len;
}

size_t iwarp_tx_copy(const IwarpTx *tx, const struct iovec *iov, size_t count,
                     uint8_t *out)
{
    uint32_t crc = 0;
    size_t len = 0;

    if (!tx->crc) {
        return tx_copy_plain(iov, count, out);
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = iov[i].iov_len;

        if (i == count - 1) {
            n -= IWARP_FPDU_CRC_LEN;
        }
        crc = iwarp_crc32c_copy(crc, out + len, iov[i].iov_base, n);
        len += n;
    }
    iwarp_crc32c_put(out + len, crc);
    return len + IWARP_FPDU_CRC_LEN;
}

void iwarp_tx_commit(IwarpTx *tx, const IwarpTxFrame *frame)
{
    tx->stream_pos = frame->next_pos;
    if (frame->last && frame->qn < IWARP_QN_COUNT) {
        tx->msn[frame->qn]++;
    }
}

size_t iwarp_tx_terminate(const IwarpTx *tx, const IwarpError *error,
                          IwarpTxFrame *frame, uint8_t *out)
{
    uint8_t header[IWARP_TERMINATE_MAX];
    IwarpTxSegment seg = {
        .opcode = IWARP_OP_TERMINATE,
        .last = true,
        .header = header,
        .header_len = iwarp_terminate_encode(error, header),
    };
    struct iovec ends[2];
    /* Cannot fail: any Terminate's header fits, and there is no payload. */
    int n = iwarp_tx_frame(tx, &seg, NULL, 0, frame, ends, 2);

    return iwarp_tx_copy(tx, ends, (size_t)n, out);
}
