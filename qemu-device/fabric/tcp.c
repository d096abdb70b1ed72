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
#include <netinet/tcp.h>
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/sockets.h"
#include "qom/object_interfaces.h"
#include "hw/rnic/base/compat.h"
#include "fabric.h"
#include "descriptors.h"
#include "map.h"
#include "socket-transport.h"
#include "tls.h"
#include "hw/rnic/base/trace.h"

enum {
    KEEPALIVE_S = 60,
    KEEPALIVE_S_MAX = 3600,
    KEEPALIVE_PROBES = 4,
};

struct RnicFabricTcp {
    RnicFabric parent_obj;

    char *map_text;
    RnicMap *map;

    uint32_t keepalive_s;       /* see tcp_set_keepalive(); 0: off */

    QCryptoTLSCreds *tls_creds;         /* for connections that come in */
    QCryptoTLSCreds *tls_client_creds;  /* for those that are made */
    char *tls_hostname;
    char *tls_authz;
    bool complete;
};
OBJECT_DECLARE_SIMPLE_TYPE(RnicFabricTcp, RNIC_FABRIC_TCP)

/* An attempt to connect. */
typedef struct TcpDial {
    RnicFabricDial dial;
    RnicTlsHandshake *handshake;        /* once it is connected */
    RnicAddr to;                /* host address */
    uint8_t near[16];           /* for rnic_map_to_guest() */
} TcpDial;

typedef struct TcpAccepted TcpAccepted;

typedef struct TcpListener {
    RnicFabricListener listener;
    unsigned backlog;
    unsigned handshakes_count;
    QLIST_HEAD(, TcpAccepted) handshakes;
} TcpListener;

/* A connection that a listener has taken, in its TLS handshake. */
struct TcpAccepted {
    TcpListener *listener;
    RnicTlsHandshake *handshake;
    RnicAddr local;
    RnicAddr remote;
    QLIST_ENTRY(TcpAccepted) next;
};

/* ------------------------------------------------------ host addresses */

static socklen_t tcp_to_sockaddr(const RnicAddr *host,
                                 struct sockaddr_storage *ss)
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

static bool tcp_from_sockaddr(const struct sockaddr_storage *ss, RnicAddr *host)
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
static bool tcp_socket_address(int fd, GetName *get_name, RnicAddr *host)
{
    struct sockaddr_storage ss = { };
    socklen_t len = sizeof(ss);

    if (get_name(fd, (struct sockaddr *)&ss, &len) < 0) {
        return false;
    }
    errno = EAFNOSUPPORT;
    return tcp_from_sockaddr(&ss, host);
}

static int tcp_socket_at(int fd, int (*call)(int, const struct sockaddr *,
                                             socklen_t), const RnicAddr *host)
{
    struct sockaddr_storage ss;
    socklen_t len = tcp_to_sockaddr(host, &ss);

    return call(fd, (struct sockaddr *)&ss, len);
}

/* ---------------------------------------------------------------- map */

/*
 * The host address of one interface: never a group, never all of them, and never
 * one that says nothing without the name of an interface (RFC 4007, 6).
 */
static bool tcp_to_host(RnicFabricTcp *tcp, const RnicAddr *guest,
                        RnicAddr *host)
{
    host->port = guest->port;
    return rnic_ip_is_unicast(guest->ip) &&
           rnic_map_to_host(tcp->map, guest->ip, host->ip) &&
           rnic_ip_is_unicast(host->ip) && !rnic_ip_is_link_local(host->ip);
}

static bool tcp_any_to_host(RnicFabricTcp *tcp, const RnicAddr *guest,
                            RnicAddr *host)
{
    host->port = guest->port;
    return rnic_ip_is_any(guest->ip) &&
           rnic_map_to_host(tcp->map, guest->ip, host->ip) &&
           rnic_ip_is_any(host->ip);
}

