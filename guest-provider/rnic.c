// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Device and context.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>

#include "rnic.h"

static int rnic_query_device_ex(struct ibv_context *context,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr,
				size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	int ret;

	ret = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
				       &resp_size);
	if (ret)
		return ret;

	/* As the kernel writes it in sysfs. */
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u", (unsigned int)(resp.base.fw_ver >> 16) & 0xffff,
		 (unsigned int)resp.base.fw_ver & 0xffff);
	return 0;
}

static int rnic_query_port(struct ibv_context *context, uint8_t port,
			   struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

/* Of a kernel that has no state page. */
static const struct rnic_state_page never_failed;

static void unmap_state(struct rnic_context *ctx)
{
	if (ctx->state != &never_failed)
		munmap((void *)ctx->state, ctx->attr.state_mmap_length);
}

static void rnic_free_context(struct ibv_context *context)
{
	struct rnic_context *ctx = to_rctx(context);
	int i;

	for (i = 0; i < RNIC_QP_TABLE_SIZE; i++)
		free(ctx->qp_table[i]);
	pthread_mutex_destroy(&ctx->qp_table_mutex);
	unmap_state(ctx);
	munmap(ctx->db_map, ctx->attr.db_mmap_length);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops rnic_context_ops = {
	.alloc_mw = rnic_alloc_mw,
	.alloc_parent_domain = rnic_alloc_parent_domain,
	.alloc_pd = rnic_alloc_pd,
	.alloc_td = rnic_alloc_td,
	.bind_mw = rnic_bind_mw,
	.create_cq = rnic_create_cq,
	.create_cq_ex = rnic_create_cq_ex,
	.create_qp = rnic_create_qp,
	.create_qp_ex = rnic_create_qp_ex,
	.create_srq = rnic_create_srq,
	.create_srq_ex = rnic_create_srq_ex,
	.dealloc_mw = rnic_dealloc_mw,
	.dealloc_pd = rnic_dealloc_pd,
	.dealloc_td = rnic_dealloc_td,
	.dereg_mr = rnic_dereg_mr,
	.destroy_cq = rnic_destroy_cq,
	.destroy_qp = rnic_destroy_qp,
	.destroy_srq = rnic_destroy_srq,
	.free_context = rnic_free_context,
	.get_srq_num = rnic_get_srq_num,
	.import_mr = rnic_import_mr,
	.import_pd = rnic_import_pd,
	.modify_cq = rnic_modify_cq,
	.modify_qp = rnic_modify_qp,
	.modify_srq = rnic_modify_srq,
	.poll_cq = rnic_poll_cq,
	.post_recv = rnic_post_recv,
	.post_send = rnic_post_send,
	.post_srq_recv = rnic_post_srq_recv,
	.query_device_ex = rnic_query_device_ex,
	.query_port = rnic_query_port,
	.query_qp = rnic_query_qp,
	.query_rt_values = rnic_query_rt_values,
	.query_srq = rnic_query_srq,
	.reg_dmabuf_mr = rnic_reg_dmabuf_mr,
	.reg_mr = rnic_reg_mr,
	.req_notify_cq = rnic_req_notify_cq,
	.rereg_mr = rnic_rereg_mr,
	.resize_cq = rnic_resize_cq,
	.unimport_mr = rnic_unimport_mr,
	.unimport_pd = rnic_unimport_pd,
};

static int map_doorbells(struct rnic_context *ctx, int cmd_fd)
{
	if (ctx->attr.db_offset >= ctx->attr.db_mmap_length)
		return EINVAL;

	ctx->db_map = mmap(NULL, ctx->attr.db_mmap_length,
			   PROT_READ | PROT_WRITE, MAP_SHARED, cmd_fd,
			   ctx->attr.db_mmap_key);
	if (ctx->db_map == MAP_FAILED)
		return errno;

	ctx->db = (uint8_t *)ctx->db_map + ctx->attr.db_offset;
	return 0;
}

static int map_state(struct rnic_context *ctx, int cmd_fd)
{
	void *page;

	ctx->state = &never_failed;
	if (ctx->attr.state_mmap_length < sizeof(*ctx->state))
		return 0;
	page = mmap(NULL, ctx->attr.state_mmap_length, PROT_READ, MAP_SHARED,
		    cmd_fd, ctx->attr.state_mmap_key);
	if (page == MAP_FAILED)
		return errno;
	ctx->state = page;
	return 0;
}

/* The kernel's part of it is there, and the answer in ctx->attr. */
static int start_context(struct rnic_context *ctx, int cmd_fd)
{
	int ret = map_doorbells(ctx, cmd_fd);

	if (ret)
		return ret;
	ret = map_state(ctx, cmd_fd);
	if (ret) {
		munmap(ctx->db_map, ctx->attr.db_mmap_length);
		return ret;
	}
	pthread_mutex_init(&ctx->qp_table_mutex, NULL);
	verbs_set_ops(&ctx->vctx, &rnic_context_ops);
	return 0;
}

static int ask_for_context(struct rnic_context *ctx)
{
	struct rnic_cmd_alloc_context_resp resp = {};
	struct ibv_get_context cmd = {};
	int ret;

	ret = ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd),
				  &resp.ibv_resp, sizeof(resp));
	if (!ret)
		ctx->attr = resp.drv_payload;
	return ret;
}

/* About the kernel's context that belongs to an open file. */
static int ask_about_context(struct rnic_context *ctx)
{
	DECLARE_COMMAND_BUFFER_LINK(driver_attr, UVERBS_OBJECT_DEVICE,
				    UVERBS_METHOD_QUERY_CONTEXT, 1, NULL);

	fill_attr_out_ptr(driver_attr, RNIC_ATTR_QUERY_CONTEXT_RESP,
			  &ctx->attr);
	return ibv_cmd_query_context(&ctx->vctx.context, driver_attr);
}

static struct verbs_context *make_context(struct ibv_device *device,
					  int cmd_fd,
					  int (*ask)(struct rnic_context *ctx))
{
	struct rnic_context *ctx;
	int ret;

	/* The kernel driver has no number of its own: it is matched by PCI. */
	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	ret = ask(ctx);
	if (!ret)
		ret = start_context(ctx, cmd_fd);
	if (!ret)
		return &ctx->vctx;
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = ret;
	return NULL;
}

static struct verbs_context *rnic_alloc_context(struct ibv_device *device,
						int cmd_fd, void *private_data)
{
	return make_context(device, cmd_fd, ask_for_context);
}

/* Another one on a file that has the kernel's context, of any process. */
static struct verbs_context *rnic_import_context(struct ibv_device *device,
						 int cmd_fd)
{
	return make_context(device, cmd_fd, ask_about_context);
}

static struct verbs_device *rnic_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct rnic_device *dev = calloc(1, sizeof(*dev));

	return dev ? &dev->vdev : NULL;
}

static void rnic_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct rnic_device, vdev));
}

static const struct verbs_match_ent rnic_match_table[] = {
	VERBS_PCI_MATCH(RNIC_PCI_VENDOR_ID, RNIC_PCI_DEVICE_ID, NULL),
	{},
};

static const struct verbs_device_ops rnic_dev_ops = {
	.name = "rnic",
	.match_min_abi_version = RNIC_UVERBS_ABI_VERSION,
	.match_max_abi_version = RNIC_UVERBS_ABI_VERSION,
	.match_table = rnic_match_table,
	.alloc_device = rnic_alloc_device,
	.uninit_device = rnic_uninit_device,
	.alloc_context = rnic_alloc_context,
	.import_context = rnic_import_context,
};

PROVIDER_DRIVER(rnic, rnic_dev_ops);
