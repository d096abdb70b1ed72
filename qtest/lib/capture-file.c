/*
 * Reads what a device has captured: a pcapng file of Ethernet frames
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "capture-file.h"

enum {
    SECTION = 0x0a0d0d0a,
    INTERFACE = 1,
    STATISTICS = 5,
    ENHANCED_PACKET = 6,
    NOTE = 0x88b5,
    ETHERNET = 14,
    CUT = 256,                  /* octets of a packet beyond capture-rate */
};

/* ------------------------------------------------------------------ blocks */

/* The value of option @code among the @length octets at @options; NULL: none. */
static const uint8_t *find_option(const uint8_t *options, size_t length,
                                  uint16_t code, uint16_t *size)
{
    while (length) {
        uint16_t this = lduw_le_p(options);
        size_t all;

        g_assert_cmpuint(length, >=, 4);
        *size = lduw_le_p(options + 2);
        all = 4 + ROUND_UP(*size, 4);
        g_assert_cmpuint(all, <=, length);
        if (this == 0) {
            g_assert_cmpuint(length, ==, 4);
            return NULL;
        }
        if (this == code) {
            return options + 4;
        }
        options += all;
        length -= all;
    }
    return NULL;
}

static uint32_t sum(uint32_t from, const uint8_t *octets, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        from += i % 2 ? octets[i] : octets[i] << 8;
        from = (from & 0xffff) + (from >> 16);
    }
    return from;
}

static void read_tcp(CapturePacket *p)
{
    const uint8_t *ip = p->frame + ETHERNET;
    const uint8_t *tcp = ip + 20;
    uint32_t ip_length = lduw_be_p(ip + 2);
    uint32_t header = (tcp[12] >> 4) * 4;

    g_assert_cmphex(ip[0], ==, 0x45);
    g_assert_cmphex(sum(0, ip, 20), ==, 0xffff);
    g_assert_cmpint(ip[9], ==, IPPROTO_TCP);
    g_assert_cmpuint(p->original, ==, ETHERNET + ip_length);
    p->tcp = true;
    p->from_ip = ldl_be_p(ip + 12);
    p->to_ip = ldl_be_p(ip + 16);
    p->from_port = lduw_be_p(tcp);
    p->to_port = lduw_be_p(tcp + 2);
    p->seq = ldl_be_p(tcp + 4);
    p->ack = ldl_be_p(tcp + 8);
    p->flags = tcp[13];
    p->length = ip_length - 20 - header;
    p->payload = tcp + header;
    p->kept = p->captured - ETHERNET - 20 - header;
    if (p->captured == p->original) {
        uint32_t pseudo = sum(IPPROTO_TCP + ip_length - 20, ip + 12, 8);

        g_assert_cmphex(sum(pseudo, tcp, ip_length - 20), ==, 0xffff);
    }
}

static void read_note(CapturePacket *p)
{
    size_t length = strlen(p->comment);

    g_assert_cmpuint(p->captured, >=, 60);
    g_assert_cmpmem(p->frame + ETHERNET, length, p->comment, length);
}

static void read_packet(CaptureFile *file, const uint8_t *block, size_t length)
{
    CapturePacket p = {
        .ns = (uint64_t)(uint32_t)ldl_le_p(block + 12) << 32 |
              (uint32_t)ldl_le_p(block + 16),
        .captured = ldl_le_p(block + 20),
        .original = ldl_le_p(block + 24),
        .frame = block + 28,
    };
    size_t at = 28 + ROUND_UP(p.captured, 4);
    const uint8_t *option;
    uint16_t size;

    g_assert_cmpuint(ldl_le_p(block + 8), ==, 0);
    g_assert_cmpuint(at, <=, length - 4);
    if (p.captured == CUT && p.original > CUT && file->snaplen != CUT) {
        file->cut++;
    } else {
        g_assert_cmpuint(p.captured, ==,
                         file->snaplen ? MIN(p.original, file->snaplen)
                                       : p.original);
    }
    option = find_option(block + at, length - 4 - at, 1, &size);
    p.comment = option ? g_strndup((const char *)option, size) : NULL;
    option = find_option(block + at, length - 4 - at, 2, &size);
    p.sent = option && (ldl_le_p(option) & 3) == 2;
    if (lduw_be_p(p.frame + 12) == NOTE) {
        read_note(&p);
    } else {
        g_assert_cmphex(lduw_be_p(p.frame + 12), ==, 0x0800);
        read_tcp(&p);
    }
    if (file->packets->len) {
        g_assert_cmpuint(p.ns, >=,
                         capture_packet(file, file->packets->len - 1)->ns);
    }
    g_array_append_val(file->packets, p);
}

static void read_statistics(CaptureFile *file, const uint8_t *block,
                            size_t length)
{
    g_autofree char *cut = g_strdup_printf("capture-rate: packets cut: %u",
                                           file->cut);
    const uint8_t *option;
    uint16_t size;

    option = find_option(block + 20, length - 24, 1, &size);
    if (file->cut) {
        g_assert_nonnull(option);
        g_assert_cmpmem(option, size, cut, strlen(cut));
    } else {
        g_assert_null(option);
    }
    option = find_option(block + 20, length - 24, 4, &size);
    g_assert_nonnull(option);
    g_assert_cmpuint(size, ==, 8);
    file->received = ldq_le_p(option);
    option = find_option(block + 20, length - 24, 5, &size);
    g_assert_nonnull(option);
    file->dropped = ldq_le_p(option);
    file->complete = true;
}

