// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: counters that QPs are bound to ("rdma statistic qp").
 *
 * The device counts for each QP since it was created. A counter is a sum here: what
 * its QPs have done while they were bound to it, so it keeps the share of a QP that
 * leaves or ends. dev->counter_lock protects all of this; it is taken with the
 * core's lock of the counter held.
 *
 * The core adds the values of all counters, also of those that have ended, to the
 * port's, value by value: both have the same order, and the port's are without what
 * went to counters (rnic_counters.c).
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_verbs.h"

/* A device that has failed says nothing any more; what was counted stays. */
static void rnic_qp_counter_take(struct rnic_dev *dev, struct rnic_qp *qp)
{
	struct rdma_hw_stats *stats = qp->ibqp.counter->stats;
	struct rnic_qp_info info;
	unsigned int i;

	lockdep_assert_held(&dev->counter_lock);
	if (rnic_cmd_query_qp(dev, qp->qpn, &info))
		return;
	for (i = 0; i < RNIC_NUM_QP_COUNTS; i++) {
		/* That it goes backwards is no good reason to do so, too. */
		u64 more = info.counts[i] > qp->counted[i] ?
			   info.counts[i] - qp->counted[i] : 0;

		stats->value[i] += more;
		dev->counted[i] += more;
		qp->counted[i] = info.counts[i];
	}
}

void rnic_qp_counters_update(struct rnic_dev *dev)
{
	struct rnic_qp *qp;

	list_for_each_entry(qp, &dev->counted_qps, counted_entry)
		rnic_qp_counter_take(dev, qp);
}

/*
 * The core asks whether the QP has a counter before it takes a lock, and before Linux 6.12
 * may bind a QP that is being destroyed. It then keeps its reference to the counter.
 */
static int rnic_qp_counter_bind(struct rnic_dev *dev, struct rnic_qp *qp,
				struct rdma_counter *counter)
{
	struct rnic_qp_info info;
	int ret;

	if (qp->ibqp.counter || qp->uncounted)
		return -EINVAL;
	ret = rnic_cmd_query_qp(dev, qp->qpn, &info);
	if (ret)
		return ret;
	/* Not used again, as the core forgets a number some time after the end. */
	if (!counter->id)
		counter->id = ++dev->last_counter;
	memcpy(qp->counted, info.counts, sizeof(qp->counted));
	qp->ibqp.counter = counter;
	list_add_tail(&qp->counted_entry, &dev->counted_qps);
	return 0;
}

static int rnic_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	int ret;

	mutex_lock(&dev->counter_lock);
	ret = rnic_qp_counter_bind(dev, to_rnic_qp(ibqp), counter);
	mutex_unlock(&dev->counter_lock);
	return ret;
}

static int rnic_qp_counter_unbind(struct rnic_dev *dev, struct rnic_qp *qp)
{
	if (!qp->ibqp.counter)
		return -EINVAL;
	rnic_qp_counter_take(dev, qp);
	list_del(&qp->counted_entry);
	qp->ibqp.counter = NULL;
	return 0;
}

static int rnic_counter_unbind(struct ib_qp *ibqp)
{
	struct rnic_dev *dev = to_rnic_dev(ibqp->device);
	int ret;

	mutex_lock(&dev->counter_lock);
	ret = rnic_qp_counter_unbind(dev, to_rnic_qp(ibqp));
	mutex_unlock(&dev->counter_lock);
	return ret;
}

void rnic_qp_set_uncounted(struct rnic_qp *qp, bool uncounted)
{
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);

	mutex_lock(&dev->counter_lock);
	qp->uncounted = uncounted;
	if (uncounted)
		rnic_qp_counter_unbind(dev, qp);
	mutex_unlock(&dev->counter_lock);
}

#ifdef RNIC_HAVE_COUNTER_BIND_PORT
int rnic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			 u32 port)
{
	return rnic_counter_bind(counter, ibqp);
}

int rnic_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	return rnic_counter_unbind(ibqp);
}
#else
int rnic_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	return rnic_counter_bind(counter, ibqp);
}

int rnic_counter_unbind_qp(struct ib_qp *ibqp)
{
	return rnic_counter_unbind(ibqp);
}
#endif

int rnic_counter_update_stats(struct rdma_counter *counter)
{
	struct rnic_dev *dev = to_rnic_dev(counter->device);
	struct rnic_qp *qp;

	mutex_lock(&dev->counter_lock);
	list_for_each_entry(qp, &dev->counted_qps, counted_entry)
		if (qp->ibqp.counter == counter)
			rnic_qp_counter_take(dev, qp);
	mutex_unlock(&dev->counter_lock);
	return 0;
}

/* Nothing but memory that the core frees belongs to it. */
int rnic_counter_dealloc(struct rdma_counter *counter)
{
	return 0;
}

struct rdma_hw_stats *rnic_counter_alloc_stats(struct rdma_counter *counter)
{
	struct rdma_hw_stats *stats = rnic_alloc_hw_port_stats(counter->device,
							       counter->port);

	/*
	 * The core reads as many values as the port has, but shows, and keeps when
	 * the counter ends, only those that count.
	 */
	if (stats)
		stats->num_counters = RNIC_NUM_QP_COUNTS;
	return stats;
}

#ifdef RNIC_HAVE_COUNTER_INIT
void rnic_counter_init(struct rdma_counter *counter)
{
}
#endif

void rnic_qp_counters_init(struct rnic_dev *dev)
{
	mutex_init(&dev->counter_lock);
	INIT_LIST_HEAD(&dev->counted_qps);
}
