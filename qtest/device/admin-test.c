/*
 * rnic: every admin command, what it refuses, objects in use, limits
 *
 * A case is a good command with one field spoiled. After each refusal the
 * device must have exactly the objects it had before (V8.3.1).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/librnic.h"

#define UNUSED 0x00654321       /* names no object */

typedef struct World {
    Rnic *r;
    RnicCq cq;
    RnicQp qp;
    RnicMr mr;
    uint32_t unused_pd;
    struct rnic_device_attr attr;
    uint32_t vectors;
    uint32_t pages;             /* doorbell pages */
    uint64_t buffer;            /* 64 KiB of guest memory */
} World;

static World *world_new(const char *properties)
{
    World *w = g_new0(World, 1);
    RnicQpInit init;
    uint32_t limits;

    w->r = rnic_boot_up(properties);
    w->attr = rnic_query_device(w->r);
    limits = rnic_read32(w->r, RNIC_REG_LIMITS);
    w->vectors = RNIC_LIMITS_VECTORS(limits);
    w->pages = RNIC_LIMITS_DOORBELL_PAGES(limits);
    rnic_create_cq(w->r, &w->cq, 16, w->r->comp_eq.number);
    init = rnic_qp_default(w->r, &w->cq, &w->cq);
    rnic_create_qp(w->r, &w->qp, &init);
    rnic_create_mr(w->r, &w->mr, w->r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    w->unused_pd = rnic_alloc_pd(w->r);
    w->buffer = rnic_alloc(w->r, 65536);
    return w;
}

static void world_free(World *w)
{
    rnic_quit(w->r);
    g_free(w);
}

/* ----------------------------------------------------------- good commands */

static struct rnic_queue_memory good_memory(World *w, uint32_t octets)
{
    struct rnic_queue_memory memory = {
        .pages = rnic_pages(w->r, w->buffer,
                            RNIC_QUEUE_RECORD_SIZE + octets),
        .ring_offset = { cpu_to_le32(RNIC_QUEUE_RECORD_SIZE) },
    };

    return memory;
}

static struct rnic_admin_sqe good_create_eq(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);

    sqe.create_eq.eq_class = RNIC_EQ_COMPLETION;
    sqe.create_eq.vector = cpu_to_le32(1);
    sqe.create_eq.depth = cpu_to_le32(512);
    sqe.create_eq.memory = good_memory(w, 512 * sizeof(struct rnic_ceqe));
    return sqe;
}

static struct rnic_admin_sqe good_create_cq(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);

    sqe.create_cq.depth = cpu_to_le32(256);
    sqe.create_cq.eqn = cpu_to_le32(w->r->comp_eq.number);
    sqe.create_cq.memory = good_memory(w, 256 * sizeof(struct rnic_cqe));
    return sqe;
}

static struct rnic_admin_sqe good_create_qp(World *w)
{
    RnicQpInit init = rnic_qp_default(w->r, &w->cq, &w->cq);
    RnicQp unused;
    struct rnic_admin_sqe sqe = rnic_qp_command(w->r, &init, &unused);

    sqe.create_qp.memory.pages = rnic_pages(
        w->r, w->buffer,
        le32_to_cpu(sqe.create_qp.memory.pages.count) * RNIC_TEST_PAGE);
    return sqe;
}

static struct rnic_admin_sqe good_create_srq(World *w)
{
    RnicSrqInit init = rnic_srq_default(w->r);
    RnicSrq srq;

    return rnic_srq_command(w->r, &init, &srq);
}

static struct rnic_admin_sqe good_register_mr(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    sqe.register_mr.pdn = cpu_to_le32(w->r->pd);
    sqe.register_mr.va = cpu_to_le64(0x123456789a10);
    sqe.register_mr.first_byte_offset = cpu_to_le64(0xa10);
    sqe.register_mr.length = cpu_to_le64(4 * 4096 - 0xa10);
    sqe.register_mr.pages = rnic_pages(w->r, w->buffer, 4 * 4096);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.key = 7;
    return sqe;
}

static struct rnic_admin_sqe good_modify_qp(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(w->qp.number);
    return sqe;
}

static struct rnic_admin_sqe good_listen(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);

    sqe.listen.local = rnic_addr(0x0a000001, 1);
    return sqe;
}

static struct rnic_admin_sqe object_command(uint16_t opcode, uint32_t number)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);

    sqe.object.number = cpu_to_le32(number);
    return sqe;
}

static void with_bulk(struct rnic_admin_sqe *sqe, uint64_t addr, uint32_t size)
{
    sqe->bulk_addr = cpu_to_le64(addr);
    sqe->bulk_length = cpu_to_le32(size);
}

/* --------------------------------------------------------------- the tables */

typedef struct Spoil {
    const char *what;
    uint16_t offset, size;
    uint64_t value;
    uint16_t status;
} Spoil;

#define SPOIL(field, value, status)                                     \
    { #field " = " #value, offsetof(struct rnic_admin_sqe, field),      \
      sizeof(((struct rnic_admin_sqe *)0)->field), value, status }

static void poke(struct rnic_admin_sqe *sqe, const Spoil *spoil)
{
    uint64_t le = cpu_to_le64(spoil->value);

    memcpy((uint8_t *)sqe + spoil->offset, &le, spoil->size);
}

static void assert_same_objects(const struct rnic_counters *a,
                                const struct rnic_counters *b)
{
    g_assert_cmpuint(a->qps, ==, b->qps);
    g_assert_cmpuint(a->cqs, ==, b->cqs);
    g_assert_cmpuint(a->eqs, ==, b->eqs);
    g_assert_cmpuint(a->pds, ==, b->pds);
    g_assert_cmpuint(a->stags, ==, b->stags);
    g_assert_cmpuint(a->srqs, ==, b->srqs);
    g_assert_cmpuint(a->listeners, ==, b->listeners);
    g_assert_cmpuint(a->endpoints, ==, b->endpoints);
}

/* Every refusal is checked; all that went wrong is told before failing. */
static void run_table(World *w, const char *name, struct rnic_admin_sqe good,
                      const Spoil *spoils, unsigned count)
{
    struct rnic_counters before = rnic_query_counters(w->r), after;
    unsigned wrong = 0;

    for (unsigned i = 0; i < count; i++) {
        struct rnic_admin_sqe sqe = good;
        struct rnic_admin_cqe cqe;
        uint16_t status;

        poke(&sqe, &spoils[i]);
        status = rnic_admin(w->r, &sqe, &cqe);
        if (status != spoils[i].status) {
            g_printerr("%s, %s: status %u, expected %u\n", name,
                       spoils[i].what, status, spoils[i].status);
            wrong++;
        }
        if (status != RNIC_ST_OK && cqe.number) {
            g_printerr("%s, %s: a number with an error\n", name,
                       spoils[i].what);
            wrong++;
        }
    }
    after = rnic_query_counters(w->r);
    assert_same_objects(&before, &after);
    g_assert_cmpuint(wrong, ==, 0);
}

#define RUN(w, good, ...)                                               \
    do {                                                                \
        const Spoil spoils_[] = { __VA_ARGS__ };                        \
        run_table(w, #good, good, spoils_, G_N_ELEMENTS(spoils_));      \
    } while (0)

/* The common part of every queue's memory. */
#define QUEUE_MEMORY_SPOILS(m)                                          \
    SPOIL(m.pages.count, 0, RNIC_ST_INVALID_PBL_SIZE),                  \
    SPOIL(m.pages.count, 0xffffffff, RNIC_ST_INVALID_PBL_SIZE),         \
    SPOIL(m.pages.count, 1, RNIC_ST_BAD_QUEUE_MEMORY),                  \
    SPOIL(m.pages.page_shift, 11, RNIC_ST_INVALID_PBL_SIZE),            \
    SPOIL(m.pages.page_shift, 31, RNIC_ST_BAD_QUEUE_MEMORY),            \
    SPOIL(m.pages.page_shift, 255, RNIC_ST_BAD_QUEUE_MEMORY),           \
    SPOIL(m.pages.level, 3, RNIC_ST_INVALID_MODIFIER),                  \
    SPOIL(m.pages.level, RNIC_PAGE_LIST_INLINE,                         \
          RNIC_ST_INVALID_PBL_SIZE),                                    \
    SPOIL(m.pages.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO),              \
    SPOIL(m.pages.addr, w->buffer + 4, RNIC_ST_BAD_BUFFER),             \
    SPOIL(m.pages.addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),          \
    SPOIL(m.pages.addr, ~7ULL, RNIC_ST_DMA_ERROR),                      \
    SPOIL(m.ring_offset[0], 0, RNIC_ST_BAD_QUEUE_MEMORY),               \
    SPOIL(m.ring_offset[0], 64, RNIC_ST_BAD_QUEUE_MEMORY),              \
    SPOIL(m.ring_offset[0], 129, RNIC_ST_BAD_QUEUE_MEMORY),             \
    SPOIL(m.ring_offset[0], 65536, RNIC_ST_BAD_QUEUE_MEMORY),           \
    SPOIL(m.ring_offset[0], 0xffffffc0, RNIC_ST_BAD_QUEUE_MEMORY)

/* ---------------------------------------------------------------- the form */

static void test_nop(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);

    rnic_msix_enable(r);
    rnic_enable(r, 8, 2, 0);
    g_assert_cmpuint(rnic_admin(r, &nop, NULL), ==, RNIC_ST_OK);
    g_assert_true(rnic_msix_fired(r, 2));
    /* Many times around the ring, in batches as large as it allows. */
    for (unsigned round = 0; round < 20; round++) {
        uint16_t expected = r->command_id;
        unsigned batch = 1 + round % 8;

        for (unsigned i = 0; i < batch; i++) {
            rnic_admin_fill(r, &nop);
        }
        rnic_admin_tail(r);
        for (unsigned i = 0; i < batch; i++) {
            struct rnic_admin_cqe cqe;

            rnic_admin_completion(r, &cqe);
            g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
            g_assert_cmpuint(le16_to_cpu(cqe.command_id), ==,
                             (uint16_t)++expected);
        }
        g_assert_true(rnic_msix_fired(r, 2));
    }
    rnic_quit(r);
}

