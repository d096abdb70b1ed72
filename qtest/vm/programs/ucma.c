// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's side of rdma_cm, by its commands. <rdma/rdma_user_cm.h> and librdmacm's
 * header do not go together: hence a file of its own.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

#include "ucma.h"

#define EVENT_CONNECT_REQUEST	4	/* RDMA_CM_EVENT_CONNECT_REQUEST */
#define QP_TYPE_RC		2	/* IBV_QPT_RC */

static int command(int fd, uint32_t number, const void *body, uint16_t size,
		   uint16_t answer_size)
{
	struct rdma_ucm_cmd_hdr header = {
		.cmd = number,
		.in = size,
		.out = answer_size,
	};
	char buffer[512];

	memcpy(buffer, &header, sizeof(header));
	memcpy(buffer + sizeof(header), body, size);
	return write(fd, buffer, sizeof(header) + size) < 0 ? errno : 0;
}

int ucma_listen(int *fd, const struct sockaddr_in *at)
{
	struct rdma_ucm_create_id_resp created;
	struct rdma_ucm_create_id create = {
		.response = (uintptr_t)&created,
		.ps = RDMA_PS_TCP,
		.qp_type = QP_TYPE_RC,
	};
	struct rdma_ucm_bind bind = { .addr_size = sizeof(*at) };
	struct rdma_ucm_listen listen = { .backlog = 16 };
	int error;

	*fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return errno;
	error = command(*fd, RDMA_USER_CM_CMD_CREATE_ID, &create,
			sizeof(create), sizeof(created));
	if (error)
		return error;
	bind.id = listen.id = created.id;
	memcpy(&bind.addr, at, sizeof(*at));
	error = command(*fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0);
	return error ? error : command(*fd, RDMA_USER_CM_CMD_LISTEN, &listen,
				       sizeof(listen), 0);
}

int ucma_next_request(int fd, uint32_t *id)
{
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_get_event get = { .response = (uintptr_t)&event };
	int error;

	do {
		error = command(fd, RDMA_USER_CM_CMD_GET_EVENT, &get,
				sizeof(get), sizeof(event));
		if (error)
			return error;
	} while (event.event != EVENT_CONNECT_REQUEST);
	*id = event.id;
	return 0;
}

int ucma_accept(int fd, uint32_t id, uint32_t qp_num)
{
	struct rdma_ucm_accept accept = {
		.id = id,
		.conn_param = {
			.qp_num = qp_num,
			.responder_resources = 1,
			.initiator_depth = 1,
			.valid = 1,
		},
	};

	return command(fd, RDMA_USER_CM_CMD_ACCEPT, &accept, sizeof(accept), 0);
}

int ucma_end(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect disconnect = { .id = id };
	struct rdma_ucm_destroy_id_resp answer;
	struct rdma_ucm_destroy_id destroy = {
		.response = (uintptr_t)&answer,
		.id = id,
	};

	command(fd, RDMA_USER_CM_CMD_DISCONNECT, &disconnect,
		sizeof(disconnect), 0);
	return command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &destroy,
		       sizeof(destroy), sizeof(answer));
}
