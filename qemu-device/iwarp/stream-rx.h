/*
 * iWARP engine: the receive half of a stream
 *
 * Octets of one TCP connection go in, from the first one after MPA start-up;
 * checked DDP segments and their payload come out, or one protocol error.
 * Everything the wire alone can show wrong is found here (MPA framing, CRC,
 * markers; DDP version, queue, MSN, MO, continuation; RDMAP version, opcode,
 * sizes).  What needs memory or queues to judge - STag, bounds, rights, a
 * posted receive, the agreed IRD, the Read a response belongs to - is the
 * caller's, who tells its verdict with iwarp_rx_reject().
 *
 * It must not touch sockets or guest memory, must not allocate, and must not
 * look at an octet that was not filled in.  Every call does a bounded amount
 * of work.
 *
 * Use, once per readable socket:
 *
 *     iwarp_rx_buffer(rx, &ptr, &space);
 *     n = read(fd, ptr, space);
 *     iwarp_rx_filled(rx, n);
 *     for (;;) {
 *         switch (iwarp_rx_next(rx)) {
 *         case IWARP_RX_NEED_MORE:    return to the event loop
 *         case IWARP_RX_SEGMENT:      judge rx->segment
 *         case IWARP_RX_PAYLOAD:      copy rx->payload to its place
 *         case IWARP_RX_SEGMENT_END:  deliver if rx->segment.last
 *         case IWARP_RX_ERROR:        send a Terminate for rx->error
 *         }
 *     }
 *
 * Per segment: one SEGMENT, any number of PAYLOAD (none when empty), one
 * SEGMENT_END.  With CRC or markers in use a segment is announced only when
 * its whole FPDU is here and verified, so nothing unverified is ever placed.
 * Without them it is announced with its header, and the rest of the payload
 * may go from the socket straight to its place (iwarp_rx_direct).
 *
 * Choices where the RFCs leave one (all by the wire's order, TCP's):
 *
 * - MSN and MO must be exactly the next; segments of a tagged message must
 *   continue each other's TO.
 * - Messages do not interleave, except that a Terminate may come in the middle
 *   of another message.
 * - STag and TO of a tagged segment without payload are not looked at.
 * - A segment without payload and with L clear is refused: it says nothing.
 * - RsvdULP may differ between segments of a message; rx->segment has that of
 *   the newest one.
 * - ULPDUs up to 65535 octets are taken though a sender stops at 64768.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_STREAM_RX_H
#define IWARP_STREAM_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddp.h"
#include "error.h"
#include "mpa-fpdu.h"
#include "rdmap.h"
#include "terminate.h"

/*
 * The buffer has to hold the largest FPDU.  Twice that or more saves copying;
 * below it iwarp_rx_init() refuses.
 */
enum {
    IWARP_RX_BUFFER_MIN = IWARP_FPDU_WIRE_MAX,
    IWARP_RX_BUFFER_GOOD = 256 * 1024,
};

typedef struct IwarpRxConfig {
    void *buffer;           /* caller's, for as long as the stream lives */
    size_t buffer_size;     /* IWARP_RX_BUFFER_MIN or more */
    bool crc;               /* agreed: check it */
    bool markers;           /* agreed: the peer inserts them */
    uint16_t opcodes;       /* set of accepted opcodes, IWARP_OPS_* */
} IwarpRxConfig;

/* A segment whose headers are complete and valid.  Host order. */
typedef struct IwarpSegment {
    IwarpOpcode opcode;
    bool tagged;
    bool first;                 /* of its message */
    bool last;                  /* of its message: the L flag */
    uint32_t stag;              /* tagged */
    uint64_t to;                /* tagged: of the first payload octet */
    uint32_t qn;                /* untagged */
    uint32_t msn;               /* untagged */
    uint32_t inv_stag;          /* Send with Invalidate kinds, else 0 */
    uint32_t message_offset;    /* octets of the message before this segment;
                                 * equals MO in an untagged one */
    uint32_t payload_len;       /* ULP payload of this segment, octets; the
                                 * RDMAP header is not payload */
    union {                     /* the RDMAP header, by opcode */
        IwarpReadRequest read;
        IwarpTerminate terminate;
        IwarpAtomicRequest atomic;
        IwarpAtomicResponse atomic_response;
        uint8_t immediate[IWARP_IMMEDIATE_LEN];
    } u;
    IwarpEcho echo;             /* raw headers; copy it together with a queued
                                 * Read Request to report a later failure */
} IwarpSegment;

typedef enum IwarpRxEvent {
    IWARP_RX_NEED_MORE,
    IWARP_RX_SEGMENT,
    IWARP_RX_PAYLOAD,
    IWARP_RX_SEGMENT_END,
    IWARP_RX_ERROR,
} IwarpRxEvent;

