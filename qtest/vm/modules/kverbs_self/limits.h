/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: what is more than the adapter offers is refused. May sleep.
 */
#ifndef KVERBS_SELF_LIMITS_H
#define KVERBS_SELF_LIMITS_H

#include <rdma/ib_verbs.h>

int check_limits(struct ib_pd *pd);

#endif
