/*
 * rnic: UNIX streams through shared memory
 *
 * What data-test and others show over rings in general (they are run again with
 * RNIC_TEST_FABRIC=unix-rings) is not repeated here; this is about when a
 * stream goes over to a ring, how it ends, and what a peer can do wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/qtest/rnic/lib/process.h"
#include "tests/qtest/rnic/lib/connection.h"

enum {
    /* In the device, a stream that has sent less stays with its socket. */
    RING_AFTER = 256 * 1024,
    RING_MIN = 256 * 1024,
    RING_MAX = 512 * 1024,
    LENGTH = 100000,
    SEGMENT = 60000,            /* payload octets of a peer's large ones */
    LONGEST_FPDU = 2 + 65535 + 1 + 4,
    COUNT = 30,
    MUCH = 600,                 /* a turn of the device is 256 messages */
    SHORT = 500,
    STREAMS = 20,               /* between two devices */
    CLOSERS = 4,                /* threads of the device */
    MESSAGE_MAX = 253,          /* descriptors that the kernel lets one carry */
    OPEN_FILES = 400,           /* for QEMU */
};

typedef struct World {
    Connection *c;
    uint8_t data[CONNECTION_MR_SIZE];
    uint8_t got[LENGTH];
} World;

static void set_fabric(const char *fabric)
{
    g_setenv("RNIC_TEST_FABRIC", fabric, true);
}

static World *world_new(const ConnectionOptions *options)
{
    World *w = g_new0(World, 1);

    w->c = connection_new(options);
    rnic_pattern(w->data, sizeof(w->data), 5);
    return w;
}

static void world_free(World *w)
{
    connection_free(w->c);
    g_free(w);
}

/* --------------------------------------------------------------- transfer */

static void post_writes(World *w, unsigned count)
{
    connection_fill(w->c, 0, w->data, sizeof(w->data));
    for (unsigned i = 0; i < count; i++) {
        connection_post(w->c, RNIC_SQ_RDMA_WRITE, i, i * 97, LENGTH);
    }
}

static void take_write(World *w, unsigned i)
{
    g_assert_cmpuint(connection_get_write(w->c, 0, w->got, LENGTH), ==, LENGTH);
    g_assert_cmpmem(w->got, LENGTH, w->data + i * 97, LENGTH);
}

static void complete_writes(World *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rnic_expect_cqe(w->c->r, &w->c->send_cq, i, RNIC_WC_SUCCESS);
    }
}

static void check_writes_out(World *w, unsigned count)
{
    post_writes(w, count);
    for (unsigned i = 0; i < count; i++) {
        take_write(w, i);
    }
    complete_writes(w, count);
}

static void put_write(World *w, uint64_t offset, uint32_t length)
{
    wire_put_write(w->c->peer, w->c->mr.stag, w->c->mr.va + offset, w->data,
                   length);
}

/* Answered when all that was sent before has been placed. */
static void fence(World *w)
{
    WireRead read = { .sink_stag = 7 };

    wire_put_read_request(w->c->peer, &read);
    wire_get_tagged(w->c->peer, WIRE_READ_RESPONSE, 7, 0, w->got, 0);
}

static void expect_placed(World *w, uint64_t offset, uint32_t length)
{
    connection_peek(w->c, offset, w->got, length);
    g_assert_cmpmem(w->got, length, w->data, length);
}

static void check_writes_in(World *w, unsigned count)
{
    connection_fill(w->c, 0, w->got, LENGTH);
    for (unsigned i = 0; i < count; i++) {
        put_write(w, i * 13, LENGTH);
        fence(w);
        expect_placed(w, i * 13, LENGTH);
    }
}

/* ------------------------------------------------------------- agreement */

/* The socket until it has carried so much, the ring from then on. */
static void check_goes_over(const ConnectionOptions *options)
{
    World *w = world_new(options);
    WirePeer *peer = w->c->peer;

    g_assert_true(peer->offered_to);
    fence(w);                   /* the responder waits for the first FPDU */
    check_writes_out(w, RING_AFTER / LENGTH);
    g_assert_null(peer->ring_in);
    check_writes_out(w, COUNT);
    g_assert_nonnull(peer->ring_in);
    g_assert_cmpuint(peer->ring_in->position, >, (COUNT - 2) * LENGTH);
    check_writes_in(w, COUNT);
    g_assert_nonnull(peer->ring_out);
    g_assert_cmpuint(peer->ring_out->position, >, (COUNT - 1) * LENGTH);
    world_free(w);
}

static void test_goes_over(void)
{
    check_goes_over(NULL);
    check_goes_over(&(ConnectionOptions) { .passive = true });
    check_goes_over(&(ConnectionOptions) { .crc = true });
    check_goes_over(&(ConnectionOptions) { .markers_in = true });
    check_goes_over(&(ConnectionOptions) { .properties = ",io-threads=0" });
    check_goes_over(&(ConnectionOptions) { .properties = ",io-threads=3" });
}

