/*
 * Unit tests of sockets by which a peer can send descriptors: which are taken, and
 * that whoever receives does not wait for the close of others
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "hw/rnic/fabric/descriptors.h"
#include "hw/rnic/fabric/unix-socket.h"

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

enum {
    OPEN_FILES = 1024,
    LIMIT = OPEN_FILES / 2,     /* of all fabrics */
    WITH_SENT = LIMIT * 3 / 2,  /* and what peers send */
    MESSAGE_MAX = 253,
    LINGER = 10,                /* seconds of a close that waits */
    PATIENCE_MS = 20000,
};

/* ------------------------------------------------------------------- peer */

/* The peer's end at 0. */
static void new_sockets(int ends[2])
{
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                    ==, 0);
}

static void send_with(int fd, const char *octets, int sent, unsigned count)
{
    char control[CMSG_SPACE(MESSAGE_MAX * sizeof(int))] = { };
    struct iovec iov = { (void *)octets, strlen(octets) };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = CMSG_SPACE(count * sizeof(int)),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++) {
        memcpy(CMSG_DATA(header) + i * sizeof(int), &sent, sizeof(sent));
    }
    g_assert_cmpint(sendmsg(fd, &msg, 0), ==, iov.iov_len);
}

/* Send so many descriptors of one file.  Returns a pipe, see expect_closed(). */
static int send_files(int fd, const char *octets, unsigned count)
{
    int ends[2];

    g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
    send_with(fd, octets, ends[1], count);
    close(ends[1]);
    return ends[0];
}

static bool is_closed(int file, int timeout)
{
    struct pollfd p = { .fd = file };

    return poll(&p, 1, timeout) == 1 && (p.revents & POLLHUP);
}

/* Nobody has a descriptor of it any more. */
static void expect_closed(int file)
{
    g_assert_true(is_closed(file, PATIENCE_MS));
    close(file);
}

/* --------------------------------------------------------------- receiver */

typedef struct Got {
    char octets[100];
    int fds[2];
    size_t count;
} Got;

/* With up to @max descriptors; the octets go into two pieces. */
static ssize_t receive(int fd, size_t max, Got *got)
{
    const struct iovec iov[2] = {
        { got->octets, 3 }, { got->octets + 3, sizeof(got->octets) - 4 } };
    ssize_t n;

    memset(got, 0, sizeof(*got));
    got->count = 99;
    errno = 0;
    n = rnic_unix_receive(fd, iov, 2, got->fds, max, &got->count);
    g_assert_cmpuint(got->count, <=, max);
    return n;
}

static void expect_octets(int fd, const char *octets, size_t count)
{
    Got got;

    g_assert_cmpint(receive(fd, 2, &got), ==, strlen(octets));
    g_assert_cmpstr(got.octets, ==, octets);
    g_assert_cmpuint(got.count, ==, count);
    for (size_t i = 0; i < count; i++) {
        g_assert_cmphex(fcntl(got.fds[i], F_GETFD), ==, FD_CLOEXEC);
        close(got.fds[i]);
    }
}

static void expect_error(int fd, size_t max, int error)
{
    Got got;

    g_assert_cmpint(receive(fd, max, &got), ==, -1);
    g_assert_cmpint(errno, ==, error);
    g_assert_cmpuint(got.count, ==, 0);
}

/* Whatever else is open: octets, and up to two descriptors. */
static void check_receive(void)
{
    int ends[2], file;

    new_sockets(ends);
    expect_error(ends[1], 2, EAGAIN);
    g_assert_cmpint(send(ends[0], "ab", 2, 0), ==, 2);
    g_assert_cmpint(send(ends[0], "cdefg", 5, 0), ==, 5);
    expect_octets(ends[1], "abcdefg", 0);
    expect_error(ends[1], 2, EAGAIN);
    /* What comes behind descriptors is another message. */
    g_assert_cmpint(send(ends[0], "hi", 2, 0), ==, 2);
    file = send_files(ends[0], "jklmnop", 1);
    g_assert_cmpint(send(ends[0], "qr", 2, 0), ==, 2);
    expect_octets(ends[1], "hijklmnop", 1);
    expect_closed(file);
    expect_octets(ends[1], "qr", 0);
    file = send_files(ends[0], "s", 2);
    expect_octets(ends[1], "s", 2);
    expect_closed(file);
    close(ends[0]);
    expect_octets(ends[1], "", 0);
    close(ends[1]);
}

/* Too many are the end of a stream, whose socket is closed then. */
static void check_too_many(unsigned count, size_t max)
{
    int ends[2], file;

    new_sockets(ends);
    file = send_files(ends[0], "x", count);
    expect_error(ends[1], max, EPROTO);
    close(ends[1]);
    expect_closed(file);
    close(ends[0]);
}

static void test_receive(void)
{
    check_receive();
    check_too_many(3, 2);
    check_too_many(1, 0);
    check_too_many(MESSAGE_MAX, 2);
}

/*
 * The bell of a ring is the peer's socket too: it decides what comes with the
 * octets, before the descriptors or behind them.
 */
