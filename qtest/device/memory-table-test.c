/*
 * rnic: every kind of access against every kind of STag
 *
 * What must come of each pair is worked out here by the rules of chapter 7, in
 * the order "Access checks" of the project's requirements, from what the STag
 * was made as; the device is then asked.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define RR RNIC_ACCESS_REMOTE_READ
#define RW RNIC_ACCESS_REMOTE_WRITE
#define LR RNIC_ACCESS_LOCAL_READ
#define LW RNIC_ACCESS_LOCAL_WRITE
#define MB RNIC_ACCESS_MW_BIND

typedef enum Kind {
    UNKNOWN,                    /* no such index */
    GONE,                       /* was one, deallocated */
    ZERO,
    REGION,
    SHARED,
    WINDOW,
} Kind;

typedef enum State {
    VALID,
    FRESH,                      /* never Valid */
    INVALIDATED,
} State;

/* An STag as the table knows it. */
typedef struct Thing {
    Kind kind;
    State state;
    uint8_t access;
    bool foreign;               /* region, Invalid window: another PD;
                                   Valid window: another QP of this PD */
    bool bad_key;
    bool bound;                 /* a region with a window bound to it */
} Thing;

typedef enum Access {
    SEND_SOURCE,
    WRITE_SOURCE,
    RECEIVE_SINK,
    PEER_WRITE,
    PEER_READ,
    READ_SINK,
    LOCAL_INVALIDATE,
    SEND_INVALIDATE,
    SEND_SE_INVALIDATE,
    READ_INVALIDATE,
    FAST_REGISTER,
    BIND_OVER,                  /* the STag is the region */
    BIND,                       /* the STag is the window */
    ACCESSES,
} Access;

static const char *const names[ACCESSES] = {
    "source of a Send", "source of a Write", "sink of a receive",
    "peer's Write", "peer's Read", "sink of a Read", "Invalidate Local STag",
    "peer's Send with Invalidate", "peer's Send with SE and Invalidate",
    "Read with Invalidate", "Fast-Register", "Bind over it", "Bind it",
};

typedef enum Verdict {
    ALLOWED,
    INVALID_STAG,
    INVALID_REGION,
    INVALID_WINDOW,
    INVALID_PD,
    RIGHTS,
    NOT_INVALIDATED,            /* it exists, but no Invalidate may have it */
    NOT_INVALID,
    NOT_PRIVILEGED,
    NOT_ENABLED,                /* the QP's attribute for the message */
} Verdict;

/* -------------------------------------------------------------- the rules */

static bool is_region(const Thing *t)
{
    return t->kind == REGION || t->kind == SHARED;
}

static bool exists(const Thing *t)
{
    return is_region(t) || t->kind == WINDOW;
}

/* "Local access" */
static Verdict local_rule(const Thing *t, uint8_t need, uint32_t enables)
{
    if (t->kind == ZERO && !t->bad_key) {
        return enables & RNIC_QP_PRIVILEGED ? ALLOWED : INVALID_STAG;
    }
    if (!is_region(t) || t->state != VALID || t->bad_key) {
        return INVALID_STAG;
    }
    return t->foreign ? INVALID_PD : t->access & need ? ALLOWED : RIGHTS;
}

/* "Remote access" */
static Verdict remote_rule(const Thing *t, uint8_t need, bool enabled)
{
    if (!enabled) {
        return NOT_ENABLED;
    }
    if (!exists(t) || t->state != VALID || t->bad_key) {
        return INVALID_STAG;
    }
    return t->foreign ? INVALID_PD : t->access & need ? ALLOWED : RIGHTS;
}

/* "Invalidate" */
static Verdict invalidate_rule(const Thing *t, bool incoming,
                               uint32_t enables)
{
    if (t->kind == UNKNOWN || t->kind == GONE ||
        (t->kind == ZERO && t->bad_key)) {
        return INVALID_STAG;
    }
    if (t->kind == ZERO || t->kind == SHARED ||
        (t->state == VALID && t->bad_key)) {
        return NOT_INVALIDATED;
    }
    if (t->foreign) {
        return INVALID_PD;
    }
    if (t->bound) {
        return NOT_INVALIDATED;
    }
    if (incoming && (!(enables & (RNIC_QP_ENABLE_READ |
                                  RNIC_QP_ENABLE_WRITE)) ||
                     !(t->access & (RR | RW)))) {
        return RIGHTS;
    }
    return ALLOWED;
}

