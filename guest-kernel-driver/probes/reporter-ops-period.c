// SPDX-License-Identifier: GPL-2.0
#include <net/devlink.h>

const struct devlink_health_reporter_ops probe_ops = {
	.default_graceful_period = 0,
};
