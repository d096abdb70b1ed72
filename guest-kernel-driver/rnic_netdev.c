// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the network interface.
 *
 * It gives the RDMA port its addresses. If the device has an Ethernet side it
 * carries ordinary traffic, too; if not, it is up, knows no neighbours, and
 * drops what is sent.
 *
 * The interface is the PCI function's and outlives its devices: while there is
 * none it is detached, and keeps its addresses and its statistics.
 *
 * Operations run with the RTNL and may sleep, but for ndo_start_xmit,
 * ndo_set_rx_mode and ndo_get_stats64. Those that use the device run only while
 * the interface is attached, but for rnic_netdev_stop().
 */

#include <linux/etherdevice.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_eth_queue.h"
#include "rnic_netdev.h"

static netdev_tx_t rnic_start_xmit(struct sk_buff *skb,
				   struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	return rnic_tx_send(nd->dev, &nd->tx, skb);
}

static int rnic_napi_poll(struct napi_struct *napi, int budget)
{
	struct rnic_netdev *nd = container_of(napi, struct rnic_netdev, napi);
	int done;

	rnic_tx_reclaim(nd->dev, &nd->tx, budget);
	done = rnic_rx_receive(nd->dev, &nd->rx, napi, budget);
	if (done < budget && napi_complete_done(napi, done)) {
		rnic_tx_arm(nd->dev, &nd->tx);
		rnic_rx_arm(nd->dev, &nd->rx);
	}
	return done;
}

void rnic_netdev_interrupt(struct rnic_dev *dev)
{
	struct net_device *netdev = READ_ONCE(dev->netdev);
	struct rnic_netdev *nd;

	if (!netdev || !rnic_has(dev, RNIC_FEATURE_ETHERNET))
		return;
	nd = netdev_priv(netdev);
	napi_schedule(&nd->napi);
}

static int rnic_netdev_open(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	int ret;

	ret = rnic_tx_create(nd->dev, &nd->tx, nd->tx_depth);
	if (ret)
		return ret;
	ret = rnic_rx_create(nd->dev, &nd->rx, nd->rx_depth, netdev->mtu);
	if (ret) {
		rnic_tx_destroy(nd->dev, &nd->tx);
		return ret;
	}
	WRITE_ONCE(nd->open, true);
	napi_enable(&nd->napi);
	netif_start_queue(netdev);
	rnic_rx_arm(nd->dev, &nd->rx);
	return 0;
}

static int rnic_netdev_stop(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	if (!nd->open)
		return 0;
	WRITE_ONCE(nd->open, false);
	/* NAPI first: it wakes the queue. */
	napi_disable(&nd->napi);
	netif_tx_disable(netdev);
	rnic_rx_destroy(nd->dev, &nd->rx);
	rnic_tx_destroy(nd->dev, &nd->tx);
	return 0;
}

void rnic_netdev_get_setup(const struct net_device *netdev,
			   struct rnic_netdev_setup *setup)
{
	const struct rnic_netdev *nd = netdev_priv(netdev);

	*setup = (struct rnic_netdev_setup) {
		.mtu = netdev->mtu,
		.tx_depth = nd->tx_depth,
		.rx_depth = nd->rx_depth,
	};
}

static void rnic_netdev_set_setup(struct net_device *netdev,
				  const struct rnic_netdev_setup *setup)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	WRITE_ONCE(netdev->mtu, setup->mtu);
	nd->tx_depth = setup->tx_depth;
	nd->rx_depth = setup->rx_depth;
}

static int rnic_netdev_open_with(struct net_device *netdev,
				 const struct rnic_netdev_setup *setup)
{
	int ret;

	rnic_netdev_set_setup(netdev, setup);
	ret = rnic_netdev_open(netdev);
	/* Frames have waited meanwhile. */
	if (!ret)
		netif_schedule_queue(netdev_get_tx_queue(netdev, 0));
	return ret;
}

int rnic_netdev_change(struct net_device *netdev,
		       const struct rnic_netdev_setup *setup)
{
	struct rnic_netdev_setup before;
	int ret;

	if (!netif_running(netdev)) {
		rnic_netdev_set_setup(netdev, setup);
		return 0;
	}
	rnic_netdev_get_setup(netdev, &before);
	rnic_netdev_stop(netdev);
	ret = rnic_netdev_open_with(netdev, setup);
	if (ret && rnic_netdev_open_with(netdev, &before))
		dev_close(netdev);
	return ret;
}

