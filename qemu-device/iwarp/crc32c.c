/*
 * iWARP engine: CRC32C
 *
 * Three variants behind one function, chosen at run time: the processor's
 * instruction on three blocks at once (its latency is three times its
 * throughput), the same on one, and slicing-by-8 tables for all others.
 * *reg* below is the shift register, without the initial and final complement.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdbool.h>
#include <string.h>

#include "crc32c.h"

#define CRC32C_POLY 0x82f63b78u     /* 0x1edc6f41 reflected */

/* slice[k][b]: the register after octet b and k zero octets. */
static uint32_t slice[8][256];

static void __attribute__((constructor)) crc32c_fill_slices(void)
{
    for (unsigned b = 0; b < 256; b++) {
        uint32_t reg = b;

        for (int bit = 0; bit < 8; bit++) {
            reg = reg >> 1 ^ (reg & 1 ? CRC32C_POLY : 0);
        }
        slice[0][b] = reg;
    }
    for (unsigned b = 0; b < 256; b++) {
        for (int k = 1; k < 8; k++) {
            uint32_t prev = slice[k - 1][b];

            slice[k][b] = prev >> 8 ^ slice[0][prev & 255];
        }
    }
}

static uint32_t reg_octet(uint32_t reg, uint8_t octet)
{
    return reg >> 8 ^ slice[0][(reg ^ octet) & 255];
}

static uint32_t reg_table(uint32_t reg, const uint8_t *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint32_t low = reg ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                              (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        reg = slice[7][low & 255] ^ slice[6][low >> 8 & 255] ^
              slice[5][low >> 16 & 255] ^ slice[4][low >> 24] ^
              slice[3][p[4]] ^ slice[2][p[5]] ^ slice[1][p[6]] ^
              slice[0][p[7]];
    }
    while (len--) {
        reg = reg_octet(reg, *p++);
    }
    return reg;
}

uint32_t iwarp_crc32c_table(uint32_t crc, const void *data, size_t len)
{
    return ~reg_table(~crc, data, len);
}

#if defined(__x86_64__)

#include <nmmintrin.h>

#define CRC32C_BLOCK 512            /* octets of each of the three lanes */

/* advance[k][b]: the register b << 8k after CRC32C_BLOCK zero octets. */
static uint32_t advance[4][256];

static uint32_t advance_bitwise(uint32_t reg)
{
    for (int i = 0; i < CRC32C_BLOCK; i++) {
        reg = reg >> 8 ^ slice[0][reg & 255];
    }
    return reg;
}

static void crc32c_fill_advance(void)
{
    uint32_t bit[32];

    for (int i = 0; i < 32; i++) {
        bit[i] = advance_bitwise(1u << i);
    }
    for (int k = 0; k < 4; k++) {
        for (unsigned b = 0; b < 256; b++) {
            advance[k][b] = 0;
            for (int i = 0; i < 8; i++) {
                advance[k][b] ^= b >> i & 1 ? bit[8 * k + i] : 0;
            }
        }
    }
}

static bool have_sse42;

static void __attribute__((constructor)) crc32c_detect(void)
{
    crc32c_fill_slices();       /* the order of constructors is not ours */
    crc32c_fill_advance();
    __builtin_cpu_init();
    have_sse42 = __builtin_cpu_supports("sse4.2");
}

static uint32_t reg_advance(uint32_t reg)
{
    return advance[0][reg & 255] ^ advance[1][reg >> 8 & 255] ^
           advance[2][reg >> 16 & 255] ^ advance[3][reg >> 24];
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint32_t __attribute__((target("sse4.2")))
reg_sse42_lanes(uint32_t reg, const uint8_t *p)
{
    uint64_t a = reg, b = 0, c = 0;

    for (int i = 0; i < CRC32C_BLOCK; i += 8) {
        a = _mm_crc32_u64(a, load64(p + i));
        b = _mm_crc32_u64(b, load64(p + CRC32C_BLOCK + i));
        c = _mm_crc32_u64(c, load64(p + 2 * CRC32C_BLOCK + i));
    }
    return reg_advance(reg_advance((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

static uint32_t __attribute__((target("sse4.2")))
reg_sse42(uint32_t reg, const uint8_t *p, size_t len)
{
    for (; len >= 3 * CRC32C_BLOCK; len -= 3 * CRC32C_BLOCK) {
        reg = reg_sse42_lanes(reg, p);
        p += 3 * CRC32C_BLOCK;
    }
    for (; len >= 8; p += 8, len -= 8) {
        reg = (uint32_t)_mm_crc32_u64(reg, load64(p));
    }
    while (len--) {
        reg = _mm_crc32_u8(reg, *p++);
    }
    return reg;
}

uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len)
{
    return ~(have_sse42 ? reg_sse42(~crc, data, len)
                        : reg_table(~crc, data, len));
}

#else

uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len)
{
    return iwarp_crc32c_table(crc, data, len);
}

#endif /* __x86_64__ */

uint32_t iwarp_crc32c_iov(uint32_t crc, const struct iovec *iov, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crc = iwarp_crc32c(crc, iov[i].iov_base, iov[i].iov_len);
    }
    return crc;
}

void iwarp_crc32c_put(uint8_t *out, uint32_t crc)
{
    out[0] = (uint8_t)crc;
    out[1] = (uint8_t)(crc >> 8);
    out[2] = (uint8_t)(crc >> 16);
    out[3] = (uint8_t)(crc >> 24);
}

uint32_t iwarp_crc32c_get(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 |
           (uint32_t)in[3] << 24;
}
