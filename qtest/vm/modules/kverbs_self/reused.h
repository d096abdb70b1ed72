/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: what has a number that another one had. May sleep.
 */
#ifndef KVERBS_SELF_REUSED_H
#define KVERBS_SELF_REUSED_H

struct ib_device;

/* The adapter has to be one of two QPs and two CQs. Returns 0 or a negative error, and says why. */
int check_reused(struct ib_device *dev);

#endif
