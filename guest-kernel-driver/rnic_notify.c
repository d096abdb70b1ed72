// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the RDMA port follows its network interface.
 */

#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "rnic.h"
#include "rnic_addresses.h"
#include "rnic_async.h"
#include "rnic_cm_listen.h"
#include "rnic_notify.h"

static bool rnic_port_is_up(const struct rnic_dev *dev)
{
	return netif_running(dev->netdev) && netif_carrier_ok(dev->netdev);
}

/* Newer cores make events of the port out of those of its interface. */
static void rnic_notify_port(struct rnic_dev *dev)
{
#ifndef RNIC_HAVE_REPORT_PORT_EVENT
	bool up = rnic_port_is_up(dev);

	/* Not all that changes of an interface is whether it is up. */
	if (up == dev->port_was_up)
		return;
	dev->port_was_up = up;
	rnic_dispatch_event(dev, up ? IB_EVENT_PORT_ACTIVE :
				      IB_EVENT_PORT_ERR);
#endif
}

static int rnic_netdev_event(struct notifier_block *nb, unsigned long event,
			     void *data)
{
	struct rnic_dev *dev = container_of(nb, struct rnic_dev,
					    netdev_notifier);
	struct net_device *netdev = netdev_notifier_info_to_dev(data);

	if (netdev != dev->netdev)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		rnic_notify_port(dev);
		break;
	case NETDEV_CHANGEADDR:
		rnic_dispatch_event(dev, IB_EVENT_GID_CHANGE);
		break;
	case NETDEV_CHANGENAME:
		strscpy(dev->ibdev.iw_ifname, netdev->name,
			sizeof(dev->ibdev.iw_ifname));
		break;
	}
	return NOTIFY_DONE;
}

/* The interface's addresses are GIDs, and what is listened on. */
static void rnic_notify_addresses(struct rnic_dev *dev)
{
	rnic_dispatch_event(dev, IB_EVENT_GID_CHANGE);
	rnic_listen_addresses_changed(dev);
}

/* Those of its VLANs are listened on. */
static void rnic_notify_address_of(struct rnic_dev *dev,
				   const struct net_device *netdev)
{
	if (netdev == dev->netdev)
		rnic_notify_addresses(dev);
	else if (rnic_is_vlan_of(netdev, dev->netdev))
		rnic_listen_addresses_changed(dev);
}

static int rnic_inetaddr_event(struct notifier_block *nb, unsigned long event,
			       void *data)
{
	struct rnic_dev *dev = container_of(nb, struct rnic_dev,
					    inetaddr_notifier);
	struct in_ifaddr *ifa = data;

	rnic_notify_address_of(dev, ifa->ifa_dev->dev);
	return NOTIFY_DONE;
}

static int rnic_inet6addr_event(struct notifier_block *nb, unsigned long event,
				void *data)
{
	struct rnic_dev *dev = container_of(nb, struct rnic_dev,
					    inet6addr_notifier);
	struct inet6_ifaddr *ifa = data;

	rnic_notify_address_of(dev, ifa->idev->dev);
	return NOTIFY_DONE;
}

int rnic_notify_register(struct rnic_dev *dev)
{
	int ret;

	dev->port_was_up = rnic_port_is_up(dev);
	dev->netdev_notifier.notifier_call = rnic_netdev_event;
	dev->inetaddr_notifier.notifier_call = rnic_inetaddr_event;
	dev->inet6addr_notifier.notifier_call = rnic_inet6addr_event;
	ret = register_netdevice_notifier(&dev->netdev_notifier);
	if (ret)
		return ret;
	ret = register_inetaddr_notifier(&dev->inetaddr_notifier);
	if (ret)
		goto err_netdev;
	ret = register_inet6addr_notifier(&dev->inet6addr_notifier);
	if (ret)
		goto err_inet;
	/* Of those that came since the core read them. */
	rnic_notify_addresses(dev);
	return 0;

err_inet:
	unregister_inetaddr_notifier(&dev->inetaddr_notifier);
	rnic_listen_stop(dev);
err_netdev:
	unregister_netdevice_notifier(&dev->netdev_notifier);
	return ret;
}

void rnic_notify_unregister(struct rnic_dev *dev)
{
	unregister_inet6addr_notifier(&dev->inet6addr_notifier);
	unregister_inetaddr_notifier(&dev->inetaddr_notifier);
	unregister_netdevice_notifier(&dev->netdev_notifier);
	rnic_listen_stop(dev);
}
