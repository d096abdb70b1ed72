/*
 * rnic: the inside of a queue pair, shared by the files of this folder
 *
 * Who owns what: each part below names its file; the others use functions.
 * All of it is the worker's, except for what says otherwise and for what
 * creation fixes; a turn begins with rnic_qp_begin_turn().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_QP_INTERNAL_H
#define HW_RNIC_QP_INTERNAL_H

#include "qp.h"
#include "busy-poll.h"
#include "cq.h"
#include "direct-qp.h"
#include "extensions.h"
#include "moderation.h"
#include "hw/rnic/guest/queue-memory.h"
#include "receive-ring.h"
#include "srq.h"
#include "hw/rnic/stream/stream.h"
#include "hw/rnic/stream/worker.h"
#include "hw/rnic/tpt/tpt.h"

/* sent-message.c: what the headers of a message have that no other one's have. */
typedef struct RnicSentMessage {
    IwarpOpcode opcode;
    uint32_t msn;               /* untagged */
    uint32_t stag;              /* tagged */
    uint32_t length;
    uint64_t to;                /* of its first octet */
} RnicSentMessage;

enum { RNIC_WORK_MESSAGES = 2 };        /* of a WR, at most */

/*
 * send-queue.c: a WR whose processing has begun and that is not completed; of a Read
 * with several SGEs, what is read into one of them.
 */
typedef struct RnicSendWork {
    uint64_t wr_id;
    uint32_t start;             /* SQ consumer index of its WQE, units */
    uint32_t end;               /* SQ consumer index behind it, units */
    uint8_t opcode;
    bool signaled;
    bool question;              /* no WR, but the Read of extensions.h: no CQE */
    bool done;                  /* or, where a message has a number, delivered */
    uint64_t message;           /* after a direct connect: its number from 1 (the
                                 * last one's, of two); of a Read or atomic, of
                                 * the one before it; else 0 */
    RnicSentMessage messages[RNIC_WORK_MESSAGES];
    uint8_t messages_count;     /* 0: it is local */
    /* Read types and atomics */
    uint32_t before;            /* octets of the WR that its other works in front
                                 * of this one read */
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t length;
    uint32_t received;
    QSIMPLEQ_ENTRY(RnicSendWork) next;
} RnicSendWork;

/* send-queue.c */
typedef struct RnicSendQueue {
    uint32_t depth;             /* units */
    uint32_t producer;          /* as last read from the record */
    uint32_t consumer;          /* next WQE to fetch */
    uint32_t published;         /* sq_event in the record */
    bool fetched;               /* wqe holds the WQE at consumer */
    uint32_t requested;         /* of its octets, if it is a Read or atomic */
    uint64_t list;              /* of a Fast-Register that goes on, or 0 */
    uint8_t refused;            /* what it fails with, behind WRs before it, or 0 */
    RnicSentMessage messages[RNIC_WORK_MESSAGES];       /* begun, if it is neither */
    uint8_t messages_count;
    /* Read as structs of the guest's interface, hence aligned. */
    uint8_t wqe[RNIC_SQ_MAX_UNITS * RNIC_SQ_UNIT] QEMU_ALIGNED(8);
    /*
     * WRs in order, begun and not completed; what is done leaves from the head.
     * The head is a Read that waits for its response, or after a direct connect
     * a message that waits to be acknowledged.
     */
    QSIMPLEQ_HEAD(, RnicSendWork) works;
    uint32_t works_count;
    RnicSendWork *read;         /* the first Read or atomic that is not done */
    uint32_t reads;             /* Reads and atomics among them that are not done */
} RnicSendQueue;

/* receive-queue.c */
typedef struct RnicReceiveQueue {
    RnicSrq *srq;               /* where WQEs come from, NULL: from ring */
    RnicReceiveRing ring;
    uint32_t published;         /* rq_event in the record */
    bool taken;                 /* wqe is being filled */
    RnicReceiveWqe wqe;
    uint64_t room;              /* octets in all SGEs */
    uint32_t limit;             /* QP RQ Limit, with an S-RQ (V6.3.8-5) */
    bool limit_armed;
} RnicReceiveQueue;

/* receive-wait.c: a Send whose first segment has come, and that has no receive. */
typedef struct RnicReceiveWait {
    bool waits;
    int64_t since_ms;           /* of the guest's time */
    int64_t look_ms;            /* until the next look, as last */
    size_t looked_at;           /* what has come behind it has been, up to here */
} RnicReceiveWait;

