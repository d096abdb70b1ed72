// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the PCI function and its devices.
 *
 * It has a device (rnic_start.c) while it can be used. When a device fails, the
 * driver removes it and starts another one. Each attempt that fails doubles the
 * time before the next. Each failure is reported to devlink, which says whether the
 * driver may recover by itself. A reset or bus error is a failure for the device's
 * users. After that, as after a sleep, the driver starts another one. The network
 * interface stays meanwhile.
 *
 * Locks, from the outside: the PCI device's, the devlink instance's, that of the
 * machine's sleep notifiers, rnic_function.lock, and all that starting and stopping
 * takes (RTNL ...). Only devlink's report takes the devlink instance's, so the driver
 * reports without rnic_function.lock.
 */

#include <linux/delay.h>
#include <linux/iopoll.h>
#include <linux/netlink.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/workqueue.h>

#include "rnic.h"
#include "rnic_devlink.h"
#include "rnic_failure.h"
#include "rnic_function.h"
#include "rnic_health.h"
#include "rnic_netdev.h"
#include "rnic_start.h"

#define RNIC_FIRST_DELAY	(HZ / 10)
#define RNIC_LONGEST_DELAY	(20 * HZ)
/* For users in the kernel of a device that has failed. */
#define RNIC_USERS_PATIENCE_US	(10 * USEC_PER_SEC)
/* For a thread that is at the device when the machine goes down. */
#define RNIC_SHUTDOWN_PATIENCE	(10 * HZ)
/* A device that has worked for so long begins with the first delay again. */
#define RNIC_LONG_LIFE		(60 * HZ)

struct rnic_function {
	struct pci_dev *pdev;
	struct rnic_devlink *devlink;
	struct rnic_failure failure;
	struct mutex lock;		/* of all below */
	struct rnic_dev *dev;		/* NULL: none */
	struct net_device *netdev;	/* of all its devices; NULL: none yet */
	unsigned int absences;		/* RNIC_ABSENT_*; 0: there should be one */
	bool down;			/* the machine is; without the lock */
	bool reported;			/* a failure, and none has worked since */
	bool interrupted;		/* the same of rnic_function_leave() */
	u32 hw_version;
	u32 abi_version;
	unsigned long started;		/* jiffies, of dev */
	unsigned long delay;		/* jiffies, before the next try */
	unsigned long next_try;		/* jiffies, if the work is pending */
	struct delayed_work recover_work;
	struct notifier_block sleep_notifier;
};

static void rnic_function_remove_netdev(struct rnic_function *function)
{
	if (function->netdev)
		rnic_netdev_remove(function->netdev);
	function->netdev = NULL;
}

static int rnic_function_start(struct rnic_function *function)
{
	bool first = !function->netdev;
	struct rnic_dev *dev;
	unsigned int noio;

	lockdep_assert_held(&function->lock);
	if (READ_ONCE(function->down))
		return -ESHUTDOWN;
	/* A disk behind this adapter may wait for it to be back. */
	noio = memalloc_noio_save();
	dev = rnic_start(function->pdev, function, &function->failure,
			 &function->netdev);
	memalloc_noio_restore(noio);
	/* A thread that shuts the machine down did not wait for this one. */
	if (READ_ONCE(function->down))
		pci_clear_master(function->pdev);
	if (IS_ERR(dev)) {
		/* It may not even be registered. */
		if (first)
			rnic_function_remove_netdev(function);
		return PTR_ERR(dev);
	}
	function->dev = dev;
	function->started = jiffies;
	function->hw_version = rnic_read32(dev, RNIC_REG_HW_VERSION);
	function->abi_version = rnic_read32(dev, RNIC_REG_ABI_VERSION);
	function->reported = false;
	function->interrupted = false;
	rnic_devlink_set_healthy(function->devlink);
	return 0;
}

static void rnic_function_stop(struct rnic_function *function)
{
	lockdep_assert_held(&function->lock);
	if (function->dev)
		rnic_stop(function->dev);
	function->dev = NULL;
}

static bool rnic_function_has_failed(const struct rnic_function *function)
{
	return function->dev && rnic_failed(function->dev);
}

static void rnic_function_try_at(struct rnic_function *function,
				 unsigned long delay)
{
	mod_delayed_work(system_long_wq, &function->recover_work, delay);
}

void rnic_function_failed(struct rnic_function *function)
{
	rnic_function_try_at(function, 0);
}

static void rnic_function_try_later(struct rnic_function *function)
{
	lockdep_assert_held(&function->lock);
	function->next_try = jiffies + function->delay;
	rnic_function_try_at(function, function->delay);
	pci_info(function->pdev, "next try in %u ms\n",
		 jiffies_to_msecs(function->delay));
	function->delay = min_t(unsigned long, 2 * function->delay,
				RNIC_LONGEST_DELAY);
}