static bool tcp_to_guest(RnicFabricTcp *tcp, const RnicAddr *host,
                         const uint8_t near[16], RnicAddr *guest)
{
    char text[RNIC_IP_TEXT];

    guest->port = host->port;
    if (!rnic_ip_is_link_local(host->ip) &&
        rnic_map_to_guest(tcp->map, host->ip, near, guest->ip)) {
        return true;
    }
    trace_rnic_err_fabric_outside_map(rnic_ip_text(host->ip, text),
                                      host->port);
    return false;
}

/* ------------------------------------------------------------- sockets */

static int tcp_family(const RnicAddr *host)
{
    return rnic_ip_is_v4(host->ip) ? AF_INET : AF_INET6;
}

static void tcp_set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

/*
 * A peer that vanished does not answer.  The host asks it after so many seconds
 * without an octet, and ends the connection (ETIMEDOUT) after as many more; it
 * does so, too, when octets are not acknowledged for that long in all.
 */
static void tcp_set_keepalive(const RnicFabricTcp *tcp, int fd)
{
    int idle = MIN(tcp->keepalive_s, KEEPALIVE_S_MAX);

    if (!idle) {
        return;
    }
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL,
                   DIV_ROUND_UP(idle, KEEPALIVE_PROBES));
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    tcp_set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 2 * idle * 1000);
    tcp_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* @address: of either end.  What the host does not allow is left as it is. */
static void tcp_set_tos(int fd, const RnicAddr *address, uint8_t tos)
{
    if (!tos) {
        return;
    }
    if (rnic_ip_is_v4(address->ip)) {
        tcp_set_option(fd, IPPROTO_IP, IP_TOS, tos);
    } else {
        tcp_set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
    }
}

static bool tcp_uses_tls(const RnicFabricTcp *tcp)
{
    return tcp->tls_creds || tcp->tls_client_creds;
}

/* ---------------------------------------------------------------- dial */

static int tcp_bind_local(int fd, const RnicAddr *from)
{
    socket_set_fast_reuse(fd);
    if (from->port == 0) {
        /* A port need only be free for this destination. */
        tcp_set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    }
    return tcp_socket_at(fd, bind, from);
}

/* @from: any-address if the host is to choose.  -1 with errno. */
static int tcp_connect_from(const RnicFabricTcp *tcp, const RnicAddr *from,
                            const RnicAddr *to, uint8_t tos)
{
    int fd = rnic_fabric_socket(tcp_family(to));

    if (fd < 0) {
        return -1;
    }
    socket_set_nodelay(fd);
    tcp_set_keepalive(tcp, fd);
    tcp_set_tos(fd, to, tos);
    if ((!rnic_ip_is_any(from->ip) && tcp_bind_local(fd, from) < 0) ||
        (tcp_socket_at(fd, connect, to) < 0 && errno != EINPROGRESS)) {
        rnic_descriptors_close(fd);
        return -1;
    }
    return fd;
}

/* The host cannot give this port, or not towards this destination. */
static bool tcp_is_port_trouble(int error)
{
    return error == EADDRINUSE || error == EADDRNOTAVAIL || error == EACCES;
}

/* Why the connection attempt of @fd failed, 0 if it did not. */
static int tcp_connect_error(int fd, RnicAddr *host_local)
{
    RnicAddr host_remote;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ||
        (error == 0 &&
         (!tcp_socket_address(fd, getpeername, &host_remote) ||
          !tcp_socket_address(fd, getsockname, host_local)))) {
        return errno;
    }
    /* TCP connects a socket to itself if no other socket listens there. */
    if (error == 0 && host_local->port == host_remote.port &&
        memcmp(host_local->ip, host_remote.ip, 16) == 0) {
        return ECONNREFUSED;
    }
    return error;
}

static void tcp_dial_cleanup(RnicFabricDial *dial)
{
    TcpDial *d = container_of(dial, TcpDial, dial);

    if (dial->fd >= 0) {
        qemu_set_fd_handler(dial->fd, NULL, NULL, NULL);
    }
    if (d->handshake) {
        rnic_tls_cancel(d->handshake);
    }
}

