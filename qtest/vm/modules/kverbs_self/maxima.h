/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: queues as large as the adapter says that they can be.
 */
#ifndef KVERBS_SELF_MAXIMA_H
#define KVERBS_SELF_MAXIMA_H

#include <rdma/ib_verbs.h>

/* 0, or what went wrong. May sleep, and takes seconds. */
int check_maxima(struct ib_device *dev);

#endif
