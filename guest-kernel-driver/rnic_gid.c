// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the GIDs of the port.
 *
 * GID 0 is the MAC followed by zeroes, as the core wants it of iWARP. From GID 1
 * on there is one for each address of the interface: IPv4 addresses first, as
 * mapped ones, then IPv6 addresses. The core keeps a copy of the table, which it
 * reads again at each IB_EVENT_GID_CHANGE; on ports that are not RoCE's it passes
 * that event on to no client.
 */

#include <linux/etherdevice.h>
#include <linux/slab.h>

#include "rnic.h"
#include "rnic_addresses.h"
#include "rnic_verbs.h"

/* The zero GID, which the core takes for none, if there is no such address. */
static int rnic_address_gid(struct net_device *netdev, unsigned int index,
			    union ib_gid *gid)
{
	struct rnic_address_list *list = kmalloc(sizeof(*list), GFP_KERNEL);

	if (!list)
		return -ENOMEM;
	list->count = 0;
	rnic_addresses_ipv4(netdev, list);
	rnic_addresses_ipv6(netdev, list);
	if (index < list->count)
		memcpy(gid->raw, &list->addr[index], sizeof(gid->raw));
	kfree(list);
	return 0;
}

int rnic_query_gid(struct ib_device *ibdev, u32 port, int index,
		   union ib_gid *gid)
{
	struct rnic_dev *dev = to_rnic_dev(ibdev);

	if (index < 0 || index >= RNIC_GID_TABLE_LENGTH)
		return -EINVAL;
	memset(gid, 0, sizeof(*gid));
	if (index)
		return rnic_address_gid(dev->netdev, index - 1, gid);
	ether_addr_copy(gid->raw, dev->mac);
	return 0;
}
