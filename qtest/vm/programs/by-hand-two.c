// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * by-hand-two: two adapters of one machine. What one has made the other does not know,
 * whatever its number; what has the same number on both is not the same.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

#define SIZE	64
#define NUMBER	10
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: by-hand-two ADAPTER OTHER\n"
"Makes objects on both adapters, and uses those of one on the other.\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

/* NUMBER objects of each kind; the other side has fewer. */
struct side {
	struct by_hand h;
	struct ibv_cq *cqs[NUMBER];
	struct ibv_srq *srqs[NUMBER];
	struct ibv_mr *mrs[NUMBER];
	struct by_hand_pair pair;
	uint8_t *memory;
};

static struct side sides[2];

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

static void make_side(struct side *s, const char *name, int number)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	int i;

	by_hand_open(&s->h, name);
	s->memory = allocate(SIZE);
	for (i = 0; i < number; i++) {
		s->cqs[i] = ibv_create_cq(s->h.context, 4, NULL, NULL, 0);
		s->srqs[i] = ibv_create_srq(s->h.pd, &init);
		s->mrs[i] = ibv_reg_mr(s->h.pd, s->memory, SIZE,
				       IBV_ACCESS_LOCAL_WRITE | RIGHTS);
		need(s->cqs[i], "ibv_create_cq");
		need(s->srqs[i], "ibv_create_srq");
		need(s->mrs[i], "ibv_reg_mr");
	}
	by_hand_connect(&s->h, &s->pair, s->h.pd, RIGHTS, 4);
}

static void free_side(struct side *s)
{
	int i;

	by_hand_free(&s->pair);
	for (i = 0; i < NUMBER && s->cqs[i]; i++)
		if (ibv_destroy_cq(s->cqs[i]) || ibv_destroy_srq(s->srqs[i]) ||
		    ibv_dereg_mr(s->mrs[i]))
			fail("destroying: %s", strerror(errno));
	by_hand_close(&s->h);
}

/* The last of many on one adapter, which the other has not so many of. */
static void refuse_qp(struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
		      struct ibv_srq *srq, const char *what)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq, .recv_cq = recv_cq, .srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (ibv_create_qp(sides[1].h.pd, &init))
		fail("a QP with %s of another adapter", what);
	if (errno != EINVAL && errno != ENOENT)
		fail("a QP with %s of another adapter: %s", what,
		     strerror(errno));
}

static enum ibv_wc_status write_by(struct side *s, uint32_t lkey, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)s->memory, 8, lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {
			.remote_addr = (uintptr_t)s->memory + 32, .rkey = rkey,
		},
	};

	if (ibv_post_send(s->pair.qps[0], &wr, &bad))
		fail("ibv_post_send");
	return by_hand_wait(s->pair.cqs[0], "Write").status;
}

static void expect_write(struct side *s, uint32_t lkey, uint32_t rkey,
			 enum ibv_wc_status status, const char *what)
{
	enum ibv_wc_status got;

	memset(s->memory, 0, SIZE);
	s->memory[0] = 1;
	got = write_by(s, lkey, rkey);
	if (got != status || s->memory[32] != (status == IBV_WC_SUCCESS))
		fail("%s: %s", what, ibv_wc_status_str(got));
	if (!status)
		return;
	by_hand_free(&s->pair);
	by_hand_connect(&s->h, &s->pair, s->h.pd, RIGHTS, 4);
}

static void try_regions(void)
{
	struct side *s = &sides[1];
	uint32_t own = s->mrs[0]->lkey, other = sides[0].mrs[NUMBER - 1]->lkey;
	struct side *first = &sides[0];

	expect_write(s, own, own, IBV_WC_SUCCESS, "own memory");
	expect_write(s, other, own, IBV_WC_LOC_PROT_ERR,
		     "from a region of the other adapter");
	expect_write(s, own, other, IBV_WC_REM_ACCESS_ERR,
		     "to a region of the other adapter");
	/* All of this was nothing to the other one, where that is a region. */
	expect_write(first, other, other, IBV_WC_SUCCESS, "on its own adapter");
	if (s->memory[32] || first->memory[32] != 1)
		fail("a Write on the wrong adapter");
}

/* Both count from the same number: QPs that are called the same are two. */
static void try_same_number(void)
{
	if (sides[0].pair.qps[0]->qp_num != sides[1].pair.qps[0]->qp_num)
		fail("QPs %u and %u", sides[0].pair.qps[0]->qp_num,
		     sides[1].pair.qps[0]->qp_num);
	expect_write(&sides[0], sides[0].mrs[0]->lkey, sides[0].mrs[0]->lkey,
		     IBV_WC_SUCCESS, "the first adapter's");
	expect_write(&sides[1], sides[1].mrs[0]->lkey, sides[1].mrs[0]->lkey,
		     IBV_WC_SUCCESS, "the second adapter's");
}

int main(int argc, char **argv)
{
	struct side *s = &sides[1];

	program = "by-hand-two";
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(help, stdout);
		return 0;
	}
	if (argc != 3)
		fail_usage();
	make_side(&sides[0], argv[1], NUMBER);
	make_side(s, argv[2], 1);
	try_same_number();
	refuse_qp(sides[0].cqs[NUMBER - 1], s->cqs[0], NULL, "the SQ's CQ");
	refuse_qp(s->cqs[0], sides[0].cqs[NUMBER - 1], NULL, "the RQ's CQ");
	refuse_qp(s->cqs[0], s->cqs[0], sides[0].srqs[NUMBER - 1], "the S-RQ");
	try_regions();
	free_side(&sides[0]);
	free_side(s);
	say("two adapters: ok");
	return 0;
}
