/*
 * rnic: the WR that a Terminate of the peer appears to be about
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

enum { CONCERNED = 1, BEHIND, RECEIVE, LARGE = 32 * 1024 * 1024 };

static const struct {
    uint8_t opcode;
    uint16_t code;              /* of the peer's Terminate */
} cases[] = {
    { RNIC_SQ_SEND, 0x1202 },
    { RNIC_SQ_SEND_INVALIDATE, 0x0209 },
    { RNIC_SQ_RDMA_WRITE, 0x1101 },
    { RNIC_SQ_RDMA_READ, 0x0100 },
    { RNIC_SQ_RDMA_READ_INVALIDATE, 0x0102 },
};

static bool is_read(uint8_t opcode)
{
    return opcode == RNIC_SQ_RDMA_READ ||
           opcode == RNIC_SQ_RDMA_READ_INVALIDATE;
}

/* A Read that is not answered, or a message that the peer does not read. */
static void post_concerned(Connection *c, uint8_t opcode)
{
    RnicWr wr = { .opcode = opcode, .wr_id = CONCERNED, .num_sge = 1 };
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, is_read(opcode) ? 8 : LARGE);
    if (opcode == RNIC_SQ_SEND_INVALIDATE) {
        wr.invalidate_stag = 0x77777700;
    } else if (opcode != RNIC_SQ_SEND) {
        wr.remote_stag = CONNECTION_REMOTE_STAG;
    }
    rnic_post_send(c->r, &c->qp, &wr);
}

/* Its CQE says so, Unsignaled as it is; all behind it is flushed. */
static void check(unsigned i)
{
    Connection *c = connection_new(&stag_options);
    struct rnic_qp_attr attr;
    struct rnic_aeqe aeqe;
    struct rnic_cqe cqe;
    WireRead read;

    connection_recv(c, RECEIVE, 0, 8);
    post_concerned(c, cases[i].opcode);
    connection_post(c, is_read(cases[i].opcode) ? RNIC_SQ_RDMA_READ
                                                : RNIC_SQ_SEND, BEHIND, 0, 8);
    if (is_read(cases[i].opcode)) {
        wire_get_read_request(c->peer, 1, &read);
        wire_get_read_request(c->peer, 2, &read);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_put_terminate(c->peer, cases[i].code);
    aeqe = rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, cases[i].code);
    cqe = rnic_expect_cqe(c->r, &c->send_cq, CONCERNED,
                          RNIC_WC_REMOTE_TERMINATION);
    g_assert_cmpint(cqe.opcode, ==, cases[i].opcode);
    g_assert_cmphex(le32_to_cpu(cqe.imm), ==, cases[i].code);
    rnic_expect_cqe(c->r, &c->send_cq, BEHIND, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->recv_cq, RECEIVE, RNIC_WC_FLUSHED);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpint(attr.terminate_origin, ==, 2);
    g_assert_cmphex(lduw_be_p(attr.terminate), ==, cases[i].code);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void test_concerned(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        check(i);
    }
    rnic_shows("V9.5.2-5 V9.5.3-3");
}

/* The header that a Terminate shows, with Reads and a Send before it on the wire. */
static const struct {
    uint16_t code;
    uint8_t opcode;
    bool whole;                 /* behind the DDP header that of RDMAP */
    uint8_t status;             /* of the oldest Read */
} shown[] = {
    { 0x1201, WIRE_READ_REQUEST, false, RNIC_WC_REMOTE_TERMINATION },
    { 0x1202, WIRE_READ_REQUEST, false, RNIC_WC_REMOTE_TERMINATION },
    { 0x02ff, WIRE_READ_REQUEST, true, RNIC_WC_REMOTE_TERMINATION },
    { 0x0100, WIRE_READ_REQUEST, true, RNIC_WC_REMOTE_TERMINATION },
    /* That of the Send, which is not complete only as the Reads are not. */
    { 0x1202, WIRE_SEND, false, RNIC_WC_FLUSHED },
};

static void put_terminate_about(Connection *c, unsigned i, const void *read_header)
{
    uint8_t octets[52] = { shown[i].code >> 8, shown[i].code,
                           shown[i].whole ? 0xe0 : 0xc0 };
    WireSegment terminate = {
        .opcode = WIRE_TERMINATE, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 2, .msn = 1, .payload = octets,
        .length = shown[i].whole ? 52 : 24,
    };

    octets[5] = 46;
    octets[6] = 0x41;
    octets[7] = 0x40 | shown[i].opcode;
    octets[15] = shown[i].opcode == WIRE_READ_REQUEST;
    octets[19] = 1;             /* MSN */
    memcpy(octets + 24, read_header, 28);
    wire_put_segment(c->peer, &terminate);
}

static void test_header(void)
{
    enum { SENT = 9 };

    for (unsigned i = 0; i < G_N_ELEMENTS(shown); i++) {
        Connection *c = connection_new(&stag_options);
        WireSegment request;
        struct rnic_cqe cqe;
        uint8_t got[8];
        WireRead read;

        connection_post(c, RNIC_SQ_RDMA_READ, CONCERNED, 0, 8);
        connection_post(c, RNIC_SQ_RDMA_READ, BEHIND, 0, 8);
        connection_post(c, RNIC_SQ_SEND, SENT, 0, 8);
        wire_get_segment(c->peer, &request);
        wire_get_read_request(c->peer, 2, &read);
        wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
        put_terminate_about(c, i, request.payload);
        g_free(request.payload);
        rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
        cqe = rnic_expect_cqe(c->r, &c->send_cq, CONCERNED, shown[i].status);
        g_assert_cmphex(le32_to_cpu(cqe.imm), ==,
                        shown[i].status == RNIC_WC_FLUSHED ? 0 : shown[i].code);
        rnic_expect_cqe(c->r, &c->send_cq, BEHIND, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->send_cq, SENT, RNIC_WC_FLUSHED);
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        connection_free(c);
    }
    rnic_shows("V9.5.2-5");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/remote-termination/concerned", test_concerned);
    qtest_add_func("rnic/remote-termination/header", test_header);
    return g_test_run();
}
