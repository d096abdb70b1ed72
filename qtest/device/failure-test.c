/*
 * rnic: a device that has failed (STATUS.FATAL): guest and peers are told, and a reset
 * makes it as new
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/direct.h"
#include "tests/qtest/rnic/lib/llp.h"

#define NAMED ",id=nic,mpa-rtr=off"
/* RFC 5040 4.8: catastrophic, and not of one stream alone. */
#define GLOBAL_CATASTROPHE 0x0208

static void set_rule(Rnic *r, const char *rule)
{
    g_autofree char *command = g_strdup_printf(
        "{ 'execute': 'qom-set', 'arguments': { 'path': "
        "'/machine/peripheral/nic', 'property': 'x-fault', "
        "'value': { 'rules': [ %s ] } } }", rule);
    QDict *answer = qtest_qmp(r->qts, "%p",
                              qobject_from_json(command, &error_abort));

    g_assert_true(qdict_haskey(answer, "return"));
    qobject_unref(answer);
}

/* The next command is the last one, and has no answer. */
static void fail(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_NOP);

    set_rule(r, "{ 'on': 'admin', 'do': 'fatal' }");
    rnic_admin_fill(r, &sqe);
    rnic_admin_tail(r);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) ==
                  (RNIC_STATUS_ENABLED | RNIC_STATUS_FATAL));
}

static void expect_failure_event(Rnic *r)
{
    struct rnic_aeqe aeqe = rnic_expect_async(r, RNIC_AE_RNIC_CATASTROPHIC, 0);

    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_NONE);
    g_assert_cmphex(aeqe.terminate, ==, 0);
    g_assert_cmpint(aeqe.qp_state, ==, 0);
    rnic_expect_no_async(r);
}

/* A reset, and all is as with a new device. */
static void recover(Rnic *r)
{
    Connection *c;
    char got[4];

    rnic_reset(r);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
    g_assert_cmpint(rnic_read32(r, RNIC_REG_HEALTH), ==, RNIC_HEALTH_OK);
    rnic_up(r);
    c = connection_prepare_on(r, NULL);
    connection_establish(c, NULL);
    connection_recv(c, 1, 0, 4);
    wire_put_send(c->peer, WIRE_SEND, 0, "good", 4);
    rnic_expect_cqe(r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 4);
    rnic_expect_cqe(r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    connection_free_second(c);
}

/* ----------------------------------------------------------------- all streams */

static void expect_told(Connection *c)
{
    WireTerminate t;

    wire_get_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, GLOBAL_CATASTROPHE);
    g_assert_cmphex(t.flags, ==, 0);
    g_assert_cmpuint(t.length, ==, 4);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
}

/*
 * A Terminate to each peer of a stream in RTS, behind what had been begun; FIN. A responder
 * whose peer has sent no FPDU may send none (RFC 5044 7.1.2): a reset.
 */
static void test_streams(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",id=nic" });
    Rnic *r = c->r;
    static const ConnectionOptions passive = { .passive = true };
    Connection *second = connection_prepare_second(c, NULL);
    Connection *closing = connection_prepare_second(c, NULL);
    uint8_t data[4];
    struct rnic_cqe cqe;

    rnic_msix_enable(r);
    connection_establish(c, NULL);
    connection_establish(second, &passive);     /* has sent nothing yet */
    connection_establish(closing, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(r, &closing->qp, RNIC_QPS_CLOSING),
                     ==, RNIC_ST_OK);
    connection_recv(c, 1, 0, 4);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 1, data, 4);
    rnic_expect_cqe(r, &c->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_msix_fired(r, r->async_eq.vector);
    fail(r);
    expect_failure_event(r);
    RNIC_UNTIL(r, rnic_msix_fired(r, r->async_eq.vector));
    expect_told(c);
    g_assert_cmpint(wire_end(second->peer), ==, WIRE_RST);
    g_assert_cmpint(wire_end(closing->peer), ==, WIRE_FIN);
    /* Nothing is flushed: the queues are as they were. */
    rnic_settle_fast(r);
    g_assert_false(rnic_cq_poll(r, &c->recv_cq, &cqe));
    g_assert_false(rnic_cq_poll(r, &closing->recv_cq, &cqe));
    rnic_expect_no_cm(r);
    rnic_doorbell(r, 0, RNIC_DB_SQ, c->qp.number);
    connection_free_second(second);
    connection_free_second(closing);
    wire_close(g_steal_pointer(&c->peer));
    recover(r);
    connection_free(c);
    rnic_shows("V8.3.3-21 V9.5.3-37");
}

/* In the midst of a message, a peer that does not read: whole FPDUs only. */
static void test_mid_message(void)
{
    enum { LARGE = 32 * 1024 * 1024 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic,mpa-crc=on" });
    WireTerminate t;
    RnicMr mr;
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 1, 0, 0);

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    rnic_settle(c->r);
    fail(c->r);
    expect_failure_event(c->r);
    wire_skip_to_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, GLOBAL_CATASTROPHE);
    wire_expect_end(c->peer);
    wire_close(g_steal_pointer(&c->peer));
    recover(c->r);
    connection_free(c);
}

