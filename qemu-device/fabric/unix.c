/*
 * rnic: the UNIX fabric, streams between the virtual machines of one host
 *
 * Every guest address is reachable, at the socket DIR/ADDRESS:PORT (IPv6:
 * DIR/[ADDRESS]:PORT).  A user who may write to the directory may connect.
 *
 * A listener's file is there as long as it listens.  A file that a killed QEMU
 * left behind is one where no socket answers; it is replaced.  The directory is
 * locked meanwhile, so that two processes that find the same stale file do not
 * remove each other's.  Nothing else needs the lock, which everybody who may read
 * the directory can hold.  An end that connects binds the name of its own address,
 * by which the other end knows it, and removes the file at once: the name stays
 * with the socket.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <arpa/inet.h>
#include <sys/file.h>
#include <sys/un.h>
#include "qapi/error.h"
#include "qemu/bitmap.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/notify.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"
#include "qom/object_interfaces.h"
#include "system/system.h"
#include "hw/rnic/base/compat.h"
#include "fabric.h"
#include "map.h"
#include "unix-directory.h"
#include "unix-socket.h"
#include "unix-transport.h"
#include "hw/rnic/base/trace.h"

enum {
    RETRY_MS = 10,              /* the listener's queue is full: at first, */
    RETRY_MAX_MS = 200,         /* and at last */

    /* Ports for those who do not name one. */
    FIRST_PORT = 32768,
    LAST_PORT = 60999,
    BIND_TRIES = 64,
};

struct RnicFabricUnix {
    RnicFabric parent_obj;

    char *dir;
    bool complete;
    bool rings;
    uint16_t next_port;
    DECLARE_BITMAP(ports, 65536);       /* local ones of streams that exist;
                                         * the main loop's */
    QLIST_HEAD(, UnixListener) listeners;
    Notifier exit;
};
OBJECT_DECLARE_SIMPLE_TYPE(RnicFabricUnix, RNIC_FABRIC_UNIX)

/* The port of a stream's local end, taken until the stream is gone. */
typedef struct TakenPort {
    RnicFabricUnix *fabric;
    uint16_t port;
} TakenPort;

typedef struct UnixDial {
    RnicFabricDial dial;        /* the port of its local address is taken */
    struct sockaddr_un to;
    QEMUTimer *attempt;
    unsigned retry_ms;
} UnixDial;

typedef struct UnixListener {
    RnicFabricListener listener;
    struct sockaddr_un address;
    dev_t device;               /* of the socket's file */
    ino_t inode;
    QLIST_ENTRY(UnixListener) next;
} UnixListener;

/* --------------------------------------------------------------- names */

static struct sockaddr_un unix_to_sockaddr(const RnicFabricUnix *u,
                                           const RnicAddr *addr)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    const char *format = rnic_ip_is_v4(addr->ip) ? "%s/%s:%u" : "%s/[%s]:%u";
    char text[RNIC_IP_TEXT];
    int n = snprintf(un.sun_path, sizeof(un.sun_path), format, u->dir,
                     rnic_ip_text(addr->ip, text), addr->port);

    assert(n < sizeof(un.sun_path));    /* see RNIC_UNIX_DIRECTORY_MAX */
    return un;
}

static bool unix_parse_ip(const char *text, RnicAddr *addr)
{
    g_autofree char *inner = NULL;
    size_t len = strlen(text);

    if (text[0] != '[') {
        addr->ip[10] = addr->ip[11] = 0xff;
        return inet_pton(AF_INET, text, addr->ip + 12) == 1;
    }
    inner = g_strndup(text + 1, len - 1);
    if (len < 2 || inner[len - 2] != ']') {
        return false;
    }
    inner[len - 2] = 0;
    return inet_pton(AF_INET6, inner, addr->ip) == 1 &&
           !rnic_ip_is_v4(addr->ip);
}

/*
 * The address in a socket's name.  The directory may have another path where
 * the peer runs: only the last part counts.
 */
static bool unix_from_name(const char *path, RnicAddr *addr)
{
    g_autofree char *name = g_path_get_basename(path);
    char *colon = strrchr(name, ':');
    guint64 port;

    *addr = (RnicAddr) { };
    if (!colon || !g_ascii_string_to_unsigned(colon + 1, 10, 1, 65535, &port,
                                              NULL)) {
        return false;
    }
    *colon = 0;
    addr->port = port;
    return unix_parse_ip(name, addr) && rnic_ip_is_unicast(addr->ip);
}

