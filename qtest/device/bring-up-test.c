/*
 * rnic: bring-up by the manual's steps, what ENABLE refuses, resets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/crowd.h"

/* The numbered steps of docs/rnic.rst, by hand. */
static void test_manual(void)
{
    enum { DEPTH = 16 };
    Rnic *r = rnic_boot("", NULL);                              /* step 1 */
    uint64_t page = rnic_alloc(r, 4096);
    struct rnic_device_attr attr;
    uint64_t features;

    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAGIC), ==, RNIC_MAGIC);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_ABI_VERSION) >> 16, ==,
                     RNIC_ABI_MAJOR);                           /* 2 */
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_RESET);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);    /* 3 */
    rnic_write32(r, RNIC_REG_TEST32, 21);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_TEST32), ==, 42);
    rnic_write64(r, RNIC_REG_TEST_DMA_ADDR, page);
    rnic_write32(r, RNIC_REG_TEST_DMA_SIZE, 4096);
    rnic_write32(r, RNIC_REG_TEST_DMA_CTRL, RNIC_TEST_DMA_FILL);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_TEST_DMA_STATUS), ==,
                     RNIC_TEST_DMA_DONE);                       /* 4 */
    features = rnic_features(r);                                /* 5 */
    rnic_msix_enable(r);                                        /* 6 */
    rnic_enable(r, DEPTH, 0, features);                         /* 7, 8 */
    g_assert_cmphex(rnic_read32(r, RNIC_REG_CONTROL), ==,
                    RNIC_CONTROL_ENABLE);
    attr = rnic_query_device(r);                                /* 9 */
    g_assert_true(rnic_msix_fired(r, 0));
    g_assert_cmpuint(le32_to_cpu(attr.max_qp), >, 0);
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, 0, 16);
    rnic_create_eq(r, &r->cm_eq, RNIC_EQ_CM, 0, 16);
    rnic_create_eq(r, &r->comp_eq, RNIC_EQ_COMPLETION, 1, 16);  /* 10 */
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_ACCESSES), ==, 0);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, 0);
    rnic_quit(r);
}

/* V5.1.1.1: the whole order; V5.1.1.2: backwards, and nothing is left. */
static void test_object_order(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_counters start = rnic_query_counters(r), end;
    RnicMr mr;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;
    uint32_t pd = rnic_alloc_pd(r);

    rnic_create_cq(r, &cq, 64, r->comp_eq.number);
    init = rnic_qp_default(r, &cq, &cq);
    init.pd = pd;
    rnic_create_qp(r, &qp, &init);
    rnic_create_mr(r, &mr, pd, 10000, RNIC_TEST_ACCESS_ALL);
    end = rnic_query_counters(r);
    g_assert_cmpuint(le32_to_cpu(end.qps), ==, le32_to_cpu(start.qps) + 1);
    g_assert_cmpuint(le32_to_cpu(end.stags), ==, le32_to_cpu(start.stags) + 1);

    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG, mr.stag),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, cq.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd),
                     ==, RNIC_ST_OK);
    end = rnic_query_counters(r);
    g_assert_cmpuint(end.qps, ==, start.qps);
    g_assert_cmpuint(end.cqs, ==, start.cqs);
    g_assert_cmpuint(end.pds, ==, start.pds);
    g_assert_cmpuint(end.stags, ==, start.stags);
    rnic_quit(r);
}

/* ---------------------------------------------------------- ENABLE refused */

typedef struct SetUp {
    uint64_t features;
    uint64_t sq, cq;
    uint32_t depth, vector;
    uint32_t health;
} SetUp;

static void try_enable(Rnic *r, const SetUp *setup)
{
    rnic_write64(r, RNIC_REG_DRIVER_FEATURES, setup->features);
    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, setup->sq);
    rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, setup->cq);
    rnic_write32(r, RNIC_REG_ADMIN_DEPTH, setup->depth);
    rnic_write32(r, RNIC_REG_ADMIN_VECTOR, setup->vector);
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
}

/* What the device lacks is refused, each feature by itself; without it it opens. */
static void check_each_feature(Rnic *r, uint64_t sq, uint64_t cq)
{
    uint64_t offered = rnic_features(r);

    for (unsigned bit = 0; bit < 64; bit++) {
        SetUp setup = { offered | 1ULL << bit, sq, cq, 16, 0, 0 };
        bool good = offered >> bit & 1;

        rnic_reset(r);
        try_enable(r, &setup);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                        good ? RNIC_STATUS_ENABLED : RNIC_STATUS_FATAL);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_HEALTH), ==,
                        good ? RNIC_HEALTH_OK : RNIC_HEALTH_BAD_FEATURES);
        if (!good) {
            rnic_reset(r);
            setup.features = offered;
            try_enable(r, &setup);
            g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                            RNIC_STATUS_ENABLED);
        }
    }
}

