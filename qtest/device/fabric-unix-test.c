/*
 * rnic: the UNIX fabric, names and files of sockets, and what can go wrong
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include <glib/gstdio.h>
#include <sys/file.h>
#include <sys/un.h>

#include "tests/qtest/rnic/lib/connection.h"

/* ---------------------------------------------------------------- sockets */

static struct sockaddr_un socket_name(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    g_assert_cmpuint(strlen(path), <, sizeof(un.sun_path));
    strcpy(un.sun_path, path);
    return un;
}

/* A socket bound to @path; @path NULL: to nothing. */
static int new_socket(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(fd, >=, 0);
    if (path) {
        struct sockaddr_un un = socket_name(path);

        g_assert_cmpint(bind(fd, (void *)&un, sizeof(un)), ==, 0);
    }
    return fd;
}

static void connect_socket(int fd, const char *path)
{
    struct sockaddr_un un = socket_name(path);

    g_assert_cmpint(connect(fd, (void *)&un, sizeof(un)), ==, 0);
}

static bool exists(const char *path)
{
    GStatBuf st;

    return g_lstat(path, &st) == 0;
}

static unsigned mode_of(const char *path)
{
    GStatBuf st;

    g_assert_cmpint(g_lstat(path, &st), ==, 0);
    g_assert_true(S_ISSOCK(st.st_mode));
    return st.st_mode & 07777;
}

static unsigned files_in_directory(void)
{
    GDir *dir = g_dir_open(wire_directory(), 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(dir)) {
        n++;
    }
    g_dir_close(dir);
    return n;
}

static char *beside(const char *name)
{
    return g_build_filename(wire_directory(), name, NULL);
}

static uint32_t listen_at(Connection *c, uint16_t port)
{
    uint32_t number;

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1,
                                     &number), ==, RNIC_ST_OK);
    return number;
}

static uint16_t try_listen(Connection *c, uint16_t port)
{
    return rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL);
}

static void unlisten(Connection *c, uint32_t number)
{
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN, number),
                     ==, RNIC_ST_OK);
}

static uint16_t try_connect(Connection *c, uint16_t port)
{
    return rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1, 1, 5,
                            NULL, 0);
}

static uint8_t connect_status(Connection *c, uint16_t port)
{
    g_assert_cmpuint(try_connect(c, port), ==, RNIC_ST_OK);
    return rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status;
}

/* ------------------------------------------------------------------ files */

/* There while somebody listens, and as open as the directory. */
static void test_files(void)
{
    static const unsigned modes[][2] = {
        { 0700, 0600 }, { 0750, 0600 }, { 0770, 0660 }, { 0777, 0666 },
        { 0703, 0606 },
    };
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(1, 7);
    uint32_t number;

    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
        g_assert_cmpint(g_chmod(wire_directory(), modes[i][0]), ==, 0);
        number = listen_at(c, 7);
        g_assert_cmphex(mode_of(path), ==, modes[i][1]);
        unlisten(c, number);
        g_assert_false(exists(path));
    }
    g_assert_cmpint(g_chmod(wire_directory(), 0700), ==, 0);
    /* Reset of the function, and of the machine. */
    listen_at(c, 7);
    rnic_reset(c->r);
    g_assert_false(exists(path));
    rnic_up(c->r);
    listen_at(c, 7);
    rnic_bus_reset(c->r);
    g_assert_false(exists(path));
    /* The end of QEMU, asked and killed by a signal it can catch. */
    rnic_up(c->r);
    listen_at(c, 7);
    g_assert_true(exists(path));
    connection_free(c);
    g_assert_false(exists(path));
    g_assert_cmpuint(files_in_directory(), ==, 0);
}

/* What became of the file meanwhile is not the device's. */
static void test_file_of_another(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(1, 7);
    uint32_t number = listen_at(c, 7);
    int fd;

    g_assert_cmpint(g_unlink(path), ==, 0);
    fd = new_socket(path);
    unlisten(c, number);
    g_assert_true(exists(path));
    close(fd);
    connection_free(c);
    g_assert_true(exists(path));
}