/* Receive buffers are as long as the MTU wants them. */
static int rnic_change_mtu(struct net_device *netdev, int mtu)
{
	struct rnic_netdev_setup setup;

	rnic_netdev_get_setup(netdev, &setup);
	setup.mtu = mtu;
	return rnic_netdev_change(netdev, &setup);
}

/* ------------------------------------------------------ what is received */

/* The addresses that SET_RX_MODE takes, and its mode. */
struct rnic_rx_filter {
	u32 mode;
	unsigned int count;
	u8 macs[ETH_ALEN * RNIC_RX_MAX_ADDRESSES] __aligned(2);
};

static void rnic_rx_filter_add(struct rnic_rx_filter *filter, const u8 *mac)
{
	ether_addr_copy(filter->macs + ETH_ALEN * filter->count++, mac);
}

static unsigned int rnic_rx_filter_room(const struct rnic_rx_filter *filter)
{
	return RNIC_RX_MAX_ADDRESSES - filter->count;
}

/* What the interface is addressed by, own being its MAC. */
static void rnic_rx_filter_unicast(struct net_device *netdev, const u8 *own,
				   struct rnic_rx_filter *filter)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	struct netdev_hw_addr *ha;

	if (!rnic_has(nd->dev, RNIC_FEATURE_UNICAST_LIST))
		return;
	filter->mode |= RNIC_RX_LISTED_ONLY;
	rnic_rx_filter_add(filter, own);
	if (netdev_uc_count(netdev) > rnic_rx_filter_room(filter)) {
		filter->mode |= RNIC_RX_PROMISCUOUS;
		return;
	}
	netdev_for_each_uc_addr(ha, netdev)
		rnic_rx_filter_add(filter, ha->addr);
}

static void rnic_rx_filter_multicast(struct net_device *netdev,
				     struct rnic_rx_filter *filter)
{
	struct netdev_hw_addr *ha;

	if ((netdev->flags & IFF_ALLMULTI) ||
	    netdev_mc_count(netdev) > rnic_rx_filter_room(filter)) {
		filter->mode |= RNIC_RX_ALL_MULTICAST;
		return;
	}
	netdev_for_each_mc_addr(ha, netdev)
		rnic_rx_filter_add(filter, ha->addr);
}

/* own: the MAC, which may not be the interface's yet. */
static int rnic_rx_filter_set(struct net_device *netdev, const u8 *own)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	struct rnic_rx_filter filter = {};

	lockdep_assert_held(&nd->rx_mode_lock);
	netif_addr_lock_bh(netdev);
	if (netdev->flags & IFF_PROMISC)
		filter.mode |= RNIC_RX_PROMISCUOUS;
	rnic_rx_filter_unicast(netdev, own, &filter);
	rnic_rx_filter_multicast(netdev, &filter);
	netif_addr_unlock_bh(netdev);
	return rnic_cmd_set_rx_mode(nd->dev, filter.mode, filter.macs,
				    filter.count);
}

static void rnic_rx_mode_work(struct work_struct *work)
{
	struct rnic_netdev *nd = container_of(work, struct rnic_netdev,
					      rx_mode_work);
	int ret = 0;

	mutex_lock(&nd->rx_mode_lock);
	if (nd->dev)
		ret = rnic_rx_filter_set(nd->netdev, nd->netdev->dev_addr);
	mutex_unlock(&nd->rx_mode_lock);
	if (ret)
		netdev_dbg(nd->netdev, "receive mode refused: %d\n", ret);
}

/* Called in atomic context, but the command sleeps. */
static void rnic_set_rx_mode(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	schedule_work(&nd->rx_mode_work);
}

static int rnic_set_mac_address(struct net_device *netdev, void *address)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	const struct sockaddr *wanted = address;
	int ret;

	if (!rnic_has(nd->dev, RNIC_FEATURE_UNICAST_LIST))
		return -EOPNOTSUPP;
	ret = eth_prepare_mac_addr_change(netdev, address);
	if (ret)
		return ret;
	/* The work item would bring the former address back. */
	mutex_lock(&nd->rx_mode_lock);
	ret = rnic_rx_filter_set(netdev, wanted->sa_data);
	if (!ret)
		eth_commit_mac_addr_change(netdev, address);
	mutex_unlock(&nd->rx_mode_lock);
	return ret;
}