/* read-queue.c: a Read or Atomic Request of the peer that waits to be answered. */
typedef struct RnicInboundRead {
    bool atomic;
    union {
        IwarpReadRequest request;
        IwarpAtomicRequest atomic_request;
    };
    IwarpEcho echo;
} RnicInboundRead;

typedef struct RnicReadQueue {
    RnicInboundRead *slots;     /* of size ird, made with the first request */
    uint32_t size;
    uint32_t head;
    uint32_t count;
} RnicReadQueue;

/* transmit.c: the message being sent. */
typedef enum RnicJobKind {
    RNIC_JOB_NONE,
    RNIC_JOB_WORK,              /* the WQE in sq.wqe */
    RNIC_JOB_QUESTION,          /* before it, see extensions.h */
    RNIC_JOB_READ_RESPONSE,     /* the head of the read queue */
    RNIC_JOB_RTR,               /* RFC 6581 ready-to-receive */
    RNIC_JOB_NOTE,              /* to the device of a direct connect */
} RnicJobKind;

typedef struct RnicJob {
    RnicJobKind kind;
    bool was_response;          /* the last job, to take turns */
    bool second;                /* of the WR's two messages */
    uint32_t offset;            /* payload octets framed so far */
    uint64_t mapping;           /* a response's, see rnic_target_hold() */
    IwarpTxMessage msg;
    uint8_t header[IWARP_RDMAP_HEADER_MAX];
} RnicJob;

struct RnicQp {
    RnicState *s;
    RnicWorker *worker;
    uint32_t qpn;
    uint8_t state;              /* enum rnic_qp_state; qp-state.c */
    uint32_t enables;           /* RNIC_QP_* */
    uint32_t doorbell_page;
    uint16_t ird;
    uint16_t ord;
    uint8_t max_send_sge;
    uint8_t max_write_sge;
    RnicAccessor who;
    RnicCq *send_cq;
    RnicCq *recv_cq;
    RnicQueueMemory mem;
    QEMUBH *bh;                 /* one turn of work */
    bool paused;                /* the VM is stopped */
    bool receive_again;         /* a turn ended with octets in the buffer */
    bool gone;                  /* quiesced: nothing may run any more */
    uint32_t windows;           /* bound through this QP; TPT lock */

    /* Main loop only */
    RnicQpClaim *claim;         /* of the connection being set up */
    unsigned requests;          /* in progress */
    unsigned changes;           /* of them, of the state, and Destroy: doorbells
                                 * wait for their end, claims are refused */
    bool released;              /* the last of them frees it */

    RnicStream *stream;         /* NULL: none associated */
    uint64_t cookie;
    uint32_t llp_stream;        /* its number as an LLP stream; 0: it was none */
    RnicSendQueue sq;
    RnicReceiveQueue rq;
    RnicReceiveWait receive_wait;
    RnicReadQueue reads;
    uint64_t incoming_mapping;  /* of the tagged message being placed, see
                                 * rnic_target_hold(); receive.c */
    RnicJob job;
    RnicModeration moderation;
    RnicBusyPoll busy_poll;
    RnicDirectQp direct;
    RnicExtensions extensions;

    /* qp-state.c */
    QEMUTimer timer;            /* bounds the stay in Closing, Terminate; in Idle
                                 * direct-qp.c's, in RTS receive-wait.c's */
    bool flushing;              /* STILL_FLUSHING until that is done */
    bool quiet_error;           /* Terminate entered without an event */
    bool last_wqe_told;         /* see RNIC_QP_LAST_WQE_EVENT */
    uint8_t terminate_origin;
    uint8_t terminate_length;
    uint16_t terminate_code;
    uint8_t terminate[RNIC_TERMINATE_MAX];
    uint8_t mpa_revision;
    uint8_t mpa_flags;
    /* Since the QP was created; of struct rnic_qp_attr. */
    uint64_t bytes_sent;
    uint64_t bytes_received;
    uint64_t sq_wrs;
    uint64_t rq_wrs;
    uint64_t cqes;
    uint32_t cqe_errors;
    uint64_t tx_fpdus;
    uint64_t rx_fpdus;
};

/* ------------------------------------------------------------ qp.c */

/*
 * Have the QP's worker run @turn, with the QP in q->qp, as a turn of QP @qpn;
 * then the command ends.  Main loop.
 */
