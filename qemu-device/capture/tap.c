/*
 * rnic: the tap of one connection, from a stream's octets to made-up TCP segments
 *
 * A segment is put as soon as its octets pass the tap.  One that finds no room is
 * left out, and all behind it up to the next FPDU; its sequence numbers are used
 * up, and the next segment says so in a comment.
 *
 * While capture is off a tap looks at the start-up only, and keeps its frames: a
 * capture that begins later, or the next file of one, begins with them, since no
 * dissector finds its way without.  Where a stream has none, they are made up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/iov.h"
#include "qemu/lockable.h"
#include "tap.h"

enum {
    /* Of one announcement: five packets, two with a start-up frame, comments. */
    ANNOUNCE_MAX = 8192,
    /* A segment and an acknowledgement. */
    SEGMENT_ROOM = RNIC_TAP_SEGMENT_MAX + 2048,
    /* One way, before the other one is made to acknowledge. */
    ACKNOWLEDGE_AFTER = 256 * 1024,
    /* The sequence numbers of a gap of unknown length. */
    UNKNOWN_GAP = 1,
    /* No unit began in this segment. */
    NO_UNIT = -1,
    AT_MPA_FLAGS = 16,
    MPA_MARKERS = 0x80,
    MPA_CRC = 0x40,
    EPHEMERAL_PORT = 49152,
};

/* Of a queue pair that is its own peer, and of one that has adopted an LLP stream. */
static const char made_up_comment[] =
    "Made up: this stream has no MPA start-up";

/* ----------------------------------------------------------------- packets */

static const char *tap_address(const RnicPacketEnd *end, char *out, size_t size)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    bool ipv4 = memcmp(end->ip, mapped, sizeof(mapped)) == 0;
    char ip[INET6_ADDRSTRLEN];

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? end->ip + 12 : end->ip, ip,
              sizeof(ip));
    snprintf(out, size, ipv4 ? "%s:%u" : "[%s]:%u", ip, end->port);
    return out;
}

/* "A to B", of this direction. */
static const char *tap_name(const RnicTap *tap, bool sent, char *out,
                            size_t size)
{
    char from[64], to[64];

    snprintf(out, size, "%s to %s",
             tap_address(&tap->end[sent], from, sizeof(from)),
             tap_address(&tap->end[!sent], to, sizeof(to)));
    return out;
}

static RnicCapturePacket tap_packet(const RnicTap *tap, bool sent,
                                    uint8_t flags)
{
    return (RnicCapturePacket) {
        .packet = {
            .from = &tap->end[sent],
            .to = &tap->end[!sent],
            .seq = tap->way[sent].next,
            .ack = tap->way[!sent].next,
            .flags = flags,
        },
        .way = sent ? RNIC_PCAPNG_OUTBOUND : RNIC_PCAPNG_INBOUND,
    };
}

static void tap_put_control(RnicTap *tap, bool sent, uint8_t flags,
                            const char *comment)
{
    RnicCapturePacket p = tap_packet(tap, sent, flags);

    p.comment = comment;
    rnic_capture_put(tap->capture, &p);
}

/* ------------------------------------------------------------ announcement */

static void tap_announce_handshake(RnicTap *tap, const char *comment)
{
    bool first = tap->initiator;

    tap->way[first].next = tap->way[first].first;
    tap->way[!first].next = tap->way[!first].first;
    tap_put_control(tap, first, RNIC_PACKET_SYN, comment);
    tap->way[first].next++;
    tap_put_control(tap, !first, RNIC_PACKET_SYN | RNIC_PACKET_ACK, NULL);
    tap->way[!first].next++;
    tap_put_control(tap, first, RNIC_PACKET_ACK, NULL);
}

