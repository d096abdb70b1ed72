// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the admin queue.
 *
 * Every command in flight has a slot. Its number is in the low bits of the
 * command id; the bits above count the uses of the slot, so that a completion
 * is never taken for another command's.
 */

#include <linux/dma-mapping.h>
#include <linux/log2.h>

#include "rnic.h"
#include "rnic_health.h"

#define RNIC_ADMIN_TIMEOUT	(30 * HZ)
#define RNIC_ADMIN_SLOT_BITS	ilog2(RNIC_ADMIN_DEPTH)

static_assert((RNIC_ADMIN_DEPTH & (RNIC_ADMIN_DEPTH - 1)) == 0);

static const int rnic_admin_errno[] = {
	[RNIC_ST_OK] = 0,
	[RNIC_ST_INSUFFICIENT_RESOURCES] = -ENOMEM,
	[RNIC_ST_PD_IN_USE] = -EBUSY,
	[RNIC_ST_CQ_IN_USE] = -EBUSY,
	[RNIC_ST_SRQ_IN_USE] = -EBUSY,
	[RNIC_ST_INVALID_LLP_STREAM] = -ENOTCONN,
	[RNIC_ST_STILL_FLUSHING] = -EBUSY,
	[RNIC_ST_MW_BOUND_TO_QP] = -EBUSY,
	[RNIC_ST_MW_BOUND_TO_MR] = -EBUSY,
	[RNIC_ST_UNKNOWN_OPCODE] = -EOPNOTSUPP,
	[RNIC_ST_UNSUPPORTED] = -EOPNOTSUPP,
	[RNIC_ST_DMA_ERROR] = -EFAULT,
	[RNIC_ST_EQ_IN_USE] = -EBUSY,
	[RNIC_ST_INVALID_ENDPOINT] = -ENOENT,
	[RNIC_ST_INVALID_ADDRESS] = -EADDRNOTAVAIL,
	[RNIC_ST_ADDRESS_IN_USE] = -EADDRINUSE,
	[RNIC_ST_ETH_QUEUE_IN_USE] = -EBUSY,
	[RNIC_ST_FABRIC_ERROR] = -EIO,
	[RNIC_ST_STREAM_NOT_OPEN] = -ENOTCONN,
	[RNIC_ST_STREAM_ENDED] = -EPIPE,
	[RNIC_ST_STREAM_FULL] = -EAGAIN,
};

/* Statuses that the table leaves out say that an argument was wrong. */
static int rnic_admin_status_errno(u16 status)
{
	if (status == RNIC_ST_OK)
		return 0;
	if (status < ARRAY_SIZE(rnic_admin_errno) && rnic_admin_errno[status])
		return rnic_admin_errno[status];
	return -EINVAL;
}

int rnic_admin_init(struct rnic_dev *dev)
{
	struct rnic_admin *admin = &dev->admin;
	struct device *dma_dev = &dev->pdev->dev;
	unsigned int i;

	spin_lock_init(&admin->lock);
	sema_init(&admin->free_slots, RNIC_ADMIN_DEPTH);
	for (i = 0; i < RNIC_ADMIN_DEPTH; i++)
		init_completion(&admin->slots[i].done);

	admin->sq = dma_alloc_coherent(dma_dev,
				       RNIC_ADMIN_DEPTH * sizeof(*admin->sq),
				       &admin->sq_dma, GFP_KERNEL);
	admin->cq = dma_alloc_coherent(dma_dev,
				       RNIC_ADMIN_DEPTH * sizeof(*admin->cq),
				       &admin->cq_dma, GFP_KERNEL);
	admin->bulk = dma_alloc_coherent(dma_dev,
					 RNIC_ADMIN_DEPTH * RNIC_ADMIN_BULK,
					 &admin->bulk_dma, GFP_KERNEL);
	if (!admin->sq || !admin->cq || !admin->bulk) {
		rnic_admin_free(dev);
		return -ENOMEM;
	}
	return 0;
}

static void rnic_admin_free_part(struct rnic_dev *dev, size_t size, void *va,
				 dma_addr_t dma)
{
	if (va)
		dma_free_coherent(&dev->pdev->dev, size, va, dma);
}

void rnic_admin_free(struct rnic_dev *dev)
{
	struct rnic_admin *admin = &dev->admin;

	rnic_admin_free_part(dev, RNIC_ADMIN_DEPTH * RNIC_ADMIN_BULK,
			     admin->bulk, admin->bulk_dma);
	rnic_admin_free_part(dev, RNIC_ADMIN_DEPTH * sizeof(*admin->cq),
			     admin->cq, admin->cq_dma);
	rnic_admin_free_part(dev, RNIC_ADMIN_DEPTH * sizeof(*admin->sq),
			     admin->sq, admin->sq_dma);
}

