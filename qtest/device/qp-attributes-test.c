/*
 * rnic: the attributes of QPs, each with a value of its own: as asked for, as
 * answered, as queried, and as used; which PD goes with what
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/llp.h"
#include "tests/qtest/rnic/lib/resize.h"
#include "tests/qtest/rnic/lib/stags.h"

/* ------------------------------------------------------------------- depths */

/* CREATE_QP, @sqe made by rnic_qp_command() for @qp; the QP is usable then. */
static struct rnic_admin_cqe create(Rnic *r, struct rnic_admin_sqe *sqe,
                                    RnicQp *qp)
{
    struct rnic_admin_cqe cqe;

    g_assert_cmpuint(rnic_admin(r, sqe, &cqe), ==, RNIC_ST_OK);
    qp->number = le32_to_cpu(cqe.number);
    return cqe;
}

/* As many WRs as were granted, in both queues; all of them come back. */
static void check_depths(Rnic *r, uint32_t sq_depth, uint32_t rq_depth)
{
    RnicCq send_cq, recv_cq;
    RnicQpInit init;
    RnicQp qp;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    struct rnic_qp_attr attr;
    RnicWr wr = { .opcode = RNIC_SQ_SEND };

    rnic_create_cq(r, &send_cq, 128, RNIC_NO_VECTOR);
    rnic_create_cq(r, &recv_cq, 128, RNIC_NO_VECTOR);
    init = rnic_qp_default(r, &send_cq, &recv_cq);
    init.sq_depth = sq_depth;
    init.rq_depth = rq_depth;
    sqe = rnic_qp_command(r, &init, &qp);
    cqe = create(r, &sqe, &qp);
    attr = rnic_query_qp(r, &qp);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, sq_depth);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, rq_depth);
    g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, sq_depth);
    g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, rq_depth);
    for (unsigned i = 0; i < sq_depth; i++) {
        wr.wr_id = i;
        rnic_post_send(r, &qp, &wr);
    }
    for (unsigned i = 0; i < rq_depth; i++) {
        rnic_post_recv(r, &qp, i, 0, NULL);
    }
    rnic_settle(r);
    rnic_expect_no_cqe(r, &send_cq);
    rnic_expect_no_cqe(r, &recv_cq);
    g_assert_cmpuint(rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    for (unsigned i = 0; i < sq_depth; i++) {
        rnic_expect_cqe(r, &send_cq, i, RNIC_WC_FLUSHED);
    }
    for (unsigned i = 0; i < rq_depth; i++) {
        rnic_expect_cqe(r, &recv_cq, i, RNIC_WC_FLUSHED);
    }
    rnic_expect_no_cqe(r, &send_cq);
    rnic_expect_no_cqe(r, &recv_cq);
    rnic_expect_no_async(r);
}

static void test_depths(void)
{
    Rnic *r = rnic_boot_up("");

    check_depths(r, 8, 64);
    check_depths(r, 64, 1);
    check_depths(r, 16, 32);
    rnic_quit(r);
    rnic_shows("V6.1.1-2 V9.2.5.1-2 V9.2.5.2-2");
}

/* --------------------------------------------------------------------- SGEs */

enum { SEND_SGE = 2, WRITE_SGE = 3, RECV_SGE = 5 };

/* c->qp becomes one with three different maxima. */
static void prepare_sges(Connection *c)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe;
    struct rnic_qp_attr attr;

    init.rq_shift = RNIC_RQ_MAX_WQE_SHIFT;
    init.max_sge = RECV_SGE;
    sqe = rnic_qp_command(c->r, &init, &c->qp);
    sqe.create_qp.max_send_sge = SEND_SGE;
    sqe.create_qp.max_write_sge = WRITE_SGE;
    sqe.create_qp.max_recv_sge = RECV_SGE;
    create(c->r, &sqe, &c->qp);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpuint(attr.max_send_sge, ==, SEND_SGE);
    g_assert_cmpuint(attr.max_write_sge, ==, WRITE_SGE);
    g_assert_cmpuint(attr.max_recv_sge, ==, RECV_SGE);
}

