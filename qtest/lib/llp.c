/*
 * LLP streams of the device in streaming mode, up to the QP that adopts them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include "qemu/bswap.h"

#include "llp.h"

/* Where the octets of the commands are, of each device one page after another. */
static uint64_t put_bulk(Rnic *r, struct rnic_admin_sqe *sqe, const void *data,
                         uint32_t length)
{
    uint64_t bus = rnic_alloc(r, MAX(length, 8));

    if (data) {
        rnic_mem_write(r, bus, data, length);
    }
    sqe->bulk_addr = cpu_to_le64(bus);
    sqe->bulk_length = cpu_to_le32(length);
    return bus;
}

uint16_t llp_try_open(Rnic *r, uint32_t ip, uint16_t port, uint64_t cookie,
                      uint32_t *stream)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_OPEN);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.llp_open.cookie = cpu_to_le64(cookie);
    sqe.llp_open.local = rnic_addr(wire_guest_ip(1), 0);
    sqe.llp_open.remote = rnic_addr(ip, port);
    status = rnic_admin(r, &sqe, &cqe);
    if (stream) {
        *stream = le32_to_cpu(cqe.number);
    }
    return status;
}

uint16_t llp_try_take(Rnic *r, uint32_t request, uint64_t cookie)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_OPEN);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.llp_open.cookie = cpu_to_le64(cookie);
    sqe.llp_open.stream = cpu_to_le32(request);
    status = rnic_admin(r, &sqe, &cqe);
    if (status == RNIC_ST_OK) {
        g_assert_cmphex(le32_to_cpu(cqe.number), ==, request);
    }
    return status;
}

uint16_t llp_try_listen(Rnic *r, uint16_t port, uint64_t cookie,
                        uint32_t backlog, uint32_t *listener)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.listen.cookie = cpu_to_le64(cookie);
    sqe.listen.local = rnic_addr(wire_guest_ip(1), port);
    sqe.listen.backlog = cpu_to_le32(backlog);
    sqe.listen.streams = 1;
    status = rnic_admin(r, &sqe, &cqe);
    if (listener) {
        *listener = le32_to_cpu(cqe.number);
    }
    return status;
}

uint16_t llp_try_send(Rnic *r, uint32_t stream, const void *data,
                      uint32_t length)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_SEND);

    sqe.llp_octets.stream = cpu_to_le32(stream);
    put_bulk(r, &sqe, data, length);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t llp_try_receive(Rnic *r, uint32_t stream, void *data, uint32_t room,
                         uint32_t *length, bool *end)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_RECEIVE);
    uint64_t bus = put_bulk(r, &sqe, NULL, room);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.llp_octets.stream = cpu_to_le32(stream);
    status = rnic_admin(r, &sqe, &cqe);
    *length = le32_to_cpu(cqe.llp.octets);
    *end = cqe.llp.end;
    g_assert_cmpuint(*length, <=, room);
    rnic_mem_read(r, bus, data, *length);
    return status;
}

uint16_t llp_try_close(Rnic *r, uint32_t stream, bool reset)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_CLOSE);

    sqe.llp_close.stream = cpu_to_le32(stream);
    sqe.llp_close.reset = reset;
    return rnic_admin(r, &sqe, NULL);
}

struct rnic_admin_sqe llp_adopt_command(Rnic *r, const RnicQp *qp,
                                        uint32_t stream, const void *message,
                                        uint32_t length)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(qp->number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_RTS;
    sqe.modify_qp.llp_stream = cpu_to_le32(stream);
    if (length) {
        put_bulk(r, &sqe, message, length);
    }
    return sqe;
}

uint16_t llp_try_adopt(Rnic *r, const RnicQp *qp, uint32_t stream,
                       const void *message, uint32_t length)
{
    struct rnic_admin_sqe sqe = llp_adopt_command(r, qp, stream, message,
                                                  length);

    return rnic_admin(r, &sqe, NULL);
}

static uint32_t connect_to(Rnic *r, uint64_t cookie, int listener,
                           uint16_t port, WirePeer **peer)
{
    struct rnic_cm_event event;
    uint32_t stream;

    g_assert_cmpuint(llp_try_open(r, wire_guest_ip(2), port, cookie, &stream),
                     ==, RNIC_ST_OK);
    *peer = wire_accept(r->qts, listener);
    close(listener);
    event = llp_expect_event(r, RNIC_CM_STREAM_OPENED, stream);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, cookie);
    g_assert_cmpuint(be16_to_cpu(event.remote.port), ==, port);
    return stream;
}

uint32_t llp_connect(Rnic *r, uint64_t cookie, WirePeer **peer)
{
    uint16_t port;
    int listener = wire_listen(2, &port);

    return connect_to(r, cookie, listener, port, peer);
}

/* Of a size that is set the host makes no larger one. */
uint32_t llp_connect_narrow(Rnic *r, uint64_t cookie, WirePeer **peer)
{
    const int size = 16 * 1024;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpint(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size,
                               sizeof(size)), ==, 0);
    return connect_to(r, cookie, listener, port, peer);
}

uint32_t llp_accept(Rnic *r, uint64_t cookie, WirePeer **peer)
{
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    uint32_t listener, stream;

    g_assert_cmpuint(llp_try_listen(r, port, 77, 8, &listener), ==,
                     RNIC_ST_OK);
    *peer = wire_connect(r->qts, 3, 1, port);
    event = rnic_expect_cm(r, RNIC_CM_STREAM_REQUEST);
    stream = le32_to_cpu(event.endpoint);
    g_assert_cmphex(stream, !=, 0);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, 77);
    g_assert_cmpuint(be16_to_cpu(event.local.port), ==, port);
    g_assert_cmpuint(llp_try_take(r, stream, cookie), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_CM_UNLISTEN, listener),
                     ==, RNIC_ST_OK);
    return stream;
}

void llp_send(Rnic *r, uint32_t stream, const void *data, uint32_t length)
{
    g_assert_cmpuint(llp_try_send(r, stream, data, length), ==, RNIC_ST_OK);
}

void llp_expect(Rnic *r, uint32_t stream, const void *data, uint32_t length)
{
    g_autofree uint8_t *got = g_malloc(length);
    uint32_t have = 0, n;
    bool end;

    while (have < length) {
        uint32_t room = MIN(length - have, RNIC_LLP_MAX_OCTETS);

        g_assert_cmpuint(llp_try_receive(r, stream, got + have, room, &n,
                                         &end), ==, RNIC_ST_OK);
        g_assert_false(end);
        have += n;
        if (!n) {
            llp_expect_event(r, RNIC_CM_STREAM_READABLE, stream);
        } else {
            rnic_settle_fast(r);
            llp_drain_events(r);
        }
    }
    g_assert_cmpmem(got, length, data, length);
}

struct rnic_cm_event llp_expect_event(Rnic *r, uint8_t type, uint32_t stream)
{
    struct rnic_cm_event event = rnic_expect_cm(r, type);

    g_assert_cmphex(le32_to_cpu(event.endpoint), ==, stream);
    return event;
}

void llp_drain_events(Rnic *r)
{
    struct rnic_cm_event event;

    while (rnic_eq_poll(r, &r->cm_eq, &event)) {
        ;
    }
}
