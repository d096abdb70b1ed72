/*
 * Unit tests of the protocol engine: wire octets made by hand
 *
 * What the tests compare the engine with must not come from the engine.  Here
 * are an own bit-by-bit CRC32C, an own framer and marker inserter (slow and
 * plain), hex parsing, and a transcript of what the receive half reported.
 *
 * A test ends with shows("R... R..."), reached only after all its asserts.
 *
 * QEMU's build makes these programs; without QEMU, from the top of the tree:
 *
 *     mkdir -p DIR/hw && ln -sfn $PWD/qemu-device DIR/hw/rnic
 *     gcc -Wall -Wextra -g -O1 -fsanitize=address,undefined -iquote DIR \
 *         -DRNIC_HAVE_ISAL qtest/unit/NAME.c qemu-device/iwarp/[a-z]*.c \
 *         $(pkg-config --cflags --libs glib-2.0) -lisal -o NAME && ./NAME
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef UNIT_WIRE_H
#define UNIT_WIRE_H

#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "hw/rnic/iwarp/error.h"
#include "hw/rnic/iwarp/stream-rx.h"

/* The requirements that the test which calls this has just shown. */
static inline void shows(const char *ids)
{
    printf("# shows %s\n", ids);
    fflush(stdout);
}

/* "00 12 41 43 ..." as octets; blanks are ignored.  Free with unref. */
static inline GByteArray *hex(const char *text)
{
    GByteArray *out = g_byte_array_new();
    int high = -1;

    for (; *text; text++) {
        int digit = g_ascii_xdigit_value(*text);
        guint8 octet;

        if (g_ascii_isspace(*text)) {
            continue;
        }
        g_assert_cmpint(digit, >=, 0);
        if (high < 0) {
            high = digit;
            continue;
        }
        octet = (guint8)(high << 4 | digit);
        g_byte_array_append(out, &octet, 1);
        high = -1;
    }
    g_assert_cmpint(high, <, 0);
    return out;
}

static inline void add(GByteArray *to, const GByteArray *more)
{
    g_byte_array_append(to, more->data, more->len);
}

static inline void add_hex(GByteArray *to, const char *text)
{
    g_autoptr(GByteArray) more = hex(text);

    add(to, more);
}

static inline void add_fill(GByteArray *to, guint8 octet, gsize count)
{
    while (count--) {
        g_byte_array_append(to, &octet, 1);
    }
}

/* @count octets that differ from place to place. */
static inline void add_pattern(GByteArray *to, gsize count, guint seed)
{
    for (gsize i = 0; i < count; i++) {
        guint8 octet = (guint8)((i * 7 + i / 251 + seed) & 255);

        g_byte_array_append(to, &octet, 1);
    }
}

static inline void assert_octets(const guint8 *got, gsize got_len,
                                 const GByteArray *want)
{
    g_assert_cmpmem(got, got_len, want->data, want->len);
}

/* CRC32C by its definition, one bit at a time. */
static inline guint32 plain_crc32c(const guint8 *p, gsize len)
{
    guint32 reg = 0xffffffff;

    while (len--) {
        reg ^= *p++;
        for (int bit = 0; bit < 8; bit++) {
            reg = reg & 1 ? reg >> 1 ^ 0x82f63b78 : reg >> 1;
        }
    }
    return ~reg;
}

/* A stream as a peer would send it, FPDU by FPDU. */
typedef struct PlainStream {
    GByteArray *out;
    bool crc;
    bool markers;
} PlainStream;

static inline void plain_put(PlainStream *s, gsize *start, guint8 octet)
{
    if (s->markers && s->out->len % 512 == 0) {
        gsize back = *start == G_MAXSIZE ? 0 : s->out->len - *start;
        guint8 marker[4] = { 0, 0, (guint8)(back >> 8), (guint8)back };

        g_byte_array_append(s->out, marker, 4);
    }
    if (*start == G_MAXSIZE) {
        *start = s->out->len;
    }
    g_byte_array_append(s->out, &octet, 1);
}

/* Append the FPDU of @ulpdu. */
static inline void plain_fpdu(PlainStream *s, const GByteArray *ulpdu)
{
    gsize first = s->out->len;
    gsize start = G_MAXSIZE;    /* of the length field, once put */
    gsize content = 2 + ulpdu->len;
    guint32 crc;

    plain_put(s, &start, (guint8)(ulpdu->len >> 8));
    plain_put(s, &start, (guint8)ulpdu->len);
    for (guint i = 0; i < ulpdu->len; i++) {
        plain_put(s, &start, ulpdu->data[i]);
    }
    for (; content % 4; content++) {
        plain_put(s, &start, 0);
    }
    if (s->markers && s->out->len % 512 == 0) {
        gsize back = s->out->len - start;
        guint8 marker[4] = { 0, 0, (guint8)(back >> 8), (guint8)back };

        g_byte_array_append(s->out, marker, 4);
    }
    crc = s->crc ? plain_crc32c(s->out->data + first, s->out->len - first) : 0;
    for (int i = 0; i < 4; i++) {
        plain_put(s, &start, (guint8)(crc >> (8 * i)));
    }
}

