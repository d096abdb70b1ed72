/*
 * Reads what a device has captured: a pcapng file of Ethernet frames
 *
 * After draft-ietf-opsawg-pcapng and the RFCs of IP and TCP, without a line of the
 * device's. A file that is not as they say fails the test: lengths, checksums, times
 * that go back, blocks behind the statistics.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_CAPTURE_FILE_H
#define RNIC_QTEST_CAPTURE_FILE_H

enum {
    CAPTURE_FIN = 0x01,
    CAPTURE_SYN = 0x02,
    CAPTURE_RST = 0x04,
    CAPTURE_ACK = 0x10,
};

typedef struct CapturePacket {
    uint64_t ns;
    uint32_t captured;
    uint32_t original;
    const uint8_t *frame;
    char *comment;              /* NULL: none */
    bool sent;                  /* outbound */

    bool tcp;                   /* else a note, whose text is the comment */
    uint32_t from_ip, to_ip;    /* IPv4 only */
    uint16_t from_port, to_port;
    uint32_t seq, ack;
    uint8_t flags;
    uint32_t length;            /* of the payload */
    const uint8_t *payload;
    uint32_t kept;              /* octets of it that are in the file */
} CapturePacket;

typedef struct CaptureFile {
    GByteArray *octets;
    GArray *packets;            /* CapturePacket */
    uint32_t snaplen;
    bool complete;              /* it has its statistics: */
    uint64_t received, dropped;
    unsigned cut;               /* packets, by capture-rate */
} CaptureFile;

/* Fails the test, too, if packets are cut by capture-rate. */
CaptureFile *capture_file_read(const char *path);
CaptureFile *capture_file_read_cut(const char *path);
/* The same of octets that came by another way. */
CaptureFile *capture_file_parse(const uint8_t *octets, size_t length);
void capture_file_free(CaptureFile *file);

static inline const CapturePacket *capture_packet(const CaptureFile *file,
                                                  unsigned i)
{
    return &g_array_index(file->packets, CapturePacket, i);
}

/* How many packets have a comment with @text in it. */
unsigned capture_comments(const CaptureFile *file, const char *text);

/* One direction of the file's only connection. */
typedef struct CaptureStream {
    GByteArray *octets;         /* without those that are missing */
    GArray *segments;           /* size_t: where each begins, in octets */
    GArray *gaps;               /* the same of those with a gap before them */
    uint64_t missing;           /* octets in gaps, as sequence numbers say */
    uint64_t told;              /* as comments say */
    unsigned syns, fins, resets;
    uint32_t first, next;       /* sequence number behind SYN, and of the end */
} CaptureStream;

CaptureStream *capture_stream(const CaptureFile *file, bool sent);
void capture_stream_free(CaptureStream *stream);

#endif