/* A peer that offers nothing gets nothing but octets. */
static void check_plain(const ConnectionOptions *options)
{
    World *w;

    set_fabric("unix");
    w = world_new(options);
    check_writes_in(w, COUNT);
    check_writes_out(w, COUNT);
    g_assert_null(w->c->peer->ring_in);
    world_free(w);
    set_fabric("unix-rings");
}

static void test_plain_peer(void)
{
    check_plain(NULL);
    check_plain(&(ConnectionOptions) { .passive = true });
}

/* rings=off: the device offers nothing, and sends by its socket. */
static void test_off(void)
{
    g_autofree char *fabric = g_strdup_printf(
        "-object rnic-fabric-unix,id=g,dir=%s,rings=off", wire_directory());
    World *w = world_new(&(ConnectionOptions) {
        .properties = ",fabric=g", .arguments = fabric });

    check_writes_out(w, COUNT);
    check_writes_in(w, COUNT);
    g_assert_true(w->c->peer->offered);
    g_assert_false(w->c->peer->offered_to);
    g_assert_null(w->c->peer->ring_in);
    world_free(w);
}

/* None of its threads does anything until it may go on. */
static void stop_device(Rnic *r)
{
    pid_t pid = qtest_pid(r->qts);
    int status;

    g_assert_cmpint(kill(pid, SIGSTOP), ==, 0);
    g_assert_cmpint(waitpid(pid, &status, WUNTRACED), ==, pid);
    g_assert_true(WIFSTOPPED(status));
}

static void let_device_go_on(Rnic *r)
{
    g_assert_cmpint(kill(qtest_pid(r->qts), SIGCONT), ==, 0);
}

/*
 * Send these octets with the descriptors, and close those: the device has the
 * last ones of their files.
 */
static void send_and_close(Rnic *r, int fd, const void *octets, size_t length,
                           const int *fds, unsigned count)
{
    stop_device(r);
    g_assert_cmpint(wire_send_with(fd, octets, length, fds, count), ==, length);
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
    let_device_go_on(r);
}

/* Up to the MPA Reply, in which the peer sends the descriptors; takes them. */
static Connection *reply_with_all(const int *fds, unsigned count)
{
    Connection *c = connection_prepare(NULL);
    uint16_t port;
    int listener = wire_listen(2, &port);
    uint8_t octets[64];
    size_t length;

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1,
                                      1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    length = wire_mpa_encode(&c->reply, octets);
    send_and_close(c->r, c->peer->fd, octets, length, fds, count);
    close(listener);
    return c;
}

static Connection *reply_with(int fd)
{
    return reply_with_all(&fd, 1);
}

/* Memory that says something else is no offer, and no mistake. */
static void test_no_offer(void)
{
    static const char *const texts[] = { "", "rnic-ring 3\n", "rnic-ring 4" };

    set_fabric("unix");
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        World *w = g_new0(World, 1);
        int fd = memfd_create("test", MFD_CLOEXEC);

        g_assert_cmpint(write(fd, texts[i], strlen(texts[i])), >=, 0);
        w->c = reply_with(fd);
        g_assert_cmpint(rnic_expect_cm(w->c->r, RNIC_CM_CONNECT_REPLY).status,
                        ==, RNIC_CM_OK);
        check_writes_out(w, 10);
        g_assert_null(w->c->peer->ring_in);
        world_free(w);
    }
    set_fabric("unix-rings");
}

/* A file that is not memory may be one that nobody gets rid of. */
static void test_other_files(void)
{
    static const char *const files[] = { "/dev/null", "/", "/proc/self/stat" };

    set_fabric("unix");
    for (unsigned i = 0; i < G_N_ELEMENTS(files); i++) {
        Connection *c = reply_with(open(files[i], O_RDONLY | O_CLOEXEC));

        g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, !=,
                        RNIC_CM_OK);
        connection_free(c);
    }
    set_fabric("unix-rings");
}

/* A socket that close(2) waits for: what it has sent nobody takes. */
static int socket_lingering(int listener, int seconds)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t length = sizeof(in);
    struct linger linger = { .l_onoff = 1, .l_linger = seconds };
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

static int lingering_socket(int listener)
{
    return socket_lingering(listener, 10);
}

static int tcp_listener(void)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(bind(fd, (void *)&in, sizeof(in)), ==, 0);
    g_assert_cmpint(listen(fd, 64), ==, 0);
    return fd;
}