enum rnic_admin_status
rnic_qp_ask(RnicAdminRequest *q, uint32_t qpn,
            enum rnic_admin_status (*turn)(RnicAdminRequest *q));

/* Have the QP take a turn soon.  Any thread that knows the QP exists. */
void rnic_qp_kick(RnicQp *qp);

/*
 * A turn: what the worker does for one QP at a stretch.  It is bounded, and
 * reads the TPT from beginning to end.
 */
void rnic_qp_begin_turn(RnicQp *qp);
void rnic_qp_end_turn(RnicQp *qp);

/*
 * The turn has to end early: the main loop wants the worker halted, or so many
 * pieces of guest memory have been mapped.
 */
bool rnic_qp_turn_over(const RnicQp *qp);

/* A request comes to name the QP, or ceases to; the last frees a QP that was
 * destroyed.  Main loop. */
void rnic_qp_hold(RnicQp *qp);
void rnic_qp_put(RnicQp *qp);

/* -------------------------------------------------- qp-state.c */

void rnic_qp_state_init(RnicQp *qp);
void rnic_qp_state_cleanup(RnicQp *qp);
/* Read resources, as created, modified or agreed on. */
void rnic_qp_set_read_resources(RnicQp *qp, uint16_t ird, uint16_t ord);

/* An error of an incoming message or of the LLP: event, then Terminate.  @event 0:
 * none, a CQE tells of it. */
void rnic_qp_stream_error(RnicQp *qp, enum rnic_async_event event,
                          const IwarpError *error);
/* The same without an incoming message to show.  Before the peer's first FPDU, where a
 * responder has to wait for that, there is no Terminate but a reset. */
void rnic_qp_local_error(RnicQp *qp, enum rnic_async_event event,
                         IwarpTermCode term);
/* A Terminate has arrived. */
void rnic_qp_terminate_received(RnicQp *qp, const IwarpTerminate *terminate,
                                const IwarpSegment *segment);
/* The stream's read handler, of the QP @opaque: a turn of receiving. */
void rnic_qp_readable(void *opaque);
/* The peer's FIN has arrived. */
void rnic_qp_peer_closed(RnicQp *qp);
/* The LLP failed: RNIC_IO_RESET or RNIC_IO_LOST. */
void rnic_qp_stream_failed(RnicQp *qp, RnicIo io);
/* Idle to RTS on the stream of @setup; then, once the guest knows of it, let it
 * go on. */
void rnic_qp_enter_rts(RnicQp *qp, const RnicStreamSetup *setup,
                       uint64_t cookie);
void rnic_qp_start(RnicQp *qp);
/* Whether the state diagram has this transition by Modify QP. */
bool rnic_qp_transition_exists(uint8_t from, uint8_t to);
/* Modify QP, one of those. */
enum rnic_admin_status rnic_qp_change_state(RnicQp *qp, uint8_t next);
/* The oldest WR completes with RETRY_EXCEEDED, if there is one: to Error. */
void rnic_qp_retry_exceeded(RnicQp *qp);
/* A Send has waited for a receive as long as its sender wants: tell it so, by
 * @error.  The stream ends. */
void rnic_qp_refuse_send(RnicQp *qp, const IwarpError *error);
/* The stream ends: RTS to Idle, nothing is flushed, no event. */
void rnic_qp_lose_stream(RnicQp *qp, bool abort);
/* The device fails: stage the Terminate that says so, on a QP in RTS, or reset the
 * stream. */
void rnic_qp_tell_failure(RnicQp *qp);
/* One turn in Closing, Terminate or Error. */
void rnic_qp_closing_turn(RnicQp *qp);
/* rnic_stream_flush(), and look what comes of it. */
void rnic_qp_flush_stream(RnicQp *qp, bool more);
/* Drop the stream, if any, for Destroy QP and reset; no event. */
void rnic_qp_drop_stream(RnicQp *qp, bool abort);

/* -------------------------------------------------- establish.c */

/* From Idle to RTS on an LLP stream.  Within a turn. */
void rnic_qp_take_stream(RnicQp *qp, RnicAdoption *adoption);

/* ------------------------------------------------ send-queue.c */