static void test_opcodes(void)
{
    World *w = world_new("");
    struct rnic_counters before = rnic_query_counters(w->r), after;
    static const uint16_t known[] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
        20, 21, 22, 23, 24, 25, 26, 32, 33, 34, 35, 36, 37, 38, 40, 41, 42,
        43, 48, 49, 50,
    };

    for (unsigned opcode = 0; opcode < 300; opcode++) {
        struct rnic_admin_sqe sqe = rnic_command(opcode);
        bool is_known = false;

        for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
            is_known |= known[i] == opcode;
        }
        if (!is_known) {
            g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==,
                             RNIC_ST_UNKNOWN_OPCODE);
        }
    }
    for (unsigned bit = 9; bit < 16; bit++) {
        struct rnic_admin_sqe sqe = rnic_command(1u << bit);

        g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==,
                         RNIC_ST_UNKNOWN_OPCODE);
    }
    after = rnic_query_counters(w->r);
    assert_same_objects(&before, &after);
    world_free(w);
    rnic_shows("V8.3.1-1");
}

/* Behind the arguments, in the bulk fields, and inside. */
static void test_reserved(void)
{
    World *w = world_new("");
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);

    for (unsigned at = 0; at < sizeof(nop.raw); at++) {
        struct rnic_admin_sqe sqe = nop;

        sqe.raw[at] = 1;
        g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==,
                         RNIC_ST_RESERVED_NOT_ZERO);
    }
    RUN(w, nop,
        SPOIL(bulk_addr, 8, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(bulk_length, 8, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, rnic_command(RNIC_ADMIN_ALLOC_PD),
        SPOIL(raw[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(bulk_length, 8, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, object_command(RNIC_ADMIN_DEALLOC_PD, w->unused_pd),
        SPOIL(raw[4], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(raw[111], 1, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, good_create_eq(w),
        SPOIL(create_eq.reserved[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(create_eq.reserved[2], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(create_eq.reserved2, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(raw[111], 1, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, good_create_qp(w),
        SPOIL(create_qp.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(raw[111], 1, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, good_modify_qp(w),
        SPOIL(modify_qp.reserved[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(modify_qp.reserved[2], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(modify_qp.reserved2, 1, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, good_register_mr(w),
        SPOIL(register_mr.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(register_mr.reserved2, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(register_mr.pages.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO));
    RUN(w, good_listen(w),
        SPOIL(listen.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(listen.local.reserved[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(listen.local.reserved[5], 1, RNIC_ST_RESERVED_NOT_ZERO));
    world_free(w);
}

static void test_bulk(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_DEVICE);
    struct rnic_admin_sqe mw = rnic_command(RNIC_ADMIN_ALLOC_MW);
    struct rnic_device_attr whole = w->attr;
    struct rnic_admin_cqe cqe;
    uint8_t now[512];

    with_bulk(&sqe, w->buffer, sizeof(whole));
    RUN(w, sqe,
        SPOIL(bulk_length, 0, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, w->buffer + 1, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, w->buffer + 4, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),
        SPOIL(bulk_addr, ~7ULL, RNIC_ST_DMA_ERROR),
        SPOIL(bulk_addr, r->registers.addr, RNIC_ST_DMA_ERROR));

    /* Only as much as was asked for; what there is, if more was. */
    for (unsigned size = 1; size < sizeof(whole); size = size * 3 + 1) {
        rnic_mem_fill(r, w->buffer, 0xee, sizeof(now));
        with_bulk(&sqe, w->buffer, size);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
        rnic_mem_read(r, w->buffer, now, sizeof(now));
        g_assert_cmpmem(now, size, &whole, size);
        g_assert_cmphex(now[size], ==, 0xee);
    }
    rnic_mem_fill(r, w->buffer, 0xee, sizeof(now));
    with_bulk(&sqe, w->buffer, 0xffffffff);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    rnic_mem_read(r, w->buffer, now, sizeof(now));
    g_assert_cmpmem(now, sizeof(whole), &whole, sizeof(whole));
    g_assert_cmphex(now[sizeof(whole)], ==, 0xee);

    sqe = object_command(RNIC_ADMIN_QUERY_QP, w->qp.number);
    with_bulk(&sqe, w->buffer, sizeof(struct rnic_qp_attr));
    RUN(w, sqe,
        SPOIL(bulk_length, 0, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, w->buffer + 2, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_QP),
        SPOIL(object.number, w->qp.number | 1u << 24, RNIC_ST_INVALID_QP),
        SPOIL(object.number, 0, RNIC_ST_INVALID_QP));
    mw.alloc_stag.pdn = cpu_to_le32(r->pd);
    g_assert_cmpuint(rnic_admin(r, &mw, &cqe), ==, RNIC_ST_OK);
    sqe = object_command(RNIC_ADMIN_QUERY_MR, w->mr.stag);
    with_bulk(&sqe, w->buffer, sizeof(struct rnic_mr_attr));
    RUN(w, sqe,
        SPOIL(object.number, le32_to_cpu(cqe.number), RNIC_ST_INVALID_STAG),
        SPOIL(bulk_length, 0, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),
        SPOIL(object.number, 0, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, 0xff, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, 0xffffff00, RNIC_ST_INVALID_STAG));
    sqe = rnic_command(RNIC_ADMIN_QUERY_COUNTERS);
    with_bulk(&sqe, w->buffer, sizeof(struct rnic_counters));
    RUN(w, sqe,
        SPOIL(bulk_length, 0, RNIC_ST_BAD_BUFFER),
        SPOIL(bulk_addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR));
    world_free(w);
    rnic_shows("V9.2.6.3-3");
}

/* ------------------------------------------------------- by kind of object */

/* A receive completes into @cq, and the event of that comes to @eq. */
static void expect_flush_event(World *w, RnicCq *cq, RnicEq *eq)
{
    RnicQpInit init = rnic_qp_default(w->r, &w->cq, cq);
    struct rnic_ceqe event;
    RnicQp qp;

    rnic_create_qp(w->r, &qp, &init);
    rnic_expect_no_cqe(w->r, cq);
    rnic_cq_arm(w->r, cq, RNIC_ARM_NEXT);
    rnic_post_recv(w->r, &qp, 0x1d, 0, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(w->r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(w->r, cq, 0x1d, RNIC_WC_FLUSHED);
    rnic_expect_no_cqe(w->r, cq);
    rnic_eq_wait(w->r, eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, cq->number);
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
}

static void test_event_queues(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe async = good_create_eq(w);
    struct rnic_admin_sqe cm = good_create_eq(w);
    RnicEq eq;
    RnicCq cq;

    RUN(w, good_create_eq(w),
        SPOIL(create_eq.eq_class, 3, RNIC_ST_INVALID_MODIFIER),
        SPOIL(create_eq.eq_class, 255, RNIC_ST_INVALID_MODIFIER),
        SPOIL(create_eq.vector, w->vectors, RNIC_ST_BAD_VECTOR),
        SPOIL(create_eq.vector, 0xfffffffe, RNIC_ST_BAD_VECTOR),
        SPOIL(create_eq.depth, 0, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_eq.depth, 1, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_eq.depth, 511, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_eq.depth, 4096, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_eq.depth, RNIC_EQ_MAX_DEPTH * 2,
              RNIC_ST_BAD_QUEUE_MEMORY),
        QUEUE_MEMORY_SPOILS(create_eq.memory));
    async.create_eq.eq_class = RNIC_EQ_ASYNC;
    cm.create_eq.eq_class = RNIC_EQ_CM;
    cm.create_eq.depth = cpu_to_le32(16);
    g_assert_cmpuint(rnic_admin(r, &async, NULL), ==, RNIC_ST_EQ_IN_USE);
    g_assert_cmpuint(rnic_admin(r, &cm, NULL), ==, RNIC_ST_EQ_IN_USE);

    /* In use by a CQ. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->comp_eq.number),
                     ==, RNIC_ST_EQ_IN_USE);
    RUN(w, object_command(RNIC_ADMIN_DESTROY_EQ, UNUSED),
        SPOIL(object.number, 0, RNIC_ST_INVALID_EQ),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_EQ),
        SPOIL(object.number, 0xffffffff, RNIC_ST_INVALID_EQ),
        SPOIL(object.number, r->comp_eq.number | 1u << 24,
              RNIC_ST_INVALID_EQ));

    /* Another asynchronous one instead of the first. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->async_eq.number), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->async_eq.number),
                     ==, RNIC_ST_INVALID_EQ);
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, RNIC_NO_VECTOR, 2);
    rnic_create_eq(r, &eq, RNIC_EQ_COMPLETION, w->vectors - 1, 2);
    /* A handler of its own, by a number of its own, which a CQ can have. */
    g_assert_cmphex(eq.number, !=, 0);
    g_assert_cmphex(eq.number, !=, r->comp_eq.number);
    g_assert_cmphex(eq.number, !=, r->async_eq.number);
    g_assert_cmphex(eq.number, !=, r->cm_eq.number);
    rnic_create_cq(r, &cq, 2, eq.number);
    expect_flush_event(w, &cq, &eq);
    world_free(w);
    rnic_shows("V9.4.1-2");
}

static void test_protection_domains(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe stag = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_admin_sqe mw = rnic_command(RNIC_ADMIN_ALLOC_MW);

    RUN(w, object_command(RNIC_ADMIN_DEALLOC_PD, UNUSED),
        SPOIL(object.number, 0, RNIC_ST_INVALID_PD),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(object.number, 0xffffffff, RNIC_ST_INVALID_PD),
        SPOIL(object.number, r->pd | 1u << 24, RNIC_ST_INVALID_PD));
    /* QP and MR in turn hold it. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd),
                     ==, RNIC_ST_PD_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, w->qp.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd),
                     ==, RNIC_ST_PD_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG, w->mr.stag),
                     ==, RNIC_ST_OK);
    rnic_create_qp(r, &w->qp, &(RnicQpInit) {
        .pd = r->pd, .send_cq = &w->cq, .recv_cq = &w->cq, .sq_depth = 8,
        .rq_depth = 1, .rq_shift = 5, .max_sge = 1 });
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd),
                     ==, RNIC_ST_PD_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, w->qp.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd),
                     ==, RNIC_ST_INVALID_PD);
    /* A freed PD is no PD, nor is one that never was. */
    stag.alloc_stag.max_pages = cpu_to_le32(1);
    RUN(w, good_create_qp(w),
        SPOIL(create_qp.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(create_qp.pdn, r->pd, RNIC_ST_INVALID_PD));
    RUN(w, good_create_srq(w),
        SPOIL(create_srq.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(create_srq.pdn, r->pd, RNIC_ST_INVALID_PD));
    RUN(w, good_register_mr(w),
        SPOIL(register_mr.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(register_mr.pdn, r->pd, RNIC_ST_INVALID_PD));
    RUN(w, stag,
        SPOIL(alloc_stag.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.pdn, r->pd, RNIC_ST_INVALID_PD));
    RUN(w, mw,
        SPOIL(alloc_stag.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.pdn, r->pd, RNIC_ST_INVALID_PD));
    world_free(w);
    rnic_shows("V9.2.2.2-1 V9.2.2.2-3 V8.3.1-6 V5.2.1-2");
}

static void test_completion_queues(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe sqe = good_create_cq(w);
    struct rnic_admin_cqe cqe;
    RnicCq other;
    RnicQpInit init;
    RnicEq second;
    RnicQp qp;

    RUN(w, good_create_cq(w),
        SPOIL(create_cq.depth, 0, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_cq.depth, 1, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_cq.depth, 255, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_cq.depth, 2048, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_cq.depth, 2 * le32_to_cpu(w->attr.max_cqe),
              RNIC_ST_CQ_TOO_MANY_ENTRIES),
        SPOIL(create_cq.depth, le32_to_cpu(w->attr.max_cqe) + 1,
              RNIC_ST_CQ_TOO_MANY_ENTRIES),
        SPOIL(create_cq.flags, 1u << 31, RNIC_ST_INVALID_MODIFIER),
        SPOIL(create_cq.eqn, 0, RNIC_ST_INVALID_EVENT_HANDLER),
        SPOIL(create_cq.eqn, UNUSED, RNIC_ST_INVALID_EVENT_HANDLER),
        SPOIL(create_cq.eqn, r->async_eq.number,
              RNIC_ST_INVALID_EVENT_HANDLER),
        SPOIL(create_cq.eqn, r->cm_eq.number, RNIC_ST_INVALID_EVENT_HANDLER),
        SPOIL(create_cq.eqn, r->comp_eq.number | 1u << 24,
              RNIC_ST_INVALID_EVENT_HANDLER),
        SPOIL(create_cq.doorbell_page, w->pages, RNIC_ST_BAD_DOORBELL_PAGE),
        SPOIL(create_cq.doorbell_page, 0xffffffff, RNIC_ST_BAD_DOORBELL_PAGE),
        QUEUE_MEMORY_SPOILS(create_cq.memory));

    /* A handler that was. */
    rnic_create_eq(r, &second, RNIC_EQ_COMPLETION, RNIC_NO_VECTOR, 16);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       second.number), ==, RNIC_ST_OK);
    RUN(w, good_create_cq(w),
        SPOIL(create_cq.eqn, second.number, RNIC_ST_INVALID_EVENT_HANDLER));

    /* The handler is the CQ's own: another one, and none. */
    rnic_create_eq(r, &second, RNIC_EQ_COMPLETION, RNIC_NO_VECTOR, 16);
    for (int i = 0; i < 2; i++) {
        uint32_t eqn = i ? RNIC_NO_VECTOR : second.number;
        struct rnic_admin_sqe query;

        rnic_create_cq(r, &other, 64 << i, eqn);
        query = object_command(RNIC_ADMIN_QUERY_CQ, other.number);
        g_assert_cmpuint(rnic_admin(r, &query, &cqe), ==, RNIC_ST_OK);
        g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, 64 << i);
        g_assert_cmphex(le32_to_cpu(cqe.cq.eqn), ==, eqn);
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ,
                                           other.number), ==, RNIC_ST_OK);
    }

    /* What Create says, Query says. */
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, 256);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.eqn), ==, r->comp_eq.number);
    sqe = object_command(RNIC_ADMIN_QUERY_CQ, le32_to_cpu(cqe.number));
    memset(&cqe, 0, sizeof(cqe));
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, 256);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.eqn), ==, r->comp_eq.number);
    RUN(w, sqe,
        SPOIL(object.number, 0, RNIC_ST_INVALID_CQ),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_CQ),
        SPOIL(object.number, le32_to_cpu(sqe.object.number) | 1u << 24,
              RNIC_ST_INVALID_CQ));
    sqe = object_command(RNIC_ADMIN_DESTROY_CQ, le32_to_cpu(sqe.object.number));
    RUN(w, sqe,
        SPOIL(object.number, le32_to_cpu(sqe.object.number) | 1u << 24,
              RNIC_ST_INVALID_CQ));
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    RUN(w, sqe,
        SPOIL(object.number, 0, RNIC_ST_INVALID_CQ),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_CQ),
        SPOIL(object.number, le32_to_cpu(sqe.object.number),
              RNIC_ST_INVALID_CQ));
    sqe.opcode = cpu_to_le16(RNIC_ADMIN_QUERY_CQ);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_CQ);

    /* Used as send CQ only, then as receive CQ only. */
    rnic_create_cq(r, &other, 2, r->comp_eq.number);
    init = rnic_qp_default(r, &other, &w->cq);
    rnic_create_qp(r, &qp, &init);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, other.number),
                     ==, RNIC_ST_CQ_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
    init = rnic_qp_default(r, &w->cq, &other);
    rnic_create_qp(r, &qp, &init);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, other.number),
                     ==, RNIC_ST_CQ_IN_USE);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
    /* It is as good as before. */
    expect_flush_event(w, &other, &r->comp_eq);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, other.number),
                     ==, RNIC_ST_OK);
    world_free(w);
    rnic_shows("V9.2.3.1-1 V9.2.3.2-2 V9.2.3.4-3 V9.2.3.1-3 V9.2.3.1-5 "
               "V9.2.3.2-1 V9.2.3.4-2 V5.3.4-1 V5.3.2-1 V5.3.1-3");
}

static void test_queue_pairs(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe sqe = good_create_qp(w);
    struct rnic_admin_cqe cqe;
    struct rnic_qp_attr attr;

    RUN(w, good_create_qp(w),
        SPOIL(create_qp.pdn, 0, RNIC_ST_INVALID_PD),
        SPOIL(create_qp.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(create_qp.pdn, r->pd | 1u << 24, RNIC_ST_INVALID_PD),
        SPOIL(create_qp.send_cqn, 0, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.send_cqn, UNUSED, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.send_cqn, w->cq.number | 1u << 24, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.recv_cqn, 0, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.recv_cqn, UNUSED, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.recv_cqn, w->cq.number | 1u << 24, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.doorbell_page, w->pages, RNIC_ST_BAD_DOORBELL_PAGE),
        SPOIL(create_qp.sq_depth, 0, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.sq_depth, 4, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.sq_depth, 65, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.sq_depth, 4096, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.sq_depth, 2 * le32_to_cpu(w->attr.max_sq_units),
              RNIC_ST_SQ_WRS_EXCEEDED),
        SPOIL(create_qp.sq_depth, le32_to_cpu(w->attr.max_sq_units) + 1,
              RNIC_ST_SQ_WRS_EXCEEDED),
        SPOIL(create_qp.rq_depth, 0, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.rq_depth, 31, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.rq_depth, 1024, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.rq_depth, 2 * le32_to_cpu(w->attr.max_rq_wr),
              RNIC_ST_RQ_WRS_EXCEEDED),
        SPOIL(create_qp.rq_depth, le32_to_cpu(w->attr.max_rq_wr) + 1,
              RNIC_ST_RQ_WRS_EXCEEDED),
        SPOIL(create_qp.rq_wqe_shift, 4, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.rq_wqe_shift, 10, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.rq_wqe_shift, 255, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.max_send_sge, le32_to_cpu(w->attr.max_send_sge) + 1,
              RNIC_ST_SQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_write_sge, le32_to_cpu(w->attr.max_write_sge) + 1,
              RNIC_ST_SQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_recv_sge, le32_to_cpu(w->attr.max_recv_sge) + 1,
              RNIC_ST_RQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_write_sge, 255, RNIC_ST_SQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_recv_sge, 255, RNIC_ST_RQ_SGES_EXCEEDED),
        /* 1 << 7 octets have room for 7 */
        SPOIL(create_qp.max_recv_sge, 8, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.ird, le32_to_cpu(w->attr.max_ird) + 1,
              RNIC_ST_IRD_EXCEEDED),
        SPOIL(create_qp.ird, 0xffff, RNIC_ST_IRD_EXCEEDED),
        SPOIL(create_qp.ord, le32_to_cpu(w->attr.max_ord) + 1,
              RNIC_ST_ORD_EXCEEDED),
        SPOIL(create_qp.ord, 0xffff, RNIC_ST_ORD_EXCEEDED),
        SPOIL(create_qp.srqn, UNUSED, RNIC_ST_INVALID_SRQ),
        /* It belongs to QPs with an S-RQ. */
        SPOIL(create_qp.rq_limit, 1, RNIC_ST_RQ_LIMIT_RANGE),
        SPOIL(create_qp.rq_limit, 0xffffffff, RNIC_ST_RQ_LIMIT_RANGE),
        SPOIL(create_qp.enables, 1u << 31, RNIC_ST_INVALID_MODIFIER),
        SPOIL(create_qp.enables, RNIC_QP_READ_LIST << 1, RNIC_ST_INVALID_MODIFIER),
        SPOIL(create_qp.memory.ring_offset[1], 0, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.memory.ring_offset[1], 192, RNIC_ST_BAD_QUEUE_MEMORY),
        SPOIL(create_qp.memory.ring_offset[1], 65536,
              RNIC_ST_BAD_QUEUE_MEMORY),
        QUEUE_MEMORY_SPOILS(create_qp.memory));
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(cqe.qp.state, ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, 64);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, 32);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, 4);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 4);
    g_assert_cmpuint(le32_to_cpu(cqe.number), !=, w->qp.number);

    attr = rnic_query_qp(r, &w->qp);
    g_assert_cmphex(le32_to_cpu(attr.qpn), ==, w->qp.number);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, r->pd);
    g_assert_cmphex(le32_to_cpu(attr.send_cqn), ==, w->cq.number);
    g_assert_cmphex(le32_to_cpu(attr.recv_cqn), ==, w->cq.number);
    g_assert_cmpuint(le32_to_cpu(attr.srqn), ==, 0);
    g_assert_cmphex(le32_to_cpu(attr.enables), ==,
                    RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE);
    g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, 64);
    g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, 32);
    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, 4);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, 4);
    g_assert_cmpuint(attr.state, ==, RNIC_QPS_IDLE);
    g_assert_cmpuint(attr.max_send_sge, ==, 4);
    g_assert_cmpuint(attr.max_write_sge, ==, 4);
    g_assert_cmpuint(attr.max_recv_sge, ==, 4);
    g_assert_cmpuint(attr.terminate_origin, ==, 0);
    g_assert_cmpuint(attr.llp_stream, ==, 0);

    RUN(w, object_command(RNIC_ADMIN_DESTROY_QP, UNUSED),
        SPOIL(object.number, 0, RNIC_ST_INVALID_QP),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_QP),
        SPOIL(object.number, 0xffffffff, RNIC_ST_INVALID_QP),
        SPOIL(object.number, w->qp.number | 1u << 24, RNIC_ST_INVALID_QP));
    world_free(w);
    rnic_shows("V6.1.1-1 V6.1.1-7 V9.2.5.1-5 V9.2.5.1-11 V9.2.5.1-16 V9.2.5.1-14 "
               "V9.2.5.4-3 V8.1.3.2-9");
}

