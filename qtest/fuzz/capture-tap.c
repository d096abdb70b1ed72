/*
 * Fuzzer of the capture: the tap of one connection, whatever octets pass it
 *
 * A tap without a device.  The peer decides what passes, the user when a capture begins
 * and ends, and the file where there is room.  What the tap puts is within the bounds of a
 * segment and of what has passed, no octet is there twice, and nothing is left behind.  As
 * long as one capture runs, each octet is at its place.
 *
 *     0   the kind of connection
 *     1   steps: what to do (1), and as much as that takes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/iov.h"
#include "hw/rnic/capture/tap.h"
#include "fuzz.h"

enum {
    STEPS = 200,
    OCTETS = 200000,
    ZEROS = OCTETS - 1024,      /* of one step at most */
    START_UP_HEAD = 20,
    SNAPLEN = 128,

    /* The kind: */
    KIND_RUNS = 1,
    KIND_CRC = 2,
    KIND_MARKERS = 4,
    KIND_STREAMING = 8,
    KIND_INITIATOR = 16,
    KIND_LOOP = 32,
    KIND_RESET = 64,
    /* A step, beside what it is: */
    STEP_SENT = 16,
    STEP_ZEROS = 32,
    STEP_BROKEN = 32,
    STEP_START_UP = 64,
    STEP_MARKERS = 128,
};

typedef struct World {
    RnicState *s;
    RnicCapture *c;
    RnicTransport t;
    IwarpMpaAgreed agreed;
    bool streams;               /* in streaming mode */
    bool ended[2];
} World;

static uint8_t octets[OCTETS];

/* ------------------------------------------------- what stands for the file */

static bool runs, room, beyond_rate;
static bool known[2];           /* where the direction is in the file: */
static uint32_t next[2];
static bool whole;              /* the capture has run since the connection began */
static uint32_t base[2];        /* sequence number of the first octet */
static GByteArray *passed[2];   /* all octets, with a start-up frame that is made up */

bool rnic_capture_runs(RnicCapture *c)
{
    return runs;
}

bool rnic_capture_begin(RnicCapture *c, size_t needed)
{
    return runs && room;
}

bool rnic_capture_beyond_rate(RnicCapture *c)
{
    return beyond_rate;
}

static void check_place(const RnicPacket *p, bool sent)
{
    bool syn = p->flags & RNIC_PACKET_SYN;
    bool takes_one = p->flags & (RNIC_PACKET_SYN | RNIC_PACKET_FIN);

    if (!syn && !p->payload_len && !takes_one) {
        return;
    }
    must(syn || !known[sent] || (int32_t)(p->seq - next[sent]) >= 0);
    known[sent] = true;
    next[sent] = p->seq + p->payload_len + takes_one;
    base[sent] = syn ? next[sent] : base[sent];
}

static void check_octets(const RnicPacket *p, bool sent, const uint8_t *out)
{
    uint32_t at = p->seq - base[sent];

    if (whole && p->payload_len) {
        must(at <= passed[sent]->len &&
             p->payload_len <= passed[sent]->len - at);
        must(memcmp(out, passed[sent]->data + at, p->payload_len) == 0);
    }
}

void rnic_capture_put(RnicCapture *c, const RnicCapturePacket *p)
{
    static uint8_t out[RNIC_TAP_SEGMENT_MAX];
    uint8_t headers[RNIC_PACKET_HEADERS_MAX];
    bool sent = p->way == RNIC_PCAPNG_OUTBOUND;
    size_t rest;

    must(rnic_packet_headers(&p->packet, headers) <= sizeof(headers));
    must(p->packet.payload_len <= sizeof(out));
    must(p->head_len <= p->packet.payload_len);
    must(!p->truncated || beyond_rate);
    must(!p->comment || strlen(p->comment) < RNIC_PCAPNG_COMMENT_MAX);
    if (p->head_len) {
        memcpy(out, p->head, p->head_len);
    }
    rest = p->packet.payload_len - p->head_len;
    must(!rest || iov_to_buf(p->iov, p->count, p->at, out + p->head_len, rest) == rest);
    check_place(&p->packet, sent);
    check_octets(&p->packet, sent, out);
}

void rnic_capture_put_note(RnicCapture *c, const char *text)
{
    must(strlen(text) < RNIC_PCAPNG_COMMENT_MAX);
}

static void next_file(World *w)
{
    w->c->epoch++;
    known[0] = known[1] = false;
}

static void begin_or_end(World *w)
{
    RnicTap *tap;

    whole = false;
    if (runs) {
        QLIST_FOREACH(tap, &w->c->taps, next) {
            rnic_tap_end(tap);
        }
        runs = false;
        return;
    }
    runs = true;
    next_file(w);
    QLIST_FOREACH(tap, &w->c->taps, next) {
        rnic_tap_begin(tap);
    }
}

/* ------------------------------------------------------------- what passes */

