// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the PCI driver: what happens to a PCI function. All that sleeps, and runs
 * with the PCI device's lock.
 */

#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pm.h>

#include "rnic.h"
#include "rnic_function.h"

static int rnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rnic_function *function = rnic_function_create(pdev);
	int ret;

	if (IS_ERR(function))
		return PTR_ERR(function);
	ret = rnic_function_return(function, RNIC_ABSENT_PCI);
	if (ret) {
		rnic_function_leave_idle(function, NULL);
		rnic_function_free(function);
		return ret;
	}
	pci_set_drvdata(pdev, function);
	return 0;
}

static void rnic_remove(struct pci_dev *pdev)
{
	struct rnic_function *function = pci_get_drvdata(pdev);

	rnic_function_leave_idle(function, NULL);
	pci_set_drvdata(pdev, NULL);
	rnic_function_free(function);
}

/* Memory may be used for another purpose now. */
static void rnic_shutdown(struct pci_dev *pdev)
{
	rnic_function_silence(pci_get_drvdata(pdev));
}

static void rnic_reset_prepare(struct pci_dev *pdev)
{
	rnic_function_leave_idle(pci_get_drvdata(pdev), "it is reset");
}

static void rnic_reset_done(struct pci_dev *pdev)
{
	rnic_function_return_or_retry(pci_get_drvdata(pdev), RNIC_ABSENT_PCI);
}

static pci_ers_result_t rnic_error_detected(struct pci_dev *pdev,
					    pci_channel_state_t state)
{
	struct rnic_function *function = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	rnic_function_leave_idle(function, "its bus reports an error");
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

/*
 * A sleeping machine's device forgets, and the wire does not wait. The device has gone
 * before: see rnic_function_sleep_event().
 */
static int rnic_suspend(struct device *parent)
{
	rnic_function_leave_idle(dev_get_drvdata(parent), NULL);
	return 0;
}

static int rnic_resume(struct device *parent)
{
	rnic_function_return_or_retry(dev_get_drvdata(parent), RNIC_ABSENT_PCI);
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