static bool unix_peer_address(int fd, RnicAddr *addr)
{
    struct sockaddr_un un = { };
    socklen_t len = sizeof(un);
    g_autofree char *path = NULL;

    if (getpeername(fd, (struct sockaddr *)&un, &len) < 0) {
        trace_rnic_err_fabric_host("getpeername", errno);
        return false;
    }
    path = g_strndup(un.sun_path, sizeof(un.sun_path));
    if (!unix_from_name(path, addr)) {
        trace_rnic_err_fabric_unix_peer(path);
        return false;
    }
    return true;
}

static int unix_socket_at(int fd, int (*call)(int, const struct sockaddr *,
                                              socklen_t),
                          const struct sockaddr_un *un)
{
    return call(fd, (const struct sockaddr *)un, sizeof(*un));
}

/*
 * The socket's file itself: those who may write to the directory could have a link
 * lead anywhere.  For unix_connect_to() only; -1 with errno, as of connect(2).
 */
static int unix_open_file(const char *path)
{
    int fd = qemu_open_old(path, O_PATH | O_NOFOLLOW);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))) {
        close(fd);
        errno = ECONNREFUSED;
        return -1;
    }
    return fd;
}

/* As connect(2), to that very file, which only /proc can name. */
static int unix_connect_to(int fd, int file)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf(un.sun_path, sizeof(un.sun_path), "/proc/self/fd/%d", file);
    if (unix_socket_at(fd, connect, &un) == 0) {
        return 0;
    }
    if (errno == ENOENT) {
        error_report_once("rnic: the UNIX fabric cannot connect without /proc");
        errno = ENOSYS;
    }
    return -1;
}

/* As connect(2), without following a link. */
static int unix_connect_named(int fd, const struct sockaddr_un *un)
{
    int file = unix_open_file(un->sun_path);
    int result, error;

    if (file < 0) {
        return -1;
    }
    result = unix_connect_to(fd, file);
    error = errno;
    close(file);
    errno = error;
    return result;
}

/* ---------------------------------------------------------------- dial */

static bool unix_is_reachable(const RnicAddr *addr)
{
    return rnic_ip_is_unicast(addr->ip);
}

static void unix_port_free(void *opaque)
{
    TakenPort *taken = opaque;

    clear_bit(taken->port, taken->fabric->ports);
    object_unref(OBJECT(taken->fabric));
    g_free(taken);
}

/* The stream ends in its worker; the ports are the main loop's. */
static void unix_port_free_soon(void *taken)
{
    aio_bh_schedule_oneshot(qemu_get_aio_context(), unix_port_free, taken);
}

/* A dialed stream: its port is free again when it is gone. */
static RnicTransport *unix_new_dialed(RnicFabricUnix *u, int fd, uint16_t port)
{
    TakenPort *taken = g_new(TakenPort, 1);

    *taken = (TakenPort) { RNIC_FABRIC_UNIX(object_ref(OBJECT(u))), port };
    return rnic_unix_transport_new(fd, u->rings, unix_port_free_soon, taken);
}

/* The name of this end.  False with errno; EADDRINUSE: try another port. */
static bool unix_bind_name(int fd, RnicFabricUnix *u, const RnicAddr *local)
{
    struct sockaddr_un un = unix_to_sockaddr(u, local);

    if (test_bit(local->port, u->ports)) {
        errno = EADDRINUSE;
        return false;
    }
    if (unix_socket_at(fd, bind, &un) < 0) {
        return false;
    }
    unlink(un.sun_path);
    set_bit(local->port, u->ports);
    return true;
}

static uint16_t unix_take_port(RnicFabricUnix *u)
{
    uint16_t port = u->next_port;

    u->next_port = port == LAST_PORT ? FIRST_PORT : port + 1;
    return port;
}

static bool unix_bind_some_name(int fd, RnicFabricUnix *u, RnicAddr *local)
{
    unsigned binds = 0;

    for (int i = FIRST_PORT; i <= LAST_PORT && binds < BIND_TRIES; i++) {
        local->port = unix_take_port(u);
        if (test_bit(local->port, u->ports)) {
            continue;
        }
        if (unix_bind_name(fd, u, local)) {
            return true;
        }
        if (errno != EADDRINUSE) {
            return false;
        }
        binds++;
    }
    errno = EADDRINUSE;
    return false;
}

static void unix_dial_cleanup(RnicFabricDial *dial)
{
    UnixDial *d = container_of(dial, UnixDial, dial);

    if (dial->fd >= 0) {
        clear_bit(dial->local.port, RNIC_FABRIC_UNIX(dial->fabric)->ports);
    }
    timer_free(d->attempt);
}