/* The frame, if all of it lies before @next. */
static void tap_announce_start_up(RnicTap *tap, bool sent, uint32_t next)
{
    RnicTapWay *way = &tap->way[sent];
    RnicCapturePacket p = tap_packet(tap, sent,
                                     RNIC_PACKET_ACK | RNIC_PACKET_PSH);

    if (way->fpdus.phase != RNIC_FPDUS_FPDUS ||
        next - way->next < way->start_up_len) {
        return;
    }
    p.comment = way->start_up_made
                ? made_up_comment
                : "Repeated: this was sent before this file began";
    p.head = way->start_up;
    p.head_len = way->start_up_len;
    p.packet.payload_len = way->start_up_len;
    rnic_capture_put(tap->capture, &p);
    way->next += way->start_up_len;
}

/* The connection's begin, as if it were now; then on from where it is. */
static void tap_announce(RnicTap *tap)
{
    uint32_t next[2] = { tap->way[0].next, tap->way[1].next };
    bool first = tap->initiator;
    char name[160], comment[RNIC_PCAPNG_COMMENT_MAX], qp[32] = "";

    if (tap->qpn) {
        snprintf(qp, sizeof(qp), ", QP 0x%x", tap->qpn);
    }
    snprintf(comment, sizeof(comment), "%s%s: %s",
             tap_name(tap, first, name, sizeof(name)), qp,
             tap->old ? "began before this file"
                      : first ? "this device connects" : "the peer connects");
    tap_announce_handshake(tap, comment);
    tap_announce_start_up(tap, first, next[first]);
    tap_announce_start_up(tap, !first, next[!first]);
    tap->way[0].next = next[0];
    tap->way[1].next = next[1];
    tap->way[0].begun = tap->way[1].begun = !tap->old;
    tap->old = true;            /* for the next file */
    tap->epoch = tap->capture->epoch;
    tap->announced = true;
}

/* False: there is no room for @octets more. */
static bool tap_begin_packet(RnicTap *tap, size_t octets)
{
    if (!rnic_capture_begin(tap->capture, octets + ANNOUNCE_MAX)) {
        return false;
    }
    if (!tap->announced || tap->epoch != tap->capture->epoch) {
        tap_announce(tap);
    }
    return true;
}

/* ---------------------------------------------------------------- segments */

/* The octets are not in the file, but they are in the sequence. */
static void tap_leave_out(RnicTapWay *way, size_t len)
{
    way->missing += len;
    way->next += len;
}

static const char *tap_missing_comment(RnicTap *tap, bool sent, char *out,
                                       size_t size)
{
    char name[160];

    if (!tap->way[sent].missing) {
        return NULL;
    }
    snprintf(out, size, "%s: %" PRIu64 " octets before this are not in the "
             "file", tap_name(tap, sent, name, sizeof(name)),
             tap->way[sent].missing);
    return out;
}

static void tap_acknowledge(RnicTap *tap, bool sent, size_t len)
{
    RnicTapWay *way = &tap->way[sent];

    tap->way[!sent].unacknowledged = 0;
    way->unacknowledged += len;
    if (way->unacknowledged >= ACKNOWLEDGE_AFTER && !tap->way[!sent].ended) {
        tap_put_control(tap, !sent, RNIC_PACKET_ACK, NULL);
        way->unacknowledged = 0;
    }
}

/* The octets of a call of the tap that are not dealt with yet, behind the carry. */
typedef struct TapCut {
    RnicTap *tap;
    bool sent;
    const struct iovec *iov;
    size_t count;
    size_t start;               /* of the segment, in iov */
    ssize_t unit;               /* of the segment, where the last unit began */
    bool begins;                /* the segment begins with a unit */
    bool fpdus;                 /* it has nothing but FPDUs */
    bool beyond_rate;           /* FPDUs' packets are truncated */
} TapCut;

/* In a file that is not the connection's first one, no FPDU has begun yet. */
static bool tap_is_tail(TapCut *cut)
{
    RnicTapWay *way = &cut->tap->way[cut->sent];

    way->begun = way->begun || cut->begins ||
                 way->fpdus.phase == RNIC_FPDUS_OPAQUE;
    return !way->begun;
}

