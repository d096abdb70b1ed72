/*
 * rnic: the fabric of a device that names none, and its directory
 *
 * Each test has a directory of its own as XDG_RUNTIME_DIR, and what QEMU makes
 * there is the directory of the sockets.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include <arpa/inet.h>
#include <glib/gstdio.h>

#include "tests/qtest/rnic/lib/connection.h"

/* ------------------------------------------------------------ directories */

typedef struct World {
    char *runtime;              /* XDG_RUNTIME_DIR */
    char *sockets;              /* the directory in it, which is not made yet */
} World;

static World world_new(void)
{
    World w = { .runtime = g_dir_make_tmp("rnic-test-XXXXXX", NULL) };

    g_assert_nonnull(w.runtime);
    w.sockets = g_build_filename(w.runtime, "rnic", NULL);
    g_setenv("XDG_RUNTIME_DIR", w.runtime, true);
    return w;
}

/* Nothing is left in the directory: sockets go with their listeners. */
static void world_cleanup(World *w)
{
    if (g_file_test(w->sockets, G_FILE_TEST_EXISTS)) {
        g_assert_cmpint(g_rmdir(w->sockets), ==, 0);
    }
    g_assert_cmpint(g_rmdir(w->runtime), ==, 0);
    g_free(w->runtime);
    g_free(w->sockets);
}

static void assert_own_directory(const char *path)
{
    GStatBuf st;

    g_assert_cmpint(g_lstat(path, &st), ==, 0);
    g_assert_true(S_ISDIR(st.st_mode));
    g_assert_cmpuint(st.st_uid, ==, geteuid());
    g_assert_cmphex(st.st_mode & 0777, ==, 0700);
}

/* ---------------------------------------------------------------- devices */

static Connection *new_bare(const char *properties, const char *arguments)
{
    g_autofree char *more = g_strdup_printf(",mpa-rtr=off%s", properties);
    Rnic *r = rnic_boot_bare(more, arguments);

    rnic_up(r);
    return connection_prepare_on(r, NULL);
}

static uint16_t try_connect(Connection *c, uint32_t ip, uint16_t port)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    sqe.connect.qpn = cpu_to_le32(c->qp.number);
    sqe.connect.ird = cpu_to_le16(1);
    sqe.connect.ord = cpu_to_le16(1);
    sqe.connect.local = rnic_addr(wire_guest_ip(3), 0);
    sqe.connect.remote = rnic_addr(ip, port);
    return rnic_admin(c->r, &sqe, NULL);
}

