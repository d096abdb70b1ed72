/*
 * iWARP engine: Terminate header codec
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "bytes.h"
#include "ddp.h"
#include "terminate.h"

/* Does an error of this term code show the DDP header (RFC 5040 figure 10)? */
static bool term_echoes_ddp(IwarpTermCode term)
{
    switch (iwarp_term_layer(term)) {
    case IWARP_LAYER_RDMAP:
        return iwarp_term_etype(term) != 0;
    case IWARP_LAYER_DDP:
        return true;
    default:
        return false;
    }
}

/*
 * The Read Request header too?  Figure 10 says for remote protection errors
 * only, section 7.1 case 3 requires it for every error of RDMAP's on a Read
 * Request.  The requirement wins over the figure's SHOULD.
 */
static bool term_echoes_read(IwarpTermCode term)
{
    return term_echoes_ddp(term) &&
           iwarp_term_layer(term) == IWARP_LAYER_RDMAP;
}

size_t iwarp_terminate_encode(const IwarpError *error, uint8_t *out)
{
    const IwarpEcho *echo = &error->echo;
    size_t len = IWARP_TERMINATE_MIN;

    memset(out, 0, IWARP_TERMINATE_MIN);
    iwarp_put16(out, error->term);
    if (!term_echoes_ddp(error->term) ||
        (echo->ddp_len != IWARP_DDP_TAGGED_LEN &&
         echo->ddp_len != IWARP_DDP_UNTAGGED_LEN)) {
        return len;
    }
    out[2] |= IWARP_TERM_M | IWARP_TERM_D;
    iwarp_put16(out + len, echo->segment_len);
    len += 2;
    memcpy(out + len, echo->ddp, echo->ddp_len);
    len += echo->ddp_len;

    if (term_echoes_read(error->term) && echo->rdma_len == IWARP_ECHO_RDMA) {
        out[2] |= IWARP_TERM_R;
        memcpy(out + len, echo->rdma, IWARP_ECHO_RDMA);
        len += IWARP_ECHO_RDMA;
    }
    return len;
}

/* The term code with layer and error type exchanged, as siw writes it. */
static IwarpTermCode term_swapped(IwarpTermCode term)
{
    return IWARP_TERM(iwarp_term_etype(term), iwarp_term_layer(term), term);
}

/*
 * Is the header in siw's layout?  Its flags are the low three bits of octet 2
 * with all else zero.  Without any flag the reading that is registered wins,
 * and the RFC's if both are.
 */
static bool term_is_siw(const uint8_t *in)
{
    IwarpTermCode term = iwarp_get16(in);

    if (in[2] & 7) {
        return (in[2] & ~7) == 0 && in[3] == 0;
    }
    return in[2] == 0 && in[3] == 0 && !iwarp_term_name(term) &&
           iwarp_term_name(term_swapped(term));
}

/* The flags of octet 2 in the RFC's places. */
static uint8_t term_flags(uint8_t octet, bool siw)
{
    if (!siw) {
        return octet & (IWARP_TERM_M | IWARP_TERM_D | IWARP_TERM_R);
    }
    return (uint8_t)((octet & 1 ? IWARP_TERM_M : 0) |
                     (octet & 2 ? IWARP_TERM_D : 0) |
                     (octet & 4 ? IWARP_TERM_R : 0));
}

/* Is the echoed DDP header that of a Read Request? */
static bool echoes_read_request(const IwarpTerminate *t)
{
    return t->ddp_len == IWARP_DDP_UNTAGGED_LEN &&
           iwarp_rdmap_opcode(t->ddp[1]) == IWARP_OP_READ_REQUEST;
}

bool iwarp_terminate_decode(IwarpTerminate *t, const uint8_t *in, size_t len)
{
    const uint8_t *end;
    uint8_t flags;

    memset(t, 0, sizeof(*t));
    if (len < IWARP_TERMINATE_MIN) {
        return false;
    }
    end = in + len;
    t->siw_layout = term_is_siw(in);
    t->term = iwarp_get16(in);
    if (t->siw_layout) {
        t->term = term_swapped(t->term);
    }
    flags = term_flags(in[2], t->siw_layout);
    in += IWARP_TERMINATE_MIN;

    if (!(flags & (IWARP_TERM_M | IWARP_TERM_D)) || end - in < 2) {
        return true;
    }
    t->has_length = true;
    t->segment_len = iwarp_get16(in);
    in += 2;

    if (!(flags & IWARP_TERM_D) || end == in ||
        (size_t)(end - in) < iwarp_ddp_header_len(in[0])) {
        return true;
    }
    t->has_ddp = true;
    t->ddp_len = (uint8_t)iwarp_ddp_header_len(in[0]);
    memcpy(t->ddp, in, t->ddp_len);
    in += t->ddp_len;

    if ((flags & IWARP_TERM_R) && end - in >= IWARP_READ_REQUEST_LEN &&
        echoes_read_request(t)) {
        t->has_read = true;
        iwarp_read_request_decode(&t->read, in);
    }
    return true;
}
