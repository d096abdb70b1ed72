/*
 * A model of a queue pair: what it does, for a test to compare with
 *
 * Written from the tables of docs/requirements alone: the state machine of
 * chapter 6.2, the ordering rules and the errors of chapter 8, the checks of
 * chapter 7.  It includes nothing of the device and of its interface, and must
 * not: a model that shares an enumeration with the device shares its mistakes.
 *
 * A model is told what is done to the queue pair, by its consumer
 * (model_post(), ...) and by its peer (model_incoming(), ...), and says in its
 * four lists what has to come of it: completions of either queue, asynchronous
 * events, and what the peer sees.  Each call goes on to where nothing happens by
 * itself any more.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_QP_MODEL_H
#define RNIC_QTEST_QP_MODEL_H

#include <glib.h>

typedef enum ModelState {
    MODEL_IDLE,
    MODEL_RTS,
    MODEL_CLOSING,
    MODEL_TERMINATE,
    MODEL_ERROR,
} ModelState;

/* ------------------------------------------------------------ what goes in */

typedef enum ModelKind {
    MODEL_SEND,
    MODEL_WRITE,
    MODEL_READ,
    MODEL_FAST_REGISTER,        /* of the region, over all of its memory */
    MODEL_BIND,                 /* the window, to the plain buffer */
    MODEL_INVALIDATE_REGION,
    MODEL_INVALIDATE_WINDOW,
    MODEL_KINDS,
} ModelKind;

/* Memory that a request or a message names. */
typedef enum ModelTarget {
    MODEL_PLAIN,                /* a registered buffer, all rights */
    MODEL_REGION,               /* what MODEL_FAST_REGISTER makes Valid */
    MODEL_WINDOW,               /* what MODEL_BIND makes Valid */
    MODEL_UNKNOWN,              /* an STag that is nobody's */
    MODEL_BEYOND,               /* the buffer, behind its end */
    MODEL_LOCKED,               /* a buffer without the right that is needed */
    MODEL_TARGETS,
} ModelTarget;

typedef struct ModelWr {
    guint64 id;
    ModelKind kind;
    ModelTarget target;         /* of SEND, WRITE, READ: the local buffer */
    guint32 length;
    gboolean signaled;
    gboolean read_fence;        /* of SEND, WRITE */
    gboolean local_fence;       /* of INVALIDATE_* */
    gboolean malformed;
} ModelWr;

typedef struct ModelReceive {
    guint64 id;
    ModelTarget target;
    guint32 length;
} ModelReceive;

typedef enum ModelMessage {
    MODEL_IN_SEND,              /* of length */
    MODEL_IN_SEND_INVALIDATE,   /* target: what is to be invalidated */
    MODEL_IN_WRITE,
    MODEL_IN_READ_REQUEST,
    MODEL_IN_READ_RESPONSE,     /* to the oldest Read, as it asked */
    MODEL_IN_MSN_AHEAD,         /* a Send */
    MODEL_IN_MSN_PAST,
    MODEL_IN_DDP_VERSION,       /* an untagged message */
    MODEL_IN_RDMAP_VERSION,
    MODEL_IN_OPCODE,
    MODEL_IN_QUEUE_NUMBER,
    MODEL_IN_TERMINATE,
    MODEL_MESSAGES,
} ModelMessage;

/* Modify QP: what is asked for. */
typedef struct ModelModify {
    gboolean state;             /* next is asked for */
    ModelState next;
    gboolean has_ord, has_ird, has_enables;
    guint16 ord, ird;
    gboolean read_enabled, write_enabled;
    gboolean undefined;         /* a modifier that does not exist */
} ModelModify;

/* ------------------------------------------------------------ what comes out */

/* Immediate results: more than one may be right if more than one is wrong. */
enum {
    MODEL_OK = 1 << 0,
    MODEL_INVALID_MODIFIER = 1 << 1,
    MODEL_INVALID_STATE_CHANGE = 1 << 2,
    MODEL_INVALID_LLP_STREAM = 1 << 3,
    MODEL_CANNOT_CHANGE = 1 << 4,
    MODEL_ORD_EXCEEDED = 1 << 5,
    MODEL_IRD_EXCEEDED = 1 << 6,
    MODEL_WINDOW_BOUND = 1 << 7,
};

typedef enum ModelStatus {
    MODEL_SUCCESS,
    MODEL_FLUSHED,
    MODEL_INVALID_WQE,
    MODEL_INVALID_STAG,
    MODEL_BASE_BOUNDS,
    MODEL_ACCESS,
    MODEL_ZERO_ORD,
    MODEL_NOT_INVALID,          /* STag not in Invalid state */
    MODEL_INVALIDATION,         /* the peer's, failed */
    MODEL_TOO_LONG,
    MODEL_REMOTE_TERMINATION,
} ModelStatus;

typedef struct ModelCompletion {
    guint64 id;
    ModelStatus status;
    ModelStatus or_status;      /* as good; else the same */
    guint32 length;             /* of a receive and a Read that succeeded */
    gboolean has_length;
    gboolean invalidated;       /* the peer has invalidated an STag */
} ModelCompletion;

