// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: memory regions: rights, keys and STags, and the regions of the kernel.
 * Those of processes are made in rnic_user_mr.c.
 */

#include <linux/dma-mapping.h>
#include <linux/random.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_verbs.h"

u8 rnic_access_rights(const struct rnic_dev *dev, int ib_access)
{
	u8 access = RNIC_ACCESS_LOCAL_READ;

	/*
	 * librdmacm's rdma_reg_read() asks for local write right only, so any
	 * memory that may be written may be the sink of our own Reads.
	 */
	if (ib_access & IB_ACCESS_LOCAL_WRITE)
		access |= RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_READ_SINK;
	if (ib_access & IB_ACCESS_REMOTE_WRITE)
		access |= RNIC_ACCESS_REMOTE_WRITE;
	if (ib_access & IB_ACCESS_REMOTE_READ)
		access |= RNIC_ACCESS_REMOTE_READ;
	/* Without the feature a right that no peer can use. */
	if ((ib_access & IB_ACCESS_REMOTE_ATOMIC) &&
	    rnic_has(dev, RNIC_FEATURE_RDMAP_EXTENSIONS))
		access |= RNIC_ACCESS_REMOTE_ATOMIC;
	if (ib_access & IB_ACCESS_MW_BIND)
		access |= RNIC_ACCESS_MW_BIND;
	if (ib_access & IB_ZERO_BASED)
		access |= RNIC_ACCESS_ZERO_BASED;
	return access;
}

void rnic_mr_set_stag(struct rnic_mr *mr, u32 stag)
{
	mr->ibmr.lkey = stag;
	mr->ibmr.rkey = stag;
}

/* STag zero: all memory, for the kernel's own local use. */
struct ib_mr *rnic_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct rnic_mr *mr;

	if (!rnic_has(to_rnic_dev(ibpd->device), RNIC_FEATURE_STAG_ZERO) ||
	    (access & ~IB_ACCESS_LOCAL_WRITE))
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	rnic_mr_set_stag(mr, 0);
	return &mr->ibmr;
}

struct ib_mr *rnic_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_pages)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);
	struct rnic_mr *mr;
	u32 stag;
	int ret = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG ||
	    !rnic_has(dev, RNIC_FEATURE_FAST_REGISTER))
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_pages || max_pages > dev->limits.max_fast_register_pages)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_pages = max_pages;
	mr->pages = dma_alloc_coherent(&dev->pdev->dev,
				       max_pages * sizeof(*mr->pages),
				       &mr->pages_dma, GFP_KERNEL);
	if (!mr->pages)
		goto err_free;
	ret = rnic_cmd_alloc_stag(dev, to_rnic_pd(ibpd)->pdn, max_pages,
				  get_random_u8(), &stag);
	if (ret)
		goto err_free_pages;
	rnic_mr_set_stag(mr, stag);
	return &mr->ibmr;

err_free_pages:
	dma_free_coherent(&dev->pdev->dev, max_pages * sizeof(*mr->pages),
			  mr->pages, mr->pages_dma);
err_free:
	kfree(mr);
	return ERR_PTR(ret);
}

static int rnic_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct rnic_mr *mr = to_rnic_mr(ibmr);

	if (mr->num_pages == mr->max_pages)
		return -ENOMEM;
	mr->pages[mr->num_pages++] = cpu_to_le64(addr);
	return 0;
}

int rnic_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int count,
		   unsigned int *offset)
{
	to_rnic_mr(ibmr)->num_pages = 0;
	return ib_sg_to_pages(ibmr, sg, count, offset, rnic_set_page);
}

int rnic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibmr->device);
	struct rnic_windows_before windows = rnic_pd_note_windows(ibmr->pd);
	struct rnic_mr *mr = to_rnic_mr(ibmr);
	int ret = 0;

	if (ibmr->type != IB_MR_TYPE_DMA && !mr->gone)
		ret = rnic_cmd_dealloc_stag(dev, ibmr->rkey);
	/* A process may hear that windows are bound to its region. */
	if (ret == -EBUSY && ibmr->uobject &&
	    rnic_pd_has_had_windows(ibmr->pd, &windows))
		return ret;
	if (ret)
		rnic_fail(dev, "it would not deallocate a memory region");
	if (mr->pages)
		dma_free_coherent(&dev->pdev->dev,
				  mr->max_pages * sizeof(*mr->pages),
				  mr->pages, mr->pages_dma);
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
