/*
 * rnic: a request, work that the main loop hands to a worker
 *
 * The main loop makes a request and adds it to a FIFO (stream/requests.h).  A
 * worker does the work; then the main loop gets the request back.  The main loop
 * does not wait meanwhile.  Requests are part of larger structures.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_REQUEST_H
#define HW_RNIC_REQUEST_H

#include "qemu/queue.h"

typedef struct RnicRequest RnicRequest;

typedef enum RnicWorkResult {
    RNIC_WORK_DONE,
    RNIC_WORK_AGAIN,            /* one bounded part is done: call once more */
} RnicWorkResult;

struct RnicRequest {
    /* In the worker, between turns of QPs.  Bounded; AGAIN if there is more. */
    RnicWorkResult (*work)(RnicRequest *request);
    /* In the main loop, after the work.  Takes the request. */
    void (*done)(RnicRequest *request);
    /*
     * In the main loop, instead of done(): the device is being reset, or fails.  The work
     * has been done, in part or in full, or not at all.  Takes the request.
     */
    void (*cancel)(RnicRequest *request);
    QSIMPLEQ_ENTRY(RnicRequest) next;
};

#endif /* HW_RNIC_REQUEST_H */
