// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * late-connect: for LD_PRELOAD. A program connects two seconds after it asks for that, to
 * a server that tells its port and listens there a little later.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int (*connect_now)(struct rdma_cm_id *, struct rdma_conn_param *) =
		dlsym(RTLD_NEXT, "rdma_connect");

	sleep(2);
	return connect_now(id, param);
}
