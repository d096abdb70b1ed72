/*
 * rnic: the TCP fabric
 *
 * One host socket per stream and per listener, at the address the map gives;
 * with TLS credentials, encrypted.  A fabric that has credentials for one
 * direction only refuses the other: nothing is ever sent in the clear then.
 *
 * The any-address can only be listened on where the map maps it to itself
 * (map=identity).  Elsewhere the host's any-address would open the port to
 * networks the map keeps out; a driver listens on each address it has.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/sockets.h"
#include "io/channel-socket.h"
#include "qom/object_interfaces.h"
#include "hw/rnic/base/compat.h"
#include "fabric.h"
#include "accept.h"
#include "map.h"
#include "tcp.h"
#include "tls.h"
#include "hw/rnic/base/trace.h"

enum {
    BACKLOG_MIN = 1,
    BACKLOG_MAX = 1024,

    SEND_BUFFER = 2 * 1024 * 1024,      /* of octets; Linux doubles it */
};

struct RnicFabricTcp {
    RnicFabric parent_obj;

    char *map_text;
    RnicMap *map;

    char *tls_creds_id;         /* for connections that come in */
    char *tls_client_creds_id;  /* for those that are made */
    char *tls_hostname;
    char *tls_authz;
    QCryptoTLSCreds *tls_creds;
    QCryptoTLSCreds *tls_client_creds;
    bool complete;
};
OBJECT_DECLARE_SIMPLE_TYPE(RnicFabricTcp, RNIC_FABRIC_TCP)

/* An attempt to connect. */
typedef struct TcpDial {
    RnicFabricDial dial;
    RnicFabricTcp *tcp;
    QIOChannel *ioc;            /* until it is connected */
    RnicTlsHandshake *handshake;        /* then */
    RnicAddr to;                /* host address */
    RnicAddr local;             /* guest address, once connected */
    uint8_t near[16];           /* for rnic_map_to_guest() */
} TcpDial;

typedef struct TcpAccepted TcpAccepted;

struct RnicFabricListener {
    RnicFabricTcp *tcp;
    RnicAcceptor *acceptor;
    RnicAddr local;
    unsigned backlog;
    unsigned handshakes_count;
    QLIST_HEAD(, TcpAccepted) handshakes;
    RnicFabricAccept *accept;
    void *opaque;
};

/* A connection that a listener has taken, in its TLS handshake. */
struct TcpAccepted {
    RnicFabricListener *listener;
    RnicTlsHandshake *handshake;
    RnicAddr local;
    RnicAddr remote;
    QLIST_ENTRY(TcpAccepted) next;
};

/* ------------------------------------------------------ host addresses */

static socklen_t to_sockaddr(const RnicAddr *host, struct sockaddr_storage *ss)
{
    struct sockaddr_in *in = (struct sockaddr_in *)ss;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

    memset(ss, 0, sizeof(*ss));
    if (rnic_ip_is_v4(host->ip)) {
        in->sin_family = AF_INET;
        in->sin_port = htons(host->port);
        memcpy(&in->sin_addr, host->ip + 12, 4);
        return sizeof(*in);
    }
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(host->port);
    memcpy(&in6->sin6_addr, host->ip, 16);
    return sizeof(*in6);
}

static bool from_sockaddr(const struct sockaddr_storage *ss, RnicAddr *host)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

    *host = (RnicAddr) { };
    switch (ss->ss_family) {
    case AF_INET:
        host->ip[10] = host->ip[11] = 0xff;
        memcpy(host->ip + 12, &in->sin_addr, 4);
        host->port = ntohs(in->sin_port);
        return true;
    case AF_INET6:
        memcpy(host->ip, &in6->sin6_addr, 16);
        host->port = ntohs(in6->sin6_port);
        return true;
    default:
        return false;
    }
}

typedef int GetName(int fd, struct sockaddr *sa, socklen_t *len);

/* False with errno. */
static bool socket_address(int fd, GetName *get_name, RnicAddr *host)
{
    struct sockaddr_storage ss = { };
    socklen_t len = sizeof(ss);

    if (get_name(fd, (struct sockaddr *)&ss, &len) < 0) {
        return false;
    }
    errno = EAFNOSUPPORT;
    return from_sockaddr(&ss, host);
}

