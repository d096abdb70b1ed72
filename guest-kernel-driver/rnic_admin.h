/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the admin queue, transport only.  What commands mean is in
 * rnic_commands.c.
 */
#ifndef RNIC_ADMIN_H
#define RNIC_ADMIN_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>

#include "rnic-hw.h"
#include "rnic_admin_log.h"

struct rnic_dev;

#define RNIC_ADMIN_BULK		512	/* octets of bulk data of a command */

/* One command; the caller fills sqe but for id and bulk address. */
struct rnic_admin_command {
	struct rnic_admin_sqe sqe;
	struct rnic_admin_cqe cqe;
	const void *bulk_in;		/* for the device to read */
	void *bulk_out;			/* for the device to write */
	u16 bulk_length;
};

/* A command in flight. */
struct rnic_admin_slot {
	struct completion done;
	struct rnic_admin_cqe cqe;
	struct rnic_admin_note note;
	u16 command_id;
};

struct rnic_admin {
	struct rnic_admin_sqe *sq;
	dma_addr_t sq_dma;
	struct rnic_admin_cqe *cq;
	dma_addr_t cq_dma;
	u8 *bulk;			/* RNIC_ADMIN_BULK octets per slot */
	dma_addr_t bulk_dma;
	struct semaphore free_slots;
	/* Protects the rest of this structure and both rings. */
	spinlock_t lock;
	u32 tail;
	u32 head;
	DECLARE_BITMAP(busy, RNIC_ADMIN_DEPTH);
	struct rnic_admin_slot slots[RNIC_ADMIN_DEPTH];
	struct rnic_admin_log log;
};

int rnic_admin_init(struct rnic_dev *dev);
void rnic_admin_free(struct rnic_dev *dev);

/* Tells the device where the queue is; to be followed by ENABLE. */
void rnic_admin_program(struct rnic_dev *dev, u32 vector);

/*
 * Runs a command to its end. 0: the device executed it. Otherwise the errno
 * of its refusal, with the status in cmd->cqe, or RNIC_ERR_FAILED.
 * May sleep.
 */
int rnic_admin_execute(struct rnic_dev *dev, struct rnic_admin_command *cmd);

/* Takes completions off the queue. Any context. */
void rnic_admin_poll(struct rnic_dev *dev);

/* The last commands, and those in flight. Any context. */
void rnic_admin_note_all(struct rnic_dev *dev,
			 struct rnic_admin_record *record);

/* Ends all commands in flight of a device that has failed. */
void rnic_admin_abort(struct rnic_dev *dev);

#endif /* RNIC_ADMIN_H */
