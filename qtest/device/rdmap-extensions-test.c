/*
 * rnic: immediate data and atomic operations (RFC 7306), with a peer on the wire and
 * between two devices
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/direct.h"
#include "tests/qtest/rnic/lib/stags.h"

#define EXTENSIONS RNIC_FEATURE_RDMAP_EXTENSIONS
#define ATOMIC_ACCESS (RNIC_TEST_ACCESS_ALL | RNIC_ACCESS_REMOTE_ATOMIC)

/* Sink TO of a Read of no octets, and of its response: "RNIC?730", "RNIC!730". */
#define ASK 0x524e49433f373330ULL
#define YES 0x524e494321373330ULL
#define ONES UINT64_MAX

enum {
    LENGTH = 300,
    WORD = 8,
    WORDS = 4096,               /* where in the buffer the words are */

    /* Octets 4 to 7 of Immediate Data. */
    OF_WRITE = 0,
    OF_SEND = 1,

    /* Terminate codes: RFC 5040 4.8, RFC 5041 7.2, RFC 7306 8.2. */
    STAG = 0x0100,
    BOUNDS = 0x0101,
    ACCESS = 0x0102,
    STREAM = 0x0103,
    WRAP = 0x0104,
    OPCODE = 0x0206,
    CATASTROPHIC = 0x0207,
    UNSPECIFIED = 0x02ff,
    QUEUE = 0x1201,
    NO_BUFFER = 0x1202,
    TOO_LONG = 0x1205,

    FETCH_ADD = 0,              /* AOpCodes, RFC 7306 5.2.1 */
    CMP_SWAP = 2,
};

static const ConnectionOptions with_atomics = {
    .enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
               RNIC_QP_ENABLE_ATOMIC,
};

/* ------------------------------------------------------ messages on the wire */

static void put_message(WirePeer *peer, uint8_t opcode, uint32_t qn,
                        uint32_t msn, const void *data, uint32_t length)
{
    WireSegment segment = {
        .opcode = opcode, .last = true, .ddp_version = 1, .rdmap_version = 1,
        .qn = qn, .msn = msn, .length = length, .payload = (uint8_t *)data,
    };

    wire_put_segment(peer, &segment);
}

/* The one segment of a message without payload of the ULP. */
static void get_message(WirePeer *peer, uint8_t opcode, uint32_t qn,
                        uint32_t msn, void *data, uint32_t length)
{
    WireSegment s;

    wire_get_segment(peer, &s);
    g_assert_cmpint(s.opcode, ==, opcode);
    g_assert_true(s.last);
    g_assert_cmphex(s.stag, ==, 0);
    g_assert_cmpuint(s.qn, ==, qn);
    g_assert_cmpuint(s.msn, ==, msn);
    g_assert_cmpuint(s.mo, ==, 0);
    g_assert_cmpuint(s.length, ==, length);
    memcpy(data, s.payload, length);
    g_free(s.payload);
}

static void put_immediate(WirePeer *peer, uint8_t opcode, const char *data,
                          uint32_t of)
{
    uint8_t octets[8];

    memcpy(octets, data, 4);
    stl_be_p(octets + 4, of);
    put_message(peer, opcode, 0, peer->send_msn++, octets, sizeof(octets));
}

static void get_immediate(WirePeer *peer, uint8_t opcode, uint32_t msn,
                          const char *data, uint32_t of)
{
    uint8_t octets[8];

    get_message(peer, opcode, 0, msn, octets, sizeof(octets));
    g_assert_cmpmem(octets, 4, data, 4);
    g_assert_cmphex((uint32_t)ldl_be_p(octets + 4), ==, of);
}

/* RFC 7306 figure 4: 52 octets. */
typedef struct Atomic {
    uint32_t op, id, stag;
    uint64_t to, data, mask, compare, compare_mask;
} Atomic;

static void encode_atomic(const Atomic *a, uint8_t *octets)
{
    stl_be_p(octets, a->op);
    stl_be_p(octets + 4, a->id);
    stl_be_p(octets + 8, a->stag);
    stq_be_p(octets + 12, a->to);
    stq_be_p(octets + 20, a->data);
    stq_be_p(octets + 28, a->mask);
    stq_be_p(octets + 36, a->compare);
    stq_be_p(octets + 44, a->compare_mask);
}

static void put_atomic(WirePeer *peer, const Atomic *a)
{
    uint8_t octets[52];

    encode_atomic(a, octets);
    put_message(peer, WIRE_ATOMIC_REQUEST, 1, peer->read_msn++, octets,
                sizeof(octets));
}

/* In one write, so that the device finds them together. */
static void put_atomics_at_once(Connection *c, const Atomic *a, unsigned count)
{
    uint8_t octets[52], ulpdu[128], all[4096];
    size_t length = 0;

    encode_atomic(a, octets);
    for (unsigned i = 0; i < count; i++) {
        WireSegment segment = {
            .opcode = WIRE_ATOMIC_REQUEST, .last = true, .ddp_version = 1,
            .rdmap_version = 1, .qn = 1, .msn = c->peer->read_msn++,
            .length = sizeof(octets), .payload = octets,
        };
        size_t n = wire_encode_segment(&segment, ulpdu);

        length += wire_encode_fpdu(c->peer, ulpdu, n, all + length);
    }
    wire_put(c->peer, all, length);
}

static Atomic get_atomic(WirePeer *peer, uint32_t msn)
{
    uint8_t octets[52];

    get_message(peer, WIRE_ATOMIC_REQUEST, 1, msn, octets, sizeof(octets));
    return (Atomic) {
        .op = ldl_be_p(octets), .id = ldl_be_p(octets + 4),
        .stag = ldl_be_p(octets + 8), .to = ldq_be_p(octets + 12),
        .data = ldq_be_p(octets + 20), .mask = ldq_be_p(octets + 28),
        .compare = ldq_be_p(octets + 36),
        .compare_mask = ldq_be_p(octets + 44),
    };
}

/* RFC 7306 figure 5: 12 octets, queue 3. */
static void put_response(WirePeer *peer, uint32_t msn, uint32_t id,
                         uint64_t original)
{
    uint8_t octets[12];

    stl_be_p(octets, id);
    stq_be_p(octets + 4, original);
    put_message(peer, WIRE_ATOMIC_RESPONSE, 3, msn, octets, sizeof(octets));
}

static void get_response(WirePeer *peer, uint32_t msn, uint32_t id,
                         uint64_t original)
{
    uint8_t octets[12];

    get_message(peer, WIRE_ATOMIC_RESPONSE, 3, msn, octets, sizeof(octets));
    g_assert_cmphex((uint32_t)ldl_be_p(octets), ==, id);
    g_assert_cmphex(ldq_be_p(octets + 4), ==, original);
}

/* ---------------------------------------------------------------- agreement */

/* The device asks, before its first message: a Read Request of MSN @msn. */
static void get_question(Connection *c, uint32_t msn)
{
    WireRead read;

    wire_get_read_request(c->peer, msn, &read);
    g_assert_cmphex(read.sink_stag, ==, 0);
    g_assert_cmphex(read.sink_to, ==, ASK);
    g_assert_cmpuint(read.size, ==, 0);
}

static void answer(Connection *c, uint64_t to)
{
    wire_put_read_response(c->peer, 0, to, NULL, 0);
}

static void be_asked(Connection *c)
{
    get_question(c, 1);
    answer(c, YES);
}

static void put_question(Connection *c)
{
    WireRead read = { .sink_to = ASK, .source_stag = 1 };

    wire_put_read_request(c->peer, &read);
}

/* The peer asks, so both ends agree. */
static void ask(Connection *c)
{
    put_question(c);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, YES, NULL, 0);
}

static RnicWr immediate_wr(Connection *c, uint8_t opcode, uint64_t wr_id,
                           const char *immediate)
{
    RnicWr wr = connection_wr(c, opcode, wr_id, 0, LENGTH);

    wr.immediate = immediate;
    return wr;
}

static void post_immediate(Connection *c, uint8_t opcode, uint64_t wr_id,
                           const char *immediate)
{
    RnicWr wr = immediate_wr(c, opcode, wr_id, immediate);

    rnic_post_send(c->r, &c->qp, &wr);
}

/* The original value goes to octet @offset of the buffer. */
static RnicWr atomic_wr(Connection *c, uint8_t opcode, uint64_t wr_id,
                        uint64_t add_swap, uint64_t compare, uint32_t offset)
{
    RnicWr wr = connection_wr(c, opcode, wr_id, offset, WORD);

    wr.remote_to = 0x123456789abcde0ULL;
    wr.add_swap = add_swap;
    wr.compare = compare;
    return wr;
}

