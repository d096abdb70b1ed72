// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

int probe(const struct ib_device_ops *ops);

int probe(const struct ib_device_ops *ops)
{
	return !!ops->get_vector_affinity;
}
