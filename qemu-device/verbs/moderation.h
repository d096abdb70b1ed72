/*
 * rnic: completion event moderation
 *
 * A stream of messages would cost the guest an interrupt, a system call and two
 * switches of context each.  While a queue pair certainly has more completions
 * coming, the event of an armed CQ is therefore held back for a moment, so
 * that it tells of several.  CQEs themselves are never late, and nothing is
 * held for a queue pair that has come to rest: a single message is told of at
 * once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_MODERATION_H
#define HW_RNIC_MODERATION_H

#include "qemu/timer.h"
#include "hw/rnic/base/rnic.h"

/* Of a QP; its worker's. */
typedef struct RnicModeration {
    QEMUTimer timer;            /* of the guest's clock */
    uint32_t cqes;              /* posted since events are held; 0: none is */
} RnicModeration;

/* Post @cqe to @cq, one of @qp's, see rnic_cq_post().  Within a turn. */
bool rnic_qp_post_cqe(RnicQp *qp, RnicCq *cq, struct rnic_cqe *cqe);

void rnic_moderation_init(RnicQp *qp);
/* At the end of every turn: what is held must not wait for a QP at rest. */
void rnic_moderation_end_turn(RnicQp *qp);
/* Send what is held, if anything is. */
void rnic_moderation_release(RnicQp *qp);
/* Forget what is held: the device is being reset. */
void rnic_moderation_cancel(RnicQp *qp);

#endif /* HW_RNIC_MODERATION_H */
