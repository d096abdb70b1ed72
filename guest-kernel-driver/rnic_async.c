// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: asynchronous events, in Linux's words.
 */

#include "rnic.h"
#include "rnic_async.h"
#include "rnic_health.h"
#include "rnic_netdev.h"
#include "rnic_verbs.h"

/*
 * What becomes of a QP's event. Zero is none: LLP_CLOSE_COMPLETE is the clean
 * end of a connection, which iw_cm reports, and Linux has no name for
 * QP_RQ_LIMIT.
 */
#define RNIC_NO_EVENT	0

/* IB_EVENT_CQ_ERR is zero, but never a QP's event. */
static const u8 rnic_qp_events[] = {
	[RNIC_AE_LLP_CLOSE_COMPLETE] = RNIC_NO_EVENT,
	[RNIC_AE_TERMINATE_RECEIVED] = IB_EVENT_QP_FATAL,
	[RNIC_AE_LLP_RESET] = IB_EVENT_QP_FATAL,
	[RNIC_AE_LLP_LOST] = IB_EVENT_QP_FATAL,
	[RNIC_AE_LLP_SEGMENT_SIZE] = IB_EVENT_QP_FATAL,
	[RNIC_AE_LLP_CRC] = IB_EVENT_QP_FATAL,
	[RNIC_AE_LLP_BAD_FPDU] = IB_EVENT_QP_FATAL,
	[RNIC_AE_DDP_VERSION] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_RDMAP_VERSION] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_UNEXPECTED_OPCODE] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_INVALID_QUEUE_NUMBER] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_READ_NOT_ENABLED] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_WRITE_NOT_ENABLED] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_BAD_READ_REQUEST] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_NO_LAST_BIT] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_TAGGED_INVALID_STAG] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_TAGGED_BASE_BOUNDS] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_TAGGED_ACCESS] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_TAGGED_INVALID_PD] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_TAGGED_WRAP] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_BAD_CLOSE] = IB_EVENT_QP_FATAL,
	[RNIC_AE_BAD_LLP_CLOSE] = IB_EVENT_QP_FATAL,
	[RNIC_AE_RQ_MSN_RANGE] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_RQ_MSN_GAP] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_IRRQ_TOO_MANY] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_IRRQ_MSN_GAP] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_IRRQ_MSN_RANGE] = IB_EVENT_QP_REQ_ERR,
	[RNIC_AE_IRRQ_INVALID_STAG] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_IRRQ_BASE_BOUNDS] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_IRRQ_ACCESS] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_IRRQ_INVALID_PD] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_IRRQ_WRAP] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_CQ_SQ_ERROR] = IB_EVENT_QP_FATAL,
	[RNIC_AE_CQ_RQ_ERROR] = IB_EVENT_QP_FATAL,
	[RNIC_AE_SRQ_QP_ERROR] = IB_EVENT_QP_FATAL,
	[RNIC_AE_QP_CATASTROPHIC] = IB_EVENT_QP_FATAL,
	[RNIC_AE_QP_LAST_WQE] = IB_EVENT_QP_LAST_WQE_REACHED,
	[RNIC_AE_ATOMIC_NOT_ENABLED] = IB_EVENT_QP_ACCESS_ERR,
	[RNIC_AE_ATOMIC_ALIGNMENT] = IB_EVENT_QP_REQ_ERR,
};

static_assert(IB_EVENT_CQ_ERR == RNIC_NO_EVENT);

static void rnic_qp_event(struct rnic_qp *qp, u16 number)
{
	struct ib_event event = { .device = qp->ibqp.device };

	/* Most of them are an end; the others cost a question to the device. */
	WRITE_ONCE(qp->end_seen, true);
	if (number < ARRAY_SIZE(rnic_qp_events) &&
	    rnic_qp_events[number] != RNIC_NO_EVENT) {
		event.event = rnic_qp_events[number];
		event.element.qp = &qp->ibqp;
		if (qp->ibqp.event_handler)
			qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
	rnic_ref_put(&qp->ref);
}

static void rnic_cq_event(struct rnic_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	WRITE_ONCE(cq->has_failed, true);
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	rnic_ref_put(&cq->ref);
}

static void rnic_srq_event(struct rnic_srq *srq, u16 number)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = number == RNIC_AE_SRQ_LIMIT ?
			 IB_EVENT_SRQ_LIMIT_REACHED : IB_EVENT_SRQ_ERR,
		.element.srq = &srq->ibsrq,
	};

	if ((number == RNIC_AE_SRQ_LIMIT ||
	     number == RNIC_AE_SRQ_CATASTROPHIC) && srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	rnic_ref_put(&srq->ref);
}

