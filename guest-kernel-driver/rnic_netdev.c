// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the network interface.
 *
 * It gives the RDMA port its addresses. If the device has an Ethernet side it
 * carries ordinary traffic, too; if not, it is up, knows no neighbours, and
 * drops what is sent.
 */

#include <linux/ethtool.h>
#include <linux/etherdevice.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_eth_queue.h"
#include "rnic_netdev.h"

struct rnic_netdev {
	struct rnic_dev *dev;
	struct napi_struct napi;
	struct work_struct rx_mode_work;
	bool open;			/* the queues exist */
	struct rnic_tx_queue tx;
	struct rnic_rx_queue rx;
};

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
	napi_schedule_irqoff(&nd->napi);
}

static int rnic_netdev_open(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	int ret;

	ret = rnic_tx_create(nd->dev, &nd->tx);
	if (ret)
		return ret;
	ret = rnic_rx_create(nd->dev, &nd->rx, netdev->mtu);
	if (ret) {
		rnic_tx_destroy(nd->dev, &nd->tx);
		return ret;
	}
	nd->open = true;
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
	nd->open = false;
	netif_tx_disable(netdev);
	napi_disable(&nd->napi);
	rnic_rx_destroy(nd->dev, &nd->rx);
	rnic_tx_destroy(nd->dev, &nd->tx);
	return 0;
}

static int rnic_netdev_open_with(struct net_device *netdev, int mtu)
{
	WRITE_ONCE(netdev->mtu, mtu);
	return rnic_netdev_open(netdev);
}

/*
 * Receive buffers are as long as the MTU wants them. If there is no memory for
 * them, it is as before; an interface that is up needs its queues.
 */
static int rnic_change_mtu(struct net_device *netdev, int mtu)
{
	int before = netdev->mtu;
	int ret;

	if (!netif_running(netdev)) {
		WRITE_ONCE(netdev->mtu, mtu);
		return 0;
	}
	rnic_netdev_stop(netdev);
	ret = rnic_netdev_open_with(netdev, mtu);
	if (ret && rnic_netdev_open_with(netdev, before))
		dev_close(netdev);
	return ret;
}

/* All there are room for, or 0 with ALL_MULTICAST in mode. */
static unsigned int rnic_copy_multicast(struct net_device *netdev, u8 *macs,
					u32 *mode)
{
	struct netdev_hw_addr *ha;
	unsigned int count = 0;

	if (netdev->flags & IFF_PROMISC)
		*mode |= RNIC_RX_PROMISCUOUS;
	if ((netdev->flags & IFF_ALLMULTI) ||
	    netdev_mc_count(netdev) > RNIC_RX_MAX_MULTICAST) {
		*mode |= RNIC_RX_ALL_MULTICAST;
		return 0;
	}
	netdev_for_each_mc_addr(ha, netdev)
		ether_addr_copy(macs + ETH_ALEN * count++, ha->addr);
	return count;
}

static void rnic_rx_mode_work(struct work_struct *work)
{
	struct rnic_netdev *nd = container_of(work, struct rnic_netdev,
					      rx_mode_work);
	struct net_device *netdev = nd->dev->netdev;
	u8 macs[ETH_ALEN * RNIC_RX_MAX_MULTICAST] __aligned(2);
	unsigned int count;
	u32 mode = 0;

	netif_addr_lock_bh(netdev);
	count = rnic_copy_multicast(netdev, macs, &mode);
	netif_addr_unlock_bh(netdev);
	if (rnic_cmd_set_rx_mode(nd->dev, mode, macs, count))
		netdev_dbg(netdev, "receive mode %#x refused\n", mode);
}

/* Called in atomic context, but the command sleeps. */
static void rnic_set_rx_mode(struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	schedule_work(&nd->rx_mode_work);
}

static const struct net_device_ops rnic_netdev_ops = {
	.ndo_open = rnic_netdev_open,
	.ndo_stop = rnic_netdev_stop,
	.ndo_start_xmit = rnic_start_xmit,
	.ndo_set_rx_mode = rnic_set_rx_mode,
	.ndo_change_mtu = rnic_change_mtu,
	.ndo_validate_addr = eth_validate_addr,
};

