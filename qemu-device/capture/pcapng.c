/*
 * rnic: blocks of a pcapng file
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "pcapng.h"

enum {
    BLOCK_SECTION = 0x0a0d0d0a,
    BLOCK_INTERFACE = 1,
    BLOCK_STATISTICS = 5,
    BYTE_ORDER_MAGIC = 0x1a2b3c4d,
    LINKTYPE_ETHERNET = 1,

    OPTION_END = 0,
    OPTION_COMMENT = 1,
    OPTION_SECTION_APPLICATION = 4,
    OPTION_INTERFACE_NAME = 2,
    OPTION_INTERFACE_TIME = 9,
    OPTION_PACKET_FLAGS = 2,
    OPTION_RECEIVED = 4,
    OPTION_DROPPED = 5,

    OPTION_HEAD = 4,
    BLOCK_TAIL = 4,             /* the total length again */
    NANOSECONDS = 9,            /* 10^-9 */
};

/* All in a block begins at a multiple of 4. */
static size_t pcapng_padded(size_t len)
{
    return ROUND_UP(len, 4);
}

static size_t pcapng_option(uint8_t *out, uint16_t code, const void *value,
                            size_t len)
{
    stw_le_p(out, code);
    stw_le_p(out + 2, len);
    memset(out + OPTION_HEAD, 0, pcapng_padded(len));
    memcpy(out + OPTION_HEAD, value, len);
    return OPTION_HEAD + pcapng_padded(len);
}

static size_t pcapng_option64(uint8_t *out, uint16_t code, uint64_t value)
{
    uint8_t octets[8];

    stq_le_p(octets, value);
    return pcapng_option(out, code, octets, sizeof(octets));
}

static size_t pcapng_option_end(uint8_t *out)
{
    return pcapng_option(out, OPTION_END, "", 0);
}

/* The block at @out has its body, up to @len.  Returns its octets. */
static size_t pcapng_finish(uint8_t *out, uint32_t type, size_t len)
{
    len += BLOCK_TAIL;
    stl_le_p(out, type);
    stl_le_p(out + RNIC_PCAPNG_AT_LENGTH, len);
    stl_le_p(out + len - BLOCK_TAIL, len);
    return len;
}

static size_t pcapng_section(uint8_t *out)
{
    static const char application[] = "QEMU rnic";
    size_t at = 24;

    stl_le_p(out + 8, BYTE_ORDER_MAGIC);
    stw_le_p(out + 12, 1);              /* version 1.0 */
    stw_le_p(out + 14, 0);
    stq_le_p(out + 16, UINT64_MAX);     /* the section's length: not said */
    at += pcapng_option(out + at, OPTION_SECTION_APPLICATION, application,
                        strlen(application));
    at += pcapng_option_end(out + at);
    return pcapng_finish(out, BLOCK_SECTION, at);
}

static size_t pcapng_interface(uint8_t *out, uint32_t snaplen)
{
    const uint8_t resolution = NANOSECONDS;
    size_t at = 16;

    stw_le_p(out + 8, LINKTYPE_ETHERNET);
    stw_le_p(out + 10, 0);
    stl_le_p(out + 12, snaplen);
    at += pcapng_option(out + at, OPTION_INTERFACE_NAME, "rnic", 4);
    at += pcapng_option(out + at, OPTION_INTERFACE_TIME, &resolution, 1);
    at += pcapng_option_end(out + at);
    return pcapng_finish(out, BLOCK_INTERFACE, at);
}

size_t rnic_pcapng_head(uint8_t *out, uint32_t snaplen)
{
    size_t len = pcapng_section(out);

    return len + pcapng_interface(out + len, snaplen);
}

static size_t pcapng_comment_len(const RnicPcapngPacket *p)
{
    return p->comment ? MIN(strlen(p->comment), RNIC_PCAPNG_COMMENT_MAX) : 0;
}

size_t rnic_pcapng_packet_size(const RnicPcapngPacket *p)
{
    size_t options = 0;

    if (p->comment) {
        options += OPTION_HEAD + pcapng_padded(pcapng_comment_len(p));
    }
    if (p->way != RNIC_PCAPNG_NO_WAY) {
        options += OPTION_HEAD + 4;
    }
    if (options) {
        options += OPTION_HEAD;
    }
    return RNIC_PCAPNG_AT_DATA + pcapng_padded(p->captured) + options +
           BLOCK_TAIL;
}

static size_t pcapng_packet_options(uint8_t *out, const RnicPcapngPacket *p)
{
    size_t at = 0;
    uint8_t flags[4];

    if (p->comment) {
        at += pcapng_option(out, OPTION_COMMENT, p->comment,
                            pcapng_comment_len(p));
    }
    if (p->way != RNIC_PCAPNG_NO_WAY) {
        stl_le_p(flags, p->way);
        at += pcapng_option(out + at, OPTION_PACKET_FLAGS, flags,
                            sizeof(flags));
    }
    if (at) {
        at += pcapng_option_end(out + at);
    }
    return at;
}

void rnic_pcapng_packet(uint8_t *out, const RnicPcapngPacket *p)
{
    size_t padded = pcapng_padded(p->captured);
    size_t at = RNIC_PCAPNG_AT_DATA + padded;

    stl_le_p(out + 8, 0);               /* the first interface */
    stl_le_p(out + 12, p->ns >> 32);
    stl_le_p(out + 16, (uint32_t)p->ns);
    stl_le_p(out + RNIC_PCAPNG_AT_CAPTURED, p->captured);
    stl_le_p(out + RNIC_PCAPNG_AT_ORIGINAL, p->original);
    memset(out + RNIC_PCAPNG_AT_DATA + p->captured, 0, padded - p->captured);
    at += pcapng_packet_options(out + at, p);
    pcapng_finish(out, RNIC_PCAPNG_PACKET, at);
}

size_t rnic_pcapng_statistics(uint8_t *out, uint64_t ns, uint64_t received,
                              uint64_t dropped, uint64_t truncated)
{
    char text[64];
    size_t at = 20;

    stl_le_p(out + 8, 0);
    stl_le_p(out + 12, ns >> 32);
    stl_le_p(out + 16, (uint32_t)ns);
    if (truncated) {
        at += pcapng_option(out + at, OPTION_COMMENT, text,
                            snprintf(text, sizeof(text),
                                     "capture-rate: packets cut: %" PRIu64,
                                     truncated));
    }
    at += pcapng_option64(out + at, OPTION_RECEIVED, received);
    at += pcapng_option64(out + at, OPTION_DROPPED, dropped);
    at += pcapng_option_end(out + at);
    return pcapng_finish(out, BLOCK_STATISTICS, at);
}
