/*
 * rnic: the transport of a UNIX stream
 *
 * A socket; and, for what a busy stream sends to an end that is an rnic, too, a
 * ring in shared memory.  How the two agree on that does not change an octet of
 * the stream, and any other end sees a plain socket:
 *
 *   - The first octets each end sends come with one descriptor: it can receive
 *     by a ring.  A receiver that expects none discards the descriptor.
 *   - An end that knows this of the other, and has sent much, makes a ring and
 *     sends the next octet by the socket, with two descriptors: memory, bell.
 *     All octets behind that one come by the ring.  The end of the direction
 *     (FIN) still is that of the socket.
 *
 * While the transport is corked a peer that waits for octets of the ring need
 * not be told of each.
 *
 * There is no reset on such a socket.  A peer that ends both directions at
 * once, before this end has closed its own, has reset the connection.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_UNIX_TRANSPORT_H
#define HW_RNIC_FABRIC_UNIX_TRANSPORT_H

#include "transport.h"

/*
 * Takes @fd, a connected non-blocking stream socket.  @rings: see above.
 * @at_end, unless NULL, is called with @opaque when the transport is gone, in the
 * thread that has it then.
 */
RnicTransport *rnic_unix_transport_new(int fd, bool rings,
                                       GDestroyNotify at_end, void *opaque);

#endif /* HW_RNIC_FABRIC_UNIX_TRANSPORT_H */