static void test_sges(void)
{
    static const struct {
        uint8_t opcode, most;
    } queues[] = {
        { RNIC_SQ_SEND, SEND_SGE }, { RNIC_SQ_RDMA_WRITE, WRITE_SGE },
        { 0, RECV_SGE },
    };
    Connection *c = connection_prepare(NULL);
    uint8_t got[64];

    prepare_sges(c);
    for (unsigned i = 0; i < G_N_ELEMENTS(queues); i++) {
        for (int over = 0; over < 2; over++) {
            RnicWr wr = connection_wr(c, queues[i].opcode, 1, 0, 4);

            connection_establish(c, NULL);
            wr.num_sge = queues[i].most + over;
            for (unsigned at = 1; at < wr.num_sge; at++) {
                wr.sge[at] = rnic_sge(&c->mr, at * 100, 4);
            }
            if (queues[i].opcode) {
                rnic_post_send(c->r, &c->qp, &wr);
            } else {
                rnic_post_recv(c->r, &c->qp, 1, wr.num_sge, wr.sge);
                memset(got, 9, sizeof(got));
                wire_put_send(c->peer, WIRE_SEND, 0, got, 4 * RECV_SGE);
            }
            if (over) {
                wire_expect_terminate(c->peer, 0);
            } else if (queues[i].opcode == RNIC_SQ_SEND) {
                g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, 64),
                                 ==, 4 * SEND_SGE);
            } else if (queues[i].opcode) {
                g_assert_cmpuint(connection_get_write(c, 0, got, 64), ==,
                                 4 * WRITE_SGE);
            }
            rnic_expect_cqe(c->r, queues[i].opcode ? &c->send_cq : &c->recv_cq,
                            1, over ? RNIC_WC_INVALID_WQE : RNIC_WC_SUCCESS);
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("V9.2.5.1-3 V9.2.5.2-2");
}

/* ------------------------------------------------------- state, ids, enables */

static void assert_identity(Connection *c, uint8_t state, uint32_t pd,
                            uint32_t enables)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    g_assert_cmpint(attr.state, ==, state);
    g_assert_cmphex(le32_to_cpu(attr.qpn), ==, c->qp.number);
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, pd);
    g_assert_cmphex(le32_to_cpu(attr.send_cqn), ==, c->send_cq.number);
    g_assert_cmphex(le32_to_cpu(attr.recv_cqn), ==, c->recv_cq.number);
    g_assert_cmphex(le32_to_cpu(attr.enables), ==, enables);
}

static void to_state(Connection *c, uint8_t state)
{
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, state), ==,
                     RNIC_ST_OK);
}

static void test_query(void)
{
    static const uint32_t bits[] = {
        RNIC_QP_PRIVILEGED, RNIC_QP_ENABLE_READ, RNIC_QP_ENABLE_WRITE,
        RNIC_QP_ENABLE_BIND,
    };
    Connection *c = connection_prepare(NULL);
    uint32_t pd = rnic_alloc_pd(c->r), stream;

    for (unsigned mask = 0; mask < 16; mask++) {
        RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
        uint8_t state = mask % 5;

        init.pd = pd;
        init.enables = 0;
        for (unsigned bit = 0; bit < 4; bit++) {
            init.enables |= mask & 1u << bit ? bits[bit] : 0;
        }
        rnic_create_qp(c->r, &c->qp, &init);
        assert_identity(c, RNIC_QPS_IDLE, pd, init.enables);
        if (state != RNIC_QPS_IDLE) {
            connection_establish(c, NULL);
        }
        if (state != RNIC_QPS_IDLE && state != RNIC_QPS_RTS) {
            to_state(c, state);
        }
        assert_identity(c, state, pd, init.enables);
        /* The stream is the QP's until Error, and by one handle. */
        if (state == RNIC_QPS_RTS) {
            stream = rnic_query_qp(c->r, &c->qp).llp_stream;
            g_assert_cmphex(stream, !=, 0);
            to_state(c, RNIC_QPS_TERMINATE);
            g_assert_cmphex(rnic_query_qp(c->r, &c->qp).llp_stream, ==,
                            stream);
        } else {
            g_assert_cmpint(rnic_query_qp(c->r, &c->qp).llp_stream != 0, ==,
                            state == RNIC_QPS_CLOSING ||
                            state == RNIC_QPS_TERMINATE);
        }
        if (state != RNIC_QPS_IDLE) {
            connection_recycle(c);
            assert_identity(c, RNIC_QPS_IDLE, pd, init.enables);
        }
    }
    connection_free(c);
    rnic_shows("V9.2.5.2-4 V9.2.5.2-7");
}