static void post_atomic(Connection *c, uint8_t opcode, uint64_t wr_id,
                        uint64_t add_swap, uint64_t compare, uint32_t offset)
{
    RnicWr wr = atomic_wr(c, opcode, wr_id, add_swap, compare, offset);

    rnic_post_send(c->r, &c->qp, &wr);
}

static uint64_t word_at(Connection *c, uint32_t offset)
{
    uint64_t word;

    connection_peek(c, offset, &word, sizeof(word));
    return le64_to_cpu(word);
}

static void set_word(Connection *c, const RnicMr *mr, uint32_t offset,
                     uint64_t word)
{
    word = cpu_to_le64(word);
    rnic_mem_write(c->r, mr->bus + offset, &word, sizeof(word));
}

static uint64_t mr_word(Connection *c, const RnicMr *mr, uint32_t offset)
{
    uint64_t word;

    rnic_mem_read(c->r, mr->bus + offset, &word, sizeof(word));
    return le64_to_cpu(word);
}

static void expect_unsupported(Connection *c, uint64_t wr_id)
{
    rnic_expect_cqe(c->r, &c->send_cq, wr_id, RNIC_WC_UNSUPPORTED);
    wire_expect_terminate(c->peer, 0x0000);
}

/* The question goes once, and what was posted first waits for its answer. */
static void test_asked(void)
{
    Connection *c = connection_new(NULL);
    uint8_t got[LENGTH];

    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    post_immediate(c, RNIC_SQ_WRITE_IMMEDIATE, 2, "\x01\x02\x03\x04");
    connection_post(c, RNIC_SQ_SEND, 3, 0, LENGTH);
    wire_get_send(c->peer, WIRE_SEND, 1, got, LENGTH);
    get_question(c, 1);
    wire_expect_silence(c->peer);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    answer(c, YES);
    connection_get_write(c, 0, got, LENGTH);
    get_immediate(c->peer, WIRE_IMMEDIATE, 2, "\x01\x02\x03\x04", OF_WRITE);
    wire_get_send(c->peer, WIRE_SEND, 3, got, LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    post_immediate(c, RNIC_SQ_WRITE_IMMEDIATE, 4, "\x05\x06\x07\x08");
    connection_get_write(c, 0, got, LENGTH);
    get_immediate(c->peer, WIRE_IMMEDIATE, 4, "\x05\x06\x07\x08", OF_WRITE);
    rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);
    connection_free(c);
}

static const uint8_t extension_opcodes[] = {
    RNIC_SQ_SEND_IMMEDIATE, RNIC_SQ_WRITE_IMMEDIATE, RNIC_SQ_FETCH_ADD,
    RNIC_SQ_COMPARE_SWAP,
};

static void post_any(Connection *c, uint8_t opcode, uint64_t wr_id)
{
    RnicWr wr = connection_wr(c, opcode, wr_id, 0, WORD);

    rnic_post_send(c->r, &c->qp, &wr);
}

/* A peer that answers as RFC 5040 says: with the TO of the request. */
static void test_answer_is_no(void)
{
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(extension_opcodes); i++) {
        connection_establish(c, NULL);
        post_any(c, extension_opcodes[i], 1);
        get_question(c, 1);
        answer(c, ASK);
        expect_unsupported(c, 1);
        connection_recycle(c);
    }
    connection_free(c);
}

/* What was agreed, or not, ends with the connection. */
static void test_asked_anew(void)
{
    Connection *c = connection_new(NULL);
    uint8_t got[LENGTH];

    post_any(c, RNIC_SQ_SEND_IMMEDIATE, 1);
    get_question(c, 1);
    answer(c, ASK);
    expect_unsupported(c, 1);
    connection_recycle(c);

    for (unsigned i = 0; i < 2; i++) {
        connection_establish(c, NULL);
        post_any(c, RNIC_SQ_SEND_IMMEDIATE, 2);
        be_asked(c);
        get_immediate(c->peer, WIRE_IMMEDIATE, 1, "\0\0\0\0", OF_SEND);
        wire_get_send(c->peer, WIRE_SEND, 2, got, LENGTH);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        connection_recycle(c);
    }
    connection_free(c);
}

/* The question needs a Read's place. */
static void test_no_reads(void)
{
    ConnectionOptions options = { .no_reads = true };
    Connection *c = connection_new(&options);

    post_any(c, RNIC_SQ_WRITE_IMMEDIATE, 1);
    expect_unsupported(c, 1);
    connection_recycle(c);
    connection_establish(c, &options);
    post_any(c, RNIC_SQ_FETCH_ADD, 1);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_ZERO_READ_RESOURCES);
    connection_free(c);
}

static void test_question_waits_for_ord(void)
{
    ConnectionOptions options = { .ord = 1 };
    Connection *c = connection_new(&options);
    uint8_t data[LENGTH] = { };
    WireRead read;

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 8192, LENGTH);
    post_any(c, RNIC_SQ_SEND_IMMEDIATE, 2);
    wire_get_read_request(c->peer, 1, &read);
    wire_expect_silence(c->peer);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data, LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    get_question(c, 2);
    answer(c, YES);
    get_immediate(c->peer, WIRE_IMMEDIATE, 1, "\0\0\0\0", OF_SEND);
    connection_free(c);
}

/* A stream that ends instead of the answer: the WR that asked is flushed, once. */
static void test_no_answer(void)
{
    Connection *c = connection_new(NULL);

    post_any(c, RNIC_SQ_FETCH_ADD, 1);
    connection_post(c, RNIC_SQ_SEND, 2, 0, LENGTH);
    get_question(c, 1);
    wire_abort(c->peer);
    c->peer = NULL;
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_recycle(c);

    connection_establish(c, NULL);
    post_any(c, RNIC_SQ_FETCH_ADD, 3);
    get_question(c, 1);
    wire_put_terminate(c->peer, STAG);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_REMOTE_TERMINATION);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
}

/* The driver has not accepted the feature: no question, "no", no such message. */
static void test_not_accepted(void)
{
    ConnectionOptions options = { .features_off = EXTENSIONS };
    Connection *c = connection_new(&options);
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe;
    RnicQp qp;

    for (unsigned i = 0; i < G_N_ELEMENTS(extension_opcodes); i++) {
        post_any(c, extension_opcodes[i], 1);
        expect_unsupported(c, 1);
        connection_recycle(c);
        connection_establish(c, &options);
    }
    put_question(c);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, ASK, NULL, 0);
    connection_recv(c, 2, 0, LENGTH);
    put_immediate(c->peer, WIRE_IMMEDIATE, "\0\0\0\0", OF_WRITE);
    rnic_expect_async(c->r, RNIC_AE_UNEXPECTED_OPCODE, c->qp.number);
    wire_expect_terminate(c->peer, OPCODE);
    init.enables |= RNIC_QP_ENABLE_ATOMIC;
    sqe = rnic_qp_command(c->r, &init, &qp);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                     RNIC_ST_INVALID_MODIFIER);
    connection_free(c);
}

static void test_property(void)
{
    Rnic *r = rnic_boot_up(",rdmap-extensions=off");

    g_assert_cmphex(rnic_features(r) & EXTENSIONS, ==, 0);
    rnic_quit(r);
    r = rnic_boot_up("");
    g_assert_cmphex(rnic_features(r) & EXTENSIONS, ==, EXTENSIONS);
    rnic_quit(r);
}

/* A guest's Read of no octets is not taken for the question. */
static void test_guest_asks_nothing(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, 1, 0, 0);
    WireRead read;

    wr.sge[0] = (struct rnic_sge) { .to = cpu_to_le64(ASK) };
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmphex(read.sink_to, ==, 0);
    connection_free(c);
}

/* Messages that were not agreed on. */
static void test_not_agreed(void)
{
    static const struct {
        uint8_t opcode, qn, length;
    } messages[] = {
        { WIRE_IMMEDIATE, 0, 8 }, { WIRE_IMMEDIATE_SE, 0, 8 },
        { WIRE_ATOMIC_REQUEST, 1, 52 }, { WIRE_ATOMIC_RESPONSE, 3, 12 },
    };
    Connection *c = connection_prepare(&with_atomics);

    for (unsigned i = 0; i < G_N_ELEMENTS(messages); i++) {
        uint8_t octets[52] = { };
        WireTerminate t;

        connection_establish(c, &with_atomics);
        connection_recv(c, 2, 0, LENGTH);
        put_message(c->peer, messages[i].opcode, messages[i].qn, 1, octets,
                    messages[i].length);
        rnic_expect_async(c->r, RNIC_AE_UNEXPECTED_OPCODE, c->qp.number);
        t = wire_expect_terminate(c->peer, OPCODE);
        g_assert_cmphex(t.flags, ==, 0xc0);
        connection_recycle(c);
    }
    connection_free(c);
}