/* One that takes long to be closed does not hold up the device. */
static void test_slow_close(void)
{
    int listener = tcp_listener();
    gint64 start = g_get_monotonic_time();
    World *w;

    for (unsigned i = 0; i < 3; i++) {
        Connection *c;

        set_fabric("unix");
        c = reply_with(lingering_socket(listener));
        g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, !=,
                        RNIC_CM_OK);
        set_fabric("unix-rings");
        g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
        g_assert_cmpint(g_get_monotonic_time() - start, <, 9 * G_USEC_PER_SEC);
        close(listener);        /* resets, so that QEMU can end */
        listener = tcp_listener();
        start = g_get_monotonic_time();
        connection_free(c);
    }
    close(listener);
    w = world_new(NULL);
    check_writes_out(w, COUNT);
    world_free(w);
}

/* The kernel closes what there is no room for: not in the main loop. */
static void test_slow_close_of_third(void)
{
    int listener = tcp_listener();
    const int fds[3] = { wire_ring_memory(RING_MIN), wire_ring_memory(RING_MIN),
                         lingering_socket(listener) };
    gint64 start = g_get_monotonic_time();
    Connection *c;

    set_fabric("unix");
    c = reply_with_all(fds, 3);
    g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, !=,
                    RNIC_CM_OK);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    g_assert_cmpint(g_get_monotonic_time() - start, <, 9 * G_USEC_PER_SEC);
    close(listener);
    connection_free(c);
    set_fabric("unix-rings");
}

/* And what comes with the bell: not in a worker. */
static void test_slow_close_at_bell(void)
{
    World *w = world_new(NULL);
    int listener = tcp_listener();
    int fd = lingering_socket(listener);
    gint64 start = g_get_monotonic_time();

    check_writes_in(w, 1);
    send_and_close(w->c->r, w->c->peer->ring_out->bell, "x", 1, &fd, 1);
    rnic_settle(w->c->r);
    g_assert_cmpuint(rnic_modify_qp_state(w->c->r, &w->c->qp, RNIC_QPS_ERROR),
                     ==, RNIC_ST_OK);
    g_assert_cmpint(g_get_monotonic_time() - start, <, 9 * G_USEC_PER_SEC);
    close(listener);
    world_free(w);
}

/* A stream from a port of this host to the device, or -1: its queue is full. */
static int connect_stranger(uint16_t from, uint16_t port)
{
    g_autofree char *own = wire_socket_path(3, from);
    g_autofree char *path = wire_socket_path(1, port);
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    g_strlcpy(name.sun_path, own, sizeof(name.sun_path));
    g_strlcpy(to.sun_path, path, sizeof(to.sun_path));
    g_assert_cmpint(bind(fd, (void *)&name, sizeof(name)), ==, 0);
    g_assert_cmpint(unlink(own), ==, 0);
    if (connect(fd, (void *)&to, sizeof(to)) < 0) {
        g_assert_cmpint(errno, ==, EAGAIN);
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * All threads that close what peers send wait for these.  They are sent at once: a
 * signal, as of stop_device(), would end the wait.
 */
static void occupy_closers(Rnic *r, uint16_t port, int listener)
{
    struct pollfd peers[CLOSERS] = { };

    stop_device(r);
    for (unsigned i = 0; i < CLOSERS; i++) {
        int lingering = socket_lingering(listener, 1000);

        peers[i].fd = connect_stranger(100 + i, port);
        g_assert_cmpint(peers[i].fd, >=, 0);
        g_assert_cmpint(wire_send_with(peers[i].fd, "x", 1, &lingering, 1), ==,
                        1);
        close(lingering);
    }
    let_device_go_on(r);
    for (unsigned i = 0; i < CLOSERS; i++) {
        g_assert_cmpint(poll(&peers[i], 1, 20000), ==, 1);
        close(peers[i].fd);
    }
}

/* QEMU has a descriptor of memory of this name. */
static bool has_memory(Rnic *r, const char *name)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/fd", qtest_pid(r->qts));
    g_autofree char *wanted = g_strdup_printf("/memfd:%s (deleted)", name);
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *fd;
    bool has = false;

    g_assert_nonnull(dir);
    while (!has && (fd = g_dir_read_name(dir))) {
        g_autofree char *link = g_build_filename(path, fd, NULL);
        g_autofree char *file = g_file_read_link(link, NULL);

        has = g_strcmp0(file, wanted) == 0;
    }
    g_dir_close(dir);
    return has;
}

static void expect_memory(Rnic *r, const char *name, bool there)
{
    for (unsigned ms = 0; has_memory(r, name) != there; ms++) {
        g_assert_cmpuint(ms, <, 20000);
        g_usleep(1000);
    }
}

/*
 * What a peer sends may be much to free.  That too is done where nothing waits for
 * it: it is not done while the closers wait.
 */
static void test_closers_free_memory(void)
{
    World *w = g_new0(World, 1);
    int listener = tcp_listener();

    w->c = connection_prepare(NULL);
    g_assert_cmpuint(rnic_try_listen(w->c->r, wire_guest_ip(1), 7, 1, NULL),
                     ==, RNIC_ST_OK);
    occupy_closers(w->c->r, 7, listener);
    connection_establish(w->c, NULL);
    expect_memory(w->c->r, "offer", true);
    check_writes_in(w, 1);
    g_assert_nonnull(w->c->peer->ring_out);
    expect_memory(w->c->r, "ring", true);
    close(listener);            /* resets: all can be closed */
    expect_memory(w->c->r, "offer", false);
    expect_memory(w->c->r, "ring", false);
    world_free(w);
}

/* As many descriptors as a message can have. */
static void send_most(int fd)
{
    char control[CMSG_SPACE(MESSAGE_MAX * sizeof(int))] = { };
    struct iovec iov = { (void *)"x", 1 };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(MESSAGE_MAX * sizeof(int));
    for (unsigned i = 0; i < MESSAGE_MAX; i++) {
        memcpy(CMSG_DATA(header) + i * sizeof(int), &null, sizeof(null));
    }
    /* The device may have closed it; or this user has too many under way. */
    if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0) {
        g_assert_true(errno == EPIPE || errno == ECONNRESET ||
                      errno == ETOOMANYREFS);
    }
    close(null);
}

