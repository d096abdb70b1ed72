/*
 * Fuzzer of the protocol engine: MPA Request and Reply frames
 *
 * A frame in one piece and the same in many must be the same to the parser; what it
 * took can be encoded again; and whatever a frame says, what both ends agree on
 * keeps the rules of RFC 6581.
 *
 *     0   flags
 *     1   octets of a piece, less one
 *     2   what this end wants: revision, RTR kinds, depths (8 octets)
 *     10  the frame
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fuzz.h"
#include "hw/rnic/iwarp/mpa-startup.h"

enum {
    FLAG_REPLY = 1,
    FLAG_CRC = 2,
    FLAG_MARKERS = 4,
    FLAG_ENHANCED = 8,
    FLAG_PEER_TO_PEER = 16,
};

static IwarpMpaPolicy policy_of(FuzzInput *in, uint8_t flags)
{
    uint8_t kinds = fuzz_octet(in);

    return (IwarpMpaPolicy) {
        .crc = flags & FLAG_CRC,
        .markers = flags & FLAG_MARKERS,
        .revision = kinds & 8 ? 2 : 1,
        .enhanced = flags & FLAG_ENHANCED,
        .peer_to_peer = flags & FLAG_PEER_TO_PEER,
        .rtr = kinds & IWARP_RTR_ALL,
        .ird = fuzz_number(in, 2) & 0x3fff,
        .ord = fuzz_number(in, 2) & 0x3fff,
        .ird_limit = fuzz_number(in, 2) & 0x3fff,
    };
}

/* *@used: the octets of @in that the parser took. */
static IwarpMpaResult parse(FuzzInput in, bool reply, size_t piece,
                            IwarpMpaFrame *frame, size_t *used)
{
    IwarpMpaResult result = IWARP_MPA_NEED_MORE;
    IwarpMpaParser parser;

    *used = 0;
    memset(frame, 0, sizeof(*frame));
    iwarp_mpa_parser_init(&parser, reply, 2);
    while (in.size && result == IWARP_MPA_NEED_MORE) {
        size_t want = iwarp_mpa_parser_want(&parser);
        size_t n, taken;
        const uint8_t *octets = fuzz_octets(&in, piece, &n);

        must(want > 0);
        result = iwarp_mpa_parse(&parser, octets, n, &taken, frame);
        must(taken <= n);
        must(taken == n || result != IWARP_MPA_NEED_MORE);
        *used += taken;
    }
    must(*used <= IWARP_MPA_FRAME_MAX);
    return result;
}

/* @octets are those the frame was made of: all but reserved bits come back. */
static void check_encoding(const IwarpMpaFrame *frame, const uint8_t *octets,
                           size_t used)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];

    must(iwarp_mpa_encode(frame, out) == used);
    must(!memcmp(out, octets, 16));
    must((out[16] & ~octets[16]) == 0);
    must(!memcmp(out + 17, octets + 17, used - 17));
}

/* What both mean has to be within what either has said. */
static void check_responder(const IwarpMpaPolicy *policy,
                            const IwarpMpaFrame *request)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];
    IwarpMpaFrame reply, refusal;
    IwarpMpaAgreed agreed;

    iwarp_mpa_accept(policy, request, &reply, &agreed);
    must(iwarp_mpa_encode(&reply, out) > 0);
    must(reply.enhanced == (request->enhanced && reply.revision >= 2));
    must(reply.revision <= request->revision);
    must(agreed.crc == (policy->crc || request->crc));
    must(agreed.tx_markers == request->markers);
    must(agreed.rx_markers == policy->markers);
    if (reply.enhanced && request->ird != IWARP_MPA_DEPTH_UNSET) {
        must(agreed.ord <= request->ird);
    }
    must(!agreed.peer_to_peer || agreed.rtr);
    iwarp_mpa_reject(policy, request, &refusal);
    must(refusal.reject && iwarp_mpa_encode(&refusal, out) > 0);
}

static void check_initiator(const IwarpMpaPolicy *policy,
                            const IwarpMpaFrame *reply)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];
    IwarpMpaFrame request;
    IwarpMpaAgreed agreed;
    IwarpMpaResult result;
    bool send;

    iwarp_mpa_request(policy, &request);
    must(iwarp_mpa_encode(&request, out) > 0);
    result = iwarp_mpa_conclude(policy, &request, reply, &agreed);
    must(iwarp_mpa_result_name(result)[0] != '?');
    iwarp_mpa_result_term(result, &send);
    must(!send || result == IWARP_MPA_NO_IRD || result == IWARP_MPA_NO_RTR);
    if (result != IWARP_MPA_OK) {
        return;
    }
    must(!reply->reject && reply->revision <= request.revision);
    must(reply->enhanced == request.enhanced);
    must(agreed.crc == (request.crc || reply->crc));
    if (reply->enhanced && agreed.ord != IWARP_MPA_DEPTH_UNSET) {
        must(agreed.ord <= reply->ird);
    }
    must(!agreed.rtr || (policy->rtr & reply->rtr & agreed.rtr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    uint8_t flags = fuzz_octet(&in);
    size_t piece = (size_t)fuzz_octet(&in) + 1;
    IwarpMpaPolicy policy = policy_of(&in, flags);
    bool reply = flags & FLAG_REPLY;
    IwarpMpaFrame frame, again;
    size_t used, used_again;
    IwarpMpaResult result;

    in.data += in.size ? 1 : 0;     /* octet 9 is for later */
    in.size -= in.size ? 1 : 0;
    result = parse(in, reply, SIZE_MAX, &frame, &used);
    must(result == parse(in, reply, piece, &again, &used_again));
    must(iwarp_mpa_result_name(result)[0] != '?');
    if (result != IWARP_MPA_OK) {
        return 0;
    }
    must(used == used_again && !memcmp(&frame, &again, sizeof(frame)));
    check_encoding(&frame, in.data, used);
    if (reply) {
        check_initiator(&policy, &frame);
    } else {
        check_responder(&policy, &frame);
    }
    return 0;
}