/* The interface of the file; its times are nanoseconds. */
static void read_interface(CaptureFile *file, const uint8_t *block,
                           size_t length)
{
    const uint8_t *option;
    uint16_t size;

    g_assert_cmpuint(lduw_le_p(block + 8), ==, 1);
    file->snaplen = ldl_le_p(block + 12);
    option = find_option(block + 16, length - 20, 9, &size);
    g_assert_nonnull(option);
    g_assert_cmpuint(option[0], ==, 9);
}

static void read_block(CaptureFile *file, const uint8_t *block, size_t length,
                       unsigned number)
{
    uint32_t type = ldl_le_p(block);

    g_assert_false(file->complete);
    if (number == 0) {
        g_assert_cmphex(type, ==, SECTION);
        g_assert_cmphex(ldl_le_p(block + 8), ==, 0x1a2b3c4d);
        g_assert_cmpuint(lduw_le_p(block + 12), ==, 1);
        g_assert_cmpuint(lduw_le_p(block + 14), ==, 0);
    } else if (number == 1) {
        g_assert_cmphex(type, ==, INTERFACE);
        read_interface(file, block, length);
    } else if (type == STATISTICS) {
        read_statistics(file, block, length);
    } else {
        g_assert_cmphex(type, ==, ENHANCED_PACKET);
        read_packet(file, block, length);
    }
}

static void clear_packet(void *packet)
{
    g_free(((CapturePacket *)packet)->comment);
}

CaptureFile *capture_file_parse(const uint8_t *octets, size_t length)
{
    CaptureFile *file = g_new0(CaptureFile, 1);
    unsigned number = 0;

    file->octets = g_byte_array_new();
    g_byte_array_append(file->octets, octets, length);
    file->packets = g_array_new(false, true, sizeof(CapturePacket));
    g_array_set_clear_func(file->packets, clear_packet);
    for (size_t at = 0; at < length; number++) {
        const uint8_t *block = file->octets->data + at;
        uint32_t size;

        g_assert_cmpuint(length - at, >=, 12);
        size = ldl_le_p(block + 4);
        g_assert_cmpuint(size % 4, ==, 0);
        g_assert_cmpuint(size, >=, 12);
        g_assert_cmpuint(size, <=, length - at);
        g_assert_cmpuint(ldl_le_p(block + size - 4), ==, size);
        read_block(file, block, size, number);
        at += size;
    }
    g_assert_cmpuint(number, >=, 2);
    if (file->complete) {
        g_assert_cmpuint(file->received - file->dropped, ==,
                         file->packets->len);
    }
    return file;
}

CaptureFile *capture_file_read(const char *path)
{
    CaptureFile *file = capture_file_read_cut(path);

    g_assert_cmpuint(file->cut, ==, 0);
    return file;
}

CaptureFile *capture_file_read_cut(const char *path)
{
    g_autofree char *octets = NULL;
    gsize length;

    g_assert_true(g_file_get_contents(path, &octets, &length, NULL));
    return capture_file_parse((const uint8_t *)octets, length);
}

void capture_file_free(CaptureFile *file)
{
    g_array_unref(file->packets);
    g_byte_array_unref(file->octets);
    g_free(file);
}

unsigned capture_comments(const CaptureFile *file, const char *text)
{
    unsigned count = 0;

    for (unsigned i = 0; i < file->packets->len; i++) {
        const char *comment = capture_packet(file, i)->comment;

        count += comment && strstr(comment, text);
    }
    return count;
}

/* ----------------------------------------------------------------- streams */

/* "... to ...: N octets before this are not in the file" */
static uint64_t told(const CapturePacket *p)
{
    const char *at = p->comment ? strstr(p->comment, " octets before this are "
                                         "not in the file") : NULL;

    while (at && at > p->comment && g_ascii_isdigit(at[-1])) {
        at--;
    }
    return at ? g_ascii_strtoull(at, NULL, 10) : 0;
}

/* In the order of the file; octets are never repeated. */
static void add_segment(CaptureStream *s, const CapturePacket *p)
{
    size_t at = s->octets->len;
    uint32_t gap = p->seq - s->next;

    if (p->flags & CAPTURE_SYN) {
        s->syns++;
        s->first = s->next = p->seq + 1;
        return;
    }
    g_assert_cmpuint(gap, <, 0x80000000);
    if (gap && p->length) {
        g_array_append_val(s->gaps, at);
    }
    s->missing += gap;
    s->told += told(p);
    s->next = p->seq + p->length;
    if (p->length) {
        g_array_append_val(s->segments, at);
        g_byte_array_append(s->octets, p->payload, p->kept);
    }
    if (p->flags & CAPTURE_FIN) {
        s->fins++;
        s->next++;
    }
    s->resets += !!(p->flags & CAPTURE_RST);
}

CaptureStream *capture_stream(const CaptureFile *file, bool sent)
{
    CaptureStream *s = g_new0(CaptureStream, 1);

    s->octets = g_byte_array_new();
    s->segments = g_array_new(false, false, sizeof(size_t));
    s->gaps = g_array_new(false, false, sizeof(size_t));
    for (unsigned i = 0; i < file->packets->len; i++) {
        const CapturePacket *p = capture_packet(file, i);

        if (p->tcp && p->sent == sent) {
            add_segment(s, p);
        }
    }
    return s;
}

void capture_stream_free(CaptureStream *stream)
{
    g_byte_array_unref(stream->octets);
    g_array_unref(stream->segments);
    g_array_unref(stream->gaps);
    g_free(stream);
}