/* Left by somebody who is no more: replaced, and it works. */
static void test_stale(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(1, 7);
    WireMpa request = wire_mpa_request();
    int fd = new_socket(path);

    g_assert_cmpint(listen(fd, 1), ==, 0);
    close(fd);
    g_assert_true(exists(path));
    listen_at(c, 7);
    c->peer = wire_connect(c->r->qts, 3, 1, 7);
    wire_mpa_put(c->peer, &request);
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    connection_free(c);
}

/* Somebody's, living, or no socket at all: left alone. */
static void test_in_use(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(1, 7);
    uint32_t number;
    int fd;

    fd = new_socket(path);              /* not listening yet */
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    g_assert_cmpint(listen(fd, 5), ==, 0);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    /* It was not disturbed by the question. */
    g_assert_cmpint(fcntl(fd, F_SETFL, O_NONBLOCK), ==, 0);
    g_assert_cmpint(accept(fd, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    close(fd);
    g_assert_cmpint(g_unlink(path), ==, 0);

    g_assert_true(g_file_set_contents(path, "precious", -1, NULL));
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    g_assert_true(exists(path));
    g_assert_cmpint(g_unlink(path), ==, 0);

    g_assert_cmpint(symlink("nowhere", path), ==, 0);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    g_assert_true(exists(path));
    g_assert_cmpint(g_unlink(path), ==, 0);

    number = listen_at(c, 7);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    unlisten(c, number);
    number = listen_at(c, 7);
    unlisten(c, number);
    g_assert_cmpuint(rnic_query_counters(c->r).listeners, ==, 0);
    connection_free(c);
}

/* The file of a listener that is no more. */
static void leave_stale_file(uint16_t port)
{
    g_autofree char *path = wire_socket_path(1, port);

    close(new_socket(path));
}

/* Somebody else is replacing a file: a wait that ends. */
static void test_locked(void)
{
    Connection *c = connection_prepare(NULL);
    int fd = open(wire_directory(), O_RDONLY | O_DIRECTORY);

    leave_stale_file(7);
    g_assert_cmpint(flock(fd, LOCK_EX), ==, 0);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_FABRIC_ERROR);
    g_assert_cmpint(flock(fd, LOCK_UN), ==, 0);
    listen_at(c, 7);
    close(fd);
    connection_free(c);
}

/* Who may read the directory may hold its lock: nothing else waits for that. */
static void test_lock_of_a_reader(void)
{
    Connection *c = connection_prepare(NULL);
    int fd = open(wire_directory(), O_RDONLY | O_DIRECTORY);
    g_autofree char *path = wire_socket_path(1, 7);

    g_assert_cmpint(flock(fd, LOCK_EX), ==, 0);
    listen_at(c, 7);
    g_assert_cmphex(mode_of(path), ==, 0600);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    close(fd);
    connection_free(c);
}

static int hold_lock(void)
{
    int fd = open(wire_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(flock(fd, LOCK_EX), ==, 0);
    return fd;
}

static struct rnic_admin_sqe listen_command(uint16_t port)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);

    sqe.listen.local = rnic_addr(wire_guest_ip(1), port);
    sqe.listen.backlog = cpu_to_le32(8);
    return sqe;
}

/*
 * CM_LISTEN and another command at once, while the lock is held: the other one
 * ends first, since nothing waits for the lock.  Returns CM_LISTEN's status after
 * the lock is free.
 */
static uint16_t listen_beside_another(Connection *c, uint16_t port)
{
    struct rnic_admin_sqe listen = listen_command(port);
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    struct rnic_admin_cqe cqe;
    int lock = hold_lock();

    leave_stale_file(port);
    rnic_admin_fill(c->r, &listen);
    rnic_admin_fill(c->r, &nop);
    rnic_admin_tail(c->r);
    rnic_admin_completion(c->r, &cqe);
    close(lock);
    g_assert_cmphex(cqe.command_id, ==, nop.command_id);
    rnic_admin_completion(c->r, &cqe);
    g_assert_cmphex(cqe.command_id, ==, listen.command_id);
    return le16_to_cpu(cqe.status);
}

