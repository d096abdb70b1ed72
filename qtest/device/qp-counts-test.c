/*
 * rnic: what QUERY_QP says that a queue pair has done (ABI 1.3)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

typedef struct Counts {
    uint64_t sq_wrs, rq_wrs, cqes, cqe_errors;
    uint64_t tx_fpdus, tx_octets, rx_fpdus, rx_octets;
} Counts;

static Counts counts_of(Connection *c)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    return (Counts) {
        .sq_wrs = le64_to_cpu(attr.sq_wrs),
        .rq_wrs = le64_to_cpu(attr.rq_wrs),
        .cqes = le64_to_cpu(attr.cqes),
        .cqe_errors = le32_to_cpu(attr.cqe_errors),
        .tx_fpdus = le64_to_cpu(attr.tx_fpdus),
        .tx_octets = le64_to_cpu(attr.bytes_sent),
        .rx_fpdus = le64_to_cpu(attr.rx_fpdus),
        .rx_octets = le64_to_cpu(attr.bytes_received),
    };
}

/* Since @before @c has done @more. */
static void expect_more(Connection *c, const Counts *before,
                        const Counts *more)
{
    Counts now = counts_of(c);

    g_assert_cmpuint(now.sq_wrs - before->sq_wrs, ==, more->sq_wrs);
    g_assert_cmpuint(now.rq_wrs - before->rq_wrs, ==, more->rq_wrs);
    g_assert_cmpuint(now.cqes - before->cqes, ==, more->cqes);
    g_assert_cmpuint(now.cqe_errors - before->cqe_errors, ==,
                     more->cqe_errors);
    g_assert_cmpuint(now.tx_fpdus - before->tx_fpdus, ==, more->tx_fpdus);
    g_assert_cmpuint(now.tx_octets - before->tx_octets, ==, more->tx_octets);
    g_assert_cmpuint(now.rx_fpdus - before->rx_fpdus, ==, more->rx_fpdus);
    g_assert_cmpuint(now.rx_octets - before->rx_octets, ==, more->rx_octets);
}

/* MPA's length, a DDP header of @header octets, payload, pad and CRC field. */
static uint64_t fpdu_octets(uint32_t header, uint32_t payload)
{
    return QEMU_ALIGN_UP(2 + header + payload, 4) + 4;
}

enum { UNTAGGED = 18, TAGGED = 14 };

/* Three Sends, the second of them unsignaled, and a Write of two segments. */
static void send_some(Connection *c)
{
    uint8_t got[2000];
    RnicWr quiet = connection_wr(c, RNIC_SQ_SEND, 2, 0, 33);

    quiet.flags = 0;
    connection_post(c, RNIC_SQ_SEND, 1, 0, 100);
    rnic_post_send(c->r, &c->qp, &quiet);
    connection_post(c, RNIC_SQ_SEND, 3, 0, 0);
    connection_post(c, RNIC_SQ_RDMA_WRITE, 4, 0, 1500);
    for (uint32_t msn = 1; msn <= 3; msn++) {
        wire_get_send(c->peer, WIRE_SEND, msn, got, sizeof(got));
    }
    connection_get_write(c, connection_wr(c, RNIC_SQ_RDMA_WRITE, 4, 0, 1500)
                         .remote_to, got, sizeof(got));
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);
}

/* Of mulpdu=1024. */
static Counts sent_some(void)
{
    return (Counts) {
        .sq_wrs = 4, .cqes = 3, .tx_fpdus = 5,
        .tx_octets = fpdu_octets(UNTAGGED, 100) + fpdu_octets(UNTAGGED, 33) +
                     fpdu_octets(UNTAGGED, 0) +
                     fpdu_octets(TAGGED, 1024 - TAGGED) +
                     fpdu_octets(TAGGED, 1500 - (1024 - TAGGED)),
    };
}

static void receive_two(Connection *c)
{
    uint8_t data[50] = "";

    for (uint32_t i = 0; i < 2; i++) {
        connection_recv(c, i, 0, sizeof(data));
        wire_put_send(c->peer, WIRE_SEND, 0, data, sizeof(data));
        rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
    }
}

static Counts received_two(void)
{
    return (Counts) {
        .rq_wrs = 2, .cqes = 2, .rx_fpdus = 2,
        .rx_octets = 2 * fpdu_octets(UNTAGGED, 50),
    };
}

static const ConnectionOptions options = { .properties = ",mulpdu=1024" };

