// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the admin commands.
 */

#include <linux/sizes.h>

#include "rnic.h"
#include "rnic_commands.h"

/* Of page lists, see struct rnic_page_list. */
#define RNIC_MIN_PAGE_SHIFT	12

/* Their list is contiguous memory, see rnic_alloc_mr(). */
#define RNIC_MAX_FAST_REGISTER_PAGES	(SZ_4M / sizeof(__le64))

static void rnic_cmd_init(struct rnic_admin_command *cmd, u16 opcode)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->sqe.opcode = cpu_to_le16(opcode);
}

/* For commands that make something: its number, or the STag, is the result. */
static int rnic_cmd_create(struct rnic_dev *dev,
			   struct rnic_admin_command *cmd, u32 *number)
{
	int ret = rnic_admin_execute(dev, cmd);

	if (!ret)
		*number = le32_to_cpu(cmd->cqe.number);
	return ret;
}

static int rnic_cmd_take_away(struct rnic_dev *dev, u16 opcode, u32 number)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, opcode);
	cmd.sqe.object.number = cpu_to_le32(number);
	ret = rnic_admin_execute(dev, &cmd);
	return rnic_failed(dev) ? 0 : ret;
}

static int rnic_cmd_query(struct rnic_dev *dev, u16 opcode, u32 number,
			  void *result, size_t size)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, opcode);
	cmd.sqe.object.number = cpu_to_le32(number);
	cmd.bulk_out = result;
	cmd.bulk_length = size;
	return rnic_admin_execute(dev, &cmd);
}

static void rnic_cmd_read_limits(struct rnic_limits *l,
				 const struct rnic_device_attr *attr)
{
	l->page_size_cap = le64_to_cpu(attr->page_size_cap);
	l->max_mr_size = le64_to_cpu(attr->max_mr_size);
	l->sys_image_guid = le64_to_cpu(attr->sys_image_guid);
	l->max_qp = le32_to_cpu(attr->max_qp);
	l->max_sq_units = le32_to_cpu(attr->max_sq_units);
	l->max_rq_wr = le32_to_cpu(attr->max_rq_wr);
	l->max_srq = le32_to_cpu(attr->max_srq);
	l->max_srq_wr = le32_to_cpu(attr->max_srq_wr);
	l->max_send_sge = le32_to_cpu(attr->max_send_sge);
	l->max_write_sge = le32_to_cpu(attr->max_write_sge);
	l->max_recv_sge = le32_to_cpu(attr->max_recv_sge);
	l->max_read_sge = le32_to_cpu(attr->max_read_sge);
	l->max_inline = le32_to_cpu(attr->max_inline);
	l->max_cq = le32_to_cpu(attr->max_cq);
	l->max_cqe = le32_to_cpu(attr->max_cqe);
	l->max_mr = le32_to_cpu(attr->max_mr);
	l->max_mw = le32_to_cpu(attr->max_mw);
	l->max_pd = le32_to_cpu(attr->max_pd);
	l->max_fast_register_pages =
		le32_to_cpu(attr->max_fast_register_pages);
	l->max_ird = le32_to_cpu(attr->max_ird);
	l->max_ord = le32_to_cpu(attr->max_ord);
	l->max_total_ird = le32_to_cpu(attr->max_total_ird);
	l->max_message = le32_to_cpu(attr->max_message);
	l->mtu = le32_to_cpu(attr->mtu);
	l->max_event_count = le16_to_cpu(attr->max_event_count);
	l->max_event_period = le16_to_cpu(attr->max_event_period);
	l->clock_khz = le32_to_cpu(attr->clock_khz);
}

