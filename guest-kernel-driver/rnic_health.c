// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: failure of the device.
 *
 * A device that fails is reset at once, so that what it was given to read and
 * write can be freed. From then on commands end with an error, except that
 * what takes something away succeeds. iw_cm is told that all connections are
 * closed, because it would wait for that, and the core that the device is dead.
 */

#include "rnic.h"
#include "rnic_async.h"
#include "rnic_cm.h"
#include "rnic_health.h"
#include "rnic_netdev.h"

#define RNIC_HEALTH_INTERVAL	(2 * HZ)

static void rnic_failure_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(work, struct rnic_dev,
					    failure_work);

	rnic_cm_abandon_all(dev);
	rnic_netdev_link_changed(dev);
	rnic_dispatch_event(dev, IB_EVENT_DEVICE_FATAL);
}

static void rnic_health_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(to_delayed_work(work),
					    struct rnic_dev, health_work);

	rnic_health_check(dev);
	if (!rnic_failed(dev))
		schedule_delayed_work(&dev->health_work, RNIC_HEALTH_INTERVAL);
}

void rnic_health_init(struct rnic_dev *dev)
{
	INIT_WORK(&dev->failure_work, rnic_failure_work);
	INIT_DELAYED_WORK(&dev->health_work, rnic_health_work);
}

void rnic_health_watch(struct rnic_dev *dev)
{
	schedule_delayed_work(&dev->health_work, RNIC_HEALTH_INTERVAL);
}

void rnic_health_unwatch(struct rnic_dev *dev)
{
	cancel_delayed_work_sync(&dev->health_work);
}

void rnic_health_free(struct rnic_dev *dev)
{
	cancel_work_sync(&dev->failure_work);
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

void rnic_silence(struct rnic_dev *dev)
{
	set_bit(RNIC_DEV_FAILED, &dev->flags);
	rnic_write32(dev, RNIC_REG_CONTROL, RNIC_CONTROL_RESET);
	rnic_admin_abort(dev);
}

void rnic_fail(struct rnic_dev *dev, const char *why)
{
	if (test_and_set_bit(RNIC_DEV_FAILED, &dev->flags))
		return;
	dev_err(&dev->pdev->dev, "out of service: %s (health %u)\n", why,
		rnic_read32(dev, RNIC_REG_HEALTH));
	rnic_silence(dev);
	schedule_work(&dev->failure_work);
}
