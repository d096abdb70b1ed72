/*
 * rnic: a mapping that is replaced while a message of the peer goes through it
 *
 * A Write, a Read of the peer and the response to a Read of our own see the old
 * mapping or the new one, or are refused; never some of each.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

#define RR RNIC_ACCESS_REMOTE_READ
#define RW RNIC_ACCESS_REMOTE_WRITE

/* 0xLTCC of RFC 5040 4.8. */
#define READ_INVALID_STAG 0x0100
#define READ_ACCESS 0x0102
#define READ_PD 0x0103
#define TAGGED_INVALID_STAG 0x1100
#define TAGGED_ACCESS 0x1102     /* rights, or the PD */

/* No socket holds a region, so a Read of all of it cannot run ahead. */
#define PAGE_SHIFT 21
#define PAGE (1u << PAGE_SHIFT)
#define PAGES STAG_MAX_PAGES

#define PIECE 1400
#define FRAME 16384
#define LOAD 40000

typedef struct World {
    Connection *c;
    Rnic *r;
    struct rnic_counters before;
    StagRegion old, new;        /* each is one page, PAGES times; same VA */
    uint32_t stag;              /* what the peer names, of old, then of new */
} World;

static StagRegion big_region(Rnic *r, uint8_t octet)
{
    StagRegion region = {
        .pd = r->pd,
        .access = RNIC_TEST_ACCESS_ALL | RNIC_ACCESS_MW_BIND,
        .page_shift = PAGE_SHIFT,
        .count = PAGES,
        .length = (uint64_t)PAGES * PAGE,
        .key = 0x31,
        .va = 0x6600000000,
    };
    uint64_t bus = QEMU_ALIGN_UP(rnic_alloc(r, 2 * PAGE), PAGE);

    for (unsigned i = 0; i < PAGES; i++) {
        region.bus[i] = bus;
    }
    rnic_mem_fill(r, bus, octet, PAGE);
    return region;
}

static void world_init(World *w)
{
    w->c = connection_new(&stag_options);
    w->r = w->c->r;
    w->before = rnic_query_counters(w->r);
    w->old = big_region(w->r, 'o');
    w->new = big_region(w->r, 'n');
}

static void world_cleanup(World *w)
{
    stag_assert_no_leak(w->r, &w->before);
    connection_free(w->c);
}

/* @length octets from @offset on of a region's page. */
static void expect_octets(World *w, const StagRegion *region, size_t offset,
                          uint8_t octet, size_t length)
{
    g_autofree uint8_t *got = g_malloc(length);

    rnic_mem_read(w->r, region->bus[0] + offset, got, length);
    for (size_t i = 0; i < length; i++) {
        g_assert_cmphex(got[i], ==, octet);
    }
}

static void wait_octet(World *w, uint64_t bus, uint8_t octet)
{
    uint8_t got = 0;

    RNIC_UNTIL(w->r, (rnic_mem_read(w->r, bus, &got, 1), got == octet));
}

/* --------------------------------------------- how pages can be replaced */

typedef struct Replacement {
    const char *name;
    bool by_work;               /* through the SQ, so not under a Read */
    void (*make)(World *w);
    void (*replace)(World *w);
    void (*drop)(World *w);
} Replacement;

static void make_region(World *w)
{
    stag_register(w->r, &w->old);
    w->stag = w->old.stag;
}

static void drop_stag(World *w)
{
    stag_dealloc(w->r, w->stag);
}

static void reregister(World *w)
{
    w->new.stag = w->stag;
    g_assert_cmpuint(stag_try_reregister(w->r, &w->new,
                                         RNIC_REREGISTER_TRANSLATION),
                     ==, RNIC_ST_OK);
    g_assert_cmphex(w->new.stag, ==, w->stag);
}

static void fast_register(World *w)
{
    w->new.stag = w->stag;
    g_assert_cmpuint(stag_invalidate(w->c, w->stag), ==, RNIC_WC_SUCCESS);
    g_assert_cmpuint(stag_fast_register(w->c, &w->new), ==, RNIC_WC_SUCCESS);
}