/* No more than what this driver's own arithmetic is made for. */
static void rnic_cmd_cap_limits(struct rnic_limits *l)
{
	l->page_size_cap &= GENMASK_ULL(63, RNIC_MIN_PAGE_SHIFT);
	l->max_sq_units = min_t(u32, l->max_sq_units, RNIC_SQ_MAX_DEPTH);
	l->max_rq_wr = min_t(u32, l->max_rq_wr, RNIC_RQ_MAX_DEPTH);
	l->max_srq_wr = min_t(u32, l->max_srq_wr, RNIC_SRQ_MAX_DEPTH);
	l->max_cq = min_t(u32, l->max_cq, RNIC_MAX_COMP_EQ_DEPTH);
	l->max_cqe = min_t(u32, l->max_cqe, RNIC_CQ_MAX_DEPTH);
	l->max_send_sge = min_t(u32, l->max_send_sge, RNIC_MAX_SGE);
	l->max_write_sge = min_t(u32, l->max_write_sge, RNIC_MAX_SGE);
	l->max_recv_sge = min_t(u32, l->max_recv_sge, RNIC_MAX_SGE);
	l->max_read_sge = min_t(u32, l->max_read_sge, RNIC_MAX_READ_SGE);
	l->max_inline = min_t(u32, l->max_inline, RNIC_MAX_INLINE);
	l->max_fast_register_pages = min_t(u32, l->max_fast_register_pages,
					   RNIC_MAX_FAST_REGISTER_PAGES);
	/* rdma_cm and iw_cm count these in eight bits. */
	l->max_ird = min_t(u32, l->max_ird, U8_MAX);
	l->max_ord = min_t(u32, l->max_ord, U8_MAX);
	l->mtu = clamp_t(u32, l->mtu, ETH_DATA_LEN, RNIC_ETH_MAX_FRAME);
}

/* What a device must have some of; feature: only if it is in use. */
struct rnic_least {
	const char *what;
	u64 value;
	u64 feature;
};

static int rnic_cmd_check_least(struct rnic_dev *dev,
				const struct rnic_least *least)
{
	if (least->value ||
	    (least->feature && !rnic_has(dev, least->feature)))
		return 0;
	dev_err(&dev->pdev->dev, "the device says it has no %s\n",
		least->what);
	return -EINVAL;
}

/*
 * ULPs divide by some of these and subtract one from others; this driver rounds some
 * up to a power of two.
 */
static int rnic_cmd_check_limits(struct rnic_dev *dev)
{
	const struct rnic_limits *l = &dev->limits;
	const struct rnic_least least[] = {
		{ "regions of the kernel's pages",
		  l->page_size_cap & PAGE_SIZE },
		{ "room in regions", l->max_mr_size },
		{ "room in messages", l->max_message },
		{ "QPs", l->max_qp },
		{ "room in send queues", l->max_sq_units / RNIC_SQ_MAX_UNITS },
		{ "room in receive queues", l->max_rq_wr },
		{ "SGEs of Sends", l->max_send_sge },
		{ "SGEs of Writes", l->max_write_sge },
		{ "SGEs of receives", l->max_recv_sge },
		{ "SGEs of Reads", l->max_read_sge },
		{ "CQs", l->max_cq },
		{ "room in CQs", l->max_cqe },
		{ "STags", l->max_mr },
		{ "PDs", l->max_pd },
		{ "S-RQs", l->max_srq, RNIC_FEATURE_SRQ },
		{ "room in S-RQs", l->max_srq_wr, RNIC_FEATURE_SRQ },
		{ "windows", l->max_mw, RNIC_FEATURE_MEMORY_WINDOW },
		{ "pages to fast-register", l->max_fast_register_pages,
		  RNIC_FEATURE_FAST_REGISTER },
		{ "clock", l->clock_khz, RNIC_FEATURE_TIMESTAMP },
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < ARRAY_SIZE(least); i++)
		ret = rnic_cmd_check_least(dev, &least[i]) ?: ret;
	return ret;
}

int rnic_cmd_query_device(struct rnic_dev *dev)
{
	struct rnic_device_attr attr = {};
	int ret;

	ret = rnic_cmd_query(dev, RNIC_ADMIN_QUERY_DEVICE, 0, &attr,
			     sizeof(attr));
	if (ret)
		return ret;
	rnic_cmd_read_limits(&dev->limits, &attr);
	rnic_cmd_cap_limits(&dev->limits);
	if (!rnic_has(dev, RNIC_FEATURE_SRQ)) {
		dev->limits.max_srq = 0;
		dev->limits.max_srq_wr = 0;
	}
	if (!rnic_has(dev, RNIC_FEATURE_MEMORY_WINDOW))
		dev->limits.max_mw = 0;
	return rnic_cmd_check_limits(dev);
}