static void test_enable_refused(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint32_t vectors = RNIC_LIMITS_VECTORS(rnic_read32(r, RNIC_REG_LIMITS));
    uint64_t sq = rnic_alloc(r, 131072), cq = rnic_alloc(r, 65536);
    uint64_t missing = ~rnic_features(r);
    const SetUp cases[] = {
        { 0, sq + 64, cq, 16, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq + 1, cq, 16, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq + 32, 16, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq + 1, 16, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 0, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 1, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 3, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 2048, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 0x80000000, 0, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 16, vectors, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { 0, sq, cq, 16, 0xfffffffe, RNIC_HEALTH_BAD_ADMIN_SETUP },
        { missing, sq, cq, 16, 0, RNIC_HEALTH_BAD_FEATURES },
        { 1ULL << 63, sq, cq, 16, 0, RNIC_HEALTH_BAD_FEATURES },
        { 0, sq, cq, 2, 0, RNIC_HEALTH_OK },
        { 0, sq, cq, 1024, RNIC_NO_VECTOR, RNIC_HEALTH_OK },
        { ~missing, sq, cq, 16, vectors - 1, RNIC_HEALTH_OK },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        bool good = cases[i].health == RNIC_HEALTH_OK;

        rnic_reset(r);
        try_enable(r, &cases[i]);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_HEALTH), ==, cases[i].health);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                        good ? RNIC_STATUS_ENABLED : RNIC_STATUS_FATAL);
        if (good) {
            continue;
        }
        /* Only a reset helps. */
        try_enable(r, &cases[G_N_ELEMENTS(cases) - 1]);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                        RNIC_STATUS_FATAL);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_HEALTH), ==, cases[i].health);
    }
    check_each_feature(r, sq, cq);
    rnic_up(r);
    rnic_quit(r);
    rnic_shows("V9.2.1.1-2 V9.2.1.1-4 V9.2.1.1-5");
}

/*
 * The RNIC handle is the function, and it is valid while STATUS says ENABLED: a
 * command given at another time is not looked at, nor is it kept for later.
 */
static void test_not_enabled(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_admin_sqe pd = rnic_command(RNIC_ADMIN_ALLOC_PD);
    struct rnic_admin_sqe eq = rnic_command(RNIC_ADMIN_CREATE_EQ);
    uint64_t sq = rnic_alloc(r, 4096), cq = rnic_alloc(r, 4096);
    SetUp setup = { 0, sq, cq, 16, 0, 0 };
    uint8_t now[4096], zero[4096] = { };
    struct rnic_admin_cqe cqe;

    eq.create_eq.eq_class = RNIC_EQ_ASYNC;
    eq.create_eq.vector = cpu_to_le32(RNIC_NO_VECTOR);
    eq.create_eq.depth = cpu_to_le32(16);
    eq.create_eq.memory.pages = rnic_pages(r, rnic_alloc(r, 4096), 4096);
    eq.create_eq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    rnic_mem_write(r, sq, &pd, sizeof(pd));
    rnic_mem_write(r, sq + sizeof(pd), &eq, sizeof(eq));
    for (int when = 0; when < 3; when++) {
        /* Never opened; closed; closed after use. */
        rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, sq);
        rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, cq);
        rnic_write32(r, RNIC_REG_ADMIN_DEPTH, 16);
        rnic_write32(r, RNIC_REG_ADMIN_TAIL, 2);
        rnic_settle(r);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
        g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_TAIL), ==, 0);
        rnic_mem_read(r, cq, now, sizeof(now));
        g_assert_cmpmem(now, sizeof(now), zero, sizeof(zero));
        if (when == 1) {
            try_enable(r, &setup);
            rnic_settle(r);
            g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                            RNIC_STATUS_ENABLED);
            rnic_mem_read(r, cq, now, sizeof(now));
            g_assert_cmpmem(now, sizeof(now), zero, sizeof(zero));
            /* The same commands, now that it is open. */
            rnic_write32(r, RNIC_REG_ADMIN_TAIL, 2);
            for (int i = 0; i < 2; i++) {
                RNIC_UNTIL(r, (rnic_mem_read(r, cq + i * sizeof(cqe), &cqe,
                                             sizeof(cqe)), cqe.flags));
                g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
            }
            rnic_mem_fill(r, cq, 0, 4096);
        }
        rnic_reset(r);
    }
    rnic_quit(r);
    rnic_shows("V9.2.1.3-2 V9.4.2-4");
}

