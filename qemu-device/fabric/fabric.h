/*
 * rnic: the fabric, how guest addresses reach the host network
 *
 * A QOM object that carries reliable byte streams (the LLP).  It maps a guest
 * address to a host address and back, dials and listens; it knows nothing of
 * MPA or of the device.  Transports it hands out are connected and, where the
 * fabric encrypts, past the handshake.
 *
 * All of it is the main loop's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_H
#define HW_RNIC_FABRIC_H

#include "qom/object.h"
#include "transport.h"

#define TYPE_RNIC_FABRIC "rnic-fabric"
#define TYPE_RNIC_FABRIC_TCP "rnic-fabric-tcp"
#define TYPE_RNIC_FABRIC_UNIX "rnic-fabric-unix"
OBJECT_DECLARE_TYPE(RnicFabric, RnicFabricClass, RNIC_FABRIC)

/* A guest address: IPv6 or IPv4-mapped, network order. */
typedef struct RnicAddr {
    uint8_t ip[16];
    uint16_t port;              /* host order */
} RnicAddr;

typedef enum RnicFabricStatus {
    RNIC_FABRIC_OK,
    RNIC_FABRIC_OUTSIDE_MAP,    /* of the addresses that the fabric has */
    RNIC_FABRIC_INVALID_ADDRESS,        /* no socket can listen there */
    RNIC_FABRIC_ADDRESS_IN_USE,
    RNIC_FABRIC_UNREACHABLE,
    RNIC_FABRIC_REFUSED,
    RNIC_FABRIC_TIMED_OUT,
    RNIC_FABRIC_RESET,
    RNIC_FABRIC_TLS,            /* the handshake failed */
    RNIC_FABRIC_BUSY,           /* for a moment: try again */
    RNIC_FABRIC_NO_DESCRIPTORS, /* see descriptors.h */
    RNIC_FABRIC_ERROR,          /* of the host */
} RnicFabricStatus;

/*
 * How an attempt to connect has ended: RNIC_FABRIC_OK, with a transport that is
 * the callee's and the guest address of the local end; or why not, and NULLs.
 */
typedef void RnicFabricDialed(void *opaque, RnicFabricStatus status,
                              RnicTransport *t, const RnicAddr *local);

/* An attempt to connect; each fabric has more behind it. */
typedef struct RnicFabricDial {
    RnicFabric *fabric;
    int fd;                     /* the socket; -1: it is a transport's */
    RnicAddr local;             /* guest address, once it is connected */
    RnicFabricDialed *dialed;
    void *opaque;
} RnicFabricDial;

/*
 * A connection has arrived.  The callee owns @t.  @local and @remote are
 * guest addresses; a host address outside the map is refused before this.
 */
typedef void RnicFabricAccept(void *opaque, RnicTransport *t,
                              const RnicAddr *local, const RnicAddr *remote);

/* A socket that listens; each fabric has more behind it. */
typedef struct RnicFabricListener {
    RnicFabric *fabric;
    int fd;                     /* -1: no longer */
    unsigned refs;              /* it may go while connections are accepted */
    RnicAddr local;
    RnicFabricAccept *accept;
    void *opaque;
    QEMUTimer *resume;          /* the host was out of something */
} RnicFabricListener;

struct RnicFabric {
    Object parent_obj;
};

/* What rnic_fabric_dial() and the others below leave to each fabric. */
struct RnicFabricClass {
    ObjectClass parent_class;

    /* Of g_new0(), with the socket; or NULL and *@status. */
    RnicFabricDial *(*dial)(RnicFabric *f, const RnicAddr *local,
                            const RnicAddr *remote, uint8_t tos,
                            RnicFabricStatus *status);
    /* Free all but the structure and the socket. */
    void (*dial_cleanup)(RnicFabricDial *dial);

    /* Of g_new0(), with the non-blocking socket; or NULL and *@status. */
    RnicFabricListener *(*listen)(RnicFabric *f, const RnicAddr *local,
                                  unsigned backlog, uint8_t tos,
                                  RnicFabricStatus *status);
    /* Takes @fd, a connection, and calls rnic_fabric_deliver() if it is good. */
    void (*accepted)(RnicFabricListener *listener, int fd);
    /* Free all but the structure and the socket. */
    void (*listener_cleanup)(RnicFabricListener *listener);

    /* Close a socket, one of rnic_descriptors_take().  errno stays. */
    void (*close_socket)(int fd);
};

/*
 * The fabric of a device that names none: the UNIX fabric in the user's own
 * directory, which reaches devices of the same user and nothing else.  It is
 * the child "default-fabric" of @parent; object_unparent() ends it.  NULL with
 * *@errp.
 */
RnicFabric *rnic_fabric_new_default(Object *parent, Error **errp);

/*
 * Start to connect from @local (ip all zero: the fabric chooses) to @remote.
 * @tos is the type of service or traffic class of its packets, where the fabric
 * has packets.  @dialed is called once, never from within; the attempt is gone
 * then.  NULL and *@status if it cannot begin.
 */
RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote, uint8_t tos,
                                 RnicFabricDialed *dialed, void *opaque,
                                 RnicFabricStatus *status);
/* Give the attempt up: @dialed is not called. */
void rnic_fabric_cancel(RnicFabric *f, RnicFabricDial *dial);

/*
 * Listen on @local (ip all zero: every address of the fabric); @tos as above.
 * NULL and *@status on failure; BUSY: the same call may succeed in a moment.
 */
RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog, uint8_t tos,
                                       RnicFabricAccept *accept, void *opaque,
                                       RnicFabricStatus *status);
void rnic_fabric_unlisten(RnicFabric *f, RnicFabricListener *listener);

/* --------------------------------------------------------- for fabrics */

/*
 * A non-blocking stream socket, one of rnic_descriptors_take(), or -1 with
 * errno.
 */
int rnic_fabric_socket(int family);

/* What errno of socket(), bind(), connect() or listen() means. */
RnicFabricStatus rnic_fabric_status(int error);

/* Report the end of an attempt, which is gone then.  @t: see RnicFabricDialed. */
void rnic_fabric_dialed(RnicFabricDial *dial, RnicFabricStatus status,
                        RnicTransport *t);

/* A connection has arrived; @t is the listener's user's. */
void rnic_fabric_deliver(RnicFabricListener *listener, RnicTransport *t,
                         const RnicAddr *local, const RnicAddr *remote);

#endif /* HW_RNIC_FABRIC_H */