/* Another region, which has another STag: its own names nothing any more. */
static void register_another(World *w)
{
    stag_dealloc(w->r, w->stag);
    stag_register(w->r, &w->new);
    g_assert_cmphex(w->new.stag, !=, w->stag);
}

static void drop_other(World *w)
{
    stag_dealloc(w->r, w->new.stag);
}

static void bind_to(World *w, const StagRegion *region)
{
    StagBind bind = stag_window(w->stag, region, region->va, region->length,
                                RR | RW);

    g_assert_cmpuint(stag_bind(w->c, &bind), ==, RNIC_WC_SUCCESS);
}

static void make_window(World *w)
{
    stag_register(w->r, &w->old);
    stag_register(w->r, &w->new);
    w->stag = stag_alloc_mw(w->r, w->r->pd, 0x31);
    bind_to(w, &w->old);
}

static void bind_again(World *w)
{
    g_assert_cmpuint(stag_invalidate(w->c, w->stag), ==, RNIC_WC_SUCCESS);
    bind_to(w, &w->new);
}

static void drop_window(World *w)
{
    stag_dealloc(w->r, w->stag);
    stag_dealloc(w->r, w->old.stag);
    stag_dealloc(w->r, w->new.stag);
}

static const Replacement replacements[] = {
    { "reregister", false, make_region, reregister, drop_stag },
    { "register another", false, make_region, register_another, drop_other },
    { "fast-register", true, make_region, fast_register, drop_stag },
    { "bind again", true, make_window, bind_again, drop_window },
};

/* Refused: the stream ends, nothing has come to the new pages. */
static void expect_refused(World *w, uint16_t code, uint16_t event)
{
    wire_expect_terminate(w->c->peer, code);
    rnic_expect_async(w->r, event, w->c->qp.number);
    expect_octets(w, &w->new, 0, 'n', PAGE);
}

static void run(bool under_read, void (*test)(World *w, const Replacement *how))
{
    for (unsigned i = 0; i < G_N_ELEMENTS(replacements); i++) {
        const Replacement *how = &replacements[i];
        World w;

        if (under_read && how->by_work) {
            continue;
        }
        g_test_message("%s", how->name);
        world_init(&w);
        how->make(&w);
        test(&w, how);
        stag_reconnect(w.c);
        how->drop(&w);
        world_cleanup(&w);
    }
}

/* ------------------------------------------------------------------ Writes */

static void put_piece(World *w, uint8_t opcode, uint64_t to, bool last)
{
    uint8_t payload[PIECE];
    WireSegment segment = {
        .opcode = opcode, .tagged = true, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .stag = w->stag, .to = to,
        .length = sizeof(payload), .payload = payload,
    };

    memset(payload, 'w', sizeof(payload));
    wire_put_segment(w->c->peer, &segment);
}

static void write_in_segments(World *w, const Replacement *how)
{
    put_piece(w, WIRE_WRITE, w->old.va, false);
    wait_octet(w, w->old.bus[0] + PIECE - 1, 'w');
    how->replace(w);
    put_piece(w, WIRE_WRITE, w->old.va + PIECE, true);
    expect_refused(w, TAGGED_INVALID_STAG, RNIC_AE_TAGGED_INVALID_STAG);
    expect_octets(w, &w->old, 0, 'w', PIECE);
    expect_octets(w, &w->old, PIECE, 'o', PAGE - PIECE);
}

static void test_segments(void)
{
    run(false, write_in_segments);
    rnic_shows("V7.3.2.3-13 V7.9-5");
}

