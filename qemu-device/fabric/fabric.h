/*
 * rnic: the fabric, how guest addresses reach the host network
 *
 * A QOM object that carries reliable byte streams (the LLP).  It maps a guest
 * address to a host address and back, dials and listens; it knows nothing of
 * MPA or of the device.  Channels it hands out are connected, non-blocking and,
 * where the fabric encrypts, past the handshake.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_H
#define HW_RNIC_FABRIC_H

#include "qom/object.h"
#include "io/channel.h"
#include "hw/rnic/rnic-hw.h"

#define TYPE_RNIC_FABRIC "rnic-fabric"
#define TYPE_RNIC_FABRIC_TCP "rnic-fabric-tcp"
#define TYPE_RNIC_FABRIC_UNIX "rnic-fabric-unix"
OBJECT_DECLARE_TYPE(RnicFabric, RnicFabricClass, RNIC_FABRIC)

/* A guest address: IPv6 or IPv4-mapped, network order as in rnic_cm_addr. */
typedef struct RnicAddr {
    uint8_t ip[16];
    uint16_t port;              /* host order */
} RnicAddr;

typedef struct RnicFabricListener RnicFabricListener;

/*
 * How an attempt to connect has ended: RNIC_CM_OK, with a channel that is the
 * callee's and the guest address of the local end; or why not, and NULLs.
 */
typedef void RnicFabricDialed(void *opaque, enum rnic_cm_status status,
                              QIOChannel *ioc, const RnicAddr *local);

/* An attempt to connect; each fabric has more behind it. */
typedef struct RnicFabricDial {
    RnicFabricDialed *dialed;
    void *opaque;
} RnicFabricDial;

/*
 * A connection has arrived.  The callee owns @ioc.  @local and @remote are
 * guest addresses; a host address outside the map is refused before this.
 */
typedef void RnicFabricAccept(void *opaque, QIOChannel *ioc,
                              const RnicAddr *local, const RnicAddr *remote);

struct RnicFabric {
    Object parent_obj;
};

struct RnicFabricClass {
    ObjectClass parent_class;

    /*
     * Start to connect from @local (ip all zero: the fabric chooses) to
     * @remote.  @dialed is called once, from the main loop, never from
     * within; the attempt is gone then.  NULL and *@status (OUTSIDE_MAP,
     * ADDRESS_IN_USE, UNREACHABLE, REFUSED, LOCAL_ERROR) if it cannot begin.
     */
    RnicFabricDial *(*dial)(RnicFabric *f, const RnicAddr *local,
                            const RnicAddr *remote, RnicFabricDialed *dialed,
                            void *opaque, enum rnic_cm_status *status);

    /* Give the attempt up: @dialed is not called. */
    void (*cancel)(RnicFabric *f, RnicFabricDial *dial);

    /*
     * Listen on @local (ip all zero: every address of the fabric).  NULL and
     * *@status (an admin status: INVALID_ADDRESS, ADDRESS_IN_USE,
     * FABRIC_ERROR) on failure.  @accept is called from the main loop.
     */
    RnicFabricListener *(*listen)(RnicFabric *f, const RnicAddr *local,
                                  unsigned backlog, RnicFabricAccept *accept,
                                  void *opaque,
                                  enum rnic_admin_status *status);
    void (*unlisten)(RnicFabric *f, RnicFabricListener *listener);
};

/*
 * The fabric of a device that names none, a reference for the caller: the UNIX
 * fabric in the user's own directory, which reaches devices of the same user and
 * nothing else.  NULL with *@errp.
 */
RnicFabric *rnic_fabric_new_default(Error **errp);

RnicFabricDial *rnic_fabric_dial(RnicFabric *f, const RnicAddr *local,
                                 const RnicAddr *remote,
                                 RnicFabricDialed *dialed, void *opaque,
                                 enum rnic_cm_status *status);
void rnic_fabric_cancel(RnicFabric *f, RnicFabricDial *dial);

/* For fabrics: report the end of an attempt. */
void rnic_fabric_dialed(const RnicFabricDial *dial,
                        enum rnic_cm_status status, QIOChannel *ioc,
                        const RnicAddr *local);

RnicFabricListener *rnic_fabric_listen(RnicFabric *f, const RnicAddr *local,
                                       unsigned backlog,
                                       RnicFabricAccept *accept, void *opaque,
                                       enum rnic_admin_status *status);
void rnic_fabric_unlisten(RnicFabric *f, RnicFabricListener *listener);

/*
 * Close @ioc so that the peer sees a reset (abortive LLP close, V6.2.2.4-1)
 * and drop the reference.  In the thread that watches @ioc; all else here is
 * for the main loop.
 */
void rnic_fabric_abort(QIOChannel *ioc);

#endif /* HW_RNIC_FABRIC_H */