static void test_modify_qp(void)
{
    World *w = world_new("");
    Rnic *r = w->r;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    struct rnic_qp_attr before, after;

    before = rnic_query_qp(r, &w->qp);
    RUN(w, good_modify_qp(w),
        SPOIL(modify_qp.qpn, 0, RNIC_ST_INVALID_QP),
        SPOIL(modify_qp.qpn, UNUSED, RNIC_ST_INVALID_QP),
        SPOIL(modify_qp.qpn, w->qp.number | 1u << 24, RNIC_ST_INVALID_QP),
        SPOIL(modify_qp.mask, 1u << 31, RNIC_ST_INVALID_MODIFIER),
        SPOIL(modify_qp.mask, RNIC_QP_MODIFY_RQ_LIMIT,
              RNIC_ST_CANNOT_CHANGE_ATTRIBUTE),
        SPOIL(modify_qp.mask, RNIC_QP_MODIFY_SQ_DEPTH,
              RNIC_ST_INVALID_MODIFIER),
        SPOIL(modify_qp.mask, RNIC_QP_MODIFY_RQ_DEPTH,
              RNIC_ST_INVALID_MODIFIER));
    sqe = good_modify_qp(w);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    RUN(w, sqe,
        SPOIL(modify_qp.next_state, 5, RNIC_ST_INVALID_STATE_CHANGE),
        SPOIL(modify_qp.next_state, 255, RNIC_ST_INVALID_STATE_CHANGE),
        SPOIL(modify_qp.next_state, RNIC_QPS_CLOSING,
              RNIC_ST_INVALID_STATE_CHANGE),
        SPOIL(modify_qp.next_state, RNIC_QPS_TERMINATE,
              RNIC_ST_INVALID_STATE_CHANGE),
        SPOIL(modify_qp.next_state, RNIC_QPS_RTS,
              RNIC_ST_INVALID_LLP_STREAM));
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ird = cpu_to_le16(2);
    sqe.modify_qp.ord = cpu_to_le16(2);
    RUN(w, sqe,
        SPOIL(modify_qp.ird, le32_to_cpu(w->attr.max_ird) + 1,
              RNIC_ST_IRD_EXCEEDED),
        SPOIL(modify_qp.ord, le32_to_cpu(w->attr.max_ord) + 1,
              RNIC_ST_ORD_EXCEEDED));
    sqe = good_modify_qp(w);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES);
    RUN(w, sqe,
        SPOIL(modify_qp.enables, 1u << 31, RNIC_ST_INVALID_MODIFIER));
    /* Good attributes with one that is bad: none of them. */
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES |
                                     RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD);
    sqe.modify_qp.ird = cpu_to_le16(2);
    sqe.modify_qp.ord = cpu_to_le16(1);
    sqe.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_READ);
    RUN(w, sqe,
        SPOIL(modify_qp.ird, le32_to_cpu(w->attr.max_ird) + 1,
              RNIC_ST_IRD_EXCEEDED),
        SPOIL(modify_qp.ord, le32_to_cpu(w->attr.max_ord) + 1,
              RNIC_ST_ORD_EXCEEDED),
        SPOIL(modify_qp.enables, 1u << 31, RNIC_ST_INVALID_MODIFIER));
    /*
     * With a bad transition, or without the stream for a good one, to which they
     * belong: none either.
     */
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_STATE);
    RUN(w, sqe,
        SPOIL(modify_qp.next_state, RNIC_QPS_CLOSING,
              RNIC_ST_INVALID_STATE_CHANGE),
        SPOIL(modify_qp.next_state, RNIC_QPS_RTS,
              RNIC_ST_CANNOT_CHANGE_ATTRIBUTE),
        SPOIL(modify_qp.next_state, RNIC_QPS_ERROR,
              RNIC_ST_CANNOT_CHANGE_ATTRIBUTE));
    after = rnic_query_qp(r, &w->qp);
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));

    /* Idle to Idle, and attributes alone. */
    sqe.modify_qp.next_state = RNIC_QPS_IDLE;
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, 2);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 1);
    g_assert_cmpuint(cqe.qp.state, ==, RNIC_QPS_IDLE);
    after = rnic_query_qp(r, &w->qp);
    g_assert_cmpuint(le32_to_cpu(after.enables), ==, RNIC_QP_ENABLE_READ);
    g_assert_cmpuint(le16_to_cpu(after.ird), ==, 2);
    g_assert_cmpuint(le16_to_cpu(after.ord), ==, 1);
    sqe = good_modify_qp(w);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES |
                                     RNIC_QP_MODIFY_ORD |
                                     RNIC_QP_MODIFY_IRD);
    sqe.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_WRITE);
    sqe.modify_qp.ord = cpu_to_le16(3);
    sqe.modify_qp.ird = cpu_to_le16(5);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, 5);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 3);
    after = rnic_query_qp(r, &w->qp);
    g_assert_cmpuint(le32_to_cpu(after.enables), ==, RNIC_QP_ENABLE_WRITE);
    g_assert_cmpuint(le16_to_cpu(after.ord), ==, 3);
    g_assert_cmpuint(le16_to_cpu(after.ird), ==, 5);
    world_free(w);
    rnic_shows("V6.1.3-1 V6.1.3-5 V6.1.3-6 V6.2.1.1-1 V8.3.1-3 V9.2.5.3-2 "
               "V9.2.5.3-10");
}

