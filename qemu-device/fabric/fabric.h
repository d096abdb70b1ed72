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

typedef struct RnicFabricListener RnicFabricListener;

typedef enum RnicFabricStatus {
    RNIC_FABRIC_OK,
    RNIC_FABRIC_OUTSIDE_MAP,    /* of the addresses that the fabric has */
    RNIC_FABRIC_INVALID_ADDRESS,        /* nobody can listen there */
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
    RnicFabricDialed *dialed;
    void *opaque;
} RnicFabricDial;

/*
 * A connection has arrived.  The callee owns @t.  @local and @remote are
 * guest addresses; a host address outside the map is refused before this.
 */
typedef void RnicFabricAccept(void *opaque, RnicTransport *t,
                              const RnicAddr *local, const RnicAddr *remote);

struct RnicFabric {
    Object parent_obj;
};

struct RnicFabricClass {
    ObjectClass parent_class;

    /*
     * Start to connect from @local (ip all zero: the fabric chooses) to
     * @remote.  @dialed is called once, never from within; the attempt is gone
     * then.  NULL and *@status if it cannot begin.
     */
    RnicFabricDial *(*dial)(RnicFabric *f, const RnicAddr *local,
                            const RnicAddr *remote, RnicFabricDialed *dialed,
                            void *opaque, RnicFabricStatus *status);

    /* Give the attempt up: @dialed is not called. */
    void (*cancel)(RnicFabric *f, RnicFabricDial *dial);

    /*
     * Listen on @local (ip all zero: every address of the fabric).  NULL and
     * *@status on failure; BUSY: the same call may succeed in a moment.
     */
    RnicFabricListener *(*listen)(RnicFabric *f, const RnicAddr *local,
                                  unsigned backlog, RnicFabricAccept *accept,
                                  void *opaque, RnicFabricStatus *status);
    void (*unlisten)(RnicFabric *f, RnicFabricListener *listener);
};

/*
 * The fabric of a device that names none: the UNIX fabric in the user's own
 * directory, which reaches devices of the same user and nothing else.  It is
 * the child "default-fabric" of @parent; object_unparent() ends it.  NULL with
 * *@errp.
 */
RnicFabric *rnic_fabric_new_default(Object *parent, Error **errp);

RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote,
                                 RnicFabricDialed *dialed, void *opaque,
                                 RnicFabricStatus *status);
void rnic_fabric_cancel(RnicFabric *f, RnicFabricDial *dial);

/* For fabrics: report the end of an attempt. */
void rnic_fabric_dialed(const RnicFabricDial *dial, RnicFabricStatus status,
                        RnicTransport *t, const RnicAddr *local);

RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog,
                                       RnicFabricAccept *accept, void *opaque,
                                       RnicFabricStatus *status);
void rnic_fabric_unlisten(RnicFabric *f, RnicFabricListener *listener);

#endif /* HW_RNIC_FABRIC_H */
