/*
 * iWARP engine: DDP header codec
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "bytes.h"
#include "ddp.h"

size_t iwarp_ddp_decode(IwarpDdpHeader *h, const uint8_t *in, size_t len)
{
    memset(h, 0, sizeof(*h));
    if (len == 0 || len < iwarp_ddp_header_len(in[0])) {
        return 0;
    }
    h->tagged = in[0] & IWARP_DDP_T;
    h->last = in[0] & IWARP_DDP_L;
    h->version = in[0] & IWARP_DDP_VERSION_MASK;
    h->control = in[1];
    if (h->tagged) {
        h->stag = iwarp_get32(in + 2);
        h->to = iwarp_get64(in + 6);
    } else {
        h->rsvd_ulp = iwarp_get32(in + 2);
        h->qn = iwarp_get32(in + 6);
        h->msn = iwarp_get32(in + 10);
        h->mo = iwarp_get32(in + 14);
    }
    return iwarp_ddp_header_len(in[0]);
}

size_t iwarp_ddp_encode(const IwarpDdpHeader *h, uint8_t *out)
{
    out[0] = (uint8_t)((h->tagged ? IWARP_DDP_T : 0) |
                       (h->last ? IWARP_DDP_L : 0) |
                       (h->version & IWARP_DDP_VERSION_MASK));
    out[1] = h->control;
    if (h->tagged) {
        iwarp_put32(out + 2, h->stag);
        iwarp_put64(out + 6, h->to);
    } else {
        iwarp_put32(out + 2, h->rsvd_ulp);
        iwarp_put32(out + 6, h->qn);
        iwarp_put32(out + 10, h->msn);
        iwarp_put32(out + 14, h->mo);
    }
    return iwarp_ddp_header_len(out[0]);
}