/* Streams with descriptors until the device takes no more. */
static GArray *flood(Rnic *r, uint16_t port)
{
    GArray *fds = g_array_new(false, false, sizeof(int));

    while (fds->len < OPEN_FILES) {
        int fd = connect_stranger(1000 + fds->len, port);

        if (fd < 0) {
            break;
        }
        send_most(fd);
        g_array_append_val(fds, fd);
        rnic_assert_alive(r);
    }
    return fds;
}

static void expect_open_files(Rnic *r, unsigned most)
{
    for (unsigned ms = 0; process_descriptors(r->qts) > most; ms++) {
        g_assert_cmpuint(ms, <, 20000);
        g_usleep(1000);
    }
}

/* While nothing can be closed, what peers send leaves QEMU some descriptors. */
static void test_closers_wait(void)
{
    const struct rlimit few = { OPEN_FILES, OPEN_FILES };
    const uint16_t port = 7;
    int listener = tcp_listener();
    unsigned before;
    Connection *c;
    GArray *fds;

    set_fabric("unix");
    c = connection_prepare(NULL);
    g_assert_cmpint(prlimit(qtest_pid(c->r->qts), RLIMIT_NOFILE, &few, NULL),
                    ==, 0);
    before = process_descriptors(c->r->qts);
    g_assert_cmpuint(before, <, OPEN_FILES / 4);
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    occupy_closers(c->r, port, listener);
    fds = flood(c->r, port);
    rnic_settle(c->r);
    g_test_message("%u files, %u of them before, %u connections",
                   process_descriptors(c->r->qts), before, fds->len);
    g_assert_cmpuint(fds->len, <, OPEN_FILES);
    g_assert_cmpuint(process_descriptors(c->r->qts), >, before + OPEN_FILES / 2);
    g_assert_cmpuint(process_descriptors(c->r->qts), <=, before + OPEN_FILES * 3 / 4);
    for (guint i = 0; i < fds->len; i++) {
        close(g_array_index(fds, int, i));
    }
    g_array_free(fds, true);
    close(listener);            /* resets: all can be closed */
    expect_open_files(c->r, before + 10);
    connection_establish(c, NULL);
    connection_free(c);
    set_fabric("unix-rings");
}

/* -------------------------------------------------------------------- ends */

/* Everything that was put into the ring before the end counts. */
static void test_fin(void)
{
    World *w = world_new(NULL);

    for (unsigned i = 0; i < 20; i++) {
        connection_fill(w->c, 0, w->got, LENGTH);
        fence(w);
        g_assert_nonnull(w->c->peer->ring_out);
        put_write(w, i, 60000);
        wire_shutdown(w->c->peer);
        rnic_expect_cm(w->c->r, RNIC_CM_PEER_CLOSE);
        g_assert_cmpint(wire_end(w->c->peer), ==, WIRE_FIN);
        rnic_expect_async(w->c->r, RNIC_AE_LLP_CLOSE_COMPLETE,
                          w->c->qp.number);
        expect_placed(w, i, 60000);
        connection_recycle(w->c);
        connection_establish(w->c, NULL);
    }
    world_free(w);
}

/*
 * More than the device reads in a turn of its event loop, all of it there
 * before the first turn, and no bell is rung again.
 */
static void put_much(World *w)
{
    w->c->peer->ring_size = RING_MAX;
    fence(w);
    stop_device(w->c->r);
    for (unsigned i = 0; i < MUCH; i++) {
        put_write(w, i, SHORT);
    }
    let_device_go_on(w->c->r);
}