/*
 * Users in the kernel learn from flushed work requests that the device has failed.
 * They free their objects, the PD last. nvme-rdma, for one, connects again after that.
 * It gives a controller up for good if the device goes earlier.
 */
static bool rnic_function_has_users(struct rnic_function *function)
{
	bool found;

	mutex_lock(&function->lock);
	found = rnic_function_has_failed(function) &&
		atomic_read(&function->dev->kernel_users);
	mutex_unlock(&function->lock);
	return found && !READ_ONCE(function->down);
}

/*
 * Without the lock: others may take the device away meanwhile. A user whose PD is not
 * counted yet finds out that it can have no QP, and frees the PD. A user whose PD is
 * not counted any more is still in ib_dealloc_pd(). Both are at it for a moment.
 */
static void rnic_function_await_users(struct rnic_function *function)
{
	bool found;

	msleep(20);
	read_poll_timeout(rnic_function_has_users, found, !found,
			  20 * USEC_PER_MSEC, RNIC_USERS_PATIENCE_US, false,
			  function);
	msleep(20);
}

/* Without the lock. The device, if it has failed, goes whatever devlink says. */
static void rnic_function_report(struct rnic_function *function,
				 const char *why, bool again)
{
	bool automatic = rnic_devlink_report(function->devlink, why, again);

	rnic_function_await_users(function);
	mutex_lock(&function->lock);
	if (rnic_function_has_failed(function) && !function->absences)
		rnic_function_stop(function);
	if (!function->dev && !function->absences && automatic)
		rnic_function_try_later(function);
	/* A recovery by hand may have come before the report. */
	if (function->dev && !rnic_function_has_failed(function))
		rnic_devlink_set_healthy(function->devlink);
	mutex_unlock(&function->lock);
}

static void rnic_function_recover(struct rnic_function *function)
{
	int ret = rnic_function_start(function);

	if (!ret) {
		rnic_devlink_count_recovery(function->devlink);
		pci_info(function->pdev, "back in service\n");
		return;
	}
	pci_err(function->pdev, "not back in service (error %d)\n", ret);
}

static void rnic_recover_work(struct work_struct *work)
{
	struct rnic_function *function =
		container_of(to_delayed_work(work), struct rnic_function,
			     recover_work);
	/* As in rnic_function_start(). */
	unsigned int noio = memalloc_noio_save();
	const char *why = NULL;
	bool again;

	mutex_lock(&function->lock);
	again = function->reported;
	if (function->absences)
		goto out;
	if (rnic_function_has_failed(function)) {
		why = "the device has failed";
		if (time_after(jiffies, function->started + RNIC_LONG_LIFE))
			function->delay = RNIC_FIRST_DELAY;
	} else if (!function->dev) {
		rnic_function_recover(function);
		if (!function->dev)
			why = "the device does not start";
	}
	if (why)
		function->reported = true;
out:
	mutex_unlock(&function->lock);
	if (why)
		rnic_function_report(function, why, again);
	memalloc_noio_restore(noio);
}

void rnic_function_leave(struct rnic_function *function,
			 enum rnic_function_absence why, const char *cause)
{
	mutex_lock(&function->lock);
	function->absences |= why;
	if (function->dev && !pci_device_is_present(function->pdev))
		cause = "it was pulled out";
	if (function->dev && cause) {
		rnic_leave_service(function->dev, cause);
		function->interrupted = true;
	}
	mutex_unlock(&function->lock);
	rnic_function_await_users(function);
	mutex_lock(&function->lock);
	rnic_function_stop(function);
	mutex_unlock(&function->lock);
}

void rnic_function_leave_idle(struct rnic_function *function, const char *cause)
{
	rnic_function_leave(function, RNIC_ABSENT_PCI, cause);
	cancel_delayed_work_sync(&function->recover_work);
}

int rnic_function_return(struct rnic_function *function,
			 enum rnic_function_absence why)
{
	bool interrupted;
	int ret = 0;

	mutex_lock(&function->lock);
	function->absences &= ~why;
	function->delay = RNIC_FIRST_DELAY;
	interrupted = function->interrupted;
	if (!function->dev && !function->absences)
		ret = rnic_function_start(function);
	if (interrupted && !function->interrupted)
		pci_info(function->pdev, "back in service\n");
	mutex_unlock(&function->lock);
	return ret;
}

void rnic_function_return_or_retry(struct rnic_function *function,
				   enum rnic_function_absence why)
{
	int ret = rnic_function_return(function, why);

	if (!ret)
		return;
	pci_err(function->pdev, "cannot be used (error %d), trying again\n",
		ret);
	rnic_function_failed(function);
}