/* ------------------------------------- every attribute, in every state */

enum { ALL_IRD = 5, ALL_ORD = 3, ALL_SQ = 32, ALL_RQ = 16, ALL_LIMIT = 9 };

/* No two attributes of a kind are equal, and none is the default. */
static void prepare_all(Connection *c, uint32_t pd, const RnicSrq *srq)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_admin_sqe sqe;

    init.pd = pd;
    init.sq_depth = ALL_SQ;
    init.rq_depth = ALL_RQ;
    init.rq_shift = RNIC_RQ_MAX_WQE_SHIFT;
    init.max_sge = RECV_SGE;
    init.ird = ALL_IRD;
    init.ord = ALL_ORD;
    init.enables = RNIC_QP_PRIVILEGED | RNIC_QP_ENABLE_WRITE;
    init.srq = srq;
    init.rq_limit = srq ? ALL_LIMIT : 0;
    sqe = rnic_qp_command(c->r, &init, &c->qp);
    sqe.create_qp.max_send_sge = SEND_SGE;
    sqe.create_qp.max_write_sge = WRITE_SGE;
    sqe.create_qp.max_recv_sge = srq ? 0 : RECV_SGE;
    create(c->r, &sqe, &c->qp);
}

static void assert_all(Connection *c, uint8_t state, uint32_t pd,
                       const RnicSrq *srq)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    assert_identity(c, state, pd, RNIC_QP_PRIVILEGED | RNIC_QP_ENABLE_WRITE);
    g_assert_cmphex(le32_to_cpu(attr.srqn), ==, srq ? srq->number : 0);
    g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, ALL_SQ);
    g_assert_cmpuint(attr.max_send_sge, ==, SEND_SGE);
    g_assert_cmpuint(attr.max_write_sge, ==, WRITE_SGE);
    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, ALL_IRD);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, ALL_ORD);
    if (srq) {
        g_assert_cmpuint(le32_to_cpu(attr.rq_limit), ==, ALL_LIMIT);
        g_assert_cmpuint(attr.rq_limit_armed, ==, 1);
    } else {
        g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, ALL_RQ);
        g_assert_cmpuint(attr.max_recv_sge, ==, RECV_SGE);
    }
}

static void check_query_everywhere(Rnic *r, const RnicSrq *srq)
{
    const ConnectionOptions options = {
        .ird = ALL_IRD, .ord = ALL_ORD, .srq = srq };
    Connection *c = connection_prepare_on(r, &options);
    uint32_t pd = srq ? r->pd : rnic_alloc_pd(r);

    for (uint8_t state = 0; state < 5; state++) {
        prepare_all(c, pd, srq);
        assert_all(c, RNIC_QPS_IDLE, pd, srq);
        if (state != RNIC_QPS_IDLE) {
            connection_establish(c, &options);
        }
        if (state != RNIC_QPS_IDLE && state != RNIC_QPS_RTS) {
            to_state(c, state);
        }
        assert_all(c, state, pd, srq);
        if (state != RNIC_QPS_IDLE) {
            connection_recycle(c);
            assert_all(c, RNIC_QPS_IDLE, pd, srq);
        }
    }
    connection_free_second(c);
}

static void test_query_everywhere(void)
{
    Rnic *r = rnic_boot_up(",mpa-rtr=off");
    RnicSrqInit init = rnic_srq_default(r);
    RnicSrq other, srq;

    rnic_create_srq(r, &other, &init);
    rnic_create_srq(r, &srq, &init);
    check_query_everywhere(r, NULL);
    check_query_everywhere(r, &srq);
    rnic_quit(r);
    rnic_shows("V6.1.2-1");
}

/* -------------------------------------------------------------- IRD and ORD */

static struct rnic_admin_cqe modify(Connection *c, uint32_t mask, uint16_t ird,
                                    uint16_t ord)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    struct rnic_admin_cqe cqe;

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(mask);
    sqe.modify_qp.ird = cpu_to_le16(ird);
    sqe.modify_qp.ord = cpu_to_le16(ord);
    rnic_admin(c->r, &sqe, &cqe);
    return cqe;
}

