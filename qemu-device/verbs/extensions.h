/*
 * rnic: the messages of RFC 7306, and whether the peer takes them
 *
 * RFC 7306 leaves open how two ends agree.  Directly connected devices say it in
 * their private data (connect/direct-data.h).  On other streams the end that has
 * the first WR of this kind asks, by what every RDMAP peer answers and what changes
 * nothing (RFC 5040: without octets STag and TO mean nothing): a Read of no octets,
 * whose sink TO is the question.  The TO of the Read Response is the answer: any
 * other than RNIC_EXTENSIONS_YES means no.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_EXTENSIONS_H
#define HW_RNIC_EXTENSIONS_H

#include "qp.h"
#include "hw/rnic/iwarp/stream-rx.h"
#include "hw/rnic/iwarp/stream-tx.h"

/* TO, with STag zero, in letters. */
#define RNIC_EXTENSIONS_ASK     0x524e49433f373330ULL   /* "RNIC?730" */
#define RNIC_EXTENSIONS_YES     0x524e494321373330ULL   /* "RNIC!730" */

typedef enum RnicExtensionsState {
    RNIC_EXTENSIONS_UNKNOWN,
    RNIC_EXTENSIONS_ASKED,
    RNIC_EXTENSIONS_AGREED,     /* we may send them; the peer may before that */
    RNIC_EXTENSIONS_REFUSED,
} RnicExtensionsState;

/* Part of a QP; the worker's. */
typedef struct RnicExtensions {
    RnicExtensionsState state;
    /* Receiving */
    uint32_t written;           /* octets of the Write that came last; 0: another
                                 * message has come since */
    bool held;                  /* immediate data for the Send that follows */
    uint8_t immediate[4];
} RnicExtensions;

/* RTS by a direct connect whose ends have said @agreed. */
void rnic_extensions_settle(RnicQp *qp, bool agreed);

/* Make the question. */
void rnic_extensions_ask(RnicQp *qp, IwarpTxMessage *msg, uint8_t *header);
/* The answer has come: the TO of the Read Response. */
void rnic_extensions_answered(RnicQp *qp, uint64_t to);

/* A Read Request of the peer has come; it may be the question. */
void rnic_extensions_requested(RnicQp *qp, const IwarpReadRequest *request);
/* The TO of the response to it, and that the response has been sent. */
uint64_t rnic_extensions_response_to(const RnicQp *qp,
                                     const IwarpReadRequest *request);
void rnic_extensions_responded(RnicQp *qp, const IwarpReadRequest *request);

/*
 * Immediate Data: the 4 octets of the verbs' first, then 4 that say what they belong
 * to.  A Send with Immediate is an Immediate Data message and then the Send.
 */
void rnic_extensions_immediate(const struct rnic_sq_wqe *wqe,
                               IwarpTxMessage *msg, uint8_t *header);
/* The Immediate Data message belongs to the Send that follows. */
bool rnic_extensions_of_send(const IwarpSegment *seg);

/* An Atomic Request as @wqe and @args say. */
void rnic_extensions_atomic(const struct rnic_sq_wqe *wqe,
                            const struct rnic_atomic_wqe *args, uint32_t id,
                            IwarpTxMessage *msg, uint8_t *header);

#endif /* HW_RNIC_EXTENSIONS_H */
