// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Protection domains, thread domains, and parent domains, which put both and an
 * allocator of memory in one. The kernel knows of protection domains only.
 */

#include <errno.h>
#include <stdlib.h>

#include <util/util.h>

#include "rnic.h"

struct rnic_td {
	struct ibv_td td;
	_Atomic(unsigned int) users;	/* parent domains */
};

static struct rnic_td *to_rtd(struct ibv_td *td)
{
	return container_of(td, struct rnic_td, td);
}

/* ----------------------------------------------- protection domains */

struct ibv_pd *rnic_alloc_pd(struct ibv_context *context)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct ibv_alloc_pd cmd;
	struct rnic_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}

	ret = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->pd;
}

static int dealloc_parent_domain(struct rnic_pd *pd)
{
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	atomic_fetch_sub(&pd->protection_domain->users, 1);
	free(pd);
	return 0;
}

int rnic_dealloc_pd(struct ibv_pd *ibpd)
{
	struct rnic_pd *pd = to_rpd(ibpd);
	int ret;

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->protection_domain)
		return dealloc_parent_domain(pd);

	ret = ibv_cmd_dealloc_pd(ibpd);
	if (!ret)
		free(pd);
	return ret;
}

/* One that another context has made; the kernel has it once. */
struct ibv_pd *rnic_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct rnic_pd *pd = calloc(1, sizeof(*pd));

	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

void rnic_unimport_pd(struct ibv_pd *ibpd)
{
	free(to_rpd(ibpd));
}

/* --------------------------------------------------- thread domains */

struct ibv_td *rnic_alloc_td(struct ibv_context *context,
			     struct ibv_td_init_attr *attr)
{
	struct rnic_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td) {
		errno = ENOMEM;
		return NULL;
	}
	td->td.context = context;
	return &td->td;
}

int rnic_dealloc_td(struct ibv_td *ibtd)
{
	struct rnic_td *td = to_rtd(ibtd);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/* --------------------------------------------------- parent domains */

static int check_parent_domain_attr(const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	/* A parent domain has a protection domain, not another parent. */
	if (to_rpd(attr->pd)->protection_domain)
		return EINVAL;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *rnic_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	struct rnic_pd *pd;
	int ret;

	if (ibv_check_alloc_parent_domain(attr))
		return NULL;
	ret = check_parent_domain_attr(attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}

	ibv_initialize_parent_domain(&pd->pd, attr->pd);
	pd->protection_domain = to_rpd(attr->pd);
	atomic_fetch_add(&pd->protection_domain->users, 1);
	if (attr->td) {
		pd->td = to_rtd(attr->td);
		atomic_fetch_add(&pd->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	return &pd->pd;
}