static int socket_at(int fd, int (*call)(int, const struct sockaddr *,
                                         socklen_t), const RnicAddr *host)
{
    struct sockaddr_storage ss;
    socklen_t len = to_sockaddr(host, &ss);

    return call(fd, (struct sockaddr *)&ss, len);
}

static int new_socket(const RnicAddr *host)
{
    return qemu_socket(rnic_ip_is_v4(host->ip) ? AF_INET : AF_INET6,
                       SOCK_STREAM, 0);
}

/* ---------------------------------------------------------------- map */

/* The host address of one interface: never a group, never all of them. */
static bool to_host(RnicFabricTcp *tcp, const RnicAddr *guest, RnicAddr *host)
{
    host->port = guest->port;
    return rnic_ip_is_unicast(guest->ip) &&
           rnic_map_to_host(tcp->map, guest->ip, host->ip) &&
           rnic_ip_is_unicast(host->ip);
}

static bool any_to_host(RnicFabricTcp *tcp, const RnicAddr *guest,
                        RnicAddr *host)
{
    host->port = guest->port;
    return rnic_ip_is_any(guest->ip) &&
           rnic_map_to_host(tcp->map, guest->ip, host->ip) &&
           rnic_ip_is_any(host->ip);
}

static bool to_guest(RnicFabricTcp *tcp, const RnicAddr *host,
                     const uint8_t near[16], RnicAddr *guest)
{
    char text[RNIC_IP_TEXT];

    guest->port = host->port;
    if (rnic_map_to_guest(tcp->map, host->ip, near, guest->ip)) {
        return true;
    }
    trace_rnic_err_fabric_outside_map(rnic_ip_text(host->ip, text),
                                      host->port);
    return false;
}

/* ------------------------------------------------------------ channels */

/* Takes @fd. */
static QIOChannel *channel_new(int fd)
{
    QIOChannel *ioc = QIO_CHANNEL(qio_channel_socket_new());

    QIO_CHANNEL_SOCKET(ioc)->fd = fd;
    qio_channel_set_feature(ioc, QIO_CHANNEL_FEATURE_SHUTDOWN);
    qio_channel_set_blocking(ioc, false, NULL);
    socket_set_nodelay(fd);
    return ioc;
}

/*
 * Between two sockets of one host nothing is ever congested.  A sender that
 * paces itself by what it measured (BBR) gets down to a third of what the host
 * can do there and stays there; reno does not pace and is open to everyone.
 */
static void spare_pacing(int fd)
{
#ifdef TCP_CONGESTION
    static const char name[] = "reno";

    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
#endif
}

/* Linux names these only for itself. */
enum {
    LOCK_NOTHING = 0,
    LOCK_SEND_BUFFER = 1,
};

static int get_option(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* Which of the buffers the host leaves as they were set.  -1: it will never
 * change one that was set. */
static int locked_buffers(int fd)
{
#ifdef SO_BUF_LOCK
    return get_option(fd, SO_BUF_LOCK);
#else
    return -1;
#endif
}

static void lock_buffers(int fd, int which)
{
#ifdef SO_BUF_LOCK
    setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &which, sizeof(which));
#endif
}

/* The host takes what it allows for one that is too large. */
static void set_buffer(int fd, int option, size_t octets)
{
    const int size = MIN(octets, INT_MAX);

    setsockopt(fd, SOL_SOCKET, option, &size, sizeof(size));
}

/*
 * What waits at the sender has to fit into the receiver's window.  Otherwise the
 * window is full all the time and is filled up a little for each little that
 * is read: an interrupt, a wake-up and at times a rearrangement of all that
 * waits, for few octets.  Left to the host the window may stay too small.
 * Before the connection is made: its first window depends on it.  Where the host
 * allows not half of it (net.core.wmem_max), what it makes of the buffers
 * itself is better than less.
 */
