// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_self: waits until the module's parameter go says that the adapter lies.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>

#include "go.h"

#define TIME_LIMIT	(60 * HZ)

static bool go;
module_param(go, bool, 0200);

int await_go(void)
{
	unsigned long deadline = jiffies + TIME_LIMIT;

	while (!READ_ONCE(go)) {
		if (time_after(jiffies, deadline)) {
			pr_err("go is not set\n");
			return -ETIMEDOUT;
		}
		msleep(20);
	}
	return 0;
}