/* ------------------------------------------------------ sending immediate data */

/* RFC 7306 6.3: SE of the Immediate Data message; a Send has its own. */
static void test_send_solicited(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = immediate_wr(c, RNIC_SQ_WRITE_IMMEDIATE, 1, "\xde\xad\xbe\xef");
    uint8_t data[LENGTH], got[LENGTH];

    rnic_pattern(data, LENGTH, 5);
    connection_fill(c, 0, data, LENGTH);
    wr.flags |= RNIC_WQE_SOLICITED;
    rnic_post_send(c->r, &c->qp, &wr);
    be_asked(c);
    g_assert_cmpuint(connection_get_write(c, 0, got, LENGTH), ==, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    get_immediate(c->peer, WIRE_IMMEDIATE_SE, 1, "\xde\xad\xbe\xef", OF_WRITE);
    wr = immediate_wr(c, RNIC_SQ_SEND_IMMEDIATE, 2, "\xca\xfe\xf0\x0d");
    wr.flags |= RNIC_WQE_SOLICITED;
    rnic_post_send(c->r, &c->qp, &wr);
    get_immediate(c->peer, WIRE_IMMEDIATE, 2, "\xca\xfe\xf0\x0d", OF_SEND);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND_SE, 3, got, LENGTH), ==,
                     LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    connection_free(c);
}

static void test_send_forms(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = immediate_wr(c, RNIC_SQ_WRITE_IMMEDIATE, 1, "abcd");
    uint8_t got[LENGTH];

    /* Of no octets. */
    wr.num_sge = 0;
    rnic_post_send(c->r, &c->qp, &wr);
    be_asked(c);
    g_assert_cmpuint(connection_get_write(c, 0, NULL, 0), ==, 0);
    get_immediate(c->peer, WIRE_IMMEDIATE, 1, "abcd", OF_WRITE);
    /* Inline. */
    wr.flags |= RNIC_WQE_INLINE;
    wr.inline_data = "forty-two";
    wr.inline_length = 9;
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(connection_get_write(c, 0, got, LENGTH), ==, 9);
    g_assert_cmpmem(got, 9, "forty-two", 9);
    get_immediate(c->peer, WIRE_IMMEDIATE, 2, "abcd", OF_WRITE);
    wr.opcode = RNIC_SQ_SEND_IMMEDIATE;
    rnic_post_send(c->r, &c->qp, &wr);
    get_immediate(c->peer, WIRE_IMMEDIATE, 3, "abcd", OF_SEND);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 4, got, LENGTH), ==, 9);
    g_assert_cmpmem(got, 9, "forty-two", 9);
    for (unsigned i = 0; i < 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

/* Segments of a long Write, then the one Immediate Data message. */
static void test_send_long(void)
{
    Connection *c = connection_new(NULL);
    uint32_t length = 200000;
    RnicWr wr = connection_wr(c, RNIC_SQ_WRITE_IMMEDIATE, 1, 0, length);
    g_autofree uint8_t *data = g_malloc(length);
    g_autofree uint8_t *got = g_malloc(length);

    rnic_pattern(data, length, 9);
    connection_fill(c, 0, data, length);
    wr.immediate = "last";
    rnic_post_send(c->r, &c->qp, &wr);
    be_asked(c);
    g_assert_cmpuint(connection_get_write(c, 0, got, length), ==, length);
    g_assert_cmpmem(got, length, data, length);
    get_immediate(c->peer, WIRE_IMMEDIATE, 1, "last", OF_WRITE);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_free(c);
}

static void test_send_bad(void)
{
    static const struct {
        uint8_t opcode;
        uint8_t status;
    } cases[] = {
        { RNIC_SQ_SEND_IMMEDIATE, RNIC_WC_INVALID_STAG },
        { RNIC_SQ_WRITE_IMMEDIATE, RNIC_WC_INVALID_STAG },
        { RNIC_SQ_FETCH_ADD, RNIC_WC_INVALID_STAG },
    };
    Connection *c = connection_prepare(NULL);
    RnicWr wr;

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        connection_establish(c, NULL);
        wr = connection_wr(c, cases[i].opcode, 1, 0, WORD);
        wr.sge[0].stag ^= cpu_to_le32(0x80);
        rnic_post_send(c->r, &c->qp, &wr);
        rnic_expect_cqe(c->r, &c->send_cq, 1, cases[i].status);
        wire_expect_terminate(c->peer, 0);      /* and no question */
        connection_recycle(c);
    }
    connection_establish(c, NULL);
    wr = connection_wr(c, RNIC_SQ_WRITE_IMMEDIATE, 1, 0, WORD);
    wr.remote_stag = 0;
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_INVALID_STAG);
    connection_free(c);
}

/* ---------------------------------------------------- receiving immediate data */

static struct rnic_cqe expect_received(Connection *c, uint64_t wr_id,
                                       uint32_t octets, uint8_t opcode,
                                       uint8_t flags, const char *immediate)
{
    struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->recv_cq, wr_id,
                                          RNIC_WC_SUCCESS);

    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, octets);
    g_assert_cmpuint(cqe.opcode, ==, opcode);
    g_assert_cmphex(cqe.flags & ~RNIC_CQE_PHASE, ==, RNIC_CQE_RECEIVE | flags);
    if (immediate) {
        g_assert_cmpmem(&cqe.imm, 4, immediate, 4);
    } else {
        g_assert_cmphex(cqe.imm, ==, 0);
    }
    return cqe;
}

static void put_write(Connection *c, uint32_t length)
{
    g_autofree uint8_t *data = g_malloc(length + 1);

    rnic_pattern(data, length, length);
    wire_put_write(c->peer, c->mr.stag, c->mr.va + 65536, data, length);
}

/* RFC 7306 6.1: a receive completes, its buffer is not touched. */
static void test_receive_write(void)
{
    Connection *c = connection_new(NULL);
    uint8_t before[LENGTH], got[LENGTH];

    rnic_pattern(before, LENGTH, 77);
    connection_fill(c, 0, before, LENGTH);
    for (unsigned i = 0; i < 6; i++) {
        connection_recv(c, i, 0, LENGTH);
    }
    ask(c);
    put_write(c, 1000);
    put_immediate(c->peer, WIRE_IMMEDIATE, "\x11\x22\x33\x44", OF_WRITE);
    expect_received(c, 0, 1000, RNIC_SQ_WRITE_IMMEDIATE, RNIC_CQE_IMMEDIATE,
                    "\x11\x22\x33\x44");
    /* Not of a Write that another one had. */
    put_immediate(c->peer, WIRE_IMMEDIATE_SE, "\x55\x66\x77\x88", OF_WRITE);
    expect_received(c, 1, 0, RNIC_SQ_WRITE_IMMEDIATE,
                    RNIC_CQE_IMMEDIATE | RNIC_CQE_SOLICITED,
                    "\x55\x66\x77\x88");
    c->peer->segment_size = 1000;
    put_write(c, 5000);
    put_immediate(c->peer, WIRE_IMMEDIATE, "long", OF_WRITE);
    expect_received(c, 2, 5000, RNIC_SQ_WRITE_IMMEDIATE, RNIC_CQE_IMMEDIATE,
                    "long");
    put_write(c, 1000);
    put_write(c, 0);
    put_immediate(c->peer, WIRE_IMMEDIATE, "none", OF_WRITE);
    expect_received(c, 3, 0, RNIC_SQ_WRITE_IMMEDIATE, RNIC_CQE_IMMEDIATE,
                    "none");
    put_write(c, 1000);
    connection_peek(c, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, before, LENGTH);
    wire_put_send(c->peer, WIRE_SEND, 0, before, LENGTH);
    expect_received(c, 4, LENGTH, 0, 0, NULL);
    put_immediate(c->peer, WIRE_IMMEDIATE, "sent", OF_WRITE);
    expect_received(c, 5, 0, RNIC_SQ_WRITE_IMMEDIATE, RNIC_CQE_IMMEDIATE,
                    "sent");
    connection_free(c);
}

