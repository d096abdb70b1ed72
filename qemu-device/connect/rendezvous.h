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
 * That of address @local in @list, with one user more, for a peer at @remote (ports
 * are not looked at); made if it is not there.  Connections become endpoints with
 * @ops.  NULL with *@status: the fabric cannot listen there.
 */
RnicRendezvous *rnic_rendezvous_get(RnicState *s, RnicRendezvousList *list,
                                    const RnicAddr *local,
                                    const RnicAddr *remote,
                                    const RnicEndpointOps *ops,
                                    RnicFabricStatus *status);
/* One user for a peer at @remote less; the last one takes it away, with its
 * endpoints. */
void rnic_rendezvous_put(RnicRendezvous *r, const RnicAddr *remote);

/* False: the fabric has been busy, and it does not listen yet. */
bool rnic_rendezvous_listens(const RnicRendezvous *r);

/* For rnic_endpoint_free(): @ep is one of its endpoints no more. */
void rnic_rendezvous_release(RnicEndpoint *ep);

#endif /* HW_RNIC_RENDEZVOUS_H */
