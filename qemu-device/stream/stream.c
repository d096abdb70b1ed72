/*
 * rnic: an LLP stream in full operation, the wire under a QP
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/iov.h"
#include "hw/rnic/guest/dma.h"
#include "stream.h"
#include "hw/rnic/base/trace.h"

enum {
    /* Smaller frames leave together. */
    LARGE_FRAME = 4096,
    /* Of one frame: those of a map, headers, and markers between them. */
    FRAME_SPANS = 1024,
};

void rnic_stream_update_handlers(RnicStream *st)
{
    rnic_transport_set_handlers(st->transport, st->ctx,
                                rnic_stream_watched(st)
                                ? st->on_readable : NULL,
                                st->write_handler && !st->suspended
                                ? st->on_writable : NULL,
                                st->opaque);
}

static void stream_free(RnicStream *st)
{
    g_free(st->rx_buffer);
    g_free(st->stage);
    g_free(st);
}

/* @len octets more. */
static uint8_t *stream_stage_end(RnicStream *st, size_t len)
{
    uint8_t *end;

    if (!st->stage) {
        st->stage = g_malloc(RNIC_STAGE_SIZE);
    }
    assert(len <= RNIC_STAGE_SIZE - st->stage_tail);
    end = st->stage + st->stage_tail;
    st->stage_tail += len;
    return end;
}

static void stream_stage_raw(RnicStream *st, const uint8_t *raw, size_t len)
{
    assert(len <= RNIC_RAW_MAX);
    if (len) {
        memcpy(stream_stage_end(st, len), raw, len);
        st->raw_left = len;
    }
}

RnicStream *rnic_stream_new(const RnicStreamSetup *setup, AioContext *ctx,
                            RnicLingers *lingers, IOHandler *on_readable,
                            IOHandler *on_writable, void *opaque)
{
    const IwarpMpaAgreed *agreed = setup->agreed;
    RnicStream *st = g_new0(RnicStream, 1);
    IwarpTxConfig tx = {
        .crc = agreed->crc,
        .markers = agreed->tx_markers,
        .mulpdu = setup->mulpdu,
    };
    IwarpRxConfig rx = {
        .buffer_size = IWARP_RX_BUFFER_GOOD,
        .crc = agreed->crc,
        .markers = agreed->rx_markers,
        .opcodes = IWARP_OPS_RFC5040,
    };

    st->rx_buffer = g_malloc(rx.buffer_size);
    rx.buffer = st->rx_buffer;
    iwarp_rx_init(&st->rx, &rx);
    iwarp_tx_init(&st->tx, &tx);
    st->transport = setup->transport;
    st->ctx = ctx;
    st->lingers = lingers;
    st->hold_output = !setup->initiator;
    st->rtr_expected = !setup->initiator && agreed->peer_to_peer;
    st->on_readable = on_readable;
    st->on_writable = on_writable;
    st->opaque = opaque;
    st->read_paused = true;
    stream_stage_raw(st, setup->raw, setup->raw_len);
    return st;
}

void rnic_stream_close(RnicStream *st)
{
    rnic_transport_cork(st->transport, false);
    rnic_linger(st->lingers, st->transport, g_steal_pointer(&st->stage),
                st->stage_head, st->stage_tail);
    stream_free(st);
}

void rnic_stream_abort(RnicStream *st)
{
    rnic_transport_abort(st->transport);
    stream_free(st);
}

void rnic_stream_suspend(RnicStream *st)
{
    st->suspended = true;
    rnic_stream_update_handlers(st);
}

void rnic_stream_resume(RnicStream *st)
{
    st->suspended = false;
    rnic_stream_update_handlers(st);
}

void rnic_stream_pause_reading(RnicStream *st)
{
    st->read_behind_raw = false;
    if (!st->read_paused) {
        st->read_paused = true;
        rnic_stream_update_handlers(st);
    }
}

void rnic_stream_resume_reading(RnicStream *st)
{
    st->read_behind_raw = st->raw_left > 0;
    if (st->read_paused && !st->read_behind_raw) {
        st->read_paused = false;
        rnic_stream_update_handlers(st);
    }
}

static void stream_set_blocked(RnicStream *st, bool blocked)
{
    st->blocked = blocked;
    if (st->write_handler != blocked) {
        st->write_handler = blocked;
        rnic_stream_update_handlers(st);
    }
}

static RnicIo stream_failure(void)
{
    return errno == ETIMEDOUT ? RNIC_IO_LOST : RNIC_IO_RESET;
}

/* The tap begins to look somewhere in the stream. */
static void stream_tell_read_place(RnicStream *st)
{
    uint16_t pos;
    size_t left;

    if (iwarp_rx_fpdu_left(&st->rx, &left, &pos)) {
        rnic_transport_tell_place(st->transport, false, left, pos);
    }
}

/* The stage ends with an FPDU; nothing of it has been sent: it begins with one, or
 * with octets that are none. */
