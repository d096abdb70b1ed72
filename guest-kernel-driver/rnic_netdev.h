/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the network interface.
 */
#ifndef RNIC_NETDEV_H
#define RNIC_NETDEV_H

#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>

#include "rnic_eth_queue.h"

struct rnic_dev;

/* What an open interface's queues are made by. With the RTNL. */
struct rnic_netdev_setup {
	u32 mtu;
	u32 tx_depth;
	u32 rx_depth;
};

/* The private part of struct net_device. */
struct rnic_netdev {
	struct net_device *netdev;
	struct rnic_dev *dev;		/* NULL: detached */
	u64 features;			/* that the operations are made for */
	struct napi_struct napi;
	struct work_struct rx_mode_work;
	struct mutex rx_mode_lock;	/* SET_RX_MODE, and what it is made of */
	bool open;			/* the queues exist */
	u32 tx_depth;			/* of the next open; with the RTNL */
	u32 rx_depth;
	struct rnic_tx_queue tx;
	struct rnic_rx_queue rx;
};

extern const struct ethtool_ops rnic_ethtool_ops;
/* Of an interface that is there for its addresses only. */
extern const struct ethtool_ops rnic_ethtool_address_ops;

void rnic_netdev_init(struct rnic_dev *dev);

/*
 * An interface for this device and those that take its place; belongs to the
 * caller. NULL: no memory.
 */
struct net_device *rnic_netdev_create(struct rnic_dev *dev);
/* When no device uses it any more. */
void rnic_netdev_remove(struct net_device *netdev);

/*
 * From now on the interface, which the first call registers, is this device's: one
 * that is up is opened. dev->netdev is valid as long as the device, as it is freed
 * later. Refuses a device that differs from the one that the interface was made for.
 */
int rnic_netdev_attach(struct rnic_dev *dev, struct net_device *netdev);
/* The interface loses its carrier, and nothing of it uses the device any more. */
void rnic_netdev_detach(struct rnic_dev *dev);

/*
 * With the RTNL. An interface that is up is closed and opened again; if that fails
 * it has the setup it had before, or it is down.
 */
int rnic_netdev_change(struct net_device *netdev,
		       const struct rnic_netdev_setup *setup);
void rnic_netdev_get_setup(const struct net_device *netdev,
			   struct rnic_netdev_setup *setup);

/* RNIC_REG_LINK; zero, as if down and of no speed, of a device that is dead. */
u32 rnic_netdev_link(struct rnic_dev *dev);

/* From the interrupt handler. */
void rnic_netdev_interrupt(struct rnic_dev *dev);
/* The link has changed, or the device has failed. May sleep. */
void rnic_netdev_link_changed(struct rnic_dev *dev);

#endif /* RNIC_NETDEV_H */
