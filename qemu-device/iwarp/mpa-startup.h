/*
 * iWARP engine: MPA start-up, the Request and Reply frames
 *
 * RFC 5044 section 7.1 and RFC 6581 (enhanced: the S bit, IRD/ORD, RTR).
 * Three parts: the frame in memory and on the wire, a parser that takes the
 * octets in any pieces, and the pure functions by which each side turns its
 * wishes and the two frames into what was agreed.
 *
 * Nothing here reads sockets, keeps time or sends; the parser never consumes
 * an octet behind its frame.
 *
 * The frame, big-endian:
 *
 *     0   16  key: "MPA ID Req Frame" or "MPA ID Rep Frame"
 *     16  1   M 0x80, C 0x40, R 0x20, S 0x10, reserved
 *     17  1   revision
 *     18  2   PD_Length: the octets that follow, 0..512
 *     20      with S: A|B|IRD (2), C|D|ORD (2); then the ULP's private data
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef IWARP_MPA_STARTUP_H
#define IWARP_MPA_STARTUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum {
    IWARP_MPA_HEADER_LEN = 20,
    IWARP_MPA_ENHANCED_LEN = 4,
    IWARP_MPA_PD_MAX = 512,         /* PD_Length, enhanced data included */
    IWARP_MPA_FRAME_MAX = IWARP_MPA_HEADER_LEN + IWARP_MPA_PD_MAX,
    IWARP_MPA_REVISION_MIN = 1,
    IWARP_MPA_REVISION_MAX = 2,
    IWARP_MPA_DEPTH_MAX = 0x3ffe,   /* largest IRD or ORD in a frame */
    IWARP_MPA_DEPTH_UNSET = 0x3fff, /* "not negotiated here" */
};

/* Kinds of ready-to-receive FPDU, as a set (RFC 6581 section 9.2). */
enum {
    IWARP_RTR_SEND = 1,             /* B: an empty Send */
    IWARP_RTR_WRITE = 2,            /* C: an empty RDMA Write */
    IWARP_RTR_READ = 4,             /* D: a Read Request of size 0 */
    IWARP_RTR_ALL = 7,
};

/* A Request or Reply frame, host order. */
typedef struct IwarpMpaFrame {
    bool reply;
    bool markers;           /* M: the sender wants to receive markers */
    bool crc;               /* C */
    bool reject;            /* R, Reply only */
    bool enhanced;          /* S, revision 2 only */
    uint8_t revision;
    /* with enhanced */
    bool peer_to_peer;      /* A */
    uint8_t rtr;            /* set of IWARP_RTR_*: B, C, D */
    uint16_t ird;           /* 0..0x3fff */
    uint16_t ord;
    /* the ULP's private data, without the enhanced octets */
    uint16_t pd_len;
    uint8_t pd[IWARP_MPA_PD_MAX];
} IwarpMpaFrame;

/* Private data octets the ULP may use in @frame: 512, or 508 if enhanced. */
size_t iwarp_mpa_pd_room(const IwarpMpaFrame *frame);

/*
 * Put the ULP's private data into @frame.  Returns false, and changes
 * nothing, when it does not fit.
 */
bool iwarp_mpa_set_pd(IwarpMpaFrame *frame, const void *data, size_t len);

/*
 * Encode @frame to @out, which has room for IWARP_MPA_FRAME_MAX octets.
 * Returns the octets written, 0 when the frame cannot be: private data too
 * long, enhanced with a revision below 2, IRD or ORD above 0x3fff.
 */
size_t iwarp_mpa_encode(const IwarpMpaFrame *frame, uint8_t *out);

typedef enum IwarpMpaResult {
    IWARP_MPA_OK,
    IWARP_MPA_NEED_MORE,        /* frame not complete */
    /* parser: close the TCP connection, no Reply (RFC 5044 section 7.1.1) */
    IWARP_MPA_BAD_KEY,          /* neither key */
    IWARP_MPA_WRONG_ROLE,       /* Request where Reply is due, or reverse:
                                 * two initiators or two responders */
    IWARP_MPA_BAD_REVISION,
    IWARP_MPA_PD_TOO_LONG,      /* PD_Length above 512 */
    IWARP_MPA_PD_NO_ENHANCED,   /* S with PD_Length below 4 */
    /* initiator's view of a well-formed Reply */
    IWARP_MPA_REJECTED,         /* R set: private data for the ULP */
    IWARP_MPA_REVISION_RAISED,  /* Reply above the Request's revision */
    IWARP_MPA_NOT_ENHANCED,     /* plain Reply to an enhanced Request; a new
                                 * connection with revision 1 may work */
    IWARP_MPA_UNASKED_ENHANCED, /* enhanced Reply to a plain Request */
    IWARP_MPA_NO_IRD,           /* Terminate 2/0/06, then close */
    IWARP_MPA_NO_RTR,           /* Terminate 2/0/07, then close */
    IWARP_MPA_RESULT__MAX
} IwarpMpaResult;