static void stream_tell_send_place(RnicStream *st)
{
    size_t staged = st->stage_tail - st->stage_head;

    if (st->raw_left) {
        rnic_transport_tell_place(st->transport, true, st->raw_left, 0);
    } else if (st->stage_head) {
        rnic_transport_tell_place(st->transport, true, staged,
                                  st->tx.stream_pos);
    } else {
        rnic_transport_tell_place(st->transport, true, 0,
                                  st->tx.stream_pos - staged);
    }
}

RnicIo rnic_stream_readv(RnicStream *st, const struct iovec *iov,
                         size_t count, size_t *n)
{
    ssize_t got;

    if (rnic_transport_tapped(st->transport)) {
        stream_tell_read_place(st);
    }
    rnic_guest_memory_begin();
    got = rnic_transport_readv(st->transport, iov, count);
    rnic_guest_memory_end();
    *n = 0;
    if (got > 0) {
        *n = got;
        return RNIC_IO_OK;
    }
    if (got == 0) {
        st->fin_received = true;
        return RNIC_IO_EOF;
    }
    return errno == EAGAIN ? RNIC_IO_BLOCKED : stream_failure();
}

static void stream_set_cork(RnicStream *st, bool corked)
{
    if (st->corked != corked) {
        st->corked = corked;
        rnic_transport_cork(st->transport, corked);
    }
}

/* Octets of the stage have been sent. */
static void stream_raw_sent(RnicStream *st, size_t sent)
{
    if (!st->raw_left) {
        return;
    }
    st->raw_left -= MIN(sent, st->raw_left);
    if (!st->raw_left) {
        trace_rnic_stream_raw_sent(st);
        if (st->read_behind_raw) {
            rnic_stream_resume_reading(st);
        }
    }
}

RnicIo rnic_stream_flush(RnicStream *st, bool more)
{
    size_t staged = st->stage_tail - st->stage_head;
    ssize_t sent = 0;

    if (rnic_transport_tapped(st->transport)) {
        stream_tell_send_place(st);
    }
    if (more) {
        stream_set_cork(st, true);
    }
    if (staged) {
        sent = rnic_transport_write(st->transport, st->stage + st->stage_head,
                                    staged);
    }
    if (sent < 0 && errno != EAGAIN) {
        return stream_failure();
    }
    st->stage_head += MAX(sent, 0);
    stream_raw_sent(st, MAX(sent, 0));
    if (rnic_stream_stage_empty(st)) {
        st->stage_head = 0;
        st->stage_tail = 0;
    }
    stream_set_blocked(st, !rnic_stream_stage_empty(st));
    if (st->blocked) {
        return RNIC_IO_BLOCKED;
    }
    stream_set_cork(st, more);
    if (st->fin_wanted && !st->fin_sent) {
        rnic_transport_shut_down(st->transport);
        st->fin_sent = true;
    }
    return RNIC_IO_OK;
}

size_t rnic_stream_stage_room(const RnicStream *st)
{
    return st->stage_tail < RNIC_STAGE_SMALL
           ? RNIC_STAGE_SMALL - st->stage_tail : 0;
}

/* Behind all that has left; NULL: the stage it is. */
static uint8_t *stream_room_beyond_stage(RnicStream *st, size_t len)
{
    return len > LARGE_FRAME && rnic_stream_stage_empty(st)
           ? rnic_transport_reserve(st->transport, len) : NULL;
}

void rnic_stream_segment(const RnicStream *st, const IwarpTxMessage *msg,
                         uint32_t offset, IwarpTxSegment *seg)
{
    iwarp_tx_segment(&st->tx, msg, offset, seg);
}

size_t rnic_stream_stage_segment(RnicStream *st, const IwarpTxSegment *seg,
                                 const struct iovec *payload, size_t count)
{
    QEMU_UNINITIALIZED struct iovec frame_spans[FRAME_SPANS];
    IwarpTxFrame frame;
    uint8_t *beyond;
    int n = iwarp_tx_frame(&st->tx, seg, payload, count, &frame, frame_spans,
                           FRAME_SPANS);

    if (n < 0) {
        return 0;
    }
    if (rnic_transport_tapped(st->transport)) {
        stream_tell_send_place(st);
    }
    beyond = stream_room_beyond_stage(st, frame.len);
    rnic_guest_memory_begin();
    iwarp_tx_copy(&st->tx, frame_spans, n,
                  beyond ?: stream_stage_end(st, frame.len));
    rnic_guest_memory_end();
    iwarp_tx_commit(&st->tx, &frame);
    if (beyond) {
        stream_set_cork(st, true);
        rnic_transport_commit(st->transport, frame.len);
    }
    return frame.len;
}

void rnic_stream_stage_terminate(RnicStream *st, const IwarpError *error)
{
    uint8_t octets[IWARP_TERMINATE_WIRE_MAX];
    IwarpTxFrame frame;
    size_t len = iwarp_tx_terminate(&st->tx, error, &frame, octets);

    memcpy(stream_stage_end(st, len), octets, len);
    iwarp_tx_commit(&st->tx, &frame);
}