static void test_listen_waits_without_the_main_loop(void)
{
    Connection *c = connection_prepare(NULL);
    uint16_t status;

    /* A slow test may free the lock too late. */
    for (unsigned i = 0; i < 50; i++) {
        status = listen_beside_another(c, 7);
        if (status == RNIC_ST_OK) {
            break;
        }
        g_assert_cmpuint(status, ==, RNIC_ST_FABRIC_ERROR);
    }
    g_assert_cmpuint(status, ==, RNIC_ST_OK);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_ADDRESS_IN_USE);
    connection_free(c);
}

/* Two find the same stale file: one of them has the address then. */
static void test_replaced_by_two(void)
{
    enum { ROUNDS = 100 };
    Connection *c[2] = { connection_prepare(NULL), connection_prepare(NULL) };
    g_autofree char *path = wire_socket_path(1, 7);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rnic_admin_sqe listen[2];
        struct rnic_admin_cqe cqe;
        unsigned winner = 2;
        int fd;

        leave_stale_file(7);
        for (unsigned i = 0; i < 2; i++) {
            listen[i] = listen_command(7);
            rnic_admin_fill(c[i]->r, &listen[i]);
        }
        for (unsigned i = 0; i < 2; i++) {
            rnic_admin_tail(c[(i + round) % 2]->r);
        }
        for (unsigned i = 0; i < 2; i++) {
            rnic_admin_completion(c[i]->r, &cqe);
            if (le16_to_cpu(cqe.status) == RNIC_ST_OK) {
                g_assert_cmpuint(winner, ==, 2);
                winner = i;
                continue;
            }
            g_assert_cmpuint(le16_to_cpu(cqe.status), ==,
                             RNIC_ST_ADDRESS_IN_USE);
        }
        g_assert_cmpuint(winner, <, 2);
        fd = new_socket(NULL);
        connect_socket(fd, path);
        close(fd);
        rnic_reset(c[winner]->r);
        rnic_up(c[winner]->r);
        g_assert_false(exists(path));
    }
    connection_free(c[1]);
    connection_free(c[0]);
}

/* The device is reset meanwhile: the command is forgotten. */
static void test_listen_waits_at_reset(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe listen = listen_command(7);
    g_autofree char *path = wire_socket_path(1, 7);
    int lock = hold_lock();

    leave_stale_file(7);
    rnic_admin_fill(c->r, &listen);
    rnic_admin_tail(c->r);
    rnic_settle_fast(c->r);
    rnic_reset(c->r);
    close(lock);
    g_usleep(200 * 1000);
    rnic_assert_alive(c->r);
    /* Not replaced. */
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpuint(files_in_directory(), ==, 0);
    connection_free(c);
}

/* Without its directory nothing works; with it, everything again. */
static void test_directory_gone(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *away = g_strdup_printf("%s.away", wire_directory());

    g_assert_cmpint(g_rename(wire_directory(), away), ==, 0);
    g_assert_cmpuint(try_listen(c, 7), ==, RNIC_ST_FABRIC_ERROR);
    g_assert_cmpuint(try_connect(c, 7), ==, RNIC_ST_FABRIC_ERROR);
    g_assert_cmpint(g_rename(away, wire_directory()), ==, 0);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    connection_establish(c, NULL);
    connection_free(c);
}

/* ------------------------------------------------------------------ names */

static void assert_port(const struct rnic_cm_addr *addr, unsigned host,
                        uint16_t port)
{
    struct rnic_cm_addr expected = rnic_addr(wire_guest_ip(host), port);

    g_assert_cmpmem(addr->ip, 16, expected.ip, 16);
    g_assert_cmpuint(be16_to_cpu(addr->port), ==, port);
}

