// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * intruder: a process that tries everything against another one on the same adapter:
 * its mappings, its QP numbers in doorbells, its handles, its keys; STag zero and
 * Fast-Register, which are the kernel's; at last random octets in its own queues of all
 * kinds, queues in memory that it may only read, and what an S-RQ's failure does. The
 * other one, the victim, moves data all the time and checks it.
 *
 * Of the adapter's interface it knows the layout of queues and doorbells (rnic-hw.h).
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rnic-hw.h>

#include "by-hand.h"
#include "common.h"

#define PAGE		4096
#define OFFSETS		256	/* pages of a file that are tried */
#define SIZE		256
#define DEPTH		8
#define SPARES		40	/* objects, for handles that the intruder has not */
#define DOORBELL_PAGES	8	/* of the adapter: args of the test */
#define FUZZED		60	/* QPs with random octets */
#define SHARED_PAGES	16	/* more than any queue here needs */
#define RIGHTS		(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char help[] =
"usage: intruder [options] ADAPTER\n"
"Two processes: one moves data, the other tries to reach it.\n"
"  -t, --time-limit SEC  for any one wait (default 60)\n"
"Exit status: 0 all right, 1 wrong, 2 usage.\n";

/* What the victim tells of itself. */
static struct shared {
	atomic_uint rounds;
	atomic_bool ready, stop;
	uint32_t qpns[2];
	uint32_t mr_handle, cq_handle, pd_handle;
	uint32_t key;
	uint64_t addr;
} *shared;

static struct by_hand adapter;

static void need(const void *object, const char *what)
{
	if (!object)
		fail("%s: %s", what, strerror(errno));
}

/* ------------------------------------------------------------- transfers */

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, void *at,
		 uint32_t lkey, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)at, SIZE, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to, .rkey = rkey },
	};

	if (ibv_post_send(qp, &wr, &bad))
		fail("ibv_post_send");
}

static enum ibv_wc_status transfer(struct by_hand_pair *pair,
				   enum ibv_wr_opcode opcode, void *at,
				   uint32_t lkey, uint64_t to, uint32_t rkey)
{
	post(pair->qps[0], opcode, at, lkey, to, rkey);
	return by_hand_wait(pair->cqs[0], "transfer").status;
}

/* ---------------------------------------------------------------- victim */

static uint8_t *victims;	/* from, to, back */
static struct ibv_mr *victims_mr;

static void publish(struct by_hand_pair *pair)
{
	struct ibv_cq *cq = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_pd *pd = NULL;
	unsigned int i;

	for (i = 0; i < SPARES; i++) {
		pd = ibv_alloc_pd(adapter.context);
		cq = ibv_create_cq(adapter.context, 1, NULL, NULL, 0);
		mr = ibv_reg_mr(adapter.pd, victims, SIZE, 0);
	}
	need(pd && cq && mr ? mr : NULL, "the victim's objects");
	shared->pd_handle = pd->handle;
	shared->cq_handle = cq->handle;
	shared->mr_handle = mr->handle;
	shared->qpns[0] = pair->qps[0]->qp_num;
	shared->qpns[1] = pair->qps[1]->qp_num;
	shared->key = victims_mr->rkey;
	shared->addr = (uintptr_t)victims;
	atomic_store(&shared->ready, true);
}

static void victim_round(struct by_hand_pair *pair, unsigned int round)
{
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		victims[i] = round + i;
	if (transfer(pair, IBV_WR_RDMA_WRITE, victims, victims_mr->lkey,
		     (uintptr_t)victims + SIZE, victims_mr->rkey) ||
	    transfer(pair, IBV_WR_RDMA_READ, victims + 2 * SIZE,
		     victims_mr->lkey, (uintptr_t)victims + SIZE,
		     victims_mr->rkey))
		fail("round %u of the victim fails", round);
	if (memcmp(victims, victims + SIZE, SIZE) ||
	    memcmp(victims, victims + 2 * SIZE, SIZE))
		fail("round %u of the victim: other octets", round);
	for (i = 0; i < SIZE; i++)
		if (victims[i] != (uint8_t)(round + i))
			fail("octet %u of the victim has changed", i);
}

