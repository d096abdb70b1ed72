/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_check: the test as a whole, and what every part of it uses.
 *
 * Two machines load this module, one as server, one as client. It uses the
 * kernel's RDMA interfaces only, so any RNIC will do.
 */
#ifndef KVERBS_H
#define KVERBS_H

#include <linux/kthread.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>

enum kverbs_mode {
	KVERBS_TRANSFER,	/* move data, check every byte */
	KVERBS_STALE,		/* use STags that are no more */
};

/* The client's, but for those of the module itself. */
struct kverbs_params {
	enum kverbs_mode mode;
	u64 seed;
	u32 iterations;
	u32 max_size;		/* octets of one RDMA operation */
	u32 slots;		/* operations under way at once, per direction */
	enum ib_poll_context poll;	/* of this end */
};

#define KVERBS_MAX_SIZE		0x100000
#define KVERBS_MAX_SLOTS	64

struct kverbs_test {
	struct kverbs_params params;
	/* For the test's thread: of connections, completions, failures. */
	wait_queue_head_t wait;
	spinlock_t lock;	/* why and failed */
	bool failed;
	char why[200];
};

/* Only the first failure is kept: the others follow from it. */
__printf(2, 3)
void kverbs_fail(struct kverbs_test *test, const char *format, ...);

/* Tells the test's thread that something has happened. */
static inline void kverbs_raise(struct kverbs_test *test, bool *flag)
{
	/* Whoever sees the flag, sees what was stored before. */
	smp_store_release(flag, true);
	wake_up_all(&test->wait);
}

static inline bool kverbs_raised(const bool *flag)
{
	/* Pairs with kverbs_raise(). */
	return smp_load_acquire(flag);
}

/* In the test's thread: is there no point in going on? */
static inline bool kverbs_over(struct kverbs_test *test)
{
	return kverbs_raised(&test->failed) || kthread_should_stop();
}

/*
 * In the test's thread: 0 when condition, which has no side effects, is true,
 * else it is over.
 */
#define kverbs_wait(test, condition) ({					\
	struct kverbs_test *__test = (test);				\
	bool __holds = false;						\
									\
	wait_event_idle(__test->wait, (__holds = (condition)) ||	\
				      kverbs_over(__test));		\
	__holds ? 0 : -ECANCELED;					\
})

#endif
