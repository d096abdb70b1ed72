// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * leaks-self: makes and destroys objects of each kind again and again, has others
 * refused, and shows that the process then has no more memory, mappings or files than
 * before: what libibverbs and the provider keep of an object goes with it.
 */

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by-hand.h"
#include "common.h"

#define ROUNDS		20
#define BLOCKS		3
#define MEMORY		8192
#define DEPTH		16

static const char help[] =
"usage: leaks-self [-t SECONDS] ADAPTER\n"
"Makes and destroys objects of each kind, and compares what the process has.\n"
"Exit status: 0 no more than before, 1 more, 2 usage.\n";

/* ASan has a heap of its own; it is there if the program was started with it. */
extern size_t __sanitizer_get_current_allocated_bytes(void)
	__attribute__((weak));

static struct by_hand adapter;
static uint8_t *memory;

/* ---------------------------------------------- what the process has */

struct holdings {
	size_t bytes;		/* of the heap */
	size_t pages;		/* of all mappings: queues are private ones */
	unsigned int mappings;
	unsigned int files;
};

static size_t heap_bytes(void)
{
	struct mallinfo2 heap;

	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
	heap = mallinfo2();
	return heap.uordblks + heap.hblkhd;
}

/* ASan maps memory as it likes, and the heap's size is looked at then. */
static size_t mapped_pages(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	if (!statm || fscanf(statm, "%zu", &pages) != 1)
		fail("/proc/self/statm: %s", strerror(errno));
	fclose(statm);
	return __sanitizer_get_current_allocated_bytes ? 0 : pages;
}

/* Doorbell pages and the page with the adapter's state. */
static unsigned int count_shared_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[600], rights[5];

	if (!maps)
		fail("/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), maps))
		count += sscanf(line, "%*s %4s", rights) == 1 &&
			 rights[3] == 's';
	fclose(maps);
	return count;
}

static unsigned int count_files(void)
{
	DIR *files = opendir("/proc/self/fd");
	unsigned int count = 0;

	if (!files)
		fail("/proc/self/fd: %s", strerror(errno));
	while (readdir(files))
		count++;
	closedir(files);
	return count;
}

static struct holdings holdings(void)
{
	struct holdings now = {
		.mappings = count_shared_mappings(),
		.files = count_files(),
	};

	now.pages = mapped_pages();
	now.bytes = heap_bytes();
	return now;
}

/* ----------------------------------------------------------- objects */

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

static void expect_none(const void *object, const char *what)
{
	if (object)
		fail("%s is accepted", what);
}

static void done(int error, const char *what)
{
	if (error)
		fail("%s: %s", what, strerror(error));
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(adapter.context, DEPTH, NULL, NULL, 0);

	need(cq, "ibv_create_cq");
	return cq;
}

static void use_context(void)
{
	struct by_hand other = { .reads = 1 };

	by_hand_open(&other, ibv_get_device_name(adapter.context->device));
	by_hand_close(&other);
}

static void use_domains(void)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = { 0 };
	struct ibv_pd *parent;

	attr.pd = ibv_alloc_pd(adapter.context);
	need(attr.pd, "ibv_alloc_pd");
	attr.td = ibv_alloc_td(adapter.context, &td_attr);
	need(attr.td, "ibv_alloc_td");
	parent = ibv_alloc_parent_domain(adapter.context, &attr);
	need(parent, "ibv_alloc_parent_domain");
	done(ibv_dealloc_pd(parent), "ibv_dealloc_pd of a parent domain");
	done(ibv_dealloc_td(attr.td), "ibv_dealloc_td");
	done(ibv_dealloc_pd(attr.pd), "ibv_dealloc_pd");
}

