/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the connection events of each QP, in order.
 */
#ifndef RNIC_CM_QUEUE_H
#define RNIC_CM_QUEUE_H

struct rnic_cm_event;
struct rnic_dev;
struct rnic_qp;

/* 0 or -ENOMEM. May sleep, as the others here. */
int rnic_cm_queue_create(struct rnic_dev *dev);
/* Waits for the events that are queued; there come no others. */
void rnic_cm_queue_destroy(struct rnic_dev *dev);

void rnic_cm_queue_init_qp(struct rnic_qp *qp);

/*
 * Lets rnic_cm_qp_event() see a copy of the event, after those that were queued for
 * the QP before. Takes over the caller's reference to the QP.
 */
void rnic_cm_queue_event(struct rnic_dev *dev, struct rnic_qp *qp,
			 const struct rnic_cm_event *event);

#endif /* RNIC_CM_QUEUE_H */
