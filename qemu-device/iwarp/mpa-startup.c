/*
 * iWARP engine: MPA start-up frames and negotiation
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "bytes.h"
#include "mpa-startup.h"

enum {
    MPA_KEY_LEN = 16,

    MPA_M = 0x80,               /* octet 16 */
    MPA_C = 0x40,
    MPA_R = 0x20,
    MPA_S = 0x10,

    MPA_DEPTH_MASK = 0x3fff,    /* both enhanced words */
    MPA_A = 0x8000,             /* first word */
    MPA_B = 0x4000,
    MPA_C_RTR = 0x8000,         /* second word */
    MPA_D = 0x4000,
};

static const uint8_t request_key[MPA_KEY_LEN] = {
    'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ',
    'F', 'r', 'a', 'm', 'e',
};

static const uint8_t reply_key[MPA_KEY_LEN] = {
    'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'p', ' ',
    'F', 'r', 'a', 'm', 'e',
};

/* The frame and its octets */

size_t iwarp_mpa_pd_room(const IwarpMpaFrame *frame)
{
    return IWARP_MPA_PD_MAX - (frame->enhanced ? IWARP_MPA_ENHANCED_LEN : 0);
}

bool iwarp_mpa_set_pd(IwarpMpaFrame *frame, const void *data, size_t len)
{
    if (len > iwarp_mpa_pd_room(frame)) {
        return false;
    }
    if (len) {
        memcpy(frame->pd, data, len);
    }
    frame->pd_len = (uint16_t)len;
    return true;
}

static bool mpa_frame_possible(const IwarpMpaFrame *frame)
{
    if (frame->pd_len > iwarp_mpa_pd_room(frame)) {
        return false;
    }
    return !frame->enhanced ||
           (frame->revision >= 2 && frame->ird <= MPA_DEPTH_MASK &&
            frame->ord <= MPA_DEPTH_MASK);
}

static void mpa_encode_enhanced(const IwarpMpaFrame *frame, uint8_t *out)
{
    uint16_t first = frame->ird;
    uint16_t second = frame->ord;

    first |= frame->peer_to_peer ? MPA_A : 0;
    first |= frame->rtr & IWARP_RTR_SEND ? MPA_B : 0;
    second |= frame->rtr & IWARP_RTR_WRITE ? MPA_C_RTR : 0;
    second |= frame->rtr & IWARP_RTR_READ ? MPA_D : 0;
    iwarp_put16(out, first);
    iwarp_put16(out + 2, second);
}

static void mpa_decode_enhanced(IwarpMpaFrame *frame, const uint8_t *in)
{
    uint16_t first = iwarp_get16(in);
    uint16_t second = iwarp_get16(in + 2);

    frame->peer_to_peer = first & MPA_A;
    frame->rtr = (first & MPA_B ? IWARP_RTR_SEND : 0) |
                 (second & MPA_C_RTR ? IWARP_RTR_WRITE : 0) |
                 (second & MPA_D ? IWARP_RTR_READ : 0);
    frame->ird = first & MPA_DEPTH_MASK;
    frame->ord = second & MPA_DEPTH_MASK;
}

size_t iwarp_mpa_encode(const IwarpMpaFrame *frame, uint8_t *out)
{
    uint8_t *p = out + IWARP_MPA_HEADER_LEN;

    if (!mpa_frame_possible(frame)) {
        return 0;
    }
    memcpy(out, frame->reply ? reply_key : request_key, MPA_KEY_LEN);
    out[16] = (uint8_t)((frame->markers ? MPA_M : 0) |
                        (frame->crc ? MPA_C : 0) |
                        (frame->reply && frame->reject ? MPA_R : 0) |
                        (frame->enhanced ? MPA_S : 0));
    out[17] = frame->revision;
    if (frame->enhanced) {
        mpa_encode_enhanced(frame, p);
        p += IWARP_MPA_ENHANCED_LEN;
    }
    memcpy(p, frame->pd, frame->pd_len);
    p += frame->pd_len;
    iwarp_put16(out + 18, (uint16_t)(p - out - IWARP_MPA_HEADER_LEN));
    return (size_t)(p - out);
}

/* The parser */

void iwarp_mpa_parser_init(IwarpMpaParser *p, bool want_reply,
                           uint8_t max_revision)
{
    memset(p, 0, sizeof(*p));
    p->want_reply = want_reply;
    p->max_revision = max_revision;
    p->result = IWARP_MPA_NEED_MORE;
}

size_t iwarp_mpa_parser_want(const IwarpMpaParser *p)
{
    if (p->result != IWARP_MPA_NEED_MORE) {
        return 0;
    }
    return (size_t)(p->frame_len ? p->frame_len : IWARP_MPA_HEADER_LEN) -
           p->have;
}