/* Each QP has its own; the device's are the sum. */
static void test_own(void)
{
    Connection *a = connection_new(&options);
    Connection *b = connection_prepare_second(a, &options);
    struct rnic_counters first, then;
    Counts a_before, b_before, sent = sent_some(), received = received_two();

    connection_establish(b, &options);
    a_before = counts_of(a);
    b_before = counts_of(b);
    first = rnic_query_counters(a->r);
    send_some(a);
    receive_two(b);
    expect_more(a, &a_before, &sent);
    expect_more(b, &b_before, &received);
    then = rnic_query_counters(a->r);
#define EXPECT_SUM(name) \
    g_assert_cmpuint(le64_to_cpu(then.name) - le64_to_cpu(first.name), ==, \
                     sent.name + received.name)
    EXPECT_SUM(sq_wrs);
    EXPECT_SUM(rq_wrs);
    EXPECT_SUM(cqes);
    EXPECT_SUM(cqe_errors);
    EXPECT_SUM(tx_fpdus);
    EXPECT_SUM(tx_octets);
    EXPECT_SUM(rx_fpdus);
    EXPECT_SUM(rx_octets);
#undef EXPECT_SUM
    connection_free_second(b);
    connection_free(a);
}

/* Flushed WRs count as done, and their CQEs as errors. */
static void test_errors(void)
{
    Connection *c = connection_new(&options);
    Counts before = counts_of(c);

    connection_recv(c, 1, 0, 64);
    connection_recv(c, 2, 0, 64);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
    expect_more(c, &before, &(Counts) {
        .rq_wrs = 2, .cqes = 2, .cqe_errors = 2 });
    connection_free(c);
}

/* They belong to the QP, not to its connection; another QP begins with zero. */
static void test_life(void)
{
    Connection *a = connection_prepare(&options);
    Connection *b;
    Counts zero = { 0 }, before, sent = sent_some();

    expect_more(a, &zero, &zero);
    connection_establish(a, &options);
    before = counts_of(a);
    send_some(a);
    connection_recycle(a);
    expect_more(a, &before, &sent);
    connection_establish(a, &options);
    before = counts_of(a);
    g_assert_cmpuint(before.sq_wrs, >=, sent.sq_wrs);
    send_some(a);
    expect_more(a, &before, &sent);
    b = connection_prepare_second(a, &options);
    expect_more(b, &zero, &zero);
    connection_free_second(b);
    connection_free(a);
}

/*
 * A stream that holds receives and does nothing, one that does all the work, and one
 * that does a little: the counts tell which is which, and a command ends any of them.
 */
static void test_visible(void)
{
    enum { IDLE, GREEDY, FAIR, QPS };
    Connection *c[QPS] = { connection_new(&options) };
    uint8_t data[50] = "";
    Counts before[QPS], now[QPS];

    for (int i = 1; i < QPS; i++) {
        c[i] = connection_prepare_second(c[0], &options);
        connection_establish(c[i], &options);
    }
    for (int i = 0; i < QPS; i++) {
        before[i] = counts_of(c[i]);
    }
    for (uint32_t i = 0; i < 8; i++) {
        connection_recv(c[IDLE], i, 0, sizeof(data));
    }
    for (uint32_t i = 0; i < 64; i++) {
        connection_recv(c[GREEDY], i, 0, sizeof(data));
        wire_put_send(c[GREEDY]->peer, WIRE_SEND, 0, data, sizeof(data));
        rnic_expect_cqe(c[GREEDY]->r, &c[GREEDY]->recv_cq, i,
                        RNIC_WC_SUCCESS);
    }
    receive_two(c[FAIR]);
    for (int i = 0; i < QPS; i++) {
        now[i] = counts_of(c[i]);
    }
    g_assert_cmpuint(now[IDLE].rx_octets, ==, before[IDLE].rx_octets);
    g_assert_cmpuint(now[IDLE].rq_wrs, ==, before[IDLE].rq_wrs);
    g_assert_cmpuint(now[GREEDY].rx_octets - before[GREEDY].rx_octets, ==,
                     64 * fpdu_octets(UNTAGGED, sizeof(data)));
    g_assert_cmpuint(now[FAIR].rx_octets - before[FAIR].rx_octets, ==,
                     2 * fpdu_octets(UNTAGGED, sizeof(data)));
    for (int i = 0; i < FAIR; i++) {
        g_assert_cmpuint(rnic_modify_qp_state(c[i]->r, &c[i]->qp,
                                              RNIC_QPS_ERROR), ==,
                         RNIC_ST_OK);
        g_assert_cmpint(wire_end(c[i]->peer), ==, WIRE_RST);
    }
    /* What the idle one held comes back. */
    expect_more(c[IDLE], &before[IDLE], &(Counts) {
        .rq_wrs = 8, .cqes = 8, .cqe_errors = 8 });
    receive_two(c[FAIR]);
    for (int i = 1; i < QPS; i++) {
        connection_free_second(c[i]);
    }
    connection_free(c[0]);
    rnic_shows("V10.4.1-1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/qp-counts/own", test_own);
    qtest_add_func("rnic/qp-counts/errors", test_errors);
    qtest_add_func("rnic/qp-counts/life", test_life);
    qtest_add_func("rnic/qp-counts/visible", test_visible);
    return g_test_run();
}
