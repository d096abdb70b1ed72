/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: what the kernel is told of completions, and when. May sleep.
 */
#ifndef KVERBS_SELF_EVENTS_H
#define KVERBS_SELF_EVENTS_H

#include <rdma/ib_verbs.h>

int check_events(struct ib_pd *pd);

#endif
