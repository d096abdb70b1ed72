/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's side of rdma_cm, by its commands, for what librdmacm does not do. Each
 * function returns 0 or an errno.
 */
#ifndef UCMA_H
#define UCMA_H

#include <netinet/in.h>
#include <stdint.h>

/* A connection to rdma_cm that listens at this address. */
int ucma_listen(int *fd, const struct sockaddr_in *at);
/* The id of the next request; other events are passed over. */
int ucma_next_request(int fd, uint32_t *id);
int ucma_accept(int fd, uint32_t id, uint32_t qp_num);
/* Disconnects it, if it is connected, and destroys it. */
int ucma_end(int fd, uint32_t id);

#endif
