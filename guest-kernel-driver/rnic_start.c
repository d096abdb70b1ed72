// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: from nothing to a registered RDMA device, and back.
 */

#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/iopoll.h>

#include "rnic.h"
#include "rnic_cm_listen.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_ib.h"
#include "rnic_netdev.h"
#include "rnic_notify.h"
#include "rnic_start.h"
#include "rnic_state_page.h"

#define RNIC_RESET_TIMEOUT_US	(2 * USEC_PER_SEC)

/* Registers that are not in memory, or are too few, are no rnic's. */
static bool rnic_bar_valid(struct pci_dev *pdev, int bar, resource_size_t size)
{
	return (pci_resource_flags(pdev, bar) & IORESOURCE_MEM) &&
	       pci_resource_len(pdev, bar) >= size;
}

static int rnic_pci_init(struct rnic_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	if (!rnic_bar_valid(pdev, RNIC_BAR_REGISTERS, RNIC_REGISTERS_SIZE) ||
	    !rnic_bar_valid(pdev, RNIC_BAR_DOORBELLS,
			    RNIC_DOORBELL_PAGE_SIZE)) {
		pci_err(pdev, "not an rnic device: wrong BARs\n");
		return -ENODEV;
	}
	ret = pci_enable_device(pdev);
	if (ret)
		return ret;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto err_disable;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	ret = pci_request_regions(pdev, RNIC_DRIVER_NAME);
	if (ret)
		goto err_disable;
	ret = -ENOMEM;
	dev->registers = pci_iomap(pdev, RNIC_BAR_REGISTERS,
				   RNIC_REGISTERS_SIZE);
	if (!dev->registers)
		goto err_release;
	dev->doorbells = pci_iomap(pdev, RNIC_BAR_DOORBELLS,
				   RNIC_DOORBELL_PAGE_SIZE);
	if (!dev->doorbells)
		goto err_unmap;
	return 0;

err_unmap:
	pci_iounmap(pdev, dev->registers);
err_release:
	pci_release_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void rnic_pci_free(struct rnic_dev *dev)
{
	pci_clear_master(dev->pdev);
	pci_iounmap(dev->pdev, dev->doorbells);
	pci_iounmap(dev->pdev, dev->registers);
	pci_release_regions(dev->pdev);
	pci_disable_device(dev->pdev);
}

static int rnic_check_abi(struct rnic_dev *dev)
{
	struct device *parent = &dev->pdev->dev;
	u32 magic = rnic_read32(dev, RNIC_REG_MAGIC);
	u32 version = rnic_read32(dev, RNIC_REG_ABI_VERSION);

	if (magic != RNIC_MAGIC) {
		dev_err(parent, "not an rnic device: magic %#x\n", magic);
		return -ENODEV;
	}
	if (version >> 16 != RNIC_ABI_MAJOR) {
		dev_err(parent,
			"device has ABI %u.%u, this driver is for ABI %u\n",
			version >> 16, version & 0xffff, RNIC_ABI_MAJOR);
		return -ENODEV;
	}
	dev->abi_minor = version & 0xffff;
	/* For rnic_slot_reset(): of a device that answers. */
	pci_save_state(dev->pdev);
	return 0;
}

/* Waits for ENABLED to be as wanted. All bits are set if there is no device. */
static int rnic_wait_status(struct rnic_dev *dev, u32 wanted)
{
	u32 status;
	int ret;

	ret = read_poll_timeout(rnic_read32, status,
				(status & RNIC_STATUS_FATAL) ||
				(status & RNIC_STATUS_ENABLED) == wanted,
				1000, RNIC_RESET_TIMEOUT_US, false, dev,
				RNIC_REG_STATUS);
	return status & RNIC_STATUS_FATAL ? -EIO : ret;
}

static int rnic_reset(struct rnic_dev *dev)
{
	rnic_write32(dev, RNIC_REG_CONTROL, RNIC_CONTROL_RESET);
	return rnic_wait_status(dev, 0);
}

static int rnic_enable(struct rnic_dev *dev)
{
	int ret;

	dev->features = rnic_read64(dev, RNIC_REG_FEATURES) &
			RNIC_DRIVER_FEATURES;
	rnic_write64(dev, RNIC_REG_DRIVER_FEATURES, dev->features);
	rnic_admin_program(dev, 0);
	rnic_write32(dev, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
	ret = rnic_wait_status(dev, RNIC_STATUS_ENABLED);
	if (ret)
		dev_err(&dev->pdev->dev, "cannot enable device, health %u\n",
			rnic_read32(dev, RNIC_REG_HEALTH));
	return ret;
}

static int rnic_read_mac(struct rnic_dev *dev)
{
	u64 mac = rnic_read64(dev, RNIC_REG_MAC);
	unsigned int i;

	for (i = 0; i < ETH_ALEN; i++)
		dev->mac[i] = mac >> (8 * i);
	if (is_valid_ether_addr(dev->mac))
		return 0;
	dev_err(&dev->pdev->dev, "MAC address %pM is none\n", dev->mac);
	return -ENODEV;
}

/* To a device that executes admin commands. */
static int rnic_hw_start(struct rnic_dev *dev)
{
	int ret;

	ret = rnic_check_abi(dev);
	if (!ret)
		ret = rnic_reset(dev);
	if (!ret)
		ret = rnic_read_mac(dev);
	if (ret)
		return ret;
	/* Not before the reset: another kernel may have left it at work. */
	pci_set_master(dev->pdev);
	ret = rnic_admin_init(dev);
	if (ret)
		return ret;
	ret = rnic_vectors_init(dev);
	if (ret)
		goto err_admin;
	ret = rnic_enable(dev);
	if (!ret)
		ret = rnic_cmd_query_device(dev);
	if (ret)
		goto err_vectors;
	return 0;

err_vectors:
	rnic_reset_at_once(dev);
	rnic_vectors_free(dev);
err_admin:
	rnic_admin_free(dev);
	return ret;
}

static void rnic_hw_stop(struct rnic_dev *dev)
{
	rnic_reset_at_once(dev);
	rnic_vectors_free(dev);
	rnic_admin_free(dev);
}

/* *netdev: NULL before the function's first device. */
static int rnic_netdev_start(struct rnic_dev *dev, struct net_device **netdev)
{
	if (!*netdev)
		*netdev = rnic_netdev_create(dev);
	return *netdev ? rnic_netdev_attach(dev, *netdev) : -ENOMEM;
}

/* From a device that executes commands to interfaces others can use. */
static int rnic_interfaces_start(struct rnic_dev *dev,
				 struct net_device **netdev)
{
	int ret;

	ret = rnic_eqs_create(dev);
	if (ret)
		return ret;
	ret = rnic_netdev_start(dev, netdev);
	if (ret)
		goto err_eqs;
	ret = rnic_ib_register(dev);
	if (ret)
		goto err_netdev;
	ret = rnic_notify_register(dev);
	if (ret)
		goto err_ib;
	rnic_health_watch(dev);
	return 0;

err_ib:
	rnic_ib_unregister(dev);
err_netdev:
	rnic_netdev_detach(dev);
err_eqs:
	rnic_eqs_destroy(dev);
	return ret;
}

static void rnic_interfaces_stop(struct rnic_dev *dev)
{
	rnic_notify_unregister(dev);
	rnic_ib_unregister(dev);
	/* Users in the kernel may have waited for what only a failure ends. */
	rnic_health_unwatch(dev);
	/* What the health work has begun. */
	rnic_listen_stop(dev);
	rnic_netdev_detach(dev);
	rnic_eqs_destroy(dev);
}

static void rnic_free(struct rnic_dev *dev)
{
	rnic_health_free(dev);
	rnic_ib_free(dev);
	ib_dealloc_device(&dev->ibdev);
}

struct rnic_dev *rnic_start(struct pci_dev *pdev,
			    struct rnic_function *function,
			    struct rnic_failure *failure,
			    struct net_device **netdev)
{
	struct rnic_dev *dev = ib_alloc_device(rnic_dev, ibdev);
	int ret;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->pdev = pdev;
	dev->function = function;
	dev->failure = failure;
	ret = rnic_health_init(dev);
	if (ret) {
		ib_dealloc_device(&dev->ibdev);
		return ERR_PTR(ret);
	}
	rnic_netdev_init(dev);
	rnic_state_pages_init(dev);
	rnic_ib_init(dev);
	ret = rnic_pci_init(dev);
	if (ret)
		goto err_free;
	ret = rnic_hw_start(dev);
	if (ret)
		goto err_pci;
	ret = rnic_interfaces_start(dev, netdev);
	if (ret)
		goto err_hw;
	return dev;

err_hw:
	rnic_hw_stop(dev);
err_pci:
	rnic_pci_free(dev);
err_free:
	rnic_free(dev);
	return ERR_PTR(ret);
}

void rnic_stop(struct rnic_dev *dev)
{
	rnic_interfaces_stop(dev);
	rnic_hw_stop(dev);
	rnic_pci_free(dev);
	rnic_free(dev);
}