static void use_region(void)
{
	struct ibv_mr *mr = ibv_reg_mr(adapter.pd, memory, MEMORY,
				       IBV_ACCESS_LOCAL_WRITE);

	need(mr, "ibv_reg_mr");
	done(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory,
			  MEMORY / 2, 0), "ibv_rereg_mr");
	done(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void use_imported(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(adapter.context), *imported_pd;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, 0), *imported_mr;
	struct ibv_context *context;
	int files = dup(adapter.context->cmd_fd);

	context = ibv_import_device(files);
	need(context, "ibv_import_device");
	imported_pd = ibv_import_pd(context, pd->handle);
	need(imported_pd, "ibv_import_pd");
	imported_mr = ibv_import_mr(imported_pd, mr->handle);
	need(imported_mr, "ibv_import_mr");
	ibv_unimport_mr(imported_mr);
	ibv_unimport_pd(imported_pd);
	done(ibv_close_device(context), "ibv_close_device");
	done(ibv_dereg_mr(mr), "ibv_dereg_mr");
	done(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
}

static void use_windows(void)
{
	static const enum ibv_mw_type types[] = {
		IBV_MW_TYPE_1, IBV_MW_TYPE_2,
	};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct ibv_mw *mw = ibv_alloc_mw(adapter.pd, types[i]);

		need(mw, "ibv_alloc_mw");
		done(ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	}
}

static void use_cq(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;

	channel = ibv_create_comp_channel(adapter.context);
	need(channel, "ibv_create_comp_channel");
	cq = ibv_create_cq(adapter.context, DEPTH, NULL, channel, 0);
	need(cq, "ibv_create_cq");
	done(ibv_resize_cq(cq, 40 * DEPTH), "ibv_resize_cq");
	done(ibv_resize_cq(cq, DEPTH), "ibv_resize_cq");
	done(ibv_destroy_cq(cq), "ibv_destroy_cq");
	done(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}

static struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ibv_srq *srq = ibv_create_srq(adapter.pd, &attr);

	need(srq, "ibv_create_srq");
	return srq;
}

static void use_srq(void)
{
	struct ibv_srq_attr deeper = { .max_wr = 40 * DEPTH };
	struct ibv_srq *srq = make_srq();

	done(ibv_modify_srq(srq, &deeper, IBV_SRQ_MAX_WR), "ibv_modify_srq");
	done(ibv_destroy_srq(srq), "ibv_destroy_srq");
}

static void use_qp(void)
{
	struct ibv_qp_attr deeper = {
		.cap = { .max_send_wr = 40 * DEPTH, .max_recv_wr = DEPTH },
	};
	struct ibv_cq *cq = make_cq();
	struct ibv_qp *qp = by_hand_qp(&adapter, cq, DEPTH);

	done(ibv_modify_qp(qp, &deeper, IBV_QP_CAP), "ibv_modify_qp");
	done(ibv_destroy_qp(qp), "ibv_destroy_qp");
	done(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

static void use_qp_of_srq(void)
{
	struct ibv_cq *cq = make_cq();
	struct ibv_srq *srq = make_srq();
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(adapter.pd, &attr);

	need(qp, "ibv_create_qp with an S-RQ");
	done(ibv_destroy_qp(qp), "ibv_destroy_qp");
	done(ibv_destroy_srq(srq), "ibv_destroy_srq");
	done(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

/* ------------------------------------------------- what is refused */

static struct ibv_device_attr limits;

static void have_pd_refused(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = adapter.pd,
		.comp_mask = UINT32_MAX,
	};

	expect_none(ibv_alloc_parent_domain(adapter.context, &attr),
		    "a parent domain of unknown attributes");
}

/* No page is there. */
static void have_region_refused(void)
{
	struct ibv_mr *mr;

	expect_none(ibv_reg_mr(adapter.pd, (void *)(uintptr_t)4096, MEMORY, 0),
		    "a region of no memory");
	mr = ibv_reg_mr(adapter.pd, memory, MEMORY, 0);
	need(mr, "ibv_reg_mr");
	if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			  (void *)(uintptr_t)4096, MEMORY, 0))
		fail("a new translation of no memory is accepted");
	done(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

/* The provider has all that it makes of an object when the kernel refuses. */
static void have_kernel_refuse(void)
{
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ibv_cq *cq = make_cq();
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH },
	};
	uint32_t handle = adapter.pd->handle;

	adapter.pd->handle = UINT32_MAX;
	expect_none(ibv_create_qp(adapter.pd, &attr), "a QP of no PD");
	expect_none(ibv_create_srq(adapter.pd, &srq_attr), "an S-RQ of no PD");
	expect_none(ibv_reg_mr(adapter.pd, memory, MEMORY, 0),
		    "a region of no PD");
	expect_none(ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_1),
		    "a window of no PD");
	adapter.pd->handle = handle;
	expect_none(ibv_create_cq(adapter.context, DEPTH, NULL, NULL,
				  adapter.context->num_comp_vectors),
		    "a CQ of no vector");
	done(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

static void have_queues_refused(void)
{
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = limits.max_srq_wr + 1, .max_sge = 1 },
	};
	struct ibv_cq *cq = make_cq();
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = limits.max_qp_wr + 1 },
	};

	expect_none(ibv_create_cq(adapter.context, limits.max_cqe + 1, NULL,
				  NULL, 0), "a CQ that is too deep");
	expect_none(ibv_create_srq(adapter.pd, &srq_attr),
		    "an S-RQ that is too deep");
	expect_none(ibv_create_qp(adapter.pd, &attr), "a QP that is too deep");
	attr.cap.max_send_wr = DEPTH;
	attr.qp_type = IBV_QPT_UD;
	expect_none(ibv_create_qp(adapter.pd, &attr), "a QP of datagrams");
	if (!ibv_resize_cq(cq, limits.max_cqe + 1))
		fail("a CQ becomes too deep");
	done(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

/* ------------------------------------------------------------- rounds */

static void repeat(void (*use)(void), unsigned int times)
{
	while (times--)
		use();
}

/*
 * The first rounds fill what is kept for later. One block may add to it once more; a
 * leak adds in each.
 */
static void compare(const char *what, void (*use)(void))
{
	struct holdings before, after;
	unsigned int block, grown = 0, larger = 0;

	repeat(use, ROUNDS);
	before = holdings();
	for (block = 0; block < BLOCKS; block++) {
		repeat(use, ROUNDS);
		after = holdings();
		if (after.mappings > before.mappings)
			fail("%s: %u mappings more", what,
			     after.mappings - before.mappings);
		if (after.files > before.files)
			fail("%s: %u files more", what,
			     after.files - before.files);
		grown += after.bytes > before.bytes;
		larger += after.pages > before.pages;
		before = after;
	}
	if (larger == BLOCKS)
		fail("%s: each %u rounds map more memory", what, ROUNDS);
	if (grown == BLOCKS)
		fail("%s: each %u rounds take more memory", what, ROUNDS);
	say("%s: nothing is left", what);
}

static void run(const char *adapter_name)
{
	by_hand_open(&adapter, adapter_name);
	done(ibv_query_device(adapter.context, &limits), "ibv_query_device");
	memory = allocate(MEMORY);
	compare("contexts", use_context);
	compare("domains", use_domains);
	compare("memory regions", use_region);
	compare("what is imported", use_imported);
	compare("memory windows", use_windows);
	compare("CQs", use_cq);
	compare("S-RQs", use_srq);
	compare("QPs", use_qp);
	compare("QPs of an S-RQ", use_qp_of_srq);
	compare("refused domains", have_pd_refused);
	compare("refused regions", have_region_refused);
	compare("refused queues", have_queues_refused);
	compare("refused by the kernel", have_kernel_refuse);
	by_hand_close(&adapter);
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "leaks-self", help, run);
}