/* A message of which not all segments have come. */
typedef struct IwarpRxMessage {
    bool open;
    uint8_t opcode;
    uint32_t stag;          /* tagged */
    uint64_t next_to;       /* tagged */
    uint32_t length;        /* payload octets so far: the next MO */
} IwarpRxMessage;

typedef struct IwarpRx {
    /* Results, valid as iwarp_rx_next() says.  Read only. */
    IwarpSegment segment;       /* from SEGMENT to the next SEGMENT */
    const uint8_t *payload;     /* PAYLOAD: octets, valid until the next call
                                 * of iwarp_rx_next, _buffer or _filled */
    size_t payload_len;         /* PAYLOAD: their number, at least 1 */
    uint32_t payload_offset;    /* PAYLOAD: their offset in the segment */
    IwarpError error;           /* ERROR */

    /* The engine's own. */
    uint8_t *buffer;
    size_t size;
    size_t head;                /* first octet not consumed */
    size_t tail;                /* end of the filled octets */
    bool crc;
    bool markers;
    uint16_t opcodes;
    uint16_t stream_pos;        /* of head, modulo 512; with markers only */
    uint8_t state;
    uint32_t payload_left;      /* of this segment, not yet given out */
    uint32_t skip;              /* octets behind it up to the next FPDU */
    IwarpRxMessage message;     /* at most one is open, Terminate apart */
    uint32_t msn[IWARP_QN_COUNT];   /* next expected */
} IwarpRx;

/* Start a stream.  Returns false when the buffer is too small. */
bool iwarp_rx_init(IwarpRx *rx, const IwarpRxConfig *config);

/* From the next segment on, accept these opcodes (IWARP_OPS_*), too. */
void iwarp_rx_accept(IwarpRx *rx, uint16_t opcodes);

/*
 * Where to read octets to.  *@space is 0 only when events wait to be taken by
 * iwarp_rx_next().  After NEED_MORE there is always room for the rest of the
 * FPDU.  After ERROR the whole buffer is offered, so that a caller can go on
 * draining the socket; what it fills in is forgotten.
 */
void iwarp_rx_buffer(IwarpRx *rx, void **ptr, size_t *space);

/* @n octets, at most the space given, were read to the place given. */
void iwarp_rx_filled(IwarpRx *rx, size_t n);

/*
 * Copy as many of @len octets as there is room for; for octets that came by
 * other ways than iwarp_rx_buffer().  Returns how many were taken.
 */
size_t iwarp_rx_feed(IwarpRx *rx, const void *data, size_t len);

/* The next event; see above.  ERROR is repeated for ever. */
IwarpRxEvent iwarp_rx_next(IwarpRx *rx);

/*
 * Direct placement: the payload octets of the segment in progress that are
 * still in the socket, when nothing stands before them in the buffer; else 0.
 * Ask after NEED_MORE.  Always 0 with CRC or markers in use.
 *
 * The caller may then readv() into the segment's place, from octet
 * iwarp_rx_direct_offset() of the segment's payload on, followed by the space
 * of iwarp_rx_buffer(), and tells how many octets went to each.
 */
size_t iwarp_rx_direct(const IwarpRx *rx);

/* Offset in the segment's payload of the next octet to be placed directly. */
uint32_t iwarp_rx_direct_offset(const IwarpRx *rx);

/*
 * @n payload octets were placed outside, before any octet reported with
 * iwarp_rx_filled().  Returns false, and does nothing, when @n is above
 * iwarp_rx_direct().
 */
bool iwarp_rx_placed(IwarpRx *rx, size_t n);

/*
 * Look at what is in the buffer behind the segment in progress, of which no payload
 * has been taken, for a caller that cannot take it yet.  *@at: 0 at first, then as it
 * was left.  True: @ahead has opcode, tagged, last, stag, to and payload_len of the
 * next segment, which is whole; nothing has been checked but its CRC and that these
 * can be read.  False: there is none, or the stream has markers.
 */
bool iwarp_rx_look_ahead(const IwarpRx *rx, size_t *at, IwarpSegment *ahead);

/*
 * *@left: how many octets, behind those that are here, the FPDU in progress still
 * has; 0: what is here ends with an FPDU.  *@pos: the stream position of the next
 * one, with markers.  False: that is not known yet, or the stream has failed.
 */
bool iwarp_rx_fpdu_left(const IwarpRx *rx, size_t *left, uint16_t *pos);

/*
 * The caller refuses the segment in progress (from its SEGMENT up to the event
 * after its SEGMENT_END): the stream fails with @term and this segment's
 * headers.  Does nothing if the stream failed before: the first error counts
 * (RFC 5040 section 7.1).  The error is in rx->error either way.
 */
void iwarp_rx_reject(IwarpRx *rx, IwarpTermCode term);

/*
 * True between messages with nothing buffered: a FIN here is a graceful end
 * of the peer's sending, anywhere else it cuts a message.
 */
bool iwarp_rx_idle(const IwarpRx *rx);

#endif /* IWARP_STREAM_RX_H */
