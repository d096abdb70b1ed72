/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the addresses of the network interface, and of its VLANs.
 */
#ifndef RNIC_ADDRESSES_H
#define RNIC_ADDRESSES_H

#include <linux/in6.h>
#include <linux/netdevice.h>

/* IPv4 addresses are in it as mapped ones. */
struct rnic_address_list {
	struct in6_addr *addr;
	unsigned int count;
	unsigned int room;
	bool incomplete;	/* there was no memory for some */
};

static inline void rnic_addresses_begin(struct rnic_address_list *list)
{
	*list = (struct rnic_address_list) {};
}

void rnic_addresses_end(struct rnic_address_list *list);

/*
 * Each appends the interface's addresses of one family, in the order that the
 * interface has them. Process context.
 */
void rnic_addresses_ipv4(struct net_device *netdev,
			 struct rnic_address_list *list);
void rnic_addresses_ipv6(struct net_device *netdev,
			 struct rnic_address_list *list);

/*
 * The same of the interface's VLANs in its network namespace, AF_INET or AF_INET6.
 * Link-local addresses are left out: the device would not know which link they are of.
 */
void rnic_vlan_addresses(struct net_device *netdev, sa_family_t family,
			 struct rnic_address_list *list);
bool rnic_is_vlan_of(const struct net_device *vlan,
		     const struct net_device *netdev);

#endif /* RNIC_ADDRESSES_H */