/* One segment, of which half has come. */
static void write_of_one_segment(World *w, const Replacement *how)
{
    g_autofree uint8_t *payload = g_malloc(FRAME);
    g_autofree uint8_t *ulpdu = g_malloc(WIRE_MAX_ULPDU);
    g_autofree uint8_t *fpdu = g_malloc(WIRE_MAX_FPDU);
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = w->stag, .to = w->old.va,
        .length = FRAME, .payload = payload,
    };
    size_t length;

    memset(payload, 'w', FRAME);
    length = wire_encode_fpdu(w->c->peer, ulpdu,
                              wire_encode_segment(&segment, ulpdu), fpdu);
    wire_put(w->c->peer, fpdu, FRAME / 2);
    wait_octet(w, w->old.bus[0] + FRAME / 2 - 64, 'w');
    how->replace(w);
    wire_put(w->c->peer, fpdu + FRAME / 2, length - FRAME / 2);
    expect_refused(w, TAGGED_INVALID_STAG, RNIC_AE_TAGGED_INVALID_STAG);
    expect_octets(w, &w->old, FRAME / 2, 'o', PAGE - FRAME / 2);
}

static void test_one_segment(void)
{
    run(false, write_of_one_segment);
    rnic_shows("V7.3.2.3-13 V7.9-5");
}

/* Other rights, the same pages: nothing to tell old and new apart by. */
static void test_same_pages(void)
{
    World w;

    world_init(&w);
    make_region(&w);
    put_piece(&w, WIRE_WRITE, w.old.va, false);
    wait_octet(&w, w.old.bus[0] + PIECE - 1, 'w');
    w.old.access &= ~RR;
    g_assert_cmpuint(stag_try_reregister(w.r, &w.old, RNIC_REREGISTER_ACCESS),
                     ==, RNIC_ST_OK);
    put_piece(&w, WIRE_WRITE, w.old.va + PIECE, true);
    stag_peer_writes(w.c, w.stag, w.old.va + 2 * PIECE, "w", 1);
    expect_octets(&w, &w.old, 0, 'w', 2 * PIECE + 1);
    drop_stag(&w);
    world_cleanup(&w);
}

/* How a region of the same pages is other than it was. */
typedef enum Other { NO_RIGHT, OTHER_PD, ALL_ELSE, OTHERS } Other;

/* From here on the peer may neither write to it nor read it. */
static void make_other(World *w, Other other)
{
    static const uint32_t changes[OTHERS] = {
        RNIC_REREGISTER_ACCESS, RNIC_REREGISTER_PD, STAG_CHANGE_ALL,
    };
    StagRegion region = other == ALL_ELSE ? w->new : w->old;

    region.stag = w->stag;
    region.access &= other == OTHER_PD ? ~0u : ~(RR | RW);
    region.pd = other == NO_RIGHT ? w->r->pd : rnic_alloc_pd(w->r);
    g_assert_cmpuint(stag_try_reregister(w->r, &region, changes[other]), ==,
                     RNIC_ST_OK);
}

/* Rights and PD count for what comes behind the change, of the same message too. */
static void test_rights_and_pd(void)
{
    for (Other other = 0; other < OTHERS; other++) {
        WireTerminate t;
        World w;

        world_init(&w);
        make_region(&w);
        put_piece(&w, WIRE_WRITE, w.old.va, false);
        wait_octet(&w, w.old.bus[0] + PIECE - 1, 'w');
        make_other(&w, other);
        put_piece(&w, WIRE_WRITE, w.old.va + PIECE, true);
        wire_get_terminate(w.c->peer, &t);
        /* Deallocated, or the new one. */
        g_assert_true(t.code == TAGGED_INVALID_STAG ||
                      t.code == TAGGED_ACCESS);
        expect_octets(&w, &w.old, 0, 'w', PIECE);
        expect_octets(&w, &w.old, PIECE, 'o', PAGE - PIECE);
        expect_octets(&w, &w.new, 0, 'n', PAGE);
        stag_reconnect(w.c);
        stag_peer_write_refused(w.c, w.stag, w.old.va, 1, TAGGED_ACCESS);
        drop_stag(&w);
        w.before.pds = rnic_query_counters(w.r).pds;
        world_cleanup(&w);
    }
    rnic_shows("V7.3.2.3-13");
}

/* The message after it has nothing to do with the one before. */
static void test_between_messages(void)
{
    World w;

    world_init(&w);
    make_region(&w);
    stag_peer_writes(w.c, w.stag, w.old.va, "w", 1);
    reregister(&w);
    stag_peer_writes(w.c, w.stag, w.new.va, "w", 1);
    expect_octets(&w, &w.old, 0, 'w', 1);
    expect_octets(&w, &w.new, 0, 'w', 1);
    drop_stag(&w);
    world_cleanup(&w);
}

