/*
 * rnic: the WR that a Terminate of the peer appears to be about
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/direct.h"
#include "tests/qtest/rnic/lib/stags.h"

enum { CONCERNED = 1, BEHIND, RECEIVE, BEFORE, LARGE = 32 * 1024 * 1024 };

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

/* ------------------------------------------------------- what is still sent */

/* A large message is under way: of an own WR, or the answer to the peer's Read. */
static void begin_large(Connection *c, uint8_t opcode)
{
    WireRead read = { .size = LARGE };
    RnicMr mr;

    if (opcode != WIRE_READ_RESPONSE) {
        post_concerned(c, opcode == WIRE_SEND ? RNIC_SQ_SEND
                                              : RNIC_SQ_RDMA_WRITE);
        connection_post(c, RNIC_SQ_SEND, BEHIND, 0, 8);
    } else {
        rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
        read.source_stag = mr.stag;
        read.source_to = mr.va;
        wire_put_read_request(c->peer, &read);
    }
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
    rnic_settle(c->r);
}

/* Whole segments of it, then FIN: neither its end comes nor what is behind it. */
static void check_stops_sending(uint8_t opcode)
{
    Connection *c = connection_new(&(ConnectionOptions) { .crc = true });
    WireSegment segment;
    uint64_t got = 0;
    WireEnd end;

    begin_large(c, opcode);
    wire_put_terminate(c->peer, 0x0207);
    rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    while ((end = wire_end(c->peer)) == WIRE_DATA) {
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcode);
        g_assert_false(segment.last);
        got += segment.length;
        g_free(segment.payload);
    }
    g_assert_cmpint(end, ==, WIRE_FIN);
    g_assert_cmpuint(got, >, 0);
    g_assert_cmpuint(got, <, LARGE);
    connection_free(c);
}

static void test_stops_sending(void)
{
    check_stops_sending(WIRE_SEND);
    check_stops_sending(WIRE_WRITE);
    check_stops_sending(WIRE_READ_RESPONSE);
    rnic_shows("R5.4-7 R6.2.1-3");
}

/* ------------------------------------------------- the header that is shown */

/* Of a message of ours; tagged for a Write and a Read Response. */
typedef struct Header {
    uint16_t code;              /* of the Terminate that shows it */
    uint8_t opcode;
    uint8_t qn;
    uint8_t msn;
    bool whole;                 /* behind DDP's header that of a Read Request */
    bool siw;                   /* in siw's layout */
    uint32_t stag;              /* tagged */
    uint64_t to;
} Header;

static bool is_tagged(const Header *h)
{
    return h->opcode == WIRE_WRITE || h->opcode == WIRE_READ_RESPONSE;
}

/* siw exchanges layer and type, and has M, D and R in bits 0 to 2. */
static void put_terminate_about(WirePeer *peer, const Header *h,
                                const void *read_header)
{
    uint8_t code = h->code >> 8;
    uint8_t octets[52] = {
        h->siw ? code << 4 | code >> 4 : code, h->code,
        h->siw ? 0x07 : h->whole ? 0xe0 : 0xc0,
    };
    WireSegment terminate = {
        .opcode = WIRE_TERMINATE, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 2, .msn = 1, .payload = octets,
        .length = h->whole ? 52 : is_tagged(h) ? 20 : 24,
    };

    octets[5] = 46;
    octets[6] = is_tagged(h) ? 0xc1 : 0x41;
    octets[7] = 0x40 | h->opcode;
    if (is_tagged(h)) {
        stl_be_p(octets + 8, h->stag);
        stq_be_p(octets + 12, h->to);
    } else {
        octets[15] = h->qn;
        octets[19] = h->msn;
    }
    if (h->whole) {
        memcpy(octets + 24, read_header, 28);
    }
    wire_put_segment(peer, &terminate);
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
    /* siw has the Read's size there if it cannot answer, and answers in order. */
    { { 0x0100, WIRE_READ_REQUEST, 1, 8, true, true }, FIRST },
    { { 0x0101, WIRE_READ_REQUEST, 1, 2, true, true }, FIRST },
    { { 0x1203, WIRE_READ_REQUEST, 1, 2, true, true }, SECOND },
    /* Requests that there are not, and a queue that is not theirs. */
    { { 0x1203, WIRE_READ_REQUEST, 1, 0 }, NONE },
    { { 0x1203, WIRE_READ_REQUEST, 1, 4 }, NONE },
    { { 0x0100, WIRE_READ_REQUEST, 1, 4, true }, NONE },
    { { 0x1201, WIRE_READ_REQUEST, 0, 1 }, NONE },
    /* The Send, which is not complete only as the Reads are not; and none. */
    { { 0x1202, WIRE_SEND, 0, 1 }, SENT },
    { { 0x1202, WIRE_SEND, 0, 2 }, NONE },
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
    put_terminate_about(c->peer, h,
                        request[about == SENT || !about ? 0
                                : about - FIRST].payload);
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

#define WRITE_AT(stag, to)                                                  \
    { 0x1101, WIRE_WRITE, 0, 0, false, false, stag, to }

/* While a message is sent, which the peer does not read: whether it is about that. */
static const struct {
    uint8_t opcode;
    Header header;
    bool about;
} messages[] = {
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG, 0), true },
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG, 1), true },
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG ^ 1, 0), false },
    /* Before it, behind it, and what has not left yet. */
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG, UINT64_MAX), false },
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG, LARGE), false },
    { RNIC_SQ_RDMA_WRITE, WRITE_AT(CONNECTION_REMOTE_STAG, LARGE - 1), false },
    { RNIC_SQ_RDMA_WRITE, { 0x1101, WIRE_READ_RESPONSE, 0, 0, false, false,
                            CONNECTION_REMOTE_STAG, 0 }, false },
    { RNIC_SQ_RDMA_WRITE, { 0x1202, WIRE_SEND, 0, 1 }, false },
    { RNIC_SQ_RDMA_WRITE, { 0x0100, WIRE_READ_REQUEST, 1, 1 }, false },
    { RNIC_SQ_SEND, { 0x1202, WIRE_SEND, 0, 1 }, true },
    { RNIC_SQ_SEND, { 0x1202, WIRE_SEND, 0, 2 }, false },
    { RNIC_SQ_SEND, { 0x1201, WIRE_SEND, 3, 1 }, false },
    { RNIC_SQ_SEND, { 0x0109, WIRE_SEND_INVALIDATE, 0, 1 }, false },
};

