/*
 * rnic: the address map of a fabric, guest addresses to host addresses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <arpa/inet.h>
#include <string.h>
#include <glib.h>

#include "map.h"

enum {
    V4_BITS = 96,               /* an IPv4 prefix length in 16 octets: + 96 */
    V4 = V4_BITS / 8,           /* where the IPv4 address begins */
    LOOPBACK_NET = 127,
    LOOPBACK_GUEST_NET = 10,
};

typedef enum Side { GUEST, HOST } Side;
static const char *const side_names[] = { "guest", "host" };

typedef struct Prefix {
    uint8_t ip[16];
    unsigned bits;              /* of 128 */
    bool v4;                    /* holds IPv4 addresses, and only those */
} Prefix;

typedef struct MapEntry {
    Prefix side[2];
} MapEntry;

struct RnicMap {
    bool is_loopback;
    unsigned count;
    MapEntry *entries;
};

static const uint8_t v4_head[V4] = { [10] = 0xff, [11] = 0xff };

bool rnic_ip_is_v4(const uint8_t ip[16])
{
    return memcmp(ip, v4_head, V4) == 0;
}

bool rnic_ip_is_any(const uint8_t ip[16])
{
    static const uint8_t zero[16];

    return memcmp(ip + V4, zero, 4) == 0 &&
           (rnic_ip_is_v4(ip) || memcmp(ip, zero, V4) == 0);
}

bool rnic_ip_is_unicast(const uint8_t ip[16])
{
    bool multicast = rnic_ip_is_v4(ip) ? ip[V4] >= 224 : ip[0] == 0xff;

    return !multicast && !rnic_ip_is_any(ip);
}

