/*
 * rnic: what the device says of itself, QUERY_DEVICE and QUERY_COUNTERS
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "device-attr.h"
#include "hw/rnic/connect/llp-stream.h"
#include "hw/rnic/guest/bulk.h"
#include "hw/rnic/guest/dma.h"
#include "hw/rnic/tpt/tpt.h"
#include "hw/rnic/verbs/cq.h"

uint64_t rnic_device_features(const RnicState *s)
{
    return (s->ethernet ? RNIC_FEATURE_ETHERNET : 0) |
           RNIC_FEATURE_FAST_REGISTER | RNIC_FEATURE_LOCAL_INVALIDATE |
           RNIC_FEATURE_REMOTE_INVALIDATE | RNIC_FEATURE_READ_INVALIDATE |
           RNIC_FEATURE_STAG_ZERO | RNIC_FEATURE_MEMORY_WINDOW |
           RNIC_FEATURE_SHARED_MR | RNIC_FEATURE_BLOCK_LIST |
           RNIC_FEATURE_REREGISTER | RNIC_FEATURE_SRQ |
           RNIC_FEATURE_DIRECT_CONNECT | RNIC_FEATURE_RESIZE_CQ |
           RNIC_FEATURE_RESIZE_QP | RNIC_FEATURE_CQ_MODERATION |
           RNIC_FEATURE_IGNORE_OVERRUN | RNIC_FEATURE_TIMESTAMP |
           RNIC_FEATURE_BIND_WITHOUT_RIGHTS | RNIC_FEATURE_PD_WINDOW |
           RNIC_FEATURE_READ_LIST | RNIC_FEATURE_LLP_STREAM |
           (s->ethernet ? RNIC_FEATURE_UNICAST_LIST : 0) |
           (s->config.rdmap_extensions && RNIC_DMA_HAS_ATOMIC64
            ? RNIC_FEATURE_RDMAP_EXTENSIONS : 0);
}

static uint32_t device_abilities(const RnicState *s)
{
    return RNIC_ABILITY_MODIFY_IRD | RNIC_ABILITY_INCREASE_ORD |
           (rnic_accepted(s, RNIC_FEATURE_RESIZE_QP) ? RNIC_ABILITY_MODIFY_WRS
                                                     : 0) |
           RNIC_ABILITY_CQ_OVERFLOW;
}

/* Of the mode that the device was opened in (V9.2.1.2-6). */
static void fill_list_mode(const RnicState *s, struct rnic_device_attr *attr)
{
    if (rnic_accepted(s, RNIC_FEATURE_BLOCK_LIST)) {
        attr->list_mode = cpu_to_le32(RNIC_LIST_MODE_BLOCK);
        attr->min_block_size = cpu_to_le64(RNIC_BLOCK_MIN);
        attr->max_block_size = cpu_to_le64(RNIC_BLOCK_MAX);
    } else {
        attr->list_mode = cpu_to_le32(RNIC_LIST_MODE_PAGE);
    }
}

/* An EUI-64 made of the MAC. */
static uint64_t system_guid(const RnicState *s)
{
    const uint8_t *mac = s->nic_conf.macaddr.a;
    const uint8_t eui[8] = {
        mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5],
    };

    return ldq_be_p(eui);
}

/* In the record's byte order. What needs a feature that was not accepted is not there. */
static uint32_t device_limit(const RnicState *s, uint64_t feature, uint32_t limit)
{
    return cpu_to_le32(rnic_accepted(s, feature) ? limit : 0);
}