/* NEED_MORE as long as the key octets so far may still be the right key. */
static IwarpMpaResult mpa_check_key(const IwarpMpaParser *p)
{
    const uint8_t *want = p->want_reply ? reply_key : request_key;
    const uint8_t *other = p->want_reply ? request_key : reply_key;
    size_t n = p->have < MPA_KEY_LEN ? p->have : MPA_KEY_LEN;

    if (memcmp(p->raw, want, n) == 0) {
        return IWARP_MPA_NEED_MORE;
    }
    if (memcmp(p->raw, other, n) != 0) {
        return IWARP_MPA_BAD_KEY;
    }
    return n == MPA_KEY_LEN ? IWARP_MPA_WRONG_ROLE : IWARP_MPA_NEED_MORE;
}

/* S is a reserved bit, not looked at, below revision 2. */
static bool mpa_raw_enhanced(const uint8_t *raw)
{
    return raw[17] >= 2 && (raw[16] & MPA_S);
}

static IwarpMpaResult mpa_check_header(const IwarpMpaParser *p)
{
    uint16_t pd_len = iwarp_get16(p->raw + 18);

    if (p->raw[17] < IWARP_MPA_REVISION_MIN ||
        p->raw[17] > p->max_revision) {
        return IWARP_MPA_BAD_REVISION;
    }
    if (pd_len > IWARP_MPA_PD_MAX) {
        return IWARP_MPA_PD_TOO_LONG;
    }
    if (mpa_raw_enhanced(p->raw) && pd_len < IWARP_MPA_ENHANCED_LEN) {
        return IWARP_MPA_PD_NO_ENHANCED;
    }
    return IWARP_MPA_NEED_MORE;
}

static void mpa_decode(const IwarpMpaParser *p, IwarpMpaFrame *frame)
{
    const uint8_t *pd = p->raw + IWARP_MPA_HEADER_LEN;
    size_t pd_len = iwarp_get16(p->raw + 18);

    memset(frame, 0, sizeof(*frame));
    frame->reply = p->want_reply;
    frame->markers = p->raw[16] & MPA_M;
    frame->crc = p->raw[16] & MPA_C;
    frame->reject = p->want_reply && (p->raw[16] & MPA_R);
    frame->enhanced = mpa_raw_enhanced(p->raw);
    frame->revision = p->raw[17];
    if (frame->enhanced) {
        mpa_decode_enhanced(frame, pd);
        pd += IWARP_MPA_ENHANCED_LEN;
        pd_len -= IWARP_MPA_ENHANCED_LEN;
    }
    memcpy(frame->pd, pd, pd_len);
    frame->pd_len = (uint16_t)pd_len;
}

/* The parser's result after new octets arrived. */
static IwarpMpaResult mpa_judge(IwarpMpaParser *p)
{
    IwarpMpaResult result = mpa_check_key(p);

    if (result != IWARP_MPA_NEED_MORE || p->have < IWARP_MPA_HEADER_LEN) {
        return result;
    }
    result = mpa_check_header(p);
    if (result != IWARP_MPA_NEED_MORE) {
        return result;
    }
    p->frame_len = (uint16_t)(IWARP_MPA_HEADER_LEN +
                              iwarp_get16(p->raw + 18));
    return p->have == p->frame_len ? IWARP_MPA_OK : IWARP_MPA_NEED_MORE;
}

IwarpMpaResult iwarp_mpa_parse(IwarpMpaParser *p, const void *data, size_t len,
                               size_t *used, IwarpMpaFrame *frame)
{
    const uint8_t *in = data;

    *used = 0;
    while (*used < len && p->result == IWARP_MPA_NEED_MORE) {
        size_t n = iwarp_mpa_parser_want(p);

        if (n > len - *used) {
            n = len - *used;
        }
        memcpy(p->raw + p->have, in + *used, n);
        p->have += (uint16_t)n;
        *used += n;
        p->result = mpa_judge(p);
    }
    if (p->result == IWARP_MPA_OK) {
        mpa_decode(p, frame);
    }
    return p->result;
}

/* Negotiation */