/* Its objects go with the process. */
static void be_victim(const char *name)
{
	struct by_hand_pair pair;
	unsigned int round;

	program = "victim";
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	by_hand_open(&adapter, name);
	victims = allocate(3 * SIZE);
	victims_mr = ibv_reg_mr(adapter.pd, victims, 3 * SIZE,
				IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	need(victims_mr, "ibv_reg_mr");
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	publish(&pair);
	for (round = 0; !atomic_load(&shared->stop); round++) {
		victim_round(&pair, round);
		atomic_store(&shared->rounds, round + 1);
	}
	_exit(0);
}

/* It goes on after what has been done. */
static void expect_unharmed(const char *what)
{
	unsigned int rounds = atomic_load(&shared->rounds);
	double end = now() + time_limit;

	while (atomic_load(&shared->rounds) < rounds + 3)
		if (now() > end || poll(NULL, 0, 1))
			fail("the victim stands still: %s", what);
	say("%s: ok", what);
}

/* --------------------------------------------------------------- mappings */

static volatile uint32_t *doorbells;

static bool may_map(uint64_t offset, size_t length, int protection)
{
	void *page = mmap(NULL, length, protection, MAP_SHARED,
			  adapter.context->cmd_fd, offset);

	if (page == MAP_FAILED)
		return false;
	munmap(page, length);
	return true;
}

/* What the library has mapped of the adapter: a page to write to, and one to read. */
static void find_doorbells(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long from, to, offset;
	unsigned int found = 0;
	char rights[5], line[300];

	need(maps, "/proc/self/maps");
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "uverbs") ||
		    sscanf(line, "%llx-%llx %4s %llx", &from, &to, rights,
			   &offset) != 4)
			continue;
		found++;
		if (to - from != PAGE)
			fail("a mapping of %llu octets", to - from);
		if (rights[1] == 'w')
			doorbells = (uint32_t *)(uintptr_t)from;
		else if (may_map(offset, PAGE, PROT_READ | PROT_WRITE))
			fail("the page to read can be written to");
		if (may_map(offset, 2 * PAGE, PROT_READ))
			fail("more than a page can be mapped");
	}
	fclose(maps);
	if (!doorbells || found != 2)
		fail("%u mappings of the adapter", found);
}

/* Of all offsets two give something, which are our own. */
static void try_mappings(void)
{
	unsigned int found = 0, i;

	find_doorbells();
	for (i = 0; i < OFFSETS; i++)
		found += may_map((uint64_t)i * PAGE, PAGE, PROT_READ);
	if (found != 2)
		fail("%u pages can be mapped", found);
	if (may_map(1ull << 40, PAGE, PROT_READ))
		fail("a page that is far away can be mapped");
	expect_unharmed("mappings");
}

/* -------------------------------------------------------------- doorbells */

static unsigned long long bad_doorbells(void)
{
	unsigned long long value;
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/1/hw_counters/bad_doorbells",
		 ibv_get_device_name(adapter.context->device));
	/* The kernel asks the device anew after 10 ms. */
	poll(NULL, 0, 50);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &value) != 1)
		fail("%s: %s", path, strerror(errno));
	fclose(file);
	return value;
}

static void ring(unsigned int doorbell, uint32_t number)
{
	doorbells[doorbell / 4] = number;
}

/* Those of the victim's QPs, and all that a QP, CQ or S-RQ may have as its number. */
static void try_doorbells(void)
{
	unsigned long long before = bad_doorbells(), after;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ring(RNIC_DB_SQ, shared->qpns[i]);
		ring(RNIC_DB_RQ, shared->qpns[i]);
	}
	after = bad_doorbells();
	if (after != before + 4)
		fail("of 4 doorbells of others %llu are bad", after - before);
	for (i = 0; i < 300; i++) {
		ring(RNIC_DB_SQ, i);
		ring(RNIC_DB_RQ, i);
		ring(RNIC_DB_SRQ, i);
		ring(RNIC_DB_CQ_ARM, i | RNIC_ARM_NEXT);
		ring(RNIC_DB_SQ, random());
		ring(RNIC_DB_CQ_ARM, random());
	}
	for (i = 0; i < PAGE / 4; i++)
		doorbells[i] = 0xffffffff;
	if (bad_doorbells() == after)
		fail("random doorbells are good");
	expect_unharmed("doorbells");
}

