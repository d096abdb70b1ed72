/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: what the Ethernet queues count.
 *
 * A struct is written by one context alone: the transmission of frames, with the
 * lock of the transmit queue; NAPI, of what was sent; NAPI, of what was received.
 * Anyone may read. The numbers live as long as the interface.
 */
#ifndef RNIC_ETH_STATS_H
#define RNIC_ETH_STATS_H

#include <linux/u64_stats_sync.h>

/* Of frames to be sent. */
enum rnic_xmit_stat {
	RNIC_XMIT_KICKS,		/* the device was told */
	RNIC_XMIT_STOPS,		/* the ring was full */
	RNIC_XMIT_NO_MEMORY,		/* dropped: a copy was needed */
	RNIC_XMIT_NOT_MAPPED,		/* dropped: no bus address */
	RNIC_XMIT_STATS,
};

/* Of frames that the device is done with. */
enum rnic_sent_stat {
	RNIC_SENT_PACKETS,
	RNIC_SENT_OCTETS,
	RNIC_SENT_ERRORS,		/* the device could not send it */
	RNIC_SENT_WAKES,		/* the ring has room again */
	RNIC_SENT_STATS,
};

enum rnic_rx_stat {
	RNIC_RX_PACKETS,
	RNIC_RX_OCTETS,
	RNIC_RX_ERRORS,			/* the device could not store it */
	RNIC_RX_BAD_LENGTH,
	RNIC_RX_NO_MEMORY,		/* dropped: no buffer in its place */
	RNIC_RX_STATS,
};

#define RNIC_ETH_MAX_STATS	5

static_assert(RNIC_XMIT_STATS <= RNIC_ETH_MAX_STATS);
static_assert(RNIC_SENT_STATS <= RNIC_ETH_MAX_STATS);
static_assert(RNIC_RX_STATS <= RNIC_ETH_MAX_STATS);

struct rnic_eth_stats {
	struct u64_stats_sync sync;
	u64_stats_t count[RNIC_ETH_MAX_STATS];
};

static inline void rnic_eth_count(struct rnic_eth_stats *stats,
				  unsigned int which, u64 number)
{
	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->count[which], number);
	u64_stats_update_end(&stats->sync);
}

static inline void rnic_eth_count_frame(struct rnic_eth_stats *stats,
					unsigned int packets,
					unsigned int octets, u32 length)
{
	u64_stats_update_begin(&stats->sync);
	u64_stats_inc(&stats->count[packets]);
	u64_stats_add(&stats->count[octets], length);
	u64_stats_update_end(&stats->sync);
}

/* The first number of them, as they were at one time. */
static inline void rnic_eth_stats_read(const struct rnic_eth_stats *stats,
				       u64 *values, unsigned int number)
{
	unsigned int start;
	unsigned int i;

	do {
		start = u64_stats_fetch_begin(&stats->sync);
		for (i = 0; i < number; i++)
			values[i] = u64_stats_read(&stats->count[i]);
	} while (u64_stats_fetch_retry(&stats->sync, start));
}

#endif /* RNIC_ETH_STATS_H */
