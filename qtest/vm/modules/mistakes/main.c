// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mistakes: makes one of the mistakes that the checks of the debug kernel report,
 * so that a test sees whether a report fails a run (scripts/test-debug-kernel).
 *
 * Loading it makes the mistake that the parameter what names. It holds no lock
 * afterwards, and leaks 64 octets at most.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#define SIZE	64

static char *what = "none";
module_param(what, charp, 0444);

static int shift = 40;	/* of an int of 32 bits: a variable, to be no constant */
module_param(shift, int, 0444);

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static void make_warning(void)
{
	WARN(1, "a warning on purpose\n");
}

static void make_use_after_free(void)
{
	u8 *octets = kzalloc(SIZE, GFP_KERNEL);

	if (!octets)
		return;
	OPTIMIZER_HIDE_VAR(octets);
	kfree(octets);
	pr_info("an octet of freed memory: %u\n", READ_ONCE(octets[1]));
}

static void make_undefined_shift(void)
{
	int one = 1;

	OPTIMIZER_HIDE_VAR(one);
	pr_info("a shift by too much: %d\n", one << shift);
}

static void make_leak(void)
{
	u8 *octets = kzalloc(SIZE, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(octets);
}

/* One thread cannot deadlock: only lockdep sees the two orders. */
static void make_lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void make_atomic_sleep(void)
{
	preempt_disable();
	might_sleep();
	preempt_enable();
}

static const struct {
	const char *name;
	void (*make)(void);
} mistakes[] = {
	{ "warning", make_warning },
	{ "use-after-free", make_use_after_free },
	{ "undefined-shift", make_undefined_shift },
	{ "leak", make_leak },
	{ "lock-order", make_lock_order },
	{ "atomic-sleep", make_atomic_sleep },
};

static int __init mistakes_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (!strcmp(mistakes[i].name, what)) {
			mistakes[i].make();
			return 0;
		}
	}
	return strcmp(what, "none") ? -EINVAL : 0;
}

static void __exit mistakes_exit(void)
{
}

module_init(mistakes_init);
module_exit(mistakes_exit);

MODULE_DESCRIPTION("Mistakes that a debug kernel reports");
MODULE_LICENSE("GPL");
