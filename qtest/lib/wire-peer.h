/*
 * A peer on the wire: a socket that speaks MPA, DDP and RDMAP by hand
 *
 * Encoded and decoded here from the layouts in RFC 5040, 5041, 5044 and 6581,
 * on purpose without a line of the device's protocol engine, so that a mistake
 * there is not repeated here. It can also say everything that is wrong.
 *
 * It is on the TCP fabric's map=loopback: guest a.b.c.d is host 127.b.c.d.
 * Addresses are chosen by process id, so that tests can run at the same time. With
 * RNIC_TEST_FABRIC=unix in the environment the same tests run over the UNIX
 * fabric, in a directory of their own; with unix-rings, the peer sends and
 * receives by rings in shared memory where it may.
 *
 * Functions that wait fail the test when nothing comes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_WIRE_PEER_H
#define RNIC_QTEST_WIRE_PEER_H

#include "tests/qtest/libqtest.h"
#include "wire-ring.h"

#define WIRE_MAX_ULPDU 65535
#define WIRE_MAX_FPDU (WIRE_MAX_ULPDU + 2 + 3 + 4 + 1024)

enum {
    WIRE_WRITE = 0,
    WIRE_READ_REQUEST = 1,
    WIRE_READ_RESPONSE = 2,
    WIRE_SEND = 3,
    WIRE_SEND_INVALIDATE = 4,
    WIRE_SEND_SE = 5,
    WIRE_SEND_SE_INVALIDATE = 6,
    WIRE_TERMINATE = 7,
    /* RFC 7306 */
    WIRE_IMMEDIATE = 8,
    WIRE_IMMEDIATE_SE = 9,
    WIRE_ATOMIC_REQUEST = 10,
    WIRE_ATOMIC_RESPONSE = 11,
};

/* Private data octets of RFC 6581, host order. */
#define WIRE_MPA2_A 0x8000      /* in ird: peer-to-peer */
#define WIRE_MPA2_B 0x4000      /* in ird: RTR by Send */
#define WIRE_MPA2_C 0x8000      /* in ord: RTR by Write */
#define WIRE_MPA2_D 0x4000      /* in ord: RTR by Read */
#define WIRE_MPA2_VALUE 0x3fff

typedef struct WireMpa {
    bool reply;
    bool markers;               /* M */
    bool crc;                   /* C */
    bool reject;                /* R */
    bool enhanced;              /* S: ird and ord precede the data */
    uint8_t revision;
    uint16_t ird;               /* with the flags A, B */
    uint16_t ord;               /* with the flags C, D */
    uint16_t length;            /* of data */
    uint8_t data[512];
} WireMpa;

/* A DDP segment, host order. */
typedef struct WireSegment {
    uint8_t opcode;
    bool tagged;
    bool last;
    uint8_t ddp_version;        /* 1 */
    uint8_t rdmap_version;      /* 1 */
    uint8_t reserved;           /* DDP's four bits << 2 | RDMAP's two */
    uint32_t stag;              /* tagged: sink; untagged: to invalidate */
    uint64_t to;
    uint32_t qn;
    uint32_t msn;
    uint32_t mo;
    uint32_t length;            /* of payload, RDMAP header included */
    uint8_t *payload;           /* g_free() in a received one */
} WireSegment;

typedef struct WireRead {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size;
    uint32_t source_stag;
    uint64_t source_to;
} WireRead;

typedef struct WirePeer {
    int fd;
    QTestState *qts;            /* to let the guest's time go on meanwhile */
    bool crc;                   /* check, and send a true one */
    bool markers_in;            /* the device inserts them */
    bool markers_out;           /* we do */
    bool bad_crc;               /* send a wrong one */
    bool bad_marker;            /* send wrong ones */
    uint64_t in_position;       /* octets of the FPDU stream, markers too */
    uint64_t out_position;
    uint32_t send_msn;          /* of the next message we send, by queue */
    uint32_t read_msn;
    uint16_t segment_size;      /* payload octets of our segments */
    uint16_t last_ulpdu_length; /* of the FPDU received last */
    bool rings;                 /* offer, and send by one when it may be */
    uint32_t ring_size;         /* 0: the smallest there is */
    bool offered;
    bool offered_to;
    WireRing *ring_out;         /* NULL: the socket */
    WireRing *ring_in;
} WirePeer;

/* ------------------------------------------------------------------ fabric */

/* The directory of the UNIX fabric's sockets; NULL: this is the TCP fabric. */
const char *wire_directory(void);

/* DIR/a.b.c.d:port of wire_guest_ip(@host); to be freed. */
char *wire_socket_path(unsigned host, uint16_t port);

/* --------------------------------------------------------------- addresses */

/* A guest address of this process, @host 1 to 250, and its host address. */
uint32_t wire_guest_ip(unsigned host);
uint32_t wire_host_ip(unsigned host);

/* A port that nothing listened on a moment ago, at wire_host_ip(@host). */
uint16_t wire_free_port(unsigned host);

/* -------------------------------------------------------------- connecting */