int rnic_cmd_query_counters(struct rnic_dev *dev,
			    struct rnic_counters *counters)
{
	return rnic_cmd_query(dev, RNIC_ADMIN_QUERY_COUNTERS, 0, counters,
			      sizeof(*counters));
}

int rnic_cmd_create_eq(struct rnic_dev *dev, const struct rnic_eq_params *p,
		       u32 *eqn)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CREATE_EQ);
	cmd.sqe.create_eq.eq_class = p->eq_class;
	cmd.sqe.create_eq.vector = cpu_to_le32(p->vector);
	cmd.sqe.create_eq.depth = cpu_to_le32(p->depth);
	cmd.sqe.create_eq.memory = p->memory;
	return rnic_cmd_create(dev, &cmd, eqn);
}

int rnic_cmd_destroy_eq(struct rnic_dev *dev, u32 eqn)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DESTROY_EQ, eqn);
}

int rnic_cmd_alloc_pd(struct rnic_dev *dev, u32 *pdn)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_ALLOC_PD);
	return rnic_cmd_create(dev, &cmd, pdn);
}

int rnic_cmd_dealloc_pd(struct rnic_dev *dev, u32 pdn)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DEALLOC_PD, pdn);
}

/* A CQ without a slot in its event queue would lose its event, and wait for ever. */
int rnic_cmd_create_cq(struct rnic_dev *dev, const struct rnic_cq_params *p,
		       u32 *cqn)
{
	struct rnic_admin_command cmd;
	int ret;

	if (!atomic_add_unless(&dev->num_cqs, 1, dev->limits.max_cq))
		return -ENOMEM;
	rnic_cmd_init(&cmd, RNIC_ADMIN_CREATE_CQ);
	cmd.sqe.create_cq.flags = cpu_to_le32(p->flags);
	cmd.sqe.create_cq.depth = cpu_to_le32(p->depth);
	cmd.sqe.create_cq.eqn = cpu_to_le32(p->eqn);
	cmd.sqe.create_cq.doorbell_page = cpu_to_le32(p->doorbell_page);
	cmd.sqe.create_cq.memory = p->memory;
	ret = rnic_cmd_create(dev, &cmd, cqn);
	if (ret)
		atomic_dec(&dev->num_cqs);
	return ret;
}

int rnic_cmd_resize_cq(struct rnic_dev *dev, const struct rnic_cq_resize *p,
		       u32 *end)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, RNIC_ADMIN_MODIFY_CQ);
	cmd.sqe.modify_cq.cqn = cpu_to_le32(p->cqn);
	cmd.sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_DEPTH);
	cmd.sqe.modify_cq.depth = cpu_to_le32(p->depth);
	cmd.sqe.modify_cq.earlier = cpu_to_le32(p->earlier);
	cmd.sqe.modify_cq.memory = p->memory;
	ret = rnic_admin_execute(dev, &cmd);
	if (!ret)
		*end = le32_to_cpu(cmd.cqe.cq.end);
	return ret;
}

int rnic_cmd_moderate_cq(struct rnic_dev *dev, u32 cqn, u16 count, u16 period)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_MODIFY_CQ);
	cmd.sqe.modify_cq.cqn = cpu_to_le32(cqn);
	cmd.sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_MODERATION);
	cmd.sqe.modify_cq.event_count = cpu_to_le16(count);
	cmd.sqe.modify_cq.event_period = cpu_to_le16(period);
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_destroy_cq(struct rnic_dev *dev, u32 cqn)
{
	int ret = rnic_cmd_take_away(dev, RNIC_ADMIN_DESTROY_CQ, cqn);

	if (!ret)
		atomic_dec(&dev->num_cqs);
	return ret;
}

