/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_failed: work requests and queue pairs of an adapter that fails.
 */
#ifndef FLUSHED_H
#define FLUSHED_H

struct ib_device;
struct ib_pd;

/* Makes QPs and posts; 0 or an error, after which flushed_end() frees what there is. */
int flushed_begin(struct ib_device *dev, struct ib_pd *pd);
/* After the failure; the log has "flushed: all", or what is wrong. Sleeps. */
void flushed_check(void);
void flushed_end(void);

#endif
