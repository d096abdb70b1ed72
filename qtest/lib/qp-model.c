/*
 * A model of a queue pair: what it does, for a test to compare with
 *
 * See qp-model.h: nothing of the device may be included here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qp-model.h"

#include <string.h>

#define CODE_LOCAL 0x0000       /* Local Catastrophic Error */
#define CODE_STREAM 0x0207

/* ---------------------------------------------------------------- the lists */

static void model_tell(QpModel *m, ModelEvent event, ModelState state)
{
    ModelAsync *async = g_new0(ModelAsync, 1);

    async->event = event;
    async->state = state;
    async->terminate = m->terminate_origin ? m->terminate : 0;
    g_queue_push_tail(&m->events, async);
}

static ModelWire *model_out(QpModel *m, ModelOut what, guint32 length)
{
    ModelWire *wire = g_new0(ModelWire, 1);

    wire->what = what;
    wire->length = length;
    g_queue_push_tail(&m->wire, wire);
    return wire;
}

static ModelCompletion *model_complete(GQueue *to, guint64 id,
                                       ModelStatus status)
{
    ModelCompletion *completion = g_new0(ModelCompletion, 1);

    completion->id = id;
    completion->status = completion->or_status = status;
    g_queue_push_tail(to, completion);
    return completion;
}

static void model_all_due(QpModel *m)
{
    m->send_due = g_queue_get_length(&m->send_completions);
    m->receive_due = g_queue_get_length(&m->receive_completions);
}

/* ------------------------------------------------------------------ flushing */

/* V6.2.3-7: in Terminate it may have happened, in Error it has. */
static void flush_receives(QpModel *m)
{
    ModelReceive *receive;

    while ((receive = g_queue_pop_head(&m->rq))) {
        model_complete(&m->receive_completions, receive->id, MODEL_FLUSHED);
        g_free(receive);
    }
}

static void flush_sends(QpModel *m)
{
    ModelSlot *slot;

    while ((slot = g_queue_pop_head(&m->sq))) {
        model_complete(&m->send_completions, slot->wr.id, MODEL_FLUSHED);
        g_free(slot);
    }
}

static void flush_all(QpModel *m)
{
    flush_sends(m);
    flush_receives(m);
    m->started = 0;
    m->reads = 0;
}

/* ------------------------------------------------------ transitions (6.2) */

static void lose_stream(QpModel *m)
{
    m->disconnects += m->connected;
    m->connected = FALSE;
}

static void enter_error(QpModel *m)
{
    lose_stream(m);
    m->state = MODEL_ERROR;
    flush_all(m);
    model_all_due(m);
}

static void keep_terminate(QpModel *m, guint16 code, guint origin)
{
    m->terminate = code;
    m->terminate_origin = origin;
}

/* A Terminate goes out, then FIN; the peer's FIN is awaited. */
static void enter_terminate(QpModel *m, guint16 code, ModelEcho echo)
{
    ModelWire *wire = model_out(m, MODEL_OUT_TERMINATE, 0);

    wire->code = code;
    wire->echo = echo;
    model_out(m, MODEL_OUT_FIN, 0);
    keep_terminate(m, code, 1);
    m->state = MODEL_TERMINATE;
    m->quiet = TRUE;
    model_all_due(m);
    flush_all(m);
}

static void terminate_with_event(QpModel *m, ModelEvent event, guint16 code,
                                 ModelEcho echo)
{
    enter_terminate(m, code, echo);
    m->quiet = FALSE;
    model_tell(m, event, MODEL_TERMINATE);
}

/* 6.2.5: the order is reset, Error, event.  Also where no Terminate may be sent, as the
 * initiator's first FPDU has not come (RFC 5044 7.1.2). */
static void leave_badly(QpModel *m, ModelEvent event, gboolean reset)
{
    if (reset) {
        model_out(m, MODEL_OUT_RST, 0);
    }
    enter_error(m);
    model_tell(m, event, MODEL_ERROR);
}

static void enter_closing(QpModel *m)
{
    m->state = MODEL_CLOSING;
    if (!g_queue_is_empty(&m->sq)) {
        model_out(m, MODEL_OUT_END, 0);     /* FIN may have left before */
        enter_error(m);
        model_tell(m, MODEL_BAD_CLOSE, MODEL_ERROR);
        return;
    }
    model_out(m, MODEL_OUT_FIN, 0);
    flush_receives(m);
}

