// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the numbers that the device gives its objects.
 */

#include "rnic.h"
#include "rnic_async.h"
#include "rnic_health.h"
#include "rnic_number.h"

int rnic_number_take(struct rnic_dev *dev, struct xarray *objects, u8 resource,
		     u32 number, void *object)
{
	int ret;

	if (!number || number > RNIC_OBJECT_NUMBER_MASK) {
		rnic_fail(dev, "it gave an object an impossible number");
		return RNIC_ERR_FAILED;
	}
	/* The memory for it, while that can sleep. */
	ret = xa_insert_irq(objects, number, NULL, GFP_KERNEL);
	if (ret == -EBUSY) {
		rnic_fail(dev, "it gave two objects one number");
		return RNIC_ERR_FAILED;
	}
	if (!ret)
		rnic_async_store(dev, objects, resource, number, object);
	return ret;
}

int rnic_number_take_back(struct rnic_dev *dev, struct xarray *objects,
			  u8 resource, u32 number, void *object)
{
	if (xa_insert_irq(objects, number, NULL, GFP_KERNEL | __GFP_NOFAIL)) {
		rnic_fail(dev, "it gave two objects one number");
		return RNIC_ERR_FAILED;
	}
	rnic_async_store(dev, objects, resource, number, object);
	return 0;
}
