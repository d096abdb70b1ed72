/*
 * rnic: the Ethernet side, an ordinary QEMU NIC
 *
 * Frames are copied: each is in the device, or in guest memory, but never
 * mapped while the rest of QEMU runs.
 *
 * A queue whose memory cannot be reached, or whose producer index cannot be
 * right, stops and stays so until the guest destroys it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "net/eth.h"
#include "hw/rnic/guest/bulk.h"
#include "hw/rnic/guest/dma.h"
#include "ethernet.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/guest/queue-memory.h"
#include "hw/rnic/base/trace.h"

enum {
    TX_FRAMES_PER_TURN = 64,
    MIN_FRAME = ETH_HLEN,
    RX_MODES = RNIC_RX_PROMISCUOUS | RNIC_RX_ALL_MULTICAST |
               RNIC_RX_LISTED_ONLY,
};

typedef struct EthQueue {
    uint32_t number;            /* RNIC_ETH_QUEUE_* */
    bool exists;
    bool stopped;
    bool armed;
    uint32_t vector;
    uint32_t depth;
    uint32_t done;
    RnicQueueMemory mem;
} EthQueue;

struct RnicEthernet {
    NICState *nic;
    QEMUBH *bh;
    EthQueue queues[2];         /* by RNIC_ETH_QUEUE_* */
    bool rx_kicked;
    bool sending;               /* the netdev holds our frame: eth_sent() */
    uint32_t sending_length;
    uint32_t rx_mode;
    uint32_t rx_count;
    uint8_t rx_list[RNIC_RX_MAX_ADDRESSES][ETH_ALEN];
    uint8_t frame[RNIC_ETH_MAX_FRAME];
};

/* -------------------------------------------------------------- queues */

static void eth_queue_stop(EthQueue *q)
{
    trace_rnic_err_eth_queue_stopped(q->number, q->done);
    q->stopped = true;
}

/* Descriptors the guest has given and the device has not done. */
static uint32_t eth_available(RnicState *s, EthQueue *q)
{
    uint32_t producer;

    if (!q->exists || q->stopped || !rnic_active(s)) {
        return 0;
    }
    if (!rnic_record_load32(s, &q->mem,
                            offsetof(struct rnic_eth_record, producer),
                            &producer)) {
        eth_queue_stop(q);
        return 0;
    }
    if (producer - q->done > q->depth) {
        trace_rnic_ub_eth_producer(q->number, producer, q->done, q->depth);
        eth_queue_stop(q);
        return 0;
    }
    return producer - q->done;
}

static uint64_t eth_descriptor_offset(const EthQueue *q)
{
    return (q->done & (q->depth - 1)) * sizeof(struct rnic_eth_desc);
}

static bool eth_read_descriptor(RnicState *s, EthQueue *q,
                                struct rnic_eth_desc *desc)
{
    if (!rnic_ring_read(s, &q->mem, 0, eth_descriptor_offset(q), desc,
                        sizeof(*desc))) {
        eth_queue_stop(q);
        return false;
    }
    return true;
}

/* Store the device's part of the current descriptor. */
static bool eth_write_result(RnicState *s, EthQueue *q, uint32_t length,
                             uint32_t flags)
{
    const uint32_t from = offsetof(struct rnic_eth_desc, length);
    struct rnic_eth_desc desc = {
        .length = cpu_to_le32(length),
        .flags = cpu_to_le32(flags),
    };

    if (!rnic_ring_write(s, &q->mem, 0, eth_descriptor_offset(q) + from,
                         &desc.length, sizeof(desc) - from)) {
        eth_queue_stop(q);
        return false;
    }
    return true;
}

/* Show the guest how far the queue has come, and interrupt if it asked. */
static void eth_publish(RnicState *s, EthQueue *q)
{
    if (q->stopped || !rnic_enabled(s)) {
        return;
    }
    if (!rnic_record_store32(s, &q->mem,
                             offsetof(struct rnic_eth_record, done),
                             q->done)) {
        eth_queue_stop(q);
        return;
    }
    if (q->armed) {
        q->armed = false;
        rnic_interrupt(s, q->vector);
    }
}

/* ------------------------------------------------------------ transmit */

static void eth_count_sent(RnicState *s, uint32_t length)
{
    rnic_count(&s->counters.eth_tx_packets, 1);
    rnic_count(&s->counters.eth_tx_octets, length);
}

