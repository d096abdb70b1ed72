/*
 * rnic: the private data by which two devices that connect QPs directly agree
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "direct-data.h"

enum {
    VERSION = 2,
    AT_VERSION = 4,
    AT_REASON = 5,
    AT_FLAGS = 6,
    AT_FROM_QPN = 8,
    AT_TO_QPN = 12,
    AT_PSN = 16,
    AT_FROM_GID = 24,
    AT_TO_GID = 40,
    DATA_LEN = 56,
};

static const char magic[AT_VERSION] = { 'R', 'N', 'D', 'C' };

void rnic_direct_data_encode(const RnicDirectData *data, IwarpMpaFrame *frame)
{
    uint8_t octets[DATA_LEN] = { };

    memcpy(octets, magic, sizeof(magic));
    octets[AT_VERSION] = VERSION;
    octets[AT_REASON] = data->reason;
    octets[AT_FLAGS] = data->flags;
    stl_be_p(octets + AT_FROM_QPN, data->from_qpn);
    stl_be_p(octets + AT_TO_QPN, data->to_qpn);
    stl_be_p(octets + AT_PSN, data->psn);
    memcpy(octets + AT_FROM_GID, data->from_gid, sizeof(data->from_gid));
    memcpy(octets + AT_TO_GID, data->to_gid, sizeof(data->to_gid));
    iwarp_mpa_set_pd(frame, octets, sizeof(octets));
}

bool rnic_direct_data_decode(const IwarpMpaFrame *frame, RnicDirectData *data)
{
    const uint8_t *octets = frame->pd;

    if (frame->pd_len != DATA_LEN ||
        memcmp(octets, magic, sizeof(magic)) != 0 ||
        octets[AT_VERSION] != VERSION) {
        return false;
    }
    *data = (RnicDirectData) {
        .reason = octets[AT_REASON],
        .flags = octets[AT_FLAGS],
        .from_qpn = ldl_be_p(octets + AT_FROM_QPN),
        .to_qpn = ldl_be_p(octets + AT_TO_QPN),
        .psn = ldl_be_p(octets + AT_PSN),
    };
    memcpy(data->from_gid, octets + AT_FROM_GID, sizeof(data->from_gid));
    memcpy(data->to_gid, octets + AT_TO_GID, sizeof(data->to_gid));
    return true;
}

const char *rnic_direct_reason_name(unsigned reason)
{
    static const char *const names[] = {
        [RNIC_DIRECT_ACCEPTED] = "none",
        [RNIC_DIRECT_NO_QP] = "no QP of this number waits",
        [RNIC_DIRECT_BUSY] = "the other attempt wins",
        [RNIC_DIRECT_MISMATCH] = "the QP waits for another GID or QP number",
        [RNIC_DIRECT_NOT_UNDERSTOOD] = "not understood",
    };

    return reason < ARRAY_SIZE(names) ? names[reason] : "unknown";
}
