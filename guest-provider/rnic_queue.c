// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue memory and producer indices.
 */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ccan/minmax.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "rnic.h"

#define RNIC_RQ_SGE_ROOM(shift)						\
	(((1u << (shift)) - sizeof(struct rnic_rq_wqe)) /		\
	 sizeof(struct rnic_sge))

/* -------------------------------------------------------- queue memory */

/* From the program's own allocator, which may want us to use ours. */
static int ask_owner(struct rnic_buf *buf, struct rnic_pd *pd,
		     size_t page_size)
{
	void *base = pd->alloc(&pd->pd, pd->pd_context, buf->length, page_size,
			       buf->resource);

	if (base == IBV_ALLOCATOR_USE_DEFAULT)
		return 0;
	if (!base)
		return ENOMEM;
	if ((uintptr_t)base % page_size) {
		pd->free(&pd->pd, pd->pd_context, base, buf->resource);
		return EINVAL;
	}
	memset(base, 0, buf->length);
	buf->base = base;
	buf->of_program = true;
	return 0;
}

static int take_memory(struct rnic_buf *buf, size_t page_size)
{
	int ret;

	if (buf->parent && buf->parent->alloc) {
		ret = ask_owner(buf, buf->parent, page_size);
		if (ret || buf->of_program)
			return ret;
	}
	buf->base = mmap(NULL, buf->length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return buf->base == MAP_FAILED ? errno : 0;
}

static void give_back(struct rnic_buf *buf)
{
	struct rnic_pd *pd = buf->parent;

	if (buf->of_program)
		pd->free(&pd->pd, pd->pd_context, buf->base, buf->resource);
	else
		munmap(buf->base, buf->length);
}

/* The kernel counts what uses a protection domain, and knows no parent domain. */
static void hold_parent(struct rnic_buf *buf, struct ibv_pd *pd)
{
	bool is_parent = pd && to_rpd(pd)->protection_domain;

	buf->parent = is_parent ? to_rpd(pd) : NULL;
	if (buf->parent)
		atomic_fetch_add(&buf->parent->users, 1);
}

static void release_parent(struct rnic_buf *buf)
{
	if (buf->parent)
		atomic_fetch_sub(&buf->parent->users, 1);
}

int rnic_buf_alloc(struct rnic_buf *buf, struct ibv_pd *pd,
		   enum rnic_memory resource, size_t length)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	int ret;

	buf->length = align(length, page_size);
	buf->of_program = false;
	buf->resource = resource;
	hold_parent(buf, pd);
	ret = take_memory(buf, page_size);
	if (ret) {
		release_parent(buf);
		return ret;
	}

	/* A child's copy-on-write must not move the pages the device knows. */
	ret = ibv_dontfork_range(buf->base, buf->length);
	if (ret) {
		ret = ret < 0 ? errno : ret;
		give_back(buf);
		release_parent(buf);
	}
	return ret;
}

void rnic_buf_free(struct rnic_buf *buf)
{
	ibv_dofork_range(buf->base, buf->length);
	give_back(buf);
	release_parent(buf);
}

/* -------------------------------------------------------- work queues */

/* Depth, stride and SGEs of an RQ or S-RQ, at least as asked for. */
int rnic_size_receive_queue(struct rnic_context *ctx, struct rnic_wq *wq,
			    uint32_t max_wr, uint32_t max_sge,
			    uint32_t max_depth)
{
	uint32_t shift = RNIC_RQ_MIN_WQE_SHIFT;

	if (max_sge > ctx->attr.max_recv_sge || max_wr > max_depth)
		return EINVAL;

	while (RNIC_RQ_SGE_ROOM(shift) < max_sge)
		shift++;
	wq->depth = max_wr ? roundup_pow_of_two(max_wr) : 1;
	if (wq->depth > max_depth)
		return EINVAL;

	wq->stride_shift = shift;
	wq->max_sge = min_t(uint32_t, ctx->attr.max_recv_sge,
			    RNIC_RQ_SGE_ROOM(shift));
	return 0;
}

/* Are all entries below new_producer free or posted by now? */
bool rnic_wq_has_room(struct rnic_wq *wq, uint32_t new_producer)
{
	/* Pairs with the release in free_entries(): the entries were read. */
	uint32_t consumer = atomic_load_explicit(&wq->consumer,
						 memory_order_acquire);

	return new_producer - consumer <= wq->depth;
}

bool rnic_wq_copy_posted(struct rnic_wq *wq, struct rnic_wq *next)
{
	/* Once: it is the device's, and a poll may store another meanwhile. */
	uint32_t i = atomic_load_explicit(&wq->consumer, memory_order_acquire);

	if (wq->producer - i > next->depth)
		return false;
	for (; i != wq->producer; i++)
		memcpy(rnic_wq_entry(next, i), rnic_wq_entry(wq, i),
		       (size_t)1 << wq->stride_shift);
	*next->producer_record = htole32(wq->producer);
	return true;
}

void rnic_wq_change_ring(struct rnic_wq *wq, const struct rnic_wq *next)
{
	wq->ring = next->ring;
	wq->depth = next->depth;
	wq->producer_record = next->producer_record;
	wq->event_record = next->event_record;
}

/*
 * Between a store and a load, for the device. Not atomic_thread_fence(): that may
 * become a locked instruction, which QEMU's TCG, with one virtual processor, runs
 * without any order towards the threads of the device.
 */
static void full_barrier(void)
{
#ifdef __x86_64__
	asm volatile("mfence" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * Hands the entries below new_producer to the device. The doorbell is owed
 * unless the device, by the index in its event record, looks for itself.
 */
void rnic_wq_publish(struct rnic_wq *wq, uint32_t new_producer)
{
	uint32_t old = wq->producer;
	uint32_t event;

	if (new_producer == old)
		return;
	wq->producer = new_producer;

	/* The entries before the index that makes them visible. */
	udma_to_device_barrier();
	*(volatile __le32 *)wq->producer_record = htole32(new_producer);

	/*
	 * The index before the look at the event record, as the device does
	 * it the other way round: one of the two sees the other's store.
	 */
	full_barrier();
	event = le32toh(*(const volatile __le32 *)wq->event_record);
	if ((uint32_t)(new_producer - event - 1) <
	    (uint32_t)(new_producer - old))
		mmio_write32_le(wq->doorbell, htole32(wq->number));
}
