/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: from nothing to a registered RDMA device, and back.
 */
#ifndef RNIC_START_H
#define RNIC_START_H

struct net_device;
struct pci_dev;
struct rnic_dev;
struct rnic_failure;
struct rnic_function;

/*
 * The device of the PCI function, registered; or an ERR_PTR(). The function is
 * told if it fails later, see rnic_function_failed(), after failure has got the
 * particulars. *netdev is the interface of the function's earlier devices or NULL,
 * then it becomes this one's, even if another error follows. Sleeps.
 */
struct rnic_dev *rnic_start(struct pci_dev *pdev,
			    struct rnic_function *function,
			    struct rnic_failure *failure,
			    struct net_device **netdev);

/* Ends when all that use the device have let go. It is freed. Sleeps. */
void rnic_stop(struct rnic_dev *dev);

#endif /* RNIC_START_H */
