/*
 * rnic: where FPDUs begin in one direction of a stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/iov.h"
#include "fpdus.h"
#include "hw/rnic/iwarp/mpa-fpdu.h"

enum {
    KEY_LEN = 9,                /* of "MPA ID Req Frame" and "MPA ID Rep Frame" */
    AT_PD_LENGTH = 18,
};

void rnic_fpdus_place(RnicFpdus *f, uint16_t pos)
{
    f->phase = RNIC_FPDUS_FPDUS;
    f->pos = pos % IWARP_MARKER_SPACING;
    f->done = 0;
    f->length = 0;
}

/* Before the length field. */
static size_t fpdus_lead(const RnicFpdus *f)
{
    return f->markers && f->pos == 0 ? IWARP_MARKER_LEN : 0;
}

static size_t fpdus_head_len(const RnicFpdus *f)
{
    return f->phase == RNIC_FPDUS_START_UP
           ? RNIC_FPDUS_START_UP_HEAD : fpdus_lead(f) + IWARP_FPDU_LENGTH_LEN;
}

static uint32_t fpdus_fpdu_length(const RnicFpdus *f)
{
    size_t content = iwarp_fpdu_content(lduw_be_p(f->head + fpdus_lead(f)));

    return f->markers ? content + IWARP_MARKER_LEN *
                                  iwarp_marker_count(f->pos, content)
                      : content;
}

/* The head is complete. */
static void fpdus_know_length(RnicFpdus *f)
{
    if (f->phase == RNIC_FPDUS_FPDUS) {
        f->length = fpdus_fpdu_length(f);
    } else if (memcmp(f->head, "MPA ID Re", KEY_LEN) == 0) {
        f->length = RNIC_FPDUS_START_UP_HEAD + lduw_be_p(f->head + AT_PD_LENGTH);
    } else {
        f->phase = RNIC_FPDUS_OPAQUE;
    }
}

/* Octets taken to the head. */
static size_t fpdus_take_head(RnicFpdus *f, const struct iovec *iov,
                              size_t count, size_t at, size_t len)
{
    size_t need = fpdus_head_len(f);
    size_t n = MIN(len, need - f->done);

    iov_to_buf(iov, count, at, f->head + f->done, n);
    f->done += n;
    if (f->done == need) {
        fpdus_know_length(f);
    }
    return n;
}

static void fpdus_next(RnicFpdus *f)
{
    rnic_fpdus_place(f, f->phase == RNIC_FPDUS_FPDUS ? f->pos + f->length : 0);
}

size_t rnic_fpdus_step(RnicFpdus *f, const struct iovec *iov, size_t count,
                       size_t at, size_t len, bool *ended)
{
    size_t n = 0;

    *ended = false;
    if (f->phase != RNIC_FPDUS_OPAQUE && !f->length) {
        n = fpdus_take_head(f, iov, count, at, len);
    }
    if (f->phase == RNIC_FPDUS_OPAQUE) {
        return len;
    }
    if (f->length) {
        size_t more = MIN(len - n, f->length - f->done);

        f->done += more;
        n += more;
        if (f->done == f->length) {
            *ended = true;
            fpdus_next(f);
        }
    }
    return n;
}
