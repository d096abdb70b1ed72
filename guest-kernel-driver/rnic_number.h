/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the numbers that the device gives its objects.
 */
#ifndef RNIC_NUMBER_H
#define RNIC_NUMBER_H

#include <linux/types.h>

struct rnic_dev;
struct xarray;

/*
 * Makes an object that the device has just made findable by its number. No event
 * of an earlier object of that number reaches it. A number that cannot be true
 * takes the device out of service. Returns RNIC_ERR_FAILED then, or -ENOMEM. Sleeps.
 *
 * resource: RNIC_RESOURCE_*, what events call an object of this kind.
 */
int rnic_number_take(struct rnic_dev *dev, struct xarray *objects, u8 resource,
		     u32 number, void *object);

/*
 * The same of an object that the device has not destroyed, as it should have, under
 * the number that it had. No memory for it is no reason to fail. Returns 0 or
 * RNIC_ERR_FAILED.
 */
int rnic_number_take_back(struct rnic_dev *dev, struct xarray *objects,
			  u8 resource, u32 number, void *object);

#endif /* RNIC_NUMBER_H */
