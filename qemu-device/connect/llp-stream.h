/*
 * rnic: LLP streams in streaming mode (6.6), from their begin to the QP that adopts them
 *
 * The manual has the rules (LLP streaming mode).  Main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_LLP_STREAM_H
#define HW_RNIC_LLP_STREAM_H

#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/fabric/fabric.h"

typedef struct RnicListener RnicListener;

/* None yet; and none any more. */
void rnic_llp_init(RnicState *s);
void rnic_llp_cleanup(RnicState *s);

/* Admin commands. */
enum rnic_admin_status rnic_llp_open(RnicState *s,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_llp_send(RnicState *s,
                                     const struct rnic_admin_sqe *sqe);
enum rnic_admin_status rnic_llp_receive(RnicState *s,
                                        const struct rnic_admin_sqe *sqe,
                                        struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_llp_close(RnicState *s,
                                      const struct rnic_admin_sqe *sqe);
/* Modify QP, with an LLP stream or without. */
enum rnic_admin_status rnic_llp_modify_qp(RnicAdminRequest *q);

/* A listener of streams brings @t, a connection that is the callee's. */
void rnic_llp_arrived(RnicListener *listener, RnicTransport *t,
                      const RnicAddr *local, const RnicAddr *remote);
/* The listener goes; requests that the guest knows of stay. */
void rnic_llp_unlisten(RnicListener *listener);

/* Streams and requests that exist. */
uint32_t rnic_llp_count(const RnicState *s);

/* Reset all streams, without events. */
void rnic_llp_reset(RnicState *s);

#endif /* HW_RNIC_LLP_STREAM_H */