static void tcp_dial_encrypted(void *opaque, RnicTransport *t, const char *why)
{
    TcpDial *d = opaque;

    d->handshake = NULL;
    rnic_fabric_dialed(&d->dial, t ? RNIC_FABRIC_OK : RNIC_FABRIC_TLS, t);
}

/* As for QEMU's other users: the name is the one dialed, if not told. */
static void tcp_dial_encrypt(TcpDial *d, RnicTransport *t)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(d->dial.fabric);
    char text[RNIC_IP_TEXT];
    const char *host = rnic_ip_text(d->to.ip, text);

    d->handshake = rnic_tls_handshake(t, tcp->tls_client_creds, false,
                                      tcp->tls_hostname ?: host, host,
                                      tcp_dial_encrypted, d);
}

static void tcp_dial_connected(TcpDial *d)
{
    RnicTransport *t;

    qemu_set_fd_handler(d->dial.fd, NULL, NULL, NULL);
    t = rnic_socket_transport_new(d->dial.fd);
    d->dial.fd = -1;
    if (RNIC_FABRIC_TCP(d->dial.fabric)->tls_client_creds) {
        tcp_dial_encrypt(d, t);
    } else {
        rnic_fabric_dialed(&d->dial, RNIC_FABRIC_OK, t);
    }
}

static void tcp_dial_writable(void *opaque)
{
    TcpDial *d = opaque;
    RnicAddr host;
    int error = tcp_connect_error(d->dial.fd, &host);

    if (error) {
        trace_rnic_err_fabric_host("connect", error);
        rnic_fabric_dialed(&d->dial, rnic_fabric_status(error), NULL);
    } else if (!tcp_to_guest(RNIC_FABRIC_TCP(d->dial.fabric), &host, d->near,
                             &d->dial.local)) {
        rnic_fabric_dialed(&d->dial, RNIC_FABRIC_OUTSIDE_MAP, NULL);
    } else {
        tcp_dial_connected(d);
    }
}

/* A socket that is connecting, or -1 and *@status. */
static int tcp_begin_connect(RnicFabricTcp *tcp, const RnicAddr *local,
                             const RnicAddr *to, uint8_t tos,
                             RnicFabricStatus *status)
{
    bool any = rnic_ip_is_any(local->ip);
    RnicAddr from = { };
    int fd;

    if (!any && !tcp_to_host(tcp, local, &from)) {
        *status = RNIC_FABRIC_OUTSIDE_MAP;
        return -1;
    }
    if (!any && rnic_ip_is_v4(from.ip) != rnic_ip_is_v4(to->ip)) {
        *status = RNIC_FABRIC_UNREACHABLE;
        return -1;
    }
    fd = tcp_connect_from(tcp, &from, to, tos);
    if (fd < 0 && from.port && tcp_is_port_trouble(errno)) {
        from.port = 0;
        fd = tcp_connect_from(tcp, &from, to, tos);
    }
    if (fd < 0) {
        trace_rnic_err_fabric_host("dial", errno);
        *status = rnic_fabric_status(errno);
    }
    return fd;
}

static RnicFabricDial *fabric_tcp_dial(RnicFabric *f, const RnicAddr *local,
                                       const RnicAddr *remote, uint8_t tos,
                                       RnicFabricStatus *status)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(f);
    RnicAddr to;
    TcpDial *d;
    int fd;

    if (tcp_uses_tls(tcp) && !tcp->tls_client_creds) {
        trace_rnic_err_tls_no_creds("dial");
        *status = RNIC_FABRIC_ERROR;
        return NULL;
    }
    if (!tcp_to_host(tcp, remote, &to)) {
        *status = RNIC_FABRIC_OUTSIDE_MAP;
        return NULL;
    }
    fd = tcp_begin_connect(tcp, local, &to, tos, status);
    if (fd < 0) {
        return NULL;
    }
    d = g_new0(TcpDial, 1);
    d->dial.fd = fd;
    d->to = to;
    memcpy(d->near, rnic_ip_is_any(local->ip) ? remote->ip : local->ip,
           sizeof(d->near));
    qemu_set_fd_handler(fd, NULL, tcp_dial_writable, d);
    return &d->dial;
}