/* "Fast-Register" */
static Verdict fast_register_rule(const Thing *t, uint32_t enables)
{
    if (!(enables & RNIC_QP_PRIVILEGED)) {
        return NOT_PRIVILEGED;
    }
    if (t->kind != REGION) {
        return INVALID_STAG;
    }
    return t->foreign ? INVALID_PD
         : t->state == VALID ? NOT_INVALID : ALLOWED;
}

/* "Window bind", of a good window with both rights over the thing */
static Verdict bind_over_rule(const Thing *t, uint32_t enables)
{
    if (!(enables & RNIC_QP_ENABLE_BIND)) {
        return RIGHTS;
    }
    if (!is_region(t) || t->state != VALID || t->bad_key) {
        return INVALID_REGION;
    }
    if (t->foreign) {
        return INVALID_PD;
    }
    return (t->access & MB) && (t->access & LR) && (t->access & LW)
           ? ALLOWED : RIGHTS;
}

/* "Window bind", of the thing over a good region; the key is a new one */
static Verdict bind_rule(const Thing *t, uint32_t enables)
{
    if (!(enables & RNIC_QP_ENABLE_BIND)) {
        return RIGHTS;
    }
    if (t->kind != WINDOW) {
        return INVALID_WINDOW;
    }
    return t->state == VALID ? NOT_INVALID
         : t->foreign ? INVALID_PD : ALLOWED;
}

static Verdict rule(const Thing *t, Access access, uint32_t enables)
{
    bool read = enables & RNIC_QP_ENABLE_READ;
    bool write = enables & RNIC_QP_ENABLE_WRITE;
    Verdict verdict;

    switch (access) {
    case SEND_SOURCE:
    case WRITE_SOURCE:
        return local_rule(t, LR, enables);
    case RECEIVE_SINK:
        return local_rule(t, LW, enables);
    case PEER_WRITE:
    case READ_SINK:
        return remote_rule(t, RW, write);
    case PEER_READ:
        return remote_rule(t, RR, read);
    case LOCAL_INVALIDATE:
        return invalidate_rule(t, false, enables);
    case SEND_INVALIDATE:
    case SEND_SE_INVALIDATE:
        return invalidate_rule(t, true, enables);
    case READ_INVALIDATE:
        verdict = remote_rule(t, RW, write);
        return verdict == ALLOWED ? invalidate_rule(t, false, enables)
                                  : verdict;
    case FAST_REGISTER:
        return fast_register_rule(t, enables);
    case BIND_OVER:
        return bind_over_rule(t, enables);
    case BIND:
        return bind_rule(t, enables);
    default:
        g_assert_not_reached();
    }
}

static uint8_t completion_of(Verdict verdict)
{
    switch (verdict) {
    case ALLOWED:
        return RNIC_WC_SUCCESS;
    case INVALID_STAG:
    case NOT_INVALIDATED:
        return RNIC_WC_INVALID_STAG;
    case INVALID_REGION:
        return RNIC_WC_INVALID_REGION;
    case INVALID_WINDOW:
        return RNIC_WC_INVALID_WINDOW;
    case INVALID_PD:
        return RNIC_WC_INVALID_PD;
    case RIGHTS:
        return RNIC_WC_ACCESS_VIOLATION;
    case NOT_INVALID:
        return RNIC_WC_STAG_NOT_INVALID;
    case NOT_PRIVILEGED:
        return RNIC_WC_NOT_PRIVILEGED;
    default:
        g_assert_not_reached();
    }
}

/* ------------------------------------------------------- making the things */

typedef struct World {
    Connection *c;
    Connection *other;          /* a QP of the same PD */
    Rnic *r;
    uint32_t foreign_pd;
    StagRegion page;            /* all things are over this page */
    StagRegion good_region;
    uint32_t good_window;
    struct rnic_mr_attr region_attr;    /* of the good region, before the access */
    uint32_t reads;             /* requests since the stream began */
    uint32_t all;               /* what the QP was created with */
    uint32_t enables;
    unsigned cases, refused;
} World;

