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

	return ret ?: rnic_cmd_alloc_pd(dev, &to_rnic_pd(ibpd)->pdn);
}

void rnic_pd_note_kernel_qp(struct ib_pd *ibpd)
{
	if (!atomic_xchg(&to_rnic_pd(ibpd)->has_kernel_qps, true))
		atomic_inc(&to_rnic_dev(ibpd->device)->kernel_users);
}

int rnic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);

	if (rnic_cmd_dealloc_pd(dev, to_rnic_pd(ibpd)->pdn))
		rnic_fail(dev, "it would not deallocate a protection domain");
	if (atomic_read(&to_rnic_pd(ibpd)->has_kernel_qps))
		atomic_dec(&dev->kernel_users);
	return 0;
}