/* Each process has a page of doorbells of its own; the kernel's is given to none. */
static void try_pages(void)
{
	struct ibv_context *contexts[DOORBELL_PAGES];
	unsigned int count;

	for (count = 0; count < DOORBELL_PAGES; count++) {
		contexts[count] = ibv_open_device(adapter.context->device);
		if (!contexts[count])
			break;
	}
	if (count != DOORBELL_PAGES - 3)
		fail("of %u pages %u are left beside the kernel's and two",
		     DOORBELL_PAGES, count);
	while (count)
		if (ibv_close_device(contexts[--count]))
			fail("ibv_close_device: %s", strerror(errno));
	expect_unharmed("pages of doorbells");
}

/* ---------------------------------------------------------------- handles */

static struct ibv_qp *make_qp_on(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};

	return ibv_create_qp(pd, &attr);
}

/* Objects of ours for a moment named as the victim's are. */
static void try_handles(void)
{
	struct ibv_cq *cq = ibv_create_cq(adapter.context, 4, NULL, NULL, 0);
	uint32_t own_cq, own_pd = adapter.pd->handle;
	uint8_t *memory = allocate(PAGE);

	need(cq, "ibv_create_cq");
	own_cq = cq->handle;
	if (ibv_import_mr(adapter.pd, shared->mr_handle))
		fail("the victim's region is imported");
	cq->handle = shared->cq_handle;
	if (make_qp_on(adapter.pd, cq))
		fail("a QP on the victim's CQ");
	cq->handle = own_cq;
	adapter.pd->handle = shared->pd_handle;
	if (make_qp_on(adapter.pd, cq) ||
	    ibv_reg_mr(adapter.pd, memory, PAGE, 0) ||
	    ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2))
		fail("an object on the victim's PD");
	adapter.pd->handle = own_pd;
	if (ibv_destroy_cq(cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
	free(memory);
	expect_unharmed("handles");
}

/* ------------------------------------------------------------------- keys */

static void expect_refused(struct by_hand_pair *pair, enum ibv_wc_status status,
			   enum ibv_wc_status due, const char *what)
{
	if (status != due)
		fail("%s: %s, not %s", what, ibv_wc_status_str(status),
		     ibv_wc_status_str(due));
	by_hand_free(pair);
	by_hand_connect(&adapter, pair, adapter.pd, RIGHTS, DEPTH);
}

static void try_receive_into(struct by_hand_pair *pair, uint64_t to,
			     uint32_t lkey, struct ibv_mr *mr, const char *what)
{
	struct ibv_sge sge = { to, SIZE, lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(pair->qps[1], &wr, &bad))
		fail("ibv_post_recv");
	post(pair->qps[0], IBV_WR_SEND, mr->addr, mr->lkey, 0, 0);
	expect_refused(pair, by_hand_wait(pair->cqs[1], what).status,
		       IBV_WC_LOC_PROT_ERR, what);
}

/* The victim's keys, and STag zero, with which the kernel reaches all memory. */
static void try_keys(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	};
	uint8_t *memory = allocate(PAGE);
	struct ibv_mr *mr = ibv_reg_mr(adapter.pd, memory, PAGE,
				       IBV_ACCESS_LOCAL_WRITE | RIGHTS);
	uint64_t to = (uintptr_t)memory + SIZE;
	struct by_hand_pair pair;
	unsigned int i;

	need(mr, "ibv_reg_mr");
	by_hand_connect(&adapter, &pair, adapter.pd, RIGHTS, DEPTH);
	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		expect_refused(&pair,
			       transfer(&pair, opcodes[i],
					(void *)(uintptr_t)shared->addr,
					shared->key, to, mr->rkey),
			       IBV_WC_LOC_PROT_ERR, "the victim's lkey");
		expect_refused(&pair,
			       transfer(&pair, opcodes[i], (void *)0x100000,
					0, to, mr->rkey),
			       IBV_WC_LOC_PROT_ERR, "lkey zero");
	}
	expect_refused(&pair, transfer(&pair, IBV_WR_RDMA_WRITE, memory,
				       mr->lkey, shared->addr, shared->key),
		       IBV_WC_REM_ACCESS_ERR, "the victim's rkey");
	expect_refused(&pair, transfer(&pair, IBV_WR_RDMA_READ, memory,
				       mr->lkey, shared->addr, shared->key),
		       IBV_WC_REM_ACCESS_ERR, "the victim's rkey");
	try_receive_into(&pair, shared->addr, shared->key, mr, "the victim's lkey");
	try_receive_into(&pair, 0x100000, 0, mr, "lkey zero");
	by_hand_free(&pair);
	for (i = 0; i < PAGE; i++)
		if (memory[i])
			fail("octet %u is 0x%02x", i, memory[i]);
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr: %s", strerror(errno));
	free(memory);
	expect_unharmed("keys");
}

