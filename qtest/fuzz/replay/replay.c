/*
 * Runs a fuzzer on the files that it is given, without libFuzzer: for compilers that
 * do not have it, and for make coverage
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>

#include "../fuzz.h"

enum { LONGEST = 1 << 20 };

int main(int argc, char **argv)
{
    uint8_t *data = malloc(LONGEST);

    must(data != NULL);
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        size_t size;

        if (!f) {
            perror(argv[i]);
            return 1;
        }
        size = fread(data, 1, LONGEST, f);
        fclose(f);
        LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    return 0;
}