enum rnic_admin_status
rnic_device_attr_query(RnicState *s, const struct rnic_admin_sqe *sqe)
{
    const RnicConfig *c = &s->config;
    struct rnic_device_attr attr = {
        .page_size_cap = cpu_to_le64(RNIC_PAGE_SIZES),
        .max_mr_size = cpu_to_le64(RNIC_MAX_REGION),
        .sys_image_guid = cpu_to_le64(system_guid(s)),
        .max_qp = cpu_to_le32(c->max_qp),
        .max_sq_units = cpu_to_le32(RNIC_SQ_MAX_DEPTH),
        .max_rq_wr = cpu_to_le32(RNIC_RQ_MAX_DEPTH),
        .max_srq_wr = device_limit(s, RNIC_FEATURE_SRQ, RNIC_SRQ_MAX_DEPTH),
        .max_send_sge = cpu_to_le32(RNIC_MAX_SGE),
        .max_write_sge = cpu_to_le32(RNIC_MAX_SGE),
        .max_recv_sge = cpu_to_le32(RNIC_MAX_SGE),
        .max_read_sge = cpu_to_le32(
            rnic_accepted(s, RNIC_FEATURE_READ_LIST) ? RNIC_MAX_READ_SGE : 1),
        .max_inline = cpu_to_le32(RNIC_MAX_INLINE),
        .max_cq = cpu_to_le32(c->max_cq),
        .max_cqe = cpu_to_le32(RNIC_CQ_MAX_DEPTH),
        .max_eq = cpu_to_le32(c->max_eq),
        .max_mr = cpu_to_le32(c->max_mr),
        .max_mw = device_limit(s, RNIC_FEATURE_MEMORY_WINDOW, c->max_mr),
        .max_pd = cpu_to_le32(c->max_pd),
        .max_srq = device_limit(s, RNIC_FEATURE_SRQ, c->max_srq),
        .max_fast_register_pages = device_limit(s, RNIC_FEATURE_FAST_REGISTER,
                                                RNIC_MAX_FAST_REGISTER_PAGES),
        .max_ird = cpu_to_le32(c->max_ird),
        .max_ord = cpu_to_le32(c->max_ord),
        .max_listeners = cpu_to_le32(c->max_listeners),
        .max_message = cpu_to_le32(UINT32_MAX),
        .mtu = cpu_to_le32(RNIC_ETH_MAX_FRAME - 18),
        .clock_khz = device_limit(s, RNIC_FEATURE_TIMESTAMP, RNIC_CQ_CLOCK_KHZ),
        .srq_order = cpu_to_le32(RNIC_SRQ_ORDER_ARRIVAL),
        .abilities = cpu_to_le32(device_abilities(s)),
        .max_llp_streams = device_limit(s, RNIC_FEATURE_LLP_STREAM,
                                        c->max_llp_streams),
        .max_llp_octets = device_limit(s, RNIC_FEATURE_LLP_STREAM,
                                       RNIC_LLP_MAX_OCTETS),
    };

    if (rnic_accepted(s, RNIC_FEATURE_CQ_MODERATION)) {
        attr.max_event_count = attr.max_event_period = cpu_to_le16(UINT16_MAX);
    }
    fill_list_mode(s, &attr);
    return rnic_bulk_write(s, sqe, &attr, sizeof(attr));
}

enum rnic_admin_status
rnic_counters_query(RnicState *s, const struct rnic_admin_sqe *sqe)
{
    const Stat64 *counters = (const Stat64 *)&s->counters;
    struct rnic_counters out = {
        .qps = cpu_to_le32(s->qps.count),
        .cqs = cpu_to_le32(s->cqs.count),
        .eqs = cpu_to_le32(s->eqs.count),
        .pds = cpu_to_le32(s->pds.count),
        .stags = cpu_to_le32(rnic_tpt_stags(s)),
        .srqs = cpu_to_le32(s->srqs.count),
        .listeners = cpu_to_le32(s->listeners.count),
        .endpoints = cpu_to_le32(s->endpoints.count),
        .llp_streams = cpu_to_le32(rnic_llp_count(s)),
        .events_lost = cpu_to_le32(stat64_get(&s->counters.events_lost)),
    };

    QEMU_BUILD_BUG_ON(offsetof(struct rnic_counters, qps) !=
                      offsetof(RnicCounters, events_lost));
    for (size_t i = 0; i < offsetof(RnicCounters, events_lost) / 8; i++) {
        stq_le_p((__le64 *)&out + i, stat64_get(&counters[i]));
    }
    return rnic_bulk_write(s, sqe, &out, sizeof(out));
}
