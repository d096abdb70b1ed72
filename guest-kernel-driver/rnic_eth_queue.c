// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the Ethernet queues, one for each direction. A descriptor is a frame, in
 * one piece: the stack linearizes and checksums.
 *
 * Frames are sent with the lock of the interface's transmit queue; all else is
 * NAPI's, or done while neither runs.
 */

#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/slab.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_eth_queue.h"
#include "rnic_health.h"

#define RNIC_TX_ARMED	0

void rnic_eth_stats_init(struct rnic_tx_queue *tx, struct rnic_rx_queue *rx)
{
	u64_stats_init(&tx->xmit.sync);
	u64_stats_init(&tx->sent.sync);
	u64_stats_init(&rx->stats.sync);
}

static u32 rnic_eth_slot(const struct rnic_eth_ring *ring, u32 index)
{
	return index & (ring->depth - 1);
}

static struct rnic_eth_buffer *
rnic_eth_buffer(const struct rnic_eth_ring *ring, u32 index)
{
	return &ring->buffers[rnic_eth_slot(ring, index)];
}

static struct rnic_eth_desc *rnic_eth_desc(const struct rnic_eth_ring *ring,
					   u32 index)
{
	return rnic_queue_at(ring->queue.pages, ring->offset +
			     rnic_eth_slot(ring, index) *
			     sizeof(struct rnic_eth_desc));
}

static int rnic_eth_ring_alloc(struct rnic_dev *dev, struct rnic_eth_ring *ring)
{
	int ret;

	ring->buffers = kvcalloc(ring->depth, sizeof(*ring->buffers),
				 GFP_KERNEL);
	if (!ring->buffers)
		return -ENOMEM;
	ring->offset = rnic_ring_begin(RNIC_QUEUE_RECORD_SIZE,
				       sizeof(struct rnic_eth_desc));
	ret = rnic_queue_alloc(dev, &ring->queue, ring->offset +
			       ring->depth * sizeof(struct rnic_eth_desc));
	if (ret)
		kvfree(ring->buffers);
	ring->record = ring->queue.record;
	return ret;
}

static void rnic_eth_ring_free(struct rnic_dev *dev, struct rnic_eth_ring *ring)
{
	rnic_queue_free(dev, &ring->queue);
	kvfree(ring->buffers);
}

