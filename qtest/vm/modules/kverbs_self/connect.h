/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kverbs_self: connects two QPs of one adapter by hand.
 */
#ifndef KVERBS_SELF_CONNECT_H
#define KVERBS_SELF_CONNECT_H

#include <rdma/ib_verbs.h>

int connect_by_hand(struct ib_qp *a, struct ib_qp *b);

#endif