/* What was set before ENABLE stays; CONTROL has no way back but RESET. */
static void test_enabled_is_fixed(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    uint32_t pd;

    rnic_enable(r, 4, RNIC_NO_VECTOR, 0);
    pd = rnic_alloc_pd(r);
    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, 0x1000);
    rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, 0x1000);
    rnic_write32(r, RNIC_REG_ADMIN_DEPTH, 1024);
    rnic_write32(r, RNIC_REG_ADMIN_VECTOR, 1);
    rnic_write64(r, RNIC_REG_DRIVER_FEATURES, ~0ULL);
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
    rnic_write32(r, RNIC_REG_CONTROL, 0);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_SQ_BASE), ==, r->admin_sq);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_CQ_BASE), ==, r->admin_cq);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_ADMIN_DEPTH), ==, 4);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_VECTOR), ==, RNIC_NO_VECTOR);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_DRIVER_FEATURES), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
    for (int i = 0; i < 10; i++) {
        g_assert_cmpuint(rnic_admin(r, &nop, NULL), ==, RNIC_ST_OK);
    }
    /* What the first opener has is there. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                     RNIC_ST_OK);
    rnic_quit(r);
    rnic_shows("V5.1.2-2 V9.2.1.1-3");
}

/* -------------------------------------------------------------------- FATAL */

static void assert_fatal(Rnic *r, uint32_t health)
{
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_HEALTH), ==, health);
    rnic_assert_alive(r);
    rnic_up(r);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
}

static void test_fatal(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint64_t ram = rnic_alloc(r, 4096);
    SetUp setup = { 0, RNIC_TEST_NOWHERE, ram, 4, 0, 0 };
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    static const uint32_t tails[] = { 5, 0xffffffff, 0x80000000, 1025 };

    rnic_reset(r);
    try_enable(r, &setup);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 1);
    assert_fatal(r, RNIC_HEALTH_ADMIN_SQ_DMA);

    rnic_reset(r);
    setup.sq = ram;
    setup.cq = RNIC_TEST_NOWHERE;
    try_enable(r, &setup);
    rnic_mem_write(r, ram, &nop, sizeof(nop));
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 1);
    assert_fatal(r, RNIC_HEALTH_ADMIN_CQ_DMA);

    for (unsigned i = 0; i < G_N_ELEMENTS(tails); i++) {
        rnic_reset(r);
        rnic_enable(r, 4, 0, 0);
        rnic_write32(r, RNIC_REG_ADMIN_TAIL, tails[i]);
        assert_fatal(r, RNIC_HEALTH_ADMIN_TAIL);
    }
    /* Backwards. */
    rnic_reset(r);
    rnic_enable(r, 4, 0, 0);
    rnic_admin_fill(r, &nop);
    rnic_admin_tail(r);
    RNIC_UNTIL(r, rnic_mem_read32(r, r->admin_cq + 60) == RNIC_EQE_PHASE);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 0);
    assert_fatal(r, RNIC_HEALTH_ADMIN_TAIL);
    rnic_quit(r);
}

/* Not a bus master: the admin queue cannot work, and says so. */
static void test_no_bus_master(void)
{
    Rnic *r = rnic_boot("", NULL);

    rnic_enable(r, 4, 0, 0);
    qpci_config_writew(r->dev, 4, 2);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 1);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_HEALTH), ==,
                     RNIC_HEALTH_ADMIN_SQ_DMA);
    qpci_config_writew(r->dev, 4, 6);
    rnic_up(r);
    rnic_quit(r);
}

