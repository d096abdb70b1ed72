/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: a CQ whose number another one had, and its events. May sleep.
 */
#ifndef KVERBS_SELF_REUSED_EVENTS_H
#define KVERBS_SELF_REUSED_EVENTS_H

struct ib_pd;

/* The adapter has to be one of two CQs. Returns 0 or a negative error, and says why. */
int check_reused_events(struct ib_pd *pd);

#endif
