/*
 * rnic: accepting connections from a listening socket
 *
 * What fabrics made of sockets share: a bounded number of connections per turn
 * of the main loop, and a pause when the host has run out of something.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_ACCEPT_H
#define HW_RNIC_FABRIC_ACCEPT_H

typedef struct RnicAcceptor RnicAcceptor;

/*
 * A connection has arrived.  @fd is the callee's, non-blocking, one of
 * rnic_descriptors_take().  It may free the acceptor.
 */
typedef void RnicAcceptorFunc(void *opaque, int fd);

/* Takes @fd, a listening non-blocking socket, one of rnic_descriptors_take(). */
RnicAcceptor *rnic_acceptor_new(int fd, RnicAcceptorFunc *accepted,
                                void *opaque);
/* Closes the socket. */
void rnic_acceptor_free(RnicAcceptor *a);

#endif /* HW_RNIC_FABRIC_ACCEPT_H */