/* ------------------------------------------------------------ registration */

/* Four pages, of which number @bad is not at a page's boundary. */
static void store_list(World *w, uint64_t list, int bad)
{
    for (int i = 0; i < 4; i++) {
        uint64_t page = cpu_to_le64(w->buffer + i * 4096 + (i == bad));

        rnic_mem_write(w->r, list + 8 * i, &page, 8);
    }
}

static void test_register_refused(void)
{
    World *w = world_new("");
    struct rnic_admin_sqe one = good_register_mr(w);
    struct rnic_admin_sqe zero_based = good_register_mr(w);
    uint64_t bad_list;

    RUN(w, good_register_mr(w),
        SPOIL(register_mr.pdn, 0, RNIC_ST_INVALID_PD),
        SPOIL(register_mr.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(register_mr.pdn, w->r->pd | 1u << 31, RNIC_ST_INVALID_PD),
        SPOIL(register_mr.first_byte_offset, 4096, RNIC_ST_INVALID_FBO),
        SPOIL(register_mr.first_byte_offset, ~0ULL, RNIC_ST_INVALID_FBO),
        SPOIL(register_mr.first_byte_offset, 0xa0f, RNIC_ST_INVALID_VA),
        SPOIL(register_mr.va, 0x123456789a11, RNIC_ST_INVALID_VA),
        SPOIL(register_mr.va, 0xfffffffffffffa10, RNIC_ST_INVALID_VA),
        SPOIL(register_mr.length, 4 * 4096 - 0xa10 + 1,
              RNIC_ST_INVALID_LENGTH),
        SPOIL(register_mr.length, ~0ULL, RNIC_ST_INVALID_LENGTH),
        SPOIL(register_mr.length, 1ULL << 63, RNIC_ST_INVALID_LENGTH),
        SPOIL(register_mr.pages.count, 0, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.count, 3, RNIC_ST_INVALID_LENGTH),
        SPOIL(register_mr.pages.page_shift, 0, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.page_shift, 11, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.page_shift, 63, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.page_shift, 64, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.page_shift, 255, RNIC_ST_INVALID_PBL_SIZE),
        SPOIL(register_mr.pages.addr, w->buffer + 4, RNIC_ST_BAD_BUFFER),
        SPOIL(register_mr.pages.addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),
        SPOIL(register_mr.pages.level, 3, RNIC_ST_INVALID_MODIFIER),
        SPOIL(register_mr.stag, 0x100, RNIC_ST_INVALID_MODIFIER),
        SPOIL(register_mr.change, 1, RNIC_ST_INVALID_MODIFIER),
        SPOIL(register_mr.block_size, 1000, RNIC_ST_INVALID_MODIFIER),
        SPOIL(register_mr.access, 0, RNIC_ST_INVALID_ACCESS_RIGHTS));
    if (!(rnic_features(w->r) & RNIC_FEATURE_BLOCK_LIST)) {
        RUN(w, good_register_mr(w),
            SPOIL(register_mr.mr_flags, RNIC_MR_BLOCK_LIST,
                  RNIC_ST_UNSUPPORTED));
    }

    /* Page addresses against the page size, each of a list alone. */
    one.register_mr.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(w->buffer + 8), .count = cpu_to_le32(1),
        .level = RNIC_PAGE_LIST_INLINE, .page_shift = 12,
    };
    one.register_mr.length = cpu_to_le64(16);
    g_assert_cmpuint(rnic_admin(w->r, &one, NULL), ==,
                     RNIC_ST_INVALID_PBL_ENTRY);
    bad_list = rnic_alloc(w->r, 64);
    for (int bad = 0; bad < 4; bad++) {
        store_list(w, bad_list, bad);
        RUN(w, good_register_mr(w),
            SPOIL(register_mr.pages.addr, bad_list, RNIC_ST_INVALID_PBL_ENTRY));
    }

    /* Zero based: VA is ignored. */
    zero_based.register_mr.access |= cpu_to_le32(RNIC_ACCESS_ZERO_BASED);
    zero_based.register_mr.va = cpu_to_le64(~0ULL);
    g_assert_cmpuint(rnic_admin(w->r, &zero_based, NULL), ==, RNIC_ST_OK);
    world_free(w);
    rnic_shows("V7.6.2.1-1 V7.6.2.1-2 V7.6.2.1-3 V7.6.2.1-4 V9.2.6.2-3 "
               "V9.2.6.2-10 V9.2.6.2-11");
}