/* ------------------------------------------------------------------- Reads */

/* All that comes of the response is old; false at its end. */
static bool get_old_piece(World *w, uint64_t *done)
{
    WireSegment segment;
    bool response;

    wire_get_segment(w->c->peer, &segment);
    response = segment.opcode == WIRE_READ_RESPONSE;
    if (response) {
        g_assert_false(segment.last);
        g_assert_cmphex(segment.to, ==, *done);
        for (uint32_t i = 0; i < segment.length; i++) {
            g_assert_cmphex(segment.payload[i], ==, 'o');
        }
        *done += segment.length;
    } else {
        g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
        g_assert_cmphex(lduw_be_p(segment.payload), ==, READ_INVALID_STAG);
    }
    g_free(segment.payload);
    return response;
}

static void peer_reads(World *w, const Replacement *how)
{
    WireRead read = { .size = w->old.length, .source_stag = w->stag,
                      .source_to = w->old.va };
    uint64_t done = 0;

    wire_put_read_request(w->c->peer, &read);
    g_assert_true(get_old_piece(w, &done));
    how->replace(w);
    while (get_old_piece(w, &done)) {
        g_assert_cmphex(done, <, w->old.length);
    }
    wire_expect_end(w->c->peer);
    rnic_expect_async(w->r, RNIC_AE_IRRQ_INVALID_STAG, w->c->qp.number);
}

static void test_read(void)
{
    run(true, peer_reads);
    rnic_shows("V7.3.2.3-13 V7.9-5");
}

/* A piece of the response, or the Terminate that takes its place: its code. */
static uint16_t get_piece(World *w, uint64_t *done)
{
    WireSegment segment;
    uint16_t code = 0;

    wire_get_segment(w->c->peer, &segment);
    if (segment.opcode == WIRE_TERMINATE) {
        code = lduw_be_p(segment.payload);
    } else {
        g_assert_cmpint(segment.opcode, ==, WIRE_READ_RESPONSE);
        g_assert_cmphex(segment.to, ==, *done);
        for (uint32_t i = 0; i < segment.length; i++) {
            g_assert_cmphex(segment.payload[i], ==, 'o');
        }
        *done += segment.length;
    }
    g_free(segment.payload);
    return code;
}

/* Neither the right nor the PD of before serves what is left of a Read. */
static void test_read_rights_and_pd(void)
{
    for (Other other = 0; other < OTHERS; other++) {
        WireRead read = { };
        uint64_t done = 0;
        uint16_t code;
        World w;

        world_init(&w);
        make_region(&w);
        read.size = w.old.length;
        read.source_stag = w.stag;
        read.source_to = w.old.va;
        wire_put_read_request(w.c->peer, &read);
        g_assert_cmphex(get_piece(&w, &done), ==, 0);
        make_other(&w, other);
        do {
            code = get_piece(&w, &done);
            g_assert_cmphex(done, <, w.old.length);
        } while (!code);
        /* Deallocated, or the new one. */
        g_assert_true(code == READ_INVALID_STAG ||
                      code == (other == OTHER_PD ? READ_PD : READ_ACCESS) ||
                      (other == ALL_ELSE && code == READ_PD));
        stag_reconnect(w.c);
        drop_stag(&w);
        w.before.pds = rnic_query_counters(w.r).pds;
        world_cleanup(&w);
    }
    rnic_shows("V7.3.2.3-13");
}

static void response_in_segments(World *w, const Replacement *how)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .remote_stag = 9 };
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(w->stag);
    wr.sge[0].to = cpu_to_le64(w->old.va);
    wr.sge[0].length = cpu_to_le32(2 * PIECE);
    rnic_post_send(w->r, &w->c->qp, &wr);
    wire_get_read_request(w->c->peer, 1, &read);
    put_piece(w, WIRE_READ_RESPONSE, read.sink_to, false);
    wait_octet(w, w->old.bus[0] + PIECE - 1, 'w');
    how->replace(w);
    put_piece(w, WIRE_READ_RESPONSE, read.sink_to + PIECE, true);
    expect_refused(w, TAGGED_INVALID_STAG, RNIC_AE_TAGGED_INVALID_STAG);
    rnic_expect_cqe(w->r, &w->c->send_cq, 0, RNIC_WC_FLUSHED);
    expect_octets(w, &w->old, PIECE, 'o', PAGE - PIECE);
}