static void size_buffers(int fd)
{
    if (locked_buffers(fd) < 0) {
        return;
    }
    set_buffer(fd, SO_SNDBUF, SEND_BUFFER);
    if (get_option(fd, SO_SNDBUF) < SEND_BUFFER) {
        lock_buffers(fd, LOCK_NOTHING);
        return;
    }
    set_buffer(fd, SO_RCVBUF, INT_MAX);
    lock_buffers(fd, LOCK_SEND_BUFFER);
}

static int channel_fd(QIOChannel *ioc)
{
    return QIO_CHANNEL_SOCKET(ioc)->fd;
}

bool rnic_fabric_tcp_is_loopback(QIOChannel *ioc)
{
    RnicAddr peer;

    return socket_address(channel_fd(ioc), getpeername, &peer) &&
           rnic_ip_is_loopback(peer.ip);
}

/* Linux hands a packet over where it was sent: no interrupt comes between. */
int rnic_fabric_tcp_sender_processor(QIOChannel *ioc)
{
#ifdef SO_INCOMING_CPU
    return get_option(channel_fd(ioc), SO_INCOMING_CPU);
#else
    return -1;
#endif
}

static bool uses_tls(const RnicFabricTcp *tcp)
{
    return tcp->tls_creds || tcp->tls_client_creds;
}

/* ---------------------------------------------------------------- dial */

static enum rnic_cm_status dial_status(int error)
{
    switch (error) {
    case 0:
        return RNIC_CM_OK;
    case ECONNREFUSED:
        return RNIC_CM_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
        return RNIC_CM_UNREACHABLE;
    case EADDRINUSE:
        return RNIC_CM_ADDRESS_IN_USE;
    case ETIMEDOUT:
        return RNIC_CM_TIMED_OUT;
    case ECONNRESET:
    case ENOTCONN:
        return RNIC_CM_RESET;
    default:
        return RNIC_CM_LOCAL_ERROR;
    }
}

static int bind_local(int fd, const RnicAddr *from)
{
    socket_set_fast_reuse(fd);
#ifdef IP_BIND_ADDRESS_NO_PORT
    if (from->port == 0) {
        /* A port need only be free for this destination. */
        const int on = 1;

        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    }
#endif
    return socket_at(fd, bind, from);
}

/* @from: any-address if the host is to choose.  NULL with errno. */
static QIOChannel *connect_from(const RnicAddr *from, const RnicAddr *to)
{
    int fd = new_socket(to);
    QIOChannel *ioc;

    if (fd < 0) {
        return NULL;
    }
    if (rnic_ip_is_loopback(to->ip)) {
        spare_pacing(fd);
        size_buffers(fd);
    }
    ioc = channel_new(fd);
    if ((!rnic_ip_is_any(from->ip) && bind_local(fd, from) < 0) ||
        (socket_at(fd, connect, to) < 0 && errno != EINPROGRESS)) {
        int error = errno;

        object_unref(OBJECT(ioc));
        errno = error;
        return NULL;
    }
    return ioc;
}

/* The host cannot give this port, or not towards this destination. */
static bool is_port_trouble(int error)
{
    return error == EADDRINUSE || error == EADDRNOTAVAIL || error == EACCES;
}

/* Why the connection attempt of @fd failed, 0 if it did not. */
static int connect_error(int fd, RnicAddr *host_local)
{
    RnicAddr host_remote;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ||
        (error == 0 &&
         (!socket_address(fd, getpeername, &host_remote) ||
          !socket_address(fd, getsockname, host_local)))) {
        return errno;
    }
    /* TCP connects a socket to itself if nobody else listens there. */
    if (error == 0 && host_local->port == host_remote.port &&
        memcmp(host_local->ip, host_remote.ip, 16) == 0) {
        return ECONNREFUSED;
    }
    return error;
}

static void dial_free(TcpDial *d)
{
    if (d->ioc) {
        AioContext *ctx = iohandler_get_aio_context();

        qio_channel_set_aio_fd_handler(d->ioc, ctx, NULL, ctx, NULL, NULL);
        rnic_fabric_abort(d->ioc);
    }
    if (d->handshake) {
        rnic_tls_cancel(d->handshake);
    }
    object_unref(OBJECT(d->tcp));
    g_free(d);
}

