/*
 * rnic: what a stream of the TCP fabric can do besides a channel
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TCP_H
#define HW_RNIC_FABRIC_TCP_H

#include "io/channel.h"

/*
 * Have not much more than @octets wait in @ioc's socket to be read; 0: as many
 * as the host likes, as at the beginning.  Only between two sockets of one
 * host: elsewhere it is the path that says how many have to be under way, and
 * this does nothing.  @ioc is of the TCP fabric, without TLS.  In the thread
 * that watches it.
 */
void rnic_fabric_tcp_set_backlog(QIOChannel *ioc, size_t octets);

#endif /* HW_RNIC_FABRIC_TCP_H */