/* ------------------------------------------------------------ own queues */

static uint8_t *queue;		/* the memory of the last queue made */
static size_t queue_size;

static void *give(struct ibv_pd *pd, void *context, size_t size,
		  size_t alignment, uint64_t type)
{
	(void)pd;
	(void)context;
	(void)type;
	if (posix_memalign((void **)&queue, alignment, size))
		fail("posix_memalign");
	queue_size = size;
	return queue;
}

static void take_back(struct ibv_pd *pd, void *context, void *memory,
		      uint64_t type)
{
	(void)pd;
	(void)context;
	(void)type;
	free(memory);
}

static struct ibv_pd *make_parent_with(typeof(give) *alloc,
				       typeof(take_back) *release)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = adapter.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = alloc,
		.free = release,
	};
	struct ibv_pd *parent = ibv_alloc_parent_domain(adapter.context, &attr);

	need(parent, "ibv_alloc_parent_domain");
	return parent;
}

static struct ibv_pd *make_parent(void)
{
	return make_parent_with(give, take_back);
}

/* A Fast-Register as the kernel has it, of a page of nobody, by hand. */
static void write_fast_register(uint32_t stag)
{
	struct rnic_qp_record *record = (void *)queue;
	struct rnic_sq_wqe wqe = {
		.opcode = RNIC_SQ_FAST_REGISTER,
		.flags = RNIC_WQE_SIGNALED,
		.units = 2,
		.wr_id = 99,
	};
	struct rnic_fast_register_wqe body = {
		.stag = stag + 1,
		.length = PAGE,
		.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_REMOTE_READ |
			  RNIC_ACCESS_ZERO_BASED,
		.pages = {
			.addr = 0x100000, .count = 1, .page_shift = 12,
			.level = RNIC_PAGE_LIST_DIRECT,
		},
	};
	uint8_t *sq = queue + RNIC_QUEUE_RECORD_SIZE;

	memcpy(sq, &wqe, sizeof(wqe));
	memcpy(sq + sizeof(wqe), &body, sizeof(body));
	atomic_thread_fence(memory_order_seq_cst);
	*(volatile uint32_t *)&record->sq_producer = wqe.units;
	atomic_thread_fence(memory_order_seq_cst);
}

static void try_fast_register(void)
{
	struct ibv_pd *parent = make_parent();
	struct ibv_mw *mw = ibv_alloc_mw(adapter.pd, IBV_MW_TYPE_2);
	struct by_hand_pair pair;
	struct ibv_wc wc;
	unsigned int i;

	need(mw, "ibv_alloc_mw");
	for (i = 2; i-- > 0; ) {
		pair.cqs[i] = ibv_create_cq(adapter.context, 2 * DEPTH, NULL,
					    NULL, 0);
		need(pair.cqs[i], "ibv_create_cq");
		pair.qps[i] = make_qp_on(parent, pair.cqs[i]);
		need(pair.qps[i], "ibv_create_qp");
	}
	by_hand_join(&adapter, &pair, RIGHTS);
	/* A doorbell says nothing where nothing was posted. */
	ring(RNIC_DB_SQ, pair.qps[0]->qp_num);
	poll(NULL, 0, 100);
	if (ibv_poll_cq(pair.cqs[0], 1, &wc) ||
	    by_hand_state(pair.qps[0]) != IBV_QPS_RTS)
		fail("a doorbell for nothing does something");
	write_fast_register(mw->rkey);
	ring(RNIC_DB_SQ, pair.qps[0]->qp_num);
	wc = by_hand_wait(pair.cqs[0], "Fast-Register");
	if (wc.status != IBV_WC_LOC_QP_OP_ERR || wc.wr_id != 99 ||
	    wc.vendor_err != RNIC_WC_NOT_PRIVILEGED)
		fail("Fast-Register of a process: %s, %u",
		     ibv_wc_status_str(wc.status), wc.vendor_err);
	by_hand_free(&pair);
	if (ibv_dealloc_mw(mw) || ibv_dealloc_pd(parent))
		fail("clean-up: %s", strerror(errno));
	expect_unharmed("Fast-Register");
}

struct memory_of_queue {
	uint8_t *at;
	size_t size;
};

static struct memory_of_queue last_queue(void)
{
	return (struct memory_of_queue) { queue, queue_size };
}

