/*
 * rnic: what the TCP fabric asks of the host's sockets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include "qemu/bswap.h"
#include "qemu/units.h"
#include "tests/qtest/rnic/lib/connection.h"

/* ----------------------------------------------------- few packets, at once */

enum {
    TOGETHER = 15,              /* Writes */
    LENGTH = 64 * 1024,
    LOOPBACK_SEGMENT = 65483,   /* Linux: 64 KiB less its own headers */
    /* tcpi_data_segs_in, behind the end of older C libraries' struct tcp_info. */
    DATA_SEGMENTS_IN = 38,      /* numbers of 32 bits before it */
};

static uint32_t packets_received(Connection *c)
{
    uint32_t info[DATA_SEGMENTS_IN + 1];
    socklen_t length = sizeof(info);

    g_assert_cmpint(getsockopt(c->peer->fd, IPPROTO_TCP, TCP_INFO, info,
                               &length), ==, 0);
    g_assert_cmpuint(length, ==, sizeof(info));
    return info[DATA_SEGMENTS_IN];
}

static void store(Connection *c, const RnicWr *wr)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(wr, wqe));
}

static void store_writes(Connection *c, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, i, 0, LENGTH);

        store(c, &wr);
    }
}

static void take_writes(Connection *c, unsigned count)
{
    static uint8_t got[LENGTH];

    for (unsigned i = 0; i < count; i++) {
        g_assert_cmpuint(connection_get_write(c, 0, got, LENGTH), ==, LENGTH);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
}

static uint32_t packets_of_writes(Connection *c)
{
    uint32_t before = packets_received(c);

    store_writes(c, TOGETHER);
    rnic_ring_sq(c->r, &c->qp);
    take_writes(c, TOGETHER);
    return packets_received(c) - before;
}

static int compare_counts(const void *a, const void *b)
{
    return *(const uint32_t *)a - *(const uint32_t *)b;
}

static uint32_t median_packets_of_a_connection(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .sq_depth = 64 });
    uint32_t packets[21];

    for (unsigned i = 0; i < G_N_ELEMENTS(packets); i++) {
        packets[i] = packets_of_writes(c);
    }
    connection_free(c);
    qsort(packets, G_N_ELEMENTS(packets), sizeof(packets[0]), compare_counts);
    return packets[G_N_ELEMENTS(packets) / 2];
}

/*
 * What is posted together can leave without a packet for the end of each, once TCP
 * lets the device send as much as it likes: 16 or 18 packets on most connections,
 * else 22 or more.  A connection keeps to the number it began with, which is also
 * up to the host: one of ten has 21 or 22 all the same, and one of a hundred would
 * have 18 anyway.
 */
static void test_full_packets(void)
{
    enum { CONNECTIONS = 10, ENOUGH = 3, FEW = 20 };
    unsigned with_few = 0;

    for (unsigned i = 0; i < CONNECTIONS && with_few < ENOUGH; i++) {
        uint32_t packets = median_packets_of_a_connection();

        g_test_message("%u packets", packets);
        g_assert_cmpuint(packets, >=, TOGETHER * LENGTH / LOOPBACK_SEGMENT);
        with_few += packets <= FEW;
    }
    g_assert_cmpuint(with_few, ==, ENOUGH);
}

/* A WR that sends nothing. */
static void store_invalidate(Connection *c)
{
    RnicMr mr;
    RnicWr wr;

    rnic_create_mr(c->r, &mr, c->r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    wr = (RnicWr) {
        .opcode = RNIC_SQ_LOCAL_INVALIDATE, .flags = RNIC_WQE_SIGNALED,
        .wr_id = 1, .invalidate_stag = mr.stag,
    };
    store(c, &wr);
}

/*
 * The end of a message does not wait for more if none comes.  Linux would hold it
 * back for 200 ms, each time.
 */
static void test_end_leaves(void)
{
    enum { TIMES = 20 };
    Connection *c = connection_new(&(ConnectionOptions) { .sq_depth = 64 });
    gint64 took[2] = { };

    for (unsigned i = 0; i < 2 * TIMES; i++) {
        gint64 start;

        store_writes(c, 1);
        if (i % 2) {
            store_invalidate(c);
        }
        start = g_get_monotonic_time();
        rnic_ring_sq(c->r, &c->qp);
        take_writes(c, 1);
        took[i % 2] += g_get_monotonic_time() - start;
        if (i % 2) {
            rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        }
    }
    g_test_message("%" PRId64 " us alone, %" PRId64 " us with a second WR",
                   took[0], took[1]);
    g_assert_cmpint(took[1] - took[0], <, TIMES * 100 * 1000);
    connection_free(c);
}

/* -------------------------------------------------------- peers that vanish */

/*
 * The host's timer of the device's end: what it is for, and when it is due, in
 * hundredths of a second (proc_tcp(5)).
 */
typedef struct HostTimer {
    unsigned kind;              /* 0: none, 2: keep-alive */
    unsigned due;
} HostTimer;

static void end_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *),
                   char *text, size_t size)
{
    struct sockaddr_in in;
    socklen_t length = sizeof(in);

    g_assert_cmpint(ask(fd, (struct sockaddr *)&in, &length), ==, 0);
    snprintf(text, size, "%08X:%04X", in.sin_addr.s_addr, ntohs(in.sin_port));
}

