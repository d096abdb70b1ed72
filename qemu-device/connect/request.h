/*
 * rnic: the numbers by which the guest knows connection requests
 *
 * The caller is the main loop, with the big lock, as everywhere in connect/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CONNECT_REQUEST_H
#define HW_RNIC_CONNECT_REQUEST_H

#include "hw/rnic/base/rnic.h"

typedef struct RnicEndpoint RnicEndpoint;

/* None yet; and none any more. */
void rnic_requests_init(RnicState *s);
void rnic_requests_cleanup(RnicState *s);

/* A number for @ep, 1 to RNIC_OBJECT_NUMBER_MASK, until it is removed. */
uint32_t rnic_request_add(RnicState *s, RnicEndpoint *ep);
/* NULL: no request has this number. */
RnicEndpoint *rnic_request_get(const RnicState *s, uint32_t number);
void rnic_request_remove(RnicState *s, uint32_t number);

#endif /* HW_RNIC_CONNECT_REQUEST_H */