static void scribble(struct memory_of_queue memory)
{
	size_t i;

	for (i = 0; i < memory.size; i++)
		if (random() % 4)
			memory.at[i] = random();
}

/* Whatever is in a queue, its QP may go to Error; that is all. */
static void try_random_queues(void)
{
	struct ibv_pd *parent = make_parent();
	struct by_hand_pair pair;
	unsigned int i, k;

	for (i = 0; i < FUZZED; i++) {
		for (k = 2; k-- > 0; ) {
			pair.cqs[k] = ibv_create_cq(adapter.context, DEPTH,
						    NULL, NULL, 0);
			need(pair.cqs[k], "ibv_create_cq");
			pair.qps[k] = make_qp_on(parent, pair.cqs[k]);
			need(pair.qps[k], "ibv_create_qp");
		}
		by_hand_join(&adapter, &pair, RIGHTS);
		for (k = 0; k < 5; k++) {
			scribble(last_queue());
			ring(RNIC_DB_SQ, pair.qps[0]->qp_num);
			ring(RNIC_DB_RQ, pair.qps[0]->qp_num);
			poll(NULL, 0, 2);
		}
		by_hand_free(&pair);
	}
	if (ibv_dealloc_pd(parent))
		fail("ibv_dealloc_pd: %s", strerror(errno));
	expect_unharmed("random octets in queues");
}

/* -------------------------------------------------- CQs and S-RQs of one's own */

/* A Send or Write that needs no memory. */
static void post_nothing(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
	};

	if (ibv_post_send(qp, &wr, &bad))
		fail("ibv_post_send");
}

static void send_nothing(struct ibv_qp *qp)
{
	post_nothing(qp, IBV_WR_SEND);
}

static void write_nothing(struct ibv_qp *qp)
{
	post_nothing(qp, IBV_WR_RDMA_WRITE);
}

static struct ibv_cq *make_cq_on(struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4 * DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(adapter.context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_srq *make_srq_on(struct ibv_pd *parent)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};

	return ibv_create_srq(parent, &attr);
}

static struct ibv_qp *make_srq_qp(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(adapter.pd, &attr);

	need(qp, "ibv_create_qp");
	return qp;
}

/* What is posted to it, by hand, is an S-RQ full of receives of no octets. */
static void fill_srq(struct memory_of_queue memory, const struct ibv_srq *srq)
{
	struct rnic_srq_record *record = (void *)memory.at;
	uint32_t number;

	if (ibv_get_srq_num((struct ibv_srq *)srq, &number))
		fail("ibv_get_srq_num");
	*(volatile uint32_t *)&record->producer = DEPTH;
	atomic_thread_fence(memory_order_seq_cst);
	ring(RNIC_DB_SRQ, number);
}

/* Good work of good QPs, whose completions and receives go through memory that has
 * random octets before, meanwhile and afterwards. */
static void try_spoilt_queues(void)
{
	struct memory_of_queue spoilt[3];
	struct ibv_pd *parent = make_parent();
	struct by_hand_pair pair;
	struct ibv_srq *srq;
	unsigned int i, k;

	for (i = 0; i < FUZZED; i++) {
		srq = make_srq_on(parent);
		need(srq, "ibv_create_srq");
		spoilt[2] = last_queue();
		fill_srq(spoilt[2], srq);
		for (k = 0; k < 2; k++) {
			pair.cqs[k] = make_cq_on(parent);
			need(pair.cqs[k], "ibv_create_cq_ex");
			spoilt[k] = last_queue();
			pair.qps[k] = make_srq_qp(pair.cqs[k], srq);
		}
		by_hand_join(&adapter, &pair, RIGHTS);
		for (k = 0; k < DEPTH; k++) {
			if (k)
				scribble(spoilt[(i + k) % 3]);
			send_nothing(pair.qps[k % 2]);
			ibv_req_notify_cq(pair.cqs[k % 2], 0);
			poll(NULL, 0, 2);
		}
		by_hand_free(&pair);
		if (ibv_destroy_srq(srq))
			fail("ibv_destroy_srq: %s", strerror(errno));
	}
	if (ibv_dealloc_pd(parent))
		fail("ibv_dealloc_pd: %s", strerror(errno));
	expect_unharmed("random octets in CQs and S-RQs");
}

/* ------------------------------------------- queues in read-only memory */

