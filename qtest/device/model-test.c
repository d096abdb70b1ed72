/*
 * rnic: random operations on queue pairs, compared with a model
 *
 * A sequence makes two QPs that share their CQs, does random things to them and
 * to their streams, and destroys them.  After each step the device has to come to
 * where the model (lib/qp-model.h) is: the immediate result, the state and all
 * that Query QP tells, the completions of each queue in their order, the events,
 * what the peer sees.  What the model does not know of is an error.
 *
 * RNIC_MODEL_SEQUENCES says how many sequences (a few hundred), RNIC_MODEL_SEED
 * is the seed of the first one (a random one); the next one's is one more.  A
 * failure prints the seed of its sequence and all steps of it, so
 * RNIC_MODEL_SEED=SEED RNIC_MODEL_SEQUENCES=1 repeats it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <poll.h>

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/qp-model.h"
#include "tests/qtest/rnic/lib/stags.h"
#include "tests/qtest/rnic/lib/watchdog.h"

enum {
    SIDES = 2,
    BUFFER = 4096,
    SHORT = 64,                 /* octets of most messages */
    QUEUE = 10,                 /* WRs at most */
    QP_MEMORY = 32 * 1024,
    MAX_ORD = 16, MAX_IRD = 16, /* the device's, by its properties */
};

/* A QP, its peer, and the model of it. */
typedef struct Side {
    char name;
    Connection c;
    QpModel model;
    uint64_t memory;            /* of the QP; used again by the next one */
    StagRegion region;
    uint32_t window;
    GQueue units;               /* the units of each WR posted, not complete */
    GQueue reads;               /* WireRead that the peer has not answered */
    uint64_t fpdus;             /* received by the QP, while it is in RTS */
    bool fin_seen, fin_sent;
} Side;

typedef struct Run {
    Rnic *r;
    RnicCq send_cq, recv_cq;
    Side side[SIDES];
    RnicMr plain;               /* MODEL_PLAIN */
    RnicMr unreadable;          /* MODEL_LOCKED, of a source */
    RnicMr unwritable;          /* ... of a sink */
    GRand *rand;
    uint64_t next_id;
    uint32_t seed;
    unsigned sequence;
    GString *log;
} Run;

/* ------------------------------------------------- the model's names and ours */

static const uint8_t state_of[] = {
    [MODEL_IDLE] = RNIC_QPS_IDLE,
    [MODEL_RTS] = RNIC_QPS_RTS,
    [MODEL_CLOSING] = RNIC_QPS_CLOSING,
    [MODEL_TERMINATE] = RNIC_QPS_TERMINATE,
    [MODEL_ERROR] = RNIC_QPS_ERROR,
};

static const uint8_t completion_of[] = {
    [MODEL_SUCCESS] = RNIC_WC_SUCCESS,
    [MODEL_FLUSHED] = RNIC_WC_FLUSHED,
    [MODEL_INVALID_WQE] = RNIC_WC_INVALID_WQE,
    [MODEL_INVALID_STAG] = RNIC_WC_INVALID_STAG,
    [MODEL_BASE_BOUNDS] = RNIC_WC_BASE_BOUNDS,
    [MODEL_ACCESS] = RNIC_WC_ACCESS_VIOLATION,
    [MODEL_ZERO_ORD] = RNIC_WC_ZERO_READ_RESOURCES,
    [MODEL_NOT_INVALID] = RNIC_WC_STAG_NOT_INVALID,
    [MODEL_INVALIDATION] = RNIC_WC_INVALIDATE_STAG,
    [MODEL_TOO_LONG] = RNIC_WC_MESSAGE_TOO_LONG,
    [MODEL_REMOTE_TERMINATION] = RNIC_WC_REMOTE_TERMINATION,
};

static const uint16_t event_of[] = {
    [MODEL_LLP_CLOSE_COMPLETE] = RNIC_AE_LLP_CLOSE_COMPLETE,
    [MODEL_TERMINATE_RECEIVED] = RNIC_AE_TERMINATE_RECEIVED,
    [MODEL_LLP_RESET] = RNIC_AE_LLP_RESET,
    [MODEL_LLP_LOST] = RNIC_AE_LLP_LOST,
    [MODEL_BAD_CLOSE] = RNIC_AE_BAD_CLOSE,
    [MODEL_BAD_LLP_CLOSE] = RNIC_AE_BAD_LLP_CLOSE,
    [MODEL_DDP_VERSION] = RNIC_AE_DDP_VERSION,
    [MODEL_RDMAP_VERSION] = RNIC_AE_RDMAP_VERSION,
    [MODEL_UNEXPECTED_OPCODE] = RNIC_AE_UNEXPECTED_OPCODE,
    [MODEL_QUEUE_NUMBER] = RNIC_AE_INVALID_QUEUE_NUMBER,
    [MODEL_READ_DISABLED] = RNIC_AE_READ_NOT_ENABLED,
    [MODEL_WRITE_DISABLED] = RNIC_AE_WRITE_NOT_ENABLED,
    [MODEL_TAGGED_STAG] = RNIC_AE_TAGGED_INVALID_STAG,
    [MODEL_TAGGED_BOUNDS] = RNIC_AE_TAGGED_BASE_BOUNDS,
    [MODEL_TAGGED_ACCESS] = RNIC_AE_TAGGED_ACCESS,
    [MODEL_MSN_RANGE] = RNIC_AE_RQ_MSN_RANGE,
    [MODEL_MSN_GAP] = RNIC_AE_RQ_MSN_GAP,
    [MODEL_READ_STAG] = RNIC_AE_IRRQ_INVALID_STAG,
    [MODEL_READ_BOUNDS] = RNIC_AE_IRRQ_BASE_BOUNDS,
    [MODEL_READ_ACCESS] = RNIC_AE_IRRQ_ACCESS,
    [MODEL_TOO_MANY_READS] = RNIC_AE_IRRQ_TOO_MANY,
};

