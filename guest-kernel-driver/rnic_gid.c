// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the GIDs of the port.
 *
 * GID 0 is the MAC followed by zeroes, as the core wants it of iWARP. From GID 1
 * on there is one for each address of the interface, IPv4 addresses as mapped
 * ones; GID 1 is kept for one of these, which most programs use. An address keeps
 * its index as long as the interface has it: programs and address handles name it
 * by that. The core keeps a copy of the table, which it reads again at each
 * IB_EVENT_GID_CHANGE; on ports that are not RoCE's it passes that event on to no
 * client.
 */

#include <linux/etherdevice.h>

#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "rnic.h"
#include "rnic_addresses.h"
#include "rnic_verbs.h"

static bool rnic_gid_is_listed(const union ib_gid *gid,
			       const struct rnic_address_list *list)
{
	unsigned int i;

	for (i = 0; i < list->count; i++)
		if (!memcmp(gid->raw, &list->addr[i], sizeof(gid->raw)))
			return true;
	return false;
}

/* Its place in the table, or that of the first zero GID: NULL if there is none. */
static union ib_gid *rnic_gid_place(struct rnic_dev *dev,
				    const struct in6_addr *address)
{
	unsigned int first = ipv6_addr_v4mapped(address) ? 0 : 1;
	unsigned int i = ARRAY_SIZE(dev->address_gids);
	union ib_gid *place = NULL;

	while (i-- > first) {
		union ib_gid *gid = &dev->address_gids[i];

		if (!memcmp(gid->raw, address, sizeof(gid->raw)))
			return gid;
		if (rdma_is_zero_gid(gid))
			place = gid;
	}
	return place;
}

/* A list that is incomplete does not tell that an address has gone. */
static void rnic_gids_update(struct rnic_dev *dev,
			     const struct rnic_address_list *list)
{
	unsigned int i;

	lockdep_assert_held(&dev->gid_lock);
	for (i = 0; i < ARRAY_SIZE(dev->address_gids); i++)
		if (!list->incomplete &&
		    !rnic_gid_is_listed(&dev->address_gids[i], list))
			dev->address_gids[i] = zgid;
	for (i = 0; i < list->count; i++) {
		union ib_gid *place = rnic_gid_place(dev, &list->addr[i]);

		if (place)
			memcpy(place->raw, &list->addr[i], sizeof(place->raw));
	}
}

/* The zero GID, which the core takes for none, if there is no such address. */
static int rnic_address_gid(struct rnic_dev *dev, unsigned int index,
			    union ib_gid *gid)
{
	struct rnic_address_list list;

	rnic_addresses_begin(&list);
	mutex_lock(&dev->gid_lock);
	rnic_addresses_ipv4(dev->netdev, &list);
	rnic_addresses_ipv6(dev->netdev, &list);
	rnic_gids_update(dev, &list);
	*gid = dev->address_gids[index];
	mutex_unlock(&dev->gid_lock);
	rnic_addresses_end(&list);
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
		return rnic_address_gid(dev, index - 1, gid);
	ether_addr_copy(gid->raw, dev->netdev->dev_addr);
	return 0;
}