/* Windows, shared regions, Reregister: what changes nothing. */
static void test_stags_refused(void)
{
    World *w = world_new("");
    struct rnic_admin_sqe mw = rnic_command(RNIC_ADMIN_ALLOC_MW);
    struct rnic_admin_sqe stag = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_admin_sqe shared = rnic_command(RNIC_ADMIN_REGISTER_SHARED_MR);
    struct rnic_admin_sqe again = good_register_mr(w);
    struct rnic_admin_sqe query = object_command(RNIC_ADMIN_QUERY_MW, 0);
    struct rnic_mr_attr before, after;
    struct rnic_admin_cqe cqe;

    rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR, w->mr.stag, &before,
                     sizeof(before));
    mw.alloc_stag.pdn = cpu_to_le32(w->r->pd);
    RUN(w, mw,
        SPOIL(alloc_stag.pdn, 0, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.pdn, w->r->pd | 1u << 24, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.max_pages, 1, RNIC_ST_INVALID_MODIFIER),
        SPOIL(alloc_stag.remote_access, 1, RNIC_ST_INVALID_MODIFIER),
        SPOIL(alloc_stag.window_of_pd, 2, RNIC_ST_INVALID_MODIFIER),
        SPOIL(alloc_stag.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO));
    stag.alloc_stag.pdn = cpu_to_le32(w->r->pd);
    stag.alloc_stag.max_pages = cpu_to_le32(1);
    RUN(w, stag,
        SPOIL(alloc_stag.window_of_pd, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(alloc_stag.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO));
    shared.shared_mr.stag = cpu_to_le32(w->mr.stag);
    shared.shared_mr.pdn = cpu_to_le32(w->r->pd);
    shared.shared_mr.va = cpu_to_le64(w->mr.va);
    shared.shared_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    RUN(w, shared,
        SPOIL(shared_mr.stag, 0, RNIC_ST_INVALID_STAG),
        SPOIL(shared_mr.stag, UNUSED, RNIC_ST_INVALID_STAG),
        SPOIL(shared_mr.stag, w->mr.stag ^ 1, RNIC_ST_INVALID_STAG),
        SPOIL(shared_mr.pdn, UNUSED, RNIC_ST_INVALID_PD),
        SPOIL(shared_mr.pdn, w->r->pd | 1u << 24, RNIC_ST_INVALID_PD),
        SPOIL(shared_mr.va, w->mr.va + 1, RNIC_ST_INVALID_VA),
        SPOIL(shared_mr.access, 0, RNIC_ST_INVALID_ACCESS_RIGHTS),
        SPOIL(shared_mr.access, 1u << 31, RNIC_ST_INVALID_ACCESS_RIGHTS),
        SPOIL(shared_mr.reserved[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(shared_mr.reserved[2], 1, RNIC_ST_RESERVED_NOT_ZERO));
    /* Of Reregister's refusals these leave the region. */
    again.opcode = cpu_to_le16(RNIC_ADMIN_REREGISTER_MR);
    again.register_mr.stag = cpu_to_le32(w->mr.stag);
    again.register_mr.change = cpu_to_le32(RNIC_REREGISTER_TRANSLATION);
    RUN(w, again,
        SPOIL(register_mr.stag, 0, RNIC_ST_INVALID_STAG),
        SPOIL(register_mr.stag, UNUSED, RNIC_ST_INVALID_STAG),
        SPOIL(register_mr.reserved, 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(register_mr.reserved2, 1, RNIC_ST_RESERVED_NOT_ZERO));
    with_bulk(&query, w->buffer, sizeof(before));
    RUN(w, query,
        SPOIL(object.number, 0, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, w->mr.stag, RNIC_ST_INVALID_STAG));
    rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR, w->mr.stag, &after,
                     sizeof(after));
    g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    /* They were good but for that. */
    g_assert_cmpuint(rnic_admin(w->r, &again, NULL), ==, RNIC_ST_OK);
    again.register_mr.change = 0;
    g_assert_cmpuint(rnic_admin(w->r, &again, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(w->r, &mw, NULL), ==, RNIC_ST_OK);
    shared.shared_mr.stag = cqe.number;
    /* Another page, the same offset in it. */
    shared.shared_mr.va = cpu_to_le64(w->mr.va + 4096);
    g_assert_cmpuint(rnic_admin(w->r, &shared, NULL), ==, RNIC_ST_INVALID_VA);
    shared.shared_mr.va = cpu_to_le64(le64_to_cpu(again.register_mr.va) + 4096);
    g_assert_cmpuint(rnic_admin(w->r, &shared, NULL), ==, RNIC_ST_OK);
    shared.shared_mr.va = cpu_to_le64(w->mr.va + 1);
    shared.shared_mr.access |= cpu_to_le32(RNIC_ACCESS_ZERO_BASED);
    g_assert_cmpuint(rnic_admin(w->r, &shared, NULL), ==, RNIC_ST_OK);
    world_free(w);
    rnic_shows("V9.2.6.6-4 V9.2.6.8-2 V7.2.1-11 V7.3.2.3-1 V7.3.2.3-6");
}

/* Figure 18: 16 combinations of which 8 are good. */
static void test_register_rights(void)
{
    World *w = world_new("");

    for (uint32_t access = 0; access < 256; access++) {
        struct rnic_admin_sqe sqe = good_register_mr(w);
        bool lr = access & RNIC_ACCESS_LOCAL_READ;
        bool lw = access & RNIC_ACCESS_LOCAL_WRITE;
        bool rr = access & RNIC_ACCESS_REMOTE_READ;
        bool writes = access & (RNIC_ACCESS_REMOTE_WRITE |
                                RNIC_ACCESS_REMOTE_ATOMIC |
                                RNIC_ACCESS_READ_SINK);
        bool good = (lr || lw) && (lr || !rr) && (lw || !writes);
        struct rnic_admin_cqe cqe;
        uint16_t status;

        sqe.register_mr.access = cpu_to_le32(access);
        status = rnic_admin(w->r, &sqe, &cqe);
        g_assert_cmpuint(status, ==, good ? RNIC_ST_OK
                                          : RNIC_ST_INVALID_ACCESS_RIGHTS);
        if (good) {
            struct rnic_mr_attr attr;

            rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR,
                             le32_to_cpu(cqe.number), &attr, sizeof(attr));
            g_assert_cmphex(le32_to_cpu(attr.access), ==, access);
        }
    }
    for (unsigned bit = 8; bit < 32; bit++) {
        struct rnic_admin_sqe sqe = good_register_mr(w);

        sqe.register_mr.access |= cpu_to_le32(1u << bit);
        g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==,
                         RNIC_ST_INVALID_ACCESS_RIGHTS);
    }
    world_free(w);
    rnic_shows("V7.4.1-1 V9.2.6.2-7");
}

static void test_register_query(void)
{
    static const uint8_t keys[] = { 0, 1, 0xa5, 0xff };
    World *w = world_new("");
    Rnic *r = w->r;

    for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++) {
        struct rnic_admin_sqe sqe = good_register_mr(w);
        struct rnic_admin_cqe cqe;
        struct rnic_mr_attr attr;
        uint32_t stag;

        sqe.register_mr.key = keys[i];
        g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
        stag = le32_to_cpu(cqe.number);
        g_assert_cmphex(stag & 0xff, ==, keys[i]);
        g_assert_cmphex(stag >> 8, !=, 0);
        /* Only the index counts. */
        g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, stag ^ 0x3c,
                                          &attr, sizeof(attr)),
                         ==, RNIC_ST_OK);
        g_assert_cmphex(le32_to_cpu(attr.stag), ==, stag);
        g_assert_cmphex(le32_to_cpu(attr.pdn), ==, r->pd);
        g_assert_cmphex(le64_to_cpu(attr.va), ==, 0x123456789a10);
        g_assert_cmphex(le64_to_cpu(attr.length), ==, 4 * 4096 - 0xa10);
        g_assert_cmphex(le64_to_cpu(attr.first_byte_offset), ==, 0xa10);
        g_assert_cmphex(le32_to_cpu(attr.access), ==, RNIC_TEST_ACCESS_ALL);
        g_assert_cmpuint(le32_to_cpu(attr.page_count), ==, 4);
        g_assert_cmpuint(le32_to_cpu(attr.max_pages), >=, 4);
        g_assert_cmpuint(attr.page_shift, ==, 12);
        g_assert_cmpuint(attr.kind, ==, RNIC_STAG_MR);
        g_assert_cmpuint(attr.valid, ==, 1);
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                           stag ^ 0xff), ==, RNIC_ST_OK);
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG, stag),
                         ==, RNIC_ST_INVALID_STAG);
        g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, stag,
                                          &attr, sizeof(attr)),
                         ==, RNIC_ST_INVALID_STAG);
    }
    RUN(w, object_command(RNIC_ADMIN_DEALLOC_STAG, UNUSED << 8),
        SPOIL(object.number, 0, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, 0x42, RNIC_ST_INVALID_STAG),
        SPOIL(object.number, 0xffffffff, RNIC_ST_INVALID_STAG));
    world_free(w);
    rnic_shows("V4-1 V7.7-1 V7.9-2 V7.9-7 V9.2.6.4-5");
}