/* The port in the name of the socket that a peer has connected with. */
static uint16_t port_of_peer(int fd, unsigned host)
{
    struct sockaddr_un un = { };
    socklen_t length = sizeof(un);
    char *colon;
    g_autofree char *path = NULL;

    g_assert_cmpint(getpeername(fd, (void *)&un, &length), ==, 0);
    colon = strrchr(un.sun_path, ':');
    g_assert_nonnull(colon);
    path = wire_socket_path(host, atoi(colon + 1));
    g_assert_cmpstr(un.sun_path, ==, path);
    return atoi(colon + 1);
}

/* Both ends know each other's address; only listeners leave files. */
static void test_names(void)
{
    Connection *c = connection_prepare(NULL);
    WireMpa request = wire_mpa_request();
    struct rnic_cm_event event;
    uint16_t port, peers;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(try_connect(c, port), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    peers = port_of_peer(c->peer->fd, 1);
    g_assert_cmpuint(files_in_directory(), ==, 1);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    wire_mpa_put(c->peer, &c->reply);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    assert_port(&event.local, 1, peers);
    assert_port(&event.remote, 2, port);
    connection_recycle(c);
    close(listener);

    listen_at(c, 7);
    c->peer = wire_connect(c->r->qts, 3, 1, 7);
    wire_mpa_put(c->peer, &request);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    assert_port(&event.local, 1, 7);
    g_assert_cmpuint(be16_to_cpu(event.remote.port), !=, 0);
    assert_port(&event.remote, 3, be16_to_cpu(event.remote.port));
    connection_free(c);
}

static uint16_t connect_from(Connection *c, uint16_t local_port, uint16_t port)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    sqe.connect.qpn = cpu_to_le32(c->qp.number);
    sqe.connect.local = rnic_addr(wire_guest_ip(1), local_port);
    sqe.connect.remote = rnic_addr(wire_guest_ip(2), port);
    return rnic_admin(c->r, &sqe, NULL);
}