/* One receive, one completion. */
static void test_receive_send(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[LENGTH], got[LENGTH];

    rnic_pattern(data, LENGTH, 3);
    for (unsigned i = 0; i < 3; i++) {
        connection_recv(c, i, i * 8192, LENGTH);
    }
    ask(c);
    put_immediate(c->peer, WIRE_IMMEDIATE, "\x01\x02\x03\x04", OF_SEND);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    put_write(c, 10);           /* of another kind: the Send is still awaited */
    c->peer->segment_size = 100;
    wire_put_send(c->peer, WIRE_SEND_SE, 0, data, LENGTH);
    expect_received(c, 0, LENGTH, 0, RNIC_CQE_IMMEDIATE | RNIC_CQE_SOLICITED,
                    "\x01\x02\x03\x04");
    connection_peek(c, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    wire_put_send(c->peer, WIRE_SEND, 0, data, LENGTH);
    expect_received(c, 1, LENGTH, 0, 0, NULL);
    wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
    expect_received(c, 2, 0, 0, 0, NULL);
    connection_free(c);
}

typedef void Provoke(Connection *c);

static void immediate_short(Connection *c)
{
    put_message(c->peer, WIRE_IMMEDIATE, 0, 1, "\0\0\0\0\0\0\0", 7);
}

static void immediate_long(Connection *c)
{
    put_message(c->peer, WIRE_IMMEDIATE, 0, 1, "\0\0\0\0\0\0\0\0", 9);
}

static void immediate_not_last(Connection *c)
{
    WireSegment segment = {
        .opcode = WIRE_IMMEDIATE, .ddp_version = 1, .rdmap_version = 1,
        .msn = 1, .length = 8, .payload = (uint8_t *)"\0\0\0\0\0\0\0",
    };

    wire_put_segment(c->peer, &segment);
}

static void immediate_of_send_twice(Connection *c)
{
    put_immediate(c->peer, WIRE_IMMEDIATE, "once", OF_SEND);
    put_immediate(c->peer, WIRE_IMMEDIATE, "more", OF_SEND);
}

static void immediate_of_send_and_write(Connection *c)
{
    put_immediate(c->peer, WIRE_IMMEDIATE, "once", OF_SEND);
    put_immediate(c->peer, WIRE_IMMEDIATE, "more", OF_WRITE);
}

static void immediate_and_invalidate(Connection *c)
{
    put_immediate(c->peer, WIRE_IMMEDIATE, "once", OF_SEND);
    wire_put_send(c->peer, WIRE_SEND_INVALIDATE, c->mr.stag, "data", 4);
}

static void immediate_on_queue_1(Connection *c)
{
    put_message(c->peer, WIRE_IMMEDIATE, 1, 2, "\0\0\0\0\0\0\0", 8);
}

static void atomic_short(Connection *c)
{
    uint8_t octets[51] = { };

    put_message(c->peer, WIRE_ATOMIC_REQUEST, 1, 2, octets, sizeof(octets));
}

static void atomic_long(Connection *c)
{
    uint8_t octets[53] = { };

    put_message(c->peer, WIRE_ATOMIC_REQUEST, 1, 2, octets, sizeof(octets));
}

static void atomic_on_queue_0(Connection *c)
{
    uint8_t octets[52] = { };

    put_message(c->peer, WIRE_ATOMIC_REQUEST, 0, 1, octets, sizeof(octets));
}

static void atomic_msn_again(Connection *c)
{
    uint8_t octets[52] = { };

    put_message(c->peer, WIRE_ATOMIC_REQUEST, 1, 1, octets, sizeof(octets));
}

static void response_unexpected(Connection *c)
{
    put_response(c->peer, 1, 0, 0);
}

static void response_short(Connection *c)
{
    put_message(c->peer, WIRE_ATOMIC_RESPONSE, 3, 1, "\0\0\0\0\0\0\0\0\0\0", 11);
}

static const struct {
    Provoke *provoke;
    uint16_t event, terminate;
} wire_errors[] = {
    { immediate_short, RNIC_AE_LLP_SEGMENT_SIZE, UNSPECIFIED },
    { immediate_long, RNIC_AE_BAD_READ_REQUEST, TOO_LONG },
    { immediate_not_last, RNIC_AE_NO_LAST_BIT, UNSPECIFIED },
    { immediate_of_send_twice, RNIC_AE_UNEXPECTED_OPCODE, OPCODE },
    { immediate_of_send_and_write, RNIC_AE_UNEXPECTED_OPCODE, OPCODE },
    { immediate_and_invalidate, RNIC_AE_UNEXPECTED_OPCODE, OPCODE },
    { immediate_on_queue_1, RNIC_AE_INVALID_QUEUE_NUMBER, QUEUE },
    { atomic_short, RNIC_AE_BAD_READ_REQUEST, UNSPECIFIED },
    { atomic_long, RNIC_AE_BAD_READ_REQUEST, TOO_LONG },
    { atomic_on_queue_0, RNIC_AE_INVALID_QUEUE_NUMBER, QUEUE },
    { atomic_msn_again, RNIC_AE_IRRQ_MSN_RANGE, 0x1203 },
    { response_unexpected, RNIC_AE_UNEXPECTED_OPCODE, OPCODE },
    { response_short, RNIC_AE_LLP_SEGMENT_SIZE, UNSPECIFIED },
};

static void test_wire_errors(void)
{
    Connection *c = connection_prepare(&with_atomics);

    for (unsigned i = 0; i < G_N_ELEMENTS(wire_errors); i++) {
        WireTerminate t;

        g_test_message("case %u", i);
        connection_establish(c, &with_atomics);
        connection_recv(c, 1, 0, LENGTH);
        connection_recv(c, 2, 0, LENGTH);
        ask(c);
        wire_errors[i].provoke(c);
        rnic_expect_async(c->r, wire_errors[i].event, c->qp.number);
        t = wire_expect_terminate(c->peer, wire_errors[i].terminate);
        /* RFC 7306 8.2: the DDP header, never an RDMAP header. */
        g_assert_cmphex(t.flags, ==, 0xc0);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
        connection_recycle(c);
    }
    connection_free(c);
}

/* From an S-RQ, as a Send. */
static void test_receive_from_srq(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    ConnectionOptions options = { };
    struct rnic_sge sge;
    Connection *c;
    RnicSrq srq;

    rnic_create_srq(r, &srq, &init);
    options.srq = &srq;
    c = connection_prepare_on(r, &options);
    connection_establish(c, &options);
    sge = rnic_sge(&c->mr, 0, LENGTH);
    rnic_post_srq_recv(r, &srq, 1, 1, &sge);
    rnic_post_srq_recv(r, &srq, 2, 1, &sge);
    ask(c);
    ask(c);                     /* who asks again is answered again */
    put_write(c, 1000);
    put_immediate(c->peer, WIRE_IMMEDIATE, "abcd", OF_WRITE);
    expect_received(c, 1, 1000, RNIC_SQ_WRITE_IMMEDIATE,
                    RNIC_CQE_IMMEDIATE | RNIC_CQE_SRQ, "abcd");
    put_immediate(c->peer, WIRE_IMMEDIATE, "efgh", OF_SEND);
    wire_put_send(c->peer, WIRE_SEND, 0, "data", 4);
    expect_received(c, 2, 4, 0, RNIC_CQE_IMMEDIATE | RNIC_CQE_SRQ, "efgh");
    connection_free(c);
}

/* RFC 7306 6.4: as of a Send. */
static void test_no_receive(void)
{
    Connection *c = connection_new(NULL);

    ask(c);
    put_write(c, 100);
    put_immediate(c->peer, WIRE_IMMEDIATE, "none", OF_WRITE);
    rnic_expect_async(c->r, RNIC_AE_RQ_MSN_RANGE, c->qp.number);
    wire_expect_terminate(c->peer, NO_BUFFER);
    connection_free(c);
}

/* ----------------------------------------------------------- asking for atomics */

static void test_fetch_add(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_cqe cqe;
    Atomic a;

    post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 0x1122334455667788ULL, 0, WORDS + 4);
    be_asked(c);
    a = get_atomic(c->peer, 2);
    g_assert_cmphex(a.op, ==, FETCH_ADD);
    g_assert_cmphex(a.stag, ==, CONNECTION_REMOTE_STAG);
    g_assert_cmphex(a.to, ==, 0x123456789abcde0ULL);
    g_assert_cmphex(a.data, ==, 0x1122334455667788ULL);
    g_assert_cmphex(a.mask, ==, 0);
    g_assert_cmphex(a.compare, ==, 0);
    g_assert_cmphex(a.compare_mask, ==, ONES);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    put_response(c->peer, 1, a.id, 0x0102030405060708ULL);
    cqe = rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_SQ_FETCH_ADD);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, WORD);
    g_assert_cmphex(word_at(c, WORDS + 4), ==, 0x0102030405060708ULL);
    g_assert_cmphex(word_at(c, WORDS + 12), ==, 0);
    connection_free(c);
}

