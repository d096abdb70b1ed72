/*
 * rnic: a driver has the features that it accepted, and no others: commands, work
 * requests, the limits of QUERY_DEVICE, STag zero
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/stags.h"

/* Of a device that offers all. */
static Rnic *up_without(uint64_t feature)
{
    Rnic *r = rnic_boot(",netdev=net0", "-netdev hubport,id=net0,hubid=0");
    uint64_t offered = rnic_features(r);

    g_assert_cmphex(offered & feature, ==, feature);
    rnic_up_with(r, offered & ~feature);
    return r;
}

/* --------------------------------------------------------------- commands */

static const struct {
    uint16_t opcode;
    uint64_t feature;
} commands[] = {
    { RNIC_ADMIN_CREATE_SRQ, RNIC_FEATURE_SRQ },
    { RNIC_ADMIN_QUERY_SRQ, RNIC_FEATURE_SRQ },
    { RNIC_ADMIN_MODIFY_SRQ, RNIC_FEATURE_SRQ },
    { RNIC_ADMIN_DESTROY_SRQ, RNIC_FEATURE_SRQ },
    { RNIC_ADMIN_ALLOC_STAG, RNIC_FEATURE_FAST_REGISTER },
    { RNIC_ADMIN_REREGISTER_MR, RNIC_FEATURE_REREGISTER },
    { RNIC_ADMIN_REGISTER_SHARED_MR, RNIC_FEATURE_SHARED_MR },
    { RNIC_ADMIN_ALLOC_MW, RNIC_FEATURE_MEMORY_WINDOW },
    { RNIC_ADMIN_QUERY_MW, RNIC_FEATURE_MEMORY_WINDOW },
    { RNIC_ADMIN_CM_DIRECT_CONNECT, RNIC_FEATURE_DIRECT_CONNECT },
    { RNIC_ADMIN_CM_DIRECT_SEND, RNIC_FEATURE_DIRECT_CONNECT },
    { RNIC_ADMIN_LLP_OPEN, RNIC_FEATURE_LLP_STREAM },
    { RNIC_ADMIN_LLP_SEND, RNIC_FEATURE_LLP_STREAM },
    { RNIC_ADMIN_LLP_RECEIVE, RNIC_FEATURE_LLP_STREAM },
    { RNIC_ADMIN_LLP_CLOSE, RNIC_FEATURE_LLP_STREAM },
    { RNIC_ADMIN_CREATE_ETH_QUEUE, RNIC_FEATURE_ETHERNET },
    { RNIC_ADMIN_DESTROY_ETH_QUEUE, RNIC_FEATURE_ETHERNET },
    { RNIC_ADMIN_SET_RX_MODE, RNIC_FEATURE_ETHERNET },
};

/* Without it UNSUPPORTED, whatever the arguments; with it, another answer. */
static void test_commands(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        Rnic *r;

        if (i && commands[i].feature == commands[i - 1].feature) {
            continue;           /* all commands have been tried without it */
        }
        r = up_without(commands[i].feature);
        for (unsigned j = 0; j < G_N_ELEMENTS(commands); j++) {
            struct rnic_admin_sqe sqe = rnic_command(commands[j].opcode);
            uint16_t status = rnic_admin(r, &sqe, NULL);

            g_test_message("opcode %u without %" PRIx64, commands[j].opcode,
                           commands[i].feature);
            g_assert_cmpint(status == RNIC_ST_UNSUPPORTED, ==,
                            commands[j].feature == commands[i].feature);
            g_assert_cmpuint(status, !=, RNIC_ST_UNKNOWN_OPCODE);
        }
        rnic_quit(r);
    }
}

/* ---------------------------------------------------- the Ethernet's commands */

/* A device without a netdev does not offer Ethernet. */
static void test_no_ethernet(void)
{
    static const uint16_t opcodes[] = {
        RNIC_ADMIN_CREATE_ETH_QUEUE, RNIC_ADMIN_DESTROY_ETH_QUEUE,
        RNIC_ADMIN_SET_RX_MODE,
    };
    Rnic *r = rnic_boot_up(NULL);

    g_assert_cmphex(rnic_features(r) & RNIC_FEATURE_ETHERNET, ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        struct rnic_admin_sqe sqe = rnic_command(opcodes[i]);

        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_UNSUPPORTED);
    }
    rnic_quit(r);
}

/* ----------------------------------------------------------- work requests */

