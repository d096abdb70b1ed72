// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: memory regions of processes: their own memory, or a dma-buf's, pinned
 * for as long as the region lasts.
 */

#include <linux/random.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_page_list.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

/*
 * REMOTE_ATOMIC is a right, which a region has whether or not anybody can use it:
 * programs ask for all rights there are, whatever atomic_cap says.
 */
#define RNIC_ACCESS_SUPPORTED	(IB_ACCESS_LOCAL_WRITE | \
				 IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_READ | \
				 IB_ACCESS_REMOTE_ATOMIC | \
				 IB_ACCESS_MW_BIND | \
				 IB_ACCESS_HUGETLB | \
				 IB_ZERO_BASED | \
				 IB_ACCESS_OPTIONAL)

#define RNIC_REREG_SUPPORTED	(IB_MR_REREG_TRANS | \
				 IB_MR_REREG_PD | \
				 IB_MR_REREG_ACCESS)

static int rnic_user_mr_check(struct rnic_dev *dev, u64 length, int access)
{
	if (access & ~RNIC_ACCESS_SUPPORTED)
		return -EOPNOTSUPP;
	return length > dev->limits.max_mr_size ? -EINVAL : 0;
}

/*
 * What is zero based has its first octet at zero, wherever that is in a page;
 * the pages are then those of the memory itself.
 */
static int rnic_user_mr_translate(struct rnic_dev *dev, struct ib_umem *umem,
				  u64 iova, struct rnic_mr_params *params,
				  struct rnic_page_table *table)
{
	bool zero_based = params->access & RNIC_ACCESS_ZERO_BASED;
	u64 first = zero_based ? umem->address : iova;
	unsigned long page_size;
	int ret;

	page_size = ib_umem_find_best_pgsz(umem, dev->limits.page_size_cap,
					   first);
	if (!page_size)
		return -EINVAL;
	ret = rnic_page_table_init(dev, table, umem, page_size);
	if (ret)
		return ret;
	params->first_byte_offset = first & (page_size - 1);
	params->va = zero_based ? 0 : iova;
	params->length = umem->length;
	params->pages = table->list;
	return 0;
}

static void rnic_user_mr_set(struct rnic_mr *mr, struct ib_umem *umem,
			     u64 iova)
{
	mr->umem = umem;
	mr->iova = iova;
}

/*
 * ------------------------------------------------------------- register
 */
static int rnic_user_mr_register(struct rnic_mr *mr, struct rnic_dev *dev,
				 u32 pdn)
{
	struct rnic_mr_params params = {
		.pdn = pdn,
		.access = rnic_access_rights(dev, mr->access),
		.key = get_random_u8(),
	};
	struct rnic_page_table table;
	u32 stag;
	int ret;

	ret = rnic_user_mr_translate(dev, mr->umem, mr->iova, &params, &table);
	if (ret)
		return ret;
	ret = rnic_cmd_register_mr(dev, &params, &stag);
	rnic_page_table_free(dev, &table);
	if (!ret)
		rnic_mr_set_stag(mr, stag);
	return ret;
}

/* The region owns the memory then; without one, it is released. */
static struct ib_mr *rnic_user_mr_create(struct ib_pd *ibpd,
					 struct ib_umem *umem, u64 iova,
					 int access)
{
	struct rnic_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	int ret = -ENOMEM;

	if (mr) {
		rnic_user_mr_set(mr, umem, iova);
		mr->access = access;
		ret = rnic_user_mr_register(mr, to_rnic_dev(ibpd->device),
					    to_rnic_pd(ibpd)->pdn);
	}
	if (!ret)
		return &mr->ibmr;
	ib_umem_release(umem);
	kfree(mr);
	return ERR_PTR(ret);
}

struct ib_mr *rnic_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access, RNIC_DMAH_PARAMETER
			       struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);
	struct ib_umem *umem;
	int ret;

	if (RNIC_DMAH_GIVEN)
		return ERR_PTR(-EOPNOTSUPP);
	ret = rnic_udata_none(udata);
	if (ret)
		return ERR_PTR(ret);
	ret = rnic_user_mr_check(dev, length, access);
	if (ret)
		return ERR_PTR(ret);
	umem = ib_umem_get_va(&dev->ibdev, start, length, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return rnic_user_mr_create(ibpd, umem, virt_addr, access);
}

struct ib_mr *rnic_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 virt_addr, int fd,
				      int access, RNIC_DMAH_PARAMETER
				      struct RNIC_DMABUF_UDATA *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibpd->device);
	struct ib_umem_dmabuf *dmabuf;
	int ret;

	if (RNIC_DMAH_GIVEN)
		return ERR_PTR(-EOPNOTSUPP);
	ret = rnic_udata_none(rnic_dmabuf_udata(udata));
	if (ret)
		return ERR_PTR(ret);
	ret = rnic_user_mr_check(dev, length, access);
	if (ret)
		return ERR_PTR(ret);
	dmabuf = ib_umem_dmabuf_get_pinned(&dev->ibdev, offset, length, fd,
					   access);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	return rnic_user_mr_create(ibpd, &dmabuf->umem, virt_addr, access);
}

/*
 * ----------------------------------------------------------- reregister
 */

/*
 * New rights to the same memory may need it pinned anew: what was pinned for
 * reading only must not be written to. Where its first octet is counted from is
 * part of the translation, too.
 */
