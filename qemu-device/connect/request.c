/*
 * rnic: the numbers by which the guest knows connection requests
 *
 * The guest may hear late that a request is gone, and answers it meanwhile: then the
 * number must not be that of another request, which may be for another program.  So
 * the numbers go round: one comes again after all the others.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "request.h"

void rnic_requests_init(RnicState *s)
{
    s->requests = g_hash_table_new(NULL, NULL);
}

void rnic_requests_cleanup(RnicState *s)
{
    assert(!g_hash_table_size(s->requests));
    g_hash_table_unref(s->requests);
}

/* There are far fewer endpoints than numbers: properties limit them. */
uint32_t rnic_request_add(RnicState *s, RnicEndpoint *ep)
{
    do {
        s->last_request = s->last_request % RNIC_OBJECT_NUMBER_MASK + 1;
    } while (rnic_request_get(s, s->last_request));
    g_hash_table_insert(s->requests, GUINT_TO_POINTER(s->last_request), ep);
    return s->last_request;
}

RnicEndpoint *rnic_request_get(const RnicState *s, uint32_t number)
{
    return g_hash_table_lookup(s->requests, GUINT_TO_POINTER(number));
}

void rnic_request_remove(RnicState *s, uint32_t number)
{
    g_hash_table_remove(s->requests, GUINT_TO_POINTER(number));
}
