/*
 * iWARP engine: the receive half of a stream
 *
 * Where an octet goes:
 *
 *     START    length field and headers collected; with CRC or markers the
 *              whole FPDU, which is verified and freed of its markers in
 *              place.  Headers are checked: SEGMENT.
 *     PAYLOAD  handed out as it is there: PAYLOAD.
 *     TRAILER  pad and CRC skipped: SEGMENT_END, back to START.
 *     FAILED   for ever: ERROR.
 *
 * The checks are one function per layer; each returns the fault it found.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "stream-rx.h"

enum {
    RX_START,
    RX_PAYLOAD,
    RX_TRAILER,
    RX_FAILED,
};

/* So many octets are moved whenever they are all there is: it costs next to
 * nothing, and what is filled in then fits the processor's cache. */
#define RX_FEW 512

/* The buffer */

bool iwarp_rx_init(IwarpRx *rx, const IwarpRxConfig *config)
{
    memset(rx, 0, sizeof(*rx));
    if (!config->buffer || config->buffer_size < IWARP_RX_BUFFER_MIN) {
        return false;
    }
    rx->buffer = config->buffer;
    rx->size = config->buffer_size;
    rx->crc = config->crc;
    rx->markers = config->markers;
    rx->opcodes = config->opcodes;
    rx->state = RX_START;
    for (int qn = 0; qn < IWARP_QN_COUNT; qn++) {
        rx->msn[qn] = 1;
    }
    return true;
}

void iwarp_rx_accept(IwarpRx *rx, uint16_t opcodes)
{
    rx->opcodes |= opcodes;
}

static size_t rx_avail(const IwarpRx *rx)
{
    return rx->tail - rx->head;
}

void iwarp_rx_buffer(IwarpRx *rx, void **ptr, size_t *space)
{
    size_t avail = rx_avail(rx);

    if (rx->state == RX_FAILED || avail == 0) {
        rx->head = rx->tail = 0;
    } else if (rx->head && (rx->size - rx->tail < IWARP_FPDU_WIRE_MAX ||
                            avail <= RX_FEW)) {
        memmove(rx->buffer, rx->buffer + rx->head, avail);
        rx->tail = avail;
        rx->head = 0;
    }
    *ptr = rx->buffer + rx->tail;
    *space = rx->size - rx->tail;
}

void iwarp_rx_filled(IwarpRx *rx, size_t n)
{
    if (rx->state == RX_FAILED) {
        return;
    }
    if (n > rx->size - rx->tail) {
        n = rx->size - rx->tail;
    }
    rx->tail += n;
}

size_t iwarp_rx_feed(IwarpRx *rx, const void *data, size_t len)
{
    void *ptr;
    size_t space;

    iwarp_rx_buffer(rx, &ptr, &space);
    if (len > space) {
        len = space;
    }
    if (len) {
        memcpy(ptr, data, len);
        iwarp_rx_filled(rx, len);
    }
    return len;
}

/* Are FPDUs taken as a whole, because they need verifying or stripping? */
static bool rx_whole(const IwarpRx *rx)
{
    return rx->crc || rx->markers;
}

/* Failing */

static void rx_fail(IwarpRx *rx, IwarpFault fault, IwarpTermCode term,
                    const IwarpEcho *echo)
{
    rx->error.fault = fault;
    rx->error.term = term;
    if (echo) {
        rx->error.echo = *echo;
    }
    rx->state = RX_FAILED;
}

void iwarp_rx_reject(IwarpRx *rx, IwarpTermCode term)
{
    if (rx->state != RX_FAILED) {
        rx_fail(rx, IWARP_FAULT_REJECTED, term, &rx->segment.echo);
    }
}

/* MPA: the whole FPDU, for streams with CRC or markers */

/*
 * Check that each marker among the @wire octets at @fpdu points back at the
 * length field, and close the gaps.  The content ends up at @fpdu.
 */
