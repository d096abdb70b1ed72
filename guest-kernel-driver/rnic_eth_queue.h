/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the Ethernet queues.
 */
#ifndef RNIC_ETH_QUEUE_H
#define RNIC_ETH_QUEUE_H

#include <linux/netdevice.h>

#include "rnic_eth_stats.h"
#include "rnic_queue_memory.h"

struct rnic_dev;

/* Depths are powers of two, up to RNIC_ETH_MAX_DEPTH. */
#define RNIC_ETH_MIN_DEPTH	16
#define RNIC_ETH_DEFAULT_DEPTH	256

struct rnic_eth_buffer {
	struct sk_buff *skb;
	dma_addr_t dma;
	u32 length;
};

/* The device has handled what is below its done index; we, below ours. */
struct rnic_eth_ring {
	struct rnic_queue queue;
	struct rnic_eth_record *record;
	u32 offset;			/* of the descriptors, in the queue */
	u32 number;			/* RNIC_ETH_QUEUE_* */
	u32 depth;
	u32 producer;
	u32 published;			/* of the producer index, to the device */
	u32 done;
	struct rnic_eth_buffer *buffers;	/* depth of them */
};

struct rnic_tx_queue {
	struct rnic_eth_ring ring;
	unsigned long armed;		/* bit 0: an interrupt is to come */
	struct rnic_eth_stats xmit;	/* enum rnic_xmit_stat */
	struct rnic_eth_stats sent;	/* enum rnic_sent_stat */
};

struct rnic_rx_queue {
	struct rnic_eth_ring ring;
	u32 room;			/* octets in each buffer */
	struct rnic_eth_stats stats;	/* enum rnic_rx_stat */
};

void rnic_eth_stats_init(struct rnic_tx_queue *tx, struct rnic_rx_queue *rx);

int rnic_tx_create(struct rnic_dev *dev, struct rnic_tx_queue *tx, u32 depth);
/* Nothing sends or reclaims any more. */
void rnic_tx_destroy(struct rnic_dev *dev, struct rnic_tx_queue *tx);
netdev_tx_t rnic_tx_send(struct rnic_dev *dev, struct rnic_tx_queue *tx,
			 struct sk_buff *skb);
void rnic_tx_reclaim(struct rnic_dev *dev, struct rnic_tx_queue *tx,
		     int budget);
void rnic_tx_arm(struct rnic_dev *dev, struct rnic_tx_queue *tx);
/* Tells the device once more of what was sent; with the transmit queue's lock. */
void rnic_tx_kick(struct rnic_dev *dev, struct rnic_tx_queue *tx);

int rnic_rx_create(struct rnic_dev *dev, struct rnic_rx_queue *rx, u32 depth,
		   u32 mtu);
void rnic_rx_destroy(struct rnic_dev *dev, struct rnic_rx_queue *rx);
int rnic_rx_receive(struct rnic_dev *dev, struct rnic_rx_queue *rx,
		    struct napi_struct *napi, int budget);
void rnic_rx_arm(struct rnic_dev *dev, struct rnic_rx_queue *rx);

#endif /* RNIC_ETH_QUEUE_H */
