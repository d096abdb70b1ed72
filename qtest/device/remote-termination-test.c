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

/* ------------------------------------------------- the header that is shown */

/* Of a message of ours; tagged for a Write and a Read Response. */
typedef struct Header {
    uint16_t code;              /* of the Terminate that shows it */
    uint8_t opcode;
    uint8_t qn;
    uint8_t msn;
    bool whole;                 /* behind DDP's header that of a Read Request */
} Header;

static bool is_tagged(const Header *h)
{
    return h->opcode == WIRE_WRITE || h->opcode == WIRE_READ_RESPONSE;
}

static void put_terminate_about(Connection *c, const Header *h,
                                const void *read_header)
{
    uint8_t octets[52] = { h->code >> 8, h->code, h->whole ? 0xe0 : 0xc0 };
    WireSegment terminate = {
        .opcode = WIRE_TERMINATE, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 2, .msn = 1, .payload = octets,
        .length = h->whole ? 52 : is_tagged(h) ? 20 : 24,
    };

    octets[5] = 46;
    octets[6] = is_tagged(h) ? 0xc1 : 0x41;
    octets[7] = 0x40 | h->opcode;
    if (!is_tagged(h)) {
        octets[15] = h->qn;
        octets[19] = h->msn;
    }
    if (h->whole) {
        memcpy(octets + 24, read_header, 28);
    }
    wire_put_segment(c->peer, &terminate);
}

enum { NONE, FIRST, SECOND, THIRD, READS = THIRD, SENT };

/* With three Reads and a Send on the wire: which Read it is about. */
static const struct {
    Header header;
    unsigned about;
} reads[] = {
    { { 0x1201, WIRE_READ_REQUEST, 1, 1 }, FIRST },
    { { 0x1202, WIRE_READ_REQUEST, 1, 1 }, FIRST },
    { { 0x1202, WIRE_READ_REQUEST, 1, 2 }, SECOND },
    { { 0x1203, WIRE_READ_REQUEST, 1, 3 }, THIRD },
    { { 0x02ff, WIRE_READ_REQUEST, 1, 1, true }, FIRST },
    { { 0x0100, WIRE_READ_REQUEST, 1, 1, true }, FIRST },
    { { 0x0101, WIRE_READ_REQUEST, 1, 3, true }, THIRD },
    /* Requests that there are not, and a queue that is not theirs. */
    { { 0x1203, WIRE_READ_REQUEST, 1, 0 }, NONE },
    { { 0x1203, WIRE_READ_REQUEST, 1, 4 }, NONE },
    { { 0x0100, WIRE_READ_REQUEST, 1, 4, true }, NONE },
    { { 0x1201, WIRE_READ_REQUEST, 0, 1 }, NONE },
    /* The Send, which is not complete only as the Reads are not. */
    { { 0x1202, WIRE_SEND, 0, 1 }, NONE },
    { { 0x0109, WIRE_SEND_INVALIDATE, 0, 1 }, NONE },
    { { 0x0102, WIRE_SEND_INVALIDATE, 0, 1 }, NONE },
    { { 0x0100, WIRE_WRITE }, NONE },
    { { 0x0100, WIRE_READ_RESPONSE }, NONE },
};

static void check_reads(const Header *h, unsigned about)
{
    Connection *c = connection_new(&stag_options);
    WireSegment request[READS];
    uint8_t got[8];

    for (unsigned i = 0; i < READS; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, FIRST + i, 0, 8);
        wire_get_segment(c->peer, &request[i]);
    }
    connection_post(c, RNIC_SQ_SEND, SENT, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    put_terminate_about(c, h, request[about ? about - FIRST : 0].payload);
    rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    for (unsigned id = FIRST; id <= SENT; id++) {
        bool concerned = id == about;
        struct rnic_cqe cqe = rnic_expect_cqe(
            c->r, &c->send_cq, id, concerned ? RNIC_WC_REMOTE_TERMINATION
                                             : RNIC_WC_FLUSHED);

        g_assert_cmphex(le32_to_cpu(cqe.imm), ==, concerned ? h->code : 0);
    }
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    for (unsigned i = 0; i < READS; i++) {
        g_free(request[i].payload);
    }
    connection_free(c);
}

static void test_read_header(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++) {
        check_reads(&reads[i].header, reads[i].about);
    }
    rnic_shows("V9.5.2-5");
}

/* While a message is sent, which the peer does not read: whether it is about that. */
static const struct {
    uint8_t opcode;
    Header header;
    bool about;
} messages[] = {
    { RNIC_SQ_RDMA_WRITE, { 0x1101, WIRE_WRITE }, true },
    { RNIC_SQ_RDMA_WRITE, { 0x1101, WIRE_READ_RESPONSE }, false },
    { RNIC_SQ_RDMA_WRITE, { 0x1202, WIRE_SEND, 0, 1 }, false },
    { RNIC_SQ_RDMA_WRITE, { 0x0100, WIRE_READ_REQUEST, 1, 1 }, false },
    { RNIC_SQ_SEND, { 0x1202, WIRE_SEND, 0, 1 }, true },
    { RNIC_SQ_SEND, { 0x1202, WIRE_SEND, 0, 2 }, false },
    { RNIC_SQ_SEND, { 0x1201, WIRE_SEND, 3, 1 }, false },
    { RNIC_SQ_SEND, { 0x0109, WIRE_SEND_INVALIDATE, 0, 1 }, false },
};

static void test_message_header(void)
{
    static const uint8_t no_read[28];

    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        Connection *c = connection_new(&stag_options);

        post_concerned(c, messages[i].opcode);
        connection_post(c, RNIC_SQ_SEND, BEHIND, 0, 8);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        put_terminate_about(c, &messages[i].header, no_read);
        rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
        rnic_expect_cqe(c->r, &c->send_cq, CONCERNED,
                        messages[i].about ? RNIC_WC_REMOTE_TERMINATION
                                          : RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->send_cq, BEHIND, RNIC_WC_FLUSHED);
        connection_free(c);
    }
    rnic_shows("V9.5.2-5");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/remote-termination/concerned", test_concerned);
    qtest_add_func("rnic/remote-termination/read-header", test_read_header);
    qtest_add_func("rnic/remote-termination/message-header",
                   test_message_header);
    return g_test_run();
}