static bool rx_strip_markers(uint8_t *fpdu, size_t wire, unsigned stream_pos)
{
    size_t at = iwarp_marker_distance(stream_pos);
    size_t start = at == 0 ? IWARP_MARKER_LEN : 0;
    size_t out = at;

    while (at < wire) {
        size_t next = at + IWARP_MARKER_SPACING;
        size_t back = at ? at - start : 0;

        if ((iwarp_get16(fpdu + at + 2) & ~3u) != (back & 0xffff)) {
            return false;
        }
        if (next > wire) {
            next = wire;
        }
        at += IWARP_MARKER_LEN;
        memmove(fpdu + out, fpdu + at, next - at);
        out += next - at;
        at = next;
    }
    return true;
}

static IwarpFault rx_verify_fpdu(IwarpRx *rx, uint8_t *fpdu, size_t wire)
{
    if (rx->crc) {
        size_t covered = wire - IWARP_FPDU_CRC_LEN;

        if (iwarp_crc32c(0, fpdu, covered) !=
            iwarp_crc32c_get(fpdu + covered)) {
            return IWARP_FAULT_CRC;
        }
    }
    if (rx->markers && !rx_strip_markers(fpdu, wire, rx->stream_pos)) {
        return IWARP_FAULT_MARKER;
    }
    return IWARP_FAULT_NONE;
}

/*
 * Octets of the FPDU at @at of the buffer, at stream position @pos, with markers; 0
 * if its length is not here yet.
 */
static size_t rx_whole_len_at(const IwarpRx *rx, size_t at, unsigned pos)
{
    size_t lead = rx->markers && pos == 0 ? IWARP_MARKER_LEN : 0;
    size_t content;

    if (rx->tail - at < lead + IWARP_FPDU_LENGTH_LEN) {
        return 0;
    }
    content = iwarp_fpdu_content(iwarp_get16(rx->buffer + at + lead));
    if (!rx->markers) {
        return content;
    }
    return content + IWARP_MARKER_LEN * iwarp_marker_count(pos, content);
}

static size_t rx_whole_len(const IwarpRx *rx)
{
    return rx_whole_len_at(rx, rx->head, rx->stream_pos);
}

/*
 * Have the FPDU at head complete and its content at head.  False: more octets
 * are needed, or the stream failed.  @wire is set to its octets with markers.
 */
static bool rx_take_whole(IwarpRx *rx, size_t *wire)
{
    IwarpFault fault;

    *wire = rx_whole_len(rx);
    if (*wire == 0 || rx_avail(rx) < *wire) {
        return false;
    }
    fault = rx_verify_fpdu(rx, rx->buffer + rx->head, *wire);
    if (fault != IWARP_FAULT_NONE) {
        rx_fail(rx, fault, iwarp_fault_term(fault), NULL);
        return false;
    }
    return true;
}

/* DDP and RDMAP: what may stand in a segment's headers */

/* A segment being checked. */
typedef struct RxCheck {
    const uint8_t *ulpdu;
    size_t ulpdu_len;
    IwarpDdpHeader h;
    size_t ddp_len;
    unsigned opcode;
    const IwarpOpInfo *op;
    size_t body_len;        /* octets behind the DDP header */
} RxCheck;

static IwarpFault rx_check_version(const RxCheck *c)
{
    if (c->h.version != IWARP_DDP_VERSION) {
        return c->h.tagged ? IWARP_FAULT_TAGGED_VERSION
                           : IWARP_FAULT_UNTAGGED_VERSION;
    }
    if (iwarp_rdmap_version(c->h.control) != IWARP_RDMAP_VERSION) {
        return IWARP_FAULT_RDMAP_VERSION;
    }
    return IWARP_FAULT_NONE;
}

static IwarpFault rx_check_opcode(const IwarpRx *rx, const RxCheck *c)
{
    if (!c->op) {
        return IWARP_FAULT_OPCODE_UNKNOWN;
    }
    if (!(rx->opcodes >> c->opcode & 1)) {
        return IWARP_FAULT_OPCODE_REFUSED;
    }
    if (c->op->tagged != c->h.tagged) {
        return IWARP_FAULT_TAG_FLAG;
    }
    if (c->h.tagged || c->h.qn == c->op->qn) {
        return IWARP_FAULT_NONE;
    }
    return c->h.qn < IWARP_QN_COUNT ? IWARP_FAULT_QN_OPCODE
                                    : IWARP_FAULT_QN_UNKNOWN;
}