static uint8_t *shared_pages;	/* as of a file that others map too */
static bool read_only;		/* are they, when the kernel gets them? */
static bool to_be_protected;	/* by the next ioctl() */

static void protect(int protection)
{
	if (mprotect(shared_pages, SHARED_PAGES * PAGE, protection))
		fail("mprotect: %s", strerror(errno));
}

static uint8_t octet_at(size_t i)
{
	return i * 7 + 1;
}

static void fill_and_protect(void)
{
	size_t i;

	for (i = 0; i < SHARED_PAGES * PAGE; i++)
		shared_pages[i] = octet_at(i);
	protect(PROT_READ);
}

/*
 * In place of the C library's. The provider clears a queue's memory and then asks the
 * kernel for the queue: the memory must be writable until this call.
 */
int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (to_be_protected)
		fill_and_protect();
	to_be_protected = false;
	return syscall(SYS_ioctl, fd, request, argument);
}

static void *give_shared(struct ibv_pd *pd, void *context, size_t size,
			 size_t alignment, uint64_t type)
{
	(void)pd;
	(void)context;
	(void)type;
	if (size > SHARED_PAGES * PAGE || alignment > PAGE)
		fail("a queue of %zu octets", size);
	to_be_protected = read_only;
	return shared_pages;
}

static void keep_shared(struct ibv_pd *pd, void *context, void *memory,
			uint64_t type)
{
	(void)pd;
	(void)context;
	(void)memory;
	(void)type;
}

static void expect_no_queue(const void *object, const char *what)
{
	size_t i;

	if (to_be_protected)
		fail("%s: the library does not call ioctl()", what);
	if (object || errno != EFAULT)
		fail("%s in read-only memory: %s", what,
		     object ? "there it is" : strerror(errno));
	for (i = 0; i < SHARED_PAGES * PAGE; i++)
		if (shared_pages[i] != octet_at(i))
			fail("%s: octet %zu of read-only memory is 0x%02x",
			     what, i, shared_pages[i]);
	protect(PROT_READ | PROT_WRITE);
}

/* They are in the same memory, so there is one at a time. */
static void expect_queues(struct ibv_pd *parent, struct ibv_cq *other)
{
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	cq = make_cq_on(parent);
	need(cq, "a CQ in writable memory");
	if (ibv_destroy_cq(cq))
		fail("ibv_destroy_cq: %s", strerror(errno));
	srq = make_srq_on(parent);
	need(srq, "an S-RQ in writable memory");
	if (ibv_destroy_srq(srq))
		fail("ibv_destroy_srq: %s", strerror(errno));
	qp = make_qp_on(parent, other);
	need(qp, "a QP in writable memory");
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp: %s", strerror(errno));
}

/* The device writes to the memory of queues: a process must be allowed to as well. */
static void try_read_only_queues(void)
{
	struct ibv_pd *parent = make_parent_with(give_shared, keep_shared);
	struct ibv_cq *cq = ibv_create_cq(adapter.context, 4, NULL, NULL, 0);

	need(cq, "ibv_create_cq");
	shared_pages = mmap(NULL, SHARED_PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_pages == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	read_only = true;
	expect_no_queue(make_cq_on(parent), "a CQ");
	expect_no_queue(make_srq_on(parent), "an S-RQ");
	expect_no_queue(make_qp_on(parent, cq), "a QP");
	read_only = false;
	expect_queues(parent, cq);
	if (ibv_destroy_cq(cq) || ibv_dealloc_pd(parent) ||
	    munmap(shared_pages, SHARED_PAGES * PAGE))
		fail("clean-up: %s", strerror(errno));
	expect_unharmed("queues in read-only memory");
}

/* ------------------------------------------------------ the end of an S-RQ */

/* Until both have come: of the S-RQ, if it is due, and of the QP that wanted a WQE. */
static void expect_end(const struct ibv_srq *srq, bool srq_due,
		       const struct ibv_qp *qp)
{
	struct pollfd fd = { .fd = adapter.context->async_fd, .events = POLLIN };
	bool qp_due = true;
	struct ibv_async_event event;

	while (srq_due || qp_due) {
		if (poll(&fd, 1, time_limit * 1000) <= 0)
			fail("no event of a dead %s", srq_due ? "S-RQ" : "QP");
		if (ibv_get_async_event(adapter.context, &event))
			fail("ibv_get_async_event: %s", strerror(errno));
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_SRQ_ERR) {
			if (!srq_due || event.element.srq != srq)
				fail("IBV_EVENT_SRQ_ERR of another one, or twice");
			srq_due = false;
		} else if (event.event_type == IBV_EVENT_QP_FATAL &&
			   event.element.qp == qp) {
			qp_due = false;
		}
	}
}

