/*
 * Unit tests of the protocol engine: CRC32C
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "wire.h"
#include "hw/rnic/iwarp/crc32c.h"

/* RFC 3720, B.4: 32 octets of zeroes, of ones, counting up, counting down. */
static void test_vectors(void)
{
    guint8 zero[32] = { 0 }, ones[32], up[32], down[32];
    guint8 wire[4];

    memset(ones, 0xff, sizeof(ones));
    for (guint8 i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = 31 - i;
    }
    g_assert_cmphex(iwarp_crc32c(0, "123456789", 9), ==, 0xe3069283);
    g_assert_cmphex(iwarp_crc32c(0, zero, 32), ==, 0x8a9136aa);
    g_assert_cmphex(iwarp_crc32c(0, ones, 32), ==, 0x62a8ab43);
    g_assert_cmphex(iwarp_crc32c(0, up, 32), ==, 0x46dd794e);
    g_assert_cmphex(iwarp_crc32c(0, down, 32), ==, 0x113fdb5c);
    g_assert_cmphex(iwarp_crc32c(0, NULL, 0), ==, 0);

    iwarp_crc32c_put(wire, 0x83992352);
    g_assert_cmpmem(wire, 4, "\x52\x23\x99\x83", 4);
    g_assert_cmphex(iwarp_crc32c_get(wire), ==, 0x83992352);
}

/* The same sum, and @len octets at any place, and not one more. */
static void check_copy(const guint8 *in, gsize len, guint32 want)
{
    g_autofree guint8 *out = g_malloc(len + 16);
    guint8 *place = out + 1 + len % 8;

    memset(out, 0xee, len + 16);
    g_assert_cmphex(iwarp_crc32c_copy(0, place, in, len), ==, want);
    g_assert_cmpmem(place, len, in, len);
    g_assert_cmphex(place[-1], ==, 0xee);
    g_assert_cmphex(place[len], ==, 0xee);
}

/* Every length around the sizes at which the implementation changes pace. */
static void test_lengths(void)
{
    g_autoptr(GByteArray) data = g_byte_array_new();

    add_pattern(data, 66000, 3);
    for (gsize len = 0; len < 65990; len += len < 300 ? 1 : 37 + len / 4) {
        for (gsize from = 0; from < 9; from++) {
            const guint8 *in = data->data + from;
            guint32 want = plain_crc32c(in, len);

            g_assert_cmphex(iwarp_crc32c(0, in, len), ==, want);
            check_copy(in, len, want);
        }
    }
}

/* Any cut gives the same. */
static void test_pieces(void)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    guint8 copy[2000];
    guint32 want;

    add_pattern(data, 2000, 9);
    want = plain_crc32c(data->data, data->len);
    for (gsize cut = 0; cut <= data->len; cut++) {
        guint32 crc = iwarp_crc32c(0, data->data, cut);

        g_assert_cmphex(iwarp_crc32c(crc, data->data + cut, data->len - cut),
                        ==, want);
        g_assert_cmphex(iwarp_crc32c_copy(crc, copy, data->data + cut,
                                          data->len - cut), ==, want);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iwarp/crc32c/vectors", test_vectors);
    g_test_add_func("/iwarp/crc32c/lengths", test_lengths);
    g_test_add_func("/iwarp/crc32c/pieces", test_pieces);
    return g_test_run();
}
