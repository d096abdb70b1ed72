/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: listening for connections.
 */
#ifndef RNIC_CM_LISTEN_H
#define RNIC_CM_LISTEN_H

#include <linux/list.h>
#include <rdma/iw_cm.h>

#include "rnic.h"

struct rnic_listener {
	struct rnic_ref ref;
	struct iw_cm_id *cm_id;		/* referenced */
	unsigned long cookie;		/* its index in dev->listeners */
	int backlog;
	struct list_head endpoints;	/* under dev->listen_lock */
};

void rnic_listen_init(struct rnic_dev *dev);
void rnic_listen_free(struct rnic_dev *dev);

/*
 * With a reference, or NULL: who listens with this cookie, at an address that
 * local can be.
 */
struct rnic_listener *rnic_listener_get(struct rnic_dev *dev, u64 cookie,
					const struct rnic_cm_addr *local);

/* The interface has got, or lost, an address. Any context. */
void rnic_listen_addresses_changed(struct rnic_dev *dev);

/*
 * Now and then: the listeners on any address try again what the device or the memory has
 * refused. Any context.
 */
void rnic_listeners_check(struct rnic_dev *dev);
/*
 * Waits for what the two above have begun: called when no notifier calls the first one
 * any more, and again when the health work has ended. Sleeps.
 */
void rnic_listen_stop(struct rnic_dev *dev);

/* Operations of struct ib_device_ops. */
int rnic_iw_create_listen(struct iw_cm_id *cm_id, int backlog);
int rnic_iw_destroy_listen(struct iw_cm_id *cm_id);

#endif /* RNIC_CM_LISTEN_H */
