/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: what happens to the network interface, for the RDMA port.
 */
#ifndef RNIC_NOTIFY_H
#define RNIC_NOTIFY_H

struct rnic_dev;

int rnic_notify_register(struct rnic_dev *dev);
void rnic_notify_unregister(struct rnic_dev *dev);

#endif /* RNIC_NOTIFY_H */