/* Makes the queue in the device; its memory is there. */
static int rnic_eth_ring_start(struct rnic_dev *dev, struct rnic_eth_ring *ring)
{
	struct rnic_eth_params params = {
		.queue = ring->number,
		.vector = dev->eth_vector,
		.depth = ring->depth,
		.memory.ring_offset[0] = cpu_to_le32(ring->offset),
	};
	struct rnic_page_table table;
	int ret;

	ret = rnic_queue_describe(dev, &ring->queue, &params.memory, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_create_eth_queue(dev, &params);
	rnic_page_table_free(dev, &table);
	return ret;
}

static int rnic_eth_ring_create(struct rnic_dev *dev,
				struct rnic_eth_ring *ring, u32 number,
				u32 depth)
{
	int ret;

	*ring = (struct rnic_eth_ring) {
		.number = number,
		.depth = depth,
	};
	ret = rnic_eth_ring_alloc(dev, ring);
	if (ret)
		return ret;
	ret = rnic_eth_ring_start(dev, ring);
	if (ret)
		rnic_eth_ring_free(dev, ring);
	return ret;
}

static void rnic_eth_ring_drop(struct rnic_dev *dev,
			       struct rnic_eth_ring *ring,
			       enum dma_data_direction direction)
{
	for (; ring->done != ring->producer; ring->done++) {
		struct rnic_eth_buffer *buffer = rnic_eth_buffer(ring,
								 ring->done);

		dma_unmap_single(&dev->pdev->dev, buffer->dma, buffer->length,
				 direction);
		dev_kfree_skb_any(buffer->skb);
	}
}

static void rnic_eth_ring_destroy(struct rnic_dev *dev,
				  struct rnic_eth_ring *ring,
				  enum dma_data_direction direction)
{
	if (rnic_cmd_destroy_eth_queue(dev, ring->number))
		rnic_fail(dev, "it would not give an Ethernet queue back");
	rnic_eth_ring_drop(dev, ring, direction);
	rnic_eth_ring_free(dev, ring);
}

/* Puts a buffer at the producer index; it becomes visible by a kick. */
static int rnic_eth_ring_add(struct rnic_dev *dev, struct rnic_eth_ring *ring,
			     struct sk_buff *skb, u32 length,
			     enum dma_data_direction direction)
{
	struct rnic_eth_desc *desc = rnic_eth_desc(ring, ring->producer);
	dma_addr_t dma = dma_map_single(&dev->pdev->dev, skb->data, length,
					direction);

	if (dma_mapping_error(&dev->pdev->dev, dma))
		return -ENOMEM;
	*rnic_eth_buffer(ring, ring->producer) = (struct rnic_eth_buffer) {
		.skb = skb,
		.dma = dma,
		.length = length,
	};
	desc->addr = cpu_to_le64(dma);
	desc->length = cpu_to_le32(length);
	desc->flags = 0;
	WRITE_ONCE(ring->producer, ring->producer + 1);
	return 0;
}

static void rnic_eth_ring_kick(struct rnic_dev *dev,
			       struct rnic_eth_ring *ring)
{
	/* Pairs with rnic_eth_ring_ready(): what BQL knows of comes first. */
	smp_store_release(&ring->published, ring->producer);
	dma_wmb();
	WRITE_ONCE(ring->record->producer, cpu_to_le32(ring->producer));
	/* writel() orders the index before the kick. */
	rnic_write32(dev, RNIC_REG_ETH_KICK, ring->number);
}

/* How many buffers are done. */
static u32 rnic_eth_ring_ready(struct rnic_dev *dev,
			       const struct rnic_eth_ring *ring)
{
	u32 ready = le32_to_cpu(READ_ONCE(ring->record->done)) - ring->done;
	u32 given;

	/* The index is stored after the descriptors. */
	dma_rmb();
	/* Pairs with rnic_eth_ring_kick(). */
	given = smp_load_acquire(&ring->published) - ring->done;
	if (ready <= given)
		return ready;
	rnic_fail(dev, "it is done with frames it was not given");
	return 0;
}

/* The interrupt comes at once if anything was done beyond what we know. */
static void rnic_eth_ring_arm(struct rnic_dev *dev, struct rnic_eth_ring *ring)
{
	WRITE_ONCE(ring->record->seen, cpu_to_le32(READ_ONCE(ring->done)));
	rnic_write32(dev, RNIC_REG_ETH_ARM, ring->number);
}

static u32 rnic_tx_room(const struct rnic_tx_queue *tx)
{
	return tx->ring.depth -
	       (READ_ONCE(tx->ring.producer) - READ_ONCE(tx->ring.done));
}

int rnic_tx_create(struct rnic_dev *dev, struct rnic_tx_queue *tx, u32 depth)
{
	tx->armed = 0;
	return rnic_eth_ring_create(dev, &tx->ring, RNIC_ETH_QUEUE_TX, depth);
}

void rnic_tx_destroy(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	rnic_eth_ring_destroy(dev, &tx->ring, DMA_TO_DEVICE);
	netdev_reset_queue(dev->netdev);
}

/* Frames in flight are to be freed soon after they are sent. */
void rnic_tx_arm(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	if (rnic_tx_room(tx) < tx->ring.depth &&
	    !test_and_set_bit(RNIC_TX_ARMED, &tx->armed))
		rnic_eth_ring_arm(dev, &tx->ring);
}

void rnic_tx_kick(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	rnic_eth_ring_kick(dev, &tx->ring);
}

static void rnic_tx_stop_if_full(struct rnic_dev *dev,
				 struct rnic_tx_queue *tx)
{
	if (rnic_tx_room(tx))
		return;
	netif_stop_queue(dev->netdev);
	rnic_eth_count(&tx->xmit, RNIC_XMIT_STOPS, 1);
	/* Either we see the room that rnic_tx_reclaim() makes, or it us. */
	smp_mb();
	if (rnic_tx_room(tx))
		netif_start_queue(dev->netdev);
}

/* False: the frame was dropped. */
static bool rnic_tx_add(struct rnic_dev *dev, struct rnic_tx_queue *tx,
			struct sk_buff *skb)
{
	if (skb_put_padto(skb, ETH_ZLEN)) {
		rnic_eth_count(&tx->xmit, RNIC_XMIT_NO_MEMORY, 1);
		return false;
	}
	if (rnic_eth_ring_add(dev, &tx->ring, skb, skb->len, DMA_TO_DEVICE)) {
		rnic_eth_count(&tx->xmit, RNIC_XMIT_NOT_MAPPED, 1);
		dev_kfree_skb_any(skb);
		return false;
	}
	skb_tx_timestamp(skb);
	return true;
}

/* Whether the device is to be told now. The frame is still ours. */
static bool rnic_tx_kick_is_due(struct net_device *netdev, u32 length)
{
	if (length)
		return __netdev_sent_queue(netdev, length, netdev_xmit_more());
	/* This one was dropped, but those before it may wait for the kick. */
	return !netdev_xmit_more() ||
	       netif_xmit_stopped(netdev_get_tx_queue(netdev, 0));
}

netdev_tx_t rnic_tx_send(struct rnic_dev *dev, struct rnic_tx_queue *tx,
			 struct sk_buff *skb)
{
	struct net_device *netdev = dev->netdev;
	u32 length;

	if (unlikely(!rnic_tx_room(tx)))
		return NETDEV_TX_BUSY;
	length = rnic_tx_add(dev, tx, skb) ? skb->len : 0;
	rnic_tx_stop_if_full(dev, tx);
	if (rnic_tx_kick_is_due(netdev, length)) {
		rnic_eth_count(&tx->xmit, RNIC_XMIT_KICKS, 1);
		rnic_eth_ring_kick(dev, &tx->ring);
	}
	rnic_tx_arm(dev, tx);
	return NETDEV_TX_OK;
}

static void rnic_tx_count(struct rnic_tx_queue *tx,
			  const struct rnic_eth_desc *desc, u32 length)
{
	if (le32_to_cpu(desc->flags) & RNIC_ETH_DESC_ERROR)
		rnic_eth_count(&tx->sent, RNIC_SENT_ERRORS, 1);
	else
		rnic_eth_count_frame(&tx->sent, RNIC_SENT_PACKETS,
				     RNIC_SENT_OCTETS, length);
}

/* Octets of the oldest frame, which the device is done with. */
static u32 rnic_tx_reclaim_one(struct rnic_dev *dev, struct rnic_tx_queue *tx,
			       int budget)
{
	struct rnic_eth_ring *ring = &tx->ring;
	struct rnic_eth_buffer *buffer = rnic_eth_buffer(ring, ring->done);
	u32 length = buffer->length;

	dma_unmap_single(&dev->pdev->dev, buffer->dma, length, DMA_TO_DEVICE);
	rnic_tx_count(tx, rnic_eth_desc(ring, ring->done), length);
	napi_consume_skb(buffer->skb, budget);
	WRITE_ONCE(ring->done, ring->done + 1);
	return length;
}

void rnic_tx_reclaim(struct rnic_dev *dev, struct rnic_tx_queue *tx,
		     int budget)
{
	u32 ready, i;
	u32 octets = 0;

	clear_bit(RNIC_TX_ARMED, &tx->armed);
	ready = rnic_eth_ring_ready(dev, &tx->ring);
	for (i = 0; i < ready; i++)
		octets += rnic_tx_reclaim_one(dev, tx, budget);
	netdev_completed_queue(dev->netdev, ready, octets);
	/* See rnic_tx_stop_if_full(). */
	smp_mb();
	if (netif_queue_stopped(dev->netdev) && rnic_tx_room(tx) &&
	    netif_running(dev->netdev)) {
		rnic_eth_count(&tx->sent, RNIC_SENT_WAKES, 1);
		netif_wake_queue(dev->netdev);
	}
}

static int rnic_rx_add(struct rnic_dev *dev, struct rnic_rx_queue *rx,
		       gfp_t gfp)
{
	struct sk_buff *skb = __netdev_alloc_skb_ip_align(dev->netdev,
							  rx->room, gfp);

	if (!skb)
		return -ENOMEM;
	if (rnic_eth_ring_add(dev, &rx->ring, skb, rx->room,
			      DMA_FROM_DEVICE)) {
		dev_kfree_skb_any(skb);
		return -ENOMEM;
	}
	return 0;
}

int rnic_rx_create(struct rnic_dev *dev, struct rnic_rx_queue *rx, u32 depth,
		   u32 mtu)
{
	unsigned int i;
	int ret;

	rx->room = mtu + VLAN_ETH_HLEN + ETH_FCS_LEN;
	ret = rnic_eth_ring_create(dev, &rx->ring, RNIC_ETH_QUEUE_RX, depth);
	if (ret)
		return ret;
	for (i = 0; i < depth; i++) {
		ret = rnic_rx_add(dev, rx, GFP_KERNEL);
		if (ret) {
			rnic_rx_destroy(dev, rx);
			return ret;
		}
	}
	rnic_eth_ring_kick(dev, &rx->ring);
	return 0;
}

void rnic_rx_destroy(struct rnic_dev *dev, struct rnic_rx_queue *rx)
{
	rnic_eth_ring_destroy(dev, &rx->ring, DMA_FROM_DEVICE);
}

/* False: it is no frame, and that was counted. */
static bool rnic_rx_frame_valid(struct rnic_rx_queue *rx, u32 length, u32 flags)
{
	if (flags & RNIC_ETH_DESC_ERROR) {
		rnic_eth_count(&rx->stats, RNIC_RX_ERRORS, 1);
		return false;
	}
	if (length < ETH_HLEN || length > rx->room) {
		rnic_eth_count(&rx->stats, RNIC_RX_BAD_LENGTH, 1);
		return false;
	}
	return true;
}

static void rnic_rx_deliver(struct rnic_dev *dev, struct rnic_rx_queue *rx,
			    struct napi_struct *napi,
			    const struct rnic_eth_buffer *buffer, u32 length)
{
	struct sk_buff *skb = buffer->skb;

	dma_unmap_single(&dev->pdev->dev, buffer->dma, buffer->length,
			 DMA_FROM_DEVICE);
	skb_put(skb, length);
	skb->protocol = eth_type_trans(skb, dev->netdev);
	rnic_eth_count_frame(&rx->stats, RNIC_RX_PACKETS, RNIC_RX_OCTETS,
			     length);
	napi_gro_receive(napi, skb);
}

/* Gives the same buffer again, and its frame is lost. */
static void rnic_rx_recycle(struct rnic_eth_ring *ring,
			    const struct rnic_eth_buffer *buffer)
{
	struct rnic_eth_desc *desc = rnic_eth_desc(ring, ring->producer);

	*rnic_eth_buffer(ring, ring->producer) = *buffer;
	desc->addr = cpu_to_le64(buffer->dma);
	desc->length = cpu_to_le32(buffer->length);
	desc->flags = 0;
	ring->producer++;
}

/*
 * A frame is only taken if another buffer can be put in the place of its own:
 * the ring is always full.
 */
static void rnic_rx_one(struct rnic_dev *dev, struct rnic_rx_queue *rx,
			struct napi_struct *napi)
{
	struct rnic_eth_ring *ring = &rx->ring;
	struct rnic_eth_buffer buffer = *rnic_eth_buffer(ring, ring->done);
	struct rnic_eth_desc *desc = rnic_eth_desc(ring, ring->done);
	u32 length = le32_to_cpu(READ_ONCE(desc->length));
	u32 flags = le32_to_cpu(READ_ONCE(desc->flags));
	bool valid = rnic_rx_frame_valid(rx, length, flags);

	ring->done++;
	if (valid && !rnic_rx_add(dev, rx, GFP_ATOMIC)) {
		rnic_rx_deliver(dev, rx, napi, &buffer, length);
		return;
	}
	if (valid)
		rnic_eth_count(&rx->stats, RNIC_RX_NO_MEMORY, 1);
	rnic_rx_recycle(ring, &buffer);
}

int rnic_rx_receive(struct rnic_dev *dev, struct rnic_rx_queue *rx,
		    struct napi_struct *napi, int budget)
{
	int count = min_t(u32, rnic_eth_ring_ready(dev, &rx->ring), budget);
	int i;

	for (i = 0; i < count; i++)
		rnic_rx_one(dev, rx, napi);
	if (count)
		rnic_eth_ring_kick(dev, &rx->ring);
	return count;
}

void rnic_rx_arm(struct rnic_dev *dev, struct rnic_rx_queue *rx)
{
	rnic_eth_ring_arm(dev, &rx->ring);
}