/* May this segment come now, with the message that is open? */
static IwarpFault rx_check_interleave(const IwarpRx *rx, const RxCheck *c)
{
    const IwarpRxMessage *m = &rx->message;

    if (!m->open || c->opcode == IWARP_OP_TERMINATE) {
        return IWARP_FAULT_NONE;
    }
    if (iwarp_op_info(m->opcode)->tagged != c->h.tagged ||
        (!c->h.tagged && c->h.qn != IWARP_QN_SEND)) {
        return IWARP_FAULT_INTERLEAVED;
    }
    return IWARP_FAULT_NONE;
}

static bool rx_continues(const IwarpRx *rx, const RxCheck *c)
{
    return rx->message.open && c->opcode != IWARP_OP_TERMINATE;
}

static IwarpFault rx_check_untagged(const IwarpRx *rx, const RxCheck *c)
{
    bool cont = rx_continues(rx, c);
    uint32_t ahead = c->h.msn - rx->msn[c->h.qn];

    if (ahead) {
        return ahead < UINT32_C(0x80000000) ? IWARP_FAULT_MSN_AHEAD
                                            : IWARP_FAULT_MSN_PAST;
    }
    if (c->h.mo != (cont ? rx->message.length : 0)) {
        return IWARP_FAULT_MO;
    }
    if (cont && c->opcode != rx->message.opcode) {
        return IWARP_FAULT_OPCODE_CHANGED;
    }
    if (c->body_len > UINT32_MAX - c->h.mo) {
        return IWARP_FAULT_UNTAGGED_LENGTH;
    }
    return IWARP_FAULT_NONE;
}

static IwarpFault rx_check_tagged(const IwarpRx *rx, const RxCheck *c)
{
    const IwarpRxMessage *m = &rx->message;

    if (!m->open) {
        return IWARP_FAULT_NONE;
    }
    if (c->opcode != m->opcode) {
        return IWARP_FAULT_OPCODE_CHANGED;
    }
    if (c->body_len == 0) {
        return IWARP_FAULT_NONE;
    }
    if (c->h.stag != m->stag) {
        return IWARP_FAULT_STAG_CHANGED;
    }
    if (c->h.to != m->next_to) {
        return IWARP_FAULT_TO_JUMP;
    }
    if (c->body_len > UINT32_MAX - m->length) {
        return IWARP_FAULT_TAGGED_LENGTH;
    }
    return IWARP_FAULT_NONE;
}

static IwarpFault rx_check_size(const RxCheck *c)
{
    if (c->op->payload) {
        return c->body_len == 0 && !c->h.last ? IWARP_FAULT_EMPTY_NOT_LAST
                                              : IWARP_FAULT_NONE;
    }
    if (c->body_len < c->op->header_min) {
        return IWARP_FAULT_HEADER_SHORT;
    }
    if (c->body_len > c->op->header_max) {
        return IWARP_FAULT_HEADER_LONG;
    }
    return c->h.last ? IWARP_FAULT_NONE : IWARP_FAULT_NOT_LAST;
}

/* All checks that need the stream's state. */
static IwarpFault rx_check_message(const IwarpRx *rx, const RxCheck *c)
{
    IwarpFault fault = rx_check_interleave(rx, c);

    if (fault == IWARP_FAULT_NONE) {
        fault = c->h.tagged ? rx_check_tagged(rx, c)
                            : rx_check_untagged(rx, c);
    }
    return fault == IWARP_FAULT_NONE ? rx_check_size(c) : fault;
}

/* Keep the headers for a Terminate. */
static void rx_echo_ddp(IwarpEcho *echo, const RxCheck *c)
{
    echo->segment_len = (uint16_t)c->ulpdu_len;
    echo->ddp_len = (uint8_t)c->ddp_len;
    memcpy(echo->ddp, c->ulpdu, c->ddp_len);
}

