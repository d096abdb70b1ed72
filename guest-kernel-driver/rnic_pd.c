// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: protection domains.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

int rnic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	int ret = rnic_udata_none(udata);

	return ret ?: rnic_cmd_alloc_pd(to_rnic_dev(ibpd->device),
					&to_rnic_pd(ibpd)->pdn);
}

int rnic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);

	if (rnic_cmd_dealloc_pd(dev, to_rnic_pd(ibpd)->pdn))
		rnic_fail(dev, "it would not deallocate a protection domain");
	return 0;
}
