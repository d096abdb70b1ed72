/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the addresses of the network interface.
 */
#ifndef RNIC_ADDRESSES_H
#define RNIC_ADDRESSES_H

#include <linux/in6.h>
#include <linux/netdevice.h>

#define RNIC_MAX_ADDRESSES	64

/* IPv4 addresses are in it as mapped ones. */
struct rnic_address_list {
	unsigned int count;
	struct in6_addr addr[RNIC_MAX_ADDRESSES];
};

/*
 * Each appends the interface's addresses of one family, in the order that the
 * interface has them; those that the list has no room for are left out.
 */
void rnic_addresses_ipv4(struct net_device *netdev,
			 struct rnic_address_list *list);
void rnic_addresses_ipv6(struct net_device *netdev,
			 struct rnic_address_list *list);

#endif /* RNIC_ADDRESSES_H */
