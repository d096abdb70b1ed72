/*
 * rnic: the stage, octets of a stream that wait for its socket
 *
 * A buffer that small frames, frames with a CRC and the rest of a frame that
 * the socket took in part are copied to.  It always ends at an FPDU boundary.
 *
 * A stage may lend: the socket then takes its pages instead of copying them
 * once more (vmsplice(2), splice(2)), and holds them until the peer has read
 * them.  What it may hold is not written to: the socket is asked how much that
 * is (SIOCOUTQ).  That is known of UNIX sockets only; over TCP, pages are held
 * until they are acknowledged, and by what the host does with the packets.
 *
 * A peer may keep the pages it was lent (splice(2), tee(2)) and see what is
 * staged there later.  So a stage belongs to one stream for life: that is
 * nothing but octets for the same peer.
 *
 * All of it is the stream's thread's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_STAGE_H
#define HW_RNIC_STAGE_H

#include "iwarp/mpa-fpdu.h"

enum {
    /* Small frames are staged up to this; the rest is kept free for the
     * unsent part of one large frame and a Terminate. */
    RNIC_STAGE_SMALL = 128 * 1024,
    RNIC_STAGE_SIZE = RNIC_STAGE_SMALL + 2 * IWARP_FPDU_WIRE_MAX,
};

typedef struct RnicStage {
    uint8_t *octets;            /* made when needed */
    size_t size;
    size_t head;                /* [head, tail) waits */
    size_t tail;
    int fd;                     /* to lend to; -1: do not */
    size_t lent;                /* up to so many before head may be held ... */
    size_t end;                 /* ... those beyond 0 before this */
} RnicStage;

/* @fd: a connected UNIX socket to lend to, or -1. */
void rnic_stage_init(RnicStage *stage, int fd);
/* What is lent stays with the socket. */
void rnic_stage_cleanup(RnicStage *stage);

static inline size_t rnic_stage_waiting(const RnicStage *stage)
{
    return stage->tail - stage->head;
}

/*
 * Place for @len octets more, which wait from now on.  The caller has seen to
 * it that no more than RNIC_STAGE_SIZE wait, and that the stage is not full.
 */
uint8_t *rnic_stage_append(RnicStage *stage, size_t len);

/* Nothing may be appended before the peer has read more. */
bool rnic_stage_full(const RnicStage *stage);

/*
 * Give what waits to the socket.  Octets taken, -1 and errno (EAGAIN: it has no
 * room), or -1 and ENOTSUP: this is to be sent otherwise.
 */
ssize_t rnic_stage_lend(const RnicStage *stage);

/* The socket has taken @len of what waits, in this way or another. */
void rnic_stage_taken(RnicStage *stage, size_t len);

#endif /* HW_RNIC_STAGE_H */