typedef enum ModelEvent {
    MODEL_LLP_CLOSE_COMPLETE,
    MODEL_TERMINATE_RECEIVED,
    MODEL_LLP_RESET,
    MODEL_LLP_LOST,
    MODEL_BAD_CLOSE,
    MODEL_BAD_LLP_CLOSE,
    MODEL_DDP_VERSION,
    MODEL_RDMAP_VERSION,
    MODEL_UNEXPECTED_OPCODE,
    MODEL_QUEUE_NUMBER,
    MODEL_READ_DISABLED,
    MODEL_WRITE_DISABLED,
    MODEL_TAGGED_STAG,
    MODEL_TAGGED_BOUNDS,
    MODEL_TAGGED_ACCESS,
    MODEL_MSN_RANGE,
    MODEL_MSN_GAP,
    MODEL_READ_STAG,
    MODEL_READ_BOUNDS,
    MODEL_READ_ACCESS,
    MODEL_TOO_MANY_READS,
} ModelEvent;

typedef struct ModelAsync {
    ModelEvent event;
    ModelState state;           /* in which the queue pair is then */
    guint16 terminate;          /* code sent; 0: none */
} ModelAsync;

typedef enum ModelOut {
    MODEL_OUT_SEND,
    MODEL_OUT_WRITE,
    MODEL_OUT_READ_REQUEST,
    MODEL_OUT_READ_RESPONSE,
    MODEL_OUT_TERMINATE,
    MODEL_OUT_FIN,
    MODEL_OUT_RST,
    MODEL_OUT_END,              /* FIN or RST */
} ModelOut;

/* Whether a Terminate carries the header of the segment that was wrong. */
typedef enum ModelEcho {
    MODEL_NO_ECHO,
    MODEL_ECHO,
    MODEL_ANY_ECHO,             /* if its layout can be trusted */
} ModelEcho;

typedef struct ModelWire {
    ModelOut what;
    guint32 length;
    guint32 msn;                /* of a Send, a Read Request: from 1 on */
    guint16 code;               /* of a Terminate */
    ModelEcho echo;
} ModelWire;

/* ------------------------------------------------------------------ a model */

typedef struct ModelSlot {
    ModelWr wr;
    gboolean done;
} ModelSlot;

typedef struct QpModel {
    /* as created */
    guint16 max_ord, max_ird;   /* the device's limits */
    gboolean signal_all;
    /* now */
    ModelState state;
    guint16 ord, ird;
    gboolean read_enabled, write_enabled;
    gboolean connected;         /* a stream is associated */
    gboolean held;              /* the other side has to speak first */
    gboolean quiet;             /* what led to Terminate made no event */
    guint16 terminate;          /* code of the Terminate kept, see Query QP */
    guint terminate_origin;     /* 0: none, 1: sent, 2: received */
    GQueue sq;                  /* ModelSlot */
    guint started;              /* of them, from the head on */
    guint reads;                /* outstanding */
    GQueue rq;                  /* ModelReceive */
    guint32 send_msn, read_msn;
    gboolean region_valid, window_valid;
    /* what has to come, oldest first; to be taken by the test */
    GQueue send_completions, receive_completions; /* ModelCompletion */
    guint send_due, receive_due; /* of them; the others may, not must be there */
    GQueue events;              /* ModelAsync */
    GQueue wire;                /* ModelWire */
    guint peer_closes;          /* the stream's end, as told to its manager */
    guint disconnects;
} QpModel;

/* In Idle. */
void model_init(QpModel *m, guint16 max_ord, guint16 max_ird);
void model_clear(QpModel *m);

/* ---------------------------------------------------- the consumer's doing */

void model_post(QpModel *m, const ModelWr *wr);
void model_post_receive(QpModel *m, const ModelReceive *receive);
/* The results that are right. */
guint model_modify(QpModel *m, const ModelModify *modify);
/* Whether Destroy QP succeeds, and if not, why. */
guint model_destroy(const QpModel *m);
/* @initiator: sends first.  @ird, @ord: as negotiated. */
void model_established(QpModel *m, gboolean initiator, guint16 ird,
                       guint16 ord);

/* -------------------------------------------------------- the peer's doing */

/* @length: of a Send, a Write, and what a Read Request asks for. */
void model_incoming(QpModel *m, ModelMessage message, ModelTarget target,
                    guint32 length);
void model_peer_fin(QpModel *m);
void model_peer_reset(QpModel *m);
/* Longer than any close may last. */
void model_time_passes(QpModel *m);

/* -------------------------------------- where the tables leave a freedom */

/*
 * Memory operations are posted that are not complete: they may take effect now or
 * later, so the peer does not use the STags meanwhile.
 */
gboolean model_memory_unsettled(const QpModel *m);
/* Work that names it is not complete: an invalidation may come before it. */
gboolean model_in_use(const QpModel *m, ModelTarget target);
/* The receive that the next Send takes; NULL: none. */
const ModelReceive *model_next_receive(const QpModel *m);

#endif
