/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: a queue pair in ERR whose last completion the adapter loses.
 */
#ifndef UNFLUSHED_H
#define UNFLUSHED_H

struct ib_device;

/*
 * 0, or an error, and the log has what is wrong. The log has the QP's number, of which
 * the adapter must lose completions from when go is set on, without end.
 */
int check_unflushed(struct ib_device *dev);

#endif