/* The netdev has taken, or dropped, the frame it had queued. */
static void eth_sent(NetClientState *nc, ssize_t len)
{
    RnicState *s = qemu_get_nic_opaque(nc);
    RnicEthernet *e = s->ethernet;
    EthQueue *q = &e->queues[RNIC_ETH_QUEUE_TX];

    if (!e->sending) {
        return;                 /* purged because the queue has gone */
    }
    e->sending = false;
    eth_count_sent(s, e->sending_length);
    q->done++;
    eth_publish(s, q);
    qemu_bh_schedule(e->bh);
}

static bool eth_fetch_frame(RnicState *s, const struct rnic_eth_desc *desc)
{
    uint32_t length = le32_to_cpu(desc->length);

    if (desc->flags || length < MIN_FRAME || length > RNIC_ETH_MAX_FRAME) {
        return false;
    }
    return rnic_dma_read(s, le64_to_cpu(desc->addr), s->ethernet->frame,
                         length);
}

/* False if the queue cannot go on now. */
static bool eth_transmit_one(RnicState *s, EthQueue *q)
{
    RnicEthernet *e = s->ethernet;
    struct rnic_eth_desc desc;
    uint32_t length;

    if (!eth_read_descriptor(s, q, &desc)) {
        return false;
    }
    length = le32_to_cpu(desc.length);
    if (!eth_fetch_frame(s, &desc)) {
        trace_rnic_err_eth_descriptor(q->number, q->done, length,
                                     le32_to_cpu(desc.flags));
        if (!eth_write_result(s, q, length, RNIC_ETH_DESC_ERROR)) {
            return false;
        }
        q->done++;
        return true;
    }
    trace_rnic_eth_transmit(q->done, length);
    if (qemu_send_packet_async(qemu_get_queue(e->nic), e->frame, length,
                               eth_sent) == 0) {
        e->sending = true;
        e->sending_length = length;
        return false;
    }
    eth_count_sent(s, length);
    q->done++;
    return true;
}

static void eth_transmit(RnicState *s)
{
    RnicEthernet *e = s->ethernet;
    EthQueue *q = &e->queues[RNIC_ETH_QUEUE_TX];
    uint32_t before = q->done;
    uint32_t count;

    if (e->sending) {
        return;
    }
    count = eth_available(s, q);
    for (uint32_t i = 0; i < MIN(count, TX_FRAMES_PER_TURN); i++) {
        /* The netdev may belong to a device that resets this one. */
        if (!q->exists || !rnic_active(s) || !eth_transmit_one(s, q)) {
            break;
        }
    }
    if (q->done != before) {
        eth_publish(s, q);
    }
    if (count > TX_FRAMES_PER_TURN && !e->sending && !q->stopped) {
        qemu_bh_schedule(e->bh);
    }
}

static void eth_bh(void *opaque)
{
    RnicState *s = opaque;
    RnicEthernet *e = s->ethernet;

    eth_transmit(s);
    if (e->rx_kicked) {
        e->rx_kicked = false;
        qemu_flush_queued_packets(qemu_get_queue(e->nic));
    }
}

/* ------------------------------------------------------------- receive */