/* Put the segment's first @len octets; the next segment begins behind them. */
static void tap_put_segment(TapCut *cut, size_t len)
{
    RnicTap *tap = cut->tap;
    RnicTapWay *way = &tap->way[cut->sent];
    char comment[RNIC_PCAPNG_COMMENT_MAX];
    RnicCapturePacket p;

    if (!len) {
        return;
    }
    if (way->dropping && cut->unit != 0 &&
        way->fpdus.phase != RNIC_FPDUS_OPAQUE) {
        tap_leave_out(way, len);
    } else if (!tap_begin_packet(tap, SEGMENT_ROOM)) {
        way->dropping = true;
        tap->capture->counts.received++;
        tap->capture->counts.dropped++;
        tap_leave_out(way, len);
    } else if (tap_is_tail(cut)) {
        way->dropping = true;
        tap_leave_out(way, len);
    } else {
        way->dropping = false;
        p = tap_packet(tap, cut->sent, RNIC_PACKET_ACK | RNIC_PACKET_PSH);
        p.comment = tap_missing_comment(tap, cut->sent, comment,
                                        sizeof(comment));
        p.packet.payload_len = len;
        p.truncated = cut->beyond_rate && cut->fpdus;
        p.head = way->carry;
        p.head_len = way->carry_len;
        p.iov = cut->iov;
        p.count = cut->count;
        p.at = cut->start;
        rnic_capture_put(tap->capture, &p);
        way->missing = 0;
        way->next += len;
        tap_acknowledge(tap, cut->sent, len);
    }
    cut->start += len - way->carry_len;
    way->carry_len = 0;
    cut->unit = cut->unit >= (ssize_t)len ? cut->unit - (ssize_t)len : NO_UNIT;
    cut->begins = cut->unit == 0;
    cut->fpdus = way->fpdus.phase == RNIC_FPDUS_FPDUS;
}

/* What is longer than a segment may be is cut, before a unit if it can be. */
static void tap_cut_long(TapCut *cut, size_t len, size_t step)
{
    size_t left = len + step;

    if (left > RNIC_TAP_SEGMENT_MAX && cut->unit > 0) {
        left -= cut->unit;
        tap_put_segment(cut, cut->unit);
    }
    while (left > RNIC_TAP_SEGMENT_MAX) {
        left -= RNIC_TAP_SEGMENT_MAX;
        tap_put_segment(cut, RNIC_TAP_SEGMENT_MAX);
    }
}

/* Octets of the segment in progress, up to @at of iov. */
static size_t tap_cut_len(const TapCut *cut, size_t at)
{
    return cut->tap->way[cut->sent].carry_len + at - cut->start;
}

/* The octets are over: put them, but for a unit's head that is not complete. */
static void tap_cut_end(TapCut *cut, size_t end)
{
    RnicTapWay *way = &cut->tap->way[cut->sent];
    size_t len;

    if (way->fpdus.phase != RNIC_FPDUS_OPAQUE && cut->unit >= 0 &&
        way->fpdus.done > 0 && way->fpdus.done < RNIC_TAP_HEAD_MIN) {
        tap_put_segment(cut, cut->unit);
        len = end - cut->start;
        iov_to_buf(cut->iov, cut->count, cut->start,
                   way->carry + way->carry_len, len);
        way->carry_len += len;
        return;
    }
    tap_put_segment(cut, tap_cut_len(cut, end));
}