/* A port of the guest's choice, and another one where that is taken. */
static void test_local_port(void)
{
    Connection *a = connection_prepare(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(connect_from(a, 999, port), ==, RNIC_ST_OK);
    a->peer = wire_accept(a->r->qts, listener);
    g_assert_cmpuint(port_of_peer(a->peer->fd, 1), ==, 999);
    g_assert_cmpuint(connect_from(b, 999, port), ==, RNIC_ST_OK);
    b->peer = wire_accept(a->r->qts, listener);
    g_assert_cmpuint(port_of_peer(b->peer->fd, 1), !=, 999);
    /* Free again with its stream's end. */
    wire_close(a->peer);
    rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpuint(connect_from(a, 999, port), ==, RNIC_ST_OK);
    a->peer = wire_accept(a->r->qts, listener);
    g_assert_cmpuint(port_of_peer(a->peer->fd, 1), ==, 999);
    /* The guest's own listener has this one. */
    wire_close(a->peer);
    rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    listen_at(a, 1000);
    g_assert_cmpuint(connect_from(a, 1000, port), ==, RNIC_ST_OK);
    a->peer = wire_accept(a->r->qts, listener);
    g_assert_cmpuint(port_of_peer(a->peer->fd, 1), !=, 1000);
    close(listener);
    connection_free_second(b);
    connection_free(a);
}

/* From this port, which has to be free, as far as RTS. */
static void establish_from(Connection *c, uint16_t local_port, int listener,
                           uint16_t port)
{
    struct rnic_cm_event event;

    g_assert_cmpuint(connect_from(c, local_port, port), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    g_assert_cmpuint(port_of_peer(c->peer->fd, 1), ==, local_port);
    wire_mpa_get(c->peer, &c->request);
    c->reply = wire_mpa_reply(&c->request);
    wire_mpa_put(c->peer, &c->reply);
    /* Other streams end meanwhile. */
    do {
        rnic_eq_wait(c->r, &c->r->cm_eq, &event);
    } while (event.type != RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
}

/*
 * Streams end in several threads while the main loop begins others, with ports
 * beside theirs: each port is free when its stream has ended, and not before.
 */
static void test_ports_of_ended_streams(void)
{
    enum { STREAMS = 24, ROUNDS = 20, FIRST_PORT = 2048 };
    Connection *c[STREAMS];
    uint16_t port;
    int listener = wire_listen(2, &port);

    c[0] = connection_prepare(&(ConnectionOptions) {
        .properties = ",io-threads=4" });
    for (unsigned i = 1; i < STREAMS; i++) {
        c[i] = connection_prepare_second(c[0], NULL);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        /* One half is ended while the other one begins. */
        for (unsigned i = round % 2; i < STREAMS; i += 2) {
            establish_from(c[i], FIRST_PORT + i, listener, port);
        }
        for (unsigned i = round % 2; i < STREAMS; i += 2) {
            wire_abort(c[i]->peer);
            c[i]->peer = NULL;
        }
        for (unsigned i = !(round % 2); i < STREAMS; i += 2) {
            establish_from(c[i], FIRST_PORT + i, listener, port);
        }
        for (unsigned i = 0; i < STREAMS; i++) {
            connection_recycle(c[i]);
        }
    }
    close(listener);
    for (unsigned i = 1; i < STREAMS; i++) {
        connection_free_second(c[i]);
    }
    connection_free(c[0]);
}

/* A peer that does not say who it is, or says nonsense, is not let in. */
static void test_bad_names(void)
{
    static const char *const bad[] = {
        NULL, "x", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
        "10.0.0.1:99999999999999999999", "10.0.0.1:-1", "10.0.0:5", ":5",
        "224.0.0.1:5", "0.0.0.0:5", "fd00::1:5", "[fd00::1:5", "[fd00::1]5",
        "[::]:5", "[]:5", "[ff02::1]:5", "[::ffff:10.0.0.1]:5", "[:5",
        "10.0.0.1:5 ",
    };
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(1, 7);
    WireMpa request = wire_mpa_request();
    uint8_t octets[64];
    size_t length = wire_mpa_encode(&request, octets);
    struct rnic_cm_event event;
    static const uint8_t fd00_7[16] = { [0] = 0xfd, [15] = 7 };

    listen_at(c, 7);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *own = bad[i] ? beside(bad[i]) : NULL;
        WirePeer peer = { .fd = new_socket(own), .qts = c->r->qts };

        connect_socket(peer.fd, path);
        wire_try_put(&peer, octets, length);
        wire_expect_end(&peer);
        close(peer.fd);
    }
    rnic_expect_no_cm(c->r);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    {
        g_autofree char *own = beside("[fd00::7]:65535");
        WirePeer peer = { .fd = new_socket(own), .qts = c->r->qts };

        connect_socket(peer.fd, path);
        wire_put(&peer, octets, length);
        event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
        g_assert_cmpmem(event.remote.ip, 16, fd00_7, 16);
        g_assert_cmphex(event.remote.port, ==, cpu_to_be16(65535));
        close(peer.fd);
    }
    connection_free(c);
}

static struct rnic_cm_addr ip6(uint8_t last, uint16_t port)
{
    struct rnic_cm_addr addr = { .port = cpu_to_be16(port) };

    memset(addr.ip, 0xfe, 15);          /* the longest name there is */
    addr.ip[0] = 0xfd;
    addr.ip[15] = last;
    return addr;
}

/* IPv6, in the longest names: the device connects to itself. */
static void test_ip6(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = beside("[fdfe:fefe:fefe:fefe:fefe:fefe:fefe:fef1]"
                                   ":65535");
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);
    struct rnic_cm_event event;
    struct rnic_cm_addr one = ip6(0xf1, 65535), two = ip6(0xf2, 65534);

    sqe.listen.local = one;
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    g_assert_true(exists(path));
    sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);
    sqe.connect.qpn = cpu_to_le32(c->qp.number);
    sqe.connect.local = two;
    sqe.connect.remote = one;
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpmem(&event.local, sizeof(one), &one, sizeof(one));
    g_assert_cmpmem(&event.remote, sizeof(two), &two, sizeof(two));
    connection_free(c);
}