static bool result_is(guint allowed, uint16_t status)
{
    static const struct {
        guint model;
        uint16_t status;
    } results[] = {
        { MODEL_OK, RNIC_ST_OK },
        { MODEL_INVALID_MODIFIER, RNIC_ST_INVALID_MODIFIER },
        { MODEL_INVALID_STATE_CHANGE, RNIC_ST_INVALID_STATE_CHANGE },
        { MODEL_INVALID_LLP_STREAM, RNIC_ST_INVALID_LLP_STREAM },
        { MODEL_CANNOT_CHANGE, RNIC_ST_CANNOT_CHANGE_ATTRIBUTE },
        { MODEL_ORD_EXCEEDED, RNIC_ST_ORD_EXCEEDED },
        { MODEL_IRD_EXCEEDED, RNIC_ST_IRD_EXCEEDED },
        { MODEL_WINDOW_BOUND, RNIC_ST_MW_BOUND_TO_QP },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(results); i++) {
        if ((allowed & results[i].model) && status == results[i].status) {
            return true;
        }
    }
    return false;
}

static uint32_t enables_of(const QpModel *m)
{
    return (m->read_enabled ? RNIC_QP_ENABLE_READ : 0) |
           (m->write_enabled ? RNIC_QP_ENABLE_WRITE : 0) |
           (m->signal_all ? RNIC_QP_SIGNAL_ALL : 0) |
           RNIC_QP_ENABLE_BIND | RNIC_QP_PRIVILEGED;
}

/* ---------------------------------------------------------- chance, the log */

static unsigned below(Run *t, unsigned limit)
{
    return g_rand_int_range(t->rand, 0, limit);
}

static bool chance(Run *t, unsigned percent)
{
    return below(t, 100) < percent;
}

static void G_GNUC_PRINTF(3, 4) note(Run *t, const Side *s, const char *format,
                                     ...)
{
    va_list args;

    g_string_append_printf(t->log, "  %c ", s->name);
    va_start(args, format);
    g_string_append_vprintf(t->log, format, args);
    va_end(args);
    g_string_append_c(t->log, '\n');
}

/* Called when an assert has failed, here or in what the tests share. */
static void show_sequence(void *opaque)
{
    Run *t = opaque;

    fprintf(stderr, "model: sequence %u diverged; RNIC_MODEL_SEED=%u "
            "RNIC_MODEL_SEQUENCES=1 repeats it:\n%s", t->sequence, t->seed,
            t->log->str);
    for (int i = 0; i < SIDES; i++) {
        const QpModel *m = &t->side[i].model;

        fprintf(stderr, "  %c is in state %u, SQ %u (%u begun, %u Reads), "
                "RQ %u; due: %u, %u CQEs, %u events\n", t->side[i].name,
                m->state, m->sq.length, m->started, m->reads, m->rq.length,
                m->send_due, m->receive_due, m->events.length);
    }
}

/* ------------------------------------------------- what has come, compared */

static Side *side_of(Run *t, uint32_t qpn)
{
    for (int i = 0; i < SIDES; i++) {
        if (t->side[i].c.qp.number == qpn) {
            return &t->side[i];
        }
    }
    g_printerr("model: QP 0x%x is none of the two\n", qpn);
    abort();
}

static void match_cqe(Run *t, bool receive, const struct rnic_cqe *cqe)
{
    Side *s = side_of(t, le32_to_cpu(cqe->qpn));
    QpModel *m = &s->model;
    ModelCompletion *c = g_queue_pop_head(receive ? &m->receive_completions
                                                  : &m->send_completions);
    guint *due = receive ? &m->receive_due : &m->send_due;

    g_assert_nonnull(c);
    g_assert_cmphex(le64_to_cpu(cqe->wr_id), ==, c->id);
    if (cqe->status != completion_of[c->or_status]) {
        g_assert_cmpuint(cqe->status, ==, completion_of[c->status]);
    }
    g_assert_cmpuint(!!(cqe->flags & RNIC_CQE_RECEIVE), ==, receive);
    g_assert_cmpuint(!!(cqe->flags & RNIC_CQE_INVALIDATED), ==,
                     c->invalidated);
    if (c->has_length) {
        g_assert_cmpuint(le32_to_cpu(cqe->byte_len), ==, c->length);
    }
    *due -= *due > 0;
    g_free(c);
}

static void match_event(Run *t, const struct rnic_aeqe *aeqe)
{
    Side *s = side_of(t, le32_to_cpu(aeqe->number));
    ModelAsync *a = g_queue_pop_head(&s->model.events);

    g_assert_cmpuint(aeqe->resource, ==, RNIC_RESOURCE_QP);
    if (!a) {
        g_printerr("model: event %u is unexpected\n", le16_to_cpu(aeqe->event));
    }
    g_assert_nonnull(a);
    g_assert_cmpuint(le16_to_cpu(aeqe->event), ==, event_of[a->event]);
    g_assert_cmpuint(aeqe->qp_state, ==, state_of[a->state]);
    g_assert_cmphex(le16_to_cpu(aeqe->terminate), ==, a->terminate);
    g_free(a);
}