/* Segments of the octets from @at to @end of @iov. */
static void tap_segments(RnicTap *tap, bool sent, const struct iovec *iov,
                         size_t count, size_t at, size_t end)
{
    RnicTapWay *way = &tap->way[sent];
    bool beyond_rate = rnic_capture_beyond_rate(tap->capture);
    /* So that the headers of all FPDUs are kept. */
    bool one_each = tap->capture->running.snaplen || beyond_rate;
    TapCut cut = {
        .tap = tap, .sent = sent, .iov = iov, .count = count, .start = at,
        .unit = way->carry_len ? 0 : NO_UNIT, .begins = way->carry_len > 0,
        .fpdus = way->fpdus.phase == RNIC_FPDUS_FPDUS,
        .beyond_rate = beyond_rate,
    };

    while (at < end) {
        bool begins = rnic_fpdus_between(&way->fpdus);
        bool ended;
        size_t step;

        if (begins && (one_each || way->dropping)) {
            tap_put_segment(&cut, tap_cut_len(&cut, at));
        }
        if (begins) {
            cut.unit = tap_cut_len(&cut, at);
            cut.begins = cut.begins || cut.unit == 0;
        }
        step = rnic_fpdus_step(&way->fpdus, iov, count, at, end - at, &ended);
        tap_cut_long(&cut, tap_cut_len(&cut, at), step);
        at += step;
    }
    tap_cut_end(&cut, end);
}

/* -------------------------------------------------------------- the stream */

/* The flags of either frame are for the other direction. */
static void tap_learn_markers(RnicTap *tap)
{
    for (int sent = 0; sent < 2; sent++) {
        const RnicTapWay *other = &tap->way[!sent];

        tap->way[sent].fpdus.markers =
            other->start_up_len > AT_MPA_FLAGS &&
            (other->start_up[AT_MPA_FLAGS] & MPA_MARKERS);
    }
}

/* Keep what may be of the start-up frame. */
static void tap_keep_start_up(RnicTapWay *way, const struct iovec *iov,
                              size_t count, size_t len)
{
    len = MIN(len, (size_t)IWARP_MPA_FRAME_MAX - way->start_up_len);
    way->start_up = g_realloc(way->start_up, way->start_up_len + len);
    iov_to_buf(iov, count, 0, way->start_up + way->start_up_len, len);
    way->start_up_len += len;
}

/* Octets behind the start-up frame were not of it. */
static void tap_start_up_ended(RnicTap *tap, bool sent)
{
    RnicTapWay *way = &tap->way[sent];
    const uint8_t *pd = way->start_up + RNIC_FPDUS_START_UP_HEAD - 2;

    if (way->fpdus.phase == RNIC_FPDUS_FPDUS) {
        way->start_up_len = MIN(way->start_up_len,
                                RNIC_FPDUS_START_UP_HEAD + lduw_be_p(pd));
    }
    tap_learn_markers(tap);
}

static bool tap_starts_up(const RnicTap *tap)
{
    return tap->way[0].fpdus.phase == RNIC_FPDUS_START_UP ||
           tap->way[1].fpdus.phase == RNIC_FPDUS_START_UP;
}

/* What a file that takes nothing more has left behind. */
static void tap_drop_carry(RnicTap *tap)
{
    for (int sent = 0; sent < 2; sent++) {
        RnicTapWay *way = &tap->way[sent];

        way->next += way->carry_len;
        way->carry_len = 0;
    }
}

/* Capture is off: the tap has to look at the start-up only. */
static void tap_idle(RnicTap *tap)
{
    tap->old = true;
    tap->raw_left = 0;
    tap_drop_carry(tap);
    if (!tap_starts_up(tap)) {
        tap->way[0].place = tap->way[1].place = RNIC_TAP_LOST;
        qatomic_set(&tap->transport->tapped, false);
    }
}

static void tap_follow(RnicTap *tap, bool sent, const struct iovec *iov,
                       size_t count, size_t at, size_t end)
{
    RnicTapWay *way = &tap->way[sent];
    bool ended;

    way->next += end - at;
    while (at < end) {
        at += rnic_fpdus_step(&way->fpdus, iov, count, at, end - at, &ended);
    }
}

/* How many octets are left out before the next FPDU. */
static size_t tap_skip(RnicTapWay *way, size_t len)
{
    size_t n = way->place == RNIC_TAP_LOST ? len
               : way->place == RNIC_TAP_SKIPS ? MIN(len, way->skip) : 0;

    tap_leave_out(way, n);
    if (way->place == RNIC_TAP_SKIPS) {
        way->skip -= n;
        if (!way->skip) {
            way->place = RNIC_TAP_FOLLOWS;
        }
    }
    return n;
}

