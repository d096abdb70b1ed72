// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

struct ib_mr *probe(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr,
		    int fd, int access, struct uverbs_attr_bundle *attrs);

const struct ib_device_ops probe_ops = { .reg_user_mr_dmabuf = probe };
