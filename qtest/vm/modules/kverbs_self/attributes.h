/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: what the kernel asks of queues it gets, and what it is told of them.
 */
#ifndef KVERBS_SELF_ATTRIBUTES_H
#define KVERBS_SELF_ATTRIBUTES_H

#include <rdma/ib_verbs.h>

int check_attributes(struct ib_pd *pd);

#endif
