/*
 * rnic: a transport that returns what is written to it
 *
 * For a QP whose peer is itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_LOOP_TRANSPORT_H
#define HW_RNIC_FABRIC_LOOP_TRANSPORT_H

#include "transport.h"

/* NULL: there are no descriptors for it. */
RnicTransport *rnic_loop_transport_new(void);

#endif /* HW_RNIC_FABRIC_LOOP_TRANSPORT_H */
