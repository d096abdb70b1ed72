/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: addresses, as sockets have them and as the device does.
 */
#ifndef RNIC_CM_ADDR_H
#define RNIC_CM_ADDR_H

#include <linux/socket.h>

#include "rnic-hw.h"

struct rnic_dev;

/* -EAFNOSUPPORT for what is neither IPv4 nor IPv6. */
int rnic_cm_addr_set(struct rnic_cm_addr *to,
		     const struct sockaddr_storage *from);
void rnic_cm_addr_get(struct rnic_dev *dev, const struct rnic_cm_addr *from,
		      struct sockaddr_storage *to);

#endif /* RNIC_CM_ADDR_H */
