/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: what is kept of the last failure of a PCI function's device. It outlives
 * the device.
 */
#ifndef RNIC_FAILURE_H
#define RNIC_FAILURE_H

#include <linux/ktime.h>
#include <linux/spinlock.h>

#include "rnic_admin_log.h"

struct devlink_fmsg;
struct rnic_dev;

#define RNIC_FAILURE_REGISTERS	17

struct rnic_failure_record {
	u32 count;			/* of failures since probe; 0: none */
	const char *why;		/* of the last one, as all below */
	ktime_t when;
	u32 health;			/* RNIC_HEALTH_* */
	u64 registers[RNIC_FAILURE_REGISTERS];
	struct rnic_admin_record commands;
};

struct rnic_failure {
	spinlock_t lock;		/* of last */
	struct rnic_failure_record last;
};

void rnic_failure_init(struct rnic_failure *failure);

/* Before the device is reset. Any context. Returns RNIC_HEALTH_*. */
u32 rnic_failure_note(struct rnic_dev *dev, const char *why);

/* A copy, to be freed with kfree(); or an ERR_PTR(). */
struct rnic_failure_record *rnic_failure_last(struct rnic_failure *failure);

/* The cause, the registers and the commands. */
void rnic_failure_put(const struct rnic_failure_record *record,
		      struct devlink_fmsg *fmsg);

#endif /* RNIC_FAILURE_H */