static netdev_tx_t rnic_drop_xmit(struct sk_buff *skb,
				  struct net_device *netdev)
{
	netdev->stats.tx_dropped++;
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

/* Of an interface that is there for its addresses only. */
static const struct net_device_ops rnic_netdev_address_ops = {
	.ndo_start_xmit = rnic_drop_xmit,
	.ndo_validate_addr = eth_validate_addr,
};

/* RNIC_REG_LINK; zero, as if down and of no speed, of a device that is dead. */
static u32 rnic_link(struct rnic_dev *dev)
{
	u32 link = rnic_failed(dev) ? 0 : rnic_read32(dev, RNIC_REG_LINK);

	return link == U32_MAX ? 0 : link;
}

static int rnic_get_link_ksettings(struct net_device *netdev,
				   struct ethtool_link_ksettings *settings)
{
	struct rnic_netdev *nd = netdev_priv(netdev);
	u32 speed = rnic_link(nd->dev) >> 8;

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

static const struct ethtool_ops rnic_ethtool_ops = {
	.get_drvinfo = rnic_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = rnic_get_link_ksettings,
};

/*
 * The event queues outlive the interface, and a device can fail as long as there
 * is one: a change of the carrier after unregister_netdev() would leave linkwatch
 * with an interface that is about to be freed.
 */
void rnic_netdev_link_changed(struct rnic_dev *dev)
{
	mutex_lock(&dev->carrier_lock);
	if (dev->netdev_registered && (rnic_link(dev) & 1))
		netif_carrier_on(dev->netdev);
	else if (dev->netdev_registered)
		netif_carrier_off(dev->netdev);
	mutex_unlock(&dev->carrier_lock);
}

static void rnic_netdev_set_registered(struct rnic_dev *dev, bool registered)
{
	mutex_lock(&dev->carrier_lock);
	dev->netdev_registered = registered;
	mutex_unlock(&dev->carrier_lock);
}

static void rnic_netdev_setup(struct rnic_dev *dev, struct net_device *netdev)
{
	struct rnic_netdev *nd = netdev_priv(netdev);

	nd->dev = dev;
	INIT_WORK(&nd->rx_mode_work, rnic_rx_mode_work);
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	eth_hw_addr_set(netdev, dev->mac);
	netdev->ethtool_ops = &rnic_ethtool_ops;
	netdev->max_mtu = dev->limits.mtu;
	if (rnic_has(dev, RNIC_FEATURE_ETHERNET)) {
		netdev->netdev_ops = &rnic_netdev_ops;
		netif_napi_add(netdev, &nd->napi, rnic_napi_poll);
	} else {
		netdev->netdev_ops = &rnic_netdev_address_ops;
		netdev->flags |= IFF_NOARP;
	}
}

void rnic_netdev_init(struct rnic_dev *dev)
{
	mutex_init(&dev->carrier_lock);
}

int rnic_netdev_register(struct rnic_dev *dev)
{
	struct net_device *netdev = alloc_etherdev(sizeof(struct rnic_netdev));
	int ret;

	if (!netdev)
		return -ENOMEM;
	rnic_netdev_setup(dev, netdev);
	WRITE_ONCE(dev->netdev, netdev);
	ret = register_netdev(netdev);
	if (ret)
		return ret;
	rnic_netdev_set_registered(dev, true);
	rnic_netdev_link_changed(dev);
	return 0;
}

void rnic_netdev_unregister(struct rnic_dev *dev)
{
	struct rnic_netdev *nd = netdev_priv(dev->netdev);

	rnic_netdev_set_registered(dev, false);
	unregister_netdev(dev->netdev);
	cancel_work_sync(&nd->rx_mode_work);
}

void rnic_netdev_free(struct rnic_dev *dev)
{
	if (dev->netdev)
		free_netdev(dev->netdev);
	dev->netdev = NULL;
}