static const struct {
    uint8_t opcode;
    uint64_t feature;
} requests[] = {
    { RNIC_SQ_SEND_INVALIDATE, RNIC_FEATURE_REMOTE_INVALIDATE },
    { RNIC_SQ_RDMA_READ_INVALIDATE, RNIC_FEATURE_READ_INVALIDATE },
    { RNIC_SQ_BIND_MW, RNIC_FEATURE_MEMORY_WINDOW },
    { RNIC_SQ_FAST_REGISTER, RNIC_FEATURE_FAST_REGISTER },
    { RNIC_SQ_LOCAL_INVALIDATE, RNIC_FEATURE_LOCAL_INVALIDATE },
    { RNIC_SQ_SEND_IMMEDIATE, RNIC_FEATURE_RDMAP_EXTENSIONS },
    { RNIC_SQ_WRITE_IMMEDIATE, RNIC_FEATURE_RDMAP_EXTENSIONS },
    { RNIC_SQ_FETCH_ADD, RNIC_FEATURE_RDMAP_EXTENSIONS },
    { RNIC_SQ_COMPARE_SWAP, RNIC_FEATURE_RDMAP_EXTENSIONS },
};

/* The WR ends the stream with no message of its own; nothing is left of it. */
static void refuse_request(Connection *c, uint8_t opcode)
{
    RnicWr wr = { .opcode = opcode, .flags = RNIC_WQE_SIGNALED, .wr_id = 5 };

    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_UNSUPPORTED);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    stag_reconnect(c);
}

static void test_requests(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(requests); i++) {
        ConnectionOptions options = stag_options;
        Connection *c;
        uint8_t got[8];

        g_test_message("opcode %u", requests[i].opcode);
        options.features_off = requests[i].feature;
        c = connection_new(&options);
        refuse_request(c, requests[i].opcode);
        connection_post(c, RNIC_SQ_SEND, 6, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
        rnic_expect_cqe(c->r, &c->send_cq, 6, RNIC_WC_SUCCESS);
        connection_free(c);
    }
}

/* On a privileged QP, the STag zero of an SGE is an unknown one. */
static void test_stag_zero(void)
{
    ConnectionOptions options = stag_options;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 5, .num_sge = 1 };
    Connection *c;

    options.features_off = RNIC_FEATURE_STAG_ZERO;
    c = connection_new(&options);
    wr.sge[0].to = cpu_to_le64(rnic_alloc(c->r, 4096));
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_INVALID_STAG);
    connection_free(c);
    rnic_shows("V7.2.1-5");
}

/* ------------------------------------------------------------------ limits */

typedef struct Limit {
    const char *name;
    size_t offset, size;
    uint64_t feature;
} Limit;

#define LIMIT(field, feature)                                               \
    { #field, offsetof(struct rnic_device_attr, field),                     \
      sizeof(((struct rnic_device_attr *)0)->field), feature }

static const Limit limits[] = {
    LIMIT(max_srq, RNIC_FEATURE_SRQ),
    LIMIT(max_srq_wr, RNIC_FEATURE_SRQ),
    LIMIT(max_mw, RNIC_FEATURE_MEMORY_WINDOW),
    LIMIT(max_fast_register_pages, RNIC_FEATURE_FAST_REGISTER),
    LIMIT(max_event_count, RNIC_FEATURE_CQ_MODERATION),
    LIMIT(max_event_period, RNIC_FEATURE_CQ_MODERATION),
    LIMIT(clock_khz, RNIC_FEATURE_TIMESTAMP),
    LIMIT(min_block_size, RNIC_FEATURE_BLOCK_LIST),
    LIMIT(max_block_size, RNIC_FEATURE_BLOCK_LIST),
    LIMIT(max_llp_streams, RNIC_FEATURE_LLP_STREAM),
    LIMIT(max_llp_octets, RNIC_FEATURE_LLP_STREAM),
};

static bool is_zero(const struct rnic_device_attr *attr, const Limit *limit)
{
    static const uint8_t zero[8];

    return !memcmp((const uint8_t *)attr + limit->offset, zero, limit->size);
}

static void test_limits(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        struct rnic_device_attr attr;
        Rnic *r;

        if (i && limits[i].feature == limits[i - 1].feature) {
            continue;
        }
        r = up_without(limits[i].feature);
        attr = rnic_query_device(r);
        for (unsigned j = 0; j < G_N_ELEMENTS(limits); j++) {
            g_test_message("%s without %" PRIx64, limits[j].name,
                           limits[i].feature);
            g_assert_cmpint(is_zero(&attr, &limits[j]), ==,
                            limits[j].feature == limits[i].feature);
        }
        rnic_quit(r);
    }
    rnic_shows("V6.3-1 V9-3 V9.2.1.2-7");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/features/commands", test_commands);
    qtest_add_func("rnic/features/no-ethernet", test_no_ethernet);
    qtest_add_func("rnic/features/requests", test_requests);
    qtest_add_func("rnic/features/stag-zero", test_stag_zero);
    qtest_add_func("rnic/features/limits", test_limits);
    return g_test_run();
}