/* What a command answers is what the query says afterwards. */
static void assert_in_force(Connection *c, const struct rnic_admin_cqe *cqe)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    g_assert_cmpuint(le16_to_cpu(cqe->status), ==, RNIC_ST_OK);
    g_assert_cmpuint(cqe->qp.sq_depth, ==, attr.sq_depth);
    g_assert_cmpuint(cqe->qp.rq_depth, ==, attr.rq_depth);
    g_assert_cmpuint(cqe->qp.ird, ==, attr.ird);
    g_assert_cmpuint(cqe->qp.ord, ==, attr.ord);
    g_assert_cmpuint(cqe->qp.state, ==, attr.state);
}

static void assert_read_resources(Connection *c, uint16_t ird, uint16_t ord)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, ird);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, ord);
}

/* From the creation on as asked for: nothing, one, as many as there can be. */
static void test_read_resources(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_device_attr device = rnic_query_device(c->r);
    const uint16_t irds[] = { 0, 1, 7, le32_to_cpu(device.max_ird) };
    const uint16_t ords[] = { 1, 0, 3, le32_to_cpu(device.max_ord) };

    for (unsigned i = 0; i < G_N_ELEMENTS(irds); i++) {
        RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
        struct rnic_admin_sqe sqe;
        struct rnic_admin_cqe cqe;

        init.ird = irds[i];
        init.ord = ords[i];
        init.sq_depth = 16;
        init.rq_depth = 128;
        sqe = rnic_qp_command(c->r, &init, &c->qp);
        cqe = create(c->r, &sqe, &c->qp);
        g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, irds[i]);
        g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, ords[i]);
        g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, 16);
        g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, 128);
        assert_in_force(c, &cqe);
        assert_read_resources(c, irds[i], ords[i]);
        cqe = modify(c, RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD, 5, 6);
        assert_in_force(c, &cqe);
        assert_read_resources(c, 5, 6);
        cqe = modify(c, RNIC_QP_MODIFY_ORD, 0, ords[i]);
        assert_in_force(c, &cqe);
        assert_read_resources(c, 5, ords[i]);
    }
    connection_free(c);
    rnic_shows("V6.5-6 V9.2.5.1-9 V9.2.5.1-10 V9.2.5.2-3 V9.2.5.3-13");
}

/* Later: IRD while in Idle only, ORD down while connected, and up again. */
static void test_read_resources_later(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_cqe cqe;
    WireRead read;

    cqe = modify(c, RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD, 9, 9);
    assert_in_force(c, &cqe);
    assert_read_resources(c, 9, 9);
    cqe = modify(c, RNIC_QP_MODIFY_IRD, 2, 0);
    assert_in_force(c, &cqe);
    assert_read_resources(c, 2, 9);
    cqe = modify(c, RNIC_QP_MODIFY_IRD | RNIC_QP_MODIFY_ORD, 4, 4);
    connection_establish(c, NULL);
    for (int more = 0; more < 2; more++) {
        cqe = modify(c, RNIC_QP_MODIFY_IRD, more ? 8 : 1, 0);
        g_assert_cmpuint(le16_to_cpu(cqe.status), ==,
                         RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
        assert_read_resources(c, 4, 4);
    }
    cqe = modify(c, RNIC_QP_MODIFY_ORD, 0, 2);
    assert_in_force(c, &cqe);
    assert_read_resources(c, 4, 2);
    cqe = modify(c, RNIC_QP_MODIFY_ORD, 0, 3);
    assert_in_force(c, &cqe);
    assert_read_resources(c, 4, 3);
    /* It is what the wire sees. */
    for (int i = 0; i < 4; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, i, 0, 0);
    }
    for (int i = 0; i < 3; i++) {
        wire_get_read_request(c->peer, i + 1, &read);
    }
    wire_expect_silence(c->peer);
    connection_free(c);
    rnic_shows("V6.5-8 V9.2.5.3-7");
}

/* A Read Request of @size octets at @offset, whose response names @sink. */
static void put_read(Connection *c, uint32_t sink, uint64_t offset,
                     uint32_t size)
{
    wire_put_read_request(c->peer, &(WireRead) {
        .sink_stag = sink, .size = size, .source_stag = c->mr.stag,
        .source_to = c->mr.va + offset });
}

enum { BLOCKING_READ = 16 * 1024 * 1024 };

/*
 * As many Read Requests as IRD are there at once, since the response to the first does
 * not fit into the stream: all are answered, in order, and one more is refused.
 */