/* ------------------------------------------------------------- refusals */

static void test_refused(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(2, 7);
    int fd;

    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_REFUSED);
    fd = new_socket(path);              /* not listening */
    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_REFUSED);
    close(fd);                          /* stale */
    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_REFUSED);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_true(g_file_set_contents(path, "text", -1, NULL));
    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_REFUSED);
    g_assert_cmpint(g_unlink(path), ==, 0);
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    {
        struct sockaddr_un un = socket_name(path);

        g_assert_cmpint(bind(fd, (void *)&un, sizeof(un)), ==, 0);
    }
    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_LOCAL_ERROR);
    close(fd);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    connection_establish(c, NULL);
    connection_free(c);
}

/* Who may write to the directory cannot lead a guest to a socket elsewhere. */
static void test_link(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *elsewhere = beside("elsewhere");
    g_autofree char *path = wire_socket_path(2, 7);
    int listener = new_socket(elsewhere);

    g_assert_cmpint(listen(listener, 5), ==, 0);
    g_assert_cmpint(fcntl(listener, F_SETFL, O_NONBLOCK), ==, 0);
    g_assert_cmpint(symlink(elsewhere, path), ==, 0);
    g_assert_cmpint(connect_status(c, 7), ==, RNIC_CM_REFUSED);
    g_assert_cmpint(accept(listener, NULL, NULL), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    /* The same socket by its own name. */
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpint(g_rename(elsewhere, path), ==, 0);
    g_assert_cmpuint(try_connect(c, 7), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    close(listener);
    connection_free(c);
}

/* Addresses that no guest can have, and no address at all. */
static void test_bad_addresses(void)
{
    static const uint32_t bad[] = { 0, 0xe0000001, 0xffffffff };
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_cmpuint(rnic_try_listen(c->r, bad[i], 7, 1, NULL), ==,
                         RNIC_ST_INVALID_ADDRESS);
        sqe.connect.qpn = cpu_to_le32(c->qp.number);
        sqe.connect.local = rnic_addr(wire_guest_ip(1), 0);
        sqe.connect.remote = rnic_addr(bad[i], 7);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_INVALID_ADDRESS);
        sqe.connect.local = rnic_addr(bad[i], 7);
        sqe.connect.remote = rnic_addr(wire_guest_ip(1), 7);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                         RNIC_ST_INVALID_ADDRESS);
    }
    g_assert_cmpuint(try_listen(c, 0), ==, RNIC_ST_INVALID_ADDRESS);
    g_assert_cmpuint(files_in_directory(), ==, 0);
    connection_free(c);
}

/* Fill the queue of a listener that does not accept; returns how many. */
static unsigned fill_queue(const char *path, int *fds, unsigned max)
{
    struct sockaddr_un un = socket_name(path);

    for (unsigned n = 0; n < max; n++) {
        fds[n] = new_socket(NULL);
        g_assert_cmpint(fcntl(fds[n], F_SETFL, O_NONBLOCK), ==, 0);
        if (connect(fds[n], (void *)&un, sizeof(un)) < 0) {
            g_assert_cmpint(errno, ==, EAGAIN);
            close(fds[n]);
            return n;
        }
    }
    g_assert_not_reached();
}