static void dial_end(TcpDial *d, enum rnic_cm_status status, QIOChannel *ioc)
{
    RnicFabricDial dial = d->dial;
    RnicAddr local = d->local;

    dial_free(d);
    rnic_fabric_dialed(&dial, status, ioc, ioc ? &local : NULL);
}

static void dial_encrypted(void *opaque, QIOChannel *ioc, const char *why)
{
    TcpDial *d = opaque;

    d->handshake = NULL;
    dial_end(d, ioc ? RNIC_CM_OK : RNIC_CM_TLS, ioc);
}

/* As for QEMU's other users: the name is the one dialed, if not told. */
static void dial_encrypt(TcpDial *d, QIOChannel *ioc)
{
    char text[RNIC_IP_TEXT];
    const char *host = rnic_ip_text(d->to.ip, text);

    d->handshake = rnic_tls_handshake(ioc, d->tcp->tls_client_creds, false,
                                      d->tcp->tls_hostname ?: host, host,
                                      dial_encrypted, d);
}

static void dial_connected(TcpDial *d)
{
    AioContext *ctx = iohandler_get_aio_context();
    QIOChannel *ioc = g_steal_pointer(&d->ioc);

    qio_channel_set_aio_fd_handler(ioc, ctx, NULL, ctx, NULL, NULL);
    if (d->tcp->tls_client_creds) {
        dial_encrypt(d, ioc);
    } else {
        dial_end(d, RNIC_CM_OK, ioc);
    }
}

static void dial_writable(void *opaque)
{
    TcpDial *d = opaque;
    RnicAddr host;
    int error = connect_error(channel_fd(d->ioc), &host);

    if (error) {
        trace_rnic_err_fabric_host("connect", error);
        dial_end(d, dial_status(error), NULL);
    } else if (!to_guest(d->tcp, &host, d->near, &d->local)) {
        dial_end(d, RNIC_CM_OUTSIDE_MAP, NULL);
    } else {
        dial_connected(d);
    }
}

/* A channel that is connecting, or NULL and *@status. */
static QIOChannel *begin_connect(RnicFabricTcp *tcp, const RnicAddr *local,
                                 const RnicAddr *to,
                                 enum rnic_cm_status *status)
{
    bool any = rnic_ip_is_any(local->ip);
    RnicAddr from = { };
    QIOChannel *ioc;

    if (!any && !to_host(tcp, local, &from)) {
        *status = RNIC_CM_OUTSIDE_MAP;
        return NULL;
    }
    if (!any && rnic_ip_is_v4(from.ip) != rnic_ip_is_v4(to->ip)) {
        *status = RNIC_CM_UNREACHABLE;
        return NULL;
    }
    ioc = connect_from(&from, to);
    if (!ioc && from.port && is_port_trouble(errno)) {
        from.port = 0;
        ioc = connect_from(&from, to);
    }
    if (!ioc) {
        trace_rnic_err_fabric_host("dial", errno);
        *status = dial_status(errno);
    }
    return ioc;
}

static RnicFabricDial *fabric_tcp_dial(RnicFabric *f, const RnicAddr *local,
                                       const RnicAddr *remote,
                                       RnicFabricDialed *dialed, void *opaque,
                                       enum rnic_cm_status *status)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(f);
    AioContext *ctx = iohandler_get_aio_context();
    QIOChannel *ioc;
    RnicAddr to;
    TcpDial *d;

    if (uses_tls(tcp) && !tcp->tls_client_creds) {
        trace_rnic_err_tls_no_creds("dial");
        *status = RNIC_CM_LOCAL_ERROR;
        return NULL;
    }
    if (!to_host(tcp, remote, &to)) {
        *status = RNIC_CM_OUTSIDE_MAP;
        return NULL;
    }
    ioc = begin_connect(tcp, local, &to, status);
    if (!ioc) {
        return NULL;
    }
    d = g_new0(TcpDial, 1);
    d->dial = (RnicFabricDial) { dialed, opaque };
    d->tcp = RNIC_FABRIC_TCP(object_ref(OBJECT(f)));
    d->ioc = ioc;
    d->to = to;
    memcpy(d->near, rnic_ip_is_any(local->ip) ? remote->ip : local->ip,
           sizeof(d->near));
    qio_channel_set_aio_fd_handler(ioc, ctx, NULL, ctx, dial_writable, d);
    return &d->dial;
}