static void check_irrq(Connection *c, const RnicMr *large, unsigned ird,
                       bool exceed)
{
    g_autofree uint8_t *got = g_malloc(BLOCKING_READ);
    WireTerminate t;

    wire_put_read_request(c->peer, &(WireRead) {
        .sink_stag = 1, .size = BLOCKING_READ, .source_stag = large->stag,
        .source_to = large->va });
    for (unsigned i = 1; i < ird + exceed; i++) {
        put_read(c, 1 + i, 16 * i, i);
    }
    if (exceed) {
        rnic_expect_async(c->r, RNIC_AE_IRRQ_TOO_MANY, c->qp.number);
        wire_skip_to_terminate(c->peer, &t);
        g_assert_cmphex(t.code, ==, 0x1202);
        return;
    }
    rnic_settle(c->r);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 1, 0, got,
                                     BLOCKING_READ), ==, BLOCKING_READ);
    for (unsigned i = 1; i < ird; i++) {
        g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 1 + i, 0,
                                         got, 64), ==, i);
        for (unsigned at = 0; at < i; at++) {
            g_assert_cmphex(got[at], ==, i);
        }
    }
    rnic_expect_no_async(c->r);
}

/* IRD as the QP was created with, and as it was modified to while in Idle. */
static void test_irrq_depth(void)
{
    static const struct {
        uint16_t created, modified;
    } cases[] = { { 3, 3 }, { 6, 6 }, { 1, 4 }, { 8, 2 }, { 0, 2 } };
    Connection *c = connection_prepare(NULL);
    RnicMr large;

    rnic_create_mr(c->r, &large, c->r->pd, BLOCKING_READ,
                   RNIC_TEST_ACCESS_ALL);
    for (unsigned i = 0; i < 16; i++) {
        rnic_mem_fill(c->r, c->mr.bus + 16 * i, i, 16);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
        uint16_t ird = cases[i].modified;
        const ConnectionOptions options = { .ird = ird };

        init.ird = cases[i].created;
        rnic_create_qp(c->r, &c->qp, &init);
        if (ird != cases[i].created) {
            struct rnic_admin_cqe cqe = modify(c, RNIC_QP_MODIFY_IRD, ird, 0);

            assert_in_force(c, &cqe);
        }
        for (int exceed = 0; exceed < 2; exceed++) {
            connection_establish(c, &options);
            g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==,
                             ird);
            check_irrq(c, &large, ird, exceed);
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("V6-1 V6-2");
}

/*
 * Changed twice before there is a stream, which is one without MPA start-up, so that
 * nothing else is agreed on: what was said last is in force.
 */
static void test_idle_to_idle(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    WireRead read;
    uint32_t stream;
    uint8_t got[8];

    for (int round = 0; round < 2; round++) {
        bool writes = round;

        for (int last = 0; last < 2; last++) {
            sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
            sqe.modify_qp.mask = cpu_to_le32(
                RNIC_QP_MODIFY_STATE | RNIC_QP_MODIFY_IRD |
                RNIC_QP_MODIFY_ORD | RNIC_QP_MODIFY_ENABLES);
            sqe.modify_qp.next_state = RNIC_QPS_IDLE;
            sqe.modify_qp.ird = cpu_to_le16(last ? 6 : 1);
            sqe.modify_qp.ord = cpu_to_le16(last ? 2 : 7);
            sqe.modify_qp.enables = cpu_to_le32(writes == last
                                                ? RNIC_QP_ENABLE_WRITE
                                                : RNIC_QP_ENABLE_READ);
            g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_OK);
            g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_IDLE);
        }
        stream = llp_connect(c->r, 1, &c->peer);
        g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, NULL, 0), ==,
                         RNIC_ST_OK);
        assert_read_resources(c, 6, 2);
        if (writes) {
            wire_put_write(c->peer, c->mr.stag, c->mr.va, "written!", 8);
            put_read(c, 9, 0, 8);
            wire_expect_terminate(c->peer, 0x1201);
            connection_peek(c, 0, got, 8);
            g_assert_cmpmem(got, 8, "written!", 8);
        } else {
            for (int i = 0; i < 3; i++) {
                connection_post(c, RNIC_SQ_RDMA_READ, i, 0, 8);
            }
            wire_get_read_request(c->peer, 1, &read);
            wire_get_read_request(c->peer, 2, &read);
            wire_expect_silence(c->peer);
            put_read(c, 9, 0, 8);
            wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 9, 0, got, 8);
            wire_put_write(c->peer, c->mr.stag, c->mr.va, "intruder", 8);
            wire_expect_terminate(c->peer, 0x1102);
        }
        connection_recycle(c);
    }
    connection_free(c);
    rnic_shows("V6.2.1.1-1");
}

