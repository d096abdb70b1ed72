/*
 * iWARP engine: the send half of a stream
 *
 * Messages go in, FPDUs come out as arrays of spans for sendmsg(): header and
 * trailer octets in the caller's scratch, payload spans pointing at the
 * caller's own memory.  Keeps the MSN of each queue and the marker position.
 *
 * It must not touch sockets, allocate, or change its state while framing:
 * iwarp_tx_frame() takes a const stream, iwarp_tx_commit() moves it on.
 * Framing the same segment again before the commit gives the same octets.
 *
 * With CRC in use a frame has to be copied (iwarp_tx_copy): octets that may
 * change until they are sent have no CRC.
 *
 * A message is sent like this:
 *
 *     IwarpTxMessage msg = { .opcode = IWARP_OP_SEND, .length = 100000 };
 *
 *     for (offset = 0; ; offset += seg.payload_len) {
 *         iwarp_tx_segment(tx, &msg, offset, &seg);
 *         ... spans for payload octets [offset, offset + seg.payload_len) ...
 *         n = iwarp_tx_frame(tx, &seg, spans, count, &frame, iov, max);
 *         iwarp_tx_commit(tx, &frame);
 *         ... send iov[0..n), frame.len octets, or their copy ...
 *         if (seg.last) break;
 *     }
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_STREAM_TX_H
#define IWARP_STREAM_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ddp.h"
#include "error.h"
#include "mpa-fpdu.h"
#include "rdmap.h"

typedef struct IwarpTxConfig {
    bool crc;               /* agreed: iwarp_tx_copy() computes it, else the
                             * field is zero */
    bool markers;           /* agreed: the peer wants them */
    uint16_t mulpdu;        /* largest ULPDU, 128..64768; 0: the largest */
} IwarpTxConfig;

typedef struct IwarpTx {
    bool crc;
    bool markers;
    uint16_t mulpdu;
    uint16_t stream_pos;            /* modulo 512, with markers only */
    uint32_t msn[IWARP_QN_COUNT];   /* of the queue's next, or unfinished,
                                     * message */
} IwarpTx;

/* A message to send.  Host order. */
typedef struct IwarpTxMessage {
    IwarpOpcode opcode;
    uint32_t stag;          /* tagged: Write, Read Response */
    uint64_t to;            /* tagged: of the message's first octet */
    uint32_t inv_stag;      /* Send with Invalidate kinds; else ignored */
    uint32_t length;        /* payload octets; 0 for kinds without payload */
    const uint8_t *header;  /* RDMAP header octets of the kinds that have one */
    size_t header_len;      /* (Read Request, Terminate, Immediate, Atomic) */
} IwarpTxMessage;

/* One segment of it, made by iwarp_tx_segment(). */
typedef struct IwarpTxSegment {
    IwarpOpcode opcode;
    bool last;
    uint32_t stag;
    uint64_t to;            /* of this segment */
    uint32_t mo;
    uint32_t inv_stag;
    uint32_t payload_len;
    const uint8_t *header;
    size_t header_len;
} IwarpTxSegment;

/*
 * Scratch of one frame.  Must stay in place until the frame's spans have been
 * sent; no field but len is for the caller.
 */
typedef struct IwarpTxFrame {
    size_t len;             /* octets of the whole frame on the wire */
    uint16_t next_pos;      /* stream position behind it */
    uint8_t qn;             /* IWARP_QN_COUNT: tagged */
    bool last;
    /* length field, DDP and RDMAP header; at most one marker among them */
    uint8_t head[IWARP_FPDU_LENGTH_LEN + IWARP_DDP_HEADER_MAX +
                 IWARP_RDMAP_HEADER_MAX + IWARP_MARKER_LEN];
    /* pad and CRC; at most one marker among them */
    uint8_t tail[IWARP_FPDU_TRAILER_MAX + IWARP_MARKER_LEN];
    /* markers among the payload */
    uint8_t marker[IWARP_FPDU_MARKERS_MAX][IWARP_MARKER_LEN];
} IwarpTxFrame;

/* Start a stream: MSNs at 1. */
void iwarp_tx_init(IwarpTx *tx, const IwarpTxConfig *config);

/*
 * Payload octets that a segment of @opcode with an RDMAP header of
 * @header_len octets can carry under the stream's MULPDU.
 */
uint32_t iwarp_tx_max_payload(const IwarpTx *tx, IwarpOpcode opcode,
                              size_t header_len);

/*
 * The segment of @msg that starts at payload octet @offset.  An offset at or
 * past the message's length gives the empty last segment.
 */
void iwarp_tx_segment(const IwarpTx *tx, const IwarpTxMessage *msg,
                      uint32_t offset, IwarpTxSegment *seg);

enum {
    IWARP_TX_BAD_SEGMENT = -1,  /* unknown opcode, header length not the
                                 * opcode's, ULPDU above 65535, or spans that
                                 * hold less than payload_len */
    IWARP_TX_NO_ROOM = -2,      /* more than @max spans needed */
};

/*
 * Frame @seg with the first seg->payload_len octets of the @count spans at
 * @payload.  Writes at most @max spans to @out; returns how many, or one of
 * the errors above.  The last four octets of the last span are the CRC field,
 * here zero: with CRC in use the spans go by iwarp_tx_copy().
 */
int iwarp_tx_frame(const IwarpTx *tx, const IwarpTxSegment *seg,
                   const struct iovec *payload, size_t count,
                   IwarpTxFrame *frame, struct iovec *out, size_t max);

/*
 * Copy a frame of the @count spans at @iov to @out, frame.len octets, and if
 * CRC is in use fill in its field (RFC 5044 section 4.4: it covers all before
 * it, markers included).  The payload is read once, hence may change at any
 * time.  Returns frame.len.
 */
size_t iwarp_tx_copy(const IwarpTx *tx, const struct iovec *iov, size_t count,
                     uint8_t *out);

/*
 * The frame is going to be sent, in whole and before any other: move the
 * marker position past it and, if its message ended, the queue's MSN.
 */
void iwarp_tx_commit(IwarpTx *tx, const IwarpTxFrame *frame);

/* The longest Terminate on the wire: both ends of an FPDU without payload. */
enum {
    IWARP_TERMINATE_WIRE_MAX = sizeof(((IwarpTxFrame *)0)->head) +
                               sizeof(((IwarpTxFrame *)0)->tail),
};

/*
 * Write a whole Terminate message for @error (RFC 5040 section 5.4) to @out,
 * which has room for IWARP_TERMINATE_WIRE_MAX octets.  Returns frame->len.
 */
size_t iwarp_tx_terminate(const IwarpTx *tx, const IwarpError *error,
                          IwarpTxFrame *frame, uint8_t *out);

#endif /* IWARP_STREAM_TX_H */
