// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: event queues and interrupts.
 *
 * Vector 0 serves the admin queue, asynchronous and connection events. With
 * enough vectors the Ethernet queues have one of their own, and so has each
 * completion event queue.
 *
 * Completion events are dispatched by the interrupt handler, see rnic_completion.c. The
 * other two kinds may need admin commands, so a work item handles them.
 */

#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/sched/mm.h>
#include <linux/topology.h>

#include "rnic.h"
#include "rnic_async.h"
#include "rnic_cm.h"
#include "rnic_cm_queue.h"
#include "rnic_commands.h"
#include "rnic_completion.h"
#include "rnic_health.h"
#include "rnic_netdev.h"
#include "rnic_verbs.h"

#define RNIC_ASYNC_EQ_DEPTH	512
#define RNIC_CM_EQ_DEPTH	256
#define RNIC_MAX_VECTORS	32

static void *rnic_eq_entry(const struct rnic_eq *eq, u32 index)
{
	u32 slot = index & (eq->depth - 1);

	return rnic_queue_at(eq->queue.pages,
			     eq->ring_offset + slot * eq->entry_size);
}

void *rnic_eq_peek(const struct rnic_eq *eq, u32 behind)
{
	u32 index = READ_ONCE(eq->consumer) + behind;
	const __le32 *flags;
	void *entry;

	/* Pairs with rnic_eq_create(): a queue that is ready is complete. */
	if (!smp_load_acquire(&eq->ready) || behind >= eq->depth)
		return NULL;
	entry = rnic_eq_entry(eq, index);
	/* The flags are the last word of every kind of entry, and stored last. */
	flags = entry + eq->entry_size - sizeof(*flags);
	if (!(le32_to_cpu(READ_ONCE(*flags)) & RNIC_EQE_PHASE) !=
	    !!(index & eq->depth))
		return NULL;
	dma_rmb();
	return entry;
}

static bool rnic_eq_pending(const struct rnic_eq *eq)
{
	return rnic_eq_peek(eq, 0);
}

bool rnic_eq_take(struct rnic_eq *eq, void *event)
{
	struct rnic_eq_record *record = eq->queue.record;
	const void *entry = rnic_eq_peek(eq, 0);

	if (!entry)
		return false;
	memcpy(event, entry, eq->entry_size);
	WRITE_ONCE(eq->consumer, eq->consumer + 1);
	/* The copy is complete before the entry is given back. */
	mb();
	WRITE_ONCE(record->consumer, cpu_to_le32(eq->consumer));
	/* The device sees this before anything done about the event. */
	mb();
	return true;
}

static void rnic_eq_dispatch_async(struct rnic_dev *dev)
{
	struct rnic_eq *eq = &dev->async_eq;
	u32 taken = 0;

	if (!rnic_eq_pending(eq))
		return;
	while (taken < eq->depth && rnic_async_event(dev))
		taken++;
	rnic_write32(dev, RNIC_REG_EQ_KICK, eq->eqn);
}

static void rnic_eq_dispatch_cm(struct rnic_dev *dev)
{
	struct rnic_eq *eq = &dev->cm_eq;
	u32 taken = 0;

	if (!rnic_eq_pending(eq))
		return;
	for (; taken < eq->depth && rnic_eq_take(eq, &dev->cm_event); taken++)
		rnic_cm_event(dev, &dev->cm_event);
	rnic_write32(dev, RNIC_REG_EQ_KICK, eq->eqn);
}

static void rnic_events_announce(struct rnic_dev *dev)
{
	if (rnic_eq_pending(&dev->async_eq) || rnic_eq_pending(&dev->cm_eq))
		queue_work(dev->event_wq, &dev->event_work);
}

static void rnic_event_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(work, struct rnic_dev, event_work);
	unsigned int flags;

	if (rnic_failed(dev))
		return;
	/* To free memory may need a disk behind this adapter, and so these events. */
	flags = memalloc_noio_save();
	rnic_eq_dispatch_async(dev);
	rnic_eq_dispatch_cm(dev);
	memalloc_noio_restore(flags);
	/*
	 * Each took no more than its depth; and the interrupt handler may have missed
	 * what came meanwhile, as it read indices that this work was moving.
	 */
	rnic_events_announce(dev);
}

static irqreturn_t rnic_interrupt(int irq, void *data)
{
	struct rnic_vector *vector = data;
	struct rnic_dev *dev = vector->dev;
	struct rnic_eq *completions = READ_ONCE(vector->completions);

	if (vector->index == 0) {
		rnic_admin_poll(dev);
		rnic_events_announce(dev);
	}
	if (vector->index == dev->eth_vector)
		rnic_netdev_interrupt(dev);
	if (completions)
		rnic_completions_interrupt(completions);
	return IRQ_HANDLED;
}

/* As an interrupt does, and while none can. NAPI runs at the end of it. */
static void rnic_vector_check(struct rnic_dev *dev, unsigned int i)
{
	unsigned int irq = pci_irq_vector(dev->pdev, i);

	disable_irq(irq);
	local_bh_disable();
	rnic_interrupt(irq, &dev->vectors[i]);
	local_bh_enable();
	enable_irq(irq);
}

