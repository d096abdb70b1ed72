/*
 * rnic: an LLP stream in full operation, the wire under a QP
 *
 * Owns the transport, the two halves of the protocol engine and the octets that
 * wait for the transport.  Knows nothing of work queues: the QP that owns the
 * stream drives it and is called back when the transport can be read or written.
 *
 * Output waits in a staging buffer that always ends at an FPDU boundary:
 * small frames, and all that have a CRC, are copied into it; of a large frame
 * that the transport took in part, the rest is.  So a Terminate can be appended at
 * any time.
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
    /* Small frames are staged up to this; the rest is kept free for the
     * unsent part of one large frame and a Terminate. */
    RNIC_STAGE_SMALL = 128 * 1024,
    RNIC_STAGE_SIZE = RNIC_STAGE_SMALL + 2 * IWARP_FPDU_WIRE_MAX,
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
    bool hold_output;           /* responder: no FPDU before the peer's first */
    bool rtr_expected;          /* the peer's first FPDU is an RTR */
    bool rtr_read;              /* our RTR was a Read, not answered yet */
    bool blocked;               /* the transport takes no more for now */
    bool corked;                /* until rnic_stream_flush() */
    bool write_handler;
    bool read_paused;
    bool suspended;             /* the VM is stopped: nothing is watched */
    bool in_use;                /* by a function that frees it if detached */
    bool detached;
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

static inline bool rnic_stream_uses_crc(const RnicStream *st)
{
    return st->tx.crc;
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

/*
 * Call the read handler of a stream that is watched, as if something had
 * arrived.  False: it has closed the stream, which is gone.
 */
bool rnic_stream_read_now(RnicStream *st);

/* Read into @iov; *@n is the octets with OK. */
RnicIo rnic_stream_readv(RnicStream *st, const struct iovec *iov,
                         size_t count, size_t *n);

/*
 * Lend the engine an FPDU that has come in whole, where the peer has put it.
 * Returns its octets, or 0: there is none, octets have to be read.  Then, once
 * the engine has no more events, that it is done with.
 */
size_t rnic_stream_lend(RnicStream *st);
void rnic_stream_take_back(RnicStream *st, size_t n);

/*
 * Octets to read at most so that the next large FPDU can be lent, see
 * iwarp_rx_before_large(); SIZE_MAX where none is lent.  Looks no further than
 * at the next @len octets: a peer's ring can be full of the smallest FPDUs.
 */
size_t rnic_stream_before_large(const RnicStream *st, size_t len);

/*
 * Write the stage, then @iov (whole frames).  *@n is the octets of @iov that
 * left.  BLOCKED, with *@n as far as it got, arms the writable handler.
 */
RnicIo rnic_stream_writev(RnicStream *st, const struct iovec *iov,
                          size_t count, size_t *n);

/*
 * More is about to be written: the end of what is written until then may wait for
 * it, to leave in one packet, or to be found by a peer that was told once.  At
 * the latest it leaves with rnic_stream_flush(), which is due.
 */
void rnic_stream_cork(RnicStream *st);

/* Write the stage, hold nothing back any more; sends FIN behind it if wanted. */
RnicIo rnic_stream_flush(RnicStream *st);

/*
 * Octets behind the stage that rnic_stream_writev() is sure to take.  SIZE_MAX:
 * the transport cannot tell, or the write would fail.
 */
size_t rnic_stream_room(const RnicStream *st);

/*
 * After rnic_stream_room() has returned too little: write the stage if there is
 * one; else have the writable handler called when there is more room (BLOCKED).
 */
RnicIo rnic_stream_await_room(RnicStream *st);

/* Octets that small frames may still take in the stage. */
size_t rnic_stream_stage_room(const RnicStream *st);

/*
 * Append a frame of iwarp_tx_frame(), with its CRC if that is in use; or octets
 * of @iov from @skip on as they are.  The caller has seen to the room.  A large
 * frame for a ring in shared memory goes there at once; rnic_stream_flush() is
 * due all the same.
 */
void rnic_stream_stage_frame(RnicStream *st, const struct iovec *iov,
                             size_t count);
void rnic_stream_stage_octets(RnicStream *st, const struct iovec *iov,
                              size_t count, size_t skip);

static inline bool rnic_stream_stage_empty(const RnicStream *st)
{
    return st->stage_head == st->stage_tail;
}

#endif /* HW_RNIC_STREAM_H */