/* What was made for a thing. */
typedef struct Made {
    uint32_t stag;              /* as made */
    uint32_t name;              /* as the access names it */
    uint64_t to;
    uint32_t more[2];           /* other STags to take away before it */
} Made;

static uint32_t region_of(World *w, uint32_t pd, uint8_t access)
{
    StagRegion region = w->page;

    region.pd = pd;
    region.access = access;
    stag_register(w->r, &region);
    return region.stag;
}

static void make_invalid(World *w, Connection *c, uint32_t stag)
{
    g_assert_cmpuint(stag_invalidate(c, stag), ==, RNIC_WC_SUCCESS);
}

static void make_region(World *w, const Thing *t, Made *made)
{
    uint32_t pd = t->foreign ? w->foreign_pd : w->r->pd;
    StagRegion copy = w->page;

    if (t->state == FRESH) {
        made->stag = stag_alloc(w->r, pd, 1, 0x31, true);
        return;
    }
    /* Invalidated by one of its PD, then moved. */
    made->stag = region_of(w, t->state == VALID ? pd : w->r->pd, t->access);
    if (t->kind == SHARED) {
        copy.pd = pd;
        copy.access = t->access;
        stag_share(w->r, made->stag, &copy);
        stag_dealloc(w->r, made->stag);
        made->stag = copy.stag;
    }
    if (t->state == INVALIDATED) {
        make_invalid(w, w->c, made->stag);
    }
    if (t->bound) {
        StagBind bind = { .mr = made->stag, .va = w->page.va, .length = 8,
                          .access = t->access & LR ? RR : RW };

        made->more[0] = bind.mw = stag_alloc_mw(w->r, w->r->pd, 1);
        g_assert_cmpuint(stag_bind(w->c, &bind), ==, RNIC_WC_SUCCESS);
    }
}

static void make_window(World *w, const Thing *t, Made *made)
{
    uint32_t pd = t->foreign && t->state == FRESH ? w->foreign_pd : w->r->pd;
    Connection *c = t->foreign ? w->other : w->c;
    StagBind bind = { .mr = w->good_region.stag, .va = w->page.va,
                      .length = 4096, .access = t->access };

    made->stag = bind.mw = stag_alloc_mw(w->r, pd, 0x31);
    if (t->state != FRESH) {
        g_assert_cmpuint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
    }
    if (t->state == INVALIDATED) {
        make_invalid(w, c, made->stag);
    }
}

static Made make(World *w, const Thing *t)
{
    Made made = { .to = w->page.va };

    switch (t->kind) {
    case UNKNOWN:
        made.stag = STAG_UNKNOWN;
        break;
    case GONE:
        made.stag = region_of(w, w->r->pd, LR | LW | RR | RW | MB);
        stag_dealloc(w->r, made.stag);
        break;
    case ZERO:
        made.to = w->page.bus[0];
        break;
    case REGION:
    case SHARED:
        make_region(w, t, &made);
        break;
    case WINDOW:
        make_window(w, t, &made);
        break;
    }
    made.name = t->bad_key ? made.stag ^ 0x40 : made.stag;
    return made;
}

static void unmake(World *w, const Thing *t, const Made *made)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(made->more); i++) {
        if (made->more[i]) {
            stag_dealloc(w->r, made->more[i]);
        }
    }
    if (exists(t)) {
        stag_dealloc(w->r, made->stag);
    }
}

/* All that the device says of it; zero of what does not exist. */
static struct rnic_mr_attr attr_of(World *w, const Thing *t, uint32_t stag)
{
    return !exists(t) ? (struct rnic_mr_attr) { }
         : t->kind == WINDOW ? stag_query_mw(w->r, stag)
                             : stag_query_mr(w->r, stag);
}

/* ---------------------------------------------------------- the accesses */

static const uint8_t before[8] = "original", after[8] = "intruder";

static void renew(World *w)
{
    stag_reconnect(w->c);
    w->reads = 0;
}

