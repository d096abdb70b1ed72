// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: sending and receiving of messages.
 */

#include <linux/slab.h>

#include "endpoint.h"
#include "kverbs.h"
#include "messages.h"

/* --------------------------------------------------------------- sending */

int kverbs_outgoing_init(struct kverbs_outgoing *out,
			 struct kverbs_endpoint *ep)
{
	out->message = kzalloc(sizeof(*out->message), GFP_KERNEL);
	if (!out->message)
		return -ENOMEM;
	out->dma = ib_dma_map_single(ep->pd->device, out->message,
				     sizeof(*out->message), DMA_TO_DEVICE);
	if (!ib_dma_mapping_error(ep->pd->device, out->dma))
		return 0;
	kfree(out->message);
	out->message = NULL;
	return -ENOMEM;
}

void kverbs_outgoing_free(struct kverbs_outgoing *out,
			  struct kverbs_endpoint *ep)
{
	if (!out->message)
		return;
	ib_dma_unmap_single(ep->pd->device, out->dma, sizeof(*out->message),
			    DMA_TO_DEVICE);
	kfree(out->message);
}

void kverbs_outgoing_prepare(struct kverbs_outgoing *out,
			     struct kverbs_endpoint *ep, struct ib_cqe *cqe,
			     bool inlined)
{
	inlined = inlined && ep->max_inline >= sizeof(*out->message);
	out->sge = (struct ib_sge) {
		.addr = inlined ? (uintptr_t)out->message : out->dma,
		.length = sizeof(*out->message),
		.lkey = ep->pd->local_dma_lkey,
	};
	out->wr = (struct ib_send_wr) {
		.wr_cqe = cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &out->sge,
		.num_sge = 1,
	};
	if (inlined)
		out->wr.send_flags |= IB_SEND_INLINE;
	else
		ib_dma_sync_single_for_device(ep->pd->device, out->dma,
					      sizeof(*out->message),
					      DMA_TO_DEVICE);
}

/* ------------------------------------------------------------- receiving */

struct kverbs_receive {
	struct ib_cqe cqe;
	struct kverbs_message *message;
	u64 dma;
};

static void post_receive(struct kverbs_endpoint *ep,
			 struct kverbs_receive *receive)
{
	struct ib_sge sge = {
		.addr = receive->dma,
		.length = sizeof(*receive->message),
		.lkey = ep->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &receive->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	ib_dma_sync_single_for_device(ep->pd->device, receive->dma, sge.length,
				      DMA_FROM_DEVICE);
	kverbs_post_receive(ep, &wr);
}

static void receive_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kverbs_receive *receive =
		container_of(wc->wr_cqe, struct kverbs_receive, cqe);
	struct kverbs_endpoint *ep = cq->cq_context;
	struct kverbs_message message;

	if (!kverbs_completed(ep, wc, "a Receive"))
		return;
	if (wc->byte_len != sizeof(message)) {
		kverbs_fail(ep->test, "a message has %u octets", wc->byte_len);
		return;
	}
	ib_dma_sync_single_for_cpu(ep->pd->device, receive->dma,
				   sizeof(message), DMA_FROM_DEVICE);
	message = *receive->message;
	/* Whoever answers may get the next message at once. */
	post_receive(ep, receive);
	ep->receive(ep, &message, wc);
}

static int init_receive(struct kverbs_endpoint *ep,
			struct kverbs_receive *receive)
{
	receive->cqe.done = receive_done;
	receive->message = kzalloc(sizeof(*receive->message), GFP_KERNEL);
	if (!receive->message)
		return -ENOMEM;
	receive->dma = ib_dma_map_single(ep->pd->device, receive->message,
					 sizeof(*receive->message),
					 DMA_FROM_DEVICE);
	if (!ib_dma_mapping_error(ep->pd->device, receive->dma))
		return 0;
	kfree(receive->message);
	receive->message = NULL;
	return -ENOMEM;
}

int kverbs_receives_init(struct kverbs_endpoint *ep, u32 count)
{
	int ret = 0;
	u32 i;

	ep->receives = kcalloc(count, sizeof(*ep->receives), GFP_KERNEL);
	if (!ep->receives)
		return -ENOMEM;
	ep->num_receives = count;
	for (i = 0; i < count && !ret; i++)
		ret = init_receive(ep, &ep->receives[i]);
	if (ret)
		return ret;
	for (i = 0; i < count; i++)
		post_receive(ep, &ep->receives[i]);
	return 0;
}

void kverbs_receives_free(struct kverbs_endpoint *ep)
{
	struct kverbs_receive *receive;
	u32 i;

	for (i = 0; i < ep->num_receives; i++) {
		receive = &ep->receives[i];
		if (!receive->message)
			continue;
		ib_dma_unmap_single(ep->pd->device, receive->dma,
				    sizeof(*receive->message),
				    DMA_FROM_DEVICE);
		kfree(receive->message);
	}
	kfree(ep->receives);
	ep->receives = NULL;
	ep->num_receives = 0;
}