/* V6.2.5-11: the event, then Idle. */
static void closing_done(QpModel *m)
{
    model_all_due(m);
    model_tell(m, MODEL_LLP_CLOSE_COMPLETE, MODEL_CLOSING);
    lose_stream(m);
    m->state = MODEL_IDLE;
}

/* ------------------------------------------- the send queue (8.2.2, rules 1-5) */

static gboolean is_memory_operation(ModelKind kind)
{
    return kind >= MODEL_FAST_REGISTER;
}

static void return_completed(QpModel *m)
{
    ModelSlot *slot;

    while ((slot = g_queue_peek_head(&m->sq)) && slot->done) {
        if (slot->wr.signaled || m->signal_all) {
            ModelCompletion *c = model_complete(&m->send_completions,
                                                slot->wr.id, MODEL_SUCCESS);

            c->has_length = slot->wr.kind == MODEL_READ;
            c->length = slot->wr.length;
        }
        g_free(g_queue_pop_head(&m->sq));
        m->started--;
    }
    m->send_due = g_queue_get_length(&m->send_completions);
}

/*
 * The oldest WR, as those ahead of one that fails have succeeded (V8.1.3.1-5): its
 * error, and Terminate instead of it.
 */
static void fail_request(QpModel *m, ModelStatus status)
{
    ModelSlot *slot = g_queue_pop_head(&m->sq);

    model_complete(&m->send_completions, slot->wr.id, status);
    g_free(slot);
    enter_terminate(m, CODE_LOCAL, MODEL_NO_ECHO);
}

static ModelStatus check_local(const QpModel *m, const ModelWr *wr)
{
    switch (wr->target) {
    case MODEL_UNKNOWN:
        return MODEL_INVALID_STAG;
    case MODEL_BEYOND:
        return MODEL_BASE_BOUNDS;
    case MODEL_LOCKED:
        return MODEL_ACCESS;
    case MODEL_REGION:
        return m->region_valid ? MODEL_SUCCESS : MODEL_INVALID_STAG;
    case MODEL_WINDOW:          /* V8.1.3.2-3: no source; a sink it may be */
        return wr->kind == MODEL_READ && m->window_valid ? MODEL_SUCCESS
                                                         : MODEL_INVALID_STAG;
    default:
        return MODEL_SUCCESS;
    }
}

/* V7.6.2: no memory access, no check. */
static ModelStatus check_request(const QpModel *m, const ModelWr *wr)
{
    if (wr->malformed) {
        return MODEL_INVALID_WQE;
    }
    switch (wr->kind) {
    case MODEL_READ:
        if (m->ord == 0) {
            return MODEL_ZERO_ORD;
        }
        /* fall through */
    case MODEL_SEND:
    case MODEL_WRITE:
        return wr->length ? check_local(m, wr) : MODEL_SUCCESS;
    case MODEL_FAST_REGISTER:
        return m->region_valid ? MODEL_NOT_INVALID : MODEL_SUCCESS;
    case MODEL_BIND:
        return m->window_valid ? MODEL_NOT_INVALID : MODEL_SUCCESS;
    default:
        return MODEL_SUCCESS;   /* V7.8-11: also of what is Invalid */
    }
}

static gboolean must_wait(const QpModel *m, const ModelWr *wr)
{
    switch (wr->kind) {
    case MODEL_READ:
        return m->ord && m->reads >= m->ord;
    case MODEL_SEND:
    case MODEL_WRITE:
        return wr->read_fence && m->reads;
    case MODEL_INVALIDATE_REGION:
    case MODEL_INVALIDATE_WINDOW:
        return wr->local_fence && m->started;
    default:
        return FALSE;
    }
}

