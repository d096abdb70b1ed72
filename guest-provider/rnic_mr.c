// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions and memory windows.
 */

#include <errno.h>
#include <stdlib.h>

#include "rnic.h"

struct ibv_mr *rnic_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t hca_va, int access)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr) {
		errno = ENOMEM;
		return NULL;
	}

	ret = ibv_cmd_reg_mr(pd, addr, length, hca_va, access, vmr, &cmd,
			     sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

struct ibv_mr *rnic_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr) {
		errno = ENOMEM;
		return NULL;
	}

	ret = ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr,
				    NULL);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

int rnic_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		  void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
				access, pd, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
}

int rnic_dereg_mr(struct verbs_mr *vmr)
{
	int ret;

	ret = ibv_cmd_dereg_mr(vmr);
	if (!ret)
		free(vmr);
	return ret;
}

/* One that another context has made; the kernel has it once. */
struct ibv_mr *rnic_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr) {
		errno = ENOMEM;
		return NULL;
	}

	ret = ibv_cmd_query_mr(pd, vmr, handle);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

void rnic_unimport_mr(struct ibv_mr *ibmr)
{
	free(verbs_get_mr(ibmr));
}

struct ibv_mw *rnic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;
	int ret;

	if (!rnic_has_feature(to_rctx(pd->context),
			      RNIC_FEATURE_MEMORY_WINDOW |
			      (type == IBV_MW_TYPE_1 ?
			       RNIC_FEATURE_PD_WINDOW : 0))) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	mw = calloc(1, sizeof(*mw));
	if (!mw) {
		errno = ENOMEM;
		return NULL;
	}

	ret = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (ret) {
		free(mw);
		errno = ret;
		return NULL;
	}
	return mw;
}

int rnic_dealloc_mw(struct ibv_mw *ibmw)
{
	int ret;

	ret = ibv_cmd_dealloc_mw(ibmw);
	if (!ret)
		free(ibmw);
	return ret;
}

/* A bind of no length takes the window from its region, and names none. */
static bool may_bind_anew(uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	return info->length ? rnic_may_bind(rkey, info)
			    : !rnic_is_stag_zero(rkey);
}

/*
 * Type 1: the device binds it anew, and a bind of no length unbinds it. With the
 * fence a bind that is flushed has not been done, for all QPs use the window.
 */
int rnic_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw,
		 struct ibv_mw_bind *bind)
{
	uint32_t rkey = ibv_inc_rkey(ibmw->rkey);
	struct rnic_qp *qp = to_rqp(ibqp);
	int ret;

	if (!may_bind_anew(rkey, &bind->bind_info))
		return EINVAL;
	ret = rnic_check_post(ibqp);
	if (ret)
		return ret;

	rnic_wq_lock(&qp->sq);
	qp->next = qp->sq.producer;
	ret = rnic_wqe_begin(qp, IBV_WR_BIND_MW, bind->wr_id,
			     bind->send_flags | IBV_SEND_FENCE);
	if (!ret) {
		rnic_wqe_bind(qp, rkey, &bind->bind_info);
		if (bind->bind_info.length)
			ibmw->rkey = rkey;
		rnic_wq_publish(&qp->sq, qp->next);
	}
	rnic_wq_unlock(&qp->sq);
	return ret;
}
