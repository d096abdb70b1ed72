// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: processes' contexts, the doorbell pages mapped into them, and the page that
 * tells them that the device has failed.
 *
 * Where pages are larger than doorbell pages a process is given as many of the
 * latter as make one of the former, and uses the first: it can then reach
 * no other's.
 */

#include <linux/mm.h>

#define UVERBS_MODULE_NAME rnic
#include <rdma/uverbs_named_ioctl.h>

#include "rnic.h"
#include "rnic_state_page.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

/* Doorbell pages in a page. */
#define RNIC_DOORBELL_GROUP	(PAGE_SIZE / RNIC_DOORBELL_PAGE_SIZE)

/* What processes can map; it owns the one or the other. */
struct rnic_mmap_entry {
	struct rdma_user_mmap_entry entry;
	struct rnic_dev *dev;
	struct rnic_state_page *state;	/* NULL: doorbell pages */
	unsigned int group;		/* of these */
};

static struct rnic_mmap_entry *
to_rnic_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct rnic_mmap_entry, entry);
}

u32 rnic_doorbell_page(struct ib_udata *udata)
{
	struct rnic_ucontext *uc =
		rdma_udata_to_drv_context(udata, struct rnic_ucontext,
					  ibucontext);

	return uc ? uc->doorbell_page : RNIC_KERNEL_DOORBELL_PAGE;
}

static void rnic_map_release(const struct rnic_mmap_entry *mine)
{
	if (mine->state)
		rnic_state_page_free(mine->state);
	else
		ida_free(&mine->dev->doorbell_pages, mine->group);
}

static phys_addr_t rnic_doorbell_address(struct rnic_dev *dev,
					 unsigned int group)
{
	return pci_resource_start(dev->pdev, RNIC_BAR_DOORBELLS) +
	       (phys_addr_t)group * PAGE_SIZE;
}

/*
 * The BAR has the last word: processes map what is counted here, and behind the
 * BAR are other devices. What is not aligned cannot be mapped at all.
 */
void rnic_doorbells_init(struct rnic_dev *dev)
{
	u32 limits = rnic_read32(dev, RNIC_REG_LIMITS);
	u64 length = pci_resource_len(dev->pdev, RNIC_BAR_DOORBELLS);

	dev->doorbell_groups = 0;
	if (PAGE_ALIGNED(rnic_doorbell_address(dev, 0)))
		dev->doorbell_groups =
			min_t(u64, length >> PAGE_SHIFT,
			      RNIC_LIMITS_DOORBELL_PAGES(limits) /
			      RNIC_DOORBELL_GROUP);
}

/* Group 0 has the kernel's page. */
static int rnic_doorbell_group_get(struct rnic_dev *dev)
{
	int group;

	if (dev->doorbell_groups < 2)
		return -EOPNOTSUPP;
	group = ida_alloc_range(&dev->doorbell_pages, 1,
				dev->doorbell_groups - 1, GFP_KERNEL);
	if (group == -ENOSPC)
		ibdev_warn_ratelimited(&dev->ibdev,
				       "all %u doorbell pages are in use\n",
				       dev->doorbell_groups - 1);
	return group;
}

/* Takes a copy of mine, which owns what it has; with an error that is given up. */
static struct rdma_user_mmap_entry *
rnic_map_offer(struct rnic_ucontext *uc, const struct rnic_mmap_entry *mine)
{
	struct rnic_mmap_entry *copy = kmemdup(mine, sizeof(*mine), GFP_KERNEL);
	int ret;

	if (!copy) {
		rnic_map_release(mine);
		return ERR_PTR(-ENOMEM);
	}
	ret = rdma_user_mmap_entry_insert(&uc->ibucontext, &copy->entry,
					  PAGE_SIZE);
	if (ret) {
		rnic_mmap_free(&copy->entry);
		return ERR_PTR(ret);
	}
	return &copy->entry;
}

static int rnic_doorbell_map_offer(struct rnic_dev *dev,
				   struct rnic_ucontext *uc)
{
	struct rnic_mmap_entry mine = { .dev = dev };
	int group = rnic_doorbell_group_get(dev);

	if (group < 0)
		return group;
	mine.group = group;
	uc->doorbell_page = group * RNIC_DOORBELL_GROUP;
	uc->doorbell_entry = rnic_map_offer(uc, &mine);
	return PTR_ERR_OR_ZERO(uc->doorbell_entry);
}

static int rnic_state_map_offer(struct rnic_dev *dev, struct rnic_ucontext *uc)
{
	struct rnic_mmap_entry mine = {
		.dev = dev,
		.state = rnic_state_page_alloc(),
	};

	if (!mine.state)
		return -ENOMEM;
	uc->state = mine.state;
	uc->state_entry = rnic_map_offer(uc, &mine);
	return PTR_ERR_OR_ZERO(uc->state_entry);
}

