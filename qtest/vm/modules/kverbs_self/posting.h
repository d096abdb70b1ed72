/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: what the kernel's verbs promise of posting and polling. May sleep.
 */
#ifndef KVERBS_SELF_POSTING_H
#define KVERBS_SELF_POSTING_H

#include <rdma/ib_verbs.h>

int check_posting(struct ib_pd *pd);

#endif
