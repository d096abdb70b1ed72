/*
 * rnic: the headers that a capture makes up, Ethernet, IP and TCP
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "packet.h"

enum {
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd,
    IPV4_LEN = 20,
    IPV6_LEN = 40,
    TCP_LEN = 20,
    SYN_OPTIONS_LEN = 8,
    PROTOCOL_TCP = 6,
    HOPS = 64,
    DONT_FRAGMENT = 0x4000,
    MSS = 65475,                /* IPv6: 65535 - 40 - 20 */
    WINDOW = 65535,
    WINDOW_SHIFT = 14,          /* the largest (RFC 7323) */
    TCP_AT_CHECKSUM = 16,
};

static bool packet_is_mapped(const uint8_t ip[16])
{
    static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

    return memcmp(ip, prefix, sizeof(prefix)) == 0;
}

static bool packet_is_ipv4(const RnicPacket *p)
{
    return packet_is_mapped(p->from->ip) && packet_is_mapped(p->to->ip);
}

static uint16_t packet_fold(uint64_t total)
{
    while (total >> 16) {
        total = (total & 0xffff) + (total >> 16);
    }
    return total;
}

/*
 * The Internet checksum of @len octets, without the complement. All that is captured goes
 * through here, so it takes 32 bits at a time: the sum of words of any size and byte order
 * gives the same 16 bits (RFC 1071, 2).
 */
static uint16_t packet_sum(uint32_t sum, const uint8_t *octets, size_t len)
{
    uint8_t rest[4] = {};
    uint64_t total = 0;

    for (; len >= 4; octets += 4, len -= 4) {
        total += (uint32_t)ldl_he_p(octets);
    }
    memcpy(rest, octets, len);
    total += (uint32_t)ldl_he_p(rest);
    return packet_fold(sum + be16_to_cpu(packet_fold(total)));
}

static size_t packet_tcp_len(const RnicPacket *p)
{
    return TCP_LEN + (p->flags & RNIC_PACKET_SYN ? SYN_OPTIONS_LEN : 0);
}

static size_t packet_ethernet(const uint8_t *to, const uint8_t *from,
                              uint16_t type, uint8_t *out)
{
    memcpy(out, to, 6);
    memcpy(out + 6, from, 6);
    stw_be_p(out + 12, type);
    return RNIC_PACKET_ETHERNET_LEN;
}

static size_t packet_ipv4(const RnicPacket *p, uint8_t *out)
{
    memset(out, 0, IPV4_LEN);
    out[0] = 0x45;
    stw_be_p(out + 2, IPV4_LEN + packet_tcp_len(p) + p->payload_len);
    stw_be_p(out + 6, DONT_FRAGMENT);
    out[8] = HOPS;
    out[9] = PROTOCOL_TCP;
    memcpy(out + 12, p->from->ip + 12, 4);
    memcpy(out + 16, p->to->ip + 12, 4);
    stw_be_p(out + 10, ~packet_sum(0, out, IPV4_LEN));
    return IPV4_LEN;
}

static size_t packet_ipv6(const RnicPacket *p, uint8_t *out)
{
    memset(out, 0, IPV6_LEN);
    out[0] = 0x60;
    stw_be_p(out + 4, packet_tcp_len(p) + p->payload_len);
    out[6] = PROTOCOL_TCP;
    out[7] = HOPS;
    memcpy(out + 8, p->from->ip, 16);
    memcpy(out + 24, p->to->ip, 16);
    return IPV6_LEN;
}

/* Maximum segment size, and a window that is never full. */
static void packet_syn_options(uint8_t *out)
{
    out[0] = 2;
    out[1] = 4;
    stw_be_p(out + 2, MSS);
    out[4] = 1;
    out[5] = 3;
    out[6] = 3;
    out[7] = WINDOW_SHIFT;
}

static size_t packet_tcp(const RnicPacket *p, uint8_t *out)
{
    size_t len = packet_tcp_len(p);

    memset(out, 0, len);
    stw_be_p(out, p->from->port);
    stw_be_p(out + 2, p->to->port);
    stl_be_p(out + 4, p->seq);
    stl_be_p(out + 8, p->flags & RNIC_PACKET_ACK ? p->ack : 0);
    out[12] = len / 4 << 4;
    out[13] = p->flags;
    stw_be_p(out + 14, WINDOW);
    if (p->flags & RNIC_PACKET_SYN) {
        packet_syn_options(out + TCP_LEN);
    }
    return len;
}

size_t rnic_packet_headers(const RnicPacket *p, uint8_t *out)
{
    bool ipv4 = packet_is_ipv4(p);
    size_t len = packet_ethernet(p->to->mac, p->from->mac,
                                 ipv4 ? TYPE_IPV4 : TYPE_IPV6, out);

    len += ipv4 ? packet_ipv4(p, out + len) : packet_ipv6(p, out + len);
    return len + packet_tcp(p, out + len);
}

void rnic_packet_note_header(const uint8_t mac[6], uint8_t *out)
{
    packet_ethernet(mac, mac, RNIC_PACKET_NOTE_TYPE, out);
}

void rnic_packet_checksum(uint8_t *frame, size_t len)
{
    uint8_t *ip = frame + RNIC_PACKET_ETHERNET_LEN;
    bool ipv4;
    size_t ip_len, addresses, tcp_len;
    uint32_t sum;

    if (len < RNIC_PACKET_ETHERNET_LEN + IPV4_LEN + TCP_LEN ||
        lduw_be_p(frame + 12) == RNIC_PACKET_NOTE_TYPE) {
        return;
    }
    ipv4 = lduw_be_p(frame + 12) == TYPE_IPV4;
    ip_len = ipv4 ? IPV4_LEN : IPV6_LEN;
    if (len < RNIC_PACKET_ETHERNET_LEN + ip_len + TCP_LEN) {
        return;
    }
    addresses = ipv4 ? 8 : 32;
    tcp_len = len - RNIC_PACKET_ETHERNET_LEN - ip_len;
    sum = packet_sum(PROTOCOL_TCP + tcp_len, ip + ip_len - addresses,
                     addresses);
    sum = packet_sum(sum, ip + ip_len, tcp_len);
    stw_be_p(ip + ip_len + TCP_AT_CHECKSUM, ~sum);
}