/* All levels of page lists describe the same memory. */
static void test_page_list_levels(void)
{
    enum { PAGES = 1100 };      /* three chunks */
    Rnic *r = rnic_boot_up("");
    uint64_t page = rnic_alloc(r, 2 * 4096);
    uint64_t list = rnic_alloc(r, PAGES * 8);
    uint64_t chunks = rnic_alloc(r, 3 * 8);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    struct rnic_admin_cqe cqe;
    struct rnic_mr_attr attr;

    for (int i = 0; i < PAGES; i++) {
        uint64_t entry = cpu_to_le64(page + (i & 1) * 4096);

        rnic_mem_write(r, list + 8 * i, &entry, 8);
    }
    for (int i = 0; i < 3; i++) {
        uint64_t entry = cpu_to_le64(list + i * RNIC_PAGE_CHUNK);

        rnic_mem_write(r, chunks + 8 * i, &entry, 8);
    }
    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.length = cpu_to_le64((uint64_t)PAGES * 4096);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.pages.count = cpu_to_le32(PAGES);
    sqe.register_mr.pages.page_shift = 12;
    sqe.register_mr.pages.level = RNIC_PAGE_LIST_DIRECT;
    sqe.register_mr.pages.addr = cpu_to_le64(list);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    sqe.register_mr.pages.level = RNIC_PAGE_LIST_INDIRECT;
    sqe.register_mr.pages.addr = cpu_to_le64(chunks);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, le32_to_cpu(cqe.number), &attr,
                     sizeof(attr));
    g_assert_cmpuint(le32_to_cpu(attr.page_count), ==, PAGES);

    /* A chunk that is nowhere, or not aligned; the last one. */
    for (int bad = 0; bad < 2; bad++) {
        uint64_t entry = cpu_to_le64(bad ? list + 4 : RNIC_TEST_NOWHERE);

        rnic_mem_write(r, chunks + 16, &entry, 8);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                         bad ? RNIC_ST_BAD_BUFFER : RNIC_ST_DMA_ERROR);
    }
    rnic_quit(r);
}

/* --------------------------------------------------------------- exhaustion */

static uint32_t make_one(World *w, uint16_t opcode, uint16_t *status)
{
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;

    switch (opcode) {
    case RNIC_ADMIN_CREATE_EQ:
        sqe = good_create_eq(w);
        break;
    case RNIC_ADMIN_CREATE_CQ:
        sqe = good_create_cq(w);
        break;
    case RNIC_ADMIN_CREATE_QP:
        sqe = good_create_qp(w);
        break;
    case RNIC_ADMIN_CREATE_SRQ:
        sqe = good_create_srq(w);
        break;
    case RNIC_ADMIN_REGISTER_MR:
        sqe = good_register_mr(w);
        break;
    case RNIC_ADMIN_ALLOC_MW:
        sqe = rnic_command(opcode);
        sqe.alloc_stag.pdn = cpu_to_le32(w->r->pd);
        break;
    default:
        sqe = rnic_command(opcode);
    }
    *status = rnic_admin(w->r, &sqe, &cqe);
    return le32_to_cpu(cqe.number);
}

/*
 * Make as many as can be, and one more; remove one, make one. Those that exist
 * are given, and none of the numbers comes twice.
 */
