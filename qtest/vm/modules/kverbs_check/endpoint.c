// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: one end of a connection, see endpoint.h.
 */

#include "endpoint.h"

#define RESOLVE_MS	10000
#define MAX_READS	16

/* ----------------------------------------------- what rdma_cm has to say */

static void change_state(struct kverbs_endpoint *ep, enum kverbs_state state)
{
	WRITE_ONCE(ep->state, state);
	wake_up_all(&ep->test->wait);
}

/* An error makes rdma_cm destroy the new id, and with it reject the request. */
static int keep_request(struct kverbs_endpoint *listener,
			struct rdma_cm_id *id,
			const struct rdma_conn_param *param)
{
	if (kverbs_raised(&listener->requested))
		return -EBUSY;
	if (param->private_data_len < sizeof(listener->hello))
		return -EINVAL;
	memcpy(&listener->hello, param->private_data, sizeof(listener->hello));
	listener->request = id;
	kverbs_raise(listener->test, &listener->requested);
	return 0;
}

static int handle_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kverbs_endpoint *ep = id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return keep_request(ep, id, &event->param.conn);
	/* That of a request which is not an endpoint yet. */
	if (id != ep->id)
		return 0;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		change_state(ep, KVERBS_ADDRESS_RESOLVED);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		change_state(ep, KVERBS_ROUTE_RESOLVED);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		change_state(ep, KVERBS_ESTABLISHED);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		change_state(ep, KVERBS_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		/* Also a device that goes away: what is in use is freed. */
		kverbs_fail(ep->test, "connection manager: %s, status %d",
			    rdma_event_msg(event->event), event->status);
	}
	return 0;
}

static void handle_qp_event(struct ib_event *event, void *context)
{
	struct kverbs_endpoint *ep = context;

	ep->qp_event = event->event;
	kverbs_raise(ep->test, &ep->had_qp_event);
}

/* ------------------------------------------------------------- addresses */

static int start(struct kverbs_endpoint *ep, struct kverbs_test *test)
{
	memset(ep, 0, sizeof(*ep));
	ep->test = test;
	spin_lock_init(&ep->post_lock);
	ep->id = rdma_create_id(&init_net, handle_cm_event, ep, RDMA_PS_TCP,
				IB_QPT_RC);
	if (!IS_ERR(ep->id))
		return 0;
	ep->id = NULL;
	return -ENOMEM;
}

int kverbs_listen(struct kverbs_endpoint *ep, struct kverbs_test *test,
		  struct sockaddr *address)
{
	int ret = start(ep, test);

	if (!ret)
		ret = rdma_bind_addr(ep->id, address);
	if (!ret)
		ret = rdma_listen(ep->id, 8);
	return ret;
}

int kverbs_resolve(struct kverbs_endpoint *ep, struct kverbs_test *test,
		   struct sockaddr *address)
{
	int ret = start(ep, test);

	if (!ret)
		ret = rdma_resolve_addr(ep->id, NULL, address, RESOLVE_MS);
	if (!ret)
		ret = kverbs_wait(test, READ_ONCE(ep->state) ==
					KVERBS_ADDRESS_RESOLVED);
	if (!ret)
		ret = rdma_resolve_route(ep->id, RESOLVE_MS);
	if (!ret)
		ret = kverbs_wait(test, READ_ONCE(ep->state) ==
					KVERBS_ROUTE_RESOLVED);
	return ret;
}

int kverbs_take_request(struct kverbs_endpoint *listener,
			struct kverbs_endpoint *ep)
{
	int ret;

	memset(ep, 0, sizeof(*ep));
	ep->test = listener->test;
	spin_lock_init(&ep->post_lock);
	ret = kverbs_wait(ep->test, kverbs_raised(&listener->requested));
	if (ret)
		return ret;
	ep->id = listener->request;
	ep->hello = listener->hello;
	rdma_lock_handler(ep->id);
	ep->id->context = ep;
	rdma_unlock_handler(ep->id);
	/* Another may come as soon as this is seen. */
	smp_store_release(&listener->requested, false);
	return 0;
}

/* --------------------------------------------------------------- objects */