static RnicWr wr_of(const Made *made, uint8_t opcode)
{
    return (RnicWr) {
        .opcode = opcode,
        .flags = RNIC_WQE_SIGNALED,
        .wr_id = 6,
        .num_sge = 1,
        .remote_stag = CONNECTION_REMOTE_STAG,
        .sge[0] = {
            .stag = cpu_to_le32(made->name),
            .to = cpu_to_le64(made->to),
            .length = cpu_to_le32(8),
        },
    };
}

static void expect_sq(World *w, Verdict verdict)
{
    rnic_expect_cqe(w->r, &w->c->send_cq, 6, completion_of(verdict));
    if (verdict != ALLOWED) {
        wire_expect_terminate(w->c->peer, 0);
    }
}

/* A refusal that is no WR's: an event and a Terminate. */
static void expect_event(World *w, Verdict verdict, bool read)
{
    static const struct {
        uint16_t event, code;
    } tagged[] = {
        [INVALID_STAG] = { RNIC_AE_TAGGED_INVALID_STAG, 0x1100 },
        [INVALID_PD] = { RNIC_AE_TAGGED_INVALID_PD, 0x1102 },
        [RIGHTS] = { RNIC_AE_TAGGED_ACCESS, 0x1102 },
        [NOT_ENABLED] = { RNIC_AE_WRITE_NOT_ENABLED, 0x1102 },
    }, source[] = {
        [INVALID_STAG] = { RNIC_AE_IRRQ_INVALID_STAG, 0x0100 },
        [INVALID_PD] = { RNIC_AE_IRRQ_INVALID_PD, 0x0103 },
        [RIGHTS] = { RNIC_AE_IRRQ_ACCESS, 0x0102 },
        [NOT_ENABLED] = { RNIC_AE_READ_NOT_ENABLED, 0x1201 },
    };

    wire_expect_terminate(w->c->peer, read ? source[verdict].code
                                           : tagged[verdict].code);
    rnic_expect_async(w->r, read ? source[verdict].event
                                 : tagged[verdict].event, w->c->qp.number);
}

static void do_source(World *w, const Made *made, Access access,
                      Verdict verdict)
{
    RnicWr wr = wr_of(made, access == SEND_SOURCE ? RNIC_SQ_SEND
                                                  : RNIC_SQ_RDMA_WRITE);
    WireSegment segment;

    rnic_post_send(w->r, &w->c->qp, &wr);
    if (verdict == ALLOWED) {
        wire_get_segment(w->c->peer, &segment);
        g_assert_cmpmem(segment.payload, segment.length, before, 8);
        g_free(segment.payload);
    }
    expect_sq(w, verdict);
}

static void do_receive(World *w, const Made *made, Verdict verdict)
{
    RnicWr wr = wr_of(made, 0);

    rnic_post_recv(w->r, &w->c->qp, 6, 1, wr.sge);
    wire_put_send(w->c->peer, WIRE_SEND, 0, after, 8);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 6, completion_of(verdict));
    if (verdict != ALLOWED) {
        wire_expect_terminate(w->c->peer, 0);
    }
}

static void do_peer_write(World *w, const Made *made, Verdict verdict)
{
    wire_put_write(w->c->peer, made->name, made->to, after, 8);
    if (verdict != ALLOWED) {
        expect_event(w, verdict, false);
        return;
    }
    connection_recv(w->c, 7, 64, 8);    /* behind it, to wait for it */
    wire_put_send(w->c->peer, WIRE_SEND, 0, "done", 4);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 7, RNIC_WC_SUCCESS);
}

