/*
 * Unit tests of the fabric: the address map
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <arpa/inet.h>
#include <string.h>
#include <glib.h>

#include "hw/rnic/fabric/map.h"

static void ip(const char *text, uint8_t out[16])
{
    memset(out, 0, 16);
    if (inet_pton(AF_INET6, text, out) != 1) {
        g_assert_cmpint(inet_pton(AF_INET, text, out + 12), ==, 1);
        out[10] = out[11] = 0xff;
    }
}

static RnicMap *parse(const char *text)
{
    char *error = NULL;
    RnicMap *map = rnic_map_parse(text, &error);

    g_assert_cmpstr(error, ==, NULL);
    g_assert_nonnull(map);
    return map;
}

/* @host NULL: outside the map. */
static void to_host(const RnicMap *map, const char *guest, const char *host)
{
    uint8_t from[16], want[16], got[16];

    ip(guest, from);
    g_assert_cmpint(rnic_map_to_host(map, from, got), ==, host != NULL);
    if (host) {
        ip(host, want);
        g_assert_cmpmem(got, 16, want, 16);
    }
}

static void to_guest(const RnicMap *map, const char *host, const char *near,
                     const char *guest)
{
    uint8_t from[16], want[16], got[16], hint[16];

    ip(host, from);
    ip(near, hint);
    g_assert_cmpint(rnic_map_to_guest(map, from, hint, got), ==,
                    guest != NULL);
    if (guest) {
        ip(guest, want);
        g_assert_cmpmem(got, 16, want, 16);
    }
}

static void pair(const RnicMap *map, const char *guest, const char *host)
{
    to_host(map, guest, host);
    to_guest(map, host, "::", guest);
}

static void test_loopback(void)
{
    RnicMap *map = parse("loopback");

    to_host(map, "10.77.0.1", "127.77.0.1");
    to_host(map, "192.168.3.4", "127.168.3.4");
    to_host(map, "fd00::1", NULL);
    to_guest(map, "127.77.0.2", "10.77.0.1", "10.77.0.2");
    to_guest(map, "127.168.3.5", "192.168.3.4", "192.168.3.5");
    to_guest(map, "127.77.0.2", "::", "10.77.0.2");
    to_guest(map, "127.77.0.2", "0.0.0.0", "10.77.0.2");
    to_guest(map, "127.77.0.2", "fd00::1", "10.77.0.2");
    to_guest(map, "10.77.0.2", "10.77.0.1", NULL);
    to_guest(map, "::1", "10.77.0.1", NULL);
    rnic_map_free(map);
}

static void test_identity(void)
{
    RnicMap *map = parse("identity");

    pair(map, "10.77.0.1", "10.77.0.1");
    pair(map, "0.0.0.0", "0.0.0.0");
    pair(map, "255.255.255.255", "255.255.255.255");
    pair(map, "::", "::");
    pair(map, "fd00::1:2", "fd00::1:2");
    rnic_map_free(map);
}

static void test_entries(void)
{
    RnicMap *map = parse("10.1.0.0/16=192.168.0.0/16;10.9.8.7/32=1.2.3.4/32;"
                         "fd00:1::/32=2001:db8::/32;10.2.0.0/16=fd02::/112;"
                         "10.3.0.0/20=172.16.240.0/20");

    pair(map, "10.1.2.3", "192.168.2.3");
    pair(map, "10.9.8.7", "1.2.3.4");
    pair(map, "fd00:1:2:3:4:5:6:7", "2001:db8:2:3:4:5:6:7");
    pair(map, "10.2.3.4", "fd02::304");
    pair(map, "10.3.15.255", "172.16.255.255");
    to_host(map, "10.3.16.0", NULL);
    to_host(map, "10.9.8.6", NULL);
    to_host(map, "fd00:2::1", NULL);
    to_guest(map, "192.169.0.1", "10.1.0.1", NULL);
    to_guest(map, "127.1.0.1", "10.1.0.1", NULL);
    rnic_map_free(map);
}

static void test_longest_prefix(void)
{
    RnicMap *map = parse("10.0.0.0/8=20.0.0.0/8;10.1.0.0/16=172.16.0.0/16;"
                         "10.1.2.0/24=30.0.0.0/24");

    pair(map, "10.2.0.1", "20.2.0.1");
    pair(map, "10.1.0.1", "172.16.0.1");
    pair(map, "10.1.2.1", "30.0.0.1");
    /* What the longer guest prefix took away leads nowhere. */
    to_guest(map, "20.1.0.1", "::", NULL);
    to_guest(map, "172.16.2.1", "::", NULL);
    rnic_map_free(map);

    /* One host address is never two guest addresses. */
    map = parse("10.0.0.0/8=20.0.0.0/8;10.1.0.0/16=20.2.0.0/16");
    pair(map, "10.1.0.1", "20.2.0.1");
    to_host(map, "10.2.0.1", NULL);
    pair(map, "10.3.0.1", "20.3.0.1");
    rnic_map_free(map);
}