void rnic_eqs_check(struct rnic_dev *dev)
{
	unsigned int i;

	for (i = 0; i < dev->num_vectors; i++)
		rnic_vector_check(dev, i);
}

static void rnic_vectors_release(struct rnic_dev *dev, unsigned int count)
{
	while (count--) {
		unsigned int irq = pci_irq_vector(dev->pdev, count);

		irq_update_affinity_hint(irq, NULL);
		free_irq(irq, &dev->vectors[count]);
	}
	pci_free_irq_vectors(dev->pdev);
	kfree(dev->vectors);
}

static int rnic_vector_request(struct rnic_dev *dev, unsigned int i)
{
	struct rnic_vector *vector = &dev->vectors[i];

	vector->dev = dev;
	vector->index = i;
	snprintf(vector->name, sizeof(vector->name), "rnic-%s-%u",
		 pci_name(dev->pdev), i);
	return request_irq(pci_irq_vector(dev->pdev, i), rnic_interrupt, 0,
			   vector->name, vector);
}

/* Which vector is for what; completions take those from the return value up. */
static unsigned int rnic_vectors_divide(struct rnic_dev *dev)
{
	dev->eth_vector = dev->num_vectors > 2 ? 1 : 0;
	return dev->num_vectors > 2 ? 2 : dev->num_vectors - 1;
}

/*
 * Each completion vector to a CPU of its own, as far as there are. The user may
 * change that: managed interrupts would end with their CPU, and with them the
 * completions of those that chose the vector.
 */
static void rnic_vectors_spread(struct rnic_dev *dev)
{
	unsigned int first = rnic_vectors_divide(dev);
	int node = dev_to_node(&dev->pdev->dev);
	unsigned int i;

	for (i = 0; i < dev->num_comp_eqs; i++) {
		unsigned int irq = pci_irq_vector(dev->pdev, first + i);
		unsigned int cpu = cpumask_local_spread(i, node);

		if (irq_set_affinity_and_hint(irq, cpumask_of(cpu)))
			pci_dbg(dev->pdev, "vector %u stays where it is\n",
				first + i);
	}
}

#ifdef RNIC_HAVE_GET_VECTOR_AFFINITY
const struct cpumask *rnic_get_vector_affinity(struct ib_device *ibdev,
					       int comp_vector)
{
	struct rnic_dev *dev = to_rnic_dev(ibdev);
	unsigned int vector = rnic_vectors_divide(dev) + comp_vector;

	return irq_get_affinity_mask(pci_irq_vector(dev->pdev, vector));
}
#endif