static void expect_no_more(const struct ibv_srq *srq)
{
	struct pollfd fd = { .fd = adapter.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 300) > 0) {
		if (ibv_get_async_event(adapter.context, &event))
			fail("ibv_get_async_event: %s", strerror(errno));
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_SRQ_ERR &&
		    event.element.srq == srq)
			fail("a second IBV_EVENT_SRQ_ERR");
	}
}

/* Both ends of the line may still send. */
static void expect_line(struct by_hand_pair *line)
{
	unsigned int k;

	for (k = 0; k < 2; k++) {
		struct ibv_wc wc;

		write_nothing(line->qps[k]);
		wc = by_hand_wait(line->cqs[k], "a Write of no octets");
		check_completion(&wc, "a Write of no octets");
		if (by_hand_state(line->qps[k]) != IBV_QPS_RTS)
			fail("a QP that wants nothing of a dead S-RQ is not in RTS");
	}
}

/* The answering end wants a WQE of the S-RQ that has failed: what it has is flushed. */
static void expect_dead_line(struct by_hand_pair *line, const struct ibv_srq *srq,
			     bool first)
{
	struct ibv_qp *qp = line->qps[1];
	struct ibv_wc wc;

	send_nothing(line->qps[0]);
	expect_end(srq, first, qp);
	by_hand_await_error(qp);
	write_nothing(qp);
	wc = by_hand_wait(line->cqs[1], "posted to a dead QP");
	if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.qp_num != qp->qp_num)
		fail("posted to a dead QP: %s", ibv_wc_status_str(wc.status));
}

/* Its index is nonsense: that is its end, said once, and that of each QP which then
 * wants a receive of it, when it does. */
static void try_dead_srq(void)
{
	struct ibv_pd *parent = make_parent();
	struct ibv_srq *srq = make_srq_on(parent);
	struct rnic_srq_record *record = (void *)queue;
	struct by_hand_pair lines[2];
	unsigned int i, k;

	need(srq, "ibv_create_srq");
	for (i = 0; i < 2; i++) {
		for (k = 0; k < 2; k++) {
			lines[i].cqs[k] = ibv_create_cq(adapter.context,
							4 * DEPTH, NULL, NULL, 0);
			need(lines[i].cqs[k], "ibv_create_cq");
			lines[i].qps[k] = make_srq_qp(lines[i].cqs[k], srq);
		}
		by_hand_join(&adapter, &lines[i], RIGHTS);
	}
	*(volatile uint32_t *)&record->producer = 0x80000000;
	atomic_thread_fence(memory_order_seq_cst);
	for (i = 0; i < 2; i++)
		expect_line(&lines[i]);
	expect_dead_line(&lines[0], srq, true);
	expect_line(&lines[1]);
	expect_dead_line(&lines[1], srq, false);
	expect_no_more(srq);
	for (i = 0; i < 2; i++)
		by_hand_free(&lines[i]);
	if (ibv_destroy_srq(srq) || ibv_dealloc_pd(parent))
		fail("clean-up: %s", strerror(errno));
	expect_unharmed("an S-RQ that fails");
}

/* --------------------------------------------------------------------- */

static void end_victim(pid_t pid)
{
	int status;

	atomic_store(&shared->stop, true);
	if (waitpid(pid, &status, 0) != pid || status)
		fail("the victim ends with status 0x%x", status);
}

static void run(const char *name)
{
	double end = now() + time_limit;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid)
		be_victim(name);
	while (!atomic_load(&shared->ready))
		if (now() > end || poll(NULL, 0, 10))
			fail("the victim is not ready");
	by_hand_open(&adapter, name);
	try_mappings();
	try_doorbells();
	try_pages();
	try_handles();
	try_keys();
	try_fast_register();
	try_random_queues();
	try_spoilt_queues();
	try_read_only_queues();
	try_dead_srq();
	by_hand_close(&adapter);
	end_victim(pid);
	say("%u rounds of the victim: ok", atomic_load(&shared->rounds));
}

int main(int argc, char **argv)
{
	return by_hand_main(argc, argv, "intruder", help, run);
}