/* A listener that is busy: the device tries again, as TCP does, for a time. */
static void test_full_queue(void)
{
    Connection *c = connection_prepare(NULL);
    g_autofree char *path = wire_socket_path(2, 7);
    int listener = new_socket(path), fds[100];
    struct rnic_cm_event event;
    unsigned n;

    g_assert_cmpint(listen(listener, 2), ==, 0);
    n = fill_queue(path, fds, 100);
    g_assert_cmpuint(try_connect(c, 7), ==, RNIC_ST_OK);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    rnic_pass_time(c->r, 11);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_TIMED_OUT);

    g_assert_cmpuint(try_connect(c, 7), ==, RNIC_ST_OK);
    rnic_settle(c->r);
    for (unsigned i = 0; i < n; i++) {
        close(accept(listener, NULL, NULL));
        close(fds[i]);
    }
    c->peer = wire_accept(c->r->qts, listener);
    wire_mpa_get(c->peer, &c->request);
    /* Given up while it waits. */
    wire_close(c->peer);
    c->peer = NULL;
    rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    n = fill_queue(path, fds, 100);
    g_assert_cmpuint(try_connect(c, 7), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_query_counters(c->r).endpoints, ==, 0);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    close(listener);
    connection_free(c);
}

/* ---------------------------------------------------------- ends of streams */

/* One direction and then the other: an orderly close. Both at once: a reset. */
static void test_ends(void)
{
    Connection *c = connection_prepare(NULL);

    connection_establish(c, NULL);
    wire_shutdown(c->peer);
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_PEER_CLOSE);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_recycle(c);

    connection_establish(c, NULL);
    wire_close(c->peer);
    c->peer = NULL;
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_recycle(c);

    /* The device closes; the peer answers by going away, which is orderly. */
    connection_establish(c, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    wire_close(c->peer);
    c->peer = NULL;
    rnic_expect_async(c->r, RNIC_AE_LLP_CLOSE_COMPLETE, c->qp.number);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_free(c);
}