static void match_cm_event(Run *t, const struct rnic_cm_event *event)
{
    QpModel *m = &side_of(t, le32_to_cpu(event->qpn))->model;

    if (event->type == RNIC_CM_PEER_CLOSE) {
        g_assert_cmpuint(m->peer_closes, >, 0);
        m->peer_closes--;
    } else {
        g_assert_cmpuint(event->type, ==, RNIC_CM_DISCONNECTED);
        g_assert_cmpuint(m->disconnects, >, 0);
        g_assert_cmphex(le16_to_cpu(event->terminate), ==,
                        m->terminate_origin ? m->terminate : 0);
        m->disconnects--;
    }
}

static void take_completions(Run *t, RnicCq *cq)
{
    struct rnic_cqe cqe;

    while (rnic_cq_poll(t->r, cq, &cqe)) {
        match_cqe(t, cq == &t->recv_cq, &cqe);
    }
}

static void take_events(Run *t)
{
    struct rnic_aeqe aeqe;

    while (rnic_eq_poll(t->r, &t->r->async_eq, &aeqe)) {
        match_event(t, &aeqe);
    }
}

static void take_cm_events(Run *t)
{
    struct rnic_cm_event cm;

    while (rnic_eq_poll(t->r, &t->r->cm_eq, &cm)) {
        match_cm_event(t, &cm);
    }
}

/* From where something is due; what is not is found at the sequence's end. */
static void take_due(Run *t, const QpModel *m)
{
    if (m->send_completions.length) {
        take_completions(t, &t->send_cq);
    }
    if (m->receive_completions.length) {
        take_completions(t, &t->recv_cq);
    }
    if (m->events.length) {
        take_events(t);
    }
    if (m->peer_closes || m->disconnects) {
        take_cm_events(t);
    }
}

static void take_all(Run *t)
{
    take_completions(t, &t->send_cq);
    take_completions(t, &t->recv_cq);
    take_events(t);
    take_cm_events(t);
}

static bool all_came(const QpModel *m)
{
    return !m->send_due && !m->receive_due && !m->events.length &&
           !m->peer_closes && !m->disconnects;
}

/* ------------------------------------------------------ what the peer sees */

static void match_terminate(Side *s, const ModelWire *wire)
{
    WireTerminate terminate;

    wire_get_terminate(s->c.peer, &terminate);
    g_assert_cmphex(terminate.code, ==, wire->code);
    if (wire->echo != MODEL_ANY_ECHO) {
        g_assert_cmpuint(terminate.flags != 0, ==, wire->echo == MODEL_ECHO);
    }
}