int rnic_vectors_init(struct rnic_dev *dev)
{
	u32 offered = RNIC_LIMITS_VECTORS(rnic_read32(dev, RNIC_REG_LIMITS));
	unsigned int wanted = min(num_online_cpus() + 2, RNIC_MAX_VECTORS);
	unsigned int i;
	int ret;

	ret = pci_alloc_irq_vectors(dev->pdev, 1, min(wanted, offered),
				    PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	dev->num_vectors = ret;
	dev->vectors = kcalloc(dev->num_vectors, sizeof(*dev->vectors),
			       GFP_KERNEL);
	if (!dev->vectors) {
		pci_free_irq_vectors(dev->pdev);
		return -ENOMEM;
	}
	dev->num_comp_eqs = dev->num_vectors - rnic_vectors_divide(dev);
	for (i = 0; i < dev->num_vectors; i++) {
		ret = rnic_vector_request(dev, i);
		if (ret) {
			rnic_vectors_release(dev, i);
			return ret;
		}
	}
	rnic_vectors_spread(dev);
	return 0;
}

void rnic_vectors_free(struct rnic_dev *dev)
{
	rnic_vectors_release(dev, dev->num_vectors);
}

static int rnic_eq_create(struct rnic_dev *dev, struct rnic_eq *eq,
			  struct rnic_eq_params *params, u32 entry_size)
{
	struct rnic_page_table table;
	int ret;

	eq->dev = dev;
	INIT_WORK(&eq->more_work, rnic_completions_more_work);
	eq->depth = params->depth;
	eq->entry_size = entry_size;
	eq->ring_offset = rnic_ring_begin(RNIC_QUEUE_RECORD_SIZE, entry_size);
	spin_lock_init(&eq->lock);
	ret = rnic_queue_alloc(dev, &eq->queue, eq->ring_offset +
			       (size_t)params->depth * entry_size);
	if (ret)
		return ret;
	params->memory.ring_offset[0] = cpu_to_le32(eq->ring_offset);
	ret = rnic_queue_describe(dev, &eq->queue, &params->memory, &table);
	if (!ret) {
		ret = rnic_cmd_create_eq(dev, params, &eq->eqn);
		rnic_page_table_free(dev, &table);
	}
	if (ret) {
		rnic_queue_free(dev, &eq->queue);
		return ret;
	}
	/* Pairs with rnic_eq_peek(). */
	smp_store_release(&eq->ready, true);
	return 0;
}

/* Waits for those who may be looking at it. */
static void rnic_eq_destroy(struct rnic_dev *dev, struct rnic_eq *eq,
			    unsigned int vector)
{
	if (!eq->ready)
		return;
	WRITE_ONCE(eq->ready, false);
	synchronize_irq(pci_irq_vector(dev->pdev, vector));
	cancel_work_sync(&eq->more_work);
	flush_work(&dev->event_work);
	if (rnic_cmd_destroy_eq(dev, eq->eqn))
		rnic_fail(dev, "it would not give an event queue back");
	rnic_queue_free(dev, &eq->queue);
}

static int rnic_comp_eq_create(struct rnic_dev *dev, unsigned int i)
{
	unsigned int vector = rnic_vectors_divide(dev) + i;
	/*
	 * One event of each CQ is outstanding at most, see rnic_cmd_create_cq(), and
	 * none of an earlier CQ when a new one is armed: rnic_completions_take_old().
	 */
	struct rnic_eq_params params = {
		.eq_class = RNIC_EQ_COMPLETION,
		.vector = vector,
		.depth = roundup_pow_of_two(max(dev->limits.max_cq, 2U)),
	};
	int ret;

	ret = rnic_eq_create(dev, &dev->comp_eqs[i], &params,
			     sizeof(struct rnic_ceqe));
	if (!ret)
		WRITE_ONCE(dev->vectors[vector].completions,
			   &dev->comp_eqs[i]);
	return ret;
}

static int rnic_comp_eqs_create(struct rnic_dev *dev)
{
	unsigned int i;
	int ret = 0;

	dev->comp_eqs = kcalloc(dev->num_comp_eqs, sizeof(*dev->comp_eqs),
				GFP_KERNEL);
	if (!dev->comp_eqs)
		return -ENOMEM;
	for (i = 0; i < dev->num_comp_eqs && !ret; i++)
		ret = rnic_comp_eq_create(dev, i);
	return ret;
}

static void rnic_comp_eqs_destroy(struct rnic_dev *dev)
{
	unsigned int first = rnic_vectors_divide(dev);
	unsigned int i;

	if (!dev->comp_eqs)
		return;
	for (i = 0; i < dev->num_comp_eqs; i++) {
		WRITE_ONCE(dev->vectors[first + i].completions, NULL);
		rnic_eq_destroy(dev, &dev->comp_eqs[i], first + i);
	}
	kfree(dev->comp_eqs);
}

/* The workqueues of the kinds of events. */
static int rnic_eq_workqueues_create(struct rnic_dev *dev)
{
	int ret = -ENOMEM;

	INIT_WORK(&dev->event_work, rnic_event_work);
	dev->comp_wq = alloc_workqueue("rnic-comp-%s",
				       WQ_MEM_RECLAIM | WQ_UNBOUND, 0,
				       pci_name(dev->pdev));
	if (!dev->comp_wq)
		return ret;
	dev->event_wq = alloc_ordered_workqueue("rnic-%s", WQ_MEM_RECLAIM,
						pci_name(dev->pdev));
	if (!dev->event_wq)
		goto err_comp_wq;
	ret = rnic_cm_queue_create(dev);
	if (ret)
		goto err_event_wq;
	return 0;

err_event_wq:
	destroy_workqueue(dev->event_wq);
err_comp_wq:
	destroy_workqueue(dev->comp_wq);
	return ret;
}

static void rnic_eq_workqueues_destroy(struct rnic_dev *dev)
{
	destroy_workqueue(dev->comp_wq);
	destroy_workqueue(dev->event_wq);
	rnic_cm_queue_destroy(dev);
}

int rnic_eqs_create(struct rnic_dev *dev)
{
	struct rnic_eq_params async = {
		.eq_class = RNIC_EQ_ASYNC,
		.depth = RNIC_ASYNC_EQ_DEPTH,
	};
	struct rnic_eq_params cm = {
		.eq_class = RNIC_EQ_CM,
		.depth = RNIC_CM_EQ_DEPTH,
	};
	int ret;

	ret = rnic_eq_workqueues_create(dev);
	if (ret)
		return ret;
	ret = rnic_eq_create(dev, &dev->async_eq, &async,
			     sizeof(struct rnic_aeqe));
	if (!ret)
		ret = rnic_eq_create(dev, &dev->cm_eq, &cm,
				     sizeof(struct rnic_cm_event));
	if (!ret)
		ret = rnic_comp_eqs_create(dev);
	if (ret)
		rnic_eqs_destroy(dev);
	return ret;
}

void rnic_eqs_destroy(struct rnic_dev *dev)
{
	rnic_comp_eqs_destroy(dev);
	rnic_eq_destroy(dev, &dev->cm_eq, 0);
	rnic_eq_destroy(dev, &dev->async_eq, 0);
	rnic_eq_workqueues_destroy(dev);
}