static bool rnic_rereg_needs_translation(const struct rnic_mr *mr, int access)
{
	return ((mr->access ^ access) & IB_ZERO_BASED) ||
	       (ib_access_writable(access) && !mr->umem->writable);
}

static u32 rnic_rereg_change(int flags)
{
	u32 change = 0;

	if (flags & IB_MR_REREG_PD)
		change |= RNIC_REREGISTER_PD;
	if (flags & IB_MR_REREG_ACCESS)
		change |= RNIC_REREGISTER_ACCESS;
	if (flags & IB_MR_REREG_TRANS)
		change |= RNIC_REREGISTER_TRANSLATION;
	return change;
}

/* To the device there is no such region any more. */
static void rnic_user_mr_lose(struct rnic_mr *mr)
{
	mr->gone = true;
	ib_umem_release(mr->umem);
	mr->umem = NULL;
}

/*
 * V7.3.2.3-7: what fails leaves no region, unless windows are bound to it, which is
 * then the error. What the device refuses has gone there already.
 */
static int rnic_rereg_fail(struct rnic_dev *dev, struct rnic_mr *mr, int error)
{
	int ret;

	if (mr->gone || error == -EBUSY)
		return error;
	ret = rnic_cmd_dealloc_stag(dev, mr->ibmr.rkey);
	if (ret == -EBUSY)
		return ret;
	if (ret)
		rnic_fail(dev, "it would not deallocate a memory region");
	rnic_user_mr_lose(mr);
	return error;
}

static int rnic_rereg_execute(struct rnic_dev *dev, struct rnic_mr *mr,
			      int flags, const struct rnic_mr_params *params)
{
	u32 stag = mr->ibmr.rkey;
	int ret;

	ret = rnic_cmd_reregister_mr(dev, rnic_rereg_change(flags), params,
				     &stag);
	if (!ret)
		rnic_mr_set_stag(mr, stag);
	else if (ret != -EBUSY)
		rnic_user_mr_lose(mr);
	return ret;
}

static int rnic_rereg_translation(struct rnic_dev *dev, struct rnic_mr *mr,
				  int flags, struct ib_umem *umem, u64 iova,
				  struct rnic_mr_params *params)
{
	struct rnic_page_table table;
	int ret;

	ret = rnic_user_mr_translate(dev, umem, iova, params, &table);
	if (!ret) {
		ret = rnic_rereg_execute(dev, mr, flags, params);
		rnic_page_table_free(dev, &table);
	}
	/* The device is through with what it no longer refers to. */
	if (ret) {
		ib_umem_release(umem);
	} else {
		ib_umem_release(mr->umem);
		rnic_user_mr_set(mr, umem, iova);
	}
	return ret;
}

static int rnic_rereg(struct rnic_dev *dev, struct rnic_mr *mr, int flags,
		      u64 start, u64 length, u64 iova,
		      struct rnic_mr_params *params, int access)
{
	struct ib_umem *umem;

	if (!(flags & IB_MR_REREG_TRANS)) {
		if (!rnic_rereg_needs_translation(mr, access))
			return rnic_rereg_execute(dev, mr, flags, params);
		if (mr->umem->is_dmabuf)
			return -EOPNOTSUPP;
		flags |= IB_MR_REREG_TRANS;
		start = mr->umem->address;
		length = mr->umem->length;
		iova = mr->iova;
	}
	umem = ib_umem_get_va(&dev->ibdev, start, length, access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	return rnic_rereg_translation(dev, mr, flags, umem, iova, params);
}

/* Another key than that of @stag, at random: a peer does not guess it (R8.1.1-8). */
static u8 rnic_other_key(u32 stag)
{
	return stag + 1 + get_random_u8() % U8_MAX;
}

/*
 * New rights alone leave the keys as they are: programs have told them to their
 * peers, and other adapters keep them (rdma-core's tests count on it).
 */
static u8 rnic_rereg_key(const struct ib_mr *ibmr, int flags)
{
	return flags == IB_MR_REREG_ACCESS ? ibmr->rkey & 0xff :
					     rnic_other_key(ibmr->rkey);
}

/* The same region, or an error; the core takes note of the new PD. */
struct ib_mr *rnic_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 virt_addr, int access,
				 struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibmr->device);
	struct rnic_mr *mr = to_rnic_mr(ibmr);
	struct rnic_mr_params params;
	int ret;

	if ((flags & ~RNIC_REREG_SUPPORTED) ||
	    !rnic_has(dev, RNIC_FEATURE_REREGISTER))
		return ERR_PTR(-EOPNOTSUPP);
	ret = rnic_udata_none(udata);
	if (ret)
		return ERR_PTR(ret);
	if (mr->gone)
		return ERR_PTR(-EINVAL);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	params = (struct rnic_mr_params) {
		.pdn = to_rnic_pd(ibpd)->pdn,
		.access = rnic_access_rights(dev, access),
		.key = rnic_rereg_key(ibmr, flags),
	};
	ret = rnic_user_mr_check(dev, flags & IB_MR_REREG_TRANS ? length : 0,
				 access) ?:
	      rnic_rereg(dev, mr, flags, start, length, virt_addr, &params,
			 access);
	if (ret)
		return ERR_PTR(rnic_rereg_fail(dev, mr, ret));
	mr->access = access;
	return NULL;
}
