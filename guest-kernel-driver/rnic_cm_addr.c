// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: addresses of connections.
 */

#include <linux/in.h>
#include <linux/in6.h>
#include <net/ipv6.h>

#include "rnic.h"
#include "rnic_cm_addr.h"

/* Any address is all zero, whatever the family. */
static void rnic_cm_addr_set_ipv4(struct rnic_cm_addr *to,
				  const struct sockaddr_in *from)
{
	if (from->sin_addr.s_addr != htonl(INADDR_ANY))
		ipv6_addr_set_v4mapped(from->sin_addr.s_addr,
				       (struct in6_addr *)to->ip);
	to->port = from->sin_port;
}

static void rnic_cm_addr_set_ipv6(struct rnic_cm_addr *to,
				  const struct sockaddr_in6 *from)
{
	memcpy(to->ip, &from->sin6_addr, sizeof(to->ip));
	to->port = from->sin6_port;
}

int rnic_cm_addr_set(struct rnic_cm_addr *to,
		     const struct sockaddr_storage *from)
{
	memset(to, 0, sizeof(*to));
	switch (from->ss_family) {
	case AF_INET:
		rnic_cm_addr_set_ipv4(to, (const struct sockaddr_in *)from);
		return 0;
	case AF_INET6:
		rnic_cm_addr_set_ipv6(to, (const struct sockaddr_in6 *)from);
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static void rnic_cm_addr_get_ipv4(const struct rnic_cm_addr *from,
				  struct sockaddr_in *to)
{
	to->sin_family = AF_INET;
	memcpy(&to->sin_addr, from->ip + 12, sizeof(to->sin_addr));
	to->sin_port = from->port;
}

static void rnic_cm_addr_get_ipv6(struct rnic_dev *dev,
				  const struct rnic_cm_addr *from,
				  struct sockaddr_in6 *to)
{
	to->sin6_family = AF_INET6;
	memcpy(&to->sin6_addr, from->ip, sizeof(to->sin6_addr));
	to->sin6_port = from->port;
	/* Link-local addresses are those of this device's link. */
	if (ipv6_addr_type(&to->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		to->sin6_scope_id = dev->netdev->ifindex;
}

void rnic_cm_addr_get(struct rnic_dev *dev, const struct rnic_cm_addr *from,
		      struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	if (ipv6_addr_v4mapped((const struct in6_addr *)from->ip))
		rnic_cm_addr_get_ipv4(from, (struct sockaddr_in *)to);
	else
		rnic_cm_addr_get_ipv6(dev, from, (struct sockaddr_in6 *)to);
}
