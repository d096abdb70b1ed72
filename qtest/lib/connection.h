/*
 * A QP of the device connected to a wire peer, ready for a test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_CONNECTION_H
#define RNIC_QTEST_CONNECTION_H

#include "librnic.h"
#include "wire-peer.h"

#define CONNECTION_COOKIE 0xc00c1e0123456789ULL
#define CONNECTION_MR_SIZE (256 * 1024)
/* What Writes and Reads of connection_wr() name at the peer. */
#define CONNECTION_REMOTE_STAG 0x00beef01

typedef struct Connection {
    Rnic *r;
    RnicCq send_cq;
    RnicCq recv_cq;
    RnicQp qp;
    RnicMr mr;                  /* all rights, CONNECTION_MR_SIZE octets */
    WirePeer *peer;
    WireMpa request;            /* what was agreed on */
    WireMpa reply;
} Connection;

typedef struct ConnectionOptions {
    const char *properties;     /* more properties of the device */
    const char *arguments;      /* more options of QEMU */
    uint64_t features_off;      /* not to be accepted */
    bool passive;               /* the peer connects */
    bool plain;                 /* MPA revision 1 */
    bool crc;                   /* the peer asks for it */
    bool markers_in;            /* ... for markers from the device */
    uint16_t ird, ord;          /* of the QP; 0: 4 */
    bool no_reads;              /* IRD and ORD 0 */
    uint16_t sq_depth, rq_depth;
    uint32_t cq_depth;          /* 0: 1024 */
    uint32_t enables;           /* instead of reads and writes; 0: those */
    uint8_t max_sge;
    bool one_cq;                /* recv_cq is send_cq */
    RnicCq *cq;                 /* of both queues, instead of the QP's own */
    uint32_t pd;                /* 0: the device's first */
    const RnicSrq *srq;
    uint32_t rq_limit;
} ConnectionOptions;

/* A device, a QP in Idle and a registered buffer; no peer yet. */
Connection *connection_prepare(const ConnectionOptions *options);

/* The same on a device that is up. */
Connection *connection_prepare_on(Rnic *r, const ConnectionOptions *options);

/* Another QP of the same device, with CQs and a buffer of its own. */
Connection *connection_prepare_second(Connection *first,
                                      const ConnectionOptions *options);

/* From Idle to RTS. */
void connection_establish(Connection *c, const ConnectionOptions *options);

/* The same; the QP may have left RTS at once, for what was posted in Idle. */
void connection_connect(Connection *c, const ConnectionOptions *options);

/* From Idle to RTS, two QPs of one device, with each other: @a connects. */
void connection_pair(Connection *a, Connection *b);

/* Both. NULL options: the device connects, no CRC. */
Connection *connection_new(const ConnectionOptions *options);

/* Closes the peer, if there is one, and ends the device. */
void connection_free(Connection *c);
/* Of connection_prepare_second(): leaves the device. */
void connection_free_second(Connection *c);

/*
 * The peer goes; the QP is brought back to Idle from wherever its stream's end
 * leaves it; CQEs and events still there are taken and forgotten.
 */
void connection_recycle(Connection *c);
/* CQEs and events that are there are taken and forgotten. */
void connection_drain_events(Connection *c);

/* The peer's octets of the buffer. */
void connection_fill(Connection *c, uint64_t offset, const void *data,
                     uint32_t length);
void connection_peek(Connection *c, uint64_t offset, void *data,
                     uint32_t length);

/* One SGE of the buffer; signaled. */
RnicWr connection_wr(Connection *c, uint8_t opcode, uint64_t wr_id,
                     uint64_t offset, uint32_t length);
void connection_post(Connection *c, uint8_t opcode, uint64_t wr_id,
                     uint64_t offset, uint32_t length);
/* A Write to CONNECTION_REMOTE_STAG arrives; returns its length. */
uint32_t connection_get_write(Connection *c, uint64_t to, void *data,
                              uint32_t size);
void connection_recv(Connection *c, uint64_t wr_id, uint64_t offset,
                     uint32_t length);

#endif