static void do_peer_read(World *w, const Made *made, Verdict verdict)
{
    WireRead read = { .size = 8, .source_stag = made->name,
                      .source_to = made->to };
    uint8_t got[8];

    wire_put_read_request(w->c->peer, &read);
    if (verdict != ALLOWED) {
        expect_event(w, verdict, true);
        return;
    }
    wire_get_tagged(w->c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    g_assert_cmpmem(got, 8, before, 8);
}

/*
 * That the sink is not there is known before the request goes out
 * (V8.1.2.2-3); what QP and sink do not permit, when the response comes
 * (V7.4.2-6).
 */
static void do_read(World *w, const Thing *t, const Made *made, Access access,
                    Verdict verdict)
{
    RnicWr wr = wr_of(made, access == READ_SINK ? RNIC_SQ_RDMA_READ
                                                : RNIC_SQ_RDMA_READ_INVALIDATE);
    Verdict sink = remote_rule(t, RW, true);
    WireRead read;

    rnic_post_send(w->r, &w->c->qp, &wr);
    if (sink != ALLOWED && sink != RIGHTS) {
        expect_sq(w, sink);
        return;
    }
    wire_get_read_request(w->c->peer, ++w->reads, &read);
    g_assert_cmphex(read.sink_stag, ==, made->name);
    g_assert_cmphex(read.sink_to, ==, made->to);
    wire_put_read_response(w->c->peer, read.sink_stag, read.sink_to, after,
                           8);
    if (verdict == NOT_ENABLED || verdict == RIGHTS) {
        expect_event(w, verdict, false);
        rnic_expect_cqe(w->r, &w->c->send_cq, 6, RNIC_WC_FLUSHED);
    } else {
        expect_sq(w, verdict);
    }
}

static void do_send_invalidate(World *w, const Made *made, Access access,
                               Verdict verdict)
{
    static const uint16_t codes[] = {
        [INVALID_STAG] = 0x0209, [NOT_INVALIDATED] = 0x0109,
        [INVALID_PD] = 0x0109, [RIGHTS] = 0x0102,
    };
    struct rnic_cqe cqe;
    WireTerminate t;

    connection_recv(w->c, 7, 64, 8);
    wire_put_send(w->c->peer, access == SEND_INVALIDATE
                              ? WIRE_SEND_INVALIDATE
                              : WIRE_SEND_SE_INVALIDATE,
                  made->name, after, 8);
    rnic_cq_wait(w->r, &w->c->recv_cq, &cqe);
    if (verdict == ALLOWED) {
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.stag), ==, made->name);
        return;
    }
    g_assert_cmpint(cqe.status, ==, RNIC_WC_INVALIDATE_STAG);
    wire_get_terminate(w->c->peer, &t);
    /* A QP without either right may say that first. */
    if (w->enables & (RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE) ||
        t.code != codes[RIGHTS]) {
        g_assert_cmphex(t.code, ==, codes[verdict]);
    }
}

static void do_local_work(World *w, const Made *made, Access access,
                          Verdict verdict)
{
    StagRegion region = w->page;
    StagBind bind = { .mr = made->name, .mw = w->good_window,
                      .va = w->page.va, .length = 8, .access = RR | RW };

    switch (access) {
    case LOCAL_INVALIDATE:
        stag_post_invalidate(w->c, 6, made->name);
        break;
    case FAST_REGISTER:
        region.stag = made->name;
        stag_post_fast_register(w->c, 6, &region);
        break;
    case BIND:
        bind.mr = w->good_region.stag;
        bind.mw = made->name;
        /* fall through */
    default:
        stag_post_bind(w->c, 6, &bind);
        break;
    }
    expect_sq(w, verdict);
}

static void run_access(World *w, const Thing *t, const Made *made,
                       Access access, Verdict verdict)
{
    switch (access) {
    case SEND_SOURCE:
    case WRITE_SOURCE:
        do_source(w, made, access, verdict);
        break;
    case RECEIVE_SINK:
        do_receive(w, made, verdict);
        break;
    case PEER_WRITE:
        do_peer_write(w, made, verdict);
        break;
    case PEER_READ:
        do_peer_read(w, made, verdict);
        break;
    case READ_SINK:
    case READ_INVALIDATE:
        do_read(w, t, made, access, verdict);
        break;
    case SEND_INVALIDATE:
    case SEND_SE_INVALIDATE:
        do_send_invalidate(w, made, access, verdict);
        break;
    default:
        do_local_work(w, made, access, verdict);
        break;
    }
}

/* ------------------------------------------------------------- one case */

static bool placed(const Thing *t, Access access, uint32_t enables)
{
    switch (access) {
    case RECEIVE_SINK:
    case PEER_WRITE:
    case READ_SINK:
        return rule(t, access, enables) == ALLOWED;
    case READ_INVALIDATE:
        return rule(t, READ_SINK, enables) == ALLOWED;
    default:
        return false;
    }
}

