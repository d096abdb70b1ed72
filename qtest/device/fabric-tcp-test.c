/*
 * rnic: what the TCP fabric asks of the host's sockets
 *
 * The host's kernel is asked about the device's end of a connection (sock_diag,
 * see sock_diag(7)): the device does not tell.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include "qemu/units.h"
#include "tests/qtest/rnic/lib/connection.h"

typedef struct Query {
    struct nlmsghdr head;
    struct inet_diag_req_v2 request;
} Query;

/* @ask: getsockname or getpeername */
static struct sockaddr_in end_of(int fd, int (*ask)(int, struct sockaddr *,
                                                    socklen_t *))
{
    struct sockaddr_in end;
    socklen_t length = sizeof(end);

    g_assert_cmpint(ask(fd, (struct sockaddr *)&end, &length), ==, 0);
    g_assert_cmpint(end.sin_family, ==, AF_INET);
    return end;
}

/* About the socket that the socket @fd is connected to. */
static Query query_of_peer(int fd, int attribute)
{
    struct sockaddr_in theirs = end_of(fd, getpeername);
    struct sockaddr_in ours = end_of(fd, getsockname);

    return (Query) {
        .head = {
            .nlmsg_len = sizeof(Query),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
        },
        .request = {
            .sdiag_family = AF_INET,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_ext = 1 << (attribute - 1),
            .idiag_states = -1,
            .id = {
                .idiag_sport = theirs.sin_port,
                .idiag_src = { theirs.sin_addr.s_addr },
                .idiag_dport = ours.sin_port,
                .idiag_dst = { ours.sin_addr.s_addr },
                .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
            },
        },
    };
}

static GBytes *find(const struct nlmsghdr *answer, int wanted)
{
    const struct inet_diag_msg *message = NLMSG_DATA(answer);
    const struct rtattr *attribute = (const void *)(message + 1);
    int left = answer->nlmsg_len - NLMSG_LENGTH(sizeof(*message));

    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type == wanted) {
            return g_bytes_new(RTA_DATA(attribute), RTA_PAYLOAD(attribute));
        }
    }
    return NULL;
}

/* Of the other end of @fd; NULL where the host's kernel does not tell. */
static GBytes *ask_about_peer(int fd, int attribute)
{
    Query query = query_of_peer(fd, attribute);
    union {
        struct nlmsghdr head;
        uint8_t octets[8192];
    } answer;
    int diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t n;

    if (diag < 0) {
        return NULL;
    }
    g_assert_cmpint(send(diag, &query, sizeof(query), 0), ==, sizeof(query));
    n = recv(diag, &answer, sizeof(answer), 0);
    close(diag);
    g_assert_cmpint(n, >=, sizeof(answer.head));
    return answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY
           ? find(&answer.head, attribute) : NULL;
}

static void skip(void)
{
    g_test_skip("the host's kernel has no sock_diag for TCP");
}

/*
 * Both ends are on this host: whatever it uses elsewhere, the device's end does
 * not pace itself.
 */
static void check_unpaced(bool passive)
{
    Connection *c = connection_new(&(ConnectionOptions) { .passive = passive });
    g_autoptr(GBytes) name = ask_about_peer(c->peer->fd, INET_DIAG_CONG);

    if (name) {
        g_assert_cmpstr(g_bytes_get_data(name, NULL), ==, "reno");
    } else {
        skip();
    }
    connection_free(c);
}

static void test_unpaced_active(void)
{
    check_unpaced(false);
}

static void test_unpaced_passive(void)
{
    check_unpaced(true);
}

static uint32_t host_limit(const char *name)
{
    g_autofree char *path = g_strdup_printf("/proc/sys/net/core/%s", name);
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return g_ascii_strtoull(text, NULL, 10);
}

static bool host_unlocks_buffers(void)
{
#ifdef SO_BUF_LOCK
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int nothing = 0;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &nothing,
                         sizeof(nothing)) == 0;

    close(fd);
    return ok;
#else
    return false;
#endif
}

/*
 * What waits to be sent is bounded, and what may wait to be read is as much as
 * the host lets anybody ask for, from the beginning.  Linux doubles both.  A host
 * that allows less than the half of the bound does as with everybody.
 */
static void check_buffers(bool passive)
{
    Connection *c = connection_new(&(ConnectionOptions) { .passive = passive });
    g_autoptr(GBytes) sizes = ask_about_peer(c->peer->fd, INET_DIAG_SKMEMINFO);

    if (!sizes) {
        skip();
    } else if (!host_unlocks_buffers()) {
        g_test_skip("the host's kernel has no SO_BUF_LOCK");
    } else {
        const uint32_t *size = g_bytes_get_data(sizes, NULL);
        uint32_t send_limit = host_limit("wmem_max");
        uint32_t receive_limit = host_limit("rmem_max");

        if (send_limit >= MiB) {
            g_assert_cmpuint(size[SK_MEMINFO_SNDBUF], ==,
                             2 * MIN(2 * MiB, send_limit));
            g_assert_cmpuint(size[SK_MEMINFO_RCVBUF], >=, 2 * receive_limit);
        } else {
            g_assert_cmpuint(size[SK_MEMINFO_RCVBUF], <, 2 * receive_limit);
        }
    }
    connection_free(c);
}

static void test_buffers_active(void)
{
    check_buffers(false);
}

static void test_buffers_passive(void)
{
    check_buffers(true);
}

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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fabric-tcp/unpaced-active", test_unpaced_active);
    qtest_add_func("rnic/fabric-tcp/unpaced-passive", test_unpaced_passive);
    qtest_add_func("rnic/fabric-tcp/buffers-active", test_buffers_active);
    qtest_add_func("rnic/fabric-tcp/buffers-passive", test_buffers_passive);
    qtest_add_func("rnic/fabric-tcp/full-packets", test_full_packets);
    qtest_add_func("rnic/fabric-tcp/end-leaves", test_end_leaves);
    return g_test_run();
}