static void rnic_device_event(struct rnic_dev *dev, u16 number)
{
	if (number == RNIC_AE_LINK_CHANGE)
		rnic_netdev_link_changed(dev);
	else if (number == RNIC_AE_RNIC_CATASTROPHIC)
		rnic_fail(dev, "it reports a catastrophic failure");
}

/* What the event is about, with a reference; NULL: nothing, or it is gone. */
static void *rnic_async_find(struct rnic_dev *dev,
			     const struct rnic_aeqe *event)
{
	u32 number = le32_to_cpu(event->number);

	switch (event->resource) {
	case RNIC_RESOURCE_QP:
		return rnic_qp_get(dev, number);
	case RNIC_RESOURCE_CQ:
		return rnic_cq_get(dev, number);
	case RNIC_RESOURCE_SRQ:
		return rnic_srq_get(dev, number);
	default:
		return NULL;
	}
}

static void rnic_async_deliver(const struct rnic_aeqe *event, void *object)
{
	u16 number = le16_to_cpu(event->event);

	switch (event->resource) {
	case RNIC_RESOURCE_QP:
		rnic_qp_event(object, number);
		break;
	case RNIC_RESOURCE_CQ:
		rnic_cq_event(object);
		break;
	case RNIC_RESOURCE_SRQ:
		rnic_srq_event(object, number);
		break;
	}
}

bool rnic_async_event(struct rnic_dev *dev)
{
	struct rnic_eq *eq = &dev->async_eq;
	unsigned long irq_flags;
	struct rnic_aeqe event;
	void *object = NULL;
	bool taken;

	/* What the number names is found out before it can name another object. */
	spin_lock_irqsave(&eq->lock, irq_flags);
	taken = rnic_eq_take(eq, &event);
	if (taken)
		object = rnic_async_find(dev, &event);
	spin_unlock_irqrestore(&eq->lock, irq_flags);
	if (!taken)
		return false;

	ibdev_dbg(&dev->ibdev,
		  "event %u, resource %u number %#x, terminate %#x\n",
		  le16_to_cpu(event.event), event.resource,
		  le32_to_cpu(event.number), le16_to_cpu(event.terminate));
	if (object)
		rnic_async_deliver(&event, object);
	else if (event.resource == RNIC_RESOURCE_EQ)
		ibdev_err_ratelimited(&dev->ibdev,
				      "event queue %u has lost events\n",
				      le32_to_cpu(event.number));
	else if (event.resource == RNIC_RESOURCE_NONE)
		rnic_device_event(dev, le16_to_cpu(event.event));
	return true;
}

void rnic_async_store(struct rnic_dev *dev, struct xarray *objects, u8 resource,
		      u32 number, void *object)
{
	struct rnic_eq *eq = &dev->async_eq;
	struct rnic_aeqe *event;
	unsigned long irq_flags;
	u32 behind;

	spin_lock_irqsave(&eq->lock, irq_flags);
	for (behind = 0; (event = rnic_eq_peek(eq, behind)); behind++) {
		if (event->resource == resource &&
		    le32_to_cpu(event->number) == number) {
			event->resource = RNIC_RESOURCE_NONE;
			event->event = 0;
		}
	}
	xa_store(objects, number, object, 0);
	spin_unlock_irqrestore(&eq->lock, irq_flags);
}

void rnic_dispatch_event(struct rnic_dev *dev, int ib_event)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = ib_event,
		.element.port_num = 1,
	};

	/* The core takes no events for a device it is about to forget. */
	if (!ib_device_try_get(&dev->ibdev))
		return;
	ib_dispatch_event(&event);
	ib_device_put(&dev->ibdev);
}
