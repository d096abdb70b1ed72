// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mistaken: has the provider read memory that is not the program's, as it is told, so
 * that a checked provider reports it; or makes no mistake.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-hand.h"
#include "common.h"

static const char help[] =
"usage: mistaken none|beyond|freed|misaligned ADAPTER\n"
"Posts a receive whose list of SGEs is good, too short, freed, or at an odd address.\n"
"Exit status: 0 posted, 1 refused, 2 usage; a checked provider ends it before.\n";

static void post_list(struct ibv_qp *qp, struct ibv_sge *list)
{
	struct ibv_recv_wr wr = { .sg_list = list, .num_sge = 2 }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		fail("ibv_post_recv");
}

static bool is_mistake(const char *word)
{
	return !strcmp(word, "none") || !strcmp(word, "beyond") ||
	       !strcmp(word, "freed") || !strcmp(word, "misaligned");
}

static struct ibv_sge *make_list(const char *mistake)
{
	size_t entries = strcmp(mistake, "beyond") ? 3 : 1;
	struct ibv_sge *list = calloc(entries, sizeof(*list));

	if (!list)
		fail("no memory");
	if (!strcmp(mistake, "misaligned"))
		return (struct ibv_sge *)((char *)list + 1);
	return list;
}

int main(int argc, char **argv)
{
	struct by_hand adapter = { .max_sge = 2 };
	struct ibv_sge *list;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	program = "mistaken";
	if (argc != 3 || !is_mistake(argv[1])) {
		fputs(help, stderr);
		return USAGE;
	}
	by_hand_open(&adapter, argv[2]);
	cq = ibv_create_cq(adapter.context, 2, NULL, NULL, 0);
	if (!cq)
		fail("ibv_create_cq");
	qp = by_hand_qp(&adapter, cq, 2);
	by_hand_init(qp, 0);
	list = make_list(argv[1]);
	if (!strcmp(argv[1], "freed"))
		free(list);
	post_list(qp, list);
	say("posted");
	return 0;
}