int rnic_cmd_create_srq(struct rnic_dev *dev,
			const struct rnic_srq_params *p, u32 *srqn)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CREATE_SRQ);
	cmd.sqe.create_srq.pdn = cpu_to_le32(p->pdn);
	cmd.sqe.create_srq.depth = cpu_to_le32(p->depth);
	cmd.sqe.create_srq.limit = cpu_to_le32(p->limit);
	cmd.sqe.create_srq.doorbell_page = cpu_to_le32(p->doorbell_page);
	cmd.sqe.create_srq.wqe_shift = p->wqe_shift;
	cmd.sqe.create_srq.max_sge = p->max_sge;
	cmd.sqe.create_srq.memory = p->memory;
	return rnic_cmd_create(dev, &cmd, srqn);
}

int rnic_cmd_query_srq(struct rnic_dev *dev, u32 srqn,
		       struct rnic_srq_info *info)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, RNIC_ADMIN_QUERY_SRQ);
	cmd.sqe.object.number = cpu_to_le32(srqn);
	ret = rnic_admin_execute(dev, &cmd);
	if (ret)
		return ret;
	info->limit = le32_to_cpu(cmd.cqe.srq.limit);
	info->limit_armed = cmd.cqe.srq.limit_armed;
	info->failed = cmd.cqe.srq.failed;
	return 0;
}

int rnic_cmd_set_srq_limit(struct rnic_dev *dev, u32 srqn, u32 limit)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_MODIFY_SRQ);
	cmd.sqe.create_srq.srqn = cpu_to_le32(srqn);
	cmd.sqe.create_srq.mask = RNIC_SRQ_MODIFY_LIMIT;
	cmd.sqe.create_srq.limit = cpu_to_le32(limit);
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_resize_srq(struct rnic_dev *dev, u32 srqn, u32 depth,
			const struct rnic_queue_memory *memory)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_MODIFY_SRQ);
	cmd.sqe.create_srq.srqn = cpu_to_le32(srqn);
	cmd.sqe.create_srq.mask = RNIC_SRQ_MODIFY_DEPTH;
	cmd.sqe.create_srq.depth = cpu_to_le32(depth);
	cmd.sqe.create_srq.memory = *memory;
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_destroy_srq(struct rnic_dev *dev, u32 srqn)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DESTROY_SRQ, srqn);
}

int rnic_cmd_create_qp(struct rnic_dev *dev, const struct rnic_qp_params *p,
		       u32 *qpn)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CREATE_QP);
	cmd.sqe.create_qp.pdn = cpu_to_le32(p->pdn);
	cmd.sqe.create_qp.send_cqn = cpu_to_le32(p->send_cqn);
	cmd.sqe.create_qp.recv_cqn = cpu_to_le32(p->recv_cqn);
	cmd.sqe.create_qp.srqn = cpu_to_le32(p->srqn);
	cmd.sqe.create_qp.sq_depth = cpu_to_le32(p->sq_depth);
	cmd.sqe.create_qp.rq_depth = cpu_to_le32(p->rq_depth);
	cmd.sqe.create_qp.doorbell_page = cpu_to_le32(p->doorbell_page);
	cmd.sqe.create_qp.ird = cpu_to_le16(p->ird);
	cmd.sqe.create_qp.ord = cpu_to_le16(p->ord);
	cmd.sqe.create_qp.rq_wqe_shift = p->rq_wqe_shift;
	cmd.sqe.create_qp.max_send_sge = p->max_send_sge;
	cmd.sqe.create_qp.max_write_sge = p->max_write_sge;
	cmd.sqe.create_qp.max_recv_sge = p->max_recv_sge;
	cmd.sqe.create_qp.enables = cpu_to_le32(p->enables);
	cmd.sqe.create_qp.memory = p->memory;
	return rnic_cmd_create(dev, &cmd, qpn);
}

static void rnic_cmd_read_qp_counts(u64 *counts,
				    const struct rnic_qp_attr *attr)
{
	counts[RNIC_QP_SQ_WRS] = le64_to_cpu(attr->sq_wrs);
	counts[RNIC_QP_RQ_WRS] = le64_to_cpu(attr->rq_wrs);
	counts[RNIC_QP_CQES] = le64_to_cpu(attr->cqes);
	counts[RNIC_QP_CQE_ERRORS] = le32_to_cpu(attr->cqe_errors);
	counts[RNIC_QP_TX_FPDUS] = le64_to_cpu(attr->tx_fpdus);
	counts[RNIC_QP_TX_OCTETS] = le64_to_cpu(attr->bytes_sent);
	counts[RNIC_QP_RX_FPDUS] = le64_to_cpu(attr->rx_fpdus);
	counts[RNIC_QP_RX_OCTETS] = le64_to_cpu(attr->bytes_received);
}

