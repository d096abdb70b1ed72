// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Your first RDMA transfer, from finding the adapter to giving all back
 *
 *     server$ first-transfer ADAPTER               (ibv_devices lists them)
 *     client$ first-transfer ADAPTER SERVER
 *
 * Two processes connect two queue pairs by hand.  Then the client sends a message,
 * writes into the server's memory and reads it back.  The server's processor has
 * no part in the last two.  The program is plain verbs: the same source runs over
 * any RDMA adapter whose port has an IP address.
 *
 *     cc first-transfer.c -libverbs -o first-transfer
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_SIZE = 4096, HALF = BUFFER_SIZE / 2, ADAPTER_PORT = 1 };
#define TCP_PORT "18515"
#define PEER_RIGHTS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* What each side has to know of the other one. */
struct side {
	union ibv_gid gid;	/* the address of its adapter */
	uint32_t qpn;		/* the number of its queue pair */
	uint32_t psn;		/* the number of the first packet it sends */
	uint64_t buffer;	/* its memory, as it calls it ... */
	uint32_t rkey;		/* ... and the key that lets a peer in */
};

static void check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* 1. Find the adapter. */
static struct ibv_context *open_adapter(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	check(list != NULL, "ibv_get_device_list");
	for (int i = 0; list[i]; i++)
		if (strcmp(name, ibv_get_device_name(list[i])) == 0)
			context = ibv_open_device(list[i]);
	check(context != NULL, name);
	ibv_free_device_list(list);
	return context;
}

/*
 * A port has a table of addresses (GIDs).  The one to use is that of its IPv4
 * address, which looks like ::ffff:10.77.0.1, or without one its IPv6 address.  The
 * table has more: the MAC address, which ends with zeros, and fe80::, for the link.
 */
static int find_gid(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t zeros[8], mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_port_attr port;
	int found = -1;

	check(ibv_query_port(context, ADAPTER_PORT, &port) == 0, "ibv_query_port");
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(context, ADAPTER_PORT, i, gid) != 0)
			continue;
		if (memcmp(gid->raw, mapped, sizeof(mapped)) == 0)
			return i;
		if (memcmp(gid->raw + 8, zeros, sizeof(zeros)) != 0 &&
		    gid->raw[0] != 0xfe)
			found = i;
	}
	check(found >= 0, "the adapter has no address");
	check(ibv_query_gid(context, ADAPTER_PORT, found, gid) == 0, "ibv_query_gid");
	return found;
}

/* 3. To connect, the two processes need another way to talk: a TCP socket. */
static int meet(const char *server)
{
	/* What listens on all IPv6 addresses is reached by IPv4, too. */
	struct addrinfo hints = { .ai_family = server ? AF_UNSPEC : AF_INET6,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = server ? 0 : AI_PASSIVE };
	struct addrinfo *where;
	int fd, on = 1;

	check(getaddrinfo(server, TCP_PORT, &hints, &where) == 0, "getaddrinfo");
	fd = socket(where->ai_family, SOCK_STREAM, 0);
	if (server) {
		check(connect(fd, where->ai_addr, where->ai_addrlen) == 0, server);
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		check(bind(fd, where->ai_addr, where->ai_addrlen) == 0 &&
		      listen(fd, 1) == 0, "port " TCP_PORT);
		fd = accept(fd, NULL, NULL);
	}
	freeaddrinfo(where);
	return fd;
}

/* Each process sends, then receives: neither goes on before the other is here. */
static void exchange(int fd, const void *mine, void *other, int size)
{
	check(write(fd, mine, size) == size &&
	      recv(fd, other, size, MSG_WAITALL) == size, "the other process");
}

/* Each step wants to know the attributes that its mask names. */
static void step(struct ibv_qp *qp, struct ibv_qp_attr *attr,
		 enum ibv_qp_state state, int mask)
{
	attr->qp_state = state;
	check(ibv_modify_qp(qp, attr, IBV_QP_STATE | mask) == 0, "ibv_modify_qp");
}

