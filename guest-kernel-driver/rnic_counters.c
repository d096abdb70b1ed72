// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the device's counters, as hardware counters of its port.
 */

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_verbs.h"

/* As the first member of struct rnic_counters says, these are all alike ... */
#define RNIC_NUM_COUNTERS \
	(offsetof(struct rnic_counters, qps) / sizeof(__le64))
/* ... and so are these, which count what exists now. */
#define RNIC_FIRST_OBJECT \
	(offsetof(struct rnic_counters, qps) / sizeof(__le32))
#define RNIC_NUM_OBJECTS \
	(offsetof(struct rnic_counters, reserved) / sizeof(__le32) - \
	 RNIC_FIRST_OBJECT)
#define RNIC_NUM_STATS		(RNIC_NUM_COUNTERS + RNIC_NUM_OBJECTS)

/* In the order of struct rnic_counters. */
static const struct rdma_stat_desc rnic_counter_descs[] = {
	{ .name = "sq_wrs" },
	{ .name = "rq_wrs" },
	{ .name = "cqes" },
	{ .name = "cqe_errors" },
	{ .name = "tx_fpdus" },
	{ .name = "tx_octets" },
	{ .name = "rx_fpdus" },
	{ .name = "rx_octets" },
	{ .name = "terminates_sent" },
	{ .name = "terminates_received" },
	{ .name = "connects" },
	{ .name = "connect_failures" },
	{ .name = "accepts" },
	{ .name = "rejects" },
	{ .name = "async_events" },
	{ .name = "bad_doorbells" },
	{ .name = "doorbells" },
	{ .name = "dma_errors" },
	{ .name = "eth_tx_packets" },
	{ .name = "eth_tx_octets" },
	{ .name = "eth_rx_packets" },
	{ .name = "eth_rx_octets" },
	{ .name = "eth_rx_drops" },
	{ .name = "active_qps" },
	{ .name = "active_cqs" },
	{ .name = "active_eqs" },
	{ .name = "active_pds" },
	{ .name = "active_stags" },
	{ .name = "active_srqs" },
	{ .name = "active_listeners" },
	{ .name = "active_endpoints" },
	{ .name = "events_lost" },
	{ .name = "active_llp_streams" },
};

static_assert(ARRAY_SIZE(rnic_counter_descs) == RNIC_NUM_STATS);
static_assert(offsetof(struct rnic_counters, rx_octets) ==
	      RNIC_QP_RX_OCTETS * sizeof(__le64));

struct rdma_hw_stats *rnic_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port)
{
	return rdma_alloc_hw_stats_struct(rnic_counter_descs, RNIC_NUM_STATS,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/*
 * What did not go to counters that QPs are bound to. The core adds these, but brings
 * them up to date first: here it is done before, so that nothing counts twice.
 */
static u64 rnic_counters_rest(const struct rnic_dev *dev, unsigned int i,
			      u64 count)
{
	u64 counted = i < RNIC_NUM_QP_COUNTS ? dev->counted[i] : 0;

	return count > counted ? count - counted : 0;
}

int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	union {
		struct rnic_counters counters;
		__le64 count[RNIC_NUM_COUNTERS];
		__le32 word[RNIC_FIRST_OBJECT + RNIC_NUM_OBJECTS];
	} answer = {};
	struct rnic_dev *dev = to_rnic_dev(ibdev);
	unsigned int i;
	int ret;

	mutex_lock(&dev->counter_lock);
	ret = rnic_cmd_query_counters(dev, &answer.counters);
	if (ret)
		goto out;
	rnic_qp_counters_update(dev);
	for (i = 0; i < RNIC_NUM_COUNTERS; i++)
		stats->value[i] = rnic_counters_rest(dev, i,
						     le64_to_cpu(answer.count[i]));
	for (i = 0; i < RNIC_NUM_OBJECTS; i++)
		stats->value[RNIC_NUM_COUNTERS + i] =
			le32_to_cpu(answer.word[RNIC_FIRST_OBJECT + i]);
	ret = RNIC_NUM_STATS;
out:
	mutex_unlock(&dev->counter_lock);
	return ret;
}
