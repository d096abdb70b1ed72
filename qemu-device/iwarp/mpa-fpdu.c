/*
 * iWARP engine: MULPDU from the TCP segment size
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "mpa-fpdu.h"

uint16_t iwarp_mulpdu(size_t emss, bool markers)
{
    size_t overhead = IWARP_FPDU_LENGTH_LEN + IWARP_FPDU_CRC_LEN + emss % 4;

    if (markers) {
        overhead += IWARP_MARKER_LEN * (emss / IWARP_MARKER_SPACING +
                                        !!(emss % IWARP_MARKER_SPACING));
    }
    if (emss < overhead + IWARP_MULPDU_MIN) {
        return IWARP_MULPDU_MIN;
    }
    if (emss - overhead > IWARP_MULPDU_MAX) {
        return IWARP_MULPDU_MAX;
    }
    return (uint16_t)(emss - overhead);
}