/* Behind a FIN, recv() goes on to tell of that. */
static bool was_reset(WirePeer *peer)
{
    struct pollfd p = { .fd = peer->fd };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void match_wire(Run *t, Side *s, const ModelWire *wire)
{
    WirePeer *peer = s->c.peer;
    uint8_t data[BUFFER];
    WireRead read;

    switch (wire->what) {
    case MODEL_OUT_SEND:
        g_assert_cmpuint(wire_get_send(peer, WIRE_SEND, wire->msn, data,
                                       sizeof(data)), ==, wire->length);
        break;
    case MODEL_OUT_WRITE:
        g_assert_cmpuint(wire_get_tagged(peer, WIRE_WRITE,
                                         CONNECTION_REMOTE_STAG, 0, data,
                                         sizeof(data)), ==, wire->length);
        break;
    case MODEL_OUT_READ_REQUEST:
        wire_get_read_request(peer, wire->msn, &read);
        g_assert_cmpuint(read.size, ==, wire->length);
        g_queue_push_tail(&s->reads, g_memdup2(&read, sizeof(read)));
        break;
    case MODEL_OUT_READ_RESPONSE:
        g_assert_cmpuint(wire_get_tagged(peer, WIRE_READ_RESPONSE, 0, 0, data,
                                         sizeof(data)), ==, wire->length);
        break;
    case MODEL_OUT_TERMINATE:
        match_terminate(s, wire);
        break;
    case MODEL_OUT_FIN:
        g_assert_cmpint(wire_end(peer), ==, WIRE_FIN);
        s->fin_seen = true;
        break;
    case MODEL_OUT_RST:
        RNIC_UNTIL(t->r, was_reset(peer));
        break;
    default:
        wire_expect_end(peer);
        break;
    }
}

static void match_all_wire(Run *t, Side *s)
{
    ModelWire *wire;

    while ((wire = g_queue_pop_head(&s->model.wire))) {
        match_wire(t, s, wire);
        g_free(wire);
    }
    if (s->c.peer && !s->model.connected) {
        wire_close(s->c.peer);
        s->c.peer = NULL;
    }
    if (s->c.peer && !s->fin_seen) {
        uint8_t octet;

        g_assert_cmpint(recv(s->c.peer->fd, &octet, 1,
                             MSG_PEEK | MSG_DONTWAIT), ==, -1);
        g_assert_cmpint(errno, ==, EAGAIN);
    }
}

/* ----------------------------------------------------- the QP, as it is asked */

/* The units of the WRs that have not begun. */
static uint32_t units_left(Side *s)
{
    uint32_t sum = 0;

    while (s->units.length > s->model.sq.length) {
        g_queue_pop_head(&s->units);
    }
    for (GList *at = g_queue_peek_nth_link(&s->units, s->model.started); at;
         at = at->next) {
        sum += GPOINTER_TO_UINT(at->data);
    }
    return sum;
}

/* Also when there is nothing else to see that the device is there. */
static bool is_there(Run *t, Side *s, struct rnic_qp_attr *attr)
{
    QpModel *m = &s->model;

    *attr = rnic_query_qp(t->r, &s->c.qp);
    take_due(t, m);
    return attr->state == state_of[m->state] && all_came(m) &&
           (m->state > MODEL_RTS ||
            le32_to_cpu(attr->sq_consumer) ==
            s->c.qp.sq_producer - units_left(s)) &&
           (m->state != MODEL_RTS || le64_to_cpu(attr->rx_fpdus) == s->fpdus);
}

static void match_attributes(const QpModel *m, const struct rnic_qp_attr *attr)
{
    g_assert_cmpuint(attr->state, ==, state_of[m->state]);
    g_assert_cmpuint(le16_to_cpu(attr->ord), ==, m->ord);
    g_assert_cmpuint(le16_to_cpu(attr->ird), ==, m->ird);
    g_assert_cmphex(le32_to_cpu(attr->enables), ==, enables_of(m));
    g_assert_cmpuint(attr->llp_stream != 0, ==, m->connected);
    if (m->state == MODEL_TERMINATE || m->state == MODEL_ERROR) {
        g_assert_cmpuint(attr->terminate_origin, ==, m->terminate_origin);
        if (m->terminate_origin) {
            g_assert_cmphex(attr->terminate[0] << 8 | attr->terminate[1], ==,
                            m->terminate);
        }
    }
}

static void sync_with_model(Run *t, Side *s)
{
    struct rnic_qp_attr attr;

    match_all_wire(t, s);
    RNIC_UNTIL(t->r, is_there(t, s, &attr));
    match_attributes(&s->model, &attr);
}

/* ------------------------------------------------------------ making the QPs */

static void renew_region(Run *t, Side *s)
{
    if (s->region.stag) {
        stag_dealloc(t->r, s->region.stag);
    }
    s->region.stag = stag_alloc(t->r, t->r->pd, 1, s->region.key, true);
}

static void renew_window(Run *t, Side *s)
{
    if (s->window) {
        stag_dealloc(t->r, s->window);
    }
    s->window = stag_alloc_mw(t->r, t->r->pd, 0x44);
}

static void create_qp(Run *t, Side *s)
{
    RnicQpInit init = rnic_qp_default(t->r, &t->send_cq, &t->recv_cq);
    QpModel *m = &s->model;
    uint64_t free = t->r->next_free;

    model_init(m, MAX_ORD, MAX_IRD);
    m->signal_all = chance(t, 20);
    m->read_enabled = chance(t, 85);
    m->write_enabled = chance(t, 85);
    m->ord = below(t, 4);
    m->ird = below(t, 4);
    init.enables = enables_of(m);
    init.ord = m->ord;
    init.ird = m->ird;
    qtest_memset(t->r->qts, s->memory, 0, QP_MEMORY);
    t->r->next_free = s->memory;
    rnic_create_qp(t->r, &s->c.qp, &init);
    g_assert_cmpuint(t->r->next_free, <=, s->memory + QP_MEMORY);
    t->r->next_free = free;
    s->c.r = t->r;
    note(t, s, "QP 0x%x, ORD %u, IRD %u, enables 0x%x", s->c.qp.number, m->ord,
         m->ird, enables_of(m));
    sync_with_model(t, s);
}

/* Nothing comes of it any more but what the model has allowed. */
static void destroy_qp(Run *t, Side *s)
{
    guint allowed = model_destroy(&s->model);

    note(t, s, "destroy");
    if (allowed == MODEL_WINDOW_BOUND) {
        g_assert_cmpuint(rnic_admin_object(t->r, RNIC_ADMIN_DESTROY_QP,
                                           s->c.qp.number), ==,
                         RNIC_ST_MW_BOUND_TO_QP);
        sync_with_model(t, s);
        renew_window(t, s);
    }
    g_assert_cmpuint(rnic_admin_object(t->r, RNIC_ADMIN_DESTROY_QP,
                                       s->c.qp.number), ==, RNIC_ST_OK);
    s->model.disconnects = s->model.connected;
    take_all(t);
    s->c.qp.number = 0;
    if (s->c.peer) {
        wire_expect_end(s->c.peer);
        wire_close(s->c.peer);
        s->c.peer = NULL;
    }
    if (s->model.region_valid) {
        renew_region(t, s);
    }
    model_clear(&s->model);
    g_queue_clear(&s->units);
    g_queue_clear_full(&s->reads, g_free);
}

/* ------------------------------------------------------------------- posting */

static struct rnic_sge sge_of(Run *t, const Side *s, ModelTarget target,
                              bool source, uint32_t length)
{
    RnicMr mr = t->plain;

    switch (target) {
    case MODEL_REGION:
        mr.stag = s->region.stag;
        mr.va = s->region.va;
        break;
    case MODEL_WINDOW:
        mr.stag = s->window;
        break;
    case MODEL_UNKNOWN:
        mr.stag = STAG_UNKNOWN;
        break;
    case MODEL_BEYOND:
        mr.va += mr.length;
        break;
    case MODEL_LOCKED:
        mr = source ? t->unreadable : t->unwritable;
        break;
    default:
        break;
    }
    return rnic_sge(&mr, 0, length);
}

static uint32_t encode_bind(Run *t, Side *s, uint8_t *out)
{
    struct rnic_bind_wqe bind = {
        .mw_stag = cpu_to_le32(s->window),
        .mr_stag = cpu_to_le32(t->plain.stag),
        .va = cpu_to_le64(t->plain.va),
        .length = cpu_to_le64(t->plain.length),
        .access = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE,
    };

    memcpy(out, &bind, sizeof(bind));
    return 1;
}

static uint32_t encode_fast_register(Run *t, Side *s, uint8_t *out)
{
    struct rnic_fast_register_wqe args = {
        .stag = cpu_to_le32(s->region.stag),
        .va = cpu_to_le64(s->region.va),
        .length = cpu_to_le64(BUFFER),
        .access = RNIC_TEST_ACCESS_ALL,
        .pages = {
            .addr = cpu_to_le64(s->region.bus[0]),
            .count = cpu_to_le32(1),
            .level = RNIC_PAGE_LIST_INLINE,
            .page_shift = 12,
        },
    };

    memcpy(out, &args, sizeof(args));
    return 2;
}

static uint8_t flags_of(const ModelWr *wr)
{
    return (wr->signaled ? RNIC_WQE_SIGNALED : 0) |
           (wr->read_fence ? RNIC_WQE_READ_FENCE : 0) |
           (wr->local_fence ? RNIC_WQE_LOCAL_FENCE : 0);
}

static uint8_t opcode_of(const ModelWr *wr)
{
    static const uint8_t opcodes[] = {
        [MODEL_SEND] = RNIC_SQ_SEND,
        [MODEL_WRITE] = RNIC_SQ_RDMA_WRITE,
        [MODEL_READ] = RNIC_SQ_RDMA_READ,
        [MODEL_FAST_REGISTER] = RNIC_SQ_FAST_REGISTER,
        [MODEL_BIND] = RNIC_SQ_BIND_MW,
        [MODEL_INVALIDATE_REGION] = RNIC_SQ_LOCAL_INVALIDATE,
        [MODEL_INVALIDATE_WINDOW] = RNIC_SQ_LOCAL_INVALIDATE,
    };

    return wr->malformed ? 99 : opcodes[wr->kind];
}

/* Returns units. */
static uint32_t encode(Run *t, Side *s, const ModelWr *wr, uint8_t *wqe)
{
    bool data = wr->kind <= MODEL_READ;
    RnicWr out = {
        .opcode = opcode_of(wr),
        .flags = flags_of(wr),
        .wr_id = wr->id,
        .num_sge = data,
        .remote_stag = wr->kind == MODEL_WRITE || wr->kind == MODEL_READ
                       ? CONNECTION_REMOTE_STAG : 0,
    };
    uint32_t units = 1;

    memset(wqe, 0, RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS);
    if (data) {
        out.sge[0] = sge_of(t, s, wr->target, wr->kind != MODEL_READ,
                            wr->length);
    } else if (wr->kind == MODEL_INVALIDATE_REGION) {
        out.invalidate_stag = s->region.stag;
    } else if (wr->kind == MODEL_INVALIDATE_WINDOW) {
        out.invalidate_stag = s->window;
    }
    rnic_encode_wr(&out, wqe);
    if (wr->kind == MODEL_BIND) {
        units = encode_bind(t, s, wqe + sizeof(struct rnic_sq_wqe));
    } else if (wr->kind == MODEL_FAST_REGISTER) {
        units = encode_fast_register(t, s, wqe + sizeof(struct rnic_sq_wqe));
    }
    ((struct rnic_sq_wqe *)wqe)->units = units;
    return units;
}

/* Chapter 7 leaves it open which one comes first, so a test orders them. */
static void set_local_fence(Run *t, const QpModel *m, ModelWr *wr)
{
    ModelTarget target = wr->kind == MODEL_INVALIDATE_REGION ? MODEL_REGION
                                                             : MODEL_WINDOW;

    wr->local_fence = model_in_use(m, target) || chance(t, 30);
}

/*
 * The right of a Read's sink is not spoilt: by the tables it is either a
 * completion error (C-15) or one of the Response.
 */
static ModelTarget random_local_target(Run *t, ModelKind kind)
{
    static const ModelTarget wrong[] = { MODEL_UNKNOWN, MODEL_BEYOND,
                                         MODEL_LOCKED };

    if (chance(t, 5)) {
        return wrong[below(t, kind == MODEL_READ ? 2 : 3)];
    }
    if (kind == MODEL_READ && chance(t, 15)) {
        return MODEL_WINDOW;
    }
    return chance(t, 15) ? MODEL_REGION : MODEL_PLAIN;
}

/* While the QP has to be silent nothing is posted that need not be. */
static ModelWr random_request(Run *t, const QpModel *m)
{
    ModelWr wr = {
        .id = t->next_id++,
        .kind = below(t, m->held ? MODEL_READ + 1 : MODEL_KINDS),
        .length = chance(t, 15) ? 0 : 1 + below(t, SHORT),
        .signaled = chance(t, 60),
        .malformed = !m->held && chance(t, 2),
    };

    if (wr.kind <= MODEL_READ) {
        wr.target = m->held ? MODEL_PLAIN : random_local_target(t, wr.kind);
        wr.read_fence = wr.kind != MODEL_READ && chance(t, 25);
    } else if (wr.kind >= MODEL_INVALIDATE_REGION) {
        set_local_fence(t, m, &wr);
    }
    return wr;
}

static void do_post(Run *t, Side *s)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    ModelWr wr = random_request(t, &s->model);
    uint32_t units = encode(t, s, &wr, wqe);

    if (s->model.sq.length >= QUEUE ||
        (s->model.held && wr.kind == MODEL_READ && !s->model.ord)) {
        return;
    }
    note(t, s, "post %" PRIu64 ": kind %u, target %u, length %u%s%s%s%s", wr.id,
         wr.kind, wr.target, wr.length, wr.signaled ? ", signaled" : "",
         wr.read_fence ? ", read fence" : "",
         wr.local_fence ? ", local fence" : "",
         wr.malformed ? ", malformed" : "");
    g_queue_push_tail(&s->units, GUINT_TO_POINTER(units));
    model_post(&s->model, &wr);
    rnic_store_wqe(t->r, &s->c.qp, wqe, units);
    rnic_ring_sq(t->r, &s->c.qp);
}