/* ORD goes down with Reads under way: the neighbour's are as before. */
static void test_ord_under_load(void)
{
    Connection *a = connection_new(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    struct rnic_admin_cqe cqe;
    WireRead reads[4], read;

    connection_establish(b, NULL);
    for (int i = 0; i < 8; i++) {
        connection_post(a, RNIC_SQ_RDMA_READ, i, 0, 8);
    }
    for (int i = 0; i < 4; i++) {
        wire_get_read_request(a->peer, i + 1, &reads[i]);
    }
    cqe = modify(a, RNIC_QP_MODIFY_ORD, 0, 1);
    g_assert_cmpuint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    assert_read_resources(b, 4, 4);
    for (int i = 0; i < 4; i++) {
        connection_post(b, RNIC_SQ_RDMA_READ, i, 0, 8);
    }
    for (int i = 0; i < 4; i++) {
        wire_get_read_request(b->peer, i + 1, &reads[i]);
    }
    for (int i = 0; i < 4; i++) {
        uint8_t got[8];

        wire_put_read_response(b->peer, reads[i].sink_stag, reads[i].sink_to,
                               "neighbor", 8);
        rnic_expect_cqe(b->r, &b->send_cq, i, RNIC_WC_SUCCESS);
        connection_peek(b, 0, got, 8);
        g_assert_cmpmem(got, 8, "neighbor", 8);
        wire_put_read_request(b->peer, &(WireRead) {
            .size = 8, .source_stag = b->mr.stag, .source_to = b->mr.va });
        wire_get_tagged(b->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    }
    rnic_expect_no_async(a->r);
    g_assert_cmpuint(rnic_admin_object(a->r, RNIC_ADMIN_DESTROY_QP,
                                       a->qp.number), ==, RNIC_ST_OK);
    connection_post(b, RNIC_SQ_RDMA_READ, 9, 0, 0);
    wire_get_read_request(b->peer, 5, &read);
    wire_put_read_response(b->peer, read.sink_stag, read.sink_to, NULL, 0);
    rnic_expect_cqe(b->r, &b->send_cq, 9, RNIC_WC_SUCCESS);
    connection_free_second(b);
    connection_free(a);
    rnic_shows("V6.5-9");
}

/* As many QPs as there are, each with a Read each way; the last one uses them. */
static void test_reads_for_all(void)
{
    enum { QPS = 20 };
    ConnectionOptions options = {
        .properties = ",max-qp=20", .ird = 1, .ord = 1 };
    Connection *c = connection_prepare(&options);
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    struct rnic_device_attr device = rnic_query_device(c->r);
    uint8_t got[8];
    WireRead read;

    g_assert_cmpuint(le32_to_cpu(device.max_qp), ==, QPS);
    g_assert_cmpuint(le32_to_cpu(device.max_ird), >=, 1);
    g_assert_cmpuint(le32_to_cpu(device.max_ord), >=, 1);
    init.ird = init.ord = 1;
    for (int i = 1; i < QPS; i++) {
        rnic_create_qp(c->r, &c->qp, &init);
        assert_read_resources(c, 1, 1);
    }
    connection_establish(c, &options);
    assert_read_resources(c, 1, 1);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V6.5-10");
}

/* ------------------------------------------------ attributes of transitions */

enum { ORD, IRD, ENABLES, DEPTHS, ATTRIBUTES };

enum { ALONE = 0xff };          /* no change of state is asked for */

/* MODIFY_QP of one attribute, and in *@attr what it is to be then. */
static struct rnic_admin_sqe one_attribute(Connection *c, int attribute,
                                           struct rnic_qp_attr *attr)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    RnicQp next;

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    switch (attribute) {
    case ORD:
        sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD);
        sqe.modify_qp.ord = attr->ord = cpu_to_le16(3);
        break;
    case IRD:
        sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_IRD);
        sqe.modify_qp.ird = attr->ird = cpu_to_le16(5);
        break;
    case ENABLES:
        sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES);
        sqe.modify_qp.enables = attr->enables =
            cpu_to_le32(RNIC_QP_ENABLE_WRITE);
        break;
    case DEPTHS:
        sqe = resize_qp_command(c->r, &c->qp, 128, 64, &next);
        attr->sq_depth = cpu_to_le32(128);
        attr->rq_depth = cpu_to_le32(64);
    }
    return sqe;
}