static void unix_dial_connected(UnixDial *d)
{
    RnicTransport *t = unix_new_dialed(RNIC_FABRIC_UNIX(d->dial.fabric),
                                       d->dial.fd, d->dial.local.port);

    d->dial.fd = -1;
    rnic_fabric_dialed(&d->dial, RNIC_FABRIC_OK, t);
}

static void unix_dial_attempt(void *opaque)
{
    UnixDial *d = opaque;

    if (unix_connect_named(d->dial.fd, &d->to) == 0) {
        unix_dial_connected(d);
    } else if (errno == EAGAIN || errno == EINTR) {
        /* TCP would try again, too; the caller knows for how long. */
        timer_mod(d->attempt, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
                              d->retry_ms);
        d->retry_ms = MIN(2 * d->retry_ms, RETRY_MAX_MS);
    } else {
        trace_rnic_err_fabric_host("connect", errno);
        rnic_fabric_dialed(&d->dial, rnic_fabric_status(errno), NULL);
    }
}

/* A socket with the name of @local, or -1 with errno. */
static int unix_new_named(RnicFabricUnix *u, RnicAddr *local)
{
    int fd = rnic_fabric_socket(AF_UNIX);

    if (fd < 0) {
        return -1;
    }
    if (local->port && unix_bind_name(fd, u, local)) {
        return fd;
    }
    if ((local->port == 0 || errno == EADDRINUSE) &&
        unix_bind_some_name(fd, u, local)) {
        return fd;
    }
    rnic_unix_close(fd);
    return -1;
}

/* The guest has to say which of its addresses it dials from. */
static RnicFabricDial *fabric_unix_dial(RnicFabric *f, const RnicAddr *local,
                                        const RnicAddr *remote, uint8_t tos,
                                        RnicFabricStatus *status)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(f);
    RnicAddr from = *local;
    UnixDial *d;
    int fd;

    if (!unix_is_reachable(local) || !unix_is_reachable(remote)) {
        *status = RNIC_FABRIC_OUTSIDE_MAP;
        return NULL;
    }
    fd = unix_new_named(u, &from);
    if (fd < 0) {
        trace_rnic_err_fabric_host("dial", errno);
        *status = rnic_fabric_status(errno);
        return NULL;
    }
    d = g_new0(UnixDial, 1);
    d->dial.fd = fd;
    d->dial.local = from;
    d->retry_ms = RETRY_MS;
    d->to = unix_to_sockaddr(u, remote);
    d->attempt = timer_new_ms(QEMU_CLOCK_REALTIME, unix_dial_attempt, d);
    timer_mod(d->attempt, qemu_clock_get_ms(QEMU_CLOCK_REALTIME));
    return &d->dial;
}

/* -------------------------------------------------------------- accept */

static void unix_accepted(RnicFabricListener *l, int fd)
{
    RnicAddr remote;

    if (!unix_peer_address(fd, &remote)) {
        rnic_unix_close(fd);
        return;
    }
    rnic_fabric_deliver(l, rnic_unix_transport_new(
                               fd, RNIC_FABRIC_UNIX(l->fabric)->rings, NULL,
                               NULL), &l->local, &remote);
}

/* -------------------------------------------------------------- listen */

/* The descriptor that holds the lock, or -1 with errno; EAGAIN: not now. */
static int unix_lock_directory(RnicFabricUnix *u)
{
    int fd = qemu_open_old(u->dir, O_RDONLY | O_DIRECTORY);
    int error;

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) {
        return fd;
    }
    error = errno == EINTR ? EAGAIN : errno;
    trace_rnic_err_fabric_unix_locked(u->dir, error);
    close(fd);
    errno = error;
    return -1;
}

/*
 * A socket's file that belongs to no socket.  A socket of another kind cannot
 * connect to a living one, so it does not notice being asked.
 */
static bool unix_is_stale(int file)
{
    int fd = qemu_socket(AF_UNIX, SOCK_DGRAM, 0);
    bool stale = fd >= 0 && unix_connect_to(fd, file) < 0 &&
                 errno == ECONNREFUSED;

    if (fd >= 0) {
        close(fd);
    }
    return stale;
}