static void check_much(const ConnectionOptions *options)
{
    World *w = world_new(options);

    for (unsigned i = 0; i < 5; i++) {
        connection_fill(w->c, 0, w->got, LENGTH);
        put_much(w);
        fence(w);
        expect_placed(w, MUCH - 1, SHORT);
    }
    world_free(w);
}

static void test_much(void)
{
    check_much(NULL);
    check_much(&(ConnectionOptions) { .crc = true });
}

static void check_fin_behind_much(const ConnectionOptions *options)
{
    World *w = world_new(options);

    for (unsigned i = 0; i < 5; i++) {
        connection_fill(w->c, 0, w->got, LENGTH);
        put_much(w);
        wire_shutdown(w->c->peer);
        rnic_expect_cm(w->c->r, RNIC_CM_PEER_CLOSE);
        g_assert_cmpint(wire_end(w->c->peer), ==, WIRE_FIN);
        rnic_expect_async(w->c->r, RNIC_AE_LLP_CLOSE_COMPLETE,
                          w->c->qp.number);
        expect_placed(w, MUCH - 1, SHORT);
        connection_recycle(w->c);
        connection_establish(w->c, options);
    }
    world_free(w);
}

static void test_fin_behind_much(void)
{
    check_fin_behind_much(NULL);
    check_fin_behind_much(&(ConnectionOptions) { .crc = true });
}

/* The device's own end: what it has in the ring is read, then its FIN. */
static void test_own_fin(void)
{
    World *w = world_new(NULL);

    check_writes_out(w, COUNT);
    g_assert_nonnull(w->c->peer->ring_in);
    post_writes(w, 5);
    complete_writes(w, 5);
    g_assert_cmpuint(rnic_modify_qp_state(w->c->r, &w->c->qp,
                                          RNIC_QPS_CLOSING), ==, RNIC_ST_OK);
    for (unsigned i = 0; i < 5; i++) {
        take_write(w, i);
    }
    g_assert_cmpint(wire_end(w->c->peer), ==, WIRE_FIN);
    wire_shutdown(w->c->peer);
    rnic_expect_async(w->c->r, RNIC_AE_LLP_CLOSE_COMPLETE, w->c->qp.number);
    world_free(w);
}

/* There is no room for another FPDU.  With CRC a part of one is put there. */
static void expect_full(World *w)
{
    const WireRing *ring = w->c->peer->ring_in;

    g_assert_cmpuint(wire_ring_filled(ring), >,
                     ring->size - (w->c->peer->crc ? 1 : LONGEST_FPDU));
}

/* A ring that is full: the device goes on when there is room again. */
static void check_full(const ConnectionOptions *options)
{
    World *w = world_new(options);

    check_writes_out(w, COUNT);
    for (unsigned round = 0; round < 5; round++) {
        post_writes(w, 60);
        rnic_settle(w->c->r);
        expect_full(w);
        for (unsigned i = 0; i < 60; i++) {
            take_write(w, i);
        }
        complete_writes(w, 60);
    }
    /* And sees that nobody will make room. */
    post_writes(w, 60);
    rnic_settle(w->c->r);
    wire_abort(w->c->peer);
    w->c->peer = NULL;
    rnic_expect_async(w->c->r, RNIC_AE_LLP_RESET, w->c->qp.number);
    world_free(w);
}

static void test_full(void)
{
    check_full(NULL);
    check_full(&(ConnectionOptions) { .crc = true });
}

/*
 * With CRC large FPDUs are neither copied into the ring nor out of it, small
 * ones are, and those of which the ring has a part.
 */
static void test_sizes(void)
{
    static const uint32_t sizes[] = { 60000, 5, 70000, 0, 20000, 17000, 16000,
                                      300, 4096, 100000, 4097, 64000, 1 };
    World *w = world_new(&(ConnectionOptions) { .crc = true });

    w->c->peer->ring_size = 256 * 1024;
    w->c->peer->segment_size = SEGMENT;
    check_writes_out(w, RING_AFTER / LENGTH);
    for (unsigned i = 0; i < 20 * ARRAY_SIZE(sizes); i++) {
        uint32_t size = sizes[i * 5 % ARRAY_SIZE(sizes)];

        connection_fill(w->c, 0, w->data, sizeof(w->data));
        connection_post(w->c, RNIC_SQ_RDMA_WRITE, i, i, size);
        g_assert_cmpuint(connection_get_write(w->c, 0, w->got, LENGTH), ==,
                         size);
        g_assert_cmpmem(w->got, size, w->data + i, size);
        rnic_expect_cqe(w->c->r, &w->c->send_cq, i, RNIC_WC_SUCCESS);
        put_write(w, i * 3, size);
        fence(w);
        expect_placed(w, i * 3, size);
    }
    g_assert_nonnull(w->c->peer->ring_in);
    g_assert_nonnull(w->c->peer->ring_out);
    world_free(w);
}

