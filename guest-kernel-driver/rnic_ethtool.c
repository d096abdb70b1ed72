// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what ethtool reads and sets of the network interface. With the RTNL; may
 * sleep.
 *
 * There is nothing to coalesce: an interrupt comes once for each time that NAPI
 * asks for it.
 */

#include <linux/ethtool.h>
#include <linux/log2.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_netdev.h"

static int rnic_get_link_ksettings(struct net_device *netdev,
				   struct ethtool_link_ksettings *settings)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	/* Some callers do not ask whether the interface is attached. */
	u32 speed = nd->dev ? rnic_netdev_link(nd->dev) >> 8 : 0;

	settings->base.speed = speed ?: (u32)SPEED_UNKNOWN;
	settings->base.duplex = speed ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static void rnic_get_drvinfo(struct net_device *netdev,
			     struct ethtool_drvinfo *info)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	strscpy(info->driver, RNIC_DRIVER_NAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(nd->dev->pdev),
		sizeof(info->bus_info));
	rnic_firmware_version(nd->dev, info->fw_version,
			      sizeof(info->fw_version));
}

static void rnic_get_channels(struct net_device *netdev,
			      struct ethtool_channels *channels)
{
	channels->max_combined = 1;
	channels->combined_count = 1;
}

/* --------------------------------------------------------------- rings */

static void rnic_get_ringparam(struct net_device *netdev,
			       struct ethtool_ringparam *ring,
			       struct kernel_ethtool_ringparam *kernel_ring,
			       struct netlink_ext_ack *extack)
{
	struct rnic_netdev_setup setup;

	rnic_netdev_get_setup(netdev, &setup);
	ring->rx_max_pending = RNIC_ETH_MAX_DEPTH;
	ring->tx_max_pending = RNIC_ETH_MAX_DEPTH;
	ring->rx_pending = setup.rx_depth;
	ring->tx_pending = setup.tx_depth;
}

static u32 rnic_ring_depth(u32 wanted)
{
	return roundup_pow_of_two(clamp_t(u32, wanted, RNIC_ETH_MIN_DEPTH,
					  RNIC_ETH_MAX_DEPTH));
}

/* Depths become powers of two. */
static int rnic_set_ringparam(struct net_device *netdev,
			      struct ethtool_ringparam *ring,
			      struct kernel_ethtool_ringparam *kernel_ring,
			      struct netlink_ext_ack *extack)
{
	struct rnic_netdev_setup setup, before;

	rnic_netdev_get_setup(netdev, &setup);
	before = setup;
	setup.rx_depth = rnic_ring_depth(ring->rx_pending);
	setup.tx_depth = rnic_ring_depth(ring->tx_pending);
	if (setup.rx_depth == before.rx_depth &&
	    setup.tx_depth == before.tx_depth)
		return 0;
	return rnic_netdev_change(netdev, &setup);
}

/* ------------------------------------------------------------ counters */

static const char * const rnic_xmit_names[] = {
	[RNIC_XMIT_KICKS] = "tx_kicks",
	[RNIC_XMIT_STOPS] = "tx_stops",
	[RNIC_XMIT_NO_MEMORY] = "tx_drops_no_memory",
	[RNIC_XMIT_NOT_MAPPED] = "tx_drops_not_mapped",
};

static const char * const rnic_sent_names[] = {
	[RNIC_SENT_PACKETS] = "tx_packets",
	[RNIC_SENT_OCTETS] = "tx_octets",
	[RNIC_SENT_ERRORS] = "tx_errors",
	[RNIC_SENT_WAKES] = "tx_wakes",
};

static const char * const rnic_rx_names[] = {
	[RNIC_RX_PACKETS] = "rx_packets",
	[RNIC_RX_OCTETS] = "rx_octets",
	[RNIC_RX_ERRORS] = "rx_errors",
	[RNIC_RX_BAD_LENGTH] = "rx_bad_length",
	[RNIC_RX_NO_MEMORY] = "rx_drops_no_memory",
};

/* Since its last reset; zero if it does not answer. */
static const char * const rnic_device_names[] = {
	"device_tx_packets",
	"device_tx_octets",
	"device_rx_packets",
	"device_rx_octets",
	"device_rx_drops",
};

static_assert(ARRAY_SIZE(rnic_xmit_names) == RNIC_XMIT_STATS);
static_assert(ARRAY_SIZE(rnic_sent_names) == RNIC_SENT_STATS);
static_assert(ARRAY_SIZE(rnic_rx_names) == RNIC_RX_STATS);

static const struct {
	const char * const *names;
	unsigned int count;
} rnic_stat_groups[] = {
	{ rnic_xmit_names, ARRAY_SIZE(rnic_xmit_names) },
	{ rnic_sent_names, ARRAY_SIZE(rnic_sent_names) },
	{ rnic_rx_names, ARRAY_SIZE(rnic_rx_names) },
	{ rnic_device_names, ARRAY_SIZE(rnic_device_names) },
};

static int rnic_get_sset_count(struct net_device *netdev, int set)
{
	unsigned int i;
	int count = 0;

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	for (i = 0; i < ARRAY_SIZE(rnic_stat_groups); i++)
		count += rnic_stat_groups[i].count;
	return count;
}

static void rnic_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	unsigned int i, j;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < ARRAY_SIZE(rnic_stat_groups); i++)
		for (j = 0; j < rnic_stat_groups[i].count; j++)
			ethtool_sprintf(&data, "%s",
					rnic_stat_groups[i].names[j]);
}

static void rnic_get_device_stats(struct rnic_dev *dev, u64 *data)
{
	struct rnic_counters counters = {};

	if (rnic_cmd_query_counters(dev, &counters))
		memset(&counters, 0, sizeof(counters));
	data[0] = le64_to_cpu(counters.eth_tx_packets);
	data[1] = le64_to_cpu(counters.eth_tx_octets);
	data[2] = le64_to_cpu(counters.eth_rx_packets);
	data[3] = le64_to_cpu(counters.eth_rx_octets);
	data[4] = le64_to_cpu(counters.eth_rx_drops);
}

static void rnic_get_ethtool_stats(struct net_device *netdev,
				   struct ethtool_stats *stats, u64 *data)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	rnic_eth_stats_read(&nd->tx.xmit, data, RNIC_XMIT_STATS);
	data += RNIC_XMIT_STATS;
	rnic_eth_stats_read(&nd->tx.sent, data, RNIC_SENT_STATS);
	data += RNIC_SENT_STATS;
	rnic_eth_stats_read(&nd->rx.stats, data, RNIC_RX_STATS);
	data += RNIC_RX_STATS;
	rnic_get_device_stats(nd->dev, data);
}

const struct ethtool_ops rnic_ethtool_ops = {
	.get_drvinfo = rnic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = rnic_get_link_ksettings,
	.get_channels = rnic_get_channels,
	.get_ringparam = rnic_get_ringparam,
	.set_ringparam = rnic_set_ringparam,
	.get_sset_count = rnic_get_sset_count,
	.get_strings = rnic_get_strings,
	.get_ethtool_stats = rnic_get_ethtool_stats,
	.get_ts_info = ethtool_op_get_ts_info,
};

const struct ethtool_ops rnic_ethtool_address_ops = {
	.get_drvinfo = rnic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = rnic_get_link_ksettings,
};
