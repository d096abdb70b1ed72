/*
 * rnic: a stream whose peer answers no longer until the host gives up, and one
 * that the peer resets
 *
 * The peer's kernel takes octets as long as there is room, then it does not: for the
 * device's end it is like a peer that is gone.  With keepalive-s=1 the host's TCP
 * gives up after 2 seconds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { LARGE = 32 * 1024 * 1024 };

static Connection *new_impatient(void)
{
    return connection_new(&(ConnectionOptions) {
        .properties = ",fabric=impatient",
        .arguments = "-object rnic-fabric-tcp,id=impatient,map=loopback,"
                     "keepalive-s=1" });
}

/* More than the two ends' buffers have room for. */
static void post_much(Connection *c)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 1, 0, 0);
    RnicMr mr;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
}

/* The part of the Write that is there: no other message, Terminate least of all. */
static void assert_only_write_arrived(Connection *c)
{
    g_autofree uint8_t *octets = g_malloc(LARGE);
    size_t count = 0, at = 0;
    ssize_t n;

    while ((n = recv(c->peer->fd, octets + count, LARGE - count,
                     MSG_DONTWAIT)) > 0) {
        count += n;
    }
    while (at + 4 <= count) {
        size_t fpdu = lduw_be_p(octets + at) + 2;

        g_assert_cmphex(octets[at + 2] & 0x80, ==, 0x80);       /* tagged */
        g_assert_cmphex(octets[at + 3] & 0x0f, ==, WIRE_WRITE);
        at += ROUND_UP(fpdu, 4) + 4;                            /* pad, CRC */
    }
    g_assert_cmpuint(at, >, 0);
}

/* For comparison: the peer resets it. */
static void check_reset(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_aeqe aeqe;

    connection_recv(c, 10, 0, 8);
    wire_abort(c->peer);
    c->peer = NULL;
    aeqe = rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    g_assert_cmpuint(aeqe.qp_state, ==, RNIC_QPS_ERROR);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, 0);
    g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
    rnic_expect_cqe(c->r, &c->recv_cq, 10, RNIC_WC_FLUSHED);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void test_rts(void)
{
    Connection *c = new_impatient();
    struct rnic_cm_event event;
    struct rnic_aeqe aeqe;

    connection_recv(c, 10, 0, 8);
    connection_recv(c, 11, 0, 8);
    post_much(c);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 8);
    rnic_settle(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    aeqe = rnic_expect_async(c->r, RNIC_AE_LLP_LOST, c->qp.number);
    /* Straight from RTS, without a Terminate of its own. */
    g_assert_cmpuint(aeqe.qp_state, ==, RNIC_QPS_ERROR);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, 0);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_ERROR);
    g_assert_cmpint(rnic_query_qp(c->r, &c->qp).terminate_origin, ==, 0);
    g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->recv_cq, 10, RNIC_WC_FLUSHED);
    rnic_expect_cqe(c->r, &c->recv_cq, 11, RNIC_WC_FLUSHED);
    event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    g_assert_cmphex(le16_to_cpu(event.terminate), ==, 0);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    assert_only_write_arrived(c);
    /* It is as good as new. */
    connection_recycle(c);
    connection_establish(c, NULL);
    connection_free(c);
    check_reset();
    rnic_shows("V6.2.2.4-3 V8.3.3-8 V9.5.3-5 V6.6.2.5-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/llp-lost/rts", test_rts);
    return g_test_run();
}