/* Listen at wire_host_ip(@host); *@port is chosen. */
int wire_listen(unsigned host, uint16_t *port);

/* The same at @port. */
int wire_listen_at(unsigned host, uint16_t port);

/* The connection the device makes. */
WirePeer *wire_accept(QTestState *qts, int listener);

/*
 * Connect to the device, from wire_host_ip(@from) to @to.  It may have turned the
 * connection away meanwhile, see wire_end().
 */
WirePeer *wire_connect(QTestState *qts, unsigned from, unsigned to,
                       uint16_t port);

/* Close (FIN, or RST if unread octets wait), and free. */
void wire_close(WirePeer *peer);
/* FIN, can still read. */
void wire_shutdown(WirePeer *peer);
/* RST, and free. */
void wire_abort(WirePeer *peer);

/* ------------------------------------------------------------------ octets */

void wire_put(WirePeer *peer, const void *data, size_t length);
/* As wire_put(), but a connection that breaks meanwhile is no failure. */
bool wire_try_put(WirePeer *peer, const void *data, size_t length);
void wire_get(WirePeer *peer, void *data, size_t length);

/* From now on what any peer puts and gets is appended to these; NULL: no longer. */
void wire_record(GByteArray *put, GByteArray *got);

typedef enum WireEnd {
    WIRE_FIN,
    WIRE_RST,
    WIRE_DATA,
} WireEnd;

/* How the stream goes on: data (not consumed), FIN or RST. */
WireEnd wire_end(WirePeer *peer);
/* FIN or RST is all that comes. */
void wire_expect_end(WirePeer *peer);
/* Nothing comes for a while. */
void wire_expect_silence(WirePeer *peer);

/* --------------------------------------------------------------------- MPA */

WireMpa wire_mpa_request(void);
WireMpa wire_mpa_reply(const WireMpa *request);
/* Returns octets, at most 20 + 4 + 512. */
size_t wire_mpa_encode(const WireMpa *mpa, uint8_t *out);
void wire_mpa_put(WirePeer *peer, const WireMpa *mpa);
void wire_mpa_get(WirePeer *peer, WireMpa *mpa);

uint32_t wire_crc32c(const void *data, size_t length);

/* ------------------------------------------------------------ FPDUs, DDP */

/* Wrap @ulpdu and send it. */
void wire_put_ulpdu(WirePeer *peer, const void *ulpdu, size_t length);
/* The same octets, without sending; returns their number. */
size_t wire_encode_fpdu(WirePeer *peer, const void *ulpdu, size_t length,
                        uint8_t *out);
size_t wire_encode_segment(const WireSegment *segment, uint8_t *ulpdu);
void wire_put_segment(WirePeer *peer, const WireSegment *segment);
/* As wire_put_segment(), of up to 2000 octets, but see wire_try_put(). */
bool wire_try_put_segment(WirePeer *peer, const WireSegment *segment);

/*
 * The next FPDU; pad, CRC (if in use) and markers are checked as RFC 5044
 * says, the header as RFC 5041 and 5040 say for every message.
 */
void wire_get_segment(WirePeer *peer, WireSegment *segment);

/* ---------------------------------------------------------------- messages */

void wire_put_send(WirePeer *peer, uint8_t opcode, uint32_t stag,
                   const void *data, uint32_t length);
void wire_put_write(WirePeer *peer, uint32_t stag, uint64_t to,
                    const void *data, uint32_t length);
void wire_put_read_request(WirePeer *peer, const WireRead *read);
void wire_put_read_response(WirePeer *peer, uint32_t stag, uint64_t to,
                            const void *data, uint32_t length);
void wire_put_terminate(WirePeer *peer, uint16_t code);

/*
 * A whole message of the kind: @data has room for @size octets. Returns its
 * length. Checks that its segments belong together.
 */
uint32_t wire_get_send(WirePeer *peer, uint8_t opcode, uint32_t msn,
                       void *data, uint32_t size);
uint32_t wire_get_tagged(WirePeer *peer, uint8_t opcode, uint32_t stag,
                         uint64_t to, void *data, uint32_t size);
void wire_get_read_request(WirePeer *peer, uint32_t msn, WireRead *read);

/* A received Terminate. */
typedef struct WireTerminate {
    uint16_t code;              /* 0xLTCC */
    uint8_t flags;              /* M 0x80, D 0x40, R 0x20 */
    uint16_t segment_length;
    uint8_t ddp_length;
    uint8_t ddp[18];
    uint8_t read_length;
    uint8_t read[28];
    uint8_t octets[64];         /* from the layer on */
    uint8_t length;
} WireTerminate;

/* The next segment; fails the test if the stream ends, or something precedes it. */
void wire_get_terminate(WirePeer *peer, WireTerminate *t);
/* Takes and forgets what precedes it: only where the device may send that. */
void wire_skip_to_terminate(WirePeer *peer, WireTerminate *t);
/* wire_get_terminate(); fails unless the code is this; then FIN or RST. */
WireTerminate wire_expect_terminate(WirePeer *peer, uint16_t code);

#endif