static void do_post_receive(Run *t, Side *s)
{
    static const ModelTarget targets[] = { MODEL_UNKNOWN, MODEL_BEYOND,
                                           MODEL_LOCKED };
    ModelReceive receive = {
        .id = t->next_id++,
        .target = chance(t, 8) ? targets[below(t, 3)] : MODEL_PLAIN,
        .length = 1 + below(t, SHORT),
    };
    struct rnic_sge sge = sge_of(t, s, receive.target, false, receive.length);

    if (s->model.rq.length >= QUEUE) {
        return;
    }
    note(t, s, "receive %" PRIu64 ": target %u, length %u", receive.id,
         receive.target, receive.length);
    model_post_receive(&s->model, &receive);
    rnic_post_recv(t->r, &s->c.qp, receive.id, 1, &sge);
}

/* ------------------------------------------------------------------ Modify QP */

static struct rnic_admin_sqe modify_command(const Side *s,
                                            const ModelModify *modify)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    QpModel wanted = s->model;

    wanted.read_enabled = modify->read_enabled;
    wanted.write_enabled = modify->write_enabled;
    sqe.modify_qp.qpn = cpu_to_le32(s->c.qp.number);
    sqe.modify_qp.mask =
        cpu_to_le32((modify->state ? RNIC_QP_MODIFY_STATE : 0) |
                    (modify->has_ord ? RNIC_QP_MODIFY_ORD : 0) |
                    (modify->has_ird ? RNIC_QP_MODIFY_IRD : 0) |
                    (modify->has_enables ? RNIC_QP_MODIFY_ENABLES : 0) |
                    (modify->undefined ? 1u << 30 : 0));
    sqe.modify_qp.next_state = state_of[modify->next];
    sqe.modify_qp.ord = cpu_to_le16(modify->ord);
    sqe.modify_qp.ird = cpu_to_le16(modify->ird);
    sqe.modify_qp.enables = cpu_to_le32(enables_of(&wanted));
    return sqe;
}

