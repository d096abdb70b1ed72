/*
 * rnic: where devices that connect QPs directly find each other
 *
 * One listener at RNIC_DIRECT_PORT of each local address, shared by the QPs that
 * were given the address.  Main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_RENDEZVOUS_H
#define HW_RNIC_RENDEZVOUS_H

#include "endpoint.h"

typedef struct RnicRendezvous RnicRendezvous;
typedef QLIST_HEAD(RnicRendezvousList, RnicRendezvous) RnicRendezvousList;

/*
 * That of address @local (its port is not looked at) in @list, one user more;
 * made if it is not there.  Connections become endpoints with @ops.  NULL with
 * *@status: nobody can listen there.
 */
RnicRendezvous *rnic_rendezvous_get(RnicState *s, RnicRendezvousList *list,
                                    const RnicAddr *local,
                                    const RnicEndpointOps *ops,
                                    RnicFabricStatus *status);
/* One user less; the last one takes it away, with its endpoints. */
void rnic_rendezvous_put(RnicRendezvous *r);

/* False: the fabric has been busy, and it does not listen yet. */
bool rnic_rendezvous_listens(const RnicRendezvous *r);

/* For rnic_endpoint_free(): @ep is one of its endpoints no more. */
void rnic_rendezvous_release(RnicEndpoint *ep);

#endif /* HW_RNIC_RENDEZVOUS_H */