/* And it still has its name. */
static bool unix_remove_stale(int file, const struct sockaddr_un *un)
{
    struct stat st, named;

    return file >= 0 && unix_is_stale(file) && fstat(file, &st) == 0 &&
           lstat(un->sun_path, &named) == 0 && st.st_dev == named.st_dev &&
           st.st_ino == named.st_ino && unlink(un->sun_path) == 0;
}

/*
 * With the directory's lock.  @file may be one that another process is just making,
 * whose socket cannot be found yet; bind(2) waits for that.  After it, what is stale
 * stays so, and nobody else removes it.
 */
static bool unix_replace(int fd, int file, const struct sockaddr_un *un)
{
    if (unix_socket_at(fd, bind, un) == 0) {
        return true;
    }
    if (errno != EADDRINUSE) {
        return false;
    }
    if (!unix_remove_stale(file, un)) {
        errno = EADDRINUSE;
        return false;
    }
    trace_rnic_fabric_unix_stale(un->sun_path);
    return unix_socket_at(fd, bind, un) == 0;
}

/* Of a file that is stale, or soon will not be.  False with errno. */
static bool unix_lock_and_replace(RnicFabricUnix *u, int fd,
                                  const struct sockaddr_un *un)
{
    int lock = unix_lock_directory(u);
    int file, error;
    bool ok;

    if (lock < 0) {
        return false;
    }
    file = unix_open_file(un->sun_path);
    ok = unix_replace(fd, file, un);
    error = errno;
    if (file >= 0) {
        close(file);
    }
    close(lock);
    errno = error;
    return ok;
}

static bool unix_looks_stale(const struct sockaddr_un *un)
{
    int file = unix_open_file(un->sun_path);
    bool stale = file >= 0 && unix_is_stale(file);

    if (file >= 0) {
        close(file);
    }
    return stale;
}

static bool unix_bind_or_replace(RnicFabricUnix *u, int fd,
                                 const struct sockaddr_un *un)
{
    if (unix_socket_at(fd, bind, un) == 0) {
        return true;
    }
    if (errno != EADDRINUSE) {
        return false;
    }
    if (!unix_looks_stale(un)) {
        errno = EADDRINUSE;
        return false;
    }
    return unix_lock_and_replace(u, fd, un);
}

/* Who may write to the directory may connect: its group, and all others. */
static bool unix_set_mode(const char *path, const char *dir_path,
                          struct stat *st)
{
    mode_t mode = S_IRUSR | S_IWUSR;
    struct stat dir;

    if (stat(dir_path, &dir) < 0 || lstat(path, st) < 0) {
        return false;
    }
    if ((dir.st_mode & S_IWGRP) &&
        (st->st_gid == dir.st_gid || lchown(path, -1, dir.st_gid) == 0)) {
        mode |= S_IRGRP | S_IWGRP;
    }
    if (dir.st_mode & S_IWOTH) {
        mode |= S_IROTH | S_IWOTH;
    }
    /* Those who may write there may have put a link in its place by now. */
    return fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) == 0;
}

/* False with errno.  The file is removed again if it is of no use. */
static bool unix_listen_at(RnicFabricUnix *u, UnixListener *l, int fd,
                           unsigned backlog)
{
    struct stat st;

    if (!unix_bind_or_replace(u, fd, &l->address)) {
        return false;
    }
    if (!unix_set_mode(l->address.sun_path, u->dir, &st) ||
        listen(fd, backlog) < 0) {
        int error = errno;

        unlink(l->address.sun_path);
        errno = error;
        return false;
    }
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return true;
}

/* A listening socket, or -1 with errno. */
static int unix_new_listening(RnicFabricUnix *u, UnixListener *l,
                              unsigned backlog)
{
    int fd = rnic_fabric_socket(AF_UNIX);

    if (fd < 0 || unix_listen_at(u, l, fd, backlog)) {
        return fd;
    }
    rnic_unix_close(fd);
    return -1;
}

/* Only our own: another process may have put its own in its place. */
static void unix_remove_file(const UnixListener *l)
{
    struct stat st;

    if (lstat(l->address.sun_path, &st) == 0 && st.st_dev == l->device &&
        st.st_ino == l->inode) {
        unlink(l->address.sun_path);
    }
}

static RnicFabricListener *fabric_unix_listen(RnicFabric *f,
                                              const RnicAddr *local,
                                              unsigned backlog, uint8_t tos,
                                              RnicFabricStatus *status)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(f);
    UnixListener *l;
    int fd;

    if (local->port == 0 || !unix_is_reachable(local)) {
        *status = RNIC_FABRIC_INVALID_ADDRESS;
        return NULL;
    }
    l = g_new0(UnixListener, 1);
    l->address = unix_to_sockaddr(u, local);
    fd = unix_new_listening(u, l, backlog);
    if (fd < 0) {
        trace_rnic_err_fabric_host("listen", errno);
        *status = rnic_fabric_status(errno);
        g_free(l);
        return NULL;
    }
    l->listener.fd = fd;
    QLIST_INSERT_HEAD(&u->listeners, l, next);
    return &l->listener;
}

