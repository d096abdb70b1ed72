// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the Ethernet queues, one for each direction. A descriptor is a frame.
 */

#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_eth_queue.h"
#include "rnic_health.h"

#define RNIC_TX_ARMED	0

static_assert((RNIC_ETH_DEPTH & (RNIC_ETH_DEPTH - 1)) == 0);

static u32 rnic_eth_slot(u32 index)
{
	return index & (RNIC_ETH_DEPTH - 1);
}

static int rnic_eth_ring_create(struct rnic_dev *dev,
				struct rnic_eth_ring *ring, u32 number)
{
	struct rnic_eth_params params = {
		.queue = number,
		.vector = dev->eth_vector,
		.depth = RNIC_ETH_DEPTH,
		.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE),
	};
	struct rnic_page_table table;
	int ret;

	memset(ring, 0, sizeof(*ring));
	ret = rnic_queue_alloc(dev, &ring->queue, RNIC_QUEUE_RECORD_SIZE +
			       RNIC_ETH_DEPTH * sizeof(*ring->descs));
	if (ret)
		return ret;
	ring->record = ring->queue.va;
	ring->descs = ring->queue.va + RNIC_QUEUE_RECORD_SIZE;
	ring->number = number;
	ret = rnic_queue_describe(dev, &ring->queue, &params.memory, &table);
	if (!ret)
		ret = rnic_cmd_create_eth_queue(dev, &params);
	if (ret)
		rnic_queue_free(dev, &ring->queue);
	return ret;
}

static void rnic_eth_ring_drop(struct rnic_dev *dev,
			       struct rnic_eth_ring *ring,
			       enum dma_data_direction direction)
{
	for (; ring->done != ring->producer; ring->done++) {
		struct rnic_eth_buffer *buffer =
			&ring->buffers[rnic_eth_slot(ring->done)];

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
	rnic_queue_free(dev, &ring->queue);
}

/* Puts a buffer at the producer index; it becomes visible by a kick. */
static int rnic_eth_ring_add(struct rnic_dev *dev, struct rnic_eth_ring *ring,
			     struct sk_buff *skb, u32 length,
			     enum dma_data_direction direction)
{
	u32 slot = rnic_eth_slot(ring->producer);
	struct rnic_eth_desc *desc = &ring->descs[slot];
	dma_addr_t dma = dma_map_single(&dev->pdev->dev, skb->data, length,
					direction);

	if (dma_mapping_error(&dev->pdev->dev, dma))
		return -ENOMEM;
	ring->buffers[slot] = (struct rnic_eth_buffer) {
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
	dma_wmb();
	WRITE_ONCE(ring->record->producer, cpu_to_le32(ring->producer));
	/* writel() orders the index before the kick. */
	rnic_write32(dev, RNIC_REG_ETH_KICK, ring->number);
}

/* How many buffers are done; a device that claims too many has done none. */
static u32 rnic_eth_ring_ready(const struct rnic_eth_ring *ring)
{
	u32 ready = le32_to_cpu(READ_ONCE(ring->record->done)) - ring->done;

	/* The index is stored after the descriptors. */
	dma_rmb();
	return ready <= READ_ONCE(ring->producer) - ring->done ? ready : 0;
}

/* The interrupt comes at once if anything was done beyond what we know. */
static void rnic_eth_ring_arm(struct rnic_dev *dev, struct rnic_eth_ring *ring)
{
	WRITE_ONCE(ring->record->seen, cpu_to_le32(READ_ONCE(ring->done)));
	rnic_write32(dev, RNIC_REG_ETH_ARM, ring->number);
}

static u32 rnic_tx_room(const struct rnic_tx_queue *tx)
{
	return RNIC_ETH_DEPTH -
	       (READ_ONCE(tx->ring.producer) - READ_ONCE(tx->ring.done));
}

int rnic_tx_create(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	tx->armed = 0;
	return rnic_eth_ring_create(dev, &tx->ring, RNIC_ETH_QUEUE_TX);
}

void rnic_tx_destroy(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	rnic_eth_ring_destroy(dev, &tx->ring, DMA_TO_DEVICE);
}

/* Frames in flight are to be freed soon after they are sent. */
void rnic_tx_arm(struct rnic_dev *dev, struct rnic_tx_queue *tx)
{
	if (rnic_tx_room(tx) < RNIC_ETH_DEPTH &&
	    !test_and_set_bit(RNIC_TX_ARMED, &tx->armed))
		rnic_eth_ring_arm(dev, &tx->ring);
}

static void rnic_tx_stop_if_full(struct rnic_dev *dev,
				 struct rnic_tx_queue *tx)
{
	if (rnic_tx_room(tx))
		return;
	netif_stop_queue(dev->netdev);
	/* Either we see the room that rnic_tx_reclaim() makes, or it us. */
	smp_mb();
	if (rnic_tx_room(tx))
		netif_start_queue(dev->netdev);
}

/* Frees the frame if it fails. */
static int rnic_tx_add(struct rnic_dev *dev, struct rnic_tx_queue *tx,
		       struct sk_buff *skb)
{
	if (skb_put_padto(skb, ETH_ZLEN))
		return -ENOMEM;
	if (rnic_eth_ring_add(dev, &tx->ring, skb, skb->len, DMA_TO_DEVICE)) {
		dev_kfree_skb_any(skb);
		return -ENOMEM;
	}
	skb_tx_timestamp(skb);
	return 0;
}

netdev_tx_t rnic_tx_send(struct rnic_dev *dev, struct rnic_tx_queue *tx,
			 struct sk_buff *skb)
{
	struct net_device *netdev = dev->netdev;

