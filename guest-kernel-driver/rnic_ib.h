/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the RDMA device.
 */
#ifndef RNIC_IB_H
#define RNIC_IB_H

struct rnic_dev;

/* What the device's objects need; before events can come. */
void rnic_ib_init(struct rnic_dev *dev);
void rnic_ib_free(struct rnic_dev *dev);

int rnic_ib_register(struct rnic_dev *dev);
void rnic_ib_unregister(struct rnic_dev *dev);

#endif /* RNIC_IB_H */
