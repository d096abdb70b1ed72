/*
 * rnic: what the device says of itself, QUERY_DEVICE and QUERY_COUNTERS
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_DEVICE_ATTR_H
#define HW_RNIC_DEVICE_ATTR_H

#include "hw/rnic/base/rnic.h"

/* The features this device offers, RNIC_FEATURE_*. */
uint64_t rnic_device_features(const RnicState *s);

enum rnic_admin_status
rnic_device_attr_query(RnicState *s, const struct rnic_admin_sqe *sqe);
enum rnic_admin_status
rnic_counters_query(RnicState *s, const struct rnic_admin_sqe *sqe);

#endif /* HW_RNIC_DEVICE_ATTR_H */