static HostTimer host_timer(const Connection *c)
{
    g_autofree char *all = NULL;
    char ours[32], theirs[32];
    HostTimer timer;
    char *line;

    end_of(c->peer->fd, getsockname, ours, sizeof(ours));
    end_of(c->peer->fd, getpeername, theirs, sizeof(theirs));
    g_assert_true(g_file_get_contents("/proc/net/tcp", &all, NULL, NULL));
    for (line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
        char local[32], remote[32];

        if (sscanf(line, " %*u: %31s %31s %*x %*x:%*x %x:%x", local, remote,
                   &timer.kind, &timer.due) == 4 &&
            !strcmp(local, theirs) && !strcmp(remote, ours)) {
            return timer;
        }
    }
    g_error("/proc/net/tcp does not have the device's end");
}

static Connection *new_with_keepalive(const char *seconds, bool passive)
{
    g_autofree char *fabric = g_strdup_printf(
        "-object rnic-fabric-tcp,id=g,map=loopback%s", seconds);

    return connection_new(&(ConnectionOptions) {
        .properties = ",fabric=g", .arguments = fabric, .passive = passive });
}

/* The device's end asks an idle peer after so many seconds. */
static void check_asks(const char *seconds, bool passive, unsigned most)
{
    Connection *c = new_with_keepalive(seconds, passive);
    HostTimer timer;

    /* What it sent last is acknowledged in a moment. */
    do {
        timer = host_timer(c);
    } while (timer.kind == 1);
    g_assert_cmpuint(timer.kind, ==, most ? 2 : 0);
    g_assert_cmpuint(timer.due, <=, most * 100);
    g_assert_cmpuint(timer.due, >=, most * 100 / 2);
    connection_free(c);
}

static void test_asks_after_vanished_peers(void)
{
    for (int passive = 0; passive < 2; passive++) {
        check_asks("", passive, 60);
        check_asks(",keepalive-s=600", passive, 600);
        check_asks(",keepalive-s=0", passive, 0);
    }
}

/* ------------------------------------------------------- type of service */

/*
 * The type of service of the other end of the peer's socket, the device's, as the
 * host's socket diagnosis tells (sock_diag(7)).
 */
static uint8_t device_tos(const WirePeer *other)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } ask = {
        .header = {
            .nlmsg_len = sizeof(ask),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
        },
        .request = {
            .sdiag_family = AF_INET,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_ext = 1 << (INET_DIAG_TOS - 1),
            .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
        },
    };
    struct sockaddr_in peer, device;
    socklen_t length = sizeof(peer);
    uint8_t answer[4096] QEMU_ALIGNED(8);
    struct nlmsghdr *header = (struct nlmsghdr *)answer;
    struct rtattr *attribute;
    int fd, left;

    g_assert_cmpint(getsockname(other->fd, (struct sockaddr *)&peer, &length),
                    ==, 0);
    g_assert_cmpint(getpeername(other->fd, (struct sockaddr *)&device, &length),
                    ==, 0);
    ask.request.id.idiag_src[0] = device.sin_addr.s_addr;
    ask.request.id.idiag_sport = device.sin_port;
    ask.request.id.idiag_dst[0] = peer.sin_addr.s_addr;
    ask.request.id.idiag_dport = peer.sin_port;
    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(send(fd, &ask, sizeof(ask), 0), ==, sizeof(ask));
    left = recv(fd, answer, sizeof(answer), 0);
    close(fd);
    g_assert_true(NLMSG_OK(header, left));
    g_assert_cmpint(header->nlmsg_type, ==, SOCK_DIAG_BY_FAMILY);
    left = header->nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg));
    attribute = (struct rtattr *)(answer +
                                  NLMSG_LENGTH(sizeof(struct inet_diag_msg)));
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type == INET_DIAG_TOS) {
            return *(uint8_t *)RTA_DATA(attribute);
        }
    }
    g_error("the host tells no type of service");
}