static void rnic_get_stats64(struct net_device *netdev,
			     struct rtnl_link_stats64 *stats)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	u64 xmit[RNIC_XMIT_STATS], sent[RNIC_SENT_STATS], rx[RNIC_RX_STATS];

	rnic_eth_stats_read(&nd->tx.xmit, xmit, RNIC_XMIT_STATS);
	rnic_eth_stats_read(&nd->tx.sent, sent, RNIC_SENT_STATS);
	rnic_eth_stats_read(&nd->rx.stats, rx, RNIC_RX_STATS);
	stats->tx_packets = sent[RNIC_SENT_PACKETS];
	stats->tx_bytes = sent[RNIC_SENT_OCTETS];
	stats->tx_errors = sent[RNIC_SENT_ERRORS];
	stats->tx_dropped = xmit[RNIC_XMIT_NO_MEMORY] +
			    xmit[RNIC_XMIT_NOT_MAPPED];
	stats->rx_packets = rx[RNIC_RX_PACKETS];
	stats->rx_bytes = rx[RNIC_RX_OCTETS];
	stats->rx_errors = rx[RNIC_RX_ERRORS] + rx[RNIC_RX_BAD_LENGTH];
	stats->rx_length_errors = rx[RNIC_RX_BAD_LENGTH];
	stats->rx_dropped = rx[RNIC_RX_NO_MEMORY];
}

/*
 * The queue has been full for long. The host may be slow, so this is no failure; but a
 * kick or an interrupt may have been lost.
 */
static void rnic_tx_timeout(struct net_device *netdev, unsigned int queue)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	/* The watchdog's lock orders it after rnic_netdev_stop(). */
	if (!READ_ONCE(nd->open))
		return;
	rnic_tx_kick(nd->dev, &nd->tx);
	napi_schedule(&nd->napi);
}

static const struct net_device_ops rnic_netdev_ops = {
	.ndo_open = rnic_netdev_open,
	.ndo_stop = rnic_netdev_stop,
	.ndo_start_xmit = rnic_start_xmit,
	.ndo_tx_timeout = rnic_tx_timeout,
	.ndo_set_rx_mode = rnic_set_rx_mode,
	.ndo_change_mtu = rnic_change_mtu,
	.ndo_get_stats64 = rnic_get_stats64,
	.ndo_set_mac_address = rnic_set_mac_address,
	.ndo_validate_addr = eth_validate_addr,
};

