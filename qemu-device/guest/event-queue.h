/*
 * rnic: event queues (completion, asynchronous, CM)
 *
 * Any thread may post; all else is for the main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_EVENT_QUEUE_H
#define HW_RNIC_EVENT_QUEUE_H

#include "hw/rnic/base/rnic.h"

/* Admin commands. */
enum rnic_admin_status rnic_eq_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_eq_destroy(RnicState *s,
                                       const struct rnic_admin_sqe *sqe);

/* Free every event queue, whoever uses it. */
void rnic_eq_reset(RnicState *s);

/* The completion event queue @eqn, NULL if there is none of that number. */
RnicEq *rnic_eq_get_completion(RnicState *s, uint32_t eqn);

/*
 * Post a completion event of CQ @cqn, unless the one posted at *@last is not
 * consumed yet: the driver calls the handler after it has moved its consumer
 * index, so that call will see the newer completion too.  *@last, an index that
 * does not wrap, and *@posted are the CQ's to keep.
 */
void rnic_eq_post_completion(RnicState *s, RnicEq *eq, uint32_t cqn,
                             uint64_t *last, bool *posted);

/* RNIC_REG_EQ_KICK: the consumer index of @eqn has moved. */
void rnic_eq_kick(RnicState *s, uint32_t eqn);

/* The VM goes on: post what was held back, as far as there is room. */
void rnic_eq_go(RnicState *s);

/*
 * Post an asynchronous event of a resource (RNIC_RESOURCE_*).  @qp_state and
 * @terminate only mean something for a QP.  Held back while the queue is full;
 * dropped without a queue.
 */
void rnic_async_event(RnicState *s, enum rnic_async_event event,
                      uint8_t resource, uint32_t number, uint8_t qp_state,
                      uint16_t terminate);

/*
 * Drop the asynchronous events of a resource that are held back: it is
 * destroyed, and its number may be another's next.  Main loop.
 */
void rnic_async_events_withdraw(RnicState *s, uint8_t resource,
                                uint32_t number);

/* The device has failed: RNIC_CATASTROPHIC, if there is room.  Main loop. */
void rnic_eq_post_failure(RnicState *s);

/*
 * Post a CM event; all but the flags is the caller's.  False when it is lost:
 * there is no queue, or too many are held back.
 */
bool rnic_cm_event_post(RnicState *s, const struct rnic_cm_event *event);

/* PEER_CLOSE or DISCONNECTED of an established stream. */
void rnic_cm_stream_event(RnicState *s, enum rnic_cm_event_type type,
                          uint32_t qpn, uint64_t cookie, uint16_t terminate);

/*
 * Take back the CONNECT_REQUEST of @endpoint if it is still held back: a peer
 * that connects and leaves takes no room.  False: the guest can see it, or it
 * was lost.
 */
bool rnic_cm_event_withdraw(RnicState *s, uint32_t endpoint);

#endif /* HW_RNIC_EVENT_QUEUE_H */