/* -------------------------------------------------------------- accept */

static void tcp_accepted_free(TcpAccepted *a)
{
    QLIST_REMOVE(a, next);
    a->listener->handshakes_count--;
    if (a->handshake) {
        rnic_tls_cancel(a->handshake);
    }
    g_free(a);
}

static void tcp_accepted_encrypted(void *opaque, RnicTransport *t,
                                   const char *why)
{
    TcpAccepted *a = opaque;
    RnicFabricListener *l = &a->listener->listener;
    RnicAddr local = a->local, remote = a->remote;

    a->handshake = NULL;
    tcp_accepted_free(a);
    if (t) {
        rnic_fabric_deliver(l, t, &local, &remote);
    }
}

/* Takes @t.  At most as many handshakes are under way as the backlog has. */
static void tcp_accept_encrypt(TcpListener *l, RnicTransport *t,
                               const RnicAddr *local, const RnicAddr *remote)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(l->listener.fabric);
    char text[RNIC_IP_TEXT];
    TcpAccepted *a;

    if (l->handshakes_count >= l->backlog) {
        trace_rnic_err_tls_handshakes(l, l->handshakes_count);
        rnic_transport_abort(t);
        return;
    }
    a = g_new0(TcpAccepted, 1);
    a->listener = l;
    a->local = *local;
    a->remote = *remote;
    QLIST_INSERT_HEAD(&l->handshakes, a, next);
    l->handshakes_count++;
    a->handshake = rnic_tls_handshake(t, tcp->tls_creds, true, tcp->tls_authz,
                                      rnic_ip_text(remote->ip, text),
                                      tcp_accepted_encrypted, a);
}

static void tcp_accepted(RnicFabricListener *l, int fd)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(l->fabric);
    RnicAddr host, local, remote;
    RnicTransport *t;

    if (!tcp_socket_address(fd, getpeername, &host) ||
        !tcp_to_guest(tcp, &host, l->local.ip, &remote) ||
        !tcp_socket_address(fd, getsockname, &host) ||
        !tcp_to_guest(tcp, &host, l->local.ip, &local)) {
        rnic_descriptors_close(fd);
        return;
    }
    socket_set_nodelay(fd);
    tcp_set_keepalive(tcp, fd);
    t = rnic_socket_transport_new(fd);
    if (tcp->tls_creds) {
        tcp_accept_encrypt(container_of(l, TcpListener, listener), t, &local,
                           &remote);
    } else {
        rnic_fabric_deliver(l, t, &local, &remote);
    }
}

/* -------------------------------------------------------------- listen */

/* A non-blocking listening socket, or -1 with errno. */
static int tcp_listen_at(const RnicAddr *host, unsigned backlog)
{
    /* :: stands for every IPv4 address as well. */
    const int v6_only = !rnic_ip_is_any(host->ip);
    int fd = rnic_fabric_socket(tcp_family(host));

    if (fd < 0) {
        return -1;
    }
    socket_set_fast_reuse(fd);
    if ((!rnic_ip_is_v4(host->ip) &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only,
                    sizeof(v6_only)) < 0) ||
        tcp_socket_at(fd, bind, host) < 0 ||
        listen(fd, backlog) < 0) {
        rnic_descriptors_close(fd);
        return -1;
    }
    return fd;
}

static int tcp_listen_at_or_v4(RnicAddr *host, unsigned backlog)
{
    int fd = tcp_listen_at(host, backlog);

    if (fd < 0 && errno == EAFNOSUPPORT && rnic_ip_is_any(host->ip)) {
        /* A host without IPv6: all addresses are IPv4 addresses. */
        host->ip[10] = host->ip[11] = 0xff;
        fd = tcp_listen_at(host, backlog);
    }
    return fd;
}