static void connect_qp(struct ibv_qp *qp, int gid_index, const struct side *mine,
		       const struct side *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = ADAPTER_PORT,
		.qp_access_flags = PEER_RIGHTS,
		/* who the peer is */
		.ah_attr = { .is_global = 1, .port_num = ADAPTER_PORT,
			     .grh = { .dgid = peer->gid, .sgid_index = gid_index,
				      .hop_limit = 64 } },
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.sq_psn = mine->psn,
		.path_mtu = IBV_MTU_1024,
		/* RDMA Reads in progress, each way */
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		/* how long to wait for an answer, and how often to try */
		.timeout = 14, .retry_cnt = 7, .min_rnr_timer = 12, .rnr_retry = 7,
	};

	/* INIT: the queue pair has a port, and peers have rights. */
	step(qp, &attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	     IBV_QP_ACCESS_FLAGS);
	/* RTR, ready to receive: it knows its peer. */
	step(qp, &attr, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU |
	     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	     IBV_QP_MIN_RNR_TIMER);
	/* RTS, ready to send. */
	step(qp, &attr, IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
	     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* 4. Wait until the adapter has done one work request. */
static void complete(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	check(n == 1, "ibv_poll_cq");
	printf("%s: %s\n", what, ibv_wc_status_str(wc.status));
	if (wc.status != IBV_WC_SUCCESS)
		exit(1);
}

/* A place for one message; it has to be there before the message comes. */
static void post_receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, HALF, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

/* HALF octets of our buffer; Write and Read name the second half of the peer's. */
static void post(struct ibv_qp *qp, struct ibv_mr *mr, enum ibv_wr_opcode opcode,
		 char *local, const struct side *peer)
{
	struct ibv_sge sge = { (uintptr_t)local, HALF, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = peer->buffer + HALF,
			     .rkey = peer->rkey },
	};

	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void client(struct ibv_qp *qp, struct ibv_mr *mr, const struct side *peer)
{
	char *buffer = mr->addr;

	strcpy(buffer, "hello");
	post(qp, mr, IBV_WR_SEND, buffer, peer);
	complete(qp->send_cq, "Send");
	strcpy(buffer, "written without the server's help");
	post(qp, mr, IBV_WR_RDMA_WRITE, buffer, peer);
	complete(qp->send_cq, "RDMA Write");
	post(qp, mr, IBV_WR_RDMA_READ, buffer + HALF, peer);
	complete(qp->send_cq, "RDMA Read");
	check(memcmp(buffer, buffer + HALF, HALF) == 0, "it is not the same");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fprintf(stderr, "usage: first-transfer ADAPTER [SERVER]\n");

	/* 1. */
	const char *server = argv[2];
	struct ibv_context *context = open_adapter(argv[1]);

	/* 2. A domain, memory that the adapter may use, and the queues. */
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	static char buffer[BUFFER_SIZE];
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, BUFFER_SIZE,
				       IBV_ACCESS_LOCAL_WRITE | PEER_RIGHTS);
	check(mr != NULL, "ibv_reg_mr");
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	struct ibv_qp *qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr) {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 } });
	check(qp != NULL, "ibv_create_qp");

	/* 3. */
	struct side peer, mine = { .qpn = qp->qp_num, .psn = getpid() & 0xffffff,
				   .buffer = (uintptr_t)buffer, .rkey = mr->rkey };
	int gid_index = find_gid(context, &mine.gid), fd = meet(server);

	exchange(fd, &mine, &peer, sizeof(peer));
	connect_qp(qp, gid_index, &mine, &peer);
	post_receive(qp, mr);
	exchange(fd, "", &(char) { 0 }, 1);

	/* 4. */
	if (server) {
		client(qp, mr, &peer);
	} else {
		complete(cq, "Receive");
		printf("message: \"%s\"\n", buffer);
	}
	exchange(fd, "", &(char) { 0 }, 1);
	printf("second half: \"%s\"\n", buffer + HALF);

	/* 5. Give all back, what uses something before what it uses. */
	check(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 &&
	      ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 &&
	      ibv_close_device(context) == 0, "clean-up");
	return 0;
}