int rnic_cmd_query_qp(struct rnic_dev *dev, u32 qpn, struct rnic_qp_info *info)
{
	struct rnic_qp_attr attr = {};
	int ret;

	ret = rnic_cmd_query(dev, RNIC_ADMIN_QUERY_QP, qpn, &attr,
			     sizeof(attr));
	if (ret)
		return ret;
	/* Users of the state make a bit of it. */
	if (attr.state > RNIC_QPS_ERROR)
		return -EIO;
	info->state = attr.state;
	info->ird = le16_to_cpu(attr.ird);
	info->ord = le16_to_cpu(attr.ord);
	info->enables = le32_to_cpu(attr.enables);
	info->sq_depth = le32_to_cpu(attr.sq_depth);
	info->rq_depth = le32_to_cpu(attr.rq_depth);
	info->sq_consumer = le32_to_cpu(attr.sq_consumer);
	info->rq_consumer = le32_to_cpu(attr.rq_consumer);
	info->mpa_revision = attr.mpa_revision;
	info->mpa_flags = attr.mpa_flags;
	rnic_cmd_read_qp_counts(info->counts, &attr);
	return 0;
}

int rnic_cmd_modify_qp(struct rnic_dev *dev, u32 qpn,
		       const struct rnic_qp_change *change)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_MODIFY_QP);
	cmd.sqe.modify_qp.qpn = cpu_to_le32(qpn);
	cmd.sqe.modify_qp.mask = cpu_to_le32(change->mask);
	if (change->mask & RNIC_QP_MODIFY_STATE)
		cmd.sqe.modify_qp.next_state = change->state;
	if (change->mask & RNIC_QP_MODIFY_IRD)
		cmd.sqe.modify_qp.ird = cpu_to_le16(change->ird);
	if (change->mask & RNIC_QP_MODIFY_ORD)
		cmd.sqe.modify_qp.ord = cpu_to_le16(change->ord);
	if (change->mask & RNIC_QP_MODIFY_ENABLES)
		cmd.sqe.modify_qp.enables = cpu_to_le32(change->enables);
	if (change->mask & RNIC_QP_MODIFY_SQ_DEPTH) {
		cmd.sqe.modify_qp.sq_depth = cpu_to_le32(change->sq_depth);
		cmd.sqe.modify_qp.memory = change->memory;
	}
	if (change->mask & RNIC_QP_MODIFY_RQ_DEPTH)
		cmd.sqe.modify_qp.rq_depth = cpu_to_le32(change->rq_depth);
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_destroy_qp(struct rnic_dev *dev, u32 qpn)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DESTROY_QP, qpn);
}

int rnic_cmd_query_mr(struct rnic_dev *dev, u32 stag,
		      struct rnic_mr_info *info)
{
	struct rnic_mr_attr attr = {};
	int ret;

	ret = rnic_cmd_query(dev, RNIC_ADMIN_QUERY_MR, stag, &attr,
			     sizeof(attr));
	if (ret)
		return ret;
	info->valid = attr.valid;
	info->access = le32_to_cpu(attr.access);
	info->page_count = le32_to_cpu(attr.page_count);
	info->bound_windows = le32_to_cpu(attr.bound_windows);
	return 0;
}

int rnic_cmd_alloc_stag(struct rnic_dev *dev, u32 pdn, u32 max_pages, u8 key,
			u32 *stag)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_ALLOC_STAG);
	cmd.sqe.alloc_stag.pdn = cpu_to_le32(pdn);
	cmd.sqe.alloc_stag.max_pages = cpu_to_le32(max_pages);
	cmd.sqe.alloc_stag.key = key;
	/* Linux decides on remote access with each registration. */
	cmd.sqe.alloc_stag.remote_access = 1;
	return rnic_cmd_create(dev, &cmd, stag);
}