void rnic_sq_init(RnicSendQueue *sq, uint32_t depth);
/* Forget all works without completing them. */
void rnic_sq_cleanup(RnicSendQueue *sq);
/* Is there a WQE at the consumer index?  Publishes the event index if not. */
bool rnic_sq_has_wqe(RnicQp *qp);
/* No WR begun or posted that is not completed. */
bool rnic_sq_idle(RnicQp *qp);

typedef enum RnicSqStep {
    RNIC_SQ_EMPTY,              /* no WQE, or it has to wait */
    RNIC_SQ_LOCAL,              /* a local operation was done; go on */
    RNIC_SQ_MESSAGE,            /* the job holds the message to send */
    RNIC_SQ_QUESTION,           /* the same, but the WR itself waits for the answer */
    RNIC_SQ_FAILED,             /* the QP has left RTS */
} RnicSqStep;

/* Begin the next WR, as far as fences and ORD let it. */
RnicSqStep rnic_sq_begin(RnicQp *qp, RnicJob *job);
/*
 * The message of the WR begun last has been handed to the LLP.  True: @job holds the
 * second one, which has to follow it.
 */
bool rnic_sq_sent(RnicQp *qp, RnicJob *job);
/* The source of the WR begun last cannot be read. */
void rnic_sq_source_error(RnicQp *qp, RnicAccessResult result);
/* Octets [offset, offset + len) of the WR fetched last, see rnic_tpt_map_sgl(). */
RnicAccessResult rnic_sq_map(RnicQp *qp, uint64_t offset, uint64_t len,
                             RnicDmaMap *map);
/* The Read or atomic that awaits its response, NULL if none. */
RnicSendWork *rnic_sq_current_read(RnicQp *qp);
bool rnic_sq_is_atomic(const RnicSendWork *work);
/* It is complete: all of the Read is placed, its last segment came to TO @to. */
void rnic_sq_read_done(RnicQp *qp, uint64_t to);
/* It cannot be placed: it ends with @status, not SUCCESS, and the QP is terminated. */
void rnic_sq_read_failed(RnicQp *qp, enum rnic_wc_status status);
/* An atomic is complete: place the word as it was before. */
void rnic_sq_atomic_done(RnicQp *qp, uint64_t original);
/* More messages are known to be delivered (qp->direct.acknowledged). */
void rnic_sq_acknowledged(RnicQp *qp);
/* Complete the WR that a received Terminate concerns.  False: that is not clear. */
bool rnic_sq_remote_error(RnicQp *qp, const IwarpTerminate *t);
/* Complete the oldest WR, begun or posted, with @status.  False: there is none. */
bool rnic_sq_fail_oldest(RnicQp *qp, enum rnic_wc_status status);
/* Flush up to @max WRs; returns how many. */
unsigned rnic_sq_flush(RnicQp *qp, unsigned max);

/* ---------------------------------------------- sent-message.c */

/* Of @msg, which begins now. */
RnicSentMessage rnic_sent_message(const IwarpTx *tx, const IwarpTxMessage *msg);
/* Is @header of the message, of which @sent octets have been sent? */
bool rnic_sent_message_is(const RnicSentMessage *m, uint32_t sent,
                          const IwarpDdpHeader *header);

/* --------------------------------------------- receive-queue.c */

/* Take the next WQE for an incoming message, from the S-RQ if there is one.
 * BROKEN: completed in error, the QP has left RTS. */
RnicRingTake rnic_rq_take(RnicQp *qp);
/* After EMPTY: have the next post ring.  True: take once more before that. */
bool rnic_rq_await(RnicQp *qp);
/* Set the RQ Limit and arm it (V6.3.8-7). */
void rnic_rq_arm_limit(RnicQp *qp, uint32_t limit);
/* Octets [offset, offset + len) of the WQE taken, see rnic_tpt_map_sgl(). */
RnicAccessResult rnic_rq_map(RnicQp *qp, uint64_t offset, uint32_t len,
                             RnicDmaMap *map);
/* What a completion says of the message. */
typedef struct RnicReceived {
    uint32_t octets;
    bool solicited;
    bool invalidated;
    uint32_t stag;              /* with it */
    const uint8_t *immediate;   /* 4 octets, or NULL */
    bool written;               /* the octets came by a Write, not to the WQE */
} RnicReceived;

/* Complete the WQE taken with success. */
void rnic_rq_complete(RnicQp *qp, const RnicReceived *received);
/* Complete it in error; the QP goes to Terminate with @term. */
void rnic_rq_fail(RnicQp *qp, enum rnic_wc_status status,
                  const IwarpError *error);