static void test_compare_swap(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_cqe cqe;
    Atomic a;

    post_atomic(c, RNIC_SQ_COMPARE_SWAP, 1, 0xaabbccddeeff0011ULL,
                0x2233445566778899ULL, WORDS);
    be_asked(c);
    a = get_atomic(c->peer, 2);
    g_assert_cmphex(a.op, ==, CMP_SWAP);
    g_assert_cmphex(a.data, ==, 0xaabbccddeeff0011ULL);
    g_assert_cmphex(a.mask, ==, ONES);
    g_assert_cmphex(a.compare, ==, 0x2233445566778899ULL);
    g_assert_cmphex(a.compare_mask, ==, ONES);
    put_response(c->peer, 1, a.id, 0x8877665544332211ULL);
    cqe = rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpuint(cqe.opcode, ==, RNIC_SQ_COMPARE_SWAP);
    g_assert_cmphex(word_at(c, WORDS), ==, 0x8877665544332211ULL);
    connection_free(c);
}

/* Each is answered on its own, Reads among them; completions are in order. */
static void test_requests_in_order(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[LENGTH] = { 1 };
    Atomic first, second;
    WireRead read;

    post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, WORDS);
    be_asked(c);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 8192, LENGTH);
    post_atomic(c, RNIC_SQ_COMPARE_SWAP, 3, 1, 0, WORDS + 8);
    first = get_atomic(c->peer, 2);
    wire_get_read_request(c->peer, 3, &read);
    second = get_atomic(c->peer, 4);
    g_assert_cmphex(first.id, !=, second.id);
    put_response(c->peer, 1, first.id, 10);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data, LENGTH);
    put_response(c->peer, 2, second.id, 20);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    g_assert_cmphex(word_at(c, WORDS), ==, 10);
    g_assert_cmphex(word_at(c, WORDS + 8), ==, 20);
    connection_free(c);
}

/* RFC 7306 5.2: Reads and atomics together, as many as ORD. */
static void test_ord(void)
{
    ConnectionOptions options = { .ord = 2 };
    Connection *c = connection_new(&options);
    uint8_t data[LENGTH] = { };
    Atomic first, second;
    WireRead read;

    post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, WORDS);
    be_asked(c);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 8192, LENGTH);
    post_atomic(c, RNIC_SQ_FETCH_ADD, 3, 1, 0, WORDS);
    first = get_atomic(c->peer, 2);
    wire_get_read_request(c->peer, 3, &read);
    wire_expect_silence(c->peer);
    put_response(c->peer, 1, first.id, 0);
    second = get_atomic(c->peer, 4);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data, LENGTH);
    put_response(c->peer, 2, second.id, 0);
    for (unsigned i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

/* A Read Fence waits for atomics, and an atomic may have one. */
static void test_fence(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[LENGTH] = { };
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 2, 0, LENGTH);
    WireRead read;
    Atomic a;

    post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, WORDS);
    wr.flags |= RNIC_WQE_READ_FENCE;
    rnic_post_send(c->r, &c->qp, &wr);
    be_asked(c);
    a = get_atomic(c->peer, 2);
    wire_expect_silence(c->peer);
    put_response(c->peer, 1, a.id, 0);
    wire_get_send(c->peer, WIRE_SEND, 1, data, LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);

    connection_post(c, RNIC_SQ_RDMA_READ, 3, 8192, LENGTH);
    wr = atomic_wr(c, RNIC_SQ_FETCH_ADD, 4, 1, 0, WORDS);
    wr.flags |= RNIC_WQE_READ_FENCE;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 3, &read);
    wire_expect_silence(c->peer);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data, LENGTH);
    a = get_atomic(c->peer, 4);
    put_response(c->peer, 2, a.id, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);
    connection_free(c);
}

static void test_request_forms(void)
{
    static const struct {
        uint8_t opcode, num_sge, flags, status;
        uint32_t length;
        uint64_t compare;
    } cases[] = {
        { RNIC_SQ_FETCH_ADD, 0, 0, RNIC_WC_INVALID_WQE, WORD, 0 },
        { RNIC_SQ_FETCH_ADD, 2, 0, RNIC_WC_INVALID_WQE, WORD, 0 },
        { RNIC_SQ_FETCH_ADD, 1, 0, RNIC_WC_INVALID_WQE, WORD, 1 },
        { RNIC_SQ_FETCH_ADD, 1, 0, RNIC_WC_INVALID_LENGTH, 7, 0 },
        { RNIC_SQ_COMPARE_SWAP, 1, 0, RNIC_WC_INVALID_LENGTH, 16, 0 },
        { RNIC_SQ_COMPARE_SWAP, 1, RNIC_WQE_INLINE, RNIC_WC_INVALID_WQE, 0, 0 },
    };
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        RnicWr wr = atomic_wr(c, cases[i].opcode, 1, 1, cases[i].compare, WORDS);

        g_test_message("case %u", i);
        connection_establish(c, NULL);
        wr.num_sge = cases[i].num_sge;
        wr.flags |= cases[i].flags;
        wr.sge[0].length = cpu_to_le32(cases[i].length);
        rnic_post_send(c->r, &c->qp, &wr);
        rnic_expect_cqe(c->r, &c->send_cq, 1, cases[i].status);
        wire_expect_terminate(c->peer, 0);
        connection_recycle(c);
    }
    connection_free(c);
}

/* The sink is local memory, and has to be there still when the answer comes. */
static void test_sink_gone(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr;
    RnicMr mr;
    Atomic a;

    rnic_create_mr(c->r, &mr, c->r->pd, 4096, RNIC_ACCESS_LOCAL_READ);
    wr = atomic_wr(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, 0);
    wr.sge[0] = rnic_sge(&mr, 0, WORD);
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_ACCESS_VIOLATION);
    connection_recycle(c);

    rnic_create_mr(c->r, &mr, c->r->pd, 4096,
                   RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE);
    connection_establish(c, NULL);
    wr.sge[0] = rnic_sge(&mr, 0, WORD);
    rnic_post_send(c->r, &c->qp, &wr);
    be_asked(c);
    a = get_atomic(c->peer, 2);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG, mr.stag),
                     ==, RNIC_ST_OK);
    put_response(c->peer, 1, a.id, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_INVALID_STAG);
    wire_expect_terminate(c->peer, 0);
    connection_free(c);
}

/* A peer that answers what was not asked, or not so. */
static void test_wrong_answers(void)
{
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < 4; i++) {
        uint8_t data[LENGTH] = { };
        WireRead read = { };
        Atomic a = { };

        g_test_message("case %u", i);
        connection_establish(c, NULL);
        post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, WORDS);
        be_asked(c);
        a = get_atomic(c->peer, 2);
        if (i == 0) {           /* another request's */
            put_response(c->peer, 1, a.id + 1, 0);
        } else if (i == 1) {    /* a Read's answer */
            wire_put_read_response(c->peer, c->mr.stag, c->mr.va + WORDS, data,
                                   WORD);
        } else if (i == 2) {    /* the same again */
            put_response(c->peer, 1, a.id, 0);
            put_response(c->peer, 2, a.id, 0);
        } else {                /* an atomic's to a Read */
            put_response(c->peer, 1, a.id, 0);
            connection_post(c, RNIC_SQ_RDMA_READ, 2, 8192, LENGTH);
            wire_get_read_request(c->peer, 3, &read);
            put_response(c->peer, 2, a.id + 1, 0);
        }
        rnic_expect_async(c->r, RNIC_AE_UNEXPECTED_OPCODE, c->qp.number);
        wire_expect_terminate(c->peer, OPCODE);
        connection_recycle(c);
    }
    connection_free(c);
}

/* The peer's Terminate about an Atomic Request (RFC 7306 8.2: R is clear). */
static void test_terminated(void)
{
    uint8_t octets[24] = { 0x02, 0x07, 0xc0, 0, 0, 70, 0x41, 0x4a };
    Connection *c = connection_new(NULL);
    struct rnic_cqe cqe;

    octets[15] = 1;             /* QN 1, MSN 2 */
    octets[19] = 2;
    post_atomic(c, RNIC_SQ_FETCH_ADD, 1, 1, 0, WORDS);
    connection_post(c, RNIC_SQ_SEND, 2, 0, LENGTH);
    be_asked(c);
    get_atomic(c->peer, 2);
    put_message(c->peer, WIRE_TERMINATE, 2, 1, octets, sizeof(octets));
    cqe = rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_REMOTE_TERMINATION);
    g_assert_cmphex(le32_to_cpu(cqe.imm), ==, CATASTROPHIC);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    connection_free(c);
}

