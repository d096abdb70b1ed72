/*
 * rnic: a stopped virtual machine (stop, cont, -S)
 *
 * While it is stopped nothing of the guest's memory changes: no data, no CQE,
 * no event, no interrupt. Peers may go on meanwhile; what they sent is there
 * after cont.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/traffic.h"

enum {
    STOPS = 20,
    WRITES = 64,                /* of a block of the peer's; 1 KiB each */
    PIECE = 1024,
    SENDS = 32,
    /* Where what they write is in the region */
    TAGGED = 0,
    UNTAGGED = WRITES * PIECE,
    SOURCE = UNTAGGED + SENDS * PIECE,
    LONG = 128 * 1024,
};

/* Of all memory that the test uses. */
static char *memory_checksum(Rnic *r)
{
    enum { FIRST = 16 * 1024 * 1024 };
    size_t size = r->next_free - FIRST;
    g_autofree uint8_t *memory = g_malloc(size);

    rnic_mem_read(r, FIRST, memory, size);
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, memory, size);
}

/* Returns what memory has to be like until vm_cont(). */
static char *vm_stop(Rnic *r)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'stop' }");
    return memory_checksum(r);
}

/* Real time passes; the guest's memory is as it was when the machine stopped. */
static void assert_memory_stayed(Rnic *r, const char *before)
{
    for (int i = 0; i < 4; i++) {
        g_autofree char *now = NULL;

        g_usleep(20 * 1000);
        now = memory_checksum(r);
        g_assert_cmpstr(now, ==, before);
    }
}

static void vm_cont(Rnic *r)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'cont' }");
}

/* Whatever goes on. */
static void assert_stops(Rnic *r)
{
    g_autofree char *stopped = vm_stop(r);

    assert_memory_stayed(r, stopped);
    vm_cont(r);
}

/* ------------------------------------------------------- what the peer sends */

/* Writes, each with octets of its own, to one place after the other. */
static void append_writes(Connection *c, GByteArray *block)
{
    for (int i = 0; i < WRITES; i++) {
        uint8_t payload[PIECE], ulpdu[PIECE + 64], fpdu[2 * PIECE];
        WireSegment segment = {
            .opcode = WIRE_WRITE, .tagged = true, .last = true,
            .ddp_version = 1, .rdmap_version = 1, .stag = c->mr.stag,
            .to = c->mr.va + TAGGED + (i & (WRITES / 2 - 1)) * PIECE,
            .length = PIECE, .payload = payload,
        };
        size_t length;

        /* The second half of the Writes goes over the first. */
        rnic_pattern(payload, PIECE, i);
        length = wire_encode_segment(&segment, ulpdu);
        length = wire_encode_fpdu(c->peer, ulpdu, length, fpdu);
        g_byte_array_append(block, fpdu, length);
    }
}

static Pump *pump_writes(Connection *c)
{
    g_autoptr(GByteArray) block = g_byte_array_new();

    append_writes(c, block);
    return pump_new(c->peer->fd, block->data, block->len);
}

static void assert_writes_arrived(Connection *c)
{
    WireRead fence = { };

    wire_put_read_request(c->peer, &fence);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, NULL, 0);
    for (int i = 0; i < WRITES / 2; i++) {
        uint8_t expected[PIECE], got[PIECE];

        rnic_pattern(expected, PIECE, i + WRITES / 2);
        connection_peek(c, TAGGED + i * PIECE, got, PIECE);
        g_assert_cmpmem(got, PIECE, expected, PIECE);
    }
}

/* ------------------------------------------------------------------ the tests */

static void wait_blocks(Rnic *r, Pump *pump, uint64_t more)
{
    uint64_t until = pump_blocks(pump) + more;

    RNIC_UNTIL(r, pump_blocks(pump) >= until);
}

static void test_received_writes(void)
{
    Connection *c = connection_new(NULL);
    Pump *pump = pump_writes(c);

    rnic_msix_enable(c->r);
    for (int i = 0; i < STOPS; i++) {
        wait_blocks(c->r, pump, 2);
        assert_stops(c->r);
    }
    wait_blocks(c->r, pump, 2);
    pump_free(pump);
    assert_writes_arrived(c);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    connection_free(c);
}