/* A new QP, in @state; the peer has got what it sends on its way there. */
static void new_qp_in(Connection *c, uint8_t state)
{
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);

    rnic_create_qp(c->r, &c->qp, &init);
    if (state == RNIC_QPS_IDLE) {
        return;
    }
    connection_establish(c, NULL);
    if (state == RNIC_QPS_RTS) {
        return;
    }
    to_state(c, state);
    if (state == RNIC_QPS_TERMINATE) {
        wire_expect_terminate(c->peer, 0);
    }
    wire_expect_end(c->peer);
    if (state == RNIC_QPS_ERROR) {
        rnic_wait_qp_state(c->r, &c->qp, state);
        rnic_settle(c->r);
    }
}

/*
 * Each attribute with each transition, and without one: as the state tables say it is
 * changed, and no other, or else nothing is done.
 */
static void test_each_transition(void)
{
    enum { C = RNIC_ST_CANNOT_CHANGE_ATTRIBUTE,
           S = RNIC_ST_INVALID_STATE_CHANGE };
    static const struct {
        uint8_t from, to;
        uint16_t status[ATTRIBUTES];
    } cases[] = {
        { RNIC_QPS_IDLE, ALONE, { 0, 0, 0, 0 } },
        { RNIC_QPS_IDLE, RNIC_QPS_IDLE, { 0, 0, 0, 0 } },
        { RNIC_QPS_IDLE, RNIC_QPS_ERROR, { C, C, C, C } },
        { RNIC_QPS_RTS, ALONE, { 0, C, 0, 0 } },
        { RNIC_QPS_RTS, RNIC_QPS_RTS, { 0, C, 0, 0 } },
        { RNIC_QPS_RTS, RNIC_QPS_CLOSING, { C, C, C, C } },
        { RNIC_QPS_RTS, RNIC_QPS_TERMINATE, { C, C, C, C } },
        { RNIC_QPS_RTS, RNIC_QPS_ERROR, { C, C, C, C } },
        { RNIC_QPS_CLOSING, ALONE, { S, S, S, S } },
        { RNIC_QPS_TERMINATE, ALONE, { S, S, S, S } },
        { RNIC_QPS_ERROR, ALONE, { C, C, C, C } },
        { RNIC_QPS_ERROR, RNIC_QPS_IDLE, { C, C, C, C } },
    };
    Connection *c = connection_prepare(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        for (int attribute = 0; attribute < ATTRIBUTES; attribute++) {
            struct rnic_qp_attr before, expected, after;
            struct rnic_admin_sqe sqe;

            new_qp_in(c, cases[i].from);
            before = expected = rnic_query_qp(c->r, &c->qp);
            sqe = one_attribute(c, attribute, &expected);
            g_assert_cmpint(memcmp(&before, &expected, sizeof(before)), !=, 0);
            if (cases[i].to != ALONE) {
                sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_STATE);
                sqe.modify_qp.next_state = cases[i].to;
            }
            g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==,
                             cases[i].status[attribute]);
            after = rnic_query_qp(c->r, &c->qp);
            g_assert_cmpmem(&after, sizeof(after),
                            cases[i].status[attribute] ? &before : &expected,
                            sizeof(before));
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("V9.2.5.3-1 V9.2.5.3-2");
}

/* ---------------------------------------------------------------------- PDs */