static bool valid_after(const Thing *t, Access access, Verdict verdict)
{
    if (verdict == ALLOWED) {
        switch (access) {
        case LOCAL_INVALIDATE:
        case SEND_INVALIDATE:
        case SEND_SE_INVALIDATE:
        case READ_INVALIDATE:
            return false;
        case FAST_REGISTER:
        case BIND:
            return true;
        default:
            break;
        }
    }
    return t->state == VALID;
}

static void set_enables(World *w, uint32_t enables)
{
    if (enables == w->enables) {
        return;
    }
    g_assert_cmpuint(rnic_modify_qp_enables(w->r, &w->c->qp, enables), ==,
                     RNIC_ST_OK);
    w->enables = enables;
}

/* STag zero has no query: what it is good for, another QP does. */
static void assert_zero_works(World *w)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 9, .num_sge = 1,
                  .remote_stag = CONNECTION_REMOTE_STAG };
    uint8_t got[8], now[8];

    wr.sge[0].to = cpu_to_le64(w->page.bus[0]);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(w->r, &w->other->qp, &wr);
    g_assert_cmpuint(connection_get_write(w->other, 0, got, 8), ==, 8);
    rnic_expect_cqe(w->r, &w->other->send_cq, 9, RNIC_WC_SUCCESS);
    rnic_mem_read(w->r, w->page.bus[0], now, 8);
    g_assert_cmpmem(got, 8, now, 8);
}

/* The QP is in Terminate; of the STag, and of what it was tried with, nothing changed. */
static void assert_refused(World *w, const Thing *t, const Made *made,
                           const struct rnic_mr_attr *as_made)
{
    struct rnic_mr_attr attr = attr_of(w, t, made->stag);

    g_assert_cmpmem(&attr, sizeof(attr), as_made, sizeof(*as_made));
    attr = stag_query_mr(w->r, w->good_region.stag);
    g_assert_cmpmem(&attr, sizeof(attr), &w->region_attr,
                    sizeof(w->region_attr));
    attr = stag_query_mw(w->r, w->good_window);
    g_assert_cmpint(attr.valid, ==, 0);
    g_assert_cmphex(attr.mr_stag, ==, 0);
    g_assert_cmpint(rnic_qp_state(w->r, &w->c->qp), ==, RNIC_QPS_TERMINATE);
}

static void run_case(World *w, const Thing *t, Access access,
                     uint32_t enables)
{
    Verdict verdict = rule(t, access, enables);
    struct rnic_mr_attr as_made;
    uint8_t now[8];
    Made made;

    g_test_message("%s: kind %d state %d access %x%s%s%s enables %x -> %d",
                   names[access], t->kind, t->state, t->access,
                   t->foreign ? " foreign" : "", t->bad_key ? " key" : "",
                   t->bound ? " bound" : "", enables, verdict);
    set_enables(w, w->all);
    made = make(w, t);
    set_enables(w, enables);
    as_made = attr_of(w, t, made.stag);
    w->region_attr = stag_query_mr(w->r, w->good_region.stag);
    rnic_mem_write(w->r, w->page.bus[0], before, 8);
    run_access(w, t, &made, access, verdict);
    rnic_mem_read(w->r, w->page.bus[0], now, 8);
    g_assert_cmpmem(now, 8, placed(t, access, enables) ? after : before, 8);
    if (exists(t)) {
        g_assert_cmpint(attr_of(w, t, made.stag).valid, ==,
                        valid_after(t, access, verdict));
    }
    if (t->kind == ZERO) {
        assert_zero_works(w);
    }
    if (access == BIND_OVER) {
        bool bound = stag_query_mw(w->r, w->good_window).valid;

        g_assert_cmpint(bound, ==, verdict == ALLOWED);
        if (bound) {
            make_invalid(w, w->c, w->good_window);
        }
    }
    if (verdict != ALLOWED) {
        assert_refused(w, t, &made, &as_made);
        renew(w);
        w->refused++;
    }
    unmake(w, t, &made);
    w->cases++;
}

