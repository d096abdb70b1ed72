/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: connections, for iw_cm.
 */
#ifndef RNIC_CM_H
#define RNIC_CM_H

#include <rdma/iw_cm.h>

#include "rnic-hw.h"

struct rnic_dev;
struct rnic_qp;

void rnic_cm_init(struct rnic_dev *dev);
void rnic_cm_free(struct rnic_dev *dev);

/* Operations of struct ib_device_ops. */
int rnic_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int rnic_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int rnic_iw_reject(struct iw_cm_id *cm_id, const void *data, u8 length);
/* Listening is in rnic_cm_listen.h. */
void rnic_iw_add_ref(struct ib_qp *ibqp);
void rnic_iw_rem_ref(struct ib_qp *ibqp);
struct ib_qp *rnic_iw_get_qp(struct ib_device *ibdev, int qpn);

/* An event from the device; not in interrupt context. */
void rnic_cm_event(struct rnic_dev *dev, const struct rnic_cm_event *event);

/* One about a QP; the caller has a reference to it. */
void rnic_cm_qp_event(struct rnic_qp *qp, const struct rnic_cm_event *event);

/* Ends the connection of a QP for iw_cm: no event of it will come any more. */
void rnic_cm_abandon(struct rnic_qp *qp);
/*
 * Before a QP is destroyed in the device: nothing is asked of it any more, and events
 * about it are passed over. Or, after that, that the device has refused.
 */
void rnic_cm_qp_ends(struct rnic_qp *qp);
void rnic_cm_qp_stays(struct rnic_qp *qp);
/*
 * Now and then: a device that does not tell how a connect or accept has ended has
 * failed, because iw_cm waits for that event without end. A connection whose end it does
 * not tell is ended. Sleeps.
 */
void rnic_cm_check(struct rnic_dev *dev);
/* rnic_cm_abandon() for all QPs, of a device that has failed. */
void rnic_cm_abandon_all(struct rnic_dev *dev);

#endif /* RNIC_CM_H */
