// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: completion events, from their queues to the users of CQs.
 *
 * The interrupt handler takes them, and a work item of their queue when there are many.
 */

#include <linux/interrupt.h>

#include "rnic.h"
#include "rnic_completion.h"
#include "rnic_verbs.h"

#define RNIC_COMPLETIONS_TURN	256	/* events */

/* False: there was none. */
static bool rnic_completion_take(struct rnic_eq *eq)
{
	unsigned long irq_flags;
	struct rnic_ceqe event;
	struct rnic_cq *cq = NULL;
	bool taken;

	/* What the number names is found out before it can name another CQ. */
	spin_lock_irqsave(&eq->lock, irq_flags);
	taken = rnic_eq_take(eq, &event);
	if (taken)
		cq = rnic_cq_get(eq->dev, le32_to_cpu(event.cqn));
	spin_unlock_irqrestore(&eq->lock, irq_flags);
	if (cq)
		rnic_cq_completion_event(cq);
	return taken;
}

/* False: there was none left. */
static bool rnic_completions_turn(struct rnic_eq *eq)
{
	u32 taken = 0;

	while (taken < RNIC_COMPLETIONS_TURN && rnic_completion_take(eq))
		taken++;
	return taken == RNIC_COMPLETIONS_TURN;
}

/*
 * A device that adds events as fast as they are taken would keep the CPU for ever: what
 * is more than one turn is for the work item, and other tasks run between its turns.
 * While the work is pending the interrupt has nothing to do: the workqueue clears that
 * mark before the work looks at the queue, so the work sees this interrupt's event, too.
 */
void rnic_completions_interrupt(struct rnic_eq *eq)
{
	if (!work_pending(&eq->more_work) && rnic_completions_turn(eq))
		queue_work(eq->dev->comp_wq, &eq->more_work);
}

/* CQs' handlers raise softirqs, which run at the end. */
static bool rnic_completions_task_turn(struct rnic_eq *eq)
{
	bool more;

	local_bh_disable();
	more = rnic_completions_turn(eq);
	local_bh_enable();
	return more;
}

void rnic_completions_more_work(struct work_struct *work)
{
	struct rnic_eq *eq = container_of(work, struct rnic_eq, more_work);

	if (rnic_completions_task_turn(eq))
		queue_work(eq->dev->comp_wq, &eq->more_work);
}

/* What was there at first is no more than depth events. */
static void rnic_completions_take_old_of(struct rnic_eq *eq)
{
	u32 taken;

	for (taken = 0; taken < eq->depth; taken += RNIC_COMPLETIONS_TURN) {
		if (!rnic_completions_task_turn(eq))
			return;
		cond_resched();
	}
}

void rnic_completions_take_old(struct rnic_dev *dev)
{
	unsigned int i;

	for (i = 0; i < dev->num_comp_eqs; i++)
		rnic_completions_take_old_of(&dev->comp_eqs[i]);
}