/* An event that cannot be written. */
static void test_fatal_eq(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);
    struct rnic_admin_cqe cqe;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED };

    rnic_enable(r, 16, RNIC_NO_VECTOR, 0);
    r->pd = rnic_alloc_pd(r);
    sqe.create_eq.eq_class = RNIC_EQ_COMPLETION;
    sqe.create_eq.vector = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.create_eq.depth = cpu_to_le32(16);
    sqe.create_eq.memory.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    sqe.create_eq.memory.pages.count = cpu_to_le32(1);
    sqe.create_eq.memory.pages.page_shift = 12;
    sqe.create_eq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    rnic_create_cq(r, &cq, 16, le32_to_cpu(cqe.number));
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    rnic_cq_arm(r, &cq, RNIC_ARM_NEXT);
    rnic_post_send(r, &qp, &wr);
    /* Idle to Error flushes the Send: a completion, so an event. */
    rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_HEALTH), ==, RNIC_HEALTH_EQ_DMA);
    rnic_up(r);
    rnic_quit(r);
}

/* -------------------------------------------------------------------- reset */

typedef void ResetFunction(Rnic *r);

/* All of them: objects gone, registers as at power on, no DMA, works again. */
static void check_reset(ResetFunction *reset)
{
    Rnic *r = rnic_boot_up("");
    uint64_t mac = rnic_read64(r, RNIC_REG_MAC);
    uint64_t features = rnic_features(r);
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    struct rnic_counters counters;
    uint8_t before[4096], now[4096];
    RnicCq cq;
    RnicQp qp;
    RnicMr mr;
    RnicQpInit init;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED };
    uint64_t old_admin_cq = r->admin_cq;

    rnic_create_cq(r, &cq, 16, r->comp_eq.number);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    rnic_create_mr(r, &mr, r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    rnic_write32(r, RNIC_REG_TEST32, 77);
    rnic_doorbell(r, 9, RNIC_DB_SQ, qp.number);
    rnic_post_send(r, &qp, &wr);
    /* A command given and not waited for. */
    rnic_admin_fill(r, &nop);
    rnic_admin_tail(r);

    reset(r);
    rnic_mem_read(r, old_admin_cq, before, sizeof(before));
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_CONTROL), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_HEALTH), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_TAIL), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_VECTOR), ==, RNIC_NO_VECTOR);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_SQ_BASE), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, 0);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_MAC), ==, mac);
    g_assert_cmphex(rnic_features(r), ==, features);

    rnic_settle(r);
    rnic_mem_read(r, old_admin_cq, now, sizeof(now));
    g_assert_cmpmem(now, sizeof(now), before, sizeof(before));

    rnic_up(r);
    counters = rnic_query_counters(r);
    g_assert_cmpuint(le32_to_cpu(counters.qps), ==, 0);
    g_assert_cmpuint(le32_to_cpu(counters.cqs), ==, 0);
    g_assert_cmpuint(le32_to_cpu(counters.stags), ==, 0);
    g_assert_cmpuint(le32_to_cpu(counters.pds), ==, 1);
    /* What was there before has no name any more. */
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_INVALID_QP);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, cq.number),
                     ==, RNIC_ST_INVALID_CQ);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG, mr.stag),
                     ==, RNIC_ST_INVALID_STAG);
    g_assert_cmpuint(le32_to_cpu(counters.eqs), ==, 3);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_INVALID_QP);
    rnic_create_cq(r, &cq, 16, r->comp_eq.number);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    /* They begin with nothing, and work. */
    rnic_settle(r);
    rnic_expect_no_cqe(r, &cq);
    rnic_post_recv(r, &qp, 5, 0, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(r, &cq, 5, RNIC_WC_FLUSHED);
    rnic_settle(r);
    rnic_expect_no_cqe(r, &cq);
    rnic_expect_no_async(r);
    rnic_quit(r);
}

static void test_control_reset(void)
{
    check_reset(rnic_reset);
    rnic_shows("V5.1.2-1");
}

static void test_flr(void)
{
    check_reset(rnic_flr);
}

static void test_bus_reset(void)
{
    check_reset(rnic_bus_reset);
}

static void test_reset_often(void)
{
    Rnic *r = rnic_boot("", NULL);

    for (int i = 0; i < 50; i++) {
        uint64_t mark = r->next_free;
        RnicCq cq;

        rnic_up(r);
        rnic_create_cq(r, &cq, 16, r->comp_eq.number);
        /* The ring of the admin queue is zeroed for its next use. */
        rnic_mem_fill(r, mark, 0, r->next_free - mark);
        r->next_free = mark;
    }
    rnic_quit(r);
}

/* ------------------------------------------------------- properties refused */

