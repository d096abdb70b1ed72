// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what the device and its port are, for the core and for processes.
 */

#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>

#include "rnic.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

static u64 rnic_device_cap_flags(const struct rnic_dev *dev)
{
	u64 extensions = RNIC_FEATURE_FAST_REGISTER |
			 RNIC_FEATURE_LOCAL_INVALIDATE |
			 RNIC_FEATURE_REMOTE_INVALIDATE |
			 RNIC_FEATURE_READ_INVALIDATE;
	u64 flags = 0;

	if (rnic_has(dev, extensions))
		flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW))
		flags |= IB_DEVICE_MEM_WINDOW_TYPE_2B;
	if (rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW | RNIC_FEATURE_PD_WINDOW))
		flags |= IB_DEVICE_MEM_WINDOW;
	if (rnic_has(dev, RNIC_FEATURE_RESIZE_QP))
		flags |= IB_DEVICE_RESIZE_MAX_WR;
	if (rnic_has(dev, RNIC_FEATURE_RESIZE_QP) &&
	    rnic_has(dev, RNIC_FEATURE_SRQ))
		flags |= IB_DEVICE_SRQ_RESIZE;
	return flags;
}

/* Attributes are signed; U32_MAX octets or pieces are plenty. */
static int rnic_attr(u64 value)
{
	return min_t(u64, value, INT_MAX);
}

static void rnic_query_queue_limits(const struct rnic_limits *l,
				    struct ib_device_attr *attr)
{
	/* What is attainable whatever the WRs look like. */
	attr->max_qp_wr = rnic_attr(min(l->max_sq_units / RNIC_SQ_MAX_UNITS,
					l->max_rq_wr));
	attr->max_send_sge = min(l->max_send_sge, l->max_write_sge);
	attr->max_recv_sge = l->max_recv_sge;
	attr->max_sge_rd = l->max_read_sge;
	attr->max_qp = rnic_attr(l->max_qp);
	attr->max_srq = rnic_attr(l->max_srq);
	attr->max_srq_wr = rnic_attr(l->max_srq_wr);
	attr->max_srq_sge = l->max_srq ? l->max_recv_sge : 0;
	attr->max_cq = rnic_attr(l->max_cq);
	attr->max_cqe = rnic_attr(l->max_cqe);
	attr->max_qp_rd_atom = l->max_ird;
	attr->max_qp_init_rd_atom = l->max_ord;
	attr->max_res_rd_atom = rnic_attr(l->max_total_ird ?:
					  (u64)l->max_ird * l->max_qp);
}

static void rnic_query_cq_options(const struct rnic_dev *dev,
				  struct ib_device_attr *attr)
{
	const struct rnic_limits *l = &dev->limits;

	if (rnic_has(dev, RNIC_FEATURE_CQ_MODERATION)) {
		attr->cq_caps.max_cq_moderation_count = l->max_event_count;
		attr->cq_caps.max_cq_moderation_period = l->max_event_period;
	}
	if (rnic_has(dev, RNIC_FEATURE_TIMESTAMP)) {
		attr->timestamp_mask = U64_MAX;
		attr->hca_core_clock = l->clock_khz;
	}
}

int rnic_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
		      struct ib_udata *udata)
{
	struct rnic_dev *dev = to_rnic_dev(ibdev);
	const struct rnic_limits *l = &dev->limits;
	int ret = rnic_udata_none(udata);

	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = rnic_read32(dev, RNIC_REG_HW_VERSION);
	attr->hw_ver = dev->pdev->revision;
	attr->vendor_id = dev->pdev->vendor;
	attr->vendor_part_id = dev->pdev->device;
	attr->sys_image_guid = cpu_to_be64(l->sys_image_guid);
	attr->device_cap_flags = rnic_device_cap_flags(dev);
	if (rnic_has(dev, RNIC_FEATURE_STAG_ZERO))
		attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->page_size_cap = l->page_size_cap;
	attr->max_mr_size = l->max_mr_size;
	attr->max_mr = rnic_attr(l->max_mr);
	attr->max_mw = rnic_attr(l->max_mw);
	attr->max_pd = rnic_attr(l->max_pd);
	attr->max_fast_reg_page_list_len = l->max_fast_register_pages;
	/*
	 * By the host's atomic instructions, so among all devices; but under TCG
	 * with one CPU the guest's own instructions are not atomic to them.
	 */
	attr->atomic_cap = rnic_has(dev, RNIC_FEATURE_RDMAP_EXTENSIONS) ?
			   IB_ATOMIC_HCA : IB_ATOMIC_NONE;
	rnic_query_queue_limits(l, attr);
	rnic_query_cq_options(dev, attr);
	return 0;
}

int rnic_query_port(struct ib_device *ibdev, u32 port,
		    struct ib_port_attr *attr)
{
	struct rnic_dev *dev = to_rnic_dev(ibdev);
	struct net_device *netdev = dev->netdev;
	bool up = netif_running(netdev) && netif_carrier_ok(netdev);
	int ret;

	ret = ib_get_eth_speed(ibdev, port, &attr->active_speed,
			       &attr->active_width);
	if (ret)
		return ret;
	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP :
				IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = ib_mtu_int_to_enum(netdev->max_mtu);
	attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(netdev->mtu));
	attr->gid_tbl_len = RNIC_GID_TABLE_LENGTH;
	attr->max_msg_sz = dev->limits.max_message;
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_DEVICE_MGMT_SUP;
	return 0;
}

int rnic_get_port_immutable(struct ib_device *ibdev, u32 port,
			    struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = RNIC_GID_TABLE_LENGTH;
	return 0;
}

void rnic_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	rnic_firmware_version(to_rnic_dev(ibdev), str, IB_FW_VERSION_NAME_MAX);
}

/* ------------------------------------------------ attributes in sysfs */

/* What ibstat shows. */
static ssize_t hca_type_show(struct device *device,
			     struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", RNIC_DRIVER_NAME);
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t hw_rev_show(struct device *device,
			   struct device_attribute *attr, char *buf)
{
	struct rnic_dev *dev = rdma_device_to_drv_device(device,
							 struct rnic_dev,
							 ibdev);

	return sysfs_emit(buf, "%#x\n", dev->pdev->revision);
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *rnic_device_attributes[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_hw_rev.attr,
	NULL,
};

const struct attribute_group rnic_device_group = {
	.attrs = rnic_device_attributes,
};