/*
 * Users in the kernel let go with the help of threads that the machine's sleep
 * freezes, nfsd's for one. So the device goes before that, and returns afterwards. It
 * does not fail: a task that waits for a disk to come back could not be frozen.
 */
static int rnic_function_sleep_event(struct notifier_block *nb,
				     unsigned long event, void *data)
{
	struct rnic_function *function =
		container_of(nb, struct rnic_function, sleep_notifier);

	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		rnic_function_leave(function, RNIC_ABSENT_SLEEP, NULL);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		rnic_function_return_or_retry(function, RNIC_ABSENT_SLEEP);
		break;
	}
	return NOTIFY_DONE;
}

/* False: a thread has been starting or stopping the device for too long. */
static bool rnic_function_lock_soon(struct rnic_function *function)
{
	unsigned long deadline = jiffies + RNIC_SHUTDOWN_PATIENCE;

	while (!mutex_trylock(&function->lock)) {
		if (time_after(jiffies, deadline))
			return false;
		msleep(20);
	}
	return true;
}

void rnic_function_silence(struct rnic_function *function)
{
	WRITE_ONCE(function->down, true);
	if (!rnic_function_lock_soon(function)) {
		pci_clear_master(function->pdev);
		return;
	}
	function->absences |= RNIC_ABSENT_PCI;
	if (function->dev) {
		/* First, as it ends the commands that the other waits for. */
		rnic_silence(function->dev);
		rnic_health_unwatch(function->dev);
		pci_clear_master(function->pdev);
	}
	mutex_unlock(&function->lock);
	cancel_delayed_work_sync(&function->recover_work);
}

void rnic_function_fail(struct rnic_function *function, const char *why)
{
	mutex_lock(&function->lock);
	if (function->dev)
		rnic_fail(function->dev, why);
	mutex_unlock(&function->lock);
}

int rnic_function_recover_now(struct rnic_function *function,
			      struct netlink_ext_ack *extack)
{
	int ret = 0;

	rnic_function_await_users(function);
	mutex_lock(&function->lock);
	if (rnic_function_has_failed(function))
		rnic_function_stop(function);
	if (function->absences) {
		NL_SET_ERR_MSG(extack, "the PCI function is not in use");
		ret = -ENODEV;
	} else if (!function->dev) {
		ret = rnic_function_start(function);
		if (ret)
			NL_SET_ERR_MSG(extack, "the device does not start");
		else
			pci_info(function->pdev, "back in service\n");
	}
	mutex_unlock(&function->lock);
	return ret;
}

bool rnic_function_is_absent(struct rnic_function *function)
{
	return READ_ONCE(function->absences);
}

void rnic_function_describe(struct rnic_function *function,
			    struct rnic_function_state *state)
{
	long left;

	mutex_lock(&function->lock);
	left = max(0L, (long)(function->next_try - jiffies));
	*state = (struct rnic_function_state) {
		.absent = function->absences,
		.failed = !function->dev || rnic_function_has_failed(function),
		.next_try_ms = delayed_work_pending(&function->recover_work) ?
			       (int)jiffies_to_msecs(left) : -1,
		.hw_version = function->hw_version,
		.abi_version = function->abi_version,
	};
	mutex_unlock(&function->lock);
}

struct rnic_failure *rnic_function_failure(struct rnic_function *function)
{
	return &function->failure;
}

struct rnic_function *rnic_function_create(struct pci_dev *pdev)
{
	struct rnic_function *function = kzalloc(sizeof(*function), GFP_KERNEL);
	int ret;

	if (!function)
		return ERR_PTR(-ENOMEM);
	function->pdev = pdev;
	function->absences = RNIC_ABSENT_PCI;
	mutex_init(&function->lock);
	rnic_failure_init(&function->failure);
	INIT_DELAYED_WORK(&function->recover_work, rnic_recover_work);
	function->devlink = rnic_devlink_create(pdev, function);
	if (IS_ERR(function->devlink)) {
		ret = PTR_ERR(function->devlink);
		goto err_free;
	}
	function->sleep_notifier.notifier_call = rnic_function_sleep_event;
	ret = register_pm_notifier(&function->sleep_notifier);
	if (ret)
		goto err_devlink;
	return function;

err_devlink:
	rnic_devlink_free(function->devlink);
err_free:
	kfree(function);
	return ERR_PTR(ret);
}

void rnic_function_free(struct rnic_function *function)
{
	unregister_pm_notifier(&function->sleep_notifier);
	rnic_function_remove_netdev(function);
	rnic_devlink_free(function->devlink);
	/* What has just returned in vain may have wanted another try. */
	cancel_delayed_work_sync(&function->recover_work);
	kfree(function);
}