static void tap_captured(RnicTap *tap, bool sent, const struct iovec *iov,
                         size_t count, size_t at, size_t end)
{
    at += tap_skip(&tap->way[sent], end - at);
    if (at < end) {
        tap_segments(tap, sent, iov, count, at, end);
    }
}

/* Octets from @at to @end of @iov. */
static void tap_pass(RnicTap *tap, bool sent, const struct iovec *iov,
                     size_t count, size_t at, size_t end)
{
    RnicTapWay *way = &tap->way[sent];
    bool starts_up = way->fpdus.phase == RNIC_FPDUS_START_UP;
    bool runs = rnic_capture_runs(tap->capture);

    if (starts_up) {
        tap_keep_start_up(way, iov, count, end);
    }
    if (runs && !tap->twin) {
        tap_captured(tap, sent, iov, count, at, end);
    } else {
        tap_follow(tap, sent, iov, count, at, end);
    }
    if (starts_up && way->fpdus.phase != RNIC_FPDUS_START_UP) {
        tap_start_up_ended(tap, sent);
    }
    if (!runs) {
        tap_idle(tap);
    }
}

static void tap_begin_fpdus(RnicTap *tap);

static void tap_octets(RnicTransportTap *t, bool sent, const struct iovec *iov,
                       size_t count, size_t len)
{
    RnicTap *tap = container_of(t, RnicTap, tap);
    size_t raw = 0;

    QEMU_LOCK_GUARD(&tap->capture->lock);
    if (tap->loop && !sent) {
        return;
    }
    if (sent && tap->raw_left) {
        raw = MIN(len, tap->raw_left);
        tap->raw_left -= raw;
        tap_pass(tap, sent, iov, count, 0, raw);
        if (!tap->raw_left) {
            tap_begin_fpdus(tap);
        }
    }
    if (raw < len) {
        tap_pass(tap, sent, iov, count, raw, len);
    }
}

static void tap_place(RnicTransportTap *t, bool sent, size_t left, uint16_t pos)
{
    RnicTap *tap = container_of(t, RnicTap, tap);
    RnicTapWay *way = &tap->way[sent];

    QEMU_LOCK_GUARD(&tap->capture->lock);
    if (way->place == RNIC_TAP_LOST && rnic_capture_runs(tap->capture)) {
        rnic_fpdus_place(&way->fpdus, pos);
        way->skip = left;
        way->place = left ? RNIC_TAP_SKIPS : RNIC_TAP_FOLLOWS;
    }
}

/* --------------------------------------------------------------- the end */

/* What is held back, though it is no whole head. */
static void tap_put_carry(RnicTap *tap, bool sent)
{
    TapCut cut = { .tap = tap, .sent = sent, .unit = 0, .begins = true };

    tap_put_segment(&cut, tap->way[sent].carry_len);
}

/* No segment will say what is missing before it. */
static void tap_put_rest(RnicTap *tap)
{
    char text[RNIC_PCAPNG_COMMENT_MAX];

    for (int sent = 0; sent < 2; sent++) {
        tap_put_carry(tap, sent);
        if (tap_missing_comment(tap, sent, text, sizeof(text))) {
            rnic_capture_put_note(tap->capture, text);
            tap->way[sent].missing = 0;
        }
    }
}

static void tap_put_end(RnicTap *tap, bool sent, uint8_t flags, const char *why)
{
    RnicTapWay *way = &tap->way[sent];
    char missing[RNIC_PCAPNG_COMMENT_MAX];
    const char *comment = why;

    if (way->ended) {
        return;
    }
    way->ended = true;
    if (!rnic_capture_runs(tap->capture) || tap->twin) {
        return;
    }
    tap_put_carry(tap, sent);
    if (!tap_begin_packet(tap, SEGMENT_ROOM)) {
        tap->capture->counts.received++;
        tap->capture->counts.dropped++;
        return;
    }
    if (!comment) {
        comment = tap_missing_comment(tap, sent, missing, sizeof(missing));
    }
    tap_put_control(tap, sent, flags | RNIC_PACKET_ACK, comment);
    way->missing = 0;
    way->next++;
}

