/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: a Send that is not signaled, of which the adapter says that it has
 * succeeded.
 */
#ifndef UNSIGNALED_H
#define UNSIGNALED_H

struct ib_device;

/*
 * 0, or an error, and the log has what is wrong. The log has the QP's number, in whose
 * next completion the adapter must name its first work request from when go is set on.
 */
int check_unsignaled(struct ib_device *dev);

#endif