/* Before the message, a Read that is not answered; it may be about that. */
static void check_message(unsigned i, bool behind_read)
{
    const Header *h = &messages[i].header;
    Connection *c = connection_new(&stag_options);
    static const uint8_t no_read[28];
    WireRead read;

    if (behind_read) {
        connection_post(c, RNIC_SQ_RDMA_READ, BEFORE, 0, 8);
        wire_get_read_request(c->peer, 1, &read);
    }
    post_concerned(c, messages[i].opcode);
    connection_post(c, RNIC_SQ_SEND, BEHIND, 0, 8);
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    put_terminate_about(c->peer, h, no_read);
    rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    if (behind_read) {
        rnic_expect_cqe(c->r, &c->send_cq, BEFORE,
                        h->opcode == WIRE_READ_REQUEST
                        ? RNIC_WC_REMOTE_TERMINATION : RNIC_WC_FLUSHED);
    }
    rnic_expect_cqe(c->r, &c->send_cq, CONCERNED,
                    messages[i].about ? RNIC_WC_REMOTE_TERMINATION
                                      : RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->send_cq, BEHIND, RNIC_WC_FLUSHED);
    connection_free(c);
}

static void test_message_header(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        check_message(i, false);
        check_message(i, true);
    }
    rnic_shows("V9.5.2-5");
}

/* ----------------------------------------------- a WR of two messages */

/* The peer knows RFC 7306: TO of its answer (the manual, Immediate data and atomics). */
#define EXTENSIONS_YES 0x524e494321373330ULL

/* While its large message is sent; the Immediate Data has its 4 octets behind it. */
static const struct {
    uint8_t opcode;
    Header header;
    bool about;
} twos[] = {
    { RNIC_SQ_SEND_IMMEDIATE, { 0x1202, WIRE_IMMEDIATE, 0, 1 }, true },
    { RNIC_SQ_SEND_IMMEDIATE, { 0x1202, WIRE_SEND, 0, 2 }, true },
    { RNIC_SQ_SEND_IMMEDIATE, { 0x1202, WIRE_SEND, 0, 1 }, false },
    { RNIC_SQ_WRITE_IMMEDIATE, WRITE_AT(CONNECTION_REMOTE_STAG, 0), true },
    /* It has not begun. */
    { RNIC_SQ_WRITE_IMMEDIATE, { 0x1202, WIRE_IMMEDIATE, 0, 1 }, false },
};

static void test_two_messages(void)
{
    static const uint8_t no_read[28];

    for (unsigned i = 0; i < G_N_ELEMENTS(twos); i++) {
        Connection *c = connection_new(&stag_options);
        RnicWr wr = { .opcode = twos[i].opcode, .flags = RNIC_WQE_SIGNALED,
                      .wr_id = CONCERNED, .num_sge = 1, .immediate = "imm",
                      .remote_stag = CONNECTION_REMOTE_STAG };
        WireRead question;
        RnicMr mr;

        rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
        wr.sge[0] = rnic_sge(&mr, 0, LARGE);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, 1, &question);
        wire_put_read_response(c->peer, 0, EXTENSIONS_YES, NULL, 0);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        put_terminate_about(c->peer, &twos[i].header, no_read);
        rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
        rnic_expect_cqe(c->r, &c->send_cq, CONCERNED,
                        twos[i].about ? RNIC_WC_REMOTE_TERMINATION
                                      : RNIC_WC_FLUSHED);
        connection_free(c);
    }
    rnic_shows("V9.5.2-5");
}

/* -------------------------------------------- a peer that acknowledges */

