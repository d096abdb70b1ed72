// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The device's clock, in nanoseconds, and the system's.
 */

#include <errno.h>
#include <time.h>

#include <util/mmio.h>

#include "rnic.h"

#define NS_PER_SEC		1000000000ULL
/* The two clocks are compared again after so long: they drift. */
#define WALLCLOCK_PERIOD_NS	(NS_PER_SEC / 10)
#define COMPARISONS		5

uint64_t rnic_read_clock(struct rnic_context *ctx)
{
	return le64toh(mmio_read64_le((uint8_t *)ctx->db + RNIC_DB_CLOCK));
}

static uint64_t system_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

/* The quickest of some comparisons: another may have been interrupted. */
static void compare_clocks(struct rnic_context *ctx, uint64_t now)
{
	uint64_t quickest = UINT64_MAX;
	int64_t offset = 0;

	for (unsigned int i = 0; i < COMPARISONS; i++) {
		uint64_t before = system_ns(CLOCK_REALTIME);
		uint64_t device = rnic_read_clock(ctx);
		uint64_t after = system_ns(CLOCK_REALTIME);

		if (after - before < quickest) {
			quickest = after - before;
			offset = before + quickest / 2 - device;
		}
	}
	atomic_store(&ctx->wallclock_offset, offset);
	atomic_store(&ctx->wallclock_checked, now);
}

uint64_t rnic_wallclock(struct rnic_context *ctx, uint64_t timestamp)
{
	uint64_t now = system_ns(CLOCK_MONOTONIC);
	uint64_t checked = atomic_load(&ctx->wallclock_checked);

	if (!checked || now - checked > WALLCLOCK_PERIOD_NS)
		compare_clocks(ctx, now);
	return timestamp + atomic_load(&ctx->wallclock_offset);
}

int rnic_query_rt_values(struct ibv_context *context,
			 struct ibv_values_ex *values)
{
	struct rnic_context *ctx = to_rctx(context);
	uint32_t known = values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK;

	values->comp_mask = 0;
	if (!rnic_has_feature(ctx, RNIC_FEATURE_TIMESTAMP))
		return EOPNOTSUPP;
	if (known) {
		/* In units of hca_core_clock, as timestamps are. */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = rnic_read_clock(ctx);
		values->comp_mask = known;
	}
	return 0;
}