static void begin_request(QpModel *m, ModelSlot *slot)
{
    m->started++;
    slot->done = TRUE;
    switch (slot->wr.kind) {
    case MODEL_SEND:
        model_out(m, MODEL_OUT_SEND, slot->wr.length)->msn = ++m->send_msn;
        break;
    case MODEL_WRITE:
        model_out(m, MODEL_OUT_WRITE, slot->wr.length);
        break;
    case MODEL_READ:
        model_out(m, MODEL_OUT_READ_REQUEST,
                  slot->wr.length)->msn = ++m->read_msn;
        slot->done = FALSE;
        m->reads++;
        break;
    case MODEL_FAST_REGISTER:
        m->region_valid = TRUE;
        break;
    case MODEL_BIND:
        m->window_valid = TRUE;
        break;
    case MODEL_INVALIDATE_REGION:
        m->region_valid = FALSE;
        break;
    default:
        m->window_valid = FALSE;
        break;
    }
}

static void run(QpModel *m)
{
    ModelSlot *slot;

    while (m->state == MODEL_RTS && !m->held &&
           (slot = g_queue_peek_nth(&m->sq, m->started))) {
        ModelStatus status;

        if (must_wait(m, &slot->wr)) {
            return;
        }
        status = check_request(m, &slot->wr);
        if (status != MODEL_SUCCESS) {
            if (!m->started) {
                fail_request(m, status);
            }
            return;
        }
        begin_request(m, slot);
        return_completed(m);
    }
}

/* ---------------------------------------------------- the consumer's doing */

void model_init(QpModel *m, guint16 max_ord, guint16 max_ird)
{
    memset(m, 0, sizeof(*m));
    m->max_ord = max_ord;
    m->max_ird = max_ird;
    m->read_enabled = m->write_enabled = TRUE;
}

void model_clear(QpModel *m)
{
    GQueue *lists[] = { &m->sq, &m->rq, &m->send_completions,
                        &m->receive_completions, &m->events, &m->wire };

    for (guint i = 0; i < G_N_ELEMENTS(lists); i++) {
        void *one;

        while ((one = g_queue_pop_head(lists[i]))) {
            g_free(one);
        }
    }
}

void model_post(QpModel *m, const ModelWr *wr)
{
    ModelSlot *slot = g_new0(ModelSlot, 1);

    slot->wr = *wr;
    g_queue_push_tail(&m->sq, slot);
    switch (m->state) {
    case MODEL_CLOSING:         /* V6.2.5-6 */
        leave_badly(m, MODEL_BAD_CLOSE, TRUE);
        break;
    case MODEL_TERMINATE:
        flush_all(m);
        break;
    case MODEL_ERROR:
        flush_all(m);
        model_all_due(m);
        break;
    default:
        run(m);
        break;
    }
}

void model_post_receive(QpModel *m, const ModelReceive *receive)
{
    g_queue_push_tail(&m->rq, g_memdup2(receive, sizeof(*receive)));
    if (m->state >= MODEL_CLOSING) {
        flush_receives(m);
    }
    if (m->state == MODEL_ERROR) {
        model_all_due(m);
    }
}

/* The rows of the state machine with "Modify". */
static gboolean may_go(ModelState from, ModelState to)
{
    switch (from) {
    case MODEL_IDLE:
        return to == MODEL_IDLE || to == MODEL_RTS || to == MODEL_ERROR;
    case MODEL_RTS:
        return to != MODEL_IDLE;
    case MODEL_ERROR:
        return to == MODEL_IDLE;
    default:
        return FALSE;
    }
}

static guint what_is_wrong(const QpModel *m, const ModelModify *modify)
{
    ModelState next = modify->state ? modify->next : m->state;
    gboolean leaves = next != m->state || m->state == MODEL_ERROR;
    gboolean any = modify->has_ord || modify->has_ird || modify->has_enables;
    guint wrong = 0;

    if (modify->undefined) {
        wrong |= MODEL_INVALID_MODIFIER;
    }
    if (modify->has_ord && modify->ord > m->max_ord) {
        wrong |= MODEL_ORD_EXCEEDED;
    }
    if (modify->has_ird && modify->ird > m->max_ird) {
        wrong |= MODEL_IRD_EXCEEDED;
    }
    if (m->state == MODEL_CLOSING || m->state == MODEL_TERMINATE ||
        (modify->state && !may_go(m->state, next))) {
        wrong |= MODEL_INVALID_STATE_CHANGE;
    } else if (m->state == MODEL_IDLE && next == MODEL_RTS) {
        wrong |= MODEL_INVALID_LLP_STREAM;
    }
    /* V6.1.3-4; IRD is not offered for change once connected (V6.1.3-3). */
    if (any && (leaves || (modify->has_ird && m->state != MODEL_IDLE))) {
        wrong |= MODEL_CANNOT_CHANGE;
    }
    return wrong;
}