static void rx_echo_rdma(IwarpEcho *echo, const RxCheck *c)
{
    if (c->opcode == IWARP_OP_READ_REQUEST &&
        c->body_len >= IWARP_READ_REQUEST_LEN) {
        echo->rdma_len = IWARP_ECHO_RDMA;
        memcpy(echo->rdma, c->ulpdu + c->ddp_len, IWARP_ECHO_RDMA);
    }
}

/*
 * Check the segment and keep its headers in @echo as far as their layout can
 * be trusted: no DDP header of another DDP version, no RDMAP header before
 * version, opcode and queue are right.
 */
static IwarpFault rx_check(const IwarpRx *rx, const RxCheck *c,
                           IwarpEcho *echo)
{
    IwarpFault fault;

    if (c->ddp_len == 0) {
        return IWARP_FAULT_SEGMENT_SHORT;
    }
    fault = rx_check_version(c);
    if (c->h.version == IWARP_DDP_VERSION) {
        rx_echo_ddp(echo, c);
    }
    if (fault == IWARP_FAULT_NONE) {
        fault = rx_check_opcode(rx, c);
    }
    if (fault == IWARP_FAULT_NONE) {
        rx_echo_rdma(echo, c);
        fault = rx_check_message(rx, c);
    }
    return fault;
}

/* A valid segment: from octets to rx->segment and the stream's state */

static void rx_decode_rdmap(IwarpSegment *seg, const uint8_t *in, size_t len)
{
    switch (seg->opcode) {
    case IWARP_OP_READ_REQUEST:
        iwarp_read_request_decode(&seg->u.read, in);
        break;
    case IWARP_OP_TERMINATE:
        iwarp_terminate_decode(&seg->u.terminate, in, len);
        break;
    case IWARP_OP_IMMEDIATE:
    case IWARP_OP_IMMEDIATE_SE:
        memcpy(seg->u.immediate, in, IWARP_IMMEDIATE_LEN);
        break;
    case IWARP_OP_ATOMIC_REQUEST:
        iwarp_atomic_request_decode(&seg->u.atomic, in);
        break;
    case IWARP_OP_ATOMIC_RESPONSE:
        iwarp_atomic_response_decode(&seg->u.atomic_response, in);
        break;
    default:
        break;
    }
}

static void rx_fill_segment(IwarpRx *rx, const RxCheck *c,
                            const IwarpEcho *echo)
{
    IwarpSegment *seg = &rx->segment;

    memset(seg, 0, sizeof(*seg));
    seg->opcode = (IwarpOpcode)c->opcode;
    seg->tagged = c->h.tagged;
    seg->last = c->h.last;
    seg->first = !rx_continues(rx, c);
    seg->stag = c->h.stag;
    seg->to = c->h.to;
    seg->qn = c->h.qn;
    seg->msn = c->h.msn;
    seg->inv_stag = c->op->invalidates ? c->h.rsvd_ulp : 0;
    seg->message_offset = seg->first ? 0 : rx->message.length;
    seg->payload_len = c->op->payload ? (uint32_t)c->body_len : 0;
    seg->echo = *echo;
    rx_decode_rdmap(seg, c->ulpdu + c->ddp_len, c->body_len);
}

/* Move the stream's expectations past the segment. */
static void rx_advance(IwarpRx *rx, const IwarpSegment *seg)
{
    IwarpRxMessage *m = &rx->message;

    if (!seg->tagged && seg->last) {
        rx->msn[seg->qn]++;
    }
    if (seg->opcode == IWARP_OP_TERMINATE) {
        return;
    }
    m->open = !seg->last;
    m->opcode = (uint8_t)seg->opcode;
    m->stag = seg->stag;
    m->next_to = seg->to + seg->payload_len;
    m->length = seg->message_offset + seg->payload_len;
}

/*
 * Octets of the ULPDU's headers that are needed before it can be checked.
 * @have of its octets are in the buffer; the answer may grow with them.
 */
