/*
 * rnic: what the devices of a direct connect tell each other
 *
 * iWARP has no acknowledgements of messages; programs written for InfiniBand count on
 * them.  The devices exchange them as RDMA Writes of no octets to STag zero, which by
 * RFC 5040 change nothing.  TO holds a kind in its upper 8 bits and a value.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qp-internal.h"
#include "hw/rnic/base/trace.h"

enum {
    NOTE_STAG = 0,
    NOTE_VALUE_BITS = 56,

    NOTE_DELIVERED = 1,         /* value: messages since the stream began */
    NOTE_RNR_RETRY = 2,         /* value: the sender's rnr_retry */
};

#define NOTE_VALUE_MASK ((1ULL << NOTE_VALUE_BITS) - 1)

static void direct_note_make(IwarpTxMessage *msg, uint8_t kind, uint64_t value)
{
    *msg = (IwarpTxMessage) {
        .opcode = IWARP_OP_WRITE,
        .stag = NOTE_STAG,
        .to = (uint64_t)kind << NOTE_VALUE_BITS | (value & NOTE_VALUE_MASK),
    };
}

bool rnic_direct_note_next(RnicQp *qp, IwarpTxMessage *msg)
{
    RnicDirectQp *d = &qp->direct;

    if (!d->connected) {
        return false;
    }
    if (d->rts_given && d->rnr_retry != d->rnr_retry_told) {
        d->rnr_retry_told = d->rnr_retry;
        direct_note_make(msg, NOTE_RNR_RETRY, d->rnr_retry);
        return true;
    }
    if (d->delivered != d->delivered_told) {
        d->delivered_told = d->delivered;
        direct_note_make(msg, NOTE_DELIVERED, d->delivered);
        return true;
    }
    return false;
}

/* A Write of the guest is no note: without octets its STag means nothing. */
void rnic_direct_note_exclude(const RnicQp *qp, IwarpTxMessage *msg)
{
    if (qp->direct.connected && msg->length == 0 && msg->stag == NOTE_STAG) {
        msg->stag = ~NOTE_STAG;
    }
}

bool rnic_direct_note_is(const RnicQp *qp, const IwarpSegment *seg)
{
    return qp->direct.connected && seg->opcode == IWARP_OP_WRITE &&
           seg->payload_len == 0 && seg->stag == NOTE_STAG;
}

/* @value, modulo 2^56, as messages since the stream began.  False: it cannot be. */
static bool direct_note_messages(const RnicDirectQp *d, uint64_t value,
                                 uint64_t *messages)
{
    uint64_t news = (value - d->noted) & NOTE_VALUE_MASK;

    *messages = d->noted + news;
    return news <= d->sent - d->noted;
}

static void direct_note_acknowledge(RnicQp *qp, uint64_t messages)
{
    if (messages > qp->direct.acknowledged) {
        qp->direct.acknowledged = messages;
        rnic_sq_acknowledged(qp);
    }
}

static bool direct_note_acknowledged(RnicQp *qp, uint64_t value)
{
    RnicDirectQp *d = &qp->direct;
    uint64_t messages;

    if (!direct_note_messages(d, value, &messages)) {
        trace_rnic_err_direct_acknowledged(qp->qpn, value, d->sent);
        return false;
    }
    d->noted = messages;
    direct_note_acknowledge(qp, messages);
    return true;
}

/* A false note is an error when its turn comes.  A completion may fail, and the
 * stream end with that. */
void rnic_direct_note_look_ahead(RnicQp *qp, size_t *at)
{
    IwarpSegment seg;
    uint64_t messages;

    while (qp->state == RNIC_QPS_RTS &&
           iwarp_rx_look_ahead(&qp->stream->rx, at, &seg)) {
        if (rnic_direct_note_is(qp, &seg) &&
            seg.to >> NOTE_VALUE_BITS == NOTE_DELIVERED &&
            direct_note_messages(&qp->direct, seg.to & NOTE_VALUE_MASK,
                                 &messages)) {
            direct_note_acknowledge(qp, messages);
        }
    }
}

bool rnic_direct_note_received(RnicQp *qp, const IwarpSegment *seg)
{
    uint64_t value = seg->to & NOTE_VALUE_MASK;

    switch (seg->to >> NOTE_VALUE_BITS) {
    case NOTE_DELIVERED:
        return direct_note_acknowledged(qp, value);
    case NOTE_RNR_RETRY:
        qp->direct.peer_rnr_retry = MIN(value, RNIC_RNR_RETRY_FOR_EVER);
        return true;
    default:                    /* the RTR, or what a later version says */
        return true;
    }
}

void rnic_direct_note_delivered(RnicQp *qp)
{
    RnicDirectQp *d = &qp->direct;

    if (d->connected && qp->state == RNIC_QPS_RTS &&
        d->delivered++ == d->delivered_told) {
        rnic_qp_kick(qp);
    }
}
