// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

int probe(struct sk_buff *msg, struct ib_srq *srq);

const struct ib_device_ops probe_ops = { .fill_res_srq_entry = probe };
