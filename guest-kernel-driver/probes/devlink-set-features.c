// SPDX-License-Identifier: GPL-2.0
#include <net/devlink.h>

void probe(struct devlink *devlink);

void probe(struct devlink *devlink)
{
	devlink_set_features(devlink, DEVLINK_F_RELOAD);
}