/* That of CM_CONNECT, or of the CM_LISTEN that the peer connects to. */
static void test_type_of_service(void)
{
    static const uint8_t values[] = { 0, 0x08, 0x88 };

    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(values); i++) {
        ConnectionOptions options = { .passive = i % 2 };
        Connection *c = connection_prepare(&options);

        c->r->tos = values[i / 2];
        connection_establish(c, &options);
        g_assert_cmphex(device_tos(c->peer), ==, values[i / 2]);
        connection_free(c);
    }
}

/* That of LLP_OPEN. */
static void test_type_of_service_of_stream(void)
{
    static const uint8_t values[] = { 0, 0x08, 0x88 };
    WirePeer *peers[G_N_ELEMENTS(values)];
    Rnic *r = rnic_boot_up("");

    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_OPEN);
        uint16_t port;
        int listener = wire_listen(2, &port);

        sqe.llp_open.tos = values[i];
        sqe.llp_open.local = rnic_addr(wire_guest_ip(1), 0);
        sqe.llp_open.remote = rnic_addr(wire_guest_ip(2), port);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
        peers[i] = wire_accept(r->qts, listener);
        close(listener);
        rnic_expect_cm(r, RNIC_CM_STREAM_OPENED);
        g_assert_cmphex(device_tos(peers[i]), ==, values[i]);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        wire_close(peers[i]);
    }
    rnic_quit(r);
}

/* -------------------------------------------------------------- link-local */

static struct rnic_cm_addr link_local(uint8_t second, uint16_t port)
{
    return (struct rnic_cm_addr) { .ip = { 0xfe, second, [15] = 1 },
                                   .port = cpu_to_be16(port) };
}

/*
 * fe80::/10 is no address of the host's without an interface (RFC 4007, 6), though
 * map=identity has it: a guest that listens on all its addresses leaves it out.
 */
static void test_link_local(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",fabric=i",
        .arguments = "-object rnic-fabric-tcp,id=i,map=identity" });
    uint16_t port = wire_free_port(1);

    for (unsigned second = 0x80; second <= 0xbf; second += 0x3f) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);

        sqe.listen.local = link_local(second, port);
        sqe.listen.backlog = cpu_to_le32(1);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_INVALID_ADDRESS);
        sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);
        sqe.connect.qpn = cpu_to_le32(c->qp.number);
        sqe.connect.remote = link_local(second, port);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_INVALID_ADDRESS);
    }
    g_assert_cmpuint(rnic_try_listen(c->r, 0x7f000001, port, 1, NULL), ==,
                     RNIC_ST_OK);
    connection_free(c);
}

/* Of an interface of this host; false: none has one. */
static bool own_link_local(struct sockaddr_in6 *address)
{
    struct ifaddrs *all, *at;
    bool found = false;

    g_assert_cmpint(getifaddrs(&all), ==, 0);
    for (at = all; at && !found; at = at->ifa_next) {
        const struct sockaddr_in6 *in6 = (void *)at->ifa_addr;

        found = in6 && in6->sin6_family == AF_INET6 &&
                IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
        if (found) {
            *address = *in6;
        }
    }
    freeifaddrs(all);
    return found;
}

/* Nor is a peer there that has only such an address: the guest could not name it. */
static void test_link_local_peer(void)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);
    uint16_t port = wire_free_port(1);
    struct sockaddr_in6 to = { };
    Connection *c;

    if (!own_link_local(&to)) {
        g_test_skip("no interface has a link-local address");
        return;
    }
    c = connection_prepare(&(ConnectionOptions) {
        .properties = ",fabric=i",
        .arguments = "-object rnic-fabric-tcp,id=i,map=identity" });
    sqe.listen.local.port = cpu_to_be16(port);
    sqe.listen.backlog = cpu_to_le32(1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    to.sin6_port = htons(port);
    c->peer = g_new0(WirePeer, 1);
    c->peer->qts = c->r->qts;
    c->peer->fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(connect(c->peer->fd, (void *)&to, sizeof(to)), ==, 0);
    wire_expect_end(c->peer);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fabric-tcp/full-packets", test_full_packets);
    qtest_add_func("rnic/fabric-tcp/end-leaves", test_end_leaves);
    qtest_add_func("rnic/fabric-tcp/asks-after-vanished-peers",
                   test_asks_after_vanished_peers);
    qtest_add_func("rnic/fabric-tcp/type-of-service", test_type_of_service);
    qtest_add_func("rnic/fabric-tcp/type-of-service-of-stream",
                   test_type_of_service_of_stream);
    qtest_add_func("rnic/fabric-tcp/link-local", test_link_local);
    qtest_add_func("rnic/fabric-tcp/link-local-peer", test_link_local_peer);
    return g_test_run();
}
