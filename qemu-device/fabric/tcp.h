/*
 * rnic: what a stream of the TCP fabric can do besides a channel
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TCP_H
#define HW_RNIC_FABRIC_TCP_H

#include "io/channel.h"

/*
 * All of these: @ioc is of the TCP fabric, without TLS, and connected.  In the
 * thread that watches it.
 */

/* Both ends are on this host, and what is sent goes through no adapter. */
bool rnic_fabric_tcp_is_loopback(QIOChannel *ioc);

/*
 * The host's processor that what was last received came from, or -1: not known.
 * For loopback only: elsewhere it is that of the adapter's interrupt.
 */
int rnic_fabric_tcp_sender_processor(QIOChannel *ioc);

#endif /* HW_RNIC_FABRIC_TCP_H */