static void fabric_tcp_cancel(RnicFabric *f, RnicFabricDial *dial)
{
    dial_free(container_of(dial, TcpDial, dial));
}

/* -------------------------------------------------------------- accept */

static void deliver(RnicFabricListener *l, QIOChannel *ioc,
                    const RnicAddr *local, const RnicAddr *remote)
{
    char text[RNIC_IP_TEXT];

    trace_rnic_fabric_accepted(l, ioc, rnic_ip_text(remote->ip, text),
                               remote->port);
    l->accept(l->opaque, ioc, local, remote);
}

static void accepted_free(TcpAccepted *a)
{
    QLIST_REMOVE(a, next);
    a->listener->handshakes_count--;
    if (a->handshake) {
        rnic_tls_cancel(a->handshake);
    }
    g_free(a);
}

static void accepted_encrypted(void *opaque, QIOChannel *ioc, const char *why)
{
    TcpAccepted *a = opaque;
    RnicFabricListener *l = a->listener;
    RnicAddr local = a->local, remote = a->remote;

    a->handshake = NULL;
    accepted_free(a);
    if (ioc) {
        deliver(l, ioc, &local, &remote);
    }
}

/* Takes @ioc.  Peers that do not come to the point must not be too many. */
static void accept_encrypt(RnicFabricListener *l, QIOChannel *ioc,
                           const RnicAddr *local, const RnicAddr *remote)
{
    char text[RNIC_IP_TEXT];
    TcpAccepted *a;

    if (l->handshakes_count >= l->backlog) {
        trace_rnic_err_tls_handshakes(l, l->handshakes_count);
        rnic_fabric_abort(ioc);
        return;
    }
    a = g_new0(TcpAccepted, 1);
    a->listener = l;
    a->local = *local;
    a->remote = *remote;
    QLIST_INSERT_HEAD(&l->handshakes, a, next);
    l->handshakes_count++;
    a->handshake = rnic_tls_handshake(ioc, l->tcp->tls_creds, true,
                                      l->tcp->tls_authz,
                                      rnic_ip_text(remote->ip, text),
                                      accepted_encrypted, a);
}

/* Takes @fd. */
static void accepted(void *opaque, int fd)
{
    RnicFabricListener *l = opaque;
    QIOChannel *ioc = channel_new(fd);
    RnicAddr host, local, remote;

    if (!socket_address(fd, getpeername, &host) ||
        !to_guest(l->tcp, &host, l->local.ip, &remote) ||
        !socket_address(fd, getsockname, &host) ||
        !to_guest(l->tcp, &host, l->local.ip, &local)) {
        object_unref(OBJECT(ioc));
        return;
    }
    if (rnic_ip_is_loopback(host.ip)) {
        spare_pacing(fd);
    } else {
        lock_buffers(fd, LOCK_NOTHING);
    }
    if (l->tcp->tls_creds) {
        accept_encrypt(l, ioc, &local, &remote);
    } else {
        deliver(l, ioc, &local, &remote);
    }
}

/* -------------------------------------------------------------- listen */

static enum rnic_admin_status listen_status(int error)
{
    switch (error) {
    case EADDRINUSE:
        return RNIC_ST_ADDRESS_IN_USE;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return RNIC_ST_INVALID_ADDRESS;
    default:
        return RNIC_ST_FABRIC_ERROR;
    }
}

