/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the devlink instance of a PCI function, and its health reporter.
 */
#ifndef RNIC_DEVLINK_H
#define RNIC_DEVLINK_H

#include <linux/types.h>

struct pci_dev;
struct rnic_devlink;
struct rnic_function;

/*
 * Registered: its operations may come at once. An ERR_PTR() on failure. When
 * freed it waits for operations under way.
 */
struct rnic_devlink *rnic_devlink_create(struct pci_dev *pdev,
					 struct rnic_function *function);
void rnic_devlink_free(struct rnic_devlink *rnic_devlink);

/*
 * Reports a failure; again: since the last one no device has worked. Returns
 * whether the driver is to bring the device back by itself. With no lock held that
 * operations take.
 */
bool rnic_devlink_report(struct rnic_devlink *rnic_devlink, const char *why,
			 bool again);

/* A device works, or works again without anybody's help. */
void rnic_devlink_set_healthy(struct rnic_devlink *rnic_devlink);
void rnic_devlink_count_recovery(struct rnic_devlink *rnic_devlink);

#endif /* RNIC_DEVLINK_H */
