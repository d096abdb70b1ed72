/*
 * rnic: a host's TCP socket as a transport
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_SOCKET_TRANSPORT_H
#define HW_RNIC_FABRIC_SOCKET_TRANSPORT_H

#include "transport.h"

/* Takes @fd, a connected non-blocking TCP socket, which it owns. */
RnicTransport *rnic_socket_transport_new(int fd);

#endif /* HW_RNIC_FABRIC_SOCKET_TRANSPORT_H */