/* A non-blocking listening socket, or -1 with errno. */
static int listen_at(const RnicAddr *host, unsigned backlog)
{
    /* :: stands for every IPv4 address as well. */
    const int v6_only = !rnic_ip_is_any(host->ip);
    int fd = new_socket(host);

    if (fd < 0) {
        return -1;
    }
    socket_set_fast_reuse(fd);
    /* For connections from this host; accepted() has those of others undo it. */
    if (rnic_ip_is_loopback(host->ip) || rnic_ip_is_any(host->ip)) {
        size_buffers(fd);
    }
    if ((!rnic_ip_is_v4(host->ip) &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only,
                    sizeof(v6_only)) < 0) ||
        socket_at(fd, bind, host) < 0 ||
        listen(fd, backlog) < 0 ||
        !g_unix_set_fd_nonblocking(fd, true, NULL)) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int listen_at_or_v4(RnicAddr *host, unsigned backlog)
{
    int fd = listen_at(host, backlog);

    if (fd < 0 && errno == EAFNOSUPPORT && rnic_ip_is_any(host->ip)) {
        /* A host without IPv6: all addresses are IPv4 addresses. */
        host->ip[10] = host->ip[11] = 0xff;
        fd = listen_at(host, backlog);
    }
    return fd;
}

static RnicFabricListener *fabric_tcp_listen(RnicFabric *f,
                                             const RnicAddr *local,
                                             unsigned backlog,
                                             RnicFabricAccept *accept_fn,
                                             void *opaque,
                                             enum rnic_admin_status *status)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(f);
    RnicFabricListener *l;
    RnicAddr host;
    int fd;

    if (uses_tls(tcp) && !tcp->tls_creds) {
        trace_rnic_err_tls_no_creds("listen");
        *status = RNIC_ST_FABRIC_ERROR;
        return NULL;
    }
    if (local->port == 0 ||
        (!to_host(tcp, local, &host) && !any_to_host(tcp, local, &host))) {
        *status = RNIC_ST_INVALID_ADDRESS;
        return NULL;
    }
    backlog = MIN(MAX(backlog, BACKLOG_MIN), BACKLOG_MAX);
    fd = listen_at_or_v4(&host, backlog);
    if (fd < 0) {
        trace_rnic_err_fabric_host("listen", errno);
        *status = listen_status(errno);
        return NULL;
    }
    l = g_new0(RnicFabricListener, 1);
    l->tcp = RNIC_FABRIC_TCP(object_ref(OBJECT(f)));
    l->local = *local;
    l->backlog = backlog;
    l->accept = accept_fn;
    l->opaque = opaque;
    l->acceptor = rnic_acceptor_new(fd, accepted, l);
    return l;
}

static void fabric_tcp_unlisten(RnicFabric *f, RnicFabricListener *l)
{
    TcpAccepted *a, *next;

    QLIST_FOREACH_SAFE(a, &l->handshakes, next, next) {
        accepted_free(a);
    }
    rnic_acceptor_free(l->acceptor);
    object_unref(OBJECT(l->tcp));
    g_free(l);
}

/* ---------------------------------------------------------------- QOM */

static char *fabric_tcp_get_map(Object *obj, Error **errp)
{
    return g_strdup(RNIC_FABRIC_TCP(obj)->map_text);
}

/* A change while streams exist concerns later ones only. */
static void fabric_tcp_set_map(Object *obj, const char *value, Error **errp)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);
    g_autofree char *why = NULL;
    RnicMap *map = rnic_map_parse(value, &why);

    if (!map) {
        error_setg(errp, "%s", why);
        return;
    }
    rnic_map_free(tcp->map);
    tcp->map = map;
    g_free(tcp->map_text);
    tcp->map_text = g_strdup(value);
}

/* The properties that are a text each. */
typedef struct TextProperty {
    const char *name;
    size_t offset;
    const char *description;
} TextProperty;

static const TextProperty text_properties[] = {
    { "tls-creds", offsetof(RnicFabricTcp, tls_creds_id),
      "TLS credentials (endpoint=server) for connections that come in" },
    { "tls-client-creds", offsetof(RnicFabricTcp, tls_client_creds_id),
      "TLS credentials (endpoint=client) for connections that are made" },
    { "tls-hostname", offsetof(RnicFabricTcp, tls_hostname),
      "name in the certificates of those connected to (default: the host "
      "address)" },
    { "tls-authz", offsetof(RnicFabricTcp, tls_authz),
      "id of the authz object that those who connect have to pass" },
};