/* ------------------------------------------------------ what the peer asks for */

static Atomic fetch_add(const RnicMr *mr, uint32_t offset, uint32_t id,
                        uint64_t add)
{
    return (Atomic) { .op = FETCH_ADD, .id = id, .stag = mr->stag,
                      .to = mr->va + offset, .data = add,
                      .compare_mask = ONES };
}

static Atomic cmp_swap(const RnicMr *mr, uint32_t offset, uint32_t id,
                       uint64_t compare, uint64_t swap)
{
    return (Atomic) { .op = CMP_SWAP, .id = id, .stag = mr->stag,
                      .to = mr->va + offset, .data = swap, .mask = ONES,
                      .compare = compare, .compare_mask = ONES };
}

typedef struct Target {
    Connection *c;
    RnicMr mr;                  /* with the right */
} Target;

static void target_establish(Target *t)
{
    connection_establish(t->c, &with_atomics);
    ask(t->c);
}

static void target_init(Target *t)
{
    t->c = connection_prepare(&with_atomics);
    rnic_create_mr(t->c->r, &t->mr, t->c->r->pd, 8192, ATOMIC_ACCESS);
}

static void test_execute(void)
{
    Target t;
    WirePeer *peer;
    Atomic a;

    target_init(&t);
    target_establish(&t);
    peer = t.c->peer;
    set_word(t.c, &t.mr, 8, 0xfffffffffffffffeULL);
    a = fetch_add(&t.mr, 8, 0xabcdef01, 5);
    put_atomic(peer, &a);
    get_response(peer, 1, 0xabcdef01, 0xfffffffffffffffeULL);
    g_assert_cmphex(mr_word(t.c, &t.mr, 8), ==, 3);
    a = cmp_swap(&t.mr, 8, 2, 3, 0x0123456789abcdefULL);
    put_atomic(peer, &a);
    get_response(peer, 2, 2, 3);
    g_assert_cmphex(mr_word(t.c, &t.mr, 8), ==, 0x0123456789abcdefULL);
    a = cmp_swap(&t.mr, 8, 3, 3, 4);            /* not equal */
    put_atomic(peer, &a);
    get_response(peer, 3, 3, 0x0123456789abcdefULL);
    g_assert_cmphex(mr_word(t.c, &t.mr, 8), ==, 0x0123456789abcdefULL);
    /* RFC 7306 5.1: masks.  No carry from bit 31; only the low half counts. */
    set_word(t.c, &t.mr, 16, 0x00000001ffffffffULL);
    a = fetch_add(&t.mr, 16, 4, 0x0000000100000001ULL);
    a.mask = 0x8000000080000000ULL;
    put_atomic(peer, &a);
    get_response(peer, 4, 4, 0x00000001ffffffffULL);
    g_assert_cmphex(mr_word(t.c, &t.mr, 16), ==, 0x0000000200000000ULL);
    a = cmp_swap(&t.mr, 16, 5, 0xdead000000000000ULL, 0x1111111122222222ULL);
    a.compare_mask = 0x00000000ffffffffULL;
    a.mask = 0x0000ffff0000ffffULL;
    put_atomic(peer, &a);
    get_response(peer, 5, 5, 0x0000000200000000ULL);
    g_assert_cmphex(mr_word(t.c, &t.mr, 16), ==, 0x0000111100002222ULL);
    g_assert_cmphex(mr_word(t.c, &t.mr, 0), ==, 0);
    g_assert_cmphex(mr_word(t.c, &t.mr, 24), ==, 0);
    rnic_expect_no_async(t.c->r);
    connection_free(t.c);
}

/* RFC 7306 5.2: one after the other, answered in order, Reads among them. */
static void test_execute_in_order(void)
{
    Target t;
    WireRead read = { .sink_stag = 0x77, .sink_to = 0x1000, .size = WORD };
    uint64_t got;
    Atomic a;

    target_init(&t);
    target_establish(&t);
    read.source_stag = t.mr.stag;
    read.source_to = t.mr.va;
    for (unsigned i = 0; i < 2; i++) {
        a = fetch_add(&t.mr, 0, i, 1);
        put_atomic(t.c->peer, &a);
        wire_put_read_request(t.c->peer, &read);
    }
    for (unsigned i = 0; i < 2; i++) {
        get_response(t.c->peer, i + 1, i, i);
        g_assert_cmpuint(wire_get_tagged(t.c->peer, WIRE_READ_RESPONSE, 0x77,
                                         0x1000, &got, WORD), ==, WORD);
        g_assert_cmphex(le64_to_cpu(got), ==, i + 1);
    }
    connection_free(t.c);
}

static void execute_error(Target *t, const Atomic *a, uint16_t event,
                          uint16_t terminate)
{
    WireTerminate got;

    target_establish(t);
    put_atomic(t->c->peer, a);
    rnic_expect_async(t->c->r, event, t->c->qp.number);
    got = wire_expect_terminate(t->c->peer, terminate);
    g_assert_cmphex(got.flags, ==, 0xc0);       /* RFC 7306 8.2: no R */
    g_assert_cmpuint(got.segment_length, ==, 70);
    g_assert_cmphex(got.ddp[1], ==, 0x4a);
    connection_recycle(t->c);
}

/* Through a window: its own right counts, which needs the region's LOCAL_WRITE. */
static void test_window(void)
{
    ConnectionOptions options = with_atomics;
    StagBind bind = { .length = 64, .access = RNIC_ACCESS_REMOTE_ATOMIC };
    uint32_t local = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_MW_BIND;
    RnicMr region, read_only;
    Connection *c;
    Atomic a;

    options.enables |= RNIC_QP_ENABLE_BIND;
    c = connection_new(&options);
    rnic_create_mr(c->r, &read_only, c->r->pd, 4096, local);
    rnic_create_mr(c->r, &region, c->r->pd, 4096,
                   local | RNIC_ACCESS_LOCAL_WRITE);
    ask(c);
    bind.mw = stag_alloc_mw(c->r, c->r->pd, 1);
    bind.mr = region.stag;
    bind.va = region.va + 64;
    g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    a = fetch_add(&region, 64, 1, 3);
    a.stag = bind.mw;
    put_atomic(c->peer, &a);
    get_response(c->peer, 1, 1, 0);
    g_assert_cmphex(mr_word(c, &region, 64), ==, 3);
    a.to += 64;
    put_atomic(c->peer, &a);
    rnic_expect_async(c->r, RNIC_AE_IRRQ_BASE_BOUNDS, c->qp.number);
    wire_expect_terminate(c->peer, BOUNDS);
    connection_recycle(c);

    connection_establish(c, &options);
    bind.mw = stag_alloc_mw(c->r, c->r->pd, 1);
    bind.mr = read_only.stag;
    bind.va = read_only.va;
    g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_ACCESS_VIOLATION);
    connection_free(c);
}

