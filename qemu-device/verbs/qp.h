/*
 * rnic: queue pairs, as the rest of the device sees them
 *
 * For the main loop, if not said otherwise.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_QP_H
#define HW_RNIC_QP_H

#include "hw/rnic/base/rnic.h"
#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/stream/stream.h"
#include "hw/rnic/stream/worker.h"

/* Admin commands. */
enum rnic_admin_status rnic_qp_create(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe);
enum rnic_admin_status rnic_qp_query(RnicAdminRequest *q);
enum rnic_admin_status rnic_qp_modify(RnicAdminRequest *q);
enum rnic_admin_status rnic_qp_destroy(RnicAdminRequest *q);

/*
 * For rnic_worker_halt(), in the worker.  Reset: reset every stream of the
 * worker's QPs; no DMA, no event, no octet on the wire afterwards.  Failure of the
 * device: the same, but streams end with a Terminate, and in order.  VM stopped:
 * watch no socket.
 */
void rnic_qp_quiesce_all(RnicWorker *worker);
void rnic_qp_fail_all(RnicWorker *worker);
void rnic_qp_pause_all(RnicWorker *worker);

/* The VM goes on, and so do the QPs. */
void rnic_qp_go(RnicState *s);

/* Free every QP; the workers are stopped. */
void rnic_qp_reset(RnicState *s);

/*
 * RNIC_DB_SQ or RNIC_DB_RQ on doorbell page @page.  False if the doorbell is
 * not the page's to ring.
 */
bool rnic_qp_doorbell(RnicState *s, uint32_t page, uint32_t qpn, bool sq);

/* NULL if there is no such QP. */
RnicQp *rnic_qp_get(RnicState *s, uint32_t qpn);
uint32_t rnic_qp_number(const RnicQp *qp);

/*
 * Connection set-up.  A claim makes sure that no other connection is made for
 * the QP meanwhile; its functions are called in the main loop, and end it.
 */
typedef struct RnicQpClaim RnicQpClaim;
struct RnicQpClaim {
    void (*left_idle)(RnicQpClaim *claim);      /* by a Modify QP */
    void (*gone)(RnicQpClaim *claim);           /* the QP is being freed */
    /* By a Modify QP, from Error or Idle; NULL: a claim ends before Error. */
    void (*to_idle)(RnicQpClaim *claim);
};

/* False: the QP is not in Idle, or claimed already. */
bool rnic_qp_claim(RnicQp *qp, RnicQpClaim *claim);
/* Whether it is in Idle now.  It can leave by commands, and by direct-qp.h. */
bool rnic_qp_in_idle(const RnicQp *qp);
/* If it is the QP's claim. */
void rnic_qp_unclaim(RnicQp *qp, RnicQpClaim *claim);

/* What makes a stream of a connection. */
typedef struct RnicEstablish {
    RnicStreamSetup setup;      /* agreed need not stay */
    IwarpMpaAgreed agreed;
    uint64_t cookie;            /* for the CM events of the stream */
    struct rnic_cm_event event; /* tells the guest, before anything moves */
    bool direct;                /* direct connect: no event tells, see direct-qp.h */
    uint32_t peer_psn;          /* with it: that the peer expects first */
    uint8_t min_rnr_timer;      /* with it: InfiniBand's code, 0..31 */
    bool extensions;            /* with it: both ends take messages of RFC 7306 */
} RnicEstablish;

typedef struct RnicEstablishing RnicEstablishing;
typedef void RnicEstablishedFn(void *opaque, bool established);

/*
 * Have the worker take the QP from Idle to RTS on the stream, whose transport it
 * takes, tell the guest by the event, and let the stream go on.  An initiator
 * sends the RTR that was agreed first of all.  @fn is called in the main loop:
 * false if the QP was not in Idle any more, or was being taken from it by a Modify
 * QP; the transport has been closed, and the guest has not been told.  *@handle is
 * NULL after that.
 */
void rnic_qp_establish(RnicQp *qp, const RnicEstablish *establish,
                       RnicEstablishedFn *fn, void *opaque,
                       RnicEstablishing **handle);
/* @fn is not called any more. */
void rnic_qp_establish_forget(RnicEstablishing *handle);

/*
 * An LLP stream that a Modify QP from Idle to RTS takes to the QP (6.2.1.2), with what
 * is still to be sent in streaming mode.
 */
struct RnicAdoption {
    RnicStreamSetup setup;      /* agreed is the following one */
    IwarpMpaAgreed agreed;      /* but for the read resources: these are the QP's */
    uint32_t number;            /* the stream's, for Query QP */
    uint64_t cookie;            /* for the CM events of the stream */
    bool adopted;               /* the transport is the QP's */
    /* The command ends, or the device is being reset.  Main loop. */
    void (*ended)(RnicAdoption *adoption);
};

/* Modify QP, from Idle to RTS on the stream.  If it does not return LATER, the
 * adoption has not begun. */
enum rnic_admin_status rnic_qp_adopt(RnicAdminRequest *q,
                                     RnicAdoption *adoption);

#endif /* HW_RNIC_QP_H */
