// SPDX-License-Identifier: GPL-2.0
#include <net/devlink.h>

int probe(struct devlink_info_req *request);

int probe(struct devlink_info_req *request)
{
	return devlink_info_driver_name_put(request, "rnic");
}