static void assert_refused(const char *properties, const char *reason)
{
    g_autofree char *line = g_strdup_printf(
        "%s -machine q35 -nodefaults -display none -accel qtest "
        "-device rnic%s", getenv("QTEST_QEMU_BINARY"), properties);
    g_autofree char *error = NULL;
    g_autoptr(GError) failure = NULL;
    int status;

    g_assert_true(g_spawn_command_line_sync(line, NULL, &error, &status,
                                            &failure));
    g_assert_cmpint(status, !=, 0);
    if (!strstr(error, reason)) {
        g_printerr("%s: no word of '%s' in: %s\n", properties, reason, error);
        g_assert_not_reached();
    }
}

static void test_bad_properties(void)
{
    assert_refused(",max-qp=0", "max-qp");
    assert_refused(",max-cq=4294967295", "max-cq");
    assert_refused(",max-pd=0", "max-pd");
    assert_refused(",max-mr=0", "max-mr");
    assert_refused(",max-ird=0", "max-ird");
    assert_refused(",max-ord=60000", "max-ord");
    assert_refused(",mpa-revision=3", "mpa-revision");
    assert_refused(",mpa-revision=0", "mpa-revision");
    assert_refused(",mpa-revision=1,mpa-rtr=on", "mpa-r");
    assert_refused(",event-hold-us=100001", "event-hold-us");
    assert_refused(",busy-poll-us=100001", "busy-poll-us");
    assert_refused(",vectors=0", "vectors");
    assert_refused(",vectors=4000", "vectors");
    assert_refused(",doorbell-pages=3", "doorbell-pages");
    assert_refused(",fabric=nobody", "nobody");
    assert_refused(",netdev=nobody", "nobody");
    assert_refused(",nonsense=1", "nonsense");
}

/* What the user's objects are called is no concern of the device's threads. */
static void test_thread_names(void)
{
    Rnic *r = rnic_boot(",io-threads=2", "-object iothread,id=rnic-io0 "
                        "-object iothread,id=rnic-io1");

    rnic_up(r);
    rnic_quit(r);
}

/* A device that is FATAL writes nothing, whatever its threads are at. */
static void test_fatal_in_full_traffic(void)
{
    Crowd *crowd = crowd_new("", 1);
    Rnic *r = crowd->sender;
    size_t size = r->async_eq.depth * sizeof(struct rnic_aeqe);
    g_autofree uint8_t *before = g_malloc(size), *after = g_malloc(size);

    crowd_connect(crowd, 8);
    crowd_send(crowd);
    crowd_assert_busy(crowd);
    /* Every QP has an event to tell of while the device stops. */
    rnic_reset(crowd->listener);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 0x10000000);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED | RNIC_STATUS_FATAL);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_HEALTH), ==,
                    RNIC_HEALTH_ADMIN_TAIL);
    rnic_settle_fast(r);
    rnic_mem_read(r, r->async_eq.memory + RNIC_QUEUE_RECORD_SIZE, before,
                  size);
    rnic_up(crowd->listener);
    rnic_settle(crowd->listener);
    rnic_mem_read(r, r->async_eq.memory + RNIC_QUEUE_RECORD_SIZE, after, size);
    g_assert_cmpmem(before, size, after, size);
    rnic_up(r);
    rnic_assert_alive(r);
    crowd_forget_sender(crowd);
    crowd_free(crowd);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/bring-up/manual", test_manual);
    qtest_add_func("rnic/bring-up/object-order", test_object_order);
    qtest_add_func("rnic/bring-up/enable-refused", test_enable_refused);
    qtest_add_func("rnic/bring-up/not-enabled", test_not_enabled);
    qtest_add_func("rnic/bring-up/enabled-is-fixed", test_enabled_is_fixed);
    qtest_add_func("rnic/bring-up/fatal", test_fatal);
    qtest_add_func("rnic/bring-up/no-bus-master", test_no_bus_master);
    qtest_add_func("rnic/bring-up/fatal-eq", test_fatal_eq);
    qtest_add_func("rnic/bring-up/control-reset", test_control_reset);
    qtest_add_func("rnic/bring-up/flr", test_flr);
    qtest_add_func("rnic/bring-up/bus-reset", test_bus_reset);
    qtest_add_func("rnic/bring-up/reset-often", test_reset_often);
    qtest_add_func("rnic/bring-up/bad-properties", test_bad_properties);
    qtest_add_func("rnic/bring-up/thread-names", test_thread_names);
    qtest_add_func("rnic/bring-up/fatal-in-full-traffic",
                   test_fatal_in_full_traffic);
    return g_test_run();
}