	if (unlikely(!rnic_tx_room(tx)))
		return NETDEV_TX_BUSY;
	if (rnic_tx_add(dev, tx, skb))
		netdev->stats.tx_dropped++;
	rnic_tx_stop_if_full(dev, tx);
	/* Also if this one was dropped: those before it may wait for the kick. */
	if (!netdev_xmit_more() || netif_queue_stopped(netdev))
		rnic_eth_ring_kick(dev, &tx->ring);
	rnic_tx_arm(dev, tx);
	return NETDEV_TX_OK;
}

static void rnic_tx_count(struct net_device *netdev,
			  const struct rnic_eth_desc *desc, u32 length)
{
	if (le32_to_cpu(desc->flags) & RNIC_ETH_DESC_ERROR) {
		netdev->stats.tx_errors++;
		return;
	}
	netdev->stats.tx_packets++;
	netdev->stats.tx_bytes += length;
}

void rnic_tx_reclaim(struct rnic_dev *dev, struct rnic_tx_queue *tx,
		     int budget)
{
	struct rnic_eth_ring *ring = &tx->ring;
	u32 ready;

	clear_bit(RNIC_TX_ARMED, &tx->armed);
	for (ready = rnic_eth_ring_ready(ring); ready; ready--) {
		u32 slot = rnic_eth_slot(ring->done);
		struct rnic_eth_buffer *buffer = &ring->buffers[slot];

		dma_unmap_single(&dev->pdev->dev, buffer->dma, buffer->length,
				 DMA_TO_DEVICE);
		rnic_tx_count(dev->netdev, &ring->descs[slot], buffer->length);
		napi_consume_skb(buffer->skb, budget);
		WRITE_ONCE(ring->done, ring->done + 1);
	}
	/* See rnic_tx_stop_if_full(). */
	smp_mb();
	if (netif_queue_stopped(dev->netdev) && rnic_tx_room(tx) &&
	    netif_running(dev->netdev))
		netif_wake_queue(dev->netdev);
}

static struct sk_buff *rnic_rx_alloc(struct rnic_dev *dev,
				     const struct rnic_rx_queue *rx)
{
	return netdev_alloc_skb_ip_align(dev->netdev, rx->room);
}

static int rnic_rx_add(struct rnic_dev *dev, struct rnic_rx_queue *rx)
{
	struct sk_buff *skb = rnic_rx_alloc(dev, rx);

	if (!skb)
		return -ENOMEM;
	if (rnic_eth_ring_add(dev, &rx->ring, skb, rx->room,
			      DMA_FROM_DEVICE)) {
		dev_kfree_skb_any(skb);
		return -ENOMEM;
	}
	return 0;
}

int rnic_rx_create(struct rnic_dev *dev, struct rnic_rx_queue *rx, u32 mtu)
{
	unsigned int i;
	int ret;

	rx->room = mtu + VLAN_ETH_HLEN + ETH_FCS_LEN;
	ret = rnic_eth_ring_create(dev, &rx->ring, RNIC_ETH_QUEUE_RX);
	if (ret)
		return ret;
	for (i = 0; i < RNIC_ETH_DEPTH; i++) {
		ret = rnic_rx_add(dev, rx);
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

static bool rnic_rx_frame_valid(const struct rnic_rx_queue *rx,
				const struct rnic_eth_desc *desc, u32 length)
{
	return !(le32_to_cpu(desc->flags) & RNIC_ETH_DESC_ERROR) &&
	       length >= ETH_HLEN && length <= rx->room;
}

static void rnic_rx_deliver(struct rnic_dev *dev, struct napi_struct *napi,
			    struct rnic_eth_buffer *buffer, u32 length)
{
	struct net_device *netdev = dev->netdev;
	struct sk_buff *skb = buffer->skb;

	dma_unmap_single(&dev->pdev->dev, buffer->dma, buffer->length,
			 DMA_FROM_DEVICE);
	skb_put(skb, length);
	skb->protocol = eth_type_trans(skb, netdev);
	netdev->stats.rx_packets++;
	netdev->stats.rx_bytes += length;
	napi_gro_receive(napi, skb);
}

/* Gives the same buffer again, and its frame is lost. */
static void rnic_rx_recycle(struct rnic_eth_ring *ring,
			    const struct rnic_eth_buffer *buffer)
{
	u32 slot = rnic_eth_slot(ring->producer);
	struct rnic_eth_desc *desc = &ring->descs[slot];

	ring->buffers[slot] = *buffer;
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
	u32 slot = rnic_eth_slot(ring->done);
	struct rnic_eth_buffer buffer = ring->buffers[slot];
	u32 length = le32_to_cpu(READ_ONCE(ring->descs[slot].length));
	bool valid = rnic_rx_frame_valid(rx, &ring->descs[slot], length);

	ring->done++;
	if (valid && !rnic_rx_add(dev, rx)) {
		rnic_rx_deliver(dev, napi, &buffer, length);
		return;
	}
	if (valid)
		dev->netdev->stats.rx_dropped++;
	else
		dev->netdev->stats.rx_errors++;
	rnic_rx_recycle(ring, &buffer);
}

int rnic_rx_receive(struct rnic_dev *dev, struct rnic_rx_queue *rx,
		    struct napi_struct *napi, int budget)
{
	int count = min_t(u32, rnic_eth_ring_ready(&rx->ring), budget);
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
