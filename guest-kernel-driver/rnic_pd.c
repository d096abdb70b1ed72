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
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);
	int ret = rnic_udata_none(udata);

	ret = ret ?: rnic_cmd_alloc_pd(dev, &to_rnic_pd(ibpd)->pdn);
	if (!ret && !udata)
		atomic_inc(&dev->kernel_pds);
	return ret;
}

int rnic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);

	if (rnic_cmd_dealloc_pd(dev, to_rnic_pd(ibpd)->pdn))
		rnic_fail(dev, "it would not deallocate a protection domain");
	if (!udata)
		atomic_dec(&dev->kernel_pds);
	return 0;
}
