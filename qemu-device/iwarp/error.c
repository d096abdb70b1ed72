/*
 * iWARP engine: tables of term codes and faults
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stddef.h>

#include "bytes.h"
#include "error.h"

static const struct {
    IwarpTermCode term;
    const char *name;
} term_names[] = {
    { IWARP_TERM_RDMAP_LOCAL, "RDMAP local catastrophic" },
    { IWARP_TERM_READ_STAG, "RDMAP invalid STag" },
    { IWARP_TERM_READ_BOUNDS, "RDMAP base or bounds violation" },
    { IWARP_TERM_READ_ACCESS, "RDMAP access rights violation" },
    { IWARP_TERM_READ_STREAM, "RDMAP STag not of this stream" },
    { IWARP_TERM_READ_WRAP, "RDMAP TO wrap" },
    { IWARP_TERM_INVALIDATE, "RDMAP STag cannot be invalidated" },
    { IWARP_TERM_PROTECTION, "RDMAP unspecified protection error" },
    { IWARP_TERM_RDMAP_VERSION, "RDMAP invalid version" },
    { IWARP_TERM_OPCODE, "RDMAP unexpected opcode" },
    { IWARP_TERM_STREAM, "RDMAP stream catastrophic" },
    { IWARP_TERM_GLOBAL, "RDMAP global catastrophic" },
    { IWARP_TERM_INVALIDATE_UNKNOWN, "RDMAP no STag to invalidate" },
    { IWARP_TERM_OPERATION, "RDMAP unspecified operation error" },
    { IWARP_TERM_DDP_LOCAL, "DDP local catastrophic" },
    { IWARP_TERM_TAGGED_STAG, "DDP invalid STag" },
    { IWARP_TERM_TAGGED_BOUNDS, "DDP base or bounds violation" },
    { IWARP_TERM_TAGGED_STREAM, "DDP STag not of this stream" },
    { IWARP_TERM_TAGGED_WRAP, "DDP TO wrap" },
    { IWARP_TERM_TAGGED_VERSION, "DDP invalid version, tagged" },
    { IWARP_TERM_QN, "DDP invalid queue number" },
    { IWARP_TERM_NO_BUFFER, "DDP invalid MSN, no buffer" },
    { IWARP_TERM_MSN, "DDP invalid MSN, range" },
    { IWARP_TERM_MO, "DDP invalid MO" },
    { IWARP_TERM_TOO_LONG, "DDP message too long" },
    { IWARP_TERM_UNTAGGED_VERSION, "DDP invalid version, untagged" },
    { IWARP_TERM_LLP_LOST, "MPA TCP connection lost" },
    { IWARP_TERM_CRC, "MPA CRC mismatch" },
    { IWARP_TERM_FRAMING, "MPA marker and length disagree" },
    { IWARP_TERM_MPA_FRAME, "MPA invalid Request or Reply" },
    { IWARP_TERM_MPA_LOCAL, "MPA local catastrophic" },
    { IWARP_TERM_MPA_IRD, "MPA insufficient IRD" },
    { IWARP_TERM_MPA_RTR, "MPA no matching RTR" },
};

const char *iwarp_term_name(IwarpTermCode term)
{
    if (term >> 8 == 0) {
        term = IWARP_TERM_RDMAP_LOCAL;  /* any code octet means the same */
    }
    for (size_t i = 0; i < sizeof(term_names) / sizeof(term_names[0]); i++) {
        if (term_names[i].term == term) {
            return term_names[i].name;
        }
    }
    return NULL;
}

