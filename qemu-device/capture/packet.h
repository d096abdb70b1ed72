/*
 * rnic: the headers that a capture makes up, Ethernet, IP and TCP
 *
 * Octets out, nothing else.  A pair of IPv4-mapped addresses makes IPv4.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_PACKET_H
#define HW_RNIC_CAPTURE_PACKET_H

enum {
    RNIC_PACKET_FIN = 0x01,
    RNIC_PACKET_SYN = 0x02,
    RNIC_PACKET_RST = 0x04,
    RNIC_PACKET_PSH = 0x08,
    RNIC_PACKET_ACK = 0x10,

    RNIC_PACKET_HEADERS_MAX = 14 + 40 + 20 + 8,
    /* An Ethernet type for local experiments (IEEE 802): a note, no packet. */
    RNIC_PACKET_NOTE_TYPE = 0x88b5,
    RNIC_PACKET_ETHERNET_LEN = 14,
    RNIC_PACKET_ETHERNET_LEAST = 60,    /* without FCS */
};

typedef struct RnicPacketEnd {
    uint8_t mac[6];
    uint8_t ip[16];             /* IPv6, or IPv4-mapped */
    uint16_t port;
} RnicPacketEnd;

typedef struct RnicPacket {
    const RnicPacketEnd *from;
    const RnicPacketEnd *to;
    uint32_t seq;
    uint32_t ack;
    uint8_t flags;              /* with SYN there are TCP options */
    size_t payload_len;         /* at most what IP's length can say */
} RnicPacket;

/* Octets of the headers of @p, put to @out; the checksum of TCP is zero. */
size_t rnic_packet_headers(const RnicPacket *p, uint8_t *out);

/* The header of a frame that is no packet. */
void rnic_packet_note_header(const uint8_t mac[6], uint8_t *out);

/* Fill in the checksum of TCP; nothing if @frame is no whole TCP packet. */
void rnic_packet_checksum(uint8_t *frame, size_t len);

#endif /* HW_RNIC_CAPTURE_PACKET_H */