static void rnic_cmd_set_registration(struct rnic_admin_command *cmd,
				      const struct rnic_mr_params *p)
{
	cmd->sqe.register_mr.pdn = cpu_to_le32(p->pdn);
	cmd->sqe.register_mr.access = cpu_to_le32(p->access);
	cmd->sqe.register_mr.key = p->key;
	if (p->access & (RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE |
			 RNIC_ACCESS_REMOTE_ATOMIC))
		cmd->sqe.register_mr.mr_flags |= RNIC_MR_REMOTE_ACCESS;
	cmd->sqe.register_mr.va = cpu_to_le64(p->va);
	cmd->sqe.register_mr.length = cpu_to_le64(p->length);
	cmd->sqe.register_mr.first_byte_offset =
		cpu_to_le64(p->first_byte_offset);
	cmd->sqe.register_mr.pages = p->pages;
}

int rnic_cmd_register_mr(struct rnic_dev *dev, const struct rnic_mr_params *p,
			 u32 *stag)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_REGISTER_MR);
	rnic_cmd_set_registration(&cmd, p);
	return rnic_cmd_create(dev, &cmd, stag);
}

int rnic_cmd_reregister_mr(struct rnic_dev *dev, u32 change,
			   const struct rnic_mr_params *p, u32 *stag)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_REREGISTER_MR);
	rnic_cmd_set_registration(&cmd, p);
	cmd.sqe.register_mr.stag = cpu_to_le32(*stag);
	cmd.sqe.register_mr.change = cpu_to_le32(change);
	return rnic_cmd_create(dev, &cmd, stag);
}

int rnic_cmd_alloc_mw(struct rnic_dev *dev, u32 pdn, bool of_pd, u8 key,
		      u32 *stag)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_ALLOC_MW);
	cmd.sqe.alloc_stag.pdn = cpu_to_le32(pdn);
	cmd.sqe.alloc_stag.window_of_pd = of_pd;
	cmd.sqe.alloc_stag.key = key;
	return rnic_cmd_create(dev, &cmd, stag);
}

int rnic_cmd_dealloc_stag(struct rnic_dev *dev, u32 stag)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DEALLOC_STAG, stag);
}

/* Older devices want zero there. */
static u8 rnic_cmd_tos(const struct rnic_dev *dev, u8 tos)
{
	return dev->abi_minor >= RNIC_ABI_MINOR_TOS ? tos : 0;
}

int rnic_cmd_cm_listen(struct rnic_dev *dev, u64 cookie,
		       const struct rnic_cm_addr *local, u32 backlog, u8 tos,
		       u32 *listener)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_LISTEN);
	cmd.sqe.listen.cookie = cpu_to_le64(cookie);
	cmd.sqe.listen.local = *local;
	cmd.sqe.listen.backlog = cpu_to_le32(backlog);
	cmd.sqe.listen.tos = rnic_cmd_tos(dev, tos);
	return rnic_cmd_create(dev, &cmd, listener);
}

int rnic_cmd_cm_unlisten(struct rnic_dev *dev, u32 listener)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_CM_UNLISTEN, listener);
}

static int rnic_cmd_set_private_data(struct rnic_admin_command *cmd,
				     const void *data, u16 length)
{
	if (length > RNIC_MAX_PRIVATE_DATA)
		return -EINVAL;
	cmd->bulk_in = data;
	cmd->bulk_length = length;
	return 0;
}

