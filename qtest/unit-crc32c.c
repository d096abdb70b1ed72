/*
 * Unit tests of the protocol engine: CRC32C
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "unit-wire.h"
#include "hw/rnic/iwarp/crc32c.h"

static void test_vectors(void)
{
    guint8 zero[32] = { 0 };
    guint8 wire[4];

    g_assert_cmphex(iwarp_crc32c(0, "123456789", 9), ==, 0xe3069283);
    g_assert_cmphex(iwarp_crc32c(0, zero, 32), ==, 0x8a9136aa);
    g_assert_cmphex(iwarp_crc32c(0, NULL, 0), ==, 0);
    g_assert_cmphex(iwarp_crc32c_table(0, "123456789", 9), ==, 0xe3069283);
    g_assert_cmphex(iwarp_crc32c_table(0, zero, 32), ==, 0x8a9136aa);

    iwarp_crc32c_put(wire, 0x83992352);
    g_assert_cmpmem(wire, 4, "\x52\x23\x99\x83", 4);
    g_assert_cmphex(iwarp_crc32c_get(wire), ==, 0x83992352);
}

/* Every length around the sizes at which the implementation changes pace. */
static void test_lengths(void)
{
    g_autoptr(GByteArray) data = g_byte_array_new();

    add_pattern(data, 5000, 3);
    for (gsize len = 0; len < 4700; len += len < 40 ? 1 : 37) {
        for (gsize from = 0; from < 9; from++) {
            guint32 want = plain_crc32c(data->data + from, len);

            g_assert_cmphex(iwarp_crc32c(0, data->data + from, len), ==, want);
            g_assert_cmphex(iwarp_crc32c_table(0, data->data + from, len), ==,
                            want);
        }
    }
}

/* Any cut gives the same. */
static void test_pieces(void)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    guint32 want;

    add_pattern(data, 2000, 9);
    want = plain_crc32c(data->data, data->len);
    for (gsize cut = 0; cut <= data->len; cut++) {
        struct iovec iov[3] = {
            { data->data, cut },
            { NULL, 0 },
            { data->data + cut, data->len - cut },
        };

        g_assert_cmphex(iwarp_crc32c_iov(0, iov, 3), ==, want);
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