static size_t rx_header_need(const uint8_t *ulpdu, size_t have,
                             size_t ulpdu_len)
{
    size_t need = 2;

    if (have >= 2) {
        const IwarpOpInfo *op = iwarp_op_info(iwarp_rdmap_opcode(ulpdu[1]));

        need = iwarp_ddp_header_len(ulpdu[0]) + (op ? op->header_max : 0);
    }
    return need < ulpdu_len ? need : ulpdu_len;
}

/*
 * The octets of a segment at head are known to hold its headers: check them
 * and start it.  @end is where the FPDU ends on the wire, counted from head.
 */
static IwarpRxEvent rx_start_segment(IwarpRx *rx, size_t end)
{
    RxCheck c = {
        .ulpdu = rx->buffer + rx->head + IWARP_FPDU_LENGTH_LEN,
        .ulpdu_len = iwarp_get16(rx->buffer + rx->head),
    };
    IwarpEcho echo = { 0 };
    IwarpFault fault;
    size_t headers;

    c.ddp_len = iwarp_ddp_decode(&c.h, c.ulpdu, c.ulpdu_len);
    c.body_len = c.ulpdu_len - c.ddp_len;
    c.opcode = iwarp_rdmap_opcode(c.h.control);
    c.op = iwarp_op_info(c.opcode);
    fault = rx_check(rx, &c, &echo);
    if (fault != IWARP_FAULT_NONE) {
        rx_fail(rx, fault, iwarp_fault_term(fault), &echo);
        return IWARP_RX_ERROR;
    }
    rx_fill_segment(rx, &c, &echo);
    rx_advance(rx, &rx->segment);

    headers = IWARP_FPDU_LENGTH_LEN + c.ulpdu_len - rx->segment.payload_len;
    rx->head += headers;
    rx->payload_left = rx->segment.payload_len;
    rx->skip = (uint32_t)(end - headers - rx->payload_left);
    rx->stream_pos = (rx->stream_pos + end) & (IWARP_MARKER_SPACING - 1);
    rx->state = RX_PAYLOAD;
    return IWARP_RX_SEGMENT;
}

/* The events */

static IwarpRxEvent rx_next_whole(IwarpRx *rx)
{
    size_t wire;

    if (!rx_take_whole(rx, &wire)) {
        return rx->state == RX_FAILED ? IWARP_RX_ERROR : IWARP_RX_NEED_MORE;
    }
    return rx_start_segment(rx, wire);
}

static IwarpRxEvent rx_next_start(IwarpRx *rx)
{
    const uint8_t *fpdu = rx->buffer + rx->head;
    size_t ulpdu_len;
    size_t have;

    if (rx_avail(rx) < IWARP_FPDU_LENGTH_LEN) {
        return IWARP_RX_NEED_MORE;
    }
    ulpdu_len = iwarp_get16(fpdu);
    have = rx_avail(rx) - IWARP_FPDU_LENGTH_LEN;
    if (have < rx_header_need(fpdu + IWARP_FPDU_LENGTH_LEN, have, ulpdu_len)) {
        return IWARP_RX_NEED_MORE;
    }
    return rx_start_segment(rx, iwarp_fpdu_content(ulpdu_len));
}

static IwarpRxEvent rx_next_payload(IwarpRx *rx)
{
    size_t n = rx_avail(rx);

    if (n > rx->payload_left) {
        n = rx->payload_left;
    }
    if (n == 0) {
        return IWARP_RX_NEED_MORE;
    }
    rx->payload_len = n;
    rx->payload_offset = rx->segment.payload_len - rx->payload_left;
    rx->payload_left -= (uint32_t)n;
    rx->payload = rx->buffer + rx->head;
    rx->head += n;
    return IWARP_RX_PAYLOAD;
}

static IwarpRxEvent rx_next_trailer(IwarpRx *rx)
{
    size_t n = rx_avail(rx);

    if (n > rx->skip) {
        n = rx->skip;
    }
    rx->head += n;
    rx->skip -= (uint32_t)n;
    if (rx->skip) {
        return IWARP_RX_NEED_MORE;
    }
    rx->state = RX_START;
    return IWARP_RX_SEGMENT_END;
}

