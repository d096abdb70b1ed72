/*
 * Fuzzer of the protocol engine: Terminate headers, theirs and ours
 *
 * What a peer sends is decoded without reading behind it, in the RFC's layout and
 * in siw's; what this end would send about any header can be decoded again.
 *
 *     0   term code (2)
 *     2   what is echoed: DDP header (1), Read Request (1), octets answered (4)
 *     8   the headers that are echoed, or a Terminate header
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fuzz.h"
#include "hw/rnic/iwarp/bytes.h"
#include "hw/rnic/iwarp/ddp.h"
#include "hw/rnic/iwarp/stream-tx.h"
#include "hw/rnic/iwarp/terminate.h"

static void check_theirs(const uint8_t *octets, size_t size)
{
    /* On the heap, and no more, so that an overrun is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    IwarpTerminate t;

    memcpy(copy, octets, size);
    must(iwarp_terminate_decode(&t, copy, size) ==
         (size >= IWARP_TERMINATE_MIN));
    must(!t.has_ddp || (t.has_length && size >= 4u + 2 + t.ddp_len));
    must(!t.has_read || t.has_ddp);
    must(t.has_ddp == (t.ddp_len != 0));
    iwarp_term_name(t.term);
    free(copy);
}

static IwarpEcho echo_of(FuzzInput *in, uint8_t ddp, uint8_t read)
{
    static const uint8_t lengths[] = {
        0, IWARP_DDP_TAGGED_LEN, IWARP_DDP_UNTAGGED_LEN,
    };
    IwarpEcho echo = {
        .segment_len = fuzz_number(in, 2),
        .ddp_len = lengths[ddp % 3],
        .rdma_len = read & 1 ? IWARP_ECHO_RDMA : 0,
    };

    for (int i = 0; i < IWARP_ECHO_DDP_MAX; i++) {
        echo.ddp[i] = fuzz_octet(in);
    }
    for (int i = 0; i < IWARP_ECHO_RDMA; i++) {
        echo.rdma[i] = fuzz_octet(in);
    }
    return echo;
}

static void check_ours(const IwarpError *error, const IwarpTxConfig *config)
{
    uint8_t out[IWARP_TERMINATE_MAX];
    uint8_t wire[IWARP_TERMINATE_WIRE_MAX];
    size_t len = iwarp_terminate_encode(error, out);
    IwarpTxFrame frame;
    IwarpTerminate t;
    IwarpTx tx;

    must(len == 4 || len == 20 || len == 24 || len == 48 || len == 52);
    must(iwarp_terminate_decode(&t, out, len));
    /* A code that no RFC has may be one of siw's layout. */
    must(t.term == error->term || (t.siw_layout && !iwarp_term_name(error->term)));
    iwarp_tx_init(&tx, config);
    must(iwarp_tx_terminate(&tx, error, &frame, wire) == frame.len);
    must(frame.len <= sizeof(wire) && frame.len % 4 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    IwarpError error = { .term = fuzz_number(&in, 2) };
    uint8_t ddp = fuzz_octet(&in);
    uint8_t read = fuzz_octet(&in);
    uint32_t done = fuzz_number(&in, 4);
    IwarpTxConfig config = {
        .crc = ddp & 0x80, .markers = ddp & 0x40,
    };
    uint32_t before;

    check_theirs(in.data, in.size);
    error.echo = echo_of(&in, ddp, read);
    check_ours(&error, &config);
    before = iwarp_get32(error.echo.rdma + 12);
    iwarp_echo_advance_read(&error.echo, done);
    must(iwarp_get32(error.echo.rdma + 12) <= before);
    check_ours(&error, &config);
    for (unsigned fault = 0; fault < IWARP_FAULT__MAX; fault++) {
        must(iwarp_fault_name(fault)[0] != '?');
    }
    return 0;
}
