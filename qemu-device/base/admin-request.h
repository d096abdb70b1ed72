/*
 * rnic: an admin command that is being executed
 *
 * The admin queue (pci/admin.c) copies each command once into a request and
 * starts its handler in the main loop.  A handler that returns
 * RNIC_ADMIN_LATER has kept the request, and ends it with rnic_admin_finish().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_ADMIN_REQUEST_H
#define HW_RNIC_ADMIN_REQUEST_H

#include "request.h"
#include "rnic.h"
#include "qapi/qapi-types-qom.h"

/* No status of the interface: the command goes on without its handler. */
#define RNIC_ADMIN_LATER ((enum rnic_admin_status)0xffff)

typedef struct RnicAdoption RnicAdoption;

typedef struct RnicAdminRequest {
    RnicRequest request;        /* for the worker, where one is needed */
    RnicState *s;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;  /* zeroed; the handler fills in the results */
    enum rnic_admin_status status;      /* from the worker to the main loop */
    RnicPd *pd;                 /* that a command of the TPT names, held; NULL:
                                 * there is none of that number */
    RnicQp *qp;                 /* the same for commands of a QP */
    RnicAdoption *adoption;     /* of an LLP stream, by Modify QP; NULL: none */
    enum rnic_admin_status (*handler)(struct RnicAdminRequest *q);
                                /* in the worker */
    void *work;                 /* the handler's, between two of its steps */
    QLIST_ENTRY(RnicAdminRequest) next;
    RnicFault *fault;           /* how to answer it wrongly; NULL: rightly */
    QEMUTimer *late;            /* with such a fault, when it is time */
} RnicAdminRequest;

/*
 * Post the completion of @q, which is gone then.  The results count with
 * RNIC_ST_OK only.  Main loop; pci/admin.c.
 */
void rnic_admin_finish(RnicAdminRequest *q, enum rnic_admin_status status);

/* The device is being reset: @q ends without a completion. */
void rnic_admin_forget(RnicAdminRequest *q);

#endif /* HW_RNIC_ADMIN_REQUEST_H */
