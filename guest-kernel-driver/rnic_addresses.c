// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the addresses of the network interface, and of its VLANs.
 */

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "rnic_addresses.h"

#define RNIC_ADDRESSES_FIRST	32

static bool rnic_addresses_grow(struct rnic_address_list *list)
{
	unsigned int room = list->room ? 2 * list->room : RNIC_ADDRESSES_FIRST;
	struct in6_addr *addr;

	/* The callers hold locks of the interface. */
	addr = krealloc_array(list->addr, room, sizeof(*addr),
			      GFP_ATOMIC | __GFP_NOWARN);
	if (!addr)
		return false;
	list->addr = addr;
	list->room = room;
	return true;
}

static void rnic_address_add(struct rnic_address_list *list,
			     const struct in6_addr *addr)
{
	if (list->count == list->room && !rnic_addresses_grow(list)) {
		list->incomplete = true;
		return;
	}
	list->addr[list->count++] = *addr;
}

void rnic_addresses_end(struct rnic_address_list *list)
{
	kfree(list->addr);
}

void rnic_addresses_ipv4(struct net_device *netdev,
			 struct rnic_address_list *list)
{
	struct in_device *in_dev;
	struct in_ifaddr *ifa;
	struct in6_addr mapped;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(netdev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			ipv6_addr_set_v4mapped(ifa->ifa_local, &mapped);
			rnic_address_add(list, &mapped);
		}
	}
	rcu_read_unlock();
}

/*
 * Tentative addresses too: no event tells when one has passed the detection of
 * duplicates.
 */
static void rnic_addresses_ipv6_of(struct net_device *netdev, bool link_local,
				   struct rnic_address_list *list)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *idev = in6_dev_get(netdev);
	struct inet6_ifaddr *ifa;

	if (!idev)
		return;
	read_lock_bh(&idev->lock);
	list_for_each_entry(ifa, &idev->addr_list, if_list)
		if (!(ifa->flags & IFA_F_DADFAILED) &&
		    (link_local ||
		     !(ipv6_addr_type(&ifa->addr) & IPV6_ADDR_LINKLOCAL)))
			rnic_address_add(list, &ifa->addr);
	read_unlock_bh(&idev->lock);
	in6_dev_put(idev);
#endif
}

void rnic_addresses_ipv6(struct net_device *netdev,
			 struct rnic_address_list *list)
{
	rnic_addresses_ipv6_of(netdev, true, list);
}

bool rnic_is_vlan_of(const struct net_device *vlan,
		     const struct net_device *netdev)
{
	return is_vlan_dev(vlan) && vlan_dev_real_dev(vlan) == netdev;
}

void rnic_vlan_addresses(struct net_device *netdev, sa_family_t family,
			 struct rnic_address_list *list)
{
	struct net_device *vlan;
	struct net *net;

	rcu_read_lock();
	/* Once: the interface may move to another one meanwhile. */
	net = dev_net(netdev);
	for_each_netdev_rcu(net, vlan) {
		if (!rnic_is_vlan_of(vlan, netdev))
			continue;
		if (family == AF_INET6)
			rnic_addresses_ipv6_of(vlan, false, list);
		else
			rnic_addresses_ipv4(vlan, list);
	}
	rcu_read_unlock();
}