static int rnic_ucontext_offer_maps(struct rnic_dev *dev,
				    struct rnic_ucontext *uc)
{
	int ret;

	ret = rnic_doorbell_map_offer(dev, uc);
	if (ret)
		return ret;
	ret = rnic_state_map_offer(dev, uc);
	if (ret) {
		rdma_user_mmap_entry_remove(uc->doorbell_entry);
		return ret;
	}
	rnic_state_page_add(dev, uc);
	return 0;
}

static struct rnic_uresp_alloc_ucontext
rnic_ucontext_describe(struct rnic_dev *dev, struct rnic_ucontext *uc)
{
	return (struct rnic_uresp_alloc_ucontext) {
		.db_mmap_key = rdma_user_mmap_get_offset(uc->doorbell_entry),
		.features = dev->features,
		.db_mmap_length = PAGE_SIZE,
		.max_sq_units = dev->limits.max_sq_units,
		.max_rq_wr = dev->limits.max_rq_wr,
		.max_cqe = dev->limits.max_cqe,
		.max_inline = dev->limits.max_inline,
		.max_send_sge = dev->limits.max_send_sge,
		.max_write_sge = dev->limits.max_write_sge,
		.max_recv_sge = dev->limits.max_recv_sge,
		.max_read_sge = dev->limits.max_read_sge,
		.max_srq_wr = dev->limits.max_srq_wr,
		.state_mmap_length = PAGE_SIZE,
		.state_mmap_key = rdma_user_mmap_get_offset(uc->state_entry),
	};
}

int rnic_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibuc->device);
	struct rnic_ucontext *uc = to_rnic_ucontext(ibuc);
	struct rnic_uresp_alloc_ucontext response;
	int ret;

	/* The one that takes its place is the one to open. */
	if (rnic_failed(dev))
		return RNIC_ERR_FAILED;
	ret = rnic_udata_none(udata);
	if (!ret)
		ret = rnic_ucontext_offer_maps(dev, uc);
	if (ret)
		return ret;
	response = rnic_ucontext_describe(dev, uc);
	ret = rnic_udata_answer(udata, &response, sizeof(response));
	if (ret)
		rnic_dealloc_ucontext(ibuc);
	return ret;
}

/* For a process, or part of one, that imports the context. */
int rnic_query_ucontext(struct ib_ucontext *ibuc,
			struct uverbs_attr_bundle *attrs)
{
	struct rnic_uresp_alloc_ucontext response =
		rnic_ucontext_describe(to_rnic_dev(ibuc->device),
				       to_rnic_ucontext(ibuc));

	return uverbs_copy_to_struct_or_zero(attrs,
					     RNIC_ATTR_QUERY_CONTEXT_RESP,
					     &response, sizeof(response));
}

#define RNIC_QUERY_CONTEXT_RESP						\
	UVERBS_ATTR_STRUCT(struct rnic_uresp_alloc_ucontext, state_mmap_length)

ADD_UVERBS_ATTRIBUTES_SIMPLE(rnic_query_context, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(RNIC_ATTR_QUERY_CONTEXT_RESP,
						 RNIC_QUERY_CONTEXT_RESP,
						 UA_MANDATORY));

const struct uapi_definition rnic_uapi_definitions[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &rnic_query_context),
	{}
};

void rnic_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	struct rnic_ucontext *uc = to_rnic_ucontext(ibuc);

	rnic_state_page_remove(to_rnic_dev(ibuc->device), uc);
	rdma_user_mmap_entry_remove(uc->state_entry);
	rdma_user_mmap_entry_remove(uc->doorbell_entry);
}

/*
 * The device goes, for this context. The core unmaps what rdma_user_mmap_io()
 * mapped; the state page stays.
 */
void rnic_disassociate_ucontext(struct ib_ucontext *ibuc)
{
	rnic_state_page_set_failed(to_rnic_ucontext(ibuc)->state);
}

int rnic_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma)
{
	struct rnic_dev *dev = to_rnic_dev(ibuc->device);
	struct rdma_user_mmap_entry *entry;
	struct rnic_mmap_entry *mine;
	phys_addr_t address;
	int ret;

	entry = rdma_user_mmap_entry_get(ibuc, vma);
	if (!entry)
		return -EINVAL;
	mine = to_rnic_mmap_entry(entry);
	address = rnic_doorbell_address(dev, mine->group);
	if (mine->state)
		ret = rnic_state_page_map(mine->state, vma);
	else
		ret = rdma_user_mmap_io(ibuc, vma, PHYS_PFN(address), PAGE_SIZE,
					pgprot_noncached(vma->vm_page_prot),
					entry);
	rdma_user_mmap_entry_put(entry);
	return ret;
}

/* Only when the last mapping is gone may another process have a doorbell page. */
void rnic_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct rnic_mmap_entry *mine = to_rnic_mmap_entry(entry);

	rnic_map_release(mine);
	kfree(mine);
}
