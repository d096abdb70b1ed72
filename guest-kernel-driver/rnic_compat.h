/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: differences between the kernels that this driver compiles for, found
 * by the probes in probe.sh.
 */
#ifndef RNIC_COMPAT_H
#define RNIC_COMPAT_H

#include <linux/mm.h>
#include <net/devlink.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "rnic-config.h"

#ifdef RNIC_HAVE_RDMA_ITER
#include <rdma/iter.h>
#endif

/* The tag of the struct that create_cq has as its last parameter. */
#ifdef RNIC_HAVE_CREATE_CQ_ATTRS
#define RNIC_CQ_UDATA		uverbs_attr_bundle

static inline struct ib_udata *rnic_cq_udata(struct RNIC_CQ_UDATA *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#else
#define RNIC_CQ_UDATA		ib_udata

static inline struct ib_udata *rnic_cq_udata(struct RNIC_CQ_UDATA *udata)
{
	return udata;
}
#endif

/* The second parameter of the operation that resizes a CQ, and its name. */
#ifdef RNIC_HAVE_RESIZE_USER_CQ
#define RNIC_CQE_COUNT		unsigned int
#define RNIC_RESIZE_CQ		resize_user_cq
#else
#define RNIC_CQE_COUNT		int
#define RNIC_RESIZE_CQ		resize_cq
#endif

/* Registration on behalf of a device's steering hints. */
#ifdef RNIC_HAVE_REG_USER_MR_DMAH
#define RNIC_DMAH_PARAMETER	struct ib_dmah *dmah,
#define RNIC_DMAH_GIVEN		(dmah)
#else
#define RNIC_DMAH_PARAMETER
#define RNIC_DMAH_GIVEN		false
#endif

/* The same of reg_user_mr_dmabuf. */
#if defined(RNIC_HAVE_REG_DMABUF_ATTRS) || defined(RNIC_HAVE_REG_USER_MR_DMAH)
#define RNIC_DMABUF_UDATA	uverbs_attr_bundle

static inline struct ib_udata *rnic_dmabuf_udata(struct RNIC_DMABUF_UDATA *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#else
#define RNIC_DMABUF_UDATA	ib_udata

static inline struct ib_udata *rnic_dmabuf_udata(struct RNIC_DMABUF_UDATA *udata)
{
	return udata;
}
#endif

#ifndef RNIC_HAVE_VM_FLAGS_CLEAR
static inline void vm_flags_clear(struct vm_area_struct *vma,
				  unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#ifndef RNIC_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device,
					     unsigned long addr, size_t size,
					     int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* Without a grace period. Where it is an operation's default, it is zero. */
static inline struct devlink_health_reporter *
rnic_devlink_reporter_create(struct devlink *devlink,
			     const struct devlink_health_reporter_ops *ops,
			     void *priv)
{
#ifdef RNIC_HAVE_REPORTER_OPS_PERIOD
	return devlink_health_reporter_create(devlink, ops, priv);
#else
	return devlink_health_reporter_create(devlink, ops, 0, priv);
#endif
}

/* Newer kernels name the driver themselves. */
static inline int rnic_devlink_put_driver_name(struct devlink_info_req *request)
{
#ifdef RNIC_HAVE_INFO_DRIVER_NAME
	return devlink_info_driver_name_put(request, KBUILD_MODNAME);
#else
	return 0;
#endif
}

/* Newer kernels see by the operations that a driver can reload. */
static inline void rnic_devlink_enable_reload(struct devlink *devlink)
{
#ifdef RNIC_HAVE_DEVLINK_SET_FEATURES
	devlink_set_features(devlink, DEVLINK_F_RELOAD);
#endif
}

#endif /* RNIC_COMPAT_H */