static void give_modify(Run *t, Side *s, const ModelModify *modify)
{
    struct rnic_admin_sqe sqe = modify_command(s, modify);
    guint allowed = model_modify(&s->model, modify);
    uint16_t status = rnic_admin(t->r, &sqe, NULL);

    note(t, s, "modify 0x%x: state %u, ORD %u, IRD %u, enables 0x%x: %u",
         le32_to_cpu(sqe.modify_qp.mask), modify->next, modify->ord,
         modify->ird, le32_to_cpu(sqe.modify_qp.enables), status);
    while (status == RNIC_ST_STILL_FLUSHING && allowed == MODEL_OK) {
        rnic_settle_fast(t->r);
        status = rnic_admin(t->r, &sqe, NULL);
    }
    g_assert_true(result_is(allowed, status));
}

/* ORD of a stream is not lowered to zero: see the IRD/ORD rules, 14. */
static void do_modify(Run *t, Side *s)
{
    QpModel *m = &s->model;
    ModelModify modify = {
        .state = chance(t, 70),
        .next = below(t, 5),
        .has_ord = chance(t, 25),
        .has_ird = chance(t, 15),
        .has_enables = chance(t, 15),
        .ord = chance(t, 10) ? MAX_ORD + 1 + below(t, 100)
                             : m->connected + below(t, 4),
        .ird = chance(t, 10) ? MAX_IRD + 1 + below(t, 100) : below(t, 4),
        .read_enabled = chance(t, 80),
        .write_enabled = chance(t, 80),
        .undefined = chance(t, 3),
    };

    give_modify(t, s, &modify);
}

/* ------------------------------------------------------------------- streams */

/* The side that goes second is silent at first: what need not be tells nothing. */
static bool may_be_passive(const QpModel *m)
{
    for (GList *at = m->sq.head; at; at = at->next) {
        const ModelWr *wr = &((ModelSlot *)at->data)->wr;

        if (wr->malformed || wr->kind > MODEL_READ ||
            wr->target != MODEL_PLAIN) {
            return false;
        }
    }
    return true;
}

static void do_connect(Run *t, Side *s)
{
    ConnectionOptions o = {
        .ird = 1 + below(t, 4),
        .ord = 1 + below(t, 4),
        .crc = chance(t, 30),
        .passive = may_be_passive(&s->model) && chance(t, 30),
    };

    note(t, s, "connect%s, ORD %u, IRD %u%s", o.passive ? ", second" : "",
         o.ord, o.ird, o.crc ? ", CRC" : "");
    s->fpdus = le64_to_cpu(rnic_query_qp(t->r, &s->c.qp).rx_fpdus);
    connection_connect(&s->c, &o);
    s->fin_seen = false;
    s->fin_sent = false;
    g_queue_clear_full(&s->reads, g_free);
    model_established(&s->model, !o.passive, o.ird, o.ord);
}

static void put_bad_send(Side *s, ModelMessage message)
{
    WireSegment segment = {
        .opcode = message == MODEL_IN_OPCODE ? 14 : WIRE_SEND,
        .last = true,
        .ddp_version = message == MODEL_IN_DDP_VERSION ? 2 : 1,
        .rdmap_version = message == MODEL_IN_RDMAP_VERSION ? 2 : 1,
        .qn = message == MODEL_IN_QUEUE_NUMBER ? 3 : 0,
        .msn = s->c.peer->send_msn,
    };

    if (message == MODEL_IN_MSN_AHEAD) {
        segment.msn++;
    } else if (message == MODEL_IN_MSN_PAST) {
        segment.msn--;
    }
    wire_put_segment(s->c.peer, &segment);
}