static void check_with_sender(int option, size_t max)
{
    const int one = 1;
    int ends[2], file;

    new_sockets(ends);
    if (setsockopt(ends[1], SOL_SOCKET, option, &one, sizeof(one)) < 0) {
        g_test_message("this kernel has no socket option %d", option);
    }
    file = send_files(ends[0], "x", 1);
    if (max && option == SO_PASSCRED) {
        expect_octets(ends[1], "x", 1);
    } else {
        expect_error(ends[1], max, EPROTO);
    }
    expect_closed(file);
    close(ends[0]);
    close(ends[1]);
}

static unsigned open_files(void)
{
    GDir *dir = g_dir_open("/proc/self/fd", 0, NULL);
    unsigned n = 0;

    g_assert_nonnull(dir);
    while (g_dir_read_name(dir)) {
        n++;
    }
    g_dir_close(dir);
    return n;
}

static void test_with_sender(void)
{
    const unsigned before = open_files();

    check_with_sender(SO_PASSCRED, 0);
    check_with_sender(SO_PASSCRED, 2);
    check_with_sender(SO_PASSPIDFD, 0);
    for (unsigned ms = 0; open_files() > before; ms++) {
        g_assert_cmpuint(ms, <, PATIENCE_MS);
        g_usleep(1000);
    }
}

/* There is no room for a message's descriptors, but for a few. */
static void test_little_room(void)
{
    rnic_descriptors_exceed(WITH_SENT - 10);
    check_receive();
    check_too_many(3, 2);
    check_too_many(1, 0);
    check_too_many(MESSAGE_MAX, 2);
    rnic_descriptors_release(WITH_SENT - 10);
}

/* There is room for none. */
static void test_no_room(void)
{
    int ends[2];

    rnic_descriptors_exceed(WITH_SENT - 1);
    new_sockets(ends);
    g_assert_cmpint(send(ends[0], "abcdef", 6, 0), ==, 6);
    expect_octets(ends[1], "abcdef", 0);
    close(ends[0]);
    expect_octets(ends[1], "", 0);
    close(ends[1]);
    check_too_many(1, 2);
    check_too_many(MESSAGE_MAX, 2);
    rnic_descriptors_release(WITH_SENT - 1);
}

/* ----------------------------------------------------------------- closes */

static int tcp_listener(void)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(bind(fd, (void *)&in, sizeof(in)), ==, 0);
    g_assert_cmpint(listen(fd, 64), ==, 0);
    return fd;
}

/* A socket that close(2) waits for: what it has sent nobody takes. */
static int lingering_socket(int listener)
{
    struct sockaddr_in in = { };
    socklen_t length = sizeof(in);
    const struct linger linger = { .l_onoff = 1, .l_linger = LINGER };
    static const uint8_t octets[65536];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(getsockname(listener, (void *)&in, &length), ==, 0);
    g_assert_cmpint(connect(fd, (void *)&in, sizeof(in)), ==, 0);
    while (send(fd, octets, sizeof(octets), MSG_DONTWAIT) > 0) {
        /* until both ends are full */
    }
    g_assert_cmpint(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger,
                               sizeof(linger)), ==, 0);
    return fd;
}

/* As many as this process may have. */
static GArray *open_all_files(void)
{
    GArray *fds = g_array_new(false, false, sizeof(int));
    int fd;

    while ((fd = dup(0)) >= 0) {
        g_array_append_val(fds, fd);
    }
    g_assert_cmpint(errno, ==, EMFILE);
    return fds;
}

static void close_all_files(GArray *fds)
{
    for (guint i = 0; i < fds->len; i++) {
        close(g_array_index(fds, int, i));
    }
    g_array_free(fds, true);
}

/*
 * The fabrics have all that they may, and the process has no more.  The kernel would
 * close in this thread what it cannot make a descriptor of.
 */
static void check_does_not_wait(size_t max)
{
    int listener = tcp_listener();
    int fd = lingering_socket(listener);
    gint64 start;
    GArray *all;
    int ends[2];

    new_sockets(ends);
    send_with(ends[0], "x", fd, 1);
    close(fd);
    rnic_descriptors_exceed(WITH_SENT);
    all = open_all_files();
    start = g_get_monotonic_time();
    expect_error(ends[1], max, EPROTO);
    g_assert_cmpint(g_get_monotonic_time() - start, <,
                    (LINGER - 1) * G_USEC_PER_SEC);
    close_all_files(all);
    rnic_descriptors_release(WITH_SENT);
    close(listener);            /* resets: nothing waits any more */
    close(ends[0]);
    close(ends[1]);
}

static void test_does_not_wait(void)
{
    check_does_not_wait(2);
    check_does_not_wait(0);
}

int main(int argc, char **argv)
{
    const struct rlimit files = { OPEN_FILES, OPEN_FILES };

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &files), ==, 0);
    rnic_unix_closers_start();
    g_test_add_func("/rnic/unix-socket/receive", test_receive);
    g_test_add_func("/rnic/unix-socket/with-sender", test_with_sender);
    g_test_add_func("/rnic/unix-socket/little-room", test_little_room);
    g_test_add_func("/rnic/unix-socket/no-room", test_no_room);
    g_test_add_func("/rnic/unix-socket/does-not-wait", test_does_not_wait);
    return g_test_run();
}