/* Two of each kind; each says that the PD is its one. */
static void use_pd(Rnic *r, uint32_t pd, RnicCq *cq)
{
    for (int i = 0; i < 2; i++) {
        RnicSrqInit srq_init = rnic_srq_default(r);
        RnicQpInit init = rnic_qp_default(r, cq, cq);
        StagRegion region = stag_region(r, 1);
        RnicSrq srq;
        RnicQp qp;
        uint32_t stag;

        init.pd = srq_init.pd = region.pd = pd;
        rnic_create_qp(r, &qp, &init);
        g_assert_cmphex(le32_to_cpu(rnic_query_qp(r, &qp).pdn), ==, pd);
        rnic_create_srq(r, &srq, &srq_init);
        g_assert_cmphex(le32_to_cpu(rnic_query_srq(r, &srq).srq.pdn), ==, pd);
        stag_register(r, &region);
        g_assert_cmphex(le32_to_cpu(stag_query_mr(r, region.stag).pdn), ==,
                        pd);
        stag = stag_alloc(r, pd, 1, 1, true);
        g_assert_cmphex(le32_to_cpu(stag_query_mr(r, stag).pdn), ==, pd);
        stag = stag_alloc_mw(r, pd, 1);
        g_assert_cmphex(le32_to_cpu(stag_query_mw(r, stag).pdn), ==, pd);
    }
}

static void test_pds(void)
{
    enum { PDS = 9 };
    Rnic *r = rnic_boot_up(",max-pd=9");
    uint32_t pds[PDS] = { r->pd };
    RnicCq cq;

    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    for (int i = 1; i < PDS; i++) {
        pds[i] = rnic_alloc_pd(r);
    }
    use_pd(r, pds[0], &cq);
    use_pd(r, pds[PDS / 2], &cq);
    use_pd(r, pds[PDS - 1], &cq);
    rnic_quit(r);
    rnic_shows("V5.2-4 V9.2.4.2-1 V9.2.6.3-1 V9.2.6.8-1");
}

/* Two QPs, two regions and two windows of one PD, each with each. */
static void test_pd_shared(void)
{
    Connection *each[2];
    StagRegion regions[2];
    uint8_t got[4];
    Rnic *r;

    each[0] = connection_new(&stag_options);
    r = each[0]->r;
    each[1] = connection_prepare_second(each[0], &stag_options);
    connection_establish(each[1], &stag_options);
    for (int i = 0; i < 2; i++) {
        regions[i] = stag_region(r, 1);
        stag_register(r, &regions[i]);
        g_assert_cmphex(le32_to_cpu(rnic_query_qp(r, &each[i]->qp).pdn), ==,
                        r->pd);
        g_assert_cmphex(le32_to_cpu(stag_query_mr(r, regions[i].stag).pdn),
                        ==, r->pd);
    }
    for (int q = 0; q < 2; q++) {
        for (int m = 0; m < 2; m++) {
            StagBind bind = stag_window(stag_alloc_mw(r, r->pd, q), &regions[m],
                                        regions[m].va, 8,
                                        RNIC_ACCESS_REMOTE_READ |
                                        RNIC_ACCESS_REMOTE_WRITE);

            g_assert_cmphex(le32_to_cpu(stag_query_mw(r, bind.mw).pdn), ==,
                            r->pd);
            g_assert_cmpuint(stag_bind(each[q], &bind), ==, RNIC_WC_SUCCESS);
            stag_peer_writes(each[q], bind.mw, bind.va, q ? "1window" :
                             "0window", 4);
            stag_peer_reads(each[!q], regions[m].stag, regions[m].va, got, 4);
            g_assert_cmpmem(got, 4, q ? "1win" : "0win", 4);
            stag_dealloc(r, bind.mw);
        }
    }
    connection_free_second(each[1]);
    connection_free(each[0]);
    rnic_shows("V5.2-3");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/qp-attributes/depths", test_depths);
    qtest_add_func("rnic/qp-attributes/sges", test_sges);
    qtest_add_func("rnic/qp-attributes/query", test_query);
    qtest_add_func("rnic/qp-attributes/query-everywhere",
                   test_query_everywhere);
    qtest_add_func("rnic/qp-attributes/read-resources", test_read_resources);
    qtest_add_func("rnic/qp-attributes/read-resources-later",
                   test_read_resources_later);
    qtest_add_func("rnic/qp-attributes/irrq-depth", test_irrq_depth);
    qtest_add_func("rnic/qp-attributes/idle-to-idle", test_idle_to_idle);
    qtest_add_func("rnic/qp-attributes/ord-under-load", test_ord_under_load);
    qtest_add_func("rnic/qp-attributes/reads-for-all", test_reads_for_all);
    qtest_add_func("rnic/qp-attributes/each-transition", test_each_transition);
    qtest_add_func("rnic/qp-attributes/pds", test_pds);
    qtest_add_func("rnic/qp-attributes/pd-shared", test_pd_shared);
    return g_test_run();
}