/* ------------------------------------------------------------- the table */

#define ALL (LR | LW | RR | RW | MB)

static const Thing things[] = {
    { UNKNOWN }, { GONE }, { ZERO }, { ZERO, .bad_key = true },
    /* Figure 18 */
    { REGION, .access = LR | MB }, { REGION, .access = LW | MB },
    { REGION, .access = LR | LW | MB }, { REGION, .access = LR | RR | MB },
    { REGION, .access = LW | RW | MB },
    { REGION, .access = LR | LW | RR | MB },
    { REGION, .access = LR | LW | RW | MB }, { REGION, .access = ALL },
    { REGION, .access = LR | LW | RR | RW },
    { REGION, .access = ALL, .foreign = true },
    { REGION, .access = ALL, .bad_key = true },
    { REGION, .access = ALL, .foreign = true, .bad_key = true },
    { REGION, .access = LR | MB, .foreign = true },
    { REGION, .access = ALL, .bound = true },
    { REGION, .access = LR | LW | MB, .bound = true },
    { REGION, FRESH }, { REGION, FRESH, .foreign = true },
    { REGION, INVALIDATED, .access = ALL },
    { REGION, INVALIDATED, .access = LR | LW },
    { REGION, INVALIDATED, .access = ALL, .bad_key = true },
    { SHARED, .access = LR | MB }, { SHARED, .access = LW | MB },
    { SHARED, .access = LR | RR }, { SHARED, .access = LW | RW | MB },
    { SHARED, .access = ALL }, { SHARED, .access = ALL, .foreign = true },
    { SHARED, .access = ALL, .bad_key = true },
    { SHARED, .access = ALL, .bound = true },
    { WINDOW, .access = RR }, { WINDOW, .access = RW },
    { WINDOW, .access = RR | RW },
    { WINDOW, .access = RR | RW, .bad_key = true },
    { WINDOW, .access = RR | RW, .foreign = true },
    { WINDOW, .access = RR, .foreign = true },
    { WINDOW, .access = RR | RW, .foreign = true, .bad_key = true },
    { WINDOW, FRESH }, { WINDOW, FRESH, .foreign = true },
    { WINDOW, FRESH, .bad_key = true },
    { WINDOW, INVALIDATED, .access = RR | RW },
};

static void world_init(World *w, uint32_t enables)
{
    ConnectionOptions options = stag_options;

    *w = (World) { .all = enables, .enables = enables };
    options.enables = enables;
    w->c = connection_new(&options);
    w->r = w->c->r;
    w->other = connection_prepare_second(w->c, &stag_options);
    connection_establish(w->other, &stag_options);
    w->foreign_pd = rnic_alloc_pd(w->r);
    w->page = stag_region(w->r, 1);
    w->good_region = w->page;
    stag_register(w->r, &w->good_region);
    w->good_window = stag_alloc_mw(w->r, w->r->pd, 0);
}

static void world_cleanup(World *w, const struct rnic_counters *counters)
{
    stag_assert_no_leak(w->r, counters);
    g_test_message("%u cases, %u refusals", w->cases, w->refused);
    connection_free_second(w->other);
    connection_free(w->c);
}

static void run_table(const Access *accesses, unsigned count,
                      const uint32_t *enables, unsigned num_enables)
{
    struct rnic_counters counters;
    World w;

    world_init(&w, STAG_ENABLES);
    counters = rnic_query_counters(w.r);
    for (unsigned i = 0; i < G_N_ELEMENTS(things); i++) {
        for (unsigned a = 0; a < count; a++) {
            for (unsigned e = 0; e < num_enables; e++) {
                run_case(&w, &things[i], accesses[a], enables[e]);
            }
        }
    }
    world_cleanup(&w, &counters);
}

static const uint32_t all_enabled[] = { STAG_ENABLES };

static void test_local(void)
{
    static const Access accesses[] = {
        SEND_SOURCE, WRITE_SOURCE, RECEIVE_SINK,
    };

    run_table(accesses, G_N_ELEMENTS(accesses), all_enabled, 1);
    rnic_shows("V7.4.1-3 V7.4.1-4 V7.4.1-5 V7.6.3-1 V7.6.3-3 V7.2.2-1 "
               "V7.3-1 V7.4.2-7 V7.2.1-3");
}