/*
 * A ring of signaled Writes that takes a while, the CQ armed: CQEs, an event,
 * an interrupt.
 */
static void post_round(Connection *c, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, i, SOURCE, LONG);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    rnic_ring_sq(c->r, &c->qp);
}

static void reap_round(Connection *c, unsigned count)
{
    struct rnic_ceqe event;

    for (unsigned i = 0; i < count; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    rnic_eq_wait(c->r, &c->r->comp_eq, &event);
}

static void test_sent_writes(void)
{
    enum { DEPTH = 512 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .sq_depth = DEPTH });
    Drain *drain = drain_new(&c->peer->fd, 1);

    rnic_msix_enable(c->r);
    for (int i = 0; i < STOPS; i++) {
        post_round(c, DEPTH);
        assert_stops(c->r);
        reap_round(c, DEPTH);
    }
    drain_free(drain);
    connection_free(c);
}

/* Messages that come while the machine is stopped are there after cont. */
static void test_received_messages(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .rq_depth = SENDS });
    uint8_t data[PIECE], got[PIECE];

    rnic_msix_enable(c->r);
    for (int round = 0; round < STOPS; round++) {
        g_autofree char *stopped = NULL;

        for (int i = 0; i < SENDS; i++) {
            connection_recv(c, i, UNTAGGED + i * PIECE, PIECE);
        }
        rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
        rnic_settle(c->r);
        stopped = vm_stop(c->r);
        for (int i = 0; i < SENDS; i++) {
            rnic_pattern(data, PIECE, round + i);
            wire_put_send(c->peer, WIRE_SEND, 0, data, PIECE);
        }
        assert_memory_stayed(c->r, stopped);
        vm_cont(c->r);
        for (int i = 0; i < SENDS; i++) {
            rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
            connection_peek(c, UNTAGGED + i * PIECE, got, PIECE);
            rnic_pattern(data, PIECE, round + i);
            g_assert_cmpmem(got, PIECE, data, PIECE);
        }
    }
    connection_free(c);
}

/* The peer's end of a stream is an event; it comes after cont. */
static void test_stream_ends(void)
{
    Connection *c = connection_new(NULL);
    g_autofree char *stopped = NULL;

    rnic_msix_enable(c->r);
    stopped = vm_stop(c->r);
    wire_abort(c->peer);
    c->peer = NULL;
    assert_memory_stayed(c->r, stopped);
    vm_cont(c->r);
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_free(c);
}

/* A peer that connects meanwhile is answered after cont. */
static void test_peer_connects(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = wire_mpa_request(), reply;
    g_autofree char *stopped = NULL;
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;

    rnic_msix_enable(c->r);
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 7, NULL),
                     ==, RNIC_ST_OK);
    stopped = vm_stop(c->r);
    c->peer = wire_connect(c->r->qts, 3, 1, port);
    wire_mpa_put(c->peer, &request);
    assert_memory_stayed(c->r, stopped);
    vm_cont(c->r);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(c->r, le32_to_cpu(event.endpoint), &c->qp,
                                     4, 4, 1, NULL, 0), ==, RNIC_ST_OK);
    wire_mpa_get(c->peer, &reply);
    g_assert_false(reply.reject);
    event = rnic_expect_cm(c->r, RNIC_CM_ESTABLISHED);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    connection_free(c);
}

/* The reply comes while the machine is stopped. */
static void test_reply_comes(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request, reply;
    uint16_t port;
    g_autofree char *stopped = NULL;
    int listener = wire_listen(2, &port);

    rnic_msix_enable(c->r);
    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 4,
                                      4, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    close(listener);
    wire_mpa_get(c->peer, &request);
    stopped = vm_stop(c->r);
    reply = wire_mpa_reply(&request);
    wire_mpa_put(c->peer, &reply);
    assert_memory_stayed(c->r, stopped);
    vm_cont(c->r);
    g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_OK);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    connection_free(c);
}

