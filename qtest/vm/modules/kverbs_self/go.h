/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: waits until the module's parameter go says that the adapter lies.
 */
#ifndef GO_H
#define GO_H

/* 0, or -ETIMEDOUT after a minute, and the log says so. May sleep. */
int await_go(void);

#endif