static const struct {
    const char *name;
    IwarpTermCode term;
} faults[IWARP_FAULT__MAX] = {
    [IWARP_FAULT_NONE] = { "none", 0 },
    [IWARP_FAULT_CRC] = { "crc", IWARP_TERM_CRC },
    [IWARP_FAULT_MARKER] = { "marker", IWARP_TERM_FRAMING },
    [IWARP_FAULT_SEGMENT_SHORT] = { "segment-short", IWARP_TERM_FRAMING },
    [IWARP_FAULT_TAGGED_VERSION] =
        { "tagged-version", IWARP_TERM_TAGGED_VERSION },
    [IWARP_FAULT_UNTAGGED_VERSION] =
        { "untagged-version", IWARP_TERM_UNTAGGED_VERSION },
    [IWARP_FAULT_RDMAP_VERSION] =
        { "rdmap-version", IWARP_TERM_RDMAP_VERSION },
    [IWARP_FAULT_OPCODE_UNKNOWN] = { "opcode-unknown", IWARP_TERM_OPCODE },
    [IWARP_FAULT_OPCODE_REFUSED] = { "opcode-refused", IWARP_TERM_OPCODE },
    [IWARP_FAULT_TAG_FLAG] = { "tag-flag", IWARP_TERM_OPCODE },
    [IWARP_FAULT_QN_UNKNOWN] = { "qn-unknown", IWARP_TERM_QN },
    [IWARP_FAULT_QN_OPCODE] = { "qn-opcode", IWARP_TERM_QN },
    [IWARP_FAULT_MSN_PAST] = { "msn-past", IWARP_TERM_MSN },
    [IWARP_FAULT_MSN_AHEAD] = { "msn-ahead", IWARP_TERM_MSN },
    [IWARP_FAULT_MO] = { "mo", IWARP_TERM_MO },
    [IWARP_FAULT_INTERLEAVED] = { "interleaved", IWARP_TERM_OPCODE },
    [IWARP_FAULT_OPCODE_CHANGED] = { "opcode-changed", IWARP_TERM_OPCODE },
    [IWARP_FAULT_STAG_CHANGED] = { "stag-changed", IWARP_TERM_TAGGED_STAG },
    [IWARP_FAULT_TO_JUMP] = { "to-jump", IWARP_TERM_TAGGED_BOUNDS },
    [IWARP_FAULT_TAGGED_LENGTH] =
        { "tagged-length", IWARP_TERM_TAGGED_BOUNDS },
    [IWARP_FAULT_UNTAGGED_LENGTH] =
        { "untagged-length", IWARP_TERM_TOO_LONG },
    [IWARP_FAULT_HEADER_SHORT] = { "header-short", IWARP_TERM_OPERATION },
    [IWARP_FAULT_HEADER_LONG] = { "header-long", IWARP_TERM_TOO_LONG },
    [IWARP_FAULT_NOT_LAST] = { "not-last", IWARP_TERM_OPERATION },
    [IWARP_FAULT_EMPTY_NOT_LAST] =
        { "empty-not-last", IWARP_TERM_OPERATION },
    [IWARP_FAULT_REJECTED] = { "rejected", 0 },
};

IwarpTermCode iwarp_fault_term(IwarpFault fault)
{
    return (unsigned)fault < IWARP_FAULT__MAX ? faults[fault].term : 0;
}

const char *iwarp_fault_name(IwarpFault fault)
{
    return (unsigned)fault < IWARP_FAULT__MAX ? faults[fault].name : "?";
}

IwarpError iwarp_error_local(IwarpTermCode term)
{
    IwarpError error = { .fault = IWARP_FAULT_NONE, .term = term };

    return error;
}

void iwarp_echo_advance_read(IwarpEcho *echo, uint32_t done)
{
    uint8_t *sink_to = echo->rdma + 4;
    uint8_t *size = echo->rdma + 12;
    uint8_t *source_to = echo->rdma + 20;

    if (echo->rdma_len != IWARP_ECHO_RDMA) {
        return;
    }
    if (done > iwarp_get32(size)) {
        done = iwarp_get32(size);
    }
    iwarp_put64(sink_to, iwarp_get64(sink_to) + done);
    iwarp_put32(size, iwarp_get32(size) - done);
    iwarp_put64(source_to, iwarp_get64(source_to) + done);
}