static void test_families(void)
{
    RnicMap *map = parse("::/0=::/0");

    pair(map, "fd00::1", "fd00::1");
    to_host(map, "10.0.0.1", NULL);
    to_guest(map, "10.0.0.1", "::", NULL);
    rnic_map_free(map);

    /* The host part cannot turn an IPv6 address into an IPv4 one. */
    map = parse("fd00::/64=::/64");
    pair(map, "fd00::1:0:0:1", "::1:0:0:1");
    to_host(map, "fd00::ffff:a00:1", NULL);
    rnic_map_free(map);

    map = parse("::ffff:10.0.0.0/104=fd00::/104");
    pair(map, "10.1.2.3", "fd00::1:203");
    rnic_map_free(map);
}

static void test_errors(void)
{
    static const struct {
        const char *map, *error;
    } cases[] = {
        { "", "the map is empty" },
        { "Identity",
          "map entry 1 \"Identity\": it should be GUEST/length=HOST/length" },
        { "10.0.0.0/8=20.0.0.0/8;",
          "map entry 2 \"\": it should be GUEST/length=HOST/length" },
        { "1.0.0.0/8=2.0.0.0/8=3.0.0.0/8",
          "map entry 1 \"1.0.0.0/8=2.0.0.0/8=3.0.0.0/8\": "
          "it should be GUEST/length=HOST/length" },
        { "10.0.0/8=20.0.0.0/8",
          "map entry 1 \"10.0.0/8=20.0.0.0/8\": guest side: "
          "\"10.0.0\" is not an IPv4 or IPv6 address" },
        { "10.0.0.0/8=",
          "map entry 1 \"10.0.0.0/8=\": host side: "
          "\"\" is not an IPv4 or IPv6 address" },
        { "10.0.0.0/8=20.0.0.0",
          "map entry 1 \"10.0.0.0/8=20.0.0.0\": host side: "
          "\"20.0.0.0\" lacks a /length" },
        { "10.0.0.0/33=20.0.0.0/8",
          "map entry 1 \"10.0.0.0/33=20.0.0.0/8\": guest side: "
          "\"33\" is not a prefix length from 0 to 32" },
        { "fd00::/8=fd00::/-8",
          "map entry 1 \"fd00::/8=fd00::/-8\": host side: "
          "\"-8\" is not a prefix length from 0 to 128" },
        { "10.0.0.1/8=20.0.0.0/8",
          "map entry 1 \"10.0.0.1/8=20.0.0.0/8\": guest side: "
          "\"10.0.0.1/8\" has bits set behind its prefix" },
        { "10.0.0.0/8=20.0.0.0/16",
          "map entry 1 \"10.0.0.0/8=20.0.0.0/16\": "
          "24 bits lie behind the guest prefix but 16 behind the host prefix" },
        { "10.0.0.0/8=20.0.0.0/8;10.0.0.0/8=30.0.0.0/8",
          "map entry 2 \"10.0.0.0/8=30.0.0.0/8\": "
          "its guest prefix is that of entry 1" },
        { "10.0.0.0/8=20.0.0.0/8;11.0.0.0/8=12.0.0.0/8;9.0.0.0/8=20.0.0.0/8",
          "map entry 3 \"9.0.0.0/8=20.0.0.0/8\": "
          "its host prefix is that of entry 1" },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *error = NULL;

        g_assert_null(rnic_map_parse(cases[i].map, &error));
        g_assert_cmpstr(error, ==, cases[i].error);
    }
}

static void test_addresses(void)
{
    static const struct {
        const char *text;
        bool v4, any, loopback, unicast;
    } cases[] = {
        { "0.0.0.0", true, true, false, false },
        { "::", false, true, false, false },
        { "::1", false, false, true, true },
        { "10.0.0.1", true, false, false, true },
        { "127.0.0.1", true, false, true, true },
        { "127.255.0.9", true, false, true, true },
        { "128.0.0.1", true, false, false, true },
        { "224.0.0.1", true, false, false, false },
        { "255.255.255.255", true, false, false, false },
        { "ff02::1", false, false, false, false },
        { "2001:db8::ffff:0:0", false, false, false, true },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        char text[RNIC_IP_TEXT];
        uint8_t a[16];

        ip(cases[i].text, a);
        g_assert_cmpint(rnic_ip_is_v4(a), ==, cases[i].v4);
        g_assert_cmpint(rnic_ip_is_any(a), ==, cases[i].any);
        g_assert_cmpint(rnic_ip_is_loopback(a), ==, cases[i].loopback);
        g_assert_cmpint(rnic_ip_is_unicast(a), ==, cases[i].unicast);
        g_assert_cmpstr(rnic_ip_text(a, text), ==, cases[i].text);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fabric/map/loopback", test_loopback);
    g_test_add_func("/fabric/map/identity", test_identity);
    g_test_add_func("/fabric/map/entries", test_entries);
    g_test_add_func("/fabric/map/longest-prefix", test_longest_prefix);
    g_test_add_func("/fabric/map/families", test_families);
    g_test_add_func("/fabric/map/errors", test_errors);
    g_test_add_func("/fabric/map/addresses", test_addresses);
    return g_test_run();
}