bool rnic_ip_is_link_local(const uint8_t ip[16])
{
    return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

const char *rnic_ip_text(const uint8_t ip[16], char text[RNIC_IP_TEXT])
{
    if (rnic_ip_is_v4(ip)) {
        inet_ntop(AF_INET, ip + V4, text, RNIC_IP_TEXT);
    } else {
        inet_ntop(AF_INET6, ip, text, RNIC_IP_TEXT);
    }
    return text;
}

/* The octet of a mask of @bits ones. */
static uint8_t mask_octet(unsigned bits, unsigned octet)
{
    unsigned ones = bits > octet * 8 ? MIN(bits - octet * 8, 8) : 0;

    return 0xff00 >> ones;
}

static bool prefix_matches(const Prefix *p, const uint8_t ip[16])
{
    for (unsigned i = 0; i < 16; i++) {
        if ((ip[i] ^ p->ip[i]) & mask_octet(p->bits, i)) {
            return false;
        }
    }
    return p->v4 == rnic_ip_is_v4(ip);
}

static bool prefix_equal(const Prefix *a, const Prefix *b)
{
    return a->v4 == b->v4 && a->bits == b->bits &&
           memcmp(a->ip, b->ip, 16) == 0;
}

/* ------------------------------------------------------------- parsing */

static bool parse_address(const char *text, Prefix *p, bool *dotted)
{
    *dotted = inet_pton(AF_INET, text, p->ip + V4) == 1;
    if (*dotted) {
        memcpy(p->ip, v4_head, V4);
        return true;
    }
    return inet_pton(AF_INET6, text, p->ip) == 1;
}

static char *parse_prefix(const char *text, Prefix *p)
{
    g_auto(GStrv) part = g_strsplit(text, "/", 2);
    bool dotted;
    guint64 length;

    if (!part[0] || !parse_address(part[0], p, &dotted)) {
        return g_strdup_printf("\"%s\" is not an IPv4 or IPv6 address",
                               part[0] ?: "");
    }
    if (!part[1]) {
        return g_strdup_printf("\"%s\" lacks a /length", text);
    }
    if (!g_ascii_string_to_unsigned(part[1], 10, 0, dotted ? 32 : 128,
                                    &length, NULL)) {
        return g_strdup_printf("\"%s\" is not a prefix length from 0 to %d",
                               part[1], dotted ? 32 : 128);
    }
    p->bits = length + (dotted ? V4_BITS : 0);
    p->v4 = rnic_ip_is_v4(p->ip) && p->bits >= V4_BITS;
    for (unsigned i = 0; i < 16; i++) {
        if (p->ip[i] & ~mask_octet(p->bits, i)) {
            return g_strdup_printf("\"%s\" has bits set behind its prefix",
                                   text);
        }
    }
    return NULL;
}

static char *parse_entry(const char *text, MapEntry *e)
{
    g_auto(GStrv) part = g_strsplit(text, "=", -1);

    if (g_strv_length(part) != 2) {
        return g_strdup("it should be GUEST/length=HOST/length");
    }
    for (Side side = GUEST; side <= HOST; side++) {
        g_autofree char *why = parse_prefix(part[side], &e->side[side]);

        if (why) {
            return g_strdup_printf("%s side: %s", side_names[side], why);
        }
    }
    if (e->side[GUEST].bits != e->side[HOST].bits) {
        return g_strdup_printf("%u bits lie behind the guest prefix but %u "
                               "behind the host prefix",
                               128 - e->side[GUEST].bits,
                               128 - e->side[HOST].bits);
    }
    return NULL;
}

/* Prefixes may nest, but one prefix cannot be two things. */
static char *find_contradiction(const RnicMap *map, const MapEntry *e)
{
    for (unsigned i = 0; i < map->count; i++) {
        for (Side side = GUEST; side <= HOST; side++) {
            if (prefix_equal(&map->entries[i].side[side], &e->side[side])) {
                return g_strdup_printf("its %s prefix is that of entry %u",
                                       side_names[side], i + 1);
            }
        }
    }
    return NULL;
}

static char *parse_entries(RnicMap *map, char **texts)
{
    map->entries = g_new0(MapEntry, g_strv_length(texts));
    for (char **text = texts; *text; text++) {
        MapEntry *e = &map->entries[map->count];
        g_autofree char *why = parse_entry(*text, e);

        if (!why) {
            why = find_contradiction(map, e);
        }
        if (why) {
            return g_strdup_printf("map entry %u \"%s\": %s", map->count + 1,
                                   *text, why);
        }
        map->count++;
    }
    return map->count ? NULL : g_strdup("the map is empty");
}

RnicMap *rnic_map_parse(const char *text, char **error)
{
    RnicMap *map = g_new0(RnicMap, 1);
    g_auto(GStrv) texts = NULL;

    if (strcmp(text, "loopback") == 0) {
        map->is_loopback = true;
        return map;
    }
    if (strcmp(text, "identity") == 0) {
        text = "0.0.0.0/0=0.0.0.0/0;::/0=::/0";
    }
    texts = g_strsplit(text, ";", -1);
    *error = parse_entries(map, texts);
    if (*error) {
        rnic_map_free(map);
        return NULL;
    }
    return map;
}

void rnic_map_free(RnicMap *map)
{
    if (map) {
        g_free(map->entries);
        g_free(map);
    }
}

/* ------------------------------------------------------------ applying */

static bool translate(const RnicMap *map, Side from, const uint8_t ip[16],
                      uint8_t result[16])
{
    const MapEntry *best = NULL;
    const Prefix *to;

    for (unsigned i = 0; i < map->count; i++) {
        const MapEntry *e = &map->entries[i];

        if (prefix_matches(&e->side[from], ip) &&
            (!best || e->side[from].bits > best->side[from].bits)) {
            best = e;
        }
    }
    if (!best) {
        return false;
    }
    to = &best->side[from == GUEST ? HOST : GUEST];
    for (unsigned i = 0; i < 16; i++) {
        result[i] = to->ip[i] | (ip[i] & ~mask_octet(to->bits, i));
    }
    /* An IPv6 entry must not lead to an IPv4 address by a chosen host part. */
    return rnic_ip_is_v4(result) == to->v4;
}

static bool translate_both_ways(const RnicMap *map, Side from,
                                const uint8_t ip[16], uint8_t result[16])
{
    uint8_t back[16];

    return translate(map, from, ip, result) &&
           translate(map, from == GUEST ? HOST : GUEST, result, back) &&
           memcmp(back, ip, 16) == 0;
}

bool rnic_map_to_host(const RnicMap *map, const uint8_t guest[16],
                      uint8_t host[16])
{
    if (!map->is_loopback) {
        return translate_both_ways(map, GUEST, guest, host);
    }
    memcpy(host, guest, 16);
    host[V4] = LOOPBACK_NET;
    return rnic_ip_is_v4(guest);
}

bool rnic_map_to_guest(const RnicMap *map, const uint8_t host[16],
                       const uint8_t near[16], uint8_t guest[16])
{
    if (!map->is_loopback) {
        return translate_both_ways(map, HOST, host, guest);
    }
    memcpy(guest, host, 16);
    guest[V4] = rnic_ip_is_v4(near) && !rnic_ip_is_any(near)
                ? near[V4] : LOOPBACK_GUEST_NET;
    return rnic_ip_is_v4(host) && host[V4] == LOOPBACK_NET;
}