/* A wrong CRC: of that FPDU nothing is placed, of those before it all is. */
static void test_wrong_crc(void)
{
    World *w = world_new(&(ConnectionOptions) { .crc = true });
    g_autofree uint8_t *clear = g_malloc0(LENGTH);

    w->c->peer->ring_size = 256 * 1024;
    w->c->peer->segment_size = SEGMENT;
    check_writes_in(w, 1);
    connection_fill(w->c, 0, clear, LENGTH);
    put_write(w, 0, 30000);
    w->c->peer->bad_crc = true;
    put_write(w, 30000, 50000);
    rnic_expect_async(w->c->r, RNIC_AE_LLP_CRC, w->c->qp.number);
    expect_placed(w, 0, 30000);
    connection_peek(w->c, 30000, w->got, 50000);
    g_assert_cmpmem(w->got, 50000, clear, 50000);
    world_free(w);
}

static void test_killed(void)
{
    World *w = world_new(NULL);

    check_writes_in(w, 1);
    wire_abort(w->c->peer);
    w->c->peer = NULL;
    rnic_expect_async(w->c->r, RNIC_AE_LLP_RESET, w->c->qp.number);
    world_free(w);
}

/* ------------------------------------------------------- two of the device */

enum {
    BIG = 16 * 250000,          /* a WR's SGEs, all of one buffer */
    BIG_COUNT = 400,
    UNDER_WAY = 8,
};

/* A QP of each device, connected to the other's. */
typedef struct Two {
    Connection *ends[2];
    RnicMr big[2];
} Two;

