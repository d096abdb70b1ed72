/*
 * Direct connects: commands, two devices, and a peer that the test speaks for
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_DIRECT_H
#define RNIC_QTEST_DIRECT_H

#include "connection.h"

enum {
    DIRECT_PORT = 4791,

    /* Private data of the MPA frames: octets, and where what is. */
    DIRECT_DATA_LEN = 56,
    DIRECT_AT_REASON = 5,
    DIRECT_AT_FLAGS = 6,
    DIRECT_AT_FROM_QPN = 8,
    DIRECT_AT_TO_QPN = 12,
    DIRECT_AT_PSN = 16,
    DIRECT_AT_FROM_GID = 24,
    DIRECT_AT_TO_GID = 40,

    DIRECT_EXTENSIONS = 1,      /* flag: messages of RFC 7306 */

    DIRECT_REASON_NO_QP = 1,
    DIRECT_REASON_BUSY = 2,
    DIRECT_REASON_MISMATCH = 3,
    DIRECT_REASON_NOT_UNDERSTOOD = 4,

    /* Addresses. */
    OURS = 1,
    PEERS = 2,
    STRANGERS = 3,

    FOR_EVER = 0,
    TIMEOUT_16 = 16,            /* 4.096 us * 2^16: 268 ms */
    DIRECT_LENGTH = 300,        /* of a message */
};

/* Notes: TO of a Write of no octets to STag 0. */
#define DIRECT_NOTE_DELIVERED   (1ULL << 56)
#define DIRECT_NOTE_RNR_RETRY   (2ULL << 56)

/* ---------------------------------------------------------------- commands */

struct rnic_admin_sqe direct_connect_command(const RnicQp *qp, unsigned local,
                                             unsigned remote,
                                             uint32_t peer_qpn,
                                             uint32_t rq_psn);
struct rnic_admin_sqe direct_send_command(const RnicQp *qp, uint32_t sq_psn,
                                          uint8_t timeout, uint8_t retries);
/* RTR */
void direct_to_rtr(Connection *c, unsigned local, unsigned remote,
                   uint32_t peer_qpn, uint32_t rq_psn);
/* RTS */
void direct_to_rts(Connection *c, uint32_t sq_psn, uint8_t timeout,
                   uint8_t retries);
/* RESET, as a driver does it. */
void direct_to_idle(Connection *c);

/* ------------------------------------------------------------- two devices */

typedef struct DirectPair {
    Connection *a;              /* at OURS */
    Connection *b;              /* at PEERS */
} DirectPair;

/* A QP of each of two devices. */
DirectPair direct_pair_up(void);
void direct_pair_free(DirectPair *p);
/* RTR of an end; the other expects what to_rts() with 0x222 (a), 0x111 (b) sends. */
void direct_pair_a_rtr(DirectPair *p);
void direct_pair_b_rtr(DirectPair *p);
/* Both ends to RTS. */
void direct_pair_connect(DirectPair *p);

/* A Send of @from whose receive is posted by now, or not. */
void direct_deliver(Connection *from, Connection *to, uint64_t wr_id,
                    bool post_receive);
/* Octets of @from's buffer to @to's, and of @to's to @from's. */
void direct_write_and_read(Connection *from, Connection *to);
/* No completion, no event. */
void direct_assert_quiet(Connection *c);
/* Both ways, everything; nothing but completions tells the guest. */
void direct_assert_works(DirectPair *p);
/* The WR completes with RETRY_EXCEEDED, and the QP goes to Error. */
void direct_expect_retry_exceeded(Connection *c, uint64_t wr_id);

/* ------------------------------------------ a peer that the test speaks for */

WireMpa direct_peers_request(Connection *c, uint32_t peer_qpn, uint32_t psn);
/* Accept the device's attempt, and check its Request. */
WirePeer *direct_dialed(Connection *c, int listener, uint32_t peer_qpn,
                        uint32_t psn);
WireMpa direct_peers_reply(Connection *c, uint32_t peer_qpn, uint32_t psn);
/* The device's own frame has this reason, or zero and what it can do. */
void direct_assert_data(Connection *c, const WireMpa *mpa, uint32_t peer_qpn,
                        uint32_t psn, uint8_t reason);

/* So many Sends and Writes since the stream began are delivered. */
void direct_put_delivered(WirePeer *peer, uint64_t messages);
void direct_get_delivered(WirePeer *peer, uint64_t messages);
/* The first Send each way; the RTR, if there was one, has been read. */
void direct_exchange(Connection *c, WirePeer *peer);
/* To the QP of @c; the peer has the QP 0xabcdef. */
WirePeer *direct_meet_dial(Connection *c, int listener);

#endif
