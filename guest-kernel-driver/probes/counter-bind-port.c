// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

int probe(struct rdma_counter *counter, struct ib_qp *qp, u32 port);

const struct ib_device_ops probe_ops = { .counter_bind_qp = probe };
