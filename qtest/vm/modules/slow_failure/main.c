// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * slow_failure: makes the driver take two seconds between the beginning of a failure
 * of its adapter and the adapter's reset, so that what happens in between can be tried.
 * The log says when it begins.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>

#define DELAY_MS	2000

/* The driver calls it before the reset, with interrupts off. */
static int before_note(struct kprobe *probe, struct pt_regs *regs)
{
	pr_info("a failure begins\n");
	mdelay(DELAY_MS);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "rnic_failure_note",
	.pre_handler = before_note,
};

static int __init slow_failure_init(void)
{
	return register_kprobe(&probe);
}

static void __exit slow_failure_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(slow_failure_init);
module_exit(slow_failure_exit);
MODULE_DESCRIPTION("Delays the reset of an rnic adapter that fails");
MODULE_LICENSE("GPL");
