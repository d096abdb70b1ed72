// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the PCI function and what happens to it.
 *
 * It has a device (rnic_start.c) while it can be used. A device that fails makes
 * way for a new one, after a time that grows as long as that fails, too. To all
 * that use it this, and a reset, suspend or bus error, is a removal and then
 * another device.
 */

#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/workqueue.h>

#include "rnic.h"
#include "rnic_function.h"
#include "rnic_health.h"
#include "rnic_start.h"

#define RNIC_FIRST_DELAY	(HZ / 10)
#define RNIC_LONGEST_DELAY	(20 * HZ)
/* A device that has worked for so long begins with the first delay again. */
#define RNIC_LONG_LIFE		(60 * HZ)

struct rnic_function {
	struct pci_dev *pdev;
	struct mutex lock;		/* of all below */
	struct rnic_dev *dev;		/* NULL: none */
	bool usable;			/* there should be one */
	unsigned long started;		/* jiffies, of dev */
	unsigned long delay;		/* jiffies, before the next try */
	struct delayed_work recover_work;
};

static int rnic_function_start(struct rnic_function *function)
{
	struct rnic_dev *dev = rnic_start(function->pdev, function);

	lockdep_assert_held(&function->lock);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	function->dev = dev;
	function->started = jiffies;
	return 0;
}

static void rnic_function_stop(struct rnic_function *function)
{
	lockdep_assert_held(&function->lock);
	if (function->dev)
		rnic_stop(function->dev);
	function->dev = NULL;
}

static void rnic_function_try_later(struct rnic_function *function)
{
	queue_delayed_work(system_long_wq, &function->recover_work,
			   function->delay);
	function->delay = min_t(unsigned long, 2 * function->delay,
				RNIC_LONGEST_DELAY);
}

void rnic_function_failed(struct rnic_function *function)
{
	queue_delayed_work(system_long_wq, &function->recover_work, 0);
}

static void rnic_function_recover(struct rnic_function *function)
{
	int ret;

	rnic_function_stop(function);
	ret = rnic_function_start(function);
	if (!ret) {
		pci_info(function->pdev, "back in service\n");
		return;
	}
	pci_err(function->pdev,
		"not back in service (error %d), next try in %u ms\n", ret,
		jiffies_to_msecs(function->delay));
	rnic_function_try_later(function);
}

static void rnic_recover_work(struct work_struct *work)
{
	struct rnic_function *function =
		container_of(to_delayed_work(work), struct rnic_function,
			     recover_work);

	mutex_lock(&function->lock);
	if (!function->usable)
		goto out;
	if (!function->dev) {
		rnic_function_recover(function);
	} else if (rnic_failed(function->dev)) {
		if (time_after(jiffies, function->started + RNIC_LONG_LIFE))
			function->delay = RNIC_FIRST_DELAY;
		rnic_function_stop(function);
		rnic_function_try_later(function);
	}
out:
	mutex_unlock(&function->lock);
}

/* Nothing uses the function any more when this returns. */
static void rnic_function_leave(struct rnic_function *function)
{
	mutex_lock(&function->lock);
	function->usable = false;
	if (function->dev && !pci_device_is_present(function->pdev))
		rnic_fail(function->dev, "it was pulled out");
	rnic_function_stop(function);
	mutex_unlock(&function->lock);
	cancel_delayed_work_sync(&function->recover_work);
}

static int rnic_function_return(struct rnic_function *function)
{
	int ret = 0;

	mutex_lock(&function->lock);
	function->usable = true;
	function->delay = RNIC_FIRST_DELAY;
	if (!function->dev)
		ret = rnic_function_start(function);
	mutex_unlock(&function->lock);
	return ret;
}

/* What took the function away is over: it has to work in the end. */
static void rnic_function_return_or_retry(struct rnic_function *function)
{
	int ret = rnic_function_return(function);

	if (!ret)
		return;
	pci_err(function->pdev, "cannot be used (error %d), trying again\n",
		ret);
	rnic_function_failed(function);
}

static int rnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rnic_function *function = kzalloc(sizeof(*function), GFP_KERNEL);
	int ret;

	if (!function)
		return -ENOMEM;
	function->pdev = pdev;
	mutex_init(&function->lock);
	INIT_DELAYED_WORK(&function->recover_work, rnic_recover_work);
	ret = rnic_function_return(function);
	if (ret) {
		rnic_function_leave(function);
		kfree(function);
		return ret;
	}
	pci_set_drvdata(pdev, function);
	return 0;
}

static void rnic_remove(struct pci_dev *pdev)
{
	struct rnic_function *function = pci_get_drvdata(pdev);

	rnic_function_leave(function);
	pci_set_drvdata(pdev, NULL);
	kfree(function);
}

/* Memory may be used for another purpose now. */
static void rnic_shutdown(struct pci_dev *pdev)
{
	struct rnic_function *function = pci_get_drvdata(pdev);

	mutex_lock(&function->lock);
	function->usable = false;
	if (function->dev) {
		rnic_health_unwatch(function->dev);
		rnic_silence(function->dev);
		pci_clear_master(pdev);
	}
	mutex_unlock(&function->lock);
	cancel_delayed_work_sync(&function->recover_work);
}

static void rnic_reset_prepare(struct pci_dev *pdev)
{
	rnic_function_leave(pci_get_drvdata(pdev));
}

static void rnic_reset_done(struct pci_dev *pdev)
{
	rnic_function_return_or_retry(pci_get_drvdata(pdev));
}

static pci_ers_result_t rnic_error_detected(struct pci_dev *pdev,
					    pci_channel_state_t state)
{
	struct rnic_function *function = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	mutex_lock(&function->lock);
	if (function->dev)
		rnic_fail(function->dev, "its bus reports an error");
	mutex_unlock(&function->lock);
	rnic_function_leave(function);
	return state == pci_channel_io_perm_failure ?
	       PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_NEED_RESET;
}

/* The reset of the bus has taken the configuration away. */
static pci_ers_result_t rnic_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers rnic_err_handler = {
	.error_detected = rnic_error_detected,
	.slot_reset = rnic_slot_reset,
	.resume = rnic_reset_done,
	.reset_prepare = rnic_reset_prepare,
	.reset_done = rnic_reset_done,
};

/* A sleeping machine's device forgets, and the wire does not wait. */
static int rnic_suspend(struct device *parent)
{
	rnic_function_leave(dev_get_drvdata(parent));
	return 0;
}

static int rnic_resume(struct device *parent)
{
	rnic_function_return_or_retry(dev_get_drvdata(parent));
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(rnic_pm_ops, rnic_suspend, rnic_resume);

static const struct pci_device_id rnic_pci_ids[] = {
	{ PCI_DEVICE(RNIC_PCI_VENDOR_ID, RNIC_PCI_DEVICE_ID) },
	{ }
};

static struct pci_driver rnic_pci_driver = {
	.name = RNIC_DRIVER_NAME,
	.id_table = rnic_pci_ids,
	.probe = rnic_probe,
	.remove = rnic_remove,
	.shutdown = rnic_shutdown,
	.err_handler = &rnic_err_handler,
	.driver.pm = pm_sleep_ptr(&rnic_pm_ops),
};

module_pci_driver(rnic_pci_driver);

MODULE_DEVICE_TABLE(pci, rnic_pci_ids);
MODULE_DESCRIPTION("Driver for the rnic emulated RDMA network adapter");
MODULE_LICENSE("GPL");