/* Connections in set-up, listeners, LLP streams and direct connects end as well. */
static void test_connecting(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",id=nic" });
    Rnic *r = c->r;
    Connection *direct = connection_prepare_second(c, NULL);
    uint16_t far, port = wire_free_port(1);
    int far_listener = wire_listen(2, &far);
    WirePeer *connecting, *requested, *streaming, *adopting;
    RnicQpInit init = rnic_qp_default(r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe;
    uint32_t stream, listener;
    RnicQp qp;
    WireMpa request;

    g_assert_cmpuint(rnic_try_connect(r, &c->qp, wire_guest_ip(2), far, 1, 1,
                                      1, NULL, 0), ==, RNIC_ST_OK);
    connecting = wire_accept(r->qts, far_listener);
    g_assert_cmpuint(rnic_try_listen(r, wire_guest_ip(1), port, 1, &listener),
                     ==, RNIC_ST_OK);
    requested = wire_connect(r->qts, 3, 1, port);
    request = wire_mpa_request();
    wire_mpa_put(requested, &request);
    rnic_expect_cm(r, RNIC_CM_CONNECT_REQUEST);
    llp_connect(r, 1, &streaming);
    direct_to_rtr(direct, OURS, PEERS, 0x123, 0x111);
    /* One that is being adopted, perhaps. */
    stream = llp_connect(r, 1, &adopting);
    rnic_create_qp(r, &qp, &init);
    sqe = llp_adopt_command(r, &qp, stream, "message", 7);
    rnic_admin_fill(r, &sqe);
    fail(r);
    wire_mpa_get(connecting, &request);
    wire_expect_end(connecting);
    wire_expect_end(requested);
    wire_expect_end(streaming);
    wire_close(connecting);
    wire_close(requested);
    wire_close(streaming);
    wire_close(adopting);
    close(far_listener);
    connection_free_second(direct);
    recover(r);
    connection_free(c);
}

/* ----------------------------------------------------------- what is no one's */

/* Of a CQ, of an S-RQ, of the device: each names what it is of, or nothing. */
static void test_event_records(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    RnicSrqInit init = rnic_srq_default(r);
    Connection *full, *shared;
    struct rnic_aeqe aeqe;
    RnicSrq srq;
    uint8_t got[8];

    rnic_create_srq(r, &srq, &init);
    full = connection_prepare_on(r, &(ConnectionOptions) { .cq_depth = 2 });
    shared = connection_prepare_on(r, &(ConnectionOptions) { .srq = &srq });
    connection_establish(full, NULL);
    connection_establish(shared, NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        connection_post(full, RNIC_SQ_SEND, i, 0, 8);
        wire_get_send(full->peer, WIRE_SEND, i, got, 8);
    }
    aeqe = rnic_expect_async(r, RNIC_AE_CQ_OVERFLOW, full->send_cq.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_CQ);
    rnic_expect_async(r, RNIC_AE_CQ_SQ_ERROR, full->qp.number);
    rnic_mem_write32(r, srq.memory + offsetof(struct rnic_srq_record, producer),
                     srq.depth + 1);
    wire_put_send(shared->peer, WIRE_SEND, 0, NULL, 0);
    aeqe = rnic_expect_async(r, RNIC_AE_SRQ_CATASTROPHIC, srq.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_SRQ);
    rnic_expect_async(r, RNIC_AE_SRQ_QP_ERROR, shared->qp.number);
    fail(r);
    expect_failure_event(r);
    connection_free_second(full);
    connection_free_second(shared);
    recover(r);
    rnic_quit(r);
    rnic_shows("V8.3.3-20");
}

/* Nowhere to tell it: no queue, a full one; the rest is done all the same. */
static void test_no_room(void)
{
    for (int full = 0; full < 2; full++) {
        Connection *c = connection_prepare(&(ConnectionOptions) {
            .properties = ",id=nic" });
        Rnic *r = c->r;

        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                           r->async_eq.number), ==,
                         RNIC_ST_OK);
        if (full) {
            rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, 0, 2);
            for (int i = 0; i < 3; i++) {
                Connection *more = connection_prepare_second(c, NULL);

                connection_establish(more, NULL);
                wire_put_terminate(more->peer, 0x0207);
                wire_expect_end(more->peer);
                rnic_expect_cm(r, RNIC_CM_DISCONNECTED);
                connection_free_second(more);
            }
            rnic_settle(r);
        }
        connection_establish(c, NULL);
        fail(r);
        expect_told(c);
        wire_close(g_steal_pointer(&c->peer));
        recover(r);
        connection_free(c);
    }
}

/* While the machine is stopped its memory stays as it is; then they are told. */
static void test_stopped(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic" });
    struct rnic_aeqe aeqe;

    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'stop' }");
    set_rule(c->r, "{ 'on': 'register', 'do': 'fatal' }");
    rnic_read32(c->r, RNIC_REG_LINK);
    g_assert_cmphex(rnic_read32(c->r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED | RNIC_STATUS_FATAL);
    wire_expect_silence(c->peer);
    g_assert_false(rnic_eq_poll(c->r, &c->r->async_eq, &aeqe));
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'cont' }");
    expect_failure_event(c->r);
    expect_told(c);
    /* And again, with nothing left to go on. */
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'stop' }");
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'cont' }");
    rnic_settle_fast(c->r);
    wire_close(g_steal_pointer(&c->peer));
    recover(c->r);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/failure/streams", test_streams);
    qtest_add_func("rnic/failure/mid-message", test_mid_message);
    qtest_add_func("rnic/failure/connecting", test_connecting);
    qtest_add_func("rnic/failure/event-records", test_event_records);
    qtest_add_func("rnic/failure/no-room", test_no_room);
    qtest_add_func("rnic/failure/stopped", test_stopped);
    return g_test_run();
}