/* Flush up to @max WQEs, of an S-RQ only the one taken (V6.3.6-3). */
unsigned rnic_rq_flush(RnicQp *qp, unsigned max);

/* ------------------------------------------------- direct-qp.c */

/* The QP has come to RTS by the direct connect @what. */
void rnic_direct_qp_established(RnicQp *qp, const RnicEstablish *what);
/* One turn in Idle. */
void rnic_direct_qp_idle_turn(RnicQp *qp);
/* The QP's timer, in Idle. */
void rnic_direct_qp_timed_out(RnicQp *qp);
/*
 * Whether a WR may begin: MESSAGE; or the PSNs of a direct connect differ: EMPTY
 * without a WR, FAILED when its oldest one has failed and the QP has left RTS.
 */
RnicSqStep rnic_direct_qp_gate(RnicQp *qp);
/*
 * The peer has ended the stream in RTS, or it failed (@abort).  False: the QP was
 * not connected directly, nothing has been done.
 */
bool rnic_direct_qp_stream_ended(RnicQp *qp, bool abort);
/* Error to Idle. */
void rnic_direct_qp_forget(RnicQp *qp);

/* ----------------------------------------------- direct-note.c */

/* The next note to the peer, if one is due. */
bool rnic_direct_note_next(RnicQp *qp, IwarpTxMessage *msg);
/* The guest's message @msg is not taken for a note. */
void rnic_direct_note_exclude(const RnicQp *qp, IwarpTxMessage *msg);
/* Is this segment a note? */
bool rnic_direct_note_is(const RnicQp *qp, const IwarpSegment *seg);
/* One has come.  False: it says what cannot be. */
bool rnic_direct_note_received(RnicQp *qp, const IwarpSegment *seg);
/* Of the notes behind a Send that waits for a receive, which cannot be taken yet,
 * acknowledgements count.  @at: see iwarp_rx_look_ahead(). */
void rnic_direct_note_look_ahead(RnicQp *qp, size_t *at);
/* A Send or Write of the peer is delivered. */
void rnic_direct_note_delivered(RnicQp *qp);

/* ---------------------------------------------- receive-wait.c */

/* A Send finds no receive.  True: it waits, and a turn tries again; or its sender is
 * gone, and the QP has left RTS.  False: it may not wait, or not any longer. */
bool rnic_receive_wait(RnicQp *qp);
/* It has one, or the QP leaves RTS. */
void rnic_receive_wait_end(RnicQp *qp);

/* ------------------------------------------------ read-queue.c */

/* Reads and atomics of the peer: they share IRD and the order of answers. */
bool rnic_reads_push(RnicQp *qp, const IwarpSegment *segment);
const RnicInboundRead *rnic_reads_head(const RnicQp *qp);
void rnic_reads_pop(RnicQp *qp);
void rnic_reads_clear(RnicQp *qp);

/* ---------------------------------------------------- atomic.c */

typedef enum RnicAtomicStep {
    RNIC_ATOMIC_DONE,
    RNIC_ATOMIC_BUSY,           /* the guest changes the word all the time: later */
    RNIC_ATOMIC_UNALIGNED,
    RNIC_ATOMIC_REFUSED,        /* @result says why */
} RnicAtomicStep;

/* Do what the peer requests; *@original becomes the word before it. */
RnicAtomicStep rnic_atomic_execute(RnicQp *qp, const IwarpAtomicRequest *request,
                                   uint64_t *original,
                                   RnicAccessResult *result);

/* -------------------------------------------------- transmit.c */

/* One turn of sending in RTS. */
void rnic_transmit(RnicQp *qp);
/* Stage the notes that are due, for the stream ends: what cuts no message. */
void rnic_transmit_last_notes(RnicQp *qp);
/* First of all, send the RTR of kind @rtr (IWARP_RTR_*). */
void rnic_transmit_rtr(RnicQp *qp, uint8_t rtr);

/* --------------------------------------------------- receive.c */

/* One turn of receiving; the socket is readable. */
void rnic_receive(RnicQp *qp);
/* Read what has come to the buffer, while a Send waits for a receive.  False: the
 * stream has ended, or has failed. */
bool rnic_receive_ahead(RnicQp *qp);

#endif /* HW_RNIC_QP_INTERNAL_H */