static void put_response(Side *s, const uint8_t *data)
{
    WireRead *read = g_queue_pop_head(&s->reads);

    wire_put_read_response(s->c.peer, read->sink_stag, read->sink_to, data,
                           read->size);
    g_free(read);
}

static void put_message(Run *t, Side *s, ModelMessage message,
                        ModelTarget target, uint32_t length)
{
    struct rnic_sge sge = sge_of(t, s, target, false, length);
    uint32_t stag = le32_to_cpu(sge.stag);
    uint64_t to = le64_to_cpu(sge.to);
    uint8_t data[BUFFER] = { };

    switch (message) {
    case MODEL_IN_SEND:
        wire_put_send(s->c.peer, WIRE_SEND, 0, data, length);
        break;
    case MODEL_IN_SEND_INVALIDATE:
        wire_put_send(s->c.peer, WIRE_SEND_INVALIDATE, stag, data, length);
        break;
    case MODEL_IN_WRITE:
        wire_put_write(s->c.peer, stag, to, data, length);
        break;
    case MODEL_IN_READ_REQUEST:
        wire_put_read_request(s->c.peer, &(WireRead) {
            .size = length, .source_stag = stag, .source_to = to });
        break;
    case MODEL_IN_READ_RESPONSE:
        put_response(s, data);
        break;
    case MODEL_IN_TERMINATE:
        wire_put_terminate(s->c.peer, 0x0207);
        break;
    default:
        put_bad_send(s, message);
        break;
    }
    s->fpdus++;
}

static ModelMessage random_message(Run *t, const Side *s)
{
    if (s->reads.length && chance(t, 45)) {
        return MODEL_IN_READ_RESPONSE;
    }
    if (chance(t, 90)) {
        return below(t, MODEL_IN_READ_REQUEST + 1);
    }
    return MODEL_IN_MSN_AHEAD + below(t, MODEL_MESSAGES - MODEL_IN_MSN_AHEAD);
}

/* What may be invalidated by the peer now, and is: the rest is MODEL_UNKNOWN. */
static ModelTarget random_to_invalidate(Run *t, const QpModel *m)
{
    bool rights = m->read_enabled || m->write_enabled;
    ModelTarget target = chance(t, 50) ? MODEL_REGION : MODEL_WINDOW;
    bool valid = target == MODEL_REGION ? m->region_valid : m->window_valid;

    if (valid && rights && !model_memory_unsettled(m) &&
        !model_in_use(m, target)) {
        return target;
    }
    return MODEL_UNKNOWN;
}

static ModelTarget random_remote_target(Run *t, const QpModel *m)
{
    static const ModelTarget wrong[] = { MODEL_UNKNOWN, MODEL_BEYOND,
                                         MODEL_LOCKED };

    if (chance(t, 6)) {
        return wrong[below(t, 3)];
    }
    if (chance(t, 40) && !model_memory_unsettled(m)) {
        return chance(t, 50) ? MODEL_REGION : MODEL_WINDOW;
    }
    return MODEL_PLAIN;
}

/* Of two errors at once either may be told: there is one at most. */
static uint32_t fitting_length(Run *t, const QpModel *m, ModelMessage message,
                               ModelTarget target)
{
    const ModelReceive *receive = model_next_receive(m);
    uint32_t length = chance(t, 15) ? 0 : 1 + below(t, SHORT);
    bool send = message <= MODEL_IN_SEND_INVALIDATE;
    bool one_error = receive && receive->target == MODEL_PLAIN &&
                     message == MODEL_IN_SEND;

    if (send && receive && !(one_error && chance(t, 10))) {
        length = MIN(length, receive->length);
    }
    if (message == MODEL_IN_SEND_INVALIDATE && receive &&
        receive->target != MODEL_PLAIN) {
        length = target == MODEL_UNKNOWN ? 0 : length;
    }
    return length;
}

/* A message that can only be answered by an error is made less often. */
static bool is_good_enough(Run *t, const QpModel *m, ModelMessage message,
                           ModelTarget target)
{
    bool send = message <= MODEL_IN_SEND_INVALIDATE ||
                message == MODEL_IN_MSN_AHEAD || message == MODEL_IN_MSN_PAST;

    if (message == MODEL_IN_MSN_AHEAD || message == MODEL_IN_MSN_PAST) {
        return model_next_receive(m);
    }
    if (send && !model_next_receive(m)) {
        return chance(t, 15);
    }
    if (message == MODEL_IN_SEND_INVALIDATE && target == MODEL_UNKNOWN) {
        /* Without a right that is wrong, too. */
        return (m->read_enabled || m->write_enabled) && chance(t, 15);
    }
    if ((target == MODEL_REGION && !m->region_valid) ||
        (target == MODEL_WINDOW && !m->window_valid)) {
        return chance(t, 15);
    }
    return true;
}

static void do_incoming(Run *t, Side *s)
{
    QpModel *m = &s->model;
    ModelMessage message = random_message(t, s);
    ModelTarget target = MODEL_PLAIN;
    uint32_t length;

    if (message == MODEL_IN_SEND_INVALIDATE) {
        target = random_to_invalidate(t, m);
    } else if (message == MODEL_IN_WRITE || message == MODEL_IN_READ_REQUEST) {
        target = random_remote_target(t, m);
    }
    if (s->fin_sent || !is_good_enough(t, m, message, target)) {
        return;
    }
    length = fitting_length(t, m, message, target);
    note(t, s, "peer: message %u, target %u, length %u", message, target,
         length);
    put_message(t, s, message, target, length);
    model_incoming(m, message, target, length);
}