static void unix_listener_cleanup(RnicFabricListener *listener)
{
    UnixListener *l = container_of(listener, UnixListener, listener);

    QLIST_REMOVE(l, next);
    unix_remove_file(l);
}

/* QEMU ends without taking devices apart. */
static void unix_remove_files_at_exit(Notifier *notifier, void *data)
{
    RnicFabricUnix *u = container_of(notifier, RnicFabricUnix, exit);
    UnixListener *l;

    QLIST_FOREACH(l, &u->listeners, next) {
        unix_remove_file(l);
    }
}

/* ---------------------------------------------------------------- QOM */

static char *fabric_unix_get_dir(Object *obj, Error **errp)
{
    return g_strdup(RNIC_FABRIC_UNIX(obj)->dir);
}

/* -daemonize changes the working directory. */
static void fabric_unix_set_dir(Object *obj, const char *value, Error **errp)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(obj);

    if (u->complete) {
        error_setg(errp, "dir cannot be changed any more");
        return;
    }
    g_free(u->dir);
    u->dir = g_canonicalize_filename(value, NULL);
}

static bool fabric_unix_get_rings(Object *obj, Error **errp)
{
    return RNIC_FABRIC_UNIX(obj)->rings;
}

static void fabric_unix_set_rings(Object *obj, bool value, Error **errp)
{
    RNIC_FABRIC_UNIX(obj)->rings = value;
}

static void fabric_unix_complete(UserCreatable *uc, Error **errp)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(uc);

    if (!u->dir) {
        u->dir = rnic_unix_directory_own(errp);
    }
    if (!u->dir || !rnic_unix_directory_check(u->dir, errp)) {
        return;
    }
    rnic_unix_closers_start();
    u->exit.notify = unix_remove_files_at_exit;
    qemu_add_exit_notifier(&u->exit);
    u->complete = true;
}

static void fabric_unix_init(Object *obj)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(obj);

    QLIST_INIT(&u->listeners);
    u->rings = true;
    u->next_port = g_random_int_range(FIRST_PORT, LAST_PORT + 1);
}

static void fabric_unix_finalize(Object *obj)
{
    RnicFabricUnix *u = RNIC_FABRIC_UNIX(obj);

    if (u->complete) {
        qemu_remove_exit_notifier(&u->exit);
    }
    g_free(u->dir);
}

static void fabric_unix_class_init(ObjectClass *klass, RNIC_CLASS_DATA *data)
{
    UserCreatableClass *uc = USER_CREATABLE_CLASS(klass);
    RnicFabricClass *fc = RNIC_FABRIC_CLASS(klass);

    uc->complete = fabric_unix_complete;
    fc->dial = fabric_unix_dial;
    fc->dial_cleanup = unix_dial_cleanup;
    fc->listen = fabric_unix_listen;
    fc->accepted = unix_accepted;
    fc->listener_cleanup = unix_listener_cleanup;
    fc->close_socket = rnic_unix_close;
    object_class_property_add_str(klass, "dir", fabric_unix_get_dir,
                                  fabric_unix_set_dir);
    object_class_property_set_description(
        klass, "dir", "directory of the sockets; whoever may write there may "
        "connect (default: $XDG_RUNTIME_DIR/rnic, or /tmp/rnic-UID)");
    object_class_property_add_bool(klass, "rings", fabric_unix_get_rings,
                                   fabric_unix_set_rings);
    object_class_property_set_description(
        klass, "rings", "send what busy streams carry through shared memory "
        "(default: on)");
}

static const TypeInfo fabric_unix_types[] = {
    {
        .name = TYPE_RNIC_FABRIC_UNIX,
        .parent = TYPE_RNIC_FABRIC,
        .instance_size = sizeof(RnicFabricUnix),
        .instance_init = fabric_unix_init,
        .instance_finalize = fabric_unix_finalize,
        .class_init = fabric_unix_class_init,
        .interfaces = RNIC_INTERFACES {
            { TYPE_USER_CREATABLE },
            { }
        },
    },
};

DEFINE_TYPES(fabric_unix_types)
