/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the last admin commands, for those who look into a failure.
 */
#ifndef RNIC_ADMIN_LOG_H
#define RNIC_ADMIN_LOG_H

#include <linux/ktime.h>

#include "rnic-hw.h"

#define RNIC_ADMIN_DEPTH	64
#define RNIC_ADMIN_LOG_LENGTH	32

/* No address, and of an STag the index only. */
struct rnic_admin_note {
	ktime_t begun;
	ktime_t answered;		/* zero: not yet */
	u32 number;			/* of the object; 0: unknown */
	u16 opcode;
	u16 status;
};

struct rnic_admin_log {
	u32 count;			/* of all commands that were answered */
	struct rnic_admin_note answered[RNIC_ADMIN_LOG_LENGTH];
};

/* What a failure leaves. */
struct rnic_admin_record {
	struct rnic_admin_log log;
	unsigned int num_unanswered;
	struct rnic_admin_note unanswered[RNIC_ADMIN_DEPTH];
};

void rnic_admin_note_begin(struct rnic_admin_note *note,
			   const struct rnic_admin_sqe *sqe);
/* The answer: the note goes to the log. */
void rnic_admin_note_end(struct rnic_admin_note *note,
			 const struct rnic_admin_cqe *cqe,
			 struct rnic_admin_log *log);

/* As rnic-hw.h names it. */
const char *rnic_admin_opcode_name(u16 opcode);

#endif /* RNIC_ADMIN_LOG_H */