static netdev_tx_t rnic_drop_xmit(struct sk_buff *skb,
				  struct net_device *netdev)
{
	dev_core_stats_tx_dropped_inc(netdev);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

/* Of an interface that is there for its addresses only. */
static const struct net_device_ops rnic_netdev_address_ops = {
	.ndo_start_xmit = rnic_drop_xmit,
	.ndo_validate_addr = eth_validate_addr,
};

u32 rnic_netdev_link(struct rnic_dev *dev)
{
	u32 link = rnic_failed(dev) ? 0 : rnic_read32(dev, RNIC_REG_LINK);

	return link == U32_MAX ? 0 : link;
}

/*
 * The event queues outlive what a device has of the interface, and a device can
 * fail as long as there is one: then the carrier may be another device's, and after
 * unregister_netdev() linkwatch would be left with an interface that is about to be
 * freed.
 */
void rnic_netdev_link_changed(struct rnic_dev *dev)
{
	mutex_lock(&dev->carrier_lock);
	if (dev->netdev_attached && (rnic_netdev_link(dev) & 1))
		netif_carrier_on(dev->netdev);
	else if (dev->netdev_attached)
		netif_carrier_off(dev->netdev);
	mutex_unlock(&dev->carrier_lock);
}

static void rnic_netdev_set_attached(struct rnic_dev *dev, bool attached)
{
	mutex_lock(&dev->carrier_lock);
	dev->netdev_attached = attached;
	mutex_unlock(&dev->carrier_lock);
}

/* What the interface is made for: operations, flags. */
static u64 rnic_netdev_features(const struct rnic_dev *dev)
{
	return dev->features & (RNIC_FEATURE_ETHERNET |
				RNIC_FEATURE_UNICAST_LIST);
}

static void rnic_netdev_setup(struct rnic_dev *dev, struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	nd->netdev = netdev;
	nd->features = rnic_netdev_features(dev);
	nd->tx_depth = RNIC_ETH_DEFAULT_DEPTH;
	nd->rx_depth = RNIC_ETH_DEFAULT_DEPTH;
	rnic_eth_stats_init(&nd->tx, &nd->rx);
	mutex_init(&nd->rx_mode_lock);
	INIT_WORK(&nd->rx_mode_work, rnic_rx_mode_work);
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	eth_hw_addr_set(netdev, dev->mac);
	netif_carrier_off(netdev);
	netdev->max_mtu = dev->limits.mtu;
	if (rnic_has(dev, RNIC_FEATURE_ETHERNET)) {
		netdev->netdev_ops = &rnic_netdev_ops;
		netdev->ethtool_ops = &rnic_ethtool_ops;
		netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
		if (rnic_has(dev, RNIC_FEATURE_UNICAST_LIST))
			netdev->priv_flags |= IFF_UNICAST_FLT;
		netif_napi_add(netdev, &nd->napi, rnic_napi_poll);
	} else {
		netdev->netdev_ops = &rnic_netdev_address_ops;
		netdev->ethtool_ops = &rnic_ethtool_address_ops;
		netdev->flags |= IFF_NOARP;
	}
}

void rnic_netdev_init(struct rnic_dev *dev)
{
	mutex_init(&dev->carrier_lock);
}

/* The work item may look at it at any time. */
static void rnic_netdev_set_dev(struct rnic_netdev *nd, struct rnic_dev *dev)
{
	mutex_lock(&nd->rx_mode_lock);
	nd->dev = dev;
	mutex_unlock(&nd->rx_mode_lock);
}

static int rnic_netdev_register(struct rnic_dev *dev)
{
	struct rnic_netdev *nd = netdev_priv(dev->netdev);
	int ret;

	rnic_netdev_set_dev(nd, dev);
	ret = register_netdev(dev->netdev);
	if (ret)
		rnic_netdev_set_dev(nd, NULL);
	return ret;
}

/* An interface that is up is opened again, with what was set meanwhile. */
static int rnic_netdev_reopen(struct rnic_dev *dev)
{
	struct net_device *netdev = dev->netdev;
	struct rnic_netdev *nd = netdev_priv(netdev);
	int ret = 0;

	rtnl_lock();
	rnic_netdev_set_dev(nd, dev);
	netdev->max_mtu = dev->limits.mtu;
	if (netif_running(netdev) && rnic_has(dev, RNIC_FEATURE_ETHERNET))
		ret = rnic_netdev_open(netdev);
	if (ret)
		rnic_netdev_set_dev(nd, NULL);
	else
		netif_device_attach(netdev);
	rtnl_unlock();
	if (!ret && rnic_has(dev, RNIC_FEATURE_ETHERNET))
		schedule_work(&nd->rx_mode_work);
	return ret;
}

/* Is the device still what the interface was made for? */
static bool rnic_netdev_fits(const struct rnic_dev *dev,
			     const struct net_device *netdev)
{
	const struct rnic_netdev *nd = netdev_priv(netdev);

	return rnic_netdev_features(dev) == nd->features &&
	       dev->limits.mtu >= READ_ONCE(netdev->mtu);
}

struct net_device *rnic_netdev_create(struct rnic_dev *dev)
{
	struct net_device *netdev = alloc_etherdev(sizeof(struct rnic_netdev));

	if (netdev)
		rnic_netdev_setup(dev, netdev);
	return netdev;
}

int rnic_netdev_attach(struct rnic_dev *dev, struct net_device *netdev)
{
	int ret;

	if (!rnic_netdev_fits(dev, netdev)) {
		dev_err(&dev->pdev->dev,
			"the device is not what its interface was made for\n");
		return -EINVAL;
	}
	WRITE_ONCE(dev->netdev, netdev);
	ret = netdev->reg_state == NETREG_REGISTERED ?
	      rnic_netdev_reopen(dev) : rnic_netdev_register(dev);
	if (ret)
		return ret;
	rnic_netdev_set_attached(dev, true);
	rnic_netdev_link_changed(dev);
	return 0;
}

void rnic_netdev_detach(struct rnic_dev *dev)
{
	struct net_device *netdev = dev->netdev;
	struct rnic_netdev *nd = netdev_priv(netdev);

	rnic_netdev_set_attached(dev, false);
	rtnl_lock();
	netif_device_detach(netdev);
	netif_carrier_off(netdev);
	rnic_netdev_stop(netdev);
	rnic_netdev_set_dev(nd, NULL);
	rtnl_unlock();
}

void rnic_netdev_remove(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	if (netdev->reg_state == NETREG_REGISTERED)
		unregister_netdev(netdev);
	cancel_work_sync(&nd->rx_mode_work);
	free_netdev(netdev);
}