void rnic_admin_program(struct rnic_dev *dev, u32 vector)
{
	rnic_write64(dev, RNIC_REG_ADMIN_SQ_BASE, dev->admin.sq_dma);
	rnic_write64(dev, RNIC_REG_ADMIN_CQ_BASE, dev->admin.cq_dma);
	rnic_write32(dev, RNIC_REG_ADMIN_DEPTH, RNIC_ADMIN_DEPTH);
	rnic_write32(dev, RNIC_REG_ADMIN_VECTOR, vector);
}

/* A free one exists: the caller has been through the semaphore. */
static unsigned int rnic_admin_take_slot(struct rnic_admin *admin)
{
	unsigned int i = find_first_zero_bit(admin->busy, RNIC_ADMIN_DEPTH);
	struct rnic_admin_slot *slot = &admin->slots[i];

	__set_bit(i, admin->busy);
	reinit_completion(&slot->done);
	slot->command_id = (slot->command_id + RNIC_ADMIN_DEPTH) &
			   ~(RNIC_ADMIN_DEPTH - 1);
	slot->command_id |= i;
	return i;
}

static void rnic_admin_put_slot(struct rnic_admin *admin, unsigned int i)
{
	unsigned long irq_flags;

	spin_lock_irqsave(&admin->lock, irq_flags);
	__clear_bit(i, admin->busy);
	spin_unlock_irqrestore(&admin->lock, irq_flags);
	up(&admin->free_slots);
}

static void rnic_admin_set_bulk(struct rnic_admin *admin, unsigned int i,
				struct rnic_admin_command *cmd)
{
	size_t offset = i * RNIC_ADMIN_BULK;

	if (!cmd->bulk_length)
		return;
	if (cmd->bulk_in)
		memcpy(admin->bulk + offset, cmd->bulk_in, cmd->bulk_length);
	cmd->sqe.bulk_addr = cpu_to_le64(admin->bulk_dma + offset);
	cmd->sqe.bulk_length = cpu_to_le32(cmd->bulk_length);
}

static void rnic_admin_write_sqe(struct rnic_dev *dev,
				 const struct rnic_admin_sqe *sqe)
{
	struct rnic_admin *admin = &dev->admin;

	admin->sq[admin->tail & (RNIC_ADMIN_DEPTH - 1)] = *sqe;
	admin->tail++;
	/* writel() orders the entry before the doorbell. */
	rnic_write32(dev, RNIC_REG_ADMIN_TAIL, admin->tail);
}

/* Returns the slot, or an errno. */
static int rnic_admin_submit(struct rnic_dev *dev,
			     struct rnic_admin_command *cmd)
{
	struct rnic_admin *admin = &dev->admin;
	unsigned long irq_flags;
	int ret;

	spin_lock_irqsave(&admin->lock, irq_flags);
	if (rnic_failed(dev)) {
		ret = RNIC_ERR_FAILED;
	} else {
		ret = rnic_admin_take_slot(admin);
		cmd->sqe.command_id =
			cpu_to_le16(admin->slots[ret].command_id);
		rnic_admin_set_bulk(admin, ret, cmd);
		rnic_admin_note_begin(&admin->slots[ret].note, &cmd->sqe);
		rnic_admin_write_sqe(dev, &cmd->sqe);
	}
	spin_unlock_irqrestore(&admin->lock, irq_flags);
	return ret;
}

/* Ends: failing the device completes every slot. */
static void rnic_admin_wait(struct rnic_dev *dev, struct rnic_admin_slot *slot)
{
	unsigned long deadline = jiffies + RNIC_ADMIN_TIMEOUT;

	while (!wait_for_completion_timeout(&slot->done, HZ)) {
		/* In case the interrupt was lost. */
		rnic_admin_poll(dev);
		if (completion_done(&slot->done))
			continue;
		rnic_health_check(dev);
		if (time_after(jiffies, deadline))
			rnic_fail(dev, "an admin command timed out");
	}
}

static int rnic_admin_result(struct rnic_dev *dev, unsigned int i,
			     struct rnic_admin_command *cmd)
{
	struct rnic_admin *admin = &dev->admin;
	u16 status;

