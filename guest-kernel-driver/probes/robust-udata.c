// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

const struct ib_device_ops probe_ops = { .uverbs_robust_udata = 1 };