static void test_response(void)
{
    run(true, response_in_segments);
    rnic_shows("V7.3.2.3-13 V7.9-5");
}

/* ------------------------------------------------------------ its own work */

/*
 * Of a message that has begun nothing is sent that is in memory since then. False at
 * the Terminate, which is the end.
 */
static bool get_own_piece(World *w)
{
    WireSegment segment;
    bool message;

    wire_get_segment(w->c->peer, &segment);
    message = segment.opcode != WIRE_TERMINATE;
    if (message) {
        g_assert_false(segment.last);
        for (uint32_t i = 0; i < segment.length; i++) {
            g_assert_cmphex(segment.payload[i], ==, 'o');
        }
    } else {
        g_assert_cmphex(lduw_be_p(segment.payload), ==, 0x0000);
    }
    g_free(segment.payload);
    return message;
}

/* A Send, and a Write, are half sent when their memory is deallocated. */
static void test_own_work(void)
{
    static const uint8_t opcodes[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE };
    World w;

    world_init(&w);
    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        RnicWr wr = { .opcode = opcodes[i], .flags = RNIC_WQE_SIGNALED,
                      .wr_id = 8, .num_sge = 1 };

        make_region(&w);
        rnic_mem_fill(w.r, w.old.bus[0], 'o', PAGE);
        wr.sge[0].stag = cpu_to_le32(w.stag);
        wr.sge[0].to = cpu_to_le64(w.old.va);
        wr.sge[0].length = cpu_to_le32(w.old.length);
        wr.remote_stag = opcodes[i] == RNIC_SQ_SEND ? 0 : 9;
        rnic_post_send(w.r, &w.c->qp, &wr);
        g_assert_true(get_own_piece(&w));
        stag_dealloc(w.r, w.stag);
        rnic_mem_fill(w.r, w.old.bus[0], 'n', PAGE);
        while (get_own_piece(&w)) {
            continue;
        }
        rnic_expect_cqe(w.r, &w.c->send_cq, 8, RNIC_WC_INVALID_STAG);
        stag_reconnect(w.c);
    }
    world_cleanup(&w);
    rnic_shows("V7.9-5 V9.2.6.4-2");
}

/* -------------------------------------------------------------------- load */

/* Whether the Write before it was done, or else refused. */
static bool write_done(World *w)
{
    WireSegment segment;
    bool done;

    wire_get_segment(w->c->peer, &segment);
    done = segment.opcode == WIRE_READ_RESPONSE;
    if (!done) {
        g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
        g_assert_cmphex(lduw_be_p(segment.payload), ==, TAGGED_INVALID_STAG);
    }
    g_free(segment.payload);
    return done;
}

/* @done: all of it in one of the two; else what there is of it in the old. */
static void expect_one_mapping(World *w, bool done)
{
    g_autofree uint8_t *in_old = g_malloc(LOAD);
    size_t length = 0;

    rnic_mem_read(w->r, w->old.bus[0], in_old, LOAD);
    while (length < LOAD && in_old[length] == 'w') {
        length++;
    }
    if (done && length == 0) {
        expect_octets(w, &w->new, 0, 'w', LOAD);
    } else {
        g_assert_true(!done || length == LOAD);
        expect_octets(w, &w->new, 0, 0, LOAD);
    }
    expect_octets(w, &w->old, length, 0, LOAD - length);
}