/*
 * The peers of both are slow. No time-out strikes while the machine is
 * stopped; the clock of the tests stands still then, as a guest's does.
 */
static void test_timers_stop(void)
{
    Connection *c = connection_new(NULL);
    Connection *second = connection_prepare_second(c, NULL);
    g_autofree char *stopped = NULL;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(c->r, &second->qp, wire_guest_ip(2),
                                      port, 4, 4, 5, NULL, 0), ==,
                     RNIC_ST_OK);
    rnic_settle(c->r);
    connection_drain_events(c);
    stopped = vm_stop(c->r);
    assert_memory_stayed(c->r, stopped);
    /* The time-outs are not of a clock of the host, which goes on. */
    g_usleep(11 * G_USEC_PER_SEC);
    assert_memory_stayed(c->r, stopped);
    vm_cont(c->r);
    rnic_settle(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_CLOSING);
    rnic_expect_no_cm(c->r);
    /* Time goes on. */
    rnic_pass_time(c->r, 11);
    rnic_expect_async(c->r, RNIC_AE_LLP_LOST, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    rnic_pass_time(c->r, 60);
    g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_TIMED_OUT);
    close(listener);
    connection_free_second(second);
    connection_free(c);
}

/* A command whose doorbell rings while the machine is stopped. */
static void test_admin_command(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    struct rnic_admin_cqe cqe;

    rnic_msix_enable(r);
    for (int i = 0; i < STOPS; i++) {
        g_autofree char *stopped = NULL;

        rnic_admin_fill(r, &nop);
        stopped = vm_stop(r);
        rnic_admin_tail(r);
        assert_memory_stayed(r, stopped);
        vm_cont(r);
        rnic_admin_completion(r, &cqe);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    }
    rnic_quit(r);
}

/* Data each way, after a start in the stopped state. */
static void exchange(Connection *c)
{
    uint8_t data[PIECE], got[PIECE];

    rnic_pattern(data, PIECE, 1);
    connection_recv(c, 1, UNTAGGED, PIECE);
    wire_put_send(c->peer, WIRE_SEND, 0, data, PIECE);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    connection_peek(c, UNTAGGED, got, PIECE);
    g_assert_cmpmem(got, PIECE, data, PIECE);
    connection_fill(c, SOURCE, data, PIECE);
    connection_post(c, RNIC_SQ_SEND, 2, SOURCE, PIECE);
    wire_get_send(c->peer, WIRE_SEND, 1, got, PIECE);
    g_assert_cmpmem(got, PIECE, data, PIECE);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
}

static void test_start_stopped(void)
{
    Rnic *r = rnic_boot(",mpa-rtr=off", "-S");
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    struct rnic_admin_cqe cqe;
    Connection base = { .r = r };
    g_autofree char *stopped = NULL;
    Connection *c;

    rnic_enable(r, 64, 0, rnic_features(r));
    rnic_admin_fill(r, &nop);
    stopped = memory_checksum(r);
    rnic_admin_tail(r);
    assert_memory_stayed(r, stopped);
    g_assert_false(rnic_admin_try_completion(r, &cqe));
    vm_cont(r);
    rnic_admin_completion(r, &cqe);
    rnic_up(r);
    c = connection_prepare_second(&base, NULL);
    connection_establish(c, NULL);
    exchange(c);
    connection_free_second(c);
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/stopped/received-writes", test_received_writes);
    qtest_add_func("rnic/stopped/sent-writes", test_sent_writes);
    qtest_add_func("rnic/stopped/received-messages", test_received_messages);
    qtest_add_func("rnic/stopped/stream-ends", test_stream_ends);
    qtest_add_func("rnic/stopped/peer-connects", test_peer_connects);
    qtest_add_func("rnic/stopped/reply-comes", test_reply_comes);
    qtest_add_func("rnic/stopped/timers", test_timers_stop);
    qtest_add_func("rnic/stopped/admin-command", test_admin_command);
    qtest_add_func("rnic/stopped/start-stopped", test_start_stopped);
    return g_test_run();
}