/* A Send from @a to @b, who listens at wire_guest_ip(1). */
static void check_reachable(Connection *a, Connection *b, uint16_t port)
{
    struct rnic_cm_event event;
    uint8_t data[1000], got[1000];

    g_assert_cmpuint(try_connect(a, wire_guest_ip(1), port), ==, RNIC_ST_OK);
    event = rnic_expect_cm(b->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(b->r, le32_to_cpu(event.endpoint), &b->qp,
                                     1, 1, 2, NULL, 0), ==, RNIC_ST_OK);
    g_assert_cmpint(rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_OK);
    rnic_expect_cm(b->r, RNIC_CM_ESTABLISHED);
    rnic_pattern(data, sizeof(data), port);
    connection_fill(a, 0, data, sizeof(data));
    connection_recv(b, 1, 0, sizeof(data));
    connection_post(a, RNIC_SQ_SEND, 2, 0, sizeof(data));
    rnic_expect_cqe(b->r, &b->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_cqe(a->r, &a->send_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(b, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
}

static void check_pair(Connection *a, Connection *b)
{
    g_assert_cmpuint(rnic_try_listen(b->r, wire_guest_ip(1), 7, 1, NULL), ==,
                     RNIC_ST_OK);
    check_reachable(a, b, 7);
    connection_free(a);
    connection_free(b);
}

/* --------------------------------------------------------- what is reached */

static void test_two_bare_devices(void)
{
    World w = world_new();

    check_pair(new_bare("", NULL), new_bare("", NULL));
    assert_own_directory(w.sockets);
    world_cleanup(&w);
}

/* An object without dir= has the same directory. */
static void test_object_without_dir(void)
{
    World w = world_new();

    check_pair(new_bare("", NULL),
               new_bare(",fabric=u", "-object rnic-fabric-unix,id=u"));
    world_cleanup(&w);
}

/* Another directory is another network. */
static void test_other_directory(void)
{
    World w = world_new(), other;
    Connection *a = new_bare("", NULL), *b;

    other = world_new();
    b = new_bare("", NULL);
    g_assert_cmpuint(rnic_try_listen(b->r, wire_guest_ip(1), 7, 1, NULL), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(try_connect(a, wire_guest_ip(1), 7), ==, RNIC_ST_OK);
    g_assert_cmpint(rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_REFUSED);
    connection_free(a);
    connection_free(b);
    world_cleanup(&w);
    world_cleanup(&other);
}

/* A service of the host at this loopback address; *@port is chosen. */
static int host_listen(uint32_t ip, uint16_t *port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(ip),
    };
    socklen_t length = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(bind(fd, (void *)&in, sizeof(in)), ==, 0);
    g_assert_cmpint(listen(fd, 1), ==, 0);
    g_assert_cmpint(getsockname(fd, (void *)&in, &length), ==, 0);
    *port = ntohs(in.sin_port);
    return fd;
}

/*
 * Whatever address a guest names: the host's own, or the one that map=loopback
 * would make of it.
 */
static void test_no_host_service(void)
{
    World w = world_new();
    Connection *c = new_bare("", NULL);
    const uint32_t services[] = { INADDR_LOOPBACK, wire_host_ip(2) };

    for (unsigned i = 0; i < G_N_ELEMENTS(services); i++) {
        uint32_t names[] = { services[i], (services[i] & 0xffffff) | 10 << 24 };
        uint16_t port;
        int service = host_listen(services[i], &port);

        for (unsigned k = 0; k < G_N_ELEMENTS(names); k++) {
            g_assert_cmpuint(try_connect(c, names[k], port), ==, RNIC_ST_OK);
            g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status,
                            ==, RNIC_CM_REFUSED);
        }
        g_assert_cmpint(accept(service, NULL, NULL), ==, -1);
        g_assert_cmpint(errno, ==, EAGAIN);
        close(service);
    }
    connection_free(c);
    world_cleanup(&w);
}

/* Nor can the host's programs reach what a guest listens on. */
static void test_no_host_port(void)
{
    World w = world_new();
    Connection *c = new_bare("", NULL);
    const uint32_t ips[] = { INADDR_LOOPBACK, wire_host_ip(1) };
    uint16_t port = wire_free_port(1);

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL), ==,
                     RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_listen(c->r, INADDR_LOOPBACK, port, 1, NULL), ==,
                     RNIC_ST_OK);
    for (unsigned i = 0; i < G_N_ELEMENTS(ips); i++) {
        struct sockaddr_in in = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(ips[i]),
            .sin_port = htons(port),
        };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        g_assert_cmpint(connect(fd, (void *)&in, sizeof(in)), ==, -1);
        g_assert_cmpint(errno, ==, ECONNREFUSED);
        close(fd);
    }
    rnic_expect_no_cm(c->r);
    connection_free(c);
    world_cleanup(&w);
}

/* ---------------------------------------------------------- the directory */

static void make_and_check(const char *directory)
{
    Rnic *r = rnic_boot_bare("", NULL);

    assert_own_directory(directory);
    rnic_quit(r);
}

static void test_made(void)
{
    World w = world_new();

    make_and_check(w.sockets);
    make_and_check(w.sockets);  /* it stays, and serves again */
    world_cleanup(&w);
}

/* Without the variable, and with a relative path, which is none. */
static void test_made_in_tmp(void)
{
    g_autofree char *directory = g_strdup_printf("/tmp/rnic-%u",
                                                 (unsigned)geteuid());

    g_unsetenv("XDG_RUNTIME_DIR");
    make_and_check(directory);
    g_setenv("XDG_RUNTIME_DIR", "relative", true);
    make_and_check(directory);
}

/* A machine with a slot, without a device. */
static QTestState *machine_new(void)
{
    return qtest_init("-machine q35 -nodefaults "
                      "-device pcie-root-port,id=root0,slot=1");
}

static void assert_error(QDict *answer, const char *directory,
                         const char *reason)
{
    const char *error;

    g_assert_true(qdict_haskey(answer, "error"));
    error = qdict_get_str(qdict_get_qdict(answer, "error"), "desc");
    if (!strstr(error, reason) || !strstr(error, directory)) {
        g_printerr("'%s' or '%s' is not in: %s\n", directory, reason, error);
        g_assert_not_reached();
    }
    qobject_unref(answer);
}

/* Neither the object nor the device uses the directory. */
static void assert_refused(QTestState *machine, const char *directory,
                           const char *reason)
{
    assert_error(qtest_qmp(machine, "{ 'execute': 'object-add', 'arguments':"
                           " { 'qom-type': 'rnic-fabric-unix', 'id': 'x' } }"),
                 directory, reason);
    assert_error(qtest_qmp(machine, "{ 'execute': 'device_add', 'arguments':"
                           " { 'driver': 'rnic', 'bus': 'root0' } }"),
                 directory, reason);
}

/* Once it is right, the device comes. */
static void assert_accepted(QTestState *machine)
{
    qtest_qmp_assert_success(machine, "{ 'execute': 'device_add', 'arguments':"
                             " { 'driver': 'rnic', 'bus': 'root0' } }");
}