/* A stable name for traces, never NULL. */
const char *iwarp_mpa_result_name(IwarpMpaResult result);

/*
 * The term code of @result; *@send says whether a Terminate is to be sent
 * (only the two of RFC 6581 are) or the code serves traces only.
 */
IwarpTermCode iwarp_mpa_result_term(IwarpMpaResult result, bool *send);

/* Incremental parser of one frame, started by iwarp_mpa_parser_init(). */
typedef struct IwarpMpaParser {
    bool want_reply;
    uint8_t max_revision;
    IwarpMpaResult result;      /* sticky once not NEED_MORE */
    uint16_t have;              /* octets of raw filled */
    uint16_t frame_len;         /* known after the header, else 0 */
    uint8_t raw[IWARP_MPA_FRAME_MAX];
} IwarpMpaParser;

/*
 * Expect a Reply (@want_reply) or a Request, of a revision between 1 and
 * @max_revision (1 or 2).
 */
void iwarp_mpa_parser_init(IwarpMpaParser *p, bool want_reply,
                           uint8_t max_revision);

/*
 * Octets the parser is sure to consume next: 20 at first, then those up to the
 * frame's end; 0 when it is done or failed.  A caller that reads no more than
 * this from the socket never holds octets behind the frame.
 */
size_t iwarp_mpa_parser_want(const IwarpMpaParser *p);

/*
 * Take @len octets.  *@used is how many of them belong to the frame (all of
 * them while NEED_MORE); those behind it stay the caller's.  With OK the frame
 * is in @frame.  The result does not depend on how the octets were cut, and a
 * wrong octet of the key is an error as soon as it is seen.
 */
IwarpMpaResult iwarp_mpa_parse(IwarpMpaParser *p, const void *data, size_t len,
                               size_t *used, IwarpMpaFrame *frame);

/* What one end wants from a connection. */
typedef struct IwarpMpaPolicy {
    bool crc;               /* insist on CRC (RFC default); false: only if
                             * the peer insists */
    bool markers;           /* want markers in what we receive */
    uint8_t revision;       /* highest to use, 1 or 2 */
    bool enhanced;          /* initiator: use the RFC 6581 format (needs 2);
                             * a responder follows the Request */
    bool peer_to_peer;      /* initiator: ask for an RTR FPDU */
    uint8_t rtr;            /* kinds we can send (initiator) or take */
    uint16_t ird;           /* wanted, 0..0x3ffe (more counts as that); an */
    uint16_t ord;           /* initiator may say 0x3fff, not negotiated */
    uint16_t ird_limit;     /* initiator: IRD may be raised up to this */
} IwarpMpaPolicy;

/* What both frames together mean for our end. */
typedef struct IwarpMpaAgreed {
    bool crc;               /* both directions */
    bool tx_markers;        /* insert markers in what we send */
    bool rx_markers;        /* expect markers in what we receive */
    bool enhanced;
    bool peer_to_peer;
    uint8_t revision;
    uint8_t rtr;            /* initiator: the one kind to send first;
                             * responder: kinds that may come first; or 0 */
    uint16_t ird;           /* ours; 0x3fff only if the policy's was */
    uint16_t ord;
    uint16_t peer_ird;      /* as in the peer's frame (0x3fff if plain), for */
    uint16_t peer_ord;      /* the ULP */
} IwarpMpaAgreed;

/* Initiator: make the Request.  Add private data with iwarp_mpa_set_pd. */
void iwarp_mpa_request(const IwarpMpaPolicy *policy, IwarpMpaFrame *request);

/*
 * Responder: answer @request by accepting it.  Makes the Reply (private data
 * empty) and says what was agreed.  Cannot fail: IRD and ORD are lowered to
 * what the peer takes.  IRD becomes at least 1 if the only RTR kind is a Read.
 *
 * Our first FPDU may leave only after one of the peer's was received, RTR or
 * not (RFC 5044 section 7.1.2); that is the caller's to keep.
 */
void iwarp_mpa_accept(const IwarpMpaPolicy *policy,
                      const IwarpMpaFrame *request, IwarpMpaFrame *reply,
                      IwarpMpaAgreed *agreed);

/*
 * Responder: refuse @request.  An enhanced Request gets an enhanced Reply with
 * the policy's IRD and ORD, so the peer sees what would have been needed.
 */
void iwarp_mpa_reject(const IwarpMpaPolicy *policy,
                      const IwarpMpaFrame *request, IwarpMpaFrame *reply);

/*
 * Initiator: judge the Reply to @request.  Fills @agreed as far as the frames
 * go, also with a result other than OK (peer_ird and peer_ord for the ULP).
 *
 * The RTR kind chosen: Write, else Read, else Send, as far as both have it; a
 * Read only if the responder's IRD is not 0.
 */
IwarpMpaResult iwarp_mpa_conclude(const IwarpMpaPolicy *policy,
                                  const IwarpMpaFrame *request,
                                  const IwarpMpaFrame *reply,
                                  IwarpMpaAgreed *agreed);

#endif /* IWARP_MPA_STARTUP_H */
