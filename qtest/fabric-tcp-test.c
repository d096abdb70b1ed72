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
#include "connection.h"

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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fabric-tcp/unpaced-active", test_unpaced_active);
    qtest_add_func("rnic/fabric-tcp/unpaced-passive", test_unpaced_passive);
    qtest_add_func("rnic/fabric-tcp/buffers-active", test_buffers_active);
    qtest_add_func("rnic/fabric-tcp/buffers-passive", test_buffers_passive);
    return g_test_run();
}
