/*
 * rnic: requests, a FIFO from the main loop to a worker and back
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_REQUESTS_H
#define HW_RNIC_REQUESTS_H

#include "hw/rnic/base/request.h"
#include "worker.h"

/* For the main loop, under the big lock, unless said otherwise. */

/* A FIFO to @worker, which outlives it. */
RnicRequests *rnic_requests_new(RnicWorker *worker);

/*
 * The end of a FIFO.  rnic_requests_stop(), in the worker (rnic_worker_halt()):
 * the worker starts no further request.  rnic_requests_free(), in the main loop:
 * cancels all requests, worked on or not.
 */
void rnic_requests_stop(RnicRequests *requests);
void rnic_requests_free(RnicRequests *requests);

/*
 * Have the worker do @request after all requests that were added before.  The
 * request is the FIFO's until its done() or cancel() is called, neither of
 * which happens before this returns.
 */
void rnic_requests_add(RnicRequests *requests, RnicRequest *request);

/* Those that the worker has done are done, the others are cancelled.  It is halted,
 * for good. */
void rnic_requests_end(RnicRequests *requests);

/* The worker is no longer halted: go on. */
void rnic_requests_go(RnicRequests *requests);

#endif /* HW_RNIC_REQUESTS_H */
