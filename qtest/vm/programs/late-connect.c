// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * late-connect: for LD_PRELOAD. A program connects $CONNECT_AFTER seconds after it asks for
 * that, to a server that tells its port and listens there a little later.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <unistd.h>

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int (*connect_now)(struct rdma_cm_id *, struct rdma_conn_param *) =
		dlsym(RTLD_NEXT, "rdma_connect");
	const char *seconds = getenv("CONNECT_AFTER");

	sleep(seconds ? atoi(seconds) : 0);
	return connect_now(id, param);
}
