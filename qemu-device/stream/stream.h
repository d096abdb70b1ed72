/*
 * rnic: an LLP stream in full operation, the wire under a QP
 *
 * Owns the transport, the two halves of the protocol engine and the octets that
 * wait for the transport.  Knows nothing of work queues: the QP that owns the
 * stream drives it and is called back when the transport can be read or written.
 *
 * Output waits in a staging buffer that always ends at an FPDU boundary, so that a
 * Terminate can be appended at any time.  Into a transport that shows where its next
 * octets go, large frames are copied at once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_STREAM_H
#define HW_RNIC_STREAM_H

#include "hw/rnic/base/compat.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/iwarp/mpa-startup.h"
#include "hw/rnic/iwarp/stream-rx.h"
#include "hw/rnic/iwarp/stream-tx.h"

enum {
    /* Frames are staged up to this; the rest is kept free for one large frame
     * and a Terminate. */
    RNIC_STAGE_SMALL = 128 * 1024,
    RNIC_STAGE_SIZE = RNIC_STAGE_SMALL + 2 * IWARP_FPDU_WIRE_MAX,
    RNIC_RAW_MAX = RNIC_STAGE_SMALL / 2,
};

typedef struct RnicStream {
    RnicTransport *transport;
    AioContext *ctx;            /* where it is watched */
    RnicLingers *lingers;       /* of that */
    IwarpRx rx;
    IwarpTx tx;
    uint8_t *rx_buffer;
    uint8_t *stage;             /* RNIC_STAGE_SIZE octets, made when needed */
    size_t stage_head;
    size_t stage_tail;
    size_t raw_left;            /* of the stage, from its head: no FPDUs */
    bool hold_output;           /* responder: no FPDU before the peer's first */
    bool rtr_expected;          /* the peer's first FPDU is an RTR */
    bool rtr_read;              /* our RTR was a Read, not answered yet */
    bool blocked;               /* the transport takes no more for now */
    bool corked;                /* until rnic_stream_flush() */
    bool write_handler;
    bool read_paused;
    bool read_behind_raw;       /* reading starts when raw_left is 0 */
    bool suspended;             /* the VM is stopped: nothing is watched */
    bool fin_wanted;            /* send FIN once the stage is empty */
    bool fin_sent;
    bool fin_received;
    IOHandler *on_readable;
    IOHandler *on_writable;
    void *opaque;
} RnicStream;

/* What MPA start-up agreed on. */
typedef struct RnicStreamSetup {
    RnicTransport *transport;   /* ownership passes to the stream */
    const IwarpMpaAgreed *agreed;
    bool initiator;
    uint16_t mulpdu;
    /* Sent before all else, as they are; at most RNIC_RAW_MAX.  Copied. */
    const uint8_t *raw;
    size_t raw_len;
} RnicStreamSetup;

typedef enum RnicIo {
    RNIC_IO_OK,
    RNIC_IO_BLOCKED,
    RNIC_IO_EOF,
    RNIC_IO_RESET,              /* the peer reset the connection */
    RNIC_IO_LOST,               /* no answer from the peer any more */
} RnicIo;

/*
 * The handlers are called from @ctx with @opaque; reading starts with
 * rnic_stream_resume_reading().  All functions here are for @ctx's thread, whose
 * @lingers are, too.
 */
RnicStream *rnic_stream_new(const RnicStreamSetup *setup, AioContext *ctx,
                            RnicLingers *lingers, IOHandler *on_readable,
                            IOHandler *on_writable, void *opaque);

/* Close in order: FIN, behind the stage (fabric/linger.h). */
void rnic_stream_close(RnicStream *st);
/* Close with a reset. */
void rnic_stream_abort(RnicStream *st);

/* Watch nothing until rnic_stream_resume(): no handler is called meanwhile. */
void rnic_stream_suspend(RnicStream *st);
void rnic_stream_resume(RnicStream *st);

void rnic_stream_pause_reading(RnicStream *st);
/* As soon as the setup's raw octets have been sent. */
void rnic_stream_resume_reading(RnicStream *st);

/* The transport takes no more for now: the writable handler will be called. */
static inline bool rnic_stream_blocked(const RnicStream *st)
{
    return st->blocked;
}

/* Nothing keeps FPDUs back: a responder waits for the peer's first one. */
static inline bool rnic_stream_may_send(const RnicStream *st)
{
    return !st->blocked && !st->hold_output;
}

/* The peer's first FPDU has come.  True: FPDUs were kept back until now. */
static inline bool rnic_stream_let_send(RnicStream *st)
{
    bool held = st->hold_output;

    st->hold_output = false;
    return held;
}

/* Nothing of an FPDU has arrived that is not complete. */
static inline bool rnic_stream_between_fpdus(const RnicStream *st)
{
    return iwarp_rx_idle(&st->rx);
}

/* FIN is to follow the stage: rnic_stream_flush() is due. */
static inline void rnic_stream_want_fin(RnicStream *st)
{
    st->fin_wanted = true;
}

/* What lies behind that which waits to be read. */
static inline RnicTransportEnd rnic_stream_end(const RnicStream *st)
{
    return rnic_transport_end(st->transport);
}

/* Both ends have said FIN. */
static inline bool rnic_stream_has_ended(const RnicStream *st)
{
    return st->fin_sent && st->fin_received;
}

/* The read handler is called as soon as something arrives. */
static inline bool rnic_stream_watched(const RnicStream *st)
{
    return !st->read_paused && !st->suspended;
}

/* Something has been read outside of the read handler: what has come since then is
 * for the handler. */
void rnic_stream_update_handlers(RnicStream *st);

/* Read into @iov; *@n is the octets with OK. */
RnicIo rnic_stream_readv(RnicStream *st, const struct iovec *iov,
                         size_t count, size_t *n);

/*
 * Write the stage; BLOCKED: the writable handler will be called.  @more: the end
 * of it may wait for what follows in the same turn, to leave in one packet or to be
 * found by a peer that is told once.  Else nothing is held back any more.  Sends
 * FIN behind it if wanted.
 */
RnicIo rnic_stream_flush(RnicStream *st, bool more);

/* Octets that small frames may still take in the stage. */
size_t rnic_stream_stage_room(const RnicStream *st);

/* The segment of @msg that begins at payload octet @offset. */
void rnic_stream_segment(const RnicStream *st, const IwarpTxMessage *msg,
                         uint32_t offset, IwarpTxSegment *seg);

/*
 * Append the frame of @seg, whose payload is in @count spans.  The caller has seen
 * to the room; rnic_stream_flush() is due.  Returns the frame's octets; 0: too many
 * spans, nothing has been appended.
 */
size_t rnic_stream_stage_segment(RnicStream *st, const IwarpTxSegment *seg,
                                 const struct iovec *payload, size_t count);

/* Append a Terminate for @error. */
void rnic_stream_stage_terminate(RnicStream *st, const IwarpError *error);

static inline bool rnic_stream_stage_empty(const RnicStream *st)
{
    return st->stage_head == st->stage_tail;
}

#endif /* HW_RNIC_STREAM_H */