static void test_execute_errors(void)
{
    Target t;
    RnicMr other, no_right;
    Atomic a;

    target_init(&t);
    rnic_create_mr(t.c->r, &other, rnic_alloc_pd(t.c->r), 4096, ATOMIC_ACCESS);
    rnic_create_mr(t.c->r, &no_right, t.c->r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    a = fetch_add(&t.mr, 0, 1, 1);
    a.stag ^= 0x40;
    execute_error(&t, &a, RNIC_AE_IRRQ_INVALID_STAG, STAG);
    a = fetch_add(&other, 0, 1, 1);
    execute_error(&t, &a, RNIC_AE_IRRQ_INVALID_PD, STREAM);
    a = cmp_swap(&no_right, 0, 1, 0, 1);
    execute_error(&t, &a, RNIC_AE_IRRQ_ACCESS, ACCESS);
    a = fetch_add(&t.mr, 8192, 1, 1);
    execute_error(&t, &a, RNIC_AE_IRRQ_BASE_BOUNDS, BOUNDS);
    a = fetch_add(&t.mr, 8188, 1, 1);
    execute_error(&t, &a, RNIC_AE_IRRQ_BASE_BOUNDS, BOUNDS);
    a = fetch_add(&t.mr, 0, 1, 1);
    a.to = UINT64_MAX - 3;
    execute_error(&t, &a, RNIC_AE_IRRQ_WRAP, WRAP);
    for (unsigned i = 1; i < WORD; i++) {
        a = fetch_add(&t.mr, i, 1, 1);
        execute_error(&t, &a, RNIC_AE_ATOMIC_ALIGNMENT, CATASTROPHIC);
    }
    a = fetch_add(&t.mr, 4092, 1, 1);
    execute_error(&t, &a, RNIC_AE_ATOMIC_ALIGNMENT, CATASTROPHIC);
    a = fetch_add(&t.mr, 0, 1, 1);
    a.op = 1;                   /* reserved: Swap of the drafts */
    execute_error(&t, &a, RNIC_AE_UNEXPECTED_OPCODE, OPCODE);
    a.op = 15;
    execute_error(&t, &a, RNIC_AE_UNEXPECTED_OPCODE, OPCODE);
    for (unsigned i = 0; i < 16; i += WORD) {
        g_assert_cmphex(mr_word(t.c, &t.mr, i), ==, 0);
    }
    g_assert_cmphex(mr_word(t.c, &no_right, 0), ==, 0);
    connection_free(t.c);
}

static void test_execute_not_enabled(void)
{
    Connection *c = connection_new(NULL);
    Atomic a;
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, 4096, ATOMIC_ACCESS);
    ask(c);
    a = fetch_add(&mr, 0, 1, 1);
    put_atomic(c->peer, &a);
    rnic_expect_async(c->r, RNIC_AE_ATOMIC_NOT_ENABLED, c->qp.number);
    wire_expect_terminate(c->peer, QUEUE);
    g_assert_cmphex(mr_word(c, &mr, 0), ==, 0);
    connection_free(c);
}

/* RFC 7306 5.2: IRD is for both, Reads and atomics. */
static void test_ird(void)
{
    ConnectionOptions options = with_atomics;
    Connection *c;
    RnicMr mr;
    Atomic a;

    options.ird = 1;
    c = connection_new(&options);
    rnic_create_mr(c->r, &mr, c->r->pd, 4096, ATOMIC_ACCESS);
    ask(c);
    a = fetch_add(&mr, 0, 1, 1);
    put_atomics_at_once(c, &a, 4);
    rnic_expect_async(c->r, RNIC_AE_IRRQ_TOO_MANY, c->qp.number);
    connection_free(c);
}

/* None is lost, and none is done twice. */
static void test_execute_many(void)
{
    enum { ROUNDS = 500 };
    Target t;

    target_init(&t);
    target_establish(&t);
    for (unsigned i = 0; i < ROUNDS; i++) {
        Atomic a = fetch_add(&t.mr, 4096 + 8, i, i);

        put_atomic(t.c->peer, &a);
        get_response(t.c->peer, i + 1, i, (uint64_t)i * (i - 1) / 2);
    }
    g_assert_cmphex(mr_word(t.c, &t.mr, 4096 + 8), ==,
                    ROUNDS * (ROUNDS - 1) / 2);
    connection_free(t.c);
}

/* ------------------------------------------------------------------- rights */

static uint16_t try_register(Rnic *r, uint32_t access)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    uint64_t bus = rnic_alloc(r, 4096);

    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.va = cpu_to_le64(bus);
    sqe.register_mr.length = cpu_to_le64(4096);
    sqe.register_mr.access = cpu_to_le32(access);
    sqe.register_mr.pages = rnic_pages(r, bus, 4096);
    return rnic_admin(r, &sqe, NULL);
}