/* The peer writes while the region is registered anew, again and again. */
static void test_load(void)
{
    g_autofree uint8_t *data = g_malloc(LOAD);
    WireRead fence = { };
    World w;

    world_init(&w);
    make_region(&w);
    memset(data, 'w', LOAD);
    for (unsigned i = 0; i < 100; i++) {
        StagRegion next = w.old;
        bool done;

        rnic_mem_fill(w.r, w.old.bus[0], 0, LOAD);
        rnic_mem_fill(w.r, w.new.bus[0], 0, LOAD);
        w.c->peer->segment_size = i & 1 ? PIECE : FRAME;
        wire_put_write(w.c->peer, w.stag, w.old.va, data, LOAD);
        wire_put_read_request(w.c->peer, &fence);
        reregister(&w);
        done = write_done(&w);
        expect_one_mapping(&w, done);
        if (!done) {
            stag_reconnect(w.c);
        }
        stag_peer_writes(w.c, w.stag, w.new.va + LOAD, &(uint8_t){ i }, 1);
        expect_octets(&w, &w.new, LOAD, i, 1);
        w.old = w.new;
        w.new = next;
    }
    drop_stag(&w);
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-13");
}

/* Whether the Write before it was done; else it was refused by the one or the other. */
static bool write_allowed(World *w)
{
    WireSegment segment;
    bool done;

    wire_get_segment(w->c->peer, &segment);
    done = segment.opcode == WIRE_READ_RESPONSE;
    if (!done) {
        uint16_t code = lduw_be_p(segment.payload);

        g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
        g_assert_true(code == TAGGED_INVALID_STAG || code == TAGGED_ACCESS);
    }
    g_free(segment.payload);
    return done;
}

/*
 * The peer writes while the region gets other pages that it may not write to, by
 * rights or by the PD: nothing comes to these.
 */
static void test_load_not_allowed(void)
{
    g_autofree uint8_t *data = g_malloc(LOAD);
    WireRead fence = { };
    uint32_t pd;
    World w;

    world_init(&w);
    pd = rnic_alloc_pd(w.r);
    w.new.pd = pd;
    make_region(&w);
    memset(data, 'w', LOAD);
    for (unsigned i = 0; i < 60; i++) {
        bool done;

        w.new.access = i & 1 ? w.old.access : w.old.access & ~RW;
        w.new.pd = i & 1 ? pd : w.old.pd;
        w.new.stag = w.old.stag = w.stag;
        rnic_mem_fill(w.r, w.old.bus[0], 0, LOAD);
        w.c->peer->segment_size = i & 2 ? PIECE : FRAME;
        wire_put_write(w.c->peer, w.stag, w.old.va, data, LOAD);
        wire_put_read_request(w.c->peer, &fence);
        g_assert_cmpuint(stag_try_reregister(w.r, &w.new, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
        done = write_allowed(&w);
        expect_octets(&w, &w.new, 0, 'n', LOAD);
        if (done) {
            expect_octets(&w, &w.old, 0, 'w', LOAD);
        } else {
            stag_reconnect(w.c);
        }
        stag_peer_write_refused(w.c, w.stag, w.new.va, 1, TAGGED_ACCESS);
        g_assert_cmpuint(stag_try_reregister(w.r, &w.old, STAG_CHANGE_ALL),
                         ==, RNIC_ST_OK);
    }
    drop_stag(&w);
    w.before.pds = rnic_query_counters(w.r).pds;
    world_cleanup(&w);
    rnic_shows("V7.3.2.3-13");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/replaced/segments", test_segments);
    qtest_add_func("rnic/replaced/one-segment", test_one_segment);
    qtest_add_func("rnic/replaced/same-pages", test_same_pages);
    qtest_add_func("rnic/replaced/rights-and-pd", test_rights_and_pd);
    qtest_add_func("rnic/replaced/between-messages", test_between_messages);
    qtest_add_func("rnic/replaced/read", test_read);
    qtest_add_func("rnic/replaced/read-rights-and-pd",
                   test_read_rights_and_pd);
    qtest_add_func("rnic/replaced/response", test_response);
    qtest_add_func("rnic/replaced/own-work", test_own_work);
    qtest_add_func("rnic/replaced/load", test_load);
    qtest_add_func("rnic/replaced/load-not-allowed", test_load_not_allowed);
    return g_test_run();
}