/* Two QEMUs: one resets its QP, the other one is told so. */
static void test_two_devices(void)
{
    Connection *a = connection_prepare(NULL), *b = connection_prepare(NULL);
    struct rnic_cm_event event;
    uint8_t data[100000], got[100000];

    listen_at(b, 7);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(1), 7, 4, 4,
                                      1, "hello", 5), ==, RNIC_ST_OK);
    event = rnic_expect_cm(b->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpmem(event.private_data, 5, "hello", 5);
    g_assert_cmpuint(rnic_try_accept(b->r, le32_to_cpu(event.endpoint), &b->qp,
                                     4, 4, 2, "welcome", 7), ==, RNIC_ST_OK);
    event = rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmpmem(event.private_data, 7, "welcome", 7);
    rnic_expect_cm(b->r, RNIC_CM_ESTABLISHED);
    rnic_pattern(data, sizeof(data), 3);
    connection_fill(a, 0, data, sizeof(data));
    connection_recv(b, 1, 50, sizeof(data));
    connection_post(a, RNIC_SQ_SEND, 2, 0, sizeof(data));
    rnic_expect_cqe(b->r, &b->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(a->r, &a->send_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(b, 50, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));

    g_assert_cmpuint(rnic_modify_qp_state(a->r, &a->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_async(b->r, RNIC_AE_LLP_RESET, b->qp.number);
    rnic_expect_cm(b->r, RNIC_CM_DISCONNECTED);
    connection_free(b);
    connection_free(a);
}

/* -------------------------------------------------------------- properties */

/* Make a fabric of @dir by hand; the error, or NULL if it can be made. */
static char *object_error(Rnic *r, const char *dir)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'object-add', 'arguments':"
                              " { 'qom-type': 'rnic-fabric-unix', 'id': 'x',"
                              " 'dir': %s } }", dir);
    char *error = NULL;

    if (qdict_haskey(answer, "error")) {
        error = g_strdup(qdict_get_str(qdict_get_qdict(answer, "error"),
                                       "desc"));
    } else {
        qtest_qmp_assert_success(r->qts, "{ 'execute': 'object-del',"
                                 " 'arguments': { 'id': 'x' } }");
    }
    qobject_unref(answer);
    return error;
}

static void assert_refused(Rnic *r, const char *dir, const char *reason)
{
    g_autofree char *error = object_error(r, dir);

    g_assert_nonnull(error);
    if (!strstr(error, reason) || !strstr(error, dir)) {
        g_printerr("no word of '%s' and '%s' in: %s\n", dir, reason, error);
        g_assert_not_reached();
    }
}

/* A new directory in the fabric's whose path has that many octets. */
static char *directory_of_length(size_t length)
{
    g_autofree char *name = g_strnfill(length - strlen(wire_directory()) - 1,
                                       'd');
    char *dir = beside(name);

    g_assert_cmpuint(strlen(dir), ==, length);
    g_assert_cmpint(g_mkdir(dir, 0700), ==, 0);
    return dir;
}

static void test_properties(void)
{
    size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) -
                  sizeof("/[fdfe:fefe:fefe:fefe:fefe:fefe:fefe:fefe]:65535");
    Rnic *r = rnic_boot("", NULL);
    g_autofree char *missing = beside("missing");
    g_autofree char *file = beside("file");
    g_autofree char *longest = directory_of_length(room);
    g_autofree char *too_long = directory_of_length(room + 1);

    assert_refused(r, missing, "No such file");
    g_assert_true(g_file_set_contents(file, "text", -1, NULL));
    assert_refused(r, file, "not a directory");
    if (geteuid() != 0) {
        g_assert_cmpint(g_chmod(longest, 0500), ==, 0);
        assert_refused(r, longest, "cannot be written to");
        g_assert_cmpint(g_chmod(longest, 0700), ==, 0);
    }
    /* All addresses have room, or the directory is refused. */
    g_assert_null(object_error(r, longest));
    assert_refused(r, too_long, "too long");
    g_assert_cmpint(g_rmdir(longest), ==, 0);
    g_assert_cmpint(g_rmdir(too_long), ==, 0);
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_setenv("RNIC_TEST_FABRIC", "unix", true);
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fabric-unix/files", test_files);
    qtest_add_func("rnic/fabric-unix/file-of-another", test_file_of_another);
    qtest_add_func("rnic/fabric-unix/stale", test_stale);
    qtest_add_func("rnic/fabric-unix/in-use", test_in_use);
    qtest_add_func("rnic/fabric-unix/locked", test_locked);
    qtest_add_func("rnic/fabric-unix/lock-of-a-reader", test_lock_of_a_reader);
    qtest_add_func("rnic/fabric-unix/replaced-by-two", test_replaced_by_two);
    qtest_add_func("rnic/fabric-unix/listen-waits-without-the-main-loop",
                   test_listen_waits_without_the_main_loop);
    qtest_add_func("rnic/fabric-unix/listen-waits-at-reset",
                   test_listen_waits_at_reset);
    qtest_add_func("rnic/fabric-unix/directory-gone", test_directory_gone);
    qtest_add_func("rnic/fabric-unix/names", test_names);
    qtest_add_func("rnic/fabric-unix/local-port", test_local_port);
    qtest_add_func("rnic/fabric-unix/ports-of-ended-streams",
                   test_ports_of_ended_streams);
    qtest_add_func("rnic/fabric-unix/bad-names", test_bad_names);
    qtest_add_func("rnic/fabric-unix/ip6", test_ip6);
    qtest_add_func("rnic/fabric-unix/refused", test_refused);
    qtest_add_func("rnic/fabric-unix/link", test_link);
    qtest_add_func("rnic/fabric-unix/bad-addresses", test_bad_addresses);
    qtest_add_func("rnic/fabric-unix/full-queue", test_full_queue);
    qtest_add_func("rnic/fabric-unix/ends", test_ends);
    qtest_add_func("rnic/fabric-unix/two-devices", test_two_devices);
    qtest_add_func("rnic/fabric-unix/properties", test_properties);
    return g_test_run();
}
