// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: failure of the device.
 *
 * A device that fails is reset at once, so that what it was given to read and
 * write can be freed. From then on commands end with an error, except that
 * what takes something away succeeds. What the kernel has posted, and posts, is
 * flushed when it polls (rnic_poll.c), for which its CQs are notified here. iw_cm
 * is told that all connections are closed, because it would wait for that, and
 * the core that the device is dead.
 */

#include "rnic.h"
#include "rnic_async.h"
#include "rnic_cm.h"
#include "rnic_cm_listen.h"
#include "rnic_failure.h"
#include "rnic_flush_check.h"
#include "rnic_function.h"
#include "rnic_health.h"
#include "rnic_netdev.h"
#include "rnic_state_page.h"
#include "rnic_verbs.h"

#define RNIC_HEALTH_INTERVAL	(2 * HZ)

static void rnic_flush_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(work, struct rnic_dev, flush_work);
	unsigned long cqn;
	void *cq;

	xa_for_each(&dev->cqs, cqn, cq)
		rnic_cq_flush_event(dev, cqn);
}

/* A QP takes nothing from its S-RQ any more. */
static void rnic_last_wqe_event(struct rnic_dev *dev, u32 qpn)
{
	struct rnic_qp *qp = rnic_qp_get(dev, qpn);

	if (!qp)
		return;
	if (qp->sq.ring && qp->ibqp.srq && qp->ibqp.event_handler) {
		struct ib_event event = {
			.device = &dev->ibdev,
			.event = IB_EVENT_QP_LAST_WQE_REACHED,
			.element.qp = &qp->ibqp,
		};

		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
	rnic_ref_put(&qp->ref);
}

static void rnic_failure_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(work, struct rnic_dev,
					    failure_work);
	unsigned long qpn;
	void *qp;

	queue_work(dev->health_wq, &dev->flush_work);
	xa_for_each(&dev->qps, qpn, qp)
		rnic_last_wqe_event(dev, qpn);
	rnic_cm_abandon_all(dev);
	rnic_netdev_link_changed(dev);
	rnic_dispatch_event(dev, IB_EVENT_DEVICE_FATAL);
	rnic_function_failed(dev->function);
}

static void rnic_health_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(to_delayed_work(work),
					    struct rnic_dev, health_work);

	rnic_health_check(dev);
	rnic_eqs_check(dev);
	rnic_cm_check(dev);
	rnic_listeners_check(dev);
	rnic_cqs_check(dev);
	rnic_flush_check(dev);
	if (!rnic_failed(dev))
		rnic_health_watch(dev);
}

int rnic_health_init(struct rnic_dev *dev)
{
	/* A disk behind this adapter may wait for a failure to be told. */
	dev->health_wq = alloc_workqueue("rnic-health-%s",
					 WQ_MEM_RECLAIM | WQ_UNBOUND, 0,
					 pci_name(dev->pdev));
	if (!dev->health_wq)
		return -ENOMEM;
	spin_lock_init(&dev->failure_lock);
	INIT_WORK(&dev->failure_work, rnic_failure_work);
	INIT_WORK(&dev->flush_work, rnic_flush_work);
	INIT_DELAYED_WORK(&dev->health_work, rnic_health_work);
	return 0;
}

void rnic_health_watch(struct rnic_dev *dev)
{
	queue_delayed_work(dev->health_wq, &dev->health_work,
			   RNIC_HEALTH_INTERVAL);
}

void rnic_health_unwatch(struct rnic_dev *dev)
{
	cancel_delayed_work_sync(&dev->health_work);
}

void rnic_health_free(struct rnic_dev *dev)
{
	cancel_work_sync(&dev->failure_work);
	cancel_work_sync(&dev->flush_work);
	destroy_workqueue(dev->health_wq);
}

void rnic_health_check(struct rnic_dev *dev)
{
	u32 status = rnic_read32(dev, RNIC_REG_STATUS);

	if (status == U32_MAX)
		rnic_fail(dev, "it is gone from the bus");
	else if (status & RNIC_STATUS_FATAL)
		rnic_fail(dev, "it reports a fatal error");
	else if (!(status & RNIC_STATUS_ENABLED))
		rnic_fail(dev, "it has been reset");
}

void rnic_reset_at_once(struct rnic_dev *dev)
{
	if (pci_channel_offline(dev->pdev)) {
		pci_clear_master(dev->pdev);
		return;
	}
	rnic_write32(dev, RNIC_REG_CONTROL, RNIC_CONTROL_RESET);
	/*
	 * The reset has arrived when this is answered. A device that is not obedient
	 * must not write to memory that is given back.
	 */
	if (rnic_read32(dev, RNIC_REG_STATUS) & RNIC_STATUS_ENABLED)
		pci_clear_master(dev->pdev);
}

/*
 * False: it had failed before, and has been reset since. A failure, which has a
 * cause, is noted with what the reset takes away. Who sees that the device has failed
 * gives memory back that it had: so that is told after the reset.
 */
static bool rnic_reset_failed(struct rnic_dev *dev, const char *why,
			      u32 *health)
{
	unsigned long irq_flags;
	bool first;

	spin_lock_irqsave(&dev->failure_lock, irq_flags);
	first = !rnic_failed(dev);
	if (first) {
		if (why)
			*health = rnic_failure_note(dev, why);
		rnic_reset_at_once(dev);
		set_bit(RNIC_DEV_FAILED, &dev->flags);
	}
	spin_unlock_irqrestore(&dev->failure_lock, irq_flags);
	if (first) {
		rnic_state_pages_set_failed(dev);
		rnic_admin_abort(dev);
	}
	return first;
}

void rnic_leave_service(struct rnic_dev *dev, const char *why)
{
	u32 health;

	if (!rnic_reset_failed(dev, NULL, &health))
		return;
	dev_info(&dev->pdev->dev, "out of service: %s\n", why);
	queue_work(dev->health_wq, &dev->failure_work);
}

void rnic_silence(struct rnic_dev *dev)
{
	u32 health;

	rnic_reset_failed(dev, NULL, &health);
}

void rnic_fail(struct rnic_dev *dev, const char *why)
{
	u32 health;

	if (!rnic_reset_failed(dev, why, &health))
		return;
	dev_err(&dev->pdev->dev, "out of service: %s (health %u)\n", why,
		health);
	queue_work(dev->health_wq, &dev->failure_work);
}
