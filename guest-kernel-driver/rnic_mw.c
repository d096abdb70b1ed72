// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: memory windows. Those of type 2 serve the QP they are bound through,
 * those of type 1 every QP of their PD.
 */

#include <linux/random.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

int rnic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibmw->device);
	bool of_pd = ibmw->type == IB_MW_TYPE_1;
	struct rnic_pd *pd = to_rnic_pd(ibmw->pd);
	int ret = rnic_udata_none(udata);

	if (ret)
		return ret;
	if (!rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW) ||
	    (of_pd && !rnic_has(dev, RNIC_FEATURE_PD_WINDOW)))
		return -EOPNOTSUPP;
	/* Before the device can say that there is one. */
	atomic_inc(&pd->windows);
	/* Pairs with smp_rmb() in rnic_pd_note_windows(). */
	smp_wmb();
	atomic_inc(&pd->windows_made);
	ret = rnic_cmd_alloc_mw(dev, pd->pdn, of_pd, get_random_u8(),
				&ibmw->rkey);
	if (ret)
		atomic_dec(&pd->windows);
	return ret;
}

int rnic_dealloc_mw(struct ib_mw *ibmw)
{
	struct rnic_dev *dev = to_rnic_dev(ibmw->device);

	if (rnic_cmd_dealloc_stag(dev, ibmw->rkey))
		rnic_fail(dev, "it would not deallocate a memory window");
	atomic_dec(&to_rnic_pd(ibmw->pd)->windows);
	return 0;
}