static void change_attributes(QpModel *m, const ModelModify *modify)
{
    if (modify->has_ord) {
        m->ord = modify->ord;
    }
    if (modify->has_ird) {
        m->ird = modify->ird;
    }
    if (modify->has_enables) {
        m->read_enabled = modify->read_enabled;
        m->write_enabled = modify->write_enabled;
    }
    run(m);
}

static void change_state(QpModel *m, ModelState next)
{
    switch (next) {
    case MODEL_IDLE:
        m->state = MODEL_IDLE;
        break;
    case MODEL_CLOSING:
        enter_closing(m);
        break;
    case MODEL_TERMINATE:
        if (m->held) {
            leave_badly(m, MODEL_BAD_CLOSE, TRUE);
        } else {
            enter_terminate(m, CODE_LOCAL, MODEL_NO_ECHO);
        }
        break;
    default:
        if (m->connected) {
            model_out(m, MODEL_OUT_RST, 0);
        }
        enter_error(m);
        break;
    }
}

guint model_modify(QpModel *m, const ModelModify *modify)
{
    guint wrong = what_is_wrong(m, modify);

    if (wrong) {
        return wrong;
    }
    if (modify->state && modify->next != m->state) {
        change_state(m, modify->next);
    }
    change_attributes(m, modify);
    return MODEL_OK;
}

guint model_destroy(const QpModel *m)
{
    return m->window_valid ? MODEL_WINDOW_BOUND : MODEL_OK;
}

void model_established(QpModel *m, gboolean initiator, guint16 ird,
                       guint16 ord)
{
    m->state = MODEL_RTS;
    m->connected = TRUE;
    m->held = !initiator;
    m->ird = ird;
    m->ord = ord;
    m->send_msn = m->read_msn = 0;
    m->terminate = 0;
    m->terminate_origin = 0;
    run(m);
}

/* -------------------------------------------------------- the peer's doing */

static ModelStatus invalidate(QpModel *m, ModelTarget target, guint16 *code)
{
    switch (target) {
    case MODEL_REGION:
        m->region_valid = FALSE;
        return MODEL_SUCCESS;
    case MODEL_WINDOW:
        m->window_valid = FALSE;
        return MODEL_SUCCESS;
    default:
        *code = 0x0209;
        return MODEL_INVALIDATION;
    }
}

static ModelStatus check_receive(const ModelReceive *receive, guint32 length,
                                 guint16 *code)
{
    *code = CODE_LOCAL;
    if (length > receive->length) {
        *code = 0x1205;
        return MODEL_TOO_LONG;
    }
    switch (length ? receive->target : MODEL_PLAIN) {
    case MODEL_UNKNOWN:
        return MODEL_INVALID_STAG;
    case MODEL_BEYOND:
        return MODEL_BASE_BOUNDS;
    case MODEL_LOCKED:
        return MODEL_ACCESS;
    default:
        return MODEL_SUCCESS;
    }
}

/* Of these errors only those of the message carry its header (figure 12). */
static void fail_receive(QpModel *m, guint64 id, ModelStatus status,
                         guint16 code)
{
    model_complete(&m->receive_completions, id, status);
    enter_terminate(m, code, code == CODE_LOCAL ? MODEL_NO_ECHO : MODEL_ECHO);
}

static void incoming_send(QpModel *m, gboolean invalidates, ModelTarget target,
                          guint32 length)
{
    ModelReceive *receive = g_queue_pop_head(&m->rq);
    ModelStatus status;
    ModelCompletion *c;
    guint16 code;

    if (!receive) {
        terminate_with_event(m, MODEL_MSN_RANGE, 0x1202, MODEL_ECHO);
        return;
    }
    status = check_receive(receive, length, &code);
    if (status == MODEL_SUCCESS && invalidates) {
        status = invalidate(m, target, &code);
    }
    if (status != MODEL_SUCCESS) {
        fail_receive(m, receive->id, status, code);
    } else {
        c = model_complete(&m->receive_completions, receive->id, status);
        c->has_length = TRUE;
        c->length = length;
        c->invalidated = invalidates;
        m->receive_due = g_queue_get_length(&m->receive_completions);
    }
    g_free(receive);
}