static uint16_t min16(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static uint8_t policy_revision(const IwarpMpaPolicy *policy)
{
    return policy->revision >= 2 ? 2 : 1;
}

/* The one kind to prefer among @rtr, 0 if none. */
static uint8_t rtr_prefer(uint8_t rtr)
{
    static const uint8_t order[] = {
        IWARP_RTR_WRITE, IWARP_RTR_READ, IWARP_RTR_SEND,
    };

    for (size_t i = 0; i < sizeof(order); i++) {
        if (rtr & order[i]) {
            return order[i];
        }
    }
    return 0;
}

void iwarp_mpa_request(const IwarpMpaPolicy *policy, IwarpMpaFrame *request)
{
    memset(request, 0, sizeof(*request));
    request->crc = policy->crc;
    request->markers = policy->markers;
    request->revision = policy_revision(policy);
    request->enhanced = policy->enhanced && request->revision >= 2;
    if (request->enhanced) {
        request->ird = min16(policy->ird, IWARP_MPA_DEPTH_UNSET);
        request->ord = min16(policy->ord, IWARP_MPA_DEPTH_UNSET);
        request->peer_to_peer = policy->peer_to_peer;
        request->rtr = policy->peer_to_peer ? policy->rtr & IWARP_RTR_ALL : 0;
    }
}

/* The part of a Reply that does not depend on accepting. */
static void mpa_reply_start(const IwarpMpaPolicy *policy,
                            const IwarpMpaFrame *request, IwarpMpaFrame *reply)
{
    memset(reply, 0, sizeof(*reply));
    reply->reply = true;
    reply->crc = policy->crc || request->crc;
    reply->markers = policy->markers;
    reply->revision = request->revision < policy_revision(policy) ?
                      request->revision : policy_revision(policy);
    reply->enhanced = request->enhanced && reply->revision >= 2;
    if (reply->enhanced) {
        reply->peer_to_peer = request->peer_to_peer;
        reply->ird = min16(policy->ird, IWARP_MPA_DEPTH_MAX);
        reply->ord = min16(policy->ord, IWARP_MPA_DEPTH_MAX);
    }
}

/* RFC 6581 section 9.1, responder: agreed depths and those to answer. */
static void mpa_accept_depths(const IwarpMpaFrame *request,
                              IwarpMpaFrame *reply, IwarpMpaAgreed *agreed)
{
    if (!reply->enhanced) {
        return;
    }
    if (request->ird != IWARP_MPA_DEPTH_UNSET) {
        agreed->ord = reply->ord = min16(reply->ord, request->ird);
    } else {
        reply->ord = IWARP_MPA_DEPTH_UNSET;
    }
    if (request->ord == IWARP_MPA_DEPTH_UNSET) {
        reply->ird = IWARP_MPA_DEPTH_UNSET;
    } else if (reply->rtr == IWARP_RTR_READ && reply->ird == 0) {
        agreed->ird = reply->ird = 1;
    }
}

/* RFC 6581 section 9.2, responder: the kinds to answer. */
static uint8_t mpa_accept_rtr(const IwarpMpaPolicy *policy,
                              const IwarpMpaFrame *request)
{
    uint8_t ours = policy->rtr & IWARP_RTR_ALL;

    if (!request->peer_to_peer) {
        return 0;
    }
    if (request->rtr & ours) {
        return request->rtr & ours;
    }
    return ours ? rtr_prefer(ours) : IWARP_RTR_WRITE;
}

void iwarp_mpa_accept(const IwarpMpaPolicy *policy,
                      const IwarpMpaFrame *request, IwarpMpaFrame *reply,
                      IwarpMpaAgreed *agreed)
{
    mpa_reply_start(policy, request, reply);
    memset(agreed, 0, sizeof(*agreed));
    agreed->crc = reply->crc;
    agreed->tx_markers = request->markers;
    agreed->rx_markers = reply->markers;
    agreed->enhanced = reply->enhanced;
    agreed->revision = reply->revision;
    agreed->peer_ird = agreed->peer_ord = IWARP_MPA_DEPTH_UNSET;
    agreed->ird = min16(policy->ird, IWARP_MPA_DEPTH_MAX);
    agreed->ord = min16(policy->ord, IWARP_MPA_DEPTH_MAX);
    if (reply->enhanced) {
        agreed->peer_ird = request->ird;
        agreed->peer_ord = request->ord;
        agreed->peer_to_peer = reply->peer_to_peer;
        agreed->rtr = reply->rtr = mpa_accept_rtr(policy, request);
        mpa_accept_depths(request, reply, agreed);
    }
}

void iwarp_mpa_reject(const IwarpMpaPolicy *policy,
                      const IwarpMpaFrame *request, IwarpMpaFrame *reply)
{
    mpa_reply_start(policy, request, reply);
    reply->reject = true;
}

/* RFC 6581 section 9.1, initiator. */
static IwarpMpaResult mpa_conclude_depths(const IwarpMpaPolicy *policy,
                                          const IwarpMpaFrame *reply,
                                          IwarpMpaAgreed *agreed)
{
    if (agreed->ord != IWARP_MPA_DEPTH_UNSET) {
        agreed->ord = min16(agreed->ord, reply->ird);
    }
    if (agreed->ird == IWARP_MPA_DEPTH_UNSET ||
        reply->ord == IWARP_MPA_DEPTH_UNSET || reply->ord <= agreed->ird) {
        return IWARP_MPA_OK;
    }
    if (reply->ord > policy->ird_limit) {
        return IWARP_MPA_NO_IRD;
    }
    agreed->ird = reply->ord;
    return IWARP_MPA_OK;
}

/* RFC 6581 section 9.2, initiator: the kind to send. */
static IwarpMpaResult mpa_conclude_rtr(const IwarpMpaPolicy *policy,
                                       const IwarpMpaFrame *request,
                                       const IwarpMpaFrame *reply,
                                       IwarpMpaAgreed *agreed)
{
    uint8_t both = policy->rtr & reply->rtr;

    agreed->peer_to_peer = request->peer_to_peer && reply->peer_to_peer;
    if (!agreed->peer_to_peer) {
        return IWARP_MPA_OK;
    }
    if (reply->ird == 0) {
        both &= (uint8_t)~IWARP_RTR_READ;
    }
    agreed->rtr = rtr_prefer(both);
    return agreed->rtr ? IWARP_MPA_OK : IWARP_MPA_NO_RTR;
}

static IwarpMpaResult mpa_judge_reply(const IwarpMpaFrame *request,
                                      const IwarpMpaFrame *reply)
{
    if (reply->reject) {
        return IWARP_MPA_REJECTED;
    }
    if (reply->revision > request->revision) {
        return IWARP_MPA_REVISION_RAISED;
    }
    if (request->enhanced && !reply->enhanced) {
        return IWARP_MPA_NOT_ENHANCED;
    }
    if (reply->enhanced && !request->enhanced) {
        return IWARP_MPA_UNASKED_ENHANCED;
    }
    return IWARP_MPA_OK;
}

IwarpMpaResult iwarp_mpa_conclude(const IwarpMpaPolicy *policy,
                                  const IwarpMpaFrame *request,
                                  const IwarpMpaFrame *reply,
                                  IwarpMpaAgreed *agreed)
{
    IwarpMpaResult result = mpa_judge_reply(request, reply);

    memset(agreed, 0, sizeof(*agreed));
    agreed->crc = request->crc || reply->crc;
    agreed->tx_markers = reply->markers;
    agreed->rx_markers = request->markers;
    agreed->enhanced = reply->enhanced;
    agreed->revision = reply->revision;
    agreed->ird = min16(policy->ird, IWARP_MPA_DEPTH_UNSET);
    agreed->ord = min16(policy->ord, IWARP_MPA_DEPTH_UNSET);
    agreed->peer_ird = reply->enhanced ? reply->ird : IWARP_MPA_DEPTH_UNSET;
    agreed->peer_ord = reply->enhanced ? reply->ord : IWARP_MPA_DEPTH_UNSET;
    if (result == IWARP_MPA_OK && reply->enhanced) {
        result = mpa_conclude_depths(policy, reply, agreed);
    }
    if (result == IWARP_MPA_OK && reply->enhanced) {
        result = mpa_conclude_rtr(policy, request, reply, agreed);
    }
    return result;
}

/* Names and codes */

static const struct {
    const char *name;
    IwarpTermCode term;
    bool send;
} results[IWARP_MPA_RESULT__MAX] = {
    [IWARP_MPA_OK] = { "ok", 0, false },
    [IWARP_MPA_NEED_MORE] = { "need-more", 0, false },
    [IWARP_MPA_BAD_KEY] = { "bad-key", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_WRONG_ROLE] = { "wrong-role", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_BAD_REVISION] = { "bad-revision", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_PD_TOO_LONG] = { "pd-too-long", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_PD_NO_ENHANCED] =
        { "pd-no-enhanced", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_REJECTED] = { "rejected", 0, false },
    [IWARP_MPA_REVISION_RAISED] =
        { "revision-raised", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_NOT_ENHANCED] =
        { "not-enhanced", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_UNASKED_ENHANCED] =
        { "unasked-enhanced", IWARP_TERM_MPA_FRAME, false },
    [IWARP_MPA_NO_IRD] = { "no-ird", IWARP_TERM_MPA_IRD, true },
    [IWARP_MPA_NO_RTR] = { "no-rtr", IWARP_TERM_MPA_RTR, true },
};

const char *iwarp_mpa_result_name(IwarpMpaResult result)
{
    return (unsigned)result < IWARP_MPA_RESULT__MAX ? results[result].name
                                                    : "?";
}

IwarpTermCode iwarp_mpa_result_term(IwarpMpaResult result, bool *send)
{
    if ((unsigned)result >= IWARP_MPA_RESULT__MAX) {
        *send = false;
        return 0;
    }
    *send = results[result].send;
    return results[result].term;
}