static inline void plain_fpdu_hex(PlainStream *s, const char *ulpdu)
{
    g_autoptr(GByteArray) octets = hex(ulpdu);

    plain_fpdu(s, octets);
}

static inline PlainStream plain_stream(bool crc, bool markers)
{
    PlainStream s = { g_byte_array_new(), crc, markers };

    return s;
}

/* How a transcript feeds the receive half. */
typedef struct RxScript {
    bool crc;
    bool markers;
    bool direct;        /* place directly what may be */
    guint16 opcodes;    /* 0: those of RFC 5040 */
    guint8 dirt;        /* what the buffer holds before */
    gsize first;        /* octets of the first piece; 0: as step */
    gsize step;         /* octets of all others; 0: the rest */
} RxScript;

static inline void log_segment(GString *log, const IwarpSegment *s)
{
    g_string_append_printf(log, "%s%s%s", iwarp_op_name(s->opcode),
                           s->first ? " first" : "", s->last ? " last" : "");
    if (s->tagged) {
        g_string_append_printf(log, " stag=%x to=%" G_GINT64_MODIFIER "x",
                               s->stag, s->to);
    } else {
        g_string_append_printf(log, " qn=%u msn=%u inv=%x", s->qn, s->msn,
                               s->inv_stag);
    }
    g_string_append_printf(log, " at=%u len=%u [", s->message_offset,
                           s->payload_len);
}

static inline void log_octets(GString *log, const guint8 *p, gsize len)
{
    for (gsize i = 0; i < len; i++) {
        g_string_append_printf(log, "%02x", p[i]);
    }
}

/* Take all events; false once the stream failed. */
static inline bool rx_drain(IwarpRx *rx, GString *log)
{
    for (;;) {
        switch (iwarp_rx_next(rx)) {
        case IWARP_RX_NEED_MORE:
            return true;
        case IWARP_RX_SEGMENT:
            log_segment(log, &rx->segment);
            break;
        case IWARP_RX_PAYLOAD:
            g_assert_cmpuint(rx->payload_len, >, 0);
            g_assert_cmpuint(rx->payload_offset + rx->payload_len, <=,
                             rx->segment.payload_len);
            log_octets(log, rx->payload, rx->payload_len);
            break;
        case IWARP_RX_SEGMENT_END:
            g_string_append(log, "]\n");
            break;
        case IWARP_RX_ERROR:
            g_string_append_printf(log, "error %s %04x\n",
                                   iwarp_fault_name(rx->error.fault),
                                   rx->error.term);
            return false;
        }
    }
}

/* All events are taken: there is room for the rest of any FPDU. */
static inline void assert_room(IwarpRx *rx)
{
    void *ptr;
    gsize space;

    iwarp_rx_buffer(rx, &ptr, &space);
    g_assert_cmpuint(rx->tail - rx->head + space, >=, IWARP_FPDU_WIRE_MAX);
}

/* Give one piece to the receive half; false once the stream failed. */
static inline bool rx_give(IwarpRx *rx, const RxScript *script, GString *log,
                           const guint8 *piece, gsize len)
{
    while (len) {
        gsize n = script->direct ? MIN(iwarp_rx_direct(rx), len) : 0;

        if (n) {
            log_octets(log, piece, n);
            g_assert_true(iwarp_rx_placed(rx, n));
        } else {
            n = iwarp_rx_feed(rx, piece, len);
            g_assert_cmpuint(n, >, 0);
        }
        piece += n;
        len -= n;
        if (!rx_drain(rx, log)) {
            return false;
        }
        assert_room(rx);
    }
    return true;
}

/*
 * What the receive half reports for @octets: a line per segment and one for an
 * error.  Pieces of payload are joined, so that it does not depend on how the
 * octets were cut.  @idle, if not NULL: whether the stream was idle at the end.
 */
static inline char *rx_transcript(const RxScript *script,
                                  const guint8 *octets, gsize len, bool *idle)
{
    static guint8 buffer[IWARP_RX_BUFFER_MIN];  /* no more, so that address
                                                 * checkers see an overrun */
    GString *log = g_string_new(NULL);
    IwarpRx rx;
    IwarpRxConfig config = {
        .buffer = buffer,
        .buffer_size = sizeof(buffer),
        .crc = script->crc,
        .markers = script->markers,
        .opcodes = script->opcodes ? script->opcodes : IWARP_OPS_RFC5040,
    };
    gsize step = script->step ? script->step : len;
    gsize piece = script->first ? script->first : step;

    memset(buffer, script->dirt, sizeof(buffer));
    g_assert_true(iwarp_rx_init(&rx, &config));
    for (gsize at = 0; at < len; at += piece, piece = step) {
        if (!rx_give(&rx, script, log, octets + at, MIN(piece, len - at))) {
            break;
        }
    }
    if (idle) {
        *idle = iwarp_rx_idle(&rx);
    }
    return g_string_free(log, FALSE);
}

/* The transcript of @octets in one piece. */
static inline char *rx_read(const RxScript *script, const GByteArray *octets)
{
    return rx_transcript(script, octets->data, octets->len, NULL);
}

#endif /* UNIT_WIRE_H */