int rnic_cmd_cm_connect(struct rnic_dev *dev,
			const struct rnic_connect_params *p)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_CONNECT);
	cmd.sqe.connect.cookie = cpu_to_le64(p->cookie);
	cmd.sqe.connect.qpn = cpu_to_le32(p->qpn);
	cmd.sqe.connect.ird = cpu_to_le16(p->ird);
	cmd.sqe.connect.ord = cpu_to_le16(p->ord);
	cmd.sqe.connect.local = p->local;
	cmd.sqe.connect.remote = p->remote;
	cmd.sqe.connect.tos = rnic_cmd_tos(dev, p->tos);
	ret = rnic_cmd_set_private_data(&cmd, p->private_data,
					p->private_data_length);
	return ret ?: rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_cm_accept(struct rnic_dev *dev,
		       const struct rnic_accept_params *p)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_ACCEPT);
	cmd.sqe.accept.cookie = cpu_to_le64(p->cookie);
	cmd.sqe.accept.endpoint = cpu_to_le32(p->endpoint);
	cmd.sqe.accept.qpn = cpu_to_le32(p->qpn);
	cmd.sqe.accept.ird = cpu_to_le16(p->ird);
	cmd.sqe.accept.ord = cpu_to_le16(p->ord);
	ret = rnic_cmd_set_private_data(&cmd, p->private_data,
					p->private_data_length);
	return ret ?: rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_cm_reject(struct rnic_dev *dev, u32 endpoint,
		       const void *private_data, u16 length)
{
	struct rnic_admin_command cmd;
	int ret;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_REJECT);
	cmd.sqe.accept.endpoint = cpu_to_le32(endpoint);
	ret = rnic_cmd_set_private_data(&cmd, private_data, length);
	return ret ?: rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_direct_connect(struct rnic_dev *dev,
			    const struct rnic_direct_params *p)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_DIRECT_CONNECT);
	cmd.sqe.direct_connect.qpn = cpu_to_le32(p->qpn);
	cmd.sqe.direct_connect.peer_qpn = cpu_to_le32(p->peer_qpn);
	cmd.sqe.direct_connect.rq_psn = cpu_to_le32(p->rq_psn);
	cmd.sqe.direct_connect.ird = cpu_to_le16(p->ird);
	cmd.sqe.direct_connect.ord = cpu_to_le16(p->ord);
	cmd.sqe.direct_connect.min_rnr_timer = p->min_rnr_timer;
	memcpy(cmd.sqe.direct_connect.local, p->local->raw,
	       sizeof(p->local->raw));
	memcpy(cmd.sqe.direct_connect.remote, p->remote->raw,
	       sizeof(p->remote->raw));
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_direct_send(struct rnic_dev *dev, u32 qpn,
			 const struct ib_qp_attr *attr)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CM_DIRECT_SEND);
	cmd.sqe.direct_send.qpn = cpu_to_le32(qpn);
	cmd.sqe.direct_send.sq_psn = cpu_to_le32(attr->sq_psn);
	cmd.sqe.direct_send.ord = cpu_to_le16(attr->max_rd_atomic);
	cmd.sqe.direct_send.timeout = attr->timeout;
	cmd.sqe.direct_send.retry_count = attr->retry_cnt;
	cmd.sqe.direct_send.rnr_retry = attr->rnr_retry;
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_create_eth_queue(struct rnic_dev *dev,
			      const struct rnic_eth_params *p)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_CREATE_ETH_QUEUE);
	cmd.sqe.eth_queue.queue = cpu_to_le32(p->queue);
	cmd.sqe.eth_queue.vector = cpu_to_le32(p->vector);
	cmd.sqe.eth_queue.depth = cpu_to_le32(p->depth);
	cmd.sqe.eth_queue.memory = p->memory;
	return rnic_admin_execute(dev, &cmd);
}

int rnic_cmd_destroy_eth_queue(struct rnic_dev *dev, u32 queue)
{
	return rnic_cmd_take_away(dev, RNIC_ADMIN_DESTROY_ETH_QUEUE, queue);
}

int rnic_cmd_set_rx_mode(struct rnic_dev *dev, u32 mode, const u8 *macs,
			 unsigned int count)
{
	struct rnic_admin_command cmd;

	rnic_cmd_init(&cmd, RNIC_ADMIN_SET_RX_MODE);
	cmd.sqe.rx_mode.mode = cpu_to_le32(mode);
	cmd.sqe.rx_mode.count = cpu_to_le32(count);
	cmd.bulk_in = macs;
	cmd.bulk_length = count * ETH_ALEN;
	return rnic_admin_execute(dev, &cmd);
}