static bool eth_is_listed(const RnicEthernet *e, const uint8_t *mac)
{
    for (uint32_t i = 0; i < e->rx_count; i++) {
        if (memcmp(e->rx_list[i], mac, ETH_ALEN) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a frame to @mac passes the receive filter. */
static bool eth_is_wanted(RnicState *s, const uint8_t *mac)
{
    const RnicEthernet *e = s->ethernet;

    if ((e->rx_mode & RNIC_RX_PROMISCUOUS) || is_broadcast_ether_addr(mac)) {
        return true;
    }
    if (is_multicast_ether_addr(mac)) {
        return (e->rx_mode & RNIC_RX_ALL_MULTICAST) || eth_is_listed(e, mac);
    }
    if (e->rx_mode & RNIC_RX_LISTED_ONLY) {
        return eth_is_listed(e, mac);
    }
    return memcmp(mac, s->nic_conf.macaddr.a, ETH_ALEN) == 0;
}

static bool eth_can_receive(NetClientState *nc)
{
    RnicState *s = qemu_get_nic_opaque(nc);

    return eth_available(s, &s->ethernet->queues[RNIC_ETH_QUEUE_RX]) > 0;
}

/* Put the frame into the next buffer.  False if it is lost. */
static bool eth_store_frame(RnicState *s, EthQueue *q, const uint8_t *buf,
                            uint32_t size)
{
    struct rnic_eth_desc desc;
    bool ok;

    if (!eth_read_descriptor(s, q, &desc)) {
        return false;
    }
    ok = !desc.flags && size <= le32_to_cpu(desc.length) &&
         rnic_dma_write(s, le64_to_cpu(desc.addr), buf, size);
    if (!ok) {
        trace_rnic_err_eth_descriptor(q->number, q->done,
                                     le32_to_cpu(desc.length),
                                     le32_to_cpu(desc.flags));
    }
    if (!eth_write_result(s, q, ok ? size : 0, ok ? 0 : RNIC_ETH_DESC_ERROR)) {
        return false;
    }
    trace_rnic_eth_receive(q->done, size, ok);
    q->done++;
    eth_publish(s, q);
    return ok;
}

static ssize_t eth_receive(NetClientState *nc, const uint8_t *buf,
                           size_t size)
{
    RnicState *s = qemu_get_nic_opaque(nc);
    EthQueue *q = &s->ethernet->queues[RNIC_ETH_QUEUE_RX];
    uint8_t padded[ETH_ZLEN];
    size_t length = sizeof(padded);

    if (!eth_pad_short_frame(padded, &length, buf, size)) {
        length = size;
    } else {
        buf = padded;
    }
    if (!eth_is_wanted(s, buf)) {
        return size;
    }
    if (eth_available(s, q) == 0) {
        return 0;               /* it waits for the next kick */
    }
    if (length <= RNIC_ETH_MAX_FRAME && eth_store_frame(s, q, buf, length)) {
        rnic_count(&s->counters.eth_rx_packets, 1);
        rnic_count(&s->counters.eth_rx_octets, length);
    } else {
        rnic_count(&s->counters.eth_rx_drops, 1);
    }
    return size;
}

static void eth_link_changed(NetClientState *nc)
{
    RnicState *s = qemu_get_nic_opaque(nc);

    trace_rnic_eth_link(!nc->link_down);
    rnic_async_event(s, RNIC_AE_LINK_CHANGE, RNIC_RESOURCE_NONE, 0, 0, 0);
}

bool rnic_ethernet_link_up(const RnicState *s)
{
    return !s->ethernet || !qemu_get_queue(s->ethernet->nic)->link_down;
}

/* ----------------------------------------------------------- registers */

static EthQueue *eth_find_queue(RnicState *s, uint32_t number)
{
    if (!s->ethernet || number >= ARRAY_SIZE(s->ethernet->queues) ||
        !s->ethernet->queues[number].exists) {
        return NULL;
    }
    return &s->ethernet->queues[number];
}

void rnic_ethernet_kick(RnicState *s, uint32_t queue)
{
    if (!eth_find_queue(s, queue)) {
        trace_rnic_ub_eth_register(queue);
        return;
    }
    if (queue == RNIC_ETH_QUEUE_RX) {
        s->ethernet->rx_kicked = true;
    }
    qemu_bh_schedule(s->ethernet->bh);
}

void rnic_ethernet_arm(RnicState *s, uint32_t queue)
{
    EthQueue *q = eth_find_queue(s, queue);
    uint32_t seen;

    if (!q) {
        trace_rnic_ub_eth_register(queue);
        return;
    }
    if (q->stopped || !rnic_enabled(s)) {
        return;
    }
    if (!rnic_record_load32(s, &q->mem,
                            offsetof(struct rnic_eth_record, seen), &seen)) {
        eth_queue_stop(q);
        return;
    }
    q->armed = seen == q->done;
    if (!q->armed) {
        rnic_interrupt(s, q->vector);
    }
}

void rnic_ethernet_go(RnicState *s)
{
    s->ethernet->rx_kicked = true;
    qemu_bh_schedule(s->ethernet->bh);
}

/* ------------------------------------------------------ admin commands */

static enum rnic_admin_status eth_check_create(RnicState *s,
                                               const struct rnic_admin_sqe *sqe)
{
    uint32_t number = le32_to_cpu(sqe->eth_queue.queue);
    uint32_t depth = le32_to_cpu(sqe->eth_queue.depth);

    if (sqe->eth_queue.reserved) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    if (number >= ARRAY_SIZE(s->ethernet->queues)) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    if (s->ethernet->queues[number].exists) {
        return RNIC_ST_ETH_QUEUE_IN_USE;
    }
    if (depth < 2 || depth > RNIC_ETH_MAX_DEPTH || !is_power_of_2(depth)) {
        return RNIC_ST_BAD_QUEUE_MEMORY;
    }
    if (!rnic_vector_valid(s, le32_to_cpu(sqe->eth_queue.vector))) {
        return RNIC_ST_BAD_VECTOR;
    }
    return RNIC_ST_OK;
}

enum rnic_admin_status
rnic_ethernet_create_queue(RnicState *s, const struct rnic_admin_sqe *sqe)
{
    enum rnic_admin_status status = eth_check_create(s, sqe);
    uint32_t number = le32_to_cpu(sqe->eth_queue.queue);
    uint32_t depth = le32_to_cpu(sqe->eth_queue.depth);
    uint32_t vector = le32_to_cpu(sqe->eth_queue.vector);
    RnicQueueMemory mem;

    if (status != RNIC_ST_OK) {
        return status;
    }
    status = rnic_queue_memory_read(
        s, &sqe->eth_queue.memory,
        (uint64_t)depth * sizeof(struct rnic_eth_desc), 0, &mem);
    if (status != RNIC_ST_OK) {
        return status;
    }
    if (!rnic_record_store32(s, &mem, offsetof(struct rnic_eth_record, done),
                             0)) {
        rnic_queue_memory_free(s, &mem);
        return RNIC_ST_DMA_ERROR;
    }
    s->ethernet->queues[number] = (EthQueue) {
        .number = number,
        .exists = true,
        .vector = vector,
        .depth = depth,
        .mem = mem,
    };
    trace_rnic_eth_queue_created(number, depth, vector);
    return RNIC_ST_OK;
}

static void eth_free_queue(RnicState *s, EthQueue *q)
{
    trace_rnic_eth_queue_destroyed(q->number);
    rnic_queue_memory_free(s, &q->mem);
    q->exists = false;
    if (q->number == RNIC_ETH_QUEUE_TX) {
        s->ethernet->sending = false;
        qemu_purge_queued_packets(qemu_get_queue(s->ethernet->nic));
    }
}

enum rnic_admin_status
rnic_ethernet_destroy_queue(RnicState *s, const struct rnic_admin_sqe *sqe)
{
    const size_t rest = offsetof(typeof(sqe->eth_queue), vector);
    EthQueue *q = eth_find_queue(s, le32_to_cpu(sqe->eth_queue.queue));

    if (!buffer_is_zero((const uint8_t *)&sqe->eth_queue + rest,
                        sizeof(sqe->eth_queue) - rest)) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    if (!q) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    eth_free_queue(s, q);
    return RNIC_ST_OK;
}

enum rnic_admin_status
rnic_ethernet_set_rx_mode(RnicState *s, const struct rnic_admin_sqe *sqe)
{
    RnicEthernet *e = s->ethernet;
    uint32_t mode = le32_to_cpu(sqe->rx_mode.mode);
    uint32_t count = le32_to_cpu(sqe->rx_mode.count);
    uint8_t list[RNIC_RX_MAX_ADDRESSES][ETH_ALEN];
    enum rnic_admin_status status;

    if ((mode & ~RX_MODES) || count > RNIC_RX_MAX_ADDRESSES ||
        ((mode & RNIC_RX_LISTED_ONLY) &&
         !rnic_accepted(s, RNIC_FEATURE_UNICAST_LIST))) {
        return RNIC_ST_INVALID_MODIFIER;
    }
    status = rnic_bulk_read(s, sqe, list, count * ETH_ALEN);
    if (status != RNIC_ST_OK) {
        return status;
    }
    memcpy(e->rx_list, list, count * ETH_ALEN);
    e->rx_count = count;
    e->rx_mode = mode;
    trace_rnic_eth_rx_mode(mode, count);
    return RNIC_ST_OK;
}

/* ------------------------------------------------------------ lifetime */

static NetClientInfo eth_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .can_receive = eth_can_receive,
    .receive = eth_receive,
    .link_status_changed = eth_link_changed,
};

void rnic_ethernet_realize(RnicState *s)
{
    DeviceState *dev = DEVICE(s);
    RnicEthernet *e = g_new0(RnicEthernet, 1);

    s->ethernet = e;
    e->bh = qemu_bh_new_guarded(eth_bh, s, &dev->mem_reentrancy_guard);
    e->nic = qemu_new_nic(&eth_net_info, &s->nic_conf,
                          object_get_typename(OBJECT(s)), dev->id,
                          &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(e->nic), s->nic_conf.macaddr.a);
}

void rnic_ethernet_unrealize(RnicState *s)
{
    rnic_ethernet_reset(s);
    qemu_del_nic(s->ethernet->nic);
    qemu_bh_delete(s->ethernet->bh);
    g_clear_pointer(&s->ethernet, g_free);
}

void rnic_ethernet_reset(RnicState *s)
{
    RnicEthernet *e = s->ethernet;

    for (unsigned i = 0; i < ARRAY_SIZE(e->queues); i++) {
        if (e->queues[i].exists) {
            eth_free_queue(s, &e->queues[i]);
        }
    }
    qemu_bh_cancel(e->bh);
    e->rx_kicked = false;
    e->rx_mode = 0;
    e->rx_count = 0;
}