static void test_wrong_modes(void)
{
    static const unsigned modes[] = { 0750, 0720, 0710, 0704, 0702, 0701, 0777 };
    World w = world_new();
    QTestState *machine = machine_new();

    g_assert_cmpint(g_mkdir(w.sockets, 0700), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
        g_autofree char *mode = g_strdup_printf("mode %04o", modes[i]);

        g_assert_cmpint(g_chmod(w.sockets, modes[i]), ==, 0);
        assert_refused(machine, w.sockets, mode);
    }
    g_assert_cmpint(g_chmod(w.sockets, 0700), ==, 0);
    assert_accepted(machine);
    qtest_quit(machine);
    world_cleanup(&w);
}

/* Not even one to a directory that would do. */
static void test_symbolic_link(void)
{
    World w = world_new();
    QTestState *machine = machine_new();
    g_autofree char *target = g_build_filename(w.runtime, "target", NULL);

    g_assert_cmpint(g_mkdir(target, 0700), ==, 0);
    g_assert_cmpint(symlink(target, w.sockets), ==, 0);
    assert_refused(machine, w.sockets, "is a symbolic link");
    g_assert_cmpint(g_unlink(w.sockets), ==, 0);
    g_assert_cmpint(symlink("nowhere", w.sockets), ==, 0);
    assert_refused(machine, w.sockets, "is a symbolic link");
    g_assert_cmpint(g_unlink(w.sockets), ==, 0);
    g_assert_cmpint(g_rmdir(target), ==, 0);
    qtest_quit(machine);
    world_cleanup(&w);
}

static void test_file(void)
{
    World w = world_new();
    QTestState *machine = machine_new();

    g_assert_true(g_file_set_contents(w.sockets, "text", -1, NULL));
    assert_refused(machine, w.sockets, "is not a directory");
    g_assert_cmpint(g_unlink(w.sockets), ==, 0);
    qtest_quit(machine);
    world_cleanup(&w);
}

/* Root can give its directories away, and nobody else can. */
static void check_owner_as_root(void)
{
    World w = world_new();
    QTestState *machine = machine_new();

    g_assert_cmpint(g_mkdir(w.sockets, 0700), ==, 0);
    g_assert_cmpint(chown(w.sockets, 1, -1), ==, 0);
    assert_refused(machine, w.sockets, "belongs to user 1, not to user 0");
    g_assert_cmpint(chown(w.sockets, 0, -1), ==, 0);
    g_assert_cmpint(chown(w.runtime, 1, -1), ==, 0);
    assert_refused(machine, w.runtime, "belongs to user 1, not to user 0");
    qtest_quit(machine);
    world_cleanup(&w);
}

static void check_owner_as_user(void)
{
    QTestState *machine;

    g_setenv("XDG_RUNTIME_DIR", "/", true);
    machine = machine_new();
    assert_refused(machine, "/rnic", "Permission denied");
    qtest_quit(machine);
}

static void test_other_owner(void)
{
    if (geteuid() == 0) {
        check_owner_as_root();
    } else {
        check_owner_as_user();
    }
}

/* Where others could put a directory of theirs in place of the checked one. */
static void test_bad_parents(void)
{
    World w = world_new();
    QTestState *machine = machine_new();
    g_autofree char *missing = g_build_filename(w.runtime, "missing", NULL);

    g_assert_cmpint(g_chmod(w.runtime, 0777), ==, 0);
    assert_refused(machine, w.runtime, "mode 0777");
    g_assert_cmpint(g_chmod(w.runtime, 0770), ==, 0);
    assert_refused(machine, w.runtime, "mode 0770");
    g_assert_false(g_file_test(w.sockets, G_FILE_TEST_EXISTS));
    g_assert_cmpint(g_chmod(w.runtime, 01777), ==, 0);
    assert_accepted(machine);
    qtest_quit(machine);

    g_setenv("XDG_RUNTIME_DIR", missing, true);
    machine = machine_new();
    assert_refused(machine, missing, "No such file or directory");
    qtest_quit(machine);
    world_cleanup(&w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/default-fabric/two-bare-devices",
                   test_two_bare_devices);
    qtest_add_func("rnic/default-fabric/object-without-dir",
                   test_object_without_dir);
    qtest_add_func("rnic/default-fabric/other-directory",
                   test_other_directory);
    qtest_add_func("rnic/default-fabric/no-host-service",
                   test_no_host_service);
    qtest_add_func("rnic/default-fabric/no-host-port", test_no_host_port);
    qtest_add_func("rnic/default-fabric/made", test_made);
    qtest_add_func("rnic/default-fabric/made-in-tmp", test_made_in_tmp);
    qtest_add_func("rnic/default-fabric/wrong-modes", test_wrong_modes);
    qtest_add_func("rnic/default-fabric/symbolic-link", test_symbolic_link);
    qtest_add_func("rnic/default-fabric/file", test_file);
    qtest_add_func("rnic/default-fabric/other-owner", test_other_owner);
    qtest_add_func("rnic/default-fabric/bad-parents", test_bad_parents);
    return g_test_run();
}
