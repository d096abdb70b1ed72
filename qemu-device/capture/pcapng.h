/*
 * rnic: blocks of a pcapng file
 *
 * After draft-ietf-opsawg-pcapng, little-endian, one interface of Ethernet frames
 * with times in nanoseconds.  Octets out, nothing else: no file, no state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_PCAPNG_H
#define HW_RNIC_CAPTURE_PCAPNG_H

enum {
    RNIC_PCAPNG_PACKET = 6,     /* block type */

    /* Where type and total length of a block are, and a packet's lengths, data. */
    RNIC_PCAPNG_AT_LENGTH = 4,
    RNIC_PCAPNG_AT_CAPTURED = 20,
    RNIC_PCAPNG_AT_ORIGINAL = 24,
    RNIC_PCAPNG_AT_DATA = 28,

    RNIC_PCAPNG_HEAD_MAX = 256, /* of the blocks below */
    RNIC_PCAPNG_STATISTICS_MAX = 160,
    RNIC_PCAPNG_COMMENT_MAX = 300,      /* octets that are kept of one */
};

typedef enum RnicPcapngWay {
    RNIC_PCAPNG_NO_WAY,
    RNIC_PCAPNG_INBOUND,
    RNIC_PCAPNG_OUTBOUND,
} RnicPcapngWay;

typedef struct RnicPcapngPacket {
    uint64_t ns;                /* since 1970 */
    uint32_t captured;          /* octets in the file */
    uint32_t original;
    RnicPcapngWay way;
    const char *comment;        /* NULL: none */
} RnicPcapngPacket;

/*
 * Section header and interface description.  @snaplen 0: no limit.  Returns octets,
 * at most RNIC_PCAPNG_HEAD_MAX.
 */
size_t rnic_pcapng_head(uint8_t *out, uint32_t snaplen);

/* Octets of the block of @p. */
size_t rnic_pcapng_packet_size(const RnicPcapngPacket *p);

/*
 * The block of @p but for its data, which has been or will be put to
 * @out + RNIC_PCAPNG_AT_DATA.
 */
void rnic_pcapng_packet(uint8_t *out, const RnicPcapngPacket *p);

/*
 * Packets that came, those of them that are not in the file, and those that are there
 * with a part of their data, which a comment tells.  Returns octets, at most
 * RNIC_PCAPNG_STATISTICS_MAX.
 */
size_t rnic_pcapng_statistics(uint8_t *out, uint64_t ns, uint64_t received,
                              uint64_t dropped, uint64_t truncated);

#endif /* HW_RNIC_CAPTURE_PCAPNG_H */
