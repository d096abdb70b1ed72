/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the network interface.
 */
#ifndef RNIC_NETDEV_H
#define RNIC_NETDEV_H

struct rnic_dev;

void rnic_netdev_init(struct rnic_dev *dev);
int rnic_netdev_register(struct rnic_dev *dev);
void rnic_netdev_unregister(struct rnic_dev *dev);
/* Only when no interrupt and no event can come any more. */
void rnic_netdev_free(struct rnic_dev *dev);

/* From the interrupt handler. */
void rnic_netdev_interrupt(struct rnic_dev *dev);
/* The link has changed, or the device has failed. May sleep. */
void rnic_netdev_link_changed(struct rnic_dev *dev);

#endif /* RNIC_NETDEV_H */