static RnicFabricListener *fabric_tcp_listen(RnicFabric *f,
                                             const RnicAddr *local,
                                             unsigned backlog, uint8_t tos,
                                             RnicFabricStatus *status)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(f);
    TcpListener *l;
    RnicAddr host;
    int fd;

    if (tcp_uses_tls(tcp) && !tcp->tls_creds) {
        trace_rnic_err_tls_no_creds("listen");
        *status = RNIC_FABRIC_ERROR;
        return NULL;
    }
    if (local->port == 0 ||
        (!tcp_to_host(tcp, local, &host) &&
         !tcp_any_to_host(tcp, local, &host))) {
        *status = RNIC_FABRIC_INVALID_ADDRESS;
        return NULL;
    }
    fd = tcp_listen_at_or_v4(&host, backlog);
    if (fd < 0) {
        trace_rnic_err_fabric_host("listen", errno);
        *status = rnic_fabric_status(errno);
        if (*status == RNIC_FABRIC_UNREACHABLE) {
            *status = RNIC_FABRIC_INVALID_ADDRESS;
        }
        return NULL;
    }
    /* Connections have it from their listener. */
    tcp_set_tos(fd, &host, tos);
    l = g_new0(TcpListener, 1);
    l->listener.fd = fd;
    l->backlog = backlog;
    return &l->listener;
}

static void tcp_listener_cleanup(RnicFabricListener *listener)
{
    TcpListener *l = container_of(listener, TcpListener, listener);
    TcpAccepted *a, *next;

    QLIST_FOREACH_SAFE(a, &l->handshakes, next, next) {
        tcp_accepted_free(a);
    }
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

static bool fabric_tcp_may_change(Object *obj, const char *name, Error **errp)
{
    if (RNIC_FABRIC_TCP(obj)->complete) {
        error_setg(errp, "%s cannot be changed any more", name);
        return false;
    }
    return true;
}

static void fabric_tcp_check_creds(const Object *obj, const char *name,
                                   Object *creds, Error **errp)
{
    fabric_tcp_may_change((Object *)obj, name, errp);
}

static char *fabric_tcp_get_hostname(Object *obj, Error **errp)
{
    return g_strdup(RNIC_FABRIC_TCP(obj)->tls_hostname);
}

static void fabric_tcp_set_hostname(Object *obj, const char *value,
                                    Error **errp)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);

    if (fabric_tcp_may_change(obj, "tls-hostname", errp)) {
        g_free(tcp->tls_hostname);
        tcp->tls_hostname = g_strdup(value);
    }
}

static char *fabric_tcp_get_authz(Object *obj, Error **errp)
{
    return g_strdup(RNIC_FABRIC_TCP(obj)->tls_authz);
}

static void fabric_tcp_set_authz(Object *obj, const char *value, Error **errp)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);

    if (fabric_tcp_may_change(obj, "tls-authz", errp)) {
        g_free(tcp->tls_authz);
        tcp->tls_authz = g_strdup(value);
    }
}

static bool tcp_check_endpoint(QCryptoTLSCreds *creds,
                               QCryptoTLSCredsEndpoint endpoint, Error **errp)
{
    return !creds || qcrypto_tls_creds_check_endpoint(creds, endpoint, errp);
}

static void fabric_tcp_complete(UserCreatable *uc, Error **errp)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(uc);

    if (!tcp->map) {
        error_setg(errp, "map= is missing: map=loopback (guest a.b.c.d is host "
                   "127.b.c.d), map=identity, or map=GUEST/length=HOST/length"
                   "[;...]");
    } else if (tcp->keepalive_s > KEEPALIVE_S_MAX) {
        error_setg(errp, "keepalive-s=%u is too long: at most %d seconds",
                   tcp->keepalive_s, KEEPALIVE_S_MAX);
    } else if (tcp->tls_authz && !tcp->tls_creds) {
        error_setg(errp, "tls-authz has no meaning without tls-creds");
    } else if (tcp->tls_hostname && !tcp->tls_client_creds) {
        error_setg(errp, "tls-hostname has no meaning without "
                   "tls-client-creds");
    } else {
        tcp->complete =
            tcp_check_endpoint(tcp->tls_creds,
                               QCRYPTO_TLS_CREDS_ENDPOINT_SERVER, errp) &&
            tcp_check_endpoint(tcp->tls_client_creds,
                               QCRYPTO_TLS_CREDS_ENDPOINT_CLIENT, errp);
    }
}