static void exhaust(World *w, uint16_t create, uint16_t destroy,
                    const uint32_t *existing, unsigned count, unsigned max)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    uint32_t last = 0;
    uint16_t status;
    struct rnic_counters before, after;

    for (unsigned i = 0; i < count; i++) {
        g_hash_table_add(seen, GUINT_TO_POINTER(existing[i]));
    }
    for (unsigned i = count; i < max; i++) {
        last = make_one(w, create, &status);
        g_assert_cmpuint(status, ==, RNIC_ST_OK);
        g_assert_cmphex(last, !=, 0);
        g_assert_true(g_hash_table_add(seen, GUINT_TO_POINTER(last)));
    }
    before = rnic_query_counters(w->r);
    make_one(w, create, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
    after = rnic_query_counters(w->r);
    assert_same_objects(&before, &after);
    g_assert_cmpuint(rnic_admin_object(w->r, destroy, last), ==, RNIC_ST_OK);
    make_one(w, create, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_OK);
    make_one(w, create, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
}

#define EXHAUST(w, create, destroy, max, ...)                           \
    do {                                                                \
        const uint32_t existing_[] = { __VA_ARGS__ };                   \
        exhaust(w, create, destroy, existing_, G_N_ELEMENTS(existing_), \
                max);                                                   \
    } while (0)

/*
 * Regions have taken the places that windows could have had; what there was before
 * works.
 */
static void assert_others_unharmed(World *w)
{
    struct rnic_mr_attr attr;
    uint16_t status;

    make_one(w, RNIC_ADMIN_ALLOC_MW, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_admin_query(w->r, RNIC_ADMIN_QUERY_MR, w->mr.stag,
                                      &attr, sizeof(attr)), ==, RNIC_ST_OK);
    g_assert_cmpuint(attr.valid, ==, 1);
    rnic_cq_arm(w->r, &w->cq, RNIC_ARM_NEXT);
    rnic_post_recv(w->r, &w->qp, 0x1e, 0, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(w->r, &w->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(w->r, &w->cq, 0x1e, RNIC_WC_FLUSHED);
    rnic_eq_wait(w->r, &w->r->comp_eq, &(struct rnic_ceqe) { });
    rnic_expect_no_async(w->r);
    /* One place is enough for either. */
    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DEALLOC_STAG,
                                       w->mr.stag), ==, RNIC_ST_OK);
    make_one(w, RNIC_ADMIN_ALLOC_MW, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_OK);
    make_one(w, RNIC_ADMIN_REGISTER_MR, &status);
    g_assert_cmpuint(status, ==, RNIC_ST_INSUFFICIENT_RESOURCES);
}

static void check_exhaustion(void)
{
    World *w = world_new(",max-qp=5,max-cq=6,max-eq=7,max-pd=8,max-mr=9,"
                         "max-srq=4");

    g_assert_cmpuint(le32_to_cpu(w->attr.max_qp), ==, 5);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_cq), ==, 6);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_eq), ==, 7);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_pd), ==, 8);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_mr), ==, 9);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_srq), ==, 4);
    /* PDs are those that were allocated, and no other. */
    RUN(w, good_create_qp(w),
        SPOIL(create_qp.pdn, UNUSED, RNIC_ST_INVALID_PD));
    RUN(w, object_command(RNIC_ADMIN_DESTROY_EQ, UNUSED),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_EQ));
    EXHAUST(w, RNIC_ADMIN_CREATE_QP, RNIC_ADMIN_DESTROY_QP, 5, w->qp.number);
    EXHAUST(w, RNIC_ADMIN_CREATE_CQ, RNIC_ADMIN_DESTROY_CQ, 6, w->cq.number);
    EXHAUST(w, RNIC_ADMIN_CREATE_SRQ, RNIC_ADMIN_DESTROY_SRQ, 4);
    EXHAUST(w, RNIC_ADMIN_CREATE_EQ, RNIC_ADMIN_DESTROY_EQ, 7,
            w->r->async_eq.number, w->r->cm_eq.number, w->r->comp_eq.number);
    EXHAUST(w, RNIC_ADMIN_ALLOC_PD, RNIC_ADMIN_DEALLOC_PD, 8, w->r->pd,
            w->unused_pd);
    EXHAUST(w, RNIC_ADMIN_REGISTER_MR, RNIC_ADMIN_DEALLOC_STAG, 9, w->mr.stag);
    assert_others_unharmed(w);
    world_free(w);
}

static void test_exhaustion(void)
{
    check_exhaustion();
    rnic_shows("V5.1.1-1 V5.2.1-1 V7.3-3 V9.2.2.1-1 V9.2.2.1-2 V9.2.3.1-6 "
               "V9.2.5.1-13 V9.4.1-6");
}

/* Objects that were and are no more, and tables that are full: nothing is made. */
static void test_stale_handles(void)
{
    World *w = world_new(",max-qp=2,max-mr=2");
    Rnic *r = w->r;
    RnicSrqInit srq_init = rnic_srq_default(r);
    struct rnic_admin_sqe qp = good_create_qp(w);
    struct rnic_admin_sqe mr = good_register_mr(w);
    struct rnic_admin_sqe stag = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_admin_sqe mw = rnic_command(RNIC_ADMIN_ALLOC_MW);
    struct rnic_admin_sqe shared = rnic_command(RNIC_ADMIN_REGISTER_SHARED_MR);
    uint32_t pages = le32_to_cpu(w->attr.max_fast_register_pages);
    struct rnic_counters before, after;
    struct rnic_admin_sqe modify = good_modify_qp(w), query;
    struct rnic_admin_cqe cqe;
    struct rnic_mr_attr attr;
    RnicSrq srq;
    RnicCq cq;

    rnic_create_cq(r, &cq, 2, RNIC_NO_VECTOR);
    rnic_create_srq(r, &srq, &srq_init);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, cq.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_SRQ, srq.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, w->unused_pd),
                     ==, RNIC_ST_OK);
    stag.alloc_stag.pdn = cpu_to_le32(r->pd);
    stag.alloc_stag.max_pages = cpu_to_le32(1);
    mw.alloc_stag.pdn = cpu_to_le32(r->pd);
    shared.shared_mr.stag = cpu_to_le32(w->mr.stag);
    shared.shared_mr.pdn = cpu_to_le32(r->pd);
    shared.shared_mr.va = cpu_to_le64(w->mr.va);
    shared.shared_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);

    RUN(w, qp,
        SPOIL(create_qp.pdn, w->unused_pd, RNIC_ST_INVALID_PD),
        SPOIL(create_qp.send_cqn, cq.number, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.recv_cqn, cq.number, RNIC_ST_INVALID_CQ),
        SPOIL(create_qp.srqn, srq.number, RNIC_ST_INVALID_SRQ));
    RUN(w, mr, SPOIL(register_mr.pdn, w->unused_pd, RNIC_ST_INVALID_PD));
    RUN(w, stag,
        SPOIL(alloc_stag.pdn, w->unused_pd, RNIC_ST_INVALID_PD),
        SPOIL(alloc_stag.max_pages, pages + 1,
              RNIC_ST_INSUFFICIENT_RESOURCES));
    RUN(w, mw, SPOIL(alloc_stag.pdn, w->unused_pd, RNIC_ST_INVALID_PD));
    RUN(w, shared, SPOIL(shared_mr.pdn, w->unused_pd, RNIC_ST_INVALID_PD));

    /* They were good but for that, and fill the tables. */
    g_assert_cmpuint(rnic_admin(r, &qp, &cqe), ==, RNIC_ST_OK);
    modify.modify_qp.qpn = cqe.number;
    query = object_command(RNIC_ADMIN_QUERY_QP, le32_to_cpu(cqe.number));
    with_bulk(&query, w->buffer, sizeof(struct rnic_qp_attr));
    g_assert_cmpuint(rnic_admin(r, &mr, &cqe), ==, RNIC_ST_OK);
    before = rnic_query_counters(r);
    g_assert_cmpuint(rnic_admin(r, &qp, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_admin(r, &mr, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_admin(r, &stag, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_admin(r, &mw, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    g_assert_cmpuint(rnic_admin(r, &shared, NULL), ==,
                     RNIC_ST_INSUFFICIENT_RESOURCES);
    after = rnic_query_counters(r);
    assert_same_objects(&before, &after);
    rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, w->mr.stag, &attr, sizeof(attr));
    g_assert_cmpuint(attr.kind, ==, RNIC_STAG_MR);
    g_assert_cmpuint(attr.valid, ==, 1);

    /* With room again, each finds it. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                       le32_to_cpu(cqe.number)),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &stag, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                       le32_to_cpu(cqe.number)),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &mw, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                       le32_to_cpu(cqe.number)),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &shared, NULL), ==, RNIC_ST_OK);

    /* A QP that is gone. */
    g_assert_cmpuint(rnic_admin(r, &query, NULL), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &modify, NULL), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP,
                                       le32_to_cpu(query.object.number)),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &query, NULL), ==, RNIC_ST_INVALID_QP);
    g_assert_cmpuint(rnic_admin(r, &modify, NULL), ==, RNIC_ST_INVALID_QP);
    world_free(w);
    rnic_shows("V9.2.5.1-17 V9.2.5.2-8 V9.2.6.1-3 V9.2.6.2-12 V9.2.6.7-2");
}

static void test_read_limits(void)
{
    World *w = world_new(",max-ird=6,max-ord=7");
    struct rnic_admin_sqe sqe = good_create_qp(w);
    struct rnic_admin_sqe modify = rnic_command(RNIC_ADMIN_MODIFY_QP);
    struct rnic_qp_attr before, after;
    struct rnic_admin_cqe cqe;
    RnicQp qp;

    g_assert_cmpuint(le32_to_cpu(w->attr.max_ird), ==, 6);
    g_assert_cmpuint(le32_to_cpu(w->attr.max_ord), ==, 7);
    g_assert_cmpuint(w->attr.max_total_ird, ==, 0);
    g_assert_cmpuint(w->attr.max_total_ord, ==, 0);
    RUN(w, good_create_qp(w),
        SPOIL(create_qp.ird, 7, RNIC_ST_IRD_EXCEEDED),
        SPOIL(create_qp.ord, 8, RNIC_ST_ORD_EXCEEDED));
    sqe.create_qp.ird = cpu_to_le16(6);
    sqe.create_qp.ord = cpu_to_le16(7);
    g_assert_cmpuint(rnic_admin(w->r, &sqe, &cqe), ==, RNIC_ST_OK);
    /* Later, too; what there was stays. */
    modify.modify_qp.qpn = cqe.number;
    qp.number = le32_to_cpu(cqe.number);
    before = rnic_query_qp(w->r, &qp);
    g_assert_cmpuint(le16_to_cpu(before.ird), ==, 6);
    g_assert_cmpuint(le16_to_cpu(before.ord), ==, 7);
    modify.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_IRD |
                                        RNIC_QP_MODIFY_ORD);
    for (int over = 0; over < 2; over++) {
        modify.modify_qp.ird = cpu_to_le16(over ? 1 : 7);
        modify.modify_qp.ord = cpu_to_le16(over ? 8 : 1);
        g_assert_cmpuint(rnic_admin(w->r, &modify, NULL), ==,
                         over ? RNIC_ST_ORD_EXCEEDED : RNIC_ST_IRD_EXCEEDED);
        after = rnic_query_qp(w->r, &qp);
        g_assert_cmpmem(&after, sizeof(after), &before, sizeof(before));
    }
    sqe.create_qp.ird = 0;
    sqe.create_qp.ord = 0;
    g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_OK);
    world_free(w);
    rnic_shows("V6.5-1 V6.5-2 V9.2.1.2-4 V9.2.5.1-15");
}