static void test_remote(void)
{
    static const Access accesses[] = { PEER_WRITE, PEER_READ, READ_SINK };

    run_table(accesses, G_N_ELEMENTS(accesses), all_enabled, 1);
    rnic_shows("V7.4.2-2 V7.4.2-3 V7.4.2-4 V7.5.1-2 "
               "V7.5.2-3 V7.6.3-1 V7.6.3-3 V7.2.2-1 V7.3-2 V7.2.1-6 V7.2.1-7 "
               "V7.10.6.2-1 V7.10.6.2-2 V7.10.6.2-4 V7.10.6.2-6");
}

static void test_invalidation(void)
{
    static const Access accesses[] = {
        LOCAL_INVALIDATE, SEND_INVALIDATE, SEND_SE_INVALIDATE,
        READ_INVALIDATE,
    };

    run_table(accesses, G_N_ELEMENTS(accesses), all_enabled, 1);
    rnic_shows("V7.2.1-10 V7.2-4 V7.4.2-8 V7.8-2 V7.8-3 V7.8-4 V7.8-12 "
               "R5.3-11 V7.8-13 V7.8-14 V7.8-16 V7.8-17 V7.10.6.3-1 V7.10.6.3-2 "
               "V7.10.6.3-3 V7.2.1-12 V7.2.2-3");
}

static void test_work(void)
{
    static const Access accesses[] = { FAST_REGISTER, BIND_OVER, BIND };

    run_table(accesses, G_N_ELEMENTS(accesses), all_enabled, 1);
    rnic_shows("V7.2.1-9 V7.2.1-12 V7.3.2.5-2 V7.3.2.5-4 V7.3.2.5-5 "
               "V7.3.2.5-6 V7.10.6.1-1 V7.10.6.1-3 V7.10.6.1-4 V7.10.6.1-5 "
               "V7.10.6.1-6 V7.2.2-3");
}

/* The QP's own permissions, each of them off; the QP is privileged or not. */
static void run_permissions(uint32_t privileged)
{
    static const Access accesses[] = {
        SEND_SOURCE, PEER_WRITE, PEER_READ, READ_SINK, SEND_INVALIDATE,
        SEND_SE_INVALIDATE, FAST_REGISTER, BIND_OVER,
    };
    static const uint32_t enables[] = {
        RNIC_QP_ENABLE_READ, RNIC_QP_ENABLE_WRITE, 0,
        RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE,
    };
    static const Thing some[] = {
        { ZERO }, { REGION, .access = ALL }, { REGION, .access = LR | RR },
        { REGION, FRESH }, { SHARED, .access = ALL },
        { WINDOW, .access = RR | RW }, { WINDOW, .access = RR },
        { WINDOW, .access = RW },
    };
    struct rnic_counters counters;
    World w;

    world_init(&w, (STAG_ENABLES & ~RNIC_QP_PRIVILEGED) | privileged);
    counters = rnic_query_counters(w.r);
    for (unsigned i = 0; i < G_N_ELEMENTS(some); i++) {
        for (unsigned a = 0; a < G_N_ELEMENTS(accesses); a++) {
            for (unsigned e = 0; e < G_N_ELEMENTS(enables); e++) {
                /* Clearing its QP's permission does not unbind a window. */
                run_case(&w, &some[i], accesses[a], enables[e] | privileged);
            }
        }
    }
    world_cleanup(&w, &counters);
}

static void test_qp(void)
{
    run_permissions(RNIC_QP_PRIVILEGED);
    run_permissions(0);
    rnic_shows("V7.2.1-5 V7.3.2.5-11 V7.6.3-2 V7.8-15 V7.10.6.1-2 "
               "V7.10.6.2-5");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/table/local", test_local);
    qtest_add_func("rnic/table/remote", test_remote);
    qtest_add_func("rnic/table/invalidation", test_invalidation);
    qtest_add_func("rnic/table/work", test_work);
    qtest_add_func("rnic/table/qp", test_qp);
    return g_test_run();
}
