/*
 * rnic: completion queues
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CQ_H
#define HW_RNIC_CQ_H

#include "qemu/timer.h"
#include "hw/rnic/base/rnic.h"

enum rnic_admin_status rnic_cq_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_cq_query(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_cq_modify(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_cq_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe);
void rnic_cq_reset(RnicState *s);

enum { RNIC_CQ_CLOCK_KHZ = 1000000 };

/* The clock of timestamps: the guest's own, in nanoseconds.  Any thread. */
static inline uint64_t rnic_cq_clock(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

/* NULL if there is no such CQ. */
RnicCq *rnic_cq_get(RnicState *s, uint32_t cqn);

/*
 * Add @cqe; its phase is set here.  Notifies by the rules of 8.2.5.  False
 * when it could not be made: the CQ is full (AE CQ_OVERFLOW, once) or its
 * memory cannot be written (AE CQ_ERROR, once).  The CQ stays failed.
 *
 * @may_hold: the event of this CQE may be held back (moderation.h).  *@held: one
 * is, and rnic_cq_release_event() must follow.  Any thread.
 */
bool rnic_cq_post(RnicState *s, RnicCq *cq, struct rnic_cqe *cqe,
                  bool may_hold, bool *held);

/* Send the event that is held back, if there is one.  Any thread. */
void rnic_cq_release_event(RnicState *s, RnicCq *cq);

/*
 * RNIC_DB_CQ_ARM on doorbell page @page; @value as written.  Takes effect
 * before it returns: a completion made after the guest's write notifies.
 * False if the doorbell is not the page's to ring.  Under the big lock.
 */
bool rnic_cq_arm(RnicState *s, uint32_t page, uint32_t value);

/* Whether doorbell page @page may name CQ @cqn.  Under the big lock. */
bool rnic_cq_on_page(RnicState *s, uint32_t page, uint32_t cqn);

#endif /* HW_RNIC_CQ_H */
