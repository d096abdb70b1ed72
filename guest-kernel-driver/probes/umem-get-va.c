// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_umem.h>

struct ib_umem *probe(struct ib_device *device);

struct ib_umem *probe(struct ib_device *device)
{
	return ib_umem_get_va(device, 0, 0, 0);
}