static void test_rights(void)
{
    Rnic *r = rnic_boot("", "");
    uint32_t atomic = RNIC_ACCESS_REMOTE_ATOMIC;

    rnic_up(r);
    g_assert_cmpuint(try_register(r, RNIC_ACCESS_LOCAL_WRITE | atomic), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(try_register(r, RNIC_ACCESS_LOCAL_READ | atomic), ==,
                     RNIC_ST_INVALID_ACCESS_RIGHTS);
    g_assert_cmpuint(try_register(r, atomic), ==,
                     RNIC_ST_INVALID_ACCESS_RIGHTS);
    rnic_up_with(r, rnic_features(r) & ~EXTENSIONS);
    g_assert_cmpuint(try_register(r, RNIC_ACCESS_LOCAL_WRITE | atomic), ==,
                     RNIC_ST_INVALID_ACCESS_RIGHTS);
    rnic_quit(r);
}

/* -------------------------------------------------------------- two devices */

typedef struct Pair {
    DirectPair p;
    RnicMr target;              /* of b, with the right */
} Pair;

static void set_enables(Connection *c, uint32_t enables)
{
    g_assert_cmpuint(rnic_modify_qp_enables(c->r, &c->qp, enables), ==,
                     RNIC_ST_OK);
}

static Pair pair_up(void)
{
    Pair pair = { .p = direct_pair_up() };
    Connection *b = pair.p.b;

    set_enables(b, with_atomics.enables);
    rnic_create_mr(b->r, &pair.target, b->r->pd, 4096, ATOMIC_ACCESS);
    return pair;
}

static void post_to(Pair *pair, uint8_t opcode, uint64_t wr_id, uint32_t length,
                    const char *immediate)
{
    Connection *a = pair->p.a;
    RnicWr wr = connection_wr(a, opcode, wr_id, 0, length);

    wr.immediate = immediate;
    wr.remote_stag = pair->p.b->mr.stag;
    wr.remote_to = pair->p.b->mr.va + 65536;
    rnic_post_send(a->r, &a->qp, &wr);
}

static void post_atomic_to(Pair *pair, uint8_t opcode, uint64_t wr_id,
                           uint64_t add_swap, uint64_t compare,
                           uint64_t offset)
{
    Connection *a = pair->p.a;
    RnicWr wr = connection_wr(a, opcode, wr_id, WORDS, WORD);

    wr.remote_stag = pair->target.stag;
    wr.remote_to = pair->target.va + offset;
    wr.add_swap = add_swap;
    wr.compare = compare;
    rnic_post_send(a->r, &a->qp, &wr);
}

/* Everything, between the connected ends. */
static void assert_pair_works(Pair *pair)
{
    Connection *a = pair->p.a, *b = pair->p.b;
    uint8_t data[LENGTH], got[LENGTH];

    rnic_pattern(data, LENGTH, 1);
    connection_fill(a, 0, data, LENGTH);
    for (unsigned i = 0; i < 10; i++) {
        connection_recv(b, 2 * i, 0, LENGTH);
        connection_recv(b, 2 * i + 1, 8192, LENGTH);
        post_to(pair, RNIC_SQ_WRITE_IMMEDIATE, 2 * i, LENGTH, "abcd");
        post_to(pair, RNIC_SQ_SEND_IMMEDIATE, 2 * i + 1, LENGTH, "efgh");
        rnic_expect_cqe(a->r, &a->send_cq, 2 * i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(a->r, &a->send_cq, 2 * i + 1, RNIC_WC_SUCCESS);
        expect_received(b, 2 * i, LENGTH, RNIC_SQ_WRITE_IMMEDIATE,
                        RNIC_CQE_IMMEDIATE, "abcd");
        expect_received(b, 2 * i + 1, LENGTH, 0, RNIC_CQE_IMMEDIATE, "efgh");
        connection_peek(b, 65536, got, LENGTH);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
        connection_peek(b, 8192, got, LENGTH);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
    }
    set_word(b, &pair->target, 0, 40);
    post_atomic_to(pair, RNIC_SQ_FETCH_ADD, 50, 2, 0, 0);
    rnic_expect_cqe(a->r, &a->send_cq, 50, RNIC_WC_SUCCESS);
    g_assert_cmphex(word_at(a, WORDS), ==, 40);
    post_atomic_to(pair, RNIC_SQ_COMPARE_SWAP, 51, 7, 42, 0);
    rnic_expect_cqe(a->r, &a->send_cq, 51, RNIC_WC_SUCCESS);
    g_assert_cmphex(word_at(a, WORDS), ==, 42);
    g_assert_cmphex(mr_word(b, &pair->target, 0), ==, 7);
    direct_assert_quiet(a);
    direct_assert_quiet(b);
}

static void test_pair_direct(void)
{
    Pair pair = pair_up();

    direct_pair_connect(&pair.p);
    assert_pair_works(&pair);
    direct_assert_works(&pair.p);
    direct_pair_free(&pair.p);
}

/* As the guests' connection managers do it. */
static void pair_connect_by_cm(Pair *pair)
{
    Connection *a = pair->p.a, *b = pair->p.b;
    uint16_t port = wire_free_port(PEERS);
    struct rnic_cm_event event;
    uint32_t listener;

    g_assert_cmpuint(rnic_try_listen(b->r, wire_guest_ip(PEERS), port, 7,
                                     &listener), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(PEERS), port,
                                      4, 4, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(b->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(b->r, le32_to_cpu(event.endpoint), &b->qp,
                                     4, 4, 2, NULL, 0), ==, RNIC_ST_OK);
    rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    rnic_expect_cm(b->r, RNIC_CM_ESTABLISHED);
    g_assert_cmpuint(rnic_admin_object(b->r, RNIC_ADMIN_CM_UNLISTEN, listener),
                     ==, RNIC_ST_OK);
}

static void test_pair_cm(void)
{
    Pair pair = pair_up();

    pair_connect_by_cm(&pair);
    assert_pair_works(&pair);
    direct_pair_free(&pair.p);
}

/* Both ends ask at the same time, and each is answered. */
static void test_pair_both_ask(void)
{
    Pair pair = pair_up();
    Connection *ends[2] = { pair.p.a, pair.p.b };

    pair_connect_by_cm(&pair);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 2; i++) {
            connection_recv(ends[i], round, 8192, LENGTH);
        }
        for (unsigned i = 0; i < 2; i++) {
            post_immediate(ends[i], RNIC_SQ_SEND_IMMEDIATE, round, "abcd");
        }
        for (unsigned i = 0; i < 2; i++) {
            rnic_expect_cqe(ends[i]->r, &ends[i]->send_cq, round,
                            RNIC_WC_SUCCESS);
            expect_received(ends[i], round, LENGTH, 0, RNIC_CQE_IMMEDIATE,
                            "abcd");
        }
    }
    direct_assert_quiet(ends[0]);
    direct_assert_quiet(ends[1]);
    direct_pair_free(&pair.p);
}

/* After a direct connect immediate data waits for a receive, as a Send does. */
static void test_pair_receive_later(void)
{
    Pair pair = pair_up();
    Connection *a = pair.p.a, *b = pair.p.b;

    direct_pair_connect(&pair.p);
    post_to(&pair, RNIC_SQ_WRITE_IMMEDIATE, 1, LENGTH, "abcd");
    post_to(&pair, RNIC_SQ_SEND_IMMEDIATE, 2, LENGTH, "efgh");
    rnic_settle(a->r);
    rnic_expect_no_cqe(a->r, &a->send_cq);
    connection_recv(b, 3, 0, LENGTH);
    expect_received(b, 3, LENGTH, RNIC_SQ_WRITE_IMMEDIATE, RNIC_CQE_IMMEDIATE,
                    "abcd");
    rnic_expect_cqe(a->r, &a->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_settle(a->r);
    rnic_expect_no_cqe(a->r, &a->send_cq);
    connection_recv(b, 4, 0, LENGTH);
    expect_received(b, 4, LENGTH, 0, RNIC_CQE_IMMEDIATE, "efgh");
    rnic_expect_cqe(a->r, &a->send_cq, 2, RNIC_WC_SUCCESS);
    direct_assert_works(&pair.p);
    direct_pair_free(&pair.p);
}

/* The error is the atomic's own completion. */
static void test_pair_errors(void)
{
    static const struct {
        uint32_t offset;
        uint16_t event, terminate;
    } cases[] = {
        { 4, RNIC_AE_ATOMIC_ALIGNMENT, CATASTROPHIC },
        { 4096, RNIC_AE_IRRQ_BASE_BOUNDS, BOUNDS },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        Pair pair = pair_up();
        Connection *a = pair.p.a, *b = pair.p.b;
        struct rnic_cqe cqe;

        direct_pair_connect(&pair.p);
        connection_recv(b, 1, 0, LENGTH);
        post_to(&pair, RNIC_SQ_SEND, 1, LENGTH, NULL);
        post_atomic_to(&pair, RNIC_SQ_FETCH_ADD, 2, 2, 0, cases[i].offset);
        post_to(&pair, RNIC_SQ_SEND, 3, LENGTH, NULL);
        rnic_expect_cqe(a->r, &a->send_cq, 1, RNIC_WC_SUCCESS);
        cqe = rnic_expect_cqe(a->r, &a->send_cq, 2, RNIC_WC_REMOTE_TERMINATION);
        g_assert_cmphex(le32_to_cpu(cqe.imm), ==, cases[i].terminate);
        rnic_expect_cqe(a->r, &a->send_cq, 3, RNIC_WC_FLUSHED);
        rnic_expect_async(b->r, cases[i].event, b->qp.number);
        direct_pair_free(&pair.p);
    }
}

/* A directly connected peer that says nothing of it in its private data. */
static void test_direct_not_agreed(void)
{
    ConnectionOptions options = { };
    Connection *c = connection_prepare(&options);
    int listener = wire_listen_at(PEERS, DIRECT_PORT);
    uint8_t got[LENGTH];

    c->peer = direct_meet_dial(c, listener);
    direct_to_rts(c, 0x654321, FOR_EVER, 0);
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    wire_get_send(c->peer, WIRE_SEND, 1, got, LENGTH);
    post_any(c, RNIC_SQ_FETCH_ADD, 2);
    wire_expect_silence(c->peer);
    direct_put_delivered(c->peer, 1);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_UNSUPPORTED);
    close(listener);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/extensions/asked", test_asked);
    qtest_add_func("rnic/extensions/answer-is-no", test_answer_is_no);
    qtest_add_func("rnic/extensions/asked-anew", test_asked_anew);
    qtest_add_func("rnic/extensions/no-reads", test_no_reads);
    qtest_add_func("rnic/extensions/question-waits-for-ord",
                   test_question_waits_for_ord);
    qtest_add_func("rnic/extensions/no-answer", test_no_answer);
    qtest_add_func("rnic/extensions/not-accepted", test_not_accepted);
    qtest_add_func("rnic/extensions/property", test_property);
    qtest_add_func("rnic/extensions/guest-asks-nothing",
                   test_guest_asks_nothing);
    qtest_add_func("rnic/extensions/not-agreed", test_not_agreed);
    qtest_add_func("rnic/extensions/send-solicited", test_send_solicited);
    qtest_add_func("rnic/extensions/send-forms", test_send_forms);
    qtest_add_func("rnic/extensions/send-long", test_send_long);
    qtest_add_func("rnic/extensions/send-bad", test_send_bad);
    qtest_add_func("rnic/extensions/receive-write", test_receive_write);
    qtest_add_func("rnic/extensions/receive-send", test_receive_send);
    qtest_add_func("rnic/extensions/receive-from-srq", test_receive_from_srq);
    qtest_add_func("rnic/extensions/wire-errors", test_wire_errors);
    qtest_add_func("rnic/extensions/no-receive", test_no_receive);
    qtest_add_func("rnic/extensions/fetch-add", test_fetch_add);
    qtest_add_func("rnic/extensions/compare-swap", test_compare_swap);
    qtest_add_func("rnic/extensions/requests-in-order",
                   test_requests_in_order);
    qtest_add_func("rnic/extensions/ord", test_ord);
    qtest_add_func("rnic/extensions/fence", test_fence);
    qtest_add_func("rnic/extensions/request-forms", test_request_forms);
    qtest_add_func("rnic/extensions/sink-gone", test_sink_gone);
    qtest_add_func("rnic/extensions/wrong-answers", test_wrong_answers);
    qtest_add_func("rnic/extensions/terminated", test_terminated);
    qtest_add_func("rnic/extensions/execute", test_execute);
    qtest_add_func("rnic/extensions/execute-in-order", test_execute_in_order);
    qtest_add_func("rnic/extensions/window", test_window);
    qtest_add_func("rnic/extensions/execute-errors", test_execute_errors);
    qtest_add_func("rnic/extensions/execute-not-enabled",
                   test_execute_not_enabled);
    qtest_add_func("rnic/extensions/ird", test_ird);
    qtest_add_func("rnic/extensions/execute-many", test_execute_many);
    qtest_add_func("rnic/extensions/rights", test_rights);
    qtest_add_func("rnic/extensions/pair-direct", test_pair_direct);
    qtest_add_func("rnic/extensions/pair-cm", test_pair_cm);
    qtest_add_func("rnic/extensions/pair-both-ask", test_pair_both_ask);
    qtest_add_func("rnic/extensions/pair-receive-later",
                   test_pair_receive_later);
    qtest_add_func("rnic/extensions/pair-errors", test_pair_errors);
    qtest_add_func("rnic/extensions/direct-not-agreed",
                   test_direct_not_agreed);
    return g_test_run();
}
