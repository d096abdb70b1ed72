/*
 * rnic: a reset of the device, and QEMU's end, while streams are busy
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

typedef void ResetFunction(Rnic *r);

enum { QUEUES = 7 };

/*
 * The first page of each queue that the device writes to, and that of the interrupts:
 * @msi, as rnic_msix_enable() made it.
 */
static void read_queues(Connection *c, uint64_t msi,
                        uint8_t pages[][RNIC_TEST_PAGE])
{
    const uint64_t queues[QUEUES] = {
        c->send_cq.memory, c->recv_cq.memory, c->qp.memory,
        c->r->async_eq.memory, c->r->cm_eq.memory, c->r->comp_eq.memory, msi,
    };

    for (int i = 0; i < QUEUES; i++) {
        rnic_mem_read(c->r, queues[i], pages[i], RNIC_TEST_PAGE);
    }
}

/* But for what rnic_up() makes. */
static void assert_empty(Rnic *r)
{
    struct rnic_counters counters = rnic_query_counters(r);

    g_assert_cmpuint(counters.qps, ==, 0);
    g_assert_cmpuint(counters.cqs, ==, 0);
    g_assert_cmpuint(counters.srqs, ==, 0);
    g_assert_cmpuint(counters.stags, ==, 0);
    g_assert_cmpuint(counters.listeners, ==, 0);
    g_assert_cmpuint(counters.endpoints, ==, 0);
    g_assert_cmpuint(le32_to_cpu(counters.pds), ==, 1);
    g_assert_cmpuint(le32_to_cpu(counters.eqs), ==, 3);
}

static void check_reset(ResetFunction *reset, bool crc)
{
    enum { LARGE = 8 * 1024 * 1024 };
    ConnectionOptions options = { .crc = crc };
    Connection *c = connection_new(&options);
    Connection *listening = connection_prepare_second(c, NULL);
    g_autofree uint8_t *data = g_malloc0(LARGE);
    g_autofree uint8_t *before = g_malloc(LARGE);
    g_autofree uint8_t *after = g_malloc(LARGE);
    uint8_t queues[QUEUES][RNIC_TEST_PAGE], later[QUEUES][RNIC_TEST_PAGE];
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .num_sge = 1,
                  .remote_stag = 7 };
    uint16_t port = wire_free_port(1);
    WireMpa request = wire_mpa_request();
    WirePeer *waiting, *probe;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port),
        .sin_addr.s_addr = htonl(wire_host_ip(1)) };
    uint64_t msi;
    RnicMr mr;
    uint8_t got[8];

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    waiting = wire_connect(c->r->qts, 9, 1, port);
    wire_mpa_put(waiting, &request);
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    /* Out, in, and a Read each way, all unfinished; who asks is told. */
    rnic_msix_enable(c->r);
    msi = c->r->msi;
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 1000);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = LARGE, .source_stag = mr.stag, .source_to = mr.va });
    memset(data, 0x5a, LARGE);
    c->peer->segment_size = 60000;
    wire_put_write(c->peer, c->mr.stag, c->mr.va, data, CONNECTION_MR_SIZE);

    reset(c->r);
    rnic_mem_fill(c->r, msi, 0, RNIC_TEST_PAGE);
    read_queues(c, msi, queues);
    rnic_mem_read(c->r, c->mr.bus, before, CONNECTION_MR_SIZE);
    /* Both streams are reset, and the listener is gone. */
    while (wire_end(c->peer) == WIRE_DATA) {
        uint8_t octets[65536];

        if (recv(c->peer->fd, octets, sizeof(octets), 0) < 0) {
            g_assert_cmpint(errno, ==, ECONNRESET);
            break;
        }
    }
    g_assert_false(wire_try_put(c->peer, data, 100000));
    wire_expect_end(waiting);
    probe = g_new0(WirePeer, 1);
    probe->fd = socket(AF_INET, SOCK_STREAM, 0);
    g_assert_cmpint(connect(probe->fd, (void *)&address, sizeof(address)),
                    ==, -1);
    wire_close(probe);
    wire_close(waiting);
    rnic_settle(c->r);
    rnic_mem_read(c->r, c->mr.bus, after, CONNECTION_MR_SIZE);
    g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
    read_queues(c, msi, later);
    g_assert_cmpmem(later, sizeof(later), queues, sizeof(queues));
    g_assert_cmphex(rnic_read32(c->r, RNIC_REG_STATUS), ==, 0);

    /* And it works again, empty. */
    rnic_up(c->r);
    assert_empty(c->r);
    wire_close(c->peer);
    c->peer = NULL;
    {
        Connection *again = connection_prepare_second(c, NULL);

        connection_establish(again, NULL);
        connection_post(again, RNIC_SQ_SEND, 1, 0, 8);
        wire_get_send(again->peer, WIRE_SEND, 1, got, 8);
        rnic_expect_cqe(again->r, &again->send_cq, 1, RNIC_WC_SUCCESS);
        connection_free_second(again);
    }
    connection_free_second(listening);
    connection_free(c);
}

static void test_control(void)
{
    check_reset(rnic_reset, false);
    check_reset(rnic_reset, true);
    rnic_shows("V5.1.4-2 V9.2.1.3-1");
}

static void test_flr(void)
{
    check_reset(rnic_flr, false);
}

static void test_bus(void)
{
    check_reset(rnic_bus_reset, false);
}

/* QEMU ends while streams are busy. */
static void test_quit(void)
{
    Connection *c = connection_new(NULL);

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 1000);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 100000, .source_stag = c->mr.stag,
        .source_to = c->mr.va });
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/reset-under-traffic/control", test_control);
    qtest_add_func("rnic/reset-under-traffic/flr", test_flr);
    qtest_add_func("rnic/reset-under-traffic/bus", test_bus);
    qtest_add_func("rnic/reset-under-traffic/quit", test_quit);
    return g_test_run();
}
