// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: memory windows. The device binds all of them to a QP; that makes type 1
 * windows stricter than InfiniBand's, which any QP of their PD may use.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

int rnic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibmw->device);
	int ret = rnic_udata_none(udata);

	if (ret)
		return ret;
	if (!rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW))
		return -EOPNOTSUPP;
	return rnic_cmd_alloc_mw(dev, to_rnic_pd(ibmw->pd)->pdn,
				 rnic_next_key(dev), &ibmw->rkey);
}

int rnic_dealloc_mw(struct ib_mw *ibmw)
{
	return rnic_cmd_dealloc_stag(to_rnic_dev(ibmw->device), ibmw->rkey);
}
