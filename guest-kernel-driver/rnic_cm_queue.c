// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the connection events of each QP, in order.
 *
 * An event can need admin commands, and waits for the QP's other users. Events of
 * different QPs are handled side by side, so that none waits for another's. The
 * work that is queued has a reference to its QP, however many events it finds.
 */

#include <linux/slab.h>

#include "rnic.h"
#include "rnic_cm.h"
#include "rnic_cm_queue.h"
#include "rnic_verbs.h"

/* A connection has four at most. */
#define RNIC_MAX_QUEUED_EVENTS	16

struct rnic_queued_event {
	struct list_head list;
	struct rnic_cm_event event;
};

int rnic_cm_queue_create(struct rnic_dev *dev)
{
	dev->cm_wq = alloc_workqueue("rnic-cm-%s",
				     WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
				     pci_name(dev->pdev));
	return dev->cm_wq ? 0 : -ENOMEM;
}

void rnic_cm_queue_destroy(struct rnic_dev *dev)
{
	destroy_workqueue(dev->cm_wq);
}

static void rnic_cm_queue_work(struct work_struct *work)
{
	struct rnic_qp *qp = container_of(work, struct rnic_qp,
					  connection.work);
	struct rnic_queued_event *entry, *next;
	LIST_HEAD(events);

	spin_lock(&qp->connection.events_lock);
	list_splice_init(&qp->connection.events, &events);
	qp->connection.num_events = 0;
	spin_unlock(&qp->connection.events_lock);
	list_for_each_entry_safe(entry, next, &events, list) {
		rnic_cm_qp_event(qp, &entry->event);
		kfree(entry);
	}
	/* The QP can be gone after this. */
	rnic_ref_put(&qp->ref);
}

void rnic_cm_queue_init_qp(struct rnic_qp *qp)
{
	spin_lock_init(&qp->connection.events_lock);
	INIT_LIST_HEAD(&qp->connection.events);
	INIT_WORK(&qp->connection.work, rnic_cm_queue_work);
}

/* NULL: there is no memory, or too much is queued. */
static struct rnic_queued_event *
rnic_cm_queue_entry(const struct rnic_connection *connection)
{
	if (READ_ONCE(connection->num_events) >= RNIC_MAX_QUEUED_EVENTS)
		return NULL;
	/* To free memory may need a disk behind this adapter. */
	return kmalloc(sizeof(struct rnic_queued_event),
		       GFP_NOIO | __GFP_NOWARN);
}

void rnic_cm_queue_event(struct rnic_dev *dev, struct rnic_qp *qp,
			 const struct rnic_cm_event *event)
{
	struct rnic_connection *connection = &qp->connection;
	struct rnic_queued_event *entry = rnic_cm_queue_entry(connection);

	if (!entry) {
		flush_work(&connection->work);
		rnic_cm_qp_event(qp, event);
		rnic_ref_put(&qp->ref);
		return;
	}
	entry->event = *event;
	spin_lock(&connection->events_lock);
	list_add_tail(&entry->list, &connection->events);
	connection->num_events++;
	spin_unlock(&connection->events_lock);
	/* If it was queued before, it has its reference. */
	if (!queue_work(dev->cm_wq, &connection->work))
		rnic_ref_put(&qp->ref);
}