static void do_fin(Run *t, Side *s)
{
    note(t, s, "peer: FIN");
    s->fin_sent = true;
    wire_shutdown(s->c.peer);
    model_peer_fin(&s->model);
}

static void do_reset(Run *t, Side *s)
{
    note(t, s, "peer: RST");
    wire_abort(s->c.peer);
    s->c.peer = NULL;
    model_peer_reset(&s->model);
}

/* Longer than a close may take. */
static void do_time(Run *t, Side *s)
{
    note(t, s, "11 seconds pass");
    rnic_pass_time(t->r, 11);
    for (int i = 0; i < SIDES; i++) {
        model_time_passes(&t->side[i].model);
    }
    for (int i = 0; i < SIDES; i++) {
        sync_with_model(t, &t->side[i]);
    }
}

/* ------------------------------------------------------------------ sequences */

/* Each state's share of the kinds of steps, in percent; the rest is Modify QP. */
static const struct {
    unsigned post, receive, connect, incoming, fin, reset, time;
} shares[] = {
    [MODEL_IDLE] = { .post = 30, .receive = 20, .connect = 35 },
    [MODEL_RTS] = { .post = 40, .receive = 18, .incoming = 32, .fin = 3,
                    .reset = 1 },
    [MODEL_CLOSING] = { .post = 10, .receive = 15, .incoming = 10, .fin = 25,
                        .reset = 10, .time = 3 },
    [MODEL_TERMINATE] = { .post = 15, .receive = 15, .incoming = 15, .fin = 15,
                          .reset = 10, .time = 3 },
    [MODEL_ERROR] = { .post = 20, .receive = 20 },
};

static void do_step(Run *t, Side *s)
{
    ModelState state = s->model.state;
    unsigned n = below(t, 100);

#define SHARE(of) (n < shares[state].of ? true : (n -= shares[state].of, false))
    if (SHARE(post)) {
        do_post(t, s);
    } else if (SHARE(receive)) {
        do_post_receive(t, s);
    } else if (SHARE(connect)) {
        do_connect(t, s);
    } else if (SHARE(incoming)) {
        do_incoming(t, s);
    } else if (SHARE(fin)) {
        do_fin(t, s);
    } else if (SHARE(reset)) {
        do_reset(t, s);
    } else if (SHARE(time)) {
        do_time(t, s);
    } else {
        do_modify(t, s);
    }
#undef SHARE
}

static void do_sequence(Run *t)
{
    unsigned steps = 6 + below(t, 20);

    for (int i = 0; i < SIDES; i++) {
        create_qp(t, &t->side[i]);
    }
    for (unsigned i = 0; i < steps; i++) {
        Side *s = &t->side[below(t, SIDES)];

        do_step(t, s);
        sync_with_model(t, s);
    }
    for (int i = 0; i < SIDES; i++) {
        sync_with_model(t, &t->side[i]);
        destroy_qp(t, &t->side[i]);
    }
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
    const char *value = g_getenv(name);

    return value ? g_ascii_strtoull(value, NULL, 0) : otherwise;
}

static void prepare(Run *t)
{
    g_autofree char *properties = g_strdup_printf(
        ",mpa-rtr=off,max-ord=%u,max-ird=%u", MAX_ORD, MAX_IRD);

    t->r = rnic_boot_up(properties);
    rnic_create_cq(t->r, &t->send_cq, 128, RNIC_NO_VECTOR);
    rnic_create_cq(t->r, &t->recv_cq, 128, RNIC_NO_VECTOR);
    rnic_create_mr(t->r, &t->plain, t->r->pd, BUFFER,
                   RNIC_TEST_ACCESS_ALL | RNIC_ACCESS_MW_BIND);
    rnic_create_mr(t->r, &t->unreadable, t->r->pd, BUFFER,
                   RNIC_ACCESS_LOCAL_WRITE);
    rnic_create_mr(t->r, &t->unwritable, t->r->pd, BUFFER,
                   RNIC_ACCESS_LOCAL_READ);
    for (int i = 0; i < SIDES; i++) {
        Side *s = &t->side[i];

        s->name = 'A' + i;
        s->memory = rnic_alloc(t->r, QP_MEMORY);
        s->region = stag_region(t->r, 1);
        renew_region(t, s);
        renew_window(t, s);
    }
}

static void test_random(void)
{
    unsigned count = from_environment("RNIC_MODEL_SEQUENCES", 300);
    Run t = { .next_id = 1, .log = g_string_new(NULL) };
    uint32_t seed = from_environment("RNIC_MODEL_SEED", g_random_int());

    g_test_message("RNIC_MODEL_SEED=%u RNIC_MODEL_SEQUENCES=%u", seed, count);
    prepare(&t);
    qtest_add_abrt_handler(show_sequence, &t);
    for (t.sequence = 0; t.sequence < count; t.sequence++) {
        t.seed = seed + t.sequence;
        t.rand = g_rand_new_with_seed(t.seed);
        g_string_truncate(t.log, 0);
        do_sequence(&t);
        g_rand_free(t.rand);
    }
    qtest_remove_abrt_handler(&t);
    rnic_quit(t.r);
    g_string_free(t.log, true);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/model/random", test_random);
    return g_test_run();
}
