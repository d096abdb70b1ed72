/*
 * rnic: inline data of a message that takes several segments (mulpdu=)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"

#include "tests/qtest/rnic/lib/connection.h"

/*
 * The shortest segments there are: 110 octets of a Send, 114 of a Write. Their
 * multiples, and what is one octet longer or shorter, are the lengths to try.
 */
#define SHORT_SEGMENTS ",mulpdu=128"

static const uint32_t lengths[] = {
    0, 1, 109, 110, 111, 113, 114, 115, 219, 220, 221, 227, 228, 229, 330, 341,
    342, 343, 440, 441, 456, 457, RNIC_MAX_INLINE - 1, RNIC_MAX_INLINE,
};

static RnicWr inline_wr(uint8_t opcode, uint64_t wr_id, const void *data,
                        uint32_t length)
{
    return (RnicWr) {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED | RNIC_WQE_INLINE,
        .wr_id = wr_id,
        .remote_stag = CONNECTION_REMOTE_STAG,
        .remote_to = 1000 * wr_id,
        .invalidate_stag = 77,
        .inline_data = data,
        .inline_length = length,
    };
}

static uint32_t take(Connection *c, uint8_t opcode, uint64_t wr_id,
                     uint32_t msn, uint8_t *got)
{
    switch (opcode) {
    case RNIC_SQ_RDMA_WRITE:
        return connection_get_write(c, 1000 * wr_id, got, RNIC_MAX_INLINE);
    case RNIC_SQ_SEND_INVALIDATE:
        return wire_get_send(c->peer, WIRE_SEND_INVALIDATE, msn, got,
                             RNIC_MAX_INLINE);
    default:
        return wire_get_send(c->peer, WIRE_SEND, msn, got, RNIC_MAX_INLINE);
    }
}

static void send_all_lengths(const ConnectionOptions *options, uint8_t opcode)
{
    Connection *c = connection_new(options);
    uint8_t data[RNIC_MAX_INLINE], got[RNIC_MAX_INLINE];

    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        RnicWr wr = inline_wr(opcode, i, data, lengths[i]);

        rnic_pattern(data, sizeof(data), i);
        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(take(c, opcode, i, i + 1, got), ==, lengths[i]);
        g_assert_cmpmem(got, lengths[i], data, lengths[i]);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

static void send_in_all_modes(uint8_t opcode)
{
    for (int modes = 0; modes < 4; modes++) {
        send_all_lengths(&(ConnectionOptions) {
                             .properties = SHORT_SEGMENTS,
                             .crc = modes & 1,
                             .markers_in = modes & 2,
                         }, opcode);
    }
}

static void test_send(void)
{
    send_in_all_modes(RNIC_SQ_SEND);
}

static void test_send_invalidate(void)
{
    send_in_all_modes(RNIC_SQ_SEND_INVALIDATE);
}

static void test_write(void)
{
    send_in_all_modes(RNIC_SQ_RDMA_WRITE);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/inline-in-segments/send", test_send);
    qtest_add_func("rnic/inline-in-segments/send-invalidate",
                   test_send_invalidate);
    qtest_add_func("rnic/inline-in-segments/write", test_write);
    return g_test_run();
}
