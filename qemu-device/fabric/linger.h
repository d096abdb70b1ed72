/*
 * rnic: closing transports in order
 *
 * close(2) of a socket with unread input makes the host send a reset, and what
 * the socket had taken to send dies with it.  A lingering transport sends what
 * its user had left over, ends its direction, and discards what still arrives,
 * until the peer ends its own or the time is up; then it is closed.
 *
 * A list belongs to one event loop's thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_LINGER_H
#define HW_RNIC_FABRIC_LINGER_H

#include "transport.h"

enum {
    RNIC_LINGER_MS = 10 * 1000, /* of the host's time */
    /* Transports of one list; one more closes one that has sent all, or the
     * oldest. */
    RNIC_LINGER_MAX = 256,
};

typedef struct RnicLingers RnicLingers;

/* Any thread. */
RnicLingers *rnic_lingers_new(AioContext *ctx);
/* Any thread, with nothing in the list. */
void rnic_lingers_free(RnicLingers *lingers);

/*
 * Takes @t, which may have handlers in this list's event loop, and @octets (of
 * g_malloc(), or NULL), of which those from @from to @to are to be sent.  Its
 * thread.
 */
void rnic_linger(RnicLingers *lingers, RnicTransport *t, uint8_t *octets,
                 size_t from, size_t to);

/* Close all that is in the list now.  Its thread. */
void rnic_lingers_end(RnicLingers *lingers);

#endif /* HW_RNIC_FABRIC_LINGER_H */
