/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: a Send that is not signaled, of which the adapter says that it has
 * succeeded, in RTS or in ERR.
 */
#ifndef UNSIGNALED_H
#define UNSIGNALED_H

struct ib_device;

/*
 * 0, or an error, and the log has what is wrong. The log has the QP's number. From when go
 * is set on, the adapter must forge the QP's next completion: name its first work request,
 * or with in_error success.
 */
int check_unsignaled(struct ib_device *dev, bool in_error);

#endif
