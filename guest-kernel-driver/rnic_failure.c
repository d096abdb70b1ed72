// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what is kept of the last failure of a PCI function's device: why, the
 * registers as they were, the last admin commands.
 *
 * Neither memory addresses nor data are in it: whoever reports a failure may show
 * it to others. Memory that a message takes may be short; what does not fit is
 * missing.
 */

#include <linux/slab.h>
#include <net/devlink.h>

#include "rnic.h"
#include "rnic_failure.h"

struct rnic_failure_register {
	const char *name;
	u32 offset;
	bool wide;			/* 8 octets */
};

#define RNIC_REGISTER(name)	{ #name, RNIC_REG_ ## name, false }
#define RNIC_REGISTER_64(name)	{ #name, RNIC_REG_ ## name, true }

/* All that can be read, but for the bases of rings and the test registers. */
static const struct rnic_failure_register rnic_failure_registers[] = {
	RNIC_REGISTER(MAGIC),
	RNIC_REGISTER(ABI_VERSION),
	RNIC_REGISTER(HW_VERSION),
	RNIC_REGISTER(LIMITS),
	RNIC_REGISTER_64(FEATURES),
	RNIC_REGISTER_64(DRIVER_FEATURES),
	RNIC_REGISTER(CONTROL),
	RNIC_REGISTER(STATUS),
	RNIC_REGISTER(HEALTH),
	RNIC_REGISTER(LINK),
	RNIC_REGISTER_64(MAC),
	RNIC_REGISTER(BAD_ACCESSES),
	RNIC_REGISTER(BAD_DOORBELLS),
	RNIC_REGISTER(ADMIN_DEPTH),
	RNIC_REGISTER(ADMIN_VECTOR),
	RNIC_REGISTER(ADMIN_TAIL),
	RNIC_REGISTER(ADMIN_HEAD),
};

static_assert(ARRAY_SIZE(rnic_failure_registers) == RNIC_FAILURE_REGISTERS);

void rnic_failure_init(struct rnic_failure *failure)
{
	spin_lock_init(&failure->lock);
}

u32 rnic_failure_note(struct rnic_dev *dev, const char *why)
{
	struct rnic_failure_record *last = &dev->failure->last;
	u32 health = rnic_read32(dev, RNIC_REG_HEALTH);
	unsigned long irq_flags;
	unsigned int i;

	spin_lock_irqsave(&dev->failure->lock, irq_flags);
	last->count++;
	last->why = why;
	last->when = ktime_get();
	last->health = health;
	for (i = 0; i < RNIC_FAILURE_REGISTERS; i++) {
		u32 offset = rnic_failure_registers[i].offset;

		last->registers[i] = rnic_failure_registers[i].wide ?
				     rnic_read64(dev, offset) :
				     rnic_read32(dev, offset);
	}
	rnic_admin_note_all(dev, &last->commands);
	spin_unlock_irqrestore(&dev->failure->lock, irq_flags);
	return health;
}

struct rnic_failure_record *rnic_failure_last(struct rnic_failure *failure)
{
	struct rnic_failure_record *record = kmalloc(sizeof(*record),
						     GFP_KERNEL);
	unsigned long irq_flags;

	if (!record)
		return ERR_PTR(-ENOMEM);
	spin_lock_irqsave(&failure->lock, irq_flags);
	*record = failure->last;
	spin_unlock_irqrestore(&failure->lock, irq_flags);
	return record;
}

/* Numbers of registers are read in base 16. */
static void rnic_failure_put_register(struct devlink_fmsg *fmsg, unsigned int i,
				      u64 value)
{
	const struct rnic_failure_register *reg = &rnic_failure_registers[i];
	char text[2 + 16 + 1];

	snprintf(text, sizeof(text), "0x%0*llx", reg->wide ? 16 : 8, value);
	devlink_fmsg_string_pair_put(fmsg, reg->name, text);
}

static void rnic_failure_put_registers(struct devlink_fmsg *fmsg,
				       const u64 *registers)
{
	unsigned int i;

	devlink_fmsg_pair_nest_start(fmsg, "registers");
	devlink_fmsg_obj_nest_start(fmsg);
	for (i = 0; i < RNIC_FAILURE_REGISTERS; i++)
		rnic_failure_put_register(fmsg, i, registers[i]);
	devlink_fmsg_obj_nest_end(fmsg);
	devlink_fmsg_pair_nest_end(fmsg);
}

static void rnic_failure_put_command(struct devlink_fmsg *fmsg, ktime_t when,
				     const struct rnic_admin_note *note)
{
	devlink_fmsg_obj_nest_start(fmsg);
	devlink_fmsg_string_pair_put(fmsg, "command",
				     rnic_admin_opcode_name(note->opcode));
	devlink_fmsg_u32_pair_put(fmsg, "number", note->number);
	devlink_fmsg_u64_pair_put(fmsg, "us_before_failure",
				  ktime_us_delta(when, note->begun));
	if (note->answered) {
		devlink_fmsg_u64_pair_put(fmsg, "us_until_answer",
					  ktime_us_delta(note->answered,
							 note->begun));
		devlink_fmsg_u32_pair_put(fmsg, "status", note->status);
	} else {
		devlink_fmsg_string_pair_put(fmsg, "status", "unanswered");
	}
	devlink_fmsg_obj_nest_end(fmsg);
}

static void rnic_failure_put_commands(const struct rnic_failure_record *record,
				      struct devlink_fmsg *fmsg)
{
	const struct rnic_admin_record *commands = &record->commands;
	const struct rnic_admin_log *log = &commands->log;
	u32 known = min_t(u32, log->count, RNIC_ADMIN_LOG_LENGTH);
	u32 i;

	devlink_fmsg_arr_pair_nest_start(fmsg, "commands");
	for (i = log->count - known; i != log->count; i++)
		rnic_failure_put_command(fmsg, record->when,
					 &log->answered[i %
						RNIC_ADMIN_LOG_LENGTH]);
	for (i = 0; i < commands->num_unanswered; i++)
		rnic_failure_put_command(fmsg, record->when,
					 &commands->unanswered[i]);
	devlink_fmsg_arr_pair_nest_end(fmsg);
}

void rnic_failure_put(const struct rnic_failure_record *record,
		      struct devlink_fmsg *fmsg)
{
	devlink_fmsg_string_pair_put(fmsg, "cause", record->why);
	devlink_fmsg_u64_pair_put(fmsg, "ms_ago",
				  ktime_ms_delta(ktime_get(), record->when));
	rnic_failure_put_registers(fmsg, record->registers);
	rnic_failure_put_commands(record, fmsg);
}
