/*
 * rnic: the channel of a UNIX stream
 *
 * A socket; and, for what a busy stream sends to an end that is an rnic, too, a
 * ring in shared memory.  How the two agree on that does not change an octet of
 * the stream, and any other end sees a plain socket:
 *
 *   - The first octets each end sends come with one descriptor: it can receive
 *     by a ring.  Who does not expect a descriptor does not notice.
 *   - An end that knows this of the other, and has sent much, makes a ring and
 *     sends the next octet by the socket, with two descriptors: memory, bell.
 *     All octets behind that one come by the ring.  The end of the direction
 *     (FIN) still is that of the socket.
 *
 * While the channel is corked (qio_channel_set_cork()) a peer that waits for octets
 * of the ring need not be told of each.
 *
 * There is no reset on such a socket.  A peer that ends both directions at
 * once, before this end has closed its own, has reset the connection.
 *
 * A channel belongs to one thread at a time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_UNIX_CHANNEL_H
#define HW_RNIC_FABRIC_UNIX_CHANNEL_H

#include "io/channel.h"

#define TYPE_RNIC_UNIX_CHANNEL "rnic-unix-channel"
OBJECT_DECLARE_SIMPLE_TYPE(RnicUnixChannel, RNIC_UNIX_CHANNEL)

/* Takes @fd, a stream socket, connected or not.  @rings: see above. */
RnicUnixChannel *rnic_unix_channel_new(int fd, bool rings);

int rnic_unix_channel_fd(const RnicUnixChannel *c);

/*
 * Octets that can be written now, as far as that is known: SIZE_MAX.  And, where
 * it is known, have the channel become writable once there is room for many; false:
 * there is by now.
 */
size_t rnic_unix_channel_room(const RnicUnixChannel *c);
bool rnic_unix_channel_await_room(RnicUnixChannel *c);

/*
 * Where the stream's next @len octets go, for the caller to put them there
 * without another copy; NULL: only by writing.  Then that they are there.  A peer
 * that waits is told when the channel is uncorked, or written to next without
 * being corked.
 */
void *rnic_unix_channel_place(const RnicUnixChannel *c, size_t len);
void rnic_unix_channel_commit(RnicUnixChannel *c, size_t len);

/*
 * The stream's next octets, *@n of them, for the caller to use them where they
 * are; 0: only by reading, for now or, with NULL, as there is no ring.  The peer
 * can still change them.  Then that @n of those are done with.
 */
const void *rnic_unix_channel_peek(const RnicUnixChannel *c, size_t *n);
void rnic_unix_channel_consume(RnicUnixChannel *c, size_t n);

/* Call @fn when the channel is gone. */
void rnic_unix_channel_at_end(RnicUnixChannel *c, GDestroyNotify fn,
                              void *opaque);

#endif /* HW_RNIC_FABRIC_UNIX_CHANNEL_H */