/* A broken connection is over in both directions; what broke it is the peer's RST. */
static void tap_broken(RnicTap *tap, int error)
{
    char why[128];

    tap->broken = true;
    snprintf(why, sizeof(why), "The connection is broken: %s", strerror(error));
    if (rnic_capture_runs(tap->capture) && !tap->twin) {
        tap_put_carry(tap, true);
    }
    tap->way[false].ended = false;
    tap_put_end(tap, false, RNIC_PACKET_RST, why);
    tap->way[true].ended = true;
}

static void tap_ended(RnicTransportTap *t, bool sent, int error)
{
    RnicTap *tap = container_of(t, RnicTap, tap);

    QEMU_LOCK_GUARD(&tap->capture->lock);
    if (error && !tap->broken) {
        tap_broken(tap, error);
    } else if (!error) {
        tap_put_end(tap, sent, RNIC_PACKET_FIN, NULL);
    }
}

static void tap_remove(RnicTap *tap)
{
    GHashTable *by_ends = tap->capture->by_ends;

    QLIST_REMOVE(tap, next);
    if (g_hash_table_lookup(by_ends, tap) == tap) {
        g_hash_table_remove(by_ends, tap);
    }
}

static void tap_closed(RnicTransportTap *t, bool reset)
{
    RnicTap *tap = container_of(t, RnicTap, tap);

    WITH_QEMU_LOCK_GUARD(&tap->capture->lock) {
        if (rnic_capture_runs(tap->capture) && !tap->twin) {
            tap_put_rest(tap);
        }
        if (reset && !(tap->way[0].ended && tap->way[1].ended)) {
            tap->way[true].ended = false;
            tap_put_end(tap, true, RNIC_PACKET_RST, "This device resets");
        } else {
            tap_put_end(tap, true, RNIC_PACKET_FIN, NULL);
        }
        tap_remove(tap);
    }
    g_free(tap->way[0].start_up);
    g_free(tap->way[1].start_up);
    g_free(tap);
}

static const RnicTransportTapOps tap_ops = {
    .octets = tap_octets,
    .ended = tap_ended,
    .place = tap_place,
    .closed = tap_closed,
};

/* -------------------------------------------------------------------- life */

void rnic_tap_begin(RnicTap *tap)
{
    tap->announced = false;
    for (int sent = 0; sent < 2; sent++) {
        RnicTapWay *way = &tap->way[sent];

        way->missing = 0;
        way->dropping = false;
        if (way->place == RNIC_TAP_LOST) {
            way->next = way->first + 1 + way->start_up_len + UNKNOWN_GAP;
        }
        if (tap->streaming) {
            way->place = RNIC_TAP_FOLLOWS;
        }
    }
    qatomic_set(&tap->transport->tapped, true);
}

void rnic_tap_end(RnicTap *tap)
{
    tap_put_rest(tap);
}

/* The device knows the peer's IP address only: its MAC address is made of that. */
static void tap_set_end(RnicPacketEnd *end, const RnicAddr *addr,
                        const uint8_t *mac)
{
    if (mac) {
        memcpy(end->mac, mac, sizeof(end->mac));
    } else {
        end->mac[0] = 0x02;
        memcpy(end->mac + 2, addr->ip + 12, 4);
    }
    memcpy(end->ip, addr->ip, sizeof(end->ip));
    end->port = addr->port;
}

