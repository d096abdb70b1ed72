// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the addresses of the network interface.
 */

#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "rnic_addresses.h"

static void rnic_address_add(struct rnic_address_list *list,
			     const struct in6_addr *addr)
{
	if (list->count < RNIC_MAX_ADDRESSES)
		list->addr[list->count++] = *addr;
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
void rnic_addresses_ipv6(struct net_device *netdev,
			 struct rnic_address_list *list)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *idev = in6_dev_get(netdev);
	struct inet6_ifaddr *ifa;

	if (!idev)
		return;
	read_lock_bh(&idev->lock);
	list_for_each_entry(ifa, &idev->addr_list, if_list)
		if (!(ifa->flags & IFA_F_DADFAILED))
			rnic_address_add(list, &ifa->addr);
	read_unlock_bh(&idev->lock);
	in6_dev_put(idev);
#endif
}
