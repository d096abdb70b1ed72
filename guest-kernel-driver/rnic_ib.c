// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the RDMA device and its operations.
 */

#include <net/addrconf.h>

#include "rnic.h"
#include "rnic-abi.h"
#include "rnic_cm.h"
#include "rnic_cm_listen.h"
#include "rnic_ib.h"
#include "rnic_verbs.h"

static const struct ib_device_ops rnic_dev_ops = {
	.owner = THIS_MODULE,
	/* Providers find the device by its PCI ids. */
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = RNIC_UVERBS_ABI_VERSION,
#ifdef RNIC_HAVE_ROBUST_UDATA
	.uverbs_robust_udata = 1,
#endif

	.alloc_hw_port_stats = rnic_alloc_hw_port_stats,
	.alloc_mr = rnic_alloc_mr,
	.alloc_mw = rnic_alloc_mw,
	.alloc_pd = rnic_alloc_pd,
	.alloc_ucontext = rnic_alloc_ucontext,
	.counter_alloc_stats = rnic_counter_alloc_stats,
	.counter_bind_qp = rnic_counter_bind_qp,
	.counter_dealloc = rnic_counter_dealloc,
#ifdef RNIC_HAVE_COUNTER_INIT
	.counter_init = rnic_counter_init,
#endif
	.counter_unbind_qp = rnic_counter_unbind_qp,
	.counter_update_stats = rnic_counter_update_stats,
	.create_cq = rnic_create_cq,
#ifdef RNIC_HAVE_CREATE_USER_CQ
	.create_user_cq = rnic_create_user_cq,
#endif
	.create_qp = rnic_create_qp,
	.create_srq = rnic_create_srq,
	.dealloc_mw = rnic_dealloc_mw,
	.dealloc_pd = rnic_dealloc_pd,
	.dealloc_ucontext = rnic_dealloc_ucontext,
	.dereg_mr = rnic_dereg_mr,
	.destroy_cq = rnic_destroy_cq,
	.destroy_qp = rnic_destroy_qp,
	.destroy_srq = rnic_destroy_srq,
	.device_group = &rnic_device_group,
	.disassociate_ucontext = rnic_disassociate_ucontext,
	.fill_res_cm_id_entry = rnic_fill_res_cm_id_entry,
	.fill_res_cq_entry = rnic_fill_res_cq_entry,
	.fill_res_mr_entry = rnic_fill_res_mr_entry,
	.fill_res_qp_entry = rnic_fill_res_qp_entry,
#ifdef RNIC_HAVE_FILL_RES_SRQ
	.fill_res_srq_entry = rnic_fill_res_srq_entry,
#endif
	.get_dev_fw_str = rnic_get_dev_fw_str,
	.get_dma_mr = rnic_get_dma_mr,
	.get_hw_stats = rnic_get_hw_stats,
	.get_port_immutable = rnic_get_port_immutable,
#ifdef RNIC_HAVE_GET_VECTOR_AFFINITY
	.get_vector_affinity = rnic_get_vector_affinity,
#endif
	.iw_accept = rnic_iw_accept,
	.iw_add_ref = rnic_iw_add_ref,
	.iw_connect = rnic_iw_connect,
	.iw_create_listen = rnic_iw_create_listen,
	.iw_destroy_listen = rnic_iw_destroy_listen,
	.iw_get_qp = rnic_iw_get_qp,
	.iw_reject = rnic_iw_reject,
	.iw_rem_ref = rnic_iw_rem_ref,
	.map_mr_sg = rnic_map_mr_sg,
	.mmap = rnic_mmap,
	.mmap_free = rnic_mmap_free,
	.modify_cq = rnic_modify_cq,
	.modify_qp = rnic_modify_qp,
	.modify_srq = rnic_modify_srq,
	.poll_cq = rnic_poll_cq,
	.post_recv = rnic_post_recv,
	.post_send = rnic_post_send,
	.post_srq_recv = rnic_post_srq_recv,
	.query_device = rnic_query_device,
	.query_gid = rnic_query_gid,
	.query_port = rnic_query_port,
	.query_qp = rnic_query_qp,
	.query_srq = rnic_query_srq,
	.query_ucontext = rnic_query_ucontext,
	.reg_user_mr = rnic_reg_user_mr,
	.reg_user_mr_dmabuf = rnic_reg_user_mr_dmabuf,
	.req_notify_cq = rnic_req_notify_cq,
	.rereg_user_mr = rnic_rereg_user_mr,
	.RNIC_RESIZE_CQ = rnic_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, rnic_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, rnic_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, rnic_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, rnic_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, rnic_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, rnic_ucontext, ibucontext),
#ifdef RNIC_HAVE_COUNTER_INIT
	INIT_RDMA_OBJ_SIZE(rdma_counter, rnic_counter, counter),
#endif
};

void rnic_ib_init(struct rnic_dev *dev)
{
	ida_init(&dev->doorbell_pages);
	rnic_qp_counters_init(dev);
	mutex_init(&dev->gid_lock);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->srqs, XA_FLAGS_LOCK_IRQ);
	rnic_cm_init(dev);
}

void rnic_ib_free(struct rnic_dev *dev)
{
	rnic_cm_free(dev);
	xa_destroy(&dev->srqs);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->cqs);
	ida_destroy(&dev->doorbell_pages);
}

static void rnic_ib_describe(struct rnic_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;

	ibdev->node_type = RDMA_NODE_RNIC;
	strscpy(ibdev->node_desc, "rnic emulated RNIC",
		sizeof(ibdev->node_desc));
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, dev->mac);
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = dev->num_comp_eqs;
	ibdev->local_dma_lkey = 0;
	/* The core moderates the CQs of kernel modules as their load is. */
	ibdev->use_cq_dim = rnic_has(dev, RNIC_FEATURE_CQ_MODERATION);
	ibdev->dev.parent = &dev->pdev->dev;
	/* The device's TCP ports are its own, not this kernel's. */
	ibdev->iw_driver_flags = IW_F_NO_PORT_MAP;
	strscpy(ibdev->iw_ifname, dev->netdev->name,
		sizeof(ibdev->iw_ifname));
	ibdev->driver_def = rnic_uapi_definitions;
	ib_set_device_ops(ibdev, &rnic_dev_ops);
}

int rnic_ib_register(struct rnic_dev *dev)
{
	int ret;

	rnic_doorbells_init(dev);
	rnic_ib_describe(dev);
	ret = ib_device_set_netdev(&dev->ibdev, dev->netdev, 1);
	if (ret)
		return ret;
	ret = ib_register_device(&dev->ibdev, "rnic%d", &dev->pdev->dev);
	/* unregister_netdev() would wait for the reference for ever. */
	if (ret)
		ib_device_set_netdev(&dev->ibdev, NULL, 1);
	return ret;
}

void rnic_ib_unregister(struct rnic_dev *dev)
{
	ib_unregister_device(&dev->ibdev);
}
