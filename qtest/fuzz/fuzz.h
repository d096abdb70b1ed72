/*
 * What the fuzzers share: input that is taken octet by octet, and rules
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken rule ends the fuzzer, as a crash does. */
static inline void must(bool rule)
{
    if (!rule) {
        abort();
    }
}

/* What is left of the input. */
typedef struct FuzzInput {
    const uint8_t *data;
    size_t size;
} FuzzInput;

/* Zero once there is no more. */
static inline uint8_t fuzz_octet(FuzzInput *in)
{
    if (in->size == 0) {
        return 0;
    }
    in->size--;
    return *in->data++;
}

/* @count octets, least significant first. */
static inline uint64_t fuzz_number(FuzzInput *in, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < count; i++) {
        value |= (uint64_t)fuzz_octet(in) << (8 * i);
    }
    return value;
}

/* At most @most octets of the input, as many as there are: *@size. */
static inline const uint8_t *fuzz_octets(FuzzInput *in, size_t most,
                                         size_t *size)
{
    const uint8_t *data = in->data;

    *size = in->size < most ? in->size : most;
    in->data += *size;
    in->size -= *size;
    return data;
}

#endif /* FUZZ_H */