/* What is wrong with an access by the peer: 0 nothing, 1 STag, 2 bounds, 3 right. */
static guint check_remote(const QpModel *m, ModelTarget target)
{
    switch (target) {
    case MODEL_REGION:
        return m->region_valid ? 0 : 1;
    case MODEL_WINDOW:
        return m->window_valid ? 0 : 1;
    case MODEL_UNKNOWN:
        return 1;
    case MODEL_BEYOND:
        return 2;
    case MODEL_LOCKED:
        return 3;
    default:
        return 0;
    }
}

static void tagged_error(QpModel *m, guint wrong)
{
    static const ModelEvent events[] = { 0, MODEL_TAGGED_STAG,
                                         MODEL_TAGGED_BOUNDS,
                                         MODEL_TAGGED_ACCESS };

    terminate_with_event(m, events[wrong], 0x1100 + wrong - 1, MODEL_ECHO);
}

static void incoming_write(QpModel *m, ModelTarget target, guint32 length)
{
    guint wrong = check_remote(m, target);

    if (!length) {
        return;
    }
    if (!m->write_enabled) {
        terminate_with_event(m, MODEL_WRITE_DISABLED, 0x1102, MODEL_ECHO);
    } else if (wrong) {
        tagged_error(m, wrong);
    }
}

static void incoming_read(QpModel *m, ModelTarget target, guint32 length)
{
    static const ModelEvent events[] = { 0, MODEL_READ_STAG, MODEL_READ_BOUNDS,
                                         MODEL_READ_ACCESS };
    guint wrong = length ? check_remote(m, target) : 0;

    if (m->ird == 0) {
        terminate_with_event(m, MODEL_TOO_MANY_READS, 0x1202, MODEL_ECHO);
    } else if (length && !m->read_enabled) {
        terminate_with_event(m, MODEL_READ_DISABLED, 0x1201, MODEL_ECHO);
    } else if (wrong) {
        terminate_with_event(m, events[wrong], 0x0100 + wrong - 1, MODEL_ECHO);
    } else {
        model_out(m, MODEL_OUT_READ_RESPONSE, length);
    }
}

/* V8.1.2.2-7: the sink has to allow it when the Response is placed. */
static void incoming_response(QpModel *m)
{
    guint i = 0;
    ModelSlot *slot;
    guint wrong;

    do {
        slot = g_queue_peek_nth(&m->sq, i++);
    } while (slot->done);
    wrong = check_remote(m, slot->wr.target);
    if (slot->wr.length && !m->write_enabled) {
        terminate_with_event(m, MODEL_WRITE_DISABLED, 0x1102, MODEL_ECHO);
    } else if (slot->wr.length && wrong) {
        tagged_error(m, wrong);
    } else {
        slot->done = TRUE;
        m->reads--;
        return_completed(m);
    }
}

static void received_terminate(QpModel *m)
{
    ModelSlot *oldest = g_queue_peek_head(&m->sq);

    if (m->state == MODEL_CLOSING) {
        leave_badly(m, MODEL_BAD_CLOSE, TRUE);
        return;
    }
    keep_terminate(m, CODE_STREAM, 2);
    model_tell(m, MODEL_TERMINATE_RECEIVED, MODEL_TERMINATE);
    model_out(m, MODEL_OUT_END, 0);
    if (oldest) {
        guint at = g_queue_get_length(&m->send_completions);
        ModelCompletion *c;

        enter_error(m);
        c = g_queue_peek_nth(&m->send_completions, at);
        c->or_status = MODEL_REMOTE_TERMINATION;
    } else {
        enter_error(m);
    }
}

