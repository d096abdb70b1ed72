/*
 * rnic: the shared ring, octets of one direction in memory that both ends have
 *
 * A UNIX socket copies every octet through pages that it takes and gives back.
 * A ring is the same few pages all the time: they stay in the processor's
 * cache, and neither end enters the kernel while both ends have work.
 *
 * The sender makes the memory (a memfd, sealed so that it can neither shrink nor
 * grow: no end can make the other fault, or free much) and a pair of sockets, the
 * bell.  Who finds the ring full or empty says so in it, and waits for an octet at
 * the bell.
 *
 * The peer may write anything into the ring at any time.  Each end keeps its
 * own position to itself, takes the other's for nothing but a distance that
 * cannot exceed the ring's size, and copies octets out once; payload, of which
 * nothing but its CRC depends, it may read in place.
 *
 * A ring is one thread's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_SHARED_RING_H
#define HW_RNIC_SHARED_RING_H

enum {
    /*
     * As this end makes them.  With a large message, where it comes from or goes
     * to, it is to fit into a processor's own cache.
     */
    RNIC_SHARED_RING_SIZE = 512 * 1024,
    /* As it takes them: powers of two up to RNIC_SHARED_RING_SIZE. */
    RNIC_SHARED_RING_MIN = 256 * 1024,
};

/* What both see: a page, and the octets behind it.  The host's byte order. */
typedef struct RnicSharedRingPage {
    uint32_t head;              /* octets written, modulo 2^32 */
    uint32_t sender_waits;      /* its waits for room, counted */
    uint32_t reserved1[30];
    uint32_t tail;              /* octets read, modulo 2^32 */
    uint32_t receiver_waits;    /* its waits for octets; begins as 1 */
    uint32_t reserved2[30];
} RnicSharedRingPage;

typedef struct RnicSharedRing RnicSharedRing;

/*
 * The sender's end.  *@memory and *@bell, descriptors for the receiver, are the
 * caller's.  NULL with errno.
 */
RnicSharedRing *rnic_shared_ring_create(int *memory, int *bell);

/*
 * The receiver's end.  Takes both descriptors, of a peer that is not trusted,
 * though the caller has seen that they have seals and are a UNIX socket.  NULL
 * with errno: EPROTO if this is not memory as rnic_shared_ring_create() makes
 * it.
 */
RnicSharedRing *rnic_shared_ring_open(int memory, int bell);

/* The bell is closed, one of rnic_descriptors_take(). */
void rnic_shared_ring_free(RnicSharedRing *ring);

/*
 * Readable once there is something to do again: much room after
 * rnic_shared_ring_write() took less than all, octets after
 * rnic_shared_ring_read() found none.  It may also be readable for nothing.
 */
int rnic_shared_ring_bell(const RnicSharedRing *ring);

/*
 * To be called when the bell is readable: it no longer is.  False: no end will
 * ring it any more, it would stay readable for ever.
 */
bool rnic_shared_ring_rung(RnicSharedRing *ring);
/* That has been false. */
bool rnic_shared_ring_silent(const RnicSharedRing *ring);

/*
 * The receiver: the last rnic_shared_ring_read() found nothing, and the bell
 * has not been rung since.  Otherwise it may not ring, whatever comes.
 */
bool rnic_shared_ring_waits(const RnicSharedRing *ring);

/*
 * Octets taken of @iov, 0 if there is no room; -1 with errno: EPIPE (the other
 * end is closed), EPROTO (the peer has broken the ring).  A receiver that polls
 * finds them at once.  A receiver that waits is woken by rnic_shared_ring_tell(),
 * or here after a quarter of the ring: to wake it for each small piece would
 * interrupt the sender as often.
 */
ssize_t rnic_shared_ring_write(RnicSharedRing *ring, const struct iovec *iov,
                               size_t count);
void rnic_shared_ring_tell(RnicSharedRing *ring);

/*
 * The sender: where its next @len octets go, for the caller to put them there;
 * NULL if they do not fit.  Then that they are there, for the receiver as with
 * rnic_shared_ring_write(), but it is never told.
 */
void *rnic_shared_ring_place(RnicSharedRing *ring, size_t len);
void rnic_shared_ring_commit(RnicSharedRing *ring, size_t len);

/* Octets put into @iov, 0 if there are none; -1 with errno: EPROTO. */
ssize_t rnic_shared_ring_read(RnicSharedRing *ring, const struct iovec *iov,
                              size_t count);

#endif /* HW_RNIC_SHARED_RING_H */