IwarpRxEvent iwarp_rx_next(IwarpRx *rx)
{
    if (rx->state == RX_PAYLOAD && rx->payload_left == 0) {
        rx->state = RX_TRAILER;
    }
    switch (rx->state) {
    case RX_START:
        return rx_whole(rx) ? rx_next_whole(rx) : rx_next_start(rx);
    case RX_PAYLOAD:
        return rx_next_payload(rx);
    case RX_TRAILER:
        return rx_next_trailer(rx);
    default:
        return IWARP_RX_ERROR;
    }
}

/* The FPDU of @wire octets at @fpdu. */
static bool rx_read_ahead(const IwarpRx *rx, const uint8_t *fpdu, size_t wire,
                          IwarpSegment *ahead)
{
    size_t ulpdu_len = iwarp_get16(fpdu);
    size_t covered = wire - IWARP_FPDU_CRC_LEN;
    IwarpDdpHeader h;
    size_t ddp_len = iwarp_ddp_decode(&h, fpdu + IWARP_FPDU_LENGTH_LEN,
                                      ulpdu_len);

    if (ddp_len == 0 ||
        (rx->crc && iwarp_crc32c(0, fpdu, covered) !=
                    iwarp_crc32c_get(fpdu + covered))) {
        return false;
    }
    *ahead = (IwarpSegment) {
        .opcode = (IwarpOpcode)iwarp_rdmap_opcode(h.control),
        .tagged = h.tagged,
        .last = h.last,
        .stag = h.stag,
        .to = h.to,
        .payload_len = (uint32_t)(ulpdu_len - ddp_len),
    };
    return true;
}

bool iwarp_rx_look_ahead(const IwarpRx *rx, size_t *at, IwarpSegment *ahead)
{
    size_t left = rx_avail(rx);
    size_t start = *at ? *at : (size_t)rx->payload_left + rx->skip;
    const uint8_t *fpdu = rx->buffer + rx->head + start;
    size_t wire;

    if (rx->state != RX_PAYLOAD || rx->markers || start > left ||
        left - start < IWARP_FPDU_LENGTH_LEN) {
        return false;
    }
    wire = iwarp_fpdu_content(iwarp_get16(fpdu));
    if (left - start < wire) {
        return false;
    }
    *at = start + wire;
    return rx_read_ahead(rx, fpdu, wire, ahead);
}

size_t iwarp_rx_direct(const IwarpRx *rx)
{
    if (rx->state != RX_PAYLOAD || rx_whole(rx) || rx_avail(rx)) {
        return 0;
    }
    return rx->payload_left;
}

uint32_t iwarp_rx_direct_offset(const IwarpRx *rx)
{
    return rx->segment.payload_len - rx->payload_left;
}

bool iwarp_rx_placed(IwarpRx *rx, size_t n)
{
    if (n > iwarp_rx_direct(rx)) {
        return false;
    }
    rx->payload_left -= (uint32_t)n;
    return true;
}

bool iwarp_rx_fpdu_left(const IwarpRx *rx, size_t *left, uint16_t *pos)
{
    size_t unit = rx->state == RX_START
                  ? 0 : (size_t)rx->payload_left + rx->skip;
    size_t at = rx->head;
    unsigned stream_pos = rx->stream_pos;

    if (rx->state == RX_FAILED) {
        return false;
    }
    while (unit < rx->tail - at) {
        at += unit;
        unit = rx_whole_len_at(rx, at, stream_pos);
        if (!unit) {
            return false;
        }
        stream_pos = (stream_pos + unit) & (IWARP_MARKER_SPACING - 1);
    }
    *left = unit - (rx->tail - at);
    *pos = (uint16_t)stream_pos;
    return true;
}

bool iwarp_rx_idle(const IwarpRx *rx)
{
    return rx->state == RX_START && rx_avail(rx) == 0 && !rx->message.open;
}