static int check_device(struct kverbs_endpoint *ep,
			const struct kverbs_needs *needs)
{
	const struct ib_device_attr *attrs = &ep->id->device->attrs;

	if (!(attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS)) {
		kverbs_fail(ep->test, "the device cannot Fast-Register");
		return -EOPNOTSUPP;
	}
	if (needs->send_sges > attrs->max_send_sge) {
		kverbs_fail(ep->test, "the device has %u SGEs, not %u",
			    attrs->max_send_sge, needs->send_sges);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int create_qp(struct kverbs_endpoint *ep,
		     const struct kverbs_needs *needs)
{
	/* One more of each is what draining needs. */
	struct ib_qp_init_attr attr = {
		.event_handler = handle_qp_event,
		.qp_context = ep,
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.cap = {
			.max_send_wr = needs->sends + 1,
			.max_recv_wr = needs->receives + 1,
			.max_send_sge = needs->send_sges,
			.max_recv_sge = 1,
			.max_inline_data = sizeof(struct kverbs_message),
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret = rdma_create_qp(ep->id, ep->pd, &attr);

	ep->max_inline = attr.cap.max_inline_data;
	return ret;
}

int kverbs_open(struct kverbs_endpoint *ep, const struct kverbs_needs *needs)
{
	struct ib_device *device = ep->id->device;
	int ret = check_device(ep, needs);

	if (ret)
		return ret;
	ep->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(ep->pd)) {
		ret = PTR_ERR(ep->pd);
		ep->pd = NULL;
		return ret;
	}
	ep->cq = ib_alloc_cq(device, ep, needs->sends + needs->receives + 2, 0,
			     ep->test->params.poll);
	if (IS_ERR(ep->cq)) {
		ret = PTR_ERR(ep->cq);
		ep->cq = NULL;
		return ret;
	}
	return create_qp(ep, needs);
}

static void fill_param(const struct kverbs_endpoint *ep,
		       struct rdma_conn_param *param)
{
	const struct ib_device_attr *attrs = &ep->id->device->attrs;

	*param = (struct rdma_conn_param) {
		.responder_resources = min(attrs->max_qp_rd_atom, MAX_READS),
		.initiator_depth = min(attrs->max_qp_init_rd_atom, MAX_READS),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

int kverbs_connect(struct kverbs_endpoint *ep, const struct kverbs_hello *hello)
{
	struct rdma_conn_param param;
	int ret;

	fill_param(ep, &param);
	param.private_data = hello;
	param.private_data_len = sizeof(*hello);
	ret = rdma_connect(ep->id, &param);
	if (ret)
		return ret;
	return kverbs_wait(ep->test,
			   READ_ONCE(ep->state) >= KVERBS_ESTABLISHED);
}

int kverbs_accept(struct kverbs_endpoint *ep)
{
	struct rdma_conn_param param;
	int ret;

	fill_param(ep, &param);
	rdma_lock_handler(ep->id);
	ret = rdma_accept(ep->id, &param);
	rdma_unlock_handler(ep->id);
	if (ret)
		return ret;
	return kverbs_wait(ep->test,
			   READ_ONCE(ep->state) >= KVERBS_ESTABLISHED);
}

/* ------------------------------------------------------------------ work */

void kverbs_post_send(struct kverbs_endpoint *ep, struct ib_send_wr *wr)
{
	unsigned long irq_flags;
	int ret = 0;

	spin_lock_irqsave(&ep->post_lock, irq_flags);
	if (!ep->closing)
		ret = ib_post_send(ep->id->qp, wr, NULL);
	spin_unlock_irqrestore(&ep->post_lock, irq_flags);
	if (ret)
		kverbs_fail(ep->test, "ib_post_send: %d", ret);
}

void kverbs_post_receive(struct kverbs_endpoint *ep, struct ib_recv_wr *wr)
{
	unsigned long irq_flags;
	int ret = 0;

	spin_lock_irqsave(&ep->post_lock, irq_flags);
	if (!ep->closing)
		ret = ib_post_recv(ep->id->qp, wr, NULL);
	spin_unlock_irqrestore(&ep->post_lock, irq_flags);
	if (ret)
		kverbs_fail(ep->test, "ib_post_recv: %d", ret);
}

static bool takes_flushes(struct kverbs_endpoint *ep)
{
	unsigned long irq_flags;
	bool ret;

	spin_lock_irqsave(&ep->post_lock, irq_flags);
	ret = ep->closing || ep->ends;
	spin_unlock_irqrestore(&ep->post_lock, irq_flags);
	return ret;
}

bool kverbs_completed(struct kverbs_endpoint *ep, const struct ib_wc *wc,
		      const char *what)
{
	if (wc->status == IB_WC_SUCCESS)
		return true;
	if (wc->status == IB_WC_WR_FLUSH_ERR && takes_flushes(ep)) {
		kverbs_raise(ep->test, &ep->flushed);
	} else {
		kverbs_fail(ep->test, "%s: %s, vendor error %u", what,
			    ib_wc_status_msg(wc->status), wc->vendor_err);
	}
	return false;
}

void kverbs_unsignaled(struct kverbs_endpoint *ep, const struct ib_wc *wc,
		       const char *what)
{
	if (kverbs_completed(ep, wc, what))
		kverbs_fail(ep->test, "%s: a completion not asked for", what);
}

void kverbs_may_end(struct kverbs_endpoint *ep)
{
	unsigned long irq_flags;

	spin_lock_irqsave(&ep->post_lock, irq_flags);
	ep->ends = true;
	spin_unlock_irqrestore(&ep->post_lock, irq_flags);
}

/* ------------------------------------------------------------------- end */

void kverbs_close(struct kverbs_endpoint *ep)
{
	unsigned long irq_flags;

	if (!ep->id || !ep->id->qp)
		return;
	/* What is posted is ahead of what draining posts. */
	spin_lock_irqsave(&ep->post_lock, irq_flags);
	ep->closing = true;
	spin_unlock_irqrestore(&ep->post_lock, irq_flags);
	rdma_disconnect(ep->id);
	ib_drain_qp(ep->id->qp);
}

void kverbs_free_endpoint(struct kverbs_endpoint *ep)
{
	struct rdma_cm_id *id = ep->id;

	if (id && id->qp)
		rdma_destroy_qp(id);
	if (ep->pd)
		kverbs_receives_free(ep);
	if (ep->cq)
		ib_free_cq(ep->cq);
	if (ep->pd)
		ib_dealloc_pd(ep->pd);
	if (id)
		rdma_destroy_id(id);
	/* No other can come when the listener is gone. */
	if (ep->requested)
		rdma_destroy_id(ep->request);
	memset(ep, 0, sizeof(*ep));
}