guint rnic_tap_hash(gconstpointer opaque)
{
    const RnicTap *tap = opaque;
    guint hash = 0;

    for (int sent = 0; sent < 2; sent++) {
        const RnicPacketEnd *end = &tap->end[sent];

        for (size_t i = 0; i < sizeof(end->ip); i++) {
            hash = hash * 33 + end->ip[i];
        }
        hash = hash * 65599 + end->port;
    }
    return hash;
}

static bool tap_same_end(const RnicPacketEnd *a, const RnicPacketEnd *b)
{
    return a->port == b->port && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

gboolean rnic_tap_equal(gconstpointer a, gconstpointer b)
{
    const RnicTap *one = a, *other = b;

    return tap_same_end(&one->end[0], &other->end[0]) &&
           tap_same_end(&one->end[1], &other->end[1]);
}

/*
 * A connection of the device with itself is captured at the end that came first.  One
 * of its ends has dialed.  A peer of the UNIX fabric may take the device's own addresses:
 * two connections that it has made are no twins, nor is one that comes when a connection
 * has both of its ends.
 */
static bool tap_is_twin(const RnicTap *tap)
{
    RnicTap ends = { .end = { tap->end[1], tap->end[0] } };
    RnicTap *other = g_hash_table_lookup(tap->capture->by_ends, &ends);

    if (!other || other->has_twin || other->initiator == tap->initiator) {
        return false;
    }
    other->has_twin = true;
    return true;
}

static RnicTap *tap_new(RnicState *s, RnicTransport *t, const RnicAddr *local,
                        const RnicAddr *remote, bool initiator)
{
    RnicTap *tap = g_new0(RnicTap, 1);

    tap->tap.ops = &tap_ops;
    tap->capture = s->capture;
    tap->transport = t;
    tap->initiator = initiator;
    tap_set_end(&tap->end[true], local, s->nic_conf.macaddr.a);
    tap_set_end(&tap->end[false], remote, NULL);
    tap->way[0].place = tap->way[1].place = RNIC_TAP_FOLLOWS;
    return tap;
}

/* Sequence numbers that an earlier connection of the same ports has not. */
static void tap_add(RnicTap *tap)
{
    RnicCapture *c = tap->capture;

    tap->twin = !tap->loop && tap_is_twin(tap);
    for (int sent = 0; sent < 2; sent++) {
        RnicTapWay *way = &tap->way[sent];

        way->first = ++c->taps_made * UINT32_C(0x9e3779b1);
        way->next = way->first + 1 + way->start_up_len;
    }
    QLIST_INSERT_HEAD(&c->taps, tap, next);
    if (!tap->twin && !tap->loop) {
        g_hash_table_replace(c->by_ends, tap, tap);
    }
    tap->transport->tap = &tap->tap;
    qatomic_set(&tap->transport->tapped, true);
    if (rnic_capture_runs(c) && !tap->twin) {
        tap_begin_packet(tap, 0);
    }
}

void rnic_capture_attach(RnicState *s, RnicTransport *t, const RnicAddr *local,
                         const RnicAddr *remote, bool initiator)
{
    RnicTap *tap = tap_new(s, t, local, remote, initiator);

    QEMU_LOCK_GUARD(&s->capture->lock);
    tap_add(tap);
}

static void tap_make_up_start_up(RnicTap *tap, bool crc, bool markers)
{
    for (int sent = 0; sent < 2; sent++) {
        RnicTapWay *way = &tap->way[sent];
        const char *key = sent == tap->initiator ? "MPA ID Req Frame"
                                                 : "MPA ID Rep Frame";

        way->start_up_len = RNIC_FPDUS_START_UP_HEAD;
        way->start_up = g_malloc0(RNIC_FPDUS_START_UP_HEAD);
        memcpy(way->start_up, key, AT_MPA_FLAGS);
        way->start_up[AT_MPA_FLAGS] = (crc ? MPA_CRC : 0) |
                                      (markers ? MPA_MARKERS : 0);
        way->start_up[AT_MPA_FLAGS + 1] = 1;    /* the revision */
        way->start_up_made = true;
    }
}

void rnic_capture_attach_loop(RnicState *s, RnicTransport *t,
                              const RnicAddr *local, uint16_t remote_port,
                              bool crc)
{
    RnicAddr ours = *local, peer = *local;
    RnicTap *tap;

    ours.port = EPHEMERAL_PORT;
    peer.port = remote_port;
    tap = tap_new(s, t, &ours, &peer, true);
    tap->loop = true;
    tap_make_up_start_up(tap, crc, false);
    rnic_fpdus_place(&tap->way[true].fpdus, 0);
    rnic_fpdus_place(&tap->way[false].fpdus, 0);
    QEMU_LOCK_GUARD(&s->capture->lock);
    tap->end[true].port += s->capture->taps_made % 16384;
    tap_add(tap);
}

/* ------------------------------------------------------------ LLP streams */

void rnic_capture_attach_stream(RnicState *s, RnicTransport *t,
                                const RnicAddr *local, const RnicAddr *remote,
                                bool initiator)
{
    RnicTap *tap = tap_new(s, t, local, remote, initiator);

    tap->streaming = true;
    tap->way[0].fpdus.phase = tap->way[1].fpdus.phase = RNIC_FPDUS_OPAQUE;
    QEMU_LOCK_GUARD(&s->capture->lock);
    tap_add(tap);
}

/* In the midst of the stream, so they use up sequence numbers of their own. */
static void tap_put_start_up(RnicTap *tap, bool sent, bool room)
{
    RnicTapWay *way = &tap->way[sent];
    RnicCapturePacket p = tap_packet(tap, sent,
                                     RNIC_PACKET_ACK | RNIC_PACKET_PSH);

    if (!room) {
        tap_leave_out(way, way->start_up_len);
        return;
    }
    p.comment = made_up_comment;
    p.head = way->start_up;
    p.head_len = way->start_up_len;
    p.packet.payload_len = way->start_up_len;
    rnic_capture_put(tap->capture, &p);
    way->next += way->start_up_len;
}

/* Streaming mode is over, in both directions. */
static void tap_begin_fpdus(RnicTap *tap)
{
    bool captured = rnic_capture_runs(tap->capture) && !tap->twin;
    /* First, since an announcement is of what is older. */
    bool room = captured && tap_begin_packet(tap, SEGMENT_ROOM);

    for (int sent = 0; sent < 2; sent++) {
        rnic_fpdus_place(&tap->way[sent].fpdus, 0);
    }
    tap_learn_markers(tap);
    if (captured) {
        tap_put_start_up(tap, tap->initiator, room);
        tap_put_start_up(tap, !tap->initiator, room);
    }
}

void rnic_capture_adopted(RnicState *s, RnicTransport *t, size_t sent_left,
                          const IwarpMpaAgreed *agreed)
{
    RnicTap *tap;

    if (!t->tap) {
        return;
    }
    tap = container_of(t->tap, RnicTap, tap);
    QEMU_LOCK_GUARD(&s->capture->lock);
    tap->streaming = false;
    tap_make_up_start_up(tap, agreed->crc, agreed->tx_markers);
    /* Not tapped: the stream will tell where FPDUs are. */
    tap->raw_left = qatomic_read(&t->tapped) ? sent_left : 0;
    if (!tap->raw_left) {
        tap_begin_fpdus(tap);
    }
}

void rnic_capture_qp(RnicState *s, RnicTransport *t, uint32_t qpn)
{
    char name[160], text[RNIC_PCAPNG_COMMENT_MAX];
    RnicTap *tap;

    if (!t->tap) {
        return;
    }
    tap = container_of(t->tap, RnicTap, tap);
    QEMU_LOCK_GUARD(&s->capture->lock);
    tap->qpn = qpn;
    if (rnic_capture_runs(s->capture)) {
        snprintf(text, sizeof(text), "QP 0x%x has the connection %s", qpn,
                 tap_name(tap, tap->initiator, name, sizeof(name)));
        rnic_capture_put_note(s->capture, text);
    }
}
