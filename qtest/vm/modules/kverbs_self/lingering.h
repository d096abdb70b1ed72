/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: queue pairs that stay in ERR.
 */
#ifndef LINGERING_H
#define LINGERING_H

struct ib_device;

/* 0, or an error, and the log has what is wrong. Takes some 20 seconds. */
int check_lingering(struct ib_device *dev);

#endif