static char **text_of(Object *obj, const TextProperty *property)
{
    return (void *)((char *)RNIC_FABRIC_TCP(obj) + property->offset);
}

static void fabric_tcp_get_text(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    g_autofree char *text = g_strdup(*text_of(obj, opaque) ?: "");

    visit_type_str(v, name, &text, errp);
}

static void fabric_tcp_set_text(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    char **text = text_of(obj, opaque);
    char *value;

    if (RNIC_FABRIC_TCP(obj)->complete) {
        error_setg(errp, "%s cannot be changed any more", name);
        return;
    }
    if (visit_type_str(v, name, &value, errp)) {
        g_free(*text);
        *text = value;
    }
}

static void fabric_tcp_complete(UserCreatable *uc, Error **errp)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(uc);

    if (!tcp->map) {
        error_setg(errp, "map= is missing: map=loopback (guest a.b.c.d is host "
                   "127.b.c.d), map=identity, or map=GUEST/length=HOST/length"
                   "[;...]");
        return;
    }
    if (tcp->tls_creds_id) {
        tcp->tls_creds = rnic_tls_creds(tcp->tls_creds_id, true, errp);
        if (!tcp->tls_creds) {
            return;
        }
    }
    if (tcp->tls_client_creds_id) {
        tcp->tls_client_creds = rnic_tls_creds(tcp->tls_client_creds_id,
                                               false, errp);
        if (!tcp->tls_client_creds) {
            return;
        }
    }
    if (tcp->tls_authz && !tcp->tls_creds) {
        error_setg(errp, "tls-authz has no meaning without tls-creds");
    } else if (tcp->tls_hostname && !tcp->tls_client_creds) {
        error_setg(errp, "tls-hostname has no meaning without "
                   "tls-client-creds");
    }
    tcp->complete = true;
}

static void fabric_tcp_finalize(Object *obj)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);

    rnic_map_free(tcp->map);
    g_free(tcp->map_text);
    object_unref(OBJECT(tcp->tls_creds));
    object_unref(OBJECT(tcp->tls_client_creds));
    for (int i = 0; i < ARRAY_SIZE(text_properties); i++) {
        g_free(*text_of(obj, &text_properties[i]));
    }
}

static void fabric_tcp_class_init(ObjectClass *klass, RNIC_CLASS_DATA *data)
{
    UserCreatableClass *uc = USER_CREATABLE_CLASS(klass);
    RnicFabricClass *fc = RNIC_FABRIC_CLASS(klass);

    uc->complete = fabric_tcp_complete;
    fc->dial = fabric_tcp_dial;
    fc->cancel = fabric_tcp_cancel;
    fc->listen = fabric_tcp_listen;
    fc->unlisten = fabric_tcp_unlisten;
    object_class_property_add_str(klass, "map", fabric_tcp_get_map,
                                  fabric_tcp_set_map);
    object_class_property_set_description(
        klass, "map", "how guest addresses become host addresses: loopback "
        "(guest a.b.c.d is host 127.b.c.d), identity, or GUEST/length="
        "HOST/length entries separated by ';' (required)");
    for (int i = 0; i < ARRAY_SIZE(text_properties); i++) {
        const TextProperty *p = &text_properties[i];

        object_class_property_add(klass, p->name, "string",
                                  fabric_tcp_get_text, fabric_tcp_set_text,
                                  NULL, (void *)p);
        object_class_property_set_description(klass, p->name, p->description);
    }
}

static const TypeInfo fabric_tcp_types[] = {
    {
        .name = TYPE_RNIC_FABRIC_TCP,
        .parent = TYPE_RNIC_FABRIC,
        .instance_size = sizeof(RnicFabricTcp),
        .instance_finalize = fabric_tcp_finalize,
        .class_init = fabric_tcp_class_init,
        .interfaces = RNIC_INTERFACES {
            { TYPE_USER_CREATABLE },
            { }
        },
    },
};

DEFINE_TYPES(fabric_tcp_types)