static void connect_two(Two *two, uint16_t port)
{
    Connection *a = two->ends[0], *b = two->ends[1];
    struct rnic_cm_event event;

    g_assert_cmpuint(rnic_try_listen(b->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(1), port, 4,
                                      4, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(b->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(b->r, le32_to_cpu(event.endpoint), &b->qp,
                                     4, 4, 2, NULL, 0), ==, RNIC_ST_OK);
    rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    rnic_expect_cm(b->r, RNIC_CM_ESTABLISHED);
}

static void post_big(Connection *c, uint8_t opcode, const RnicMr *remote,
                     uint64_t wr_id)
{
    RnicWr wr = {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = wr_id,
        .num_sge = 16,
        .remote_stag = remote->stag,
        .remote_to = remote->va,
    };

    for (unsigned i = 0; i < wr.num_sge; i++) {
        wr.sge[i] = rnic_sge(&c->mr, i, BIG / 16);
    }
    rnic_post_send(c->r, &c->qp, &wr);
}

/*
 * In parts: libqtest looks through all that it has of an answer whenever more
 * comes, which under TSan takes seconds for a megabyte.
 */
static void check_big(Connection *c, const RnicMr *mr, const uint8_t *data)
{
    const uint32_t part = BIG / 16;
    g_autofree uint8_t *got = g_malloc(part);

    for (unsigned i = 0; i < 16; i++) {
        qtest_bufread(c->r->qts, mr->bus + i * part, got, part);
        g_assert_cmpmem(got, part, data + i, part);
    }
}

/* One at a time: both ends wait, and have to be told, in between. */
static void check_reads(Connection *c, const RnicMr *remote)
{
    RnicWr wr = {
        .opcode = RNIC_SQ_RDMA_READ,
        .flags = RNIC_WQE_SIGNALED,
        .num_sge = 1,
        .sge = { rnic_sge(&c->mr, 0, LENGTH) },
        .remote_stag = remote->stag,
        .remote_to = remote->va,
    };

    for (unsigned i = 0; i < COUNT; i++) {
        wr.wr_id = i;
        rnic_post_send(c->r, &c->qp, &wr);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
}

/* The first stream's ends make the devices, the others are on those. */
static void prepare_two(Two *two, Two *first, const uint8_t *data,
                        const ConnectionOptions *options)
{
    for (unsigned e = 0; e < 2; e++) {
        Connection *c = two == first
                        ? connection_prepare(options)
                        : connection_prepare_second(first->ends[e], options);

        connection_fill(c, 0, data, CONNECTION_MR_SIZE);
        rnic_create_mr(c->r, &two->big[e], c->r->pd, BIG,
                       RNIC_TEST_ACCESS_ALL);
        two->ends[e] = c;
    }
}

/* The @i-th of @count, both ways; so many are under way. */
static void step_two(const Two *two, unsigned i, unsigned count)
{
    for (unsigned e = 0; e < 2; e++) {
        Connection *c = two->ends[e];

        if (i < count) {
            post_big(c, RNIC_SQ_RDMA_WRITE, &two->big[!e], i);
        }
        if (i >= UNDER_WAY && i - UNDER_WAY < count) {
            rnic_expect_cqe(c->r, &c->send_cq, i - UNDER_WAY, RNIC_WC_SUCCESS);
        }
    }
}

/*
 * Much in both directions at once. What the rings' ends tell each other is of
 * the kind that is wrong once in thousands of times: nobody would go on. The
 * first stream is alone at the end.
 */
static void check_two_devices(const char *properties, unsigned streams)
{
    const ConnectionOptions options = {
        .sq_depth = 64, .max_sge = 16, .properties = properties };
    const unsigned count = BIG_COUNT / streams;
    g_autofree Two *two = g_new0(Two, streams);
    g_autofree uint8_t *data = g_malloc(CONNECTION_MR_SIZE);

    rnic_pattern(data, CONNECTION_MR_SIZE, 5);
    for (unsigned s = 0; s < streams; s++) {
        prepare_two(&two[s], two, data, &options);
        connect_two(&two[s], 7 + s);
    }
    for (unsigned i = 0; i < count + UNDER_WAY; i++) {
        for (unsigned s = 0; s < streams; s++) {
            step_two(&two[s], i, s ? count / 2 : count);
        }
    }
    for (unsigned s = 0; s < streams; s++) {
        for (unsigned e = 0; e < 2; e++) {
            check_big(two[s].ends[e], &two[s].big[e], data);
            check_reads(two[s].ends[e], &two[s].big[!e]);
        }
    }
    for (unsigned s = streams; s-- > 0;) {
        for (unsigned e = 0; e < 2; e++) {
            (s ? connection_free_second : connection_free)(two[s].ends[e]);
        }
    }
}

static void test_two_devices(void)
{
    check_two_devices(",io-threads=1", 1);
}

static void test_two_devices_crc(void)
{
    check_two_devices(",io-threads=1,mpa-crc=on", 1);
}

static void test_two_devices_many(void)
{
    check_two_devices(",io-threads=1", STREAMS);
}

/* ------------------------------------------------------------ bad peers */

static void send_three(World *w)
{
    int fds[3] = { 0, 1, 2 };

    g_assert_cmpint(wire_send_with(w->c->peer->fd, "x", 1, fds, 3), ==, 1);
}

static void send_no_ring(World *w)
{
    int fds[2] = { 0, 1 };

    g_assert_cmpint(wire_send_with(w->c->peer->fd, "x", 1, fds, 2), ==, 1);
}

static void send_ring_of(World *w, int memory)
{
    int fds[2];

    wire_ring_free(wire_ring_new(RING_MIN, fds));
    close(fds[0]);
    fds[0] = memory;
    g_assert_cmpint(wire_send_with(w->c->peer->fd, "x", 1, fds, 2), ==, 1);
    close(fds[0]);
    close(fds[1]);
}

static void send_unsealed(World *w)
{
    int memory = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g_assert_cmpint(ftruncate(memory, getpagesize() + RING_MIN), ==, 0);
    send_ring_of(w, memory);
}

static void send_other_bell(World *w)
{
    int fds[2] = { wire_ring_memory(RING_MIN), open("/dev/null", O_RDWR) };

    g_assert_cmpint(wire_send_with(w->c->peer->fd, "x", 1, fds, 2), ==, 1);
    close(fds[0]);
    close(fds[1]);
}

static void send_odd_size(World *w)
{
    send_ring_of(w, wire_ring_memory(RING_MIN + 4096));
}

static void send_small(World *w)
{
    send_ring_of(w, wire_ring_memory(RING_MIN / 2));
}

static void send_huge(World *w)
{
    send_ring_of(w, wire_ring_memory(1u << 31));
}

static void send_second(World *w)
{
    int fds[2];

    check_writes_in(w, 1);
    wire_ring_free(wire_ring_new(RING_MIN, fds));
    g_assert_cmpint(wire_send_with(w->c->peer->fd, "x", 1, fds, 2), ==, 1);
    close(fds[0]);
    close(fds[1]);
}

static void send_beside(World *w)
{
    check_writes_in(w, 1);
    g_assert_cmpint(send(w->c->peer->fd, "x", 1, MSG_NOSIGNAL), ==, 1);
}

static void head_too_far(World *w)
{
    WireRing *ring;

    check_writes_in(w, 1);
    ring = w->c->peer->ring_out;
    wire_ring_set_word(ring, WIRE_RING_HEAD,
                       wire_ring_word(ring, WIRE_RING_TAIL) + ring->size + 1);
    send(ring->bell, "", 1, MSG_NOSIGNAL);
}

static void tail_too_far(World *w)
{
    WireRing *ring;

    check_writes_out(w, COUNT);
    ring = w->c->peer->ring_in;
    wire_ring_set_word(ring, WIRE_RING_TAIL,
                       wire_ring_word(ring, WIRE_RING_HEAD) + 1);
    connection_post(w->c, RNIC_SQ_RDMA_WRITE, 1, 0, 1);
}

/* Each is the end of its stream, and of nothing else. */
static void test_mistakes(void)
{
    static void (*const mistakes[])(World *w) = {
        send_three, send_no_ring, send_unsealed, send_other_bell,
        send_odd_size, send_small, send_huge, send_second, send_beside,
        head_too_far, tail_too_far,
    };
    World *w = world_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(mistakes); i++) {
        mistakes[i](w);
        rnic_expect_async(w->c->r, RNIC_AE_LLP_RESET, w->c->qp.number);
        connection_recycle(w->c);
        connection_establish(w->c, NULL);
    }
    check_writes_in(w, 3);
    check_writes_out(w, COUNT);
    world_free(w);
}

/* Descriptors for rings where none was offered. */
static void test_unasked(void)
{
    g_autofree char *fabric = g_strdup_printf(
        "-object rnic-fabric-unix,id=g,dir=%s,rings=off", wire_directory());
    World *w = world_new(&(ConnectionOptions) {
        .properties = ",fabric=g", .arguments = fabric });

    send_ring_of(w, wire_ring_memory(RING_MIN));
    rnic_expect_async(w->c->r, RNIC_AE_LLP_RESET, w->c->qp.number);
    world_free(w);
}

/* Processor time of QEMU, in ticks. */
static unsigned long ticks(World *w)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat",
                                            qtest_pid(w->c->r->qts));
    g_autofree char *text = NULL;
    unsigned long user, system;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpint(sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u "
                           "%*u %*u %*u %*u %lu %lu", &user, &system), ==, 2);
    return user + system;
}