	if (rnic_failed(dev))
		return RNIC_ERR_FAILED;
	cmd->cqe = admin->slots[i].cqe;
	status = le16_to_cpu(cmd->cqe.status);
	if (status == RNIC_ST_OK && cmd->bulk_out)
		memcpy(cmd->bulk_out, admin->bulk + i * RNIC_ADMIN_BULK,
		       cmd->bulk_length);
	if (status != RNIC_ST_OK)
		dev_dbg(&dev->pdev->dev, "admin command %u: status %u\n",
			le16_to_cpu(cmd->sqe.opcode), status);
	return rnic_admin_status_errno(status);
}

int rnic_admin_execute(struct rnic_dev *dev, struct rnic_admin_command *cmd)
{
	struct rnic_admin *admin = &dev->admin;
	int slot, ret;

	if (WARN_ON_ONCE(cmd->bulk_length > RNIC_ADMIN_BULK))
		return -EINVAL;
	down(&admin->free_slots);
	slot = rnic_admin_submit(dev, cmd);
	if (slot < 0) {
		up(&admin->free_slots);
		return slot;
	}
	rnic_admin_wait(dev, &admin->slots[slot]);
	ret = rnic_admin_result(dev, slot, cmd);
	rnic_admin_put_slot(admin, slot);
	return ret;
}

static void rnic_admin_complete(struct rnic_dev *dev,
				const struct rnic_admin_cqe *cqe)
{
	struct rnic_admin *admin = &dev->admin;
	u16 id = le16_to_cpu(cqe->command_id);
	unsigned int i = id & (RNIC_ADMIN_DEPTH - 1);
	struct rnic_admin_slot *slot = &admin->slots[i];

	if (!test_bit(i, admin->busy) || slot->command_id != id ||
	    completion_done(&slot->done)) {
		dev_warn_ratelimited(&dev->pdev->dev,
				     "completion of no command, id %#x\n", id);
		return;
	}
	slot->cqe = *cqe;
	rnic_admin_note_end(&slot->note, &slot->cqe, &admin->log);
	complete(&slot->done);
}

static bool rnic_admin_pending(const struct rnic_admin_cqe *cqe, u32 head)
{
	u32 flags = le32_to_cpu(READ_ONCE(cqe->flags));

	return !(flags & RNIC_EQE_PHASE) == !!(head & RNIC_ADMIN_DEPTH);
}

/*
 * Takes as many completions as the ring has entries at most. The lock keeps new
 * commands away, so a device that does not lie has no more.
 */
static u32 rnic_admin_take(struct rnic_dev *dev)
{
	struct rnic_admin *admin = &dev->admin;
	u32 head = admin->head;
	unsigned int i;

	for (i = 0; i < RNIC_ADMIN_DEPTH; i++) {
		struct rnic_admin_cqe *cqe =
			&admin->cq[head & (RNIC_ADMIN_DEPTH - 1)];

		if (!rnic_admin_pending(cqe, head))
			break;
		/* The flags word is stored last. */
		dma_rmb();
		rnic_admin_complete(dev, cqe);
		head++;
	}
	return head;
}

void rnic_admin_poll(struct rnic_dev *dev)
{
	struct rnic_admin *admin = &dev->admin;
	unsigned long irq_flags;
	u32 head;

	spin_lock_irqsave(&admin->lock, irq_flags);
	head = rnic_admin_take(dev);
	if (head != admin->head && !rnic_failed(dev)) {
		admin->head = head;
		rnic_write32(dev, RNIC_REG_ADMIN_HEAD, head);
	}
	spin_unlock_irqrestore(&admin->lock, irq_flags);
}

void rnic_admin_note_all(struct rnic_dev *dev,
			 struct rnic_admin_record *record)
{
	struct rnic_admin *admin = &dev->admin;
	unsigned long irq_flags;
	unsigned int i;

	record->num_unanswered = 0;
	spin_lock_irqsave(&admin->lock, irq_flags);
	record->log = admin->log;
	for_each_set_bit(i, admin->busy, RNIC_ADMIN_DEPTH)
		if (!admin->slots[i].note.answered)
			record->unanswered[record->num_unanswered++] =
				admin->slots[i].note;
	spin_unlock_irqrestore(&admin->lock, irq_flags);
}

void rnic_admin_abort(struct rnic_dev *dev)
{
	struct rnic_admin *admin = &dev->admin;
	unsigned long irq_flags;
	unsigned int i;

	spin_lock_irqsave(&admin->lock, irq_flags);
	for_each_set_bit(i, admin->busy, RNIC_ADMIN_DEPTH)
		complete(&admin->slots[i].done);
	spin_unlock_irqrestore(&admin->lock, irq_flags);
}