/* Octets of the input, zeros behind them, and a head in front if wanted. */
static size_t make_octets(FuzzInput *in, uint8_t step)
{
    size_t head = step & STEP_START_UP ? START_UP_HEAD : 0;
    size_t n;
    const uint8_t *some = fuzz_octets(in, fuzz_octet(in), &n);

    if (n) {
        memcpy(octets + head, some, n);
    }
    if (step & STEP_ZEROS) {
        size_t zeros = fuzz_number(in, 3) % (ZEROS - n);

        memset(octets + head + n, 0, zeros);
        n += zeros;
    }
    if (head) {
        memcpy(octets, step & STEP_SENT ? "MPA ID Req Frame" : "MPA ID Rep Frame",
               16);
        octets[16] = step & STEP_MARKERS ? 0x80 : 0;
        octets[17] = 1;
        stw_be_p(octets + 18, n % 600);
    }
    return head + n;
}

/* In two pieces, behind each of which nothing may be read. */
static void pass(World *w, FuzzInput *in, uint8_t step)
{
    bool sent = step & STEP_SENT;
    size_t n = make_octets(in, step), cut = n / 3;
    g_autofree uint8_t *first = g_memdup2(octets, cut);
    g_autofree uint8_t *second = g_memdup2(octets + cut, n - cut);
    struct iovec iov[2] = { { first, cut }, { second, n - cut } };

    if (n && !w->ended[sent] && w->t.tapped) {
        g_byte_array_append(passed[sent], octets, n);
        w->t.tap->ops->octets(w->t.tap, sent, iov, 2, n);
    }
}

static void end(World *w, uint8_t step)
{
    bool sent = step & STEP_SENT;

    if (!w->t.tapped) {
        return;
    }
    if (step & STEP_BROKEN) {
        w->t.tap->ops->ended(w->t.tap, sent, ECONNRESET);
        w->ended[0] = w->ended[1] = true;
    } else if (!w->ended[sent]) {
        w->t.tap->ops->ended(w->t.tap, sent, 0);
        w->ended[sent] = true;
    }
}

/* All octets are kept; the first ones of each packet; the same for the rate's sake. */
static void change_how_much(World *w)
{
    bool snaplen = w->c->running.snaplen;

    w->c->running.snaplen = snaplen || beyond_rate ? 0 : SNAPLEN;
    beyond_rate = snaplen;
}

static void step(World *w, FuzzInput *in, uint8_t what)
{
    switch (what % 16) {
    case 7:
        room = !room;
        break;
    case 8:
        next_file(w);
        break;
    case 9:
        change_how_much(w);
        break;
    case 10:
        begin_or_end(w);
        break;
    case 11:
        if (w->t.tapped) {
            size_t left = fuzz_number(in, 2);

            w->t.tap->ops->place(w->t.tap, what & STEP_SENT, left,
                                 fuzz_number(in, 2) & ~3u);
        }
        break;
    case 12:
        if (w->streams) {
            w->streams = whole = false;     /* frames are put in between */
            rnic_capture_adopted(w->s, &w->t, fuzz_number(in, 2), &w->agreed);
        }
        break;
    case 13:
        end(w, what);
        break;
    case 14:
        rnic_capture_qp(w->s, &w->t, what);
        break;
    case 15:
        runs = whole = false;   /* the file has failed */
        break;
    default:
        pass(w, in, what);
    }
}

static void attach(World *w, uint8_t kind)
{
    RnicAddr local = { .port = 1 }, remote = { .port = 2 };
    bool initiator = kind & KIND_INITIATOR;

    if (kind & KIND_STREAMING) {
        w->streams = true;
        rnic_capture_attach_stream(w->s, &w->t, &local, &remote, initiator);
    } else if (kind & KIND_LOOP) {
        rnic_capture_attach_loop(w->s, &w->t, &local, 7, kind & KIND_CRC);
        for (int sent = 0; sent < 2; sent++) {
            g_byte_array_append(passed[sent],
                                QLIST_FIRST(&w->c->taps)->way[sent].start_up,
                                START_UP_HEAD);
        }
    } else {
        rnic_capture_attach(w->s, &w->t, &local, &remote, initiator);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    uint8_t kind = fuzz_octet(&in);
    RnicCapture c = { };
    World w = {
        .c = &c,
        .agreed = { .crc = kind & KIND_CRC, .tx_markers = kind & KIND_MARKERS },
    };

    w.s = g_new0(RnicState, 1);
    w.s->capture = &c;
    c.s = w.s;
    qemu_mutex_init(&c.lock);
    QLIST_INIT(&c.taps);
    c.by_ends = g_hash_table_new(rnic_tap_hash, rnic_tap_equal);
    runs = kind & KIND_RUNS;
    whole = false;              /* a frame that is made up goes there at once */
    room = true;
    beyond_rate = false;
    known[0] = known[1] = false;
    passed[0] = g_byte_array_new();
    passed[1] = g_byte_array_new();
    attach(&w, kind);
    whole = runs;
    for (int i = 0; i < STEPS && in.size; i++) {
        step(&w, &in, fuzz_octet(&in));
    }
    w.t.tap->ops->closed(w.t.tap, kind & KIND_RESET);
    must(QLIST_EMPTY(&c.taps) && !g_hash_table_size(c.by_ends));
    g_byte_array_unref(passed[0]);
    g_byte_array_unref(passed[1]);
    g_hash_table_destroy(c.by_ends);
    qemu_mutex_destroy(&c.lock);
    g_free(w.s);
    return 0;
}