static void incoming_in_rts(QpModel *m, ModelMessage message,
                            ModelTarget target, guint32 length)
{
    m->held = FALSE;
    switch (message) {
    case MODEL_IN_SEND:
    case MODEL_IN_SEND_INVALIDATE:
        incoming_send(m, message == MODEL_IN_SEND_INVALIDATE, target, length);
        break;
    case MODEL_IN_WRITE:
        incoming_write(m, target, length);
        break;
    case MODEL_IN_READ_REQUEST:
        incoming_read(m, target, length);
        break;
    case MODEL_IN_READ_RESPONSE:
        incoming_response(m);
        break;
    case MODEL_IN_MSN_AHEAD:
        terminate_with_event(m, MODEL_MSN_GAP, 0x1203, MODEL_ECHO);
        break;
    case MODEL_IN_MSN_PAST:
        terminate_with_event(m, MODEL_MSN_RANGE, 0x1203, MODEL_ECHO);
        break;
    case MODEL_IN_DDP_VERSION:
        terminate_with_event(m, MODEL_DDP_VERSION, 0x1206,
                             MODEL_ANY_ECHO);
        break;
    case MODEL_IN_RDMAP_VERSION:
        terminate_with_event(m, MODEL_RDMAP_VERSION, 0x0205,
                             MODEL_ANY_ECHO);
        break;
    case MODEL_IN_OPCODE:
        terminate_with_event(m, MODEL_UNEXPECTED_OPCODE, 0x0206, MODEL_ECHO);
        break;
    case MODEL_IN_QUEUE_NUMBER:
        terminate_with_event(m, MODEL_QUEUE_NUMBER, 0x1201, MODEL_ECHO);
        break;
    default:
        received_terminate(m);
        break;
    }
    run(m);
}

void model_incoming(QpModel *m, ModelMessage message, ModelTarget target,
                    guint32 length)
{
    switch (m->state) {
    case MODEL_RTS:
        incoming_in_rts(m, message, target, length);
        break;
    case MODEL_CLOSING:
        leave_badly(m, MODEL_BAD_CLOSE, TRUE);
        break;
    default:                    /* Terminate ignores it (V6.2.3-1) */
        break;
    }
}

void model_peer_fin(QpModel *m)
{
    switch (m->state) {
    case MODEL_RTS:
        m->peer_closes++;
        if (g_queue_is_empty(&m->sq)) {
            enter_closing(m);
            closing_done(m);
        } else if (m->held) {
            leave_badly(m, MODEL_BAD_LLP_CLOSE, TRUE);
        } else {
            terminate_with_event(m, MODEL_BAD_LLP_CLOSE, CODE_STREAM,
                                 MODEL_NO_ECHO);
            enter_error(m);
        }
        break;
    case MODEL_CLOSING:
        closing_done(m);
        break;
    default:
        enter_error(m);
        break;
    }
}

void model_peer_reset(QpModel *m)
{
    switch (m->state) {
    case MODEL_RTS:
        leave_badly(m, MODEL_LLP_RESET, FALSE);
        break;
    case MODEL_CLOSING:
        leave_badly(m, MODEL_LLP_LOST, FALSE);
        break;
    default:
        enter_error(m);
        if (m->quiet) {
            model_tell(m, MODEL_BAD_CLOSE, MODEL_ERROR);
        }
        break;
    }
}

void model_time_passes(QpModel *m)
{
    if (m->state == MODEL_CLOSING) {
        leave_badly(m, MODEL_LLP_LOST, TRUE);
    } else if (m->state == MODEL_TERMINATE) {
        model_out(m, MODEL_OUT_RST, 0);
        enter_error(m);
        if (m->quiet) {
            model_tell(m, MODEL_BAD_CLOSE, MODEL_ERROR);
        }
    }
}

/* -------------------------------------- where the tables leave a freedom */

gboolean model_memory_unsettled(const QpModel *m)
{
    for (GList *at = m->sq.head; at; at = at->next) {
        ModelSlot *slot = at->data;

        if (is_memory_operation(slot->wr.kind)) {
            return TRUE;
        }
    }
    return FALSE;
}

gboolean model_in_use(const QpModel *m, ModelTarget target)
{
    for (GList *at = m->sq.head; at; at = at->next) {
        ModelSlot *slot = at->data;

        if (slot->wr.target == target && !is_memory_operation(slot->wr.kind)) {
            return TRUE;
        }
    }
    return FALSE;
}

const ModelReceive *model_next_receive(const QpModel *m)
{
    return g_queue_peek_head((GQueue *)&m->rq);
}
