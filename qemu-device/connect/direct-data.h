/*
 * rnic: the private data by which two devices that connect QPs directly agree
 *
 * Part of the MPA Request and Reply, in network order:
 *
 *     0   4   "RNDC"
 *     4   1   version, 2
 *     5   1   reason (RnicDirectReason), zero unless the Reply rejects
 *     6   1   flags (RNIC_DIRECT_EXTENSIONS), zero in a Reply that rejects
 *     7   1   reserved
 *     8   4   QP number of the sender of the frame
 *     12  4   QP number of its receiver
 *     16  4   PSN that the sender expects first
 *     20  4   reserved
 *     24  16  GID of the sender
 *     40  16  GID of the receiver
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_DIRECT_DATA_H
#define HW_RNIC_DIRECT_DATA_H

#include "hw/rnic/iwarp/mpa-startup.h"

/* Flags: what the sender of the frame can do. */
enum {
    RNIC_DIRECT_EXTENSIONS = 1, /* receive messages of RFC 7306 */
};

/* Why a Request is rejected. */
typedef enum RnicDirectReason {
    RNIC_DIRECT_ACCEPTED = 0,
    RNIC_DIRECT_NO_QP = 1,      /* of this number, that waits for a peer */
    RNIC_DIRECT_BUSY = 2,       /* the other end's attempt wins */
    RNIC_DIRECT_MISMATCH = 3,   /* it waits for another GID or QP number */
    RNIC_DIRECT_NOT_UNDERSTOOD = 4,
} RnicDirectReason;

/* Host order. */
typedef struct RnicDirectData {
    uint8_t reason;
    uint8_t flags;
    uint32_t from_qpn;
    uint32_t to_qpn;
    uint32_t psn;
    uint8_t from_gid[16];
    uint8_t to_gid[16];
} RnicDirectData;

/* Put @data into @frame, which has room for any private data. */
void rnic_direct_data_encode(const RnicDirectData *data, IwarpMpaFrame *frame);

/* False: the private data of @frame is something else. */
bool rnic_direct_data_decode(const IwarpMpaFrame *frame, RnicDirectData *data);

/* A stable name of @reason, which may be any number, for traces. */
const char *rnic_direct_reason_name(unsigned reason);

#endif /* HW_RNIC_DIRECT_DATA_H */