/* Each maximum that is reported: that much, and no more. */
static void test_ceilings(void)
{
    World *w = world_new(",max-mr=7");
    Rnic *r = w->r;
    uint32_t pages = le32_to_cpu(w->attr.max_fast_register_pages);
    struct rnic_admin_sqe stag = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    RnicQpInit init = rnic_qp_default(r, &w->cq, &w->cq);
    RnicSrqInit srq_init = rnic_srq_default(r);
    struct rnic_admin_cqe cqe;
    RnicSrq srq;
    RnicQp qp;
    RnicCq cq;

    /* The largest queues there are. */
    init.sq_depth = le32_to_cpu(w->attr.max_sq_units);
    init.rq_depth = le32_to_cpu(w->attr.max_rq_wr);
    init.rq_shift = RNIC_RQ_MAX_WQE_SHIFT;
    init.max_sge = le32_to_cpu(w->attr.max_send_sge);
    init.ird = le32_to_cpu(w->attr.max_ird);
    init.ord = le32_to_cpu(w->attr.max_ord);
    rnic_create_qp(r, &qp, &init);
    rnic_create_cq(r, &cq, le32_to_cpu(w->attr.max_cqe), RNIC_NO_VECTOR);
    srq_init.depth = le32_to_cpu(w->attr.max_srq_wr);
    rnic_create_srq(r, &srq, &srq_init);
    stag.alloc_stag.pdn = cpu_to_le32(r->pd);
    stag.alloc_stag.max_pages = cpu_to_le32(pages);
    g_assert_cmpuint(rnic_admin(r, &stag, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                       le32_to_cpu(cqe.number)),
                     ==, RNIC_ST_OK);

    RUN(w, good_create_qp(w),
        SPOIL(create_qp.sq_depth, le32_to_cpu(w->attr.max_sq_units) + 1,
              RNIC_ST_SQ_WRS_EXCEEDED),
        SPOIL(create_qp.rq_depth, le32_to_cpu(w->attr.max_rq_wr) + 1,
              RNIC_ST_RQ_WRS_EXCEEDED),
        SPOIL(create_qp.max_send_sge, le32_to_cpu(w->attr.max_send_sge) + 1,
              RNIC_ST_SQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_write_sge, le32_to_cpu(w->attr.max_write_sge) + 1,
              RNIC_ST_SQ_SGES_EXCEEDED),
        SPOIL(create_qp.max_recv_sge, le32_to_cpu(w->attr.max_recv_sge) + 1,
              RNIC_ST_RQ_SGES_EXCEEDED),
        SPOIL(create_qp.ird, le32_to_cpu(w->attr.max_ird) + 1,
              RNIC_ST_IRD_EXCEEDED),
        SPOIL(create_qp.ord, le32_to_cpu(w->attr.max_ord) + 1,
              RNIC_ST_ORD_EXCEEDED));
    RUN(w, good_create_cq(w),
        SPOIL(create_cq.depth, le32_to_cpu(w->attr.max_cqe) + 1,
              RNIC_ST_CQ_TOO_MANY_ENTRIES));
    RUN(w, stag,
        SPOIL(alloc_stag.max_pages, pages + 1,
              RNIC_ST_INSUFFICIENT_RESOURCES));
    RUN(w, good_create_srq(w),
        SPOIL(create_srq.depth, le32_to_cpu(w->attr.max_srq_wr) + 1,
              RNIC_ST_TOO_MANY_WRS),
        SPOIL(create_srq.max_sge, le32_to_cpu(w->attr.max_recv_sge) + 1,
              RNIC_ST_TOO_MANY_SGES));
    g_assert_cmpuint(le32_to_cpu(w->attr.max_mw), ==, 7);
    EXHAUST(w, RNIC_ADMIN_ALLOC_MW, RNIC_ADMIN_DEALLOC_STAG, 7, w->mr.stag);
    world_free(w);
    /* And as many of each object. */
    check_exhaustion();
    rnic_shows("V5.1.3-2 V9.2.1.2-2");
}

/* ------------------------------------------------------------- connections */

static void test_cm_refused(void)
{
    Rnic *r = rnic_boot("", NULL);
    World *w;
    struct rnic_admin_sqe sqe;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;

    /* No CM event queue. */
    rnic_enable(r, 16, RNIC_NO_VECTOR, 0);
    r->pd = rnic_alloc_pd(r);
    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    g_assert_cmpuint(rnic_try_listen(r, 0x0a000001, 4791, 1, NULL), ==,
                     RNIC_ST_NO_CM_EQ);
    g_assert_cmpuint(rnic_try_connect(r, &qp, 0x0a000001, 4791, 1, 1, 1,
                                      NULL, 0), ==, RNIC_ST_NO_CM_EQ);
    rnic_quit(r);

    w = world_new(",max-ird=8,max-ord=8");
    r = w->r;
    RUN(w, object_command(RNIC_ADMIN_CM_UNLISTEN, UNUSED),
        SPOIL(object.number, 0, RNIC_ST_INVALID_ENDPOINT),
        SPOIL(object.number, UNUSED, RNIC_ST_INVALID_ENDPOINT));
    sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);
    sqe.connect.qpn = cpu_to_le32(w->qp.number);
    sqe.connect.remote = rnic_addr(0x0a000001, 1);
    RUN(w, sqe,
        SPOIL(connect.qpn, 0, RNIC_ST_INVALID_QP),
        SPOIL(connect.qpn, UNUSED, RNIC_ST_INVALID_QP),
        SPOIL(connect.ird, 9, RNIC_ST_IRD_EXCEEDED),
        SPOIL(connect.ord, 9, RNIC_ST_ORD_EXCEEDED),
        SPOIL(connect.reserved[0], 1, RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(connect.reserved[sizeof(sqe.connect.reserved) - 1], 0x80,
              RNIC_ST_RESERVED_NOT_ZERO),
        SPOIL(connect.remote.reserved[1], 1, RNIC_ST_RESERVED_NOT_ZERO));
    with_bulk(&sqe, w->buffer, 8);
    RUN(w, sqe,
        SPOIL(bulk_length, 513, RNIC_ST_BAD_PRIVATE_DATA),
        SPOIL(bulk_length, 0xffffffff, RNIC_ST_BAD_PRIVATE_DATA),
        SPOIL(bulk_addr, RNIC_TEST_NOWHERE, RNIC_ST_DMA_ERROR),
        SPOIL(bulk_addr, w->buffer + 1, RNIC_ST_BAD_BUFFER));
    sqe = rnic_command(RNIC_ADMIN_CM_ACCEPT);
    sqe.accept.qpn = cpu_to_le32(w->qp.number);
    RUN(w, sqe,
        SPOIL(accept.endpoint, 0, RNIC_ST_INVALID_ENDPOINT),
        SPOIL(accept.endpoint, UNUSED, RNIC_ST_INVALID_ENDPOINT));
    sqe = rnic_command(RNIC_ADMIN_CM_REJECT);
    RUN(w, sqe,
        SPOIL(accept.endpoint, 0, RNIC_ST_INVALID_ENDPOINT),
        SPOIL(accept.endpoint, UNUSED, RNIC_ST_INVALID_ENDPOINT));
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/admin/nop", test_nop);
    qtest_add_func("rnic/admin/opcodes", test_opcodes);
    qtest_add_func("rnic/admin/reserved", test_reserved);
    qtest_add_func("rnic/admin/bulk", test_bulk);
    qtest_add_func("rnic/admin/event-queues", test_event_queues);
    qtest_add_func("rnic/admin/protection-domains", test_protection_domains);
    qtest_add_func("rnic/admin/completion-queues", test_completion_queues);
    qtest_add_func("rnic/admin/queue-pairs", test_queue_pairs);
    qtest_add_func("rnic/admin/modify-qp", test_modify_qp);
    qtest_add_func("rnic/admin/register-refused", test_register_refused);
    qtest_add_func("rnic/admin/stags-refused", test_stags_refused);
    qtest_add_func("rnic/admin/register-rights", test_register_rights);
    qtest_add_func("rnic/admin/register-query", test_register_query);
    qtest_add_func("rnic/admin/page-list-levels", test_page_list_levels);
    qtest_add_func("rnic/admin/exhaustion", test_exhaustion);
    qtest_add_func("rnic/admin/stale-handles", test_stale_handles);
    qtest_add_func("rnic/admin/read-limits", test_read_limits);
    qtest_add_func("rnic/admin/ceilings", test_ceilings);
    qtest_add_func("rnic/admin/cm-refused", test_cm_refused);
    return g_test_run();
}
