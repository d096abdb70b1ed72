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

static void rnic_qp_event(struct rnic_dev *dev, u16 number, u32 qpn)
{
	struct ib_event event = { .device = &dev->ibdev };
	struct rnic_qp *qp;

	if (number >= ARRAY_SIZE(rnic_qp_events) ||
	    rnic_qp_events[number] == RNIC_NO_EVENT)
		return;
	qp = rnic_qp_get(dev, qpn);
	if (!qp)
		return;
	event.event = rnic_qp_events[number];
	event.element.qp = &qp->ibqp;
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	rnic_ref_put(&qp->ref);
}

static void rnic_cq_event(struct rnic_dev *dev, u32 cqn)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_CQ_ERR,
	};
	struct rnic_cq *cq = rnic_cq_get(dev, cqn);

	if (!cq)
		return;
	event.element.cq = &cq->ibcq;
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	rnic_ref_put(&cq->ref);
}

static void rnic_srq_event(struct rnic_dev *dev, u16 number, u32 srqn)
{
	struct ib_event event = { .device = &dev->ibdev };
	struct rnic_srq *srq;

	switch (number) {
	case RNIC_AE_SRQ_LIMIT:
		event.event = IB_EVENT_SRQ_LIMIT_REACHED;
		break;
	case RNIC_AE_SRQ_CATASTROPHIC:
		event.event = IB_EVENT_SRQ_ERR;
		break;
	default:
		return;
	}
	srq = rnic_srq_get(dev, srqn);
	if (!srq)
		return;
	event.element.srq = &srq->ibsrq;
	if (srq->ibsrq.event_handler)
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

void rnic_async_event(struct rnic_dev *dev, const struct rnic_aeqe *event)
{
	u16 number = le16_to_cpu(event->event);
	u32 object = le32_to_cpu(event->number);

	ibdev_dbg(&dev->ibdev,
		  "event %u, resource %u number %#x, terminate %#x\n",
		  number, event->resource, object,
		  le16_to_cpu(event->terminate));
	switch (event->resource) {
	case RNIC_RESOURCE_QP:
		rnic_qp_event(dev, number, object);
		break;
	case RNIC_RESOURCE_CQ:
		rnic_cq_event(dev, object);
		break;
	case RNIC_RESOURCE_SRQ:
		rnic_srq_event(dev, number, object);
		break;
	case RNIC_RESOURCE_EQ:
		ibdev_err(&dev->ibdev, "event queue %u has lost events\n",
			  object);
		break;
	case RNIC_RESOURCE_NONE:
		rnic_device_event(dev, number);
		break;
	}
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