/* A bell that will never ring does not keep the device busy. */
static void test_silent_bell(void)
{
    World *w = world_new(NULL);
    unsigned long before;

    check_writes_in(w, 1);
    close(w->c->peer->ring_out->bell);
    w->c->peer->ring_out->bell = open("/dev/null", O_RDWR | O_CLOEXEC);
    rnic_settle(w->c->r);
    before = ticks(w);
    g_usleep(500 * 1000);
    g_assert_cmpuint(ticks(w) - before, <, sysconf(_SC_CLK_TCK) / 4);
    /* What the end is worth. */
    wire_shutdown(w->c->peer);
    rnic_expect_async(w->c->r, RNIC_AE_LLP_CLOSE_COMPLETE, w->c->qp.number);
    world_free(w);
}

int main(int argc, char **argv)
{
    set_fabric("unix-rings");
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/unix-rings/goes-over", test_goes_over);
    qtest_add_func("rnic/unix-rings/plain-peer", test_plain_peer);
    qtest_add_func("rnic/unix-rings/off", test_off);
    qtest_add_func("rnic/unix-rings/no-offer", test_no_offer);
    qtest_add_func("rnic/unix-rings/other-files", test_other_files);
    qtest_add_func("rnic/unix-rings/slow-close", test_slow_close);
    qtest_add_func("rnic/unix-rings/slow-close-of-third",
                   test_slow_close_of_third);
    qtest_add_func("rnic/unix-rings/slow-close-at-bell",
                   test_slow_close_at_bell);
    qtest_add_func("rnic/unix-rings/closers-wait", test_closers_wait);
    qtest_add_func("rnic/unix-rings/closers-free-memory",
                   test_closers_free_memory);
    qtest_add_func("rnic/unix-rings/fin", test_fin);
    qtest_add_func("rnic/unix-rings/much", test_much);
    qtest_add_func("rnic/unix-rings/fin-behind-much", test_fin_behind_much);
    qtest_add_func("rnic/unix-rings/own-fin", test_own_fin);
    qtest_add_func("rnic/unix-rings/full", test_full);
    qtest_add_func("rnic/unix-rings/sizes", test_sizes);
    qtest_add_func("rnic/unix-rings/wrong-crc", test_wrong_crc);
    qtest_add_func("rnic/unix-rings/killed", test_killed);
    qtest_add_func("rnic/unix-rings/two-devices", test_two_devices);
    qtest_add_func("rnic/unix-rings/two-devices-crc", test_two_devices_crc);
    qtest_add_func("rnic/unix-rings/two-devices-many", test_two_devices_many);
    qtest_add_func("rnic/unix-rings/mistakes", test_mistakes);
    qtest_add_func("rnic/unix-rings/unasked", test_unasked);
    qtest_add_func("rnic/unix-rings/silent-bell", test_silent_bell);
    return g_test_run();
}