enum { READ = 1, WRITE, SEND_1, SEND_2, WRITE_AGAIN, LAST = WRITE_AGAIN };

/*
 * After a direct connect all of these are on the wire, the Read only if it is asked
 * for; the peer has told that it has @delivered messages.
 */
static const struct {
    Header header;
    bool read;
    unsigned delivered;
    unsigned about;
    uint8_t status;
} acknowledged[] = {
    { { 0x1203, WIRE_READ_REQUEST, 1, 1 }, true, 0, READ,
      RNIC_WC_REMOTE_TERMINATION },
    { { 0x1202, WIRE_READ_REQUEST, 1, 1 }, true, 0, READ,
      RNIC_WC_REMOTE_TERMINATION },
    { WRITE_AT(CONNECTION_REMOTE_STAG, 7), true, 0, WRITE,
      RNIC_WC_REMOTE_TERMINATION },
    { WRITE_AT(CONNECTION_REMOTE_STAG, 7), true, 1, WRITE_AGAIN,
      RNIC_WC_REMOTE_TERMINATION },
    { WRITE_AT(CONNECTION_REMOTE_STAG, 7), false, 0, WRITE,
      RNIC_WC_REMOTE_TERMINATION },
    { { 0x1202, WIRE_SEND, 0, 1 }, true, 0, SEND_1,
      RNIC_WC_RNR_RETRY_EXCEEDED },
    { { 0x1205, WIRE_SEND, 0, 2 }, true, 2, SEND_2,
      RNIC_WC_REMOTE_TERMINATION },
    { { 0x1205, WIRE_SEND, 0, 2 }, false, 0, SEND_2,
      RNIC_WC_REMOTE_TERMINATION },
    { { 0x1205, WIRE_SEND, 0, 3 }, false, 0, NONE },
    { { 0x0100, WIRE_READ_RESPONSE }, false, 0, NONE },
    { { 0x0100, WIRE_READ_RESPONSE }, true, 0, NONE },
};

static void post_and_get(Connection *c, WirePeer *peer, bool read)
{
    WireRead request;
    uint8_t got[8];

    if (read) {
        connection_post(c, RNIC_SQ_RDMA_READ, READ, 0, 8);
        wire_get_read_request(peer, 1, &request);
    }
    connection_post(c, RNIC_SQ_RDMA_WRITE, WRITE, 0, 8);
    wire_get_tagged(peer, WIRE_WRITE, CONNECTION_REMOTE_STAG, 0, got, 8);
    connection_post(c, RNIC_SQ_SEND, SEND_1, 0, 8);
    wire_get_send(peer, WIRE_SEND, 1, got, 8);
    connection_post(c, RNIC_SQ_SEND, SEND_2, 0, 8);
    wire_get_send(peer, WIRE_SEND, 2, got, 8);
    connection_post(c, RNIC_SQ_RDMA_WRITE, WRITE_AGAIN, 0, 8);
    wire_get_tagged(peer, WIRE_WRITE, CONNECTION_REMOTE_STAG, 0, got, 8);
}

/* What is before it has been delivered; but not behind a Read without an answer. */
static void expect_acknowledged(Connection *c, unsigned i)
{
    unsigned about = acknowledged[i].about;
    bool read = acknowledged[i].read;

    for (unsigned id = read ? READ : WRITE; id <= LAST; id++) {
        rnic_expect_cqe(c->r, &c->send_cq, id,
                        id == about ? acknowledged[i].status
                        : id < about && !read ? RNIC_WC_SUCCESS
                                              : RNIC_WC_FLUSHED);
    }
    if (about == NONE) {
        rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    }
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
}

static void test_acknowledged(void)
{
    static const uint8_t no_read[28];

    for (unsigned i = 0; i < G_N_ELEMENTS(acknowledged); i++) {
        Connection *c = connection_prepare(NULL);
        int listener = wire_listen_at(PEERS, DIRECT_PORT);
        WirePeer *peer = direct_meet_dial(c, listener);

        direct_to_rts(c, 0x654321, FOR_EVER, 0);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_RTS);
        post_and_get(c, peer, acknowledged[i].read);
        if (acknowledged[i].delivered) {
            direct_put_delivered(peer, acknowledged[i].delivered);
            rnic_settle(c->r);
        }
        rnic_expect_no_cqe(c->r, &c->send_cq);
        put_terminate_about(peer, &acknowledged[i].header, no_read);
        expect_acknowledged(c, i);
        wire_close(peer);
        close(listener);
        connection_free(c);
    }
    rnic_shows("V9.5.2-5");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/remote-termination/concerned", test_concerned);
    qtest_add_func("rnic/remote-termination/stops-sending",
                   test_stops_sending);
    qtest_add_func("rnic/remote-termination/read-header", test_read_header);
    qtest_add_func("rnic/remote-termination/message-header",
                   test_message_header);
    qtest_add_func("rnic/remote-termination/two-messages",
                   test_two_messages);
    qtest_add_func("rnic/remote-termination/acknowledged",
                   test_acknowledged);
    return g_test_run();
}
