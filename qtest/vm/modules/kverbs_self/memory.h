/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: memory that the kernel registers by work requests.
 */
#ifndef KVERBS_SELF_MEMORY_H
#define KVERBS_SELF_MEMORY_H

#include <rdma/ib_verbs.h>

int check_memory_verbs(struct ib_pd *pd);

#endif