/* A change of the seconds concerns later connections only. */
static void fabric_tcp_init(Object *obj)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);

    tcp->keepalive_s = KEEPALIVE_S;
    object_property_set_default_uint(
        object_property_add_uint32_ptr(obj, "keepalive-s", &tcp->keepalive_s,
             OBJ_PROP_FLAG_READWRITE),
        KEEPALIVE_S);
    object_property_set_description(
        obj, "keepalive-s", "seconds without an octet after which a peer is "
        "asked whether it is there; after twice as many it is lost (0: never; "
        "default: 60; at most 3600)");
}

static void fabric_tcp_finalize(Object *obj)
{
    RnicFabricTcp *tcp = RNIC_FABRIC_TCP(obj);

    rnic_map_free(tcp->map);
    g_free(tcp->map_text);
    g_free(tcp->tls_hostname);
    g_free(tcp->tls_authz);
}

static void fabric_tcp_class_init(ObjectClass *klass, RNIC_CLASS_DATA *data)
{
    UserCreatableClass *uc = USER_CREATABLE_CLASS(klass);
    RnicFabricClass *fc = RNIC_FABRIC_CLASS(klass);

    uc->complete = fabric_tcp_complete;
    fc->dial = fabric_tcp_dial;
    fc->dial_cleanup = tcp_dial_cleanup;
    fc->listen = fabric_tcp_listen;
    fc->accepted = tcp_accepted;
    fc->listener_cleanup = tcp_listener_cleanup;
    fc->close_socket = rnic_descriptors_close;
    object_class_property_add_str(klass, "map", fabric_tcp_get_map,
                                  fabric_tcp_set_map);
    object_class_property_set_description(
        klass, "map", "how guest addresses become host addresses: loopback "
        "(guest a.b.c.d is host 127.b.c.d), identity, or GUEST/length="
        "HOST/length entries separated by ';' (required)");
    object_class_property_add_link(klass, "tls-creds", TYPE_QCRYPTO_TLS_CREDS,
                                   offsetof(RnicFabricTcp, tls_creds),
                                   fabric_tcp_check_creds,
                                   OBJ_PROP_LINK_STRONG);
    object_class_property_set_description(
        klass, "tls-creds",
        "TLS credentials (endpoint=server) for connections that come in");
    object_class_property_add_link(klass, "tls-client-creds",
                                   TYPE_QCRYPTO_TLS_CREDS,
                                   offsetof(RnicFabricTcp, tls_client_creds),
                                   fabric_tcp_check_creds,
                                   OBJ_PROP_LINK_STRONG);
    object_class_property_set_description(
        klass, "tls-client-creds",
        "TLS credentials (endpoint=client) for connections that are made");
    object_class_property_add_str(klass, "tls-hostname",
                                  fabric_tcp_get_hostname,
                                  fabric_tcp_set_hostname);
    object_class_property_set_description(
        klass, "tls-hostname", "name in the certificates of those connected to "
        "(default: the host address)");
    object_class_property_add_str(klass, "tls-authz", fabric_tcp_get_authz,
                                  fabric_tcp_set_authz);
    object_class_property_set_description(
        klass, "tls-authz",
        "id of the authz object that those who connect have to pass");
}

static const TypeInfo fabric_tcp_types[] = {
    {
        .name = TYPE_RNIC_FABRIC_TCP,
        .parent = TYPE_RNIC_FABRIC,
        .instance_size = sizeof(RnicFabricTcp),
        .instance_init = fabric_tcp_init,
        .instance_finalize = fabric_tcp_finalize,
        .class_init = fabric_tcp_class_init,
        .interfaces = RNIC_INTERFACES {
            { TYPE_USER_CREATABLE },
            { }
        },
    },
};

DEFINE_TYPES(fabric_tcp_types)
